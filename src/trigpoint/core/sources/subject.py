"""The subject of a video by a static camera: told from its background, followed by a square crop.

Every step is optional. Whatever the crop does is a `Placement`, so landmarks go back to pixels of the
original frame exactly.

The background is the median of frames spread over the video, so the subject must not stay in one place for
more than half of it. What differs from the background is foreground; small specks and holes are closed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Protocol
from zipfile import BadZipFile

import cv2
import numpy as np
from numpy.typing import NDArray

from trigpoint.core.config.tree import VideoConfig
from trigpoint.core.errors import UnreadableImage
from trigpoint.core.geometry import Placement

GREY = 128
SAMPLES = 61  # frames that the background is the median of
DIFFERENCE = 24  # grey levels between foreground and background at least, in some channel
NOISE = 6  # times the frames' own noise, where that is more
SEARCH = 160  # pixels: the longer edge of the frames in which the subject is looked for
SMOOTH = 0.25  # seconds: standard deviation of the smoothing of the crop's path
ZOOM = 1.0  # seconds: the same of its size, where that follows


class Frames(Protocol):
    """What is needed of a video."""

    path: Path

    @property
    def rate(self) -> float: ...

    def __len__(self) -> int: ...

    def read(self, frame: int, form: str = "rgb24") -> NDArray[np.uint8]: ...


class Background:
    """A static camera's empty scene."""

    def __init__(self, video: Frames) -> None:
        pile = []
        for frame in np.unique(np.linspace(0, len(video) - 1, min(SAMPLES, len(video))).round().astype(int)):
            try:
                pile.append(video.read(int(frame)))
            except UnreadableImage:
                continue
        shapes = [pixels.shape for pixels in pile]
        pile = [pixels for pixels in pile if pixels.shape == max(shapes, key=shapes.count)]
        if len(pile) < 3:
            raise UnreadableImage(f"{video.path.name} has too few readable frames to tell its background.")
        self.scene = np.median(pile, axis=0).astype(np.uint8)
        # How much a pixel of the scene moves by itself: a median, so that the subject does not count.
        noise = np.median([np.asarray(cv2.absdiff(pixels, self.scene)).max(-1) for pixels in pile])
        self.threshold = float(max(DIFFERENCE, NOISE * noise))
        self.mean = self.scene.reshape(-1, 3).mean(0)

    def foreground(self, frame: NDArray[np.uint8], crop: Placement | None = None) -> NDArray[np.bool_]:
        """(H, W, 3) -> where the subject is (H, W); nothing outside of the crop counts."""
        if frame.shape != self.scene.shape:
            raise UnreadableImage(
                f"the frame has {frame.shape[1]}x{frame.shape[0]} pixels, others more or less"
            )
        return mask_of(within(crop, cv2.absdiff(frame, self.scene)), self.threshold)


def within(
    crop: Placement | None, difference: Any, ratio: tuple[float, float] = (1.0, 1.0)
) -> NDArray[np.uint8]:
    """A difference image (H, W, 3) without what lies outside of the crop; `ratio` is how many of the crop's
    pixels one of the image's spans in x and y."""
    if crop is None:
        return np.asarray(difference, np.uint8)
    left, right = (max(0, math.ceil(x / ratio[0] - 0.5)) for x in (crop.x, crop.x + crop.width))
    top, bottom = (max(0, math.ceil(y / ratio[1] - 0.5)) for y in (crop.y, crop.y + crop.height))
    kept = np.zeros(difference.shape, np.uint8)
    kept[top:bottom, left:right] = difference[top:bottom, left:right]
    return kept


def mask_of(difference: NDArray[np.uint8], threshold: float) -> NDArray[np.bool_]:
    """Where a difference image (H, W, 3) is large, without specks and holes; the largest piece and what is
    at least a tenth of it."""
    # Each step by OpenCV: NumPy's maximum over the last axis alone would take most of the time.
    largest = reduce(cv2.max, cv2.split(cv2.GaussianBlur(difference, (0, 0), 1)))
    changed = cv2.threshold(largest, threshold, 1, cv2.THRESH_BINARY)[1]
    reach = max(3, round(max(changed.shape) / 160)) | 1
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (reach, reach))
    wide = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (3 * reach, 3 * reach))
    clean = cv2.morphologyEx(cv2.morphologyEx(changed, cv2.MORPH_OPEN, disc), cv2.MORPH_CLOSE, wide)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(clean)
    if count < 2:
        return np.zeros(clean.shape, bool)
    areas = stats[:, cv2.CC_STAT_AREA].astype(float)
    areas[0] = 0
    return np.asarray((areas >= areas.max() / 10)[labels])


