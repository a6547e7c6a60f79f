"""Strict promotion and rank promotion speak of what the user mixes, not of what our functions mix inside."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import numpy as pnp
from pullback.core.errors import DtypeError, PullbackError
from pullback.core.modes import overriding

STRICT = {"promotion": "strict", "rank_promotion": "raise"}
_NAMESPACES = """
    numpy numpy.linalg numpy.fft nn lax scipy.special scipy.linalg scipy.signal scipy.fft scipy.integrate scipy.ndimage
    scipy.stats.norm scipy.stats.beta scipy.stats.t scipy.stats.poisson scipy.stats.gamma
"""
# What they take are sizes, files or functions, not arrays; or they ask the user to mix.
_LEFT_OUT = """
    arange bartlett blackman eye empty fftfreq full geomspace hamming hanning hilbert identity indices invpascal kaiser
    linspace load logspace mask_indices ones pascal printoptions rfftfreq save savetxt savez set_printoptions tri zeros
"""
# A number of Python's own meets the user's array there, in JAX too: 2 pi, 4, 1 as a bool.
OWN_NUMBERS = frozenset(
    ["numpy.unwrap", "numpy.polyint", "nn.squareplus", "nn.celu", "nn.leaky_relu", "nn.hard_tanh", "scipy.special.zeta"]
)
SQUARE = np.array([[2.0, 0.5, 0.0], [0.5, 2.0, 0.25], [0.0, 0.25, 2.0]])


def functions() -> Iterator[Any]:
    left_out = {"_", *_LEFT_OUT.split()}
    for namespace in _NAMESPACES.split():
        module = operator.attrgetter(namespace)(pb)
        for name in [name for name in sorted(dir(module)) if name[0] != "_" and name not in left_out]:
            function = getattr(module, name)
            if callable(function) and not isinstance(function, type) and f"{namespace}.{name}" not in OWN_NUMBERS:
                yield pytest.param(function, id=f"{namespace}.{name}")


def given() -> Iterator[tuple[Any, ...]]:
    """Arguments of one dtype and one shape: one, two and three."""
    for dtype, array in itertools.product(("float32", "int32", "float16", "complex64"), (SQUARE[0], SQUARE)):
        for count in (1, 2, 3):
            yield tuple([pnp.array(array, dtype)] * count)


@pytest.mark.parametrize("function", list(functions()))
def test_operands_of_one_dtype_and_shape_are_never_refused(function: Any) -> None:
    for args in given():
        try:
            function(*args)
        except Exception:  # it does not take these at all
            continue
        with overriding(**STRICT):
            function(*args)


f, i, b, h = pnp.array([0.25, 0.5, 0.75]), pnp.array([1, 2, 0]), pnp.array([True, False, True]), pnp.ones(3, "float16")

# Of these, JAX 0.10.2 with the same option refuses each of the first, and takes each of the others.
REFUSED = """
    f + i | f == i | f @ i | divmod(f, i) | i ** 0.5 | pnp.true_divide(i, 0.5) | pnp.hstack([f, i]) | pnp.vstack([f, i])
    pnp.append(f, i) | pnp.concatenate([f, i]) | pnp.stack([f, i]) | pnp.column_stack([f, i]) | pnp.dot(f, i) | f.dot(i)
    pnp.vdot(f, i) | pnp.inner(f, i) | pnp.outer(f, i) | pnp.kron(f, i) | pnp.tensordot(f, i, 1) | pnp.einsum('i,i', f, i)
    pnp.cross(f, i) | pnp.convolve(f, i) | pnp.allclose(f, i) | pnp.isclose(f, i) | pnp.array_equal(f, i) | pnp.polyadd(f, i)
    pnp.polymul(f, i) | pnp.polyval(f, i) | pnp.interp(f, i, f) | pnp.where(b, f, i) | pnp.select([b], [f], i)
    pnp.clip(f, i, i) | pnp.average(f, weights=i) | pnp.cov(f, i) | pnp.corrcoef(f, i) | pnp.searchsorted(f, i)
    pnp.digitize(f, pnp.arange(3))
    pnp.isin(f, i) | pnp.union1d(f, i) | pnp.intersect1d(f, i) | pnp.setdiff1d(f, i) | pnp.gradient(f, i)
    f.at[i].set(i) | f.at[i].add(i) | pnp.add.at(f, i, i, inplace=False) | pnp.put(f, i, i, inplace=False) | pnp.block([f, i])
    pnp.diff(f, prepend=i) | pnp.logaddexp(f, i) | pnp.power(f, i) | pnp.heaviside(f, i) | pnp.nextafter(f, i)
    pnp.copysign(f, i) | pnp.arctan2(f, i) | pnp.hypot(f, i) | pnp.fmod(f, i) | pnp.result_type(f, i)
    pnp.promote_types('float32', 'int32') | pnp.linalg.solve(pnp.eye(3), i) | pnp.linalg.lstsq(pnp.eye(3), i)
    pnp.linalg.multi_dot([pnp.eye(3), i]) | pb.scipy.linalg.solve(pnp.eye(3), i) | pb.scipy.signal.convolve(f, i)
    pb.scipy.special.xlogy(f, i) | pb.scipy.special.betainc(f, i, f) | pb.scipy.special.logsumexp(f, b=i)
    pnp.place(f, b, i, inplace=False) | pnp.apply_along_axis(lambda row: row + i, 0, f) | pnp.vectorize(pnp.add)(f, i)
    pb.lax.map(lambda pair: pair[0] + pair[1], (f, i)) | pb.vmap(pnp.add)(f, i) | pnp.add.outer(f, i) | pb.jit(pnp.add)(f, i)
    pb.scipy.stats.norm.cdf(f, i, i) | pb.scipy.stats.beta.pdf(f, i, i) | pb.nn.celu(f, i) | pb.nn.leaky_relu(f, i)
    pb.tree.map(pnp.add, [f], [i]) | pb.grad(lambda x: (x * i).sum())(f) | pb.lax.scan(lambda c, x: (c * x, c + x), f, i)
    pb.lax.scan(pnp.divmod, f[0], i) | pb.vmap(lambda x: pnp.mean(x + i))(pnp.ones((2, 3)))
