"""CAT: cat heads with nine annotated landmarks, in the layout its owners distribute (ECCV 2008).

    FOLDER/CAT_00 .. CAT_06/*.jpg      photos; the folders may be spelt in small letters
    FOLDER/CAT_00 .. CAT_06/*.jpg.cat  9 x1 y1 .. x9 y9

The paper leaves out "the 2 at the ears": the tips, points 5 and 8, as its authors' evaluation does.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import REACH, Placement
from trigpoint.core.sources.base import Annotations, Source, Split, require
from trigpoint.core.sources.images import read_image

USED = {  # place in the file -> name; left and right are those of the photo
    0: "left eye",
    1: "right eye",
    2: "mouth",
    3: "left ear, outer base",
    5: "left ear, inner base",
    6: "right ear, inner base",
    8: "right ear, outer base",
}
ANNOTATED = 9
# Of the longer side of the landmarks' bounding box, on each side. It ends at the mouth: this adds the chin.
MARGIN = 0.15
TESTED, COUNTED = 1257, 9004  # of the paper's images: its shares, since the dataset has no split


class Cats(Source):
    annotations: Annotations | None = None

    def __init__(self, folder: Path, split: Split = "train", variant: str = "") -> None:
        self.folder = folder
        self.description = f"cats:{folder}"
        self.words: tuple[str, ...] = (self.description,)
        self.paths = [path for path in _photos(folder) if for_testing(path) == (split == "test")]
        if not self.paths:
            raise TrigpointError(f"{folder} holds no cat of the {split} split.")
        self.points = np.array([_landmarks(folder / f"{path}.cat") for path in self.paths])  # (n, 9, 2)
        self.annotations = Annotations(tuple(USED.values()), self.points[:, list(USED)], (0, 1))

    def __len__(self) -> int:
        return len(self.paths)

    def name(self, index: int) -> str:
        return self.paths[index]

    def file(self, index: int) -> Path:
        return self.folder / self.paths[index]

    def image(self, index: int) -> NDArray[np.uint8]:
        return read_image(self.folder / self.paths[index], upright=False)

    def box(self, index: int) -> Placement | None:
        """A square about all nine landmarks."""
        low, high = self.points[index].min(axis=0), self.points[index].max(axis=0)
        edge = max(float(np.max(high - low)), 1.0) * (1 + 2 * MARGIN)
        x, y = ((low + high - edge) / 2).tolist()
        return Placement(x, y, edge, edge)


def _photos(folder: Path) -> list[str]:
    """Paths below the folder, in alphabetical order."""
    require(folder, "Cats")
    parts = sorted(part for part in folder.iterdir() if re.fullmatch(r"cat_\d\d", part.name, re.IGNORECASE))
    if not parts:
        raise TrigpointError(f"Cats needs the folders CAT_00 to CAT_06 in {folder}; see docs/sources.md.")
    return [
        photo.relative_to(folder).as_posix()
        for part in parts
        for photo in sorted(part.iterdir())
        if photo.suffix.lower() == ".jpg" and not photo.name.startswith(".")
    ]


def for_testing(path: str) -> bool:
    """Whether a photo is for testing: fixed by its name, whatever else is in the folder."""
    return zlib.crc32(path.lower().encode(errors="surrogateescape")) % COUNTED < TESTED


def _landmarks(path: Path) -> NDArray[np.float64]:
    """(9, 2) pixels. Points may lie outside the photo."""
    fields = require(path, "Cats").read_text(errors="replace").split()
    try:
        values = np.array(fields, float)
    except ValueError:
        values = np.empty(0)
    if len(values) != 1 + 2 * ANNOTATED or values[0] != ANNOTATED or not (np.abs(values) <= REACH).all():
        raise TrigpointError(
            f"{path}: expected 9 and the x and y of nine points, 19 numbers; got {' '.join(fields)[:60]!r}."
        )
    return values[1:].reshape(ANNOTATED, 2)
