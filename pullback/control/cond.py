"""cond: run one of several branches, chosen by an index, as one operation.

Operands are the index, a 0-d int32, and what the branches take; all branches are Programs of the same input and output types.
Every rule derives another version of each branch and chooses among those by the same index; where the versions would return
different things (which outputs have a tangent, which residuals they keep), they are made to return the union.

Under vmap, an index that is the same for all examples still chooses one branch. One that differs from example to example
cannot: by default all branches are computed, and `cond_as_select` chooses among the results of each example, a name that
tells the reader of a Program what happened; with `vmap(strategy="map")` the examples go through the cond one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.control.call import bind_holder, check_operands
from pullback.control.guard import chosen, guarded
from pullback.control.scan import scan
from pullback.core.errors import MissingRule
from pullback.core.primitive import Rules, primitive
from pullback.core.tracing import type_of
from pullback.core.types import ArrayType, array_type, is_unknown
from pullback.core.zero import ZERO, zeros
from pullback.ops.broadcast import broadcast_in_dim
from pullback.ops.compare import eq, ge, lt
from pullback.ops.convert import convert_element_type
from pullback.ops.literals import literal
from pullback.ops.reduce import reduce_or
from pullback.program.program import Program, Variable, run
from pullback.program.provenance import attributed_source
from pullback.transforms.batch import repeated
from pullback.transforms.derive import (
    active_terms,
    batch_program,
    jet_program,
    jvp_program,
    linearize_program,
    nonzero_orders,
    series_of,
    stage_closed,
    transpose_program,
)
from pullback.transforms.simplify import drop_dead_code
from pullback.transforms.sparsity import sparsity_of_any
from pullback.transforms.stage import replay

INT32 = np.dtype(np.int32)


@primitive
class cond(Rules):
    """The results of `branches[index]`; an index out of range stands for the nearest branch.

    `early_exit` promises of two branches that the second returns what the first does wherever the first would have been
    chosen, so that a batch can skip the second only if no example needs it, and needs no select.
    """

    multiple_results = True
    on_arrays = True
    needs_axis = True
    symbolic_zeros = True

    def result_type(index, *types, branches, early_exit=False):
        for branch in branches:
            check_operands("cond", types, branch.input_types)
        rows = [branch.output_types for branch in branches]
        return tuple([row[0] if len(set(row)) == 1 else row[0].strong() for row in zip(*rows)])

    def evaluate(index, *arrays, branches, early_exit=False):
        chosen = min(max(int(index.host), 0), len(branches) - 1)
        return run(branches[chosen], arrays)

    def lower(write, index, *values, branches, early_exit=False):
        if len(branches) > 1:
            bounds = [write.constant(np.asarray(n, np.int32)) for n in (0, len(branches) - 1)]
            index = write.elementwise("stablehlo.minimum", write.elementwise("stablehlo.maximum", index, bounds[0]), bounds[1])
        return write.case(index, [lambda b=branch: write.inline(b, *values) for branch in branches], write.result_types)

    def jvp(primals, tangents, *, branches, early_exit=False):
        index, *values = primals
        active = tuple([t is not ZERO for t in tangents[1:]])
        nonzero = union([jvp_program(branch, active)[1] for branch in branches])
        pushed = tuple([jvp_program(branch, active, nonzero)[0] for branch in branches])
        given = [t for t in tangents[1:] if t is not ZERO]
        outs = bind_holder(cond, index, *values, *given, branches=pushed, early_exit=early_exit)
        count = len(nonzero)
        found = iter(outs[count:])
        return outs[:count], tuple([next(found) if flag else ZERO for flag in nonzero])

    def jet(primals, series, *, branches, early_exit=False):
        (index, *values), series = primals, series[1:]
        active = nonzero_orders(series)
        rows = [jet_program(branch, active)[1] for branch in branches]
        nonzero = tuple([union(orders) for orders in zip(*rows)])
        pushed = tuple([jet_program(branch, active, nonzero)[0] for branch in branches])
        given = active_terms(values, series, active)
        outs = bind_holder(cond, index, *values, *given, branches=pushed, early_exit=early_exit)
        count = len(nonzero)
        return outs[:count], series_of(outs[count:], nonzero)

    def linearize(primals, active, *, branches, early_exit=False):
        index, *values = primals
        active = tuple(active[1:])
        nonzero = union([linearize_program(branch, active).nonzero for branch in branches])
        split = [linearize_program(branch, active, nonzero) for branch in branches]
        count = len(nonzero)
        # residuals that are operands are at hand; the branches share places for the others, by type
        own = [[part.forward.outputs[i].type for kind, i in part.residuals if kind == "output"] for part in split]
        most: Counter[ArrayType] = Counter()
        for types in own:
            most |= Counter(types)
        places = list(most.elements())
        rows = [_places_of(types, places) for types in own]
        forward = tuple([_with_places(part.forward, count, row, places) for part, row in zip(split, rows)])
        outs = bind_holder(cond, index, *values, branches=forward, early_exit=early_exit)
        known = [*values, *outs[count:]]
        reads = []
        for part, row in zip(split, rows):
            own_places = iter(row)
            reads.append([i if kind == "input" else len(values) + next(own_places) for kind, i in part.residuals])
        used = sorted({i for row in reads for i in row})
        known = [known[i] for i in used]
        types = [type_of(value) for value in known]
        tangent = [_taking(part.tangent, [used.index(i) for i in row], types) for part, row in zip(split, reads)]

        def push(*tangents):
            found = iter(bind_holder(cond, index, *known, *tangents, branches=tuple(tangent), early_exit=early_exit))
            return tuple([next(found) if flag else ZERO for flag in nonzero])

        return tuple(outs[:count]), push

    def transpose(cotangents, index, *operands, branches, early_exit=False):
        unknown = tuple([is_unknown(operand) for operand in operands])
        nonzero = union([transpose_program(branch, unknown)[1] for branch in branches])
        kept = [i for i, flag in enumerate(nonzero) if flag]
        made = []
        for branch in branches:
            transposed = transpose_program(branch, unknown, True)[0]
            made.append(drop_dead_code(transposed.rearranged(range(len(transposed.inputs)), kept)))
        known = [value for value in operands if not is_unknown(value)]
        found = iter(bind_holder(cond, index, *known, *cotangents, branches=tuple(made), early_exit=early_exit))
        solved = iter([next(found) if flag else None for flag in nonzero])
        return (None, *[next(solved) if flag else None for flag in unknown])

    def sparsity(which, operands, *, branches, early_exit=False):
        return sparsity_of_any(branches, which - 1, operands[1:])

    def vectorize(batch, args, axes, *, branches, early_exit=False):
        index, *values = args
        index_axis, *value_axes = axes
        if index_axis is None or early_exit:
            flags = union([_flags(batch_program(branch, batch, tuple(value_axes))[1]) for branch in branches])
            if early_exit and index_axis is not None:
                flags = (True,) * len(flags)
                anyone = reduce_or(ge(index, literal(1, index)), axes=(0,))
                index = convert_element_type(anyone, new_dtype=INT32)
            mapped = tuple([batch_program(branch, batch, tuple(value_axes), flags)[0] for branch in branches])
            outs = bind_holder(cond, index, *values, branches=mapped, early_exit=early_exit)
            return outs, [0 if flag else None for flag in flags]
        if batch.strategy == "map":
            return one_by_one(cond, batch.size, args, axes, {"branches": branches, "early_exit": early_exit})
        refuse_effects("cond", branches)
        everything = (True,) * len(branches[0].outputs)
        results = []
        for number, branch in enumerate(branches):
            which = _chooses(index, number, len(branches))
            guards, flags = guarded(which, values, _flags(value_axes), batch.size)
            own_axes = tuple([0 if flag else None for flag in flags])
            results.append(replay(batch_program(branch, batch, own_axes, everything)[0], guards))
        return tuple([cond_as_select(index, *outs) for outs in zip(*results)]), (0,) * len(everything)

    def prune(wanted, *, branches, early_exit=False):
        smaller = [_pruned(branch, wanted) for branch in branches]
        used = union([used for _, used in smaller])
        if all(used) and all(wanted):
            return None
        inputs = [i for i, flag in enumerate(used) if flag]
        made = tuple([branch.rearranged(inputs) for branch, _ in smaller])
        outputs = [i for i, flag in enumerate(wanted) if flag]
        return {"branches": made, "early_exit": early_exit}, [0, *[i + 1 for i in inputs]], outputs


@primitive
class cond_as_select(Rules):
    """What a cond with a predicate for each example became: operand `index` of the `results`, which every branch computed.

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


