"""How exactly products are to be computed, and functions: what users ask for. On the CPU all is computed in full."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, NamedTuple


class Precision(Enum):
    """A lower bound on the precision of products, as JAX's functions take one.

    Attributes:
        DEFAULT, HIGH, HIGHEST: each is satisfied by a product in the full precision of its dtype.

    Example:
        >>> lax.dot(pnp.ones((2, 2)), pnp.ones(2), precision=lax.Precision.HIGHEST)
        [2. 2.]:f32[2]:cpu(0)
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


class DotAlgorithm(NamedTuple):
    """An algorithm for products by the dtypes in which it takes, and adds up, its operands: a lower bound, as `Precision`.

    Attributes:
        lhs_precision_type, rhs_precision_type: to which the operands may be rounded.
        accumulation_type: in which products are added up.
        lhs_component_count, rhs_component_count: into how many parts an operand is split.
        num_primitive_operations: how many products of parts there are.
        allow_imprecise_accumulation: whether a part of the sum may be added up less exactly.

    Example:
        >>> by_bfloat16 = lax.DotAlgorithm(pnp.bfloat16, pnp.bfloat16, pnp.float32)
        >>> lax.dot(pnp.ones(2), pnp.ones(2), precision=by_bfloat16)
        2.0:f32[]:cpu(0)
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(Enum):
    """The algorithms for products that have names, of the dtypes of operands and sum: lower bounds, as `Precision`.

    Attributes:
        DEFAULT: the full precision of the dtype, which is at least what each of the others asks for.

    Example:
        >>> lax.dot(pnp.ones(2), pnp.ones(2), precision=lax.DotAlgorithmPreset.BF16_BF16_F32)
        2.0:f32[]:cpu(0)
    """

    DEFAULT = auto()
    ANY_F8_ANY_F8_F32 = auto()
    ANY_F8_ANY_F8_F32_FAST_ACCUM = auto()
    ANY_F8_ANY_F8_ANY = auto()
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = auto()
    F16_F16_F16 = auto()
    F16_F16_F32 = auto()
    BF16_BF16_BF16 = auto()
    BF16_BF16_F32 = auto()
    BF16_BF16_F32_X3 = auto()
    BF16_BF16_F32_X6 = auto()
    BF16_BF16_F32_X9 = auto()
    TF32_TF32_F32 = auto()
    TF32_TF32_F32_X3 = auto()
    F32_F32_F32 = auto()
    F64_F64_F64 = auto()


class RoundingMethod(Enum):
    """Where `lax.round` takes halves.

    Attributes:
        AWAY_FROM_ZERO: to the number further from zero. TO_NEAREST_EVEN: to the even one.

    Example:
        >>> lax.round(pnp.array([0.5, 2.5]), lax.RoundingMethod.TO_NEAREST_EVEN)
        [0. 2.]:f32[2]:cpu(0)
    """

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


class AccuracyMode(Enum):
    """How exactly a function such as `lax.exp` is to be computed.

    Attributes:
        HIGHEST, DEFAULT: each is satisfied: there is one way, to a few units in the last place.

    Example:
        >>> lax.exp(0.0, accuracy=lax.AccuracyMode.HIGHEST)
        1.0:f32[]:cpu(0)
    """

    HIGHEST = 1
    DEFAULT = 2


class Tolerance(NamedTuple):
    """The errors that a function such as `lax.exp` may have; what is there is computed to a few units in the last place.

    Attributes:
        atol, rtol: absolute and relative errors. ulps: units in the last place.

    Example:
        >>> lax.exp(0.0, accuracy=lax.Tolerance(ulps=4))
        1.0:f32[]:cpu(0)
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0


_NAMES = {"fastest", "float32", "tensorfloat32", "bfloat16", "bfloat16_3x"}
PRECISIONS = frozenset({*_NAMES, *[one.name.lower() for one in (*Precision, *DotAlgorithmPreset)]})


def is_precision(precision: Any) -> bool:
    """Whether that is a precision of products, or None, or a pair of them."""
    if isinstance(precision, (DotAlgorithm, Precision, DotAlgorithmPreset)) or precision is None:
        return True
    if isinstance(precision, (tuple, list)):
        return len(precision) == 2 and all(map(is_precision, precision))
    return str(precision).lower() in PRECISIONS
