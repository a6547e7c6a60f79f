"""Programs under `python -m pullback.compat.jax`: the command line, errors, absent modules, processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def run(where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of the façade, in a directory and a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "pullback.compat.jax", *arguments],
        cwd=where,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def program(where: Path, text: str) -> subprocess.CompletedProcess[str]:
    """A program of this text, run."""
    (where / "program.py").write_text(text)
    return run(where, "program.py")


def test_the_command_line_says_how_it_is_used(tmp_path: Path) -> None:
    asked, empty, missing = run(tmp_path, "--help"), run(tmp_path), run(tmp_path, "nosuch.py", "--steps")
    assert (asked.returncode, asked.stderr) == (0, "") and asked.stdout.startswith("usage: ")
    assert empty.returncode == 1 and empty.stderr.startswith("usage: ")
    assert missing.returncode == 1 and missing.stderr.startswith("There is no file 'nosuch.py'")


def test_a_module_of_the_program_runs_with_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text("import jax, sys\nprint(jax.__name__, sys.argv[1:], __name__)\n")
    for arguments in (["-m", "package"], ["package"]):
        done = run(tmp_path, *arguments, "-m", "--help")
        assert done.stdout == "pullback.compat.jax ['-m', '--help'] __main__\n", done.stderr


def test_an_error_is_shown_from_the_first_frame_of_the_program_on(tmp_path: Path) -> None:
    done = program(tmp_path, "import jax.numpy as jnp\ndef f(x):\n    return x @ x\nf(jnp.ones((2, 3)))\n")
    assert done.returncode == 1
    lines = [line.strip() for line in done.stderr.splitlines() if not line.strip().startswith(("~", "^"))]
    assert lines[1].endswith('program.py", line 4, in <module>') and lines[3].endswith('program.py", line 3, in f')
    assert len(lines) == 7 and "ShapeError: matmul of f32[2,3] and f32[2,3]" in lines[5]
    assert lines[6].startswith("More: `python -m pullback help ShapeError`")


def test_an_error_of_syntax_is_shown_alone(tmp_path: Path) -> None:
    done = program(tmp_path, "x = = 3\n")
    assert "program.py" in done.stderr.splitlines()[0] and "runpy" not in done.stderr


@pytest.mark.parametrize(
    "statement",
    ["import jax.ffi", "from jax import ffi", "from jax.ffi import pycapsule", "import jax; jax.ffi"],
)
def test_an_absent_module_says_why(tmp_path: Path, statement: str) -> None:
    last = program(tmp_path, statement).stderr.splitlines()[-1]
    assert "jax.ffi is not provided by pullback: it comes later" in last
    assert last.startswith("AttributeError" if ";" in statement else "ModuleNotFoundError")


def test_absent_names_can_be_looked_for(tmp_path: Path) -> None:
    text = """
import jax
try:
    from jax import no_such_name
except ImportError as error:
    print(error.name)
print(hasattr(jax, "no_such_name"), hasattr(jax.numpy, "no_such_name"))
"""
    assert program(tmp_path, text).stdout.split() == ["jax.no_such_name", "False", "False"]


PROCESSES = """
import multiprocessing
import jax

def square(x):
    import jax
    return jax.__name__, float(jax.jit(lambda x: x * x)(x))

if __name__ == "__main__":
    for method in {methods}:
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.map(square, [3.0]))
"""


def test_processes_that_the_program_starts_have_pullback_for_jax(tmp_path: Path) -> None:
    methods = ["spawn", "forkserver"] if "forkserver" in multiprocessing.get_all_start_methods() else ["spawn"]
    done = program(tmp_path, PROCESSES.format(methods=methods))
    assert done.stdout.splitlines() == ["[('pullback.compat.jax', 9.0)]"] * len(methods), done.stderr


def test_pmap_takes_as_many_elements_as_there_are_devices(tmp_path: Path) -> None:
    text = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax
print(jax.device_count(), jax.pmap(lambda x: jax.lax.psum(x, "i"), "i")(jax.numpy.arange(1.0, 3.0)))
try:
    jax.pmap(jax.numpy.sin)(jax.numpy.ones(3))
except ValueError as error:
    print(error)
"""
    first, second = program(tmp_path, text).stdout.splitlines()
    assert first == "2 [3. 3.]" and "of which this process has 2." in second


def test_each_function_says_something_of_itself(tmp_path: Path) -> None:
    text = """
import jax
for module in (jax, jax.lax, jax.numpy, jax.nn, jax.random, jax.tree_util, jax.debug, jax.profiler):
    for name in dir(module):
        value = getattr(module, name)
        silent = callable(value) and not isinstance(value, type) and not value.__doc__
        assert name.startswith("_") or not silent, f"{module.__name__}.{name}"
print(jax.lax.scan.__doc__)
"""
    done = program(tmp_path, text)
    assert done.stdout == "As JAX's: https://docs.jax.dev/en/latest/_autosummary/jax.lax.scan.html\n", done.stderr
