"""The fast path of a compiled function: how to recognise a call like one that was seen, and run it at once.

A path has three steps: it sees whether a call is like the one that it was made for, and where its arrays are; it executes on
device buffers; it makes the user's output of the result buffers. They are one function of generated source, made for one
signature: for a few arrays that takes a third of the time of code that works for any structure, and it is half of what a small
call costs.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType, NoneType
from typing import Any

import numpy as np

from pullback.api.history import History
from pullback.api.spread import found_on_mesh, lay_on_mesh, made_on_mesh
from pullback.core.array import Array, from_python, host_of, truths
from pullback.core.axes import axes_around
from pullback.core.bounded import Bounded
from pullback.core.errors import DonatedBufferError
from pullback.core.modes import current_mode
from pullback.core.refs import Ref
from pullback.core.source import trim, warn
from pullback.core.tracing import Tracer, innermost_staging
from pullback.core.trees import LEAF, OWN_TREES, TreeDef, Trees, unflatten
from pullback.core.types import ArrayType
from pullback.engine.backend import BorrowedBuffer, CompileOptions, Executable, backend, buffer_of, placement
from pullback.engine.compile import compile_program
from pullback.engine.spmd import SpmdExecutable
from pullback.engine.tiers import Tiered, compile_in_tiers
from pullback.program.equality import key_test
from pullback.program.program import Program

PYTHON_SCALARS = frozenset({bool, int, float, complex})
BORROWED_BYTES = 1 << 16  # NumPy arguments up to this size are copied into memory that the device shares
MAX_FORMS = 8  # of calls of one signature: of arrays, of NumPy arrays, of numbers, that are of the same types
MAX_SCALARS = 1024  # Python numbers whose buffers are kept
MAX_DEPTH = 64  # outputs of containers deeper than this are not spelled out
MISS: Any = object()  # what a kernel returns for leaves of other types
UNROLLED = 128  # up to so many arrays are spelled out in generated source
GENERATED = f"{__file__} (generated)"  # the file of generated code: one of ours, so that errors do not show it


@dataclass(slots=True, eq=False)
class Signature:
    """A jitted function traced for one combination of structure, types and static arguments.

    Attributes:
        structure: that of `(args, kwargs)`, with None in the place of positional static arguments, and without the others.
        statics: the keys of static arguments, each with the number or the name that it was passed by: `(numbered, named)`.
        donated: which leaves are donated; empty if none are.
        trees: what kind of trees there are.
        refs, written: the Refs that the function closes over, and those of them that it writes to.
        history: where calls are counted.
        keys: which leaves are random keys that the function uses up, where that is looked for.
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
    history: History | None = None
    keys: Sequence[int] = ()
    executable: Executable | None = None
    fast_paths: Bounded[Any, FastPath | None] | None = None  # by what the leaves are; made of the second call on

    def compile(self) -> Executable:
        """The executable; made at the first use. Where another one is to take its place, that is done here, between calls."""
        found = self.executable
        if found is None:
            self._warn_of_unused_memory()
            make = compile_in_tiers if self.options.tiered else compile_program
            found = self.executable = make(self.program, self.options, self.donated)
        elif isinstance(found, Tiered) and (better := found.replacement()) is not None:
            found = self.executable = better
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
        return unflatten(self.out_structure, self.compile()(leaves))

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
        return leaves and kind in (None, tuple) and not (names or any(self.statics))

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


class FastPath:
    """How to run calls like one that was seen.

    Attributes:
        borrows: whether it borrows buffers.
    """

    __slots__ = ("_made", "_names", "borrows")

    def __init__(self, source: Sequence[str], names: dict[str, Any], borrows: bool) -> None:
        self._names = {**names, "ABSENT": ABSENT}
        exec(compile("\n".join(source), GENERATED, "exec"), self._names)
        self._made = self._names.pop("call")
        self.borrows = borrows

    def function(self, otherwise: Callable[..., Any], name_argument: Callable[..., None]) -> Callable[..., Any]:
        """The function that runs such calls, and passes others on.

        Arguments:
            otherwise: what to call for others.
            name_argument: makes an error of a donated array say which argument of a call it is: `(error, args, kwargs)`.
        """
        names = {**self._names, "otherwise": otherwise, "name_argument": name_argument}
        code = self._made.__code__.replace()  # what the interpreter learns of names it keeps with the code
        return FunctionType(code, names, None, self._made.__defaults__)


