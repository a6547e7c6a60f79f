"""Liveness: against a simulation that keeps every value in a table, and what each kind of operation does to memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from random_programs import programs

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.program.liveness import liveness, waiting
from pullback.program.program import Program
from pullback.transforms.simplify import simplify

T = pb.ArrayType((10, 10), "float32")
SIZE = 400  # bytes of it


def names(program: Program) -> dict[int, str]:
    found = {}
    for equation in program.equations:
        found[equation.id] = equation.primitive.name
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if isinstance(inner, Program):
                    found |= names(inner)
    return found


def by_name(function: Any, *types: Any, donated: Any = ()) -> dict[str, int]:
    """The most that is live at operations of each name."""
    program = pb.xpr(function, *types)
    found: dict[str, int] = {}
    for number, size in liveness(program, donated).live.items():
        name = names(program)[number]
        found[name] = max(size, found.get(name, 0))
    return found


CASES: dict[str, tuple[Any, tuple[Any, ...], tuple[int, ...], dict[str, float]]] = {
    "elementwise operations overwrite what nobody reads": (
        lambda x: pnp.sin(x) * 2.0 + x,
        (T,),
        (),
        {"sin": 1, "mul": 1, "add": 1},
    ),
    "but not what is read afterwards": (lambda x: (y := pnp.sin(x)) * pnp.cos(y), (T,), (), {"sin": 1, "cos": 2, "mul": 2}),
    "nor an argument": (lambda x: x * 2.0, (T,), (), {"mul": 1}),
    "unless it is donated": (lambda x: pnp.sin(x) @ x, (T,), (0,), {"sin": 2, "dot_general": 3}),
    "a donated argument is the result": (lambda x: x * 2.0, (T,), (0,), {"mul": 1}),
    "a product cannot overwrite": (lambda x: pnp.sin(x) @ x, (T,), (), {"sin": 1, "dot_general": 2}),
    "a reshape is an alias": (lambda x: (pnp.sin(x).reshape(100) + 1.0, x), (T,), (), {"reshape": 1, "add": 1}),
    "of which the last reader counts": (
        lambda x: ((y := pnp.sin(x)).reshape(100) * 2.0, y),
        (T,),
        (),
        {"reshape": 1, "mul": 2},
    ),
    "a transpose is not": (lambda x: pnp.sin(x).T, (T,), (), {"transpose": 2}),
    "results stay": (lambda x: (pnp.sin(x), pnp.cos(x), pnp.tan(x)), (T,), (), {"sin": 1, "cos": 2, "tan": 3}),
    "what nobody wants is released": (lambda x: pnp.sort(x @ x) @ x, (T,), (), {"dot_general": 2, "sort": 2}),
    "a call releases what it is given": (
        lambda x: pb.jit(lambda y: pnp.sin(y) @ x)(x @ x),
        (T,),
        (),
        {"sin": 1, "call": 2, "dot_general": 2},
    ),
    "and keeps what is read afterwards": (lambda x: (pb.jit(pnp.sin)(y := x @ x), y), (T,), (), {"sin": 2, "call": 2}),
    "what a call returns of its operands is theirs": (
        lambda x: pb.jit(lambda y: (y, pnp.sin(y)))(x @ x),
        (T,),
        (),
        {"sin": 2, "call": 2},
    ),
    "also one that it is given": (
        lambda x: pb.jit(lambda y: y)(x @ x) @ x,
        (T,),
        (),
        {"call": 1, "dot_general": 2},
    ),
    "what is in it is around the held Program": (
        lambda x: (pb.jit(pnp.sin)(x), pnp.cos(x), pb.jit(pnp.tan)(x)),
        (T,),
        (),
        {"sin": 1, "tan": 3},
    ),
    "of branches the larger": (
        lambda x: lax.cond(pnp.sum(x) > 1, lambda x: x @ x @ x, lambda x: x, x),
        (T,),
        (),
        {"dot_general": 2 + 4 / SIZE},
    ),
    "a loop has one carry": (lambda x: lax.fori_loop(0, 9, lambda i, c: pnp.sin(c), x @ x), (T,), (), {"sin": 1}),
    "and a copy of it where it is read elsewhere": (
        lambda x: (lax.fori_loop(0, 9, lambda i, c: pnp.sin(c), y := x @ x), y),
        (T,),
        (),
        {"sin": 2},
    ),
    "a scan keeps what it stacks": (
        lambda x: lax.scan(lambda c, _: (c, c @ x), x, None, length=5)[1],
        (T,),
        (),
        {"scan": 7, "dot_general": 7},
    ),
    "and what it is given": (lambda x: lax.scan(lambda c, r: (c + r, None), x[0], x * 2.0)[0], (T,), (), {"add": 1.2}),
    "a while loop tests its carry": (
        lambda x: lax.while_loop(lambda c: pnp.sum(c @ c) > 1.0, lambda c: pnp.sin(c), x),
        (T,),
        (),
        {"dot_general": 2, "sin": 1},
    ),
    "a block is written in place": (
        lambda x: lax.dynamic_update_slice(x @ x, x[:1], (0, 0)),
        (T,),
        (),
        {"dynamic_update_slice": 1.1},
    ),
    "nothing of no size": (lambda x: pnp.sin(x) @ x.T, (pb.ArrayType((0, 3)),), (), {"sin": 0}),
}


@pytest.mark.parametrize("name", CASES)
def test_memory(name: str) -> None:
    function, types, donated, wanted = CASES[name]
    found = by_name(function, *types, donated=donated)
    assert {key: found[key] for key in wanted} == {key: pytest.approx(SIZE * size, abs=9) for key, size in wanted.items()}


def simulated(program: Program) -> list[int]:
    """What is live while each equation of a Program without held ones runs: no aliases, nothing in place."""
    found = []
    for i, equation in enumerate(program.equations):
        made = [out for before in program.equations[:i] for out in before.outputs]
        later = {atom for after in program.equations[i:] for atom in after.inputs} | {*program.outputs}
        found.append(
            sum([out.type.nbytes for out in made if out in later]) + sum([out.type.nbytes for out in equation.outputs])
        )
    return found


@settings(deadline=None, max_examples=60)
@given(programs())
def test_random_programs(program: Program) -> None:
    own = liveness(program)
    if not [equation for equation in program.equations if equation.primitive.wiring is not None]:
        found = [own.live[equation.id] for equation in program.equations]
        assert all([one <= most for one, most in zip(found, simulated(program))])  # what shares memory takes less
    assert sum([one.bytes for one in waiting(program)]) == own.peak == max(own.live.values(), default=0)


def test_without_aliases_and_overwriting_it_is_the_simulation() -> None:
    def f(x: Any) -> Any:
        for _ in range(4):
            x = x @ pnp.concatenate([x[:5], x.T[5:] @ x])
        return x, pnp.sum(x, 0)

    program = pb.xpr(f, T)
    assert [liveness(program).live[e.id] for e in program.equations] == simulated(program)


def test_the_peak_and_what_waits_there() -> None:
    def f(x: Any) -> Any:
        wide = pnp.concatenate([x, x, x])
        return pnp.sum(wide @ x), pnp.sin(x)

    program = pb.xpr(f, T)
    found = liveness(program)
    assert found.peak_equation is not None and found.peak_equation.primitive.name == "dot_general"
    assert (found.peak, found.held, found.total) == (6 * SIZE, SIZE, 7 * SIZE)
    values = waiting(program)
    assert [(one.bytes, one.equation and one.equation.primitive.name) for one in values] == [
        (3 * SIZE, "concatenate"),
        (3 * SIZE, "dot_general"),
    ]


def test_the_path_to_the_peak_goes_through_what_holds_it() -> None:
    def step(c: Any, _: Any) -> Any:
        return pb.jit(lambda c: pnp.concatenate([c, c, c]) @ c)(c)[:10], None

    program = pb.xpr(lambda x: lax.scan(step, x, None, length=3)[0], T)
    found = liveness(program)
    assert [equation.primitive.name for equation in found.path] == ["scan", "call"]
    assert found.peak_equation is not None and found.peak_equation.primitive.name == "dot_general"
    values = waiting(program)
    assert sum([one.bytes for one in values]) == found.peak
    assert [len(one.within) for one in values] == [2, 2, 1] or {len(one.within) for one in values} <= {0, 1, 2}


def test_what_is_overwritten_is_told() -> None:
    program = pb.xpr(lambda x, y: pnp.sin(x) * (y @ y), T, T)
    found = liveness(program)
    ((number, pairs),) = found.reused.items()
    assert names(program)[number] == "mul" and pairs == ((0, 0),)


def test_constants_count_once() -> None:
    table = np.ones((100, 10), "float32")
    shared = pnp.array(table)
    program = pb.xpr(lambda x: pb.jit(lambda x: shared @ x)(x) + pb.jit(lambda x: shared @ x * 2.0)(x), T)
    assert liveness(program).held == SIZE + 10 * SIZE


def test_an_empty_program() -> None:
    program = pb.xpr(lambda x: x, T)
    assert liveness(program)[:4] == ({}, SIZE, 0, None) and waiting(program) == []
    assert liveness(program, (0,))[:4] == ({}, 0, SIZE, None)


def test_it_is_found_once() -> None:
    program = pb.xpr(pnp.sin, T)
    assert liveness(program) is liveness(program) and liveness(program) is not liveness(program, (0,))


def test_the_same_program_in_two_places_counts_where_most_is_around_it() -> None:
    inner = pb.jit(lambda x: pnp.sin(x) @ x)
    program = pb.xpr(lambda x: inner(x) + inner(pnp.cos(x) * pnp.sum(x @ x)), T)
    held = [e.params["program"] for e in program.equations if e.primitive.name == "call"]
    assert len(held) == 2
    found = liveness(program)
    assert max(found.live.values()) == found.peak


def test_simplified_programs_keep_the_ids_by_which_it_is_told() -> None:
    program = pb.xpr(lambda x: pnp.sin(x) * 1.0 + 0.0 * pnp.cos(x), T)
    assert liveness(simplify(program)).live.keys() <= liveness(program).live.keys()


def test_deep_nests_take_no_time_that_grows_with_the_paths() -> None:
    """A Program that holds another one twice, and so on: 2^30 paths lead to the innermost one."""
    held = pb.jit(pnp.sin)
    for _ in range(30):
        held = pb.jit(lambda x, inner=held: inner(inner(x)))
    program = pb.xpr(held, T)
    assert liveness(program).peak == SIZE
