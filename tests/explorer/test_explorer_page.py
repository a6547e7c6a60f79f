"""The page in a browser: what it shows, and what pointing, keys, folding, the search and the address do.

Every test fails also if the page logs an error or asks for anything from the network: the fixture `browser` sees to that.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from browser import Browser
from samples import generated, generated_stage, small

Show = Callable[..., Browser]
ALL = "source,base,grad,vmap,stablehlo,optimized,costs,profile"


def panes(browser: Browser) -> list[str]:
    return list(browser.js("[...document.querySelectorAll('.pane')].map(pane => pane.dataset.stage)"))


def marked(browser: Browser, stage: str, strength: str = "near") -> list[str]:
    """The rows of a pane that are marked: the text up to the operation."""
    rows = browser.texts(f".pane[data-stage={stage}] .row.{strength}")
    return [" ".join(row.split()[:2]) for row in rows]


def cursor(browser: Browser) -> tuple[str, int]:
    return browser.js("explorer.state.active.stage.id"), browser.js("explorer.state.active.cursor")


def kept(browser: Browser) -> int | None:
    """The id of the row that is kept."""
    return browser.js("explorer.state.kept && explorer.model.rowAt[explorer.state.kept.place].id")


def down(count: int) -> list[str]:
    return ["ArrowDown"] * count


# ---- opening


@pytest.mark.parametrize(
    ("width", "state", "expected"),
    [
        (1440, "", ["source", "base", "grad", "vmap"]),
        (1024, "", ["source", "vmap"]),
        (1100, "", ["source", "base", "vmap"]),
        (1440, f"#panes={ALL}", ALL.split(",")),
        (1440, "#panes=vmap,source,vmap,nothing", ["vmap", "source"]),
        (1440, "#panes=nothing", ["source", "base", "grad", "vmap"]),
        (1440, "?embed", ["source", "vmap"]),
    ],
)
def test_it_opens(show: Show, width: int, state: str, expected: list[str]) -> None:
    browser = show(small())
    browser.view(width)
    browser.open(browser.path, state)
    assert panes(browser) == expected
    assert browser.js("document.title") == "Tiny classifier · pullback explorer"
    assert all(browser.count(f".pane[data-stage={stage}] :is(.row, .frame)") > 2 for stage in expected)


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        (["source", "base"], ["source", "base"]),
        (["source"], ["source"]),
        (["source", "base", "simplify"], ["source", "base"]),
        (["source", "base", "jvp", "simplify"], ["source", "base", "jvp"]),
        (["source", "base", "linearize", "grad", "simplify"], ["source", "base", "grad"]),
    ],
)
def test_what_is_open_at_first_is_what_the_transformations_made(show: Show, stages: list[str], expected: list[str]) -> None:
    data = generated(4)
    made = [generated_stage(id_, 4, 1, [], 100 * place) for place, id_ in enumerate(stages[1:], 1)]
    data["stages"] = [data["stages"][0], *made]
    assert panes(show(data)) == expected


def test_ten_thousand_equations_are_virtual(show: Show) -> None:
    browser = show(generated(10_000))
    assert browser.js("explorer.model.count") > 70_000
    assert browser.count(".row") < 250
    browser.js("document.querySelector('.pane[data-stage=grad] .body').scrollTop = 400000")
    browser.settle()
    assert browser.count(".row") < 250
    assert "block 4" in browser.text(".pane[data-stage=grad] .layer")
    browser.key("ArrowRight", "End")
    assert cursor(browser)[1] == browser.js("explorer.state.active.view.size") - 1
    browser.point(browser.row("source", "x7 = ") + " .lineno")
    assert browser.count(".pane[data-stage=base] .row.near") + browser.count(".pane[data-stage=base] .heading") > 0
    assert browser.count("#details ol button") == 4  # itself, and what became of it in three stages


# ---- pointing and keeping


@pytest.mark.parametrize(
    ("stage", "text", "near", "kin"),
    [
        # A source line: all that it became.
        (
            "source",
            "hidden = ",
            {"base": ["d dot_general", "e tanh"], "vmap": ["d dot_general", "e tanh", "o broadcast_in_dim"]},
            {},
        ),
        # A cotangent: the primal equation that it belongs to; fainter, the others of that equation.
        (
            "grad",
            "mul l m",
            {"source": ["5 hidden"], "base": ["e tanh"], "vmap": []},
            {"grad": ["e tanh", "k mul", "m sub"], "vmap": ["e tanh"]},
        ),
        ("base", "exp", {"source": ["7 return"], "grad": ["l exp"], "vmap": ["t neg", "2 of"]}, {}),
        # A heading: what it holds.
        ("base", "scores", {"source": ["5 hidden", "6 found"], "grad": ["d dot_general"]}, {}),
        ("vmap", "dot_general", {"source": ["5 hidden"], "base": ["d dot_general"], "grad": ["d dot_general"]}, {}),
    ],
)
def test_pointing_shows_relatives_in_every_pane(
    show: Show, stage: str, text: str, near: dict[str, list[str]], kin: dict[str, list[str]]
) -> None:
    browser = show(small())
    row = browser.row(stage, text)
    parts = [f"{row} {part}" for part in (".operation", ".lineno", ".code")]
    browser.point(next(part for part in parts if browser.count(part)))  # not a variable
    for other, expected in near.items():
        found = marked(browser, other)
        assert found[: len(expected)] == expected if stage == "base" else found == expected
    for other, expected in kin.items():
        assert marked(browser, other, "kin") == expected
    browser.point("h1")
    assert browser.count(".row.near, .row.kin, .row.here") == 0


def test_pointing_at_a_variable_marks_its_uses(show: Show) -> None:
    browser = show(small())
    browser.point(browser.row("base", "mul") + " .code > .variable")
    assert browser.texts(".pane[data-stage=base] .variable.on") == ["e", "e"]
    assert marked(browser, "base", "here") == ["e tanh"]  # a variable means what makes it
    browser.open(browser.path, "#panes=stablehlo,optimized")
    browser.point(browser.row("stablehlo", "negate") + " .variable ~ .variable")
    assert browser.texts(".pane[data-stage=stablehlo] .variable.on") == ["%1", "%1"]


def test_a_click_keeps_and_a_second_one_lets_go(show: Show) -> None:
    browser = show(small())
    row = browser.row("grad", "tanh")
    browser.click(row + " .operation")
    browser.point("h1")
    assert kept(browser) == 305
    assert marked(browser, "grad", "here") == ["e tanh"]
    assert browser.js("location.hash").endswith("&at=305")
    assert browser.js(f"document.querySelector('{row}').getAttribute('aria-selected')") == "true"
    assert "Kept: Gradient, e:f32[10] = tanh d, primal" in browser.text("#said")
    drawn = "document.querySelector('#links').getContext('2d').getImageData(0, 0, 2000, 800).data"
    assert browser.js(f"{drawn}.some((part, at) => at % 4 === 3 && part)")  # bands between the panes
    browser.click(row + " .operation")
    browser.point("h1")
    assert kept(browser) is None
    assert browser.count(".row.near") == 0
    assert "at=" not in browser.js("location.hash")


def test_a_click_lines_the_panes_up(show: Show) -> None:
    browser = show(generated(400))
    browser.js("document.querySelector('.pane[data-stage=grad] .body').scrollTop = 9000")
    browser.settle()
    row = browser.js("document.querySelectorAll('.pane[data-stage=grad] .row:not(.heading)')[14].id")
    browser.click(f"#{row} .operation")
    top = "document.querySelector('.pane[data-stage={} ] .row.{}').getBoundingClientRect().top"
    here = browser.js(top.format("grad", "here"))
    for stage in ("base", "vmap"):
        tops = browser.js(
            f"[...document.querySelectorAll('.pane[data-stage={stage}] .row.near')].map(row => row.getBoundingClientRect().top)"
        )
        assert min(abs(found - here) for found in tops) < 23


def test_the_details_tell_chain_rule_figures_and_values(show: Show) -> None:
    browser = show(small())
    browser.click(browser.row("grad", "mul l m") + " .operation")
    chain = [text.split("\n")[0].split()[0] for text in browser.texts("#details ol button")]
    assert chain == ["Source", "Base", "Gradient"]
    text = browser.text("#details")
    for expected in ("tanh.partials", "hyperbolic.py:31", "1.0 - out * out", "cotangent", "2 NaN", "1 infinite", "First NaN"):
        assert expected in text
    assert browser.count("#details svg.range circle") == 1
    browser.click("#details ol li:nth-child(2) button")  # a step of the chain leads there
    assert kept(browser) == 205
    browser.click(browser.row("grad", "dot_general b n") + " .operation")
    assert "taken from" in browser.text("#details") and "donated" in browser.text("#details")
    browser.click(browser.row("grad", "params") + " .code .quiet")
    assert "P('batch', None)" in browser.text("#details")


def test_what_was_kept_names_its_users(show: Show) -> None:
    browser = show(small())
    browser.click(browser.row("grad", "image") + " .quiet")
    assert "kept for" in browser.text("#details")
    assert "dot_general" in browser.text("#details dd")
    browser.click("#details dd .link")
    assert kept(browser) == 311


def test_with_nothing_chosen_the_details_tell_what_each_step_did(show: Show) -> None:
    browser = show(small())
    rows = browser.texts("#details tbody tr")
    assert [row.split()[0] for row in rows] == ["Base", "Gradient", "Vectorized", "StableHLO", "Optimized"]
    assert "40 B wait for the backward pass" in rows[1]


def test_what_was_found_is_one_click_away(show: Show) -> None:
    browser = show(small(), "#panes=source,base")
    assert "First NaN" in browser.text("#banner")
    browser.click("#banner")
    assert kept(browser) == 310
    assert panes(browser) == ["source", "base", "grad"]
    browser.key("Escape", "!")
    assert kept(browser) == 310
    data = small()
    data["find"]["text"] = "First NaN: mul\n  line: model.py:5\n  Cure: a second where"
    show(data)
    assert browser.text("#banner") == "! First NaN: mul"
    browser.click("#banner")
    assert browser.text("#details b.bad") == "First NaN: mul"
    assert browser.text("#details pre.story") == "line: model.py:5\nCure: a second where"


def test_python_is_coloured(show: Show) -> None:
    data = small()
    lines = [
        "def 関数(λin, ωif, x2):",
        "    return λin @ ωif if x2 in (1.5e3, λ2) else 'for' # not",
        '    """a string that',
        '    is not over""" and x2',
    ]
    for row, line in zip(data["stages"][0]["rows"], lines):
        row["text"] = line
    browser = show(data, "#panes=source")
    inside = "[...document.querySelectorAll('.row .code {}')].slice(0, {}).map(found => found.textContent)"
    assert browser.js(inside.format(".keyword", 6)) == ["def", "return", "if", "in", "else", "and"]
    assert browser.js(inside.format(".defined", 1)) == ["関数"]
    assert browser.js(inside.format(".number", 1)) == ["1.5e3"]
    assert browser.js(inside.format(".string", 3)) == ["'for'", '"""a string that', '    is not over"""']


