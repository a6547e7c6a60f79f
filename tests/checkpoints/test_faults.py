"""Damaged and missing files are named; whoever ends at any point leaves the versions before; nothing fails in silence."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import socket
import sys
import threading
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from processes import run

import pullback as pb
import pullback.numpy as pnp
from pullback.checkpoints import saving, stores, versions
from pullback.parallel import world as processes

pytest.importorskip("tensorstore")

TREE = {"w": np.arange(4096.0).reshape(64, 64), "b": np.ones(3, "f4"), "epoch": 3}


def files_of(version: str) -> list[pathlib.Path]:
    return sorted(path for path in pathlib.Path(version).rglob("*") if path.is_file() and path.name != "owner.json")


@pytest.mark.parametrize("ocdbt, compression", [(False, 0), (False, 1), (True, 0)])
def test_every_damaged_or_missing_file_is_named(tmp_path: pathlib.Path, ocdbt: bool, compression: int) -> None:
    version = pb.checkpoint.save(tmp_path / "good", TREE, ocdbt=ocdbt, compression=compression)
    for file in files_of(version):
        for damage in ("missing", "longer", "shorter", *range(0, file.stat().st_size, max(file.stat().st_size // 7, 1))):
            shutil.rmtree(tmp_path / "bad", ignore_errors=True)
            shutil.copytree(tmp_path / "good", tmp_path / "bad")
            victim = tmp_path / "bad" / file.relative_to(tmp_path / "good")
            data = victim.read_bytes()
            if damage == "missing":
                victim.unlink()
            elif isinstance(damage, str):
                victim.write_bytes(data + b"\0" if damage == "longer" else data[:-1])
            else:
                victim.write_bytes(data[:damage] + bytes([data[damage] ^ 4]) + data[damage + 1 :])
            try:
                found = pb.checkpoint.restore(tmp_path / "bad")
            except pb.errors.CorruptCheckpoint as error:
                assert str(victim) in str(error) or (ocdbt and "cannot be restored" in str(error)), (file, damage)
            else:  # of a database, bytes that are not needed
                assert ocdbt, (file, damage)
                np.testing.assert_array_equal(found["w"], TREE["w"])
                np.testing.assert_array_equal(found["b"], TREE["b"])


def test_a_folder_without_a_manifest_is_no_version(tmp_path: pathlib.Path) -> None:
    pb.checkpoint.save(tmp_path, {"w": 1.0}, step=3)
    (tmp_path / "00000007").mkdir()
    (tmp_path / "00000009" / "manifest.json").mkdir(parents=True)
    for read, wanted in ((pb.checkpoint.latest, 3), (pb.checkpoint.steps, [3]), (pb.checkpoint.restore, {"w": 1.0})):
        with pytest.warns(UserWarning) as caught:
            assert read(tmp_path) == wanted
        assert [str(one.message).split(" has ")[0] for one in caught] == [
            str(tmp_path / name) for name in ("00000007", "00000009")
        ]
    for step, message in ((7, r"00000007/manifest.json is missing"), (9, r"00000009/manifest.json is damaged")):
        with pytest.raises(pb.errors.CorruptCheckpoint, match=message):
            pb.checkpoint.restore(tmp_path, step=step)


def test_a_manifest_that_is_too_deep_is_damaged(tmp_path: pathlib.Path) -> None:
    version = pb.checkpoint.save(tmp_path, 1)
    (pathlib.Path(version) / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(pb.errors.CorruptCheckpoint, match=r"manifest.json is damaged"):
        pb.checkpoint.restore(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")
def test_links_and_files_in_the_places_of_folders(tmp_path: pathlib.Path) -> None:
    """A version may be moved away and linked: what deletes it deletes the link. A file is no version."""
    here, aside = tmp_path / "here", tmp_path / "aside"
    os.rename(pb.checkpoint.save(here, TREE, step=1), aside)
    (here / "00000001").symlink_to(aside)
    (here / "00000002.partial").symlink_to(tmp_path / "nowhere")
    (here / "00000003.partial").write_text("")
    (here / "00000004").write_text("mine")
    assert pb.checkpoint.steps(here) == [1] and pb.checkpoint.restore(here)["epoch"] == 3
    pb.checkpoint.save(here, TREE, step=5, keep=1)
    assert sorted(os.listdir(here)) == ["00000004", "00000005"] and (here / "00000004").read_text() == "mine"
    assert (aside / "manifest.json").exists()


@pytest.mark.skipif(os.sep == "\\", reason="there it divides paths")
@pytest.mark.parametrize("name", ["back\\slash", "\udcff"])
def test_names_that_tensorstore_reads_otherwise(tmp_path: pathlib.Path, name: str) -> None:
    with pytest.raises(ValueError, match="has a name in UTF-8, without backslashes"):
        pb.checkpoint.save(tmp_path / name, TREE)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("step", ["1", True, 1.0])
def test_a_step_is_an_integer(tmp_path: pathlib.Path, step: Any) -> None:
    pb.checkpoint.save(tmp_path, {"w": 1.0}, step=1)
    with pytest.raises(TypeError, match="The step of a checkpoint is an integer or None, but got"):
        pb.checkpoint.restore(tmp_path, step=step)


def test_files_that_changed_places_are_found(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "CHUNK_BYTES", 4096)
    version = pathlib.Path(pb.checkpoint.save(tmp_path, TREE))
    chunks = sorted((version / "1").glob("c*"))
    assert len(chunks) == 8
    chunks[0].rename(version / "aside")
    chunks[1].rename(chunks[0])
    (version / "aside").rename(chunks[1])
    with pytest.raises(pb.errors.CorruptCheckpoint, match=r"tree\['w'\].*another checksum"):
        pb.checkpoint.restore(tmp_path)


class Crash(BaseException):
    """The process is gone."""


EVENTS = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "open")
_steps: list[int] = []  # how many of these events may still happen; empty: any number


def _hook(event: str, args: Any) -> None:
    if _steps and threading.current_thread() is threading.main_thread() and event in EVENTS:
        _steps[0] -= 1
        if _steps[0] < 0:
            raise Crash


sys.addaudithook(_hook)  # it cannot be taken away


def test_an_exception_at_any_point_leaves_a_whole_version(tmp_path: pathlib.Path) -> None:
    """Each operation on files fails in its turn, in place of the one after it and all those that would clean up."""
    for count in range(200):
        directory = tmp_path / str(count)
        pb.checkpoint.save(directory, "before", step=1)
        (directory / "00000000.partial").mkdir()  # left over
        _steps.append(count)
        try:
            pb.checkpoint.save(directory, TREE, step=2, keep=1)
            ended = True
        except Crash:
            ended = False
        finally:
            _steps.clear()
        for step in pb.checkpoint.steps(directory):
            found = pb.checkpoint.restore(directory, step=step)
            assert found == "before" if step == 1 else found["epoch"] == 3 and (found["w"] == TREE["w"]).all()
        assert pb.checkpoint.steps(directory) in ([1], [1, 2], [2])
        pb.checkpoint.save(directory, TREE, step=3)
        assert sorted(os.listdir(directory)) == [f"{step:08d}" for step in pb.checkpoint.steps(directory)], "leftovers are gone"
        if ended:
            break
    assert ended and count > 10


KILLED = """
import os, sys
import numpy as np
import pullback as pb
pb.checkpoint.save
directory = sys.argv[1]
for count in range(0, 200, 3):
    child = os.fork()
    if child == 0:
        left = [count]
        def hook(event, args):
            if event in {events!r}:
                left[0] -= 1
                if left[0] < 0:
                    os._exit(9)
        pb.checkpoint.save(f"{{directory}}.aside", np.ones(2), step=count)  # modules are loaded
        sys.addaudithook(hook)
        pb.checkpoint.save(directory, {{"w": np.full(5000, count), "count": count}}, step=count + 1, keep=2)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(count, status, flush=True)
    if status == 0:
        break
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_process_that_is_killed_leaves_whole_versions(tmp_path: pathlib.Path) -> None:
    pb.checkpoint.save(tmp_path, {"w": np.full(5000, -1), "count": -1}, step=0)
    script = KILLED.format(events=EVENTS).replace("sys.argv[1]", repr(str(tmp_path)))
    done = run(script, "-W", "ignore")
    assert done.returncode == 0, done.stderr
    ends = dict(tuple(map(int, line.split())) for line in done.stdout.splitlines())
    assert set(ends.values()) == {0, 9}, ends
    steps = pb.checkpoint.steps(tmp_path)
    assert steps
    for step in steps:
        found = pb.checkpoint.restore(tmp_path, step=step)
        assert found["count"] == step - 1 and (found["w"] == step - 1).all()
    pb.checkpoint.save(tmp_path, None, step=99)
    assert all(name.isdigit() for name in os.listdir(tmp_path))


