"""What a batched cond or loop computes and throws away never reaches a derivative: held against a Python loop over examples."""

import pytest

import pullback as pb
import pullback.lax
import pullback.numpy as pn

BATCH = pn.asarray([-1.0, 4.0, -2.0])


def _where(shared):
    def example(x):
        return pb.lax.cond(x > 0, lambda: x * pn.sum(pn.sqrt(shared)), lambda: x * pn.sum(shared))

    return example


def _switch(shared):
    def example(x):
        index = pn.where(x > 0, 0, -1) + pn.where(x < -1.5, 3, 1)
        branches = [lambda: x, lambda: x * pn.sum(shared), lambda: pn.sum(pn.log(shared + x) * pn.sqrt(shared - 1.0))]
        return pb.lax.switch(index, branches)

    return example


def _scan_of_cond(shared):
    def example(x):
        def step(carry, y):
            return pb.lax.cond(y > 2, lambda: carry * pn.sum(pn.sqrt(shared)), lambda: carry + pn.sum(shared)), None

        return pb.lax.scan(step, x, pn.stack([x, x + 1.0]))[0]

    return example


def _depends_on_both(shared):
    """The derivative with respect to the shared array is bad where batch elements do not take the branch, and only there."""

    def example(x):
        return pb.lax.cond(x > 0, lambda s: pn.sum(pn.sqrt(s + x + 2.0)), lambda s: x * pn.sum(s), shared)

    return example


def _while(shared):
    def example(x):
        def step(carry):
            count, at, total = carry
            return count + 1, at + 1.0, total * pn.sum(pn.sqrt(shared - at))

        last = pn.where(x > 0, 2, 3)
        start = pn.where(x > 0, 1.0, 0.5)  # at 3 after its last step, where sqrt(3 - 3) is never needed
        return pb.lax.while_loop(lambda carry: carry[0] < last, step, (0, start, 1.0), max_steps=4)[2]

    return example


def _nowhere_alive(shared):
    def example(x):
        return pb.lax.cond(x > 9, lambda: x * pn.sum(1.0 / shared), lambda: x)

    return example


CASES = {
    "cond": (_where, [0.25, 4.0]),
    "switch": (_switch, [4.0, 2.25]),
    "scan of cond": (_scan_of_cond, [0.25, 4.0]),
    "operand of both kinds": (_depends_on_both, [0.0, -1.0]),
    "while": (_while, [3.0, 4.0]),
    "no example": (_nowhere_alive, [0.0, 4.0]),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_gradient_by_a_shared_array(case, compiled):
    make, shared = CASES[case]
    shared = pn.asarray(shared)

    def batched(shared):
        return pn.sum(pb.vmap(make(shared))(BATCH))

    def looped(shared):
        return sum(make(shared)(x) for x in BATCH)

    gradient, wanted = pb.grad(batched), pb.grad(looped)(shared)
    found = pb.jit(gradient)(shared) if compiled else gradient(shared)
    assert pn.allclose(found, wanted, rtol=1e-5), (found, wanted)
    assert pn.allclose(pb.grad(pb.jit(batched))(shared), wanted, rtol=1e-5)


def test_an_array_that_is_all_dead_has_zero_gradient():
    gradient = pb.grad(lambda s: pn.sum(pb.vmap(_where(s))(pn.asarray([-1.0, -2.0]))))(pn.asarray([0.0, 4.0]))
    assert gradient.tolist() == [-3.0, -3.0]
    hessian = pb.hessian(lambda s: pn.sum(pb.vmap(_where(s))(pn.asarray([-1.0, -2.0]))))(pn.asarray([0.0, 4.0]))
    assert hessian.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_shared_arrays_are_not_repeated():
    """A weight matrix that all examples share costs one matrix, not one for each of them."""

    def example(x, weights):
        return pb.lax.cond(x[0] > 0, lambda w: w @ x, lambda w: x, weights)

    text = str(pb.xpr(pb.vmap(example, (0, None)), pn.ones((8, 5)), pn.ones((5, 5))))
    assert "f32[8,5,5]" not in text
