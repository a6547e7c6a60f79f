"""The world: the processes that compute together, how they find each other, and what they say to each other."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.core.array import Array, as_array, host_of
from pullback.core.brief import brief
from pullback.core.devices import processes
from pullback.core.errors import ProgramsDiffer, WorldError
from pullback.core.trees import flatten, unflatten
from pullback.engine import distributed
from pullback.engine.backend import JointCall
from pullback.parallel.agreeing import Agreement, compare_accounts
from pullback.parallel.ending import failure, watch_exits
from pullback.parallel.keeper import LEAVING
from pullback.parallel.messages import join_address
from pullback.parallel.relay import relay
from pullback.parallel.rendezvous import Meeting, Place, find_place, listen, meet, start_keeper
from pullback.parallel.stopping import Stopping


class World:
    """The processes that compute together, and this one among them.

    Arguments:
        found: what they know of each other. limit: seconds that a program waits for those that run it as well.

    Attributes:
        place: which of them this is. link: to their keeper. stopping: whether they are to stop, and at which step.
        agreement: on what they run together. agreeing: held by who agrees on something else.
    """

    def __init__(self, place: Place, found: Meeting, limit: float | None = None) -> None:
        self.place, self.link = place, found.link
        self.process, self.agreeing = os.getpid(), threading.Lock()
        self.stopping = Stopping(self.link)
        self.agreement = Agreement(place.rank, found.about, found.listening, self.check_waiting, self.meet, limit)

    def meet(
        self,
        what: str,
        body: bytes = b"",
        of: int | None = None,
        timeout: float | None = None,
        among: Sequence[int] | None = None,
    ) -> list[bytes]:
        """What all processes, or those `among` which it is, bring to a meeting; or only what process `of` does. One of the
        same name may come after it."""
        ranks = list(range(self.place.size) if among is None else among)
        name = what if len(ranks) == self.place.size else f"{what} (of ranks {', '.join(map(str, ranks))})"
        answer, found = self.link.ask({"op": "meet", "name": name, "of": of, "among": ranks}, body, timeout)
        brought, start = [], 0
        for size in answer["sizes"]:
            brought.append(found[start : start + size])
            start += size
        return brought

    def agree(self, subject: str, value: str, timeout: float | None = None, among: Sequence[int] | None = None) -> None:
        """Raise `ProgramsDiffer` if not all processes, or not all of some, say the same."""
        said = self.meet(f"the agreement on {subject}", value.encode(), timeout=timeout, among=among)
        ranks = range(self.place.size) if among is None else among
        compare(subject, {rank: one.decode() for rank, one in zip(ranks, said, strict=True)})

    def agree_among(self, subject: str, value: str, among: Sequence[int]) -> None:
        """As `agree`, of those processes that compute something together. The subject does not tell what is agreed on from
        the same of others: threads take turns at it."""
        with self.agreeing:
            self.agree(subject, value, self.agreement.limit, among)

    def begin(self, call: JointCall, meanwhile: Callable[[], None]) -> None:
        """Return when all processes of a call are about to make the same one."""
        self.agreement.begin(call, meanwhile)

    def failures(self, call: JointCall, own: str) -> str:
        """Of the Python functions that a program of several processes has called, which failed, and how: each process says it
        of its own, with an empty text if none did. Empty if none did anywhere."""
        said = self.meet(f"the end of {call.program}", own.encode(), among=call.ranks)
        return "; ".join([f"on rank {rank}: {one.decode()}" for rank, one in zip(call.ranks, said, strict=True) if one])

    def check_waiting(self, what: str) -> None:
        """Raise if what is waited for needs a process that is lost, or has finished without it."""
        self.link.check_waiting(what)

    def check_begun(self) -> None:
        """Raise if a call waits for other processes for longer than it may."""
        self.agreement.check_begun()


_worlds: list[World] = []  # the one that this process belongs to, if any
_joining = threading.Lock()


def current() -> World:
    """The world. Raises `WorldError` where this process is alone."""
    if not _worlds:
        raise WorldError("This process is alone: pb.distributed.initialize lets it join others.")
    return _worlds[0]


def compare(subject: str, said: dict[int, str]) -> None:
    """Raise `ProgramsDiffer`, which names who says what, if processes do not say the same."""
    if len(set(said.values())) > 1:
        each = "; ".join([f"rank {rank} has {value}" for rank, value in said.items()])
        raise ProgramsDiffer(f"The processes differ in {subject}: {each}.")


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    initialization_timeout: float = 300.0,
    heartbeat_timeout_seconds: float = 10.0,
    waiting_timeout: float | None = None,
    coordinator_bind_address: str | None = None,
) -> None:
    """Let this process compute together with others, each of which calls this at the beginning of its program.

    What is not given comes from the environment. Which process this is: `PULLBACK_PROCESS_ID` and `PULLBACK_NUM_PROCESSES`,
    which `python -m pullback.launch` sets; `SLURM_PROCID` and `SLURM_STEP_NUM_TASKS`; `OMPI_COMM_WORLD_RANK` and `_SIZE` (Open
    MPI); `PMI_RANK` and `PMI_SIZE` (MPICH, Intel MPI); `JOB_COMPLETION_INDEX` (an indexed job of Kubernetes, whose manifest
    sets `PULLBACK_NUM_PROCESSES`). Where the coordinator is: `PULLBACK_COORDINATOR`; in SLURM the first host of the step.

    The connections are not encrypted. With `PULLBACK_SECRET` set, in all processes, nobody can join or say anything here who
    does not know it; XLA's own service and the arrays that go between processes have no such protection: give an address of a
    private network, to which all of it is bound.

    Arguments:
        coordinator_address: `host:port`, an address of the machine of process 0 and a port that is free there.
        num_processes: how many processes there are.
        process_id: which of them this is, from 0.
        initialization_timeout: seconds in which all have to come.
        heartbeat_timeout_seconds: seconds without a sign of life after which a process counts as lost. A process whose end is
            seen, since its connections end, is lost at once. What process 0 says holds.
        waiting_timeout: seconds that a call of a program which several processes run together, or one that puts values on
            their devices, waits for those that have not come to it; then it raises `TimeoutError`.
            None for any time; after 10 s it is said on stderr who has not come.
        coordinator_bind_address: where process 0 listens, if that is not the coordinator's address.

    Raises:
        WorldError: processes are missing, were started twice, or differ in their versions; or this one has computed already.
        ValueError: a number or an address cannot be. TypeError: an argument is of another type.

    Example:
        >>> pb.distributed.is_initialized()
        False
    """
    with _joining:
        if _worlds or processes.owners:
            raise WorldError("This process belongs to a world already: pb.distributed.initialize is called once.")
        times: dict[str, Any] = {
            **({} if waiting_timeout is None else {"waiting_timeout": waiting_timeout}),
            "initialization_timeout": initialization_timeout,
            "heartbeat_timeout_seconds": heartbeat_timeout_seconds,
        }
        for name, seconds in times.items():
            if isinstance(seconds, str) or not seconds > 0:
                raise ValueError(f"{name} is a number of seconds above 0, not {brief(seconds)}.")
        place = find_place(coordinator_address, num_processes, process_id, os.environ)
        distributed.check_alone()
        keeper = 0
        starts = place.rank == 0 and place.epoch == 0 and "PULLBACK_KEEPER" not in os.environ
        if starts:
            with listen(coordinator_bind_address or place.address) as listener:
                if place.size == 1:  # port 0 is any; others would have to know
                    place = place._replace(address=join_address(*listener.getsockname()[:2]))
                keeper = start_keeper(listener, place.size, initialization_timeout, heartbeat_timeout_seconds)
        try:  # while the keeper begins
            alone = distributed.start_alone()
        except BaseException:
            if keeper:
                os.kill(keeper, signal.SIGKILL)
            raise
        devices = len(alone.local_devices())
        found = meet(place, devices, initialization_timeout, heartbeat_timeout_seconds)
        world = World(place, found, waiting_timeout)
        found.link.pushed = world.stopping.pushed
        counts = [one["devices"] for one in found.about]
        distributed.join(alone, relay(found.service), place.rank, counts, found.host, world)
        _worlds.append(world)
        atexit.register(_leave)
        watch_exits()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_disown)


def _disown() -> None:
    """The child of a fork does not speak for this process, nor keeps its connections when that has ended."""
    for world in _worlds:
        world.link.disown()
        world.agreement.waiting = None  # the thread that waits is not here
        world.agreement.close()


def is_initialized() -> bool:
    """Whether this process computes together with others.

    Returns:
        A bool.

    Example:
        >>> pb.distributed.is_initialized()
        False
    """
    return bool(_worlds)


def process_index() -> int:
    """The number of this process; 0 of one that is alone.

    Returns:
        An int.

    Example:
        >>> pb.distributed.process_index()
        0
    """
    return processes.index


def process_count() -> int:
    """How many processes compute together.

    Returns:
        An int.

    Example:
        >>> pb.distributed.process_count()
        1
    """
    return processes.count


def shutdown(timeout: float | None = None) -> None:
    """Leave the world, when all processes have come here. At the end of a program that does not raise it happens by itself.

    Arguments:
        timeout: seconds to wait for the others; None for as long as they are there.

    Raises:
        TimeoutError: the others did not come.
        PeerLost: one of them is lost. The world is left nevertheless.
        ProgramsDiffer: the last that they ran together, in which they exchanged nothing, was not the same.

    Example:
        >>> pb.distributed.shutdown()  # of a process that is alone: nothing
    """
    if not _worlds:
        return
    world = _worlds[0]
    try:
        said = world.meet(LEAVING, world.agreement.account(), timeout=timeout)
        compare_accounts(range(len(said)), said)
    finally:
        _go(world, "")


def _go(world: World, why: str) -> None:
    """Tell the keeper that this process leaves, because it fails or in good order."""
    _worlds.clear()
    with contextlib.suppress(WorldError):  # there is nobody any more to whom it matters
        world.link.ask({"op": "leave", "why": why})
    world.link.stop()
    world.agreement.close()


def _leave() -> None:
    """At the end of the process: the others hear at once that it failed, or it waits for them."""
    if not _worlds or _worlds[0].process != os.getpid():
        return
    if why := failure():
        return _go(_worlds[0], f"its program ended with {why}")
    try:
        shutdown()
    except WorldError as lost:
        print(f"pullback: at the end of process {processes.index}: {lost}", file=sys.stderr)


# ---- what processes say to each other -----------------------------------------------------------------------------------


def barrier(name: str = "a barrier", timeout: float | None = None) -> None:
    """Return when all processes have come here.

    Arguments:
        name: what errors call it. Barriers of one name are passed one after another; those of different names are independent.
        timeout: seconds to wait for the others; None for as long as they are there.

    Raises:
        TimeoutError: the others did not come, which ones.
        PeerLost: one of them is lost.
        WorldError: one of them has finished, and will not come.

    Example:
        >>> pb.distributed.barrier("checkpoint written")  # of a process that is alone: nothing
    """
    if _worlds:
        _worlds[0].meet(f"barrier {name!r}", timeout=timeout)


def agree(value: object, subject: str = "a value", timeout: float | None = None) -> None:
    """Return when all processes have given the same value.

    Arguments:
        value: text, or what is written the same in all processes, such as numbers and tuples of them: `repr` is compared.
        subject: what errors call it.
        timeout: as for `barrier`.

    Raises:
        ProgramsDiffer: they have not; it names who gave what.
        TimeoutError, PeerLost, WorldError: as for `barrier`.

    Example:
        >>> pb.distributed.agree(("learning rate", 0.1))
    """
    if _worlds:
        _worlds[0].agree(subject, value if isinstance(value, str) else repr(value), timeout)


def broadcast(tree: Any, root: int = 0, timeout: float | None = None) -> Any:
    """The values that one process has, in all of them.

    Arguments:
        tree: a tree of arrays, numbers and text, of the same structure in all processes; only the values of `root` matter.
        root: the number of the process whose values all get.
        timeout: as for `barrier`.

    Returns:
        A tree of the same structure. NumPy arrays and Arrays come as what they were, in the dtype and shape of the root's.

    Raises:
        ProgramsDiffer: the trees differ in their structure.
        TypeError: a leaf is no array, number or text.
        ValueError: there is no such process.
        TimeoutError, PeerLost, WorldError: as for `barrier`.

    Example:
        >>> pb.distributed.broadcast({"seed": 17, "scale": np.ones(2)})
        {'seed': 17, 'scale': array([1., 1.])}
    """
    if not 0 <= root < processes.count:
        raise ValueError(f"root is the number of a process, of {processes.count}, not {root}.")
    leaves, structure = flatten(tree)
    packed = [pack(leaf) for leaf in leaves]
    if not _worlds:
        return tree
    world = _worlds[0]
    parts: list[bytes] = (
        [repr(structure).encode(), *[part for one in packed for part in one]] if processes.index == root else []
    )
    sizes = np.array([len(parts), *map(len, parts)], np.int64).tobytes()
    [found] = world.meet(f"a broadcast from rank {root}", sizes + b"".join(parts), of=root, timeout=timeout)
    count = int(np.frombuffer(found, np.int64, 1)[0])
    ends = 8 * (1 + count) + np.cumsum(np.frombuffer(found, np.int64, count, 8))
    given = [found[end - size : end] for end, size in zip(ends, np.frombuffer(found, np.int64, count, 8))]
    compare("the structure of what is broadcast", {root: given[0].decode(), processes.index: repr(structure)})
    return unflatten(structure, [unpack(given[i].decode(), given[i + 1]) for i in range(1, count, 2)])


_NUMBERS = {one.__name__: one for one in (bool, int, float, complex)}


def pack(leaf: Any) -> tuple[bytes, bytes]:
    """A leaf as what it is, in words, and its bytes."""
    if isinstance(leaf, str):
        return b"str", leaf.encode()
    if isinstance(leaf, bytes):
        return b"bytes", leaf
    if type(leaf).__name__ in _NUMBERS and type(leaf) in _NUMBERS.values():
        return type(leaf).__name__.encode(), repr(leaf).encode()
    if not isinstance(leaf, (Array, np.ndarray, np.generic)):
        raise TypeError(f"What is broadcast consists of arrays, numbers and text, not of {type(leaf).__name__}.")
    host = np.asarray(host_of(leaf) if isinstance(leaf, Array) else leaf)
    if host.dtype.hasobject:
        raise TypeError(f"An array of dtype {host.dtype} cannot be broadcast. Pass numbers, or text.")
    kind = "Array" if isinstance(leaf, Array) else "scalar" if isinstance(leaf, np.generic) else "ndarray"
    dtype = host.dtype.name if host.dtype.kind == "V" or kind == "Array" else host.dtype.str
    return f"{kind} {dtype} {','.join(map(str, host.shape))}".encode(), np.ascontiguousarray(host).tobytes()


def unpack(what: str, data: bytes) -> Any:
    """The leaf that `pack` made this of."""
    if what == "str":
        return data.decode()
    if what == "bytes":
        return data
    if what in _NUMBERS:
        return data == b"True" if what == "bool" else _NUMBERS[what](data.decode())
    kind, dtype, shape = what.split(" ")
    sizes = [int(size) for size in shape.split(",") if size]
    host = np.frombuffer(data, np.dtype(dtype)).reshape(sizes).copy()
    return as_array(host) if kind == "Array" else host[()] if kind == "scalar" else host


def set_value(key: str, value: str | bytes, *, overwrite: bool = True) -> bytes | None:
    """Give a key a value, which all processes can read.

    Arguments:
        key: its name.
        value: text, or bytes.
        overwrite: if false, a key keeps the value that it has: of several processes that set it so, the first decides.

    Returns:
        None if the key now has this value; else the one that it has already.

    Raises:
        WorldError: this process is alone.
        Fenced: it was taken for lost.

    Example:
        >>> pb.distributed.set_value("best", "0.25")
        Traceback (most recent call last):
            ...
        pullback.core.errors.WorldError: This process is alone: pb.distributed.initialize lets it join others...
    """
    data = value.encode() if isinstance(value, str) else bytes(value)
    answer, found = current().link.ask({"op": "set", "key": key, "overwrite": overwrite}, data)
    return found if "taken" in answer else None


def get_value(key: str, timeout: float | None = 0.0) -> bytes:
    """The value of a key, as bytes.

    Arguments:
        key: its name.
        timeout: seconds to wait until a process sets it; None for any time, 0 not to wait.

    Returns:
        Bytes.

    Raises:
        KeyError: it has none, and was not to be waited for. TimeoutError: nobody has set it.
        PeerLost: a process is lost while it is waited for, so that perhaps nobody will.
        WorldError: this process is alone.

    Example:
        >>> pb.distributed.get_value("best")
        Traceback (most recent call last):
            ...
        pullback.core.errors.WorldError: This process is alone: pb.distributed.initialize lets it join others...
    """
    link = current().link
    if timeout == 0:
        answer, found = link.ask({"op": "peek", "key": key})
        if not answer["found"]:
            raise KeyError(key)
        return found
    return link.ask({"op": "get", "key": key}, timeout=timeout)[1]


def delete_value(key: str) -> bool:
    """Take a key's value away.

    Arguments:
        key: its name.

    Returns:
        Whether it had one.

    Raises:
        WorldError: this process is alone.

    Example:
        >>> pb.distributed.delete_value("best")
        Traceback (most recent call last):
            ...
        pullback.core.errors.WorldError: This process is alone: pb.distributed.initialize lets it join others...
    """
    return bool(current().link.ask({"op": "delete", "key": key})[0]["found"])


def check() -> None:
    """Raise if a process of the world is lost, or this one was taken for lost. Before a process writes what others will read it
    belongs there: who was stopped, and wakes, is told.

    Raises:
        PeerLost: another process is lost.
        Fenced: this one is.

    Example:
        >>> pb.distributed.check()  # of a process that is alone: nothing
    """
    if _worlds:
        _worlds[0].link.check()
