"""Pages of real functions in a browser: every stage opens, and every row of every stage can be pointed at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from browser import Browser

import pullback as pb
import pullback.numpy as pnp
from pullback.explorer.checked import check_page

W, X = np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3), np.linspace(-2, 2, 4, dtype="float32")


def classifier(w: Any, x: Any) -> Any:
    found = pnp.tanh(x @ w)
    spread = pnp.mean(found)  # no result needs it
    del spread
    return pnp.log(pnp.sum(pnp.exp(found))) - found[0]


def filtered(w: Any, x: Any) -> Any:
    """A loop with a branch in it."""

    def step(state: Any, seen: Any) -> Any:
        state = pb.lax.cond(seen < 0.0, lambda s: s, lambda s: pnp.sin(s) + seen, state)
        return state, pnp.sum(state)

    return pnp.sum(pb.lax.scan(step, w[0], x)[1])


def repeated(w: Any, x: Any) -> Any:
    for _ in range(4):
        with pb.named_scope("block"):
            x = pnp.tanh(pnp.tanh(x @ w) @ w.T)
    return pnp.sum(x)


def trap(w: Any, x: Any) -> Any:
    """Its gradient is NaN where x is 0, though its value is finite."""
    return pnp.sum(pnp.where(x * w[0, 0] != 0.0, pnp.log(pnp.abs(x)), 0.0))


BATCH = np.stack([X, 2 * X, 3 * X])
CASES = {
    "classifier": (classifier, (W, BATCH), "grad,vmap(in_axes=(None, 0)),jit"),
    "filtered": (filtered, (W, X), "grad"),
    "repeated": (repeated, (W, X), "grad"),
    "trap": (trap, (W, np.array([0.0, 1.0], "float32")), "grad(argnums=1)"),
    "plain": (classifier, (W, X), ""),
    "forward": (filtered, (W, X), "jacfwd"),
}


@pytest.mark.parametrize("name", CASES)
def test_every_row_of_every_stage(show: Callable[..., Browser], name: str) -> None:
    function, args, apply = CASES[name]
    data = pb.explore(function, *args, apply=apply, values=True).data
    check_page(data)
    stages = [stage["id"] for stage in data["stages"]]
    browser = show(data, f"#panes={','.join(stages)},costs")
    assert browser.count(".pane") == len(stages) + 1
    rows = browser.js(
        "(() => { let count = 0; for (const body of document.querySelectorAll('.body'))"
        " for (const row of [...body.querySelectorAll('.row')]) { const box = row.getBoundingClientRect();"
        " const at = {bubbles: true, clientX: box.x + 30, clientY: box.y + 10};"
        " row.dispatchEvent(new MouseEvent('mousemove', at)); count++; } return count; })()"
    )
    assert rows > 10
    for _ in stages:
        browser.key("Z", "End", "Enter", "g", "z", "g", "g", "Home", "ArrowDown", "u", "ArrowRight")
    browser.key("m", "c", "Escape", "Escape")


def test_the_trap_is_found_and_told(show: Callable[..., Browser]) -> None:
    function, args, apply = CASES["trap"]
    browser = show(pb.explore(function, *args, apply=apply, values=True, compile=False).data)
    assert browser.text("#banner").startswith("! NaN made by")
    browser.click("#banner")
    assert "Cure" in browser.text("#details pre.story")
    assert browser.count(".pane[data-stage=grad] .row.here .bad") == 1


def test_blocks_that_repeat_are_counted(show: Callable[..., Browser]) -> None:
    function, args, apply = CASES["repeated"]
    browser = show(pb.explore(function, *args, apply=apply, compile=False).data)
    assert browser.text(".pane[data-stage=base] .count") == "\u00d74"


def test_the_line_that_nothing_needs(show: Callable[..., Browser]) -> None:
    function = CASES["plain"][0]
    browser = show(pb.explore(function, W, X, compile=False).data)
    assert [row.split("#")[0].split("=")[0].strip() for row in browser.texts(".row.is-dead s")] == ["spread"]


# Of all stages, the variables that have the name of another one of the same Program, by the equation or branch that holds it.
SAME_NAMES = """(() => {
  const same = [];
  for (const stage of explorer.model.stages) {
    const seen = new Set();
    stage.rows.forEach((row, index) => {
      let holder = stage.parent[index];
      while (holder >= 0 && stage.rows[holder].op === undefined && stage.rows[holder].head !== "body")
        holder = stage.parent[holder];
      for (const variable of row.out || []) {
        const key = `${holder} ${stage.mathNames[variable]}`;
        if (seen.has(key)) same.push([stage.id, key]);
        seen.add(key);
      }
    });
  }
  return same;
})()"""


@pytest.mark.parametrize("name", ["classifier", "filtered", "repeated", "trap"])
def test_names_as_mathematics_tell_variables_apart(show: Callable[..., Browser], name: str) -> None:
    function, args, apply = CASES[name]
    data = pb.explore(function, *args, apply=apply, compile=False).data
    browser = show(data, f"#panes={','.join(stage['id'] for stage in data['stages'])}&names=maths")
    assert [found for found in browser.js(SAME_NAMES) if not found[1].endswith(" _")] == []


def test_the_details_say_what_values_are(show: Callable[..., Browser]) -> None:
    def kinds(x: Any, z: Any, nothing: Any) -> Any:
        return pnp.log(x), z * 2.0, nothing + 1.0, x / 0.0, pb.random.split(pb.random.key(0))

    args = np.array([-1.0, 0.0, 2.0], "float32"), np.array([3 + 4j, 1], "complex64"), np.zeros((0, 2), "float32")
    browser = show(pb.explore(kinds, *args, values=True, compile=False).data, "#panes=base")
    expected = {
        "log": "-inf … 0.6931", "mul": "2 … 10 in absolute value", "add": "there are no elements", "div": "none is finite",
        "draw": "2 elements",
    }  # fmt: skip
    for operation, words in expected.items():
        browser.point(browser.row("base", operation) + " .operation")
        assert words in browser.text("#details .values"), browser.text("#details .values")


def test_a_graph_keeps_the_cursor_where_it_was(show: Callable[..., Browser]) -> None:
    """Arguments that are folded among the rows are not in the graph."""

    def f(a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
        return pnp.sum(pnp.tanh(a * b) + c * d - pnp.exp(e))

    browser = show(pb.explore(f, X, X, X, X, X, compile=False).data, "#panes=base")
    assert browser.text(".pane[data-stage=base] .row").strip() == "5 arguments"
    browser.click(browser.row("base", "tanh"))
    browser.key("g")
    assert "tanh" in browser.text(".node.cursor")
    browser.key("g")
    assert "tanh" in browser.text(".pane[data-stage=base] .row.cursor")
