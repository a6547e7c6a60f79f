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
        return pb.jit(first_name)(x) + pb.jit(second_name)(2 * x)

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


@pytest.mark.parametrize(
    "file", ["plain.py", 'with "quotes".py', "back\\slash.py", "über/ノート.py", "new\nline.py", "not \udcff utf-8.py"]
)
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
    assert re.search(rf'"([a-z_]+/)*sin"\("{re.escape(HERE)}":\d+:0\)', text)
    assert f'"scan/reduce_sum"("{HERE}":{line_of(body)}:0)' in text
    assert pb.jit(loop).lower(X).compile().as_text()


def scoped(x, outer="outer"):
    with pb.named_scope(outer):
        y = pnp.sin(x)
        with pb.named_scope("inner"):
            y = y * pnp.dot(x, x)
    return pnp.sum(y)


def inside(x):
    with pb.named_scope("caller"):
        return pb.jit(scoped)(x)


def repeated(x):
    def body(carry, _):
        with pb.named_scope("step"):
            return pnp.tanh(carry), None

    with pb.named_scope("loop"):
        return pb.lax.scan(body, x, None, length=3)[0]


# The names that operations have in optimized HLO: as in JAX 0.10.2, but for `jit(scoped)/` in front, and that what the user's
# own function computes is never said to be part of a `jvp`
NAMES = {
    "value": (scoped, {"outer/sin", "outer/inner/mul", "outer/inner/dot_general", "reduce_sum"}),
    "grad": (
        pb.grad(scoped),
        {"jvp(outer)/cos", "transpose(jvp(outer))/mul", "transpose(jvp(outer))/inner/dot_general", "transpose(jvp(outer))/add"},
    ),
    "jvp": (lambda x: pb.jvp(scoped, (x,), (x,))[1], {"jvp(outer)/cos", "jvp(outer)/mul", "jvp(outer)/inner/mul"}),
    "vmap": (pb.vmap(lambda x: scoped(x[None])), {"outer/sin", "outer/inner/mul"}),
    "call": (inside, {"caller/call/outer/sin", "caller/call/outer/inner/mul"}),
    "grad of a call": (pb.grad(inside), {"transpose(jvp(caller))/call/transpose(jvp(outer))/inner/dot_general"}),
    "loop": (repeated, {"loop/scan/step/tanh"}),
}


@pytest.mark.parametrize("which", NAMES)
def test_named_scopes_are_in_the_names_of_operations(which):
    function, expected = NAMES[which]
    lowered = pb.jit(function).lower(np.ones(3, np.float32))
    assert expected <= set(re.findall(r'op_name="([^"]*)"', lowered.compile().as_text()))
    assert set(re.findall(r"[a-z]+(?=/)", " ".join(expected))) <= set(re.findall(r"[a-z]+", lowered.as_text()))


def test_an_equal_program_shows_its_own_scopes(capsys):
    x = np.ones(3, np.float32)
    first, second = (pb.jit(lambda x, name=name: scoped(x, name), show_graph=True) for name in ("former", "latter"))
    before = pb.cache_info()
    first(x)
    assert "former/inner/mul" in capsys.readouterr().out
    second(x)
    after = pb.cache_info()
    shown = capsys.readouterr().out
    assert "latter/inner/mul" in shown and "former" not in shown
    assert after.hits + after.disk_hits > before.hits + before.disk_hits  # one executable for both


def test_an_operation_that_xla_refuses_is_named_without_its_scopes():
    wrong = pb.Primitive("wrong")
    wrong.def_result_type(lambda x: x)
    wrong.def_lower(lambda write, x: write.op("stablehlo.no_such_operation", [x]))

    def function(x):
        with pb.named_scope("a/b"):
            return wrong(x)

    with pytest.raises(pb.errors.ProgramError, match="the lowering rule of primitive 'wrong' wrote"):
        pb.jit(function)(X)


def test_hlo_as_xla_begins_with_it():
    text = pb.jit(lambda x: pnp.dot(x, x)).lower(X).as_text("hlo")
    assert text.startswith("HloModule") and " dot(" in text and "fusion" not in text
    with pytest.raises(ValueError, match="'stablehlo' or 'hlo', not 'mhlo'"):
        pb.jit(lambda x: x).lower(X).as_text("mhlo")