def test_text_can_be_selected(show: Show) -> None:
    browser = show(small(), "#panes=source,base")
    left, y = browser.centre(browser.row("source", "found = ") + " .lineno")
    steps = [("mousePressed", left + 30, y), ("mouseMoved", left + 90, y), ("mouseMoved", left + 120, y)]
    for kind, x, at in [*steps, ("mouseReleased", left + 120, y)]:
        browser.command("Input.dispatchMouseEvent", type=kind, x=x, y=at, button="left", buttons=1, clickCount=1)
    selected = browser.js("getSelection().toString()")
    assert selected and selected in "    found = hidden * 2.0  # a temperature"
    browser.point(browser.row("base", "tanh") + " .operation")
    assert browser.js("getSelection().toString()") == selected
    browser.click(browser.row("base", "tanh") + " .operation")  # as anywhere, a click lets go of it
    assert browser.js("getSelection().toString()") == "" and kept(browser) == 205


# ---- folding


def test_spans_fold(show: Show) -> None:
    browser = show(small())
    row = browser.row("base", "scores")
    before = browser.count(".pane[data-stage=base] .row")
    browser.click(row)
    assert browser.count(".pane[data-stage=base] .row") == before - 3
    assert browser.js(f"document.querySelector('{row}').getAttribute('aria-expanded')") == "false"
    assert browser.count(f"{row} .mix i.is-primal") == 1
    browser.point(browser.row("grad", "tanh") + " .operation")
    assert marked(browser, "base") == ["scores3 equations"]  # it speaks for what it hides
    browser.point("h1")
    browser.click(row + " .fold")
    assert browser.count(".pane[data-stage=base] .row") == before