def _fast_path(leaves: list[Any], signature: Signature) -> FastPath | None:
    """The fast path for calls with leaves like these; None if it has arguments for which there is none."""
    executable = signature.compile()
    if (call := executable.call_or(MISS, signature.history and signature.history.calls)) is not None:
        return _native_path(call, signature)
    inlined = executable.inlined()
    if inlined is None or len(leaves) != len(signature.program.input_types):  # some are arrays of dtype float0
        return None
    finding = _finding(signature, leaves, executable.kept)
    if finding is None:
        return None
    (found, lent, scope), (built, made) = finding, _building(signature, executable.result_class, inlined[0])
    counting: list[str] = []
    if signature.history is not None:
        counting, scope["hit"] = ["hit()"], signature.history.hit
    return _assembled(
        signature, found, [built[0], *lent, *built[1:-1], *counting, built[-1]], scope | made | inlined[1], bool(lent)
    )


def _assembled(signature: Signature, found: list[str], run: list[str], names: dict[str, Any], borrows: bool) -> FastPath:
    """The fast path of which these are the parts.

    Arguments:
        found: source that looks at the arguments, and breaks if the call is another one.
        run: source that runs and returns the output; it may break, too.
        names: what both refer to.
    """
    # Parameters by name, since to make a tuple of arguments and to take it apart takes as long as to look at one
    positional = [f"args_{i}" for i in range(len(signature.trees.node(signature.structure.children()[0])[2]))]
    # Missing keys and attributes (a number has no type, and a tracer no buffer) mean that it is another call; what cannot be
    # hashed or compared is refused where other calls are handled. That handler does not cover the run, in which there may be
    # Python functions of the user's. A buffer that an error keeps from being given back is not missed.
    first = "".join([f"{name}=ABSENT, " for name in positional]) + ("/, " if positional else "")
    given = f"args = tuple([arg for arg in ({''.join([f'{name}, ' for name in positional])}*rest,) if arg is not ABSENT])"
    named = ["except DonatedBufferError as error:", f"    {given}", "    name_argument(error, args, kwargs)", "    raise"]
    alone = "" if signature.compile().spread else " and not placement.several"
    source = [
        f"def call({first}*rest, **kwargs):",
        "    try:",
        f"        while current_mode() is mode and staging() is None and not axes(){alone}:",
        "            try:",
        *[f"                {line}" for line in found],
        *[f"            {line}" for line in named],
        "            except (AttributeError, KeyError, TypeError, ValueError):",
        "                break",
        "            try:",
        *[f"                {line}" for line in run],
        *[f"            {line}" for line in named],
        f"        {given}",
        "        return otherwise(*args, **kwargs)",
        "    except BaseException as error:",
        "        trim(error)",
        "        raise",
    ]
    return FastPath(source, names | _SURROUNDINGS | _FAILURES | {"mode": current_mode()}, borrows)


ABSENT: Any = object()  # in the place of a positional argument that was not given; no check passes it

# What makes a call another one, whatever its arguments are: a trace that records, named axes, a choice of devices, or a mode
_SURROUNDINGS = {"staging": innermost_staging, "axes": axes_around, "placement": placement, "current_mode": current_mode}
_FAILURES = {"DonatedBufferError": DonatedBufferError, "trim": trim}


def _native_path(call: Callable[..., Any], signature: Signature) -> FastPath:
    """The fast path of a kernel that takes leaves as users pass them: only containers are looked at here."""
    lines, names, scope = _reading(signature, arrays=True)
    structure, trees = signature.out_structure, signature.trees
    build = functools.partial(unflatten, structure) if structure is LEAF else structure.unflatten
    outs = [f"out_{i}" for i in range(len(signature.program.output_types))]
    run = [f"outs = kernel({', '.join(names)})", "if outs is MISS:", "    break"]
    classes: dict[str, Any] = {}
    if len(outs) <= UNROLLED and _is_plain(structure, trees):
        if outs:
            run.append(f"{', '.join(outs)}, = outs")
        made, classes = _spelled(structure, iter(outs), trees)
    else:
        made = "build(outs)"
    scope |= {"MISS": MISS, "kernel": call, "build": build}
    return _assembled(signature, lines, [*run, f"return {made}"], scope | classes, False)


