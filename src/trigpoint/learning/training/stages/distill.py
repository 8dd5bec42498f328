"""Distillation: the detector learns to find by one view what the model found by several. Not in the paper.

The mean of several views (`model/views.py`) is steadier than one. The teacher finds it once for every
training image; then the detector learns to find it at one view, on the image warped at random and under
stronger augmentation than in its first training, where that would have slowed discovery down. No other
network runs, so a step costs a fraction. The detector may also be of a model with fewer landmarks
(`training/condense.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from trigpoint.core.arrays import load_array, save_array
from trigpoint.core.config.tree import MAX_LANDMARKS, Config
from trigpoint.core.errors import TrigpointError
from trigpoint.core.io import say
from trigpoint.core.progress import Progress
from trigpoint.core.runs import Run
from trigpoint.learning import losses, tensors
from trigpoint.learning.augment import augmented
from trigpoint.learning.checkpoint import load_tensors, load_weights
from trigpoint.learning.data.order import evenly, sliced
from trigpoint.learning.data.prepared import Prepared
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.model.detector import Detection, Detector
from trigpoint.learning.model.views import look, mean_shape
from trigpoint.learning.nets.hourglass import folded
from trigpoint.learning.training import schedule
from trigpoint.learning.training.condense import condense, group
from trigpoint.learning.training.stages import Batch, Context, Stage
from trigpoint.learning.warps.tps import RandomTPS

VIEWS = 5
LINEAR = 0.007  # of the edge: what lies further off may be an error of the teacher's and counts less
SHAPE_IMAGES = 1024  # enough for a mean shape
NOISE_IMAGES = 2048  # enough for the covariance of a teacher's noise


@dataclass(frozen=True)
class Targets:
    """What a teacher found on the training images, as the landmarks of the student."""

    tps: RandomTPS
    found: NDArray[np.float32]  # (n, landmarks of the teacher, 2), on disk
    groups: Tensor | None = None  # (K, landmarks of the teacher): its means that are to be learnt

    def of(self, rows: NDArray[np.int64]) -> Tensor:
        """Where the student's landmarks are on images, (B, K, 2)."""
        found = torch.from_numpy(self.found[rows])
        return found if self.groups is None else self.groups.float() @ found


def prepare(context: Context) -> Targets:
    """The targets of a run: those in its cache, or new ones by the model that it goes on from."""
    run, images, config = context.run, context.images, context.config
    tps, few = RandomTPS(config.warp, config.model), config.model.landmarks
    if config.train.mirror:
        say(
            "train.mirror has no effect here: what the teacher finds on mirrored images is not known.",
            error=True,
        )
    file, grouping = run.cache_folder / "targets.npy", run.cache_folder / "groups.npy"
    wanted = (len(images), range(few, MAX_LANDMARKS + 1), 2)

    def kept() -> NDArray[np.float32]:
        found: NDArray[np.float32] = load_array(file, np.float32, wanted)
        if not np.isfinite(found).all():
            raise TrigpointError(f"{file} is damaged: it holds what is no finite number.")
        return found

    try:
        found = kept()
    except TrigpointError:  # none, or damaged
        with Progress("targets", len(images)) as bar:
            save_array(file, find_targets(teacher_of(run), images, bar.update))
        found = kept()
    many = found.shape[1]
    if few == many:
        return Targets(tps, found)
    try:
        groups = np.array(load_array(grouping, np.float64, (few, many)))
    except TrigpointError:
        groups = group(found, noise(teacher_of(run), images, found, config), few).numpy()
        save_array(grouping, groups)
    return Targets(tps, found, torch.from_numpy(groups))


def start(teacher: Mapping[str, Tensor], model: Autoencoder, targets: Targets) -> Mapping[str, Tensor]:
    return teacher if targets.groups is None else condense(teacher, model, targets.groups)


def teacher_of(run: Run) -> Autoencoder:
    weights = run.start_file()
    teacher = Autoencoder(Run(weights.parent).config().model)
    load_weights(teacher, load_tensors(weights)[0], weights)
    return teacher.eval()


@torch.no_grad()
def find_targets(
    teacher: Autoencoder, images: Prepared, tick: Callable[[int], None] = lambda done: None
) -> NDArray[np.float32]:
    """What the teacher finds by several views of each image, (n, K, 2)."""
    shape = torch.tensor(mean_shape(teacher, images.batches(evenly(len(images), SHAPE_IMAGES))))
    parts, detector = [], folded(teacher.detector)
    for part in images.batches(np.arange(len(images))):
        parts.append(look(teacher, part, shape, VIEWS, detector)[0])
        tick(sum(map(len, parts)))
    return np.asarray(torch.cat(parts).numpy(), np.float32)


@torch.no_grad()
def noise(teacher: Autoencoder, images: Prepared, targets: NDArray[np.float32], config: Config) -> Tensor:
    """Covariance (2K, 2K) of how far the teacher is from its targets at one view of a training sample.

    The worst tenth, where it was quite lost, does not count.
    """
    tps, detector = RandomTPS(config.warp, teacher.config), folded(teacher.detector)
    rows = evenly(len(images), NOISE_IMAGES)
    parts, rng = [], torch.Generator().manual_seed(config.train.seed)
    for part in sliced(rows):
        wanted = torch.from_numpy(targets[part])
        found, _ = found_again(detector, images.batch(part), wanted, tps, config, config.train.steps, rng)
        parts.append((found - wanted).flatten(1))
    strays = torch.cat(parts).double()
    nearest = strays.norm(dim=1).argsort()[: math.ceil(0.9 * len(strays))]
    return strays[nearest].T @ strays[nearest] / len(nearest)


def found_again(
    detector: Detector,
    images: Tensor,
    wanted: Tensor,
    tps: RandomTPS,
    config: Config,
    step: int,
    rng: Generator,
) -> tuple[Tensor, Detection]:
    """What is found on a warped and augmented copy of images, landmarks also mapped back."""
    warp = tps.draw(wanted, rng, schedule.landmark_share(config, step))
    warped = augmented(tensors.sample(images, warp.pixels), config.train, rng)
    found = detector(warped.contiguous(memory_format=torch.channels_last))
    return warp.map(found.landmarks), found


def loss(
    model: Autoencoder, batch: Batch, targets: Targets, config: Config, step: int, rng: Generator
) -> dict[str, Tensor]:
    """The terms by name, unweighted."""
    wanted = targets.of(batch.rows)
    landmarks, found = found_again(model.detector, batch.images, wanted, targets.tps, config, step, rng)
    return {
        "eqv": losses.equivariance(landmarks, wanted, LINEAR),
        "conc": losses.concentration(found.variances, config.losses.concentration),
    }


def weights(config: Config, step: int) -> dict[str, float]:
    return {"eqv": schedule.eqv_weight(config, step), "conc": config.losses.conc}


def derive(config: Config) -> Config:
    if config.train.stage != "distill":  # else once more in the same way
        config = schedule.further(config)
    train = replace(config.train, stage="distill", gamma=0.4, shade=0.4, blur=1.0)
    return replace(config, train=train, warp=replace(config.warp, flow_share=0.0))


STAGE = Stage(
    name="distill",
    trains=lambda model: model.detector,
    loss=loss,
    weights=weights,
    derive=derive,
    prepare=prepare,
    start=start,
    forward=lambda model, images: model.detect(images),
    moves_landmarks=True,
    fewer_landmarks=True,
)
