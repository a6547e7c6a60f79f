"""The family of operations that hold Programs: call, checkpoint, cond, scan, while_loop.

Each says in a `Wiring` how its operands reach the Programs that it holds, and how their outputs become its results:

    operands   lead | constants | carry | xs       `lead` is for the operation itself, as the index of a cond
    Program           constants | carry | one x    ->  carry | one y
    results                                            carry | ys

A loop takes all of them. For a call, a checkpoint and a cond, operands are constants and results are ys: nothing is carried and
nothing is stacked. A cond holds several Programs, of which one is run; a while_loop holds another that tests the same inputs.

Every transformation derives other Programs from those and applies the operation to them. What it has to know of an operand is a
flag (it has a tangent, it is a batch, it is unknown, somebody reads it), which spreads: over the carry of a loop until nothing
is added, and over the branches of a cond, which must agree. `Held.spread` finds where to, for all transformations alike; and so
jvp, jet, vectorize, prune and depends are written once, here. So are linearize and transpose where nothing is carried; how
residuals are stacked step by step, and which way a loop is turned around, is the particular knowledge of a scan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pullback.core.axes import Axis, axis_owner, told_axes
from pullback.core.brief import counted
from pullback.core.dtypes import is_inexact
from pullback.core.errors import NotLinear, ProgramError
from pullback.core.primitive import Primitive, Rules
from pullback.core.tracing import bind, bind_at, type_of
from pullback.core.types import ArrayType, is_unknown
from pullback.core.zero import ZERO
from pullback.ops.broadcast import repeated
from pullback.ops.shape import transpose
from pullback.ops.varying import align
from pullback.program.program import Program, axis_names, run
from pullback.transforms.derive import (
    Flags,
    active_terms,
    batch_program,
    dependent_outputs,
    fixed_point,
    linearize_program,
    nonzero_orders,
    pruned_program,
    pushed_program,
    series_of,
    stage_closed,
    transpose_program,
    united,
    zeroed_program,
)
from pullback.transforms.sparsity import sparsity_of_any
from pullback.transforms.stage import replay
from pullback.transforms.transpose import Linear
from pullback.transforms.zeros import is_zero, zero_of

# ---- the description --------------------------------------------------------------------------------------------------


Outs = Callable[[Program, Flags], Flags]
"""The flags of a Program's outputs, by those of its inputs."""
System = Callable[..., dict[str, tuple[Flags, Flags]]]
"""`(outs, flags, **params)` to the flags of the inputs of each Program among the parameters, and those that its outputs must
have; none where they have what they have."""


class Wiring(NamedTuple):
    """How an operation is wired to the Programs that it holds. Names are those of its parameters.

    Attributes:
        programs: a Program, or a tuple of them that all take the same and return the same.
        lead: how many operands come before what they take.
        consts: how many operands are the same at every step of a loop; None if all are.
        carry: how many operands come next, and are carried. Those that are left then are stacked xs.
        test: a Program of the same inputs that says whether to go on; then all that is not constant is carried.
        system: for an operation that holds Programs with other inputs, how flags of its operands reach each (`System`).
    """

    programs: str
    lead: int = 0
    consts: str | None = None
    carry: str | None = None
    test: str | None = None
    system: System | None = None


