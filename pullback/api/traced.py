"""A user's function of trees traced into a Program, as jit, checkpoint, loops, branches and solvers need it; and for the user
to see: xpr, eval_shape."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, MutableMapping, Sequence
from time import perf_counter
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from pullback.api.functions import Function, argument_name, check_callable, returned_by, trees_of
from pullback.api.large import note_size
from pullback.core.array import Array, ShardedArray, copied, find_converter, placed_type
from pullback.core.axes import axis_sizes
from pullback.core.brief import brief, counted
from pullback.core.dtypes import entering, requested
from pullback.core.errors import EscapedTracerError, RefError
from pullback.core.lazy import lazy_module
from pullback.core.leaks import leak_checked
from pullback.core.modes import current_mode
from pullback.core.refs import Ref
from pullback.core.reports import report
from pullback.core.shardings import NamedSharding, SingleDeviceSharding
from pullback.core.source import api_boundary, describe, name_of
from pullback.core.tracing import Tracer, type_of
from pullback.core.trees import OUT_OF_RESULTS, OWN_TREES, TreeDef, Trees, array_leaf, kind_of, unflatten
from pullback.core.types import ArrayType
from pullback.core.used_keys import drawing_nothing
from pullback.program.program import Program, Variable
from pullback.transforms.simplify import drop_dead_code
from pullback.transforms.stage import stage

if TYPE_CHECKING:
    import inspect
else:
    inspect = lazy_module("inspect")


class Traced(NamedTuple):
    """A function of trees as a Program of their leaves.

    Attributes:
        program: takes the captured values first, then the leaves; its results are what is written to Refs, then the leaves of
            the function's result. captures: the values to pass: tracers that it closes over, then what is in `refs`.
        structure: that of the function's result.
        refs: the Refs of outside that the function uses, if it may write to them; those last that it does write to.
        keys: which leaves are random keys that the function uses up, where that is looked for.
    """

    program: Program
    captures: tuple[Any, ...]
    structure: TreeDef
    refs: Sequence[Ref] = ()
    keys: Sequence[int] = ()

    @property
    def out_types(self) -> tuple[ArrayType, ...]:
        """The types of the leaves of the function's result."""
        return self.program.output_types[len(self.written) :]

    @property
    def written(self) -> Sequence[Ref]:
        """The Refs whose new values come first among the results."""
        return self.refs[len(self.refs) + self.structure.num_leaves - len(self.program.outputs) :]

    def results(self, outs: Sequence[Any]) -> Sequence[Any]:
        """The leaves of the function's result, among those of the Program; the others are written to the Refs."""
        return write_back(self.written, outs)


def keep_traces(fun: Function, kept: MutableMapping[Any, Traced], key: Hashable) -> None:
    """Have `trace` keep what it makes of a function of ours, for each kind of arguments, and give it to the next function of
    the same code with the same `kept` and `key`. It may close over a user's function, always the same, which is taken to be
    pure, as by jit; that function's code, and whatever else it closes over, is in the key."""
    fun._kept_traces = kept, key  # type: ignore[attr-defined]


def _kept(fun: Function, key: tuple[Any, ...]) -> tuple[MutableMapping[Any, Traced], Any]:
    """What is kept of a function, and by which key."""
    if fun.__class__ is not FunctionType or "_kept_traces" not in fun.__dict__:
        return {}, None
    kept, own = fun._kept_traces  # type: ignore[attr-defined]
    key = (fun.__code__, own, *key, current_mode(), axis_sizes())
    try:
        hash(key)
    except TypeError:  # a structure that holds what cannot be hashed
        return {}, None
    return kept, key


def write_back(refs: Sequence[Ref], outs: Sequence[Any]) -> Sequence[Any]:
    """Write to Refs what comes first among results, and give the others."""
    for ref, value in zip(refs, outs):
        ref[...] = value
    return outs[len(refs) :]


def _takes(fun: Function, arguments: Sequence[Any]) -> bool:
    """Whether a function may be called with so many arguments, as far as its signature says."""
    try:
        signature = inspect.signature(fun, follow_wrapped=False)  # ours stand for a user's under its name
    except (TypeError, ValueError):  # it has none
        return True
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


