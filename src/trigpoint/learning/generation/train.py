"""Training a generator (appendix F.5), top to bottom: the detector is fixed, two networks compete."""

from __future__ import annotations

import copy
import json
import math
import shutil
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trigpoint.core.arrays import load_array, save_array, save_arrays
from trigpoint.core.claim import claim, discard, drop, set_aside
from trigpoint.core.config.generator import GeneratorConfig
from trigpoint.core.errors import TrigpointError
from trigpoint.core.files.overlay import write_image
from trigpoint.core.generator_run import GeneratorRun
from trigpoint.core.inference.predictor import Predictor, find_model
from trigpoint.core.io import write_atomically
from trigpoint.core.progress import Progress
from trigpoint.core.sources.base import Source
from trigpoint.learning.checkpoint import load_checkpoint, save_checkpoint, save_tensors
from trigpoint.learning.data.prepared import Prepared, prepare, to_tensor
from trigpoint.learning.generation import losses
from trigpoint.learning.generation.networks import Adversaries, Generator
from trigpoint.learning.generation.quality import cycle_distances, diversity
from trigpoint.learning.generation.sampler import Sampler, draw, sheet
from trigpoint.learning.losses import cycle as cyclic_loss
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.training import schedule
from trigpoint.learning.training.loop import (
    CHECKPOINT_SECONDS,
    LOG_TIMES,
    Interrupted,
    TrainingFailed,
    held_out_count,
    interruptible,
    memory_mb,
    round_off,
    split,
)
from trigpoint.learning.training.step import generator_of

SHOWN = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)  # of the run: when samples are kept
ROWS, COLUMNS = 6, 8  # references and samples of each in the pictures


def train(
    settings: GeneratorConfig,
    model: str | Path,
    source: Source,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
) -> GeneratorRun:
    """Train a generator for the landmarks of `model` on a source's images into the folder `out`.

    With `resume` the folder's own model and settings are used. A run that was killed and resumed ends with
    the weights of one that was not (bit for bit on one thread).
    """
    run = GeneratorRun(out)
    with claim(out, resume=resume, overwrite=overwrite):
        if not (resume and run.finished):
            train_in(run, run.settings() if resume else settings, model, source, resume)
    return run


