"""Derivatives of functions of pytrees: jvp, vjp, linearize, linear_transpose, grad, Jacobians, Hessians."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.api.functions import FlatArguments, Function, check_callable, leaf_paths, normalize_argnums, wrapped
from pullback.core.array import Array
from pullback.core.axes import AxisSize
from pullback.core.dtypes import is_inexact, kind
from pullback.core.errors import GradientError, ShapeError, StructureError
from pullback.core.source import api_boundary, describe
from pullback.core.trees import LEAF, TreeDef, array_leaf, array_leaves, flatten, unflatten
from pullback.core.tracing import Tracer, type_of
from pullback.core.types import ArrayType, array_type
from pullback.core.zero import ZERO, zeros
from pullback.ops.convert import convert_element_type
from pullback.ops.shape import reshape, transpose
from pullback.transforms.batch import batch_flat, materialize
from pullback.transforms.jvp import jvp_flat
from pullback.transforms.linearize import Linearized, linearize_flat
from pullback.transforms.transpose import transpose_flat

float0 = np.dtype([("float0", np.void, 0)])
"""The dtype of the tangents of integers and bools: it holds nothing, since they have none."""


def _the_output() -> str:
    return "the output"


class FlatResult:
    """A flat function that remembers the structure of what the user's function returned.

    Auxiliary data are returned too, behind the outputs, so that they come out as values rather than as tracers.
    """

    def __init__(self, call: Callable[[Sequence[Any]], Any], has_aux: bool, transformation: str, function: Function) -> None:
        self.call = call
        self.has_aux = has_aux
        self.transformation = transformation
        self.function = function
        self.structure: TreeDef = None
        self.count = 0  # how many of the returned leaves are outputs
        self._aux_leaves: list[Any] = []
        self._aux_structure: TreeDef = None

    def __call__(self, *leaves: Any) -> list[Any]:
        out = self.call(leaves)
        if not self.has_aux:
            found, self.structure = array_leaves(out, _the_output)
            self.count = len(found)
            return found
        if not isinstance(out, tuple) or len(out) != 2:
            raise StructureError(
                f"{self.transformation} with has_aux=True needs a function that returns a pair (output, auxiliary data),"
                f" but {describe(self.function)} returned {_brief(out)}."
            )
        found, self.structure = array_leaves(out[0], _the_output)
        self.count = len(found)
        self._aux_leaves, self._aux_structure = flatten(out[1])
        return found + [leaf for leaf in self._aux_leaves if isinstance(leaf, Tracer)]

    def output(self, values: Sequence[Any]) -> Any:
        """The user's output, of these values of the leaves that were returned."""
        return unflatten(self.structure, values[: self.count])

    def aux(self, values: Sequence[Any]) -> Any:
        """The auxiliary data, likewise."""
        traced = iter(values[self.count :])
        return unflatten(
            self._aux_structure, [next(traced) if isinstance(leaf, Tracer) else leaf for leaf in self._aux_leaves]
        )


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}... of type {type(value).__name__}"


# ---- forward ----------------------------------------------------------------------------------------------------------