@dataclass(frozen=True)
class Subject:
    """How the frames of one video are prepared."""

    crop: Placement | None  # the region of interest
    background: Background | None  # removed where there is one and it has a fill
    fill: tuple[int, int, int] | None
    track: NDArray[np.float64] | None  # (frames, 3) centre x, y and edge of the crop that follows

    def image(self, frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The frame (H, W, 3) with its background replaced, if so wished."""
        if self.background is None or self.fill is None:
            return frame
        mask = self.background.foreground(frame, self.crop)
        image = np.full_like(frame, self.fill)
        return np.asarray(cv2.copyTo(frame, mask.astype(np.uint8), image))

    def box(self, frame: int) -> Placement | None:
        """What of the frame the model looks at."""
        if self.track is None:
            return self.crop
        x, y, edge = self.track[min(frame, len(self.track) - 1)].tolist()
        grey = None if self.fill is None else round(sum(self.fill) / 3)
        return Placement(x - edge / 2, y - edge / 2, edge, edge, fill=grey)


def prepare_subject(video: Frames, config: VideoConfig) -> Subject:
    """Everything that must be known of a video before its frames can be prepared."""
    crop = None
    if config.crop:
        x, y, width, height = config.crop
        crop = Placement(x, y, width, height)
    if config.background == "keep" and not config.follow:
        return Subject(crop, None, None, None)
    background = Background(video)
    fill = None
    if config.background != "keep":
        mean = background.mean.round().astype(int)
        fill = (
            (GREY, GREY, GREY) if config.background == "grey" else (int(mean[0]), int(mean[1]), int(mean[2]))
        )
    track = follow(video, background, config, crop) if config.follow else None
    return Subject(crop, background, fill, track)


def follow(
    video: Frames, background: Background, config: VideoConfig, crop: Placement | None
) -> NDArray[np.float64]:
    """The square crop's centre and edge (frames, 3): smooth in time, one size unless the config has `zoom`.

    The subject is looked for on small frames. Where it is not seen, the path between the frames before and
    after is a straight line. The result is kept beside other caches, as it takes a pass over the video.
    """
    kept = _cache_file(video, config)
    with suppress(OSError, ValueError, KeyError, EOFError, BadZipFile):  # none, or a damaged one: look again
        with kept.open("rb") as stream, np.load(stream) as cached:
            found = np.asarray(cached["track"])
        if found.shape == (len(video), 3):
            return found
    height, width = background.scene.shape[:2]
    scale = min(1.0, SEARCH / max(height, width))
    small = (max(8, round(width * scale)), max(8, round(height * scale)))
    ratio = (width / small[0], height / small[1])
    scene = cv2.resize(background.scene, small, interpolation=cv2.INTER_AREA)
    centres, sizes = np.full((len(video), 2), np.nan), np.full(len(video), np.nan)
    for frame in range(len(video)):
        try:
            whole = video.read(frame)
        except UnreadableImage:
            continue
        if whole.shape != background.scene.shape:
            continue
        pixels = cv2.resize(whole, small, interpolation=cv2.INTER_AREA)
        changed = within(crop, cv2.absdiff(pixels, scene), ratio)
        rows, columns = np.nonzero(mask_of(changed, background.threshold))
        if len(rows) < 4:
            continue
        low = np.array((columns.min(), rows.min())) * ratio
        high = np.array((columns.max() + 1, rows.max() + 1)) * ratio
        centres[frame], sizes[frame] = (low + high) / 2, (high - low).max()
    if not np.isfinite(sizes).any():
        raise UnreadableImage(f"Nothing moves in {video.path.name}: there is no subject to follow.")
    path = smooth(centres, SMOOTH * video.rate)
    if config.zoom:
        edges = config.scale * smooth(sizes[:, None], ZOOM * video.rate)
    else:
        edges = np.full((len(path), 1), config.scale * float(np.nanquantile(sizes, 0.95)))
    track = np.column_stack((path, edges))
    with suppress(OSError):  # a home that cannot be written to costs time, no more
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_name(f".{os.getpid()}-{kept.name}")
        np.savez(part, track=track)
        part.replace(kept)
    return track


def smooth(path: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """(n, m) with gaps (NaN) bridged by straight lines, then a Gaussian over time."""
    from scipy.ndimage import gaussian_filter1d

    times = np.arange(len(path))
    known = np.isfinite(path).all(-1)
    whole = np.column_stack([np.interp(times, times[known], column[known]) for column in path.T])
    return np.asarray(gaussian_filter1d(whole, sigma, axis=0, mode="nearest")) if sigma > 0 else whole


def _cache_file(video: Frames, config: VideoConfig) -> Path:
    state = video.path.stat()
    what: dict[str, Any] = {
        "path": str(video.path.resolve()),
        "size": state.st_size,
        "time": state.st_mtime_ns,
    }
    what |= {"crop": config.crop, "scale": config.scale, "zoom": config.zoom}
    key = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:24]
    return Path.home() / ".cache" / "trigpoint" / "tracks" / f"{key}.npz"
