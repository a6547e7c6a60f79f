"""A note on programs of very many equations: which Python line made most of them, and what to write instead.

A Python loop in a traced function is recorded pass after pass. Which line stands in one is read off the code's own jumps, so
the note takes time in proportion to the equations, and only where there are too many.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any

from pullback.core.bounded import Bounded
from pullback.core.brief import brief
from pullback.core.errors import LargeProgramWarning
from pullback.core.lazy import lazy_module
from pullback.core.source import CodeSource, Source, describe, innermost, source_text, warn
from pullback.program.program import Program

dis = lazy_module("dis")


def _from_environment() -> int:
    many = os.environ.get("PULLBACK_LARGE_PROGRAM", "10000")
    if not many.isdecimal():
        raise ValueError(
            f"The environment variable PULLBACK_LARGE_PROGRAM must be a number of equations, or 0, not {brief(many)}."
        )
    return int(many)


MANY = _from_environment()  # equations are too many; 0: none are
_SHARE = 0.5  # of the equations, that a loop is named for
_DEEP = 64  # calls inside one another that are looked through

Loop = tuple[CodeType, int, int]  # a piece of code, and where in it a loop begins and ends

_noted: Bounded[str, None] = Bounded(64)  # functions that a note was given of


def note_size(transformation: str, fun: Any, program: Program) -> None:
    """Warn of a function's Program, once a function, if it has very many equations. One that is a Program itself was noted
    when that was traced."""
    if not MANY or len(program.equations) <= MANY or isinstance(innermost(fun), Program):
        return
    name = f"{transformation} of {describe(fun)}"
    if name in _noted:
        return
    _noted[name] = None
    warn(_note(name, program), category=LargeProgramWarning)


def _note(name: str, program: Program) -> str:
    total = len(program.equations)
    sources = {id(one.source): one.source for one in program.equations if one.source is not None}
    made = Counter([id(one.source) for one in program.equations if one.source is not None])
    at: Counter[str] = Counter()  # equations by the line that made them
    heaviest: dict[str, tuple[int, int]] = {}  # the place that made most at a line
    for key, count in made.items():
        line = _line(sources[key])
        at[line] += count
        heaviest[line] = max(heaviest.get(line, (0, 0)), (count, key))
    says = f"The program of {name} has {total:,} equations."
    if at:
        line, count = at.most_common(1)[0]
        source = sources[heaviest[line][1]]
        says += f" {count:,} of them were made at {source_text(source)}."
        around = {place: loops for place in _callers(source) if (loops := _loops_around(place))}
        through = {  # equations that came through each of those loops
            loop: sum([count for key, count in made.items() if _came_through(loop, sources[key])])
            for loops in around.values()
            for loop in loops
        }
        most = [place for place, loops in around.items() if max([through[loop] for loop in loops]) >= _SHARE * total]
        if {_line(place) for place in most} == {line}:
            says += " That line is in a Python loop, which is recorded pass after pass"
        elif most:
            listed = ", and inside that at ".join(dict.fromkeys([_line_text(place, source) for place in reversed(most)]))
            says += f" They come through a Python loop, which is recorded pass after pass, at {listed}"
        if most:
            whole = max([through[loop] for loop in around[most[-1]]])
            says += "." if whole == count else f", {whole:,} equations in all."
    return (
        f"{says} Tracing, differentiating and compiling take time in proportion. Make a loop one operation, with pb.lax.scan or"
        " pb.lax.fori_loop; or use pb.vmap, where its passes do not depend on each other. To hear no more of this, ignore"
        " pb.errors.LargeProgramWarning, or set the environment variable PULLBACK_LARGE_PROGRAM=0, or to another number of"
        " equations."
    )


def _line(source: Source) -> str:
    return f"{source.file}:{source.line}"


def _line_text(place: Source, source: Source) -> str:
    """A place in words; shorter where it was told already."""
    return "this line" if _line(place) == _line(source) else source_text(place)


def _callers(source: Source) -> Iterator[Source]:
    """A place, and those from which it was called, the innermost first."""
    at: Source | None = source
    for _ in range(_DEEP):
        if at is None:
            break
        yield at
        at = at.caller


def _loops_around(place: Source) -> Sequence[Loop]:
    """The loops in a piece of code that a place in it is in, the outermost last."""
    if not isinstance(place, CodeSource):
        return ()
    return [(place.code, start, end) for start, end in _loops(place.code) if start <= place.instruction <= end]


def _came_through(loop: Loop, source: Source) -> bool:
    """Whether a place, or one of those from which it was called, is in a loop."""
    code, start, end = loop
    return any(
        [isinstance(one, CodeSource) and one.code is code and start <= one.instruction <= end for one in _callers(source)]
    )


def _loops(code: CodeType) -> Sequence[tuple[int, int]]:
    """Where the loops in a piece of code begin and end, as offsets of instructions."""
    jumps = [one for one in dis.get_instructions(code) if "BACKWARD" in one.opname and "NO_INTERRUPT" not in one.opname]
    return [(one.argval, one.offset) for one in jumps]
