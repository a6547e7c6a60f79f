"""Python's debugger at the user's lines, while a Program runs that was made of them.

The user's function ran long before, when it was traced. So a frame is made for the line: code without a body, in the user's
file and at the line's number, below such frames of those that called it, whose local variables are the values that have these
names now. `pdb` stops there as in any other frame: `p y`, `pp`, `l`, `ll`, `w`, `u`, `d` and `b` work as always; `n` and `s`
go on to the next line of which an equation runs, and `c` to the next stop.
"""

from __future__ import annotations

import bdb
import builtins
import inspect
import os
import pdb  # noqa: T100  (the debugger is what this is about)
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import CodeType, FrameType
from typing import Any, NamedTuple

from pullback.core.array import Array
from pullback.core.brief import brief
from pullback.core.source import CodeSource, Source, innermost, shown_file
from pullback.diagnose.names import Names
from pullback.diagnose.recording import CAUGHT, NAN, Caught, Recording, equation_line
from pullback.diagnose.stats import short_text
from pullback.diagnose.walk import Frame, Visitor
from pullback.program.equation import Equation
from pullback.program.program import Program


class Stop(NamedTuple):
    """A line at which to stop; of any file whose path ends so."""

    file: str
    line: int

    def is_at(self, source: Source) -> bool:
        """Whether a place is on the line."""
        return source.line == self.line and (
            not self.file or source.file == self.file or source.file.endswith(os.sep + self.file)
        )


def stops_for(program: Program, stop_at: int | str | Sequence[int | str]) -> tuple[list[Stop], frozenset[str]]:
    """The lines that `stop_at` names, and which of the words "caught" and "nan" are among them.

    Raises:
        ValueError: no equation comes from a line, or the text names none. TypeError: it is something else.
    """
    given = [stop_at] if isinstance(stop_at, (int, str)) else list(stop_at) if isinstance(stop_at, (list, tuple)) else None
    if given is None or not all(isinstance(one, (int, str)) and not isinstance(one, bool) for one in given):
        raise TypeError(
            f'replay\'s stop_at takes a line\'s number, "model.py:12", "nan", "caught", or several, not {brief(stop_at)}.'
        )
    if not given:
        raise ValueError(
            f'replay\'s stop_at={stop_at!r} names no line. Name one, as in stop_at="model.py:12", or leave it out.'
        )
    stops = []
    for one in given:
        if one in (CAUGHT, NAN):
            continue
        file, _, number = str(one).rpartition(":")
        if not number.isdigit():
            raise ValueError(f'replay\'s stop_at takes a line\'s number, "model.py:12", "nan" or "caught", not {brief(one)}.')
        stops.append(Stop(file, int(number)))
    lines = lines_of(program)
    for stop in stops:
        if not any(stop.is_at(source) for source in lines):
            places = sorted({(shown_file(source.file), source.line) for source in lines})
            known = ", ".join([f"{file}:{line}" for file, line in places[:20]]) or "none"
            raise ValueError(
                f"replay's stop_at={brief(stop_at)}: no operation comes from line {stop.line}"
                f"{f' of {stop.file}' if stop.file else ''}. Operations come from {known}."
            )
    return stops, frozenset([str(one) for one in given if one in (CAUGHT, NAN)])


def lines_of(program: Program) -> list[Source]:
    """The places that a Program's equations come from, those that called them too."""
    found: dict[int, Source] = {}
    waiting, seen = [program], {id(program)}
    for one in waiting:  # which grows meanwhile
        for equation in one.equations:
            for source in chain_of(equation.source):
                found[id(source)] = source
        for inner in one.subprograms():
            if id(inner) not in seen:
                seen.add(id(inner))
                waiting.append(inner)
    return list(found.values())


def chain_of(source: Source | None) -> list[Source]:
    """A place and those that called it, the innermost first."""
    chain = []
    while source is not None:
        chain.append(source)
        source = source.caller
    return chain


class Ran(NamedTuple):
    """An equation that has run: it, with its operands and its results."""

    equation: Equation
    operands: tuple[Array, ...]
    results: tuple[Array, ...]


