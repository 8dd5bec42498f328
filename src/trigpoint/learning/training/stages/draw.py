"""Training what draws alone: descriptors and decoder learn anew to make images from landmarks that stay.

For landmarks that were learnt without them (`training/taught.py`), above all fewer than the decoder knew.
The loss is the paper's reconstruction; the detector is fixed. The losses of `training/edits.py` have to wait
until this is done: a decoder that could not draw yet learnt from them to please the detector with blots.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trigpoint.core.config.tree import LossConfig
from trigpoint.learning import losses
from trigpoint.learning.model.autoencoder import Autoencoder


def drawing_losses(model: Autoencoder, images: Tensor, weights: LossConfig) -> dict[str, Tensor]:
    """The terms by name, unweighted, for images (B, C, n, n)."""
    padded = model.pad(images)
    with torch.no_grad():
        detection = model.detector(padded)
    return likeness(model.decode(detection.landmarks, model.describe(padded, detection)), images, weights)


def likeness(decoded: Tensor, images: Tensor, weights: LossConfig) -> dict[str, Tensor]:
    """How far decoded images are from those they were made of: the terms that are weighted at all."""
    terms = {"recon": losses.reconstruction(decoded, images, weights.colour_sigma)}
    if weights.ssim:
        terms["ssim"] = losses.dissimilarity(decoded, images)
    return terms
