"""What `pb.explore` returns: its heading, its text form, and the files that it writes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.explorer import explorer

X, W = np.ones(3, "float32"), np.ones((3, 3), "float32")


def layered(w: Any, x: Any) -> Any:
    for _ in range(4):
        with pb.named_scope("block"):
            x = pnp.tanh(pnp.tanh(x @ w) * 2.0)
    return pnp.sum(x)


def shown(found: pb.Explorer, *stages: str) -> str:
    text = io.StringIO()
    found.show(*stages, file=text)
    return text.getvalue()


def test_what_repeats_is_shown_once_and_the_text_says_so() -> None:
    found = pb.explore(layered, W, X, compile=False)
    lines = [line.strip() for line in shown(found, "base").splitlines()]
    assert "x4 block  4 equations each; the first of 4 is shown" in lines
    assert sum("dot_general" in line for line in lines) == 1


def test_a_block_that_is_called_by_its_size_says_it_once() -> None:
    found = pb.explore(layered, W, X, apply="grad", compile=False)
    [repeat] = {row["label"] for row in found.data["stages"][1]["rows"] if row.get("head") == "repeat"}
    assert repeat == "block"
    found.data["stages"][1]["rows"] = [
        {**row, "label": "4 equations"} if row.get("head") == "repeat" else row for row in found.data["stages"][1]["rows"]
    ]
    assert "x4 4 equations  each; the first of 4 is shown" in shown(found, "base")


def test_the_call_of_a_compiled_function_says_that_it_is() -> None:
    compiled = pb.jit(layered)
    found = pb.explore(compiled, W, X, apply="grad", compile=False)
    assert (found.data["title"], found.data["call"]) == ("layered", "grad(jit(layered))")
    assert pb.explore(layered, W, X, apply="jit,grad", compile=False).data["call"] == found.data["call"]


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("loss", "loss"),
        ("<lambda>", "lambda"),
        ("loss of a/b: 10 %", "loss-of-a-b-10"),
        ("../", ".."),
        ("//", "page"),
        ("λ", "λ"),
    ],
)
def test_a_page_is_opened_from_a_file_that_is_called_after_it(
    title: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(explorer.webbrowser, "open", opened.append)
    path = pb.explore(lambda x: x * 2.0, X, compile=False, title=title).open()
    assert path == Path(f"explore-{name}.html") and path.exists()
    assert opened == [path.resolve().as_uri()]


@pytest.mark.parametrize(
    ("path", "error"),
    [("absent/page.html", FileNotFoundError), ("file/page.html", NotADirectoryError), ("", IsADirectoryError)],
)
def test_a_file_that_cannot_be_written_is_called_by_its_own_name(tmp_path: Path, path: str, error: type[OSError]) -> None:
    (tmp_path / "file").write_text("")
    found = pb.explore(layered, W, X, compile=False)
    with pytest.raises(error) as raised:
        found.save(tmp_path / path)
    assert raised.value.filename == str(tmp_path / path) and raised.value.filename2 is None
    assert str(raised.value).endswith(f"{str(tmp_path / path)!r}")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
