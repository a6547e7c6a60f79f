"""`python -m pullback cost` and `... memory`."""

from __future__ import annotations

import json
import pathlib

import pytest

from pullback.__main__ import USERS_ERROR, WELL, WRONG_USAGE, main

MODEL = """\
import pullback as pb

def loss(w, x):
    with pb.named_scope("layer"):
        h = pb.numpy.tanh(x @ w)
    return pb.numpy.mean(h ** 2)

def update(w, x, rate=0.1):
    return w - rate * pb.grad(loss)(w, x)

@pb.jit(static_argnums=(0, 3), donate_argnums=1)
def step(kind, w, x, rate):
    return w - rate * (pb.grad(loss)(w, x) if kind == "grad" else w)

@pb.jit(static_argnames="kind", donate_argnames="w")
def step_by_name(w, x, rate=0.1, *, kind):
    return step.__wrapped__(kind, w, x, rate)

@pb.jit(static_argnums=0, donate_argnums=1)
def step_of_several(kind, w, *x):
    return step.__wrapped__(kind, w, *x, 0.1)

def failing(w):
    raise ValueError("no such weights")
"""
TYPES = ("f32[64,10]", "f32[512,64]")


@pytest.fixture
def model(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("model")
class TestCommands:
    def test_cost(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["cost", "model.py:loss", *TYPES, "--apply", "grad"]) == WELL
        lines = capsys.readouterr().out.split("\n")
        assert lines[0].startswith("grad_loss(f32[64,10], f32[512,64]): ")
        assert any([line.startswith("model.py:5 ") and line.endswith("h = pb.numpy.tanh(x @ w)") for line in lines])
        assert any([line.startswith("compiled by XLA: ") for line in lines])

    @pytest.mark.parametrize("view", ["line", "equation", "scope", "function", "primitive", "role"])
    def test_views(self, view: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["cost", "model.py:loss", *TYPES, "--by", view, "--compile", "never"]) == WELL
        out = capsys.readouterr().out
        assert "compiled by XLA" not in out and out.count("\n") >= 3

    def test_cost_as_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["cost", "model.py:loss", *TYPES, "--json", "--compile", "never"]) == WELL
        found = json.loads(capsys.readouterr().out)
        assert found["total"]["transcendentals"] == 512 * 10 and found["compiled"] is None

    def test_memory(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["memory", "model.py:update", *TYPES, "--donate", "0"]) == WELL
        out = capsys.readouterr().out
        assert "at the peak" in out and "kept for the backward pass" in out and "result 0" in out and "compiled by XLA" in out

    @pytest.mark.parametrize(("function", "statics"), [("step", ("kind=grad", "rate=0.5")), ("step_by_name", ("kind=grad",))])
    def test_memory_that_jit_donates_beside_static_arguments(
        self, function: str, statics: tuple[str, ...], capsys: pytest.CaptureFixture[str]
    ) -> None:
        given = [word for static in statics for word in ("--static", static)]
        assert main(["memory", f"model.py:{function}", *TYPES, *given, "--json"]) == WELL
        (donated,) = json.loads(capsys.readouterr().out)["donated"]
        assert (donated["name"], donated["result"]) == ("w", 0)

    def test_static_arguments_before_a_starred_parameter(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["memory", "model.py:step_of_several", *TYPES, "--static", "kind=grad"]) == WELL
        assert main(["memory", "model.py:step_of_several", *TYPES, "--static", "x=1"]) == WRONG_USAGE
        assert "--static names 'x', but the parameters are kind, w." in capsys.readouterr().err

    def test_memory_as_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["memory", "model.py:loss", *TYPES, "--apply", "grad", "--json"]) == WELL
        assert json.loads(capsys.readouterr().out)["residuals"]

    @pytest.mark.parametrize("view", ["operation", "line"])
    def test_profile(self, view: str, capsys: pytest.CaptureFixture[str]) -> None:
        options = ["--apply", "grad", "--values", "ones", "--runs", "2", "--by", view]
        assert main(["profile", "model.py:loss", *TYPES, *options]) == WELL
        arguments, title, heading, *rows = capsys.readouterr().out.splitlines()
        assert arguments == "arguments: f32[64,10], f32[512,64], of ones" and "a call takes" in title
        assert view in heading.split() and any(["model.py:5" in row for row in rows]) and "2 runs" in rows[-1]

    def test_in_colour(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["cost", "model.py:loss", *TYPES, "--color", "always", "--compile", "never"]) == WELL
        assert "\x1b[" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["cost", "model.py:loss", "f32[64,10]"], "1 type was given"),
            (["cost", "model.py:lost", *TYPES], "Did you mean 'loss'?"),
            (["cost", "model.py:loss", *TYPES, "--apply", "gard"], "Did you mean 'grad'?"),
            (["cost", "model.py:loss", *TYPES, "--by", "lines"], "invalid choice: 'lines'"),
            (["memory", "model.py:loss", *TYPES, "--donate", "2"], "there are 2 arguments, with the numbers from 0"),
            (["memory", "model.py:loss", *TYPES, "--donate", "w"], "--donate takes a number or several"),
            (["memory", "model.py:loss", *TYPES, "--donate", "0", "--apply", "jit"], "leave jit out of --apply"),
            (["cost", "model.py:loss", "f32[64,10]", "f32[3,4]"], "model.py:5 (loss)"),
        ],
    )
    def test_errors_say_what_is_wrong(self, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(words) in (WRONG_USAGE, USERS_ERROR)
        assert said in capsys.readouterr().err

    def test_an_exception_of_the_users_own(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["memory", "model.py:failing", "f32[]"]) == USERS_ERROR
        assert "ValueError: no such weights" in capsys.readouterr().err
