"""The training images, decoded and scaled once into a memory-mapped file, so that memory stays flat."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from trigpoint.core import geometry
from trigpoint.core.arrays import save_arrays
from trigpoint.core.config.tree import Config
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.io import PART, write_atomically
from trigpoint.core.progress import Progress
from trigpoint.core.runs import Run
from trigpoint.core.sources.base import Source
from trigpoint.core.sources.images import to_channels
from trigpoint.learning.data.order import sliced
from trigpoint.learning.tensors import to_tensor

HELD_OUT = 128  # images at most, and a tenth of the set, kept aside for the report
HELD_OUT_LEAST = 8  # images, or none


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
        return to_tensor(np.asarray(self.pixels[rows]))

    def batches(self, rows: NDArray[np.int64]) -> Iterator[Tensor]:
        return map(self.batch, sliced(rows))


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


@dataclass(frozen=True)
class TrainingSet:
    """Prepared images, and which of them are trained on."""

    images: Prepared
    rows: NDArray[np.int64]  # to train on
    held_out: NDArray[
        np.uint8
    ]  # (m, size, size, channels) kept aside; of a tiny set some that are trained on

    @property
    def held_out_count(self) -> int:
        return len(self.images) - len(self.rows)


def training_set(source: Source, config: Config, run: Run, seed: int) -> TrainingSet:
    """The images of a run, decoded into its cache unless they are there, a few of them held out."""
    with Progress("preparing", len(source)) as bar:
        images = prepare(source, config, run.cache_folder, lambda done, _: bar.update(done))
    if len(images) < 2:
        raise TrigpointError("Training needs at least 2 readable images; found 1.")
    order = np.random.default_rng((seed, 2)).permutation(len(images))
    count = min(HELD_OUT, len(images) // 10)
    count = count if count >= HELD_OUT_LEAST else 0
    shown = order[: count or HELD_OUT_LEAST]
    held_out = np.asarray(images.pixels[np.sort(shown)])
    skipped = np.array(json.dumps(images.skipped))
    save_arrays(run.samples_file, pixels=held_out, skipped=skipped)
    return TrainingSet(images, np.sort(order[count:]), held_out)
