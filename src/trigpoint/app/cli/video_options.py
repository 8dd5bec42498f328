"""The options of verbs that take frames of videos."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class VideoOptions:
    """Which frames of videos are taken, and how they are prepared."""

    every: int = 1
    """Of videos: take every so many frames."""
    frames: int = 0
    """Of videos: at most so many frames of each, evenly spread (0: all)."""
    crop: str | None = None
    """Of videos: the region of interest in pixels, LEFT,TOP,WIDTH,HEIGHT."""
    background: Literal["keep", "grey", "mean"] = "keep"
    """Of videos by a static camera: fill the background with grey, or with its mean colour."""
    follow: bool = False
    """Of videos by a static camera: a square crop that follows the subject."""
    zoom: bool = False
    """With --follow: the square's size follows the subject's, too."""
    scale: float | None = None
    """With --follow: the square's edge over the subject's longer side (1.3 unless told)."""

    def assignments(self) -> list[str]:
        """What was given, as single values of the config."""
        from trigpoint.core.errors import TrigpointError
        from trigpoint.core.geometry import parse_box

        values: list[str] = []
        if self.every != 1:
            values.append(f"video.every={self.every}")
        if self.frames:
            values.append(f"video.frames={self.frames}")
        if self.crop is not None:
            box = parse_box(self.crop)
            values.append(f"video.crop=[{box.x},{box.y},{box.width},{box.height}]")
        if self.background != "keep":
            values.append(f"video.background={self.background}")
        if self.follow:
            values.append("video.follow=true")
        if (self.zoom or self.scale is not None) and not self.follow:
            raise TrigpointError("--zoom and --scale are for a crop that follows: give --follow too.")
        if self.zoom:
            values.append("video.zoom=true")
        if self.scale is not None:
            values.append(f"video.scale={self.scale}")
        return values
