"""Program -> text -> Program, and what the parser says of every kind of mistake."""

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import CLASSES, PRIMITIVES, Precision, arrays, note, programs

from pullback.core.array import Array
from pullback.core.dtypes import DTYPES
from pullback.core.errors import ProgramError
from pullback.core.types import array_type
from pullback.program.checking import check_program
from pullback.program.equation import Equation, Literal, Variable
from pullback.program.literals import number_text, read_number
from pullback.program.program import Program, run

F32, F64 = DTYPES["float32"], DTYPES["float64"]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_random_programs_come_back_equal_and_compute_the_same(data):
    program = data.draw(programs())
    text = program.text()
    again = Program.parse(text, PRIMITIVES, CLASSES)
    assert again == program
    assert hash(again) == hash(program)
    assert again.text() == text
    check_program(again)
    args = [data.draw(arrays(type)) for type in program.input_types]
    if not program.subprograms():  # those are compiled, which is tested where it is done
        expected, got = run(program, args), run(again, args)
        assert [a.host.tobytes() for a in got] == [a.host.tobytes() for a in expected]
        assert [a.type for a in got] == [a.type for a in expected]


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_every_16_bit_pattern_reads_back(dtype):
    """All values of the dtypes of one and two bytes; of the others, those that such patterns make in their upper half."""
    upper = np.arange(2**16, dtype=np.uint16)[:: 1 if dtype.itemsize <= 2 else 7]
    if dtype.kind == "b":
        patterns = np.array([False, True])
    elif dtype.itemsize == 1:
        patterns = np.arange(256, dtype=np.uint8).view(dtype)
    else:
        wide = np.zeros((len(upper), dtype.itemsize // 2), np.uint16)
        wide[:, -1] = upper
        wide[:, 0] |= upper >> (0 if dtype.itemsize == 2 else 3)
        patterns = wide.reshape(-1).view(dtype)
    unwritten = 0
    for value in patterns:
        text = number_text(value)
        if text is None:
            unwritten += 1
            with np.errstate(invalid="ignore"):
                assert np.isnan(value)
        else:
            assert read_number(text, dtype).tobytes() == value.tobytes(), text
    assert unwritten < len(patterns) / 4


def test_a_literal_without_a_type_takes_that_of_the_first_variable_even_behind_it():
    program = Program.parse("{ lambda (a:f64[3]) ; let b:f64[3] = mul 2.0 a in b }", PRIMITIVES)
    assert program.equations[0].inputs[0].type is array_type((), F64, True)


def test_a_literal_with_a_type_is_what_it_says():
    program = Program.parse("{ lambda (a:f32[3]) ; let b:f32[3] = mul a 2.0:f32[] in (b, 3:u8[]) }", PRIMITIVES)
    assert program.equations[0].inputs[1].type is array_type((), F32)
    assert program.outputs[1].type is array_type((), DTYPES["uint8"])


def test_layout_places_and_comments_do_not_matter():
    tight = Program.parse("{lambda(a:f32[3]);let b:f32[3]=mul a a in b}", PRIMITIVES)
    loose = Program.parse(
        "{ lambda (a : f32[3] : gpu(1)) ; # the input\n let\n\n b:f32[3]\n = mul a\n a # done\n in (b) }", PRIMITIVES
    )
    assert tight == loose


def test_shared_programs_stay_shared():
    text = """{ lambda (a:f32[]) ; let
        b:f32[] = call[program=@0 { lambda (a:f32[]) ; let b:f32[] = mul a a in b }] a
        c:f32[] = call[program=@0] b
        in c }"""
    program = Program.parse(text, PRIMITIVES)
    first, second = (equation.params["program"] for equation in program.equations)
    assert first is second
    assert Program.parse(program.text(), PRIMITIVES) == program


def test_classes_are_found_in_the_module_of_the_primitive_or_as_given():
    x = Variable(array_type((), F32))
    y = Variable(array_type((), F32))
    program = Program([x], [Equation(note, (x,), (y,), {"precision": Precision.HIGH})], [y])
    assert "precision=Precision.HIGH" in program.text()
    with pytest.raises(ProgramError, match=r"'Precision\.HIGH' names no value"):
        Program.parse(program.text(), PRIMITIVES)
    assert Program.parse(program.text(), PRIMITIVES, CLASSES) == program
    note.__module__ = Precision.__module__
    try:
        assert Program.parse(program.text(), PRIMITIVES) == program
    finally:
        del note.__module__


GOOD = """{ lambda (a:f32[3]:cpu(0), n:i32[]) ;
  where
    k:f32[2] = [1.0, 2.0]
  let
    b:f32[3]:cpu(0) = mul a 2.0
    c:f32[3], d:f32[3] = pair[value=(1,)] b
  in (c, d) }"""

MISTAKES = [  # what to replace in GOOD, by what, the message, and what the caret stands under
    ("mul a", "mull a", "no primitive 'mull' among those given; did you mean 'mul'?", "mull"),
    ("mul a", "mul ab", "ab is not defined; did you mean 'a'", "ab 2"),
    ("mul a 2.0", "mul a b", "b is not defined", "b\n"),
    ("mul a 2.0", "mul a $", "'$' begins nothing", "$"),
    ("mul a 2.0", "mul a n", "mul refuses these operands: mul takes operands of one dtype", "mul a n"),
    ("mul a 2.0", "mul a 2.0:f32[3]", "a literal has no axes", "f32[3]\n"),
    ("mul a 2.0", "mul a 2.0:i32[]", "2.0 is not a value of dtype int32", "2.0:i"),
    ("mul a 2.0", 'mul a base64"AAAA":f32[]', "these are 3 bytes, but f32[] takes 4", 'base64"AAAA"'),
    ("mul a 2.0", 'mul a base64"A!":f32[]', "this is not base64 text", 'base64"A!"'),
    ("n:i32", "n:i33", "'i33' is not the short name of a dtype; did you mean", "i33"),
    ("n:i32[]", "n:i32[-1]", "the size of an axis is a whole number, not -1", "-1"),
    ("n:i32[]", "n", "expected ':' and a type after n, but found ')'", ") ;"),
    ("n:i32", "a:i32", "a is defined twice", "a:i32"),
    ("n:i32", "let:i32", "'let' cannot be the name of a variable", "let:i32"),
    ("c:f32[3], d:", "a:f32[3], d:", "a is defined twice", "a:f32[3], d"),
    ("c:f32[3], d:", "c:f32[3], c:", "c is defined twice", "c:f32[3], c"),
    ("c:f32[3], d:f32[3] =", "c:f32[3] =", "pair returns f32[3], f32[3] here, not f32[3]", "c:f32[3] ="),
    ("b:f32[3]", "b:f32[4]", "mul returns f32[3] here, not f32[4]", "b:f32[4]"),
    ("[1.0, 2.0]", "[1.0, 2.0, 3.0]", "has 2 entries here, but these are 3", "[1.0, 2.0, 3.0]"),
    ("[1.0, 2.0]", "1.0", "expected '[' before the 2 rows", "1.0"),
    ("[1.0, 2.0]", "[1.0, a]", "expected a number, but found 'a'", "a]"),
    ("[1.0, 2.0]", "<8 B not shown>", "the values of this constant were left out", "<8 B"),
    ("value=(1,)", "value=(1)", "a tuple of one item needs a comma", ")] b"),
    ("value=(1,)", "value=<function f>", "<function f> stands for an object that has no text form", "<function"),
    ("value=(1,)", "value=Color.RED", "'Color.RED' names no value", "Color"),
    ("value=(1,)", "value=Precision.RED", "Precision has no member 'RED'", "Precision"),
    ("value=(1,)", "value=Numbers(axes=1)", "Numbers refuses these fields", "Numbers"),
    ("value=(1,)", "value=@0", "@0 is not defined before this", "0]"),
    ("value=(1,)", "value=,", "expected the value of a parameter, but found ','", ",]"),
    ("value=(1,)", "value", "expected '=' after value", "]"),
    ("value=(1,)", "value=1, value=2", "value is given twice", "value=2"),
    ("in (c, d) }", "in (c, d)", "expected '}' after the outputs, but found 'the end of the text'", ""),
    ("in (c, d) }", "in (c d) }", "expected ',' or ')' after an output", "d) }"),
    ("in (c, d) }", "in (c, e) }", "e is not defined", "e) }"),
    ("in (c, d) }", "in c } }", "the Program ends before '}'", "}"),
    ("  in (c, d) }", "", "expected the name of a variable, but found 'the end of the text'", ""),
    ("{ lambda", "lambda", "expected '{' at the beginning of a Program", "lambda"),
    (") ;", ")", "expected ';' after the inputs, but found 'where'", "where"),
]


@pytest.mark.parametrize("old, new, message, under", MISTAKES, ids=[case[1] for case in MISTAKES])
def test_a_mistake_is_shown_at_its_place(old, new, message, under):
    assert GOOD.count(old) == 1
    text = GOOD.replace(old, new)
    with pytest.raises(ProgramError) as caught:
        Program.parse(text, PRIMITIVES, CLASSES)
    said = str(caught.value)
    assert message in said
    first, line, caret = said.rsplit("\n", 2)
    number, column = map(int, re.match(r"Line (\d+), column (\d+): ", first).groups())
    assert line == (text.split("\n")[number - 1])
    assert caret == " " * (column - 1) + "^"
    assert (line + "\n")[column - 1 :].startswith(under), (line[column - 1 :], under)


def test_the_text_that_the_mistakes_are_made_in_is_right():
    program = Program.parse(GOOD, PRIMITIVES, CLASSES)
    assert Program.parse(program.text(), PRIMITIVES, CLASSES) == program


def test_large_constants_parse_from_the_full_text_only():
    k = Variable(array_type((100,), F32))
    program = Program([], [], [k], [(k, Array(k.type, np.arange(100, dtype=np.float32)))])
    again = Program.parse(program.text(), {})
    assert again == program
    assert again.constants[0][1].host.tobytes() == program.constants[0][1].host.tobytes()
    with pytest.raises(ProgramError, match=r"print with program.text\(constants='full'\)"):
        Program.parse(str(program), {})


def test_text_grows_in_proportion_to_the_equations_even_when_programs_share_programs():
    def nest(levels):
        program = Program.parse("{ lambda (a:f32[]) ; let in a }", {})
        for _ in range(levels):
            x = Variable(array_type((), F32))
            y, z = Variable(x.type), Variable(x.type)
            params = {"program": program}
            call = PRIMITIVES["call"]
            program = Program([x], [Equation(call, (x,), (y,), params), Equation(call, (y,), (z,), params)], [z])
        return program

    deep = nest(40)  # 2**40 equations if it were written out
    text = deep.text(constants="short")
    assert text.count(" = call") == 80
    assert Program.parse(text, PRIMITIVES) == deep == nest(40)


def test_a_nan_with_a_payload_survives():
    bits = np.array(0x7FC12345, np.uint32).view(np.float32)
    literal = Literal(Array(array_type((), F32), bits))
    program = Program([], [], [literal])
    assert 'base64"' in program.text()
    assert Program.parse(program.text(), {}).outputs[0].value.host.tobytes() == bits.tobytes()