class Held(NamedTuple):
    """What an operation holds, read from its parameters by its wiring."""

    wiring: Wiring
    given: dict[str, Any]
    programs: tuple[Program, ...]
    test: Program | None
    consts: int
    carry: int

    def on(self, programs: Sequence[Program], **wired: Any) -> dict[str, Any]:
        """The parameters with other Programs, and, where that is said, another `test` or numbers of `consts` and `carry`."""
        wiring = self.wiring
        many = self.given[wiring.programs].__class__ is tuple
        named = {getattr(wiring, field): value for field, value in wired.items()}
        named.pop(None, None)  # what this operation has not
        return {**self.given, wiring.programs: tuple(programs) if many else programs[0], **named}

    def split(self, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Constants, carry and xs."""
        return split(values, self.consts, self.carry)

    def spread(self, flags: Flags, make: Derive, also: Callable[[Flags], Flags] | None = None) -> Spread:
        """Other Programs derived from the held ones, and the flags of their inputs and outputs that go with each other.

        Arguments:
            make: derives a Program for flagged inputs; says which outputs are flagged then. The third argument are those that
                must be.
            also: what else the flags of a carry add to them.
        """
        if len(self.programs) == 1 and not self.carry:
            derived, nonzero = make(self.programs[0], flags, ())
            return Spread((derived,), flags, nonzero)
        consts, carry, xs = self.split(flags)

        def outs(carried: Flags) -> Flags:
            return united([make(program, (*consts, *carried, *xs), ())[1] for program in self.programs])

        def step(carried: Flags) -> Flags:
            found = outs(carried)[: self.carry]
            return found if also is None else united((found, also((*consts, *carried, *xs))))

        carry = fixed_point(carry, step) if self.carry else ()
        ins = (*consts, *carry, *xs)
        nonzero = (*carry, *outs(carry)[self.carry :])
        made = []
        for program in self.programs:
            derived, own = make(program, ins, ())
            made.append(derived if own == nonzero else make(program, ins, nonzero)[0])
        return Spread(tuple(made), ins, nonzero)


Derive = Callable[[Program, Flags, Flags], tuple[Any, Flags]]


class Spread(NamedTuple):
    """What `Held.spread` finds: the derived Programs, and the flags of their inputs and of their outputs."""

    programs: tuple[Any, ...]
    ins: Flags
    outs: Flags


def held_by(primitive: Primitive, params: dict[str, Any]) -> Held:
    """What an operation with these parameters holds."""
    wiring: Wiring = primitive.wiring
    value = params[wiring.programs]
    programs = value if value.__class__ is tuple else (value,)
    count = len(programs[0].inputs)
    consts = count if wiring.consts is None else params[wiring.consts]
    carry = count - consts if wiring.test is not None else 0 if wiring.carry is None else params[wiring.carry]
    return Held(wiring, params, programs, None if wiring.test is None else params[wiring.test], consts, carry)


def split(values: Sequence[Any], *sizes: int) -> list[tuple[Any, ...]]:
    """A sequence cut into pieces of these sizes, and what is left."""
    pieces, start = [], 0
    for size in sizes:
        pieces.append(tuple(values[start : start + size]))
        start += size
    return [*pieces, tuple(values[start:])]


def check_operands(name: str, types: Sequence[ArrayType], takes: Sequence[ArrayType]) -> None:
    """Raise unless operands are what a Program takes; a weak one may stand for a strong one, and the other way around."""
    if len(types) != len(takes) or any([a is not b and a.strong() is not b.strong() for a, b in zip(types, takes)]):
        given, wanted = (", ".join(map(str, row)) for row in (types, takes))
        raise ProgramError(f"{name} holds a Program that takes ({wanted}), but its operands are ({given}).")


def check_carry(name: str, body: Program, num_consts: int, num_carry: int) -> None:
    """Raise unless a step of a loop takes as many values as are said to be the same in all steps and to be carried, and first
    returns what it carries."""
    takes, returns = [[type.strong() for type in types] for types in (body.input_types, body.output_types)]
    carry = takes[num_consts : num_consts + num_carry]
    if min(num_consts, num_carry) < 0 or len(takes) < num_consts + num_carry or returns[:num_carry] != carry:
        raise ProgramError(
            f"{name} carries {counted(num_carry, 'value')} after {num_consts} that stay, but a step of it takes"
            f" ({', '.join(map(str, body.input_types))}) and returns ({', '.join(map(str, body.output_types))})."
        )


def bind_holder(holder: Any, *args: Any, **params: Any) -> Any:
    """Apply a primitive that holds Programs, also where only a named axis of an enclosing vmap concerns one of them."""
    names = axis_names(holder, params)
    if not names:
        return bind(holder, args, params)
    return bind_at(max([axis_owner(name) for name in names], key=lambda trace: trace.serial), holder, args, params)


def bind_or_forward(holder: Any, *args: Any, **params: Any) -> Sequence[Any]:
    """Apply a primitive that holds Programs. What these hand on as it came is no result of it, but the operand itself: a batch
    of conds or of steps makes no batch of it."""
    held = held_by(holder, params)
    given = args[held.wiring.lead :]
    places: dict[Any, int] = {variable: place for place, variable in enumerate(held.programs[0].inputs)}
    sources: list[Any] = []
    for number, output in enumerate(held.programs[0].outputs):
        place = places.get(output, -1)
        same = place >= 0 and all([program.outputs[number] is program.inputs[place] for program in held.programs])
        if held.wiring.carry is None and held.wiring.test is None:
            stays = same
        else:  # what a loop carries begins as the operand, and ends so; what it stacks is stacked already
            stays = same and (place == held.consts + number if number < held.carry else place >= held.consts + held.carry)
        sources.append(given[place] if stays and type_of(given[place]).weak is output.type.weak else None)
    kept = [source is None for source in sources]
    smaller = None if all(kept) else holder.prune(tuple(kept), **params)
    if smaller is None:
        return bind_holder(holder, *args, **params)  # type: ignore[no-any-return]
    params, inputs, outputs = smaller
    for place, out in zip(outputs, bind_holder(holder, *[args[i] for i in inputs], **params)):
        sources[place] = out if sources[place] is None else sources[place]
    return sources


# ---- what follows from it ---------------------------------------------------------------------------------------------


class Wired(Rules):
    """What follows for every operation with a `wiring`, and for one that runs its Program once."""

    multiple_results = True
    on_arrays = True
    needs_axis = True
    symbolic_zeros = True

    def evaluate(primitive, *arrays, **params):
        return run(params[primitive.wiring.programs], arrays)

    def lower(primitive, write, *values, **params):
        return write.inline(params[primitive.wiring.programs], *values)


class Holder(Wired):
    """The rules of an operation that follow from its `wiring`."""

    def jvp(primitive, primals, tangents, **params):
        live = [tangent for tangent in tangents if tangent is not ZERO]
        if any([tangent.__class__ is Linear for tangent in live]):
            # On a tape, values and tangents must come from two operations, or the values would be unknown with the tangents.
            apart = primitive.linearize(primals, tuple([t is not ZERO for t in tangents]), **params)
            if apart is not NotImplemented:
                return apart[0], apart[1](*live)
        outs, series = _pushed(primitive, None, primals, [(tangent,) for tangent in tangents], params)
        return outs, tuple([tangent for (tangent,) in series])

    def jet(primitive, primals, series, **params):
        return _pushed(primitive, len(series[0]), primals, series, params)

    def linearize(primitive, primals, active, **params):
        held = held_by(primitive, params)
        lead, values = split(primals, held.wiring.lead)
        programs = held.programs
        if len(programs) > 1:
            programs = tuple([joined(program, len(program.outputs)) for program in programs])
        halves = linearize_branches(programs, tuple(active[len(lead) :]))
        return in_halves(halves, values, lambda made, args: bind_holder(primitive, *lead, *args, **held.on(made)))

    def transpose(primitive, cotangents, *operands, **params):
        held = held_by(primitive, params)
        lead, own = split(operands, held.wiring.lead)
        unknown = tuple([int(is_unknown(operand)) for operand in own])
        try:
            made = held.spread(unknown, transpose_program)
        except NotLinear:
            if (solved := transposed_without_zeros(primitive, cotangents, operands, params)) is None:
                raise
            return solved
        known = [value for value in own if not is_unknown(value)]
        found = bind_holder(primitive, *lead, *known, *cotangents, **held.on(made.programs))
        solved = iter(at_flags(found, made.outs))
        return (*[None] * len(lead), *[next(solved) if flag else None for flag in unknown])

    def sparsity(primitive, which, operands, **params):
        held = held_by(primitive, params)
        return sparsity_of_any(held.programs, which - held.wiring.lead, operands[held.wiring.lead :])

    def vectorize(primitive, batch, args, axes, **params):
        held = held_by(primitive, params)
        lead, own = split(args, held.wiring.lead)
        flags = tuple([int(axis == 0) for axis in axes[len(lead) :]])
        made = held.spread(flags, lambda *given: batch_program(given[0], batch, *given[1:]))
        found = bind_holder(primitive, *lead, *batched_operands(held, own, flags, made.ins, batch), **held.on(made.programs))
        carry, ys = split(found, held.carry)
        if held.wiring.carry is not None:  # stacked, so that steps come first again
            ys = tuple([swapped(y) if flag else y for y, flag in zip(ys, made.outs[held.carry :])])
        return (*carry, *ys), tuple([0 if flag else None for flag in made.outs])

    def prune(primitive, wanted, **params):
        held = held_by(primitive, params)
        ys = tuple(wanted[held.carry :])
        every = (1,) * len(held.programs[0].inputs)
        tested = () if held.test is None else (pruned_program(held.test, (1,))[1],)

        def used_by(carry: Flags) -> Flags:
            return united([*tested, *[pruned_program(program, (*carry, *ys))[1] for program in held.programs]])

        carry = fixed_point(tuple(wanted[: held.carry]), lambda flags: held.split(used_by(flags))[1])
        consts, _, xs = held.split(used_by(carry))
        used = (*consts, *carry, *xs)
        if used == every and all((*carry, *ys)):
            return None
        inputs = [i for i, flag in enumerate(used) if flag]
        programs = [pruned_program(program, (*carry, *ys))[0].rearranged(inputs) for program in held.programs]
        test = None if held.test is None else held.test.rearranged(inputs)
        lead = held.wiring.lead
        outputs = [i for i, flag in enumerate((*carry, *ys)) if flag]
        smaller = held.on(programs, test=test, consts=sum(consts), carry=sum(carry))
        return smaller, [*range(lead), *[lead + i for i in inputs]], outputs

    def depends(primitive, flags, **params):
        held = held_by(primitive, params)
        lead, own = split(flags, held.wiring.lead)
        made = held.spread(own, lambda program, ins, _: (None, dependent_outputs(program, ins)))
        on_test = held.test is not None and any(dependent_outputs(held.test, made.ins))
        return (1,) * len(made.outs) if any(lead) or on_test else made.outs


def transposed_without_zeros(
    primitive: Primitive, cotangents: Sequence[Any], operands: Sequence[Any], params: dict[str, Any]
) -> tuple[Any, ...] | None:
    """The transpose of an operation whose Programs add operands to what is unknown, which is linear where those are zero: they
    are made in the Programs, where they are known to be. None if none is."""
    held = held_by(primitive, params)
    lead, own = split(operands, held.wiring.lead)
    flags = tuple([not is_unknown(x) and is_inexact(type_of(x).dtype) and is_zero(x) for x in own])
    flags = tuple([flag and not held.consts <= i < held.consts + held.carry for i, flag in enumerate(flags)])
    if not any(flags):
        return None
    programs = [zeroed_program(program, flags) for program in held.programs]
    others = [x for x, flag in zip(own, flags) if not flag]
    smaller = held.on(programs, consts=held.consts - sum(flags[: held.consts]))
    found = iter(primitive.transpose(cotangents, *lead, *others, **smaller))  # type: ignore[misc]
    return tuple([next(found) for _ in lead] + [None if flag else next(found) for flag in flags])


def at_flags(found: Sequence[Any], flags: Sequence[int]) -> tuple[Any, ...]:
    """Values where they are flagged, ZERO elsewhere."""
    given = iter(found)
    return tuple([next(given) if flag else ZERO for flag in flags])


def _pushed(primitive: Primitive, order: int | None, primals: Any, series: Any, params: dict[str, Any]) -> Any:
    """The results, and their derivatives: each Program carries along, behind its inputs and its outputs, those of each."""
    held = held_by(primitive, params)
    lead, own = split(primals, held.wiring.lead)
    active = nonzero_orders(series[len(lead) :])
    made = held.spread(active, lambda program, ins, forced: pushed_program(program, order, ins, forced))
    operands = [*own, *active_terms(own, series[len(lead) :], made.ins)]
    # A Program takes all its inputs, then their derivatives. A loop wants constants, then carry, then xs, each with its own.
    count, outs = len(own), len(made.outs)
    of_consts, of_carry = [_count(part) for part in held.split(made.ins)[:2]]
    inputs = _joined(held.split(range(count)), split(range(count, len(operands)), of_consts, of_carry))
    results = range(outs + _count(made.outs))
    outputs = _joined(split(results[:outs], held.carry), split(results[outs:], of_carry))
    test = held.test
    if test is not None:
        test = test.rearranged([i if i < count else type_of(operands[i]) for i in inputs])
    programs = [program.rearranged(inputs, outputs) for program in made.programs]
    params = held.on(programs, test=test, consts=held.consts + of_consts, carry=held.carry + of_carry)
    found = dict(zip(outputs, bind_holder(primitive, *lead, *[operands[i] for i in inputs], **params), strict=True))
    row = [found[i] for i in results]
    return tuple(row[:outs]), series_of(row[outs:], made.outs, order)


def _joined(own: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]]) -> list[int]:
    """The parts of one row, each followed by the part of the other."""
    return [i for pair in zip(own, theirs, strict=True) for part in pair for i in part]


def _count(flags: Sequence[int]) -> int:
    return sum([flag.bit_count() for flag in flags])


def batched_operands(held: Held, args: Sequence[Any], flags: Flags, ins: Flags, batch: Axis) -> list[Any]:
    """Operands as a batched loop takes them: a carry that comes to be a batch starts as one, and xs have steps in front."""
    consts, carry, xs = held.split(args)
    pairs = zip(carry, held.split(flags)[1], held.split(ins)[1])
    carry = tuple([repeated(x, batch.size) if to and not was else x for x, was, to in pairs])
    return [*consts, *carry, *[swapped(x) if flag else x for x, flag in zip(xs, held.split(ins)[2])]]


def swapped(value: Any) -> Any:
    """A value with its first two axes, steps and batch, exchanged."""
    return transpose(value, permutation=(1, 0, *range(2, type_of(value).ndim)))


# ---- Programs of which one is run, linearized -------------------------------------------------------------------------


def joined(program: Program, count: int) -> Program:
    """One of several Programs of which one is run, or that of a step of a loop, of whose outputs the first `count` take places
    that others take too. In a shard_map these may vary where its own do not: the cotangents are made to vary as its own do."""
    axes = told_axes()
    if not axes:
        return program

    def ending(*args: Any) -> list[Any]:
        outs = replay(program, args)
        return [*align(outs[:count], outs[:count]), *outs[count:]]

    made: Program = program.memo(
        ("joined", count, axes), lambda: stage_closed(ending, program.input_types, program.name, program)
    )
    return made


class Halves(NamedTuple):
    """Programs, of which one is run, split in two: all return the same from the first half and take the same in the second."""

    forward: tuple[Program, ...]  # inputs -> outputs + residuals
    tangent: tuple[Program, ...]  # known values + tangents of the active inputs -> tangents of the outputs
    known: tuple[int, ...]  # where those values are among inputs + residuals
    nonzero: Flags  # which outputs have a tangent


def in_halves(halves: Halves, values: Sequence[Any], apply: Callable[[tuple[Program, ...], Sequence[Any]], Any]) -> Any:
    """What a `linearize` rule returns: the first half is applied now, the second one to tangents."""
    outs = apply(halves.forward, values)
    count = len(halves.nonzero)
    known = [*values, *outs[count:]]
    known = [known[i] for i in halves.known]

    def push(*tangents: Any) -> tuple[Any, ...]:
        return at_flags(apply(halves.tangent, [*known, *tangents]), halves.nonzero)

    return tuple(outs[:count]), push


def linearize_branches(programs: tuple[Program, ...], active: Flags) -> Halves:
    """The two halves of Programs of which one is run. Residuals that are inputs are at hand; the Programs share places for the
    others, by type; not in a shard_map, where what is the same on all devices would seem to differ where another's does."""
    told = bool(told_axes())

    def make() -> Halves:
        nonzero = united([linearize_program(program, active).nonzero for program in programs])
        parts = [linearize_program(program, active) for program in programs]
        parts = [p if p.nonzero == nonzero else linearize_program(q, active, nonzero) for p, q in zip(parts, programs)]
        inputs, count = len(active), len(nonzero)
        places: list[ArrayType] = []
        of_type: dict[ArrayType, list[int]] = {}
        rows, reads = (
            [],
            [],
        )  # of each Program: the places of its residuals that are no inputs; where each is in inputs + places
        for part in parts:
            if told:
                of_type = {}
            used: Counter[ArrayType] = Counter()
            row, read = [], []
            for place, index in part.residuals:
                if place == "input":
                    read.append(index)
                    continue
                type = part.forward.outputs[index].type
                found = of_type.setdefault(type, [])
                if used[type] == len(found):
                    found.append(len(places))
                    places.append(type)
                row.append(found[used[type]])
                read.append(inputs + row[-1])
                used[type] += 1
            rows.append(row)
            reads.append(read)
        known = tuple(dict.fromkeys(i for row in reads for i in row))
        types = [*programs[0].input_types, *places]
        tangent = []
        for part, row in zip(parts, reads):
            takes = [row.index(i) if i in row else types[i] for i in known]
            tangent.append(part.tangent.rearranged([*takes, *range(len(row), len(part.tangent.inputs))]))
        forward = [with_places(part.forward, count, row, places) for part, row in zip(parts, rows)]
        return Halves(tuple(forward), tuple(tangent), known, nonzero)

    made: Halves = programs[0].memo(("halves", programs[1:], active, told), make)
    return made


def with_places(forward: Program, count: int, row: Sequence[int], places: Sequence[ArrayType]) -> Program:
    """A Program's forward half with its residuals in the places that all share; zeros in those of others."""

    def filled(*args: Any) -> list[Any]:
        outs = replay(forward, args)
        own = dict(zip(row, outs[count:]))
        return [*outs[:count], *[own[i] if i in own else zero_of(type) for i, type in enumerate(places)]]

    if list(row) == list(range(len(places))):
        return forward
    return stage_closed(filled, forward.input_types, forward.name)
