"""Element types: their names, which kind they are, and what two of them make together.

Promotion between arrays follows JAX's published lattice, so that accelerators never widen by surprise. A Python scalar is
*weak*: it takes the type of the array that it meets, and only its own kind (bool, integer, float, complex) can matter.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import ml_dtypes
import numpy as np

from pullback.core.brief import brief
from pullback.core.callers import asked_by_user
from pullback.core.errors import DtypeError
from pullback.core.lazy import lazy_module
from pullback.core.modes import current_mode, default_dtypes
from pullback.core.source import warn

difflib = lazy_module("difflib")

DType = np.dtype[Any]
DTypeLike = DType | type | str | None  # what names a dtype (`float`, `np.float32`, "float32"); None where there is a default

_SHORT_NAMES = {
    "bool": "bool",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    "bfloat16": "bf16",
    "complex64": "c64",
    "complex128": "c128",
}
FLOAT8_NAMES = (
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
_SHORT_NAMES |= {name: name.replace("float8", "f8") for name in FLOAT8_NAMES}

DTYPES: dict[str, DType] = {
    name: np.dtype(getattr(ml_dtypes, name) if name in FLOAT8_NAMES or name == "bfloat16" else name) for name in _SHORT_NAMES
}
SHORT_NAMES: dict[DType, str] = {DTYPES[name]: short for name, short in _SHORT_NAMES.items()}
BY_SHORT_NAME: dict[str, DType] = {short: dtype for dtype, short in SHORT_NAMES.items()}

float0 = np.dtype([("float0", np.void, 0)])
"""The dtype of the tangents of integers and bools: it holds nothing, since they have none."""


class extended(np.void):  # type: ignore[misc]  # NumPy has dtypes of such classes, as of its records
    """The class of all dtypes whose elements are no numbers, of which `issubdtype` is asked.

    Example:
        >>> import pullback as pb
        >>> pb.numpy.issubdtype(pb.random.key(0).dtype, pb.core.dtypes.extended)
        True
    """


class prng_key(extended):  # type: ignore[misc]
    """The class of the dtypes of random keys, of which `issubdtype` is asked; `pullback.random` makes such arrays.

    Example:
        >>> import pullback as pb
        >>> pb.numpy.issubdtype(pb.random.key(0).dtype, pb.random.prng_key)
        True
    """


class prng_key_fry4(prng_key):  # type: ignore[misc]
    """That of keys of threefry4x32."""


class prng_key_phx2(prng_key):  # type: ignore[misc]
    """That of keys of philox2x32."""


class prng_key_phx4(prng_key):  # type: ignore[misc]
    """That of keys of philox4x32."""


class prng_key_rbg(prng_key):  # type: ignore[misc]
    """That of keys of XLA's generator."""


class prng_key_urbg(prng_key):  # type: ignore[misc]
    """That of keys of XLA's generator which it divides too."""


KEY = np.dtype((prng_key, [("fry", np.uint32, (2,))]))
"""The dtype of keys of the generator threefry2x32: two words, that arrays move about as one element, and that only
`pullback.random` looks into. Programs print it as JAX does, `key<fry>`."""
KEYS: dict[str, DType] = {
    "fry": KEY,
    **{
        found.__name__.removeprefix("prng_key_"): np.dtype((found, [(found.__name__[9:], np.uint32, (words,))]))
        for found, words in (
            (prng_key_fry4, 4),
            (prng_key_phx2, 1),
            (prng_key_phx4, 2),
            (prng_key_rbg, 4),
            (prng_key_urbg, 4),
        )
    },
}
"""The dtypes of keys, by the tags of their generators."""
for _name, _dtype in KEYS.items():
    SHORT_NAMES[_dtype], BY_SHORT_NAME[f"key<{_name}>"] = f"key<{_name}>", _dtype

NARROW: dict[str, DType] = {name: np.dtype(getattr(ml_dtypes, name)) for name in ("int2", "int4", "uint2", "uint4")}
"""Integers of 2 and 4 bits, a byte each, for storage: they are moved about and converted, and no operation computes in them."""
for _name, _dtype in NARROW.items():
    _short = _name.replace("int", "i" if _name[0] == "i" else "")
    SHORT_NAMES[_dtype], BY_SHORT_NAME[_short] = _short, _dtype
