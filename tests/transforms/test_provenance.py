"""Every equation of a transformed Program knows the user's line, its parent, and the rule that made it."""

from __future__ import annotations

import inspect
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.program.program import Equation, Program, programs_in
from pullback.transforms.derive import linearize_program, pushed_program, transpose_program
from pullback.transforms.simplify import merged, simplify

X = np.array([0.3, 0.7], np.float32)


def plain(x: Any) -> Any:
    y = pnp.sin(x) * x
    return pnp.sum(y * 2.0)


def with_scan(x: Any) -> Any:
    def step(carry: Any, _: Any) -> Any:
        carry = pnp.tanh(carry) * x
        return carry, pnp.sum(carry)

    last, sums = lax.scan(step, x, None, length=3)
    return pnp.sum(last) + pnp.sum(sums)


def with_cond(x: Any) -> Any:
    total = pnp.sum(x)
    return lax.cond(total > 0, lambda v: pnp.exp(v), lambda v: v * v, total)


def with_jit(x: Any) -> Any:
    inner = pb.jit(lambda v: pnp.cos(v) * v)
    return pnp.sum(inner(x))


def with_while(x: Any) -> Any:
    return pnp.sum(lax.while_loop(lambda v: pnp.sum(v) < 100.0, lambda v: v * v + 1.0, x))


def with_product(x: Any) -> Any:
    m = pnp.outer(x, x)
    return pnp.max(m @ x) / pnp.mean(x)


FUNCTIONS = [plain, with_scan, with_cond, with_jit, with_while, with_product]
TRANSFORMATIONS: dict[str, Callable[[Any], Any]] = {
    "none": lambda f: f,
    "grad": pb.grad,
    "jvp": lambda f: lambda x: pb.jvp(f, (x,), (pnp.ones(2),)),
    "vmap": lambda f: lambda x: pb.vmap(f)(pnp.stack([x, x])),
    "vmap grad": lambda f: lambda x: pb.vmap(pb.grad(f))(pnp.stack([x, x])),
    "grad jit": lambda f: pb.grad(pb.jit(f)),
    "jvp grad jit": lambda f: lambda x: pb.jvp(pb.grad(pb.jit(f)), (x,), (pnp.ones(2),)),
}


def all_equations(program: Program) -> Iterator[Equation]:
    for equation in program.equations:
        yield equation
        for inner in programs_in(equation.params):
            yield from all_equations(inner)


def lines_of(function: Any) -> range:
    text, first = inspect.getsourcelines(function)
    return range(first, first + len(text))


def cases() -> Iterator[Any]:
    for function in FUNCTIONS:
        for name, transformation in TRANSFORMATIONS.items():
            if not (function is with_while and "grad" in name):
                yield pytest.param(function, transformation, id=f"{name} of {function.__name__}")


@pytest.mark.parametrize("function, transformation", list(cases()))
def test_every_equation_has_a_line_of_the_users_function(function: Any, transformation: Any) -> None:
    program = pb.xpr(transformation(function), X)
    lines = [*lines_of(function), *lines_of(TRANSFORMATIONS["none"])]
    own = range(lines_of(TRANSFORMATIONS["none"]).start - 10, lines_of(TRANSFORMATIONS["none"]).stop + 10)
    strays = []
    for equation in all_equations(program):
        source = equation.source
        assert source is not None and source.file == __file__, equation.primitive
        called_here = (
            equation.primitive.name == "call" and source.function == "test_every_equation_has_a_line_of_the_users_function"
        )
        if source.line not in lines and source.line not in own and not called_here:
            strays.append((equation.primitive.name, str(source)))
    assert not strays


BASES = [function for function in FUNCTIONS if function is not with_while]


def derived(base: Program) -> dict[str, Program]:
    forward, tangent, *_ = linearize_program(base, (1,))
    active = [kind == "input" for kind, _ in linearize_program(base, (1,)).residuals]
    unknown = (*[0] * len(active), 1)
    return {
        "forward": forward,
        "tangent": tangent,
        "transpose": transpose_program(tangent, unknown)[0],
        "jvp": pushed_program(base, None, (1,))[0],
    }


