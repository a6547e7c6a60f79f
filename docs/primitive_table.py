"""The page of primitives: each operation, the rules that it has, those that follow from others, what is missing, what it costs.

docs/generate.py writes it to docs/primitives.md. All of it is read from the primitives themselves; what no code says, why a
derivative is missing, stands in `WITHOUT` below.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import textwrap
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

import pullback
from pullback.core.array import as_array
from pullback.core.dtypes import is_inexact, kind
from pullback.core.fields import FIELDS
from pullback.core.primitive import Primitive
from pullback.transforms.jvp import has_derivative

# Packages that cannot hold operations of the library's own: other libraries' names, and what starts processes.
APART = ("pullback.compat", "pullback.__main__", "pullback.launch", "pullback.cli")

# Why operations whose results are floats, or whose samples do not tell, have no derivative.
WITHOUT = {
    "bitcast_convert_type": "bits are no numbers: their derivative is zero, as in JAX",
    "cluster": "made when a Program is compiled, after all derivatives",
    "draw": "of integers, laws and keys; the reparameterized laws are made of `spread` and others",
    "geqrf": "a part of `qr`, which has one",
    "hessenberg": "not there yet; JAX's has none either",
    "iota": "it has no operand",
    "nextafter": "its result goes by the spacing of floats; JAX's has none either",
    "schur": "not there yet; JAX's has none either",
    "shipped": "made when a Program is compiled, after all derivatives",
    "tridiagonal": "not there yet; JAX's has none either",
}
# What a floating-point array among the samples of an operation stands for, by the kinds that it takes.
STAND_INS = {"f": "float64", "c": "complex128", "i": "int64", "u": "uint64", "b": "bool"}
HEADER = """# Primitives

