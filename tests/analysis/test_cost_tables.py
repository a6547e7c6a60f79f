"""`pb.cost`: each view adds up to the whole, and says what was counted."""

from __future__ import annotations

import io
import json
import linecache
import re
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.analysis.costs import VIEWS, CostTable
from pullback.analysis.tables import count, duration, size
from pullback.program.cost import cost as cost_of

X, W = pb.ArrayType((16, 8), "float32"), pb.ArrayType((8, 4), "float32")


def layer(w: Any, x: Any) -> Any:
    with pb.named_scope("layer"):
        h = x @ w
        with pb.named_scope("activation"):
            return pnp.tanh(h)


def step(c: Any, _: Any) -> Any:
    return pnp.sin(c) * 0.5, None


def loss(w: Any, x: Any) -> Any:
    h, _ = lax.scan(step, layer(w, x), None, length=7)
    return pnp.sum(pb.checkpoint(pnp.exp)(h) ** 2)


def branching(w: Any, x: Any) -> Any:
    h = lax.cond(pnp.sum(x) > 0.0, lambda: pnp.sin(x @ w @ w.T @ w), lambda: pnp.tan(x)[:, :4])
    cosine = pb.jit(pnp.cos)
    return pnp.sum(cosine(h) + cosine(h * 2.0))


def searching(w: Any, x: Any) -> Any:
    return lax.while_loop(lambda c: pnp.sum(c) < 9.0, lambda c: pnp.tanh(c) + c, x @ w)


