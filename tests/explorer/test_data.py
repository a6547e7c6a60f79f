"""The data of real pages keep what docs/explorer-format.md promises, and say what happened."""

from __future__ import annotations

import functools
import gc
import re
from typing import Any

import numpy as np
import pytest
from test_stages import CASES, W, X, layered, plain

import pullback as pb
import pullback.numpy as pnp
from pullback.api.applied import apply_transformations
from pullback.explorer.checked import check_page
from pullback.explorer.explorer import equations_of
from pullback.program.cost import cost

SLOW_TO_COMPILE = {"bounded loop"}


def stages_of(found: Any) -> dict[str, Any]:
    return {stage["id"]: stage for stage in found.data["stages"]}


def equations_in(stage: Any) -> list[Any]:
    return [row for row in stage["rows"] if "op" in row]


@pytest.mark.parametrize("case", CASES)
def test_what_must_hold_of_pages_holds(case):
    function, args, apply = CASES[case]
    found = pb.explore(function, *args, apply=apply, compile=case not in SLOW_TO_COMPILE)
    check_page(found.data)
    stages = stages_of(found)
    for id, program in found.programs.items():
        if id.startswith("linearize"):  # which has two Programs
            continue
        assert stages[id]["count"] == len(list(equations_of(program)))
        assert stages[id]["flops"] == cost(program).work
        assert stages[id]["deltas"]


def test_lines_are_those_of_the_user():
    found = pb.explore(layered, W, X, apply="grad", compile=False)
    stages = stages_of(found)
    text = {row["id"]: row["text"].strip() for row in stages["source"]["rows"]}
    for row in equations_in(stages["grad"]):
        if row["op"] in ("dot_general", "tanh", "sech_squared"):
            assert text[row["line"]] == "x = pnp.tanh(x @ w)"
    assert stages["source"]["rows"][0]["text"] == "def layered(w, x):"


def test_roles_and_rules_of_a_gradient():
    found = pb.explore(plain, X, apply="grad", compile=False)
    stages = stages_of(found)
    rules = [rule["name"] for rule in found.data["rules"]]
    rows = {row["op"]: row for row in equations_in(stages["grad"])}
    assert rows["tanh"]["role"] == "primal" and rows["sech_squared"]["role"] == "residual"
    assert {row["role"] for row in equations_in(stages["grad"])} - {"dead"} == {"primal", "residual", "cotangent"}
    assert rules[rows["sech_squared"]["from"][0][1]] == "tanh.partials"
    assert {row["role"] for row in equations_in(stages["jvp"])} == {"primal", "residual", "tangent"}


def test_an_adjoint_equation_leads_to_its_tangent_its_primal_and_the_line():
    found = pb.explore(layered, W, X, apply="grad", compile=False)
    rows = {row["id"]: (stage["id"], row) for stage in found.data["stages"] for row in stage["rows"]}
    adjoint = next(
        row for row in equations_in(stages_of(found)["grad"]) if row["role"] == "cotangent" and row["op"] == "dot_general"
    )
    seen, at = [], adjoint
    while at.get("from"):
        stage, at = rows[at["from"][0][0]]
        seen.append((stage, at.get("op"), at.get("role")))
    assert seen[:2] == [("linearize", "dot_general", "tangent"), ("base", "dot_general", "primal")] and seen[2][0] == "source"


def test_repeated_layers_fold():
    def deep(w, x):
        def layer(x):
            centred = x - pnp.mean(x)
            return pnp.tanh(centred @ w) + x

        for _ in range(6):
            x = layer(x)
        return pnp.sum(x)

    stage = stages_of(pb.explore(deep, W, X, compile=False))["base"]
    (repeat,) = [row for row in stage["rows"] if row.get("head") == "repeat"]
    assert (repeat["count"], repeat["label"]) == (6, "layer")


def test_scopes_are_headings():
    def f(x):
        with pb.named_scope("first"):
            x = pnp.sin(x) * 2.0
        return pnp.sum(x)

    stage = stages_of(pb.explore(f, X, compile=False))["base"]
    (head,) = [row for row in stage["rows"] if row.get("head") == "scope"]
    assert (head["label"], head["span"]) == ("first", 2)


