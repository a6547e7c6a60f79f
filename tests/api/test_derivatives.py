"""jvp, vjp, linearize, grad, Jacobians over trees, with every option, and every refusal."""

from __future__ import annotations

import collections
import copy
import dataclasses
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Model:
    weight: Any
    bias: Any
    name: str = dataclasses.field(default="m", metadata={"static": True})


x3 = np.array([0.5, -1.0, 2.0])

TREES: dict[str, Any] = {
    "array": x3,
    "tuple": (x3, 2.0 * x3),
    "list": [x3, [x3 + 1.0]],
    "dict": {"b": x3, "a": x3**2},
    "ordered": collections.OrderedDict(b=x3, a=x3**2),
    "named": Pair(x3, -x3),
    "dataclass": Model(x3, x3 + 2.0),
    "none": (x3, None, {"k": x3}),
    "deep": {"layers": [Pair({"w": x3}, (x3, None))], "scale": np.float64(3.0)},
}


def sum_of_sines(tree: Any) -> Any:
    return sum((pnp.sum(pnp.sin(leaf)) for leaf in pb.tree.leaves(tree)), 0.0)


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
class TestTrees:
    def test_grad_has_the_structure_of_its_argument(self, tree: Any) -> None:
        gradient = pb.grad(sum_of_sines)(tree)
        assert pb.tree.structure(gradient) == pb.tree.structure(tree)
        for got, leaf in zip(pb.tree.leaves(gradient), pb.tree.leaves(tree), strict=True):
            np.testing.assert_allclose(np.asarray(got), np.cos(leaf))

    def test_jvp_against_vjp(self, tree: Any) -> None:
        direction = pb.tree.map(lambda leaf: np.asarray(leaf) * 0.3 + 1.0, tree)
        value, tangent = pb.jvp(sum_of_sines, (tree,), (direction,))
        again, pull = pb.vjp(sum_of_sines, tree)
        (gradient,) = pull(pnp.ones((), np.float64))
        dots = [np.sum(np.asarray(g) * d) for g, d in zip(pb.tree.leaves(gradient), pb.tree.leaves(direction), strict=True)]
        np.testing.assert_allclose(float(tangent), sum(dots))
        assert float(value) == float(again)

    def test_linearize_is_jvp(self, tree: Any) -> None:
        direction = pb.tree.map(np.ones_like, tree)
        value, push = pb.linearize(sum_of_sines, tree)
        expected, tangent = pb.jvp(sum_of_sines, (tree,), (direction,))
        assert float(value) == float(expected)
        np.testing.assert_allclose(float(push(direction)), float(tangent))

    def test_jit_returns_the_structure(self, tree: Any) -> None:
        out = pb.jit(lambda t: pb.tree.map(lambda leaf: leaf * 2.0, t))(tree)
        assert pb.tree.structure(out) == pb.tree.structure(tree)

    def test_output_trees(self, tree: Any) -> None:
        def many(x: Any) -> Any:
            return pb.tree.map(lambda leaf: pnp.sum(x) * leaf, tree)

        out, pull = pb.vjp(many, x3)
        assert pb.tree.structure(out) == pb.tree.structure(tree)
        (gradient,) = pull(pb.tree.map(np.ones_like, tree))
        expected = sum(np.sum(leaf) for leaf in pb.tree.leaves(tree))
        np.testing.assert_allclose(np.asarray(gradient), expected * np.ones(3))


def test_dataclass_metadata_is_kept() -> None:
    gradient = pb.grad(lambda m: pnp.sum(m.weight * m.bias))(Model(x3, x3, "mine"))
    assert gradient.name == "mine"


