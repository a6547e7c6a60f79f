"""`python -m pullback diff`: what it prints, its exit codes, and what it says when something is wrong."""

from __future__ import annotations

import pathlib
import re

import pytest

import pullback as pb
from pullback.__main__ import main

MODEL = """\
import pullback.numpy as pnp


def loss(w, x):
    return pnp.sum(pnp.sin(w) * x)


def other(w, x):
    return pnp.sum(pnp.cos(w) * x)


def one(x):
    return x


def power(w, x, n):
    return pnp.sum(w**n * x)


def broken(w, x):
    return w["name"]


def raised(x, n):
    return x**n


def squared(x):
    return x * x
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    program = pb.xpr(lambda w, x: pb.numpy.sum(pb.numpy.sin(w) * x), pb.ArrayType((3,)), pb.ArrayType((3,)))
    (tmp_path / "loss.json").write_text(program.to_json())
    (tmp_path / "bad.json").write_text("{}")
    return tmp_path


TYPES = ["f32[3]", "f32[3]"]
SHOWN: list[tuple[list[str], int, str]] = [
    (["model.py:loss", "model.py:other", *TYPES], 0, r"- c:.* = sin a  # model.py:5.*\n\+ .* = cos a  # model.py:9"),
    (["model.py:loss", "model.py:other", *TYPES, "--exit-code"], 1, "1 changed, 2 alike"),
    (["model.py:loss", "model.py:loss", *TYPES, "--exit-code"], 0, "no difference"),
    (["loss.json", "model.py:loss", "--exit-code"], 0, "no difference"),
    (["model.py:other", "loss.json", "--exit-code"], 1, "- .* = cos a  # model.py:9.*\n.*= sin a"),
    (["loss.json", "loss.json"], 0, "no difference"),
    (["model.py:loss", "model.py:other", *TYPES, "--apply", "grad"], 0, r"--- grad_loss"),
    (["model.py:loss", "model.py:other", *TYPES, "--apply", "grad", "--argnums", "1"], 0, r"- .* = sin a  # .*\n\+ .* = cos a"),
    (["model.py:loss", "model.py:other", "f32[3]", "f32[5,3]", "--apply", "vmap", "--in-axes", "(None, 0)"], 0, r"f32\[5,3\]"),
    (["model.py:raised", "model.py:raised", "f32[3]", "--static", "n=2", "--exit-code"], 0, "no difference"),
    (["model.py:loss", "model.py:loss", "f32[3,2]", "f32[3]", "--apply", "vmap", "--in-axes", "(1, None)"], 0, "no difference"),
    (["model.py:power", "model.py:power", *TYPES, "--static", "n=3"], 0, "no difference"),
    (["model.py:loss", "model.py:other", *TYPES, "--context", "0"], 0, "@@ 2 lines alike @@\n- "),
    (["model.py:loss", "model.py:other", *TYPES, "--all"], 0, r"\n  return "),
    (["model.py:loss", "model.py:other", *TYPES, "--color", "always"], 0, "\x1b\\[31m- "),
]


@pytest.mark.parametrize("arguments, code, says", SHOWN)
def test_what_it_prints(
    arguments: list[str], code: int, says: str, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", *arguments]) == code
    found = capsys.readouterr()
    assert re.search(says, found.out) and not found.err, found


WRONG: list[tuple[list[str], str]] = [
    (["loss.json", "nowhere.json"], "there is no file 'nowhere.json'"),
    (["loss.json", "bad.json"], "bad.json: This JSON is not a Program"),
    (["model.py:loss", "model.py:other"], "but 0 types were given"),
    (["model.py:loss", "model.py:lost", *TYPES], "Did you mean 'loss'?"),
    (["loss.json", "model.py:one"], "2 types were given"),
    (["loss.json", "loss.json", "f32[3]"], "these are files of JSON"),
    (["loss.json", "loss.json", "--static", "n=2"], "these are files of JSON"),
    (["model.py:raised", "model.py:squared", "f32[3]", "--static", "n=2"], "--static names 'n', but the parameters are x"),
    (["model.py:loss", "model.py:other", "f32[3]", "--apply", "grad"], "1 type was given"),
    (["model.py:loss", "model.py:other", *TYPES, "--apply", "grda"], "Did you mean 'grad'?"),
    (["model.py:loss", "model.py:other", *TYPES, "--context", "-1"], "--context takes a number of lines"),
]


@pytest.mark.parametrize("arguments, says", WRONG)
def test_what_is_wrong_is_one_line(
    arguments: list[str], says: str, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", *arguments]) == 2
    found = capsys.readouterr()
    assert says in found.err and found.err.count("\n") == 1 and not found.out


def test_an_exception_of_the_users_is_shown_as_it_is(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "model.py:loss", "model.py:broken", *TYPES]) == 1
    assert 'return w["name"]' in capsys.readouterr().err
