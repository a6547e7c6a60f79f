"""Programs to JSON and back."""

import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import CLASSES, PRIMITIVES, Precision, arrays, note, programs

import pullback as pb
import pullback.numpy as pnp
from pullback.control.linear_solve import linear_solve
from pullback.core.array import Array, as_array
from pullback.core.dtypes import DTYPES
from pullback.core.errors import DtypeError, LeafError, ProgramError, ShapeError
from pullback.core.tracing import type_of
from pullback.core.types import array_type
from pullback.ops.arithmetic import div, mul
from pullback.program.checking import check_program
from pullback.program.program import Equation, Literal, Program, Variable, run
from pullback.program.serialization import read_type
from pullback.transforms.stage import stage

SCALAR = array_type((), DTYPES["float32"])


def samples():
    """The first sample of each primitive that can be applied to it as it is, and is more than a Python function."""
    found = {}
    for name, primitive in pb.export.primitives().items():
        for args, params in primitive.samples(np.random.default_rng(0)) if primitive.samples else ():
            try:
                primitive.infer(tuple([type_of(as_array(arg)) for arg in args]), params)
            except (DtypeError, pb.errors.AxisNameError):  # it stands for samples of other dtypes, or names an axis
                continue
            if primitive.effect is None and not any([callable(value) for value in params.values()]):
                found[name] = primitive, args, params
                break
    return found


SAMPLES = samples()


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_random_programs_come_back_equal_and_compute_the_same(data):
    program = data.draw(programs())
    text = program.to_json()
    again = Program.from_json(text, PRIMITIVES, CLASSES)
    assert again == program
    assert hash(again) == hash(program)
    assert again.text() == program.text()
    assert again.to_json() == text
    check_program(again)
    args = [data.draw(arrays(type)) for type in program.input_types]
    if not program.subprograms():  # those are compiled, which is tested where it is done
        expected, got = run(program, args), run(again, args)
        assert [a.host.tobytes() for a in got] == [a.host.tobytes() for a in expected]
        assert [a.type for a in got] == [a.type for a in expected]


PAYLOAD = np.array(0x7FF8000000000123, np.uint64).view(np.float64).item()


@pytest.mark.parametrize("value", [PAYLOAD, complex(1.0, PAYLOAD), complex(PAYLOAD, -0.0), complex(-PAYLOAD, PAYLOAD)])
def test_a_parameter_that_is_a_nan_with_a_payload_comes_back(value):
    x, y = Variable(SCALAR), Variable(SCALAR)
    program = Program([x], [Equation(note, (x,), (y,), {"p": value})], [y])
    assert Program.from_json(program.to_json(), PRIMITIVES, CLASSES) == program


def staged():
    program, _ = stage(lambda x: [mul(x, 2.0)], [SCALAR], name="double")
    return program


def test_names_and_sources_are_kept():
    program = staged()
    again = Program.from_json(program.to_json(), PRIMITIVES)
    assert again.name == "double"
    before, after = program.equations[0].source, again.equations[0].source
    assert (after.file, after.line, after.function) == (__file__, before.line, "staged.<locals>.<lambda>")
    assert after.text == before.text == 'program, _ = stage(lambda x: [mul(x, 2.0)], [SCALAR], name="double")'
    assert str(after) == str(before)


def test_batch_axes_are_kept():
    program = pb.xpr(pb.vmap(lambda x: pb.lax.scan(lambda c, y: (c * y, c), 1.0, x), in_axes=1), pb.ArrayType((5, 3)))
    again = Program.from_json(program.to_json(), pb.export.primitives())
    assert program._repr_html_() == again._repr_html_() and "1f6feb" in again._repr_html_()
    assert again.to_json() == program.to_json()


@pytest.mark.parametrize("sample", SAMPLES)
def test_what_primitives_take_is_data(sample):
    primitive, args, params = SAMPLES[sample]
    program = stage(lambda *args: primitive(*args, **params) if primitive.multiple_results else [primitive(*args, **params)],
                    [type_of(as_array(arg)) for arg in args])[0]  # fmt: skip
    again = Program.from_json(program.to_json(), pb.export.primitives())
    assert again == program and not pb.program_diff(program, again) and again.to_json() == program.to_json()


def test_programs_can_be_pickled_and_copied():
    program = staged()
    assert copy.copy(program) is program and copy.deepcopy({"p": program})["p"] is program
    program.memo("derived", lambda: lambda: None)  # which cannot be pickled, and need not be
    again = pickle.loads(pickle.dumps(program))
    assert again == program and again.text(sources=True) == program.text(sources=True) and again.name == "double"
    assert again.equations[0].id != program.equations[0].id and again.equations[0].primitive is mul
    assert pickle.loads(pickle.dumps(mul)) is copy.copy(mul) is copy.deepcopy(mul) is mul


