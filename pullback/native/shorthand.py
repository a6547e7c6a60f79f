"""How LLVM text is written by hand here: fields of records by their names, functions by those of a table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def expanded(file: str, table: Sequence[str], records: Mapping[str, Sequence[str]], places: Mapping[str, Any]) -> str:
    """The LLVM text in a file of this folder, with its short forms spelled out.

    `$name` is what `@table` has for a name. `%x = RECORD(%at, field)` loads a field of a record of words, a pointer or of the
    type behind it; `%x = &RECORD(%at, field)` is where it lies. `{name}` is what `places` has for it.
    """
    text = (Path(__file__).parent / file).read_text(encoding="utf-8")
    text = "\n".join([line for line in text.splitlines() if not line.startswith(";")])
    text = re.sub(r"\{([a-z_]+)\}", lambda found: str(places[found[1]]), text)
    lines: list[str] = []
    for number, line in enumerate(text.splitlines()):
        if found := re.fullmatch(r"  (%[\w.]+) = (&?)([A-Z]+)\((%[\w.]+), (\w+)(?:, (\w+))?\)", line):
            name, address, record, where, field, type = found.groups()
            at = name if address else f"{name}.at"
            lines.append(f"  {at} = getelementptr i8, ptr {where}, i64 {8 * records[record].index(field)}")
            if not address:
                lines.append(f"  {name} = load {type or 'ptr'}, ptr {at}")
            continue
        for name in dict.fromkeys(re.findall(r"\$(\w+)", line)):
            place = f"getelementptr (i8, ptr @table, i64 {8 * table.index(name)})"
            lines.append(f"  %table.{number}.{name} = load ptr, ptr {place}")
        lines.append(re.sub(r"\$(\w+)", rf"%table.{number}.\1", line))
    return "\n".join(lines)


# ---- numbers below the smallest normal one ---------------------------------------------------------------------------------

_FLUSHING = {
    "x86_64": (  # bits 6 and 15 of MXCSR: numbers below the smallest normal one are 0 as operands, and as results
        "%state.at = alloca i32\ncall void @llvm.x86.sse.stmxcsr(ptr %state.at)\n%state = load i32, ptr %state.at\n"
        "%flush = or i32 %state, 32832\nstore i32 %flush, ptr %state.at\ncall void @llvm.x86.sse.ldmxcsr(ptr %state.at)",
        "%state.at = alloca i32\ncall void @llvm.x86.sse.stmxcsr(ptr %state.at)\n%state = load i32, ptr %state.at\n"
        "%usual = and i32 %state, -32833\nstore i32 %usual, ptr %state.at\ncall void @llvm.x86.sse.ldmxcsr(ptr %state.at)",
        "store i32 %state, ptr %state.at\ncall void @llvm.x86.sse.ldmxcsr(ptr %state.at)",
        "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)",
    ),
    "aarch64": (  # bit 24 of FPCR
        "%state = call i64 @llvm.aarch64.get.fpcr()\n%flush = or i64 %state, 16777216\n"
        "call void @llvm.aarch64.set.fpcr(i64 %flush)",
        "%state = call i64 @llvm.aarch64.get.fpcr()\n%usual = and i64 %state, -16777217\n"
        "call void @llvm.aarch64.set.fpcr(i64 %usual)",
        "call void @llvm.aarch64.set.fpcr(i64 %state)",
        "declare i64 @llvm.aarch64.get.fpcr()\ndeclare void @llvm.aarch64.set.fpcr(i64)",
    ),
}


def flushing(triple: str) -> dict[str, str]:
    """What short forms in braces stand for: `flush` makes numbers below the smallest normal one 0, as XLA's code does;
    `unflushed` makes them numbers again; `unflush` undoes either. `modes` declares what these call."""
    which = "x86_64" if triple.startswith("x86_64") else "aarch64"
    return dict(zip(("flush", "unflushed", "unflush", "modes"), _FLUSHING[which], strict=True))
