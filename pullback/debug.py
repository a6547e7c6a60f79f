"""pb.debug: look at values while they are computed, inside any transformation, and at how far long loops are."""

from __future__ import annotations

import ast
import builtins
import itertools
import operator
import re
import string
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, TextIO

from pullback.api.callbacks import OnTrees
from pullback.api.functions import INTEGERS, check_flags
from pullback.api.progress import Reported
from pullback.control.callback import callback as callback_primitive
from pullback.core.array import Array
from pullback.core.brief import brief
from pullback.core.errors import LeafError
from pullback.core.lazy import lazy_module
from pullback.core.progress import display
from pullback.core.source import api_boundary, is_ours
from pullback.core.tracing import Tracer
from pullback.core.trees import array_leaf, array_leaves, flatten, kind_of, register_node, unflatten
from pullback.program.equality import Keyed, param_key

bdb = lazy_module("bdb")
pdb = lazy_module("pdb")

__all__ = ["breakpoint", "callback", "print", "progress"]


class Printer(Keyed):
    """Prints values by a format string, which is its key."""

    __slots__ = ()

    def __init__(self, format: str) -> None:
        self.key = format

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        try:
            text = self.key.format(*args, **kwargs)
        except (TypeError, ValueError) as error:
            cure = " An array is printed by {} alone." if "ndarray" in str(error) else ""
            raise type(error)(f"debug.print's format {self.key!r} does not fit its values: {error}.{cure}") from None
        builtins.print(text, flush=True)

    def __repr__(self) -> str:
        return f"print {self.key!r}"


class _Static(Keyed):
    """In the place of what is no array in a callback's arguments: a container of nothing, which becomes that value again."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value
        self.key = param_key(value)


register_node(_Static, lambda static: ((), static), lambda static, _: static.value)


def _array_or_static(leaf: Any) -> Any:
    try:
        return array_leaf(leaf, lambda: "argument")
    except LeafError:
        return _Static(leaf)


@api_boundary
def callback(function: Callable[..., object], /, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Call a Python function on the values that the arguments have when this line is computed, for its side effects.

    Works eagerly and inside every transformation. In a compiled function it is called each time that function runs; under
    `grad` once, with the primal values; under `vmap` once for every batch element, in order, if an argument depends on the
    batch, else once; in a branch, or a step of a loop, that not every batch element runs, once for each that does. Several
    calls in one function happen in the order in which they are written.

    Arguments:
        function: called with NumPy arrays in place of the arrays in `args` and `kwargs`; what it returns is ignored, and
            what it raises comes out of the call that was running. It may itself use pullback.
        args, kwargs: trees of arrays. What is no array in them (a string, a function) is handed on as it is.
        ordered: whether such calls must happen in the order in which they are written. They always do.

    Raises:
        TypeError: `function` cannot be called.

    Example:
        >>> import pullback as pb
        >>> seen = []
        >>> @pb.jit
        ... def f(x):
        ...     pb.debug.callback(seen.append, x)
        ...     return 2.0 * x
        >>> f(3.0)
        6.0:f32[]:cpu(0)
        >>> seen
        [array(3., dtype=float32)]
    """
    if not callable(function):
        raise TypeError(f"debug.callback takes a function, but got {brief(function)}.")
    trees = kind_of(function)
    given, structure = trees.flatten((args, kwargs))
    leaves, structure = trees.flatten(unflatten(structure, [_array_or_static(leaf) for leaf in given]))
    callback_primitive(*leaves, function=OnTrees(function, structure))


