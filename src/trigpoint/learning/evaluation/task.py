"""What is fitted and measured once the landmarks are there: no images, no models.

A pair is discovered (n, K, 2) and annotated (n, L, 2) landmarks of the same images in unit coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from trigpoint.learning.evaluation.bodies import Swaps, fit_bodies, flip_aware_errors, nearer, swapped
from trigpoint.learning.evaluation.protocols import (
    ENOUGH,
    LinearMap,
    Points,
    Protocol,
    mean_error,
    normalised_errors,
    reference_distance,
)

Pair = tuple[Points, Points]
Labels = int | Literal["all"]


@dataclass(frozen=True)
class Task:
    """A protocol, and what the annotations ask for: their unit, and whether left and right look alike."""

    protocol: Protocol
    reference: tuple[int, int] | None
    swaps: Swaps = ()

    def fit(
        self, pair: Pair, fit: Callable[[Points, Points], LinearMap] | None = None
    ) -> tuple[LinearMap, Pair]:
        """The regressor, and what it was fitted on: of bodies, some annotations swapped."""
        discovered, annotated = pair
        fit = fit or self.protocol.fit
        if not self.swaps:
            return fit(discovered, annotated), pair
        found = fit_bodies(fit, discovered, annotated, self.swaps)
        flipped = found.flipped[:, None, None]
        return found.regressor, (discovered, np.where(flipped, swapped(annotated, self.swaps), annotated))

    def errors(self, predicted: Points, annotated: Points) -> Points:
        """(n', L) in the annotations' unit, NaN where a landmark is not annotated."""
        if self.swaps:
            return flip_aware_errors(predicted, annotated, self.reference, self.swaps)
        return normalised_errors(predicted, annotated, self.reference)

    def error(self, regressor: LinearMap, test: Pair) -> float:
        return mean_error(self.errors(regressor.predict(test[0]), test[1]))

    def backward_error(self, fitted: Pair, test: Pair) -> float:
        """Of predicting discovered from annotated landmarks, on completely annotated images."""
        discovered, annotated = test
        unit = reference_distance(annotated, self.reference)[:, None]
        regressor = self.protocol.fit(fitted[1], fitted[0])
        errors = np.linalg.norm(regressor.predict(annotated) - discovered, axis=-1) / unit
        if self.swaps:
            turned = regressor.predict(swapped(annotated, self.swaps))
            other = np.linalg.norm(turned - discovered, axis=-1) / unit
            errors = np.where((other.mean(1) < errors.mean(1))[:, None], other, errors)
        return mean_error(errors[np.isfinite(errors).all(1)])

    def targets(self, predicted: Points, annotated: Points) -> Points:
        """The annotations that the errors are measured against."""
        return nearer(predicted, annotated, self.swaps) if self.swaps else annotated


def with_labels(
    task: Task, number: Labels, draws: int, seed: int, labelled: Pair, test: Pair
) -> dict[str, Any]:
    """Mean and standard deviation of the error over random draws of so many of the labelled images."""
    total = len(labelled[0])
    count = total if number == "all" else number
    draws = 1 if count == total else draws
    fit = partial(task.protocol.fit, enough=1 if count == total else ENOUGH)
    forward, backward, kinds = [], [], set()
    for draw in range(draws):
        # Each draw by its own numbers, so that no row of the table depends on the others asked for.
        chosen = np.random.default_rng([seed, count, draw]).choice(total, count, replace=False)
        regressor, fitted = task.fit((labelled[0][chosen], labelled[1][chosen]), fit)
        kinds.add(regressor.kind)
        forward.append(task.error(regressor, test))
        if task.protocol.backward:
            backward.append(task.backward_error(fitted, test))
    row: dict[str, Any] = {
        "labels": count,
        "error_percent": percent(float(np.mean(forward))),
        "std": percent(float(np.std(forward))),
        "draws": draws,
        "regressor": ", ".join(sorted(kinds)),
    }
    if backward:
        row["backward_error_percent"] = percent(float(np.mean(backward)))
        row["backward_std"] = percent(float(np.std(backward)))
    return row


def mean_shape(discovered: Points, annotated: Points) -> LinearMap:
    """What looks at no discovered landmark: the mean of each annotated one."""
    known = np.asarray(np.isfinite(annotated).all(2))  # (n, L)
    sums = np.where(known[:, :, None], annotated, 0).sum(0)
    mean = (sums / np.maximum(known.sum(0), 1)[:, None]).reshape(-1)
    weights = np.zeros((discovered.shape[1] * 2, mean.size))
    return LinearMap(weights, 0.0, mean, "mean shape")


def percent(error: float) -> float:
    return round(100 * error, 3)
