"""dlib's pretrained face models, as a reference beside ours: landmarks and a 128-number embedding.

They come with two packages (`pip install 'trigpoint[embedding]'`) and need no download. dlib looks at the
same square crop of the face as our detector, enlarged to `SIZE` pixels.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError

SIZE = 150  # what dlib's embedding network was trained on
# Where dlib's own detector is blind: its usual box on MTFL crops, the median over the faces it finds there
# (`benchmarks/dlib_box.py`), as left, top, right, bottom in edges of the crop.
USUAL_BOX = (0.127, 0.127, 0.827, 0.827)
EYES = ((0, 1), (2, 3))  # of the five points: outer and inner corner of the right and the left eye


@dataclass(frozen=True)
class Face:
    """What dlib finds on one crop, in edges of the crop."""

    found: bool  # by dlib's detector; else the usual box was taken
    five: NDArray[np.float64]  # (5, 2)
    sixty_eight: NDArray[np.float64]  # (68, 2)


class Dlib:
    def __init__(self) -> None:
        missing = [
            name for name in ("dlib", "face_recognition_models") if importlib.util.find_spec(name) is None
        ]
        if missing:
            raise TrigpointError(
                f"The package {missing[0]} is not installed; dlib's face models come with "
                "pip install 'trigpoint[embedding]'."
            )
        import dlib

        self.dlib: Any = dlib
        # The package's own import fails on a current Python; only its files are needed.
        places = importlib.util.find_spec("face_recognition_models")
        assert places is not None
        assert places.submodule_search_locations is not None
        folder = Path(places.submodule_search_locations[0]) / "models"
        self.detector = dlib.get_frontal_face_detector()
        self.five = dlib.shape_predictor(str(folder / "shape_predictor_5_face_landmarks.dat"))
        self.sixty_eight = dlib.shape_predictor(str(folder / "shape_predictor_68_face_landmarks.dat"))
        self.network = dlib.face_recognition_model_v1(
            str(folder / "dlib_face_recognition_resnet_model_v1.dat")
        )

    def box(self, crop: NDArray[np.uint8]) -> tuple[Any, bool]:
        """The largest face dlib's detector finds, else the usual box; and whether it found one."""
        found = self.detector(crop, 0)
        if len(found):
            return max(found, key=lambda box: box.area()), True
        left, top, right, bottom = (round(value * len(crop)) for value in USUAL_BOX)
        return self.dlib.rectangle(left, top, right, bottom), False

    def landmarks(self, crop: NDArray[np.uint8]) -> Face:
        box, found = self.box(crop)
        five, many = (
            (np.array([(part.x, part.y) for part in model(crop, box).parts()], float) + 0.5) / len(crop)
            for model in (self.five, self.sixty_eight)
        )
        return Face(found, five, many)

    def embed(self, crop: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(128,) of an RGB crop: the face found, turned upright by its five points."""
        shape = self.five(crop, self.box(crop)[0])
        return np.array(self.network.compute_face_descriptor(crop, shape), np.float32)


def five_landmarks(sixty_eight: NDArray[np.float64]) -> NDArray[np.float64]:
    """(..., 68, 2) -> eyes, nose tip and mouth corners (..., 5, 2), left to right in the image."""
    eyes = [sixty_eight[..., start : start + 6, :].mean(-2) for start in (36, 42)]
    return np.stack([*eyes, *(sixty_eight[..., i, :] for i in (30, 48, 54))], axis=-2)
