"""What the Program of a function must have, must not have, and may have at most: `assert_program`, for users' tests."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.api.applied import Apply, apply_transformations, transformations
from pullback.api.functions import check_callable, check_flags
from pullback.api.traced import xpr
from pullback.core.brief import brief
from pullback.core.dtypes import BY_SHORT_NAME, SHORT_NAMES
from pullback.core.primitive import Primitive
from pullback.core.source import api_boundary, describe
from pullback.core.types import ArrayType
from pullback.export.programs import primitives
from pullback.program.cost import cost, equation_cost, largest
from pullback.program.equation import Equation, parts_of
from pullback.program.printing import equation_text
from pullback.program.program import Program
from pullback.program.running import runs_of
from pullback.testing.values import CheckFailure
from pullback.transforms.simplify import simplify as simplified

Asked = str | Primitive
SHOWN = 6  # equations for each claim that fails
LONGEST = 160  # characters of an equation in a message

# What can be bounded besides the number of equations of a kind, by the word for it.
MEASURES: dict[str, Callable[[Program], float]] = {
    "equations": lambda program: sum(_counts(program).values()),
    "flops": lambda program: cost(program).flops,
    "transcendentals": lambda program: cost(program).transcendentals,
    "bytes": lambda program: cost(program).bytes,
    "largest": largest,
}
WORDS = {
    "equations": "it has {} equations",
    "flops": "it takes {} floating-point operations",
    "transcendentals": "it takes {} values of transcendental functions",
    "bytes": "its operations read and write {} bytes",
    "largest": "its largest array has {} bytes",
}


class Pattern(NamedTuple):
    """Which equations are meant: those of some primitives, and of these perhaps those with a result of some type.

    Attributes:
        text: as it was written. primitives: the names, or the Primitive itself. types: whether a type is meant; None for any.
    """

    text: str
    primitives: frozenset[Any]
    types: Callable[[ArrayType], bool] | None = None

    def matches(self, equation: Equation) -> bool:
        """Whether an equation is meant."""
        if equation.primitive not in self.primitives and equation.primitive.name not in self.primitives:
            return False
        return self.types is None or any([self.types(variable.type) for variable in equation.outputs])


def pattern_of(asked: Asked, known: Mapping[str, Any], what: str) -> Pattern:
    """The equations that a name, a name with a type, or a Primitive stands for.

    Arguments:
        asked: what was written. known: the primitives that there are, by name. what: how errors call it.

    Raises:
        ValueError: a primitive or a type that there is not.

    Example:
        >>> pattern_of("add f32[_,4]", {"add": None}, "contains").types(ArrayType((8, 4)))
        True
    """
    if isinstance(asked, Primitive):
        return Pattern(asked.name, frozenset([asked]))
    if not isinstance(asked, str):
        raise TypeError(f"{what} takes names of primitives, such as 'dot_general', or Primitives, but got {brief(asked)}.")
    name, _, type = asked.strip().partition(" ")
    found = frozenset([one for one in known if one == name] or fnmatch.filter(known, name))
    if not found:
        near = difflib.get_close_matches(name, [*known, *(MEASURES if what in RELATIONS else ())], 1)
        cure = f" Did you mean {near[0]!r}?" if near else " pb.xpr(f, *args).show() shows those of a function."
        raise ValueError(
            f"{what}: there is no primitive {name!r}.{cure} One of your own, which the function need not have, is given as the"
            " Primitive itself."
        )
    return Pattern(asked, found, _type_test(type.strip(), asked, what) if type.strip() else None)


def _type_test(text: str, asked: str, what: str) -> Callable[[ArrayType], bool]:
    """Whether a type is one that a text means: `f32[8,4]`, `f32[_,4]`, `f32[...]` and `f32`, with `*` for any dtype."""
    match = re.fullmatch(r"(~?)(\*|[\w<>]+)(?:\[([^\]]*)\])?", text)
    dtype = BY_SHORT_NAME.get(match[2]) if match else None
    sizes = [part.strip() for part in (match[3] or "").split(",") if part.strip()] if match else []
    well = match is not None and (dtype is not None or match[2] == "*") and sizes.count("...") <= 1
    if not well or not all([part in ("_", "...") or part.isdecimal() for part in sizes]):
        near = difflib.get_close_matches(match[2], SHORT_NAMES.values(), 1) if match and dtype is None else []
        cure = f"Did you mean {near[0]!r}?" if near else "Types look like f32[8,4], f32[_,4], f32[...,4], i32[], f64, *[8,4]."
        raise ValueError(f"{what}: {asked!r} names a primitive and then {text!r}, which is no type. {cure}")
    assert match is not None
    weak, any_shape = bool(match[1]), match[3] is None

    def test(type: ArrayType) -> bool:
        if (dtype is not None and type.dtype != dtype) or (weak and not type.weak):
            return False
        return any_shape or _fits(sizes, type.shape)

    return test


def _fits(sizes: Sequence[str], shape: tuple[int, ...]) -> bool:
    if "..." in sizes:
        at = sizes.index("...")
        behind = len(sizes) - at - 1
        if len(shape) < at + behind:
            return False
        sizes = [*sizes[:at], *["_"] * (len(shape) - at - behind), *sizes[at + 1 :]]
    return len(sizes) == len(shape) and all([part == "_" or int(part) == size for part, size in zip(sizes, shape)])


# ---- what a Program has, in the Programs that it holds too -------------------------------------------------------------


def held_by(equation: Equation) -> list[Program]:
    """The Programs in an equation's parameters, wherever in these they stand."""
    return [part for value in equation.params.values() for part in parts_of(value) if isinstance(part, Program)]


