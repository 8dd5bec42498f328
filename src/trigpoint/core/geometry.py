"""The one home of coordinates.

Inside trigpoint a point is (x, y) in *unit coordinates*: the image's edge is 1, (0, 0) its top left
corner, (1, 1) its bottom right one, and the centre of pixel i of n lies at (i + 0.5) / n. Padding
does not change them: it only lets points lie outside [0, 1]. At the boundary a point is (x, y) in
pixels of the caller's image, where the centre of the first pixel is (0.5, 0.5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError

Fit = Literal["pad", "crop", "stretch"]
LEAST = 1e-6  # pixels of an image that one of the result covers
REACH = 100_000  # pixels: no photo has as many in a row
ENOUGH = 4  # an image is first shrunk by whole numbers to no less than this many times the wanted size


@dataclass(frozen=True)
class Placement:
    """The box of the original image, in its pixels, that becomes the model's square image."""

    x: float
    y: float
    width: float
    height: float
    fill: int | None = None  # grey level outside the image; None repeats its edge values
    mirrored: bool = False  # the square shows the box with left and right swapped

    def to_original(self, points: NDArray[np.floating]) -> NDArray[np.float64]:
        """Unit coordinates (..., 2) -> pixels of the original image."""
        unit = np.asarray(points, np.float64)
        if self.mirrored:
            unit = (1, 0) + unit * (-1, 1)
        return unit * (self.width, self.height) + (self.x, self.y)

    def to_unit(self, points: NDArray[np.floating]) -> NDArray[np.float64]:
        """Pixels of the original image (..., 2) -> unit coordinates."""
        unit = (np.asarray(points, np.float64) - (self.x, self.y)) / (self.width, self.height)
        return (1, 0) + unit * (-1, 1) if self.mirrored else unit


