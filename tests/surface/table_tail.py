"""NumPy's long tail: whole numbers, statistics, calculus, polynomials, windows, what is said of arrays."""

import numpy as np
from cases import FLOATS, case, entry

RNG = np.random.default_rng(0)
V, W = RNG.normal(size=5), RNG.normal(size=5)
A = RNG.normal(size=(3, 5))
Z = A + 1j * RNG.normal(size=(3, 5))
WHOLE, OTHERS = RNG.integers(-40, 40, (3, 4)).astype(np.int32), RNG.integers(-40, 40, 4).astype(np.int32)
POINTS = np.sort(RNG.normal(size=5))
COUNTS = np.array([1, 2, 3, 1, 2], np.int32)
UINT8, SHORT = np.array([4, 6, 0], np.uint8), np.array([6, 9, 3], np.int16)

TABLE = {
    "numpy.gcd": entry(np.gcd, case(WHOLE, OTHERS), case(UINT8, UINT8[::-1]), case(WHOLE[:0], OTHERS)),
    "numpy.lcm": entry(
        np.lcm, case(WHOLE, OTHERS), case(SHORT, SHORT[::-1]), case(WHOLE[:0], OTHERS), case(*2 * (WHOLE.astype("int8") * 3,)),
        case(np.array([-126, 99], "int8"), np.array([-127, 77], "int8")),
    ),
    "numpy.frexp": entry(np.frexp, case(8 * A), case(np.array([0.0, -0.0, np.inf, np.nan, 1.0])), case(A[:0]), dtypes=FLOATS),
    "numpy.ldexp": entry(np.ldexp, case(A, COUNTS), case(V, -3), case(V, COUNTS[:, None]), dtypes=FLOATS, wrt=(0,), weak=True),
    "numpy.spacing": entry(np.spacing, case(A), case(np.array([0.0, np.inf, np.nan, 1.0])), dtypes=("float64",)),
    "numpy.geomspace": entry(
        np.geomspace, case(1.0, 1000.0, 4), case(np.abs(V), np.abs(W), 5, axis=1), case(-V**2, -2.0, endpoint=False), wrt=(0, 1)
    ),
    "numpy.cov": entry(
        np.cov, case(A), case(Z), case(A, A[:1]), case(A.T, rowvar=False, bias=True), case(V), case(A, ddof=0, aweights=V**2),
        case(A, fweights=COUNTS), case(Z, fweights=COUNTS, aweights=W**2), case(A, aweights=np.ones(5), ddof=2),
        dtypes=FLOATS, wrt=(0,),
    ),
    "numpy.corrcoef": entry(
        np.corrcoef, case(A), case(Z), case(A.T, rowvar=False), case(V, W), dtypes=FLOATS, wrt=(0,), rtol={"float32": 1e-4}
    ),
    "numpy.gradient": entry(
        np.gradient, case(A), case(V, 0.5), case(A, POINTS, axis=1), case(A, 2.0, POINTS, edge_order=2), case(Z, axis=(0, 1)),
        case(A, axis=0, edge_order=2), dtypes=FLOATS, wrt=(0,), rtol={"float32": 1e-4},
    ),
    "numpy.trapezoid": entry(
        np.trapezoid, case(A), case(A, dx=0.5, axis=0), case(A, POINTS), case(A, A), case(V, POINTS), case(Z, axis=0),
        case(A[:, :1]), case(A, dx=np.abs(V), axis=0), case(A, dx=np.abs(A[1:]), axis=0), dtypes=FLOATS, wrt=(0,),
    ),
    "numpy.polyadd": entry(np.polyadd, case(V, A[0, :2]), case(V[:0], W), case(COUNTS, COUNTS[:2]), wrt=(0, 1)),
    "numpy.polysub": entry(np.polysub, case(V, A[0, :2]), case(Z[0], W), case(COUNTS[:2], COUNTS), wrt=(0, 1)),
    "numpy.polymul": entry(np.polymul, case(V, A[0, :2]), case(Z[0], W), case(COUNTS[:2], COUNTS), case(V[:1], W), wrt=(0, 1)),
    "numpy.polydiv": entry(
        lambda u, v: (np.polydiv(u, v)[0], np.polysub(u, np.polymul(*np.polydiv(u, v)[:1], v))), case(V, 2 + W[:2]),
        case(Z[0], 3 + W[:3]), wrt=(0, 1), order=1, rtol={"float32": 1e-3, "float64": 1e-9},
    ),
    "numpy.polyder": entry(np.polyder, case(V), case(V, 2), case(COUNTS, 1), case(V, 7), case(Z[0], 0), wrt=(0,)),
    "numpy.polyint": entry(
        np.polyint, case(V), case(V, 2, 3.0), case(V, 2, W[:2]), case(COUNTS, 1), case(Z[0], 3), case(V, 0), case(V[:0], 2),
        wrt=(0,),
    ),
    "numpy.polyval": entry(
        np.polyval, case(V, A), case(V, 0.5), case(COUNTS, COUNTS), case(Z[0], W), case(np.tile(V, 20), W), case(V[:0], A),
        dtypes=FLOATS, wrt=(0, 1),
    ),
    "numpy.vander": entry(
        np.vander, case(V), case(V, 3), case(V, 0), case(COUNTS, 4, True), case(Z[0], increasing=True),
        wrt=(0,),
    ),
    "numpy.bartlett": entry(np.bartlett, case(5), case(1), case(0), case(-3), jit=False),
    "numpy.blackman": entry(np.blackman, case(5), case(1), case(0), jit=False),
    "numpy.hamming": entry(np.hamming, case(5), case(1), case(0), jit=False),
    "numpy.hanning": entry(np.hanning, case(6), case(1), case(0), jit=False),
    "numpy.iscomplex": entry(np.iscomplex, case(A), case(Z.real + 0j), case(Z), case(COUNTS), case(2.0)),
    "numpy.isreal": entry(np.isreal, case(A), case(Z.real + 0j), case(Z), case(COUNTS), case(1j)),
    "numpy.array_equiv": entry(
        np.array_equiv, case(A, A), case(A, A[:1]), case(V, 1.0), case(V, A[:, :2]), case(np.ones((2, 1)), np.ones(3)),
        vmap=False,
    ),
    "numpy.matvec": entry(
        np.matvec, case(A, V), case(Z, np.stack([V, W])[:, None, :]), case(A[None], Z), case(A[:0], V), wrt=(0, 1), weak=True
    ),
    "numpy.vecmat": entry(np.vecmat, case(V, A.T), case(Z[:1, :3], A), case(Z, A.T), case(V[:0], A[:0]), wrt=(0, 1), weak=True),
    "numpy.ndim": entry(np.ndim, case(A), case(1.0), case([1, 2]), jit=False, vmap=False, same_dtype=False),
    "numpy.shape": entry(np.shape, case(A), case(1.0), case([[1, 2]]), jit=False, vmap=False, same_dtype=False),
    "numpy.size": entry(np.size, case(A), case(A, 0), case(A, axis=-1), case([1, 2]), jit=False, vmap=False, same_dtype=False),
    "numpy.fromfunction": entry(
        lambda f, shape, **options: np.fromfunction(f, shape, **options), case(lambda i, j: i - 2 * j, (2, 3)),
        case(lambda i: i * i, (3,), dtype=int), jit=False, vmap=False,
    ),
    "numpy.interp": entry(
        np.interp, case(A, POINTS, V), case(A, POINTS, V, -1.0, 2.0), case(A, V, W, period=1.5), case(0.25, POINTS, V),
        case(V, POINTS[:1], W[:1]), case(V, POINTS, Z[0]), dtypes=FLOATS, wrt=(0, 2), rtol={"float32": 1e-4},
    ),
    "numpy.poly": entry(np.poly, case(V), case(A[:, :3]), dtypes=FLOATS, wrt=(0,), rtol={"float32": 1e-4}),
    "numpy.roots": entry(
        lambda p, **options: np.roots(p).astype(complex), case(np.array([1.0, -6.0, 11.0, -6.0]), strip_zeros=False),
        case(np.array([2.0, 1.0]), strip_zeros=False), case(np.array([3.0]), strip_zeros=False), wrt=(0,), same_dtype=False,
        rtol={"float32": 1e-3}, vmap=False,
    ),
    "numpy.polyfit": entry(
        np.polyfit, case(V, W, 2), case(V, A.T, 1, w=1 + V**2), case(V, W, 1, cov=True),
        case(V, W, 1, w=1 + V**2, cov="unscaled"), case(V, A.T, 1, cov=True), dtypes=FLOATS, wrt=(0, 1), order=1,
        rtol={"float32": 1e-3, "float64": 1e-8}, anything=("cov",),
    ),
    "numpy.i0": entry(np.i0, case(A), case(30 * A), case(A[:0]), wrt=(0,), weak=True),
    "numpy.kaiser": entry(np.kaiser, case(5, 2.0), case(1, 3.0), case(0, 3.0), case(6, 0.0), case(-1, 1.0), jit=False),
}  # fmt: skip

FILES = "array_repr array_str frombuffer fromfile fromiter fromstring load save savez einsum_path iterable"
FILES += " get_printoptions set_printoptions printoptions"
ELSEWHERE = {f"numpy.{name}": "tests/numpy/test_tail.py" for name in FILES.split()}
ELSEWHERE |= dict.fromkeys(("numpy.frompyfunc", "numpy.vectorize"), "tests/numpy/test_ufuncs.py")
