"""Reads every error message in the source: each says what to do, or what was expected and what came in its place."""

from __future__ import annotations

import dataclasses
import enum
import itertools
import linecache
import pathlib
import re
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest
from messages import Message, messages
from rendered import Reader, faults

import pullback as pb
from pullback.core import source
from pullback.core.brief import brief
from pullback.core.source import PACKAGE

MESSAGES = messages()

VERBS = """
accept add allow announce apply ask batch begin broadcast build call change check choose combine compare compile compute
contract convert copy count cut decide declare define delete differentiate divide draw end exclude export fill find free
get give go help import index initialize install interpolate join keep leave let list load look lower make mark match
measure mend move multiply name open pad pass pickle pip plan print profile promise put quote raise read reduce register remove
rename repeat replace report reshape restore retrace return round run save say scale see select serialize set show sort
split start state stop sum take tell trace transform transpose try update use wait wrap write
"""
# A clause that begins with what to do: ". Pad the axis", "; pass a tuple", ", or use pb.numpy.where". The first word of a
# message is often the name of a function: sum, split, take.
IMPERATIVE = re.compile(
    r"(?:[.;:?!|(}] ?|, (?:or |and |then )?|\b(?:or|and) )(?:" + "|".join(VERBS.split()) + r")\b", re.IGNORECASE
)
# What is asked for: "takes a function", "must be whole".
REQUIREMENT = re.compile(
    r"\b(must|takes?|needs?|only|instead|(has|have|is|are) to|can be|expects?|expected|did you mean|(key|True) use)\b",
    re.IGNORECASE,
)
# What was expected beside what came: "but got", "where the first tree has"; `fault` and its like are such words.
CONTRAST = re.compile(
    r", but |; but |[ ,;:]not \{|, (and )?not |; not | where | while |neither|\{(fault|why|where)\}|difference\("
)
# A list of what there is, or the name of what does it.
OPTIONS = re.compile(
    r"\{[^}]*(\.join\(|suggestion\()|(those|known|there) are|those implemented are|which holds|it is pb\.|look like"
)

# Messages that are excused, by file and words, and why.
QUOTES = "what it quotes, a message of ours or the user's own, says the rest"
PART = "a part of another message, which says the rest"
PYTHON = "for Python, which asks by such an error"
VALUES = "shows the two values, or facts, that disagree; its page says what to do"
FOREIGN = "XLA's own text is not as it was in the versions that this reads"
ELSEWHERE = "its text is put together elsewhere"
EXCUSED: dict[tuple[str, str], str] = {
    ("__main__.py", "{message}"): QUOTES,
    ("api/stages.py", "cannot be exported, since {error}"): QUOTES,
    ("export/", "cannot be exported"): QUOTES,
    ("export/programs.py", "cannot be read here: {error}"): QUOTES,
    ("cli/", "one_line(str(error))"): QUOTES,
    ("cli/explore.py", "--text {options.text}: {error}"): QUOTES,
    ("core/trees.py", "{path()}: {error}"): QUOTES,
    ("numpy/promotion.py", "{name}: {error}"): QUOTES,
    ("checks.py", "{self.text}"): QUOTES,
    ("engine/plugins.py", "cannot use its devices: "): QUOTES,
    ("parallel/liveness.py", "{answer['why']}"): QUOTES,
    ("parallel/liveness.py", "{why[0].upper()}"): QUOTES,
    ("checkpoints/safetensors.py", "a name is there twice"): PART,
    ("checkpoints/safetensors.py", "its metadata are no object"): PART,
    ("checkpoints/safetensors.py", "has the dtype {entry['dtype']}"): PART,
    ("checkpoints/safetensors.py", "and the offsets {begin}, {end}"): PART,
    ("core/tree_forms.py", "{type(value).__name__}"): PART,
    ("program/serialization.py", "this is not base64 text"): PART,
    ("numpy/spaces.py", "for the general path"): PART,
    ("parallel/messages.py", ""): PART,
    ("parallel/keeper.py", "the world has not begun"): PART,
    ("compat/__init__.py", "has no attribute {name}"): PYTHON,
    ("ops/trigonometric.py", "{n}"): PYTHON,
    ("parallel/mapping.py", "{len(leaves)}"): PYTHON,
    ("parallel/world.py", "{key}"): PYTHON,
    ("testing/", ""): VALUES,
    ("parallel/hlo.py", ""): FOREIGN,
    ("api/loops.py", "{self.key}"): ELSEWHERE,
    ("parallel/predicates.py", "{self.text}"): ELSEWHERE,
    ("compat/jax/", ""): "says what JAX says, as its clients expect",
}


def teaches(text: str) -> bool:
    return any(pattern.search(text) for pattern in (IMPERATIVE, REQUIREMENT, CONTRAST, OPTIONS))


def excuse(message: Message) -> tuple[str, str] | None:
    return next((row for row in EXCUSED if message.file.startswith(row[0]) and row[1] in message.text), None)


