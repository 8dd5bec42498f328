"""Landmarks of many images into one table, each image with none, one or several subjects on it.

The table is the result; a further format or an overlay is made from it without detecting again. A record
beside it (`files/record.py`) says what made it: images that are new are added, and nothing stale is kept.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trigpoint.core import geometry
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.files.formats import FORMATS, require
from trigpoint.core.files.overlay import draw_landmarks, write_image
from trigpoint.core.files.photos import WRITERS, Photo, PhotoKeypoints
from trigpoint.core.files.record import Record, identity
from trigpoint.core.files.table import LandmarkTable, Rows, as_written
from trigpoint.core.geometry import Placement
from trigpoint.core.inference.compared import compared, noted
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.io import below, cell, printable
from trigpoint.core.keypoints import KeypointMap
from trigpoint.core.landmarks import Landmarks
from trigpoint.core.progress import Progress
from trigpoint.core.sources import Source

Subjects = Literal["auto", "whole"]
BATCH = 64
HELD_PIXELS = 16_000_000  # of decoded images that wait to be drawn on
TABLE, RECORD, OVERLAYS = "landmarks.csv", "landmarks.record.json", "overlays"


@dataclass(frozen=True)
class Wanted:
    """What is written of the images, beside their table."""

    folder: Path
    formats: Sequence[str] = ()
    overlay: bool = False
    overwrite: bool = False  # replace what an earlier call wrote there

    @property
    def table(self) -> Path:
        return self.folder / TABLE

    def files(self) -> dict[str, Path]:
        """Format to file, without the table itself."""
        return {
            name: self.folder / f"landmarks{FORMATS[name].ending}" for name in self.formats if name != "csv"
        }


@dataclass
class Outcome:
    """What became of the images."""

    images: int = 0  # detected on now
    subjects: int = 0  # found on them
    before: int = 0  # in the table from an earlier call
    drawn: int = 0
    written: list[Path] = field(default_factory=list)  # further formats
    empty: list[str] = field(default_factory=list)  # images on which no subject was found
    skipped: dict[str, str] = field(default_factory=dict)  # images that could not be read, and why
    gone: list[str] = field(default_factory=list)  # in the table, but not among the images
    uncropped: int = 0  # images of another size than the model's crop is made for
    stale: list[str] = field(default_factory=list)  # results of a replaced detection that stay


def detect_images(
    predictor: Predictor,
    source: Source,
    wanted: Wanted,
    *,
    box: Placement | None = None,
    subjects: Subjects = "auto",
    keypoints: KeypointMap | None = None,
) -> Outcome:
    """Write landmarks.csv, further formats, and with `overlay` each image with its landmarks drawn.

    The subject is at `box`, or where the source says, or where the model's subject detector finds it, or in
    the crop that the model was trained on; else the whole image is the subject. Images that are in the table
    already are not looked at again. No file is left behind where no image gave a landmark.
    """
    return Detection(predictor, source, wanted, box, subjects, keypoints).run()


class Detection:
    """One call: what it was asked for, and where it is."""

    def __init__(
        self,
        predictor: Predictor,
        source: Source,
        wanted: Wanted,
        box: Placement | None,
        subjects: Subjects,
        keypoints: KeypointMap | None,
    ) -> None:
        require(wanted.formats)
        self.predictor, self.source, self.wanted = predictor, source, wanted
        self.box, self.whole, self.keypoints = box, subjects == "whole", keypoints
        self.names = keypoints.names if keypoints else predictor.names
        self.images = [source.name(index) for index in range(len(source))]
        self.pictures = overlay_names(self.images) if wanted.overlay else {}
        self.drawings = wanted.folder / OVERLAYS
        self.part = wanted.folder / f"{OVERLAYS}.part"
        self.outcome = Outcome()
        self._refuse_what_needs_a_video()
        self._refuse_to_replace_an_input()
        options = {"box": box and [box.x, box.y, box.width, box.height], "subjects": subjects}
        self.record = Record(
            wanted.folder / RECORD, compared(predictor, keypoints, options), wanted.overwrite
        )

    def _refuse_what_needs_a_video(self) -> None:
        told = self.box or self.whole or self.source.of_videos
        if self.predictor.needs_video and not told:
            raise TrigpointError(
                "This model looks at frames of a video, told from their background, not at single images: "
                "--box says where the subject is on every image, --subjects whole that it fills them."
            )

    def _refuse_to_replace_an_input(self) -> None:
        """Also where an input lies in the folder to write, or is another name of a file in it."""
        wanted = self.wanted
        outputs = [wanted.table, wanted.folder / RECORD, *wanted.files().values()]
        outputs += [below(wanted.folder, f"{OVERLAYS}/{picture}") for picture in self.pictures.values()]
        there = {key: file for file in outputs if (key := file_key(file))}
        files = [self.source.file(index) for index in range(len(self.source))] if there else []
        for file in (*files, *(Path(word.partition(":")[2]) for word in self.source.words)):
            if file is not None and (taken := there.get(file_key(file) or (0, 0))):
                raise TrigpointError(
                    f"{printable(str(taken))} is an input of this call: choose another --out."
                )

    def run(self) -> Outcome:
        outcome, table = self.outcome, self.wanted.table
        keep = self._kept_bytes()
        identities = [identity(self.source.file(index)) for index in range(len(self.source))]
        new = [
            index for index, name in enumerate(self.images) if not self.record.knows(name, identities[index])
        ]
        formats = {name: file for name, file in self.wanted.files().items() if not self.record.has(file)}
        undrawn = self._undrawn() if self.wanted.overlay else []
        outcome.stale = self.record.stale((table, *self.wanted.files().values()))
        outcome.before = len(self.images) - len(new)
        known = set(self.images)
        outcome.gone = [name for name in self.record.inputs if name not in known]
        if new:
            self.wanted.folder.mkdir(parents=True, exist_ok=True)
            self._detect(new, identities, keep)
            earlier = [name for name in self.record.results if name != TABLE]
            formats |= {
                name: file for name, file in _all_files(self.wanted.folder).items() if file.name in earlier
            }
        if formats:
            self._write_formats(formats)
        if undrawn:
            self._draw(undrawn)
        return outcome

    def _kept_bytes(self) -> int:
        """How long the part of the table is that the images in the record have."""
        table, record = self.wanted.table, self.record
        if not record.has(table):
            before = record.results.get(TABLE)
            # A killed call had replaced it, or had not.
            if (
                before
                and TABLE in record.pending
                and table.exists()
                and table.stat().st_size >= before["size"]
            ):
                return int(before["size"])
            record.inputs.clear()
            return 0
        return int(record.results[TABLE]["size"])

    def _undrawn(self) -> list[int]:
        """Images in the table that have no overlay yet."""
        known = self.record.inputs
        missing = []
        for index, name in enumerate(self.images):
            file = self.drawings / self.pictures[name]
            if name in known and known[name].get("drawn") and file.exists():
                continue
            if file.exists() and not self.wanted.overwrite and OVERLAYS not in self.record.pending:
                raise TrigpointError(
                    f"{printable(str(file))} is already there, and {RECORD} does not say what made it; "
                    "--overwrite replaces it, or choose another --out."
                )
            if name in known:
                missing.append(index)
        return missing

    def _detect(self, new: Sequence[int], identities: Sequence[dict[str, int]], keep: int) -> None:
        """Find the landmarks of images that are not in the table, and add their rows."""
        predictor, outcome, record = self.predictor, self.outcome, self.record
        shutil.rmtree(self.part, ignore_errors=True)  # of a call that was killed
        waiting: list[Waiting] = []
        squares: list[NDArray[np.uint8]] = []
        places: list[Placement] = []
        held = 0
        done: dict[str, dict[str, Any]] = {}

        def flush() -> None:
            found = iter(self._found(squares, places))
            while waiting:
                one = waiting.pop(0)
                own = [next(found) for _ in range(one.subjects)]
                for subject, landmarks in enumerate(own):
                    rows.add(one.name, landmarks, subject=subject)
                if one.image is not None:
                    name, drawing = one.name, drawn(one.image, own)
                    del one  # a large image is not held beside its drawing while that is written
                    write_image(self.part / self.pictures[name], drawing)
            for pile in (squares, places):
                pile.clear()

        with (
            LandmarkTable(self.wanted.table, self.names, keep) as rows,
            Progress("detecting", len(new)) as bar,
        ):
            for number, index in enumerate(new):
                name = self.images[index]
                bar.update(number)
                try:
                    image = self.source.image(index)
                    boxes = self._boxes(index, image)
                    prepared = [predictor.prepare(image, one) for one in boxes]
                except UnreadableImage as error:  # or one that --box lies outside of
                    outcome.skipped[name] = str(error)
                    continue
                squares += [square for square, _ in prepared]
                places += [place for _, place in prepared]
                waiting.append(Waiting(name, image if self.wanted.overlay else None, len(boxes)))
                height, width = image.shape[:2]
                done[name] = {**identities[index], "pixels": [width, height]}
                del image  # so that only one that waits to be drawn on is held
                held += width * height if self.wanted.overlay else 0
                outcome.images += 1
                outcome.subjects += len(boxes)
                if not boxes:
                    outcome.empty.append(name)
                if len(squares) >= BATCH or len(waiting) >= BATCH or held > HELD_PIXELS:
                    flush()
                    held = 0
            flush()
            bar.update(len(new))
            self._refuse_nothing(len(new))
            record.noted = noted(predictor, bar.elapsed)
            record.expect([self.wanted.table, *([self.drawings] if self.part.exists() else [])])
        record.inputs |= done
        record.add(self.wanted.table)
        record.save()
        self._keep_drawings(done)

    def _found(self, squares: Sequence[NDArray[np.uint8]], places: Sequence[Placement]) -> list[Landmarks]:
        if not squares:
            return []
        found = self.predictor.detect_prepared(np.stack(squares), places)
        return self.keypoints.of(found, places) if self.keypoints else found

    def _boxes(self, index: int, image: NDArray[np.uint8]) -> Sequence[Placement | None]:
        """Where the subjects are on an image; None stands for where the model looks by itself."""
        known = self.box or self.source.box(index)
        if known:
            return [known]
        height, width = image.shape[:2]
        if self.whole:
            return [geometry.fit_box(width, height, self.predictor.config.fit)]
        if self.predictor.has_crop and not self.predictor.crop(width, height):
            self.outcome.uncropped += 1
        return self.predictor.subjects(image)

    def _refuse_nothing(self, count: int) -> None:
        """Where no image gave a landmark there is nothing to write."""
        outcome = self.outcome
        if outcome.before:
            return
        if not outcome.images:
            name, reason = next(iter(outcome.skipped.items()))
            raise TrigpointError(f"None of the {count} images could be read; the first, {name}: {reason}.")
        if not outcome.subjects:
            shutil.rmtree(self.part, ignore_errors=True)
            more = len(outcome.empty) - 1
            others = f" and {more} other image{'s' * (more > 1)}" if more else ""
            raise TrigpointError(
                f"No {self.predictor.subject} was found on {outcome.empty[0]}{others}; "
                "--box says where it is, --subjects whole looks at the whole image."
            )

    def _keep_drawings(self, names: Iterable[str]) -> None:
        """Move drawings into place, once the table has their rows."""
        if not self.part.exists():
            return
        for name in names:
            part, file = (
                self.part / self.pictures[name],
                below(self.wanted.folder, f"{OVERLAYS}/{self.pictures[name]}"),
            )
            if part.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                part.replace(file)
                self.record.inputs[name]["drawn"] = True
                self.outcome.drawn += 1
        shutil.rmtree(self.part)
        self.record.pending.discard(OVERLAYS)
        self.record.save()

    def _draw(self, indices: Sequence[int]) -> None:
        """Overlays of images whose rows are in the table already."""
        shutil.rmtree(self.part, ignore_errors=True)
        self.record.expect([self.drawings])
        table = Rows(self.wanted.table)
        names = []
        with Progress("drawing", len(indices)) as bar:
            for number, index in enumerate(indices):
                name = self.images[index]
                bar.update(number)
                try:
                    image = self.source.image(index)
                except UnreadableImage as error:
                    self.outcome.skipped[name] = str(error)
                    continue
                drawing = drawn(image, table.of(cell(name)))
                del image
                write_image(self.part / self.pictures[name], drawing)
                names.append(name)
            bar.update(len(indices))
        self._keep_drawings(names)

    def _write_formats(self, files: dict[str, Path]) -> None:
        """Further formats, from the table: all of it, whichever images are new."""
        found = PhotoKeypoints(self.wanted.table, tuple(self.names), self._photos())
        parts = {name: file.with_name(f".part-{file.name}") for name, file in files.items()}
        try:
            for name, part in parts.items():
                WRITERS[name](part, found)
            self.record.expect(files.values())
            for name, part in parts.items():
                part.replace(files[name])
                self.record.add(files[name])
                self.outcome.written.append(files[name])
        finally:
            for part in parts.values():
                part.unlink(missing_ok=True)
        self.record.save()

    def _photos(self) -> dict[str, Photo]:
        """By the cell of its name, each image that is in the table: its file, where known, and its size."""
        files = {name: self.source.file(index) for index, name in enumerate(self.images)}
        return {
            cell(name): Photo(files.get(name), self._size(name, entry))
            for name, entry in self.record.inputs.items()
        }

    def _size(self, name: str, entry: dict[str, Any]) -> tuple[int, int]:
        pixels = entry.get("pixels")
        if isinstance(pixels, list) and len(pixels) == 2 and all(type(edge) is int for edge in pixels):
            return pixels[0], pixels[1]
        raise TrigpointError(
            f"{self.record.path} is damaged: it does not say how large {printable(name)} is; --overwrite "
            "replaces the results, or choose another --out."
        )


@dataclass(frozen=True)
class Waiting:
    """An image whose landmarks are being found."""

    name: str
    image: NDArray[np.uint8] | None  # to draw on
    subjects: int


def drawn(image: NDArray[np.uint8], found: Sequence[Landmarks]) -> NDArray[np.uint8]:
    """An image with its landmarks, as the table has them: so it does not matter when it is drawn."""
    for landmarks in map(as_written, found):
        image = draw_landmarks(image, landmarks.points, landmarks.confidence)
    return image


def file_key(file: Path) -> tuple[int, int] | None:
    """What two names of one file have in common."""
    try:
        state = file.stat()
    except (OSError, ValueError):
        return None
    return state.st_dev, state.st_ino


def _all_files(folder: Path) -> dict[str, Path]:
    return Wanted(folder, tuple(FORMATS)).files()


def overlay_names(names: Sequence[str]) -> dict[str, str]:
    """`a.jpg` is drawn as `a.png`; where `a.png` exists beside it, both keep their endings before it.

    A name from a table may be a path from the root or out of its folder: then without what leads there.
    """
    inner = {
        name: "/".join(part for part in Path(name).parts if part not in ("..", Path(name).anchor)) or "image"
        for name in names
    }
    plain = {name: str(Path(path).with_suffix(".png")) for name, path in inner.items()}
    taken = Counter(plain.values())
    found: dict[str, str] = {}
    used: set[str] = set()
    for name, short in plain.items():
        picture = short if taken[short] == 1 else f"{inner[name]}.png"
        number = 1
        while picture in used:
            number += 1
            picture = f"{inner[name]}-{number}.png"
        used.add(picture)
        found[name] = picture
    return found
