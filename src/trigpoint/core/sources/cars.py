"""Profile cars of PASCAL3D+ (WACV 2014), in the layout of its release 1.1.

    FOLDER/Images/car_imagenet/*.JPEG     FOLDER/Images/car_pascal/*.jpg
    FOLDER/Annotations/car_imagenet/*.mat FOLDER/Annotations/car_pascal/*.mat
    FOLDER/CAD/car.mat                    models whose fields are twelve anchors in space, six on each side

An annotation names the model that fits a car best and where the camera stood. Projecting the anchors
gives every landmark a place, hidden or not; that is how the paper turns 3D annotations into 2D landmarks.
MATLAB counts pixels from 1, so half a pixel is subtracted from all it says.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import cos, sin
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.core import apart
from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import Placement
from trigpoint.core.sources.base import Annotations, Source, Split, require, require_pixels
from trigpoint.core.sources.images import read_image

LANDMARKS = ("front wheel", "back wheel", "windscreen top", "rear window top", "headlight", "boot")
ANCHORS = (  # in the order of LANDMARKS, `left` or `right` to be put in
    "{}_front_wheel",
    "{}_back_wheel",
    "upper_{}_windshield",
    "upper_{}_rearwindow",
    "{}_front_light",
    "{}_back_trunk",
)
FOLDERS = {"car_imagenet": ".JPEG", "car_pascal": ".jpg"}
TOLERANCE = 10  # degrees from 90 or 270; the paper says only "profile" and counts 630 cars
MARGIN = 1 / 8  # of the longer edge of the landmarks' box, on each side: room for the wheels' lower half
FLAGS = ("truncated", "occluded", "difficult")
CAMERA = ("azimuth", "elevation", "distance", "focal", "theta", "px", "py", "viewport")

SIDES = ("left", "right")
TOGETHER = 512  # files that one process reads

Points = NDArray[np.float64]
Model = NDArray[np.float64]  # (2, 6, 3) anchors of the left and the right side


@dataclass(frozen=True)
class Car:
    """One car of one image; an image may show several."""

    name: str
    image: Path
    points: Points  # (6, 2) landmarks of the visible side


class Cars(Source):
    """Cars seen from the side, cut out by their landmarks and stretched to a square, all facing left.

    Without mirroring the front wheel would lie left in one half of the images and right in the other,
    and no linear map from discovered landmarks could tell which of two equal wheels is meant.
    """

    annotations: Annotations | None = None

    def __init__(self, folder: Path, split: Split = "train", variant: str = "") -> None:
        self.description = f"cars:{folder}"
        self.words: tuple[str, ...] = (self.description,)
        models = _models(require(folder / "CAD" / "car.mat", "PASCAL3D+"))
        paths: dict[Path, Path] = {}  # the photo of each annotation
        self.cars: list[Car] = []
        for kind, extension in FOLDERS.items():
            for path in sorted(require(folder / "Annotations" / kind, "PASCAL3D+").glob("*.mat")):
                if (zlib.crc32(path.stem.encode("utf-8", "surrogateescape")) % 10 == 0) == (split == "test"):
                    paths[path] = folder / "Images" / kind / (path.stem + extension)
        for path, things in _structs(list(paths), "record", "objects"):
            self.cars += _read(path, things, models, paths[path])
        if not self.cars:
            raise TrigpointError(f"{folder / 'Annotations'} holds no profile car of the split {split!r}.")
        points = np.stack([car.points for car in self.cars])
        self.annotations = Annotations(LANDMARKS, points, (0, 1), "bi-wheel distance")

    def __len__(self) -> int:
        return len(self.cars)

    def name(self, index: int) -> str:
        return self.cars[index].name

    def file(self, index: int) -> Path:
        return self.cars[index].image

    def image(self, index: int) -> NDArray[np.uint8]:
        return read_image(self.cars[index].image, upright=False)

    def box(self, index: int) -> Placement | None:
        points = self.cars[index].points
        low, high = np.nanmin(points, axis=0), np.nanmax(points, axis=0)
        margin = MARGIN * (high - low).max()
        x, y = low - margin
        width, height = high - low + 2 * margin
        faces_right = bool(points[0, 0] > points[1, 0])
        return Placement(float(x), float(y), float(width), float(height), mirrored=faces_right)


def project(points: Points, camera: dict[str, float]) -> tuple[Points, Points]:
    """Points in space (n, 3) -> pixels (n, 2) and depths (n) before the camera.

    The camera of PASCAL3D+ looks at the origin from `distance` away: azimuth 0 is before the car's
    front, 90 shows it facing left. Lengths in the image are focal * viewport / depth.
    """
    a, e, t = (math.radians(camera[name]) for name in ("azimuth", "elevation", "theta"))
    back = np.array([cos(e) * sin(a), -cos(e) * cos(a), sin(e)])  # from the car to the camera
    right = np.array([cos(a), sin(a), 0.0])
    up = np.cross(back, right)
    depth = camera["distance"] - points @ back
    u, v = camera["focal"] * camera["viewport"] * (np.stack([right, up]) @ points.T) / depth
    x = camera["px"] + cos(t) * u - sin(t) * v
    y = camera["py"] - sin(t) * u - cos(t) * v
    return np.stack([x, y], axis=1) - 0.5, depth


def _read(path: Path, things: Any, models: list[Model], image: Path) -> list[Car]:
    """The profile cars of one annotation file that nothing hides or cuts off."""
    cars = []
    for number, thing in enumerate(_list(things), 1):
        if _field(thing, "class") != "car" or any(_number(thing, flag) == 1 for flag in FLAGS):
            continue
        viewpoint = _field(thing, "viewpoint")
        camera = {name: _number(viewpoint, name) for name in CAMERA}
        fitted = camera["distance"] > 0
        azimuth = camera["azimuth"] if fitted else _number(viewpoint, "azimuth_coarse")
        if not abs(azimuth % 180 - 90) <= TOLERANCE:
            continue
        index = _number(thing, "cad_index") - 1
        known = fitted and index in range(len(models)) and np.isfinite(list(camera.values())).all()
        points = _projected(models[int(index)], camera) if known else None
        if points is None:
            points = _clicked(_field(thing, "anchors"))
        if points is not None:
            require_pixels(points, str(path))
            name = f"{image.parent.name}/{image.name}" + (f"#{number}" if number > 1 else "")
            cars.append(Car(name, image, points))
    return cars


def _projected(model: Model, camera: dict[str, float]) -> Points | None:
    """The landmarks of the side nearer to the camera; None if they do not make a picture."""
    sides = [project(anchors, camera) for anchors in model]
    if any(np.isnan(depths).all() for _, depths in sides):
        return None
    # Which side the owners call left is not relied on: what is nearer is what one sees.
    points, depths = min(sides, key=lambda side: float(np.nanmean(side[1])))
    return points if _usable(points) and np.nanmin(depths) > 0 else None


def _clicked(anchors: Any) -> Points | None:
    """The landmarks people clicked on, of the side where they found more; NaN where they found none."""
    sides = []
    for side in SIDES:
        points = np.full((len(ANCHORS), 2), np.nan)
        for row, anchor in enumerate(ANCHORS):
            found = _field(anchors, anchor.format(side))
            location = _numbers(found, "location")
            if _number(found, "status") == 1 and len(location) == 2:
                points[row] = location - 0.5
        sides.append(points)
    points = max(sides, key=lambda side: int(np.isfinite(side).sum()))
    return points if _usable(points) else None


def _usable(points: Points) -> bool:
    """Both wheels, which give the unit, and something above them, which gives the box its height."""
    return bool(np.isfinite(points[:2]).all() and np.isfinite(points[2:]).all(axis=1).any())


def _models(path: Path) -> list[Model]:
    """Of each model the anchors in space of either side; NaN where it has none."""
    models = []
    ((_, found),) = _structs([path], "car")
    for model in _list(found):
        sides = np.full((len(SIDES), len(ANCHORS), 3), np.nan)
        for row, side in enumerate(SIDES):
            for column, anchor in enumerate(ANCHORS):
                place = _numbers(model, anchor.format(side))
                if len(place) == 3:
                    sides[row, column] = place
        models.append(sides)
    if not np.isfinite(models).any():
        raise TrigpointError(f"{path}: expected CAD models with anchors in space, such as left_front_wheel.")
    return models


def _structs(paths: Sequence[Path], *names: str) -> Iterator[tuple[Path, Any]]:
    """A variable of each MATLAB file, or a field of it: structs are dictionaries, arrays are lists."""
    for start in range(0, len(paths), TOGETHER):
        some = paths[start : start + TOGETHER]
        seconds = apart.SECONDS + len(some) // 10
        try:
            found, _ = apart.call(
                "trigpoint.core.readers.matlab:read_structs",
                [str(path.resolve()) for path in some],
                names,
                seconds=seconds,
            )
        except apart.ReaderFailed as failure:
            raise _no_struct(failure.reading or some[0], names, failure) from None
        for path, one in zip(some, found, strict=True):
            if "reason" in one:
                raise _no_struct(path, names, one["reason"])
            yield path, one["value"]


def _no_struct(path: Path | str, names: Sequence[str], reason: object) -> TrigpointError:
    what = ".".join(names)
    return TrigpointError(f"{path}: expected a MATLAB file with {what}, as PASCAL3D+ has them ({reason}).")


def _field(struct: Any, name: str) -> Any:
    return struct.get(name) if isinstance(struct, dict) else None


def _numbers(struct: Any, name: str) -> Points:
    """A field as a row of numbers, none where it is missing or something else."""
    values = _field(struct, name)
    if not isinstance(values, list) or not all(isinstance(value, float) for value in values):
        return np.empty(0)
    return np.array(values, np.float64)


def _number(struct: Any, name: str) -> float:
    """A field that is one number, else NaN."""
    values = _numbers(struct, name)
    return float(values[0]) if len(values) == 1 else math.nan


def _list(value: Any) -> list[Any]:
    """An array of one struct is that struct."""
    return value if isinstance(value, list) else [value]
