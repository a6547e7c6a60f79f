"""Transformations written as text, and the stages of a function on the way to the transformed one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.api.applied import TRANSFORMATIONS, apply_transformations, stages, transformations

T = pb.ArrayType


def weighted(w: Any, x: Any) -> Any:
    return pnp.sum(pnp.sin(w) * x)


APPLIED: dict[str, tuple[Any, str]] = {
    "nothing": ("", ""),
    "blank": (" ", ""),
    "one": ("grad", "grad"),
    "spaces": (" grad , jit ", "grad jit"),
    "comma at the end": ("grad,", "grad"),
    "by position": ("vmap((None, 0), axis_size=3)", "vmap(in_axes=(None, 0), axis_size=3)"),
    "all kinds": ("grad(argnums=(0, 1)),vmap(in_axes={'w': 0}),jit()", "grad(argnums=(0, 1)) vmap(in_axes={'w': 0}) jit"),
    "a string": ("vmap(axis_name='rows')", "vmap(axis_name='rows')"),
    "a list": (["grad", pb.vmap, ["jit"]], "grad vmap jit"),
    "a function": (pb.grad, "grad"),
}


@pytest.mark.parametrize("name", APPLIED)
def test_what_is_written_is_read(name: str) -> None:
    apply, expected = APPLIED[name]
    assert " ".join(map(str, transformations(apply))) == expected


WRONG: dict[str, tuple[Any, list[str]]] = {
    "unknown, near": ("gard", ["'gard' is no transformation", "'grad'"]),
    "unknown, none near": ("zzz", ["'zzz'", "There are grad"]),
    "open bracket": ("grad(", ["cannot be read", "look like"]),
    "no comma": ("grad vmap", ["cannot be read"]),
    "two commas": ("grad,,vmap", ["cannot be read"]),
    "no name": ("3", ["'3' is no transformation"]),
    "called twice": ("grad()(2)", ["'grad()(2)' is no transformation"]),
    "unknown option": ("grad(foo=1)", ["foo is none of its options", "argnums"]),
    "option twice": ("vmap(0, in_axes=0)", ["in_axes is given twice"]),
    "too many": ("vmap(0, 0, None, 1, 'map', None, 7)", ["takes 6 options", "not 7"]),
    "no literal": ("vmap(in_axes=x)", ["in_axes=x is no Python literal", "apply=[pb.grad"]),
    "stars": ("jit(**{})", ["is none of its options"]),
    "neither text nor function": (3, ["apply takes transformations as text", "int"]),
    "in a list": (["grad", None], ["NoneType"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_read_is_named(name: str) -> None:
    apply, parts = WRONG[name]
    with pytest.raises((ValueError, TypeError)) as caught:
        apply_transformations(weighted, apply)
    assert all(part in str(caught.value) for part in parts), caught.value


def test_defaults_are_for_options_that_the_text_does_not_give() -> None:
    found = transformations("grad,grad(argnums=0),vmap", {"grad": {"argnums": 1}})
    assert [dict(one.options) for one in found] == [{"argnums": 1}, {"argnums": 0}, {}]


def test_what_transforms_must_return_a_function() -> None:
    with pytest.raises(TypeError, match="must return a function, but returned 3"):
        apply_transformations(weighted, [lambda function: 3])
    with pytest.raises(TypeError, match="takes a function"):
        apply_transformations(3, "grad")  # type: ignore[arg-type]


W, X = np.float32([0.5, 1.0, 2.0]), np.arange(12, dtype=np.float32).reshape(4, 3)
RESULTS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "grad": ((W, X[1]), lambda: pb.grad(weighted)(W, X[1])),
    "value_and_grad(argnums=1)": ((W, X[1]), lambda: pb.value_and_grad(weighted, 1)(W, X[1])),
    "grad,vmap(in_axes=(None, 0)),jit": ((W, X), lambda: pb.vmap(pb.grad(weighted), (None, 0))(W, X)),
    "jvp": ((W, X[1], W, X[2]), lambda: pb.jvp(weighted, (W, X[1]), (W, X[2]))),
    "vjp": ((W, X[1], 2.0), lambda: (weighted(W, X[1]), pb.vjp(weighted, W, X[1])[1](2.0))),
    "jacfwd": ((W, X[1]), lambda: pb.jacfwd(weighted)(W, X[1])),
    "grad,jacrev": ((W, X[1]), lambda: pb.hessian(weighted)(W, X[1])),
    "hessian": ((W, X[1]), lambda: pb.hessian(weighted)(W, X[1])),
    "checkpoint,grad": ((W, X[1]), lambda: pb.grad(weighted)(W, X[1])),
    "remat(policy=None),grad": ((W, X[1]), lambda: pb.grad(weighted)(W, X[1])),
}


@pytest.mark.parametrize("apply", RESULTS)
def test_what_is_applied(apply: str) -> None:
    args, expected = RESULTS[apply]
    found = apply_transformations(weighted, apply)(*args)
    for one, other in zip(pb.tree.leaves(found), pb.tree.leaves(expected()), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-6)
    assert {one.name for name in RESULTS for one in transformations(name)} == TRANSFORMATIONS.keys()


STAGES: dict[str, tuple[Any, tuple[Any, ...], Any, list[tuple[Any, ...]]]] = {
    "nothing": (weighted, (T((3,)), T((3,))), "", [("f32[3]", "f32[3]")]),
    "a batch": (
        weighted,
        (T((3,)), T((8, 3))),
        "grad,vmap(in_axes=(None, 0)),jit",
        [("f32[3]", "f32[3]")] * 2 + [("f32[3]", "f32[8,3]")] * 2,
    ),
    "tangents": (pnp.sin, (T((8,)), T((8,))), "jvp,vmap", [("f32[]",), ("f32[]", "f32[]"), ("f32[8]", "f32[8]")]),
    "a cotangent": (pnp.sin, (T((8,)), T((8,))), "vjp", [("f32[8]",), ("f32[8]", "f32[8]")]),
    "a tree": (
        lambda p: pnp.sum(p["w"]) + p["b"],
        ({"b": T((4,)), "w": T((2, 4))},),
        "vmap(in_axes=({'b': 0, 'w': 1},))",
        [("f32[]", "f32[2]"), ("f32[4]", "f32[2,4]")],
    ),
    "a number": (lambda x: x * x, (2.0,), "grad", [("~f32[]",), ("~f32[]",)]),
    "functions": (pnp.sum, (T((2, 5)),), [pb.grad, lambda f: pb.vmap(f, 1)], [("f32[2]",), ("f32[2]",), ("f32[2,5]",)]),
    "zero elements": (pnp.sum, (T((0, 5)),), "vmap", [("f32[5]",), ("f32[0,5]",)]),
}


@pytest.mark.parametrize("name", STAGES)
def test_stages_have_the_arguments_with_which_they_are_called(name: str) -> None:
    function, args, apply, expected = STAGES[name]
    found = stages(function, args, apply=apply)
    assert [tuple(map(str, stage.program().input_types)) for stage in found] == expected
    assert [stage.name for stage in found][1:] == [str(one) for one in transformations(apply)]
    assert found[0].function is function and found[0].name == ""


def test_stages_know_arguments_given_by_name_and_named_axes() -> None:
    found = stages(lambda x, *, y: pb.lax.psum(x * y, "i"), (T((2, 3)),), {"y": T((2, 3))}, "vmap(axis_name='i')")
    assert [stage.axes for stage in found] == [{"i": 2}, {}]
    assert [str(stage.kwargs["y"]) for stage in found] == ["f32[3]", "f32[2,3]"]
    assert found[0].program().axis_names == {"i"} and not found[1].program().axis_names


def test_a_transformation_that_calls_nothing_has_no_stages() -> None:
    with pytest.raises(ValueError, match="does not call"):
        stages(pnp.sin, (1.0,), apply=[lambda function: lambda x: x])
