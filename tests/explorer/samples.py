"""Pages for the tests: one written by hand that has something of everything, and generated ones of any size."""

from __future__ import annotations

from typing import Any

Data = dict[str, Any]


def equation(id_: int, op: str, in_: list[Any], out: list[int], role: str, parent: int, rule: int = -1, **more: Any) -> Data:
    return {"id": id_, "op": op, "in": in_, "out": out, "role": role, "from": [[parent, rule]], **more}


def figures(flops: int, bytes_: int, live: int, held: int = 0) -> Data:
    return {"flops": flops, "bytes": bytes_, "live": live, "held": held}


def values(least: float, greatest: float, mean: float = 0.0, **more: Any) -> Data:
    return {"min": least, "max": greatest, "mean": mean, "nan": 0, "inf": 0, "count": 10, **more}


def source() -> Data:
    lines = [
        "import pullback.numpy as pnp",
        "",
        "def loss(params, image, label):",
        '    """Minus the logarithm of the probability given to the label."""',
        '    hidden = pnp.tanh(image @ params["w"])',
        "    found = hidden * 2.0  # a temperature",
        "    return pnp.log(pnp.sum(pnp.exp(found))) - found[label]",
    ]
    rows = [{"id": 100 + number, "line": number, "text": text} for number, text in enumerate(lines, 1)]
    return {"id": "source", "name": "Source", "by": "model.py", "kind": "source", "rows": rows}


def base() -> Data:
    vector = "f32[10]"
    types = ["f32[64,10]", "f32[64]", "i32[]", vector, vector, vector, vector, "f32[]", "f32[]", "f32[]"]
    rows = [
        {"id": 201, "arg": "params['w']", "out": [0]},
        {"id": 202, "arg": "image", "out": [1]},
        {"id": 203, "arg": "label", "out": [2]},
        {"id": 200, "head": "scope", "label": "scores", "span": 3},
        equation(204, "dot_general", [1, 0], [3], "primal", 105, line=105, **figures(1100, 2856, 40), time=2.1e-5),
        equation(205, "tanh", [3], [4], "primal", 105, line=105, **figures(40, 80, 80), time=4e-6, value=values(-1, 1)),
        equation(206, "mul", [4, "2.0"], [5], "primal", 106, line=106, **figures(10, 80, 80), value=values(-2, 2)),
        equation(207, "exp", [5], [6], "primal", 107, line=107, **figures(40, 80, 120)),
        equation(208, "reduce_sum", [6], [7], "primal", 107, line=107, **figures(9, 44, 84), params=[["axes", "(0,)"]]),
        equation(209, "log", [7], [8], "primal", 107, line=107, **figures(1, 8, 48)),
        equation(210, "sub", [8, "1.0"], [9], "primal", 107, line=107, **figures(1, 12, 44)),
        {"id": 211, "ret": [9]},
    ]
    rows[4]["params"] = [["dimension_numbers", "(((0,), (0,)), ((), ()))"]]
    rows[4]["value"] = values(-3.25, 2.5, 0.1, sample=[0.5, -3.25, 2.5])
    return {
        "id": "base", "name": "Base program", "by": "xpr", "kind": "program", "count": 7, "flops": 1201, "bytes": 3160,
        "peak": [207, 120], "deltas": ["7 equations from 3 lines."], "values": True, "time": 4.0e-5,
        "vars": [["abcdefghij"[place], type_] for place, type_ in enumerate(types)], "rows": rows,
    }  # fmt: skip


def gradient() -> Data:
    names = ["a", "b", "c", "d", "e", "f", "k", "l", "m", "n", "o", "_"]
    types = ["f32[64,10]", "f32[64]", "i32[]", *["f32[10]"] * 7, "f32[64,10]", "f32[10]"]
    rows = [
        {"id": 301, "arg": "params['w']", "out": [0], "from": [[201, -1]], "donated": True, "shard": "P('batch', None)"},
        {"id": 302, "arg": "image", "out": [1], "from": [[202, -1]], "kept": [0]},
        {"id": 303, "arg": "label", "out": [2], "from": [[203, -1]]},
        {"id": 320, "head": "part", "label": "forward", "span": 4},
        equation(304, "dot_general", [1, 0], [3], "primal", 204, line=105, **figures(1100, 2856, 40)),
        equation(305, "tanh", [3], [4], "primal", 205, line=105, **figures(40, 80, 80), kept=[0]),
        equation(306, "mul", [4, "2.0"], [5], "primal", 206, line=106, **figures(10, 80, 120, 40)),
        equation(307, "mul", [4, 4], [6], "residual", 205, 0, line=105, **figures(10, 80, 160, 80), kept=[0]),
        {"id": 321, "head": "part", "label": "backward", "span": 5},
        equation(308, "exp", [5], [7], "cotangent", 207, 1, line=107, **figures(40, 80, 2600, 80)),
        equation(
            309, "sub", ["1.0", 6], [8], "residual", 205, 0, line=105, **figures(10, 80, 200, 40), value=values(0, 1, 0.4)
        ),
        equation(310, "mul", [7, 8], [9], "cotangent", 205, 0, line=105, **figures(10, 120, 160)),
        equation(311, "dot_general", [1, 9], [10], "cotangent", 204, 2, line=105, **figures(1100, 2856, 2560), donated=301),
        equation(312, "mul", [4, "2.0"], [11], "dead", 206, line=106, into=306),
        {"id": 313, "ret": [10]},
    ]
    rows[9]["note"] = "The cotangent of exp is its result times the cotangent of that."
    rows[11]["value"] = values(-0.5, 7.25, 1, nan=2, inf=1, sample=["nan", 0.5, "inf"])
    return {
        "id": "grad", "name": "Gradient", "by": "grad", "kind": "program", "count": 9, "flops": 2320, "bytes": 6312,
        "deltas": ["2 equations more than the base Program.", "40 B wait for the backward pass: tanh keeps its result."],
        "peak": [308, 2600], "vars": [[name, type_] for name, type_ in zip(names, types)], "rows": rows,
    }  # fmt: skip


