"""Equality and hashes of Programs: structure counts, names and sources do not."""

import gc

import numpy as np
import pytest
from counting import calls_made
from random_programs import PRIMITIVES, Precision, note

from pullback.core.array import Array
from pullback.core.dtypes import DTYPES
from pullback.core.source import RecordedSource
from pullback.core.types import array_type
from pullback.program import equality
from pullback.program.program import Equation, Literal, Program, Variable

SCALAR = array_type((), DTYPES["float32"])
BASE = "{ lambda (a:f32[3], b:f32[3]) ; where k:f32[3] = [1.0, 2.0, nan] let c:f32[3] = mul a 2.0  d:f32[3] = add c k in d }"


def parse(text):
    return Program.parse(text, PRIMITIVES)


def test_equal_up_to_renaming():
    renamed = "{ lambda (x:f32[3], y:f32[3]) ; where z:f32[3] = [1.0, 2.0, nan] let v:f32[3]=mul x 2.0 w:f32[3]=add v z in w }"
    assert parse(BASE) == parse(renamed)
    assert hash(parse(BASE)) == hash(parse(renamed))
    assert len({parse(BASE), parse(renamed)}) == 1


@pytest.mark.parametrize(
    "old, new",
    [
        ("mul a", "add a"),
        ("mul a 2.0", "mul b 2.0"),
        ("2.0  d", "2.5  d"),
        ("mul a 2.0", "mul a 2.0:f32[]"),
        ("mul a 2.0", "mul 2.0 a"),
        ("[1.0, 2.0, nan]", "[1.0, 2.0, 3.0]"),
        ("in d", "in c"),
        ("in d", "in (d, d)"),
        ("b:f32[3]) ", "b:f32[4]) "),
        ("b:f32[3]) ", "b:f32[3], e:f32[3]) "),
    ],
)
def test_whatever_else_differs_makes_them_unequal(old, new):
    assert BASE.count(old) == 1
    assert parse(BASE.replace(old, new)) != parse(BASE)


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
    assert with_param(parse(BASE)) == with_param(parse(BASE))
    assert with_param((parse(BASE),)) != with_param((with_param(1),))


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
    assert parse(BASE) != BASE
    assert parse(BASE) != 3


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
