"""Every primitive on its samples, natively against eagerly: in each dtype and size class, and at special values.

What the tier refuses is listed in a table, by primitive and dtype, so that a new refusal fails, and so does one that is gone.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from programs import compiled, refusal

from pullback.core.array import Array, as_array
from pullback.core.dtypes import DTYPES, DType, is_inexact, kind
from pullback.core.errors import DtypeError
from pullback.core.primitive import Primitive
from pullback.core.tracing import type_of
from pullback.testing import all_primitives
from pullback.testing.values import host, in_dtype, is_generic
from pullback.transforms.stage import stage

DTYPE_NAMES = [name for name in DTYPES if not name.startswith("float8")]
SIZES = (8, 64, 512, 4096)  # bytes of an operand: numbers, a register, unrolled registers, loops; in a test of its own:
LARGE = 1 << 20  # blocks, which threads divide
# Without PULLBACK_CAMPAIGN, other dtypes than these have one size, and the first of the samples.
CAMPAIGN = "PULLBACK_CAMPAIGN" in os.environ
SIZES_OF = dict.fromkeys(("float32", "float64"), SIZES)
MIDDLE = SIZES if CAMPAIGN else (512,)
OFTEN = DTYPE_NAMES if CAMPAIGN else ["bool", "int32", "float32", "float64"]

# Units in the last place by which native code may differ from eager evaluation: of each element where the operation is
# elementwise, of the largest element where it is not.
ULPS = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 4, "complex64": 8, "complex128": 8}
ULPS_OF_LARGEST = {"float16": 2, "bfloat16": 2} | dict.fromkeys(("float32", "float64", "complex64", "complex128"), 8)
MORE_ULPS = {  # of what adds up or scales several functions, in one of the two or in both
    ("betaln", "float64"): 32,  # its terms are much larger than it is
    ("erfc", "float64"): 8,
    ("erfcx", "float64"): 8,
    ("expm1", "float32"): 6,
    ("log_ndtr", "float64"): 12,
    ("lgamma", "float64"): 8,  # close to where it is zero
    ("logaddexp", "float32"): 10,
    ("logaddexp", "float64"): 10,
    ("ndtr", "float64"): 10,
    ("normal_excess", "float64"): 10,
    ("normal_hazard", "float64"): 10,
    ("pow", "complex128"): 16,
    ("sinc", "complex64"): 16,
    ("sinc", "float64"): 16,
    ("sinh", "float32"): 8,
}
AT_ONCE = 8  # cases in one program: compiling is most of the work, and takes longer for each in larger ones

# What is left to XLA: the labels (see `Case`) by primitive; "*" stands for all of them.
WHOLLY = (
    "bessel_j beta_density beta_sensitivity betainc betaincc betaincinv binomial cosine_integral dawsn dawsn_slope"
    " digamma_gap exp1 expi fft fresnel_c fresnel_s gamma_density gamma_sensitivity gammaincinv hessenberg igamma"
    " igammac matrix_function ndtri owens_t pivots_of_qr poch polygamma rng_bit_generator sine_integral spence"
    " sylvester_solve tridiagonal tridiagonal_solve wofz zeta"
)
REFUSED = dict.fromkeys(WHOLLY.split(), "*") | {
    "acos": "complex64:0 complex128:0",
    "acosh": "complex64:0 complex128:0",
    "asin": "complex64:0 complex128:0",
    "asinh": "complex64:0 complex128:0",
    "atan": "complex64:0 complex128:0",
    "atanh": "complex64:0 complex128:0",
    "bessel_i": "float32:2 float64:2",
    "cofactors": "float32:0 float64:0 complex64:0 complex128:0 float32:1 float64:1",
    "draw": "prng_key64:3 prng_key64:4 prng_key64:5 prng_key64:6 prng_key64:7 prng_key64:8",
    "eig": "float32:0 float64:0 complex64:0 complex128:0 float32:1 float64:1",
    "eigh": "float32:0 float64:0 complex64:0 complex128:0",
    "geqrf": "float32:0 float64:0 complex64:0 complex128:0 float32:1 float64:1",
    "pinv": "float32:0 float64:0 complex64:0 complex128:0 float32:1 float64:1",
    "polar_factor": "float32:0 float64:0 complex64:0 complex128:0 float32:1 float64:1 float32:2 float64:2",
    "qr": "float32:0 float64:0 complex64:0 complex128:0 float32:1 float64:1 float32:2 float64:2",
    "scatter_max": "complex64:0 complex128:0",
    "scatter_min": "complex64:0 complex128:0",
    "scatter_mul": "complex64:0 complex128:0",
    "schur": "float32:0 float64:0 complex64:0 complex128:0 float32:1 float64:1",
    "svd": "float32:0 float64:0 complex64:0 complex128:0 float32:1 float64:1 float32:2 float64:2",
}

SAMPLED = [p for p in all_primitives() if p.samples is not None and list(p.samples(np.random.default_rng(0)))]
ELEMENTWISE = [p for p in SAMPLED if p.elementwise]


class Case(NamedTuple):
    """A sample in one dtype; its label: the dtype (of the first operand, where the sample fixes it) and the sample's number."""

    label: str
    args: list[Array]
    params: dict[str, Any]