# ---- in the background ------------------------------------------------------------------------------------------------------


def test_arrays_may_be_donated_while_they_are_saved(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    begin = versions.begin
    monkeypatch.setattr(versions, "begin", lambda *args: go.wait() and begin(*args))
    x, y = pb.jit(lambda: (pnp.arange(1000.0), pnp.ones(1000)))()
    z = np.arange(5)
    pending = pb.checkpoint.save_async(tmp_path, {"x": x, "y": y, "z": z})
    assert not pending.done()
    with pytest.raises(TimeoutError, match="step 0"):
        pending.result(0.01)
    pb.jit(lambda x, y: (x + 1, y * 5), donate_argnums=(0, 1))(x, y)
    z[:] = 0
    go.set()
    assert pending.result() == str(tmp_path / "00000000") and pending.done()
    found = pb.checkpoint.restore(tmp_path)
    assert (found["x"].host == np.arange(1000)).all() and (found["y"].host == 1).all() and (found["z"] == np.arange(5)).all()
    assert not saving._latest


def test_saves_happen_one_after_the_other(tmp_path: pathlib.Path) -> None:
    pending = [pb.checkpoint.save_async(tmp_path, step, step=step, keep=3) for step in range(8)]
    assert pb.checkpoint.save(tmp_path, 8, step=8, keep=3)
    assert all(one.done() for one in pending)
    assert pb.checkpoint.steps(tmp_path) == [6, 7, 8] and not saving._latest


def test_no_more_than_two_trees_wait_to_be_written(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, go = saving._write, threading.Semaphore(0)

    def write_when_told(job: Any) -> str:
        go.acquire()
        return write(job)

    monkeypatch.setattr(saving, "_write", write_when_told)
    first, second = [pb.checkpoint.save_async(tmp_path, step, step=step) for step in (0, 1)]
    calls: list[Any] = []
    third = threading.Thread(target=lambda: calls.append(pb.checkpoint.save_async(tmp_path, 2, step=2)))
    third.start()
    third.join(0.1)
    assert third.is_alive() and not first.done()  # it waits for the first
    go.release()
    third.join()
    assert first.done() and not second.done()
    go.release(2)
    assert calls[0].result().endswith("2") and pb.checkpoint.steps(tmp_path) == [0, 1, 2]


def test_an_error_in_the_background_is_raised_once(tmp_path: pathlib.Path) -> None:
    pb.checkpoint.save(tmp_path, 1)
    pending = pb.checkpoint.save_async(tmp_path, 2)
    with pytest.raises(pb.errors.CheckpointError, match="already"):
        pending.result()
    pb.checkpoint.save(tmp_path, 2, step=1)  # it has been seen
    pb.checkpoint.save_async(tmp_path, 2)
    with pytest.raises(pb.errors.CheckpointError, match=r"earlier save_async, of step 0 .*already"):
        pb.checkpoint.save(tmp_path, 2, step=2)
    pb.checkpoint.save(tmp_path, 2, step=2)
    pb.checkpoint.save_async(tmp_path, 2)
    with pytest.raises(pb.errors.CheckpointError, match="earlier save_async, of step 0"):
        pb.checkpoint.save_async(tmp_path, 2, step=3).result()
    pb.checkpoint.save_async(tmp_path, 2)
    for step in (3, 4):  # each fails for the one before
        last = pb.checkpoint.save_async(tmp_path, 2, step=step)
    with pytest.raises(pb.errors.CheckpointError, match="earlier save_async, of step 0") as caught:
        last.result()
    assert str(caught.value).count("earlier") == 1 and ".." not in str(caught.value)
    assert pb.checkpoint.steps(tmp_path) == [0, 1, 2] and not saving._latest


def test_an_error_that_nobody_sees_is_printed_at_the_end(tmp_path: pathlib.Path) -> None:
    script = f"""
import pullback as pb
pb.checkpoint.save({str(tmp_path)!r}, 1)
pb.checkpoint.save_async({str(tmp_path)!r}, 1)
"""
    done = run(script)
    assert "checkpoint of step 0" in done.stderr and "was not saved" in done.stderr and "already" in done.stderr


def test_what_is_being_saved_when_the_program_ends_is_saved(tmp_path: pathlib.Path) -> None:
    """The main thread has ended before the save begins."""
    script = f"""
import threading
import numpy as np
import pullback as pb
from pullback.checkpoints import versions
begin = versions.begin
versions.begin = lambda *args: threading.main_thread().join() or begin(*args)
for step in range(2):
    pb.checkpoint.save_async({str(tmp_path)!r}, {{"x": np.arange(5), "y": [pb.numpy.ones(3)]}}, step=step)
"""
    done = run(script)
    assert done.stderr == "" and pb.checkpoint.steps(tmp_path) == [0, 1]
    assert pb.checkpoint.restore(tmp_path)["y"][0].sum() == 3


def test_a_progress_bar(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    pb.checkpoint.save(tmp_path, TREE, progress=True)
    assert "step 0" in capsys.readouterr().out


# ---- several processes, which are threads here ------------------------------------------------------------------------------


class Team(threading.local):
    rank = 0


def together(count: int, monkeypatch: pytest.MonkeyPatch, work: Any) -> list[Any]:
    """What each of several processes returns or raises: threads that meet at barriers."""
    team, barrier = Team(), threading.Barrier(count, timeout=60)
    met: list[tuple[int, str]] = []
    monkeypatch.setattr(processes, "process_index", lambda: team.rank)
    monkeypatch.setattr(processes, "process_count", lambda: count)
    monkeypatch.setattr(processes, "barrier", lambda name: (met.append((team.rank, name)), barrier.wait()))
    results: list[Any] = [None] * count

    def one(rank: int) -> None:
        team.rank = rank
        try:
            results[rank] = work(rank)
        except BaseException as error:
            results[rank] = error

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    orders = [[name for rank, name in met if rank == own] for own in range(count)]
    assert all(order == orders[0] for order in orders)
    return results


def test_processes_save_together(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert together(3, monkeypatch, lambda rank: pb.checkpoint.save(tmp_path, TREE, step=4)) == [str(tmp_path / "00000004")] * 3
    monkeypatch.undo()
    assert (pb.checkpoint.restore(tmp_path)["w"] == TREE["w"]).all()


def test_all_processes_hear_of_an_error_in_one(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(rank: int) -> Any:
        tree = {"w": pnp.ones(3)}
        if rank == failing:
            tree["w"].delete()
        return pb.checkpoint.save(tmp_path, tree, step=4)

    failing = 0
    found = together(2, monkeypatch, save)
    assert isinstance(found[0], pb.errors.DonatedBufferError) and isinstance(found[1], pb.errors.CheckpointError)
    monkeypatch.setattr(saving, "_write_arrays", failing_in(1, saving._write_arrays))
    failing = 9
    found = together(3, monkeypatch, save)
    assert "Process 1 failed: OSError('disk')" in str(found[0]) and isinstance(found[1], OSError)
    assert isinstance(found[2], pb.errors.CheckpointError) and pb.checkpoint.steps(tmp_path) == []
    monkeypatch.undo()
    pb.checkpoint.save(tmp_path, 1, step=4)
    found = together(2, monkeypatch, save)
    assert "already" in str(found[0]) and "Process 0 has not begun" in str(found[1])
    assert os.listdir(tmp_path) == ["00000004"]


def test_processes_whose_trees_differ_are_told(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = pb.make_mesh((1,), ("x",))
    x = pb.device_put(np.ones(4), pb.NamedSharding(mesh, pb.P("x")))

    def save(rank: int) -> Any:
        return pb.checkpoint.save(tmp_path, OrderedDict([("a", x), ("b", x)] if rank else [("b", x), ("a", x)]))

    found = together(2, monkeypatch, save)
    assert "array 0 is tree['b'], float64[4] of process 0, but tree['a'], float64[4] of 1" in str(found[0])
    assert isinstance(found[1], pb.errors.CheckpointError) and os.listdir(tmp_path) == []


def failing_in(failing: int, write: Any) -> Any:
    def wrapped(*args: Any) -> Any:
        if processes.process_index() == failing:
            raise OSError("disk")
        return write(*args)

    return wrapped


def test_threads_that_write_the_same_version_at_once(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one is refused, and takes nothing away from the first."""
    refused: list[str] = []
    write = saving._write_arrays

    def interrupted(job: Any, partial: str) -> Any:
        def second() -> None:
            try:
                pb.checkpoint.save(tmp_path, TREE, step=1)
            except pb.errors.CheckpointError as error:
                refused.append(str(error))

        files = write(job, partial)
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        return files

    monkeypatch.setattr(saving, "_write_arrays", interrupted)
    pb.checkpoint.save(tmp_path, TREE, step=1)
    assert len(refused) == 1 and "Another thread is writing" in refused[0]
    np.testing.assert_array_equal(pb.checkpoint.restore(tmp_path)["w"], TREE["w"])


def test_a_folder_that_another_program_is_writing_stays(tmp_path: pathlib.Path) -> None:
    """Its owner here is the process that started this one, which is alive."""
    partial = tmp_path / "00000001.partial"
    partial.mkdir()
    (partial / "owner.json").write_text(json.dumps([socket.gethostname(), os.getppid()]))
    with pytest.raises(pb.errors.CheckpointError, match="Another program is writing"):
        pb.checkpoint.save(tmp_path, TREE, step=1)
    pb.checkpoint.save(tmp_path, TREE, step=2)
    assert sorted(os.listdir(tmp_path)) == ["00000001.partial", "00000002"] and os.listdir(partial) == ["owner.json"]


def test_threads_that_save_into_one_folder_take_nothing_from_each_other(tmp_path: pathlib.Path) -> None:
    """Each deletes what the others replace, and none what another one is writing."""
    errors: list[BaseException] = []

    def save(first: int) -> None:
        try:
            for step in range(first, first + 6):
                pb.checkpoint.save(tmp_path, {"x": np.full(10, step), "step": step}, step=step, keep=2)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=save, args=(100 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert all(name.isdigit() for name in os.listdir(tmp_path))
    for step in pb.checkpoint.steps(tmp_path):
        found = pb.checkpoint.restore(tmp_path, step=step)
        assert found["step"] == step and (found["x"] == step).all()


def test_the_version_that_was_just_written_is_kept(tmp_path: pathlib.Path) -> None:
    for step in (10, 11, 12):
        pb.checkpoint.save(tmp_path, step, step=step)
    assert os.path.isdir(pb.checkpoint.save(tmp_path, 5, step=5, keep=2))
    assert pb.checkpoint.steps(tmp_path) == [5, 11, 12]


def test_what_is_read_while_another_version_replaces_it(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pb.checkpoint.save(tmp_path, {"x": np.zeros(4), "version": 0}, step=1)
    check, others = stores.check_file, [1]

    def replaced(*args: Any) -> None:
        if others:
            pb.checkpoint.save(tmp_path, {"x": np.ones(4), "version": others.pop()}, step=1, overwrite=True)
        check(*args)

    monkeypatch.setattr(stores, "check_file", replaced)
    found = pb.checkpoint.restore(tmp_path)
    assert found["version"] == 1 and (found["x"] == 1).all()
    others.append(2)
    assert pb.checkpoint.restore(tmp_path, step=1)["version"] == 2
    monkeypatch.setattr(stores, "check_file", lambda *args: (pb.checkpoint.delete(tmp_path, 1), check(*args)))
    with pytest.raises(pb.errors.CheckpointError, match="There is no checkpoint in"):
        pb.checkpoint.restore(tmp_path)


def test_what_is_being_saved_is_what_is_restored(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go, begin, wait = threading.Event(), versions.begin, saving.Saving._wait
    pb.checkpoint.save(tmp_path, 1, step=1)
    monkeypatch.setattr(versions, "begin", lambda *args: go.wait() and begin(*args))
    monkeypatch.setattr(saving.Saving, "_wait", lambda self: (go.set(), wait(self))[1])
    pb.checkpoint.save_async(tmp_path, 2, step=2)
    assert pb.checkpoint.restore(tmp_path) == 2


FULL = """
import os, resource
import numpy as np, pullback as pb
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
pb.checkpoint.save(os.environ["WHERE"], np.ones(4), step=1)
for ocdbt in (False, True):
    try:
        pb.checkpoint.save(os.environ["WHERE"], np.random.default_rng(0).normal(size=1 << 18), step=2, ocdbt=ocdbt)
    except pb.errors.CheckpointError as error:
        assert "cannot be written" in str(error), error
    else:
        raise AssertionError("nothing was raised")
assert pb.checkpoint.steps(os.environ["WHERE"]) == [1] and pb.checkpoint.restore(os.environ["WHERE"]).sum() == 4
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of files are the system's")
def test_a_full_disk(tmp_path: pathlib.Path) -> None:
    found = run(FULL, WHERE=str(tmp_path))
    assert found.returncode == 0, found.stderr


def test_masked_arrays_and_wrong_levels_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(pb.errors.LeafError, match=r"tree\['x'\] is a masked array"):
        pb.checkpoint.save(tmp_path, {"x": np.ma.array([1, 2], mask=[0, 1])})
    for level in (True, "zstd", 1.5, 23, -1):
        with pytest.raises(ValueError, match="level of zstd"):
            pb.checkpoint.save(tmp_path, TREE, compression=level)  # type: ignore[arg-type]
