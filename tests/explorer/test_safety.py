"""Data that are damaged, hostile or odd; contrast; frames of other pages; paper."""

from __future__ import annotations

import html
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser import Browser
from samples import Data, generated, generated_stage, small

from pullback.explorer.page import page_html

Show = Callable[..., Browser]


def row(data: Data, id_: int) -> Data:
    return next(row for stage in data["stages"] for row in stage["rows"] if row["id"] == id_)


# ---- damaged

DAMAGED: list[tuple[Callable[[Data], Any], str]] = [
    (lambda data: data.update(version=2), "The data have version 2 of the format; this page reads version 1."),
    (lambda data: data.pop("version"), "The data have version undefined"),
    (lambda data: data.update(format="else"), "This page holds no data of the format pullback.explorer."),
    (lambda data: data.pop("stages"), "There are no stages."),
    (lambda data: data["stages"].append(None), "A stage lacks its id or its rows."),
    (lambda data: data["stages"][1].update(id="grad"), 'Two stages have the id "grad".'),
    (lambda data: data["stages"][1].update(kind="magic"), 'Stage "base" is of kind "magic".'),
    (lambda data: row(data, 205).update(id=204), "Two rows have the id 204."),
    (lambda data: row(data, 205).pop("id"), 'Row 5 of stage "base" has no id.'),
    (lambda data: row(data, 200).update(span=99), 'Row 200 of stage "base" holds rows beyond its end.'),
    (lambda data: row(data, 205).update({"from": [[77, -1]]}), 'Row 205 of stage "base" comes from a row that is not there.'),
    (lambda data: row(data, 205).update({"from": [[105, 77]]}), 'Row 205 of stage "base" names a rule that is not there.'),
    (lambda data: row(data, 205).update({"in": [77]}), 'Row 205 of stage "base" names variable 77, which is not there.'),
    (lambda data: row(data, 205).update(out=["x"]), 'Row 205 of stage "base" names variable "x", which is not there.'),
    (lambda data: row(data, 205).pop("in"), 'Row 205 of stage "base" lacks its results or operands.'),
    (lambda data: row(data, 205).update(line=77), 'Row 205 of stage "base" names row 77 as its line, which is not there.'),
    (lambda data: row(data, 205).pop("op"), 'Row 205 of stage "base" is of no kind.'),
    (lambda data: data["stages"][1].update(peak=[77, 1]), 'The peak of stage "base" is at a row that is not there.'),
    (lambda data: data["find"].update(row=77), "What was found names row 77, which is not there."),
    (lambda data: data["profile"]["rows"][1].update({"from": [77]}), '"dot.1" of the profile names a row that is not there.'),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGED, ids=[message[:60] for _, message in DAMAGED])
def test_damage_is_told_in_the_page(show: Show, damage: Callable[[Data], Any], message: str) -> None:
    data = small()
    damage(data)
    browser = show(data)
    assert message in browser.text(".failure")
    assert browser.count("[role=alert]") == 1 and browser.count(".pane") == 0


@pytest.mark.parametrize("cut", [0, 50, -200])
def test_a_page_that_was_cut_short_says_so(browser: Browser, tmp_path: Path, cut: int) -> None:
    page, data = page_html(small()), json.dumps(small(), separators=(",", ":"))
    path = tmp_path / "cut.html"
    path.write_text(page.replace(data, data[:cut]) if data in page else "")
    browser.open(path)
    assert "they are not JSON" in browser.text(".failure")


def test_a_fault_of_the_page_itself_is_shown(show: Show) -> None:
    data = small()
    data["stages"][1]["vars"][0] = None  # not looked for: the page is not to be blank all the same
    browser = show(data)
    assert "This page failed to open." in browser.text(".failure") and "TypeError" in browser.text(".failure")


# ---- hostile

EVIL = (
    "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=1'>"
    '"\' onmouseover="window.hacked=1" \u2028\U0001f388<!--'
)
KEEP = {"format", "version", "id", "kind", "head", "role", "unit", "theme"}


def poisoned(found: Any, key: str = "") -> Any:
    """Every text of the data that may be any text, with a hostile one behind it."""
    if isinstance(found, dict):
        return {name: poisoned(value, name) for name, value in found.items()}
    if isinstance(found, list):
        return [poisoned(value, key) for value in found]
    return f"{found}{EVIL}" if isinstance(found, str) and key not in KEEP else found


