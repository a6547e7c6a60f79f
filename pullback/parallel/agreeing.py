"""Agreement on each call of a program that several processes run together: XLA does not compare what they run, and gives wrong
numbers, or none, if that differs.

Each process says at each such call, over sockets of its own, what it is about to run, and runs it when all have said the same.
What is said is a chain of digests: of all programs that they ran together before, in their order, and of the values that each
brings by itself. So calls of programs in which nothing is exchanged need not be waited for, but for the first of each: the next
one that exchanges something, without which none can see what the others computed, answers for them.

How it goes round is a dissemination barrier (Hensgen, Finkel, Manber 1988) of radix 8: in round k each process says to those
that are 1 to 7 times 8**k places behind it in the ring what it has and whether those of whom it has heard have the same. After
the last round each has heard of all, and all come to the same verdict: up to 8 processes say it to each other at once, 512 take
three rounds.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import secrets
import select
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pullback.core.devices import processes
from pullback.core.errors import ProgramsDiffer, WorldError
from pullback.core.source import Source, at_line
from pullback.engine.backend import JointCall
from pullback.engine.waiting import RESULT
from pullback.parallel.liveness import LISTENING
from pullback.parallel.messages import shared_secret, spell_ranks

RADIX = 8
TOLD_AFTER = 10.0  # seconds after which it is said who has not come
CONNECTED_IN = 30.0  # seconds
KEPT = 64  # calls that can be named if they differ
MAX_KNOWN = 1 << 16  # programs

_HELLO = struct.Struct(">I32s")  # who says it, and that he knows the token of whom he says it to
_RECORD = struct.Struct(">8sQBB16s")  # a group, the number of its call, the round, whether all have the same, the chain
_START = bytes(16)

_NOTHING = json.dumps((_START.hex(), 0, ())).encode()

Key = tuple[int, bytes, int, int]  # who said it, the group, the number of the call, and the round


@dataclass
class _Group:
    """Processes that run programs together.

    Attributes:
        place: of this process among them. name: their digest. calls: how many with an exchange there were.
        chain: of what they ran. recent: what they ran since all were known to have run the same. left_out: and before that.
        known: programs that all have run at one call. Since all agreed on that call, they are the same everywhere.
    """

    ranks: tuple[int, ...]
    place: int
    name: bytes
    calls: int = 0
    chain: bytes = _START
    recent: deque[JointCall] = field(default_factory=lambda: deque(maxlen=KEPT))
    left_out: int = 0
    known: set[bytes] = field(default_factory=set)

    def account(self) -> bytes:
        """What it says to the others where they differ, or may do so."""
        calls = [
            (one.program, one.digest.hex(), _place(one.source), [(type, digest.hex()) for type, digest in one.values])
            for one in self.recent
        ]
        return json.dumps((self.chain.hex(), self.left_out, calls)).encode()


class _Waiting(NamedTuple):
    """That a call waits, and for whom: processes that have not come, or that wait for others themselves."""

    began: float
    call: JointCall
    missing: Sequence[int]

    def __str__(self) -> str:
        waited = time.monotonic() - self.began
        have = "has" if len(self.missing) == 1 else "have"
        return (
            f"Rank {processes.index} waits for {waited:.0f} s to run {self.call.program}, to which {spell_ranks(self.missing)}"
            f" {have} not come.{at_line(self.call.source)}"
        )


@dataclass
class _Heard:
    """A connection by which another process says what it runs.

    Attributes:
        rank: which one; -1 before it has said so. data: what came of a message.
    """

    connection: socket.socket
    rank: int = -1
    data: bytes = b""


class Listening:
    """Where other processes say to this one what they run.

    Attributes:
        token: what they have to know for it, which the keeper tells them. port: at which they reach it.
    """

    def __init__(self, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.create_server((host, 0), family=family, backlog=4096)
        self.socket.setblocking(False)
        self.port: int = self.socket.getsockname()[1]
        self.token = secrets.token_hex(16)


def _proof(token: str, rank: int) -> bytes:
    """That a process knows the token of another one, and the secret."""
    return hmac.digest(shared_secret() or b"none", f"{token} {rank}".encode(), hashlib.sha256)


class Agreement:
    """What this process and the others are about to run.

    Arguments:
        rank: of this process. about: what each says of itself. listening: where this one hears the others.
        check: raises if a process is lost, or has finished. meet: as `World.meet`.
        limit: seconds that a call may wait for the others; None for any time.

    One thread at a time calls `begin`.
    """

    def __init__(
        self,
        rank: int,
        about: Sequence[dict[str, Any]],
        listening: Listening,
        check: Callable[[str], None],
        meet: Callable[..., list[bytes]],
        limit: float | None,
    ) -> None:
        self.rank, self.about, self.listening = rank, about, listening
        self.check, self.meet, self.limit = check, meet, limit
        self.waiting: _Waiting | None = None
        self._groups: dict[tuple[int, ...], _Group] = {}
        self._to: dict[int, socket.socket] = {}
        self._from = {listening.socket.fileno(): _Heard(listening.socket)}
        self._poll = select.poll()
        self._poll.register(listening.socket, select.POLLIN)
        self._said: dict[Key, tuple[bool, bytes]] = {}
        self._ended: set[int] = set()

    def begin(self, call: JointCall, meanwhile: Callable[[], None]) -> None:
        """Return when all have come to this call; see `Peers.begin`."""
        group = self._groups.get(call.ranks)
        if group is None:
            name = hashlib.blake2b(repr(call.ranks).encode(), digest_size=8).digest()
            group = self._groups[call.ranks] = _Group(call.ranks, call.ranks.index(self.rank), name)
        group.left_out += len(group.recent) == KEPT
        group.recent.append(call)
        group.chain = hashlib.blake2b(
            b"".join([group.chain, call.digest, *[digest for _, digest in call.values]]), digest_size=16
        ).digest()
        if not call.exchanges and (call.digest in group.known or len(group.known) == MAX_KNOWN):
            return meanwhile()
        group.calls += 1
        same, apart, number, count = True, 1, 0, len(group.ranks)
        while apart < count:
            distances = range(apart, min(RADIX * apart, count), apart)
            record = _RECORD.pack(group.name, group.calls, number, same, group.chain)
            for distance in distances:
                self._say(group.ranks[(group.place + distance) % count], record)
            if number == 0:
                meanwhile()
            ranks = [group.ranks[(group.place - distance) % count] for distance in distances]
            for fine, chain in self._hear(group, number, ranks, call):
                same = same and fine and chain == group.chain
            apart, number = apart * RADIX, number + 1
        account = None if same else group.account()
        group.recent.clear()
        group.left_out = 0
        if account is not None:
            group.chain = _START  # the world goes on: whoever handles the error does so everywhere
            what = f"the comparison of what they run, after {group.calls} calls"
            compare_accounts(group.ranks, self.meet(what, account, among=group.ranks))
        if len(group.known) < MAX_KNOWN:
            group.known.add(call.digest)

    def account(self) -> bytes:
        """What all processes ran together, of which they have not compared the last."""
        group = self._groups.get(tuple(range(len(self.about))))
        return _NOTHING if group is None else group.account()

    def close(self) -> None:
        """Nothing is agreed on any more. What a call still waits with stays."""
        if self.waiting is None:
            for one in (*self._to.values(), *[heard.connection for heard in self._from.values()]):
                one.close()

    # ---- sockets ----

    def _say(self, rank: int, record: bytes) -> None:
        try:
            if rank not in self._to:
                other = self.about[rank]
                made = socket.create_connection((other["address"], other["port"]), timeout=CONNECTED_IN)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                record = _HELLO.pack(self.rank, _proof(other["token"], self.rank)) + record
                self._to[rank] = made
            self._to[rank].sendall(record)
        except OSError as error:  # that its process has ended the keeper says
            raise WorldError(
                f"Rank {rank} cannot be told what rank {self.rank} is about to run: {error}. See there whether it still runs."
            ) from None

    def _hear(self, group: _Group, number: int, ranks: Sequence[int], call: JointCall) -> list[tuple[bool, bytes]]:
        """What some processes say in a round."""
        keys: list[Key] = [(rank, group.name, group.calls, number) for rank in ranks]
        began, told, wait = time.monotonic(), False, 0.0
        try:
            while missing := [key[0] for key in keys if key not in self._said]:
                if ended := self._ended.intersection(missing):
                    raise WorldError(
                        f"The connection by which rank {min(ended)} says what it runs has ended. See there why it did."
                    )
                self._take(wait)
                wait = LISTENING
                self.check(RESULT)
                self.waiting = _Waiting(began, call, missing)
                if not told and time.monotonic() - began > TOLD_AFTER:
                    told = True
                    print(f"pullback: {self.waiting}", file=sys.stderr, flush=True)
            return [self._said.pop(key) for key in keys]
        finally:
            self.waiting = None

    def _take(self, seconds: float) -> None:
        """Take what has come, or comes within some time."""
        for number, _ in self._poll.poll(1000 * seconds):
            heard = self._from[number]
            try:
                if heard.connection is self.listening.socket:
                    made, _ = heard.connection.accept()
                    made.setblocking(False)
                    self._from[made.fileno()] = _Heard(made)
                    self._poll.register(made, select.POLLIN)
                    continue
                data = heard.connection.recv(1 << 16)
            except BlockingIOError:  # of a connection that is gone again
                continue
            except OSError:
                data = b""
            if not data or not self._understand(heard, heard.data + data):
                self._poll.unregister(number)
                del self._from[number]
                heard.connection.close()
                self._ended.add(heard.rank)

    def _understand(self, heard: _Heard, data: bytes) -> bool:
        """Take what came by a connection; whether it may go on."""
        start = 0
        if heard.rank < 0 and len(data) >= _HELLO.size:
            rank, proof = _HELLO.unpack_from(data)
            if not hmac.compare_digest(proof, _proof(self.listening.token, rank)):
                return False
            heard.rank, start = rank, _HELLO.size
        while heard.rank >= 0 and len(data) - start >= _RECORD.size:
            group, call, number, same, chain = _RECORD.unpack_from(data, start)
            self._said[heard.rank, group, call, number] = bool(same), chain
            start += _RECORD.size
        heard.data = data[start:]
        return True

    # ---- what is said of it ----

    def check_begun(self) -> None:
        """Raise `TimeoutError` if a call waits for longer than it may."""
        waiting = self.waiting
        if self.limit is not None and waiting is not None and time.monotonic() - waiting.began > self.limit:
            raise TimeoutError(f"{waiting} It runs when all have come, but nobody here waits for it any more.")


def compare_accounts(ranks: Sequence[int], accounts: Sequence[bytes]) -> None:
    """Raise `ProgramsDiffer` if what processes ran together was not the same, by what each says of it."""
    said = dict(zip(ranks, map(json.loads, accounts), strict=True))
    if len({chain for chain, _, _ in said.values()}) > 1:
        raise ProgramsDiffer(describe_difference({rank: rest for rank, (_, *rest) in said.items()}))


def describe_difference(said: dict[int, Any]) -> str:
    """In what the calls differ that processes have made: of each rank how many are not known any more, and those that are, each
    with the program in words, the digest of its code, where it was called, and the types and digests of values."""
    if len({left_out for left_out, _ in said.values()}) == 1:
        for calls in itertools.zip_longest(*[known for _, known in said.values()], fillvalue=("nothing", "", "its end", ())):
            if len({digest for _, digest, _, _ in calls}) > 1:
                each = [f"{program}, at {at}" for program, _, at, _ in calls]
                return f"The processes differ in the program that they run together: {_who_has(said, each)}."
            brought = [[f"{type} with digest {digest}" for type, digest in values] for *_, values in calls]
            for values in itertools.zip_longest(*brought, fillvalue="an array that lies on the mesh"):
                if len(set(values)) > 1:
                    program, _, at, _ = calls[0]
                    return (
                        f"The processes differ in the values that each brings to {program}: {_who_has(said, values)}."
                        f" pb.distributed.broadcast gives all what one of them has. At {at}."
                    )
    each = [calls[-1][0] for _, calls in said.values()]
    return f"The processes differ in what they ran more than {KEPT} calls ago. Now they run: {_who_has(said, each)}."


def _place(source: Source | None) -> str:
    return "a line that is not known" if source is None else f"{source.file}:{source.line} ({source.function})"


def _who_has(ranks: Iterable[int], each: Sequence[str]) -> str:
    """Which ranks have what."""
    by_value: dict[str, list[int]] = {}
    for rank, value in zip(ranks, each, strict=True):
        by_value.setdefault(value, []).append(rank)
    return "; ".join([f"{spell_ranks(some)} {'has' if len(some) == 1 else 'have'} {value}" for value, some in by_value.items()])