def test_repeats_show_their_first_copy(show: Show) -> None:
    browser = show(small())
    assert browser.text(".pane[data-stage=vmap] .count") == "\u00d72"
    shown = browser.texts(".pane[data-stage=vmap] .row")
    assert any(row.startswith("1 of 2") for row in shown) and sum("neg" in row for row in shown) == 1
    browser.key("ArrowRight", "ArrowRight", "Z")
    assert sum("neg" in row for row in browser.texts(".pane[data-stage=vmap] .row")) == 2
    browser.key("z")
    assert sum("neg" in row for row in browser.texts(".pane[data-stage=vmap] .row")) == 0
    browser.key("ArrowLeft", "z")
    assert sum("tanh" in row for row in browser.texts(".pane[data-stage=grad] .row")) == 0  # there was nothing but the halves
    browser.key("ArrowLeft", "z")


def test_five_arguments_get_a_heading(show: Show) -> None:
    data = small()
    base = data["stages"][1]
    base["vars"] += [[f"z{number}", "f32[]"] for number in range(3)]
    base["rows"][3:3] = [{"id": 900 + number, "arg": f"params[{number}]", "out": [10 + number]} for number in range(3)]
    browser = show(data)
    assert browser.texts(".pane[data-stage=base] .row")[0].strip() == "6 arguments"
    browser.click(browser.row("base", "6 arguments"))
    assert browser.texts(".pane[data-stage=base] .row")[6].split() == ["z2", "params[2]", "f32[]"]
    assert browser.js("document.querySelector('.pane[data-stage=base] .row:nth-child(3)').getAttribute('aria-setsize')") == "6"


