"""A page that is made anew when its file is saved: served on the loopback address, to this page alone."""

from __future__ import annotations

import http.client
import importlib
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pullback as pb
from pullback.explorer import watching
from pullback.explorer.explorer import explore
from pullback.explorer.watching import Watched, reloaded, served, watch

FIRST = "def double(x):\n    return x * 2.0\n"
SECOND = "def double(x):\n    return x + x + 0.0\n"
PAGE = "<!doctype html><head><meta content=\"default-src 'none'; script-src 'sha256-x'\"></head><body><script>1</script></body>"


def watched_again(x: Any) -> Any:
    return x


def version_of(page: str) -> str:
    """The version of a page, by the script that asks for the next one."""
    found = re.search(r'<script src="/reload/([0-9a-f]+-\d+)" defer>', page)
    assert found is not None
    return found[1]


class Stopped(Exception):
    """Ends the loop that looks at the files."""


class Watching:
    """A watch that runs in a thread of its own, until `stop`."""

    def __init__(self, make: Any, file: Path) -> None:
        self.said: list[str] = []
        self.address: list[str] = []
        self.told = threading.Condition()
        self.ended = threading.Event()
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self.run, args=(make, file))
        self.thread.start()
        self.port = int(self.wait_for("127.0.0.1").split(":")[2].split("/")[0])

    def run(self, make: Any, file: Path) -> None:
        def files() -> list[str]:
            if self.ended.is_set():
                raise Stopped
            return [str(file)]

        try:
            watch(make, files, self.hear)
        except Stopped:
            pass
        except BaseException as error:
            self.failure = error
            self.hear("127.0.0.1:0/ failed")

    def hear(self, text: str) -> None:
        with self.told:
            self.said.append(text)
            self.told.notify_all()

    def wait_for(self, part: str) -> str:
        with self.told:
            assert self.told.wait_for(lambda: any(part in text for text in self.said), 60), self.said
            return next(text for text in self.said if part in text)

    def get(self, path: str, host: str = "") -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path, headers={"Host": host} if host else {})
        reply = connection.getresponse()
        body = reply.read().decode()
        connection.close()
        return reply.status, body

    def stop(self) -> None:
        self.ended.set()
        self.thread.join(60)
        assert not self.thread.is_alive()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "model.py"
    made.write_text(FIRST)
    return made


@pytest.fixture
def watched(file: Path) -> Iterator[Watching]:
    def make() -> str:
        names: dict[str, Any] = {}
        exec(compile(file.read_text(), str(file), "exec"), names)
        return explore(names["double"], pb.ArrayType((3,)), compile=False).html

    found = Watching(make, file)
    yield found
    found.stop()


def test_the_page_follows_its_file(watched: Watching, file: Path) -> None:
    status, page = watched.get("/")
    first = version_of(page)
    assert status == 200 and "return x * 2.0" in page
    file.write_text(SECOND)
    assert json.loads(watched.get(f"/other-than/{first}")[1]) is True
    status, page = watched.get("/")
    assert "return x + x + 0.0" in page and version_of(page) != first


def test_a_page_of_an_earlier_run_at_the_same_address_is_another_one() -> None:
    runs = [Watched(lambda: "<body></body>") for _ in range(2)]
    for run in runs:
        assert run.renew() is None
    assert runs[1].is_other(runs[0].version)


def test_a_version_that_does_not_run_is_told_and_the_next_one_is_shown(watched: Watching, file: Path) -> None:
    first = version_of(watched.get("/")[1])
    file.write_text("def double(x):\n    return y <script>\n")
    assert json.loads(watched.get(f"/other-than/{first}")[1]) is True
    page = watched.get("/")[1]
    assert "This version does not run" in page and "SyntaxError" in page and "y &lt;script&gt;" in page
    watched.wait_for("SyntaxError")
    file.write_text(SECOND)
    assert json.loads(watched.get(f"/other-than/{version_of(page)}")[1]) is True
    assert "return x + x + 0.0" in watched.get("/")[1]


def test_only_this_page_is_answered(watched: Watching) -> None:
    assert watched.get("/etc/passwd")[0] == 404
    assert watched.get("/other-than/x")[0] == 404
    for host in (
        "evil.example:80",
        "127.0.0.1.evil.example:80",
        "localhost.evil.example",
        "evil.example",
        "[::1",
        "127.0.0.1:x",
    ):
        assert watched.get("/", host=host)[0] == 403
    for host in ("localhost:80", "LOCALHOST:80", "127.0.0.1"):  # of port 80 the browser says nothing
        assert watched.get("/", host=host)[0] == 200
    assert watched.get("/?embed")[0] == 200
    script = watched.get("/reload/ab-7")[1]
    assert "/other-than/ab-7" in script


def test_a_port_that_is_taken_is_an_error(watched: Watching) -> None:
    with pytest.raises(OSError):
        watch(lambda: "", list, lambda text: None, watched.port)