def samples_of(p: Primitive) -> list[tuple[Any, dict[str, Any]]]:
    assert p.samples is not None
    return list(p.samples(np.random.default_rng(0)))


def cases_of(p: Primitive) -> Iterator[Case]:
    for number, (args, params) in enumerate(samples_of(p)):
        if not is_generic(args):
            typed = [as_array(np.asarray(arg)) for arg in args]
            yield Case(f"{typed[0].dtype.name if typed else 'none'}:{number}", typed, params)
            continue
        for dtype in (DTYPES[name] for name in (OFTEN if number else DTYPE_NAMES)):
            if (made := made_of(p, dtype, args, params)) is not None:
                yield Case(f"{dtype.name}:{number}", made, params)


def made_of(p: Primitive, dtype: DType, args: Any, params: dict[str, Any]) -> list[Array] | None:
    """A sample in another dtype than its own; None if the primitive takes no such operands."""
    typed = in_dtype(args, dtype) if kind(dtype) in p.kinds and is_generic(args) else None
    if typed is not None and p.result_type is not None:
        try:
            p.result_type(*map(type_of, typed), **params)
        except DtypeError:
            return None
    return typed


def applied(p: Primitive, params: dict[str, Any]) -> Callable[..., list[Any]]:
    def function(*xs: Any) -> list[Any]:
        out = p(*xs, **params)
        return list(out) if p.multiple_results else [out]

    return function


def is_refused(p: Primitive, case: Case) -> bool:
    program, _ = stage(applied(p, case.params), [type_of(arg) for arg in case.args])
    return refusal(program) is not None


