"""Executables that are kept: found in memory and on disk, and never a wrong or a broken one."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import pullback as pb
from pullback.engine import cache

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
    return [path for path in directory.iterdir() if path.suffix != ".tmp"] if directory.exists() else []


@pytest.fixture(autouse=True)
def keep_everything(monkeypatch):
    monkeypatch.setattr("pullback.engine.compile.KEPT_SECONDS", 0.0)


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
    "not an executable": lambda data: cache.MAGIC + cache.hashlib.sha256(b"nonsense").digest() + b"nonsense",
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_files_are_written_again(kind, own_cache):
    run()
    (path,) = files(own_cache)
    path.write_bytes(DAMAGE[kind](path.read_bytes()))
    assert run() == (1, 0)
    assert run() == (0, 1)


def test_another_processor_or_version_is_another_key(monkeypatch):
    run()
    monkeypatch.setattr(cache, "processor", lambda: "another")
    assert run() == (1, 0)


@pytest.mark.parametrize("where", ["", "/proc/nowhere/at/all"])
def test_without_a_directory(where, monkeypatch):
    monkeypatch.setenv("PULLBACK_CACHE_DIR", where)
    assert run() == (1, 0)
    assert run() == (1, 0)


def test_default_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("PULLBACK_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.directory() == tmp_path / "pullback"


def test_oldest_go_first(own_cache, monkeypatch):
    for i in range(5):
        cache.write(f"key{i}", bytes(1000))
        os.utime(own_cache / f"key{i}", (i, i))
    monkeypatch.setenv("PULLBACK_CACHE_MAX_BYTES", "3500")
    cache.write("key5", bytes(1000))
    assert sorted(path.name for path in files(own_cache)) == ["key3", "key4", "key5"]
    assert cache.read("key0") is None and cache.read("key5") == bytes(1000)


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(cache, "MAX_IN_MEMORY", 2)
    for i in range(4):
        cache.remember(i, object())
    assert pb.cache_info().entries == 2


def test_many_writers_of_one_key(own_cache):
    blob = os.urandom(200_000)
    threads = [threading.Thread(target=cache.write, args=("key", blob)) for _ in range(8)]
    for thread in threads:
        thread.start()
        assert cache.read("key") in (None, blob)
    for thread in threads:
        thread.join()
    assert cache.read("key") == blob and len(list(own_cache.iterdir())) == 1


def test_another_process_hits(own_cache):
    script = (
        "import numpy as np, pullback as pb\n"
        "out = pb.jit(lambda x: pb.numpy.sin(x) * 5.0 + pb.numpy.sum(pb.numpy.exp(x)))(np.ones(3, np.float32))\n"
        "info = pb.cache_info(); print(info.compiled, info.disk_hits, float(out[0]))\n"
    )
    code = "import pullback.engine.compile as c; c.KEPT_SECONDS = 0.0\n" + script
    env = {**os.environ, "PULLBACK_CACHE_DIR": str(own_cache)}
    found = [
        subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True) for _ in range(2)
    ]
    first, second = [one.stdout.split() for one in found]
    assert first[:2] == ["1", "0"] and second[:2] == ["0", "1"] and first[2] == second[2]
    assert not found[1].stderr


def test_waiting_threads_survive_a_failure():
    tries = []

    def make():
        tries.append(1)
        if len(tries) == 1:
            raise KeyboardInterrupt
        return "made"

    with pytest.raises(KeyboardInterrupt):
        cache.once("key", lambda: None, make)
    assert cache.once("key", lambda: None, make) == "made"
