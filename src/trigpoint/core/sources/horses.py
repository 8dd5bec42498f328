"""Weizmann horses (ECCV 2002): 328 horses with masks, a stand-in for the animals of AwA.

    FOLDER/rgb/horse001.jpg               the images, all horses facing left, most of them in profile
    FOLDER/figure_ground/horse001.png     their masks, white on black

The mask gives the box only: the background stays, as in the paper's animals.
"""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.geometry import Placement
from trigpoint.core.sources.base import Source, Split, require
from trigpoint.core.sources.images import read_image

MARGIN = 0.05  # of the longer edge of the horse, on each side
WHITE = 127  # masks have soft edges; brighter than this is horse


class Horses(Source):
    """Every tenth image, by name, is for testing."""

    def __init__(self, folder: Path, split: Split = "train", variant: str = "") -> None:
        self.folder = folder
        self.description = f"horses:{folder}"
        self.words: tuple[str, ...] = (self.description,)
        require(folder / "figure_ground", "Weizmann horses")
        found = sorted(require(folder / "rgb", "Weizmann horses").glob("*.jpg"))
        self.paths = [path for number, path in enumerate(found, 1) if (number % 10 == 0) == (split == "test")]
        if not self.paths:
            raise TrigpointError(f"{folder / 'rgb'} holds no horse (*.jpg) of the split {split!r}.")

    def __len__(self) -> int:
        return len(self.paths)

    def name(self, index: int) -> str:
        return self.paths[index].name

    def file(self, index: int) -> Path:
        return self.paths[index]

    def image(self, index: int) -> NDArray[np.uint8]:
        return read_image(self.paths[index])

    def mask(self, index: int) -> NDArray[np.bool_]:
        """(H, W), true on the horse: the largest piece of the mask, without the specks beside it."""
        path = require(self.folder / "figure_ground" / f"{self.paths[index].stem}.png", "Weizmann horses")
        bright = (read_image(path).max(axis=2) > WHITE).astype(np.uint8)
        _, pieces, facts, _ = cv2.connectedComponentsWithStats(bright)
        areas = facts[1:, cv2.CC_STAT_AREA]  # the first is the background
        if not len(areas):
            raise UnreadableImage(f"its mask {path.name} is black")
        return np.asarray(pieces == 1 + areas.argmax())

    def box(self, index: int) -> Placement | None:
        mask = self.mask(index)
        rows, columns = np.nonzero(mask.any(axis=1))[0], np.nonzero(mask.any(axis=0))[0]
        left, right, top, bottom = columns[0], columns[-1] + 1, rows[0], rows[-1] + 1
        edge = float(max(right - left, bottom - top) * (1 + 2 * MARGIN))
        return Placement(float(left + right - edge) / 2, float(top + bottom - edge) / 2, edge, edge)
