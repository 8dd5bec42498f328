"""The optical flow of the training frames, computed once into a file in half precision.

Fields are kept for intervals of five frames (`INTERVAL`); two of them are composed into one of ten when a
batch is read, which costs less than keeping both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trigpoint.core.config.tree import Config
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.sources.base import Source
from trigpoint.core.sources.images import to_channels
from trigpoint.learning.data.prepared import Prepared, square
from trigpoint.learning.tensors import to_tensor
from trigpoint.learning.warps.flow import compose, farneback

INTERVAL = 5  # frames between which flow is computed
FINER = 2  # flow is computed on squares so many times larger than the model's


@dataclass(frozen=True)
class Pairs:
    """For each image of a batch an earlier frame of its video, and the flow back to it."""

    earlier: Tensor  # (B, C, n, n) in [0, 1]
    flow: Tensor  # (B, 2, n, n) in image edges
    known: Tensor  # (B,) whether there is such a frame


@dataclass(frozen=True)
class Flows:
    """For each prepared row: the row five frames before it (or -1), and the flow back to that row."""

    fields: NDArray[np.float16]  # (n, size, size, 2)
    before: NDArray[np.int64]  # (n,)

    def pairs(self, images: Prepared, rows: NDArray[np.int64]) -> Pairs:
        """Of the rows of a batch."""
        middle = self.before[rows]
        first = np.where(middle >= 0, self.before[middle], -1)
        known = first >= 0
        held = np.where(known, first, rows)
        flow = compose(self._field(rows), self._field(np.where(known, middle, rows)))
        return Pairs(to_tensor(np.asarray(images.pixels[held])), flow, torch.from_numpy(known))

    def _field(self, rows: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(np.asarray(self.fields[rows], np.float32)).permute(0, 3, 1, 2)


def prepare_flows(
    source: Source,
    images: Prepared,
    config: Config,
    folder: Path,
    tick: Callable[[int, int], None] = lambda done, of: None,
) -> Flows:
    """Compute what FOLDER does not hold yet; a killed call goes on where it stopped."""
    known = [source.frame_of(int(index)) for index in images.indices]
    places = [place for place in known if place is not None]  # (video, frame)
    if len(places) < len(known):
        raise TrigpointError("Optical flow needs videos: frames of a folder of images have no order in time.")
    row_of = {place: row for row, place in enumerate(places)}
    before = np.array([row_of.get((video, frame - INTERVAL), -1) for video, frame in places], np.int64)
    if not (before >= 0).any():
        raise TrigpointError(
            f"Optical flow needs frames {INTERVAL} apart, so every frame or every {INTERVAL}th: "
            f"{INTERVAL} must be a multiple of --every, and --frames not too few."
        )
    size = config.model.image_size
    file = folder / "flow.bin"
    bytes_each = size * size * 2 * 2
    done = file.stat().st_size // bytes_each if file.is_file() else 0
    if done > len(images):  # of other images
        done = 0
    recent: deque[tuple[int, NDArray[np.uint8]]] = deque(maxlen=INTERVAL + 1)  # rows and their grey squares
    first = max(0, done - INTERVAL)
    with file.open("ab") as stream:
        stream.truncate(done * bytes_each)
        for row in range(first, len(images)):
            grey = _grey(source, int(images.indices[row]), config)
            recent.append((row, grey))
            if row < done:
                continue
            field: NDArray[np.float32] = np.zeros((size, size, 2), np.float32)
            earlier = next((pixels for number, pixels in recent if number == before[row]), None)
            if before[row] >= 0 and earlier is not None and grey.size and earlier.size:
                whole = farneback(grey, earlier)
                field = np.asarray(cv2.resize(whole, (size, size), interpolation=cv2.INTER_AREA), np.float32)
            stream.write(field.astype(np.float16).tobytes())
            tick(row + 1, len(images))
    fields = np.memmap(file, np.float16, "r", shape=(len(images), size, size, 2))
    return Flows(fields, before)


def _grey(source: Source, index: int, config: Config) -> NDArray[np.uint8]:
    try:
        pixels = square(source, index, config, FINER * config.model.image_size)[0]
    except UnreadableImage:
        return np.empty((0, 0), np.uint8)
    return to_channels(pixels, 1)[:, :, 0]
