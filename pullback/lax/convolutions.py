"""Convolutions, by the names and signatures that they are known by."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief, counted
from pullback.core.dtypes import BOOL, INT32, DTypeLike, requested
from pullback.core.errors import ShapeError
from pullback.core.types import Shape
from pullback.lax.elementwise import lifted
from pullback.numpy.promotion import at_user_line, check_precision, in_dtype, literal_of
from pullback.numpy.promotion import operand as as_operand
from pullback.numpy.shaping import flip, moveaxis, swapaxes
from pullback.ops import convolve
from pullback.ops import shape as shapes
from pullback.ops.compare import ne
from pullback.ops.contract import dot_general
from pullback.ops.convolve import ConvDimensionNumbers, dilated
from pullback.ops.reduce_window import Window, windows

Padding = str | Sequence[tuple[int, int]]
_LAYOUTS = {2: ("NC", "IO", "NC"), 3: ("NHC", "HIO", "NHC"), 4: ("NHWC", "HWIO", "NHWC"), 5: ("NHWDC", "HWDIO", "NHWDC")}


def conv_dimension_numbers(lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any) -> ConvDimensionNumbers:
    """Which axes are which in a convolution, from three strings such as ("NHWC", "HWIO", "NHWC").

    Arguments:
        lhs_shape, rhs_shape: the shapes of the two operands, of n + 2 axes.
        dimension_numbers: a string of n + 2 different characters for the left operand, the kernel and the result. N and C stand
            for the batch and the features, O and I in the kernel for the features of the result and of the left operand; the
            others, in the order of the kernel's, for the spatial axes. None for N, C, spatial and O, I, spatial; or a
            `ConvDimensionNumbers`.

    Returns:
        A `ConvDimensionNumbers`.

    Raises:
        ShapeError: the two operands have different numbers of axes. ValueError: the strings do not name their axes.

    Example:
        >>> lax.conv_dimension_numbers((1, 9, 9, 3), (3, 3, 3, 8), ("NHWC", "HWIO", "NHWC")).rhs_spec
        (3, 2, 0, 1)
    """
    ndim = len(lhs_shape)
    if len(rhs_shape) != ndim:
        raise ShapeError(
            f"A convolution takes two operands with as many axes, but got shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}."
            + at_user_line()
        )
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if dimension_numbers is None:
        return ConvDimensionNumbers(*[tuple(range(ndim))] * 3)
    if not isinstance(dimension_numbers, (tuple, list)) or [type(spec) for spec in dimension_numbers] != [str] * 3:
        raise ValueError(
            "A convolution takes as dimension_numbers three strings, None or ConvDimensionNumbers, not"
            f" {brief(dimension_numbers)}." + at_user_line()
        )
    kernel = dimension_numbers[1]
    spatial = [letter for letter in kernel if letter not in "OI"]
    found = []
    for spec, first in zip(dimension_numbers, (["N", "C"], ["O", "I"], ["N", "C"])):
        if len(spec) != ndim or sorted(spec) != sorted([*first, *spatial]) or len(set(spec)) != ndim:
            raise ValueError(
                f"A convolution of {counted(ndim, 'axis')} takes dimension_numbers such as"
                f" {_LAYOUTS.get(ndim, _LAYOUTS[4])}, the same"
                f" spatial letters in each; not {tuple(dimension_numbers)}.{at_user_line()}"
            )
        found.append(tuple([spec.index(letter) for letter in [*first, *spatial]]))
    return ConvDimensionNumbers(*found)


def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int], padding: str
) -> list[tuple[int, int]]:
    """The padding of each spatial axis that a name stands for.

    Arguments:
        in_shape, window_shape, window_strides: the sizes of the spatial axes, of a window, and its strides.
        padding: "VALID" for none; "SAME" for as much that there is a window for each element (one in each stride), the odd one
            at the end; "SAME_LOWER", at the start.

    Returns:
        A list of pairs (before, after).

    Raises:
        ValueError: another name.

    Example:
        >>> lax.padtype_to_pads((10, 10), (3, 4), (1, 1), "SAME")
        [(1, 1), (1, 2)]
    """
    name = padding.upper() if isinstance(padding, str) else padding
    if name not in ("VALID", "SAME", "SAME_LOWER"):
        raise ValueError(
            f"padding is 'VALID', 'SAME' or 'SAME_LOWER', or a pair for each axis; not {brief(padding)}.{at_user_line()}"
        )
    if name == "VALID":
        return [(0, 0)] * len(in_shape)
    found = []
    for size, width, stride in zip(in_shape, window_shape, window_strides):
        missing = max(0, (-(-int(size) // int(stride)) - 1) * int(stride) + int(width) - int(size))
        less, more = missing // 2, missing - missing // 2
        found.append((less, more) if name == "SAME" else (more, less))
    return found


def ints(given: Any, count: int, name: str) -> Shape:
    """A number for each of `count` axes: ones if nothing is given."""
    if given is None:
        return (1,) * count
    found = tuple(map(operator.index, given))
    if len(found) != count:
        raise ShapeError(f"{name} takes a number for each of {counted(count, 'axis')}, not {given}.{at_user_line()}")
    return found


def pairs(padding: Any, sizes: Shape, spans: Shape, strides: Shape) -> tuple[tuple[int, int], ...]:
    """Padding as users give it, a name or pairs, as a pair for each axis."""
    if isinstance(padding, str):
        return tuple(padtype_to_pads(sizes, spans, strides, padding))
    found = tuple([tuple(map(operator.index, pair)) if hasattr(pair, "__len__") else () for pair in padding])
    if len(found) != len(sizes) or any(len(pair) != 2 for pair in found):
        raise ShapeError(
            f"padding is a name, or a pair (before, after) for each of {counted(len(sizes), 'axis')}; not"
            f" {padding}.{at_user_line()}"
        )
    return found  # type: ignore[return-value]


def conv_general_dilated(
    lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: Padding, lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None, dimension_numbers: Any = None, feature_group_count: int = 1,
    batch_group_count: int = 1, precision: Any = None, preferred_element_type: DTypeLike = None,
) -> Array:  # fmt: skip
    """The convolution (as neural networks have it, without reversing the kernel) over n spatial axes.

    Arguments:
        lhs: an array of a batch axis, a feature axis and n spatial ones. rhs: the kernel, of its dtype: the features of the
            result, those of `lhs` (of one group of them), and n spatial axes.
        window_strides: n ints, how far apart windows begin.
        padding: "VALID", "SAME", "SAME_LOWER", or n pairs of ints (before, after), which may be negative: zeros around `lhs`.
        lhs_dilation, rhs_dilation: n ints, how far apart the elements of each lie.
        dimension_numbers: where those axes are, as three strings like ("NHWC", "HWIO", "NHWC"); None for that order.
        feature_group_count: into how many parts the features of both are divided; the parts are convolved apart.
        batch_group_count: into how many parts the batch of `lhs` and the features of the result are.
        precision: checked, and without effect: products are computed in the full precision of their dtype.
        preferred_element_type: the dtype to accumulate in, and of the result; by default that of the operands.

    Returns:
        An array of a batch axis, the features, and the places of the windows; of bools, whether any product holds.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes differ.
        ShapeError: the sizes do not fit. ValueError: dimension numbers, a padding or a precision that are none.

    Example:
        >>> image, kernel = pnp.ones((1, 4, 4, 1)), pnp.ones((3, 3, 1, 1))
        >>> out = lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        >>> out[0, :, :, 0]
        [[4. 6. 6. 4.]
         [6. 9. 9. 6.]
         [6. 9. 9. 6.]
         [4. 6. 6. 4.]]:f32[4,4]:cpu(0)
    """
    check_precision(precision, "conv_general_dilated")
    x, y = lifted("conv_general_dilated", (lhs, rhs))
    logical = preferred_element_type is None and x.type.dtype is y.type.dtype is BOOL
    if logical:
        x, y = in_dtype(x, INT32), in_dtype(y, INT32)
    numbers = conv_dimension_numbers(x.type.shape, y.type.shape, dimension_numbers)
    count = max(x.type.ndim - 2, 0)
    strides = ints(window_strides, count, "window_strides")
    holes, gaps = ints(lhs_dilation, count, "lhs_dilation"), ints(rhs_dilation, count, "rhs_dilation")
    if isinstance(padding, str) and any(hole != 1 for hole in holes):
        raise ValueError(
            f"conv_general_dilated with lhs_dilation={holes} takes padding as pairs, not {brief(padding)}; conv_transpose"
            f" takes a name.{at_user_line()}"
        )
    sizes = tuple([x.type.shape[axis] for axis in numbers.lhs_spec[2:]])
    spans = tuple([dilated(y.type.shape[axis], gap) for axis, gap in zip(numbers.rhs_spec[2:], gaps)])
    wanted = {} if preferred_element_type is None else {"preferred_element_type": requested(preferred_element_type)}
    out = convolve.conv_general_dilated(
        x,
        y,
        window_strides=strides,
        padding=pairs(padding, sizes, spans, strides),
        lhs_dilation=holes,
        rhs_dilation=gaps,
        dimension_numbers=numbers,
        feature_group_count=operator.index(feature_group_count),
        batch_group_count=operator.index(batch_group_count),
        **wanted,
    )
    return ne(out, literal_of(0, INT32)) if logical else out


def conv(
    lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: Padding, precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:  # fmt: skip
    """The convolution of a batch of features with a kernel: `conv_general_dilated`, of axes in the order N, C, spatial.

    Arguments:
        lhs: an array (batch, features, spatial ...). rhs: the kernel (features of the result, features, spatial ...).
        window_strides, padding, precision, preferred_element_type: as for `conv_general_dilated`.

    Returns:
        An array (batch, features of the result, spatial ...).

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes differ, or are bool.
        ShapeError: the sizes do not fit. ValueError: a padding or a precision that is none.

    Example:
        >>> lax.conv(pnp.array([[[1.0, 2.0, 3.0, 4.0]]]), pnp.array([[[1.0, -1.0]]]), (1,), "VALID")
        [[[-1. -1. -1.]]]:f32[1,1,3]:cpu(0)
    """
    return conv_general_dilated(lhs, rhs, window_strides, padding, None, None, None, 1, 1, precision, preferred_element_type)


def conv_with_general_padding(
    lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: Padding, lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None, precision: Any = None, preferred_element_type: DTypeLike = None,
) -> Array:  # fmt: skip
    """The convolution of a batch of features with a kernel, with holes in either: of axes in the order N, C, spatial.

    Arguments:
        lhs: an array (batch, features, spatial ...). rhs: the kernel (features of the result, features, spatial ...).
        window_strides, padding, lhs_dilation, rhs_dilation, precision, preferred_element_type: as for `conv_general_dilated`.

    Returns:
        An array (batch, features of the result, spatial ...).

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes differ, or are bool.
        ShapeError: the sizes do not fit. ValueError: a padding or a precision that is none.

    Example:
        >>> lax.conv_with_general_padding(pnp.array([[[1.0, 2.0, 3.0]]]), pnp.ones((1, 1, 2)), (1,), [(1, 0)], (1,), (1,))
        [[[1. 3. 5.]]]:f32[1,1,3]:cpu(0)
    """
    given: dict[str, Any] = {"precision": precision, "preferred_element_type": preferred_element_type}
    return conv_general_dilated(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, **given)


def conv_transpose(
    lhs: ArrayLike, rhs: ArrayLike, strides: Sequence[int], padding: Padding, rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None, transpose_kernel: bool = False, precision: Any = None,
    preferred_element_type: DTypeLike = None, use_consistent_padding: bool = False,
) -> Array:  # fmt: skip
    """A convolution that makes an array `strides` times as large, as the transpose of one with these strides does.

    Arguments:
        lhs: an array of a batch axis, a feature axis and n spatial ones. rhs: the kernel, of its dtype.
        strides: n ints, how far apart the elements of `lhs` are put.
        padding: that of the convolution which is transposed, "SAME" or "VALID"; or n pairs of zeros around `lhs` itself, and
            with `use_consistent_padding` those of the convolution which is transposed.
        rhs_dilation: n ints, how far apart the elements of the kernel lie.
        dimension_numbers: as for `conv_general_dilated`; None for ("NHWC", "HWIO", "NHWC") and its like.
        transpose_kernel: reverse the kernel, and swap its features: with that, the result is the gradient of a convolution.
        precision: checked, and without effect: products are computed in the full precision of their dtype.
        preferred_element_type: the dtype to accumulate in, and of the result; by default that of the operands.

    Returns:
        An array of a batch axis, the features, and n spatial axes.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes differ, or are bool.
        ShapeError: the sizes do not fit. ValueError: dimension numbers, a padding or a precision that are none.

    Example:
        >>> lax.conv_transpose(pnp.ones((1, 3, 1)), pnp.array([[[1.0]], [[2.0]]]), (2,), "VALID")[0, :, 0]
        [2. 1. 2. 1. 2. 1.]:f32[6]:cpu(0)
    """
    x, y = lifted("conv_transpose", (lhs, rhs))
    numbers = conv_dimension_numbers(x.type.shape, y.type.shape, dimension_numbers or _LAYOUTS.get(x.type.ndim))
    count = max(x.type.ndim - 2, 0)
    apart, gaps = ints(strides, count, "strides"), ints(rhs_dilation, count, "rhs_dilation")
    spans = [dilated(y.type.shape[axis], gap) for axis, gap in zip(numbers.rhs_spec[2:], gaps)]
    if isinstance(padding, str):
        if padding not in ("SAME", "VALID"):
            raise ValueError(f"conv_transpose takes as padding 'SAME', 'VALID' or pairs, not {brief(padding)}.{at_user_line()}")
        around = tuple([_around(span, stride, padding) for span, stride in zip(spans, apart)])
    else:
        around = pairs(padding, (0,) * count, (), ())
        if use_consistent_padding:
            around = tuple([(span - 1 - low, span - 1 - high) for span, (low, high) in zip(spans, around)])
    if transpose_kernel:
        y = swapaxes(flip(y, numbers.rhs_spec[2:]), *numbers.rhs_spec[:2])
    ones = (1,) * count
    return conv_general_dilated(x, y, ones, around, apart, gaps, numbers, 1, 1, precision, preferred_element_type)


def _around(span: int, stride: int, padding: str) -> tuple[int, int]:
    """The zeros around the operand of a transposed convolution: of its window, what the convolution's padding leaves."""
    total = span + stride - 2 + (max(span - stride, 0) if padding == "VALID" else 0)
    before = span - 1 if padding == "VALID" or stride > span - 1 else -(-total // 2)
    return before, total - before


def conv_general_dilated_patches(
    lhs: ArrayLike, filter_shape: Sequence[int], window_strides: Sequence[int], padding: Padding,
    lhs_dilation: Sequence[int] | None = None, rhs_dilation: Sequence[int] | None = None, dimension_numbers: Any = None,
    precision: Any = None, preferred_element_type: DTypeLike = None,
) -> Array:  # fmt: skip
    """The windows that a convolution sums, as the features of an array.

    Arguments:
        lhs: an array of a batch axis, a feature axis and n spatial ones.
        filter_shape: the sizes of the spatial axes of the kernel.
        window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers: as for `conv_general_dilated`.
        precision: checked, and without effect: elements are copied.
        preferred_element_type: the dtype of the result; by default that of `lhs`.

    Returns:
        An array of a batch axis, as many features as a window of all features has elements (those of one feature next to each
        other), and the places of the windows.

    Raises:
        LeafError: `lhs` is neither an array nor a number.
        ShapeError: the sizes do not fit. ValueError: dimension numbers, a padding or a precision that are none.

    Example:
        >>> lax.conv_general_dilated_patches(pnp.array([[[1, 2, 3, 4]]]), (2,), (1,), "VALID")
        [[[1 2 3]
          [2 3 4]]]:i32[1,2,3]:cpu(0)
    """
    check_precision(precision, "conv_general_dilated_patches")
    x = as_operand(lhs, "conv_general_dilated_patches")
    widths = tuple(map(operator.index, filter_shape))
    numbers = conv_dimension_numbers(x.type.shape, (1, 1, *widths), dimension_numbers)
    count = len(widths)
    strides, holes = ints(window_strides, count, "window_strides"), ints(lhs_dilation, count, "lhs_dilation")
    gaps = ints(rhs_dilation, count, "rhs_dilation")
    x = shapes.transpose(x, permutation=numbers.lhs_spec)
    # the order of filter_shape is that of the kernel's spatial axes, which the numbers list already
    spans = tuple([dilated(width, gap) for width, gap in zip(widths, gaps)])
    around = pairs(padding, x.type.shape[2:], spans, strides)
    plain = ((1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1))
    window = Window(*[(*first, *given) for first, given in zip(plain, (widths, strides, around, holes, gaps))])  # type: ignore
    out = windows(x, 0, **window._asdict())  # [n, c, *out, 1, 1, *kernel]
    n, c, *places = out.type.shape[: count + 2]
    order = (0, 1, *range(count + 4, 2 * count + 4), *range(2, count + 2), count + 2, count + 3)
    out = shapes.reshape(shapes.transpose(out, permutation=order), new_sizes=(n, c * math.prod(widths), *places))
    out = moveaxis(out, tuple(range(count + 2)), numbers.out_spec)
    return out if preferred_element_type is None else out.astype(requested(preferred_element_type))


def conv_general_dilated_local(
    lhs: ArrayLike, rhs: ArrayLike, window_strides: Sequence[int], padding: Padding, filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None, rhs_dilation: Sequence[int] | None = None, dimension_numbers: Any = None,
    precision: Any = None,
) -> Array:  # fmt: skip
    """A convolution with a kernel of its own at each place.

    Arguments:
        lhs: an array of a batch axis, a feature axis and n spatial ones.
        rhs: the kernels: the features of the result; the elements of a window, as `conv_general_dilated_patches` has them, in
            the place of the features of `lhs`; and n axes for the places of windows.
        filter_shape: the sizes of the spatial axes of one kernel.
        window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, precision: as for `conv_general_dilated`.

    Returns:
        An array of a batch axis, the features, and the places of the windows.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the dtypes differ.
        ShapeError: the sizes do not fit. ValueError: dimension numbers, a padding or a precision that are none.

    Example:
        >>> x, kernels = pnp.array([[[1.0, 2.0, 3.0]]]), pnp.array([[[1.0, 2.0], [0.0, 1.0]]])
        >>> lax.conv_general_dilated_local(x, kernels, (1,), "VALID", (2,))  # 1 * 1 + 0 * 2, and 2 * 2 + 1 * 3
        [[[1. 7.]]]:f32[1,1,2]:cpu(0)
    """
    x, y = lifted("conv_general_dilated_local", (lhs, rhs))
    found = conv_general_dilated_patches(
        x, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, precision
    )
    numbers = conv_dimension_numbers(x.type.shape, y.type.shape, dimension_numbers)
    along = (numbers.out_spec[1:2], numbers.rhs_spec[1:2]), (numbers.out_spec[2:], numbers.rhs_spec[2:])
    out = dot_general(found, y, dimension_numbers=along)  # [*places, n, o]
    return moveaxis(out, tuple(range(out.type.ndim)), (*numbers.out_spec[2:], *numbers.out_spec[:2]))
