"""Functions whose derivatives are not those of their steps: custom_root and custom_linear_solve, which are differentiated
through the equation that they solve, and linear_call, which is told its transpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.api.functions import R, check_callable, paths_of
from pullback.api.loops import fit, pair_structure, returning, settled
from pullback.api.traced import Traced, shared_captures, trace
from pullback.control.holder import bind_holder
from pullback.control.linear_solve import linear_call as linear_primitive
from pullback.control.linear_solve import linear_solve as linear_solve_primitive
from pullback.control.linear_solve import root as root_primitive
from pullback.control.linear_solve import transposed_operator
from pullback.core.errors import NotLinear, PullbackError
from pullback.core.source import api_boundary, describe
from pullback.core.tracing import type_of
from pullback.core.trees import OUT_OF_RESULTS, TreeDef, Trees, check_like, kind_of, structure_paths, taking, unflatten
from pullback.core.types import ArrayType
from pullback.core.zero import instantiate
from pullback.ops.varying import vary_as
from pullback.transforms.linearize import linearize_flat
from pullback.transforms.stage import replay

Solver = Callable[[Callable[[Any], Any], Any], Any]


def _flat_caller(trees: Trees, program: Any, captures: Sequence[Any], structure: TreeDef, given: Any) -> Callable[[Any], Any]:
    """A recorded function, whose result is like its argument, as a function of trees again, for the solver to call. What it is
    called with is taken to vary along mesh axes as what the solver was given does."""
    like = trees.flatten(given)[0]

    @taking(trees)
    def function(x: Any) -> Any:
        leaves, found = trees.array_leaves(x, lambda: "the argument")
        check_like(
            found, structure, "x", "it takes", lambda where: f"The function that the solver was given was called with: {where}."
        )
        types = program.input_types[len(captures) :]
        fitted = [fit(leaf, type) if type_of(leaf).shape == type.shape else leaf for leaf, type in zip(leaves, types)]
        return unflatten(structure, replay(program, (*captures, *vary_as(fitted, fitted, like))))

    return function


def _check(
    what: str, structure: TreeDef, types: Sequence[ArrayType], wanted: TreeDef, wanted_types: Sequence[ArrayType], other: str
) -> None:
    """Raise unless the result of a user's function is a tree of the structure and types of another."""
    says = f"{what} must be a tree like {other}, but "
    check_like(structure, wanted, "output", f"{other} has", lambda where: f"{says}{where}.", (types, wanted_types))


def _settled(
    what: str, function: Callable[[Any], Any], structure: TreeDef, leaves: Sequence[Any], paths: Sequence[str]
) -> tuple[Traced, Sequence[ArrayType]]:
    """A function recorded, and the types of its argument: Python numbers in it take the types that the result has."""
    types = [type_of(leaf) for leaf in leaves]
    return settled(types, lambda types: trace(what, function, (structure,), types, paths), strong=True)


def _split_aux(trees: Trees, what: str, has_aux: bool, traced: Traced) -> tuple[TreeDef, Sequence[ArrayType], TreeDef]:
    """The structure and types of what a solver found, and the structure of its auxiliary data."""
    if not has_aux:
        return traced.structure, traced.out_types, None
    (found, aux), count = pair_structure(
        trees, traced, f"{what} with has_aux=True must return a pair (solution, auxiliary data)"
    )
    return found, traced.out_types[:count], aux


