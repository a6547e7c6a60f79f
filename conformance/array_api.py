"""Run the Array API standard's test suite against `pullback.numpy`.

    python conformance/array_api.py PATH [pytest arguments]

PATH is a checkout of https://github.com/data-apis/array-api-tests with its submodule `array-api`, whose requirements
(hypothesis, ndindex, pytest-json-report) are installed. Arguments for pytest may be a part of the suite, and the number of
examples for each test: `array_api_tests/test_signatures.py --max-examples=20`. `skips.txt` beside this file lists the tests
that are skipped, each after the reason.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSION = "2024.12"


def main(checkout: str, *arguments: str) -> int:
    """Run pytest in the checkout; its exit status."""
    environment = {
        **os.environ,
        "ARRAY_API_TESTS_MODULE": "pullback.numpy",
        "ARRAY_API_TESTS_VERSION": VERSION,
        "PYTHONPATH": os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")]),
    }
    options = ["-p", "no:cacheprovider", "--disable-deadline", f"--skips-file={HERE / 'skips.txt'}"]
    return subprocess.call([sys.executable, "-m", "pytest", *options, *arguments], cwd=checkout, env=environment)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
