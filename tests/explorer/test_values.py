"""Values in a page: those that a replay finds, stage by stage, and the first NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_stages import CASES

import pullback as pb
import pullback.numpy as pnp
from pullback.explorer.checked import check_page


def rows_of(found: Any, stage: str) -> list[Any]:
    return next(one["rows"] for one in found.data["stages"] if one["id"] == stage)


@pytest.mark.parametrize("case", CASES)
def test_pages_with_values_hold_what_must_hold(case):
    function, args, apply = CASES[case]
    found = pb.explore(function, *args, apply=apply, values=True, compile=False)
    check_page(found.data)
    with_values = [stage for stage in found.data["stages"] if stage.get("values")]
    assert len(with_values) >= (1 if case == "untransformed" else 2) and all(
        "value" in row for stage in with_values for row in stage["rows"] if row.get("arg")
    )


def test_values_are_those_of_numpy():
    x = np.array([[0.5, -2.0], [3.0, 1.0]], "float32")
    found = pb.explore(lambda x: pnp.sum(pnp.sin(x)), x, values=True, compile=False)
    (sine,) = [row for row in rows_of(found, "base") if row.get("op") == "sin"]
    value, expected = sine["value"], np.sin(x)
    assert (value["count"], value["nan"], value["inf"]) == (4, 0, 0)
    np.testing.assert_allclose(
        [value["min"], value["max"], value["mean"]], [expected.min(), expected.max(), expected.mean()], 1e-6
    )
    np.testing.assert_allclose(value["sample"], expected.ravel(), 1e-6)


def test_the_first_nan_is_found_and_stages_before_vmap_show_its_batch_element():
    def f(x):
        return pnp.sum(pnp.where(x > 0.0, pnp.sqrt(x), 0.0))

    found = pb.explore(f, np.array([[1.0, 4.0], [9.0, 0.0]], "float32"), apply="grad,vmap", values=True, compile=False)
    rows = {row["id"]: row for row in rows_of(found, "vmap")}
    find = found.data["find"]
    assert rows[find["row"]]["op"] == "mul" and rows[find["row"]]["value"]["nan"] == 1
    assert "trap of where" in find["text"]
    (argument,) = [row for row in rows_of(found, "base") if "arg" in row]
    assert argument["value"]["sample"] == [9.0, 0.0]


def test_infinity_is_found_where_there_is_no_nan():
    found = pb.explore(lambda x: 1.0 / x, np.float32(0.0), values=True, compile=False)
    assert "infinity" in found.data["find"]["text"].lower() or "inf" in found.data["find"]["text"]


def test_numbers_that_are_none_have_no_value_but_a_count():
    found = pb.explore(lambda key: pb.random.split(key), pb.random.key(0), values=True, compile=False)
    check_page(found.data)


@pytest.mark.parametrize("apply", ["jvp", "jvp,vmap", "jvp,vmap,jit"])
def test_zeros_of_float0_are_the_tangent_of_an_integer_and_have_no_rows(apply):
    x, number, moved = np.arange(3, dtype="float32"), np.array([2, 3, 4], "int32"), np.ones(3, "float32")
    found = pb.explore(
        lambda x, n: x * n, x, number, moved, np.zeros(3, pb.float0), apply=apply, values=True, profile=True, compile=False
    )
    check_page(found.data)
    rows = rows_of(found, "simplify")
    assert len([row for row in rows if "arg" in row]) == 3
    by_var = {number: row["value"] for row in rows if "op" in row for number in row["out"]}
    value, tangent = [by_var[atom]["sample"] for atom in rows[-1]["ret"]]
    assert (value, tangent) == ([0.0, 3.0, 8.0], [2.0, 3.0, 4.0])


def test_a_type_has_no_values():
    with pytest.raises(pb.errors.LeafError, match=r"argument x is a type, f32\[3\]. Pass an array"):
        pb.explore(lambda x: x * 2.0, pb.ArrayType((3,)), values=True)
