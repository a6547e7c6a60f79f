"""Stacks of transformations that are written as text, `"grad,vmap(in_axes=(None, 0)),jit"`, and the stages of a function that
they lead through.

    apply          = [transformation {"," transformation} [","]]        the first one is applied first
    transformation = name ["(" options ")"]                             vmap   grad(argnums=1)   vmap((None, 0), axis_size=8)

Options are those of the public function of the name, and Python literals.
"""

from __future__ import annotations

import ast
import difflib
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from pullback.api.compiled import Jitted, jit
from pullback.api.derivatives import grad, jvp, value_and_grad, vjp
from pullback.api.functions import Function, check_callable, standing_for
from pullback.api.jacobians import hessian, jacfwd, jacrev
from pullback.api.mapping import vmap
from pullback.api.memory import checkpoint
from pullback.api.traced import TracedCall, check_closed, traced_call, with_placeholders
from pullback.core.array import Array, find_converter
from pullback.core.axes import axis_sizes
from pullback.core.brief import brief, counted
from pullback.core.lazy import lazy_module
from pullback.core.refs import Ref
from pullback.core.source import describe, name_of
from pullback.core.tracing import Tracer, type_of
from pullback.core.trees import kind_of, unflatten
from pullback.program.program import Program
from pullback.transforms.simplify import drop_dead_code

inspect = lazy_module("inspect")

Apply = str | Function | Sequence[Any]  # texts, and functions from a function to a function
Options = Mapping[str, Any]
MOST_WRAPPED = 100  # decorators around a function that are looked at


def pushed_forward(function: Function, has_aux: bool = False) -> Function:
    """`jvp` as a function of the primals and then as many tangents, all by position."""

    @standing_for(function)
    def pushed(*args: Any) -> Any:
        half = len(args) // 2
        if 2 * half != len(args):
            raise ValueError(f"jvp takes the arguments of {describe(function)} and then their tangents, but got {len(args)}.")
        return jvp(function, args[:half], args[half:], has_aux)

    return pushed


def pulled_back(function: Function, has_aux: bool = False) -> Function:
    """`vjp` as a function of the primals and then the cotangent of the result, all by position; it returns the result, and a
    cotangent for each primal."""

    @standing_for(function)
    def pulled(*args: Any) -> Any:
        if not args:
            raise ValueError(f"vjp takes the arguments of {describe(function)} and then a cotangent, but got nothing.")
        out, pullback, *aux = vjp(function, *args[:-1], has_aux=has_aux)
        return out, pullback(args[-1]), *aux

    return pulled


TRANSFORMATIONS: dict[str, Callable[..., Function]] = {
    "grad": grad,
    "value_and_grad": value_and_grad,
    "vmap": vmap,
    "jit": jit,
    "jvp": pushed_forward,
    "vjp": pulled_back,
    "jacfwd": jacfwd,
    "jacrev": jacrev,
    "hessian": hessian,
    "checkpoint": checkpoint,
    "remat": checkpoint,
}


class Applied(NamedTuple):
    """A transformation with its options. Called with a function, it returns the transformed one.

    Attributes:
        name: what it is called. make: the transformation itself. options: what else it is given, by name.
    """

    name: str
    make: Callable[..., Function]
    options: Options = MappingProxyType({})

    @property
    def kind(self) -> str:
        """Which transformation of ours it is, by one name for each; "" for a user's own, whatever that is called."""
        known = {make: name for name, make in reversed(TRANSFORMATIONS.items())}
        return known.get(self.make, "")

    def __call__(self, function: Function) -> Function:
        return self.make(function, **self.options)

    def __str__(self) -> str:
        options = ", ".join([f"{name}={value!r}" for name, value in self.options.items()])
        return f"{self.name}({options})" if options else self.name


def transformations(apply: Apply, defaults: Mapping[str, Options] | None = None) -> list[Applied]:
    """The transformations that a text, or a list of texts and functions, asks for, in the order in which they are applied.

    Arguments:
        apply: the text, a function from a function to a function, or a list of such.
        defaults: by the name of a transformation, the options that it has unless the text gives them.

    Raises:
        ValueError: the text breaks the grammar, or names what there is not. TypeError: `apply` is something else.

    Example:
        >>> [str(one) for one in transformations("grad(argnums=1), vmap((None, 0))")]
        ['grad(argnums=1)', 'vmap(in_axes=(None, 0))']
    """
    if isinstance(apply, str):
        return [_of_expression(node, apply, defaults or {}) for node in _expressions(apply)]
    if isinstance(apply, Applied):
        return [apply]
    if isinstance(apply, (list, tuple)):
        return [one for part in apply for one in transformations(part, defaults)]
    if callable(apply):
        return [_of_function(apply)]
    raise TypeError(
        'apply takes transformations as text, as in "grad,vmap", or a list of functions that transform a function, but got'
        f" {brief(apply)} of type {type(apply).__name__}."
    )


