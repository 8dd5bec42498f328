"""Detection by several views: find the object, then look again with it upright, centred, of its usual size.

Not in the paper, which has one view. A detector is best where images are framed as in its training. The first
view, from afar, tells how the object lies: by the similarity that brings the mean shape of the training
images onto its landmarks. Each further view is of the image with that undone, turned a little to one side or
the other, and the mean of what the further views find, brought back, is the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from trigpoint.learning import tensors
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.model.detector import Detector, confidence

TURN = math.radians(8)  # how far the outermost further views are turned
LARGEST = 1.6  # an object more times larger or smaller than usual was not found: one view of it as it is


def look(
    model: Autoencoder, images: Tensor, shape: Tensor | None, views: int, detector: Detector | None = None
) -> tuple[Tensor, Tensor]:
    """Landmarks (B, K, 2) of images (B, C, n, n) and their confidence (B, K).

    `shape` (K, 2) are the mean landmarks of the training images; without it there is one view. `detector`: a
    faster copy of the model's own.
    """
    detector = detector or model.detector
    if views == 1 or shape is None:
        return once(model, images, detector)
    placed = tensors.similarity(shape, detector(model.afar(images, detector.afar)).landmarks)  # (B, 2, 3)
    points, trusts = [], []
    for turn in torch.linspace(-TURN, TURN, views - 1) if views > 2 else torch.zeros(1):
        view = tensors.turned(placed, float(turn))
        again = detector(model.seen(images, view))
        points.append(tensors.moved(view, again.landmarks))
        trusts.append(confidence(again, detector.cells))
    landmarks, trust = torch.stack(points).mean(0), torch.stack(trusts).mean(0)
    size = placed[:, :, :2].det().clamp_min(0).sqrt()
    lost = ~((size > 1 / LARGEST) & (size < LARGEST))
    if lost.any():
        landmarks[lost], trust[lost] = once(model, images[lost], detector)
    return landmarks, trust


def once(model: Autoencoder, images: Tensor, detector: Detector) -> tuple[Tensor, Tensor]:
    """Landmarks (B, K, 2) of images at one view, and their confidence (B, K)."""
    found = detector(model.pad(images))
    return found.landmarks, confidence(found, detector.cells)


@torch.no_grad()
def mean_shape(model: Autoencoder, batches: Iterable[Tensor]) -> list[list[float]]:
    """The mean landmarks (K, 2) of images at one view: what further views bring others back to."""
    found = torch.cat([model.detect(images).landmarks for images in batches])
    return [[round(x, 6), round(y, 6)] for x, y in found.double().mean(0).tolist()]
