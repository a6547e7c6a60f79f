"""Everything that is kept for speed is bounded, and docs/architecture.md says how: each is filled, and counted."""

from __future__ import annotations

import ast
import gc
import pathlib
import re
import weakref
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.api import compiled, dispatch, history, large
from pullback.core import bounded, types, zero
from pullback.core.dtypes import FLOAT32, FLOAT64
from pullback.diagnose.checking import MAX_AROUND
from pullback.diagnose.checks import MAX_MODES
from pullback.engine import backend, cache
from pullback.engine import compile as compiling
from pullback.engine.failures import MAX_WAITING
from pullback.native.choice import native_mode
from pullback.numpy import products
from pullback.ops import literals, scaling
from pullback.program.equation import MAX_DERIVED
from pullback.stablehlo import writer

ROOT = pathlib.Path(pb.__file__).parent
TABLE = (ROOT.parent / "docs" / "architecture.md").read_text()

# Tables whose size the program's text decides, not what it is run on.
DECIDED_BY_THE_TEXT = {
    "api/custom.py:_by_position",
    "api/custom.py:_signature",
    "api/custom.py:_splits",
    "checkpoints/stores.py:package",
    "core/axes.py:_NONE",
    "core/dtypes.py:_join",
    "core/dtypes.py:_upper_bounds",
    "core/execution.py:engine",
    "core/namespaces.py:_opened",
    "core/primitive.py:_linear_flags",
    "core/source.py:_roots",
    "core/source.py:_rules",
    "core/trees.py:_kinds",
    "core/trees.py:_waiting",
    "core/trees.py:_dataclasses",
    "core/trees.py:_nodes",
    "core/trees.py:_told",
    "engine/backend.py:_backends",
    "engine/backend.py:_platforms",
    "engine/jaxlib.py:_loaded",
    "engine/jaxlib.py:_mlir",
    "engine/plugins.py:discover",
    "engine/xla.py:_places",
    "engine/xla.py:_kept",
    "engine/processor.py:processor",
    "native/compile.py:_machine",
    "native/compile.py:host",
    "native/compile.py:unavailable",
    "native/entry.py:_made",
    "native/entry.py:unavailable",
    "native/pool.py:_pools",
    "native/record.py:_parts",
    "numpy/methods.py:_namespace_module",
    "ops/random.py:_fraction",
    "ops/scipy_functions.py:_found",
    "program/provenance.py:_interned",
    "transforms/batch.py:_behind_another",
}
WRITERS = ("stablehlo/writer.py", "engine/lower.py", "native/record.py")
PUBLIC = ("engine", "is_ours", "processor", "discover", "inferred")
EMPTY_CALLS = {
    "dict",
    "set",
    "list",
    "OrderedDict",
    "Bounded",
    "Interned",
    "WeakValueDictionary",
    "WeakSet",
    "WeakKeyDictionary",
    "_UsersFiles",
}


def is_empty(node: ast.AST | None) -> bool:
    """Whether an expression makes an empty container, which something will be put into."""
    if isinstance(node, ast.Dict):
        return not node.keys
    if isinstance(node, ast.List):
        return not node.elts
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func).split(".")[-1]
    return name in EMPTY_CALLS and not (node.args and name in ("dict", "list", "set"))  # those are filled at once


def kept(file: pathlib.Path) -> set[str]:
    """The containers that a module, and the functools caches that functions, keep for as long as the process runs."""
    found = set()
    tree = ast.parse(file.read_text())
    for node in tree.body:
        for target in getattr(node, "targets", [getattr(node, "target", None)]):
            name = ast.unparse(target) if target is not None else ""
            if is_empty(getattr(node, "value", None)) and (name.islower() or name == "_NONE"):
                found.add(name)
            value = getattr(node, "value", None)
            if isinstance(value, ast.Call) and "lru_cache" in ast.unparse(value.func):
                found.add(name)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    top = set(tree.body) | {item for node in tree.body if isinstance(node, ast.ClassDef) for item in node.body}
    for function in functions:
        if function in top and any("cache" in ast.unparse(decorator) for decorator in function.decorator_list):
            found.add(function.name)
        if function.name == "__init__":
            for node in ast.walk(function):
                if isinstance(node, ast.AnnAssign) and is_empty(node.value) and not isinstance(node.value, ast.List):
                    found.add(ast.unparse(node.target).removeprefix("self."))
    return {name for name in found if name.startswith("_") or name in PUBLIC}