# ---- finding the arguments --------------------------------------------------------------------------------------------

_BUFFER = "b if (b := {0}._buffer) is not None else buffer_of({0})"
_GONE = "{0}._buffer is None and {0}._host is None"  # donated before, or not computed yet


def _finding(
    signature: Signature, leaves: list[Any], kept: Sequence[int] | None
) -> tuple[list[str], list[str], dict[str, Any]] | None:
    """Source that sees whether a call is of a signature, with leaves like these, and else breaks; and lists the `buffers` of
    those that are `kept`, with Arrays in the places of those that are donated. Source that gives back what it borrowed; and
    what both refer to."""
    types, donated = signature.program.input_types, signature.donated or (False,) * len(leaves)
    arrays = all([leaf.__class__ is Array for leaf in leaves])
    lines, names, scope = _reading(signature, arrays)
    taken = [True] * len(leaves) if kept is None else [i in kept for i in range(len(leaves))]
    lent: list[str] = []
    scope |= {
        "buffer_of": buffer_of,
        "scalar_buffer": _scalar_buffer,
        "lend": _lend,
        "lend_truths": _lend_truths,
        "truths": truths,
        "from_python": from_python,
        "Array": Array,
    }
    spread = _spread(signature)
    if spread is not None:
        return [*lines, *found_on_mesh(signature.program, signature.donated, spread, leaves, names, scope)], lent, scope
    if any([name.startswith("*") for name in names]):
        scope |= {"types": list(types), "donated": donated, "taken": taken, "compress": itertools.compress}
        lines += [f"leaves = [{', '.join(names)}]", "if [leaf.type for leaf in leaves] != types: break"]
        if signature.donated:
            lines.append("if not all([leaf.__class__ is Array for leaf in leaves]): break")
            buffers = [f"leaf if given else {_BUFFER.format('leaf')} for leaf, given in compress(zip(leaves, donated), taken)"]
        else:
            buffers = [f"{_BUFFER.format('leaf')} for leaf in {'leaves' if kept is None else 'compress(leaves, taken)'}"]
        if kept is not None:
            scope["others"] = [not one for one in taken]
            lines.append(f"if any([{_GONE.format('leaf')} for leaf in compress(leaves, others)]): break")
    else:
        buffers = []
        for i, (name, leaf, type, given) in enumerate(zip(names, leaves, types, donated, strict=True)):
            kind = leaf.__class__
            scope[f"t{i}"] = type
            buffer = ""
            if kind is Array:
                more = f" or {name}.__class__ is not Array" if given else "" if taken[i] else f" or {_GONE.format(name)}"
                lines.append(f"if {name}.type is not t{i}{more}: break")
                buffer = name if given else _BUFFER.format(name)
            elif kind in PYTHON_SCALARS:
                lines.append(f"if {name}.__class__ is not {kind.__name__}: break")
                buffer = f"from_python({name})" if given else f"scalar_buffer({name}, t{i})"
            elif (kind is np.ndarray or issubclass(kind, np.generic)) and leaf.dtype == type.dtype:
                scope |= {f"k{i}": kind, f"s{i}": type.shape, f"d{i}": type.dtype}
                more = f" or {name}.dtype is not d{i} and {name}.dtype != d{i} or {name}.shape != s{i}"
                lines.append(f"if {name}.__class__ is not k{i}{more if kind is np.ndarray else ''}: break")
                # A larger one is shared with the device, if the call ends before anybody can write to it
                if taken[i] and not given and type.nbytes > BORROWED_BYTES and signature.compile().copies:
                    return None
                logical = kind is np.ndarray and type.dtype == np.bool_  # its bytes may be others than 0 and 1
                values = f"truths({name})" if logical else name
                if given:  # its memory is the caller's: the executable copies it
                    buffer = f"Array(t{i}, {values})"
                elif taken[i]:
                    borrowed = backend().borrow(type) if type.nbytes <= BORROWED_BYTES else None
                    lend = "lend_truths" if logical else "lend"
                    scope[f"p{i}"] = backend().putter(type) if borrowed is None else [borrowed]
                    buffer = f"p{i}({values}[...])" if borrowed is None else f"(l{i} := {lend}({name}, t{i}, p{i})).raw"
                    lent += [] if borrowed is None else [f"p{i}.append(l{i})"]
            else:
                return None
            buffers += [buffer] if taken[i] else []
    return [*lines, f"buffers = [{', '.join(buffers)}]"], lent, scope


