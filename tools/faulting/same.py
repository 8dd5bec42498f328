"""Whether two folders hold the same results: weights and tables byte for byte, other files as what they say,
but for times, speeds and memory."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

MEASURED = {
    "seconds", "images_per_second", "peak_memory_mb", "memory_mb",
}  # fmt: skip
SPEEDS = re.compile(r"[\d.,]+ (images/s|MB|GFLOPS?|GFLOP/s)")


def differences(reference: Path, found: Path) -> list[str]:
    """What is missing, too much or other than in the reference."""
    expected, there = names(reference), names(found)
    said = [f"{name} is missing" for name in sorted(expected - there)]
    said += [f"{name} is left behind" for name in sorted(there - expected)]
    for name in sorted(expected & there):
        if (reference / name).is_file() and not same(reference / name, found / name):
            said.append(f"{name} differs")
    return said


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def same(one: Path, other: Path) -> bool:
    read = READERS.get(one.suffix, Path.read_bytes)
    try:
        return alike(read(one), read(other))
    except Exception as error:  # whatever a library makes of a torn file
        print(f"{other}: {type(error).__name__}: {error}")
        return False


def unreadable(folder: Path) -> list[str]:
    """Files with their final names that are torn."""
    said = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or "part" in path.name or ".part" in str(path.relative_to(folder)):
            continue
        if path.suffix == ".jsonl":  # grows line by line
            continue
        try:
            READERS.get(path.suffix, Path.read_bytes)(path)
        except Exception as error:
            said.append(f"{path.relative_to(folder)} is torn ({type(error).__name__}: {error})")
    return said


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, np.ndarray):
        if one.dtype.fields:
            return one.dtype == other.dtype and all(
                alike(one[name], other[name]) for name in one.dtype.fields
            )
        numbers = one.dtype.kind in "fc"
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=numbers)
    return bool(one == other)


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(part) for key, part in value.items() if key not in MEASURED}
    return [without_times(part) for part in value] if isinstance(value, list) else value


def weights(path: Path) -> tuple[Any, bytes]:
    """The bytes of the tensors, and their head, whose metadata the library writes in any order."""
    from safetensors.numpy import load

    data = path.read_bytes()
    load(data)
    end = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:end]), data[end:]


def arrays(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as kept:
        return {name: kept[name] for name in kept.files}


def nodes(path: Path) -> dict[str, Any]:
    """Data and attributes of an HDF5 file, but the names of files of its own."""
    import h5py

    found: dict[str, Any] = {}

    def visit(name: str, node: Any) -> None:
        found.update({f"{name}@{key}": np.asarray(value) for key, value in node.attrs.items()})
        if isinstance(node, h5py.Dataset):
            found[name] = np.asarray(node[()])

    with h5py.File(path) as file:
        visit("", file)
        file.visititems(visit)
    return found


def frames(path: Path) -> list[Any]:
    import av

    with av.open(str(path)) as container:
        return [frame.to_ndarray() for frame in container.decode(video=0)]


def pixels(path: Path) -> list[Any]:
    from PIL import Image, ImageSequence

    def shots() -> Iterator[Any]:
        with Image.open(path) as opened:
            for frame in ImageSequence.Iterator(opened):
                yield np.asarray(frame.convert("RGB"))

    return list(shots())


def table(path: Path) -> bytes:
    """The bytes, if its last line is whole."""
    data = path.read_bytes()
    if not data.endswith(b"\n"):
        raise ValueError("its last line has no end")
    return data


READERS: dict[str, Callable[[Path], Any]] = {
    ".safetensors": weights,
    ".csv": table,
    ".json": lambda path: without_times(json.loads(path.read_bytes())),
    ".jsonl": lambda path: [without_times(json.loads(line)) for line in path.read_text().splitlines()],
    ".npz": arrays,
    ".h5": nodes,
    ".slp": nodes,
    ".mp4": frames,
    ".png": pixels,
    ".gif": pixels,
    ".html": lambda path: SPEEDS.sub("", path.read_text()),
    ".md": lambda path: SPEEDS.sub("", path.read_text()),
}
