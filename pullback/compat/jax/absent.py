"""Names of JAX's that are not here: why, and what there is in their place. Errors read this, and so does the documentation."""

from __future__ import annotations

_DEVICES = "of several devices and processes there is what pb.sharding, pb.parallel and pb.distributed have"
_INSIDE = "it is of JAX's own inner works"
_LATER = "it comes later"

# By module, then by names that share a reason; "*" stands for all names of the module, and of those in it.
ABSENT: dict[str, dict[str, str]] = {
    "jax": {
        "smap memory": _DEVICES,
        "ds": "it is jax.lax.dynamic_slice",
        "ad": _INSIDE,
    },
    "jax.api_util": {"*": _INSIDE},
    "jax.core": {"ParamDict max_dim min_dim": _INSIDE},
    "jax.custom_derivatives": {"remat_opt_p": _INSIDE},
    "jax.debug": {"*": "effects happen in the order of the program by themselves"},
    "jax.example_libraries.optimizers": {"*": "it is a helper of that module's"},
    "jax.example_libraries.stax": {"*": "it is in jax.nn or jax.numpy"},
    "jax.experimental": {"EArray cur_qdd primal_tangent_dtype": _INSIDE},
    "jax.experimental.compilation_cache": {"*": "executables are kept on disk by themselves; see pb.cache_info"},
    "jax.experimental.custom_partitioning": {"*": _DEVICES},
    "jax.experimental.hijax": {"*": _INSIDE},
    "jax.experimental.layout": {"*": "arrays have one order of axes in memory"},
    "jax.experimental.mesh_utils": {"*": _DEVICES},
    "jax.experimental.multihost_utils": {"*": _DEVICES},
    "jax.experimental.random": {"*": _LATER},
    "jax.experimental.rnn": {"*": "it is cuDNN's, for GPUs"},
    "jax.export": {"*": "sizes are numbers, trees have nodes that are tuples, lists and dicts, and every check is made"},
    "jax.extend": {"*": _INSIDE},
    "jax.extend.random": {"*": "the generators are those that jax.random names; threefry_2x32 is a function"},
    "jax.ffi": {"*": _LATER},
    "jax.interpreters": {"*": _INSIDE},
    "jax.interpreters.mlir": {"*": "programs are lowered to StableHLO as text; mlir.register_lowering takes mlir.lower_fun(f)"},
    "jax.lax": {
        "psend precv ragged_all_to_all": _DEVICES,
        "rng_uniform": "it draws other numbers at each call; jax.random.uniform draws from a key",
        "scaled_dot": "jax.nn.scaled_matmul multiplies what is quantized",
    },
    "jax.lax.linalg": {"*": _LATER},
    "jax.nn": {"scaled_dot_general get_scaled_dot_general_config": "jax.nn.scaled_matmul multiplies what is quantized"},
    "jax.profiler": {"*": "jax.profiler.trace(log_dir) writes files, which XProf and Perfetto open"},
    "jax.random": {"random_gamma_p": _INSIDE},
    "jax.sharding": {"*": _DEVICES},
}


def reason(module: str, name: str) -> str:
    """Why a name of JAX's is not here; empty where nothing is said of it."""
    of_a_module = ABSENT.get(f"{module}.{name}", {}).get("*")
    if of_a_module:
        return of_a_module
    while module:  # outwards, by the name of the module itself
        for names, text in ABSENT.get(module, {}).items():
            if names == "*" or name in names.split():
                return text
        module, _, name = module.rpartition(".")
    return ""
