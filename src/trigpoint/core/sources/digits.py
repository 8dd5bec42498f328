"""5,000 handwritten digits of MNIST, 28x28, shipped with the package (`embedded/README.md`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.sources.base import Source, Split

FILE = Path(__file__).parent / "embedded" / "digits.npz"


class Digits(Source):
    """All ten classes, or one alone (`digits:3`). White on black, shuffled once and for all."""

    def __init__(self, digit: str = "", split: Split = "train", variant: str = "") -> None:
        if digit and digit not in tuple("0123456789"):
            raise TrigpointError(f"digits takes one digit, such as digits:3; got {digit!r}.")
        self.description = f"digits:{digit}" if digit else "digits"
        self.words: tuple[str, ...] = (self.description,)
        images, labels = _read()
        order = np.random.default_rng(0).permutation(len(images))
        images, labels = images[order], labels[order]
        keep = labels == int(digit) if digit else np.ones(len(labels), bool)
        self.images, self.labels = images[keep], labels[keep]

    def __len__(self) -> int:
        return len(self.images)

    def name(self, index: int) -> str:
        return f"digit-{self.labels[index]}-{index:04d}"

    def image(self, index: int) -> NDArray[np.uint8]:
        return np.asarray(self.images[index][:, :, None])


def _read() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    with np.load(FILE, allow_pickle=False) as stored:
        return stored["images"], stored["labels"].astype(np.int64)
