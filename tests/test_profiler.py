"""Profiles: their files can be read, and have the names that were given."""

import gzip
import json
import pathlib
import threading

import pytest
from processes import run

import pullback as pb
import pullback.numpy as pnp

f = pb.jit(lambda x: pnp.sin(x @ x).sum(), native=False)


@pb.profiler.annotate_function
def load():
    return pnp.ones((50, 50))


@pb.profiler.annotate_function(name="named load", part="second")
def load_again():
    return load()


def events(folder):
    with gzip.open(pathlib.Path(folder) / "perfetto_trace.json.gz", "rt") as file:
        return json.load(file)["traceEvents"]


def test_a_trace_has_the_names_in_both_files(tmp_path):
    with pb.profiler.trace(tmp_path):
        with pb.profiler.TraceAnnotation("outer ä", batch=3), pb.profiler.StepTraceAnnotation("train", step_num=7):
            pb.block_until_ready(f(load_again()))
        thread = threading.Thread(target=pb.profiler.TraceAnnotation("in a thread")(lambda: pb.block_until_ready(f(load()))))
        thread.start()
        thread.join()
    (folder,) = (tmp_path / "plugins" / "profile").iterdir()
    (planes,) = folder.glob("*.xplane.pb")
    found, binary = events(folder), planes.read_bytes()
    named = {event["name"]: event for event in found if event.get("ph") == "X"}
    for name in ("outer ä", "train", "load", "named load", "in a thread"):
        assert name in named and name.encode() in binary, name
    assert named["outer ä"]["args"]["batch"] == "3" and named["train"]["args"]["step_num"] == "7"
    assert named["outer ä"]["dur"] >= named["train"]["dur"] >= named["named load"]["dur"] > 0
    assert named["in a thread"]["tid"] != named["train"]["tid"]
    assert any("test_profiler.py" in name for name in named), "Python's calls"
    assert any("fusion" in name or "dot" in name for name in named), "XLA's operations"


def test_in_a_process_that_has_compiled_nothing_yet(tmp_path):
    for name in ("pullback", "pullback.compat.jax"):
        done = run(
            f"import importlib\n"
            f"profiler = importlib.import_module('{name}.profiler')\n"
            f"with profiler.trace({str(tmp_path / name)!r}):\n"
            f"    with profiler.TraceAnnotation('first'): import pullback; pullback.jit(lambda x: x + 1.0)(1.0)\n"
            f"print(len(profiler.device_memory_profile()) > 0)"
        )
        assert done.stdout == "True\n", done.stderr
        (folder,) = (tmp_path / name / "plugins" / "profile").iterdir()
        assert "first" in [event.get("name") for event in events(folder)]


def test_python_frames_can_be_left_out_and_traces_follow_each_other(tmp_path):
    folders = set()
    for _ in range(2):
        pb.profiler.start_trace(tmp_path / "new" / "folder", python_frames=False, host_level=1)
        with pb.profiler.TraceAnnotation("once"):
            pb.block_until_ready(f(load()))
        folders.add(pb.profiler.stop_trace())
    assert len(folders) == 2
    for folder in folders:
        names = [event.get("name", "") for event in events(folder)]
        assert names.count("once") == 1 and not any("test_profiler.py" in name for name in names)


def test_an_exception_ends_the_trace_and_leaves_the_file(tmp_path):
    with pytest.raises(KeyError), pb.profiler.trace(tmp_path), pb.profiler.TraceAnnotation("failing"):
        raise KeyError
    (folder,) = (tmp_path / "plugins" / "profile").iterdir()
    assert "failing" in [event.get("name") for event in events(folder)]
    with pytest.raises(RuntimeError, match="No trace is running"):
        pb.profiler.stop_trace()


def test_there_is_one_trace_at_a_time(tmp_path):
    with pb.profiler.trace(tmp_path):
        with pytest.raises(RuntimeError, match="running already"):
            pb.profiler.start_trace(tmp_path)
        assert load().shape == (50, 50)


def test_a_directory_that_cannot_be_made_begins_no_trace(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        pb.profiler.start_trace(tmp_path / "file" / "folder")
    with pb.profiler.trace(tmp_path):
        pass


def test_annotations_without_a_trace():
    note = pb.profiler.TraceAnnotation("nothing", what=1)
    for _ in range(2):
        with note:
            assert load_again().shape == (50, 50)
    assert load.__name__ == "load"

    @pb.profiler.TraceAnnotation("recursive")
    def down(n):
        return 0 if n == 0 else 1 + down(n - 1)

    assert down(5) == 5


@pytest.mark.parametrize(
    "call",
    [
        lambda path: pb.profiler.start_trace(3),
        lambda path: pb.profiler.start_trace(path, python_frames=2),
        lambda path: pb.profiler.TraceAnnotation(3),
        lambda path: pb.profiler.annotate_function(3),
    ],
)
def test_wrong_arguments(call, tmp_path):
    with pytest.raises(TypeError):
        call(tmp_path)
    with pytest.raises(ValueError, match="host_level"):
        pb.profiler.start_trace(tmp_path, host_level=7)


def test_memory(tmp_path):
    x = pb.block_until_ready(f(load()))
    profile = pb.profiler.device_memory_profile()
    pb.profiler.save_device_memory_profile(tmp_path / "memory.prof", "cpu")
    assert len(profile) > 10 and (tmp_path / "memory.prof").stat().st_size > 10
    assert x.device.memory_stats() is None
    with pytest.raises(pb.errors.DeviceError):
        pb.Device("cpu", 99).memory_stats()
    with pytest.raises(pb.errors.DeviceError):
        pb.profiler.device_memory_profile("nowhere")
