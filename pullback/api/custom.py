"""Functions with rules of their own: custom_jvp, custom_vjp, custom_vmap, custom_gradient, and closure_convert."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType, MethodType
from typing import Any

from pullback.api.functions import (
    Function,
    P,
    R,
    check_callable,
    chosen_arguments,
    global_name,
    parameter_names,
    returned_leaves,
    standing_for,
    trees_of,
)
from pullback.api.scans import map as loop_over
from pullback.api.tangents import tangent_result
from pullback.api.traced import trace, with_placeholders
from pullback.api.user_rules import RuleFunctions, UserRules
from pullback.control.custom_function import Unstaged, bind_custom
from pullback.control.custom_rules import About, CustomRules, closed_rules
from pullback.core.array import Array
from pullback.core.brief import brief, counted
from pullback.core.dtypes import is_inexact
from pullback.core.errors import ConcretizationError, MissingRule, StructureError
from pullback.core.lazy import lazy_module
from pullback.core.source import api_boundary, describe, name_of, named_after, trim
from pullback.core.tracing import Tracer, innermost_staging, type_of
from pullback.core.trees import (
    TreeDef,
    check_like,
    kind_of,
    register_node,
    same,
    unflatten,
)
from pullback.program.program import Program, Variable, run
from pullback.transforms.batch import Batched
from pullback.transforms.jvp import Dual
from pullback.transforms.stage import stage

inspect = lazy_module("inspect")


class CustomFunction:
    """A function with rules of its own: what `custom_jvp`, `custom_vjp` and `custom_vmap` make. It may have all three.

    Forward mode uses the jvp rule, reverse mode the vjp rule, vmap the batching rule. Reverse mode of a function without a
    vjp rule transposes what its jvp rule does with tangents; vmap of one without a batching rule batches the function and
    its derivative rules. No transformation drops a rule.

    Example:
        >>> import pullback as pb
        >>> @pb.custom_vjp
        ... def f(x):
        ...     return pb.numpy.sin(x)
        >>> f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * 10.0,))  # reverse mode
        >>> _ = f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * 20.0))  # forward mode
        >>> pb.grad(f)(1.0), pb.jvp(f, (1.0,), (1.0,))[1]
        (10.0:f32[]:cpu(0), 20.0:f32[]:cpu(0))
    """

    _kind = "custom"
    forward_mode_cure = ""  # what to do in place of giving it a jvp rule, where that cannot be done
    _any_precision = False  # whether cotangents may be of another one than the arguments, and stand for whole parts of these
    _own_precision = False  # whether tangents must have the dtypes of the outputs, also those that are Python's numbers

    def __new__(cls, fun: Function | None = None, *args: Any, **kwargs: Any) -> Any:
        """Without a function, a decorator: `@pb.custom_jvp(nondiff_argnums=0)`."""
        return super().__new__(cls) if fun is not None else functools.partial(cls, *args, **kwargs)

    @api_boundary
    def __init__(
        self, fun: Function, nondiff_argnums: int | Sequence[int] = (), nondiff_argnames: str | Sequence[str] = ()
    ) -> None:
        check_callable(fun, self._kind)
        named_after(fun)(self)
        self.fun = fun
        self._trees_taken = kind_of(fun)
        self.rules = RuleFunctions()
        self.has_rules = False
        self.nondiff_argnums, _ = chosen_arguments(fun, nondiff_argnums, nondiff_argnames, f"{self._kind}'s nondiff")
        self._splits: dict[int, tuple[int, ...]] = {}

    # ---- giving it rules ----

    @api_boundary
    def defjvp(self, jvp: Function, symbolic_zeros: bool = False) -> Function:
        """Give the function a rule for forward mode (jvp, jacfwd), which reverse mode uses too if there is no other.

        Arguments:
            jvp: `jvp(*nondiff, primals, tangents)` to a pair, the output and its tangent. `primals` and `tangents` are tuples
                with an entry for each argument that is not one of nondiff_argnums; those come first, one by one. The tangent
                must be linear in `tangents`. The tangent of an integer is of dtype `float0`, and may be returned as None.
            symbolic_zeros: whether `jvp` gets, and may return, a `SymbolicZero` for tangents known to be zero, instead of
                real zeros.

        Returns:
            `jvp`, so that this serves as a decorator.

        Example:
            >>> import pullback as pb
            >>> @pb.custom_jvp
            ... def log1pexp(x):
            ...     return pb.numpy.log(1.0 + pb.numpy.exp(x))
            >>> @log1pexp.defjvp
            ... def log1pexp_jvp(primals, tangents):
            ...     (x,), (t,) = primals, tangents
            ...     return log1pexp(x), t * (1.0 - 1.0 / (1.0 + pb.numpy.exp(x)))
            >>> pb.grad(log1pexp)(100.0)
            1.0:f32[]:cpu(0)
        """
        check_callable(jvp, "defjvp")
        self._define(jvp=jvp, jvp_symbolic=symbolic_zeros, jvps=None)
        return jvp

    @api_boundary
    def defjvps(self, *jvps: Function | None) -> None:
        """Give the function a rule for forward mode, argument by argument.

        Arguments:
            jvps: for each argument, `rule(tangent, output, *arguments)`: what that argument's tangent contributes to the
                output's tangent; None for nothing.

        Example:
            >>> import pullback as pb
            >>> f = pb.custom_jvp(lambda x, y: x * y)
            >>> f.defjvps(lambda t, out, x, y: t * y, None)
            >>> pb.grad(f, (0, 1))(3.0, 4.0)
            (4.0:f32[]:cpu(0), 0.0:f32[]:cpu(0))
        """
        if self.nondiff_argnums:
            raise TypeError("defjvps does not go together with nondiff_argnums: write one rule for all arguments, with defjvp.")
        for jvp in jvps:
            if jvp is not None:
                check_callable(jvp, "defjvps")
        self._define(jvp=None, jvp_symbolic=False, jvps=tuple(jvps))

    @api_boundary
    def defvjp(self, fwd: Function, bwd: Function, symbolic_zeros: bool = False, optimize_remat: bool = False) -> None:
        """Give the function a rule for reverse mode (grad, vjp, jacrev).

        Arguments:
            fwd: takes what the function takes, and returns a pair: the output, and a tree of arrays to keep (the residuals).
            bwd: `bwd(*nondiff, residuals, cotangent)` to a tuple with a cotangent for each argument that is not one of
                nondiff_argnums; None for zero. What it returns for an integer is ignored.
            symbolic_zeros: whether `fwd` gets a `CustomVJPPrimal(value, perturbed)` in place of each array, and `bwd` a
                `SymbolicZero` for cotangents known to be zero.
            optimize_remat: accepted for compatibility; what `fwd` computes and nobody uses is never computed by compiled code.

        Example:
            >>> import pullback as pb
            >>> @pb.custom_vjp
            ... def clip_gradient(x):
            ...     return x
            >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, ct: (pb.numpy.clip(ct, -1.0, 1.0),))
            >>> pb.grad(lambda x: clip_gradient(x) * 5.0)(2.0)
            1.0:f32[]:cpu(0)
        """
        check_callable(fwd, "defvjp")
        check_callable(bwd, "defvjp")
        self._define(fwd=fwd, bwd=bwd, vjp_symbolic=symbolic_zeros)

    @api_boundary
    def def_vmap(self, rule: Function) -> Function:
        """Give the function a rule for vmap.

        Arguments:
            rule: `rule(axis_size, in_batched, *args)` to a pair: the output, and a tree of bools like it, or one for all of
                it, that says which arrays carry the batch. `in_batched` has the same for each argument, and the arguments
                that do carry it along their first axis, as the output must. The rule's derivative is that of the batch: where
                an argument or its tangent alone is batched, the rule gets both as batches.

        Returns:
            `rule`, so that this serves as a decorator.

        Example:
            >>> import pullback as pb
            >>> @pb.custom_vmap
            ... def total(x):
            ...     return pb.numpy.sum(x)
            >>> @total.def_vmap
            ... def total_vmap(axis_size, in_batched, x):
            ...     return pb.numpy.sum(x, axis=1) + 100.0, True
            >>> pb.vmap(total)(pb.numpy.ones((2, 3)))
            [103. 103.]:f32[2]:cpu(0)
        """
        check_callable(rule, "def_vmap")
        self._define(vmap=rule)
        return rule

    def _define(self, **rules: Any) -> None:
        self.rules = self.rules._replace(**rules)
        derivative = self.rules.jvp or self.rules.jvps is not None or self.rules.fwd
        self.has_rules = bool(derivative or (self._kind == "custom_vmap" and self.rules.vmap))

    # ---- calling it ----

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if kwargs:
                args = self._positional(args, kwargs)
            if not self.has_rules:
                raise self._missing_rule()
            if innermost_staging() is None and all([arg.__class__ is Array for arg in args]):
                return self._finished(self.fun(*args))
            return self._call(args)
        except BaseException as error:
            trim(error)
            raise

    def __reduce__(self) -> Any:
        name = global_name(self)
        if name is None:
            raise TypeError(f"{self!r} cannot be pickled: only one that a module holds by the name of its function can.")
        return name

    def __copy__(self) -> CustomFunction:
        return self

    def __deepcopy__(self, memo: Any) -> CustomFunction:
        return self

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<{self._kind} of {describe(self.fun)}>"

    def _missing_rule(self) -> MissingRule:
        """The error for a call before the function has a rule."""
        how = {
            "custom_jvp": "@{0}.defjvp or {0}.defjvps",
            "custom_vjp": "{0}.defvjp(fwd, bwd)",
            "custom_vmap": "@{0}.def_vmap",
        }[self._kind].format(name_of(self, "f"))
        return MissingRule(f"The {self._kind} function {describe(self.fun)} has no rule yet: give it one, with {how}.")

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """A call's arguments by position, as rules take them, defaults included."""
        signature = self._signature
        if signature is None:
            if not kwargs:
                return args
            raise TypeError(
                f"{describe(self.fun)} does not tell its parameters, so it can be called by position only: rules take arguments"
                " by position."
            )
        if not kwargs and len(args) == len(signature.parameters) and self._by_position:
            return args
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(
                f"{describe(self.fun)} is a {self._kind} function, whose rules take arguments by position, and this call does"
                f" not fit its parameters: {error}."
            ) from None
        bound.apply_defaults()
        left = [name for name in kwargs if name not in signature.parameters or _by_name_only(signature.parameters[name])]
        if left:
            raise TypeError(
                f"{describe(self.fun)} takes {', '.join(left)} by name only, but rules take arguments by position. Make it a"
                f" positional parameter, or fix it before {self._kind} is applied."
            )
        found: tuple[Any, ...] = bound.args
        return found

    @functools.cached_property
    def _by_position(self) -> bool:
        """Whether each parameter takes one argument by position."""
        return len(parameter_names(self.fun)) == len(self._signature.parameters)

    @functools.cached_property
    def _signature(self) -> Any:
        """The function's signature; None if it does not tell."""
        try:
            return inspect.signature(self.fun)
        except (TypeError, ValueError):
            return None

    def _numbers(self, count: int) -> tuple[int, ...]:
        """Which of `count` arguments are not fixed."""
        found = self._splits.get(count)
        if found is None:
            fixed = {number % count for number in self.nondiff_argnums if -count <= number < count}
            found = self._splits[count] = tuple([i for i in range(count) if i not in fixed])
        return found

    def _call(self, args: tuple[Any, ...]) -> Any:
        trees, numbers = self._trees_taken, self._numbers(len(args))
        leaves: list[Any] = []
        structures: list[TreeDef] = []
        for number in numbers:
            what = lambda n=number: f"argument {n} of {describe(self.fun)}"  # noqa: E731
            found, structure = trees.array_leaves(trees.without_float0(args[number]), what)
            leaves += found
            structures.append(structure)
        if innermost_staging() is None and not any([_is_watched(leaf, self.rules.vmap is not None) for leaf in leaves]):
            given = list(args)
            for number, tree in zip(numbers, trees_of(structures, leaves)):
                given[number] = tree
            return self._finished(self.fun(*given))
        complete = self._positional(args, {})
        if len(complete) != len(args):
            return self._call(complete)
        return self._traced(args, numbers, leaves, structures)

    def _traced(self, args: tuple[Any, ...], numbers: Sequence[int], leaves: list[Any], structures: list[TreeDef]) -> Any:
        """The function as one operation, which keeps its rules."""
        types = [type_of(leaf) for leaf in leaves]
        name = name_of(self.fun)
        own = UserRules(self, self.rules, args, numbers, structures, types)
        rules = own.flat(self._kind)
        captured: list[Tracer] = []
        program: Program | Unstaged
        try:
            program, found = stage(own.call, types, name=name, described=self.fun, transformation=self._kind)
        except ConcretizationError:
            if innermost_staging() is not None:
                raise
            program = Unstaged(lambda: stage(own.call, types, name=name, described=self.fun)[0])
        else:
            own.out_types = program.output_types
            captured = list(found)
            if captured or (innermost_staging() is not None and _holds_tracer(self.rules, set())):
                rules = closed_rules(rules, captured, types, program.output_types)
                program = _with_operands(program, len(found), captured)
        outs = bind_custom(program, rules, [*captured, *leaves])
        if isinstance(program, Unstaged):
            _refuse_younger(rules, leaves, outs)
        return unflatten(own.out_structure, outs)

    def _finished(self, out: Any) -> Any:
        """What the function returned when nothing was traced: arrays, which do not depend on anything differentiated."""
        if out.__class__ is Array:
            return out
        leaves, structure = returned_leaves(self.fun, self._trees_taken.without_float0(out))
        for leaf in leaves if self._has_derivative_rule() else ():
            if any(isinstance(layer, Dual) for layer in _layers(leaf)):
                raise About(self.fun, self._kind).closed_over(leaf)
        return unflatten(structure, leaves)

    def _has_derivative_rule(self) -> bool:
        return bool(self.rules.jvp or self.rules.jvps is not None or self.rules.fwd)


