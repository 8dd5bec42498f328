"""landmarks.csv: one row per landmark; x and y in pixels of the original image.

`subject` counts the faces (or other subjects) of one image from left to right; 0 where there is one.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from cairns.predictor import Landmarks

HEADER = ("image", "frame", "subject", "landmark", "x", "y", "confidence")


class LandmarkTable:
    """Writes rows as they come to a temporary name; the file appears when it is complete."""

    def __init__(self, path: Path, names: Sequence[str] | None = None) -> None:
        self.path, self.names = path, names  # what the landmarks are called, if not by their numbers
        self.part = path.with_name(path.name + ".part")

    def __enter__(self) -> Self:
        self.stream = self.part.open("w", newline="")
        self.writer = csv.writer(self.stream)
        self.writer.writerow(HEADER)
        return self

    def add(self, name: str, found: Landmarks, frame: int = 0, subject: int = 0) -> None:
        for k, ((x, y), trust) in enumerate(zip(found.points, found.confidence, strict=True)):
            called = self.names[k] if self.names else k
            self.writer.writerow((name, frame, subject, called, f"{x:.2f}", f"{y:.2f}", f"{trust:.3f}"))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stream.close()
        if kind is None:
            self.part.replace(self.path)
        else:
            self.part.unlink(missing_ok=True)
