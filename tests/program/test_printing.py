"""The printed form of Programs: layout, names, literals, constants, colours, sources."""

import io

import numpy as np
import pytest
from counting import calls_made
from random_programs import PRIMITIVES, Numbers, Precision, Settings, note

import pullback as pb
from pullback.core.array import Array
from pullback.core.dtypes import DTYPES
from pullback.core.source import RecordedSource
from pullback.core.types import array_type
from pullback.ops.arithmetic import mul
from pullback.program.printing import (
    ANSI,
    HTML,
    RESERVED,
    byte_size,
    implied_literal_type,
    program_text,
    value_text,
    variable_names,
)
from pullback.program.program import Equation, Literal, Program, Variable
from pullback.transforms.stage import stage

F32 = DTYPES["float32"]
SCALAR, VECTOR, MATRIX = array_type((), F32), array_type((5,), F32), array_type((3, 5), F32)


def one(primitive, inputs, *outputs, **params):
    return Equation(PRIMITIVES[primitive], tuple(inputs), outputs, params)


def test_a_staged_function_prints_as_its_equations():
    program, _ = stage(lambda x: [mul(mul(x, 2.0), x)], [VECTOR])
    assert str(program) == (
        "{ lambda (a:f32[5]:cpu(0)) ;\n  let\n    b:f32[5]:cpu(0) = mul a 2.0\n    c:f32[5]:cpu(0) = mul b a\n  in c }"
    )


def test_inputs_outputs_parameters_constants_and_inner_programs():
    u, v, a, c, d, e = (Variable(VECTOR) for _ in range(6))
    b, k = Variable(array_type((), DTYPES["int32"], True)), Variable(array_type((2,), F32))
    inner = Program([u], [one("mul", [u, u], v)], [v])
    equations = [one("pair", [a], c, d, value=(1, "x")), one("call", [c], e, program=inner), one("no-thing", [e])]
    literals = [
        Literal(Array(array_type((), F32, True), np.float32(2))),
        Literal(Array(array_type((), DTYPES["int8"]), np.int8(3))),
    ]
    program = Program([a, b], equations, [e, b, *literals], [(k, Array(k.type, np.array([1.0, -0.5], np.float32)))])
    assert str(program) == (
        "{ lambda (a:f32[5]:cpu(0), b:~i32[]:cpu(0)) ;\n"
        "  where\n"
        "    c:f32[2]:cpu(0) = [1.0, -0.5]\n"
        "  let\n"
        "    d:f32[5]:cpu(0), _:f32[5]:cpu(0) = pair[value=(1, 'x')] a\n"
        "    e:f32[5]:cpu(0) = call[program={ lambda (a:f32[5]:cpu(0)) ;\n"
        "      let\n"
        "        b:f32[5]:cpu(0) = mul a a\n"
        "      in b }] d\n"
        "    () = 'no-thing' e\n"
        "  in (e, b, 2.0, 3:i8[]) }"
    )


def test_no_inputs_and_no_outputs():
    assert str(Program([], [], [])) == "{ lambda () ;\n  let\n  in () }"


def test_a_program_held_twice_is_written_once():
    a, b, c = (Variable(SCALAR) for _ in range(3))
    inner = Program([a], [], [a])
    text = str(Program([a], [one("call", [a], b, program=inner), one("call", [b], c, program=inner)], [c]))
    assert text.count("lambda") == 2
    assert "    c:f32[]:cpu(0) = call[program=@0] b" in text.split("\n")


def test_names_go_on_after_z_and_avoid_the_words_of_the_grammar():
    names = [name for name, _ in zip(variable_names(), range(30000))]
    assert names[:3] == ["a", "b", "c"]
    assert names[25:28] == ["z", "aa", "ab"]
    assert len(set(names)) == len(names)
    assert not RESERVED & set(names)
    assert "im" in names and "io" in names


