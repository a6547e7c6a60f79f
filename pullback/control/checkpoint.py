"""checkpoint: a Program whose backward pass computes again what it needs, instead of keeping it.

Linearization splits the Program into a forward one, which also returns residuals, and a linear one, which takes them. Here the
forward one returns only those intermediate values that a policy says to keep, and the linear one begins by computing the
residuals again, from the inputs and the kept values. The second computation is inside the operation that transposition turns
around, so compiled code frees the memory in between; an optimization barrier keeps XLA from merging it with the first.

An operation with an effect is never repeated: its results are kept, whatever the policy. Progress is an exception: it is said
once, and what is computed again says nothing of it.
Source of the idea: Griewank and Walther, Algorithm 799: Revolve, ACM Trans. Math. Software 26 (2000).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pullback.control.call import inlined
from pullback.control.holder import Halves, Holder, Wiring, bind_holder, in_halves
from pullback.control.kept import Kept, kept_in, used_inputs
from pullback.control.progress import silent
from pullback.core.primitive import Primitive, Rules, primitive
from pullback.core.types import ArrayType
from pullback.ops.contract import dot_general
from pullback.ops.pointwise import each_alone
from pullback.program.cost import equation_cost
from pullback.program.equation import Atom, Equation, Variable, remembered
from pullback.program.program import Program
from pullback.transforms.derive import Flags, linearize_program, stage_closed
from pullback.transforms.simplify import drop_dead_code, has_effect, pruned
from pullback.transforms.stage import replay


@primitive
class name(Rules):
    """x, under a name by which a policy can ask to keep it."""

    cost = 0
    alias = True
    linear = True

    def result_type(x, *, name: str):
        return x

    def evaluate(x, *, name):
        return x

    def lower(write, x, *, name):
        return x

    def transpose(cotangent, x, *, name):
        return (cotangent,)

    def sparsity(which, operands, *, name):
        return each_alone(which, operands)

    def vectorize(size, args, axes, *, name):
        return _name(*args, name=name), axes[0]

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {"name": "hidden"}


_name = name  # within its rules `name` is the parameter


@primitive
class checkpoint(Holder):
    """Apply `program` to the operands, keeping for the backward pass what `policy` allows.

    `again` marks an operation of the backward pass, in which something is computed for a second time; with `prevent_cse` its
    operands go through an optimization barrier.
    """

    wiring = Wiring("program")

    def result_type(*types, program: Program, policy, prevent_cse: bool, again: bool = False):
        return program.output_types

    def lower(write, *values, program, policy, prevent_cse, again=False):
        if not (again and prevent_cse and values):
            return write.inline(program, *values)
        if write.platform == "cpu":
            return _in_a_branch(write, program, values)
        return write.inline(program, *write.barrier(values))

    def linearize(primals, active, *, program, policy, prevent_cse, again=False):
        halves = split_program(program, active, policy)

        def apply(made, args):
            late = again or made is halves.tangent
            return bind_holder(checkpoint, *args, program=made[0], policy=policy, prevent_cse=prevent_cse, again=late)

        return in_halves(halves, primals, apply)


def _in_a_branch(write, program, values):
    """Compute a Program in a branch that is always taken, which XLA cannot know.

    XLA for the CPU takes optimization barriers out before it looks for common subexpressions, and where it is told to keep them
    (`engine/strategy.py`) it also keeps apart what could be one kernel: six elementwise functions of 4 MB, each under a
    checkpoint, take 32 MB with barriers, 20 with branches, and a loop of 300 small steps 1.7 times as long.
    """
    types = write.result_types
    source = next((value for value in values if value.type.shape.count(0) == 0 and value.dtype.kind in "biuf"), None)
    if source is None:
        return write.inline(program, *values)
    zero = write.hidden_zero(source)
    if program.effects:  # a case keeps the order of host calls
        branches = [lambda: write.inline(program, *values), lambda: [write.constant(0, type) for type in types]]
        return write.case(write.convert(zero, np.dtype(np.int32)), branches, types)
    even = write.compare("EQ", zero, write.constant(0, zero.type))
    with write.region([]) as taken:
        taken.returns(*write.inline(program, *values))
    with write.region([]) as never:
        never.returns(*[write.constant(0, type) for type in types])
    return write.many("stablehlo.if", [even], types, regions=[taken.text, never.text])


# ---- what is kept, and what is computed again --------------------------------------------------------------------------


@remembered
def split_program(program: Program, active: Flags, policy: Any) -> Halves:
    """The two halves of a Program's linearization, with as few values between them as `policy` allows."""
    linearized = linearize_program(inlined(program), active)
    whole = linearized.forward
    wanted = [(whole.outputs if place == "output" else whole.inputs)[i] for place, i in linearized.residuals]
    if isinstance(policy, Budget):
        kept = Kept(whole, {}, policy.choose(whole, wanted))
    else:
        kept = kept_in(whole, policy)
    saved, equations = to_recompute(kept, wanted)
    whole = kept.program
    again = Program((*whole.inputs, *saved), equations, wanted, whole.constants, f"again_{program.name}")
    known = used_inputs(again)  # all that is saved is among it
    again = drop_dead_code(again.rearranged(known))

    def tangent(*args: Any) -> Sequence[Any]:
        return replay(linearized.tangent, [*replay(again, args[: len(known)]), *args[len(known) :]])

    types = [*again.input_types, *linearized.tangent.input_types[len(wanted) :]]
    forward = drop_dead_code(whole.with_outputs((*whole.outputs[: len(program.outputs)], *saved)))
    return Halves((forward,), (stage_closed(tangent, types, f"tangent_{program.name}"),), tuple(known), linearized.nonzero)


