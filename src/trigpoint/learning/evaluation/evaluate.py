"""From a model and an annotated source to the error of predicting its annotations (section 4.2).

The discovered landmarks are collected once, a batch of images in memory at a time; every number after
that (few labels, mean shape) is computed from them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.sources.base import Annotations, Source, Subset
from trigpoint.learning.backends.pytorch import TorchBackend
from trigpoint.learning.data.order import evenly, sliced
from trigpoint.learning.data.prepared import square
from trigpoint.learning.evaluation.discover import discover
from trigpoint.learning.evaluation.protocols import PROTOCOLS, LinearMap, mean_error
from trigpoint.learning.evaluation.task import Labels, Task, mean_shape, percent, with_labels
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.nets.norms import recalibrated
from trigpoint.learning.tensors import to_tensor

BATCH = 64
SPLIT = "fitted on labels, measured on test"
TENTH = 10  # every so many of the labelled images are for validation
UNTRAINED_IMAGES = 256  # what the batch-norm statistics of the untrained model are taken from


def evaluate(
    predictor: Predictor,
    train: Source,
    test: Source,
    model_name: str,
    protocol: str = "lmdis",
    labels: Sequence[Labels] = (),
    draws: int = 10,
    seed: int = 0,
    with_untrained: bool = True,
) -> dict[str, Any]:
    """The error of a protocol: fitted on the annotations of `train` (split labels), measured on `test`.

    `labels`: also the error with so many labels, drawn at random `draws` times; numbers above those that
    there are get no row. `with_untrained`: also the error of the same architecture with random weights,
    which looks at all images once more.
    """
    return measure(predictor, train, test, model_name, protocol, labels, draws, seed, with_untrained)[0]


def measure(
    predictor: Predictor,
    train: Source,
    test: Source,
    model_name: str,
    protocol: str = "lmdis",
    labels: Sequence[Labels] = (),
    draws: int = 10,
    seed: int = 0,
    with_untrained: bool = True,
    split: str = SPLIT,
) -> tuple[dict[str, Any], LinearMap]:
    """As `evaluate`, and the regressor itself."""
    started = time.monotonic()
    task = task_of(test, protocol)
    if seed < 0:
        raise TrigpointError(f"The seed must be 0 or more; got {seed}.")
    _check_labels(labels, draws, int(np.isfinite(annotated(train).points).all((1, 2)).sum()), train)
    fit = collect(predictor, train, "fitting on")
    measured = collect(predictor, test, "testing on")
    complete = np.isfinite(fit[1]).all((1, 2))
    labelled = int(complete.sum())
    _check_labels(labels, draws, labelled, train)  # again: some images may not have been readable
    if not len(task.errors(measured[1], measured[1])):
        raise TrigpointError(f"{test.description} has no annotated image to measure on.")
    regressor, fitted = task.fit(fit)
    errors = task.errors(regressor.predict(measured[0]), measured[1])
    result: dict[str, Any] = {
        "protocol": protocol,
        "protocol_text": task.protocol.text,
        "regressor": regressor.kind,
        "source": test.description,
        "split": split,
        "model": model_name,
        "landmarks": predictor.landmarks,
        "views": predictor.backend.views,
        "labels": labelled,
        "train_images": len(fit[0]),
        "test_images": len(errors),
        "unit": unit_of(annotated(test)),
        "flip_aware": bool(task.swaps),
        "error_percent": percent(mean_error(errors)),
    }
    if task.protocol.backward:
        result["backward_error_percent"] = percent(task.backward_error(fitted, measured))
    result["per_landmark"] = {
        name: percent(float(np.nanmean(column))) if np.isfinite(column).any() else None
        for name, column in zip(annotated(test).names, errors.T, strict=True)
    }
    result["baseline_mean_shape_percent"] = percent(task.error(task.fit(fit, mean_shape)[0], measured))
    if with_untrained:
        random = untrained(predictor, train)
        first, _ = task.fit(collect(random, train, "untrained, fitting on", aloud=False))
        error = task.error(first, collect(random, test, "untrained, testing on", aloud=False))
        result["baseline_untrained_percent"] = percent(error)
    known = (fit[0][complete], fit[1][complete])
    result["by_labels"] = [
        with_labels(task, number, draws, seed, known, measured)
        for number in labels
        if number == "all" or number <= labelled
    ]
    result["seconds"] = round(time.monotonic() - started, 1)
    return result, regressor


def for_validation(labelled: Source) -> tuple[Subset, Subset]:
    """The labelled images in two: what is fitted on, and every tenth of them, to choose settings by."""
    annotated(labelled)
    numbers = range(len(labelled))
    if len(labelled) < 2:
        raise TrigpointError(f"{labelled.description} has only one labelled image: too few for a validation.")
    return Subset(labelled, [i for i in numbers if i % TENTH]), Subset(labelled, numbers[::TENTH])


def task_of(test: Source, protocol: str) -> Task:
    if protocol not in PROTOCOLS:
        raise TrigpointError(f"There is no protocol {protocol!r}; the protocols are {', '.join(PROTOCOLS)}.")
    return Task(PROTOCOLS[protocol], annotated(test).reference, annotated(test).swaps)


def annotated(source: Source) -> Annotations:
    if source.annotations is None:
        raise TrigpointError(f"{source.description} has no annotated landmarks to evaluate against.")
    return source.annotations


def unit_of(annotations: Annotations) -> str:
    return "edge of the crop" if annotations.reference is None else annotations.unit


def collect(
    predictor: Predictor, source: Source, title: str, aloud: bool = True
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Discovered (n, K, 2) and annotated (n, L, 2) landmarks in unit coordinates, streamed.

    Only a batch of images is in memory; unreadable images are left out of both.
    """
    annotations = annotated(source)
    found = discover(predictor, source, title, aloud)
    pairs = zip(found.indices, found.places, strict=True)
    return found.points, np.array([place.to_unit(annotations.points[index]) for index, place in pairs])


def untrained(predictor: Predictor, source: Source) -> Predictor:
    """The same architecture before its first step (seed 0), with batch-norm statistics of `source`.

    A trained model has statistics of its training images too: the two differ in their weights alone.
    """

    model = Autoencoder(predictor.config.model, seed=0)
    with recalibrated(model, model.detector):
        for rows in sliced(evenly(len(source), UNTRAINED_IMAGES)):
            squares = []
            for index in rows:
                with contextlib.suppress(UnreadableImage):
                    squares.append(square(source, int(index), predictor.config)[0])
            if squares:
                model.detect(to_tensor(np.stack(squares)))
    return Predictor(TorchBackend(model), predictor.config)


def _check_labels(labels: Sequence[Labels], draws: int, available: int, source: Source) -> None:
    if draws < 1:
        raise TrigpointError(f"The number of draws must be at least 1; got {draws}.")
    if not available:
        raise TrigpointError(f"{source.description} has no completely annotated image to fit on.")
    for number in labels:
        if number != "all" and number < 1:
            raise TrigpointError(f"A number of labels must be at least 1; got {number}.")