@api_boundary
def custom_root(
    f: Callable[[Any], Any], initial_guess: Any, solve: Solver, tangent_solve: Solver, has_aux: bool = False
) -> Any:
    """A root of `f`, found by `solve`, and differentiated by the implicit function theorem, not through the steps of `solve`.

    With f(x, theta) = 0, where `f` closes over theta, dx solves  (df/dx) dx = -(df/dtheta) dtheta.

    Arguments:
        f: a function of a tree x, whose result has x's structure. It may close over traced values; derivatives of the root are
            with respect to those.
        initial_guess: a tree like x; the root does not depend on it.
        solve: `(f, initial_guess)` to the root; any solver, of any operations.
        tangent_solve: `(g, y)` to the x with g(x) = y, for a linear function g; itself differentiable, and linear in y:
            `lambda g, y: y / g(1.0)` for a number; `custom_linear_solve` for vectors. Forward mode takes it at its word;
            reverse mode raises a GradientError where it is not linear.
        has_aux: whether `solve` returns a pair, whose second member is passed on without a derivative.

    Returns:
        The root, and the auxiliary data if there are any.

    Raises:
        StructureError, ShapeError, DtypeError: the results are not of x's structure and types.

    Example: the fixed point x = cos(a x), which is a root of cos(a x) - x.
        >>> import pullback as pb
        >>> def solve(f, x):
        ...     return pb.lax.fori_loop(0, 50, lambda _, x: x + f(x), x)
        >>> def fixed_point(a):
        ...     return pb.custom_root(lambda x: pb.numpy.cos(a * x) - x, 0.5, solve, lambda g, y: y / g(1.0))
        >>> round(float(fixed_point(1.0)), 4), round(float(pb.grad(fixed_point)(1.0)), 4)
        (0.7391, -0.2975)

    Source: Krantz and Parks, The Implicit Function Theorem, 2003.
    """
    for given in (f, solve, tangent_solve):
        check_callable(given, "custom_root")
    trees = kind_of(f)
    guess, structure = trees.array_leaves(initial_guess, lambda: "initial_guess")
    paths = structure_paths(structure, "x")
    function, types = _settled("custom_root", f, structure, guess, paths)
    guess = [fit(leaf, type) for leaf, type in zip(guess, types)]
    _check(f"The result of {describe(f)}", function.structure, function.program.output_types, structure, types, "initial_guess")

    def solved_from(x: Any) -> Any:
        return solve(_flat_caller(trees, function.program, function.captures, structure, x), x)

    solving = trace("custom_root", solve, (structure,), types, paths, call=solved_from)
    found, found_types, aux = _split_aux(trees, "custom_root's solve", has_aux, solving)
    _check("What custom_root's solve returns", found, found_types, structure, types, "initial_guess")

    def linearized_solve(x: Sequence[Any], right: Any) -> Any:
        linear = linearize_flat(lambda *leaves: replay(function.program, (*function.captures, *leaves)), x)

        @taking(trees)
        def g(tree: Any) -> Any:
            leaves, _ = trees.array_leaves(tree, lambda: "the argument")
            fitted = [fit(leaf, type) for leaf, type in zip(leaves, types, strict=True)]
            pushed = zip(linear.push(fitted), linear.values, strict=True)
            return unflatten(structure, [instantiate(tangent, type_of(value)) for tangent, value in pushed])

        out, out_structure = trees.array_leaves(
            tangent_solve(g, right), lambda: "what tangent_solve returned: output", keep_out=OUT_OF_RESULTS
        )
        _check(
            "What custom_root's tangent_solve returns",
            out_structure,
            [type_of(leaf) for leaf in out],
            structure,
            types,
            "initial_guess",
        )
        return [fit(leaf, type) for leaf, type in zip(out, types)]

    listing = trees.flatten([0] * len(types))[1]
    right_types = [type.strong() for type in function.program.output_types]
    tangent = trace("custom_root", tangent_solve, (listing, structure), [*types, *right_types], call=linearized_solve)
    captures, _, (equation, solved, moved) = shared_captures((function, solving, tangent))
    params = {"function": equation, "solve": solved, "tangent": moved, "num_consts": len(captures)}
    return _results(bind_holder(root_primitive, *captures, *guess, **params), structure, len(guess), aux, has_aux)


def _results(outs: Sequence[Any], structure: TreeDef, count: int, aux: TreeDef, has_aux: bool) -> Any:
    solution = unflatten(structure, outs[:count])
    return (solution, unflatten(aux, outs[count:])) if has_aux else solution


