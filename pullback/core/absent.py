"""Names of JAX's and NumPy's that pullback does not have: what is there in their place, or that they come later.

The messages of `AttributeError` read this table, so that who types a name that he knows learns the one to type here.
"""

from __future__ import annotations

import sys

import numpy as np

from pullback.core.lazy import lazy_module

difflib = lazy_module("difflib")

_NUMBERS = "arrays hold numbers and bools alone"
_SIZES = (
    "sizes are numbers when a function is traced: export it for one element, serialize it with program=True, and pb.vmap its"
    " call, for a batch of any size"
)
_TREES = "trees are handled by pb.tree.map, flatten, unflatten, leaves, reduce, ..."

# By module, then by names that share an explanation, which follows the message "module ... has no attribute ...:".
ABSENT: dict[str, dict[str, str]] = {
    "pullback": {
        "make_jaxpr": "pb.xpr(f, *args) gives the Program of a function",
        "jacobian": "it is pb.jacfwd or pb.jacrev",
        "tree_util tree_map tree_leaves tree_flatten tree_unflatten tree_structure tree_reduce tree_all": _TREES,
        "tree_multimap tree_transpose": _TREES,
        "process_index process_count": "they are pb.distributed.process_index and process_count",
        "config enable_x64": "write `with pb.default_bits(64):`, or set the environment variable PULLBACK_DEFAULT_BITS=64",
        "debug_nans debug_infs": "pb.checking(nan=True, infinity=True) finds them; pb.find_nan(f, *args) where one comes from",
        "diff": "of programs it is pb.program_diff(f, g, *args), of arrays pb.numpy.diff",
        "disable_jit": "code that is not jitted runs operation by operation; call the function without pb.jit",
        "log_compiles explain_cache_misses": "write pb.jit(f, explain_misses=True), or set PULLBACK_EXPLAIN=1",
        "named_call": "it is pb.named_scope",
        "explain": "it is a method of what jit returns: pb.jit(f).explain(*args)",
        "typeof": "it is x.type of an array",
        "default_backend": "it is pb.devices()[0].platform",
        "local_device_count": "it is len(pb.local_devices())",
        "device_put_replicated device_put_sharded": "pb.device_put(x, pb.NamedSharding(mesh, spec)) copies or divides",
        "Mesh": "it is pb.sharding.Mesh, and pb.make_mesh makes one",
        "effects_barrier": "effects have happened when a call returns; pb.block_until_ready waits for values",
        "experimental": "what is here stands in pb: odeint, sparse, pure_callback, io_callback",
        "custom_derivatives custom_batching": "they are pb.custom_jvp, pb.custom_vjp, pb.custom_gradient, pb.custom_vmap",
        "ad_checkpoint": "it is pb.checkpoint",
        "extend": "a primitive is a class with the decorator pb.primitive",
        "default_matmul_precision": "products are computed in the full precision of their dtype",
        "dlpack": "it is pb.numpy.from_dlpack",
        "ffi": "it comes later",
        "dtypes": "what it has is in pb.numpy: finfo, iinfo, issubdtype, result_type, the dtypes themselves",
        "typing Tensor tensor": "it is pb.Array, for arrays and traced values; pb.numpy.asarray makes one",
        "ref": "pb.new_ref(x) makes a mutable array; ref.get, ref.set, ref.swap and ref.addupdate are its methods",
        "no_grad": "only what pb.grad is given is differentiated, and pb.lax.stop_gradient(x) counts as a constant",
        "func": "its functions are here: pb.grad, pb.vmap, pb.jvp, pb.vjp, pb.jacrev, pb.jacfwd, pb.hessian",
        "optim example_libraries": "optimizers are in pb.optimizers",
    },
    "pullback.export": {
        "symbolic_shape symbolic_args_specs SymbolicScope is_symbolic_dim": _SIZES,
        "register_pytree_node_serialization register_namedtuple_serialization": "it is pb.export.register_container",
        "default_export_platform": "it is pb.devices()[0].platform",
        "DisabledSafetyCheck": "what cannot travel is refused, always",
        "minimum_supported_calling_convention_version maximum_supported_calling_convention_version": (
            "bytes of another version of the format are refused by pb.export.deserialize"
        ),
    },
    "pullback.profiler": {
        "start_server stop_server": "pb.profiler.trace(log_dir) writes files, which XProf opens",
        "ProfileOptions ProfileData": "pb.profiler.start_trace takes options as its own arguments",
        "annotate": "it is pb.profiler.TraceAnnotation, or annotate_function, which decorates functions",
    },
    "pullback.numpy": {
        "putmask fill copyto": "arrays are immutable; write x.at[index].set(values), .add, .min, ..., and use the result",
        "loadtxt savetxt genfromtxt fromregex savez_compressed memmap": "use NumPy's function, and pb.numpy.asarray",
        "array2string format_float_positional format_float_scientific base_repr binary_repr": "use NumPy's function",
        "uint uintc uintp ubyte ushort ulong ulonglong": "the default dtype of its kind is 'uint', others pb.numpy.uint8, ...",
        "intc intp byte short long longlong": "the default dtype of its kind is int, others are pb.numpy.int8, int16, ...",
        "half": "it is pb.numpy.float16",
        "longdouble clongdouble float128 float96 complex256 complex192": "no device computes in more than 64 bits",
        "float4_e2m1fn float6_e2m3fn float6_e3m2fn int1 uint1": "arrays have no elements of 1, 4 or 6 bits of these kinds",
        "object_ bytes_ str_ void character flexible datetime64 timedelta64 record recarray rec char strings": _NUMBERS,
        "isnat busday_count busday_offset busdaycalendar is_busday datetime_as_string datetime_data": _NUMBERS,
        "matrix asmatrix bmat": "a matrix is an array of two axes",
        "poly1d polynomial": "a polynomial is the vector of its coefficients: pb.numpy.polyval, polyadd, ...",
        "asanyarray ascontiguousarray asfortranarray require asarray_chkfinite": "it is pb.numpy.asarray: arrays have no order",
        "isfortran may_share_memory shares_memory": "arrays are immutable: it makes no difference who shares their memory",
        "seterr geterr errstate seterrcall geterrcall ComplexWarning": "operations do not warn; see pb.numpy.isfinite",
        "nditer nested_iters ndenumerate ndindex flatiter broadcast": "use NumPy's iterators over shapes, and pb.vmap",
        "random": "it is pb.random, whose functions take keys",
        "min_scalar_type common_type mintypecode typename sctypeDict ScalarType typecodes": "it is pb.numpy.result_type",
        "row_stack": "it is pb.numpy.vstack",
        "in1d": "it is pb.numpy.isin",
        "True_ False_": "they are True and False",
        "real_if_close": "the dtype of a result does not depend on values; take pb.numpy.real",
        "ma": "masked arrays are pairs: pass where=mask, or choose with pb.numpy.where",
        "emath": "convert operands to complex numbers, x.astype(complex)",
        "getbufsize setbufsize get_include show_config show_runtime info test testing": "it is about NumPy itself",
        "lib core ctypeslib exceptions f2py typing little_endian": "it is about NumPy itself",
    },
    "pullback.lax": {
        "psend precv": "pb.lax.ppermute sends and receives at once",
        "ragged_all_to_all": "pad the blocks to one size: pb.lax.all_to_all(blocks, axis_name, 0, 0), and move their sizes too",
        "pargmax pargmin": "it is pb.numpy.argmax, argmin (pb.lax.all_gather(x, axis_name), 0)",
        "all_gather_invariant": 'it is pb.lax.all_gather(x, axis_name, to="invarying")',
        "psum_invariant": "it is pb.lax.psum",
        "pdot pgather xeinsum": "it is pb.lax.psum of a product, or an index of pb.lax.all_gather",
        "scaled_dot": "pb.nn.scaled_matmul multiplies what is quantized",
        "rng_uniform": "it draws other numbers at each call; pb.random.uniform draws from a key",
        "create_token after_all": "effects happen in the order of the program by themselves, without tokens",
        "dce_sink": "what is to happen although no result depends on it is a callback: pb.debug.callback, pb.io_callback",
        "composite": "a function needs no decorator to be one operation: pb.jit(f) is one in the Program around it",
        "stage": "pb.jit(f) stages what f does; of a number, pb.numpy.asarray makes an array",
        "conv_general_permutations conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple": (
            "pb.eval_shape(pb.lax.conv_general_dilated, ...) gives the shape of a result"
        ),
        "reduce_window_shape_tuple": "pb.eval_shape(pb.lax.reduce_window, ...) gives the shape of a result",
        "shape_as_value": "it is pb.numpy.asarray(x.shape)",
        "select_and_gather_add select_and_scatter select_and_scatter_add": "the derivatives of pooling are there without it",
        "DotDimensionNumbers PrecisionLike ConvGeneralDilatedDimensionNumbers": "it is a type for annotations of JAX's own",
    },
    "pullback.nn": {
        "Module Linear Dense": "a layer is a function of its parameters, which pb.nn.initializers makes",
        "normalize": "it is pb.nn.standardize",
        "scaled_dot_general get_scaled_dot_general_config": "pb.nn.scaled_matmul multiplies what is quantized already",
    },
    "pullback.random": {
        "seed default_rng RandomState": "it is pb.random.key(seed); pb.random.split makes a key for each draw of it",
        "rand random random_sample": "it is pb.random.uniform(key, shape)",
        "randn standard_normal": "it is pb.random.normal(key, shape)",
    },
    "pullback.scipy": {},
    "pullback.scipy.integrate": {"odeint solve_ivp": "it is pb.odeint"},
    "pullback.scipy.interpolate": {"interp1d CubicSpline": "splines come later; pb.numpy.interp is linear"},
    "pullback.scipy.ndimage": {
        "convolve correlate gaussian_filter": "it is pb.scipy.signal.convolve or correlate, of a padded array",
        "zoom": "it is pb.image.resize",
        "rotate shift affine_transform": "it is pb.scipy.ndimage.map_coordinates, of coordinates that you compute",
    },
    "pullback.scipy.signal": {"lfilter sosfilt": "a recursive filter is pb.lax.scan, or pb.lax.associative_scan"},
    "pullback.scipy.sparse": {"csr_matrix coo_matrix": "its product with x is pb.segment_sum(values * x[columns], rows)"},
    "pullback.scipy.optimize": {
        "curve_fit least_squares": "it is pb.scipy.optimize.minimize, of a sum of squares",
        "root root_scalar fsolve newton": "it is pb.lax.custom_root, with a solver of your own",
        "line_search": "minimize looks for its steps by itself",
    },
    "pullback.tree": {
        "register_pytree_node register_pytree_node_class register_pytree_with_keys register_static": (
            "it is pb.tree.register_node, or pb.tree.register_dataclass"
        ),
        "Partial": "functools.partial is a leaf; pass its arguments by themselves",
    },
}


