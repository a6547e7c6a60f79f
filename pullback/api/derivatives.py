"""Derivatives of functions of pytrees: jvp, vjp, linearize, linear_transpose, grad, value_and_grad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, Literal, NamedTuple, overload

from pullback.api.devices import device_put
from pullback.api.functions import (
    Argnums,
    FlatArguments,
    Function,
    P,
    R,
    check_callable,
    check_flags,
    returned_leaves,
    trees_of,
    wrapped,
)
from pullback.api.tangents import (
    FlatResult,
    check_inputs,
    check_outputs,
    check_pairs,
    cotangent_leaves,
    tangent_leaves,
    tangent_result,
    weak_as,
)
from pullback.api.traced import with_placeholders
from pullback.core.array import Array, PlacedArray, is_deleted
from pullback.core.axes import told_axes
from pullback.core.dtypes import is_inexact, kind
from pullback.core.errors import GradientError
from pullback.core.leaks import keeps_values, leak_checked
from pullback.core.modes import current_mode
from pullback.core.source import api_boundary, describe, name_of, trim
from pullback.core.tracing import Tracer, innermost_staging, type_of
from pullback.core.trees import TreeDef, kind_of, register_node, unflatten
from pullback.core.types import ArrayType
from pullback.core.zero import ONES, ZERO, zeros
from pullback.ops.scaling import ones
from pullback.ops.varying import align
from pullback.program.equality import Keyed
from pullback.transforms.jvp import jvp_flat
from pullback.transforms.linearize import linearize_flat, transpose_at
from pullback.transforms.transpose import Tape, transpose_flat

# ---- forward ----------------------------------------------------------------------------------------------------------


@overload
def jvp(
    fun: Callable[..., R], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[False] = False
) -> tuple[R, R]: ...
@overload
def jvp(fun: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool) -> tuple[Any, ...]: ...
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
        GradientError: a tangent for an integer or bool is neither None nor of dtype `float0`.

    Example:
        >>> import pullback as pb
        >>> pb.jvp(lambda x: x * x, (3.0,), (1.0,))
        (9.0:f32[]:cpu(0), 6.0:f32[]:cpu(0))
    """
    return push_forward("jvp", fun, primals, tangents, has_aux)


@leak_checked
def push_forward(what: str, fun: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool) -> tuple[Any, ...]:
    """`jvp`, for a transformation that error messages call `what`."""
    check_callable(fun, what)
    check_pairs(what, "tangents", primals, tangents)
    flat = FlatArguments(fun, primals, {})
    directions = tangent_leaves(what, flat.kind, flat.structures, flat.leaves, tangents)
    result = FlatResult(flat.call, has_aux, what, fun)
    outs, out_tangents = jvp_flat(result, flat.leaves, directions, fun)
    shown = [weak_as(type_of(out), tangent_result(t, type_of(out)), True) for t, out in zip(out_tangents, outs)]
    pair = result.output(outs), result.output(shown)
    return (*pair, result.aux(outs)) if has_aux else pair


# ---- linearize, vjp -----------------------------------------------------------------------------------------------------


class LinearizedCall:
    """A call of a user's function, linearized in those leaves of its chosen arguments that have derivatives."""

    __slots__ = ("active", "flat", "linearized", "result", "types", "what")

    @leak_checked
    def __init__(
        self,
        what: str,
        fun: Function,
        flat: FlatArguments,
        has_aux: bool,
        holomorphic: bool = False,
        allow_int: bool | None = True,
    ) -> None:
        self.what, self.flat = what, flat
        self.types = [type_of(leaf) for leaf in flat.leaves]
        self.active = [is_inexact(type.dtype) for type in self.types]
        check_inputs(what, flat, self.types, self.active, holomorphic, allow_int)
        self.result = FlatResult(flat.call, has_aux, what, fun)

        def aligned(*leaves: Any) -> list[Any]:
            outs = self.result(*leaves)
            return align(outs, outs)

        run = aligned if told_axes() else self.result
        self.linearized = linearize_flat(run, flat.leaves, self.active, fun)

    @property
    def outputs(self) -> list[Any]:
        """The leaves of the output, without the auxiliary data."""
        return self.linearized.values[: self.result.count]

    @property
    def out_types(self) -> list[ArrayType]:
        return [type_of(value) for value in self.outputs]

    def with_aux(self, *found: Any) -> tuple[Any, ...]:
        """What a transformation returns: `found`, and the auxiliary data if there are any."""
        return (*found, self.result.aux(self.linearized.values)) if self.result.has_aux else found

    def structure(self, fun: Function) -> LinearStructure:
        """What the derivative needs besides its tape."""
        own = tuple(self.flat.structures), tuple(self.types), tuple(self.active), self.result.structure, tuple(self.out_types)
        return LinearStructure(fun, *own, tuple(self.linearized.inputs), tuple(self.linearized.tangents[: self.result.count]))

    def value(self) -> Any:
        """The user's output."""
        return self.result.output(self.linearized.values)

    def pull(self, cotangents: Sequence[Any]) -> list[Any]:
        """Cotangents of the output's leaves to cotangents of the active leaves, ZERO possible."""
        rest = [ZERO] * (len(self.linearized.values) - len(cotangents))  # auxiliary data have no cotangent
        return self.linearized.pull([*cotangents, *rest])

    def gradient_leaves(self, cotangents: Sequence[Any]) -> list[Any]:
        """The cotangents of the chosen arguments' leaves, as the user gets them."""
        found = self.pull(cotangents)
        if (checks := current_mode().checks) is not None:
            given = iter(found)
            leaves = [next(given) if active else None for active in self.active]
            checks.gradients(self.what, self.flat.function, self.flat.paths, leaves)
        return _gradient_leaves(self.types, self.active, found)


