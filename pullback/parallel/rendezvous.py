"""Where the processes of a world meet first: plain sockets, at which what is wrong is an error of Python's.

Which process this one is, and where the others are, comes from arguments, or from what the program that started it left in the
environment. The first process starts the keeper (`keeper.py`), unless the launcher has.
"""

from __future__ import annotations

import os
import platform
import re
import socket
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from pullback.core.brief import brief, counted
from pullback.core.errors import Fenced, WorldError
from pullback.engine.jaxlib import jaxlib
from pullback.parallel.agreeing import Listening
from pullback.parallel.liveness import LISTENING, Link
from pullback.parallel.messages import Channel, join_address, shared_secret, split_address

RETRY = 0.02  # seconds between two attempts to reach the coordinator

# The environments that say which process this is and how many there are: who makes them, and the two variables.
ENVIRONMENTS = (
    ("pullback.launch, or by hand", "PULLBACK_PROCESS_ID", "PULLBACK_NUM_PROCESSES"),
    ("SLURM, in srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MPICH and Intel MPI", "PMI_RANK", "PMI_SIZE"),
    ("an indexed job of Kubernetes", "JOB_COMPLETION_INDEX", "PULLBACK_NUM_PROCESSES"),
)
SLURM_PORTS = range(61000, 65000)  # the number of the job chooses one


class Place(NamedTuple):
    """Which process this is, of how many, and where the coordinator is; `epoch` counts how often the world was formed anew."""

    address: str
    rank: int
    size: int
    epoch: int = 0


class Meeting(NamedTuple):
    """What the processes know when all have come.

    Attributes:
        link: to the keeper. service: the address of jaxlib's coordination service. about: what each says of itself.
        host: by which the others reach this process. listening: where they say what they are about to run.
    """

    link: Link
    service: str
    about: list[dict[str, Any]]
    host: str
    listening: Listening


def find_place(address: str | None, count: int | None, rank: int | None, environment: Mapping[str, str]) -> Place:
    """What was given, and for the rest what the environment says.

    Raises:
        WorldError: neither says it.
        ValueError: a number is no such number, or the address none. TypeError: what was given is neither.
    """
    epoch = int(environment.get("PULLBACK_EPOCH", "0"))
    if epoch:  # who formed the world anew has other numbers than were given at first
        names = ("PULLBACK_COORDINATOR", "PULLBACK_PROCESS_ID", "PULLBACK_NUM_PROCESSES")
        coordinator, number, total = [environment[name] for name in names]
        return Place(coordinator, int(number), int(total), epoch)
    for name, value, kind in (
        ("coordinator_address", address, str),
        ("num_processes", count, int),
        ("process_id", rank, int),
    ):
        if not (value is None or isinstance(value, kind)) or isinstance(value, bool):
            raise TypeError(f"{name} is of type {kind.__name__}, not {type(value).__name__}: {brief(value)}.")
    if rank is None or count is None:
        found = next((one for one in ENVIRONMENTS if one[1] in environment and one[2] in environment), None)
        if found is None:
            looked = "; ".join([f"{who}: {first}, {second}" for who, first, second in ENVIRONMENTS])
            raise WorldError(
                "Which process is this, and of how many? Give initialize num_processes and process_id, or start the program by"
                f" `python -m pullback.launch -n 4 script.py`, or by what sets two of these variables: {looked}."
            )
        rank = _number(environment, found[1]) if rank is None else rank
        count = _number(environment, found[2]) if count is None else count
    if address is None:
        address = environment.get("PULLBACK_COORDINATOR") or _slurm_address(environment)
    if address is None:
        raise WorldError(
            "Where is the coordinator? Give initialize coordinator_address, or set PULLBACK_COORDINATOR, to host:port: a port"
            " that is free where process 0 runs."
        )
    if count < 1 or not 0 <= rank < count:
        raise ValueError(f"process_id counts from 0 up to, not including, num_processes, but they are {rank} and {count}.")
    if split_address(address)[1] == 0 and count > 1:
        raise ValueError(
            f"Port 0 is any port that is free, and {counted(count, 'process')} have to know which: give one, not {address}."
        )
    return Place(address, rank, count)


def _number(environment: Mapping[str, str], name: str) -> int:
    try:
        return int(environment[name])
    except ValueError:
        raise ValueError(f"The environment variable {name} is to be a whole number, not {brief(environment[name])}.") from None


def _slurm_address(environment: Mapping[str, str]) -> str | None:
    """The first host of a job step, and a port by the number of the job: `node[003-006,9],other` begins with node003."""
    nodes, job = environment.get("SLURM_STEP_NODELIST"), environment.get("SLURM_JOB_ID")
    if not nodes or not job:
        return None
    first = re.match(r"([^\[,]+)(?:\[([^\],-]+)[^\]]*\]([^,]*))?", nodes)
    host = "".join([part or "" for part in first.groups()]) if first else nodes
    return join_address(host, SLURM_PORTS[_number(environment, "SLURM_JOB_ID") % len(SLURM_PORTS)])


