"""cond: run one of several branches, chosen by an index, as one operation.

Operands are the index, a 0-d int32, and what the branches take; all branches are Programs of the same input and output types.
Every rule derives another version of each branch and chooses among those by the same index; where the versions would return
different things (which outputs have a tangent, which residuals they keep), they are made to return the union.

Under vmap, an index that is the same for all batch elements still chooses one branch. One that differs between them cannot:
by default all branches are computed, and `cond_as_select` chooses among the results for each batch element, a name that tells
the reader of a Program what happened; with `vmap(strategy="map")` the batch elements go through the cond one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.control.guard import chosen, run_guarded
from pullback.control.holder import Holder, Wiring, bind_holder, check_operands
from pullback.control.scan import scan
from pullback.core.axes import Axis
from pullback.core.errors import AxisError, ProgramError
from pullback.core.primitive import Rules, primitive
from pullback.core.tracing import type_of
from pullback.core.types import array_type
from pullback.ops.broadcast import repeated
from pullback.ops.compare import eq, ge, lt
from pullback.ops.convert import convert_element_type
from pullback.ops.literals import literal
from pullback.ops.reduce import reduce_or
from pullback.program.program import Program, axis_names, run
from pullback.transforms.derive import batch_program, stage_closed

INT32 = np.dtype(np.int32)


@primitive
class cond(Holder):
    """The results of `branches[index]`; an index out of range stands for the nearest branch.

    `early_exit` promises of two branches that the second returns what the first does wherever the first would have been
    chosen, so that a batch can skip the second only if no batch element needs it, and needs no select.
    """

    wiring = Wiring("branches", lead=1)

    def result_type(index, *types, branches: tuple[Program, ...], early_exit: bool = False):
        for branch in branches:
            check_operands("cond", types, branch.input_types)
        rows = [branch.output_types for branch in branches]
        if not rows or any([[type.strong() for type in row] != [type.strong() for type in rows[0]] for row in rows]):
            shown = ", ".join([f"({', '.join(map(str, row))})" for row in rows])
            raise ProgramError(
                f"cond needs branches that return the same, but they return {shown or 'nothing: there is none'}."
            )
        if index.strong() is not array_type((), INT32):
            raise ProgramError(f"cond takes the number of a branch, i32[], but got {index}.")
        return tuple([row[0] if len(set(row)) == 1 else row[0].strong() for row in zip(*rows)])

    def evaluate(index, *arrays, branches, early_exit=False):
        chosen = min(max(int(index.host), 0), len(branches) - 1)
        return run(branches[chosen], arrays)

    def lower(write, index, *values, branches, early_exit=False):
        if len(branches) > 1:
            bounds = [write.constant(np.asarray(n, np.int32)) for n in (0, len(branches) - 1)]
            index = write.elementwise("stablehlo.minimum", write.elementwise("stablehlo.maximum", index, bounds[0]), bounds[1])
        return write.case(index, [lambda b=branch: write.inline(b, *values) for branch in branches], write.result_types)

    def vectorize(batch, args, axes, *, branches, early_exit=False):
        index, *values = args
        index_axis, *value_axes = axes
        flags = tuple([int(axis == 0) for axis in value_axes])
        if index_axis is None:
            return Holder.vectorize(cond, batch, args, axes, branches=branches, early_exit=early_exit)
        everything = (1,) * len(branches[0].outputs)
        if early_exit:
            anyone = reduce_or(ge(index, literal(1, index)), axes=(0,))
            index = convert_element_type(anyone, new_dtype=INT32)
            mapped = tuple([batch_program(branch, batch, flags, everything)[0] for branch in branches])
            outs = bind_holder(cond, index, *values, branches=mapped, early_exit=early_exit)
            return outs, (0,) * len(everything)
        if batch.strategy == "map":
            return one_by_one(cond, batch, args, axes, {"branches": branches, "early_exit": early_exit})
        results = []
        for number, branch in enumerate(branches):
            which = _chooses(index, number, len(branches))
            results.append(run_guarded(branch, batch, which, values, flags, everything))
        return tuple([cond_as_select(index, *outs) for outs in zip(*results)]), (0,) * len(everything)


@primitive
class cond_as_select(Rules):
    """What a cond with one predicate a batch element became: operand `index` of the `results`, which every branch computed.

    The axes of `index` are the first ones of each result.
    """

    def result_type(index, *results):
        return results[0].strong() if not all(type.weak for type in results) else results[0]

    def evaluate(index, *results):
        index = np.clip(index, 0, len(results) - 1).reshape(*index.shape, *[1] * (results[0].ndim - index.ndim))
        out = np.array(results[0])
        for number, result in enumerate(results[1:], 1):
            np.copyto(out, result, where=index == number)
        return out

    def lower(write, index, *results):
        out, *others = results
        shape = out.shape
        for number, result in enumerate(others, 1):
            least = write.broadcast(write.constant(np.asarray(number, np.int32)), index.shape)
            which = write.compare("GE", index, least)
            out = write.select(write.broadcast(which, shape, range(len(index.shape))), result, out)
        return out

    def expand(index, *results):
        out, *others = results
        for number, result in enumerate(others, 1):
            out = chosen(ge(index, literal(number, index)), result, out)
        return out

    def vectorize(size, args, axes):
        args = [value if axis == 0 else repeated(value, size) for value, axis in zip(args, axes)]
        return cond_as_select(*args), 0

    def samples(rng):
        index = rng.integers(-1, 4, (3,)).astype(np.int32)
        yield (index, *[rng.normal(size=(3, 2)) for _ in range(3)]), {}
        yield (index[0], *[rng.normal(size=(2,)) for _ in range(2)]), {}


def _chooses(index: Any, number: int, count: int) -> Any:
    """Where an index chooses branch `number` of `count`."""
    if number == 0:
        return lt(index, literal(1, index))
    return (ge if number == count - 1 else eq)(index, literal(number, index))


def one_by_one(holder: Any, batch: Axis, args: Sequence[Any], axes: Sequence[int | None], params: dict[str, Any]) -> Any:
    """An operation on each batch element in turn: a scan over those operands that have a batch axis."""
    if batch.name is not None and batch.name in axis_names(holder, params):
        raise AxisError(
            f'vmap(..., strategy="map") runs {holder.name} on one batch element after another, but a collective in it combines'
            f' the elements along {batch.name!r}. Use strategy="select", or take the collective out of {holder.name}.'
        )
    fixed = [i for i, axis in enumerate(axes) if axis is None]
    mapped = [i for i, axis in enumerate(axes) if axis is not None]
    types = [type_of(args[i]) for i in fixed]
    types += [array_type(type.shape[1:], type.dtype, type.weak) for type in (type_of(args[i]) for i in mapped)]

    def element(*values: Any) -> Any:
        by_place = dict(zip((*fixed, *mapped), values))
        return bind_holder(holder, *[by_place[i] for i in range(len(args))], **params)

    body = stage_closed(element, types, holder.name)
    loop = {"num_consts": len(fixed), "num_carry": 0, "length": batch.size, "reverse": False, "unroll": 1}
    outs = bind_holder(scan, *[args[i] for i in (*fixed, *mapped)], body=body, **loop)
    return outs, (0,) * len(outs)