@api_boundary
def jvp(fun: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> tuple[Any, ...]:
    """The value of a function, and its directional derivative: the Jacobian times a vector (forward mode).

    Arguments:
        fun: a function of arrays and pytrees.
        primals: the arguments to evaluate it at, a tuple or list.
        tangents: the direction, of the same structure, shapes and dtypes. The tangent of an integer or bool leaf is None or
            of dtype `float0`.
        has_aux: whether `fun` returns a pair, whose second member is passed on without a derivative.

    Returns:
        `(output, output tangent)`, and the auxiliary data if there are any.

    Raises:
        StructureError: the tangents' structure is not that of the primals. ShapeError, DtypeError: nor are their types.

    Example:
        >>> import pullback as pb
        >>> pb.jvp(lambda x: x * x, (3.0,), (1.0,))
        (9.0:f32[]:cpu(0), 6.0:f32[]:cpu(0))
    """
    check_callable(fun, "jvp")
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (tuple, list)):
            raise TypeError(
                f"jvp takes its {name} as a tuple or list with an entry for each argument, but got {_brief(given)}."
                f" Write ({name},) for a single argument."
            )
    if len(primals) != len(tangents):
        raise StructureError(f"jvp got {len(primals)} primals but {len(tangents)} tangents; it needs one tangent for each.")
    flat = FlatArguments(fun, tuple(primals), {}, range(len(primals)))
    given = _tangent_leaves(flat, tangents)
    result = FlatResult(flat.call, has_aux, "jvp", fun)
    outs, out_tangents = jvp_flat(result, flat.leaves, given, fun)
    shown = [_tangent_out(t, type_of(out)) for t, out in zip(out_tangents, outs, strict=True)]
    pair = result.output(outs), result.output(shown)
    return (*pair, result.aux(outs)) if has_aux else pair


def _tangent_leaves(flat: FlatArguments, tangents: Sequence[Any]) -> list[Any]:
    """The tangents' leaves, each fit for its primal; ZERO for those of integers."""
    found: list[Any] = []
    start = 0
    for number, (structure, tangent) in enumerate(zip(flat.structures, tangents, strict=True)):
        if structure is LEAF and tangent.__class__ is Array and tangent.type is type_of(flat.leaves[start]):
            if is_inexact(tangent.type.dtype):
                found.append(tangent)
                start += 1
                continue
        leaves, theirs = flatten(tangent, lambda leaf: leaf is None or _is_float0(leaf))
        if theirs != structure and structure is not theirs:
            raise StructureError(
                f"jvp's tangents[{number}] has structure {theirs}, but primals[{number}] has {structure}; they must be equal."
            )
        primals = flat.leaves[start : start + len(leaves)]
        start += len(leaves)
        for index, (leaf, primal) in enumerate(zip(leaves, primals, strict=True)):
            found.append(_fit_tangent(leaf, type_of(primal), lambda n=number, i=index: f"tangents[{n}] (leaf {i})"))  # type: ignore[misc]
    return found


def _is_float0(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray) and leaf.dtype == float0


def _fit_tangent(tangent: Any, primal: ArrayType, path: Callable[[], str], what: str = "primal") -> Any:
    if not is_inexact(primal.dtype):
        if tangent is None or _is_float0(tangent):
            return ZERO
        raise GradientError(
            f"{path()} is {_brief(tangent)}, but its {what} is {primal}: integers and bools have no tangent."
            " Pass None, or zeros of dtype pb.float0."
        )
    value = array_leaf(tangent, path)
    type = type_of(value)
    if type.shape != primal.shape:
        raise ShapeError(f"{path()} has type {type}, but its {what} has type {primal}; the shapes must be equal.")
    if type.dtype is not primal.dtype:
        if not type.weak:
            raise GradientError(
                f"{path()} has type {type}, but its {what} has type {primal}; the dtypes must be equal. Convert with .astype()."
            )
        value = convert_element_type(value, new_dtype=primal.dtype)
    return value


def _tangent_out(tangent: Any, primal: ArrayType) -> Any:
    if not is_inexact(primal.dtype):
        return np.zeros(primal.shape, float0)
    return zeros(primal) if tangent is ZERO else tangent


# ---- linearize, vjp -----------------------------------------------------------------------------------------------------


