"""The health of each landmark, measured without labels and said in plain words."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from trigpoint.learning.evaluation.change import changes
from trigpoint.learning.evaluation.consistency import warp_errors
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.model.detector import confidence

FAINT = 0.15  # mean confidence below this: dead, unless
FOLLOWS = 0.02  # its mean error under warps is below this all the same
STILL = 0.01  # standard deviation over images below this, in image edges: it does not look at the image
CENTRE = 0.05  # distance from the centre
MOVES = 0.05  # spread above this: it follows something, whatever lies under it
UNCHANGED = 0.1  # the pixels under it change by less than this share of what images change: background
SAME = 0.02  # mean distance between two landmarks below this: duplicates
JITTERY = 0.05  # mean error under warps above this


@torch.no_grad()
def examine(model: Autoencoder, images: Tensor) -> list[dict[str, Any]]:
    """One dict per landmark: confidence, spread, change, warp_error, nearest, verdict, why in words."""
    parts = [model.detect(batch) for batch in images.split(64)]
    trust = torch.cat([confidence(part, model.detector.cells) for part in parts]).mean(0).numpy()
    landmarks = torch.cat([part.landmarks for part in parts])
    change = changes(images, landmarks)
    points = landmarks.double().numpy()  # (n, K, 2)
    errors = warp_errors(model, images).mean(0)
    gaps = np.linalg.norm(points[:, :, None] - points[:, None], axis=-1).mean(0)
    np.fill_diagonal(gaps, np.inf)
    table = []
    for k in range(points.shape[1]):
        spread = float(np.sqrt(points[:, k].var(axis=0).sum()))
        from_centre = float(np.linalg.norm(points[:, k].mean(0) - 0.5))
        other = int(gaps[k].argmin())
        verdict, why = "good", "follows the image"
        if trust[k] < FAINT and errors[k] < FOLLOWS:
            why = "follows the image, though its detection map is faint or spread out"
        if trust[k] < FAINT and errors[k] >= FOLLOWS:
            verdict, why = (
                "dead",
                "its detection map is faint or spread out: no pixel is surely this landmark",
            )
        elif spread < MOVES and change[k] < UNCHANGED:
            verdict, why = (
                "background",
                "neither it nor the pixels under it change from image to image: it lies on the background",
            )
        elif spread < STILL and from_centre < CENTRE:
            verdict, why = "stuck at the centre", "it stays at the image's centre whatever the image shows"
        elif gaps[k, other] < SAME:
            verdict, why = f"duplicate of {other}", f"it lies on landmark {other} in nearly every image"
        elif errors[k] > JITTERY:
            verdict, why = "jittery", f"it misses a known warp by {errors[k]:.1%} of the image edge"
        table.append(
            {
                "landmark": k,
                "verdict": verdict,
                "why": why,
                "confidence": round(float(trust[k]), 3),
                "spread": round(spread, 4),
                "change": round(float(change[k]), 3),
                "warp_error": round(float(errors[k]), 4),
                "nearest": other if np.isfinite(gaps[k, other]) else None,
                "nearest_distance": round(float(gaps[k, other]), 4) if np.isfinite(gaps[k, other]) else None,
            }
        )
    return table
