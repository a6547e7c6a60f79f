"""Pages for the tests: one written by hand that has something of everything, and generated ones of any size."""

from __future__ import annotations

import copy
from typing import Any

Data = dict[str, Any]


def small() -> Data:
    """`jit(vmap(grad(loss)))` of a tiny classifier, with all that the format knows. Ids tell the stage: 3xx is the gradient."""
    return copy.deepcopy(_SMALL)


_SOURCE = [
    (1, "import pullback.numpy as pnp"),
    (2, ""),
    (3, "def loss(params, image, label):"),
    (4, '    """Minus the logarithm of the probability given to the label."""'),
    (5, '    hidden = pnp.tanh(image @ params["w"])'),
    (6, "    found = hidden * 2.0  # a temperature"),
    (7, "    return pnp.log(pnp.sum(pnp.exp(found))) - found[label]"),
]

_BASE = {
    "id": "base", "name": "Base program", "by": "xpr", "kind": "program", "count": 7, "flops": 1200, "bytes": 4200,
    "peak": [205, 1280], "deltas": ["7 equations from 3 lines."], "values": True, "time": 4.0e-5,
    "vars": [
        ["a", "f32[64,10]"], ["b", "f32[64]"], ["c", "i32[]"], ["d", "f32[10]"], ["e", "f32[10]"], ["f", "f32[10]"], ["g", "f32[10]"],
        ["h", "f32[]"], ["i", "f32[]"], ["j", "f32[]"],
    ],
    "rows": [
        {"id": 201, "arg": "params['w']", "out": [0]},
        {"id": 202, "arg": "image", "out": [1]},
        {"id": 203, "arg": "label", "out": [2]},
        {"id": 200, "head": "scope", "label": "scores", "span": 3},
        {"id": 204, "op": "dot_general", "in": [1, 0], "out": [3], "role": "primal", "from": [[105, -1]], "line": 105, "flops": 1100,
         "bytes": 2856, "live": 40, "time": 2.1e-5, "params": [["dimension_numbers", "(((0,), (0,)), ((), ()))"]],
         "value": {"min": -3.25, "max": 2.5, "mean": 0.1, "nan": 0, "inf": 0, "count": 10, "sample": [0.5, -3.25, 2.5]}},
        {"id": 205, "op": "tanh", "in": [3], "out": [4], "role": "primal", "from": [[105, -1]], "line": 105, "flops": 40, "bytes": 80,
         "live": 80, "time": 4e-6, "value": {"min": -1, "max": 1, "mean": 0, "nan": 0, "inf": 0, "count": 10, "sample": [0.25, -1, 1]}},
        {"id": 206, "op": "mul", "in": [4, "2.0"], "out": [5], "role": "primal", "from": [[106, -1]], "line": 106, "flops": 10, "bytes": 80,
         "live": 80, "value": {"min": -2, "max": 2, "mean": 0, "nan": 0, "inf": 0, "count": 10}},
        {"id": 207, "op": "exp", "in": [5], "out": [6], "role": "primal", "from": [[107, -1]], "line": 107, "flops": 40, "bytes": 80, "live": 120},
        {"id": 208, "op": "reduce_sum", "in": [6], "out": [7], "role": "primal", "from": [[107, -1]], "line": 107, "flops": 9, "bytes": 44,
         "live": 84, "params": [["axes", "(0,)"]]},
        {"id": 209, "op": "log", "in": [7], "out": [8], "role": "primal", "from": [[107, -1]], "line": 107, "flops": 1, "bytes": 8, "live": 48},
        {"id": 210, "op": "sub", "in": [8, 5], "out": [9], "role": "primal", "from": [[107, -1]], "line": 107, "flops": 1, "bytes": 12, "live": 44},
        {"id": 211, "ret": [9]},
    ],
}  # fmt: skip