# ---- the keyboard


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["ArrowDown"] * 3, ("base", 3)),
        (["j", "j", "k"], ("base", 1)),
        (["End"], ("base", 11)),
        (["End", "Home"], ("base", 0)),
        (["PageDown", "PageUp"], ("base", 0)),
        (["ArrowRight"], ("grad", 0)),
        (["l", "l", "h"], ("grad", 0)),
        (["ArrowLeft", "ArrowLeft", "ArrowLeft"], ("source", 0)),
        (["ArrowUp"], ("base", 0)),
    ],
)
def test_keys_move_the_cursor(show: Show, keys: list[str], expected: tuple[str, int]) -> None:
    browser = show(small())
    browser.key(*keys)
    assert cursor(browser) == expected
    assert browser.count(".row.cursor") == 1
    pointed = browser.js("explorer.state.active.view.body.getAttribute('aria-activedescendant')")
    assert pointed == browser.js("document.querySelector('.row.cursor').id")


@pytest.mark.parametrize(
    ("keys", "row"),
    [
        ([*down(5), "Enter"], 205),
        ([*down(5), "Enter", "Enter"], None),
        ([*down(5), "Enter", "Escape"], None),
        ([*down(5), "u"], 105),  # the line it came from
        ([*down(5), "o"], 305),  # what came of it, in a pane that is open
        (["p"], 207),  # the peak of memory
        (["ArrowRight", "p"], 308),
        (["!"], 310),
    ],
)
def test_keys_keep_and_go(show: Show, keys: list[str], row: int | None) -> None:
    browser = show(small())
    browser.key(*keys)
    assert kept(browser) == row


@pytest.mark.parametrize(
    ("keys", "shift", "expected"),
    [
        (["3"], False, ["source", "base", "vmap"]),
        (["5"], False, ["source", "base", "grad", "vmap", "stablehlo"]),
        (["7", "8"], False, ["source", "base", "grad", "vmap", "costs", "profile"]),
        (["f"], False, ["source", "base", "grad", "vmap", "profile"]),
        (["f", "f"], False, ["source", "base", "grad", "vmap"]),
        (["1", "2", "3", "4"], False, ["vmap"]),  # the last one stays
        (["9"], False, ["source", "base", "grad", "vmap"]),  # there is no such stage
        (["ArrowRight"], True, ["source", "grad", "base", "vmap"]),
        (["ArrowLeft"], True, ["base", "source", "grad", "vmap"]),
        (["ArrowLeft", "ArrowLeft"], True, ["base", "source", "grad", "vmap"]),
    ],
)
def test_keys_open_close_and_move_panes(show: Show, keys: list[str], shift: bool, expected: list[str]) -> None:
    browser = show(small())
    browser.key(*keys, shift=shift)
    assert panes(browser) == expected
    if expected != ["source", "base", "grad", "vmap"]:  # what is open at first
        assert browser.js("location.hash") == "#panes=" + ",".join(expected)
    pressed = browser.js("[...document.querySelectorAll('#stages [aria-pressed=true]')].map(button => button.dataset.stage)")
    assert sorted(pressed) == sorted(expected)


def test_keys_change_what_is_shown(show: Show) -> None:
    browser = show(small())
    for figures in ("bytes", "live", "time", "values", "none", "flops"):
        browser.key("c")
        assert browser.js("document.querySelector('#metric').value") == figures
        assert (browser.count(".pane[data-stage=base] .row .figure") > 0) == (figures != "none")
        if figures == "time":
            assert browser.text(browser.row("base", "tanh") + " .figure") == "4.0 µs"
        if figures == "values":
            assert browser.text(browser.row("base", "tanh") + " .figure") == "-1\u2009…\u20091"
            assert browser.text(browser.row("grad", "mul l m") + " .figure") == "NaN"
    browser.key("i")
    assert browser.js("document.querySelector('#details').hidden")
    browser.key("i", "w")
    assert browser.count(".pane.wide") == 1
    browser.key("?")
    assert browser.js("document.querySelector('#help').open")
    browser.key("Escape")
    assert not browser.js("document.querySelector('#help').open")
    browser.key(*down(3), " ")
    assert "scores" in browser.text(".row.cursor") and browser.count(".pane[data-stage=base] .row") == 9


