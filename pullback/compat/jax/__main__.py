"""`python -m pullback.compat.jax program.py ...`, or `-m module ...`: a program that was written for JAX, run on pullback."""

from __future__ import annotations

import os
import runpy
import sys
from multiprocessing import spawn
from types import TracebackType
from typing import Any

from pullback.compat.jax.facade import install

USAGE = "usage: python -m pullback.compat.jax program.py [arguments], or -m module [arguments]"


def main() -> None:
    """Run the program that the command line names, with the arguments behind it."""
    arguments = sys.argv[1:]
    by_module = arguments[:1] == ["-m"]
    arguments = arguments[by_module:]
    if arguments[:1] in (["-h"], ["--help"]) and not by_module:
        print(USAGE, __doc__, sep="\n\n")
        return
    if not arguments:
        raise SystemExit(USAGE)
    if not by_module and not os.path.exists(arguments[0]):
        raise SystemExit(f"There is no file {arguments[0]!r} in {os.getcwd()}.\n{USAGE}")
    sys.excepthook = show
    install()
    spawn.get_preparation_data = _told_to_children
    sys.argv = arguments
    if by_module:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


class _Install:
    """A process that takes this out of a pickle has pullback in the place of JAX from then on."""

    def __reduce__(self) -> Any:
        return install, ()


_told_at_first = spawn.get_preparation_data


def _told_to_children(name: str) -> dict[str, Any]:
    """What multiprocessing tells a process that it starts anew, before that one imports the program."""
    return {**_told_at_first(name), "jax": _Install()}


def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Show an error of the program as Python does where it runs the program itself: from the program's first frame on."""
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


if __name__ == "__main__":
    main()