def union(rows: Sequence[Sequence[bool]]) -> tuple[bool, ...]:
    """Which places are flagged in any of the rows."""
    return tuple([any(column) for column in zip(*rows, strict=True)])


def _flags(axes: Sequence[int | None]) -> tuple[bool, ...]:
    return tuple([axis == 0 for axis in axes])


def _places_of(types: Sequence[ArrayType], places: Sequence[ArrayType]) -> list[int]:
    """A place of its type for each residual of a branch, none used twice."""
    free = list(range(len(places)))
    found = []
    for type in types:
        place = next(i for i in free if places[i] is type)
        free.remove(place)
        found.append(place)
    return found


def _with_places(forward: Program, count: int, row: Sequence[int], places: Sequence[ArrayType]) -> Program:
    """A branch's forward half with its residuals in the places that all branches share; zeros in those of others."""

    def filled(*args: Any) -> list[Any]:
        outs = replay(forward, args)
        own = dict(zip(row, outs[count:]))
        return [*outs[:count], *[own[i] if i in own else zero_of(type) for i, type in enumerate(places)]]

    if list(row) == list(range(len(places))):
        return forward
    key = ("with places", tuple(row), tuple(places))
    made: Program = forward.memo(key, lambda: stage_closed(filled, forward.input_types, forward.name))
    return made


