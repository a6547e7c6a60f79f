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

import numpy as np

from pullback.control.holder import (
    Holder,
    Wiring,
    at_flags,
    bind_holder,
    check_carry,
    check_operands,
    held_by,
    joined,
    split,
    transposed_without_zeros,
)
from pullback.core.array import Array, on_a_device
from pullback.core.errors import NotLinear
from pullback.core.execution import engine
from pullback.core.primitive import primitive
from pullback.core.tracing import type_of
from pullback.core.types import ArrayType, is_unknown
from pullback.core.zero import instantiate, zeros
from pullback.ops.arithmetic import add
from pullback.program.equation import Literal
from pullback.program.program import Program, run
from pullback.program.provenance import finishing
from pullback.transforms.derive import (
    Flags,
    LinearizedProgram,
    dependent_outputs,
    fixed_point,
    linearize_program,
    of_unknown,
    split_invariants,
    stage_closed,
)
from pullback.transforms.simplify import drop_dead_code
from pullback.transforms.sparsity import sparsity_of_steps
from pullback.transforms.stage import replay
from pullback.transforms.transpose import has_constant_part, transpose_flat
from pullback.transforms.zeros import is_zero

# Eager loops up to this many operations run step by step on NumPy; longer ones are compiled.
STEPWISE_OPERATIONS = 2000


def _recorded(write, *values, body, num_consts, num_carry, length, reverse, unroll):
    """The loop for the native tier, which knows loops of known length."""
    if not length:
        return [
            *values[num_consts : num_consts + num_carry],
            *[write.constant(0, type) for type in write.result_types[num_carry:]],
        ]
    return write.scan(body, *split(values, num_consts, num_carry), length, reverse)


@primitive
class scan(Holder):
    """Carry values through `length` steps of `body`, stacking what each step returns; backwards if `reverse`."""

    wiring = Wiring("body", consts="num_consts", carry="num_carry")

    def result_type(*types, body: Program, num_consts: int, num_carry: int, length: int, reverse: bool, unroll: int):
        check_carry("scan", body, num_consts, num_carry)
        consts, carry, xs = split(body.input_types, num_consts, num_carry)
        check_operands("scan", types, (*consts, *carry, *[stacked_type(type, length) for type in xs]))
        outs = body.output_types
        return (*outs[:num_carry], *[stacked_type(type, length) for type in outs[num_carry:]])

    def evaluate(*arrays, body, num_consts, num_carry, length, reverse, unroll):
        if length * len(body.equations) > STEPWISE_OPERATIONS or on_a_device(arrays):
            body, captured = body.opened()  # so that what it closes over may change from call to call
            params = {"num_carry": num_carry, "length": length, "reverse": reverse, "unroll": unroll}
            params |= {"body": body, "num_consts": len(captured) + num_consts}
            return engine().run_operation(scan, (*captured, *arrays), params)
        return run_steps(body, arrays, num_consts, num_carry, length, reverse)

    def lower(write, *values, body, num_consts, num_carry, length, reverse, unroll):
        consts, carry, xs = split(values, num_consts, num_carry)
        ys = [write.constant(0, type) for type in write.result_types[num_carry:]]
        if not length:
            return [*carry, *ys]
        if (done := write.offload(values)) is not None:
            return done

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

    platforms = {"native": _recorded}  # noqa: RUF012  (a rule, not a default)

    def linearize(primals, active, **params):
        held = held_by(scan, params)
        held = held._replace(programs=(joined(held.programs[0], held.carry),))
        made = held.spread(tuple([int(flag) for flag in active]), _linearized)
        (linearized,) = made.programs
        c_active, k_active, _ = held.split(made.ins)
        k_started = held.split(active)[1]
        # what the forward body computes from the constants alone is computed once
        before, loop = split_invariants(linearized.forward, held.consts)
        consts, carry, xs = held.split(primals)
        values = replay(before, consts)
        invariants = values[: len(loop.inputs) - len(primals)]
        fixed = {**dict(zip(before.outputs, values)), **dict(zip(linearized.forward.inputs, consts))}

        # each residual is the same at every step, or one of the inputs that are stacked already, or is stacked now
        same, stacked, new = {}, {}, {}
        for i, (place, index) in enumerate(linearized.residuals):
            atom = (linearized.forward.outputs if place == "output" else linearized.forward.inputs)[index]
            if atom in fixed:
                same[i] = fixed[atom]
            elif isinstance(atom, Literal):
                same[i] = atom.value
            elif place == "input" and index >= held.consts + held.carry:
                stacked[i] = xs[index - held.consts - held.carry]
            else:
                new[i] = atom
        count = len(made.outs)
        forward = loop.with_outputs((*loop.outputs[:count], *new.values()))
        stepping = held.on([forward], consts=held.consts + len(invariants))
        outs = bind_holder(scan, *consts, *invariants, *carry, *xs, **stepping)
        stacked.update(zip(new, outs[count:]))

        def push(*tangents):
            tc, started, tx = split(tangents, sum(c_active), sum(k_started))
            given = iter(started)
            pairs = [(x, begun) for x, begun, flag in zip(carry, k_started, k_active) if flag]
            tk = [next(given) if begun else zeros(type_of(x).strong()) for x, begun in pairs]
            places = range(len(linearized.residuals), len(linearized.tangent.inputs))
            c_at, k_at, x_at = split(places, len(tc), len(tk))
            tangent = linearized.tangent.rearranged((*same, *c_at, *k_at, *stacked, *x_at))
            stepping = held.on([tangent], consts=len(same) + len(tc), carry=len(tk))
            found = bind_holder(scan, *same.values(), *tc, *tk, *stacked.values(), *tx, **stepping)
            return at_flags(found, linearized.nonzero)

        return tuple(outs[:count]), push

    def transpose(cotangents, *operands, **params):
        held = held_by(scan, params)
        (body,) = held.programs
        given = tuple([int(is_unknown(value)) for value in operands])
        c_free, k_given, x_free = held.split(given)
        # a carry that starts from something known may still come to depend on the unknown: from zero, in a tangent loop
        k_free = fixed_point(k_given, lambda flags: dependent_outputs(body, (*c_free, *flags, *x_free))[: held.carry])
        if not all(k_free):
            return _transpose_beside_known(cotangents, operands, k_free, params)
        consts, carry, xs = held.split(operands)
        if not all([is_unknown(value) or is_zero(value) for value in carry]):
            raise has_constant_part("a loop adds unknown values to a carry that starts from one that is not known to be zero")
        known_c, known_x = ([value for value in part if not is_unknown(value)] for part in (consts, xs))
        free = (*c_free, *k_free, *x_free)
        solved_types = [type for type, flag in zip(body.input_types, free) if flag]
        solved_c = solved_types[: sum(c_free)]
        ct_carry, ct_ys = split(cotangents, held.carry)

        def backward(*args):
            kc, totals, ct_k, ct_y, kx = split(args, len(known_c), len(solved_c), held.carry, len(ct_ys))
            found = transpose_flat(of_unknown(body, free, (*kc, *kx)), solved_types, (*ct_k, *ct_y), partly=True)
            found = [instantiate(ct, type) for ct, type in zip(found, solved_types)]
            with finishing("cotangent"):
                return [*map(add, totals, found), *found[len(solved_c) :]]

        start = [*[zeros(type.strong()) for type in solved_c], *ct_carry]
        stacks = [*ct_ys, *known_x]
        types = [type_of(value).strong() for value in (*known_c, *start)]
        types += [_step_type(type_of(value)).strong() for value in stacks]
        try:
            turned = stage_closed(backward, types, f"transpose_{body.name}")
        except NotLinear:
            if (zeroed := transposed_without_zeros(scan, cotangents, operands, params)) is None:
                raise
            return zeroed
        stepping = {**held.on([turned], consts=len(known_c), carry=len(start)), "reverse": not params["reverse"]}
        solved = iter(bind_holder(scan, *known_c, *start, *stacks, **stepping))
        solved = [next(solved) if flag else None for flag in free]
        return tuple([value if flag else None for value, flag in zip(solved, given)])

    def sparsity(which, operands, *, body, num_consts, num_carry, length, reverse, unroll):
        steps = range(length)
        return sparsity_of_steps(body, which, operands, num_consts, num_carry, steps[::-1] if reverse else steps)


