"""From a model and an annotated source to a number."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from trigpoint.core.config.tree import Config
from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import Placement
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.sources.base import Annotations
from trigpoint.learning.backends.pytorch import TorchBackend
from trigpoint.learning.evaluation.bodies import fit_bodies, flip_aware_errors
from trigpoint.learning.evaluation.evaluate import collect, evaluate, for_validation, measure, untrained
from trigpoint.learning.evaluation.protocols import (
    FEW,
    LEAST_SQUARES,
    PROTOCOLS,
    LinearMap,
    fit_few,
    mean_error,
    normalised_errors,
)
from trigpoint.learning.model.autoencoder import Autoencoder

NAMES = ("left", "right", "below")


@pytest.fixture(scope="module")
def predictor(micro: Config) -> Predictor:
    return Predictor(TorchBackend(Autoencoder(micro.model, seed=3)), micro)


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
    with pytest.raises(TrigpointError, match="fake has no annotated landmarks"):
        collect(predictor, plain, "test")


def test_a_source_without_a_readable_image_is_refused(make_source: type, predictor: Predictor) -> None:
    source = annotated_source(make_source, 0, count=2)
    source.images[:] = [None, None]
    with pytest.raises(TrigpointError, match="None of the images of fake 0 could be read"):
        collect(predictor, source, "test")


def test_the_result_is_the_protocol_s_number(make_source: type, predictor: Predictor) -> None:
    train, test = annotated_source(make_source, 1), annotated_source(make_source, 2, count=30)
    result = evaluate(predictor, train, test, "some model")
    assert json.loads(json.dumps(result)) == result
    assert set(result) >= {
        "protocol", "source", "model", "landmarks", "labels", "train_images", "test_images", "error_percent",
        "per_landmark", "baseline_mean_shape_percent", "seconds", "by_labels", "split", "unit",
        "protocol_text", "baseline_untrained_percent", "flip_aware", "regressor", "views",
    }  # fmt: skip
    assert (result["protocol"], result["protocol_text"]) == ("lmdis", PROTOCOLS["lmdis"].text)
    assert result["source"] == "fake 2"
    assert result["model"] == "some model"
    assert result["split"] == "fitted on labels, measured on test"
    assert result["unit"] == "inter-ocular distance"
    assert (result["flip_aware"], result["by_labels"]) == (False, [])
    assert result["regressor"] == LEAST_SQUARES
    counts = [result[key] for key in ("landmarks", "labels", "train_images", "test_images")]
    assert counts == [4, 70, 70, 30]
    assert result["views"] == 1

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


@pytest.mark.parametrize(("empty", "expected"), [("train", "to fit on"), ("test", "to measure on")])
def test_nothing_to_fit_or_measure_on_is_an_error_and_no_nan(
    make_source: type, predictor: Predictor, empty: str, expected: str
) -> None:
    sources = {"train": annotated_source(make_source, 1), "test": annotated_source(make_source, 2, count=3)}
    sources[empty].annotations.points[:] = np.nan
    with pytest.raises(TrigpointError, match=expected):
        evaluate(predictor, sources["train"], sources["test"], "some model", with_untrained=False)


def test_partly_annotated_test_images_count_with_what_they_have(
    make_source: type, predictor: Predictor
) -> None:
    train, test = annotated_source(make_source, 1), annotated_source(make_source, 2, count=30)
    whole, regressor = measure(predictor, train, test, "some model", with_untrained=False)
    test.annotations.points[:, 2] = np.nan
    test.annotations.points[0, 0] = np.nan  # without a reference point it is dropped
    result = evaluate(predictor, train, test, "some model", with_untrained=False)
    assert result["test_images"] == 29
    assert result["per_landmark"]["below"] is None
    test_x, test_y = collect(predictor, test, "test")
    errors = normalised_errors(regressor.predict(test_x), test_y, (0, 1))
    assert result["error_percent"] == pytest.approx(100 * errors[:, :2].mean(), abs=1e-3)
    assert result["error_percent"] != whole["error_percent"]


def test_without_reference_points_the_unit_is_the_edge(make_source: type, predictor: Predictor) -> None:
    train, test = annotated_source(make_source, 1), annotated_source(make_source, 2, count=30)
    eyes = evaluate(predictor, train, test, "some model", with_untrained=False)
    for source in (train, test):
        source.annotations = Annotations(NAMES, source.annotations.points, None)
    edge = evaluate(predictor, train, test, "some model", with_untrained=False)
    assert edge["unit"] == "edge of the crop"
    assert edge["error_percent"] == pytest.approx(eyes["error_percent"] / 6, rel=1e-3)  # eyes 10 of 60 apart


@pytest.mark.parametrize("name", list(PROTOCOLS))
def test_every_protocol_gives_its_own_number(make_source: type, predictor: Predictor, name: str) -> None:
    train, test = annotated_source(make_source, 1, count=30), annotated_source(make_source, 2, count=10)
    result = evaluate(predictor, train, test, "some model", name, with_untrained=False)
    (fit_x, fit_y), (test_x, test_y) = collect(predictor, train, "a"), collect(predictor, test, "b")
    errors = normalised_errors(PROTOCOLS[name].fit(fit_x, fit_y).predict(test_x), test_y, (0, 1))
    assert result["error_percent"] == pytest.approx(100 * errors.mean(), abs=1e-3)
    assert result["protocol"] == name
    assert ("backward_error_percent" in result) == (name == "saic")


def test_saic_backward_predicts_discovered_landmarks(make_source: type, predictor: Predictor) -> None:
    train, test = annotated_source(make_source, 1), annotated_source(make_source, 2, count=10)
    result = evaluate(predictor, train, test, "m", "saic", labels=(20,), draws=2, with_untrained=False)
    (fit_x, fit_y), (test_x, test_y) = collect(predictor, train, "a"), collect(predictor, test, "b")
    x, y = fit_y.reshape(70, 6), fit_x.reshape(70, 8)
    centred = x - x.mean(0)
    product = centred.T @ centred
    weights = np.linalg.inv(product + 1e-5 * product.max() * np.eye(6)) @ centred.T @ (y - y.mean(0))
    predicted = ((test_y.reshape(10, 6) - x.mean(0)) @ weights + y.mean(0)).reshape(10, 4, 2)
    eyes = np.linalg.norm(test_y[:, 0] - test_y[:, 1], axis=-1)[:, None]
    expected = 100 * (np.linalg.norm(predicted - test_x, axis=-1) / eyes).mean()
    assert result["backward_error_percent"] == pytest.approx(expected, abs=1e-3)
    assert result["by_labels"][0]["backward_error_percent"] > 0
    assert "backward_std" in result["by_labels"][0]


def test_an_unknown_protocol_is_refused(make_source: type, predictor: Predictor) -> None:
    source = annotated_source(make_source, 1, count=2)
    with pytest.raises(TrigpointError, match="no protocol 'best'; the protocols are lmdis, autolink"):
        evaluate(predictor, source, source, "some model", "best")


# Few labels


def test_errors_by_number_of_labels(make_source: type, predictor: Predictor) -> None:
    train, test = annotated_source(make_source, 1), annotated_source(make_source, 2, count=20)
    train.annotations.points[:3] = np.nan  # never drawn
    result = evaluate(
        predictor, train, test, "m", labels=(5, 20, 67, 500, "all"), draws=4, seed=7, with_untrained=False
    )
    rows = result["by_labels"]
    assert [row["labels"] for row in rows] == [5, 20, 67, 67]  # 500 are more than there are
    assert [row["draws"] for row in rows] == [4, 4, 1, 1]
    assert [row["regressor"] for row in rows] == [FEW, FEW, LEAST_SQUARES, LEAST_SQUARES]
    for row in rows[2:]:
        assert (row["error_percent"], row["std"]) == (result["error_percent"], 0.0)
    (fit_x, fit_y), (test_x, test_y) = collect(predictor, train, "a"), collect(predictor, test, "b")
    errors = []
    for draw in range(4):
        chosen = 3 + np.random.default_rng([7, 20, draw]).choice(67, 20, replace=False)
        fitted = fit_few(fit_x[chosen].reshape(20, -1), fit_y[chosen].reshape(20, -1))
        errors.append(100 * mean_error(normalised_errors(fitted.predict(test_x), test_y, (0, 1))))
    assert rows[1]["error_percent"] == pytest.approx(np.mean(errors), abs=1e-3)
    assert rows[1]["std"] == pytest.approx(np.std(errors), abs=1e-3)


def test_a_row_does_not_depend_on_the_others_and_follows_the_seed(
    make_source: type, predictor: Predictor
) -> None:
    train, test = annotated_source(make_source, 1), annotated_source(make_source, 2, count=10)

    def row(labels: tuple[int, ...], seed: int) -> dict[str, object]:
        result = evaluate(
            predictor, train, test, "m", labels=labels, draws=3, seed=seed, with_untrained=False
        )
        return next(one for one in result["by_labels"] if one["labels"] == 10)

    assert row((10,), 0) == row((1, 10, 20), 0)
    assert row((10,), 0) != row((10,), 1)


def test_images_are_looked_at_once_whatever_is_asked(make_source: type, predictor: Predictor) -> None:
    train, test = annotated_source(make_source, 1), annotated_source(make_source, 2, count=10)
    evaluate(predictor, train, test, "m", labels=(1, 10, "all"), draws=3, with_untrained=False)
    assert sorted(train.reads) == list(range(70))
    assert sorted(test.reads) == list(range(10))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"labels": (0,)}, "labels must be at least 1; got 0"),
        ({"labels": (5, -3)}, "labels must be at least 1; got -3"),
        ({"labels": (5,), "draws": 0}, "draws must be at least 1; got 0"),
        ({"seed": -1}, "seed must be 0 or more; got -1"),
    ],
)
def test_bad_numbers_are_refused_before_an_image_is_read(
    make_source: type, predictor: Predictor, asked: dict[str, object], expected: str
) -> None:
    source = annotated_source(make_source, 1, count=4)
    with pytest.raises(TrigpointError, match=expected):
        evaluate(predictor, source, source, "m", **asked)
    assert source.reads == []


def test_validation_images_are_not_fitted_on(make_source: type) -> None:
    source = annotated_source(make_source, seed=1, count=25)
    fitted, measured = for_validation(source)  # type: ignore[arg-type]
    names = [{one.name(i) for i in range(len(one))} for one in (fitted, measured)]
    assert (len(names[0]), len(names[1])) == (22, 3)
    assert not names[0] & names[1]
    with pytest.raises(TrigpointError, match="too few for a validation"):
        for_validation(annotated_source(make_source, seed=1, count=1))  # type: ignore[arg-type]


# Bodies


def test_swaps_make_it_flip_aware(make_source: type, predictor: Predictor) -> None:
    train, test = annotated_source(make_source, 1), annotated_source(make_source, 2, count=30)
    for source in (train, test):
        points = source.annotations.points.copy()
        points[::2, [0, 1]] = points[::2, [1, 0]]  # half of them turn away
        source.annotations = Annotations(NAMES, points, None, swaps=((1, 0),))
    result = evaluate(predictor, train, test, "m", "saic", labels=(30,), draws=2, with_untrained=False)
    assert result["flip_aware"] is True
    (fit_x, fit_y), (test_x, test_y) = collect(predictor, train, "a"), collect(predictor, test, "b")
    fitted = fit_bodies(PROTOCOLS["saic"].fit, fit_x, fit_y, ((1, 0),)).regressor
    errors = flip_aware_errors(fitted.predict(test_x), test_y, None, ((1, 0),))
    assert result["error_percent"] == pytest.approx(100 * mean_error(errors), abs=1e-3)
    plain = normalised_errors(PROTOCOLS["saic"].fit(fit_x, fit_y).predict(test_x), test_y, None)
    assert result["error_percent"] < 100 * mean_error(plain)
    assert result["backward_error_percent"] > 0
    # A mean shape with the two sides apart, not one where they cancel out.
    assert result["baseline_mean_shape_percent"] < 100 * mean_error(
        normalised_errors(np.broadcast_to(fit_y.mean(0), test_y.shape), test_y, None)
    )


# The untrained network


def test_the_untrained_network_is_measured_by_the_same_protocol(
    make_source: type, predictor: Predictor
) -> None:
    train, test = annotated_source(make_source, 1), annotated_source(make_source, 2, count=10)
    model = predictor.backend.model
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    result = evaluate(predictor, train, test, "m")
    first = untrained(predictor, train)
    (fit_x, fit_y), (test_x, test_y) = collect(first, train, "a"), collect(first, test, "b")
    errors = normalised_errors(LinearMap.fit(fit_x, fit_y).predict(test_x), test_y, (0, 1))
    assert result["baseline_untrained_percent"] == pytest.approx(100 * errors.mean(), abs=1e-3)
    assert all(
        torch.equal(value, weights[name]) for name, value in predictor.backend.model.state_dict().items()
    )
    assert "baseline_untrained_percent" not in evaluate(predictor, train, test, "m", with_untrained=False)


def test_the_untrained_network_has_first_weights_and_statistics_of_the_source(
    make_source: type, micro: Config, predictor: Predictor
) -> None:
    train = annotated_source(make_source, 1, count=10)
    train.images[4] = None
    found = untrained(predictor, train).backend.model.state_dict()
    first = Autoencoder(micro.model, seed=0).state_dict()
    assert found.keys() == first.keys()
    same = {name for name in first if torch.equal(found[name], first[name])}
    assert all("running_" in name or "num_batches" in name for name in first.keys() - same)
    assert any("running_mean" in name for name in first.keys() - same)


# Memory

MEMORY = """
import resource, sys
from dataclasses import replace
import numpy as np
import torch
from trigpoint.learning.evaluation.evaluate import evaluate
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.config.presets import tiny
from trigpoint.core.sources.base import Annotations, Source
from trigpoint.learning.backends.pytorch import TorchBackend

