"""A trained model in use: NumPy in, NumPy out, in pixels of the caller's own image."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from trigpoint.core import geometry
from trigpoint.core.config.tree import Config, check
from trigpoint.core.errors import TrigpointError, TrigpointWarning, UnreadableImage
from trigpoint.core.inference.backend import Backend, load
from trigpoint.core.inference.inputs import (
    Box,
    Picture,
    check_boxes,
    check_images,
    check_whole,
    pixels_of,
    place_of,
    shown,
)
from trigpoint.core.landmarks import Landmarks
from trigpoint.core.runs import GENERATOR_MODEL, Run
from trigpoint.core.sources.images import to_channels

ZOO = Path(__file__).parents[2] / "app" / "zoo"


class Predictor:
    """Finds landmarks with a trained model. `Predictor.load` takes a run folder or a shipped model."""

    def __init__(
        self, backend: Backend, config: Config, subject: str = "", names: Sequence[str] | None = None
    ) -> None:
        self.backend, self.config = backend, config
        self.names = tuple(names or map(str, range(config.model.landmarks)))  # what the landmarks are called
        self.subject = subject  # what it looks for on a photo by itself: "face", or nothing

    @classmethod
    def load(cls, model: str | Path, views: int | None = None) -> Predictor:
        """`views`: how many of each image, in place of what the model's config says."""
        run = find_model(model)
        config = run.config()
        if views is not None:
            check_whole(views, "views")
            check(replace(config, views=views))
        return cls(load(run, views), config, run.subject(), run.names())

    @property
    def landmarks(self) -> int:
        return self.config.model.landmarks

    @property
    def digest(self) -> str:
        """What the weights are, whichever file they came from."""
        return self.backend.digest

    @property
    def has_crop(self) -> bool:
        """Whether the model was trained on one region of its frames."""
        video = self.config.video
        return bool(video.crop) and not video.follow

    @property
    def needs_video(self) -> bool:
        """Whether the model was trained on frames that no image alone can be prepared like."""
        video = self.config.video
        return video.follow or video.background != "keep"

    def crop(self, width: int, height: int) -> geometry.Placement | None:
        """The region that the model was trained on, if an image has the size of its training frames."""
        video = self.config.video
        if not self.has_crop or video.frame != (width, height):
            return None
        left, top, wide, high = video.crop
        return geometry.Placement(left, top, wide, high)

    def detect(self, image: Picture, box: Box | None = None) -> Landmarks:
        """Landmarks of one image: a file, an image of Pillow, or an (H, W), (H, W, 1) or (H, W, 3) array of
        bytes.

        `box` is the part of the image to look at: a `Placement`, or left, top, width and height in pixels.
        Without it that is the region that the model was trained on, or the whole image, made square as in
        training (`config.fit`); a TrigpointWarning tells where this is not what the model saw in training.
        Raises TrigpointError where an argument is wrong, and of those UnreadableImage where the image is.
        """
        return next(self._each([image], [box], 1, skip=False, names=("The image", "box")))

    def detect_all(self, photo: Picture) -> list[Landmarks]:
        """Landmarks of every subject on a photo, from left to right: of each face, for a model of faces."""
        pixels = pixels_of(photo, "The photo")
        boxes = self.subjects(pixels)
        return list(self.detect_many([pixels] * len(boxes), boxes))

    def subjects(self, image: NDArray[np.uint8]) -> list[geometry.Placement | None]:
        """Where the subjects are on (H, W, 1 or 3); None stands for the whole image."""
        from trigpoint.core.subjects import DETECTORS

        return list(DETECTORS[self.subject](image)) if self.subject else [None]

    @overload
    def detect_many(
        self,
        images: Iterable[Picture],
        boxes: Sequence[Box | None] | None = None,
        batch_size: int = 64,
        on_error: Literal["raise"] = "raise",
    ) -> Iterator[Landmarks]: ...

    @overload
    def detect_many(
        self,
        images: Iterable[Picture],
        boxes: Sequence[Box | None] | None = None,
        batch_size: int = 64,
        *,
        on_error: Literal["skip"],
    ) -> Iterator[Landmarks | None]: ...

    def detect_many(
        self,
        images: Iterable[Picture],
        boxes: Sequence[Box | None] | None = None,
        batch_size: int = 64,
        on_error: Literal["raise", "skip"] = "raise",
    ) -> Iterator[Landmarks | None]:
        """Landmarks of any number of images, in order; only a batch of them is in memory at a time.

        `images` and `boxes`, one for each image or None, are as for `detect`. An image that cannot be read,
        or whose box lies outside of it, raises an UnreadableImage that names it; with `on_error="skip"` it
        gives None, so that the results still go with the images. An image of the wrong kind, such as an array
        of floats, always raises.
        """
        check_images(images)
        if boxes is not None:
            check_boxes(boxes, images)
        check_whole(batch_size, "batch_size", least=1)
        if on_error not in ("raise", "skip"):
            raise TrigpointError(f'on_error must be "raise" or "skip"; got {shown(on_error)}.')
        return self._each(images, boxes, batch_size, skip=on_error == "skip")

    def _each(
        self,
        images: Iterable[Picture],
        boxes: Sequence[Box | None] | None,
        batch_size: int,
        skip: bool,
        names: tuple[str, str] = ("images[{}]", "boxes[{}]"),
    ) -> Iterator[Any]:
        waiting: list[tuple[NDArray[np.uint8], geometry.Placement] | None] = []
        warned = False
        count = 0
        for index, image in enumerate(images):
            count = index + 1
            if boxes is not None and count > len(boxes):
                raise TrigpointError(
                    f"boxes must be as many as the images; got {len(boxes)}, and more images."
                )
            box = None if boxes is None else boxes[index]
            name, its_box = (text.format(index) for text in names)
            try:
                pixels = pixels_of(image, name)
                height, width = pixels.shape[:2]
                if not warned and box is None and (doubt := self._doubt(width, height)):
                    warnings.warn(doubt, TrigpointWarning, stacklevel=3)
                    warned = True
                waiting.append(self.prepare(pixels, place_of(box, width, height, its_box)))
            except UnreadableImage:
                if not skip:
                    raise
                waiting.append(None)
            if len(waiting) == batch_size:
                yield from self._found(waiting)
                waiting = []
        if boxes is not None and count < len(boxes):
            raise TrigpointError(f"boxes must be as many as the images, {count}; got {len(boxes)}.")
        yield from self._found(waiting)

    def _found(
        self, prepared: Sequence[tuple[NDArray[np.uint8], geometry.Placement] | None]
    ) -> Iterator[Landmarks | None]:
        """Landmarks of prepared images; None where there is None."""
        squares = [one[0] for one in prepared if one]
        places = [one[1] for one in prepared if one]
        found = iter(self.detect_prepared(np.stack(squares), places) if squares else ())
        return (next(found) if one else None for one in prepared)

    def _doubt(self, width: int, height: int) -> str | None:
        """Why the model is probably not meant to look at all of an image of that size."""
        told = "looks at all of it; a box says where the subject is."
        if self.needs_video:
            return (
                "The model was trained on frames of a video, told from their background; of an image alone "
                f"it {told}"
            )
        if self.has_crop and not self.crop(width, height):
            size = "x".join(map(str, self.config.video.frame)) or "unknown size"
            return (
                f"The model was trained on a region of frames of {size} pixels; of an image of "
                f"{width}x{height} it {told}"
            )
        return None

    def prepare(self, image: Picture, box: Box | None = None) -> tuple[NDArray[np.uint8], geometry.Placement]:
        """An image as the model wants it, (size, size, C), and where in the original it came from.

        Without a `box` that is the region that the model was trained on, for images of its frames' size."""
        pixels = pixels_of(image)
        height, width = pixels.shape[:2]
        place = place_of(box, width, height) or self.crop(width, height)
        place = place or geometry.fit_box(width, height, self.config.fit)
        pixels = to_channels(pixels, self.config.model.channels)
        return geometry.extract(pixels, place, self.config.model.image_size), place

    def detect_prepared(
        self, squares: NDArray[np.uint8], places: Sequence[geometry.Placement]
    ) -> list[Landmarks]:
        """Landmarks of prepared images (B, size, size, C)."""
        points, confidence = self.backend.detect(squares)
        return [Landmarks(place.to_original(points[i]), confidence[i]) for i, place in enumerate(places)]


def find_model(model: str | Path) -> Run:
    """A run folder (of a generator: the model within), or the name of a shipped model."""
    if not isinstance(model, str | os.PathLike):
        raise TrigpointError(f"A model is a run folder or the name of a shipped model; got {shown(model)}.")
    folder = Path(model)
    shipped = os.path.join(ZOO, model)  # os.path: a name that is too long for a file is no error there
    if not os.path.isdir(folder) and os.path.isfile(os.path.join(shipped, "config.json")):
        folder = Path(shipped)
    if not os.path.isdir(folder):
        names = ", ".join(shipped_models()) or "none"
        raise TrigpointError(
            f"There is no run folder {model}, nor a shipped model of that name (shipped: {names})."
        )
    inner = folder / GENERATOR_MODEL
    return Run(inner if (inner / "config.json").is_file() else folder)


def shipped_models() -> list[str]:
    return sorted(file.parent.name for file in ZOO.glob("*/config.json"))
