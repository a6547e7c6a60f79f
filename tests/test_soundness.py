"""Nothing is left behind: nesting, exceptions, interrupts, escapes, threads, memory."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp


class TestPerturbations:
    def test_the_inner_derivative_of_a_constant_is_zero(self) -> None:
        def derivative(f: Callable[[Any], Any], x: Any) -> Any:
            return pb.jvp(f, (x,), (1.0,))[1]

        assert float(derivative(lambda x: x * derivative(lambda y: x, 0.0), 0.0)) == 0.0

    @pytest.mark.parametrize("inner", ["grad", "jvp"])
    @pytest.mark.parametrize("outer", ["grad", "jvp"])
    def test_x_times_the_derivative_of_x_plus_y(self, outer: str, inner: str) -> None:
        modes: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
            "grad": pb.grad,
            "jvp": lambda f: lambda x: pb.jvp(f, (x,), (1.0,))[1],
        }
        found = modes[outer](lambda x: x * modes[inner](lambda y: x + y)(1.0))(3.0)
        assert float(found) == 1.0

    def test_closures_over_tracers(self) -> None:
        assert float(pb.grad(lambda x: pb.jit(lambda y: x * y)(3.0))(2.0)) == 3.0
        assert float(pb.grad(lambda x: pb.grad(lambda y: x * x * y)(1.0))(2.0)) == 4.0
        found = pb.vmap(lambda x: pb.jit(pb.grad(lambda y: x * y * y))(3.0))(np.arange(3.0))
        np.testing.assert_allclose(np.asarray(found), 6 * np.arange(3.0))
        assert float(pb.jit(lambda x: pb.grad(lambda y: x * y * y)(3.0))(2.0)) == 12.0

    def test_a_jitted_closure_sees_each_call_anew(self) -> None:
        cell = {"scale": 1.0}

        @pb.jit
        def inner(y: Any) -> Any:
            return y * cell["scale"]

        def outer(x: Any) -> Any:
            cell["scale"] = x
            return inner(3.0)

        assert float(pb.grad(outer)(2.0)) == 3.0
        assert float(pb.grad(outer)(5.0)) == 3.0

    def test_nth_derivatives(self) -> None:
        f: Callable[[Any], Any] = pnp.sin
        expected = [np.sin, np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin]
        for truth in expected:
            np.testing.assert_allclose(float(f(np.float64(0.7))), truth(0.7))
            f = pb.grad(f)


class Broken(Exception):
    pass


def fails(x: Any) -> Any:
    raise Broken


def interrupted(x: Any) -> Any:
    pnp.sin(x)
    raise KeyboardInterrupt


TRANSFORMED: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "grad": pb.grad,
    "jit": pb.jit,
    "vmap": lambda f: lambda x: pb.vmap(f)(pnp.stack([x, x])),
    "jvp": lambda f: lambda x: pb.jvp(f, (x,), (x,))[1],
    "xpr": lambda f: lambda x: pb.xpr(f, x),
    "jit of grad of vmap": lambda f: pb.jit(pb.grad(lambda x: pnp.sum(pb.vmap(f)(pnp.stack([x, x]))))),
    "named vmap": lambda f: lambda x: pb.vmap(f, axis_name="i")(pnp.stack([x, x])),
}


@pytest.mark.parametrize("failure", [fails, interrupted], ids=["exception", "Ctrl-C"])
@pytest.mark.parametrize("transform", TRANSFORMED.values(), ids=TRANSFORMED)
def test_after_a_failure_the_next_call_works(
    transform: Callable[[Callable[[Any], Any]], Callable[[Any], Any]], failure: Callable[[Any], Any]
) -> None:
    broken = True

    def function(x: Any) -> Any:
        return failure(x) if broken else pnp.sin(x) * 2.0

    transformed = transform(function)
    for _ in range(2):
        with pytest.raises((Broken, KeyboardInterrupt)):
            transformed(1.0)
    broken = False
    transformed(1.0)
    assert isinstance(pnp.sin(1.0), pb.Array), "eager work is still eager"
    np.testing.assert_allclose(float(pb.jit(pb.grad(pnp.sin))(1.0)), np.cos(1.0), rtol=1e-6)


def test_an_interrupt_anywhere_in_tracing_leaves_nothing_behind() -> None:
    def inner(x: Any) -> Any:
        with pb.named_scope("inner"):
            return pb.lax.cond(x > 0.0, lambda q: pb.checkpoint(pnp.sin)(q), lambda q: q, x)

    def traced() -> Any:
        return pb.xpr(pb.grad(lambda x: pnp.sum(pb.vmap(inner)(pnp.stack([x, x])))), 1.0)

    expected = traced()
    for left in itertools.count(1):
        kept: BaseException | None = None

        def at_each_line(frame: Any, event: str, arg: Any) -> Any:
            nonlocal left
            if frame.f_code.co_name in ("stage", "__enter__", "__exit__"):  # where something can be left behind
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt
            return at_each_line

        before = sys.gettrace()
        sys.settrace(at_each_line)
        try:
            traced()
        except KeyboardInterrupt as interrupt:
            kept = interrupt  # as a terminal keeps the last error, and with it the frames
        finally:
            sys.settrace(before)
        if kept is None:
            return
        assert isinstance(pnp.sin(1.0), pb.Array), "eager work is still eager"
        del kept
        assert isinstance(pnp.sin(1.0), pb.Array), "also after those frames are gone"
        again = traced()
        assert again == expected
        assert [str(one.source) for one in again.equations] == [str(one.source) for one in expected.equations]


class TestEscapes:
    @pytest.mark.parametrize("transform", list(TRANSFORMED)[:4])
    def test_a_leaked_tracer_is_refused(self, transform: str) -> None:
        leaked: list[Any] = []

        def leaky(x: Any) -> Any:
            leaked.append(x * 2.0)
            return x * 1.0

        TRANSFORMED[transform](leaky)(1.0)
        with pytest.raises(pb.errors.EscapedTracerError, match="leaky"):
            pnp.sin(leaked[0])
        with pytest.raises(pb.errors.EscapedTracerError):
            pb.jit(lambda x: x + leaked[0])(1.0)

    def test_the_line_that_made_it_is_named(self) -> None:
        leaked: list[Any] = []

        @pb.jit
        def leaky(x: Any) -> Any:
            leaked.append(x * 2.0)  # the line to be named
            return x

        leaky(1.0)
        with pytest.raises(pb.errors.EscapedTracerError, match="the line to be named"):
            leaked[0] + 1.0


class TestMemory:
    def test_residuals_are_freed_without_the_garbage_collector(self) -> None:
        gc.collect()
        gc.disable()
        try:
            kept: list[Any] = []

            def f(x: Any) -> Any:
                y = pnp.sin(x)
                kept.append(weakref.ref(y.primal))
                return pnp.sum(y * y)

            pb.grad(f)(pnp.ones(1000))
            assert kept[0]() is None, "a residual outlived the gradient"
            value, pull = pb.vjp(f, pnp.ones(1000))
            assert kept[1]() is not None, "vjp keeps its residuals for the pullback"
            del value, pull
            assert kept[1]() is None, "a residual outlived its pullback"
        finally:
            gc.enable()

    def test_functions_are_not_kept(self) -> None:
        def make() -> weakref.ref[Any]:
            big = pnp.ones(1000)

            def f(x: Any) -> Any:
                return pnp.sum(x * big)

            pb.grad(f)(pnp.ones(1000))
            pb.vmap(f)(pnp.ones((2, 1000)))
            return weakref.ref(big)

        reference = make()
        gc.collect()
        assert reference() is None


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run `work` in threads that start together; their results, or the first exception."""
    barrier = threading.Barrier(count)
    results: list[Any] = [None] * count

    def run(index: int) -> None:
        barrier.wait()
        try:
            results[index] = work(index)
        except BaseException as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive(), "a thread hangs"
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


