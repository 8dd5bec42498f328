"""How discovered landmarks predict annotated ones. A number without its protocol means nothing.

`lmdis`, the protocol of the paper's release: coordinates in [0, 1] of the image, minus 0.5 on both
sides; a linear map without bias by plain least squares; error = mean distance over landmarks divided
by the distance between two reference points (the pupils), averaged over images. Images whose
reference distance is 0 are dropped, and so are images without annotation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]


@dataclass(frozen=True)
class LinearMap:
    """Discovered landmarks (n, K, 2) -> annotated landmarks (n, L, 2), both in unit coordinates."""

    weights: Points  # (2K, 2L)

    @classmethod
    def fit(cls, discovered: Points, annotated: Points) -> LinearMap:
        complete = np.isfinite(annotated).all((1, 2))
        inputs = discovered[complete].reshape(int(complete.sum()), -1) - 0.5
        targets = annotated[complete].reshape(len(inputs), -1) - 0.5
        return cls(np.asarray(np.linalg.lstsq(inputs, targets, rcond=None)[0], np.float64))

    def predict(self, discovered: Points) -> Points:
        flat = (discovered.reshape(len(discovered), -1) - 0.5) @ self.weights + 0.5
        return flat.reshape(len(discovered), -1, 2)


def normalised_errors(predicted: Points, annotated: Points, reference: tuple[int, int]) -> Points:
    """Distances (n', L) over the reference distance; images where it is 0 or unknown are dropped."""
    unit = np.linalg.norm(annotated[:, reference[0]] - annotated[:, reference[1]], axis=-1)
    keep = np.isfinite(annotated).all((1, 2)) & (unit > 0)
    return np.linalg.norm(predicted - annotated, axis=-1)[keep] / unit[keep, None]