def _layers(value: Any) -> Iterator[Tracer]:
    """A traced value, and those that it is made of by differentiation and batching, from the youngest to the oldest."""
    while isinstance(value, Tracer):
        yield value
        value = value.primal if isinstance(value, Dual) else value.value if isinstance(value, Batched) else None


def _is_watched(value: Any, batching: bool) -> bool:
    """Whether a transformation under way wants the rules for an operation on this value: any but vmap on its own, unless
    there is a rule for `batching`."""
    return any(batching or not isinstance(layer, Batched) for layer in _layers(value))


def _holds_tracer(value: Any, seen: set[int]) -> bool:
    """Whether a traced value stands in a function's closure or defaults, or in what those hold: a rule that a Program keeps is
    used where that value is no longer known, unless it becomes an operand."""
    if isinstance(value, Tracer) or id(value) in seen:
        return isinstance(value, Tracer)
    seen.add(id(value))
    return any([_holds_tracer(part, seen) for part in held_by(value)])


def held_by(value: Any) -> list[Any]:
    """What stands in a function's closure and defaults, or in a container."""
    if isinstance(value, FunctionType):
        parts = [value.__defaults__, value.__kwdefaults__]
        for cell in value.__closure__ or ():
            with contextlib.suppress(ValueError):  # not filled yet
                parts.append(cell.cell_contents)
        return parts
    if isinstance(value, (tuple, list)):
        return [*value]
    if isinstance(value, dict):
        return [*value.values()]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    return [value.fun, value.rules] if isinstance(value, CustomFunction) else []


