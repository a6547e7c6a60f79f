"""The memory of reverse mode: what is kept from the forward pass for the backward pass, and how to keep less."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pullback.api.functions import Function, P, R, check_callable, check_flags, chosen_arguments, wrapped
from pullback.api.traced import traced_call, with_placeholders
from pullback.control.call import inlined
from pullback.control.checkpoint import EVERYTHING, NOTHING, Budget, Dots, Either, Names
from pullback.control.checkpoint import checkpoint as checkpoint_primitive
from pullback.control.checkpoint import name as name_primitive
from pullback.core.array import Array
from pullback.core.brief import brief, counted
from pullback.core.dtypes import is_inexact
from pullback.core.modes import current_mode
from pullback.core.primitive import Primitive
from pullback.core.source import api_boundary, describe, shown_file
from pullback.core.tracing import type_of
from pullback.core.trees import array_leaves, kind_of, unflatten
from pullback.core.types import ArrayType
from pullback.program.equation import Equation, Variable
from pullback.program.running import runs_of
from pullback.transforms.linearize import Linearized, LinearizeTrace, linearize_flat
from pullback.transforms.stage import Staged, replay, stage
from pullback.transforms.transpose import Apply, Scale, Slot

Policy = Callable[..., bool]

# ---- policies -----------------------------------------------------------------------------------------------------------


class checkpoint_policies:
    """What a checkpointed function may keep for its backward pass: policies for `checkpoint(f, policy=...)`.

    A policy is a function `(primitive, *types, **params) -> bool` of an operation, the types of its operands, and its
    parameters; True means that its results may be kept. Operations inside `jit`, in the bodies of scans and in branches
    are seen one by one: what is kept of a scan's steps is stacked.

    Example:
        >>> import pullback as pb
        >>> policy = pb.checkpoint_policies.dots_saveable
        >>> f = pb.checkpoint(lambda x, w: pb.numpy.sin(pb.numpy.sin(x @ w)), policy=policy)
        >>> [residual.made_by for residual in pb.saved_residuals(f, pb.numpy.ones((2, 3)), pb.numpy.ones((3, 4)))]
        ['argument', 'argument', 'dot_general']
    """

    everything_saveable = EVERYTHING
    """Keep what reverse mode would keep without `checkpoint`."""

    nothing_saveable = NOTHING
    """Keep the arguments only."""

    dots_saveable = checkpoint_dots = Dots(batched=True)
    """Keep the results of matrix products, which are expensive; compute the rest again."""

    dots_with_no_batch_dims_saveable = checkpoint_dots_with_no_batch_dims = Dots(batched=False)
    """Keep the results of matrix products without batch axes: those with weights, and not those among activations."""

    @staticmethod
    def save_only_these_names(*names: str) -> Policy:
        """Keep values that `checkpoint_name` gave one of these names.

        Arguments:
            names: strings.

        Returns:
            A policy.

        Example:
            >>> import pullback as pb
            >>> policy = pb.checkpoint_policies.save_only_these_names("hidden")
            >>> f = pb.checkpoint(lambda x: pb.numpy.sin(pb.checkpoint_name(pb.numpy.sin(x), "hidden")), policy=policy)
            >>> len(pb.saved_residuals(f, 1.0)), len(pb.saved_residuals(pb.checkpoint(f), 1.0))
            (2, 1)
        """
        return Names(tuple(sorted(names)))

    @staticmethod
    def save_any_names_but_these(*names: str) -> Policy:
        """Keep values that `checkpoint_name` gave a name, but for these names.

        Arguments:
            names: strings.

        Returns:
            A policy.

        Example:
            >>> import pullback as pb
            >>> policy = pb.checkpoint_policies.save_any_names_but_these("large")
            >>> f = pb.checkpoint(lambda x: pb.numpy.sin(pb.checkpoint_name(pb.numpy.sin(x), "small")), policy=policy)
            >>> len(pb.saved_residuals(f, 1.0))
            2
        """
        return Names(tuple(sorted(names)), these=False)

    @staticmethod
    def save_anything_except_these_names(*names: str) -> Policy:
        """Keep what reverse mode would keep, but for values that `checkpoint_name` gave one of these names.

        Arguments:
            names: strings.

        Returns:
            A policy.

        Example:
            >>> import pullback as pb
            >>> policy = pb.checkpoint_policies.save_anything_except_these_names("large")
            >>> f = pb.checkpoint(lambda x: pb.numpy.sin(pb.checkpoint_name(pb.numpy.sin(x), "large")), policy=policy)
            >>> [residual.made_by for residual in pb.saved_residuals(f, 1.0)]
            ['cos', 'cos']
        """
        return Names(tuple(sorted(names)), these=False, unnamed=True)

    @staticmethod
    def save_from_both_policies(first: Policy, second: Policy) -> Policy:
        """Keep what one policy or the other keeps.

        Arguments:
            first, second: policies.

        Returns:
            A policy.

        Example:
            >>> import pullback as pb
            >>> named = pb.checkpoint_policies.save_only_these_names("hidden")
            >>> policy = pb.checkpoint_policies.save_from_both_policies(named, pb.checkpoint_policies.dots_saveable)
            >>> f = pb.checkpoint(lambda x, w: pb.numpy.sin(pb.checkpoint_name(pb.numpy.sin(x @ w), "hidden")), policy=policy)
            >>> len(pb.saved_residuals(f, pb.numpy.ones((2, 3)), pb.numpy.ones((3, 4))))
            4
        """
        return Either(first, second)


_UNITS = {"": 1}
for _power, _letter in enumerate("kmgt", 1):
    _UNITS |= {_letter: 1000**_power, f"{_letter}i": 1024**_power}


def parse_bytes(budget: int | str) -> int:
    """A number of bytes, from an int or a text such as `"200MB"` (10^6) or `"1.5GiB"` (2^30)."""
    if isinstance(budget, int) and not isinstance(budget, bool) and budget >= 0:
        return budget
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?|)b?\s*", budget, re.IGNORECASE) if isinstance(budget, str) else None
    if found is None:
        raise ValueError(
            f"A budget is a number of bytes, or a text such as '200MB', '1.5GiB' or '64 kB', but got {brief(budget)}."
        )
    return int(float(found[1]) * _UNITS[found[2].lower()])


# ---- checkpoint -----------------------------------------------------------------------------------------------------------


@api_boundary
def checkpoint(
    fun: Callable[P, R],
    *,
    policy: Policy | None = None,
    budget: int | str | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Iterable[str] = (),
    prevent_cse: bool = True,
) -> Callable[P, R]:
    """A function that computes its intermediate values again in reverse mode, instead of keeping them: less memory, more work.

    Values and derivatives are those of `fun`. The arguments are always kept. Also called `remat`.

    Arguments:
        fun: a function of arrays and pytrees.
        policy: which intermediate values may be kept nevertheless, a function `(primitive, *types, **params) -> bool`; see
            `checkpoint_policies`. By default none.
        budget: how many bytes of intermediate values may be kept, in place of a policy: an int, or a text as "200MB" (10^6
            bytes) or "1.5GiB" (2^30). Values are chosen greedily, those first that save the most operations for each byte,
            counted with the operations before them that serve nothing else. Under `vmap` a batch counts as a whole.
        static_argnums, static_argnames: arguments that are not traced: given by position, by name.
        prevent_cse: whether the second computation is kept apart from the first. Inside `scan` it need not be.

    Returns:
        A function of the same arguments.

    Raises:
        ValueError: both a policy and a budget are given, or the budget is no number of bytes. TypeError: the policy cannot be
            called. StaticArgumentError: `fun` has no such positional argument.

    Example:
        >>> import pullback as pb
        >>> f = lambda x: pb.numpy.sin(pb.numpy.sin(pb.numpy.sin(x)))
        >>> len(pb.saved_residuals(f, 1.0)), len(pb.saved_residuals(pb.checkpoint(f), 1.0))
        (3, 1)
        >>> pb.grad(pb.checkpoint(f))(0.0)
        1.0:f32[]:cpu(0)
    """
    check_callable(fun, "checkpoint")
    check_flags("checkpoint", prevent_cse=prevent_cse)
    static, static_names = chosen_arguments(fun, static_argnums, static_argnames, "checkpoint's static")
    if policy is not None and budget is not None:
        raise ValueError("checkpoint takes a policy or a budget, not both.")
    if policy is not None and not callable(policy):
        raise TypeError(
            "checkpoint's policy is a function (primitive, *types, **params) -> bool, as those of pb.checkpoint_policies are,"
            f" but got {brief(policy)}."
        )
    chosen: Any = checkpoint_policies.nothing_saveable if policy is None else policy
    if chosen.__hash__ is None:  # it becomes a part of keys, by its identity
        chosen = functools.partial(chosen)
    if budget is not None:
        chosen = Budget(parse_bytes(budget))

    def checkpointed(*args: P.args, **kwargs: P.kwargs) -> Any:
        leaves, _, _, traced = traced_call("checkpoint", fun, args, kwargs, static, static_names)
        program, captures, structure, *_ = traced
        if (checks := current_mode().checks) is not None:
            checks.uses_keys(f"checkpoint of {describe(fun)}", [leaves[i] for i in traced.keys])
        outs = checkpoint_primitive(*captures, *leaves, program=program, policy=chosen, prevent_cse=bool(prevent_cse))
        return unflatten(structure, outs)

    return wrapped(fun, "checkpoint", checkpointed)


remat = checkpoint


@api_boundary
def checkpoint_name(x: Any, name: str) -> Any:
    """x, under a name by which `checkpoint_policies.save_only_these_names` can ask to keep it. Takes trees.

    Arguments:
        x: a tree of arrays.
        name: a string.

    Returns:
        The same tree.

    Raises:
        TypeError: the name is not a string.
        LeafError: a leaf is neither an array nor a number.

    Example:
        >>> import pullback as pb
        >>> policy = pb.checkpoint_policies.save_only_these_names("hidden")
        >>> f = pb.checkpoint(lambda x: pb.numpy.sin(pb.checkpoint_name(pb.numpy.sin(x), "hidden")), policy=policy)
        >>> len(pb.saved_residuals(f, 1.0))
        2
    """
    if not isinstance(name, str):
        raise TypeError(f"checkpoint_name takes a name, a string, but got {brief(name)}.")
    leaves, structure = array_leaves(x, lambda: "checkpoint_name's argument")
    return unflatten(structure, [name_primitive(leaf, name=name) for leaf in leaves])


# ---- what is kept -----------------------------------------------------------------------------------------------------------


class Residual(NamedTuple):
    """A value that reverse mode keeps from the forward pass.

    Attributes:
        type: its ArrayType. bytes: how much memory it takes.
        made_by: the operation that it is the result of, of what a loop or a checkpoint keeps that inside; "named 'x'" after
            `checkpoint_name`; "argument" or "constant" where there is none.
        source: the user's line with that operation, or the path of the argument.
        wanted_by: the operations whose derivatives need it.

    Example:
        >>> import pullback as pb
        >>> pb.saved_residuals(lambda x: pb.numpy.sin(x), pb.numpy.ones(3))[0].made_by
        'cos'
    """

    type: ArrayType
    bytes: int
    made_by: str
    source: str
    wanted_by: tuple[str, ...]


class Residuals(list[Residual]):
    """The residuals of a function: a list of records, which prints as a table, in which those that are alike are one row.

    Example:
        >>> import pullback as pb
        >>> len(pb.saved_residuals(lambda x: pb.numpy.sin(x), pb.numpy.ones(3)))
        1
    """

    @property
    def bytes(self) -> int:
        """The memory that they take together.

        Example:
            >>> import pullback as pb
            >>> pb.saved_residuals(lambda x: pb.numpy.sin(x), pb.numpy.ones(3)).bytes
            12
        """
        return sum(residual.bytes for residual in self)

    def __repr__(self) -> str:
        rows = [("type", "bytes", "made by", "wanted by", "at")]
        for one, count in Counter(self).items():
            many = f"{count} x " if count > 1 else ""
            wanted = ", ".join(one.wanted_by)
            rows.append((f"{many}{one.type}", f"{count * one.bytes:,}", one.made_by, wanted, _from_here(one.source)))
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = [
            f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:<{widths[2]}}  {row[3]:<{widths[3]}}  {row[4]}".rstrip()
            for row in rows
        ]
        return "\n".join([*lines, f"{counted(len(self), 'residual')}, {self.bytes:,} bytes"])

    __str__ = __repr__


def _from_here(source: str) -> str:
    """A user's line with its file as tables call it."""
    place = re.match(r"(.+?)(?=:\d+ \()", source)
    return source if place is None else shown_file(place[0]) + source[place.end() :]