def test_names_as_mathematics(show: Show) -> None:
    browser = show(small())
    browser.key("m")
    names = {row.split()[1]: row.split()[0] for row in browser.texts(".pane[data-stage=grad] .row") if len(row.split()) > 3}
    assert names["exp"] == "g\u0304"  # the cotangent of g
    assert "e\u2032" in [row.split()[0] for row in browser.texts(".pane[data-stage=grad] .row")]  # for the derivative of tanh
    assert browser.js("document.querySelector('#names').getAttribute('aria-pressed')") == "true"
    browser.key("m")
    assert "e\u2032" not in browser.text(".pane[data-stage=grad]")


# ---- the search


@pytest.mark.parametrize(
    ("text", "found", "first"),
    [
        ("tanh", "4 of 5", "source"),
        ("dot_general", "4 of 5", "base"),
        ("f32[32,64", "2", "vmap"),
        ("is:cotangent", "3", "grad"),
        ("is:kept", "3", "grad"),
        ("is:noted", "1 of 2", "grad"),
        ("is:nan", "1", "grad"),
        ("is:inf", "1", "grad"),
        ("is:donated", "2", "grad"),
        ("is:sharded", "1", "grad"),
        ("is:dead", "1", "grad"),
        ("is:batch", "3 of 4", "vmap"),
        ("is:unknown", "0 of 1", None),
        ("line:6", "6", "source"),
        ("line:6 mul", "4", "base"),
        ("in:grad mul", "4", "grad"),
        ("AXES=(0,)", "1", "base"),
        ("nothing like it", "none", None),
        ("is:nonsense", "unknown", None),
        ("in:nonsense", "unknown", None),
        ("in:Gradient mul", "4", "grad"),
        ("mul 2.0", "4", "base"),  # a literal
        ("line:six", "unknown", None),
        ("MUL is:residual", "1", "grad"),
    ],
)
def test_the_search_finds(show: Show, text: str, found: str, first: str | None) -> None:
    browser = show(small())
    browser.key("/", *text)
    assert browser.text("#found") == found
    shown = browser.js("explorer.state.hits.shown.length")
    browser.key("Enter")
    if first:
        assert browser.text("#found") == f"1/{shown}"
        assert cursor(browser)[0] == first
        browser.key("Enter")
        assert browser.text("#found") == f"{min(2, shown)}/{shown}"
    browser.key("Escape")
    assert browser.count(".row.hit") == 0


def test_the_search_opens_what_hides_its_finds(show: Show) -> None:
    browser = show(small())
    browser.key("ArrowRight", "ArrowRight", "z", "/", *"neg", "Enter")
    assert "neg" in browser.text(".row.cursor")
    browser.click("#panes")
    browser.js("document.activeElement.blur()")
    browser.key("n", "N")
    assert browser.text("#found") == "1/2"


def test_the_search_brings_the_pane_of_a_find_into_view(show: Show) -> None:
    browser = show(small(), f"#panes={ALL}")
    box = "document.querySelector('.pane[data-stage=optimized]').getBoundingClientRect()"
    assert browser.js(f"{box}.left > innerWidth")
    browser.key("/", *"fusion", "Enter")
    assert cursor(browser)[0] == "optimized"
    assert browser.js(f"{box}.left >= 0 && {box}.right <= innerWidth")


def test_the_legend_searches(show: Show) -> None:
    browser = show(small())
    browser.click("#legend [data-find='is:residual']")
    assert browser.text("#found") == "2"
    browser.click("#legend [data-find='is:residual']")
    assert browser.text("#found") == ""


def test_lines_that_no_result_needs_are_struck_out(show: Show) -> None:
    data = small()
    base = data["stages"][1]
    base["rows"][-1]["ret"] = [8]  # the last subtraction is not needed, and line 7 still is
    base["rows"][10]["role"] = base["rows"][6]["role"] = "dead"
    browser = show(data)
    assert browser.texts(".pane[data-stage=source] .row.is-dead .lineno") == ["6"]
    browser.point(browser.row("source", "found = ") + " .lineno")
    assert "no result needs what this line computes" in browser.text("#details")


# ---- costs, graph, flame graph


