"""Jaxprs as text: what is printed is the same as JAX prints, and jaxlib's own layout of documents breaks its lines."""

from __future__ import annotations

import itertools
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pullback.engine.jaxlib import pretty_printer

layout: Any = pretty_printer()

# Parameters that JAX leaves out: of some operations always, and where they say nothing.
_HIDDEN = {
    "convert_element_type": ["sharding"],
    "broadcast_in_dim": ["shape", "sharding"],
    "dot_general": ["out_sharding"],
    "jit": ["inline", "in_shardings", "out_shardings", "in_layouts", "out_layouts", "ctx_mesh", "compiler_options_kvs"],
    "custom_vjp_call": ["out_trees"],
}
_NOTHING = {
    "accuracy": (None,),
    "out_dtype": (None,),
    "precision": (None,),
    "preferred_element_type": (None,),
    "num_consts": (0,),
    "keep_unused": (False,),
    "broadcast_dimensions": ((),),
}
_KEPT = ("scan", "conv_general_dilated")  # which print all that they have
_FIRST = ("jit", "custom_jvp_call", "custom_vjp_call")  # whose name comes first
_RENAMED = {"jvp_jaxpr_fun": "jvp", "fwd_jaxpr_thunk": "fwd"}


def jaxpr_text(
    printed: Any,
    *,
    source_info: bool = False,
    print_shapes: bool = True,
    custom_pp_eqn_rules: bool = True,
    name_stack: bool = False,
    print_effects: bool = False,
    use_color: bool = False,
    width: int = 80,
    **ignored: Any,
) -> str:
    """A Jaxpr, or one equation, as text."""
    text = _Text(source_info, print_shapes, custom_pp_eqn_rules, name_stack, print_effects)
    doc = text.whole(printed) if hasattr(printed, "eqns") else text.equation(printed)
    plain = {"use_color": False, "output_format": layout.OutputFormat.TEXT, "separable_lines": False}
    formatted: str = doc._format(width, **plain, annotation_prefix=" # ", source_map=None)
    return formatted


def _names() -> Iterator[str]:
    for number in itertools.count():
        name = ""
        while not name or number:
            number, letter = divmod(number, 26)
            name = chr(97 + letter) + name
        yield name


def jaxprs_in_params(params: dict[str, Any]) -> list[Any]:
    """The Jaxprs among parameters, and in tuples and lists of theirs."""
    values = [one for value in params.values() for one in (value if isinstance(value, (tuple, list)) else (value,))]
    return [getattr(one, "jaxpr", one) for one in values if hasattr(one, "eqns")]


def _row(*parts: Any) -> Any:
    """Texts and documents, one behind the other."""
    return layout.concat([layout.text(part) if isinstance(part, str) else part for part in parts])


def _joined(separator: Any, docs: Sequence[Any]) -> Any:
    return layout.concat([part for i, doc in enumerate(docs) for part in ([separator, doc] if i else [doc])])


def _bracketed(left: str, docs: Sequence[Any], right: str) -> Any:
    """Documents in brackets: in one line, or each in its own."""
    inner = layout.nest(2, _row(left, layout.brk(""), _joined(layout.brk(), docs)))
    return layout.group(_row(inner, layout.brk(""), right))