def train_in(
    run: GeneratorRun, settings: GeneratorConfig, model: str | Path, source: Source, resume: bool
) -> None:
    """Training itself, in a folder that is kept for it."""
    predictor = Predictor.load(run.folder if resume else model)
    config = predictor.config
    adversaries = Adversaries(settings, config.model)  # refused, if at all, before anything is written
    original = run.landmarks if resume else find_model(model)
    if not resume and original.folder.resolve().is_relative_to(run.folder.resolve()):
        raise TrigpointError(f"{run.folder} holds the model that the generator is for; choose another --out.")
    aside = None if resume else set_aside(run)
    try:
        if not resume:
            run.begin(settings, source.words, original)
        with Progress("preparing", len(source)) as bar:
            images = prepare(source, config, run.cache_folder, lambda done, _: bar.update(done))
        rows, held_out = split(images, settings.seed)
        wanted = references(predictor, images, run.references_file)
    except BaseException as error:
        # Without its config.json a run could be neither resumed nor replaced.
        useless = isinstance(error, TrigpointError) or not run.config_file.exists()
        if (aside or (not resume and useless)) and run.folder.is_dir():
            discard(run, aside)
        raise
    drop(run)
    save_arrays(run.samples_file, pixels=held_out, skipped=np.array(json.dumps(images.skipped)))
    checks = landmarks_of(predictor, to_tensor(held_out))

    detector = predictor.model.requires_grad_(False)  # fixed, in evaluation mode
    generator = adversaries.generator
    optimiser = torch.optim.Adam(
        adversaries.parameters(), lr=settings.learning_rate, betas=(settings.beta1, 0.999)
    )
    average = {name: value.detach().clone() for name, value in generator.named_parameters()}
    first = 0
    sums: dict[str, float] = {}
    if run.checkpoint_file.exists():
        first = load_checkpoint(run.checkpoint_file, settings.steps, adversaries, optimiser, average, sums)
        run.truncate_log(first)
    else:
        write_atomically(run.log_file, b"")

    log_every = max(1, settings.steps // LOG_TIMES)
    show_at = {round(part * settings.steps) for part in SHOWN}
    saved_at = time.monotonic()
    bar = Progress("training", settings.steps, per_step=settings.batch_size, done=first)
    with interruptible() as interrupted, bar, run.log_file.open("a") as log:
        for step in range(first, settings.steps):
            if step in show_at:
                keep_samples(run, averaged(generator, average), settings, held_out, checks, step)
            for group in optimiser.param_groups:
                group["lr"] = learning_rate(settings, step)
            batch = np.sort(rows[schedule.batch_rows(len(rows), settings.batch_size, step, settings.seed)])
            real, landmarks = images.batch(batch), torch.from_numpy(wanted[batch])
            latents = draw(len(batch), settings.latent, generator_of(settings.seed, step))

            adversaries.train()
            optimiser.zero_grad(set_to_none=True)
            terms = gradients(adversaries, detector, real, landmarks, latents, settings)
            norm = torch.nn.utils.get_total_norm(
                [value.grad for value in adversaries.parameters() if value.grad is not None]
            )
            if not (
                math.isfinite(norm.item()) and all(math.isfinite(term.item()) for term in terms.values())
            ):
                kept = (
                    "the last good checkpoint is kept"
                    if run.checkpoint_file.exists()
                    else "nothing was saved"
                )
                raise TrainingFailed(
                    f"Training stopped at step {step}: a loss or its gradient is not finite; {kept} in "
                    f"{run.folder}. A lower learning rate (--set learning_rate=0.0001) usually helps."
                )
            optimiser.step()
            with torch.no_grad():
                adversaries.k.copy_(
                    losses.next_k(adversaries.k, terms["real"], terms["made"], settings.gamma, settings.gain)
                )
                for name, value in generator.named_parameters():
                    average[name].lerp_(value, 1 - min(settings.ema, (1 + step) / (10 + step)))

            # Everything below only tells and saves.
            done = step + 1
            for name, term in terms.items():
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
                save_checkpoint(run.checkpoint_file, done, adversaries, optimiser, average, sums)
                saved_at = time.monotonic()
            if stop and done < settings.steps:
                raise Interrupted(
                    f"Stopped at step {done} of {settings.steps}; everything is saved in {run.folder}."
                )
        rate = bar.rate

    # The generator that samples: averaged weights, batch-norm statistics to go with them.
    final = averaged(generator, average)
    count = min(settings.recalibration_images, len(rows))
    chosen = np.sort(np.random.default_rng((settings.seed, 3)).permutation(rows)[:count])
    recalibrate(final, torch.from_numpy(wanted[chosen]), settings)
    keep_samples(run, final, settings, held_out, checks, settings.steps)
    save_tensors(run.model_file, final.state_dict())
    finish(run, Sampler(final, predictor, settings), images, held_out, checks, rate)
    shutil.rmtree(run.cache_folder)


def gradients(
    adversaries: Adversaries,
    detector: Autoencoder,
    real: Tensor,
    landmarks: Tensor,
    latents: Tensor,
    settings: GeneratorConfig,
) -> dict[str, Tensor]:
    """Leave both networks' gradients of one step in their parameters; returns what the log tells.

    The generator lowers the energy of its images, the landmarks' distance and how alike samples of one
    structure are; the critic L(x) - k L(G(z)).
    """
    if settings.apart:
        half = len(landmarks) // 2
        landmarks = torch.cat((landmarks[:half], landmarks[:half], landmarks[2 * half :]))  # two of each
    made = adversaries.generator(latents, landmarks)
    weights = list(adversaries.critic.parameters())
    shown = made.detach().requires_grad_()
    made_energy = adversaries.critic.energy(shown).mean()
    # One pass back serves both networks: the gradient in the images is the generator's.
    uphill, *slopes = torch.autograd.grad(made_energy, [shown, *weights])
    for weight, slope in zip(weights, slopes, strict=True):
        weight.grad = slope * -adversaries.k
    real_energy = adversaries.critic.energy(real).mean()
    real_energy.backward(inputs=weights)
    cycle = cyclic_loss(detector.detect(made).landmarks, landmarks)
    loss = (made * uphill).sum() + settings.cycle * cycle
    terms = {"real": real_energy.detach(), "made": made_energy.detach(), "cycle": cycle.detach()}
    if settings.apart:
        apart = losses.apart(made, real, settings.distance)
        loss = loss + settings.apart * apart
        terms["apart"] = apart.detach()
    loss.backward()
    measure = losses.convergence(terms["real"], terms["made"], settings.gamma)
    return terms | {"measure": measure, "k": adversaries.k.clone()}


def learning_rate(settings: GeneratorConfig, step: int) -> float:
    """Constant, then a straight line to 0."""
    start = settings.decay_from * settings.steps
    left = (settings.steps - step) / max(1.0, settings.steps - start)
    return settings.learning_rate * min(1.0, left)


@torch.inference_mode()
def landmarks_of(predictor: Predictor, images: Tensor) -> NDArray[np.float32]:
    """(n, K, 2) of prepared images."""
    parts = [predictor.model.detect(images[i : i + 64]).landmarks for i in range(0, len(images), 64)]
    return np.asarray(torch.cat(parts).numpy(), np.float32)


def references(predictor: Predictor, images: Prepared, file: Path) -> NDArray[np.float32]:
    """Landmarks (n, K, 2) of all training images, found once and kept."""
    shape = (len(images), predictor.landmarks, 2)
    with suppress(TrigpointError):  # none, or of other images, or damaged: find them again
        kept = np.array(load_array(file, np.float32, shape))
        if np.isfinite(kept).all():
            return kept
    found = np.empty(shape, np.float32)
    with Progress("landmarks", len(images)) as bar:
        for start in range(0, len(images), 256):
            rows = np.arange(start, min(start + 256, len(images)))
            found[rows] = landmarks_of(predictor, images.batch(rows))
            bar.update(int(rows[-1]) + 1)
    save_array(file, found)
    return found


def averaged(generator: Generator, average: dict[str, Tensor]) -> Generator:
    """A copy with the averaged weights."""
    copied = copy.deepcopy(generator)
    with torch.no_grad():
        for name, value in copied.named_parameters():
            value.copy_(average[name])
    return copied


@torch.no_grad()
def recalibrate(generator: Generator, landmarks: Tensor, settings: GeneratorConfig) -> None:
    """Batch-norm statistics over random latents and the landmarks given; ends in evaluation mode."""
    norms = [module for module in generator.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain average
    generator.train()
    source = generator_of(settings.seed, settings.steps)
    size = min(64, len(landmarks))
    for start in range(0, len(landmarks) - size + 1, size):
        part = landmarks[start : start + size]
        generator(draw(len(part), settings.latent, source), part)
    generator.eval()


@torch.no_grad()
def keep_samples(
    run: GeneratorRun,
    generator: Generator,
    settings: GeneratorConfig,
    pixels: NDArray[np.uint8],
    landmarks: NDArray[np.float32],
    step: int,
) -> None:
    """A picture of the same latents and references at every stage of training.

    Before its end the generator, a copy, is given batch-norm statistics first.
    """
    if step < settings.steps:
        points = torch.from_numpy(landmarks[: settings.recalibration_images])
        recalibrate(generator, points, settings)
    run.evolution_folder.mkdir(exist_ok=True)
    latents = draw(COLUMNS, settings.latent, torch.Generator().manual_seed(settings.seed))
    picture = sheet(generator, pixels[:ROWS], landmarks[:ROWS], latents)
    write_image(run.evolution_folder / f"step-{step:07d}.png", picture)


def finish(
    run: GeneratorRun,
    sampler: Sampler,
    images: Prepared,
    held_out: NDArray[np.uint8],
    landmarks: NDArray[np.float32],
    rate: float,
) -> None:
    """Measure what was learnt on images kept out of training, and write summary.json."""
    near, far = cycle_distances(sampler, landmarks, seed=0)
    spread, real = diversity(sampler, landmarks, held_out, seed=0)
    last = (run.log() or [{}])[-1]
    summary = {
        "steps": sampler.settings.steps,
        "train_images": len(images),
        "held_out": len(held_out) if held_out_count(len(images)) else 0,
        "parameters": sum(value.numel() for value in sampler.generator.parameters()),
        "images_per_second": round(rate, 1),
        "peak_memory_mb": memory_mb(),
        "measure": last.get("measure"),
        "k": last.get("k"),
        "cycle_distance": round_off(float(near.mean())),
        "shuffled_distance": round_off(float(far.mean())),
        "diversity": round_off(spread / real) if real else None,
        "skipped": images.skipped,
    }
    write_atomically(run.summary_file, json.dumps(summary, indent=2).encode())
