"""scan: a loop of known length as one operation.

    carry_0 = init;   carry_{t+1}, y_t = body(constants, carry_t, x_t);   results: carry_T and the stacked y

Operands are the constants, then the carry, then the stacked `xs`; `body` is a Program of constants + carry + one x. Every rule
derives another body by the Program transformations and scans that:

- forward mode carries the tangents along with the values;
- linearization scans forward, stacking those residuals that change from step to step (those that do not are computed once,
  before the loop, and those that are inputs of the loop are not stored again), and gives a linear scan of the tangents;
- transposition runs the linear scan the other way around, from the last step to the first;
- batching maps the body.

Which parts of the carry have a tangent, or a batch axis, is the least fixed point over the body.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.control.call import bind_holder, check_operands
from pullback.core.array import Array
from pullback.core.execution import engine
from pullback.core.primitive import Rules, primitive
from pullback.core.tracing import type_of
from pullback.core.types import ArrayType, is_unknown
from pullback.core.zero import ZERO, instantiate, zeros
from pullback.ops.arithmetic import add
from pullback.ops.shape import transpose
from pullback.program.equation import Literal
from pullback.program.program import Program, run
from pullback.transforms.batch import repeated
from pullback.transforms.derive import (
    active_terms,
    batch_program,
    dependent_outputs,
    fixed_orders,
    fixed_point,
    jet_program,
    jvp_program,
    linearize_program,
    nonzero_orders,
    series_of,
    split_invariants,
    stage_closed,
)
from pullback.transforms.simplify import drop_dead_code
from pullback.transforms.sparsity import sparsity_of_steps
from pullback.transforms.stage import replay
from pullback.transforms.transpose import transpose_flat

# Eager loops up to this many operations run step by step on NumPy; longer ones are compiled.
STEPWISE_OPERATIONS = 2000


def split(values: Sequence[Any], *sizes: int) -> list[tuple[Any, ...]]:
    """A sequence cut into pieces of these sizes, and what is left."""
    pieces, start = [], 0
    for size in sizes:
        pieces.append(tuple(values[start : start + size]))
        start += size
    return [*pieces, tuple(values[start:])]


@primitive
class scan(Rules):
    """Carry values through `length` steps of `body`, stacking what each step returns; backwards if `reverse`."""

    multiple_results = True
    on_arrays = True
    needs_axis = True
    symbolic_zeros = True

    def result_type(*types, body, num_consts, num_carry, length, reverse, unroll):
        consts, carry, xs = split(body.input_types, num_consts, num_carry)
        check_operands("scan", types, (*consts, *carry, *[stacked_type(type, length) for type in xs]))
        outs = body.output_types
        return (*outs[:num_carry], *[stacked_type(type, length) for type in outs[num_carry:]])

    def evaluate(*arrays, body, num_consts, num_carry, length, reverse, unroll):
        if length * len(body.equations) > STEPWISE_OPERATIONS:
            params = {"num_consts": num_consts, "num_carry": num_carry, "length": length, "reverse": reverse, "unroll": unroll}
            return engine().run_operation(scan, arrays, {"body": body, **params})
        return run_steps(body, arrays, num_consts, num_carry, length, reverse)

    def lower(write, *values, body, num_consts, num_carry, length, reverse, unroll):
        consts, carry, xs = split(values, num_consts, num_carry)
        ys = [write.zeros(type) for type in write.result_types[num_carry:]]
        if not length:
            return [*carry, *ys]

        def step(values):
            index, *rest = values
            carry, ys = rest[:num_carry], rest[num_carry:]
            at = write.elementwise("stablehlo.subtract", write.constant(last), index) if reverse else index
            outs = write.inline(body, *consts, *carry, *[write.at(x, at) for x in xs])
            ys = [write.put(stack, y, at) for stack, y in zip(ys, outs[num_carry:])]
            return [write.elementwise("stablehlo.add", index, write.constant(one)), *outs[:num_carry], *ys]

        def steps(values):
            for _ in range(unroll):
                values = step(values)
            return values

        write.note_loop(body)
        last, one, zero = (np.asarray(n, np.int32) for n in (length - 1, 1, 0))
        values = [write.constant(zero), *carry, *ys]
        if unroll < length:
            bound = write.constant(np.asarray(length - length % unroll, np.int32))
            values = write.while_loop(values, lambda v: write.compare("LT", v[0], bound), steps)
        for _ in range(length % unroll if unroll < length else length):
            values = step(values)
        return values[1:]

    def jvp(primals, tangents, *, body, num_consts, num_carry, **params):
        active = tuple([tangent is not ZERO for tangent in tangents])
        c_active, k_active, x_active = split(active, num_consts, num_carry)
        k_active = fixed_point(k_active, lambda flags: jvp_program(body, (*c_active, *flags, *x_active))[1][:num_carry])
        active = (*c_active, *k_active, *x_active)
        no_ys = (False,) * (len(body.outputs) - num_carry)
        pushed, nonzero = jvp_program(body, active, (*k_active, *no_ys))
        values = [instantiate(t, type_of(x)) for x, t, flag in zip(primals, tangents, active) if flag]
        outs, found = _scan_along(primals, values, active, pushed, nonzero, num_consts, num_carry, params)
        given = iter(found)
        return outs, tuple([next(given) if flag else ZERO for flag in nonzero])

    def jet(primals, series, *, body, num_consts, num_carry, **params):
        active = nonzero_orders(series)
        c_active, k_active, x_active = split(active, num_consts, num_carry)
        k_active = fixed_orders(k_active, lambda orders: jet_program(body, (*c_active, *orders, *x_active))[1][:num_carry])
        active = (*c_active, *k_active, *x_active)
        no_ys = ((False,) * len(active[0]),) * (len(body.outputs) - num_carry)
        pushed, nonzero = jet_program(body, active, (*k_active, *no_ys))
        counts = [sum(orders) for orders in active], [sum(orders) for orders in nonzero]
        terms = active_terms(primals, series, active)
        outs, found = _scan_along(primals, terms, counts[0], pushed, counts[1], num_consts, num_carry, params)
        return outs, series_of(found, nonzero)

    def linearize(primals, active, *, body, num_consts, num_carry, length, reverse, unroll):
        params = {"length": length, "reverse": reverse, "unroll": unroll}
        c_active, k_active, x_active = split(active, num_consts, num_carry)
        k_started = k_active
        no_ys = (False,) * (len(body.outputs) - num_carry)
        k_active = fixed_point(
            k_active, lambda flags: linearize_program(body, (*c_active, *flags, *x_active)).nonzero[:num_carry]
        )
        linearized = linearize_program(body, (*c_active, *k_active, *x_active), (*k_active, *no_ys))
        # what the forward body computes from the constants alone is computed once
        before, loop = split_invariants(linearized.forward, num_consts)
        consts, carry, xs = split(primals, num_consts, num_carry)
        values = replay(before, consts)
        fixed: dict[Any, Any] = dict(zip(before.outputs, values))
        invariants = values[: len(loop.inputs) - len(linearized.forward.inputs)]
        fixed.update(zip(linearized.forward.inputs, consts))

        # each residual comes from a constant, an input that is stacked already, or a new stack
        own_ys = len(no_ys)
        new_outputs, sources = [], []
        for place, index in linearized.residuals:
            atom = (linearized.forward.outputs if place == "output" else linearized.forward.inputs)[index]
            if atom in fixed:
                sources.append(("constant", fixed[atom]))
            elif place == "input" and index >= num_consts + num_carry:
                sources.append(("stacked", xs[index - num_consts - num_carry]))
            elif isinstance(atom, Literal):
                sources.append(("constant", atom.value))
            else:
                sources.append(("new", len(new_outputs)))
                new_outputs.append(atom)
        forward = loop.with_outputs((*loop.outputs[: num_carry + own_ys], *new_outputs))
        outs = bind_holder(
            scan,
            *consts,
            *invariants,
            *carry,
            *xs,
            body=forward,
            num_consts=num_consts + len(invariants),
            num_carry=num_carry,
            **params,
        )
        values, stacks = outs[: num_carry + own_ys], outs[num_carry + own_ys :]
        residuals = [(kind, stacks[value] if kind == "new" else value) for kind, value in sources]

        def push(*tangents):
            given = iter(tangents)
            tc = [next(given) for flag in c_active if flag]
            tk = [
                next(given) if started else zeros(type_of(x).strong())
                for x, started, flag in zip(carry, k_started, k_active)
                if flag
            ]
            tx = list(given)
            constant = [i for i, (kind, _) in enumerate(residuals) if kind == "constant"]
            stacked = [i for i, (kind, _) in enumerate(residuals) if kind != "constant"]
            places = range(len(residuals), len(linearized.tangent.inputs))
            c_at, k_at, x_at = split(places, len(tc), len(tk))
            found = bind_holder(
                scan,
                *[residuals[i][1] for i in constant],
                *tc,
                *tk,
                *[residuals[i][1] for i in stacked],
                *tx,
                body=linearized.tangent.rearranged((*constant, *c_at, *k_at, *stacked, *x_at)),
                num_consts=len(constant) + len(tc),
                num_carry=len(tk),
                **params,
            )
            given = iter(found)
            return tuple([next(given) if flag else ZERO for flag in linearized.nonzero])

        return tuple(values), push

    def transpose(cotangents, *operands, body, num_consts, num_carry, length, reverse, unroll):
        params = {"length": length, "unroll": unroll}
        given = [is_unknown(value) for value in operands]
        c_free, k_given, x_free = split(given, num_consts, num_carry)
        # a carry that starts from something known may still come to depend on the unknown: from zero, in a tangent loop
        k_free = fixed_point(k_given, lambda flags: dependent_outputs(body, (*c_free, *flags, *x_free))[:num_carry])
        if not all(k_free):
            return _transpose_beside_known(cotangents, operands, k_free, body, num_consts, num_carry, reverse, params)
        consts, _, xs = split(operands, num_consts, num_carry)
        known_c = [value for value in consts if not is_unknown(value)]
        known_x = [value for value in xs if not is_unknown(value)]
        free = (*c_free, *k_free, *x_free)
        solved_types = [type for type, flag in zip(body.input_types, free) if flag]
        solved_c = solved_types[: sum(c_free)]
        ct_carry, ct_ys = split(cotangents, num_carry)

        def backward(*args):
            kc, totals, ct_k, ct_y, kx = split(args, len(known_c), len(solved_c), num_carry, len(ct_ys))

            def linear(*unknown):
                unknown, known = iter(unknown), iter((*kc, *kx))
                return replay(body, [next(unknown) if flag else next(known) for flag in free])

            found = transpose_flat(linear, solved_types, (*ct_k, *ct_y))
            found = [instantiate(ct, type) for ct, type in zip(found, solved_types)]
            ct_c, ct_k, ct_x = split(found, len(solved_c), num_carry)
            return [*map(add, totals, ct_c), *ct_k, *ct_x]

        start = [*[zeros(type.strong()) for type in solved_c], *ct_carry]
        stacks = [*ct_ys, *known_x]
        types = [type_of(value).strong() for value in (*known_c, *start)]
        types += [_step_type(type_of(value)).strong() for value in stacks]
        found = bind_holder(
            scan,
            *known_c,
            *start,
            *stacks,
            body=stage_closed(backward, types, f"transpose_{body.name}"),
            num_consts=len(known_c),
            num_carry=len(start),
            reverse=not reverse,
            **params,
        )
        solved = iter(found)
        solved = [next(solved) if flag else None for flag in free]
        return tuple([value if flag else None for value, flag in zip(solved, given)])

    def sparsity(which, operands, *, body, num_consts, num_carry, length, reverse, unroll):
        steps = range(length)
        return sparsity_of_steps(body, which, operands, num_consts, num_carry, steps[::-1] if reverse else steps)

    def prune(wanted, *, body, num_consts, num_carry, **params):
        ys = wanted[num_carry:]

        def uses(kept):
            outputs = [atom for atom, flag in zip(body.outputs, (*kept, *ys)) if flag]
            smaller = drop_dead_code(body.with_outputs(outputs))
            used = {atom for equation in smaller.equations for atom in equation.inputs} | set(outputs)
            return smaller, [variable in used for variable in body.inputs]

        kept = fixed_point(wanted[:num_carry], lambda flags: uses(flags)[1][num_consts : num_consts + num_carry])
        smaller, used = uses(kept)
        used[num_consts : num_consts + num_carry] = kept
        if all(used) and all(kept) and all(ys):
            return None
        inputs = [i for i, flag in enumerate(used) if flag]
        params = {**params, "num_consts": sum(used[:num_consts]), "num_carry": sum(kept)}
        outputs = [i for i, flag in enumerate((*kept, *ys)) if flag]
        return {"body": smaller.rearranged(inputs), **params}, inputs, outputs

    def vectorize(batch, args, axes, *, body, num_consts, num_carry, **params):
        consts, carry, xs = split(args, num_consts, num_carry)
        c_axes, k_axes, x_axes = split(axes, num_consts, num_carry)
        no_ys = (False,) * (len(body.outputs) - num_carry)

        def axes_for(flags):
            return (*c_axes, *[0 if flag else None for flag in flags], *x_axes)

        batched = fixed_point(
            [axis == 0 for axis in k_axes],
            lambda flags: [axis == 0 for axis in batch_program(body, batch, axes_for(flags))[1][:num_carry]],
        )
        mapped, out_axes = batch_program(body, batch, axes_for(batched), (*batched, *no_ys))
        carry = [
            repeated(value, batch.size) if flag and axis is None else value for value, flag, axis in zip(carry, batched, k_axes)
        ]
        xs = [swapped(x) if axis == 0 else x for x, axis in zip(xs, x_axes)]
        outs = bind_holder(scan, *consts, *carry, *xs, body=mapped, num_consts=num_consts, num_carry=num_carry, **params)
        k, ys = split(outs, num_carry)
        ys = [swapped(y) if axis == 0 else y for y, axis in zip(ys, out_axes[num_carry:])]
        return (*k, *ys), out_axes


def _scan_along(primals, extras, counts, body, out_counts, num_consts, num_carry, params):
    """Scan a body that takes, behind its inputs, other values that go with each of them (`counts` says how many), and returns
    likewise (`out_counts`): tangents, or derivatives. Gives the outputs, and the values that go with them."""
    # the body takes inputs, then the others; the loop wants constants, then carry, then xs, each with its own
    own_c, own_k, own_x = split(range(len(primals)), num_consts, num_carry)
    c_count, k_count = sum(counts[:num_consts]), sum(counts[num_consts : num_consts + num_carry])
    their_c, their_k, their_x = split(range(len(primals), len(primals) + len(extras)), c_count, k_count)
    inputs = (*own_c, *their_c, *own_k, *their_k, *own_x, *their_x)
    num_ys = len(out_counts) - num_carry
    k_out, y_out, tk_out, ty_out = split(range(len(body.outputs)), num_carry, num_ys, k_count)
    operands = [*primals, *extras]
    found = bind_holder(
        scan,
        *[operands[i] for i in inputs],
        body=body.rearranged(inputs, (*k_out, *tk_out, *y_out, *ty_out)),
        num_consts=num_consts + c_count,
        num_carry=num_carry + k_count,
        **params,
    )
    k, tk, y, ty = split(found, num_carry, k_count, num_ys)
    return (*k, *y), (*tk, *ty)


def _transpose_beside_known(cotangents, operands, k_free, body, num_consts, num_carry, reverse, params):
    """The transpose of a scan of which part of the carry is known at every step, as a counter is: that part runs first."""
    consts, carry, xs = split(operands, num_consts, num_carry)
    known = [not is_unknown(value) for value in consts], [not flag for flag in k_free], [not is_unknown(x) for x in xs]
    inputs = [i for i, flag in enumerate([flag for part in known for flag in part]) if flag]
    kept = [i for i, flag in enumerate(known[1]) if flag]
    # one scan carries the known part, and stacks what it is at the start of each step
    histories = [body.inputs[num_consts + i] for i in kept]
    first = drop_dead_code(body.with_outputs([*[body.outputs[i] for i in kept], *histories])).rearranged(inputs)
    known_scan = bind_holder(
        scan,
        *[operands[i] for i in inputs],
        body=first,
        num_consts=sum(known[0]),
        num_carry=len(kept),
        reverse=reverse,
        **params,
    )
    # another has the rest of the carry, and takes those for inputs of its steps
    others = [i for i in range(num_carry) if i not in kept]
    order = [*range(num_consts), *[num_consts + i for i in others], *[num_consts + i for i in kept]]
    order += range(num_consts + num_carry, len(operands))
    outputs = [*others, *range(num_carry, len(body.outputs))]
    found = scan.transpose(
        [cotangents[i] for i in outputs],
        *consts,
        *[carry[i] for i in others],
        *known_scan[len(kept) :],
        *xs,
        body=drop_dead_code(body.rearranged(order, outputs)),
        num_consts=num_consts,
        num_carry=len(others),
        reverse=reverse,
        **params,
    )
    ct_c, ct_k, _, ct_x = split(found, num_consts, len(others), len(kept))
    solved = dict(zip(others, ct_k))
    return (*ct_c, *[solved.get(i) for i in range(num_carry)], *ct_x)


def _step_type(type: ArrayType) -> ArrayType:
    """The type of one of the values that are stacked in a value of this type."""
    return type.with_shape(type.shape[1:])


def stacked_type(type: ArrayType, length: int) -> ArrayType:
    """The type of `length` values of a type, stacked."""
    return type.with_shape((length, *type.shape))


def swapped(value: Any) -> Any:
    """A value with its first two axes, steps and batch, exchanged."""
    return transpose(value, permutation=(1, 0, *range(2, type_of(value).ndim)))


def run_steps(
    body: Program, arrays: Sequence[Array], num_consts: int, num_carry: int, length: int, reverse: bool
) -> tuple[Array, ...]:
    """The loop itself, step by step."""
    consts, carry, xs = split(arrays, num_consts, num_carry)
    hosts = [np.asarray(x.host) for x in xs]
    x_types = body.input_types[num_consts + num_carry :]
    y_types = body.output_types[num_carry:]
    stacks = [np.empty((length, *type.shape), type.dtype) for type in y_types]
    for i in reversed(range(length)) if reverse else range(length):
        outs = run(body, [*consts, *carry, *[Array(type, host[i]) for type, host in zip(x_types, hosts)]])
        carry = outs[:num_carry]
        for stack, y in zip(stacks, outs[num_carry:]):
            stack[i] = y.host
    return (*carry, *[Array(stacked_type(type, length), stack) for type, stack in zip(y_types, stacks)])
