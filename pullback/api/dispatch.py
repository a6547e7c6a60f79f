"""The fast path of a compiled function: how to recognise a call like one that was seen, and run it at once.

A path has three steps, each of them a function that is made for one signature: `find` sees whether a call is like the one that
the path was made for, and where its arrays are; `run` executes on device buffers; `build` makes the user's output of the
result buffers. The first and the last are made of generated source: for a few arrays they take a third of the time of code
that works for any structure, and they are half of what a small call costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from pullback.api.ahead import Signature
from pullback.core.array import Array, from_python
from pullback.core.bounded import Bounded
from pullback.core.dtypes import DtypeMode, dtype_mode
from pullback.core.trees import LEAF, TreeDef, is_leaf, unflatten
from pullback.core.types import ArrayType
from pullback.engine.backend import BorrowedBuffer, backend, buffer_of

PYTHON_SCALARS = frozenset({bool, int, float, complex})
BORROWED_BYTES = 1 << 16  # NumPy arguments up to this size are copied into memory that the device shares
MAX_SCALARS = 1024  # Python numbers whose buffers are kept
MAX_DEPTH = 64  # outputs of containers deeper than this are not spelled out
UNROLLED = 32  # up to so many arrays are spelled out in generated source


class FastPath(NamedTuple):
    """How to run calls like one that was seen.

    Attributes:
        mode: the dtype mode in which the call was made.
        find: `(args, kwargs)` -> the buffers of the arguments, or, where `expected` is given, the leaves; None if the call is
            another one.
        expected: what the leaves must be, where some are not Arrays.
        run: buffers to result buffers. build: result buffers to the user's output.
    """

    mode: DtypeMode
    find: Callable[[tuple[Any, ...], dict[str, Any]], list[Any] | None]
    expected: tuple[Expected, ...] | None
    run: Callable[[list[Any]], Sequence[Any]]
    build: Callable[[Sequence[Any]], Any]


class Expected(NamedTuple):
    """What a leaf must be: its class; for a NumPy array its dtype and shape; its ArrayType; and, for a NumPy array, what puts
    it on the device: a function, or the list of the buffers to borrow."""

    kind: type
    dtype: Any
    shape: Any
    type: ArrayType
    put: Any


def fast_path(args: tuple[Any, ...], kwargs: dict[str, Any], signature: Signature) -> FastPath | None:
    """The fast path for calls like this one; None if it has arguments for which there is none."""
    reading = _read(args, kwargs)
    if reading is None:
        return None
    leaves, expected = reading.leaves, None
    types = signature.program.input_types
    if len(leaves) != len(types):  # some are arrays of dtype float0
        return None
    if not all([leaf.__class__ is Array for leaf in leaves]):
        described = [_expected(leaf, type) for leaf, type in zip(leaves, types, strict=True)]
        if None in described:
            return None
        expected = tuple(described)
    find = reading.leaf_finder() if expected is not None else reading.buffer_finder([leaf.type for leaf in leaves])
    executable = signature.compile()
    build = _builder(signature, executable.result_class)
    return FastPath(dtype_mode(), find, expected, executable.runner(), build)  # type: ignore[arg-type]


# ---- finding the arguments --------------------------------------------------------------------------------------------


class _Reading(NamedTuple):
    """Source that finds the leaves of calls whose containers are the same: its lines, the leaves' names, the leaves."""

    lines: list[str]
    names: list[str]
    leaves: list[Any]

    def leaf_finder(self) -> Any:
        return self._compile([*self.lines, f"return [{', '.join(self.names)}]"], [], {})

    def buffer_finder(self, types: list[ArrayType]) -> Any:
        """What also compares the leaves' types, and returns their buffers."""
        names, count = self.names, len(types)
        scope: dict[str, Any] = {"buffer_of": buffer_of, "types": types}
        if count > UNROLLED or any(name.startswith("*") for name in names):
            lines = [
                f"leaves = [{', '.join(names)}]",
                "if [leaf.type for leaf in leaves] != types: return None",
                "buffers = [leaf._buffer for leaf in leaves if leaf._buffer is not None]",
            ]
            after = [f"return buffers if len(buffers) == {count} else [buffer_of(leaf) for leaf in leaves]"]
            return self._compile([*self.lines, *lines], after, scope)
        scope |= {f"t{i}": type for i, type in enumerate(types)}
        lines = [f"if {name}.type is not t{i}: return None" for i, name in enumerate(names)]
        lines += [f"b{i} = {name}._buffer" for i, name in enumerate(names)]
        after = [f"if b{i} is None: b{i} = buffer_of({name})" for i, name in enumerate(names)]
        after.append(f"return [{', '.join([f'b{i}' for i in range(count)])}]")
        return self._compile([*self.lines, *lines], after, scope)

    @staticmethod
    def _compile(looking: list[str], after: list[str], scope: dict[str, Any]) -> Any:
        """A function that looks a call up, and prepares it if it is the right one. Missing keys and attributes (a number has no
        type, and a tracer no buffer) mean that it is not."""
        body = ["    try:", *[f"        {line}" for line in looking], "    except (AttributeError, KeyError): return None"]
        exec("\n".join(["def find(args, kwargs):", *body, *[f"    {line}" for line in after]]), scope)
        return scope["find"]


