"""`pb.explore`: a page that shows what each transformation did to a function."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from pullback.api.applied import Apply, transformations
from pullback.api.compiled import Jitted
from pullback.api.functions import Function, check_callable, check_flags
from pullback.api.traced import call_paths
from pullback.core.bars import output, print_lines
from pullback.core.brief import brief
from pullback.core.dtypes import BY_SHORT_NAME
from pullback.core.errors import LeafError, PullbackError
from pullback.core.lazy import lazy_module
from pullback.core.source import Source, api_boundary, name_of, running_source
from pullback.core.trees import kind_of
from pullback.explorer.deltas import describe_stage
from pullback.explorer.lines import start_of
from pullback.explorer.listing import LEGEND, STYLES, listing, summary
from pullback.explorer.page import page_html
from pullback.explorer.page_data import PageData
from pullback.explorer.program_rows import add_stage
from pullback.explorer.simplified import note_left_out
from pullback.explorer.stages import ProgramStage, program_stages
from pullback.explorer.text_rows import add_compiled
from pullback.explorer.times import add_times
from pullback.explorer.values import add_values, concrete_call
from pullback.explorer.watching import reloaded
from pullback.explorer.watching import watch as watch_files
from pullback.program.equation import Equation
from pullback.program.program import Program, programs_in
from pullback.transforms.simplify import drop_dead_code

webbrowser = lazy_module("webbrowser")
html = lazy_module("html")

_UNFIT = re.compile(r"[^\w.-]+")  # for a file's name
_TYPE_AS_TEXT = re.compile(r"~?([\w<>]+)\[([\d, ]*)\]")
INLINE_HEIGHT = 620  # CSS pixels, of the page in a notebook


class Explorer:
    """What `pb.explore` found: a page, its data, and the Programs of its stages.

    In Jupyter and marimo it shows itself as the page, elsewhere as text.

    Attributes:
        data: what the page shows, a dict that becomes JSON, as docs/explorer-format.md describes it.
        programs: by the id of a stage (`"base"`, `"grad"`, ...) its Program.

    Example:
        >>> import pullback as pb
        >>> found = pb.explore(lambda x: pb.numpy.sin(x) * x, 1.0, apply="grad", compile=False)
        >>> [stage["id"] for stage in found.data["stages"]]
        ['source', 'base', 'jvp', 'linearize', 'grad', 'simplify']
    """

    def __init__(self, data: dict[str, Any], programs: Mapping[str, Program]) -> None:
        self.data = data
        self.programs = programs

    @property
    def html(self) -> str:
        """The page, as text: one file that needs nothing else.

        Example:
            >>> import pullback as pb
            >>> pb.explore(lambda x: x * x, 1.0, compile=False).html[:15]
            '<!doctype html>'
        """
        return page_html(self.data)

    def save(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Write the page to a file, which opens in any browser, without a network.

        Arguments:
            path: the file, which is replaced at once or not at all.

        Returns:
            The path.

        Raises:
            OSError: the file cannot be written.

        Example:
            >>> import pathlib, tempfile
            >>> import pullback as pb
            >>> with tempfile.TemporaryDirectory() as directory:
            ...     page = pb.explore(lambda x: x * x, 1.0, compile=False).save(pathlib.Path(directory, "page.html"))
            ...     page.stat().st_size > 10_000
            True
        """
        there = pathlib.Path(path)
        partial = there.parent / f"{there.name}.partial"
        try:
            partial.write_text(self.html, encoding="utf-8")
            partial.replace(there)
        except BaseException as error:
            with contextlib.suppress(OSError):
                partial.unlink()
            if isinstance(error, OSError):
                error.filename = str(there)  # the file that was asked for
                del error.filename2  # None would be printed
            raise
        return there

    def to_json(self) -> str:
        """The data of the page as JSON text.

        Example:
            >>> import json
            >>> import pullback as pb
            >>> json.loads(pb.explore(lambda x: x * x, 1.0, compile=False).to_json())["format"]
            'pullback.explorer'
        """
        return json.dumps(self.data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)

    def open(self, path: str | os.PathLike[str] | None = None) -> pathlib.Path:
        """Write the page to a file, and open it in the browser.

        Arguments:
            path: the file; by default `explore-NAME.html` in the current directory, after the page's title.

        Returns:
            The path.
        """
        name = _UNFIT.sub("-", self.data["title"]).strip("-") or "page"
        there = self.save(path or f"explore-{name}.html")
        webbrowser.open(there.resolve().as_uri())
        return there

    def show(self, *stages: str, color: bool | None = None, file: TextIO | None = None) -> None:
        """Print the page as text: what each transformation did, and the stages that are asked for, line by line.

        Arguments:
            stages: ids of stages (`"source"`, `"base"`, `"grad"`, ...): which to print after the summary.
            color: whether to colour it; by default, if `file` is a terminal. Batch axes are blue, the other ones pink.
            file: where to print it; by default, standard output.

        Raises:
            ValueError: there is no such stage.

        Example:
            >>> import pullback as pb
            >>> pb.explore(lambda x: x * 2.0, pb.ArrayType((3,)), compile=False).show("base")  # doctest: +ELLIPSIS
            <lambda>  <lambda>
                                   equations  FLOPs  peak
            Program (base)                 1      3  12 B  What <lambda> does, operation by operation.
            Simplified (simplify)          1      3  12 B  There was nothing to take out.
            <BLANKLINE>
            Program  pb.xpr(<lambda>)
              What <lambda> does, operation by operation.
              a:f32[3]  x
              b:f32[3] = mul a 2.0  # line 1
              return b
            <BLANKLINE>
        """
        known = [stage["id"] for stage in self.data["stages"]]
        if unknown := [id for id in stages if id not in known]:
            raise ValueError(f"show: there is no stage {unknown[0]!r}; there are {', '.join(known)}.")
        out, colored = output(file, color)
        lines = [*summary(self.data), [], *listing(self.data, stages)]
        if stages and any([row.get("role", "primal") != "primal" for stage in self.data["stages"] for row in stage["rows"]]):
            lines.append([(LEGEND, "soft")])
        if colored:
            print_lines(lines, STYLES, out)
        else:
            for line in lines:
                print("".join([text for text, _ in line]).rstrip(), file=out)

    def __repr__(self) -> str:
        return "\n".join(["".join([text for text, _ in line]).rstrip() for line in summary(self.data)])

    def _repr_html_(self) -> str:
        page = html.escape(page_html({**self.data, "inline": True}), quote=True)
        style = f"width:100%;height:{INLINE_HEIGHT}px;border:0"
        return f'<iframe srcdoc="{page}" style="{style}" title="pullback explorer: {html.escape(self.data["call"])}"></iframe>'


