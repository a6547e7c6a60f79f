"""Keys: making them, dividing them, looking into them; and the watch on keys that are used twice."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import numpy as np

from pullback.core.array import Array, ArrayLike, find_converter, host_of
from pullback.core.brief import brief
from pullback.core.dtypes import KEYS, default_dtype, is_key, kind
from pullback.core.dtypes import prng_key as prng_key
from pullback.core.errors import DtypeError, KeyReuseError, LeafError, ShapeError
from pullback.core.modes import current_mode
from pullback.core.source import at_user_line
from pullback.core.tracing import Tracer
from pullback.core.types import ShapeLike
from pullback.core.used_keys import UsedKeys as UsedKeys
from pullback.core.used_keys import used_keys as used_keys
from pullback.numpy.creation import checked_shape
from pullback.numpy.promotion import in_dtype, literal_of
from pullback.numpy.promotion import operand as as_operand
from pullback.ops import random as primitives
from pullback.ops.bitwise import shift_right_logical, xor
from pullback.ops.convert import bitcast_convert_type, convert_element_type
from pullback.ops.generators import BY_DTYPE, GENERATORS, UINT32
from pullback.ops.literals import literal

F = TypeVar("F", bound=Callable[..., Any])
LARGEST = 0xFFFFFFFF
_UNSAFE = KEYS["urbg"]


@contextmanager
def checked_keys(enabled: bool = True) -> Iterator[None]:
    """In this block, a key that is used a second time is an error.

    Each drawing that succeeds uses its key up, and so does `split`; `fold_in` does not, and what `clone` returns may be used
    once more. Known keys, a batch of them under vmap too, are recognised by their words, traced ones while their function is
    traced: a compiled function is looked at when it is traced, not at later calls, and the body of a loop as if it ran once.
    What a compiled function, a loop or a branch does with a key that it is given uses up nothing for the caller; in a block of
    `pb.checking(keys=True)` it does.

    Arguments:
        enabled: False ends the watch for the block.

    Returns:
        A context manager.

    Raises:
        KeyReuseError: in the block, a key is used again.

    Example:
        >>> key = pb.random.key(0)
        >>> with pb.random.checked_keys():
        ...     x = pb.random.normal(key)
        ...     y = pb.random.uniform(key)
        Traceback (most recent call last):
            ...
        pullback.core.errors.KeyReuseError: uniform was given a key that normal has used up already...
    """
    with used_keys.setting(UsedKeys() if enabled else None):
        yield


def _seen(key: Any) -> Any:
    """What stands for keys: those of a batch, where vmap hides them."""
    while isinstance(key, Tracer) and hasattr(key, "value"):
        key = key.value
    return key


def _marks(key: Any) -> list[Any]:
    """What keys are recognised by."""
    key = _seen(key)
    if isinstance(key, Tracer):
        return [id(key)]
    return [one.tobytes() for one in np.asarray(host_of(typed_keys(key, "a check"))).reshape(-1)]


def _use_up(key: Any, name: str) -> None:
    if (used := used_keys.get()) is not None:
        for mark in _marks(key):
            used.use(mark, name, _reference(key, used))


def _reference(key: Any, used: UsedKeys) -> Any:
    """A reference to a traced key: another one may have its identity later, and to hold it would be to leak it."""
    key = _seen(key)
    mark = id(key)
    return weakref.ref(key, lambda _: used.pop(mark, None)) if isinstance(key, Tracer) else None


def typed_keys(key: Any, name: str) -> Array:
    """Keys as an array of a dtype of keys: given so, or raw, as words of uint32 along a last axis."""
    if find_converter(key.__class__) is None and not isinstance(key, (Array, Tracer)):
        raise LeafError(
            f"{name} takes a random key first, but got {brief(key)} of type {key.__class__.__name__}. Make one with"
            f" pb.random.key(seed).{at_user_line()}"
        )
    found = as_operand(key, name, "its key")
    type = found.type
    if kind(type.dtype) == "k":
        return found
    generator = generator_of(None)
    if type.dtype is not UINT32 or type.shape[-1:] != (generator.size,):
        raise LeafError(
            f"{name} takes a random key first, but got {type}. Make one with pb.random.key(seed); raw keys are uint32, of a"
            f" shape that ends with {generator.size}.{at_user_line()}"
        )
    return keys_of(found, generator.dtype)


def words_of(keys: Array) -> Array:
    """The words of typed keys, along a last axis."""
    words = bitcast_convert_type(keys, new_dtype=UINT32)
    return words.reshape((*words.type.shape, 1)) if keys.type.dtype.itemsize == 4 else words


def keys_of(words: Array, dtype: Any) -> Array:
    """Keys of a dtype of words of uint32 along a last axis."""
    return bitcast_convert_type(words.reshape(words.type.shape[:-1]) if dtype.itemsize == 4 else words, new_dtype=dtype)


def single_key(key: Any, name: str) -> Array:
    """One key, typed, for a function that is to use it up."""
    typed = typed_keys(key, name)
    if typed.type.shape:
        raise ShapeError(
            f"{name} takes one key, but got {typed.type}. For many, pb.vmap(lambda key: pb.random.{name}(key, ...))(keys)."
            f"{at_user_line()}"
        )
    _check_unused(key, name)
    return typed


def _check_unused(key: Any, name: str) -> None:
    """Say so if a key, or one of a batch, has been used up already."""
    used = used_keys.get()
    if used and (by := next(filter(None, map(used.by, _marks(key))), None)) is not None:
        error = KeyReuseError(
            f"{name} was given a key that {by} has used up already: both would draw the same bits."
            f" Divide a key before it is used, key, other = pb.random.split(key); or, if that is meant,"
            f" pass pb.random.clone(key).{at_user_line()}"
        )
        used.tell(error)


def used_among(values: Sequence[Any]) -> Sequence[int]:
    """The numbers of those traced values that have been used up as keys."""
    used = used_keys.get()
    return [i for i, value in enumerate(values) if isinstance(value, Tracer) and used.by(id(value))] if used else []


def use_up_by(name: str, keys: Sequence[Any]) -> None:
    """Note that a function uses keys up; say so if one has been used up already."""
    if used_keys.get() is not None:
        for key in keys:
            _check_unused(key, name)
        for key in keys:
            _use_up(key, name)


def sampler(function: F) -> F:
    """The public form of a function of one key: raw keys are taken too, batches of keys are refused, and use is noted once,
    whatever the function does with the key. `out_sharding`, which JAX's have, may be None."""
    name = function.__name__

    @functools.wraps(function)
    def sample(key: Any, *args: Any, out_sharding: None = None, **params: Any) -> Any:
        if out_sharding is not None:
            raise NotImplementedError(f"{name} draws on one device: out_sharding must be None.{at_user_line()}")
        typed = single_key(key, name)
        if used_keys.get() is None:
            return function(typed, *args, **params)
        with used_keys.setting(None):
            out = function(typed, *args, **params)
        _use_up(key, name)
        return out

    return sample  # type: ignore[return-value]


