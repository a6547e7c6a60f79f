"""What the transformations of functions share: argument names, flattening, and the functions that they return."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

import numpy as np

from pullback.core.array import Array
from pullback.core.brief import brief
from pullback.core.errors import GradientError, StaticArgumentError
from pullback.core.lazy import lazy_module
from pullback.core.source import at_user_line, describe, named_after, trim
from pullback.core.tracing import Tracer, live
from pullback.core.trees import LEAF, OUT_OF_RESULTS, TreeDef, kind_of, structure_paths, taking, unflatten

if TYPE_CHECKING:
    from inspect import Parameter

inspect = lazy_module("inspect")

Function = Callable[..., Any]
P = ParamSpec("P")  # the parameters of the user's function
R = TypeVar("R")  # its result
F = TypeVar("F", bound=Function)
Argnums = int | Sequence[int]
INTEGERS = (int, np.integer)  # what an argument's number or an axis may be; NumPy's are what arrays of them hold


def standing_for(function: Function) -> Callable[[F], F]:
    """A decorator of a function of ours that is transformed in the place of a user's one, which it calls: it takes trees of the
    same kind, and Programs and errors name the user's."""
    return lambda made: taking(kind_of(function))(named_after(function)(made))


def wrapped(function: Function, transformation: str, call: Callable[P, R]) -> Callable[P, R]:
    """`call` as the function that a transformation returns: named and documented after the user's, with its attributes,
    tracebacks trimmed."""

    @standing_for(function)
    def transformed(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(*args, **kwargs)
        except BaseException as error:
            trim(error)
            raise

    transformed.__dict__ = {**getattr(function, "__dict__", {}), **vars(transformed)}
    name = transformed.__name__
    transformed.__name__ = f"{transformation}_{name}" if not name.startswith("<") else f"{transformation}_function"
    return transformed


def global_name(function: Any) -> str | None:
    """The name under which a module holds an object that stands for a function: how to pickle one made by a decorator."""
    found: Any = sys.modules.get(getattr(function, "__module__", ""))
    name = getattr(function, "__qualname__", None)  # a functools.partial has none
    for part in name.split(".") if isinstance(name, str) else ():
        found = getattr(found, part, None)
    return name if found is function else None


# Transformations from a function to a function, of which one may apply the function too early.
_OF_FUNCTIONS = frozenset({"checkpoint", "grad", "hessian", "jacfwd", "jacrev", "jit", "pmap", "value_and_grad", "vmap"})


def check_callable(function: Any, transformation: str, name: str = "") -> None:
    """Raise TypeError unless a transformation was given a function; `name` is that of the argument, if there are others."""
    if not callable(function):
        which = f" as {name}" if name else ""
        given, called = brief(function), ""
        if isinstance(function, (Array, Tracer, int, float)) and transformation in _OF_FUNCTIONS:
            called = f" Write {transformation}(f)(x), not {transformation}(f(x))."
        raise TypeError(f"{transformation} takes a function{which}, but got {given} of type {type(function).__name__}.{called}")


def check_flags(transformation: str, **flags: Any) -> None:
    """Raise TypeError unless each of these options is True or False, or 1 or 0."""
    for name, flag in flags.items():
        if not (isinstance(flag, (*INTEGERS, np.bool_)) and flag in (0, 1)):
            raise TypeError(
                f"{transformation}'s {name} must be True or False, but got {brief(flag)} of type {type(flag).__name__}."
            )


def parameters_of(function: Function) -> Mapping[str, Parameter] | None:
    """A function's parameters by name; None if they cannot be known."""
    try:
        return inspect.signature(function).parameters  # type: ignore[no-any-return]
    except (TypeError, ValueError):
        return None


def parameter_names(function: Function) -> tuple[str, ...]:
    """The names of a function's positional parameters; empty if they cannot be known."""
    parameters = parameters_of(function) or {}
    return tuple([name for name, one in parameters.items() if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)])


def argument_name(function: Function, index: int) -> str:
    """How error messages call positional argument `index`: by its parameter's name, or as `args[index]`."""
    names = parameter_names(function)
    return names[index] if -len(names) <= index < len(names) else f"args[{index}]"


def normalize_argnums(
    function: Function, argnums: Argnums, count: int, named: Container[str], transformation: str
) -> tuple[int, ...]:
    """`argnums` as non-negative ints. Raises `GradientError` for one that is not among the `count` arguments that were given by
    position; `named` are those given by name."""
    if argnums.__class__ is int and 0 <= argnums < count:  # as most often
        return (argnums,)
    numbers = tuple(argnums) if isinstance(argnums, (Sequence, np.ndarray)) else (argnums,)
    for number in numbers:
        if not isinstance(number, INTEGERS) or isinstance(number, bool):
            raise TypeError(f"{transformation}'s argnums must be an int or a sequence of ints, but got {brief(argnums)}.")
        if not -count <= number < count:
            why = f"there is no argument {number} among the {count} that were passed by position"
            if (name := argument_name(function, int(number))) in named:
                why = f"argument {name} was passed by name: pass it by position"
            raise GradientError(
                f"{transformation} of {describe(function)} has argnums={brief(argnums)}, but {why}.{at_user_line()}"
            )
    normal = tuple([int(number) % count for number in numbers])
    if len(set(normal)) != len(normal):
        raise GradientError(f"{transformation}'s argnums={brief(argnums)} names an argument twice: name each once.")
    return normal


