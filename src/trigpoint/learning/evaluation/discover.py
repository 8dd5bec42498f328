"""A model's landmarks on every image of a source, streamed: only a batch of images is in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.geometry import Placement
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.io import say
from trigpoint.core.progress import Progress
from trigpoint.core.sources.base import Source
from trigpoint.core.words import skipped_words

BATCH = 64


@dataclass(frozen=True)
class Discovered:
    """Landmarks in unit coordinates of the crops, for the readable images of a source."""

    points: NDArray[np.float64]  # (n, K, 2)
    indices: NDArray[np.int64]  # (n,) of the source
    places: list[Placement]  # where each crop was cut from


def discover(predictor: Predictor, source: Source, title: str, aloud: bool = True) -> Discovered:
    """`aloud`, it says which images could not be read."""
    points: list[NDArray[np.float64]] = []
    indices: list[int] = []
    places: list[Placement] = []
    squares: list[NDArray[np.uint8]] = []
    skipped: dict[str, str] = {}

    def flush() -> None:
        if squares:
            recent = places[-len(squares) :]
            found = predictor.detect_prepared(np.stack(squares), recent)
            points.extend(place.to_unit(one.points) for one, place in zip(found, recent, strict=True))
            squares.clear()

    with Progress(title, len(source)) as bar:
        for index in range(len(source)):
            try:
                pixels, place = predictor.prepare(source.image(index), source.box(index))
            except UnreadableImage as error:
                skipped[source.name(index)] = str(error)
                continue
            squares.append(pixels)
            places.append(place)
            indices.append(index)
            if len(squares) == BATCH:
                flush()
                bar.update(index + 1)
        flush()
        bar.update(len(source))
    if not points:
        raise TrigpointError(f"None of the images of {source.description} could be read.")
    if skipped and aloud:
        say(skipped_words(skipped), error=True)
    return Discovered(np.array(points), np.array(indices, np.int64), places)
