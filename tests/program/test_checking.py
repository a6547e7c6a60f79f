"""check_program: a broken Program for every rule of the IR, and the message that it gets."""

import numpy as np
import pytest
from random_programs import note, nothing, pair

from pullback.control.call import call
from pullback.control.cond import cond
from pullback.control.scan import scan
from pullback.control.while_loop import while_loop
from pullback.core.array import Array
from pullback.core.dtypes import DTYPES
from pullback.core.errors import ProgramError
from pullback.core.primitive import Primitive
from pullback.core.source import RecordedSource, user_source
from pullback.core.types import array_type
from pullback.ops.arithmetic import add, mul
from pullback.ops.broadcast import reduce_sum
from pullback.ops.compare import gt
from pullback.ops.powers import square
from pullback.ops.scans import cumsum
from pullback.ops.shape import slice as slice_of
from pullback.ops.trigonometric import sin
from pullback.program.checking import check_program
from pullback.program.program import Equation, Literal, Program, Variable
from pullback.transforms.batch import Axis, Batched, BatchTrace
from pullback.transforms.stage import stage

F32 = DTYPES["float32"]
SCALAR, THREE, FOUR, INT = array_type((), F32), array_type((3,), F32), array_type((4,), F32), array_type((), DTYPES["int32"])
SOURCE = RecordedSource("model.py", 7, "loss", "y = x @ w")


def var(type=THREE):
    return Variable(type)


def array(type=THREE):
    return Array(type, np.zeros(type.shape, type.dtype))


def one(primitive, operands, results, **params):
    """A Program of one equation, whose operands that are Variables are its inputs."""
    inputs = [atom for atom in operands if isinstance(atom, Variable)]
    return Program(inputs, [Equation(primitive, tuple(operands), tuple(results), params, SOURCE)], results)


def breach(program, *said):
    with pytest.raises(ProgramError) as caught:
        check_program(program)
    for words in said:
        assert words in str(caught.value), str(caught.value)
    return str(caught.value)


def tracer():
    return Batched(BatchTrace(Axis(3)), array())


# ---- the variables -----------------------------------------------------------------------------------------------------


def test_an_input_twice():
    x = var()
    breach(Program([x, x], [], [x]), "its input 1 is a variable that is defined before")


def test_a_constant_that_is_an_input():
    x = var()
    breach(Program([x], [], [x], [(x, array())]), "its constant 0 is a variable that is defined before")


def test_a_result_that_is_an_input():
    x = var()
    message = breach(one(note, [x], [x]), "result 0 of note is a variable that is defined before")
    assert "\n    a:f32[3]:cpu(0) = note a\n    which comes from model.py:7 (loss): y = x @ w" in message


def test_two_results_that_are_one_variable():
    y = var()
    breach(one(pair, [var()], [y, y]), "result 1 of pair is a variable that is defined before")


def test_an_operand_that_nothing_defines():
    message = breach(
        Program([], [Equation(note, (var(),), (var(),), {})], []), "operand 0 of note is a variable of type f32[3] that nothing"
    )
    assert "\n    _:f32[3]:cpu(0) = note ?" in message


def test_an_operand_that_is_defined_only_later():
    x, y, z = var(), var(), var()
    equations = [Equation(note, (y,), (z,), {}), Equation(note, (x,), (y,), {})]
    breach(Program([x], equations, [z]), "operand 0 of note is a variable of type f32[3] that nothing defines")


def test_an_output_that_nothing_defines():
    breach(Program([], [], [var()]), "its output 0 is a variable of type f32[3] that nothing defines")


def test_a_variable_of_an_outer_program():
    x, y = var(), var()
    inner = Program([], [], [x])
    breach(
        Program([x], [Equation(call, (), (y,), {"program": inner})], [y]),
        "its output 0 is a variable of type f32[3] that nothing",
    )


def test_what_is_no_variable():
    breach(Program([3], [], []), "its input 0 is not a Variable but int")
    breach(Program([Variable("f32[3]")], [], []), "its input 0 has no ArrayType but 'f32[3]'")
    breach(Program([], [], [2.0]), "its output 0 is neither a Variable nor a Literal but float")


# ---- values ------------------------------------------------------------------------------------------------------------


def test_a_literal_with_axes():
    breach(one(note, [Literal(array())], [var()]), "operand 0 of note is a literal with axes, of type f32[3]")


def test_a_literal_that_is_no_array():
    class Bare:
        type = SCALAR

    breach(one(note, [Literal(Bare())], [var(SCALAR)]), "operand 0 of note is not an Array but Bare")


def test_a_constant_of_another_type():
    k = var(FOUR)
    breach(Program([], [], [k], [(k, array())]), "its constant 0 is declared as f32[4], but the array is of type f32[3]")


def test_a_constant_that_is_no_array():
    k = var()
    breach(Program([], [], [k], [(k, np.zeros(3))]), "its constant 0 is not an Array but ndarray")


