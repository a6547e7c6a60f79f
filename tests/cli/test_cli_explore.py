"""`python -m pullback explore`: a page in a file, its text form, and what is wrong on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pullback.__main__ import USERS_ERROR, WELL, WRONG_USAGE, main

MODEL = """\
import pullback.numpy as pnp


def loss(w, x):
    hidden = pnp.tanh(x @ w)
    return pnp.sum(hidden**2)


def scaled(x, by):
    return x * by


def root(x):
    return x / pnp.sqrt(x)


def broken(x):
    raise RuntimeError("not today")
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def test_a_page(model: Path, capsys: Any) -> None:
    words = ["explore", "model.py:loss", "f32[3,4]", "f32[5,3]", "--apply", "grad,vmap", "--in-axes", "(None, 0)"]
    assert main([*words, "--no-compile", "--out", "page.html"]) == WELL
    page = (model / "page.html").read_text()
    assert page.startswith("<!doctype html>") and "hidden = pnp.tanh(x @ w)" in page
    out = capsys.readouterr().out
    assert "vmap(grad(loss))" in out and "page.html" in out and not list(model.glob("*.partial"))


def test_the_page_is_named_after_the_function(model: Path) -> None:
    assert main(["explore", "model.py:loss", "f32[3,4]", "f32[5,3]", "--no-compile"]) == WELL
    assert (model / "loss.html").exists()


def test_compiled_stages(model: Path, capsys: Any) -> None:
    assert main(["explore", "model.py:scaled", "f32[3]", "--static", "by=2.0", "--apply", "jit", "--text", "stablehlo"]) == WELL
    assert "stablehlo.multiply" in capsys.readouterr().out


def test_text(model: Path, capsys: Any) -> None:
    words = ["explore", "model.py:loss", "f32[3,4]", "f32[5,3]", "--apply", "grad", "--no-compile"]
    assert main([*words, "--text", "base, grad"]) == WELL
    out = capsys.readouterr().out
    assert "tanh" in out and "# line 5" in out and "\x1b[" not in out and not list(model.glob("*.html"))
    assert main([*words, "--text", "summary", "--color", "always"]) == WELL
    assert "\x1b[" in capsys.readouterr().out


def test_values_and_times_are_of_numbers_that_are_made_up(model: Path, capsys: Any) -> None:
    words = ["explore", "model.py:loss", "f32[3,4]", "f32[5,3]", "--apply", "grad", "--no-compile"]
    assert main([*words, "--values", "ones"]) == WELL
    assert '"values":true' in (model / "loss.html").read_text().replace('": ', '":')
    assert main([*words, "--profile"]) == WELL
    assert '"profile":{' in (model / "loss.html").read_text().replace('": ', '":')
    assert main(["explore", "model.py:root", "f32[3]", "--values", "zeros", "--no-compile", "--text", "base"]) == WELL
    assert "NaN made by div in the forward pass: div(0.0, 0.0) = nan at [0]" in capsys.readouterr().out


WRONG = [
    (["model.py:loss", "f32[3,4]"], "has the parameters"),
    (["model.py:los", "f32[3,4]", "f32[5,3]"], "Did you mean 'loss'"),
    (["model.py:loss", "f32[3,4]", "f32[5,3]", "--apply", "grda"], "Did you mean 'grad'"),
    (["model.py:loss", "f32[3,4]", "f32[5,3]", "--text", "bse", "--no-compile"], "there is no stage 'bse'"),
    (["model.py:loss", "f32[3,4]", "f32[5,3]", "--out", "no/such/place.html", "--no-compile"], "cannot be written"),
    (["model.py:loss", "f32[3,4]", "f32[5,3]", "--watch", "--out", "page.html"], "--watch serves a page"),
    (["model.py:loss", "f32[3,4]", "f32[5,3]", "--port", "8000"], "--port goes with --watch"),
    (
        ["model.py:loss", "f32[3,4]", "f32[5,3]", "--watch", "--port", "70000"],
        "--port takes a number from 1 to 65535, not 70000",
    ),
    (["model.py:loss", "f32[3,4]", "f32[5,3]", "--watch", "--port", "-1"], "--port takes a number from 1 to 65535, not -1"),
    (["model.py:loss", "f32[3,4]", "f32[5,7]"], "ShapeError"),
]


@pytest.mark.parametrize(("words", "message"), WRONG, ids=[message for _, message in WRONG])
def test_what_is_wrong_is_one_line(model: Path, capsys: Any, words: list[str], message: str) -> None:
    assert main(["explore", *words]) in (WRONG_USAGE, USERS_ERROR)
    assert message in capsys.readouterr().err and not list(model.glob("*.html"))


def test_an_error_of_the_users_code_is_shown_with_its_line(model: Path, capsys: Any) -> None:
    assert main(["explore", "model.py:broken", "f32[3]"]) == USERS_ERROR
    shown = capsys.readouterr().err
    assert 'File "model.py", line 18, in broken' in shown and "not today" in shown


def test_a_watched_file_that_fails_says_why(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr("pullback.cli.explore.watch", lambda make, files, report, port: made.append(make))
    assert main(["explore", "model.py:broken", "f32[3]", "--watch"]) == 0
    with pytest.raises(RuntimeError, match="not today"):
        made[0]()


def test_a_neighbour_that_fails_is_watched_too(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in no list of modules, since it was never imported as a whole."""
    made: list[Any] = []
    monkeypatch.setattr("pullback.cli.explore.watch", lambda make, files, report, port: made.append((make, files)))
    (model / "watched_model.py").write_text("from watched_neighbour import by\n\ndef scaled(x):\n    return x * by\n")
    neighbour = model / "watched_neighbour.py"
    assert main(["explore", "watched_model.py:scaled", "f32[3]", "--watch", "--no-compile"]) == WELL
    [(make, files)] = made
    for text, error in (("by = = 2.0\n", SyntaxError), ("by = 1 / 0\n", ZeroDivisionError)):
        neighbour.write_text(text)
        with pytest.raises(error):
            make()
        assert sorted([Path(file).name for file in files()]) == ["watched_model.py", "watched_neighbour.py"]
        neighbour.unlink()
    neighbour.write_text("by = 2.0\n")
    assert "x * by" in make()
