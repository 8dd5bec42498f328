"""Attributes: a linear SVM on features whose worth is known."""

from __future__ import annotations

import numpy as np
import pytest

from trigpoint.core.errors import TrigpointError
from trigpoint.core.sources.base import Attributes
from trigpoint.learning.evaluation.attributes import accuracies, attributes_of


def made(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, Attributes]:
    """Two features, each telling one attribute; a third class number is unknown."""
    random = np.random.default_rng(seed)
    one, two = random.normal(size=(2, count))
    values = np.stack((one > 0.5, two > 0), axis=1).astype(np.int64)
    values[::10, 1] = -1
    return one[:, None], two[:, None], Attributes(("rare", "even"), values)


def test_each_feature_tells_its_own_attribute_and_both_tell_both() -> None:
    one, two, known = made(400, 0)
    one_test, two_test, truth = made(400, 1)
    both, both_test = np.hstack((one, two)), np.hstack((one_test, two_test))
    rows = accuracies(
        {"one": (one, one_test), "two": (two, two_test), "both": (both, both_test)}, known, truth
    )
    rare, even = rows
    assert rare["attribute"] == "rare"
    assert rare["majority"] == pytest.approx(100 * float((truth.values[:, 0] == 0).mean()), abs=0.01)
    assert rare["one"] > 97
    assert rare["two"] == pytest.approx(rare["majority"], abs=3)  # knows nothing: says the majority
    assert even["two"] > 97
    assert even["one"] < 65
    assert min(rare["both"], even["both"]) > 97


def test_images_of_unknown_class_are_left_out() -> None:
    one, _, known = made(400, 0)
    one_test, _, truth = made(200, 1)
    rows = accuracies({"one": (one, one_test)}, known, truth)
    assert [(row["train_images"], row["test_images"]) for row in rows] == [(400, 200), (360, 180)]


def test_the_scale_of_a_feature_does_not_matter() -> None:
    one, two, known = made(300, 0)
    one_test, two_test, truth = made(300, 1)
    plain, scaled = np.hstack((one, two)), np.hstack((one * 1e-6, two * 1e6))
    plain_test, scaled_test = np.hstack((one_test, two_test)), np.hstack((one_test * 1e-6, two_test * 1e6))
    rows = accuracies({"plain": (plain, plain_test), "scaled": (scaled, scaled_test)}, known, truth)
    for row in rows:
        assert row["plain"] == pytest.approx(row["scaled"], abs=0.5)


def test_several_classes() -> None:
    random = np.random.default_rng(0)
    classes = random.integers(1, 6, 500)
    inputs = np.eye(6)[classes] + random.normal(scale=0.1, size=(500, 6))
    known = Attributes(("pose",), classes[:, None])
    row = accuracies({"pose": (inputs[:300], inputs[300:])}, Attributes(("pose",), classes[:300, None]),
                     Attributes(("pose",), classes[300:, None]))[0]  # fmt: skip
    assert known.values.max() == 5
    assert row["pose"] > 99


def test_one_class_alone_is_refused() -> None:
    known = Attributes(("same",), np.ones((20, 1), np.int64))
    with pytest.raises(TrigpointError, match="two classes"):
        accuracies({"x": (np.zeros((20, 1)), np.zeros((20, 1)))}, known, known)


def test_a_source_without_attributes_is_named(make_source: type) -> None:
    with pytest.raises(TrigpointError, match="fake has no annotated attributes"):
        attributes_of(make_source([np.zeros((28, 28, 1), np.uint8)]))