def _gradient_leaves(types: Sequence[ArrayType], active: Sequence[bool], found: Sequence[Any]) -> list[Any]:
    """The gradient of each leaf, of those that were found for the active ones."""
    given = iter(found)
    return [weak_as(type, tangent_result(next(given) if flag else ZERO, type)) for type, flag in zip(types, active)]


@overload
def linearize(fun: Callable[..., R], *primals: Any, has_aux: Literal[False] = False) -> tuple[R, Callable[..., R]]: ...
@overload
def linearize(fun: Function, *primals: Any, has_aux: bool) -> tuple[Any, ...]: ...
@api_boundary
def linearize(fun: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of a function at a point, and its derivative there as a linear function to apply many times.

    Arguments:
        fun: a function of arrays and pytrees.
        primals: the arguments to evaluate it at.
        has_aux: whether `fun` returns a pair, whose second member is passed on without a derivative.

    Returns:
        `(output, f_jvp)`, and the auxiliary data if `has_aux`; `f_jvp(*tangents)` is what `jvp` would give, at no cost of
        evaluating `fun` again.

    Raises:
        LeafError: a leaf of an argument or of the output is neither an array nor a number.
        StructureError: the function returned no pair, with `has_aux`.
        As `jvp`, when `f_jvp` is called with tangents that are not like the primals.

    Example:
        >>> import pullback as pb
        >>> y, f_jvp = pb.linearize(lambda x: x * x * x, 2.0)
        >>> y, f_jvp(1.0)
        (8.0:f32[]:cpu(0), 12.0:f32[]:cpu(0))
    """
    check_callable(fun, "linearize")
    call = LinearizedCall("linearize", fun, FlatArguments(fun, primals, {}), has_aux)
    return call.with_aux(call.value(), JvpFunction(call.structure(fun), call.linearized.tape))


@overload
def vjp(fun: Callable[..., R], *primals: Any, has_aux: Literal[False] = False) -> tuple[R, Callable[[R], tuple[Any, ...]]]: ...
@overload
def vjp(fun: Function, *primals: Any, has_aux: bool) -> tuple[Any, ...]: ...
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

    Raises:
        LeafError: a leaf of an argument or of the output is neither an array nor a number.
        StructureError: the function returned no pair, with `has_aux`.
        StructureError, ShapeError, GradientError, when `f_vjp` is called: the cotangent is not like the output in its
            structure, its shapes or its dtypes.

    Example:
        >>> import pullback as pb
        >>> y, f_vjp = pb.vjp(lambda x, y: x * y, 3.0, 4.0)
        >>> f_vjp(1.0)
        (4.0:f32[]:cpu(0), 3.0:f32[]:cpu(0))
    """
    check_callable(fun, "vjp")
    call = LinearizedCall("vjp", fun, FlatArguments(fun, primals, {}), has_aux)
    return call.with_aux(call.value(), VjpFunction(call.structure(fun), call.linearized.tape))


_NOT_GIVEN: Any = object()


def _one_cotangent(function: Function, what: str, count: int) -> TypeError:
    return TypeError(
        f"{what} of {describe(function)} gives a function that takes one cotangent, a tree like the output (of a tuple of two"
        f" arrays, a tuple of two cotangents, f_vjp((a, b))), but it was called with {count or 'no'} arguments."
    )


@keeps_values
class LinearStructure(NamedTuple):
    """What the derivative of a function at a point needs besides its tape."""

    function: Function
    structures: tuple[TreeDef, ...]
    types: tuple[ArrayType, ...]
    active: tuple[bool, ...]
    structure: TreeDef
    out_types: tuple[ArrayType, ...]
    inputs: tuple[int, ...]
    outs: tuple[int | None, ...]


class LinearFunction(Keyed):
    """The derivative of a function at a point, in one of the two directions.

    It is a container of the arrays that it keeps: a jitted function may return it, and it may be a residual of a custom_vjp.
    Without them, it is the metadata of that container.
    """

    _kind = ""
    _stands = False  # whether something else than arrays has been put in the place of arrays

    def __init__(self, shape: LinearStructure, tape: Tape) -> None:
        self.shape = shape
        self.tape = tape

    def taken_apart(self) -> tuple[list[Any], LinearFunction]:
        """The arrays that it keeps, and itself without them.

        Returns:
            A list of arrays, and a function that is to be put together with such a list before it is called.

        Example:
            >>> import pullback as pb
            >>> values, rest = pb.vjp(pb.numpy.sin, 0.0)[1].taken_apart()
            >>> values, rest.put_together([pb.numpy.array(2.0)])(1.0)
            ([1.0:f32[]:cpu(0)], (2.0:f32[]:cpu(0),))
        """
        values, tape = self.tape.emptied()
        return values, type(self)(self.shape, tape)

    def put_together(self, values: Sequence[Any]) -> LinearFunction:
        """Itself with other values in the places that `taken_apart` left.

        Arguments:
            values: arrays like those that `taken_apart` gave; or what stands for them, until it is called.

        Returns:
            The function.

        Example:
            >>> import pullback as pb
            >>> values, rest = pb.vjp(pb.numpy.sin, 0.0)[1].taken_apart()
            >>> rest.put_together(values)(1.0)
            (1.0:f32[]:cpu(0),)
        """
        made = type(self)(self.shape, self.tape.filled(values))
        made._stands = not all([isinstance(value, (Array, Tracer)) for value in values])
        return made

    def _steps(self) -> Tape:
        return self.tape.ready() if self._stands else self.tape

    @property
    def key(self) -> Any:
        """What it is as a container, apart from its arrays: the types and structures that it was made for, and its operations.

        Example:
            >>> import pullback as pb
            >>> first, second = [pb.vjp(pb.numpy.sin, 3.0)[1] for _ in range(2)]
            >>> first.key[0] == second.key[0]
            True
        """
        return self.shape[1:], self.tape.key  # functions may be called differently

    @property
    def __name__(self) -> str:
        return f"{self._kind}_of_{name_of(self.shape.function).strip('<>')}"

    def __repr__(self) -> str:
        return f"<{self._kind} of {describe(self.shape.function)}>"


class JvpFunction(LinearFunction):
    """What `linearize` returns, to be applied to tangents.

    It is a container of the arrays that it keeps: a jitted function may return it, and it may be a residual of a custom_vjp.

    Example:
        >>> import pullback as pb
        >>> y, f_jvp = pb.jit(lambda x: pb.linearize(pb.numpy.sin, x))(0.0)
        >>> f_jvp
        <jvp of sin>
        >>> f_jvp(2.0)
        2.0:f32[]:cpu(0)
    """

    _kind = "jvp"

    def __call__(self, *tangents: Any) -> Any:
        try:
            shape = self.shape
            check_pairs("linearize", "tangents", shape.structures, tangents)
            given = tangent_leaves("linearize", kind_of(shape.function), shape.structures, shape.types, tangents)
            given = [tangent for tangent, flag in zip(given, shape.active) if flag]
            outs = self._steps().forward(shape.inputs, given, shape.outs)
            return unflatten(shape.structure, [tangent_result(t, type) for t, type in zip(outs, shape.out_types)])
        except BaseException as error:
            trim(error)
            raise


class VjpFunction(LinearFunction):
    """What `vjp` returns, to be applied to cotangents.

    It is a container of the arrays that it keeps: a jitted function may return it, and it may be a residual of a custom_vjp.

    Example:
        >>> import pullback as pb
        >>> y, f_vjp = pb.vjp(lambda x: x * x, 3.0)
        >>> f_vjp
        <vjp of <lambda> (...)>
        >>> f_vjp(1.0)
        (6.0:f32[]:cpu(0),)
    """

    _kind = "vjp"

    def __call__(self, cotangent: Any = _NOT_GIVEN, *more: Any) -> tuple[Any, ...]:
        try:
            shape = self.shape
            if cotangent is _NOT_GIVEN or more:
                raise _one_cotangent(shape.function, "vjp", len(more) + (cotangent is not _NOT_GIVEN))
            given = cotangent_leaves(kind_of(shape.function), cotangent, shape.structure, shape.out_types)
            found = self._steps().backward(shape.outs, given, shape.inputs)
            # as in JAX, what is multiplied by a cotangent stronger than its output is strong
            strong = any([t.weak and ct is not ZERO and not type_of(ct).weak for t, ct in zip(shape.out_types, given)])
            leaves = _gradient_leaves([t.strong() for t in shape.types] if strong else shape.types, shape.active, found)
            return tuple(trees_of(shape.structures, leaves))
        except BaseException as error:
            trim(error)
            raise


for _kind in (JvpFunction, VjpFunction):
    register_node(_kind, LinearFunction.taken_apart, LinearFunction.put_together)


@api_boundary
def linear_transpose(fun: Callable[..., R], *primals: Any) -> Callable[[R], tuple[Any, ...]]:
    """The transpose of a linear function, without evaluating it at a point.

    Arguments:
        fun: a function that is linear in all of its arguments: of floating-point or complex numbers, with such results, or of
            integers, with integers for results.
        primals: for each argument, something with its shape and dtype: an array or an `ArrayType`, in trees of any structure.
            Inside a `shard_map`, where cotangents vary among devices as values do, they are arrays, which do or do not.

    Returns:
        A function from a cotangent (a tree like `fun`'s output) to a tuple of cotangents, one for each argument.

    Raises:
        GradientError: `fun` turns out not to be linear, or mixes integers with other numbers; or types are given inside a
            `shard_map`.

    Example:
        >>> import pullback as pb
        >>> transposed = pb.linear_transpose(lambda x: 3.0 * x, pb.ArrayType((2,), "float32"))
        >>> transposed(pb.numpy.asarray([1.0, 2.0]))
        ([3. 6.]:f32[2]:cpu(0),)
    """
    check_callable(fun, "linear_transpose")
    kind = kind_of(fun)
    trees = [kind.flatten(primal) for primal in with_placeholders(primals, kind)]
    structures = [structure for _, structure in trees]
    flat = [leaf for leaves, _ in trees for leaf in leaves]
    types = list(map(type_of, flat))

    def transposed(cotangent: R = _NOT_GIVEN, *more: Any) -> tuple[Any, ...]:
        if cotangent is _NOT_GIVEN or more:
            raise _one_cotangent(fun, "linear_transpose", len(more) + (cotangent is not _NOT_GIVEN))
        given: list[Any] = []  # known once the function has run, since only then is the output's structure

        def linear(*leaves: Any) -> list[Any]:
            outs, structure = returned_leaves(fun, fun(*trees_of(structures, leaves)))
            out_types = [type_of(out) for out in outs]
            given[:] = cotangent_leaves(kind, cotangent, structure, out_types, _of_integers(fun, types, out_types))
            return outs

        found = transpose_flat(linear, types, given, fun)
        if told_axes():
            if any([(isinstance(leaf, Array) and is_deleted(leaf)) or not is_inexact(type_of(leaf).dtype) for leaf in flat]):
                raise GradientError(
                    f"linear_transpose of {describe(fun)} is inside a shard_map, where a cotangent is summed over the devices"
                    " that share the argument: give it arrays as primals, which tell whether devices share them, not types; of"
                    " floating-point or complex numbers."
                )
            found = transpose_at(linear, flat, given)
        return tuple(trees_of(structures, [zeros(t) if ct is ZERO else weak_as(t, ct) for ct, t in zip(found, types)]))

    return wrapped(fun, "transpose_of", transposed)


def _of_integers(fun: Function, types: Sequence[ArrayType], out_types: Sequence[ArrayType]) -> bool:
    """Whether a function to be transposed maps integers to integers."""
    kinds = {"i" if kind(type.dtype) in "iu" else "f" if is_inexact(type.dtype) else "b" for type in (*types, *out_types)}
    if len(kinds) > 1 or "b" in kinds:
        raise GradientError(
            "linear_transpose takes functions of floating-point or complex numbers with such results, or of integers with"
            f" integers for results, but {describe(fun)} takes ({', '.join(map(str, types))}) and returns"
            f" ({', '.join(map(str, out_types))}). Convert with .astype, outside of it."
        )
    return "i" in kinds


# ---- grad ---------------------------------------------------------------------------------------------------------------


@api_boundary
def value_and_grad(
    fun: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False
) -> Callable[P, tuple[Any, Any]]:
    """A function that returns the value of `fun` and its gradient.

    Arguments:
        fun: a function whose output is one 0-d real array.
        argnums: the positional arguments to differentiate with respect to: an int, or a sequence of ints for a tuple of
            gradients.
        has_aux: whether `fun` returns a pair, whose second member is passed on without a derivative.
        holomorphic: whether `fun` is a holomorphic function of complex arguments, with a complex output.
        allow_int: whether to accept integer arguments; their gradient is trivial, of dtype `float0`.

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
    check_flags("value_and_grad", allow_int=allow_int)
    return gradient_of("value_and_grad", fun, argnums, has_aux, holomorphic, allow_int, with_value=True)


@api_boundary
def grad(
    fun: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False, holomorphic: bool = False, allow_int: bool = False
) -> Callable[P, Any]:
    """A function that returns the gradient of `fun`: of the structure, shapes and dtypes of the arguments in `argnums`.

    Arguments:
        fun: a function whose output is one 0-d real array.
        argnums: the positional arguments to differentiate with respect to: an int, or a sequence of ints for a tuple of
            gradients.
        has_aux: whether `fun` returns a pair, whose second member is passed on without a derivative.
        holomorphic: whether `fun` is a holomorphic function of complex arguments, with a complex output.
        allow_int: whether to accept integer arguments; their gradient is trivial, of dtype `float0`.

    Returns:
        A function of the same arguments; its result is the gradient, or `(gradient, aux)` with `has_aux`.

    Raises:
        GradientError, when the returned function is called: the output is no 0-d real number, or an argument has no
            derivative.

    Example:
        >>> import pullback as pb
        >>> pb.grad(lambda x: x**3)(2.0)
        12.0:f32[]:cpu(0)
        >>> pb.grad(pb.grad(lambda x: x**3))(2.0)
        12.0:f32[]:cpu(0)
    """
    check_flags("grad", allow_int=allow_int)
    return gradient_of("grad", fun, argnums, has_aux, holomorphic, allow_int)


def gradient_of(
    what: str,
    fun: Callable[P, Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool | None = None,
    with_value: bool = False,
) -> Callable[P, Any]:
    """`grad`, or `value_and_grad`, for a transformation that error messages call `what`."""
    check_callable(fun, what)
    check_flags(what, has_aux=has_aux, holomorphic=holomorphic)

    def gradient(*args: P.args, **kwargs: P.kwargs) -> Any:
        call = LinearizedCall(
            what, fun, FlatArguments.chosen(what, fun, argnums, args, kwargs), has_aux, holomorphic, allow_int
        )
        found = call.flat.per_argument(call.gradient_leaves([_seed(what, fun, call, holomorphic)]))
        if not with_value:
            return call.with_aux(found) if has_aux else found
        return (call.with_aux(call.value()) if has_aux else call.value()), found

    return wrapped(fun, "value_and_grad" if with_value else "grad", gradient)


def _seed(what: str, fun: Function, call: LinearizedCall, holomorphic: bool) -> Any:
    """The cotangent 1 of a function's only output. Raises `GradientError` unless that is a 0-d real number."""
    values = call.outputs
    if len(values) != 1:
        container = kind_of(fun).node(call.result.structure)[0]
        found = "None: is a return missing?"
        if container is not None and container is not NoneType:
            found = f"a {container.__name__} of {len(values)} arrays. Return the number, with the rest as auxiliary data"
            found += " (has_aux=True)."
        raise GradientError(f"{what} needs a function with one 0-d output, but {describe(fun)} returned {found}")
    type = type_of(values[0])
    if type.shape:
        raise GradientError(
            f"{what} needs a function with a 0-d output, but {describe(fun)} returned {type}."
            " Reduce it to a number (sum, mean), or use jacrev, jacfwd or vjp."
        )
    check_outputs(what, fun, [type], holomorphic)
    # Staged, a product with one is left out. Eagerly it is what makes a new array: a gradient is never the user's own operand.
    if innermost_staging() is not None:
        return ONES
    return device_put(ones(type), values[0].device) if values[0].__class__ is PlacedArray else ones(type)
