"""Prints how many lines of code each room has: `python tests/line_counts.py`."""

from __future__ import annotations

import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from test_layering import FILES, lines_of_code, room_of

counts: collections.Counter[str] = collections.Counter()
files: collections.Counter[str] = collections.Counter()
for file in FILES:
    counts[room_of(file)] += lines_of_code(file.read_text())
    files[room_of(file)] += 1
for room, count in counts.most_common():
    print(f"{room:12} {count:6} lines in {files[room]:3} files")
print(f"{'total':12} {sum(counts.values()):6} lines in {sum(files.values()):3} files")
