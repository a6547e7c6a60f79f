"""Rotations of space, as unit quaternions.

A quaternion is (x, y, z, w) with (x, y, z) = sin(a / 2) times the axis and w = cos(a / 2), for a rotation by the angle a. q and
-q are the same rotation.

Sources: Shepperd, Quaternion from rotation matrix, J. Guidance and Control 1 (1978) for matrices; Bernardes and Viollet,
Quaternion to Euler angles conversion, PLoS ONE 17 (2022), for Euler angles; Markley et al., Averaging quaternions, J. Guidance,
Control and Dynamics 30 (2007), for means; Shoemake, Animating rotation with quaternion curves, SIGGRAPH (1985), for `Slerp`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback import numpy as pnp
from pullback import random
from pullback.core.array import Array, ArrayLike
from pullback.core.brief import brief
from pullback.core.dtypes import DTypeLike
from pullback.core.errors import ShapeError
from pullback.core.source import api_class
from pullback.numpy.promotion import at_user_line, refuse_complex, to_common_dtype, to_inexact

__all__ = ["Rotation", "Slerp"]

_SMALL = 1e-4  # squares of angles below which functions of them are their Taylor polynomials, so that derivatives exist at 0


@api_class
class Rotation(NamedTuple):
    """Rotations of space: one, or an array of them. It is a tree: of its quaternions.

    Products and `apply` broadcast the shapes of both sides. All may be compiled, batched and differentiated.

    Attributes:
        quat: unit quaternions (x, y, z, w), an array of shape (..., 4). `from_quat` and the others make them.

    Example:
        >>> turn = pb.scipy.spatial.transform.Rotation.from_euler("z", 90.0, degrees=True)
        >>> pnp.round(turn.apply(np.array([1.0, 2.0, 3.0])), 6), pnp.round((turn * turn).magnitude(), 4)
        ([-2.  1.  3.]:f64[3]:cpu(0), 3.1416:f32[]:cpu(0))
    """

    quat: Array

    @classmethod
    def from_quat(cls, quat: ArrayLike, *, scalar_first: bool = False) -> Rotation:
        """Rotations from quaternions, which need not be of unit length. The quaternion 0 gives NaN.

        Arguments:
            quat: an array, or lists, of shape (..., 4), real.
            scalar_first: whether the quaternions are (w, x, y, z).

        Returns:
            A `Rotation` of shape (...).

        Raises:
            LeafError: `quat` is neither an array nor lists. ShapeError: not four numbers. DtypeError: they are complex.

        Example:
            >>> pb.scipy.spatial.transform.Rotation.from_quat(pnp.array([0.0, 0.0, 3.0, 4.0])).quat
            [0.  0.  0.6 0.8]:f32[4]:cpu(0)
        """
        quat = _vectors(quat, "Rotation.from_quat", 4)
        return cls(_unit(pnp.roll(quat, -1, -1) if scalar_first else quat))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Rotation:
        """Rotations from their matrices. A reflection, which is none, gives NaN.

        Arguments:
            matrix: an array, or lists, of shape (..., 3, 3), real, orthogonal.

        Returns:
            A `Rotation` of shape (...).

        Raises:
            LeafError: `matrix` is neither an array nor lists. ShapeError: no matrices of 3 by 3. DtypeError: complex ones.

        Example:
            >>> turn = pb.scipy.spatial.transform.Rotation.from_matrix([[0, -1, 0], [1, 0, 0], [0, 0, 1]])
            >>> turn.as_quat()
            [0.        0.        0.7071068 0.7071068]:f32[4]:cpu(0)
        """
        m = _vectors(matrix, "Rotation.from_matrix", 3, rows=True)
        # 4 q q^T, each of whose rows is a multiple of q: the one with the largest divisor is taken
        odd = [m[..., (i + 2) % 3, (i + 1) % 3] - m[..., (i + 1) % 3, (i + 2) % 3] for i in range(3)]
        trace = m[..., 0, 0] + m[..., 1, 1] + m[..., 2, 2]
        same = [[1 - trace + 2 * m[..., i, i] if i == j else m[..., i, j] + m[..., j, i] for j in range(3)] for i in range(3)]
        rows = [pnp.stack([*same[i], odd[i]], -1) for i in range(3)] + [pnp.stack([*odd, 1 + trace], -1)]
        table = pnp.stack(rows, -2)
        best = pnp.argmax(pnp.diagonal(table, axis1=-2, axis2=-1), -1)
        row = pnp.take_along_axis(table, best[..., None, None], -2)[..., 0, :]
        proper = pnp.sum(m[..., 0, :] * pnp.cross(m[..., 1, :], m[..., 2, :]), -1, keepdims=True) > 0
        return cls(_unit(pnp.where(proper, row, np.nan)))

    @classmethod
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> Rotation:
        """Rotations from vectors: each along its axis, as long as its angle.

        Arguments:
            rotvec: an array, or lists, of shape (..., 3), real.
            degrees: whether angles are in degrees, not in radians.

        Returns:
            A `Rotation` of shape (...).

        Raises:
            LeafError: `rotvec` is neither an array nor lists. ShapeError: not three numbers. DtypeError: they are complex.

        Example:
            >>> Rotation = pb.scipy.spatial.transform.Rotation
            >>> pb.jacfwd(lambda r: Rotation.from_rotvec(r).apply(pnp.array([1.0, 0.0, 0.0])))(pnp.zeros(3))
            [[ 0.  0.  0.]
             [ 0.  0.  1.]
             [ 0. -1.  0.]]:f32[3,3]:cpu(0)
        """
        r = _vectors(rotvec, "Rotation.from_rotvec", 3)
        r = pnp.deg2rad(r) if degrees else r
        square = pnp.sum(r * r, -1, keepdims=True)
        small = square < _SMALL
        angle = pnp.sqrt(pnp.where(small, 1.0, square))
        scale = pnp.where(small, 1 / 2 - square / 48 + square**2 / 3840, pnp.sin(angle / 2) / angle)
        w = pnp.where(small, 1 - square / 8 + square**2 / 384 - square**3 / 46080, pnp.cos(angle / 2))
        return cls(pnp.concatenate([scale * r, w], -1))

    @classmethod
    def from_mrp(cls, mrp: ArrayLike) -> Rotation:
        """Rotations from modified Rodrigues parameters: each along its axis, as long as the tangent of a quarter of its angle.

        Arguments:
            mrp: an array, or lists, of shape (..., 3), real.

        Returns:
            A `Rotation` of shape (...).

        Raises:
            LeafError: `mrp` is neither an array nor lists. ShapeError: not three numbers. DtypeError: they are complex.

        Example:
            >>> pb.scipy.spatial.transform.Rotation.from_mrp(pnp.array([0.0, 0.0, 0.5])).quat
            [0.  0.  0.8 0.6]:f32[4]:cpu(0)
        """
        m = _vectors(mrp, "Rotation.from_mrp", 3)
        square = pnp.sum(m * m, -1, keepdims=True)
        return cls(pnp.concatenate([2 * m, 1 - square], -1) / (1 + square))

    @classmethod
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> Rotation:
        """Rotations about axes, one after the other.

        Arguments:
            seq: one to three letters: of "xyz" for axes that stand still, of "XYZ" for axes that turn with what is turned.
            angles: an array, or lists, of shape (..., number of letters), real. For one letter, a number too.
            degrees: whether angles are in degrees, not in radians.

        Returns:
            A `Rotation` of shape (...).

        Raises:
            LeafError: `angles` is neither an array nor lists. ShapeError: not an angle for each letter. DtypeError: they
            are complex. ValueError: letters of no axes, of both kinds, or one axis twice in a row.

        Example:
            >>> turns = pb.scipy.spatial.transform.Rotation.from_euler("XY", np.array([[90.0, 0.0], [0.0, 60.0]]), degrees=True)
            >>> pnp.round(turns.as_rotvec(degrees=True), 6)
            [[90.  0.  0.]
             [ 0. 60.  0.]]:f64[2,3]:cpu(0)
        """
        axes, turning = _axes(seq, (1, 2, 3))
        given = _real(angles, "Rotation.from_euler")
        given = given[None] if len(axes) == 1 and given.ndim == 0 else given
        half = _vectors(given, "Rotation.from_euler", len(axes)) * (math.pi / 360 if degrees else 0.5)
        parts = [_about(axis, half[..., i]) for i, axis in enumerate(axes)]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole * part if turning else part * whole
        return whole

    @classmethod
    def identity(cls, num: int | None = None, dtype: DTypeLike = None) -> Rotation:
        """The rotation that moves nothing.

        Arguments:
            num: how many; None for one that is no array.
            dtype: of the quaternion; None for the default.

        Returns:
            A `Rotation` of shape (num,) or ().

        Raises:
            TypeError: an unknown dtype.

        Example:
            >>> pb.scipy.spatial.transform.Rotation.identity().quat
            [0. 0. 0. 1.]:f32[4]:cpu(0)
        """
        one = pnp.array([0.0, 0.0, 0.0, 1.0], dtype)
        return cls(one if num is None else pnp.tile(one, (num, 1)))

    @classmethod
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """Rotations drawn uniformly.

        Arguments:
            random_key: a key of `pb.random.key`.
            num: how many; None for one that is no array.

        Returns:
            A `Rotation` of shape (num,) or ().

        Raises:
            TypeError: `random_key` is no key.

        Example:
            >>> pb.scipy.spatial.transform.Rotation.random(pb.random.key(0), 5).as_matrix().shape
            (5, 3, 3)
        """
        return cls(_unit(random.normal(random_key, (4,) if num is None else (num, 4))))

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """One array of several rotations.

        Arguments:
            rotations: a sequence of rotations, each one or a vector of them.

        Returns:
            A `Rotation` of shape (n,).

        Raises:
            ValueError: there are none.

        Example:
            >>> Rotation = pb.scipy.spatial.transform.Rotation
            >>> len(Rotation.concatenate([Rotation.identity(), Rotation.identity(2)]))
            3
        """
        return cls(pnp.concatenate([pnp.reshape(one.quat, (-1, 4)) for one in rotations]))

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """The unit quaternions.

        Arguments:
            canonical: whether to choose of q and -q the one whose w, or else first element that is not 0, is positive.
            scalar_first: whether to give (w, x, y, z), not (x, y, z, w).

        Returns:
            An array of shape (..., 4).

        Example:
            >>> turn = pb.scipy.spatial.transform.Rotation.from_quat([0.6, 0.0, 0.0, -0.8])
            >>> turn.as_quat(canonical=True, scalar_first=True)
            [ 0.8 -0.6 -0.  -0. ]:f32[4]:cpu(0)
        """
        quat = self.quat
        if canonical:
            first = pnp.roll(quat, 1, -1)
            place = pnp.argmax(first != 0, -1, keepdims=True)
            quat = pnp.where(pnp.take_along_axis(first, place, -1) < 0, -quat, quat)
        return pnp.roll(quat, 1, -1) if scalar_first else quat

    def as_matrix(self) -> Array:
        """The matrices, by which columns are multiplied from the left.

        Returns:
            An array of shape (..., 3, 3).

        Example:
            >>> pb.scipy.spatial.transform.Rotation.from_quat([0.0, 0.0, 0.6, 0.8]).as_matrix()
            [[ 0.28 -0.96  0.  ]
             [ 0.96  0.28  0.  ]
             [ 0.    0.    1.  ]]:f32[3,3]:cpu(0)
        """
        u, w = self.quat[..., :3], self.quat[..., 3:]
        x, y, z = [u[..., i] for i in range(3)]
        zero = pnp.zeros_like(x)
        turn = pnp.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1)  # the cross product with u
        one = pnp.eye(3, dtype=u.dtype).reshape(9)
        products = pnp.reshape(u[..., :, None] * u[..., None, :], turn.shape)
        out = (2 * w * w - 1) * one + 2 * products + 2 * w * turn
        return pnp.reshape(out, (*x.shape, 3, 3))

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Vectors along the axes, as long as the angles, which are at most half a turn.

        Arguments:
            degrees: whether to give degrees, not radians.

        Returns:
            An array of shape (..., 3).

        Example:
            >>> pb.scipy.spatial.transform.Rotation.from_quat(pnp.array([0.0, -1.0, 0.0, 1.0])).as_rotvec(degrees=True)
            [  0. -90.   0.]:f32[3]:cpu(0)
        """
        quat = self.as_quat(canonical=True)
        u, w = quat[..., :3], quat[..., 3:]
        square = pnp.sum(u * u, -1, keepdims=True)
        small = square < _SMALL
        sine, ratio = pnp.sqrt(pnp.where(small, 1.0, square)), square / pnp.where(small, w * w, 1.0)
        series = (2 - ratio * (2 / 3 - ratio * (2 / 5 - ratio * (2 / 7)))) / pnp.where(small, w, 1.0)
        out = u * pnp.where(small, series, 2 * pnp.arctan2(sine, w) / sine)
        return pnp.rad2deg(out) if degrees else out

    def as_mrp(self) -> Array:
        """Modified Rodrigues parameters: along the axes, as long as the tangents of a quarter of the angles, which are at most
        half a turn.

        Returns:
            An array of shape (..., 3).

        Example:
            >>> pb.scipy.spatial.transform.Rotation.from_quat(pnp.array([0.0, 0.0, 0.8, 0.6])).as_mrp()
            [0.  0.  0.5]:f32[3]:cpu(0)
        """
        quat = self.as_quat(canonical=True)
        return quat[..., :3] / (1 + quat[..., 3:])

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """The angles about three axes, one after the other, that make up the rotations.

        Where the first and the last turn about one axis in space, only their sum is known: then the last is 0, and there is no
        derivative.

        Arguments:
            seq: three letters, as for `from_euler`.
            degrees: whether to give degrees, not radians.

        Returns:
            An array of shape (..., 3): the first and the last are in [-pi, pi], the second is in [0, pi] if the first axis is
            the last too, else in [-pi / 2, pi / 2].

        Raises:
            ValueError: letters of no axes, of both kinds, or one axis twice in a row.

        Example:
            >>> pnp.round(pb.scipy.spatial.transform.Rotation.from_rotvec(pnp.array([0.0, 0.0, 0.5])).as_euler("ZYX"), 6)
            [0.5 0.  0. ]:f32[3]:cpu(0)
        """
        (i, j, k), turning = _axes(seq, (3,))
        i, k = (k, i) if turning else (i, k)
        proper = i == k
        k = 3 - i - j if proper else k
        sign = (i - j) * (j - k) * (k - i) // 2
        w, first, second, third = self.quat[..., 3], self.quat[..., i], self.quat[..., j], sign * self.quat[..., k]
        a, b, c, d = (w, first, second, third) if proper else (w - second, first + third, second + w, third - first)
        middle = 2 * pnp.arctan2(pnp.hypot(c, d), pnp.hypot(a, b))
        total, gap = pnp.arctan2(b, a), pnp.arctan2(d, c)
        least = max(1e-7, 4 * float(np.finfo(self.quat.dtype).eps))
        none, half = middle < least, middle > math.pi - least
        locked = pnp.where(none, 2 * total, 2 * gap if turning else -2 * gap)
        low = pnp.where(none | half, 0.0 if turning else locked, total - gap)
        high = pnp.where(none | half, locked if turning else 0.0, total + gap)
        if not proper:
            high, middle = sign * high, middle - math.pi / 2
        out = pnp.stack([high, middle, low] if turning else [low, middle, high], -1)
        out = pnp.where(out > math.pi, out - 2 * math.pi, pnp.where(out < -math.pi, out + 2 * math.pi, out))
        return pnp.rad2deg(out) if degrees else out

    def apply(self, vectors: ArrayLike, inverse: bool = False) -> Array:
        """Vectors that are turned.

        Arguments:
            vectors: an array, or lists, of shape (..., 3), real.
            inverse: whether to turn them back.

        Returns:
            An array of shape (..., 3).

        Raises:
            LeafError: `vectors` is neither an array nor lists. ShapeError: not three numbers, or shapes that do not
            broadcast. DtypeError: they are complex.

        Example:
            >>> quarter = pb.scipy.spatial.transform.Rotation.from_quat(np.array([1.0, 0.0, 0.0, 1.0]))
            >>> pnp.round(quarter.apply(pnp.array([5.0, 1.0, 2.0])), 6)
            [ 5. -2.  1.]:f64[3]:cpu(0)
        """
        v = _vectors(vectors, "Rotation.apply", 3)
        return pnp.matmul((self.inv() if inverse else self).as_matrix(), v[..., None])[..., 0]

    def inv(self) -> Rotation:
        """The rotations that turn back.

        Returns:
            A `Rotation`.

        Example:
            >>> pb.scipy.spatial.transform.Rotation.from_quat(pnp.array([0.0, 0.0, 0.6, 0.8])).inv().quat
            [-0.  -0.  -0.6  0.8]:f32[4]:cpu(0)
        """
        return Rotation(self.quat * pnp.array([-1, -1, -1, 1], self.quat.dtype))

    def magnitude(self) -> Array:
        """The angles, at most half a turn, in radians.

        Returns:
            An array of shape (...).

        Example:
            >>> pb.scipy.spatial.transform.Rotation.from_quat(pnp.array([0.0, 0.0, 1.0, -1.0])).magnitude()
            1.5707964:f32[]:cpu(0)
        """
        return 2 * pnp.arctan2(pnp.linalg.norm(self.quat[..., :3], axis=-1), abs(self.quat[..., 3]))

    def mean(self, weights: ArrayLike | None = None) -> Rotation:
        """The rotation whose matrix is, in the sum of squares, nearest to those of all.

        Arguments:
            weights: an array, or lists, of shape (...), none negative; None for equal ones.

        Returns:
            A `Rotation` of shape ().

        Raises:
            LeafError: `weights` is neither an array nor lists. ShapeError: its shape is another. DtypeError: complex ones.

        Example:
            >>> Rotation = pb.scipy.spatial.transform.Rotation
            >>> Rotation.from_euler("x", [[0.0], [40.0]], degrees=True).mean().as_rotvec(degrees=True)
            [20.  0.  0.]:f32[3]:cpu(0)
        """
        quat, scaled = pnp.reshape(self.quat, (-1, 4)), self.quat
        if weights is not None:
            w = _real(weights, "Rotation.mean")
            if w.shape != self.quat.shape[:-1]:
                raise ShapeError(f"Rotation.mean takes weights of shape {self.quat.shape[:-1]}, not {w.type}.{at_user_line()}")
            scaled = scaled * w[..., None]
        return Rotation(pnp.linalg.eigh(pnp.reshape(scaled, (-1, 4)).T @ quat)[1][:, -1])

    @property
    def single(self) -> bool:
        """Whether this is one rotation, not an array of them."""
        return self.quat.ndim == 1

    def __mul__(self, other: Rotation) -> Rotation:  # type: ignore[override]
        """The rotations by `other`, and then by these."""
        if not isinstance(other, Rotation):
            return NotImplemented
        p, q = to_common_dtype("Rotation.__mul__", self.quat, other.quat)
        a, b = p[..., :3], q[..., :3]
        v, w = p[..., 3:], q[..., 3:]
        vector = v * b + w * a + pnp.cross(a, b)
        return Rotation(pnp.concatenate([vector, v * w - pnp.sum(a * b, -1, keepdims=True)], -1))

    def __getitem__(self, indexer: Any) -> Rotation:  # type: ignore[override]
        """Some of the rotations."""
        if self.single:
            raise TypeError(
                "A Rotation that is no array of them has no elements to index. Only one made of several rows"
                f" has.{at_user_line()}"
            )
        shape = self.quat.shape[:-1]
        places = pnp.reshape(pnp.arange(math.prod(shape)), shape)[indexer]
        return Rotation(pnp.reshape(self.quat, (-1, 4))[places])

    def __len__(self) -> int:
        """How many rotations there are along the first axis."""
        if self.single:
            raise TypeError(
                f"A Rotation that is no array of them has no length. Only one made of several rows has.{at_user_line()}"
            )
        return self.quat.shape[0]


