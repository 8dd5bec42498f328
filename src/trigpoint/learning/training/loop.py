"""Training, top to bottom (appendix G.3). No callbacks: read it in one sitting."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from trigpoint.core.arrays import save_arrays
from trigpoint.core.claim import claim, replacing
from trigpoint.core.config.tree import Config, check
from trigpoint.core.errors import TrigpointError
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.io import peak_memory_mb, say, write_atomically
from trigpoint.core.runs import Run
from trigpoint.core.sources.base import Source
from trigpoint.learning import losses
from trigpoint.learning.augment import augmented
from trigpoint.learning.backends.pytorch import TorchBackend
from trigpoint.learning.checkpoint import load_tensors, load_weights, save_tensors
from trigpoint.learning.data.order import BATCH, Order, evenly, sliced
from trigpoint.learning.data.prepared import HELD_OUT_LEAST, TrainingSet, training_set
from trigpoint.learning.devices import generator_of
from trigpoint.learning.evaluation.consistency import warp_errors
from trigpoint.learning.evaluation.doubts import doubts
from trigpoint.learning.evaluation.health import examine
from trigpoint.learning.evaluation.temporal import temporal
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.model.views import mean_shape
from trigpoint.learning.nets.norms import recalibrated
from trigpoint.learning.tensors import to_tensor
from trigpoint.learning.training import schedule, stages
from trigpoint.learning.training.average import Average
from trigpoint.learning.training.optimiser import optimiser_of
from trigpoint.learning.training.session import Session, State
from trigpoint.learning.training.stages import Batch, Context, Stage

EVOLUTION = (0.0, 0.01, 0.03, 0.08, 0.16, 0.32, 0.6, 1.0)  # of the run: when detection maps are kept
EVOLUTION_IMAGES = 6
LOWER = "--set train.learning_rate=0.001"


def train(
    config: Config,
    source: Source,
    out: Path,
    *,
    start: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> Run:
    """Train a model on a source's images into the run folder `out`; returns the finished run.

    `start` is the weights file of the model that a stage goes on from. With `resume` the folder's own config
    is used. A run that was killed at any moment and resumed ends with the weights of one that was not (bit
    for bit on one thread).
    """
    with claim(out, resume=resume, overwrite=overwrite) as run:
        if not (resume and run.finished):
            train_in(run, run.config() if resume else config, source, start, resume)
    return run


def train_in(run: Run, config: Config, source: Source, start: Path | None, resume: bool) -> None:
    """Training itself, in a folder that is kept for it."""
    check(config)
    settings, stage = config.train, stages.named(config.train.stage)
    if not (stage.from_scratch or start or resume):
        raise TrigpointError(f"The stage {stage.name} goes on from a trained model: name it, --from MODEL.")

    # The data: decoded once, a few images held out; and what the stage compares them with.
    with replacing(run, resume) as fresh:
        if fresh:
            run.start(config, source.words, start)
        data = training_set(source, config, run, settings.seed)
        targets = stage.prepare(Context(run, source, data.images, config))
    checks = to_tensor(data.held_out)
    doubtful = doubts(len(data.images), 10 * HELD_OUT_LEAST, checks)
    for sentence in doubtful:
        say(sentence, error=True)

    # The state: model, optimiser, the weights' moving average.
    model = Autoencoder(config.model, seed=settings.seed)
    trained = stage.trains(model)
    if "start" in run.meta() and not run.checkpoint_file.exists():
        weights = run.start_file()
        load_weights(model, stage.start(load_tensors(weights)[0], model, targets), weights)
    model.requires_grad_(False)
    trained.requires_grad_(True)
    optimiser = optimiser_of(settings, trained.parameters())
    average = Average(model, settings.ema)
    order = Order(data.rows, settings.batch_size, settings.seed)
    keep_maps_at = {round(part * settings.steps) for part in EVOLUTION} if stage.moves_landmarks else set()

    session = Session(run, State(model, optimiser, average), settings.steps, settings.batch_size)
    if session.fresh:
        begin_log(run, stage, model, data, config, checks)
    with session:
        for step in session.steps():
            if step in keep_maps_at:
                keep_maps(run, model, checks, step)
            model.eval()
            trained.train()
            for group in optimiser.param_groups:
                group["lr"] = schedule.learning_rate(settings, step)
            rows = order.batch(step)
            batch = Batch(data.images.batch(rows), rows)
            terms = stage.loss(model, batch, targets, config, step, generator_of(settings.seed, step))
            loss = losses.total(terms, stage.weights(config, step))
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            session.refuse_not_finite(step, terms, LOWER)
            optimiser.step()
            average.update(step)
            session.record(step, {**terms, "total": loss})

    # The final model: averaged weights if any, batch-norm statistics from a subset of the images.
    if stage.moves_landmarks:
        keep_maps(run, model, checks, settings.steps)
    average.copy_to(model)
    subset = min(settings.recalibration_images, len(data.rows))
    with recalibrated(model, trained):
        for images in batches(data, subset, config):
            stage.forward(model, images)
    if stage.moves_landmarks:
        run.keep_shape(mean_shape(model, data.images.batches(data.rows[evenly(len(data.rows), subset)])))
    save_tensors(run.model_file, model.state_dict())
    finish(run, model, config, source, data, checks, doubtful, session.rate)
    shutil.rmtree(run.cache_folder)


def begin_log(
    run: Run, stage: Stage, model: Autoencoder, data: TrainingSet, config: Config, checks: Tensor
) -> None:
    """The first line: what there is before the first step."""
    line: dict[str, float] = {"step": 0}
    if stage.moves_landmarks:
        untrained = copy.deepcopy(model)
        with recalibrated(untrained, untrained.detector):
            for images in batches(data, min(256, len(data.rows)), config):
                untrained.detect(images)
        line["warp_error"] = float(warp_errors(untrained, checks).mean())
    write_atomically(run.log_file, (json.dumps(line) + "\n").encode())


def batches(data: TrainingSet, count: int, config: Config) -> Iterator[Tensor]:
    """`count` random training images in batches, augmented as the weights were trained.

    Frames of one subject are so alike that statistics without augmentation are of another scale: on such
    videos the decoder's error was 29 times larger with them.
    """
    settings = config.train
    chosen = np.random.default_rng((settings.seed, 3)).permutation(data.rows)[:count]
    size = max(2, min(BATCH, len(chosen)))
    rng = generator_of(settings.seed, settings.steps)
    for rows in sliced(chosen[: max(size, len(chosen) // size * size)], size):
        yield augmented(data.images.batch(np.sort(rows)), settings, rng)


@torch.no_grad()
def keep_maps(run: Run, model: Autoencoder, images: Tensor, step: int) -> None:
    """Keep the detection maps of a few images, to show how they evolve (Figure 39 of the paper)."""
    model.train()  # batch statistics: the running ones are not meant to be used
    frozen = copy.deepcopy(model)
    detection = frozen.detect(images[:BATCH])
    some = slice(EVOLUTION_IMAGES)
    save_arrays(
        run.evolution_folder / f"step-{step:07d}.npz",
        maps=(detection.maps[some] * 255).round().byte().numpy(),
        landmarks=detection.landmarks[some].numpy(),
    )


def finish(
    run: Run,
    model: Autoencoder,
    config: Config,
    source: Source,
    data: TrainingSet,
    checks: Tensor,
    doubtful: list[str],
    rate: float,
) -> None:
    """Measure the finished model and write it all to summary.json."""
    summary = {
        "steps": config.train.steps,
        "train_images": len(data.images),
        "held_out": data.held_out_count,
        "skipped": data.images.skipped,
        "parameters": sum(value.numel() for value in model.parameters()),
        "images_per_second": round(rate, 1),
        "peak_memory_mb": peak_memory_mb(),
        "warp_error_before": run.log()[0].get("warp_error"),
        "warp_error": round(float(warp_errors(model, checks).mean()), 5),
        "health": examine(model, checks),
        "doubts": doubtful,
    }
    if every := source.unsampled():
        steady = temporal(Predictor(TorchBackend(model, run.shape(), config.views), config), every)
        summary["temporal"] = steady.to_dict() if steady else None
    write_atomically(run.summary_file, json.dumps(summary, indent=2).encode())
