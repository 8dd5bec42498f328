"""From a model and an annotated source to a number."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cairns.config import Config
from cairns.errors import CairnsError
from cairns.evaluation.evaluate import collect, evaluate
from cairns.evaluation.protocols import LinearMap, normalised_errors
from cairns.geometry import Placement
from cairns.model.autoencoder import Autoencoder
from cairns.predictor import Predictor
from cairns.sources.base import Annotations

NAMES = ("left", "right", "below")


@pytest.fixture(scope="module")
def predictor(micro: Config) -> Predictor:
    return Predictor(Autoencoder(micro.model, seed=3), micro)


def annotated_source(make_source: type, seed: int, count: int = 70) -> object:
    """Images 40 wide and 60 high with a bright patch, three annotated points about it, in pixels."""
    random = np.random.default_rng(seed)
    images, points = [], []
    for _ in range(count):
        x, y = random.integers(8, 32), random.integers(8, 52)
        image = np.zeros((60, 40, 1), np.uint8)
        image[y - 6 : y + 6, x - 6 : x + 6] = 255
        images.append(image)
        points.append([[x - 5, y], [x + 5, y], [x, y + 5]])
    return make_source(
        images, Annotations(NAMES, np.array(points, float), (0, 1)), description=f"fake {seed}"
    )


def test_coordinates_are_units_of_the_squared_image(make_source: type, predictor: Predictor) -> None:
    source = annotated_source(make_source, 0, count=70)
    discovered, annotated = collect(predictor, source, "test")
    assert discovered.shape == (70, 4, 2)
    assert annotated.shape == (70, 3, 2)
    points = source.annotations.points
    np.testing.assert_allclose(
        annotated, (points + np.array([10, 0])) / 60
    )  # 40 by 60 is padded by 10 on both sides
    for index in (0, 69):  # also in the second batch
        found = predictor.detect(source.images[index]).points
        np.testing.assert_allclose(discovered[index], (found + np.array([10, 0])) / 60, atol=1e-5)


def test_the_source_s_boxes_are_used(make_source: type, predictor: Predictor) -> None:
    source = annotated_source(make_source, 0, count=3)
    source.boxes[1] = Placement(4, 6, 20, 20)
    discovered, annotated = collect(predictor, source, "test")
    np.testing.assert_allclose(annotated[1], (source.annotations.points[1] - (4, 6)) / 20)
    found = predictor.detect(source.images[1], Placement(4, 6, 20, 20)).points
    np.testing.assert_allclose(discovered[1], (found - (4, 6)) / 20, atol=1e-5)


def test_unreadable_images_are_left_out_of_both(make_source: type, predictor: Predictor) -> None:
    source = annotated_source(make_source, 0, count=6)
    whole = collect(predictor, source, "test")
    source.images[2] = None
    discovered, annotated = collect(predictor, source, "test")
    kept = [0, 1, 3, 4, 5]
    np.testing.assert_allclose(discovered, whole[0][kept], atol=1e-5)
    np.testing.assert_array_equal(annotated, whole[1][kept])


def test_a_source_without_annotations_is_refused(make_source: type, predictor: Predictor) -> None:
    plain = make_source([np.zeros((28, 28, 1), np.uint8)])
    with pytest.raises(CairnsError, match="fake has no annotated landmarks"):
        collect(predictor, plain, "test")


def test_a_source_without_a_readable_image_is_refused(make_source: type, predictor: Predictor) -> None:
    source = annotated_source(make_source, 0, count=2)
    source.images[:] = [None, None]
    with pytest.raises(CairnsError, match="None of the images of fake 0 could be read"):
        collect(predictor, source, "test")


def test_the_result_is_the_protocol_s_number(make_source: type, predictor: Predictor) -> None:
    train, test = annotated_source(make_source, 1), annotated_source(make_source, 2, count=30)
    result = evaluate(predictor, train, test, "some model")
    assert json.loads(json.dumps(result)) == result
    assert set(result) >= {
        "protocol", "source", "model", "landmarks", "labels", "train_images", "test_images", "error_percent",
        "per_landmark", "baseline_mean_shape_percent", "seconds",
    }  # fmt: skip
    assert result["protocol"] == "lmdis"
    assert result["source"] == "fake 2"
    assert result["model"] == "some model"
    assert (result["landmarks"], result["labels"], result["train_images"], result["test_images"]) == (
        4,
        70,
        70,
        30,
    )

    fit_x, fit_y = collect(predictor, train, "a")
    test_x, test_y = collect(predictor, test, "b")
    errors = normalised_errors(LinearMap.fit(fit_x, fit_y).predict(test_x), test_y, (0, 1))
    assert result["error_percent"] == pytest.approx(100 * errors.mean(), abs=1e-3)
    assert set(result["per_landmark"]) == set(NAMES)
    assert result["per_landmark"]["below"] == pytest.approx(100 * errors[:, 2].mean(), abs=1e-3)
    mean_face = normalised_errors(np.broadcast_to(fit_y.mean(0), test_y.shape), test_y, (0, 1))
    assert result["baseline_mean_shape_percent"] == pytest.approx(100 * mean_face.mean(), abs=1e-3)


def test_what_was_dropped_is_not_counted(make_source: type, predictor: Predictor) -> None:
    train, test = annotated_source(make_source, 1), annotated_source(make_source, 2, count=30)
    train.annotations.points[4] = np.nan
    test.annotations.points[0, 1] = test.annotations.points[0, 0]
    result = evaluate(predictor, train, test, "some model")
    assert result["labels"] == 69
    assert result["test_images"] == 29
    assert np.isfinite(result["error_percent"])
    assert np.isfinite(result["baseline_mean_shape_percent"])


def test_nothing_to_measure_on_is_an_error_and_no_nan(make_source: type, predictor: Predictor) -> None:
    train, test = annotated_source(make_source, 1), annotated_source(make_source, 2, count=3)
    test.annotations.points[:] = np.nan
    with pytest.raises(CairnsError):
        evaluate(predictor, train, test, "some model")
