"""Landmarks of many images into one table, each image with none, one or several subjects on it."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cairns.errors import CairnsError, UnreadableImage
from cairns.files.overlay import draw_landmarks, write_image
from cairns.files.table import LandmarkTable
from cairns.geometry import Placement
from cairns.predictor import Landmarks, Predictor
from cairns.sources import Source
from cairns.training.progress import Progress

BATCH = 64
HELD_PIXELS = 64_000_000  # of decoded images that wait to be drawn on


@dataclass
class Outcome:
    """What became of the images."""

    images: int = 0
    subjects: int = 0
    empty: list[str] = field(default_factory=list)  # images on which no subject was found
    skipped: dict[str, str] = field(default_factory=dict)  # images that could not be read, and why


def detect_images(
    predictor: Predictor,
    source: Source,
    out: Path,
    *,
    box: Placement | None = None,
    whole: bool = False,
    overlay: bool = False,
) -> Outcome:
    """Write `out`/landmarks.csv, and with `overlay` each image with its landmarks drawn.

    The subject is where the source says, or at `box`, or where the model's finder finds it; else the whole
    image is the subject. No file is left behind where no image gave a landmark.
    """
    out.mkdir(parents=True, exist_ok=True)
    drawn, part = out / "overlays", out / "overlays.part"
    shutil.rmtree(part, ignore_errors=True)  # of a call that was killed
    pictures = overlay_names([source.name(index) for index in range(len(source))]) if overlay else {}
    outcome = Outcome()
    held = 0
    waiting: list[tuple[str, NDArray[np.uint8] | None, int]] = []  # name, image to draw on, its subjects
    squares: list[NDArray[np.uint8]] = []
    places: list[Placement] = []

    with (
        LandmarkTable(out / "landmarks.csv", predictor.names) as rows,
        Progress("detecting", len(source)) as bar,
    ):

        def flush() -> None:
            nonlocal held
            found = iter(predictor.detect_prepared(np.stack(squares), places) if squares else ())
            for name, image, count in waiting:
                own: list[Landmarks] = [next(found) for _ in range(count)]
                for subject, landmarks in enumerate(own):
                    rows.add(name, landmarks, subject=subject)
                    if image is not None:
                        image = draw_landmarks(image, landmarks.points, landmarks.confidence)
                if image is not None:
                    # The folder appears when it is complete, so that a killed call is not taken for done.
                    write_image((drawn if drawn.exists() else part) / pictures[name], image)
            for pile in (waiting, squares, places):
                pile.clear()
            held = 0

        for index in range(len(source)):
            name = source.name(index)
            bar.update(index)
            try:
                image = source.image(index)
            except UnreadableImage as error:
                outcome.skipped[name] = str(error)
                continue
            known = source.box(index) or box
            boxes = [known] if known else predictor.subjects(image) if not whole else [None]
            for one in boxes:
                square, place = predictor.prepare(image, one)
                squares.append(square)
                places.append(place)
            waiting.append((name, image if overlay else None, len(boxes)))
            held += image.size // image.shape[2] if overlay else 0
            outcome.images += 1
            outcome.subjects += len(boxes)
            if not boxes:
                outcome.empty.append(name)
            if len(squares) >= BATCH or len(waiting) >= BATCH or held > HELD_PIXELS:
                flush()
        flush()
        bar.update(len(source))
        if not outcome.images:
            name, reason = next(iter(outcome.skipped.items()))
            raise CairnsError(f"None of the {len(source)} images could be read; the first, {name}: {reason}.")
        if not outcome.subjects:
            shutil.rmtree(part, ignore_errors=True)
            more = len(outcome.empty) - 1
            others = f" and {more} other image{'s' * (more > 1)}" if more else ""
            raise CairnsError(
                f"No {predictor.finder} was found on {outcome.empty[0]}{others}; --box says where it is, "
                "--whole looks at the whole image."
            )
        if part.exists():
            part.rename(drawn)
    return outcome


def overlay_names(names: Sequence[str]) -> dict[str, str]:
    """`a.jpg` is drawn as `a.png`; where `a.png` exists beside it, both keep their endings before it."""
    plain = {name: str(Path(name).with_suffix(".png")) for name in names}
    taken = Counter(plain.values())
    return {name: short if taken[short] == 1 else f"{name}.png" for name, short in plain.items()}
