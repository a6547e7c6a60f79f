"""pb.checking: each option finds its mistake, as a warning and as an error, under each transformation, and nothing else."""

from __future__ import annotations

import functools
import re
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import pullback as pb
from pullback import numpy as pnp
from pullback.core.modes import current_mode
from pullback.core.source import user_source
from pullback.core.tracing import innermost_staging
from pullback.diagnose.checks import ERRORS
from pullback.random.keys import used_keys

OPTIONS = ("purity", "constants", "keys", "leaks", "unused", "widening", "rank_promotion", "nan", "infinity")


def told(function: Callable[..., Any], *args: Any, **options: Any) -> list[str]:
    """What a block that checks warns of while a function is called."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pb.checking(**options):
            function(*args)
    assert all([one.category is pb.errors.CheckWarning and one.filename == __file__ for one in seen])
    return [str(one.message) for one in seen]


# ---- each option, under each transformation ---------------------------------------------------------------------------

ROW, ROWS, INTEGERS = pnp.array([1.0, 2.0, 3.0]), pnp.ones((3, 3)), pnp.array([1, 2, 3])
BIG = pnp.zeros(300)
KEY = pb.random.key(7)
_count = [0]
_kept: list[Any] = []


def impure(x: Any) -> Any:
    _count[0] += 1
    return x * float(_count[0])


def closing_over(x: Any) -> Any:
    return x + pnp.sum(BIG * x)


def with_one_key(x: Any) -> Any:
    return x * pb.random.normal(KEY) + pb.random.uniform(KEY)


def leaking(x: Any) -> Any:
    _kept.append(x * 2.0)
    return x * 3.0


def leaving_out(x: Any, other: Any) -> Any:
    return x * 2.0


def widening(x: Any) -> Any:
    return pnp.sum(x * INTEGERS)


def rank_promoting(x: Any) -> Any:
    return pnp.sum(x * ROW + ROWS)


def making_nan(x: Any) -> Any:
    return pnp.sqrt(x - 10.0)


def making_infinity(x: Any) -> Any:
    return 1.0 / (x - 2.0)


class Fault(NamedTuple):
    """A function with a mistake, which of its words a message has, and the ways of calling it in which it is told of."""

    function: Callable[..., Any]
    words: str
    ways: str


FAULTS = {
    "purity": Fault(impure, "gave a different program when it was traced again: equation 1, mul", "jit scan nested"),
    "constants": Fault(closing_over, "closes over 1,200 bytes", "jit scan nested"),
    "keys": Fault(with_one_key, "uniform was given a key that normal has used up already", "eager jit grad vmap scan nested"),
    "leaks": Fault(leaking, "Leaked trace of", "jit grad vmap scan nested"),
    "unused": Fault(leaving_out, "argument other", "jit grad nested"),
    "widening": Fault(widening, "mul converts int32 to float32", "eager jit grad vmap scan nested"),
    "rank_promotion": Fault(rank_promoting, "broadcasts shapes (3,) and (3, 3)", "eager jit grad vmap scan nested"),
    "nan": Fault(making_nan, "sqrt", "eager jit grad vmap scan nested"),
    "infinity": Fault(making_infinity, "div", "eager jit grad vmap scan nested"),
}


def called(way: str, function: Callable[..., Any]) -> Callable[[], Any]:
    """A call of a function of a number, or of two, in some way."""
    count = 2 if function is leaving_out else 1
    args = (pnp.array(2.0), pnp.array(3.0))[:count]
    batch = (pnp.array([2.0, 2.5]), pnp.array([3.0, 3.5]))[:count]
    gradient = pb.grad(function, (0, 1)[:count])
    ways: dict[str, Callable[[], Any]] = {
        "eager": lambda: function(*args),
        "jit": lambda: pb.jit(function)(*args),
        "grad": lambda: gradient(*args),
        "vmap": lambda: pb.vmap(function)(*batch),
        "scan": lambda: pb.lax.scan(lambda carry, x: (carry, function(*[x] * count)), pnp.array(0.0), batch[0]),
        "nested": lambda: pb.jit(pb.vmap(gradient))(*batch),
    }
    return ways[way]


WAYS = ("eager", "jit", "grad", "vmap", "scan", "nested")
TABLE = [(option, way) for option in OPTIONS for way in WAYS]


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    _kept.clear()
    yield
    _kept.clear()


def with_rules_that_close_over(kind: str, x: Any) -> Any:
    """A call of a function whose rules close over a traced value."""
    scale = pb.stop_gradient(x)
    if kind == "custom_jvp":

        @pb.custom_jvp
        def scaled(y: Any) -> Any:
            return pnp.sin(y) * scale

        scaled.defjvp(lambda primals, tangents: (scaled(*primals), tangents[0] * pnp.cos(primals[0]) * scale))
        return scaled(x)

    @pb.custom_vjp
    def scaled_back(y: Any) -> Any:
        return pnp.sin(y) * scale

    scaled_back.defvjp(lambda y: (scaled_back(y), y), lambda y, cotangent: (cotangent * pnp.cos(y) * scale,))
    return scaled_back(x)


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
@pytest.mark.parametrize("way", WAYS)
def test_what_rules_close_over_is_no_leak(kind: str, way: str) -> None:
    assert not told(called(way, lambda x: with_rules_that_close_over(kind, x)), leaks="warn")


@pytest.mark.parametrize("way", FAULTS["leaks"].ways.split())
def test_what_rules_close_over_is_a_leak_if_something_else_keeps_it(way: str) -> None:
    def f(x: Any) -> Any:
        _kept.append(x)
        return with_rules_that_close_over("custom_vjp", x)

    assert told(called(way, f), leaks="warn")


def test_a_leak_is_told_with_what_keeps_it() -> None:
    (message,) = told(called("jit", leaking), leaks="warn")
    assert "), kept by a list. Return what is needed outside" in message


def test_a_leak_from_a_trace_inside_is_told_with_that_trace() -> None:
    @pb.custom_jvp
    def keeping(x: Any) -> Any:
        _kept.append(x)
        return x

    keeping.defjvp(lambda primals, tangents: (keeping(*primals), tangents[0]))
    (message,) = told(called("jit", lambda x: keeping(x)), leaks="warn")
    assert re.search(r"one of type ~f32\[\] of custom_jvp of \S+keeping \(\S+ in it, kept by a list\.", message)


@pytest.mark.parametrize("transformed", [pb.value_and_grad, pb.hessian, pb.jacfwd, pb.jacrev])
def test_leaks_of_derivatives_are_told_of(transformed: Any) -> None:
    assert told(lambda: transformed(leaking)(2.0), leaks="warn")
    _kept.clear()
    assert not told(lambda: transformed(lambda x: x * x)(2.0), leaks="warn")


@pytest.mark.parametrize(("option", "way"), TABLE)
def test_each_option_warns(option: str, way: str) -> None:
    fault = FAULTS[option]
    found = told(called(way, fault.function), **{option: "warn", "constant_bytes": 1000})
    assert bool(found) == (way in fault.ways.split())
    assert all([fault.words in one or (way == "scan" and "each step would draw the same bits" in one) for one in found])


@pytest.mark.parametrize(("option", "way"), TABLE)
def test_each_option_is_an_error(option: str, way: str) -> None:
    fault, call = FAULTS[option], called(way, FAULTS[option].function)
    checking = pb.checking(**{option: "error", "constant_bytes": 1000})  # type: ignore[arg-type]
    if way not in fault.ways.split():
        with checking:
            call()
        return
    with pytest.raises(ERRORS[option]) as raised, checking:
        call()
    assert fault.words in str(raised.value)
    # nothing is left of the block
    assert current_mode().checks is None and innermost_staging() is None and used_keys.get() is None
    _kept.clear()
    call()


@pytest.mark.parametrize(("option", "way"), TABLE)
def test_no_other_option_finds_it(option: str, way: str) -> None:
    others = dict.fromkeys([other for other in OPTIONS if other != option], "warn")
    if option == "infinity":
        del others["nan"]  # what becomes of it
    assert not told(called(way, FAULTS[option].function), **others)


# ---- the block itself -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", OPTIONS)
def test_none_is_as_around_and_false_is_off(option: str) -> None:
    call = called("jit", FAULTS[option].function)
    found = []
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pb.checking(**{option: "warn", "constant_bytes": 1000}):  # type: ignore[arg-type]
            with pb.checking(**{"purity" if option != "purity" else "nan": False}):  # type: ignore[arg-type]
                call()
            found.append(len(seen))
            with pb.checking(**{option: False}):  # type: ignore[arg-type]
                _kept.clear()
                call()
            found.append(len(seen))
            _kept.clear()
            call()
        found.append(len(seen))
    first, inside_off, after = found
    assert 0 < first == inside_off < after


def test_without_options_all_are_looked_for() -> None:
    for option, fault in FAULTS.items():
        severe = option in ("purity", "keys", "leaks", "nan")
        call = called("eager" if option in ("keys", "widening", "rank_promotion", "nan", "infinity") else "jit", fault.function)
        _kept.clear()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            raised = None
            try:
                with pb.checking(), pb.checking(constants=None, constant_bytes=1000):
                    call()
            except pb.errors.PullbackError as error:
                raised = error
        if severe:
            assert isinstance(raised, ERRORS[option])
        else:
            assert raised is None and any([fault.words in str(one.message) for one in seen]), option


def test_true_is_a_warning_of_what_may_be_meant() -> None:
    assert told(called("eager", widening), widening=True, rank_promotion=True, infinity=True)
    with pytest.raises(pb.errors.NotFinite):
        told(called("eager", making_nan), nan=True)


def test_what_was_traced_before_is_traced_anew_in_each_block() -> None:
    jitted = pb.jit(lambda x: pnp.sum(x * INTEGERS))
    jitted(1.0)
    for _ in range(2):
        assert told(jitted, 1.0, widening="warn")
    (first, *_), again = told(lambda: (jitted(1.0), jitted(1.0)), widening="warn"), told(jitted, 1.0, purity="warn")
    assert "mul converts" in first and not again
    before = jitted.cache_info().misses
    jitted(1.0)
    assert jitted.cache_info().misses == before  # outside it is still there


def test_inside_a_block_a_function_is_traced_once() -> None:
    traces = []

    @pb.jit
    def f(x: Any) -> Any:
        traces.append(x)
        return x + 1.0

    @pb.checking(widening="error")
    def step(x: Any) -> Any:
        return f(x)

    for number in range(5):
        assert float(step(float(number))) == number + 1.0
    assert len(traces) == 1
    with pb.checking(purity="error"):
        f(1.0)
        f(2.0)
    assert len(traces) == 3  # twice, to compare


def test_blocks_leave_as_few_signatures_as_the_bound_says() -> None:
    jitted = pb.jit(lambda x: x + 1.0)
    for _ in range(40):
        with pb.checking(widening="error"):
            jitted(1.0)
    assert len(jitted._checked) == 32 and not jitted._signatures
    jitted.clear_cache()
    assert not jitted._checked


def test_a_decorated_function_may_call_itself() -> None:
    @pb.checking(widening="error")
    def f(x: Any, depth: int) -> Any:
        return x if not depth else f(x + 1.0, depth - 1)

    assert float(f(1.0, 3)) == 4.0
    assert current_mode().checks is None
    with pytest.raises(pb.errors.DtypeWidened):
        f(INTEGERS, 1)
    assert current_mode().checks is None


def test_generators_and_classes_are_refused() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    for wrong in (numbers, int, 3):
        with pytest.raises(TypeError, match=r"checking\(nan='error'\) decorates functions"):
            pb.checking(nan="error")(wrong)


def test_an_object_may_be_entered_again_and_inside_itself() -> None:
    block = pb.checking(widening="error")
    with block, block, pytest.raises(pb.errors.DtypeWidened):
        ROW * INTEGERS
    with block, pytest.raises(pb.errors.DtypeWidened):
        ROW * INTEGERS
    ROW * INTEGERS


def test_a_block_that_nobody_entered_says_so() -> None:
    with pytest.warns(
        RuntimeWarning, match=r"checking\(nan=True\) did nothing: it holds inside `with pb.checking\(nan=True\):`"
    ):
        pb.checking(nan=True)


WRONG = {
    "purity": ({"purity": "loud"}, ValueError, "checking takes purity=True, False, None, 'warn' or 'error', not 'loud'"),
    "a number": ({"nan": 1}, ValueError, "checking takes nan=True, False, None, 'warn' or 'error', not 1"),
    "bytes": ({"constant_bytes": -1}, ValueError, "checking takes constant_bytes as a number that is not negative, not -1"),
    "float": ({"constant_bytes": 1.5}, ValueError, "constant_bytes as a number that is not negative, not 1.5"),
    "unknown": (
        {"purty": True},
        TypeError,
        "checking takes no option 'purty'. Did you mean purity? It takes purity, constants, keys",
    ),
    "plural": ({"nans": True}, TypeError, "checking takes no option 'nans'. Did you mean nan?"),
    "unlike any": ({"speed": True}, TypeError, "checking takes no option 'speed'. It takes purity, constants, keys"),
}


@pytest.mark.parametrize("which", WRONG)
def test_wrong_options(which: str) -> None:
    options, error, says = WRONG[which]
    with pytest.raises(error, match=re.escape(says)):
        pb.checking(**options)


def test_other_threads_are_not_checked() -> None:
    seen = []

    def work() -> None:
        seen.append((current_mode().checks, (ROW * INTEGERS).dtype.name))

    with pb.checking(widening="error", nan="error"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen == [(None, "float32")]


def test_threads_may_share_a_block() -> None:
    block = pb.checking(widening="error", nan="error")
    failed: list[BaseException] = []
    together = threading.Barrier(4)

    def work() -> None:
        try:
            for _ in range(20):
                together.wait()
                with block:
                    with pytest.raises(pb.errors.DtypeWidened):
                        ROW * INTEGERS
                    together.wait()
                ROW * INTEGERS
        except BaseException as error:
            failed.append(error)
            together.abort()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_an_interrupt_leaves_nothing_behind() -> None:
    def interrupted(x: Any) -> Any:
        raise KeyboardInterrupt

    for call in (lambda: pb.jit(interrupted)(1.0), lambda: interrupted(1.0), lambda: pb.vmap(interrupted)(ROW)):
        with pytest.raises(KeyboardInterrupt), pb.checking():
            call()
        assert current_mode().checks is None and innermost_staging() is None and used_keys.get() is None
        assert float(pb.jit(lambda x: x + 1.0)(1.0)) == 2.0


def test_keys_that_were_used_around_a_block_count_in_it_and_the_other_way_round() -> None:
    one, two = pb.random.split(KEY)
    with pytest.raises(pb.errors.KeyReuseError), pb.checking(keys="warn"):
        pb.random.normal(one)
        with pb.checking(keys="error"):
            pb.random.normal(one)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pb.checking(keys="warn"):
            with pb.checking(keys="error"):
                pb.random.normal(two)
            pb.random.normal(two)
    assert len(seen) == 1
    with pb.checking(keys="warn"), pb.random.checked_keys(), pytest.raises(pb.errors.KeyReuseError):
        pb.random.normal(one) + pb.random.normal(one)


def test_traced_keys_are_not_held() -> None:
    f = pb.jit(lambda key: pb.random.normal(key) + pb.random.uniform(pb.random.split(key)[0]))
    assert len(told(f, KEY, keys="warn", leaks="warn")) == 1  # the reuse, and no leak


# ---- purity -----------------------------------------------------------------------------------------------------------


def with_callbacks(x: Any) -> Any:
    pb.io_callback(lambda value: None, None, x)
    return pb.pure_callback(lambda value: value * 2.0, pb.ArrayType((), "float32"), x)


def with_custom_jvp(x: Any) -> Any:
    @pb.custom_jvp
    def f(x: Any) -> Any:
        return pnp.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), pnp.cos(primals[0]) * tangents[0]))
    return f(x)


def with_custom_vjp(x: Any) -> Any:
    @pb.custom_vjp
    def f(x: Any) -> Any:
        return pnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, cotangent: (cotangent * pnp.cos(x),))
    return f(x)


PURE: dict[str, Callable[[Any], Any]] = {
    "callbacks": with_callbacks,
    "custom_jvp": with_custom_jvp,
    "custom_vjp": with_custom_vjp,
    "grad of custom_jvp": pb.grad(with_custom_jvp),
    "grad of custom_vjp": pb.grad(with_custom_vjp),
    "vmap": lambda x: pb.vmap(with_custom_vjp)(x * ROW),
    "cond": lambda x: pb.lax.cond(x > 0, lambda y: y * 2.0, lambda y: y, x),
    "while": lambda x: pb.lax.while_loop(lambda c: c < 10.0, lambda c: c * 2.0, x),
    "grad of scan": pb.grad(lambda x: pb.lax.scan(lambda c, y: (c * y, c), x, ROW)[0]),
    "checkpoint": pb.grad(pb.checkpoint(lambda x: pnp.sin(pnp.sin(x)))),
    "an inner jit": lambda x: pb.jit(lambda y: y * 2.0)(x),
    "a solver": lambda x: pb.custom_root(lambda y: y * y - x, x, lambda f, y: pnp.sqrt(x), lambda g, y: y / g(1.0)),
    "a derivative as a result": lambda x: pb.vjp(pnp.sin, x),
    "a Ref inside": lambda x: pb.new_ref(x)[...],
    "keys": lambda x: x * pb.random.normal(pb.random.split(pb.random.key(0))[0]),
    "NaN": lambda x: x * float("nan"),
    "a NumPy array": lambda x: pnp.sum(x * np.arange(3.0)),
}


@pytest.mark.parametrize("which", PURE)
def test_pure_functions_are_not_told_of(which: str) -> None:
    assert told(pb.jit(PURE[which]), pnp.array(1.5), purity="warn") == []


def test_a_ref_of_outside_is_no_impurity() -> None:
    ref = pb.new_ref(0.0)

    def f(x: Any) -> Any:
        ref[...] = ref[...] + x
        return x

    assert told(pb.jit(f), 2.0, purity="warn") == []
    assert float(ref[...]) == 2.0  # once, although it was traced twice


_calls: list[int] = []


def count() -> int:
    _calls.append(0)
    return len(_calls)


def scaled(x: Any, n: int) -> Any:
    return x * n


def raising(x: Any) -> Any:
    if count() > 1:
        raise KeyError("the second time")
    return x


IMPURE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a counter": (lambda x: x * float(count()), "mul: 1.0 (~f32[]) in the first trace, and 2.0 (~f32[]) in the second"),
    "np.random": (lambda x: x + np.random.normal(size=3), "an array of f64[3] that it closes over has other elements"),
    "a growing list": (lambda x: sum([x] * count(), start=x), "the first trace has 1 equation, the second 2: add"),
    "another structure": (lambda x: [x] * count(), "the first trace returned"),
    "a parameter": (lambda x: pnp.sum(x * ROWS, axis=count() % 2), "reduce_sum, axes: 1 in the first trace, and 0"),
    "another operation": (lambda x: pnp.sin(x) if count() == 1 else pnp.cos(x), "sin: in the second trace it is cos"),
    "other operands": (lambda x: (x - x * x) if count() == 1 else (x * x - x), "sub: it was applied to another value"),
    "a result": (lambda x: pnp.array([float(count())]), "result 0: an array of f32[1] that it closes over has other elements"),
    "a literal result": (lambda x: float(count()), "result 0: 1.0"),
    "a loop's step": (
        lambda x: pb.lax.fori_loop(0, 3, lambda i, c: c * float(count()), x),
        "mul: 1.0 (~f32[]) in the first trace",
    ),
    "a callback": (
        lambda x: pb.pure_callback(functools.partial(scaled, n=count()), pb.ArrayType((), "float32"), x),
        "pure_callback, function: 1 in the first trace, and 2 in the second",
    ),
    "an error": (raising, "the second trace raised KeyError: 'the second time'"),
    "a gradient": (pb.grad(lambda x: x * float(count())), "mul: 1.0"),
}


@pytest.mark.parametrize("which", IMPURE)
def test_the_first_difference_is_told(which: str) -> None:
    _calls.clear()
    function, says = IMPURE[which]
    (first, *_) = told(pb.jit(function), pnp.array(1.5), purity="warn")
    assert says in first
    _calls.clear()
    with pytest.raises(pb.errors.ImpureFunction, match=re.escape(says)), pb.checking(purity="error"):
        pb.jit(function)(pnp.array(1.5))


def test_an_error_of_the_second_trace_is_the_cause() -> None:
    _calls.clear()
    with pytest.raises(pb.errors.ImpureFunction) as raised, pb.checking(purity="error"):
        pb.jit(raising)(1.0)
    assert isinstance(raised.value.__cause__, KeyError)


def nest(inside: Callable[..., Any], depth: int, traces: list[int]) -> Callable[[Any], Any]:
    """A function that counts its traces, of which each calls the next in a loop, or whatever `inside` is."""

    def f(x: Any) -> Any:
        traces[0] += 1
        return x * 2.0 if not depth else inside(nest(inside, depth - 1, traces), x)

    return f


def test_what_is_traced_with_what_is_around_it_is_compared_with_that() -> None:
    traces = [0]
    with pb.checking(purity="error"):
        pb.jit(nest(lambda f, x: pb.lax.fori_loop(0, 2, lambda i, c: f(c), x), 6, traces))(pnp.array(1.0))
    assert traces[0] == 2 * 7
    traces[0] = 0
    with pb.checking(purity="error"):
        pb.jit(nest(lambda f, x: pb.jit(f)(x), 6, traces))(pnp.array(1.0))
    assert traces[0] < 7 * 8  # and not 2**7


def test_state_that_a_function_makes_for_its_own_loops_is_no_impurity() -> None:
    def f(x: Any) -> Any:
        names = iter(range(9))  # as a network's scope counts the keys that it has given
        x = pb.lax.fori_loop(0, 2, lambda i, c: c * float(next(names)), x)
        return pb.checkpoint(lambda x: x + float(next(names)))(x)

    assert told(pb.jit(f), pnp.array(1.5), purity="warn") == []
    assert len(told(f, pnp.array(1.5), purity="warn")) == 2  # alone, each is what it depends on


def test_what_jit_keeps_is_compared_by_itself() -> None:
    _calls.clear()

    @pb.jit
    def inner(x: Any) -> Any:
        return x * float(count())

    (message,) = told(pb.jit(lambda x: inner(x)), pnp.array(1.5), purity="warn")
    assert re.match(r"jit of \S+inner ", message)


def test_who_called_a_function_is_no_impurity() -> None:
    def f(x: Any) -> Any:
        stack = traceback.format_stack()
        return pb.pure_callback(lambda value: (stack, value)[1], pb.ArrayType((), "float32"), x)

    assert told(pb.jit(f), pnp.array(1.5), purity="warn") == []


class Placed:
    """What a callback may hold: a place in the program, which says nothing of what is computed."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __call__(self, value: Any) -> Any:
        return value


