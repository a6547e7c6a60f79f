"""What a jitted function is ahead of time: traced, lowered, compiled, for one signature."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from pullback.api.dispatch import Signature
from pullback.api.functions import argument_name
from pullback.api.shardings import lies_as
from pullback.api.signatures import argument_differs, static_text
from pullback.api.traced import check_closed
from pullback.control.call import bind_call
from pullback.core.array import PlacedArray, ShardedArray, host_of
from pullback.core.brief import brief
from pullback.core.bundles import pack
from pullback.core.errors import (
    DeviceError,
    DtypeError,
    ExportError,
    ShapeError,
    ShardingMismatch,
    StaticArgumentError,
    StructureError,
)
from pullback.core.source import api_class, describe
from pullback.core.tracing import Tracer, innermost_staging
from pullback.core.tree_forms import tree_data
from pullback.core.trees import OWN_TREES, TreeDef, structure_of, unflatten
from pullback.core.types import ArrayType
from pullback.engine.compile import lower_to_text, numbered_executable
from pullback.engine.jaxlib import jaxlib
from pullback.engine.partition import mesh_of
from pullback.engine.shipping import ship
from pullback.native.choice import Choice
from pullback.program.program import Program
from pullback.program.provenance import name_stack


def flags_of(what: str, compiler_options: Mapping[str, Any] | None) -> tuple[tuple[str, Any], ...]:
    """Options of XLA's as the back end takes them."""
    given = {} if compiler_options is None else compiler_options
    if not isinstance(given, Mapping) or not all([isinstance(name, str) for name in given]):
        raise TypeError(
            f"{what} takes compiler_options as a dict of the names of XLA's options and their values, but got {brief(given)}."
        )
    return tuple(sorted(given.items()))


