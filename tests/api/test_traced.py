"""Errors name the transformation that traced the user's function, and the argument by its path."""

import pytest

import pullback as pb
import pullback.numpy as pnp

ONE = pnp.ones(3)


def needs_a_number(x, *rest):
    return float(pnp.sum(x)) * x


def custom(kind, define):
    def call():
        f = kind(needs_a_number)
        define(f)
        return pb.jit(f)(ONE)

    return call


TRACED = {
    "jit": lambda: pb.jit(needs_a_number)(ONE),
    "xpr": lambda: pb.xpr(needs_a_number, ONE),
    "eval_shape": lambda: pb.eval_shape(needs_a_number, ONE),
    "checkpoint": lambda: pb.checkpoint(needs_a_number)(ONE),
    "saved_residuals": lambda: pb.saved_residuals(needs_a_number, ONE),
    "closure_convert": lambda: pb.closure_convert(needs_a_number, ONE),
    "scan": lambda: pb.lax.scan(needs_a_number, ONE, ONE),
    "while_loop": lambda: pb.lax.while_loop(lambda x: pnp.sum(x) < 1.0, needs_a_number, ONE),
    "cond": lambda: pb.lax.cond(True, needs_a_number, needs_a_number, ONE),
    "switch": lambda: pb.lax.switch(1, [needs_a_number, needs_a_number], ONE),
    "custom_root": lambda: pb.custom_root(needs_a_number, ONE, lambda f, y: y, lambda g, y: y),
    "custom_linear_solve": lambda: pb.custom_linear_solve(needs_a_number, ONE, lambda f, y: y),
    "custom_jvp": custom(pb.custom_jvp, lambda f: f.defjvps(lambda t, out, x: t)),
    "custom_vjp": custom(pb.custom_vjp, lambda f: f.defvjp(lambda x: (x, None), lambda _, ct: (ct,))),
    "custom_vmap": custom(pb.custom_vmap, lambda f: f.def_vmap(lambda size, batched, x: (x, True))),
}


@pytest.mark.parametrize("transformation", TRACED)
def test_errors_name_the_transformation(transformation):
    with pytest.raises(pb.errors.ConcretizationError, match=f"{transformation} of needs_a_number"):
        TRACED[transformation]()


@pytest.mark.parametrize("transform", [pb.jit, pb.checkpoint, lambda f: lambda x: pb.xpr(f, x)])
def test_an_argument_that_is_no_array_is_named_by_its_path(transform):
    with pytest.raises(pb.errors.LeafError, match=r"argument params\['w'\]\[1\] is 'two'"):
        transform(lambda params: params["w"][0])({"w": [1.0, "two"]})
