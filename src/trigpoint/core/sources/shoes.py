"""UT Zappos50k (CVPR 2014): shoes on white, or any other folder of product photos.

    FOLDER/**/*.jpg     136x102 below Shoes, Boots, Sandals and Slippers; other sizes and formats will do

As in the paper each photo is stretched to 64x64 and gets white margins to 80x80, which is a box of
80/64 of its width and height, white outside. Nothing is annotated.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import Placement
from trigpoint.core.sources.base import Source, Split, require
from trigpoint.core.sources.folder import Folder
from trigpoint.core.sources.images import FORMATS, read_image

TESTED = 500  # images to test on, as in the paper: 49,525 of 50,025 remain
ENOUGH = 5000  # with fewer images than this a tenth is for testing
MARGIN = (80 / 64 - 1) / 2  # white on each side, of the photo's edge
ROTATED = 5  # EXIF orientations from this one on swap width and height


class Shoes(Source):
    def __init__(self, folder: Path, split: Split = "train", variant: str = "") -> None:
        self.description = f"shoes:{folder}"
        self.words: tuple[str, ...] = (self.description,)
        found = Folder([require(folder, "UT Zappos50k")]).files
        tested = TESTED if len(found) >= ENOUGH else max(1, len(found) // 10)
        if len(found) == 1:
            raise TrigpointError(
                f"{folder} holds one image; at least two are needed, to train and to test on."
            )
        # A checksum orders the names anew, the same way everywhere: brands and kinds are mixed.
        sums = {name: zlib.crc32(name.encode(errors="surrogateescape")) for _, name in found}
        order = sorted(found, key=lambda file: (sums[file[1]], file[1]))
        chosen = order[:tested] if split == "test" else order[tested:]
        self.files = sorted(chosen, key=lambda file: file[1])

    def __len__(self) -> int:
        return len(self.files)

    def name(self, index: int) -> str:
        return self.files[index][1]

    def file(self, index: int) -> Path:
        return self.files[index][0]

    def image(self, index: int) -> NDArray[np.uint8]:
        return read_image(self.files[index][0])

    def box(self, index: int) -> Placement | None:
        from PIL import ExifTags, Image

        with Image.open(self.files[index][0], formats=FORMATS) as opened:
            width, height = opened.size
            if opened.getexif().get(ExifTags.Base.Orientation, 1) >= ROTATED:
                width, height = height, width
        around = 1 + 2 * MARGIN
        return Placement(-MARGIN * width, -MARGIN * height, around * width, around * height, fill=255)