def test_where_a_function_was_is_no_impurity() -> None:
    def f(x: Any) -> Any:
        place = (user_source(), user_source(2))[count() % 2]
        return pb.pure_callback(Placed(place), pb.ArrayType((), "float32"), x)

    _calls.clear()
    assert told(pb.jit(f), pnp.array(1.5), purity="warn") == []


# ---- constants, unused arguments, widening ------------------------------------------------------------------------------


def test_constants_are_told_with_their_bytes_and_lines() -> None:
    def f(x: Any) -> Any:
        y = x + BIG
        return y, BIG * 2.0

    (message,) = told(pb.jit(f), 1.0, constants="warn", constant_bytes=0)
    assert "f32[300] (1,200 bytes), used at" in message
    assert "y = x + BIG" in message and "BIG * 2.0" in message
    assert told(pb.jit(f), 1.0, constants="warn", constant_bytes=1200) == []
    assert told(pb.jit(f), 1.0, constants="warn") == []  # 1 MiB


def test_numbers_that_a_function_closes_over_are_no_constants() -> None:
    three = pnp.array(3.0)
    assert told(pb.jit(lambda x: x * three), 1.0, constants="warn", constant_bytes=0) == []


def write(ref: Any, value: Any) -> None:
    ref[...] = value


UNUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str | None]] = {
    "a leaf": (pb.jit(lambda p: p["w"] * 2.0), ({"w": 1.0, "b": 2.0},), "argument p['b']"),
    "two": (pb.jit(lambda x, y, z: x), (1.0, 2.0, 3.0), "arguments y, z"),
    "used in vain": (pb.jit(lambda x, y: (y * 2.0, x)[1]), (1.0, 2.0), "argument y"),
    "an underscore": (pb.jit(lambda x, _y: x), (1.0, 2.0), None),
    "returned": (pb.jit(lambda x, y: (x, y)), (1.0, 2.0), None),
    "static": (pb.jit(lambda x, n: x, static_argnums=1), (1.0, 2), None),
    "in an effect": (pb.jit(lambda x, y: (pb.debug.callback(lambda y: None, y), x)[1]), (1.0, 2.0), None),
    "in a loop": (pb.jit(lambda x, y: pb.lax.fori_loop(0, 2, lambda i, c: c * y, x)), (1.0, 2.0), None),
    "a gradient of what is linear": (pb.jit(pb.grad(lambda x: x * 3.0)), (1.0,), None),
    "xpr": (lambda: pb.xpr(lambda x, y: x, 1.0, 2.0), (), "The result of xpr of"),
    "grad": (pb.grad(lambda p: p["w"] * 2.0), ({"w": 1.0, "b": 2.0},), "argument p['b']"),
    "value_and_grad": (pb.value_and_grad(lambda x, y: x * 2.0, (0, 1)), (1.0, 2.0), "argument y"),
    "grad by floor": (pb.grad(lambda x, y: x * pb.stop_gradient(y), (0, 1)), (1.0, 2.0), "argument y"),
    "grad of a count": (
        pb.grad(lambda x: (x > 0.0) * 1.0),
        (1.0,),
        "comparisons, indices, integers, rounding and stop_gradient",
    ),
    "grad by another argument": (pb.grad(lambda x, y: x * 2.0), (1.0, 2.0), None),
    "nothing": (pb.jit(lambda: 1.0), (), None),
    "an empty tree": (pb.jit(lambda x, t: x), (1.0, ()), None),
    "its shape alone": (
        pb.jit(lambda x: pnp.zeros_like(x)),
        (1.0,),
        "does not depend on the value of argument x. Leave it out; or,",
    ),
    "a Ref that is written": (pb.jit(lambda ref, x: (write(ref, x), x)[1]), (pb.new_ref(0.0), 1.0), None),
    "a Ref that is read": (pb.jit(lambda ref, x: ref[...] + x), (pb.new_ref(0.0), 1.0), None),
}


