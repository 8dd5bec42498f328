"""A DeepLabCut project: its videos to discover landmarks on, its labelled frames to fit and to test.

    PROJECT/videos/*.mp4 ...
    PROJECT/labeled-data/FOLDER/CollectedData_SCORER.csv (or .h5), img001.png ...

A folder of labelled frames comes from one video of one camera, so its frames are prepared as a video's are.
"""

from __future__ import annotations

import csv
import importlib.util
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trigpoint.core import apart
from trigpoint.core.config.tree import EVERY_FRAME, VideoConfig
from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import Placement
from trigpoint.core.io import printable
from trigpoint.core.sources.base import Annotations, Source, Split, require, require_pixels
from trigpoint.core.sources.images import read_image, to_channels
from trigpoint.core.sources.subject import Subject, prepare_subject
from trigpoint.core.sources.video import Videos, video_files


def open_project(folder: Path, split: Split, video: VideoConfig) -> Source:
    """The project's videos to train on, if it has any; its labelled frames to fit and test on."""
    require(folder / "labeled-data", "DeepLabCut")
    if split == "test":
        raise TrigpointError(
            "A DeepLabCut project has no test images; `trigpoint fit` cross-validates over its folders."
        )
    if split == "train" and video_files([folder / "videos"] if (folder / "videos").is_dir() else []):
        videos = Videos([folder / "videos"], video)
        videos.words = (f"deeplabcut:{folder}",)
        videos.description = f"deeplabcut:{folder}"
        return videos
    return LabelledFrames(folder, video)


class Stills:
    """The images of one folder, as a video whose frames are far apart in time."""

    rate = 0.0

    def __init__(self, path: Path, files: list[Path]) -> None:
        self.path, self.files = path, files

    def __len__(self) -> int:
        return len(self.files)

    def read(self, frame: int, form: str = "rgb24") -> NDArray[np.uint8]:
        return to_channels(read_image(self.files[frame]), 3)


class LabelledFrames(Source):
    """The frames that somebody labelled; body parts that are not labelled on a frame are NaN."""

    annotations: Annotations | None = None

    of_videos = True

    def __init__(self, folder: Path, config: VideoConfig = EVERY_FRAME) -> None:
        self.description = f"deeplabcut:{folder}"
        self.words: tuple[str, ...] = (self.description,)
        self.config = config
        tables: list[Path] = []
        for below in sorted((folder / "labeled-data").iterdir()):
            tables += sorted(below.glob("CollectedData*.csv")) or sorted(below.glob("CollectedData*.h5"))
        if not tables:
            raise TrigpointError(
                f"{folder / 'labeled-data'} holds no CollectedData file: nothing is labelled."
            )
        names: tuple[str, ...] = ()
        self.stills: list[Stills] = []
        self.places: list[tuple[int, int]] = []  # folder and frame in it
        points: list[NDArray[np.float64]] = []
        for table in tables:
            parts, rows = read_labels(table)
            if names and parts != names:
                raise TrigpointError(f"{table} has other body parts than {tables[0]}.")
            names = parts
            files = [table.parent / name for name, _ in rows]
            present = [number for number, file in enumerate(files) if os.path.isfile(file)]
            self.places += [(len(self.stills), place) for place in range(len(present))]
            self.stills.append(Stills(table.parent, [files[number] for number in present]))
            points += [rows[number][1] for number in present]
        if not points:
            raise TrigpointError(f"None of the frames labelled in {folder / 'labeled-data'} is there.")
        self.annotations = Annotations(names, np.array(points), None, "image edge")
        self._opened: tuple[int, Subject] | None = None

    def __len__(self) -> int:
        return len(self.places)

    def name(self, index: int) -> str:
        number, frame = self.places[index]
        file = self.stills[number].files[frame]
        return f"{file.parent.name}/{file.name}"

    def group(self, index: int) -> str:
        """The folder, hence the video: what cross-validation must not have on both sides."""
        return self.stills[self.places[index][0]].path.name

    def file(self, index: int) -> Path:
        return self.stills[self.places[index][0]].files[self.places[index][1]]

    def image(self, index: int) -> NDArray[np.uint8]:
        number, frame = self.places[index]
        pixels = self.stills[number].read(frame)
        subject = self._subject(number)
        return subject.image(pixels) if subject else pixels

    def box(self, index: int) -> Placement | None:
        number, frame = self.places[index]
        subject = self._subject(number)
        return subject.box(frame) if subject else None

    def _subject(self, number: int) -> Subject | None:
        if self.config.background == "keep" and not self.config.follow and not self.config.crop:
            return None
        if self._opened is None or self._opened[0] != number:
            self._opened = number, prepare_subject(self.stills[number], self.config)
        return self._opened[1]


def read_labels(table: Path) -> tuple[tuple[str, ...], list[tuple[str, NDArray[np.float64]]]]:
    """Body parts, and for each row the image's file name and its points (L, 2), NaN where not labelled."""
    rows = _rows_of_h5(table) if table.suffix == ".h5" else _rows_of_csv(table)
    if len(rows) < 3 or rows[1][:1] != ["bodyparts"] or rows[2][:1] != ["coords"]:
        raise TrigpointError(f"{table}: expected DeepLabCut's three header rows scorer, bodyparts, coords.")
    first = next((column for column, word in enumerate(rows[2]) if word == "x"), 0)
    if (
        first < 1
        or (len(rows[2]) - first) % 2
        or rows[2][first:] != ["x", "y"] * ((len(rows[2]) - first) // 2)
    ):
        raise TrigpointError(f"{table}: expected columns x, y for each body part.")
    parts = tuple(rows[1][first::2])
    found = []
    for number, row in enumerate(rows[3:], 4):
        if not row:
            continue
        try:
            values = np.array([float(word) if word.strip() else np.nan for word in row[first:]])
            points = values.reshape(len(parts), 2)
        except ValueError:
            raise TrigpointError(f"{table}, line {number}: expected {2 * len(parts)} numbers.") from None
        points[~np.isfinite(points).all(-1)] = np.nan
        require_pixels(points, printable(str(table)))
        # DeepLabCut 2 has the whole path in one column, with the separators of the system it ran on.
        name = row[first - 1].replace("\\", "/").split("/")[-1]
        found.append((name, points + 0.5))  # DeepLabCut counts from the centre of the first pixel
    return parts, found


def _rows_of_csv(table: Path) -> list[list[str]]:
    try:
        with table.open(encoding="utf-8", newline="") as stream:
            return list(csv.reader(stream))
    except (UnicodeDecodeError, csv.Error) as error:
        raise TrigpointError(f"{table} is no table of text ({error}).") from None


def _rows_of_h5(table: Path) -> list[list[str]]:
    if importlib.util.find_spec("h5py") is None:
        raise TrigpointError(f"{printable(str(table))} needs h5py: pip install 'trigpoint[dlc]'.")
    try:
        found, arrays = apart.call("trigpoint.core.readers.frame:read_frame", str(table.resolve()))
    except apart.ReaderFailed as failure:
        raise TrigpointError(f"{printable(str(table))} is no readable HDF5 table ({failure}).") from None
    if not found["columns"]:
        return []
    levels = zip(*found["columns"], strict=True)
    header = [[name, *words] for name, words in zip(("scorer", "bodyparts", "coords"), levels, strict=True)]
    body = [
        [name, *map(str, row)] for name, row in zip(found["rows"], arrays["values"].tolist(), strict=True)
    ]
    return header + body
