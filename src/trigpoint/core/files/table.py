"""landmarks.csv: one row per landmark; x and y in pixels of the original image.

`subject` counts the faces (or other subjects) of one image from left to right; 0 where there is one.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from trigpoint.core.errors import TrigpointError
from trigpoint.core.io import cell
from trigpoint.core.landmarks import Landmarks

HEADER = ("image", "frame", "subject", "landmark", "x", "y", "confidence")
PIXELS, CONFIDENCE = "{:.2f}", "{:.3f}"
BLOCK = 1 << 20


class LandmarkTable:
    """Writes rows as they come to a temporary name; the file appears when it is complete.

    `keep` is how many bytes of the table that is there the new one begins with.
    """

    def __init__(self, path: Path, names: Sequence[str] | None = None, keep: int = 0) -> None:
        self.path, self.names, self.keep = path, names, keep  # names: if not the landmarks' numbers
        self.part = path.with_name(path.name + ".part")

    def __enter__(self) -> Self:
        self.part.unlink(missing_ok=True)  # never through a link that lies there
        self.stream = self.part.open("x", newline="", encoding="utf-8")
        self.writer = csv.writer(self.stream)
        if self.keep:
            self._copy()
        else:
            self.writer.writerow(HEADER)
        return self

    def _copy(self) -> None:
        left = self.keep
        with self.path.open("rb") as old:
            while left and (block := old.read(min(left, BLOCK))):
                self.stream.buffer.write(block)
                left -= len(block)

    def add(self, name: str, found: Landmarks, frame: int = 0, subject: int = 0) -> None:
        for k, ((x, y), trust) in enumerate(zip(found.points, found.confidence, strict=True)):
            called = cell(self.names[k]) if self.names else k
            numbers = (PIXELS.format(x), PIXELS.format(y), CONFIDENCE.format(trust))
            self.writer.writerow((cell(name), frame, subject, called, *numbers))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.stream.flush()
                os.fsync(self.stream.fileno())
            with suppress(OSError):  # a full disk is said by what was being written
                self.stream.close()
            if kind is None:
                self.part.replace(self.path)
        finally:
            self.part.unlink(missing_ok=True)


def as_written(found: Landmarks) -> Landmarks:
    """Rounded as in the table."""
    points = [[float(PIXELS.format(value)) for value in point] for point in found.points]
    confidence = [float(CONFIDENCE.format(value)) for value in found.confidence]
    return Landmarks(np.array(points), np.array(confidence))


class Rows:
    """The images of a finished table, in its order or by their names; one at a time is in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.places: dict[str, tuple[int, int]] = {}  # cell of the image's name: its first byte and its end
        start = 0
        with path.open("rb") as stream:
            for line in stream:
                name, end = self._cells(line)[0], start + len(line)
                if start:
                    self.places[name] = (self.places.get(name, (start, 0))[0], end)
                start = end

    def _cells(self, line: bytes) -> list[str]:
        try:
            cells = next(csv.reader([line.decode()]))
            if len(cells) == len(HEADER):
                return cells
        except (UnicodeDecodeError, csv.Error, StopIteration):
            pass
        raise TrigpointError(f"{self.path} is damaged; --overwrite makes it again.")

    def __iter__(self) -> Iterator[tuple[str, list[Landmarks]]]:
        return ((name, self.of(name)) for name in self.places)

    def of(self, name: str) -> list[Landmarks]:
        """What was found on the image whose name is this cell, one subject after the other."""
        start, end = self.places.get(name, (0, 0))
        with self.path.open("rb") as stream:
            stream.seek(start)
            lines = stream.read(end - start).splitlines()
        subjects: dict[str, list[list[float]]] = {}
        for line in lines:
            image, _, subject, _, *numbers = self._cells(line)
            try:
                if image == name:
                    subjects.setdefault(subject, []).append([float(number) for number in numbers])
            except ValueError:
                raise TrigpointError(f"{self.path} is damaged; --overwrite makes it again.") from None
        tables = [np.array(rows) for rows in subjects.values()]
        return [Landmarks(rows[:, :2], rows[:, 2]) for rows in tables]