@api_boundary
def print(format: str, /, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Print values when they are computed, by a format string as `str.format` takes it; inside any transformation.

    Under `vmap` a line is printed for every batch element, in order, if a value depends on the batch, else one line; in a
    branch, or a step of a loop, that not every batch element runs, one for each that does.

    Arguments:
        format: the text, with `{}`, `{name}` and `{name:.3f}` where values go.
        args, kwargs: the values: trees of arrays; strings and other objects are printed as they are.
        ordered: whether lines must be printed in the order in which they are written. They always are.

    Raises:
        LeafError: `format` is not a string, so that the values in it would be those seen while tracing.
        ValueError: a place in `format` has no value, or a value no place.

    Example:
        >>> import pullback as pb
        >>> @pb.jit
        ... def f(x):
        ...     pb.debug.print("x is {:.1f}", x)
        ...     return 2.0 * x
        >>> f(3.0)
        x is 3.0
        6.0:f32[]:cpu(0)
    """
    if not isinstance(format, str):
        raise LeafError(f"debug.print takes a format string first, as in debug.print('x = {{}}', x), but got {brief(format)}.")
    check_places(format, args, kwargs)
    callback(Printer(format), *args, **kwargs)


def check_places(format: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise unless a format string has a place for each value, and a value for each place."""
    given = {*range(len(args)), *kwargs}
    try:
        named = set(_places(format, itertools.count()))
    except ValueError as error:
        raise ValueError(
            f"debug.print's format {brief(format)} cannot be read: {error}. Write {{{{ and }}}} for braces."
        ) from None
    if missing := [f"{{{name}}}" for name in named - given]:
        raise ValueError(
            f"debug.print's format {brief(format)} has {', '.join(missing)}, but there is no value for it: got {len(args)} by"
            f" position and {', '.join(kwargs) or 'none'} by name. Pass the value, or write {{{{ and }}}} for braces."
        )
    if unused := [name if isinstance(name, str) else f"number {name}" for name in given - named]:
        raise ValueError(
            f"debug.print's format {brief(format)} has no place for the value {', '.join(unused)}. Write {{}} or {{name}} where"
            " it goes."
        )


def _places(format: str, numbers: Iterator[int]) -> Iterator[int | str]:
    """The values that a format string asks for, by position or by name; those in format specifications too."""
    for _, field, specification, _ in string.Formatter().parse(format):
        if field is not None:
            name = re.split(r"[.\[]", field, maxsplit=1)[0]
            yield int(name) if name.isdigit() else name or next(numbers)
            yield from _places(specification or "", numbers)


class _Debugger:
    """Opens Python's debugger where a function called `breakpoint`, on the values that its variables have."""

    __slots__ = ("code", "globals", "line", "others", "streams", "structure")

    def __init__(self, frame: FrameType, structure: Any, others: dict[str, Any], **streams: TextIO | None) -> None:
        self.code, self.line, self.globals = frame.f_code, frame.f_lineno, frame.f_globals
        self.structure, self.others, self.streams = structure, others, streams

    def __call__(self, *leaves: Any) -> None:
        stdin, stdout = self.streams["stdin"], self.streams["stdout"]
        # Python's debugger reads what it is given only if it is told where to write as well.
        debugger = pdb.Pdb(stdin=stdin, stdout=sys.stdout if stdin and not stdout else stdout, nosigint=True)
        # A frame of the user's function and line, whose local variables are the values: what the debugger shows. It is opened
        # on that frame at once: a trace function, as `Pdb.set_trace` sets, stops in whatever Python code runs next, which
        # can be a callback of the garbage collector.
        debugger.reset()
        call = ast.increment_lineno(ast.parse("__stop__()"), self.line - 1)
        here = compile(call, self.code.co_filename, "exec").replace(co_name=self.code.co_name)
        stop = {"__stop__": lambda: debugger.interaction(sys._getframe(1), None)}
        exec(here, {**self.globals, **stop}, {**self.others, **unflatten(self.structure, leaves)})
        if debugger.quitting:
            raise bdb.BdbQuit

    def __repr__(self) -> str:
        return f"breakpoint at {self.code.co_filename}:{self.line}"


def breakpoint(*, stdin: TextIO | None = None, stdout: TextIO | None = None) -> None:
    r"""Stop here when this line is computed, in Python's debugger, inside any transformation.

    The variables of the function that calls this are there with the values that they have in that call: look at them with
    `p x`, see the source with `l`, go on with `c`, end the program with `q`. Under `vmap` it stops for every batch element;
    in a branch, or a step of a loop, that not every batch element runs, for each that does. Nothing that is done there
    changes the computation.

    Arguments:
        stdin, stdout: where the debugger reads its commands and writes; by default, the terminal.

    Example:
        >>> import io, pullback as pb
        >>> @pb.jit
        ... def f(x):
        ...     y = 2.0 * x
        ...     pb.debug.breakpoint(stdin=io.StringIO("p y + 1.0\nc\n"), stdout=shown)
        ...     return y
        >>> shown = io.StringIO()
        >>> f(3.0)
        6.0:f32[]:cpu(0)
        >>> "7.0" in shown.getvalue()
        True
    """
    frame = sys._getframe(1)
    while is_ours(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    values: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, value in frame.f_locals.items():
        leaves = flatten(value)[0]
        traced = any(isinstance(leaf, (Array, Tracer)) for leaf in leaves)
        arrays = traced and not any(isinstance(_array_or_static(leaf), _Static) for leaf in leaves)
        (values if arrays else others)[name] = value
    leaves, structure = array_leaves(values, lambda: "variable")
    callback_primitive(*leaves, function=_Debugger(frame, structure, others, stdin=stdin, stdout=stdout))


@api_boundary
def progress(
    loop: Any, *, label: str | None = None, total: int | None = None, every: int | None = None, show: bool = True
) -> Any:
    """A loop with a progress bar: one of Python's, or a compiled one, which is given its body so.

    In Python, `for x in pb.debug.progress(xs)`; in compiled code `pb.lax.scan(pb.debug.progress(step), ...)`, and likewise
    `fori_loop`, `while_loop` and `map`. Works in every transformation: under `vmap` a loop that all batch elements go through
    together has one bar, under `grad` the bar shows the forward pass.

    A loop is compiled as one over blocks of steps, which are compiled as the whole loop would have been, and takes some 5 us
    longer for each block. A `while_loop` with a bound, or one whose number of steps no block size divides, takes some 0.1 us
    longer for each step, and is not run by the native tier. Bars are drawn ten times a second at most, those of loops inside
    one another together: on a terminal on standard error, in a notebook as a line of text; a log gets a line a minute, and one
    at the end. If an exception, Ctrl-C too, comes out of the loop, its bar stays as it is, and the terminal is as before.

    Arguments:
        loop: an iterable; or a loop's body, that is given to the loop as it is returned. Python runs the former as it is: in
            jit it shows how far tracing is, and where computations run on after their calls have returned, how far those are
            that have been called.
        label: what to call it; by default the name of the body.
        total: how many steps there are, where the loop does not know: an iterable without a length, or a `while_loop`.
        every: after how many steps to say how far it is; by default, after a hundredth of all, or, where nobody knows how many
            there are, after an eighth of those that are done. Of a known number the next smaller divisor is taken, if one is
            near.
        show: whether there is a bar at all.

    Returns:
        An iterator of the same values, or what the loop takes as its body.

    Raises:
        TypeError: `loop` is neither; or what was made of a body is called. ValueError: a `total` that is not the loop's own.

    Example:
        >>> import pullback as pb
        >>> sum([x for x in pb.debug.progress([1.0, 2.0, 3.0], label="adding")])
        6.0
        >>> @pb.jit
        ... def f(x):
        ...     return pb.lax.fori_loop(0, 1000, pb.debug.progress(lambda i, x: x + 1.0, label="counting"), x)
        >>> f(0.0)
        1000.0:f32[]:cpu(0)
    """
    for name, value, least in (("total", total, 0), ("every", every, 1)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, INTEGERS) or value < least):
            raise ValueError(f"debug.progress takes {name} as a number of steps, {least} or more, but got {brief(value)}.")
    if label is not None and not isinstance(label, str):
        raise TypeError(f"debug.progress takes label as a string, but got {brief(label)}.")
    check_flags("debug.progress", show=show)
    if not isinstance(loop, Reported) and hasattr(loop, "__iter__"):
        return _items(loop, label or "", total, every or 1) if show else iter(loop)
    if isinstance(loop, Reported) or not callable(loop):
        raise TypeError(f"debug.progress takes an iterable, or a loop's body, a function, but got {brief(loop)}.")
    return Reported(loop, label, total, every) if show else loop


def _items(items: Iterable[Any], label: str, total: int | None, every: int) -> Iterator[Any]:
    """The items, each of which is a step of what is shown."""
    total = operator.length_hint(items) or None if total is None else total
    row, done = object(), 0
    display.begin(row, label, total, in_python=True)
    try:
        for item in items:
            yield item
            done += 1
            if done % every == 0:
                display.step(row, done)
        display.exhausted(row, done)
    finally:
        display.end(row, done)


def __dir__() -> list[str]:
    return sorted(__all__)
