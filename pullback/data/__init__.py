"""Data to learn with: small enough to ship, real enough to be worth a classifier. README.md says where it comes from."""

from __future__ import annotations

import gzip
from importlib.resources import files
from typing import Any

import numpy as np

__all__ = ["load_digits"]

HostArray = np.ndarray[Any, Any]
Split = tuple[HostArray, HostArray]

_INK_OF_FULL_PIXEL = 16.0  # a pixel counts the inked points among 4 x 4
_TEST_EVERY = 7  # no divisor of 10: the writers wrote 0 to 9 in turn, and all ten should be held back equally often


def load_digits() -> tuple[Split, Split]:
    """1797 handwritten digits of 8 x 8 pixels, split into a training and a test set, always in the same way.

    The digits are from the UCI Machine Learning Repository (E. Alpaydin and C. Kaynak, doi 10.24432/C50P49, CC BY 4.0).
    Every seventh one is in the test set. Both sets have digits of the same 13 writers.

    Returns:
        `((train_images, train_labels), (test_images, test_labels))`, NumPy arrays that the caller may change:

        - images: float32 of shape (1541, 8, 8) and (256, 8, 8): how much of a pixel is inked, from 0 (blank) to 1 (full),
          in steps of 1/16; rows from the top, columns from the left;
        - labels: int32 of shape (1541,) and (256,): the digit that was meant, 0 to 9.

    Example:
        >>> import pullback as pb
        >>> (images, labels), (test_images, test_labels) = pb.data.load_digits()
        >>> images.shape, test_images.shape, images.dtype
        ((1541, 8, 8), (256, 8, 8), dtype('float32'))
        >>> labels[:10]
        array([0, 1, 2, 3, 4, 5, 7, 8, 9, 0], dtype=int32)
    """
    with gzip.open(str(files("pullback.data") / "digits.csv.gz"), "rt", encoding="ascii") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)
    images = (table[:, :64].reshape(-1, 8, 8) / _INK_OF_FULL_PIXEL).astype(np.float32)
    labels = table[:, 64].astype(np.int32)
    test = np.arange(len(table)) % _TEST_EVERY == _TEST_EVERY - 1
    return (images[~test], labels[~test]), (images[test], labels[test])


def __dir__() -> list[str]:
    return sorted(__all__)