def test_hostile_texts_stay_texts(show: Show) -> None:
    data = poisoned(small())
    for stage in data["stages"]:
        stage["id"] += "\"><b>'&" if stage["id"] == "optimized" else ""
        for found in stage["rows"]:
            if found.get("value"):
                found["value"]["sample"] = [EVIL]
    browser = show(data, "#panes=source,base,grad,stablehlo,profile,costs")
    row(data, 205)["role"] = EVIL
    for keys in (["c"] * 5, ["m"], ["ArrowDown", "Enter"], ["End", "g", "g"], ["!"], ["7"], ["/", *"script", "Enter"]):
        browser.key(*keys)
        browser.key("Escape")
    for stage in ("source", "base", "grad", "stablehlo"):
        browser.click(f".pane[data-stage={stage}] .row:nth-child(3)")
        browser.key("g", "g", "Escape")
    browser.click(".frame")
    assert browser.js("window.hacked") is None
    assert browser.js("document.scripts.length") == 2
    assert browser.count("img") + browser.count("[onmouseover]") + browser.count("main b b") == 0
    assert EVIL.split("\u2028")[0] in browser.text("#title")


def test_even_a_script_that_gets_in_does_not_run(show: Show) -> None:
    browser = show(small())
    browser.js("document.body.insertAdjacentHTML('beforeend', '<img src=\"data:,\" onerror=\"window.hacked=1\">')")
    browser.js("new Promise(done => setTimeout(() => done(0), 200))")
    assert browser.js("window.hacked") is None
    assert any("Content Security Policy" in fault for fault in browser.faults)
    browser.faults.clear()


# ---- odd


@pytest.mark.parametrize("equations", [0, 1])
def test_tiny_programs(show: Show, equations: int) -> None:
    browser = show(generated(equations))
    browser.key("z", "Z", "End", "g", "ArrowDown", "Enter", "g", "p", "u", "o", "c", "m", "Escape")
    assert browser.count(".pane") == 4


def test_a_page_of_source_alone(show: Show) -> None:
    data = small()
    data["stages"] = data["stages"][:1]
    del data["find"], data["profile"]
    browser = show(data)
    browser.key("ArrowDown", "Enter", "z", "g", "f", "p", "u", "o", "!")
    assert browser.texts("#stages button") == ["Source"]
    assert browser.text(".words") == "This stage is not a graph."


def test_many_stages_and_long_names(show: Show) -> None:
    data = generated(4)
    data["stages"] += [generated_stage(f"stage-{k}", 3, 1, [], 1000 * (k + 10)) for k in range(40)]
    data["stages"][-1]["name"] = "a very long name " * 20
    browser = show(data)
    browser.click("#stages [data-stage=stage-3]")
    assert browser.count(".pane") == 5
    assert browser.js("document.documentElement.scrollWidth <= innerWidth")


# ---- contrast