def widened(p: Primitive, case: Case, bytes_: int) -> Case:
    """The operands of an elementwise case with as many bytes, and, where that takes a loop, a few elements over."""
    largest = max((arg for arg in case.args if arg.ndim), key=lambda arg: arg.dtype.itemsize)
    count = max(1, bytes_ // largest.dtype.itemsize) + (3 if bytes_ >= 512 else 0)
    args = [as_array(varied(host(arg), count)) if arg.ndim else arg for arg in case.args]
    return Case(f"{case.label}, {count} elements", args, case.params)


def varied(array: np.ndarray[Any, Any], count: int) -> np.ndarray[Any, Any]:
    """The elements again and again; numbers with digits behind the point a little smaller each time."""
    tiled = np.resize(array.reshape(-1), count)
    wide = tiled.astype(np.complex128 if kind(array.dtype) == "c" else np.float64)
    if not is_inexact(array.dtype) or np.array_equal(np.round(wide), wide):
        return tiled
    return np.asarray(wide * (1 - 0.125 * (np.arange(count) // array.size % 8191) / 8191)).astype(array.dtype)


def is_widenable(p: Primitive, case: Case) -> bool:
    return p.elementwise and any(arg.size for arg in case.args if arg.ndim)


Results = list[np.ndarray[Any, Any]]


def together(p: Primitive, cases: list[Case], how: str) -> list[Results]:
    """The results of all cases, some of them computed in one program."""
    found: list[Results] = []
    for i in range(0, len(cases), AT_ONCE):
        some = cases[i : i + AT_ONCE]

        def function(*xs: Any) -> list[Any]:
            given = iter(xs)
            return [applied(p, case.params)(*itertools.islice(given, len(case.args))) for case in some]

        outs = compiled(function, how)(*itertools.chain(*(case.args for case in some)))
        found += [[host(x) for x in results] for results in outs]
    return found


def distance(found: Any, expected: Any, of_largest: bool = False) -> Any:
    """How many units in the last place values are apart, element by element; infinitely many where one of them is no number."""
    info = ml_dtypes.finfo(expected.dtype)
    wide = np.complex128 if kind(expected.dtype) == "c" else np.float64
    a, b = found.astype(wide), expected.astype(wide)
    size = np.maximum(np.where(np.isfinite(b), np.abs(b), 0.0), float(info.smallest_normal))
    if of_largest:
        size = np.full(size.shape, np.max(size, initial=float(info.smallest_normal)))
    unit = np.ldexp(float(info.eps), np.frexp(size)[1] - 1)
    with np.errstate(all="ignore"):
        units = np.abs(a - b) / unit
    return np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.where(np.isnan(units), np.inf, units))


def assert_agree(p: Primitive, cases: list[Case]) -> None:
    for case, found, expected in zip(cases, together(p, cases, "native"), together(p, cases, "eager"), strict=True):
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            where = f"{p.name}, {case.label}, {', '.join(str(type_of(x)) for x in case.args)}, {case.params}, result {i}"
            assert (a.shape, a.dtype) == (b.shape, b.dtype), where
            if b.dtype.name not in ULPS:
                assert np.array_equal(a, b), f"{where}:\n{a}\nagainst\n{b}"
                continue
            units = distance(a, b, of_largest=not p.elementwise)
            limits = ULPS if p.elementwise else ULPS_OF_LARGEST
            limit = MORE_ULPS.get((p.name, b.dtype.name), limits[b.dtype.name])
            if np.max(units, initial=0.0) > limit:
                at = np.unravel_index(np.argmax(units), units.shape)
                pytest.fail(f"{where}[{', '.join(map(str, at))}]: {a[at]} against {b[at]}, {units[at]:.1f} ulps apart")


def labels(p: Primitive) -> tuple[list[Case], str]:
    """The cases that the tier takes, and the labels of those that it refuses."""
    cases = list(cases_of(p))
    refused = [case.label for case in cases if is_refused(p, case)]
    taken = [case for case in cases if case.label not in refused]
    return taken, "*" if cases and not taken else " ".join(refused)


@pytest.mark.parametrize("p", SAMPLED, ids=lambda p: p.name)
def test_samples(p: Primitive) -> None:
    taken, refused = labels(p)
    if not CAMPAIGN:
        assert refused == REFUSED.get(p.name, ""), f'the table should say "{p.name}": "{refused}"'
    wider = [
        widened(p, case, size)
        for case in taken
        if is_widenable(p, case) and case.label.endswith(":0")
        for size in SIZES_OF.get(case.label.removesuffix(":0"), MIDDLE)
    ]
    assert_agree(p, [*taken, *wider])


@pytest.mark.parametrize("p", ELEMENTWISE, ids=lambda p: p.name)
def test_large_samples(p: Primitive) -> None:
    """Of one dtype: what is different here, blocks and threads, knows of no dtypes."""
    fitting = [case for case in cases_of(p) if is_widenable(p, case) and not is_refused(p, case)]
    of_float32 = [case for case in fitting if case.label == "float32:0"]
    assert_agree(p, [widened(p, case, LARGE) for case in (of_float32 or fitting)[:1]])


def test_every_name_in_the_table_exists() -> None:
    assert {p.name for p in SAMPLED} >= {*REFUSED, *(name for name, _ in MORE_ULPS)}


# ---- special values -------------------------------------------------------------------------------------------------------

SPECIAL = (
    "abs acos acosh add asin asinh atan atan2 atanh cbrt ceil clamp cos cosh digamma div eq erf erfc exp exp2 expm1 floor"
    " floor_divide ge gt hypot integer_pow is_finite le lgamma log log1p logaddexp logistic lt max min mul ne neg pow rem"
    " remainder round rsqrt select sign sin sinh sqrt square sub tan tanh"
)
ZEROS_OF_EITHER_SIGN = {"max", "min", "clamp"}  # NumPy's depend on where in the array they are

# Where compiled code differs, and in which dtypes; a row that has become superfluous fails.
KNOWN: dict[str, tuple[str, str]] = {
    "cbrt": ("float64", "of denormals is -5.6e-16, or the denormal"),
    "digamma": ("float64", "of -0.5 is 5 units in the last place away"),
    "log1p": ("float64", "of the least normal number is 0, since half of it is"),
    "logaddexp": ("float32 bfloat16", "loses a denormal that is added to the least normal number"),
    "remainder": ("float64", "of a negative denormal is the denormal without its sign"),
    "sign": ("float32 float64 bfloat16 float16", "of -0.0 is -0.0, and 0.0 by NumPy"),
}


def special(dtype: DType) -> np.ndarray[Any, Any]:
    info = ml_dtypes.finfo(dtype)
    tiny, least, most = float(info.smallest_normal), float(info.smallest_subnormal), float(info.max)
    found = [0.0, least, tiny / 2, tiny, 0.5, 1.0, 1.5, 2.0, 3.0, 88.0, 1e3, most, np.inf]
    return np.array([*found, *(-x for x in found), np.nan]).astype(dtype)


def flushed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """With denormals replaced by zeros of their sign, as compiled code may do with operands and with results."""
    if kind(array.dtype) != "f":
        return array
    wide = array.astype(np.float64)
    least = float(ml_dtypes.finfo(array.dtype).smallest_normal)
    return np.where(np.abs(wide) < least, np.copysign(0.0, wide), wide).astype(array.dtype)


def specials_of(p: Primitive, dtype: DType) -> Iterator[Case]:
    """Special values in every place, for two operands each with each; for three they are drawn."""
    values, rng = special(dtype), np.random.default_rng(1)
    for number, (args, params) in enumerate(samples_of(p)):
        typed = made_of(p, dtype, args, params)
        if typed is None or any(not arg.ndim for arg in typed):
            continue
        grid = np.meshgrid(*[values] * len(typed)) if len(typed) < 3 else rng.choice(values, (len(typed), 1000))
        made = [
            as_array(np.ravel(points) if arg.dtype == dtype else np.resize(host(arg).reshape(-1), points.size))
            for arg, points in zip(typed, grid)
        ]
        yield Case(f"{dtype.name}:{number}", made, params)


def is_one_of(p: Primitive, found: Any, candidates: list[Any]) -> Any:
    """Element by element, whether a result is one of the candidates, with a sign also where it is zero."""
    right = np.zeros(found.shape, bool)
    for b in candidates:
        if b.dtype.name not in ULPS:
            right |= found == b
            continue
        signed = (p.name not in ZEROS_OF_EITHER_SIGN) & ~np.isnan(b.astype(np.float64))
        near = distance(found, b) <= MORE_ULPS.get((p.name, b.dtype.name), ULPS[b.dtype.name])
        right |= near & ((np.signbit(found) == np.signbit(b)) | ~signed)
    return right


@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("p", [p for p in ELEMENTWISE if p.name in SPECIAL.split()], ids=lambda p: p.name)
def test_special_values(p: Primitive, name: str) -> None:
    """NaN, infinities, zeros of both signs, denormals: what eager evaluation finds of them, or of zeros for denormals."""
    cases = [case for case in specials_of(p, DTYPES[name]) if not is_refused(p, case)]
    without = [case._replace(args=[as_array(flushed(host(arg))) for arg in case.args]) for case in cases]
    wrong = []
    ways = (together(p, cases, "native"), together(p, cases, "eager"), together(p, without, "eager"))
    for case, (found,), (plain,), (of_flushed,) in zip(cases, *ways, strict=True):
        right = is_one_of(p, found, [plain, of_flushed, flushed(plain), flushed(of_flushed)])
        for i in np.flatnonzero(~right):
            wrong.append(f"{[host(x)[i].item() for x in case.args]}: {found[i]} in place of {plain[i]}")
    if name in KNOWN.get(p.name, ("", ""))[0].split():
        assert wrong, f"{p.name}: its row of known differences is superfluous in {name}"
    else:
        assert not wrong, f"{p.name}, {name}, {len(wrong)} of them: {'; '.join(wrong[:12])}"


def test_every_special_name_exists() -> None:
    assert {p.name for p in ELEMENTWISE} >= {*SPECIAL.split(), *KNOWN}