class TestGradOptions:
    def test_argnums(self) -> None:
        def f(x: Any, y: Any, z: Any) -> Any:
            return x * y**2 * z**3

        args = (2.0, 3.0, 5.0)
        partial = (9 * 125.0, 2 * 6 * 125.0, 2 * 9 * 75.0)
        for number in (0, 1, 2, -1):
            assert float(pb.grad(f, argnums=number)(*args)) == partial[number]
        both = pb.grad(f, argnums=(2, 0))(*args)
        assert isinstance(both, tuple) and [float(g) for g in both] == [partial[2], partial[0]]
        (one,) = pb.grad(f, argnums=[1])(*args)
        assert float(one) == partial[1]

    def test_numpys_integers_number_arguments_and_axes_too(self) -> None:
        def f(x: Any, y: Any) -> Any:
            return x * y**2

        one = np.int64(1)
        for derivative in (pb.grad, pb.jacfwd, pb.jacrev):
            assert float(derivative(f, argnums=one)(2.0, 3.0)) == 12.0
            assert [float(g) for g in derivative(f, argnums=np.arange(2))(2.0, 3.0)] == [9.0, 12.0]
        assert float(pb.hessian(f, argnums=-one)(2.0, 3.0)) == 4.0
        assert pb.sparse.jacobian(f, argnums=one)(2.0, x3).shape == (3, 3)
        assert float(pb.jit(f, static_argnums=one)(2.0, 3)) == 18.0
        assert float(pb.grad(pb.checkpoint(f, static_argnums=one))(2.0, 3)) == 9.0
        assert pb.vmap(f, in_axes=(one, None), out_axes=one)(np.ones((2, 3)), 3.0).shape == (2, 3)
        assert pb.vmap(lambda x: x, in_axes=one)(np.ones((2, 3))).shape == (3, 2)
        apply = pb.custom_jvp(lambda x, g: g(x), nondiff_argnums=one)
        apply.defjvp(lambda g, primals, tangents: (g(*primals), tangents[0] * 7.0))
        assert float(pb.grad(lambda x: apply(x, pnp.sin))(1.0)) == 7.0

    def test_keyword_arguments_are_passed_on(self) -> None:
        assert float(pb.grad(lambda x, *, power: x**power)(3.0, power=2)) == 6.0

    def test_has_aux(self) -> None:
        def f(x: Any) -> Any:
            return pnp.sum(x**2), {"double": 2 * x, "note": "text", "none": None}

        gradient, aux = pb.grad(f, has_aux=True)(x3)
        np.testing.assert_allclose(np.asarray(gradient), 2 * x3)
        np.testing.assert_allclose(np.asarray(aux["double"]), 2 * x3)
        assert aux["note"] == "text" and aux["none"] is None
        (value, aux), gradient = pb.value_and_grad(f, has_aux=True)(x3)
        assert isinstance(aux["double"], pb.Array)
        np.testing.assert_allclose(float(value), np.sum(x3**2))

    def test_aux_is_differentiable_one_level_out(self) -> None:
        def inner(x: Any) -> Any:
            gradient, aux = pb.grad(lambda y: (y**3, y**2), has_aux=True)(x)
            return gradient + aux

        assert float(pb.grad(inner)(2.0)) == 6 * 2.0 + 2 * 2.0

    def test_has_aux_of_jvp_vjp_linearize(self) -> None:
        def f(x: Any) -> Any:
            return x**2, x + 1

        assert [float(v) for v in pb.jvp(f, (3.0,), (1.0,), has_aux=True)] == [9.0, 6.0, 4.0]
        value, pull, aux = pb.vjp(f, 3.0, has_aux=True)
        assert (float(value), float(pull(1.0)[0]), float(aux)) == (9.0, 6.0, 4.0)
        value, push, aux = pb.linearize(f, 3.0, has_aux=True)
        assert (float(value), float(push(1.0)), float(aux)) == (9.0, 6.0, 4.0)

    def test_has_aux_takes_a_list_of_two(self) -> None:
        assert [float(v) for v in pb.grad(lambda x: [x * x, x], has_aux=True)(3.0)] == [6.0, 3.0]
        assert [float(v) for v in pb.jvp(lambda x: [x * x, x], (3.0,), (1.0,), has_aux=True)] == [9.0, 6.0, 3.0]

    def test_has_aux_needs_a_pair(self) -> None:
        with pytest.raises(pb.errors.StructureError, match="returns a pair"):
            pb.grad(lambda x: x, has_aux=True)(1.0)

    def test_holomorphic(self) -> None:
        z = np.complex128(0.3 + 0.7j)
        np.testing.assert_allclose(complex(pb.grad(pnp.sin, holomorphic=True)(z)), np.cos(z))
        np.testing.assert_allclose(complex(pb.jacfwd(lambda z: z**3, holomorphic=True)(z)), 3 * z**2)
        with pytest.raises(pb.errors.GradientError, match="holomorphic"):
            pb.grad(pnp.sin)(z)
        with pytest.raises(pb.errors.GradientError, match="needs complex arguments"):
            pb.grad(pnp.sin, holomorphic=True)(1.0)

    def test_real_function_of_complex(self) -> None:
        z = np.complex128(0.3 + 0.7j)
        gradient = complex(pb.grad(lambda z: pnp.real(z) ** 2 + pnp.imag(z) ** 2)(z))
        np.testing.assert_allclose(gradient, 2 * np.conj(z))  # the convention of the field: df/dx - i df/dy

    def test_integers(self) -> None:
        with pytest.raises(pb.errors.GradientError, match=r"argument n.*i32\[\]"):
            pb.grad(lambda x, n: x * n, argnums=1)(2.0, 3)
        with pytest.raises(pb.errors.GradientError, match=r"params\['count'\]"):
            pb.grad(lambda params: params["w"] * params["count"])({"w": 1.0, "count": 3})
        gradient = pb.grad(lambda params: params["w"] * params["count"], allow_int=True)({"w": 1.0, "count": 3})
        assert float(gradient["w"]) == 3.0 and gradient["count"].dtype == pb.float0 and gradient["count"].shape == ()

    @pytest.mark.parametrize(
        ("function", "message"),
        [
            (lambda x: x * np.ones(3), r"0-d output, but .* returned f64\[3\]"),
            (lambda x: (x, x), "a tuple of 2 arrays"),
            (lambda x: {}, "a dict of 0 arrays"),
            (lambda x: None, r"(?m)returned None: is a return missing\?$"),
            (lambda x: x > 0, "floating-point output"),
            (lambda x: pnp.asarray(1), "floating-point output"),
        ],
    )
    def test_outputs_that_have_no_gradient(self, function: Any, message: str) -> None:
        with pytest.raises(pb.errors.GradientError, match=message):
            pb.grad(function)(np.float64(2.0))

    def test_argnums_out_of_range(self) -> None:
        with pytest.raises(pb.errors.GradientError, match="argument 2"):
            pb.grad(lambda x: x, argnums=2)(1.0)
        with pytest.raises(pb.errors.GradientError, match="twice"):
            pb.grad(lambda x, y: x, argnums=(0, -2))(1.0, 2.0)
        with pytest.raises(TypeError, match="int or a sequence"):
            pb.grad(lambda x: x, argnums=("x",))(1.0)  # type: ignore[arg-type]
        for wrong in (0.0, None, {0}):
            with pytest.raises(TypeError, match="grad's argnums must be an int or a sequence of ints"):
                pb.grad(lambda x: x, argnums=wrong)(1.0)  # type: ignore[arg-type]

    def test_not_a_function(self) -> None:
        with pytest.raises(TypeError, match="takes a function"):
            pb.grad(3.0)  # type: ignore[arg-type]

    def test_leaf_that_is_no_array(self) -> None:
        with pytest.raises(pb.errors.LeafError, match=r"params\['name'\]"):
            pb.grad(lambda params: params["w"])({"w": 1.0, "name": "layer"})
        with pytest.raises(pb.errors.LeafError, match="returned: output is 'text'"):
            pb.grad(lambda x: "text")(1.0)

    def test_unused_argument_has_zero_gradient(self) -> None:
        gradient = pb.grad(lambda x, y: x * 2, argnums=(0, 1))(1.0, x3)
        np.testing.assert_array_equal(np.asarray(gradient[1]), np.zeros(3))

    def test_name_and_signature_survive(self) -> None:
        def loss(weights: Any, data: Any) -> Any:
            """How wrong it is."""
            return weights * data

        gradient = pb.grad(loss)
        assert gradient.__name__ == "grad_loss" and gradient.__doc__ == "How wrong it is."


