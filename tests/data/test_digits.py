"""The digits: whole, split as promised, and the caller's own."""

from __future__ import annotations

import numpy as np

from pullback.data import load_digits


def test_every_digit_is_in_one_set() -> None:
    (images, labels), (test_images, test_labels) = load_digits()
    assert images.shape == (1541, 8, 8) and test_images.shape == (256, 8, 8)
    assert labels.shape == (1541,) and test_labels.shape == (256,)
    assert images.dtype == test_images.dtype == np.float32 and labels.dtype == test_labels.dtype == np.int32
    for ink in (images, test_images):
        assert ink.min() == 0 and ink.max() == 1 and np.array_equal(ink * 16, np.round(ink * 16))
    # the numbers of each digit that the data's authors give for these 1797
    counts = np.bincount(np.concatenate([labels, test_labels]))
    np.testing.assert_array_equal(counts, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180])
    assert np.bincount(test_labels, minlength=10).min() >= 15


def test_the_split_is_always_the_same_and_the_arrays_are_the_callers() -> None:
    (images, labels), _ = load_digits()
    images[:] = 0
    labels[:] = 0
    (again, labels_again), (test_images, test_labels) = load_digits()
    assert again.max() == 1 and labels_again.max() == 9
    assert list(labels_again[:7]) == [0, 1, 2, 3, 4, 5, 7] and test_labels[0] == 6
    assert test_images[0].sum() > 0