# How functions are called that do not take the arguments that a user passes beside them.
_CALLED = {
    "scan": "f(carry, x)",
    "fori_loop": "body_fun(i, value)",
    "while_loop": "cond_fun(value) and body_fun(value)",
    "cond": "true_fun(*operands) or false_fun(*operands)",
    "switch": "branch(*operands)",
}


def _returned(transformation: str, fun: Function, call: Function, arguments: Sequence[Any]) -> Any:
    """What a function returns; the error where it takes other arguments than it is given says how it is called."""
    try:
        return call(*arguments)
    except TypeError as error:
        if transformation in _CALLED and call is fun and not _takes(fun, arguments):
            raise TypeError(
                f"{transformation} calls its function as {_CALLED[transformation]}: here with"
                f" {counted(len(arguments), 'argument')}, but"
                f" {error}."
            ) from None
        raise


@leak_checked
def trace(
    transformation: str,
    fun: Function,
    structures: Sequence[TreeDef],
    types: Sequence[ArrayType],
    paths: Sequence[str] | Callable[[], Sequence[str]] = (),
    *,
    call: Function | None = None,
    pure: bool = False,
    refs: bool = False,
    trees: Trees | None = None,
    state: Sequence[int] = (),
) -> Traced:
    """Trace a function of as many trees as there are structures, whose leaves have the given types, in order. Arrays of dtype
    float0 belong to the structure of what it returns.

    Arguments:
        transformation: what error messages say is being done to the function.
        fun: the user's function, after which the Program is named.
        paths: how error messages call each leaf, or what finds that out.
        call: what is traced in place of `fun`, where the trees are not its arguments as they are.
        pure: whether `call` depends on nothing but `fun`, so that what is kept of that serves.
        refs: whether it may write to Refs.
        trees: what kind of trees they are, by default those that `fun` takes.
        state: which leaves are the values of Refs, which it may write to.
    """
    checks = current_mode().checks
    serves = (call is None or pure) and not (checks is not None and checks.traces_again())
    kept, key = _kept(fun, (transformation, tuple(structures), tuple(types))) if serves else ({}, None)
    if (known := kept.get(key)) is not None:
        return known
    call = fun if call is None else call
    kind = kind_of(fun) if trees is None else trees
    name, arguments = name_of(fun), paths() if callable(paths) else paths

    def record() -> Traced:
        result: list[TreeDef] = []
        keys: Sequence[int] = ()

        def flat(*leaves: Any) -> list[Any]:
            nonlocal keys
            out = kind.without_float0(_returned(transformation, fun, call, trees_of(structures, leaves)))
            outs, structure = kind.array_leaves(out, lambda: returned_by(fun), keep_out=OUT_OF_RESULTS)
            result.append(structure)
            if checks is not None:
                keys = checks.keys_used(leaves)
            return outs

        used: list[Ref] | None = [] if refs else None
        given: dict[str, Any] = {"described": fun, "arguments": arguments, "transformation": transformation, "refs": used}
        program, captures = stage(flat, types, name=name, **given)
        return Traced(program, captures, result[0], used or (), keys)

    started, values = perf_counter(), copied.count
    traced = record() if checks is None else checks.trace(transformation, fun, arguments, record, state)
    report("Finished tracing %s for %s in %.6f sec", name, transformation, perf_counter() - started)
    note_size(transformation, fun, traced.program)
    if not traced.captures and copied.count == values:  # what closes over tracers, or NumPy's arrays, serves this call only
        kept[key] = traced
    return traced


