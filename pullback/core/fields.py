"""The fields of a primitive: everything that can be known of one operation.

A transformation reads the field that it needs from the primitive itself; nothing is ever looked up by a primitive's name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pullback.core.dtypes import DType

Rule = Callable[..., Any]


class Field(NamedTuple):
    """One field of a primitive: what a class body may define, and `Primitive(name, ...)` and `define` may be given.

    Attributes:
        text: what it is; of a rule, with its signature.
        default: what it is when nothing is said. rule: whether it is a rule, with a decorator `def_...` of its own.
        phrase: what the rule is called when it is missing. instead: what else would do in its place.
    """

    text: str
    default: Any = None
    rule: bool = False
    phrase: str = ""
    instead: str = ""


def _rule(phrase: str, text: str, instead: str = "") -> Any:
    return Field(text, None, True, phrase, instead)


def _field(text: str, default: Any = None) -> Any:
    return Field(text, default)


class Fields:
    """The fields of a primitive: below, what each is, which `FIELDS` keeps; on a `Primitive`, what it is of that one.

    docs/architecture.md shows this table; a test compares the two.
    """

    result_type: Rule | None = _rule(
        "Abstract evaluation (result_type) rule",
        "`(*types, **params) -> ArrayType`, or a tuple of them: the type of the result",
        "`expand`",
    )
    evaluate: Rule | None = _rule(
        "Evaluation rule",
        "`(*ndarrays, **params)`: what the operation computes, on NumPy arrays",
        "`expand`, or `lower` with `result_type`",
    )
    lower: Rule | str | None = _rule(
        "Lowering (XLA translation) rule",
        "the name of a StableHLO operation, or `(write, *values, **params)`",
        "`expand`",
    )
    expand: Rule | None = _rule(
        "Expansion rule", "`(*args, **params)`: the same mathematics in other primitives; every other rule follows from it"
    )
    partials: Rule | None = _rule(
        "Partial derivatives rule",
        "of an elementwise operation, `(out, *args, **params)` -> for each operand the derivative with respect to it: an"
        " array, a number (it means itself; None says 1), pb.ZERO, or a function of no arguments that returns one of them,"
        " called if it is needed",
    )
    jvp: Rule | None = _rule(
        "Forward-mode differentiation (jvp) rule",
        "`(primals, tangents, **params) -> (out, tangent)`, linear in the tangents",
        "`partials` (elementwise), `linear`, or `expand`",
    )
    linearize: Rule | None = _rule(
        "Linearization rule",
        "`(primals, active, **params) -> (out, push)`, where `push(*tangents)`, of the operands that are active, is linear;"
        " or NotImplemented, where the `jvp` rule is to be used",
        "`jvp`",
    )
    transpose: Rule | None = _rule(
        "Reverse-mode differentiation (transpose) rule",
        "`(cotangent, *args, **params)` -> a cotangent for each operand that is unknown, which arrives as its ArrayType"
        " (pb.ZERO where it is zero), and None for each that is known",
        "`partials` (elementwise), or `expand`",
    )
    vectorize: Rule | None = _rule(
        "Batching (vectorize) rule",
        "`(size, args, axes, **params) -> (out, axis)`; an axis is 0, or None for unbatched",
        "a family such as `Elementwise`, or `expand`",
    )
    jet: Rule | None = _rule(
        "Taylor-mode (jet) rule",
        "`(primals, series, **params) -> (out, out_series)`; a series is the list of the derivatives of orders 1 to n. Needed"
        " only where it takes fewer operations than what follows from the first derivative",
        "any rule for first derivatives (`partials`, `linear`, `jvp`), or `expand`,",
    )
    simplify: Rule | None = _rule(
        "Simplification rule",
        "`(equation, known)` -> what can stand for the equation: one of its operands, or `equation.replace(...)`; None if"
        " nothing can. `known.maker(operand, primitive)` is the equation that made an operand, if it applies that primitive;"
        " `known.number(operand)`, the number that is each of its elements, if there is one. Values may not change, not in"
        " their last bit",
    )
    prune: Rule | None = _rule(
        "Pruning rule",
        "of what holds Programs: `(wanted, **params) -> (params, inputs, outputs)` without what serves unwanted results only",
    )
    depends: Rule | None = _rule(
        "Dependence rule",
        "of what holds Programs: `(flags, **params)` -> for each result 1 if it depends on a flagged operand, else 0",
    )
    sparsity: Rule | None = _rule(
        "Sparsity rule",
        "`(which, operands, **params) -> (results, elements)`: two arrays of flat indices, pairs of an element of the result"
        " and an element of operand number `which`, in which the operation is linear, that it may depend on. Operands are"
        " NumPy arrays where they are known, else types. None if that cannot be told; then all depend on all",
    )
    axis_map: Rule | None = _rule(
        "Axis map",
        "`(*types, **params)` -> for each operand a dict: those of its axes along which the operation does the same everywhere,"
        " as along a batch, each with the axis of the result that it becomes. Elementwise operations need none",
    )
    samples: Rule | None = _rule(
        "Samples", "`(rng)`, yields `(args, params)`: the inputs that `pb.testing.check_primitive` tries"
    )
    cost: float | Rule = _field(
        "floating-point operations for each element of the largest operand or result, of real numbers; or"
        " `(operands, results, **params) -> how many in all`, given the types",
        1,
    )
    transcendental: bool = _field(
        "each element of the result is one value of a transcendental function; `cost` says what evaluating it takes", False
    )
    traffic: Rule | None = _field(
        "`(operands, results, **params)` -> how many bytes it reads and writes, where that is not all of its operands and"
        " results"
    )
    sent: Rule | None = _field(
        "of what names an axis, `(operands, results, share, **params)` -> how many bytes each device of a mesh sends to others;"
        " `share` is (n - 1) / n for n devices, 1 where n is not known"
    )
    accumulation: Callable[[DType], DType] | None = _field(
        "of what sums or multiplies many elements, `(dtype) -> dtype`: the dtype in which it accumulates elements of a dtype"
    )
    alias: bool = _field(
        "each result has the elements of the operand of its number, in their order: it can be the same memory", False
    )
    in_place: tuple[int, ...] = _field(
        "the numbers of the operands whose memory a result of as many bytes can take, where nobody reads them afterwards; an"
        " elementwise operation can take that of any",
        (),
    )
    linear: bool | tuple[str, ...] = _field("True, or the names of the arguments in which it is jointly linear", False)
    bilinear: bool = _field("of two operands, and linear in each of them by itself", False)
    multiple_results: bool = _field("returns a tuple", False)
    elementwise: bool = _field("takes operands of one shape, or 0-d ones", False)
    kinds: str = _field("the kinds of dtype that its operands may have (a family's type rule reads it)", "biufc")
    named_axes: tuple[str, ...] = _field("the parameters that name axes of a surrounding vmap or shard_map", ())
    binds: str | None = _field("the parameter that lists the named axes that are there only in the Programs that it holds")
    across: Rule | None = _field(
        "of what names an axis, `(write, owner, *values, **params)`: its StableHLO between the devices of a mesh"
    )
    agrees: Callable[..., bool] | None = _field(
        "of what names an axis, `(**params)`: whether its result is the same along the axis"
    )
    needs_axis: bool = _field("`vectorize` is given the Axis (its name, size and strategy) in place of the size alone", False)
    effect: str | None = _field("what it does besides returning a value, so that it is never dropped or moved")
    quiet: bool = _field("`evaluate` is NumPy alone: run it without NumPy's floating-point warnings", False)
    on_arrays: bool = _field("`evaluate` takes and returns Arrays, wherever their values are", False)
    keeps_ones: bool = _field("of one operand: its transpose takes an array of ones to an array of ones", False)
    symbolic_zeros: bool = _field("`jvp` is given pb.ZERO where a tangent is known to be zero", False)
    symbolic_cotangents: bool = _field("`transpose` is given pb.ZERO where a cotangent is known to be zero", False)
    wiring: Any = _field("how the Programs that it holds are wired to its operands and results (`control/holder.py`)")
    platforms: dict[str, Rule | str] | None = _field('lowering rules for one platform only, `{"cuda": rule}`')


FIELDS: dict[str, Field] = {name: field for name, field in vars(Fields).items() if isinstance(field, Field)}
for _name in FIELDS:  # or Python would look for each on the class first, when it is read from a primitive, which takes 70 ns
    delattr(Fields, _name)
