"""Exported: a function as StableHLO, with the types and the trees of its arguments and results, to be called like it."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pullback.api.compiled import jit
from pullback.api.custom import custom_vjp
from pullback.api.functions import check_flags
from pullback.core.brief import brief
from pullback.core.bundles import pack
from pullback.core.dtypes import is_inexact
from pullback.core.errors import ExportError, GradientError
from pullback.core.meshes import AbstractMesh
from pullback.core.source import api_boundary
from pullback.core.spec_forms import Shardings, specs_data
from pullback.core.tree_forms import tree_data
from pullback.core.trees import TreeDef, array_leaves, check_like, unflatten
from pullback.core.types import ArrayType
from pullback.engine.portable import PortableModule
from pullback.export.operation import call_flat
from pullback.export.programs import program_data
from pullback.program.equality import Keyed
from pullback.program.program import Program


class Exported(Keyed):
    """A function for arguments of certain types, as StableHLO: what `pb.export.export(f)(*args)` and `deserialize` return.

    Pickles of it have no derivatives and no Program, as its bytes have none unless `serialize` is asked for them.

    Attributes:
        fun_name: the function's name.
        in_tree: the structure of `(args, kwargs)`, without static arguments. in_types: the types of its leaves.
        out_tree: the structure of the result. out_types: the types of its leaves.
        platforms: those for which there is StableHLO.
        made_by: the versions of jaxlib and of StableHLO that it was made with.
        mesh: the mesh on which it computes, without devices; None for one device. nr_devices: how many devices that takes.
        in_shardings, out_shardings: how each leaf of the arguments and of the result lies on it; None where that is not said.
        program: the Program that the StableHLO was made of, which transformations work on; None if there is none.
        digest: SHA-256 of the StableHLO and of what it says above; functions are equal if their trees and derivatives are, too.

    Example:
        >>> import pullback as pb
        >>> exported = pb.export.export(pb.jit(lambda x: {"y": 2.0 * x}))(pb.ArrayType((3,), "float32"))
        >>> exported.call(pb.numpy.ones(3))
        {'y': [2. 2. 2.]:f32[3]:cpu(0)}
        >>> exported.in_types, exported.out_types, exported.platforms
        ((f32[3],), (f32[3],), ('cpu',))
    """

    __slots__ = (
        "_jitted", "_make_vjp", "_modules", "_vjp", "digest", "fun_name", "in_shardings", "in_tree", "in_types", "made_by",
        "mesh", "out_shardings", "out_tree", "out_types", "program", "run",
    )  # fmt: skip

    def __init__(
        self,
        fun_name: str,
        trees: tuple[TreeDef, TreeDef],
        types: tuple[Sequence[ArrayType], Sequence[ArrayType]],
        shardings: tuple[Shardings, Shardings],
        mesh: AbstractMesh | None,
        modules: Mapping[str, PortableModule],
        made_by: Mapping[str, str],
        make_vjp: functools.partial[Exported] | None,
        program: Program | None,
    ) -> None:
        self.fun_name = fun_name
        self.in_tree, self.out_tree = trees
        self.in_types, self.out_types = map(tuple, types)
        self.mesh = mesh
        self.in_shardings, self.out_shardings = map(tuple, shardings)
        self.made_by = dict(made_by)
        self._modules = dict(modules)
        self._make_vjp = make_vjp
        self.program = program
        self._vjp: Exported | None = None
        parts = [[name, str(self.in_types), str(self.out_types), repr(one.facts)] for name, one in self._modules.items()]
        text = repr([fun_name, *parts, self.mesh, self.in_shardings, self.out_shardings]).encode()
        self.digest = hashlib.sha256(b"".join([text, *[one.data for one in self._modules.values()]])).hexdigest()
        self.key = self.digest, trees, program, make_vjp and (make_vjp.func, make_vjp.args)
        has_rule = program is None and make_vjp is not None
        self.run: Callable[..., Any] = _with_rule(self) if has_rule else functools.partial(call_flat, self)
        self._jitted = jit(_on_trees(self))  # so that a call like one before takes as long as that of a jitted function

    @property
    def in_avals(self) -> tuple[ArrayType, ...]:
        """The types of the leaves of the arguments; JAX's name of `in_types`.

        Example:
            >>> import pullback as pb
            >>> pb.export.export(pb.jit(lambda x: x > 0.0))(1.0).in_avals
            (~f32[],)
        """
        return self.in_types

    @property
    def out_avals(self) -> tuple[ArrayType, ...]:
        """The types of the leaves of the result; JAX's name of `out_types`.

        Example:
            >>> import pullback as pb
            >>> pb.export.export(pb.jit(lambda x: x > 0.0))(1.0).out_avals
            (bool[],)
        """
        return self.out_types

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms for which there is StableHLO.

        Example:
            >>> import pullback as pb
            >>> pb.export.export(pb.jit(lambda x: x + 1.0), platforms=("cpu", "cuda"))(1.0).platforms
            ('cpu', 'cuda')
        """
        return tuple(self._modules)

    @property
    def nr_devices(self) -> int:
        """On how many devices it computes.

        Example:
            >>> import pullback as pb
            >>> pb.export.export(pb.jit(lambda x: x + 1.0))(1.0).nr_devices
            1
        """
        return 1 if self.mesh is None else self.mesh.size

    @api_boundary
    def call(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function, with arguments of the shapes, dtypes and structure that it was exported for.

        It can be called in jit, where it becomes a part of the program. All transformations work where there is its Program, in
        the process that exported it for one device and after `serialize(program=True)`: so `pb.vmap` takes a batch of any
        size. Without the Program vmap calls it for one element after the other, in a loop, and it has reverse mode as far as
        `serialize(vjp_order=...)` was asked for it.

        Arguments:
            args, kwargs: the function's arguments, without static ones.

        Returns:
            What the function returns.

        Raises:
            StructureError, ShapeError, DtypeError: it was exported for other arguments.
            ExportError: it was exported for other platforms. GradientError: it has no such derivative.

        Example:
            >>> import pullback as pb
            >>> exported = pb.export.export(pb.jit(lambda x: x * x))(1.0)
            >>> pb.vmap(exported.call)(pb.numpy.asarray([1.0, 2.0])), pb.grad(exported.call)(3.0)
            ([1. 4.]:f32[2]:cpu(0), 6.0:f32[]:cpu(0))
        """
        return self._jitted(*args, **kwargs)

    def has_vjp(self) -> bool:
        """Whether it has reverse mode.

        Returns:
            True or False.

        Example:
            >>> import pullback as pb
            >>> exported = pb.export.export(pb.jit(lambda x: x * x))(1.0)
            >>> exported.has_vjp(), pb.export.deserialize(exported.serialize()).has_vjp()
            (True, False)
        """
        return self._make_vjp is not None

    def vjp(self) -> Exported:
        """The exported function of the leaves of the arguments, and of a cotangent for each leaf of the result that is floating
        or complex, in this order, that returns the tuple of the cotangents of those arguments that are floating or complex.

        Returns:
            An `Exported`.

        Raises:
            GradientError: it was serialized without.

        Example:
            >>> import pullback as pb
            >>> pb.export.export(pb.jit(lambda x: x * x))(1.0).vjp().call(3.0, 1.0)
            (6.0:f32[]:cpu(0),)
        """
        if self._vjp is None:
            if self._make_vjp is None:
                raise self._no_derivative()
            self._vjp = self._make_vjp()
        return self._vjp

    def _no_derivative(self) -> GradientError:
        """The error for a derivative that was not exported."""
        return GradientError(
            f"{self.fun_name} was exported without this derivative. All of them travel with exported.serialize(program=True);"
            " reverse mode alone as far as it is asked for, with exported.serialize(vjp_order=1), or 2 for second derivatives."
        )

    @api_boundary
    def mlir_module(self, platform: str | None = None) -> str:
        """The StableHLO module, as text: its function `main` takes the leaves of the arguments and returns those of the result.

        Arguments:
            platform: one of `platforms`; by default the first.

        Returns:
            A string.

        Raises:
            ExportError: it was not exported for that platform.

        Example:
            >>> import pullback as pb
            >>> "stablehlo.add" in pb.export.export(pb.jit(lambda x: x + 1.0))(1.0).mlir_module()
            True
        """
        return self._module(self.platforms[0] if platform is None else platform).text()

    @api_boundary
    def mlir_module_serialized(self, platform: str | None = None) -> bytes:
        """The StableHLO module, as a portable artifact, which other tools for StableHLO read.

        Arguments:
            platform: one of `platforms`; by default the first.

        Returns:
            Bytes.

        Raises:
            ExportError: it was not exported for that platform.

        Example:
            >>> import pullback as pb
            >>> pb.export.export(pb.jit(lambda x: x + 1.0))(1.0).mlir_module_serialized()[:4]
            b'ML\\xefR'
        """
        return self._module(self.platforms[0] if platform is None else platform).data

    def _module(self, platform: str) -> PortableModule:
        """What there is for a platform."""
        if platform not in self._modules:
            listed = ", ".join(map(repr, self.platforms))
            raise ExportError(
                f"{self.fun_name} was exported for {listed}, not for {platform!r}. Export it with"
                f" pb.export.export(f, platforms=({listed}, {platform!r})), or put its arguments on a device of those."
            )
        return self._modules[platform]

    @api_boundary
    def serialize(self, vjp_order: int = 0, *, program: bool = False) -> bytes:
        """The function as bytes, which `pb.export.deserialize` reads, in another process and by later versions of jaxlib too.

        Arguments:
            vjp_order: how many times it can be differentiated there, in reverse mode, by StableHLO that goes along.
            program: whether the Program goes along, as JSON: then all transformations work there, and a batch of any size is
                one program. It is read by versions of pullback that have its operations.

        Returns:
            Bytes: with a version, a checksum, and the versions of what made them.

        Raises:
            ExportError: a container in the arguments or the result has no name; or there is no Program that can be written,
                since it computes on a mesh, or holds Python functions, as those with rules of their own do.
            GradientError: there is no such derivative.

        Example:
            >>> import pullback as pb
            >>> data = pb.export.export(pb.jit(lambda x: x**3))(1.0).serialize(vjp_order=2)
            >>> loaded = pb.export.deserialize(data)
            >>> pb.grad(loaded.call)(2.0), pb.grad(pb.grad(loaded.call))(2.0)
            (12.0:f32[]:cpu(0), 12.0:f32[]:cpu(0))

            >>> data = pb.export.export(pb.jit(lambda x: x @ x))(pb.ArrayType((3,), "float32")).serialize(program=True)
            >>> pb.vmap(pb.export.deserialize(data).call)(pb.numpy.ones((4, 3)))
            [3. 3. 3. 3.]:f32[4]:cpu(0)
        """
        if isinstance(vjp_order, bool) or not isinstance(vjp_order, int) or vjp_order < 0:
            raise ValueError(f"serialize takes a vjp_order of 0, 1, 2, ..., not {brief(vjp_order)}.")
        check_flags("serialize", program=program)
        try:
            trees = {"in_tree": tree_data(self.in_tree, "its arguments"), "out_tree": tree_data(self.out_tree, "its result")}
        except ExportError as error:
            raise ExportError(f"{self.fun_name} cannot be exported: {error}") from None
        header = {
            "name": self.fun_name,
            **trees,
            "in_types": list(map(str, self.in_types)),
            "out_types": list(map(str, self.out_types)),
            "mesh": None if self.mesh is None else [list(self.mesh.axis_sizes), list(self.mesh.axis_names)],
            "in_specs": specs_data(self.in_shardings),
            "out_specs": specs_data(self.out_shardings),
            "platforms": {name: one.facts for name, one in self._modules.items()},
            "made_by": self.made_by,
            "vjp_order": vjp_order,
            "program": bool(program),
        }
        further = [self.vjp().serialize(vjp_order - 1)] if vjp_order else []
        further += [program_data(self.program, self.fun_name, self.mesh is not None)] if program else []
        return pack("function", header, [*[one.data for one in self._modules.values()], *further])

    @property
    def printed(self) -> str:
        """What printed Programs show in its place.

        Example:
            >>> import pullback as pb
            >>> pb.export.export(pb.jit(lambda x: x + 1.0))(1.0).printed
            'exported <lambda>'
        """
        return f"exported {self.fun_name}"

    def __copy__(self) -> Exported:  # nothing of it changes
        return self

    def __deepcopy__(self, memo: Any) -> Exported:
        return self

    def __repr__(self) -> str:
        types = ["(" + ", ".join(map(str, some)) + ")" for some in (self.in_types, self.out_types)]
        return f"<exported {self.fun_name}: {types[0]} -> {types[1]}, for {', '.join(self.platforms)}>"


# ---- how it is called ------------------------------------------------------------------------------------------------


def _on_trees(function: Exported) -> Callable[..., Any]:
    """What calls an exported function with arguments as users pass them."""

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves: list[Any] = []
        for name, given, taken in zip(("args", "kwargs"), (args, kwargs), function.in_tree.children(), strict=True):
            found, structure = array_leaves(given, lambda: name)
            wanted = function.in_types[len(leaves) : len(leaves) + taken.num_leaves]
            types = ([leaf.type for leaf in found], wanted) if structure == taken else ((), ())
            check_like(structure, taken, name, "it was exported for", says, types)
            leaves += found
        return unflatten(function.out_tree, function.run(*leaves))

    def says(where: str) -> str:
        return f"{function.fun_name} was exported for other arguments: {where}. Convert it, or export for such ones too."

    call.__name__ = call.__qualname__ = function.fun_name
    return call


def _with_rule(function: Exported) -> Callable[..., Any]:
    """What calls an exported function, with a rule for its derivative, which is exported as well."""
    inexact_in, inexact_out = ([is_inexact(type.dtype) for type in types] for types in (function.in_types, function.out_types))

    def backward(leaves: Any, cotangents: Any) -> Any:
        given = [cotangent for cotangent, flag in zip(cotangents, inexact_out) if flag]
        found = iter(function.vjp().run(*leaves, *given))
        return tuple([next(found) if flag else None for flag in inexact_in])

    def call(*leaves: Any) -> Any:
        return call_flat(function, *leaves)

    call.__name__ = call.__qualname__ = f"exported_{function.fun_name}"
    made = custom_vjp(call)
    made.forward_mode_cure = "What is exported has no forward mode: use"
    made.defvjp(lambda *leaves: (made(*leaves), leaves), backward)
    return made
