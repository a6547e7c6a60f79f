"""`python -m pullback xpr`: what it prints, and what it says when something is wrong."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

MODEL = '''\
"""A model to look into."""

import pullback.numpy as pnp


def loss(w, x):
    return pnp.sum(pnp.sin(w) * x)


def tree(params, x):
    return pnp.sum(params["w"] * x) + params["b"]


def pair(both):
    return both[0] * both[1]


def power(n, x):
    for _ in range(n - 1):
        x = x * pnp.cos(x)
    return x


def scaled(x, n):
    return x * n


def named(x, **options):
    return x * options["n"]


def broken(x):
    return x["name"]


def rows(x):
    return pnp.sum(x, axis=0)


class Model:
    @staticmethod
    def score(x):
        return 2.0 * x


NUMBER = 3
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("model")
    (folder / "model.py").write_text(MODEL)
    (folder / "helper.py").write_text("FACTOR = 2.0\n")
    (folder / "with_helper.py").write_text("from helper import FACTOR\n\n\ndef double(x):\n    return x * FACTOR\n")
    (folder / "bad_syntax.py").write_text("def f(:\n")
    (folder / "raises.py").write_text("def f(x):\n    return x\n\n\nraise ValueError('mine')\n")
    return folder


def run(folder: pathlib.Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "pullback", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def output(folder: pathlib.Path, *arguments: str) -> str:
    done = run(folder, "xpr", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# ---- what it prints -----------------------------------------------------------------------------------------------------


def test_program(folder: pathlib.Path) -> None:
    assert output(folder, "model.py:loss", "f32[3]", "f32[3]") == (
        "{ lambda (a:f32[3]:cpu(0), b:f32[3]:cpu(0)) ;\n"
        "  let\n"
        "    c:f32[3]:cpu(0) = sin a\n"
        "    d:f32[3]:cpu(0) = mul c b\n"
        "    e:f32[]:cpu(0) = reduce_sum[axes=(0,)] d\n"
        "  in e }\n"
    )


@pytest.mark.parametrize(
    ("apply", "first", "last"),
    [
        ("grad", "(a:f32[4]:cpu(0), b:f32[4]:cpu(0))", ":f32[4]:cpu(0) = mul"),
        ("value_and_grad", "(a:f32[4]:cpu(0), b:f32[4]:cpu(0))", "in ("),
        ("jit", "(a:f32[4]:cpu(0), b:f32[4]:cpu(0))", "in loss"),
        ("hessian", "(a:f32[4]:cpu(0), b:f32[4]:cpu(0))", ":f32[4,4]:cpu(0) ="),
        ("jacfwd", "(a:f32[4]:cpu(0), b:f32[4]:cpu(0))", ":f32[4]:cpu(0) ="),
        ("jacrev", "(a:f32[4]:cpu(0), b:f32[4]:cpu(0))", ":f32[4]:cpu(0) ="),
        ("grad, jit", "(a:f32[4]:cpu(0), b:f32[4]:cpu(0))", "cos"),
    ],
)
def test_transformations(folder: pathlib.Path, apply: str, first: str, last: str) -> None:
    text = output(folder, "model.py:loss", "f32[4]", "f32[4]", "--apply", apply)
    assert first in text.splitlines()[0]
    if apply != "jit":
        assert last in text


def test_transformations_apply_from_left_to_right(folder: pathlib.Path) -> None:
    batched_gradient = output(folder, "model.py:loss", "f32[5,3]", "f32[5,3]", "--apply", "grad,vmap")
    assert batched_gradient.startswith("{ lambda (a:f32[5,3]:cpu(0), b:f32[5,3]:cpu(0)) ;") and "cos a" in batched_gradient
    refused = run(folder, "xpr", "model.py:loss", "f32[5,3]", "f32[5,3]", "--apply", "vmap,grad")
    assert refused.returncode == 2 and "0-d" in refused.stderr


def test_jvp_takes_the_tangents_types_after_the_arguments(folder: pathlib.Path) -> None:
    text = output(folder, "model.py:loss", "f32[3]", "f32[3]", "f32[3]", "f32[3]", "--apply", "jvp")
    assert "cos a" in text and text.rstrip().endswith(") }")


def test_argnums_and_in_axes(folder: pathlib.Path) -> None:
    second = output(folder, "model.py:loss", "f32[3]", "f32[3]", "--apply", "grad", "--argnums", "1")
    assert "sin a" in second and "cos" not in second
    both = output(folder, "model.py:loss", "f32[3]", "f32[3]", "--apply", "grad", "--argnums", "0,1")
    assert "sin a" in both and "cos a" in both
    shared = output(folder, "model.py:loss", "f32[5,3]", "f32[3]", "--apply", "vmap", "--in-axes", "(0, None)")
    assert "in" in shared and ":f32[5]:cpu(0) = reduce_sum[axes=(1,)]" in shared


def test_trees_static_values_methods_and_neighbours(folder: pathlib.Path) -> None:
    assert output(folder, "model.py:tree", "{w: f32[3], b: f32[]}", "f32[3]").startswith(
        "{ lambda (a:f32[]:cpu(0), b:f32[3]:cpu(0), c:f32[3]:cpu(0)) ;"
    )
    assert "mul a b" in output(folder, "model.py:pair", "(f32[2], f32[2])")
    assert output(folder, "model.py:power", "f32[]", "--static", "n=3").count("cos") == 2
    assert "mul a 3.0" in output(folder, "model.py:scaled", "f32[2]", "--static", "n=3.0")
    assert "mul a 3.0" in output(folder, "model.py:named", "f32[2]", "--static", "n=3.0")
    assert "mul 2.0 a" in output(folder, "model.py:Model.score", "f32[2]")
    assert "mul a 2.0" in output(folder, "with_helper.py:double", "f32[2]")
    assert "~f32[]" in output(folder, "model.py:pair", "[~f32[], f32[]]")


def test_a_module_of_a_package(folder: pathlib.Path) -> None:
    """Its imports by a dot are those of Python, from wherever it is named; so are those of its neighbours by name."""
    inner = folder / "package" / "inner"
    inner.mkdir(parents=True)
    (folder / "package" / "__init__.py").write_text("")
    (folder / "package" / "numbers.py").write_text("factor = 2.0\n")
    (inner / "__init__.py").write_text("")
    (inner / "beside.py").write_text("shift = 3.0\n")
    (inner / "layer.py").write_text(
        "import numbers\nimport beside\nfrom . import beside as same\nfrom ..numbers import factor\n"
        "def layer(x):\n    assert numbers.Number\n    return x * factor + beside.shift - same.shift\n"
    )
    for where, place in ((folder, "package/inner/layer.py"), (inner, "layer.py"), (inner, str(inner / "layer.py"))):
        text = output(where, f"{place}:layer", "f32[2]")
        assert "mul a 2.0" in text and "3.0" in text, text


def test_a_closed_output(folder: pathlib.Path) -> None:
    """Whoever starts it without an output wants the exit code alone."""
    words = [sys.executable, "-m", "pullback", "xpr", "model.py:loss", "f32[3]", "f32[3]"]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *words], cwd=folder, stderr=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_warnings_at_no_line_of_the_users(folder: pathlib.Path) -> None:
    """They are one line, which names none of ours; the user's own are what Python shows."""
    (folder / "warns.py").write_text(
        "import warnings\n\n\ndef long(x):\n    warnings.warn('mine')\n"
        "    for _ in range(9):\n        x = x + 1.0\n    return x\n"
    )
    words = [sys.executable, "-m", "pullback", "cost", "warns.py:long", "f32[]"]
    environment = {**os.environ, "PULLBACK_LARGE_PROGRAM": "5"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    mine, _, large = done.stderr.splitlines()
    assert mine == "warns.py:5: UserWarning: mine"
    assert large.startswith("pullback: LargeProgramWarning: The program of xpr of long (warns.py:4) has 9 equations.")


def test_sources(folder: pathlib.Path) -> None:
    line = MODEL.split("\n").index("    return pnp.sum(pnp.sin(w) * x)") + 1
    text = output(folder, "model.py:loss", "f32[3]", "f32[3]", "--apply", "grad", "--sources")
    assert f"# model.py:{line}" in text


def test_color(folder: pathlib.Path) -> None:
    colored = output(folder, "model.py:loss", "f32[4,3]", "f32[4,3]", "--apply", "grad,vmap", "--color", "always")
    assert "a:f32[\x1b[34m4\x1b[0m,\x1b[95m3\x1b[0m]" in colored  # the batch axis blue, the other pink
    assert "\x1b[" not in output(folder, "model.py:loss", "f32[3]", "f32[3]", "--color", "never")
    assert "\x1b[" not in output(folder, "model.py:loss", "f32[3]", "f32[3]")


def test_stablehlo_and_optimized(folder: pathlib.Path) -> None:
    lowered = output(folder, "model.py:loss", "f32[4,3]", "f32[4,3]", "--apply", "grad,vmap", "--show", "stablehlo")
    assert lowered.startswith("module @") and "stablehlo.cosine" in lowered
    optimized = output(folder, "model.py:loss", "f32[4,3]", "f32[4,3]", "--apply", "grad,vmap", "--show", "optimized")
    assert optimized.startswith("HloModule") and "ENTRY" in optimized and "f32[4,3]" in optimized


def test_help_and_versions(folder: pathlib.Path) -> None:
    for arguments in (["--help"], ["xpr", "--help"]):
        done = run(folder, *arguments)
        assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("usage: python -m pullback")
    assert "value_and_grad" in done.stdout and "{w: f32[3], b: f32[]}" in done.stdout
    assert run(folder, "version").stdout == run(folder, "--version").stdout
    versions = dict(line.split(maxsplit=1) for line in run(folder, "version").stdout.splitlines())
    assert versions["devices"].startswith("cpu(0)") and {"pullback", "jaxlib", "numpy"} <= set(versions)


# ---- what it says when something is wrong -------------------------------------------------------------------------------

ONE = ("model.py:loss", "f32[3]", "f32[3]")
WRONG = {
    "no such file": (("modle.py:loss", "f32[3]"), ["'modle.py' does not exist", "Did you mean 'model.py'?"]),
    "a folder": ((".:loss", "f32[3]"), ["is a folder"]),
    "no function named": (("model.py", "f32[3]"), ["FILE.py:FUNCTION"]),
    "no such function": (("model.py:los", "f32[3]"), ["no function 'los'", "Did you mean 'loss'?"]),
    "no such function, none near": (("model.py:zzz", "f32[3]"), ["It has ", "loss"]),
    "not a function": (("model.py:NUMBER", "f32[3]"), ["of type int, not a function"]),
    "unknown transformation": ((*ONE, "--apply", "gard"), ["'gard' is no transformation", "Did you mean 'grad'?"]),
    "unknown transformation, none near": ((*ONE, "--apply", "zzz"), ["There are grad, value_and_grad, vmap, jit"]),
    "unfinished type": (("model.py:loss", "f32[3", "f32[3]"), ["'f32[3'", "never closed"]),
    "unknown dtype": (("model.py:loss", "float32[3]", "f32[3]"), ["'float32'", "Did you mean 'f32'?"]),
    "dtype without axes": (("model.py:loss", "f32", "f32[3]"), ["A single number is f32[]"]),
    "two types in one": (("model.py:loss", "f32[3] f32[3]"), ["Quote each type by itself"]),
    "too few types": (("model.py:loss", "f32[3]"), ["(w, x)", "1 type was given", "'x'"]),
    "too many types": (("model.py:loss", *["f32[3]"] * 3), ["(w, x)", "3 types were given"]),
    "odd types for jvp": (("model.py:rows", "f32[3]", "--apply", "jvp"), ["tangents", "1 were given"]),
    "no scalar": (("model.py:rows", "f32[3,4]", "--apply", "grad"), ["0-d", "rows", "f32[4]"]),
    "integers": (("model.py:loss", "i32[3]", "i32[3]", "--apply", "grad"), ["i32[3]", "integers"]),
    "argnums out of range": ((*ONE, "--apply", "grad", "--argnums", "5"), ["argument 5", "2 that were passed by position"]),
    "argnums no number": ((*ONE, "--apply", "grad", "--argnums", "x"), ["--argnums takes a number", "'x'"]),
    "argnums no integer": ((*ONE, "--apply", "grad", "--argnums", "'x'"), ["--argnums takes a number"]),
    "in-axes no axes": ((*ONE, "--apply", "vmap", "--in-axes", "x"), ["--in-axes takes an axis", "'x'"]),
    "in-axes wrong": ((*ONE, "--apply", "vmap", "--in-axes", "(0, 1)"), ["axis 1"]),
    "batches differ": (("model.py:loss", "f32[2,3]", "f32[4,3]", "--apply", "vmap"), ["different sizes", "w", "x"]),
    "vmap of a number": (("model.py:Model.score", "f32[]", "--apply", "vmap"), ["has no axes"]),
    "unknown static": ((*ONE, "--static", "k=1"), ["--static names 'k'", "w, x"]),
    "static twice": ((*ONE, "--static", "w=1", "--static", "w=2"), ["--static gives 'w' twice, 1 and 2"]),
    "static without value": ((*ONE, "--static", "k"), ["NAME=VALUE", "'k'"]),
    "sources of StableHLO": ((*ONE, "--show", "stablehlo", "--sources"), ["--sources goes with --show program"]),
    "unknown form": ((*ONE, "--show", "graph"), ["'graph'", "optimized", "--help"]),
    "unknown option": ((*ONE, "--fast"), ["--fast", "--help"]),
    "argnums out of range, at no line": ((*ONE, "--apply", "grad", "--argnums", "5"), ["by position.\n"]),
    "no arguments": ((), ["required: FILE.py:FUNCTION;", "FILE.py:FUNCTION", "--help"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage_is_one_line(folder: pathlib.Path, case: str) -> None:
    arguments, words = WRONG[case]
    done = run(folder, "xpr", *arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("pullback: ") and done.stderr.count("\n") == 1 and done.stderr.endswith("\n")
    for word in words:
        assert word in done.stderr


def test_unknown_command(folder: pathlib.Path) -> None:
    done = run(folder, "tuor")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "'tuor'" in done.stderr and "tour" in done.stderr


@pytest.mark.parametrize(
    ("place", "types", "wanted"),
    [
        ("model.py:broken", ["f32[3]"], ['File "model.py", line', 'return x["name"]']),
        ("model.py:loss", ["f32[3]", "f32[4]"], ['File "model.py", line', "pnp.sin(w) * x", "ShapeError"]),
        ("bad_syntax.py:f", [], ['File "bad_syntax.py", line 1', "SyntaxError"]),
        ("raises.py:f", ["f32[3]"], ['File "raises.py", line 5', "ValueError: mine"]),
    ],
)
def test_the_users_own_exception_shows_their_own_traceback(
    folder: pathlib.Path, place: str, types: list[str], wanted: list[str]
) -> None:
    done = run(folder, "xpr", place, *types)
    assert done.returncode == 1 and done.stdout == ""
    for words in wanted:
        assert words in done.stderr
    assert done.stderr.count('File "') == 1  # no frame of ours, nor of runpy
    full = run(folder, "xpr", place, *types, PULLBACK_TRACEBACKS="all")
    assert full.returncode == 1 and len(full.stderr) >= len(done.stderr)


def test_a_reader_that_has_seen_enough(folder: pathlib.Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "pullback", "xpr", "model.py:loss", "f32[3]", "f32[3]"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 0