def test_what_serves_no_result_is_dead():
    def f(x):
        pnp.exp(x)
        return pnp.sum(pnp.sin(x))

    stage = stages_of(pb.explore(f, X, compile=False))["base"]
    assert {row["op"]: row["role"] for row in equations_in(stage)} == {"exp": "dead", "sin": "primal", "reduce_sum": "primal"}
    assert "1 equation serves no result." in stage["deltas"]


def test_a_repetition_says_which_equation_does_its_work():
    def f(x):
        return pnp.sum(pnp.sin(x) + pnp.sin(x) * 2.0)

    stages = stages_of(pb.explore(f, X, compile=False))
    first, second = [row for row in equations_in(stages["base"]) if row["op"] == "sin"]
    assert second["into"] == first["id"]
    (left,) = [row for row in equations_in(stages["simplify"]) if row["op"] == "sin"]
    assert {id for id, _ in left["from"]} == {first["id"], second["id"]}


def test_batch_axes_and_plumbing():
    stage = stages_of(pb.explore(layered, W, np.ones((5, 3), "float32"), apply="vmap(in_axes=(None, 0))", compile=False))[
        "vmap"
    ]
    weights, x = [row["out"][0] for row in stage["rows"] if "arg" in row]
    assert len(stage["vars"][weights]) == 2 and stage["vars"][x][2] == [0]
    assert all(stage["vars"][row["out"][0]][2] == [0] for row in equations_in(stage))