_GRAD = {
    "id": "grad", "name": "Gradient", "by": "grad", "kind": "program", "count": 12, "flops": 3600, "bytes": 9000, "peak": [308, 2600],
    "deltas": ["5 equations more than the base Program: 2.9 times the FLOPs.", "40 B wait for the backward pass: tanh keeps its result."],
    "vars": [
        ["a", "f32[64,10]"], ["b", "f32[64]"], ["c", "i32[]"], ["d", "f32[10]"], ["e", "f32[10]"], ["f", "f32[10]"], ["k", "f32[10]"],
        ["l", "f32[10]"], ["m", "f32[10]"], ["n", "f32[10]"], ["o", "f32[64,10]"], ["_", "f32[10]"],
    ],
    "rows": [
        {"id": 301, "arg": "params['w']", "out": [0], "from": [[201, -1]], "donated": True, "shard": "P('batch', None)"},
        {"id": 302, "arg": "image", "out": [1], "from": [[202, -1]], "kept": [0]},
        {"id": 303, "arg": "label", "out": [2], "from": [[203, -1]]},
        {"id": 320, "head": "part", "label": "forward", "span": 4},
        {"id": 304, "op": "dot_general", "in": [1, 0], "out": [3], "role": "primal", "from": [[204, -1]], "line": 105, "flops": 1100, "bytes": 2856,
         "live": 40},
        {"id": 305, "op": "tanh", "in": [3], "out": [4], "role": "primal", "from": [[205, -1]], "line": 105, "flops": 40, "bytes": 80, "live": 80,
         "kept": [0]},
        {"id": 306, "op": "mul", "in": [4, "2.0"], "out": [5], "role": "primal", "from": [[206, -1]], "line": 106, "flops": 10, "bytes": 80,
         "live": 120, "held": 40},
        {"id": 307, "op": "mul", "in": [4, 4], "out": [6], "role": "residual", "from": [[205, 0]], "line": 105, "flops": 10, "bytes": 80, "live": 160,
         "held": 80, "kept": [0]},
        {"id": 321, "head": "part", "label": "backward", "span": 5},
        {"id": 308, "op": "exp", "in": [5], "out": [7], "role": "cotangent", "from": [[207, 1]], "line": 107, "flops": 40, "bytes": 80, "live": 2600,
         "held": 80, "note": "The cotangent of exp is the result of exp times that of its output."},
        {"id": 309, "op": "sub", "in": ["1.0", 6], "out": [8], "role": "residual", "from": [[205, 0]], "line": 105, "flops": 10, "bytes": 80,
         "live": 200, "held": 40, "value": {"min": 0, "max": 1, "mean": 0.4, "nan": 0, "inf": 0, "count": 10}},
        {"id": 310, "op": "mul", "in": [7, 8], "out": [9], "role": "cotangent", "from": [[205, 0]], "line": 105, "flops": 10, "bytes": 120,
         "live": 160, "value": {"min": -0.5, "max": 7.25, "mean": 1, "nan": 2, "inf": 1, "count": 10, "sample": ["nan", 0.5, "inf"]}},
        {"id": 311, "op": "dot_general", "in": [1, 9], "out": [10], "role": "cotangent", "from": [[204, 2]], "line": 105, "flops": 1100, "bytes": 2856,
         "live": 2560, "donated": 301},
        {"id": 312, "op": "mul", "in": [4, "2.0"], "out": [11], "role": "dead", "from": [[206, -1]], "line": 106, "into": 306},
        {"id": 313, "ret": [10]},
    ],
}  # fmt: skip