def _refuse_younger(rules: CustomRules, leaves: Sequence[Any], outs: Sequence[Any]) -> None:
    """Raise for a function that could not be traced if its results belong to transformations that no argument belongs to,
    and that would not see them."""
    youngest = max([leaf.owner.serial for leaf in leaves if isinstance(leaf, Tracer)], default=0)
    for layer in itertools.chain.from_iterable(map(_layers, outs)):
        if layer.owner.serial > youngest:
            raise rules.about.closed_over(layer, "transformed")


def _with_operands(program: Program, count: int, captured: Sequence[Tracer]) -> Program:
    """A Program whose first `count` inputs are captured values, with inputs for the captures of its rules behind those."""
    more = [Variable(tracer.type) for tracer in captured[count:]]
    if not more:
        return program
    inputs = [*program.inputs[:count], *more, *program.inputs[count:]]
    return Program(inputs, program.equations, program.outputs, program.constants, program.name, program.batch_axes)


def _by_name_only(parameter: Any) -> bool:
    return parameter.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)


class custom_jvp(CustomFunction):
    """A function with a rule of its own for forward mode; reverse mode follows from that.

    Arguments:
        fun: a function of arrays and pytrees. Arguments passed by name, and defaults, are resolved by its signature. Left
            out, this is a decorator: `@pb.custom_jvp(nondiff_argnums=0)`.
        nondiff_argnums, nondiff_argnames: arguments without derivatives: of any type, and handed to the rules as they are:
            first, one by one, in the order of the parameters. So rules are called as `jvp(*nondiff, primals, tangents)` and
            `bwd(*nondiff, residuals, cotangent)`; `fwd` takes what the function takes.

    Returns:
        the function, to which rules are given with `defjvp` or `defjvps`; and also, if it is to have them, with `defvjp`
        for reverse mode and `def_vmap` for vmap.

    Raises:
        MissingRule: it is called before it has a rule.
        StructureError, ShapeError, DtypeError: what a rule returned is not like the function's output.
        GradientError: it is differentiated with respect to what it closes over, or to one of nondiff_argnums.

    Example:
        >>> import pullback as pb
        >>> @pb.custom_jvp
        ... def relu(x):
        ...     return pb.numpy.maximum(x, 0.0)
        >>> relu.defjvps(lambda t, out, x: pb.numpy.where(x > 0.0, t, 0.0))
        >>> pb.vmap(pb.grad(relu))(pb.numpy.asarray([-1.0, 0.0, 1.0]))
        [0. 0. 1.]:f32[3]:cpu(0)

        With an argument that is a function:

        >>> scaled = pb.custom_jvp(lambda x, f: 3.0 * f(x), nondiff_argnums=1)
        >>> @scaled.defjvp
        ... def scaled_jvp(f, primals, tangents):
        ...     (x,), (t,) = primals, tangents
        ...     return scaled(x, f), 3.0 * pb.grad(f)(x) * t
        >>> pb.grad(scaled)(2.0, lambda x: x * x)
        12.0:f32[]:cpu(0)
    """

    _kind = "custom_jvp"


