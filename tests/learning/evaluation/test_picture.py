"""The pictures of an evaluation: what is drawn where, and files that are PNGs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trigpoint.core.config.tree import Config
from trigpoint.core.errors import TrigpointError
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.palette import colours
from trigpoint.core.sources.base import Annotations
from trigpoint.learning.backends.pytorch import TorchBackend
from trigpoint.learning.evaluation.evaluate import collect
from trigpoint.learning.evaluation.picture import (
    TILE,
    Prediction,
    draw_predictions,
    few_labels_plot,
    prediction_picture,
    predictions,
)
from trigpoint.learning.evaluation.protocols import FEW, LEAST_SQUARES, PROTOCOLS, LinearMap
from trigpoint.learning.model.autoencoder import Autoencoder

Colour = tuple[int, int, int]


@pytest.fixture(scope="module")
def predictor(micro: Config) -> Predictor:
    return Predictor(TorchBackend(Autoencoder(micro.model, seed=3)), micro)


def source_of(make_source: type, count: int) -> Any:
    random = np.random.default_rng(count)
    images = [random.integers(0, 255, (30, 30, 1), np.uint8) for _ in range(count)]
    points = random.uniform(5, 25, (count, 2, 2))
    return make_source(images, Annotations(("left", "right"), points, (0, 1)))


def seen(path: Path) -> set[Colour]:
    with Image.open(path) as opened:
        assert opened.format == "PNG"
        found = opened.convert("RGB").getcolors(maxcolors=10**7) or []
    return {colour for _, colour in found}  # type: ignore[misc]


def near(found: set[Colour], colour: Colour, within: int = 12) -> bool:
    return bool((np.abs(np.array(list(found)) - colour).max(1) <= within).any())


def example(error: float) -> Prediction:
    crop = np.full((TILE, TILE, 1), 128, np.uint8)
    shape = np.array([[0.3, 0.3], [0.7, 0.7]])
    return Prediction(crop, np.array([[0.2, 0.8], [0.8, 0.2]]), shape, shape + 0.1, np.full(2, error))


# What is shown


def test_predictions_are_those_of_the_regressor(make_source: type, predictor: Predictor) -> None:
    test = source_of(make_source, 20)
    test_x, test_y = collect(predictor, test, "test")
    regressor = PROTOCOLS["imm-bias"].fit(test_x, test_y)
    shown = predictions(predictor, regressor, test, 4)
    assert len(shown) == 4
    for one, index in zip(shown, (0, 5, 10, 15), strict=True):  # spread over the source
        assert one.crop.shape == (TILE, TILE, 1)
        np.testing.assert_allclose(one.discovered, test_x[index], atol=1e-5)
        np.testing.assert_allclose(one.annotated, test_y[index])
        expected = regressor.predict(test_x[index : index + 1])[0]
        np.testing.assert_allclose(one.regressed, expected, atol=1e-4)
        unit = np.linalg.norm(test_y[index, 0] - test_y[index, 1])
        distance = np.linalg.norm(expected - test_y[index], axis=-1)
        np.testing.assert_allclose(one.errors, 100 * distance / unit, rtol=1e-2)


def test_what_cannot_be_read_or_is_not_annotated_is_passed_over(
    make_source: type, predictor: Predictor
) -> None:
    test = source_of(make_source, 6)
    regressor = LinearMap(np.zeros((8, 4)))
    test.images[0] = None
    test.annotations.points[1] = np.nan
    assert len(predictions(predictor, regressor, test, 12)) == 4
    assert len(predictions(predictor, regressor, test, 1)) == 1
    test.images[:] = [None] * 6
    with pytest.raises(TrigpointError, match="fake has no annotated image that could be drawn"):
        predictions(predictor, regressor, test)


def test_of_bodies_the_nearer_side_is_shown(make_source: type, predictor: Predictor) -> None:
    test = source_of(make_source, 1)
    test.annotations = Annotations(
        ("left", "right"), np.array([[[24.0, 15], [6, 15]]]), None, swaps=((0, 1),)
    )
    regressor = LinearMap(np.zeros((8, 4)), 0.0, np.array([0.2, 0.5, 0.8, 0.5]))
    one = predictions(predictor, regressor, test)[0]
    np.testing.assert_allclose(one.annotated, [[0.2, 0.5], [0.8, 0.5]])
    np.testing.assert_allclose(one.errors, 0, atol=1e-9)


# The pictures


def test_marks_have_their_colours(tmp_path: Path) -> None:
    draw_predictions([example(0.0)], "eye distance", tmp_path / "good.png")
    draw_predictions([example(50.0)], "eye distance", tmp_path / "bad.png")
    good, bad = seen(tmp_path / "good.png"), seen(tmp_path / "bad.png")
    for found in (good, bad):
        assert near(found, (255, 31, 45))  # annotated
        assert all(near(found, colour, 20) for colour in colours(2))  # discovered
    with Image.open(tmp_path / "good.png") as one, Image.open(tmp_path / "bad.png") as other:
        assert one.size == other.size
        changed = np.argwhere((np.asarray(one) != np.asarray(other)).any(-1))
        # Only the circles differ, and they lie about the regressed landmarks.
        edge, gap = 2.0 * 160, 0.06 * 160
        places = (np.array([[0.4, 0.4], [0.8, 0.8]]) * edge + gap)[:, ::-1]
        distance = np.linalg.norm(changed[:, None] - places, axis=-1).min(1)
    assert len(changed) > 20
    assert distance.max() < 16


@pytest.mark.parametrize("count", [1, 5, 12])
def test_any_number_of_images_makes_a_picture(tmp_path: Path, count: int) -> None:
    draw_predictions([example(5.0)] * count, "eye distance", tmp_path / "picture.png")
    with Image.open(tmp_path / "picture.png") as opened:
        width, height = opened.size
    rows = -(-count // 6)
    assert height == pytest.approx((rows * 2.06 + 0.06 + 0.45) * 160, abs=2)
    assert width >= 5.2 * 160 - 1


def test_what_is_not_annotated_has_no_dot_and_a_grey_circle(tmp_path: Path) -> None:
    one = example(5.0)
    crop = np.full_like(one.crop, 40)
    missing = Prediction(crop, one.discovered, np.full((2, 2), np.nan), one.regressed, np.full(2, np.nan))
    draw_predictions([missing], "eye distance", tmp_path / "picture.png")
    with Image.open(tmp_path / "picture.png") as opened:
        tile = np.asarray(opened.convert("RGB"))[10:320, 10:320].reshape(-1, 3).astype(int)
    assert (np.abs(tile - 128).max(1) < 6).sum() > 20
    assert not (np.abs(tile - (255, 31, 45)).max(1) < 12).any()


def test_without_a_regressor_it_is_fitted(make_source: type, predictor: Predictor, tmp_path: Path) -> None:
    train, test = source_of(make_source, 20), source_of(make_source, 3)
    prediction_picture(predictor, train, test, tmp_path / "one.png")
    assert sorted(train.reads) == list(range(20))
    regressor = PROTOCOLS["lmdis"].fit(*collect(predictor, train, "fit"))
    prediction_picture(predictor, train, test, tmp_path / "two.png", regressor)
    assert seen(tmp_path / "one.png") == seen(tmp_path / "two.png")


def test_error_against_labels(tmp_path: Path) -> None:
    rows = [
        {"labels": labels, "error_percent": error, "std": 1.0, "draws": 3, "regressor": kind}
        for labels, error, kind in ((100, 9.0, LEAST_SQUARES), (1, 20.0, FEW), (10, 14.0, FEW))
    ]
    few_labels_plot(rows, 8.0, 24.0, tmp_path / "plot.png", "eye distance", "a title")
    found = seen(tmp_path / "plot.png")
    assert near(found, (23, 105, 170))  # the curve
    few_labels_plot(rows[:1], 8.0, 24.0, tmp_path / "one.png")
    assert near(seen(tmp_path / "one.png"), (23, 105, 170))


def test_a_wild_point_does_not_flatten_the_others(tmp_path: Path) -> None:
    """The curve of usual errors keeps its place, whatever one of them is."""

    def curve(wild: float) -> np.ndarray:
        rows = [
            {"labels": labels, "error_percent": error, "std": 0.0, "regressor": LEAST_SQUARES}
            for labels, error in ((1, 20.0), (10, 14.0), (20, wild), (50, 12.0), (500, 9.0))
        ]
        few_labels_plot(rows, 8.0, 24.0, tmp_path / "plot.png")
        with Image.open(tmp_path / "plot.png") as opened:
            return np.asarray(opened.convert("RGB")).astype(int)

    wild, wilder = curve(400.0), curve(9000.0)
    right = wild.shape[1] * 3 // 4
    np.testing.assert_allclose(wild[:, right:], wilder[:, right:], atol=3)
    assert (np.abs(wild[:, right:] - (23, 105, 170)).max(-1) < 12).any()


def test_a_plot_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match="needs numbers of labels"):
        few_labels_plot([], 8.0, 24.0, tmp_path / "plot.png")


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match=r"must end in \.png"):
        draw_predictions([example(5.0)], "eye distance", tmp_path / "picture.jpg")
    assert not list(tmp_path.iterdir())
