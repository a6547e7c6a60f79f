"""The pages of the reference are what docs/generate.py makes of the docstrings now, and leave nothing public out."""

import inspect
import pathlib
import re
import runpy
import subprocess
import sys
import types

import pytest

REFERENCE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "reference"


@pytest.fixture(scope="module")
def generator():
    return runpy.run_path(str(REFERENCE.parent / "generate.py"))


def test_the_pages_are_up_to_date():
    command = [sys.executable, str(REFERENCE.parent / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # of its own: here Programs are checked ones
    assert done.returncode == 0, done.stderr


def test_each_name_is_on_the_page_of_its_namespace(generator):
    pages = generator["pages"]()
    for path, module in generator["namespaces"]():
        text = pages[REFERENCE / f"{path}.md"]
        assert f"({path}.md)" in pages[REFERENCE / "README.md"]
        for name in module.__all__:
            assert f"`{name}`" in text or f"### `{name}(" in text, f"{path}.{name}"
            if isinstance(getattr(module, name), types.FunctionType):
                assert "```python\n>>> " in text or "The same as" in text, f"{path}.{name}"


def test_links_lead_somewhere(generator):
    for file, text in generator["pages"]().items():
        for link in re.findall(r"\]\(([\w./]+\.md)\)", text):
            assert (file.parent / link).resolve().exists(), f"{link} in {file.name}"


def test_a_docstring_in_markdown(generator):
    text = """f(x) * g(x), in `x_1 * y`.

    Arguments:
        x_1: a number.
            Any number.

    Example:
        >>> f(1)
        2"""
    assert generator["rendered"](inspect.cleandoc(text)) == (
        "f(x) \\* g(x), in `x_1 * y`.\n\n*Arguments*\n\n- **x\\_1**: a number.\nAny number.\n\n```python\n>>> f(1)\n2\n```"
    )


def test_parameters_of_each_kind(generator):
    def f(a, b=1, /, c=None, *rest, d=int, e=iter, **others):
        pass

    def g(a, *, b):
        pass

    assert generator["signature"](f) == "(a, b=1, /, c=None, *rest, d=int, e=iter, **others)"
    assert generator["signature"](g) == "(a, *, b)"
