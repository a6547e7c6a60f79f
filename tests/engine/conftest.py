"""Every test of the engine keeps its executables in a directory of its own, and leaves all Programs to XLA."""

import pytest

import pullback as pb
from pullback.api.compiled import clear_caches
from pullback.core.modes import set_process_mode


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PULLBACK_CACHE_DIR", str(tmp_path / "executables"))
    clear_caches()
    return tmp_path / "executables"


@pytest.fixture(autouse=True)
def by_xla(monkeypatch):
    monkeypatch.setenv("PULLBACK_NATIVE", "off")  # of other processes
    before = set_process_mode(native="off")
    yield
    set_process_mode(native=before.native)


@pytest.fixture
def counted():
    """A function to jit, and how often it was traced."""
    calls = []

    def function(x, *rest):
        calls.append(1)
        for other in rest:
            x = x + other
        return pb.numpy.sin(x) * 2.0

    return function, calls
