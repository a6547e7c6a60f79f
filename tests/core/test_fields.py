"""What is known of an operation is a field of its primitive, found by identity, never by a name."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.control.checkpoint import Dots
from pullback.core.fields import FIELDS
from pullback.core.primitive import Primitive
from pullback.ops.contract import dot_general
from pullback.program.cost import Cost, cost
from pullback.testing import check_primitive
from pullback.transforms.simplify import simplify

ARCHITECTURE = pathlib.Path(__file__).parents[2] / "docs" / "architecture.md"
X = np.array([1.0, 2.0, 3.0], "float32")


def field_table() -> str:
    """The table of fields, as docs/architecture.md shows it."""
    rows = [
        f"| `{name}` | {field.text} | {'rule' if field.rule else f'`{field.default!r}`'} | {field.instead.rstrip(',')} |"
        for name, field in FIELDS.items()
    ]
    return "\n".join(["| Field | What it is | Default | What else would do |", "|---|---|---|---|", *rows]).replace(
        "| |", "| |"
    )


def test_a_field_is_no_attribute_of_the_class_which_would_slow_its_reading() -> None:
    assert not any(hasattr(Primitive, name) for name in FIELDS)


def test_the_documented_table_is_that_of_the_code() -> None:
    assert field_table() in ARCHITECTURE.read_text(), "write field_table() into docs/architecture.md"


def test_each_rule_has_its_decorator() -> None:
    for name, field in FIELDS.items():
        if field.rule:
            decorator = getattr(Primitive, f"def_{name}")
            assert field.text in decorator.__doc__ or name == "lower"


MODULE = '''
import numpy as np
from pullback.core.primitive import primitive
from pullback.ops.pointwise import Elementwise


@primitive
class {name}(Elementwise):
    """x / 2 where it is even, whatever it is called."""

    kinds = "f"
    linear = True
    cost = 7

    def evaluate(x):
        return x * x.dtype.type(0.5)

    def lower(write, x):
        return write.elementwise("stablehlo.multiply", x, write.constant(0.5, x.type))

    def transpose(cotangent, x):
        return ({name}(cotangent),)

    def simplify(equation, known):
        inner = known.maker(equation.inputs[0], {name})
        inner = inner and known.maker(inner.inputs[0], {name})
        return inner and inner.inputs[0]  # not what halving four times is, so that it is seen

    def samples(rng):
        yield (rng.normal(size=(2, 3)),), {{}}
        yield (rng.normal(),), {{}}
'''
# Names that some transformation might take for its own: those of our operations with facts of their own.
TAKEN = [
    "reshape",
    "neg",
    "transpose",
    "convert_element_type",
    "mul",
    "div",
    "broadcast_in_dim",
    "exp",
    "dot_general",
    "add",
    "call",
]


@pytest.fixture
def operation(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Any:
    """An operation that halves, in a module of its own: one class body is all there is of it."""
    file = tmp_path / "theirs.py"
    file.write_text(MODULE.format(name=request.param))
    spec = importlib.util.spec_from_file_location("theirs", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, request.param)


@pytest.mark.parametrize("operation", ["halve", *TAKEN], indirect=True)
def test_one_class_body_is_seen_everywhere(operation: Any) -> None:
    def twice(x: Any) -> Any:
        return operation(operation(x))

    matrix = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(pb.jit(twice)(matrix), matrix / 4)
    np.testing.assert_array_equal(pb.jit(lambda x: pb.lax.reshape(operation(x), (6,)))(matrix), np.full(6, 0.5))
    np.testing.assert_array_equal(pb.grad(lambda x: pnp.sum(twice(x) * x))(X), X / 2)
    np.testing.assert_array_equal(pb.jit(pb.grad(lambda x: pnp.sum(twice(x) * x)))(X), X / 2)
    np.testing.assert_array_equal(pb.vmap(twice)(matrix), matrix / 4)
    np.testing.assert_array_equal(pb.jet(twice, (X,), ([X, X],))[1][1], X / 4)
    np.testing.assert_array_equal(pb.checkpoint(twice)(X), X / 4)
    np.testing.assert_array_equal(pb.grad(pb.checkpoint(lambda x: pnp.sum(pnp.sin(twice(x)))))(X), np.cos(X / 4) / 4)
    np.testing.assert_allclose(pb.sparse.jacobian(twice)(X).todense(), np.eye(3) / 4)
    with pytest.raises(pb.errors.GradientError, match="does not depend on the tangents"):
        f = pb.custom_jvp(lambda x: x)
        f.defjvp(lambda p, t: (p[0], operation(p[0])))
        pb.jit(pb.grad(lambda x: pnp.sum(f(x))))(X)

    assert cost(pb.xpr(twice, X)) == Cost(2 * 7 * 3, 4 * 3 * 4, 0, 2 * 7 * 3)
    assert not Dots(True)(operation, pb.ArrayType((2, 2)), dimension_numbers=(((), ()), ((), ())))
    assert Dots(True)(dot_general, pb.ArrayType((2, 2)), dimension_numbers=(((), ()), ((), ())))
    thrice = simplify(pb.xpr(lambda x: operation(twice(x)), X))
    assert (len(thrice.equations), thrice.outputs) == (0, thrice.inputs)  # by its own rule, which is wrong
    operation.define("simplify", None)
    check_primitive(operation)


def test_a_parameter_called_axis_name_is_a_parameter() -> None:
    def result_type(x: Any, *, axis_name: str) -> Any:
        return x

    labelled = pb.Primitive("labelled", evaluate=lambda x, *, axis_name: x + len(axis_name), result_type=result_type)
    labelled.define("lower", lambda write, x, *, axis_name: write.elementwise("stablehlo.add", x, write.constant(3, x.type)))
    labelled.define("linear", False)
    labelled.define("jvp", lambda primals, tangents, *, axis_name: (labelled(*primals, axis_name=axis_name), tangents[0]))
    labelled.define("vectorize", lambda size, args, axes, *, axis_name: (labelled(*args, axis_name=axis_name), 0))

    def f(x: Any) -> Any:
        return labelled(x, axis_name="row")

    for mode in (
        f,
        pb.jit(f),
        pb.vmap(f),
        pb.jit(pb.vmap(f)),
        pb.vmap(pb.jit(f)),
        pb.checkpoint(f),
        pb.vmap(f, axis_name="row"),
    ):
        np.testing.assert_array_equal(mode(X), X + 3)
    np.testing.assert_array_equal(pb.jit(pb.grad(lambda x: pnp.sum(f(x))))(X), np.ones(3))
    assert pb.xpr(f, X).axis_names == frozenset()
    np.testing.assert_allclose(pb.sparse.jacobian(f)(X).todense(), np.eye(3))


# ---- products with one ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "equations"),
    [
        (lambda x: x * 1.0, 0),
        (lambda x: 1.0 * x, 0),
        (lambda x: x / 1.0, 0),
        (lambda x: x * pnp.ones(3, "float32"), 0),
        (lambda x: pnp.sin(x) * pnp.ones((2, 3), "float32")[0] * 1, None),
        (lambda x: pnp.broadcast_to(pnp.broadcast_to(x, (2, 3)), (4, 2, 3)), 1),
        (lambda x: 1.0 / x, 1),
        (lambda x: x * 0.0, 1),  # NaN and infinity times zero are not zero
        (lambda x: x + 0.0, 1),  # -0.0 + 0.0 is 0.0
        (lambda x: x * -1.0, 1),
    ],
)
def test_products_with_one(f: Any, equations: int | None) -> None:
    program = pb.xpr(f, X)
    made = simplify(program)
    if equations is not None:
        assert len(made.equations) == equations
    for x in (X, np.array([np.nan, -0.0, np.inf], "float32")):
        np.testing.assert_array_equal(np.asarray(made(x)).view("uint32"), np.asarray(f(pnp.asarray(x))).view("uint32"))


def test_a_gradient_has_no_products_with_its_first_cotangent() -> None:
    def f(x: Any) -> Any:
        return pnp.sum(x * pnp.sin(x))

    for transformed, x in ((pb.grad(f), X), (pb.vmap(pb.grad(f)), np.stack([X, X])), (pb.grad(lambda x: x * pnp.sin(x)), X[0])):
        names = [equation.primitive.name for equation in pb.xpr(transformed, x).equations]
        assert sorted(names) == ["add", "cos", "mul", "sin"]
        np.testing.assert_allclose(pb.jit(transformed)(x), transformed(x), rtol=1e-6)


def test_an_eager_gradient_is_an_array_of_its_own() -> None:
    y = pnp.asarray(X)
    assert pb.grad(lambda x: pnp.sum(x * y))(X) is not y
    assert pb.vmap(pb.grad(lambda x, y: x * y), (0, 0))(X, y) is not y
