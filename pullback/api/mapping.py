"""vmap: a function of one batch element made into a function of a batch of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from pullback.api.functions import (
    INTEGERS,
    FlatArguments,
    Function,
    P,
    R,
    argument_name,
    check_callable,
    parameters_of,
    returned_leaves,
    wrapped,
)
from pullback.api.tangents import tree_in_brief
from pullback.core.array import Array
from pullback.core.axes import Axis
from pullback.core.brief import brief
from pullback.core.dtypes import float0
from pullback.core.errors import AxisError, StructureError
from pullback.core.leaks import leak_checked
from pullback.core.refs import Ref, call_with_parts, call_with_refs
from pullback.core.source import api_boundary, describe
from pullback.core.tracing import Tracer, is_float0, type_of
from pullback.core.trees import (
    LEAF,
    TreeDef,
    array_leaf,
    structure_paths,
    unflatten,
)
from pullback.ops.shape import transpose
from pullback.transforms.batch import Batched, batch_flat, materialize


@api_boundary
def vmap(
    fun: Callable[P, R],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Hashable | None = None,
    axis_size: int | None = None,
    strategy: str = "select",
    spmd_axis_name: str | tuple[str, ...] | None = None,
) -> Callable[P, R]:
    """A function that applies `fun` to every element of a batch at once.

    Arguments:
        fun: a function of single batch elements: arrays and pytrees.
        in_axes: which axis of each argument runs over the batch elements: an int for all of them; a tuple or list with an entry
            for each positional argument, itself an int, None (not batched), or a tree of them; or a dict by argument name
            (arguments that it does not name are not batched). Negative axes count from the end. What is not batched may be
            anything: Python numbers and objects that are no arrays reach `fun` as they are.
        out_axes: where the batch axis goes in the output: an int, None for outputs that are the same for all batch elements, or
            a tree of them that is a prefix of the output's.
        axis_name: a name by which `psum`, `pmean`, `axis_index`, ... refer to the batch axis inside `fun`.
        axis_size: the number of batch elements, needed only where no argument is batched.
        strategy: what becomes of a `cond`, `switch` or `while_loop` whose predicate differs between the batch elements:
            "select" computes all branches, and as many steps as the slowest element needs, for all batch elements, and
            chooses; "map" takes the elements through it one by one, so that each runs its own branch or steps alone.
        spmd_axis_name: the axes of a mesh along which the batch is divided in a `shard_map`, or at a sharding constraint,
            inside `fun`; by default every device has all batch elements there, or the partitioner decides.

    Returns:
        A function of the same arguments with batch axes added. Keyword arguments are batched along axis 0, unless `in_axes`
        is a dict.

    Raises:
        AxisError, when the returned function is called: an axis that an argument does not have, or sizes that differ.
        StructureError: `in_axes` or `out_axes` do not fit the arguments or the output.
        ValueError: `strategy` is neither "select" nor "map". TypeError: `spmd_axis_name` has other things than strings.

    Example:
        >>> import pullback as pb
        >>> pb.vmap(lambda x, y: x * y, in_axes=(0, None))(pb.numpy.asarray([1.0, 2.0]), 10.0)
        [10. 20.]:f32[2]:cpu(0)
    """
    check_callable(fun, "vmap")
    if not isinstance(strategy, str) or strategy not in ("select", "map"):
        raise ValueError(f'vmap\'s strategy must be "select" or "map", not {brief(strategy)}.')
    if axis_size is not None and not (isinstance(axis_size, (int, np.integer)) and axis_size >= 0):
        raise AxisError(f"vmap's axis_size must be a non-negative integer, but is {brief(axis_size)}.")
    if axis_name.__hash__ is None:
        raise AxisError(f"vmap's axis_name must be hashable, but is {brief(axis_name)}.")
    names = () if spmd_axis_name is None else spmd_axis_name
    spmd = tuple(names) if isinstance(names, (tuple, list)) else (names,)
    if not all([isinstance(name, str) for name in spmd]):
        raise TypeError(f"vmap's spmd_axis_name is the name of a mesh axis, or a tuple of them, not {brief(spmd_axis_name)}.")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    _check_axes_spec(fun, in_axes)
    if isinstance(in_axes, Mapping):
        in_axes = dict(in_axes)

    def batched(*args: P.args, **kwargs: P.kwargs) -> Any:
        flat = _BatchedArguments(fun, args, kwargs, in_axes)
        batch = Axis(flat.size(axis_size), axis_name, strategy, spmd)
        values = [_move_to_front(leaf, axis) if axis else leaf for leaf, axis in zip(flat.leaves, flat.axes)]
        structure: TreeDef = None
        written: dict[int, Any] = {}

        def of_leaves(*leaves: Any) -> list[Any]:
            nonlocal structure, written
            if flat.refs:
                out, written = call_with_parts(flat.refs.values(), lambda: call_with_refs(flat.call, leaves, flat.refs))
            else:
                out = flat.call(leaves)
            outs, structure = returned_leaves(fun, out, True)
            return [*written.values(), *outs]

        trace, outs = batch_flat(of_leaves, values, [axis is not None for axis in flat.axes], batch, fun)
        for i, value in zip(written, outs):
            flat.refs[i][...] = _place(trace, value, flat.axes[i], fun, lambda i: flat.paths()[i], i)
        outs = outs[len(written) :]
        if out_axes.__class__ is int or out_axes is None:
            specs = [out_axes] * len(outs)
        else:
            what = f"vmap's out_axes={tree_in_brief(out_axes, flat.kind)}"
            specs = flat.kind.broadcast_prefix(out_axes, unflatten(structure, outs), what, "output")

        def path(i: int) -> str:
            return structure_paths(structure, "output")[i]

        placed = [_place(trace, out, axis, fun, path, i) for i, (out, axis) in enumerate(zip(outs, specs, strict=True))]
        return unflatten(structure, placed)

    return wrapped(fun, "vmap", leak_checked(batched))


def _check_axes_spec(fun: Function, in_axes: Any) -> None:
    if isinstance(in_axes, Mapping):
        parameters = parameters_of(fun)
        if parameters is None or any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
            return
        names = [name for name, one in parameters.items() if one.kind is not one.VAR_POSITIONAL]
        if unknown := [name for name in in_axes if name not in names]:
            raise AxisError(f"vmap's in_axes names {unknown[0]!r}, but {describe(fun)} has the parameters {', '.join(names)}.")
    elif (in_axes is not None and not isinstance(in_axes, (*INTEGERS, tuple))) or isinstance(in_axes, bool):
        raise AxisError(
            "vmap's in_axes must be an int, None, a tuple with an entry for each argument, or a dict by argument name, but got"
            f" {brief(in_axes)}."
        )


class _BatchedArguments(FlatArguments):
    """All the arguments of a call, taken apart, with the batch axis of each leaf."""

    __slots__ = ("axes", "names", "refs", "sizes")

    def __init__(self, fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any], in_axes: Any) -> None:
        # Keyword arguments are taken apart as if they were passed by position, behind the others.
        self.names = tuple(kwargs)
        super().__init__(fun, (*args, *kwargs.values()), {}, ())
        self.numbers = range(len(self.args))
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise StructureError(
                f"vmap of {describe(fun)} has in_axes={brief(in_axes)}, of length {len(in_axes)}, but the number of"
                f" arguments that were passed by position is {len(args)}."
                + (" What is passed by name is batched along axis 0; in_axes may be a dict by argument name." if kwargs else "")
            )
        self.axes: list[int | None] = []
        self.refs: dict[int, Ref] = {}  # those that are batched
        self.sizes: list[tuple[int, int, int]] = []  # of batched leaves: which, its axis, how many elements
        for number, arg in enumerate(self.args):
            if in_axes.__class__ is dict:
                spec = in_axes.get(self.name(number))
            elif number >= len(args):
                spec = 0
            else:
                spec = in_axes[number] if isinstance(in_axes, tuple) else in_axes
            leaves, structure = ([arg], LEAF) if isinstance(arg, (Array, Tracer)) else self.kind.flatten(arg)
            self.structures.append(structure)
            if spec.__class__ is int or spec is None:
                own = [spec] * len(leaves)
            else:
                own = self.kind.broadcast_prefix(
                    spec,
                    arg,
                    f"vmap's in_axes for argument {self.name(number)}, {tree_in_brief(spec, self.kind)},",
                    self.name(number),
                )
            for index, (leaf, axis) in enumerate(zip(leaves, own), len(self.leaves)):
                if axis is not None or isinstance(leaf, (Array, Tracer, np.ndarray)):  # anything else may go by untouched
                    path = lambda i=index: f"argument {self.paths()[i]}"  # noqa: E731
                    if leaf.__class__ is Ref:
                        self.refs[index] = leaf
                        leaf = leaf[...]
                    leaf = array_leaf(leaf, path, True, _NOT_BATCHED)
                    shape = type_of(leaf).shape
                if axis is not None:
                    if axis.__class__ is not int or not 0 <= axis < len(shape):
                        axis = _normal_axis(axis, f"argument {self.paths()[index]}", leaf, self.function)
                    self.sizes.append((index, axis, shape[axis]))
                    if is_float0(leaf):  # each of its batch elements is the same
                        leaf, axis = np.zeros((*shape[:axis], *shape[axis + 1 :]), float0), None
                self.leaves.append(leaf)
                self.axes.append(axis)

    def name(self, number: int) -> str:
        positional = len(self.args) - len(self.names)
        return argument_name(self.function, number) if number < positional else self.names[number - positional]

    def call(self, leaves: Sequence[Any]) -> Any:
        trees = self.trees(leaves)
        positional = len(trees) - len(self.names)
        return self.function(*trees[:positional], **dict(zip(self.names, trees[positional:])))

    def size(self, axis_size: int | None) -> int:
        """The number of batch elements. Raises `AxisError` if the arguments do not agree on it, or say nothing of it."""
        first = int(axis_size) if axis_size is not None else self.sizes[0][2] if self.sizes else None
        if first is None:
            raise AxisError(
                f"vmap of {describe(self.function)} has no batched argument, so the number of batch elements is unknown:"
                " batch an argument by in_axes, or pass axis_size."
            )
        if all([size == first for _, _, size in self.sizes]):
            return first
        found = [f"axis_size is {axis_size}"] if axis_size is not None else []
        paths = self.paths()
        found += [f"argument {paths[i]} has size {size} along axis {axis}" for i, axis, size in self.sizes]
        raise AxisError(
            f"vmap of {describe(self.function)} was given batches of different sizes: {'; '.join(found)}. Batch along axes of"
            " one size, and give None in in_axes for what is not batched."
        )


_NOT_BATCHED = "leave it out of the batch (None in in_axes, which may be a dict by argument name)"


def _normal_axis(axis: Any, what: str, value: Any, fun: Function, output: bool = False) -> int:
    """A batch axis of an argument or output of `fun` as a non-negative int. Raises `AxisError` if there is no such axis."""
    ndim: int = value.ndim
    if not isinstance(axis, INTEGERS) or isinstance(axis, bool):
        raise AxisError(f"vmap's axis for {what} must be an int or None, but is {brief(axis)}.")
    if not -ndim <= axis < ndim:
        axes = "whose only axis is 0." if ndim == 1 else f"whose axes are 0 to {ndim - 1}."
        if output:
            raise AxisError(
                f"vmap of {describe(fun)} was asked by out_axes to put the batch axis of {what} at {axis}, but with that axis"
                f" it has type {type_of(value)}, {axes}"
            )
        raise AxisError(
            f"vmap of {describe(fun)} was asked to batch {what} along axis {axis}, but it has type {type_of(value)}, "
            + (axes if ndim else "which has no axes; use None for what is not batched.")
        )
    return int(axis) % ndim


def _move_to_front(value: Any, axis: int) -> Any:
    if isinstance(value, Tracer):
        value.note_batch(frozenset({axis}))
    others = [i for i in range(type_of(value).ndim) if i != axis]
    return transpose(value, permutation=(axis, *others))


def _place(trace: Any, out: Any, axis: Any, fun: Function, path: Callable[[int], str], number: int) -> Any:
    """An output with its batch axis where `out_axes` wants it; `path(number)` is how errors call it."""
    if axis is None:
        if out.__class__ is Batched and out.owner is trace:
            raise AxisError(
                f"vmap of {describe(fun)} has None in out_axes for {path(number)}, of type {out.type}, which differs between"
                " the batch elements. Give the axis where its batch should go."
            )
        return out
    if is_float0(out):
        out = np.zeros((trace.size, *out.shape), float0)
        return np.moveaxis(out, 0, _normal_axis(axis, path(number), out, fun, True))
    value = materialize(trace, out)
    if axis.__class__ is int and axis == 0:
        return value
    axis, ndim = _normal_axis(axis, path(number), value, fun, True), type_of(value).ndim
    return transpose(value, permutation=(*range(1, axis + 1), 0, *range(axis + 1, ndim)))
