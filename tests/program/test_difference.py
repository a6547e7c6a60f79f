"""pb.program_diff: what is found to differ, in what words, and that nothing else is."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_programs import CLASSES, PRIMITIVES, programs

import pullback as pb
import pullback.numpy as pnp
from pullback import lax
from pullback.program.difference import ProgramDiff
from pullback.program.matching import longest_increasing
from pullback.program.program import Program
from pullback.transforms.simplify import simplify

X = pb.ArrayType((3,), "float32")
relaxed = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def differing(difference: ProgramDiff) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(row.kind, row.part, row.what) for row in difference.rows if row.kind != "same"]


@relaxed
@given(st.data())
def test_a_program_that_is_renamed_does_not_differ(data: Any) -> None:
    program = data.draw(programs())
    again = Program.from_json(program.to_json(), PRIMITIVES, CLASSES)
    difference = pb.program_diff(program, again)
    assert not difference and differing(difference) == [] and difference.text() == ""
    assert sum(difference.counts.values()) == len(program.equations)


@relaxed
@given(st.data())
def test_programs_differ_where_they_are_not_equal(data: Any) -> None:
    before, after = data.draw(programs()), data.draw(programs())
    difference = pb.program_diff(before, after)
    assert bool(difference) is (before != after) is bool(differing(difference))
    check_rows(difference)


def check_rows(difference: ProgramDiff) -> None:
    """Each equation of both Programs is in one row, in the order of the second, and the text has a line for it; what is in one
    that was opened has a row too."""
    rows = [row for row in difference.rows if row.part == "equation" and not row.depth]
    before, after = difference.before, difference.after
    own, others = [[one.id for one in program.equations] for program in (before, after)]
    assert sorted([row.id_before for row in rows if row.id_before in own]) == sorted(own)
    assert [row.id_after for row in rows if row.id_after in others] == others
    if not any([row.what == ("wrapper",) for row in rows]):
        assert {row.id_before for row in rows} | {row.id_after for row in rows} <= {*own, *others, None}
    text = difference.text(context=None).split("\n") if difference else []
    for row in difference.rows if difference else ():
        indent = "    " * row.depth
        if row.kind == "changed" and row.what != ("programs",):
            assert f"- {indent}{row.before}" in text and f"+ {indent}{row.after}" in text
        else:
            mark = {"added": "+", "removed": "-", "moved": "~"}.get(row.kind, " ")
            assert f"{mark} {indent}{row.after or row.before}" in text


@relaxed
@given(st.data())
def test_what_is_taken_out_is_all_that_is_gone(data: Any) -> None:
    program = data.draw(programs())
    read = {atom for one in program.equations for atom in one.inputs} | set(program.outputs)
    idle = [i for i, one in enumerate(program.equations) if read.isdisjoint(one.outputs)]
    if not idle:
        return
    gone = data.draw(st.sampled_from(idle))
    own = program.equations[gone]
    twins = [one for one in program.equations if one.primitive is own.primitive and len(one.inputs) == len(own.inputs)]
    assume(len(twins) == 1)  # of two that may compute the same it cannot be told which one is gone
    kept = [one for i, one in enumerate(program.equations) if i != gone]
    shorter = Program(program.inputs, kept, program.outputs, program.constants, program.name)
    again = Program.from_json(shorter.to_json(), PRIMITIVES, CLASSES)
    for other in (shorter, again):
        assert differing(pb.program_diff(program, other)) == [("removed", "equation", ())]
        assert differing(pb.program_diff(other, program)) == [("added", "equation", ())]


def test_of_two_equations_that_compute_one_value_neither_moves_where_a_reader_of_one_is_taken_out() -> None:
    def twins(x: Any) -> Any:
        first, second = pnp.sin(x), pnp.sin(x)
        return pnp.exp(first), second

    program = pb.xpr(twins, 1.0).with_outputs([])
    first, second, reader = program.equations
    shorter = Program(program.inputs, [first, second], [])
    again = Program.from_json(shorter.to_json(), {"sin": first.primitive})
    assert reader.inputs == first.outputs
    for other in (shorter, again):
        assert differing(pb.program_diff(program, other)) == [("removed", "equation", ())]


def base(x: Any) -> Any:
    y = pnp.sin(x) * 2.0
    z = pnp.exp(y)
    return pnp.sum(z + y)


def inserted(x: Any) -> Any:
    y = pnp.sin(x) * 2.0
    z = pnp.exp(pnp.tanh(y))
    return pnp.sum(z + y)


def taken_out(x: Any) -> Any:
    y = pnp.sin(x) * 2.0
    return pnp.sum(y + y)


def replaced(x: Any) -> Any:
    y = pnp.cos(x) * 2.0
    z = pnp.exp(y)
    return pnp.sum(z + y)


def another_number(x: Any) -> Any:
    y = pnp.sin(x) * 3.0
    z = pnp.exp(y)
    return pnp.sum(z + y)


def another_order(x: Any) -> Any:
    y = pnp.sin(x) * 2.0
    z = pnp.exp(y)
    return pnp.sum(y + z)


def another_parameter(x: Any) -> Any:
    y = pnp.sin(x) * 2.0
    z = pnp.exp(y)
    return pnp.sum(z + y, keepdims=True)


def more_results(x: Any) -> Any:
    y = pnp.sin(x) * 2.0
    z = pnp.exp(y)
    return pnp.sum(z + y), y


OPERANDS = ("changed", "equation", ("operands",))
EDITS: dict[Callable[..., Any], list[tuple[str, str, tuple[str, ...]]]] = {
    base: [],
    inserted: [("added", "equation", ()), OPERANDS],
    taken_out: [("removed", "equation", ()), OPERANDS],
    replaced: [("changed", "equation", ("primitive",))],
    another_number: [OPERANDS],
    another_order: [OPERANDS],
    more_results: [("changed", "output", ("operands",))],
}


@pytest.mark.parametrize("edited", EDITS)
def test_small_edits_make_small_differences(edited: Callable[..., Any]) -> None:
    for first, second in ((base, edited), (pb.jit(base), pb.jit(edited))):
        difference = pb.program_diff(first, second, X)
        nested = [("changed", "equation", ("programs",))] if first is not base and EDITS[edited] else []
        if edited is more_results and first is not base:
            continue  # the call itself has another result then
        assert differing(difference) == nested + EDITS[edited]


def test_other_edits() -> None:
    found = differing(pb.program_diff(base, another_parameter, X))
    assert ("added", "equation", ()) in found and len(found) <= 2
    arrays = [pnp.full(3, n) for n in (1.0, 2.0)]
    constants = [lambda x, c=c: x * c + 1.0 for c in arrays]
    assert differing(pb.program_diff(*constants, X)) == [("changed", "constant", ("value",))]
    types = pb.program_diff(lambda x: x * 2.0, pb.xpr(lambda x: x * 2.0, pb.ArrayType((4,))), X)
    assert differing(types) == [("changed", "input", ("types",)), ("changed", "equation", ("types",))]
    more = pb.program_diff(pb.xpr(lambda x, z: x * z, X, X), pb.xpr(lambda x, y, z: x * z, X, pb.ArrayType(()), X))
    assert differing(more) == [("added", "input", ())]


def test_the_order_of_equations_is_told_apart_from_what_they_are() -> None:
    def first(x: Any) -> Any:
        a, b, c = pnp.sin(x), pnp.cos(x), pnp.tan(x)
        return a * b * c

    def second(x: Any) -> Any:
        c, a, b = pnp.tan(x), pnp.sin(x), pnp.cos(x)
        return a * b * c

    difference = pb.program_diff(first, second, X)
    assert difference and differing(difference) == [("moved", "equation", ())]
    assert re.search(r"^~ b:.* = tan a$", difference.text(), re.M)
    assert "1 moved, 4 alike" in difference.text()


def test_programs_in_programs_are_compared() -> None:
    def loop(step: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: pb.lax.scan(lambda c, y: (pb.jit(step)(c) + y, None), 0.0, x)[0]

    difference = pb.program_diff(loop(lambda c: pnp.sin(c) * 2.0), loop(lambda c: pnp.cos(c) * 2.0), X)
    held = ("changed", "equation", ("programs",))
    assert differing(difference) == [held, held, ("changed", "equation", ("primitive",))]
    assert [row.depth for row in difference.rows if row.kind == "changed"] == [0, 1, 2]
    assert re.search(r"^-         b:f32\[\]:cpu\(0\) = sin a$", difference.text(), re.M)
    longer = pb.program_diff(lambda x: pb.lax.scan(lambda c, _: (c + 1.0, None), x, None, 3)[0], pb.lax.stop_gradient, 1.0)
    assert differing(longer) == [("changed", "equation", ("primitive",))]
    lengths = [lambda x, n=n: pb.lax.scan(lambda c, _: (c + 1.0, None), x, None, n)[0] for n in (3, 4)]
    assert differing(pb.program_diff(*lengths, X)) == [("changed", "equation", ("length",))]


def _layer(x: Any) -> Any:
    return pnp.tanh(x * 2.0) + np.arange(3.0, dtype="float32")


@pytest.mark.parametrize("wrap", [pb.jit, pb.checkpoint])
@pytest.mark.parametrize(
    "function, wrappers",
    [
        (lambda layer, wrap: layer, 1),
        (lambda layer, wrap: lambda x: pnp.sum(layer(x) * 3.0), 1),
        (lambda layer, wrap: lambda x: pnp.sum(layer(layer(x)) * 3.0), 2),
        (lambda layer, wrap: lambda x: pnp.sum(layer(_layer(x)) * 3.0), 1),
        (lambda layer, wrap: lambda x: wrap(lambda x: layer(x) * 5.0)(x) * 3.0, 2),
        (lambda layer, wrap: wrap(wrap(lambda x: layer(layer(x)))), 4),
        (lambda layer, wrap: lambda x: wrap(lambda x: (x, pnp.sin(x), x, 1.0))(x), 1),
        (lambda layer, wrap: lambda x: wrap(lambda x: [pnp.sin(x)] * 2)(x)[1], 1),
        (lambda layer, wrap: lambda x: lax.scan(lambda c, _: (layer(c), None), x, None, length=3)[0], 1),
    ],
)
def test_what_is_wrapped_is_compared_with_the_same_written_plainly(function: Any, wrappers: int, wrap: Any) -> None:
    plain, wrapped = function(_layer, lambda f: f), function(wrap(_layer), wrap)
    for pair, kind in (((wrapped, plain), "removed"), ((plain, wrapped), "added")):
        rows = pb.program_diff(*pair, pb.ArrayType((3,), "float32")).rows
        left = [row for row in rows if row.kind != "same" and row.what != ("programs",)]
        assert [(row.kind, row.part, row.what) for row in left] == [(kind, "equation", ("wrapper",))] * wrappers
        assert not any(["?" in row.before + row.after for row in rows])
        assert all([row.before or row.after for row in left])


def test_what_a_checkpoint_computes_again_is_what_its_gradient_differs_in() -> None:
    def loss(layer: Any) -> Any:
        return pb.grad(lambda x: pnp.sum(layer(x) * x))

    rows = pb.program_diff(loss(pb.checkpoint(_layer)), loss(_layer), pb.ArrayType((3,), "float32")).rows
    again = [row.before.partition(" = ")[2] for row in rows if row.kind == "removed" and not row.what]
    assert again == ["mul a 2.0"]


def test_what_is_unlike_stays_closed() -> None:
    f, g = pb.jit(lambda x: pnp.sin(x) * 2.0 + pnp.cos(x)), lambda x: pnp.sort(x)[::-1]
    rows = pb.program_diff(f, g, pb.ArrayType((3,), "float32")).rows
    assert not any([row.what == ("wrapper",) for row in rows])
    assert [row.before.partition(" = ")[2] for row in rows if row.before and row.part == "equation"] == [
        "call[program={<lambda>}] a"
    ]
    empty = pb.program_diff(pb.jit(lambda x: x), lambda x: x, 1.0)
    assert empty.counts == {"removed": 1}


def test_one_program_made_from_another() -> None:
    program = pb.xpr(lambda x: pnp.sin(x) + pnp.sin(x) * 1.0, X)
    assert differing(pb.program_diff(program, simplify(program))) == [("removed", "equation", ())] * 2 + [OPERANDS]
    batched = pb.program_diff(pb.xpr(base, X), pb.xpr(pb.vmap(pb.xpr(base, X)), pb.ArrayType((5, 3))))
    assert {row.kind for row in batched.rows if row.part == "equation"} == {"changed"}
    assert not pb.program_diff(program, program).counts.get("changed")


def test_an_edit_in_the_middle_of_a_long_program() -> None:
    def long(at: int | None) -> Program:
        def f(x: Any) -> Any:
            for i in range(300):
                x = pnp.sin(x) * (2.0 + i % 3) + x
                x = pnp.cos(x) if i == at else x
            return x

        return pb.xpr(f, X)

    for at in (0, 150, 299):
        counts = pb.program_diff(long(None), long(at)).counts
        assert counts["added"] == 1 and counts.get("removed", 0) == 0 and counts.get("changed", 0) <= 2, at


def test_text() -> None:
    difference = pb.program_diff(base, inserted, X)
    text = """\
