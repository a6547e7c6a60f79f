"""Reading optimized HLO: the groups of collectives in each form, what they move, how often they run, and what is refused."""

import itertools

import numpy as np
import pytest

from pullback.core.errors import ProgramError
from pullback.parallel import hlo

MODULE = """HloModule m, is_scheduled=true{header}

%sum (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}}
{computations}
ENTRY %main (x: f32[256]) -> f32[256] {{
  %x = f32[256]{{0}} parameter(0)
{lines}
}}
"""


def module(*lines, computations="", header=", num_partitions=8"):
    return MODULE.format(lines="\n".join(f"  {line}" for line in lines), computations=computations, header=header)


def only(*lines, **given):
    (found,) = hlo.collectives(module(*lines, **given))
    return found


def reduce_over(groups, name="r", operand="x", kind="all-reduce", more="channel_id=1, use_global_device_ids=true"):
    return f"%{name} = f32[256]{{0}} {kind}(%{operand}), {more}, replica_groups={groups}, to_apply=%sum, backend_config={{}}"


def mesh_groups(sizes, along):
    """The groups along some axes of a mesh, by loops: the members of a group have the same place on the other axes."""
    places = list(itertools.product(*map(range, sizes)))
    groups = {}
    for number, place in enumerate(places):
        rest = tuple(at for axis, at in enumerate(place) if axis not in along)
        groups.setdefault(rest, []).append((tuple(place[axis] for axis in along), number))
    return [[number for _, number in sorted(members)] for members in groups.values()]


# ---- groups -------------------------------------------------------------------------------------------------------------

GROUPS = {
    "lists": ("{{0,2,4,6},{1,3,5,7}}", [[0, 2, 4, 6], [1, 3, 5, 7]]),
    "all": ("{}", [list(range(8))]),
    "iota": ("[4,2]<=[8]", [[0, 1], [2, 3], [4, 5], [6, 7]]),
    "iota one": ("[1,8]<=[8]", [list(range(8))]),
    "iota transposed": ("[2,4]<=[4,2]T(1,0)", mesh_groups((4, 2), (0,))),
    "iota of three axes": ("[4,2]<=[2,2,2]T(0,2,1)", mesh_groups((2, 2, 2), (1,))),
    "mesh, outer axis": ("mesh['data'=4,'model'=2] {'data'}", mesh_groups((4, 2), (0,))),
    "mesh, inner axis": ("mesh['data'=4,'model'=2] {'model'}", mesh_groups((4, 2), (1,))),
    "mesh, both axes": ("mesh['data'=4,'model'=2] {'data','model'}", [list(range(8))]),
    "mesh, both axes, the inner one first": ("mesh['a'=4,'b'=2] {'b','a'}", mesh_groups((4, 2), (1, 0))),
    "mesh, an axis of size 1": ("mesh['a'=8,'b'=1] {'a'}", [list(range(8))]),
    "mesh, the outer part of an axis": ("mesh['a'=8] {'a':(1)2}", mesh_groups((2, 4), (0,))),
    "mesh, a middle part of an axis": ("mesh['a'=8] {'a':(2)2}", mesh_groups((2, 2, 2), (1,))),
    "mesh, its devices transposed": ("mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'b'}", [[0, 2, 4, 6], [1, 3, 5, 7]]),
    "mesh, its devices listed": ("mesh['a'=2,'b'=4], device_ids=(7,6,5,4,3,2,1,0) {'a'}", [[7, 3], [6, 2], [5, 1], [4, 0]]),
    "mesh, an inner part and an axis": ("mesh['a'=4,'b'=2] {'a':(2)2,'b'}", mesh_groups((2, 2, 2), (1, 2))),
}


@pytest.mark.parametrize("case", GROUPS)
def test_groups(case):
    written, wanted = GROUPS[case]
    found = only(reduce_over(written))
    assert found.groups.tolist() == wanted and found.group_size == len(wanted[0])