FUNCTIONS: dict[str, Any] = {
    "plain": loss,
    "grad": pb.grad(loss),
    "vmap of grad": lambda w, x: pb.vmap(pb.grad(loss), (None, 0))(w, pnp.stack([x, x])),
    "jit of grad": pb.jit(pb.grad(loss)),
    "hessian": lambda w, x: pb.hessian(lambda a: loss(w * a, x))(1.0),
    "branches, and a Program in two places": branching,
    "a loop of unknown length": searching,
    "nothing": lambda w, x: x,
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_view_adds_up_to_the_whole(name: str, view: str) -> None:
    table = pb.cost(FUNCTIONS[name], W, X, backend=False)
    assert table.total == cost_of(table.program)
    rows = [row for row in table.by(view).rows if row.depth == 0]
    for field in ("flops", "transcendentals", "work", "bytes", "sent"):
        assert sum([getattr(row, field) for row in rows]) == getattr(table.total, field), field
    if rows and table.total.work:
        assert sum([row.share_of_work for row in rows]) == pytest.approx(1)
        assert sum([row.share_of_bytes for row in rows]) == pytest.approx(1)
    assert table.by(view).text()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_inside_adds_up_to_what_holds_it(name: str) -> None:
    rows = pb.cost(FUNCTIONS[name], W, X, backend=False).equations
    leaves = [one.cost.work for one in rows if not one.holds]
    assert sum(leaves) == sum([one.cost.work for one in rows if one.depth == 0])


def test_lines_say_what_they_cost() -> None:
    table = pb.cost(loss, W, X, backend=False)
    (product,) = [row for row in table.rows if row.code == "h = x @ w"]
    assert product.flops == 2 * 16 * 8 * 4 and product.bytes == 4 * (16 * 8 + 8 * 4 + 16 * 4)
    assert product.intensity == product.flops / product.bytes
    (inner,) = [row for row in table.rows if row.code.startswith("return pnp.sin(c)")]
    assert (inner.times, inner.equations, inner.transcendentals) == ((7, 7), 2, 7 * 64)
    assert product.file == __file__ and linecache.getline(__file__, product.line).strip() == product.code


def test_costs_of_the_backward_pass_go_to_the_lines_of_the_user() -> None:
    forward, both = [pb.cost(f, W, X, backend=False) for f in (loss, pb.grad(loss))]
    per_line = {row.code: row.flops for row in forward.rows}
    (product,) = [row for row in both.rows if row.code == "h = x @ w"]
    assert product.flops == 2 * per_line["h = x @ w"]  # x needs no derivative
    roles = {row.name: row for row in both.by("role").rows}
    assert roles.keys() == {"primal", "residual", "cotangent"}
    assert roles["cotangent"].flops >= 2 * 16 * 8 * 4


def test_scopes_include_those_in_them() -> None:
    rows = {(row.name, row.depth): row for row in pb.cost(loss, W, X, backend=False).by("scope").rows}
    assert rows["layer", 0].transcendentals == rows["activation", 1].transcendentals == 64
    assert rows["layer", 0].flops == 2 * 16 * 8 * 4 and rows["activation", 1].flops == 0
    assert rows["(no scope)", 0].transcendentals == 7 * 64 + 64


def test_equations_have_the_ids_of_the_program() -> None:
    table = pb.cost(loss, W, X, backend=False)
    assert [row.id for row in table.by("equation").rows if not row.depth] == [one.id for one in table.program.equations]


def test_of_branches_the_other_ones_count_nothing() -> None:
    table = pb.cost(branching, W, X, backend=False)
    times = {(one.primitive, one.times) for one in table.equations if one.depth}
    assert times >= {("dot_general", 1), ("sin", 1), ("tan", 0), ("cos", 2)}
    assert "x0: in a branch that does not count" in table.by("equation").text()


def test_a_loop_of_unknown_length_is_told_from_others() -> None:
    table = pb.cost(searching, W, X, backend=False)
    assert table.total.loops == 1
    marked = {one.primitive for one in table.equations if one.open}
    assert marked >= {"tanh", "reduce_sum", "lt"} and "dot_general" not in marked
    assert "+ in a loop whose number of steps only running it tells: one step is counted" in table.text()
    assert [row.open for row in table.by("primitive").rows if row.name == "tanh"] == [True]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float8_e5m2", "int32", "uint8", "bool", "complex64"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (5,), (2000, 2000)])
def test_types_and_shapes(shape: tuple[int, ...], dtype: str) -> None:
    table = pb.cost(lambda x: pnp.where(x == x, x, x), pb.ArrayType(shape, dtype), backend=False)
    assert table.total.flops >= 2 * int(np.prod(shape)) and repr(table)


def test_keys() -> None:
    table = pb.cost(lambda key: pb.random.normal(key, (100,)), pb.random.key(0), backend=False)
    assert table.total.flops >= 100 * 100


def test_very_large_numbers() -> None:
    wide = pb.ArrayType((10**6, 10**6), "float32")
    table = pb.cost(lambda x: x @ x, wide, backend=False)
    assert table.total.flops == 2e18 and "2e+03 P" not in table.text()


def test_arguments_as_a_call_takes_them() -> None:
    def f(params: dict[str, Any], x: Any, *, scale: Any) -> Any:
        return {"out": x @ params["w"] * scale}

    assert pb.cost(f, {"w": W}, X, scale=2.0, backend=False).total.flops == 2 * 16 * 8 * 4 + 64
    assert pb.cost(f, {"w": np.ones((8, 4), "float32")}, np.ones((16, 8), "float32"), scale=2.0, backend=False).total.flops > 0


def test_static_arguments_of_a_jitted_function() -> None:
    f = pb.jit(lambda x, n: x**n, static_argnums=1)
    assert pb.cost(f, X, 4).total.flops == 2 * 128


# ---- beside XLA's --------------------------------------------------------


def test_the_compiled_figures_stand_beside() -> None:
    table = pb.cost(loss, W, X)
    assert table.compiled is not None and table.compiled["flops"] > 0
    assert "compiled by XLA: " in table.text() and "of a loop it counts one step" in table.text()


def test_no_difference_is_explained_where_there_is_none() -> None:
    text = pb.cost(lambda x: x + x, X).text()
    assert "compiled by XLA: 128 FLOPs" in text and "XLA counts what it has fused" not in text


@pytest.mark.parametrize(("shape", "said"), [((), "compiled by XLA: 1 FLOP, "), ((0,), "compiled by XLA: it counts nothing")])
def test_one_or_nothing_is_said_in_words(shape: tuple[int, ...], said: str) -> None:
    assert said in pb.cost(lambda x: x + x, pb.ArrayType(shape, "float32")).text()


def test_a_large_program_is_compiled_only_if_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pullback.analysis.compiled.MOST_EQUATIONS", 1)
    assert pb.cost(lambda x: x + x, X).compiled is not None
    table = pb.cost(lambda x: (x + x) * x, X)
    assert table.compiled is None and "XLA was not asked, since it has 2 equations" in table.text()
    assert pb.cost(lambda x: (x + x) * x, X, backend=True).compiled is not None


def test_what_cannot_be_compiled_says_so() -> None:
    mesh = pb.sharding.AbstractMesh((4,), ("i",))
    f = pb.shard_map(lambda x: x * 2.0, mesh=mesh, in_specs=pb.P("i"), out_specs=pb.P("i"))
    table = pb.cost(f, X)
    assert table.compiled is None and "XLA was not asked, since it cannot be compiled here: " in table.text()
    with pytest.raises(pb.errors.PullbackError):
        pb.cost(f, X, backend=True)


def test_ten_thousand_equations_take_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rule is asked once for each equation, not once for each row, view or holder."""

    def f(x: Any) -> Any:
        for i in range(5000):
            x = pnp.sin(x) + float(i)
        return x

    asked = []
    program = pb.xpr(f, X)
    own = CostTable.__init__

    def counted(*args: Any) -> None:
        asked.append(len(args[2]))
        own(*args)

    monkeypatch.setattr(CostTable, "__init__", counted)
    table = pb.cost(f, X)
    assert asked == [10_000] == [len(program.equations)]
    assert table.compiled is None and len(table.rows) == 1 and table.total.transcendentals == 5000 * 128


# ---- measured ----------------------------------------------------------------------------------------------------------------


def running(x: Any) -> Any:
    h = lax.while_loop(lambda c: pnp.sum(c) < 1000.0, lambda c: c * 2.0, x)
    h = lax.cond(pnp.sum(h) < 0.0, lambda h: h @ h, lambda h: pnp.sin(h), h)
    cosine = pb.jit(pnp.cos)
    h, _ = lax.scan(lambda c, _: (cosine(c), None), h, None, length=3)
    return pnp.sum(cosine(h))


def test_what_runs_is_counted_as_it_runs() -> None:
    x = np.ones((8, 8), "float32")  # the sum of 64 is doubled 4 times before it is 1000
    table = pb.cost(running, x, measure=True, backend=False)
    times = {(one.primitive, one.depth): one.times for one in table.equations}
    assert times["mul", 1] == 4 and times["lt", 1] == 5
    assert times["sin", 1] == 1 and times["dot_general", 1] == 0 and times["cos", 2] == 4
    assert table.total.loops == 0 and not any([one.open for one in table.equations])
    assert table.total.transcendentals == 64 + 4 * 64
    assert table.total.flops == 4 * 64 + 5 * 64 + 64 + 63  # products, sums and comparisons, the predicate, the last sum
    assert "in a branch that was not taken" in table.by("equation").text()
    assert "time: on NumPy, one operation after the other, " in table.text()


@pytest.mark.parametrize("view", VIEWS)
def test_measured_views_add_up(view: str) -> None:
    table = pb.cost(
        pb.value_and_grad(loss), np.ones((8, 4), "float32"), np.ones((16, 8), "float32"), measure=True, backend=False
    )
    rows = [row for row in table.by(view).rows if row.depth == 0]
    assert sum([row.work for row in rows]) == pytest.approx(table.total.work)
    assert sum([row.bytes for row in rows]) == pytest.approx(table.total.bytes)
    assert table.seconds is not None and table.seconds > 0 and all([row.seconds is not None for row in rows])


def _solved(a: Any, b: Any) -> Any:
    """By a symmetric solver, whose backward pass solves by the equations of the forward one."""
    spread = a @ a.T + 9 * pnp.eye(8, dtype="float32")
    return pnp.sum(lax.custom_linear_solve(lambda v: spread @ v, b, lambda _, v: pnp.linalg.solve(spread, v), symmetric=True))


def _called_twice(x: Any, _: Any) -> Any:
    """By a jitted function whose second call needs less of it than the first."""
    wave = pb.jit(lambda x: pnp.sin(x) * 2.0)
    return pnp.sum(wave(wave(x)))


@pytest.mark.parametrize("function", [_solved, _called_twice])
def test_what_several_programs_share_is_measured_in_each(function: Any) -> None:
    arrays = np.eye(8, dtype="float32"), np.ones(8, "float32")
    plain, measured = [pb.cost(pb.grad(function), *arrays, measure=flag, backend=False) for flag in (False, True)]
    assert measured.total[:4] == pytest.approx(plain.total[:4])
    assert {one.times for one in measured.equations if one.primitive in ("solve", "cos")} == {1}


def test_where_lengths_are_known_measuring_changes_no_count() -> None:
    arrays = np.ones((8, 4), "float32"), np.ones((16, 8), "float32")
    for function in (loss, pb.grad(loss), pb.jit(pb.grad(loss)), pb.vmap(loss, (None, 0))):
        given = (arrays[0], arrays[1][None]) if function is not loss and "vmap" in function.__name__ else arrays
        plain, measured = [pb.cost(function, *given, measure=flag, backend=False) for flag in (False, True)]
        assert measured.total[:4] == pytest.approx(plain.total[:4]), function
        assert plain.seconds is None


def test_a_loop_of_no_steps_and_static_arguments() -> None:
    table = pb.cost(running, np.full((8, 8), 100.0, "float32"), measure=True, backend=False)
    assert {one.primitive: one.times for one in table.equations}["mul"] == 0
    power = pb.jit(lambda x, n: x**n, static_argnums=1)
    assert pb.cost(power, np.ones(3, "float32"), 4, measure=True, backend=False).total.flops == 6


def test_measuring_takes_values() -> None:
    with pytest.raises(pb.errors.LeafError, match=r"argument x is the type .*, which has no values"):
        pb.cost(running, pb.ArrayType((8, 8), "float32"), measure=True)
    with pytest.raises(TypeError, match="measure"):
        pb.cost(running, X, measure="time")  # type: ignore[arg-type]


# ---- how it is shown --------------------------------------------------------


def test_the_text_is_aligned() -> None:
    lines = pb.cost(pb.grad(loss), W, X, backend=False).by("equation").text().split("\n")[1:]
    place = lines[0].index("at  ")
    assert all([line[place - 2 : place] in ("  ", "") for line in lines])


def test_long_tables_are_cut_and_say_so() -> None:
    functions = {f"f{i}": f"pb.numpy.sin(x) * {i}.0" for i in range(60)}
    body = "def f(x):\n" + "".join([f"    x = {text}\n" for text in functions.values()]) + "    return x\n"
    space: dict[str, Any] = {"pb": pb}
    exec(compile(body, "many.py", "exec"), space)
    table = pb.cost(space["f"], X, backend=False)
    assert len(table.rows) == 60 and "... and 36 rows more: .rows has all" in table.text()


def test_as_html() -> None:
    html = pb.cost(lambda x: x < x, X, backend=False)._repr_html_()
    assert html.startswith("<table>") and "<code>html = pb.cost(lambda x: x &lt; x, X" in html
    assert re.search(r'<td style="[^"]*white-space:nowrap">\d+ B</td>', html)  # a figure with its unit, in a narrow notebook


def test_on_a_terminal() -> None:
    file = io.StringIO()
    pb.cost(pb.grad(loss), W, X, backend=False).by("equation").show(color=True, file=file)
    assert "\x1b[" in file.getvalue() and "dot_general" in file.getvalue()
    plain = io.StringIO()
    table = pb.cost(loss, W, X, backend=False)
    table.show(file=plain)
    assert plain.getvalue() == f"{table}\n"


@pytest.mark.parametrize("width", [1, 20, 60, 80, 160, 300])
def test_on_a_narrow_terminal_code_gives_way_and_figures_never_do(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    table = pb.cost(pb.grad(loss), W, X, backend=False).by("equation")
    file = io.StringIO()
    table.show(color=True, file=file)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue()).split("\n")
    shown = [line.split() for line in lines if " = " in line]
    (plain,) = table.tables()
    figures = [" ".join([cell for cell, column in zip(row, plain.columns) if not column.code]).split() for row in plain.rows]
    assert [row[: len(figure)] for row, figure in zip(shown, figures)] == figures
    assert ("code" in " ".join(lines).split()) == (width >= 160)


@pytest.mark.parametrize(
    "number", [0.0, 0.5, 999.4, 999.7, 12_345.0, 99_999.5, 123_456.0, 999_499.0, 999_960.0, 1e6, 999.99e12, 1e20, 1e22]
)
def test_numbers_are_shown_to_three_digits(number: float) -> None:
    letters = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
    for shown, read, unit in ((count(number), 1.0, ""), (size(number), 1.0, "B"), (duration(number / 1e6) or "0", 1e-6, "s")):
        digits, _, suffix = shown.partition(" ")
        prefix = suffix.removesuffix(unit)
        scale = {"m": 1e-3, "u": 1e-6}.get(prefix, 1.0) if unit == "s" else letters.get(prefix, 1.0)
        assert "e" not in shown and abs(float(digits.replace(",", "")) * scale - number * read) <= 0.005 * number * read


def test_texts_of_wide_characters_are_aligned() -> None:
    def f(x: Any) -> Any:
        with pb.named_scope("层一"):
            x = pnp.sin(x)
        with pb.named_scope("layer"):
            return pnp.cos(x)

    lines = pb.cost(f, X, backend=False).by("scope").text().split("\n")[1:4]
    assert [sum([2 if one in "层一" else 1 for one in line]) for line in lines] == [len(lines[0])] * 3


def test_as_json() -> None:
    table = pb.cost(pb.grad(loss), W, X)
    found = json.loads(table.to_json())
    assert found["total"]["flops"] == table.total.flops and found["compiled"]["flops"] == table.compiled["flops"]  # type: ignore[index]
    assert len(found["equations"]) == len(table.equations)
    assert {"id", "primitive", "role", "file", "line", "scope", "times", "cost"} <= found["equations"][0].keys()


# ---- errors --------------------------------------------------------


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="cost"):
        pb.cost(3, X)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="backend"):
        pb.cost(loss, W, X, backend="cpu")  # type: ignore[arg-type]
    with pytest.raises(pb.errors.LeafError, match="argument w"):
        pb.cost(loss, "weights", X)
    with pytest.raises(ValueError, match=r"CostTable\.by takes one of 'line', 'equation'.*but got 'lines'"):
        pb.cost(loss, W, X, backend=False).by("lines")
    with pytest.raises(pb.errors.ShapeError):
        pb.cost(loss, X, X)
