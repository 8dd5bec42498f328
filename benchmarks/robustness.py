"""How much worse landmarks get where photos are not like those of training: grey, toned, hard, dark, blurred.

python benchmarks/robustness.py mtfl:FOLDER --models faces-10 faces-30

Every tenth labelled image is altered, detected and predicted from by a regressor (protocol `lmdis`) that was
fitted on the other images as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import tyro
from numpy.typing import NDArray
from tyro.conf import Positional

from tables import show
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.sources import open_source
from trigpoint.core.sources.base import Subset
from trigpoint.learning.evaluation.evaluate import collect, for_validation, task_of

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Options:
    source: Positional[str]
    """An annotated source of colour images, such as mtfl:FOLDER."""
    models: tuple[str, ...] = ("faces-10", "faces-30")
    """Run folders or shipped models."""
    views: int | None = None
    """How many views of each image, in place of the model's own number."""
    json: Path | None = None
    """Also write the rows to this file."""


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    fitted, measured = for_validation(open_source(options.source, "labels"))
    task, rows = task_of(measured, "lmdis"), []
    for name in options.models:
        predictor = Predictor.load(name, options.views)
        regressor, _ = task.fit(collect(predictor, fitted, "fitting on"))
        row: dict[str, Any] = {"model": name}
        for kind, change in CHANGES.items():
            altered = Altered(measured, change)
            row[f"{kind} %"] = round(100 * task.error(regressor, collect(predictor, altered, kind)), 2)
        rows.append(row)
    show(rows, options.json)


class Altered(Subset):
    """The images of a source, each changed."""

    def __init__(self, source: Subset, change: Callable[[Pixels], Pixels]) -> None:
        super().__init__(source, range(len(source)))
        self.change = change

    def image(self, index: int) -> Pixels:
        return self.change(super().image(index))


def grey(image: Pixels) -> Pixels:
    return np.repeat(np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))[:, :, None], 3, axis=2)


def sepia(image: Pixels) -> Pixels:
    return np.clip(grey(image) * np.array((1.1, 0.92, 0.7)), 0, 255).astype(np.uint8)


def hard(image: Pixels) -> Pixels:
    """Almost twice the contrast, about the image's mean."""
    return np.clip((image - image.mean()) * 1.8 + image.mean(), 0, 255).astype(np.uint8)


def dark(image: Pixels) -> Pixels:
    return (255 * (image / 255) ** 2).astype(np.uint8)


def blurred(image: Pixels) -> Pixels:
    """Out of focus: a Gaussian of 1.2 % of the photo's width, about 1 pixel of what a compact model sees."""
    return np.asarray(cv2.GaussianBlur(image, (0, 0), 0.012 * image.shape[1]), np.uint8)


def one_sided(image: Pixels) -> Pixels:
    """Lit from the left: 1.6 times as bright there, 0.4 times on the right."""
    return np.clip(image * np.linspace(1.6, 0.4, image.shape[1])[:, None], 0, 255).astype(np.uint8)


CHANGES: dict[str, Callable[[Pixels], Pixels]] = {
    "as it is": lambda image: image,
    "grey": grey,
    "sepia": sepia,
    "hard": hard,
    "dark": dark,
    "blurred": blurred,
    "lit from a side": one_sided,
}

if __name__ == "__main__":
    main()