class custom_vjp(CustomFunction):
    """A function with a rule of its own for reverse mode. Forward mode needs another one, which `defjvp` gives it.

    Arguments, results and errors are those of `custom_jvp`. The rules are `fwd(*args)` to the output and residuals, and
    `bwd(*nondiff, residuals, cotangent)` to a tuple of cotangents.

    Example:
        >>> import pullback as pb
        >>> @pb.custom_vjp
        ... def f(x, y):
        ...     return pb.numpy.sin(x) * y
        >>> def fwd(x, y):
        ...     return f(x, y), (pb.numpy.cos(x), pb.numpy.sin(x), y)
        >>> def bwd(residuals, ct):
        ...     cos_x, sin_x, y = residuals
        ...     return ct * cos_x * y, ct * sin_x
        >>> f.defvjp(fwd, bwd)
        >>> pb.grad(f, (0, 1))(0.0, 3.0)
        (3.0:f32[]:cpu(0), 0.0:f32[]:cpu(0))
    """

    _kind = "custom_vjp"


class custom_vmap(CustomFunction):
    """A function with a rule of its own for vmap. Its derivatives, in both modes, are batched by that rule's derivatives.

    Arguments:
        fun: a function of arrays and pytrees.

    Returns:
        the function, to which the rule is given with `def_vmap`.

    Raises:
        AxisError: a value that the function closes over is batched, which its rule says nothing about.

    Example:
        >>> import pullback as pb
        >>> @pb.custom_vmap
        ... def matvec(a, x):
        ...     return a @ x
        >>> @matvec.def_vmap
        ... def matvec_vmap(axis_size, in_batched, a, x):
        ...     a_batched, x_batched = in_batched
        ...     if x_batched and not a_batched:
        ...         return x @ a.T, True  # one product of matrices
        ...     return pb.vmap(pb.numpy.dot, (0 if a_batched else None, 0 if x_batched else None))(a, x), True
        >>> pb.vmap(matvec, (None, 0))(pb.numpy.eye(2), pb.numpy.ones((3, 2))).shape
        (3, 2)
    """

    _kind = "custom_vmap"

    def __init__(self, fun: Function) -> None:
        super().__init__(fun)