class Debugger(pdb.Pdb):
    """`pdb` in frames that are made for lines of a replay.

    Attributes:
        wanted: what the user said last: "continue", "step" or "quit".
    """

    def __init__(self, stdin: Any = None, stdout: Any = None) -> None:
        super().__init__(stdin=stdin, stdout=stdout, nosigint=True)
        self.wanted = "continue"
        self.shown: dict[int, tuple[CodeType, Source]] = {}
        self._innermost: CodeType | None = None
        self._forced = True
        self._said = ""

    def run_at(self, levels: Sequence[tuple[Source, dict[str, Any], dict[str, Any]]], said: str, forced: bool) -> None:
        """Stop at a place.

        Arguments:
            levels: the place and those that called it, the outermost first, with the globals and the locals of each.
            said: what to say first. forced: whether to stop in any case, or else where a breakpoint says so.
        """
        self.shown, self._said, self._forced, self.wanted = {}, said, forced, "continue"
        inner: Any = None
        code: CodeType | None = None
        for number, (source, names, values) in enumerate(reversed(levels)):
            code = _code_at(source, inner is not None)
            if not number:
                self._innermost = code
            self.shown[id(code)] = code, source
            if inner is not None:
                values[".inner"] = inner
            inner = partial(exec, code, names, values)
        tracing = sys.gettrace()
        try:
            self.runctx(code, *inner.args[1:])  # type: ignore[arg-type]
        finally:
            sys.settrace(tracing)
        if self.wanted == "quit":
            raise bdb.BdbQuit

    def user_line(self, frame: FrameType) -> None:
        if frame.f_code is self._innermost and (self._forced or self.break_here(frame)):
            if self._said:
                self.message(self._said)
            super().user_line(frame)

    def user_call(self, frame: FrameType, argument_list: Any) -> None:
        pass

    def user_return(self, frame: FrameType, return_value: Any) -> None:
        pass

    def user_exception(self, frame: FrameType, exc_info: Any) -> None:
        pass

    def get_stack(self, f: FrameType | None, t: Any) -> tuple[list[tuple[FrameType, int]], int]:
        stack = [entry for entry in super().get_stack(f, t)[0] if id(entry[0].f_code) in self.shown]
        return stack, len(stack) - 1

    def do_args(self, arg: str) -> None:
        """args: print the arguments of the function, as far as their values are known."""
        assert self.curframe is not None
        source, known = self.shown[id(self.curframe.f_code)][1], self.curframe.f_locals
        names = [name for name in parameters_of(source) if name in known]
        self.message("\n".join([f"{name} = {known[name]!r}" for name in names]) or "none that is known")

    do_a = do_args

    def set_continue(self) -> None:
        self.wanted = "continue"
        super().set_continue()

    def set_step(self) -> None:
        self.wanted = "step"
        super().set_step()

    def set_next(self, frame: FrameType) -> None:
        self.wanted = "step"
        super().set_next(frame)

    def set_until(self, frame: FrameType, lineno: int | None = None) -> None:
        self.wanted = "step"
        super().set_until(frame, lineno)

    def set_return(self, frame: FrameType) -> None:
        self.wanted = "continue"
        super().set_return(frame)

    def set_quit(self) -> None:
        self.wanted = "quit"
        super().set_quit()

    def breaks_at(self, source: Source) -> bool:
        """Whether the user has set a breakpoint on a line."""
        return source.line in self.breaks.get(self.canonic(source.file), ())


def parameters_of(source: Source) -> tuple[str, ...]:
    """The names of the parameters of the function that a place is in; none of a place that a serialized Program keeps."""
    if not isinstance(source, CodeSource):
        return ()
    code = source.code
    starred = [bool(code.co_flags & flag) for flag in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS)]
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + sum(starred)]


def _code_at(source: Source, calls: bool) -> CodeType:
    """Code that stands on a line, and does nothing there, or calls what is in the local variable `.inner`."""
    first = source.code.co_firstlineno if isinstance(source, CodeSource) else source.line
    first = min(first, source.line)
    text = "\n" * (source.line - first) + ("inner()" if calls else "pass")
    name = source.function.rpartition(".")[2]
    made = compile(text, source.file, "exec", dont_inherit=True)
    names = tuple([".inner" if one == "inner" else one for one in made.co_names])
    return made.replace(co_firstlineno=first, co_name=name, co_qualname=source.function, co_names=names)


