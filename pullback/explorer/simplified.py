"""What simplification did to each equation: those that it left out say which one does their work, or that nothing needs it."""

from __future__ import annotations

from pullback.explorer.page_data import PageData
from pullback.program.program import Program
from pullback.transforms.simplify import merged


def note_left_out(page: PageData, of: str, program: Program) -> None:
    """Tell, in the rows of the stage before, what became of those that are not in the simplified Program."""
    repeated = _merged(program)
    kept = page.rows["simplify"]
    for id, rows in page.rows[of].items():
        if id in kept:
            continue
        stayed = id
        while stayed in repeated:
            stayed = repeated[stayed]
        for row in rows:
            if stayed != id and stayed in page.rows[of]:
                row["into"] = page.rows[of][stayed][0]["id"]
                row["note"] = "A repetition: simplify has it done once."
            else:
                row["role"] = "dead"
                row["note"] = "simplify took this out: nothing uses it, or a shorter form does its work."
            for one in kept.get(stayed, ()):
                one["from"].append([row["id"], -1])


def _merged(program: Program) -> dict[int, int]:
    """By the ids of equations that repeat others, in a simplified Program or one inside it, the id of that which is left."""
    found = dict(merged(program))
    for inner in program.subprograms():
        found |= _merged(inner)
    return found
