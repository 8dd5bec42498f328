"""A trained model in use: NumPy in, NumPy out, in pixels of the caller's own image."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from cairns import geometry
from cairns.config import Config, check
from cairns.errors import CairnsError
from cairns.model.autoencoder import Autoencoder
from cairns.model.looks import look
from cairns.nets.hourglass import folded
from cairns.sources.images import read_image, to_channels
from cairns.training.checkpoint import digest, load_tensors, load_weights
from cairns.training.prepared import to_tensor
from cairns.training.run import GENERATOR_MODEL, Run

ZOO = Path(__file__).parent / "zoo"


@dataclass(frozen=True)
class Landmarks:
    """The landmarks of one image."""

    points: NDArray[
        np.float64
    ]  # (K, 2) (x, y) in pixels of the image; the first pixel's centre is (0.5, 0.5)
    confidence: NDArray[np.float64]  # (K,) in [0, 1]: how massive and how peaked the detection map is


class Predictor:
    """Finds landmarks with a trained model. `Predictor.load` takes a run folder or a shipped model."""

    def __init__(
        self,
        model: Autoencoder,
        config: Config,
        finder: str = "",
        names: Sequence[str] | None = None,
        shape: Sequence[Sequence[float]] | None = None,
    ) -> None:
        self.model = model.eval()
        self.detector = folded(model.detector)
        self.config = config
        self.shape = None if shape is None else torch.tensor(shape)  # (K, 2) mean landmarks in training
        self.looks = config.looks if shape is not None else 1  # at each image; see `model/looks.py`
        self.names = tuple(names or map(str, range(config.model.landmarks)))  # what the landmarks are called
        self.finder = finder  # what it looks for on a photo by itself: "face", or nothing

    @classmethod
    def load(cls, model: str | Path, looks: int | None = None) -> Predictor:
        """`looks`: how often to look at each image, in place of what the model's config says."""
        run = find_model(model)
        config = run.config()
        if not run.model_file.is_file():
            raise CairnsError(
                f"The run {run.folder} is not finished: it has no model.safetensors; go on with --resume."
            )
        net = Autoencoder(config.model)
        load_weights(net, load_tensors(run.model_file)[0], run.model_file)
        shape = run.shape()
        if looks is not None:
            config = replace(config, looks=looks)
            check(config)
            if looks > 1 and shape is None:
                raise CairnsError(f"{model} does not know its mean shape, so it cannot look more than once.")
        return cls(net, config, run.meta().get("finder", ""), run.names(), shape)

    @property
    def landmarks(self) -> int:
        return self.config.model.landmarks

    @cached_property
    def digest(self) -> str:
        """What the weights are, whichever file they came from."""
        return digest(self.model.state_dict())

    @property
    def has_crop(self) -> bool:
        """Whether the model was trained on one region of its frames."""
        video = self.config.video
        return bool(video.crop) and not video.follow

    def crop(self, width: int, height: int) -> geometry.Placement | None:
        """The region that the model was trained on, if an image has the size of its training frames."""
        video = self.config.video
        if not self.has_crop or video.frame != (width, height):
            return None
        left, top, wide, high = video.crop
        return geometry.Placement(left, top, wide, high)

    def detect(
        self, image: NDArray[np.uint8] | str | Path, box: geometry.Placement | None = None
    ) -> Landmarks:
        """Landmarks of one image: an (H, W), (H, W, 1) or (H, W, 3) array of bytes, or a file.

        `box` is the part of the image to look at; without it the whole image is made square as in
        training (`config.fit`).
        """
        return next(self.detect_many([image], [box] if box else None))

    def detect_all(self, photo: NDArray[np.uint8] | str | Path) -> list[Landmarks]:
        """Landmarks of every subject on a photo, from left to right: of each face, for a model of faces."""
        pixels = read_image(Path(photo)) if isinstance(photo, str | Path) else _checked(photo)
        boxes = self.subjects(pixels)
        return list(self.detect_many([pixels] * len(boxes), boxes))

    def subjects(self, image: NDArray[np.uint8]) -> list[geometry.Placement | None]:
        """Where the subjects are on (H, W, 1 or 3); None stands for the whole image."""
        from cairns.finders import FINDERS

        return list(FINDERS[self.finder](image)) if self.finder else [None]

    def detect_many(
        self,
        images: Iterable[NDArray[np.uint8] | str | Path],
        boxes: Sequence[geometry.Placement | None] | None = None,
        batch_size: int = 64,
    ) -> Iterator[Landmarks]:
        """Landmarks of any number of images, in order; only a batch of them is in memory at a time."""
        squares: list[NDArray[np.uint8]] = []
        places: list[geometry.Placement] = []
        for index, image in enumerate(images):
            square, place = self.prepare(image, boxes[index] if boxes else None)
            squares.append(square)
            places.append(place)
            if len(squares) == batch_size:
                yield from self.detect_prepared(np.stack(squares), places)
                squares, places = [], []
        if squares:
            yield from self.detect_prepared(np.stack(squares), places)

    def prepare(
        self, image: NDArray[np.uint8] | str | Path, box: geometry.Placement | None = None
    ) -> tuple[NDArray[np.uint8], geometry.Placement]:
        """An image as the model wants it, (size, size, C), and where in the original it came from.

        Without a `box` that is the region that the model was trained on, for images of its frames' size."""
        pixels = read_image(Path(image)) if isinstance(image, str | Path) else _checked(image)
        height, width = pixels.shape[:2]
        box = box or self.crop(width, height) or geometry.fit_box(width, height, self.config.fit)
        pixels = to_channels(pixels, self.config.model.channels)
        return geometry.extract(pixels, box, self.config.model.image_size), box

    @torch.inference_mode()
    def glance(self, squares: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Landmarks (B, K, 2) of prepared images by one look, as the decoder wants them: unit coordinates."""
        parts = (to_tensor(squares[start : start + 64]) for start in range(0, len(squares), 64))
        return np.concatenate([self.model.detect(part).landmarks.double().numpy() for part in parts])

    @torch.inference_mode()
    def detect_prepared(
        self, squares: NDArray[np.uint8], places: Sequence[geometry.Placement]
    ) -> list[Landmarks]:
        """Landmarks of prepared images (B, size, size, C)."""
        found, confidence = look(self.model, to_tensor(squares), self.shape, self.looks, self.detector)
        points, trust = found.double().numpy(), confidence.double().numpy()
        return [Landmarks(place.to_original(points[i]), trust[i]) for i, place in enumerate(places)]


def find_model(model: str | Path) -> Run:
    """A run folder (of a generator: the model within), or the name of a shipped model."""
    folder = Path(model)
    if not folder.is_dir() and (ZOO / str(model) / "config.json").is_file():
        folder = ZOO / str(model)
    if not folder.is_dir():
        shipped = ", ".join(shipped_models()) or "none"
        raise CairnsError(
            f"There is no run folder {model}, nor a shipped model of that name (shipped: {shipped})."
        )
    inner = folder / GENERATOR_MODEL
    return Run(inner if (inner / "config.json").is_file() else folder)


def shipped_models() -> list[str]:
    return sorted(file.parent.name for file in ZOO.glob("*/config.json"))


def _checked(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    array = np.asarray(image)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3) or array.dtype != np.uint8 or 0 in array.shape:
        raise CairnsError(
            f"An image must be an array of bytes of shape (H, W), (H, W, 1) or (H, W, 3); "
            f"got {array.dtype} of shape {np.shape(image)}."
        )
    return array
