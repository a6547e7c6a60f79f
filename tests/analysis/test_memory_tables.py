"""`pb.memory`: the peak and what is there, what the backward pass keeps, what is donated."""

from __future__ import annotations

import io
import json
import warnings
from collections import Counter
from typing import Any

import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax

X, W = pb.ArrayType((100, 20), "float32"), pb.ArrayType((20, 20), "float32")
XS, WS = 8000, 1600  # bytes


def loss(w: Any, x: Any) -> Any:
    h = pnp.tanh(x @ w)
    return pnp.sum(pnp.sin(h) ** 2)


def looped(w: Any, x: Any) -> Any:
    h, _ = lax.scan(lambda c, _: (pnp.tanh(c @ w), None), x, None, length=6)
    return pnp.sum(h)


NESTS: dict[str, Any] = {
    "grad": pb.grad(loss),
    "jit of grad": pb.jit(pb.grad(loss)),
    "grad of jit": pb.grad(pb.jit(loss)),
    "vmap of grad": lambda w, x: pb.vmap(pb.grad(loss), (None, 0))(w, pnp.reshape(x, (5, 20, 20))),
    "grad in a call": lambda w, x: pb.jit(lambda w: pb.grad(loss)(w, x))(w),
    "value and grad": pb.value_and_grad(loss),
    "grad of a scan": pb.grad(looped),
    "grad with a checkpoint": pb.grad(pb.checkpoint(loss)),
}


LOOPS: dict[str, Any] = {
    "the test of a while_loop": lambda x: lax.while_loop(lambda c: pnp.sum(c) < 9.0, lambda c: c * 2.0, x),
    "a test that takes more than the body": lambda x: lax.while_loop(
        lambda c: pnp.sum(pnp.sort(c)) < 9.0, lambda c: c * 2.0, x
    ),
    "a scan": lambda x: lax.scan(lambda c, _: (pnp.sin(c), None), x, None, length=5)[0],
    "a scan that does nothing": lambda x: lax.scan(lambda c, x: (c, x), x, x)[0],
    "a scan of nothing": lambda x: lax.scan(lambda c, x: (c, None), 1.0, x)[0],
    "a scan in a while_loop": lambda x: lax.while_loop(
        lambda c: pnp.sum(c) < 9.0, lambda c: lax.scan(lambda c, _: (pnp.sin(c), c), c, None, length=5)[0], x
    ),
    "a branch that does nothing": lambda x: lax.cond(x[0, 0] > 0.0, pnp.sort, lambda x: x, x),
    "branches that do nothing": lambda x: lax.cond(x[0, 0] > 0.0, lambda x: x, lambda x: x, x + 1.0),
    "a call that does nothing": lambda x: pb.jit(lambda x: (x, x))(x + 1.0),
}


