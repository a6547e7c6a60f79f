"""JAX's primitives: those of pullback by JAX's names, with JAX's parameters, and those that programs make themselves.

`facade_of` gives the one object that stands for a primitive of pullback, `named` the one of a name of JAX's (`sin_p`); a
`Translation` says how its parameters and operands read in JAX. Binding one with JAX's parameters applies pullback's.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pullback import control, ops
from pullback.compat.jax.rows import PRIMITIVES
from pullback.core import primitive as core_primitive
from pullback.core.array import Array
from pullback.core.source import name_of
from pullback.core.tracing import Tracer

Params = dict[str, Any]
Close = Callable[[Any], Any]


class Translation:
    """How an operation of pullback reads in JAX: other names of parameters, parameters that it has not, operands elsewhere."""

    def __init__(self, name: str, renamed: dict[str, str] | None = None, extra: Params | None = None) -> None:
        self.name = name
        self.renamed = renamed or {}
        self.extra = extra or {}
        self.back = {theirs: ours for ours, theirs in self.renamed.items()}

    def viewed(self, params: Params, operands: list[Any], close: Close) -> tuple[Params, list[Any]]:
        """Parameters and operands as JAX has them; `close` gives the ClosedJaxpr of a Program."""
        return self.extra | {self.renamed.get(key, key): value for key, value in params.items()}, operands

    def ours(self, params: Params, args: Sequence[Any]) -> tuple[Params, Sequence[Any]]:
        """Those of JAX as pullback has them."""
        for key in self.extra:
            if key not in self.back and params.get(key) not in (None, self.extra[key], False, (), 1):
                raise NotImplementedError(f"{self.name}: the parameter {key}={params[key]!r} is not provided by pullback.")
        return {
            self.back.get(key, key): value for key, value in params.items() if key in self.back or key not in self.extra
        }, args

    def bind_params(self, params: Params) -> Params:
        """What `bind` takes to repeat an equation with these parameters."""
        return params


class _Select(Translation):
    """JAX counts the cases from false to true."""

    def viewed(self, params: Params, operands: list[Any], close: Close) -> tuple[Params, list[Any]]:
        return params, [operands[0], operands[2], operands[1]]

    def ours(self, params: Params, args: Sequence[Any]) -> tuple[Params, Sequence[Any]]:
        if len(args) != 3:
            raise NotImplementedError("select_n of other than two cases is not one operation of pullback.")
        return params, [args[0], args[2], args[1]]


class _OneAxis(Translation):
    """An axis, which is a tuple of axes in JAX."""

    def __init__(self, name: str, ours: str, theirs: str, extra: Params | None = None) -> None:
        super().__init__(name, {ours: theirs}, extra)
        self.pair = ours, theirs

    def viewed(self, params: Params, operands: list[Any], close: Close) -> tuple[Params, list[Any]]:
        found, operands = super().viewed(params, operands, close)
        name = found[self.pair[1]]
        return {**found, self.pair[1]: name if isinstance(name, tuple) else (name,)}, operands

    def ours(self, params: Params, args: Sequence[Any]) -> tuple[Params, Sequence[Any]]:
        found, args = super().ours(params, args)
        axes = found[self.pair[0]]
        return {**found, self.pair[0]: axes[0] if len(axes) == 1 else axes}, args


class _Holding(Translation):
    """An operation that holds Programs: those parameters are Jaxprs."""

    def __init__(self, name: str, renamed: dict[str, str], extra: Params | None = None, dropped: tuple[str, ...] = ()) -> None:
        super().__init__(name, renamed, extra)
        self.dropped = dropped

    def viewed(self, params: Params, operands: list[Any], close: Close) -> tuple[Params, list[Any]]:
        def shown(value: Any) -> Any:
            if isinstance(value, tuple):
                return tuple([shown(one) for one in value])
            return close(value) if hasattr(value, "equations") else value

        kept = {key: shown(value) for key, value in params.items() if key not in self.dropped}
        return super().viewed(kept, operands, close)

    def ours(self, params: Params, args: Sequence[Any]) -> tuple[Params, Sequence[Any]]:
        def meant(value: Any) -> Any:
            if isinstance(value, (tuple, list)):
                return tuple([meant(one) for one in value])
            return value.program if hasattr(value, "eqns") else value

        return super().ours({key: meant(value) for key, value in params.items()}, args)


class _Jit(_Holding):
    def viewed(self, params: Params, operands: list[Any], close: Close) -> tuple[Params, list[Any]]:
        found, operands = super().viewed(params, operands, close)
        return {**found, "name": params["program"].name, "donated_invars": (False,) * len(operands)}, operands

    def ours(self, params: Params, args: Sequence[Any]) -> tuple[Params, Sequence[Any]]:
        return {"program": params["jaxpr"].program}, args


class _While(_Holding):
    """Condition and body take the same constants in pullback, in JAX each its own."""

    def viewed(self, params: Params, operands: list[Any], close: Close) -> tuple[Params, list[Any]]:
        count, found, consts = params["num_consts"], {}, []
        for name, program in (("cond", params["condition"]), ("body", params["body"])):
            read = {x for equation in program.equations for x in equation.inputs} | set(program.outputs)
            used = [i for i, x in enumerate(program.inputs[:count]) if x in read]
            consts += [operands[i] for i in used]
            found[f"{name}_nconsts"] = len(used)
            found[f"{name}_jaxpr"] = close(program.rearranged([*used, *range(count, len(program.inputs))]))
        return found, [*consts, *operands[count:]]

    def ours(self, params: Params, args: Sequence[Any]) -> tuple[Params, Sequence[Any]]:
        first, second = params["cond_nconsts"], params["body_nconsts"]
        condition, body = params["cond_jaxpr"].program, params["body_jaxpr"].program
        new = [*condition.input_types[:first], *body.input_types]
        places = range(first + second, len(new))
        condition = condition.rearranged(_placed(new, [*range(first), *places]))
        body = body.rearranged(_placed(new, [*range(first, first + second), *places]))
        return {"condition": condition, "body": body, "num_consts": first + second}, args


def _placed(types: Sequence[Any], places: Sequence[int]) -> list[Any]:
    """For each place of a row the number of the input that goes there, or the type of what nothing reads."""
    numbers = {place: number for number, place in enumerate(places)}
    return [numbers.get(place, type) for place, type in enumerate(types)]


class _Cond(_Holding):
    def ours(self, params: Params, args: Sequence[Any]) -> tuple[Params, Sequence[Any]]:
        return {"branches": tuple([branch.program for branch in params["branches"]])}, args


class _Wrapped:
    """A function among parameters, as JAX wraps one."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.f = self.call_wrapped = function
        self.func_name = name
        self.debug_info = self

    def __repr__(self) -> str:
        return f"Wrapped({self.func_name})"