class TestTangents:
    def test_structure_must_match(self) -> None:
        with pytest.raises(pb.errors.StructureError, match=r"tangents\[0\]"):
            pb.jvp(lambda t: t[0], ((1.0, 2.0),), ([1.0, 2.0],))
        with pytest.raises(pb.errors.StructureError, match="as many tangents as primals, but got 1 for 2"):
            pb.jvp(lambda x, y: x, (1.0, 2.0), (1.0,))

    def test_shape_and_dtype_must_match(self) -> None:
        with pytest.raises(pb.errors.ShapeError, match=r"f64\[2\].*f64\[3\]"):
            pb.jvp(pnp.sin, (x3,), (np.ones(2),))
        with pytest.raises(pb.errors.PullbackError, match=r"f32\[3\].*f64\[3\]"):
            pb.jvp(pnp.sin, (x3,), (np.ones(3, np.float32),))

    def test_not_in_a_tuple(self) -> None:
        with pytest.raises(TypeError, match="tuple or list"):
            pb.jvp(pnp.sin, 1.0, 1.0)  # type: ignore[arg-type]

    def test_integer_primals(self) -> None:
        _, tangent = pb.jvp(lambda x, n: (x * n, n + 1), (2.0, 3), (1.0, None))
        assert float(tangent[0]) == 3.0 and tangent[1].dtype == pb.float0
        with pytest.raises(pb.errors.GradientError, match="no tangent"):
            pb.jvp(lambda n: n, (3,), (1,))
        _, pull = pb.vjp(lambda x, n: x * n, 2.0, 3)
        assert pull(1.0)[1].dtype == pb.float0

    def test_cotangent_must_fit(self) -> None:
        _, pull = pb.vjp(lambda x: {"a": x, "b": x[0]}, x3)
        with pytest.raises(pb.errors.StructureError):
            pull(1.0)
        with pytest.raises(pb.errors.ShapeError, match=r"\['b'\]"):
            pull({"a": x3, "b": x3})

    def test_pull_may_be_called_often(self) -> None:
        _, pull = pb.vjp(lambda x: pnp.sin(x) * 2.0, 0.5)
        assert float(pull(1.0)[0]) == float(pull(1.0)[0])


