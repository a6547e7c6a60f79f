"""Several processes that compute together: how they find each other, what they say to each other, and what to do when one is
lost.

All begin with `initialize`. Then `pb.devices()` are the devices of all of them, over which arrays can be divided, and
`pb.local_devices()` those of each. `python -m pullback.launch -n 4 script.py` starts four processes on one machine.
"""

from pullback.core.source import make_public
from pullback.distributed import elastic
from pullback.parallel.world import (
    agree,
    barrier,
    broadcast,
    check,
    delete_value,
    get_value,
    initialize,
    is_initialized,
    process_count,
    process_index,
    set_value,
    shutdown,
)

__all__ = [
    "agree", "barrier", "broadcast", "check", "delete_value", "elastic", "get_value", "initialize", "is_initialized",
    "process_count", "process_index", "set_value", "shutdown",
]  # fmt: skip

make_public(globals())
