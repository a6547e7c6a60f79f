"""Which values of a shard_map differ between devices, and along which axes of the mesh.

This is an analysis of the Program that every device runs. An input varies along the axes that its spec names. A result varies
where an operand does; `psum` and its like make it the same along their axis, and `axis_index`, `ppermute` and their like make
it differ. What varies spreads through loops until nothing is added, and from the predicate of a branch to its results.

It also replaces the operations of `ops/varying.py`, which stand for what depends on the answer. Flags of values are numbers
with a bit for each axis.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pullback.control.custom_function import custom_pullback
from pullback.control.holder import Wiring, held_by, split
from pullback.core.axes import own_axes
from pullback.core.errors import ShardingError
from pullback.core.source import source_text
from pullback.ops.collective import axis_index, pmax, pmin, ppermute, psum, pvary
from pullback.ops.varying import aligned, psum_over_varying, pvary_over_varying
from pullback.parallel.predicates import Disagreement, differ
from pullback.program.program import Atom, Equation, Program, Variable, programs_in
from pullback.transforms.derive import Flags, united
from pullback.transforms.simplify import drop_dead_code, pruned

Names = tuple[str, ...]


class Settled(NamedTuple):
    """A Program in which nothing depends on how values vary any more, along the axes in question.

    Attributes:
        program: the Program. outs: how its outputs vary.
    """

    program: Program
    outs: Flags


def flags_of(names: Names, axes: Any) -> int:
    """Axes as a number with a bit for each."""
    return sum([1 << number for number, name in enumerate(names) if name in axes])


def names_in(names: Names, flags: int) -> list[str]:
    """The axes that a number stands for."""
    return [name for number, name in enumerate(names) if flags >> number & 1]


def any_of(flags: Sequence[int]) -> int:
    """The axes along which any of several values varies."""
    return functools.reduce(operator.or_, flags, 0)


def settled(program: Program, names: Names, ins: Flags, told: bool) -> Settled:
    """How the outputs of a Program vary along the axes `names`, of inputs that vary as `ins` says. Where cotangents are `told`
    to vary as values do, operands of loops and branches are made to vary as these need it."""
    made: Settled = program.memo(("settled", names, ins, told), lambda: _Settling(program, names, ins, told).made)
    return made


def summed_outputs(found: Settled, names: Names, allowed: Sequence[int]) -> Program:
    """The Program with its outputs summed over the axes along which they vary, but for those that are `allowed`."""
    return _with_outputs(found.program, psum, names, [own & ~free for own, free in zip(found.outs, allowed, strict=True)])


def varied_outputs(found: Settled, names: Names, wanted: Sequence[int]) -> Program:
    """The Program with its outputs taken to vary along axes: devices that share a result have cotangents of their own for it,
    where each of them has a part of the whole."""
    added = [all_of & ~own for own, all_of in zip(found.outs, wanted, strict=True)]
    return _with_outputs(found.program, pvary, names, added)


def _with_outputs(program: Program, primitive: Any, names: Names, wanted: Sequence[int]) -> Program:
    """The Program with an operation applied to each output over its axes."""
    if not any(wanted):
        return program
    equations, outs = list(program.equations), []
    for atom, flags in zip(program.outputs, wanted, strict=True):
        for name in names_in(names, flags):
            atom = _applied(primitive, atom, name, equations, None)
        outs.append(atom)
    return Program(program.inputs, equations, outs, program.constants, program.name, program.batch_axes)


def _applied(primitive: Any, atom: Atom, name: Any, equations: list[Equation], like: Equation | None) -> Atom:
    """An operation over an axis, added to equations; its result."""
    out = Variable(atom.type)
    params = {"axis_name": name}
    if like is None:
        equations.append(Equation(primitive, (atom,), (out,), params))
    else:
        equations.append(Equation(primitive, (atom,), (out,), params, like.source, like.origin, like.made))
    return out


def meetings(programs: Sequence[Program], names: Names, apart: int) -> Iterator[tuple[Equation, int]]:
    """The operations between devices in what devices that differ along the axes `apart` do another number of times; and along
    which of these axes those that communicate lie. Where some do not come to them, the others would wait for ever."""
    for equation in [equation for program in programs for equation in program.equations]:
        primitive, params = equation.primitive, equation.params
        if primitive.named_axes and primitive not in (pvary, axis_index):
            own = flags_of(names, own_axes(primitive, params)) & apart
            if own or primitive is ppermute:  # whose pairs XLA has all devices of a mesh wait for
                yield equation, apart if primitive is ppermute else own
        yield from meetings(list(programs_in(params)), names, apart)


def refuse_meetings(programs: Sequence[Program], names: Names, apart: int, holder: str) -> None:
    """Raise `ShardingError` for an operation between devices that not all of them come to."""
    for equation, _ in meetings(programs, names, apart):
        along = ", ".join(map(repr, names_in(names, apart)))
        raise ShardingError(
            f"shard_map: {_met(equation)} is in a {holder} whose predicate may"
            f" differ between devices along {along}: some would come to it and wait for ever for those that do not."
            " Apply it outside; or make the predicate agree first (pb.lax.psum, pmax); or, if you know that it does,"
            " pass check_vma=False."
        )


def _met(equation: Equation) -> str:
    """An operation between devices in words."""
    return f"{equation.primitive.name} over {equation.params['axis_name']!r}{_at(equation)}"


def _at(equation: Equation) -> str:
    return "" if equation.source is None else f" at {source_text(equation.source)}"


class _Settling:
    """One walk over a Program."""

    def __init__(self, program: Program, names: Names, ins: Flags, told: bool) -> None:
        self.names = names
        self.told = told
        self.flags: dict[Any, int] = dict(zip(program.inputs, ins, strict=True))
        self.same: dict[Any, Atom] = {}  # what stands for a result that is an operand
        self.pulled: set[Any] = set()  # what vjp rules are the transposes of, which nothing computes
        self.equations: list[Equation] = []
        for equation in program.equations:
            self.settle(equation)
        outs = tuple([self.flags.get(atom, 0) for atom in program.outputs])
        outputs = [self.same.get(atom, atom) for atom in program.outputs]
        same = Program(program.inputs, self.equations, outputs, program.constants, program.name, program.batch_axes)
        self.made = Settled(drop_dead_code(same), outs)

    def settle(self, equation: Equation) -> None:
        primitive, params = equation.primitive, equation.params
        own = tuple([self.flags.get(atom, 0) for atom in equation.inputs])
        if not self.same.keys().isdisjoint(equation.inputs):
            equation = equation.replace(inputs=tuple([self.same.get(atom, atom) for atom in equation.inputs]))
        if primitive is aligned and equation.inputs[0] in self.pulled:  # a tangent, which varies as its value does
            self.equations.append(equation)
            self.flags[equation.outputs[0]] = own[1]
            return
        if primitive is aligned:
            self.stands(equation, equation.inputs[0], own[0])
            return
        if primitive is custom_pullback and params["pullback"].rules.jvp is None:
            self.pulled.update(equation.outputs)
        if primitive is psum_over_varying or primitive is pvary_over_varying:
            self.replace(equation, own)
            return
        outs = [any_of(own)] * len(equation.outputs)
        if primitive.named_axes:
            bits = flags_of(self.names, own_axes(primitive, params))
            agrees = primitive.agrees is not None and primitive.agrees(**params)
            outs = [flags & ~bits if agrees else flags | bits for flags in outs]
        elif programs_in(params):
            equation, own = self.at_one_branch(equation, own)
            changed, ins, found = self.held(equation, own, outs)
            atoms = [self.varied(atom, flags, wanted) for atom, flags, wanted in zip(equation.inputs, own, ins, strict=True)]
            equation, outs = equation.replace(tuple(atoms), params=changed), list(found)
            if primitive.prune is not None:  # what was named for its variation alone is read no more
                equation = pruned(equation, [True] * len(outs))
        self.equations.append(equation)
        self.flags.update(zip(equation.outputs, outs, strict=True))

    def varied(self, atom: Atom, own: int, wanted: int) -> Atom:
        """An operand, taken to vary along more axes."""
        for name in names_in(self.names, wanted & ~own if self.told else 0):
            atom = _applied(pvary, atom, name, self.equations, None)
        return atom

    def stands(self, equation: Equation, atom: Atom, flags: int) -> None:
        """Let an atom stand for the result of an equation."""
        (out,) = equation.outputs
        self.same[out], self.flags[out] = atom, flags

    def replace(self, equation: Equation, own: Flags) -> None:
        """The operation over the axes that were asked for, as far as they are known here."""
        value, *others = equation.inputs
        axes = equation.params["axes"]
        wanted = flags_of(self.names, axes) & any_of(own[1:-1]) & ~own[-1]
        summing = equation.primitive is psum_over_varying
        for name in names_in(self.names, wanted):
            value = _applied(psum if summing else pvary, value, name, self.equations, equation)
        flags = own[0] & ~wanted if summing else own[0] | wanted
        rest = tuple([name for name in axes if name not in self.names])
        if not rest:
            self.stands(equation, value, flags)
            return
        params = {**equation.params, "axes": rest}
        self.equations.append(equation.replace(inputs=(value, *others), params=params))
        self.flags[equation.outputs[0]] = flags

    def held(self, equation: Equation, own: Flags, outs: list[int]) -> tuple[Any, Flags, Flags]:
        """The parameters of an operation that holds Programs with these settled, how its operands are to vary, and how its
        results do."""
        primitive, params = equation.primitive, equation.params
        if primitive.wiring is not None and primitive.wiring.system is not None:
            return self.system(primitive.wiring, params, own)
        if primitive.wiring is None or not isinstance(_first(params[primitive.wiring.programs]), Program):
            return self.others(params, outs[0] if outs else 0, ()), own, tuple(outs)
        held = held_by(primitive, params)
        lead, ins = split(own, held.wiring.lead)

        def tested(flags: Flags) -> Flags:  # devices that do another number of steps differ in all that is carried
            return self.outs(held.test, flags) * held.carry  # type: ignore[arg-type]

        leading = any_of(lead)  # devices that take another branch differ in all that they compute there
        made = held.spread(tuple([flags | leading for flags in ins]), self.joined, tested if held.test is not None else None)
        test = None if held.test is None else settled(held.test, self.names, made.ins, self.told).program
        apart = leading if held.test is None else any_of(tested(made.ins))
        if apart and self.told:
            refuse_meetings((*made.programs, *([] if test is None else [test])), self.names, apart, primitive.name)
        if test is not None and (text := self.disagreement(equation, apart)) is not None:
            test = held.test
            equations = list(test.equations)  # type: ignore[union-attr]
            goes_on = self.agreed(test.outputs[0], *text, equation, equations)  # type: ignore[union-attr]
            agreed = Program(test.inputs, equations, [goes_on], test.constants, test.name, test.batch_axes)  # type: ignore[union-attr]
            return self.held(equation.replace(params=held.on(held.programs, test=agreed)), own, outs)
        wired = {primitive.wiring.programs, primitive.wiring.test}
        changed = self.others(held.on(made.programs, test=test), outs[0] if outs else 0, wired)
        return changed, (*lead, *made.ins), tuple([flags | leading for flags in made.outs])

    def outs(self, program: Program, ins: Flags) -> Flags:
        """How the outputs of a held Program vary."""
        return settled(program, self.names, ins, self.told).outs

    def joined(self, program: Program, ins: Flags, forced: Flags) -> tuple[Program, Flags]:
        """A held Program, settled, and how its outputs vary: as `forced` says too, if another branch or step has them so."""
        found = settled(program, self.names, ins, self.told)
        if not forced:
            return found.program, found.outs
        outs = united([found.outs, forced])
        return (varied_outputs(found, self.names, outs) if self.told else found.program), outs

    def system(self, wiring: Wiring, params: dict[str, Any], own: Flags) -> tuple[Any, Flags, Flags]:
        """What `held` says, of an operation each of whose Programs has inputs of its own."""
        flags = wiring.system(self.outs, own, **params)  # type: ignore[misc]
        found = {name: self.joined(params[name], *ways) for name, ways in flags.items()}
        changed = {**params, **{name: program for name, (program, _) in found.items()}}
        return changed, flags[wiring.programs][0], found[wiring.programs][1]

    def at_one_branch(self, equation: Equation, own: Flags) -> tuple[Equation, Flags]:
        """An operation that chooses among branches, by an index on which devices agree if nobody has said what they share."""
        wiring = equation.primitive.wiring
        if wiring is None or not wiring.lead or (text := self.disagreement(equation, any_of(own[: wiring.lead]))) is None:
            return equation, own
        along, said = text
        index = self.agreed(equation.inputs[0], along, said, equation, self.equations)
        return equation.replace(inputs=(index, *equation.inputs[1:])), (own[0] & ~along, *own[1:])

    def disagreement(self, equation: Equation, apart: int) -> tuple[int, str] | None:
        """Along which axes the predicate of a branch or a loop must agree that may differ along some, where it is not refused,
        and what is wrong if it does not. None if devices do not communicate in it."""
        if self.told or not apart:
            return None
        inside = list(meetings(list(programs_in(equation.params)), self.names, apart))
        along = any_of([axes for _, axes in inside])
        if not along:
            return None
        said = (
            f"{equation.primitive.name}{_at(equation)}: its predicate differed between devices along"
            f" {', '.join(map(repr, names_in(self.names, along)))}, but {_met(inside[0][0])} is in it, for which some"
            " would wait for ever. Apply it outside, or make the predicate agree first (pb.lax.psum, pmax)."
        )
        return along, said

    def agreed(self, atom: Atom, along: int, text: str, like: Equation, equations: list[Equation]) -> Atom:
        """The least of a value along axes, of which it is looked whether it is the greatest too."""
        names = tuple(names_in(self.names, along))
        name: Any = names if len(names) > 1 else names[0]
        low, high = [_applied(one, atom, name, equations, like) for one in (pmin, pmax)]
        params = {"function": Disagreement(text), "types": (), "method": "sequential", "levels": ()}
        looking: Any = differ  # the decorator has made it a Primitive
        equations.append(Equation(looking, (low, high), (), params, like.source, like.origin, like.made))
        return low

    def others(self, params: dict[str, Any], flags: int, wired: Any) -> dict[str, Any]:
        """Parameters with the Programs settled that no wiring names, whose inputs are taken to vary as `flags` says."""

        def own(value: Any) -> Any:
            if isinstance(value, Program):
                return settled(value, self.names, (flags,) * len(value.inputs), self.told).program
            return (
                tuple(map(own, value)) if value.__class__ is tuple and any([isinstance(x, Program) for x in value]) else value
            )

        return {name: value if name in wired else own(value) for name, value in params.items()}


def _first(value: Any) -> Any:
    return value[0] if value.__class__ is tuple else value
