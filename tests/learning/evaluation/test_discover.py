"""Landmarks of a whole source: in order, without the unreadable, a batch at a time."""

from __future__ import annotations

import numpy as np
import pytest

from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import Placement
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.runs import Run
from trigpoint.learning.evaluation.discover import BATCH, discover


def test_rows_are_the_readable_images_in_order(make_source: type, tiny_run: Run) -> None:
    predictor = Predictor.load(tiny_run.folder)
    random = np.random.default_rng(0)
    images = [random.integers(0, 256, (30, 40, 1), np.uint8) for _ in range(BATCH + 9)]
    images[5] = images[BATCH] = None
    box = Placement(3, 2, 20, 20)
    source = make_source(images, boxes={7: box})
    found = discover(predictor, source, "test")
    kept = [i for i, image in enumerate(images) if image is not None]
    assert found.indices.tolist() == kept
    assert found.places[kept.index(7)] == box
    for row in (0, kept.index(7), len(kept) - 1):
        index = kept[row]
        alone = predictor.detect(images[index], source.box(index))
        np.testing.assert_allclose(found.places[row].to_original(found.points[row]), alone.points, atol=1e-3)


def test_nothing_readable_is_an_error(make_source: type, tiny_run: Run) -> None:
    with pytest.raises(TrigpointError, match="None of the images of fake"):
        discover(Predictor.load(tiny_run.folder), make_source([None, None]), "test")
