"""jax.custom_derivatives: functions with rules of their own, which are pullback's, of JAX's trees."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pullback as pb
from pullback.compat.jax.facade import facade
from pullback.compat.jax.structs import ShapedArray, aval_of, tangent_type, type_of
from pullback.compat.jax.tree_util import (
    broadcast_prefix,
    keystr,
    register_static,
    tree_flatten,
    tree_leaves,
    tree_leaves_with_path,
    tree_map,
    treedef_is_leaf,
    treedef_tuple,
)
from pullback.compat.jax.trees import Packed, pack, packed, standing_for, unpack
from pullback.core.dtypes import is_inexact
from pullback.core.source import api_boundary, named_after
from pullback.core.tracing import innermost_staging
from pullback.core.trees import array_leaf
from pullback.program.equality import Keyed

Function = Callable[..., Any]
Numbers = int | Iterable[int]
Names = str | Iterable[str]


# ---- what functions with rules have in common -------------------------------------------------------------------------


class Custom:
    """A function with rules of its own, around one of pullback's, which sees Packed trees."""

    _make: Function
    nondiff_argnums: tuple[int, ...] = ()

    def __init__(self, fun: Function, **nondiff: Any) -> None:
        functools.update_wrapper(self, fun)
        self.fun = fun
        self._custom = self._make(named_after(fun)(lambda *args: Packed(fun(*unpack(args)))), **nondiff)

    def __getattr__(self, name: str) -> Any:
        """Rules of another kind belong to the function inside: `custom_jvp(custom_vmap(f)).def_vmap`."""
        if name.startswith("def") and "fun" in self.__dict__:
            return getattr(self.fun, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._custom.has_rules:
            raise AttributeError(str(self._custom._missing_rule()))
        fixed, args = self.nondiff_argnums, self._custom._positional(args, kwargs)
        given = [self._fixed(arg) if i in fixed else Packed(arg) for i, arg in enumerate(args)]
        trees = [tree for tree in given if tree.__class__ is Packed]
        if innermost_staging() is not None or any([isinstance(leaf, pb.Tracer) for tree in trees for leaf in tree.leaves]):
            return self._custom(*given).tree
        for tree in trees:  # nothing is traced: Python's numbers stay what they are, also among the results
            tree.leaves = [_entered(leaf, f"an argument of {_name(self.fun)}") for leaf in tree.leaves]
        out = Packed(self.fun(*unpack(given)))
        if any([isinstance(leaf, pb.Tracer) for leaf in out.leaves]):
            return self._custom._finished(out).tree  # it closes over what is differentiated, perhaps
        return out.structure.unflatten([_entered(leaf, f"what {_name(self.fun)} returned") for leaf in out.leaves])

    def _fixed(self, arg: Any) -> Any:
        """An argument without derivatives, as rules get it."""
        return arg


def _entered(leaf: Any, what: str) -> Any:
    """A leaf as an array, or Python's number as it is."""
    return leaf if leaf.__class__ in (float, int, bool, complex) else array_leaf(leaf, lambda: what, trivial=True)


def _name(function: Function) -> str:
    return getattr(function, "__name__", None) or str(function)


def _pair(returned: Any, message: str) -> Any:
    if not isinstance(returned, (list, tuple)) or len(returned) != 2:
        before, _, after = message.rpartition("{}")  # names of functions may have braces, too
        raise TypeError(f"{before}{returned}{after}")
    return returned


# ---- forward mode -----------------------------------------------------------------------------------------------------


class _Differentiated(Custom):
    """A custom_jvp or custom_vjp function: some arguments may have no derivatives."""

    def __init__(self, fun: Function, nondiff_argnums: Numbers = (), nondiff_argnames: Names = ()) -> None:
        super().__init__(fun, nondiff_argnums=nondiff_argnums, nondiff_argnames=nondiff_argnames)
        self.nondiff_argnums = self._custom.nondiff_argnums


class custom_jvp(_Differentiated):
    """pb.custom_jvp."""

    _make = staticmethod(pb.custom_jvp)
    jvp: Function | None = None
    symbolic_zeros = False

    def _fixed(self, arg: Any) -> Any:
        return tree_map(lambda leaf: pb.stop_gradient(leaf) if isinstance(leaf, pb.Tracer) else leaf, arg)

    def defjvp(self, jvp: Function, symbolic_zeros: bool = False) -> Function:
        @standing_for(jvp)
        def rule(*args: Any) -> tuple[Packed, Packed]:
            *fixed, primals, tangents = args
            primal, tangent = [Packed(tree) for tree in _pair(jvp(*fixed, unpack(primals), unpack(tangents)), message)]
            if primal.structure != tangent.structure:
                raise TypeError(
                    f"{_name(jvp)}, the rule of custom_jvp {_name(self.fun)}, must return a tangent like its output: the output"
                    f" is {primal.structure}, the tangent {tangent.structure}."
                )
            _check_tangents(primal, tangent)
            return primal, tangent

        message = (
            f"{_name(jvp)}, the rule of custom_jvp {_name(self.fun)}, must return (output, tangent), a tuple or list of two,"
            " but returned {}."
        )
        self._custom.defjvp(rule, symbolic_zeros)
        self.jvp, self.symbolic_zeros = jvp, symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Function | None) -> None:
        if self.nondiff_argnums:
            raise TypeError(
                f"custom_jvp {_name(self.fun)} has arguments without derivatives, nondiff_argnums={self.nondiff_argnums}, which"
                " the rules of defjvps do not get: write one rule for all arguments, with defjvp."
            )

        def of_packed(jvp: Function) -> Function:
            return standing_for(jvp)(lambda t, out, *primals: Packed(jvp(t.tree, out.tree, *unpack(primals))))

        self._custom.defjvps(*[None if jvp is None else of_packed(jvp) for jvp in jvps])
        self.jvp = self._custom.defjvps


