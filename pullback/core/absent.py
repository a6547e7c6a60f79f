"""Names of JAX's and NumPy's that pullback does not have: what is there in their place, or that they come later.

The messages of `AttributeError` read this table, so that who types a name that he knows learns the one to type here.
"""

from __future__ import annotations

import sys
from typing import NoReturn

import numpy as np

from pullback.core.lazy import lazy_module

difflib = lazy_module("difflib")

_DEVICES = "computing on several devices comes later"
_SORTING = "sorting and searching come later; of known values, NumPy's function does it"
_UPDATES = "arrays are immutable; write x.at[index].set(values), .add, .multiply, .min or .max, and use the result"
_TREES = "trees are handled by pb.tree.map, flatten, unflatten, leaves, reduce, ..."
_DEBUG = "to look at values, use pb.debug.print, pb.debug.callback or pb.debug.breakpoint"

# By module, then by names that share an explanation, which follows the message "module ... has no attribute ...:".
ABSENT: dict[str, dict[str, str]] = {
    "pullback": {
        "make_jaxpr": "pb.xpr(f, *args) gives the Program of a function",
        "jacobian": "it is pb.jacfwd or pb.jacrev",
        "tree_util tree_map tree_leaves tree_flatten tree_unflatten tree_structure tree_reduce tree_all": _TREES,
        "tree_multimap tree_transpose": _TREES,
        "pmap shard_map sharding NamedSharding P make_mesh set_mesh distributed process_index process_count": _DEVICES,
        "config enable_x64": "write `with pb.default_bits(64):`, or set the environment variable PULLBACK_DEFAULT_BITS=64",
        "debug_nans debug_infs": _DEBUG,
        "disable_jit": "code that is not jitted runs operation by operation; call the function without pb.jit",
        "log_compiles explain_cache_misses": "write pb.jit(f, explain_misses=True), or set PULLBACK_EXPLAIN_MISSES=1",
        "named_call": "it is pb.named_scope",
        "typeof": "it is x.type of an array",
        "typing": "it is pb.Array, for arrays and traced values",
        "default_backend": "it is pb.devices()[0].platform",
        "local_device_count": "it is pb.device_count",
        "effects_barrier": "effects have happened when a call returns; pb.block_until_ready waits for values",
        "experimental": "what is here stands in pb: odeint, sparse, pure_callback, io_callback",
        "custom_derivatives custom_batching": "they are pb.custom_jvp, pb.custom_vjp, pb.custom_gradient, pb.custom_vmap",
        "ad_checkpoint": "it is pb.checkpoint",
        "extend": "a primitive is a class with the decorator pb.primitive",
        "export": "it comes later; a Program can be written as JSON: pb.xpr(f, *args).to_json()",
        "default_matmul_precision": "products are computed in the full precision of their dtype",
        "dlpack": "it is pb.numpy.from_dlpack",
        "profiler": "it comes later; pb.jit(f).lower(*args).cost_analysis() says what a function costs",
        "flatten_util": "it comes later; until then, pb.tree.flatten and pb.numpy.concatenate of the raveled leaves",
        "image ffi": "it comes later",
    },
    "pullback.numpy": {
        "median quantile percentile nanmedian nanquantile nanpercentile": _SORTING,
        "unique unique_values unique_counts unique_inverse unique_all union1d intersect1d setdiff1d setxor1d": _SORTING,
        "interp": "it comes later; until then, pb.numpy.where or pb.numpy.select of formulas",
        "vectorize": "it is pb.vmap",
        "putmask fill copyto": _UPDATES,
        "ndarray": "it is pb.Array",
        "float_ double": "it is pb.numpy.float64",
        "single": "it is pb.numpy.float32",
        "int_": "it is pb.numpy.int32, or int64 with pb.default_bits(64)",
        "loadtxt savetxt genfromtxt fromregex savez_compressed": "use NumPy's function, and pb.numpy.asarray",
    },
    "pullback.lax": {
        "with_sharding_constraint pbroadcast pcast pvary": _DEVICES,
        "Precision": "products are computed in the full precision of their dtype",
        "RoundingMethod": 'rounding methods are strings: "to_nearest_even", "away_from_zero"',
        "collapse": "it is pb.lax.reshape",
        "optimization_barrier": "it comes later; pb.checkpoint keeps its second computation apart from the first",
        "reduce_precision": "it comes later; until then, x.astype(dtype).astype(x.dtype)",
        "platform_dependent": "a primitive may have a lowering rule for each platform: def_lower(platform=...)",
    },
    "pullback.nn": {
        "scaled_dot_general get_scaled_dot_general_config": (
            "quantization for one kind of GPU; pb.nn.scaled_matmul multiplies what is quantized already"
        ),
    },
    "pullback.tree": {
        "register_pytree_node register_pytree_node_class register_pytree_with_keys register_static": (
            "it is pb.tree.register_node, or pb.tree.register_dataclass"
        ),
        "Partial": "functools.partial is a leaf; pass its arguments by themselves",
    },
}


# Methods of NumPy's arrays that Arrays do not have: what is said of each is what is said of the function of that name.
ABSENT_METHODS = (
    "argpartition", "argsort", "cumprod", "cumsum", "fill", "nonzero", "partition", "put", "resize",
    "searchsorted", "sort",
)  # fmt: skip


class AbsentMethod:
    """In the place of a method that arrays do not have: looking it up is the error that says what there is instead."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        text = _what_to_say("pullback.numpy", self.name)
        raise AttributeError(f"{owner.__name__!r} object has no attribute {self.name!r}: {text}", name=self.name, obj=instance)


def absent(module: str, name: str) -> AttributeError:
    """The error for a name that a public module does not have."""
    text = _what_to_say(module, name)
    return AttributeError(f"module {module!r} has no attribute {name!r}{': ' if text else '.'}{text}", name=name)


def _what_to_say(module: str, name: str) -> str:
    """What the table says of a name, or else what can be told from the names that there are."""
    known = sys.modules[module].__all__
    for names, text in ABSENT.get(module, {}).items():
        if name in names.split():
            return f"{text}."
    if name in sys.modules["pullback.numpy"].__all__:
        return f"it is pb.numpy.{name}."
    if module == "pullback.numpy" and name in np.__all__:
        return "NumPy's function of that name comes later."
    if module == "pullback.tree" and name.removeprefix("tree_") in known:
        return f"it is pb.tree.{name.removeprefix('tree_')}."
    near = [] if name.startswith("_") else difflib.get_close_matches(name, known, 1)
    return f"did you mean {near[0]}?" if near else ""
