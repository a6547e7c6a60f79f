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
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, as_array, from_python
from pullback.core.brief import brief
from pullback.core.dtypes import DType, is_inexact, kind
from pullback.core.errors import AxisError, DtypeError, LeafError, MissingRule, ProgramError, ShapeError, UnknownRule
from pullback.core.execution import engine
from pullback.core.fields import FIELDS, Fields, Rule
from pullback.core.lazy import lazy_module
from pullback.core.source import Source, api_boundary, at_line, at_user_line, is_ours, trim
from pullback.core.tracing import Tracer, bind, type_of
from pullback.core.types import ArrayType
from pullback.core.zero import ZERO

inspect = lazy_module("inspect")
difflib = lazy_module("difflib")

_DEFAULTS = {name: field.default for name, field in FIELDS.items()}


_DECORATOR = """Decorator: {}.

        Arguments:
            rule: the rule, a function.

        Returns:
            The rule.

        Example:
            >>> import pullback as pb{}"""


def _decorator(field: str, example: str) -> Callable[[Primitive, Rule], Rule]:
    def define(self: Primitive, rule: Rule) -> Rule:
        self.define(field, rule)
        return rule

    define.__name__ = f"def_{field}"
    define.__qualname__ = f"Primitive.def_{field}"
    define.__doc__ = _DECORATOR.format(FIELDS[field].text, example)
    return define


