"""Landmarks drawn onto images, and sheets of many images."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.io import writing_atomically
from trigpoint.core.palette import colours
from trigpoint.core.sources.images import to_channels


def draw_landmarks(
    image: NDArray[np.uint8], points: NDArray[np.floating], trust: NDArray[np.floating] | None = None
) -> NDArray[np.uint8]:
    """A colour copy of (H, W, 1 or 3) with landmarks (K, 2) in its pixels; faint where trust is low."""
    canvas = to_channels(image, 3).copy()
    radius = max(2, round(min(canvas.shape[:2]) / 70))
    sixteenth = 16  # sub-pixel drawing: OpenCV takes sixteenths and puts pixel centres at whole numbers
    for k, colour in enumerate(colours(len(points))):
        if not np.isfinite(points[k]).all():
            continue
        # Only the dot's surroundings are blended, so that large photos cost no more than small ones.
        left, top = np.maximum(np.floor(points[k]).astype(int) - radius - 3, 0)
        patch = canvas[top : top + 2 * radius + 7, left : left + 2 * radius + 7]
        if not patch.size:
            continue
        x, y = (round((value - 0.5) * sixteenth) for value in points[k] - (left, top))
        layer = patch.copy()
        cv2.circle(layer, (x, y), (radius + 1) * sixteenth, (255, 255, 255), -1, cv2.LINE_AA, 4)
        cv2.circle(layer, (x, y), radius * sixteenth, colour, -1, cv2.LINE_AA, 4)
        weight = 1.0 if trust is None else 0.35 + 0.65 * float(trust[k])
        patch[:] = cv2.addWeighted(layer, weight, patch, 1 - weight, 0)
    return canvas


def draw_trails(image: NDArray[np.uint8], recent: NDArray[np.floating]) -> NDArray[np.uint8]:
    """A colour copy of (H, W, 1 or 3) with the recent path (n, K, 2) of each landmark, faint further back."""
    canvas = to_channels(image, 3).copy()
    faint = canvas.copy()
    for k, colour in enumerate(colours(recent.shape[1])):
        path = recent[np.isfinite(recent[:, k]).all(-1), k]
        line = np.round((path - 0.5) * 16).astype(np.int32).reshape(-1, 1, 2)
        cv2.polylines(faint, [line], False, colour, 1, cv2.LINE_AA, 4)
        cv2.polylines(canvas, [line[len(line) // 2 :]], False, colour, 1, cv2.LINE_AA, 4)
    return np.asarray(cv2.addWeighted(canvas, 0.6, faint, 0.4, 0), np.uint8)


def contact_sheet(tiles: Sequence[NDArray[np.uint8]], columns: int, gap: int = 4) -> NDArray[np.uint8]:
    """Equal-sized colour tiles in a grid on white."""
    height, width = tiles[0].shape[:2]
    rows = -(-len(tiles) // columns)
    sheet = np.full((rows * (height + gap) + gap, columns * (width + gap) + gap, 3), 255, np.uint8)
    for i, tile in enumerate(tiles):
        top, left = gap + (i // columns) * (height + gap), gap + (i % columns) * (width + gap)
        sheet[top : top + height, left : left + width] = tile
    return sheet


def write_image(path: Path, image: NDArray[np.uint8]) -> None:
    """PNG or JPEG by the name's ending, RGB. Pillow writes a PNG as it encodes; OpenCV would hold it."""
    from PIL import Image

    ending = path.suffix.lower()
    if ending not in (".png", ".jpg"):
        raise TrigpointError(f"Cannot write {path}: its name must end in .png or .jpg.")
    picture = Image.fromarray(image)
    with writing_atomically(path) as stream:
        if ending == ".png":
            picture.save(stream, "PNG", compress_level=1)
        else:
            data = BytesIO()  # into a file, Pillow would not see that the disk is full
            picture.save(data, "JPEG", quality=95)
            stream.write(data.getbuffer())
