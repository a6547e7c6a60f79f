"""Whether the data of an explorer page keep the rules of their format, docs/explorer-format.md."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from pullback.core.errors import ProgramError

FORMAT = "pullback.explorer"
VERSION = 1
ROLES = ("primal", "tangent", "cotangent", "residual", "batch", "dead")
KINDS = ("source", "program", "text")
HEADS = ("part", "scope", "repeat", "copy", "body", "args")
_WHAT_A_ROW_IS = ("op", "arg", "ret", "text", "head")
_SLACK = 1e-6  # relative: sums are of floating-point numbers

Fail = Callable[[str], NoReturn]
Test = Callable[[Any], bool]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_amount(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_anything(value: Any) -> bool:
    return True


def _list_of(test: Test) -> Test:
    return lambda value: isinstance(value, list) and all(map(test, value))


def _one_of(*values: str) -> Test:
    return lambda value: value in values


def _is_atom(value: Any) -> bool:
    return _is_count(value) or _is_text(value)


def _is_edge(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and _is_count(value[0]) and (value[1] == -1 or _is_count(value[1]))


def _is_parameter(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_text, value))


def _is_number(value: Any) -> bool:
    return (
        value in ("nan", "inf", "-inf")
        if isinstance(value, str)
        else _is_amount(abs(value))
        if isinstance(value, (int, float))
        else False
    )


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_variable(value: Any) -> bool:
    """`[name, type]` or `[name, type, axes]`."""
    if not isinstance(value, list) or len(value) not in (2, 3):
        return False
    return all(map(_is_text, value[:2])) and all(map(_list_of(_is_count), value[2:]))


def _is_peak(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and _is_count(value[0]) and _is_amount(value[1])


def _is_donation(value: Any) -> bool:
    return value is True or _is_count(value)


def _all(test: Test, *names: str) -> dict[str, Test]:
    return dict.fromkeys(names, test)


_RULE = _all(_is_text, "name", "at", "text")
_PAGE = {
    **_all(_is_text, "format", "title", "call", "file"),
    "version": _is_count,
    **_all(_list_of(_is_object), "rules", "stages"),
    **_all(_is_object, "profile", "find"),
    "inline": _is_flag,
    "theme": _one_of("light", "dark"),
}
_STAGE = {
    **_all(_is_text, "id", "name", "by"),
    "kind": _one_of(*KINDS),
    "rows": _list_of(_is_object),
    "vars": _list_of(_is_variable),
    "count": _is_count,
    **_all(_is_amount, "flops", "bytes", "time"),
    "deltas": _list_of(_is_text),
    "values": _is_flag,
    "peak": _is_peak,
    "backend": _is_object,
}
_BACKEND = _all(_is_amount, "flops", "bytes", "temp", "peak")
_ROW = {
    "id": _is_count,
    **_all(_is_text, "op", "arg", "text", "label", "note", "shard", "file"),
    "head": _one_of(*HEADS),
    "role": _one_of(*ROLES),
    **_all(_list_of(_is_atom), "in", "ret"),
    **_all(_list_of(_is_count), "out", "kept"),
    "from": _list_of(_is_edge),
    "params": _list_of(_is_parameter),
    **_all(_is_count, "span", "count", "period", "line", "trips", "times", "into"),
    **_all(_is_amount, "flops", "bytes", "live", "held", "time"),
    "main": _is_flag,
    "donated": _is_donation,
    "value": _is_anything,
}
_VALUE = {**_all(_is_number, "min", "max", "mean"), **_all(_is_count, "nan", "inf", "count"), "sample": _list_of(_is_number)}
_FRAME = {"name": _is_text, "time": _is_amount, "from": _list_of(_is_count), "depth": _is_count}
_PROFILE = {"unit": _one_of("s"), "total": _is_amount, "rows": _list_of(_is_object), **_all(_is_text, "name", "by")}


def check_page(data: Any) -> None:
    """Raises where the data of an explorer page break a rule of the format ("What must hold").

    Arguments:
        data: the data, as `page_html` takes them.

    Returns:
        None.

    Raises:
        ProgramError: a rule is broken; the message names the place, what was expected and what is there.

    Example:
        >>> from pullback.explorer.checked import check_page
        >>> rows = [{"id": 1, "text": "y = 2 * x"}, {"id": 1, "text": "return y"}]
        >>> source = {"id": "source", "name": "Source", "by": "f.py", "kind": "source", "rows": rows}
        >>> check_page({"format": "pullback.explorer", "version": 1, "stages": [source]})
        Traceback (most recent call last):
            ...
        pullback.core.errors.ProgramError: In the data of an explorer page, stage source, row 1: its id is ...
    """
    _Checker(data).check()


class _Checker:
    def __init__(self, data: Any) -> None:
        self.data = data
        self.order: dict[int, int] = {}  # row ids, in the order of the page
        self.where = ""

    def fail(self, problem: str) -> NoReturn:
        where = f", {self.where}" if self.where else ""
        raise ProgramError(f"In the data of an explorer page{where}: {problem} docs/explorer-format.md says what must hold.")

    def fields(self, found: Any, known: dict[str, Test], needed: Iterable[str]) -> None:
        """An object has the fields that it needs, and no others than are known, each of the kind that it should be."""
        if not isinstance(found, dict):
            self.fail(f"expected an object, got {found!r:.80}.")
        for key in needed:
            if key not in found:
                self.fail(f"{key!r} is missing.")
        for key, value in found.items():
            if key not in known:
                self.fail(f"{key!r} is not a field of the format; there are {', '.join(known)}.")
            if not known[key](value):
                self.fail(f"{key!r} is not what the format says it is: {value!r:.80}.")

    def names_row(self, id_: int, what: str) -> None:
        if id_ not in self.order:
            self.fail(f"{what} names row {id_}, which is not on the page.")

    def check(self) -> None:
        data = self.data
        if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("version") != VERSION:
            self.fail(f"it needs format {FORMAT!r} and version {VERSION}.")
        self.fields(data, _PAGE, ["stages"])
        for number, rule in enumerate(data.get("rules", [])):
            self.where = f"rule {number}"
            self.fields(rule, _RULE, ["name"])
        self.number_rows()
        for stage in data["stages"]:
            self.check_stage(stage)
        self.where = "find"
        if "find" in data:
            self.fields(data["find"], {"row": _is_count, "text": _is_text}, ["row", "text"])
            self.names_row(data["find"]["row"], "it")
        self.where = "profile"
        if "profile" in data:
            self.check_profile(data["profile"])

    def number_rows(self) -> None:
        seen: set[str] = set()
        for number, stage in enumerate(self.data["stages"]):
            self.where = f"stage {stage.get('id', number)}"
            self.fields(stage, _STAGE, ["id", "name", "by", "kind", "rows"])
            if stage["id"] in seen:
                self.fail("its id is that of another stage.")
            seen.add(stage["id"])
            for row in stage["rows"]:
                self.where = f"stage {stage['id']}, row {row.get('id', '?')}"
                self.fields(row, _ROW, ["id"])
                if row["id"] in self.order:
                    self.fail("its id is that of another row.")
                self.order[row["id"]] = len(self.order)

    # ---- stages

    def check_stage(self, stage: dict[str, Any]) -> None:
        rows, variables = stage["rows"], stage.get("vars", [])
        defined: set[int] = set()
        ends: list[int] = []  # of the spans that are open
        top = 0.0  # FLOPs of the equations that are not inside another
        inside = -1  # the end of the equation at the top level that was met last
        for place, row in enumerate(rows):
            self.where = f"stage {stage['id']}, row {row['id']}"
            while ends and place > ends[-1]:
                ends.pop()
            end = place + row.get("span", 0)
            limit = ends[-1] if ends else len(rows) - 1
            if end > limit:
                self.fail(f"it holds {row['span']} rows, of which {end - limit} are beyond the end of what holds it.")
            if end > place:
                ends.append(end)
            if "op" in row and place > inside:
                top += row.get("flops", 0)
                inside = end
            self.check_row(stage, row, place, defined)
        self.where = f"stage {stage['id']}"
        for name, type_, *axes in variables:
            rank = 0 if "[" not in type_ or "[]" in type_ else type_.count(",") + 1
            if axes and any(axis >= rank for axis in axes[0]):
                self.fail(f"variable {name} of type {type_} has batch axes {axes[0]}.")
        if stage["kind"] == "program" and "flops" in stage and abs(top - stage["flops"]) > _SLACK * max(top, stage["flops"], 1):
            self.fail(f"its equations take {top:.17g} FLOPs together, and it says {stage['flops']:.17g}.")
        if "peak" in stage:
            self.names_row(stage["peak"][0], "its peak")
        if "backend" in stage:
            self.fields(stage["backend"], _BACKEND, [])

    def check_row(self, stage: dict[str, Any], row: dict[str, Any], place: int, defined: set[int]) -> None:
        kinds = [key for key in _WHAT_A_ROW_IS if key in row]
        if len(kinds) != 1:
            self.fail(f"it should have one of {', '.join(_WHAT_A_ROW_IS)}; it has {', '.join(kinds) or 'none'}.")
        kind = kinds[0]
        allowed = {"source": ("text", "head"), "text": ("text", "head"), "program": ("op", "arg", "ret", "head")}[stage["kind"]]
        if kind not in allowed:
            self.fail(f"a row of {kind!r} does not belong in a stage of kind {stage['kind']!r}.")
        for key in {"op": ("out", "in"), "arg": ("out",), "head": ("label",)}.get(kind, ()):
            if key not in row:
                self.fail(f"{key!r} is missing.")
        if kind == "op" and not row.get("from"):
            self.fail(f"equation {row['op']} has no 'from': every equation comes from a line or from another equation.")
        if row.get("head") == "repeat":
            self.check_repeat(stage["rows"], row, place)
        self.check_variables(stage, row, defined)
        self.check_references(stage, row)
        if "live" in row and "peak" in stage and row["live"] > stage["peak"][1] * (1 + _SLACK):
            self.fail(f"{row['live']} bytes are live, and the peak of the stage is {stage['peak'][1]}.")
        if row.get("held", 0) > row.get("live", 0):
            self.fail(f"{row['held']} bytes wait for the backward pass, and {row.get('live', 0)} are live in all.")
        values = row.get("value")
        for value in values if isinstance(values, list) else [values]:
            if value is not None:
                self.check_value(value)
        if isinstance(values, list) and len(values) != len(row.get("out", [])):
            self.fail(f"it has {len(values)} values of {len(row.get('out', []))} results.")

    def check_repeat(self, rows: list[dict[str, Any]], row: dict[str, Any], place: int) -> None:
        """It holds as many copies as it says, one behind the other."""
        copies, at, end = 0, place + 1, place + row.get("span", 0)
        while at <= end and at < len(rows) and rows[at].get("head") == "copy":
            copies += 1
            at += 1 + rows[at].get("span", 0)
        if copies != row.get("count") or at != end + 1:
            self.fail(f"a repeat of {row.get('count')} holds {copies} rows of head 'copy'.")

    def check_variables(self, stage: dict[str, Any], row: dict[str, Any], defined: set[int]) -> None:
        count = len(stage.get("vars", []))
        for key in ("out", "in", "ret"):
            for atom in row.get(key, []):
                if isinstance(atom, int) and atom >= count:
                    self.fail(f"{key!r} names variable {atom}, and the stage has {count}.")
                if key != "out" and isinstance(atom, int) and atom not in defined:
                    self.fail(f"{key!r} names variable {stage['vars'][atom][0]} before a row defines it.")
        for variable in row.get("out", []):
            if variable in defined:
                self.fail(f"variable {stage['vars'][variable][0]} has been defined before.")
            defined.add(variable)
        for position in row.get("kept", []):
            if position >= len(row.get("out", [])):
                self.fail(f"'kept' names result {position} of {len(row.get('out', []))}.")

    def check_references(self, stage: dict[str, Any], row: dict[str, Any]) -> None:
        for parent, rule in row.get("from", []):
            self.names_row(parent, "'from'")
            if self.order[parent] >= self.order[row["id"]]:
                self.fail(f"it comes from row {parent}, which stands behind it.")
            if rule >= len(self.data.get("rules", [])):
                self.fail(f"'from' names rule {rule} of {len(self.data.get('rules', []))}.")
        for key in ("line", "into"):
            if key in row and (key == "into" or stage["kind"] != "source"):
                self.names_row(row[key], repr(key))
        if "donated" in row and row["donated"] is not True:
            self.names_row(row["donated"], "'donated'")

    def check_value(self, value: Any) -> None:
        self.fields(value, _VALUE, [])
        numbers = [value[key] for key in ("min", "mean", "max") if isinstance(value.get(key), (int, float))]
        slack = _SLACK * max(map(abs, numbers), default=0)
        if any(low > high + slack for low, high in itertools.pairwise(numbers)):
            self.fail(f"its least, mean and greatest values are not in order: {numbers}.")
        if "count" in value and value.get("nan", 0) + value.get("inf", 0) > value["count"]:
            self.fail(f"{value.get('nan', 0)} values are NaN and {value.get('inf', 0)} infinite, of {value['count']}.")

    # ---- the profile

    def check_profile(self, profile: dict[str, Any]) -> None:
        self.fields(
            profile,
            {"unit": _one_of("s"), "total": _is_amount, "rows": _list_of(_is_anything), "name": _is_text, "by": _is_text},
            ["unit", "rows"],
        )
        left: list[float] = [profile.get("total", math.inf)]  # of the whole, and of the frames that hold the next one
        for number, frame in enumerate(profile["rows"]):
            self.where = f"profile, row {number}"
            self.fields(frame, _FRAME, ["name", "time", "depth"])
            if frame["depth"] >= len(left):
                self.fail(f"its depth is {frame['depth']}, and that of the row before it {len(left) - 2}.")
            del left[frame["depth"] + 1 :]
            left[-1] -= frame["time"]
            if left[-1] < -_SLACK * max(frame["time"], profile.get("total", 0)):
                self.fail(f"with it, what stands in the same frame takes {-left[-1]:.3g} s more than that frame.")
            left.append(frame["time"])
            for id_ in frame.get("from", []):
                self.names_row(id_, "'from'")