def _check_tangents(primal: Packed, tangent: Packed) -> None:
    rows = [(aval := _aval(x), aval.to_tangent_aval(), _aval(t)) for x, t in zip(primal.leaves, tangent.leaves)]
    wrong = [[aval.str_short() for aval in row] for row in rows if row[1] is not row[2]]
    start = "The rule of a custom_jvp must return tangents of the shapes of its outputs, and of the dtypes of their tangents"
    if wrong and len(rows) == 1:
        raise TypeError("{}: to the output {} belongs {}, but the rule returned {}.".format(start, *wrong[0]))
    if wrong:
        lines = ["  to the output {} belongs {}, but the rule returned {}".format(*row) for row in wrong]
        raise TypeError("\n".join([f"{start}:", *lines]))


def _aval(leaf: Any) -> ShapedArray:
    """The type of a value, or of a tangent that is known to be zero."""
    type = tangent_type(leaf.type) if isinstance(leaf, pb.SymbolicZero) else type_of(leaf)
    return aval_of(type).strip_weak_type()


# ---- reverse mode -----------------------------------------------------------------------------------------------------


@register_static
class _Arguments(Keyed):
    """The arguments that a backward pass makes cotangents for: their structures, and the types of the arrays in them."""

    def __init__(self, args: Sequence[Packed]) -> None:
        self.structures = [arg.structure for arg in args]
        values = [leaf.value if isinstance(leaf, pb.CustomVJPPrimal) else leaf for arg in args for leaf in arg.leaves]
        self.key = treedef_tuple(self.structures), tuple([_aval(value) for value in values])

    def cotangents(self, given: Any, whose: str) -> list[Packed]:
        """What a rule returned, as Packed trees like the arguments. It may have None, or one value, in place of a tree.
        `whose` it is, for errors."""
        structure, avals = self.key
        given = tuple(given) if isinstance(given, list) and len(given) == len(self.structures) else given
        try:
            if not isinstance(given, tuple):
                raise ValueError
            places = structure.unflatten([_PLACE] * structure.num_leaves)
            leaves = broadcast_prefix(given, places, is_leaf=lambda node: node is None)
        except ValueError:
            raise TypeError(
                f"{whose} must return a tuple with a cotangent for each argument, a tree like that argument:"
                f" it returned {tree_flatten(given)[1]}"
                f" where the arguments are {structure}."
                + (" A tuple of one is written (x,)." if len(self.structures) == 1 else "")
            ) from None
        paths = [path for path, _ in tree_leaves_with_path(places)]
        rest = iter([_cotangent(*row, whose) for row in zip(leaves, avals, paths)])
        return [Packed.of(each, [next(rest) for _ in range(each.num_leaves)]) for each in self.structures]


_PLACE = object()


def _cotangent(leaf: Any, aval: ShapedArray, path: Any, whose: str) -> Any:
    """A cotangent, in the dtype of its argument: rules may return another precision."""
    if leaf is None or not is_inexact(aval.dtype):
        return None
    found = _aval(leaf)
    if found.shape != aval.shape:
        zero = isinstance(leaf, pb.SymbolicZero)
        raise ValueError(
            f"{whose} must return cotangents of the types of the arguments, but that for"
            f" args{keystr(path)}, {'a SymbolicZero' if zero else 'an array'}, has type {found.str_short()} where the argument"
            f" has {aval.str_short()}." + (" None stands for zeros of any type." if zero else "")
        )
    if isinstance(leaf, pb.SymbolicZero) or found is aval or not is_inexact(found.dtype):
        return leaf
    return pb.lax.convert_element_type(leaf, aval.dtype)