def test_lines_of_several_files_are_told_with_their_file(show: Show) -> None:
    data = small()
    for row in data["stages"][0]["rows"]:
        row["file"] = "model.py"
    browser = show(data, "#panes=source,costs")
    assert browser.text(".pane[data-stage=costs] .words").startswith("model.py:5 costs most in “Vectorized”")
    browser.click(browser.row("source", "found = ") + " .lineno")
    assert "model.py:6: " in browser.text("#details")


def test_a_line_that_costs_in_an_earlier_stage_alone_is_listed(show: Show) -> None:
    data = small()
    for stage in data["stages"]:
        if stage["id"] in ("grad", "vmap"):
            for row in stage["rows"]:
                if row.get("line") == 107:
                    del row["line"]
    browser = show(data, "#panes=costs")
    assert [row.split()[0] for row in browser.texts(".row")] == ["5", "6", "7"]
    assert browser.texts(".row:last-child .figure")[1:] == ["", ""]


def test_costs_by_line(show: Show) -> None:
    browser = show(small(), "#panes=source,costs")
    assert [row.split()[0] for row in browser.texts(".pane[data-stage=costs] .row")] == ["5", "6", "7"]
    assert browser.texts(".pane[data-stage=costs] .row:first-child .figure") == ["1.1k", "2.3k", "5.3k"]
    assert browser.texts(".costhead span") == ["source line", "Base program", "Gradient", "Vectorized"]
    assert "Line 5 costs most in “Vectorized”: 58 % of the FLOPs." in browser.text(".pane[data-stage=costs] .words")
    browser.point(browser.row("costs", "found") + " .lineno")
    assert marked(browser, "source", "here") == ["6 found"]
    browser.key("c")  # bytes
    assert browser.texts(".pane[data-stage=costs] .row:first-child .figure") == ["2.9k", "6.1k", "72k"]


def test_costs_leave_room_for_the_lines(show: Show) -> None:
    browser = show(small(), "#panes=source,base,grad,vmap,costs")
    browser.view(1024, 700)
    browser.settle()
    row = "document.querySelector('.pane[data-stage=costs] .row')"
    line, figures = (f"{row}.querySelector('{part}').getBoundingClientRect().left" for part in (".code", ".end"))
    assert browser.js(f"{figures} - {line} > 100")


def test_a_program_as_a_graph(show: Show) -> None:
    browser = show(small(), "#panes=base,grad")
    browser.key("g")  # the active pane is the gradient's
    assert browser.count(".pane[data-stage=grad] .node") == 13
    assert "&graph=grad" in browser.js("location.hash")
    assert browser.texts(".pane[data-stage=grad] .node.is-cotangent .above") == ["exp", "mul", "dot_general"]
    boxes = browser.js(
        "[...document.querySelectorAll('.node rect')].map(rect => rect.getBoundingClientRect())"
        ".map(box => [box.x, box.y, box.right, box.bottom])"
    )
    for place, (left, top, right, bottom) in enumerate(boxes):  # no two nodes overlap
        assert not any(left < r and x < right and top < b and y < bottom for x, y, r, b in boxes[:place])
    tops = {name: y for name, (_, y, _, _) in zip(browser.texts(".node .below"), boxes)}
    assert (
        tops["d f32[10]"] < tops["e f32[10]"] < tops["f f32[10]"] < tops["l f32[10]"] < tops["n f32[10]"]
    )  # what is used stands above
    browser.click(".pane[data-stage=grad] .node.is-cotangent:nth-last-child(3) rect")
    assert kept(browser) == 311
    assert browser.count(".node.here") == 1 and browser.count(".edge.near") >= 3
    assert marked(browser, "base") == ["d dot_general"]
    browser.key("ArrowUp")
    assert "mul" in browser.text(".node.cursor")
    browser.key("Escape", "g")
    assert browser.count(".node") == 0 and browser.count(".pane[data-stage=grad] .row") > 10
    browser.open(browser.path, "#panes=stablehlo&graph=stablehlo")
    assert browser.texts(".node .above") == ["dot_general", "tanh", "negate", "return"]
    assert browser.count(".edge") == 3


def test_a_graph_of_too_much_is_refused_until_it_is_folded(show: Show) -> None:
    browser = show(generated(400), "#panes=base")
    browser.key("g")
    assert "A graph has at most 150 nodes, and 402 rows are shown here" in browser.text(".words.told")
    assert browser.count(".node") == 0
    browser.key("z", "g")
    assert browser.count(".node") == 12  # ten scopes, the input and the result
    browser.key("Z")  # unfolding goes back to rows, and says why
    assert browser.count(".node") == 0 and browser.count(".row") > 20
    assert "at most 150" in browser.text(".words.told")


