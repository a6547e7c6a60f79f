"""What ties a process to its world: requests to the keeper, heartbeats, and knowing that a peer is lost.

A thread sends a heartbeat every so often; another one listens. Whoever waits, for the keeper or for a result in which other
processes have a part, calls `check`, which raises as soon as the keeper has said that one is lost.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pullback.core.devices import processes
from pullback.core.errors import Fenced, PeerLost, WorldError
from pullback.parallel.messages import Channel, Message

LEAVING_GRACE = 5.0  # seconds in which results must come that a process took part in before it finished
UNLIMITED = 1e9  # seconds
LISTENING = 0.1  # seconds: so often a thread that waits looks whether there was a Ctrl-C


@dataclass
class Losses:
    """What a process knows of who belongs to its world no more.

    Attributes:
        lost: of the ranks that are lost, why. leaving: the ranks that have finished, and when that was heard.
        fenced: why this process itself does not belong to it; empty if it does. gone: why the keeper cannot be reached.
    """

    lost: dict[int, str] = field(default_factory=dict)
    leaving: dict[int, float] = field(default_factory=dict)
    fenced: str = ""
    gone: str = ""

    def raise_if_lost(self) -> None:
        """Raise if it is known that a process is lost, or this one is."""
        if self.fenced:
            raise Fenced(
                f"This process was taken for lost ({self.fenced}), and the others go on without it. It must not write anything"
                " that they read: let it end."
            )
        if self.lost:
            (rank, why), *others = self.lost.items()
            more = f"; so is rank {', '.join([str(other) for other, _ in others])}" if others else ""
            raise lost_error(f"rank {rank} is lost: {why}{more}", self.lost)
        if self.gone:
            raise lost_error(f"the keeper of the world is lost: {self.gone}")

    def raise_if_left(self, what: str) -> None:
        """Raise if a process has finished, for so long that it can have no part in what is waited for."""
        now = time.monotonic()
        for rank, since in list(self.leaving.items()):
            if now - since > LEAVING_GRACE:
                raise lost_error(f"rank {rank} has finished, and takes no part in {what}", (rank,))

    def raise_if_alone(self) -> None:
        """Raise if there is nobody to ask; after others were lost, there is."""
        if self.fenced or self.gone:
            self.raise_if_lost()


def lost_error(why: str, ranks: Iterable[int] = ()) -> PeerLost:
    error = PeerLost(f"{why[0].upper()}{why[1:].rstrip('.')}.")
    error.ranks = tuple(sorted(ranks))
    return error


class _Reply:
    """The answer to a request, when it has come."""

    def __init__(self) -> None:
        self.come = threading.Event()
        self.message: Message = {}, b""


class Link:
    """A process's connection to the keeper of its world.

    Arguments:
        channel: to the keeper. heartbeat: seconds without a heartbeat after which a process counts as lost.
        pushed: is called with the keeper's messages that answer nothing, in the thread that listens.

    Attributes:
        losses: who is lost.
    """

    def __init__(self, channel: Channel, heartbeat: float, pushed: Callable[[dict[str, Any]], None]) -> None:
        self.channel, self.heartbeat, self.pushed = channel, heartbeat, pushed
        self.losses = Losses()
        self._ids = itertools.count(1)
        self._replies: dict[int, _Reply] = {}
        self._closed = threading.Event()
        threading.Thread(target=self._listen, daemon=True, name="pullback world listens").start()

    # ---- its threads ----

    def _listen(self) -> None:
        losses = self.losses
        try:
            while True:
                header, body = self.channel.receive()
                if "push" in header:
                    self._on_push(header)
                elif reply := self._replies.pop(header["id"], None):
                    reply.message = header, body
                    reply.come.set()
        except (EOFError, OSError):
            losses.gone = losses.gone or "its connection has ended"
        except (ValueError, LookupError, WorldError) as error:
            losses.gone = losses.gone or str(error)
        self._closed.set()
        self.channel.close()
        for reply in list(self._replies.values()):
            reply.come.set()

    def _on_push(self, header: dict[str, Any]) -> None:
        if header["push"] == "lost":
            self.losses.lost[header["rank"]] = header["why"]
        elif header["push"] == "leaving":
            self.losses.leaving[header["rank"]] = time.monotonic()
        elif header["push"] == "fenced":
            self.losses.fenced = header["why"]
        elif header["push"] == "waits":
            print(f"pullback: Rank {processes.index} waits at {header['what']}, still for {header['for']}.", file=sys.stderr)
        else:
            self.pushed(header)

    def _beat(self) -> None:
        while not self._closed.wait(min(self.heartbeat / 8, 1.0)):
            try:
                self.channel.send({"op": "beat", "id": 0})
            except OSError:  # the other thread says why
                return

    # ---- what others call ----

    def begin(self, heartbeat: float) -> None:
        """The world has begun: from now on heartbeats are sent, and waited for."""
        self.heartbeat = heartbeat
        threading.Thread(target=self._beat, daemon=True, name="pullback world beats").start()

    def check(self) -> None:
        """Raise if a process is lost, or this one is.

        Raises:
            PeerLost: another process is lost, or the keeper, without which nobody can know.
            Fenced: this one was taken for lost.
        """
        if time.monotonic() - self.channel.heard > self.heartbeat:  # this process may have slept, and been taken for lost
            self._ask({"op": "beat"}, b"")
        self.losses.raise_if_lost()

    def check_waiting(self, what: str) -> None:
        """As `check`, while a result is waited for, which needs all: also those that have finished without it."""
        self.check()
        self.losses.raise_if_left(what)

    def ask(self, header: dict[str, Any], body: bytes = b"", timeout: float | None = None) -> Message:
        """The keeper's answer to a request; Ctrl-C ends the wait for it.

        Arguments:
            timeout: seconds that the keeper may take to answer where it has to wait for others; None for any time.

        Raises:
            TimeoutError: it took longer. PeerLost, Fenced: a process is lost. WorldError: what was asked for cannot be.
        """
        answer, found = self._ask({**header, "timeout": UNLIMITED if timeout is None else timeout}, body)
        error = answer.get("error")
        if error == "timeout":
            raise TimeoutError(f"{answer['why']} Waited for {timeout:g} s.")
        if error is not None:
            self.losses.raise_if_lost()
            raise WorldError(answer["why"]) if error == "WorldError" else lost_error(answer["why"].removesuffix("."))
        return answer, found

    def _ask(self, header: dict[str, Any], body: bytes) -> Message:
        """The answer, of an error too. The keeper is lost if nothing comes from it for as long as heartbeats may."""
        self.losses.raise_if_alone()
        reply, number, started = _Reply(), next(self._ids), time.monotonic()
        self._replies[number] = reply
        try:
            self.channel.send({**header, "id": number}, body)
            while not reply.come.wait(LISTENING) and not self._closed.is_set():
                if time.monotonic() - max(self.channel.heard, started) > self.heartbeat:
                    self.losses.gone = f"it has not answered for {self.heartbeat:g} s"
                    break
        except OSError:
            self._closed.wait(LISTENING)  # the other thread says why
        except BaseException:  # a Ctrl-C: nobody waits here any more
            with contextlib.suppress(OSError):
                self.channel.send({"op": "cancel", "id": 0, "cancels": number})
            raise
        finally:
            self._replies.pop(number, None)
        if not reply.message[0]:
            self.losses.gone = self.losses.gone or "its connection has ended"
            self.losses.raise_if_lost()
        return reply.message

    def stop(self) -> None:
        """Send no more heartbeats. The connection ends with the process: while there is one, the keeper is there, and beside it
        the service at whose end XLA would end this process."""
        self._closed.set()

    def disown(self) -> None:
        """In the child of a fork: the connection is the parent's, and ends with it."""
        self.losses.gone = "this process is a fork of one of the world's, and has no part in it"
        self.channel.connection.close()

    def close(self) -> None:
        """End the connection."""
        self._closed.set()
        self.channel.close()
