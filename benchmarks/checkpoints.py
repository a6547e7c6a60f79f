"""A checkpoint of 1 GB against the disk: `save` and a raw write with fsync of the same bytes, in turns, where there
is nothing to replace, and the deletion of each; `restore` against a raw read into memory; and 2000 small arrays, as files and
as a database.

python benchmarks/checkpoints.py [directory]      # needs tensorstore (`pip install 'pullback[checkpoint]'`), and 2 GB of disk
"""

from __future__ import annotations

import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import pullback as pb

GIGABYTE = 1 << 30


def raw_write(path: pathlib.Path, arrays: list[Any]) -> None:
    with open(path, "wb") as file:
        for array in arrays:
            file.write(array.data)
        file.flush()
        os.fsync(file.fileno())


def raw_read(path: pathlib.Path, size: int) -> Any:
    memory = np.empty(size, np.uint8)
    with open(path, "rb") as file:
        assert file.readinto(memory.data) == size
    return memory


def in_turns(rounds: int, contestants: dict[str, Callable[[], object]]) -> None:
    """Print the minimum and the median of each, in seconds, and the least processor time."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, work in contestants.items():
            begin, began = time.perf_counter(), time.process_time()
            work()
            times[name].append((time.perf_counter() - begin, time.process_time() - began))
    for name, found in times.items():
        walls, processors = zip(*found, strict=True)
        least = f"{min(walls):7.2f} s   median {statistics.median(walls):7.2f} s"
        print(f"{name:44} {least}   processor {min(processors):7.2f} s")


def main(directory: pathlib.Path, rounds: int = 4) -> None:
    rng = np.random.default_rng(0)
    hosts = [rng.integers(0, 1 << 32, (4096, 4096), np.uint32).view(np.float32) for _ in range(GIGABYTE >> 26)]
    tree = {str(i): pb.numpy.asarray(host) for i, host in enumerate(hosts)}
    raw, saved = directory / "raw", directory / "saved"
    raw_write(raw, hosts)
    saved.mkdir()
    save: dict[str, Callable[[], object]] = {
        "delete it, one file": raw.unlink,
        "raw write and fsync, 1 GiB": lambda: raw_write(raw, hosts),
        "delete it, a version": lambda: shutil.rmtree(saved),
        "save, 1 GiB": lambda: pb.checkpoint.save(saved, tree),
    }
    in_turns(rounds, save)
    in_turns(
        rounds, {"raw read, 1 GiB": lambda: raw_read(raw, GIGABYTE), "restore, 1 GiB": lambda: pb.checkpoint.restore(saved)}
    )
    begin = time.perf_counter()
    pending = pb.checkpoint.save_async(saved, tree, overwrite=True)
    print(f"{'save_async, 1 GiB, until it returns':44} {(time.perf_counter() - begin) * 1e3:7.2f} ms")
    pending.result()
    small = {str(i): pb.numpy.full(100, i) for i in range(2000)}
    for ocdbt in (False, True):
        name, path = "one database" if ocdbt else "files", directory / f"small{ocdbt}"
        save_it = lambda ocdbt=ocdbt, path=path: pb.checkpoint.save(path, small, overwrite=True, ocdbt=ocdbt)  # noqa: E731
        restore_it = lambda path=path: pb.checkpoint.restore(path)  # noqa: E731
        in_turns(rounds, {f"save, 2000 arrays, {name}": save_it, f"restore, 2000 arrays, {name}": restore_it})


if __name__ == "__main__":
    where = pathlib.Path(tempfile.mkdtemp(dir=sys.argv[1] if len(sys.argv) > 1 else None))
    try:
        main(where)
    finally:
        shutil.rmtree(where)
