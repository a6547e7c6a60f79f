"""Puts the folders on the path whose programs and generators the tests here use."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / folder) for folder in ("benchmarks", "tests/control", "tests/differential")]