def test_a_served_page_may_do_no_more_than_reload() -> None:
    page = served(PAGE, "ab-3")
    assert "default-src 'none'; connect-src 'self';" in page and "script-src 'self' 'sha256-x'" in page
    assert page.count("<script") == 2


def test_nobody_waits_longer_than_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "PATIENCE", 0.01)
    found = Watched(lambda: "<body></body>")
    assert found.renew() is None and found.is_other("") and not found.is_other(found.version)


def test_a_function_is_looked_up_in_its_file_again(file: Path) -> None:
    names: dict[str, Any] = {}
    exec(compile(FIRST, str(file), "exec"), names)
    place, load = reloaded(names["double"])
    assert place == str(file) and load() is names["double"] and load() is names["double"]
    file.write_text(SECOND + "\nclass Model:\n    @staticmethod\n    def f(x):\n        return x\n")
    assert load()(2.0) == 4.0 and load() is not names["double"]


def test_a_function_that_has_another_name_now_is_missed(file: Path) -> None:
    """Not shown as it was: each version of the file is a module of its own."""
    names: dict[str, Any] = {}
    exec(compile(FIRST, str(file), "exec"), names)
    _, load = reloaded(names["double"])
    load()
    file.write_text(SECOND)
    assert load()(2.0) == 4.0
    file.write_text(SECOND.replace("double", "twice"))
    with pytest.raises(AttributeError, match=r"has no double now\. Give it that name again"):
        load()


MADE = """\
import functools
import pullback as pb

def loss(x):
    return x * x

slope = pb.grad(loss)
plain = lambda x: x

class Model:
    def loss(self, x):
        return x

    @classmethod
    def named(cls, x):
        return x
"""


@pytest.mark.parametrize("text", ["slope", "plain", "Model.loss", "Model.named"])
def test_what_has_a_name_at_the_top_of_a_file_is_found_by_it(file: Path, text: str) -> None:
    names: dict[str, Any] = {"__name__": "made"}
    file.write_text(MADE)
    exec(compile(MADE, str(file), "exec"), names)
    function = eval(text, names)
    _, load = reloaded(function)
    assert load() is function
    file.write_text(MADE.replace("x * x", "x * x * x"))
    again = load()
    assert again is not function and again.__qualname__ == function.__qualname__
    if text == "slope":
        assert again(2.0) == 12.0


@pytest.mark.parametrize("text", ["pb.grad(loss)", "pb.jit(loss)", "functools.partial(loss, 1.0)", "Model().loss"])
def test_what_is_made_of_a_function_is_not_taken_for_it(file: Path, text: str) -> None:
    """The next version would show the function itself."""
    names: dict[str, Any] = {"__name__": "made"}
    file.write_text(MADE)
    exec(compile(MADE, str(file), "exec"), names)
    with pytest.raises(ValueError, match=r"something made of it, has none there\. Give it one, or pass the function.*apply="):
        pb.explore(eval(text, names), 1.0, watch=True)


def test_a_file_runs_again_as_a_module_of_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "watchedpackage"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "other.py").write_text("FACTOR = 3.0\n")
    text = (
        "from __future__ import annotations\nimport dataclasses\nfrom .other import FACTOR\n\n@dataclasses.dataclass\n"
        "class Model:\n    factor: float = FACTOR\n\ndef triple(x):\n    return x * Model().factor\n"
    )
    (folder / "model.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    _, load = reloaded(importlib.import_module("watchedpackage.model").triple)
    load()
    (folder / "model.py").write_text(text.replace("Model().factor", "Model().factor * 2.0"))
    assert load()(2.0) == 12.0


def test_a_file_that_watches_itself_again_is_told_so(file: Path) -> None:
    found = Watched(lambda: pb.explore(watched_again, 1.0, watch=True).html)
    failed = found.renew()
    assert isinstance(failed, RuntimeError) and '`if __name__ == "__main__":`' in str(failed)


def test_what_is_in_no_file_cannot_be_watched() -> None:
    with pytest.raises(ValueError, match=r"must have a name at the top of one, but what was given, test_what_is_in_no_file"):
        pb.explore(lambda x: x, 1.0, watch=True)
    names: dict[str, Any] = {}
    exec("def f(x):\n    return x\n", names)
    with pytest.raises(ValueError, match="must have a name at the top of one"):
        pb.explore(names["f"], 1.0, watch=True)


def test_watching_ends_with_ctrl_c_and_gives_the_newest(monkeypatch: pytest.MonkeyPatch, file: Path, capsys: Any) -> None:
    names: dict[str, Any] = {}
    exec(compile(FIRST, str(file), "exec"), names)
    looks: list[int] = []

    def stamps(files: Any) -> dict[str, Any]:
        looks.append(1)
        if len(looks) > 4:
            raise KeyboardInterrupt
        return {}

    monkeypatch.setattr(watching, "_stamps", stamps)
    found = pb.explore(names["double"], pb.ArrayType((3,)), compile=False, watch=True)
    assert found.programs["base"].equations and "http://127.0.0.1:" in capsys.readouterr().out
    assert not [one for one in threading.enumerate() if one.name == "pullback explorer"]
