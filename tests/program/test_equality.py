"""Equality and hashes of Programs: structure counts, names and sources do not."""

import gc

import numpy as np
import pytest
from counting import calls_made
from random_programs import Precision, note

from pullback.core.array import Array
from pullback.core.dtypes import DTYPES
from pullback.core.source import RecordedSource
from pullback.core.types import array_type
from pullback.ops.arithmetic import add, mul
from pullback.program import equality
from pullback.program.program import Equation, Literal, Program, Variable

F32 = DTYPES["float32"]
SCALAR, VECTOR = array_type((), F32), array_type((3,), F32)
LITERALS = {
    "two": Literal(Array(array_type((), F32, True), np.float32(2.0))),
    "more": Literal(Array(array_type((), F32, True), np.float32(2.5))),
    "strong": Literal(Array(SCALAR, np.float32(2.0))),
}


def built(first=(mul, "a", "two"), inputs=(("a", VECTOR), ("b", VECTOR)), constant=(1.0, 2.0, np.nan), outputs=("d",)):
    """A Program of two operations, in variables of its own."""
    atoms = {**{name: Variable(type) for name, type in inputs}, **{name: Variable(VECTOR) for name in "cdk"}, **LITERALS}
    primitive, *operands = first
    equations = [
        Equation(primitive, tuple([atoms[name] for name in operands]), (atoms["c"],), {}),
        Equation(add, (atoms["c"], atoms["k"]), (atoms["d"],), {}),
    ]
    constants = [(atoms["k"], Array(VECTOR, np.array(constant, np.float32)))]
    return Program([atoms[name] for name, _ in inputs], equations, [atoms[name] for name in outputs], constants)


def test_equal_up_to_renaming():
    assert built() == built()
    assert hash(built()) == hash(built())
    assert len({built(), built()}) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"first": (add, "a", "two")},
        {"first": (mul, "b", "two")},
        {"first": (mul, "a", "more")},
        {"first": (mul, "a", "strong")},
        {"first": (mul, "two", "a")},
        {"constant": (1.0, 2.0, 3.0)},
        {"outputs": ("c",)},
        {"outputs": ("d", "d")},
        {"inputs": (("a", VECTOR), ("b", array_type((4,), F32)))},
        {"inputs": (("a", VECTOR), ("b", VECTOR), ("e", VECTOR))},
    ],
)
def test_whatever_else_differs_makes_them_unequal(change):
    assert built(**change) != built()


def test_zero_and_minus_zero_differ_and_nan_equals_nan():
    def literal(value):
        return Program([], [], [Literal(Array(SCALAR, np.float32(value)))])

    assert literal(0.0) != literal(-0.0)
    assert literal(np.nan) == literal(np.nan)


def with_param(value, name="p"):
    x, y = Variable(SCALAR), Variable(SCALAR)
    return Program([x], [Equation(note, (x,), (y,), {name: value})], [y])


@pytest.mark.parametrize(
    "a, b",
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ((1, 2), (1, True)),
        (Precision.LOW, Precision.HIGH),
        ("a", b"a"),
        (1.0, 1 + 0j),
        (np.int64(3), 3),
    ],
)
def test_parameters_differ_where_python_says_that_they_are_equal(a, b):
    assert with_param(a) != with_param(b)
    assert with_param(a) == with_param(a)


def test_parameters_compare_by_value_and_name():
    assert with_param(float("nan")) == with_param(float("nan"))
    assert with_param(3, "p") != with_param(3, "q")
    assert with_param(built()) == with_param(built())
    assert with_param((built(),)) != with_param((with_param(1),))


def test_names_and_sources_do_not_count():
    x, y = Variable(SCALAR), Variable(SCALAR)
    program = Program([x], [Equation(note, (x,), (y,), {"p": 1}, RecordedSource("f.py", 1, "f", ""))], [y], name="f")
    assert program == with_param(1)


def test_large_constants_compare_by_value():
    def holding(values):
        k = Variable(array_type((5000,), DTYPES["float32"]))
        return Program([], [], [k], [(k, Array(k.type, values))])

    zeros = np.zeros(5000, np.float32)
    other = zeros.copy()
    assert holding(zeros) == holding(other)
    other[-1] = 1.0
    assert holding(zeros) != holding(other)


def test_a_program_that_cannot_be_hashed_equals_itself_alone():
    program = with_param([1])
    assert program == program
    assert program != with_param([1])
    assert hash(program) == hash(program)


def test_a_deleted_constant_does_not_disturb_others():
    def holding():
        k = Variable(array_type((3,), DTYPES["float32"]))
        return Program([], [], [k], [(k, Array(k.type, np.zeros(3, np.float32)))])

    first = holding()
    assert first == holding()
    first.constants[0][1].delete()
    assert holding() != first


def test_programs_are_no_other_thing():
    assert built() != "a Program"
    assert built() != 3


def test_structures_die_with_their_programs():
    gc.collect()  # what other tests left behind must not die while we count
    before = len(equality._structures)
    programs = [with_param(i) for i in range(100)]
    assert len({hash(program) for program in programs}) == 100
    assert len(equality._structures) >= before + 100
    del programs
    gc.collect()
    assert len(equality._structures) < before + 10


def test_hashing_again_costs_nothing_however_long_the_program():
    x = Variable(SCALAR)
    at, equations = x, []
    for _ in range(20000):
        equations.append(Equation(note, (at,), (Variable(SCALAR),), {}))
        at = equations[-1].outputs[0]
    program = Program([x], equations, [at])
    assert calls_made(hash, program) > 20000
    assert calls_made(hash, program) < 10