@pytest.mark.parametrize(
    "value, first_operand, text",
    [
        (Array(array_type((), F32, True), np.float32(2.0)), VECTOR, "2.0"),
        (Array(array_type((), F32), np.float32(2.0)), VECTOR, "2.0:f32[]"),
        (Array(array_type((), F32, True), np.float32(0.1)), None, "0.1"),
        (Array(array_type((), DTYPES["float64"], True), np.float64(0.1)), None, "0.1:~f64[]"),
        (Array(array_type((), DTYPES["float64"], True), np.float64(0.1)), array_type((), DTYPES["float64"]), "0.1"),
        (Array(array_type((), DTYPES["int32"], True), np.int32(-3)), VECTOR, "-3"),
        (Array(array_type((), DTYPES["uint8"], True), np.uint8(3)), array_type((), DTYPES["uint8"]), "3"),
        (Array(array_type((), DTYPES["bool"], True), np.True_), VECTOR, "True"),
        (Array(array_type((), DTYPES["complex64"], True), np.complex64(complex(-0.0, -1))), VECTOR, "-0.0-1.0j"),
        (Array(array_type((), F32, True), np.float32(-np.inf)), VECTOR, "-inf"),
        (Array(array_type((), F32, True), np.float32(np.nan)), VECTOR, "nan"),
        (Array(array_type((), F32, True), np.float32(1e20)), VECTOR, "1e+20"),
        (Array(array_type((), DTYPES["bfloat16"], True), np.asarray(1).astype(DTYPES["bfloat16"])), None, "1.0:~bf16[]"),
    ],
)
def test_literals_say_their_type_only_where_it_is_not_implied(value, first_operand, text):
    x = Variable(first_operand or value.type)
    out = Variable(x.type)
    operands = (Literal(value),) if first_operand is None else (x, Literal(value))
    program = Program([x], [Equation(note, operands, (out,), {})], [out])
    line = str(program).split("\n")[2]
    assert line.endswith(f" note {text}" if first_operand is None else f" note a {text}")


def test_implied_types_go_by_the_first_operand_only():
    integer, complex_ = array_type((), DTYPES["int32"]), array_type((), DTYPES["complex64"])
    assert implied_literal_type(SCALAR, []) is array_type((), F32, True)
    assert implied_literal_type(integer, [array_type((2,), DTYPES["uint8"])]) is array_type((), DTYPES["uint8"], True)
    assert implied_literal_type(integer, [VECTOR, array_type((), DTYPES["int8"])]) is array_type((), DTYPES["int32"], True)
    assert implied_literal_type(complex_, [VECTOR]) is array_type((), DTYPES["complex64"], True)


@pytest.mark.parametrize(
    "value, text",
    [
        (None, "None"),
        (True, "True"),
        (np.int64(3), "3"),
        (np.float32(0.5), "0.5"),
        (float("nan"), "nan"),
        (-0.0, "-0.0"),
        (1e300, "1e+300"),
        (2j, "0.0+2.0j"),
        ("it's", '"it\'s"'),
        (b"\x00", "b'\\x00'"),
        (np.dtype("float32"), "f32"),
        (DTYPES["bfloat16"], "bf16"),
        (MATRIX, "f32[3,5]"),
        (Precision.HIGH, "Precision.HIGH"),
        (np.sin, "<function sin>"),
        (lambda: 0, "<function lambda>"),
        (object(), "<object>"),
    ],
)
def test_parameter_values(value, text):
    assert value_text(value) == text


def test_records_print_by_field():
    x = Variable(SCALAR)
    params = {"numbers": Numbers((0, 1), "x"), "settings": (Settings(0.5, Precision.LOW),)}
    text = str(Program([x], [Equation(note, (x,), (), params)], []))
    assert "note[numbers=Numbers(axes=(0, 1), label='x'), settings=(Settings(rate=0.5, precision=Precision.LOW),)] a" in text


def test_of_large_constants_the_size_is_shown():
    k = Variable(array_type((1000,), F32))
    program = Program([], [], [k], [(k, Array(k.type, np.zeros(1000, np.float32)))])
    assert "a:f32[1000]:cpu(0) = <4.0 kB not shown>" in str(program)


def test_byte_sizes():
    assert [byte_size(n) for n in (0, 999, 1000, 4_000_000, 7 * 10**12)] == ["0 B", "999 B", "1.0 kB", "4.0 MB", "7000.0 GB"]