torch.set_num_threads(1)
config = tiny(4)
model = replace(config.model, image_size=16, padded_size=16, detector="D4 | 4/4 P 4 | out1")
config = replace(config, model=model)

class Stream(Source):
    words, description, annotations = ("stream",), "stream", None
    def __init__(self, count):
        points = np.random.default_rng(count).uniform(0, 64, (count, 5, 2))
        self.annotations = Annotations(tuple("abcde"), points, (0, 1))
    def __len__(self):
        return len(self.annotations.points)
    def name(self, index):
        return str(index)
    def image(self, index):
        return np.full((128, 128, 1), index % 256, np.uint8)

predictor = Predictor(TorchBackend(Autoencoder(model)), config)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
evaluate(predictor, Stream(1_000), Stream(100), "m", labels=(10,), draws=2, with_untrained=False)
small = peak()
labels = (10, 1_000)
result = evaluate(
    predictor, Stream(10_000), Stream(100), "m", labels=labels, draws=2, with_untrained=False
)
assert result["labels"] == 10_000
print(small, peak() - small)
"""


def test_memory_does_not_grow_with_the_number_of_images() -> None:
    """Ten times the images: 10,000 of 16 kB are 156 MB decoded, which must not pile up."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    _, growth = map(float, done.stdout.split())
    assert growth < 60
