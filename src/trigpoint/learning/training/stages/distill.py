"""Training the detector alone, taught by its own several looks: to find by one what it found by many.

The mean of several looks (`model/looks.py`) is steadier than one. It is noted once for every training image;
then the detector learns to find it at one look, on the image warped at random and in harder light than in its
first training, where that would have slowed the discovery down. No other network runs, so a step costs a
fraction. The detector may also be of a model with fewer landmarks (`training/condense.py`). Not in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trigpoint.core import geometry
from trigpoint.core.arrays import load_array, save_array
from trigpoint.core.config.tree import MAX_LANDMARKS, Config
from trigpoint.core.errors import TrigpointError
from trigpoint.core.progress import Progress
from trigpoint.core.runs import Run
from trigpoint.learning import losses
from trigpoint.learning.augment import relit
from trigpoint.learning.checkpoint import load_tensors, load_weights
from trigpoint.learning.data.prepared import Prepared
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.model.detector import Detection, Detector
from trigpoint.learning.model.views import look
from trigpoint.learning.nets.hourglass import folded
from trigpoint.learning.training import schedule
from trigpoint.learning.training.condense import group
from trigpoint.learning.warps.tps import RandomTPS

LOOKS = 5
LINEAR = 0.007  # of the edge: what lies further off may be an error of the teacher's and counts less
BATCH = 64
SHAPE_IMAGES = 1024  # enough for a mean shape
WAVERING_IMAGES = 2048  # enough for how steady landmarks are


@dataclass(frozen=True)
class Lessons:
    """What a teacher found on the training images, as the landmarks of a model that learns them."""

    notes: NDArray[np.float32]  # (n, landmarks of the teacher, 2), on disk
    groups: Tensor | None = None  # (K, landmarks of the teacher): its means that are to be learnt

    def of(self, rows: NDArray[np.int64]) -> Tensor:
        """Where the landmarks are wanted on images, (B, K, 2)."""
        noted = torch.from_numpy(self.notes[np.sort(rows)])
        return noted if self.groups is None else self.groups.float() @ noted


def prepare_lessons(run: Run, images: Prepared, config: Config) -> Lessons:
    """The lessons of a run: those in its cache, or new ones by the model that it goes out from."""
    file, grouping = run.cache_folder / "taught.npy", run.cache_folder / "groups.npy"
    few = config.model.landmarks
    wanted = (len(images), range(few, MAX_LANDMARKS + 1), 2)

    def noted() -> NDArray[np.float32]:
        found: NDArray[np.float32] = load_array(file, np.float32, wanted)
        if not np.isfinite(found).all():
            raise TrigpointError(f"{file} is damaged: it holds what is no finite number.")
        return found

    try:
        notes = noted()
    except TrigpointError:  # none, or damaged
        with Progress("taking notes", len(images)) as bar:
            take_notes(teacher_of(run), images, file, bar.update)
        notes = noted()
    many = notes.shape[1]
    if few == many:
        return Lessons(notes)
    try:
        groups = np.array(load_array(grouping, np.float64, (few, many)))
    except TrigpointError:
        groups = group(notes, wavering(teacher_of(run), images, notes, config), few).numpy()
        save_array(grouping, groups)
    return Lessons(notes, torch.from_numpy(groups))


def teacher_of(run: Run) -> Autoencoder:
    weights = run.start_file()
    teacher = Autoencoder(Run(weights.parent).config().model)
    load_weights(teacher, load_tensors(weights)[0], weights)
    return teacher.eval()


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
    save_array(file, torch.cat(parts).numpy())


@torch.no_grad()
def mean_shape(model: Autoencoder, images: Prepared, rows: NDArray[np.int64]) -> list[list[float]]:
    """The mean landmarks (K, 2) of images at one look: what further looks bring others back to."""
    found = torch.cat([model.detect(part).landmarks for part in in_batches(images, rows)])
    return [[round(x, 6), round(y, 6)] for x, y in found.double().mean(0).tolist()]


def in_batches(images: Prepared, rows: NDArray[np.int64]) -> Iterator[Tensor]:
    return (images.batch(rows[start : start + BATCH]) for start in range(0, len(rows), BATCH))


@torch.no_grad()
def wavering(teacher: Autoencoder, images: Prepared, notes: NDArray[np.float32], config: Config) -> Tensor:
    """Covariance (2K, 2K) of how far the teacher strays from its notes at one look at a lesson.

    The worst tenth of the looks, where it was quite lost, does not count.
    """
    tps, detector = RandomTPS(config.warp, teacher.config), folded(teacher.detector)
    rows = np.linspace(0, len(images) - 1, min(WAVERING_IMAGES, len(images))).astype(int)
    parts, generator = [], torch.Generator().manual_seed(config.train.seed)
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        noted = torch.from_numpy(notes[part])
        found, _ = found_again(
            detector, images.batch(part), noted, tps, config, config.train.steps, generator
        )
        parts.append((found - noted).flatten(1))
    strays = torch.cat(parts).double()
    nearest = strays.norm(dim=1).argsort()[: math.ceil(0.9 * len(strays))]
    return strays[nearest].T @ strays[nearest] / len(nearest)


def found_again(
    detector: Detector,
    images: Tensor,
    noted: Tensor,
    tps: RandomTPS,
    config: Config,
    step: int,
    generator: torch.Generator,
) -> tuple[Tensor, Detection]:
    """A lesson: what is found on a warped copy of images in another light, landmarks also brought back."""
    warp = tps.draw(noted, generator, schedule.landmark_share(config, step))
    warped = relit(geometry.sample(images, warp.pixels), config.train, generator)
    found = detector(warped.contiguous(memory_format=torch.channels_last))
    return warp.map(found.landmarks), found


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
    landmarks, found = found_again(model.detector, images, wanted, tps, config, step, generator)
    return {
        "eqv": losses.equivariance(landmarks, wanted, LINEAR),
        "conc": losses.concentration(found.variances, config.losses.concentration),
    }