class TestThreads:
    def test_eager_and_traced_work_at_once(self) -> None:
        def work(index: int) -> float:
            total = 0.0
            for i in range(30):
                x = np.float64(index + i / 10)
                total += float(pb.grad(lambda y: pnp.sin(y) * y)(x)) + float(pnp.sum(pb.vmap(pnp.cos)(pnp.stack([x, x]))))
                total += float(pb.xpr(lambda y: y * 2.0, x)(x))
            return total

        found = in_threads(8, work)
        for index, total in enumerate(found):
            points = index + np.arange(30) / 10
            np.testing.assert_allclose(
                total, np.sum(np.sin(points) + points * np.cos(points) + 2 * np.cos(points) + 2 * points)
            )

    def test_one_new_function_called_from_8_threads(self) -> None:
        @pb.jit
        def f(x: Any) -> Any:
            return pb.grad(lambda y: pnp.sum(pnp.sin(y) ** 2))(x)

        x = np.linspace(0.0, 1.0, 7)
        for found in in_threads(8, lambda index: np.asarray(f(x + index))):
            assert found.shape == (7,)
        np.testing.assert_allclose(np.asarray(f(x)), np.sin(2 * x))

    def test_functions_that_call_each_other(self) -> None:
        @pb.jit
        def f(x: Any, n: Any) -> Any:
            return pnp.sin(g(x) if n.shape == () else x)

        @pb.jit
        def g(x: Any) -> Any:
            return pnp.cos(f(x, pnp.ones(1)))

        found = in_threads(8, lambda index: float(f(1.0, pnp.ones(()))) if index % 2 else float(g(1.0)))
        np.testing.assert_allclose(found[0], np.cos(np.sin(1.0)), rtol=1e-6)
        np.testing.assert_allclose(found[1], np.sin(np.cos(np.sin(1.0))), rtol=1e-6)

    def test_a_new_thread_is_not_staging(self) -> None:
        seen: list[Any] = []

        def f(x: Any) -> Any:
            thread = threading.Thread(target=lambda: seen.append(pnp.sin(1.0)))
            thread.start()
            thread.join()
            return x

        pb.jit(f)(1.0)
        assert isinstance(seen[0], pb.Array)
