"""Who shares memory with whom: never a result with what the user can write to, never a donated buffer with a live view."""

import functools
import gc
import weakref

import numpy as np
import pytest

import pullback as pb
from pullback.core.array import ALIGNED_BYTES, ALIGNMENT, Array, aligned_empty, host_of
from pullback.native.choice import native_mode
from pullback.program.interpret import run

pnp = pb.numpy
double = pb.jit(lambda x: x + x)


def aligned(count, dtype=np.float32):
    made = aligned_empty((count,), np.dtype(dtype))
    made[:] = 1
    return made


ROUTES = {
    "asarray": lambda x: pnp.asarray(x),
    "array": lambda x: pnp.array(x),
    "device_put": lambda x: pb.device_put(x),
    "identity": pb.jit(lambda x: x),
    "nested identity": pb.jit(lambda x: pb.jit(lambda y: y)(x)),
    "closure": lambda x: (lambda f: f(0.0))(pb.jit(lambda y: pnp.add(x, y))),
    "grad residual": lambda x: pb.vjp(lambda y: y * x, pnp.ones(len(x)))[1](pnp.ones(len(x)))[0],
    "vjp of jit": lambda x: pb.vjp(pb.jit(lambda y, z: y * z), pnp.ones(len(x)), x)[1],
}


@pytest.mark.parametrize("count", [16, ALIGNED_BYTES])
@pytest.mark.parametrize("route", ROUTES)
def test_later_writes_change_nothing(route, count):
    x = aligned(count)
    for _ in range(3):  # the fast paths come with the second call
        x[:] = 1
        made = ROUTES[route](x)
        x[:] = 7
        if callable(made):
            made = made(pnp.ones(count))[0]
        assert np.asarray(made)[0] == 1 and np.asarray(made)[-1] == 1


def test_a_compiled_function_sees_what_is_written_between_calls():
    x = aligned(16)
    for value in (1, 2, 3):
        x[:] = value
        assert float(double(x)[0]) == 2 * value


def test_results_are_fetched_without_a_copy():
    out = double(np.ones(1000, np.float32))
    assert out.host.ctypes.data == out._buffer.unsafe_buffer_pointer()
    assert not out.view().flags.writeable


def test_large_copies_are_aligned():
    assert pnp.asarray(np.ones(ALIGNED_BYTES, np.uint8)).host.ctypes.data % ALIGNMENT == 0


def test_results_are_not_arguments():
    x = pnp.asarray(aligned(64))
    out = pb.jit(lambda x: (x, x))(x)
    assert len({x._buffer.unsafe_buffer_pointer(), *[o._buffer.unsafe_buffer_pointer() for o in out]}) == 3


# ---- donation ---------------------------------------------------------------------------------------------------------

give = pb.jit(lambda x: x * 2.0, donate_argnums=0)


def fresh():
    return double(np.ones(1000, np.float32))


def test_donated_memory_is_reused():
    x = fresh()
    where = x._buffer.unsafe_buffer_pointer()
    assert give(x)._buffer.unsafe_buffer_pointer() == where


USES = {"host": lambda x: x.host, "numpy": np.asarray, "jit": double, "eager": lambda x: x + 1.0, "again": give}


@pytest.mark.parametrize("use", USES)
def test_donated_arrays_are_gone(use):
    x = fresh()
    give(x)
    with pytest.raises(pb.errors.DonatedBufferError):
        USES[use](x)


def test_donated_memory_that_no_result_takes_is_reported():
    with pytest.warns(UserWarning, match=r"Some donated buffers were not usable, .*: float32\[3\]"):
        pb.jit(lambda x: x.sum(), donate_argnums=0)(pb.numpy.ones(3))


def test_views_of_donated_arrays_stay():
    x = fresh()
    seen = x.view()
    out = give(x)
    assert seen[0] == 2 and float(out[0]) == 4


def test_host_arrays_that_are_donated_stay():
    host = aligned(1000)
    give(host)
    array = pnp.asarray(host)
    same = array.host
    give(array)
    assert host[0] == 1 and same[0] == 1


def test_an_array_that_shares_its_buffer_is_copied():
    x = fresh()
    other = Array(x.type, None, x._buffer)
    give(x)
    assert float(other[0]) == 2


def test_a_donated_array_that_is_passed_twice():
    x = fresh()
    out = pb.jit(lambda a, b: a * 2.0 + b, donate_argnums=0)(x, x)
    assert float(out[0]) == 6


def test_a_donated_array_that_is_also_closed_over():
    x = fresh()
    function = pb.jit(lambda a: a + x, donate_argnums=0)
    lowered = function.lower(x).compile()
    lowered(x)
    assert float(function(fresh())[0]) == 4


