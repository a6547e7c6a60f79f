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


ROWS: dict[str, Row] = {
    "jax.image": Row("pullback.image"),
    "jax.interpreters": Row(),
    "jax.experimental": Row(),
    "jax.lax.linalg": Row("pullback.lax.linalg"),
    "jax.ops": Row(None, "", {"pullback": "segment_max segment_min segment_prod segment_sum"}),
    "jax.scipy": Row("pullback.scipy"),
    "jax.scipy.cluster": Row("pullback.scipy.cluster"),
    "jax.scipy.cluster.vq": Row("pullback.scipy.cluster.vq"),
    "jax.scipy.fft": Row("pullback.scipy.fft"),
    "jax.scipy.integrate": Row("pullback.scipy.integrate"),
    "jax.scipy.interpolate": Row("pullback.scipy.interpolate"),
    "jax.scipy.linalg": Row("pullback.scipy.linalg", "LinAlgError logm lstsq norm pinv"),
    "jax.scipy.ndimage": Row("pullback.scipy.ndimage"),
    "jax.scipy.optimize": Row("pullback.scipy.optimize"),
    "jax.scipy.signal": Row("pullback.scipy.signal"),
    "jax.scipy.sparse": Row("pullback.scipy.sparse"),
    "jax.scipy.sparse.linalg": Row("pullback.scipy.sparse.linalg"),
    "jax.scipy.special": Row(
        "pullback.scipy.special",
        "betaincc betainccinv betaincinv erfcinv exprel gammainccinv gammaincinv log_expit sinc",
    ),
    "jax.scipy.stats": Row("pullback.scipy.stats"),
}
