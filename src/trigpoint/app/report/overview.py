"""RUN/overview.png: what a run found, in one picture that fits into a README or a slide."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from trigpoint.core.files.overlay import contact_sheet, draw_landmarks
from trigpoint.core.sources.images import to_channels

COLUMNS, TILE = 9, 112

Bytes = NDArray[np.uint8]
Points = NDArray[np.float64]


def overview(pixels: Bytes, landmarks: Points, decoded: Bytes, morphs: list[tuple[Bytes, Points]]) -> Bytes:
    """Rows: images with their landmarks, their reconstructions, and morphs (frames and their path)."""
    count = min(COLUMNS, len(pixels))
    blank = np.full((TILE, TILE, 3), 255, np.uint8)

    def row(tiles: list[Bytes]) -> list[Bytes]:
        return tiles + [blank] * (COLUMNS - len(tiles))

    tiles = row([marked(pixels[i], landmarks[i]) for i in range(count)])
    tiles += row([enlarged(decoded[i]) for i in range(count)])
    for frames, path in morphs:
        chosen = np.linspace(0, len(frames) - 1, COLUMNS).astype(int)
        tiles += [marked(frames[i], path[i]) for i in chosen]
    return contact_sheet(tiles, COLUMNS, gap=6)


def enlarged(image: Bytes) -> Bytes:
    picture = cv2.resize(to_channels(image, 3), (TILE, TILE), interpolation=cv2.INTER_CUBIC)
    return np.asarray(picture, np.uint8)


def marked(image: Bytes, points: Points) -> Bytes:
    return draw_landmarks(enlarged(image), points * TILE)
