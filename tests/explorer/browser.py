"""A headless Chromium, driven by its DevTools protocol with the standard library alone.

The browser is the one that PULLBACK_CHROMIUM names, or the first of a few usual names that is on the path.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import shutil
import socket
import struct
import subprocess
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless-shell")
FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-extensions", "--mute-audio", "--remote-debugging-port=0",
]  # fmt: skip
CODES = {
    "Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36,
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
}  # fmt: skip
READY = "window.explorer && window.explorer.ready && document.readyState === 'complete'"
# What the browser answers where the page that was asked has been left for another one.
LEFT = ("Inspected target navigated", "Execution context was destroyed", "Promise was collected", "Cannot find context")
LONGEST_WAIT = 60.0  # seconds, after which a browser that does not answer is broken


def find_browser() -> str | None:
    """The path of a browser, or None; a name in PULLBACK_CHROMIUM that leads nowhere is an error."""
    if named := os.environ.get("PULLBACK_CHROMIUM"):
        if path := shutil.which(named):
            return path
        raise FileNotFoundError(f"PULLBACK_CHROMIUM is {named!r}, which is not a program.")
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class WebSocket:
    """A client's side of RFC 6455, as far as the DevTools protocol needs it: text messages, whole or in fragments."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        assert parts.hostname is not None and parts.port is not None
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=LONGEST_WAIT)
        self.buffer = b""
        key = base64.b64encode(secrets.token_bytes(16)).decode()
        lines = [f"GET {parts.path} HTTP/1.1", f"Host: {parts.netloc}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        while b"\r\n\r\n" not in self.buffer:
            self.more()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        if b" 101 " not in head.splitlines()[0]:
            raise ConnectionError(f"The browser refused a websocket: {head!r}")

    def more(self) -> None:
        received = self.socket.recv(1 << 20)
        if not received:
            raise ConnectionError("The browser closed the connection.")
        self.buffer += received

    def take(self, count: int) -> bytes:
        while len(self.buffer) < count:
            self.more()
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def write(self, opcode: int, payload: bytes) -> None:
        """One frame; those of a client are masked."""
        size = len(payload)
        length = (
            bytes([128 | size])
            if size < 126
            else b"\xfe" + struct.pack(">H", size)
            if size < 65536
            else b"\xff" + struct.pack(">Q", size)
        )
        mask = secrets.token_bytes(4)
        repeated = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(payload) ^ int.from_bytes(repeated)).to_bytes(size)
        self.socket.sendall(bytes([128 | opcode]) + length + mask + masked)

    def send(self, text: str) -> None:
        self.write(1, text.encode())

    def receive(self) -> str:
        whole = b""
        while True:
            first, second = self.take(2)
            size = second & 127
            if size == 126:
                (size,) = struct.unpack(">H", self.take(2))
            elif size == 127:
                (size,) = struct.unpack(">Q", self.take(8))
            payload, opcode = self.take(size), first & 15
            if opcode == 8:
                raise ConnectionError("The browser closed the websocket.")
            if opcode == 9:
                self.write(10, payload)
            elif opcode in (0, 1):
                whole += payload
                if first & 128:
                    return whole.decode()

    def close(self) -> None:
        self.socket.close()