def _counts(program: Program) -> Counter[Primitive]:
    """How often each primitive is applied, each time that a Program is held by an equation."""
    return _added_up(program, {}, lambda equation: equation.primitive)


def _added_up(program: Program, known: dict[int, Counter[Any]], key: Callable[[Equation], Any]) -> Counter[Any]:
    found = known.get(id(program))
    if found is None:
        found = known[id(program)] = Counter([key(equation) for equation in program.equations])
        for inner in [inner for equation in program.equations for inner in held_by(equation)]:
            found.update(_added_up(inner, known, key))
    return found


def _occurrences(program: Program, pattern: Pattern) -> int:
    return _added_up(program, {}, pattern.matches)[True]


def _line(program: Program, equation: Equation, path: tuple[str, ...] = ()) -> str:
    """An equation, the operations in whose Programs it stands, and the user's line."""
    text = equation_text(program, equation)
    text = text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
    shown = path if len(path) <= 4 else (*path[:2], "...", *path[-2:])
    inside = f"  (in {', '.join(shown)})" if path else ""
    return f"{text}{inside}{f'  # {equation.source}' if equation.source is not None else ''}"


def _places(program: Program, wanted: Callable[[Equation], bool], seen: set[int], path: tuple[str, ...] = ()) -> Iterator[str]:
    """The equations that are wanted, in words; each Program that is held several times is gone through once."""
    if id(program) in seen:
        return
    seen.add(id(program))
    for equation in program.equations:
        if wanted(equation):
            yield _line(program, equation, path)
        for inner in held_by(equation):
            yield from _places(inner, wanted, seen, (*path, str(equation.primitive)))


def _shown(program: Program, wanted: Callable[[Equation], bool]) -> list[str]:
    """The first of the equations that are wanted, a line each."""
    lines: list[str] = []
    for line in _places(program, wanted, set()):
        if len(lines) == SHOWN:
            return [*lines, "..."]
        lines.append(line)
    return lines


def _applies(program: Program) -> str:
    """What a Program applies, most often first."""
    rows = [f"{one}{f' x{count}' if count > 1 else ''}" for one, count in _counts(program).most_common()]
    return ", ".join(rows) or "nothing"


# ---- the claims --------------------------------------------------------------------------------------------------------


def _asked(value: Any, what: str) -> list[Asked]:
    if isinstance(value, (str, Primitive)):
        return [value]
    if isinstance(value, Mapping):
        raise TypeError(f"{what} takes names of primitives, but got the dict {value!r}. Numbers of them are asked in exactly.")
    try:
        return list(value)
    except TypeError:
        raise TypeError(f"{what} takes a name of a primitive, a Primitive, or several, but got {brief(value)}.") from None