def traced_loop(x):
    """A Program that closes over an array, with one in it that closes over the same."""
    return pb.xpr(lambda a: pb.lax.fori_loop(0, 2, lambda i, c: c * x, a) + x, pnp.ones(x.shape))


def ahead(f):
    return lambda x: pb.jit(functools.partial(f, x)).lower(x).compile


CLOSED_OVER = {  # what is made while the array is there, and makes the function when it is gone
    "lowered": ahead(lambda x, a: a * x),
    "lowered with a loop": ahead(lambda x, a: pb.lax.fori_loop(0, 2, lambda i, c: c * x, a)),
    "lowered gradient": ahead(pb.grad(lambda x, a: pnp.sum(pnp.sin(a) * x), argnums=1)),
    "traced": lambda x: functools.partial(lambda program: pb.jit(lambda a: run(program, [a])[0]), traced_loop(x)),
    "traced, eager": lambda x: functools.partial(lambda program: lambda a: run(program, [a])[0], traced_loop(x)),
}


@pytest.mark.parametrize("shape", [(), (0,), (4,), (300, 300)])
@pytest.mark.parametrize("mode", ["off", "on", "always"])
@pytest.mark.parametrize("name", CLOSED_OVER)
def test_what_was_closed_over_may_be_donated_before_it_is_compiled(name, mode, shape):
    with native_mode(mode):
        x, argument = double(pnp.ones(shape)), double(pnp.ones(shape))
        expected = np.asarray(CLOSED_OVER[name](x)()(argument))
        make = CLOSED_OVER[name](x)
        give(x)
        assert x.is_deleted()
        np.testing.assert_array_equal(make()(argument), expected)


def test_what_a_program_returns_of_what_it_holds_may_be_donated():
    x = double(pnp.ones(4))
    program = pb.xpr(lambda a: (a, x), 1.0)
    give(run(program, [1.0])[1])
    give(x)
    assert run(program, [1.0])[1].tolist() == [2.0] * 4


def test_programs_hold_one_alias_of_an_array():
    x = double(pnp.ones(4))
    programs = [traced_loop(x), traced_loop(x.alias()), pb.xpr(pb.grad(lambda a: pnp.sum(a * x)), x)]
    held = [array for one in programs for inner in (one, *one.subprograms()) for _, array in inner.constants]
    assert len(held) == 5 and len({id(array) for array in held}) == 1 and held[0] is not x


def test_donating_a_tree_by_name():
    params = {"w": fresh(), "b": fresh()}
    new = pb.jit(lambda params, x: {k: v - x for k, v in params.items()}, donate_argnames="params")(params, 1.0)
    assert float(new["w"][0]) == 1
    for leaf in params.values():
        with pytest.raises(pb.errors.DonatedBufferError):
            np.asarray(leaf)


def test_nothing_is_donated_under_other_transformations():
    x = fresh()
    pb.grad(lambda x: pnp.sum(give(x)))(x)
    pb.vmap(give)(x)
    pb.jit(lambda x: give(x))(x)
    assert float(x[0]) == 2


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_a_call_has_ended_when_it_returns(dtype: str) -> None:
    """Also for large NumPy arguments, which XLA would copy in the background: the caller may write to them at once."""
    function = pb.jit(lambda x: (x, x[::-1]))
    for i in range(40):
        x = np.empty(300 * 300 + 1, pb.core.dtypes.DTYPES[dtype])[1:]  # never aligned
        x[:] = i % 7
        same, reversed_ = function(x)
        assert same._buffer.is_ready() and reversed_._buffer.is_ready()
        x[:] = 99
        assert np.all(np.asarray(same).astype(np.float32) == i % 7)
        y = pb.device_put(x)
        x[:] = 1
        assert np.all(np.asarray(y).astype(np.float32) == 99)


# Where arrays come from that others may hold as well: constants that are made once, literals of Programs, other arrays.
program = pb.xpr(lambda x: (x, 2.0, pnp.ones(3)), 1.0)
SOURCES = {
    "gradient of an unused argument": lambda: pb.grad(lambda a, b: a * 2.0, argnums=(0, 1))(1.0, 2.0),
    "gradient of a sum": lambda: pb.grad(pnp.sum)(pnp.ones(3)),
    "gradient that is one": lambda: pb.grad(lambda a: a)(1.0),
    "tangent that is zero": lambda: pb.jvp(lambda x: (x, 5.0), (1.0,), (1.0,)),
    "literal of a Program": lambda: program(1.0),
    "literal of a loop": lambda: pb.lax.scan(lambda c, _: (c, 1.0), 2.0, None, length=2),
    "literal of a branch": lambda: pb.lax.cond(True, lambda x: (x, 1.0), lambda x: (x, 2.0), 1.0),
    "literal of a checkpoint": lambda: pb.checkpoint(lambda x: (x, 2.0))(1.0),
    "literal of a derivative": lambda: pb.vjp(lambda x: (x, 3.0), 2.0)[0],
    "zeros": lambda: pnp.zeros_like(pnp.ones(3)),
    "batched constant": lambda: pb.vmap(lambda x: 1.0)(pnp.ones(3)),
}


