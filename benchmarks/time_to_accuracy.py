"""Error on validation images against minutes of training: compact and paper-size net, same data, same time.

python benchmarks/time_to_accuracy.py mtfl:FOLDER --minutes 60 --out runs/time-to-accuracy

Every tenth image of the source's training split is kept out of training; the regressor of the protocol
`lmdis` is fitted on labels of the others and measured on those. Only training time counts, not measuring.
Each net gets its own schedule, stretched over the steps that fit into the time at the speed measured first.
A net that is finished is not trained again.
"""

from __future__ import annotations

import copy
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from tyro.conf import Positional

from cairns import losses
from cairns.config import Config, with_steps
from cairns.evaluation.protocols import PROTOCOLS
from cairns.evaluation.task import Task
from cairns.model.autoencoder import Autoencoder
from cairns.presets import preset
from cairns.sources import open_source
from cairns.training import schedule
from cairns.training.prepared import Prepared, prepare, square
from cairns.training.progress import Progress
from cairns.training.recalibrate import recalibrate
from cairns.training.step import step_losses
from cairns.warps.tps import RandomTPS
from tables import show

POINTS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)  # of the time: when the error is measured
LABELLED = 2000  # images the regressor is fitted on


@dataclass(frozen=True)
class Options:
    source: Positional[str]
    """An annotated source, such as mtfl:FOLDER."""
    out: Path
    """A folder for the results."""
    minutes: float = 60
    """Training time of each net."""
    presets: tuple[str, ...] = ("compact-10", "celeba-10")
    """What is compared."""
    json: Path | None = None
    """Also write the rows to this file."""


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in options.presets:
        file = options.out / f"{name}.json"
        if not file.exists():
            file.write_text(json.dumps(race(options.source, preset(name), options.minutes, options.out)))
        rows += [{"preset": name, **row} for row in json.loads(file.read_text())]
    show(rows, options.json)


def race(words: str, config: Config, minutes: float, folder: Path) -> list[dict[str, Any]]:
    source = open_source(words)
    assert source.annotations is not None
    size = config.model.image_size
    images = prepare(source, config, folder / f"images-{size}")
    points = np.array(
        [
            (source.box(index) or square(source, index, config)[1]).to_unit(source.annotations.points[index])
            for index in map(int, images.indices)
        ]
    )
    rows = np.arange(len(images))
    train, held_out = rows[rows % 10 != 0], rows[rows % 10 == 0]
    task = Task(PROTOCOLS["lmdis"], source.annotations.reference, source.annotations.swaps)

    model = Autoencoder(config.model)
    tps = RandomTPS(config.warp, config.model)
    optimiser = torch.optim.Adam(
        model.parameters(), betas=(0.9, config.train.beta2), weight_decay=config.train.weight_decay
    )
    budget = 60 * minutes
    per_step = probe(config, images, train)
    config = with_steps(config, max(10, int(budget / per_step)))
    spent, found, step = 0.0, [], 0
    marks = list(POINTS)
    with Progress(config.preset, config.train.steps, per_step=config.train.batch_size) as bar:
        while spent < budget and step < config.train.steps:
            started = time.perf_counter()
            take_step(model, optimiser, tps, config, images, train, step)
            spent += time.perf_counter() - started
            step += 1
            bar.update(step)
            if spent >= marks[0] * budget or step == config.train.steps:
                error = measure(model, images, points, train, held_out, task)
                found.append({"minutes": round(spent / 60, 2), "steps": step, "error %": round(error, 2)})
                while len(marks) > 1 and spent >= marks[0] * budget:
                    marks.pop(0)
    return found


def take_step(
    model: Autoencoder,
    optimiser: torch.optim.Optimizer,
    tps: RandomTPS,
    config: Config,
    images: Prepared,
    train: NDArray[np.int64],
    step: int,
) -> None:
    model.train()
    for group in optimiser.param_groups:
        group["lr"] = schedule.learning_rate(config.train, step)
    batch = train[schedule.batch_rows(len(train), config.train.batch_size, step, config.train.seed)]
    terms = step_losses(model, images.batch(batch), tps, config, step)
    optimiser.zero_grad(set_to_none=True)
    losses.total(terms, schedule.weights(config, step)).backward()
    optimiser.step()


def probe(config: Config, images: Prepared, train: NDArray[np.int64]) -> float:
    """Seconds a step, on a model that is thrown away."""
    model, tps = Autoencoder(config.model), RandomTPS(config.warp, config.model)
    optimiser = torch.optim.Adam(model.parameters())
    times = []
    for step in range(4):
        started = time.perf_counter()
        take_step(model, optimiser, tps, config, images, train, step)
        times.append(time.perf_counter() - started)
    return float(np.median(times[1:]))


@torch.no_grad()
def measure(
    model: Autoencoder,
    images: Prepared,
    points: NDArray[np.float64],
    train: NDArray[np.int64],
    held_out: NDArray[np.int64],
    task: Task,
) -> float:
    """The error in % on the images kept out, of a copy with batch-norm statistics of its own."""
    frozen = copy.deepcopy(model)
    chosen = np.random.default_rng(0).permutation(train)[:LABELLED]
    recalibrate(frozen, (images.batch(chosen[start : start + 64]) for start in range(0, 512, 64)))

    def detect(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        rows = np.sort(rows)
        starts = range(0, len(rows), 64)
        parts = [frozen.detect(images.batch(rows[start : start + 64])).landmarks for start in starts]
        return torch.cat(parts).double().numpy()

    regressor, _ = task.fit((detect(chosen), points[np.sort(chosen)]))
    return 100 * task.error(regressor, (detect(held_out), points[np.sort(held_out)]))


if __name__ == "__main__":
    main()