def test_each_message_says_what_to_do_or_what_was_expected() -> None:
    silent = [str(message) for message in MESSAGES if not teaches(message.text) and excuse(message) is None]
    assert not silent, "\n".join(silent)


def test_no_excuse_is_idle() -> None:
    used = {excuse(message) for message in MESSAGES if not teaches(message.text)}
    assert {*EXCUSED} == used - {None}
    excused = [message for message in MESSAGES if not teaches(message.text) and not message.file.startswith("compat/jax/")]
    assert len(excused) <= 65 and len(MESSAGES) > 1200, "of the many messages, few are excused"


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("sum of {x}: the axis is out of bounds.", False),
        ("The file is damaged.", False),
        ("It is used before.", False),
        ("{name} is missing", False),
        ("sum of {x}: the axis is out of bounds. Count them from 0.", True),
        ("{name} takes an int as axis", True),
        ("grad needs a function with a 0-d output", True),
        ("cotangents[0] is f32[] where argument 0 has f32[3].", True),
        ("There is no device {device}; platform 'cpu' has {', '.join(map(str, there))}.", True),
        ("No plugin is installed: pip install 'pullback[cuda]'.", True),
    ],
)
def test_the_reader_tells_them_apart(text: str, does: bool) -> None:
    assert teaches(text) is does


# What says nothing of what came: the operation's name, and the place.
NO_VALUE = re.compile(r"\{(at_user_line\(\)|name|what|self\.name|transformation|primitive\.name)\}")
# Words that say it, where it is no value: that nothing came, or too much.
IN_WORDS = re.compile(
    r"at least one|both|one of|together|goes with|immutable|None|0-d|traced|larger|empty|already|none|a bool|itself|True|False"
    r"|but a tuple|random keys|no TPU|forked|a Program|a key:|no derivatives"
)
# Messages of what an argument needs, or of what does not go with another one, whose words say what came.
COMPLETE = (
    "checkpoint_name takes a name", "it takes another library's trees", "--apply vjp takes", "linear_transpose met",
    "interp takes a period", "An index may have one '...'", "where takes", "block takes lists nested", "digitize takes bins",
    "cov: ", "An iterator can be gone through once", "PULLBACK_SECRET", "A Rotation", "multivariate_normal.logpdf takes",
    "SparseMatrix takes the entries", "{name} with `where` needs", "{name}: {what} has leaves",
)  # fmt: skip


def test_what_asks_for_something_says_what_came() -> None:
    silent = []
    for message in MESSAGES:
        text = NO_VALUE.sub("", message.text)
        asks = REQUIREMENT.search(text) and not message.file.startswith("compat/jax/")
        if asks and "{" not in text and not IN_WORDS.search(text) and not message.text.startswith(COMPLETE):
            silent.append(str(message))
    assert not silent, "\n".join(silent)


def test_the_place_in_the_users_program_comes_last() -> None:
    for message in MESSAGES:
        assert not re.search(r"\{at_user_line\(\)\}(?! \||\{|$)", message.text), str(message)


# ---- what is put into messages ----------------------------------------------------------------------------------------


class Colour(enum.StrEnum):
    RED = "red"


class Layer(NamedTuple):
    w: Any
    b: Any


@dataclasses.dataclass
class State:
    params: Any
    step: Any


class Printed(list):
    def __repr__(self) -> str:
        return "a list\nof letters"


class Unprintable:
    def __repr__(self) -> str:
        return str(1 // 0)


def holding_itself(container: Any) -> Any:
    if isinstance(container, dict):
        container[0] = container
    else:
        container.append(container)
    return container


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("cubic", "'cubic'"),
        (None, "None"),
        (2.5, "2.5"),
        (np.float32(2.5), repr(np.float32(2.5))),
        (object(), "<object object>"),
        (re.sub, "<function sub>"),
        (int, "the class int"),
        (np.zeros((2, 3)), "a NumPy array of shape (2, 3) and dtype float64"),
        (pb.numpy.zeros((2, 3)), "f32[2,3]"),
        ((1,), "(1,)"),
        ([object(), {"x": pb.numpy.zeros(2)}], "[<object object>, {'x': f32[2]}]"),
        (list(range(100)), "[0, 1, 2, 3, 4, 5, 6, 7, ...]"),
        ("x" * 100, f"'{'x' * 76}..."),
        ("two  words\nat 0x10", r"'two  words\nat 0x10'"),
        (b"x" * 10**8, f"b'{'x' * 75}..."),
        (Colour.RED, "<Colour.RED: 'red'>"),
        ({3}, "{3}"),
        (frozenset(), "frozenset()"),
        (set(range(10**6)), "{0, 1, 2, 3, 4, 5, 6, 7, ...}"),
        (OrderedDict(w=np.zeros(2)), "OrderedDict({'w': a NumPy array of shape (2,) and dtype float64})"),
        (Layer(pb.numpy.zeros(2), [np.zeros(3)]), "Layer(w=f32[2], b=[a NumPy array of shape (3,) and dtype float64])"),
        (State(pb.numpy.zeros(2), None), "State(params=f32[2], step=None)"),
        (Printed("ab"), "a list of letters"),
        (holding_itself([1]), "[1, [1, [1, [1, [...]]]]]"),
        (holding_itself({}), "{0: {0: {0: {0: {...}}}}}"),
        (State(holding_itself([]), 0), "State(params=[[[[...]]]], step=0)"),
        (Unprintable(), "<Unprintable object whose repr raises ZeroDivisionError>"),
        ((Unprintable(),), "(<Unprintable object whose repr raises ZeroDivisionError>,)"),
    ],
)
def test_values_are_shown_in_brief(value: object, shown: str) -> None:
    assert brief(value) == shown and len(shown) <= 80


