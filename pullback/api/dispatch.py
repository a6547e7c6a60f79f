"""The fast path of a compiled function: how to recognise a call like one that was seen, and run it at once.

A path has three steps, each of them a function that is made for one signature: `find` sees whether a call is like the one that
the path was made for, and where its arrays are; `run` executes on device buffers; `build` makes the user's output of the
result buffers. The first and the last are made of generated source: for a few arrays they take a third of the time of code
that works for any structure, and they are half of what a small call costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from pullback.core.array import Array, from_python
from pullback.core.bounded import Bounded
from pullback.core.dtypes import DtypeMode, dtype_mode
from pullback.core.tracing import Tracer
from pullback.core.trees import LEAF, TreeDef, flatten, is_leaf, unflatten
from pullback.core.types import ArrayType
from pullback.engine.backend import BorrowedBuffer, CompileOptions, Executable, backend, buffer_of
from pullback.engine.compile import compile_program
from pullback.program.program import Program

PYTHON_SCALARS = frozenset({bool, int, float, complex})
BORROWED_BYTES = 1 << 16  # NumPy arguments up to this size are copied into memory that the device shares
MAX_FORMS = 8  # of calls of one signature: of arrays, of NumPy arrays, of numbers, that are of the same types
MAX_SCALARS = 1024  # Python numbers whose buffers are kept
MAX_DEPTH = 64  # outputs of containers deeper than this are not spelled out
UNROLLED = 128  # up to so many arrays are spelled out in generated source


@dataclass(slots=True, eq=False)
class Signature:
    """A jitted function traced for one combination of structure, types and static arguments."""

    program: Program
    captures: Sequence[Tracer]
    out_structure: TreeDef
    donated: tuple[bool, ...]
    options: CompileOptions
    executable: Executable | None = None
    fast_paths: Bounded[Any, FastPath | None] | None = None  # by what the leaves are; made of the second call on

    def compile(self) -> Executable:
        """The executable; made at the first use."""
        found = self.executable
        if found is None:
            found = self.executable = compile_program(self.program, self.options, self.donated)
        return found

    def run(self, leaves: Sequence[Array]) -> Any:
        """Execute on Arrays of the right types, and give the results the structure of the user's output."""
        outs = (self.executable or self.compile())(leaves)
        return outs[0] if self.out_structure is LEAF else unflatten(self.out_structure, outs)

    def fast_path(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> FastPath | None:
        """The fast path for calls like this one, which is of this signature; None if it is the first, or there is no path.

        To make one takes as long as many calls: where a function has more signatures in use than it looks through, they come
        back to the ones that they have.
        """
        paths = self.fast_paths
        if paths is None:
            self.fast_paths = Bounded(MAX_FORMS)
            return None
        form = tuple([leaf.dtype if leaf.__class__ is np.ndarray else leaf.__class__ for leaf in flatten((args, kwargs))[0]])
        if form in paths:
            return paths.get(form)
        made = _fast_path(args, kwargs, self)
        if made is None or not made.borrows or sum([type.nbytes for type in self.program.input_types]) <= BORROWED_BYTES:
            paths[form] = made  # one that borrows much would keep it
        return made


class FastPath(NamedTuple):
    """How to run calls like one that was seen.

    Attributes:
        mode: the dtype mode in which the call was made.
        find: `(args, kwargs)` -> the buffers of the arguments; None if the call is another one.
        borrows: whether `find` borrows buffers: then it takes a list, too, to which it adds each with the list it belongs in.
        run: buffers to result buffers. build: result buffers to the user's output.
    """

    mode: DtypeMode
    find: Callable[..., list[Any] | None]
    borrows: bool
    run: Callable[[list[Any]], Sequence[Any]]
    build: Callable[[Sequence[Any]], Any]


def _fast_path(args: tuple[Any, ...], kwargs: dict[str, Any], signature: Signature) -> FastPath | None:
    """The fast path for calls like this one; None if it has arguments for which there is none."""
    executable = signature.compile()
    run, types = executable.runner(), signature.program.input_types
    reading = None if run is None else _read(args, kwargs)
    if run is None or reading is None or len(reading.leaves) != len(types):  # some are arrays of dtype float0
        return None
    found = _finder(reading, types)
    return None if found is None else FastPath(dtype_mode(), *found, run, _builder(signature, executable.result_class))


# ---- finding the arguments --------------------------------------------------------------------------------------------


class _Reading(NamedTuple):
    """Source that finds the leaves of calls whose containers are the same: its lines, the leaves' names, the leaves."""

    lines: list[str]
    names: list[str]
    leaves: list[Any]


_BUFFER = "b if (b := {0}._buffer) is not None else buffer_of({0})"


def _finder(reading: _Reading, types: Sequence[ArrayType]) -> tuple[Callable[..., list[Any] | None], bool] | None:
    """What sees whether the leaves of a call are like these, and returns their buffers; and whether it borrows some."""
    scope: dict[str, Any] = {"buffer_of": buffer_of, "scalar_buffer": _scalar_buffer, "lend": _lend}
    if any([name.startswith("*") for name in reading.names]):
        if not all([leaf.__class__ is Array for leaf in reading.leaves]):
            return None
        scope["types"] = list(types)
        leaves = f"leaves = [{', '.join(reading.names)}]"
        lines = [*reading.lines, leaves, "if [leaf.type for leaf in leaves] != types: return None"]
        buffers = [f"{_BUFFER.format('leaf')} for leaf in leaves"]
    else:
        lines, buffers = list(reading.lines), []
        for i, (name, leaf, type) in enumerate(zip(reading.names, reading.leaves, types, strict=True)):
            kind = leaf.__class__
            scope |= {f"t{i}": type, f"s{i}": type.shape, f"d{i}": type.dtype}
            if kind is Array:
                lines.append(f"if {name}.type is not t{i}: return None")
                buffers.append(_BUFFER.format(name))
            elif kind in PYTHON_SCALARS:
                lines.append(f"if {name}.__class__ is not {kind.__name__}: return None")
                buffers.append(f"scalar_buffer({name}, t{i})")
            elif (kind is np.ndarray or issubclass(kind, np.generic)) and leaf.dtype == type.dtype:
                scope[f"k{i}"] = kind
                more = f" or {name}.dtype != d{i} or {name}.shape != s{i}" if kind is np.ndarray else ""
                lines.append(f"if {name}.__class__ is not k{i}{more}: return None")
                # A larger one is shared with the device; the call ends before the caller can write to it
                buffer = backend().borrow(type) if type.nbytes <= BORROWED_BYTES else None
                scope[f"p{i}"] = backend().putter(type) if buffer is None else [buffer]
                buffers.append(f"p{i}({name}[...])" if buffer is None else f"lend({name}, t{i}, p{i}, borrowed)")
            else:
                return None
    body = [f"        {line}" for line in [*lines, f"return [{', '.join(buffers)}]"]]
    # Missing keys and attributes (a number has no type, and a tracer no buffer) mean that it is another call
    body = ["def find(args, kwargs, borrowed=None):", "    try:", *body, "    except (AttributeError, KeyError): return None"]
    exec("\n".join(body), scope)
    return scope["find"], any([buffer.startswith("lend") for buffer in buffers])


def _lend(
    given: np.ndarray[Any, Any],
    type: ArrayType,
    free: list[BorrowedBuffer],
    borrowed: list[tuple[list[BorrowedBuffer], BorrowedBuffer]],
) -> Any:
    """A buffer with the values of a small NumPy array, borrowed for the length of the call."""
    try:
        mine: Any = free.pop()
    except IndexError:
        mine = backend().borrow(type)
    borrowed.append((free, mine))
    np.copyto(mine.host, given)
    return mine.raw


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
            if len(value) > UNROLLED and all([item.__class__ is Array for item in value]):
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
    made_by = f"unflatten(structure, [{', '.join(names)}])"
    lines.append(f"return {_spelled(unflatten(structure, names)) if _is_plain(structure) else made_by}")
    exec("\n".join(["def build(outs):", *[f"    {line}" for line in lines]]), scope)
    build: Callable[[Sequence[Any]], Any] = scope["build"]
    return build


def _is_plain(structure: TreeDef, depth: int = 0) -> bool:
    """Whether a structure can be spelled: it has no containers but tuples, lists, None and dicts of strings, so that none looks
    at what it is made of, and Python's parser takes an expression as deep."""
    return structure is LEAF or (
        depth < MAX_DEPTH
        and structure.type in (None, NoneType, tuple, list, dict)
        and (structure.type is not dict or all([key.__class__ is str for key in structure.entries()]))
        and all([_is_plain(child, depth + 1) for child in structure.children()])
    )


def _spelled(tree: Any) -> str:
    """A tree of names, as source."""
    kind = tree.__class__
    if kind is dict:
        return f"{{{', '.join([f'{key!r}: {_spelled(item)}' for key, item in tree.items()])}}}"
    if kind is tuple or kind is list:
        inner = "".join([f"{_spelled(item)}, " for item in tree])
        return f"({inner})" if kind is tuple else f"[{inner}]"
    return str(tree)  # a name, or None