_BY_NAME = {**DTYPES, **NARROW, **{dtype.name: dtype for dtype in KEYS.values()}}
_BY_EQUALITY = {dtype: dtype for dtype in _BY_NAME.values()}  # a dtype's name takes NumPy 2 us and more

BOOL, INT32, INT64 = DTYPES["bool"], DTYPES["int32"], DTYPES["int64"]
FLOAT32, FLOAT64 = DTYPES["float32"], DTYPES["float64"]
COMPLEX64, COMPLEX128 = DTYPES["complex64"], DTYPES["complex128"]

_KINDS: dict[DType, str] = {
    dtype: "f" if name in FLOAT8_NAMES or name == "bfloat16" else dtype.kind for name, dtype in DTYPES.items()
}
_KINDS[float0] = "V"
_KINDS.update(dict.fromkeys(NARROW.values(), "s"))
_KINDS.update(dict.fromkeys(KEYS.values(), "k"))

_ACCUMULATION: dict[DType, DType] = {dtype: FLOAT32 for dtype, letter in _KINDS.items() if letter == "f" and dtype.itemsize < 4}


def new_key_dtype(tag: str, words: int) -> DType:
    """Make a dtype of random keys, of 1, 2 or 4 words, for a generator that a program defines; it is shown as `key<tag>`."""
    made = np.dtype((type(f"prng_key_{tag}", (prng_key,), {}), [(tag, np.uint32, (words,))]))
    KEYS[tag] = _BY_NAME[made.name] = _BY_EQUALITY[made] = BY_SHORT_NAME[f"key<{tag}>"] = made
    SHORT_NAMES[made], _KINDS[made], _ABOVE[f"key<{tag}>"] = f"key<{tag}>", "k", ()
    return made


def kind(dtype: DType) -> str:
    """The kind of a dtype, one letter: `b` bool, `i` signed, `u` unsigned, `f` floating (bfloat16 too), `c` complex; `s` small
    integers for storage; `k` of random keys; `V` for `float0`, which no Array has."""
    return _KINDS[dtype]


def is_key(dtype: Any) -> bool:
    """Whether this is a dtype of random keys."""
    return isinstance(dtype, np.dtype) and issubclass(dtype.type, prng_key)


def is_inexact(dtype: DType) -> bool:
    """True for floating and complex dtypes: those that have derivatives."""
    return _KINDS[dtype] in "fc"


KIND_NAMES = {
    "b": "bool",
    "i": "signed integer",
    "u": "unsigned integer",
    "iu": "integer",
    "f": "floating",
    "c": "complex",
    "k": "key",
    "s": "narrow integer",
}


def in_words(kinds: str) -> str:
    """Kinds of dtypes by their names: "biuf" as `bool, integer or floating`."""
    *names, last = [KIND_NAMES[letters] for letters in re.findall("iu|.", kinds)] or [""]
    return f"{', '.join(names)} or {last}" if names else last


RANK = {
    "b": 0,
    "u": 1,
    "i": 1,
    "f": 2,
    "c": 3,
    "s": 1,
    "k": 4,
}  # of a kind: numbers of one go into the dtypes of those that are no lower


def integer_limits(dtype: DType) -> Any:
    """The limits of an integer dtype, a narrow one too: `min`, `max`, `bits`."""
    return ml_dtypes.iinfo(dtype) if dtype.kind == "V" else np.iinfo(dtype)  # type: ignore[no-untyped-call]


def accumulation_dtype(dtype: DType) -> DType:
    """The dtype in which sums and products of many elements are accumulated, to be rounded once, at the end: float32 for the
    floating dtypes of 16 bits and fewer, else the dtype itself.

    Every operation that accumulates names it in its `accumulation` field, which its `evaluate` and `lower` rules both read.
    """
    return dtype if dtype.itemsize >= 4 else _ACCUMULATION.get(dtype, dtype)


