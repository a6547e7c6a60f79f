"""Attention, and products of matrices that have a scale for each block."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import BOOL, INT32, DTypeLike, accumulation_dtype, requested
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.types import Shape
from pullback.nn.normalizing import logsumexp, softmax
from pullback.numpy.arithmetic import multiply
from pullback.numpy.logic import where as choose
from pullback.numpy.products import einsum
from pullback.numpy.promotion import at_user_line, broadcast_shapes, in_dtype, to_common_dtype
from pullback.numpy.promotion import operand as to_operand
from pullback.numpy.shaping import repeat
from pullback.ops import shape as shapes
from pullback.ops.create import iota
from pullback.ops.stop_gradient import stop_gradient


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: ArrayLike | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """softmax(scale * query @ key.T + bias) @ value, for each head: what each query position attends to.

    B is the size of the batch, T the number of query positions and S that of key positions, N the number of heads, K that of
    key heads, H the size of a head. Where K is less than N, groups of N / K query heads share a key head.

    The softmax, and what is computed before it, is in float32 for floats of 16 bits and fewer. A query position that may attend
    to nothing attends to all positions alike, as JAX's does; one beyond its sequence's length has the result 0.

    Arguments:
        query: an array of shape (B, T, N, H), or (T, N, H).
        key, value: arrays of shape (B, S, K, H), or (S, K, H), where N is a multiple of K.
        bias: what is added to the logits: an array that broadcasts to (B, N, T, S).
        mask: bools that broadcast to (B, N, T, S), true where a query position may attend to a key position.
        scale: what the logits are multiplied by; by default 1 / sqrt(H).
        is_causal: let position t attend to the positions up to t only.
        query_seq_lengths, key_value_seq_lengths: B integers, how many positions of each sequence there are.
        local_window_size: (left, right), how far before and behind itself a position may attend; an int for both.
        implementation: None or "xla", which are the same.
        return_residual: return the logarithms of the softmax's denominators as well, as constants.

    Returns:
        An array of the shape of the query, in the common dtype; with `return_residual` a pair of it and one of its shape
        without the last axis.

    Raises:
        LeafError: an operand is neither an array nor a number.
        DtypeError: the mask is not bool, or the lengths are not integers.
        ShapeError: the shapes do not fit.
        ValueError: an unknown `implementation`, or a window of negative size.

    Example:
        >>> x = pnp.array([[[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 1.0]]])  # three positions, one head
        >>> nn.dot_product_attention(x, x, x, is_causal=True)[:, 0]
        [[1.         0.        ]
         [0.33023846 0.66976154]
         [0.7517449  0.7517449 ]]:f32[3,2]:cpu(0)

    Source: Vaswani et al., "Attention Is All You Need", arXiv:1706.03762, equation 1; Ainslie et al., "GQA: Training
        Generalized Multi-Query Transformer Models from Multi-Head Checkpoints", arXiv:2305.13245.
    """
    name = "dot_product_attention"
    if implementation not in (None, "xla"):
        raise ValueError(f"{name} takes implementation=None or 'xla', not {brief(implementation)}.{at_user_line()}")
    operands = to_common_dtype(name, query, key, value, inexact=True)
    dtype, shape = operands[0].type.dtype, operands[0].type.shape
    q, k, v = [_leading_ones(x, 4) if x.type.ndim == 3 else x for x in operands]
    sizes = [x.type.shape for x in (q, k, v)]
    if {len(own) for own in sizes} != {4} or sizes[1] != sizes[2] or sizes[0][::3] != sizes[1][::3] or _rest(sizes):
        raise ShapeError(
            f"{name} takes a query of shape (B, T, N, H), and a key and a value of shape (B, S, K, H), each without B or with"
            f" it, and N a multiple of K; but got {', '.join(str(x.type) for x in operands)}.{at_user_line()}"
        )
    (batch, length, heads, size), (_, span, shared, _) = sizes[:2]
    groups = (shared, heads // max(shared, 1))
    wide = accumulation_dtype(dtype)
    logits = einsum(
        "btkgh,bskh->bkgts", shapes.reshape(q, new_sizes=(batch, length, *groups, size)), k, preferred_element_type=wide
    )
    logits = in_dtype(multiply(logits, 1 / math.sqrt(max(size, 1)) if scale is None else scale), wide)
    full = (batch, *groups, length, span)
    if bias is not None:
        logits = in_dtype(logits + _grouped(to_operand(bias, name, "bias"), "bias", full), wide)
    allowed, there = [], None
    if mask is not None:
        given = to_operand(mask, name, "mask")
        if given.type.dtype is not BOOL:
            raise DtypeError(f"{name} takes a mask of bools, but got {given.type}; add numbers by `bias`.{at_user_line()}")
        allowed.append(_grouped(given, "mask", full))
    at, to = [iota(dtype=INT32, shape=(1, 1, 1, length, span), dimension=axis) for axis in (3, 4)]
    if is_causal:
        allowed.append(at >= to)
    if local_window_size is not None:
        left, right = _window(local_window_size)
        allowed.append((to + left >= at) & (at + right >= to))
    if key_value_seq_lengths is not None:
        allowed.append(to < _lengths(key_value_seq_lengths, "key_value_seq_lengths", batch))
    if query_seq_lengths is not None:
        lengths = _lengths(query_seq_lengths, "query_seq_lengths", batch)
        allowed.append(at < lengths)
        there = iota(dtype=INT32, shape=(1, length, 1, 1, 1), dimension=1) < lengths
    for each in allowed:
        logits = choose(each, logits, -0.7 * float(np.finfo(wide).max))
    out = einsum("bkgts,bskh->btkgh", in_dtype(softmax(logits), dtype), v)
    out = shapes.reshape(out if there is None else choose(there, out, 0.0), new_sizes=shape)
    if not return_residual:
        return out
    residual = shapes.transpose(in_dtype(logsumexp(logits, -1), dtype), permutation=(0, 3, 1, 2))
    return out, stop_gradient(shapes.reshape(residual, new_sizes=shape[:-1]))


def _rest(sizes: list[Shape]) -> bool:
    """Whether query heads cannot be shared out evenly among the key heads."""
    heads, shared = sizes[0][2], sizes[1][2]
    return heads % shared != 0 if shared else heads != 0


def _leading_ones(x: Any, ndim: int) -> Any:
    """x with as many axes of size 1 in front as make it of `ndim` axes."""
    return shapes.reshape(x, new_sizes=(1,) * (ndim - x.type.ndim) + x.type.shape)


def _grouped(x: Any, what: str, full: Shape) -> Any:
    """What broadcasts to (B, N, T, S), as what broadcasts to (B, K, N/K, T, S)."""
    batch, shared, groups, length, span = full
    wanted = (batch, shared * groups, length, span)
    if x.type.ndim > 4 or broadcast_shapes(f"dot_product_attention's {what}", x.type.shape, wanted) != wanted:
        raise ShapeError(
            f"dot_product_attention takes a {what} that broadcasts to (B, N, T, S) = {wanted}, but got {x.type}."
            f"{at_user_line()}"
        )
    batches, heads, *rest = ((1,) * (4 - x.type.ndim)) + x.type.shape
    return shapes.reshape(x, new_sizes=(batches, *((1, 1) if heads == 1 else (shared, groups)), *rest))


def _window(given: Any) -> tuple[int, int]:
    """How far to the left and to the right a position may attend."""
    left, right = map(operator.index, given if isinstance(given, (tuple, list)) else (given, given))
    if left < 0 or right < 0:
        raise ValueError(f"dot_product_attention takes a local_window_size of 0 or more, but got {given}.{at_user_line()}")
    return left, right


def _lengths(given: ArrayLike, what: str, batch: int) -> Any:
    """Lengths of sequences, in the shape (B, 1, 1, 1, 1)."""
    lengths = to_operand(given, "dot_product_attention", what)
    if lengths.type.shape != (batch,):
        raise ShapeError(f"dot_product_attention takes {what} of shape {(batch,)}, but got {lengths.type}.{at_user_line()}")
    if lengths.type.dtype.kind not in "iu":
        raise DtypeError(f"dot_product_attention takes integers as {what}, but got {lengths.type}.{at_user_line()}")
    return shapes.reshape(lengths, new_sizes=(batch, 1, 1, 1, 1))


def scaled_matmul(
    lhs: ArrayLike,
    rhs: ArrayLike,
    lhs_scales: ArrayLike,
    rhs_scales: ArrayLike,
    preferred_element_type: DTypeLike = np.float32,
) -> Array:
    """lhs @ rhs.T for each batch element, of matrices that have a scale for each block of numbers in a row.

    Arguments:
        lhs, rhs: arrays of shapes (B, M, K) and (B, N, K), of any floating dtypes, float8 too.
        lhs_scales, rhs_scales: arrays of shapes (B, M, K / n) and (B, N, K / m): what the blocks of n, and of m, are
            multiplied by.
        preferred_element_type: the dtype of the result; what is computed on the way is in float32 at least.

    Returns:
        An array of shape (B, M, N).

    Raises:
        LeafError: an operand is neither an array nor a number.
        ShapeError: the shapes do not fit.

    Example:
        >>> a, b = pnp.array([[[1.0, 2.0, 3.0]]]), pnp.array([[[4.0, 5.0, 6.0]]])
        >>> scale = pnp.array([[[0.5]]])
        >>> nn.scaled_matmul(a, b, scale, scale)
        [[[8.]]]:f32[1,1,1]:cpu(0)
    """
    dtype = requested(preferred_element_type)
    x, y, x_scales, y_scales = [to_operand(each, "scaled_matmul") for each in (lhs, rhs, lhs_scales, rhs_scales)]
    sizes = [each.type.shape for each in (x, y, x_scales, y_scales)]
    (batch, *_, depth) = sizes[0] or (0,)
    fits = {len(each) for each in sizes} == {3} and all([each[0] == batch for each in sizes]) and depth == sizes[1][2]
    if not (fits and all([a[1] == b[1] and b[2] and depth % b[2] == 0 for a, b in zip(sizes, sizes[2:])])):
        raise ShapeError(
            "scaled_matmul takes arrays of shapes (B, M, K) and (B, N, K) with scales of shapes (B, M, K / n), (B, N, K / m),"
            f" but got {', '.join(str(each.type) for each in (x, y, x_scales, y_scales))}.{at_user_line()}"
        )
    wide = accumulation_dtype(dtype)
    x, y = [
        in_dtype(each, wide) * repeat(in_dtype(scales, wide), depth // scales.type.shape[2], axis=2)
        for each, scales in ((x, x_scales), (y, y_scales))
    ]
    return in_dtype(einsum("bmk,bnk->bmn", x, y), dtype)