@api_class
class Slerp(NamedTuple):
    """Rotations between those at known times: about one axis, and as fast as it takes, from each to the next. It is a tree.

    Before the first and after the last time, the first and the last of these motions go on.

    Attributes:
        times: a vector of two or more numbers that rise.
        rotations: a `Rotation` of shape (n,), one for each time.

    Example:
        >>> Rotation, Slerp = pb.scipy.spatial.transform.Rotation, pb.scipy.spatial.transform.Slerp
        >>> turns = Rotation.from_euler("z", [[0.0], [90.0], [100.0]], degrees=True)
        >>> Slerp.init(pnp.array([0.0, 1.0, 2.0]), turns)(pnp.array([0.5, 1.5])).as_euler("zyx", degrees=True)[:, 0]
        [45. 95.]:f32[2]:cpu(0)
    """

    times: Array
    rotations: Rotation

    @classmethod
    def init(cls, times: ArrayLike, rotations: Rotation) -> Slerp:
        """The rotations between those at times, which are checked.

        Arguments:
            times: a vector of two or more numbers that rise.
            rotations: a `Rotation` of shape (n,), one for each time.

        Returns:
            A `Slerp`.

        Raises:
            LeafError: `times` is neither an array nor lists. TypeError: `rotations` are none.
            ShapeError: not two or more times and as many rotations.

        Example:
            >>> Rotation, Slerp = pb.scipy.spatial.transform.Rotation, pb.scipy.spatial.transform.Slerp
            >>> Slerp.init(pnp.arange(2.0), Rotation.identity(2))(0.5).quat
            [0. 0. 0. 1.]:f32[4]:cpu(0)
        """
        if not isinstance(rotations, Rotation):
            raise TypeError(f"Slerp.init takes a Rotation as rotations, not {type(rotations).__name__}.{at_user_line()}")
        t, shape = _real(times, "Slerp.init"), rotations.quat.shape
        if t.ndim != 1 or t.size < 2 or shape != (t.size, 4):
            raise ShapeError(
                f"Slerp.init takes a vector of two or more times and a rotation for each, but got {t.type} and rotations of"
                f" shape {shape[:-1]}.{at_user_line()}"
            )
        return cls(t, rotations)

    def __call__(self, times: ArrayLike) -> Rotation:
        """The rotations at times.

        Arguments:
            times: an array, lists, or a number.

        Returns:
            A `Rotation` of the shape of `times`.

        Raises:
            LeafError: `times` is neither an array nor lists.

        Example:
            >>> Rotation, Slerp = pb.scipy.spatial.transform.Rotation, pb.scipy.spatial.transform.Slerp
            >>> Slerp.init(pnp.arange(2.0), Rotation.from_euler("x", [[0.0], [1.0]]))(0.25).magnitude()
            0.25:f32[]:cpu(0)
        """
        t = _real(times, "Slerp")
        last = self.times.shape[0] - 2
        index = pnp.clip(pnp.searchsorted(self.times, t, side="right") - 1, 0, last)
        begin = Rotation(self.rotations.quat[index])
        whole = (begin.inv() * Rotation(self.rotations.quat[index + 1])).as_rotvec()
        share = (t - self.times[index]) / (self.times[index + 1] - self.times[index])
        return begin * Rotation.from_rotvec(whole * share[..., None])