def chosen_arguments(
    fun: Function, numbers: int | Sequence[int] | None, names: str | Iterable[str] | None, what: str
) -> tuple[tuple[int, ...], frozenset[str]]:
    """Arguments chosen by number and by name, each completed from the other by the function's signature.

    `what` begins the names of the two in errors: "jit's static" for static_argnums and static_argnames.
    """
    given: tuple[Any, ...] = () if numbers is None else tuple(numbers) if isinstance(numbers, Iterable) else (numbers,)
    chosen = tuple([int(number) if isinstance(number, np.integer) else number for number in given])
    called = () if names is None else (names,) if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if not chosen and not called:
        return (), frozenset()
    if not all(isinstance(number, INTEGERS) and not isinstance(number, bool) for number in chosen):
        raise StaticArgumentError(f"{what}_argnums must be ints, but got {brief(numbers)}.")
    if not all(isinstance(name, str) for name in called):
        raise StaticArgumentError(f"{what}_argnames must be strings, but got {brief(names)}.")
    parameters, positional = parameters_of(fun), parameter_names(fun)
    if parameters is None:
        return chosen, frozenset(called)
    has_rest = any(one.kind is one.VAR_POSITIONAL for one in parameters.values())
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    for number in chosen:
        if not has_rest and not -len(positional) <= number < len(positional):
            raise StaticArgumentError(
                f"{what}_argnums names argument {number}, but {describe(fun)} has {len(positional)} positional"
                f" parameter{'s' if len(positional) != 1 else ''}: {', '.join(positional)}."
            )
    for name in called:
        if name not in parameters and not takes_any:
            raise StaticArgumentError(
                f"{what}_argnames names {name!r}, but {describe(fun)} has the parameters {', '.join(parameters)}."
            )
    by_name = {positional.index(name) for name in called if name in positional}
    by_number = {positional[number] for number in chosen if -len(positional) <= number < len(positional)}
    if not has_rest:
        chosen = tuple([number % len(positional) for number in chosen])
    return tuple(sorted({*chosen, *by_name})), frozenset({*called, *by_number})


class FlatArguments:
    """Some of a call's arguments, taken apart into array leaves, and how to call the function with others in their place."""

    __slots__ = ("alone", "args", "function", "kind", "kwargs", "leaves", "numbers", "structures")

    def __init__(
        self, function: Function, args: Sequence[Any], kwargs: dict[str, Any], numbers: Sequence[int] | None = None
    ) -> None:
        self.function = function
        self.kind = kind_of(function)
        self.args = args
        self.kwargs = kwargs
        self.numbers = range(len(args)) if numbers is None else numbers
        self.alone = False
        self.structures: list[TreeDef] = []
        self.leaves: list[Any] = []
        for number in self.numbers:
            arg = args[number]
            if arg.__class__ is Array or isinstance(arg, Tracer):
                self.leaves.append(arg if arg.__class__ is Array else live(arg))
                self.structures.append(LEAF)
                continue
            leaves, structure = self.kind.array_leaves(arg, lambda n=number: f"argument {self.name(n)}", True)  # type: ignore[misc]
            self.leaves += leaves
            self.structures.append(structure)

    @classmethod
    def chosen(
        cls, transformation: str, function: Function, argnums: Argnums, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Self:
        """Those with respect to which a transformation is to differentiate."""
        made = cls(function, args, kwargs, normalize_argnums(function, argnums, len(args), kwargs, transformation))
        made.alone = isinstance(argnums, INTEGERS)
        return made

    def per_argument(self, leaves: Sequence[Any]) -> Any:
        """A derivative, of these leaves: a tree for each chosen argument; or only one, where `argnums` was a number."""
        trees = self.trees(leaves)
        return trees[0] if self.alone else tuple(trees)

    def call(self, leaves: Sequence[Any]) -> Any:
        """The function's result with these leaves in place of the ones that were taken out."""
        args = list(self.args)
        for number, tree in zip(self.numbers, self.trees(leaves)):
            args[number] = tree
        return self.function(*args, **self.kwargs)

    def trees(self, leaves: Sequence[Any]) -> list[Any]:
        """One tree per chosen argument, of these leaves."""
        return trees_of(self.structures, leaves)

    def paths(self) -> list[str]:
        """How error messages call each leaf."""
        from_arguments = []
        for number in self.numbers:
            from_arguments += self.kind.paths(self.args[number], self.name(number))
        return from_arguments

    def name(self, number: int) -> str:
        """How error messages call argument `number`."""
        return argument_name(self.function, number)


def trees_of(structures: Sequence[TreeDef], leaves: Sequence[Any]) -> list[Any]:
    """One tree for each structure, of these leaves in order."""
    if len(leaves) == len(structures) == structures.count(LEAF):
        return list(leaves)
    trees, start = [], 0
    for structure in structures:
        stop = start + structure.num_leaves
        trees.append(leaves[start] if structure is LEAF else unflatten(structure, leaves[start:stop]))
        start = stop
    return trees


def returned_by(fun: Any) -> str:
    """How errors call what a user's function returned."""
    return f"what {describe(fun)} returned: output"


def returned_leaves(fun: Any, out: Any, trivial: bool = False) -> tuple[list[Any], TreeDef]:
    """The leaves of what a user's function returned, and their structure; errors say whose they are. See `array_leaves`."""
    return kind_of(fun).array_leaves(out, lambda: returned_by(fun), trivial, OUT_OF_RESULTS)


def paths_of(*trees: tuple[TreeDef, str]) -> list[str]:
    """The paths of the leaves of several trees: each is given by its structure and its name."""
    return [path for structure, root in trees for path in structure_paths(structure, root)]
