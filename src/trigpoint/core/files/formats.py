"""The keypoints of one video in the formats of the tools that people use afterwards. docs/formats.md has a
paragraph on each.

Inside trigpoint the centre of the first pixel is (0.5, 0.5). DeepLabCut and SLEAP count from that centre, so
there half a pixel is taken off.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.files.frame import OVERHEAD, write_frame
from trigpoint.core.files.table import HEADER
from trigpoint.core.io import cell, reserve

CHUNK = 4096  # frames in memory while a file is written
SCORER = "trigpoint"


@dataclass(frozen=True)
class Keypoints:
    """What was found on a video."""

    video: Path
    # (frames, L, 3): x, y in pixels of the original frame, confidence; NaN where a frame is missing
    points: NDArray[np.float32]
    names: tuple[str, ...]
    rate: float  # frames a second
    size: tuple[int, int]  # width, height

    def chunks(self) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """First frame and points (n, L, 3) of one stretch of frames after the other."""
        for start in range(0, len(self.points), CHUNK):
            yield start, np.asarray(self.points[start : start + CHUNK], np.float64)


@dataclass(frozen=True)
class Format:
    ending: str
    write: Callable[[Path, Keypoints], None]
    text: str
    needs: tuple[str, ...] = ()  # libraries
    extra: str = ""  # of trigpoint, which has them


def write_csv(path: Path, found: Keypoints) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(HEADER)
        for start, points in found.chunks():
            for frame, rows in enumerate(points, start):
                for name, (x, y, trust) in zip(found.names, rows, strict=True):
                    if np.isfinite(x):
                        numbers = (f"{x:.2f}", f"{y:.2f}", f"{trust:.3f}")
                        writer.writerow((cell(found.video.name), frame, 0, cell(name), *numbers))


def names_elsewhere(names: Sequence[str]) -> tuple[str, ...]:
    """The names for other tools, which refuse numbers as names: a landmark that nobody named is `landmark3`,
    and `landmark3_` where somebody gave that name to another one."""
    found: dict[int, str] = {}
    given_first = sorted(range(len(names)), key=lambda k: _is_number(names[k]))
    for k in given_first:
        label = f"landmark{names[k]}" if _is_number(names[k]) else names[k]
        while label in found.values():
            label += "_"
        found[k] = label
    return tuple(found[k] for k in range(len(names)))


def _is_number(name: str) -> bool:
    """Whether a tool that reads it may take it for a number, or for a missing one."""
    try:
        float(name or "nan")
    except ValueError:
        return False
    return True


def deeplabcut_columns(names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """DeepLabCut's three header rows."""
    parts = [label for label in names_elsewhere(names) for _ in range(3)]
    return [
        ("scorer", [SCORER] * len(parts)),
        ("bodyparts", parts),
        ("coords", ["x", "y", "likelihood"] * len(names)),
    ]


def deeplabcut_values(points: NDArray[np.float64]) -> NDArray[np.float64]:
    return (points - (0.5, 0.5, 0.0)).reshape(len(points), -1)


def write_dlc_csv(path: Path, found: Keypoints) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        for word, cells in deeplabcut_columns(found.names):
            writer.writerow((word, *map(cell, cells)))
        for start, points in found.chunks():
            for frame, row in enumerate(deeplabcut_values(points), start):
                writer.writerow((frame, *("" if np.isnan(value) else f"{value:.4f}" for value in row)))


def write_dlc_h5(path: Path, found: Keypoints) -> None:
    needed("h5py", "dlc")
    blocks = ((start, deeplabcut_values(points)) for start, points in found.chunks())
    write_frame(path, "df_with_missing", deeplabcut_columns(found.names), len(found.points), blocks)


def write_coco(path: Path, found: Keypoints) -> None:
    """One image per frame, one annotation on each; the confidence of a keypoint in `scores`."""
    width, height = found.size
    names = names_elsewhere(found.names)
    head = {
        "info": {"description": f"{found.video.name}, by trigpoint"},
        "categories": [{"id": 1, "name": "subject", "keypoints": names, "skeleton": []}],
    }
    with path.open("w") as stream:
        stream.write(json.dumps(head)[:-1] + ', "images": [')
        for frame in range(len(found.points)):
            entry = {"id": frame + 1, "file_name": f"{found.video.name}:{frame:06d}", "frame": frame}
            entry |= {"width": width, "height": height}
            stream.write((", " if frame else "") + json.dumps(entry))
        stream.write('], "annotations": [')
        first = True
        for start, points in found.chunks():
            for frame, rows in enumerate(points, start):
                if np.isfinite(rows[:, 0]).any():
                    stream.write(("" if first else ", ") + json.dumps(annotation(rows, frame + 1, frame + 1)))
                    first = False
        stream.write("]}\n")