def test_a_complex_number_is_no_tangent_of_a_real_one() -> None:
    for call in (
        lambda: pb.jvp(pnp.sin, (2.0,), (1j,)),
        lambda: pb.linearize(pnp.sin, 2.0)[1](1j),
        lambda: pb.vjp(pnp.sin, 2.0)[1](1j),
        lambda: pb.jet(pnp.sin, (2.0,), ([1j],)),
        lambda: pb.linear_transpose(lambda x: x * 2.0, 2.0)(1j),
    ):
        with pytest.raises(pb.errors.DtypeError, match="dtypes must be equal"):
            call()
    assert pb.vjp(lambda x: x * 2.0, 1j)[1](1.0)[0] == 2.0  # while a real number is also a complex one


class TestLinearTranspose:
    def test_matrix(self) -> None:
        matrix = np.arange(6.0).reshape(2, 3)
        transposed = pb.linear_transpose(lambda v: matrix @ v, np.zeros(3))
        np.testing.assert_allclose(np.asarray(transposed(np.array([1.0, 2.0]))[0]), matrix.T @ [1.0, 2.0])

    def test_of_its_own_transpose(self) -> None:
        matrix = np.arange(6.0).reshape(2, 3)

        def forward(v: Any) -> Any:
            return pb.linear_transpose(lambda w: matrix.T @ w, np.zeros(2))(v)[0]

        twice = pb.linear_transpose(forward, np.zeros(3))
        np.testing.assert_allclose(np.asarray(twice(np.array([1.0, 2.0]))[0]), matrix.T @ [1.0, 2.0])

    def test_not_linear(self) -> None:
        with pytest.raises(pb.errors.PullbackError, match="sin"):
            pb.linear_transpose(pnp.sin, x3)(x3)

    @pytest.mark.parametrize(
        "f",
        [
            lambda x: 2 * x[::-1],
            lambda x: np.arange(6).reshape(2, 3) @ x,
            lambda x: pb.jit(lambda y: y - 3 * y[0])(x),
            lambda x: pb.lax.scan(lambda c, y: (c + y, 2 * c), x[0], x)[1],
        ],
    )
    def test_of_integers(self, f: Any) -> None:
        matrix = np.stack([np.asarray(f(pnp.asarray(row))) for row in np.eye(3, dtype=int)], axis=1)
        for run in (lambda g: g, pb.jit):
            rows = [run(pb.linear_transpose(f, np.zeros(3, int)))(row)[0] for row in np.eye(len(matrix), dtype=int)]
            np.testing.assert_array_equal(np.stack([np.asarray(row) for row in rows]), matrix)

    @pytest.mark.parametrize("f", [lambda x: x * 2.0, lambda x: (x, 2.0 * pnp.ones(2)), lambda x: x > 0])
    def test_integers_stay_integers(self, f: Any) -> None:
        x = np.arange(3)
        with pytest.raises(pb.errors.GradientError, match="integers with integers for results"):
            pb.linear_transpose(f, x)(pb.tree.map(pnp.ones_like, f(pnp.asarray(x))))
        with pytest.raises(pb.errors.DtypeError, match="dtypes must be equal"):
            pb.linear_transpose(lambda x: 2 * x, x)(np.ones(3))


