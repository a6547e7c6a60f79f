"""The user's lines, functions named for messages, and tracebacks without our frames."""

import functools
import gc
import importlib
import io
import os
import subprocess
import sys
import textwrap
import traceback
import types
import weakref

import numpy as np
import pytest
from counting import calls_made

import pullback as pb
import pullback.numpy as pnp
from pullback.core import source
from pullback.core.source import (
    RecordedSource,
    api_boundary,
    describe,
    forget_callers,
    innermost,
    is_ours,
    trim,
    user_source,
)

OURS = os.path.join(source.PACKAGE, "made_up.py")


def ours(text, **names):
    """A function `f` that seems to be defined in a file of the package."""
    exec(compile(textwrap.dedent(text), OURS, "exec"), names)
    return names["f"]


# ---- the user's line ---------------------------------------------------------------------------------------------------


def test_a_source_knows_its_file_line_function_and_text():
    place = user_source()
    assert place.file == __file__
    assert place.line == test_a_source_knows_its_file_line_function_and_text.__code__.co_firstlineno + 1
    assert place.function == "test_a_source_knows_its_file_line_function_and_text"
    assert place.text == "place = user_source()"
    assert str(place) == f"{__file__}:{place.line} ({place.function}): place = user_source()"


def test_the_line_within_a_call_of_several_lines():
    places = [
        None,
        user_source(),
    ]
    assert places[1].line == test_the_line_within_a_call_of_several_lines.__code__.co_firstlineno + 3


def test_our_frames_are_skipped():
    through = ours("def f(): return inner()", inner=ours("def f(): return user_source()", user_source=user_source))
    place = through()
    assert (place.file, place.function) == (__file__, "test_our_frames_are_skipped")
    assert place.text == "place = through()"


def test_frames_of_libraries_in_between_are_skipped():
    """A single-dispatch function is called by a Python function of functools."""
    dispatched = functools.singledispatch(ours("def f(x): return user_source()", user_source=user_source))
    place = dispatched(1)
    assert (place.file, place.text) == (__file__, "place = dispatched(1)")
    for file in (functools.__file__, np.ma.__file__):
        assert not source._users_files[file] and not is_ours(file)
    assert source._users_files[__file__]


def test_the_package_is_ours_the_command_line_too():
    assert is_ours(source.__file__)
    assert not is_ours(__file__)
    assert is_ours(os.path.join(source.PACKAGE, "__main__.py"))
    assert not source._users_files["<frozen runpy>"]
    assert not is_ours("<stdin>")


def test_code_without_a_file():
    names = {"user_source": user_source}
    exec("def g():\n\n    return user_source()", names)
    place = names["g"]()
    assert (place.file, place.line, place.function, place.text) == ("<string>", 3, "g", "")
    assert str(place) == "<string>:3 (g)"


def test_a_recorded_source_says_the_same():
    place = user_source()
    assert str(RecordedSource(place.file, place.line, place.function, place.text)) == str(place)


def test_finding_the_line_calls_nothing_for_the_frames_in_between():
    def wrapped(depth):
        found = user_source
        for _ in range(depth):
            found = ours("def f(): return inner()", inner=found)
        return found

    shallow, deep = wrapped(1), wrapped(50)
    forget_callers()  # what earlier tests left, which makes room in one of these calls or in none
    calls_made(deep), calls_made(shallow)  # each file is looked at once
    assert calls_made(deep) - calls_made(shallow) == 49  # the frames themselves


# ---- functions named ---------------------------------------------------------------------------------------------------


def plain(x):
    return x


class Callable:
    def __call__(self, x):
        return x

    def method(self, x):
        return x


def decorated(x):
    return x


def decorator(function):
    @functools.wraps(function)
    def wrapper(x):
        return function(x)

    return wrapper


def place(function):
    return f"({__file__}:{function.__code__.co_firstlineno})"


def test_functions_are_named_with_their_place():
    assert describe(plain) == f"plain {place(plain)}"
    assert describe(functools.partial(functools.partial(plain, 1), 2)) == f"plain {place(plain)}"
    assert describe(decorator(functools.partial(decorator(decorated)))) == f"decorated {place(decorated)}"
    assert describe(Callable()) == f"Callable {place(Callable.__call__)}"
    assert describe(Callable().method) == f"Callable.method {place(Callable.method)}"
    anonymous = lambda x: x  # noqa: E731
    assert describe(anonymous) == f"test_functions_are_named_with_their_place.<locals>.<lambda> {place(anonymous)}"


