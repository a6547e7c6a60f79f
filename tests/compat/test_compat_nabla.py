"""A program written for Nabla runs here: the same calls in the same order, only the import reads differently."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pullback.compat.nabla as nb

VARIABLE = r"[a-z]+:f32\[{sizes}\]:cpu\(0\)"


def doubled_square(values):
    return nb.sum(values * 2 * values, axes=0)


@pytest.fixture
def values():
    nb.manual_seed(0)
    return nb.randn((5,))


@pytest.fixture
def batch():
    nb.manual_seed(1)
    return nb.randn((3, 5))


def typed_lines(text: str) -> list[str]:
    """The equations of a printed Program."""
    lines = text.split("\n")
    assert lines[1] == "  let"
    return [line.strip() for line in lines[2:-1]]


# ---- the notebook, cell by cell -----------------------------------------------------------------------------------------


def test_the_functions_program_and_value(values) -> None:
    text = f"{nb.xpr(doubled_square, values)}"
    assert text.startswith("{ lambda (a:f32[5]:cpu(0)) ;\n")
    equations = typed_lines(text)
    assert [re.search(r"= (\w+)", line)[1] for line in equations] == ["mul", "mul", "reduce_sum"]
    for line, sizes in zip(equations, ["5", "5", ""], strict=True):
        assert re.match(VARIABLE.format(sizes=sizes) + " = ", line)
    last = equations[-1].split(":")[0]
    assert text.endswith(f"  in {last} }}")

    printed = f"{doubled_square(values)}"
    number, place = printed.split(":", 1)
    assert place == "f32[]:cpu(0)"
    np.testing.assert_allclose(float(number), 2 * np.sum(np.asarray(values) ** 2), rtol=1e-5)


def test_the_gradient(values) -> None:
    gradient = nb.grad(doubled_square)
    text = str(nb.xpr(gradient, values))
    assert text.startswith("{ lambda (a:f32[5]:cpu(0)) ;\n")
    assert "mul" in text and re.match(VARIABLE.format(sizes="5"), typed_lines(text)[-1])
    found = gradient(values)
    np.testing.assert_allclose(np.asarray(found), 4 * np.asarray(values), rtol=1e-6)
    assert str(found).endswith("]:f32[5]:cpu(0)")


def test_the_batched_gradient(batch) -> None:
    batched = nb.vmap(nb.grad(doubled_square), in_axes=0)
    text = str(nb.xpr(batched, batch))
    assert text.startswith("{ lambda (a:f32[3,5]:cpu(0)) ;\n")
    assert re.match(VARIABLE.format(sizes="3,5"), typed_lines(text)[-1])
    found = batched(batch)
    np.testing.assert_allclose(np.asarray(found), 4 * np.asarray(batch), rtol=1e-6)
    assert str(found).startswith("[[") and str(found).endswith("]]:f32[3,5]:cpu(0)")


def test_the_compiled_batched_gradient_prints_its_graph(batch, capsys: pytest.CaptureFixture[str]) -> None:
    compiled = nb.jit(nb.vmap(nb.grad(doubled_square)), show_graph=True)
    found = compiled(batch)
    graph = capsys.readouterr().out
    assert "stablehlo.multiply" in graph and "tensor<3x5xf32>" in graph and "HloModule" in graph
    np.testing.assert_allclose(np.asarray(found), np.asarray(nb.vmap(nb.grad(doubled_square))(batch)), rtol=1e-6)
    compiled(batch)
    assert capsys.readouterr().out == ""  # printed when compiled, not when called


# ---- Nabla's conventions ------------------------------------------------------------------------------------------------

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 10 - 1

SAME_AS_NUMPY = {
    "sum": (lambda x: nb.sum(x), lambda x: x.sum()),
    "sum over axes": (lambda x: nb.sum(x, axes=[0, -1]), lambda x: x.sum((0, -1))),
    "sum, axes kept": (lambda x: nb.sum(x, axes=1, keep_dims=True), lambda x: x.sum(1, keepdims=True)),
    "mean": (lambda x: nb.mean(x, axes=(1, 2), keep_dims=True), lambda x: x.mean((1, 2), keepdims=True)),
    "max": (lambda x: nb.max(x, axes=-1), lambda x: x.max(-1)),
    "argmax": (lambda x: nb.argmax(x, axes=1), lambda x: x.argmax(1)),
    "logsumexp": (lambda x: nb.logsumexp(x, axis=1), lambda x: np.log(np.exp(x).sum(1))),
    "logsumexp of all": (lambda x: nb.logsumexp(x, keep_dims=True), lambda x: np.log(np.exp(x).sum(keepdims=True))),
    "softmax": (lambda x: nb.softmax(x), lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "relu": (lambda x: nb.relu(x), lambda x: np.maximum(x, 0)),
    "sigmoid": (lambda x: nb.sigmoid(x), lambda x: 1 / (1 + np.exp(-x))),
    "tanh": (lambda x: nb.tanh(x), np.tanh),
    "sin": (lambda x: nb.sin(x), np.sin),
    "cos": (lambda x: nb.cos(x), np.cos),
    "exp and log": (lambda x: nb.log(nb.exp(x)), lambda x: x),
    "sqrt and abs": (lambda x: nb.sqrt(nb.abs(x)), lambda x: np.sqrt(np.abs(x))),
    "arithmetic": (lambda x: nb.add(nb.mul(x, 2), nb.sub(x, nb.div(x, 4))), lambda x: 2 * x + x - x / 4),
    "pow": (lambda x: nb.pow(x, 2), lambda x: x**2),
    "negate": (lambda x: nb.negate(x), lambda x: -x),
    "where": (lambda x: nb.where(nb.greater_equal(x, 0), x, 5), lambda x: np.where(x >= 0, x, 5)),
    "transpose": (lambda x: nb.transpose(x), lambda x: x.swapaxes(-2, -1)),
    "transpose of two axes": (lambda x: nb.transpose(x, 0, 2), lambda x: x.swapaxes(0, 2)),
    "permute": (lambda x: nb.permute(x, (2, 0, 1)), lambda x: x.transpose(2, 0, 1)),
    "unsqueeze": (lambda x: nb.unsqueeze(x, [0, -1]), lambda x: x[None, ..., None]),
    "squeeze": (lambda x: nb.squeeze(nb.unsqueeze(x, [1]), [1]), lambda x: x),
    "unsqueeze nothing": (lambda x: nb.squeeze(nb.unsqueeze(x)), lambda x: x),
    "reshape": (lambda x: nb.reshape(x, (6, 4)), lambda x: x.reshape(6, 4)),
    "broadcast_to": (lambda x: nb.broadcast_to(x, (5, 2, 3, 4)), lambda x: np.broadcast_to(x, (5, 2, 3, 4))),
    "concatenate": (lambda x: nb.concatenate([x, x], axis=1), lambda x: np.concatenate([x, x], 1)),
    "stack": (lambda x: nb.stack([x, x], axis=-1), lambda x: np.stack([x, x], -1)),
    "split": (lambda x: nb.split(x, [1, 2], axis=1)[1], lambda x: x[:, 1:]),
    "matmul": (lambda x: nb.matmul(x, nb.transpose(x)), lambda x: x @ x.swapaxes(-2, -1)),
    "cast": (lambda x: nb.cast(x, nb.DType.int32), lambda x: x.astype(np.int32)),
    "zeros_like and ones_like": (lambda x: nb.ones_like(x) - nb.zeros_like(x), np.ones_like),
    "triu": (lambda x: nb.triu(x), np.triu),
}


@pytest.mark.parametrize("case", SAME_AS_NUMPY)
def test_functions(case: str) -> None:
    ours, numpys = SAME_AS_NUMPY[case]
    wanted = numpys(X)
    for found in (ours(nb.array(X)), nb.jit(ours)(nb.array(X))):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=2e-5, atol=1e-6)


def test_new_arrays() -> None:
    assert str(nb.arange(3)) == "[0. 1. 2.]:f32[3]:cpu(0)"
    assert str(nb.arange(1, 7, 2)) == "[1. 3. 5.]:f32[3]:cpu(0)"
    assert str(nb.tensor([1, 2])) == "[1. 2.]:f32[2]:cpu(0)"
    assert str(nb.array([1, 2], dtype=nb.DType.int32)) == "[1 2]:i32[2]:cpu(0)"
    assert str(nb.ndarange((2, 2))).endswith("f32[2,2]:cpu(0)")
    assert (nb.zeros(2).shape, nb.ones((2, 3)).shape, nb.zeros(()).shape) == ((2,), (2, 3), ())


def test_random_numbers() -> None:
    nb.manual_seed(3)
    first = np.asarray(nb.randn((1000,)))
    assert first.dtype == np.float32 and abs(first.mean()) < 0.15 and abs(first.std() - 1) < 0.1
    assert not np.array_equal(first, np.asarray(nb.randn((1000,))))
    nb.manual_seed(3)
    assert np.array_equal(first, np.asarray(nb.randn((1000,))))
    assert np.array_equal(np.asarray(nb.rand((4,), seed=5)), np.asarray(nb.rand((4,), seed=5)))
    uniform = np.asarray(nb.rand((1000,), lower=2.0, upper=3.0))
    assert uniform.min() >= 2 and uniform.max() <= 3
    assert nb.randn(4).shape == (4,) and nb.randn().shape == () and nb.rand_like(nb.zeros((2, 3))).shape == (2, 3)
    assert abs(float(nb.mean(nb.randn_like(nb.zeros((500,)), mean=7.0, std=0.1))) - 7.0) < 0.1


def test_transformations_and_decorators() -> None:
    @nb.jit
    def square(x):
        return x * x

    @nb.grad
    def slope(x):
        return x * x

    @nb.jit(show_graph=False)
    def cube(x):
        return x * x * x

    assert float(square(3.0)) == 9 and float(slope(3.0)) == 6 and float(cube(2.0)) == 8
    value, gradient = nb.value_and_grad(lambda x, y: x * y, argnums=(0, 1))(2.0, 3.0)
    assert float(value) == 6 and [float(part) for part in gradient] == [3, 2]
    out, pull = nb.vjp(lambda x: x * x, nb.array([1.0, 2.0]))
    np.testing.assert_array_equal(np.asarray(pull(nb.ones_like(out))[0]), [2, 4])
    out, pushed = nb.jvp(square, (nb.array(3.0),), (nb.array(1.0),))
    assert (float(out), float(pushed)) == (9, 6)
    x = nb.array([1.0, 2.0])
    for jacobian in (nb.jacrev, nb.jacfwd):
        np.testing.assert_array_equal(np.asarray(jacobian(lambda x: x * x)(x)), [[2, 0], [0, 4]])
        both = jacobian(lambda x, y: x * y)(x, x)
        assert len(both) == 2
        np.testing.assert_array_equal(np.asarray(jacobian(lambda x, y: x * y, argnums=1)(x, x)), np.asarray(both[1]))
    batched = nb.vmap(in_axes=[0, None])(lambda x, y: x * y)
    np.testing.assert_array_equal(np.asarray(batched(x, 10.0)), [10, 20])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("std", "pb.numpy.std"),
        ("shallow_copy", "arrays are immutable"),
        ("gather", "x[indices]"),
        ("pushfwd", "pb.jvp"),
        ("unsqueze", "Did you mean unsqueeze?"),
        ("no_such_name_at_all", "is not in pullback.compat.nabla."),
    ],
)
def test_unknown_names_say_what_pullback_calls_them(name: str, words: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(words)):
        getattr(nb, name)


def test_trees() -> None:
    tree = {"w": nb.ones((2,)), "b": (nb.zeros(()),)}
    doubled = nb.tree_map(lambda leaf: 2 * leaf, tree)
    assert str(doubled["w"]) == "[2. 2.]:f32[2]:cpu(0)"
    leaves, structure = nb.tree_flatten(tree)
    assert len(leaves) == 2 and set(nb.tree_unflatten(structure, leaves)) == {"w", "b"}
