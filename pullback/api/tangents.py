"""Tangents, cotangents and outputs of user functions: taken apart, held against the types they must have, put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.api.functions import FlatArguments, Function, check_flags, returned_leaves
from pullback.core.array import Array
from pullback.core.brief import brief
from pullback.core.dtypes import RANK, float0, is_inexact, kind
from pullback.core.errors import DtypeError, GradientError, ShapeError, StructureError
from pullback.core.source import describe
from pullback.core.tracing import Tracer, is_float0, live, type_of
from pullback.core.trees import (
    FIELD_AS_STATIC,
    LEAF,
    OWN_TREES,
    TreeDef,
    Trees,
    array_leaf,
    is_attribute,
    kind_of,
    structure_paths,
    unflatten,
)
from pullback.core.types import ArrayType
from pullback.core.zero import ZERO, zeros
from pullback.ops.convert import convert_element_type
from pullback.program.provenance import finishing

_TRACED = object()  # in the place of a traced value


class FlatResult:
    """A flat function that remembers the structure of what the user's function returned.

    Auxiliary data are returned too, behind the outputs, so that they come out as values rather than as tracers.
    """

    __slots__ = ("_aux_leaves", "_aux_structure", "call", "count", "function", "has_aux", "structure", "transformation")

    def __init__(self, call: Callable[[Sequence[Any]], Any], has_aux: bool, transformation: str, function: Function) -> None:
        self.call = call
        if has_aux is not False:
            check_flags(transformation, has_aux=has_aux)
        self.has_aux = has_aux
        self.transformation = transformation
        self.function = function
        self.structure: TreeDef = None
        self.count = 0  # how many of the returned leaves are outputs
        self._aux_leaves: list[Any] = []
        self._aux_structure: TreeDef = None

    def __call__(self, *leaves: Any) -> list[Any]:
        out = self.call(leaves)
        if not self.has_aux:
            if out.__class__ is Array or isinstance(out, Tracer):
                self.structure, self.count = LEAF, 1
                return [out if out.__class__ is Array else live(out)]
            found, self.structure = returned_leaves(self.function, out, True)
            self.count = len(found)
            return found
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            shown = tree_in_brief(out, kind_of(self.function))
            raise StructureError(
                f"{self.transformation} with has_aux=True needs a function that returns a pair, the two-element tuple (output,"
                f" auxiliary), but {describe(self.function)} returned {shown}."
            )
        found, self.structure = returned_leaves(self.function, out[0], True)
        self.count = len(found)
        aux, self._aux_structure = kind_of(self.function).flatten(out[1])
        self._aux_leaves = [_TRACED if isinstance(leaf, Tracer) else leaf for leaf in aux]  # which are not to be held
        return found + [live(leaf) for leaf in aux if isinstance(leaf, Tracer)]

    def output(self, values: Sequence[Any]) -> Any:
        """The user's output, of these values of the leaves that were returned."""
        return values[0] if self.structure is LEAF else unflatten(self.structure, values[: self.count])

    def aux(self, values: Sequence[Any]) -> Any:
        """The auxiliary data, likewise."""
        traced = iter(values[self.count :])
        return unflatten(self._aux_structure, [next(traced) if leaf is _TRACED else leaf for leaf in self._aux_leaves])


class _Shown:
    """A leaf in a tree that is printed."""

    def __init__(self, leaf: Any) -> None:
        self.leaf = leaf

    def __repr__(self) -> str:
        leaf = self.leaf
        if isinstance(leaf, (Array, Tracer, np.ndarray, np.generic)):
            return str(type_of(leaf))
        return describe(leaf) if callable(leaf) and not isinstance(leaf, type) else brief(leaf)


def tree_in_brief(tree: Any, trees: Trees = OWN_TREES) -> str:
    """A tree for an error message, with the types of its arrays in their places: not more than a line of it."""
    leaves, structure = trees.flatten(tree)
    text = repr(unflatten(structure, [_Shown(leaf) for leaf in leaves]))
    if len(text) <= 80:
        return text
    count = f" with {len(tree)} elements" if isinstance(tree, (tuple, list)) else ""
    return f"{text[:77]}... of type {type(tree).__name__}{count}"


def check_tuples(transformation: str, **given: Any) -> None:
    """Raise unless each of these arguments is a tuple or list, which has an entry for each argument of the user's function."""
    for name, value in given.items():
        if not isinstance(value, (tuple, list)):
            raise TypeError(
                f"{transformation} takes its {name} as a tuple or list with an entry for each argument, but got"
                f" {tree_in_brief(value)}. Write ({name},) for a single argument."
            )


def check_pairs(transformation: str, name: str, primals: Any, given: Any) -> None:
    """Raise unless `primals`, and the argument `name`, are two tuples or lists of one length."""
    if not primals.__class__ is given.__class__ is tuple:
        check_tuples(transformation, **{"primals": primals, name: given})
    if len(primals) != len(given):
        raise StructureError(f"{transformation} takes as many {name} as primals, but got {len(given)} for {len(primals)}.")


# ---- tangents and cotangents ------------------------------------------------------------------------------------------


def tangent_leaves(
    transformation: str, trees: Trees, structures: Sequence[TreeDef], primals: Sequence[Any], tangents: Sequence[Any]
) -> list[Any]:
    """The tangents' leaves, each fit for its primal (a leaf, or its type); ZERO for those of integers."""
    found: list[Any] = []
    start = 0
    for number, (structure, tangent) in enumerate(zip(structures, tangents, strict=True)):
        same = structure is LEAF and tangent.__class__ is Array and tangent.type is type_of(primals[start])
        if same and is_inexact(tangent.type.dtype):
            found.append(tangent)
            start += 1
            continue
        root = f"tangents[{number}]"
        leaves = trees.leaves_like(
            tangent,
            structure,
            root,
            f"primals[{number}] has",
            lambda where: f"{transformation} takes tangents like the primals, but {where}.",
        )
        own = primals[start : start + len(leaves)]
        start += len(leaves)
        for index, (leaf, primal) in enumerate(zip(leaves, own, strict=True)):
            found.append(fit_tangent(leaf, type_of(primal), lambda i=index, s=structure, r=root: structure_paths(s, r)[i]))  # type: ignore[misc]
    return found