--- base(f32[3])
+++ inserted(f32[3])
@@ 2 lines alike @@
  c:f32[3]:cpu(0) = mul b 2.0
+ d:f32[3]:cpu(0) = tanh c
- e:f32[3]:cpu(0) = exp c
+ e:f32[3]:cpu(0) = exp d
  f:f32[3]:cpu(0) = add e c
@@ 2 lines alike @@
1 changed, 1 added, 4 alike"""
    assert difference.text(context=1) == text
    assert str(difference) == difference.text() and "@@" not in difference.text(context=None)
    assert repr(difference) == "<ProgramDiff of base and inserted: 4 same, 1 added, 1 changed>"
    file = io.StringIO()
    difference.show(color=True, file=file)
    assert "\x1b[32m+ d:f32[3]:cpu(0) = tanh c  # " in file.getvalue() and "z = pnp.exp(pnp.tanh(y))" in file.getvalue()
    html = difference._repr_html_()
    assert html.startswith("<pre>") and html.count("<span") == html.count("</span>") == 5 and "pnp.exp(pnp.tanh(y))" in html
    assert "&lt;lambda&gt;" in pb.program_diff(lambda x: x, lambda x: x + 1.0, X)._repr_html_()


def test_names_of_the_first_program_are_those_of_the_second() -> None:
    text = pb.program_diff(taken_out, base, X).text(context=None)
    names = re.findall(r"^[ +] (\w+'?):", text, re.M)
    assert len(names) == len(set(names)) and not any([name.endswith("'") for name in names])
    gone = pb.program_diff(base, taken_out, X).text()
    assert re.search(r"^- (\w)':f32\[3\]:cpu\(0\) = exp \w$", gone, re.M)


WRONG = [
    (lambda: pb.program_diff(3.0, base, X), TypeError, "program_diff takes a function, but got 3.0"),
    (lambda: pb.program_diff(base, inserted), TypeError, "takes the arguments to trace them with"),
    (
        lambda: pb.program_diff(pb.xpr(base, X), pb.xpr(base, X), X),
        TypeError,
        "program_diff takes two Programs and nothing else",
    ),
]


@pytest.mark.parametrize("call, error, says", WRONG)
def test_what_is_wrong_is_said(call: Callable[[], Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call()


def test_a_program_and_a_function() -> None:
    assert not pb.program_diff(pb.xpr(base, X), base)
    assert not pb.program_diff(base, pb.xpr(base, X), X)
    assert pb.program_diff(pb.xpr(base, X), inserted)


@given(st.permutations(range(8)))
def test_a_longest_increasing_part(numbers: list[int]) -> None:
    found = longest_increasing(numbers)
    kept = [number for number in numbers if number in found]
    assert kept == sorted(kept)
    best = [1] * len(numbers)
    for i in range(len(numbers)):
        best[i] = 1 + max([best[j] for j in range(i) if numbers[j] < numbers[i]], default=0)
    assert len(found) == max(best)
