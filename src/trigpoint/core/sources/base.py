"""What every source of images offers. Sources know nothing of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
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
    """Images by number, read when asked for. What a source does not have is as it is here."""

    words: tuple[str, ...]  # what opens it again: the words of the command line
    description: str  # the same, short enough for a title
    of_videos: bool = False  # its images are frames of videos, cropped, followed or without background

    def __len__(self) -> int: ...

    def name(self, index: int) -> str:
        """A short name of the image, such as its path below the folder."""
        ...

    def image(self, index: int) -> NDArray[np.uint8]:
        """(H, W, 3) or (H, W, 1). Raises UnreadableImage."""
        ...

    def file(self, index: int) -> Path | None:
        """The file that the image is read from; None where it is made, not read."""
        return None

    def box(self, index: int) -> Placement | None:
        """The part of the image to use where the source prescribes one, else None."""
        return None

    def group(self, index: int) -> str | None:
        """What images belong together, such as frames of one recording; None where nothing is known."""
        return None

    def frame_of(self, index: int) -> tuple[int, int] | None:
        """Which video, and which frame of it; None where images have no order in time."""
        return None

    def foreground(self, index: int) -> NDArray[np.bool_] | None:
        """Where the subject is (H, W), where it is told from a background."""
        return None

    def unsampled(self) -> Source | None:
        """Every frame of its videos, where it is frames of videos."""
        return None

    @cached_property  # which a source may as well set
    def annotations(self) -> Annotations | None:
        return None

    @cached_property
    def attributes(self) -> Attributes | None:
        return None


class Subset(Source):
    """Some images of a source, in a given order."""

    def __init__(self, source: Source, indices: Sequence[int]) -> None:
        self.source = source
        self.indices = list(indices)
        self.words = source.words
        self.description = source.description
        self.of_videos = source.of_videos

    def __len__(self) -> int:
        return len(self.indices)

    def name(self, index: int) -> str:
        return self.source.name(self.indices[index])

    def file(self, index: int) -> Path | None:
        return self.source.file(self.indices[index])

    def image(self, index: int) -> NDArray[np.uint8]:
        return self.source.image(self.indices[index])

    def group(self, index: int) -> str | None:
        return self.source.group(self.indices[index])

    def frame_of(self, index: int) -> tuple[int, int] | None:
        return self.source.frame_of(self.indices[index])

    def foreground(self, index: int) -> NDArray[np.bool_] | None:
        return self.source.foreground(self.indices[index])

    def box(self, index: int) -> Placement | None:
        return self.source.box(self.indices[index])

    @cached_property
    def annotations(self) -> Annotations | None:
        whole = self.source.annotations
        return None if whole is None else replace(whole, points=whole.points[self.indices])

    @cached_property
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
