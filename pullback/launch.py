"""Start the processes of a world on this machine: `python -m pullback.launch -n 4 script.py arguments...`.

Each line that they print comes with the number of the process in front. If one of them fails, the others are stopped. Ctrl-C
and SIGTERM go to all of them; who has not ended a while later is killed, and at a second Ctrl-C at once.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from argparse import REMAINDER, ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from types import FrameType
from typing import IO, Any

from pullback.core.source import make_public
from pullback.parallel.messages import join_address
from pullback.parallel.rendezvous import listen, start_keeper

__all__ = ["main"]

POLL = 0.02  # seconds between two looks at who has ended


def make_parser() -> ArgumentParser:
    """The command line's parser."""
    parser = ArgumentParser("python -m pullback.launch", description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--processes", type=int, required=True, metavar="N", help="how many processes")
    parser.add_argument("--devices", type=int, metavar="K", help="into how many devices each divides its CPU")
    parser.add_argument(
        "--host", default="127.0.0.1", help="the address of this machine at which they meet (default: %(default)s)"
    )
    parser.add_argument(
        "--grace", type=float, default=5.0, metavar="S", help="seconds to end by themselves (default: %(default)g)"
    )
    parser.add_argument(
        "--heartbeat", type=float, default=10.0, metavar="S", help="seconds of silence that mean that one is lost"
    )
    parser.add_argument("--elastic", action="store_true", help="let the others go on if one fails (pb.distributed.elastic)")
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module, as for python -m")
    parser.add_argument("script", metavar="SCRIPT", help="the Python program, and then its arguments")
    parser.add_argument("arguments", nargs=REMAINDER, metavar="...", help="its arguments")
    return parser


PR_SET_PDEATHSIG = 1  # of Linux


def _end_with(launcher: int) -> Callable[[], None] | None:
    """What a child calls so that it is killed when the launcher is. None where that cannot be asked for."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def end_with_it() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != launcher:  # it has ended already
            os._exit(128 + signal.SIGKILL)

    return end_with_it


class Launch:
    """Processes that run, and what is asked of them.

    Arguments:
        options: of the command line.
    """

    def __init__(self, options: Any) -> None:
        self.options = options
        self.children: list[subprocess.Popen[bytes]] = []
        self.keeper = 0  # its pid
        self.failed: tuple[int, int] | None = None  # the first that failed, and how it ended
        self.signals: list[int] = []  # those that came to this process
        self.readers: list[threading.Thread] = []
        self.writing = threading.Lock()

    def start(self) -> None:
        options = self.options
        with listen(join_address(options.host, 0)) as listener:
            where = join_address(options.host, listener.getsockname()[1])
            self.keeper = start_keeper(listener, options.processes, 300.0, options.heartbeat)
        environment = {
            **{name: value for name, value in os.environ.items() if name != "PULLBACK_EPOCH"},  # of a world around this one
            "PULLBACK_COORDINATOR": where,
            "PULLBACK_NUM_PROCESSES": str(options.processes),
            "PULLBACK_KEEPER": str(self.keeper),
            "PYTHONUNBUFFERED": "1",
        }
        if options.devices:
            environment["PULLBACK_CPU_DEVICES"] = str(options.devices)
        command = [sys.executable, *(["-m"] if options.module else []), options.script, *options.arguments]
        for rank in range(options.processes):
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**environment, "PULLBACK_PROCESS_ID": str(rank)},
                start_new_session=True,  # so that a Ctrl-C reaches it once, from here
                preexec_fn=_end_with(os.getpid()),
            )
            self.children.append(child)
        for rank, child in enumerate(self.children):  # now that nothing forks any more
            for source, target in ((child.stdout, sys.stdout.buffer), (child.stderr, sys.stderr.buffer)):
                self.readers.append(threading.Thread(target=self.copy, args=(rank, source, target)))
                self.readers[-1].start()

    def copy(self, rank: int, source: IO[bytes], target: IO[bytes]) -> None:
        """Print what a process prints, line by line."""
        with source:
            for line in source:
                with self.writing:
                    target.write(b"[%d] " % rank + line + (b"" if line.endswith(b"\n") else b"\n"))
                    target.flush()

    def end(self) -> None:
        """Nothing that was started is left running."""
        self.send(signal.SIGKILL)
        if self.keeper:
            os.kill(self.keeper, signal.SIGKILL)
            os.waitpid(self.keeper, 0)
        for child in self.children:
            child.wait()

    def send(self, number: int) -> None:
        """Send a signal to all that run."""
        for child in self.children:
            if child.poll() is None:
                child.send_signal(number)

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signals.append(number)

    def wait(self) -> None:
        """Return when all have ended."""
        passed = 0  # the signals that have gone on to them
        deadlines: list[tuple[float, int]] = []  # when who still runs gets which signal
        while any([child.poll() is None for child in self.children]):
            self._look_for_failure()
            now = time.monotonic()
            if self.failed is not None and not deadlines and not self.options.elastic:
                deadlines = [(now + self.options.grace, signal.SIGTERM), (now + 2 * self.options.grace, signal.SIGKILL)]
            for number in self.signals[passed:]:
                self.send(signal.SIGKILL if passed else number)
                passed += 1
                deadlines = [(now + self.options.grace, signal.SIGKILL)]
            while deadlines and now > deadlines[0][0]:
                self.send(deadlines.pop(0)[1])
                deadlines = deadlines or [(now + 1e9, signal.SIGKILL)]
            time.sleep(POLL)
        self._look_for_failure()
        for reader in self.readers:
            reader.join()

    def _look_for_failure(self) -> None:
        for rank, child in enumerate(self.children):
            if self.failed is None and child.poll():
                self.failed = rank, child.returncode
                how = f"failed with exit status {child.returncode}"
                if child.returncode < 0:
                    how = f"was ended by {signal.Signals(-child.returncode).name}"
                with self.writing:
                    print(f"pullback.launch: process {rank} {how}", file=sys.stderr, flush=True)

    def status(self) -> int:
        """The exit status: 0; that of the first that failed; or 128 and the number of the signal that ended it all."""
        if self.signals and self.failed is not None:
            return 128 + self.signals[0]
        if self.failed is None or (self.options.elastic and any([child.returncode == 0 for child in self.children])):
            return 0
        return self.failed[1] if self.failed[1] > 0 else 128 - self.failed[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Arguments:
        arguments: the words after `python -m pullback.launch`; by default, those that the process was started with.

    Returns:
        The exit status: 0; that of the first process that failed, 128 and the number of a signal if one ended it; 2 if the
        command line was wrong.

    Example:
        >>> import os
        >>> from pullback.launch import main
        >>> main(["-n", "1", "-m", "this.is.no.module"])  # doctest: +SKIP
        1
    """
    options = make_parser().parse_args(arguments)
    if options.processes < 1:
        print("python -m pullback.launch: -n is at least 1", file=sys.stderr)
        return 2
    launch = Launch(options)
    before = {number: signal.signal(number, launch.on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        launch.start()
        launch.wait()
    finally:
        launch.end()
        for number, handler in before.items():
            signal.signal(number, handler)
    return launch.status()


make_public(globals())

if __name__ == "__main__":
    sys.exit(main())