FILES = sorted(path for path in ROOT.rglob("*.py") if path.parent.name not in ("cli", "testing", "compat"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_cache_is_in_the_table(file: pathlib.Path) -> None:
    where = str(file.relative_to(ROOT))
    for name in kept(file):
        listed = re.search(rf"^\| `{re.escape(where)}` `{re.escape(name)}` \|", TABLE, re.MULTILINE)
        transient = where in WRITERS and name in ("_constants", "_names", "_parts")  # of one module
        assert listed or transient or f"{where}:{name}" in DECIDED_BY_THE_TEXT, f"{where}: {name} is in no table of caches"


def test_bounded_makes_room() -> None:
    full: list[int] = []
    made: bounded.Bounded[int, int] = bounded.Bounded(3, lambda: full.append(1))
    for number in range(5):
        made[number] = number
    assert dict(made) == {2: 2, 3: 3, 4: 4} and len(full) == 2
    made[3] = 30
    assert made.setdefault(4, 40) == 4 and dict(made) == {2: 2, 3: 30, 4: 4} and len(full) == 2


def fill_signatures(monkeypatch: Any) -> tuple[int, int]:
    monkeypatch.setattr(compiled, "MAX_SIGNATURES", 5)
    traced = []
    function = pb.jit(lambda x, n: traced.append(n) or x * n, static_argnums=1)
    with pytest.warns(RuntimeWarning, match="more than 5 signatures") as caught:
        for number in range(12):
            assert float(function(2.0, number)) == 2.0 * number
    assert len(caught) == 1 and len(traced) == 12 and caught[0].filename == __file__
    assert float(function(2.0, 11)) == 22.0 and len(traced) == 12 and float(function(2.0, 0)) == 0.0 and len(traced) == 13
    return len(function._signatures), 5


def fill_fast_paths(monkeypatch: Any) -> tuple[int, int]:
    function = pb.jit(lambda x: x + x)
    for size in range(20):
        for _ in range(2):  # the second call of a signature makes one
            function(np.ones(size, np.float32))
    return len(function._fast_paths), compiled.MAX_FAST_PATHS


def fill_scalars(monkeypatch: Any) -> tuple[int, int]:
    monkeypatch.setattr(dispatch._scalar_buffers, "limit", 7)
    function = pb.jit(lambda x: x + x)
    for number in range(30):
        assert float(function(number + 0.5)) == 2 * number + 1
    return len(dispatch._scalar_buffers), 7


def fill_executables(monkeypatch: Any) -> tuple[int, int]:
    monkeypatch.setattr(cache, "MAX_IN_MEMORY", 3)
    for number in range(6):
        pb.jit(lambda x, n=number: x * (n + 0.125))(1.0)
    return pb.cache_info().entries, 3


def fill_operations(monkeypatch: Any) -> tuple[int, int]:
    monkeypatch.setattr(compiling._operations, "limit", 2)
    p = pb.Primitive("compiled_when_evaluated", result_type=lambda x: x, lower=lambda write, x: x)
    for size in range(1, 5):
        p(np.ones(size, np.float32))
    return len(compiling._operations), 2


def fill_derived(monkeypatch: Any) -> tuple[int, int]:
    program = pb.xpr(lambda x: x * 2.0, 1.0)
    for number in range(MAX_DERIVED + 50):
        program.memo(number, lambda number=number: number)
    return len(program._memo), MAX_DERIVED


def fill_types_of_back_end(monkeypatch: Any) -> tuple[int, int]:
    there: Any = backend.backend()
    monkeypatch.setattr(there._avals, "limit", 4)
    there._avals.clear()
    function = pb.jit(lambda x: x + x)
    with native_mode("off"):
        for size in range(101, 109):
            assert float(function(np.ones(size, np.float32))[0]) == 2.0
    return len(there._avals), 4


def fill_constants(monkeypatch: Any) -> tuple[int, int]:
    for cached in (scaling._ones, zero._zeros, literals._literals):
        monkeypatch.setattr(cached, "limit", 3)
        cached.clear()
    for size in range(1, 9):
        zero.zeros(types.array_type((size,), FLOAT32))
        scaling.ones(types.array_type((), (FLOAT32, FLOAT64)[size % 2], size % 3 == 0))
        literals.literal_of(size + 0.25, FLOAT32)
    return max(map(len, (scaling._ones, zero._zeros, literals._literals))), 3


def fill_jitted(monkeypatch: Any) -> tuple[int, int]:
    monkeypatch.setattr(history._jitted, "limit", 4)
    for number in range(8):
        names: dict[str, Any] = {}
        exec(f"def f{number}(x): return x + {number}.0", names)
        pb.jit(names[f"f{number}"])(1.0)
    return len(history._jitted), 4


def fill_types(monkeypatch: Any) -> tuple[int, int]:
    """Types that nothing holds are forgotten; those that something holds stay the ones that they are."""
    monkeypatch.setattr(types._recent, "limit", 10)
    held = [pb.ArrayType((size, 5), weak=size % 2 == 0, varying="m" * (size % 3)) for size in range(2000, 2040)]
    gc.collect()
    before = len(types._alive)
    for size in range(2000, 2300):
        pb.ArrayType((size, 7)), pb.ArrayType((size, 7), varying="m")
    again = [pb.ArrayType((size, 5), weak=size % 2 == 0, varying="m" * (size % 3)) for size in range(2000, 2040)]
    assert all(one is other for one, other in zip(held, again, strict=True)) and len(types._recent) == 10
    gc.collect()
    return len(types._alive), before + 10


def fill_tensor_types(monkeypatch: Any) -> tuple[int, int]:
    gc.collect()
    before = len(writer._tensor_types)
    for size in range(1000, 1100):
        writer.TensorType((size,), FLOAT32)
    gc.collect()
    return len(writer._tensor_types), before


FILLED = [value for name, value in sorted(globals().items()) if name.startswith("fill_")]


@pytest.mark.parametrize("fill", FILLED, ids=lambda fill: fill.__name__)
def test_no_cache_exceeds_its_bound(fill: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pb.clear_caches()
    found, limit = fill(monkeypatch)
    assert found <= limit


def test_what_is_forgotten_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signature that made room takes its Program and executable with it."""
    monkeypatch.setattr(compiled, "MAX_SIGNATURES", 2)
    monkeypatch.setattr(cache, "MAX_IN_MEMORY", 2)
    function = pb.jit(lambda x, n: x * (n + 0.375), static_argnums=1)
    programs = []
    with pytest.warns(RuntimeWarning):
        for number in range(8):
            function(1.0, number)
            programs.append(weakref.ref(function._signatures[next(reversed(function._signatures))].program))
    function._fast_paths = []
    gc.collect()
    assert sum([program() is not None for program in programs]) <= 2


def test_bounds_in_the_table_are_those_of_the_code() -> None:
    bounds = {
        "api/compiled.py` `_signatures": compiled.MAX_SIGNATURES,
        "api/dispatch.py` `_scalar_buffers": dispatch._scalar_buffers.limit,
        "api/compiled.py` `_fast_paths": compiled.MAX_FAST_PATHS,
        "api/compiled.py` `_checked": compiled.MAX_CHECKED,
        "api/history.py` `_missed": history.MAX_MISSES,
        "api/history.py` `_jitted": history._jitted.limit,
        "api/large.py` `_noted": large._noted.limit,
        "diagnose/checking.py` `_within": MAX_AROUND,
        "diagnose/checks.py` `modes": MAX_MODES,
        "ops/scaling.py` `_ones": scaling._ones.limit,
        "core/types.py` `_recent": types._recent.limit,
        "core/zero.py` `_zeros": zero._zeros.limit,
        "numpy/products.py` `_step_on_host": products._step_on_host.cache_info().maxsize,
        "numpy/products.py` `_steps": products._steps.cache_info().maxsize,
        "ops/literals.py` `_literals": literals._literals.limit,
        "engine/cache.py` `_memory": cache.MAX_IN_MEMORY,
        "engine/compile.py` `_operations": compiling.MAX_OPERATIONS,
        "engine/failures.py` `_waiting": MAX_WAITING,
        "program/equation.py` `_memo": MAX_DERIVED,
    }
    for which, limit in bounds.items():
        assert re.search(rf"^\| `{re.escape(which)}` \|[^|]*\| {limit} ", TABLE, re.MULTILINE), which