class _AheadOfTime:
    """A jitted function for one signature: that of calls with these static arguments, and dynamic ones of this structure.

    Attributes:
        program: the function as a Program of the leaves of its arguments.
        in_tree: the structure of `(args, kwargs)`, with None in the place of static arguments.
        in_types: the types of its leaves.
        out_tree: the structure of the result. out_info: the result, with the type of each array in its place; also `out_types`.
    """

    def __init__(self, jitted: Any, signature: Signature) -> None:
        self._jitted = jitted
        self._fun = jitted._fun
        self._signature = signature
        self._statics = signature.statics

    @property
    def program(self) -> Program:
        """The function as a Program of the leaves of its arguments.

        Example:
            >>> import pullback as pb
            >>> pb.jit(lambda x: x + 1.0).trace(1.0).program
            <Program <lambda>: (~f32[]) -> (~f32[]), 1 equations>
        """
        return self._signature.program

    @property
    def in_tree(self) -> TreeDef:
        """The structure of `(args, kwargs)`, with None in the place of static arguments.

        Example:
            >>> import pullback as pb
            >>> pb.jit(lambda x: x + 1.0).trace(1.0).in_tree == pb.tree.structure(((1.0,), {}))
            True
        """
        return self._signature.structure

    @property
    def in_types(self) -> tuple[ArrayType, ...]:
        """The types of the leaves of the arguments.

        Example:
            >>> import pullback as pb
            >>> pb.jit(lambda x: x + 1.0).trace(pb.numpy.zeros(3)).in_types
            (f32[3],)
        """
        return self.program.input_types

    @property
    def donated(self) -> tuple[bool, ...]:
        """For each leaf of the arguments, whether its memory may be taken for results.

        Example:
            >>> import pullback as pb
            >>> pb.jit(lambda x, y: x + y, donate_argnums=0).trace(1.0, 2.0).donated
            (True, False)
        """
        return self._signature.donated or (False,) * len(self.in_types)

    @property
    def out_tree(self) -> TreeDef:
        """The structure of the result.

        Example:
            >>> import pullback as pb
            >>> pb.jit(lambda x: {"y": x}).trace(1.0).out_tree == pb.tree.structure({"y": 1.0})
            True
        """
        return self._signature.out_structure

    @property
    def out_info(self) -> Any:
        """The result, with the type of each array in its place; also called `out_types`.

        Example:
            >>> import pullback as pb
            >>> pb.jit(lambda x: {"y": x > 0.0}).trace(pb.numpy.zeros(3)).out_info
            {'y': bool[3]}
        """
        return unflatten(self._signature.out_structure, self.program.output_types)

    out_types = out_info

    def _dynamic_tree(self) -> TreeDef:
        """The structure of the arguments without those that are static."""
        if self._signature.trees is not OWN_TREES:
            raise ExportError("it takes another library's trees, not pullback's.")
        structure = self._signature.structure
        args, kwargs = unflatten(structure, range(structure.num_leaves))
        static = {which for part in self._statics for which, _ in part}
        return structure_of((tuple([arg for i, arg in enumerate(args) if i not in static]), kwargs))

    def __copy__(self) -> Self:  # nothing of it changes
        return self

    def __reduce__(self) -> Any:
        raise TypeError(
            f"A {type(self).__name__} cannot be pickled or deeply copied, since it belongs to the process that made it."
            " Pickle its `program`, or the jitted function, and lower that again. What is compiled has bytes: `serialize`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {describe(self._fun)}>"


@api_class
class Traced(_AheadOfTime):
    """A function traced for one signature.

    Example:
        >>> import pullback as pb
        >>> pb.jit(lambda x: x + 1.0).trace(pb.numpy.zeros(3)).program
        <Program <lambda>: (f32[3]) -> (f32[3]), 1 equations>
    """

    @property
    def fun_name(self) -> str:
        """The name of the function.

        Example:
            >>> import pullback as pb
            >>> pb.jit(lambda x: x + 1.0).trace(1.0).fun_name
            '<lambda>'
        """
        return self.program.name

    def lower(self) -> Lowered:
        """Lower now.

        Returns:
            A `Lowered`.

        Raises:
            EscapedTracerError: the function closes over a traced value of a transformation around this call.

        Example:
            >>> import pullback as pb
            >>> "stablehlo.add" in pb.jit(lambda x: x + 1.0).trace(1.0).lower().as_text()
            True
        """
        check_closed("lower", self._fun, self._signature.captures)
        lowered: Lowered = self._jitted._stages[1](self._jitted, self._signature)
        return lowered


@api_class
class Lowered(_AheadOfTime):
    """A function lowered for one signature: its StableHLO, not compiled yet.

    Example:
        >>> import pullback as pb
        >>> pb.jit(lambda x: x + 1.0).lower(1.0).compile()(2.0)
        3.0:f32[]:cpu(0)
    """

    def as_text(self, dialect: str | None = None, *, debug_info: bool = True) -> str:
        """The StableHLO module, with the user's lines, unless `debug_info` is False; or the HLO that XLA begins with.

        Arguments:
            dialect: "stablehlo", or None, which means it; or "hlo".
            debug_info: whether to give the user's lines, in StableHLO.

        Returns:
            A string.

        Raises:
            ValueError: another dialect.

        Example:
            >>> import pullback as pb
            >>> "stablehlo.add" in pb.jit(lambda x: x + 1.0).lower(1.0).as_text(debug_info=False)
            True
        """
        if dialect not in (None, "stablehlo", "hlo"):
            raise ValueError(
                f"as_text gives 'stablehlo' or 'hlo', not {brief(dialect)}. HLO as XLA optimizes it is .compile().as_text()."
            )
        text = lower_to_text(self.program, self._signature.options, self._signature.donated, name_stack if debug_info else None)
        return jaxlib().hlo(text) if dialect == "hlo" else text

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate for the optimized program; compiles it.

        Returns:
            A dict of numbers by what they count.

        Example:
            >>> import pullback as pb
            >>> pb.jit(lambda x: x + 1.0).lower(pb.numpy.zeros(8)).cost_analysis()["flops"]
            8.0
        """
        return self.compile().cost_analysis()

    def compile(self, compiler_options: Mapping[str, Any] | None = None) -> Compiled:
        """Compile now.

        Arguments:
            compiler_options: options of XLA's with their values, as in XLA_FLAGS but for this executable alone.

        Returns:
            A `Compiled`.

        Example:
            >>> import pullback as pb
            >>> pb.jit(lambda x: x + 1.0).lower(1.0).compile()(2.0)
            3.0:f32[]:cpu(0)
        """
        given, flags = self._signature.options, flags_of("compile", compiler_options)
        own = given._replace(flags=(*given.flags, *flags), native=False, tiered=False)
        signature = dataclasses.replace(self._signature, options=own, executable=None, fast_paths=None)
        signature.compile()
        compiled: Compiled = self._jitted._stages[2](self._jitted, signature)
        return compiled


def leaves_of(lowered: Lowered, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arrays of a call that a function was lowered for."""
    signature = lowered._signature
    _, dynamic = lowered._jitted._split(args, kwargs)
    found: list[Any] = signature.trees.array_leaves(signature.trees.without_float0(dynamic), lambda: "argument")[0]
    return found


def numbered_run(lowered: Lowered, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Callable[[], Sequence[Any]], str]:
    """The program that a call would run, compiled to be profiled: what runs it on these arguments, which it leaves as they are,
    and its text, in which each operation has the id of the equation that it comes from."""
    leaves = leaves_of(lowered, args, kwargs)
    executable, text = numbered_executable(lowered.program, lowered._signature.options)
    return lambda: executable(leaves), text


@api_class
class Compiled(_AheadOfTime):
    """A function compiled for one signature. Call it with arguments of those shapes and dtypes; it never traces again.

    Static arguments are left out, or given as they were to `lower`.

    Example:
        >>> import pullback as pb
        >>> compiled = pb.jit(lambda x: x + 1.0).lower(pb.numpy.zeros(2)).compile()
        >>> compiled(pb.numpy.array([1.0, 2.0]))
        [2. 3.]:f32[2]:cpu(0)
    """

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        statics, dynamic = self._given(args, kwargs)
        if any(statics) and statics != self._statics:
            raise StaticArgumentError(
                f"{describe(self._fun)} was compiled for other static arguments: {self._other_static(statics)}. Call the"
                " jitted function itself, which compiles again."
            )
        trees = self._signature.trees
        leaves, structure = trees.array_leaves(trees.without_float0(dynamic), lambda: "argument")
        says = "{} was compiled for other arguments: {}. Call the jitted function instead, which compiles for new ones{}."
        if structure is not self._signature.structure and structure != self._signature.structure:
            where = argument_differs(self._fun, structure, self._signature.structure, "it was compiled for", trees)
            raise StructureError(says.format(describe(self._fun), where, ""))
        for index, (leaf, type) in enumerate(zip(leaves, self._signature.program.input_types)):
            if leaf.type is not type and (leaf.type.shape, leaf.type.dtype) != (type.shape, type.dtype):
                where = f"{self._jitted._paths(*dynamic)[index]} is {leaf.type} where it was compiled for {type}"
                error = ShapeError if leaf.type.shape != type.shape else DtypeError
                raise error(says.format(describe(self._fun), where, ", or convert the argument"))
        for index, (leaf, variable) in enumerate(zip(leaves, self._signature.program.inputs)):
            if isinstance(leaf, ShardedArray) and not lies_as(leaf, variable.sharding):
                wanted = str(variable.placed_type) + ("" if variable.sharding is None else f" on {variable.sharding.mesh}")
                where = f"{self._jitted._paths(*dynamic)[index]} lies as {leaf.placed_type} on {leaf.sharding.mesh}"
                where = f"{where} where it was compiled for {wanted}"
                raise ShardingMismatch(says.format(describe(self._fun), where, ", or move it"))
            device = self._signature.options.device
            if isinstance(leaf, PlacedArray) and leaf.device != device and mesh_of(self._signature.program) is None:
                where = f"{self._jitted._paths(*dynamic)[index]} is on {leaf.device} where it was compiled for {device}"
                raise DeviceError(says.format(describe(self._fun), where, ", or move it"))
        if any(isinstance(leaf, Tracer) for leaf in leaves):
            raise TypeError(
                f"{describe(self._fun)} was compiled ahead of time, so it cannot be transformed; transform the jitted function."
            )
        around = innermost_staging()
        if around is not None and around.evaluates:  # somebody looks at results, and then runs the operations one by one
            return unflatten(self._signature.out_structure, bind_call(self._signature.program, leaves))
        return self._signature.run(leaves)

    def _other_static(self, statics: Any) -> str:
        """The first static argument of a call that is not what it was compiled for, in words."""
        given, wanted = [dict([item for part in parts for item in part]) for parts in (statics, self._statics)]
        which = next(which for which in {**wanted, **given} if given.get(which) != wanted.get(which))
        own, expected = [static_text(found[which]) if which in found else "missing" for found in (given, wanted)]
        return f"{argument_name(self._fun, which) if isinstance(which, int) else which} is {own}, and was {expected}"

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """The static arguments of a call, which may also be left out, and the dynamic ones."""
        numbered = dict(self._statics[0]) if self._statics else {}
        count = len(self._signature.structure.children()[0].children())
        if not numbered or len(args) != count - len(numbered):
            given_now: tuple[Any, Any] = self._jitted._split(args, kwargs)
            return given_now
        (_, named), (_, dynamic) = self._jitted._split((), kwargs)
        given = iter(args)
        filled = tuple([None if i in numbered else next(given) for i in range(count)])
        return (self._statics[0] if named else (), named), (filled, dynamic)

    def explain(self) -> Choice:
        """Who runs it, as `explain` of a jitted function says it: XLA, always.

        Returns:
            A record with the `tier` and the `reason`.

        Example:
            >>> import pullback as pb
            >>> print(pb.jit(lambda x: x + 1.0).lower(1.0).compile().explain())
            xla: it was compiled ahead of time.
        """
        return Choice("xla", "it was compiled ahead of time.")

    def as_text(self) -> str:
        """The optimized program, as XLA prints it (HLO).

        Returns:
            A string.

        Example:
            >>> import pullback as pb
            >>> pb.jit(lambda x: x + 1.0).lower(1.0).compile().as_text()[:9]
            'HloModule'
        """
        return self._signature.compile().optimized_text()

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimate of the work: `flops`, `bytes accessed`, `transcendentals`, ...

        Returns:
            A dict of numbers by what they count.

        Example:
            >>> import pullback as pb
            >>> pb.jit(lambda x: x + 1.0).lower(pb.numpy.zeros(8)).compile().cost_analysis()["flops"]
            8.0
        """
        return self._signature.compile().cost_analysis()

    def serialize(self) -> bytes:
        """The executable as bytes, which `pb.export.load_executable` runs in another process, without compiling, on a machine
        with the same processor and jaxlib. Static arguments are in it.

        Returns:
            Bytes. The arrays that the function closes over are in them.

        Raises:
            ExportError: the function calls Python, or an argument or the result has a container without a name.

        Example:
            >>> import pullback as pb
            >>> data = pb.jit(lambda x: x + 1.0).lower(1.0).compile().serialize()
            >>> pb.export.load_executable(data)(2.0)
            3.0:f32[]:cpu(0)
        """
        try:
            name, program, options = self.program.name, self.program, self._signature.options
            in_tree, out_tree = tree_data(self._dynamic_tree(), "its arguments"), tree_data(self.out_tree, "its result")
            found = ship(program, options, self._signature.donated, self._signature.compile())
        except ExportError as error:
            raise ExportError(f"The executable of {describe(self._fun)} cannot be exported, since {error}") from None
        header = {
            "name": name,
            "in_tree": in_tree,
            "out_tree": out_tree,
            "in_types": list(map(str, program.input_types)),
            "out_types": list(map(str, program.output_types)),
            "donated": list(self._signature.donated),
            "device": [options.device.platform, options.device.id],
            "committed": options.committed,
            "constants": [str(array.type) for array in found.constants],
            "facts": found.facts,
        }
        return pack("executable", header, [found.code, *[host_of(array).tobytes() for array in found.constants]])

    def memory_analysis(self) -> dict[str, int]:
        """Bytes of arguments, outputs, temporaries and code, as XLA reports them: `temp_size_in_bytes`, ...

        Returns:
            A dict of numbers by what they count.

        Example:
            >>> import pullback as pb
            >>> pb.jit(lambda x: x + 1.0).lower(pb.numpy.zeros(8)).compile().memory_analysis()["output_size_in_bytes"]
            32
        """
        return self._signature.compile().memory_analysis()
