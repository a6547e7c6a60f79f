"""The connection to XLA's coordination service goes through this process itself: XLA ends a process whose connection to the
service ends, so here it does not end. That the service is gone the keeper's connection says, as an error of Python's.
"""

from __future__ import annotations

import contextlib
import socket
import threading

from pullback.parallel.messages import join_address, split_address

PIECE = 1 << 16  # bytes


def relay(address: str) -> str:
    """An address on this machine at which what listens at another one seems to be."""
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_accept, args=(listener, split_address(address)), daemon=True, name="pullback relay").start()
    return join_address(*listener.getsockname())


def _accept(listener: socket.socket, there: tuple[str, int]) -> None:
    while True:
        near, _ = listener.accept()
        try:
            far = socket.create_connection(there)
        except OSError:
            near.close()
            continue
        for one in (near, far):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_copy, args=(near, far, True), daemon=True).start()
        threading.Thread(target=_copy, args=(far, near, False), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket, ends: bool) -> None:
    """Pass on what comes, until it ends; that of this process's side ends both."""
    with contextlib.suppress(OSError):
        while piece := source.recv(PIECE):
            target.sendall(piece)
    if ends:
        target.close()
        source.close()
    else:
        _held.append(target)


_held: list[socket.socket] = []  # the ends here of connections that ended there: one for each service that was lost
