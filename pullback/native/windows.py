"""Padding, reductions of windows, convolutions: windows are a view, whose axes are reduced or contracted.

Sources: the StableHLO specification (openxla.org/stablehlo/spec), `pad`, `reduce_window` and `convolution`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pullback.native.along import combined
from pullback.native.arrays import Array, Place, Places, concatenated, filled, reshaped, settled, sliced, transposed, view
from pullback.native.emit import Emitter, Targets, add_rule, kind_of
from pullback.native.graph import Node
from pullback.native.ir import Code, Value
from pullback.native.reduce import contraction, reduced


def padded(
    code: Code,
    x: Array,
    value: Array,
    low: Sequence[int],
    high: Sequence[int],
    between: Sequence[int],
    pointer: Value | None = None,
) -> Array:
    """`x` with so many elements `value` before, behind and between its elements along each axis; fewer than none cut it."""
    for axis, (before, after, holes) in enumerate(zip(low, high, between)):
        lead, behind, size = x.shape[:axis], x.shape[axis + 1 :], x.shape[axis]
        if holes and size > 1:
            between_them = view(code, value, (*lead, size, holes, *behind), lambda places: ())
            pairs = reshaped(code, x, (*lead, size, 1, *behind))
            x = concatenated(code, [pairs, between_them], axis + 1, (*lead, size, holes + 1, *behind))
            x = reshaped(code, x, (*lead, size * (holes + 1), *behind))
            size += (size - 1) * holes
        before, after = max(before, -size - max(after, 0)), max(after, -size - max(before, 0))
        whole = size + before + after
        kept = max(size + min(before, 0) + min(after, 0), 0)
        if kept != x.shape[axis]:
            starts = [max(-before, 0) if i == axis else 0 for i in range(len(x.shape))]
            x = sliced(code, x, starts, [1] * len(starts), (*lead, kept, *behind))
        first = min(max(before, 0), whole)  # a cut that goes beyond the elements takes of what is put there
        around = [view(code, value, (*lead, count, *behind), lambda places: ()) for count in (first, whole - kept - first)]
        shape = (*lead, whole, *behind)
        x = concatenated(code, [around[0], x, around[1]], axis, shape, pointer if axis == len(low) - 1 else None)
    return x


def _pad(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    sides = [node.params[name] for name in ("edge_padding_low", "edge_padding_high", "interior_padding")]
    return padded(it.code, *operands, *sides, targets.get(node.results[0].name))  # type: ignore[call-arg, arg-type]


def _windows(code: Code, x: Array, counts: Sequence[int], params: Mapping[str, Sequence[int]]) -> Array:
    """The windows of an array: for each axis which window it is, then for each axis where in the window."""
    sizes, strides, gaps = (params[name] for name in ("window_dimensions", "window_strides", "window_dilations"))

    def places_of(places: Places) -> list[Place]:
        rows = zip(places, places[len(counts) :], strides, gaps)
        return [(code.plus(code.times(i, by), code.times(k, gap)), m * by + n * gap) for (i, m), (k, n), by, gap in rows]

    return view(code, x, (*counts, *sizes), places_of)


def _reduce_window(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> list[Array]:
    code, params = it.code, node.params
    count = len(node.results)
    holes = [hole - 1 for hole in params["base_dilations"]]
    low, high = zip(*params["padding"]) if params["padding"] else ((), ())
    arrays = []
    for x, first in zip(operands, operands[count:]):
        x = settled(code, padded(code, x, first, low, high, holes))
        arrays.append(_windows(code, x, node.results[0].shape, params))
    axes = range(len(holes), 2 * len(holes))
    (body,) = node.graphs
    target = targets.get(node.results[0].name)
    if "init" in params:
        return [reduced(code, arrays[0], axes, params["how"], params["init"], target)]
    return combined(it, body, arrays, operands[count:], axes)


def _convolution(it: Emitter, node: Node, operands: list[Array], targets: Targets) -> Array:
    code, params, (result,) = it.code, node.params, node.results
    x, kernel = operands
    groups = params["feature_group_count"] * params["batch_group_count"]  # one of them is 1
    of_x, of_kernel, of_out = params["dimension_numbers"]  # for each axis b, f, o, i, or the number of a spatial axis
    spatial = range(len(of_x) - 2)
    zero = filled(code, (), x.kind, 0)
    x = transposed(code, x, [of_x.index(key) for key in ("b", "f", *spatial)])
    kernel = transposed(code, kernel, [of_kernel.index(key) for key in ("o", "i", *spatial)])
    low, high = zip(*params["padding"]) if spatial else ((), ())
    x = settled(
        code, padded(code, x, zero, (0, 0, *low), (0, 0, *high), (0, 0, *[hole - 1 for hole in params["lhs_dilation"]]))
    )
    plain = {
        "window_dimensions": (1, 1, *kernel.shape[2:]),
        "window_strides": (1, 1, *params["window_strides"]),
        "window_dilations": (1, 1, *params["rhs_dilation"]),
    }
    counts = [result.shape[of_out.index(key)] for key in spatial]
    windows = _windows(code, x, (*x.shape[:2], *counts), plain)
    features, outs, batch = kernel.shape[1], kernel.shape[0] // groups, x.shape[0] // params["batch_group_count"]
    grouped, n = batch < x.shape[0], len(counts)

    def of_group(places: Places) -> list[Place]:  # group, batch, counts, feature, window
        (g, dg), (b, db), *where = places
        (f, df), inner = where[n], where[n + 1 :]
        if grouped:
            return [(code.plus(code.times(g, batch), b), dg * batch + db), (f, df), *where[:n], *[(0, 0)] * 2, *inner]
        return [(b, db), (code.plus(code.times(g, features), f), dg * features + df), *where[:n], *[(0, 0)] * 2, *inner]

    def of_weights(places: Places) -> list[Place]:  # group, out, feature, window
        (g, dg), (o, do), *others = places
        return [(code.plus(code.times(g, outs), o), dg * outs + do), *others]

    sizes = kernel.shape[2:]
    a = view(code, windows, (groups, batch, *counts, features, *sizes), of_group)
    b = view(code, settled(code, kernel), (groups, outs, features, *sizes), of_weights)
    numbers = {
        "lhs_batching_dimensions": (0,),
        "rhs_batching_dimensions": (0,),
        "lhs_contracting_dimensions": tuple(range(2 + n, 3 + 2 * n)),
        "rhs_contracting_dimensions": tuple(range(2, 3 + n)),
    }
    out = contraction(code, a, b, numbers, kind_of(result))  # group, batch, counts, out
    places: dict[str | int, tuple[int, ...]] = {"b": (1,), "f": (0, 2 + n), **{key: (2 + key,) for key in spatial}}
    out = transposed(code, out, [place for key in of_out for place in places[key]])
    return reshaped(code, out, result.shape)


add_rule("pad", _pad)
add_rule("reduce_window", _reduce_window)
add_rule("convolution", _convolution)