def test_traced_values_anywhere():
    k = var()
    breach(Program([], [], [k], [(k, tracer())]), "its constant 0 is a traced value, of vmap")
    breach(Program([], [], [tracer()]), "its output 0 is a traced value, of vmap")
    breach(one(note, [Literal(tracer())], [var()]), "operand 0 of note is a traced value, of vmap")
    breach(one(note, [tracer()], [var()]), "operand 0 of note is a traced value, of vmap")
    breach(one(note, [var()], [var()], p=(1, (tracer(),))), "parameter 'p' of note holds a traced value, of vmap")


# ---- equations ---------------------------------------------------------------------------------------------------------


def test_a_parameter_that_cannot_be_hashed():
    breach(one(note, [var()], [var()], p=[1]), "parameter 'p' of note cannot be hashed: it is of type list", "note[p=<list>] a")


def test_results_of_another_type_than_the_rule_gives():
    breach(one(mul, [var(), var()], [var(FOUR)]), "mul returns (f32[3]), but its results are declared (f32[4])")


def test_results_of_another_number_than_the_rule_gives():
    breach(one(pair, [var()], [var()]), "pair returns (f32[3], f32[3]), but its results are declared (f32[3])")
    breach(one(nothing, [var()], [var()]), "no-thing returns (), but its results are declared (f32[3])")


def test_weakness_belongs_to_the_type():
    weak = array_type((3,), F32, True)
    breach(one(note, [var()], [var(weak)]), "note returns (f32[3]), but its results are declared (~f32[3])")


def test_operands_that_the_rule_refuses():
    breach(one(add, [var(SCALAR), var(INT)], [var(SCALAR)]), "add refuses its operands: add takes operands of one dtype")
    breach(one(reduce_sum, [var()], [var()], axes=(3,)), "reduce_sum refuses its operands:")


by_name = Primitive("by_name", result_type=lambda x, note: x, evaluate=lambda x, note: x)


def test_a_number_of_operands_that_no_rule_takes():
    breach(
        one(reduce_sum, [var(INT), var()], [var()], axes=()),
        "reduce_sum has 2 operands, but its result_type rule takes 1 operand",
    )
    breach(one(add, [var(), var(), var()], [var()]), "add has 3 operands, but its evaluate rule takes 2 operands")
    breach(one(cumsum, [var(), var()], [var()], axis=0), "cumsum has 2 operands, but its evaluate rule takes 1 operand")
    check_program(one(by_name, [var()], [var()], note="a parameter"))
    breach(one(by_name, [var(), var()], [var()], note=1), "by_name has 2 operands, but its result_type rule takes 1 operand.")
    breach(one(by_name, [var()], [var()]), "by_name has 1 operand, but its result_type rule takes 2 operands.")
    breach(one(cond, [], [var()], branches=()), "cond has 0 operands, but its result_type rule takes 1 operand or more")


STEP = stage(lambda c, x: [add(c, x), x], [SCALAR, SCALAR])[0]
POSITIVE = stage(lambda c: [gt(c, 0.0)], [SCALAR])[0]
NEGATED = stage(lambda c: [mul(c, -1.0)], [SCALAR])[0]
WRONG_HOLDERS = {
    "fewer than none that stay": (scan, {"num_consts": -1}, "scan carries 1 value after -1 that stay"),
    "more that stay than operands": (scan, {"num_consts": 5, "num_carry": 0}, "scan carries 0 values after 5 that stay"),
    "more that stay in a while loop": (while_loop, {"num_consts": 5}, "while_loop carries -3 values after 5 that stay"),
    "more carried than operands": (scan, {"num_consts": 1, "num_carry": 2}, "scan carries 2 values after 1 that stay"),
    "other results than carried": (scan, {"body": stage(lambda c, x: [gt(c, x)], [SCALAR, SCALAR])[0]}, "and returns (bool[])"),
    "no results": (while_loop, {"body": stage(lambda c, x: [], [SCALAR, SCALAR])[0]}, "and returns ()"),
    "no test": (while_loop, {"condition": STEP}, "The test of a while_loop returns bool[], not (f32[], f32[])"),
    "branches that differ": (cond, {"branches": (NEGATED, POSITIVE)}, "but they return (f32[]), (bool[])"),
    "no branch": (cond, {"branches": ()}, "but they return nothing: there is none"),
    "no number of a branch": (cond, {"branches": (POSITIVE,)}, "cond takes the number of a branch, i32[], but got f32[]"),
}
RIGHT = {
    "scan": {"body": STEP, "num_consts": 0, "num_carry": 1, "length": 3, "reverse": False, "unroll": 1},
    "while_loop": {"body": STEP, "condition": stage(lambda c, x: [gt(c, x)], [SCALAR, SCALAR])[0], "num_consts": 0},
    "cond": {},
}


@pytest.mark.parametrize("wrong", WRONG_HOLDERS)
def test_programs_that_do_not_fit_what_runs_them(wrong):
    holder, params, said = WRONG_HOLDERS[wrong]
    operands = [var(SCALAR), var(THREE if holder is scan else SCALAR)]
    results = [var(SCALAR), var(THREE if holder is scan else SCALAR)]
    right = RIGHT[holder.name]
    if right:
        check_program(one(holder, operands, results, **right))
    breach(one(holder, operands, results, **(right | params)), said)