_NEW = "arrays are immutable: x + y, x * y, ... give a new one, and x.at[index].set(y) gives one with other elements"
# Methods of arrays elsewhere that Arrays do not have, with what to write; of those without a text, it is what is said of the
# function of that name.
_OF_ARRAYS: dict[str, str | None] = {
    "fill put resize": None,
    "numpy": "numpy.asarray(x) gives its values to NumPy",
    "backward": "a gradient is that of a function: pb.grad(f)(x)",
    "requires_grad requires_grad_": "pb.grad(f, argnums=...) says with respect to which arguments",
    "detach": "it is pb.lax.stop_gradient(x)",
    "cuda": "it is pb.device_put(x, device)",
    "to": "it is pb.device_put(x, device), or x.astype(dtype)",
    "unsqueeze": "it is pb.numpy.expand_dims(x, axis)",
    "permute": "it is x.transpose(axes)",
    "add_ sub_ mul_ div_ zero_ fill_ copy_": _NEW,
}
ABSENT_METHODS = {name: text for names, text in _OF_ARRAYS.items() for name in names.split()}


# Where a name is looked for that was asked for elsewhere; first of all it is in pullback.numpy.
_ROOMS = ("lax", "nn", "random", "linalg", "fft", "sharding", "debug")


def absent(module: str, name: str) -> AttributeError:
    """The error for a name that a public module does not have."""
    text = what_to_say(module, name)
    return AttributeError(f"module {module!r} has no attribute {name!r}{': ' if text else '.'}{text}", name=name)


def what_to_say(module: str, name: str) -> str:
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
    if name.startswith("_"):
        return ""
    for room in _ROOMS:
        if name in getattr(sys.modules["pullback"], room).__all__:
            return f"it is pb.{room}.{name}."
    near = difflib.get_close_matches(name, known, 1)
    return f"did you mean {near[0]}?" if near else ""
