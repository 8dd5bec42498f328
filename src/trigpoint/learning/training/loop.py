"""Training, top to bottom (appendix F.3). One function, no callbacks: read it in one sitting."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import resource
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from trigpoint.core.arrays import save_arrays
from trigpoint.core.claim import claim, discard, drop, set_aside
from trigpoint.core.config.tree import Config, TrainConfig, check
from trigpoint.core.errors import TrigpointError
from trigpoint.core.io import say, write_atomically
from trigpoint.core.progress import Progress
from trigpoint.core.runs import Run
from trigpoint.core.sources.base import Source
from trigpoint.core.sources.video import Videos
from trigpoint.learning import losses
from trigpoint.learning.augment import relit
from trigpoint.learning.checkpoint import (
    load_checkpoint,
    load_tensors,
    load_weights,
    save_checkpoint,
    save_tensors,
)
from trigpoint.learning.data.flows import prepare_flows
from trigpoint.learning.data.prepared import Prepared, prepare, to_tensor
from trigpoint.learning.evaluation.consistency import warp_errors
from trigpoint.learning.evaluation.doubts import doubts
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.training import schedule
from trigpoint.learning.training.condense import condense
from trigpoint.learning.training.optimiser import optimiser_of
from trigpoint.learning.training.recalibrate import recalibrate
from trigpoint.learning.training.speed import matrix_product_gflops, step_gflop
from trigpoint.learning.training.stages.distill import mean_shape, prepare_lessons
from trigpoint.learning.training.step import generator_of, step_losses
from trigpoint.learning.warps.tps import RandomTPS

LOG_TIMES = 200  # lines in log.jsonl over a run
CHECKPOINT_SECONDS = 60.0
HELD_OUT = 128  # images at most, and a tenth of the set, kept aside for the report
SPARED = 8  # images at least, or none
EVOLUTION = (0.0, 0.01, 0.03, 0.08, 0.16, 0.32, 0.6, 1.0)  # of the run: when detection maps are kept


class TrainingFailed(Exception):
    """Training cannot go on; the message says why and what is kept."""


class Interrupted(Exception):
    """Stopped by the user; everything is saved."""


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

    `start` is the weights file of a model of the same config to go out from; where the detector is trained
    alone that model may have more landmarks.

    With `resume` the folder's own config is used. A run that was killed at any moment and resumed
    ends with the weights of one that was not (bit for bit on one thread).
    """
    with claim(out, resume=resume, overwrite=overwrite) as run:
        if resume and run.finished:
            return run
        train_in(run, run.config() if resume else config, source, start, resume)
    return run


