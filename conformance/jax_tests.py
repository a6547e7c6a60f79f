"""Run JAX's own tests over pullback's modules that pose as JAX's.

    python conformance/jax_tests.py CHECKOUT [FILE ...] [-k EXPRESSION] [-n WORKERS] [-v] [--tb] [--list] [--all]

CHECKOUT is one of https://github.com/jax-ml/jax at the tag jax-v0.10.2, in which nothing is changed and from which nothing is
copied; FILE, the name of a file in its folder tests (`api_test`), or a test (`api_test.py::JitTest::test_x`; `-k` selects as
well). Without one, those are run that the documentation's table has. The tests need pytest and absl-py; JAX need not be
installed, and is not imported.

A test passes, fails, or is skipped by itself (it wants a GPU, several devices...). Or it looks for JAX's text: it expects an
error and gets one of that class, in other words than JAX's, or `jax_expected.txt` says that it reads a jaxpr or StableHLO. Or
it needs a name that is absent: of JAX's public ones, or of its internals (`jax._src`). The rate is of the tests that need
public names only: those that passed among these, other text counting as failures. Failures that `jax_expected.txt` lists by
their reasons are expected; others make the exit status 1.

The number of cases that JAX's tests draw of those that there are is in JAX_NUM_GENERATED_CASES (10, unless it is set).
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import functools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax_table

HERE = Path(__file__).resolve().parent
EXPECTED = HERE / "jax_expected.txt"
OUTCOMES = jax_table.COLUMNS

# The files of the documentation's table.
_FILES = """
    api_test tree_util_test custom_api_test batching_test lax_control_flow_test custom_root_test custom_linear_solve_test
    generated_fun_test lax_autodiff_test lax_vmap_test lax_test lax_numpy_test lax_numpy_einsum_test lax_numpy_indexing_test
    lax_numpy_operators_test lax_numpy_reducers_test lax_numpy_setops_test lax_numpy_ufuncs_test lax_numpy_vectorize_test
    lax_numpy_hijax_test lax_scipy_test lax_scipy_sparse_test lax_scipy_special_functions_test lax_scipy_spectral_dac_test
    linalg_test fft_test random_lax_test random_test nn_test jet_test ode_test debug_nans_test x64_context_test errors_test
    scipy_fft_test scipy_interpolate_test scipy_ndimage_test scipy_optimize_test scipy_signal_test scipy_spatial_test
    scipy_stats_test image_test
"""
FILES = _FILES.split()
# Those of JAX's that test parts of it which have nothing to stand for here, or its own helpers (they would test themselves).
_NOT_RUN = """
    util_test lru_cache_test pretty_printer_test deprecation_test lazy_loader_test hypothesis_test_util_test warnings_util_test
    package_structure_test version_test logging_test absl_cpp_logging_test documentation_coverage_test local_wheel_smoke_test
"""
NOT_RUN = _NOT_RUN.split()


stopping = threading.Event()  # somebody has asked for an end: what has been done by then is printed


@dataclass
class Results:
    """What the tests of one file did."""

    tests: dict[str, dict[str, Any]] = field(default_factory=dict)
    broken: list[dict[str, str]] = field(default_factory=list)

    def count(self, outcome: str) -> int:
        return sum(test["outcome"] == outcome for test in self.tests.values())


def run_shard(checkout: Path, target: str, shard: tuple[int, int], arguments: argparse.Namespace) -> Results:
    """Run a part of a file in processes of its own: another one each time that a test ends its process."""
    results = Results()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.jsonl"
        while not stopping.is_set():
            report.write_text("")
            task = {
                "checkout": str(checkout), "report": str(report), "shard": shard, "seconds": arguments.seconds,
                "done": list(results.tests),
            }  # fmt: skip
            output = start(checkout, target, task, arguments)
            lines = [json.loads(line) for line in report.read_text().splitlines()]
            started = [line["started"] for line in lines if "started" in line]
            results.broken += [line for line in lines if "broken" in line]
            for line in lines:
                # a test has more than one line if it failed, and then so did what comes after it: the first counts
                if "test" in line and results.tests.get(line["test"], {}).get("outcome") in (None, "passed"):
                    results.tests[line["test"]] = line | {"outcome": outcome_of(line)}
            lost = [test for test in started if test not in results.tests]
            if stopping.is_set():
                break
            if not any("collected" in line for line in lines) and not results.broken:
                results.broken.append({"broken": target, "text": output})
            if not lost:
                break
            results.tests[lost[-1]] = {"outcome": "failed", "detail": f"the process ended: {last_words(output)}"}
    return results


def outcome_of(line: dict[str, str]) -> str:
    """The outcome of a test: a failure that is expected for JAX's text is one of text."""
    reason = reason_of(line["test"], expected_failures()) or ""
    return "text" if line["outcome"] == "failed" and reason.startswith("the text of ") else line["outcome"]


