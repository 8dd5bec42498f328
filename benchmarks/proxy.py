"""How fast a detector and its optimiser learn at all: a minute of training with labels instead of a long run.

python benchmarks/proxy.py mtfl:FOLDER --seconds 40 --set train.learning_rate=0.01

A whole run takes half an hour, a look at the optimiser should not. Here the detector alone learns to put its
landmarks onto annotated ones, under the same random warps and colours as in a run, and is measured on every
tenth image, which it does not see. Labels serve to choose settings only; no model trained this way is kept.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from tyro.conf import Positional

from tables import show
from trigpoint.core.config.presets import preset
from trigpoint.core.config.tree import with_steps, with_values
from trigpoint.core.sources import open_source
from trigpoint.learning import losses, tensors
from trigpoint.learning.augment import augmented
from trigpoint.learning.data.order import Order
from trigpoint.learning.data.prepared import prepare
from trigpoint.learning.devices import generator_of
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.nets.norms import recalibrated
from trigpoint.learning.training import schedule
from trigpoint.learning.training.optimiser import optimiser_of
from trigpoint.learning.warps.tps import RandomTPS


@dataclass(frozen=True)
class Options:
    source: Positional[str]
    """An annotated source whose images all have a box, such as mtfl:FOLDER."""
    set: tuple[str, ...] = ()
    """What differs from the preset, as for `trigpoint train --set`."""
    seconds: float = 40
    """Training time."""
    json: Path | None = None
    """Also write the row to this file."""


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    source = open_source(options.source)
    assert source.annotations is not None
    names = source.annotations.names
    config = with_values(preset(f"compact-{len(names)}"), options.set)
    with tempfile.TemporaryDirectory() as folder:
        images = prepare(source, config, Path(folder))
        points = np.array(
            [source.box(i).to_unit(source.annotations.points[i]) for i in map(int, images.indices)]  # type: ignore[union-attr]
        )
        rows = np.arange(len(images))
        train, held_out = rows[rows % 10 != 0], rows[rows % 10 == 0]
        model = Autoencoder(config.model)
        detector, tps = model.detector, RandomTPS(config.warp, config.model)
        optimiser = optimiser_of(config.train, detector.parameters())
        order = Order(train, config.train.batch_size, 0)
        step, started, total = 0, time.perf_counter(), config.train.steps
        while step < total:
            if step == 40:  # the speed is known now: stretch the schedule over the time that is left
                total = max(step + 1, int(options.seconds / ((time.perf_counter() - started) / step)))
                config = with_steps(config, total)
            generator = generator_of(0, step)
            batch = order.batch(step)
            pixels = augmented(images.batch(batch), config.train, generator)
            warp = tps.draw(torch.zeros(len(batch), len(names), 2), generator, 0.0)
            warped = tensors.sample(pixels, warp.pixels).contiguous(memory_format=torch.channels_last)
            found = detector.train()(warped)
            goal = torch.from_numpy(points[batch]).float()
            loss = config.losses.eqv * losses.equivariance(warp.map(found.landmarks), goal)
            loss = loss + config.losses.conc * losses.concentration(found.variances)
            for group in optimiser.param_groups:
                group["lr"] = schedule.learning_rate(config.train, step)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            step += 1
        took = time.perf_counter() - started
        with recalibrated(model, model.detector):
            for pixels in images.batches(train[:1024]):
                model.detect(pixels)
        predicted = np.concatenate(
            [
                model.detect(images.batch(held_out[start : start + 64])).landmarks.detach().numpy()
                for start in range(0, len(held_out), 64)
            ]
        )
        error = distance(predicted, points[held_out], source.annotations.reference)
    row = {"settings": " ".join(options.set) or "compact", "steps": step, "seconds": round(took, 1)}
    show([row | {"error % of the images kept out": round(100 * error, 2)}], options.json)


def distance(
    found: NDArray[np.floating], true: NDArray[np.float64], reference: tuple[int, int] | None
) -> float:
    away = np.linalg.norm(found - true, axis=-1)
    if reference is None:
        return float(np.nanmean(away))
    unit = np.linalg.norm(true[:, reference[0]] - true[:, reference[1]], axis=-1)
    return float(np.nanmean(away / unit[:, None]))


if __name__ == "__main__":
    main()
