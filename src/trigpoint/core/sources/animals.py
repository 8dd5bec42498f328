"""Five species of Animals with Attributes in profile, in the layout of AwA2 with a table of boxes.

    FOLDER/JPEGImages/<species>/*.jpg     antelope, deer, moose, horse, zebra
    FOLDER/boxes.csv                      image,x,y,width,height,facing

The paper's authors drew the boxes and noted which way each animal faces, and never published them: the
table is the user's own. `image` is the path below JPEGImages, the box in pixels from the image's top left
corner, `facing` is left, right, front or back. As in the paper front and back are left out, those facing
right are mirrored, and the shorter edge of a box is enlarged to make it square.
"""

from __future__ import annotations

import csv
import math
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import REACH, Placement
from trigpoint.core.sources.base import Attributes, Source, Split, require
from trigpoint.core.sources.images import read_image

SPECIES = ("antelope", "deer", "moose", "horse", "zebra")
HEADER = ["image", "x", "y", "width", "height", "facing"]
PROFILES = ("left", "right")
FACING = (*PROFILES, "front", "back")


@dataclass(frozen=True)
class Animal:
    """One line of the table; an image may show several animals."""

    image: str
    box: Placement
    facing: str


class Animals(Source):
    attributes: Attributes | None = None

    def __init__(self, folder: Path, split: Split = "train", variant: str = "") -> None:
        self.folder = folder / "JPEGImages"
        self.description = f"animals:{folder}"
        self.words: tuple[str, ...] = (self.description,)
        require(self.folder, "Animals with Attributes")
        table = folder / "boxes.csv"
        if not table.is_file():
            raise TrigpointError(
                f"Animals with Attributes needs your boxes in {table}, with the header {','.join(HEADER)}: "
                "the paper's were never published; see docs/sources.md."
            )
        self.animals = [
            animal
            for animal in _read(table)
            if animal.facing in PROFILES and _tested(animal.image) == (split == "test")
        ]
        if not self.animals:
            raise TrigpointError(f"{table} lists no animal facing left or right of the split {split!r}.")
        self.names: list[str] = []
        seen: dict[str, int] = {}
        for animal in self.animals:
            seen[animal.image] = seen.get(animal.image, 0) + 1
            number = seen[animal.image]
            self.names.append(animal.image + (f"#{number}" if number > 1 else ""))
        species = [[SPECIES.index(animal.image.split("/")[0])] for animal in self.animals]
        self.attributes = Attributes(("species",), np.array(species, np.int64))

    def __len__(self) -> int:
        return len(self.animals)

    def name(self, index: int) -> str:
        return self.names[index]

    def file(self, index: int) -> Path:
        return self.folder / self.animals[index].image

    def image(self, index: int) -> NDArray[np.uint8]:
        return read_image(self.folder / self.animals[index].image, upright=False)

    def box(self, index: int) -> Placement | None:
        return self.animals[index].box


def _tested(image: str) -> bool:
    """A tenth, chosen by a checksum of the name: the same everywhere, also when the table grows."""
    return zlib.crc32(image.encode()) % 10 == 0


def _read(table: Path) -> list[Animal]:
    with table.open(newline="", encoding="utf-8-sig", errors="replace") as opened:
        reader = csv.reader(opened)
        try:
            lines = [(reader.line_num, [field.strip() for field in fields]) for fields in reader]
        except csv.Error as error:
            raise TrigpointError(f"{table}, line {reader.line_num}: not a line of CSV ({error}).") from None
    header = lines[0][1] if lines else []
    if header != HEADER:
        raise TrigpointError(
            f"{table}, line 1: expected the header {','.join(HEADER)}; got {','.join(header)[:60]!r}."
        )
    return [_animal(fields, f"{table}, line {number}") for number, fields in lines[1:] if any(fields)]


def _animal(fields: list[str], where: str) -> Animal:
    if len(fields) != len(HEADER):
        raise TrigpointError(f"{where}: expected {len(HEADER)} fields; got {','.join(fields)[:60]!r}.")
    image, facing = fields[0].replace("\\", "/"), fields[-1].lower()
    species = image.split("/")[0]
    if species not in SPECIES:
        raise TrigpointError(
            f"{where}: expected an image below one of {', '.join(SPECIES)}; got {image[:60]!r}."
        )
    if facing not in FACING:
        raise TrigpointError(f"{where}: facing is one of {', '.join(FACING)}; got {facing[:20]!r}.")
    try:
        x, y, width, height = (float(field) for field in fields[1:5])
    except ValueError:
        x = y = width = height = math.nan
    if not all(abs(value) <= REACH for value in (x, y, width, height)) or min(width, height) <= 0:
        raise TrigpointError(
            f"{where}: expected numbers x and y, and a width and height above 0, of pixels; "
            f"got {','.join(fields[1:5])[:60]!r}."
        )
    edge = max(width, height)
    square = Placement(
        x + (width - edge) / 2, y + (height - edge) / 2, edge, edge, mirrored=facing == "right"
    )
    return Animal(image, square, facing)
