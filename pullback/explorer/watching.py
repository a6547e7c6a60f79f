"""A page that is made anew whenever the file with the function is saved, served on the loopback address."""

from __future__ import annotations

import contextlib
import html
import json
import linecache
import os
import re
import secrets
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from pullback.core.context import setting
from pullback.core.lazy import lazy_module
from pullback.core.source import describe, innermost, trim

server = lazy_module("http.server")

EVERY = 0.3  # seconds between looks at the files
PATIENCE = 20.0  # seconds that a question of the page for news waits for an answer

# What the page loads besides: it asks whether there is another version, and shows that. The address keeps the panes; ids are
# given anew each time, so what is kept is told in words from one version to the next.
RELOAD = """\
(async () => {
  const kept = sessionStorage.getItem("kept");
  if (kept && window.explorer?.keepLike) {
    sessionStorage.removeItem("kept");
    explorer.keepLike(JSON.parse(kept));
  }
  for (;;) {
    try {
      const reply = await fetch("/other-than/VERSION");
      if (await reply.json()) {
        const likeness = window.explorer?.likeness?.();
        if (likeness) {
          sessionStorage.setItem("kept", JSON.stringify(likeness));
          history.replaceState(null, "", location.hash.replace(/&at=\\d+/, ""));
        }
        return location.reload();
      }
    } catch (gone) {
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
})();
"""
# By its policy a page runs no script but its own, and makes no request; here it may do both with this server.
ALLOWED = {"default-src 'none';": "default-src 'none'; connect-src 'self';", "script-src ": "script-src 'self' "}
_OWN_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:\d+)?", re.IGNORECASE)
_VERSION = re.compile(r"[0-9a-f]+-[0-9]+")
_making = ContextVar("_making", default=False)  # whether a page is being made, for which the user's file runs again


class Watched:
    """The newest page, and those who wait for another one.

    Attributes:
        count: how often it was made. version: that, with what tells this run from others that served the same address.
    """

    def __init__(self, make: Callable[[], str]) -> None:
        self.make = make
        self.count = 0
        self._run = secrets.token_hex(4)
        self._page = ""
        self._changed = threading.Condition()

    @property
    def version(self) -> str:
        return f"{self._run}-{self.count}"

    def renew(self) -> BaseException | None:
        """Make the page; one that says what went wrong where that fails, which is returned."""
        failed: BaseException | None = None
        linecache.checkcache()
        try:
            with setting(_making, True):
                page = self.make()
        except (Exception, SystemExit) as error:  # the user's code, saved in the middle of a change
            failed = error
            page = _failure(error)
        with self._changed:
            self._page, self.count = page, self.count + 1
            self._changed.notify_all()
        return failed

    def page(self) -> str:
        """The newest page, which loads the next one by itself; waits for the first one."""
        with self._changed:
            self._changed.wait_for(lambda: self.count)
            return served(self._page, self.version)

    def is_other(self, version: str) -> bool:
        """Whether there is another page than one of these versions; waits for one."""
        with self._changed:
            return self._changed.wait_for(lambda: self.count > 0 and self.version != version, PATIENCE)


def served(page: str, version: str) -> str:
    """A page with the script that loads the next version of it."""
    head, body, rest = page.partition("<body>")
    for policy, wider in ALLOWED.items():
        head = head.replace(policy, wider, 1)
    return f'{head}<script src="/reload/{version}" defer></script>{body}{rest}'


def _failure(error: BaseException) -> str:
    trim(error)
    text = html.escape("".join(traceback.format_exception(error)))
    style = (
        ":root { color-scheme: light dark; font: 14px/1.5 system-ui } body { margin: 3rem auto; max-width: 60rem }"
        " pre { white-space: pre-wrap; font: 13px/1.5 ui-monospace, monospace }"
    )
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>pullback explorer</title><style>{style}</style>'
    told = "<h1>This version does not run</h1><p>The page comes back when the file is saved again.</p>"
    return f"{head}<body>{told}<pre>{text}</pre></body></html>"


