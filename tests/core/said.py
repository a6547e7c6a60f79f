"""Mistakes in the arguments of public functions, one for each message that no other test shows, and all that the error says."""

from __future__ import annotations

# The call; the class of the error; its text, without the user's line.
SAID: list[tuple[str, str, str]] = [
    (
        "pnp.roll(pnp.ones(3), 1.5)",
        "TypeError",
        "roll's shift must be a whole number, but got 1.5.",
    ),
    (
        "pnp.rot90(pnp.ones((2, 2)), 1.5)",
        "TypeError",
        "rot90's k must be a whole number, but got 1.5.",
    ),
    (
        "pnp.round(pnp.ones(3), 1.5)",
        "TypeError",
        "round's decimals must be a whole number, but got 1.5.",
    ),
    (
        "pnp.eye(3, k=1.5)",
        "TypeError",
        "The number of a diagonal, k, must be a whole number, but got 1.5.",
    ),
    (
        "pnp.diag(pnp.ones(3), 0.5)",
        "TypeError",
        "diag's k must be a whole number, but got 0.5.",
    ),
    (
        "pnp.trace(pnp.ones((3, 3)), 0.5)",
        "TypeError",
        "diagonal's offset must be a whole number, but got 0.5.",
    ),
    (
        "pnp.tril_indices(3, 0.5)",
        "TypeError",
        "tril_indices's k must be a whole number, but got 0.5.",
    ),
    (
        "pnp.diff(pnp.ones(3), n=1.5)",
        "TypeError",
        "diff's n must be a whole number, but got 1.5.",
    ),
    (
        "pnp.hanning(3.5)",
        "TypeError",
        "hanning's M must be a whole number, but got 3.5.",
    ),
    (
        "pnp.kaiser(3.5, 1.0)",
        "TypeError",
        "kaiser's M must be a whole number, but got 3.5.",
    ),
    (
        "pnp.split(pnp.ones(3), 1.5)",
        "TypeError",
        "split's number of parts must be a whole number, but got 1.5.",
    ),
    (
        "pnp.array_split(pnp.ones(3), None)",
        "TypeError",
        "array_split's number of parts must be a whole number, but got None.",
    ),
    (
        "pnp.split(pnp.ones(3), [1.5])",
        "TypeError",
        "Each place at which an array is split must be a whole number, but got 1.5.",
    ),
    (
        "pnp.nonzero(pnp.ones(3), size=2.5)",
        "TypeError",
        "nonzero's size must be a whole number, but got 2.5.",
    ),
    (
        "pnp.partition(pnp.ones(3), 1.5)",
        "TypeError",
        "partition's kth must be a whole number, but got 1.5.",
    ),
    (
        "pnp.histogram(pnp.ones(3), 2.5)",
        "TypeError",
        "histogram's bins must be a whole number, but got 2.5.",
    ),
    (
        "pnp.bincount(np.ones(3, int), minlength=2.5)",
        "TypeError",
        "bincount's minlength must be a whole number, but got 2.5.",
    ),
    (
        "pnp.bincount(np.ones(3, int), length=2.5)",
        "TypeError",
        "bincount's length must be a whole number, but got 2.5.",
    ),
    (
        "pnp.linalg.matrix_power(pnp.ones((2, 2)), 1.5)",
        "TypeError",
        "matrix_power's n must be a whole number, but got 1.5.",
    ),
    (
        "pnp.linalg.tensorinv(pnp.ones((4, 2, 2)), 1.5)",
        "TypeError",
        "tensorinv's ind must be a whole number, but got 1.5.",
    ),
    (
        "pnp.fft.fft(pnp.ones(3), 2.5)",
        "TypeError",
        "fft's n must be a whole number, but got 2.5.",
    ),
    (
        "lax.top_k(pnp.ones(3), 1.5)",
        "TypeError",
        "top_k's k must be a whole number, but got 1.5.",
    ),
    (
        "pb.nn.one_hot(1, 3.5)",
        "TypeError",
        "one_hot's num_classes must be a whole number, but got 3.5.",
    ),
    (
        'pb.make_mesh((1.5,), ("x",))',
        "TypeError",
        "Each of make_mesh's axis_shapes must be a whole number, but got 1.5.",
    ),
    (
        'pb.Program.from_json("{}", ["sin"])',
        "TypeError",
        "from_json takes primitives as a dict by their names, but got ['sin'].",
    ),
    (
        'pb.Program.from_json("{}", {}, [int])',
        "TypeError",
        "from_json takes classes as a dict by their names, but got [the class int].",
    ),
    (
        "pnp.asarray(np.array([1, None]))",
        "LeafError",
        "A NumPy array of shape (2,) and dtype object holds no numbers, so no array can be made of it. Make numbers of what is "
        "in it (.astype).",
    ),
    (
        "pnp.asarray(np.ma.masked_array([1.0], [True]))",
        "LeafError",
        "A masked NumPy array has values that are missing, which an array cannot have: fill them (.filled).",
    ),
    (
        "lax.index_in_dim(pnp.ones(3), 5)",
        "IndexError",
        "index_in_dim: index 5 is out of bounds for axis 0 of f32[3]: it must be one of -3 to 2.",
    ),
    (
        "lax.dot(pnp.ones((2,2,2)), pnp.ones(2))",
        "ShapeError",
        "dot takes vectors and matrices, but got f32[2,2,2] and f32[2].",
    ),
    (
        'lax.conv_transpose(pnp.ones((1,3,2)), pnp.ones((3,2,2)), (2,), "sam", dimension_numbers=("NWC","WIO","NWC"))',
        "ValueError",
        "conv_transpose takes as padding 'SAME', 'VALID' or pairs, not 'sam'.",
    ),
    (
        'lax.fft(pnp.ones(4, "complex64"), "RFFT", (4,))',
        "DtypeError",
        "RFFT takes real numbers, but got c64[4]; FFT takes complex ones.",
    ),
    (
        "lax.linalg.cholesky_update(pnp.ones((3, 3)), pnp.ones(2))",
        "ShapeError",
        "cholesky_update takes square matrices and as many vectors, but got f32[3,3], f32[2].",
    ),
    (
        "lax.linalg.householder_product(pnp.ones((2, 3)), pnp.ones(2))",
        "ShapeError",
        "householder_product takes matrices with at least as many rows as columns, and at most as many taus as columns, "
        "but got f32[2,3] and f32[2].",
    ),
    (
        "lax.linalg.symmetric_product(pnp.ones((2, 3)), pnp.ones((3, 3)))",
        "ShapeError",
        "symmetric_product: f32[3,3] has not the shape of the product of f32[2,3]: it must be square, with the rows of that.",
    ),
    (
        "lax.sort(pnp.ones(()))",
        "AxisError",
        "sort goes along an axis, but got f32[], which has none.",
    ),
    (
        "lax.sort((pnp.ones(3), pnp.ones(3)), num_keys=3)",
        "ValueError",
        "sort takes num_keys between 1 and the number of arrays, 2, not 3.",
    ),
    (
        "lax.sort((pnp.ones(3), pnp.ones(4)))",
        "ShapeError",
        "sort takes arrays of one shape, but got f32[3], f32[4].",
    ),
    (
        "lax.approx_max_k(pnp.ones(3), 1, recall_target=2.0)",
        "ValueError",
        "approx_max_k takes a recall_target above 0 and up to 1, not 2.0.",
    ),
    (
        "pnp.gradient(pnp.ones(3), edge_order=3)",
        "ValueError",
        "gradient takes edge_order=1 or 2, not 3.",
    ),
    (
        "pnp.gradient(pnp.ones(1))",
        "ShapeError",
        "gradient needs 2 points along axis 0 of f32[1].",
    ),
    (
        "pnp.array([pnp.ones(2), pnp.ones(3)])",
        "ShapeError",
        "array: the elements of the list have different shapes: (2,), (3,). Broadcast or pad them to one shape.",
    ),
    (
        "pnp.full((2, 3), pnp.ones(2))",
        "ShapeError",
        "full cannot broadcast shapes (2,) and (2, 3): aligned at their last axes, two sizes must be equal, or one of them 1.",
    ),
    (
        "pnp.diag(pnp.ones((2, 2, 2)))",
        "ShapeError",
        "diag takes a vector or a matrix, but got f32[2,2,2].",
    ),
    (
        "pnp.meshgrid(pnp.ones(2), copy=False)",
        "ValueError",
        "meshgrid(copy=False) would return views, which arrays do not have: leave `copy` out.",
    ),
    (
        "pnp.result_type()",
        "TypeError",
        "result_type takes at least one array or dtype.",
    ),
    (
        "pb.fft.fft(pnp.ones(3), 0)",
        "ShapeError",
        "fft takes n of 1 or more, not 0.",
    ),
    (
        "pb.fft.fftfreq(0)",
        "ShapeError",
        "fftfreq takes n of 1 or more samples, a number d apart; not n=0 and d=1.0.",
    ),
    (
        "pnp.ravel_multi_index((pnp.array([1]),), (2, 2))",
        "ShapeError",
        "ravel_multi_index takes an array for each axis of (2, 2), but got 1.",
    ),
    (
        'pnp.ravel_multi_index((pnp.array([1]), pnp.array([1])), (2, 2), mode="x")',
        "ValueError",
        "ravel_multi_index takes mode='raise', 'wrap' or 'clip', or one for each axis, not 'x'.",
    ),
    (
        "pnp.histogram(pnp.ones(3), weights=pnp.ones(2))",
        "ShapeError",
        "histogram takes a weight for each of 3 values, but got f32[2].",
    ),
    (
        "pnp.histogram(pnp.ones(3), bins=0)",
        "ValueError",
        "histogram needs a bin at least, but got bins=0.",
    ),
    (
        "pnp.histogram(pnp.ones(3), range=(2, 1))",
        "ValueError",
        "histogram takes a finite range that rises, but got (2.0, 1.0).",
    ),
    (
        'pnp.ones(3)["a":]',
        "IndexError",
        "A slice takes integers as bounds: slice indices must be integers or None or have an __index__ method.",
    ),
    (
        "pb.linalg.svd(pnp.ones((2,2)), subset_by_index=(0, 5), full_matrices=False)",
        "ValueError",
        "svd takes subset_by_index=(start, end) with 0 <= start <= end <= 2, not (0, 5).",
    ),
    (
        'pb.linalg.norm(pnp.ones(3), "fro2")',
        "ValueError",
        "A norm of vectors takes a number as ord, not 'fro2'.",
    ),
    (
        'pb.linalg.norm(pnp.ones((2, 2)), "x")',
        "ValueError",
        "A norm of matrices takes ord='fro', 'nuc', 1, -1, 2, -2, inf or -inf, not 'x'.",
    ),
    (
        "pb.linalg.norm(pnp.ones((2, 2, 2)), axis=(0, 1, 2))",
        "ShapeError",
        "norm takes one axis or two, but got axis=(0, 1, 2) for f32[2,2,2].",
    ),
    (
        "pb.linalg.multi_dot([pnp.ones(2)])",
        "ValueError",
        "multi_dot takes at least two arrays, but got 1.",
    ),
    (
        "pb.linalg.matrix_rank(pnp.ones((2,2)), rtol=1e-3, tol=1e-3)",
        "ValueError",
        "matrix_rank takes one of rtol and tol.",
    ),
    (
        'pb.vmap(lambda x, y: x, in_axes={"z": 0})(pnp.ones(2), pnp.ones(2))',
        "AxisError",
        "vmap's in_axes names 'z', but <lambda> (call.py:1) has the parameters x, y.",
    ),
    (
        "pb.grad(lambda x, y: x, argnums=(0, 0))(1.0, 2.0)",
        "GradientError",
        "grad's argnums=(0, 0) names an argument twice: name each once.",
    ),
    (
        "pb.jit(lambda x: x, donate_argnums=0, static_argnums=0)",
        "StaticArgumentError",
        "jit cannot donate 0 of <lambda> (call.py:1), which is static. Choose one of both.",
    ),
    (
        "pb.jit(lambda x: pb.device_get(x))(1.0)",
        "LeafError",
        "device_get was given a traced value of type ~f32[], which has no values to get yet. Return it from the traced "
        "function, and get that.",
    ),
    (
        "pb.jet(lambda x, y: x * y, (1.0, 2.0), ([1.0], [1.0, 2.0]))",
        "StructureError",
        "jet takes series of one length, the order of the derivatives, but got [1, 2].",
    ),
    (
        'pb.sharding.Mesh(np.array([1]), ("a",))',
        "TypeError",
        "Mesh takes an array of devices (pb.devices()), but got a NumPy array of shape (1,) and dtype int64.",
    ),
    (
        'pb.image.resize(pnp.ones((2, 2)), (4, 4), "cubicc")',
        "ValueError",
        "A method of resizing is one of nearest, linear, lanczos3, lanczos5, cubic, cubic-pytorch, area, bilinear, "
        "trilinear, triangle, bicubic, tricubic, bicubic-pytorch; not 'cubicc'.",
    ),
    (
        'pb.image.resize(pnp.ones((2, 2)), (4,), "linear")',
        "ShapeError",
        "resize takes a size for each axis of f32[2,2], not (4,).",
    ),
    (
        'pb.scipy.signal.convolve(pnp.ones(3), pnp.ones(3), mode="sam")',
        "ValueError",
        "convolve takes mode='full', 'same' or 'valid', not 'sam'.",
    ),
    (
        "pb.scipy.ndimage.map_coordinates(pnp.ones((2, 2)), [pnp.ones(2)], order=1)",
        "ShapeError",
        "map_coordinates of f32[2,2] takes an array of places for each axis, not 1.",
    ),
    (
        "pb.scipy.ndimage.map_coordinates(pnp.ones((2, 2)), [pnp.ones(2), pnp.ones(2)], order=5)",
        "NotImplementedError",
        "map_coordinates interpolates with order 0 or 1, not 5.",
    ),
    (
        'pb.scipy.optimize.minimize(lambda x: (x**2).sum(), pnp.ones(2), method="magic")',
        "ValueError",
        "minimize takes method='BFGS' or 'L-BFGS', not 'magic'.",
    ),
    (
        "pb.random.choice(pb.random.key(0), 3, (5,), replace=False)",
        "ValueError",
        "choice cannot draw 5 of 3 elements without replacement. Ask for fewer.",
    ),
    (
        "pb.random.choice(pb.random.key(0), 3, (2,), p=pnp.ones(2))",
        "ShapeError",
        "choice: p has the shape (2,), but a value is drawn of 3 elements.",
    ),
    (
        "pb.random.permutation(pb.random.key(0), pnp.ones(()))",
        "DtypeError",
        "permutation takes an array, or the whole number of its elements, but got f32[].",
    ),
    (
        "pb.random.categorical(pb.random.key(0), pnp.ones(()))",
        "AxisError",
        "categorical of an array with no axes: axis -1 is out of bounds. It needs none: leave axis out.",
    ),
    (
        "pb.random.fold_in(pb.random.key(0), 0.5)",
        "DtypeError",
        "fold_in takes a whole number, but got ~f32[].",
    ),
    (
        "pb.random.split(pb.random.key(0), -1)",
        "ShapeError",
        "split: a shape has no negative sizes, but got (-1,).",
    ),
    (
        "pb.random.wrap_key_data(pnp.ones(2))",
        "LeafError",
        "wrap_key_data takes the words of keys of threefry2x32, an array of uint32 whose shape ends with 2, but got f32[2].",
    ),
    (
        "pb.random.multivariate_normal(pb.random.key(0), pnp.ones(2), pnp.ones((3, 3)))",
        "ShapeError",
        "multivariate_normal takes vectors and square matrices of one size, but got a mean of f32[2] and a covariance "
        "of f32[3,3].",
    ),
    (
        "pb.debug.print(pnp.ones(2))",
        "LeafError",
        "debug.print takes a format string first, as in debug.print('x = {}', x), but got f32[2].",
    ),
    (
        'pb.debug.print("{} {:.2f}", 1)',
        "ValueError",
        "debug.print's format '{} {:.2f}' has {1}, but there is no value for it: got 1 by position and none by name. "
        "Pass the value, or write {{ and }} for braces.",
    ),
    (
        'pb.checks.check(pnp.ones(2) > 0, "all")',
        "DtypeError",
        "check takes a bool of no axes as pred, but got bool[2].",
    ),
    (
        'pb.jit(lambda x: pb.checks.check(x > 0, "neg"))(1.0)',
        "ValueError",
        "A function that is compiled, or the body of a loop, makes a check, and no checkify is around it to say whether "
        "it holds: call checkify(f) in place of f, or make it with debug=True, which leaves it out.",
    ),
    (
        "pb.profiler.stop_trace()",
        "RuntimeError",
        "No trace is running: begin one with pb.profiler.start_trace(log_dir).",
    ),
    (
        "pb.nn.max_pool(pnp.ones(3), (2,))",
        "ShapeError",
        "max_pool with 1 spatial axis takes an array of more axes, not f32[3].",
    ),
    (
        'pb.nn.standardize(pnp.ones(3), algorithm="x")',
        "ValueError",
        "standardize takes algorithm='fast' or 'stable', not 'x'.",
    ),
    (
        "pb.nn.dot_product_attention(pnp.ones((2, 3)), pnp.ones((2, 3)), pnp.ones((2, 3)))",
        "ShapeError",
        "dot_product_attention takes a query of shape (B, T, N, H), and a key and a value of shape (B, S, K, H), each "
        "without B or with it, and N a multiple of K; but got f32[2,3], f32[2,3], f32[2,3].",
    ),
    (
        'pb.sparse.jacobian(lambda x: x, mode="x")(pnp.ones(2))',
        "ValueError",
        "sparse.jacobian takes mode='forward', 'reverse' or None, but got 'x'.",
    ),
    (
        'pb.flatten_util.ravel_pytree({"a": "x"})',
        "LeafError",
        "ravel_pytree's argument['a'] is 'x' of type str, which is neither an array nor a number, nor a container that "
        "pullback knows. Convert it (pb.numpy.asarray), register its class (pb.tree.register_node), or keep it out of "
        "what is traced (static_argnums or static_argnames in jit, a closure elsewhere).",
    ),
    (
        "pb.tree.transpose(pb.tree.structure([0, 0]), pb.tree.structure((0,)), [1, 2, 3])",
        "StructureError",
        "tree.transpose takes a leaf for each pair of leaves of outer and inner, 2 x 1, but got 3.",
    ),
    (
        "pb.program_diff(3, lambda x: x, 1.0)",
        "TypeError",
        "program_diff takes a function, but got 3 of type int.",
    ),
    (
        "pb.odeint(lambda y, t: y, 1.0, 1.0)",
        "ShapeError",
        "odeint's t must be times along one axis, but is ~f32[].",
    ),
    (
        'lax.reduce_window(pnp.ones((3, 3)), 0.0, lax.add, (2,), (1, 1), "VALID")',
        "ShapeError",
        "window_dimensions takes a number for each of 2 axes, not (2,).",
    ),
    (
        "lax.custom_root(lambda x: x, 1.0, 3, 4)",
        "TypeError",
        "custom_root takes a function, but got 3 of type int.",
    ),
    (
        "lax.custom_linear_solve(lambda x: x, pnp.ones(2), lambda mv, b: pnp.ones(3))",
        "ShapeError",
        "What custom_linear_solve's solve returns must be a tree like b, but output is f32[3] where b has f32[2].",
    ),
    (
        "lax.top_k(pnp.ones(()), 1)",
        "AxisError",
        "top_k goes along an axis, but got f32[], which has none.",
    ),
    (
        "lax.rev(pnp.ones(3), (1,))",
        "ShapeError",
        "rev takes different axes between 0 and 0 of f32[3], but got axes=(1,).",
    ),
    (
        "lax.transpose(pnp.ones((2, 3)), (0,))",
        "AxisError",
        "transpose takes an order of all 2 axes of f32[2,3], but got permutation=(0,).",
    ),
    (
        "lax.broadcast_in_dim(pnp.ones(3), (2, 2), (0,))",
        "ShapeError",
        "broadcast_in_dim of f32[3] to shape (2, 2) with its axes at (0,): axis 0 is neither 1 nor what it is to become.",
    ),
    (
        "lax.expand_dims(pnp.ones(3), (5,))",
        "AxisError",
        "expand_dims of an array with axes 0 to 1: axis 5 is out of bounds. Count them from 0, or backwards from -1.",
    ),
    (
        'lax.iota("float32", -1)',
        "ShapeError",
        "iota: a shape has no negative sizes, but got (-1,).",
    ),
    (
        "lax.clamp(0.0, pnp.ones(3), pnp.ones(2))",
        "ShapeError",
        "clamp takes operands of one shape, or 0-d ones, but got ~f32[], f32[3], f32[2]. Broadcast them first: "
        "pb.numpy's functions and the operators do so, pb.lax's do not.",
    ),
    (
        "lax.select(pnp.ones(3) > 0, pnp.ones(3), pnp.ones(2))",
        "ShapeError",
        "select takes operands of one shape, or 0-d ones, but got bool[3], f32[3], f32[2]. Broadcast them first: "
        "pb.numpy's functions and the operators do so, pb.lax's do not.",
    ),
    (
        "lax.concatenate([], 0)",
        "ShapeError",
        "concatenate takes at least one array.",
    ),
    (
        "lax.reduce(pnp.ones(3), 0.0, lax.add, (3,))",
        "AxisError",
        "reduce of an array with axis 0 alone: axis 3 is out of bounds. Count them from 0, or backwards from -1.",
    ),
    (
        "lax.cumsum(pnp.ones(3), 1)",
        "AxisError",
        "cumsum of an array with axis 0 alone: axis 1 is out of bounds. Count them from 0, or backwards from -1.",
    ),
    (
        "pnp.stack([pnp.ones(3), pnp.ones(4)])",
        "ShapeError",
        "stack takes arrays of one shape, but got f32[3], f32[4].",
    ),
    (
        "pnp.split(pnp.ones(5), 2)",
        "ShapeError",
        "split cannot cut f32[5] into 2 equal parts along axis 0. Use array_split, whose parts may differ by one.",
    ),
    (
        "pnp.squeeze(pnp.ones((2, 3)), axis=0)",
        "ShapeError",
        "squeeze removes axes of size 1, but f32[2,3] has others at 0.",
    ),
    (
        "lax.scan(lambda c, x: (c, x), 0.0, None)",
        "AxisError",
        "scan of <lambda> (call.py:1) has no xs to loop over: pass length.",
    ),
    (
        "lax.switch(0.5, [lambda x: x, lambda x: x], 1.0)",
        "DtypeError",
        "switch takes an integer as its index, but got ~f32[]. Convert it, or use cond for a bool.",
    ),
    (
        "lax.fori_loop(0, 3.5, lambda i, x: x, 0.0)",
        "ValueError",
        "fori_loop's upper must be whole, but got 3.5: it counts in steps of 1. Round it.",
    ),
    (
        "pb.nn.initializers.glorot_uniform()(pb.random.key(0), (3,))",
        "ShapeError",
        "The weights of shape (3,) have not the axes that in_axis=-2, out_axis=-1 and batch_axis=() name. Choose among "
        "their axes.",
    ),
    (
        "pb.segment_sum(pnp.ones(3), pnp.array([0, 1]), 2)",
        "ShapeError",
        "segment_sum takes a number for each part of f32[3], but got i32[2].",
    ),
    (
        "pnp.tensordot(pnp.ones((2, 2)), pnp.ones((2, 2)), axes=(0, 1, 2))",
        "TypeError",
        "tensordot takes axes as a pair, but got (0, 1, 2).",
    ),
    (
        "lax.dot_general(pnp.ones(2), pnp.ones(2), ((0,), (0,)))",
        "TypeError",
        "dot_general takes the contracting axes as a pair, but got (0,).",
    ),
    (
        "pb.scipy.linalg.cho_solve(pnp.ones((2, 2)), pnp.ones(2))",
        "TypeError",
        "cho_solve takes c_and_lower as a pair, but got f32[2,2].",
    ),
    (
        "pnp.quantile(pnp.ones(3), pnp.array([0.5, 1.5]))",
        "ValueError",
        "quantile takes q between 0 and 1, but got 1.5.",
    ),
    (
        "pnp.piecewise(pnp.ones(3), [pnp.ones(3) > 0], [])",
        "ValueError",
        "piecewise takes a function for each of 1 condition, and perhaps one more, not 0.",
    ),
    (
        "pb.hvp(lambda x: x, (pnp.ones(3),), (pnp.ones(3), pnp.ones(3)))",
        "StructureError",
        "hvp takes as many tangents as primals, but got 2 for 1.",
    ),
    (
        "pb.vmap(lambda x: x, axis_size=4)(pnp.ones(3))",
        "AxisError",
        "vmap of <lambda> (call.py:1) was given batches of different sizes: axis_size is 4; argument x has size 3 along "
        "axis 0. Batch along axes of one size, and give None in in_axes for what is not batched.",
    ),
    (
        'pb.export.deserialize(b"hello")',
        "ExportError",
        "These 5 bytes are nothing that pullback has exported: they begin otherwise. Pass what `serialize` gave, as it is.",
    ),
    (
        "pb.custom_jvp(lambda x: x).defjvp(3)",
        "TypeError",
        "defjvp takes a function, but got 3 of type int.",
    ),
]