NO_NUMBERS = "random keys are no numbers. Draw from one (pb.random.normal, ...), or take its words by pb.random.key_data."


def canonical(dtype: Any) -> DType:
    """The supported dtype that `dtype` (a NumPy dtype, scalar type, name, or Python `bool/int/float/complex`) names.

    Python's own types, and their names, mean the default dtypes (`default_bits`).

    Raises `DtypeError` for what no array can hold.
    """
    python = _NAMED_KINDS.get(dtype) if dtype is None or dtype.__class__ is type or dtype.__class__ is str else None
    if python is not None:
        return default_dtype(python)
    try:
        found = _BY_NAME[dtype] if isinstance(dtype, str) and dtype in _BY_NAME else np.dtype(dtype)
    except TypeError:
        found = None
    if found is not None and not found.isnative:
        found = found.newbyteorder("=")
    if found not in SHORT_NAMES:
        cure = " A shape is one argument: zeros((2, 3)), not zeros(2, 3)." if isinstance(dtype, int) else ""
        near = difflib.get_close_matches(dtype, DTYPES, 1) if isinstance(dtype, str) else []
        cure = f" Did you mean {near[0]!r}?" if near else cure
        raise DtypeError(f"{brief(dtype)} is not a dtype that an array can have; those are {', '.join(DTYPES)}.{cure}")
    return _BY_EQUALITY[found]  # the one object of its kind: dtypes are compared by identity


def carrier(dtype: DType) -> DType:
    """The dtype in which values of a dtype cross between NumPy and a CPU device's buffers.

    bfloat16, the float8 kinds and keys have no buffer protocol, so they cross as unsigned integers of their width; keys of four
    words as complex numbers, which have as many bits, and which XLA moves about unchanged.
    """
    return dtype if dtype.isbuiltin == 1 else COMPLEX128 if dtype.itemsize == 16 else np.dtype(f"u{dtype.itemsize}")


# ---- default dtypes -------------------------------------------------------------------------------------------------

PYTHON_KINDS: dict[type, str] = {bool: "b", int: "i", float: "f", complex: "c"}
_NAMED_KINDS: dict[type | str | None, str] = {None: "f", "uint": "u"}
_NAMED_KINDS |= {name: letter for python, letter in PYTHON_KINDS.items() for name in (python, python.__name__)}


_DEFAULTS = {bits: default_dtypes(bits) for bits in (32, 64)}
_HALVES = {_DEFAULTS[64][kind]: _DEFAULTS[32][kind] for kind in "iufc"}


def default_dtype(kind: str) -> DType:
    """The dtype that new arrays of a kind get when nothing else decides: 32 bits wide (complex64), or 64 (complex128)."""
    return current_mode().defaults[kind]


def entering(dtype: DType) -> DType:
    """The dtype in which values of a supported dtype enter: their own, unless the mode narrows 64 bits to 32."""
    return _HALVES.get(dtype, dtype) if current_mode().narrows else dtype


def requested(dtype: Any) -> DType:
    """The dtype that a user's `dtype` argument names, `canonical`, in the current mode: one of numbers. Where the mode says so,
    it warns of one that is narrowed."""
    found = canonical(dtype)
    if kind(found) == "k":
        raise DtypeError(f"dtype={SHORT_NAMES[found]}: {NO_NUMBERS}")
    narrowed = entering(found)
    if narrowed is not found and (choice := current_mode().narrows) is not True:
        if choice == "values":
            return found
        text = f"Explicitly requested dtype {found.name} is not available, "
        keep = "To keep 64 bits, set jax_enable_x64, or use pb.default_bits(64)."
        if choice == "raise":
            raise ValueError(f"{text}since values are 32 bits wide here. {keep}")
        warn(f"{text}and will be truncated to dtype {narrowed.name}. {keep}", category=UserWarning)
    return narrowed


# ---- promotion ------------------------------------------------------------------------------------------------------