def _linearized(body: Program, active: Flags, forced: Flags) -> tuple[LinearizedProgram, Flags]:
    found = linearize_program(body, active, forced)
    return found, found.nonzero


def _transpose_beside_known(cotangents, operands, k_free, params):
    """The transpose of a scan of which part of the carry is known at every step, as a counter is: that part runs first."""
    held = held_by(scan, params)
    (body,) = held.programs
    places = held.split(range(len(operands)))
    kept, others = ([i for i, flag in enumerate(k_free) if bool(flag) is free] for free in (False, True))
    # one scan stacks what the known part is at the start of each step
    histories = body.with_outputs((*body.outputs, *[body.inputs[places[1][i]] for i in kept]))
    wanted = (*[0] * len(body.outputs), *[1] * len(kept))
    known_params, inputs, _ = scan.prune(wanted, **held.on([histories]))
    known = bind_holder(scan, *[operands[i] for i in inputs], **known_params)[-len(kept) :]
    # another has the rest of the carry, and takes those for inputs of its steps
    consts, carry, xs = held.split(operands)
    order = [*places[0], *[places[1][i] for i in (*others, *kept)], *places[2]]
    outputs = [*others, *range(held.carry, len(body.outputs))]
    smaller = held.on([drop_dead_code(body.rearranged(order, outputs))], carry=len(others))
    given = (*consts, *[carry[i] for i in others], *known, *xs)
    found = scan.transpose([cotangents[i] for i in outputs], *given, **smaller)
    ct_c, ct_k, _, ct_x = split(found, len(consts), len(others), len(kept))
    solved = dict(zip(others, ct_k))
    return (*ct_c, *[solved.get(i) for i in range(held.carry)], *ct_x)


def _step_type(type: ArrayType) -> ArrayType:
    """The type of one of the values that are stacked in a value of this type."""
    return type.with_shape(type.shape[1:])


def stacked_type(type: ArrayType, length: int) -> ArrayType:
    """The type of `length` values of a type, stacked."""
    return type.with_shape((length, *type.shape))


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