def shared_captures(traced: Sequence[Traced]) -> tuple[list[Any], list[Ref], list[Program]]:
    """What several functions capture, each value once, those of the Refs last that one of them writes to; these Refs; and the
    Programs, all of which take the captures in front, and return first what is then in the Refs."""
    if not any([one.captures for one in traced]):
        return [], [], [one.program for one in traced]
    captures: dict[Any, Any] = {}
    for one in traced:
        captures |= dict(zip(_names(one), one.captures))
    written = list(dict.fromkeys([ref for one in traced for ref in one.written]))
    captures |= {ref: captures.pop(ref) for ref in written}
    programs = []
    for one in traced:
        program, split = one.program, len(one.captures)
        own = dict(zip(_names(one), program.inputs))
        inputs = {name: own.get(name) or Variable(type_of(value)) for name, value in captures.items()}
        state = inputs | dict(zip(one.written, program.outputs))
        outputs = [*[state[ref] for ref in written], *program.outputs[len(one.written) :]]
        arguments = [*inputs.values(), *program.inputs[split:]]
        programs.append(Program(arguments, program.equations, outputs, program.constants, program.name, program.batch_axes))
    return list(captures.values()), written, programs


def _names(traced: Traced) -> list[Any]:
    """What tells the captures of several functions apart: a tracer by itself, the value of a Ref by the Ref."""
    tracers = len(traced.captures) - len(traced.refs)
    return [*[id(tracer) for tracer in traced.captures[:tracers]], *traced.refs]


class TracedCall(NamedTuple):
    """A call of a function, traced: the leaves of its arguments, their paths and types, and the function as a Program."""

    leaves: list[Any]
    paths: list[str]
    types: list[ArrayType]
    traced: Traced


def traced_call(
    transformation: str,
    fun: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    static: Sequence[int] = (),
    static_names: Container[str] = (),
    *,
    refs: bool = False,
    placed: bool = False,
) -> TracedCall:
    """Trace a function for the arguments of one call.

    Arguments:
        refs: whether it may write to Refs.
        placed: whether the Program says of its inputs how the arguments lie on devices.
        static, static_names: the arguments that are handed to the function as they are: numbers of those given by position, of
            which negative ones count from the last, and names of those given by name.
    """
    static = [number % len(args) for number in static if -len(args) <= number < len(args)]
    trees = kind_of(fun)
    fixed = {name: arg for name, arg in kwargs.items() if name in static_names}
    given = tuple([None if i in static else arg for i, arg in enumerate(args)])
    dynamic, kwargs = trees.without_float0((given, {name: arg for name, arg in kwargs.items() if name not in fixed}))
    leaves, structure = trees.flatten((dynamic, kwargs))
    paths = call_paths(fun, dynamic, kwargs, trees)
    leaves = [array_leaf(leaf, lambda path=path: f"argument {path}") for leaf, path in zip(leaves, paths, strict=True)]  # type: ignore[misc]
    types = [placed_type(leaf) if placed and isinstance(leaf, ShardedArray) else type_of(leaf) for leaf in leaves]

    def call(packed: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
        inner, inner_kwargs = packed
        return fun(*[args[i] if i in static else arg for i, arg in enumerate(inner)], **inner_kwargs, **fixed)

    traced = trace(transformation, fun, (structure,), types, paths, call=call, pure=not static and not fixed, refs=refs)
    return TracedCall(leaves, paths, types, traced)


def with_placeholders(tree: Any, trees: Trees = OWN_TREES) -> Any:
    """The tree with an Array without values, which suffices for tracing, in the place of each leaf that stands for an array: an
    `ArrayType`, or another object that has a shape and a dtype, and perhaps a sharding, and no values, as JAX's
    `ShapeDtypeStruct`."""
    leaves, structure = trees.flatten(tree)
    return unflatten(structure, [_placeholder(leaf) for leaf in leaves])


def _placeholder(leaf: Any) -> Any:
    sharding: Any
    if isinstance(leaf, ArrayType):
        plain, sharding = leaf.with_dtype(entering(leaf.dtype), leaf.weak).placed(None, leaf.varying), leaf.sharding
    elif _has_type(leaf) and not isinstance(leaf, (Tracer, Ref)) and not find_converter(type(leaf)):
        plain = ArrayType(leaf.shape, requested(leaf.dtype), bool(getattr(leaf, "weak_type", False)))
        sharding = _sharding_of(leaf, plain)
    else:
        return leaf
    return Array(plain, None) if sharding is None else ShardedArray(plain, sharding, None)


def _has_type(leaf: Any) -> bool:
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


def _sharding_of(leaf: Any, type: ArrayType) -> Any:
    """How an array lies that something stands for; None where nothing, or one device, is said."""
    sharding = getattr(leaf, "sharding", None)
    if sharding is None or isinstance(sharding, SingleDeviceSharding):
        return None
    if not isinstance(sharding, NamedSharding):
        raise TypeError(
            f"{brief(leaf)} stands for an array of sharding {brief(sharding)}, which is no NamedSharding. Give it one over a"
            " mesh, or none."
        )
    sharding.shard_shape(type.shape)  # raises if it does not divide such an array
    return sharding


def call_paths(fun: Function, args: Sequence[Any], kwargs: dict[str, Any], trees: Trees = OWN_TREES) -> list[str]:
    """How error messages call each leaf of a call's arguments: by the parameter's name and the path in its tree."""
    paths = [path for i, arg in enumerate(args) for path in trees.paths(arg, argument_name(fun, i))]
    return paths + [path for name in sorted(kwargs) for path in trees.paths(kwargs[name], name)]


def check_closed(what: str, fun: Function, captures: Sequence[Any]) -> None:
    """Raise unless a function that is to be a Program by itself met no traced values but its own, and no Refs."""
    if captures and not isinstance(captures[0], Tracer):
        raise RefError(
            f"{what} of {describe(fun)} met a Ref that was made outside of it. A Program is closed: pass its value, ref[...],"
            " as an argument, or make the Ref in the function."
        )
    if captures:
        raise EscapedTracerError(
            f"{what} of {describe(fun)} met a traced value of {captures[0].owner.describe()}, which encloses it."
            " A Program is closed: pass the value as an argument."
        )


# ---- for the user to see ----------------------------------------------------------------------------------------------


def _record(fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any], what: str) -> Traced:
    check_callable(fun, what)
    args, kwargs = with_placeholders((args, kwargs), kind_of(fun))
    with drawing_nothing():
        traced = traced_call(what, fun, args, kwargs, refs=what == "eval_shape", placed=what == "xpr").traced
    if what == "xpr":
        check_closed(what, fun, traced.captures)
    return traced._replace(program=drop_dead_code(traced.program))


