"""The labels of a SLEAP file (.slp): HDF5 with JSON in it. Pictures inside of it are not read."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.readers.hdf5 import MOST, array, dataset, group, opened, own_values, text

BY_HAND, PREDICTED = 0, 1
CENTRED = (
    1.1  # since this version of the format the centre of the first pixel is (0, 0), before its corner was
)
VIDEOS = 100_000


def read_labels(path: str) -> tuple[Any, dict[str, NDArray[Any]]]:
    """The skeleton's name and nodes, the videos, how many instances were labelled by hand and predicted. Of
    those by hand, or if there are none of the others: the video and frame of each, and its points (n, L, 2)
    from the first pixel's corner, NaN where a point is not visible."""
    file = opened(path)
    about = group(file, "metadata")
    metadata = _object(text(about.attrs["json"]))
    frames, instances = _table(file, "frames"), _table(file, "instances")
    skeleton, nodes = _skeleton(metadata, instances["skeleton"])
    hands, guesses = (int((instances["instance_type"] == kind).sum()) for kind in (BY_HAND, PREDICTED))
    kind, name = (BY_HAND, "points") if hands or not guesses else (PREDICTED, "pred_points")
    chosen = instances[instances["instance_type"] == kind]
    points = _points(_table(file, name), chosen, len(nodes))
    shift = 0.5 if float(about.attrs.get("format_id", 1.0)) >= CENTRED else 0.0
    rows = _rows(frames["frame_id"], chosen["frame_id"])
    videos = _videos(file)
    if len(rows) and int(frames["video"][rows].max()) >= len(videos):
        raise ValueError("a frame is of a video that it does not list")
    found = {"skeleton": skeleton, "nodes": nodes, "videos": videos, "hands": hands, "predicted": guesses}
    numbers = {column: frames[column][rows].astype(np.int64) for column in ("video", "frame_idx")}
    return found, {"video": numbers["video"], "frame": numbers["frame_idx"], "points": points + shift}


def _table(file: Any, name: str) -> NDArray[Any]:
    found = array(dataset(file, name))
    if found.dtype.names is None or found.ndim != 1:
        raise ValueError(f"its {name} are no table")
    return found


def _object(words: str) -> dict[str, Any]:
    found = json.loads(words)
    if not isinstance(found, dict):
        raise ValueError("its JSON is damaged")
    return found


def _skeleton(metadata: dict[str, Any], used: NDArray[Any]) -> tuple[str, list[str]]:
    numbers = sorted(set(used.tolist())) or [0]
    if len(numbers) > 1:
        raise ValueError(f"its instances have {len(numbers)} skeletons, not one")
    skeleton = metadata["skeletons"][int(numbers[0])]
    skeleton = skeleton.get("nx_graph", skeleton)
    nodes = [str(metadata["nodes"][int(node["id"])]["name"]) for node in skeleton["nodes"]]
    if not nodes:
        raise ValueError("its skeleton has no node")
    return str(skeleton.get("graph", {}).get("name", "")), nodes


def _points(points: NDArray[Any], instances: NDArray[Any], count: int) -> NDArray[np.float64]:
    starts = instances["point_id_start"].astype(np.int64)
    ends = instances["point_id_end"].astype(np.int64)
    if (ends - starts != count).any() or (starts < 0).any() or (ends > len(points)).any():
        raise ValueError("an instance has not the points of its skeleton")
    if len(instances) * count * 16 > MOST:
        raise ValueError(f"it has {len(instances) * count:,} points, more than are read")
    rows = points[starts[:, None] + np.arange(count)]
    found = np.stack((rows["x"], rows["y"]), -1).astype(np.float64)
    found[~rows["visible"].astype(bool) | ~np.isfinite(found).all(-1)] = np.nan
    return found


def _rows(numbers: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.int64]:
    """Where the frames of these numbers are."""
    order = np.argsort(numbers, kind="stable")
    places = np.searchsorted(numbers, wanted, sorter=order)
    if len(wanted) and (places.max(initial=0) >= len(numbers) or (numbers[order[places]] != wanted).any()):
        raise ValueError("an instance is of a frame that it does not list")
    return order[places].astype(np.int64)


def _videos(file: Any) -> list[dict[str, Any]]:
    lines = own_values(file.get("videos_json"), "videos_json")
    if lines.ndim != 1 or len(lines) > VIDEOS:
        raise ValueError("its list of videos is damaged")
    return [_video(file, _object(text(line))) for line in lines[()]]


def _video(file: Any, about: dict[str, Any]) -> dict[str, Any]:
    """Where its frames are: in a video, or in a list of pictures. Of one whose frames lie in this very file,
    it is the video that they were taken from."""
    backend = about.get("backend", {})
    name = backend.get("filename", about.get("filename", ""))
    inside = name == "."
    if inside:
        source = _source(file, str(backend.get("dataset", "")).removesuffix("/video"))
        name = source.get("backend", {}).get("filename", source.get("filename", ""))
    files = backend.get("filenames") if not inside else None
    if isinstance(name, list):
        files = name
    if files is not None:
        return {"files": [str(one) for one in files], "inside": inside}
    return {"file": str(name), "inside": inside}


def _source(file: Any, name: str) -> dict[str, Any]:
    if name not in file or "source_video" not in file[name]:
        return {}
    about = group(group(file, name), "source_video")
    return _object(text(about.attrs["json"])) if "json" in about.attrs else {}