BATCHES: dict[str, tuple[Any, tuple[Any, ...], str, str]] = {
    "as many numbers as elements": (
        lambda x: x * 2.0,
        (np.ones((5, 3), "float32"),),
        "vmap",
        "5.0 times the FLOPs for 5 batch",
    ),
    "an axis in the middle": (
        lambda x: x * 2.0,
        (np.ones((5, 2, 3), "float32"),),
        "vmap(in_axes=1)",
        "2.0 times the FLOPs for 2 batch",
    ),
    "elements without numbers": (lambda x: x * 2.0, (np.ones((5, 0), "float32"),), "vmap", "As many FLOPs for 5 batch"),
    "no elements": (lambda x: x * 2.0, (np.ones((0, 3), "float32"),), "vmap", "No FLOPs for 0 batch elements"),
    "a size that is given": (
        lambda x: x * 2.0,
        (X,),
        "vmap(axis_size=3, in_axes=None)",
        "As many FLOPs for 3 batch elements; 1 of 2 equations does not depend",
    ),
    "a sum over the batch": (  # which has no batch axis, nor has what is made of it
        lambda x: pnp.sin(pb.lax.psum(x, "i")),
        (np.ones((4, 3), "float32"),),
        "vmap(axis_name='i')",
        " for 4 batch elements.",
    ),
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_says_how_many_elements_it_has(name):
    function, args, apply, said = BATCHES[name]
    found = pb.explore(function, *args, apply=apply, compile=False)
    assert any(said in sentence for sentence in stages_of(found)["vmap"]["deltas"])
    check_page(found.data)


def test_a_cond_in_a_batch_says_what_became_of_it():
    def f(x):
        return pb.lax.cond(x > 0.0, pnp.exp, lambda x: x * x, x)

    stage = stages_of(pb.explore(f, X, apply="vmap", compile=False))["vmap"]
    assert stage["deltas"][0].startswith("vmap turned this cond into a select: 1.")
    assert any("note" in row for row in equations_in(stage) if row["op"] == "cond_as_select")


def test_operations_of_compiled_code_lead_back():
    stages = stages_of(pb.explore(layered, W, np.ones((5, 3), "float32"), apply="grad,vmap(in_axes=(None, 0)),jit"))
    ids = {row["id"] for row in equations_in(stages["simplify"])}
    operations = [row for row in stages["stablehlo"]["rows"] if " = " in row["text"]]
    assert operations and all(row["from"][0][0] in ids for row in operations)
    steps = [row for row in stages["optimized"]["rows"] if row.get("main") and " fusion(" in row["text"]]
    assert steps and all("from" in row or row["note"].startswith("Unknown") for row in steps)
    assert sum("from" in row for row in steps) >= 0.8 * len(steps)
    assert "loc(" not in "".join(row["text"] for row in operations)


def test_steps_of_compiled_loops_count():
    def f(x):
        return pb.lax.while_loop(lambda c: pnp.sum(c) < 100.0, lambda c: pnp.tanh(c * 2.0 + 1.0) + c, x)

    stage = stages_of(pb.explore(f, X, apply="jit"))["optimized"]
    steps = [row for row in stage["rows"] if row.get("main")]
    merged = [row for row in steps if row["text"].startswith(" ") and row.get("note", "").startswith("Merged from")]
    assert merged and stage["count"] > len(merged)
    assert int(re.search(r"(\d+) merged", stage["deltas"][0])[1]) >= len(merged)
    assert stage["deltas"][-1] == "XLA's FLOPs and bytes count one step of each loop."


def test_costs_in_loops_count_every_step():
    def f(x):
        return pb.lax.fori_loop(0, 10, lambda i, c: pnp.sin(c), x)

    stage = stages_of(pb.explore(f, X, compile=False))["base"]
    rows = {row["op"]: row for row in equations_in(stage)}
    assert rows["sin"]["times"] == 10 and rows["sin"]["flops"] == 10 * cost(pb.xpr(pnp.sin, X)).work
    assert rows["scan"]["trips"] == 10


def test_a_function_that_cannot_be_compiled_here_says_so():
    def f(x):
        return pb.pure_callback(lambda x: x, x, x)

    found = pb.explore(f, X)
    assert "stablehlo" in stages_of(found) or "cannot be compiled" in found.data["stages"][-1]["deltas"][-1]


def test_functions_typed_in_have_no_file():
    names: dict[str, Any] = {}
    exec("def f(x):\n    return x * 2.0\n", names)
    stages = stages_of(pb.explore(names["f"], X, compile=False))
    assert [row["text"] for row in stages["source"]["rows"]] == ["line 2 of <string>"]


WRONG = [
    ((3.0, X), {}, TypeError, "explore takes a function"),
    ((plain, X), {"apply": "grda"}, ValueError, "Did you mean 'grad'"),
    ((plain, X), {"compile": "no"}, TypeError, "compile"),
    ((plain, X), {"title": 3}, TypeError, "title must be a string"),
    ((lambda x: x, X), {"apply": "grad"}, pb.errors.GradientError, "0-d output"),
    ((lambda x: x, "f32[3,4]"), {}, pb.errors.LeafError, r"x is the text 'f32\[3,4\]'.*pb.ArrayType\(\(3, 4\), 'float32'\)"),
    ((lambda x: x, {"w": "i32[]"}), {}, pb.errors.LeafError, r"x\['w'\] is the text.*pb.ArrayType\(\(\), 'int32'\)"),
    ((lambda x: x, X), {"apply": "grad(argnums=1)"}, pb.errors.GradientError, "there is no argument 1"),
    ((lambda x: x, X), {"apply": "grad(argnums='x')"}, TypeError, "argnums must be an int"),
]


@pytest.mark.parametrize(("args", "options", "error", "words"), WRONG, ids=[words for *_, words in WRONG])
def test_what_is_wrong_is_said(args, options, error, words):
    with pytest.raises(error, match=words):
        pb.explore(*args, **options)


def test_the_memory_of_donated_arguments_is_taken():
    def step(w, g):
        return w - 0.1 * g

    found = pb.explore(step, X, X, apply="jit(donate_argnums=0)", compile=False)
    check_page(found.data)
    rows = stages_of(found)["simplify"]["rows"]
    w, g = [row for row in rows if "arg" in row]
    assert w["donated"] is True and "donated" not in g
    assert {row["op"]: row.get("donated") for row in rows if "op" in row} == {"mul": None, "sub": w["id"]}
    assert not any(
        "donated" in row for stage in pb.explore(step, X, X, apply="jit", compile=False).data["stages"] for row in stage["rows"]
    )


@pytest.mark.parametrize("runs", [True, False])
def test_the_garbage_collector_is_as_it_was(runs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits while rows are made; whether they are made, or an exception ends that."""
    during = []

    def failing(*args: Any) -> Any:
        during.append(gc.isenabled())
        raise RuntimeError("stopped")

    if not runs:
        gc.disable()
    try:
        pb.explore(lambda x: x * x, 1.0, compile=False)
        after = [gc.isenabled()]
        monkeypatch.setattr("pullback.explorer.explorer.add_stage", failing)
        with pytest.raises(RuntimeError, match="stopped"):
            pb.explore(lambda x: x * x, 1.0, compile=False)
        after.append(gc.isenabled())
    finally:
        gc.enable()
    assert during == [False] and after == [runs, runs]


def doubled(transformed):
    """A transformation of one's own."""
    return lambda *args: transformed(*args) * 2.0  # of what it returns


def test_what_a_transformation_does_by_itself_is_of_no_line():
    """The weak gradient is made of a strong one, where the transformed function is called: which is here, by the explorer."""

    def square(x):
        return pnp.sum(x * x) * np.float32(3.0)

    found = pb.explore(square, 2.0, apply="grad", compile=False)
    last = equations_in(stages_of(found)["grad"])[-1]
    results = [row["id"] for row in stages_of(found)["base"]["rows"] if "ret" in row]
    assert (last["op"], last["role"], last["from"]) == ("convert_element_type", "cotangent", [[results[0], -1]])
    assert "line" not in last and not any("pb.explore" in row["text"] for row in stages_of(found)["source"]["rows"][:3])


def test_lines_of_a_transformation_of_ones_own_are_shown():
    stages = stages_of(pb.explore(layered, W, X, apply=["grad", doubled], compile=False))
    text = {row["id"]: row["text"].strip() for row in stages["source"]["rows"]}
    last = equations_in(stages["doubled"])[-1]
    assert last["op"] == "mul" and text[last["line"]].endswith("# of what it returns")


@pytest.mark.parametrize("stage, of", [("jvp", "base"), ("jvp-2", "grad")])
def test_forward_mode_says_what_it_added(stage, of):
    stages = stages_of(pb.explore(lambda x: pnp.tanh(x) ** 2, np.float32(1.0), apply="grad,grad", compile=False))
    found = re.search(r"moves: (\d+) equations, and (\d+) that they need; ", stages[stage]["deltas"][0])
    tangents, needed = map(int, found.groups())  # type: ignore[union-attr]
    assert tangents == [row["role"] for row in equations_in(stages[stage])].count("tangent")
    assert tangents + needed == stages[stage]["count"] - stages[of]["count"] and needed > 1


def test_what_the_linear_map_computes_again_is_no_tangent():
    def f(x):
        return pnp.sum(pb.checkpoint(lambda y: pnp.tanh(pnp.sin(y)))(x))

    stage = stages_of(pb.explore(f, X, apply="grad", compile=False))["linearize"]
    at = next(place for place, row in enumerate(stage["rows"]) if row.get("label") == "the linear map of tangents")
    roles = {row["op"]: row["role"] for row in stage["rows"][at:] if "op" in row}
    assert roles == {
        "checkpoint": "tangent",
        "sin": "primal",
        "cos": "residual",
        "sech_squared": "residual",
        "mul": "tangent",
        "reduce_sum": "tangent",
    }


def test_what_vmap_repeats_is_plumbing_and_a_batch():
    def f(x, y):
        return x, pnp.zeros(3), y * 2.0

    stage = stages_of(pb.explore(f, np.ones((7, 3), "float32"), X, apply="vmap(in_axes=(0, None))", compile=False))["vmap"]
    rows = [row for row in equations_in(stage) if row["op"] == "broadcast_in_dim"]
    batched = [len(stage["vars"][row["out"][0]]) == 3 for row in rows]
    assert [row["role"] == "batch" for row in rows] == batched and sum(batched) == 2


def test_an_operation_with_regions_leads_back_from_where_it_begins():
    def f(i, x):
        x = pb.lax.switch(i, [pnp.sin, pnp.cos, pnp.tanh], x)
        return pb.lax.while_loop(lambda x: pnp.sum(x) < 9.0, lambda x: x * 2.0, x).at[i].set(1.0)

    stages = stages_of(pb.explore(f, np.int32(1), X))
    names = {row["id"]: row["op"] for row in equations_in(stages["simplify"])}
    opening = {row["text"].split('"')[1]: row for row in stages["stablehlo"]["rows"] if row["text"].endswith("({")}
    found = {text: names[row["from"][0][0]] for text, row in opening.items()}
    assert found == {"stablehlo.case": "cond", "stablehlo.while": "while_loop", "stablehlo.scatter": "scatter"}
    middle = [row for row in stages["stablehlo"]["rows"] if row["text"].strip() == "}, {"]
    assert len(middle) == 3 and all("from" in row and "line" in row for row in middle)


def powers(w, x, count, mode="up"):
    y = pnp.sum(pnp.tanh(x @ w))
    for _ in range(count):
        y = y * 1.5
    return y if mode == "up" else -y


STATIC: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any], str]] = {
    "by number": (powers, (W, X, 2), {}, "jit(static_argnums=2)"),
    "by name": (powers, (W, X), {"count": 2}, "jit(static_argnames='count')"),
    "of a gradient": (powers, (W, X, 2, "down"), {}, "grad(argnums=1),jit(static_argnums=(2, 3))"),
    "of a batch": (powers, (W, np.stack([X] * 7), 2), {}, "grad,vmap(in_axes=(None, 0, None)),jit(static_argnums=2)"),
    "a text": (powers, (W, X), {"count": 2, "mode": "down"}, "jit(static_argnames=('count', 'mode')),grad"),
    "of a function that is jitted": (pb.jit(powers, static_argnums=2), (W, X, 2), {}, "grad"),
    "none": (lambda w, x: powers(w, x, 2), (W, X), {}, "grad(argnums=[1])"),
}


