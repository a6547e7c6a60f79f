"""What a stage changed, in sentences, the most important first."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pullback.core.brief import counted
from pullback.explorer.page_data import PageData, Row
from pullback.explorer.stages import ProgramStage
from pullback.explorer.words import listed, sized


def describe_stage(page: PageData, stage: ProgramStage, made: dict[str, Any]) -> list[str]:
    """The sentences for a stage, of which `made` is the data."""
    kind = "base" if stage.id == "base" else stage.id.partition("-")[0]
    rows = [row for row in made["rows"] if "op" in row]
    before = next((one for one in page.data["stages"] if one["id"] == stage.of), None)
    write = {
        "base": _base,
        "jvp": _forward,
        "linearize": _linearized,
        "grad": _gradient,
        "value_and_grad": _gradient,
        "vmap": _vectorized,
        "simplify": _simplified,
    }.get(kind, _other)
    return [*write(stage, made, rows, before or made), *stage.notes]


def _base(stage: ProgramStage, made: dict[str, Any], rows: list[Row], before: dict[str, Any]) -> list[str]:
    told = [f"What {stage.by[len('pb.xpr(') : -1]} does, operation by operation."]
    if dead := sum([row["role"] == "dead" for row in rows]):
        told.append(f"{counted(dead, 'equation')} {'serves' if dead == 1 else 'serve'} no result.")
    if unread := stage.parts[0].unread:
        told.append(f"The result does not depend on {_arguments(unread)}.")
    return told


def _arguments(names: list[str] | tuple[str, ...]) -> str:
    return f"{'argument' if len(names) == 1 else 'arguments'} {listed(names)}"


def _more(made: dict[str, Any], before: dict[str, Any]) -> str:
    """How the FLOPs changed: `3.1 times the FLOPs`."""
    if made["flops"] == before["flops"]:
        return "as many FLOPs"
    if not made["flops"]:
        return "no FLOPs"
    if not before["flops"]:
        return f"{made['flops']:,.0f} FLOPs, where there were none"
    ratio = made["flops"] / before["flops"]
    return (
        "as many FLOPs"
        if abs(ratio - 1) < 0.005
        else f"{ratio:.1f} times the FLOPs"
        if ratio >= 0.1
        else f"{ratio:.2g} times the FLOPs"
    )


def _added(rows: list[Row], before: dict[str, Any]) -> Counter[str]:
    """How many equations of each role were made by a rule, or by the transformation itself, and not carried over."""
    results = {row["id"] for row in before["rows"] if "ret" in row}  # from which comes what a transformation does by itself
    return Counter([row["role"] for row in rows if any([rule >= 0 or id in results for id, rule in row["from"]])])


def _forward(stage: ProgramStage, made: dict[str, Any], rows: list[Row], before: dict[str, Any]) -> list[str]:
    new = _added(rows, before)
    needed = f", and {new['residual']:,} that they need" if new["residual"] else ""
    many = counted(new["tangent"], "equation") if new["tangent"] else "no equations"
    return [f"A tangent beside each value that moves: {many}{needed}; {_more(made, before)}."]


def _linearized(stage: ProgramStage, made: dict[str, Any], rows: list[Row], before: dict[str, Any]) -> list[str]:
    forward = stage.parts[0]
    inputs = set(forward.program.inputs)
    arguments = sum([variable in inputs for variable in forward.kept])
    size = sum([variable.type.nbytes for variable in forward.kept if variable not in inputs])
    values = len(forward.kept) - arguments
    kept = [f"{counted(values, 'value')} ({sized(size)})"] if values else []
    kept += [counted(arguments, "argument")] if arguments else []
    verb = "is" if len(forward.kept) < 2 else "are"
    return [f"{' and '.join(kept) or 'Nothing'} {verb} kept for the linear map of tangents."]


def _gradient(stage: ProgramStage, made: dict[str, Any], rows: list[Row], before: dict[str, Any]) -> list[str]:
    waiting = max([row.get("held", 0) for row in rows], default=0)
    new = _added(rows, before)
    added = new["cotangent"] + new["residual"]
    left = sum([row["role"] != "dead" for row in before["rows"] if "op" in row]) - (len(rows) - added)
    serves = "serves" if new["residual"] == 1 else "serve"
    runs = "runs" if new["cotangent"] == 1 else "run"
    parts = [f"{new['cotangent']:,} {runs} backward"] if new["cotangent"] else []
    parts += [f"{new['residual']:,} only {serves} these"] if new["residual"] else []
    what = f"{counted(added, 'equation')}: {', '.join(parts)}" if added else "no equations"
    told = [f"grad added {what}; {_more(made, before)}."]
    if stage.flat:
        told.append(
            f"The gradient is zero with respect to {_arguments(stage.flat)}: nothing that has a derivative leads from there to"
            " the result."
        )
    if left > 0:
        told.append(f"{counted(left, 'equation')} of the forward pass {'is' if left == 1 else 'are'} not needed.")
    if left < 0:
        told.append(f"{counted(-left, 'equation')} of the forward pass {'is' if left == -1 else 'are'} repeated.")
    told.append(f"{sized(waiting)} wait for the backward pass at most." if waiting else "Nothing waits for the backward pass.")
    return told


def _vectorized(stage: ProgramStage, made: dict[str, Any], rows: list[Row], before: dict[str, Any]) -> list[str]:
    told = []
    conds = {parent for row in rows if row["op"] == "cond_as_select" for parent, _ in row["from"]}
    if conds:
        told.append(_selects(stage, rows, before, conds))
    plumbing = sum([row["role"] == "batch" for row in rows])
    depends = {number for number, variable in enumerate(made["vars"]) if len(variable) > 2}
    once = 0
    for row in rows:
        if depends.isdisjoint([*row["in"], *row["out"]]):
            once += 1
        else:
            depends.update(row["out"])  # also without a batch axis: a sum over the batch, and what is made of it
    ratio = _more(made, before)
    elements, all_rows = counted(stage.batch or 0, "batch element"), counted(len(rows), "equation")
    alike = f"; {once} of {all_rows} {'does' if once == 1 else 'do'} not depend on the batch" if once else ""
    told.append(f"{ratio[:1].upper()}{ratio[1:]} for {elements}{alike}.")
    if plumbing:
        told.append(f"{counted(plumbing, 'equation')} only {'brings' if plumbing == 1 else 'bring'} batch axes into place.")
    return told


def _selects(stage: ProgramStage, rows: list[Row], before: dict[str, Any], conds: set[int]) -> str:
    """The sentence for the conds, by the ids of their rows, that became selects."""
    inside: set[int] = set()
    one_branch = 0.0
    for place, row in enumerate(before["rows"]):
        if row["id"] in conds and row["id"] not in inside:  # what a cond takes includes those in its branches
            inside.update([held["id"] for held in before["rows"][place : place + 1 + row.get("span", 0)]])
            one_branch += (stage.batch or 1) * row["flops"]
    all_branches = sum([row["flops"] for row in rows if "span" not in row and any([id in inside for id, _ in row["from"]])])
    what = "this cond into a select" if len(conds) == 1 else f"{len(conds)} conds into selects"
    ratio = f": {all_branches / one_branch:.1f} times the FLOPs of the most expensive branch" if one_branch else ""
    return f"vmap turned {what}{ratio}, since all branches run for every batch element."


def _simplified(stage: ProgramStage, made: dict[str, Any], rows: list[Row], before: dict[str, Any]) -> list[str]:
    gone = before["count"] - made["count"]
    return (
        [f"{counted(gone, 'equation')} fewer: dead, repeated, or without effect on the values."]
        if gone
        else ["There was nothing to take out."]
    )


def _other(stage: ProgramStage, made: dict[str, Any], rows: list[Row], before: dict[str, Any]) -> list[str]:
    return [f"{counted(made['count'], 'equation')}, where there were {before['count']:,}; {_more(made, before)}."]
