"""The versions of a checkpoint: a folder for each step, which gets its name when everything in it is on the disk.

`00000010` has step 10; `00000010.1` has it too, and replaces it. What has `.partial` or `.deleted` in its name is no version:
it is being written, or is left over from a process that ended in the middle.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import threading
import warnings
import zlib
from typing import Any

import numpy as np

from pullback.checkpoints.stores import REMEDY
from pullback.core.brief import brief
from pullback.core.errors import CheckpointError, CorruptCheckpoint

SYNCING = 32  # folders at a time: file systems write what is waited for together
_VERSION = re.compile(r"(\d{8,})(?:\.(\d+))?")
_LEFTOVER = re.compile(rf"{_VERSION.pattern}\.(partial|deleted)")
MANIFEST, OWNER = "manifest.json", "owner.json"
FORMAT = {"format": "pullback checkpoint", "version": 1}


def path_of(directory: str | os.PathLike[str]) -> str:
    """The absolute path of a directory. Raises `ValueError` for one that tensorstore would take for another."""
    path = os.path.abspath(os.fsdecode(directory))
    if path != path.encode(errors="replace").decode() or (os.sep != "\\" and "\\" in path):
        raise ValueError(f"The directory of a checkpoint has a name in UTF-8, without backslashes, but got {brief(path)}.")
    return path


def names(directory: str) -> list[str]:
    """What is in a directory; nothing if it is not there."""
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


def versions(directory: str) -> dict[int, list[str]]:
    """The folders of each step, the one that counts last."""
    found: dict[int, list[tuple[int, str]]] = {}
    for name in names(directory):
        if (match := _VERSION.fullmatch(name)) and os.path.isdir(os.path.join(directory, name)):
            found.setdefault(int(match[1]), []).append((int(match[2] or 0), name))
    return {step: [name for _, name in sorted(found[step])] for step in sorted(found)}


def readable(directory: str) -> dict[int, list[str]]:
    """`versions`, without the folders that have no manifest: something else made or emptied them. A warning names those."""
    found: dict[int, list[str]] = {}
    for step, folders in versions(directory).items():
        for name in folders:
            path = os.path.join(directory, name)
            if os.path.isfile(os.path.join(path, MANIFEST)):
                found.setdefault(step, []).append(name)
            elif os.path.isdir(path):  # not deleted meanwhile
                warnings.warn(f"{path} has no {MANIFEST}, so it counts as no checkpoint.", stacklevel=2)
    return found


def folder_of(directory: str, step: int | None) -> str:
    """The folder of a step, by default of the last one that can be read; if there is none, or the step is given, as it is."""
    if step is not None and (isinstance(step, bool) or not isinstance(step, (int, np.integer))):
        raise TypeError(f"The step of a checkpoint is an integer or None, but got {brief(step)} of type {type(step).__name__}.")
    found = versions(directory)
    if len(found) > 1 and step is None:
        found = readable(directory) or found
    if not found:
        raise CheckpointError(f"There is no checkpoint in {directory}: pb.checkpoint.save writes one.")
    if step is not None and step not in found:
        raise CheckpointError(f"There is no checkpoint of step {step} in {directory}; there are {', '.join(map(str, found))}.")
    return os.path.join(directory, found[max(found) if step is None else step][-1])


def new_name(directory: str, step: int, overwrite: bool) -> str:
    """The name that a version of a step will have. Raises `CheckpointError` if one may not be replaced."""
    before = versions(directory).get(step)
    if before is None:
        return f"{step:08d}"
    if not overwrite:
        raise CheckpointError(f"{directory} has a checkpoint of step {step} already. Pass overwrite=True to replace it.")
    return f"{step:08d}.{int(before[-1].partition('.')[2] or 0) + 1}"


# ---- files that stay --------------------------------------------------------------------------------------------------------


def sync_folder(path: str) -> None:
    """Return when the names in a folder are on the disk."""
    if os.name == "posix":  # elsewhere folders cannot be opened
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def sync_tree(path: str) -> None:
    """`sync_folder` of a folder and all in it, in threads; executors start none where the main thread has ended."""
    folders = [folder for folder, _, _ in os.walk(path)]
    left, errors = iter(folders), []

    def sync() -> None:
        try:
            for folder in left:
                sync_folder(folder)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=sync) for _ in folders[:SYNCING]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def write_file(path: str, data: bytes) -> None:
    """Write a file, and return when it is on the disk."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_manifest(folder: str, content: dict[str, Any]) -> None:
    text = json.dumps(FORMAT | content)
    write_file(os.path.join(folder, MANIFEST), json.dumps({"checksum": zlib.crc32(text.encode()), "text": text}).encode())