class Primitive(Fields):
    """An operation that every transformation can handle, given its rules.

    Arguments:
        name: what it is called in printed programs and in errors.
        rules: any of the `FIELDS`, by name.

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

    @api_boundary
    def __init__(self, name: str, **rules: Any) -> None:
        self.name = name
        self.__name__ = self.__qualname__ = name
        self.inferred: dict[Any, Any] = {}  # result types by operand types, and parameters if there are any
        self._linear_flags: dict[int, tuple[bool, ...]] = {}
        self.families: dict[str, str] = {}  # the rules that come from a base of its class body, and that base's name
        self._remembers_params = False
        self.plain = False  # evaluated by NumPy or a rule of ours, with one result: takes the fast path through `evaluate`
        self.trusts_vectorize = True  # `vectorize` is our own, likewise
        self.trusts_pushes = True  # `jvp` and `linearize` are our own, likewise
        self.trusted = False  # `partials` is our own, which the tests hold to its form; a user's is held to it at each use
        vars(self).update(_DEFAULTS)
        self._define(rules)

    def __call__(self, /, *args: Any, **params: Any) -> Any:
        if params and not self._remembers_params:
            for name, value in params.items():
                if isinstance(value, Tracer):
                    raise TypeError(
                        f"Parameter {name!r} of primitive {self.name!r} is a traced value, of type {value.type}, but parameters"
                        " are static: pass it by position, as an operand."
                    )
        try:
            return bind(self, args, params)
        except BaseException as error:
            trim(error)
            raise

    def bind(self, /, *args: Any, **params: Any) -> Any:
        """Apply the primitive; the same as calling it.

        Arguments:
            args: the operands: arrays and numbers.
            params: the parameters, which are static.

        Returns:
            An array, or a tuple of arrays.

        Example:
            >>> import pullback as pb
            >>> double = pb.Primitive("double", evaluate=lambda x: 2 * x)
            >>> double.bind(21.0)
            42.0:f32[]:cpu(0)
        """
        return bind(self, args, params)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return self.name  # there is one: a copy is it, and a pickle names it in its module

    # ---- filling in rules ----

    # fmt: off
    def_result_type = _decorator("result_type", """
            >>> double = pb.Primitive("double", evaluate=lambda x: 2 * x)
            >>> double_type = double.def_result_type(lambda x: x)
            >>> pb.eval_shape(double, pb.ArrayType((3,), "float32"))
            f32[3]
        """)
    def_evaluate = _decorator("evaluate", """
            >>> double = pb.Primitive("double")
            >>> @double.def_evaluate
            ... def double_evaluate(x):
            ...     return 2 * x
            >>> double(21.0)
            42.0:f32[]:cpu(0)
        """)
    def_expand = _decorator("expand", """
            >>> cube = pb.Primitive("cube")
            >>> @cube.def_expand
            ... def cube_expand(x):
            ...     return x * x * x
            >>> pb.grad(cube)(2.0)
            12.0:f32[]:cpu(0)
        """)
    def_partials = _decorator("partials", """
            >>> square = pb.Primitive("square", evaluate=lambda x: x * x)
            >>> @square.def_partials
            ... def square_partials(out, x):
            ...     return (2.0 * x,)
            >>> pb.grad(square)(3.0)
            6.0:f32[]:cpu(0)
        """)
    def_jvp = _decorator("jvp", """
            >>> square = pb.Primitive("square", evaluate=lambda x: x * x)
            >>> @square.def_jvp
            ... def square_jvp(primals, tangents):
            ...     (x,), (t,) = primals, tangents
            ...     return square(x), 2.0 * x * t
            >>> pb.jvp(square, (3.0,), (1.0,))
            (9.0:f32[]:cpu(0), 6.0:f32[]:cpu(0))
        """)
    def_linearize = _decorator("linearize", """
            >>> square = pb.Primitive("square", evaluate=lambda x: x * x)
            >>> @square.def_linearize
            ... def square_linearize(primals, active):
            ...     (x,) = primals
            ...     return square(x), lambda t: 2.0 * x * t
            >>> pb.grad(square)(3.0)
            6.0:f32[]:cpu(0)
        """)
    def_transpose = _decorator("transpose", """
            >>> double = pb.Primitive("double", evaluate=lambda x: 2 * x, result_type=lambda x: x, linear=True)
            >>> @double.def_transpose
            ... def double_transpose(cotangent, x):
            ...     return (2.0 * cotangent,)
            >>> pb.grad(double)(21.0)
            2.0:f32[]:cpu(0)
        """)
    def_vectorize = _decorator("vectorize", """
            >>> total = pb.Primitive("total", evaluate=lambda x: x.sum())
            >>> @total.def_vectorize
            ... def total_vectorize(size, args, axes):
            ...     return pb.numpy.sum(args[0], axis=1), 0
            >>> pb.vmap(total)(pb.numpy.array([[1.0, 2.0], [3.0, 4.0]]))
            [3. 7.]:f32[2]:cpu(0)
        """)
    def_jet = _decorator("jet", """
            >>> double = pb.Primitive("double", evaluate=lambda x: 2 * x)
            >>> @double.def_jet
            ... def double_jet(primals, series):
            ...     return double(*primals), [2.0 * term for term in series[0]]
            >>> pb.jet(double, (3.0,), ((1.0, 0.0),))
            (6.0:f32[]:cpu(0), [2.0:f32[]:cpu(0), 0.0:f32[]:cpu(0)])
        """)
    def_simplify = _decorator("simplify", """
            >>> same = pb.Primitive("same", evaluate=lambda x: x, result_type=lambda x: x, lower=lambda write, x: x)
            >>> same_simplify = same.def_simplify(lambda equation, known: equation.inputs[0])
            >>> "same" in pb.jit(lambda x: same(x) + 1.0).lower(1.0).as_text()
            False
        """)
    def_prune = _decorator("prune", """
            >>> pair = pb.Primitive("pair", multiple_results=True)
            >>> pair_prune = pair.def_prune(lambda wanted, **params: (params, range(1), range(2)))
            >>> pair.prune((True, False))
            ({}, range(0, 1), range(0, 2))
        """)
    def_depends = _decorator("depends", """
            >>> pair = pb.Primitive("pair", multiple_results=True)
            >>> pair_depends = pair.def_depends(lambda flags, **params: list(flags))
            >>> pair.depends((1, 0))
            [1, 0]
        """)
    def_sparsity = _decorator("sparsity", """
            >>> reverse = pb.Primitive("reverse", evaluate=lambda x: x[::-1], result_type=lambda x: x, linear=True)
            >>> @reverse.def_sparsity
            ... def reverse_sparsity(which, operands):
            ...     size = operands[0].size
            ...     return range(size), range(size)[::-1]
            >>> pb.sparse.jacobian_pattern(reverse, pb.numpy.zeros(3)).columns
            array([2, 1, 0])
        """)
    def_axis_map = _decorator("axis_map", """
            >>> double = pb.Primitive("double", evaluate=lambda x: 2 * x, result_type=lambda x: x)
            >>> double_axes = double.def_axis_map(lambda x: [{axis: axis for axis in range(x.ndim)}])
            >>> double.axis_map(pb.ArrayType((2, 3), "float32"))
            [{0: 0, 1: 1}]
        """)
    def_samples = _decorator("samples", """
            >>> cube = pb.Primitive("cube", expand=lambda x: x * x * x, kinds="f")
            >>> @cube.def_samples
            ... def cube_samples(rng):
            ...     yield (rng.normal(size=3),), {}
            >>> pb.testing.check_primitive(cube, dtypes=["float32"])
        """)
    def_cost = _decorator("cost", """
            >>> cube = pb.Primitive("cube", evaluate=lambda x: x * x * x)
            >>> cube_cost = cube.def_cost(lambda operands, results: 2 * operands[0].size)
            >>> cube.cost([pb.ArrayType((3,), "float32")], [])
            6
        """)
    # fmt: on

    def define(self, field: str, value: Any) -> None:
        """Set one rule or fact; refuses names that nothing would read.

        Arguments:
            field: its name, one of those that `def_...` name.
            value: a function, or what else such a field holds.

        Raises:
            UnknownRule: nothing would read a field of that name.
            TypeError: a rule that is not a function.

        Example:
            >>> import pullback as pb
            >>> double = pb.Primitive("double", evaluate=lambda x: 2 * x)
            >>> double.define("partials", lambda out, x: (2.0,))
            >>> pb.grad(double)(21.0)
            2.0:f32[]:cpu(0)
        """
        self._define({field: value})

    def _define(self, rules: dict[str, Any]) -> None:
        for field, value in rules.items():
            if field not in FIELDS:
                close = difflib.get_close_matches(field, FIELDS, n=1)
                raise UnknownRule(
                    f"Primitive {self.name!r} was given an unknown rule {brief(field)}"
                    + (f"; did you mean {close[0]!r}?" if close else ".")
                    + f" Known are {', '.join(FIELDS)}."
                )
            known = FIELDS[field]
            if known.rule and not callable(value) and value is not None and not (field == "lower" and isinstance(value, str)):
                raise TypeError(f"The {field} rule of primitive {self.name!r} must be a function, but it is {brief(value)}.")
            if field == "kinds" and not set(value) <= set(_DEFAULTS["kinds"]):
                raise ValueError(
                    f"The kinds of primitive {self.name!r} must be letters among {_DEFAULTS['kinds']!r} (bool,"
                    f" signed and unsigned integer, floating-point, complex), but are {brief(value)}."
                )
            first = _first_parameter(value)
            if first == "self":
                raise TypeError(
                    f"The {field} rule of primitive {self.name!r} takes `self`, but rules are called without it, as plain"
                    " functions: leave it out. A rule whose first parameter is named `primitive` is given the primitive."
                )
            if first == "primitive":
                value = functools.partial(value, self)
            if field in ("linear", "named_axes") and isinstance(value, str):
                value = (value,)
            setattr(self, field, value)
            self.families.pop(field, None)
        self.inferred.clear()
        self._linear_flags.clear()
        alone = self.evaluate.__class__ is np.ufunc or _is_our_own(self.evaluate)
        self.plain = bool(alone and self.quiet and self.result_type and not self.multiple_results)
        self.trusted = _is_our_own(self.partials)
        self.trusts_pushes = all([rule is None or _is_our_own(rule) for rule in (self.jvp, self.linearize)])
        self.trusts_vectorize = _is_our_own(self.vectorize)
        self._remembers_params = _is_our_own(self.result_type)

    def def_lower(self, rule: Rule | None = None, *, platform: str | None = None) -> Any:
        """Decorator: the operation in StableHLO, `(write, *values, **params)`; for one platform only if it is named.

        Arguments:
            rule: the rule: a function of a writer and the operands' values.
            platform: the platform that it is for; all by default.

        Returns:
            The rule; or a decorator, if none is given.

        Example:
            >>> import pullback as pb
            >>> double = pb.Primitive("double", result_type=lambda x: x)
            >>> @double.def_lower
            ... def lower_double(write, x):
            ...     return write.elementwise("stablehlo.add", x, x)
            >>> pb.jit(double)(21.0)
            42.0:f32[]:cpu(0)
        """
        if rule is None:
            return lambda rule: self.def_lower(rule, platform=platform)
        if platform is None:
            self.define("lower", rule)
        else:
            self.define("platforms", {**(self.platforms or {}), platform: rule})
        return rule

    # ---- reading them ----

    def lowering(self, platform: str) -> Rule | str | None:
        """The lowering rule for a platform: its own, or else the one for all.

        Arguments:
            platform: the platform's name.

        Returns:
            A function, the name of a StableHLO operation, or None.

        Example:
            >>> import pullback as pb
            >>> pb.Primitive("sine", lower="stablehlo.sine").lowering("cpu")
            'stablehlo.sine'
        """
        return (self.platforms or {}).get(platform, self.lower)

    def infer(self, types: tuple[ArrayType, ...], params: dict[str, Any]) -> Any:
        """The result's type, or types, by the `result_type` rule.

        Remembered where NumPy evaluates the operation; the others hold Programs, which should not live on for that. A user's
        rule may tell 2 from 2.0, which are one key, so with parameters it is asked every time.

        Arguments:
            types: the types of the operands.
            params: the parameters.

        Returns:
            An ArrayType, or a tuple of them.

        Raises:
            MissingRule: there is no such rule.
            ProgramError: it returned something else.

        Example:
            >>> import pullback as pb
            >>> pb.Primitive("double", result_type=lambda x: x).infer((pb.ArrayType((3,), "float32"),), {})
            f32[3]
        """
        key = (types, *params.items()) if params else types
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
            raise self.missing("result_type", "recording it")
        try:
            result = rule(*types, **params)
        except (ShapeError, DtypeError, AxisError) as error:
            if " At " not in str(error):
                error.args = (f"{error}{at_user_line()}",)
            raise
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
        """For a call with `count` operands: in which of them, jointly, the operation is linear.

        Arguments:
            count: how many operands there are.

        Returns:
            A bool for each.

        Raises:
            ProgramError: `linear` names an operand that there is not.

        Example:
            >>> import pullback as pb
            >>> pb.Primitive("scale", result_type=lambda x, factor: x, linear="x").linear_flags(2)
            (True, False)
        """
        if count not in self._linear_flags:
            names = self.argument_names()
            chosen = names if self.linear is True else self.linear or ()
            if unknown := [name for name in chosen if names and name not in names]:
                raise ProgramError(
                    f"Primitive {self.name!r} is declared linear in {unknown[0]!r}, but its operands are {', '.join(names)}."
                )
            flags = [name in chosen for name in names[:count]] + [names[-1] in chosen if names else True] * (count - len(names))
            self._linear_flags[count] = tuple(flags)
        return self._linear_flags[count]

    def argument_names(self) -> list[str]:
        """The names of the operands, as the rules call them; a starred one stands last.

        Returns:
            A list of strings; empty where the rules do not say.

        Example:
            >>> import pullback as pb
            >>> pb.Primitive("scale", result_type=lambda x, factor: x).argument_names()
            ['x', 'factor']
        """
        starred: list[str] = []
        static = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD
        rules = (self.result_type, 0), (self.evaluate, 0), (self.expand, 0), (self.partials, 1), (self.transpose, 1)
        for rule, others in rules:  # each with how many of its parameters come before the operands
            if rule is None or isinstance(rule, np.ufunc):  # which has names of its own for them
                continue
            with contextlib.suppress(TypeError, ValueError):  # what is written in C need not say what it takes
                parameters = list(inspect.signature(rule).parameters.values())[others:]
                names = [parameter.name for parameter in parameters if parameter.kind not in static]
                if names and parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
                    return names
                starred = starred or names  # as a family's rule has them, of however many operands
        return starred

    def missing(self, rule: str, transformation: str, source: Source | None = None) -> MissingRule:
        """The error for a rule that `transformation` needs and that nobody has written; `source` is where it was applied.

        Arguments:
            rule: the name of the rule.
            transformation: what needs it.
            source: the user's line; by default the present one.

        Returns:
            The error, which is not raised.

        Example:
            >>> import pullback as pb
            >>> str(pb.Primitive("double").missing("jvp", "grad")).split(";")[0]
            "Forward-mode differentiation (jvp) rule for primitive 'double' not implemented"
        """
        phrase, instead = FIELDS[rule].phrase, FIELDS[rule].instead
        return MissingRule(
            f"{phrase} for primitive {self.name!r} not implemented; {transformation} needs it."
            + (at_user_line() if source is None else at_line(source))
            + f" Define it with @{self.name}.def_{rule}, or as `{rule}` in the class"
            + (f"; {instead} would also do." if instead else ".")
        )

    def disagreement(self, got: ArrayType, expected: ArrayType) -> ProgramError:
        """The error for an evaluation rule whose result is not what the type rule promised.

        Arguments:
            got: the type of what was returned.
            expected: the type that was promised.

        Returns:
            The error, which is not raised.

        Example:
            >>> import pullback as pb
            >>> str(pb.Primitive("double").disagreement(pb.ArrayType((2,)), pb.ArrayType((3,)))).split(". ")[0]
            "The evaluation rule of primitive 'double' returned f32[2], but its result_type rule says f32[3]"
        """
        return ProgramError(
            f"The evaluation rule of primitive {self.name!r} returned {got}, but its result_type rule says {expected.strong()}."
            f" One of the two is wrong; pb.testing.check_primitive compares them on every sample.{at_user_line()}"
        )

    def malformed(self, rule: str, must: str, returned: Any) -> ProgramError:
        """The error for a rule that returned something of the wrong form.

        Arguments:
            rule: the name of the rule.
            must: what it must return.
            returned: what it returned.

        Returns:
            The error, which is not raised.

        Example:
            >>> import pullback as pb
            >>> str(pb.Primitive("double").malformed("jvp", "a pair", 3)).split(" At ")[0]
            "The jvp rule of primitive 'double' must return a pair, but it returned 3."
        """
        return ProgramError(
            f"The {rule} rule of primitive {self.name!r} must return {must}, but it returned {brief(returned)}."
            + at_user_line()
        )

    # ---- what rules return: the one place where it becomes what transformations work with ----

    def value(self, rule: str, what: str, returned: Any, type: ArrayType | None = None) -> Any:
        """What a rule returned, as an Array or a tracer, of the shape and dtype of `type` if that is given.

        NumPy arrays are copied; Python numbers take the dtype of `type`, as they do everywhere. `what` says in the error what
        should have been returned, as in "a tangent of the result's".

        Arguments:
            rule: the name of the rule.
            what: what should have been returned.
            returned: what was returned.
            type: the type that it must have, weakness apart.

        Raises:
            ProgramError: it is neither an array nor a number, or of another shape or dtype.

        Example:
            >>> import pullback as pb
            >>> pb.Primitive("double").value("evaluate", "a value of the result's", 2, pb.ArrayType((), "float32"))
            2.0:f32[]:cpu(0)
        """
        if returned.__class__ is not Array and not isinstance(returned, (Array, Tracer)):
            if type is not None and isinstance(returned, (bool, int, float, complex)) and fits(returned, type.dtype):
                returned = from_python(returned, type.dtype)
            try:
                returned = as_array(returned)
            except LeafError:
                what += " shape and dtype" if type is None else _described(type)
                raise self.malformed(rule, what, returned) from None
        found = returned.type
        if type is not None and found is not type and (found.shape != type.shape or found.dtype is not type.dtype):
            raise self.malformed(rule, what + _described(type), returned)
        return returned

    def values(self, rule: str, what: str, returned: Any, types: Sequence[ArrayType] | None = None) -> tuple[Any, ...]:
        """`value` for each of several; they may come in a list.

        Arguments:
            rule: the name of the rule.
            what: what should have been returned.
            returned: what was returned, a tuple or list.
            types: the types that the values must have, weakness apart.

        Raises:
            ProgramError: another number of values, or one that is not what it must be.

        Example:
            >>> import pullback as pb
            >>> pb.Primitive("pair").values("evaluate", "values of the results'", [1.0, 2.0])
            (1.0:f32[]:cpu(0), 2.0:f32[]:cpu(0))
        """
        if not isinstance(returned, (tuple, list)) or (types is not None and len(types) != len(returned)):
            raise self.malformed(rule, "a tuple, with one value for each result", returned)
        return tuple([self.value(rule, what, one, type) for one, type in zip(returned, types or itertools.repeat(None))])

    def multiplier(self, multiplier: Any, tangent: ArrayType, type: ArrayType) -> Any:
        """A derivative that `partials` returned, for an operand whose tangent is of a type, as what a tangent can be scaled by;
        ZERO if a result of `type` has no derivative.

        Arguments:
            multiplier: what `partials` returned for the operand.
            tangent: the type of the operand's tangent.
            type: the result's type.

        Returns:
            An array, an int, or ZERO.

        Raises:
            ProgramError: the multiplier is of another shape or dtype.

        Example:
            >>> import pullback as pb
            >>> scalar = pb.ArrayType((), "float32")
            >>> pb.Primitive("double").multiplier(2.0, scalar, scalar)
            2.0:f32[]:cpu(0)
        """
        if multiplier is ZERO or not is_inexact(type.dtype):
            return ZERO
        if tangent.shape != type.shape and tangent.shape:
            raise ProgramError(
                f"Primitive {self.name!r} has a `partials` rule, so its operands must have its result's shape, or be 0-d; but"
                f" an operand of type {tangent.strong()} gave a result of type {type.strong()}. Broadcast the operands before"
                f" they come to it, or give it `jvp` and `transpose` rules." + at_user_line()
            )
        if multiplier is None or multiplier.__class__ is int:
            return 1 if multiplier is None else multiplier
        if isinstance(multiplier, (float, complex, np.generic)) and fits(multiplier, type.dtype):
            return from_python(multiplier.item() if isinstance(multiplier, np.generic) else multiplier, type.dtype)
        shape = () if getattr(multiplier, "shape", None) == () else type.shape
        return self.value(
            "partials", "for each operand a number, or an array of the result's", multiplier, type.with_shape(shape)
        )

    def expanded(self, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """The operation's value by its `expand` rule.

        Arguments:
            args: the operands.
            params: the parameters.

        Returns:
            An array, or a tuple of arrays.

        Raises:
            ProgramError: the rule returned something else.

        Example:
            >>> import pullback as pb
            >>> pb.Primitive("double", expand=lambda x: x + x).expanded((21.0,), {})
            42.0:f32[]:cpu(0)
        """
        out = self.expand(*args, **params)  # type: ignore[misc]
        types = self.infer(tuple([type_of(arg) for arg in args]), params) if self.result_type is not None else None
        return (self.values if self.multiple_results else self.value)("expand", "a value of the result's", out, types)

    def expanded_without(self, rule: str, transformation: str, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """The operation's value by its `expand` rule where a transformation finds no rule of its own.

        Arguments:
            rule: the name of the rule that is missing.
            transformation: what needs it.
            args: the operands.
            params: the parameters.

        Returns:
            An array, or a tuple of arrays.

        Raises:
            MissingRule: the primitive has rules for derivatives or batches, which would be lost by that.

        Example:
            >>> import pullback as pb
            >>> pb.Primitive("double", expand=lambda x: x + x).expanded_without("vectorize", "vmap", (21.0,), {})
            42.0:f32[]:cpu(0)
        """
        lost = [name for name in ("partials", "linear", "jvp", "linearize", "transpose", "vectorize") if getattr(self, name)]
        if lost:
            raise MissingRule(
                f"{self.missing(rule, transformation)} That of {self.name!r} does not here, since by it its rule {lost[0]!r}"
                " would be lost: leave one of the two out. For a function with a derivative of its own there is pb.custom_jvp."
            )
        return self.expanded(args, params)

    def derive_evaluation(self, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """The operation's value without an `evaluate` rule: by its expansion, or by compiling its lowering.

        Arguments:
            args: the operands.
            params: the parameters.

        Returns:
            An array, or a tuple of arrays.

        Raises:
            MissingRule: there is nothing to derive it from.

        Example:
            >>> import pullback as pb
            >>> pb.Primitive("double", expand=lambda x: x + x).derive_evaluation((21.0,), {})
            42.0:f32[]:cpu(0)
        """
        if self.expand is not None:
            return self.expanded(args, params)
        if (self.lower is not None or self.platforms) and self.result_type is not None:
            return engine().run_operation(self, args, params)
        raise self.missing("evaluate", "evaluation")


@api_boundary
def primitive(rules: type) -> Primitive:
    """Class decorator: make a Primitive of a class body. Its name and docstring are the class's; inherited rules count.

    Arguments:
        rules: a class whose functions are rules and whose attributes are facts; `help(pb.Primitive)` describes each under
            `def_...`. With `expand` alone, every transformation works; `pb.Elementwise` as a base derives most rules from
            `evaluate`, `lower` and `partials`.

    Returns:
        The Primitive, which is called on arrays: `p(x, y, axes=(0,))`.

    Raises:
        UnknownRule: a name that no transformation reads (`tranpose`). TypeError: `rules` is no class.

    Example:
        >>> import pullback as pb
        >>> @pb.primitive
        ... class multiply_add:
        ...     "x * y + z."
        ...     def expand(x, y, z):
        ...         return x * y + z
        >>> pb.grad(multiply_add)(2.0, 3.0, 4.0)
        3.0:f32[]:cpu(0)
    """
    if not isinstance(rules, type):
        raise TypeError(
            f"primitive makes a Primitive of a class of rules, but got {brief(rules)}; pb.Primitive(name) has none yet."
        )
    fields: dict[str, Any] = {}
    homes: dict[str, type] = {}
    for base in reversed(rules.__mro__):
        if base.__module__ not in ("builtins", "typing"):
            own = {name: value for name, value in vars(base).items() if not name.startswith("__")}
            fields |= own
            homes |= dict.fromkeys(own, base)
    made = Primitive(rules.__name__, **fields)
    made.families = {name: base.__name__ for name, base in homes.items() if base is not rules}
    made.__doc__ = rules.__doc__
    made.__module__ = rules.__module__
    return made


class Rules(Any):
    """The base of the families of operations: a class body of rules, which `primitive` turns into a Primitive."""


_ORDER_OF_NUMBERS = {bool: "b", int: "iufc", float: "fc", complex: "c"}


def fits(number: Any, dtype: DType) -> bool:
    """Whether a Python number, or a NumPy scalar taken for one, has a value in a dtype: a whole one in any but bool."""
    own = number.item().__class__ if isinstance(number, np.generic) else number.__class__
    return kind(dtype) in _ORDER_OF_NUMBERS.get(own, "")


def _described(type: ArrayType) -> str:
    return f" shape, {type.shape}, and dtype, {type.dtype}"


def _is_our_own(rule: Any) -> bool:
    code = getattr(getattr(rule, "func", rule), "__code__", None)  # a family's rule is bound to the primitive
    return code is not None and is_ours(code.co_filename)


def _first_parameter(rule: Rule) -> str | None:
    code = getattr(rule, "__code__", None)
    return code.co_varnames[0] if code is not None and code.co_argcount > 0 else None