@api_boundary
def sequential_vmap(fun: Callable[P, R]) -> Callable[P, R]:
    """A function that vmap takes the elements of a batch through one by one, in a loop; its derivatives are its own.

    It takes the memory of one element, and runs a `while_loop` or `cond` in it for each by itself, as `vmap(...,
    strategy="map")` does for all of them.

    Arguments:
        fun: a function of arrays and pytrees.

    Returns:
        A `custom_vmap` function of the same arguments.

    Raises:
        TypeError: `fun` cannot be called.

    Example:
        >>> import pullback as pb
        >>> square = pb.sequential_vmap(lambda x: x * x)
        >>> pb.vmap(pb.grad(square))(pb.numpy.asarray([1.0, 2.0]))
        [2. 4.]:f32[2]:cpu(0)
    """
    made: Any = custom_vmap(fun)
    trees = kind_of(fun)

    def rule(size: int, in_batched: Any, *args: Any) -> tuple[Any, bool]:
        (leaves, structure), (flags, _) = trees.flatten(args), trees.flatten(tuple(in_batched))

        @standing_for(fun)
        def of_element(elements: Sequence[Any]) -> Any:
            given = iter(elements)
            return made(*unflatten(structure, [next(given) if flag else leaf for leaf, flag in zip(leaves, flags)]))

        return loop_over(of_element, [leaf for leaf, flag in zip(leaves, flags) if flag]), True

    made.def_vmap(rule)
    return made  # type: ignore[no-any-return]


