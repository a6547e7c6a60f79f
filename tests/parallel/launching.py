"""Scripts that several processes run together."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

HEAD = """\
import os, signal, sys, time
rank = int(os.environ["PULLBACK_PROCESS_ID"])
"""
PULLBACK = "import numpy as np\nimport pullback as pb\nd = pb.distributed\n"


def command(path, script, count, *options):
    """The command line that runs a script in so many processes; pullback is imported where it is used."""
    file = path / "script.py"
    file.write_text(HEAD + (PULLBACK if "d.initialize" in script else "") + textwrap.dedent(script))
    return [sys.executable, "-m", "pullback.launch", "-n", str(count), *options, str(file)]


def environment(**more):
    return {**os.environ, "PYTHONWARNINGS": "error", **more}


def launch(path, script, count, *options, **variables):
    """What became of it; the lines that each process printed are under `by_rank`."""
    line = command(path, script, count, *options)
    found = subprocess.run(line, env=environment(**variables), capture_output=True, text=True, timeout=120)
    found.by_rank = by_rank(found.stdout)
    return found


def by_rank(text):
    lines = {}
    for line in text.splitlines():
        number, _, rest = line.partition("] ")
        lines.setdefault(int(number[1:]), []).append(rest)
    return lines
