"""Do the labels of a source's two splits lie in the same place on the face? dlib, which knows neither, says.

python benchmarks/label_offsets.py mtfl:FOLDER

dlib's 68-point predictor looks at each face and at its mirror image; the mean of both, mirrored back, leans
to neither side. Printed is the median offset of the five annotated points from that, in edges of the crop, x
to the right, y downwards. A difference between the splits is one between the annotations, whatever model is
measured against them; a regressor fitted on one split carries it into the error on the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tyro
from numpy.typing import NDArray
from tyro.conf import Positional

from tables import show
from trigpoint.core.config.tree import Config
from trigpoint.core.errors import TrigpointError
from trigpoint.core.sources import Split, open_source
from trigpoint.learning.data.prepared import square
from trigpoint.learning.evaluation.faces import Dlib

SIZE = 300  # pixels of the crops that dlib looks at
FIVE = ((36, 42), (42, 48), (30, 31), (48, 49), (54, 55))  # of the 68: eyes, nose, mouth corners
MIRRORED = (1, 0, 2, 4, 3)


@dataclass(frozen=True)
class Options:
    source: Positional[str]
    """Faces with five annotated points."""
    faces: int = 500
    """How many of each split are looked at."""


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    model, rows = Dlib(), []
    splits: tuple[Split, ...] = ("train", "test")
    for split in splits:
        source = open_source(options.source, split)
        if source.annotations is None:
            raise TrigpointError("The source has no annotated points.")
        chosen = np.random.default_rng(0).permutation(len(source))[: options.faces]
        offsets = []
        for index in map(int, chosen):
            crop, place = square(source, index, Config(), SIZE)
            found = without_side(model, crop)
            if found is not None:
                offsets.append(place.to_unit(source.annotations.points[index]) - found)
        middle = np.median(np.mean(offsets, axis=1), axis=0)
        rows.append({"split": split, "faces": len(offsets), "x": middle[0], "y": middle[1]})
    show(rows, None)


def without_side(model: Dlib, crop: NDArray[np.uint8]) -> NDArray[np.float64] | None:
    """The five points (5, 2) by dlib, the same from left and right; None where it does not see the face."""
    straight, mirrored = (model.landmarks(np.ascontiguousarray(each)) for each in (crop, crop[:, ::-1]))
    if not (straight.found and mirrored.found):
        return None
    first, second = (
        np.stack([face.sixty_eight[start:end].mean(0) for start, end in FIVE])
        for face in (straight, mirrored)
    )
    second = second[list(MIRRORED)]
    second[:, 0] = 1 - second[:, 0]
    return np.asarray((first + second) / 2)


if __name__ == "__main__":
    main()
