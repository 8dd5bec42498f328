"""What computes a trained model. The rest of inference knows bytes and points alone."""

from __future__ import annotations

import importlib
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.runs import Run

Squares = NDArray[np.uint8]  # (n, size, size, C): prepared images
Points = NDArray[np.float64]  # (n, K, 2) (x, y) in unit coordinates of a square
Floats = NDArray[np.float32]

BACKENDS = {"torch": "trigpoint.learning.backends.pytorch"}  # each module has `load(run, views)`


class Backend(Protocol):
    views: int  # of each image, in `detect`

    @property
    def digest(self) -> str:
        """What the weights are, whichever file they came from."""
        ...

    @property
    def versions(self) -> dict[str, str]:
        """Of the libraries that compute."""
        ...

    def detect(self, squares: Squares) -> tuple[Points, NDArray[np.float64]]:
        """Landmarks, and the confidence (n, K) of each: the mean over the views."""
        ...

    def detect_once(self, squares: Squares) -> Points:
        """Landmarks by one view, as the decoder wants them."""
        ...

    def maps(self, squares: Squares) -> Floats:
        """Detection maps (n, K + 1, m, m) of padded images, the background's last."""
        ...

    def encode(self, squares: Squares) -> tuple[Points, Floats | None]:
        """Landmarks by one view and descriptors (n, K + 1, C), None for a model without."""
        ...

    def decode(self, points: Points, descriptors: Floats | None) -> Squares:
        """The images that landmarks and descriptors stand for."""
        ...


def load(run: Run, views: int | None = None, name: str = "torch") -> Backend:
    """The model of a finished run; `views` in place of the number in its config."""
    return cast(Backend, importlib.import_module(BACKENDS[name]).load(run, views))
