"""MNIST as its owners distribute it: idx files of 28x28 digits, white on black.

    FOLDER/train-images-idx3-ubyte     FOLDER/train-labels-idx1-ubyte     60,000 to train on
    FOLDER/t10k-images-idx3-ubyte      FOLDER/t10k-labels-idx1-ubyte      10,000 to test on

Each may be compressed (.gz) or be written with a dot (train-images.idx3-ubyte). An idx file begins with
two zero bytes, the type of its numbers (8: bytes), how many dimensions, and their sizes, big end first.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.sources.base import Attributes, Source, Split, require

PREFIX = {"train": "train", "labels": "train", "test": "t10k"}
EDGE = 28
LIMIT = 2**30  # bytes to decompress at most, whatever a file's head says; MNIST has 47 MB


class MNIST(Source):
    """All ten classes, or one alone (`mnist-3`)."""

    attributes: Attributes | None = None

    def __init__(self, folder: Path, split: Split = "train", variant: str = "") -> None:
        self.prefix = PREFIX[split]
        self.description = f"mnist-{variant}:{folder}" if variant else f"mnist:{folder}"
        self.words: tuple[str, ...] = (self.description,)
        self.path = images = _find(folder, f"{self.prefix}-images", 3)
        labels = _find(folder, f"{self.prefix}-labels", 1)
        self.images = read_idx(images, 3)
        digits = read_idx(labels, 1).astype(np.int64)
        if self.images.shape[1:] != (EDGE, EDGE):
            height, width = self.images.shape[1:]
            raise TrigpointError(f"{images}: expected images of {EDGE}x{EDGE}; got {width}x{height}.")
        if len(digits) != len(self.images):
            raise TrigpointError(
                f"{labels}: expected {len(self.images)} labels, as images; got {len(digits)}."
            )
        if digits.max(initial=0) > 9:
            raise TrigpointError(f"{labels}: expected labels from 0 to 9; got {digits.max()}.")
        self.numbers = np.nonzero(digits == int(variant))[0] if variant else np.arange(len(digits))
        self.digits = digits[self.numbers]
        if not len(self.numbers):
            raise TrigpointError(f"{images} holds no digit{f' {variant}' if variant else ''}.")
        self.attributes = Attributes(("digit",), self.digits[:, None])

    def __len__(self) -> int:
        return len(self.numbers)

    def name(self, index: int) -> str:
        return f"{self.prefix}-{self.numbers[index]:05d}-{self.digits[index]}"

    def file(self, index: int) -> Path:
        return self.path

    def image(self, index: int) -> NDArray[np.uint8]:
        return np.array(self.images[self.numbers[index]])[:, :, None]


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The bytes of an idx file, memory-mapped unless it is compressed."""
    magic = bytes((0, 0, 8, dimensions))
    length = len(magic) + 4 * dimensions
    compressed = path.suffix == ".gz"
    try:
        with gzip.open(path) if compressed else path.open("rb") as opened:
            head = opened.read(length)
            if len(head) < length or not head.startswith(magic):
                raise TrigpointError(
                    f"{path}: expected an idx file, which begins with {magic.hex()}; "
                    f"got {head[:4].hex() or 'nothing'}."
                )
            shape = struct.unpack(f">{dimensions}I", head[4:])
            wanted = math.prod(shape)
            data = opened.read(min(wanted, LIMIT) + 1) if compressed else b""
            size = len(data) if compressed else path.stat().st_size - length
    except (EOFError, OSError, zlib.error) as error:
        raise TrigpointError(f"{path} cannot be read ({error}).") from None
    if size != wanted:
        sizes = "x".join(str(edge) for edge in shape)
        found = "more" if size > wanted else f"{size:,}"
        raise TrigpointError(f"{path}: its head says {sizes}, {wanted:,} bytes; it holds {found}.")
    if compressed or not wanted:  # nothing cannot be mapped
        return np.frombuffer(data, np.uint8).reshape(shape)
    return np.memmap(path, np.uint8, "r", length, shape)


def _find(folder: Path, name: str, dimensions: int) -> Path:
    usual = folder / f"{name}-idx{dimensions}-ubyte"
    dotted = folder / f"{name}.idx{dimensions}-ubyte"
    for path in (usual, dotted, usual.with_name(usual.name + ".gz"), dotted.with_name(dotted.name + ".gz")):
        if path.is_file():
            return path
    require(folder, "MNIST")
    raise TrigpointError(f"MNIST needs the file {usual}, or the same with .gz; see docs/sources.md.")