def _like(key: Any, made: Array) -> Array:
    """Keys in the form, typed or raw, in which one was given."""
    given = as_operand(key, "key")
    return made if kind(given.type.dtype) == "k" else words_of(made)


def generator_of(impl: Any, dtype: Any = None) -> Any:
    """The generator that is meant by its name, or by the dtype of its keys."""
    if impl is not None and dtype is not None:
        raise ValueError(f"impl={brief(impl)} and dtype={dtype} say the same thing: give one of them.{at_user_line()}")
    if dtype is not None:
        return BY_DTYPE[dtype] if is_key(dtype) else _no_generator(dtype)
    return GENERATORS.get(current_mode().generator if impl is None else impl) or _no_generator(impl)


def _no_generator(given: Any) -> NoReturn:
    names = ", ".join(map(repr, GENERATORS))
    raise ValueError(f"{brief(given)} is no generator of random numbers; those are {names}.{at_user_line()}")


def key(seed: ArrayLike, *, impl: str | None = None, dtype: Any = None) -> Array:
    """A random key from a seed.

    Arguments:
        seed: a whole number, or a 0-d array of integers. As in JAX, the lower 32 bits of a Python number count while the
            default dtypes are 32-bit, and 64 where they are 64-bit.
        impl: the generator: None or "threefry2x32"; "threefry4x32", "philox2x32", "philox4x32", which count too; "rbg", XLA's
            own, or "unsafe_rbg", which divides keys by that as well. Numbers of the last two depend on the platform, and for a
            batch of keys on its first one only.
        dtype: None, or the dtype of the generator's keys.

    Returns:
        A key: a 0-d array of dtype `key<fry>`, or that of another generator.

    Raises:
        DtypeError: the seed is not an integer.
        ShapeError: it is not 0-d.
        OverflowError: it does not fit into 64 bits.
        ValueError: there is no such generator, or both arguments were given.

    Example:
        >>> pb.random.key(42)
        [ 0 42]:key<fry>[]:cpu(0)
        >>> pb.random.bits(pb.random.key(42, impl="rbg"), (2,))
        [2620864722 2991908441]:u32[2]:cpu(0)
    """
    generator = generator_of(impl, dtype)
    if isinstance(seed, int):
        if not -(1 << 63) <= seed < 1 << 63:
            raise OverflowError(f"key takes a seed of 64 bits, but got {seed}.{at_user_line()}")
        if generator.defined:
            width = default_dtype("i").itemsize
            number = np.array(seed & ((1 << 8 * width) - 1), f"u{width}").view(default_dtype("i"))
            return generator.key_of(as_operand(number, "key"))
        top = seed >> 32 if default_dtype("i").itemsize == 8 else 0
        words = [np.full(1, word & LARGEST, UINT32) for word in (top, seed)]
        return as_operand(np.stack(generator.seeded(*words), -1).view(generator.dtype)[0, 0], "key")
    x = as_operand(seed, "key", "its seed")
    if kind(x.type.dtype) not in "iu":
        raise DtypeError(f"key takes a whole number as seed, but got {x.type}.{at_user_line()}")
    if x.type.shape:
        raise ShapeError(f"key takes one seed, but got {x.type}. For many, pb.vmap(pb.random.key)(seeds).{at_user_line()}")
    if generator.defined:
        return generator.key_of(x)
    high = shift_right_logical(x, literal(32, x)) if x.type.dtype.itemsize == 8 else literal(0, x)
    return primitives.seeded(in_dtype(high, UINT32), in_dtype(x, UINT32), dtype=generator.dtype)


