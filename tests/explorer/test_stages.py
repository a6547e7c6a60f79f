"""The stages of a page: each Program comes from the one before, and the last one is what the transformed function is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.api.applied import apply_transformations
from pullback.explorer.explorer import equations_of
from pullback.explorer.stages import program_stages
from pullback.transforms.simplify import drop_dead_code

X, XS, W = np.ones(3, "float32"), np.ones((5, 3), "float32"), np.ones((3, 3), "float32")


@pb.custom_vjp
def clipped(x):
    return pnp.sin(x)


clipped.defvjp(lambda x: (pnp.sin(x), x), lambda x, ct: (pnp.clip(ct * pnp.cos(x), -1.0, 1.0),))


def plain(x):
    return pnp.sum(pnp.tanh(x) * x)


def layered(w, x):
    for _ in range(3):
        x = pnp.tanh(x @ w)
    return pnp.sum(x**2)


def looped(w, x):
    carry, ys = pb.lax.scan(lambda c, row: (pnp.tanh(w @ c + row), pnp.sum(c)), x, pnp.stack([x, 2.0 * x]))
    return pnp.sum(carry) + pnp.sum(ys)


def branched(x):
    return pnp.sum(pb.lax.cond(x[0] > 0.0, lambda x: pnp.exp(x), lambda x: x * x, x))


def repeated(x):
    return pnp.sum(pb.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, pnp.sin(s[1])), (0, x), max_steps=4)[1])


def called(x):
    return pnp.sum(pb.jit(lambda y: y * pnp.exp(y))(x))


def kept(x):
    return pnp.sum(pb.checkpoint(lambda y: pnp.sin(pnp.sin(y)))(x))


def ruled(x):
    return pnp.sum(clipped(x))


def of_tree(params, x):
    return {"loss": pnp.sum(params["w"] @ x + params["b"])}["loss"]


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "untransformed": (plain, (X,), ""),
    "grad": (plain, (X,), "grad"),
    "grad of layers": (layered, (W, X), "grad"),
    "the second argument": (layered, (W, X), "grad(argnums=1)"),
    "both arguments": (layered, (W, X), "value_and_grad(argnums=(0, 1))"),
    "batch": (layered, (W, XS), "vmap(in_axes=(None, 0))"),
    "per-example gradients": (layered, (W, XS), "grad,vmap(in_axes=(None, 0)),jit"),
    "loop": (looped, (W, XS), "grad,vmap(in_axes=(None, 0))"),
    "branch": (branched, (XS,), "grad,vmap"),
    "bounded loop": (repeated, (X,), "grad"),
    "call": (called, (XS,), "grad,vmap"),
    "checkpoint inside": (kept, (X,), "grad"),
    "a rule of the user's": (ruled, (XS,), "grad,vmap"),
    "forward": (plain, (X, X), "jvp"),
    "hessian": (plain, (X,), "hessian"),
    "twice": (lambda x: x[0] ** 3, (X,), "grad,jacfwd"),
    "grad of grad": (lambda x: x**3, (np.float32(2.0),), "grad,grad"),
    "tree": (of_tree, ({"w": W, "b": X}, XS), "grad,vmap(in_axes=(None, 0))"),
    "a batch of no elements": (plain, (np.ones((0, 3), "float32"),), "grad,vmap"),
    "64 bits": (plain, (X.astype("float64"),), "grad"),
    "complex": (lambda x: pnp.sum(pnp.abs(x) ** 2), (X.astype("complex64"),), "grad"),
    "a named axis": (lambda x: x / pb.lax.psum(x, "i"), (X,), "vmap(axis_name='i')"),
    "two batches": (plain, (np.ones((2, 5, 3), "float32"),), "vmap,vmap"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_last_stage_is_the_transformed_function(case):
    function, args, apply = CASES[case]
    stages = [one for one in program_stages(function, args, {}, apply) if one.called]
    whole = pb.xpr(apply_transformations(function, apply.removesuffix(",jit")), *args)
    assert drop_dead_code(stages[-1].program) == whole


@pytest.mark.parametrize("case", CASES)
def test_every_equation_of_a_stage_comes_from_one_of_the_stage_before(case):
    function, args, apply = CASES[case]
    stages = {one.id: one for one in program_stages(function, args, {}, apply)}
    for stage in stages.values():
        if stage.id in ("base", "simplify"):
            continue
        before = {one.id for one in equations_of(stages[stage.of].program)}
        for part in stage.parts:
            for equation in equations_of(part.program):
                origin = equation.origin
                while origin is not None and origin.id not in before:
                    origin = origin.origin
                # What a gradient begins with, or a batch of results is made of, comes from no equation, but from a line
                assert origin is not None or equation.source is not None, equation.primitive


def test_a_gradient_is_explained_by_forward_mode_and_linearization():
    stages = program_stages(layered, (W, XS), {}, "grad,vmap(in_axes=(None, 0)),jit")
    assert [one.id for one in stages] == ["base", "jvp", "linearize", "grad", "vmap", "simplify"]
    assert [one.of for one in stages] == ["", "base", "base", "base", "grad", "vmap"]
    assert stages[4].batch == 5 and "5 at a time" in stages[4].by


def test_a_function_without_forward_mode_says_so():
    stages = {one.id: one for one in program_stages(ruled, (X,), {}, "grad")}
    assert "jvp" not in stages and "no forward mode" in stages["linearize"].notes[0]


def test_a_transformation_that_comes_twice_has_two_stages():
    assert [one.id for one in program_stages(plain, (np.ones((2, 5, 3)),), {}, "vmap,vmap")] == [
        "base",
        "vmap",
        "vmap-2",
        "simplify",
    ]


def unit(x):
    return x / pnp.sqrt(pnp.sum(x**2))


HALVES = {
    "a function at the turn": (lambda w, x: pnp.sum(unit(w @ x) ** 2), (W, X), "grad"),
    "of a batch": (lambda w, x: pnp.sum(unit(w @ x) ** 2), (W, XS), "grad,vmap(in_axes=(None, 0))"),
    "a function four times": (lambda w, x: pnp.sum(unit(w @ unit(w @ unit(w @ unit(w @ x))))), (W, X), "grad"),
    "a Python number": (lambda x: x * pnp.sin(x), (2.0,), "grad"),
}


@pytest.mark.parametrize("case", HALVES)
def test_the_passes_of_a_gradient_stand_under_two_headings(case):
    function, args, apply = HALVES[case]
    stages = {one["id"]: one for one in pb.explore(function, *args, apply=apply, compile=False).data["stages"]}
    for name in {"grad", "vmap"}.intersection(stages):
        rows = stages[name]["rows"]
        starts = [i for i, row in enumerate(rows) if row.get("head") == "part"]
        assert [rows[i]["label"] for i in starts] == ["forward", "backward"]
        forward, backward = ([row["role"] for row in rows[i : i + 1 + rows[i]["span"]] if "role" in row] for i in starts)
        assert "cotangent" not in forward and "cotangent" in backward
        assert not {"primal", "residual"}.intersection(backward)


def test_the_sentence_on_a_gradient_counts_all_that_it_added():
    def loss(params, x):
        return pb.lax.scan(lambda c, a: (pnp.tanh(c * a + params["w"] * pnp.eye(3)), None), pnp.eye(3), x)[0].sum()

    stages = {one["id"]: one for one in pb.explore(loss, {"w": 2.0}, X, apply="grad", compile=False).data["stages"]}
    said = " ".join(stages["grad"]["deltas"])
    added, backward, prepared = [int(re.search(rf"(\d+) {words}", said)[1]) for words in ("equations:", "run", "only")]
    others = [
        (int(number), word) for number, word in re.findall(r"(\d+) equations? of the forward pass (?:is|are) (\w+)", said)
    ]
    change = sum([number if word == "repeated" else -number for number, word in others])
    assert added == backward + prepared, said
    assert stages["grad"]["count"] == stages["base"]["count"] + added + change, said


ALREADY = {
    "a gradient": (pb.grad(plain), (X,), "explore plain with apply='grad'."),
    "a compiled batch of gradients": (pb.jit(pb.vmap(pb.grad(plain))), (XS,), "explore plain with apply='grad,vmap'."),
    "both": (pb.value_and_grad(plain), (X,), "explore plain with apply='value_and_grad'."),
    "compiled": (pb.jit(plain), (X,), ""),
    "itself": (plain, (X,), ""),
}


@pytest.mark.parametrize("case", ALREADY)
def test_a_function_that_was_transformed_before_is_told_of(case):
    function, args, told = ALREADY[case]
    base = pb.explore(function, *args, compile=False).data["stages"][1]
    assert ("transformed already" in " ".join(base["deltas"])) == bool(told) and told in " ".join(base["deltas"])


KEPT = {
    "1 value (12 B) is kept": (lambda x: pnp.sum(pnp.sin(x)), (X,)),
    "2 arguments are kept": (lambda w, x: pnp.sum(w @ x), (W, X)),
    "2 values (24 B) and 2 arguments are kept": (lambda w, x: pnp.sum(pnp.sin(w @ x) + pnp.sin(x)), (W, X)),
    "Nothing is kept": (lambda x: pnp.sum(x), (X,)),
}


@pytest.mark.parametrize("told", KEPT)
def test_the_sentence_on_what_is_kept_says_nothing_of_none(told):
    function, args = KEPT[told]
    grad = "grad(argnums=(0, 1))" if len(args) > 1 else "grad"
    stages = {one["id"]: one for one in pb.explore(function, *args, apply=grad, compile=False).data["stages"]}
    assert told in stages["linearize"]["deltas"][0], stages["linearize"]["deltas"]


def test_an_argument_of_float0_has_no_place_among_those_of_a_gradient():
    found = pb.explore(lambda n, y: pnp.sum(pnp.sin(y)), np.zeros(3, pb.float0), X, apply="grad(argnums=1)", compile=False)
    stages = {one["id"]: one for one in found.data["stages"]}
    assert [row["arg"] for row in stages["jvp"]["rows"] if "arg" in row] == ["y", "d y"]


def test_a_linearization_keeps_nothing_of_what_a_gradient_in_the_function_reads():
    def f(w, x):
        return pnp.sum(w) + pnp.sum(pb.grad(lambda x: pnp.sum(pnp.sin(x) ** 3))(x))

    stages = {one["id"]: one for one in pb.explore(f, X, X, apply="grad", compile=False).data["stages"]}
    assert stages["linearize"]["deltas"][0].startswith("Nothing is kept")
    assert not [row for row in stages["linearize"]["rows"] if "kept" in row or "held" in row]
    assert [row for row in stages["base"]["rows"] if "kept" in row]