@api_boundary
def explore(
    fun: Function,
    /,
    *args: Any,
    apply: Apply = "",
    compile: bool = True,
    values: bool = False,
    profile: bool = False,
    watch: bool = False,
    title: str | None = None,
    **kwargs: Any,
) -> Explorer:
    """Show what transformations do to a function, step by step, side by side, with costs, memory and origins.

    Arguments:
        fun: a function of arrays and pytrees.
        args, kwargs: the arguments of the transformed function: for `apply="vmap"`, batches. An `ArrayType` serves for an
            array. What is static in a jitted function, or neither array nor number, is handed on as it is.
        apply: the transformations, the first one first, as in `"grad,vmap(in_axes=(None, 0)),jit"`; or a list of texts and of
            functions from a function to a function.
        compile: whether to compile the result, to show its StableHLO and what XLA makes of that.
        values: whether to run each stage on NumPy, equation by equation, to show ranges, samples, and the first NaN. The
            arguments need values then; of a batch, stages before the `vmap` show the element of the first NaN, or the first.
        profile: whether to measure how long the compiled function takes, operation by operation, for a column of times and a
            flame graph. The arguments need values then.
        watch: whether to serve the page on 127.0.0.1, and make it anew whenever the file with the function is saved; until
            Ctrl-C, after which the newest one is returned. The file is run again each time, not as the main program.
        title: the heading of the page; by default the function's name.

    Returns:
        An `Explorer`: `save(path)` writes the page, `open()` shows it in the browser; notebooks show it by themselves.

    Raises:
        ValueError: `apply` cannot be read, or `fun` cannot be watched. TypeError: `fun` is no function. LeafError: a type is
            given as text. What tracing the transformed function raises.

    Example:
        >>> import pullback as pb
        >>> def loss(w, x):
        ...     return pb.numpy.sum(pb.numpy.tanh(x @ w))
        >>> shapes = pb.ArrayType((4, 3), "float32"), pb.ArrayType((8, 4), "float32")
        >>> found = pb.explore(loss, *shapes, apply="grad", compile=False)
        >>> found.data["call"], found.programs["grad"].output_types
        ('grad(loss)', (f32[4,3],))
    """
    check_callable(fun, "explore")
    check_flags("explore", compile=compile, values=values, profile=profile, watch=watch)
    if title is not None and not isinstance(title, str):
        raise TypeError(f"explore's title must be a string, but got {brief(title)}.")
    _check_no_type_is_text(fun, args, kwargs)
    if watch:
        return _watched(fun, args, kwargs, apply=apply, compile=compile, values=values, profile=profile, title=title)
    name = name_of(fun)
    call = f"jit({name})" if isinstance(fun, Jitted) else name
    for one in transformations(apply):
        call = f"{one.name}({call})"
    page = PageData(title or name, call, running_source(), start_of(fun))
    stages = program_stages(fun, args, kwargs, apply)
    page.add_source(_lines_of(stages, page))
    alive = {one.id for one in equations_of(drop_dead_code(stages[0].program))}
    dead = frozenset([one.id for one in equations_of(stages[0].program)]) - alive
    with _collector_paused():
        for stage in stages:
            made = add_stage(page, stage, dead if stage.id == "base" else frozenset())
            made["deltas"] = describe_stage(page, stage, made)
    last = stages[-1]
    note_left_out(page, last.of, last.program)
    if values:
        add_values(page, stages, fun, args, kwargs, apply)
    if compile:
        _compiled(page, last)
    if profile:
        add_times(page, last, concrete_call(fun, args, kwargs, apply).leaves)
    for stage in page.data["stages"]:
        stage.pop("inputs", None)
    return Explorer(page.data, {stage.id: stage.program for stage in stages})


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """No garbage is collected meanwhile: rows are made by the hundred thousand, and all of them stay; to look through them
    again and again would take as long as to make them."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _check_no_type_is_text(fun: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Raise where a type is written as the command line has it: here a text is an argument, which the function would get."""
    trees = kind_of(fun)
    for leaf, path in zip(trees.flatten((tuple(args), kwargs))[0], call_paths(fun, args, kwargs, trees), strict=True):
        found = _TYPE_AS_TEXT.fullmatch(leaf) if isinstance(leaf, str) else None
        if found is not None and found[1] in BY_SHORT_NAME:
            shape = tuple([int(size) for size in found[2].split(",") if size.strip()])
            raise LeafError(
                f"explore: argument {path} is the text {leaf!r}, which stands for an array on the command line alone. Pass"
                f" pb.ArrayType({shape}, {BY_SHORT_NAME[found[1]].name!r}), or an array."
            )