class Debugging(Visitor):
    """Stops in the debugger once the equations of a line have run.

    Arguments:
        recording: what else is done with each equation. stops: the lines.
        function: the user's function. args: those of the call.
        make: makes the debugger.
    """

    def __init__(
        self,
        recording: Recording,
        stops: Sequence[Stop],
        function: Callable[..., Any],
        args: Sequence[Any],
        make: Callable[[], Any] | None = None,
    ) -> None:
        self.recording = recording
        self.stops = stops
        self.debugger = Debugger() if make is None else make()
        if not isinstance(self.debugger, Debugger):
            raise TypeError(
                f"replay's debugger must make a pullback.diagnose.debugger.Debugger, which is a pdb.Pdb, but it made"
                f" {brief(self.debugger)}. Derive the class from that one; its arguments are stdin and stdout."
            )
        self.names = Names(function, args)
        self.function = function
        self.group: list[Ran] = []
        self.frame: Frame | None = None
        self.at: Source | None = None
        self.forced = True
        self.caught: Caught | None = None

    def before(self, equation: Equation, operands: Sequence[Any], frame: Frame) -> None:
        if self.group and (frame is not self.frame or self._key(self.match(equation)[0]) != self._key(self.at)):
            self.stop()
        self.recording.before(equation, operands, frame)

    def after(self, equation: Equation, operands: Sequence[Any], results: Sequence[Any], frame: Frame) -> None:
        self.recording.after(equation, operands, results, frame)
        source, forced = self.match(equation)
        if self.group and (frame is not self.frame or self.caught is not None or self._key(source) != self._key(self.at)):
            self.stop()  # an operation that holds others ends
            source, forced = self.match(equation)
        self.names.learn(equation, results, frame)
        if source is None and self.caught is None:
            return
        self.group.append(Ran(equation, tuple(operands), tuple(results)))
        self.frame, self.at, self.forced = frame, source, forced
        if self.caught is not None:
            why, self.caught = str(self.caught), None
            self.at, self.forced = equation.source, True
            self.stop(why)

    def ended(self) -> None:
        if self.group:
            self.stop()

    def stop_here(self, caught: Caught) -> None:
        """Stop once the equation that made this has ended."""
        self.caught = caught

    def match(self, equation: Equation) -> tuple[Source | None, bool]:
        """The place, of those that an equation comes from, at which to stop once it has run; and whether in any case."""
        chain = chain_of(equation.source)
        for source in chain:
            if any(stop.is_at(source) for stop in self.stops):
                return source, True
        if self.debugger.wanted == "step" and chain:
            return chain[0], True
        for source in chain:
            if self.debugger.breaks_at(source):
                return source, False
        return None, True

    @staticmethod
    def _key(source: Source | None) -> Any:
        return None if source is None else (source.file, source.line, id(source.caller))

    def stop(self, why: str = "") -> None:
        """Hand over to the debugger, at the line whose equations have run."""
        group, frame, source = self.group, self.frame, self.at
        self.group = []
        assert frame is not None
        lines = [why] if why else []
        place = frame.place()
        if not why:
            lines.append(f"this line has run{f', in {place}' if place else ''}:")
        for number, ran in enumerate(group):
            role = "" if ran.equation.role == "primal" else f"  ({ran.equation.role})"
            values = "; ".join(map(short_text, ran.results))
            lines.append(f"  values[{number}]  {equation_line(frame.program, ran.equation)}    {values}{role}")
        own = {
            "values": [ran.results[0] if len(ran.results) == 1 else ran.results for ran in group],
            "equations": [ran.equation for ran in group],
        }
        if source is None:
            self.debugger.message("\n".join([*lines, "It has no line of yours: the replay goes on."]))
            return
        levels = [(level, self._globals(level), self.names.at(level)) for level in reversed(chain_of(source))]
        levels[-1] = (*levels[-1][:2], {**own, **levels[-1][2]})
        self.debugger.run_at(levels, "\n".join(lines), self.forced)

    def _globals(self, source: Source) -> dict[str, Any]:
        """The global variables of the module that a place is in; where it is not known, those that Python has."""
        own = innermost(self.function)
        code = getattr(own, "__code__", None)
        if code is not None and code.co_filename == source.file and hasattr(own, "__globals__"):
            found: dict[str, Any] = own.__globals__
            return found
        for module in list(sys.modules.values()):
            if getattr(module, "__file__", None) == source.file:
                return vars(module)
        return {"__builtins__": builtins, "__name__": "replay"}
