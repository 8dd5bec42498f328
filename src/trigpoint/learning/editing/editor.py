"""Images as landmarks and descriptors, and back: the interface to manipulate shapes (section 4.4).

editor = Editor.load("faces-10")
code = editor.encode("me.jpg")
picture = editor.decode(code.moved({3: (0.05, 0.0)}))
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import Placement
from trigpoint.core.inference.inputs import Box, Picture, pixels_of, shown
from trigpoint.core.inference.predictor import Predictor

Appearance = Literal["keep", "blend"]
FAR = 100  # edges of the crop: no edit has a landmark further away


@dataclass(frozen=True)
class Code:
    """What the decoder makes an image from."""

    landmarks: NDArray[np.float64]  # (K, 2) unit coordinates of the crop
    descriptors: NDArray[np.float32] | None  # (K + 1, C); None for a model without
    place: Placement  # the crop in pixels of the original image

    def with_landmarks(self, landmarks: NDArray[np.floating]) -> Code:
        """The same with all landmarks (K, 2) in other places."""
        try:
            points = np.array(landmarks, np.float64)
        except (TypeError, ValueError):
            raise TrigpointError(f"landmarks must be pairs of numbers; got {shown(landmarks)}.") from None
        if points.shape != self.landmarks.shape:
            raise TrigpointError(
                f"Expected {len(self.landmarks)} landmarks as (x, y); got an array of {points.shape}."
            )
        far = ~(np.abs(points) <= FAR)  # so that NaN is far, too
        if far.any():
            raise TrigpointError(f"A landmark must be within {FAR} edges of the crop; got {points[far][0]}.")
        return replace(self, landmarks=points)

    def moved(self, by: Mapping[int, tuple[float, float]]) -> Code:
        """Some landmarks moved by (dx, dy), in edges of the crop."""
        if not isinstance(by, Mapping):
            raise TrigpointError(f"by must be a dict of landmark: (dx, dy); got {shown(by)}.")
        points = self.landmarks.copy()
        for number, step in by.items():
            self._check(number)
            try:
                dx, dy = map(float, step)
            except (TypeError, ValueError):
                raise TrigpointError(f"A landmark moves by (dx, dy); got {step!r}.") from None
            points[number] += (dx, dy)
        return self.with_landmarks(points)

    def dressed(self, other: Code) -> Code:
        """This shape with the appearance of another image."""
        if self.descriptors is None:
            raise TrigpointError("This model has no descriptors: its images have no appearance to exchange.")
        self._check_same_model(other)
        return replace(self, descriptors=other.descriptors)

    def towards(
        self,
        other: Code,
        share: float,
        landmarks: Sequence[int] | None = None,
        appearance: Appearance = "keep",
    ) -> Code:
        """Part of the way to another image: 0 is this one, 1 the other, beyond 1 past it.

        `landmarks` names those that move (None: all of them). The appearance stays, or goes along as far
        as the other image's.
        """
        self._check_same_model(other)
        if isinstance(share, bool) or not isinstance(share, Real) or not math.isfinite(share):
            raise TrigpointError(f"share must be a finite number; got {shown(share)}.")
        if appearance not in get_args(Appearance):
            raise TrigpointError(f'appearance must be "keep" or "blend"; got {shown(appearance)}.')
        for number in landmarks or ():
            self._check(number)
        chosen = list(range(len(self.landmarks)) if landmarks is None else landmarks)
        points = self.landmarks.copy()
        points[chosen] += share * (other.landmarks[chosen] - points[chosen])
        descriptors = self.descriptors
        if appearance == "blend" and descriptors is not None and other.descriptors is not None:
            part = np.float32(min(1.0, max(0.0, share)))
            descriptors = (1 - part) * descriptors + part * other.descriptors
        return replace(self.with_landmarks(points), descriptors=descriptors)

    def _check(self, number: int) -> None:
        if (
            isinstance(number, bool)
            or not isinstance(number, Integral)
            or number not in range(len(self.landmarks))
        ):
            raise TrigpointError(f"The landmarks are 0 to {len(self.landmarks) - 1}; got {number!r}.")

    def _check_same_model(self, other: Code) -> None:
        if not isinstance(other, Code):
            raise TrigpointError(f"other must be a Code; got {shown(other)}.")
        if self.shapes != other.shapes:
            raise TrigpointError("The two images were encoded by different models.")

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of landmarks and descriptors, () for none."""
        return self.landmarks.shape, () if self.descriptors is None else self.descriptors.shape


class Editor:
    """Encodes and decodes with a trained model, one image or many."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor

    @classmethod
    def load(cls, model: str | Path) -> Editor:
        return cls(Predictor.load(model))

    def encode(self, image: Picture, box: Box | None = None) -> Code:
        """An image as its code.

        `box` is the part of it to look at. Without it a model that finds faces takes the largest face; where
        there is none, and with other models, it is the whole image, made square as in training.
        """
        square, place = self.prepare(image, box)
        return self.encode_squares(square[None], [place])[0]

    def prepare(self, image: Picture, box: Box | None = None) -> tuple[NDArray[np.uint8], Placement]:
        """The square that the model sees, (size, size, C), and where it was cut from."""
        pixels = pixels_of(image)
        if box is None and self.predictor.subject:
            found = [place for place in self.predictor.subjects(pixels) if place]
            box = max(found, key=lambda place: place.width * place.height, default=None)
        return self.predictor.prepare(pixels, box)

    def encode_squares(self, squares: NDArray[np.uint8], places: Sequence[Placement]) -> list[Code]:
        """Prepared images (B, size, size, C) as codes."""
        points, descriptors = self.predictor.backend.encode(squares)
        looks = [None] * len(points) if descriptors is None else list(descriptors)
        return [Code(points[i], looks[i], place) for i, place in enumerate(places)]

    def decode(self, code: Code) -> NDArray[np.uint8]:
        """The image that a code stands for, (size, size, C) at the model's own size."""
        return self.decode_many([code])[0]

    def decode_many(self, codes: Iterable[Code]) -> NDArray[np.uint8]:
        """(B, size, size, C)."""
        codes = list(codes) if isinstance(codes, Iterable) else [codes]
        config = self.predictor.config.model
        size = config.descriptor_size
        for code in codes:
            if not isinstance(code, Code):
                raise TrigpointError(f"A code is what encode gives; got {shown(code)}.")
            if code.shapes != ((config.landmarks, 2), (config.landmarks + 1, size) if size else ()):
                raise TrigpointError("The code was made by another model than the one that is to decode it.")
        if not codes:
            return np.empty((0, config.image_size, config.image_size, config.channels), np.uint8)
        looks = [code.descriptors for code in codes if code.descriptors is not None]
        points = np.stack([code.landmarks for code in codes])
        return self.predictor.backend.decode(points, np.stack(looks) if looks else None)

    def redetect(self, images: NDArray[np.uint8]) -> NDArray[np.float64]:
        """The landmarks (B, K, 2) that the detector finds on decoded images (B, size, size, C)."""
        return self.predictor.backend.detect_once(images)
