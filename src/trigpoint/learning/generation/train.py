"""Training a generator (appendix G.5), top to bottom: the detector is fixed, two networks compete."""

from __future__ import annotations

import copy
import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trigpoint.core.arrays import load_array, save_array
from trigpoint.core.claim import claim, replacing
from trigpoint.core.config.generator import GeneratorConfig
from trigpoint.core.errors import TrigpointError
from trigpoint.core.files.overlay import write_image
from trigpoint.core.generator_run import GeneratorRun
from trigpoint.core.inference.predictor import Predictor, find_model
from trigpoint.core.io import peak_memory_mb, write_atomically
from trigpoint.core.progress import Progress
from trigpoint.core.sources.base import Source
from trigpoint.learning.backends.pytorch import TorchBackend
from trigpoint.learning.checkpoint import save_tensors
from trigpoint.learning.data.order import BATCH, Order
from trigpoint.learning.data.prepared import Prepared, TrainingSet, training_set
from trigpoint.learning.devices import generator_of
from trigpoint.learning.generation import losses
from trigpoint.learning.generation.networks import Adversaries, Generator
from trigpoint.learning.generation.quality import cycle_distances, diversity
from trigpoint.learning.generation.sampler import Sampler, draw, sheet
from trigpoint.learning.losses import cycle as cyclic_loss
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.nets.norms import recalibrated
from trigpoint.learning.tensors import to_tensor
from trigpoint.learning.training.average import Average
from trigpoint.learning.training.session import Session, State, round_off

SHOWN = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)  # of the run: when samples are kept
LOWER = "--set learning_rate=0.0001"
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
    detector = cast(TorchBackend, predictor.backend).model.requires_grad_(False)  # fixed, in evaluation mode
    config = predictor.config
    adversaries = Adversaries(settings, config.model)  # refused, if at all, before anything is written
    original = run.landmarks if resume else find_model(model)
    if not resume and original.folder.resolve().is_relative_to(run.folder.resolve()):
        raise TrigpointError(f"{run.folder} holds the model that the generator is for; choose another --out.")
    with replacing(run, resume) as fresh:
        if fresh:
            run.begin(settings, source.words, original)
        data = training_set(source, config, run, settings.seed)
        wanted = references(detector, data.images, run.references_file)
    checks = landmarks_of(detector, to_tensor(data.held_out))

    generator = adversaries.generator
    optimiser = torch.optim.Adam(
        adversaries.parameters(), lr=settings.learning_rate, betas=(settings.beta1, 0.999)
    )
    average = Average(generator, settings.ema)
    order = Order(data.rows, settings.batch_size, settings.seed)
    show_at = {round(part * settings.steps) for part in SHOWN}

    with Session(run, State(adversaries, optimiser, average), settings.steps, settings.batch_size) as session:
        for step in session.steps():
            if step in show_at:
                keep_samples(run, averaged(average), settings, data.held_out, checks, step)
            for group in optimiser.param_groups:
                group["lr"] = learning_rate(settings, step)
            rows = order.batch(step)
            real, landmarks = data.images.batch(rows), torch.from_numpy(wanted[rows])
            latents = draw(len(rows), settings.latent, generator_of(settings.seed, step))

            adversaries.train()
            optimiser.zero_grad(set_to_none=True)
            terms = gradients(adversaries, detector, real, landmarks, latents, settings)
            session.refuse_not_finite(step, terms, LOWER)
            optimiser.step()
            next_k = losses.next_k(adversaries.k, terms["real"], terms["made"], settings.gamma, settings.gain)
            adversaries.k.copy_(next_k)
            average.update(step)
            session.record(step, terms)

    # The generator that samples: averaged weights, batch-norm statistics to go with them.
    final = averaged(average)
    count = min(settings.recalibration_images, len(data.rows))
    chosen = np.sort(np.random.default_rng((settings.seed, 3)).permutation(data.rows)[:count])
    recalibrate(final, torch.from_numpy(wanted[chosen]), settings)
    keep_samples(run, final, settings, data.held_out, checks, settings.steps)
    save_tensors(run.model_file, final.state_dict())
    finish(run, Sampler(final, predictor, settings), data, checks, session.rate)
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
def landmarks_of(detector: Autoencoder, images: Tensor) -> NDArray[np.float32]:
    """(n, K, 2) of prepared images."""
    return np.asarray(torch.cat([detector.detect(part).landmarks for part in images.split(BATCH)]).numpy())


def references(detector: Autoencoder, images: Prepared, file: Path) -> NDArray[np.float32]:
    """Landmarks (n, K, 2) of all training images, found once and kept."""
    shape = (len(images), detector.config.landmarks, 2)
    with suppress(TrigpointError):  # none, or of other images, or damaged: find them again
        kept = np.array(load_array(file, np.float32, shape))
        if np.isfinite(kept).all():
            return kept
    found = np.empty(shape, np.float32)
    with Progress("landmarks", len(images)) as bar:
        for start in range(0, len(images), 256):
            rows = np.arange(start, min(start + 256, len(images)))
            found[rows] = landmarks_of(detector, images.batch(rows))
            bar.update(int(rows[-1]) + 1)
    save_array(file, found)
    return found


def averaged(average: Average) -> Generator:
    """A copy of the generator with the averaged weights."""
    copied = copy.deepcopy(cast(Generator, average.network))
    average.copy_to(copied)
    return copied


def recalibrate(generator: Generator, landmarks: Tensor, settings: GeneratorConfig) -> None:
    """Batch-norm statistics over random latents and the landmarks given; ends in evaluation mode."""
    rng = generator_of(settings.seed, settings.steps)
    size = min(BATCH, len(landmarks))
    with recalibrated(generator):
        for part in landmarks[: len(landmarks) // size * size].split(size):
            generator(draw(len(part), settings.latent, rng), part)


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
    run: GeneratorRun, sampler: Sampler, data: TrainingSet, landmarks: NDArray[np.float32], rate: float
) -> None:
    """Measure what was learnt on images kept out of training, and write summary.json."""
    near, far = cycle_distances(sampler, landmarks, seed=0)
    spread, real = diversity(sampler, landmarks, data.held_out, seed=0)
    last = (run.log() or [{}])[-1]
    summary = {
        "steps": sampler.settings.steps,
        "train_images": len(data.images),
        "held_out": data.held_out_count,
        "parameters": sum(value.numel() for value in sampler.generator.parameters()),
        "images_per_second": round(rate, 1),
        "peak_memory_mb": peak_memory_mb(),
        "measure": last.get("measure"),
        "k": last.get("k"),
        "cycle_distance": round_off(float(near.mean())),
        "shuffled_distance": round_off(float(far.mean())),
        "diversity": round_off(spread / real) if real else None,
        "skipped": data.images.skipped,
    }
    write_atomically(run.summary_file, json.dumps(summary, indent=2).encode())