@pytest.mark.parametrize("which", UNUSED)
def test_unused_arguments_are_told_by_their_paths(which: str) -> None:
    function, args, says = UNUSED[which]
    found = told(function, *args, unused="warn")
    assert len(found) == (says is not None) and all([says is not None and says in one for one in found])


f32, f64, f16, i32, i8, flags = (pnp.ones(3, dtype) for dtype in ("float32", "float64", "bfloat16", "int32", "int8", "bool"))
c64 = pnp.ones(3, "complex64")
WIDENING: dict[str, tuple[Callable[[], Any], str | None]] = {
    "f32 and f64": (lambda: f32 * f64, "mul converts float32 to float64, since it meets float64"),
    "bf16 and f32": (lambda: f32 + f16, "add converts bfloat16 to float32, since it meets float32"),
    "i32 and f32": (lambda: i32 - f32, "sub converts int32 to float32"),
    "f32 and c64": (lambda: f32 * c64, "mul converts float32 to complex64"),
    "i8 and i32": (lambda: i8 + i32, "add converts int8 to int32"),
    "i32 and a float": (lambda: i32 * 0.5, "mul converts int32 to float32"),
    "f32 and a complex number": (lambda: f32 * 1j, "mul converts float32 to complex64"),
    "in a list": (lambda: pnp.concatenate([f32, f16]), "concatenate converts bfloat16 to float32"),
    "where": (lambda: pnp.where(flags, f32, f16), "where converts bfloat16 to float32"),
    "a product": (lambda: pnp.dot(f32, f16), "converts bfloat16 to float32"),
    "a number": (lambda: f32 * 2, None),
    "an integer number": (lambda: i8 + 1, None),
    "a mask": (lambda: f32 * flags, None),
    "two numbers": (lambda: pnp.add(1, 0.5), None),
    "a division": (lambda: i32 / i32, None),
    "a mean": (lambda: pnp.mean(i32), None),
    "by hand": (lambda: f32 * f16.astype("float32"), None),
    "inside ours": (lambda: pnp.percentile(i32, 50.0), None),
    "a question": (lambda: pnp.result_type(f32, f16), None),
}