def _spread(signature: Signature) -> SpmdExecutable | None:
    """The executable of a signature, if it runs on a mesh."""
    found = signature.compile()
    return found if isinstance(found, SpmdExecutable) else None


def _reading(signature: Signature, arrays: bool) -> tuple[list[str], list[str], dict[str, Any]]:
    """Source that finds the leaves of calls of a signature: its lines, the leaves' names, and what else it refers to.

    Tuples, NamedTuples, lists, None, dicts of strings and dataclasses without metadata are spelled out. An argument with
    another container in it is taken apart as where the signature was found, and its structure compared.

    Arguments:
        arrays: whether all leaves are Arrays: then many at once may have one name, with a star.
    """
    trees = signature.trees
    node = trees.node
    (_, _, positional), (_, keys, named) = map(node, signature.structure.children())
    statics = {which: key for part in signature.statics for which, key in part}
    parts = {**dict(enumerate(positional)), **dict(zip(keys, named, strict=True))}
    by_name = [which for which in [*parts, *statics] if which.__class__ is str]
    lines = [f"if rest or len(kwargs) != {len(by_name)}: break" if by_name else "if rest or kwargs: break"]
    scope: dict[str, Any] = {"flatten": trees.flattener()}

    def visit(structure: TreeDef, name: str) -> list[str]:
        kind, keys, children = node(structure)
        count = len(children)
        if kind is None:
            return [name]
        if kind is NoneType:
            lines.append(f"if {name} is not None: break")
            return []
        inner = [f"{name}_{i}" for i in range(count)]
        if kind not in (tuple, list, dict):
            scope[f"{name}_kind"] = kind
            lines.append(f"if {name}.__class__ is not {name}_kind: break")
            if not issubclass(kind, tuple):
                fields = zip(inner, trees.fields(structure) or (), strict=True)
                lines.extend([f"{part} = {name}.{field}" for part, field in fields])
                return [found for child, part in zip(children, inner, strict=True) for found in visit(child, part)]
        else:
            lines.append(f"if {name}.__class__ is not {kind.__name__} or len({name}) != {count}: break")
        if arrays and count > UNROLLED and kind is not dict and all([node(child)[0] is None for child in children]):
            return [f"*{name}"]
        if kind is dict:
            lines.extend([f"{part} = {name}[{key!r}]" for part, key in zip(inner, keys, strict=True)])
        elif inner:
            lines.append(f"{', '.join(inner)}, = {name}")
        return [found for child, part in zip(children, inner, strict=True) for found in visit(child, part)]

    def visit_others(structure: TreeDef, name: str) -> list[str]:
        scope[f"{name}_structure"] = structure
        lines.append(f"{name}_leaves, found = flatten({name})")
        lines.append(f"if found != {name}_structure: break")
        name = f"{name}_leaves"  # an argument itself may be passed on
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
            lines.append(f"if not ({key_test(statics[which], name, scope)}): break")
        else:
            names += (visit if _is_plain(structure, trees) else visit_others)(structure, name)
    return lines, names, scope


def _lend(given: np.ndarray[Any, Any], type: ArrayType, free: list[BorrowedBuffer]) -> BorrowedBuffer:
    """A buffer with the values of a small NumPy array, borrowed for the length of the call."""
    try:
        mine: Any = free.pop()
    except IndexError:
        mine = backend().borrow(type)
    mine.host[...] = given
    return mine  # type: ignore[no-any-return]


def _lend_truths(given: np.ndarray[Any, Any], type: ArrayType, free: list[BorrowedBuffer]) -> BorrowedBuffer:
    """As `_lend`, of bools as 0 and 1."""
    return _lend(truths(given), type, free)