def _watched(fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any], **options: Any) -> Explorer:
    """Serve the page until Ctrl-C, and give the newest one."""
    file, load = reloaded(fun)
    made: list[Explorer] = []

    def make() -> str:
        made[:] = [explore(load(), *args, **options, **kwargs)]
        return made[0].html

    with contextlib.suppress(KeyboardInterrupt):
        watch_files(make, lambda: [file], print)
    return made[0] if made else explore(fun, *args, **options, **kwargs)  # which raises what went wrong


def _compiled(page: PageData, stage: ProgramStage) -> None:
    """Add what the compiler makes of a stage; where it cannot be compiled, say so in that stage."""
    count = len(page.data["stages"])
    try:
        add_compiled(page, stage.program, stage.id)
    except (PullbackError, NotImplementedError) as error:
        del page.data["stages"][count:]
        page.data["stages"][-1]["deltas"].append(f"It cannot be compiled here: {error}")


def _lines_of(stages: Sequence[ProgramStage], page: PageData) -> list[Source]:
    """The lines that equations of any stage come from; those that transformations add by themselves come from none. Where there
    are no lines, as of a function that returns its argument, the one where it begins."""
    found: dict[Source | None, None] = {}
    for stage in stages:
        equations = [one for part in stage.parts for one in equations_of(part.program)]
        own = [one.source for one in equations if not (stage.of and page.lines.is_outside(one.source))]
        found |= dict.fromkeys(map(page.lines.inside, own))
    return [source for source in (found or {page.lines.entry: None}) if source is not None]


def equations_of(program: Program) -> Iterator[Equation]:
    """The equations of a Program and of those that it holds."""
    for equation in program.equations:
        yield equation
        for inner in programs_in(equation.params):
            yield from equations_of(inner)
