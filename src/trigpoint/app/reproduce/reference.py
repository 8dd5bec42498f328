"""dlib's pretrained predictors on the same faces, as measured rows beside ours.

Its five points are eye corners and the nose's base, so they reach the five annotated landmarks the way ours
do: by the protocol's regressor, fitted on labelled faces. Its 68 points hold the five (eyes as the mean of
their outlines) and are measured as they are. Where dlib's detector misses a face, a usual box is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.config.tree import Config
from trigpoint.core.errors import UnreadableImage
from trigpoint.core.progress import Progress
from trigpoint.core.sources import Source
from trigpoint.learning.data.prepared import square
from trigpoint.learning.evaluation.faces import SIZE, Dlib, five_landmarks
from trigpoint.learning.evaluation.protocols import PROTOCOLS, normalised_errors

FIVE = 5  # annotated landmarks: eyes, nose, mouth corners
LABELS = 2_000  # faces that the regressor of the five points is fitted on: ten unknowns each


def is_faces(source: Source) -> bool:
    known = source.annotations
    return known is not None and len(known.names) == FIVE and "eye" in known.names[0]


def dlib_rows(labelled: Source, test: Source) -> list[dict[str, Any]]:
    """Errors of dlib's predictors with their protocol, on all test faces and on those dlib finds."""
    model = Dlib()
    fit_five, _, fit_truth, _ = look(model, labelled, LABELS, "dlib, fitting")
    five, many, truth, found = look(model, test, len(test), "dlib, testing")
    assert test.annotations is not None
    reference = test.annotations.reference

    def row(label: str, predicted: NDArray[np.float64], protocol: str, labels: int) -> dict[str, Any]:
        every = normalised_errors(predicted, truth, reference)
        seen = normalised_errors(predicted[found], truth[found], reference)
        return {
            "label": label,
            "protocol": protocol,
            "labels": labels,
            "error_percent": round(100 * float(np.nanmean(every)), 2),
            "test_images": len(every),
            "where_found_percent": round(100 * float(np.nanmean(seen)), 2) if len(seen) else None,
            "found": int(found.sum()),
        }

    fitted = PROTOCOLS["imm-bias"].fit(fit_five, fit_truth)
    return [
        row("dlib, 5 points", fitted.predict(five), "linear with bias", len(fit_five)),
        row("dlib, 68 points as they are", five_landmarks(many), "none", 0),
    ]


def look(
    model: Dlib, source: Source, count: int, title: str
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """dlib's 5 and 68 points, the annotations, all in edges of the crop, and whether it found the face."""
    assert source.annotations is not None
    five, many, truth, found = [], [], [], []
    rows = np.linspace(0, len(source) - 1, min(count, len(source))).astype(int)
    with Progress(title, len(rows)) as bar:
        for done, index in enumerate(rows):
            try:
                crop, place = square(source, int(index), Config(), SIZE)
            except UnreadableImage:
                continue
            face = model.landmarks(crop)
            five.append(face.five)
            many.append(face.sixty_eight)
            truth.append(place.to_unit(source.annotations.points[index]))
            found.append(face.found)
            bar.update(done + 1)
    return np.array(five), np.array(many), np.array(truth), np.array(found, bool)
