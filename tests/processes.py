"""Scripts in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys


def run(script: str, *flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What became of a script that ran with these flags of Python's, and these variables besides our own."""
    given = {**os.environ, **environment}
    return subprocess.run([sys.executable, *flags, "-c", script], env=given, capture_output=True, text=True, timeout=300)