def _real(x: Any, name: str) -> Array:
    """An operand, or a list of numbers, as real ones."""
    x = to_inexact(pnp.asarray(x) if isinstance(x, list | tuple) else x, name)
    refuse_complex(name, x)
    return x


def _vectors(x: Any, name: str, size: int, rows: bool = False) -> Array:
    """An operand of real vectors, or of as many rows of them."""
    x = _real(x, name)
    wanted = (size, size) if rows else (size,)
    if x.shape[-len(wanted) :] != wanted:
        raise ShapeError(
            f"{name} takes an array of shape (..., {', '.join(map(str, wanted))}), but got {x.type}.{at_user_line()}"
        )
    return x


def _unit(quat: Any) -> Array:
    return quat / pnp.linalg.norm(quat, axis=-1, keepdims=True)


def _about(axis: int, half: Any) -> Rotation:
    """The rotations about an axis by twice the angles."""
    sine, zero = pnp.sin(half), pnp.zeros_like(half)
    return Rotation(pnp.stack([*[sine if i == axis else zero for i in range(3)], pnp.cos(half)], -1))


def _axes(seq: str, sizes: tuple[int, ...]) -> tuple[list[int], bool]:
    """The numbers of the axes, and whether they turn with what is turned."""
    known = isinstance(seq, str) and (set(seq) <= set("xyz") or set(seq) <= set("XYZ")) and len(seq) in sizes
    if not known or any(one == other for one, other in itertools.pairwise(seq)):
        raise ValueError(
            f"Euler angles have {' or '.join(map(str, sizes))} axes, given by letters of 'xyz' or of 'XYZ', none twice in a"
            f" row; but seq is {brief(seq)}.{at_user_line()}"
        )
    return ["xyz".index(letter) for letter in seq.lower()], seq.isupper()
