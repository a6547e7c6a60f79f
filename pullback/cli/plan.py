"""`python -m pullback plan FILE.py:FUNCTION --mesh data=32,model=8 --for h100 --arg TYPE ...`: what a step takes there.

Types are written as for `xpr`, with a sharding behind `@`, and the mesh axes by name: `f32[64,10]@data` divides the first axis,
`f32[64,10]@(·,model)` the second, `f32[64,10]@((data,model),·)` the first along two axes of the mesh.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

import pullback as pb
from pullback.cli.asked import add_options as add_asked
from pullback.cli.asked import transformed
from pullback.cli.terminal import UsageError, one_line, suggestion
from pullback.cli.types import parse_type
from pullback.engine.topologies import TARGETS
from pullback.parallel.planning import DEFAULT_LINKS, link_speed

HELP = """\
Compile a step of yours for many devices that need not be there, and print what it
takes: memory of each device, communication, seconds at the speed of a link.
"""
EXAMPLES = """\
arguments: a type, and how it is divided among the devices
  f32[64,10]                 whole on each device
  f32[64,10]@data            its first axis along the mesh's axis data
  f32[64,10]@(·,model)       its second axis along model (_ or None stand for · too)
  f32[64,10]@((data,model),·)  its first axis along both
  {w: f32[10,4]@(·,model), b: f32[4]}   a dict, as for xpr
Quote each, since brackets mean something to the shell.

examples:
  python -m pullback plan model.py:step --mesh data=32,model=8 --for h100 \\
      --arg '{w: f32[4096,16384]@(·,model)}' --arg 'f32[512,4096]@data'
  python -m pullback plan model.py:step --mesh data=256 --for tpu-v5e --arg ... --link 200Gbit/s
"""


def add_options(look: ArgumentParser) -> None:
    """What the command takes."""
    look.set_defaults(run=show)
    add_asked(look)
    look.add_argument("--mesh", required=True, metavar="NAME=SIZE,...", help="the axes of the mesh, as in data=32,model=8")
    look.add_argument("--for", dest="target", default="h100", metavar="DEVICE", help=f"one of {', '.join(TARGETS)}")
    look.add_argument("--arg", action="append", default=[], metavar="TYPE", help="the type of a further argument")
    look.add_argument("--link", action="append", default=[], metavar="SPEED", help="how fast each device sends, as 400Gbit/s")
    look.add_argument("--donate", default="", metavar="N", help="arguments that results may overwrite, as in 0 or 0,1")
    look.add_argument("--brief", action="store_true", help="leave the Program out")


def show(options: Namespace) -> None:
    """Print what the options of the `plan` command ask for.

    Arguments:
        options: those of `asked.add_options`, `mesh`, `target`, `donate` (texts), `arg`, `link` (lists of texts), and `brief`.

    Raises:
        UsageError: something in the options is wrong.
        UserError: the user's function raised an exception.
    """
    if options.target not in TARGETS:
        known = suggestion(options.target, TARGETS) or f" There are {', '.join(TARGETS)}."
        raise UsageError(f"--for: {options.target!r} is no device that can be planned for.{known}")
    mesh = parse_mesh(options.mesh)
    links = options.link or DEFAULT_LINKS
    donated = _numbers(options.donate)
    try:
        for link in links:
            link_speed(link)
    except ValueError as error:
        raise UsageError(one_line(str(error))) from None
    types = [_type(number, text, mesh) for number, text in enumerate([*options.types, *options.arg])]
    if not all([0 <= number < len(types) for number in donated]):
        raise UsageError(f"--donate {options.donate}: there are {len(types)} arguments, with the numbers from 0.")
    given: dict[str, Any] = {"donate_argnums": donated} if donated else {}
    with transformed(options, types=types) as (function, _):
        made = pb.parallel.plan(function, *types, mesh=mesh, target=options.target, **given)
        print(made.text(links, program=not options.brief))


def parse_mesh(text: str) -> Any:
    """The mesh that a text says: `data=32,model=8`.

    Raises:
        UsageError: it says none.

    Example:
        >>> parse_mesh("data=32,model=8")
        AbstractMesh(data=32, model=8)
    """
    pairs = [part.partition("=") for part in text.split(",")]
    if not all([name.strip().isidentifier() and size.strip().isdecimal() for name, _, size in pairs]):
        raise UsageError(f"--mesh takes names and sizes, as in data=32,model=8, and not {text!r}.")
    try:
        return pb.sharding.AbstractMesh([int(size) for _, _, size in pairs], [name.strip() for name, _, _ in pairs])
    except pb.errors.ShardingError as error:
        raise UsageError(f"--mesh {text}: {one_line(str(error))}") from None


def _type(number: int, text: str, mesh: Any) -> Any:
    try:
        return parse_type(text, mesh)
    except pb.errors.PullbackError as error:
        raise UsageError(f"argument {number}, {text}: {one_line(str(error))}") from None


def _numbers(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(map(str.isdecimal, parts)):
        raise UsageError(f"--donate takes numbers of arguments, as in 0 or 0,1, and not {text!r}.")
    return tuple(map(int, parts))
