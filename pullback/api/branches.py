"""Branches over pytrees: cond and switch run one of several functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.api import stepwise
from pullback.api.functions import R, check_callable, paths_of
from pullback.api.loops import returning
from pullback.api.stepwise import by_steps
from pullback.api.traced import Traced, shared_captures, trace, write_back
from pullback.control.cond import cond as cond_primitive
from pullback.control.holder import bind_or_forward
from pullback.core.brief import brief
from pullback.core.dtypes import BOOL, promote
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.modes import current_mode
from pullback.core.source import api_boundary, describe
from pullback.core.tracing import type_of
from pullback.core.trees import array_leaf, check_like, kind_of, structure_paths, taking, unflatten
from pullback.core.types import ArrayType, array_type
from pullback.core.used_keys import as_alternatives
from pullback.ops.compare import clamp, ne
from pullback.ops.convert import convert_element_type
from pullback.ops.literals import literal

INT32 = np.dtype(np.int32)
_NO_OPERAND: Any = object()


@api_boundary
def cond(pred: Any, true_fun: Callable[..., R], false_fun: Callable[..., R], *operands: Any, operand: Any = _NO_OPERAND) -> R:
    """`true_fun(*operands)` if `pred` holds, else `false_fun(*operands)`: only the chosen one is run.

    Both are traced, so that one compiled program serves for either. Under `vmap`, a predicate that differs between the
    batch elements becomes a select among the results of both branches, named `cond_as_select` in Programs, unless
    `vmap(..., strategy="map")` keeps them apart.

    Arguments:
        pred: a 0-d bool; a number counts as true unless it is 0.
        true_fun, false_fun: functions of the operands, whose results agree in structure, shapes and dtypes. They may close over
            anything.
        operands: what they take, any trees. operand: the only one, by name.

    JAX's older form with an operand for each function, `cond(pred, x, true_fun, y, false_fun)`, is taken too.

    Returns:
        What the chosen function returns. A leaf that is weak (made from a Python number) in one branch takes the dtype that it
        has in the other.

    Raises:
        StructureError, ShapeError, DtypeError: the results of the two do not agree, and the leaf is named; or `pred` is not
            0-d.

    Example:
        >>> import pullback as pb
        >>> safe_sqrt = lambda x: pb.lax.cond(x > 0.0, lambda x: x**0.5, lambda x: 0.0, x)
        >>> safe_sqrt(4.0), pb.grad(safe_sqrt)(-1.0)
        (2.0:f32[]:cpu(0), 0.0:f32[]:cpu(0))
    """
    parts: tuple[Any, ...] = (true_fun, false_fun, *operands)
    if [callable(part) for part in parts] == [False, True, False, True]:  # JAX's older form
        own, f, other, g = parts
        functions = [taking(kind_of(f))(one) for one in (lambda x, _: f(x), lambda _, y: g(y))]
        return cond(pred, *functions, own, other)  # type: ignore[no-any-return]
    check_callable(true_fun, "cond", "true_fun")
    check_callable(false_fun, "cond", "false_fun")
    operands = _operands("cond", operands, operand)
    return choose("cond", predicate(pred), (false_fun, true_fun), operands)


@api_boundary
def switch(index: Any, branches: Sequence[Callable[..., R]], *operands: Any, operand: Any = _NO_OPERAND) -> R:
    """`branches[index](*operands)`: only the chosen function is run.

    Arguments:
        index: a 0-d integer. One that is out of range counts as the nearest in range: negative ones as 0.
        branches: functions of the operands, whose results agree in structure, shapes and dtypes.
        operands: what they take, any trees. operand: the only one, by name.

    Returns:
        What the chosen function returns.

    Raises:
        StructureError, ShapeError, DtypeError: the results of two branches do not agree, and the leaf is named; or `index` is
            not a 0-d integer. ValueError: there are no branches.

    Example:
        >>> import pullback as pb
        >>> operations = [lambda x: x + 1.0, lambda x: x * x, lambda x: -x]
        >>> [float(pb.lax.switch(i, operations, 3.0)) for i in range(4)]
        [4.0, 9.0, -3.0, -3.0]
    """
    operands = _operands("switch", operands, operand)
    if not isinstance(branches, Sequence):
        raise TypeError(f"switch takes its branches as a list or tuple of functions, but got {brief(branches)}.")
    if not branches:
        raise ValueError("switch needs at least one branch.")
    for number, branch in enumerate(branches):
        check_callable(branch, "switch", f"branches[{number}]")
    return choose("switch", branch_number(index, len(branches)), branches, operands)


def branch_number(index: Any, count: int) -> Any:
    """The index of a switch of some branches, an int32 that counts as the nearest in range."""
    index = array_leaf(index, lambda: "switch's index")
    type = type_of(index)
    if type.shape:
        raise ShapeError(f"switch takes a 0-d index, but got {type}. To choose for every element, vmap the switch.")
    if type.dtype.kind not in "iu":
        raise DtypeError(f"switch takes an integer as its index, but got {type}. Convert it, or use cond for a bool.")
    if type.dtype is not INT32:
        last = min(count - 1, int(np.iinfo(type.dtype).max))
        index = clamp(literal(0, index), index, literal(last, index))
    return convert_element_type(index, new_dtype=INT32)


def _operands(what: str, operands: tuple[Any, ...], operand: Any) -> tuple[Any, ...]:
    if operand is not _NO_OPERAND and operands:
        raise TypeError(f"{what} takes its operands either by position or as operand=, not both.")
    return operands if operand is _NO_OPERAND else (operand,)


def predicate(pred: Any) -> Any:
    """A predicate as an index: 1 if it holds."""
    pred = array_leaf(pred, lambda: "cond's pred")
    type = type_of(pred)
    if type.shape:
        raise ShapeError(
            f"cond takes a 0-d predicate, but got {type}. Reduce it (.any(), .all()); to choose for every element, use"
            " pb.numpy.where, or vmap the cond."
        )
    if type.dtype is not BOOL:
        pred = ne(pred, literal(0, pred))
    return convert_element_type(pred, new_dtype=INT32)


@by_steps(stepwise.choose)
def choose(
    what: str,
    index: Any,
    branches: Sequence[Callable[..., R]],
    operands: Sequence[Any],
    *,
    weak_as_first: bool = False,
) -> R:
    """The branch of this index, for `cond` or `switch`: an int32 in range or not. Results are weak where those of all branches
    are, or where those of the first are."""
    if len(branches) == 1:
        return branches[0](*operands)
    trees, leaves, structures = kind_of(branches[0]), [], []
    for number, tree in enumerate(operands):
        own, structure = trees.array_leaves(trees.without_float0(tree), lambda n=number: f"operands[{n}]")  # type: ignore[misc]
        leaves += own
        structures.append(structure)
    types = [type_of(leaf) for leaf in leaves]

    def paths() -> list[str]:
        return paths_of(*[(structure, f"operands[{i}]") for i, structure in enumerate(structures)])

    def recorded(branch: Callable[..., R]) -> Traced:
        return trace(what, branch, structures, types, paths, refs=True)

    traced = as_alternatives([functools.partial(recorded, branch) for branch in branches])
    if (checks := current_mode().checks) is not None:
        used = {i: branch for branch, one in zip(branches, traced) for i in one.keys}
        for i, branch in used.items():
            checks.uses_keys(f"{what} of {describe(branch)}", [leaves[i]])
    out_types = _joined(what, branches, traced, weak_as_first)
    captures, written, programs = shared_captures(traced)
    programs = [returning(program, [*[ref.type for ref in written], *out_types]) for program in programs]
    outs = bind_or_forward(cond_primitive, index, *captures, *leaves, branches=tuple(programs))
    return unflatten(traced[0].structure, write_back(written, outs))  # type: ignore[no-any-return]


def _joined(
    what: str, functions: Sequence[Callable[..., Any]], traced: Sequence[Traced], weak_as_first: bool
) -> list[ArrayType]:
    """The types of the results, the same for all branches. Raises an error that names the leaf where there are none."""
    first = traced[0]
    roles = ("false_fun", "true_fun") if what == "cond" else [f"branches[{number}]" for number in range(len(functions))]
    names = [f"{role}, {describe(function)}," for role, function in zip(roles, functions)]
    for name, other in zip(names[1:], traced[1:]):
        check_like(
            other.structure,
            first.structure,
            "output",
            f"{names[0]} returns",
            lambda where, name=name: (
                f"The branches of a {what} must return the same structure, but of what {name} returns, {where}."
            ),  # type: ignore[misc]
        )
    paths = structure_paths(first.structure, "output")
    found = []
    for place, path in enumerate(paths):
        row = [one.out_types[place] for one in traced]
        joined, weak = row[0].dtype, row[0].weak
        for name, type in zip(names, row):
            said = f"{path} as {row[0]}, and {name} as {type}"
            if type.shape != row[0].shape:
                raise ShapeError(
                    f"The branches of a {what} must return the same shapes, but {names[0]} returns {said}."
                    " Broadcast or reshape one of them."
                )
            if type.dtype is not joined or type.weak is not weak:
                before, before_weak = joined, weak
                joined, weak = promote((joined, weak), (type.dtype, type.weak))
                if (joined is not before and not before_weak) or (joined is not type.dtype and not type.weak):
                    raise DtypeError(
                        f"The branches of a {what} must return the same dtypes, but {names[0]} returns {said}."
                        " Convert one of them with .astype()."
                    )
        if weak_as_first:
            weak = row[0].weak and row[0].dtype is joined
        found.append(array_type(row[0].shape, joined, weak))
    return found
