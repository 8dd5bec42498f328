"""Images a second of detection: from JPEG files and from memory, one by one and in batches, beside dlib.

python benchmarks/detect.py mtfl:FOLDER [--model faces-10] [--images 640] [--json FILE]

dlib's 5-point predictor gets the face's usual box, so that no search for the face is timed on either side.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import tyro
from tyro.conf import Positional

from tables import seconds, show
from trigpoint.core.files.overlay import write_image
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.sources import open_source
from trigpoint.core.sources.images import read_image
from trigpoint.learning.data.prepared import square
from trigpoint.learning.evaluation.faces import SIZE, USUAL_BOX, Dlib


@dataclass(frozen=True)
class Options:
    source: Positional[str]
    """Where the images come from."""
    model: str = "faces-10"
    """A run folder, or the name of a shipped model."""
    views: int | None = None
    """How many views of each image, in place of the model's own number."""
    images: int = 640
    """How many images."""
    repeats: int = 3
    """How often everything is timed; the median counts."""
    json: Path | None = None
    """Also write the rows to this file."""


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    predictor, source, dlib = (
        Predictor.load(options.model, options.views),
        open_source(options.source),
        Dlib(),
    )
    chosen = np.linspace(0, len(source) - 1, min(options.images, len(source))).astype(int)
    squares, places, crops = [], [], []
    for index in map(int, chosen):
        pixels, place = square(source, index, predictor.config)
        squares.append(pixels)
        places.append(place)
        crops.append(square(source, index, predictor.config, SIZE)[0])
    ready = np.stack(squares)
    box = dlib.dlib.rectangle(*(round(value * SIZE) for value in USUAL_BOX))

    def in_batches(size: int) -> None:
        for start in range(0, len(ready), size):
            predictor.detect_prepared(ready[start : start + size], places[start : start + size])

    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.jpg" for number in range(len(crops))]
        for file, crop in zip(files, crops, strict=True):
            write_image(file, crop)
        jobs: dict[str, Callable[[], object]] = {
            "trigpoint, memory, batches of 64": lambda: in_batches(64),
            "trigpoint, memory, one by one": lambda: in_batches(1),
            "trigpoint, JPEG files, batches of 64": lambda: list(predictor.detect_many(files, batch_size=64)),
            "trigpoint, JPEG files, one by one": lambda: [predictor.detect(file) for file in files],
            "dlib 5 points, memory": lambda: [dlib.five(crop, box) for crop in crops],
            "dlib 5 points, JPEG files": lambda: [dlib.five(read_image(file), box) for file in files],
        }
        rows = [
            {"what": name, "images/s": round(len(files) / seconds(job, options.repeats), 1)}
            for name, job in jobs.items()
        ]
    show(rows, options.json)
    views, threads = predictor.backend.views, torch.get_num_threads()
    print(f"{views} views, {len(crops)} images of {SIZE} pixels, {threads} threads")


if __name__ == "__main__":
    main()
