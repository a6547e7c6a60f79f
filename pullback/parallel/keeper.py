"""The keeper of a world: the one place that knows which processes belong to it. It runs in a process of its own, so that any
of the others may be lost, the first one too.

The processes of a world connect to it, and stay connected. It waits until all are there and compares what they say; keeps
values by keys; lets processes meet (barriers, broadcasts, agreements are meetings); notices who is lost, by connections that
end
and by heartbeats that stop, and tells the rest; and says who belongs to the next, smaller world. Since it decides alone, two
groups of survivors cannot both go on. Beside it runs the coordination service of jaxlib's, by which XLA's own connections
are made.

Not in it: who it talks to is decided by `messages.py`, what a process says and hears by `liveness.py`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pullback.core.errors import WorldError
from pullback.engine.jaxlib import coordination_service
from pullback.parallel.messages import Channel, join_address, shared_secret, spell_ranks

TOLD_AFTER = 10.0  # seconds after which those that meet are told who has not come
TICK = 0.05  # seconds between two looks at what has taken too long
SLEPT = 1.0  # seconds between two looks after which it was the keeper that slept, not the others
# A connection that has ended, or whose other end does not speak as our processes do.
ENDED = (OSError, EOFError, LookupError, TypeError, ValueError, WorldError)

GREETED_IN = 10.0  # seconds that a connection may take to say who it is


@dataclass(eq=False)
class Member:
    """A process of the world.

    Attributes:
        rank: its number, in the epoch that it came to. facts: what has to be the same everywhere.
        about: what it says of itself. heard: when it was last known to be there, though nothing may have come since.
        out: why it belongs to the world no more. leaving: it has finished, and waits for the others.
        step: the last step that it began, where it was asked.
    """

    channel: Channel
    rank: int
    facts: dict[str, Any]
    about: dict[str, Any]
    heard: float
    out: str = ""
    leaving: bool = False
    step: int | None = None
    _outgoing: queue.SimpleQueue[tuple[dict[str, Any], bytes] | None] = field(default_factory=queue.SimpleQueue)

    def tell(self, header: dict[str, Any], body: bytes = b"") -> None:
        """Send it a message, by a thread of its own: a process that is stopped takes none, and nobody may wait for it."""
        self._outgoing.put((header, body))

    def send_all(self) -> None:
        """What that thread does."""
        try:
            while (message := self._outgoing.get()) is not None:
                self.channel.send(*message)
        except OSError:  # it has gone; the thread that listens to it sees that as well
            self.channel.close()

    def end(self) -> None:
        self._outgoing.put(None)


@dataclass
class Waiting:
    """A request that cannot be answered yet: for a key, or for other processes at a meeting."""

    member: Member
    id: int
    until: float
    body: bytes = b""
    among: Sequence[int] = ()  # the ranks that meet
    since: float = field(default_factory=time.monotonic)
    told: bool = False  # who has not come


@dataclass
class Epoch:
    """One form of the world: its processes, and what they share."""

    number: int
    count: int
    until: float  # when all must have come
    members: dict[int, Member] = field(default_factory=dict)
    complete: bool = False
    refused: str = ""  # why this world cannot be
    values: dict[str, bytes] = field(default_factory=dict)
    keys: dict[str, list[Waiting]] = field(default_factory=dict)
    meetings: dict[str, dict[int, Waiting]] = field(default_factory=dict)
    reforming: dict[int, Waiting] = field(default_factory=dict)
    stopping: bool = False  # somebody is to end
    decided: bool = False  # at which step all stop


class Keeper:
    """The keeper of a world of `count` processes, at a socket that listens.

    Arguments:
        timeout: seconds in which all have to come. heartbeat: seconds without one after which a process is lost.
        starter: the pid of the process that started it; when that has ended, nobody is waited for who has not come.
    """

    def __init__(
        self, listener: socket.socket, count: int, timeout: float, heartbeat: float, starter: int | None = None
    ) -> None:
        self.listener = listener
        self.host = listener.getsockname()[0]
        self.timeout, self.heartbeat = timeout, heartbeat
        self.starter = os.getppid() if starter is None else starter
        self.epoch = Epoch(0, count, time.monotonic() + timeout)
        self.lock = threading.RLock()
        self.connected = 0
        self.services: list[Any] = []
        self.secret = shared_secret()
        names = ("beat", "set", "get", "peek", "delete", "meet", "cancel", "leave", "preempt", "step", "reform")
        self._answers = {name: getattr(self, f"_on_{name}") for name in names}

    def run(self) -> None:
        """Serve until the last process has gone."""
        threading.Thread(target=self._accept, daemon=True).start()
        service: tuple[int, str] | None = None
        looked = time.monotonic()
        while True:
            with self.lock:
                epoch = self.epoch
                now = time.monotonic()
                if now - looked > SLEPT:
                    for member in epoch.members.values():
                        member.heard = now
                looked = now
                self._look(epoch, now)
                gathered = not epoch.refused and len(epoch.members) == epoch.count
                if not self.connected and (
                    epoch.refused or epoch.complete or now > epoch.until or os.getppid() != self.starter
                ):
                    break
            if service is None or service[0] != epoch.number:
                service = epoch.number, self._serve_xla(epoch.count)
                looked = time.monotonic()
            if gathered and not epoch.complete:
                self._begin(epoch, service[1])
            time.sleep(0.002 if not epoch.complete else TICK)
        for held, _ in self.services:
            held.close()

    def _serve_xla(self, count: int) -> str:
        """Start jaxlib's coordination service for a world of so many processes; its address."""
        held = socket.socket(self.listener.family)
        held.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEPORT, 1
        )  # nobody else is given the port, but the service may share it
        held.bind((self.host, 0))
        address = join_address(self.host, held.getsockname()[1])
        self.services.append((held, coordination_service(address, count)))
        return address

    def _begin(self, epoch: Epoch, service: str) -> None:
        """All have come: tell them so, or in what they differ."""
        with self.lock:
            if len(epoch.members) < epoch.count:  # one has gone again
                return
            for name in ("pullback", "jaxlib", "Python", "byte order"):
                found = {rank: epoch.members[rank].facts.get(name) for rank in sorted(epoch.members)}
                if len(set(found.values())) > 1:
                    said = ", ".join([f"rank {rank} has {value}" for rank, value in found.items()])
                    return self._refuse(epoch, f"The processes differ in their {name}: {said}.")
            epoch.complete = True
            about = [epoch.members[rank].about for rank in range(epoch.count)]
            for member in epoch.members.values():
                member.heard = time.monotonic()
                member.tell({"push": "begin", "service": service, "about": about, "heartbeat": self.heartbeat})

    def _refuse(self, epoch: Epoch, why: str) -> None:
        epoch.refused = why
        with contextlib.suppress(OSError):  # of some systems, to which it is not connected; who tries again needs the address
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for member in epoch.members.values():
            member.tell({"push": "refused", "why": why})

    # ---- connections ----

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:  # it is closed
                return
            with self.lock:
                self.connected += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Listen to one connection until it ends."""
        member = None
        try:
            connection.settimeout(GREETED_IN)
            channel = Channel(connection, self.secret, is_server=True)
            hello, _ = channel.receive()
            with self.lock:
                member = self._admit(channel, hello)
            connection.settimeout(None)
            while member is not None:
                header, body = channel.receive()
                with self.lock:
                    self._answer(member, header, body)
        except ENDED:
            pass
        finally:
            connection.close()
            with self.lock:
                self.connected -= 1
                if member is not None:
                    self._lose(member, f"its process (pid {member.about['pid']} on {member.about['host']}) has ended")
                    member.end()

    def _admit(self, channel: Channel, hello: dict[str, Any]) -> Member | None:
        """Who has come, if he belongs here."""
        epoch, rank = self.epoch, hello["rank"]
        found = epoch.members.get(rank)
        if hello["epoch"] != epoch.number:
            why, kind = (
                f"The world is in its form {epoch.number} now, and rank {rank} comes from form {hello['epoch']}.",
                "Fenced",
            )
        elif hello["count"] != epoch.count:
            why, kind = f"Rank {rank} was started with {hello['count']} processes, this world with {epoch.count}.", "WorldError"
            if not epoch.complete:
                self._refuse(epoch, why)
        elif not 0 <= rank < epoch.count:
            why, kind = f"Rank {rank} is outside of a world of {epoch.count} processes.", "WorldError"
        elif epoch.complete or found is not None:
            taker = "" if found is None else f", by pid {found.about['pid']} on {found.about['host']}"
            why, kind = f"Rank {rank} is taken{taker}.", "WorldError"
        elif epoch.refused:
            why, kind = epoch.refused, "WorldError"
        else:
            made = epoch.members[rank] = Member(channel, rank, hello["facts"], hello["about"], time.monotonic())
            threading.Thread(target=made.send_all, daemon=True).start()
            return made
        channel.send({"push": "refused", "why": why, "kind": kind})
        return None

    # ---- who is there ----

    def _look(self, epoch: Epoch, now: float) -> None:
        """What has taken too long?"""
        if not epoch.complete:
            if now > epoch.until and not epoch.refused:
                missing = [rank for rank in range(epoch.count) if rank not in epoch.members]
                self._refuse(epoch, f"{spell_ranks(missing).capitalize()} did not come in {self.timeout:g} s.")
            return
        for member in list(epoch.members.values()):
            if not member.out and now - max(member.heard, member.channel.heard) > self.heartbeat:
                self._lose(member, f"no heartbeat came from it for {self.heartbeat:g} s")
        for key, requests in list(epoch.keys.items()):
            for late in [one for one in requests if now > one.until]:
                requests.remove(late)
                late.member.tell({"id": late.id, "error": "timeout", "why": f"Nobody has set the key {key!r}."})
            if not requests:
                del epoch.keys[key]
        for name, present in list(epoch.meetings.items()):
            missing = [rank for rank in next(iter(present.values())).among if rank not in present] if present else []
            for one in present.values():
                if not one.told and name != LEAVING and now - one.since > TOLD_AFTER:
                    one.told = True
                    one.member.tell({"push": "waits", "what": name, "for": spell_ranks(missing)})
            if any([now > one.until for one in present.values()]):
                self._break(epoch, name, "timeout", f"{spell_ranks(missing).capitalize()} did not come to {name}.")
        if epoch.reforming and now > min([one.until for one in epoch.reforming.values()]):
            for rank, member in epoch.members.items():
                if not member.out and rank not in epoch.reforming:
                    self._lose(member, "it did not take part when the world was formed anew")

    def _lose(self, member: Member, why: str) -> None:
        """A process belongs to the world no more: the others hear of it, and nothing that it says counts."""
        epoch = self.epoch
        if member.out or epoch.members.get(member.rank) is not member:
            return
        member.out = why
        if not epoch.complete:  # it may come again
            del epoch.members[member.rank]
            return
        member.tell({"push": "fenced", "why": why})
        for other in epoch.members.values():
            if not other.out:
                other.tell({"push": "lost", "rank": member.rank, "why": why})
        for name in list(epoch.meetings):
            self._break(epoch, name, "PeerLost", f"Rank {member.rank} is lost: {why}.")
        for requests in epoch.keys.values():
            for one in requests:
                one.member.tell({"id": one.id, "error": "PeerLost", "why": f"Rank {member.rank} is lost: {why}."})
        epoch.keys.clear()
        self._reform(epoch)
        self._agree_on_step(epoch)

    def _break(self, epoch: Epoch, name: str, error: str, why: str) -> None:
        for one in epoch.meetings.pop(name).values():
            one.member.tell({"id": one.id, "error": error, "why": why})

    # ---- what processes ask for ----

    def _answer(self, member: Member, header: dict[str, Any], body: bytes) -> None:
        now = time.monotonic()
        if member.out or self.epoch.members.get(member.rank) is not member:
            return member.tell({"id": header["id"], "error": "Fenced", "why": member.out or "the world was formed anew"})
        if not self.epoch.complete:
            raise ValueError("the world has not begun")
        wait = Waiting(member, header["id"], now + min(header.get("timeout", 0.0), 1e9), body, header.get("among", ()))
        self._answers[header["op"]](self.epoch, wait, header)

    def _on_beat(self, epoch: Epoch, wait: Waiting, header: dict[str, Any]) -> None:
        wait.member.tell({"id": wait.id})

    def _on_set(self, epoch: Epoch, wait: Waiting, header: dict[str, Any]) -> None:
        key = header["key"]
        if not header["overwrite"] and key in epoch.values:
            return wait.member.tell({"id": wait.id, "taken": True}, epoch.values[key])
        epoch.values[key] = wait.body
        for one in epoch.keys.pop(key, ()):
            one.member.tell({"id": one.id}, wait.body)
        wait.member.tell({"id": wait.id})

    def _on_get(self, epoch: Epoch, wait: Waiting, header: dict[str, Any]) -> None:
        found = epoch.values.get(header["key"])
        if found is not None:
            return wait.member.tell({"id": wait.id}, found)
        if lost := next((one for one in epoch.members.values() if one.out), None):
            return wait.member.tell({"id": wait.id, "error": "PeerLost", "why": f"Rank {lost.rank} is lost: {lost.out}."})
        epoch.keys.setdefault(header["key"], []).append(wait)

    def _on_peek(self, epoch: Epoch, wait: Waiting, header: dict[str, Any]) -> None:
        found = epoch.values.get(header["key"])
        wait.member.tell({"id": wait.id, "found": found is not None}, found or b"")

    def _on_delete(self, epoch: Epoch, wait: Waiting, header: dict[str, Any]) -> None:
        wait.member.tell({"id": wait.id, "found": epoch.values.pop(header["key"], None) is not None})

    def _on_meet(self, epoch: Epoch, wait: Waiting, header: dict[str, Any]) -> None:
        """A meeting ends when all are there: each gets what all have brought, or what the one that is asked for has."""
        name = header["name"]
        if lost := next((one for one in epoch.members.values() if one.out), None):
            return wait.member.tell({"id": wait.id, "error": "PeerLost", "why": f"Rank {lost.rank} is lost: {lost.out}."})
        others = [one for one in epoch.members.values() if one.rank in wait.among and one is not wait.member]
        left = next((one for one in others if one.leaving), None)
        if left is not None and name != LEAVING:
            why = f"Rank {left.rank} has finished, and will not come to {name}."
            return wait.member.tell({"id": wait.id, "error": "WorldError", "why": why})
        present = epoch.meetings.setdefault(name, {})
        if wait.member.rank in present:
            why = f"Two threads of rank {wait.member.rank} came to {name}, which only one can."
            return wait.member.tell({"id": wait.id, "error": "WorldError", "why": why})
        present[wait.member.rank] = wait
        if name == LEAVING:
            self._finish(epoch, wait.member)
        if len(present) == len(wait.among):
            del epoch.meetings[name]
            of = header.get("of")
            brought = [present[rank].body for rank in (wait.among if of is None else [of])]
            answer = {"sizes": list(map(len, brought))}
            for one in present.values():
                one.member.tell({"id": one.id, **answer}, b"".join(brought))

    def _on_cancel(self, epoch: Epoch, wait: Waiting, header: dict[str, Any]) -> None:
        """It does not wait for the answer to a request any more; if it was for a meeting, it is not there."""
        rank, number = wait.member.rank, header["cancels"]
        for waiting in (*epoch.meetings.values(), epoch.reforming):
            if rank in waiting and waiting[rank].id == number:
                del waiting[rank]
        for requests in epoch.keys.values():
            requests[:] = [one for one in requests if one.member is not wait.member or one.id != number]

    def _finish(self, epoch: Epoch, member: Member) -> None:
        """It has finished: whoever waits for it at another meeting waits in vain."""
        member.leaving = True
        for name, present in list(epoch.meetings.items()):
            among = next(iter(present.values())).among if present else ()
            if name != LEAVING and member.rank in among and member.rank not in present:
                self._break(epoch, name, "WorldError", f"Rank {member.rank} has finished, and will not come to {name}.")
        for other in epoch.members.values():
            if other is not member and not other.out:
                other.tell({"push": "leaving", "rank": member.rank})

    def _on_leave(self, epoch: Epoch, wait: Waiting, header: dict[str, Any]) -> None:
        """It goes: in order, after all have met to leave, or because it has failed."""
        wait.member.tell({"id": wait.id})
        if header["why"]:
            self._lose(wait.member, header["why"])
        else:
            wait.member.out = "it has left"

    def _on_preempt(self, epoch: Epoch, wait: Waiting, header: dict[str, Any]) -> None:
        """Somebody is to end: all stop at one step. Nobody begins another step until each has said where he is."""
        wait.member.tell({"id": wait.id})
        if not epoch.stopping:
            epoch.stopping = True
            for member in epoch.members.values():
                if not member.out:
                    member.tell({"push": "hold"})

    def _on_step(self, epoch: Epoch, wait: Waiting, header: dict[str, Any]) -> None:
        wait.member.step = header["step"]
        wait.member.tell({"id": wait.id})
        self._agree_on_step(epoch)

    def _agree_on_step(self, epoch: Epoch) -> None:
        here = [member for member in epoch.members.values() if not member.out]
        steps = [member.step for member in here if member.step is not None]
        if epoch.stopping and not epoch.decided and len(steps) == len(here):
            epoch.decided = True
            for member in here:
                member.tell({"push": "stop", "step": max(steps, default=0) + 1})

    def _on_reform(self, epoch: Epoch, wait: Waiting, header: dict[str, Any]) -> None:
        epoch.reforming[wait.member.rank] = wait
        self._reform(epoch)

    def _reform(self, epoch: Epoch) -> None:
        """Begin the next epoch when all that are there ask for it; they are numbered anew, in their order."""
        here = [rank for rank, member in sorted(epoch.members.items()) if not member.out]
        if not epoch.reforming or any([rank not in epoch.reforming for rank in here]):
            return
        self.epoch = Epoch(epoch.number + 1, len(here), time.monotonic() + self.timeout)
        for number, rank in enumerate(here):
            one = epoch.reforming[rank]
            one.member.tell({"id": one.id, "rank": number, "count": len(here), "epoch": epoch.number + 1})


LEAVING = "the end of the world"  # the meeting of those that have finished


def main(arguments: list[str]) -> None:
    """Run a keeper: the number of a socket that listens, of the processes, the two times in seconds, and the starter's pid."""
    number, count, timeout, heartbeat, starter = arguments
    keeper = Keeper(socket.socket(fileno=int(number)), int(count), float(timeout), float(heartbeat), int(starter))
    keeper.run()
    sys.stdout.flush()
    os._exit(0)  # jaxlib's service would wait for its clients
