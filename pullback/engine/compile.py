"""From a Program to an executable: simplify, lower, compile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core.array import Array
from pullback.core.program import Program
from pullback.engine.lower import constant_arrays, lower_program
from pullback.engine.xla import Executable, backend


def compile_program(program: Program, platform: str = "cpu", donated: Sequence[bool] = ()) -> Executable:
    """Compile a Program for the first device of a platform; remembered with the Program."""

    def make() -> Executable:
        text, _ = lower_program(program, platform, donated, program.name)
        there = backend(platform)
        return Executable(
            there,
            there.compile(text),
            text,
            program.input_types,
            program.output_types,
            constant_arrays(program),
            [i for i, flag in enumerate(donated) if flag],
        )

    made: Executable = program.memo(("executable", platform, tuple(donated)), make)
    return made


def execute(program: Program, arrays: Sequence[Array]) -> list[Any]:
    """Compile, if that has not been done yet, and run."""
    return compile_program(program)(arrays)
