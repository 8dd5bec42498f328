"""An edit put back into the photo it came from, at the photo's own resolution.

`warped`: the photo's own pixels, moved by the thin plate spline that takes the landmarks to their new places.
As sharp as the photo; it can move what is there, and not show what was hidden (teeth behind closed lips).
`blended`: the same, plus what the decoder changes beyond that movement. The decoder's image is small, so only
coarse changes of brightness and colour are added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import Placement
from trigpoint.core.sources.images import to_channels
from trigpoint.learning.editing.editor import Code, Editor
from trigpoint.learning.warps.tps import basis, solver

Photo = NDArray[np.uint8]
ANCHORS = 7  # points an edge of the crop that stay where they are
MARGIN = 0.15  # of the edge: the warped region reaches so far beyond the crop
LATTICE = 65  # points an edge at which the spline is evaluated; between them it is interpolated
BLOCK = 1 << 20  # pixels moved at a time
LONGEST = 32767  # pixels: OpenCV moves those of no longer edge
NO_MAP = np.empty(0, np.float32)  # OpenCV takes both coordinates in one array, or in two
APART = (
    0.02  # of the edge: landmarks nearer than this to another, or to an anchor, are left out of the spline
)


@dataclass(frozen=True)
class Warp:
    """Where the photo's pixels come from within a region of it."""

    left: int
    top: int
    # (h, w, 2) pixels of the photo, centres at whole numbers as in OpenCV
    sources: NDArray[np.float32]


