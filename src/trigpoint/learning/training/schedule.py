"""What changes while training goes on, each as a plain function of the step."""

from __future__ import annotations

import math
from dataclasses import replace

from trigpoint.core.config.tree import Config, TrainConfig, with_steps

FURTHER = 3  # a model is trained further for a third of its first training


def learning_rate(train: TrainConfig, step: int) -> float:
    """Steps down by 10 at each milestone (the paper), or a cosine to 0 for short runs; warm-up first."""
    rate = train.learning_rate * min(1.0, (step + 1) / max(1, train.warmup))
    if train.schedule == "steps":
        return rate * 0.1 ** sum(step >= at for at in train.lr_decay_at)
    return rate * 0.5 * (1 + math.cos(math.pi * step / train.steps))


def recon_weights(config: Config, step: int) -> dict[str, float]:
    """Starts small, x 10 at each milestone: early on the landmarks still move too much (app. G.3)."""
    weight = float(config.losses.recon * 10.0 ** sum(step >= at for at in config.train.recon_raise_at))
    return {"recon": weight, "ssim": weight * config.losses.ssim}


def eqv_weight(config: Config, step: int) -> float:
    rise = config.train.eqv_rise ** (step / config.train.steps)
    return config.losses.eqv * rise


def landmark_share(config: Config, step: int) -> float:
    """Share of warps around landmarks: none while they still cluster at the centre, then rising."""
    start, end = config.train.landmark_points_at
    rise = min(1.0, max(0.0, (step - start) / max(1, end - start)))
    return config.warp.landmark_share * rise


def further(config: Config) -> Config:
    """A model's own config to train it further with: gentler, and with nothing left to settle first."""
    before, last = config.train, config.train.steps
    train = with_steps(config, max(1, last // FURTHER)).train
    train = replace(
        train,
        stage="discover",
        learning_rate=before.learning_rate / 4,
        recon_raise_at=(),
        landmark_points_at=(0, 0),
        eqv_rise=1.0,
    )
    if before.stage == "distill":  # its stronger augmentation was for that alone
        train = replace(train, gamma=0.0, shade=0.0, blur=0.0)
    recon, eqv = recon_weights(config, last)["recon"], eqv_weight(config, last)
    return replace(config, losses=replace(config.losses, recon=recon, eqv=eqv), train=train)