@api_boundary
def linearize(fun: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of a function at a point, and its derivative there as a linear function to apply many times.

    Returns:
        `(output, f_jvp)`, and the auxiliary data if `has_aux`; `f_jvp(*tangents)` is what `jvp` would give, at no cost of
        evaluating `fun` again.

    Example:
        >>> import pullback as pb
        >>> y, f_jvp = pb.linearize(lambda x: x * x * x, 2.0)
        >>> y, f_jvp(1.0)
        (8.0:f32[]:cpu(0), 12.0:f32[]:cpu(0))
    """
    check_callable(fun, "linearize")
    flat = FlatArguments(fun, primals, {}, range(len(primals)))
    active = [is_inexact(type_of(leaf).dtype) for leaf in flat.leaves]
    result = FlatResult(flat.call, has_aux, "linearize", fun)
    linearized = linearize_flat(result, flat.leaves, active, fun)
    out_types = [type_of(value) for value in linearized.values[: result.count]]

    def f_jvp(*tangents: Any) -> Any:
        if len(tangents) != len(primals):
            raise StructureError(f"This linear function takes {len(primals)} tangents, but got {len(tangents)}.")
        given = _tangent_leaves(flat, tangents)
        outs = linearized.push([tangent for tangent, flag in zip(given, active) if flag])
        return result.output([_tangent_out(t, type) for t, type in zip(outs, out_types)])

    value = result.output(linearized.values)
    pushed = wrapped(fun, "jvp_of", f_jvp)
    return (value, pushed, result.aux(linearized.values)) if has_aux else (value, pushed)


@api_boundary
def vjp(fun: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of a function, and a function from cotangents of its output to those of its arguments (reverse mode).

    Arguments:
        fun: a function of arrays and pytrees.
        primals: the arguments to evaluate it at.
        has_aux: whether `fun` returns a pair, whose second member is passed on without a derivative.

    Returns:
        `(output, f_vjp)`, and the auxiliary data if `has_aux`. `f_vjp(cotangent)` takes a tree like the output and returns a
        tuple with a tree for each argument; integer leaves get zeros of dtype `float0`. It may be called many times.

    Example:
        >>> import pullback as pb
        >>> y, f_vjp = pb.vjp(lambda x, y: x * y, 3.0, 4.0)
        >>> f_vjp(1.0)
        (4.0:f32[]:cpu(0), 3.0:f32[]:cpu(0))
    """
    check_callable(fun, "vjp")
    flat = FlatArguments(fun, primals, {}, range(len(primals)))
    active = [is_inexact(type_of(leaf).dtype) for leaf in flat.leaves]
    result = FlatResult(flat.call, has_aux, "vjp", fun)
    linearized = linearize_flat(result, flat.leaves, active, fun)
    types = [type_of(leaf) for leaf in flat.leaves]
    out_types = [type_of(value) for value in linearized.values[: result.count]]

    def f_vjp(cotangent: Any) -> tuple[Any, ...]:
        given = _cotangent_leaves(cotangent, result.structure, out_types)
        return tuple(flat.trees(_gradients(linearized, given, types, active)))

    value = result.output(linearized.values)
    pulled = wrapped(fun, "vjp_of", f_vjp)
    return (value, pulled, result.aux(linearized.values)) if has_aux else (value, pulled)


def _cotangent_leaves(cotangent: Any, structure: TreeDef, types: Sequence[ArrayType]) -> list[Any]:
    leaves, theirs = flatten(cotangent, lambda leaf: leaf is None or _is_float0(leaf))
    if theirs is not structure and theirs != structure:
        raise StructureError(f"The cotangent has structure {theirs}, but the output has {structure}; they must be equal.")
    paths = leaf_paths(cotangent, "cotangent") if len(leaves) > 1 else ["cotangent"]
    return [
        _fit_tangent(leaf, type, lambda i=i: paths[i], "output")  # type: ignore[misc]
        for i, (leaf, type) in enumerate(zip(leaves, types, strict=True))
    ]


def _gradients(
    linearized: Linearized, cotangents: Sequence[Any], types: Sequence[ArrayType], active: Sequence[bool]
) -> list[Any]:
    rest = [ZERO] * (len(linearized.values) - len(cotangents))  # auxiliary data have no cotangent
    found = iter(linearized.pull([*cotangents, *rest]))
    return [_tangent_out(next(found) if flag else ZERO, type) for type, flag in zip(types, active, strict=True)]


@api_boundary
def linear_transpose(fun: Function, *primals: Any) -> Function:
    """The transpose of a linear function, without evaluating it at a point.

    Arguments:
        fun: a function that is linear in all of its arguments.
        primals: for each argument, something with its shape and dtype: an array or an `ArrayType`, in trees of any structure.

    Returns:
        A function from a cotangent (a tree like `fun`'s output) to a tuple of cotangents, one for each argument.

    Raises:
        GradientError: `fun` turns out not to be linear.

    Example:
        >>> import pullback as pb
        >>> transposed = pb.linear_transpose(lambda x: 3.0 * x, pb.ArrayType((2,), "float32"))
        >>> transposed(pb.asarray([1.0, 2.0]))
        ([3. 6.]:f32[2]:cpu(0),)
    """
    check_callable(fun, "linear_transpose")
    trees = [flatten(primal) for primal in primals]
    types = [type_of(leaf) for leaves, _ in trees for leaf in leaves]

    def transposed(cotangent: Any) -> tuple[Any, ...]:
        box: dict[str, Any] = {}

        def linear(*leaves: Any) -> list[Any]:
            given = iter(leaves)
            out = fun(*[unflatten(structure, [next(given) for _ in own]) for own, structure in trees])
            found, box["structure"] = array_leaves(out, _the_output)
            box["given"] = _cotangent_leaves(cotangent, box["structure"], [type_of(leaf) for leaf in found])
            box["outs"] = found
            return found

        outs = transpose_flat(linear, types, _Later(box), fun)
        found = iter([zeros(type.strong()) if out is ZERO else out for out, type in zip(outs, types)])
        return tuple([unflatten(structure, [next(found) for _ in own]) for own, structure in trees])

    return wrapped(fun, "transpose_of", transposed)


class _Later(Sequence[Any]):
    """Cotangents that are known once the function has run, since only then is the output's structure."""

    def __init__(self, box: dict[str, Any]) -> None:
        self.box = box

    def __len__(self) -> int:
        return len(self.box["given"])

    def __getitem__(self, index: Any) -> Any:
        return self.box["given"][index]


# ---- grad ---------------------------------------------------------------------------------------------------------------


def value_and_grad(
    fun: Function,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Function:
    """A function that returns the value of `fun` and its gradient.

    Arguments:
        fun: a function whose output is one 0-d real array.
        argnums: which positional arguments to differentiate by: an int, or a sequence of them for a tuple of gradients.
        has_aux: whether `fun` returns a pair, whose second member is passed on without a derivative.
        holomorphic: whether `fun` is a holomorphic function of complex arguments, with a complex output.
        allow_int: whether integer arguments may be differentiated by; their gradient is trivial, of dtype `float0`.

    Returns:
        A function of the same arguments; its result is `(value, gradient)`, or `((value, aux), gradient)` with `has_aux`.

    Raises:
        GradientError, when the returned function is called: the output is no 0-d real number, or an argument has no
            derivative.

    Example:
        >>> import pullback as pb
        >>> pb.value_and_grad(lambda x: x**2)(3.0)
        (9.0:f32[]:cpu(0), 6.0:f32[]:cpu(0))
    """
    return wrapped(fun, "value_and_grad", _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int))


def _value_and_grad(
    fun: Function, argnums: int | Sequence[int], has_aux: bool, holomorphic: bool, allow_int: bool
) -> Function:
    check_callable(fun, "grad")

    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        numbers = normalize_argnums(fun, argnums, len(args), "grad")
        flat = FlatArguments(fun, args, kwargs, numbers)
        types = [type_of(leaf) for leaf in flat.leaves]
        active = [is_inexact(type.dtype) for type in types]
        _check_inputs("grad", flat, types, active, holomorphic, allow_int)
        result = FlatResult(flat.call, has_aux, "grad", fun)
        linearized = linearize_flat(result, flat.leaves, active, fun)
        seed = _seed(fun, linearized, result, holomorphic)
        trees = flat.trees(_gradients(linearized, [seed], types, active))
        gradient = trees[0] if isinstance(argnums, int) else tuple(trees)
        value = result.output(linearized.values)
        return ((value, result.aux(linearized.values)), gradient) if has_aux else (value, gradient)

    return value_and_gradient


def grad(
    fun: Function,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Function:
    """A function that returns the gradient of `fun`: of the structure, shapes and dtypes of the arguments it is taken by.

    The arguments are those of `value_and_grad`. With `has_aux` the result is `(gradient, aux)`.

    Example:
        >>> import pullback as pb
        >>> pb.grad(lambda x: x**3)(2.0)
        12.0:f32[]:cpu(0)
        >>> pb.grad(pb.grad(lambda x: x**3))(2.0)
        12.0:f32[]:cpu(0)
    """
    both = _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)

    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return wrapped(fun, "grad", gradient)


def _check_inputs(
    transformation: str,
    flat: FlatArguments,
    types: Sequence[ArrayType],
    active: Sequence[bool],
    holomorphic: bool,
    allow_int: bool,
) -> None:
    if all(active) and not holomorphic:
        return
    for type, flag, path in zip(types, active, flat.paths(), strict=True):
        if holomorphic and kind(type.dtype) != "c":
            raise GradientError(
                f"{transformation} with holomorphic=True needs complex arguments, but {path} is {type}."
                " Convert it with .astype(complex), or leave holomorphic out for a real function."
            )
        if not flag and not allow_int:
            raise GradientError(
                f"{transformation} was asked for the derivative by {path}, which is {type}: integers and bools have none."
                " Pass floating-point numbers (2.0 instead of 2), choose other argnums, or accept trivial gradients with"
                " allow_int=True."
            )


def _seed(fun: Function, linearized: Linearized, result: FlatResult, holomorphic: bool) -> Any:
    """The cotangent 1 of a function's only output. Raises `GradientError` unless that is a 0-d real number."""
    values = linearized.values[: result.count]
    if len(values) != 1:
        raise GradientError(
            f"grad needs a function with one 0-d output, but {describe(fun)} returned a tree of {len(values)} arrays,"
            f" {result.structure}. Return the number to differentiate, with the rest as auxiliary data (has_aux=True)."
        )
    type = type_of(values[0])
    if type.shape:
        raise GradientError(
            f"grad needs a function with a 0-d output, but {describe(fun)} returned {type}."
            " Reduce it to a number (sum, mean), or use jacrev, jacfwd or vjp."
        )
    wanted = "c" if holomorphic else "f"
    if kind(type.dtype) != wanted:
        cure = (
            "Use holomorphic=True for a holomorphic function, or differentiate its real part."
            if kind(type.dtype) == "c"
            else "Return a floating-point number."
        )
        raise GradientError(
            f"grad{' with holomorphic=True' if holomorphic else ''} needs a {'complex' if holomorphic else 'real'}"
            f" floating-point output, but {describe(fun)} returned {type}. {cure}"
        )
    return one(type)


_ones: dict[ArrayType, Array] = {}


def one(type: ArrayType) -> Array:
    """A 0-d Array of the number 1."""
    try:
        return _ones[type]
    except KeyError:
        return _ones.setdefault(type, Array(type, np.ones((), type.dtype)))


# ---- Jacobians ----------------------------------------------------------------------------------------------------------


def jacfwd(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Function:
    """A function that returns the Jacobian of `fun`, column by column by forward mode: best for few inputs, many outputs.

    Arguments are those of `grad`, but the output may be any tree of arrays.

    Returns:
        A function of the same arguments. Its result is a tree like the output, in which each leaf is a tree like the
        argument (a tuple of them for a sequence of `argnums`), in which each leaf has the output's shape followed by the
        input's. With `has_aux`, `(jacobian, aux)`.

    Example:
        >>> import pullback as pb
        >>> pb.jacfwd(lambda x: x * x)(pb.asarray([1.0, 2.0]))
        [[2. 0.]
         [0. 4.]]:f32[2,2]:cpu(0)
    """
    check_callable(fun, "jacfwd")

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        flat, types = _jacobian_inputs("jacfwd", fun, args, kwargs, argnums, holomorphic)
        result = FlatResult(flat.call, has_aux, "jacfwd", fun)
        linearized = linearize_flat(result, flat.leaves, None, fun)
        out_types = [type_of(value) for value in linearized.values[: result.count]]
        _check_jacobian_outputs("jacfwd", fun, out_types, holomorphic)
        columns = _along_basis(lambda *tangents: linearized.push(tangents)[: result.count], types, out_types)
        # columns[i][o]: the derivatives of output o by input i, the input's elements first
        blocks = [
            [_block_last(column, in_type, out_type) for column, out_type in zip(by_output, out_types)]
            for by_output, in_type in zip(columns, types)
        ]
        rows = [_per_argument(flat, [blocks[i][o] for i in range(len(types))], argnums) for o in range(len(out_types))]
        jac = unflatten(result.structure, rows)
        return (jac, result.aux(linearized.values)) if has_aux else jac

    return wrapped(fun, "jacfwd", jacobian)


def jacrev(
    fun: Function,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Function:
    """A function that returns the Jacobian of `fun`, row by row by reverse mode: best for many inputs, few outputs.

    Arguments and result are those of `jacfwd`.

    Example:
        >>> import pullback as pb
        >>> pb.jacrev(lambda x: x * x)(pb.asarray([1.0, 2.0]))
        [[2. 0.]
         [0. 4.]]:f32[2,2]:cpu(0)
    """
    check_callable(fun, "jacrev")

    def jacobian(*args: Any, **kwargs: Any) -> Any:
        numbers = normalize_argnums(fun, argnums, len(args), "jacrev")
        flat = FlatArguments(fun, args, kwargs, numbers)
        types = [type_of(leaf) for leaf in flat.leaves]
        active = [is_inexact(type.dtype) for type in types]
        _check_inputs("jacrev", flat, types, active, holomorphic, allow_int)
        result = FlatResult(flat.call, has_aux, "jacrev", fun)
        linearized = linearize_flat(result, flat.leaves, active, fun)
        out_types = [type_of(value) for value in linearized.values[: result.count]]
        _check_jacobian_outputs("jacrev", fun, out_types, holomorphic)

        def pull(*cotangents: Any) -> list[Any]:
            rest = [ZERO] * (len(linearized.values) - len(cotangents))
            return linearized.pull([*cotangents, *rest])

        inputs = [type for type, flag in zip(types, active) if flag]
        rows = _along_basis(pull, out_types, inputs)
        # rows[o][i]: the derivatives of output o by input i, the output's elements first
        jac_leaves = []
        for by_input, out_type in zip(rows, out_types):
            found = iter([_block_first(row, out_type, in_type) for row, in_type in zip(by_input, inputs)])
            leaves = [
                next(found) if flag else np.zeros((*out_type.shape, *type.shape), float0) for flag, type in zip(active, types)
            ]
            jac_leaves.append(_per_argument(flat, leaves, argnums))
        jac = unflatten(result.structure, jac_leaves)
        return (jac, result.aux(linearized.values)) if has_aux else jac

    return wrapped(fun, "jacrev", jacobian)


def hessian(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Function:
    """A function that returns the matrix of second derivatives of `fun`: forward mode over reverse mode.

    Arguments are those of `jacfwd`. For a function of trees the result nests the structure twice.

    Example:
        >>> import pullback as pb
        >>> pb.hessian(lambda x: x[0] * x[0] * x[1])(pb.asarray([1.0, 2.0]))
        [[4. 2.]
         [2. 0.]]:f32[2,2]:cpu(0)
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)


@api_boundary
def hvp(fun: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """The Hessian of a scalar function times a vector, without forming the Hessian: the tangent of the gradient.

    Arguments:
        fun: a function with one 0-d real output.
        primals: the arguments, a tuple or list. tangents: the vector, one tree for each argument.

    Returns:
        A tree like the first argument, or a tuple with one for each argument if there are several; with `has_aux`,
        `(product, aux)`.

    Example:
        >>> import pullback as pb
        >>> pb.hvp(lambda x: x**3, (2.0,), (1.0,))
        12.0:f32[]:cpu(0)
    """
    argnums = tuple(range(len(primals))) if len(primals) > 1 else 0
    found = jvp(grad(fun, argnums, has_aux), primals, tangents, has_aux)
    return (found[1], found[2]) if has_aux else found[1]


def _jacobian_inputs(
    transformation: str, fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Any, holomorphic: bool
) -> tuple[FlatArguments, list[ArrayType]]:
    numbers = normalize_argnums(fun, argnums, len(args), transformation)
    flat = FlatArguments(fun, args, kwargs, numbers)
    types = [type_of(leaf) for leaf in flat.leaves]
    _check_inputs(transformation, flat, types, [is_inexact(type.dtype) for type in types], holomorphic, allow_int=False)
    for type, path in zip(types, flat.paths(), strict=True):
        if kind(type.dtype) == "c" and not holomorphic:
            raise GradientError(
                f"{transformation} needs real arguments, but {path} is {type}. Use holomorphic=True for a holomorphic function."
            )
    return flat, types


def _check_jacobian_outputs(transformation: str, fun: Function, types: Sequence[ArrayType], holomorphic: bool) -> None:
    for type in types:
        if kind(type.dtype) != "c" if holomorphic else not is_inexact(type.dtype):
            wanted = "complex" if holomorphic else "floating-point"
            raise GradientError(f"{transformation} needs {wanted} outputs, but {describe(fun)} returned {type}.")


def _along_basis(
    linear: Callable[..., Sequence[Any]], types: Sequence[ArrayType], out_types: Sequence[ArrayType]
) -> list[list[Any]]:
    """A flat linear function applied to every basis vector of its inputs, in one batch for each input.

    The result [i][o] has the shape (size of input i, *shape of output o).
    """
    found = []
    for i, type in enumerate(types):
        size = AxisSize(type.size)
        basis = Array(array_type((type.size, *type.shape), type.dtype), np.eye(type.size, dtype=type.dtype).reshape(-1, *type.shape))

        def along(vector: Any, i: int = i) -> list[Any]:
            outs = linear(*[vector if j == i else ZERO for j in range(len(types))])
            return [zeros(out_type) if out is ZERO else out for out, out_type in zip(outs, out_types, strict=True)]

        trace, outs = batch_flat(along, [basis], [True], size)
        found.append([materialize(trace, out) for out in outs])
    return found


def _block_first(rows: Any, first: ArrayType, second: ArrayType) -> Any:
    """(size of first, *second) -> (*first, *second)."""
    return reshape(rows, new_sizes=(*first.shape, *second.shape))


def _block_last(columns: Any, first: ArrayType, second: ArrayType) -> Any:
    """(size of first, *second) -> (*second, *first)."""
    moved = transpose(columns, permutation=(*range(1, second.ndim + 1), 0))
    return reshape(moved, new_sizes=(*second.shape, *first.shape))


def _per_argument(flat: FlatArguments, leaves: Sequence[Any], argnums: int | Sequence[int]) -> Any:
    trees = flat.trees(leaves)
    return trees[0] if isinstance(argnums, int) else tuple(trees)