# Of every text that is shown: its colour against what is behind it, layer upon layer; those below 4.5 : 1.
LOW_CONTRAST = """(() => {
  const numbers = (colour) => {
    const parts = colour.match(/[\\d.e+-]+/g).map(Number);
    const scale = colour.startsWith("color(") ? 255 : 1;
    return [parts[0] * scale, parts[1] * scale, parts[2] * scale, parts[3] ?? 1];
  };
  const over = (top, bottom) => [0, 1, 2].map((k) => top[k] * top[3] + bottom[k] * (1 - top[3])).concat(1);
  const ground = (element) => element.matches(".node")
    ? getComputedStyle(element.querySelector("rect")).fill : getComputedStyle(element).backgroundColor;
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(numbers(ground(at)));
    return layers.reverse().reduce((bottom, top) => over(top, bottom), [255, 255, 255, 1]);
  };
  const linear = (part) => ((part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const low = new Set();
  let seen = 0;
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    const hidden = element.closest(".heard, title, script, noscript, option");
    if ((!own && element.tagName !== "INPUT") || hidden || !element.checkVisibility()) continue;
    seen++;
    const style = getComputedStyle(element), paper = behind(element);
    const ink = over(numbers(element.closest("svg") ? style.fill : style.color), paper);
    const [high, dim] = [light(ink), light(paper)].sort((a, b) => b - a), ratio = (high + 0.05) / (dim + 0.05);
    const name = `${element.tagName}.${element.getAttribute("class")}`;
    if (ratio < 4.5) low.add(`${ratio.toFixed(2)} ${name}: ${element.textContent.slice(0, 20)}`);
  }
  return [seen, [...low]];
})()"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    ("state", "keys"),
    [
        ("panes=source,base,grad,vmap", []),
        ("panes=source,base,grad,vmap,optimized,stablehlo&at=205", []),
        ("panes=source,grad,costs&at=310&figures=values", []),
        ("panes=grad,vmap,profile&at=302", ["/", *"is:residual"]),
        ("panes=grad,base,source&at=308", ["/", *"o"]),
        ("panes=base,grad&graph=base,grad&at=205", []),
        ("panes=profile", ["ArrowDown", "Enter"]),
        ("panes=source", ["?"]),
    ],
)
def test_contrast(show: Show, theme: str, state: str, keys: list[str]) -> None:
    browser = show(small(), f"#{state}&theme={theme}")
    browser.key(*keys)
    browser.point("#title")
    seen, low = browser.js(LOW_CONTRAST)
    assert seen > 30
    assert low == []


@pytest.mark.parametrize(("scheme", "paper"), [("light", "rgb(247, 246, 243)"), ("dark", "rgb(19, 21, 24)")])
def test_the_theme_follows_the_system_until_it_is_chosen(show: Show, scheme: str, paper: str) -> None:
    browser = show(small())
    browser.view(scheme=scheme)
    ground = "getComputedStyle(document.body).backgroundColor"
    assert browser.js(ground) == paper
    browser.key("d")
    other = browser.js(ground)
    assert other != paper
    browser.click("#theme")
    assert browser.js(ground) == paper
    data = {**small(), "theme": "dark"}
    show(data)
    assert browser.js(ground) == "rgb(19, 21, 24)"


# ---- in a frame


def test_in_a_notebook(show: Show, browser: Browser, tmp_path: Path) -> None:
    """The frame is a page of its own, by `srcdoc`: without an address, in which nothing can be remembered."""
    page = page_html({**small(), "inline": True})
    path = tmp_path / "notebook.html"
    path.write_text(f'<!doctype html><iframe id="cell" style="width:900px;height:420px" srcdoc="{html.escape(page)}"></iframe>')
    browser.command("Page.navigate", url=path.as_uri())
    frame = "document.querySelector('#cell')?.contentWindow"
    browser.wait_for(f"{frame}?.explorer?.ready")
    inside = f"{frame}.document"
    assert browser.js(f"[...{inside}.querySelectorAll('.pane')].map(pane => pane.dataset.stage)") == ["source", "vmap"]
    assert browser.js(f"getComputedStyle({inside}.querySelector('#legend')).display") == "none"
    assert browser.js(f"{inside}.documentElement.scrollHeight <= 420 && {inside}.documentElement.scrollWidth <= 900")
    browser.command("Input.dispatchMouseEvent", type="mouseMoved", x=100, y=203)
    browser.settle()
    assert browser.js(f"{inside}.querySelectorAll('.row.here').length") == 1
    assert browser.js(f"{inside}.querySelectorAll('.pane[data-stage=vmap] .row.near').length") >= 3
    for kind in ("mousePressed", "mouseReleased"):
        browser.command("Input.dispatchMouseEvent", type=kind, x=100, y=203, button="left", clickCount=1)
    browser.settle()
    assert browser.js(f"{frame}.explorer.state.kept !== null")


def test_a_page_in_a_frame_leaves_the_document_around_it_where_it_is(browser: Browser, tmp_path: Path) -> None:
    """As in the documentation, whose frames open at a row that is chosen."""
    path = tmp_path / "document.html"
    frame = f'<iframe id="cell" style="width:900px;height:420px" srcdoc="{html.escape(page_html(small()))}"></iframe>'
    path.write_text(f'<!doctype html><input id="own"><div style="height:3000px"></div>{frame}<div style="height:3000px"></div>')
    browser.command("Page.navigate", url=path.as_uri())
    inside = "document.querySelector('#cell').contentWindow"
    browser.wait_for(f"document.querySelector('#cell') && {inside}.explorer?.ready")
    browser.js("document.querySelector('#own').focus()")
    browser.js(f"{inside}.location.hash = '#panes=source,base,grad,vmap,costs&graph=grad&at=310'")
    browser.wait_for(f"{inside}.explorer.state.kept")
    browser.settle()
    assert browser.js("[scrollY, document.activeElement.id]") == [0, "own"]


# ---- paper


def pages_of(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


# The bar of each figure begins below its digits: an eighth of the size of the letters below the middle of the row's height.
BARS_BELOW_FIGURES = """[...document.querySelectorAll('.row .figure')].filter(figure => figure.innerText).every(figure => {
  const bar = getComputedStyle(figure, '::after'), row = parseFloat(getComputedStyle(figure).lineHeight);
  const digits = (row + 0.75 * parseFloat(getComputedStyle(figure).fontSize)) / 2;
  return figure.clientHeight - parseFloat(bar.bottom) - parseFloat(bar.height) >= digits; })"""


def test_it_prints_what_is_open(show: Show) -> None:
    browser = show(small(), "#panes=source,grad&at=310&theme=dark")
    assert pages_of(browser.pdf()) in (1, 2)
    browser.command("Emulation.setEmulatedMedia", media="print", features=[])
    assert browser.js("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.js("getComputedStyle(document.querySelector('.row .code')).color") == "rgb(34, 38, 43)"  # light, on paper
    seen, low = browser.js(LOW_CONTRAST)
    assert seen > 30 and low == []
    assert browser.js("[...document.querySelectorAll('nav, .tools, .strip')].every(found => !found.checkVisibility())")
    assert browser.js("document.querySelector('#details').checkVisibility()")
    browser.command("Emulation.setDeviceMetricsOverride", width=700, height=900, deviceScaleFactor=1, mobile=False)
    assert browser.js("document.querySelector('#legend .batchaxis').checkVisibility()")  # narrow as paper is
    assert browser.js(BARS_BELOW_FIGURES)


def test_on_paper_panes_stand_below_each_other(show: Show) -> None:
    browser = show(small(), "#panes=source,base,grad,optimized")
    browser.js("dispatchEvent(new Event('beforeprint'))")
    browser.command("Emulation.setEmulatedMedia", media="print", features=[])
    tops = browser.js(
        "[...document.querySelectorAll('.pane > *, .row')].map(found => [found.className, found.getBoundingClientRect()])"
        ".filter(([name]) => /head|row/.test(name)).map(([, box]) => [box.top, box.bottom])"
    )
    assert len(tops) > 40
    bars = browser.js("[...document.querySelectorAll('.pane[data-stage=grad] .bar')].map(bar => bar.clientHeight)")
    assert len(bars) > 10 and min(bars) > 10  # the colours of the roles
    assert all(bottom <= top + 1 for (_, bottom), (top, _) in itertools.pairwise(tops))


def test_it_prints_all_rows_and_says_where_it_stops(show: Show) -> None:
    browser = show(generated(3000), "#panes=base")
    browser.js("dispatchEvent(new Event('beforeprint'))")
    assert browser.count(".row") == 3000 + 75 + 2
    assert browser.count(".leftout") == 0
    browser.js("dispatchEvent(new Event('afterprint'))")
    browser.settle()
    assert browser.count(".row") < 100
    assert pages_of(browser.pdf()) > 30
    browser.open(browser.path, "#panes=grad")
    browser.js("dispatchEvent(new Event('beforeprint'))")
    assert browser.count(".row") == 6000
    assert "3,227 more rows of Grad not printed: at most 6,000 are." in browser.text(".leftout")
    browser.js("dispatchEvent(new Event('afterprint'))")
    assert browser.count(".leftout") == 0


# ---- those who hear the page


def test_rows_say_what_they_are(show: Show) -> None:
    browser = show(small())
    tree = browser.command("Accessibility.getFullAXTree")["nodes"]
    named = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if not node.get("ignored")]
    names = {name for role, name in named if role == "treeitem"}
    assert "n:f32[10] = mul l m, cotangent, holds NaN" in names
    assert "e:f32[10] = tanh d, primal, kept for the backward pass" in names
    assert {name for role, name in named if role == "tree"} == {"Source", "Base program", "Gradient", "Vectorized"}
    roles = {role for role, _ in named}
    assert {"main", "navigation", "complementary", "contentinfo", "banner", "searchbox"} <= roles
    assert [name for role, name in named if role in ("button", "combobox", "searchbox") and not name] == []
    item = next(node for node in tree if node.get("name", {}).get("value") == "scores")
    properties = {found["name"]: found["value"]["value"] for found in item["properties"]}
    assert properties["level"] == 1 and properties["expanded"] is True
