"""Executables that are kept: in memory, and on disk for the next process.

Both are keyed by the StableHLO text, the options, the versions of jaxlib and of the platform, and what the processor can do,
so equal Programs compile once, and nothing compiled for another machine is ever run. A file that cannot be read for any
reason counts as absent, and is written again.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, NamedTuple

from pullback.core.lazy import lazy_module

hashlib = lazy_module("hashlib")
platform = lazy_module("platform")
tempfile = lazy_module("tempfile")

MAX_IN_MEMORY = 256  # executables, of about 0.3 MB each; those of live functions stay besides
DEFAULT_MAX_BYTES = 1 << 30  # on disk
MAGIC = b"pullback executable 1\n"
_DIGEST_BYTES = 32


class CacheInfo(NamedTuple):
    """What became of the requests for executables in this process.

    Attributes:
        hits: found in memory. disk_hits: read from disk. compiled: made by XLA. compile_seconds: the time that XLA took.
        entries: executables in memory. directory: where those on disk are; None if none are kept there.
    """

    hits: int
    disk_hits: int
    compiled: int
    compile_seconds: float
    entries: int
    directory: str | None


_memory: OrderedDict[Hashable, Any] = OrderedDict()
_lock = threading.Lock()
_counts = {"hits": 0, "disk_hits": 0, "compiled": 0, "compile_seconds": 0.0}


def count(what: str, amount: float = 1) -> None:
    with _lock:
        _counts[what] += amount


def cache_info() -> CacheInfo:
    """How many executables were found in memory, read from disk, or compiled, in this process.

    Example:
        >>> import pullback as pb
        >>> pb.cache_info().compiled >= 0
        True
    """
    found = directory()
    with _lock:
        return CacheInfo(
            int(_counts["hits"]),
            int(_counts["disk_hits"]),
            int(_counts["compiled"]),
            _counts["compile_seconds"],
            len(_memory),
            str(found) if found else None,
        )


def recall(key: Hashable) -> Any:
    """An executable kept in memory, or None."""
    with _lock:
        found = _memory.get(key)
        if found is not None:
            _memory.move_to_end(key)
            _counts["hits"] += 1
        return found


def peek(key: Hashable) -> Any:
    """As `recall`, uncounted and unordered."""
    return _memory.get(key)


def remember(key: Hashable, executable: Any) -> None:
    """Keep an executable in memory; the one longest unused makes room for it."""
    with _lock:
        _memory[key] = executable
        while len(_memory) > MAX_IN_MEMORY:
            _memory.popitem(last=False)


def forget_all() -> None:
    """Empty the memory; what is on disk stays."""
    with _lock:
        _memory.clear()


# ---- one thread at a time ---------------------------------------------------------------------------------------------


class _Pending:
    """Something that one thread is making and that others wait for."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.value: Any = None


_pending: dict[Hashable, _Pending] = {}


def once(key: Hashable, find: Callable[[], Any], make: Callable[[], Any]) -> Any:
    """`find()` if that is not None, else `make()`, which threads that ask for one key at once run only once.

    No lock is held while it runs. Where it fails, its own thread gets the error, and another one that waited tries again.
    """
    while True:
        with _lock:
            found = find()
            if found is not None:
                return found
            pending = _pending.get(key)
            mine = pending is None
            if mine:
                pending = _pending[key] = _Pending()
        assert pending is not None
        if not mine:
            pending.done.wait()
            if pending.value is not None:
                return pending.value
            continue
        try:
            pending.value = make()
            return pending.value
        finally:
            with _lock:
                del _pending[key]
            pending.done.set()


# ---- on disk ----------------------------------------------------------------------------------------------------------


def directory() -> Path | None:
    """Where executables are kept between processes: `PULLBACK_CACHE_DIR` (empty: nowhere), else the user's cache directory."""
    chosen = os.environ.get("PULLBACK_CACHE_DIR")
    if chosen is not None:
        return Path(chosen) if chosen else None
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pullback"
    except RuntimeError:  # a user without a home
        return None


def max_bytes() -> int:
    """How large the directory may grow: `PULLBACK_CACHE_MAX_BYTES`."""
    chosen = os.environ.get("PULLBACK_CACHE_MAX_BYTES", "")
    return int(chosen) if chosen.isdigit() else DEFAULT_MAX_BYTES


@functools.cache
def processor() -> str:
    """The processor's model and features: code compiled for one may not run on another."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            head = file.read(8192)
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    found: dict[str, str] = {}
    for line in head.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in wanted:
            found.setdefault(name.strip(), value.strip())
    return f"{platform.machine()} {found}"


def digest(*parts: str) -> str:
    """The key of an executable: the SHA-256 of all that it depends on."""
    hashed = hashlib.sha256()
    for part in parts:
        data = part.encode()
        hashed.update(len(data).to_bytes(8, "little"))
        hashed.update(data)
    return str(hashed.hexdigest())


def read(key: str) -> bytes | None:
    """The serialized executable that is kept under a key; None if there is none that is whole."""
    where = directory()
    if where is None:
        return None
    path = where / key
    try:
        data = path.read_bytes()
        start = len(MAGIC) + _DIGEST_BYTES
        blob = data[start:]
        if not data.startswith(MAGIC) or hashlib.sha256(blob).digest() != data[len(MAGIC) : start]:
            return None
        os.utime(path)  # the oldest files are removed first
    except OSError:
        return None
    return blob


def write(key: str, blob: bytes) -> None:
    """Keep a serialized executable under a key. A directory that cannot be written to is left alone."""
    where = directory()
    if where is None:
        return
    with contextlib.suppress(OSError):
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=where, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(MAGIC + hashlib.sha256(blob).digest() + blob)
            os.replace(temporary, where / key)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        evict(where, max_bytes())


def evict(where: Path, limit: int) -> None:
    """Remove the files longest unused until those that are left take no more than `limit` bytes."""
    files = []
    with os.scandir(where) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # another process may have removed it
                stat = entry.stat()
                files.append((stat.st_mtime, stat.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= limit:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