@pytest.mark.parametrize("source", SOURCES)
def test_what_others_hold_survives_a_donation(source):
    """A training loop that donates its gradients, one of which is a constant, lives on."""
    spend = pb.jit(lambda tree: pb.tree.map(lambda x: x * 2.0, tree), donate_argnums=0)
    expected = [np.array(leaf) for leaf in pb.tree.leaves(SOURCES[source]())]
    for _ in range(3):
        spend(SOURCES[source]())
    found = [np.asarray(leaf) for leaf in pb.tree.leaves(SOURCES[source]())]
    assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))


@pytest.mark.parametrize("put", [pb.device_put, lambda x: pb.device_put(x, pb.devices()[0])])
@pytest.mark.parametrize("make", [lambda: fresh(), lambda: pnp.ones(1000) * 2.0, lambda: pnp.zeros(()) + 2.0])
def test_putting_is_no_giving(put, make):
    for first in (True, False):
        original = make()
        other = put(original)
        give(original if first else other)
        assert float(np.asarray(other if first else original).ravel()[0]) == 2.0


GIVEN = [(pb.jit(lambda x: x * 2.0), "x"), (pb.jit(lambda p: p["w"][1] * 2.0), r"p\['w'\]\[1\]")]


@pytest.mark.parametrize(("donating", "path"), GIVEN, ids=["x", "tree"])
@pytest.mark.parametrize("seen", [False, True], ids=["first call", "after others"])
def test_the_error_of_a_donated_argument_names_it(donating, path, seen):
    def given(x):
        return x if path == "x" else {"w": [fresh(), x]}

    for _ in range(3 * seen):
        donating(given(fresh()))
    x = fresh()
    give(x)
    with pytest.raises(pb.errors.DonatedBufferError, match=f"Argument {path} of .* donated before"):
        donating(given(x))


def steps(f):
    return lambda x: pb.lax.scan(lambda carry, _: (f(carry), None), x, None, 3)[0]


# Functions of one that closes over an array, called; what is remembered of them goes with them.
REMEMBERING = {
    "jit": lambda f: called(pb.jit(f)),
    "jit of grad": lambda f: called(pb.jit(pb.grad(total(f)))),
    "grad of jit": lambda f: called(pb.grad(total(pb.jit(f)))),
    "vmap of jit": lambda f: called(pb.vmap(pb.jit(f))),
    "jit of scan": lambda f: called(pb.jit(steps(f))),
    "grad of scan": lambda f: called(pb.jit(pb.grad(total(steps(f))))),
    "lowered": lambda f: pb.jit(f).lower(pnp.ones(3)).compile(),
    "checkpoint": lambda f: called(pb.grad(total(pb.checkpoint(f)))),
    "linearize": lambda f: called(pb.linearize(f, pnp.ones(3))[1]),
}


def called(f):
    f(pnp.ones(3))
    f(pnp.ones(3))  # the fast paths come with the second call
    return f


def total(f):
    return lambda x: pnp.sum(f(x))


@pytest.mark.parametrize("name", REMEMBERING)
def test_what_a_function_closes_over_goes_with_it(name):
    """At once: no collection of cycles is needed, which may come late where arrays are large and few."""
    kept = pnp.asarray([1.0, 2.0, 3.0])
    f = (lambda kept: lambda x: pnp.sin(x) * kept)(kept)
    made, kept = REMEMBERING[name](f), weakref.ref(host_of(kept))
    was = gc.isenabled()
    gc.disable()
    try:
        assert kept() is not None
        del made, f
        assert kept() is None
    finally:
        if was:
            gc.enable()


def test_a_numpy_array_that_is_used_often_is_in_a_program_once():
    data, placed = np.arange(3, dtype=np.float32), pb.device_put(pnp.arange(3.0), pb.devices()[0])

    def f(x):
        y = x + data + pnp.sum(data) + pnp.array(data) + placed
        data[0] = 7.0  # what comes after it sees it
        return y * data, pnp.asarray([0.0, 1.0]) + pnp.asarray([-0.0, 1.0])

    program = pb.xpr(f, pnp.ones(3))
    held = sorted(tuple(np.asarray(array).tolist()) for _, array in program.constants)
    assert held == [(-0.0, 1.0), (0.0, 1.0), (0.0, 1.0, 2.0), (0.0, 1.0, 2.0), (7.0, 1.0, 2.0)]
    data[0] = 0.0
    assert pb.jit(f)(pnp.ones(3))[0].tolist() == [28.0, 7.0, 20.0]
