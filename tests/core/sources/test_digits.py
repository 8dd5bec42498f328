"""The embedded digits."""

from __future__ import annotations

import numpy as np
import pytest

from trigpoint.core.errors import TrigpointError
from trigpoint.core.sources.digits import Digits


@pytest.fixture(scope="module")
def digits() -> Digits:
    return Digits()


def test_five_thousand_images_five_hundred_of_each_class(digits: Digits) -> None:
    assert len(digits) == 5000
    classes, counts = np.unique(digits.labels, return_counts=True)
    assert classes.tolist() == list(range(10))
    assert counts.tolist() == [500] * 10


def test_images_are_white_on_black(digits: Digits) -> None:
    image = digits.image(0)
    assert (image.shape, image.dtype) == ((28, 28, 1), np.uint8)
    assert image[0].max() == 0
    assert image.max() > 200
    border = np.stack([digits.image(i)[[0, -1]] for i in range(0, 5000, 50)])
    assert border.mean() < 1


def test_classes_are_shuffled_the_same_way_every_time(digits: Digits) -> None:
    assert len(set(digits.labels[:100].tolist())) == 10
    np.testing.assert_array_equal(Digits().images, digits.images)


def test_names_are_unique_and_tell_the_class(digits: Digits) -> None:
    names = {digits.name(i) for i in range(len(digits))}
    assert len(names) == 5000
    assert digits.name(3).startswith(f"digit-{digits.labels[3]}-")


def test_one_class_alone(digits: Digits) -> None:
    threes = Digits("3")
    assert len(threes) == 500
    assert set(threes.labels.tolist()) == {3}
    assert threes.words == ("digits:3",)
    np.testing.assert_array_equal(threes.images, digits.images[digits.labels == 3])


@pytest.mark.parametrize("word", ["x", "10", "-1", "3 ", "²"])
def test_other_words_are_refused(word: str) -> None:
    with pytest.raises(TrigpointError, match="digits takes one digit, such as digits:3"):
        Digits(word)
