"""The modules of JAX's that need no file here: where each has its names from.

A row says which of pullback's namespaces a module of JAX's is (`base`), which names of that one JAX's does not have
(`without`), and what comes from elsewhere (`own`): words by the module that has them, `name` or `name=attribute`; a
module that does not start with `pullback` is one of this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Row(NamedTuple):
    """Where a module of JAX's has its names from: the arguments of `facade.facade`."""

    base: str | None = None
    without: str = ""
    own: Mapping[str, str] = MappingProxyType({})


# JAX's primitives, without the _p behind the names.
_PRIMITIVES = """abs acos acosh add_jaxvals add after_all all_gather all_to_all and approx_top_k argmax argmin asin asinh atan2
    atan atanh axis_index bessel_i0e bessel_i1e bitcast_convert_type broadcast_in_dim call cbrt ceil cholesky clamp
    closed_call clz complex concatenate cond conj conv_general_dilated convert_element_type copy cos cosh
    create_token cumlogsumexp cummax cummin cumprod cumsum custom_jvp_call custom_lin custom_vjp_call dce_sink
    device_put digamma div dot_general dynamic_slice dynamic_update_slice eig eigh empty2 eq eq_to erf_inv erf erfc
    exp2 exp expm1 fft floor gather ge get gt hessenberg householder_product igamma_grad_a igamma igammac imag
    integer_pow iota is_finite jit le le_to lgamma linear_solve log1p log logistic lt lt_to lu max min mul mulhi
    name ne neg nextafter not optimization_barrier or pad pmax pmin polygamma population_count pow ppermute psum qr
    ragged_all_to_all random_bits random_fold_in random_gamma random_seed random_split real reduce_and reduce_max
    reduce_min reduce_or reduce reduce_precision reduce_prod reduce_sum reduce_window_max reduce_window_min
    reduce_window reduce_window_sum reduce_xor regularized_incomplete_beta rem remat reshape rev rng_bit_generator
    rng_uniform round rsqrt scan scatter_add scatter_max scatter_min scatter_mul scatter scatter_sub schur
    select_and_gather_add select_and_scatter_add select_and_scatter select_n sharding_constraint shift_left
    shift_right_arithmetic shift_right_logical sign sin sinh slice sort split sqrt square squeeze stack stage
    stop_gradient sub svd swap tan tanh threefry2x32 tile top_k transpose triangular_solve tridiagonal
    tridiagonal_solve unstack while xor zeta"""
PRIMITIVES = " ".join([f"{name}_p" for name in _PRIMITIVES.split()])

_OF_MATRICES = (
    "cholesky_p eig_p eigh_p hessenberg_p lu_p lu_pivots_to_permutation_p qr_p schur_p svd_p triangular_solve_p tridiagonal_p"
    " tridiagonal_solve_p"
)

_JAXPRS = "Atom ClosedJaxpr DropVar Effect Effects Jaxpr JaxprEqn JaxprTypeError Literal Var gensym"
_TRACING = "concrete_or_error find_top_trace get_opaque_trace_state valid_jaxtype"
_MORE_JAXPRS = "DebugInfo check_jaxpr jaxprs_in_params new_jaxpr_eqn no_effects"

_CHECKIFY = (
    "Error ErrorCategory JaxRuntimeError all_checks automatic_checks check check_error checkify debug_check div_checks"
    " float_checks index_checks init_error nan_checks user_checks"
)

