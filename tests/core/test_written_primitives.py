"""Every primitive, staged on each of its samples: the Program keeps the rules, and comes back from its JSON."""

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.control.call import call
from pullback.core.array import as_array
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.tracing import type_of
from pullback.program.checking import check_program
from pullback.program.program import Program
from pullback.testing.primitives import all_primitives
from pullback.testing.values import in_dtype, is_generic, parse_dtypes
from pullback.transforms.stage import stage

PRIMITIVES = {one.name: one for one in (*all_primitives(), call)}


def samples(primitive):
    for args, params in primitive.samples(np.random.default_rng(0)):
        if is_generic(args):
            for dtype in parse_dtypes(None, primitive.kinds):
                typed = in_dtype(args, dtype)
                if typed is not None:
                    yield typed, params
        else:
            yield [as_array(np.asarray(arg)) for arg in args], params


def staged(primitive, args, params):
    def flat(*xs):
        out = primitive(*xs, **params)
        return out if primitive.multiple_results else [out]

    return stage(flat, [type_of(arg) for arg in args], name=primitive.name)[0]


# Collectives have samples only inside a vmap with a named axis.
WITH_SAMPLES = [one for one in PRIMITIVES.values() if one.samples is not None and any(True for _ in samples(one))]


def test_most_primitives_are_tried():
    assert len(WITH_SAMPLES) > 0.9 * len(PRIMITIVES)


@pytest.mark.parametrize("primitive", WITH_SAMPLES, ids=lambda p: p.name)
def test_staged_samples_are_right_and_come_back(primitive):
    count = 0
    for args, params in samples(primitive):
        try:
            program = staged(primitive, args, params)
        except (DtypeError, ShapeError):
            continue  # the sample is one of another dtype
        check_program(program)
        again = Program.from_json(program.to_json(), PRIMITIVES)
        assert again == program, str(program)
        check_program(again)
        count += 1
    assert count


LARGE = np.arange(200, dtype=np.float32)
FUNCTIONS = {
    "slice": lambda x: x[1:],
    "gather": lambda x: x[pnp.array([0, -1])],
    "scatter": lambda x: x.at[0].set(1.0),
    "matmul": lambda x: x @ x.T,
    "softmax": lambda x: pnp.exp(x - pnp.max(x, axis=-1, keepdims=True)),
    "constants": lambda x: x + pnp.sum(pnp.asarray(LARGE)),
    "complex": lambda x: (x + 1j * x).real,
    "bfloat16": lambda x: x.astype("bfloat16") * 2,
    "jit": lambda x: pb.jit(lambda y: pnp.sin(y) * x)(x),
}
TRANSFORMATIONS = {
    "plain": lambda f, total: f,
    "grad": lambda f, total: pb.grad(total),
    "vmap": lambda f, total: pb.vmap(total),
    "vmap of grad": lambda f, total: pb.vmap(pb.grad(lambda x: total(x[None]))),
    "jit of grad": lambda f, total: pb.jit(pb.grad(total)),
    "hessian": lambda f, total: pb.jacfwd(pb.grad(total)),
}


@pytest.mark.parametrize("transformed", TRANSFORMATIONS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_under_transformations_come_back_and_compute_the_same(name, transformed):
    function = FUNCTIONS[name]
    if name == "matmul" and transformed == "vmap":
        function = lambda x: x * (x @ x)  # noqa: E731
    x = pnp.asarray(np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32))
    program = pb.xpr(TRANSFORMATIONS[transformed](function, lambda x: pnp.sum(function(x).astype("float32"))), x)
    check_program(program)
    again = Program.from_json(program.to_json(), PRIMITIVES)
    assert again == program
    assert np.asarray(again(x)).tobytes() == np.asarray(program(x)).tobytes()


def test_check_primitive_says_which_dtype_it_chose_and_how_to_choose_others():
    def twice(**more):
        rules = {"evaluate": lambda x: 2 * x, "result_type": lambda x: x, "partials": lambda out, x: (2.0,)}
        rules["lower"] = lambda write, x: write.elementwise("stablehlo.add", x, x)
        rules["vectorize"] = lambda size, args, axes: (p(*args), 0)
        p = pb.Primitive("twice", samples=lambda rng: [((rng.normal(size=3),), {})], **rules, **more)
        return p

    with pytest.raises(pb.errors.ProgramError, match=r"sample 0 \(bool\[3\]\).* chose the dtype bool, .*kinds='f'.*dtypes="):
        pb.testing.check_primitive(twice())
    pb.testing.check_primitive(twice(kinds="f"))
    pb.testing.check_primitive(twice(), dtypes=["float64"])


def _ten(primals, tangents):
    return primals[0], tangents[0] * 10.0


BESIDE_EXPAND = {
    "jvp": {"jvp": _ten},
    "transpose": {"linear": True, "transpose": lambda ct, x: (ct * 10.0,)},
    "partials": {"partials": lambda out, x: (10.0,)},
    "vectorize": {"vectorize": lambda size, args, axes: (args[0] * 20.0, 0)},
}


@pytest.mark.parametrize("rule", BESIDE_EXPAND)
def test_no_rule_is_lost_where_an_operation_is_expanded(rule):
    """What was recorded or batched first was expanded, and had the derivative of the expansion."""
    p = pb.Primitive("doubled", expand=lambda x: x * 2.0, **BESIDE_EXPAND[rule])
    stacks = [
        lambda x: pb.grad(pb.jit(lambda y: p(y)))(x),
        lambda x: pb.grad(pb.checkpoint(lambda y: p(y)))(x),
        lambda x: pb.vmap(pb.jit(lambda y: p(y)))(np.stack([x, x])),
        lambda x: pb.grad(lambda y: pb.lax.scan(lambda c, _: (p(c), None), y, None, 2)[0])(x),
    ]
    if rule != "vectorize":
        stacks.append(lambda x: pb.grad(lambda y: pb.vmap(p)(y).sum())(np.stack([x, x])))
        assert float(pb.grad(p)(1.0)) == 10.0
    for stack in stacks:
        with pytest.raises(pb.errors.MissingRule, match="'doubled' does not here, since by it its rule"):
            stack(np.float32(1.0))
