"""pb.debug.progress: what loops say of themselves, in every transformation, and what is drawn of it."""

from __future__ import annotations

import io
import itertools
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.api.progress import block_size
from pullback.control.progress import is_round
from pullback.core import progress
from pullback.core.bars import TerminalScreen
from pullback.core.progress import LineScreen, LogScreen, Row, display, duration, row_text

shown = pb.debug.progress


class Recorder:
    """A screen that writes down what it is to show."""

    def __init__(self) -> None:
        self.drawn: list[list[tuple[str, int, int | None]]] = []
        self.closed = 0

    def draw(self, rows: Sequence[Row]) -> None:
        self.drawn.append([(row.label, row.done, row.total) for row in rows])

    def close(self, rows: Sequence[Row]) -> None:
        self.draw(rows)
        self.closed += 1

    def done(self, label: str) -> list[int]:
        """What a loop had done, each time that it was drawn, without repetitions."""
        found = [done for rows in self.drawn for name, done, _ in rows if name == label]
        return [done for i, done in enumerate(found) if i == 0 or done != found[i - 1]]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()
    monkeypatch.setattr(progress, "screen", lambda: made)
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    yield made  # type: ignore[misc]
    assert not display.rows and display.screen is None


X = np.linspace(0.0, 1.0, 12, dtype=np.float32)


def step(carry: Any, x: Any) -> tuple[Any, Any]:
    return 0.5 * carry + x, pnp.sin(carry)


def tree_step(carry: Any, x: Any) -> tuple[Any, Any]:
    total, count = carry["total"], carry["count"]
    return {"total": total + x["a"] * x["b"].sum(), "count": count + 1}, (x["a"], None, {"c": total > 1.0})


def scanning(bar: Callable[..., Any], **options: Any) -> Callable[[Any], Any]:
    return lambda x: lax.scan(bar(step), 0.0, x, **options)


# Each is a function of what makes a body of a body, and an argument, and has one loop; how many steps it takes.
LOOPS: dict[str, tuple[Callable[[Any], Callable[[Any], Any]], Any, int]] = {
    "scan": (scanning, X, 12),
    "a scan in reverse": (lambda bar: scanning(bar, reverse=True), X, 12),
    "an unrolled scan": (lambda bar: scanning(bar, unroll=4), X, 12),
    "a scan unrolled wholly": (lambda bar: scanning(bar, unroll=True), X, 12),
    "a scan by length": (lambda bar: lambda x: lax.scan(bar(lambda c, _: (c * x, None)), x, None, 7), X, 7),
    "a scan of one step": (scanning, X[:1], 1),
    "a scan of a prime number of steps": (scanning, np.linspace(0, 1, 211, dtype=np.float32), 211),
    "a scan of trees": (
        lambda bar: lambda x: lax.scan(bar(tree_step), {"total": 0.0, "count": 0}, {"a": x, "b": pnp.outer(x, x)}),
        X,
        12,
    ),
    "a scan of nothing that lasts": (lambda bar: lambda x: lax.scan(bar(lambda c, x: (c, x)), (), x), X, 12),
    "a scan of numbers that become arrays": (lambda bar: lambda x: lax.scan(bar(lambda c, x: (c + x, c)), 0, x), X, 12),
    "fori_loop": (lambda bar: lambda x: lax.fori_loop(3, 15, bar(lambda i, v: 0.5 * v + i), x), X, 12),
    "an unrolled fori_loop": (lambda bar: lambda x: lax.fori_loop(-3, 9, bar(lambda i, v: v + i), x, unroll=3), X, 12),
    "fori_loop of a prime number": (lambda bar: lambda x: lax.fori_loop(0, 211, bar(lambda i, v: 0.5 * v + i), x), X, 211),
    "fori_loop of large numbers": (
        lambda bar: lambda x: lax.fori_loop(2**40, 2**40 + 6, bar(lambda i, v: v + i % 7), x),
        X,
        6,
    ),
    "fori_loop to a traced number": (
        lambda bar: (
            lambda x: pb.jit(lambda n: lax.fori_loop(0, n, bar(lambda i, v: 0.5 * v + i), 1.0))(pnp.asarray(x)[0].astype(int))
        ),
        X + 100,
        100,
    ),
    "while_loop": (lambda bar: lambda x: lax.while_loop(lambda v: (v < 90).all(), bar(lambda v: v + 1), x), X, 89),
    "a bounded while_loop": (
        lambda bar: lambda x: lax.while_loop(lambda v: v.sum() < 90, bar(lambda v: 1.1 * v + 1), x, max_steps=40),
        X,
        6,
    ),
    "map": (lambda bar: lambda x: lax.map(bar(pnp.sin), x), X, 12),
}
FORWARD = {"while_loop", "fori_loop to a traced number"}  # without a reverse mode


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("every", [None, 1, 5])
def test_a_loop_with_a_bar_computes_the_same_and_says_how_far_it_is(name: str, every: int | None, recorder: Recorder) -> None:
    make, x, steps = LOOPS[name]
    plain, barred = make(lambda body: body), make(lambda body: shown(body, label="loop", every=every))
    expected = plain(x)
    for run in (barred, pb.jit(barred)):
        recorder.drawn.clear()
        found = run(x)
        pb.tree.map(check_same, found, expected)
        done = recorder.done("loop")
        assert done[0] == 0 and done[-1] == steps and done == sorted(done)
        if every == 1:
            assert done == [*range(steps + 1)]
        totals = {total for rows in recorder.drawn for _, _, total in rows}
        assert totals == ({None} if "while" in name or "traced" in name else {steps}) or totals == {100}