@pytest.mark.parametrize("donate", [None, 0])
@pytest.mark.parametrize("name", LOOPS)
def test_what_is_there_adds_up_to_the_peak_of_loops_and_branches(name: str, donate: int | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # not every result can take the memory
        table = pb.memory(LOOPS[name], X, donate_argnums=donate, backend=False)
    assert sum([one.bytes for one in table.values]) == table.peak
    assert table.peak == table.held + max(table.liveness.live.values(), default=table.peak - table.held)


def test_a_donated_argument_becomes_the_carry_of_a_loop() -> None:
    table = pb.memory(LOOPS["a scan"], X, donate_argnums=0)
    assert table.peak == XS and table.compiled is not None
    assert table.peak <= table.compiled["output_size_in_bytes"] + table.compiled["temp_size_in_bytes"] <= table.peak + 256


@pytest.mark.parametrize("name", NESTS)
def test_what_is_there_adds_up_to_the_peak(name: str) -> None:
    table = pb.memory(NESTS[name], W, X, backend=False)
    assert sum([one.bytes for one in table.values]) == table.peak
    assert table.peak >= table.held and table.residuals and table.text()


def test_the_residuals_are_those_of_reverse_mode() -> None:
    table = pb.memory(pb.grad(loss, (0, 1)), W, X, backend=False)
    saved = pb.saved_residuals(loss, W, X)
    mine, theirs = [sorted([one.bytes for one in found]) for found in (table.residuals, saved)]
    assert mine == theirs
    assert {one.made_by for one in table.residuals} == {"argument w", "argument x", "sech_squared", "cos", "mul"} | (
        {one.made_by for one in table.residuals} & {"sin"}
    )


def test_a_residual_says_who_made_it_and_which_rule_wants_it() -> None:
    found = {one.made_by: one for one in pb.memory(pb.grad(loss), W, X, backend=False).residuals}
    tanh = found["sech_squared"]
    assert tanh.wanted_by == ("transpose of tanh",) and tanh.text == "h = pnp.tanh(x @ w)" and tanh.role == "residual"
    assert found["argument x"].wanted_by == ("transpose of dot_general",) and found["argument x"].line == 0


def test_residuals_of_a_scan_are_stacked_and_made_in_its_body() -> None:
    found = {one.made_by: one for one in pb.memory(pb.grad(looped), W, X, backend=False).residuals}
    assert found["sech_squared"].bytes == 6 * XS and "pnp.tanh(c @ w)" in found["sech_squared"].text
    assert "transpose of dot_general" in found["argument w"].wanted_by


def test_what_a_loop_stacks_is_made_in_its_body_at_the_peak_too() -> None:
    table = pb.memory(pb.grad(looped), W, X, backend=False)
    kept = {one.id: one for one in table.residuals if one.made_by == "sech_squared"}
    found = [one for one in table.values if one.made_by == "sech_squared"]
    assert [(one.bytes, one.text, one.id in kept) for one in found] == [(6 * XS, kept[found[0].id].text, True)]


def test_values_that_are_alike_are_one_row_with_their_number_and_bytes() -> None:
    def twins(x: Any) -> Any:
        return sum([pnp.sin(x + number) @ pnp.cos(x + number).T for number in range(3)])

    table = pb.memory(lambda x: pnp.sum(twins(x) ** 2), X, apply="grad", backend=False)
    _, kept = table.tables()
    alike = Counter([(f"{one.bytes:,}", str(one.type), one.made_by, one.wanted_by) for one in table.residuals])
    expected = [(type if many == 1 else f"{many} x {type}", made_by) for (_, type, made_by, _), many in alike.items()]
    assert sorted([(row[1], row[2]) for row in kept.rows]) == sorted(expected) and 3 in alike.values()
    for row in kept.rows:
        many = int(row[1].partition(" x ")[0]) if " x " in row[1] else 1
        one = next(one for one in table.residuals if str(one.type) == row[1].rpartition(" ")[2])
        assert row[0] == f"{many * one.bytes:,} B"
    assert kept.title.startswith(f"kept for the backward pass: {len(table.residuals)} values, ")


@pytest.mark.parametrize(
    "f",
    [
        looped,
        lambda w, x: pnp.sum(lax.fori_loop(0, 4, lambda i, c: pnp.tanh(c @ w), x)),
        lambda w, x: pnp.sum(lax.while_loop(lambda c: pnp.sum(c) < 9.0, lambda c: pnp.tanh(c @ w), x, max_steps=6)),
        lambda w, x: pnp.sum(lax.scan(pb.checkpoint(lambda c, _: (pnp.tanh(c @ w), None)), x, length=5)[0]),
        lambda w, x: pnp.sum(pb.jit(lambda w, x: pnp.tanh(pnp.tanh(x @ w) @ w))(w, x)),
    ],
)
def test_what_is_kept_is_what_reverse_mode_saves_of_loops_too(f: Any) -> None:
    kept = pb.memory(pb.grad(f, (0, 1)), W, X, backend=False).residuals
    assert sorted([one.bytes for one in kept]) == sorted([one.bytes for one in pb.saved_residuals(f, W, X)])


def test_without_a_backward_pass_nothing_is_kept() -> None:
    table = pb.memory(loss, W, X, backend=False)
    assert table.residuals == [] and "backward" not in table.text()


def test_the_peak_says_where_it_is() -> None:
    def f(x: Any) -> Any:
        wide = pnp.concatenate([x, x, x])
        return pnp.sum(wide, axis=0)

    table = pb.memory(f, X, backend=False)
    assert table.equation is not None and table.equation.primitive.name == "reduce_sum"
    assert table.peak == XS + 3 * XS + 80 and table.held == XS
    assert [(one.made_by, one.bytes) for one in table.values] == [
        ("concatenate", 3 * XS),
        ("argument x", XS),
        ("reduce_sum", 80),
    ]
    assert "most is in memory in reduce_sum at " in table.text() and "return pnp.sum(wide, axis=0)" in table.text()


def test_donated_arguments() -> None:
    def f(x: Any, w: Any) -> Any:
        return x * 2.0, pnp.sum(w)

    table = pb.memory(f, X, W, donate_argnums=0, backend=False)
    assert [(one.name, one.bytes, one.result) for one in table.donated] == [("x", XS, 0)]
    assert table.peak == pb.memory(f, X, W, backend=False).peak - XS
    assert "donated" in table.text() and "result 0" in table.text()


def test_a_donated_argument_that_no_result_can_take_is_held() -> None:
    table = pb.memory(lambda x, w: pnp.sum(x) + w, X, W, donate_argnums=(0, 1), backend=False)
    assert [(one.name, one.result) for one in table.donated] == [("x", None), ("w", 0)]
    assert "no result can take its memory" in table.text() and table.held == XS


def test_a_jitted_function_says_itself_what_it_donates() -> None:
    f = pb.jit(lambda x: x + 1.0, donate_argnums=0)
    assert [one.name for one in pb.memory(f, X, backend=False).donated] == ["x"]
    with pytest.raises(ValueError, match="memory takes donate_argnums of functions that are not jitted"):
        pb.memory(f, X, donate_argnums=0)


def test_what_is_overwritten_is_counted() -> None:
    table = pb.memory(lambda x: pnp.sin(x) * 2.0 + 1.0, X, backend=False)
    assert table.overwritten == 2 and "2 results overwritten in place" in table.text()


@pytest.mark.parametrize("dtype, peak", [("int32", 2 * XS), ("float16", 2 * XS + XS // 2), ("float64", 4 * XS)])
def test_a_conversion_overwrites_what_has_as_many_bytes(dtype: str, peak: int) -> None:
    assert pb.memory(lambda x: (x + 1.0).astype(dtype), X, backend=False).peak == peak


def test_constants_are_held() -> None:
    table = pnp.ones((50, 20), "float32")
    found = pb.memory(lambda x: x @ table.T, X, backend=False)
    assert found.held == XS + 4000 and "constant" in [one.made_by for one in found.values]


def test_constants_of_programs_that_are_held_are_named_too() -> None:
    table = pnp.ones((50, 20), "float32")
    found = pb.memory(lambda x: lax.scan(lambda c, r: (c, table @ r), x[0], x)[1], X, backend=False)
    assert sum([one.bytes for one in found.values]) == found.peak


def test_the_compiled_figures_stand_beside() -> None:
    table = pb.memory(pb.grad(looped), W, X)
    assert table.compiled is not None and table.compiled["argument_size_in_bytes"] == table.held >= XS + WS
    assert "compiled by XLA: " in table.text() and "of temporaries" in table.text()


def test_in_a_loop_nothing_fuses_away_and_the_model_is_near_what_xla_takes() -> None:
    wide = pb.ArrayType((500, 200), "float32"), pb.ArrayType((200, 200), "float32")
    found = pb.memory(pb.grad(looped), wide[1], wide[0])
    theirs = found.compiled
    assert theirs is not None
    taken = theirs["argument_size_in_bytes"] + theirs["output_size_in_bytes"] + theirs["temp_size_in_bytes"]
    assert 0.6 < taken / found.peak < 1.7


def test_zero_sizes_and_no_equations() -> None:
    assert pb.memory(lambda x: pnp.sin(x), pb.ArrayType((0, 3), "float32")).peak == 0
    table = pb.memory(lambda x: x, X, backend=False)
    assert table.equation is None and table.peak == XS and "8,000 B at the peak" in table.text()


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float8_e4m3fn", "int16", "bool", "complex128"])
def test_dtypes(dtype: str) -> None:
    x = pb.ArrayType((10,), dtype)
    assert pb.memory(lambda x: pnp.concatenate([x, x]), x, backend=False).peak == 3 * x.nbytes


def test_as_json_html_and_on_a_terminal() -> None:
    table = pb.memory(pb.grad(loss), W, X, donate_argnums=0)
    found = json.loads(table.to_json())
    assert found["peak"] == table.peak and len(found["residuals"]) == len(table.residuals)
    assert found["live"].keys() == {str(number) for number in table.liveness.live}
    assert table._repr_html_().count("<table>") == 3
    assert " of values<br>most is in memory in " in table._repr_html_()
    file = io.StringIO()
    table.show(color=True, file=file)
    assert "kept for the backward pass" in file.getvalue() and "\x1b[" in file.getvalue()


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="memory"):
        pb.memory("f", X)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="backend"):
        pb.memory(loss, W, X, backend="cpu")  # type: ignore[arg-type]
    with pytest.raises(pb.errors.LeafError):
        pb.memory(loss, "w", X)