@pytest.mark.parametrize("which", WIDENING)
def test_widening_is_told_of_what_the_user_mixes(which: str) -> None:
    function, says = WIDENING[which]
    for _ in range(2):  # a fast path would know the second
        found = told(lambda: (function(), function()), widening="warn")
        assert (len(found) == 2 and all([says in one for one in found])) if says is not None else found == []


RANKS: dict[str, tuple[Callable[[], Any], str | None]] = {
    "arithmetic": (lambda: ROWS * ROW, "mul broadcasts shapes (3, 3) and (3,)"),
    "a choice": (lambda: pnp.where(flags, ROWS, 0.0), "where broadcasts shapes (3,) and (3, 3)"),
    "a choice of three ranks": (
        lambda: pnp.where(ROWS[None] > 0, ROWS, ROW),
        "where broadcasts shapes (1, 3, 3) and (3, 3) and (3,)",
    ),
    "a choice of numbers": (lambda: pnp.where(ROWS > 0, 1.0, 0.0), None),
    "a choice by hand": (lambda: pnp.where(flags[:, None], ROWS, 0.0), None),
    "a choice of one": (lambda: pnp.where(True, ROWS, 0.0), None),
    "a product": (lambda: ROWS @ ROW, None),
    "a number": (lambda: ROWS * 2.0, None),
    "inside ours": (lambda: pnp.average(ROWS, axis=0, weights=ROW), None),
    "quantiles inside ours": (lambda: pnp.quantile(ROWS, pnp.array([0.1, 0.2]), axis=0), None),
    "a space inside ours": (lambda: pnp.geomspace(ROW + 1.0, ROW + 2.0, 4), None),
}


