"""Discovery (section 3): detect, warp, detect again, describe, decode; all of the model is trained."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from trigpoint.core.config.tree import Config
from trigpoint.core.progress import Progress
from trigpoint.learning import losses, tensors
from trigpoint.learning.augment import augmented, mirrored
from trigpoint.learning.data.flows import Flows, prepare_flows
from trigpoint.learning.data.prepared import Prepared
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.training import schedule
from trigpoint.learning.training.stages import Batch, Context, Stage
from trigpoint.learning.training.stages.draw import likeness
from trigpoint.learning.warps import flow
from trigpoint.learning.warps.tps import RandomTPS


@dataclass(frozen=True)
class Targets:
    """What images are compared with: warped copies of them, and of videos their earlier frames."""

    tps: RandomTPS
    images: Prepared
    flows: Flows | None = None


def prepare(context: Context) -> Targets:
    config, images = context.config, context.images
    flows = None
    if config.warp.flow_share:
        with Progress("optical flow", len(images)) as bar:
            folder = context.run.cache_folder
            flows = prepare_flows(context.source, images, config, folder, lambda done, _: bar.update(done))
    return Targets(RandomTPS(config.warp, config.model), images, flows)


def loss(
    model: Autoencoder, batch: Batch, targets: Targets, config: Config, step: int, rng: Generator
) -> dict[str, Tensor]:
    """The terms of Eq. 15 by name, unweighted."""
    images = mirrored(batch.images, config.train, rng)
    pairs = targets.flows.pairs(targets.images, batch.rows) if targets.flows else None
    if pairs is None:
        images = augmented(images, config.train, rng)
    else:
        # Both frames of a pair side by side, so that they get the same.
        both = augmented(torch.cat((images, pairs.earlier), dim=3), config.train, rng)
        images, earlier = both.chunk(2, dim=3)
        pairs = replace(pairs, earlier=earlier)
    padded = model.pad(images)
    detection = model.detector(padded)
    warp = targets.tps.draw(detection.landmarks, rng, schedule.landmark_share(config, step))
    # Reading the unpadded image with its edge values repeated is the same as reading the padded one.
    warped = tensors.sample(images, warp.pixels).contiguous(memory_format=torch.channels_last)
    if pairs is not None:
        # Some samples are compared with an earlier frame instead, through the optical flow.
        by_flow = pairs.known & (torch.rand(len(images), generator=rng) < config.warp.flow_share)
        warped = torch.where(by_flow[:, None, None, None], model.pad(pairs.earlier), warped)
    if config.train.relight:
        warped = augmented(warped, config.train, rng)
    moved = model.detector(warped)
    decoded = model.decode(detection.landmarks, model.describe(padded, detection))
    mapped, landmarks = warp.map(moved.landmarks), detection.landmarks
    if pairs is not None:
        # The flow leads from this frame to the earlier one: there the two must meet.
        chosen = by_flow[:, None, None]
        landmarks = torch.where(chosen, flow.follow(pairs.flow, landmarks), landmarks)
        mapped = torch.where(chosen, moved.landmarks, mapped)
    settings = config.losses
    first, second = (
        losses.concentration(one.variances, settings.concentration) for one in (detection, moved)
    )
    terms = {
        **likeness(decoded, images, settings),
        "conc": (first + second) / 2,
        "sep": losses.separation(detection.landmarks, settings.sep_sigma),
        "eqv": losses.equivariance(mapped, landmarks, settings.eqv_linear),
    }
    if pairs is not None:
        sigma = config.model.decoder_sigma
        terms["flow"] = flow.preference(pairs.flow, detection.landmarks, sigma, settings.flow_prefer_form)
    return terms


def weights(config: Config, step: int) -> dict[str, float]:
    given = config.losses
    return {
        **schedule.recon_weights(config, step),
        "conc": given.conc,
        "sep": given.sep,
        "eqv": schedule.eqv_weight(config, step),
        "flow": given.flow_prefer,
    }


STAGE = Stage(
    name="discover",
    trains=lambda model: model,
    loss=loss,
    weights=weights,
    derive=schedule.further,
    prepare=prepare,
    moves_landmarks=True,
    from_scratch=True,
)
