"""`python -m pullback` without arguments: the tour, through a pipe and in a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

TOUR = [sys.executable, "-W", "error", "-m", "pullback"]


@pytest.fixture(scope="module")
def tour() -> str:
    done = subprocess.run(TOUR, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def in_terminal(command: list[str], columns: int, **environment: str) -> str:
    """What a command writes to a pseudo-terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**kept, "TERM": "xterm-256color", **environment}
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # how Linux says that the other end was closed
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    assert process.wait() == 0, written.decode()
    return written.decode().replace("\r\n", "\n")


def test_the_steps_are_in_order(tour: str) -> None:
    titles = re.findall(r"^(\d)\. (.+)\n-+$", tour, re.MULTILINE)
    assert [int(number) for number, _ in titles] == list(range(1, len(titles) + 1)) and len(titles) >= 7


def test_programs_and_graphs_are_shown(tour: str) -> None:
    function, gradient, batched = re.findall(r"^    \{ lambda .*?^ +in \w+ \}$", tour, re.MULTILINE | re.DOTALL)
    assert "sin a" in function and "cos" not in function and "reduce_sum" in function
    assert "cos a" in gradient and "(a:f32[3]:cpu(0))" in gradient
    assert "cos a" in batched and "(a:f32[2,3]:cpu(0))" in batched
    assert "stablehlo.cosine" in tour and "func.func public @main" in tour
    assert "ENTRY" in tour or "fused_computation" in tour


def test_the_same_values_eager_and_compiled(tour: str) -> None:
    eager, compiled = re.findall(r"\n +(\[\[.*?\]\]):f32\[2,3\]:cpu\(0\)", tour, re.DOTALL)[-2:]
    numbers = [[float(number) for number in re.findall(r"-?[\d.]+(?:e[-+]\d+)?", text)] for text in (eager, compiled)]
    assert len(numbers[0]) == 6 and numbers[0] == pytest.approx(numbers[1], rel=1e-5)


def test_the_classifier_has_learned(tour: str) -> None:
    accuracy, right, total = re.search(r"Test accuracy: ([\d.]+) \((\d+) of (\d+)\)", tour).groups()
    assert float(accuracy) >= 0.95 and float(accuracy) == pytest.approx(int(right) / int(total), abs=1e-3)
    assert int(total) == 256


def test_compiled_is_faster(tour: str) -> None:
    assert float(re.search(r"([\d.]+) times as fast", tour)[1]) > 1


def test_a_pipe_gets_plain_lines_that_fit(tour: str) -> None:
    assert "\x1b" not in tour and "\r" not in tour
    assert max(len(line) for line in tour.split("\n") if "cpu(0)" not in line) <= 88
    assert not re.search(r"[ \t]$", tour, re.MULTILINE)


def test_a_narrow_terminal_gets_colours_and_a_bar() -> None:
    text = in_terminal(TOUR, 40)
    assert "\x1b[95m3\x1b[0m" in text and "training" in text
    prose = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert "Test accuracy" in prose
    for line in prose.split("\n"):
        assert len(line.split("\r")[-1]) <= 40 or "cpu(0)" in line  # Programs alone may be wider


def test_no_color_in_a_terminal() -> None:
    text = in_terminal([*TOUR, "version"], 80, NO_COLOR="1")
    assert "\x1b[" not in text and "jaxlib" in text