@pytest.mark.parametrize("name", STATIC)
def test_static_arguments_are_in_the_program(name):
    function, args, kwargs, apply = STATIC[name]
    found = pb.explore(function, *args, apply=apply, compile=False, values=True, **kwargs)
    check_page(found.data)
    inputs = [row["arg"] for row in stages_of(found)["base"]["rows"] if "arg" in row][:2]
    assert inputs == ["w", "x"] and len(found.programs["base"].inputs) == 2
    rows = equations_in(stages_of(found)["simplify"])
    result = pb.tree.leaves(apply_transformations(function, apply)(*args, **kwargs))[-1]
    assert rows[-1]["value"]["mean"] == pytest.approx(float(pnp.mean(result)), rel=1e-5)


def test_types_stand_for_the_arguments_that_are_not_static():
    found = pb.explore(powers, pb.ArrayType((3, 3)), pb.ArrayType((3,)), 4, apply="jit(static_argnums=2)", compile=False)
    assert [row["op"] for row in equations_in(stages_of(found)["base"])] == ["dot_general", "tanh", "reduce_sum", *["mul"] * 4]


def test_a_cond_in_a_branch_of_another_one_is_not_counted_twice():
    def sine(x):
        return pnp.sum(pnp.sin(x))

    def f(x):
        return pb.lax.cond(x[0] > 0.0, lambda x: pb.lax.cond(x[0] > 1.0, sine, sine, x), sine, x)

    found = pb.explore(f, pb.ArrayType((7, 1000)), apply="vmap", compile=False)
    assert "2 conds into selects: 3.3 times the FLOPs" in stages_of(found)["vmap"]["deltas"][0]
    assert cost(found.programs["vmap"]).work / (7 * cost(found.programs["base"]).work) == pytest.approx(3.3, abs=0.05)