_scalar_buffers: Bounded[Any, Any] = Bounded(MAX_SCALARS)


def _scalar_buffer(value: Any, type: ArrayType) -> Any:
    """The buffer of a weak Python scalar; those of common values are made once."""
    if value.__class__ is complex or not value:  # 0.0 and -0.0 are equal, but not the same
        return buffer_of(from_python(value))
    key = (type, value)
    found = _scalar_buffers.get(key)
    if found is None:
        made = from_python(value)
        found = buffer_of(made)
        if math.isinf(value) or not np.isinf(host_of(made)):  # each overflow warns
            _scalar_buffers[key] = found
    return found


def forget_scalars() -> None:
    """Forget the buffers of Python numbers."""
    _scalar_buffers.clear()


# ---- building the output ----------------------------------------------------------------------------------------------


def _building(signature: Signature, made: type[Array], run: str) -> tuple[list[str], dict[str, Any]]:
    """Source that makes the user's output of the results of `run`, its first line calling that; and what it refers to. Arrays
    are made without `__init__`, which takes as long again."""
    types, structure = signature.program.output_types, signature.out_structure
    build = functools.partial(unflatten, structure) if structure is LEAF else structure.unflatten
    new, spread = functools.partial(object.__new__, made), _spread(signature)
    if len(types) > UNROLLED:

        def build_many(outs: Sequence[Any]) -> Any:
            arrays: list[Any] = [new() for _ in types]
            for array, type, out in zip(arrays, types, outs):
                array.type = type
                array._host = None
                array._buffer = out
            if spread is not None:
                lay_on_mesh(spread, arrays)
            return build(arrays)

        return [f"outs = {run}", "return build_many(outs)"], {"build_many": build_many}
    names = [f"out_{i}" for i in range(len(types))]
    scope: dict[str, Any] = {"new": new, "build": build}
    scope |= {f"{name}_type": type for name, type in zip(names, types, strict=True)}
    lines = [f"{', '.join([f'{name}_buffer' for name in names])}, = {run}" if types else run]
    for name in names:
        lines.append(f"{name} = new(); {name}.type = {name}_type; {name}._host = None; {name}._buffer = {name}_buffer")
    if spread is not None:
        lines += made_on_mesh(spread, names, scope)
    if _is_plain(structure, signature.trees):
        spelled, classes = _spelled(structure, iter(names), signature.trees)
        return [*lines, f"return {spelled}"], scope | classes
    return [*lines, f"return build([{', '.join(names)}])"], scope


def _is_plain(structure: TreeDef, trees: Trees, depth: int = 0) -> bool:
    """Whether a structure can be spelled: of its containers none is made by code that looks at what it is made of, but for a
    class of the user's that is called as ever; and Python's parser takes an expression as deep."""
    kind, keys, children = trees.node(structure)
    return kind is None or (
        depth < MAX_DEPTH
        and (kind in (NoneType, tuple, list, dict) or trees.fields(structure) is not None)
        and all([key.__class__ is str for key in keys])
        and all([_is_plain(child, trees, depth + 1) for child in children])
    )


def _spelled(structure: TreeDef, names: Iterator[str], trees: Trees) -> tuple[str, dict[str, Any]]:
    """The source of a tree of names, and the classes that it refers to."""
    classes: dict[str, Any] = {}

    def spell(structure: TreeDef) -> str:
        kind, keys, children = trees.node(structure)
        if kind is None:
            return next(names)
        if kind is NoneType:
            return "None"
        inner = list(map(spell, children))
        if kind is dict:
            parts = dict(zip(keys, inner, strict=True))
            return f"{{{', '.join([f'{key!r}: {parts[key]}' for key in trees.keys_in_order(structure)])}}}"
        if kind is list:
            return f"[{', '.join(inner)}]"
        if kind is tuple:
            return f"({''.join([f'{part}, ' for part in inner])})"
        name = f"class_{len(classes)}"
        classes[name] = kind
        if not issubclass(kind, tuple):
            inner = [f"{field}={part}" for field, part in zip(trees.fields(structure) or (), inner, strict=True)]
        return f"{name}({', '.join(inner)})"

    return spell(structure), classes
