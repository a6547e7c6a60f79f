"""Operations of compiled code are told by the ids of the equations that they come from."""

import re

import numpy as np
import pytest

import pullback as pb
from pullback import numpy as pnp
from pullback.engine.compile import lower_to_text, numbered_executable
from pullback.program.program import Program, programs_in
from pullback.program.provenance import numbered_name
from pullback.transforms.simplify import simplify

X = np.linspace(-1.0, 1.0, 12, dtype="float32").reshape(4, 3)


def in_a_scan(w, x):
    return pnp.sum(pb.lax.scan(lambda carry, row: (pnp.tanh(w @ row + carry), pnp.sum(carry)), pnp.zeros(3), x)[1])


FUNCTIONS = {
    "elementwise": (lambda x: pnp.sum(pnp.tanh(x) * x), (X,)),
    "product": (pb.grad(lambda w, x: pnp.sum(pnp.tanh(x @ w))), (np.ones((3, 3), "float32"), X)),
    "batch": (pb.vmap(pb.grad(lambda x: pnp.sum(x * pnp.exp(x)))), (X,)),
    "loop": (pb.grad(in_a_scan), (np.ones((3, 3), "float32"), X)),
    "branch": (lambda x: pb.lax.cond(pnp.sum(x) > 0, pnp.sin, pnp.cos, x), (X,)),
    "call": (lambda x: pb.jit(pnp.sin)(x) + 1.0, (X,)),
}


def ids_in(program: Program) -> set[int]:
    held = [inner for equation in program.equations for inner in programs_in(equation.params)]
    return {equation.id for equation in program.equations}.union(*[ids_in(inner) for inner in held])


@pytest.mark.parametrize("case", FUNCTIONS)
def test_every_operation_is_named_after_an_equation_of_the_program(case):
    function, args = FUNCTIONS[case]
    program = simplify(pb.xpr(function, *args))
    source = lower_to_text(program, located=numbered_name)
    _, optimized = numbered_executable(program)
    named = {int(number) for number in re.findall(r'#(\d+)"\(', source)}
    assert named and named <= ids_in(program)
    leaves = {one.id for one in program.equations if not programs_in(one.params)}
    assert leaves <= named
    kept = {int(number) for name in re.findall(r'op_name="([^"]*)"', optimized) for number in re.findall(r"#(\d+)", name)}
    assert kept and kept <= ids_in(program)


def test_names_that_are_shown_to_users_have_no_ids():
    lowered = pb.jit(lambda x: pnp.sin(x)).lower(X)
    assert "#" not in lowered.as_text(debug_info=True).replace("#stablehlo", "").replace("#sdy", "")