def looped(w, xs):
    last, _ = pb.lax.scan(lambda c, x: (pnp.tanh(w * c + x), None), np.float32(0.0), xs)
    return last**2


def twice_remembered(x):
    return pnp.sum(pb.checkpoint(lambda y: pnp.tanh(pnp.sin(y)))(x))


COUNTED: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "layers": (layered, (W, X)),
    "a loop": (looped, (np.float32(1.0), X)),
    "a call": (lambda x: pnp.sum(pb.jit(lambda y: y * pnp.exp(y))(x)), (X,)),
    "a checkpoint": (twice_remembered, (X,)),
    "a weak gradient": (lambda x: pnp.sum(x * x) * np.float32(3.0), (2.0,)),
    "a branch": (lambda x: pb.lax.cond(x[0] > 0.0, lambda: pnp.sum(x * x), lambda: pnp.sum(pnp.sin(x))), (X,)),
}


@pytest.mark.parametrize("name", COUNTED)
def test_the_sentences_on_a_gradient_add_up(name):
    function, args = COUNTED[name]
    found = pb.explore(function, *args, apply="grad", compile=False)
    stages = stages_of(found)
    told = " ".join(stages["grad"]["deltas"])

    def number(words: str) -> int:
        match = re.search(rf"(\d+) {words}", told)
        return int(match[1]) if match else 0

    added = int(re.search(r"added (\d+)", told)[1])  # type: ignore[index]
    assert added == number("runs? backward") + number("only serve")
    left = number("equations? of the forward pass (is|are) not needed")
    again = number("equations? of the forward pass (is|are) repeated")
    assert stages["base"]["count"] - left + again + added == stages["grad"]["count"]
    roles = [equation.role for equation in equations_of(found.programs["grad"])]
    assert (roles.count("cotangent"), roles.count("residual")) == (number("runs? backward"), number("only serve"))


