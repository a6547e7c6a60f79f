"""Random numbers as functions of a key and a counter: keys, and the laws that need no parameters.

A key is one element of dtype `key<fry>`, or that of another generator (`generators.py`). Its n-th random bits are what the
generator makes of the number n: so all elements are computed by themselves, in any order; but for XLA's generator, `rbg`. Which
bits become which numbers is JAX's.
"""

from __future__ import annotations

import functools
import math

import ml_dtypes
import numpy as np

from pullback.core.array import Array, host_of
from pullback.core.dtypes import FLOAT64, KEY, kind
from pullback.core.errors import DtypeError
from pullback.core.execution import engine
from pullback.core.primitive import Rules, primitive
from pullback.core.tracing import type_of
from pullback.core.types import Shape, array_type
from pullback.ops.arithmetic import mul, sub
from pullback.ops.create import full
from pullback.ops.exponential import exp
from pullback.ops.formulas import Written, lowered, operation
from pullback.ops.gamma_functions import digamma
from pullback.ops.generators import BY_DTYPE, UINT32, UINT64, joined
from pullback.ops.literals import literal
from pullback.ops.pointwise import Elementwise, OfFraction, OfPositive, operand_shape
from pullback.ops.powers import square
from pullback.ops.shape import concatenate, reshape
from pullback.ops.shape import slice as slice_of
from pullback.stablehlo.writer import TensorType, i64s


def _as(x, dtype):
    """The same bits read as another dtype."""
    return Written(x.write, x.write.bitcast(x.value, dtype)) if isinstance(x, Written) else x.view(dtype)


# ---- laws: a number of a dtype from random bits, `bits(dtype)` ---------------------------------------------------------------


def _bits(bits, dtype):
    """Bits of an unsigned dtype."""
    return bits(dtype)


def _unit(bits, dtype):
    """From 0 up to 1: bits for the fraction of a number between 1 and 2, less 1."""
    own, used, spare, one = _fraction(dtype)
    return _as(bits(used).astype(own) >> spare | one, dtype) - dtype.type(1)


@functools.cache
def _fraction(dtype):
    """The unsigned dtype of a floating one's size, that of the bits of which its fraction is made, how many of those are left
    over, and the bits of 1."""
    digits, own = ml_dtypes.finfo(dtype).nmant, np.dtype(f"u{dtype.itemsize}")
    used = own if digits >= 8 else np.dtype(np.uint8)
    return own, used, 8 * used.itemsize - digits, int(np.ones((), dtype).view(own))


def _above(low):
    """Numbers up to 1, from one that depends on the limits of the dtype."""

    def law(bits, dtype):
        start = np.asarray(low(ml_dtypes.finfo(dtype)), dtype)
        return np.maximum(_unit(bits, dtype) * (dtype.type(1) - start) + start, start)

    return law


_after_zero, _after_eps = _above(lambda limits: limits.tiny), _above(lambda limits: limits.eps)
_inside = _above(lambda limits: np.nextafter(limits.dtype.type(-1), limits.dtype.type(0)))
_signed = _above(lambda limits: -1 + limits.epsneg)


def _of(source, function):
    """The law of a function of what another law gives; by XLA alone, since only its functions give the last bit of JAX's."""

    def law(bits, dtype):
        return function(source(bits, dtype))

    return law


LAWS = {
    "bits": _bits,
    "uniform": _unit,
    "normal": _of(_inside, lambda u: math.sqrt(2) * operation("chlo.erf_inv", u)),
    "exponential": _of(_unit, lambda u: -np.log1p(-u)),
    "gumbel": _of(_after_zero, lambda u: -np.log(-np.log(u))),
    "logistic": _of(_after_zero, lambda u: np.log(u) - np.log1p(-u)),
    "laplace": _of(_signed, lambda u: np.sign(u) * np.log1p(-np.abs(u))),
    "cauchy": _of(_after_eps, lambda u: np.tan(math.pi * (u - 0.5))),
}
# What a law makes of random bits takes so many operations, besides some 120 for the bits; others take a few.
_OPERATIONS = {"key": 0, "bits": 0, "normal": 200, "exponential": 12, "gumbel": 24, "logistic": 24, "laplace": 12, "cauchy": 20}
_ON_NUMPY = {"key", "bits", "uniform"}  # "key", which is no law of numbers: the keys of a key
# So many numbers NumPy draws in less time than XLA takes to compile, and as exactly.
_FEW = 1 << 15
# So many numbers are drawn in a loop of one step, whose length XLA does not know: else it draws them again for each element of
# what they are broadcast to. For fewer it does not pay, and more are spread over threads, which the step of a loop is not.
_ONCE = range(1 << 8, (1 << 16) + 1)


