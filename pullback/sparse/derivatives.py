"""Sparse Jacobians and Hessians: find the pattern, color it, differentiate along few directions, take the entries apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.api.derivatives import gradient_of
from pullback.api.functions import INTEGERS, FlatArguments, Function, P, check_callable, wrapped
from pullback.api.tangents import FlatResult
from pullback.control.call import inlined
from pullback.core.array import Array, as_array
from pullback.core.axes import Axis
from pullback.core.brief import brief
from pullback.core.dtypes import kind
from pullback.core.errors import GradientError, ShapeError
from pullback.core.source import describe
from pullback.core.tracing import Tracer, type_of
from pullback.core.trees import LEAF
from pullback.core.types import ArrayType, array_type
from pullback.core.zero import ZERO, zeros
from pullback.ops.index import take
from pullback.ops.shape import reshape
from pullback.program.equation import Equation
from pullback.sparse.coloring import Indices, color_columns, color_star, star_sources
from pullback.sparse.matrix import Pattern, SparseMatrix, of_pattern
from pullback.transforms.batch import batch_flat, materialize
from pullback.transforms.jvp import jvp_flat
from pullback.transforms.linearize import linearize_flat
from pullback.transforms.sparsity import jacobian_sparsity, pairs
from pullback.transforms.stage import stage


class Plan(NamedTuple):
    """How to find the entries of a matrix: along which directions to differentiate, and where the entries then stand."""

    pattern: Pattern
    forward: bool  # directions in the space of the argument, or of the result
    colors: Indices  # of each element of that space: its directions are sums of basis vectors
    places: tuple[Indices, Indices]  # of each entry in the derivatives: direction, and index in the other space

    @property
    def directions(self) -> int:
        """How many there are."""
        return int(self.colors.max(initial=-1)) + 1


def jacobian(
    fun: Callable[P, Any], pattern: Any = None, argnums: int = 0, mode: str | None = None
) -> Callable[P, SparseMatrix]:
    """A function that returns the Jacobian of `fun` as a sparse matrix, at the cost of a few directional derivatives.

    Columns without a common nonzero row are found together, by forward mode; or rows, by reverse mode, if that takes fewer
    directions. A tridiagonal Jacobian takes 3 of them, of whatever size it is.

    Arguments:
        fun: a function of arrays and pytrees that returns one floating-point array.
        pattern: which entries may differ from zero, rows for the output's elements and columns for the argument's, counted as
            in flat arrays: a boolean array, a SciPy sparse matrix, two index arrays (rows, columns), or a `Pattern`. By default
            it is found from the operations of `fun`, once for each choice of argument types; the zeros of arrays that `fun`
            closes over count, as they are at that time, so pass as arguments what will change. An entry that is missing in a
            pattern that is given makes others wrong: the first call that is not traced tries it along a random direction.
        argnums: the positional argument to differentiate with respect to, one floating-point array of any shape.
        mode: `"forward"` or `"reverse"`, to use that mode even if the other takes fewer directions.

    Returns:
        A function of the same arguments, whose result is a `SparseMatrix` of shape (output size, argument size): multiply and
        solve with its `to_scipy()`. The function can be compiled, and the matrix's values differentiated.

    Raises:
        GradientError, when that is called: an argument or output without a Jacobian of this kind, or the pattern given was
            found to lack entries. ShapeError: it is of another shape. MissingRule: all results of a large operation would have
            to be taken to depend on all of its operands, for lack of a sparsity rule.

    Example:
        >>> import pullback as pb
        >>> def f(x):
        ...     return x[1:] ** 2 - x[:-1]
        >>> pb.sparse.jacobian(f)(pb.numpy.asarray([1.0, 2.0, 3.0]))
        <SparseMatrix 2 x 3, 4 entries of f32>
        >>> pb.sparse.jacobian(f)(pb.numpy.asarray([1.0, 2.0, 3.0])).todense()
        [[-1.  4.  0.]
         [ 0. -1.  6.]]:f32[2,3]:cpu(0)

    Source: Curtis, Powell and Reid, On the estimation of sparse Jacobian matrices, IMA J. Appl. Math. 13 (1974); Gebremedhin,
    Manne and Pothen, What color is your Jacobian?, SIAM Review 47 (2005).
    """
    if mode not in (None, "forward", "reverse"):
        raise ValueError(f"sparse.jacobian takes mode='forward', 'reverse' or None, but got {brief(mode)}.")
    check_callable(fun, "sparse.jacobian")
    return _matrix_of("sparse.jacobian", fun, fun, pattern, argnums, lambda p: _jacobian_plan(p, mode))


def hessian(fun: Callable[P, Any], pattern: Any = None, argnums: int = 0) -> Callable[P, SparseMatrix]:
    """A function that returns the Hessian of `fun` as a sparse matrix, at the cost of a few gradients.

    A Hessian is symmetric, so each entry need be found only once; an arrowhead, with a full row and column, takes 2 directions.

    Arguments:
        fun: a function of arrays and pytrees that returns one 0-d floating-point number.
        pattern: which entries may differ from zero; as for `jacobian`. Their mirror images are added.
        argnums: the positional argument to differentiate with respect to, one floating-point array of any shape.

    Returns:
        A function of the same arguments, whose result is a `SparseMatrix` of shape (argument size, argument size);
        multiply and solve with its `to_scipy()`.

    Raises:
        As `jacobian`.

    Example:
        >>> import pullback as pb
        >>> def f(x):
        ...     return pb.numpy.sum(x[1:] * x[:-1] ** 2)
        >>> pb.sparse.hessian(f)(pb.numpy.asarray([1.0, 2.0, 3.0])).todense()
        [[4. 2. 0.]
         [2. 6. 4.]
         [0. 4. 0.]]:f32[3,3]:cpu(0)

    Source: Gebremedhin, Manne and Pothen, What color is your Jacobian?, SIAM Review 47 (2005): star coloring.
    """
    gradient = gradient_of("sparse.hessian", fun, argnums)
    return _matrix_of("sparse.hessian", fun, gradient, pattern, argnums, _hessian_plan)


def _matrix_of(
    name: str, fun: Function, derived: Function, pattern: Any, argnums: int, make_plan: Callable[[Pattern], Plan]
) -> Function:
    """The function that returns the Jacobian of `derived`, which is `fun` or its gradient."""
    _check_argnums(name, argnums)
    plans: dict[Any, Plan] = {}
    tried = set()

    def matrix(*args: Any, **kwargs: Any) -> SparseMatrix:
        call = _Call(name, fun, derived, argnums, args, kwargs)
        if call.key not in plans:
            plans[call.key] = make_plan(call.pattern(pattern))
        if pattern is not None and call.key not in tried and call.try_out(plans[call.key]):
            tried.add(call.key)
        return call.matrix(plans[call.key])

    return wrapped(fun, name.replace(".", "_"), matrix)


def jacobian_pattern(fun: Function, *args: Any, argnums: int = 0, **kwargs: Any) -> Pattern:
    """The entries of the Jacobian of `fun` that may differ from zero, found from its operations.

    Arguments:
        fun: a function of arrays and pytrees that returns one floating-point array.
        args, kwargs: arguments of `fun`; only their types matter.
        argnums: the positional argument with respect to which the Jacobian is.

    Returns:
        A `Pattern` of shape (output size, argument size).

    Raises:
        GradientError: an argument or output without a Jacobian of this kind.
        MissingRule: all results of a large operation would have to be taken to depend on all of its operands.

    Example:
        >>> import pullback as pb
        >>> pb.sparse.jacobian_pattern(lambda x: x[1:] - x[:-1], pb.numpy.zeros(3)).todense()
        array([[ True,  True, False],
               [False,  True,  True]])
    """
    check_callable(fun, "sparse.jacobian_pattern")
    return _Call("sparse.jacobian_pattern", fun, fun, argnums, args, kwargs).pattern(None)


def hessian_pattern(fun: Function, *args: Any, argnums: int = 0, **kwargs: Any) -> Pattern:
    """The entries of the Hessian of `fun` that may differ from zero, found from its operations.

    Arguments:
        fun: a function of arrays and pytrees that returns one 0-d floating-point number.
        args, kwargs: arguments of `fun`; only their types matter.
        argnums: the positional argument with respect to which the Hessian is.

    Returns:
        A `Pattern` of shape (argument size, argument size).

    Raises:
        GradientError: an argument or output without a Hessian of this kind.
        MissingRule: all results of a large operation would have to be taken to depend on all of its operands.

    Example:
        >>> import pullback as pb
        >>> pb.sparse.hessian_pattern(lambda x: x[0] * x[1] + x[2], pb.numpy.zeros(3)).todense()
        array([[False,  True, False],
               [ True, False, False],
               [False, False, False]])
    """
    name = "sparse.hessian_pattern"
    return _symmetric(_Call(name, fun, gradient_of(name, fun, argnums), argnums, args, kwargs).pattern(None))


def _check_argnums(name: str, argnums: Any) -> None:
    if not isinstance(argnums, INTEGERS) or isinstance(argnums, bool):
        raise TypeError(
            f"{name} differentiates with respect to one argument, so argnums must be an int, but got {brief(argnums)}."
        )


class _Call:
    """A call of a function to be differentiated with respect to an array: of `derived`, which is `fun` or its gradient."""

    def __init__(
        self, name: str, fun: Function, derived: Function, argnums: int, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.name, self.fun = name, fun
        _check_argnums(name, argnums)
        chosen = FlatArguments.chosen(name, fun, argnums, args, kwargs)
        (number,) = chosen.numbers
        keywords = tuple(kwargs)

        def positional(*values: Any) -> Any:
            return derived(*values[: len(args)], **dict(zip(keywords, values[len(args) :])))

        everything = (*args, *kwargs.values())
        self.whole = FlatArguments(positional, everything, {})
        self.flat = FlatArguments(positional, everything, {}, (number,))
        self.types = [type_of(leaf) for leaf in self.whole.leaves]
        self.key = (tuple(self.types), tuple(self.whole.structures), keywords)
        if self.whole.structures[number] is not LEAF:
            raise GradientError(
                f"{name} differentiates with respect to one array, but argument {chosen.name(number)} is a tree of them."
                " Concatenate them, or choose another argument."
            )
        self.active = sum(structure.num_leaves for structure in self.whole.structures[:number])
        self.type = self.types[self.active]
        if kind(self.type.dtype) != "f":
            raise GradientError(
                f"{name} needs a real floating-point argument, but argument {chosen.name(number)} is {self.type}."
                " Convert it with .astype(float)."
            )

    def checked(self, values: Sequence[Any]) -> Sequence[Any]:
        """What the function returned, if it is one real array."""
        if len(values) != 1 or kind(type_of(values[0]).dtype) != "f":
            found = ", ".join(str(type_of(value)) for value in values)
            raise GradientError(
                f"{self.name} needs a function that returns one real floating-point array, but {describe(self.fun)} returned"
                f" {found or 'no array'}."
            )
        return values

    def pattern(self, given: Any) -> Pattern:
        """The pattern of the matrix: the one given, or else found from the function's operations."""
        result = FlatResult(self.whole.call, False, self.name, self.fun)
        program, captures = stage(
            lambda *leaves: self.checked(result(*leaves)), self.types, described=self.fun, transformation=self.name
        )
        shape = (program.output_types[0].size, self.type.size)
        if given is not None:
            return _given_pattern(self.name, given, shape)
        found = jacobian_sparsity(inlined(program), len(captures) + self.active)
        return Pattern(*pairs(found.outputs[0]), shape, sorted({_place(equation) for equation in found.overestimated}))

    def matrix(self, plan: Plan) -> SparseMatrix:
        """The matrix, by derivatives along the plan's directions."""
        result = FlatResult(self.flat.call, False, self.name, self.fun)
        linearized = linearize_flat(result, self.flat.leaves, None, self.fun)
        (value,) = self.checked(linearized.values)
        type = type_of(value)
        if not plan.pattern.count:
            return of_pattern(zeros(array_type((0,), type.dtype)), plan.pattern)
        if plan.forward:
            found = _along(linearized.push, plan, self.type, type)
        else:
            found = _along(linearized.pull, plan, type, self.type)
        size = plan.pattern.shape[0 if plan.forward else 1]
        places = plan.places[0] * size + plan.places[1]
        flat = reshape(found, new_sizes=(plan.directions * size,))
        return of_pattern(take(flat, as_array(places), 0, "promise_in_bounds"), plan.pattern)

    def try_out(self, plan: Plan) -> bool:
        """Raise `GradientError` if a derivative along a random direction is not what the matrix by this plan says. False if
        that cannot be known yet, as values are traced."""
        (x,) = self.flat.leaves
        matrix = self.matrix(plan)
        if isinstance(x, Tracer) or isinstance(matrix.data, Tracer):
            return False
        direction = np.random.default_rng(0).normal(size=self.type.shape).astype(self.type.dtype)
        result = FlatResult(self.flat.call, False, self.name, self.fun)
        _, (tangent,) = jvp_flat(result, [x], [as_array(direction)])
        expected = np.zeros(plan.pattern.shape[0]) if tangent is ZERO else np.asarray(tangent.host, np.float64).reshape(-1)
        terms = np.asarray(matrix.data.host, np.float64) * direction.reshape(-1)[plan.pattern.columns]
        found, size = np.zeros_like(expected), np.ones_like(expected)
        np.add.at(found, plan.pattern.rows, terms)
        np.add.at(size, plan.pattern.rows, np.abs(terms))
        tolerance = float(np.finfo(self.type.dtype).eps) ** 0.5
        wrong = np.flatnonzero(np.abs(found - expected) > tolerance * (size + np.abs(expected)))
        if len(wrong):
            i = wrong[0]
            raise GradientError(
                f"{self.name} was given a pattern that lacks entries: along a random direction the derivative of element {i} is"
                f" {expected[i]:.6g}, but {found[i]:.6g} by the matrix of that pattern. Add what is missing, or leave the"
                " pattern out, and it will be found."
            )
        return True