class custom_vjp(_Differentiated):
    """pb.custom_vjp."""

    _make = staticmethod(pb.custom_vjp)
    fwd: Function | None = None
    bwd: Function | None = None
    symbolic_zeros = optimize_remat = False

    def _fixed(self, arg: Any) -> Any:
        if any([isinstance(leaf, pb.Tracer) for leaf in tree_leaves(arg)]):
            raise pb.errors.EscapedTracerError(
                f"An argument that nondiff_argnums of custom_vjp {_name(self.fun)} names holds a traced value. These"
                " arguments go to the rules as they are, so they must be no arrays: functions, strings, numbers. Pass arrays in"
                " other positions, and return None for their cotangents."
            )
        return arg

    def defvjp(self, fwd: Function, bwd: Function, symbolic_zeros: bool = False, optimize_remat: bool = False) -> None:
        if symbolic_zeros and optimize_remat:
            raise NotImplementedError("defvjp takes symbolic_zeros or optimize_remat, not both.")

        @standing_for(fwd)
        def forward(*args: Any) -> tuple[Packed, Packed]:
            out, residuals = _pair(fwd(*unpack(args)), message)
            return Packed(out), Packed((residuals, _Arguments([arg for arg in args if isinstance(arg, Packed)])))

        @standing_for(bwd)
        def backward(*args: Any) -> list[Packed]:
            *fixed, kept, cotangent = args
            residuals, arguments = kept.tree
            return arguments.cotangents(bwd(*fixed, residuals, cotangent.tree), whose)

        whose = f"{_name(bwd)}, the backward rule of custom_vjp {_name(self.fun)},"
        message = (
            f"{_name(fwd)}, the forward rule of custom_vjp {_name(self.fun)}, must return (output, residuals): what"
            f" {_name(self.fun)} returns, and what the backward rule needs. It returned {{}}."
        )
        self._custom.defvjp(forward, backward, symbolic_zeros)
        self.fwd, self.bwd, self.symbolic_zeros, self.optimize_remat = fwd, bwd, symbolic_zeros, optimize_remat


def custom_gradient(fun: Function) -> Function:
    @named_after(fun)
    def of_packed(*args: Packed) -> tuple[Packed, Function]:
        out, back = fun(*unpack(args))

        def backward(cotangent: Packed) -> list[Packed]:
            found = back(cotangent.tree)
            alone = treedef_is_leaf(tree_flatten(found)[1])
            whose = f"What the custom_gradient function {_name(fun)} returns beside its output"
            return _Arguments(args).cotangents((found,) if alone else found, whose)

        return Packed(out), backward

    made: Any = pb.custom_gradient(of_packed)
    return named_after(fun)(lambda *args, **kwargs: made(*pack(made._positional(args, kwargs))).tree)


# ---- symbolic zeros ---------------------------------------------------------------------------------------------------


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    def value(leaf: Any) -> Any:
        if type(leaf) is not pb.CustomVJPPrimal:
            raise TypeError(
                "custom_vjp_primal_tree_values takes an argument of a forward rule with symbolic_zeros=True, a tree whose"
                f" leaves are CustomVJPPrimal, but one of them is of type {type(leaf)}."
            )
        return leaf.value

    return tree_map(value, tree)


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    def zero(leaf: Any) -> Any:
        found = pb.SymbolicZero(tangent_type(type_of(leaf)))
        return found if symbolic_zeros else found.instantiate()

    return tree_map(zero, val)


# ---- linear functions with a transpose of their own --------------------------------------------------------------------


def linear_call(fun: Function, fun_transpose: Function, residual_args: Any, linear_args: Any) -> Any:
    """A function that is linear in its second argument, and whose transpose reverse mode takes from another one."""

    @standing_for(fun, "residuals", "x")
    def of_packed(residuals: Packed, x: Packed) -> Packed:
        return Packed(fun(residuals.tree, x.tree))

    call = pb.custom_vjp(of_packed)

    @call.defjvp
    def push(primals: Any, tangents: Any) -> Any:
        return call(*primals), call(primals[0], tangents[1])

    def forward(residuals: Packed, x: Packed) -> Any:
        if any([leaf.perturbed for leaf in residuals.leaves]):
            raise pb.errors.GradientError("linear_call has no derivative with respect to its residual arguments.")
        kept = Packed.of(residuals.structure, [leaf.value for leaf in residuals.leaves])
        return call(kept, Packed.of(x.structure, [leaf.value for leaf in x.leaves])), kept

    def backward(residuals: Packed, cotangent: Packed) -> Any:
        leaves = [leaf.instantiate() if isinstance(leaf, pb.SymbolicZero) else leaf for leaf in cotangent.leaves]
        found = Packed(fun_transpose(residuals.tree, Packed.of(cotangent.structure, leaves).tree))
        return None, found

    call.defvjp(forward, backward, symbolic_zeros=True)
    return call(Packed(residual_args), Packed(linear_args)).tree


# ---- functions that close over values ---------------------------------------------------------------------------------


def closure_convert(fun: Function, *example_args: Any) -> tuple[Function, list[Any]]:
    made, values = pb.closure_convert(packed(fun), *pack(example_args))
    structure = tree_flatten(example_args)[1]

    def converted(*args_and_values: Any) -> Any:
        split = len(args_and_values) - len(values)
        args, given = args_and_values[:split], args_and_values[split:]
        if tree_flatten(args)[1] != structure:
            raise TypeError(
                f"This function was converted (closure_convert) for arguments {structure}, but is called with"
                f" {tree_flatten(args)[1]}."
            )
        return made(*pack(args), *given).tree

    return converted, values


facade(
    globals(),
    own={"pullback": "CustomVJPPrimal SymbolicZero", "primitives": "custom_jvp_call_p custom_vjp_call_p"},
)
