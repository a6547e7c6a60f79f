"""Figures of tables: in the unit that they have once they are rounded, and close to what they stand for."""

from __future__ import annotations

import re

import hypothesis.strategies as st
from hypothesis import given

from pullback.analysis.tables import count, duration, size
from pullback.program.printing import byte_size

UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "s": 1.0, "ms": 1e-3, "us": 1e-6}


def value(text: str) -> float:
    """What a figure says: a number without an exponent, and a unit."""
    found = re.fullmatch(r"([\d,]+(?:\.\d+)?) ?(k|M|G|T|P|s|ms|us|)B?", text)
    assert found is not None, text
    return float(found[1].replace(",", "")) * UNITS[found[2]]


def close(text: str, number: float, digits: float) -> bool:
    return abs(value(text) - number) <= digits * number


@given(st.one_of(st.integers(1, 10**17), st.floats(1e-3, 1e17)))
def test_counts_and_sizes(number: float) -> None:
    assert close(count(number), number, 0.00501) and close(size(number), number, 0.00501)


@given(st.floats(1e-6, 1e6))
def test_times(number: float) -> None:
    assert close(duration(number), number, 0.00501)


@given(st.integers(50, 999_000_000_000))
def test_bytes_of_programs(number: int) -> None:
    assert close(byte_size(number), number, 0.0501)


def test_numbers_that_belong_to_the_next_unit_once_they_are_rounded() -> None:
    assert [count(number) for number in (999_499, 999_500, 999_600_000, 999.9)] == ["999 k", "1 M", "1 G", "1,000"]
    assert [duration(number) for number in (999.6e-6, 0.9996, 1234.0)] == ["1 ms", "1 s", "1,234 s"]
    assert [byte_size(number) for number in (999, 999_940, 999_960)] == ["999 B", "999.9 kB", "1.0 MB"]