class _Text:
    """What printing one Jaxpr keeps: the names of variables, which are the same in the Jaxprs inside, and the Jaxprs that are
    used several times, which come first."""

    def __init__(self, sources: bool, shapes: bool, brief: bool, scopes: bool, effects: bool) -> None:
        self.sources, self.shapes, self.brief, self.scopes, self.effects = sources, shapes, brief, scopes, effects
        self.names: dict[Any, str] = {}
        self.shared: dict[Any, str] = {}
        taken = self.shared.values()
        self.fresh = (name for name in _names() if name not in taken)

    def whole(self, jaxpr: Any) -> Any:
        used = {x for x in jaxpr.outvars if not hasattr(x, "val")}
        for equation in reversed(jaxpr.eqns):
            self.names.update([(x, "_") for x in equation.outvars if x not in used])
            used.update([x for x in equation.invars if not hasattr(x, "val")])
        counts: Counter[Any] = Counter()
        called: dict[Any, str] = {}
        left = deque([jaxpr])
        while left:
            one = left.popleft()
            counts[one] += 1 + (one is not jaxpr and len(one.eqns) > 10)
            for equation in one.eqns:
                name = equation.params.get("name")
                for inner in jaxprs_in_params(equation.params):
                    left.append(inner)
                    if isinstance(name, str):
                        called.setdefault(inner, name.strip("<>"))
        several = [one for one, count in counts.items() if count > 1]
        seen = Counter[str]()
        for one in several:
            name = called.get(one, "jaxpr")
            self.shared[one] = f"{name}{seen[name] or ''}"
            seen[name] += 1
        before = [_row(f"let {self.shared[one]} = ", self.skeleton(one), " in", layout.brk()) for one in several]
        return _row(*before, self.skeleton(jaxpr))

    def skeleton(self, jaxpr: Any) -> Any:
        constvars, invars = self.bound(jaxpr.constvars), self.bound(jaxpr.invars)
        equations = _joined(layout.brk("; "), [self.equation(one) for one in jaxpr.eqns])
        effects = f" : {{ {', '.join(map(str, jaxpr.effects))} }}" if self.effects else ""
        results = _row("(", self.read(jaxpr.outvars, ","), ")" if len(jaxpr.outvars) != 1 else ",)", effects)
        body = _row(layout.nest(2, _row(layout.brk(), equations)), layout.brk(), "in ", results)
        head = _row("{ lambda ", constvars, "; ", invars, ". let")
        return _row(layout.group(layout.nest(2, _row(head, body))), " }")

    def jaxpr(self, jaxpr: Any) -> Any:
        return layout.text(self.shared[jaxpr]) if jaxpr in self.shared else self.skeleton(jaxpr)

    def name(self, x: Any) -> str:
        if type(x).__name__ == "DropVar":
            return "_"
        if x not in self.names:
            self.names[x] = next(self.fresh)
        return self.names[x]

    def atom(self, x: Any) -> str:
        if not hasattr(x, "val"):
            return self.name(x)
        try:
            value = "[...]" if np.shape(x.val) else str(np.asarray(x.val).item())
        except Exception:
            value = "[...]"
        dtype = getattr(x.aval, "dtype", None)
        return value if dtype is None else f"{value}:{x.aval.str_short(short_dtypes=True)}"

    def row(self, words: list[str], separator: str) -> Any:
        between = layout.concat([layout.text(separator), layout.group(layout.brk())])
        return layout.nest(2, layout.group(_joined(between, [layout.text(word) for word in words])))

    def bound(self, variables: Sequence[Any]) -> Any:
        return self.row(
            [f"{self.name(x)}:{x.aval.str_short(short_dtypes=True)}" if self.shapes else self.name(x) for x in variables], ""
        )

    def read(self, atoms: Sequence[Any], separator: str = "") -> Any:
        return self.row([self.atom(x) for x in atoms], separator)

    def alike(self, those: Sequence[Any], these: Sequence[Any]) -> None:
        """Give variables inside the names that the ones outside have."""
        taken = set()
        if len(those) == len(these):
            for x, y in zip(those, these):
                if not hasattr(y, "val") and y not in taken and not hasattr(x, "val") and x not in self.names:
                    taken.add(y)
                    self.names[x] = self.name(y)

    def params(self, equation: Any) -> list[Any]:
        params, name = dict(equation.params), equation.primitive.name
        if not self.brief:
            return sorted(params.items())
        if name not in _KEPT:
            hidden = [*_HIDDEN.get(name, ()), *[key for key, nothing in _NOTHING.items() if params.get(key) in nothing]]
            params = {key: value for key, value in params.items() if key not in hidden}
        if name == "jit" and not any(params["donated_invars"]):
            del params["donated_invars"]
        if name == "dot_general":
            (lhs, rhs), (lhs_batch, rhs_batch) = params["dimension_numbers"]
            params["dimension_numbers"] = ([*map(int, lhs)], [*map(int, rhs)]), ([*map(int, lhs_batch)], [*map(int, rhs_batch)])
        if name not in _FIRST:
            return sorted(params.items())
        called = params.pop("name", None)
        renamed = {_RENAMED.get(key, key): value for key, value in params.items()}
        for key in ("jvp", "fwd", "bwd"):
            if hasattr(renamed.get(key), "debug_info"):
                renamed[key] = renamed[key].debug_info.func_name
        if called is None and "call_jaxpr" in params:
            called = params["call_jaxpr"].jaxpr.debug_info.func_name
        return [("name", called), *sorted(renamed.items())]

    def param(self, key: str, value: Any) -> Any:
        if type(value) is tuple and value and all([hasattr(one, "eqns") for one in value]):
            doc = _bracketed("(", [self.jaxpr(getattr(one, "jaxpr", one)) for one in value], ")")
        elif hasattr(value, "eqns"):
            doc = self.jaxpr(getattr(value, "jaxpr", value))
        elif isinstance(value, frozenset):
            doc = f"frozenset({{{', '.join(repr(one) for one in sorted(value))}}})"
        else:
            doc = re.sub(r" at 0x([0-9a-fA-F]+)", lambda found: " at 0x" + "X" * len(found.group(1)), str(value))
        return _row(f"{key}=", doc)

    def equation(self, equation: Any) -> Any:
        if equation.primitive.name == "jit" and (jaxpr := equation.params["jaxpr"].jaxpr) not in self.shared:
            self.alike(jaxpr.invars, equation.invars)
            self.alike(jaxpr.outvars, equation.outvars)
        left = self.bound(equation.outvars)  # the names of which come first
        params = [self.param(key, value) for key, value in self.params(equation)]
        scope = f"[{equation.source_info.name_stack}]" if self.scopes else None
        name = layout.text(equation.primitive.name, scope, None, None)
        right = _row(name, _bracketed("[", params, "]") if params else "", " ", self.read(equation.invars))
        if not equation.outvars:
            return right
        note = str(equation.source_info.source) if self.sources and equation.source_info.source is not None else None
        return _row(left, layout.text(" = ", note, None, None), right)
