"""A SLEAP file (.slp): the labelled frames of the videos, or of the pictures, that it refers to.

Instances labelled by hand; where there are none, the predicted ones. One item for each instance: where a
frame shows several, each is cut out by the box of its points.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.core import apart
from trigpoint.core.config.tree import EVERY_FRAME, VideoConfig
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.geometry import Placement, around
from trigpoint.core.io import printable
from trigpoint.core.sources.base import Annotations, Source, Split, require, require_pixels
from trigpoint.core.sources.deeplabcut import Stills
from trigpoint.core.sources.subject import Subject, prepare_subject
from trigpoint.core.sources.video import Video, is_video

MARGIN = 0.1  # of the longer side of an instance's box, on each side


class SleapLabels(Source):
    annotations: Annotations | None = None

    def __init__(self, path: Path, split: Split = "train", video: VideoConfig = EVERY_FRAME) -> None:
        if require(path, "SLEAP").is_dir():
            raise TrigpointError(f"{path} is a folder; slp takes a file, such as slp:FILE.")
        if split == "test":
            raise TrigpointError(
                "A SLEAP file has no test images; `trigpoint fit` cross-validates over its videos."
            )
        self.folder = path.resolve().parent
        self.description = f"slp:{path}"
        self.words: tuple[str, ...] = (self.description,)
        self.config = video
        found, arrays = _read(path)
        self.videos: list[dict[str, Any]] = found["videos"]
        self.chosen = list(zip(arrays["video"].tolist(), arrays["frame"].tolist(), strict=True))
        points = np.asarray(arrays["points"], np.float64)
        if not len(points):
            raise TrigpointError(f"{path}: no frame is labelled.")
        require_pixels(points, str(path))
        names = tuple(found["nodes"])
        self.annotations = Annotations(names, points, None, "image edge")
        self.several = len(set(self.chosen)) < len(self.chosen)
        self.summary = self._summary(found)
        self._opened: tuple[int, Video | Stills, Subject] | None = None

    def _summary(self, found: dict[str, Any]) -> list[str]:
        """What the file holds, in a few lines."""
        files = [self._files(number) for number in range(len(self.videos))]
        shown = [
            f"{printable(self._called(number))}{'' if files[number] else ' (not found)'}"
            for number in range(len(files))
        ]
        return [
            f"skeleton {printable(found['skeleton'])}: {', '.join(map(printable, found['nodes']))}",
            f"videos: {', '.join(shown[:8])}{', ...' * (len(shown) > 8)}",
            f"{len(set(self.chosen)):,} labelled frames; instances: {found['hands']:,} by hand, "
            f"{found['predicted']:,} predicted"
            + (", which are used" if found["predicted"] and not found["hands"] else ""),
        ]

    def __len__(self) -> int:
        return len(self.chosen)

    def name(self, index: int) -> str:
        number, frame = self.chosen[index]
        name = f"{self._called(number)}:{frame:06d}"
        return f"{name}#{index}" if self.several else name

    def group(self, index: int) -> str:
        """The video: what cross-validation must not have on both sides."""
        return f"{self.chosen[index][0]}"

    def file(self, index: int) -> Path | None:
        number, frame = self.chosen[index]
        files = self._files(number)
        if "file" in self.videos[number]:
            frame = 0
        return files[frame] if 0 <= frame < len(files) else None

    def image(self, index: int) -> NDArray[np.uint8]:
        number, frame = self.chosen[index]
        video, subject = self._open(number)
        if not 0 <= frame < len(video):
            raise UnreadableImage(f"{self._called(number)} ends after {len(video)} frames")
        return subject.image(video.read(frame))

    def box(self, index: int) -> Placement | None:
        number, frame = self.chosen[index]
        if not self.several:
            return self._open(number)[1].box(frame)
        assert self.annotations is not None
        points = self.annotations.points[index]
        if np.isnan(points).all():
            return None
        box = around(points, 0)
        edge = (1 + 2 * MARGIN) * max(box.width, box.height)
        return Placement(box.x + box.width / 2 - edge / 2, box.y + box.height / 2 - edge / 2, edge, edge)

    def _called(self, number: int) -> str:
        """The video's file name, or the first picture's."""
        video = self.videos[number]
        name = video["file"] if "file" in video else next(iter(video["files"]), "")
        return _tail(name) or f"video {number}"

    def _files(self, number: int) -> list[Path]:
        """The video, or the pictures; none where they are not there. A name is that of a file and nothing
        else: FFmpeg would take http:... and the like as an address."""
        video = self.videos[number]
        if "file" in video:
            found = self._find(video["file"])
            return [found] if found is not None and is_video(found) else []
        files = [self._find(name) for name in video["files"]]
        return [file for file in files if file is not None] if all(files) else []

    def _find(self, name: str) -> Path | None:
        """Where the file says, or beside it: projects move."""
        places = (self.folder / name.replace("\\", "/"), self.folder / _tail(name))
        return next((place for place in places if os.path.isfile(place)), None)

    def _open(self, number: int) -> tuple[Video | Stills, Subject]:
        if self._opened is None or self._opened[0] != number:
            files = self._files(number)
            if not files:
                inside = " (the copies of its frames in the file are not read)"
                raise UnreadableImage(
                    f"the video {self._called(number)} is not there{inside * self.videos[number]['inside']}"
                )
            is_one = "file" in self.videos[number]
            opened: Video | Stills = Video(files[0]) if is_one else Stills(files[0].parent, files)
            self._opened = number, opened, prepare_subject(opened, self.config)
        return self._opened[1:]


def _tail(name: str) -> str:
    return name.replace("\\", "/").rstrip("/").rpartition("/")[2]


def _read(path: Path) -> apart.Answer:
    if importlib.util.find_spec("h5py") is None:
        raise TrigpointError(f"{path} needs h5py: pip install 'trigpoint[sleap]'.")
    try:
        return apart.call("trigpoint.core.readers.sleap:read_labels", str(path.resolve()))
    except apart.ReaderFailed as failure:
        raise TrigpointError(f"{path}: expected a SLEAP file ({failure}).") from None
