"""What must hold of a page's data, each rule broken once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from samples import Data, equation, generated, small

from pullback.core.errors import ProgramError
from pullback.explorer.checked import check_page


def row(data: Data, id_: int) -> Data:
    return next(row for stage in data["stages"] for row in stage["rows"] if row["id"] == id_)


def stage(data: Data, id_: str) -> Data:
    return next(stage for stage in data["stages"] if stage["id"] == id_)


def change(id_: int, **fields: Any) -> Callable[[Data], Any]:
    return lambda data: row(data, id_).update(fields)


def change_stage(id_: str, **fields: Any) -> Callable[[Data], Any]:
    return lambda data: stage(data, id_).update(fields)


def without(id_: int, key: str) -> Callable[[Data], Any]:
    return lambda data: row(data, id_).pop(key)


def swap(data: Data) -> None:
    """A variable is used before it is defined."""
    rows = stage(data, "base")["rows"]
    rows[5], rows[6] = rows[6], rows[5]


def frames(*rows: tuple[str, float, int]) -> Callable[[Data], Any]:
    def changed(data: Data) -> None:
        data["profile"] = {"unit": "s", "total": 1.0, "rows": [{"name": n, "time": t, "depth": d} for n, t, d in rows]}

    return changed


BROKEN: list[tuple[Callable[[Data], Any], str]] = [
    (lambda data: data.update(version=2), "it needs format 'pullback.explorer' and version 1"),
    (lambda data: data.update(format="other"), "it needs format"),
    (lambda data: data.pop("stages"), "'stages' is missing"),
    (lambda data: data.update(colour="red"), "'colour' is not a field of the format; there are "),
    (lambda data: data.update(theme="blue"), "'theme' is not what the format says it is: 'blue'"),
    (lambda data: data["rules"].append({"at": "x"}), "rule 4: 'name' is missing"),
    (lambda data: data["stages"].append(stage(data, "base")), "stage base: its id is that of another stage"),
    (change_stage("base", kind="graph"), "stage base: 'kind' is not what"),
    (change_stage("base", flops=1300), "stage base: its equations take 1201 FLOPs together, and it says 1300"),
    (change_stage("base", peak=[99999, 5000]), "stage base: its peak names row 99999, which is not on the page"),
    (change_stage("base", backend={"speed": 1}), "'speed' is not a field"),
    (change_stage("vmap", vars=[["a", "f32[64]", [1]]] * 11), r"variable a of type f32[64] has batch axes [1]"),
    (change(205, id=204), "row 204: its id is that of another row"),
    (change(205, id=-1), "row -1: 'id' is not what"),
    (change(205, arg="x"), "it should have one of op, arg, ret, text, head; it has op, arg"),
    (without(205, "op"), "it should have one of op, arg, ret, text, head; it has none"),
    (without(205, "out"), "row 205: 'out' is missing"),
    (without(204, "from"), "equation dot_general has no 'from'"),
    (change(204, **{"from": []}), "equation dot_general has no 'from'"),
    (change(204, **{"from": [[31, -1]]}), "'from' names row 31, which is not on the page"),
    (change(204, **{"from": [[305, -1]]}), "it comes from row 305, which stands behind it"),
    (change(204, **{"from": [[204, -1]]}), "it comes from row 204, which stands behind it"),
    (change(204, **{"from": [[105, 9]]}), "'from' names rule 9 of 4"),
    (change(204, **{"from": [105]}), "'from' is not what"),
    (change(204, line=999), "'line' names row 999"),
    (change(312, into=999), "'into' names row 999"),
    (change(311, donated=999), "'donated' names row 999"),
    (change(311, donated=False), "'donated' is not what"),
    (change(204, role="hero"), "'role' is not what"),
    (change(204, text="x = 1"), "it should have one of"),
    (change(502, op="mul", out=[], **{"in": []}), "it should have one of"),
    (change(200, span=30), "it holds 30 rows, of which 22 are beyond the end"),
    (change(408, span=2), "it holds 2 rows, of which 1 are beyond the end"),
    (change(420, count=3), "a repeat of 3 holds 2 rows of head 'copy'"),
    (change(420, span=2), "a repeat of 2 holds 1 rows of head 'copy'"),
    (change(205, out=[40]), "'out' names variable 40, and the stage has 10"),
    (change(205, **{"in": [40]}), "'in' names variable 40, and the stage has 10"),
    (change(205, out=[3]), "variable d has been defined before"),
    (swap, "'in' names variable e before a row defines it"),
    (change(305, kept=[1]), "'kept' names result 1 of 1"),
    (change(205, live=5000), "5000 bytes are live, and the peak of the stage is 120"),
    (change(306, held=121), "121 bytes wait for the backward pass, and 120 are live in all"),
    (change(205, flops=float("nan")), "'flops' is not what"),
    (change(205, flops=True), "'flops' is not what"),
    (change(205, value={"min": 2, "max": 1}), "its least, mean and greatest values are not in order: [2, 1]"),
    (change(205, value={"min": 0, "mean": 5, "max": 1}), "not in order"),
    (change(205, value={"nan": 3, "inf": 8, "count": 10}), "3 values are NaN and 8 infinite, of 10"),
    (change(205, value=[{"min": 0}, None]), "it has 2 values of 1 results"),
    (change(205, value={"median": 0}), "'median' is not a field"),
    (change(205, value={"sample": ["?"]}), "'sample' is not what"),
    (lambda data: data["find"].update(row=999), "find: it names row 999"),
    (lambda data: data["find"].pop("text"), "'text' is missing"),
    (lambda data: data["profile"].update(unit="ms"), "'unit' is not what"),
    (frames(("f", 0.5, 1)), "profile, row 0: its depth is 1, and that of the row before it -1"),
    (frames(("f", 0.5, 0), ("g", 0.4, 1), ("h", 0.2, 1)), "what stands in the same frame takes 0.1 s more than that frame"),
    (frames(("f", 0.5, 0), ("g", 0.6, 0)), "takes 0.1 s more"),
    (lambda data: data["profile"]["rows"][1].update({"from": [1]}), "profile, row 1: 'from' names row 1"),
    (lambda data: stage(data, "source")["rows"].append(equation(1, "mul", [], [], "primal", 101)), "does not belong"),
]  # fmt: skip


@pytest.mark.parametrize(("broken", "message"), BROKEN, ids=[message[:60] for _, message in BROKEN])
def test_each_rule_is_checked(broken: Callable[[Data], Any], message: str) -> None:
    data = small()
    broken(data)
    with pytest.raises(ProgramError, match=re.escape(message)):
        check_page(data)


@pytest.mark.parametrize(
    "data", [small(), generated(0), generated(1), generated(41), generated(500)], ids=lambda data: data["title"]
)
def test_good_data_pass(data: Data) -> None:
    check_page(data)


@pytest.mark.parametrize("data", [None, [], "text", 3])
def test_other_things_are_no_data(data: Any) -> None:
    with pytest.raises(ProgramError, match="it needs format"):
        check_page(data)
