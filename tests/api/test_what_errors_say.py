"""Errors name the transformation that was called, the argument, the line, and a cure that this transformation has."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.errors import AxisError, ConcretizationError, GradientError, StaticArgumentError, StructureError

X = np.ones(3, np.float32)
DIFFERENTIATE: dict[str, Callable[..., Any]] = {
    "grad": pb.grad,
    "value_and_grad": pb.value_and_grad,
    "jacfwd": pb.jacfwd,
    "jacrev": pb.jacrev,
    "hessian": pb.hessian,
    "sparse.jacobian": pb.sparse.jacobian,
    "sparse.hessian": pb.sparse.hessian,
}


def product(x: Any, y: Any = 1.0) -> Any:
    return pnp.sum(x * y)


@pytest.mark.parametrize("name", DIFFERENTIATE)
def test_arguments_to_differentiate_are_passed_by_position(name: str) -> None:
    transform = DIFFERENTIATE[name]
    says = rf"^{re.escape(name)} of product .* has argnums={{}}, but {{}}.* At {re.escape(__file__)}:"
    by_name = "argument {} was passed by name: pass it by position"
    none = "there is no argument {} among the {} that were passed by position"
    for call, argnums, why in [
        (lambda: transform(product)(x=X), 0, by_name.format("x")),
        (lambda: transform(product, argnums=1)(X, y=X), 1, by_name.format("y")),
        (lambda: transform(product, argnums=-1)(x=X, y=X), -1, by_name.format("y")),
        (lambda: transform(product, argnums=1)(X), 1, none.format(1, 1)),
        (lambda: transform(product, argnums=-3)(X, X), -3, none.format(-3, 2)),
        (lambda: transform(product)(), 0, none.format(0, 0)),
    ]:
        with pytest.raises(GradientError, match=says.format(argnums, why)) as caught:
            call()
        assert isinstance(caught.value, TypeError)  # as JAX has it


def test_other_transformations_of_arguments_that_are_not_there() -> None:
    with pytest.raises(GradientError, match=r"nth_derivative of product .* argument x was passed by name"):
        pb.nth_derivative(product, 2)(x=1.0)
    with pytest.raises(ValueError, match="nth_derivative takes a whole number n of at least 0, but got -1"):
        pb.nth_derivative(product, -1)
    with pytest.raises(StaticArgumentError, match="checkpoint's static_argnums names argument 3, but product"):
        pb.checkpoint(product, static_argnums=3)
    with pytest.raises(StructureError, match=r"by position is 0.* by name is batched along axis 0"):
        pb.vmap(product, in_axes=(0,))(x=X)
    assert pb.vmap(product)(x=X).shape == (3,)


def test_axes_by_name_are_those_of_parameters() -> None:
    def f(x: Any, *rest: Any, scale: Any) -> Any:
        return x * scale

    assert pb.vmap(f, in_axes={"x": 0, "scale": 0})(X, scale=X).shape == (3,)
    for name in ("rest", "scaled"):  # the second was accepted in silence, and not batched
        with pytest.raises(AxisError, match=f"in_axes names '{name}', but .* has the parameters x, scale"):
            pb.vmap(f, in_axes={"x": 0, name: 0})


def test_static_arguments_of_checkpoint_may_be_left_out() -> None:
    def power(x: Any, n: int = 3) -> Any:
        assert isinstance(n, int)
        return x**n

    for number in (1, -1):
        kept = pb.checkpoint(power, static_argnums=number)
        assert float(pb.grad(kept)(2.0)) == 12.0 and float(pb.grad(kept)(2.0, 2)) == 4.0


# What each has of a function that returns an array, a pair, integers, or takes integers, complex numbers; or too many tangents.
REFUSED: dict[str, Callable[[], Any]] = {
    "grad needs a function with a 0-d output": lambda: pb.grad(lambda x: x)(X),
    "value_and_grad needs a function with a 0-d output": lambda: pb.value_and_grad(lambda x: x)(X),
    "value_and_grad needs real floating-point outputs": lambda: pb.value_and_grad(lambda x: 1)(X),
    "hvp needs a function with a 0-d output": lambda: pb.hvp(lambda x: x, (X,), (X,)),
    "hvp needs a function with one 0-d output": lambda: pb.hvp(lambda x: (x, x), (X,), (X,)),
    "hvp takes as many tangents as primals, but got 2 for 1": lambda: pb.hvp(product, (X,), (X, X)),
    "hvp takes tangents like the primals, but tangents[0] is a tuple where primals[0] has a leaf.": lambda: pb.hvp(
        product, (X,), ((X, X),)
    ),
    "linearize takes as many tangents as primals, but got 2 for 1": lambda: pb.linearize(product, X)[1](X, X),
    "linearize takes tangents like the primals, but tangents[0] is a tuple where primals[0] has a leaf.": lambda: pb.linearize(
        product, X
    )[1]((X, X)),
    "hessian needs real floating-point outputs": lambda: pb.hessian(lambda x: pnp.astype(x, "int32"))(X),
    "hessian needs real arguments": lambda: pb.hessian(product)(1j * X),
    "hessian was asked for the derivative with respect to argument x": lambda: pb.hessian(product)(np.arange(3)),
    "hessian with has_aux=True needs a function that returns a pair": lambda: pb.hessian(product, has_aux=True)(X),
    "hessian's has_aux must be True or False": lambda: pb.hessian(product, has_aux="no"),  # type: ignore[arg-type]
    "hessian with holomorphic=True needs complex arguments": lambda: pb.hessian(product, holomorphic=True)(X),
    "sparse.hessian needs a function with a 0-d output": lambda: pb.sparse.hessian(lambda x: x)(X),
    "sparse.hessian needs a function with one 0-d output": lambda: pb.sparse.hessian(lambda x: (x, x))(X),
    "sparse.hessian_pattern needs a function with a 0-d output": lambda: pb.sparse.hessian_pattern(lambda x: x, X),
    "sparse.hessian takes a function": lambda: pb.sparse.hessian(3),  # type: ignore[arg-type]
    "sparse.hessian_pattern takes a function": lambda: pb.sparse.hessian_pattern(3, X),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("says", REFUSED)
def test_errors_name_the_transformation_that_was_called(says: str) -> None:
    with pytest.raises((TypeError, pb.errors.PullbackError), match="^" + re.escape(says)):
        REFUSED[says]()


def test_only_options_that_there_are_get_advised() -> None:
    for transform in (pb.hessian, pb.jacfwd):
        with pytest.raises(GradientError) as caught:
            transform(product)(np.arange(3))
        assert "allow_int" not in str(caught.value)
    with pytest.raises(GradientError, match="allow_int=True"):
        pb.jacrev(product)(np.arange(3))


STATIC, CHECKPOINT, BATCH = r"static \(static_argnums in pb.jit\)", "in pb.checkpoint", "None in vmap's in_axes"
CLOSURE = "what the function closes over"
CURES = (STATIC, CHECKPOINT, BATCH, CLOSURE)
# What Python does with a traced value, and in what: the cures that apply there, and no others.
NEEDED: dict[str, Callable[[Any], Any]] = {
    "if": lambda x: 1.0 if x else 2.0,
    "comparison": lambda x: 1.0 if x > 0 else 2.0,
    "int": lambda x: int(x) * 1.0,
    "size": lambda x: pnp.zeros(pnp.astype(x, "int32")).sum(),
    "range": lambda x: sum([1.0 for _ in range(pnp.astype(x, "int32"))]),
    "index": lambda x: [1.0, 2.0][pnp.astype(x, "int32")],
    "axis": lambda x: pnp.sum(X, axis=pnp.astype(x, "int32")),
}
AROUND: dict[str, tuple[Callable[[Any], Any], set[str]]] = {
    "jit": (lambda f: pb.jit(f)(1.0), {STATIC}),
    "jit of grad": (lambda f: pb.jit(pb.grad(f))(1.0), {STATIC}),
    "vmap": (lambda f: pb.vmap(f)(X), {BATCH}),
    "vmap of grad": (lambda f: pb.vmap(pb.grad(f))(X), {BATCH}),
    "grad of vmap": (lambda f: pb.grad(lambda x: pb.vmap(f)(x).sum())(X), {BATCH}),
    "jvp of vmap": (lambda f: pb.jvp(pb.vmap(f), (X,), (X,)), {BATCH}),
    "vmap of jit": (lambda f: pb.vmap(pb.jit(f))(X), {STATIC}),
    "jit of vmap": (lambda f: pb.jit(pb.vmap(f))(X), {STATIC, BATCH}),
    "checkpoint": (lambda f: pb.checkpoint(f)(1.0), {CHECKPOINT}),
    "scan": (lambda f: pb.lax.scan(lambda c, x: (c, f(x)), 0.0, X), {CLOSURE}),
    "cond": (lambda f: pb.lax.cond(True, f, f, 1.0), {CLOSURE}),
    "xpr": (lambda f: pb.xpr(f, 1.0), {CLOSURE}),
    "linear_transpose": (lambda f: pb.linear_transpose(f, 1.0)(1.0), {CLOSURE}),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("needed", NEEDED)
def test_the_cure_for_a_value_that_is_not_known_is_one_of_the_transformation(around: str, needed: str) -> None:
    transform, cures = AROUND[around]
    with pytest.raises((ConcretizationError, AxisError)) as caught:
        transform(NEEDED[needed])
    assert {cure for cure in CURES if re.search(cure, str(caught.value))} == cures
    assert f"{__file__}:" in str(caught.value)


def nonlinear(x: Any) -> Any:
    y = 2.0 * x
    return y * y  # the line


def divided(x: Any) -> Any:
    return 1.0 / x  # the line


def contracted(x: Any) -> Any:
    return pnp.dot(x, x)  # the line


squared = pb.custom_jvp(lambda x: x)
squared.defjvp(lambda primals, tangents: (*primals, tangents[0] * tangents[0]))  # the line


@pytest.mark.parametrize(
    "call",
    [
        *[lambda f=f, wrap=wrap: pb.linear_transpose(wrap(f), X)(np.ones(f(X).shape, np.float32))
          for f in (nonlinear, divided, contracted) for wrap in (lambda f: f, pb.jit)],
        lambda: pb.grad(squared)(1.0),
    ],
)  # fmt: skip
def test_what_is_not_linear_is_named_with_its_line(call: Callable[[], Any]) -> None:
    with pytest.raises(GradientError, match=r"linear.* At .*# the line"):
        call()


def returns_nothing(x: Any) -> None:
    x * 2.0


def stored(x: Any) -> None:
    x.at[0] = 1.0


def added(x: Any) -> None:
    x.at[0] += 1.0


def raised(x: Any) -> None:
    x.at[0] **= 2.0


def deleted(x: Any) -> None:
    del x[0]


MISUSES: dict[Callable[[Any], Any], str] = {
    lambda x: (
        x + returns_nothing(x)
    ): r"An operator takes .* an operand is None .* without a return gives None: is one missing\?",  # type: ignore[func-returns-value]
    lambda x: returns_nothing(x) * x: "without a return gives None",  # type: ignore[func-returns-value]
    lambda x: x < None: "without a return gives None",
    lambda x: pnp.sin(returns_nothing(x)): "sin takes .* without a return gives None",  # type: ignore[func-returns-value]
    stored: r"immutable: x\.at\[i\] = y cannot be done in place\. Write x = x\.at\[i\]\.set\(y\)\.",
    added: r"Write x = x\.at\[i\]\.add\(y\)\.",
    raised: r"Write x = x\.at\[i\]\.power\(y\)\.",
    deleted: r"immutable: del x\[0\] cannot be done in place\.",
}


@pytest.mark.parametrize("transform", [lambda f: f, pb.jit, pb.vmap, pb.jacrev, pb.jacfwd])
@pytest.mark.parametrize("function", MISUSES)
def test_what_cannot_be_done_with_an_array_is_said_with_the_cure(function: Callable[[Any], Any], transform: Any) -> None:
    with pytest.raises(TypeError, match=MISUSES[function]) as caught:
        transform(function)(pnp.ones((3, 3)))
    assert f" At {__file__}:" in str(caught.value)


@pytest.mark.parametrize("transform", [pb.jit, pb.vmap, pb.jacrev, pb.jacfwd, lambda f: lambda x: pb.jet(f, (x,), ((x,),))])
def test_pythons_own_errors_call_a_traced_value_a_tracer(transform: Any) -> None:
    for function, error in [(lambda x: x + "text", TypeError), (lambda x: x.cumulated(), AttributeError)]:
        with pytest.raises(error, match="'Tracer'"):
            transform(function)(X)
    assert transform(lambda x: x * (1.0 if (x == None) is False else 2.0)) is not None  # noqa: E711


def test_the_function_from_vjp_takes_one_cotangent() -> None:
    _, f_vjp = pb.vjp(lambda x: (x, x), 1.0)
    says = r"of .*<lambda> .* takes one cotangent, a tree like the output"
    for call in [lambda: f_vjp(1.0, 1.0), lambda: f_vjp(), lambda: pb.linear_transpose(lambda x: (x, x), 1.0)(1.0, 1.0)]:
        with pytest.raises(TypeError, match=says):
            call()
    assert float(f_vjp(cotangent=(1.0, 1.0))[0]) == 2.0


def test_kinds_of_a_primitive_are_letters() -> None:
    with pytest.raises(ValueError, match=r"kinds of primitive 'double' must be letters among 'biufc' .*, but are 'float'"):
        pb.Primitive("double", evaluate=lambda x: 2 * x, kinds="float")


square = pb.Primitive("square", evaluate=lambda x: x * x, result_type=lambda x: x, lower=lambda write, x: x)
square.def_jvp(lambda primals, tangents: (square(*primals), tangents[0] * tangents[0]))
pushed = pb.Primitive("pushed", evaluate=lambda x: x * x, result_type=lambda x: x, lower=lambda write, x: x)
pushed.def_linearize(lambda primals, active: (pushed(*primals), lambda tangent: tangent * tangent))


@pytest.mark.parametrize(
    "around", [lambda f: f, pb.jit, pb.checkpoint, lambda f: lambda x: pb.lax.fori_loop(0, 2, lambda _, c: f(c), x)]
)
@pytest.mark.parametrize(("primitive", "rule"), [(square, "jvp"), (pushed, "linearize")])
def test_a_rule_of_a_primitive_that_is_not_linear_is_named(around: Any, primitive: Any, rule: str) -> None:
    for call in (lambda: pb.grad(around(primitive))(1.0), lambda: pb.jit(pb.grad(around(primitive)))(1.0)):
        with pytest.raises(
            GradientError, match=f"The {rule} rule of primitive '{primitive.name}' must be linear .* applies 'mul'"
        ):
            call()


# Functions of ours that users hand to ours: no line of ours is shown.
OURS: dict[str, Callable[[], Any]] = {
    "sin": lambda: pb.grad(pnp.sin)(X),
    "Compiled": lambda: pb.vmap(pb.jit(lambda x: x).lower(1.0).compile(), in_axes=(0, 0))(X),
    "function sin": lambda: pb.custom_jvp(pnp.sin)(X),
    "square": lambda: pb.grad(square)(X),
}


@pytest.mark.parametrize("named", OURS)
def test_no_line_of_ours_is_shown_as_if_it_were_the_users(named: str) -> None:
    with pytest.raises(pb.errors.PullbackError, match=rf"{named} (?!\()") as caught:
        OURS[named]()
    assert "/pullback/" not in str(caught.value).replace(__file__, "")


def with_text(x: Any) -> Any:
    return {"value": x, "text": "hey"}


# Where what a user's function returns is looked at; each names the function, and the place in what it returned.
RETURNED: dict[str, Callable[[], Any]] = {
    "jit": lambda: pb.jit(with_text)(X),
    "grad": lambda: pb.grad(with_text)(1.0),
    "jvp": lambda: pb.jvp(with_text, (X,), (X,)),
    "vmap": lambda: pb.vmap(with_text)(X),
    "linear_transpose": lambda: pb.linear_transpose(with_text, X)(X),
    "eval_shape": lambda: pb.eval_shape(with_text, X),
    "cond": lambda: pb.lax.cond(True, with_text, with_text, X),
    "checkpoint": lambda: pb.checkpoint(with_text)(X),
    "odeint": lambda: pb.odeint(lambda y, t: with_text(y), {"value": 1.0}, X),
}


@pytest.mark.parametrize("call", RETURNED)
def test_what_is_no_array_is_left_out_of_what_is_returned(call: str) -> None:
    with pytest.raises(pb.errors.LeafError, match=r"returned: output\['text'\] is 'hey' of type str") as caught:
        RETURNED[call]()
    said = str(caught.value)
    assert "leave it out of what is returned" in said and "static" not in said and f" At {__file__}:" in said


def test_arguments_that_are_no_arrays_are_named_with_the_line() -> None:
    for call in (lambda: pb.jit(product)("text"), lambda: pb.grad(product)("text"), lambda: pb.xpr(product, "text")):
        with pytest.raises(pb.errors.LeafError, match=rf"argument x is 'text' .*static_argnums.* At {re.escape(__file__)}:"):
            call()
    with pytest.raises(pb.errors.LeafError, match=r"odeint's args\[0\] is 'text'"):
        pb.odeint(lambda y, t, a: y, 1.0, X, "text")
    with pytest.raises(pb.errors.LeafError, match=r"operands\[0\]\['a'\] is 'text'"):
        pb.lax.cond(True, lambda p: 1.0, lambda p: 1.0, {"a": "text"})


def second(n: Any, x: Any) -> Any:
    return x


def of_rules(*, jvp: Any = None, fwd: Any = None, bwd: Any = None) -> Any:
    f = (pb.custom_jvp if jvp else pb.custom_vjp)(second, nondiff_argnums=(0,))
    f.defjvp(jvp) if jvp else f.defvjp(fwd or (lambda n, x: (x, None)), bwd or (lambda n, kept, ct: (ct,)))
    return pb.grad(lambda x: f(2, x))(1.0)


def failing(n: Any, primals: Any, tangents: Any) -> Any:
    raise TypeError("of the user's own")


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        (
            {"jvp": lambda p, t: (p[0], t[0])},
            r"The jvp rule of second .* is called as rule\(\*nondiff, primals, tangents\): here with 3",
        ),
        ({"fwd": lambda x: (x, None)}, r"\(fwd\) of second .* is called as fwd\(\*arguments\).*: here with 2"),
        (
            {"bwd": lambda kept, ct: (ct,)},
            r"\(bwd\) of second .* is called as bwd\(\*nondiff, residuals, cotangent\): here with 3",
        ),
        ({"jvp": failing}, "^of the user's own$"),
        ({"fwd": lambda n, x: (x, "text")}, r"returned: residuals is 'text' of .* leave it out of what is returned"),
        ({"fwd": lambda n, x: (x, ("text",))}, r"returned: residuals\[0\] is 'text' of"),
    ],
)
def test_how_rules_are_called(rules: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        of_rules(**rules)


def test_what_is_returned_in_place_of_a_pair_is_shown_by_its_types() -> None:
    for function, says in [
        (lambda x: (x, x, x), r"(?m)returned \(~f32\[\], ~f32\[\], ~f32\[\]\)\.$"),
        (lambda x: None, r"(?m)returned None\.$"),
    ]:
        with pytest.raises(StructureError, match=says):
            pb.grad(function, has_aux=True)(1.0)
    with pytest.raises(StructureError, match=r"(?m)\.\.\. of type tuple with 40 elements\.$"):
        pb.grad(lambda x: (x,) * 40, has_aux=True)(1.0)


def test_the_static_argument_for_which_nothing_was_compiled() -> None:
    compiled = pb.jit(lambda x, n, m=(1, 2.0): x * n, static_argnums=(1, 2)).lower(1.0, 3).compile()
    for args, says in [
        ((5,), "n is 5, and was 3"),
        ((3.5,), "n is 3.5, and was 3"),
        ((3, (1, 0.5)), r"m is \(1, 0.5\), and was missing"),
    ]:
        with pytest.raises(StaticArgumentError, match=f"was compiled for other static arguments: {says}\\."):
            compiled(1.0, *args)


@pytest.mark.parametrize(
    ("format", "value", "says"),
    [
        ("{:.3d}", 1.0, "does not fit its values: Unknown format code 'd'"),
        ("{:.3f}", X, r"does not fit its values: .*\. An array is printed by {} alone\.$"),
        ("{x", X, r"cannot be read: .*\. Write {{ and }} for braces\.$"),
    ],
)
def test_formats_that_do_not_fit(format: str, value: Any, says: str) -> None:
    for transform in (lambda f: f, pb.jit):
        with pytest.raises((ValueError, TypeError), match=f"debug.print's format {re.escape(repr(format))} {says}"):
            transform(lambda x: pb.debug.print(format, x))(value)


def test_an_argument_that_escaped_is_said_to_be_one() -> None:
    escaped: list[Any] = []
    pb.lax.scan(lambda carry, x: (escaped.append(carry) or carry, x), 1.0, X)  # type: ignore[func-returns-value]
    with pytest.raises(pb.errors.EscapedTracerError, match=r"already returned\. It is argument carry of it\."):
        escaped[0] + 1


@dataclasses.dataclass
class Named:
    w: Any
    name: Any = "net"


@dataclasses.dataclass
class Marked:
    w: Any
    mask: Any = dataclasses.field(metadata={"static": True})


weight_of = pb.jit(lambda p: p.w)
by_number = pb.jit(lambda x, n: x * n, static_argnums=1)
KNOWN = np.arange(3.0)
# Slips around traced values and what is no array, and the cure that is said.
SLIPS: dict[str, tuple[Callable[[], Any], str]] = {
    "static": (
        lambda: pb.jit(lambda n: by_number(X, n))(2),
        r"n of <lambda> .* is static, but is a traced value of jit of .*static_argnums in pb.jit",
    ),
    "static in vmap": (
        lambda: pb.vmap(lambda n: by_number(X, n))(X),
        "is static, but is a traced value of vmap of .*None in vmap's in_axes",
    ),
    "index": (
        lambda: pb.jit(lambda i: KNOWN[i])(1),
        r"of an index, pb.numpy.asarray\(a\)\[i\]",
    ),
    "slice": (lambda: pb.jit(lambda i: KNOWN[i : i + 1])(1), "slice with pb.lax.dynamic_slice_in_dim"),
    "max": (lambda: pb.jit(lambda x: max(x, 0.0))(1.0), "for Python's max, min and `in`, write pb.numpy.maximum"),
    "length": (
        lambda: pb.jit(lambda n: pb.lax.scan(lambda c, _: (c, None), 1.0, None, length=n))(3),
        r"static \(static_argnums in pb.jit\)",
    ),
    "list": (lambda: pnp.array([1.0, [None]]), r"its argument\[1\]\[0\] is None"),
    "generator": (lambda: pnp.array(i for i in range(3)), "Make a list of it first"),
    "type": (lambda: pb.jit(product)(pb.ArrayType((3,), "float32")), r"x is the type f32\[3\], .* jit\(f\).lower take types"),
    "no elements": (lambda: pnp.max(pnp.zeros(0)), "along all axes"),
    "longdouble": (lambda: pnp.asarray(np.zeros(2, np.longdouble)), "float64"),
    "text in a field": (
        lambda: pb.grad(lambda p: p.w)(Named(1.0)),
        r"p.name is 'net' .* mark it as static, if it is a dataclass's",
    ),
    "integer in a field": (
        lambda: pb.grad(lambda p: p.w)(Named(1.0, 3)),
        r"argument p.name, which is ~i32\[\]: .* mark it as static",
    ),
    "text in a dict": (
        lambda: pb.grad(lambda p: p["w"])({"w": 1.0, "a.b": "net"}),
        r"p\['a.b'\] is 'net' .*numpy.asarray\), register",
    ),
    "trees of a cond": (
        lambda: pb.lax.cond(True, lambda x: x, lambda x: (x, x), X),
        r"of what true_fun, .*<lambda> \(.*\), returns, output is a leaf where false_fun, .*, returns a tuple",
    ),
    "dtypes of a cond": (
        lambda: pb.lax.cond(True, lambda x: x, lambda x: x.astype(int), X),
        r"false_fun, .*<lambda> \(.*\), returns output as i32\[3\], and true_fun, .*, as f32\[3\]",
    ),
    "shapes of a switch": (
        lambda: pb.lax.switch(1, [pnp.sin, pnp.cos, lambda x: x[:1]], X),
        r"branches\[0\], sin, returns output as f32\[3\], and branches\[2\], .*<lambda> \(.*\), as f32\[1\]",
    ),
    "no function in cond": (lambda: pb.lax.cond(True, X, pnp.sin, X), "cond takes a function as true_fun, but got"),
    "no function in switch": (lambda: pb.lax.switch(1, [pnp.sin, X], X), r"switch takes a function as branches\[1\], but got"),
    "no function in while_loop": (
        lambda: pb.lax.while_loop(lambda x: x < 3.0, 1.0, 0.0),
        "while_loop takes a function as body_fun",
    ),
    "numbers in a list": (
        lambda: pb.lax.scan(lambda c, x: (c + x, None), 0.0, [1.0, 2.0]),
        r"xs\[0\] is ~f32\[\], which has none. Of a list of numbers, make an array",
    ),
    "a number for int8": (lambda: pnp.ones(3, "int8") + 300, r"fit into int8\. Give the array a wider dtype\. At "),
    "a number for int32": (lambda: pnp.arange(3) + 2**40, r"fit into int32\. .*wider dtype, or .*default_bits\(64\)\. At "),
    "format": (lambda: f"{pnp.ones(3):.2f}", r"'\.2f' formats one number, but this is an array of f32\[3\]"),
    "no list": (lambda: pnp.concatenate(X, X), r"give them as one list, concatenate\(\[x, y\]\)"),
    "out_axes": (
        lambda: pb.vmap(product, out_axes=1)(X),
        r"vmap of product .* batch axis of output at 1, but with that axis it has type f32\[3\], whose only axis is 0\.",
    ),
    "method": (lambda: pnp.ones(3).put(0, 1.0), r"'Array' object has no attribute 'put': it is pb.numpy.put"),
    "method of a traced value": (lambda: pb.grad(lambda x: x.resize(2))(X), "no attribute 'resize': it is pb.numpy.resize"),
    "method that changes": (lambda: pnp.ones(3).fill(0.0), r"no attribute 'fill': arrays are immutable; write x.at\["),
    "self": (
        lambda: pb.Primitive("double", evaluate=lambda self, x: 2 * x),
        "The evaluate rule of primitive 'double' takes `self`, but rules are called without it",
    ),
    "transpose": (lambda: pb.linear_transpose(lambda x: x * x, 1.0)(1.0), "not linear in that operand"),
    "text by name in vmap": (
        lambda: pb.vmap(lambda x, mode="sum": x)(X, mode="mean"),
        r"mode is 'mean' .* leave it out of the batch \(None in in_axes, which may be a dict by argument name\)",
    ),
    "array in a static field": (
        lambda: [weight_of(Marked(1.0, pnp.ones(2))) for _ in range(2)],
        "static part .* cannot be hashed or compared. Arrays are no static parts: make them leaves",
    ),
    "evaluate": (
        lambda: pb.Primitive("total", evaluate=np.sum, result_type=lambda x: x)(X),
        rf"returned f32\[\], but its result_type rule says f32\[3\].* At {re.escape(__file__)}",
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_slips_are_said_with_their_cure(slip: str) -> None:
    call, says = SLIPS[slip]
    with pytest.raises((pb.errors.PullbackError, TypeError, ValueError, OverflowError, AttributeError), match=says) as caught:
        call()
    assert not re.search("Staged|Dual|Batched", str(caught.value))


def test_methods_that_are_not_there_are_not_listed() -> None:
    for array in (pnp.ones(3), pb.Array):
        assert "put" not in dir(array) and "sum" in dir(array)
        assert not hasattr(array, "put") and not hasattr(array, "resize")
    assert np.sort(pnp.array([2.0, 1.0])).tolist() == [1.0, 2.0]  # NumPy asks for a method of that name first
    assert np.cumsum(pnp.ones(3)).tolist() == [1.0, 2.0, 3.0]
    assert np.nonzero(pnp.ones(2))[0].tolist() == [0, 1]


def test_what_is_not_linear_raises_an_error_of_the_public_module() -> None:
    with pytest.raises(pb.errors.NotLinear, match="no transpose") as caught:
        pb.linear_transpose(lambda x: x + 1.0, 1.0)(1.0)
    assert isinstance(caught.value, GradientError)