def fit_tangent(tangent: Any, primal: ArrayType, path: Callable[[], str], what: str = "primal", integers: bool = False) -> Any:
    """A tangent (or cotangent) as an array of its primal's shape and dtype; ZERO for an integer's, unless `integers`."""
    if not is_inexact(primal.dtype) and not integers:
        if tangent is None or is_float0(tangent):
            return ZERO
        if what == "output" and not is_inexact(type_of(array_leaf(tangent, path)).dtype):  # as a tree of ones has it
            return ZERO
        raise GradientError(
            f"{path()} is {tree_in_brief(tangent)}, but its {what} is {primal}: integers and bools have no tangent."
            " Pass None, or zeros of dtype pb.float0."
        )
    value = array_leaf(tangent, path)
    type = type_of(value)
    if type.shape != primal.shape:
        raise ShapeError(f"{path()} has type {type}, but its {what} has type {primal}; the shapes must be equal.")
    other = type.dtype is not primal.dtype
    if other and not (type.weak and RANK[kind(type.dtype)] <= RANK[kind(primal.dtype)]):  # 1 for 1., not 1j
        raise DtypeError(
            f"{path()} has type {type}, but its {what} has type {primal}; the dtypes must be equal. Convert with .astype()."
        )
    if other or (type.weak and not primal.weak):  # a Python number is no reason for a weak derivative
        value = convert_element_type(value, new_dtype=primal.dtype)
    return value


def tangent_result(tangent: Any, primal: ArrayType) -> Any:
    """A tangent as the user gets it: real zeros for ZERO, and what integers have."""
    if not is_inexact(primal.dtype):
        return np.zeros(primal.shape, float0)
    return zeros(primal) if tangent is ZERO else tangent


def weak_as(argument: ArrayType, gradient: Any, forward: bool = False) -> Any:
    """A gradient with respect to an argument, or the tangent of a result, as the user gets it: weak if that is."""
    if not argument.weak or is_float0(gradient) or type_of(gradient).weak:
        return gradient
    with finishing("tangent" if forward else "cotangent"):
        return convert_element_type(gradient, new_dtype=argument.dtype, weak=True)


def cotangent_leaves(
    trees: Trees, cotangent: Any, structure: TreeDef, types: Sequence[ArrayType], integers: bool = False
) -> list[Any]:
    """A cotangent's leaves, each fit for the output that it belongs to; `integers` says whether one of an integer counts."""
    leaves = trees.leaves_like(
        cotangent,
        structure,
        "cotangent",
        "the output has",
        lambda where: f"A cotangent must be a tree like the output, but {where}.",
    )
    return [
        fit_tangent(leaf, type, lambda i=i: structure_paths(structure, "cotangent")[i], "output", integers)  # type: ignore[misc]
        for i, (leaf, type) in enumerate(zip(leaves, types, strict=True))
    ]


def check_inputs(
    transformation: str,
    flat: FlatArguments,
    types: Sequence[ArrayType],
    active: Sequence[bool],
    holomorphic: bool,
    allow_int: bool | None,
    real: bool = False,
) -> None:
    """Raise `GradientError`, naming the leaf, where an argument has no derivative of the kind that was asked for.

    Arguments:
        allow_int: whether integers are accepted; None where that is no option of the transformation's.
        real: whether complex arguments are only for holomorphic functions.
    """
    if not holomorphic and (allow_int or all(active)) and not real:
        return
    for type, flag, path in zip(types, active, flat.paths(), strict=True):
        if holomorphic and kind(type.dtype) != "c":
            raise GradientError(
                f"{transformation} with holomorphic=True needs complex arguments, but argument {path} is {type}."
                " Convert it with .astype(complex), or leave holomorphic out for a real function."
            )
        if not flag and not allow_int:
            raise GradientError(
                f"{transformation} was asked for the derivative with respect to argument {path}, which is {type}: integers"
                " and bools have none. Pass floating-point numbers (2.0 instead of 2), or choose other argnums"
                + (f", or {FIELD_AS_STATIC}" if is_attribute(path) else "")
                + ("." if allow_int is None else ", or accept trivial gradients with allow_int=True.")
            )
        if real and not holomorphic and kind(type.dtype) == "c":
            raise GradientError(
                f"{transformation} needs real arguments, but argument {path} is {type}."
                " Use holomorphic=True for a holomorphic function."
            )


def check_outputs(transformation: str, fun: Function, types: Sequence[ArrayType], holomorphic: bool, kinds: str = "f") -> None:
    """Raise `GradientError` where an output has no derivative of the kind that was asked for; `kinds` are those that the
    outputs of a function that is not holomorphic may have."""
    kinds = "c" if holomorphic else kinds
    for type in types:
        if kind(type.dtype) not in kinds:
            wanted = {"c": "complex", "f": "real floating-point", "fc": "floating-point"}[kinds]
            cure = "Leave holomorphic out for a real function." if holomorphic else "Return floating-point numbers."
            if kind(type.dtype) == "c":
                cure = "Use holomorphic=True for a holomorphic function, differentiate the real part, or use jacfwd."
            raise GradientError(f"{transformation} needs {wanted} outputs, but {describe(fun)} returned {type}. {cure}")