@pytest.mark.parametrize("which", RANKS)
def test_rank_promotion_is_told_of_what_the_user_broadcasts(which: str) -> None:
    function, says = RANKS[which]
    found = told(function, rank_promotion="warn")
    assert len(found) == (says is not None) and all([says is not None and says in one for one in found])


# ---- NaN and infinity ---------------------------------------------------------------------------------------------------


NAN, ZEROS, NUMBERS = pnp.array([1.0, float("nan")]), pnp.zeros(2), pnp.array([4.0, -1.0])


def loop(x: Any) -> Any:
    return pb.lax.fori_loop(0, 3, lambda i, c: pnp.sqrt(c - 1.5), x)


@pb.custom_vjp
def square_with_rule(x: Any) -> Any:
    return x * x


square_with_rule.defvjp(lambda x: (x * x, x), lambda x, cotangent: (cotangent * pnp.log(-x),))

FINITE: dict[str, tuple[Callable[[], Any], str | None]] = {
    "made": (lambda: pnp.log(NUMBERS), "NaN made by log: log(f32[2] from -1 to 4)."),
    "of a number": (lambda: pnp.log(pnp.array(-2.0)), "NaN made by log: log(-2.0)."),
    "passed on": (lambda: NAN * 2.0, None),
    "a literal": (lambda: NUMBERS * float("nan"), None),
    "a literal, compiled": (lambda: pb.jit(lambda x: x * float("nan"))(NUMBERS), None),
    "passed on, compiled": (lambda: pb.jit(lambda x: x * 2.0)(NAN), None),
    "dropped": (lambda: pb.jit(lambda x: (pnp.log(x), x)[1])(NUMBERS), None),
    "compiled": (lambda: pb.jit(lambda x: pnp.log(x) + 1.0)(NUMBERS), "NaN made by log in the forward pass: log(-1.0) = nan"),
    "in a jit in a jit": (lambda: pb.jit(lambda x: pb.jit(pnp.log)(x))(NUMBERS), "NaN made by log"),
    "in a loop": (lambda: pb.jit(loop)(4.0), "NaN made by sqrt"),
    "in a loop, eagerly": (lambda: loop(4.0), "where: step"),
    "in a branch": (lambda: pb.lax.cond(True, pnp.log, pnp.exp, -1.0), "NaN made by log"),
    "backward": (
        lambda: pb.grad(lambda x: pnp.where(x > 0, pnp.sqrt(x), 0.0))(0.0),
        "Rule: transpose of sqrt, applied by grad. If this is the gradient of a where, pb.find_nan",
    ),
    "backward, compiled": (
        lambda: pb.jit(pb.grad(lambda x: pnp.where(x > 0, pnp.sqrt(x), 0.0)))(0.0),
        "safe = pnp.where(x > 0, x, 1.0)",
    ),
    "backward, the other branch": (
        lambda: pb.jit(pb.grad(lambda x: pnp.where(x <= 0, 0.0, pnp.sqrt(x))))(0.0),
        "safe = pnp.where(x <= 0, 1.0, x)",
    ),
    "a variance of one": (lambda: pnp.var(pnp.ones(1), ddof=1), "NaN made by div: div(0.0, 0.0)."),
    "a spread of one, compiled": (lambda: pb.jit(lambda x: pnp.std(x, ddof=1))(pnp.ones(1)), "div(0.0, 0.0) = nan"),
    "a variance of none": (lambda: pb.jit(lambda x: pnp.var(x, where=x > 9.0))(NUMBERS), "div(0.0, 0.0) = nan"),
    "a rule of the user's": (
        lambda: pb.grad(square_with_rule)(1.0),
        "Rule: the backward function of a custom rule, applied by grad",
    ),
    "inf minus inf": (lambda: pnp.array(pnp.inf) - pnp.inf, "NaN made by sub: sub(inf, inf)."),
    "bfloat16": (lambda: pnp.log(NUMBERS.astype("bfloat16")), "NaN made by log: log(bf16[2] from -1 to 4)."),
    "float8": (lambda: pnp.array([pnp.inf, 1.0]).astype("float8_e5m2").astype("float16") - pnp.inf, "NaN made by sub"),
    "float64": (lambda: pnp.log(pnp.array(-1.0, "float64")), "NaN made by log: log(-1.0)."),
    "bfloat16, 0-d": (lambda: pnp.log(pnp.array(-1.0, "bfloat16")), "NaN made by log: log(-1.0)."),
    "complex": (lambda: pnp.array(0j) / pnp.array(0j), "NaN made by div"),
    "integers": (lambda: pnp.arange(3) * 2, None),
    "no elements": (lambda: pnp.log(pnp.zeros(0)), None),
    "keys": (lambda: pb.random.normal(pb.random.key(0), (3,)), None),
}