def watch(make: Callable[[], str], files: Callable[[], Sequence[str]], report: Callable[[str], None], port: int = 0) -> None:
    """Serve a page on 127.0.0.1, and make it anew when one of some files is saved; until Ctrl-C.

    Arguments:
        make: makes the page. files: which ones to look at, asked after each time.
        report: is told what happens, in lines for people. port: by default one that is free.

    Raises:
        OSError: the port is taken. RuntimeError: it is called by the user's file while that runs again for a page.
    """
    if _making.get():
        raise RuntimeError(
            "explore(watch=True) was called while your file ran again for the page that is watched: it would watch twice. Put"
            ' the call under `if __name__ == "__main__":`.'
        )
    watched = Watched(make)
    httpd = server.ThreadingHTTPServer(("127.0.0.1", port), _handler(watched))
    httpd.daemon_threads = True
    thread = threading.Thread(target=httpd.serve_forever, name="pullback explorer", daemon=True)
    thread.start()
    try:
        seen = _renewed(watched, files, report)
        report(f"http://127.0.0.1:{httpd.server_address[1]}/ shows the page; Ctrl-C ends it.")
        pause = threading.Event()
        while not pause.wait(EVERY):
            if _stamps(files()) != seen:
                report("A file has changed: the page is made anew.")
                seen = _renewed(watched, files, report)
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


def reloaded(function: Callable[..., Any]) -> tuple[str, Callable[[], Any]]:
    """The file of a function, and what gives the function as it stands there now: the first time, the function itself.

    Raises:
        ValueError: it has no name at the top of a file, by which it could be found there again.
    """
    plain = innermost(function)
    code = getattr(plain, "__code__", None)
    file = "" if code is None else code.co_filename
    names = _names_of(function, plain) if os.path.isfile(file) else []
    if not names:
        raise ValueError(
            "explore(watch=True) looks for the function in its file again, so it must have a name at the top of one, but what"
            f" was given, {describe(function)} or something made of it, has none there. Give it one, or pass the function of"
            " the file itself, and what is to be made of it as apply=."
        )
    seen: list[Any] = []

    def load() -> Any:
        stamp = _stamps([file])
        if not seen or seen[-1] == stamp:
            seen.append(stamp)
            return function
        seen.append(None)  # from now on, the file's
        found: Any = _run_again(file, plain.__globals__.get("__package__"))
        for name in names:
            if not hasattr(found, name):
                raise AttributeError(f"{file} has no {'.'.join(names)} now. Give it that name again, or watch another one.")
            found = getattr(found, name)
        return found

    return file, load


def _names_of(function: Callable[..., Any], plain: Any) -> list[str]:
    """The names by which a function is found in the module of `plain`, the function inside it: its own, as `Model.loss`, if
    that is this very function, and not one that it was made of; else any. Empty where there are none."""
    module = plain.__globals__
    own = plain.__qualname__.split(".")
    found = module.get(own[0])
    for name in own[1:]:
        found = getattr(found, name, None)
    return own if found == function else next(([name] for name, value in module.items() if value is function), [])


def _run_again(file: str, package: str | None) -> ModuleType:
    """A new module of a file's code, in the package of the old one; `sys.modules` knows it, as dataclasses ask for."""
    module = ModuleType(f"{os.path.splitext(os.path.basename(file))[0]}_watched")
    module.__file__ = file
    module.__package__ = package
    sys.modules[module.__name__] = module
    with open(file, "rb") as source:
        exec(compile(source.read(), file, "exec", dont_inherit=True), vars(module))
    return module


def _renewed(watched: Watched, files: Callable[[], Sequence[str]], report: Callable[[str], None]) -> dict[str, Any]:
    """Make the page; gives the states of the files that it was made from. One that is saved meanwhile is seen as changed."""
    before = _stamps(files())
    failed = watched.renew()
    if failed is not None:
        report(f"{type(failed).__name__}: {failed}")
    after = _stamps(files())
    return {file: before.get(file, state) for file, state in after.items()}


def _stamps(files: Sequence[str]) -> dict[str, tuple[int, int]]:
    """When each file was last written, and its size; those that are not there are left out."""
    found = {}
    for file in files:
        with contextlib.suppress(OSError):  # as while an editor replaces it
            state = os.stat(file)
            found[file] = state.st_mtime_ns, state.st_size
    return found


def _handler(watched: Watched) -> Any:
    """The class that answers the requests of a page."""

    class Handler(server.BaseHTTPRequestHandler):  # type: ignore[name-defined, misc]
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            head, _, version = path.rpartition("/")
            known = _VERSION.fullmatch(version) is not None
            if not _OWN_HOST.fullmatch(self.headers.get("Host", "")):
                self.send_error(403)  # a page of another site that has this address under a name of its own
            elif path == "/":
                self.answer(watched.page(), "text/html; charset=utf-8")
            elif head == "/reload" and known:
                self.answer(RELOAD.replace("VERSION", version), "text/javascript")
            elif head == "/other-than" and known:
                self.answer(json.dumps(watched.is_other(version)), "application/json")
            else:
                self.send_error(404)

        def answer(self, text: str, kind: str) -> None:
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            with contextlib.suppress(ConnectionError):  # the browser has closed the page meanwhile
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the terminal is for what happens to the page."""

    return Handler
