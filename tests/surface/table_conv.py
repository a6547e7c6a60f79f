"""Convolutions, windows, pooling and Fourier transforms; more of them in tests/lax/test_convolutions.py."""

import numpy as np
from cases import FLOATS, INEXACT, NARROW, REAL, case, entry

RNG = np.random.default_rng(0)
LINES = RNG.normal(size=(2, 2, 5))  # batch, features, spatial
KERNEL = RNG.normal(size=(4, 2, 3))
IMAGE = RNG.normal(size=(2, 4, 5, 2))
FILTER = RNG.normal(size=(2, 3, 2, 3))
NUMBERS = ("NHWC", "HWIO", "NHWC")
WHOLE = np.arange(10, dtype=np.int32).reshape(1, 2, 5)
X = RNG.normal(size=(3, 4, 5))
Z = X + 1j * RNG.normal(size=X.shape)


def spread(x, holes, pads):
    """x with zeros between its elements and around them, along all but its first two axes."""
    out = np.zeros([*x.shape[:2], *[(n - 1) * hole + 1 if n else 0 for n, hole in zip(x.shape[2:], holes)]], x.dtype)
    out[(slice(None), slice(None), *[slice(None, None, hole) for hole in holes])] = x
    out = np.pad(out, [(0, 0), (0, 0), *[(max(a, 0), max(b, 0)) for a, b in pads]])
    return out[(slice(None), slice(None), *[slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pads, out.shape[2:])])]