lowered = Primitive("lowered", result_type=lambda x, **params: x, lower=lambda write, x: x)
taking = Primitive("taking", result_type=lambda x, *, size, sign=1: x, evaluate=lambda x, **params: x)


@pytest.mark.parametrize(
    "primitive, params, said",
    [
        (reduce_sum, {}, "reduce_sum has no parameter 'axes', which its result_type rule needs"),
        (reduce_sum, {"axes": (0,), "axis": 0}, "reduce_sum has a parameter 'axis', which its result_type rule does not take"),
        (reduce_sum, {"axes": 0}, "parameter 'axes' of reduce_sum must be tuple[int, ...], but it is 0"),
        (reduce_sum, {"axes": (0.0,)}, "parameter 'axes' of reduce_sum must be tuple[int, ...], but it is (0.0,)"),
        (reduce_sum, {"axes": (False,)}, "parameter 'axes' of reduce_sum must be tuple[int, ...], but it is (False,)"),
        (slice_of, {"start_indices": (0,), "limit_indices": (1,), "strides": 1}, "must be tuple[int, ...] | None, but it is 1"),
        (call, {"program": 3}, "parameter 'program' of call must be Program, but it is 3"),
        (cond, {"branches": (3,)}, "parameter 'branches' of cond must be tuple[pullback.program.program.Program, ...]"),
        (sin, {"axes": (0,)}, "sin has a parameter 'axes', which its evaluate rule does not take"),
        (square, {"axes": (0,)}, "square has a parameter 'axes', which its evaluate rule does not take"),
        (lowered, {"axes": (0,)}, "lowered has a parameter 'axes', which its lower rule does not take"),
        (taking, {"sign": 1}, "taking has no parameter 'size', which its result_type rule needs"),
        (taking, {"size": 1, "signs": 1}, "taking has a parameter 'signs', which its result_type rule does not take"),
    ],
    ids=str,
)
def test_parameters_are_those_that_the_rules_declare(primitive, params, said):
    breach(one(primitive, [var()], [var()], **params), said)


def test_parameters_that_are_right():
    check_program(one(slice_of, [var()], [var()], start_indices=(0,), limit_indices=(3,), strides=None))
    check_program(one(slice_of, [var()], [var()], start_indices=(0,), limit_indices=(3,)))
    check_program(one(taking, [var()], [var()], size=2))


def test_elementwise_operands_of_two_shapes():
    permissive = Primitive("permissive", result_type=lambda x, y: x, elementwise=True)
    breach(
        one(permissive, [var(), var(FOUR)], [var()]), "permissive is elementwise, but its operands have the shapes [(3,), (4,)]"
    )
    check_program(one(permissive, [var(), var(SCALAR)], [var()]))


def test_a_primitive_without_a_type_rule():
    breach(one(Primitive("vague"), [var()], [var()]), "vague has no type rule")


def test_a_call_with_operands_that_do_not_fit():
    x = var(FOUR)
    inner = Program([x], [], [x])
    breach(
        one(call, [var()], [var(FOUR)], program=inner),
        "call holds a Program that takes (f32[4]), but its operands are (f32[3])",
    )
    weak = Literal(array(array_type((), F32, True)))
    y = var(SCALAR)
    check_program(one(call, [weak], [var(SCALAR)], program=Program([y], [], [y])))


def test_a_program_inside_is_checked_wherever_it_stands():
    wrong = Program([], [], [var()], name="inside")
    breach(one(note, [var()], [var()], p=wrong), "In Program inside: its output 0 is a variable")
    breach(one(note, [var()], [var()], p=((wrong,),)), "In Program inside: its output 0 is a variable")


def test_the_message_shows_the_users_line():
    program = Program([], [Equation(note, (var(),), (), {}, user_source())], [])
    line = breach.__code__.co_name and "program = Program([], [Equation(note, (var(),), (), {}, user_source())], [])"
    breach(program, f"which comes from {__file__}:", line)


def test_programs_inside_are_cut_short_in_messages():
    x, y = var(), var()
    inner = Program([x], [Equation(note, (x,), (y,), {})], [y])
    message = breach(one(note, [var()], [var(FOUR)], p=inner), "note returns (f32[3])")
    assert "\n    a:f32[4]:cpu(0) = note[p={ lambda (a:f32[3]:cpu(0)) ; ... in b }] b" in message or "... in b }] a" in message


def test_what_is_right_passes_and_is_looked_at_once(monkeypatch):
    program, _ = stage(lambda x: [mul(mul(x, 2.0), x)], [THREE])
    check_program(program)
    monkeypatch.setattr("pullback.program.checking._Checker.check", lambda checker: pytest.fail("it was checked again"))
    check_program(program)


def test_a_wrong_program_is_wrong_every_time():
    program = Program([], [], [var()])
    breach(program)
    breach(program)


def test_every_program_that_a_test_stages_is_checked():
    """By tests/conftest.py; without it, this Program would be made."""
    with pytest.raises(ProgramError, match="parameter 'p' of note cannot be hashed"):
        stage(lambda x: [note(x, p=[1])], [THREE])