def test_a_traced_value_is_shown_by_its_type() -> None:
    shown = []
    pb.jit(lambda x: shown.append(brief([x])))(pb.numpy.ones(3))
    assert shown == ["[f32[3]]"]


# ---- the reader of messages that are raised ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (f"sum takes numbers, but got {object()}.", "an address in memory"),
        ("f returned Traced<f32[3]>.", "a traced value"),
        ("It takes ints, not <class 'str'>.", "a class"),
        (f"It failed. At {PACKAGE}api/jit.py:3 (jit).", "a file of pullback's"),
        ("two\nlines", "lines that are not set apart"),
        ("a  hole", "a doubled space"),
        ("It failed.. Try again.", "a doubled or displaced mark"),
        ("It failed . Try again.", "a doubled or displaced mark"),
        ("argument '' is missing", "an empty hole"),
        ("It was given 1 axes.", "one of several"),
        ("Got 1 batch indices.", "one of several"),
        ("a dear operation", "a word"),
        ("x" * 900, "900 characters"),
        (f"It failed. At {__file__}:1 (<module>): x = 3.", "not what the message quotes"),
    ],
    ids=itertools.count(),
)
def test_the_reader_of_raised_messages_finds(text: str, rule: str) -> None:
    found = [*faults(ValueError(text))]
    assert len(found) == 1 and rule in found[0], found


@pytest.mark.parametrize(
    "text",
    [
        "x, y, ... are arrays. argument 1 has 1 axis, and argument 1 takes 1.",
        "NaN made by log\n  line: train.py:3",
        "'a  b' is no name; those are 'x', ... .",
        f"It failed. At {__file__}:1 (<module>): {linecache.getline(__file__, 1).strip()}.",
    ],
)
def test_the_reader_of_raised_messages_lets_pass(text: str) -> None:
    assert [*faults(ValueError(text))] == []


def test_the_reader_reads_what_leaves_pullback_once_and_says_what_python_raised_inside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = Reader()
    reader.show = lambda error, shown: None  # and not the reader of this suite
    monkeypatch.setattr(source, "_show", reader)
    with pytest.raises(pb.errors.ShapeError):
        pb.jit(pb.vmap(lambda x: x @ x))(pb.numpy.ones((2, 3, 4)))
    assert reader.take() == []
    namespace = {"boundary": source.api_boundary}
    code = compile("\n\n@boundary\ndef f():\n    return 1 / 0\n", source.__file__, "exec")
    exec(code, namespace)
    with pytest.raises(ZeroDivisionError):
        namespace["f"]()
    (found,) = reader.take()
    assert "raised by Python inside pullback" in found and reader.take() == []


@pytest.mark.parametrize("name", ["a.py", "two words/a b.py", "w\u00f6rter/1 (2).py", "a:b/it's.py"])
def test_the_reader_leaves_out_the_code_of_a_file_of_any_name(tmp_path: pathlib.Path, name: str) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("dear  =  1 # .. <class 'int'>")
    text = f"It failed. At {file}:1 (<module>): dear  =  1 # .. <class 'int'>."
    assert [*faults(ValueError(text))] == []
    (found,) = faults(ValueError(f"It failed. At {file}:1 (<module>): x = 3."))
    assert "not what the message quotes" in found


@pytest.mark.parametrize("phase", ["setup", "call", "teardown"])
def test_what_the_reader_found_is_told_of_the_test_that_it_was_found_in(phase: str, request: pytest.FixtureRequest) -> None:
    suite = request.config.pluginmanager.get_plugin(str(pathlib.Path(__file__).parent.parent / "conftest.py"))
    hook = getattr(suite, f"pytest_runtest_{phase}")
    done, failing = hook(request.node), hook(request.node)
    next(done)
    suite.reader.found.append("a doubled space")
    with pytest.raises(pytest.fail.Exception, match="a doubled space"):
        next(done)
    next(failing)
    suite.reader.found.append("a doubled space")
    with pytest.raises(KeyError):
        failing.throw(KeyError())
    assert suite.reader.take() == []
