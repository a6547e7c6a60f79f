"""`python -m pullback check FILE.py:FUNCTION TYPE ...`: mistakes in the user's function that compute something all the same."""

from __future__ import annotations

import warnings
from argparse import ArgumentParser, Namespace
from typing import Any

import pullback as pb
from pullback.api.compiled import Jitted
from pullback.cli import values
from pullback.cli.asked import APPLYING, transformed
from pullback.cli.asked import add_options as add_asked
from pullback.cli.terminal import Found, UsageError, suggestion
from pullback.diagnose.checking import DEFAULTS

HELP = """\
Run a function of yours, compiled, on numbers that are made up, and tell of mistakes
that raise no error: what it reads besides its arguments, large constants, random
keys that are used twice, arguments that nothing depends on, dtypes that widen, NaN.
The exit code is 0 in any case; with --exit-code it is 1 where one is found.
"""
EXAMPLES = f"""\
{APPLYING}
What is looked for: {", ".join(DEFAULTS)}; docs/checking.md says what each is.

examples:
  python -m pullback check model.py:loss 'f32[10]' 'f32[]' --apply grad
  python -m pullback check model.py:step 'f32[64,10]' 'key<fry>[]' --only purity,keys --exit-code
"""


def add_options(look: ArgumentParser) -> None:
    """What the command takes."""
    look.set_defaults(run=show)
    add_asked(look)
    values.add_options(look)
    look.add_argument("--only", default="", metavar="NAMES", help="look for these alone, as in purity,nan")
    look.add_argument("--exit-code", action="store_true", help="end with 1 where something is found")


def show(options: Namespace) -> None:
    """Do what the options of the `check` command ask for.

    Arguments:
        options: those of `asked.add_options` and `values.add_options`, `only` (a text) and `exit_code`.

    Raises:
        UsageError: something in the options is wrong. UserError: the user's function raised an exception. Found: see there.
    """
    wanted = [name.strip() for name in options.only.split(",")] if options.only else list(DEFAULTS)
    for name in wanted:
        if name not in DEFAULTS:
            raise UsageError(f"--only: {name!r} is none of {', '.join(DEFAULTS)}.{suggestion(name, DEFAULTS)}")
    looked_for: dict[str, Any] = dict.fromkeys(wanted, "warn")
    with transformed(options) as (function, types), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", pb.errors.CheckWarning)
        args = values.made_up(types, options)
        with pb.checking(**looked_for):
            (function if isinstance(function, Jitted) else pb.jit(function))(*args)
    told = [str(one.message) for one in seen if issubclass(one.category, pb.errors.CheckWarning)]
    for other in [one for one in seen if not issubclass(one.category, pb.errors.CheckWarning)]:
        warnings.showwarning(other.message, other.category, other.filename, other.lineno)
    print("\n\n".join(told) if told else f"nothing found of {', '.join(wanted)}")
    if options.exit_code and told:
        raise Found