def train_in(run: Run, config: Config, source: Source, start: Path | None, resume: bool) -> None:
    """Training itself, in a folder that is kept for it."""
    check(config)
    settings = config.train
    if settings.part != "all" and start is None and not resume:
        raise TrigpointError(
            f"Training the {settings.part} alone needs a trained model: name it, --from MODEL."
        )
    aside = None if resume else set_aside(run)
    fresh = not run.config_file.exists()

    # The data: decoded once, a few images held out.
    try:
        if fresh:
            run.start(config, source.words, start)
        with Progress("preparing", len(source)) as bar:
            images = prepare(source, config, run.cache_folder, lambda done, _: bar.update(done))
        rows, held_out = split(images, settings.seed)
        flows = None
        if config.warp.flow_share:
            with Progress("optical flow", len(images)) as bar:
                flows = prepare_flows(
                    source, images, config, run.cache_folder, lambda done, _: bar.update(done)
                )
    except BaseException as error:
        # Leave nothing behind that is in the way of the next attempt; lose no run that was there.
        if (aside or (fresh and isinstance(error, TrigpointError))) and run.folder.is_dir():
            discard(run, aside)
        raise
    drop(run)
    save_arrays(run.samples_file, pixels=held_out, skipped=np.array(json.dumps(images.skipped)))
    checks = to_tensor(held_out)
    doubtful = doubts(len(images), 10 * SPARED, checks)
    for sentence in doubtful:
        say(sentence, error=True)

    # The state: model, optimiser, the weights' moving average.
    model = Autoencoder(config.model, seed=settings.seed)
    lessons = prepare_lessons(run, images, config) if settings.part == "detector" else None
    if "start" in run.meta() and not run.checkpoint_file.exists():
        start = run.start_file()
        tensors = load_tensors(start)[0]
        if lessons is not None and lessons.groups is not None:
            tensors = condense(tensors, model, lessons.groups)
        load_weights(model, tensors, start)
    trained = part_of(model, settings)
    moves = settings.part in ("all", "detector")  # whether landmarks do
    model.requires_grad_(False)
    trained.requires_grad_(True)
    optimiser = optimiser_of(settings, trained.parameters())
    average: dict[str, Tensor] = {}
    tps = RandomTPS(config.warp, config.model)
    first = 0
    sums: dict[str, float] = {}  # of the losses since the last line of the log
    if settings.ema:
        average = {name: value.detach().clone() for name, value in model.named_parameters()}
    if run.checkpoint_file.exists():
        first = load_checkpoint(run.checkpoint_file, settings.steps, model, optimiser, average, sums)
        run.truncate_log(first)
    else:
        line: dict[str, float] = {"step": 0}
        if moves:
            untrained = copy.deepcopy(model)
            recalibrate(untrained, batches(images, rows, min(256, len(rows)), settings))
            line["warp_error"] = float(warp_errors(untrained, checks).mean())
        write_atomically(run.log_file, (json.dumps(line) + "\n").encode())

    log_every = max(1, settings.steps // LOG_TIMES)
    keep_maps_at = {round(part * settings.steps) for part in EVOLUTION} if moves else set()
    saved_at = time.monotonic()
    bar = Progress("training", settings.steps, per_step=settings.batch_size, done=first)
    with interruptible() as interrupted, bar, run.log_file.open("a") as log:
        for step in range(first, settings.steps):
            if step in keep_maps_at:
                keep_maps(run, model, checks, step)

            model.eval()
            trained.train()
            for group in optimiser.param_groups:
                group["lr"] = schedule.learning_rate(settings, step)
            batch = rows[schedule.batch_rows(len(rows), settings.batch_size, step, settings.seed)]
            pairs = flows.pairs(images, batch) if flows else None
            wanted = lessons.of(batch) if lessons is not None else None
            terms = step_losses(model, images.batch(batch), tps, config, step, pairs, wanted)
            loss = losses.total(terms, schedule.weights(config, step))
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
            if not (math.isfinite(loss.item()) and math.isfinite(norm.item())):
                raise TrainingFailed(not_finite(run, step, terms, norm))
            optimiser.step()
            for name, value in model.named_parameters() if settings.ema else ():
                average[name].lerp_(value.detach(), 1 - min(settings.ema, (1 + step) / (10 + step)))

            # Everything below only tells and saves.
            done = step + 1
            for name, term in {**terms, "total": loss}.items():
                sums[name] = sums.get(name, 0.0) + term.item()
            if done % log_every == 0 or done == settings.steps:
                count = (step % log_every) + 1
                line = {name: value / count for name, value in sums.items()}
                line |= {"step": done, "images_per_second": bar.rate, "memory_mb": memory_mb()}
                log.write(json.dumps({key: round_off(value) for key, value in line.items()}) + "\n")
                log.flush()
                sums = {}
            bar.update(done, "  ".join(f"{name} {term.item():.3g}" for name, term in terms.items()))
            run.check_there(log)
            stop = interrupted.is_set()
            due = time.monotonic() - saved_at > CHECKPOINT_SECONDS
            if stop or due or done == settings.steps:
                save_checkpoint(run.checkpoint_file, done, model, optimiser, average, sums)
                saved_at = time.monotonic()
            if stop and done < settings.steps:
                raise Interrupted(
                    f"Stopped at step {done} of {settings.steps}; everything is saved in {run.folder}."
                )
        rate = bar.rate

    # The final model: averaged weights if any, batch-norm statistics from a subset of the images.
    if moves:
        keep_maps(run, model, checks, settings.steps)
    with torch.no_grad():
        for name, value in model.named_parameters() if settings.ema else ():
            value.copy_(average[name])
    subset = min(settings.recalibration_images, len(rows))
    recalibrate(model, batches(images, rows, subset, settings), trained)
    if moves:
        run.keep_shape(mean_shape(model, images, rows[np.linspace(0, len(rows) - 1, subset).astype(int)]))
    save_tensors(run.model_file, model.state_dict())
    finish(run, model, config, source, images, checks, doubtful, rate)
    shutil.rmtree(run.cache_folder)


def part_of(model: Autoencoder, settings: TrainConfig) -> nn.Module:
    """What of a model is trained."""
    drawing = nn.ModuleList(part for part in (model.descriptors, model.decoder) if part is not None)
    parts = {"all": model, "decoder": model.decoder, "drawing": drawing, "detector": model.detector}
    return parts[settings.part]


def split(images: Prepared, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on, and the pixels of the images held out (of a tiny set: some that are trained on)."""
    if len(images) < 2:
        raise TrigpointError("Training needs at least 2 readable images; found 1.")
    order = np.random.default_rng((seed, 2)).permutation(len(images))
    count = held_out_count(len(images))
    if not count:
        return np.sort(order), np.asarray(images.pixels[np.sort(order[:SPARED])])
    return np.sort(order[count:]), np.asarray(images.pixels[np.sort(order[:count])])


def held_out_count(images: int) -> int:
    """A tenth of the set, 128 at most; none of a set so small that it needs them all."""
    count = min(HELD_OUT, images // 10)
    return count if count >= SPARED else 0


def batches(images: Prepared, rows: np.ndarray, count: int, settings: TrainConfig) -> Iterator[Tensor]:
    """`count` random training images in batches, in the light that the weights were trained in.

    Frames of one subject are so alike that statistics without the jitter are of another scale: on such
    videos the decoder's error was 29 times larger with them.
    """
    chosen = np.random.default_rng((settings.seed, 3)).permutation(rows)[:count]
    size = max(2, min(64, len(chosen)))
    generator = generator_of(settings.seed, settings.steps)
    for start in range(0, max(1, len(chosen) - size + 1), size):
        part = images.batch(chosen[start : start + size])
        yield relit(part, settings, generator)


@torch.no_grad()
def keep_maps(run: Run, model: Autoencoder, images: Tensor, step: int) -> None:
    """Keep the detection maps of a few images, to show how they evolve (Figure 18 of the paper)."""
    model.train()  # batch statistics: the running ones are not meant to be used
    frozen = copy.deepcopy(model)
    detection = frozen.detect(images[:64])
    maps = (detection.maps[:6] * 255).round().byte().numpy()
    file = run.evolution_folder / f"step-{step:07d}.npz"
    save_arrays(file, maps=maps, landmarks=detection.landmarks[:6].numpy())


def finish(
    run: Run,
    model: Autoencoder,
    config: Config,
    source: Source,
    images: Prepared,
    checks: Tensor,
    doubtful: list[str],
    rate: float,
) -> None:
    """Measure the finished model and write it all to summary.json."""
    from trigpoint.core.inference.predictor import Predictor
    from trigpoint.learning.evaluation.health import examine
    from trigpoint.learning.evaluation.temporal import temporal

    work = step_gflop(model, config)
    summary = {
        "steps": config.train.steps,
        "train_images": len(images),
        "held_out": len(checks) if held_out_count(len(images)) else 0,
        "skipped": images.skipped,
        "parameters": sum(value.numel() for value in model.parameters()),
        "images_per_second": round(rate, 1),
        "gflop_per_image": round(work, 4),
        "gflops": round(work * rate, 1),
        "matrix_product_gflops": round(matrix_product_gflops(), 1),
        "peak_memory_mb": memory_mb(),
        "warp_error_before": next((line.get("warp_error") for line in run.log()), None),
        "warp_error": round(float(warp_errors(model, checks).mean()), 5),
        "health": examine(model, checks),
        "doubts": doubtful,
    }
    if isinstance(source, Videos):
        steady = temporal(Predictor(model, config, shape=run.shape()), source.unsampled())
        summary["temporal"] = steady.to_dict() if steady else None
    write_atomically(run.summary_file, json.dumps(summary, indent=2).encode())


def not_finite(run: Run, step: int, terms: dict[str, Tensor], norm: Tensor) -> str:
    bad = [name for name, term in terms.items() if not math.isfinite(term.item())]
    what = f"the loss {', '.join(bad)}" if bad else f"the gradient (norm {norm.item()})"
    kept = "The last good checkpoint is kept" if run.checkpoint_file.exists() else "No checkpoint existed yet"
    return (
        f"Training stopped at step {step}: {what} is not finite. {kept} in {run.folder}. "
        "A lower learning rate (--set train.learning_rate=0.001) usually helps."
    )


def memory_mb() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def round_off(value: float) -> float:
    return float(f"{value:.6g}")


@contextlib.contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM set the event instead of breaking off in the middle of a step."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    kept = {
        number: signal.signal(number, lambda *_: event.set()) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield event
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