@pytest.mark.parametrize("name", COUNTED)
def test_every_equation_leads_to_one_of_the_stage_before_by_a_rule(name):
    """In the body of a loop, a called function and a checkpoint, too; there none is taken over but as it was."""
    function, args = COUNTED[name]
    found = pb.explore(function, *args, apply="checkpoint,grad", compile=False)
    rows = {row["id"]: row for stage in found.data["stages"] for row in stage["rows"]}
    stages = stages_of(found)
    for row in equations_in(stages["checkpoint"]):
        assert row["op"] == "checkpoint" or [rows[id]["op"] for id, _ in row["from"]] == [row["op"]]
    for stage in (stages["linearize"], stages["grad"]):
        for row in equations_in(stage):
            if row["role"] in ("residual", "cotangent") and row["op"] not in ("convert_element_type", "checkpoint"):
                assert all("op" in rows[id] and rule >= 0 for id, rule in row["from"]), row["op"]
    rules = {found.data["rules"][rule]["name"] for row in equations_in(stages["grad"]) for _, rule in row["from"] if rule >= 0}
    assert not any("returned" in rule for rule in rules)


def test_a_loop_adds_cotangents_up_as_cotangents():
    rows = equations_in(stages_of(pb.explore(looped, np.float32(1.0), X, apply="grad", compile=False))["grad"])
    assert [row["role"] for row in rows if row["op"] == "add"] == ["primal", "cotangent"]


def test_simplification_takes_no_batch_axis_away():
    """Of two repetitions it makes one, so that what was repeated first is not there any more."""
    apply = "vmap(in_axes=(0, None)),vmap(in_axes=(0, None))"
    found = pb.explore(lambda x, y: (x, y), np.ones((11, 7, 3), "float32"), X, apply=apply, compile=False)
    for id in ("vmap-2", "simplify"):
        batches = [
            [size in (11, 7) for size in map(int, type[4:-1].split(","))] for _, type, *_ in stages_of(found)[id]["vars"]
        ]
        axes = [
            [axis in (rest[0] if rest else ()) for axis in range(type.count(",") + 1)]
            for _, type, *rest in stages_of(found)[id]["vars"]
        ]
        assert axes == batches, id


def rooted(a):
    def solve(f, start):
        return pb.lax.while_loop(lambda x: pnp.abs(f(x)) > 1e-3, lambda x: x - f(x) / (2.0 * x), start)

    return pb.lax.custom_root(lambda x: x * x - a, 1.0, solve, lambda g, y: y / g(1.0))


def within_steps(x):
    def step(c, _):
        return pb.lax.while_loop(lambda y: pnp.sum(y) < 100.0, lambda y: y * 2.0 + 1.0, c), None

    return pb.lax.scan(step, x, None, length=3)[0]


HOLDING: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "a loop of unknown length in a loop": (within_steps, (X,), ""),
    "a loop without steps": (lambda x: pb.lax.fori_loop(0, 0, lambda i, c: pnp.sin(c), x), (X,), ""),
    "loops in a batch": (lambda x: pb.lax.fori_loop(0, 4, lambda i, c: pnp.sin(c), x), (np.ones((7, 3), "float32"),), "vmap"),
    "a solver": (rooted, (np.float32(2.0),), "grad"),
    "a call in a loop": (lambda x: pb.lax.fori_loop(0, 4, lambda i, c: pb.jit(pnp.sin)(c), x), (X,), "jacrev"),
}