def _along(linear: Callable[[Sequence[Any]], list[Any]], plan: Plan, type: ArrayType, out_type: ArrayType) -> Any:
    """A linear function of values of one type applied to every direction of a plan, in one batch."""
    count = plan.directions
    directions = (plan.colors == np.arange(count)[:, None]).astype(type.dtype).reshape(count, *type.shape)

    def once(vector: Any) -> list[Any]:
        (out,) = linear([vector])
        return [zeros(out_type.strong()) if out is ZERO else out]

    batch = Array(array_type(directions.shape, type.dtype), directions)
    trace, outs = batch_flat(once, [batch], [True], Axis(count))
    return materialize(trace, outs[0])


def _jacobian_plan(pattern: Pattern, mode: str | None) -> Plan:
    """Columns by forward mode, or rows by reverse mode, whichever takes fewer colors."""
    rows, columns, (height, width) = pattern.rows, pattern.columns, pattern.shape
    by_columns = color_columns(rows, columns, (height, width)) if mode != "reverse" else None
    by_rows = color_columns(columns, rows, (width, height)) if mode != "forward" else None
    if by_rows is None or (by_columns is not None and by_columns.max(initial=-1) <= by_rows.max(initial=-1)):
        assert by_columns is not None
        return Plan(pattern, True, by_columns, (by_columns[columns], rows))
    return Plan(pattern, False, by_rows, (by_rows[rows], columns))


