"""Your own images with landmarks: in a CSV table, or in a COCO keypoints file.

    csv:FILE.csv       image,landmark,x,y     one line a landmark
                       image,nose_x,nose_y,...     or one line an image
    coco:FILE.json     images, annotations with keypoints, categories with their names

Images lie where the file says, seen from the file's own folder. Other columns may stand among these; a
column `split` holds train, labels or test. Without it, an image is a test image if the hash of its name
says so: about every tenth, and always the same ones.
"""

from __future__ import annotations

import csv
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import REACH, Placement, around
from trigpoint.core.io import named
from trigpoint.core.sources.base import Annotations, Source, Split, require, require_pixels
from trigpoint.core.sources.images import read_image

SPLITS = ("train", "labels", "test")
MARGIN = 0.1  # of the longer side of a COCO box, on each side
LARGEST = 2**29  # bytes of a file, which takes several times as much to read
MOST = 2**25  # points of one file
Points = NDArray[np.float64]


class LandmarkTable(Source):
    annotations: Annotations | None = None

    def __init__(self, path: Path, split: Split = "train", variant: str = "") -> None:
        self.folder = _file(path, "csv").parent
        self.description = f"csv:{path}"
        self.words: tuple[str, ...] = (self.description,)
        images, splits, names, points = _read_table(path)
        rows = _chosen(images, splits, split, path)
        self.images = [images[row] for row in rows]
        eyes = _eyes(names)
        unit = "inter-ocular distance" if eyes else "image edge"
        self.annotations = Annotations(names, points[rows], eyes, unit)

    def __len__(self) -> int:
        return len(self.images)

    def name(self, index: int) -> str:
        return self.images[index]

    def file(self, index: int) -> Path:
        return self.folder / self.images[index]

    def image(self, index: int) -> NDArray[np.uint8]:
        return read_image(self.folder / self.images[index])


class CocoKeypoints(Source):
    """One item for each annotation that has a keypoint, cut out by its box."""

    annotations: Annotations | None = None

    def __init__(self, path: Path, split: Split = "train", variant: str = "") -> None:
        self.folder = _file(path, "coco").parent
        self.description = f"coco:{path}"
        self.words: tuple[str, ...] = (self.description,)
        found = _read_coco(path)
        rows = _chosen(found.files, found.splits, split, path)
        self.images = [found.files[row] for row in rows]
        shared = Counter(self.images)
        self.names = [
            f"{image}#{found.numbers[row]}" if shared[image] > 1 else image
            for row, image in zip(rows, self.images, strict=True)
        ]
        self.boxes = [found.boxes[row] for row in rows]
        self.annotations = Annotations(
            found.names, found.points[rows], None, "image edge", _counterparts(found.names)
        )

    def __len__(self) -> int:
        return len(self.images)

    def name(self, index: int) -> str:
        return self.names[index]

    def file(self, index: int) -> Path:
        path = self.folder / self.images[index]
        return path if os.path.exists(path) else self.folder / "images" / self.images[index]

    def image(self, index: int) -> NDArray[np.uint8]:
        return read_image(self.file(index))

    def box(self, index: int) -> Placement | None:
        return self.boxes[index]


def _file(path: Path, kind: str) -> Path:
    if require(path, kind).is_dir():
        raise TrigpointError(f"{path} is a folder; {kind} takes a file, such as {kind}:FILE.")
    size = path.stat().st_size
    if size > LARGEST:
        raise TrigpointError(f"{path} has {size:,} bytes; the limit is {LARGEST:,}.")
    return path


def _chosen(images: Sequence[str], splits: Sequence[str] | None, split: Split, path: Path) -> list[int]:
    """The rows of a split."""
    if splits is None:
        testing = [zlib.crc32(image.encode("utf-8", "surrogatepass")) % 10 == 0 for image in images]
        rows = [row for row, is_test in enumerate(testing) if is_test == (split == "test")]
        hint = "by the hash of their names; the file can say their split"
    else:
        wanted = "train" if split == "labels" and "labels" not in splits else split
        rows = [row for row, given in enumerate(splits) if given == wanted]
        hint = "by their split in the file"
    if not rows:
        raise TrigpointError(f"{path} has no image for {split} among {len(images)}, {hint}.")
    return rows


