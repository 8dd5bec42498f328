"""One training step's loss: detect, warp, detect again, describe, decode."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from trigpoint.core import geometry
from trigpoint.core.config.tree import Config
from trigpoint.learning import losses
from trigpoint.learning.augment import relit
from trigpoint.learning.data.flows import Pairs
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.training import schedule
from trigpoint.learning.training.stages.distill import taught_losses
from trigpoint.learning.training.stages.draw import drawing_losses, likeness
from trigpoint.learning.training.stages.edit import edit_losses
from trigpoint.learning.warps import flow
from trigpoint.learning.warps.tps import RandomTPS


def generator_of(seed: int, step: int) -> torch.Generator:
    """All randomness of a step follows from seed and step, so a resumed run repeats it exactly."""
    return torch.Generator().manual_seed((seed * 1_000_003 + step) % 2**63)


def step_losses(
    model: Autoencoder,
    images: Tensor,
    tps: RandomTPS,
    config: Config,
    step: int,
    pairs: Pairs | None = None,
    wanted: Tensor | None = None,
) -> dict[str, Tensor]:
    """The terms of Eq. 13 by name, unweighted, for images (B, C, n, n), and for videos their `pairs`.

    Where the decoder is trained alone, those of `edit_losses`, with its descriptors those of
    `drawing_losses`; where the detector is, which then has landmarks `wanted` of it, of `taught_losses`.
    """
    generator = generator_of(config.train.seed, step)
    if wanted is not None:
        return taught_losses(model, images, wanted, tps, config, step, generator)
    if config.train.mirror:
        mirrored = torch.rand(len(images), generator=generator) < 0.5
        images = torch.where(mirrored[:, None, None, None], images.flip(3), images)
    if pairs is None:
        images = relit(images, config.train, generator)
    else:
        # Both frames of a pair side by side, so that they get the same.
        images, earlier = relit(torch.cat((images, pairs.earlier), dim=3), config.train, generator).chunk(
            2, dim=3
        )
        pairs = replace(pairs, earlier=earlier)
    if config.train.part == "decoder":
        return edit_losses(model, images, config, generator)
    if config.train.part == "drawing":
        return drawing_losses(model, images, config.losses)
    padded = model.pad(images)
    detection = model.detector(padded)
    warp = tps.draw(detection.landmarks, generator, schedule.landmark_share(config, step))
    # Reading the unpadded image with its edge values repeated is the same as reading the padded one.
    warped = geometry.sample(images, warp.pixels).contiguous(memory_format=torch.channels_last)
    if pairs is not None:
        # Some samples are compared with an earlier frame instead, through the optical flow.
        by_flow = pairs.known & (torch.rand(len(images), generator=generator) < config.warp.flow_share)
        warped = torch.where(by_flow[:, None, None, None], model.pad(pairs.earlier), warped)
    if config.train.relight:
        warped = relit(warped, config.train, generator)
    moved = model.detector(warped)
    decoded = model.decode(detection.landmarks, model.describe(padded, detection))
    mapped, landmarks = warp.map(moved.landmarks), detection.landmarks
    if pairs is not None:
        # The flow leads from this frame to the earlier one: there the two must meet.
        chosen = by_flow[:, None, None]
        landmarks = torch.where(chosen, flow.follow(pairs.flow, landmarks), landmarks)
        mapped = torch.where(chosen, moved.landmarks, mapped)
    weights = config.losses
    terms = {
        **likeness(decoded, images, weights),
        "conc": (
            losses.concentration(detection.variances, weights.concentration)
            + losses.concentration(moved.variances, weights.concentration)
        )
        / 2,
        "sep": losses.separation(detection.landmarks, weights.sep_sigma),
        "eqv": losses.equivariance(mapped, landmarks, weights.eqv_linear),
    }
    if pairs is not None:
        sigma = config.model.decoder_sigma
        terms["flow"] = flow.preference(pairs.flow, detection.landmarks, sigma, weights.flow_prefer_form)
    return terms
