"""Error on validation images against minutes of training: compact and paper-size net, same data, same time.

python benchmarks/time_to_accuracy.py mtfl:FOLDER --minutes 60 --out runs/time-to-accuracy

Each net is trained as `trigpoint train` does, into a run folder below --out, with its own schedule over the
steps that fit into the time at the speed measured first. `hour-10+2` is the preset hour-10 for three
quarters of the time, then two rounds of `--stage distill`; `detail-30-10+2` is detail-30, and the last of two
rounds teaches ten landmarks. At certain minutes it is stopped, measured, and goes on; only the time of
training counts, with everything that `trigpoint train` does; when it is over a net is measured as it is,
also where it was slower than planned and has steps left. Training sees no labels: the regressor of the
protocol `lmdis` is fitted on some of them and measured on every tenth training image, and on the test
images, with one view of each. Started again, it goes on where it was.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from torch import Tensor
from tyro.conf import Positional

from speed import loss_of
from tables import show
from trigpoint import api
from trigpoint.core.config.presets import preset
from trigpoint.core.config.tree import Config, with_steps, with_values
from trigpoint.core.errors import UnreadableImage
from trigpoint.core.io import write_atomically
from trigpoint.core.runs import Run
from trigpoint.core.sources import open_source
from trigpoint.core.sources.base import Source
from trigpoint.learning.checkpoint import load_tensors
from trigpoint.learning.data.order import BATCH, Order
from trigpoint.learning.data.prepared import square
from trigpoint.learning.evaluation.protocols import PROTOCOLS
from trigpoint.learning.evaluation.task import Pair, Task
from trigpoint.learning.model import views
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.nets.norms import recalibrated
from trigpoint.learning.tensors import to_tensor
from trigpoint.learning.training import stages
from trigpoint.learning.training.checkpoint import load_checkpoint
from trigpoint.learning.training.optimiser import optimiser_of
from trigpoint.learning.training.session import Interrupted
from trigpoint.learning.training.stages.distill import VIEWS

POINTS = (0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 1)  # of the time: when the error is measured
FIRST = 0.75  # of the time of a net that teaches itself: until then it is trained as any other
SHARE = 0.92  # of the time that is planned for steps: the rest is for checkpoints and slower minutes
ROUND = 0.8  # the same, of a round: the last of them has nothing after it that could be shorter
SETTLING = 30.0  # seconds of a training for images, statistics and report
MEASURED = 30.0  # seconds in which the time of a step is measured
Annotated = tuple[NDArray[np.uint8], NDArray[np.float64]]  # (n, size, size, C) and (n, L, 2)


@dataclass(frozen=True)
class Options:
    source: Positional[str]
    """An annotated source, such as mtfl:FOLDER."""
    out: Path
    """A folder for the runs and the results."""
    minutes: float = 60
    """Training time of each net."""
    presets: tuple[str, ...] = ("hour-10+2", "celeba-10")
    """What is compared; +N: the last quarter of the time is for N rounds of self-teaching, the last of -K."""
    labels: int = 500
    """Images that the regressor is fitted on."""
    images: int = 250
    """Validation images, and test images, that the error is measured on."""
    json: Path | None = None
    """Also write the rows to this file."""
    plot: Path | None = None
    """Also draw error against minutes into this PNG."""


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    rows = []
    for name in options.presets:
        rows += [{"net": name, **row} for row in race(options, name)]
    show(rows, options.json)
    if options.plot is not None:
        draw(rows, options.minutes, options.plot)


def race(options: Options, name: str) -> list[dict[str, Any]]:
    """Train, or go on training, in parts that end when it is time to measure."""
    first, fewer, rounds = parse(name)
    file = options.out / f"{name}.json"
    kept: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() else []
    found: list[dict[str, Any]] = []
    sets = Sets(open_source(options.source), open_source(options.source, "test"), preset(first), options)
    before: Run | None = None
    for number in range(rounds + 1):
        run = Run(options.out / (f"{name}-round-{number}" if number else name))
        mine = [row for row in kept if row["round"] == number]
        found += mine
        measured = mine[-1]["steps"] if mine else 0
        spent = (found[-1]["minutes"] if found else 0.0) + minutes_unmeasured(run, measured)
        if spent >= options.minutes:
            break
        settings: dict[str, Any] = {"resume": True}
        if not run.config_file.exists():
            left = options.minutes - spent
            if number:
                left /= rounds + 1 - number
            elif rounds:
                left *= FIRST
            taught = fewer if number == rounds else None
            settings = settings_of(first, taught, before, sets, 60 * left)
        for mark in (point * options.minutes for point in POINTS):
            if mark <= spent or (run.finished and measured == run.config().train.steps):
                continue
            started = time.monotonic()
            with stopped_after(60 * (mark - spent)) as due:
                try:
                    api.train(options.source, run.folder, **settings)
                except Interrupted:
                    if not due.is_set():
                        raise
            spent += (time.monotonic() - started) / 60
            settings = {"existing": "resume"}
            training = run.config().train
            model = Autoencoder(run.config().model)
            optimiser = optimiser_of(training, stages.named(training.stage).trains(model).parameters())
            average = dict(model.named_parameters()) if training.ema else {}
            measured = load_checkpoint(run.checkpoint_file, training.steps, model, optimiser, dict(average))
            row = {"round": number, "minutes": round(spent, 2), "steps": measured}
            found.append(row | sets.errors(model))
            write_atomically(file, json.dumps(found, indent=2).encode())
        before = run
    return found


def parse(name: str) -> tuple[str, int | None, int]:
    """`preset[-K][+N]`: the preset, the landmarks of its last round where they are fewer, how many rounds."""
    match = re.fullmatch(r"(.+?-\d+)(?:-(\d+))?(?:\+(\d+))?", name)
    if match is None:
        return name, None, 0
    first, fewer, rounds = match.groups()
    return first, int(fewer) if fewer else None, int(rounds or 0)


def settings_of(
    name: str, fewer: int | None, before: Run | None, sets: Sets, seconds: float
) -> dict[str, Any]:
    """What to call `trigpoint.train` with for a training of about so many seconds: the first, or a round."""
    config, images = preset(name), to_tensor(sets.labelled[0])
    if before is None:
        steps = (SHARE * seconds - SETTLING) / seconds_per_step(config, images)
        return {"preset": with_steps(config, max(10, int(steps)))}
    notes = sets.count / len(images) * seconds_of_notes(before.config(), images)
    count = fewer or config.model.landmarks
    detector = with_values(stages.named("distill").derive(config), [f"model.landmarks={count}"])
    steps = (ROUND * seconds - SETTLING - notes) / seconds_per_step(detector, images)
    return {"start": before.folder, "stage": "distill", "landmarks": fewer, "steps": max(10, int(steps))}


def minutes_unmeasured(run: Run, measured: int) -> float:
    """What a benchmark that was killed had trained since it measured, by the speed in the log."""
    if not run.checkpoint_file.exists():
        return 0.0
    step = int(load_tensors(run.checkpoint_file)[1]["step"])
    speeds = [line["images_per_second"] for line in run.log() if "images_per_second" in line]
    if not speeds:
        return 0.0
    return float((step - measured) * run.config().train.batch_size / speeds[-1] / 60)


def seconds_per_step(config: Config, images: Tensor) -> float:
    """On a model that is thrown away."""
    model = Autoencoder(config.model).train()
    loss, order = loss_of(model, config), Order(np.arange(len(images)), config.train.batch_size, 0)
    optimiser = optimiser_of(config.train, stages.named(config.train.stage).trains(model).parameters())
    times: list[float] = []
    while len(times) < 4 or sum(times) < MEASURED:
        started, step = time.perf_counter(), len(times)
        optimiser.zero_grad(set_to_none=True)
        loss(images[order.batch(step)], step).backward()
        optimiser.step()
        times.append(time.perf_counter() - started)
    return float(np.mean(times[1:]))


@torch.inference_mode()
def seconds_of_notes(config: Config, images: Tensor) -> float:
    """For what a round takes down of so many images before it begins."""
    model, shape = Autoencoder(config.model).eval(), torch.rand(config.model.landmarks, 2)
    started = time.perf_counter()
    for part in images.split(BATCH):
        views.look(model, part, shape, VIEWS)
    return time.perf_counter() - started


@contextlib.contextmanager
def stopped_after(seconds: float) -> Iterator[threading.Event]:
    """Ask this process to stop as a user would; the event says that it was not a user."""
    due, done = threading.Event(), threading.Event()

    def wait() -> None:
        if done.wait(seconds):
            return
        due.set()
        while not done.wait(1.0):  # until it is heard: nobody listens while images are prepared
            os.kill(os.getpid(), signal.SIGTERM)

    kept = signal.signal(signal.SIGTERM, lambda *_: None)
    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield due
    finally:
        done.set()
        thread.join()
        signal.signal(signal.SIGTERM, kept)


class Sets:
    """The images that errors are measured on, and their annotations."""

    def __init__(self, train: Source, test: Source, config: Config, options: Options) -> None:
        assert train.annotations is not None
        rows, self.count = np.arange(len(train)), len(train)
        others = np.random.default_rng(0).permutation(rows[rows % 10 != 0])
        self.labelled = read(train, others[: options.labels], config)
        self.validation = read(train, rows[rows % 10 == 0][: options.images], config)
        self.test = read(test, np.arange(len(test))[: options.images], config)
        self.task = Task(PROTOCOLS["lmdis"], train.annotations.reference, train.annotations.swaps)

    def errors(self, model: Autoencoder) -> dict[str, float]:
        """The errors in % of a model, which gets batch-norm statistics of its own first."""
        with recalibrated(model, model.detector):
            for pixels in in_batches(self.labelled[0]):
                model.detect(to_tensor(pixels))
        regressor, _ = self.task.fit(landmarks(model, self.labelled))
        measured = {"validation %": self.validation, "test %": self.test}
        return {
            name: round(100 * self.task.error(regressor, landmarks(model, images)), 2)
            for name, images in measured.items()
        }


def read(source: Source, indices: NDArray[np.int64], config: Config) -> Annotated:
    """The images as the model wants them, and their annotations in unit coordinates."""
    assert source.annotations is not None
    pixels, points = [], []
    for index in map(int, indices):
        with contextlib.suppress(UnreadableImage):
            one, place = square(source, index, config)
            pixels.append(one)
            points.append(place.to_unit(source.annotations.points[index]))
    return np.array(pixels), np.array(points)


def in_batches(pixels: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
    return [pixels[start : start + 64] for start in range(0, len(pixels), 64)]


@torch.inference_mode()
def landmarks(model: Autoencoder, images: Annotated) -> Pair:
    pixels, points = images
    found = [model.detect(to_tensor(part)).landmarks.double().numpy() for part in in_batches(pixels)]
    return np.concatenate(found), points


def draw(rows: list[dict[str, Any]], minutes: float, file: Path) -> None:
    """Each net's errors against its minutes; a ring where it began to teach itself."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for i, net in enumerate(dict.fromkeys(row["net"] for row in rows)):
        mine = [row for row in rows if row["net"] == net]
        times = [row["minutes"] for row in mine]
        for what, style in (("validation %", "-"), ("test %", "--")):
            errors = [row[what] for row in mine]
            label = f"{net}, {what.removesuffix(' %')} images"
            axes.plot(times, errors, style, marker=".", color=f"C{i}", label=label)
            taught = [(row["minutes"], row[what]) for row in mine if row["round"]]
            if taught:
                axes.plot(*zip(*taught, strict=True), "o", fillstyle="none", color=f"C{i}")
    axes.set_xscale("log")
    ticks = [point * minutes for point in POINTS]
    axes.set_xticks(ticks, [f"{tick:.2g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("minutes of training; rings: distilled from its own views")
    axes.set_ylabel("error, %")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(file, dpi=130)


if __name__ == "__main__":
    main()
