"""Executables that are kept: found in memory and on disk, and never a wrong or a broken one."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import processes
import pytest

import pullback as pb
from pullback.api.traced import xpr
from pullback.core.devices import Device
from pullback.engine import backend as backends
from pullback.engine import cache, disk, xla
from pullback.engine.backend import CompileOptions, backend
from pullback.engine.jaxlib import jaxlib
from pullback.engine.lower import lower_program

pnp = pb.numpy


def function(x):
    return pnp.tanh(x) * pnp.sum(pnp.exp(x)) + 3.0


X = np.linspace(0, 1, 7, dtype=np.float32)
EXPECTED = np.tanh(X) * np.exp(X).sum() + 3


def run():
    """Compile anew, as far as this process is concerned; what became of it."""
    pb.clear_caches()
    before = pb.cache_info()
    np.testing.assert_allclose(np.asarray(pb.jit(function)(X)), EXPECTED, rtol=1e-6)
    after = pb.cache_info()
    return after.compiled - before.compiled, after.disk_hits - before.disk_hits


def files(directory):
    return sorted(directory.glob(f"{disk.FOLDER}/*.xla"))


@pytest.fixture(autouse=True)
def keep_everything(monkeypatch):
    monkeypatch.setattr("pullback.engine.xla.KEPT_SECONDS", 0.0)


def test_equal_programs_compile_once():
    before = pb.cache_info().compiled
    for _ in range(3):
        pb.jit(lambda x: pnp.sin(x) * 17.0)(X)
    assert pb.cache_info().compiled - before == 1


def test_second_time_from_disk(own_cache):
    assert run() == (1, 0)
    assert run() == (0, 1)
    assert len(files(own_cache)) == 1


DAMAGE = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "short header": lambda data: data[:10],
    "one bit": lambda data: data[:-100] + bytes([data[-100] ^ 1]) + data[-99:],
    "foreign": lambda data: b"something else entirely" * 100,
    "not an executable": lambda data: disk.MAGIC + disk.hashlib.sha256(b"nonsense").digest() + b"nonsense",
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_files_are_written_again(kind, own_cache):
    run()
    (path,) = files(own_cache)
    path.write_bytes(DAMAGE[kind](path.read_bytes()))
    assert run() == (1, 0)
    assert run() == (0, 1)


LOWERED = lower_program(xpr(function, X), "cpu")

# What to change, one at a time, and the name of the input of code generation that it decides.
INPUTS = {
    "module": lambda patch, given: given.update(lowered=LOWERED._replace(text=LOWERED.text.replace("tanh", "sine"))),
    "settings": lambda patch, given: given.update(lowered=LOWERED._replace(extra={"xla_option": 1})),
    "optimization": lambda patch, given: given.update(options=CompileOptions(quick=True)),
    "device": lambda patch, given: (
        patch.setitem(given["there"].raw_of, Device("cpu", 1), Stand(id=1))
        or given.update(options=CompileOptions(Device("cpu", 1)))
    ),
    "devices": lambda patch, given: patch.setattr(given["there"], "devices", [*given["there"].devices] * 2),
    "platform": lambda patch, given: patch.setattr(given["there"], "platform", "other"),
    "client": lambda patch, given: patch.setattr(given["there"], "client", Stand(platform_version="2")),
    "device kind": lambda patch, given: patch.setitem(
        given["there"].raw_of, Device("cpu", 0), Stand(device_kind="other", id=0)
    ),
    "jaxlib": lambda patch, given: patch.setattr(jaxlib(), "version", "0.11.0"),
    "jaxlib build": lambda patch, given: patch.setattr(jaxlib(), "build", "another"),
    "debug options": lambda patch, given: patch.setattr(given["there"], "debug_options", "0a"),
    "environment": lambda patch, given: patch.setattr(jaxlib(), "environment", {"XLA_FLAGS": "--xla_cpu_enable_fast_math"}),
    "processor": lambda patch, given: patch.setattr(xla, "processor", lambda: "another"),
    "processors": lambda patch, given: patch.setattr(xla, "usable_processors", lambda: 1000),
}


class Stand:
    """Stands for a client or device, with another value of one attribute."""

    def __init__(self, **attributes):
        client = backend().client
        vars(self).update(
            platform=client.platform,
            platform_version=client.platform_version,
            runtime_type=client.runtime_type,
            device_kind="cpu",
        )
        vars(self).update(attributes)


def inputs_and_key(given):
    found = xla.generation_inputs(**given)
    return found, disk.digest(found)


def test_every_input_of_code_generation_is_tried():
    assert set(xla.generation_inputs(backend(), LOWERED, CompileOptions())) == set(INPUTS)


@pytest.mark.parametrize("name", INPUTS)
def test_every_input_of_code_generation_changes_the_key(name, monkeypatch):
    given = {"there": backend(), "lowered": LOWERED, "options": CompileOptions()}
    before, key = inputs_and_key(given)
    INPUTS[name](monkeypatch, given)
    after, other = inputs_and_key(given)
    assert {which for which in before if before[which] != after[which]} == {name}
    assert key != other


def test_names_and_lines_are_no_input():
    def other(x):
        return pnp.tanh(x) * pnp.sum(pnp.exp(x)) + 3.0

    given = {"there": backend(), "lowered": lower_program(xpr(other, X), "cpu"), "options": CompileOptions()}
    assert inputs_and_key(given) == inputs_and_key({**given, "lowered": LOWERED})


@pytest.mark.parametrize("how", ["flags", "file"])
def test_what_was_compiled_with_other_flags_is_not_used(how, own_cache, tmp_path):
    """Fast math makes NaN - NaN zero: served to a process without it, it would be a wrong number."""
    script = (
        "import numpy as np, pullback as pb, pullback.engine.xla as x\n"
        "x.KEPT_SECONDS = 0.0\n"
        "pb.jit(lambda x: pb.numpy.sin(x) - pb.numpy.sin(x) * 2.0)(np.ones(3, np.float32))\n"
        "print(pb.cache_info().compiled, pb.cache_info().disk_hits)\n"
    )
    flags = "--xla_cpu_enable_fast_math=true --xla_cpu_fast_math_honor_nans=false"
    named = tmp_path / "flags"
    named.write_text(flags)
    found = [
        processes.run(script, PULLBACK_CACHE_DIR=str(own_cache), **extra).stdout.split()
        for extra in ({}, {"XLA_FLAGS": flags if how == "flags" else str(named)}, {})
    ]
    assert found == [["1", "0"], ["1", "0"], ["0", "1"]]


def test_without_a_directory(monkeypatch):
    monkeypatch.setenv("PULLBACK_CACHE_DIR", "")
    assert run() == (1, 0)
    assert run() == (1, 0)


@pytest.mark.parametrize("kind", ["a file", "in a file", "nowhere"])
def test_a_directory_that_cannot_be_used_is_named_once(kind, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    where = {"a file": tmp_path / "file", "in a file": tmp_path / "file" / "in", "nowhere": "/proc/nowhere/at/all"}[kind]
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(where))
    with pytest.warns(RuntimeWarning) as caught:
        assert run() == (1, 0)
        assert run() == (1, 0)
    assert len(caught) == 1 and caught[0].filename == __file__
    for part in ("PULLBACK_CACHE_DIR", repr(str(where)), "a directory", "not kept on disk"):
        assert part in str(caught[0].message)


@pytest.mark.parametrize("value", ["1e9", "-1", "1 GiB", "\u00b2"])
def test_a_size_that_cannot_be_used_is_named_once(value, monkeypatch):
    monkeypatch.setenv("PULLBACK_CACHE_MAX_BYTES", value)
    with pytest.warns(RuntimeWarning) as caught:
        assert disk.max_bytes() == disk.max_bytes() == disk.DEFAULT_MAX_BYTES
    assert len(caught) == 1 and caught[0].filename == __file__
    for part in ("PULLBACK_CACHE_MAX_BYTES", repr(value), "in digits", f"it counts as {disk.DEFAULT_MAX_BYTES}"):
        assert part in str(caught[0].message)


def test_default_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("PULLBACK_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert disk.directory() == disk.Path(disk.platformdirs.user_cache_dir("pullback", appauthor=False))


def key(number):
    return f"{number:064x}"


def test_oldest_go_first(own_cache, monkeypatch):
    for i in range(5):
        disk.write(key(i), bytes(1000))
        os.utime(own_cache / disk.FOLDER / f"{key(i)}.xla", (i, i))
    monkeypatch.setenv("PULLBACK_CACHE_MAX_BYTES", "3600")
    disk.write(key(5), bytes(1000))
    assert [path.stem for path in files(own_cache)] == [key(3), key(4), key(5)]
    assert disk.read(key(0)) is None and disk.read(key(5)) == bytes(1000)
    disk.write(key(6), bytes(10_000))  # more than all that may be kept
    assert len(files(own_cache)) == 3


def test_files_are_counted_when_the_folder_is_full_and_not_at_each_write(own_cache, monkeypatch):
    counts = []
    count = disk.evict
    monkeypatch.setattr(disk, "evict", lambda *args: counts.append(args) or count(*args))
    monkeypatch.setenv("PULLBACK_CACHE_MAX_BYTES", "110000")
    for i in range(300):
        disk.write(key(i), bytes(1000))
    kept = files(own_cache)
    assert sum(path.stat().st_size for path in kept) <= 110_000 and kept[-1].stem == key(299)
    assert 1 < len(counts) <= 25  # at first, since nothing is known, and for each tenth of the limit
    (own_cache / disk.FOLDER / disk.TOTAL).write_text("nonsense")
    disk.write(key(300), bytes(1000))
    assert int((own_cache / disk.FOLDER / disk.TOTAL).read_text()) == sum(path.stat().st_size for path in files(own_cache))


def test_files_that_are_not_ours_are_never_removed(own_cache, monkeypatch):
    disk.write(key(0), bytes(10))
    ours = own_cache / disk.FOLDER
    foreign = [own_cache / "thesis.tex", own_cache / f"{key(1)}.xla", ours / "thesis.tex", ours / "notes.xla", ours / key(2)]
    for path in foreign:
        path.write_bytes(bytes(5000))
        os.utime(path, (1, 1))
    monkeypatch.setenv("PULLBACK_CACHE_MAX_BYTES", "100")
    disk.write(key(3), bytes(40))
    disk.write(key(4), bytes(40))
    assert all(path.exists() for path in foreign) and (ours / disk.MARKER).exists()
    assert [path.stem for path in ours.glob("0*.xla")] == [key(4)]


def test_what_a_dead_process_was_writing_is_removed(own_cache):
    disk.write(key(0), bytes(10))
    left, fresh = (own_cache / disk.FOLDER / f"{key(n)}.xla.{name}.tmp" for n, name in ((1, "abc123_"), (2, "def456_")))
    left.write_bytes(bytes(10))
    fresh.write_bytes(bytes(10))
    os.utime(left, (1, 1))
    (own_cache / disk.FOLDER / disk.TOTAL).unlink()  # so that the files are counted
    disk.write(key(3), bytes(10))
    assert not left.exists() and fresh.exists()


def _unmarked(folder):
    (folder / disk.MARKER).unlink()


UNTRUSTED = {
    "group may write": (lambda folder: folder.chmod(0o770), "other users"),
    "all may write": (lambda folder: folder.chmod(0o707), "other users"),
    "no marker": (_unmarked, "not made by pullback"),
}


@pytest.mark.parametrize("kind", UNTRUSTED)
def test_folders_that_others_can_write_or_that_are_not_ours_are_refused(kind, own_cache):
    spoil, message = UNTRUSTED[kind]
    disk.write(key(0), bytes(10))
    spoil(own_cache / disk.FOLDER)
    with pytest.warns(RuntimeWarning, match=message):
        assert disk.read(key(0)) is None
    disk.write(key(1), bytes(10))  # said once
    assert len(files(own_cache)) == 1


def test_folders_of_another_user_are_refused(monkeypatch):
    status = os.stat(os.curdir)
    monkeypatch.setattr(os, "geteuid", lambda: status.st_uid + 1)
    if status.st_uid != 0:
        assert "another user" in disk.distrust(status)
    stranger = os.stat_result((0o40700, 0, 0, 1, 12345, 0, 0, 0, 0, 0))
    assert "another user" in disk.distrust(stranger)


def test_a_folder_that_cannot_be_written_is_read(own_cache, monkeypatch):
    def fail(*args, **kwargs):
        raise PermissionError

    disk.write(key(0), b"kept")
    for module, name in ((disk.tempfile, "mkstemp"), (os, "utime"), (os, "unlink")):
        getattr(module, name)  # a lazy module gets its attributes one by one
        monkeypatch.setattr(module, name, fail)
    assert disk.read(key(0)) == b"kept"
    disk.write(key(1), b"lost")
    assert disk.read(key(1)) is None and disk.read(key(0)) == b"kept"


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(cache, "MAX_IN_MEMORY", 2)
    for i in range(4):
        cache.kept(i, object)
    assert pb.cache_info().entries == 2


def test_many_writers_of_one_key(own_cache):
    blob = os.urandom(200_000)
    threads = [threading.Thread(target=disk.write, args=(key(0), blob)) for _ in range(8)]
    for thread in threads:
        thread.start()
        assert disk.read(key(0)) in (None, blob)
    for thread in threads:
        thread.join()
    assert disk.read(key(0)) == blob
    assert [path.name for path in own_cache.iterdir()] == [disk.FOLDER] and len(list((own_cache / disk.FOLDER).iterdir())) == 3


def test_another_process_hits(own_cache):
    script = (
        "import numpy as np, pullback as pb\n"
        "out = pb.jit(lambda x: pb.numpy.sin(x) * 5.0 + pb.numpy.sum(pb.numpy.exp(x)))(np.ones(3, np.float32))\n"
        "info = pb.cache_info(); print(info.compiled, info.disk_hits, float(out[0]))\n"
    )
    code = "import pullback.engine.xla as c; c.KEPT_SECONDS = 0.0\n" + script
    found = [processes.run(code, PULLBACK_CACHE_DIR=str(own_cache)) for _ in range(2)]
    first, second = [one.stdout.split() for one in found]
    assert first[:2] == ["1", "0"] and second[:2] == ["0", "1"] and first[2] == second[2]
    assert not found[1].stderr


@pytest.mark.parametrize("lock", [cache._lock, xla._starting, backends._lock])
def test_a_signal_handler_may_compile_wherever_it_comes(lock):
    with lock:  # it runs in the thread that it interrupts
        assert float(pb.jit(lambda x: x + 1.0)(1.0)) == 2.0


def test_caches_are_cleared_while_others_compile():
    ended = threading.Event()

    def clear():
        while not ended.is_set():
            pb.clear_caches()

    def make(thread):
        try:
            for i in range(8):
                assert float(pb.jit(lambda x: x + float(i))(1.0)) == 1.0 + i
                _ = [pb.jit(lambda x: x) for _ in range(500)]
        finally:
            ended.set()

    with ThreadPoolExecutor(3) as threads:
        for one in [threads.submit(clear), threads.submit(make, 1), threads.submit(make, 2)]:
            one.result()


def test_waiting_threads_survive_a_failure():
    tries = []

    def make():
        tries.append(1)
        if len(tries) == 1:
            raise KeyboardInterrupt
        return "made"

    with pytest.raises(KeyboardInterrupt):
        cache.kept("key", make)
    assert cache.kept("key", make) == cache.kept("key", make) == "made" and len(tries) == 2
    pb.clear_caches()


def test_the_folder_may_be_named_from_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PULLBACK_CACHE_DIR", "~/executables")
    assert disk.directory() == tmp_path / "executables"
