"""Computing with other processes: a second client of the CPU's, which knows their devices as well.

What one process computes by itself goes on as if there were no others, by the client that it had. The second client is
asynchronous, so that nobody waits inside XLA for a process that may be lost, and its executables are run only after all have
said that they run the same.
"""

from __future__ import annotations

import ctypes
from typing import Any

from pullback.core.devices import processes
from pullback.core.errors import WorldError
from pullback.engine.backend import Peers, is_started, register_backend, spanning
from pullback.engine.jaxlib import jaxlib
from pullback.engine.xla import XlaBackend, make_cpu_client


def check_alone() -> None:
    """Raise `WorldError` if this process has computed something already, so that its devices have numbers."""
    if is_started("cpu"):
        raise WorldError(
            "This process has computed something by itself already. Let it join the others first: pb.distributed.initialize"
            " belongs to the beginning of a program."
        )


def start_alone() -> Any:
    """The client by which this process computes by itself, before it joins others."""
    return make_cpu_client()


def join(
    own: Any,
    address: str,
    index: int,
    counts: list[int],
    host: str,
    peers: Peers,
) -> None:
    """Compute with other processes from now on.

    Arguments:
        own: what `start_alone` returned. address: of the coordination service. index: the number of this process.
        counts: how many devices each has. host: by which the others reach this one.
        peers: the others.
    """
    lib = jaxlib()
    client, arguments = lib.join(address, index, host)
    make = lib.client_module.make_cpu_client
    made = make(asynchronous=True, num_nodes=len(counts), num_devices=counts[index], **arguments)
    for one in (client, made):  # their end would wait for a lost peer: they live as long as the process
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
    processes.join(index, counts)
    register_backend("cpu", lambda: XlaBackend("cpu", own))
    spanning.backend, spanning.peers = XlaBackend("cpu", made), peers
