"""What changes while training goes on, each as a plain function of the step."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.config.tree import Config, TrainConfig


def learning_rate(train: TrainConfig, step: int) -> float:
    """Steps down by 10 at each milestone (the paper), or a cosine to 0 for short runs; warm-up first."""
    rate = train.learning_rate * min(1.0, (step + 1) / max(1, train.warmup))
    if train.schedule == "steps":
        return rate * 0.1 ** sum(step >= at for at in train.lr_decay_at)
    return rate * 0.5 * (1 + math.cos(math.pi * step / train.steps))


def recon_weight(config: Config, step: int) -> float:
    """Starts small, x 10 at each milestone: early on the landmarks still move too much (app. F.3)."""
    return float(config.losses.recon * 10.0 ** sum(step >= at for at in config.train.recon_raise_at))


def weights(config: Config, step: int) -> dict[str, float]:
    """The weight of each loss of Eq. 13 at a step."""
    rise = config.train.eqv_rise ** (step / config.train.steps)
    given = config.losses
    fixed = {"conc": given.conc, "sep": given.sep, "flow": given.flow_prefer}
    # The other two of a decoder's training are sums over the image; this one is not.
    values = config.model.image_size**2 * config.model.channels
    fixed |= {"cycle": given.cycle * values, "still": given.still}
    recon = recon_weight(config, step)
    return {**fixed, "recon": recon, "ssim": recon * given.ssim, "eqv": given.eqv * rise}


def landmark_share(config: Config, step: int) -> float:
    """Share of warps around landmarks: none while they still cluster at the centre, then rising."""
    start, end = config.train.landmark_points_at
    rise = min(1.0, max(0.0, (step - start) / max(1, end - start)))
    return config.warp.landmark_share * rise


def batch_rows(count: int, batch_size: int, step: int, seed: int) -> NDArray[np.int64]:
    """The rows of one batch: a fresh permutation every epoch, decided by seed and step alone.

    Sets smaller than a batch are drawn with repetition.
    """
    if count < batch_size:
        return np.random.default_rng((seed, 1, step)).integers(0, count, batch_size)
    per_epoch = count // batch_size
    epoch, place = divmod(step, per_epoch)
    order = np.random.default_rng((seed, 0, epoch)).permutation(count)
    return order[place * batch_size : (place + 1) * batch_size]