def test_functions_without_a_place():
    assert describe(np.sin) == "sin"
    assert describe(len) == "len"
    names = {}
    exec("def g(x): return x", names)
    assert describe(names["g"]) == "g (<string>:1)"


def test_a_function_that_wraps_itself_does_not_hang():
    def loop(x):
        return x

    loop.__wrapped__ = loop
    assert innermost(loop) is loop


# ---- tracebacks --------------------------------------------------------------------------------------------------------


def frames(error):
    return [(frame.filename, frame.name) for frame in traceback.extract_tb(error.__traceback__)]


def users_callback(x):
    raise ValueError("the user's own")


def test_a_traceback_keeps_the_users_frames_in_order():
    boundary = api_boundary(ours("def f(callback): return callback(3)"))
    with pytest.raises(ValueError) as caught:
        boundary(users_callback)
    name = "test_a_traceback_keeps_the_users_frames_in_order"
    assert frames(caught.value) == [(__file__, name), (__file__, "users_callback")]


def test_an_error_of_ours_ends_at_the_users_line():
    boundary = api_boundary(ours("def f(): return inner()", inner=ours("def f(): raise ValueError('ours')")))
    with pytest.raises(ValueError, match="ours") as caught:
        boundary()
    assert frames(caught.value) == [(__file__, "test_an_error_of_ours_ends_at_the_users_line")]


def test_our_frames_come_back_on_request(monkeypatch):
    monkeypatch.setenv("PULLBACK_TRACEBACKS", "all")
    boundary = api_boundary(ours("def f(): raise ValueError('ours')"))
    with pytest.raises(ValueError) as caught:
        boundary()
    assert [filename for filename, _ in frames(caught.value)] == [__file__, source.__file__, OURS]
    monkeypatch.setenv("PULLBACK_TRACEBACKS", "none")
    with pytest.warns(RuntimeWarning, match="PULLBACK_TRACEBACKS must be one of users, .*, not 'none': all frames are shown"):
        trim(caught.value)
    monkeypatch.setenv("PULLBACK_TRACEBACKS", "")
    assert [filename for filename, _ in frames(trim(caught.value))] == [__file__]


def through_two(callback):
    """A call of the user's through two functions of ours, with one of the user's between them."""
    inner = api_boundary(ours("def f(callback): return callback(1)"))
    return api_boundary(ours("def f(between): return between()"))(lambda: inner(callback))


WITHIN = [(__file__, name) for name in ("through_two", "through_two.<locals>.<lambda>", "users_callback")]
ALL = [WITHIN[0], (source.__file__, "boundary"), (OURS, "f"), WITHIN[1], (source.__file__, "boundary"), (OURS, "f"), WITHIN[2]]


def frames_of_two(error):
    return [(step.f_code.co_filename, step.f_code.co_qualname.split("api_boundary.<locals>.")[-1]) for step, _ in
            traceback.walk_tb(error.__traceback__)][1:]  # fmt: skip


@pytest.mark.parametrize("shown", source.SHOWN)
def test_what_is_shown_of_our_frames(shown):
    with source.tracebacks.setting(shown), pytest.raises(ValueError, match="the user's own") as caught:
        through_two(users_callback)
    error = caught.value
    assert frames_of_two(error) == (ALL if shown in ("marked", "all") else WITHIN)
    hidden = ["__tracebackhide__" in step.f_locals for step, _ in traceback.walk_tb(error.__traceback__)][1:]
    assert hidden == ([file != __file__ for file, _ in ALL] if shown == "marked" else [False] * len(hidden))
    assert getattr(error, "__notes__", []) == ([source._NOTE] if shown == "noted" else [])
    if shown == "caused":
        assert isinstance(error.__cause__, source.WholeTraceback) and frames_of_two(error.__cause__) == ALL[2:]
    else:
        assert error.__cause__ is None


def test_the_whole_of_an_error_with_a_cause_keeps_that_cause():
    def chained(x):
        try:
            users_callback(x)
        except ValueError as error:
            raise TypeError("outer") from error

    with source.tracebacks.setting("caused"), pytest.raises(TypeError) as caught:
        through_two(chained)
    whole = caught.value.__cause__
    assert isinstance(whole, source.WholeTraceback) and str(whole.__cause__) == "the user's own"
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.index("the user's own") < shown.index("with pullback's own frames") < shown.index("TypeError: outer")


@pytest.mark.parametrize("shown", ["noted", "caused"])
def test_an_interruption_is_left_as_it_is(shown):
    def interrupted(x):
        raise KeyboardInterrupt

    with source.tracebacks.setting(shown), pytest.raises(KeyboardInterrupt) as caught:
        through_two(interrupted)
    assert caught.value.__cause__ is None and not hasattr(caught.value, "__notes__")
    assert [file for file, _ in frames(caught.value)] == [__file__] * 4


