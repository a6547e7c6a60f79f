"""What shows a compiled program shows the user's own lines and names, whichever equal Program was compiled before."""

import re

import numpy as np
import pytest

import pullback as pb
from pullback.engine import disk

pnp = pb.numpy
X = np.ones((4, 4), np.float32)
HERE = __file__


def first_name(x):
    return pnp.sum(pnp.tanh(x @ x))


def second_name(y):
    return pnp.sum(pnp.tanh(y @ y))


def line_of(function):
    return function.__code__.co_firstlineno + 1


def shows(text, function, other):
    assert function.__name__ in text and other.__name__ not in text
    assert HERE in text
    lines = {int(number) for number in re.findall(r'test_shown\.py":(\d+):', text)}
    lines |= {int(number) for number in re.findall(r"\bline=(\d+)|source_line=(\d+)", text) for number in number if number}
    assert lines == {line_of(function)}


@pytest.fixture(params=["memory", "disk"])
def compiled_before(request, monkeypatch):
    """Another function with an equal Program has been compiled: its executable is the one that runs."""
    monkeypatch.setattr("pullback.engine.xla.KEPT_SECONDS", 0.0)
    pb.jit(first_name)(X)
    if request.param == "disk":
        pb.clear_caches()
    before = pb.cache_info()
    yield
    after = pb.cache_info()
    assert after.hits + after.disk_hits > before.hits + before.disk_hits


def test_texts(compiled_before):
    lowered = pb.jit(second_name).lower(X)
    shows(lowered.as_text(), second_name, first_name)
    shows(lowered.compile().as_text(), second_name, first_name)


def test_show_graph(compiled_before, capsys):
    pb.jit(second_name, show_graph=True)(X)
    shows(capsys.readouterr().out, second_name, first_name)


def test_inner_functions_that_are_equal_keep_their_names():
    def outer(x):
        return pb.jit(first_name)(x) + pb.jit(second_name)(x)

    text = pb.jit(outer).lower(X).as_text()
    assert "first_name" in text and "second_name" in text
    assert f":{line_of(first_name)}:" in text and f":{line_of(second_name)}:" in text


def test_locations_change_nothing_that_is_compiled():
    compiled = pb.jit(pb.grad(first_name)).lower(X).compile()
    executable = compiled._signature.compile()
    run = "\n".join(module.to_string() for module in executable.raw.hlo_modules())

    def operations(text):
        text = re.sub(r", metadata=\{[^}]*\}", "", text[re.search(r"^(%|ENTRY)", text, re.MULTILINE).start() :])
        return re.findall(r"= (\S+ [\w\-]+)\(", text)  # types and operations; XLA makes names of the operations' names

    assert operations(compiled.as_text()) == operations(run)


def test_what_is_kept_on_disk_holds_no_path_of_the_user(own_cache, monkeypatch):
    monkeypatch.setattr("pullback.engine.xla.KEPT_SECONDS", 0.0)
    pb.jit(first_name, show_graph=False)(X)
    (path,) = (own_cache / disk.FOLDER).glob("*.xla")
    assert b"test_shown" not in path.read_bytes()


@pytest.mark.parametrize("file", ["plain.py", 'with "quotes".py', "back\\slash.py", "über/ノート.py", "new\nline.py"])
def test_every_file_name_can_be_a_location(file):
    code = compile("def f(x):\n    return pnp.sin(x) * 2.0\n", file, "exec")
    scope = {"pnp": pnp}
    exec(code, scope)
    lowered = pb.jit(scope["f"]).lower(X)
    assert ":2:0)" in lowered.as_text()
    assert "line=2" in lowered.compile().as_text()


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: pb.jit(f), lambda f: lambda x: pb.lax.cond(x[0, 0] > 0, f, f, x)])
def test_loops_branches_and_calls_are_located(wrap):
    def body(carry, _):
        return wrap(pnp.sin)(carry), pnp.sum(carry)

    def loop(x):
        return pb.lax.scan(body, x, None, length=3)

    text = pb.jit(loop).lower(X).as_text()
    assert re.search(rf'"sin"\("{re.escape(HERE)}":\d+:0\)', text)
    assert f'"reduce_sum"("{HERE}":{line_of(body)}:0)' in text
    assert pb.jit(loop).lower(X).compile().as_text()
