"""The examples in docstrings run, and print what they say; and every public function, class and method has one."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pullback as pb

SKIPPED = {"pullback.__main__", "pullback.core.errors"}  # the command itself; tests/core/test_errors.py runs those of errors
MODULES = [info.name for info in pkgutil.walk_packages(pb.__path__, "pullback.") if info.name not in SKIPPED]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# What examples take for granted, as the docstring of pullback.numpy says.
NAMES = {"pb": pb, "pnp": pb.numpy, "np": np, "lax": pb.lax, "nn": pb.nn, "tree": pb.tree}

NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+)(?:e[-+]?\d+)?")


class Checker(doctest.OutputChecker):
    """Takes floating-point numbers that are equal to 5 digits as equal: the last ones depend on the processor."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if super().check_output(want, got, optionflags):
            return True
        wanted, found = ([float(number) for number in NUMBER.findall(text)] for text in (want, got))
        same = len(wanted) == len(found) and np.allclose(wanted, found, rtol=1e-5, atol=0)
        return same and super().check_output(
            *[re.sub(r"\s", "", NUMBER.sub("#", text)) + "\n" for text in (want, got)], optionflags
        )


def run(test: doctest.DocTest) -> None:
    runner = doctest.DocTestRunner(Checker(), optionflags=OPTIONS)
    failures, _ = runner.run(test)
    assert not failures, f"{failures} examples of {test.name} fail; see the captured output"


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module(name: str) -> None:
    """Those of everything that is written in a module, public or not."""
    for test in doctest.DocTestFinder().find(importlib.import_module(name), extraglobs=NAMES):
        run(test)


RAISES_NOTHING = {"numpy.isscalar"}


def is_ours(found: Any) -> bool:
    return (getattr(found, "__module__", None) or "").startswith("pullback")


def public() -> Iterator[tuple[str, Any]]:
    """Everything public that is ours: functions, classes, and the methods and properties of these, each once."""
    seen: set[int] = set()
    rooms = ["numpy", "lax"]
    for room in rooms:
        module = getattr(pb, room) if room else pb
        for name in module.__all__:
            found = getattr(module, name)
            if callable(found) and is_ours(found) and id(found) not in seen:
                seen.add(id(found))
                yield f"{room}.{name}".lstrip("."), found
                for member in dir(found) if inspect.isclass(found) else ():
                    method = inspect.getattr_static(found, member, None)
                    method = method.fget if isinstance(method, property) else getattr(method, "__func__", method)
                    if not member.startswith("_") and callable(method) and is_ours(method) and id(method) not in seen:
                        seen.add(id(method))
                        yield f"{room}.{name}.{member}".lstrip("."), method


PUBLIC = dict(public())


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_has_an_example_that_runs(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert ">>> " in text, f"{name} has no example"
    run(doctest.DocTestParser().get_doctest(text, dict(NAMES), name, None, None))


def sections(text: str) -> dict[str, str]:
    """The parts of a docstring by their headings: Arguments, Returns, Raises, Example."""
    parts = re.split(r"^(\w+):$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


@pytest.mark.parametrize("name", [name for name, found in PUBLIC.items() if inspect.isfunction(found)])
def test_a_docstring_says_what_goes_in_and_what_comes_out(name: str) -> None:
    function = PUBLIC[name]
    parts = sections(inspect.getdoc(function) or "")
    signature = inspect.signature(function)
    is_method = name.count(".") > 1 or (name.count(".") == 1 and name[0].isupper())
    parameters = list(signature.parameters)[is_method:]
    unnamed = [each for each in parameters if not re.search(rf"\b{each}\b", parts.get("Arguments", ""))]
    assert not unnamed, f"{name} does not say what {', '.join(unnamed)} may be"
    if signature.return_annotation not in ("None", None) and not is_method:
        assert "Returns" in parts, f"{name} does not say what it returns"
    if parameters and not is_method and name not in RAISES_NOTHING:
        assert "Raises" in parts, f"{name} does not say what it raises"