def _hessian_plan(pattern: Pattern) -> Plan:
    pattern = _symmetric(pattern)
    colors = color_star(pattern.rows, pattern.columns, pattern.shape[0])
    return Plan(pattern, True, colors, star_sources(pattern.rows, pattern.columns, colors))


def _symmetric(pattern: Pattern) -> Pattern:
    rows, columns = pattern.rows, pattern.columns
    both = np.concatenate([rows, columns]), np.concatenate([columns, rows])
    return Pattern(*both, pattern.shape, pattern.overestimated)


def _given_pattern(name: str, given: Any, shape: tuple[int, int]) -> Pattern:
    """A pattern in any of the forms that users have it in."""
    if isinstance(given, Pattern):
        made = given
    elif hasattr(given, "tocoo"):
        entries = given.tocoo()
        made = Pattern(entries.row, entries.col, entries.shape)
    elif isinstance(given, tuple) and len(given) == 2:
        made = Pattern(*given, shape)
    else:
        dense = np.asarray(given)
        if dense.ndim != 2:
            raise ShapeError(
                f"{name} takes its pattern as a matrix of bools, a SciPy sparse matrix, or a pair of index arrays (rows,"
                f" columns), but got an array of shape {dense.shape}."
            )
        rows, columns = np.nonzero(dense)
        made = Pattern(rows, columns, (dense.shape[0], dense.shape[1]))
    if made.shape != shape:
        raise ShapeError(f"{name} was given a pattern of shape {made.shape}, but the matrix has shape {shape}.")
    return made


def _place(equation: Equation) -> str:
    return f"{equation.primitive.name}" + (f" ({equation.source})" if equation.source is not None else "")