def to_recompute(kept: Kept, wanted: Sequence[Atom]) -> tuple[list[Variable], list[Equation]]:
    """How to find `wanted` again: the variables to keep, of those that may be, and the equations to run."""
    values = set(kept.values)
    needed = {atom for atom in wanted if isinstance(atom, Variable)}
    saved: list[Variable] = []
    equations: list[Equation] = []
    for equation in reversed(kept.program.equations):
        outs = [out for out in equation.outputs if out in needed]
        if not outs:
            continue
        quiet = silent(equation)
        if quiet is None or values.issuperset(outs) or has_effect(quiet):
            saved += outs
            continue
        again = kept.again.get(equation)
        if again is not None:
            again = silent(again)
        if again is not None:  # it takes what is kept of the equation itself
            again = pruned(again, [out in needed and out not in values for out in again.outputs])
            saved += [out for out in equation.outputs if out in values and (out in needed or out in again.inputs)]
        equations.append(again or quiet)
        needed.update(atom for atom in equations[-1].inputs if isinstance(atom, Variable))
    made_again = {out for equation in equations for out in equation.outputs}
    return [variable for variable in reversed(saved) if variable not in made_again], equations[::-1]


# Policies are records, so that Programs with them can be compared and serialized; a user's function serves as well.


@dataclass(frozen=True)
class Dots:
    """Keep the results of matrix products; where not `batched`, only of those without batch axes."""

    batched: bool

    def __call__(self, primitive: Primitive, *types: ArrayType, **params: Any) -> bool:
        return primitive is dot_general and (self.batched or not params["dimension_numbers"][1][0])


@dataclass(frozen=True)
class Names:
    """Keep values that were given one of the names, or, if not `these`, another one; and, if `unnamed`, those without any."""

    names: tuple[str, ...]
    these: bool = True
    unnamed: bool = False

    def __call__(self, primitive: Primitive, *types: ArrayType, **params: Any) -> bool:
        return (params["name"] in self.names) is self.these if primitive is name else self.unnamed


EVERYTHING = Names((), these=False, unnamed=True)  # what reverse mode would keep without a checkpoint
NOTHING = Names(())  # but the operands


@dataclass(frozen=True)
class Either:
    """Keep what one policy or the other keeps."""

    first: Any
    second: Any

    def __call__(self, primitive: Primitive, *types: ArrayType, **params: Any) -> bool:
        return bool(self.first(primitive, *types, **params) or self.second(primitive, *types, **params))


@dataclass(frozen=True)
class Budget:
    """Keep at most `bytes` bytes: those values that save the most computation for each byte.

    It is greedy. The cost of a value is that of its equation, and of those before it that serve nothing else; the value with
    the greatest cost per byte that still fits is kept, costs are found again, and so on until nothing fits.
    """

    bytes: int

    def choose(self, program: Program, wanted: Sequence[Atom]) -> set[Variable]:
        """The variables to keep for finding `wanted` again."""
        everything = {out for equation in program.equations for out in equation.outputs}
        if _bytes(to_recompute(Kept(program, {}, everything), wanted)[0]) <= self.bytes:
            return everything
        costs = {equation.id: equation_cost(equation).work for equation in program.equations}
        kept: set[Variable] = set()
        while True:
            saved, equations = to_recompute(Kept(program, {}, kept), wanted)
            left = self.bytes - _bytes(saved)
            candidates = [one for one in _candidates(equations, wanted, costs) if one.bytes <= left]
            if not candidates:
                return kept
            candidates.sort(key=lambda one: -one.density)
            counted: set[Equation] = set()
            for one in candidates:  # in one go those that are nearly as good as the best, and share nothing with each other
                if one.density >= 0.5 * candidates[0].density and one.bytes <= left and counted.isdisjoint(one.equations):
                    counted.update(one.equations)
                    left -= one.bytes
                    kept.update(one.results)


def _bytes(variables: Sequence[Variable]) -> int:
    return sum([variable.type.nbytes for variable in variables])


class Candidate(NamedTuple):
    """Results of an equation that may be kept: how large they are, and what need not be computed again then."""

    results: list[Variable]
    bytes: int
    density: float  # operations saved for each byte
    equations: list[Equation]


def _candidates(equations: Sequence[Equation], wanted: Sequence[Atom], costs: dict[int, float]) -> list[Candidate]:
    """What may be kept of the results of equations that would have to be run to find `wanted`."""
    uses = Counter([*dict.fromkeys(wanted), *[atom for equation in equations for atom in dict.fromkeys(equation.inputs)]])
    makers = {out: equation for equation in equations for out in equation.outputs}
    served: dict[Equation, list[Equation]] = {}  # an equation, with those before it that serve nothing else
    found = []
    for equation in equations:
        served[equation] = [equation]
        for atom in dict.fromkeys(equation.inputs):
            before = makers.get(atom) if isinstance(atom, Variable) else None
            if before is not None and uses[atom] == 1 and len(before.outputs) == 1:
                served[equation] += served[before]
        results = [out for out in equation.outputs if out in uses]
        size = _bytes(results)
        density = sum([costs[one.id] for one in served[equation]]) / max(size, 1)
        found.append(Candidate(results, size, density, served[equation]))
    return found
