"""Texts of kernels on disk: what was written of a graph once is read by the next process, in a tenth of the time.

Their key is a digest of all that a text depends on. That is the graph, which holds what the rules of primitives wrote, a user's
too, and the constants; the processor; and what writes: the sources of this tier, Python and NumPy. Where one of these cannot be
told in full, nothing is kept.
"""

from __future__ import annotations

import functools
import json
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pullback.core import dtypes
from pullback.engine import disk
from pullback.native.compile import FORMAT, Target
from pullback.native.graph import Graph
from pullback.stablehlo import writer

MOST_CONSTANTS = 1 << 20  # bytes of the constants that are looked at for a key
LEAST = 1 << 13  # characters: what is shorter is written as quickly

_IMPORTED = time.time()  # sources that were changed later may not be those that run


class Text(NamedTuple):
    """What is kept: the module, and the facts of a `Kernel` that are found while it is written."""

    source: str
    workspace: int
    weight: float
    sorting: float = 0.0
    shared: int = 0
    blocks: int = 1


class _Untold(Exception):
    """Something has no text that tells it from all else."""


def read(key: str | None) -> Text | None:
    """What is kept under a key; None if there is nothing."""
    blob = disk.read(key) if key is not None else None
    if blob is None:
        return None
    facts, _, source = blob.partition(b"\n")
    return Text(zlib.decompress(source).decode(), *json.loads(facts))


def write(key: str | None, text: Text) -> None:
    """Keep a text that took some time to write."""
    if key is not None and len(text.source) >= LEAST:
        facts = json.dumps(text[1:]).encode()
        disk.write(key, facts + b"\n" + zlib.compress(text.source.encode(), 1))


def key(graph: Graph, processor: Target) -> str | None:
    """The key of a graph's text; None if there is none, or nothing is kept on disk."""
    if disk.directory() is None:
        return None
    with_what = sources()
    if with_what is None:
        return None
    try:
        lines = "\n".join(_spelled(graph, None))
    except _Untold:
        return None
    return disk.digest({"graph": lines, "target": repr(tuple(processor)), "written by": with_what})


@functools.cache
def sources() -> str | None:
    """A digest of what writes texts in this process; None if that is not known to be what the files say."""
    files = [*sorted(Path(__file__).parent.glob("*.py")), Path(dtypes.__file__), Path(writer.__file__)]
    texts = {"format": FORMAT, "python": sys.version, "numpy": np.__version__}
    try:
        for file in files:
            found = file.stat()
            if max(found.st_mtime, found.st_ctime) > _IMPORTED - 1.0:  # clocks of file systems are coarse
                return None
            texts[f"{file.parent.name}/{file.name}"] = file.read_text(encoding="utf-8")
    except OSError:  # it was imported from an archive
        return None
    return disk.digest(texts)


def _spelled(graph: Graph, around: Graph | None) -> Iterator[str]:
    """The lines of a graph, which is in another one."""
    yield f"{_typed(graph.inputs)} -> {_typed(graph.outputs)}"
    for node in graph.nodes:
        yield f"{_typed(node.results)} = {node.name} {_typed(node.operands)} {_plain(node.params)} {len(node.graphs)}"
        for inner in node.graphs:
            yield from _spelled(inner, graph)
    if around is not None and around.constants is graph.constants:
        return
    if sum([array.nbytes for array in graph.constants.values()]) > MOST_CONSTANTS:
        raise _Untold
    for name, array in graph.constants.items():
        yield f"{name} {_plain(array)}"


def _typed(values: list[writer.Value]) -> str:
    return " ".join([f"{value.name}:{value.type}" for value in values])


def _plain(value: Any) -> Any:
    """A value made of such as `repr` tells in full."""
    known = type(value)
    if known in (int, str, bool, float, bytes, type(None)):
        return value
    if known in (tuple, list):
        return known([_plain(part) for part in value])
    if known is dict:
        return {_plain(name): _plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        return known.__name__, value.dtype.name, value.shape, value.tobytes()
    raise _Untold