def test_an_occasion_that_is_ours_alone_is_not_shown():
    lookup = "def f():\n    try: {}[1]\n    except KeyError: raise ValueError('ours')"
    with pytest.raises(ValueError) as caught:
        api_boundary(ours(lookup))()
    assert caught.value.__suppress_context__
    assert "KeyError" not in "".join(traceback.format_exception(caught.value))


def test_a_cause_and_an_occasion_of_the_users_are_shown_without_our_frames():
    chained = "def f(callback):\n    try: callback(1)\n    except ValueError as error: raise TypeError('ours') from error"
    implicit = chained.removesuffix(" from error")
    for text in (chained, implicit):
        with pytest.raises(TypeError) as caught:
            api_boundary(ours(text))(users_callback)
        shown = "".join(traceback.format_exception(caught.value))
        assert "the user's own" in shown
        assert OURS not in shown and source.__file__ not in shown


def test_a_variable_that_is_neither_on_nor_off_is_named_once(monkeypatch):
    name = "PULLBACK_EXPLAIN"
    for value, on in {"": False, "0": False, "1": True}.items():
        monkeypatch.setenv(name, value)
        assert source.flag(name) is on
    monkeypatch.setenv(name, "false")
    with pytest.warns(RuntimeWarning, match=f"{name} must be 0 or 1, not 'false': it counts as 1") as caught:
        assert source.flag(name) and source.flag(name)
    assert len(caught) == 1 and caught[0].filename == __file__


def test_callers_that_another_thread_forgets_meanwhile(monkeypatch):
    class Emptied(dict):
        def __contains__(self, key):
            found = super().__contains__(key)
            self.clear()
            return found

    def inner():
        return user_source()

    monkeypatch.setattr(source, "_frames", Emptied())
    place = user_source()
    assert place is not None and inner().caller.function == place.function


def test_errors_that_cause_each_other_in_a_circle():
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert trim(first) is first


