"""`python -m pullback find-nan`, `... check` and `... profile`; and the options that all commands about a function share."""

from __future__ import annotations

import json
import pathlib

import pytest

from pullback.__main__ import MODULES, main, make_parser
from pullback.cli.analysis import COMMANDS

MODEL = """\
import pullback as pb
import pullback.numpy as pnp

calls = []

def loss(w, x):
    y = pnp.sin(w * x)
    return pnp.sum(pnp.where(y > 0, pnp.sqrt(y), 0.0))

def logarithm(x):
    return pnp.sum(pnp.log(x))

def dropped(x):
    return pnp.where(x > 0, pnp.log(x), 0.0)

def counting(x):
    calls.append(1)
    return x * len(calls)

def draws(key):
    return pb.random.normal(key, (2,)) + pb.random.normal(key, (2,))

def power(x, n):
    return x**n

def raises(x):
    return x["name"]
"""
ONE = ("model.py:loss", "f32[3]", "f32[3]")


@pytest.fixture(autouse=True)
def _folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)


PRINTED: dict[str, tuple[tuple[str, ...], int, list[str]]] = {
    "NaN": (("find-nan", *ONE, "--values", "zeros"), 0, ["NaN made by mul", "safe = pnp.where(y > 0, y, 1.0)"]),
    "NaN, by the exit code": (("find-nan", *ONE, "--values", "zeros", "--exit-code"), 1, ["model.py:8 (loss)"]),
    "no NaN": (("find-nan", *ONE, "--values", "ones", "--infinity", "--exit-code"), 0, ["no NaN and no infinity"]),
    "dropped": (("find-nan", "model.py:dropped", "f32[9]", "--no-backward", "--exit-code"), 0, ["No result is NaN"]),
    "infinity": (("find-nan", "model.py:logarithm", "f32[2]", "--values", "zeros", "--infinity"), 0, ["infinity made by log"]),
    "no backward pass": (("find-nan", *ONE, "--values", "zeros", "--no-backward", "--no-compile"), 0, ["no NaN"]),
    "of a gradient": (("find-nan", "model.py:logarithm", "f32[9]", "--apply", "grad"), 0, ["The function itself returns NaN"]),
    "impure": (("check", "model.py:counting", "f32[3]"), 0, ["gave a different program", "model.py:18"]),
    "impure, by the exit code": (("check", "model.py:counting", "f32[3]", "--exit-code"), 1, ["gave a different program"]),
    "another thing": (("check", "model.py:counting", "f32[3]", "--only", "nan,keys"), 0, ["nothing found of nan, keys"]),
    "a key": (
        ("check", "model.py:draws", "key<fry>[]", "--only", "keys"),
        0,
        ["a key that normal has used up already", "model.py:21"],
    ),
    "NaN in a check": (("check", *ONE, "--apply", "grad", "--values", "zeros"), 0, ["NaN made by mul", "Cure"]),
    "a profile": (("profile", *ONE, "--apply", "grad", "--runs", "2", "--by", "line"), 0, ["model.py:7", "2 runs"]),
    "alone": (("profile", "model.py:power", "f32[9]", "--static", "n=3", "--runs", "1", "--alone"), 0, ["1 run"]),
}


@pytest.mark.parametrize("name", PRINTED)
def test_what_it_prints(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, code, parts = PRINTED[name]
    found = main(arguments)
    said = capsys.readouterr()
    assert (found, said.err) == (code, ""), said
    assert said.out.startswith("arguments: ") and all([part in said.out for part in parts]), said.out


def test_a_trace_is_written(tmp_path: pathlib.Path) -> None:
    assert main(["profile", *ONE, "--runs", "1", "--trace", "trace.json"]) == 0
    assert json.loads((tmp_path / "trace.json").read_text())


WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "no check": (("check", *ONE, "--only", "purty"), "Did you mean 'purity'?"),
    "runs": (("profile", *ONE, "--runs", "0"), "--runs takes a number of runs"),
    "a folder that there is not": (("profile", *ONE, "--runs", "1", "--trace", "no/t.json"), "Choose another file"),
    "a seed": (("find-nan", *ONE, "--seed", "-1"), "--seed takes a whole number"),
    "no backward pass": (("find-nan", "model.py:loss", "f32[3]"), "1 type was given"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, says = WRONG[name]
    assert main(arguments) == 2
    found = capsys.readouterr().err
    assert says in found and found.count("\n") == 1


@pytest.mark.parametrize("command", ["find-nan", "check", "profile"])
def test_the_users_own_error_is_shown_with_their_line(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "model.py:raises", "f32[3]"]) == 1
    assert 'return x["name"]' in capsys.readouterr().err


SHARED = ["--apply", "grad,vmap", "--argnums", "1", "--in-axes", "(0, None)", "--static", "n=3"]
NEEDED = {"diff": ["model.py:loss", "model.py:power"], "plan": ["--mesh", "data=2", "model.py:loss"]}


@pytest.mark.parametrize("command", [*MODULES, *COMMANDS])
def test_all_commands_about_a_function_take_the_same_options(command: str) -> None:
    options = make_parser().parse_args([command, *NEEDED.get(command, ["model.py:loss"]), "f32[3]", *SHARED])
    assert (options.apply, options.argnums, options.in_axes, options.static) == ("grad,vmap", "1", "(0, None)", ["n=3"])
    assert options.types == ["f32[3]"]