class TestJacobians:
    def f(self, x: Any) -> Any:
        return pnp.stack([x[0] * x[1], pnp.sin(x[2]), x[0] ** 2, x[1]])

    def test_both_modes(self) -> None:
        expected = np.array([[x3[1], x3[0], 0], [0, 0, np.cos(x3[2])], [2 * x3[0], 0, 0], [0, 1, 0]])
        for jacobian in (pb.jacfwd, pb.jacrev):
            np.testing.assert_allclose(np.asarray(jacobian(self.f)(x3)), expected)
            np.testing.assert_allclose(np.asarray(pb.jit(jacobian(self.f))(x3)), expected)

    def test_shapes_of_matrices(self) -> None:
        m = np.arange(6.0).reshape(2, 3)
        for jacobian in (pb.jacfwd, pb.jacrev):
            found = np.asarray(jacobian(lambda m: m.T * 2.0)(m))
            assert found.shape == (3, 2, 2, 3)
            np.testing.assert_allclose(found, 2 * np.einsum("il,jk->ijkl", np.eye(3), np.eye(2)))

    def test_trees(self) -> None:
        def f(params: Any, y: Any) -> Any:
            return {"out": params["w"] * y, "sum": pnp.sum(params["b"])}

        params = {"w": x3, "b": np.array([1.0, 2.0])}
        for jacobian in (pb.jacfwd, pb.jacrev):
            found = jacobian(f)(params, 2.0)
            np.testing.assert_allclose(np.asarray(found["out"]["w"]), 2 * np.eye(3))
            np.testing.assert_allclose(np.asarray(found["out"]["b"]), np.zeros((3, 2)))
            np.testing.assert_allclose(np.asarray(found["sum"]["b"]), np.ones(2))
            both = jacobian(f, argnums=(0, 1))(params, 2.0)
            np.testing.assert_allclose(np.asarray(both["out"][1]), x3)

    def test_has_aux(self) -> None:
        for jacobian in (pb.jacfwd, pb.jacrev):
            found, aux = jacobian(lambda x: (x**2, x), has_aux=True)(x3)
            np.testing.assert_allclose(np.asarray(found), np.diag(2 * x3))
            np.testing.assert_allclose(np.asarray(aux), x3)

    def test_hessian(self) -> None:
        def f(x: Any) -> Any:
            return pnp.sum(x**3) + x[0] * x[1] * x[2]

        expected = np.diag(6 * x3) + np.array([[0, x3[2], x3[1]], [x3[2], 0, x3[0]], [x3[1], x3[0], 0]])
        np.testing.assert_allclose(np.asarray(pb.hessian(f)(x3)), expected)
        np.testing.assert_allclose(np.asarray(pb.jit(pb.hessian(pb.jit(f)))(x3)), expected)
        np.testing.assert_allclose(np.asarray(pb.hvp(f, (x3,), (np.ones(3),))), expected @ np.ones(3))

    def test_forward_mode_needs_no_bound_on_a_loop(self) -> None:
        def power(x: Any) -> Any:
            return pb.lax.while_loop(lambda c: c[1] < 5, lambda c: (c[0] * x, c[1] + 1), (pnp.ones_like(x), 0))[0]

        np.testing.assert_allclose(np.asarray(pb.jacfwd(power)(x3)), np.diag(5 * x3**4))

    def test_the_function_runs_once_for_all_its_inputs(self) -> None:
        calls = []

        def f(p: Any) -> Any:
            calls.append(1)
            return p["a"] * pnp.sum(p["b"])

        for jacobian in (pb.jacfwd, pb.jacrev):
            calls.clear()
            found = jacobian(f)({"a": x3, "b": np.ones(2)})
            assert len(calls) == 1
            np.testing.assert_allclose(np.asarray(found["b"]), np.stack([x3, x3], axis=1))

    def test_zero_size(self) -> None:
        for jacobian in (pb.jacfwd, pb.jacrev):
            assert jacobian(lambda x: x * 2.0)(np.zeros(0)).shape == (0, 0)

    def test_refusals(self) -> None:
        with pytest.raises(pb.errors.GradientError, match="real arguments"):
            pb.jacfwd(lambda z: z)(np.complex128(1j))
        with pytest.raises(pb.errors.GradientError, match="outputs"):
            pb.jacrev(lambda x: x > 0)(x3)
        # of a complex derivative by a real argument, reverse mode finds the real part alone
        assert pb.jacfwd(lambda x: pnp.exp(1j * x))(0.0) == 1j
        for x in (0.0, 1j):
            with pytest.raises(pb.errors.GradientError, match=r"holomorphic=True .* or use jacfwd"):
                pb.jacrev(lambda x: pnp.exp(1j * x))(x)


