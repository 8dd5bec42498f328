"""The training images, decoded and scaled once into a memory-mapped file, so that memory stays flat."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trigpoint.core import geometry
from trigpoint.core.config.tree import Config
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.io import PART, write_atomically
from trigpoint.core.sources.base import Source
from trigpoint.core.sources.images import to_channels


@dataclass(frozen=True)
class Prepared:
    """(n, size, size, channels) bytes on disk, and what could not be used."""

    pixels: NDArray[np.uint8]
    indices: NDArray[np.int64]  # of the source, one per row
    skipped: dict[str, str]  # name -> reason

    def __len__(self) -> int:
        return len(self.pixels)

    def batch(self, rows: NDArray[np.int64]) -> Tensor:
        """(B, C, size, size) float32 in [0, 1]."""
        return to_tensor(np.asarray(self.pixels[np.sort(rows)]))


def to_tensor(pixels: NDArray[np.uint8]) -> Tensor:
    """(B, n, n, C) bytes -> (B, C, n, n) float32 in [0, 1], channels last in memory."""
    return torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2).float().div_(255)


def square(
    source: Source, index: int, config: Config, size: int | None = None
) -> tuple[NDArray[np.uint8], geometry.Placement]:
    """One image of a source as the model wants it: (size, size, channels), and where it was cut from."""
    image = source.image(index)
    box = source.box(index) or geometry.fit_box(image.shape[1], image.shape[0], config.fit)
    image = to_channels(image, config.model.channels)
    return geometry.extract(image, box, size or config.model.image_size), box


def prepare(
    source: Source, config: Config, folder: Path, tick: Callable[[int, int], None] = lambda done, of: None
) -> Prepared:
    """Decode every image of the source into FOLDER, or reopen what an earlier call left there."""
    size, channels = config.model.image_size, config.model.channels
    pixels_file, index_file = folder / "images.bin", folder / "images.json"
    kept = _index(index_file, len(source)) if pixels_file.is_file() else None
    if kept is not None:
        rows, unusable = kept
        if rows and pixels_file.stat().st_size == len(rows) * size * size * channels:
            pixels = np.memmap(pixels_file, np.uint8, "r", shape=(len(rows), size, size, channels))
            return Prepared(pixels, np.array(rows, np.int64), unusable)
    folder.mkdir(parents=True, exist_ok=True)
    needed = len(source) * size * size * channels
    free = shutil.disk_usage(folder).free
    if free < needed + 50_000_000:
        raise TrigpointError(
            f"The prepared images need {needed / 1e6:.0f} MB in {folder}, where {free / 1e6:.0f} MB are free."
        )
    indices: list[int] = []
    skipped: dict[str, str] = {}
    temporary = folder / f"images.bin{PART}"
    temporary.unlink(missing_ok=True)
    with temporary.open("xb") as stream:
        for index in range(len(source)):
            try:
                stream.write(square(source, index, config)[0].tobytes())
                indices.append(index)
            except UnreadableImage as error:
                skipped[source.name(index)] = str(error)
            tick(index + 1, len(source))
    os.replace(temporary, pixels_file)
    if not indices:
        name, reason = next(iter(skipped.items()))
        raise TrigpointError(f"None of the {len(source)} images could be read; the first, {name}: {reason}.")
    listing = {"count": len(source), "indices": indices, "skipped": skipped}
    write_atomically(index_file, json.dumps(listing).encode())
    pixels = np.memmap(pixels_file, np.uint8, "r", shape=(len(indices), size, size, channels))
    return Prepared(pixels, np.array(indices, np.int64), skipped)


def _index(file: Path, count: int) -> tuple[list[int], dict[str, str]] | None:
    """What an earlier call noted of so many images: those prepared, in order, and why others are not. None
    where there is no such note, or a damaged one: the images are prepared again."""
    try:
        kept = json.loads(file.read_text())
        indices, skipped = kept["indices"], kept["skipped"]
        whole = (
            kept["count"] == count
            and all(type(index) is int and 0 <= index < count for index in indices)
            and indices == sorted(set(indices))
            and all(isinstance(reason, str) for reason in skipped.values())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return (indices, skipped) if whole else None