@pytest.mark.parametrize("name", HOLDING)
def test_what_an_equation_holds_costs_what_it_costs(name):
    """So that figures by line add up to those of the stage; of branches, one runs, and each has its own."""
    function, args, apply = HOLDING[name]
    for stage in pb.explore(function, *args, apply=apply, compile=False).data["stages"]:
        for place, row in enumerate(stage["rows"]):
            if "op" in row and row.get("span") and row["op"] != "cond":
                inside = stage["rows"][place + 1 : place + 1 + row["span"]]
                for figure in ("flops", "bytes"):
                    assert sum(one[figure] for one in inside if "op" in one and "span" not in one) == row[figure]
                assert all("times" not in one for one in inside) or row["op"] in ("scan", "call")


def test_what_runs_on_devices_counts_on_each():
    mesh, spec = pb.sharding.AbstractMesh((4,), ("d",)), pb.P("d")
    found = pb.explore(pb.shard_map(pnp.sin, mesh=mesh, in_specs=spec, out_specs=spec), np.ones(8, "float32"), compile=False)
    holder, inside = equations_in(stages_of(found)["base"])
    assert (holder["op"], inside["flops"], inside["times"]) == ("shard_map", holder["flops"], 4) and "trips" not in holder


def test_repetitions_that_have_names_of_their_own_are_called_by_the_first_and_the_last():
    def deep(w, x):
        for number in range(4):
            with pb.named_scope(f"block {number}"):
                x = pnp.tanh(x @ w) + x * 0.5
        return pnp.sum(x)

    stage = stages_of(pb.explore(deep, W, X, compile=False))["base"]
    (repeat,) = [row for row in stage["rows"] if row.get("head") == "repeat"]
    assert (repeat["count"], repeat["label"]) == (4, "block 0 to block 3")


def sloped(w, x):
    return pnp.sum(w**2) + pnp.sum(pnp.sin(x))


PARTIAL = {
    "grad": ([functools.partial(pb.grad, argnums=1)], ["d x"]),
    "value_and_grad": ([functools.partial(pb.value_and_grad, argnums=(0, 1))], ["d w", "d x"]),
}


@pytest.mark.parametrize("name", PARTIAL)
def test_options_of_a_partial_transformation_are_seen(name):
    apply, tangents = PARTIAL[name]
    stages = stages_of(pb.explore(sloped, W, X, apply=apply, compile=False))
    assert [row["arg"] for row in stages["jvp"]["rows"] if "arg" in row][2:] == tangents
    donating = pb.explore(sloped, W, X, apply=[functools.partial(pb.jit, donate_argnums=0)], compile=False)
    assert [row.get("donated") for row in stages_of(donating)["simplify"]["rows"] if "arg" in row] == [True, None]


def test_a_transformation_of_ones_own_is_not_taken_for_one_of_ours():
    def grad(function):
        return lambda *args: function(*args) * 2.0

    found = pb.explore(sloped, W, X, apply=[grad, grad, "grad"], compile=False)
    assert [stage["id"] for stage in found.data["stages"]][2:] == [
        "own_grad",
        "own_grad-2",
        "jvp",
        "linearize",
        "grad",
        "simplify",
    ]
    assert "where there were" in stages_of(found)["own_grad"]["deltas"][0]
    check_page(found.data)


def test_remat_is_checkpoint():
    found = pb.explore(plain, X, apply="remat,grad", values=True, compile=False)
    assert stages_of(found)["checkpoint"]["name"] == "Checkpointed" and stages_of(found)["base"]["values"]


def test_plumbing_stays_what_it_is_in_later_stages():
    batch = np.ones((7, 3, 5), "float32")
    found = pb.explore(lambda x: pnp.sin(x), batch, apply="vmap(in_axes=1),vmap(in_axes=0)", compile=False)
    for id in ("vmap", "vmap-2", "simplify"):
        assert [row["role"] for row in equations_in(stages_of(found)[id])] == ["batch", "primal"], id


@pb.jit
def jitted(x):
    return pnp.sum(pnp.sin(x))


class Weighted:
    def __call__(self, x):
        return pnp.sum(pnp.sin(x))


WHOLE = [("a jitted function", jitted, "@pb.jit"), ("a jitted object", pb.jit(Weighted()), "def __call__(self, x):")]