def fit_box(width: int, height: int, fit: Fit) -> Placement:
    """How an image of any aspect becomes square: `pad` its short side, `crop` its long one, `stretch`."""
    if fit == "stretch":
        return Placement(0, 0, width, height)
    edge = max(width, height) if fit == "pad" else min(width, height)
    return Placement((width - edge) // 2, (height - edge) // 2, edge, edge)


def parse_box(text: str) -> Placement:
    """`LEFT,TOP,WIDTH,HEIGHT` in pixels."""
    try:
        x, y, width, height = (float(part) for part in text.split(","))
    except ValueError:
        raise TrigpointError(f"A box is LEFT,TOP,WIDTH,HEIGHT in pixels; got {text[:80]!r}.") from None
    sides = (x, y, width, height)
    if not all(math.isfinite(value) for value in sides) or min(width, height) < 1:
        raise TrigpointError(f"A box is at least one pixel wide and high; got {text[:80]!r}.")
    if max(map(abs, sides)) > REACH:
        raise TrigpointError(f"A box has numbers up to {REACH:,} pixels; got {text[:80]!r}.")
    return Placement(x, y, width, height)


def around(points: NDArray[np.floating], margin: float) -> Placement:
    """The bounding box of points (n, 2), larger by `margin` of its sides on each side; NaN is left out."""
    low, high = np.nanmin(points, axis=0), np.nanmax(points, axis=0)
    size = np.maximum(high - low, 1.0)
    x, y = (low + high - size) / 2 - margin * size
    width, height = size * (1 + 2 * margin)
    return Placement(float(x), float(y), float(width), float(height))


def extract(image: NDArray[np.uint8], box: Placement, size: int) -> NDArray[np.uint8]:
    """Cut the box out of (H, W, C) and scale it to (size, size, C).

    A pixel of the result is the mean over its area where the box shrinks, interpolated where it grows.
    Boxes may have fractions and reach beyond the image.
    """
    height, width, channels = image.shape
    x, y = int(box.x), int(box.y)
    part = image[y : y + int(box.height), x : x + int(box.width)] if min(x, y) >= 0 else image[:0]
    if part.shape[:2] == (box.height, box.width) and (x, y) == (box.x, box.y) and min(part.shape[:2]) >= size:
        scaled = cv2.resize(part, (size, size), interpolation=cv2.INTER_AREA)  # the same, faster
        scaled = np.asarray(scaled, np.uint8).reshape(size, size, channels)
        return np.ascontiguousarray(scaled[:, ::-1]) if box.mirrored else scaled
    shrink_x = max(1, min(int(box.width / (ENOUGH * size)), width))
    shrink_y = max(1, min(int(box.height / (ENOUGH * size)), height))
    if shrink_x * shrink_y > 1:  # large photos: most of the work by OpenCV
        small = (width // shrink_x, height // shrink_y)
        shrunk = cv2.resize(image, small, interpolation=cv2.INTER_AREA)
        image = np.asarray(shrunk, np.uint8).reshape(small[1], small[0], channels)
        scale_x, scale_y = small[0] / width, small[1] / height
        box = replace(
            box, x=box.x * scale_x, y=box.y * scale_y, width=box.width * scale_x, height=box.height * scale_y
        )
        width, height = small
    columns, from_x, inside_x = _weights(box.x, box.width, size, width)
    rows, from_y, inside_y = _weights(box.y, box.height, size, height)
    held = image[from_y : from_y + rows.shape[1], from_x : from_x + columns.shape[1]].astype(np.float32)
    # By OpenCV: NumPy's own threads beside torch's make such a product ten times slower.
    lines = _product(rows, held.reshape(len(held), -1))  # (y, w C)
    turned = lines.reshape(size, -1, channels).swapaxes(0, 1).reshape(-1, size * channels)  # (w, y C)
    scaled = _product(columns, turned).reshape(size, size, channels).swapaxes(0, 1)  # from (x, y C)
    if box.fill is not None:
        inside = (inside_y[:, None] * inside_x[None, :])[:, :, None]
        scaled = inside * scaled + (1 - inside) * box.fill
    if box.mirrored:
        scaled = scaled[:, ::-1]
    return np.ascontiguousarray(np.clip(np.rint(scaled), 0, 255), np.uint8)


def _weights(
    start: float, length: float, size: int, count: int
) -> tuple[NDArray[np.float32], int, NDArray[np.float32]]:
    """Weights (size, n) of n neighbouring pixels of a row of `count`, the first of them, and how much of
    each result lies inside the row. What lies outside is given to the row's ends."""
    step = max(length / size, LEAST)  # of a box without an area a point is seen
    edges = start + step * np.arange(size + 1)
    inside = np.clip(np.minimum(edges[1:], count) - np.maximum(edges[:-1], 0), 0, None) / step
    first, last = math.floor(edges[0]), math.ceil(edges[-1])
    if step >= 1:
        # Pixels of the row alone, its ends reaching as far as need be: a box may be a million times as long.
        first = min(max(first, 0), count - 1)
        last = max(min(last, count), first + 1)
        starts, ends = np.arange(first, last, dtype=np.float64), np.arange(first, last) + 1.0
        if first == 0:
            starts[0] = -np.inf
        if last == count:
            ends[-1] = np.inf
        overlap = np.minimum(edges[1:, None], ends) - np.maximum(edges[:-1, None], starts)
        kept = np.maximum(overlap, 0) / step
    else:
        pixels = np.arange(first, last)
        centres = np.clip((edges[:-1] + edges[1:]) / 2, first + 0.5, last - 0.5)
        weights = np.maximum(0, 1 - np.abs(centres[:, None] - (pixels + 0.5)))
        held = np.clip(pixels, 0, count - 1)
        first = int(held[0])
        kept = np.add.reduceat(weights, np.searchsorted(held, np.arange(first, held[-1] + 1)), axis=1)
    return np.ascontiguousarray(kept, np.float32), first, inside.astype(np.float32)


def _product(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(cv2.gemm(a, b, 1.0, a[:0], 0.0), np.float32)