class _Watching(LinearizeTrace):
    """Linearization that notes which operation each step of the tape came from."""

    __slots__ = ("wanting",)

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self.wanting: list[str] = []  # for each step

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        out = super().process(primitive, args, params)
        self.wanting += [primitive.name] * (len(self.tape.steps) - len(self.wanting))
        return out


@api_boundary
def saved_residuals(fun: Function, *args: Any, **kwargs: Any) -> Residuals:
    """What reverse mode of `fun` keeps in memory between its forward and its backward pass.

    Nothing is computed. 0-d constants are left out.

    Arguments:
        fun: a function of arrays and pytrees.
        args, kwargs: what to call it with; an `ArrayType` serves for an array. The derivative is with respect to
            all floating-point arrays among `args`.

    Returns:
        A list of `Residual` records (type, bytes, made_by, source, wanted_by), in the order in which they are made; it prints
        as a table.

    Raises:
        LeafError: a leaf of the arguments is neither an array, nor a number, nor an ArrayType.

    Example:
        >>> import pullback as pb
        >>> saved = pb.saved_residuals(lambda x, w: pb.numpy.tanh(x @ w), pb.numpy.ones((8, 4)), pb.numpy.ones((4, 2)))
        >>> [(str(residual.type), residual.made_by) for residual in saved]
        [('f32[8,4]', 'argument'), ('f32[4,2]', 'argument'), ('f32[8,2]', 'sech_squared')]
        >>> saved.bytes
        224
    """
    check_callable(fun, "saved_residuals")
    _, paths, types, (recorded, captures, *_) = traced_call(
        "saved_residuals", fun, *with_placeholders((args, kwargs), kind_of(fun))
    )
    active_count = len(kind_of(fun).flatten(args)[0])
    whole = inlined(recorded)  # what is inside jit is seen line by line
    box: dict[str, Any] = {}

    def forward(*inner: Any) -> list[Any]:
        trace = _Watching(fun)
        active = [i < active_count and is_inexact(type.dtype) for i, type in enumerate(types)]
        linearized = linearize_flat(lambda *xs: replay(whole, (*captures, *xs)), inner, active, trace=trace)
        found: dict[int, tuple[Any, list[str]]] = {}
        for read, wanting in zip(_read_backward(linearized), trace.wanting, strict=True):
            for value in read:
                if isinstance(value, (Staged, Array)) and (isinstance(value, Staged) or value.shape):
                    key = id(value.variable) if isinstance(value, Staged) else id(value)
                    found.setdefault(key, (value, []))[1].append(wanting)
        box["found"] = list(found.values())
        return [value for value, _ in box["found"] if isinstance(value, Staged)]

    program, _ = stage(forward, types, name="forward", described=fun, arguments=paths, transformation="saved_residuals")
    makers = {out: equation for equation in program.equations for out in equation.outputs}
    order = {variable: i for i, variable in enumerate([*program.inputs, *makers])}
    named = dict(zip(program.inputs[len(program.inputs) - len(paths) :], paths))  # captured values stand before the arguments
    kept = sorted(box["found"], key=lambda pair: order.get(getattr(pair[0], "variable", None), -1))  # type: ignore[arg-type]
    return Residuals([_residual(value, wanting, makers, named) for value, wanting in kept])