def test_measured_time_as_a_flame_graph(show: Show) -> None:
    browser = show(small(), "#panes=source,optimized,profile")
    widths = browser.js("[...document.querySelectorAll('.frame')].map(frame => parseFloat(frame.style.width))")
    assert widths == pytest.approx([90, 50, 30, 20, 10])
    lefts = browser.js("[...document.querySelectorAll('.frame')].map(frame => parseFloat(frame.style.left))")
    assert lefts == pytest.approx([0, 0, 50, 50, 90])
    assert browser.text(".pane[data-stage=profile] .words").startswith("dot.1 takes most by itself: 500 µs, 50 %.")
    browser.click(".frame:nth-child(3)")
    assert marked(browser, "optimized", "here") == ["%fusion.1 ="]
    assert marked(browser, "source") == ["5 hidden", "7 return"]
    assert "300 µs" in browser.text("#details") and "100 µs" in browser.text("#details")
    assert browser.texts(".frame.here span") == ["fusion.1"]  # not what runs in it
    browser.key(" ")
    widths = browser.js("[...document.querySelectorAll('.frame')].map(frame => parseFloat(frame.style.width))")
    assert widths == pytest.approx(
        [100, 100, 200 / 3], rel=1e-4
    )  # the frame, the one that it stands in, and the one that it calls
    browser.key("Escape")
    assert browser.count(".frame") == 5 and browser.count(".frame.here") == 1
    browser.key("ArrowDown", "Enter")
    assert "tanh" in browser.text(".frame.here")
    browser.click(".frame:nth-child(2)", times=2)
    assert browser.count(".frame") == 2


def test_a_page_without_measured_time_says_nothing_of_it(show: Show) -> None:
    data = small()
    del data["profile"]
    browser = show(data)
    assert "Time" not in browser.texts("#stages button")
    browser.key("f")
    assert panes(browser) == ["source", "base", "grad", "vmap"]


# ---- panes


def test_buttons_and_dragging_arrange_panes(show: Show) -> None:
    browser = show(small())
    browser.point(".pane[data-stage=grad] .head")
    browser.click(".pane[data-stage=grad] [data-do=left]")
    assert panes(browser) == ["source", "grad", "base", "vmap"]
    browser.click(".pane[data-stage=vmap] [data-do=close]")
    assert panes(browser) == ["source", "grad", "base"]
    browser.click("#stages [data-stage=optimized]")
    assert panes(browser) == ["source", "grad", "base", "optimized"]
    browser.js(
        "(() => { const held = new DataTransfer(); held.setData('text/plain', 'optimized');"
        " const drop = new DragEvent('drop', {dataTransfer: held, bubbles: true, cancelable: true});"
        " document.querySelector('.pane[data-stage=source]').dispatchEvent(drop); })()"
    )
    assert panes(browser) == ["optimized", "source", "grad", "base"]


def test_the_details_can_be_made_higher(show: Show) -> None:
    browser = show(small())
    height = "document.querySelector('#details').clientHeight"
    before = browser.js(height)
    browser.js("document.querySelector('#divider').focus()")
    browser.key("ArrowUp", "ArrowUp", "ArrowDown")
    assert browser.js(height) == before + 24
    x, y = browser.centre("#divider")
    for kind, to in (("mousePressed", y), ("mouseMoved", y - 100), ("mouseMoved", y - 5000), ("mouseReleased", y - 5000)):
        browser.command("Input.dispatchMouseEvent", type=kind, x=x, y=max(0, to), button="left", clickCount=1)
    browser.settle()
    assert browser.js(height) == 900 - 220  # room stays for the panes
    assert cursor(browser) == ("base", 0)
    browser.key("i")
    assert not browser.js("document.querySelector('#divider').checkVisibility()")


def test_arrow_keys_scroll_the_details_where_the_focus_is_in_them(show: Show) -> None:
    browser = show(small(), "#panes=source,base,grad&at=310")
    browser.js("document.querySelector('#details').style.height = '70px'")
    browser.js("document.querySelector('#details ol button').focus({preventScroll: true})")
    at = cursor(browser)
    browser.key("ArrowDown", "ArrowDown")
    browser.wait_for("[...document.querySelectorAll('#details section')].some(section => section.scrollTop > 0)")
    assert (cursor(browser), kept(browser)) == (at, 310)
    browser.key("g")  # other keys mean here what they mean elsewhere
    assert browser.count(".node") > 0


def test_what_each_step_did_can_be_scrolled_from_the_keyboard(show: Show) -> None:
    browser = show(small())
    browser.js("document.querySelector('#details').style.height = '60px'")
    browser.js("document.querySelector('#divider').focus()")
    browser.key("Tab")
    assert browser.js("document.activeElement.matches('#details section')")