# ---- custom_gradient --------------------------------------------------------------------------------------------------


class _Backward:
    """Residuals of a custom gradient: the backward function as a Program, and the traced values that it closes over."""

    def __init__(self, static: tuple[Program, TreeDef, bool], captured: Sequence[Any]) -> None:
        self.static = static
        self.captured = captured


register_node(_Backward, lambda kept: (kept.captured, kept.static), lambda static, captured: _Backward(static, captured))


@api_boundary
def custom_gradient(fun: Function) -> Function:
    """A function that says its own gradient: `fun` returns its output, and a function from the output's cotangent to a
    cotangent for each argument (a tuple; with one argument, it may be the cotangent itself).

    Arguments:
        fun: a function that returns a pair: its output, and the function from cotangents to cotangents.

    Returns:
        a function of the same arguments that returns the output alone. It has reverse mode only, as `custom_vjp`.

    Raises:
        TypeError: `fun` cannot be called.
        StructureError, ShapeError, DtypeError: what the function of cotangents returned is not like the arguments.

    Example:
        >>> import pullback as pb
        >>> @pb.custom_gradient
        ... def log1pexp(x):
        ...     e = pb.numpy.exp(x)
        ...     return pb.numpy.log(1.0 + e), lambda ct: ct * (1.0 - 1.0 / (1.0 + e))
        >>> pb.grad(log1pexp)(100.0)
        1.0:f32[]:cpu(0)
    """
    check_callable(fun, "custom_gradient")
    trees = kind_of(fun)

    @standing_for(fun)
    def value(*args: Any, **kwargs: Any) -> Any:
        return _value_and_backward(fun, args, kwargs)[0]

    def fwd(*args: Any) -> tuple[Any, _Backward]:
        out, backward = _value_and_backward(fun, args, {})
        values, structure = returned_leaves(fun, trees.without_float0(out))
        cotangent = unflatten(structure, [tangent_result(value, type_of(value)) for value in values])
        leaves, structure = trees.flatten(trees.without_float0(cotangent))
        types = [type_of(leaf).strong() for leaf in leaves]
        traced = trace("custom_gradient", backward, (structure,), types, trees=trees)
        alone = len(args) == 1 and same(traced.structure, trees.flatten(args[0])[1])  # that of the only argument, a list say
        return out, _Backward((traced.program, traced.structure, alone), list(traced.captures))

    def bwd(kept: _Backward, cotangent: Any) -> tuple[Any, ...]:
        program, structure, alone = kept.static
        found = unflatten(structure, run(program, [*kept.captured, *trees.flatten(trees.without_float0(cotangent))[0]]))
        return (found,) if alone or not isinstance(found, (tuple, list)) else tuple(found)

    made = custom_vjp(value)
    made.defvjp(fwd, bwd)
    return made