def test_groups_of_replicas():
    two = ", replica_count=2, num_partitions=4"
    assert only(reduce_over("{}", more="foo=1"), header=two).groups.tolist() == [[0, 1]]
    assert only(reduce_over("{}", more="channel_id=1"), header=two).groups.tolist() == [list(range(8))]
    both = only(reduce_over("{{0},{1}}", more="channel_id=1"), header=two)
    assert both.groups.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_groups_of_one_move_nothing():
    assert hlo.collectives(module("%p = f32[256]{0} collective-permute(%x), channel_id=1, source_target_pairs={}")) == []
    assert hlo.collectives(module(reduce_over("{{0},{1},{2},{3},{4},{5},{6},{7}}"))) == []


REFUSED = {
    "groups of different sizes": reduce_over("{{0,1,2},{3,4}}"),
    "groups in no form": reduce_over("everyone"),
    "an iota of three sizes": reduce_over("[2,2,2]<=[8]"),
    "an iota of other sizes": reduce_over("[2,2]<=[8]"),
    "an axis that is not there": reduce_over("mesh['a'=8] {'b'}"),
    "a part that is not there": reduce_over("mesh['a'=8] {'a':(3)2}"),
    "a mesh in an order that is not known": reduce_over("mesh['a'=8], device_ids=([3,4]T(1,0)) {'a'}"),
    "a mesh whose devices are not all there": reduce_over("mesh['a'=8], device_ids=(0,0,1,2,3,4,5,6) {'a'}"),
    "devices that are not there": reduce_over("{{0,8}}"),
    "a permutation without pairs": "%p = f32[256]{0} collective-permute(%x), channel_id=1",
    "a dtype that is not known": "%p = q7[256]{0} negate(%x)\n  %r = q7[256]{0} all-reduce(%p), replica_groups={{0,1}}",
    "a size that is not known": "%p = f32[<=256]{0} negate(%x)\n  %r = f32[<=256]{0} all-reduce(%p), replica_groups={{0,1}}",
    "ragged-all-to-all": "%p = f32[256]{0} ragged-all-to-all(%x, %x, %x, %x, %x, %x), replica_groups={{0,1}}",
    "send": "%p = (f32[256]{0}, u32[], token[]) send(%x, %x), channel_id=1",
    "a computation that is not there": "%w = f32[256]{0} call(%x), to_apply=%nowhere",
    "no operation": "%w = f32[256]{0}",
    "a line that ends too early": "%w = f32[256]{0} negate(%x",
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_understood_is_refused(case):
    with pytest.raises(ProgramError):
        hlo.collectives(module(REFUSED[case]))


@pytest.mark.parametrize(
    "text", ["", "module @m {}", "HloModule m\n\n%f (x: f32[]) -> f32[] {\n  %x = f32[] parameter(0)\n}\n"]
)
def test_what_is_no_module_is_refused(text):
    with pytest.raises(ProgramError):
        hlo.collectives(text)


# ---- bytes --------------------------------------------------------------------------------------------------------------

SIZES = {
    "f32[]": 4,
    "f32[0,3]": 0,
    "pred[7]": 7,
    "bf16[2,3]{1,0:T(8,128)(2,1)}": 12,
    "f8e4m3fn[5]": 5,
    "f8e5m2[5]": 5,
    "s4[5]": 3,
    "u2[9]": 3,
    "f4e2m1fn[4]": 2,
    "c64[2]": 16,
    "c128[2]": 32,
    "f64[3]{0}": 24,
    "(f32[2]{0}, (bf16[4]{0}, /*index=5*/u8[3]{0:S(1)}), token[])": 19,
}


@pytest.mark.parametrize("type", SIZES)
def test_bytes_of_types(type):
    assert hlo.bytes_of(type) == SIZES[type]


def ring(kind, parts):
    """How many bytes each of k devices sends, counted by sending pieces around a ring: `parts[i]` is what device i puts in."""
    k, size = len(parts), parts[0].nbytes
    piece = size // k
    steps = {"all-reduce": 2 * (k - 1) * [piece], "reduce-scatter": (k - 1) * [piece], "all-gather": (k - 1) * [size]}
    steps["all-to-all"] = [piece for other in range(1, k)]
    steps["collective-permute"] = steps["collective-broadcast"] = [size]
    return sum(steps[kind])


@pytest.mark.parametrize(
    ("kind", "groups"),
    [
        ("all-reduce", "replica_groups=[2,4]<=[8]"),
        ("all-gather", "replica_groups=[2,4]<=[8]"),
        ("reduce-scatter", "replica_groups=[2,4]<=[8]"),
        ("all-to-all", "replica_groups=[2,4]<=[8]"),
        ("collective-broadcast", "replica_groups=[2,4]<=[8]"),
        ("collective-permute", "source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"),
    ],
)
def test_bytes_on_the_wire(kind, groups):
    found = only(f"%r = f32[256]{{0}} {kind}(%x), channel_id=1, {groups}, use_global_device_ids=true")
    assert (found.kind, found.bytes) == (kind, 1024)
    assert found.wire == ring(kind, [np.zeros(256, np.float32)] * 4)


def test_several_operands_are_one():
    found = only(
        "%r = (f32[256]{0}, f32[256]{0}) all-reduce(%x, %x),"
        " channel_id=1, replica_groups=[1,8]<=[8], use_global_device_ids=true"
    )
    assert found.bytes == 2048 and found.number == 1


# ---- how often ------------------------------------------------------------------------------------------------------------

LOOP = """
%body{n} (p: f32[256]) -> f32[256] {{
  %p = f32[256]{{0}} parameter(0)
  {line}
}}

%cond{n} (p: f32[256]) -> pred[] {{
  %p = f32[256]{{0}} parameter(0)
  ROOT %c = pred[] constant(true)
}}
"""


def loop(n, line):
    return LOOP.format(n=n, line=line)


def run_loop(n, trips, operand="x", name="w"):
    known = "" if trips is None else f', backend_config={{"known_trip_count":{{"n":"{trips}"}}}}'
    return f"%{name} = f32[256]{{0}} while(%{operand}), condition=%cond{n}, body=%body{n}{known}"


INNER = loop(0, reduce_over("[1,8]<=[8]", operand="p"))


@pytest.mark.parametrize(("outer", "inner", "wanted"), [(3, 5, 15), (3, None, None), (None, 5, None), (3, 0, 0), (None, 0, 0)])
def test_trips_of_nested_loops(outer, inner, wanted):
    text = INNER + loop(1, run_loop(0, inner, "p"))
    found = only(run_loop(1, outer), computations=text)
    assert found.trips == wanted and found.wire == (None if wanted is None else wanted * 1792.0)


def test_a_condition_runs_once_more_than_its_body():
    text = loop(0, "ROOT %n = f32[256]{0} negate(%p)").replace(
        "ROOT %c", f"{reduce_over('[1,8]<=[8]', operand='p')}\n  ROOT %c"
    )
    assert only(run_loop(0, 4), computations=text).trips == 5


COUNTING = """
%body (p: (s32[], f32[256])) -> (s32[], f32[256]) {{
  %p = (s32[], f32[256]{{0}}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %x = f32[256]{{0}} get-tuple-element(%p), index=1
  %step = s32[] constant({step})
  %copied = s32[] copy(%i)
  %next = s32[] {turn}
  {reduce}
  ROOT %t = (s32[], f32[256]{{0}}) tuple(%next, %r)
}}

%cond (p: (s32[], f32[256])) -> pred[] {{
  %p = (s32[], f32[256]{{0}}) parameter(0)
  %i = s32[] get-tuple-element(%p), index={asked}
  %end = s32[] constant({end})
  ROOT %c = pred[] compare(%i, %end), direction={direction}
}}
"""


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, 6),
        ({"start": "2"}, 4),
        ({"step": "4"}, 2),
        ({"start": "-3"}, 9),
        ({"start": "7"}, 0),
        ({"turn": "add(%step, %copied)"}, 6),
        ({"turn": "subtract(%copied, %step)"}, None),
        ({"turn": "add(%copied, %copied)"}, None),
        ({"step": "-1"}, None),
        ({"direction": "NE"}, None),
        ({"asked": "1"}, None),
        ({"end": "{1, 2}"}, None),
        ({"start": None}, None),
    ],
)
def test_loops_that_count(changed, wanted):
    given = {"start": "0", "step": "1", "end": "6", "turn": "add(%copied, %step)", "asked": "0", "direction": "LT", **changed}
    text = COUNTING.format(**given, reduce=reduce_over("[1,8]<=[8]"))
    start = "parameter(1)" if given["start"] is None else f"constant({given['start']})"
    lines = [f"%s = s32[] {start}", "%t = (s32[], f32[256]{0}) tuple(%s, %x)"]
    found = only(*lines, "%w = (s32[], f32[256]{0}) while(%t), condition=%cond, body=%body", computations=text)
    assert found.trips == wanted