def annotation(rows: NDArray[np.float64], number: int, image: int) -> dict[str, object]:
    """One subject (L, 3) as COCO has it."""
    low, high = np.nanmin(rows[:, :2], 0), np.nanmax(rows[:, :2], 0)
    keypoints: list[float] = []
    for x, y, _ in rows:
        keypoints += [round(float(x), 2), round(float(y), 2), 2] if np.isfinite(x) else [0, 0, 0]
    extent = [round(float(value), 2) for value in (*low, *(high - low))]
    return {
        "id": number,
        "image_id": image,
        "category_id": 1,
        "iscrowd": 0,
        "bbox": extent,
        "area": round(extent[2] * extent[3], 2),
        "num_keypoints": int(np.isfinite(rows[:, 0]).sum()),
        "keypoints": keypoints,
        "scores": [round(float(trust), 3) if np.isfinite(trust) else 0.0 for trust in rows[:, 2]],
        "score": round(float(np.nanmean(rows[:, 2])), 3),
    }


def write_slp(path: Path, found: Keypoints) -> None:
    """SLEAP's own file, by its own library, which holds all of it in memory."""
    sio = needed("sleap_io", "sleap")
    skeleton = sio.Skeleton(nodes=list(names_elsewhere(found.names)), name=SCORER)
    name, (width, height) = str(found.video.resolve()), found.size
    about: dict[str, object] = {
        "type": "MediaVideo",
        "filename": name,
        "shape": (len(found.points), height, width, 3),
    }
    about |= {"grayscale": False, "bgr": True, "dataset": "", "input_format": "", "fps": found.rate}
    # Closed: the library would open it with another reader, which names that are not UTF-8 crash.
    video = sio.Video(filename=name, open_backend=False, backend_metadata=about)
    frames = []
    for start, points in found.chunks():
        for frame, rows in enumerate(points, start):
            if not np.isfinite(rows[:, 0]).any():
                continue
            instance = sio.PredictedInstance.from_numpy(
                rows[:, :2] - 0.5,
                skeleton=skeleton,
                point_scores=np.nan_to_num(rows[:, 2]),
                score=float(np.nanmean(rows[:, 2])),
            )
            frames.append(sio.LabeledFrame(video=video, frame_idx=frame, instances=[instance]))
    save_slp(path, sio.Labels(labeled_frames=frames, videos=[video], skeletons=[skeleton]), [found.video])


def save_slp(path: Path, labels: Any, files: Iterable[object]) -> None:
    """As a file. The library goes by the name's ending, which a temporary name has too."""
    frames = labels.labeled_frames
    instances = sum(len(frame.instances) for frame in frames)
    text = sum(len(str(file).encode(errors="replace")) for file in files)
    size = 256 * len(frames) + (256 + 32 * len(labels.skeletons[0].nodes)) * instances + 16 * text
    reserve(path, OVERHEAD + size)
    needed("sleap_io", "sleap").save_slp(labels, str(path), verbose=False)


def require(names: Iterable[str]) -> None:
    """Refuse a format whose library is missing: before the work, not after it."""
    for name in names:
        for module in FORMATS[name].needs:
            needed(module, FORMATS[name].extra)


def needed(module: str, extra: str):  # type: ignore[no-untyped-def]  # whatever the library is
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise TrigpointError(f"This format needs {module}: pip install 'trigpoint[{extra}]'.") from None


FORMATS = {
    "csv": Format(".csv", write_csv, "a table with one row per landmark and frame"),
    "dlc": Format(".dlc.csv", write_dlc_csv, "DeepLabCut, CSV"),
    "h5": Format(".dlc.h5", write_dlc_h5, "DeepLabCut, HDF5", ("h5py",), "dlc"),
    "coco": Format(".coco.json", write_coco, "COCO keypoints"),
    "slp": Format(".slp", write_slp, "SLEAP", ("sleap_io",), "sleap"),
}
