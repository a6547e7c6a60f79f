"""Messages over plain sockets: a JSON header and bytes, from peers that know the secret, if there is one.

With a secret (`PULLBACK_SECRET`) each side proves that it knows it, by a challenge (HMAC-SHA256, RFC 2104), and each message
carries a code that only who knows it can make: nobody can join, change messages or play them again. They are not encrypted.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import Any

from pullback.core.brief import brief
from pullback.core.errors import WorldError

GREETING = "pullback 1"  # the protocol; another number is another protocol
MAX_HEADER = 1 << 24
_SIZES = struct.Struct(">IQ")
_CODE = 32  # bytes of an HMAC-SHA256

Message = tuple[dict[str, Any], bytes]


def shared_secret() -> bytes:
    """What the processes of a world know and others do not: `PULLBACK_SECRET`; empty if none was given."""
    return os.environ.get("PULLBACK_SECRET", "").encode()


class Channel:
    """One end of a connection. Any thread may send; one receives.

    Arguments:
        connection: a connected socket. secret: what both ends know. is_server: which end this is.

    Attributes:
        heard: when something last came from the other end.

    Raises:
        WorldError: the other end speaks another protocol, or does not know the secret.
    """

    def __init__(self, connection: socket.socket, secret: bytes, is_server: bool) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self.heard = time.monotonic()
        self._key = b""
        self._sending, self._sent, self._received = threading.Lock(), 0, 0
        self._names = (b"server", b"client") if is_server else (b"client", b"server")  # this end, the other one
        mine = secrets.token_bytes(_CODE)
        self.send({"greeting": GREETING, "nonce": mine.hex(), "secret": bool(secret)})
        try:
            greeting, _ = self.receive()
            theirs = bytes.fromhex(greeting["nonce"])
        except (ValueError, KeyError, TypeError):
            raise WorldError("what answers there is no process of pullback's") from None
        if greeting.get("greeting") != GREETING:
            raise WorldError(f"the other end speaks {greeting.get('greeting')!r} where this one speaks {GREETING!r}")
        if greeting.get("secret") != bool(secret):
            raise WorldError("PULLBACK_SECRET is set at one end only")
        if not secret:
            return
        both = mine + theirs if is_server else theirs + mine
        self._key = hmac.digest(secret, both, hashlib.sha256)
        self.send({"proof": True})
        try:
            self.receive()
        except (EOFError, OSError, WorldError):
            raise WorldError("the two ends have different secrets (PULLBACK_SECRET)") from None

    def send(self, header: dict[str, Any], body: bytes | memoryview = b"") -> None:
        """Send a message. Raises `OSError` where the connection has ended."""
        text = json.dumps(header).encode()
        sizes = _SIZES.pack(len(text), len(body))
        with self._sending:
            code = self._code(self._names[0], self._sent, sizes, text, body)
            self._sent += 1
            self.connection.sendall(sizes + code + text)
            if len(body):
                self.connection.sendall(body)

    def receive(self) -> Message:
        """The next message. Raises `EOFError` where the connection has ended, and `WorldError` at one that is not right."""
        sizes = self._read(_SIZES.size)
        header_size, body_size = _SIZES.unpack(sizes)
        if header_size > MAX_HEADER or (not self._key and self._received == 0 and body_size):
            raise ValueError("this is no message")
        code = self._read(_CODE if self._key else 0)
        text, body = self._read(header_size), self._read(body_size)
        if not hmac.compare_digest(code, self._code(self._names[1], self._received, sizes, text, body)):
            raise WorldError("a message came that was made without the secret, or changed on its way")
        self._received += 1
        header = json.loads(text)
        if not isinstance(header, dict):
            raise ValueError("this is no message")
        return header, bytes(body)

    def _code(self, sender: bytes, number: int, *parts: bytes | memoryview | bytearray) -> bytes:
        """The code of a message: of its sender, its number and its contents."""
        if not self._key:
            return b""
        made = hmac.new(self._key, sender + struct.pack(">Q", number), hashlib.sha256)
        for part in parts:
            made.update(part)
        return made.digest()

    def _read(self, size: int) -> bytearray:
        found = bytearray(size)
        rest = memoryview(found)
        while len(rest):
            count = self.connection.recv_into(rest)
            if count == 0:
                raise EOFError
            self.heard = time.monotonic()
            rest = rest[count:]
        return found

    def close(self) -> None:
        """End the connection; the other end, and a thread that receives here, see it at once."""
        with contextlib.suppress(OSError):  # it has ended already
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()


def spell_ranks(numbers: Sequence[int]) -> str:
    return f"rank {numbers[0]}" if len(numbers) == 1 else f"ranks {', '.join(map(str, numbers))}"


def split_address(address: str) -> tuple[str, int]:
    """`host:port`, or `[IPv6]:port`, as the two.

    Raises:
        ValueError: it is neither.
    """
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"A coordinator's address is host:port, such as 10.0.0.1:1234, not {brief(address)}.")
    return host, int(port)


def join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