def test_equal_collectives_are_counted():
    found = only(reduce_over("[1,8]<=[8]", "a"), reduce_over("[1,8]<=[8]", "b", "a"))
    assert found.number == 2 and found.wire == 2 * 1792.0


def test_a_computation_counts_for_each_call():
    text = "\n%f (p: f32[256]) -> f32[256] {\n  %p = f32[256]{0} parameter(0)\n  " + reduce_over("{}", operand="p") + "\n}\n"
    calls = [f"%c{i} = f32[256]{{0}} fusion(%x), kind=kLoop, calls=%f" for i in range(3)]
    assert only(*calls, computations=text).number == 3


def test_branches_may_not_be_taken():
    text = "\n%f (p: f32[256]) -> f32[256] {\n  %p = f32[256]{0} parameter(0)\n  " + reduce_over("{}", operand="p") + "\n}\n"
    for line in (
        "%c = f32[256]{0} conditional(%x, %x, %x), branch_computations={%sum, %f}",
        "%c = f32[256]{0} conditional(%x, %x, %x), true_computation=%f, false_computation=%sum",
    ):
        found = only(line, computations=text)
        assert found.conditional and found.trips == 1
    assert not only(reduce_over("{}")).conditional


def test_asynchronous_forms_count_once():
    groups = "channel_id=1, replica_groups=[1,8]<=[8], use_global_device_ids=true"
    wrapped = f"""
%wrapped (p: f32[256]) -> f32[32] {{
  %p = f32[256]{{0}} parameter(0)
  ROOT %rs = f32[32]{{0}} reduce-scatter(%p), {groups}, dimensions={{0}}, to_apply=%sum
}}
"""
    found = only(
        "%s = ((f32[256]{0}), f32[32]{0}, s32[]) async-start(%x), calls=%wrapped",
        "%u = ((f32[256]{0}), f32[32]{0}, s32[]) async-update(%s), calls=%wrapped",
        "%d = f32[32]{0} async-done(%u), calls=%wrapped",
        computations=wrapped,
    )
    assert (found.kind, found.bytes, found.number) == ("reduce-scatter", 1024, 1)
    gathered = only(
        f"%s = (f32[256]{{0}}, f32[2048]{{0}}) all-gather-start(%x), {groups}, dimensions={{0}}",
        "%d = f32[2048]{0} all-gather-done(%s)",
    )
    assert (gathered.kind, gathered.bytes, gathered.number) == ("all-gather", 1024, 1)
    permuted = only(
        "%s = (f32[256]{0}, f32[256]{0}, u32[], u32[]) collective-permute-start(%x), source_target_pairs={{0,1},{1,0}}",
        "%d = f32[256]{0} collective-permute-done(%s)",
    )
    assert (permuted.kind, permuted.bytes, permuted.groups.tolist()) == ("collective-permute", 1024, [[0, 1], [1, 0]])
