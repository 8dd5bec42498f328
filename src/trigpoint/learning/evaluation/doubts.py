"""What makes the verdicts of a run worth little: too few images, or images that are alike."""

from __future__ import annotations

from torch import Tensor

from trigpoint.learning.evaluation.change import alike


def doubts(images: int, least: int, checks: Tensor) -> list[str]:
    """A sentence each, known before training.

    `images`: how many can be read; from fewer than `least` none are kept out of training. `checks`: images
    (n, C, s, s) that the landmarks will be measured on.
    """
    found = []
    if images < least:
        found.append(
            f"Only {images} images: fewer than {least} are all trained on, so verdicts are measured on "
            f"{len(checks)} that the model has seen, and say nothing of others."
        )
    if alike(checks):
        found.append(
            "The images hardly differ, so that a landmark cannot be told from the background: take more "
            "varied ones."
        )
    return found
