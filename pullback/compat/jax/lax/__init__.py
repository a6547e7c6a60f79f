"""jax.lax: pullback.lax, with loops, branches and solvers of JAX's trees, and what JAX has besides."""

from __future__ import annotations

from pullback.compat.jax.facade import facade
from pullback.compat.jax.lax.trees import of_tree
from pullback.compat.jax.rows import PRIMITIVES
from pullback.compat.jax.sharding import with_sharding

_SHARDED = (
    "broadcast broadcast_in_dim broadcasted_iota conv_general_dilated dot dot_general empty ragged_dot ragged_dot_general"
    " reduce_sum reshape rng_bit_generator"
)
_OF_TREES = (
    "all_to_all optimization_barrier pbroadcast pcast pmax pmean pmin ppermute pshuffle psum_scatter pswapaxes stop_gradient"
)

facade(
    globals(),
    "pullback.lax",
    own={
        "primitives": PRIMITIVES,
        "dtypes": "dtype=result_type",
        "control_flow": "scan while_loop fori_loop cond switch map associative_scan custom_root custom_linear_solve",
        "lax.trees": "all_gather psum reduce reduce_window with_sharding_constraint",
        "lax.shapes": (
            "conv_general_permutations conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple"
            " reduce_window_shape_tuple shape_as_value"
        ),
        "lax.others": (
            "ConvGeneralDilatedDimensionNumbers DotDimensionNumbers PrecisionLike after_all composite"
            " create_token dce_sink stage"
        ),
    },
    adapted={**dict.fromkeys(_SHARDED.split(), with_sharding), **dict.fromkeys(_OF_TREES.split(), of_tree)},
)
