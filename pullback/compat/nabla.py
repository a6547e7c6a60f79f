"""Nabla's names over pullback: a program written for Nabla runs when its import reads `import pullback.compat.nabla as nb`.

Where Nabla's conventions are its own (`axes=`, `keep_dims=`, `transpose` of two axes, shapes given as one tuple), the
functions here translate; the rest are pullback's own, under both names the same object. A name that is not here raises
AttributeError with pullback's spelling. What differs from Nabla, and is meant to: `xpr` returns a Program, which prints as
text; shapes are checked when an operation is applied; and random numbers differ from run to run unless `manual_seed` or
`seed=` says otherwise.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

import pullback as pb
import pullback.numpy as pnp
from pullback.core.dtypes import DTYPES

__all__ = [
    "DType", "abs", "add", "arange", "argmax", "array", "broadcast_to", "cast", "concatenate", "cos", "div", "equal", "exp",
    "floor", "floordiv", "full_like", "grad", "greater", "greater_equal", "jacfwd", "jacrev", "jit", "jvp", "less",
    "less_equal", "log", "logical_not", "logsumexp", "manual_seed", "matmul", "max", "maximum", "mean", "minimum", "mod", "mul",
    "ndarange", "negate", "not_equal", "ones", "ones_like", "permute", "pow", "rand", "rand_like", "randn", "randn_like",
    "relu", "reshape", "sigmoid", "sin", "softmax", "split", "sqrt", "squeeze", "stack", "sub", "sum", "tan", "tanh", "tensor",
    "transpose", "tree_flatten", "tree_map", "tree_unflatten", "triu", "unsqueeze", "value_and_grad", "vjp", "vmap", "where",
    "xpr", "zeros", "zeros_like",
]  # fmt: skip

Function = Callable[..., Any]
Axes = int | Sequence[int] | None
Shape = int | Sequence[int]

DType = SimpleNamespace(**DTYPES)  # nb.DType.float32

# ---- the same as pullback's -------------------------------------------------------------------------------------------

vjp = pb.vjp
jvp = pb.jvp
xpr = pb.xpr

add = pnp.add
mul = pnp.multiply
sub = pnp.subtract
div = pnp.divide
floordiv = pnp.floor_divide
mod = pnp.remainder
pow = pnp.power
negate = pnp.negative
abs = pnp.abs
maximum = pnp.maximum
minimum = pnp.minimum
equal = pnp.equal
not_equal = pnp.not_equal
greater = pnp.greater
greater_equal = pnp.greater_equal
less = pnp.less
less_equal = pnp.less_equal
logical_not = pnp.logical_not
where = pnp.where
sin = pnp.sin
cos = pnp.cos
tan = pnp.tan
tanh = pnp.tanh
exp = pnp.exp
log = pnp.log
sqrt = pnp.sqrt
floor = pnp.floor
matmul = pnp.matmul
zeros_like = pnp.zeros_like
ones_like = pnp.ones_like
full_like = pnp.full_like
broadcast_to = pnp.broadcast_to
reshape = pnp.reshape
triu = pnp.triu
tree_map = pb.tree.map
tree_flatten = pb.tree.flatten
tree_unflatten = pb.tree.unflatten


# ---- transformations --------------------------------------------------------------------------------------------------


def _decorator(transform: Function, fun: Function | None, *options: Any) -> Function:
    """A transformation applied now, or, where the function is yet to come, by a decorator."""
    return transform(fun, *options) if fun is not None else lambda fun: transform(fun, *options)


def grad(fun: Function | None = None, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """The gradient of a function, as `pb.grad`; without `fun`, a decorator.

    Example:
        >>> grad(lambda x: x * x)(3.0)
        6.0:f32[]:cpu(0)
    """
    return _decorator(pb.grad, fun, argnums, has_aux)


def value_and_grad(fun: Function | None = None, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """The value and the gradient of a function, as `pb.value_and_grad`; without `fun`, a decorator.

    Example:
        >>> value_and_grad(lambda x: x * x)(3.0)
        (9.0:f32[]:cpu(0), 6.0:f32[]:cpu(0))
    """
    return _decorator(pb.value_and_grad, fun, argnums, has_aux)


def vmap(fun: Function | None = None, in_axes: Any = 0, out_axes: Any = 0) -> Function:
    """A function of a batch, as `pb.vmap`; without `fun`, a decorator. Axes in a list serve as a tuple.

    Example:
        >>> vmap(lambda x, y: x * y, in_axes=[0, None])(array([1.0, 2.0]), 10.0)
        [10. 20.]:f32[2]:cpu(0)
    """
    return _decorator(pb.vmap, fun, in_axes, out_axes)


def jit(fun: Function | None = None, static: bool = True, show_graph: bool = False, auto_device: bool = True) -> Function:
    """A compiled function, as `pb.jit`; without `fun`, a decorator.

    Arguments:
        fun: a function of arrays and pytrees.
        show_graph: print the graph, StableHLO and what XLA makes of it, when it is compiled.
        static, auto_device: Nabla's options for tracing and placing arrays; without effect here.

    Example:
        >>> jit(lambda x: x * x)(3.0)
        9.0:f32[]:cpu(0)
    """
    chosen = pb.jit(show_graph=show_graph)
    return chosen if fun is None else chosen(fun)


def _jacobian(transform: Function, fun: Function, argnums: Any, has_aux: bool) -> Function:
    """A Jacobian by some arguments; where `argnums` is None, by all of them, and a tuple if they are several."""
    if argnums is not None:
        return transform(fun, argnums, has_aux)  # type: ignore[no-any-return]

    def jacobian(*args: Any) -> Any:
        return transform(fun, 0 if len(args) == 1 else tuple(range(len(args))), has_aux)(*args)

    return jacobian


def jacrev(func: Function, argnums: int | Sequence[int] | None = None, has_aux: bool = False) -> Function:
    """The Jacobian by reverse mode, as `pb.jacrev`; without `argnums`, by every argument.

    Example:
        >>> jacrev(lambda x: x * x)(array([1.0, 2.0]))
        [[2. 0.]
         [0. 4.]]:f32[2,2]:cpu(0)
    """
    return _jacobian(pb.jacrev, func, argnums, has_aux)


def jacfwd(func: Function, argnums: int | Sequence[int] | None = None, has_aux: bool = False) -> Function:
    """The Jacobian by forward mode, as `pb.jacfwd`; without `argnums`, by every argument.

    Example:
        >>> jacfwd(lambda x: x * x)(array([1.0, 2.0]))
        [[2. 0.]
         [0. 4.]]:f32[2,2]:cpu(0)
    """
    return _jacobian(pb.jacfwd, func, argnums, has_aux)


# ---- new arrays -------------------------------------------------------------------------------------------------------


def array(data: Any, dtype: Any = np.float32) -> pb.Array:
    """An array of numbers or nested lists; of float32 unless `dtype` says otherwise, integers too.

    Example:
        >>> array([1, 2, 3])
        [1. 2. 3.]:f32[3]:cpu(0)
    """
    return pnp.asarray(data, dtype)


tensor = array


def arange(start: float, stop: float | None = None, step: float | None = None, dtype: Any = np.float32) -> pb.Array:
    """Numbers from `start` (0 if there is one number only) up to and without `stop`, in steps of `step`, as float32.

    Example:
        >>> arange(3)
        [0. 1. 2.]:f32[3]:cpu(0)
    """
    begin, end = (0, start) if stop is None else (start, stop)
    return pnp.arange(begin, end, 1 if step is None else step, dtype=dtype)


def ndarange(shape: Shape, dtype: Any = np.float32) -> pb.Array:
    """0, 1, 2, ... in an array of a shape.

    Example:
        >>> ndarange((2, 2))
        [[0. 1.]
         [2. 3.]]:f32[2,2]:cpu(0)
    """
    shape = _shape(shape)
    return pnp.reshape(arange(int(np.prod(shape)), dtype=dtype), shape)


def zeros(shape: Shape, dtype: Any = np.float32) -> pb.Array:
    """Zeros, as float32 unless `dtype` says otherwise.

    Example:
        >>> zeros((2,))
        [0. 0.]:f32[2]:cpu(0)
    """
    return pnp.zeros(_shape(shape), dtype)


def ones(shape: Shape, dtype: Any = np.float32) -> pb.Array:
    """Ones, as float32 unless `dtype` says otherwise.

    Example:
        >>> ones((2,))
        [1. 1.]:f32[2]:cpu(0)
    """
    return pnp.ones(_shape(shape), dtype)


_generator = np.random.default_rng()


def manual_seed(seed: int) -> None:
    """Start the random numbers that follow, those without a `seed=` of their own, at a known place.

    Example:
        >>> manual_seed(7)
        >>> first = randn((3,))
        >>> manual_seed(7)
        >>> bool((randn((3,)) == first).all())
        True
    """
    global _generator
    _generator = np.random.default_rng(seed)


def randn(shape: Shape = (), dtype: Any = np.float32, mean: float = 0.0, std: float = 1.0, seed: int | None = None) -> pb.Array:
    """Normally distributed random numbers.

    Arguments:
        shape: an int, or a tuple of ints.
        mean, std: of the distribution.
        seed: the same seed gives the same numbers; without one, they go on from `manual_seed`, or differ in every run.

    Example:
        >>> randn((5,)).shape
        (5,)
    """
    source = _generator if seed is None else np.random.default_rng(seed)
    return pnp.asarray(source.normal(mean, std, _shape(shape)), dtype)


def rand(
    shape: Shape = (), dtype: Any = np.float32, lower: float = 0.0, upper: float = 1.0, seed: int | None = None
) -> pb.Array:
    """Random numbers from `lower` up to `upper`, all equally likely; `seed` as in `randn`.

    Example:
        >>> bool((rand((5,), lower=2.0, upper=3.0) >= 2.0).all())
        True
    """
    source = _generator if seed is None else np.random.default_rng(seed)
    return pnp.asarray(source.uniform(lower, upper, _shape(shape)), dtype)


def randn_like(template: Any, mean: float = 0.0, std: float = 1.0, seed: int | None = None) -> pb.Array:
    """`randn` of the shape and dtype of an array.

    Example:
        >>> randn_like(zeros((2, 3))).shape
        (2, 3)
    """
    return randn(template.shape, template.dtype, mean, std, seed)


def rand_like(template: Any, lower: float = 0.0, upper: float = 1.0, seed: int | None = None) -> pb.Array:
    """`rand` of the shape and dtype of an array.

    Example:
        >>> rand_like(zeros((2, 3))).shape
        (2, 3)
    """
    return rand(template.shape, template.dtype, lower, upper, seed)


def _shape(shape: Shape) -> tuple[int, ...]:
    return (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(shape)


# ---- reductions: axes=, keep_dims= ------------------------------------------------------------------------------------


def _axes(axes: Axes) -> int | tuple[int, ...] | None:
    return axes if axes is None or isinstance(axes, int) else tuple(axes)


def sum(arg: Any, axes: Axes = None, keep_dims: bool = False) -> Any:
    """The sum over some axes, or over all.

    Example:
        >>> sum(ndarange((2, 3)), axes=0)
        [3. 5. 7.]:f32[3]:cpu(0)
    """
    return pnp.sum(arg, axis=_axes(axes), keepdims=keep_dims)


def mean(arg: Any, axes: Axes = None, keep_dims: bool = False) -> Any:
    """The mean over some axes, or over all.

    Example:
        >>> mean(ndarange((2, 3)), axes=[1], keep_dims=True)
        [[1.]
         [4.]]:f32[2,1]:cpu(0)
    """
    return pnp.mean(arg, axis=_axes(axes), keepdims=keep_dims)


def max(arg: Any, axes: Axes = None, keep_dims: bool = False) -> Any:
    """The largest value over some axes, or over all.

    Example:
        >>> max(ndarange((2, 3)), axes=-1)
        [2. 5.]:f32[2]:cpu(0)
    """
    return pnp.max(arg, axis=_axes(axes), keepdims=keep_dims)


def argmax(arg: Any, axes: int | None = None, keep_dims: bool = False) -> Any:
    """Where the first of the largest values is, along an axis, or in the flattened array.

    Example:
        >>> argmax(array([1, 5, 2, 5]))
        1:i32[]:cpu(0)
    """
    return pnp.argmax(arg, axis=axes, keepdims=keep_dims)


def logsumexp(arg: Any, axis: int | None = None, keep_dims: bool = False) -> Any:
    """The logarithm of the sum of exponentials; large values do not overflow.

    Example:
        >>> logsumexp(array([1000.0, -1000.0]))
        1000.0:f32[]:cpu(0)
    """
    return pb.nn.logsumexp(arg, axis=axis, keepdims=keep_dims)


def softmax(arg: Any, axis: int = -1) -> Any:
    """Positive numbers that sum to 1 along an axis, in proportion to the exponentials of `arg`.

    Example:
        >>> softmax(array([0.0, 0.0]))
        [0.5 0.5]:f32[2]:cpu(0)
    """
    return pb.nn.softmax(arg, axis=axis)


# ---- one array --------------------------------------------------------------------------------------------------------


def relu(arg: Any) -> Any:
    """`arg` where it is positive, and 0 elsewhere.

    Example:
        >>> relu(array([-1.0, 2.0]))
        [0. 2.]:f32[2]:cpu(0)
    """
    return pnp.where(pnp.greater(arg, 0), arg, 0)


def sigmoid(arg: Any) -> Any:
    """1 / (1 + exp(-arg)); large values do not overflow.

    Example:
        >>> sigmoid(0.0)
        0.5:f32[]:cpu(0)
    """
    return pb.nn.sigmoid(arg)


def cast(arg: Any, dtype: Any) -> Any:
    """`arg` in another dtype.

    Example:
        >>> cast(array([1.5]), DType.int32)
        [1]:i32[1]:cpu(0)
    """
    return pnp.asarray(arg, dtype)


# ---- shapes -----------------------------------------------------------------------------------------------------------


def transpose(arg: Any, axis_1: int = -2, axis_2: int = -1) -> Any:
    """`arg` with two axes swapped: the last two, unless others are named.

    Example:
        >>> transpose(zeros((2, 3, 4))).shape
        (2, 4, 3)
    """
    return pnp.swapaxes(arg, axis_1, axis_2)


def permute(arg: Any, axes: Sequence[int]) -> Any:
    """`arg` with its axes in another order: those of `arg` that `axes` lists.

    Example:
        >>> permute(zeros((2, 3, 4)), (2, 0, 1)).shape
        (4, 2, 3)
    """
    return pnp.transpose(arg, tuple(axes))


def unsqueeze(arg: Any, axes: Axes = None) -> Any:
    """`arg` with new axes of size 1, counted in the result.

    Example:
        >>> unsqueeze(zeros((3,)), [-1]).shape
        (3, 1)
    """
    return arg if axes is None else pnp.expand_dims(arg, _axes(axes))


def squeeze(arg: Any, axes: Axes = None) -> Any:
    """`arg` without some axes of size 1.

    Example:
        >>> squeeze(zeros((3, 1)), [-1]).shape
        (3,)
    """
    return arg if axes is None else pnp.squeeze(arg, _axes(axes))


def concatenate(args: Sequence[Any], axis: int = 0) -> Any:
    """Arrays one after the other along an axis that they have.

    Example:
        >>> concatenate([zeros((1,)), ones((1,))])
        [0. 1.]:f32[2]:cpu(0)
    """
    return pnp.concatenate(args, axis=axis)


def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Arrays of one shape along a new axis.

    Example:
        >>> stack([zeros((2,)), ones((2,))]).shape
        (2, 2)
    """
    return pnp.stack(arrays, axis=axis)


