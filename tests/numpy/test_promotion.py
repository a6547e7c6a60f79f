"""The whole table of promotion is JAX's: each pair of dtypes, weak numbers among them, by name and in sums of arrays."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core import dtypes

TABLE = [line.split() for line in (pathlib.Path(__file__).parent / "promotion_of_jax.txt").read_text().splitlines()[1:]]
COLUMNS = TABLE[0][1:]
ROWS = {row[0]: dict(zip(COLUMNS, row[1:])) for row in TABLE[1:]}
WEAK: dict[str, Any] = {"int*": int, "float*": float, "complex*": complex}
DTYPES = {**dtypes.DTYPES, **dtypes.NARROW}
KNOWN = [*[name for name in COLUMNS if name in DTYPES], *WEAK]


def dtype_of(name: str, *operands: str) -> Any:
    """A dtype of the table; a weak one has 64 bits where an operand has, or where that is the default."""
    if name not in WEAK:
        return DTYPES[name]
    with pb.default_bits(64 if {"int64", "uint64", "float64", "complex128"} & set(operands) else 32):
        wide = pnp.asarray(WEAK[name](0)).dtype
    return max(wide, pnp.asarray(WEAK[name](0)).dtype, key=lambda dtype: dtype.itemsize)


def test_each_dtype_is_in_the_table() -> None:
    assert {*DTYPES, *WEAK} == set(KNOWN)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("a", KNOWN)
def test_promotion_is_that_of_jax(a: str, bits: int) -> None:
    with pb.default_bits(bits):
        for b in KNOWN:
            true = ROWS[a][b]
            assert ROWS[b][a] == true
            one, other = (WEAK.get(name) or DTYPES[name] for name in (a, b))
            if true == "-":
                with pytest.raises(pb.errors.DtypeError):
                    pnp.result_type(one, other)
            else:
                assert pnp.result_type(one, other) == dtype_of(true, a, b)


def value(name: str) -> Any:
    return WEAK[name](1) if name in WEAK else pnp.ones(2, name)


@pytest.mark.parametrize("a", KNOWN)
def test_arrays_meet_in_that_dtype_eagerly_and_compiled(a: str) -> None:
    """Sums, and choices; weak where both are."""
    for b in KNOWN:
        true = ROWS[a][b]
        if true != "-" and not (a in WEAK and b in WEAK) and not {a, b} & {*dtypes.NARROW}:  # in which nothing computes
            for function in (pnp.add, lambda x, y: pnp.where(pnp.array([True, False]), x, y)):
                for out in (function(value(a), value(b)), pb.eval_shape(function, value(a), value(b))):
                    assert out.dtype == dtype_of(true, a, b), (a, b)
