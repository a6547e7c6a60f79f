"""pb.profile: whose the operations are, and how their times add up. What a clock says is only compared with itself."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.analysis.events import events_of
from pullback.analysis.hlo import operations_of, type_bytes
from pullback.analysis.measuring import Measured, Part
from pullback.analysis.profile import Profile, Timing
from pullback.analysis.tables import duration as in_words
from pullback.engine.jaxlib import profile_data

W = np.linspace(-1.0, 1.0, 40 * 40, dtype=np.float32).reshape(40, 40)
X = np.linspace(0.0, 1.0, 40, dtype=np.float32)


def layer(w: Any, x: Any) -> Any:
    with pb.named_scope("layer"):
        return pnp.tanh(w @ x)


def loss(w: Any, x: Any) -> Any:
    return pnp.sum(layer(w, layer(w, x)) ** 2)


def looping(w: Any, x: Any) -> Any:
    return pb.lax.scan(lambda c, _: (pnp.sin(w @ c), c.sum()), x, None, 7)


def searching(w: Any, x: Any) -> Any:
    return pb.lax.while_loop(lambda c: c.sum() < 50.0, lambda c: c + abs(w @ c) / 100.0 + 0.1, x)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a function": (loss, (W, X)),
    "a gradient": (pb.grad(loss), (W, X)),
    "a batch": (pb.vmap(pb.grad(loss), in_axes=(None, 0)), (W, W)),
    "a loop": (looping, (W, X)),
    "the gradient of a loop": (pb.grad(lambda w, x: looping(w, x)[1].sum()), (W, X)),
    "a loop of an unknown number of steps": (searching, (W, X)),
    "a branch": (lambda w, x: pb.lax.cond(x.sum() > 0, lambda x: pnp.sin(w @ x), lambda x: pnp.cos(x @ w), x), (W, X)),
    "a checkpoint": (pb.grad(pb.remat(loss)), (W, X)),
    "a jitted one with static arguments": (pb.jit(lambda x, n: x**n, static_argnums=1), (X, 3)),
    "one of trees": (lambda tree: {"out": tree["w"] @ tree["x"][0]}, ({"w": W, "x": (X, None)},)),
    "integers": (lambda x: x // 3 + x % 2, (np.arange(50),)),
    "complex numbers": (lambda x: pnp.exp(1j * x) * x, (X,)),
    "half precision": (lambda w: w @ w, (W.astype("float16"),)),
    "random keys": (lambda key: pb.random.normal(key, (20,)), (pb.random.key(0),)),
    "no elements": (lambda x: x * 2.0, (np.zeros((0, 3), np.float32),)),
    "numbers": (lambda x, y: x * y, (2.0, 3)),
    "what calls Python": (lambda x: pb.pure_callback(np.sin, pb.ArrayType((40,), "float32"), x) + 1.0, (X,)),
    "sorting": (lambda w: pnp.sort(w, axis=0), (W,)),
    "linear algebra": (lambda w: pb.linalg.solve(w + 9.0 * pnp.eye(40), w), (W,)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("alone", [False, True])
def test_operations_belong_to_equations(name: str, alone: bool) -> None:
    f, args = CASES[name]
    found = pb.profile(f, *args, runs=2, alone=alone)
    rows = found.rows
    assert found.runs == 2 and found.alone is alone
    assert 0.0 < found.total.min <= found.total.median
    ids = {one.id for one in equations_in(found.program)}
    assert ids.issuperset([id for row in rows for id in row.equations])
    named = [row for row in rows if row.equations]
    assert named or name == "no elements"
    assert all([(row.what in ("unknown", "a copy")) == (not row.equations) for row in rows])
    # most of what is not a copy is known to be somebody's
    copies = sum([row.median for row in rows if row.what == "a copy"])
    unknown = sum([row.median for row in rows if row.what == "unknown"])
    assert name == "no elements" or unknown <= 0.5 * (sum([row.median for row in rows]) - copies)
    if rows:
        assert sum([row.share for row in rows]) == pytest.approx(1.0)
    assert all([0.0 <= row.min <= row.median and row.times >= 0.5 for row in rows])
    here = {row.file for row in named if row.line}
    assert here <= {__file__} and (not named or here)
    assert str(found).startswith(found.program.name) and "<table>" in found._repr_html_()


def equations_in(program: pb.Program) -> list[Any]:
    inner = [one for held in program.subprograms() for one in equations_in(held)]
    return [*program.equations, *inner]


def test_costs_stand_beside_times_and_are_counted_once() -> None:
    for f in (loss, pb.grad(loss), lambda w, x: looping(w, x)[0].sum()):
        found, work = pb.profile(f, W, X, runs=1), pb.cost(f, W, X, backend=False).total.work
        counted = sum([row.flops or 0.0 for row in found.rows])
        assert 0.5 * work <= counted <= work
        alone = pb.profile(f, W, X, runs=1, alone=True)
        assert sum([row.flops for row in alone.rows]) == work
        assert all([row.flops_per_second == row.flops / row.median for row in alone.rows if row.flops])


def test_an_equation_that_several_programs_share_costs_what_it_does_in_all() -> None:
    layer = pb.jit(lambda x: pnp.tanh(x @ x))  # the last tanh is not needed: another Program, of the same product
    f, x = pb.grad(lambda x: pnp.sum(layer(layer(x)))), pnp.ones((64, 64))
    found, work = pb.profile(f, x, runs=1), pb.cost(pb.jit(f), x, backend=False).total.work
    products = [row.flops for row in found.rows if row.flops and "dot_general" in row.what]
    assert 6 * 2 * 64**3 <= sum(products) <= work


def test_what_is_not_known_is_not_claimed() -> None:
    rows = pb.profile(searching, W, X, runs=1).rows
    inner = [row for row in rows if "dot_general" in row.what]
    assert inner and all([row.flops is None and row.flops_per_second is None for row in inner])
    assert all([row.bytes is None for row in rows if row.what == "while_loop" or "lt" in row.what])
    (alone,) = pb.profile(searching, W, X, runs=1, alone=True).rows
    assert alone.what == "while_loop" and alone.flops is None and alone.times == 1


def test_by_line() -> None:
    found = pb.profile(pb.grad(loss), W, X, runs=2)
    lines = found.by("line")
    assert sum([row.share for row in lines.rows]) == pytest.approx(1.0)
    assert sum([row.median for row in lines.rows]) == pytest.approx(sum([row.median for row in found.rows]))
    codes = {row.code for row in lines.rows if row.line}
    assert "return pnp.tanh(w @ x)" in codes
    assert lines.by("operation").rows == found.rows
    with pytest.raises(ValueError, match="'operation', 'line', but got 'scope'"):
        found.by("scope")


def test_a_flame_graph_adds_up() -> None:
    for f in (pb.grad(loss), looping, searching):
        found = pb.profile(f, W, X, runs=2)
        flame = found.flame()
        rows = flame["rows"]
        assert flame["unit"] == "s" and flame["total"] == rows[0]["time"] > 0.0 and rows[0]["depth"] == 0
        assert flame["total"] == pytest.approx(sum([row.median for row in found.rows]))
        for i, row in enumerate(rows):
            behind = rows[i + 1 :]
            end = next((j for j, other in enumerate(behind) if other["depth"] <= row["depth"]), len(behind))
            inside = [other for other in behind[:end] if other["depth"] == row["depth"] + 1]
            assert sum([other["time"] for other in inside]) <= row["time"] * 1.000001
            assert all([set(other["from"]) <= set(row["from"]) for other in inside])
        json.dumps(flame)
    names = [row["name"] for row in pb.profile(pb.grad(loss), W, X, runs=1).flame()["rows"]]
    assert any([name.startswith("layer:") and "in layer  return pnp.tanh(w @ x)" in name for name in names])


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
@pytest.mark.parametrize("alone", [False, True])
def test_a_trace_for_perfetto(name: str, alone: bool, tmp_path: Path) -> None:
    found = pb.profile(loss, W, X, runs=3, alone=alone)
    found.save_perfetto(tmp_path / name)
    data = (tmp_path / name).read_bytes()
    events = json.loads(gzip.decompress(data) if name.endswith(".gz") else data)["traceEvents"]
    ran = [event for event in events if event["ph"] == "X"]
    assert {event["args"]["run"] for event in ran} == {0, 1, 2}
    assert {event["name"] for event in ran} == {row.name for row in found.rows}
    assert any(["return pnp.tanh(w @ x)" in event["args"].get("line", "") for event in ran])
    assert all([event["dur"] >= 0 and event["ts"] >= 0 for event in ran])


def test_arguments_stay_as_they_are_and_effects_happen_each_time() -> None:
    x = pnp.asarray(X)
    found = pb.profile(pb.jit(lambda x: x * 2.0, donate_argnums=0), x, runs=2)
    assert found.by_jit is None and "the time of a call is that of XLA's code, too" in found.text()
    assert float(x.sum()) == pytest.approx(X.sum())
    calls: list[int] = []
    noted = lambda x: pb.debug.callback(lambda _: calls.append(1), x) or x + 1.0  # noqa: E731
    pb.profile(noted, x, runs=3)
    assert len(calls) >= 6


def test_what_jit_runs_with_code_of_our_own_comes_first() -> None:
    found = pb.profile(lambda x: x * 2.0 + 1.0, pnp.ones(8), runs=2)
    title = found.text().split("\n")[0]
    assert found.by_jit is not None and found.by("line").by_jit == found.by_jit
    own, median, least = [in_words(one) for one in (found.by_jit.median, *found.total[::-1])]
    assert title.endswith(
        f": a call takes {own} as jit runs it, with code of pullback's own; with XLA's {median}, {least} at least"
    )
    large = pb.profile(lambda x: pnp.linalg.svd(x)[1], pnp.ones((40, 40)), runs=2)
    assert large.by_jit is None and "pullback's own" not in large.text()


def test_numbers_of_runs() -> None:
    assert pb.profile(loss, W, X).runs == 20
    assert pb.profile(loss, W, X, runs=1).runs == 1


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: pb.profile(3.0), TypeError, "profile takes a function, but got 3.0"),
    (lambda: pb.profile(loss, W, X, runs=0), ValueError, "runs as a number of runs, 1 or more, but got 0"),
    (lambda: pb.profile(loss, W, X, runs=True), ValueError, "but got True"),
    (lambda: pb.profile(loss, W, X, alone=3), TypeError, "alone must be True or False"),
    (
        lambda: pb.profile(loss, pb.ArrayType((3, 3)), X),
        pb.errors.LeafError,
        r"argument w is f32\[3,3\], a type. pb.cost takes",
    ),
    (
        lambda: pb.jit(lambda x: pb.profile(loss, W, x) and x)(X),
        pb.errors.LeafError,
        r"argument x is f32\[40\], a traced value. Call it",
    ),
]


@pytest.mark.parametrize("call, error, says", WRONG)
def test_what_is_wrong_is_said(call: Callable[[], Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call()


def test_one_profile_at_a_time(tmp_path: Path) -> None:
    with pb.profiler.trace(tmp_path), pytest.raises(RuntimeError, match="Another profile is being recorded"):
        pb.profile(loss, W, X, runs=1)
    assert pb.profile(loss, W, X, runs=1).rows


# ---- what XLA writes --------------------------------------------------------------------------------------------------

TEXT = """HloModule pullback_f, is_scheduled=true