def test_a_program_takes_what_its_inputs_are():
    (out,) = run(staged(), [np.float32(2.0)])
    assert staged()(2) == staged()(np.float32(2.0)) == out == 4.0
    for arg, message in [(np.ones(3, "f4"), r"must be f32\[\], but it is f32\[3\]"), (np.int32(1), r"f32\[\], but it is i32")]:
        with pytest.raises(ShapeError, match=message):
            staged()(arg)
    with pytest.raises(LeafError, match="argument 0 is 'x'"):
        staged()("x")


def test_the_format_is_as_documented():
    x, y = Variable(SCALAR), Variable(SCALAR)
    k = Variable(array_type((1,), DTYPES["uint8"]))
    params = {"axes": (0, None), "dtype": DTYPES["bfloat16"], "rate": float("inf"), "mode": Precision.LOW}
    program = Program([x], [Equation(note, (x,), (y,), params)], [y], [(k, Array(k.type, np.array([7], np.uint8)))], "f")
    assert json.loads(program.to_json()) == {
        "format": "pullback.program",
        "version": 2,
        "sources": [],
        "ancestors": [],
        "programs": [
            {
                "name": "f",
                "inputs": [[0, "f32[]"]],
                "constants": [[1, "u8[1]", {"type": "u8[1]", "base64": "Bw=="}]],
                "equations": [
                    {
                        "primitive": "note",
                        "params": {
                            "axes": {"tuple": [0, None]},
                            "dtype": {"dtype": "bf16"},
                            "rate": {"float": "inf"},
                            "mode": {"enum": ["Precision", "LOW"]},
                        },
                        "inputs": [0],
                        "outputs": [[2, "f32[]"]],
                        "id": 0,
                    }
                ],
                "outputs": [2],
            }
        ],
    }


def test_a_program_held_twice_is_written_once():
    inner = staged()
    x, y, z = (Variable(SCALAR) for _ in range(3))
    call = PRIMITIVES["call"]
    equations = [Equation(call, (x,), (y,), {"program": inner}), Equation(call, (y,), (z,), {"program": inner})]
    program = Program([x], equations, [z])
    assert len(json.loads(program.to_json())["programs"]) == 2
    again = Program.from_json(program.to_json(), PRIMITIVES)
    first, second = (equation.params["program"] for equation in again.equations)
    assert first is second == inner


def test_writing_takes_time_in_proportion_to_the_equations_even_when_programs_share_programs():
    program = Program([], [], [])
    for _ in range(40):  # 2**40 equations if it were written out
        program = Program([], [Equation(PRIMITIVES["call"], (), (), {"program": program})] * 2, [])
    assert program.text().count(" = call") == 80
    assert len(json.loads(program.to_json())["programs"]) == 41
    assert Program.from_json(program.to_json(), PRIMITIVES) == program


def test_a_literal_keeps_every_bit():
    bits = np.array(0x7FC12345, np.uint32).view(np.float32)
    program = Program([], [], [Literal(Array(SCALAR, bits))])
    again = Program.from_json(program.to_json(), {})
    assert again.outputs[0].value.host.tobytes() == bits.tobytes()
    assert str(program).endswith("in nan:f32[] }")


def test_classes_are_found_in_the_module_of_the_primitive_or_as_given():
    x, y = Variable(SCALAR), Variable(SCALAR)
    program = Program([x], [Equation(note, (x,), (y,), {"precision": Precision.HIGH})], [y])
    with pytest.raises(ProgramError, match="class 'Precision' that the module of note does not name"):
        Program.from_json(program.to_json(), PRIMITIVES)
    assert Program.from_json(program.to_json(), PRIMITIVES, CLASSES) == program
    note.__module__ = Precision.__module__
    try:
        assert Program.from_json(program.to_json(), PRIMITIVES) == program
    finally:
        del note.__module__


def test_functions_are_not_data():
    x, y = Variable(SCALAR), Variable(SCALAR)
    program = Program([x], [Equation(note, (x,), (y,), {"f": np.sin})], [y])
    with pytest.raises(ProgramError, match="Parameter 'f' of note is a ufunc, which is not data"):
        program.to_json()


def changed(**changes):
    data = json.loads(staged().to_json())
    data["programs"][0].update(changes)
    return json.dumps(data)


def equation(**changes):
    entry = json.loads(staged().to_json())["programs"][0]["equations"][0]
    return changed(equations=[{**entry, **changes}])


