"""Numbers of bytes for people are in the unit that they have once they are rounded, and close to what they stand for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pullback.program.printing import byte_size

UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}


@given(st.integers(50, 999_000_000_000))
def test_close_to_the_number_and_less_than_a_thousand(number: int) -> None:
    figure, unit = byte_size(number).split()
    assert abs(float(figure) * UNITS[unit] - number) <= 0.05001 * UNITS[unit] and 1 <= float(figure) < 1000


def test_numbers_that_belong_to_the_next_unit_once_they_are_rounded() -> None:
    assert [byte_size(number) for number in (999, 999_940, 999_960)] == ["999 B", "999.9 kB", "1.0 MB"]
