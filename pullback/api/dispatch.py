"""The fast path of a compiled function: how to recognise a call like one that was seen, and run it at once.

A path has three steps: it sees whether a call is like the one that it was made for, and where its arrays are; it executes on
device buffers; it makes the user's output of the result buffers. They are one function of generated source, made for one
signature: for a few arrays that takes a third of the time of code that works for any structure, and it is half of what a small
call costs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from pullback.core.array import Array, from_python
from pullback.core.bounded import Bounded
from pullback.core.modes import Mode, current_mode
from pullback.core.refs import Ref
from pullback.core.source import warn
from pullback.core.tracing import Tracer
from pullback.core.trees import LEAF, OWN_TREES, TreeDef, Trees, unflatten
from pullback.core.types import ArrayType
from pullback.engine.backend import BorrowedBuffer, CompileOptions, Executable, backend, buffer_of
from pullback.engine.compile import compile_program
from pullback.program.equality import param_key
from pullback.program.program import Program

PYTHON_SCALARS = frozenset({bool, int, float, complex})
BORROWED_BYTES = 1 << 16  # NumPy arguments up to this size are copied into memory that the device shares
MAX_FORMS = 8  # of calls of one signature: of arrays, of NumPy arrays, of numbers, that are of the same types
MAX_SCALARS = 1024  # Python numbers whose buffers are kept
MAX_DEPTH = 64  # outputs of containers deeper than this are not spelled out
UNROLLED = 128  # up to so many arrays are spelled out in generated source
MISS: Any = object()  # what a path returns for a call that it is not for


@dataclass(slots=True, eq=False)
class Signature:
    """A jitted function traced for one combination of structure, types and static arguments.

    Attributes:
        structure: that of `(args, kwargs)`, with None in the place of positional static arguments, and without the others.
        statics: the keys of static arguments, each with the number or the name that it was passed by: `(numbered, named)`.
        donated: which leaves are donated; empty if none are.
        trees: what kind of trees there are.
        refs, written: the Refs that the function closes over, and those of them that it writes to.
    """

    program: Program
    captures: Sequence[Tracer]
    structure: TreeDef
    statics: Sequence[Any]
    out_structure: TreeDef
    donated: tuple[bool, ...]
    options: CompileOptions
    trees: Trees = OWN_TREES
    refs: Sequence[Ref] = ()
    written: Sequence[Ref] = ()
    executable: Executable | None = None
    fast_paths: Bounded[Any, FastPath | None] | None = None  # by what the leaves are; made of the second call on

    def compile(self) -> Executable:
        """The executable; made at the first use."""
        found = self.executable
        if found is None:
            self._warn_of_unused_memory()
            found = self.executable = compile_program(self.program, self.options, self.donated)
        return found

    def _warn_of_unused_memory(self) -> None:
        """Say which donated arrays no result can take the memory of."""
        results = [(type.shape, type.dtype) for type in self.program.output_types]
        unused = []
        for type, donated in zip(self.program.input_types, self.donated):
            if donated and (key := (type.shape, type.dtype)) in results:
                results.remove(key)
            elif donated:
                unused.append(f"{type.dtype.name}[{','.join(map(str, type.shape))}]")
        if unused:
            warn(
                f"Some donated buffers were not usable, as no result is of their shape and dtype: {', '.join(unused)}. Donate"
                " only what a result can take the place of.",  # programs ignore it by its first six words
                category=UserWarning,
            )

    def uses_refs(self, leaves: Sequence[Any]) -> bool:
        """Whether the function closes over Refs, or a call with these leaves gives it some."""
        return bool(self.refs) or any([leaf.__class__ is Ref for leaf in leaves])

    def run(self, leaves: Sequence[Array]) -> Any:
        """Execute on Arrays of the right types, and give the results the structure of the user's output."""
        outs = (self.executable or self.compile())(leaves)
        return unflatten(self.out_structure, outs)

    @property
    def makes_tuple(self) -> bool:
        """Whether the output is a tuple."""
        return self.trees.node(self.out_structure)[0] is tuple

    @property
    def is_flat(self) -> bool:
        """Whether each argument is one positional leaf that may be kept, and the output is one leaf or a tuple of leaves."""
        node = self.trees.node
        (_, _, positional), (_, names, _) = map(node, self.structure.children())
        kind, _, parts = node(self.out_structure)
        leaves = all([node(part)[0] is None for part in (*positional, *parts)])
        return leaves and kind in (None, tuple) and not (names or self.donated)

    def fast_path(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> FastPath | None:
        """The fast path for calls like this one, which is of this signature; None if it is the first, or there is no path.

        To make one takes as long as many calls: where a function has more signatures in use than it looks through, they come
        back to the ones that they have.
        """
        paths = self.fast_paths
        if paths is None:
            self.fast_paths = Bounded(MAX_FORMS)
            return None
        statics = {which for part in self.statics for which, _ in part}
        dynamic = [arg for i, arg in enumerate(args) if i not in statics]
        leaves = self.trees.flatten((dynamic, {name: arg for name, arg in kwargs.items() if name not in statics}))[0]
        form = tuple([leaf.dtype if leaf.__class__ is np.ndarray else leaf.__class__ for leaf in leaves])
        if form in paths:
            return paths.get(form)
        made = _fast_path(leaves, self)
        if made is None or not made.borrows or sum([type.nbytes for type in self.program.input_types]) <= BORROWED_BYTES:
            paths[form] = made  # one that borrows much would keep it
        return made


class FastPath(NamedTuple):
    """How to run calls like one that was seen.

    Attributes:
        mode: the mode in which the call was made.
        run: `(args, kwargs)` -> the user's output; MISS if the call is another one.
        borrows: whether `run` borrows buffers: then it takes a list, too, to which it adds each with the list it belongs in.
    """

    mode: Mode
    run: Callable[..., Any]
    borrows: bool


def _fast_path(leaves: list[Any], signature: Signature) -> FastPath | None:
    """The fast path for calls with leaves like these; None if it has arguments for which there is none."""
    executable = signature.compile()
    if (call := executable.call_or(MISS)) is not None:
        return _native_path(call, signature)
    run = executable.runner()
    if run is None or len(leaves) != len(signature.program.input_types):  # some are arrays of dtype float0
        return None
    finding = _finding(signature, leaves)
    if finding is None:
        return None
    (found, scope), (built, made) = finding, _building(signature, executable.result_class)
    scope |= made | {"run": run, "MISS": MISS}
    # Missing keys and attributes (a number has no type, and a tracer no buffer) mean that it is another call; what cannot be
    # hashed or compared is refused where other calls are handled. No handler covers the run, in which there may be Python
    # functions of the user's.
    handler = "    except (AttributeError, KeyError, TypeError, ValueError): return MISS"
    head = ["def path(args, kwargs, borrowed=None):", "    try:", *[f"        {line}" for line in found], handler]
    exec("\n".join([*head, *[f"    {line}" for line in built]]), scope)
    return FastPath(current_mode(), scope["path"], "lend(" in found[-1])


def _native_path(call: Callable[..., Any], signature: Signature) -> FastPath:
    """The fast path of a kernel that takes leaves as users pass them: only containers are looked at here."""
    lines, names, scope = _reading(signature, arrays=True)
    structure = signature.out_structure
    build = functools.partial(unflatten, structure) if structure is LEAF else structure.unflatten
    scope |= {"MISS": MISS, "call": call, "build": build}
    handler = "    except (AttributeError, KeyError, TypeError, ValueError): return MISS"
    outs = [f"out_{i}" for i in range(len(signature.program.output_types))]
    plain = len(outs) <= UNROLLED and _is_plain(structure, signature.trees.node)
    parts = ["def path(args, kwargs, borrowed=None):", "    try:", *[f"        {line}" for line in lines], handler]
    parts += [f"    outs = call({', '.join(names)})", "    if outs is MISS: return MISS"]
    if plain and outs:
        parts.append(f"    {', '.join(outs)}, = outs")
    parts.append(f"    return {_spelled(unflatten(structure, outs)) if plain else 'build(outs)'}")
    exec("\n".join(parts), scope)
    return FastPath(current_mode(), scope["path"], False)


# ---- finding the arguments --------------------------------------------------------------------------------------------

_BUFFER = "b if (b := {0}._buffer) is not None else buffer_of({0})"


def _finding(signature: Signature, leaves: list[Any]) -> tuple[list[str], dict[str, Any]] | None:
    """Source that sees whether a call is of a signature, with leaves like these, and lists their `buffers`, with Arrays in the
    places of those that are donated; and what it refers to."""
    types, donated = signature.program.input_types, signature.donated or (False,) * len(leaves)
    arrays = all([leaf.__class__ is Array for leaf in leaves])
    lines, names, scope = _reading(signature, arrays)
    scope |= {
        "buffer_of": buffer_of,
        "scalar_buffer": _scalar_buffer,
        "lend": _lend,
        "from_python": from_python,
        "Array": Array,
    }
    if any([name.startswith("*") for name in names]):
        scope |= {"types": list(types), "donated": donated}
        lines += [f"leaves = [{', '.join(names)}]", "if [leaf.type for leaf in leaves] != types: return MISS"]
        buffers = [f"{_BUFFER.format('leaf')} for leaf in leaves"]
        if signature.donated:
            lines.append("if not all([leaf.__class__ is Array for leaf in leaves]): return MISS")
            buffers = [f"leaf if given else {_BUFFER.format('leaf')} for leaf, given in zip(leaves, donated)"]
    else:
        buffers = []
        for i, (name, leaf, type, given) in enumerate(zip(names, leaves, types, donated, strict=True)):
            kind = leaf.__class__
            scope |= {f"t{i}": type, f"s{i}": type.shape, f"d{i}": type.dtype}
            if kind is Array:
                lines.append(f"if {name}.type is not t{i}{f' or {name}.__class__ is not Array' if given else ''}: return MISS")
                buffers.append(name if given else _BUFFER.format(name))
            elif kind in PYTHON_SCALARS:
                lines.append(f"if {name}.__class__ is not {kind.__name__}: return MISS")
                buffers.append(f"from_python({name})" if given else f"scalar_buffer({name}, t{i})")
            elif (kind is np.ndarray or issubclass(kind, np.generic)) and leaf.dtype == type.dtype:
                scope[f"k{i}"] = kind
                more = f" or {name}.dtype != d{i} or {name}.shape != s{i}" if kind is np.ndarray else ""
                lines.append(f"if {name}.__class__ is not k{i}{more}: return MISS")
                if given:  # its memory is the caller's: the executable copies it
                    buffers.append(f"Array(t{i}, {name})")
                    continue
                # A larger one is shared with the device, if the call ends before anybody can write to it
                if type.nbytes > BORROWED_BYTES and signature.compile().copies:
                    return None
                buffer = backend().borrow(type) if type.nbytes <= BORROWED_BYTES else None
                scope[f"p{i}"] = backend().putter(type) if buffer is None else [buffer]
                buffers.append(f"p{i}({name}[...])" if buffer is None else f"lend({name}, t{i}, p{i}, borrowed)")
            else:
                return None
    return [*lines, f"buffers = [{', '.join(buffers)}]"], scope


def _reading(signature: Signature, arrays: bool) -> tuple[list[str], list[str], dict[str, Any]]:
    """Source that finds the leaves of calls of a signature: its lines, the leaves' names, and what else it refers to.

    Tuples, lists, None and dicts of strings are spelled out. An argument with another container in it is taken apart as where
    the signature was found, and its structure compared.

    Arguments:
        arrays: whether all leaves are Arrays: then many at once may have one name, with a star.
    """
    node = signature.trees.node
    (_, _, positional), (_, keys, named) = map(node, signature.structure.children())
    statics = {which: key for part in signature.statics for which, key in part}
    parts = {**dict(enumerate(positional)), **dict(zip(keys, named, strict=True))}
    by_name = [which for which in [*parts, *statics] if which.__class__ is str]
    lines = [f"if len(args) != {len(positional)} or len(kwargs) != {len(by_name)}: return MISS"]
    if positional:
        lines.append(f"{', '.join([f'args_{i}' for i in range(len(positional))])}, = args")
    scope: dict[str, Any] = {"param_key": param_key, "flatten": signature.trees.flattener()}

    def visit(structure: TreeDef, name: str) -> list[str]:
        kind, keys, children = node(structure)
        count = len(children)
        if kind is None:
            return [name]
        if kind is NoneType:
            lines.append(f"if {name} is not None: return MISS")
            return []
        lines.append(f"if {name}.__class__ is not {kind.__name__} or len({name}) != {count}: return MISS")
        if arrays and count > UNROLLED and kind is not dict and all([node(child)[0] is None for child in children]):
            return [f"*{name}"]
        inner = [f"{name}_{i}" for i in range(count)]
        if kind is dict:
            lines.extend([f"{part} = {name}[{key!r}]" for part, key in zip(inner, keys, strict=True)])
        elif inner:
            lines.append(f"{', '.join(inner)}, = {name}")
        return [found for child, part in zip(children, inner, strict=True) for found in visit(child, part)]

    def visit_others(structure: TreeDef, name: str) -> list[str]:
        scope[f"{name}_structure"] = structure
        lines.append(f"{name}, found = flatten({name})")
        lines.append(f"if found != {name}_structure: return MISS")
        if arrays and structure.num_leaves > UNROLLED:
            return [f"*{name}"]
        inner = [f"{name}_{i}" for i in range(structure.num_leaves)]
        if inner:
            lines.append(f"{', '.join(inner)}, = {name}")
        return inner

    names = []
    for which, structure in {**parts, **dict.fromkeys(statics)}.items():
        name = f"args_{which}" if which.__class__ is int else f"kwargs_{by_name.index(which)}"
        if which.__class__ is str:
            lines.append(f"{name} = kwargs[{which!r}]")
        if which in statics:
            key = statics[which]
            if key.__class__ is tuple and key[0] in (str, int, bool):  # their keys say no more than they
                scope |= {f"{name}_class": key[0], f"{name}_value": key[1]}
                lines.append(f"if {name}.__class__ is not {name}_class or {name} != {name}_value: return MISS")
            else:
                scope[f"{name}_keys"] = {key}
                lines.append(f"if param_key({name}) not in {name}_keys: return MISS")
        else:
            names += (visit if _is_plain(structure, node) else visit_others)(structure, name)
    return lines, names, scope


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


def _building(signature: Signature, made: type[Array]) -> tuple[list[str], dict[str, Any]]:
    """Source that runs on the `buffers` and makes the user's output of the result; and what it refers to. Arrays are made
    without `__init__`, which takes as long again."""
    types, structure = signature.program.output_types, signature.out_structure
    build = functools.partial(unflatten, structure) if structure is LEAF else structure.unflatten
    new = object.__new__
    if len(types) > UNROLLED:
        classes = [made] * len(types)

        def build_many(outs: Sequence[Any]) -> Any:
            arrays = list(map(new, classes))
            for array, type, out in zip(arrays, types, outs):
                array.type = type
                array._host = None
                array._buffer = out
            return build(arrays)

        return ["return build_many(run(buffers))"], {"build_many": build_many}
    names = [f"out_{i}" for i in range(len(types))]
    scope: dict[str, Any] = {"new": new, "made": made, "build": build}
    scope |= {f"{name}_type": type for name, type in zip(names, types, strict=True)}
    lines = [f"{', '.join([f'{name}_buffer' for name in names])}, = run(buffers)" if types else "run(buffers)"]
    for name in names:
        lines.append(f"{name} = new(made); {name}.type = {name}_type; {name}._host = None; {name}._buffer = {name}_buffer")
    plain = _is_plain(structure, signature.trees.node)
    spelled = _spelled(unflatten(structure, names)) if plain else f"build([{', '.join(names)}])"
    return [*lines, f"return {spelled}"], scope


def _is_plain(structure: TreeDef, node: Callable[[TreeDef], Any], depth: int = 0) -> bool:
    """Whether a structure can be spelled: it has no containers but tuples, lists, None and dicts of strings, so that none looks
    at what it is made of, and Python's parser takes an expression as deep."""
    kind, keys, children = node(structure)
    return kind is None or (
        depth < MAX_DEPTH
        and kind in (NoneType, tuple, list, dict)
        and all([key.__class__ is str for key in keys])
        and all([_is_plain(child, node, depth + 1) for child in children])
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