def test_what_python_prints_for_an_error_of_ours():
    """In a process of its own, as a user sees it."""
    program = """
        from pullback.program.program import Program

        def users(text):
            return api_boundary(Program.from_json)(text, {})

        from pullback.core.source import api_boundary
        users("[]")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, cwd=os.getcwd())
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert [line.split(",")[1] for line in lines if line.startswith("  File")] == [" line 8", " line 5"]
    assert 'ProgramError: This JSON is not a Program: it has no "format": "pullback.program".' in done.stderr


# ---- every function that users call ends its tracebacks at their line ------------------------------------------------------

BARE = {"pullback.debug": {"breakpoint"}}  # which has no errors of its own to raise


@pytest.mark.parametrize("name", ["", ".debug", ".lax", ".nn", ".numpy", ".sparse", ".testing", ".tree"])
def test_public_functions_trim_their_errors(name):
    module = importlib.import_module(f"pullback{name}")
    functions = {name for name in dir(module) if isinstance(getattr(module, name), types.FunctionType)}
    assert {name for name in functions if not getattr(getattr(module, name), "is_boundary", False)} == BARE.get(
        module.__name__, set()
    )


class Wrong(pb.Elementwise):
    kinds = "f"

    def evaluate(x):
        return x.sum()


wrong = pb.Primitive("wrong", result_type=lambda x: x, evaluate=lambda x: x.sum())
sine = pb.xpr(pnp.sin, 1.0)


class Watched:
    pass


MISTAKES_IN_NUMBERS = {
    "eager": lambda: pnp.ones(3).reshape(7),
    "in grad": lambda: pb.grad(lambda x: x.reshape(7))(pnp.ones(3)),
    "in jit": lambda: pb.jit(lambda x: x.reshape(7))(pnp.ones(3)),
    "in vmap": lambda: pb.vmap(lambda x: x.reshape(7))(pnp.ones((2, 3))),
    "of a callback": lambda: pb.pure_callback(lambda x: x, pnp.ones(2), pnp.ones(3)),
    "of a callback without a vmap method": lambda: pb.vmap(lambda x: pb.pure_callback(lambda x: x, x, x))(pnp.ones(3)),
    "of a function that is not linear": lambda: pb.linear_transpose(lambda x: x + 1.0, 1.0)(1.0),
}


@pytest.mark.parametrize("mistake", MISTAKES_IN_NUMBERS)
def test_an_error_that_was_caught_keeps_no_frame_of_the_users(mistake):
    """With it, all that was in the function: its arrays."""

    def caught():
        local = Watched()
        with pytest.raises((pb.errors.PullbackError, TypeError)):
            MISTAKES_IN_NUMBERS[mistake]()
        return weakref.ref(local)

    forget_callers()
    found = caught()
    gc.collect()
    assert found() is None


MISTAKES = {
    "jit of a number": lambda: pb.jit(3),
    "a static argument that is not there": lambda: pb.jit(lambda x: x, static_argnames="y"),
    "vmap of a number": lambda: pb.vmap(3),
    "in_axes of a wrong type": lambda: pb.vmap(lambda x: x, in_axes="0")(pnp.ones(3)),
    "grad of a number": lambda: pb.grad(3),
    "a budget that is no number": lambda: pb.checkpoint(lambda x: x, budget="many"),
    "custom_vjp of a number": lambda: pb.custom_vjp(3),
    "a misspelt rule": lambda: pb.Primitive("p", evalute=abs),
    "a primitive of a number": lambda: pb.primitive(3),
    "a primitive whose rules disagree": lambda: wrong(pnp.ones(3)),
    "a primitive of a wrong kind": lambda: pb.primitive(Wrong)(1),
    "a Program with too few arguments": lambda: sine(),
    "a Program with an argument of another shape": lambda: sine(pnp.ones(3)),
    "a Program of what is no JSON": lambda: pb.Program.from_json("hello", {}),
    "a type of a dtype that is none": lambda: pb.ArrayType((3,), "f99"),
    "trees that differ": lambda: pb.tree.map(max, (1, 2), [1, 2]),
    "a sparse Jacobian in a mode that is none": lambda: pb.sparse.jacobian(pnp.sin, mode="up"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_errors_end_at_the_line_of_the_mistake(name):
    with pytest.raises((pb.errors.PullbackError, TypeError, ValueError)) as caught:
        MISTAKES[name]()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert {frame.filename for frame in frames} == {__file__}
    assert not isinstance(caught.value, AttributeError)


def test_what_has_no_name_is_called_after_what_is_inside_it_or_its_class() -> None:
    class Layer:
        def __call__(self, x):
            return x

    class Endless:  # whose attributes are made when they are asked for
        def __getattr__(self, name):
            if name.startswith("__") and name != "__wrapped__":
                raise AttributeError(name)
            return Endless()

    things = [Layer(), functools.partial(pnp.multiply, 2.0), functools.partial(Layer()), Endless()]
    names = [source.name_of(one) for one in things]
    assert names == ["Layer", "multiply", "Layer", "Endless"] and source.name_of(Layer(), "loop") == "loop"


def test_tables_pages_and_the_debugger_call_a_file_alike(tmp_path, monkeypatch):
    (tmp_path / "models").mkdir()
    file = tmp_path / "models" / "small.py"
    file.write_text("def f(x):\n    return x * 2.0\n")
    space = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    x = pnp.ones(3)

    def names():
        yield pb.cost(space["f"], x, backend=False).rows[0].name
        yield str(pb.replay(space["f"], x)).split("\n")[1].split()[-1]
        yield pb.memory(space["f"], x, backend=False).text().split("in mul at ")[1].split(": ")[0]
        with pytest.raises(ValueError) as caught:
            pb.replay(space["f"], x, stop_at=99)
        yield str(caught.value).split("come from ")[1].removesuffix(".")
        yield f"{pb.explore(space['f'], x, compile=False).data['file']}:2"

    for folder, shown in ((tmp_path, "models/small.py:2"), (tmp_path / "models", "small.py:2"), ("/", None)):
        monkeypatch.chdir(folder)
        assert set(names()) == {shown if shown is not None else f"{str(file)[1:]}:2"}
    monkeypatch.chdir(os.path.dirname(np.__file__))
    assert set(names()) == {"small.py:2"}


@pytest.mark.parametrize(
    "show",
    [
        lambda file: pb.xpr(lambda x: x * 2.0, pb.ArrayType((3,))).show(file=file),
        lambda file: pb.explore(lambda x: x * 2.0, 1.0, compile=False).show("base", file=file),
        lambda file: pb.program_diff(lambda x: x * 2.0, lambda x: x * 3.0, 1.0).show(file=file),
        lambda file: pb.cost(lambda x: x * 2.0, 1.0, backend=False).show(file=file),
    ],
)
def test_colours_are_for_terminals_unless_no_color_is_set(show, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    for variable, file, colored in (("", Terminal(), True), ("1", Terminal(), False), ("", io.StringIO(), False)):
        monkeypatch.setenv("NO_COLOR", variable)
        show(file)
        assert ("\x1b[" in file.getvalue()) == colored
