"""The launcher: what it prints, how it ends, and that nothing is left of what it started."""

import os
import signal
import subprocess
import sys
import time

import pytest
from launching import by_rank, command, environment, launch

from pullback.launch import main


def test_lines_have_the_rank_in_front(tmp_path):
    line = [
        *command(tmp_path, "print('one', sys.argv[1:]); sys.stdout.write('no end'); print('x', file=sys.stderr)", 2),
        "-a",
        "b",
    ]
    found = subprocess.run(line, env=environment(), capture_output=True, text=True, timeout=100)
    assert by_rank(found.stdout) == {rank: ["one ['-a', 'b']", "no end"] for rank in range(2)}
    assert sorted(found.stderr.splitlines()) == ["[0] x", "[1] x"] and found.returncode == 0


ENDS = [
    ("sys.exit(7 * rank)", 7, "process 1 failed with exit status 7"),
    ("os.kill(os.getpid(), signal.SIGKILL) if rank else time.sleep(100)", 137, "process 1 was ended by SIGKILL"),
    ("1 / rank\ntime.sleep(100)", 1, "process 0 failed with exit status 1"),
]


@pytest.mark.parametrize("script, status, said", ENDS, ids=["exit", "killed", "raises"])
def test_if_one_fails_all_are_stopped(tmp_path, script, status, said):
    found = launch(tmp_path, script, 2, "--grace", "0.2")
    assert found.returncode == status and said in found.stderr


WAITS = """
def end(number, frame):
    print("ends", number)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print(os.getpid())
try:
    time.sleep(100)
except KeyboardInterrupt:
    print("interrupted")
    sys.exit(5)
"""


@pytest.mark.parametrize("number, says, status", [(signal.SIGINT, "interrupted", 130), (signal.SIGTERM, "ends 15", 0)])
def test_signals_reach_all(tmp_path, number, says, status):
    started = subprocess.Popen(command(tmp_path, WAITS, 2), env=environment(), stdout=-1, stderr=-1, text=True)
    lines = [started.stdout.readline() for _ in range(2)]  # both are there
    started.send_signal(number)
    out, error = started.communicate(timeout=60)
    assert sorted(line[4:] for line in out.splitlines()) == [says] * 2, error
    assert started.returncode == status
    _all_gone(lines)


def test_who_does_not_listen_is_killed(tmp_path):
    script = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(os.getpid())\ntime.sleep(100)"
    started = subprocess.Popen(
        command(tmp_path, script, 2, "--grace", "0.3"), env=environment(), stdout=-1, stderr=-1, text=True
    )
    lines = [started.stdout.readline() for _ in range(2)]
    started.send_signal(signal.SIGTERM)
    _, error = started.communicate(timeout=60)
    assert started.returncode == 128 + signal.SIGTERM and "was ended by SIGKILL" in error
    _all_gone(lines)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux can be asked for it")
def test_a_launcher_that_is_killed_leaves_nobody(tmp_path):
    script = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(os.getpid(), os.environ['PULLBACK_KEEPER'])\ntime.sleep(100)"
    started = subprocess.Popen(command(tmp_path, script, 2), env=environment(), stdout=-1, stderr=-1, text=True)
    lines = [started.stdout.readline() for _ in range(2)]
    started.kill()
    started.communicate(timeout=60)
    for number in {word for line in lines for word in line.split()[1:]}:
        while _runs(int(number)):
            time.sleep(0.01)


def _runs(number):
    try:
        with open(f"/proc/{number}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _all_gone(lines):
    for line in lines:
        with pytest.raises(ProcessLookupError):
            os.kill(int(line.split()[1]), 0)


def test_modules_and_elastic_worlds(tmp_path):
    (tmp_path / "program.py").write_text("import os\nprint(__name__)\nos.environ['PULLBACK_PROCESS_ID'] == '0' or os._exit(9)")
    line = command(tmp_path, "", 2, "--elastic", "-m")[:-1] + ["program"]
    found = subprocess.run(
        line, env=environment(PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"), capture_output=True
    )
    assert found.returncode == 0 and b"[0] __main__" in found.stdout and b"process 1 failed with exit status 9" in found.stderr


def test_wrong_command_lines(capsys):
    assert main(["-n", "0", "script.py"]) == 2
    with pytest.raises(SystemExit) as caught:
        main(["script.py"])
    assert caught.value.code == 2 and "-n/--processes" in capsys.readouterr().err


def test_the_keeper_ends_with_the_processes(tmp_path):
    found = launch(tmp_path, "d.initialize()\nif rank == 0: print(os.environ['PULLBACK_KEEPER'])", 2)
    keeper = int(found.by_rank[0][0])
    until = time.monotonic() + 30
    while os.path.exists(f"/proc/{keeper}") and time.monotonic() < until:
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{keeper}")


def test_a_world_inside_of_one_that_was_formed_anew(tmp_path):
    script = "d.initialize()\nprint(d.process_count(), d.elastic.epoch())"
    assert launch(tmp_path, script, 2, PULLBACK_EPOCH="1").by_rank == {rank: ["2 0"] for rank in range(2)}
