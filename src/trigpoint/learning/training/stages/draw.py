"""Drawing: descriptors and decoder learn anew to make images from landmarks that stay.

For landmarks that were learnt without them (`distill.py`), above all fewer than the decoder knew. The loss
is the paper's reconstruction; the detector is fixed. The losses of `edit.py` have to wait until this is
done: a decoder that could not draw yet learnt from them to please the detector with blots.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor, nn

from trigpoint.core.config.tree import Config, LossConfig
from trigpoint.learning import losses
from trigpoint.learning.augment import augmented, mirrored
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.training import schedule
from trigpoint.learning.training.stages import Batch, Stage


def loss(
    model: Autoencoder, batch: Batch, targets: Any, config: Config, step: int, rng: Generator
) -> dict[str, Tensor]:
    """The terms by name, unweighted."""
    images = augmented(mirrored(batch.images, config.train, rng), config.train, rng)
    padded = model.pad(images)
    with torch.no_grad():
        detection = model.detector(padded)
    decoded = model.decode(detection.landmarks, model.describe(padded, detection))
    return likeness(decoded, images, config.losses)


def likeness(decoded: Tensor, images: Tensor, weights: LossConfig) -> dict[str, Tensor]:
    """How far decoded images are from those they were made of: the terms that are weighted at all."""
    terms = {"recon": losses.reconstruction(decoded, images, weights.colour_sigma)}
    if weights.ssim:
        terms["ssim"] = losses.dissimilarity(decoded, images)
    return terms


def trains(model: Autoencoder) -> nn.Module:
    return nn.ModuleList(part for part in (model.descriptors, model.decoder) if part is not None)


def derive(config: Config) -> Config:
    config = schedule.further(config)
    train = replace(
        config.train, stage="draw", optimiser="muon", learning_rate=0.02, beta2=0.98, weight_decay=0.05
    )
    return replace(config, train=train, warp=replace(config.warp, flow_share=0.0))


STAGE = Stage(
    name="draw",
    trains=trains,
    loss=loss,
    weights=schedule.recon_weights,
    derive=derive,
    trained="descriptors and decoder were",
)