def split(arg: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """An array in pieces of these sizes along an axis.

    Example:
        >>> [piece.shape for piece in split(zeros((5,)), [2, 3])]
        [(2,), (3,)]
    """
    return list(pnp.split(arg, [int(place) for place in np.cumsum(sizes)[:-1]], axis=axis))


# ---- what is not here -------------------------------------------------------------------------------------------------

_SPELLINGS = {
    "cond": "pb.lax.cond",
    "djit": "pb.jit",
    "gather": "x[indices]",
    "he_normal": "pb.nn.initializers.he_normal",
    "he_uniform": "pb.nn.initializers.he_uniform",
    "incr_batch_dim_ctr": "pb.vmap (batch axes are its own affair)",
    "decr_batch_dim_ctr": "pb.vmap (batch axes are its own affair)",
    "pullback": "pb.vjp",
    "pushfwd": "pb.jvp",
    "scatter": "x.at[indices].set(values)",
    "shallow_copy": "the array itself (arrays are immutable)",
    "array_slice": "x[start:stop]",
    "Tensor": "pb.Array",
}


def _is_here(spelling: str) -> bool:
    """Whether a spelling names something that pullback has; what is not a name under `pb` counts as such."""
    found: Any = pb
    for part in spelling.split()[0].split(".")[1:] if spelling.startswith("pb.") else ():
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def __getattr__(name: str) -> NoReturn:
    hint = ""
    if name in _SPELLINGS and _is_here(_SPELLINGS[name]):
        hint = f" pullback's spelling is {_SPELLINGS[name]}."
    elif not name.startswith("_") and hasattr(pnp, name):
        hint = f" pullback's spelling is pb.numpy.{name}."
    elif near := difflib.get_close_matches(name, __all__, 1):
        hint = f" Did you mean {near[0]}?"
    raise AttributeError(f"Nabla's name {name!r} is not in pullback.compat.nabla.{hint}", name=name)


def __dir__() -> list[str]:
    return sorted(__all__)