class Browser:
    """One tab. `faults` collects what a page must not do: errors on the console, and requests."""

    def __init__(self, path: str, profile: str) -> None:
        self.process = subprocess.Popen(
            [path, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        said = []
        for line in self.process.stderr:  # it says which port it has chosen
            said.append(line)
            if "DevTools listening on " in line:
                break
        else:
            raise ConnectionError(f"{path} ended: {''.join(said)[-2000:]}")
        address = urllib.parse.urlsplit(line.split("DevTools listening on ")[1].strip())
        with urllib.request.urlopen(f"http://{address.netloc}/json", timeout=LONGEST_WAIT) as reply:
            targets = json.load(reply)
        self.socket = WebSocket(next(target for target in targets if target["type"] == "page")["webSocketDebuggerUrl"])
        self.number = 0
        self.faults: list[str] = []
        self.path = Path()  # of the page that a test opened
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.command(f"{domain}.enable")

    def command(self, method: str, **params: Any) -> Any:
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        while True:
            reply = json.loads(self.socket.receive())
            if reply.get("id") == self.number:
                if "error" in reply:
                    raise RuntimeError(f"{method}: {reply['error']}")
                return reply["result"]
            self.note(reply.get("method", ""), reply.get("params", {}))

    def note(self, event: str, params: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.faults.append(f"exception: {params['exceptionDetails']}"[:500])
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.faults.append(f"console: {params['args']}"[:500])
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.faults.append(f"log: {params['entry']['text']}"[:500])
        elif event == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "data:", "about:")):
            self.faults.append(f"request: {params['request']['url']}"[:500])

    # ---- a page

    def view(self, width: int = 1440, height: int = 900, scheme: str = "light") -> None:
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.command("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, page: Path, state: str = "") -> None:
        """Opens a page at a state of its address, and waits until it says that it is ready."""
        self.command("Page.navigate", url="about:blank")
        self.command("Page.navigate", url=page.resolve().as_uri() + state)
        self.wait_for(READY)

    def wait_for(self, condition: str) -> None:
        """Waits until an expression holds, also while the page that would say so is still being opened."""
        look = f"new Promise(done => {{ const look = () => {condition} ? done(true) : setTimeout(look, 5); look(); }})"
        while True:
            try:
                if self.js(look):
                    return
            except RuntimeError as error:
                if not any(part in str(error) for part in LEFT):
                    raise

    def js(self, expression: str) -> Any:
        """The value of an expression, awaited if it is a promise."""
        reply = self.command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in reply:
            raise RuntimeError(f"{expression}: {reply['exceptionDetails']}")
        return reply["result"].get("value")

    def settle(self) -> None:
        """Waits until what was asked for has been drawn."""
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    # ---- keys and the mouse

    def key(self, *keys: str, shift: bool = False) -> None:
        for key in keys:
            code = CODES.get(key, ord(key.upper()) if key.isalnum() and len(key) == 1 else 0)
            event = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
            text = {"text": key} if len(key) == 1 else {}
            self.command("Input.dispatchKeyEvent", type="keyDown", **event, **text)
            self.command("Input.dispatchKeyEvent", type="keyUp", **event)
        self.settle()

    def centre(self, selector: str) -> tuple[float, float]:
        found = self.js(
            f"(found => {{ if (!found) return null; const box = found.getBoundingClientRect();"
            f" return [box.x + box.width / 2, box.y + box.height / 2]; }})(document.querySelector({json.dumps(selector)}))"
        )
        assert found is not None, f"nothing matches {selector}"
        return found[0], found[1]

    def point(self, selector: str) -> None:
        x, y = self.centre(selector)
        self.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def click(self, selector: str, times: int = 1) -> None:
        x, y = self.centre(selector)
        self.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for number in range(1, times + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=number)
        self.settle()

    # ---- what is there

    def count(self, selector: str) -> int:
        return int(self.js(f"document.querySelectorAll({json.dumps(selector)}).length"))

    def text(self, selector: str) -> str:
        return self.texts(selector)[0]

    def texts(self, selector: str) -> list[str]:
        return list(
            self.js(
                f"[...document.querySelectorAll({json.dumps(selector)})].map(found => found.innerText ?? found.textContent)"
            )
        )

    def row(self, stage: str, text: str) -> str:
        """The selector of the first row of a pane that shows a text."""
        rows = f"[...document.querySelectorAll('.pane[data-stage={stage}] .row')]"
        found = self.js(f"({rows}.find(row => row.innerText.includes({json.dumps(text)})) || {{}}).id")
        assert found, f"no row of {stage} shows {text!r}"
        return f"#{found}"

    def screenshot(self, path: Path) -> None:
        self.settle()
        path.write_bytes(base64.b64decode(self.command("Page.captureScreenshot", format="png")["data"]))

    def pdf(self) -> bytes:
        return base64.b64decode(self.command("Page.printToPDF", printBackground=True, displayHeaderFooter=False)["data"])

    def close(self) -> None:
        self.socket.close()
        self.process.terminate()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


@contextlib.contextmanager
def browsing(path: str) -> Iterator[Browser]:
    # The profile may still be written to while the browser ends.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(path, profile)
        try:
            yield browser
        finally:
            browser.close()
