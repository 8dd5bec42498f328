"""How discovered landmarks predict annotated ones. A number without its protocol means nothing.

Every protocol here is a linear map fitted on labelled images. They differ in the origin of the
coordinates, which matters where there is no bias, and in the regulariser. Coordinates are units of
the image on both sides; the scale that a project uses besides (pixels, [-1, 1]) changes no result.
The error is a distance over a unit: the distance between two annotated landmarks, or the crop's edge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]

LEAST_SQUARES = "least squares"
FEW = "ridge (few labels)"
ENOUGH = 10  # labels an unknown: a random draw of fewer is fitted by a ridge
# Regularisers tried for few labels, in units of the inputs' largest variance: mean shape to nearly none.
STRENGTHS = 10.0 ** np.arange(4, -3.1, -0.25)


@dataclass(frozen=True)
class LinearMap:
    """Landmarks (n, K, 2) -> landmarks (n, L, 2), both in unit coordinates."""

    weights: Points  # (2K, 2L)
    origin: Points | float = 0.5  # subtracted from what comes in: a number, or (2K,)
    target: Points | float = 0.5  # added to what goes out: a number, or (2L,)
    kind: str = LEAST_SQUARES

    @classmethod
    def fit(cls, discovered: Points, annotated: Points, origin: float = 0.5) -> LinearMap:
        """Plain least squares about a fixed origin, without bias; incomplete images do not count."""
        x, y = complete_rows(discovered, annotated)
        return cls(least_squares(x - origin, y - origin), origin, origin)

    def predict(self, discovered: Points) -> Points:
        flat = (discovered.reshape(len(discovered), -1) - self.origin) @ self.weights + self.target
        return flat.reshape(len(discovered), -1, 2)


@dataclass(frozen=True)
class Protocol:
    """One way to fit the map. `fit` falls back on a ridge where least squares has few labels."""

    name: str
    text: str
    origin: float | None  # what is subtracted on both sides; None: their means, which is a bias
    ridge: float = 0.0  # regulariser in units of the largest element of X'X
    backward: bool = False  # also measures how well annotated landmarks predict discovered ones

    def unknowns(self, landmarks: int) -> int:
        """How many numbers are fitted for one annotated coordinate."""
        return 2 * landmarks + (self.origin is None)

    def fit(self, discovered: Points, annotated: Points, enough: int = 1) -> LinearMap:
        """Fitted on the images whose landmarks are complete, of which there must be one.

        Below `enough` of them an unknown it is a ridge.
        """
        x, y = complete_rows(discovered, annotated)
        if self.ridge:
            centre, target = x.mean(0), y.mean(0)
            x, y = x - centre, y - target
            product = x.T @ x
            strength = self.ridge * (float(product.max()) + 1e-12)
            weights = np.linalg.solve(product + strength * np.eye(len(product)), x.T @ y)
            return LinearMap(weights, centre, target, f"ridge ({self.ridge:g} of the largest element of X'X)")
        if len(x) < enough * self.unknowns(discovered.shape[1]):
            return fit_few(x, y)
        if self.origin is not None:
            return LinearMap.fit(discovered, annotated, self.origin)
        centre, target = x.mean(0), y.mean(0)
        return LinearMap(least_squares(x - centre, y - target), centre, target)


def least_squares(x: Points, y: Points) -> Points:
    """The smallest of the best weights: landmarks that repeat each other do no harm."""
    return np.asarray(np.linalg.lstsq(x, y, rcond=None)[0], np.float64)


def fit_few(x: Points, y: Points) -> LinearMap:
    """Few labels: a ridge about the labels' mean, so that it shrinks to their mean shape.

    The regulariser is the one with the least error when each label in turn is predicted from the others
    (in closed form); among equals the strongest, so a single label or two give their mean.
    """
    count = len(x)
    centre, target = x.mean(0), y.mean(0)
    left, spread, right = np.linalg.svd(x - centre, full_matrices=False)
    left, spread, right = left[:, spread > 1e-9], spread[spread > 1e-9], right[spread > 1e-9]
    inner = left.T @ (y - target)
    best, chosen = np.inf, None
    for strength in STRENGTHS * (spread[0] ** 2 if len(spread) else 0.0):
        kept = spread**2 / (spread**2 + strength)
        residual = y - target - left @ (kept[:, None] * inner)
        leverage = 1 / count + (left**2) @ kept
        error = float(np.mean((residual / np.maximum(1 - leverage, 1e-9)[:, None]) ** 2))
        if error < best * (1 - 1e-6):
            best, chosen = error, kept / spread
    if chosen is None:
        return LinearMap(np.zeros((x.shape[1], y.shape[1])), centre, target, FEW)
    return LinearMap(right.T @ (chosen[:, None] * inner), centre, target, FEW)


def complete_rows(discovered: Points, annotated: Points) -> tuple[Points, Points]:
    """Both sides flat, (n', 2K) and (n', 2L), of the images where no landmark is missing."""
    complete = np.isfinite(annotated).all((1, 2)) & np.isfinite(discovered).all((1, 2))
    count = int(complete.sum())
    return discovered[complete].reshape(count, -1), annotated[complete].reshape(count, -1)


def reference_distance(annotated: Points, reference: tuple[int, int] | None) -> Points:
    """The unit of each image (n,) in crop edges; NaN where it is unknown or 0."""
    if reference is None:
        return np.ones(len(annotated))
    unit = np.linalg.norm(annotated[:, reference[0]] - annotated[:, reference[1]], axis=-1)
    return np.where(unit > 0, unit, np.nan)


def normalised_errors(predicted: Points, annotated: Points, reference: tuple[int, int] | None) -> Points:
    """Distances (n', L) over the reference distance, or in crop edges where there is no reference.

    Landmarks without annotation are NaN; images without any, or without reference distance, are dropped.
    """
    unit = reference_distance(annotated, reference)
    errors = np.linalg.norm(predicted - annotated, axis=-1) / unit[:, None]
    return errors[np.isfinite(errors).any(1)]


def mean_error(errors: Points) -> float:
    """Over the landmarks that an image has, then over images; NaN where there are none."""
    return float(np.nanmean(errors, axis=1).mean()) if len(errors) else float("nan")


PROTOCOLS = {
    one.name: one
    for one in (
        Protocol(
            "lmdis",
            "The paper's release: linear map without bias, coordinates in [0, 1] minus 0.5 on both sides, "
            "plain least squares.",
            origin=0.5,
        ),
        Protocol(
            "autolink",
            "AutoLink: linear map without bias, coordinates in [0, 1] and not centred, plain least squares.",
            origin=0.0,
        ),
        Protocol(
            "imm",
            "IMM: linear map without bias, coordinates in pixels from the corner, ridge with alpha 0, which "
            "is plain least squares.",
            origin=0.0,
        ),
        Protocol(
            "imm-bias",
            "IMM with its option --bias: linear map with bias, ridge with alpha 0, which is plain least "
            "squares.",
            origin=None,
        ),
        Protocol(
            "bkind",
            "BKinD: linear map without bias, coordinates in [-1, 1], ridge with alpha 0, which is plain "
            "least squares.",
            origin=0.5,
        ),
        Protocol(
            "saic",
            "SAIC: linear map between coordinates minus their means, ridge with 1e-5 of the largest element "
            "of X'X, forward (annotated from discovered) and backward (discovered from annotated).",
            origin=None,
            ridge=1e-5,
            backward=True,
        ),
    )
}