def convolved(x, y, strides, pads, holes=None, gaps=None, groups=1):
    """A convolution of N, C, spatial by O, I, spatial, place by place."""
    ones = (1,) * (x.ndim - 2)
    holes, gaps = holes or ones, gaps or ones
    if pads == "VALID":
        pads = [(0, 0)] * len(ones)
    elif pads == "SAME":
        pads = []
        for n, k, s, g in zip(x.shape[2:], y.shape[2:], strides, gaps):
            missing = max((-(-n // s) - 1) * s + (k - 1) * g + 1 - n, 0)
            pads.append((missing // 2, missing - missing // 2))
    x, y = spread(x, holes, pads), spread(y, gaps, [(0, 0)] * len(ones))
    counts = [max((n - k) // s + 1, 0) for n, k, s in zip(x.shape[2:], y.shape[2:], strides)]
    out = np.zeros([x.shape[0], y.shape[0], *counts], np.result_type(x, y))
    inputs, outputs = x.shape[1] // groups, y.shape[0] // groups
    for place in np.ndindex(*counts):
        window = x[(..., *[slice(p * s, p * s + k) for p, s, k in zip(place, strides, y.shape[2:])])]
        for group in range(groups):
            some, kernels = (slice(group * n, (group + 1) * n) for n in (inputs, outputs))
            out[(slice(None), kernels, *place)] = np.tensordot(
                window[:, some], y[kernels], (range(1, x.ndim), range(1, x.ndim))
            )
    return out


def dilated(x, y, strides, pads, holes=None, gaps=None, dimension_numbers=None, feature_group_count=1, **ignored):
    """`conv_general_dilated`, in the two orders of axes that are used here."""
    if dimension_numbers is None:
        return convolved(x, y, strides, pads, holes, gaps, feature_group_count)
    x, y = np.moveaxis(x, -1, 1), np.moveaxis(y, (-1, -2), (0, 1))
    return np.moveaxis(convolved(x, y, strides, pads, holes, gaps, feature_group_count), 1, -1)


def transposed(x, y, strides, padding):
    """What sums each kernel, scaled by an element, `strides` apart. The kernel is not reversed, so it is here."""
    n, k, s = x.shape[1], y.shape[0], strides[0]
    whole = np.zeros((x.shape[0], (n - 1) * s + max(k, s), y.shape[2]), np.result_type(x, y))
    for i in range(n):
        whole[:, i * s : i * s + k] += np.einsum("bi,kio->bko", x[:, i], y[::-1])
    return whole


def patched(x, widths, strides, padding):
    windows = np.lib.stride_tricks.sliding_window_view(x, widths, axis=2)[:, :, :: strides[0]]
    return windows.transpose(0, 1, 3, 2).reshape(x.shape[0], -1, windows.shape[2])


def local(x, y, strides, padding, widths):
    return np.einsum("bkn,okn->bon", patched(x, widths, strides, padding), y)


def pooled(combine, start):
    def reference(x, widths, strides=None, padding="VALID", **ignored):
        strides = strides or (1,) * len(widths)
        pads = [(0, 0)] * len(widths) if padding == "VALID" else padding
        whole = [(0, 0)] * (x.ndim - len(widths) - 1) + [*pads, (0, 0)]
        with np.errstate(all="ignore"):
            x = np.pad(x, whole, constant_values=start(x.dtype) if callable(start) else start)
        axes = tuple(range(x.ndim - len(widths) - 1, x.ndim - 1))
        windows = np.lib.stride_tricks.sliding_window_view(x, widths, axis=axes)
        windows = windows[(..., *[slice(None, None, s) for s in strides], slice(None), *[slice(None)] * len(widths))]
        return combine(windows, axis=tuple(range(windows.ndim - len(widths), windows.ndim)))

    return reference


def least(dtype):
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def most(dtype):
    return np.iinfo(dtype).max if dtype.kind in "iu" else np.inf


def windowed(x, start, computation, widths, strides=None, padding="VALID"):
    return pooled(np.sum, 0)(x[..., None], widths, strides, padding)[..., 0]


def add(x, y):
    return x + y


def other_add(x, y):
    return (x + y) + 0 * x


MAX, MIN = pooled(np.max, least), pooled(np.min, most)
POOL = [case(IMAGE, (2, 2)), case(IMAGE, (2, 3), (2, 1), ((1, 0), (0, 1))), case(IMAGE[:0], (2, 2))]


def transform(name, *more, operand=Z, dtypes=INEXACT, **options):
    reference = getattr(np.fft, name)
    axis = {"n": 3, "axis": 0} if "2" not in name and not name.endswith("n") else {"s": (3, 7), "axes": (0, 2)}
    norms = [case(operand, norm="ortho"), case(operand, norm="forward"), case(operand, **axis)]
    none = case(operand[:0], **({"axes": (1, 2)} if name.endswith("n") else {}))
    return entry(reference, case(operand), *norms, none, *more, dtypes=dtypes, wrt=(0,), weak=True, **options)


TABLE = {
    "lax.conv": entry(
        convolved, case(LINES, KERNEL, (1,), "SAME"), case(WHOLE, WHOLE[:, :, :2], (2,), "VALID"),
        dtypes=(*NARROW, *INEXACT), wrt=(0, 1), weak=True,
    ),
    "lax.conv_with_general_padding": entry(
        convolved, case(LINES, KERNEL, (2,), ((-1, 3),), (2,), (1,)), dtypes=INEXACT, wrt=(0, 1), weak=True
    ),
    "lax.conv_general_dilated": entry(
        dilated,
        case(IMAGE, FILTER, (1, 2), "SAME", dimension_numbers=NUMBERS),
        case(LINES, KERNEL[:, :1], (1,), ((1, 0),), (1,), (2,), feature_group_count=2),
        case(LINES, KERNEL, (1,), "VALID", precision="highest", batch_group_count=1),
        case(LINES[:0], KERNEL, (1,), "VALID"),
        dtypes=INEXACT, wrt=(0, 1), weak=True,
    ),
    "lax.conv_transpose": entry(
        transposed, case(LINES.swapaxes(1, 2), FILTER[0], (2,), "VALID"), dtypes=INEXACT, wrt=(0, 1), weak=True
    ),
    "lax.conv_general_dilated_patches": entry(
        patched, case(LINES, (2,), (2,), "VALID"), dtypes=(*REAL, "complex64"), wrt=(0,), weak=True
    ),
    "lax.conv_general_dilated_local": entry(
        local, case(LINES, RNG.normal(size=(3, 4, 4)), (1,), "VALID", (2,)), dtypes=INEXACT, wrt=(0, 1), weak=True
    ),
    "lax.reduce": entry(
        lambda x, start, f, axes: np.sum(x, axes), case(X, 0, add, (0, 2)), case(X, 0, other_add, (1,)), dtypes=INEXACT,
        wrt=(0,),
        weak=True, same_dtype=False,
    ),
    "lax.reduce_window": entry(
        windowed, case(X, 0, add, (1, 2, 2), (1, 1, 2), ((0, 0), (1, 0), (0, 1))), case(X, 0, other_add, (1, 2, 3)),
        dtypes=INEXACT, wrt=(0,), weak=True,
    ),
    "lax.fft": entry(
        lambda x, which, sizes: np.fft.fftn(x, axes=(-2, -1)), case(Z, "FFT", (4, 5)), dtypes=("complex64", "complex128"),
        wrt=(0,), weak=True,
    ),
    "nn.max_pool": entry(MAX, *POOL, dtypes=("int32", *NARROW, *FLOATS), wrt=(0,), weak=True),
    "nn.min_pool": entry(MIN, *POOL, dtypes=("uint8", *NARROW, *FLOATS), wrt=(0,), weak=True),
    "nn.avg_pool": entry(pooled(np.mean, 0), *POOL, dtypes=(*NARROW, *INEXACT), wrt=(0,), weak=True),
    "nn.pool": entry(
        lambda x, start, f, *window: pooled(np.prod, 1)(x, *window), case(IMAGE, 1, lambda a, b: a * b, (2, 2), (1, 2),
        "VALID"),
        dtypes=INEXACT, wrt=(0,), weak=True,
    ),
    **{f"numpy.fft.{name}": transform(name) for name in ["fft", "ifft", "fft2", "ifft2", "fftn", "ifftn"]},
    **{f"numpy.fft.{name}": transform(name, operand=X, dtypes=FLOATS) for name in ["rfft", "ihfft", "rfft2", "rfftn"]},
    **{f"numpy.fft.{name}": transform(name) for name in ["irfft", "hfft", "irfft2", "irfftn"]},
    **{
        f"numpy.fft.{name}": entry(getattr(np.fft, name), case(7), case(4, 0.5), case(1, d=2.0), jit=False)
        for name in ("fftfreq", "rfftfreq")
    },
    **{
        f"numpy.fft.{name}": entry(getattr(np.fft, name), case(X), case(X, (0, 2)), case(X, -1), dtypes=REAL, wrt=(0,),
        weak=True)
        for name in ("fftshift", "ifftshift")
    },
}  # fmt: skip

ELSEWHERE = {
    "lax.conv_dimension_numbers": "tests/lax/test_convolutions.py",
    "lax.padtype_to_pads": "tests/lax/test_convolutions.py",
}