def PRNGKey(seed: ArrayLike, *, impl: str | None = None) -> Array:
    """A raw random key from a seed: words of uint32. All functions take those of two words, which are keys of threefry2x32, as
    they take what `key` makes.

    Arguments:
        seed: a whole number, or a 0-d array of integers.
        impl: the generator, as of `key`. Raw keys do not tell theirs: for others than the default one use `wrap_key_data`.

    Returns:
        A vector of uint32, of two by default.

    Raises:
        DtypeError, ShapeError, OverflowError, ValueError: as of `key`.

    Example:
        >>> pb.random.PRNGKey(42)
        [ 0 42]:u32[2]:cpu(0)
    """
    return key_data(key(seed, impl=impl))


def key_data(keys: ArrayLike) -> Array:
    """The words of keys.

    Arguments:
        keys: keys of any shape; raw ones are returned as they are.

    Returns:
        An array of uint32, of the shape of the keys and a last axis of their words: two of the default generator's.

    Raises:
        LeafError: no keys.

    Example:
        >>> pb.random.key_data(pb.random.key(42))
        [ 0 42]:u32[2]:cpu(0)
    """
    typed = typed_keys(keys, "key_data")
    words, shape = words_of(typed), BY_DTYPE[typed.type.dtype].shape
    return words if len(shape) == 1 else words.reshape((*typed.type.shape, *shape))


def wrap_key_data(key_bits_array: ArrayLike, *, impl: str | None = None, dtype: Any = None) -> Array:
    """Keys of these words: what `key_data` undoes.

    Arguments:
        key_bits_array: an array of uint32, whose last axis has an element for each word of the generator's keys: 2, by default.
        impl: the generator, as of `key`.
        dtype: None, or the dtype of its keys.

    Returns:
        Keys, of the shape without the last axis.

    Raises:
        LeafError: no such array.
        ValueError: there is no such generator, or both arguments were given.

    Example:
        >>> pb.random.wrap_key_data(np.array([[0, 1], [0, 2]], np.uint32))
        [[0 1]
         [0 2]]:key<fry>[2]:cpu(0)
    """
    generator = generator_of(impl, dtype)
    words = as_operand(key_bits_array, "wrap_key_data")
    split = max(len(words.type.shape) - len(generator.shape), 0)
    if words.type.dtype is not UINT32 or words.type.shape[split:] != generator.shape:
        raise LeafError(
            f"wrap_key_data takes the words of keys of {generator.name}, an array of uint32 whose shape ends with"
            f" {', '.join(map(str, generator.shape))}, but got {words.type}.{at_user_line()}"
        )
    return keys_of(words.reshape((*words.type.shape[:split], generator.size)), generator.dtype)


def key_impl(keys: ArrayLike) -> str:
    """The name of the generator that keys are for.

    Arguments:
        keys: keys of any shape.

    Returns:
        A name that `key` takes.

    Raises:
        LeafError: no keys.

    Example:
        >>> pb.random.key_impl(pb.random.key(0))
        'threefry2x32'
    """
    return BY_DTYPE[typed_keys(keys, "key_impl").type.dtype].name


