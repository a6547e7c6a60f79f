"""The mode: a process's, a block's; what enters, meets and is indexed in it."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.errors import DtypeError
from pullback.core.modes import current_mode, overriding, process_mode, set_process_mode

X = pnp.arange(3.0) + 1.0
M = pnp.arange(6.0).reshape(2, 3)


@pytest.fixture(autouse=True)
def _restores() -> Iterator[None]:
    before = process_mode()
    yield
    set_process_mode(**{name: getattr(before, name) for name in ("bits", "narrows", "clamps", "promotion", "rank_promotion")})
    assert process_mode() is before is current_mode()


def _in_a_thread(function: Any) -> Any:
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


# ---- whose mode it is -------------------------------------------------------------------------------------------------


def test_modes_of_the_same_fields_are_one_object() -> None:
    mode = current_mode()
    assert mode.replace(bits=64) is mode.replace(bits=64) is not mode
    assert mode.replace(bits=64).replace(bits=mode.bits) is mode
    assert repr(mode.replace(bits=64, promotion="strict")) == "64 bits, promotion='strict'"


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"bits": 16}, ValueError, "bits is 32 or 64, not 16"),
        ({"promotion": "loose"}, ValueError, "'standard' or 'strict', not 'loose'"),
        ({"clamps": 1}, ValueError, "clamps is False or True, not 1"),
        ({"width": 64}, TypeError, "fields bits, .* got width"),
    ],
)
def test_fields_and_values_that_there_are_not_are_refused(fields: Any, error: type, says: str) -> None:
    before = current_mode()
    for change in (set_process_mode, overriding):
        with pytest.raises(error, match=says):
            change(**fields)
    assert current_mode() is before


def test_the_mode_of_the_process_holds_in_all_threads_and_a_block_s_in_its_own() -> None:
    with overriding(bits=64):
        assert pnp.asarray(1.0).dtype == np.float64
        assert _in_a_thread(lambda: pnp.asarray(1.0).dtype) == np.float32
    set_process_mode(bits=64)
    assert pnp.asarray(1.0).dtype == np.float64 == _in_a_thread(lambda: pnp.asarray(1.0).dtype)
    with overriding(bits=32):
        assert pnp.asarray(1.0).dtype == np.float32
        assert _in_a_thread(lambda: pnp.asarray(1.0).dtype) == np.float64


def test_a_block_overrides_its_own_fields_only() -> None:
    with overriding(promotion="strict"):
        with overriding(clamps=True):
            set_process_mode(bits=64)
            mode = current_mode()
            assert (mode.bits, mode.clamps, mode.promotion) == (64, True, "strict")
            set_process_mode(promotion="standard")
            assert current_mode().promotion == "strict"
        assert (current_mode().bits, current_mode().clamps, current_mode().promotion) == (64, False, "strict")
    assert current_mode() is process_mode() and current_mode().bits == 64


def test_a_block_may_be_entered_again_and_ends_with_an_error() -> None:
    before, block = current_mode(), overriding(clamps=True)
    with pytest.raises(RuntimeError, match="inside"), block, block:
        assert current_mode().clamps
        raise RuntimeError("inside")
    assert current_mode() is before


def test_what_was_compiled_in_one_mode_serves_no_other() -> None:
    f = pb.jit(lambda x: x[9] if current_mode().clamps else x[0])
    for _ in range(3):  # the second time by the fast path
        assert f(X) == 1.0
        with overriding(clamps=True):
            assert f(X) == 3.0


# ---- what it says -----------------------------------------------------------------------------------------------------

# What JAX 0.10.2 gives. Its arrays are float32, and "!" stands for an IndexError.
READS = {
    "x[9]": 3.0, "x[-9]": 1.0, "x[np.array([9])]": [3.0], "x[pnp.array([9, -9, -1])]": [3.0, 1.0, 3.0], "x[pnp.array(9)]": 3.0,
    "pb.jit(lambda x, i: x[i])(x, 9)": 3.0, "pb.jit(lambda x, i: x[i])(x, -9)": 1.0, "pb.jit(lambda x: x[9])(x)": 3.0,
    "x.at[9].get()": 3.0, "x.at[-9].get()": 1.0, "x.at[np.array([9, -9])].get()": [3.0, 1.0],
    "x.at[9].set(7.0)": [1.0, 2.0, 3.0], "x.at[-9].set(7.0)": [1.0, 2.0, 3.0], "x.at[-4].set(7.0)": [1.0, 2.0, 3.0],
    "x.at[pnp.array([9, -9, 1])].add(7.0)": [1.0, 9.0, 3.0], "x.at[pnp.array([9, -9, 1])].max(7.0)": [1.0, 7.0, 3.0],
    "m[5]": [3.0, 4.0, 5.0], "m[5, 1]": 4.0, "m[0, 7:9]": [], "m[0, np.array([7])]": [2.0], "m[..., 9]": [2.0, 5.0],
    "m.at[5].set(1.0)": [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], "m.at[:, 7].set(9.0)": [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]],
    "x.at[9].apply(pnp.sin)": [1.0, 2.0, 3.0], "x.at[9].multiply(3.0)": [1.0, 2.0, 3.0], "x[None, 9]": [3.0],
    "pnp.zeros((2, 0))[5]": [], "pnp.zeros((0,))[0]": "!", "pnp.zeros((2, 0))[0, 0]": "!", "x[0, 0]": "!",
}  # fmt: skip


@pytest.mark.parametrize("text", READS)
def test_indices_out_of_bounds_where_they_clamp(text: str) -> None:
    with overriding(clamps=True):
        names = {"x": X, "m": M, "np": np, "pnp": pnp, "pb": pb}
        if READS[text] == "!":
            with pytest.raises(IndexError):
                eval(text, names)
        else:
            assert eval(text, names).tolist() == READS[text]
    with pytest.raises(IndexError):
        X[9]
    with pytest.raises(IndexError):
        X.at[9].set(1.0)


# Of each pair: whether JAX 0.10.2 has a common dtype for it where promotion is strict.
STRICT = [
    (1, "float32", True), (1, "int8", True), (1.0, "float16", True), (1j, "complex64", True), (1.0, "int32", False),
    (1j, "float32", False), (1, "bool", False), (True, "int32", False), (1, 1.0, True), (True, 1, False), (True, "bool", True),
    ("int32", "int32", True), ("int32", "int64", False), ("float32", "int32", False), ("float32", "bfloat16", False),
    ("bool", "int8", False), ("float32", "complex64", False),
]  # fmt: skip


@pytest.mark.parametrize(("x", "y", "meet"), STRICT)
def test_strict_promotion(x: Any, y: Any, meet: bool) -> None:
    x, y = [pnp.ones(2, one) if isinstance(one, str) else one for one in (x, y)]
    wanted = pnp.add(x, y).dtype
    with overriding(promotion="strict"):
        for a, b in ((x, y), (y, x)):
            if meet:
                assert pnp.add(a, b).dtype == wanted == pnp.result_type(a, b)
                continue
            for ask in (pnp.add, pnp.result_type, pb.jit(pnp.multiply), pnp.where.__get__(pnp.ones(2, bool))):
                with pytest.raises(pb.errors.DtypeError, match="where promotion is strict"):
                    ask(a, b)


def test_promotion_of_ranks_warns_or_raises_where_axes_would_come_in_front() -> None:
    row = pnp.ones(3)
    with overriding(rank_promotion="raise"):
        for f in (
            lambda: M + row,
            lambda: pb.jit(pnp.add)(M, row),
        ):
            with pytest.raises(ValueError, match=r"\(2, 3\) \(3,\).*'raise'"):
                f()
        assert (M + 1.0 + pnp.ones((1, 3)) + pnp.array(2.0)).shape == (2, 3)
        assert pnp.broadcast_arrays(M, row)[1].shape == (2, 3) == pnp.where(M > 0, M, row).shape
        assert M[pnp.array([[0]]), pnp.array([1])].shape == (1, 1)
    with (
        overriding(rank_promotion="warn"),
        pytest.warns(UserWarning, match=r"rank promotion for add on shapes \(2, 3\) \(3,\)"),
    ):
        M + row
    assert (M + row).shape == (2, 3)


def test_a_request_for_64_bits_warns_where_it_is_narrowed_and_values_do_not() -> None:
    wide = np.ones(2)
    with overriding(narrows="warn"):
        for ask in (
            lambda: pnp.zeros(2, "float64"),
            lambda: pnp.ones(2).astype(np.float64),
            lambda: pnp.arange(3, dtype=np.int64),
        ):
            with pytest.warns(UserWarning, match=r"Explicitly requested dtype (float|int)64 is not available"):
                assert ask().dtype.itemsize == 4
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            made = (
                pnp.asarray(wide),
                wide + pnp.ones(2),
                pnp.zeros(2, float),
                np.float64(1.0) * pnp.ones(2),
                pb.jit(pnp.sin)(wide),
            )
            assert all(one.dtype == np.float32 for one in made)
            assert pnp.result_type(np.float64) == np.float32


@pytest.mark.parametrize("f", [pnp.sin, pnp.mean, pnp.std, lambda x: x / x, pnp.median, pb.jit(pnp.sqrt)])
def test_integers_become_floating_numbers_of_the_default_width_or_of_their_own(f: Any) -> None:
    with overriding(bits=64):
        assert f(pnp.ones(2, "int32")).dtype == np.float64 == f(pnp.ones(2, "int64")).dtype
    with overriding(bits=64, floats="own"):
        assert f(pnp.ones(2, "int32")).dtype == np.float32 and f(pnp.ones(2, "int64")).dtype == np.float64
    with overriding(floats="own"):
        assert f(pnp.ones(2, "int32")).dtype == np.float32 == f(pnp.ones(2, "int64")).dtype


def test_what_functions_convert_by_themselves_is_no_promotion_of_the_users() -> None:
    half, numbers, mask = pnp.ones((2, 3), "float16"), pnp.arange(6).reshape(2, 3), pnp.array([True, False, True])
    with overriding(promotion="strict", rank_promotion="raise"):
        for x in (half, numbers, half.astype("complex64")):
            for spread in (pnp.mean, pnp.var, pnp.nanvar, pnp.cov):
                assert spread(x).dtype == spread(x).dtype
            assert pnp.mean(x, 1, where=mask[None]).shape == (2,)
        assert pnp.median(half).dtype == pnp.nanpercentile(half, 20).dtype == np.float16
        assert pnp.median(numbers).dtype == np.float32 and pnp.average(half, weights=half).dtype == np.float16
        with pytest.raises(DtypeError):
            half + numbers
    with overriding(narrows="warn"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pnp.quantile(half, 0.5, weights=half, method="inverted_cdf") == 1


def test_where_takes_bools() -> None:
    with pytest.raises(DtypeError, match="sum takes bools as `where`, but got i32"):
        pnp.sum(pnp.ones(3), where=pnp.arange(3))


def test_composed_functions_promote_by_themselves() -> None:
    bits, steps = pnp.array([[3], [200]], "uint8"), pnp.arange(3)
    with overriding(promotion="strict", rank_promotion="raise"):
        assert np.array_equal(pnp.packbits(pnp.unpackbits(bits, 1), 1), bits)
        assert pnp.trapezoid(pnp.ones((2, 3)), dx=0.5).shape == (2,)
        for histogram in (lambda: pnp.histogram(steps, 2), lambda: pnp.histogram2d(steps, steps.astype("float16"), 2)):
            assert histogram()[0].sum() == 3
        assert pnp.vander(steps.astype("float16")).dtype == np.float16
        assert pnp.polyfit(pnp.arange(4.0), pnp.arange(4.0), 1).shape == (2,)
        assert np.array_equal(pnp.piecewise(steps, [steps > 1], [9, steps[0]]), [0, 0, 9])


def test_errors_of_known_values_only_are_none_where_the_mode_clamps() -> None:
    with pytest.raises(ValueError, match="not negative"):
        pnp.bincount(pnp.array([-1, 1]))
    with overriding(clamps=True):
        assert np.array_equal(pnp.bincount(pnp.array([-1, 1])), [1, 1])
        assert np.isnan(pnp.linalg.inv(pnp.zeros((2, 2)))).any()


def generates() -> Iterator[str]:
    yield current_mode().native


async def awaits() -> str:
    return current_mode().native


async def generates_and_awaits() -> AsyncIterator[str]:
    yield current_mode().native


class Called:
    def __call__(self) -> tuple[str, int]:
        return current_mode().native, current_mode().bits


@pytest.mark.parametrize("block", [lambda: pb.native_mode("off"), lambda: pb.default_bits(64)])
@pytest.mark.parametrize("function", [generates, awaits, generates_and_awaits, Called, classmethod(generates), 3])
def test_blocks_refuse_to_decorate_what_would_run_without_them(block: Any, function: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TypeError, match=r"decorates functions .* Write `with pb\.(native_mode|default_bits)\("):
            block()(function)


def test_blocks_decorate_whatever_else_is_called() -> None:
    assert pb.native_mode("off")(Called())() == ("off", current_mode().bits)
    assert pb.default_bits(64)(functools.partial(Called()))() == (current_mode().native, 64)