def read_manifest(folder: str) -> dict[str, Any]:
    """What a version holds. Raises `CorruptCheckpoint`."""
    path = os.path.join(folder, MANIFEST)
    try:
        with open(path, "rb") as file:
            outer = json.loads(file.read())
        found: dict[str, Any] = json.loads(outer["text"])
        intact = zlib.crc32(outer["text"].encode()) == outer["checksum"]
    except FileNotFoundError:
        raise CorruptCheckpoint(f"{path} is missing. {REMEDY}") from None
    except (ValueError, KeyError, TypeError, AttributeError, IsADirectoryError, RecursionError):
        intact, found = False, {}
    if not intact:
        raise CorruptCheckpoint(f"{path} is damaged. {REMEDY}")
    if {key: found.get(key) for key in FORMAT} != FORMAT:
        raise CheckpointError(
            f"{path} is of another format: {found.get('format')!r}, version {found.get('version')}. Use the pullback that wrote"
            " it."
        )
    return found


# ---- beginning, ending, deleting --------------------------------------------------------------------------------------------


def begin(directory: str, name: str) -> str:
    """Make the folder in which a version is written."""
    os.makedirs(directory, exist_ok=True)
    partial = os.path.join(directory, f"{name}.partial")
    try:
        os.mkdir(partial)
    except FileExistsError:
        raise CheckpointError(f"Another program is writing {partial}. One at a time saves into a directory.") from None
    try:
        write_file(os.path.join(partial, OWNER), json.dumps([socket.gethostname(), os.getpid()]).encode())
    except BaseException:
        delete_folder(partial)
        raise
    return partial


def commit(directory: str, partial: str, content: dict[str, Any]) -> str:
    """Make a version of what has been written: all of it is on the disk before it has its name."""
    write_manifest(partial, content)
    sync_tree(partial)
    final = partial.removesuffix(".partial")
    os.rename(partial, final)
    sync_folder(directory)
    return final


def remove(directory: str, name: str) -> None:
    """Delete a version: from the first moment it is none."""
    gone = os.path.join(directory, f"{name}.deleted")
    with contextlib.suppress(FileNotFoundError):  # another thread or program deletes it too
        os.rename(os.path.join(directory, name), gone)
    delete_folder(gone)


def delete_folder(path: str) -> None:
    """Delete a folder, also where another thread or program is deleting it; of a link, only that."""
    while os.path.lexists(path):
        delete = shutil.rmtree if os.path.isdir(path) and not os.path.islink(path) else os.remove
        with contextlib.suppress(FileNotFoundError):
            delete(path)


def clean(directory: str, in_flight: set[str]) -> list[str]:
    """Delete what is left over, and versions that were replaced. What another process of this machine is writing stays."""
    left = [name for name in names(directory) if _LEFTOVER.fullmatch(name) and not _is_written(directory, name, in_flight)]
    for name in left:
        delete_folder(os.path.join(directory, name))
    replaced = [name for found in versions(directory).values() for name in found[:-1]]
    for name in replaced:
        remove(directory, name)
    return left + replaced


def _is_written(directory: str, name: str, in_flight: set[str]) -> bool:
    path = os.path.join(directory, name)
    if path in in_flight:
        return True
    try:
        with open(os.path.join(path, OWNER), "rb") as file:
            host, process = json.loads(file.read())
    except (OSError, ValueError):
        return False
    return bool(host == socket.gethostname() and process != os.getpid() and _is_alive(process))


def _is_alive(process: int) -> bool:
    if os.name != "posix":  # elsewhere the signal 0 is no question
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


def retire(directory: str, written: int, keep: int | None, keep_every: int | None) -> None:
    """Delete the versions that are not to be kept. The one that was just written is, also where there are later ones."""
    if keep is not None:
        found = versions(directory)
        for step in list(found)[:-keep]:
            if step != written and (keep_every is None or step % keep_every):
                for name in found[step]:
                    remove(directory, name)