def _rounded(count):
    """A count with at most three bits behind its first, so that few programs draw any number of numbers."""
    step = 1 << max(6, count.bit_length() - 4)
    return -(-count // step) * step


@primitive
class draw(Rules):
    """For each key an array of a shape, its n-th element from the n-th block of the key's random bits, by a law."""

    on_arrays = True

    def cost(operands, results, *, law, shape, dtype):
        return results[0].size * (120 + _OPERATIONS.get(law, 4))

    def result_type(keys, *, law: str, shape: Shape, dtype):
        check_keys("draw", keys)
        return array_type((*keys.shape, *shape), dtype)

    def evaluate(keys, *, law, shape, dtype):
        type, count = array_type((*keys.shape, *shape), dtype), math.prod(shape)
        if not type.size:
            return Array(type, np.empty(type.shape, dtype))
        generator = BY_DTYPE[keys.dtype]
        if generator.defined:
            return engine().run_operation(draw, [keys], {"law": law, "shape": shape, "dtype": dtype})
        own = np.ascontiguousarray(host_of(keys)).reshape(-1)
        if generator.streams and law != "key":
            own, count = own[:1], type.size
        if law in _ON_NUMPY and type.size <= _FEW:
            words = own.view(UINT32).reshape(-1, generator.size).T
            if law == "key":
                out = generator.children(words, count).view(dtype)
            else:
                out = LAWS[law](lambda wanted: generator.drawn(words, count, wanted), dtype)
            return Array(type, out.reshape(type.shape))
        params = {"law": law, "shape": (_rounded(count),), "dtype": dtype}
        if len(own) == 1:
            single = keys if not keys.shape else Array(array_type((), keys.dtype), own.reshape(()))
            return Array(type, host_of(engine().run_operation(draw, [single], params))[:count].reshape(type.shape))
        rows = 1 << (len(own) - 1).bit_length()
        given = Array(array_type((rows,), keys.dtype), np.resize(own, rows))
        out = host_of(engine().run_operation(draw, [given], params))
        return Array(type, np.ascontiguousarray(out[: len(own), :count]).reshape(type.shape))

    def lower(write, keys, *, law, shape, dtype):
        generator = BY_DTYPE[keys.dtype]
        if write.platform == "native" and law not in _ON_NUMPY:
            write.refuse(f"({law}) must agree with JAX to the last bit, as only XLA's functions do")
        if generator.defined:
            return LAWS[law](lambda wanted: _defined(write, keys, shape, wanted), dtype).value
        if generator.streams and law != "key":
            return _stream(write, keys, law, dtype)
        rows, count = math.prod(keys.shape), math.prod(shape)
        size = (rows, count) if keys.shape else (count,)
        flat = write.op("stablehlo.reshape", [keys], TensorType(size[:-1], keys.dtype))
        words = _words(write, flat)
        key = [Written(write, write.broadcast(word, size, range(len(size) - 1))) for word in words]
        wide = count > 1 << 32
        along = f"{len(size) - 1} : i64"
        counted = write.op("stablehlo.iota", [], TensorType(size, UINT64 if wide else UINT32), iota_dimension=along)
        low = Written(write, write.convert(counted, UINT32))
        high = Written(write, _halves_of(write, counted)[1] if wide else write.like(low.value, 0))

        def drawn():
            if law == "key":
                out = _key_of(generator.child(key, high, low), dtype)
            else:
                out = LAWS[law](lambda wanted: generator.bits(key, high, low, wanted), dtype)
            return write.op("stablehlo.reshape", [out.value], write.result_type)

        if write.platform != "cpu" or rows * count not in _ONCE:
            return drawn()
        zero = write.hidden_zero(words[0])
        one, start = write.constant(1, zero.type), write.constant(0, write.result_type)
        return write.while_loop([zero, start], lambda v: write.compare("LT", v[0], one), lambda v: [one, drawn()])[1]

    def axis_map(keys, *, law, shape, dtype):
        if BY_DTYPE[keys.dtype].streams and law != "key":
            return ({},)
        return ({axis: axis for axis in range(keys.ndim)},)

    def vectorize(size, args, axes, *, law, shape, dtype):
        return draw(*args, law=law, shape=shape, dtype=dtype), 0

    def samples(rng):
        keys = rng.integers(0, 1 << 32, (3, 2), np.uint32).view(KEY)[:, 0]
        for law in ("key", *LAWS):
            dtype = {"key": KEY, "bits": np.dtype(np.uint8)}.get(law, np.dtype(np.float32))
            yield (keys,), {"law": law, "shape": (2, 3), "dtype": dtype}
        for generator in [one for one in BY_DTYPE.values() if not one.defined]:
            keys = rng.integers(0, 1 << 32, (3, generator.size), np.uint32).view(generator.dtype)[:, 0]
            yield (keys,), {"law": "key", "shape": (2, 3), "dtype": generator.dtype}
            if not generator.streams:  # a batch of these is no loop over its keys
                yield (keys,), {"law": "bits", "shape": (2, 3), "dtype": UINT32}


def _halves_of(write, value):
    """The low and the high word of 64 bits that are being written."""
    bits = Written(write, write.bitcast(value, UINT64))
    return bits.astype(UINT32).value, (bits >> 32).astype(UINT32).value


def _words(write, keys):
    """The words of keys that are being written."""
    if keys.dtype.itemsize == 4:
        return [write.bitcast(keys, UINT32)]
    if keys.dtype.itemsize == 8:
        return _halves_of(write, keys)
    half = TensorType(keys.shape, FLOAT64)
    return [word for name in ("real", "imag") for word in _halves_of(write, write.op(f"stablehlo.{name}", [keys], half))]


def _key_of(words, dtype):
    """Keys of these words."""
    if not isinstance(words[0], Written):
        made = np.empty((*words[0].shape, len(words)), UINT32)
        for place, word in enumerate(words):
            made[..., place] = word
        return made.view(dtype)[..., 0]
    write = words[0].write
    if len(words) == 1:
        return _as(words[0], dtype)
    halves = [joined(*words[i : i + 2]) for i in range(0, len(words), 2)]
    if len(halves) == 1:
        return _as(halves[0], dtype)
    parts = [write.bitcast(half.value, FLOAT64) for half in halves]
    return Written(write, write.op("stablehlo.complex", parts, TensorType(parts[0].shape, dtype)))


def _stream(write, keys, law, dtype):
    """Numbers for all keys at once, of the bits of the first one: those of a batch depend on its size, as JAX's."""
    count = math.prod(write.result_type.shape)
    flat = write.op("stablehlo.reshape", [keys], TensorType((math.prod(keys.shape),), keys.dtype))
    given = {"start_indices": i64s([0]), "limit_indices": i64s([1]), "strides": i64s([1])}
    first = write.op("stablehlo.slice", [flat], TensorType((1,), keys.dtype), **given)
    half, state = TensorType((1,), FLOAT64), TensorType((2,), UINT64)
    halves = [write.bitcast(write.op(f"stablehlo.{name}", [first], half), UINT64) for name in ("real", "imag")]
    start = write.op("stablehlo.concatenate", halves, state, dimension="0 : i64")
    chosen = {"rng_algorithm": "#stablehlo<rng_algorithm DEFAULT>"}

    def bits(wanted):
        results = [state, TensorType((count,), wanted)]
        return Written(write, write.many("stablehlo.rng_bit_generator", [start], results, **chosen)[1])

    return write.op("stablehlo.reshape", [LAWS[law](bits, dtype).value], write.result_type)


def _defined(write, keys, shape, dtype):
    """Random bits for all keys, by a generator that a program defines."""
    program = BY_DTYPE[keys.dtype].drawn(array_type(keys.shape, keys.dtype), shape, dtype)
    return Written(write, write.inline(program, keys)[0])


def check_keys(name, keys):
    """Raise `DtypeError` unless a type is one of keys."""
    if kind(keys.dtype) != "k":
        raise DtypeError(f"{name} takes random keys (pb.random.key, split), but got {keys}.")


@primitive
class fold_in(Elementwise):
    """Another key: that of the number `data`, of uint32."""

    cost = 120

    def result_type(keys, data):
        check_keys("fold_in", keys)
        if data.dtype is not UINT32:
            raise DtypeError(f"fold_in takes numbers of uint32, but got {data}.")
        return array_type(operand_shape("fold_in", (keys, data)), keys.dtype)

    def evaluate(keys, data):
        keys, data = np.broadcast_arrays(keys, data)
        generator = BY_DTYPE[keys.dtype]
        words = np.moveaxis(np.ascontiguousarray(keys).view(UINT32).reshape(*keys.shape, generator.size), -1, 0)
        data = np.asarray(data)
        return _key_of(generator.child(words, np.zeros_like(data), data), keys.dtype)

    def lower(write, keys, data):
        key, data = [Written(write, word) for word in _words(write, keys)], Written(write, data)
        zero = Written(write, write.like(data.value, 0))
        return _key_of(BY_DTYPE[keys.dtype].child(key, zero, data), keys.dtype).value

    def samples(rng):
        keys = rng.integers(0, 1 << 32, (3, 2), np.uint32).view(KEY)[:, 0]
        yield (keys, rng.integers(0, 1 << 32, 3, np.uint32)), {}
        yield (keys, np.array(7, np.uint32)), {}


@primitive
class seeded(Elementwise):
    """The key of a seed of two words of uint32."""

    cost = 120

    def result_type(high, low, *, dtype):
        if high.dtype is not UINT32 or low.dtype is not UINT32:
            raise DtypeError(f"seeded takes numbers of uint32, but got {high} and {low}.")
        return array_type(operand_shape("seeded", (high, low)), dtype)

    def evaluate(high, low, *, dtype):
        high, low = np.broadcast_arrays(high, low)
        return _key_of(BY_DTYPE[dtype].seeded(np.asarray(high), np.asarray(low)), dtype)

    def lower(write, high, low, *, dtype):
        return _key_of(BY_DTYPE[dtype].seeded(Written(write, high), Written(write, low)), dtype).value

    def samples(rng):
        for generator in [one for one in BY_DTYPE.values() if not one.defined]:
            yield tuple(rng.integers(0, 1 << 32, (2, 3), np.uint32)), {"dtype": generator.dtype}


@primitive
class spread(Elementwise):
    """u (high - low) + low, but at least low: of u from 0 to 1, numbers from low to high. Rounded once, as in compiled code."""

    cost = 4
    kinds = "f"

    def evaluate(u, low, high):
        length = np.subtract(high, low)
        if u.dtype == np.float64:
            out = _multiplied_and_added(u, length, low)
        elif u.dtype == np.float32:
            out = (u.astype(np.float64) * length + low).astype(u.dtype)
        else:
            out = u * length + low
        return np.maximum(out, low)

    lower = lowered(lambda u, low, high: np.maximum(u * (high - low) + low, low))

    def partials(out, u, low, high):
        return lambda: sub(high, low), lambda: sub(literal(1, u), u), lambda: u

    def samples(rng):
        yield (rng.random((2, 3)), rng.normal(size=(2, 3)), 3 + rng.random((2, 3))), {}
        yield (rng.random((2, 3)), np.array(-1.0), np.array(2.5)), {}


@primitive
class folded(Elementwise):
    """A number of twice as many bits, of its two words, modulo a third one; modulo 0 its low word."""

    cost = 8
    kinds = "u"

    def evaluate(high, low, span):
        return _folded(high, low, span[()])

    lower = lowered(lambda high, low, span: _folded(high, low, span))

    def samples(rng):
        high, low, span = rng.integers(0, 1 << 32, (3, 2, 3), np.uint32)
        yield (high, low, span), {}
        yield (high, low, np.array(1000, np.uint32)), {}
        yield (high, low, np.where(span > 1 << 31, span, 0)), {}


def _folded(high, low, span):
    scale = np.fmod(1 << 4 * low.dtype.itemsize, span)  # 2^bits modulo the span is that of its square
    rest = np.fmod(np.fmod(high, span) * np.fmod(scale * scale, span) + np.fmod(low, span), span)
    return np.where(span == 0, low, rest)


def _halves(x):
    """x as a sum of two numbers of 26 binary digits. Source: Dekker, "A floating-point technique for extending the available
    precision" (1971)."""
    scaled = 134217729.0 * x
    high = scaled - (scaled - x)
    return high, x - high


def _multiplied_and_added(x, y, z):
    """x y + z rounded once, of float64, but for ties: the rounding errors of both are added to it (Dekker, Knuth)."""
    product = x * y
    (a, b), (c, d) = _halves(x), _halves(y)
    lost = ((a * c - product) + a * d + b * c) + b * d
    total = product + z
    own = total - product
    return total + (lost + ((product - (total - own)) + (z - own)))


# Functions as XLA computes them, in JAX too, whose last bits decide which numbers are drawn. `erf_inv` and `lgamma` are better.


@primitive
class quantile(OfFraction):
    """The y whose erf is x, as XLA has it."""

    cost = 60
    kinds = "f"
    lower = "chlo.erf_inv"

    def partials(out, x):
        return (mul(literal(math.sqrt(math.pi) / 2, x), exp(square(out))),)


@primitive
class log_factorial(OfPositive):
    """log Gamma(x), as XLA has it."""

    cost = 90
    kinds = "f"
    lower = "chlo.lgamma"

    def partials(out, x):
        return (digamma(x),)


@primitive
class rng_bit_generator(Rules):
    """XLA's own generator of random bits: the next state of four words, and bits. On each platform its own, by `algorithm`
    DEFAULT; THREE_FRY and PHILOX are the same everywhere."""

    multiple_results = True

    def cost(operands, results, **params):
        return 15 * results[1].nbytes  # about 60 for each word of 4 bytes

    def result_type(state, *, shape: tuple[int, ...], dtype, algorithm: str):
        if state.shape != (4,) or state.dtype is not UINT32:
            raise DtypeError(f"rng_bit_generator takes a key of four words, u32[4], but got {state}.")
        if dtype.kind != "u" or dtype.itemsize not in (1, 2, 4, 8):
            raise DtypeError(f"rng_bit_generator makes unsigned integers, not {dtype.name}.")
        return state.strong(), array_type(shape, dtype)

    def lower(write, state, *, shape, dtype, algorithm):
        pairs, words = TensorType((2, 2), UINT32), TensorType((2,), UINT64)
        state = write.op("stablehlo.bitcast_convert", [write.op("stablehlo.reshape", [state], pairs)], words)
        given = {"rng_algorithm": f"#stablehlo<rng_algorithm {algorithm}>"}
        after, out = write.many("stablehlo.rng_bit_generator", [state], [words, TensorType(shape, dtype)], **given)
        after = write.op("stablehlo.reshape", [write.op("stablehlo.bitcast_convert", [after], pairs)], TensorType((4,), UINT32))
        return after, out

    def vectorize(size, args, axes, *, shape, dtype, algorithm):
        """One batch element after the other: what is drawn depends on the whole shape."""
        rows = [slice_of(*args, start_indices=(i, 0), limit_indices=(i + 1, 4)) for i in range(size)]
        drawn = [rng_bit_generator(reshape(row, new_sizes=(4,)), shape=shape, dtype=dtype, algorithm=algorithm) for row in rows]
        if not drawn:
            return tuple([full((0, *sizes), 0, kind) for sizes, kind in (((4,), UINT32), (shape, dtype))]), (0, 0)
        parts = [[reshape(one, new_sizes=(1, *type_of(one).shape)) for one in column] for column in zip(*drawn)]
        return tuple([concatenate(*column, dimension=0) for column in parts]), (0, 0)

    def samples(rng):
        yield (np.array([1, 2, 3, 4], UINT32),), {"shape": (3,), "dtype": UINT32, "algorithm": "PHILOX"}