def test_the_address_brings_everything_back(show: Show) -> None:
    browser = show(small(), "#panes=grad,base&at=310&graph=base&figures=live&names=maths&theme=dark")
    assert panes(browser) == ["grad", "base"]
    assert kept(browser) == 310
    assert browser.count(".pane[data-stage=base] .node") == 11
    assert browser.js("document.querySelector('#metric').value") == "live"
    assert browser.text("#names") == "Names: maths"
    assert browser.js("getComputedStyle(document.body).backgroundColor") == "rgb(19, 21, 24)"
    state = browser.js("location.hash")
    browser.key("d")
    assert "theme" not in browser.js("location.hash")  # light is what the system prefers here
    browser.open(browser.path, state)
    assert browser.js("location.hash") == state
    browser.js("location.hash = '#panes=source,vmap&at=404'")  # a link to another state of the page that is open
    browser.settle()
    assert (panes(browser), kept(browser)) == (["source", "vmap"], 404)
    assert (browser.text("#names"), browser.js("document.querySelector('#metric').value")) == ("Names: printed", "flops")
    browser.js("location.hash = '#panes=source&figures=nonsense'")
    browser.settle()
    assert (panes(browser), kept(browser)) == (["source"], None)


def test_what_is_kept_is_found_again_in_a_page_that_was_made_anew(show: Show) -> None:
    browser = show(small(), "#panes=source,grad&at=310")
    told = browser.js("explorer.likeness()")
    data = small()
    gradient = data["stages"][2]
    gradient["rows"].insert(5, {**gradient["rows"][9], "id": 999, "op": "neg"})  # what was added to the function
    for row, id_ in zip(gradient["rows"][5:], [305, 306, 307, 321, 308, 309, 310, 311, 999]):
        row["id"] = id_
    show(data, "#panes=source,grad&at=310")
    assert "mul" not in browser.text(".pane[data-stage=grad] .row.here")
    browser.js(f"explorer.keepLike({json.dumps(told)})")
    browser.settle()
    assert browser.text(".pane[data-stage=grad] .row.here").split()[:2] == ["n", "mul"]
    browser.js(f"explorer.keepLike({json.dumps({**told, 'words': 'tan'})})")  # it is gone: nothing else stands for it
    assert kept(browser) is None


def test_lines_wider_than_their_pane_can_be_scrolled(show: Show) -> None:
    data = small()
    for stage, place in ((0, 5), (1, 4), (4, 1)):
        row = data["stages"][stage]["rows"][place]
        if "text" in row:
            row["text"] += "  # " + "a long remark " * 30
        else:
            row["params"] = [["permutation", "(0, 1) " * 60]]
    browser = show(data, "#panes=source,base,stablehlo")
    for stage in ("source", "base", "stablehlo"):
        body = f"document.querySelector('.pane[data-stage={stage}] .body')"
        assert browser.js(f"{body}.scrollWidth > 2 * {body}.clientWidth")
    figure = "document.querySelector('.pane[data-stage=base] .figure.big').getBoundingClientRect().right"
    body = "document.querySelector('.pane[data-stage=base] .body')"
    before = browser.js(figure)
    browser.key(">", ">", "<", ">")
    assert browser.js(f"{body}.scrollLeft") == 120
    assert browser.js(figure) == before <= browser.js(f"{body}.getBoundingClientRect().right")  # what a row costs stays in view
    browser.command("Emulation.setEmulatedMedia", media="print", features=[])
    assert browser.js("document.documentElement.scrollWidth <= innerWidth")
    heights = browser.js("[...document.querySelectorAll('.pane[data-stage=source] .row')].map(row => row.clientHeight)")
    assert max(heights) > 2 * min(heights)  # on paper they wrap


def test_the_strip_shows_memory_and_scrolls(show: Show) -> None:
    browser = show(generated(1000), "#panes=base,grad")
    strip = "document.querySelector('.pane[data-stage=grad] .strip')"
    width, height = browser.js(f"[{strip}.width, {strip}.height]")
    opaque = browser.js(
        f"[...{strip}.getContext('2d').getImageData(0, 0, {width}, {height}).data.filter((part, at) => at % 4 === 3)]"
    )

    def drawn(share: float) -> int:
        """How many pixels are drawn in a line of the strip."""
        line = round(height * share)
        return sum(part > 20 for part in opaque[line * width : (line + 1) * width])

    assert drawn(0.5) > drawn(0.25) > drawn(0.05)  # memory grows up to the middle of the chain
    browser.click(".pane[data-stage=grad] .strip")
    assert browser.js("document.querySelector('.pane[data-stage=grad] .body').scrollTop") > 20_000
