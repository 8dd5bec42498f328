"""From a model and an annotated source to the error of predicting its annotations (section 4.2)."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cairns.errors import CairnsError, UnreadableImage
from cairns.evaluation.protocols import LinearMap, normalised_errors
from cairns.geometry import Placement
from cairns.predictor import Predictor
from cairns.sources.base import Annotations, Source
from cairns.training.prepared import square
from cairns.training.progress import Progress

BATCH = 64


def annotated(source: Source) -> Annotations:
    if source.annotations is None:
        raise CairnsError(f"{source.description} has no annotated landmarks to evaluate against.")
    return source.annotations


def collect(
    predictor: Predictor, source: Source, title: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Discovered (n, K, 2) and annotated (n, L, 2) landmarks in unit coordinates, streamed.

    Only a batch of images is in memory; unreadable images are left out of both.
    """
    annotations = annotated(source)
    discovered, targets = [], []
    with Progress(title, len(source)) as bar:
        for start in range(0, len(source), BATCH):
            squares: list[NDArray[np.uint8]] = []
            places: list[Placement] = []
            for index in range(start, min(start + BATCH, len(source))):
                try:
                    pixels, place = square(source, index, predictor.config)
                except UnreadableImage:
                    continue
                squares.append(pixels)
                places.append(place)
                targets.append(place.to_unit(annotations.points[index]))
            if squares:
                found = predictor.detect_prepared(np.stack(squares), places)
                discovered += [place.to_unit(one.points) for one, place in zip(found, places, strict=True)]
            bar.update(min(start + BATCH, len(source)))
    if not discovered:
        raise CairnsError(f"None of the images of {source.description} could be read.")
    return np.array(discovered), np.array(targets)


def evaluate(predictor: Predictor, train: Source, test: Source, model_name: str) -> dict[str, Any]:
    """The error of the `lmdis` protocol: fitted on all annotations of `train`, measured on `test`."""
    started = time.monotonic()
    fit_x, fit_y = collect(predictor, train, "fitting on")
    test_x, test_y = collect(predictor, test, "testing on")
    labels = int(np.isfinite(fit_y).all((1, 2)).sum())
    names, reference = annotated(test).names, annotated(test).reference
    errors = normalised_errors(LinearMap.fit(fit_x, fit_y).predict(test_x), test_y, reference)
    if not labels or not len(errors):
        raise CairnsError(f"{test.description} has no completely annotated image to fit or measure on.")
    mean_shape = np.broadcast_to(np.nanmean(fit_y, axis=0), test_y.shape)
    baseline = normalised_errors(mean_shape, test_y, reference)
    return {
        "protocol": "lmdis",
        "source": test.description,
        "model": model_name,
        "landmarks": predictor.landmarks,
        "labels": labels,
        "train_images": len(fit_x),
        "test_images": len(errors),
        "error_percent": round(100 * float(errors.mean()), 3),
        "per_landmark": {
            name: round(100 * float(error), 3) for name, error in zip(names, errors.mean(0), strict=True)
        },
        "baseline_mean_shape_percent": round(100 * float(baseline.mean()), 3),
        "seconds": round(time.monotonic() - started, 1),
    }
