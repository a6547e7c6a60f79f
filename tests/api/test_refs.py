"""Mutable arrays: against NumPy's own, for random programs of reads, writes, loops, branches and jits; and what is refused."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pullback as pb
import pullback.numpy as pnp
from pullback import lax

# ---- random programs against NumPy ------------------------------------------------------------------------------------

steps = st.deferred(
    lambda: st.one_of(
        st.tuples(st.just("set"), st.integers(0, 1), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("add"), st.integers(0, 1), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("whole"), st.integers(0, 1), st.integers(0, 1)),
        st.tuples(st.just("jit"), st.lists(steps, max_size=3)),
        st.tuples(st.just("scan"), st.integers(0, 3), st.lists(steps, max_size=2)),
        st.tuples(st.just("while"), st.integers(0, 3), st.lists(steps, max_size=2)),
        st.tuples(st.just("cond"), st.integers(0, 3), st.lists(steps, max_size=2), st.lists(steps, max_size=2)),
    )
)


def play(program: list[Any], refs: list[Any], compiled: bool) -> None:
    """Run a random program on two arrays: Refs of pullback's, or NumPy's."""

    def body(inner: list[Any]) -> Any:
        return lambda *_: play(inner, refs, compiled)

    for kind, *rest in program:
        if kind == "set":
            which, place, source = rest
            refs[which][place] = refs[1 - which][source] + 1
        elif kind == "add":
            which, place, source = rest
            refs[which][place] += refs[which][source] % 7
        elif kind == "whole":
            to, by = rest
            refs[to][...] = refs[by][...] % 1009 + refs[to][...]
        elif kind == "jit":
            (pb.jit(body(rest[0])) if compiled else body(rest[0]))()
        elif kind == "scan" and compiled:
            lax.scan(lambda carry, _: (play(rest[1], refs, compiled), None), None, None, rest[0])
        elif kind == "while" and compiled:
            lax.while_loop(lambda i: i < rest[0], lambda i: (play(rest[1], refs, compiled), i + 1)[1], 0)
        elif kind in ("scan", "while"):
            for _ in range(rest[0]):
                play(rest[1], refs, compiled)
        elif compiled:
            lax.cond(refs[0][rest[0]] % 2 == 0, body(rest[1]), body(rest[2]))
        else:
            play(rest[1] if refs[0][rest[0]] % 2 == 0 else rest[2], refs, compiled)


@given(st.lists(steps, max_size=5), st.booleans())
@settings(max_examples=25, deadline=None)
def test_random_programs_change_refs_as_numpy_arrays_change(program: list[Any], jitted: bool) -> None:
    start = [np.arange(4, dtype=np.int32), np.arange(4, dtype=np.int32) * 3]
    expected = [one.copy() for one in start]
    play(program, expected, compiled=False)
    refs = [pb.new_ref(one) for one in start]

    def run() -> None:
        play(program, refs, compiled=True)

    (pb.jit(run) if jitted else run)()
    for ref, array in zip(refs, expected):
        np.testing.assert_array_equal(np.asarray(ref[...]), array)


# ---- reading and writing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "int64", "float16", "bfloat16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 3)])
def test_methods_in_every_dtype(dtype: str, shape: tuple[int, ...]) -> None:
    ref = pb.new_ref(pnp.ones(shape, dtype))
    assert (ref.shape, str(ref.dtype), ref.ndim, ref.size) == (shape, dtype, len(shape), int(np.prod(shape)))
    before = ref.swap(pnp.zeros(shape, dtype))
    assert pnp.all(before == pnp.ones(shape, dtype)) and pnp.all(ref.get() == pnp.zeros(shape, dtype))
    pb.jit(lambda: ref.set(pnp.ones(shape, dtype)))()
    if dtype != "bool":
        ref.addupdate(pnp.ones(shape, dtype))
        assert pnp.all(ref[...] == 2 * pnp.ones(shape, dtype))
    assert ref[...].dtype == ref.dtype and not ref[...].type.weak


def test_a_value_that_was_read_stays_when_the_ref_changes() -> None:
    ref = pb.new_ref(pnp.zeros(3))
    read = ref[...]
    ref[0] = 1.0
    pb.jit(lambda: ref.addupdate(1.0))()
    assert read.tolist() == [0, 0, 0] and ref[...].tolist() == [2, 1, 1]


def test_a_donation_takes_nothing_from_a_ref() -> None:
    double = pb.jit(lambda x: 2.0 * x[...], donate_argnums=0)
    given, written = double(pnp.ones(4)), double(pnp.ones(4))
    first, second = pb.new_ref(given), pb.new_ref(pnp.zeros(4))
    second[...] = written
    for donated in (given, written, first[...], first):
        assert double(donated).tolist() == [4, 4, 4, 4]
    assert first[...].tolist() == second[...].tolist() == [2, 2, 2, 2]


def test_indices_are_arrays_numpy_arrays_and_traced_values() -> None:
    ref = pb.new_ref(pnp.arange(4))
    assert ref[pnp.asarray([3, 0])].tolist() == ref[np.asarray([3, 0])].tolist() == [3, 0]
    assert ref[()].tolist() == [0, 1, 2, 3] and ref[ref[...] > 1].tolist() == [2, 3]
    lax.fori_loop(0, 3, lambda i, _: ref.set(ref[i] + 1, i + 1), None)
    assert ref[...].tolist() == [0, 1, 2, 3]


def test_a_numpy_array_does_not_share_memory_with_the_ref() -> None:
    given = np.zeros(3, np.float32)
    ref = pb.new_ref(given)
    given[0] = 5
    ref[...] = given
    given[1] = 7
    assert ref[...].tolist() == [5, 0, 0]


def test_a_jitted_function_is_traced_once_and_sees_what_changed_in_between() -> None:
    ref, traces = pb.new_ref(0.0), []

    @pb.jit
    def f(x: Any) -> Any:
        traces.append(0)
        ref[...] = ref[...] + x
        return 10.0 * ref[...]

    assert [float(f(1.0)), float(f(2.0))] == [10.0, 30.0]
    ref[...] = 100.0
    assert float(f(1.0)) == 1010.0 and len(traces) == 1


def test_jitted_functions_take_refs_as_arguments_in_trees() -> None:
    traces = []

    @pb.jit
    def update(state: Any, gradient: Any) -> Any:
        traces.append(0)
        state["m"][...] = 0.5 * state["m"][...] + gradient
        return state["v"][0]

    for start in (0.0, 4.0):
        state = {"m": pb.new_ref(pnp.full(2, start)), "v": pb.new_ref(pnp.ones(2))}
        assert float(update(state, pnp.ones(2))) == 1.0
        assert state["m"][...].tolist() == [start / 2 + 1] * 2
    assert len(traces) == 1


def test_what_raises_leaves_refs_as_they_were() -> None:
    ref = pb.new_ref(1.0)

    @pb.jit
    def f() -> None:
        ref[...] = 2.0
        raise KeyError("mine")

    with pytest.raises(KeyError):
        f()
    assert float(ref[...]) == 1.0


def test_copies_pickles_and_threads() -> None:
    ref = pb.new_ref(pnp.arange(3.0))
    for other in (copy.deepcopy(ref), pickle.loads(pickle.dumps(ref)), pb.new_ref(ref)):
        other[0] = 9.0
        assert ref[...].tolist() == [0, 1, 2]
    worker = threading.Thread(target=pb.jit(lambda: ref.addupdate(1.0)))
    worker.start()
    worker.join()
    assert ref[...].tolist() == [1, 2, 3]


# ---- in transformations -----------------------------------------------------------------------------------------------


def cubes(xs: Any) -> Any:
    """The sum of the cubes, by Refs that the function makes: one in a scan, one in a while_loop, one in a cond."""
    total, count = pb.new_ref(0.0), pb.new_ref(0)

    def step(_: None, x: Any) -> tuple[None, Any]:
        square = pb.new_ref(x * x)
        lax.cond(count[...] >= 0, lambda: square.set(square[...] * x), lambda: None)
        total[...] += square[...]
        count.addupdate(1)
        return None, count[...]

    lax.scan(step, None, xs)
    return total[...]


@pytest.mark.parametrize("transformed", [lambda f: f, pb.jit], ids=["eager", "jit"])
def test_refs_of_the_function_itself_go_through_every_transformation(transformed: Any) -> None:
    xs = pnp.asarray([1.0, 2.0, -3.0])
    assert float(transformed(cubes)(xs)) == -18.0
    assert transformed(pb.grad(cubes))(xs).tolist() == [3.0, 12.0, 27.0]
    assert transformed(pb.hessian(cubes))(xs).tolist() == np.diag([6.0, 12.0, -18.0]).tolist()
    out, tangent = transformed(lambda x, t: pb.jvp(cubes, (x,), (t,)))(xs, pnp.ones(3))
    assert (float(out), float(tangent)) == (-18.0, 42.0)
    batch = pnp.stack([xs, 2.0 * xs, -xs])
    assert transformed(pb.vmap(cubes))(batch).tolist() == [-18.0, -144.0, 18.0]
    assert transformed(pb.vmap(pb.grad(cubes), in_axes=1))(batch.T).tolist() == [[3, 12, 27], [12, 48, 108], [3, 12, 27]]
    assert transformed(pb.grad(pb.checkpoint(cubes)))(xs).tolist() == [3.0, 12.0, 27.0]


@pytest.mark.parametrize("transformed", [lambda f: f, pb.jit], ids=["eager", "jit"])
def test_a_ref_of_outside_counts_within_a_gradient_and_keeps_cotangents(transformed: Any) -> None:
    calls, seen = pb.new_ref(0), pb.new_ref(0.0)

    @pb.custom_vjp
    def watched(x: Any) -> Any:
        return x

    def backward(_: None, cotangent: Any) -> tuple[Any]:
        seen[...] = cotangent
        return (cotangent,)

    watched.defvjp(lambda x: (x, None), backward)

    def f(x: Any) -> Any:
        calls.addupdate(1)
        return watched(x * x) * lax.stop_gradient(3.0 + 0.0 * calls[...])

    for turn in (1, 2):
        assert float(transformed(pb.grad(f))(2.0)) == 12.0
        assert (int(calls[...]), float(seen[...])) == (turn, 3.0)


def test_a_ref_of_outside_is_read_by_every_function_of_a_users_function() -> None:
    scale = pb.new_ref(3.0)
    functions = {
        "checkpoint": pb.checkpoint(lambda x: scale[...] * x),
        "vmap": lambda x: pb.vmap(lambda y: scale[...] * y)(x[None])[0],
        "map": lambda x: lax.map(lambda y: scale[...] * y, x[None])[0],
        "switch": lambda x: lax.switch(1, [lambda x: x, lambda x: scale[...] * x], x),
        "custom_linear_solve": lambda x: pb.custom_linear_solve(
            lambda v: v / scale[...], x, lambda matvec, b: scale[...] * b, symmetric=True
        ),
    }
    for name, f in functions.items():
        for value in (3.0, 5.0):
            scale[...] = value
            assert float(pb.jit(f)(pnp.asarray(2.0))) == 2 * value, name
            assert float(pb.grad(f)(pnp.asarray(2.0))) == value, name


@pytest.mark.parametrize("transformed", [lambda f: f, pb.jit], ids=["eager", "jit"])
def test_vmap_takes_refs_of_batches(transformed: Any) -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        a[0] += b[...]
        return pnp.sum(a[...]) + c[...]

    a, b, c = pb.new_ref(pnp.arange(6.0).reshape(2, 3)), pb.new_ref(pnp.ones(3)), pb.new_ref(1.0)
    assert transformed(pb.vmap(f, in_axes=(-1, 0, None)))(a, b, c).tolist() == [5, 7, 9]
    assert a[...].tolist() == [[1, 2, 3], [3, 4, 5]] and b[...].tolist() == [1, 1, 1]


def test_eval_shape_leaves_refs_as_they_are() -> None:
    ref = pb.new_ref(1.0)
    assert pb.eval_shape(lambda: (ref.addupdate(1.0), ref[...])[1]) == pb.ArrayType((), "float32")
    assert float(ref[...]) == 1.0


# ---- what is refused --------------------------------------------------------------------------------------------------

REF = pb.new_ref(pnp.zeros(3))
COUNT = pb.new_ref(0)


@pb.custom_jvp
def scaled(x: Any) -> Any:
    return x


scaled.defjvp(lambda primals, tangents: (primals[0], COUNT[...] * tangents[0]))
REFUSED = {
    "grad": (lambda: pb.grad(lambda x: (REF.set(x), x)[1])(1.0), pb.errors.RefError, "cannot keep a value of grad"),
    "vmap": (
        lambda: pb.vmap(lambda x: (REF.addupdate(x), x)[1])(pnp.ones(2)),
        pb.errors.RefError,
        "cannot keep a value of vmap",
    ),
    "jit of grad": (
        lambda: pb.jit(lambda x: pb.grad(lambda y: (REF.set(y), y)[1])(x))(1.0),
        pb.errors.RefError,
        "cannot keep a value of grad",
    ),
    "checkpoint": (
        lambda: pb.checkpoint(lambda x: (COUNT.set(1), x)[1])(1.0),
        pb.errors.RefError,
        "checkpoint.* writes to a Ref",
    ),
    "a condition": (
        lambda: lax.while_loop(lambda i: (COUNT.addupdate(1), i < 3)[1], lambda i: i + 1, 0),
        pb.errors.RefError,
        "while_loop's condition .* writes to a Ref",
    ),
    "xpr": (lambda: pb.xpr(lambda x: x + COUNT[...], 1), pb.errors.RefError, "xpr.* met a Ref"),
    "lower": (lambda: pb.jit(lambda x: x + COUNT[...]).lower(1), pb.errors.RefError, "uses Refs"),
    "lower of one": (lambda: pb.jit(lambda x: x[...]).lower(COUNT), pb.errors.RefError, "uses Refs"),
    "as an array": (lambda: pnp.sin(REF), pb.errors.RefError, r"read its value as ref\[\.\.\.\]"),
    "as grad's argument": (lambda: pb.grad(lambda x: x)(COUNT), pb.errors.RefError, "Only functions under jit and vmap take"),
    "in a rule of a jitted function": (
        lambda: pb.grad(pb.jit(scaled))(1.0),
        pb.errors.RefError,
        "A rule closes over a Ref, of type i32",
    ),
    "twice": (lambda: pb.jit(lambda a, b: None)(REF, REF), pb.errors.RefError, "given a Ref twice"),
    "twice by vmap": (lambda: pb.vmap(lambda a, b: a.set(1.0))(REF, REF), pb.errors.RefError, "as another argument as well"),
    "closed over by vmap": (lambda: pb.jit(pb.vmap(lambda a: a.set(REF[0])))(REF), pb.errors.RefError, "also closes over"),
    "closed over by vmap eagerly": (lambda: pb.vmap(lambda a: a.set(REF[0]))(REF), pb.errors.RefError, "as another argument"),
    "closed over too": (lambda: pb.jit(lambda a: a[0] + REF[0])(REF), pb.errors.RefError, "also closes over"),
    "a float for an int": (lambda: COUNT.set(1.5), pb.errors.DtypeError, r"\.astype\('int32'\)"),
    "a wide one": (lambda: REF.addupdate(np.ones(3)), pb.errors.DtypeError, r"\.astype\('float32'\)"),
    "an int beyond uint8": (lambda: pb.new_ref(np.uint8(0)).set(300), OverflowError, "300 does not fit"),
    "a shape": (lambda: REF.set(pnp.ones(2)), pb.errors.ShapeError, "broadcast"),
    "out of bounds": (lambda: REF.set(1.0, 3), IndexError, "3"),
    "frozen elsewhere": (lambda: pb.jit(lambda: pb.freeze(COUNT))(), pb.errors.RefError, "only where it was made"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_and_changes_nothing(case: str) -> None:
    call, error, says = REFUSED[case]
    with pytest.raises(error, match=says):
        call()
    assert REF[...].tolist() == [0, 0, 0] and int(COUNT[...]) == 0


def test_a_frozen_ref_and_one_that_escaped_say_so() -> None:
    ref, kept = pb.new_ref(1.0), []
    assert float(pb.freeze(ref)) == 1.0 and "frozen" in repr(ref)
    for use in (lambda: ref[...], lambda: ref.set(2.0), lambda: pb.freeze(ref)):
        with pytest.raises(pb.errors.RefError, match="was frozen"):
            use()
    pb.jit(lambda x: kept.append(pb.new_ref(x)))(1.0)
    with pytest.raises(pb.errors.EscapedTracerError):
        kept[0][...] + 1.0