@api_boundary
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Solver,
    transpose_solve: Solver | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """The solution x of the linear system matvec(x) = b, found by `solve`, and differentiated through the equation itself.

    The tangent solves  A dx = db - (dA) x,  and the cotangent of b solves  A^T b_bar = x_bar.

    Arguments:
        matvec: a linear function of a tree x like `b`. It may close over traced values, and the solution has derivatives
            with respect to them.
        b: the right-hand side, a tree.
        solve: `(matvec, b)` to x; any solver, of any operations.
        transpose_solve: `(vecmat, b)` to the solution of the transposed system, `vecmat` being the transpose of `matvec`; for
            reverse mode.
        symmetric: whether `matvec` is its own transpose; then `solve` also solves the transposed system.
        has_aux: whether `solve` returns a pair, whose second member is passed on without a derivative.

    Returns:
        x, and the auxiliary data if there are any.

    Raises:
        StructureError, ShapeError, DtypeError: the results are not of b's structure and types. GradientError: `matvec` is
            not linear; or reverse mode, without a `transpose_solve`.

    Example:
        >>> import pullback as pb
        >>> def solve_diagonal(d, b):
        ...     solver = lambda matvec, b: b / matvec(pb.numpy.ones_like(b))
        ...     return pb.custom_linear_solve(lambda x: d * x, b, solver, symmetric=True)
        >>> d, b = pb.numpy.asarray([2.0, 4.0]), pb.numpy.asarray([1.0, 1.0])
        >>> solve_diagonal(d, b)
        [0.5  0.25]:f32[2]:cpu(0)
        >>> pb.grad(lambda d: pb.numpy.sum(solve_diagonal(d, b)))(d)
        [-0.25   -0.0625]:f32[2]:cpu(0)
    """
    for given in (matvec, solve, *[transpose_solve][: transpose_solve is not None]):
        check_callable(given, "custom_linear_solve")
    trees = kind_of(matvec)
    right, structure = trees.array_leaves(b, lambda: "b")
    paths = structure_paths(structure, "x")
    operator, types = _settled("custom_linear_solve", matvec, structure, right, paths)
    right = [fit(leaf, type) for leaf, type in zip(right, types)]
    _check(f"The result of {describe(matvec)}", operator.structure, operator.program.output_types, structure, types, "b")
    unknown = (*[0] * len(operator.captures), *[1] * len(types))
    transposed = operator
    try:
        program = transposed_operator(operator.program, unknown)
        transposed = operator if symmetric else operator._replace(program=program)
    except PullbackError as error:
        if not symmetric or isinstance(error, NotLinear):  # what is its own transpose need not have rules for it
            raise

    def prepared(what: str, solver: Solver, system: Traced) -> tuple[Traced, TreeDef]:
        def solved(b: Any) -> Any:
            return solver(_flat_caller(trees, system.program, system.captures, structure, b), b)

        traced = trace("custom_linear_solve", solver, (structure,), types, paths, call=solved)
        found, found_types, aux = _split_aux(trees, what, has_aux, traced)
        _check(f"What {what} returns", found, found_types, structure, types, "b")
        return traced, aux

    forward, aux = prepared("custom_linear_solve's solve", solve, operator)
    systems = [operator, transposed, forward]
    if symmetric:
        systems.append(forward)
    elif transpose_solve is not None:
        systems.append(prepared("custom_linear_solve's transpose_solve", transpose_solve, transposed)[0])
    captures, _, programs = shared_captures(systems)
    params = dict(zip(("operator", "transposed", "solve", "transpose_solve"), [*programs, None]))
    outs = bind_holder(linear_solve_primitive, *captures, *right, num_consts=len(captures), **params)
    return _results(outs, structure, len(right), aux, has_aux)


@api_boundary
def linear_call(
    fun: Callable[[Any, Any], R], fun_transpose: Callable[[Any, R], Any], residual_args: Any, linear_args: Any
) -> R:
    """`fun(residual_args, linear_args)`, a function that is linear in its second argument, and is told its transpose.

    Reverse mode takes `fun_transpose` at its word; the transpose of that is `fun` again.

    Arguments:
        fun: the linear function.
        fun_transpose: `fun_transpose(residual_args, cotangent)` to the cotangent of `linear_args`, a tree like these.
        residual_args: what else both need, any tree; there is no derivative with respect to it.
        linear_args: the tree that `fun` is linear in.

    Returns:
        What `fun` returns.

    Raises:
        StructureError, ShapeError, DtypeError: what `fun_transpose` returns is not like `linear_args`.
        GradientError: a derivative was asked for with respect to `residual_args`, or to what the functions close over.

    Example:
        >>> import pullback as pb
        >>> divide = lambda n, x: x / n
        >>> pb.grad(lambda x: pb.linear_call(divide, divide, 4.0, x))(3.0)
        0.25:f32[]:cpu(0)
    """
    check_callable(fun, "linear_call", "fun")
    check_callable(fun_transpose, "linear_call", "fun_transpose")
    trees = kind_of(fun)
    residuals, kept = trees.array_leaves(residual_args, lambda: "residual_args")
    xs, structure = trees.array_leaves(linear_args, lambda: "linear_args")
    residual_types, types = [type_of(leaf) for leaf in residuals], [type_of(leaf).strong() for leaf in xs]
    paths = paths_of((kept, "residual_args"), (structure, "linear_args"))
    forward = trace("linear_call", fun, (kept, structure), [*residual_types, *types], paths)
    out_types = [type.strong() for type in forward.out_types]
    back = trace("linear_call", fun_transpose, (kept, forward.structure), [*residual_types, *out_types])
    _check(f"What {describe(fun_transpose)} returns", back.structure, back.out_types, structure, types, "linear_args")
    captures, _, programs = shared_captures((forward, back))
    function, transposed = [returning(program, own) for program, own in zip(programs, (out_types, types))]
    consts, given = [*captures, *residuals], [fit(leaf, type) for leaf, type in zip(xs, types)]
    params = {"solve": function, "transposed": transposed, "num_consts": len(consts)}
    return unflatten(forward.structure, bind_holder(linear_primitive, *consts, *given, **params))  # type: ignore[no-any-return]