def coloured():
    x, y = Variable(MATRIX), Variable(SCALAR)
    return Program([x], [Equation(note, (x,), (y,), {"tag": "<&>"})], [x, y], batch_axes={x: frozenset({0})})


def test_a_terminal_sees_batch_axes_blue_and_the_others_pink():
    program = coloured()
    text = program_text(program, style=ANSI)
    assert "a:f32[\x1b[34m3\x1b[0m,\x1b[95m5\x1b[0m]:cpu(0)" in text
    for code in ("\x1b[34m", "\x1b[95m", "\x1b[0m"):
        text = text.replace(code, "")
    assert text == str(program)


def test_batch_axes_of_inner_programs_and_those_given_count():
    inner = coloured()
    x, y = Variable(SCALAR), Variable(MATRIX)
    outer = Program([x], [Equation(note, (x,), (), {"p": inner})], [x])
    assert "a:f32[\x1b[34m3\x1b[0m,\x1b[95m5\x1b[0m]" in program_text(outer, style=ANSI)
    given = program_text(Program([y], [], [y]), style=ANSI, batch_axes={y: frozenset({0, 1})})
    assert "a:f32[\x1b[34m3\x1b[0m,\x1b[34m5\x1b[0m]" in given


def test_a_notebook_sees_the_same_colours_and_everything_else_escaped():
    text = coloured()._repr_html_()
    assert text.startswith("<pre>") and text.endswith("</pre>")
    assert f"f32[{HTML.batch[0]}3</span>,{HTML.axis[0]}5</span>]" in text
    assert "tag=&#x27;&lt;&amp;&gt;&#x27;" in text


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_show_colours_for_terminals_unless_told(capsys):
    program = coloured()
    plain = str(program) + "\n"
    for file, color, expected in [
        (io.StringIO(), None, False),
        (io.StringIO(), True, True),
        (Terminal(), None, True),
        (Terminal(), False, False),
    ]:
        program.show(color=color, file=file)
        assert (file.getvalue() != plain) is expected
        assert ("\x1b[34m3" in file.getvalue()) is expected
    program.show()
    assert capsys.readouterr().out == plain


def test_sources_stand_behind_each_equation_on_request():
    program, _ = stage(lambda x: [mul(x, x)], [VECTOR])
    line = test_sources_stand_behind_each_equation_on_request.__code__.co_firstlineno + 1
    assert f"mul a a  # {__file__}:{line}\n" in program.text(sources=True)
    assert "#" not in program.text()
    x, y = Variable(SCALAR), Variable(SCALAR)
    noted = Program([x], [Equation(note, (x,), (y,), {}, RecordedSource("model.py", 7, "f", "y = x"))], [y])
    assert "note a  # model.py:7\n" in noted.text(sources=True)
    x, y = Variable(SCALAR), Variable(SCALAR)
    scoped = Program([x], [Equation(note, (x,), (y,), {}, RecordedSource("model.py", 7, "f", "y = x", ("layer", "gate")))], [y])
    assert "note a  # model.py:7 in layer/gate\n" in scoped.text(sources=True)


def test_repr_is_one_line():
    assert repr(coloured()) == "<Program main: (f32[3,5]) -> (f32[3,5], f32[]), 1 equations>"


def test_printing_takes_time_in_proportion_to_the_equations():
    def chain(length):
        x = Variable(VECTOR)
        at, equations = x, []
        for _ in range(length):
            equations.append(Equation(mul, (at, at), (Variable(VECTOR),), {}))
            at = equations[-1].outputs[0]
        return Program([x], equations, [at])

    short, long = chain(800), chain(8000)
    assert calls_made(long.text) < 12 * calls_made(short.text)  # quadratic would be 100


@pytest.mark.parametrize("dtype", ["key<fry>", "i4"])
def test_literals_of_kinds_that_no_number_is_written_as(dtype):
    known = pb.random.key(3) if dtype == "key<fry>" else pb.numpy.asarray(3, "int4")
    text = str(pb.xpr(lambda x: (pb.numpy.broadcast_to(known, (4,)), x), array_type((4,), F32)))
    assert f":{dtype}[] " in text or f":{dtype}[]\n" in text