# The keeper without the rest of the package, which would take three times as long to import as it takes to begin.
_KEEPER = """
import sys, types
package = sys.modules["pullback"] = types.ModuleType("pullback")
package.__path__ = [sys.argv[1]]
from pullback.parallel.keeper import main
main(sys.argv[2:])
"""


def start_keeper(listener: socket.socket, count: int, timeout: float, heartbeat: float) -> int:
    """A process that keeps the world, at a socket that listens; it ends after the last process of the world. Its pid."""
    listener.set_inheritable(True)
    numbers = map(str, (listener.fileno(), count, timeout, heartbeat, os.getpid()))
    package = os.path.dirname(os.path.dirname(__file__))
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-c", _KEEPER, package, *numbers],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        ],
        setpgroup=0,  # a Ctrl-C is not for it
    )


def listen(address: str) -> socket.socket:
    """A socket that listens at an address, only there.

    Raises:
        WorldError: the address is taken, or not this machine's.
    """
    host, port = split_address(address)
    try:
        family, *_, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(where, family=family, backlog=4096)
    except OSError as error:
        raise WorldError(
            f"Process 0 is to listen at the coordinator's address {address}, and cannot: {error}. Choose a port that is"
            " free, of an address of this machine."
        ) from None


def meet(place: Place, devices: int, timeout: float, heartbeat: float) -> Meeting:
    """Wait for the other processes.

    Arguments:
        devices: how many devices this process has. timeout: seconds in which all have to come.
        heartbeat: seconds without one after which a process is lost.

    Raises:
        WorldError: they did not come, or do not fit together.
        Fenced: the world was formed anew without this process.
    """
    until = time.monotonic() + timeout
    connection = _connect(place, until, timeout)
    begun = threading.Event()
    told: list[dict[str, Any]] = []

    def pushed(header: dict[str, Any]) -> None:
        told.append(header)
        begun.set()

    try:
        connection.settimeout(max(until - time.monotonic(), 1.0))
        channel = Channel(connection, shared_secret(), is_server=False)
        connection.settimeout(None)
    except (WorldError, OSError, EOFError) as error:
        connection.close()
        raise WorldError(
            f"The coordinator at {place.address} was reached, but {str(error) or 'its connection ended'}."
        ) from None
    from_here = connection.getsockname()[0]
    listening = Listening(from_here)
    about = {"devices": devices, "pid": os.getpid(), "host": socket.gethostname(), "address": from_here}
    about |= {"port": listening.port, "token": listening.token}
    channel.send({"rank": place.rank, "count": place.size, "epoch": place.epoch, "facts": facts(), "about": about})
    link = Link(channel, heartbeat, pushed)
    try:
        while not begun.wait(LISTENING) and not link.losses.gone:
            if time.monotonic() > until + heartbeat:  # the keeper says itself who is missing
                raise WorldError(
                    f"The keeper at {place.address} has not said in {timeout:g} s who is missing. See whether process 0 still"
                    " runs there."
                )
        if not told:
            raise WorldError(
                f"The keeper at {place.address} has ended while this process waited for the others. See there why it did, and"
                " start all processes again."
            )
        if told[0]["push"] == "refused":
            raise (Fenced if told[0].get("kind") == "Fenced" else WorldError)(told[0]["why"])
    except BaseException:
        link.close()
        listening.socket.close()
        raise
    link.begin(told[0]["heartbeat"])  # that of the one who started the keeper
    return Meeting(link, told[0]["service"], told[0]["about"], from_here, listening)


def facts() -> dict[str, str]:
    """What has to be the same in all processes."""
    root = sys.modules["pullback"]
    return {
        "pullback": root.__version__,
        "jaxlib": jaxlib().version,
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "byte order": sys.byteorder,
    }


def _connect(place: Place, until: float, timeout: float) -> socket.socket:
    """A connection to the coordinator, which may not have begun to listen yet."""
    where = split_address(place.address)
    while True:
        try:
            return socket.create_connection(where, timeout=max(until - time.monotonic(), 0.05))
        except socket.gaierror as error:
            raise WorldError(f"There is no host {where[0]!r}, where the coordinator is to be: {error}.") from None
        except OSError as error:
            if time.monotonic() > until:
                raise WorldError(
                    f"Nobody answers at {place.address} for {timeout:g} s ({error}). See whether rank 0 is running, and has"
                    " the same coordinator_address."
                ) from None
        time.sleep(RETRY)
