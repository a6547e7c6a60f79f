"""What a kernel is: LLVM text, and all that its caller must know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.core.types import ArrayType
from pullback.native.graph import Refused

SECONDS_A_WEIGHT = 0.15e-9  # what a unit of weight takes, about
PARALLEL = 250_000  # weight, above which threads divide the blocks
MAX_ARRAYS = 4096  # inputs, constants and results of a kernel: the entry keeps their addresses on the stack


@dataclass(frozen=True, eq=False)
class Kernel:
    """A Program as an LLVM module that defines

        i32 @kernel(ptr %results, ptr %operands, ptr %workspace, ptr %poll, i64 %begin, i64 %end)

    `results` and `operands` are arrays of pointers to elements in C order, aligned as one is. Behind the inputs come the
    constants. Behind the results come the address of memory that all calls for these operands share, at a multiple of 64 bytes,
    and a zero, with which the calls count what is done. `workspace` starts at a multiple of 64 bytes and is this call's own.
    `poll` is `i32 ()`, or null: a long loop calls it about every millisecond, and returns 1 if it does not return 0. Else the
    kernel returns 0.

    Raises `Refused` of too many arrays.

    Attributes:
        source: the module. inputs, outputs: the types of the inputs and of the results. constants: arrays in C order.
        workspace: in bytes, of a call for a range of blocks.
        shared: bytes of the memory that is shared.
        blocks: into how many parts the work can be divided, of which a call does `begin` to `end`; how they are divided among
            calls changes no result. divided: whether threads divide them.
        weight: how many vector instructions all of it takes, about; sorting: how many of them sort.
        by_rows: whether it is one pass over rows.
    """

    source: str
    inputs: tuple[ArrayType, ...]
    outputs: tuple[ArrayType, ...]
    constants: tuple[np.ndarray[Any, Any], ...] = ()
    workspace: int = 0
    shared: int = 0
    blocks: int = 1
    weight: float = 0.0
    sorting: float = 0.0
    by_rows: bool = False

    def __post_init__(self) -> None:
        arrays = len(self.inputs) + len(self.constants) + len(self.outputs)
        if arrays > MAX_ARRAYS:
            raise Refused(f"its inputs, constants and results are {arrays} arrays, of at most {MAX_ARRAYS}")

    @property
    def divided(self) -> bool:
        """Whether threads divide the blocks."""
        return self.blocks > 1 and self.weight > PARALLEL