def _value_and_backward(fun: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Callable[..., Any]]:
    returned = fun(*args, **kwargs)
    if not isinstance(returned, tuple) or len(returned) != 2 or not callable(returned[1]):
        raise StructureError(
            f"custom_gradient needs a function that returns a pair, its output and a function of the output's cotangent, but"
            f" {describe(fun)} returned {brief(returned)}."
        )
    return returned


# ---- closure_convert --------------------------------------------------------------------------------------------------


@api_boundary
def closure_convert(fun: Function, *example_args: Any) -> tuple[Function, list[Any]]:
    """A function without the values that it closes over, and those values, so that they can be passed as arguments.

    Rules say how a function depends on its arguments. For a function that takes another one as an argument (in a position of
    nondiff_argnums), this gives derivatives with respect to what that other one closes over.

    Arguments:
        fun: a function of arrays and pytrees.
        example_args: arguments as those that it will be called with, or `ArrayType`s in place of arrays.

    Returns:
        `(converted, values)`: `converted(*args, *values)` is `fun(*args)`. The values are the traced floating-point and
        complex ones that `fun` closes over; there are none where nothing is being differentiated or traced. `converted` takes
        arguments of the types of `example_args` only.

    Raises:
        StructureError, ShapeError, DtypeError, when `converted` is called: the arguments are not like `example_args`.

    Example:
        >>> import pullback as pb
        >>> def f(x):
        ...     converted, values = pb.closure_convert(lambda y: x * y, 0.0)
        ...     return converted(3.0, *values)
        >>> pb.grad(f)(2.0)
        3.0:f32[]:cpu(0)
    """
    check_callable(fun, "closure_convert")
    trees = kind_of(fun)
    examples, structure = trees.flatten(trees.without_float0(with_placeholders(example_args, trees)))
    types = [type_of(leaf) for leaf in examples]
    program, captured, out_structure, *_ = trace("closure_convert", fun, (structure,), types, call=lambda args: fun(*args))
    hoisted = [is_inexact(tracer.dtype) for tracer in captured]
    values = [tracer for tracer, flag in zip(captured, hoisted) if flag]
    others = [tracer for tracer, flag in zip(captured, hoisted) if not flag]

    @api_boundary
    def converted(*args_and_values: Any) -> Any:
        split = len(args_and_values) - len(values)
        args, given = args_and_values[: max(split, 0)], iter(args_and_values[max(split, 0) :])
        leaves, found = trees.array_leaves(trees.without_float0(tuple(args)), lambda: "the arguments")
        own = [type_of(leaf) for leaf in leaves]
        check_like(
            found,
            structure,
            "args",
            "example_args has",
            lambda where: (
                f"{describe(fun)} was converted for arguments like example_args, with the {counted(len(values), 'value')} that"
                f" it closes over behind them, but {where}."
            ),
            (own, types),
        )
        rest = iter(others)
        return unflatten(out_structure, run(program, [*[next(given if flag else rest) for flag in hoisted], *leaves]))

    return standing_for(fun)(converted), list(values)
