"""landmarks.csv: image, landmark, x, y, confidence; x and y in pixels of the original image."""

from __future__ import annotations

import csv
from pathlib import Path
from types import TracebackType
from typing import Self

from cairns.predictor import Landmarks

HEADER = ("image", "frame", "landmark", "x", "y", "confidence")


class LandmarkTable:
    """Writes rows as they come to a temporary name; the file appears when it is complete."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.part = path.with_name(path.name + ".part")

    def __enter__(self) -> Self:
        self.stream = self.part.open("w", newline="")
        self.writer = csv.writer(self.stream)
        self.writer.writerow(HEADER)
        return self

    def add(self, name: str, found: Landmarks, frame: int = 0) -> None:
        for k, ((x, y), trust) in enumerate(zip(found.points, found.confidence, strict=True)):
            self.writer.writerow((name, frame, k, f"{x:.2f}", f"{y:.2f}", f"{trust:.3f}"))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stream.close()
        if kind is None:
            self.part.replace(self.path)
        else:
            self.part.unlink(missing_ok=True)
