"""Prints how many lines of code each subpackage has: `python tests/line_counts.py`."""

from __future__ import annotations

import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from test_layering import FILES, lines_of_code, subpackage_of

counts: collections.Counter[str] = collections.Counter()
files: collections.Counter[str] = collections.Counter()
for file in FILES:
    counts[subpackage_of(file)] += lines_of_code(file.read_text())
    files[subpackage_of(file)] += 1
for subpackage, count in counts.most_common():
    print(f"{subpackage:12} {count:6} lines in {files[subpackage]:3} files")
print(f"{'total':12} {sum(counts.values()):6} lines in {sum(files.values()):3} files")
