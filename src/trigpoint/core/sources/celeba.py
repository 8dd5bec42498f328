"""CelebA: faces with five landmarks and 40 attributes (ICCV 2015), with MAFL's splits (ECCV 2014).

    FOLDER/Img/img_align_celeba/*.jpg                aligned faces, 178x218
    FOLDER/Img/img_celeba/*.jpg                      whole photos, for celeba-unaligned
    FOLDER/Anno/list_landmarks_align_celeba.txt      two lines of heading, then: name x1 y1 .. x5 y5
    FOLDER/Anno/list_landmarks_celeba.txt            the same for the whole photos
    FOLDER/Anno/list_bbox_celeba.txt                 two lines of heading, then: name x y width height
    FOLDER/Anno/list_attr_celeba.txt                 the same, the second line names the 40 attributes
    FOLDER/Eval/list_eval_partition.txt              name 0, 1 or 2: training, validation, test
    FOLDER/MAFL/training.txt, testing.txt            one name per line

The folders Img, Anno, Eval and MAFL may be missing: what they hold is then looked for in FOLDER itself.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike, NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import REACH, Placement
from trigpoint.core.sources.base import Annotations, Attributes, Source, Split, require
from trigpoint.core.sources.images import read_image

LANDMARKS = ("left eye", "right eye", "nose", "left mouth corner", "right mouth corner")
# The paper scales the aligned 178x218 to 100x100 and keeps the middle 80x80: a tenth goes on each side.
ALIGNED = Placement(17.8, 21.8, 142.4, 174.4)
# The paper does not say how it crops whole photos. The owners' boxes reach about 1.4 inter-ocular distances
# above the eyes, the top of a head is at 1.8: an eighth of the longer side more, on each side, holds it.
MARGIN = 1 / 8
NAME = "S32"  # a name such as 000001.jpg, as bytes: compared and sorted by NumPy


class CelebA(Source):
    annotations: Annotations | None = None

    def __init__(self, folder: Path, split: Split = "train", variant: str = "") -> None:
        self.folder = folder
        self.description = f"celeba-{variant}:{folder}" if variant else f"celeba:{folder}"
        self.words: tuple[str, ...] = (self.description,)
        kind = "celeba" if variant == "unaligned" else "align_celeba"
        self.images = _find(folder, f"Img/img_{kind}")
        self.names = _members(folder, split)
        points = _values(_find(folder, f"Anno/list_landmarks_{kind}.txt"), 10, self.names)
        self.annotations = Annotations(LANDMARKS, points.reshape(-1, 5, 2), (0, 1))
        self.boxes: NDArray[np.float64] | None = None
        if variant == "unaligned":
            self.boxes = _values(_find(folder, "Anno/list_bbox_celeba.txt"), 4, self.names)

    def __len__(self) -> int:
        return len(self.names)

    def name(self, index: int) -> str:
        return self.names[index].decode("latin1")

    def file(self, index: int) -> Path:
        return self.images / self.name(index)

    def image(self, index: int) -> NDArray[np.uint8]:
        return read_image(self.images / self.name(index), upright=False)

    def box(self, index: int) -> Placement | None:
        if self.boxes is None:
            return ALIGNED
        x, y, width, height = self.boxes[index].tolist()
        if min(width, height) <= 0:
            return None  # no face box: the whole photo
        edge = max(width, height) * (1 + 2 * MARGIN)
        return Placement(x + (width - edge) / 2, y + (height - edge) / 2, edge, edge)

    @cached_property
    def attributes(self) -> Attributes | None:
        """Classes 0 (absent) and 1 (present). The largest of the lists, so it is read when asked for."""
        path = _find(self.folder, "Anno/list_attr_celeba.txt")
        with path.open(encoding="latin1") as file:
            file.readline()
            names = tuple(file.readline().split())
        if not names:
            raise TrigpointError(f"{path} should name the attributes in its second line.")
        values = _values(path, len(names), self.names, np.int8)
        if not np.isin(values, (-1, 1)).all():
            raise TrigpointError(f"{path} should hold only 1 and -1 after the names of the images.")
        return Attributes(names, (values > 0).astype(np.int64))


def _find(folder: Path, place: str) -> Path:
    """Where the owners put it, or directly in the folder."""
    flat = folder / Path(place).name
    return require(flat if flat.exists() and not (folder / place).exists() else folder / place, "CelebA")


def _members(folder: Path, split: Split) -> NDArray[np.bytes_]:
    """The names of a split's images, as the lists spell them."""
    if split == "labels":
        return _names(_find(folder, "MAFL/training.txt"))
    tested = _names(_find(folder, "MAFL/testing.txt"))
    if split == "test":
        return tested
    path = _find(folder, "Eval/list_eval_partition.txt")
    table = _table(path, 1, 0, np.int8)
    names: NDArray[np.bytes_] = table["name"][table["values"][:, 0] == 0]
    names = names[~np.isin(names, tested)]
    if not len(names):
        raise TrigpointError(f"{path} lists no training image (partition 0).")
    return names


def _names(path: Path) -> NDArray[np.bytes_]:
    names = [line.split()[0] for line in path.read_bytes().splitlines() if line.strip()]
    if not names:
        raise TrigpointError(f"{path} lists no image.")
    return np.array(names, NAME)


def _values(
    path: Path, columns: int, names: NDArray[np.bytes_], kind: DTypeLike = np.float64
) -> NDArray[np.float64]:
    """(n, columns): the numbers a list with two lines of heading gives for these images, in their order."""
    table = _table(path, columns, 2, kind)
    order = np.argsort(table["name"], kind="stable")
    places = np.searchsorted(table["name"], names, sorter=order)
    rows = order[np.minimum(places, len(order) - 1)]
    missing = names[table["name"][rows] != names]
    if len(missing):
        raise TrigpointError(f"{path} has no line for the image {missing[0].decode('latin1')}.")
    values = np.asarray(table["values"][rows])
    if not (np.abs(values) <= REACH).all():
        raise TrigpointError(
            f"{path}: expected pixels; got the number {values[~(np.abs(values) <= REACH)][0]}."
        )
    return values


def _table(path: Path, columns: int, heading: int, kind: DTypeLike) -> NDArray[np.void]:
    """All lines of a list: fields `name` and `values` (columns,)."""
    dtype = np.dtype([("name", NAME), ("values", kind, (columns,))])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an empty list; that is said below
            table = np.loadtxt(path, dtype, comments=None, skiprows=heading, encoding="latin1", ndmin=1)
    except ValueError:
        raise TrigpointError(_fault(path, columns, heading)) from None
    if not len(table):
        raise TrigpointError(f"{path} lists no image.")
    return table


def _fault(path: Path, columns: int, heading: int) -> str:
    """The sentence about the first line that is not a name and numbers."""
    numbers = "a number" if columns == 1 else f"{columns} numbers"
    for number, line in enumerate(path.read_text("latin1").split("\n"), 1):
        fields = line.split()
        if number <= heading or not fields:
            continue
        try:
            good = len(np.array(fields[1:], float)) == columns
        except ValueError:
            good = False
        if not good:
            return f"{path}, line {number}: expected a name and {numbers}; got {line.strip()[:60]!r}."
    return f"{path} is not a list of names, each with {numbers}."