%fused (p.0: f32[8,4], p.1: f32[]) -> f32[8,4] {
  %p.0 = f32[8,4]{1,0} parameter(0)
  %p.1 = f32[] parameter(1)
  %b.1 = f32[8,4]{1,0} broadcast(%p.1), dimensions={}, metadata={op_name="mul#7" source_line=3}
  ROOT %m.1 = f32[8,4]{1,0} multiply(%p.0, %b.1), metadata={op_name="layer/\\"odd#1\\"/mul#8"}
}

%reader (p.2: f32[8,4]) -> f32[4,8] {
  %p.2 = f32[8,4]{1,0} parameter(0)
  ROOT %t.1 = f32[4,8]{1,0} bitcast(%p.2), metadata={op_name="dot_general#9"}
}

%body (s: (s32[], f32[100])) -> (s32[], f32[100]) {
  %s = (s32[], f32[100]{0}) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %v = f32[100]{0} get-tuple-element(%s), index=1
  %u = f32[100]{0} dynamic-update-slice(%v, %v, %i), metadata={op_name="scan#5/sin#6"}
  ROOT %r = (s32[], f32[100]{0}) tuple(%i, %u)
}

ENTRY %main (x: f32[8,4], y: f32[]) -> (f32[4,8], f32[100]) {
  %x = f32[8,4]{1,0} parameter(0), metadata={op_name="x"}
  %y = f32[] parameter(1)
  %copy.1 = f32[8,4]{1,0} copy(%x)
  %f.1 = f32[8,4]{1,0:T(8,128)} fusion(%copy.1, %y), kind=kLoop, calls=%fused, metadata={op_name="mul#8"}
  %dot = f32[8,4]{1,0} dot(%f.1, %x), lhs_contracting_dims={1}
  %f.2 = f32[4,8]{1,0} fusion(%dot), kind=kLoop, calls=%reader
  %lost = f32[8,4]{1,0} add(%dot, %x)
  %w.1 = (s32[], /*index=1*/f32[100]{0}) while(%t), condition=%test, body=%body, metadata={op_name="scan#5"}
  %c.1 = (s32[], f32[100]{0}) call(%t), to_apply=%body, metadata={op_name="scan#5"}
  ROOT %out = (f32[4,8]{1,0}, f32[100]{0}) tuple(%f.2, %c.1)
}
"""
OPERATIONS = {
    "f.1": ("fusion", (7, 8), 4 * (32 + 1 + 32)),
    "copy.1": ("copy", (), 256),
    "dot": ("dot", (9,), 3 * 128),
    "f.2": ("fusion", (9,), 256),
    "lost": ("add", (), 3 * 128),
    "u": ("dynamic-update-slice", (6,), None),
    "w.1": ("while", (5,), None),
    "c.1": ("call", (6, 5), None),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_reading_hlo(name: str) -> None:
    found = operations_of(TEXT)[name]
    assert (found.opcode, found.equations, found.bytes) == OPERATIONS[name]


def test_bytes_of_types() -> None:
    types = {"f32[2,3]{1,0}": 24, "pred[]": 1, "(bf16[4], s64[2]{0})": 24, "c128[0,5]": 0, "f8e4m3fn[3]": 3, "token[]": 0}
    assert {text: type_bytes(text) for text in types} == types


def xspace(*events: tuple[int, int, int, str | None, int]) -> bytes:
    """A profile with events of `(thread, start, duration, operation, run)`."""
    names = sorted({name or "other" for *_, name, _ in events})
    numbers = {name: i + 1 for i, name in enumerate(names)}
    lines = ""
    for thread in sorted({event[0] for event in events}):
        rows = ""
        for at, start, duration, name, run in events:
            if at == thread:
                stats = "" if name is None else f'stats {{ metadata_id: 1 str_value: "{name}" }} '
                stats += 'stats { metadata_id: 2 str_value: "m" } ' + f"stats {{ metadata_id: 3 int64_value: {run} }}"
                place = f"metadata_id: {numbers[name or 'other']} offset_ps: {1000 * start} duration_ps: {1000 * duration}"
                rows += f"events {{ {place} {stats} }} "
        lines += f'lines {{ id: {thread} name: "t{thread}" {rows} }} '
    known = "".join([f'event_metadata {{ key: {i} value {{ id: {i} name: "{name}" }} }} ' for name, i in numbers.items()])
    told = ["hlo_op", "hlo_module", "run_id"]
    stats = "".join([f'stat_metadata {{ key: {i} value {{ id: {i} name: "{name}" }} }} ' for i, name in enumerate(told, 1)])
    text = f'planes {{ name: "/host:CPU" {lines} {known} {stats} }}'
    return bytes(profile_data().ProfileData.text_proto_to_serialized_xspace(text))


def test_what_runs_inside_is_not_counted_twice() -> None:
    profile = xspace(
        (1, 100, 50, "while", 7),
        (1, 105, 10, "dot", 7),
        (1, 120, 20, "fusion", 7),
        (1, 122, 5, "inner", 7),
        (1, 150, 5, "dot", 7),
        (2, 110, 30, "dot", 7),
        (1, 300, 9, "dot", 8),
        (1, 400, 9, None, 8),
    )
    found = [(one.name, one.run, one.start, one.duration, one.own) for one in events_of(profile, "m")]
    assert found == [
        ("while", 0, 0, 50, 20), ("dot", 0, 5, 10, 10), ("dot", 0, 10, 30, 30), ("fusion", 0, 20, 20, 15),
        ("inner", 0, 22, 5, 5), ("dot", 0, 50, 5, 5), ("dot", 1, 200, 9, 9),
    ]  # fmt: skip
    assert events_of(profile, "another") == []


def test_medians_and_shares() -> None:
    program = pb.xpr(lambda x: pnp.sin(x) * 2.0, pb.ArrayType((100,)))
    (first, second) = [one.id for one in program.equations]
    parts = (
        Part("a", "fusion", (first, second), 2.0, (1.0, 3.0, 2.0), 800.0),
        Part("b", "sine", (first,), 1.0, (6.0, 6.0, 6.0), None),
        Part("c", "copy", (), 1.0, (0.0, 0.0, 0.0), 800.0),
        Part("d", "add", (10**9,), 1.0, (2.0, 2.0, 2.0), None),
    )
    found = Profile(program, Timing(9.0, 10.0), None, Measured(parts, 3, False, ()), (), "operation")
    rows = {row.name: row for row in found.rows}
    assert [row.name for row in found.rows] == ["b", "a", "d", "c"]
    assert (rows["a"].min, rows["a"].median, rows["a"].share, rows["a"].times) == (1.0, 2.0, 0.2, 2.0)
    assert rows["a"].what == "sin, mul (merged)" and rows["b"].what == "sin"
    assert rows["c"].what == "a copy" and rows["d"].what == "unknown" and rows["d"].equations == ()
    assert rows["a"].flops == 100 and rows["b"].flops == pb.cost(pnp.sin, pb.ArrayType((100,)), backend=False).total.work
    assert rows["c"].flops is None and rows["b"].flops_per_second == rows["b"].flops / 6.0
    assert found.flame()["total"] == 10.0


def test_what_xla_merged_of_two_lines_names_both() -> None:
    def f(x):
        y = pnp.sin(x)
        return y * 2.0

    program = pb.xpr(f, pb.ArrayType((100,)))
    first, second = program.equations
    part = Part("a", "fusion", (first.id, second.id), 1.0, (1.0,), None)
    (table,) = Profile(program, Timing(1.0, 1.0), None, Measured((part,), 1, False, ()), (), "operation").tables()
    lines = [one.source.line for one in (first, second)]
    assert [re.findall(r"test_profile\.py:(\d+)", cell) for cell in table.rows[0] if ".py:" in cell] == [[*map(str, lines)]]