def apply_transformations(function: Function, apply: Apply) -> Function:
    """A function with transformations applied to it, one after the other.

    Arguments:
        function: the function.
        apply: the transformations as text, `"grad,vmap"`, the first one first; or a list of texts and of functions from a
            function to a function.

    Returns:
        The transformed function.

    Raises:
        ValueError: the text breaks the grammar, or names what there is not. TypeError: `function` is no function, or `apply`
            neither text nor functions.

    Example:
        >>> apply_transformations(lambda w, x: w * x**2, "grad(argnums=1),vmap(in_axes=(None, 0))")(2.0, pb.numpy.arange(3.0))
        [0. 4. 8.]:f32[3]:cpu(0)
    """
    check_callable(function, "apply_transformations")
    for one in transformations(apply):
        function = _applied(one, function)
    return function


def _applied(one: Applied, function: Function) -> Function:
    made = one(function)
    if not callable(made):
        raise TypeError(f"apply: {one.name} must return a function, but returned {brief(made)} of type {type(made).__name__}.")
    return made


def _expressions(text: str) -> list[ast.expr]:
    if not text.strip():
        return []
    try:
        return ast.parse(f"({text.strip().rstrip(',')},)", mode="eval").body.elts  # type: ignore[attr-defined, no-any-return]
    except (SyntaxError, AttributeError, ValueError):
        raise ValueError(f"apply={text!r} cannot be read. {_LOOK}") from None


_LOOK = 'Transformations look like "grad,vmap" or "grad(argnums=1),vmap(in_axes=(None, 0)),jit".'


def _of_function(function: Function) -> Applied:
    """A transformation that is given as a function; of `functools.partial(pb.grad, argnums=1)` the options are seen."""
    if isinstance(function, functools.partial) and not function.args and function.func in TRANSFORMATIONS.values():
        return Applied(name_of(function.func), function.func, function.keywords)
    return Applied(name_of(function), function)


def _of_expression(node: ast.expr, text: str, defaults: Mapping[str, Options]) -> Applied:
    call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
    if not isinstance(call.func, ast.Name):
        raise ValueError(f"apply={text!r}: {ast.unparse(node)!r} is no transformation. {_LOOK}")
    name = call.func.id
    make = TRANSFORMATIONS.get(name)
    if make is None:
        near = difflib.get_close_matches(name, TRANSFORMATIONS, 1)
        known = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(TRANSFORMATIONS)}."
        raise ValueError(f"apply={text!r}: {name!r} is no transformation. {known}")
    names = list(inspect.signature(make).parameters)[1:]
    given: list[tuple[str | None, ast.expr]] = [*zip(names, call.args), *[(one.arg, one.value) for one in call.keywords]]
    if len(call.args) > len(names):
        raise ValueError(
            f"apply={text!r}: {name} takes {counted(len(names), 'option')} ({', '.join(names)}), not {len(call.args)}."
        )
    options: dict[str, Any] = {}
    for option, value in given:
        if option is None or option not in names or option in options:
            what = "is given twice" if option in options else "is none of its options"
            takes = f"it takes {', '.join(names)}" if names else "it takes none"
            raise ValueError(f"apply={text!r}: {name}: {option or ast.unparse(value)} {what}; {takes}.")
        try:
            options[option] = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError):
            raise ValueError(
                f"apply={text!r}: {name}: {option}={ast.unparse(value)} is no Python literal. Apply functions of your own in a"
                " list: apply=[pb.grad, my_transformation]."
            ) from None
    return Applied(name, make, {**defaults.get(name, {}), **options})


# ---- the stages between a function and the transformed one --------------------------------------------------------------