def put_back(editor: Editor, photo: Photo, before: Code, after: Code, blend: bool = False) -> Photo:
    """The photo, (H, W), (H, W, 1) or (H, W, 3), with the edit from one code to another in it: (H, W, 3)."""
    colour = to_channels(np.atleast_3d(photo), 3)
    height, width = colour.shape[:2]
    if max(height, width) >= LONGEST:
        raise TrigpointError(
            f"A photo to edit has edges of less than {LONGEST} pixels; got {width}x{height}."
        )
    result = colour.copy()
    shift = spline(before.place, before.landmarks, after.landmarks)
    left, top, right, bottom = region(before.place, width, height)
    old, new = (
        (to_channels(image, 3).astype(np.float32) for image in editor.decode_many((before, after)))
        if blend
        else (None, None)
    )
    rows = max(1, BLOCK // (right - left))  # at once: the places that pixels come from take more than pixels
    for start in range(top, bottom, rows):
        warp = sources(shift, before.place, left, start, right, min(start + rows, bottom))
        moved = np.asarray(read(colour, warp.sources), np.uint8)
        if old is not None and new is not None:
            change = on_photo(new, before.place, warp) - on_photo(old, before.place, warp, moved=True)
            moved = np.clip(moved + change, 0, 255).round().astype(np.uint8)
        result[start : start + len(moved), left:right] = moved
    return result


def displacement(
    place: Placement, old: NDArray[np.float64], new: NDArray[np.float64], width: int, height: int
) -> Warp:
    """Where the pixels of the whole region come from, as landmarks (K, 2) move from their old places."""
    left, top, right, bottom = region(place, width, height)
    return sources(spline(place, old, new), place, left, top, right, bottom)


def spline(place: Placement, old: NDArray[np.float64], new: NDArray[np.float64]) -> NDArray[np.float32]:
    """From the new landmarks (K, 2) back to the old ones, in pixels on the lattice; its rim stays."""
    rim = np.linspace(-MARGIN, 1 + MARGIN, ANCHORS)
    low, high = np.full(ANCHORS, -MARGIN), np.full(ANCHORS, 1 + MARGIN)
    edges = [(rim, low), (rim, high), (low[1:-1], rim[1:-1]), (high[1:-1], rim[1:-1])]
    still = np.concatenate([np.column_stack(pair) for pair in edges])
    kept = apart(new, still)
    controls = torch.from_numpy(np.concatenate((new[kept], still)))
    targets = torch.from_numpy(np.concatenate((old[kept], still)))
    along = torch.linspace(-MARGIN, 1 + MARGIN, LATTICE, dtype=torch.float64)
    v, u = torch.meshgrid(along, along, indexing="ij")
    lattice = torch.stack((u, v), -1).reshape(-1, 2)
    mapped = (basis(lattice, controls) @ (solver(controls) @ targets)).numpy()
    shift = (mapped - lattice.numpy()).reshape(LATTICE, LATTICE, 2)
    # The rim's shift fades to exactly 0, so that the region joins the photo without a seam.
    fade = np.clip(np.minimum(np.arange(LATTICE), np.arange(LATTICE)[::-1]) / 4, 0, 1)
    shift = (shift * np.minimum(fade[:, None], fade[None, :])[:, :, None]).astype(np.float32)
    shift *= (-place.width if place.mirrored else place.width, place.height)
    return np.asarray(shift, np.float32)


def region(place: Placement, width: int, height: int) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of what an edit of the crop changes on a photo."""
    corners = place.to_original(np.array([(-MARGIN, -MARGIN), (1 + MARGIN, 1 + MARGIN)]))
    low_x, high_x = sorted(corners[:, 0])
    low_y, high_y = sorted(corners[:, 1])
    left, top = max(0, int(np.floor(low_x))), max(0, int(np.floor(low_y)))
    right, bottom = min(width, int(np.ceil(high_x))), min(height, int(np.ceil(high_y)))
    if left >= right or top >= bottom:
        raise TrigpointError(f"The crop lies outside of the photo of {width}x{height} pixels.")
    return left, top, right, bottom


def sources(
    shift: NDArray[np.float32], place: Placement, left: int, top: int, right: int, bottom: int
) -> Warp:
    """Where the pixels of a part of the region come from."""
    x, y = np.arange(left, right), np.arange(top, bottom)
    # The crop's edges are the photo's, so rows and columns are interpolated one after the other. (OpenCV's
    # remap would round to 1/32 of a cell of the lattice, which is seen as steps on large photos.)
    columns = hats(place.to_unit(np.column_stack((x + 0.5, np.zeros(len(x)))))[:, 0])
    rows = hats(place.to_unit(np.column_stack((np.zeros(len(y)), y + 0.5)))[:, 1])
    found = np.einsum("yj,jic,xi->yxc", rows, shift, columns, optimize=True)
    found[:, :, 0] += x
    found[:, :, 1] += y[:, None]
    return Warp(left, top, np.ascontiguousarray(found, np.float32))


def hats(unit: NDArray[np.float64]) -> NDArray[np.float32]:
    """Weights (n, LATTICE) of the lattice's points for linear interpolation at unit coordinates (n,)."""
    cells = (unit + MARGIN) / (1 + 2 * MARGIN) * (LATTICE - 1)
    return np.maximum(0, 1 - np.abs(cells[:, None] - np.arange(LATTICE))).astype(np.float32)


def on_photo(
    image: NDArray[np.float32], place: Placement, warp: Warp, moved: bool = False
) -> NDArray[np.float32]:
    """A decoded image (n, n, 3) at the photo's resolution over the warp's region, 0 outside of the crop.

    `moved`: read where the photo's pixels come from, so as if it were warped like the photo.
    """
    height, width = warp.sources.shape[:2]
    x, y = np.meshgrid(np.arange(warp.left, warp.left + width), np.arange(warp.top, warp.top + height))
    pixels = warp.sources if moved else np.stack((x, y), -1)
    unit = place.to_unit(pixels.astype(np.float64) + 0.5)
    size = len(image)
    cells = (unit * size - 0.5).astype(np.float32)
    pixels_there = read(image, cells)
    here = place.to_unit(np.stack((x, y), -1) + 0.5)
    inside = np.clip(np.minimum(here, 1 - here).min(-1) / 0.1, 0, 1)  # feathered towards the crop's rim
    return np.asarray(pixels_there * inside[:, :, None], np.float32)


def read(image: NDArray[Any], where: NDArray[np.float32]) -> NDArray[Any]:
    """An image at places (h, w, 2) in its pixels, centres at whole numbers; edge values outside."""
    return np.asarray(cv2.remap(image, where, NO_MAP, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE))


def apart(points: NDArray[np.float64], still: NDArray[np.float64]) -> list[int]:
    """The landmarks not (nearly) on top of an earlier one or of a still point, where a spline would tear."""
    kept: list[int] = []
    for number, point in enumerate(points):
        others = np.concatenate((points[kept], still))
        if np.hypot(*(others - point).T).min() >= APART:
            kept.append(number)
    return kept