"""
TAKEN = """
    pnp.true_divide(i, i) | pnp.trapezoid(i) | pnp.trapezoid(i, dx=0.5) | pnp.percentile(i, i) | pnp.percentile(f, i)
    pnp.percentile(i, f) | pnp.percentile(h, f) | pnp.percentile(f, 50) | pnp.polyint(i) | pb.scipy.special.entr(i)
    pnp.array_equiv(f, i) | pnp.insert(f, 1, i) | pnp.take(f, i) | pnp.histogram(f, i) | pnp.bincount(i, f)
    pnp.sum(f, initial=i[0]) | pnp.sum(f, initial=1) | pnp.max(f, initial=i[0]) | pnp.full_like(f, i[0]) | pnp.ediff1d(f, i)
    f ** 2 | pnp.nan_to_num(f, nan=i[0]) | pnp.tri(3) + pnp.eye(3) | pnp.add.reduce(h) | pnp.sinc(h) | pnp.i0(h) | i.mean()
    h.var() | i.std() | pnp.nanmean(i) | pnp.cbrt(i) | pb.nn.softmax(f, where=b) | pnp.cumsum(b) | pnp.linalg.norm(i)
    pnp.linalg.det(pnp.eye(3, dtype=int)) | pnp.nanquantile(h, 0.5) | pnp.median(h) | f[i] | f[i - 3] | pnp.eye(3)[:, i]
    pb.jit(pnp.mean)(i) | pb.vmap(pnp.var)(pnp.ones((2, 3), 'int32')) | pb.jit(lambda x, i: x[i])(f, i)
    pb.grad(lambda x: pnp.var(x))(f) | pb.image.resize(f, (6,), 'linear') | pb.nn.one_hot(i, 3) | pnp.add.reduceat(h, i)
    pb.hessian(lambda x: pb.nn.gelu(x).sum())(f) | pb.lax.scan(lambda c, x: (c, pnp.mean(x)), f, pnp.ones((2, 3), 'int32'))
    pnp.mgrid[0:1:3j, 0:2] | pnp.ogrid[0:1:3j, 0:2]
"""


def lines(table: str) -> list[str]:
    return [each.strip() for line in table.strip().splitlines() for each in line.split("|")]


@pytest.mark.parametrize("text", lines(REFUSED))
def test_what_the_user_mixes_is_refused(text: str) -> None:
    eval(text)
    with overriding(promotion="strict"), pytest.raises(DtypeError, match="where promotion is strict"):
        eval(text)


@pytest.mark.parametrize("text", lines(TAKEN))
def test_what_our_functions_mix_is_not(text: str) -> None:
    with overriding(**STRICT):
        eval(text)


M, v = pnp.eye(3), pnp.ones(3)


@pytest.mark.parametrize("text", lines("M + v | pnp.add(M, v) | pnp.clip(M, v, 2.0) | pb.jit(pnp.multiply)(M, v) | M < v"))
def test_ranks_that_the_user_mixes_are_refused_or_warned_of(text: str) -> None:
    with overriding(rank_promotion="raise"), pytest.raises(PullbackError, match="rank promotion"):
        eval(text)
    with overriding(rank_promotion="warn"), pytest.warns(UserWarning, match="rank promotion"):
        eval(text)


@pytest.mark.parametrize(
    "text", lines("pnp.cov(M) | M.var(0) | pnp.cross(M, M) | pb.nn.standardize(M, 0) | pnp.gradient(M, 2.0)")
)
def test_ranks_that_our_functions_mix_are_not_spoken_of(text: str) -> None:
    for choice in ("raise", "warn"):
        with overriding(rank_promotion=choice):
            eval(text)


def test_a_fast_path_that_one_function_has_learnt_lets_no_user_mix() -> None:
    with overriding(promotion="strict"):
        for _ in range(3):
            pnp.average(i, weights=i)
            with pytest.raises(DtypeError):
                pnp.average(i, weights=f)
            with pytest.raises(DtypeError):
                pnp.divide(f, i)
