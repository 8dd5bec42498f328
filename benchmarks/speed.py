"""How much arithmetic a training step is, and how much this machine could do."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from trigpoint.core.config.tree import Config
from trigpoint.learning import losses
from trigpoint.learning.devices import generator_of
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.training import stages
from trigpoint.learning.training.stages import Batch, discover, distill
from trigpoint.learning.warps.tps import RandomTPS


def loss_of(model: Autoencoder, config: Config) -> Callable[[Tensor, int], Tensor]:
    """The loss of images (B, C, n, n) at a step, for the config's stage; a teacher's targets are made up."""
    stage, tps = stages.named(config.train.stage), RandomTPS(config.warp, config.model)
    targets = discover.Targets(tps, None)  # type: ignore[arg-type]

    def loss(images: Tensor, step: int) -> Tensor:
        batch = Batch(images, np.arange(len(images)))
        wanted = np.full((len(images), config.model.landmarks, 2), 0.5, np.float32)
        known = distill.Targets(tps, wanted) if stage.name == "distill" else targets
        terms = stage.loss(model, batch, known, config, step, generator_of(config.train.seed, step))
        return losses.total(terms, stage.weights(config, step))

    return loss


def step_gflop(model: Autoencoder, config: Config) -> float:
    """GFLOP of one training step per image: convolutions and matrix products, forward and backward."""
    from torch.utils.flop_counter import FlopCounterMode

    count, size = 4, config.model.image_size
    images = torch.rand(count, config.model.channels, size, size)
    with FlopCounterMode(display=False) as counter:
        loss_of(model.train(), config)(images, 0).backward()
    return counter.get_total_flops() / count / 1e9


def matrix_product_gflops(size: int = 2048, repeats: int = 5) -> float:
    """GFLOP/s of a large matrix product here and now: the best of a few."""
    left, right = torch.rand(size, size), torch.rand(size, size)
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        left @ right
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best / 1e9
