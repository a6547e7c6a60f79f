"""Executables on disk, for the next process: files of one marked folder that pullback made and that only its user can write.

Executables are code that runs with the user's rights, so a folder into which somebody else could put one is refused. Nothing
but our own files is ever read or removed. A file that cannot be read for any reason counts as absent, and is written again; a
folder that cannot be written to is read.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Any

from pullback.core.lazy import lazy_module
from pullback.core.source import warn, warn_of_variable

hashlib = lazy_module("hashlib")
platformdirs = lazy_module("platformdirs")
shutil = lazy_module("shutil")
tempfile = lazy_module("tempfile")

DEFAULT_MAX_BYTES = 1 << 30
FOLDER = "executables-1"  # inside the directory that was chosen; another number where the format changes
MARKER = "made-by-pullback.txt"
_MARK = "pullback keeps compiled functions in this folder, and removes the oldest ones by itself. It may be deleted.\n"
MAGIC = b"pullback executable 1\n"
_DIGEST_BYTES = 32
_OURS = re.compile(r"[0-9a-f]{64}\.xla(\.[0-9a-z_]+\.tmp)?")  # what we write, and what a process that died was writing
_SUFFIX = ".xla"
_STALE_SECONDS = 3600.0
TOTAL = "total-bytes"  # how much the folder holds, as far as is known
LEFT = 0.9  # of the limit, when files are removed: then none need be looked at until the rest is full again


def directory() -> Path | None:
    """Where the folder is: in `PULLBACK_CACHE_DIR` (empty: nowhere), else in the user's directory for caches."""
    chosen = os.environ.get("PULLBACK_CACHE_DIR")
    if chosen is not None:
        return Path(chosen).expanduser() if chosen else None
    try:
        return Path(platformdirs.user_cache_dir("pullback", appauthor=False))
    except RuntimeError:  # a user without a home
        return None


def max_bytes() -> int:
    """How large the folder may grow: `PULLBACK_CACHE_MAX_BYTES`."""
    chosen = os.environ.get("PULLBACK_CACHE_MAX_BYTES", "")
    if chosen.isascii() and chosen.isdecimal():
        return int(chosen)
    if chosen:
        warn_of_variable("PULLBACK_CACHE_MAX_BYTES", "a number of bytes in digits", f"it counts as {DEFAULT_MAX_BYTES}")
    return DEFAULT_MAX_BYTES


def distrust(status: Any) -> str | None:
    """Why a folder's files must not be run; None if nobody but us, or the superuser, can have written them."""
    if not hasattr(os, "geteuid"):  # Windows: the user's own directory is not writable to others
        return None
    if status.st_uid not in (os.geteuid(), 0):
        return f"belongs to another user (number {status.st_uid})"
    return "can be written to by other users" if status.st_mode & 0o022 else None


def folder(make: bool = False) -> Path | None:
    """The folder, if it may be used: it is ours, it is marked, and nobody else can write to it. None otherwise."""
    chosen = directory()
    if chosen is None:
        return None
    where = chosen / FOLDER
    try:
        if make and not where.exists():
            _make(chosen, where)
        why = distrust(os.stat(where))
        if why is None and not (where / MARKER).is_file():
            why = f"was not made by pullback (it has no {MARKER})"
    except OSError as error:  # it does not exist, or cannot be looked at
        if make and "PULLBACK_CACHE_DIR" in os.environ:
            expected = f"a directory that can be made or written to ({error.strerror})"
            warn_of_variable("PULLBACK_CACHE_DIR", expected, "compiled functions are not kept on disk")
        return None
    if why is not None:
        warn(
            f"Compiled functions are not kept on disk: {where} {why}. Choose another directory with the environment variable"
            " PULLBACK_CACHE_DIR, or set it to the empty string to keep none.",
            once=True,
        )
        return None
    return where


def _make(chosen: Path, where: Path) -> None:
    """Make the folder with its marker in it, so that no other process sees the one without the other."""
    chosen.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{FOLDER}-", dir=chosen))  # only its owner can write to it
    try:
        (temporary / MARKER).write_text(_MARK, encoding="utf-8")
        os.rename(temporary, where)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        if not where.exists():  # else another process was quicker
            raise


def digest(inputs: dict[str, str]) -> str:
    """The key of an executable: the SHA-256 of all that it depends on."""
    return str(hashlib.sha256(repr(sorted(inputs.items())).encode()).hexdigest())


def holds(key: str) -> bool:
    """Whether there is a file under a key, whole or not."""
    where = folder()
    return where is not None and (where / f"{key}{_SUFFIX}").exists()


def read(key: str) -> bytes | None:
    """The serialized executable that is kept under a key; None if there is none that is whole."""
    where = folder()
    if where is None:
        return None
    path = where / f"{key}{_SUFFIX}"
    try:
        data = path.read_bytes()
    except OSError:
        return None
    start = len(MAGIC) + _DIGEST_BYTES
    blob = data[start:]
    if not data.startswith(MAGIC) or hashlib.sha256(blob).digest() != data[len(MAGIC) : start]:
        return None
    with contextlib.suppress(OSError):  # the folder may be read-only
        os.utime(path)  # the files longest unused are removed first
    return blob


def write(key: str, blob: bytes) -> None:
    """Keep a serialized executable under a key, if the folder can be written to."""
    limit = max_bytes()
    if len(blob) > limit:
        return
    where = folder(make=True)
    if where is None:
        return
    with contextlib.suppress(OSError):
        handle, temporary = tempfile.mkstemp(prefix=f"{key}{_SUFFIX}.", suffix=".tmp", dir=where)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(MAGIC + hashlib.sha256(blob).digest() + blob)
            os.replace(temporary, where / f"{key}{_SUFFIX}")
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        if _grown(where, len(MAGIC) + _DIGEST_BYTES + len(blob)) > limit:
            evict(where, limit)


def _grown(where: Path, size: int) -> float:
    """How much the folder holds now that it has grown by `size` bytes; infinity if that is not known.

    To ask each of tens of thousands of files takes longer than compiling. What another process adds at the same moment may be
    forgotten, until the next time that files are removed, when all are counted.
    """
    try:
        total = int((where / TOTAL).read_text(encoding="ascii")) + size
        (where / TOTAL).write_text(str(total), encoding="ascii")
    except (OSError, ValueError):
        return float("inf")
    return total


def evict(where: Path, limit: int) -> None:
    """Count our files, and if they take more than `limit` bytes, remove those longest unused until they take a tenth less."""
    files = []
    with os.scandir(where) as entries:
        for entry in entries:
            if _OURS.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):  # another process may have removed it
                    status = entry.stat(follow_symlinks=False)
                    files.append((status.st_mtime, status.st_size, entry.path))
    total = sum([size for _, size, _ in files])
    goal = limit if total <= limit else limit * LEFT
    newest = max([time for time, _, _ in files], default=0.0)
    for time, size, path in sorted(files):
        stale = path.endswith(".tmp") and time < newest - _STALE_SECONDS
        if total <= goal and not stale:
            continue
        if path.endswith(".tmp") and not stale:  # somebody is writing it
            continue
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
    with contextlib.suppress(OSError):
        (where / TOTAL).write_text(str(total), encoding="ascii")