def _read(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Reading | None:
    """How to find the leaves in arguments of this structure: for tuples, lists, None and dicts of strings only."""
    lines: list[str] = []
    leaves: list[Any] = []

    def visit(value: Any, name: str) -> list[str] | None:
        kind = value.__class__
        if value is None:
            lines.append(f"if {name} is not None: return None")
            return []
        if kind is tuple or kind is list:
            lines.append(f"if {name}.__class__ is not {kind.__name__} or len({name}) != {len(value)}: return None")
            if len(value) > UNROLLED and all([is_leaf(item) for item in value]):
                leaves.extend(value)
                return [f"*{name}"]
            items, parts = list(value), [f"{name}_{i}" for i in range(len(value))]
            if parts:
                lines.append(f"{', '.join(parts)}, = {name}")
        elif kind is dict and all([key.__class__ is str for key in value]):
            lines.append(f"if {name}.__class__ is not dict or len({name}) != {len(value)}: return None")
            keys = sorted(value)
            items, parts = [value[key] for key in keys], [f"{name}_{i}" for i in range(len(value))]
            lines.extend([f"{part} = {name}[{key!r}]" for part, key in zip(parts, keys)])
        else:
            leaves.append(value)
            return [name] if is_leaf(value) else None
        found: list[str] = []
        for item, part in zip(items, parts):
            inner = visit(item, part)
            if inner is None:
                return None
            found += inner
        return found

    names = visit(args, "args")
    more = visit(kwargs, "kwargs") if names is not None else None
    return None if names is None or more is None else _Reading(lines, names + more, leaves)


def _expected(leaf: Any, type: ArrayType) -> Expected | None:
    kind = leaf.__class__
    if kind is Array or kind in PYTHON_SCALARS:
        return Expected(kind, None, None, type, None)
    if kind is np.ndarray and leaf.dtype == type.dtype:
        there = backend()
        buffer = there.borrow(type) if type.nbytes <= BORROWED_BYTES else None
        return Expected(kind, leaf.dtype, leaf.shape, type, there.putter(type) if buffer is None else [buffer])
    return None


def host_buffers(
    leaves: list[Any],
    expected: tuple[Expected, ...],
    borrowed: list[tuple[list[BorrowedBuffer], BorrowedBuffer]],
) -> list[Any] | None:
    """The buffers of leaves of which some are NumPy arrays or Python scalars; None if they are not as expected.

    A small NumPy array is copied into a buffer that is borrowed for the length of the call: it is added to `borrowed`, to be
    given back. A larger one is shared with the device; the call ends before the caller can write to it.
    """
    buffers = []
    for leaf, (kind, dtype, shape, type, put) in zip(leaves, expected, strict=True):
        found = leaf.__class__
        if found is not kind:
            return None
        if kind is np.ndarray:
            if leaf.dtype != dtype or leaf.shape != shape:
                return None
            if put.__class__ is list:
                mine: Any = put.pop() if put else backend().borrow(type)
                borrowed.append((put, mine))
                np.copyto(mine.host, leaf)
                buffers.append(mine.raw)
            else:
                buffers.append(put(leaf))
        elif kind is Array:
            if leaf.type is not type:
                return None
            buffers.append(buffer if (buffer := leaf._buffer) is not None else buffer_of(leaf))
        else:
            buffers.append(_scalar_buffer(leaf, type))
    return buffers


_scalar_buffers: Bounded[Any, Any] = Bounded(MAX_SCALARS)


def _scalar_buffer(value: Any, type: ArrayType) -> Any:
    """The buffer of a weak Python scalar; those of common values are made once."""
    if value.__class__ is complex or not value:  # 0.0 and -0.0 are equal, but not the same
        return buffer_of(from_python(value))
    key = (type, value)
    found = _scalar_buffers.get(key)
    if found is None:
        found = _scalar_buffers[key] = buffer_of(from_python(value))
    return found


def forget_scalars() -> None:
    """Forget the buffers of Python numbers."""
    _scalar_buffers.clear()


# ---- building the output ----------------------------------------------------------------------------------------------


class _Name:
    """Stands for the Array of a result in the user's output."""

    def __init__(self, name: str) -> None:
        self.name = name


def _builder(signature: Signature, made: type[Array]) -> Callable[[Sequence[Any]], Any]:
    """What makes the user's output of result buffers. Arrays are made without `__init__`, which takes as long again."""
    types, structure = signature.program.output_types, signature.out_structure
    new = object.__new__
    if len(types) > UNROLLED:
        classes = [made] * len(types)

        def build_many(outs: Sequence[Any]) -> Any:
            arrays = list(map(new, classes))
            for array, type, out in zip(arrays, types, outs):
                array.type = type
                array._host = None
                array._buffer = out
            return unflatten(structure, arrays)

        return build_many
    names = [f"a{i}" for i in range(len(types))]
    scope: dict[str, Any] = {"new": new, "made": made, "unflatten": unflatten, "structure": structure}
    scope |= {f"t{i}": type for i, type in enumerate(types)}
    lines = [f"{', '.join([f'b{i}' for i in range(len(types))])}, = outs"] if types else []
    for i, name in enumerate(names):
        lines.append(f"{name} = new(made); {name}.type = t{i}; {name}._host = None; {name}._buffer = b{i}")
    output = _spelled(unflatten(structure, [_Name(name) for name in names])) if _is_plain(structure) else None
    lines.append(f"return {output if output is not None else f'unflatten(structure, [{chr(44).join(names)}])'}")
    exec("\n".join(["def build(outs):", *[f"    {line}" for line in lines]]), scope)
    build: Callable[[Sequence[Any]], Any] = scope["build"]
    return build


def _is_plain(structure: TreeDef, depth: int = 0) -> bool:
    """Whether a structure has no containers but tuples, lists, None and dicts, so that none looks at what it is made of; and
    whether Python's parser takes an expression as deep."""
    return structure is LEAF or (
        depth < MAX_DEPTH
        and structure.type in (None, NoneType, tuple, list, dict)
        and all([_is_plain(child, depth + 1) for child in structure.children()])
    )


def _spelled(tree: Any) -> str | None:
    """An output of tuples, lists, None and dicts of strings as source; None if there are other containers in it."""
    kind = tree.__class__
    if kind is _Name:
        return str(tree.name)
    if tree is None:
        return "None"
    if kind is dict and all([key.__class__ is str for key in tree]):
        items = [_spelled(item) for item in tree.values()]
        inner = ", ".join([f"{key!r}: {item}" for key, item in zip(tree, items)])
        return None if None in items else f"{{{inner}}}"
    if kind is tuple or kind is list:
        items = [_spelled(item) for item in tree]
        inner = "".join([f"{item}, " for item in items])
        return None if None in items else f"({inner})" if kind is tuple else f"[{inner}]"
    return None
