"""JAX's names, modules and habits, over pullback: programs that were written for JAX run as they are, without JAX.

`import pullback.compat.jax as jax` is JAX's namespace. `pullback.compat.jax.install()` makes `import jax` mean it in this
process, for libraries that do so; `python -m pullback.compat.jax program.py` runs a program that way.
"""

from __future__ import annotations

from pullback.compat.jax.arrays import attach, detach
from pullback.compat.jax.configuration import adopt, release
from pullback.compat.jax.facade import facade, habit
from pullback.compat.jax.facade import install as install
from pullback.compat.jax.facade import uninstall as uninstall
from pullback.compat.jax.version import __version__ as __version__
from pullback.compat.jax.version import __version_info__ as __version_info__

_TRANSFORMATIONS = (
    "ad fwd_and_bwd grad hessian jacfwd jacobian jacrev jvp linear_transpose linearize named_call pmap value_and_grad vjp vmap"
)

habit(attach, detach)
habit(adopt, release)
facade(
    globals(),
    own={
        "facade": "install uninstall",
        "transformations": _TRANSFORMATIONS,
        "jitting": "jit",
        "control_flow": "pure_callback",
        "placement": (
            "block_until_ready copy_to_host_async default_backend device_count device_get device_put devices"
            " effects_barrier host_count host_id host_ids live_arrays local_device_count local_devices"
            " make_array_from_callback make_array_from_process_local_data make_array_from_single_device_arrays"
            " print_environment_info process_count process_index process_indices reshard"
        ),
        "processes": "shard_map",
        "sharding": "NamedSharding P make_mesh set_mesh",
        "ad_checkpoint": "checkpoint checkpoint_policies remat",
        "structs": "ShapeDtypeStruct typeof",
        "tracing": "eval_shape make_jaxpr",
        "configuration": (
            "allow_f16_reductions array_garbage_collection_guard auto_pcast checking_leaks check_tracer_leaks config"
            " debug_infs debug_key_reuse debug_nans default_device default_matmul_precision default_prng_impl disable_jit"
            " enable_checks enable_custom_prng enable_x64 explain_cache_misses jax2tf_associative_scan_reductions"
            " legacy_prng_key log_compiles make_user_context no_execution no_tracing numpy_dtype_promotion numpy_rank_promotion"
            " remove_size_one_mesh_axis_from_type softmax_custom_jvp thread_guard threefry_partitionable transfer_guard"
            " transfer_guard_device_to_device transfer_guard_device_to_host transfer_guard_host_to_device"
        ),
        "custom_derivatives": "closure_convert custom_gradient custom_jvp custom_vjp",
        "pullback.core.shardings": "Shard",
        "pullback": ("Array Device Ref clear_caches ensure_compile_time_eval float0 freeze named_scope"),
        "ref": "empty_ref free_ref new_ref",
    },
)
