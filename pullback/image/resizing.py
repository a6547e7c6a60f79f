"""Images of another size: each axis is multiplied by a matrix of weights, a kernel of the distances between pixels.

Sources: R. Keys, "Cubic convolution interpolation for digital image processing" (1981), for the cubic kernel; C. Duchon,
"Lanczos filtering in one and two dimensions" (1979).
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback import numpy as pnp
from pullback.core.array import Array, ArrayLike, host_of
from pullback.core.brief import brief
from pullback.core.errors import ShapeError
from pullback.core.tracing import Tracer
from pullback.numpy.axes import normal_axis
from pullback.numpy.creation import asarray
from pullback.numpy.products import tensordot
from pullback.numpy.promotion import at_user_line, check_precision, in_dtype, operand, real_dtype, refuse_complex, to_inexact
from pullback.numpy.shaping import moveaxis
from pullback.numpy.taking import take


class ResizeMethod(enum.Enum):
    """How an image is interpolated: NEAREST, LINEAR, LANCZOS3, LANCZOS5, CUBIC, CUBIC_PYTORCH or AREA.

    Example:
        >>> pb.image.ResizeMethod.from_string("bilinear")
        <ResizeMethod.LINEAR: 1>
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name.

        Arguments:
            s: "nearest"; "linear", "bilinear", "trilinear" or "triangle"; "cubic", "bicubic" or "tricubic"; "cubic-pytorch" or
                "bicubic-pytorch"; "lanczos3"; "lanczos5"; or "area".

        Returns:
            A `ResizeMethod`.

        Raises:
            ValueError: there is no method of that name.

        Example:
            >>> pb.image.ResizeMethod.from_string("bicubic")
            <ResizeMethod.CUBIC: 4>
        """
        if not isinstance(s, str) or s not in _NAMES:
            raise ValueError(f"A method of resizing is one of {', '.join(_NAMES)}; not {brief(s)}.{at_user_line()}")
        return _NAMES[s]


_NAMES = {method.name.lower().replace("_", "-"): method for method in ResizeMethod}
_NAMES |= dict.fromkeys(("bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR)
_NAMES |= dict.fromkeys(("bicubic", "tricubic"), ResizeMethod.CUBIC) | {"bicubic-pytorch": ResizeMethod.CUBIC_PYTORCH}


def _cubic(a: float) -> Callable[[Any, Any], Any]:
    def kernel(xp: Any, x: Any) -> Any:
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        return xp.where(x < 1, near, xp.where(x < 2, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a, 0))

    return kernel


def _lanczos(radius: int) -> Callable[[Any, Any], Any]:
    return lambda xp, x: xp.where(x > radius, 0, xp.sinc(x) * xp.sinc(x / radius))


_KERNELS: dict[ResizeMethod, Callable[[Any, Any], Any]] = {
    ResizeMethod.LINEAR: lambda xp, x: xp.maximum(0, 1 - x),
    ResizeMethod.LANCZOS3: _lanczos(3),
    ResizeMethod.LANCZOS5: _lanczos(5),
    ResizeMethod.CUBIC: _cubic(-0.5),
    ResizeMethod.CUBIC_PYTORCH: _cubic(-0.75),
}


def _weights(xp: Any, old: int, new: int, scale: Any, shift: Any, method: ResizeMethod, antialias: bool, edges: int = 0) -> Any:
    """The matrix of an axis, [old, new]; with `edges`, as if the outermost pixels were repeated so many times."""
    stretch = 1 / scale
    pixels, wanted = np.arange(-edges, old + edges)[:, None].astype(scale.dtype), np.arange(new)[None, :].astype(scale.dtype)
    middles = (wanted + 0.5) * stretch - shift * stretch - 0.5
    if method is ResizeMethod.AREA:  # the part of each new pixel that lies in an old one
        low = wanted * stretch - shift * stretch
        weights = xp.maximum(0, xp.minimum(low + stretch, pixels + 1) - xp.maximum(low, pixels))
    else:
        width = xp.maximum(stretch, 1) if antialias else 1
        weights = _KERNELS[method](xp, xp.abs(middles - pixels) / width)
    if edges and old:
        inner = [weights[edges + i : edges + i + 1] for i in range(old)]
        inner[0] = inner[0] + weights[:edges].sum(0, keepdims=True)
        inner[-1] = inner[-1] + weights[-edges:].sum(0, keepdims=True)
        weights = xp.concatenate(inner)
    total = weights.sum(0, keepdims=True)
    some = xp.abs(total) > 1000 * np.finfo(np.float32).eps
    weights = xp.where(some, weights / xp.where(some, total, 1), 0)
    return weights if edges else xp.where((middles >= -0.5) & (middles <= old - 0.5), weights, 0)


def _method(method: Any, antialias: Any) -> tuple[ResizeMethod, int]:
    """The kernel of a method, and how many times it repeats the outermost pixels."""
    how = method if isinstance(method, ResizeMethod) else ResizeMethod.from_string(method)
    if how is not ResizeMethod.CUBIC_PYTORCH:
        return how, 0
    return (ResizeMethod.CUBIC, 0) if antialias else (how, 2)


def _shape(name: str, shape: Any, image: Array) -> tuple[int, ...]:
    sizes = tuple(map(operator.index, shape))
    if len(sizes) != image.type.ndim or min(sizes, default=0) < 0:
        raise ShapeError(f"{name} takes a size for each axis of {image.type}, not {sizes}.{at_user_line()}")
    return sizes


def resize(
    image: ArrayLike, shape: Sequence[int], method: str | ResizeMethod, antialias: bool = True, precision: Any = None
) -> Array:
    """An image in another size, along any of its axes.

    Arguments:
        image: an array.
        shape: the size of each axis; those that stay, as of a batch or of colours, are left alone.
        method: a `ResizeMethod`, or its name: "nearest", "linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5" or "area".
        antialias: whether the kernel is stretched where an axis becomes smaller.
        precision: checked, and without effect: products are computed in the full precision of their dtype.

    Returns:
        An array of that shape, floating or complex; of "nearest", in the dtype of the image.

    Raises:
        LeafError: `image` is neither an array nor a number.
        ShapeError: not a size for each axis. ValueError: an unknown method or precision.

    Example:
        >>> pb.image.resize(pnp.array([1.0, 3.0]), (4,), "linear")
        [1.  1.5 2.5 3. ]:f32[4]:cpu(0)
        >>> pb.image.resize(pnp.array([1, 3]), (4,), "nearest")
        [1 1 3 3]:i32[4]:cpu(0)
    """
    check_precision(precision, "resize")
    x = operand(image, "resize")
    sizes, (how, edges) = _shape("resize", shape, x), _method(method, antialias)
    x = x if how is ResizeMethod.NEAREST else to_inexact(x, "resize")
    for axis, (old, new) in enumerate(zip(x.type.shape, sizes)):
        if old == new:
            continue
        if not old and new:
            raise ShapeError(
                f"resize makes no pixels of none: axis {axis} of {x.type} has no elements. Pass an image that has"
                f" some.{at_user_line()}"
            )
        if how is ResizeMethod.NEAREST:
            x = take(x, (2 * np.arange(new) + 1) * old // (2 * new), axis)
        else:
            x = _multiplied(
                x, axis, _weights(np, old, new, np.float64(new / old if new else 1), 0.0, how, bool(antialias), edges)
            )
    return x


def _multiplied(x: Array, axis: int, weights: Any) -> Array:
    known = isinstance(weights, np.ndarray)
    weights = weights.astype(x.type.dtype) if known else in_dtype(weights, x.type.dtype)
    return moveaxis(tensordot(x, weights, ((axis,), (0,))), -1, axis)


def scale_and_translate(
    image: ArrayLike, shape: Sequence[int], spatial_dims: Sequence[int], scale: ArrayLike, translation: ArrayLike,
    method: str | ResizeMethod, antialias: bool = True, precision: Any = None,
) -> Array:  # fmt: skip
    """An image scaled and moved along some of its axes: what was at y is at y * scale + translation, in pixels. Both have
    derivatives.

    Arguments:
        image: an array.
        shape: the size of each axis of the result; outside of the image it is 0.
        spatial_dims: the axes that are scaled and moved.
        scale, translation: arrays with a number for each of these axes.
        method: a `ResizeMethod` other than NEAREST, or its name.
        antialias: whether the kernel is stretched where an axis becomes smaller.
        precision: checked, and without effect: products are computed in the full precision of their dtype.

    Returns:
        An array of that shape, floating or complex.

    Raises:
        LeafError: an operand is neither an array nor a number. DtypeError: a complex scale or translation.
        AxisError: the image has no such axis. ShapeError: not a number for each axis. ValueError: an unknown method.

    Example:
        >>> pb.image.scale_and_translate(pnp.array([1.0, 2.0, 3.0]), (3,), (0,), pnp.ones(1), pnp.ones(1), "linear")
        [0. 1. 2.]:f32[3]:cpu(0)
    """
    check_precision(precision, "scale_and_translate")
    x = to_inexact(operand(image, "scale_and_translate"), "scale_and_translate")
    sizes, (how, edges) = _shape("scale_and_translate", shape, x), _method(method, antialias)
    axes = [normal_axis(axis, x.type.ndim, "scale_and_translate") for axis in tuple(spatial_dims)]
    by, to = (to_inexact(asarray(each), "scale_and_translate") for each in (scale, translation))
    refuse_complex("scale_and_translate", by, to)
    if how is ResizeMethod.NEAREST or by.type.shape != (len(axes),) or to.type.shape != (len(axes),):
        raise ShapeError(
            "scale_and_translate interpolates, so its method is not NEAREST, with a scale and a translation for each of the"
            f" {len(axes)} spatial_dims; not {by.type} and {to.type}.{at_user_line()}"
        )
    known = not isinstance(by, Tracer) and not isinstance(to, Tracer)
    dtype = real_dtype(x.type.dtype)
    for i, axis in enumerate(axes):
        each, shift = (np.float64(np.asarray(host_of(v))[i]) if known else in_dtype(v[i], dtype) for v in (by, to))
        weights = _weights(np if known else pnp, x.type.shape[axis], sizes[axis], each, shift, how, bool(antialias), edges)
        x = _multiplied(x, axis, weights)
    if x.type.shape != sizes:
        raise ShapeError(
            f"scale_and_translate leaves the sizes of other axes than spatial_dims, {axes}, as they are: name those too, or"
            f" keep their sizes.{at_user_line()}"
        )
    return x