class _Custom(Translation):
    """A function with rules of its own: `custom_jvp_call`, or `custom_vjp_call` where it has a vjp rule."""

    def viewed(self, params: Params, operands: list[Any], close: Close) -> tuple[Params, list[Any]]:
        rules, program = params["rules"], params["program"]
        program = program.make() if hasattr(program, "make") else program
        found: Params = {"call_jaxpr": close(program), "num_consts": 0, "symbolic_zeros": rules.about.symbolic}
        if rules.forward is None:
            return {**found, "jvp_jaxpr_fun": _of_rules(params, rules.jvp, "jvp")}, operands
        fwd, bwd = _of_rules(params, rules.forward, "fwd"), _of_rules(params, rules.backward, "bwd")
        return {**found, "fwd_jaxpr_thunk": fwd, "bwd": bwd, "out_trees": None}, operands

    def ours(self, params: Params, args: Sequence[Any]) -> tuple[Params, Sequence[Any]]:
        kept = params["subfuns"][1] if "subfuns" in params else params.get("jvp_jaxpr_fun") or params["fwd_jaxpr_thunk"]
        return kept.params, args

    def bind_params(self, params: Params) -> Params:
        jaxpr = params["call_jaxpr"]
        called = functools.partial(_run, jaxpr)
        rule = params.get("jvp_jaxpr_fun") or params["fwd_jaxpr_thunk"]
        return {"subfuns": (_Wrapped(called, "f"), rule), "symbolic_zeros": params["symbolic_zeros"]}


def _run(closed_jaxpr: Any, *args: Any) -> Any:
    return closed_jaxpr.run(*args)


def _of_rules(params: Params, rule: Any, name: str) -> _Wrapped:
    made = _Wrapped(rule, name_of(params["rules"].about.function, name))
    made.params = params  # type: ignore[attr-defined]
    return made


