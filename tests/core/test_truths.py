"""Bools of NumPy's whose bytes are others than 0 and 1, which NumPy takes for true: they enter as 0 and 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.native.choice import native_mode

BYTES = np.array([0, 1, 2, 255, 128, 0], np.uint8)
TRUE = BYTES != 0

USES: dict[str, Callable[[Any], Any]] = {
    "where": lambda b: pnp.where(b, 1.0, 2.0),
    "any": pnp.any,
    "max": pnp.max,
    "sum": pnp.sum,
    "cumsum": pnp.cumsum,
    "argmax": pnp.argmax,
    "sort": pnp.sort,
    "equal": lambda b: b == True,  # noqa: E712
    "less": lambda b: b < True,
    "xor": lambda b: b ^ True,
    "and": lambda b: b & True,
    "itself": lambda b: pnp.asarray(b),
}


def bytes_of(value: Any) -> list[int]:
    return np.asarray(value).reshape(-1).view(np.uint8).tolist()


@pytest.mark.parametrize("mode", ["off", "on"])
@pytest.mark.parametrize("donated", [(), (0,)], ids=["kept", "donated"])
@pytest.mark.parametrize("name", USES)
@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_compiled_functions_take_them_as_true(name: str, donated: tuple[int, ...], mode: str) -> None:
    """On the first call, and on the fast paths of later ones."""
    use = USES[name]
    with native_mode(mode):
        compiled = pb.jit(use, donate_argnums=donated)
        wanted = bytes_of(use(TRUE))
        for _ in range(4):
            assert bytes_of(compiled(BYTES.view(np.bool_))) == wanted


@pytest.mark.parametrize("size", [0, 1, 1 << 17, 1 << 21])
def test_of_any_size_and_layout(size: int) -> None:
    given = np.resize(BYTES, size)
    with native_mode("off"):
        compiled = pb.jit(lambda b: pnp.sum(b, dtype="int32"))
        for _ in range(3):
            for bools in (given.view(np.bool_), given[::-2].view(np.bool_)):
                assert int(compiled(bools)) == np.count_nonzero(bools.view(np.uint8))


def test_arrays_made_of_them() -> None:
    for bools in (BYTES.view(np.bool_), BYTES[:1].reshape(()).view(np.bool_), BYTES.reshape(2, 3).T.view(np.bool_)):
        for made in (pnp.array(bools), pnp.asarray(bools), pb.device_put(bools)):
            assert made.shape == bools.shape
            assert bytes_of(made) == bytes_of(bools.view(np.uint8) != 0)


def test_results_of_callbacks() -> None:
    compiled = pb.jit(lambda x: pb.pure_callback(lambda _: BYTES.view(np.bool_), pb.ArrayType((6,), np.dtype(np.bool_)), x))
    assert bytes_of(compiled(1.0)) == bytes_of(TRUE)