def vectorized() -> Data:
    batched = [["b", "f32[32,64]", [0]], ["d", "f32[32,10]", [0]], ["e", "f32[32,10]", [0]], ["o", "f32[32,64,10]", [0]]]
    others = [["p", "f32[10]"], ["q", "f32[10]"], ["r", "f32[]"], ["s", "f32[4,10]"], ["t", "f32[10]"], ["u", "f32[10]"]]
    rows = [
        {"id": 401, "arg": "params['w']", "out": [0], "from": [[301, -1]]},
        {"id": 402, "arg": "image", "out": [1], "from": [[302, -1]]},
        equation(403, "dot_general", [1, 0], [2], "primal", 304, 3, line=105, **figures(4000, 9000, 1280)),
        equation(404, "tanh", [2], [3], "primal", 305, 3, line=105, **figures(1280, 2560, 2560)),
        equation(405, "broadcast_in_dim", [3], [4], "batch", 311, 3, line=105, **figures(0, 60000, 40000)),
        equation(406, "scan", [3], [5, 8], "primal", 306, 3, line=106, **figures(2560, 4000, 2560), trips=4, span=3),
        {"id": 407, "arg": "", "out": [6]},
        equation(408, "mul", [6, "2.0"], [7], "primal", 306, 3, line=106, **figures(2560, 4000, 2560), times=4),
        {"id": 409, "ret": [7]},
        {"id": 420, "head": "repeat", "label": "block", "count": 2, "period": 1, "span": 4},
        {"id": 421, "head": "copy", "label": "1 of 2", "span": 1},
        equation(410, "neg", [5], [9], "batch", 308, 3, line=107, **figures(640, 80, 80)),
        {"id": 422, "head": "copy", "label": "2 of 2", "span": 1},
        equation(411, "neg", [9], [10], "batch", 308, 3, line=107, **figures(640, 80, 80)),
        {"id": 412, "ret": [4, 10]},
    ]
    return {
        "id": "vmap", "name": "Vectorized", "by": "vmap, 32 at a time", "kind": "program", "count": 7, "flops": 9120,
        "bytes": 75720,
        "deltas": ["vmap turned a product of vectors into one of matrices."], "peak": [405, 40000],
        "vars": [["a", "f32[64,10]"], *batched, *others], "rows": rows,
    }  # fmt: skip


def stablehlo() -> Data:
    rows = [
        {"id": 501, "text": "func.func public @main(%arg0: tensor<64x10xf32>, %arg1: tensor<32x64xf32>) {", "span": 4},
        {"id": 502, "text": "  %0 = stablehlo.dot_general %arg1, %arg0 : tensor<32x10xf32>", "from": [[403, -1]], "line": 105},
        {"id": 503, "text": "  %1 = stablehlo.tanh %0 : tensor<32x10xf32>", "from": [[404, -1]], "role": "primal", "line": 105},
        {
            "id": 504,
            "text": "  %2 = stablehlo.negate %1 : tensor<32x10xf32>",
            "from": [[410, -1]],
            "role": "batch",
            "line": 107,
        },
        {"id": 505, "text": "  return %2 : tensor<32x10xf32>"},
        {"id": 506, "text": "}"},
    ]
    deltas = ["One operation for each equation."]
    return {
        "id": "stablehlo", "name": "StableHLO", "by": "lowering", "kind": "text", "count": 3, "deltas": deltas, "rows": rows
    }  # fmt: skip