@pytest.mark.parametrize("function", BASES)
def test_every_equation_of_a_derived_program_has_a_parent_in_the_base_and_its_line(function: Any) -> None:
    base = simplify(pb.xpr(function, X))
    known = {equation.id: equation for equation in all_equations(base)}
    for name, program in derived(base).items():
        for equation in all_equations(program):
            assert equation.origin is not None, (name, equation.primitive)
            first = equation
            while first.origin is not None:
                first = first.origin
            assert first.id in known, (name, equation.primitive, str(equation.source))
            assert equation.source == first.source == known[first.id].source


@pytest.mark.parametrize("function", BASES)
def test_roles_say_what_an_equation_computes(function: Any) -> None:
    programs = derived(pb.xpr(function, X))
    assert {equation.role for equation in programs["transpose"].equations} <= {"cotangent"}
    assert {equation.role for equation in programs["tangent"].equations} <= {"tangent", "residual"}
    assert {equation.role for equation in programs["forward"].equations} <= {"primal", "residual"}
    assert {equation.role for equation in all_equations(programs["jvp"])} >= {"primal", "tangent"}


def test_the_roles_of_a_gradient() -> None:
    program = pb.xpr(pb.grad(plain), X)
    assert [(equation.primitive.name, equation.role) for equation in program.equations if equation.primitive.name == "cos"] == [
        ("cos", "residual")
    ]
    (sine,) = [equation for equation in program.equations if equation.primitive.name == "sin"]
    assert sine.role == "primal" and sine.made is None
    last = program.equations[-1]
    assert last.role == "cotangent" and (last.made.transformation, last.made.rule) == ("grad", "transpose")
    batched = pb.xpr(pb.vmap(pb.grad(plain)), np.stack([X, X])).equations[-1]
    assert batched.role == "cotangent" and batched.made.transformation == "vmap" and batched.made.within.role == "cotangent"


def test_scopes_and_calls_are_kept_by_what_is_derived() -> None:
    def layer(x: Any) -> Any:
        with pb.named_scope("inner"):
            return pnp.sin(x)

    def model(x: Any) -> Any:
        with pb.named_scope("outer"):
            y = layer(x)
        return pnp.sum(y)

    with pb.named_scope("around"):  # of no concern to what is traced by itself
        programs = [pb.xpr(f, X) for f in (model, pb.grad(model), pb.grad(pb.jit(model)))]
    for program in programs:
        found = [e for e in all_equations(program) if e.primitive.name in ("sin", "cos")]
        assert found
        for equation in found:
            assert equation.source.scope == ("outer", "inner")
            assert (equation.source.function.split(".")[-1], equation.source.caller.function.split(".")[-1]) == (
                "layer",
                "model",
            )
            assert equation.source.caller.caller is None
    with pytest.raises(TypeError, match="named_scope takes a string, not int"), pb.named_scope(3):  # type: ignore[arg-type]
        pass


def test_a_cached_trace_never_shows_the_scope_of_another_call() -> None:
    inner = pb.jit(lambda x: pnp.sin(x))
    programs = []
    for name in ("first", "second"):

        def caller(x: Any, name: str = name) -> Any:
            with pb.named_scope(name):
                return inner(x)

        programs.append(pb.xpr(caller, X))
    for name, program in zip(("first", "second"), programs):
        (call,) = program.equations
        assert call.source.scope == (name,)
        assert {equation.source.scope for equation in call.params["program"].equations} == {()}


def test_ids_survive_simplification_and_repetitions_name_what_stays() -> None:
    program = pb.xpr(lambda x: pnp.sin(x) * pnp.sin(x) + 0.0 * pnp.cos(x).astype("float32"), X)
    smaller = simplify(program)
    assert len({equation.id for equation in program.equations}) == len(program.equations)
    assert {equation.id for equation in smaller.equations} < {equation.id for equation in program.equations}
    first, second = [equation for equation in program.equations if equation.primitive.name == "sin"]
    assert merged(smaller)[second.id] == first.id