def zero_of(type: ArrayType) -> Any:
    """Zeros of a type as an operation, which a Program records instead of holding them."""
    return broadcast_in_dim(zeros(type.with_shape(())), shape=type.shape, broadcast_dimensions=())


def _taking(program: Program, reads: Sequence[int], types: Sequence[ArrayType]) -> Program:
    """A Program that takes values of `types`, of which it needs those at `reads` first, and then its own other inputs."""
    inputs = [Variable(type) for type in types]
    for variable, place in zip(program.inputs, reads):
        inputs[place] = variable
    others = program.inputs[len(reads) :]
    return Program([*inputs, *others], program.equations, program.outputs, program.constants, program.name)


def _pruned(branch: Program, wanted: Sequence[bool]) -> tuple[Program, list[bool]]:
    smaller = drop_dead_code(branch.with_outputs([atom for atom, flag in zip(branch.outputs, wanted) if flag]))
    used = {atom for equation in smaller.equations for atom in equation.inputs} | set(smaller.outputs)
    return smaller, [variable in used for variable in branch.inputs]


def refuse_effects(what: str, programs: Sequence[Program]) -> None:
    """Raise unless Programs that are to run for all examples, needed or not, do nothing besides computing values."""
    effects = sorted({effect for program in programs for effect in program.effects})
    if effects:
        source = attributed_source()
        where = f" (at {source})" if source is not None else ""
        raise MissingRule(
            f"vmap of a {what} whose predicate differs between the examples computes everything for all of them, and selects;"
            f" but a branch or body of this one{where} has an effect ({', '.join(effects)}), which must not happen for the"
            ' others. Use vmap(..., strategy="map"), which takes the examples one by one, or move the effect out of it.'
        )


def one_by_one(holder: Any, size: int, args: Sequence[Any], axes: Sequence[int | None], params: dict[str, Any]) -> Any:
    """An operation on each example in turn: a scan over those operands that have a batch axis."""
    fixed = [i for i, axis in enumerate(axes) if axis is None]
    mapped = [i for i, axis in enumerate(axes) if axis is not None]
    types = [type_of(args[i]) for i in fixed]
    types += [array_type(type.shape[1:], type.dtype, type.weak) for type in (type_of(args[i]) for i in mapped)]

    def example(*values: Any) -> Any:
        by_place = dict(zip((*fixed, *mapped), values))
        return bind_holder(holder, *[by_place[i] for i in range(len(args))], **params)

    body = stage_closed(example, types, holder.name)
    loop = {"num_consts": len(fixed), "num_carry": 0, "length": size, "reverse": False, "unroll": 1}
    outs = bind_holder(scan, *[args[i] for i in (*fixed, *mapped)], body=body, **loop)
    return outs, (0,) * len(outs)