def _read_backward(linearized: Linearized) -> list[list[Any]]:
    """What the backward pass reads of the known values of each step of the tape: nothing where no cotangent comes to it."""
    wanted = {index for index in linearized.tangents if index is not None}
    found: list[list[Any]] = []
    for step in reversed(linearized.tape.steps):
        if isinstance(step, Scale):
            terms = step.terms if step.out in wanted else []
            wanted.update([index for index, _ in terms])
            found.append([multiplier for _, multiplier in terms])
            continue
        operands = _operands_for(step, tuple([int(out in wanted) for out in step.outs]))
        wanted.update([operand.index for operand in operands if isinstance(operand, Slot)])
        found.append([operand for operand in operands if not isinstance(operand, Slot)])
    return found[::-1]


def _operands_for(step: Apply, wanted: tuple[int, ...]) -> list[Any]:
    """The operands of a step that serve its wanted results."""
    if not any(wanted):
        return []
    pruned = None if step.primitive.prune is None else step.primitive.prune(wanted, **step.params)
    return step.operands if pruned is None else [step.operands[i] for i in pruned[1]]


def _residual(value: Any, wanting: Sequence[str], makers: dict[Variable, Equation], named: dict[Variable, str]) -> Residual:
    type = type_of(value)
    equation = makers.get(value.variable) if isinstance(value, Staged) else None
    variable = value.variable if equation is not None else None
    while equation is not None:  # say who made it inside of a loop or a checkpoint
        inside = [run.program for run in runs_of(equation) if not run.test]
        if len(inside) != 1:
            break
        out = inside[0].outputs[equation.outputs.index(variable)]
        inner = next((one for one in inside[0].equations if out in one.outputs), None)
        if inner is None or not isinstance(out, Variable):
            break
        variable, equation = out, inner
    if equation is not None:
        name, source = equation.primitive.name, str(equation.source or "")
        made_by = f"named {equation.params['name']!r}" if equation.primitive is name_primitive else name
    elif isinstance(value, Staged):
        made_by, source = "argument", f"argument {named[value.variable]}" if value.variable in named else "a traced value"
    else:
        made_by, source = "constant", ""
    return Residual(type, type.nbytes, made_by, source, tuple(dict.fromkeys(wanting)))