def _bounds(value: Any, what: str) -> list[tuple[Asked, float]]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} takes a dict, as in {{'dot_general': 2, 'equations': 40}}, but got {brief(value)}.")
    for name, bound in value.items():
        if isinstance(bound, bool) or not isinstance(bound, (int, float, np.integer, np.floating)) or not bound >= 0:
            raise TypeError(f"{what}: the bound of {name!r} is {brief(bound)}, and must be a number that is not negative.")
    return [(name, bound.item() if isinstance(bound, np.generic) else bound) for name, bound in value.items()]


RELATIONS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    "at_most": (lambda found, bound: found <= bound, "at most "),
    "at_least": (lambda found, bound: found >= bound, "at least "),
    "exactly": (lambda found, bound: found == bound, ""),
}


def _failures(
    program: Program, contains: Sequence[Pattern], lacks: Sequence[Pattern], bounds: Sequence[tuple[str, Any, float]]
) -> Iterator[list[str]]:
    """What of all that is asked does not hold: a line that says it, and those that show where."""
    for pattern in contains:
        if not _occurrences(program, pattern):
            same = Pattern(pattern.text, pattern.primitives)
            others = _shown(program, same.matches) if pattern.types is not None else []
            yield [f"contains: it has no {pattern.text}.", *(others or [f"It applies {_applies(program)}."])]
    for pattern in lacks:
        if count := _occurrences(program, pattern):
            yield [f"lacks: it has {_number(count)} {pattern.text}.", *_shown(program, pattern.matches)]
    for what, key, bound in bounds:
        holds, words = RELATIONS[what]
        found = MEASURES[key](program) if isinstance(key, str) else _occurrences(program, key)
        if not holds(found, bound):
            says = f"it has {{}} {key.text}" if isinstance(key, Pattern) else WORDS[key]
            yield [f"{what}: {says.format(_number(found))}, not {words}{_number(bound)}.", *_evidence(program, key)]


def _check_countable(program: Program, what: str, key: str) -> None:
    """Refuse to bound what depends on how many steps a loop takes."""

    def is_open(equation: Equation) -> bool:
        return any([run.steps is None and getattr(cost(run.program), key, 0) for run in runs_of(equation)])

    if loops := _shown(program, is_open):
        lines = "".join([f"\n    {line}" for line in loops])
        raise ValueError(
            f"{what}: its {key} depend on how many steps a loop takes, which only running it tells. Bound the number of"
            f" equations, or the loop's body by itself; pb.cost(..., measure=True) counts the steps of a run:{lines}"
        )


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"


def _evidence(program: Program, key: str | Pattern) -> list[str]:
    """What shows how a number came about."""
    if isinstance(key, Pattern):
        return _shown(program, key.matches) or [f"It applies {_applies(program)}."]
    if key == "equations":
        return [f"It applies {_applies(program)}."]
    if key == "largest":
        size = largest(program)
        if size in [type.nbytes for type in program.input_types]:
            return ["It is an input."]
        return _shown(program, lambda equation: any([one.type.nbytes == size for one in equation.outputs]))
    rows = [(getattr(equation_cost(one), key), one) for one in program.equations]
    most = sorted(rows, key=lambda row: -row[0])[:SHOWN]
    return [f"{_number(amount)}: {_line(program, equation)}" for amount, equation in most if amount]


def _named(function: Callable[..., Any]) -> str:
    """A function for a message; what a transformation made, by its own name too: `grad_loss, made of loss (model.py:4)`."""
    described, name = describe(function), getattr(function, "__name__", None)
    bare = described.partition(" (")[0].rpartition(".")[2]
    return f"{name}, made of {described}" if isinstance(name, str) and name not in ("", bare) else described