@pytest.mark.parametrize("which", FINITE)
def test_nan_is_told_where_it_is_made(which: str) -> None:
    function, says = FINITE[which]
    found = told(function, nan="warn")
    assert bool(found) == (says is not None)
    assert says is None or says in found[0]


def test_infinity_is_told_where_it_is_made() -> None:
    (message,) = told(lambda: 1.0 / ZEROS * 2.0, infinity="warn")
    assert message.startswith("infinity made by div: div(1.0, f32[2] from 0 to 0).")
    (message,) = told(lambda: pb.jit(lambda x: 1.0 / x)(ZEROS), infinity="warn")
    assert message.startswith("infinity made by div in the forward pass: div(1.0, 0.0) = inf")
    assert told(lambda: pnp.full(3, pnp.inf) + 1.0, infinity="warn") == []
    assert told(lambda: 1.0 / ZEROS, nan="warn") == []


def test_where_a_function_is_traced_its_results_are_looked_at_when_it_runs() -> None:
    @pb.jit
    def f(x: Any) -> Any:
        with pb.checking(nan="error"):
            return pnp.log(x)

    assert np.isnan(f(-1.0))
    with pytest.raises(pb.errors.NotFinite), pb.checking(nan="error"):
        f(-1.0)


def test_the_line_of_a_derivative_is_that_of_the_operation() -> None:
    def f(x: Any) -> Any:
        y = pnp.sqrt(x)
        return y * 0.0

    (*_, message) = told(lambda: pb.grad(f)(0.0), nan="warn")
    assert "return y * 0.0" in message or "y = pnp.sqrt(x)" in message