def with_source(source):
    return json.dumps({**json.loads(staged().to_json()), "sources": [source]})


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "This is not JSON: "),
        ("[]", 'it has no "format": "pullback.program"'),
        ('{"format": "other", "version": 2}', 'it has no "format": "pullback.program"'),
        (
            '{"format": "pullback.program", "version": 99}',
            "was written in version 99 of the format; this pullback reads version 2",
        ),
        ('{"format": "pullback.program", "version": 2}', "not a Program as version 2 writes it: KeyError('sources')"),
        (
            '{"format": "pullback.program", "version": 2, "sources": [], "ancestors": [], "programs": []}',
            "not a Program as version 2 writes it: IndexError",
        ),
        (changed(outputs=[9]), "Variable 9 of Program double is used before it is defined"),
        (changed(inputs=[[0, "f32[]"], [0, "f32[]"]]), "Variable 0 of Program double is defined twice"),
        (changed(inputs=[[0, "g32[]"]]), "'g32[]' is not a type. Write it as f32[3,5]"),
        (changed(constants=[[7, "f32[]", {"type": "f32[]", "base64": "AA=="}]]), "these are 1 bytes, but f32[] takes 4"),
        (equation(primitive="mull"), "There is no primitive 'mull' among those given"),
        (equation(params={"p": {"set": []}}), "A parameter of mul is written as 'set', which version 2 does not know"),
        (equation(params={"p": {"enum": ["Mode", "A"]}}), "is of a class 'Mode' that the module of mul does not name"),
        ("[" * 100_000, "This is not JSON: "),
        ("1" * 5000, "This is not JSON: "),
        (b"\xff", "This is not JSON: "),
        (None, "This is not JSON: "),
        (with_source(["f", {}, "g", "text", [], None]), "not a Program as version 2 writes it: TypeError"),
        (with_source(["f", 1, "g", "text", 5, None]), "not a Program as version 2 writes it: TypeError"),
        (equation(params={"p": {"program": 4}}), "not a Program as version 2 writes it: IndexError"),
        (equation(params={"axis": 0}), "In Program double: mul has a parameter 'axis', which its evaluate rule does not take"),
        (equation(inputs=[0]), "In Program double: mul has 1 operand, but its evaluate rule takes 2 operands"),
        (equation(outputs=[[1, "f32[7]"]]), "In Program double: mul returns (f32[]), but its results are declared (f32[7])"),
    ],
)
def test_what_is_wrong_with_the_json_is_said(text, message):
    with pytest.raises(ProgramError) as caught:
        Program.from_json(text, PRIMITIVES)
    assert message in str(caught.value)


def test_whatever_is_missing_or_null_the_json_is_refused_or_the_program_runs():
    def looped(x):
        return pb.lax.scan(lambda c, _: (pnp.sin(c) * np.arange(2.0, dtype="float32"), c[0]), x, length=3)[0].sum()

    x = pnp.ones(2, dtype="float32")
    data = json.loads(pb.xpr(pb.grad(looped), x).to_json())

    def places(within):
        for key in within if isinstance(within, dict) else range(len(within)):
            yield within, key
            if isinstance(within[key], (dict, list)):
                yield from places(within[key])

    refused = ran = 0
    for holder, key in [*places(data)]:
        kept = holder[key]
        for take_out in (True, False):
            if take_out and isinstance(holder, dict):
                del holder[key]
            else:
                holder[key] = None
            try:
                program = Program.from_json(json.dumps(data), pb.export.primitives())
            except ProgramError:
                refused += 1
            else:
                program(*[pnp.ones(type.shape, dtype=type.dtype) for type in program.input_types])
                ran += 1
            holder[key] = kept
    assert refused > ran > 0


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_types_are_read_as_they_are_printed(dtype):
    for shape in ((), (3,), (2, 0, 5)):
        for weak in (False, True):
            type = array_type(shape, dtype, weak)
            assert read_type(str(type)) is type


def test_ids_are_unique_and_stay_where_an_equation_is_in_two_programs():
    program = pb.xpr(lambda x: pb.lax.custom_linear_solve(lambda v: v * x, x, lambda f, b: b / x, symmetric=True), np.ones(3))
    text = program.to_json()
    data = json.loads(text)
    ids = [entry["id"] for one in data["programs"] for entry in one["equations"]] + [one["id"] for one in data["ancestors"]]
    assert len(ids) == len(set(ids))
    assert Program.from_json(text, {"linear_solve": linear_solve, "mul": mul, "div": div}).to_json() == text