def last_words(output: str) -> str:
    """What a process wrote of its end."""
    fatal = [
        line for line in output.splitlines() if "Fatal Python error" in line or "Check failed" in line or line.startswith("F0")
    ]
    return (fatal or output.strip().splitlines() or [""])[-1][:200]


def start(checkout: Path, target: str, task: dict[str, Any], arguments: argparse.Namespace) -> str:
    """Run pytest, and return what it prints."""
    environment = {
        **os.environ,
        "PULLBACK_JAX_TESTS": json.dumps(task),
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
    }
    options = ["-c", str(HERE / "jax_pytest.ini"), "--rootdir", str(checkout), "-p", "jax_plugin", "-p", "no:cacheprovider"]
    options += ["-q", "--import-mode=importlib", *(["-k", arguments.k] if arguments.k else [])]
    options += [] if arguments.tb else ["--tb=no"]
    command = [sys.executable, "-X", "faulthandler", "-m", "pytest", *options, str(checkout / "tests" / target)]
    report, limit = Path(task["report"]), arguments.seconds + 60
    with tempfile.TemporaryFile("w+") as output:
        out = None if arguments.tb else output
        with subprocess.Popen(command, env=environment, cwd=checkout, stdout=out, stderr=subprocess.STDOUT) as process:
            while process.poll() is None:
                time.sleep(0.2)
                written = report.stat()  # at each test's start and end; before the first, modules are loaded
                if stopping.is_set() or time.time() - written.st_mtime > (limit if written.st_size else 300):
                    process.kill()
        output.seek(0)
        return output.read()


@functools.cache
def expected_failures() -> dict[str, str]:
    """The reason of each pattern of test names in jax_expected.txt: `# reason` lines, each with the patterns after it."""
    found, reason = {}, ""
    for line in EXPECTED.read_text().splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line.strip():
            found[line.strip()] = reason
    return found


def reason_of(test: str, expected: dict[str, str]) -> str | None:
    """Why a test is expected to fail; None if it is not."""
    if test in expected:
        return expected[test]
    return next((reason for pattern, reason in expected.items() if "*" in pattern and fnmatch.fnmatchcase(test, pattern)), None)


def row(name: str, results: list[Results]) -> str:
    counts = [sum(one.count(outcome) for one in results) for outcome in OUTCOMES]
    broken = " (does not import)" if any(one.broken for one in results) and len(results) == 1 else ""
    return f"{name:36}" + "".join(f"{count:10d}" for count in counts) + f"{jax_table.rates(counts)[0]:>10}{broken}"