@api_boundary
def xpr(fun: Function, *args: Any, **kwargs: Any) -> Program:
    """The Program that a function is for arguments like these: every operation that its result needs, typed, in order.

    Arguments:
        fun: a function of arrays and pytrees; any transformation of one.
        args, kwargs: what to call it with; an `ArrayType` serves for an array.

    Returns:
        A `Program`. Its inputs are the leaves of the arguments from left to right, its outputs those of the result.

    Raises:
        LeafError: a leaf of the arguments or of the result is neither an array, nor a number, nor an ArrayType.

    Example:
        >>> import pullback as pb
        >>> print(pb.xpr(lambda x: 2.0 * x + 1.0, pb.ArrayType((3,), "float32")))
        { lambda (a:f32[3]:cpu(0)) ;
          let
            b:f32[3]:cpu(0) = mul 2.0 a
            c:f32[3]:cpu(0) = add b 1.0
          in c }
    """
    return _record(fun, args, kwargs, "xpr").program


@api_boundary
def eval_shape(fun: Function, *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes of a function's results, without computing them.

    Arguments:
        fun: a function of arrays and pytrees.
        args, kwargs: what to call it with; an `ArrayType` serves for an array.

    Returns:
        The tree of the result, with an `ArrayType` for each array.

    Raises:
        LeafError: a leaf of the arguments or of the result is neither an array, nor a number, nor an ArrayType.

    Example:
        >>> import pullback as pb
        >>> pb.eval_shape(lambda x: {"total": pb.numpy.sum(x)}, pb.ArrayType((3,), "float32"))
        {'total': f32[]}
    """
    traced = _record(fun, args, kwargs, "eval_shape")
    return unflatten(traced.structure, traced.out_types)
