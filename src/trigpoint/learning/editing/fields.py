"""Smooth synthetic flow fields that carry landmarks along, as in the paper's figure of manipulated faces."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError

Points = NDArray[np.float64]
REACH = 0.35  # of the edge: standard deviation of the fields' fall-off from the centre of the image


def _about(points: Points) -> Points:
    return points - 0.5


def _near(points: Points) -> Points:
    """1 at the centre, falling off smoothly."""
    return np.asarray(np.exp(-np.square(_about(points)).sum(-1, keepdims=True) / (2 * REACH**2)))


def _corners_up(points: Points) -> Points:
    """Below the middle: the further to a side, the further up."""
    low = np.maximum(points[:, 1] - 0.5, 0)
    return np.column_stack((np.zeros(len(points)), -16 * low * np.square(points[:, 0] - 0.5)))


# Each gives a displacement (n, 2) of points (n, 2) in unit coordinates, for a strength of 1.
FIELDS: dict[str, Callable[[Points], Points]] = {
    "twist": lambda points: _near(points) * _about(points)[:, ::-1] * (-1, 1),
    "swell": lambda points: _near(points) * _about(points),
    "widen": lambda points: _near(points) * _about(points) * (1, 0),
    "lengthen": lambda points: _near(points) * _about(points) * (0, 1),
    "lean": lambda points: _about(points)[:, ::-1] * (1, 0),
    "smile": lambda points: _near(points) * _corners_up(points),
}


def carried(points: Points, field: str, strength: float) -> Points:
    """Points (n, 2) after a named field; a strength of 0.3 is plain to see."""
    if field not in FIELDS:
        raise TrigpointError(f"There is no field {field!r}; the fields are {', '.join(FIELDS)}.")
    return points + strength * FIELDS[field](points)