@api_boundary
def assert_program(
    f: Callable[..., Any],
    args: Sequence[Any] | None = None,
    *,
    contains: Asked | Iterable[Asked] = (),
    lacks: Asked | Iterable[Asked] = (),
    at_most: Mapping[Asked, float] | None = None,
    at_least: Mapping[Asked, float] | None = None,
    exactly: Mapping[Asked, float] | None = None,
    apply: Apply = "",
    simplify: bool = False,
) -> Program:
    """Check what operations a function consists of, as a test of its own: that a derivative needs no second matrix product,
    that nothing became float64, that no large array is made on the way.

    The Programs that equations hold are looked into as well: bodies of loops, branches, jitted and checkpointed functions. An
    equation in a loop's body counts once, however many steps the loop takes; one in a Program that several equations hold,
    once for each of these. Rules of custom functions count where they have been applied.

    Arguments:
        f: a function, or a Program.
        args: what to call it with, a tuple; an `ArrayType` serves for an array. A Program needs none.
        contains: what it must have, one or several: a primitive by its name (`"dot_general"`), which may have a `*` in it
            (`"reduce_*"`), or a `Primitive`; a name may be followed by the type of a result: `"dot_general f32[8,4]"`,
            `"* f64"` (anything of float64), `"* f32[_,1000]"` with `_` for any size, `"add f32[...,3]"` for any number of them.
        lacks: what it must not have, likewise.
        at_most: a dict of what is counted and the number: how many equations of a kind, given as above; or `"equations"`, how
            many in all; `"flops"`, `"transcendentals"` and `"bytes"`, what running it costs as `pb.cost` counts it: a loop as
            many times as it has steps, and of branches the one that takes most; `"largest"`, the bytes of the largest array.
        at_least, exactly: likewise.
        apply: transformations of `f`, the first one first: `"grad,vmap"`. `args` are then those of the result.
        simplify: whether to look at what jit compiles, simplified: without what repeats what is there already.

    Returns:
        The Program, for whatever else there is to check.

    Raises:
        CheckFailure: an AssertionError that has each claim that does not hold, with the equations and their lines.
        ValueError: a primitive, type or transformation that there is not: a misspelled name is lacked by every Program; or a
            bound of what depends on how many steps a loop takes, which only running it tells.
        TypeError: nothing is asked for, or an argument is of another kind.

    Example:
        >>> import pullback as pb
        >>> def loss(w, x):
        ...     return pb.numpy.sum(pb.numpy.tanh(x @ w) ** 2)
        >>> w, x = pb.ArrayType((4,)), pb.ArrayType((8, 4))
        >>> program = pb.assert_program(loss, (w, x), apply="grad", exactly={"dot_general": 2, "tanh": 1}, lacks="* f64")
        >>> pb.assert_program(loss, (w, x), apply="grad", at_most={"dot_general": 1})
        Traceback (most recent call last):
            ...
        pullback.testing.CheckFailure: The Program of loss (<doctest ...>:1) under grad is not as it should be.
          at_most: it has 2 dot_general, not at most 1.
            c:f32[8]:cpu(0) = dot_general[...] b a  # <doctest ...>:2 (loss): ...
        ...
    """
    check_callable(f, "assert_program")
    check_flags("assert_program", simplify=simplify)
    names = [str(one) for one in transformations(apply)]
    if args is None:
        if not isinstance(f, Program):
            raise TypeError(
                f"assert_program takes a tuple of arguments after the function, or of their types, for {describe(f)}."
            )
        args = f.input_types
    if not isinstance(args, (tuple, list)):
        raise TypeError(
            f"assert_program takes args as a tuple, such as (x,), but got one {type(args).__name__}: {brief(args)}."
        )
    asked = [(what, _asked(value, what)) for what, value in (("contains", contains), ("lacks", lacks))]
    given = (("at_most", at_most), ("at_least", at_least), ("exactly", exactly))
    bounds = [(what, *row) for what, value in given if value is not None for row in _bounds(value, what)]
    if not bounds and not any([found for _, found in asked]):
        raise TypeError("assert_program is asked for nothing: give it contains, lacks, at_most, at_least or exactly.")

    if isinstance(f, Program) and not names and tuple(args) == f.input_types:
        program = f
    else:
        program = xpr(apply_transformations(f, apply), *args)
    if simplify:
        program = simplified(program)
    known = {**dict.fromkeys([one.name for one in _counts(program)]), **primitives()}
    wanted, unwanted = [[pattern_of(one, known, what) for one in found] for what, found in asked]
    rows = [(what, key if key in MEASURES else pattern_of(key, known, what), bound) for what, key, bound in bounds]
    for what, key, _ in rows:
        if isinstance(key, str):
            _check_countable(program, what, key)
    failures = list(_failures(program, wanted, unwanted, rows))
    if failures:
        under = f" under {', '.join(names)}" if names else ""
        of = f" {program.name}" if isinstance(f, Program) else f" of {_named(f)}"
        lines = [f"The Program{of}{under} is not as it should be."]
        for claim, *evidence in failures:
            lines += [f"  {claim}", *[f"    {line}" for line in evidence]]
        raise CheckFailure("\n".join(lines))
    return program
