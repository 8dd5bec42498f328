"""What every source of images offers. Sources know nothing of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import REACH, Placement
from trigpoint.core.io import regular

# What landmarks are discovered on, what regressors and classifiers are fitted on, what is measured on.
# The middle one differs from the first where a dataset says so (MAFL within CelebA).
Split = Literal["train", "labels", "test"]


@dataclass(frozen=True)
class Annotations:
    """Manual landmarks of a source, for evaluation only: never seen in training."""

    names: tuple[str, ...]
    points: NDArray[np.float64]  # (n, L, 2) pixels of the original images; NaN where missing
    reference: tuple[int, int] | None  # the two landmarks whose distance is 1; None: the edge of the crop
    unit: str = "inter-ocular distance"  # that distance in words
    swaps: tuple[tuple[int, int], ...] = ()  # left and right counterparts, where they look alike


@dataclass(frozen=True)
class Attributes:
    """What else the owners annotated: a class per image and attribute."""

    names: tuple[str, ...]
    values: NDArray[np.int64]  # (n, A) class numbers; -1 where unknown


class Source(Protocol):
    """Images by number, read when asked for."""

    words: tuple[str, ...]  # what opens it again: the words of the command line
    description: str  # the same, short enough for a title

    def __len__(self) -> int: ...

    def name(self, index: int) -> str:
        """A short name of the image, such as its path below the folder."""
        ...

    def file(self, index: int) -> Path | None:
        """The file that the image is read from; None where it is made, not read."""
        ...

    def image(self, index: int) -> NDArray[np.uint8]:
        """(H, W, 3) or (H, W, 1). Raises UnreadableImage."""
        ...

    def box(self, index: int) -> Placement | None:
        """The part of the image to use where the source prescribes one, else None."""
        ...

    @property
    def annotations(self) -> Annotations | None: ...

    @property
    def attributes(self) -> Attributes | None: ...


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

    def file(self, index: int) -> Path | None:
        return self.source.file(self.indices[index])

    def image(self, index: int) -> NDArray[np.uint8]:
        return self.source.image(self.indices[index])

    def box(self, index: int) -> Placement | None:
        return self.source.box(self.indices[index])

    @property
    def annotations(self) -> Annotations | None:
        whole = self.source.annotations
        return None if whole is None else replace(whole, points=whole.points[self.indices])

    @property
    def attributes(self) -> Attributes | None:
        whole = self.source.attributes
        return None if whole is None else replace(whole, values=whole.values[self.indices])


def require_pixels(values: ArrayLike, where: str) -> None:
    """Refuse coordinates that no image has; NaN is none. `where` begins the sentence."""
    given = np.asarray(values, np.float64)
    wrong = given[np.abs(given) > REACH]
    if len(wrong):
        raise TrigpointError(f"{where}: expected pixels; got the coordinate {wrong[0]:g}.")


def require(path: Path, dataset: str) -> Path:
    """The path, if it exists; else the sentence that says what is missing and where to read about it."""
    if not path.exists():
        kind = "file" if path.suffix else "folder"
        raise TrigpointError(f"{dataset} needs the {kind} {path}; see docs/sources.md for the layout.")
    return path if path.is_dir() else regular(path)