def test_the_block_may_stand_around_a_training_step() -> None:
    @pb.jit
    def step(params: Any, x: Any, key: Any) -> Any:
        def loss(params: Any) -> Any:
            hidden = pb.nn.relu(x @ params["w"] + params["b"][None, :])
            return pnp.mean((hidden + pb.random.normal(key, hidden.shape)) ** 2)

        value, gradient = pb.value_and_grad(loss)(params)
        return value, pb.tree.map(lambda p, g: p - 0.1 * g, params, gradient)

    params = {"w": pnp.ones((3, 4)) * 0.1, "b": pnp.zeros(4)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pb.checking():
            for key in pb.random.split(pb.random.key(0), 3):
                value, params = step(params, pnp.ones((5, 3)), key)
    assert np.isfinite(value)


DERIVATIVES: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "jvp": lambda f: pb.jvp(f, (2.0,), (1.0,)),
    "linearize": lambda f: pb.linearize(f, 2.0)[1](1.0),
    "vjp": lambda f: pb.vjp(f, 2.0)[1](1.0),
    "jacfwd": lambda f: pb.jacfwd(f)(2.0),
    "jacrev": lambda f: pb.jacrev(f)(2.0),
    "value_and_grad": lambda f: pb.value_and_grad(f)(2.0),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_leaks_from_derivatives_are_told_of(name: str) -> None:
    kept: list[Any] = []

    def keeping(x: Any) -> Any:
        kept.append(x * 2.0)
        return x * x

    with pb.checking(leaks="error"), pytest.raises(pb.errors.EscapedTracerError, match="Leaked trace of"):
        DERIVATIVES[name](keeping)
    kept.clear()
    with pb.checking(leaks="error"):
        DERIVATIVES[name](lambda x: x * x)


def test_auxiliary_data_are_no_leak() -> None:
    with pb.checking(leaks="error"):
        (value, aux), gradient = pb.value_and_grad(lambda x: (x * x, {"twice": x * 2.0, "none": None, "one": 1}), has_aux=True)(
            3.0
        )
    assert (float(value), float(aux["twice"]), aux["none"], aux["one"], float(gradient)) == (9.0, 6.0, None, 1, 6.0)


def draws(key: Any) -> Any:
    return pb.random.normal(key)


def draws_from_a_part(key: Any) -> Any:
    first, second = pb.random.split(key)
    return jitted_draws(first) + jitted_draws(second)


def draws_twice_each(keys: Any) -> Any:
    return [pb.vmap(jitted_draws)(keys) for _ in range(2)]


def draws_from_parts(keys: Any) -> Any:
    return pb.lax.scan(lambda total, key: (total + draws(key), None), 0.0, keys)[0]


def draws_in_a_loop(key: Any) -> Any:
    def step(_: Any, state: Any) -> Any:
        key, other = pb.random.split(state[0])
        return key, state[1] + draws(other)

    return pb.lax.fori_loop(0, 3, step, (key, 0.0))


def folds_in_a_loop(key: Any) -> Any:
    return pb.lax.fori_loop(0, 3, lambda i, x: x + draws(pb.random.fold_in(key, i)), 0.0)


def adds_and_keeps(state: Any) -> Any:
    key, total = state
    return key, total + 1.0 + pb.random.uniform(key)


jitted_draws = pb.jit(draws)
KEY_USES: dict[str, tuple[Callable[[Any], Any], int]] = {  # each with how many reuses there are
    "two calls": (lambda key: jitted_draws(key) + jitted_draws(key), 1),
    "three calls": (lambda key: [jitted_draws(key) for _ in range(3)], 2),
    "a call, and eager": (lambda key: jitted_draws(key) + draws(key), 1),
    "eager, and a call": (lambda key: draws(key) + jitted_draws(key), 1),
    "two calls within one": (lambda key: pb.jit(lambda key: jitted_draws(key) + jitted_draws(key))(key), 1),
    "two calls in a batch": (lambda key: draws_twice_each(pb.random.split(key, 3)), 1),
    "parts": (draws_from_a_part, 0),
    "parts, jitted": (pb.jit(draws_from_a_part), 0),
    "fold_in": (lambda key: [pb.jit(lambda key: draws(pb.random.fold_in(key, 1)))(key) for _ in range(2)], 0),
    "clones": (lambda key: [jitted_draws(pb.random.clone(key)) for _ in range(2)], 0),
    "lowered, and a call": (lambda key: (jitted_draws.lower(key), jitted_draws(key)), 0),
    "gradient": (lambda key: pb.grad(pb.jit(lambda x, key: x * draws(key)))(1.0, key), 0),
    "checkpoint": (lambda key: pb.grad(pb.checkpoint(lambda x, key: x * jitted_draws(key)))(1.0, key), 0),
    "checkpoint, and eager": (lambda key: (pb.checkpoint(lambda key: draws(key))(key), draws(key)), 1),
    "a clone first": (lambda key: (draws(pb.random.clone(key)), draws(key)), 0),
    "a clone, and two": (lambda key: (draws(pb.random.clone(key)), draws(key), draws(key)), 1),
    "a traced clone first": (lambda key: pb.jit(lambda key: draws(pb.random.clone(key)) + draws(key))(key), 0),
    "a shape": (lambda key: (pb.eval_shape(lambda: draws(key)), pb.xpr(lambda: draws(key)), draws(key)), 0),
    "a shape, of a key that was used": (lambda key: (draws(key), pb.eval_shape(lambda: draws(key))), 0),
    "a shape, drawn twice": (lambda key: pb.eval_shape(lambda: draws(key) + draws(key)), 1),
    "a branch": (lambda key: pb.lax.cond(True, draws, pb.random.uniform, key), 0),
    "a branch, and eager": (lambda key: (pb.lax.cond(True, lambda key: 0.0, draws, key), draws(key)), 1),
    "a branch, jitted, and a call": (pb.jit(lambda key: pb.lax.switch(1, [draws, draws], key) + draws(key)), 1),
    "a loop over parts": (lambda key: draws_from_parts(pb.random.split(key, 3)), 0),
    "a loop over parts, and one": (lambda key: (draws_from_parts(keys := pb.random.split(key, 3)), draws(keys[1])), 1),
    "a loop over parts, jitted": (pb.jit(lambda key: draws_from_parts(pb.random.split(key, 3))), 0),
    "a loop that divides": (lambda key: draws_in_a_loop(key), 0),
    "a loop that divides, and one": (pb.jit(lambda key: draws_in_a_loop(key)[1] + draws(key)), 1),
    "a loop that divides, and its key": (lambda key: draws(draws_in_a_loop(key)[0]), 0),
    "a loop that folds in": (lambda key: [folds_in_a_loop(key), draws(pb.random.fold_in(key, 99))], 0),
    "a loop that closes over it": (lambda key: pb.lax.fori_loop(0, 3, lambda i, x: x + draws(key), pnp.array(0.0)), 1),
    "a loop that closes over it, jitted": (pb.jit(lambda key: pb.lax.fori_loop(0, 3, lambda i, x: x + draws(key), 0.0)), 1),
    "a loop of one step": (lambda key: pb.lax.fori_loop(0, 1, lambda i, x: x + draws(key), 0.0), 0),
    "a loop of no steps": (lambda key: (pb.lax.fori_loop(0, 0, lambda i, s: (s[0], draws(s[0])), (key, 0.0)), draws(key)), 0),
    "a loop that hands it on": (pb.jit(lambda key: pb.lax.scan(lambda key, _: (key, draws(key)), key, None, 3)), 1),
    "a while": (lambda key: pb.lax.while_loop(lambda s: s[1] < 9.0, adds_and_keeps, (key, 0.0)), 1),
}


@pytest.mark.parametrize("use", KEY_USES)
def test_jitted_functions_use_up_the_keys_that_they_are_called_with(use: str) -> None:
    function, count = KEY_USES[use]
    found = told(lambda: function(pb.random.key(5)), keys="warn")
    assert len(found) == count and all(["has used up already" in one or "uses up a key that it" in one for one in found])


@pytest.mark.parametrize("option", ["nan", "infinity"])
def test_what_was_compiled_ahead_of_time_is_looked_at(option: str) -> None:
    function = FAULTS[option].function
    compiled = pb.jit(function).lower(pnp.array(2.0)).compile()
    for call in (compiled, lambda x: pb.jit(function).lower(x).compile()(x)):
        (message,) = told(lambda: call(pnp.array(2.0)), **{option: "warn"})
        assert FAULTS[option].words in message
    assert not told(lambda: compiled(pnp.array(100.0)), **{option: "warn"})


def test_a_derivative_that_a_jitted_function_returns_is_no_leak() -> None:
    def f(x: Any) -> Any:
        return pb.vjp(lambda y: y * x, x)[1]

    assert not told(lambda: pb.jit(f)(3.0), leaks="warn")
    assert pb.jit(f)(3.0)(1.0)[0] == 3.0
    kept = []
    assert told(lambda: pb.jit(lambda x: (kept.append(x), f(x))[1])(3.0), leaks="warn")


# ---- what messages call things ------------------------------------------------------------------------------------------


def test_what_a_transformation_made_is_called_by_its_own_name() -> None:
    (message,) = told(pb.jit(pb.grad(leaving_out)), 1.0, 2.0, unused="warn")
    assert message.startswith("The result of jit of grad_leaving_out, made of leaving_out (")
    (message,) = told(pb.jit(leaving_out), 1.0, 2.0, unused="warn")
    assert message.startswith("The result of jit of leaving_out (")


def test_an_argument_without_a_name_is_called_by_none() -> None:
    (message,) = told(pb.jit(lambda x: x - x), pnp.array([pnp.inf]), nan="warn")
    assert "before it, infinity is in one of the arguments from the start at [0]" in message


def test_a_number_that_widens_is_called_one() -> None:
    (message,) = told(lambda: INTEGERS * 1.5, widening="warn")
    assert "mul converts int32 to float32, since it meets a number of Python's, which is float32. Convert" in message
    (message,) = told(lambda: INTEGERS * ROW, widening="warn")
    assert "since it meets float32. Convert" in message


def test_the_error_of_a_second_trace_ends_with_one_stop() -> None:
    kept: list[Any] = []

    def caching(x: Any) -> Any:
        if not kept:
            kept.append(x * 2.0)
        return x * kept[0]

    (message,) = told(pb.jit(caching), 1.0, purity="warn")
    assert "the second trace raised EscapedTracerError: " in message and ".." not in message


def test_a_block_that_did_not_begin_does_not_end() -> None:
    block = pb.checking(purity="warn")
    with pytest.raises(RuntimeError, match=r"checking\(purity='warn'\) ends no block: none was begun here"):
        block.__exit__(None, None, None)
    with block:
        pass
