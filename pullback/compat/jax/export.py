"""jax.export: pullback's, for functions of JAX's trees.

What is exported is the function of the leaves; the trees travel beside it, as jaxlib writes them. The bytes are of a form of
pullback's: JAX does not read them. Sizes are numbers: there are no symbolic dimensions.
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Sequence
from typing import Any

from pullback.compat.jax.facade import facade
from pullback.compat.jax.jitting import PjitFunction
from pullback.compat.jax.structs import aval_of
from pullback.compat.jax.tree_util import PyTreeDef, default_registry
from pullback.compat.jax.trees import flatten
from pullback.core.bundles import pack, unpack
from pullback.core.errors import ExportError
from pullback.core.source import describe
from pullback.core.trees import structure_of
from pullback.export.exporting import chosen_platforms, export_program
from pullback.export.exporting import deserialize as deserialize_leaves
from pullback.program.equality import Keyed

minimum_supported_calling_convention_version = maximum_supported_calling_convention_version = 1


class Exported(Keyed):
    """A function for arguments of certain types, as StableHLO."""

    def __init__(self, of_leaves: Any, in_tree: PyTreeDef, out_tree: PyTreeDef) -> None:
        self._of_leaves, self.in_tree, self.out_tree = of_leaves, in_tree, out_tree
        self.key = of_leaves, in_tree, out_tree

    fun_name = property(lambda self: self._of_leaves.fun_name)
    in_avals = property(lambda self: tuple(map(aval_of, self._of_leaves.in_types)))
    out_avals = property(lambda self: tuple(map(aval_of, self._of_leaves.out_types)))
    platforms = property(lambda self: self._of_leaves.platforms)
    nr_devices = property(lambda self: self._of_leaves.nr_devices)
    calling_convention_version = maximum_supported_calling_convention_version
    mlir_module_serialized = property(lambda self: self._of_leaves.mlir_module_serialized())

    def mlir_module(self) -> str:
        return str(self._of_leaves.mlir_module())

    def has_vjp(self) -> bool:
        return bool(self._of_leaves.has_vjp())

    def vjp(self) -> Exported:
        """The function of the leaves and of the results' cotangents that returns the arguments' cotangents."""
        found = self._of_leaves.vjp()
        return Exported(found, *[flatten(tree, None)[1] for tree in ((tuple(found.in_types), {}), tuple(found.out_types))])

    def call(self, /, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs), None)
        if structure != self.in_tree:
            raise ValueError(
                f"{self.fun_name} was exported for arguments of the structure {self.in_tree}, but got {structure}."
            )
        return self.out_tree.unflatten(self._of_leaves.call(*leaves))

    def serialize(self, vjp_order: int = 0) -> bytearray:
        trees = [_written(tree, self.fun_name) for tree in (self.in_tree, self.out_tree)]
        return bytearray(pack("function of JAX's trees", {"trees": trees}, [self._of_leaves.serialize(vjp_order)]))

    def __repr__(self) -> str:
        return repr(self._of_leaves)


def _written(tree: PyTreeDef, name: str) -> str:
    try:
        return base64.b64encode(tree.serialize_using_proto()).decode()
    except ValueError:  # jaxlib writes tuples, lists, dicts and None
        raise ExportError(f"{name} cannot be written: {tree} has nodes that are no tuple, list, dict or None.") from None


def export(
    fun_jit: Any, *, platforms: Sequence[str] | None = None, disabled_checks: Sequence[Any] = ()
) -> Callable[..., Exported]:
    """As pb.export.export. Every check is made: `disabled_checks` must be empty."""
    if disabled_checks:
        raise NotImplementedError(f"export leaves no checks out, but got disabled_checks={disabled_checks!r}.")
    if not isinstance(fun_jit, PjitFunction):
        raise ValueError(f"export takes what jax.jit returns, but got {fun_jit!r}: write export(jax.jit(f)).")
    return functools.partial(_exported, fun_jit, platforms)


def _exported(fun: PjitFunction, platforms: Any, /, *args: Any, **kwargs: Any) -> Exported:
    lowered = fun.trace(*args, **kwargs).lower()
    in_tree, out_tree = lowered.in_tree, flatten(lowered.out_info, None)[1]
    of_leaves = structure_of((tuple(range(in_tree.num_leaves)), {})), structure_of(tuple(range(out_tree.num_leaves)))
    try:
        return Exported(export_program(lowered.program, *of_leaves, chosen_platforms(platforms)), in_tree, out_tree)
    except ExportError as error:
        raise ExportError(f"jit of {describe(fun._fun)} cannot be exported, since {error}") from None


def deserialize(blob: Any) -> Exported:
    header, parts = unpack("function of JAX's trees", bytes(blob))
    trees = [PyTreeDef.deserialize_using_proto(default_registry, base64.b64decode(one)) for one in header["trees"]]
    return Exported(deserialize_leaves(parts[0]), *trees)


def is_symbolic_dim(p: Any) -> bool:
    """False: sizes are numbers."""
    return False


facade(globals(), own={"placement": "default_export_platform=default_backend"})