def test_json_keeps_where_equations_come_from_and_equality_ignores_it() -> None:
    def model(x: Any) -> Any:
        with pb.named_scope("layer"):
            return pnp.sum(pnp.sin(x) * x)

    base = pb.xpr(model, X)
    program = linearize_program(base, (1,)).forward
    primitives = {equation.primitive.name: equation.primitive for equation in all_equations(program)}
    again = Program.from_json(program.to_json(), primitives)
    assert again == program
    for before, after in zip(program.equations, again.equations, strict=True):
        assert after.source.scope == before.source.scope == ("layer",)[: len(before.source.scope)]
        assert after.role == before.role
        assert after.made == before.made
        assert (after.origin.primitive, after.origin.source.line) == (before.origin.primitive, before.origin.source.line)


def test_batches_keep_the_role() -> None:
    base = pb.xpr(pb.grad(plain), X)
    assert {equation.role for equation in pb.xpr(pb.vmap(base), np.stack([X, X])).equations} >= {"cotangent", "residual"}


def test_it_costs_less_than_a_twentieth_of_the_work_of_tracing() -> None:
    """By the benchmark, which counts the work instead of timing it; in a process of its own, since it traces Python itself."""
    benchmark = pathlib.Path(__file__).parents[2] / "benchmarks" / "provenance.py"
    shown = subprocess.run([sys.executable, benchmark], capture_output=True, text=True, check=True).stdout
    more = {line[:28].strip(): float(line.split()[-1].removesuffix("%")) for line in shown.splitlines()[1:]}
    assert len(more) == 5 and max(more.values()) < 5.0, more


def test_the_value_of_a_product_is_the_users_own_in_a_batch_too():
    """Its rule gives the value with the tangent; the value is made by vmap's rule alone."""

    def f(w, x):
        return pnp.sum(pnp.tanh(x @ w))

    program = pb.xpr(pb.vmap(pb.grad(f), in_axes=(None, 0)), np.ones((4, 3), "float32"), np.ones((5, 4), "float32"))
    value, *_, derivative = [one for one in program.equations if one.primitive.name == "dot_general"]
    assert (value.role, derivative.role) == ("primal", "cotangent")
    assert value.made.transformation == "vmap" and value.made.within is None


def test_a_rule_names_the_primitive_whose_it_is():
    base = pb.xpr(lambda w, x: pnp.sum(pnp.tanh(x @ w)), np.ones((4, 3), "float32"), np.ones((5, 4), "float32"))
    program = pb.xpr(pb.grad(lambda w, x: base(w, x)), np.ones((4, 3), "float32"), np.ones((5, 4), "float32"))
    found = {
        (one.primitive.name, one.made.rule, one.made.primitive.name)
        for one in program.equations
        if one.made is not None and one.made.primitive is not None
    }
    assert {("sech_squared", "partials", "tanh"), ("dot_general", "transpose", "dot_general")} <= found
    again = pb.Program.from_json(program.to_json(), {one.primitive.name: one.primitive for one in program.equations})
    for mine, read in zip(program.equations, again.equations, strict=True):
        named = [None if one.made is None else (*one.made[:3], str(one.made.primitive)) for one in (mine, read)]
        assert named[0] == named[1]


def test_what_a_loop_computes_once_before_its_steps_is_the_users_own():
    """The linearization of a scan takes what no step changes out of the body; that makes no residual of it."""

    def f(w, xs):
        def step(carry, x):
            return pnp.tanh(carry * (w[0] * 2.0) + x), None

        return lax.scan(step, 0.0, xs)[0]

    program = pb.xpr(pb.grad(f), np.ones(3, "float32"), np.ones(5, "float32"))
    roles = {(one.primitive.name, one.role) for one in program.equations}
    assert ("slice", "primal") in roles and ("mul", "primal") in roles
    (forward,) = [one for one in program.equations if one.primitive.name == "scan" and one.role == "primal"]
    (body,) = programs_in(forward.params)
    assert ("sech_squared", "residual") in {(one.primitive.name, one.role) for one in body.equations}


