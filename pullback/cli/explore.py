"""`python -m pullback explore FILE.py:FUNCTION TYPE ...`: a page that shows what transformations do to the user's function."""

from __future__ import annotations

import sys
import traceback
from argparse import ArgumentParser, Namespace
from pathlib import Path

from pullback.cli.asked import APPLYING, add_color, asked
from pullback.cli.asked import add_options as add_asked
from pullback.cli.functions import UserError, imported_from
from pullback.cli.terminal import UsageError, use_color
from pullback.cli.values import VALUES, example_arguments
from pullback.explorer.explorer import Explorer, explore
from pullback.explorer.watching import watch

HELP = """\
Write a page that shows, side by side, a function of yours, its Program, and
what each transformation made of it: one file, which opens without a network.
The function is traced, so it needs no data; --values and --profile run it, on
numbers that are made up.
"""
EXAMPLES = f"""\
{APPLYING}

examples:
  python -m pullback explore model.py:loss 'f32[64,10]' --apply grad,vmap --out page.html
  python -m pullback explore model.py:loss 'f32[10]' --apply grad --text base,grad
  python -m pullback explore model.py:loss 'f32[10]' --apply grad --values zeros
  python -m pullback explore model.py:loss 'f32[10]' --apply grad,jit --watch
"""


LAST_PORT = 65535


def add_options(look: ArgumentParser) -> None:
    """What the command takes."""
    look.set_defaults(run=show)
    add_asked(look)
    add_color(look)
    look.add_argument("--out", metavar="FILE", help="the page to write (by default FUNCTION.html)")
    look.add_argument("--text", metavar="STAGES", help="print these stages, as in base,grad, or 'summary', and write no page")
    look.add_argument("--no-compile", action="store_true", help="leave out StableHLO and what XLA makes of it, which take time")
    look.add_argument("--values", choices=VALUES, help="run each stage on such numbers, and show its values and the first NaN")
    look.add_argument("--profile", action="store_true", help="run it, and show how long its operations take: a flame graph")
    look.add_argument("--watch", action="store_true", help="serve the page on 127.0.0.1, and make it anew when FILE is saved")
    look.add_argument("--port", type=int, default=0, metavar="N", help="the port for --watch (by default one that is free)")


def show(options: Namespace) -> None:
    """Write, print or serve the page that the options of the `explore` command ask for.

    Arguments:
        options: those of `asked.add_options` and `asked.add_color`, `out`, `text`, `values` (texts, or None), `no_compile`,
            `profile`, `watch`, and `port`.

    Raises:
        UsageError: something in the options is wrong, or the page cannot be written.
        UserError: the user's function raised an exception.
    """
    if options.watch and (options.text or options.out):
        raise UsageError("--watch serves a page: it goes with neither --out nor --text.")
    if options.port and not options.watch:
        raise UsageError("--port goes with --watch: give both, or leave it out.")
    if not 0 <= options.port <= LAST_PORT:
        raise UsageError(f"--port takes a number from 1 to {LAST_PORT}, not {options.port}; leave it out for one that is free.")
    if options.watch:
        _watch(options)
        return
    found = _explored(options)
    if options.text:
        stages = [] if options.text == "summary" else [id.strip() for id in options.text.split(",")]
        try:
            found.show(*stages, color=use_color(options.color))
        except ValueError as error:
            raise UsageError(f"--text {options.text}: {error}") from None
        return
    out = options.out or f"{options.function.rpartition(':')[2]}.html"
    try:
        written = found.save(out)
    except OSError as error:
        raise UsageError(f"--out {out}: the page cannot be written: {error.strerror or error}. Choose another file.") from None
    print(repr(found))
    print(f"\n{written}: {written.stat().st_size / 1e6:.1f} MB; open it in a browser.")


def _explored(options: Namespace) -> Explorer:
    with asked(options) as found:
        name = options.function.rpartition(":")[2]
        runs = {"values": bool(options.values), "profile": options.profile}
        args = example_arguments(found.types, options.values or "normal", 0) if any(runs.values()) else found.types
        return explore(found.function, *args, apply=found.applied, compile=not options.no_compile, title=name, **runs)


def _watch(options: Namespace) -> None:
    """Serve the page; the user's file, and its neighbours that it imports, are run anew each time."""
    before = set(sys.modules)
    file = options.function.rpartition(":")[0]
    folder, _ = imported_from(Path(file))
    used = {file}

    def make() -> str:
        neighbours = [name for name in sys.modules if name not in before and _is_in(folder, _file_of(name))]
        for name in neighbours:
            del sys.modules[name]
        failed: BaseException | None = None
        try:
            return _explored(options).html
        except UserError as error:
            failed = error.__cause__ or error
        except UsageError as error:  # the file is gone, or the function has another name
            failed = error.with_traceback(None)
        finally:
            loaded = [_file_of(name) for name in sys.modules if name not in before]
            used.update([one for one in [*loaded, *_files_of(failed)] if _is_in(folder, one)])
        raise failed  # the user's own exception, as it was

    try:
        watch(make, lambda: sorted(used), print, options.port)
    except OSError as error:
        raise UsageError(f"--port {options.port}: {error.strerror or error}. Choose another port, or leave it out.") from None


def _files_of(error: BaseException | None) -> list[str]:
    """The files that an exception came through: a module that failed is in no list of those that are there."""
    if error is None:
        return []
    read = [error.filename] if isinstance(error, SyntaxError) and error.filename else []
    return [*read, *[frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]]


def _file_of(name: str) -> str:
    return str(getattr(sys.modules[name], "__file__", None) or "")


def _is_in(folder: str, file: str) -> bool:
    return bool(file) and Path(file).resolve().is_relative_to(folder) and "site-packages" not in file