@pytest.mark.parametrize(("function", "begins"), [case[1:] for case in WHOLE], ids=[case[0] for case in WHOLE])
def test_the_call_of_a_jitted_function_is_where_that_begins(function, begins):
    """Not where `pb.explore` is called, which is no part of it."""
    found = pb.explore(function, X, apply="grad", compile=False)
    check_page(found.data)
    stages = stages_of(found)
    rows = stages["source"]["rows"]
    assert rows[0]["text"].strip() == begins and not any("pb.explore" in row["text"] for row in rows)
    for stage in ("base", "linearize", "grad"):
        calls = [row for row in equations_in(stages[stage]) if row["op"] == "call"]
        assert calls and {row["line"] for row in calls} == {rows[0]["id"]}
    assert [id for id, _ in equations_in(stages["base"])[0]["from"]] == [rows[0]["id"]]


@pytest.fixture
def two_files(tmp_path):
    """A function that begins with what one of another file does."""
    names: dict[str, Any] = {"pnp": pnp}
    for file, text in {
        "helpers.py": "# helps\ndef helper(x):\n    return x @ x\n",
        "model.py": "def loss(x):\n    y = helper(x)\n    return pnp.sum(y * 2.0)\n",
    }.items():
        (tmp_path / file).write_text(text)
        exec(compile(text, tmp_path / file, "exec"), names)
    return names["loss"]


def test_of_several_files_the_functions_own_is_first_and_lines_are_told_with_their_file(two_files, capsys):
    found = pb.explore(two_files, W, compile=False)
    check_page(found.data)
    rows = stages_of(found)["source"]["rows"]
    assert [(row["file"], row["line"]) for row in rows if "line" in row] == [
        *[("model.py", line) for line in (1, 2, 3)],
        *[("helpers.py", line) for line in (2, 3)],
    ]
    assert [row["text"] for row in rows if row["text"].startswith("#")] == ["# model.py", "# helpers.py"]
    found.show("base")
    lines = capsys.readouterr().out.splitlines()
    assert {line.partition("  # ")[2] for line in lines if " = " in line} == {"helpers.py:3", "model.py:3"}


SENTENCES = [
    ("a sum of doubles", lambda x: pnp.sum(x * 2.0), X, "grad added 1 equation: 1 runs backward; no FLOPs."),
    ("nothing", lambda x: x, 1.0, "grad added no equations;"),
]


@pytest.mark.parametrize(("function", "x", "words"), [case[1:] for case in SENTENCES], ids=[case[0] for case in SENTENCES])
def test_sentences_leave_out_what_is_none(function, x, words):
    found = pb.explore(function, x, apply="grad")
    told = [sentence for stage in found.data["stages"] for sentence in stage.get("deltas", ())]
    assert any(sentence.startswith(words) for sentence in told)
    assert not any(re.search(r"(?<![\d.])0 (run|only|merged|times)|: 0 equations", sentence) for sentence in told)


def unchanged(x):
    return x


def test_a_function_that_does_nothing_is_shown():
    stages = stages_of(pb.explore(unchanged, X, compile=False))
    assert [row["text"] for row in stages["source"]["rows"]] == ["def unchanged(x):", "    return x"]


def test_what_calls_the_explorer_is_no_heading():
    """What a transformation does by itself is done where it is called: which is here, by the explorer."""

    def looking(function):
        return pb.explore(function, X, apply="jacfwd", compile=False)

    rows = stages_of(looking(lambda x: pnp.sin(x) * x))["jacfwd"]["rows"]
    last = [row for row in rows if "op" in row][-1]
    assert "line" not in last and not [row["label"] for row in rows if row.get("head") == "scope"]


@pytest.mark.parametrize("name", ["a-b", "grad-2", "costs", "profile", "source", "simplify"])
def test_no_name_of_a_transformation_of_ones_own_is_that_of_another_pane(name):
    """The page has panes of its own for costs and times, and the number of a stage stands behind a hyphen."""

    def transformed(function):
        return lambda *args: function(*args) * 2.0

    transformed.__name__ = name
    found = pb.explore(layered, W, X, apply=[transformed, transformed, "grad"], compile=False)
    check_page(found.data)
    own = found.data["stages"][2:4]
    assert [stage["name"] for stage in own] == [name, name] and not {"costs", "profile", "grad-2"} & {one["id"] for one in own}
    assert all("equations, where there were" in stage["deltas"][0] for stage in own)