def test_cotangents_of_one_value_that_are_added_up_are_cotangents() -> None:
    """Those that come in from outside, too: of two results that are one value, and of what a step carries and returns."""

    def both(x: Any, cotangent: Any) -> Any:
        def twice(y: Any) -> Any:
            z = y * 2.0
            return z, z

        return pb.vjp(twice, x)[1]((cotangent, cotangent))

    def carried(x: Any) -> Any:
        def step(c: Any, y: Any) -> Any:
            c = c * y
            return c, c

        return pnp.sum(lax.scan(step, x, X)[1])

    for program in (pb.xpr(both, X, X), pb.xpr(pb.grad(carried), np.float32(1))):
        added = [equation for equation in all_equations(program) if equation.primitive.name == "add"]
        assert added and all(equation.role == "cotangent" for equation in added)


@pb.custom_jvp
def ruled(x: Any) -> Any:
    return pnp.sin(x)


@ruled.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return ruled(x), pnp.cos(x) * t


def by_whole_rules(x: Any) -> Any:
    """Operations whose rules for tangents compute what these need, too."""
    return pnp.sum(ruled(x) * pnp.sort(x)) + pnp.max(x) * pnp.min(x) + pnp.prod(x) + pnp.linalg.slogdet(x * pnp.eye(2))[1]


def of_complex(x: Any) -> Any:
    return pnp.sum(pnp.abs(pnp.exp(x + 1j * x)) ** 2)


def forward_over_reverse(function: Any) -> Any:
    return lambda x, t: pb.jvp(pb.grad(function), (x,), (t,))[1]


def forward_over_forward(function: Any) -> Any:
    return lambda x, t: pb.jvp(lambda y: pb.jvp(function, (y,), (X,))[1], (x,), (t,))[1]


def depends_on(program: Program, variables: Any) -> Iterator[tuple[Equation, list[bool]]]:
    """For each equation, which of its results depend on these variables."""
    reached = set(variables)
    for equation in program.equations:
        flags = tuple([int(atom in reached) for atom in equation.inputs])
        found = [any(flags)] * len(equation.outputs)
        if any(flags) and equation.primitive.depends is not None:
            found = [bool(flag) for flag in equation.primitive.depends(flags, **equation.params)]
        reached.update([out for out, flag in zip(equation.outputs, found) if flag])
        yield equation, found


@pytest.mark.parametrize("function", [plain, with_scan, with_cond, with_jit, with_product, by_whole_rules, of_complex])
@pytest.mark.parametrize("transformed", [lambda f: lambda x, t: pb.jvp(f, (x,), (t,)), forward_over_reverse])
def test_a_tangent_is_what_depends_on_tangents(function: Any, transformed: Any) -> None:
    program = pb.xpr(transformed(function), X, X)
    for equation, flags in depends_on(program, program.inputs[1:]):
        if all(flags) and not programs_in(equation.params):  # which compute values and tangents together
            assert equation.role == "tangent", str(equation.primitive)
        elif not any(flags):
            assert equation.role != "tangent", str(equation.primitive)


@pytest.mark.parametrize("function", [plain, with_product, by_whole_rules])
def test_what_depends_on_the_outer_tangent_is_one(function: Any) -> None:
    program = pb.xpr(forward_over_forward(function), X, X)
    assert {equation.role for equation, flags in depends_on(program, program.inputs[1:]) if all(flags)} == {"tangent"}


