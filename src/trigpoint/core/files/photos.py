"""The keypoints of images in the formats of the tools that people use afterwards, made from their table.

The conventions are those of videos (`files/formats.py`): the row of an image is called by its name, where a
frame's is called by its number.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.files.formats import (
    CHUNK,
    SCORER,
    annotation,
    deeplabcut_columns,
    deeplabcut_values,
    names_elsewhere,
    needed,
    save_slp,
)
from trigpoint.core.files.frame import write_frame
from trigpoint.core.files.table import Rows
from trigpoint.core.io import cell


@dataclass(frozen=True)
class Photo:
    file: Path | None  # where it lay, if it is among the inputs of the call
    size: tuple[int, int]  # width, height


@dataclass(frozen=True)
class PhotoKeypoints:
    """What was found on images."""

    table: Path
    names: tuple[str, ...]
    photos: dict[str, Photo]  # by the names in the table

    @cached_property
    def rows(self) -> Rows:
        return Rows(self.table)

    def points(self, name: str) -> list[NDArray[np.float64]]:
        """x, y, confidence (L, 3) of each subject on an image."""
        found = self.rows.of(name)
        if any(len(one.points) != len(self.names) for one in found):
            raise TrigpointError(f"{self.table} is damaged; --overwrite makes it again.")
        return [np.column_stack((one.points, one.confidence)) for one in found]

    def single(self) -> Iterator[NDArray[np.float64]]:
        """The same (L, 3) of images with one subject at most, NaN where there is none."""
        for name in self.photos:
            found = self.points(name)
            if len(found) > 1:
                raise TrigpointError(
                    f"DeepLabCut's file has one row for an image, and {name} has {len(found)} subjects: "
                    "choose --format csv or coco, or say with --box or --whole where the one is."
                )
            yield found[0] if found else np.full((len(self.names), 3), np.nan)


def write_dlc_csv(path: Path, found: PhotoKeypoints) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        for word, cells in deeplabcut_columns(found.names):
            writer.writerow((word, *map(cell, cells)))
        for name, points in zip(found.photos, found.single(), strict=True):
            values = deeplabcut_values(points[None])[0]
            writer.writerow((name, *("" if np.isnan(value) else f"{value:.4f}" for value in values)))


def write_dlc_h5(path: Path, found: PhotoKeypoints) -> None:
    needed("h5py", "dlc")
    columns = deeplabcut_columns(found.names)
    write_frame(path, "df_with_missing", columns, tuple(found.photos), _blocks(found))


def _blocks(found: PhotoKeypoints) -> Iterator[tuple[int, NDArray[np.float64]]]:
    start, pile = 0, []
    for points in found.single():
        pile.append(points)
        if len(pile) == CHUNK:
            yield start, deeplabcut_values(np.stack(pile))
            start, pile = start + len(pile), []
    if pile:
        yield start, deeplabcut_values(np.stack(pile))


def write_coco(path: Path, found: PhotoKeypoints) -> None:
    """One annotation for each subject."""
    names = names_elsewhere(found.names)
    head = {
        "info": {"description": "images, by trigpoint"},
        "categories": [{"id": 1, "name": "subject", "keypoints": names, "skeleton": []}],
    }
    with path.open("w") as stream:
        stream.write(json.dumps(head)[:-1] + ', "images": [')
        for number, (name, photo) in enumerate(found.photos.items(), 1):
            entry = {"id": number, "file_name": name, "width": photo.size[0], "height": photo.size[1]}
            stream.write((", " if number > 1 else "") + json.dumps(entry))
        stream.write('], "annotations": [')
        count = 0
        for number, name in enumerate(found.photos, 1):
            for points in found.points(name):
                count += 1
                entry = annotation(points, count, number)
                stream.write((", " if count > 1 else "") + json.dumps(entry))
        stream.write("]}\n")


def write_slp(path: Path, found: PhotoKeypoints) -> None:
    """A list of images is a video to SLEAP; its own library holds all of it in memory."""
    sio = needed("sleap_io", "sleap")
    skeleton = sio.Skeleton(nodes=list(names_elsewhere(found.names)), name=SCORER)
    files = [str(photo.file.resolve()) if photo.file else name for name, photo in found.photos.items()]
    width, height = next(iter(found.photos.values())).size
    about = {"type": "ImageVideo", "filename": files[0], "filenames": files, "grayscale": False}
    about |= {"shape": (len(files), height, width, 3), "height_": height, "width_": width, "channels_": 3}
    # Closed: no image is read to write their names.
    video = sio.Video(filename=files, open_backend=False, backend_metadata=about)
    frames = []
    for number, name in enumerate(found.photos):
        instances = [
            sio.PredictedInstance.from_numpy(
                points[:, :2] - 0.5,
                skeleton=skeleton,
                point_scores=points[:, 2],
                score=float(points[:, 2].mean()),
            )
            for points in found.points(name)
        ]
        if instances:
            frames.append(sio.LabeledFrame(video=video, frame_idx=number, instances=instances))
    save_slp(path, sio.Labels(labeled_frames=frames, videos=[video], skeletons=[skeleton]), files)


WRITERS = {"dlc": write_dlc_csv, "h5": write_dlc_h5, "coco": write_coco, "slp": write_slp}
