"""Arrays of dtype float0, the trivial tangents of integers, as arguments: they hold nothing, and go where other arrays go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp


def trivial(*shape: int) -> Any:
    return np.zeros(shape, pb.float0)


def along_integers(n: Any, x: Any, dn: Any, dx: Any) -> Any:
    return pb.jvp(lambda n, x: x * n, (n, x), (dn, dx))[1]


def scaled(x: Any, t: Any) -> Any:
    return x * 2.0, t


def powers(x: Any) -> Any:
    """x^4, by three steps."""
    return pb.lax.scan(lambda c, _: ((c[0], c[1] * x), None), (trivial(1), x), None, 3)[0][1]


def counted(n: Any) -> Any:
    return pb.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1]), (0, trivial(2)))[0]


by_jvp = pb.custom_jvp(lambda x, t: (x * x, t))
by_jvp.defjvp(lambda primals, tangents: ((primals[0] ** 2, primals[1]), (2.0 * primals[0] * tangents[0], tangents[1])))
by_vjp = pb.custom_vjp(lambda x, t: (x * x, t))
by_vjp.defvjp(lambda x, t: ((x * x, t), (x, t)), lambda kept, ct: (2.0 * kept[0] * ct[0], kept[1]))
by_vmap = pb.custom_vmap(lambda x, t: x * x)
by_vmap.def_vmap(lambda size, batched, x, t: (x * x, batched[0]))
by_gradient = pb.custom_gradient(lambda x, t: (x * x, lambda ct: (2.0 * x * ct, None)))
ONES, NUMBERS = np.ones(3, "float32"), np.arange(3)

# Each a call and the shapes that its result must have, as JAX 0.10.2 gives them; a shape is that of a float0 array
CALLS: dict[str, tuple[Callable[[], Any], Any]] = {
    "vmap": (lambda: pb.vmap(lambda x: x)(trivial(3)), (3,)),
    "vmap, axes": (lambda: pb.vmap(lambda x, y: x, (-1, 0), 1)(trivial(2, 3), ONES), (2, 3)),
    "vmap, inside": (lambda: pb.vmap(lambda x, y: [x.shape, y][1])(trivial(3, 2), ONES), ONES),
    "vmap, not batched": (lambda: pb.vmap(lambda x, y: x, (None, 0))(trivial(2), ONES), (3, 2)),
    "vmap, out None": (lambda: pb.vmap(lambda x, y: x, (None, 0), None)(trivial(2), ONES), (2,)),
    "vmap, alone": (lambda: pb.vmap(lambda x: 1.0)(trivial(3)), ONES),
    "vmap, keyword": (lambda: pb.vmap(lambda x, t: x)(ONES, t=trivial(3)), ONES),
    "vmap of jvp": (lambda: pb.vmap(along_integers)(NUMBERS, ONES, trivial(3), ONES), NUMBERS),
    "vmap of jit": (lambda: pb.vmap(pb.jit(lambda x, y: x))(trivial(3), ONES), (3,)),
    "jit": (lambda: pb.jit(lambda x: x)(trivial(3)), (3,)),
    "jit, tree": (lambda: pb.jit(lambda x: {"b": x["a"][0]})({"a": [trivial(3), 1.0]})["b"], (3,)),
    "jit, static": (lambda: pb.jit(lambda n, x, t: n * x, static_argnums=0)(1, ONES, trivial(2)), ONES),
    "jit, donated": (lambda: pb.jit(lambda t, x: x, donate_argnums=(0,))(trivial(2), ONES), ONES),
    "jit of vmap": (lambda: pb.jit(pb.vmap(lambda x, y: y))(trivial(3), ONES), ONES),
    "jit of jvp": (lambda: pb.jit(along_integers)(NUMBERS, ONES, trivial(3), ONES), NUMBERS),
    "ahead of time": (lambda: pb.jit(lambda t, x: (t, x)).lower(trivial(3), ONES).compile()(trivial(3), ONES)[0], (3,)),
    "checkpoint": (lambda: pb.checkpoint(lambda x: x)(trivial(3)), (3,)),
    "cond": (lambda: pb.lax.cond(True, lambda t, x: t, lambda t, x: t, trivial(3), ONES), (3,)),
    "eval_shape": (lambda: pb.eval_shape(lambda x: x, trivial(3)), (3,)),
    "jvp, value": (lambda: pb.jvp(scaled, (ONES, trivial(3)), (ONES, trivial(3)))[0][1], (3,)),
    "jvp, tangent": (lambda: pb.jvp(scaled, (ONES, trivial(3)), (ONES, None))[1][1], (3,)),
    "jvp, unused": (lambda: pb.jvp(lambda x, t: x * x, (ONES, trivial(2)), (ONES, trivial(2)))[1], 2 * ONES),
    "jvp, tree": (
        lambda: pb.jvp(lambda d: d["x"] * 2.0, ({"t": trivial(2), "x": ONES},), ({"t": None, "x": ONES},))[1],
        2 * ONES,
    ),
    "jvp of jit": (lambda: pb.jvp(pb.jit(scaled), (ONES, trivial(3)), (ONES, trivial(3)))[1][1], (3,)),
    "jvp of vmap": (lambda: pb.jvp(pb.vmap(scaled), (ONES, trivial(3)), (ONES, trivial(3)))[1][0], 2 * ONES),
    "vmap of its jvp": (
        lambda: pb.vmap(lambda x, t: pb.jvp(scaled, (x, t), (x, t))[1][0])(ONES, trivial(3)),
        2 * ONES,
    ),
    "linearize": (lambda: pb.linearize(scaled, ONES, trivial(3))[0][1], (3,)),
    "linearize, tangents": (lambda: pb.linearize(scaled, ONES, trivial(3))[1](ONES, trivial(3))[1], (3,)),
    "vjp, value": (lambda: pb.vjp(scaled, ONES, trivial(3))[0][1], (3,)),
    "vjp, cotangent": (lambda: pb.vjp(scaled, ONES, trivial(3))[1]((ONES, trivial(3)))[1], (3,)),
    "vjp": (lambda: pb.vjp(scaled, ONES, trivial(3))[1]((ONES, None))[0], 2 * ONES),
    "jit of vjp": (lambda: pb.jit(lambda x, t: pb.vjp(scaled, x, t)[1]((x, t)))(ONES, trivial(3))[1], (3,)),
    "vjp, from jit": (lambda: pb.jit(lambda x, t: pb.vjp(scaled, x, t))(ONES, trivial(3))[1]((ONES, None))[1], (3,)),
    "grad": (lambda: pb.grad(lambda x, t: pnp.sum(scaled(x, t)[0]))(ONES, trivial(3)), 2 * ONES),
    "jacrev, trivial": (lambda: pb.jacrev(lambda x, t: x, (0, 1), allow_int=True)(ONES, trivial(2))[1], (3, 2)),
    "jet": (lambda: pb.jet(scaled, (1.0, trivial(2)), ([1.0], [None]))[1][0][0], 2.0),
    "scan, carry": (lambda: pb.lax.scan(lambda c, x: ((c[0], c[1] + x), c[0]), (trivial(3), 0.0), ONES)[0][0], (3,)),
    "scan, other": (lambda: pb.lax.scan(lambda c, x: ((c[0], c[1] + x), c[1]), (trivial(3), 0.0), ONES)[1], NUMBERS),
    "while_loop": (lambda: pb.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1]), (0, trivial(2)))[1], (2,)),
    "fori_loop": (lambda: pb.lax.fori_loop(0, 3, lambda i, c: (c[0] + i, c[1]), (0, trivial(2)))[1], (2,)),
    "grad of scan": (lambda: pb.grad(powers)(3.0), 27.0 * 4.0),
    "vmap of while_loop": (lambda: pb.vmap(counted)(NUMBERS), NUMBERS),
    "scan, xs": (lambda: pb.lax.scan(lambda c, x: (c + x[0], x[1]), 0.0, (ONES, trivial(3, 2)))[1], (3, 2)),
    "scan, xs alone": (lambda: pb.lax.scan(lambda c, x: (c + 1.0, c), 0.0, trivial(3, 2))[1], NUMBERS),
    "scan, element": (lambda: pb.lax.scan(lambda c, x: (x, None), trivial(2), trivial(3, 2))[0], (2,)),
    "scan, ys": (lambda: pb.lax.scan(lambda c, x: (c, trivial(2)), 0.0, ONES)[1], (3, 2)),
    "jit of scan, ys": (lambda: pb.jit(lambda t: pb.lax.scan(lambda c, x: (c, x), 0.0, t)[1])(trivial(3, 2)), (3, 2)),
    "map": (lambda: pb.lax.map(lambda a: a[1], (ONES, trivial(3))), (3,)),
    "jacfwd": (lambda: pb.jacfwd(lambda x: (x * x, trivial(2)))(ONES)[1], (2, 3)),
    "jacfwd, other": (lambda: pb.jacfwd(lambda x: (trivial(2), x * 2.0))(ONES)[1], np.diag(2 * ONES)),
    "custom_jvp": (lambda: by_jvp(2.0, trivial(3))[1], (3,)),
    "custom_jvp, grad": (lambda: pb.grad(lambda x, t: by_jvp(x, t)[0])(2.0, trivial(3)), 4.0),
    "custom_jvp, jvp": (lambda: pb.jvp(by_jvp, (2.0, trivial(3)), (1.0, trivial(3)))[1][1], (3,)),
    "custom_jvp, vmap": (lambda: pb.vmap(by_jvp)(ONES, trivial(3, 2))[1], (3, 2)),
    "custom_vjp": (lambda: by_vjp(2.0, trivial(3))[1], (3,)),
    "custom_vjp, grad": (lambda: pb.grad(lambda x, t: by_vjp(x, t)[0])(2.0, trivial(3)), 4.0),
    "custom_vjp, jit of vjp": (lambda: pb.jit(lambda x, t: pb.vjp(by_vjp, x, t)[1]((1.0, None)))(2.0, trivial(3))[1], (3,)),
    "custom_vjp, vmap of grad": (lambda: pb.vmap(pb.grad(lambda x, t: by_vjp(x, t)[0]))(ONES, trivial(3, 2)), 2 * ONES),
    "custom_vmap": (lambda: pb.vmap(by_vmap)(ONES, trivial(3, 2)), ONES),
    "custom_gradient": (lambda: pb.grad(by_gradient)(2.0, trivial(3)), 4.0),
    "closure_convert": (lambda: pb.closure_convert(lambda x, t: (x, t), 2.0, trivial(3))[0](2.0, trivial(3))[1], (3,)),
    "device_put": (lambda: pb.device_put({"t": trivial(3)})["t"], (3,)),
}


@pytest.mark.parametrize("which", CALLS)
def test_float0_goes_where_other_arrays_go(which: str) -> None:
    call, expected = CALLS[which]
    for _ in range(3):  # a jitted function is made anew each time, but its executable is not
        out = call()
        if isinstance(expected, tuple):
            assert isinstance(out, np.ndarray) and out.dtype == pb.float0 and out.shape == expected
        else:
            np.testing.assert_array_equal(out, expected)


def test_a_jitted_function_keeps_float0_and_other_arguments_apart() -> None:
    traced = []
    function = pb.jit(lambda t, x: traced.append(t.dtype) or 2.0 * x)
    for _ in range(2):
        for first in (trivial(3), ONES, trivial(2), pnp.ones(3)):
            np.testing.assert_array_equal(function(first, ONES), 2.0 * ONES)
    assert len(traced) == 3  # the NumPy array and the Array are of one type


def test_errors_name_float0_arguments() -> None:
    with pytest.raises(pb.errors.AxisError, match=r"argument t has size 2 along axis 0; argument x has size 3 along axis 0"):
        pb.vmap(lambda t, x: x)(trivial(2), ONES)
    with pytest.raises(pb.errors.AxisError, match=r"batch argument t along axis 1, but it has type float0\[2\]"):
        pb.vmap(lambda t, x: x, in_axes=(1, 0))(trivial(2), ONES)
    with pytest.raises(pb.errors.LeafError, match=r"argument b\['w'\] is 'text'"):
        pb.jit(lambda a, b: a)(trivial(2), {"t": trivial(1), "w": "text"})
    for derivative in (pb.grad, pb.value_and_grad, pb.jacfwd, pb.jacrev):
        with pytest.raises(pb.errors.GradientError, match=r"argument t, which is float0\[2\]"):
            derivative(lambda x, t: x, 1)(1.0, trivial(2))
    with pytest.raises(pb.errors.GradientError, match=r"tangents\[1\].*float0\[2\]"):
        pb.jvp(scaled, (1.0, trivial(2)), (1.0, np.ones(2)))
    with pytest.raises(pb.errors.GradientError, match=r"takes \(~f32\[\], float0\[2\]\)"):
        pb.linear_transpose(lambda x, t: x, 1.0, trivial(2))(1.0)
    with pytest.raises(pb.errors.LeafError, match="float0"):
        pb.jvp(lambda x, t: pnp.sin(t), (1.0, trivial(2)), (1.0, None))
    assert pb.xpr(lambda t, x: x, trivial(2), ONES).input_types == (pb.ArrayType((3,), "float32"),)


def test_an_axis_that_an_output_of_float0_has_not() -> None:
    with pytest.raises(pb.errors.AxisError, match="batch axis of output at 7"):
        pb.vmap(lambda x: trivial(3), out_axes=7)(np.ones(2))


def test_static_arguments_beside_arrays_of_float0_stay_as_they_are() -> None:
    static = ((1, 2), ("a",))
    seen: list[Any] = []
    f = pb.jit(lambda x, s, *, named: seen.extend([s, named]) or x, static_argnums=1, static_argnames="named")
    f(trivial(2), static, named=static)
    assert seen[0] is static and seen[1] is static