_VMAP = {
    "id": "vmap", "name": "Vectorized", "by": "vmap, 32 at a time", "kind": "program", "count": 7, "flops": 9100, "bytes": 80000,
    "peak": [405, 40000], "deltas": ["vmap turned a product of vectors into one of matrices."],
    "vars": [
        ["a", "f32[64,10]"], ["b", "f32[32,64]", [0]], ["d", "f32[32,10]", [0]], ["e", "f32[32,10]", [0]], ["o", "f32[32,64,10]", [0]],
        ["p", "f32[10]"], ["q", "f32[10]"], ["r", "f32[]"], ["s", "f32[4,10]"], ["t", "f32[10]"], ["u", "f32[10]"],
    ],
    "rows": [
        {"id": 401, "arg": "params['w']", "out": [0], "from": [[301, -1]]},
        {"id": 402, "arg": "image", "out": [1], "from": [[302, -1]]},
        {"id": 403, "op": "dot_general", "in": [1, 0], "out": [2], "role": "primal", "from": [[304, 3]], "line": 105, "flops": 4000, "bytes": 9000,
         "live": 1280},
        {"id": 404, "op": "tanh", "in": [2], "out": [3], "role": "primal", "from": [[305, 3]], "line": 105, "flops": 1280, "bytes": 2560,
         "live": 2560},
        {"id": 405, "op": "broadcast_in_dim", "in": [3], "out": [4], "role": "batch", "from": [[311, 3]], "line": 105, "bytes": 60000,
         "live": 40000, "params": [["shape", "(32, 64, 10)"]]},
        {"id": 406, "op": "scan", "in": [3], "out": [5, 8], "role": "primal", "from": [[306, 3]], "line": 106, "flops": 2560, "bytes": 4000,
         "live": 2560, "trips": 4, "span": 3},
        {"id": 407, "arg": "", "out": [6]},
        {"id": 408, "op": "mul", "in": [6, "2.0"], "out": [7], "role": "primal", "from": [[306, 3]], "line": 106, "flops": 2560, "bytes": 4000,
         "live": 2560, "times": 4},
        {"id": 409, "ret": [7]},
        {"id": 420, "head": "repeat", "label": "block", "count": 2, "period": 1, "span": 4},
        {"id": 421, "head": "copy", "label": "1 of 2", "span": 1},
        {"id": 410, "op": "neg", "in": [5], "out": [9], "role": "batch", "from": [[308, 3]], "line": 107, "flops": 640, "bytes": 80, "live": 80},
        {"id": 422, "head": "copy", "label": "2 of 2", "span": 1},
        {"id": 411, "op": "neg", "in": [9], "out": [10], "role": "batch", "from": [[308, 3]], "line": 107, "flops": 640, "bytes": 80, "live": 80},
        {"id": 412, "ret": [4, 10]},
    ],
}  # fmt: skip

_STABLEHLO = {
    "id": "stablehlo", "name": "StableHLO", "by": "lowering", "kind": "text", "count": 3, "deltas": ["One operation for each equation."],
    "rows": [
        {"id": 501, "text": "func.func public @main(%arg0: tensor<64x10xf32>, %arg1: tensor<32x64xf32>) -> tensor<32x10xf32> {", "span": 4},
        {"id": 502, "text": "  %0 = stablehlo.dot_general %arg1, %arg0 : (tensor<32x64xf32>, tensor<64x10xf32>) -> tensor<32x10xf32>",
         "from": [[403, -1]], "role": "primal", "line": 105},
        {"id": 503, "text": "  %1 = stablehlo.tanh %0 : tensor<32x10xf32>", "from": [[404, -1]], "role": "primal", "line": 105},
        {"id": 504, "text": "  %2 = stablehlo.negate %1 : tensor<32x10xf32>", "from": [[410, -1]], "role": "batch", "line": 107},
        {"id": 505, "text": "  return %2 : tensor<32x10xf32>"},
        {"id": 506, "text": "}"},
    ],
}  # fmt: skip

_OPTIMIZED = {
    "id": "optimized", "name": "Optimized", "by": "XLA, for the CPU", "kind": "text", "count": 2,
    "backend": {"flops": 8000, "bytes": 70000, "temp": 12800, "peak": 50000}, "deltas": ["XLA fused 2 operations into one step."],
    "rows": [
        {"id": 601, "text": "%fused (p: f32[32,10]) -> f32[32,10] {", "span": 1},
        {"id": 602, "text": "  ROOT %negate.1 = f32[32,10] negate(%p)", "from": [[504, -1]]},
        {"id": 603, "text": "%dot.1 = f32[32,10] dot(%b, %a)", "from": [[502, -1]], "main": True, "role": "primal"},
        {"id": 604, "text": "%fusion.1 = f32[32,10] fusion(%dot.1), calls=%fused", "from": [[503, -1], [504, -1]], "main": True},
        {"id": 605, "text": "%copy.1 = f32[32,10] copy(%fusion.1)", "main": True, "note": "XLA made this step by itself."},
    ],
}  # fmt: skip