def kinds(results: dict[str, Results], outcome: str, most: int) -> list[str]:
    """The commonest causes of an outcome, with a test of each."""
    causes: dict[str, list[str]] = collections.defaultdict(list)
    for one in results.values():
        for test, line in one.tests.items():
            if line["outcome"] == outcome:
                detail = (line["detail"].strip().splitlines() or [""])[0]
                causes[re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?(e[-+]\d+)?", "#", detail)[:150]].append(test)
    ordered = sorted(causes.items(), key=lambda cause: -len(cause[1]))
    return [f"  {len(tests):5d}  {cause}   [{tests[0]}]" for cause, tests in ordered[:most]]


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("files", nargs="*")
    parser.add_argument("-k", metavar="EXPRESSION", help="pytest's: run the tests whose names it selects")
    parser.add_argument("-n", type=int, default=1, metavar="WORKERS", help="processes at a time (1)")
    parser.add_argument("-v", action="store_true", help="print each test that does not pass, and why")
    parser.add_argument("--tb", action="store_true", help="show what pytest prints, with tracebacks")
    parser.add_argument("--list", action="store_true", help="print the files that there are, and stop")
    parser.add_argument("--all", action="store_true", help="run all files of tests/ but those of NOT_RUN")
    parser.add_argument("--causes", type=int, default=25, help="how many causes to print of each outcome (25)")
    parser.add_argument("--seconds", type=int, default=120, help="the longest that a test may take (120)")
    parser.add_argument("--page", action="store_true", help="put the counts into docs/jax-tests.md")
    parser.add_argument("--json", type=Path, help="a file to write all outcomes to")
    return parser.parse_intermixed_args(arguments)


def main(*given: str) -> int:
    """Run the tests and print the table; 0 if nothing failed that was not expected to."""
    arguments = parse(list(given))
    checkout = arguments.checkout.resolve()
    there = sorted(path.stem for path in (checkout / "tests").glob("*_test.py"))
    if arguments.list:
        print("\n".join(f"{name}{'  (not run)' if name in NOT_RUN else '  *' if name in FILES else ''}" for name in there))
        return 0
    named = arguments.files or [name for name in (there if arguments.all else FILES) if name not in NOT_RUN]
    targets = [re.sub(r"(\.py)?(::.*)?$", r".py\2", Path(name).name, count=1) for name in named]
    shards = arguments.n if len(targets) < 2 * arguments.n else 1
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: stopping.set())
    began, results = time.time(), {target: Results() for target in targets}
    print(f"{'':36}" + "".join(f"{outcome:>10}" for outcome in OUTCOMES) + f"{'rate':>10}", flush=True)
    with ThreadPoolExecutor(arguments.n) as pool:
        parts = {
            target: [pool.submit(run_shard, checkout, target, (which, shards), arguments) for which in range(shards)]
            for target in targets
        }
        for target, futures in parts.items():
            for future in futures:
                part = future.result()
                results[target].tests |= part.tests
                results[target].broken += part.broken
            print(row(target, [results[target]]), flush=True)
    print(row(f"total ({time.time() - began:.0f} s)", list(results.values())))
    for one in results.values():
        for broken in one.broken:
            print(f"\n{broken['broken']} does not import:\n{broken['text'][-2500:]}")
    for outcome in ("failed", "text", "absent", "internal"):
        if causes := kinds(results, outcome, arguments.causes):
            print(f"\n{outcome}:", *causes, sep="\n")
    if arguments.json:
        arguments.json.write_text(json.dumps({target: one.tests for target, one in results.items()}, indent=1))
    if arguments.page and not arguments.k and not stopping.is_set():
        jax_table.update(
            {target.removesuffix(".py"): [one.count(outcome) for outcome in OUTCOMES] for target, one in results.items()}
        )
    return judge(results, arguments.v)


def judge(results: dict[str, Results], verbose: bool) -> int:
    """Print what was not expected; the exit status."""
    expected = expected_failures()
    reasons: collections.Counter[str] = collections.Counter()
    unexpected, cured = [], []
    for one in results.values():
        unexpected += [broken["broken"] for broken in one.broken]
        for test, line in one.tests.items():
            reason = reason_of(test, expected)
            if line["outcome"] in ("failed", "absent") and reason is None:
                unexpected.append(test)
            elif line["outcome"] == "failed" and reason is not None:
                reasons[reason] += 1
            elif line["outcome"] == "passed" and test in expected:
                cured.append(test)
            if verbose and line["outcome"] not in ("passed", "skipped"):
                first = (line["detail"].strip().splitlines() or [""])[0]
                print(f"{line['outcome']:9}{test}  {first[:200]}{'' if reason is None else f'  (expected: {reason})'}")
    if cured:
        print("\nexpected to fail, and passed:", *cured, sep="\n  ")
    if reasons:
        print("\nexpected to fail: " + "; ".join(f"{count} by reason of {reason}" for reason, count in reasons.most_common()))
    print(
        f"\n{len(unexpected)} unexpected (failed, or in need of an absent public name)"
        if unexpected
        else "\nnothing unexpected"
    )
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