ENDINGS: dict[str, tuple[Any, Any, str]] = {
    "grad": (pb.grad(lambda x: pnp.sum(x * x) * 3.0), 2.0, "cotangent"),
    "vjp": (lambda x: pb.vjp(lambda y: y * pnp.float32(3.0), x)[1](1.0), 2.0, "cotangent"),
    "jvp": (lambda x: pb.jvp(lambda y: pnp.sin(y) * 2.0, (x,), (np.float32(1.0),))[1], 2.0, "tangent"),
    "jacrev": (pb.jacrev(lambda x: (pnp.sin(x), x[0] * x)), X, "cotangent"),
    "jacfwd": (pb.jacfwd(lambda x: (pnp.sin(x), x[0] * x)), X, "tangent"),
    "hessian": (pb.hessian(lambda x: pnp.sum(x**3)), X, "tangent"),
    "what does not depend on it": (pb.jacrev(lambda x: x * 0.0 + X), X, "cotangent"),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_the_form_in_which_a_derivative_is_returned_belongs_to_it(name: str) -> None:
    """A weak gradient is made weak, and a Jacobian is cut and turned, by what is no rule of an operation."""
    function, x, role = ENDINGS[name]
    program = pb.xpr(function, x)
    made = {atom: equation for equation in program.equations for atom in equation.outputs}
    assert [made[out].role for out in program.outputs if out in made] == [role] * len(program.outputs)


def test_what_devices_keep_for_the_backward_pass_is_packed_as_residuals() -> None:
    mesh = pb.sharding.AbstractMesh((4,), ("d",))

    def loss(w: Any, x: Any) -> Any:
        def local(w: Any, x: Any) -> Any:
            return lax.psum(pnp.sum(pnp.tanh(x @ w) ** 2), "d")

        return pb.shard_map(local, mesh=mesh, in_specs=(pb.P(), pb.P("d")), out_specs=pb.P())(w, x)

    program = pb.xpr(pb.grad(loss), pb.ArrayType((3, 5)), pb.ArrayType((8, 3)))
    forward, backward = [list(all_equations(one.params["program"])) for one in program.equations if one.params.get("program")]
    assert {one.role for one in forward if one.primitive.name == "reshape"} == {"residual"}
    assert {one.role for one in backward if one.primitive.name == "squeeze"} == {"residual"}
    assert {one.role for one in backward if one.primitive.name != "squeeze"} == {"cotangent"}


@pb.custom_vjp
def steep(x):
    return pnp.exp(pnp.sin(x))


steep.defvjp(
    lambda x: ((value := pnp.exp(pnp.sin(x))), (value, pnp.cos(x))),
    lambda kept, cotangent: (cotangent * kept[0] * kept[1],),
)


@pb.custom_jvp
def steep_forward(x):
    return pnp.exp(pnp.sin(x))


steep_forward.defjvp(
    lambda primals, tangents: (
        (value := pnp.exp(pnp.sin(primals[0]))),
        value * (pnp.cos(primals[0]) * tangents[0]),
    )
)


@pytest.mark.parametrize("function", [steep, steep_forward])
def test_all_that_leads_to_the_value_of_a_rule_is_the_users_own(function):
    """The sine is needed for the value, the cosine for the derivative alone."""
    for program in (pb.xpr(pb.grad(lambda x: function(x) * 2.0), 1.0), pb.xpr(pb.vmap(pb.grad(function)), X)):
        found = {equation.primitive.name: equation.role for equation in program.equations if equation.role != "cotangent"}
        assert found == {"sin": "primal", "exp": "primal", "cos": "residual"}


def test_a_gradient_of_ones_is_a_cotangent_of_the_line_that_makes_it_one():
    """It has no elements while the tape is walked, and gets them behind the first operation of the function."""

    def f(w, b):
        y = pnp.sin(w)
        z = pnp.sum(b)
        return pnp.sum(y) + z

    program = pb.xpr(pb.grad(f, argnums=(0, 1)), X, X)
    ones = next(one for one in program.equations if one.primitive.name == "broadcast_in_dim")
    assert (ones.role, ones.source.text, ones.made[:2]) == ("cotangent", "z = pnp.sum(b)", ("grad", "transpose"))
    assert ones.made.primitive.name == "reduce_sum" and program.equations[-1] is ones
    [own] = pb.xpr(pb.grad(lambda x: pnp.sum(x)), X).equations
    assert own.role == "cotangent"


@pytest.mark.parametrize("derivative", [lambda f, x: pb.grad(f)(x), lambda f, x: pb.jvp(f, (x,), (x,))[1]], ids=["grad", "jvp"])
def test_an_effect_in_a_derivative_is_the_users_own(derivative):
    def f(x):
        pb.debug.callback(lambda value: None, x)
        return pnp.sum(pnp.sin(x))

    found = {one.primitive.name: one.role for one in pb.xpr(lambda x: derivative(f, x), X).equations}
    assert found["callback"] == "primal" and "residual" in found.values()
    batched = pb.xpr(pb.vmap(lambda x: derivative(f, x)), np.stack([X, X]))
    assert next(one.role for one in batched.equations if one.primitive.name == "callback") == "primal"
