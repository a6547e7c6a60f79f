"""jax.distributed: pullback's world of processes."""

from __future__ import annotations

from typing import Any

import pullback as pb
from pullback.compat.jax.facade import facade


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: Any = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: float = 300,
    heartbeat_timeout_seconds: float = 100,
    shutdown_timeout_seconds: float = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
) -> None:
    """As pb.distributed.initialize, which finds clusters by their environment variables."""
    refused = {
        "local_device_ids": local_device_ids,
        "cluster_detection_method": cluster_detection_method,
        "slice_index": slice_index,
        "partition_index": partition_index,
    }
    for name, value in refused.items():
        if value is not None:
            raise NotImplementedError(f"distributed.initialize takes no {name}, but got {value!r}: leave it out.")
    _timeout[:] = [shutdown_timeout_seconds]
    pb.distributed.initialize(
        coordinator_address,
        num_processes,
        process_id,
        initialization_timeout=initialization_timeout,
        heartbeat_timeout_seconds=heartbeat_timeout_seconds,
        coordinator_bind_address=coordinator_bind_address,
    )


_timeout = [300.0]  # of shutdown, in seconds, as `initialize` was told


def shutdown() -> None:
    pb.distributed.shutdown(_timeout[0])


facade(globals(), own={"pullback.parallel.world": "is_initialized"})