# Each node of the lattice and the nodes just above it; `i*`, `f*`, `c*` are the weak Python scalars. The join of two
# dtypes is the least node above both. Source: "JAX type promotion semantics" (docs.jax.dev), the figure and its table.
_ABOVE: dict[str, tuple[str, ...]] = {
    "bool": ("i*",),
    "i*": ("u8", "i8", *[SHORT_NAMES[dtype] for dtype in NARROW.values()]),
    "u8": ("i16", "u16"),
    "i8": ("i16",),
    "u16": ("i32", "u32"),
    "i16": ("i32",),
    "u32": ("i64", "u64"),
    "i32": ("i64",),
    "u64": ("f*",),
    "i64": ("f*",),
    "f*": ("c*", "f16", "bf16", *(name.replace("float8", "f8") for name in FLOAT8_NAMES)),
    "f16": ("f32",),
    "bf16": ("f32",),
    "f32": ("f64", "c64"),
    "f64": ("c128",),
    "c*": ("c64",),
    "c64": ("c128",),
    "c128": (),
    **{name.replace("float8", "f8"): () for name in FLOAT8_NAMES},
    **{SHORT_NAMES[dtype]: () for dtype in NARROW.values()},
    **{SHORT_NAMES[dtype]: () for dtype in KEYS.values()},
}
_WEAK_NODE = {"b": "bool", "s": "i*", "i": "i*", "u": "i*", "f": "f*", "c": "c*"}


@functools.cache
def _upper_bounds(node: str) -> frozenset[str]:
    return frozenset({node}).union(*(_upper_bounds(above) for above in _ABOVE[node]))


@functools.cache
def _join(a: str, b: str) -> str | None:
    common = _upper_bounds(a) & _upper_bounds(b)
    least = [node for node in common if common <= _upper_bounds(node)]
    return least[0] if least else None


def promote(a: tuple[DType, bool], b: tuple[DType, bool]) -> tuple[DType, bool]:
    """The dtype that two operands meet in, each given as (dtype, is it weak?); the result's weakness too.

    Raises `DtypeError` where the lattice has no join (float8 with another floating type): convert one by hand.
    """
    (left, left_weak), (right, right_weak) = a, b
    if left is right:
        return left, left_weak and right_weak
    left_node = _WEAK_NODE[kind(left)] if left_weak else SHORT_NAMES[left]
    right_node = _WEAK_NODE[kind(right)] if right_weak else SHORT_NAMES[right]
    node = _join(left_node, right_node)
    if node is None:
        if "k" in (kind(left), kind(right)):
            raise DtypeError(f"{SHORT_NAMES[left]} and {SHORT_NAMES[right]} have no common dtype: {NO_NUMBERS}")
        raise DtypeError(
            f"{left.name} and {right.name} have no common dtype: float8 kinds and integers of 2 or 4 bits are for"
            " storage and never promote by themselves. Convert one operand with .astype()."
        )
    if node.endswith("*"):
        return _widest_weak(node[0], left, right), True
    return entering(BY_SHORT_NAME[node]), left_weak and right_weak


def _widest_weak(kind_wanted: str, *dtypes: DType) -> DType:
    """Two weak operands keep the width that they already have: 64 bits if one of them is wide, else 32."""
    return _DEFAULTS[64 if any(dtype in _HALVES for dtype in dtypes) else 32][kind_wanted]


def check_strict(a: tuple[DType, bool], b: tuple[DType, bool]) -> None:
    """Where the mode's promotion is strict, refuse an operation of the user's that would convert an array: only weak operands
    adapt to what they meet, and none to a dtype of a lower kind.

    Raises `DtypeError`.
    """
    (left, left_weak), (right, right_weak) = a, b
    if left is right or current_mode().promotion != "strict":
        return
    orders = [RANK[kind(dtype)] or -1 for dtype in (left, right)]  # a bool meets bools alone
    if left_weak and right_weak:
        fits = min(orders) > 0
    elif left_weak or right_weak:
        fits = 0 < orders[not left_weak] <= orders[left_weak]
    else:
        fits = False
    if not fits and asked_by_user():
        raise DtypeError(
            f"{left.name} and {right.name} meet where promotion is strict, so that arrays are not converted for each other."
            " Convert one with .astype()."
        )