class Primitive:
    """An operation, as JAX's programs know one. Those of their own get their rules from the registries when they are used."""

    multiple_results = False
    call_primitive = map_primitive = ref_primitive = skip_canonicalization = False
    is_effectful: Any = None
    translation: Translation
    name: str
    make: Callable[[Primitive], core_primitive.Primitive]  # which is in `rules.py`

    def __init__(self, name: str) -> None:
        self.name = name
        self.translation = Translation(name)

    def __repr__(self) -> str:
        return self.name

    def __copy__(self) -> Primitive:
        return self

    def __deepcopy__(self, memo: Any) -> Primitive:
        return self

    @functools.cached_property
    def made(self) -> core_primitive.Primitive:
        """The primitive of pullback that this is: for one of a program's own, one whose rules look into the registries."""
        found: core_primitive.Primitive = Primitive.make(self)
        return found

    def bind(self, *args: Any, **params: Any) -> Any:
        # `mul` alone has this one, but clients bind `div`, its inverse, with the parameters of `mul`
        params = {key: value for key, value in params.items() if key != "out_dtype" or value is not None}
        given, operands = self.translation.ours(params, args)
        out = self.made.bind(*[_operand(x) for x in operands], **given)
        return list(out) if self.made.multiple_results else out

    def impl(self, *args: Any, **params: Any) -> Any:
        """What computes it: by default, for an operation of pullback, its own evaluation."""
        if "made" in vars(self) and facade_of(self.made) is self and "abstract_eval" not in vars(self):
            return self.bind(*args, **params)
        raise NotImplementedError(f"Evaluation rule for '{self.name}' not implemented")

    def abstract_eval(self, *args: Any, **params: Any) -> Any:
        raise NotImplementedError(f"Abstract evaluation for '{self.name}' not implemented")

    def def_impl(self, impl: Any) -> Any:
        self.impl = impl  # type: ignore[method-assign]
        return impl

    def def_abstract_eval(self, abstract_eval: Any) -> Any:
        self.abstract_eval = lambda *args, **params: (abstract_eval(*args, **params), set())  # type: ignore[method-assign]
        return abstract_eval

    def def_effectful_abstract_eval(self, abstract_eval: Any) -> Any:
        self.is_effectful = lambda params: True
        self.abstract_eval = abstract_eval  # type: ignore[method-assign]
        return abstract_eval

    def get_bind_params(self, params: Params) -> Params:
        return self.translation.bind_params(params)


class _Lacking(Primitive):
    """An operation that JAX has and pullback has not: it can be looked up in, and cannot be bound."""

    @functools.cached_property
    def made(self) -> core_primitive.Primitive:
        raise NotImplementedError(f"{self.name} is a primitive of JAX's that pullback has not.")


def _operand(x: Any) -> Any:
    return x.__jax_array__() if hasattr(x, "__jax_array__") and not isinstance(x, (Array, Tracer)) else x


# ---- the table --------------------------------------------------------------------------------------------------------