Everything that pullback computes is made of these operations. Each is one class with all of its rules
([how to write one](tutorials/2-a-primitive-of-your-own.md), [what the rules are](architecture.md#decisions-that-carry-weight)).

- **Bold** is a rule of the operation's own; a plain name is the family that it has the rule from; *italics* say from which
  other rule this one follows. Where nothing stands, it is missing; the last column says why there is no derivative.
- *takes*: the kinds of dtype, `b` bool, `i` signed and `u` unsigned integers, `f` floating-point, `c` complex.
- *computes*: on NumPy arrays. *compiles*: to StableHLO.
- *forward* and *reverse*: what `jvp` and `grad` use. An operation that is *linear* in an operand is its own derivative there.
- *batches*: what `vmap` uses. *Taylor*: what `jet` uses.
- *operations*: operations on numbers for each element of the largest operand or result (a number), or in all (code, given the
  types of operands and results); a value of a *transcendental* function takes so many. This is what `pb.cost` counts
  ([more](costs.md)), and the choice between synchronous and asynchronous programs.
"""


def modules(package: types.ModuleType) -> Iterator[types.ModuleType]:
    """The modules of a package, imported. (`pkgutil.walk_packages` would import those as well that are left out.)"""
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if found.name not in APART:
            module = importlib.import_module(found.name)
            yield module
            if found.ispkg:
                yield from modules(module)


def primitives() -> list[Primitive]:
    """Every primitive that a module of the library's own holds, by where it is defined and by name; computing ones first."""
    found: dict[Primitive, None] = {}
    for module in modules(pullback):
        found.update({member: None for member in vars(module).values() if isinstance(member, Primitive)})
    return sorted(found, key=lambda p: (not home(p).startswith("pullback.ops"), home(p), p.name))


def home(primitive: Primitive) -> str:
    """The module that defines a primitive."""
    for rule in (primitive.lower, primitive.result_type):
        if primitive.__module__ == Primitive.__module__ and callable(rule):
            return getattr(getattr(rule, "func", rule), "__module__", primitive.__module__)
    return primitive.__module__


def has(primitive: Primitive, field: str) -> bool:
    return getattr(primitive, field) is not FIELDS[field].default


def whose(primitive: Primitive, field: str, text: str = "own") -> str:
    """Whose rule a rule is: the primitive's own, or that of a family."""
    family = primitive.families.get(field)
    return f"**{text}**" if family is None else family if text == "own" else f"{text} of {family}"


def computes(primitive: Primitive) -> str:
    if has(primitive, "evaluate"):
        return whose(primitive, "evaluate")
    return "*expand*" if has(primitive, "expand") else "*compiled*" if has(primitive, "lower") else ""


def compiles(primitive: Primitive) -> str:
    if has(primitive, "lower"):
        made = f"**`{primitive.lower}`**" if isinstance(primitive.lower, str) else whose(primitive, "lower")
    else:
        made = "*expand*" if has(primitive, "expand") else ""
    platforms = ", ".join(sorted(primitive.platforms or ()))
    return "; ".join(part for part in (made, platforms and f"on {platforms}: **own**") if part)


def forward(primitive: Primitive) -> str:
    """The rule that forward mode takes: the first that there is, in the order of `JvpTrace.process`."""
    parts = []
    if primitive.linear is not True:
        for field in ("partials", "jvp", "linearize"):
            if has(primitive, field):
                parts.append(whose(primitive, field, field))
    if primitive.linear is True:
        parts.append("*linear*")
    elif primitive.linear:
        parts.append(f"*linear in {', '.join(primitive.linear)}*")
    if primitive.bilinear:
        parts.append("*bilinear*")
    if not parts and has(primitive, "expand"):
        parts.append("*expand*")
    return "; ".join(parts)


def reverse(primitive: Primitive) -> str:
    """What reverse mode does: it transposes linear operations, and scales back by partial derivatives."""
    parts = [whose(primitive, "transpose", "transpose")] if has(primitive, "transpose") else []
    if primitive.linear is not True and has(primitive, "partials"):
        parts.append("*partials*")
    elif primitive.linear is not True and not primitive.bilinear and (has(primitive, "jvp") or has(primitive, "linearize")):
        parts.append("*linearize*" if has(primitive, "linearize") else "*jvp*")
    if not parts and has(primitive, "expand") and not has_derivative(primitive):
        parts.append("*expand*")
    return "; ".join(parts)


def taylor(primitive: Primitive) -> str:
    if has(primitive, "jet"):
        return whose(primitive, "jet")
    if primitive.linear is True:
        return "*linear*"
    if primitive.bilinear:
        return "*Leibniz*"
    return "*derivative*" if has_derivative(primitive) else "*expand*" if has(primitive, "expand") else ""


def batches(primitive: Primitive) -> str:
    if has(primitive, "vectorize"):
        return whose(primitive, "vectorize")
    return "*expand*" if has(primitive, "expand") else ""


def operations(primitive: Primitive) -> str:
    """The rule for costs: a number, or the code of a rule, if that is one expression."""
    cost = primitive.cost
    if not callable(cost):
        return f"{cost:g} (transcendental)" if primitive.transcendental else f"{cost:g}"
    rule = inspect.unwrap(getattr(cost, "func", cost))
    tree = ast.parse(textwrap.dedent(inspect.getsource(rule))).body[0]
    if isinstance(tree, ast.FunctionDef) and isinstance(tree.body[-1], ast.Return) and len(tree.body) <= 2:
        text = " ".join(f"{ast.unparse(statement)};" for statement in tree.body[:-1] if not isinstance(statement, ast.Expr))
        text = f"{text} {ast.unparse(tree.body[-1].value or tree)}".strip()
        if len(text) <= 120:
            return f"`{text}`".replace("|", "\\|")
    family = primitive.families.get("cost")
    return f"{'its own rule' if family is None else family}, `{rule.__module__.removeprefix('pullback.').replace('.', '/')}.py`"


def gives_no_floats(primitive: Primitive) -> bool:
    """Whether the results of all samples are integers, bools or keys."""
    if primitive.samples is None or primitive.result_type is None:
        return False
    stand_in = next((name for letter, name in STAND_INS.items() if letter in primitive.kinds), None)
    for args, params in primitive.samples(np.random.default_rng(0)):
        arrays = [as_array(arg) for arg in args]
        given = [array.type.with_dtype(np.dtype(stand_in)) if kind(array.dtype) == "f" else array.type for array in arrays]
        found = primitive.infer(tuple(given), params)
        if any([is_inexact(type.dtype) for type in (found if primitive.multiple_results else (found,))]):
            return False
    return True


def why_missing(primitive: Primitive) -> str:
    """Why a primitive has no derivative; empty if it has one."""
    if forward(primitive):
        return ""
    if primitive.name in WITHOUT:
        return f"no derivative: {WITHOUT[primitive.name]}"
    if gives_no_floats(primitive):
        return "no derivative: the results are no floats"
    raise ValueError(f"{primitive.name} has no derivative, and docs/primitive_table.py does not say why: add it to WITHOUT.")


def also(primitive: Primitive) -> str:
    """The rules that are there besides, named axes, effects, and why there is no derivative."""
    parts = [why_missing(primitive)]
    parts += [
        f"`{field}`" for field in ("simplify", "sparsity", "axis_map", "prune", "depends", "across") if has(primitive, field)
    ]
    parts += [f"axes named by `{name}`" for name in primitive.named_axes]
    parts += [f"binds `{primitive.binds}`"] if primitive.binds else []
    parts += [f"effect: {primitive.effect}"] if primitive.effect else []
    parts += ["holds Programs"] if primitive.wiring is not None else []
    return ", ".join(part for part in parts if part)


def summary(found: Any) -> str:
    """The first sentence of a docstring."""
    paragraph = (inspect.getdoc(found) or "").split("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=[^A-Z .]\.) (?=[A-Z])", paragraph)[0]


BESIDES = ("simplify", "sparsity", "axis_map", "prune", "depends", "across", "traffic", "sent", "alias", "in_place")
COLUMNS = {
    "takes": lambda p: f"`{p.kinds}`",
    "computes": computes,
    "compiles": compiles,
    "forward": forward,
    "reverse": reverse,
    "batches": batches,
    "Taylor": taylor,
    "operations": operations,
    "also": also,
}


def page(prose: Any) -> str:
    """The page. `prose` makes Markdown of plain text."""
    found = primitives()
    cells = [column(primitive) for primitive in found for column in (reverse, batches, taylor)]
    derived = sum(cell.startswith("*") and not cell.startswith("**") for cell in cells)
    counted = f"There are {len(found)}; {derived} of their rules for reverse mode, batches and Taylor series are derived.\n"
    parts = [HEADER, counted]
    for module in dict.fromkeys(map(home, found)):
        path = module.replace(".", "/")
        parts.append(f"## {path.removeprefix('pullback/')}\n")
        parts.append(f"{prose(summary(importlib.import_module(module)))} [Source](../{path}.py).\n")
        parts.append(f"| primitive | what it is | {' | '.join(COLUMNS)} |")
        parts.append("|---|---|" + "---|" * len(COLUMNS))
        for primitive in found:
            if home(primitive) == module:
                cells = [column(primitive) for column in COLUMNS.values()]
                text = summary(primitive) if primitive.__doc__ != Primitive.__doc__ else ""
                parts.append(f"| `{primitive.name}` | {prose(text)} | {' | '.join(cells)} |")
        parts.append("")
    return "\n".join(parts)