ROWS: dict[str, Row] = {
    "jax.lib": Row(own={"version": "__version__"}),
    "jax.dlpack": Row(own={"placement": "from_dlpack is_supported_dtype"}),
    "jax.core": Row(
        own={
            "structs": "AbstractValue ShapedArray",
            "jaxprs": f"eval_jaxpr Atom DropVar Effect Effects JaxprTypeError gensym {_MORE_JAXPRS}",
            "tracing": f"Trace {_TRACING}",
            "stand_ins": "pytype_aval_mappings",
            "pullback": "Tracer ensure_compile_time_eval eval_context=ensure_compile_time_eval",
        }
    ),
    "jax.extend.backend": Row(own={"placement": "get_backend"}),
    "jax.extend.core": Row(
        own={
            "structs": "primal_dtype_to_tangent_dtype",
            "jaxprs": f"{_JAXPRS} {_MORE_JAXPRS} jaxpr_as_fun subjaxprs",
            "rules": "Primitive",
            "tracing": f"{_TRACING} mapped_aval unmapped_aval",
            "stand_ins": "TraceTag set_current_trace take_current_trace",
        }
    ),
    "jax.extend.core.primitives": Row(own={"primitives": PRIMITIVES}),
    "jax.interpreters.ad": Row(
        own={
            "rules": (
                "UndefinedPrimal Zero add_tangents defbilinear defjvp defjvp2 deflinear deflinear2 instantiate_zeros"
                " is_undefined_primal primitive_jvps primitive_transposes zeros_like_aval add_jaxvals=add_tangents"
            ),
            "tracing": "JVPTracer",
            "primitives": "add_jaxvals_p",
        }
    ),
    "jax.interpreters.batching": Row(
        own={
            "rules": (
                "axis_primitive_batchers bdim_at_front broadcast defbroadcasting defreducer defvectorized"
                " fancy_primitive_batchers primitive_batchers"
            )
        }
    ),
    "jax.interpreters.mlir": Row(own={"rules": "emit_python_callback lower_fun register_lowering"}),
    "jax.interpreters.partial_eval": Row(own={"partial_values": "PartialVal dce_jaxpr trace_to_jaxpr_nounits"}),
    "jax._src": Row(),
    "jax._src.ad_util": Row(own={"primitives": "stop_gradient_p", "rules": "Zero"}),
    "jax._src.api": Row(),
    "jax._src.api_util": Row(own={"api_util": "infer_argnums_and_argnames"}),  # e3nn_jax looks for it there
    "jax._src.core": Row(own={"structs": "ShapedArray", "tracing": "trace_state_clean", "stand_ins": "physical_aval"}),
    "jax._src.dispatch": Row(own={"stand_ins": "wait_for_tokens"}),
    "jax._src.dtypes": Row(
        own={"stand_ins": "ExtendedDType", "dtypes": "TypePromotionError finfo", "pullback.core.dtypes": "DType extended"}
    ),
    "jax._src.earray": Row(own={"stand_ins": "EArray"}),
    "jax._src.flatten_util": Row(own={"flatten_util": "ravel_pytree"}),
    "jax._src.interpreters": Row(),
    "jax._src.interpreters.ad": Row(own={"pullback.core.errors": "CustomVJPException=GradientError"}),
    "jax._src.interpreters.pxla": Row(own={"stand_ins": "global_result_handlers"}),
    "jax._src.literals": Row(own={"stand_ins": "LiteralArray TypedNdArray"}),
    "jax._src.state": Row(),
    "jax._src.state.types": Row(own={"structs": "AbstractRef"}),
    "jax._src.traceback_util": Row(own={"stand_ins": "_exclude_paths api_boundary include_frame register_exclusion"}),
    "jax._src.util": Row(own={"stand_ins": "safe_map safe_zip"}),  # which JAX's guide to interpreters imports
    "jax._src.tree_util": Row(own={"tree_util": "_registry flatten_one_level prefix_errors"}),
    "jax._src.distributed": Row(own={"stand_ins": "global_state"}),
    "jax.interpreters.pxla": Row(),
    "jax.interpreters.xla": Row(own={"stand_ins": "apply_primitive canonicalize_dtype_handlers"}),
    "jax.interpreters": Row(),
    "jax.experimental.array_serialization": Row(),
    "jax.experimental.array_serialization.serialization": Row(
        own={"stand_ins": "GlobalAsyncCheckpointManager get_tensorstore_spec"}
    ),
    # orbax imports these, and uses them with several processes only
    "jax.experimental.colocated_python": Row(),
    "jax.experimental.colocated_python.func": Row(),
    "jax.experimental.colocated_python.serialization": Row(own={"stand_ins": "DeviceList"}),
    "jax.extend.ifrt_programs": Row(own={"stand_ins": "ifrt_programs"}),
    "jax.experimental.checkify": Row(own={"checkify": _CHECKIFY}),
    "jax.experimental.hijax": Row(
        own={
            "stand_ins": (
                "AvalMutableQDD AvalQDD HiPrimitive HiType MutableHiType aval_method aval_property"
                " control_flow_allowed_effects register_hitype"
            ),
            "rules": "Zero instantiate_zeros is_undefined_primal",
            "structs": "AbstractRef AbstractValue ShapedArray",
        }
    ),
    "jax.experimental.jet": Row(own={"taylor": "fact jet jet2 zero_series"}),
    "jax.experimental.ode": Row(own={"taylor": "odeint"}),
    "jax.experimental.layout": Row(own={"stand_ins": "Layout", "sharding": "Format"}),
    "jax.experimental.pjit": Row(own={"jitting": "pjit=jit"}),
    "jax.experimental.mesh_utils": Row(own={"sharding": "create_device_mesh"}),
    "jax.experimental.multihost_utils": Row(
        own={
            "sharding": "P",
            "processes": (
                "assert_equal broadcast_one_to_all global_array_to_host_local_array host_local_array_to_global_array"
                " process_allgather reached_preemption_sync_point sync_global_devices"
            ),
        }
    ),
    "jax.experimental.shard_map": Row(own={"processes": "shard_map=shard_map_of_old"}),
    "jax.experimental.sparse": Row(own={"stand_ins": "BCOO BCSR JAXSparse sparsify"}),
    "jax.extend.source_info_util": Row(own={"stand_ins": "register_exclusion"}),
    "jax.test_util": Row(own={"differences": "check_grads check_jvp check_vjp"}),
    "jax._src.array": Row(own={"placement": "_reconstruct_array"}),  # pickles name it
    "jax._src.checkify": Row(own={"checkify": f"{_CHECKIFY} JaxException Out"}),
    "jax._src.xla_bridge": Row(own={"stand_ins": "_backends", "placement": "default_backend device_count devices"}),
    "jax._src.compiler": Row(own={"stand_ins": "backend_compile_and_load"}),
    "jax.experimental": Row(own={"configuration": "enable_x64 disable_x64", "control_flow": "io_callback"}),
    "jax.lax.linalg": Row("pullback.lax.linalg", own={"primitives": _OF_MATRICES}),
    "jax.ops": Row(own={"pullback": "segment_max segment_min segment_prod segment_sum"}),
    "jax.scipy.sparse.linalg": Row(own={"krylov": "bicgstab cg gmres"}),
    "jax.scipy.special": Row(
        "pullback.scipy.special",
        "betaincc betainccinv betaincinv erfcinv exprel gammainccinv gammaincinv log_expit sinc",
    ),
}

# Those that are pullback's namespaces of the same names, as they are
_SAME = """image nn.initializers numpy.fft scipy.cluster scipy.cluster.vq scipy.fft scipy.integrate
    scipy.interpolate scipy.ndimage scipy.optimize scipy.signal scipy.sparse scipy.spatial scipy.spatial.transform
    scipy.stats"""
ROWS.update({f"jax.{name}": Row(f"pullback.{name}") for name in _SAME.split()})

_DISTRIBUTIONS = """bernoulli beta betabinom binom cauchy chi2 dirichlet expon gamma gennorm geom gumbel_l gumbel_r laplace
    logistic multinomial multivariate_normal nbinom norm pareto poisson t truncnorm uniform vonmises wrapcauchy"""
ROWS.update({f"jax.scipy.stats.{name}": Row(f"pullback.scipy.stats:{name}", "name") for name in _DISTRIBUTIONS.split()})