def check_same(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=3e-7)  # compiled code rounds otherwise
    assert a.type is b.type


@pytest.mark.parametrize("name", LOOPS)
def test_under_transformations(name: str, recorder: Recorder) -> None:
    make, x, steps = LOOPS[name]
    plain, barred = make(lambda body: body), make(lambda body: shown(body, label="loop"))
    batch = np.stack([x, 1.01 * x])

    def total(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: sum([out.astype("float32").sum() for out in pb.tree.leaves(function(x))])

    cases = {"vmap": lambda f: pb.vmap(f)(batch), "jvp": lambda f: pb.jvp(f, (x,), (x,))}
    if name not in FORWARD:
        cases["grad"] = lambda f: pb.grad(total(f))(x)
        cases["grad of vmap"] = lambda f: pb.grad(total(pb.vmap(f)))(batch)
        cases["jit of vmap of grad"] = lambda f: pb.jit(pb.vmap(pb.grad(total(f))))(batch)
        cases["grad of checkpoint"] = lambda f: pb.jit(pb.grad(pb.remat(total(f))))(x)
        cases["hessian"] = lambda f: pb.hessian(lambda s: total(f)(s * x))(1.0)
    for which, case in cases.items():
        expected = case(plain)
        recorder.drawn.clear()
        recorder.closed = 0
        found = case(barred)
        for a, b in zip(pb.tree.leaves(found), pb.tree.leaves(expected), strict=True):
            assert a.dtype == b.dtype
            if a.dtype != pb.float0:
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
        assert recorder.closed == 1, which  # it was said once
        assert recorder.done("loop")[-1] in (steps, steps - 1, steps + 1), which


def test_batch_elements_say_it_once(recorder: Recorder) -> None:
    loop = lambda x: lax.while_loop(lambda v: v < 90, shown(lambda v: v + 1, every=10), x)  # noqa: E731
    np.testing.assert_array_equal(pb.jit(pb.vmap(loop))(np.array([0, 70, 95])), [90, 90, 95])
    assert recorder.done("loop") == [0, 10, 20, 30, 40, 50, 60, 70, 80, 90]
    recorder.drawn.clear()
    branch = pb.vmap(lambda x: lax.cond(x > 0, lambda x: lax.fori_loop(0, 4, shown(lambda i, v: v + i), x), lambda x: x, x))
    np.testing.assert_array_equal(branch(np.array([-1, 1])), [-1, 7])
    assert recorder.done("loop") == [0, 1, 2, 3, 4]
    recorder.drawn.clear()
    np.testing.assert_array_equal(branch(np.array([-1, -1])), [-1, -1])
    assert branch(np.zeros(0, int)).shape == (0,) and not recorder.drawn


def test_reports_of_loops_of_an_unknown_number_of_steps_become_rare(recorder: Recorder) -> None:
    bounded = lambda n: lax.while_loop(lambda i: i < n, shown(lambda i: i + 1), 0, max_steps=10**6)  # noqa: E731
    free = lambda n: lax.while_loop(lambda i: i < n, shown(lambda i: i + 1), 0)  # noqa: E731
    for loop in (bounded, free, pb.jit(bounded), pb.jit(free)):
        recorder.drawn.clear()
        assert int(loop(2000)) == 2000
        done = recorder.done("loop")
        assert done[:9] == [*range(9)] and done[-1] == 2000 and len(done) < 80
        assert all([after - before <= max(before // 8, 1) for before, after in itertools.pairwise(done)])
    recorder.drawn.clear()
    counted = pb.jit(lambda n: lax.fori_loop(0, n, shown(lambda i, x: x + 1), 0))
    assert int(counted(100)) == 100 and recorder.done("loop") == [n for n in range(101) if is_round(n)] + [100] * (
        not is_round(100)
    )


def test_the_condition_is_tested_once_a_step(recorder: Recorder) -> None:
    seen: list[int] = []

    def going(i: Any) -> Any:
        pb.debug.callback(lambda i: seen.append(int(i)), i)
        return i < 40

    for run in (lambda x: x, pb.jit):
        seen.clear()
        assert int(run(lambda i: lax.while_loop(going, shown(lambda i: i + 1), i))(0)) == 40
        assert seen == [*range(41)]


def test_loops_in_loops_are_shown_together(recorder: Recorder) -> None:
    def outer(carry: Any, x: Any) -> tuple[Any, Any]:
        return lax.fori_loop(0, 2, shown(lambda i, v: v + x, label="inner"), carry), None

    run = pb.jit(lambda x: lax.scan(shown(outer, label="outer"), 0.0, x)[0])
    assert float(run(X[:3])) == pytest.approx(2 * X[:3].sum())
    assert recorder.done("outer") == [0, 1, 2, 3] and recorder.done("inner") == [0, 1, 2] * 3
    assert recorder.drawn[-1] == [("outer", 3, 3), ("inner", 2, 2)] and recorder.closed == 1


def test_map_in_batches(recorder: Recorder) -> None:
    np.testing.assert_array_equal(lax.map(shown(pnp.sin, label="loop"), X, batch_size=5), pnp.sin(X))
    assert recorder.done("loop") == [0, 1, 2]


def test_what_a_checkpoint_keeps_is_what_it_keeps_without_a_bar() -> None:
    for policy in (None, pb.checkpoint_policies.dots_saveable, pb.checkpoint_policies.save_only_these_names("kept")):

        def body(c: Any, x: Any) -> tuple[Any, Any]:
            return pb.checkpoint_name(pnp.tanh(pnp.ones((3, 3)) @ c) * x, "kept"), None

        def sizes(bar: Callable[..., Any], policy: Any = policy, body: Any = body) -> list[int]:
            loop = pb.remat(lambda x: lax.scan(bar(body), x * pnp.ones(3), pnp.ones(20))[0].sum(), policy=policy)
            return sorted([one.type.nbytes for one in pb.saved_residuals(loop, 1.0)])

        assert sum(sizes(shown)) == sum(sizes(lambda body: body))


def test_blocks_are_compiled_as_the_whole_loop_is() -> None:
    run = pb.jit(lambda x: lax.scan(shown(step), 0.0, x))
    tier = run.explain(np.zeros(1000, np.float32))
    assert "Native parts: scan" in str(tier)
    program = pb.xpr(run, pb.ArrayType((1000,)))
    pb.assert_program(program, exactly={"scan": 2, "progress": 3})


SIZES = {(1000, None): 10, (1000, 1): 1, (1000, 10**9): 1000, (7, None): 1, (10007, None): None, (10**9, None): 10**7}


@pytest.mark.parametrize("given, size", SIZES.items())
def test_block_sizes(given: tuple[int, int | None], size: int | None) -> None:
    assert block_size(*given) == size


# ---- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("jitted", [False, True])
def test_an_exception_ends_the_bar(error: type[BaseException], jitted: bool, recorder: Recorder) -> None:
    def stop(x: Any) -> None:
        if x == 4:
            raise error("enough")

    def body(i: Any, x: Any) -> Any:
        pb.debug.callback(stop, x)
        return x + 1

    run = lambda x: lax.fori_loop(0, 10, shown(body), x)  # noqa: E731
    run = pb.jit(run) if jitted else run
    for _ in range(2):
        recorder.drawn.clear()
        with pytest.raises(error, match="enough"):
            run(0)
        assert recorder.done("body") == [0, 1, 2, 3, 4]
    assert recorder.closed == 2
    assert int(run(5)) == 15 and recorder.done("body")[-1] == 10


def test_ctrl_c_ends_the_bar(recorder: Recorder) -> None:
    def interrupt(x: Any) -> None:
        if x == 4:
            signal.raise_signal(signal.SIGINT)

    def body(i: Any, x: Any) -> Any:
        pb.debug.callback(interrupt, x)
        return x + 1

    run = pb.jit(lambda x: lax.fori_loop(0, 10, shown(body), x))
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            run(0).block_until_ready()
        assert not display.rows and display.screen is None
    assert int(run(5)) == 15


def test_an_exception_of_another_program_leaves_loops_of_python_alone(recorder: Recorder) -> None:
    def fail(x: Any) -> None:
        raise ValueError("no")

    for _ in shown(range(3), label="python"):
        with pytest.raises(ValueError, match="no"):
            pb.jit(lambda x: pb.debug.callback(fail, x))(1.0)
        with pytest.raises(pb.errors.ShapeError):
            lax.scan(shown(lambda c, x: (c[None], x)), pnp.zeros(1), X)
    assert recorder.done("python")[-1] == 3 and recorder.closed == 1


def test_loops_of_python(recorder: Recorder) -> None:
    assert list(shown([3, 4, 5], label="list")) == [3, 4, 5]
    assert recorder.done("list") == [0, 1, 2, 3] and {row[2] for rows in recorder.drawn for row in rows} == {3}
    for x in shown(iter([1, 2, 3, 4]), label="left", total=9):
        if x == 3:
            break
    assert recorder.done("left") == [0, 1, 2]
    with pytest.raises(ZeroDivisionError):
        for x in shown((x for x in range(3)), label="failing"):
            1 / (1 - x)
    assert recorder.done("failing") == [0, 1] and recorder.drawn[-1] == [("failing", 1, None)]
    assert [float(row[0]) for row in shown(pnp.ones((2, 1)), every=2)] == [1.0, 1.0]
    assert recorder.closed == 4
    assert list(shown([1], show=False)) == [1] and shown(step, show=False) is step and recorder.closed == 4


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: shown(3), TypeError, "takes an iterable, or a loop's body, a function, but got 3"),
    (lambda: shown(shown(step)), TypeError, "but got <body step"),
    (
        lambda: shown(step)(0.0, 1.0),
        TypeError,
        r"progress\(step\) is to be given to a loop as its body, as it is: to pb.lax.scan",
    ),
    (lambda: pb.vmap(shown(step))(X, X), TypeError, "outermost, around vmap"),
    (lambda: shown(step, every=0), ValueError, "every as a number of steps, 1 or more, but got 0"),
    (lambda: shown(step, total=-1), ValueError, "total as a number of steps, 0 or more, but got -1"),
    (lambda: shown(step, total=True), ValueError, "but got True"),
    (lambda: shown(step, label=3), TypeError, "label as a string"),
    (lambda: shown(step, show=3), TypeError, "show must be True or False"),
    (lambda: lax.scan(shown(step, total=3), 0.0, X), ValueError, "was told total=3, but the loop takes 12 steps"),
    (lambda: lax.scan(shown(lambda c, x: c), 0.0, X), pb.errors.StructureError, r"must return a pair \(carry, y\)"),
    (lambda: lax.scan(shown(step), 0.0, X, 5), pb.errors.AxisError, "needs one number of steps"),
    (lambda: lax.scan(shown(step), 0.0), pb.errors.AxisError, "no xs"),
    (lambda: lax.while_loop(lambda x: x, shown(lambda x: x), 0.0), pb.errors.DtypeError, "condition .* must return a 0-d bool"),
    (lambda: lax.while_loop(lambda x: x > 0, shown(lambda x: (x, x)), 0.0), pb.errors.StructureError, "as it takes it"),
    (lambda: lax.fori_loop(0, 2.5, shown(lambda i, x: x), 0.0), ValueError, "must be whole"),
]


@pytest.mark.parametrize("call, error, says", WRONG)
def test_what_is_wrong_is_said(call: Callable[[], Any], error: type[Exception], says: str, recorder: Recorder) -> None:
    with pytest.raises(error, match=says):
        call()


def test_loops_of_no_steps_show_nothing(recorder: Recorder) -> None:
    assert lax.scan(shown(step), 0.0, X[:0])[1].shape == (0,)
    assert float(lax.fori_loop(3, 3, shown(lambda i, x: x), 1.0)) == 1.0
    assert list(shown([])) == []
    assert recorder.closed == 1  # Python's, which cannot know


# ---- drawing ----------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    time = [0.0]
    monkeypatch.setattr(progress, "clock", lambda: time[0])
    return time


def row(label: str, total: int | None, done: int) -> Row:
    made = Row(label, total, False)
    made.done = done
    return made


def test_a_row_in_words(now: list[float]) -> None:
    rows = [row("train", 4000, 1000), row("", None, 1), row("none", 0, 0)]
    now[0] = 90.0
    assert [row_text(one, 4) for one in rows] == [
        "train |#---| 1,000/4,000, 1:30, 4:30 left",
        "1 step, 1:30",
        "none |####| 0/0, 1:30",
    ]
    rows[0].ended = 100.0
    now[0] = 1e6
    assert row_text(rows[0]) == "train 1,000/4,000, 1:40, stopped"
    assert [duration(s) for s in (0.0, 59.94, 3599.0, 86400.0)] == ["0.0 s", "59.9 s", "59:59", "24:00:00"]


def test_a_log_has_few_lines(now: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    for _ in shown(range(1000), label="epochs"):
        now[0] += 0.2
    assert (
        file.getvalue().splitlines()
        == [
            "epochs 299/1,000, 59.8 s, 2:20 left",
            "epochs 599/1,000, 1:59, 1:20 left",
            "epochs 899/1,000, 2:59, 20.2 s left",
            "epochs 1,000/1,000, 3:20",
        ]
        or len(file.getvalue().splitlines()) == 4
    )
    assert isinstance(progress.screen(), LogScreen)


def test_a_notebook_has_one_line(now: list[float]) -> None:
    file = io.StringIO()
    screen = LineScreen(file)
    rows = [row("a", 10, 5), row("b", None, 7)]
    screen.draw(rows)
    screen.draw(rows[:1])
    screen.close(rows[:1])
    first, second, last = file.getvalue().split("\r")[1:]
    assert first == "a |##########----------| 5/10, 0.0 s, 0.0 s left   b 7 steps, 0.0 s"
    assert len(second) == len(first) and last.endswith("\n") and file.getvalue().count("\n") == 1


def test_a_notebook_is_known_by_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    output = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr(sys, "stdout", output)
    made = progress.screen()
    assert isinstance(made, LineScreen) and made.file is output


def test_a_terminal_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, printed = Terminal(), io.StringIO()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", printed)
    with pytest.raises(ZeroDivisionError):
        for x in shown(range(4), label="work"):
            assert isinstance(display.screen, TerminalScreen)
            print("this goes elsewhere")
            1 / (2 - x)
    assert sys.stderr is terminal and sys.stdout is printed and printed.getvalue() == "this goes elsewhere\n" * 3
    text = terminal.getvalue()
    assert "work" in text and "2/4" in text and "\x1b[?25l" not in text  # the cursor is never hidden
    assert text.endswith("\n")


def test_what_cannot_be_shown_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    monkeypatch.setattr(sys, "stderr", closed)
    closed.close()
    assert list(shown([1, 2])) == [1, 2]
    monkeypatch.setattr(sys, "stderr", None)
    assert list(shown([1, 2])) == [1, 2]


def test_a_loop_of_python_that_ran_out_was_not_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    """Of an iterable that had fewer items, or more, than was said, all are done; of one that was left, it is said so."""
    assert list(pb.debug.progress(iter("abc"), total=5)) == list(pb.debug.progress(iter("abc"), total=2)) == ["a", "b", "c"]
    next(iter(pb.debug.progress("abc", total=5)))
    assert list(pb.debug.progress(x for x in "abc")) == ["a", "b", "c"]
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0] for line in said] == ["3/3", "3/3", "0/5", "3 steps"]
    assert ["stopped" in line for line in said] == [False, False, True, False]