class Static(NamedTuple):
    """The arguments of a call that are handed on as they are, untraced: those by position, by number, and those by name."""

    numbers: tuple[int, ...] = ()
    names: frozenset[str] = frozenset()

    def dynamic(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The others, with None in the place of one that is given by position."""
        given = tuple([None if i in self.numbers else arg for i, arg in enumerate(args)])
        return given, {name: arg for name, arg in kwargs.items() if name not in self.names}

    def restored(self, args: Sequence[Any], kwargs: Mapping[str, Any], dynamic: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """A call's arguments, with others in the place of those that are not handed on as they are."""
        given, named = dynamic
        return (
            tuple([args[i] if i in self.numbers else arg for i, arg in enumerate(given)]),
            {**named, **{name: kwargs[name] for name in self.names}},
        )


def static_arguments(fun: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Static:
    """The arguments of a call that are handed on as they are: those that a jitted function in it takes so, and those without
    arrays and numbers, such as a text."""
    found = _without_leaves(_is_array, fun, args, kwargs)
    numbers, names = {*found.numbers}, {*found.names}
    at: Any = fun
    for _ in range(MOST_WRAPPED):
        if at is None:
            break
        if isinstance(at, Jitted):
            numbers.update([number % len(args) for number in at._static_numbers if -len(args) <= number < len(args)])
            names |= at._static_names & kwargs.keys()
        at = getattr(at, "__wrapped__", None)
    return Static(tuple(sorted(numbers)), frozenset(names))


def untraced_arguments(fun: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Static:
    """The arguments with which a function is called while another one is traced that are no traced values: what is around
    hands them on as they are."""
    return _without_leaves(_has_type, fun, args, kwargs)


def _without_leaves(test: Callable[[Any], bool], fun: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Static:
    """The arguments that have leaves, none of which passes a test."""

    def fixed(arg: Any) -> bool:
        leaves = kind_of(fun).flatten(arg)[0]
        return bool(leaves) and not any([test(leaf) for leaf in leaves])

    numbers = [number for number, arg in enumerate(args) if fixed(arg)]
    return Static(tuple(numbers), frozenset([name for name, arg in kwargs.items() if fixed(arg)]))


def _has_type(leaf: Any) -> bool:
    return isinstance(leaf, (Array, Tracer, Ref)) or hasattr(leaf, "dtype")


def _is_array(leaf: Any) -> bool:
    """Whether a leaf is an array or a number, has or may have the values of one, or stands for one."""
    return _has_type(leaf) or find_converter(type(leaf)) is not None


class Stage(NamedTuple):
    """A function on the way from the user's own to the transformed one, with what it is called with there.

    Attributes:
        name: the transformation that made it, with its options; "" for the user's own function.
        function: the function.
        args, kwargs: the arguments of a call of it, with an `ArrayType` for each array.
        axes: the sizes of the named axes that are there when it is called, by name, the outermost first.
        static: which arguments are not traced.
    """

    name: str
    function: Function
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    axes: dict[Hashable, int]
    static: Static = Static()

    def traced(self, what: str, function: Function | None = None) -> TracedCall:
        """The call, traced, where its named axes are.

        Arguments:
            what: what error messages say is being done. function: another function in the place of its own.
        """
        called = self.function if function is None else function
        dynamic = with_placeholders(self.static.dynamic(self.args, self.kwargs), kind_of(called))
        args, kwargs = self.static.restored(self.args, self.kwargs, dynamic)
        found: list[TracedCall] = []

        def trace() -> None:
            found.append(traced_call(what, called, args, kwargs, *self.static))

        for name, size in reversed(self.axes.items()):
            trace = vmap(trace, axis_name=name, axis_size=size)
        trace()
        check_closed(what, called, found[0].traced.captures)
        return found[0]

    def program(self) -> Program:
        """The stage as a Program.

        Example:
            >>> stages(lambda x: x * 2.0, (pb.ArrayType((3,)),), apply="vmap")[0].program()
            <Program <lambda>: (f32[]) -> (f32[]), 1 equations>
        """
        return drop_dead_code(self.traced("xpr").traced.program)


def stages(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None, apply: Apply = "") -> list[Stage]:
    """The function, and what each transformation makes of it, with what it is called with when the last one is called.

    Arguments:
        function: the user's function.
        args, kwargs: the arguments of the transformed function; an `ArrayType` serves for an array.
        apply: the transformations, as `apply_transformations` takes them.

    Returns:
        A list of `Stage`, the user's own function first.

    Raises:
        What tracing the transformed function raises. ValueError: a transformation does not call the function that it is given.

    Example:
        >>> found = stages(lambda w, x: w * x, (pb.ArrayType(()), pb.ArrayType((8,))), apply="grad,vmap(in_axes=(None, 0))")
        >>> [(stage.name, stage.args) for stage in found]
        [('', (f32[], f32[])), ('grad', (f32[], f32[])), ('vmap(in_axes=(None, 0))', (f32[], f32[8]))]
    """
    check_callable(function, "stages")
    applied = transformations(apply)
    functions = [function]
    for one in applied:
        functions.append(_applied(one, functions[-1]))
    given, named = _types((tuple(args), dict(kwargs or {})), function)
    static = static_arguments(functions[-1], given, named)
    found = [Stage(str(applied[-1]) if applied else "", functions[-1], given, named, {}, static)]
    for number in reversed(range(len(applied))):
        name = str(applied[number - 1]) if number else ""
        found.append(_inner(name, functions[number], applied[number], found[-1]))
    return found[::-1]


class _Called(BaseException):
    """The function was called; nothing else is to be known."""


def _inner(name: str, function: Function, transformation: Applied, outer: Stage) -> Stage:
    """The stage to whose function a transformation is applied: what a call of the transformed one calls it with."""
    seen: list[Stage] = []

    @standing_for(function)
    def looked(*args: Any, **kwargs: Any) -> Any:
        given, named = _types((args, kwargs), function)
        sizes = {axis: size for axis, size, _ in axis_sizes()}
        seen.append(Stage(name, function, given, named, sizes, untraced_arguments(function, args, kwargs)))
        raise _Called

    transformed = _applied(transformation, looked)
    try:
        outer._replace(function=transformed).program()
    except _Called:
        return seen[0]
    raise ValueError(f"apply: {transformation.name} does not call {describe(function)}, the function that it is given.")


def _types(tree: Any, function: Function) -> Any:
    """A tree of arguments with the type of each array in its place."""
    leaves, structure = kind_of(function).flatten(tree)
    return unflatten(structure, [type_of(leaf) if isinstance(leaf, (Array, Tracer, Ref)) else leaf for leaf in leaves])
