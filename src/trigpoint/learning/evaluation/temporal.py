"""How steady landmarks are over time, measured without labels on consecutive frames of a video.

- jitter: what a trajectory has of noise from frame to frame. The second difference of white noise of standard
  deviation s has one of s sqrt(6), while slow motion leaves it near 0; so jitter is its RMS over sqrt(6), in
  pixels of the original frame.
- flow: how far a landmark is from where the optical flow says that it was five frames before, in pixels.
- low confidence: the share of frames on which a landmark's confidence is below 0.3.
- on the subject: where it is told from a background, the share of frames on which a landmark lies on it, or
  within 2 % of the crop's edge of it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from trigpoint.core import geometry
from trigpoint.core.errors import UnreadableImage
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.landmarks import LOW
from trigpoint.core.sources.base import Source
from trigpoint.core.sources.images import to_channels
from trigpoint.learning.data.flows import INTERVAL
from trigpoint.learning.warps.flow import farneback, follow

FRAMES = 300  # looked at
BESIDE = 0.02  # edges of the crop: as close to the subject as this is on it
FLOW_SIZE = 128  # pixels of the squares that flow is computed on


@dataclass(frozen=True)
class Temporal:
    """Of at most 300 frames from the start of a video."""

    name: str  # of its first frame
    points: NDArray[np.float64]  # (n, K, 2) pixels of the original frames
    jitter: NDArray[np.float64]  # (K,) pixels
    flow: NDArray[np.float64]  # (K,) pixels; NaN where the stretch is too short
    low: NDArray[np.float64]  # (K,) shares
    subject: NDArray[np.float64] | None = None  # (K,) shares; None where no background is known

    def to_dict(self) -> dict[str, Any]:
        def listed(values: NDArray[np.float64]) -> list[float | None]:
            return [round(float(value), 4) if np.isfinite(value) else None for value in values]

        return {
            "first_frame": self.name,
            "frames": len(self.points),
            "jitter_pixels": listed(self.jitter),
            "flow_pixels": listed(self.flow),
            "low_confidence": listed(self.low),
            "on_subject": None if self.subject is None else listed(self.subject),
            "trajectories": np.round(self.points, 2).tolist(),
        }


def temporal(predictor: Predictor, source: Source, frames: int = FRAMES) -> Temporal | None:
    """Measure on the first images of a source, which follow each other in time; None if too few."""
    rows = range(min(len(source), frames))
    points, trust, drifts, hits = [], [], [], []
    recent: deque[tuple[NDArray[np.uint8], NDArray[np.float64], geometry.Placement]] = deque(
        maxlen=INTERVAL + 1
    )
    for row in rows:
        try:
            image = source.image(row)
        except UnreadableImage:
            break
        box = source.box(row)
        square, place = predictor.prepare(image, box)
        found = predictor.detect_prepared(square[None], [place])[0]
        grey = geometry.extract(to_channels(image, 1), place, FLOW_SIZE)[:, :, 0]
        points.append(found.points)
        trust.append(found.confidence)
        mask = source.foreground(row)
        if mask is not None and mask.any():
            hits.append(on_mask(mask, found.points, BESIDE * max(place.width, place.height)))
        recent.append((grey, place.to_unit(found.points), place))
        if len(recent) > INTERVAL:
            (earlier, before, past), now = recent[0], recent[-1]
            flow = torch.from_numpy(farneback(now[0], earlier)).permute(2, 0, 1)[None]
            expected = follow(flow, torch.from_numpy(now[1]).float()[None])[0].numpy()
            drifts.append(np.linalg.norm((expected - before) * (past.width, past.height), axis=-1))
    if len(points) < 8:
        return None
    path = np.array(points)
    flow_error = np.mean(drifts, axis=0) if drifts else np.full(path.shape[1], np.nan)
    low = (np.array(trust) < LOW).mean(0)
    subject = np.mean(hits, axis=0) if hits else None
    return Temporal(source.name(rows[0]), path, jitter(path), flow_error, low, subject)


def on_mask(mask: NDArray[np.bool_], points: NDArray[np.float64], reach: float) -> NDArray[np.bool_]:
    """Which points (K, 2) in pixels lie on the mask (H, W) or no further than `reach` pixels from it."""
    away = cv2.distanceTransform((~mask).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    height, width = mask.shape
    columns, rows = np.floor(points).astype(int).T
    inside = (columns >= 0) & (columns < width) & (rows >= 0) & (rows < height)
    near = away[rows.clip(0, height - 1), columns.clip(0, width - 1)] <= reach
    return np.asarray(inside & near)


def jitter(path: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n, K, 2) -> (K,): see above."""
    second = np.diff(path, 2, axis=0)
    return np.asarray(np.sqrt(np.square(second).sum(-1).mean(0) / 6))