def optimized() -> Data:
    rows = [
        {"id": 601, "text": "%fused (p: f32[32,10]) -> f32[32,10] {", "span": 1},
        {"id": 602, "text": "  ROOT %negate.1 = f32[32,10] negate(%p)", "from": [[504, -1]]},
        {"id": 603, "text": "%dot.1 = f32[32,10] dot(%b, %a)", "from": [[502, -1]], "main": True, "role": "primal"},
        {
            "id": 604,
            "text": "%fusion.1 = f32[32,10] fusion(%dot.1), calls=%fused",
            "from": [[503, -1], [504, -1]],
            "main": True,
        },
        {"id": 605, "text": "%copy.1 = f32[32,10] copy(%fusion.1)", "main": True, "note": "XLA made this step by itself."},
    ]
    return {
        "id": "optimized", "name": "Optimized", "by": "XLA, for the CPU", "kind": "text", "count": 3, "rows": rows,
        "backend": {"flops": 8000, "bytes": 70000, "temp": 12800, "peak": 50000},
        "deltas": ["XLA fused 2 operations into one step."],
    }  # fmt: skip


def small() -> Data:
    """`jit(vmap(grad(loss)))` of a tiny classifier, with all that the format knows. Ids tell the stage: 3xx is the gradient."""
    frames = [
        ("loss", 9e-4, [], 0),
        ("dot.1", 5e-4, [603], 1),
        ("fusion.1", 3e-4, [604], 1),
        ("tanh", 2e-4, [503], 2),
        ("copy.1", 1e-4, [605], 0),
    ]
    partials = "def partials(out, x):\n    return (1.0 - out * out,)"
    return {
        "format": "pullback.explorer", "version": 1, "title": "Tiny classifier", "call": "jit(vmap(grad(loss)))",
        "file": "model.py",
        "rules": [
            {"name": "tanh.partials", "at": "pullback/ops/hyperbolic.py:31", "text": partials},
            {"name": "exp.partials"},
            {"name": "dot_general.transpose", "text": "def transpose(cotangent, x, y): ..."},
            {"name": "batch", "at": "pullback/transforms/batch.py"},
        ],
        "stages": [source(), base(), gradient(), vectorized(), stablehlo(), optimized()],
        "profile": {
            "unit": "s", "total": 1e-3,
            "rows": [{"name": name, "time": time, "from": rows, "depth": depth} for name, time, rows, depth in frames],
        },
        "find": {"row": 310, "text": "First NaN: mul, line 5, from infinity times 0"},
    }  # fmt: skip


LINES = 50  # of a generated page's source


def generated(equations: int) -> Data:
    """A chain of equations in scopes of 40, its gradient (three equations for each), and its batch."""
    lines = [{"id": line, "line": line, "text": f"    x{line} = pnp.tanh(x{line} * 2.0)"} for line in range(1, LINES + 1)]
    stages = [{"id": "source", "name": "Source", "by": "f.py", "kind": "source", "rows": lines}]
    parents: list[int] = []
    for id_, each in (("base", 1), ("grad", 3), ("vmap", 3)):
        stages.append(generated_stage(id_, equations * each, each, parents, 1_000_000 * len(stages)))
        parents = [row["id"] for row in stages[-1]["rows"] if "op" in row]
    return {
        "format": "pullback.explorer", "version": 1, "title": f"Generated, {equations} equations", "call": "vmap(grad(f))",
        "file": "f.py", "rules": [{"name": "rule"}], "stages": stages,
    }  # fmt: skip


def generated_stage(id_: str, count: int, each: int, parents: list[int], first: int) -> Data:
    rows: list[Data] = [{"id": first, "arg": "x", "out": [0]}]
    for number in range(count):
        if number % 40 == 0:
            rows.append(
                {"id": first + len(rows), "head": "scope", "label": f"block {number // 40}", "span": min(40, count - number)}
            )
        line = 1 + number % LINES
        live = 4 * min(number + 1, count - number)
        parent = parents[number * len(parents) // count] if parents else line
        role = "cotangent" if number % each == 2 else "primal"
        op = ("mul", "tanh", "add")[number % 3]
        row = equation(first + len(rows), op, [number, "2.0"], [number + 1], role, parent, 0 if parents else -1)
        rows.append({**row, "line": line, **figures(64, 512, live, live // 2)})
    rows.append({"id": first + len(rows), "ret": [count]})
    peak = max(rows, key=lambda row: row.get("live", 0))
    batched = [["f32[32,64]", [0]]] if id_ == "vmap" else [["f32[64]"]]
    return {
        "id": id_, "name": id_.capitalize(), "by": id_, "kind": "program", "count": count, "flops": 64 * count,
        "bytes": 512 * count,
        "peak": [peak["id"], peak.get("live", 0)], "deltas": [f"{count:,} equations."], "rows": rows,
        "vars": [[f"x{number}", *batched[0]] for number in range(count + 1)],
    }  # fmt: skip