_SMALL = {
    "format": "pullback.explorer", "version": 1, "title": "Tiny classifier", "call": "jit(vmap(grad(loss)))", "file": "model.py",
    "rules": [
        {"name": "tanh.partials", "at": "pullback/ops/hyperbolic.py:31", "text": "def partials(out, x):\n    return (1.0 - out * out,)"},
        {"name": "exp.partials"},
        {"name": "dot_general.transpose", "text": "def transpose(cotangent, x, y): ..."},
        {"name": "batch", "at": "pullback/transforms/batch.py"},
    ],
    "stages": [
        {"id": "source", "name": "Source", "by": "model.py", "kind": "source",
         "rows": [{"id": 100 + line, "line": line, "text": text} for line, text in _SOURCE]},
        _BASE, _GRAD, _VMAP, _STABLEHLO, _OPTIMIZED,
    ],
    "profile": {
        "unit": "s", "total": 1e-3,
        "rows": [
            {"name": "loss", "time": 9e-4, "from": [], "depth": 0},
            {"name": "dot.1", "time": 5e-4, "from": [603], "depth": 1},
            {"name": "fusion.1", "time": 3e-4, "from": [604], "depth": 1},
            {"name": "tanh", "time": 2e-4, "from": [503], "depth": 2},
            {"name": "copy.1", "time": 1e-4, "from": [605], "depth": 0},
        ],
    },
    "find": {"row": 310, "text": "First NaN: mul, line 5, from infinity times 0"},
}  # fmt: skip


def generated(equations: int, *, stages: int = 3) -> Data:
    """A chain of equations in scopes of 40, its gradient (three equations for each), and its batch."""
    lines = 50
    source = [{"id": 1 + line, "line": 1 + line, "text": f"    x{line} = pnp.tanh(x{line} * 2.0)"} for line in range(lines)]
    data: Data = {
        "format": "pullback.explorer", "version": 1, "title": f"Generated, {equations} equations", "call": "vmap(grad(f))", "file": "f.py",
        "rules": [{"name": "rule"}], "stages": [{"id": "source", "name": "Source", "by": "f.py", "kind": "source", "rows": source}],
    }  # fmt: skip
    number = lines
    before: list[int] = []
    for position, (stage, each) in enumerate([("base", 1), ("grad", 3), ("vmap", 3)][:stages]):
        rows: list[Data] = [{"id": (number := number + 1), "arg": "x", "out": [0]}]
        variables: list[list[Any]] = [["x0", "f32[64]"]]
        made: list[int] = []
        for start in range(0, equations * each, 40):
            size = min(40, equations * each - start)
            rows.append({"id": (number := number + 1), "head": "scope", "label": f"block {start // 40}", "span": size})
            for equation in range(start, start + size):
                parents = (
                    [[before[min(len(before) - 1, equation * len(before) // (equations * each))], 0]]
                    if before
                    else [[1 + equation % lines, -1]]
                )
                role = ("primal", "primal", "cotangent")[equation % each] if position else "primal"
                number += 1
                rows.append({
                    "id": number, "op": ("mul", "tanh", "add")[equation % 3], "in": [len(variables) - 1, "2.0"], "out": [len(variables)],
                    "role": role, "from": parents, "line": 1 + equation % lines, "flops": 64, "bytes": 512,
                    "live": 256 + 4 * min(equation, equations * each - equation), "held": 2 * min(equation, equations * each - equation),
                })  # fmt: skip
                variables.append(
                    [f"x{equation + 1}", "f32[64]" if position < 2 else "f32[32,64]", *([[0]] if position == 2 else [])]
                )
                made.append(number)
        rows.append({"id": (number := number + 1), "ret": [len(variables) - 1]})
        data["stages"].append({
            "id": stage, "name": stage.capitalize(), "by": stage, "kind": "program", "rows": rows, "vars": variables, "count": len(made),
            "flops": 64 * len(made), "bytes": 512 * len(made), "peak": [made[len(made) // 2], 256 + 4 * (len(made) // 2)],
            "deltas": [f"{len(made):,} equations."],
        })  # fmt: skip
        before = made
    return data