_SHARDING = {"sharding": None}
_UNSHARDED = {"out_sharding": None}
_SCATTER = {"update_jaxpr": None, "update_consts": (), "indices_are_sorted": False}
_JIT = {
    "in_shardings": (),
    "out_shardings": (),
    "in_layouts": (),
    "out_layouts": (),
    "ctx_mesh": None,
    "keep_unused": False,
    "inline": False,
    "compiler_options_kvs": (),
}
_GATHER: Params = {"indices_are_sorted": False, "unique_indices": False, "fill_value": None}
_PRODUCT: Params = {"precision": None, "preferred_element_type": None}  # which pullback has where they are given
_ACCURATE = "exp exp2 expm1 log log1p logistic tanh cbrt rsqrt sqrt sin cos tan"
# Those of which the name or the parameters differ from JAX's, by their names in pullback
TRANSLATIONS: dict[str, Translation] = {
    **{name: Translation(name, extra={"accuracy": None}) for name in _ACCURATE.split()},
    "mul": Translation("mul", extra={"out_dtype": None}),
    "select": _Select("select_n"),
    "and_": Translation("and"),
    "or_": Translation("or"),
    "not_": Translation("not"),
    "broadcast_in_dim": Translation("broadcast_in_dim", extra=_SHARDING),
    "reduce_sum": Translation("reduce_sum", extra=_UNSHARDED),
    "argmax": _OneAxis("argmax", "axis", "axes"),
    "argmin": _OneAxis("argmin", "axis", "axes"),
    "convert_element_type": Translation("convert_element_type", {"weak": "weak_type"}, {"weak_type": False, **_SHARDING}),
    "reshape": Translation("reshape", extra={"dimensions": None, "sharding": None}),
    "iota": Translation("iota", extra=_SHARDING),
    "dot_general": Translation("dot_general", {name: name for name in _PRODUCT}, _UNSHARDED | _PRODUCT),
    "conv_general_dilated": Translation("conv_general_dilated", {name: name for name in _PRODUCT}, _UNSHARDED | _PRODUCT),
    "sort": Translation("sort", extra={"num_keys": 1, "is_stable": True}),
    "gather": Translation("gather", {"fill_value": "fill_value"}, _GATHER),
    "scatter": Translation("scatter", extra=_SCATTER),
    **{f"scatter_{name}": Translation(f"scatter-{name}", extra=_SCATTER) for name in ("add", "mul")},
    **{f"scatter_{name}": Translation(f"scatter-{name}", extra=_SCATTER) for name in ("max", "min")},
    "qr": Translation("qr", extra={"pivoting": False, "use_magma": None}),
    "svd": Translation("svd", {"vectors": "compute_uv"}),
    "betainc": Translation("regularized_incomplete_beta"),
    "fold_in": Translation("random_fold_in"),
    **{name: _OneAxis(name, "axis_name", "axes", {"axis_index_groups": None}) for name in ("psum", "pmax", "pmin")},
    "all_to_all": Translation("all_to_all", extra={"axis_index_groups": None, "tiled": False}),
    "all_gather": Translation("all_gather", {"axis": "all_gather_dimension"}, {"axis_index_groups": None, "tiled": False}),
    "call": _Jit("jit", {"program": "jaxpr"}, _JIT),
    "checkpoint": _Holding("checkpoint", {"program": "jaxpr", "again": "differentiated"}, {"differentiated": False}),
    "cond": _Cond("cond", {}, {}, ("early_exit",)),
    "scan": _Holding("scan", {"body": "jaxpr"}, {"_split_transpose": False}),
    "while_loop": _While("while", {}),
    "custom_function": _Custom("custom_jvp_call"),
    "linear_solve": _Holding("custom_linear_solve", {}),
    "pure_callback": Translation("pure_callback", {"function": "callback", "types": "result_avals", "method": "vmap_method"}),
    "io_callback": Translation("io_callback", {"function": "callback", "types": "result_avals"}),
    "callback": Translation("debug_callback", {"function": "callback"}),
}
_IN_PULLBACK = {translation.name: name for name, translation in TRANSLATIONS.items()}
# JAX's names of primitives that are not the name itself with `_p` behind.
_SPELLED = {"while_p": "while", "remat_p": "checkpoint", "linear_solve_p": "custom_linear_solve"}


def _defined(name: str) -> core_primitive.Primitive | None:
    """The primitive of pullback of a name. What is loaded is searched first."""
    packages = [(package.__path__, f"{package.__name__}.") for package in (ops, control)]
    modules = [module.name for path, prefix in packages for module in pkgutil.iter_modules(path, prefix)]
    for module in sorted(modules, key=lambda module: module not in sys.modules):
        for one in vars(importlib.import_module(module)).values():
            if isinstance(one, core_primitive.Primitive) and one.name == name:
                return one
    return None


@functools.cache
def named(name: str) -> Primitive:
    """The primitive that JAX calls so: `sin_p`, `while_p`. Raises AttributeError for a name that is none."""
    spelled = _SPELLED.get(name, name.removesuffix("_p"))
    if spelled == "custom_vjp_call":  # the second name of the operation that holds a function with rules of its own
        made = Primitive(spelled)
        vars(made).update(vars(named("custom_jvp_call_p")), name=spelled)
        return made
    found = _defined(_IN_PULLBACK.get(spelled, spelled)) if name.endswith("_p") else None
    if found is not None and facade_of(found).name.replace("-", "_") == spelled:
        return facade_of(found)
    if name in PRIMITIVES.split():
        return _Lacking(spelled)
    raise AttributeError(name)


def __getattr__(name: str) -> Primitive:
    return named(name)


def facade_of(made: core_primitive.Primitive) -> Primitive:
    """The object that stands for a primitive of pullback, always the same."""
    found: Primitive | None = getattr(made, "facade", None)
    if found is None:
        ours = made.__module__.startswith("pullback.")
        translation = (TRANSLATIONS.get(made.name) if ours else None) or Translation(made.name)
        found = Primitive(translation.name)
        found.translation, found.multiple_results = translation, made.multiple_results
        vars(found)["made"] = made
        made.facade = found  # type: ignore[attr-defined]
    return found
