"""Where the subject is on an ordinary photo, framed as the model saw it in training."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import Placement

# From OpenCV's face box to the framing of the faces that the shipped models were trained on: the crop's edge,
# and its centre from the box's top left corner, all in edges of the box (`benchmarks/face_box.py`).
FRAME = (1.26, 0.505, 0.593)
LONGEST = 800  # pixels: a larger photo is shrunk to this for the search
SMALLEST = 1 / 20  # of the photo's longer side: the box of the smallest face looked for


def faces(photo: NDArray[np.uint8]) -> list[Placement]:
    """The faces on (H, W, 1 or 3), from left to right."""
    edge, x, y = FRAME
    return [
        Placement(left + (x - edge / 2) * width, top + (y - edge / 2) * width, edge * width, edge * width)
        for left, top, width, _ in sorted(cascade_boxes(photo).tolist())
    ]


DETECTORS: dict[str, Callable[[NDArray[np.uint8]], list[Placement]]] = {"face": faces}


def cascade_boxes(photo: NDArray[np.uint8]) -> NDArray[np.float64]:
    """OpenCV's frontal face cascade: boxes (n, 4) as left, top, width, height in pixels of the photo."""
    grey = photo[:, :, 0] if photo.shape[2] == 1 else cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY)
    scale = min(1.0, LONGEST / max(grey.shape))
    if scale < 1:
        small = [max(1, round(edge * scale)) for edge in grey.shape[::-1]]
        grey = cv2.resize(grey, small, interpolation=cv2.INTER_AREA)
    grey = cv2.equalizeHist(grey)
    least = max(24, round(max(grey.shape) * SMALLEST))
    found = _cascade().detectMultiScale(grey, scaleFactor=1.1, minNeighbors=3, minSize=(least, least))
    return np.asarray(found, np.float64).reshape(-1, 4) / scale


@cache
def _cascade() -> Any:
    if not hasattr(cv2, "CascadeClassifier"):
        raise TrigpointError(
            "This OpenCV has no face detector, as version 5 left it out: "
            "pip install 'opencv-python-headless<5', or say where the face is with --box, or with --subjects "
            "whole that it fills the image."
        )
    folder = Path(cv2.__file__).parent / "data"
    cascade = cv2.CascadeClassifier(str(folder / "haarcascade_frontalface_alt2.xml"))
    if cascade.empty():
        raise TrigpointError("OpenCV's face detector is not where its package should have put it.")
    return cascade
