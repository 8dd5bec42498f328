"""Bodies seen from the front and from behind: flip-aware regression and errors (appendix C.2).

Unsupervised landmarks do not tell a body's front from its back, so a landmark that follows the left
shoulder of people who face the camera follows the right one of people who turn away. Errors are
therefore measured against the annotation and against the same with left and right swapped, whole body
at once, and the lower one counts. The regressor is fitted in four steps to match.

`swaps` are pairs (left, right) of the person's own sides. Facing the camera, the left is at larger x.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from trigpoint.learning.evaluation.protocols import Points, reference_distance

Swaps = tuple[tuple[int, int], ...]
ROUNDS = 50  # the fit settles within a few; flips and least squares could also chase each other for ever


class Regressor(Interface):
    def predict(self, discovered: Points) -> Points: ...


R = TypeVar("R", bound=Regressor)


@dataclass(frozen=True)
class FlipFit(Generic[R]):
    """A regressor, and what its fit decided on the way."""

    regressor: R
    flipped: NDArray[np.bool_]  # (n,) which training annotations were swapped
    rounds: int
    converged: bool


def swapped(points: Points, swaps: Swaps) -> Points:
    """Landmarks (n, L, 2) with those of the left and of the right exchanged."""
    order = np.arange(points.shape[1])
    for left, right in swaps:
        order[left], order[right] = right, left
    return points[:, order]


def frontal(annotated: Points, swaps: Swaps) -> NDArray[np.bool_]:
    """Whether more than 2/3 of the left landmarks lie to the right of their counterparts, (n,).

    Pairs of which one is missing do not count.
    """
    lefts, rights = zip(*swaps, strict=True)
    across = annotated[:, list(lefts), 0] - annotated[:, list(rights), 0]
    known = np.isfinite(across).sum(1)
    return np.asarray((across > 0).sum(1) * 3 > known * 2)


def fit_bodies(
    fit: Callable[[Points, Points], R], discovered: Points, annotated: Points, swaps: Swaps
) -> FlipFit[R]:
    """The four steps: fit on frontal views; swap others where that is closer; fit on all; repeat."""
    front = frontal(annotated, swaps)
    if not (front & np.isfinite(annotated).all((1, 2))).any():
        front = ~front  # nobody faces the camera: the others agree among themselves just as well
    other = swapped(annotated, swaps)
    regressor = fit(discovered[front], annotated[front])
    flipped = np.zeros(len(annotated), bool)
    for number in range(1, ROUNDS + 1):
        predicted = regressor.predict(discovered)
        before, flipped = flipped, ~front & (_distance(predicted, other) < _distance(predicted, annotated))
        if number > 1 and (flipped == before).all():
            return FlipFit(regressor, flipped, number, True)
        regressor = fit(discovered, np.where(flipped[:, None, None], other, annotated))
    return FlipFit(regressor, flipped, ROUNDS, False)


def nearer(predicted: Points, annotated: Points, swaps: Swaps) -> Points:
    """Of each annotation and its swapped counterpart the one that is closer to the prediction."""
    other = swapped(annotated, swaps)
    closer = _distance(predicted, other) < _distance(predicted, annotated)
    return np.where(closer[:, None, None], other, annotated)


def flip_aware_errors(
    predicted: Points, annotated: Points, reference: tuple[int, int] | None, swaps: Swaps
) -> Points:
    """As `normalised_errors`, against the nearer of annotation and swapped annotation; (n', L).

    The unit is the annotation's own in both cases. A column is a predicted landmark.
    """
    unit = reference_distance(annotated, reference)
    errors = np.linalg.norm(predicted - nearer(predicted, annotated, swaps), axis=-1) / unit[:, None]
    return errors[np.isfinite(errors).any(1)]


def _distance(predicted: Points, annotated: Points) -> Points:
    """Mean distance over the landmarks that are annotated, (n,); 0 where none is."""
    distances = np.linalg.norm(predicted - annotated, axis=-1)
    known = np.isfinite(distances)
    return np.where(known, distances, 0).sum(1) / np.maximum(known.sum(1), 1)
