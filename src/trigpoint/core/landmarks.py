"""What is found on an image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LOW = 0.3  # confidence below which a landmark is not to be trusted


@dataclass(frozen=True)
class Landmarks:
    """The landmarks of one subject in one image."""

    points: NDArray[
        np.float64
    ]  # (K, 2) (x, y) in pixels of the image; the first pixel's centre is (0.5, 0.5)
    confidence: NDArray[np.float64]  # (K,) in [0, 1]: how massive and how peaked the detection map is