A = np.ones(3, np.float32)
STRONG = np.float32(2.0)


@pb.custom_vjp
def squared(x: Any) -> Any:
    return x * x


squared.defvjp(lambda x: (x * x, x), lambda x, cotangent: (2.0 * cotangent * x,))

# What JAX 0.10.2 gives: a gradient is weak where its argument is (a Python number), whatever it meets on the way.
WEAKNESS: dict[str, tuple[Any, Any]] = {
    "grad": (lambda: pb.grad(lambda x: x * x)(3.0), True),
    "grad with arrays": (lambda: pb.grad(lambda x: pnp.sum(x * A))(3.0), True),
    "grad, unused": (lambda: pb.grad(lambda x: 1.0 * pnp.sum(A))(3.0), True),
    "grad, strong": (lambda: pb.grad(lambda x: 2.0 * pnp.sin(x))(STRONG), False),
    "grad, strong and unused": (lambda: pb.grad(lambda x: 1.0)(STRONG), False),
    "grad of two": (lambda: pb.grad(lambda x, y: x * y, (0, 1))(3.0, STRONG), (True, False)),
    "grad of trees": (
        lambda: pb.grad(lambda p: pnp.sum(p["a"] * p["b"] * A))({"a": 1.0, "b": STRONG}),
        {"a": True, "b": False},
    ),
    "value_and_grad": (lambda: pb.value_and_grad(lambda x: pnp.sum(x * A))(3.0), (False, True)),
    "vjp": (lambda: pb.vjp(lambda x: x * A, 3.0)[1](A), (True,)),
    "vjp, strong cotangent": (lambda: pb.vjp(lambda x: pnp.sin(x) * x, 3.0)[1](STRONG), (False,)),
    "vjp, weak cotangent": (lambda: pb.vjp(lambda x: pnp.sin(x) * x, 3.0)[1](1.0), (True,)),
    "vmap of vjp": (lambda: pb.vmap(pb.vjp(lambda x: pnp.sin(x) * x, 3.0)[1])(A), (False,)),
    "jacrev": (lambda: pb.jacrev(lambda x: x * A)(3.0), True),
    "jacfwd": (lambda: pb.jacfwd(lambda x: x * A)(3.0), False),
    "jacfwd, weak output": (lambda: pb.jacfwd(lambda x: x * x)(3.0), True),
    "hessian": (lambda: pb.hessian(lambda x: x * x * STRONG)(3.0), True),
    "linearize": (lambda: pb.linearize(lambda x: x * A, 3.0)[1](1.0), False),
    "linearize, weak output": (lambda: pb.linearize(lambda x: x * x, 3.0)[1](1.0), True),
    "linearize, strong tangent": (lambda: pb.linearize(lambda x: x * x, 3.0)[1](STRONG), False),
    "linear_transpose": (lambda: pb.linear_transpose(lambda x: x * A, 3.0)(A), (True,)),
    "linear_transpose, strong": (lambda: pb.linear_transpose(lambda x: x * 2.0, STRONG)(STRONG), (False,)),
    "grad of jit": (lambda: pb.grad(pb.jit(lambda x: pnp.sum(x * A)))(3.0), True),
    "grad of custom_vjp": (lambda: pb.grad(lambda x: pnp.sum(squared(x) * A))(3.0), True),
    "grad of scan": (
        lambda: pb.grad(lambda x: pb.lax.scan(lambda c, _: (c * x, None), pnp.asarray(STRONG), None, length=3)[0])(3.0),
        True,
    ),
    "vmap of grad": (lambda: pb.vmap(lambda y: pb.grad(lambda x: x * y)(2.0))(A), True),
    "vmap of grad, strong": (lambda: pb.vmap(pb.grad(lambda x: x * x))(A), False),
}


