"""Edits: landmarks stay as they are, and the decoder learns that the image follows them.

A decoder that has only seen landmarks where they were found may answer a moved one in part, or with changes
all over the image. Here some landmarks of each image are moved, and the decoder is told where they must be
found again (the detector is fixed) and how far from them nothing may change.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor

from trigpoint.core.config.tree import Config
from trigpoint.learning import losses, tensors
from trigpoint.learning.augment import augmented, mirrored
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.training import schedule
from trigpoint.learning.training.stages import Batch, Stage
from trigpoint.learning.training.stages.draw import likeness

FURTHEST = 0.06  # a landmark is moved by up to this, in image edges
SHARE = 3  # at most one in so many landmarks is moved, though two of a few
NEAR, FAR = 0.12, 0.20  # within NEAR of a moved landmark anything may change, beyond FAR nothing


def loss(
    model: Autoencoder, batch: Batch, targets: Any, config: Config, step: int, rng: Generator
) -> dict[str, Tensor]:
    """The terms by name, unweighted."""
    images = augmented(mirrored(batch.images, config.train, rng), config.train, rng)
    with torch.no_grad():
        detection, descriptors = model.encode(images)
    landmarks = detection.landmarks
    chosen = neighbours(landmarks, rng)
    moved = landmarks + chosen[..., None] * steps(len(images), rng)
    twice = None if descriptors is None else torch.cat((descriptors, descriptors))
    wanted = torch.cat((landmarks, moved))
    decoded = model.decode(wanted, twice)
    plain, edited = decoded.chunk(2)
    far = far_from(landmarks, moved, chosen, images.shape[-1])
    return {
        **likeness(plain, images, config.losses),
        "cycle": losses.cycle(model.detect(decoded).landmarks, wanted),
        # The edit shall come back to the reconstruction, not the reconstruction to the edit.
        "locality": losses.locality(edited, plain.detach(), far),
    }


def weights(config: Config, step: int) -> dict[str, float]:
    # The other terms are sums over the image; the landmarks' is not.
    values = config.model.image_size**2 * config.model.channels
    further = {"cycle": config.losses.cycle * values, "locality": config.losses.locality}
    return {**schedule.recon_weights(config, step), **further}


def derive(config: Config) -> Config:
    config = schedule.further(config)
    train = replace(
        config.train, stage="edit", optimiser="adam", learning_rate=0.001, beta2=0.999, weight_decay=1e-6
    )
    return replace(config, train=train, warp=replace(config.warp, flow_share=0.0))


def neighbours(landmarks: Tensor, generator: torch.Generator) -> Tensor:
    """Which landmarks of each image are moved, (B, K) of 0 and 1: a random one and some nearest to it."""
    batch, count = landmarks.shape[:2]
    first = torch.randint(count, (batch,), generator=generator)
    middle = landmarks[torch.arange(batch), first][:, None]
    rank = (landmarks - middle).norm(dim=-1).argsort(1).argsort(1)
    most = min(count, max(2, count // SHARE))
    return (rank < torch.randint(1, most + 1, (batch, 1), generator=generator)).float()


def steps(batch: int, generator: torch.Generator) -> Tensor:
    """(B, 1, 2): a random direction and a random length for each image."""
    angle = 2 * math.pi * torch.rand(batch, 1, generator=generator)
    length = FURTHEST * torch.rand(batch, 1, 1, generator=generator)
    return length * torch.stack((angle.cos(), angle.sin()), dim=-1)


def far_from(before: Tensor, after: Tensor, chosen: Tensor, size: int) -> Tensor:
    """(B, 1, size, size): 0 within NEAR of a moved landmark's old or new place, 1 beyond FAR of both."""
    pixels = tensors.grid(size, size, size)
    distances = torch.minimum(torch.cdist(before, pixels[None]), torch.cdist(after, pixels[None]))
    nearest = distances.masked_fill(chosen[..., None] == 0, math.inf).amin(1)
    return ((nearest - NEAR) / (FAR - NEAR)).clamp(0, 1).reshape(-1, 1, size, size)


STAGE = Stage(
    name="edit",
    trains=lambda model: model.decoder,
    loss=loss,
    weights=weights,
    derive=derive,
    trained="the decoder was",
)
