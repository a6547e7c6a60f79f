"""jax.custom_derivatives: functions with rules of their own, which are pullback's, of JAX's trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pullback as pb
from pullback.api.custom import CustomFunction
from pullback.compat.jax.facade import facade
from pullback.compat.jax.structs import tangent_type, type_of
from pullback.compat.jax.tree_util import tree_leaves, tree_map
from pullback.compat.jax.trees import of_function, of_jax_trees
from pullback.core.source import describe, name_of
from pullback.core.tracing import innermost_staging
from pullback.core.trees import array_leaf

Function = Callable[..., Any]


# ---- what functions with rules have in common -------------------------------------------------------------------------


class Custom(CustomFunction):
    """A function with rules of its own, of JAX's trees."""

    _any_precision = _own_precision = True
    _own = ""  # which of RuleFunctions' fields it is for

    def __init__(self, fun: Function, *args: Any, **kwargs: Any) -> None:
        if not isinstance(fun, CustomFunction):
            vars(self).update(getattr(fun, "__dict__", {}))
        super().__init__(of_jax_trees(fun), *args, **kwargs)
        self.__wrapped__ = fun

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.nondiff_argnums:
            args, kwargs = self._positional(args, kwargs), {}
            args = tuple([self._fixed(arg) if i in self.nondiff_argnums else arg for i, arg in enumerate(args)])
        return super().__call__(*args, **kwargs)

    def _call(self, args: tuple[Any, ...]) -> Any:
        """As pullback's, but for Python's numbers, which stay what they are where nothing is traced, also among the results."""
        numbers = self._numbers(len(args))
        if innermost_staging() is not None or any([_is_traced(args[number]) for number in numbers]):
            return super()._call(args)
        given = list(args)
        for number in numbers:
            given[number] = tree_map(lambda leaf: _entered(leaf, f"an argument of {name_of(self.fun)}"), args[number])
        out = self.fun(*given)
        if _is_traced(out):  # it closes over what is differentiated, perhaps
            return self._finished(out)
        return tree_map(lambda leaf: _entered(leaf, f"what {name_of(self.fun)} returned"), out)

    def _fixed(self, arg: Any) -> Any:
        """An argument without derivatives, as rules get it."""
        return arg

    def _define(self, **rules: Any) -> None:
        """Rules of another kind belong to the function inside: `custom_jvp(custom_vmap(f)).def_vmap`."""
        inside = self.__wrapped__
        if self._own in rules or not isinstance(inside, CustomFunction):
            super()._define(**rules)
        else:
            inside._define(**rules)

    def _missing_rule(self) -> Any:
        return AttributeError(str(super()._missing_rule()))


def _is_traced(tree: Any) -> bool:
    return any([isinstance(leaf, pb.Tracer) for leaf in tree_leaves(tree)])


def _entered(leaf: Any, what: str) -> Any:
    """A leaf as an array, or Python's number as it is, if there can be an array of it."""
    found = array_leaf(leaf, lambda: what, trivial=True)
    return leaf if leaf.__class__ in (float, int, bool, complex) else found


class custom_jvp(Custom, pb.custom_jvp):
    """pb.custom_jvp."""

    _own = "jvp"
    jvp: Any = None
    symbolic_zeros = False

    def _fixed(self, arg: Any) -> Any:
        return tree_map(lambda leaf: pb.stop_gradient(leaf) if isinstance(leaf, pb.Tracer) else leaf, arg)

    def _define(self, **rules: Any) -> None:
        super()._define(**rules)
        if "jvp" in rules:
            self.jvp, self.symbolic_zeros = rules["jvp"] or self.defjvps, rules["jvp_symbolic"]


class custom_vjp(Custom, pb.custom_vjp):
    """pb.custom_vjp."""

    _own = "fwd"
    fwd: Function | None = None
    bwd: Function | None = None
    symbolic_zeros = optimize_remat = False

    def _fixed(self, arg: Any) -> Any:
        if _is_traced(arg):
            raise pb.errors.EscapedTracerError(
                f"An argument that nondiff_argnums of custom_vjp {describe(self)} names holds a traced value. These arguments"
                " go to the rules as they are, so they must be no arrays: functions, strings, numbers. Pass arrays in other"
                " positions, and return None for their cotangents."
            )
        return arg

    def defvjp(self, fwd: Function, bwd: Function, symbolic_zeros: bool = False, optimize_remat: bool = False) -> None:
        if symbolic_zeros and optimize_remat:
            raise NotImplementedError("defvjp takes symbolic_zeros or optimize_remat, not both.")
        super().defvjp(fwd, bwd, symbolic_zeros)
        self.fwd, self.bwd, self.symbolic_zeros, self.optimize_remat = fwd, bwd, symbolic_zeros, optimize_remat


custom_gradient, closure_convert = map(of_function, (pb.custom_gradient, pb.closure_convert))


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
    return pb.linear_call(of_jax_trees(fun), of_jax_trees(fun_transpose), residual_args, linear_args)


facade(
    globals(),
    own={"pullback": "CustomVJPPrimal SymbolicZero", "primitives": "custom_jvp_call_p custom_vjp_call_p"},
)
