"""vmap: a function of one example made into a function of a batch of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from pullback.api.functions import Function, argument_name, check_callable, leaf_paths, parameter_names, wrapped
from pullback.core.axes import AxisSize
from pullback.core.errors import AxisError, StructureError
from pullback.core.source import describe
from pullback.core.trees import array_leaf, array_leaves, broadcast_prefix, flatten, unflatten
from pullback.core.tracing import type_of
from pullback.ops.shape import transpose
from pullback.transforms.batch import Batched, batch_flat, materialize


def vmap(
    fun: Function,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Hashable | None = None,
    axis_size: int | None = None,
) -> Function:
    """A function that applies `fun` to every example of a batch at once.

    Arguments:
        fun: a function of single examples: arrays and pytrees.
        in_axes: which axis of each argument runs over the examples: an int for all of them; a tuple or list with an entry
            for each positional argument, itself an int, None (not batched), or a tree of them; or a dict by argument name
            (arguments that it does not name are not batched). Negative axes count from the end.
        out_axes: where the batch axis goes in the output: an int, None for outputs that are the same for all examples, or
            a tree of them that is a prefix of the output's.
        axis_name: a name by which `psum`, `pmean`, `axis_index`, ... refer to the batch axis inside `fun`.
        axis_size: the number of examples, needed only where no argument is batched.

    Returns:
        A function of the same arguments with batch axes added. Keyword arguments are batched along axis 0, unless `in_axes`
        is a dict.

    Raises:
        AxisError, when the returned function is called: an axis that an argument does not have, or sizes that differ.
        StructureError: `in_axes` or `out_axes` do not fit the arguments or the output.

    Example:
        >>> import pullback as pb
        >>> pb.vmap(lambda x, y: x * y, in_axes=(0, None))(pb.asarray([1.0, 2.0]), 10.0)
        [10. 20.]:f32[2]:cpu(0)
    """
    check_callable(fun, "vmap")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    _check_axes_spec(fun, in_axes)

    def batched(*args: Any, **kwargs: Any) -> Any:
        leaves, structure, axes, paths = _arguments(fun, args, kwargs, in_axes)
        size = AxisSize.named(_batch_size(fun, leaves, axes, paths, axis_size), axis_name)
        values = [_move_to_front(leaf, axis) for leaf, axis in zip(leaves, axes)]
        box: dict[str, Any] = {}

        def flat(*inner: Any) -> list[Any]:
            inner_args, inner_kwargs = unflatten(structure, inner)
            outs, box["structure"] = array_leaves(fun(*inner_args, **inner_kwargs), "the output")
            return outs

        trace, outs = batch_flat(flat, values, [axis is not None for axis in axes], size, fun)
        tree = unflatten(box["structure"], outs)
        out_specs = broadcast_prefix(out_axes, tree, f"vmap's out_axes={out_axes!r}")
        placed = [_place(trace, out, axis, fun) for out, axis in zip(outs, out_specs, strict=True)]
        return unflatten(box["structure"], placed)

    return wrapped(fun, "vmap", batched)


def _check_axes_spec(fun: Function, in_axes: Any) -> None:
    if isinstance(in_axes, Mapping):
        names = parameter_names(fun)
        unknown = [name for name in in_axes if names and name not in names and not _takes_keywords(fun)]
        if unknown:
            raise AxisError(f"vmap's in_axes names {unknown[0]!r}, but {describe(fun)} has the parameters {', '.join(names)}.")
    elif in_axes is not None and not isinstance(in_axes, (int, tuple)) or isinstance(in_axes, bool):
        raise AxisError(
            "vmap's in_axes must be an int, None, a tuple with an entry for each argument, or a dict by argument name, but got"
            f" {in_axes!r}."
        )


def _takes_keywords(fun: Function) -> bool:
    code = getattr(fun, "__code__", None)
    return code is None or bool(code.co_flags & 0x0C) or code.co_kwonlyargcount > 0


def _arguments(
    fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any], in_axes: Any
) -> tuple[list[Any], Any, list[int | None], list[str]]:
    """All leaves of a call's arguments, their structure as a pair (args, kwargs), and each one's batch axis and path."""
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise StructureError(
            f"vmap of {describe(fun)} has in_axes={in_axes!r} for {len(in_axes)} positional arguments, but was called with"
            f" {len(args)}."
        )
    axes: list[int | None] = []
    paths: list[str] = []
    leaves: list[Any] = []
    named = [(argument_name(fun, i), i, arg) for i, arg in enumerate(args)] + [(name, None, kwargs[name]) for name in sorted(kwargs)]
    for name, position, arg in named:
        if isinstance(in_axes, Mapping):
            spec = in_axes.get(name)
        elif position is None:
            spec = 0
        else:
            spec = in_axes[position] if isinstance(in_axes, tuple) else in_axes
        own_paths = leaf_paths(arg, name)
        own_leaves, _ = flatten(arg)
        own_axes = broadcast_prefix(spec, arg, f"vmap's in_axes for argument {name}, {spec!r},")
        for leaf, axis, path in zip(own_leaves, own_axes, own_paths, strict=True):
            value = array_leaf(leaf, lambda path=path: f"argument {path}")  # type: ignore[misc]
            leaves.append(value)
            paths.append(path)
            axes.append(None if axis is None else _normal_axis(axis, type_of(value).ndim, f"argument {path}", value))
    return leaves, flatten((args, kwargs))[1], axes, paths


def _normal_axis(axis: Any, ndim: int, what: str, value: Any) -> int:
    if not isinstance(axis, int) or isinstance(axis, bool):
        raise AxisError(f"vmap's axis for {what} must be an int or None, but is {axis!r}.")
    if not -ndim <= axis < ndim:
        raise AxisError(
            f"vmap was asked to batch {what} along axis {axis}, but it has type {type_of(value)}, "
            + (f"whose axes are 0 to {ndim - 1}." if ndim else "which has no axes; use None for what is not batched.")
        )
    return axis % ndim


def _batch_size(
    fun: Function, leaves: Sequence[Any], axes: Sequence[int | None], paths: Sequence[str], axis_size: int | None
) -> int:
    sizes = {path: type_of(leaf).shape[axis] for leaf, axis, path in zip(leaves, axes, paths) if axis is not None}
    if axis_size is not None:
        sizes["axis_size"] = axis_size
    if not sizes:
        raise AxisError(
            f"vmap of {describe(fun)} has no batched argument, so the number of examples is unknown:"
            " batch an argument by in_axes, or pass axis_size."
        )
    first = next(iter(sizes.values()))
    if any(size != first for size in sizes.values()):
        listed = "; ".join(
            f"argument {path} has size {size} along axis {axis}" if path != "axis_size" else f"axis_size is {size}"
            for (path, size), axis in zip(sizes.items(), [*(axis for axis in axes if axis is not None), None])
        )
        raise AxisError(f"vmap of {describe(fun)} was given batches of different sizes: {listed}.")
    return first


def _move_to_front(value: Any, axis: int | None) -> Any:
    if not axis:
        return value
    others = [i for i in range(type_of(value).ndim) if i != axis]
    return transpose(value, permutation=(axis, *others))


def _place(trace: Any, out: Any, axis: Any, fun: Function) -> Any:
    """An output with its batch axis where `out_axes` wants it."""
    if axis is None:
        if out.__class__ is Batched and out.trace is trace:
            raise AxisError(
                f"vmap of {describe(fun)} has None in out_axes for an output of type {out.type} that differs between the"
                " examples. Give the axis where its batch should go."
            )
        return out
    value = materialize(trace, out)
    ndim = type_of(value).ndim
    axis = _normal_axis(axis, ndim, "an output", value)
    if axis == 0:
        return value
    return transpose(value, permutation=(*range(1, axis + 1), 0, *range(axis + 1, ndim)))
