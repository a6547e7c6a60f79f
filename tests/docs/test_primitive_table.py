"""The table of primitives says of each what its rules do; whether it is up to date, tests/test_reference.py asks."""

from __future__ import annotations

import re

import numpy as np
import primitive_table as table
import pytest
from prose import prose

import pullback as pb
from pullback.core.array import as_array
from pullback.core.dtypes import is_inexact

PRIMITIVES = {p.name: p for p in table.primitives()}
ROWS = {
    row[1].strip("`"): row[3:-1]
    for line in table.page(prose).splitlines()
    if line.startswith("| `") and (row := re.split(r"(?<!\\) ?\| ?", line))
}


def cells(name: str) -> dict[str, str]:
    return dict(zip(table.COLUMNS, ROWS[name], strict=True))


def test_every_primitive_has_its_row() -> None:
    assert set(ROWS) == set(PRIMITIVES)
    assert set(pb.export.primitives()) <= set(ROWS)
    assert {p.name for p in pb.testing.all_primitives()} <= set(ROWS)


@pytest.mark.parametrize(
    "name, said",
    [
        ("sin", dict(takes="`fc`", forward="**partials**", reverse="*partials*", batches="Elementwise", Taylor="*derivative*")),
        ("mul", dict(forward="**partials**; *bilinear*", reverse="**transpose**; *partials*", Taylor="*Leibniz*")),
        ("reshape", dict(forward="*linear*", reverse="**transpose**", batches="**own**", Taylor="*linear*", operations="0")),
        ("select", dict(forward="*linear in on_true, on_false*", compiles="**own**")),
        ("floor", dict(forward="partials of Step")),
        ("det", dict(computes="**own**", compiles="*expand*", forward="**jvp**", reverse="*jvp*", batches="OfMatrices")),
        ("cond", dict(forward="jvp of Holder; linearize of Holder", batches="**own**")),
        ("eq", dict(forward="", reverse="", Taylor="", also="no derivative: the results are no floats, `sparsity`")),
        ("psum", dict(also="`across`, axes named by `axis_name`")),
        ("io_callback", dict(also="effect: io")),
    ],
)
def test_what_rows_say(name: str, said: dict[str, str]) -> None:
    assert said.items() <= cells(name).items(), cells(name)


@pytest.mark.parametrize("name", sorted(name for name, p in PRIMITIVES.items() if p.samples is not None))
def test_who_has_a_derivative(name: str) -> None:
    """By trying it: where the row has no rule, forward mode of a float operand is refused, or its tangent is zero."""
    p = PRIMITIVES[name]
    if cells(name)["forward"] or name in ("draw", "bitcast_convert_type"):
        return
    for args, params in p.samples(np.random.default_rng(0)):
        arrays = [as_array(np.asarray(arg) if isinstance(arg, float) else arg) for arg in args]
        floats = [i for i, array in enumerate(arrays) if is_inexact(array.dtype)]
        if not floats or not set("fc") & set(p.kinds):
            continue

        def apply(*xs, p=p, params=params, arrays=arrays, floats=floats):
            given = dict(zip(floats, xs))
            return p(*[given.get(i, array) for i, array in enumerate(arrays)], **params)

        primals = [arrays[i] for i in floats]
        if "the results are no floats" in cells(name)["also"] or "integers" in cells(name)["also"]:
            _, tangents = pb.jvp(apply, primals, primals)
            assert all(not is_inexact(t.dtype) for t in pb.tree.leaves(tangents))
        else:
            with pytest.raises(pb.errors.MissingRule):
                pb.jvp(apply, primals, primals)


def test_every_reason_is_needed() -> None:
    assert [name for name in table.WITHOUT if table.forward(PRIMITIVES[name])] == []


def test_a_primitive_without_a_reason_is_an_error() -> None:
    nameless = pb.Primitive("nameless", evaluate=np.sin, result_type=lambda x: x)
    nameless.define("samples", lambda rng: [((rng.normal(size=3),), {})])
    with pytest.raises(ValueError, match="nameless has no derivative"):
        table.why_missing(nameless)


def test_families() -> None:
    @pb.primitive
    class double(pb.Elementwise):
        def evaluate(x):
            return 2 * x

        def partials(out, x):
            return (2.0,)

    assert double.families["vectorize"] == "Elementwise"
    assert not {"evaluate", "partials"} & set(double.families)
    double.define("vectorize", lambda size, args, axes: (double(*args), 0))
    assert "vectorize" not in double.families
    assert pb.Primitive("nothing").families == {}
