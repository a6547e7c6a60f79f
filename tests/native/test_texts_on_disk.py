"""Texts of kernels on disk: who finds which, and that nothing is found for what would be written otherwise."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handwritten_kernels import needs_entry

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.native import build, kept
from pullback.native.compile import Target, host
from pullback.native.graph import Graph
from pullback.native.record import record

pytestmark = needs_entry
OTHER = Target("x86_64-unknown-linux-gnu", "x86-64-v2")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kept, "LEAST", 0)
    kept.sources.cache_clear()
    yield
    kept.sources.cache_clear()


def graph_of(function: Any, *types: pb.ArrayType) -> Graph:
    return record(pb.jit(function).trace(*types).program)


def scaled(rule: Any) -> Any:
    """A user's primitive, of one name, with this rule."""

    @pb.primitive
    class scaled_by_rule:
        elementwise = True

        def result_type(x: Any) -> Any:  # type: ignore[misc]
            return x

        def evaluate(x: Any) -> Any:  # type: ignore[misc]
            return x

        def lower(write: Any, x: Any) -> Any:  # type: ignore[misc]
            return rule(write, x)

    return scaled_by_rule


VECTOR, MATRIX = pb.ArrayType((8,), "float32"), pb.ArrayType((8, 8), "float32")
TABLE, OTHER_TABLE = np.arange(8, dtype=np.float32), np.arange(8, dtype=np.float32)[::-1].copy()
UNLIKE = {
    "add": (lambda x: x + 1.0, VECTOR),
    "subtract": (lambda x: x - 1.0, VECTOR),
    "another number": (lambda x: x + 2.0, VECTOR),
    "zero": (lambda x: lax.add(x, pnp.full(8, 0.0, "float32")), VECTOR),
    "minus zero": (lambda x: lax.add(x, pnp.full(8, -0.0, "float32")), VECTOR),
    "another shape": (lambda x: x + 1.0, pb.ArrayType((9,), "float32")),
    "another dtype": (lambda x: x + 1.0, pb.ArrayType((8,), "float64")),
    "a table": (lambda x: x + TABLE, VECTOR),
    "another table": (lambda x: x + OTHER_TABLE, VECTOR),
    "sum of rows": (lambda x: pnp.sum(x, 1), MATRIX),
    "sum of columns": (lambda x: pnp.sum(x, 0), MATRIX),
    "largest": (lambda x: pnp.max(x, 1), MATRIX),
    "results in order": (lambda x: (x + 1.0, x * 2.0), VECTOR),
    "results the other way round": (lambda x: (x * 2.0, x + 1.0), VECTOR),
    "result twice": (lambda x: (x + 1.0, x + 1.0), VECTOR),
    "loop": (lambda x: lax.fori_loop(0, 100, lambda i, x: pnp.sin(x), x), VECTOR),
    "longer loop": (lambda x: lax.fori_loop(0, 101, lambda i, x: pnp.sin(x), x), VECTOR),
    "loop of another step": (lambda x: lax.fori_loop(0, 100, lambda i, x: pnp.cos(x), x), VECTOR),
    "rule": (scaled(lambda write, x: write.elementwise("stablehlo.abs", x)), VECTOR),
    "the rule, changed": (scaled(lambda write, x: write.elementwise("stablehlo.negate", x)), VECTOR),
}


def test_no_two_programs_share_a_key() -> None:
    keys = {name: kept.key(graph_of(function, *types), host()) for name, (function, *types) in UNLIKE.items()}
    assert None not in keys.values()
    same = [pair for pair in itertools.combinations(keys, 2) if keys[pair[0]] == keys[pair[1]]]
    assert same == []
    again = {name: kept.key(graph_of(function, *types), host()) for name, (function, *types) in UNLIKE.items()}
    assert again == keys


@pytest.mark.parametrize("name", UNLIKE)
def test_what_is_read_is_what_was_written(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, *types = UNLIKE[name]
    program = pb.jit(function).trace(*types).program
    written = build.build(program, record(program), host())
    monkeypatch.setattr(build, "_written", None)
    read = build.build(program, record(program), host())
    fields = ("source", "inputs", "outputs", "workspace", "blocks", "weight", "by_rows")
    assert [getattr(read, field) for field in fields] == [getattr(written, field) for field in fields]
    for a, b in zip(read.constants, written.constants, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_parameter_is_more_than_how_it_looks() -> None:
    """Numbers of other types, and arrays of other dtypes, are other parameters."""
    values = [1, 1.0, True, "1", np.int32(1), np.int64(1), np.array(1), np.array([1]), (1,), [1], None, b"1", -0.0, 0.0]
    graph = graph_of(lambda x: x + 1.0, VECTOR)
    keys = set()
    for value in values:
        graph.nodes[0].params = {"x": value}
        keys.add(kept.key(graph, host()))
    assert len(keys) == len(values) and None not in keys


def test_the_processor_and_the_sources_are_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(lambda x: x + 1.0, VECTOR)
    keys = {kept.key(graph, host()), kept.key(graph, OTHER)}
    source = tmp_path / "writer.py"
    source.write_text("# another one\n")
    os.utime(source, (0, 0))
    monkeypatch.setattr(kept, "_IMPORTED", source.stat().st_ctime + 5.0)
    monkeypatch.setattr(kept.writer, "__file__", str(source))
    kept.sources.cache_clear()
    keys.add(kept.key(graph, host()))
    monkeypatch.setattr(kept, "FORMAT", "another")
    kept.sources.cache_clear()
    keys.add(kept.key(graph, host()))
    assert len(keys) == 4 and None not in keys


def test_sources_that_were_changed_since_they_were_imported_have_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_IMPORTED", Path(kept.__file__).stat().st_ctime)
    assert kept.sources() is None
    assert kept.key(graph_of(lambda x: x + 1.0, VECTOR), host()) is None


def test_sources_that_are_no_files_have_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept.writer, "__file__", "/nowhere.zip/writer.py")
    assert kept.sources() is None


def test_what_cannot_be_told_is_not_kept() -> None:
    graph = graph_of(lambda x: x + 1.0, VECTOR)
    for odd in (object(), len, {"inner": (1, {2})}, np.array([None])):
        graph.nodes[0].params = {"x": odd}
        assert kept.key(graph, host()) is None
    large = np.zeros(kept.MOST_CONSTANTS // 4 + 1, np.float32)
    large[0] = 1.0
    assert kept.key(graph_of(lambda x: x + large, pb.ArrayType(large.shape, "float32")), host()) is None


def test_without_a_folder_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULLBACK_CACHE_DIR", "")
    assert kept.key(graph_of(lambda x: x + 1.0, VECTOR), host()) is None


def test_short_texts_are_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "LEAST", 1 << 20)
    graph = graph_of(lambda x: x + 1.0, VECTOR)
    key = kept.key(graph, host())
    kept.write(key, kept.Text("short", 0, 1.0))
    assert kept.read(key) is None


def test_another_process_reads_it() -> None:
    program = """
import pullback as pb, pullback.numpy as pnp
from pullback import lax
from pullback.native import build, kept
kept.LEAST = 0
written, build._written = build._written, lambda *args: print("written") or written(*args)
f = pb.jit(lambda x: lax.fori_loop(0, 20, lambda i, x: pnp.sin(x), x))
print(float(f(1.0)))
"""
    outs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split() for _ in "12"
    ]
    assert outs[0] == ["written", outs[1][0]] and len(outs[1]) == 1
