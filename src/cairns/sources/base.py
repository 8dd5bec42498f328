"""What every source of images offers. Sources know nothing of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cairns.geometry import Placement


@dataclass(frozen=True)
class Annotations:
    """Manual landmarks of a source, for evaluation only: never seen in training."""

    names: tuple[str, ...]
    points: NDArray[np.float64]  # (n, L, 2) pixels of the original images; NaN where missing
    reference: tuple[int, int]  # the two landmarks whose distance normalises errors


class Source(Protocol):
    """Images by number, read when asked for."""

    words: tuple[str, ...]  # what opens it again: the words of the command line
    description: str  # the same, short enough for a title

    def __len__(self) -> int: ...

    def name(self, index: int) -> str:
        """A short name of the image, such as its path below the folder."""
        ...

    def image(self, index: int) -> NDArray[np.uint8]:
        """(H, W, 3) or (H, W, 1). Raises UnreadableImage."""
        ...

    def box(self, index: int) -> Placement | None:
        """The part of the image to use where the source prescribes one, else None."""
        ...

    @property
    def annotations(self) -> Annotations | None: ...


class Subset:
    """Some images of a source, in a given order."""

    def __init__(self, source: Source, indices: Sequence[int]) -> None:
        self.source = source
        self.indices = list(indices)
        self.words = source.words
        self.description = source.description

    def __len__(self) -> int:
        return len(self.indices)

    def name(self, index: int) -> str:
        return self.source.name(self.indices[index])

    def image(self, index: int) -> NDArray[np.uint8]:
        return self.source.image(self.indices[index])

    def box(self, index: int) -> Placement | None:
        return self.source.box(self.indices[index])

    @property
    def annotations(self) -> Annotations | None:
        whole = self.source.annotations
        if whole is None:
            return None
        return Annotations(whole.names, whole.points[self.indices], whole.reference)