def _eyes(names: Sequence[str]) -> tuple[int, int] | None:
    """Where both eyes are: left_eye, Left Eye, lefteye, eye-left ..."""
    plain = [re.sub("[^a-z]", "", name.lower()) for name in names]
    found = [
        next((plain.index(word) for word in (f"{side}eye", f"eye{side}") if word in plain), None)
        for side in ("left", "right")
    ]
    return None if found[0] is None or found[1] is None else (found[0], found[1])


def _counterparts(names: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Pairs of landmarks whose names differ in left and right."""
    pairs = []
    where = {name.lower(): number for number, name in reversed(list(enumerate(names)))}
    for left, name in enumerate(names):
        other = re.sub("left", "right", name, flags=re.IGNORECASE)
        if other != name and other.lower() in where:
            pairs.append((left, where[other.lower()]))
    return tuple(pairs)


# ---- CSV


def _read_table(path: Path) -> tuple[list[str], list[str] | None, tuple[str, ...], Points]:
    """Image names, their splits, landmark names, and points (n, L, 2)."""
    splits: dict[str, str | None] = {}  # in the order of the file
    rows: dict[str, int] = {}
    names: dict[str, int] = {}
    lines: list[int] = []
    cells: list[str] = []
    places: list[tuple[int, int]] = []
    for line, image, split, landmark, x, y in _entries(path):
        if splits.setdefault(image, split) != split:
            raise TrigpointError(
                f"{path}, line {line}: {image[:80]} was of the split {splits[image]!r} before."
            )
        row = rows.setdefault(image, len(rows))
        if landmark:  # a line without one only lists its image
            places.append((row, names.setdefault(landmark, len(names))))
            cells += (x, y)
            lines.append(line)
    if not places:
        raise TrigpointError(f"{path} lists no landmark.")
    row_numbers, columns = np.array(places).T
    _refuse_twice(row_numbers * len(names) + columns, lines, path)
    _refuse_many(len(rows), len(names), path)
    points = np.full((len(rows), len(names), 2), np.nan)
    points[row_numbers, columns] = _numbers(cells, lines, path)
    told = [split for split in splits.values() if split is not None]
    return list(rows), told or None, tuple(names), points


def _entries(path: Path) -> Iterator[tuple[int, str, str | None, str, str, str]]:
    """Line, image, split, landmark, x, y of either kind of table."""
    rows = _rows(path)
    _, header = next(rows, (1, []))
    header = [cell.strip() for cell in header]
    where = {cell.lower(): column for column, cell in enumerate(header)}
    is_long = {"landmark", "x", "y"} <= set(where)
    pairs = {} if is_long else _pairs(header, path)
    if "image" not in where or not (is_long or pairs):
        raise TrigpointError(
            f"{path}, line 1: expected the columns image,landmark,x,y or image,NAME_x,NAME_y,...; "
            f"got {','.join(header)[:80]!r}."
        )
    for line, row in rows:
        if len(row) != len(header):
            raise TrigpointError(f"{path}, line {line}: expected {len(header)} columns; got {len(row)}.")
        image = named(row[where["image"]].strip()).replace("\\", "/")
        if not image or "\0" in image:
            raise TrigpointError(f"{path}, line {line}: expected the name of an image; got {image[:40]!r}.")
        split = row[where["split"]].strip().lower() if "split" in where else None
        if split not in (None, *SPLITS):
            raise TrigpointError(
                f"{path}, line {line}: expected the split train, labels or test; got {split[:40]!r}."
            )
        for landmark, (x, y) in pairs.items():
            yield line, image, split, landmark, row[x], row[y]
        if is_long:
            landmark = named(row[where["landmark"]].strip())
            yield line, image, split, landmark, row[where["x"]], row[where["y"]]


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines that are not empty, with their numbers. Commas, semicolons or tabs separate."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        first = stream.readline()
        stream.seek(0)
        reader = csv.reader(stream, delimiter=max(",;\t", key=first.count))
        try:
            for row in reader:
                if any(row):
                    yield reader.line_num, row
        except csv.Error as error:
            raise TrigpointError(f"{path}, line {reader.line_num}: expected CSV; {error}.") from None


def _pairs(header: Sequence[str], path: Path) -> dict[str, tuple[int, int]]:
    """Landmark names and their two columns, of a table with one line an image."""
    found = {}
    where = {cell: column for column, cell in reversed(list(enumerate(header)))}
    for column, cell in enumerate(header):
        if cell.lower().endswith("_x") and len(cell) > 2:
            partner = cell[:-1] + ("y" if cell.endswith("x") else "Y")
            if partner not in where:
                raise TrigpointError(
                    f"{path}, line 1: the column {cell[:60]!r} has no partner {partner[:60]!r}."
                )
            found[cell[:-2]] = (column, where[partner])
    return found


def _numbers(cells: list[str], lines: list[int], path: Path) -> Points:
    """(n, 2) of 2n cells; an empty cell is NaN."""
    try:
        values = np.array([cell.strip() or "nan" for cell in cells], float)
    except ValueError:
        values = np.array([_number(cell) for cell in cells])
    wrong = np.flatnonzero(np.abs(values) > REACH)
    if len(wrong):
        line, cell = lines[wrong[0] // 2], cells[wrong[0]]
        raise TrigpointError(
            f"{path}, line {line}: expected a number of pixels or nothing; got {cell.strip()[:40]!r}."
        )
    points = values.reshape(-1, 2)
    points[np.isnan(points).any(1)] = np.nan
    return points


def _number(cell: str) -> float:
    """Infinity, which no coordinate is, stands for what is not a number."""
    try:
        return float(cell.strip() or "nan")
    except ValueError:
        return np.inf


def _refuse_twice(keys: NDArray[np.int64], lines: list[int], path: Path) -> None:
    order = np.argsort(keys, kind="stable")
    again = order[1:][keys[order[1:]] == keys[order[:-1]]]
    if len(again):
        raise TrigpointError(
            f"{path}, line {lines[again.min()]}: this landmark of this image was given before."
        )


# ---- COCO


@dataclass(frozen=True)
class _Coco:
    names: tuple[str, ...]
    files: list[str]  # one for each annotation that has a keypoint, as all below
    splits: list[str] | None
    numbers: list[int | str]
    points: Points  # (n, L, 2)
    boxes: list[Placement]


def _read_coco(path: Path) -> _Coco:
    content = _json(path)
    try:
        images = {_key(image["id"]): image for image in _objects(content["images"])}
        names_by_kind = {_key(kind["id"]): _keypoint_names(kind) for kind in _objects(content["categories"])}
        items = [item for item in _objects(content["annotations"]) if _is_visible(item)]
        files = {number: _file_name(image["file_name"]) for number, image in images.items()}
        used = {names_by_kind.get(_key(item.get("category_id")), ()) for item in items}
        places = [_key(item.get("image_id")) for item in items]
    except (KeyError, TypeError) as error:
        raise TrigpointError(
            f"{path}: expected a COCO keypoints file with images, annotations and categories; "
            f"missing or of another kind: {error}."
        ) from None
    if not items:
        raise TrigpointError(f"{path}: no annotation has a keypoint.")
    if len(used) > 1 or not all(used):
        raise TrigpointError(
            f"{path}: expected one list of keypoint names for all annotations, in categories; "
            f"got {len(used - {()})} lists."
        )
    (names,) = used
    _refuse_many(len(items), len(names), path)
    numbers = [_number_of(item, row) for row, item in enumerate(items)]
    for number, place in zip(numbers, places, strict=True):
        if place not in files:
            raise TrigpointError(
                f"{path}, annotation {str(number)[:40]}: there is no image {repr(place)[:60]}."
            )
    read = [
        _read_annotation(item, len(names), f"{path}, annotation {str(number)[:40]}")
        for item, number in zip(items, numbers, strict=True)
    ]
    splits: list[Any] = [images[place].get("split") for place in places]
    return _Coco(
        names,
        [files[place] for place in places],
        splits if all(split in SPLITS for split in splits) else None,
        numbers,
        np.stack([points for points, _ in read]),
        [box for _, box in read],
    )


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except RecursionError:
        raise TrigpointError(f"{path}: expected JSON; it is nested too deeply.") from None
    except ValueError as error:  # no JSON, no text, or a number of thousands of digits
        place = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise TrigpointError(f"{path}{place}: expected JSON; {error}.") from None


def _objects(values: Any) -> list[dict[str, Any]]:
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise TypeError("a list of objects")
    return values


def _key(value: Any) -> int | str | None:
    """An id. Files that tools wrote from tables have 1.0 in place of 1, which is the same to Python."""
    if not isinstance(value, int | float | str | None):
        raise TypeError("an id that is a number or text")
    return value  # type: ignore[return-value]


def _keypoint_names(kind: dict[str, Any]) -> tuple[str, ...]:
    names = kind.get("keypoints") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError("keypoints of a category, which are names")
    return tuple(names)


def _is_visible(item: dict[str, Any]) -> bool:
    values = item.get("keypoints") or []
    if not isinstance(values, list):
        raise TypeError("keypoints of an annotation, which are numbers")
    return any(values[2::3])


def _file_name(name: Any) -> str:
    if not isinstance(name, str) or not name or "\0" in name:
        raise TypeError("file_name of an image, which is text")
    return name.replace("\\", "/")


def _number_of(item: dict[str, Any], row: int) -> int | str:
    number = item.get("id", row)
    return number if isinstance(number, int | str) else row


def _read_annotation(item: dict[str, Any], count: int, where: str) -> tuple[Points, Placement]:
    """The points (L, 2), NaN where not labelled, and the box made square with a margin."""
    values = _finite(item["keypoints"], 3 * count)
    if values is None:
        raise TrigpointError(
            f"{where}: expected {3 * count} numbers, x, y and v of each keypoint; "
            f"got {str(item['keypoints'])[:60]}."
        )
    x_y_v = values.reshape(count, 3)
    points = np.where(x_y_v[:, 2:] > 0, x_y_v[:, :2], np.nan)
    if np.isnan(points).all():
        raise TrigpointError(
            f"{where}: expected a keypoint with v above 0; got {str(item['keypoints'])[:60]}."
        )
    require_pixels(points, where)
    bounds = around(points, 0)
    given = item.get("bbox") or [bounds.x, bounds.y, bounds.width, bounds.height]
    box = _finite(given, 4)
    if box is None:
        raise TrigpointError(f"{where}: expected the bbox x, y, width, height; got {str(given)[:60]}.")
    require_pixels(box, where)
    x, y, width, height = box.tolist()
    edge = (1 + 2 * MARGIN) * max(width, height, 1.0)
    return points, Placement(x + width / 2 - edge / 2, y + height / 2 - edge / 2, edge, edge)


def _finite(values: Any, count: int) -> NDArray[np.float64] | None:
    """So many numbers, if that is what these are."""
    try:
        given = np.array(values, float).ravel()
    except (TypeError, ValueError, OverflowError):
        return None
    return given if len(given) == count and np.isfinite(given).all() else None


# ---- both


def _refuse_many(images: int, names: int, path: Path) -> None:
    """A small file can name every landmark on an image of its own: the table of them all would not fit."""
    if images * names > MOST:
        raise TrigpointError(
            f"{path}: {names:,} landmarks on {images:,} images are more than the limit of {MOST:,} points."
        )
