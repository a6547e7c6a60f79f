"""Primitive: one operation, and everything that the transformations know of it.

A class body is the table of rules, and a decorator makes it a callable:

    @primitive
    class sin(Elementwise):
        '''Sine of x, in radians.'''
        evaluate = np.sin
        lower = "stablehlo.sine"
        def partials(out, x): return (cos(x),)
        def samples(rng): yield (rng.normal(size=(2, 3)),), {}

or the rules are filled in one by one: `p = Primitive("p")`, then `@p.def_evaluate`, `@p.def_jvp`. Transformations read the
rules as attributes of the primitive; there is no registry anywhere else. A rule whose first parameter is named `primitive`
is given the primitive itself, which is how a family of operations shares one rule.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.errors import MissingRule, ProgramError, UnknownRule
from pullback.core.execution import engine
from pullback.core.lazy import lazy_module
from pullback.core.source import Source, user_source
from pullback.core.tracing import bind
from pullback.core.types import ArrayType

inspect = lazy_module("inspect")
difflib = lazy_module("difflib")

Rule = Callable[..., Any]

# Every field of a primitive: what it is called in an error, and what else would do in its place.
RULES: dict[str, tuple[str, str]] = {
    "result_type": ("Abstract evaluation (result_type) rule", "`expand`"),
    "evaluate": ("Evaluation rule", "`expand`, or `lower` with `result_type`"),
    "lower": ("Lowering (XLA translation) rule", "`expand`"),
    "expand": ("Expansion rule", ""),
    "partials": ("Partial derivatives rule", ""),
    "jvp": ("Forward-mode differentiation (jvp) rule", "`partials` (elementwise), `linear`, or `expand`"),
    "linearize": ("Linearization rule", "`jvp`"),
    "transpose": ("Reverse-mode differentiation (transpose) rule", "`partials` (elementwise), or `expand`"),
    "vectorize": ("Batching (vectorize) rule", "a family such as `Elementwise`, or `expand`"),
    "jet": ("Taylor-mode (jet) rule", "any rule for first derivatives (`partials`, `linear`, `jvp`), or `expand`,"),
    "prune": ("Pruning rule", ""),
    "depends": ("Dependence rule", ""),
    "sparsity": ("Sparsity rule", ""),
    "axis_map": ("Axis map", ""),
    "samples": ("Samples", ""),
}
# Facts about an operation that are not rules, and what they are when nothing is said.
FACTS: dict[str, Any] = {
    "linear": False,  # True, or the names of the arguments in which it is jointly linear
    "bilinear": False,  # of two operands, and linear in each of them by itself
    "multiple_results": False,  # returns a tuple
    "quiet": False,  # `evaluate` is NumPy alone: run it without NumPy's floating-point warnings
    "on_arrays": False,  # `evaluate` takes and returns Arrays, wherever their values are
    "effect": None,  # what it does besides returning a value, so that it is never dropped or moved
    "kinds": "biufc",  # the kinds of dtype that its operands may have (Elementwise)
    "symbolic_zeros": False,  # `jvp` is given ZERO where a tangent is known to be zero
    "symbolic_cotangents": False,  # `transpose` is given ZERO where a cotangent is known to be zero
    "needs_axis": False,  # `vectorize` is given the Axis (its name, size and strategy) in place of the size alone
    "elementwise": False,  # takes operands of one shape, or 0-d ones
    "wiring": None,  # how it is wired to the Programs that it holds (see pullback.control.holder)
    "platforms": None,  # lowering rules for one platform only, {"cuda": rule}
}


class Primitive:
    """An operation that every transformation can handle, given its rules.

    Arguments:
        name: what it is called in printed programs and in errors.
        rules: any of the fields in `RULES` and `FACTS`, by name.

    Calling it applies it to arrays: `p(x, y, axes=(0,))`; positional arguments are traced, keywords are static.

    Raises:
        UnknownRule: a rule's name is none of the known ones.

    Example:
        >>> import numpy as np, pullback as pb
        >>> double = pb.Primitive("double")
        >>> @double.def_evaluate
        ... def double_evaluate(x):
        ...     return 2 * x
        >>> double(21.0)
        42.0:f32[]:cpu(0)
    """

    result_type: Rule | None
    evaluate: Rule | None
    lower: Rule | str | None
    expand: Rule | None
    partials: Rule | None
    jvp: Rule | None
    linearize: Rule | None
    transpose: Rule | None
    vectorize: Rule | None
    jet: Rule | None
    prune: Rule | None
    depends: Rule | None
    sparsity: Rule | None
    axis_map: Rule | None
    samples: Rule | None
    linear: bool | tuple[str, ...]
    bilinear: bool
    multiple_results: bool
    quiet: bool
    on_arrays: bool
    effect: str | None
    kinds: str
    symbolic_zeros: bool
    symbolic_cotangents: bool
    needs_axis: bool
    elementwise: bool
    wiring: Any
    platforms: dict[str, Rule | str] | None

    def __init__(self, name: str, **rules: Any) -> None:
        self.name = name
        self.__name__ = self.__qualname__ = name
        self.inferred: dict[Any, Any] = {}  # result types by operand types, and parameters if there are any
        self._linear_flags: dict[int, tuple[bool, ...]] = {}
        self._remembers_params = False
        self.plain = False  # evaluated by NumPy alone, with one result: what the short way through `evaluate` takes
        for rule in RULES:
            setattr(self, rule, None)
        for fact, default in FACTS.items():
            setattr(self, fact, default)
        for field, value in rules.items():
            self.define(field, value)

    def __call__(self, *args: Any, **params: Any) -> Any:
        return bind(self, args, params)

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the primitive; the same as calling it."""
        return bind(self, args, params)

    def __repr__(self) -> str:
        return self.name

    # ---- filling in rules ----

    def define(self, field: str, value: Any) -> None:
        """Set one rule or fact; refuses names that nothing would read."""
        if field not in RULES and field not in FACTS:
            close = difflib.get_close_matches(field, [*RULES, *FACTS], n=1)
            raise UnknownRule(
                f"Primitive {self.name!r} was given an unknown rule {field!r}"
                + (f"; did you mean {close[0]!r}?" if close else ".")
                + f" Known are {', '.join([*RULES, *FACTS])}."
            )
        if field == "result_type":
            self._remembers_params = getattr(value, "__module__", "").startswith("pullback.")
        if field in RULES and callable(value) and _wants_primitive(value):
            value = functools.partial(value, self)
        if field == "linear" and isinstance(value, str):
            value = (value,)
        setattr(self, field, value)
        self.inferred.clear()
        self._linear_flags.clear()
        self.plain = bool(self.quiet and self.evaluate and self.result_type and not self.multiple_results)

    def def_evaluate(self, rule: Rule) -> Rule:
        """Decorator: what the operation computes, `(*ndarrays, **params)` on NumPy arrays."""
        self.define("evaluate", rule)
        return rule

    def def_result_type(self, rule: Rule) -> Rule:
        """Decorator: the result's type, `(*types, **params) -> ArrayType`, or a tuple of them."""
        self.define("result_type", rule)
        return rule

    def def_lower(self, rule: Rule | None = None, *, platform: str | None = None) -> Any:
        """Decorator: the operation in StableHLO, `(write, *values, **params)`; for one platform only if it is named."""
        if rule is None:
            return lambda rule: self.def_lower(rule, platform=platform)
        if platform is None:
            self.define("lower", rule)
        else:
            self.define("platforms", {**(self.platforms or {}), platform: rule})
        return rule

    def def_expand(self, rule: Rule) -> Rule:
        """Decorator: the same mathematics in other primitives, `(*args, **params)`; every other rule follows from it."""
        self.define("expand", rule)
        return rule

    def def_partials(self, rule: Rule) -> Rule:
        """Decorator: for an elementwise operation, `(out, *args, **params)` -> the derivative by each argument."""
        self.define("partials", rule)
        return rule

    def def_jvp(self, rule: Rule) -> Rule:
        """Decorator: forward-mode derivative, `(primals, tangents, **params) -> (out, tangent)`."""
        self.define("jvp", rule)
        return rule

    def def_linearize(self, rule: Rule) -> Rule:
        """Decorator: `(primals, active, **params) -> (outs, push)`, where `push(*tangents)` is linear; or NotImplemented,
        where the `jvp` rule is to be used."""
        self.define("linearize", rule)
        return rule

    def def_transpose(self, rule: Rule) -> Rule:
        """Decorator: `(cotangent, *args, **params)` -> a cotangent for each argument that is unknown, which arrives as
        its ArrayType, and None for each that is known."""
        self.define("transpose", rule)
        return rule

    def def_vectorize(self, rule: Rule) -> Rule:
        """Decorator: batching, `(size, args, axes, **params) -> (out, axis)`; an axis is 0, or None for unbatched."""
        self.define("vectorize", rule)
        return rule

    def def_jet(self, rule: Rule) -> Rule:
        """Decorator: Taylor mode, `(primals, series, **params) -> (out, out_series)`.

        A series is the list of the derivatives of orders 1 to n of an operand, or of a result. Needed only where there is a
        shorter way than the one derived from the first derivative.
        """
        self.define("jet", rule)
        return rule

    def def_sparsity(self, rule: Rule) -> Rule:
        """Decorator: `(which, operands, **params) -> (results, elements)`: two arrays of flat indices, pairs of an element of
        the result and an element of operand number `which`, in which the operation is linear, that it may depend on. Operands
        are NumPy arrays where they are known, else types. None if that cannot be told; then all depend on all."""
        self.define("sparsity", rule)
        return rule

    def def_axis_map(self, rule: Rule) -> Rule:
        """Decorator: `(*types, **params)` -> for each operand a dict: those of its axes along which the operation does the same
        everywhere, as along a batch, each with the axis of the result that it becomes. Elementwise operations need none."""
        self.define("axis_map", rule)
        return rule

    def def_samples(self, rule: Rule) -> Rule:
        """Decorator: `(rng)`, yields `(args, params)`, the inputs that `pb.testing.check_primitive` tries."""
        self.define("samples", rule)
        return rule

    # ---- reading them ----

    def lowering(self, platform: str) -> Rule | str | None:
        """The lowering rule for a platform: its own, or else the one for all."""
        return (self.platforms or {}).get(platform, self.lower)

    def infer(self, types: tuple[ArrayType, ...], params: dict[str, Any]) -> Any:
        """The result's type, or types, by the `result_type` rule.

        Remembered where NumPy evaluates the operation; the others hold Programs, which should not live on for that. A user's
        rule may tell 2 from 2.0, which are one key, so with parameters it is asked every time.
        """
        key = (types, *params, *params.values()) if params else types
        remembers = self.evaluate is not None and not self.on_arrays and (not params or self._remembers_params)
        try:
            if remembers:
                return self.inferred[key]
        except (KeyError, TypeError):
            pass
        rule = self.result_type
        if rule is None:
            if self.expand is None:
                raise self.missing("result_type", "finding the type of its result")
            raise ProgramError(f"{self.name} has an `expand` rule, so it is expanded before its type is asked for.")
        result = rule(*types, **params)
        if self.multiple_results:
            result = tuple(result)
        if not all([isinstance(one, ArrayType) for one in (result if self.multiple_results else (result,))]):
            raise self.malformed("result_type", "an ArrayType" + " for each result" * self.multiple_results, result)
        if not remembers:
            return result
        if len(self.inferred) > 4096:
            self.inferred.clear()
        with contextlib.suppress(TypeError):  # an unhashable parameter cannot be remembered
            self.inferred[key] = result
        return result

    def linear_flags(self, count: int) -> tuple[bool, ...]:
        """For a call with `count` operands: in which of them, jointly, the operation is linear."""
        if count not in self._linear_flags:
            names = self.argument_names()
            chosen = names if self.linear is True else self.linear or ()
            flags = [name in chosen for name in names[:count]] + [names[-1] in chosen if names else True] * (count - len(names))
            self._linear_flags[count] = tuple(flags)
        return self._linear_flags[count]

    def argument_names(self) -> list[str]:
        """The names of the operands, as the rules call them; a starred one stands last."""
        rule = self.result_type or self.evaluate or self.expand
        try:
            parameters = inspect.signature(rule).parameters if rule is not None else {}
        except (TypeError, ValueError):  # a NumPy ufunc says nothing of its operands
            return []
        return [name for name, parameter in parameters.items() if parameter.kind is not inspect.Parameter.KEYWORD_ONLY]

    def missing(self, rule: str, transformation: str, source: Source | None = None) -> MissingRule:
        """The error for a rule that `transformation` needs and that nobody has written; `source` is where it was applied."""
        phrase, instead = RULES[rule]
        source = source or user_source()
        return MissingRule(
            f"{phrase} for primitive {self.name!r} not implemented; {transformation} needs it."
            + (f" At {source}." if source else "")
            + f" Define it with @{self.name}.def_{rule}, or as `{rule}` in the class"
            + (f"; {instead} would also do." if instead else ".")
        )

    def disagreement(self, got: ArrayType, expected: ArrayType) -> ProgramError:
        """The error for an evaluation rule whose result is not what the type rule promised."""
        return ProgramError(
            f"The evaluation rule of primitive {self.name!r} returned {got}, but its result_type rule says {expected.strong()}."
            " One of the two is wrong; pb.testing.check_primitive compares them on every sample."
        )

    def malformed(self, rule: str, must: str, returned: Any) -> ProgramError:
        """The error for a rule that returned something of the wrong form."""
        return ProgramError(f"The {rule} rule of primitive {self.name!r} must return {must}, but it returned {returned!r}.")

    def derive_evaluation(self, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """The operation's value without an `evaluate` rule: by its expansion, or by compiling its lowering."""
        if self.expand is not None:
            return self.expand(*args, **params)
        if (self.lower is not None or self.platforms) and self.result_type is not None:
            return engine().run_operation(self, args, params)
        raise self.missing("evaluate", "evaluation")


def primitive(rules: type) -> Primitive:
    """Class decorator: make a Primitive of a class body. Its name and docstring are the class's; inherited rules count.

    Raises `UnknownRule` for a name that no transformation reads (`tranpose`).
    """
    fields: dict[str, Any] = {}
    for base in reversed(rules.__mro__):
        if base.__module__ not in ("builtins", "typing"):
            fields |= {name: value for name, value in vars(base).items() if not name.startswith("__")}
    made = Primitive(rules.__name__, **fields)
    made.__doc__ = rules.__doc__
    made.__module__ = rules.__module__
    return made


class Rules(Any):
    """The base of the families of operations: a class body of rules, which `primitive` turns into a Primitive."""


def _wants_primitive(rule: Rule) -> bool:
    code = getattr(rule, "__code__", None)
    return code is not None and code.co_argcount > 0 and code.co_varnames[0] == "primitive"
