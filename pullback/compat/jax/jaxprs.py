"""Jaxprs: a Program as JAX's clients read one. A view, made as it is asked for; equations may also be put together by hand.

`Jaxpr` is opaque to whoever only hands it on: it is equal to itself alone, and is a leaf of every tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from pullback.compat.jax.errors import JaxprTypeError as JaxprTypeError
from pullback.compat.jax.jaxpr_text import jaxpr_text, jaxprs_in_params
from pullback.compat.jax.primitives import facade_of, named
from pullback.compat.jax.structs import AbstractRef, AbstractValue, aval_of
from pullback.core.array import Array
from pullback.core.source import CodeSource
from pullback.program import equation as program_equation
from pullback.program.interpret import run
from pullback.program.program import Program
from pullback.transforms.derive import stage_closed


class Effect:
    """What running something does besides returning values."""


class CallbackEffect(Effect):
    """Python is called."""

    def __str__(self) -> str:
        return "Callback"

    __repr__ = __str__


class RefEffect(Effect):
    """A Ref is read or written."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


CALLBACK, READ, WRITE = CallbackEffect(), RefEffect("Read"), RefEffect("Write")
Effects = set
no_effects: set[Any] = set()


class DebugInfo(NamedTuple):
    """What a traced function and its arguments are called."""

    traced_for: str = "jit"
    func_src_info: str = "<unknown>"
    arg_names: tuple[Any, ...] | None = None
    result_paths: tuple[Any, ...] | None = None

    @property
    def func_name(self) -> str:
        return self.func_src_info.split(" ")[0]


class NameStack(tuple[Any, ...]):
    """The named scopes around an equation."""

    def __str__(self) -> str:
        return "/".join(map(str, self))

    stack = property(lambda self: tuple(self))


class SourceInfo(NamedTuple):
    """Where an equation comes from: `source` is pullback's own account of it."""

    traceback: Any = None
    name_stack: Any = NameStack()
    source: Any = None


NOWHERE = SourceInfo()


class Var:
    """A name for a value."""

    __slots__ = ("aval",)
    initial_qdd = final_qdd = None
    count = -1

    def __init__(self, aval: AbstractValue, initial_qdd: Any = None, final_qdd: Any = None) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var(id={id(self)}):{self.aval.str_short()}"


