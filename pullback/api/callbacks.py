"""Python functions in the middle of transformed and compiled ones: pure_callback, io_callback."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from pullback.api.functions import check_callable
from pullback.api.traced import call_paths
from pullback.control.callback import io_callback as io_primitive
from pullback.control.callback import pure_callback as pure_primitive
from pullback.core.brief import brief
from pullback.core.dtypes import requested
from pullback.core.errors import LeafError
from pullback.core.source import api_boundary, describe, name_of
from pullback.core.trees import TreeDef, array_leaf, check_like, kind_of, structure_paths, unflatten
from pullback.core.types import ArrayType
from pullback.program.equality import Keyed

_METHODS = ("sequential", "expand_dims", "broadcast_all")


class OnTrees(Keyed):
    """A user's function of trees, as a function of the leaves of its arguments that returns the leaves of its result.

    Equal to another that does the same, so that Programs with it can be compared. Without `results`, what the function returns
    is ignored.
    """

    __slots__ = ("function", "names", "results", "structure")

    def __init__(
        self, function: Callable[..., Any], structure: TreeDef, results: TreeDef = None, names: tuple[str, ...] = ()
    ) -> None:
        self.function = function
        self.structure = structure
        self.results = results
        self.names = names
        self.key = function, structure, results

    def __call__(self, *leaves: Any) -> Sequence[Any]:
        args, kwargs = unflatten(self.structure, leaves)
        out = self.function(*args, **kwargs)
        if self.results is None:
            return ()
        found, structure = kind_of(self.function).flatten(out)
        check_like(
            structure,
            self.results,
            "output",
            "result_shape_dtypes has",
            lambda where: f"The callback {describe(self.function)} returned another structure: {where}.",
        )
        return found

    def __repr__(self) -> str:
        return name_of(self.function, repr(self.function))


def _prepared(
    what: str, callback: Callable[..., Any], result_shape_dtypes: Any, sharding: None, args: Any, kwargs: Any
) -> tuple[list[Any], dict[str, Any], TreeDef]:
    """The leaves of a callback's arguments, the parameters of its operation, and the structure of its result."""
    if sharding is not None:
        raise NotImplementedError(f"{what} cannot spread its results over devices: leave sharding out.")
    check_callable(callback, what)
    trees = kind_of(callback)
    given, structure = trees.flatten((args, kwargs))
    path_of = lambda i: f"argument {call_paths(callback, args, kwargs, trees)[i]}"  # noqa: E731
    leaves = [array_leaf(leaf, functools.partial(path_of, i)) for i, leaf in enumerate(given)]
    announced, results = trees.flatten(result_shape_dtypes)
    paths = structure_paths(results, "result")
    for path, leaf in zip(paths, announced):
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            raise LeafError(
                f"{what}'s result_shape_dtypes must have a shape and a dtype for each array that the callback returns, as"
                f" pb.ArrayType(shape, dtype) has, but {path} is {brief(leaf)}."
            )
    types = tuple([ArrayType(leaf.shape, requested(leaf.dtype)) for leaf in announced])
    names = tuple([f"{path} of the callback {describe(callback)}" for path in paths])
    return leaves, {"function": OnTrees(callback, structure, results, names), "types": types}, results


@api_boundary
def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: None = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Call a Python function that has no side effects in the middle of a computation, and go on with what it returns.

    Works eagerly and in compiled functions, on the CPU. The function may be called any number of times: not at all where its
    result is not used.

    Arguments:
        callback: called with NumPy arrays, its own copies, in place of the arrays in `args` and `kwargs`. What it raises comes
            out of the call that was running. It may itself use pullback.
        result_shape_dtypes: a tree like its result, with something that has a shape and a dtype (a `pb.ArrayType`) for each
            array.
        args, kwargs: trees of arrays.
        sharding: None; results are not spread over devices.
        vmap_method: what `vmap` does: None raises; "sequential" calls the function for each batch element, in order;
            "expand_dims" and "broadcast_all" call it once with the batch as the first axis of all arrays, of size 1, or
            repeated, for those that are not batched. The function must then return a batch.

    Returns:
        What the function returned, as arrays.

    Raises:
        StructureError, ShapeError, DtypeError: it returned something else than was announced. GradientError: a derivative was
            asked for; write it with `custom_jvp` or `custom_vjp`.

    Example:
        >>> import numpy as np, pullback as pb
        >>> @pb.jit
        ... def f(x):
        ...     return 2.0 * pb.pure_callback(np.sort, x, x)
        >>> f(pb.numpy.asarray([3.0, 1.0, 2.0]))
        [2. 4. 6.]:f32[3]:cpu(0)
    """
    if vmap_method is not None and not (isinstance(vmap_method, str) and vmap_method in _METHODS):
        legacy = " 'legacy_vectorized' is not supported: 'expand_dims' or 'broadcast_all' say which of the two is meant."
        raise ValueError(
            f"pure_callback's vmap_method must be None or one of {', '.join(map(repr, _METHODS))}, but got"
            f" {brief(vmap_method)}." + (legacy if isinstance(vmap_method, str) and vmap_method == "legacy_vectorized" else "")
        )
    leaves, params, structure = _prepared("pure_callback", callback, result_shape_dtypes, sharding, args, kwargs)
    return unflatten(structure, pure_primitive(*leaves, method=vmap_method, **params))


@api_boundary
def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: None = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function that has side effects in the middle of a computation, and go on with what it returns.

    It is called exactly once wherever this line is computed: never dropped, merged with another call or repeated. Under
    `vmap` it is called for each batch element, in order.

    Arguments:
        callback, result_shape_dtypes, args, kwargs: as for `pure_callback`; None announces no result.
        sharding: None; results are not spread over devices.
        ordered: whether such calls must happen in the order in which they are written, in loops too. On the CPU they always do.

    Returns:
        What the function returned, as arrays.

    Raises:
        StructureError, ShapeError, DtypeError: it returned something else than was announced. GradientError: a derivative was
            asked for.

    Example:
        >>> import numpy as np, pullback as pb
        >>> numbers = iter([10.0, 20.0])
        >>> @pb.jit
        ... def f(x):
        ...     return x + pb.io_callback(lambda: np.float32(next(numbers)), pb.ArrayType((), "float32"))
        >>> f(1.0), f(1.0)
        (11.0:f32[]:cpu(0), 21.0:f32[]:cpu(0))
    """
    leaves, params, structure = _prepared("io_callback", callback, result_shape_dtypes, sharding, args, kwargs)
    return unflatten(structure, io_primitive(*leaves, method="sequential", **params))