def key_dtype(impl: str | None = None) -> Any:
    """The dtype of keys.

    Arguments:
        impl: the generator, as of `key`.

    Returns:
        A NumPy dtype, of the class `pb.random.prng_key` or one derived from it.

    Raises:
        ValueError: there is no such generator.

    Example:
        >>> pb.random.key_dtype() == pb.random.key(0).dtype
        True
    """
    return generator_of(impl).dtype


def split(key: ArrayLike, num: ShapeLike = 2) -> Array:
    """New keys from one, which is then not to be used again.

    Arguments:
        key: a key.
        num: how many, or a shape of them.

    Returns:
        Keys of the shape `num`; raw ones of a raw key.

    Raises:
        LeafError: no key.
        ShapeError: several keys, or `num` is no shape.

    Example:
        >>> key, other = pb.random.split(pb.random.key(0))
        >>> other
        [ 928981903 3453687069]:key<fry>[]:cpu(0)
        >>> pb.random.split(key, (2, 3)).shape
        (2, 3)
    """
    sizes = checked_shape(num, "split")
    made = _like(key, divided(single_key(key, "split"), sizes))
    _use_up(key, "split")
    return made


def divided(key: Any, sizes: tuple[int, ...] = (2,)) -> Array:
    """New keys from a typed one."""
    dtype = key.type.dtype
    generator: Any = BY_DTYPE[dtype]
    if generator.defined:
        return generator.children_of(key, sizes)
    if dtype is _UNSAFE:  # of every tenth four words; the division by threefry would be slow on a TPU
        words = primitives.draw(key, law="bits", shape=(10 * math.prod(sizes), 4), dtype=UINT32)
        return keys_of(words[::10].reshape((*sizes, 4)), dtype)
    return primitives.draw(key, law="key", shape=sizes, dtype=dtype)


def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """Another key, from a key and a number: for each step, each device, each layer its own.

    Arguments:
        key: a key.
        data: a whole number from 0 to 2^32 - 1, or a 0-d array of integers, of which the lower 32 bits count.

    Returns:
        A key; a raw one of a raw one.

    Raises:
        LeafError: no key.
        ShapeError: several keys, or several numbers.
        DtypeError: the number is not whole.
        OverflowError: it is negative or too large.

    Example:
        >>> pb.random.fold_in(pb.random.key(0), 7)
        [2716826189  292468403]:key<fry>[]:cpu(0)
    """
    typed = typed_keys(key, "fold_in")
    if isinstance(data, int):
        if not 0 <= data <= LARGEST:
            raise OverflowError(f"fold_in takes a number from 0 to 2^32 - 1, but got {data}.{at_user_line()}")
        data = np.uint32(data)
    number = as_operand(data, "fold_in", "its number")
    if kind(number.type.dtype) not in "iu":
        raise DtypeError(f"fold_in takes a whole number, but got {number.type}.{at_user_line()}")
    if typed.type.shape or number.type.shape:
        raise ShapeError(
            f"fold_in takes one key and one number, but got {typed.type} and {number.type}. For many,"
            f" pb.vmap(pb.random.fold_in)(keys, numbers).{at_user_line()}"
        )
    number = convert_element_type(number, new_dtype=UINT32)
    generator: Any = BY_DTYPE[typed.type.dtype]
    if generator.defined:
        return _like(key, generator.child_of(typed, number))
    if (dtype := typed.type.dtype) is _UNSAFE:
        of_number = primitives.seeded(literal_of(0, UINT32), number, dtype=dtype)
        last = primitives.draw(of_number, law="bits", shape=(10, 4), dtype=UINT32)[-1]
        return _like(key, keys_of(xor(words_of(typed), last), dtype))
    return _like(key, primitives.fold_in(typed, number))


def clone(key: ArrayLike) -> Array:
    """The same keys, which may be used once more where reuse is an error (`checked_keys`): the keys, and each clone, once.

    Arguments:
        key: keys of any shape.

    Returns:
        The keys.

    Raises:
        LeafError: no keys.

    Example:
        >>> key = pb.random.key(0)
        >>> with pb.random.checked_keys():
        ...     x, y = pb.random.normal(key), pb.random.normal(pb.random.clone(key))
        >>> x == y
        True:bool[]:cpu(0)
    """
    typed_keys(key, "clone")
    if (used := used_keys.get()) is not None:
        for mark in _marks(key):
            used.allow(mark, _reference(key, used))
    return key if isinstance(key, Array) else as_operand(key, "clone")
