"""pb.checking: each option finds its mistake, as a warning and as an error, under each transformation, and nothing else."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import pullback as pb
from pullback import numpy as pnp
from pullback.core.modes import current_mode
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
    "leaks": Fault(leaking, "Leaked trace of", "jit vmap scan nested"),
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


def words_of(option: str, way: str) -> str:
    return "scan" if way == "scan" and option in ("nan", "infinity") else FAULTS[option].words


WAYS = ("eager", "jit", "grad", "vmap", "scan", "nested")
TABLE = [(option, way) for option in OPTIONS for way in WAYS]


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    _kept.clear()
    yield
    _kept.clear()


@pytest.mark.parametrize(("option", "way"), TABLE)
def test_each_option_warns(option: str, way: str) -> None:
    fault = FAULTS[option]
    found = told(called(way, fault.function), **{option: "warn", "constant_bytes": 1000})
    assert bool(found) == (way in fault.ways.split())
    assert all([words_of(option, way) in one for one in found])


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
    assert words_of(option, way) in str(raised.value)
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
