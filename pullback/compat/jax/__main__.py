"""`python -m pullback.compat.jax program.py ...`, or `-m module ...`: a program that was written for JAX, run on pullback."""

from __future__ import annotations

import os
import runpy
import sys

from pullback.compat.jax.facade import install

USAGE = "usage: python -m pullback.compat.jax program.py [arguments], or -m module [arguments]"


def main() -> None:
    """Run the program that the command line names, with the arguments behind it."""
    arguments = sys.argv[1:]
    by_module = arguments[:1] == ["-m"]
    arguments = arguments[by_module:]
    if not arguments:
        raise SystemExit(USAGE)
    install()
    sys.argv = arguments
    if by_module:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
