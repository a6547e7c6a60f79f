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
from pullback.core.modes import Mode, current_mode
from pullback.core.refs import Ref
from pullback.core.tracing import Tracer
from pullback.core.trees import OWN_TREES, TreeDef, Trees
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
            found = self.executable = compile_program(self.program, self.options, self.donated)
        return found

    def uses_refs(self, leaves: Sequence[Any]) -> bool:
        """Whether the function closes over Refs, or a call with these leaves gives it some."""
        return bool(self.refs) or any([leaf.__class__ is Ref for leaf in leaves])

    def run(self, leaves: Sequence[Array]) -> Any:
        """Execute on Arrays of the right types, and give the results the structure of the user's output."""
        outs = (self.executable or self.compile())(leaves)
        return self.trees.unflatten(self.out_structure, outs)

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
        find: `(args, kwargs)` -> the buffers of the arguments, and the Arrays of those that are donated; None if the call is
            another one.
        borrows: whether `find` borrows buffers: then it takes a list, too, to which it adds each with the list it belongs in.
        run: buffers to result buffers. build: result buffers to the user's output.
    """

    mode: Mode
    find: Callable[..., list[Any] | None]
    borrows: bool
    run: Callable[[list[Any]], Sequence[Any]]
    build: Callable[[Sequence[Any]], Any]


def _fast_path(leaves: list[Any], signature: Signature) -> FastPath | None:
    """The fast path for calls with leaves like these; None if it has arguments for which there is none."""
    executable = signature.compile()
    run = executable.runner()
    if run is None or len(leaves) != len(signature.program.input_types):  # some are arrays of dtype float0
        return None
    found = _finder(signature, leaves)
    return None if found is None else FastPath(current_mode(), *found, run, _builder(signature, executable.result_class))


# ---- finding the arguments --------------------------------------------------------------------------------------------

_BUFFER = "b if (b := {0}._buffer) is not None else buffer_of({0})"


def _finder(signature: Signature, leaves: list[Any]) -> tuple[Callable[..., list[Any] | None], bool] | None:
    """What sees whether a call is of a signature, with leaves like these, and returns their buffers; and whether it borrows
    some."""
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
        lines += [f"leaves = [{', '.join(names)}]", "if [leaf.type for leaf in leaves] != types: return None"]
        buffers = [f"{_BUFFER.format('leaf')} for leaf in leaves"]
        if signature.donated:
            lines.append("if not all([leaf.__class__ is Array for leaf in leaves]): return None")
            buffers = [f"leaf if given else {_BUFFER.format('leaf')} for leaf, given in zip(leaves, donated)"]
    else:
        buffers = []
        for i, (name, leaf, type, given) in enumerate(zip(names, leaves, types, donated, strict=True)):
            kind = leaf.__class__
            scope |= {f"t{i}": type, f"s{i}": type.shape, f"d{i}": type.dtype}
            if kind is Array:
                lines.append(f"if {name}.type is not t{i}{f' or {name}.__class__ is not Array' if given else ''}: return None")
                buffers.append(name if given else _BUFFER.format(name))
            elif kind in PYTHON_SCALARS:
                lines.append(f"if {name}.__class__ is not {kind.__name__}: return None")
                buffers.append(f"from_python({name})" if given else f"scalar_buffer({name}, t{i})")
            elif (kind is np.ndarray or issubclass(kind, np.generic)) and leaf.dtype == type.dtype:
                scope[f"k{i}"] = kind
                more = f" or {name}.dtype != d{i} or {name}.shape != s{i}" if kind is np.ndarray else ""
                lines.append(f"if {name}.__class__ is not k{i}{more}: return None")
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
    body = [f"        {line}" for line in [*lines, f"return [{', '.join(buffers)}]"]]
    # Missing keys and attributes (a number has no type, and a tracer no buffer) mean that it is another call; what cannot be
    # hashed or compared is refused where other calls are handled
    handler = "    except (AttributeError, KeyError, TypeError, ValueError): return None"
    exec("\n".join(["def find(args, kwargs, borrowed=None):", "    try:", *body, handler]), scope)
    return scope["find"], any([buffer.startswith("lend") for buffer in buffers])


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
    lines = [f"if len(args) != {len(positional)} or len(kwargs) != {len(by_name)}: return None"]
    if positional:
        lines.append(f"{', '.join([f'args_{i}' for i in range(len(positional))])}, = args")
    scope: dict[str, Any] = {"param_key": param_key, "flatten": signature.trees.flattener()}

    def visit(structure: TreeDef, name: str) -> list[str]:
        kind, keys, children = node(structure)
        count = len(children)
        if kind is None:
            return [name]
        if kind is NoneType:
            lines.append(f"if {name} is not None: return None")
            return []
        lines.append(f"if {name}.__class__ is not {kind.__name__} or len({name}) != {count}: return None")
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
        lines.append(f"if found != {name}_structure: return None")
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
            scope[f"{name}_keys"] = {statics[which]}
            lines.append(f"if param_key({name}) not in {name}_keys: return None")
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


def _builder(signature: Signature, made: type[Array]) -> Callable[[Sequence[Any]], Any]:
    """What makes the user's output of result buffers. Arrays are made without `__init__`, which takes as long again."""
    types, structure = signature.program.output_types, signature.out_structure
    unflatten = signature.trees.unflatten
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
    lines.append(f"return {_spelled(unflatten(structure, names)) if _is_plain(structure, signature.trees.node) else made_by}")
    exec("\n".join(["def build(outs):", *[f"    {line}" for line in lines]]), scope)
    build: Callable[[Sequence[Any]], Any] = scope["build"]
    return build


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