@pytest.mark.parametrize("wrap", [lambda f: f, pb.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", WEAKNESS)
def test_a_gradient_is_weak_where_its_argument_is(name: str, wrap: Any) -> None:
    compute, expected = WEAKNESS[name]
    assert pb.tree.map(lambda found: found.type.weak, wrap(compute)()) == expected


@pytest.mark.parametrize(
    ("function", "operations"),
    [
        (lambda x: pnp.sum(x * 2.0), ["broadcast_in_dim"]),
        (lambda x: pnp.sum(3.0 - x), ["broadcast_in_dim"]),
        (lambda x: pnp.sum(pnp.reshape(x, (6,)).T), ["broadcast_in_dim"]),
        (lambda x: pnp.sum(x.T[::-1]), ["broadcast_in_dim"]),
        (lambda x: pnp.sum(x * pnp.sin(STRONG)), ["sin", "broadcast_in_dim"]),
        (lambda x: pnp.sum(x * x), ["add"]),
    ],
)
def test_staged_reverse_mode_multiplies_nothing_by_one(function: Any, operations: list[str]) -> None:
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    program = pb.xpr(pb.grad(function), x)
    assert [equation.primitive.name for equation in program.equations] == operations
    np.testing.assert_allclose(np.asarray(pb.jit(pb.grad(function))(x)), np.asarray(pb.grad(function)(x)), rtol=1e-6)
    assert pb.jit(pb.grad(function))(x).type is pb.ArrayType((2, 3), "float32")


@pytest.mark.parametrize("flag", [True, np.True_, 1, np.int32(1)])
def test_a_flag_may_be_1(flag: Any) -> None:
    for transform in (pb.grad, pb.value_and_grad, pb.jacfwd, pb.jacrev):
        assert transform(lambda x: (x * 2, x), has_aux=flag)(3.0)[1] in (3.0, 2.0)
    assert pb.jvp(lambda x: (x, x * 2), (3.0,), (1.0,), has_aux=flag)[2] == 6.0
    for wrong in (2, "yes", 1.0, None):
        with pytest.raises(TypeError, match="has_aux must be True or False"):
            pb.grad(lambda x: (x, x), has_aux=wrong)(3.0)


def test_a_tangent_or_cotangent_of_another_dtype_is_a_dtype_error() -> None:
    wide, narrow = np.ones(3), np.ones(3, np.float32)
    for call in (
        lambda: pb.jvp(lambda x: x, (wide,), (narrow,)),
        lambda: pb.vjp(lambda x: x, wide)[1](narrow),
        lambda: pb.linearize(lambda x: x, wide)[1](narrow),
    ):
        with pytest.raises(pb.errors.DtypeError, match=r"f32\[3\].*f64\[3\].*astype"):
            call()


@pytest.mark.parametrize("transform", [pb.jit, pb.grad, pb.vmap], ids=["jit", "grad", "vmap"])
def test_a_traced_value_is_not_pickled_but_copied(transform: Any) -> None:
    x = np.ones(2) if transform is pb.vmap else 1.0
    with pytest.raises(TypeError, match=r"A traced value of type .* cannot be pickled: .*lambda"):
        transform(lambda x: (pickle.dumps(x), x)[1])(x)
    transform(lambda x: copy.deepcopy(x) * copy.copy(x))(x)


def test_a_tangent_is_weak_where_its_output_is() -> None:
    def twice(function: Any) -> Any:
        return pb.jvp(lambda x: pb.jvp(function, (x,), (1.0,))[1], (3.0,), (1.0,))[1]

    half = pnp.ones((), "bfloat16")
    for function in (lambda x: pnp.where(x > 0, x**3, -x), pb.nn.silu, lambda x: pnp.logaddexp(x, 0.0)):
        assert (half * twice(function)).dtype == (half * pb.jit(twice, static_argnums=0)(function)).dtype == half.dtype


def test_a_linear_function_is_a_container_of_what_it_keeps() -> None:
    f = lambda x: {"y": pnp.sin(x["a"]) * x["n"]}  # noqa: E731
    value, push = pb.jit(lambda x: pb.linearize(f, x))({"a": 0.0, "n": 3})
    assert float(value["y"]) == 0.0 and float(push({"a": 2.0, "n": None})["y"]) == 6.0
    kept = pb.tree.leaves(push)
    assert kept and all(isinstance(leaf, pb.Array) for leaf in kept)
    doubled = pb.tree.map(lambda leaf: 2 * leaf, push)
    assert float(doubled({"a": 2.0, "n": None})["y"]) in (12.0, 24.0)  # what it keeps may be one factor or two
    with pytest.raises(pb.errors.StructureError):
        push({"a": 2.0})
    assert float(pb.lax.scan(lambda push, t: (push, push(t)), pb.linearize(pnp.sin, 0.0)[1], pnp.ones(2))[1][1]) == 1.0
    assert float(pb.lax.scan(lambda pull, t: (pull, pull(t)[0]), pb.vjp(pnp.sin, 0.0)[1], pnp.ones(2))[1][1]) == 1.0
    with_numbers = pb.tree.map(lambda leaf: 2.0, pb.vjp(pnp.sin, 0.0)[1])
    assert pb.tree.leaves(with_numbers) == [2.0] and float(with_numbers(1.0)[0]) == 2.0
