"""Rotations against SciPy's, and their derivatives against differences."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.spatial.transform import Rotation as Known
from scipy.spatial.transform import Slerp as KnownSlerp

import pullback as pb
from pullback import numpy as pnp
from pullback.scipy.spatial.transform import Rotation, Slerp

RNG = np.random.default_rng(0)
QUATS = np.concatenate([RNG.normal(size=(5, 4)), [[0, 0, 0, 1], [0, 0, 0, -2], [1, 0, 0, 0], [0, -3, 4, 0], [1, 1, 1, 1e-9]]])
OURS, THEIRS = Rotation.from_quat(QUATS), Known.from_quat(QUATS)
VECTORS = np.concatenate([RNG.normal(size=(5, 3)), [[0, 0, 0], [1e-9, 0, 0], [0, 4, 0], [9e-3, 0, 3e-3], [1.1e-2, 0, 0]]])
SEQUENCES = [
    text for letters in ("xyz", "XYZ") for text in map("".join, itertools.product(letters, repeat=3))
    if text[0] != text[1] != text[2]
]  # fmt: skip

# Each is called with OURS and with THEIRS.
OF_A_ROTATION = {
    "quat": lambda r: r.as_quat(),
    "canonical": lambda r: r.as_quat(canonical=True),
    "scalar_first": lambda r: r.as_quat(scalar_first=True),
    "matrix": lambda r: r.as_matrix(),
    "rotvec": lambda r: r[:5].as_rotvec(),
    "degrees": lambda r: r[:5].as_rotvec(degrees=True),
    "mrp": lambda r: r[:5].as_mrp(),
    "apply": lambda r: r.apply(VECTORS),
    "apply inverse": lambda r: r.apply(VECTORS, inverse=True),
    "apply to one": lambda r: r.apply(VECTORS[0]),
    "apply one": lambda r: r[1].apply(VECTORS),
    "inv": lambda r: r.inv().as_quat(),
    "magnitude": lambda r: r.magnitude(),
    "mean": lambda r: r[:4].mean().as_matrix(),
    "weighted mean": lambda r: r[:3].mean(np.array([1.0, 2.0, 5.0])).as_matrix(),
    "product": lambda r: (r * r[::-1]).as_matrix(),
    "product with one": lambda r: (r[2] * r).as_matrix(),
    "element": lambda r: r[-2].as_quat(),
    "elements": lambda r: r[np.array([3, 0, 3])].as_quat(),
}
# Each makes rotations, given a class.
MAKING = {
    "rotvec": lambda kind: kind.from_rotvec(VECTORS),
    "degrees": lambda kind: kind.from_rotvec(VECTORS * 50, degrees=True),
    "mrp": lambda kind: kind.from_mrp(VECTORS),
    "matrix": lambda kind: kind.from_matrix(THEIRS.as_matrix()),
    "scalar_first": lambda kind: kind.from_quat(QUATS, scalar_first=True),
    "concatenate": lambda kind: kind.concatenate([kind.from_quat(QUATS), kind.from_rotvec(VECTORS[:1])]),
    "one angle": lambda kind: kind.from_euler("y", 40.0, degrees=True),
    "angles about one axis": lambda kind: kind.from_euler("Z", VECTORS[:, :1]),
    "two angles": lambda kind: kind.from_euler("zx", VECTORS[:, :2]),
    "lists": lambda kind: kind.from_euler("XY", [[0.5, 1.5]]),
}


@pytest.mark.parametrize("name", OF_A_ROTATION)
def test_against_scipy(name):
    f = OF_A_ROTATION[name]
    np.testing.assert_allclose(f(OURS), f(THEIRS), atol=1e-12)
    np.testing.assert_allclose(pb.jit(f)(OURS), f(THEIRS), atol=1e-12)
    single = f(Rotation(OURS.quat.astype("float32")))
    assert name == "weighted mean" or name.startswith("apply") or single.dtype == np.float32
    np.testing.assert_allclose(single, f(THEIRS), atol=3e-4 if name == "degrees" else 3e-6)


@pytest.mark.parametrize("name", MAKING)
def test_making_against_scipy(name):
    ours, theirs = MAKING[name](Rotation), MAKING[name](Known)
    assert ours.single == theirs.single
    np.testing.assert_allclose(
        ours.as_matrix(), theirs.as_matrix(), rtol=0, atol=1e-6 if name in ("one angle", "lists") else 1e-12
    )


@pytest.mark.parametrize("seq", SEQUENCES)
def test_euler_angles(seq):
    """Those of SciPy; where only a sum of two is known, too."""
    angles = RNG.normal(size=(4, 3))
    for middle in (None, 0, np.pi / 2, -np.pi / 2, np.pi):
        if middle is not None:
            angles[:, 1] = middle
        ours, theirs = Rotation.from_euler(seq, angles), Known.from_euler(seq, angles)
        np.testing.assert_allclose(ours.as_matrix(), theirs.as_matrix(), atol=1e-12)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of gimbal lock
            wanted = theirs.as_euler(seq, degrees=True)
        distance = np.abs(np.asarray(ours.as_euler(seq, degrees=True)) - wanted) % 360
        assert np.minimum(distance, 360 - distance).max() < 1e-5


@pytest.mark.parametrize("shape", [(), (1,), (4,)])
def test_slerp_against_scipy(shape):
    times = np.array([0.0, 1.0, 2.5, 3.0, 4.0])
    at = RNG.uniform(0, 4, size=shape)
    found, wanted = Slerp.init(times, OURS[:5])(at), KnownSlerp(times, THEIRS[:5])(at)
    np.testing.assert_allclose(found.as_matrix(), wanted.as_matrix(), atol=1e-12)
    knots = Slerp.init(times, OURS[:5])(times)
    np.testing.assert_allclose(knots.as_matrix(), THEIRS[:5].as_matrix(), atol=1e-12)
    beyond = Slerp.init(times, OURS[:5])(5.0)  # as far again as from 3 to 4
    np.testing.assert_allclose(beyond.as_matrix(), (OURS[4] * OURS[3].inv() * OURS[4]).as_matrix(), atol=1e-12)


DERIVATIVES = {
    "quat": (lambda x: Rotation.from_quat(x).as_quat(), QUATS[0]),
    "matrix": (lambda x: Rotation.from_quat(x).as_matrix(), QUATS[1]),
    "rotvec": (lambda x: Rotation.from_quat(x).as_rotvec(), QUATS[2]),
    "rotvec near 0": (lambda x: Rotation.from_quat(x).as_rotvec(), np.array([1e-3, 2e-3, 0.0, -1.0])),
    "rotvec at 0": (lambda x: Rotation.from_quat(x).as_rotvec(), np.array([0.0, 0.0, 0.0, 2.0])),
    "from rotvec": (lambda x: Rotation.from_rotvec(x).as_matrix(), VECTORS[0]),
    "from rotvec at 0": (lambda x: Rotation.from_rotvec(x).as_matrix(), np.zeros(3)),
    "from matrix": (lambda x: Rotation.from_matrix(Rotation.from_rotvec(x).as_matrix()).as_rotvec(), VECTORS[1]),
    "mrp": (lambda x: Rotation.from_mrp(x).as_mrp() ** 2, VECTORS[2]),
    "euler": (lambda x: Rotation.from_quat(x).as_euler("zyx"), QUATS[3]),
    "euler of one axis twice": (lambda x: Rotation.from_quat(x).as_euler("XZX"), QUATS[3]),
    "from euler": (lambda x: Rotation.from_euler("XYZ", x).as_quat(), VECTORS[3]),
    "apply": (lambda x: Rotation.from_quat(x).apply(x[:3] ** 2), QUATS[4]),
    "magnitude": (lambda x: Rotation.from_quat(x).magnitude(), QUATS[0]),
    "mean": (lambda x: Rotation.from_quat(x).mean().as_matrix(), QUATS[:3]),
    "slerp": (lambda x: Slerp.init(np.array([0.0, 1.0]), Rotation.from_quat(x))(0.3).as_matrix(), QUATS[:2]),
    "slerp in time": (lambda t: Slerp.init(np.array([0.0, 1.0]), OURS[:2])(t).as_matrix(), np.array(0.3)),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name):
    f, x = DERIVATIVES[name]
    pb.testing.check_gradients(f, (x,), order=2)


def test_a_rotation_is_a_tree():
    many = pb.vmap(lambda quat: Rotation.from_quat(quat).inv())(QUATS)
    assert isinstance(many, Rotation) and len(many) == len(QUATS)
    np.testing.assert_allclose(many.as_quat(), THEIRS.inv().as_quat(), atol=1e-12)
    each = pb.vmap(lambda r, v: r.apply(v))(OURS, VECTORS)
    np.testing.assert_allclose(each, THEIRS.apply(VECTORS), atol=1e-12)
    last, path = pb.lax.scan(lambda at, step: (at * step, at.as_rotvec()), Rotation.identity(dtype="float64"), OURS)
    assert path.shape == (len(QUATS), 3) and last.single
    assert pb.grad(lambda r: r.as_matrix().sum())(OURS[0]).quat.shape == (4,)


def test_random_rotations():
    drawn = Rotation.random(pb.random.key(0), 4000)
    assert Rotation.random(pb.random.key(0)).single
    np.testing.assert_allclose(pnp.linalg.norm(drawn.quat, axis=-1), 1, rtol=1e-6)
    np.testing.assert_allclose(pnp.mean(drawn.as_matrix(), 0), np.zeros((3, 3)), atol=0.04)  # 4 standard deviations
    np.testing.assert_allclose(pnp.mean(drawn.magnitude()), np.pi / 2 + 2 / np.pi, atol=0.05)


@pytest.mark.parametrize("quat", [np.zeros(4), np.full(4, np.nan)])
def test_no_rotation_is_nan(quat):
    assert np.isnan(Rotation.from_quat(quat).as_matrix()).all()
    assert np.isnan(Rotation.from_matrix(-np.eye(3)).as_quat()).all()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: Rotation.from_quat(np.ones(3)), pb.errors.ShapeError, r"from_quat takes an array of shape \(..., 4\)"),
        (lambda: Rotation.from_matrix(np.ones((2, 3))), pb.errors.ShapeError, r"shape \(..., 3, 3\)"),
        (lambda: Rotation.from_rotvec(1j * np.ones(3)), pb.errors.DtypeError, "from_rotvec takes real numbers"),
        (lambda: Rotation.from_mrp("xyz"), pb.errors.LeafError, "from_mrp"),
        (
            lambda: Rotation.from_euler("xyz", np.ones(2)),
            pb.errors.ShapeError,
            r"from_euler takes an array of shape \(..., 3\)",
        ),
        (lambda: Rotation.from_euler("xYz", np.ones(3)), ValueError, "seq is 'xYz'"),
        (lambda: Rotation.from_euler("xxz", np.ones(3)), ValueError, "twice in a row"),
        (lambda: OURS.as_euler("xy"), ValueError, "have 3 axes"),
        (lambda: OURS.apply(np.ones(4)), pb.errors.ShapeError, "apply takes an array"),
        (lambda: OURS.mean(np.ones(3)), pb.errors.ShapeError, r"weights of shape \(10,\)"),
        (lambda: OURS * 2.0, TypeError, r"unsupported operand|can't multiply"),
        (lambda: OURS[0][0], TypeError, "no array of them"),
        (lambda: len(OURS[0]), TypeError, "no length"),
        (lambda: OURS[0, 1], IndexError, "Too many indices"),
        (lambda: Slerp.init(np.arange(3.0), OURS[:2]), pb.errors.ShapeError, "a rotation for each"),
        (lambda: Slerp.init(np.arange(2.0), QUATS[:2]), TypeError, "takes a Rotation as rotations, not ndarray"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()
