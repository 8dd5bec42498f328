"""Training the detector alone, taught by its own several looks: to find by one what it found by many.

The mean of several looks (`model/looks.py`) is steadier than one. It is noted once for every training image;
then the detector learns to find it at one look, on the image warped at random and in harder light than in its
first training, where that would have slowed the discovery down. No other network runs, so a step costs a
fraction. Not in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cairns import geometry, losses
from cairns.config import Config
from cairns.model.autoencoder import Autoencoder
from cairns.model.looks import look
from cairns.nets.hourglass import folded
from cairns.training import schedule
from cairns.training.light import relit
from cairns.training.prepared import Prepared
from cairns.warps.tps import RandomTPS

LOOKS = 5
LINEAR = 0.007  # of the edge: what lies further off may be an error of the teacher's and counts less
BATCH = 64
SHAPE_IMAGES = 1024  # enough for a mean shape


@torch.no_grad()
def take_notes(
    teacher: Autoencoder, images: Prepared, file: Path, tick: Callable[[int], None] = lambda done: None
) -> None:
    """Write what the teacher finds by several looks on each image, (n, K, 2), to FILE."""
    teacher.eval()
    some = np.linspace(0, len(images) - 1, min(SHAPE_IMAGES, len(images))).astype(int)
    shape = torch.tensor(mean_shape(teacher, images, some))
    parts, detector = [], folded(teacher.detector)
    for part in in_batches(images, np.arange(len(images))):
        parts.append(look(teacher, part, shape, LOOKS, detector)[0])
        tick(min(len(images), BATCH * len(parts)))
    written = file.with_name("taught.part.npy")
    np.save(written, torch.cat(parts).numpy())
    written.replace(file)


@torch.no_grad()
def mean_shape(model: Autoencoder, images: Prepared, rows: NDArray[np.int64]) -> list[list[float]]:
    """The mean landmarks (K, 2) of images at one look: what further looks bring others back to."""
    found = torch.cat([model.detect(part).landmarks for part in in_batches(images, rows)])
    return [[round(x, 6), round(y, 6)] for x, y in found.double().mean(0).tolist()]


def in_batches(images: Prepared, rows: NDArray[np.int64]) -> Iterator[Tensor]:
    return (images.batch(rows[start : start + BATCH]) for start in range(0, len(rows), BATCH))


def taught_losses(
    model: Autoencoder,
    images: Tensor,
    wanted: Tensor,
    tps: RandomTPS,
    config: Config,
    step: int,
    generator: torch.Generator,
) -> dict[str, Tensor]:
    """The terms by name, unweighted, for images (B, C, n, n) whose landmarks are `wanted` at (B, K, 2)."""
    warp = tps.draw(wanted, generator, schedule.landmark_share(config, step))
    warped = relit(geometry.sample(images, warp.pixels), config.train, generator)
    found = model.detector(warped.contiguous(memory_format=torch.channels_last))
    return {
        "eqv": losses.equivariance(warp.map(found.landmarks), wanted, LINEAR),
        "conc": losses.concentration(found.variances, config.losses.concentration),
    }
