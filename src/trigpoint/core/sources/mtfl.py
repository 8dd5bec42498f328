"""MTFL: faces with five annotated landmarks, in the layout its owners distribute (ECCV 2014).

    FOLDER/training.txt, testing.txt     path x1..x5 y1..y5 gender smile glasses pose
    FOLDER/lfw_5590, net_7876, AFLW      the images

The four kinds of image in it are framed differently. A fixed crop for each kind, which looks at no
landmark, brings them to one framing: eyes about 0.29 of the crop apart, the face in its middle.

The labels of the AFLW faces lie about a pixel off those of the others, as if they counted pixels from 1 (the
evidence: docs/sources.md). `mtfl` takes all numbers as they stand; `mtfl-from-zero` takes that pixel off.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import REACH, Placement
from trigpoint.core.io import regular
from trigpoint.core.sources.base import Annotations, Attributes, Source, Split, require
from trigpoint.core.sources.images import FORMATS, read_image

LANDMARKS = ("left eye", "right eye", "nose", "left mouth corner", "right mouth corner")
ATTRIBUTES = ("gender", "smile", "glasses", "pose")  # classes 1 and 2; 1 to 5 of the pose, left to right
LISTS = {"train": "training.txt", "labels": "training.txt", "test": "testing.txt"}


class MTFL(Source):
    attributes: Attributes | None = None
    annotations: Annotations | None = None

    def __init__(self, folder: Path, split: Split = "train", variant: str = "") -> None:
        self.folder = folder
        self.description = f"mtfl-{variant}:{folder}" if variant else f"mtfl:{folder}"
        self.words: tuple[str, ...] = (self.description,)
        listing = require(folder / LISTS[split], "MTFL")
        self.paths: list[str] = []
        points, classes = [], []
        for number, line in enumerate(listing.read_text(errors="replace").splitlines(), 1):
            fields = line.split()
            if not fields:
                continue
            try:
                values = np.array(fields[1:], float)
            except ValueError:
                values = np.empty(0)
            if len(values) != 14 or not (np.abs(values) <= REACH).all():
                raise TrigpointError(
                    f"{listing}, line {number}: expected a path and 14 numbers; got {line.strip()[:60]!r}."
                )
            self.paths.append(fields[0].replace("\\", "/"))
            points.append(values[:10].reshape(2, 5).T)
            classes.append(values[10:])
        if not points:
            raise TrigpointError(f"{listing} lists no image.")
        places = np.array(points)
        if variant == "from-zero":
            places[[path.startswith("AFLW/") for path in self.paths]] -= 1
        self.annotations = Annotations(LANDMARKS, places, (0, 1))
        self.attributes = Attributes(ATTRIBUTES, np.array(classes, np.int64))

    def __len__(self) -> int:
        return len(self.paths)

    def name(self, index: int) -> str:
        return self.paths[index]

    def file(self, index: int) -> Path:
        return self.folder / self.paths[index]

    def image(self, index: int) -> NDArray[np.uint8]:
        return read_image(self.folder / self.paths[index])

    def box(self, index: int) -> Placement | None:
        kind = self.paths[index].split("/")[0]
        if kind == "lfw_5590":
            return Placement(57, 66, 140, 140)  # about (127, 136)
        if kind == "net_7876":
            from PIL import Image

            with Image.open(regular(self.folder / self.paths[index]), formats=FORMATS) as opened:
                width = opened.width
            if width == 160:
                return Placement(29, 29, 103, 103)  # about (80.5, 80.5)
            return Placement(40, 41, 320, 320)  # about (200, 201)
        return None