class DropVar(Var):
    """In the place of a result that nobody reads."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"


class Literal:
    """A known 0-d value in an equation."""

    __slots__ = ("aval", "val")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, val: Any, aval: Any) -> None:
        self.val = val
        self.aval = aval

    @property
    def hash(self) -> int | None:
        try:
            return hash((np.asarray(self.val).item(), self.aval.dtype))
        except (TypeError, ValueError):
            return None

    def __repr__(self) -> str:
        return f"Literal({self.val})"


Atom = Var | Literal


class _OfRefs(NamedTuple):
    """A primitive of Refs: it is done, and never traced."""

    name: str
    bind: Callable[..., Any]
    multiple_results: bool = False

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        return params

    def __str__(self) -> str:
        return self.name


REF_GET, REF_SWAP = _OfRefs("get", lambda ref: ref[...]), _OfRefs("swap", lambda ref, value: ref.swap(value))


@dataclass(slots=True, eq=False, repr=False)
class JaxprEqn:
    """An operation: `outvars = primitive[params] invars`."""

    invars: list[Any]
    outvars: list[Any]
    primitive: Any
    params: dict[str, Any]
    effects: Any = field(default_factory=set)
    source_info: Any = None
    ctx: Any = None

    def __post_init__(self) -> None:
        self.invars, self.outvars, self.source_info = list(self.invars), list(self.outvars), self.source_info or NOWHERE

    def replace(self, **changes: Any) -> JaxprEqn:
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    def __repr__(self) -> str:
        return jaxpr_text(self).rstrip()


new_jaxpr_eqn = JaxprEqn


class _Printed:
    """What prints as a Jaxpr."""

    __slots__ = ()

    def pretty_print(self, **options: Any) -> str:
        return jaxpr_text(getattr(self, "jaxpr", self), **options)

    def __str__(self) -> str:
        return self.pretty_print()

    __repr__ = __str__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


class Jaxpr(_Printed):
    """A function as equations. Its `constvars` stand for what it closes over."""

    __slots__ = ("__weakref__", "_effects", "_fields", "_program", "debug_info", "is_high")
    _program: Program | None

    def __init__(
        self,
        constvars: Iterable[Any],
        invars: Iterable[Any],
        outvars: Iterable[Any],
        eqns: Iterable[Any],
        effects: Any = no_effects,
        debug_info: Any = None,
        is_high: bool = False,
    ) -> None:
        self._fields: Any = list(constvars), list(invars), list(outvars), list(eqns)
        self._effects = effects
        self._program = None
        self.debug_info = debug_info or DebugInfo()
        self.is_high = is_high

    @classmethod
    def of(cls, program: Program, captured: int = 0, debug_info: DebugInfo | None = None) -> Jaxpr:
        """The view of a Program whose first inputs are `captured` values. What it closes over are constvars, behind those."""
        made = cls.__new__(cls)
        constants = [variable for variable, _ in program.constants]
        inputs = [*program.inputs[:captured], *constants, *program.inputs[captured:]]
        opened = Program(inputs, program.equations, program.outputs, (), program.name, program.batch_axes)
        made._fields = captured + len(constants)
        made._program = opened
        made._effects = {CALLBACK} if program.effects else no_effects
        made.debug_info = debug_info or DebugInfo("jit", program.name)
        made.is_high = False
        return made

    @property
    def _parts(self) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        if isinstance(self._fields, int):
            self._fields = _viewed(self._program, self._fields)
        parts: tuple[list[Any], list[Any], list[Any], list[Any]] = self._fields
        return parts

    constvars = property(lambda self: self._parts[0])
    invars = property(lambda self: self._parts[1])
    outvars = property(lambda self: self._parts[2])
    eqns = property(lambda self: self._parts[3])
    effects = property(lambda self: self._effects)
    in_avals = property(lambda self: [x.aval for x in self.invars])
    out_avals = property(lambda self: [x.aval for x in self.outvars])

    def replace(self, **changes: Any) -> Jaxpr:
        names = "constvars", "invars", "outvars", "eqns", "effects", "debug_info", "is_high"
        if unknown := [name for name in changes if name not in names]:
            raise ValueError(f"Unknown keyword arguments: {unknown}")
        return Jaxpr(**{**{name: getattr(self, name) for name in names}, **changes})

    @property
    def program(self) -> Program:
        """The Program of which this is the view, or that does the same."""
        return ClosedJaxpr(self, ()).program

    def __copy__(self) -> Jaxpr:
        return self

    def __deepcopy__(self, memo: Any) -> Jaxpr:
        return self


def _of_jaxpr(name: str) -> Any:
    return property(lambda self: getattr(self._jaxpr, name))


class ClosedJaxpr(_Printed):
    """A Jaxpr with the values that it closes over."""

    __slots__ = ("__weakref__", "_consts", "_jaxpr")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any]) -> None:
        if len(consts) != len(jaxpr.constvars):
            raise ValueError(f"This Jaxpr has {len(jaxpr.constvars)} constvars, but got {len(consts)} consts.")
        self._jaxpr = jaxpr
        self._consts = list(consts)

    jaxpr = property(lambda self: self._jaxpr)
    consts = property(lambda self: self._consts)
    literals = consts
    constvars, invars, outvars, eqns, in_avals, out_avals, effects, debug_info, is_high = map(
        _of_jaxpr, ("constvars", "invars", "outvars", "eqns", "in_avals", "out_avals", "effects", "debug_info", "is_high")
    )

    @property
    def program(self) -> Program:
        """The Program of which this is the view, or that does the same; it closes over nothing traced."""
        inner, program = self._jaxpr, self._jaxpr._program
        if program is not None and all([isinstance(const, Array) for const in self._consts]):
            given, inputs = program.inputs[: len(self._consts)], program.inputs[len(self._consts) :]
            if not given:
                return program
            return Program(inputs, program.equations, program.outputs, zip(given, self._consts), program.name)
        types = [x.aval.type for x in inner.invars]
        return stage_closed(lambda *xs: eval_jaxpr(inner, self._consts, *xs), types, inner.debug_info.func_name)

    def run(self, *args: Any) -> list[Any]:
        return eval_jaxpr(self._jaxpr, self._consts, *args)

    def replace(self, *, jaxpr: Jaxpr | None = None, consts: Sequence[Any] | None = None) -> ClosedJaxpr:
        return ClosedJaxpr(self.jaxpr if jaxpr is None else jaxpr, self.consts if consts is None else consts)


# ---- the view ---------------------------------------------------------------------------------------------------------


def closed_jaxpr_of(program: Program, captures: Sequence[Any] = (), debug_info: DebugInfo | None = None) -> ClosedJaxpr:
    """The view of a Program whose first inputs stand for `captures`: values of surrounding transformations, say. The same one
    each time, where there are none."""
    if captures:
        return _closed(program, captures, debug_info)
    found: ClosedJaxpr = program.memo("jaxpr", lambda: _closed(program, (), debug_info))
    return found


def _closed(program: Program, captures: Sequence[Any], debug_info: DebugInfo | None) -> ClosedJaxpr:
    made = ClosedJaxpr.__new__(ClosedJaxpr)
    made._jaxpr = Jaxpr.of(program, len(captures), debug_info)
    made._consts = [*captures, *[array for _, array in program.constants]]
    return made


def with_refs(closed: ClosedJaxpr, refs: dict[Var, Any], written: Sequence[Var]) -> ClosedJaxpr:
    """A Jaxpr, of which some variables are the values of Refs, as one of these Refs: it begins by reading them.

    Arguments:
        refs: by each such variable, what is to be among the consts, or None where it is an argument.
        written: those whose new values come first among the results: they are written, and no results.
    """
    inner = closed.jaxpr
    names = {var: Var(AbstractRef(var.aval)) for var in refs}  # type: ignore[arg-type]
    gets = [JaxprEqn([name], [var], REF_GET, {}, {READ}) for var, name in names.items()]
    swaps = [JaxprEqn([names[var], x], [DropVar(var.aval)], REF_SWAP, {}, {WRITE}) for var, x in zip(written, inner.outvars)]
    constvars, invars = [[names.get(x, x) for x in given] for given in (inner.constvars, inner.invars)]
    effects = {*inner.effects, *([READ] if gets else []), *([WRITE] if swaps else [])}
    outvars, consts = inner.outvars[len(written) :], zip(inner.constvars, closed.consts)
    jaxpr = Jaxpr(constvars, invars, outvars, [*gets, *inner.eqns, *swaps], effects, inner.debug_info)
    return ClosedJaxpr(jaxpr, [refs.get(var, value) for var, value in consts])


def _viewed(program: Any, consts: int) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """The parts of a Jaxpr, of whose Program the first inputs are its `consts`."""
    names: dict[Any, Any] = {}

    def atom(atom: Any) -> Any:
        if isinstance(atom, program_equation.Literal):
            return Literal(atom.value, aval_of(atom.type))
        if atom not in names:
            names[atom] = Var(aval_of(atom.type))
        return names[atom]

    inputs = [atom(x) for x in program.inputs]
    eqns = [equation_of(one, atom) for one in program.equations]
    return inputs[:consts], inputs[consts:], [atom(x) for x in program.outputs], eqns


def equation_of(equation: Any, atom: Callable[[Any], Any]) -> JaxprEqn:
    """An equation as JAX has it, `atom` giving what stands for each of its variables and literals."""
    primitive = facade_of(equation.primitive)
    if primitive.name == "custom_jvp_call" and equation.params["rules"].forward is not None:
        primitive = named("custom_vjp_call_p")
    params, operands = primitive.translation.viewed(equation.params, [atom(x) for x in equation.inputs], closed_jaxpr_of)
    source = equation.source
    scope = source.scope if isinstance(source, CodeSource) else ()
    effects = {CALLBACK} if equation.primitive.effect is not None else no_effects
    info = SourceInfo(None, NameStack(scope if isinstance(scope, tuple) else ()), source)
    return JaxprEqn(operands, [atom(x) for x in equation.outputs], primitive, params, effects, info)


# ---- running it -------------------------------------------------------------------------------------------------------


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any, propagate_source_info: bool = True) -> list[Any]:
    """What a Jaxpr returns for values of its constvars and of its invars: any transformation can watch."""
    if len(consts) != len(jaxpr.constvars) or len(args) != len(jaxpr.invars):
        wanted = f"{len(jaxpr.constvars)} consts and {len(jaxpr.invars)} arguments"
        raise ValueError(f"eval_jaxpr: this Jaxpr takes {wanted}, but got {len(consts)} and {len(args)}.")
    if jaxpr._program is not None:
        return list(run(jaxpr._program, [*consts, *args]))
    values: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args]))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else values[atom]

    for equation in jaxpr.eqns:
        params = equation.primitive.get_bind_params(equation.params)
        out = equation.primitive.bind(*map(read, equation.invars), **params)
        values.update(zip(equation.outvars, out if equation.primitive.multiple_results else [out]))
    return [read(x) for x in jaxpr.outvars]


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr) -> Callable[..., list[Any]]:
    return lambda *args: eval_jaxpr(closed_jaxpr.jaxpr, closed_jaxpr.consts, *args)


def subjaxprs(jaxpr: Jaxpr) -> list[Jaxpr]:
    return [inner for equation in jaxpr.eqns for inner in jaxprs_in_params(equation.params)]


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Raise unless each variable of a Jaxpr is bound before it is read, once."""
    bound: set[Any] = {*jaxpr.constvars, *jaxpr.invars}
    for equation in jaxpr.eqns:
        for x in equation.invars:
            if not isinstance(x, Literal) and x not in bound:
                raise JaxprTypeError(f"Variable '{x}' not defined\n\nin equation:\n{equation}\n\nfrom jaxpr:\n{jaxpr}")
        for x in equation.outvars:
            if x in bound and not isinstance(x, DropVar):
                raise JaxprTypeError(f"Variable '{x}' already bound\n\nin equation:\n{equation}\n\nfrom jaxpr:\n{jaxpr}")
            bound.add(x)
        for inner in jaxprs_in_params(equation.params):
            check_jaxpr(inner)
    for x in jaxpr.outvars:
        if not isinstance(x, Literal) and x not in bound:
            raise JaxprTypeError(f"Variable '{x}' not defined\n\nfrom jaxpr:\n{jaxpr}")


def gensym(*ignored: Any) -> Callable[..., Var]:
    return lambda aval, *more: Var(aval)
