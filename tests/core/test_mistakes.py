"""What a person sees who makes a common mistake: the own frames, no others, and a message with what it takes to go on."""

from __future__ import annotations

import pathlib
import re
import traceback

import pytest
from mistakes import MISTAKES, Mistake

from pullback.core.error_pages import Explained
from pullback.core.source import PACKAGE

BEGINNING = "import pullback as pb\nimport pullback.numpy as pnp\n\n"


def raised(mistake: Mistake, file: pathlib.Path) -> Exception:
    """What the program raises when it is run from a file."""
    file.write_text(BEGINNING + mistake.code + "\n")
    code = compile(file.read_text(), str(file), "exec")
    with pytest.raises(Exception) as caught:
        exec(code, {"__name__": "__main__"})
    return caught.value


@pytest.mark.parametrize("name", MISTAKES)
def test_a_common_mistake(name: str, tmp_path: pathlib.Path) -> None:
    mistake, file = MISTAKES[name], tmp_path / "mistake.py"
    error = raised(mistake, file)
    said = str(error)
    assert type(error).__name__ == mistake.error, said
    for part in ("expected", "got", "cure"):
        assert getattr(mistake, part) in said, f"{part}: {said}"
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    assert all(frame.filename == str(file) for frame in own), "frames of ours"
    lines = (BEGINNING + mistake.code).splitlines()
    assert own[-1].lineno is not None and lines[own[-1].lineno - 1].endswith("# here")
    assert not any(place.startswith(PACKAGE) for place in re.findall(r"(/\S+\.py):\d", said)), "a line of ours in the message"
    for line in re.findall(rf"{re.escape(str(file))}:(\d+) \([^)]*\): (.*?)(?:\.$|\. |\))", said):
        assert lines[int(line[0]) - 1].strip().startswith(line[1].strip()[:10])
    last = "".join(traceback.format_exception(error)).splitlines()[-1]
    assert last.startswith(f"More: `python -m pullback help {mistake.error}`") is isinstance(error, Explained)


def test_the_table_has_no_row_twice() -> None:
    codes = [mistake.code for mistake in MISTAKES.values()]
    assert len(set(codes)) == len(codes) >= 90
    assert all(mistake.code.count("# here") == 1 for mistake in MISTAKES.values())
