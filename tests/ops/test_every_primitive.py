"""Every primitive's rules agree with each other, on each of its samples."""

import pytest

from pullback.core.primitive import Primitive
from pullback.testing import all_primitives, check_primitive

COLLECTIVES = {"psum", "pmax", "pmin", "axis_index", "all_gather", "ppermute", "all_to_all"}  # tests/ops/test_collective.py


@pytest.mark.parametrize("p", [p for p in all_primitives() if p.name not in COLLECTIVES], ids=lambda p: p.name)
def test_rules_agree(p: Primitive) -> None:
    check_primitive(p)
