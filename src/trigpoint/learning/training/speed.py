"""How much arithmetic a training step is, and how much this machine could do."""

from __future__ import annotations

import copy
import time

import torch

from trigpoint.core.config.tree import Config
from trigpoint.learning import losses
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.training import schedule
from trigpoint.learning.training.step import step_losses
from trigpoint.learning.warps.tps import RandomTPS


def step_gflop(model: Autoencoder, config: Config) -> float:
    """GFLOP of one training step per image: convolutions and matrix products, forward and backward."""
    from torch.utils.flop_counter import FlopCounterMode

    scratch = copy.deepcopy(model).train()
    count, size = 4, config.model.image_size
    images = torch.rand(count, config.model.channels, size, size)
    tps = RandomTPS(config.warp, config.model)
    taught = config.train.part == "detector"
    wanted = torch.full((count, config.model.landmarks, 2), 0.5) if taught else None
    with FlopCounterMode(display=False) as counter:
        terms = step_losses(scratch, images, tps, config, step=0, wanted=wanted)
        losses.total(terms, schedule.weights(config, 0)).backward()
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
