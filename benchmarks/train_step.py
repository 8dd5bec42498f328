"""One training step: compact and paper-size models, against a plain port of the paper and a matrix product.

python benchmarks/train_step.py [--landmarks 10] [--batch 16] [--json FILE]

The plain port is what the paper's release does, step by step: the same networks in the default memory layout,
and the thin plate spline solved anew and evaluated at every pixel for every sample of every step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import tyro
from torch import Tensor
from torch.nn import functional as F

from speed import loss_of, matrix_product_gflops, step_gflop
from tables import seconds, show
from trigpoint.core.config.presets import preset
from trigpoint.core.config.tree import Config
from trigpoint.learning import losses
from trigpoint.learning.augment import augmented
from trigpoint.learning.devices import generator_of
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.model.decoder import score_maps
from trigpoint.learning.nets.hourglass import LEAK
from trigpoint.learning.training.optimiser import optimiser_of
from trigpoint.learning.training.stages import discover
from trigpoint.learning.warps.tps import RandomTPS, basis, solver


@dataclass(frozen=True)
class Options:
    landmarks: int = 10
    """Landmarks of all models."""
    batch: int = 16
    """Images a step."""
    repeats: int = 5
    """Steps that are timed, of which the median counts."""
    json: Path | None = None
    """Also write the rows to this file."""


def ours(config: Config, batch: int) -> Callable[[], None]:
    model = Autoencoder(config.model).train()
    optimiser = optimiser_of(config.train, model.parameters())
    of = loss_of(model, config)
    images = torch.rand(batch, config.model.channels, config.model.image_size, config.model.image_size)

    def step() -> None:
        loss = of(images, 0)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()

    return step


def plain_port(config: Config, batch: int) -> Callable[[], None]:
    """The same arithmetic as a straight translation would do it."""
    settings = config.model
    model = Autoencoder(settings).to(memory_format=torch.contiguous_format).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    tps = RandomTPS(config.warp, settings)
    size = settings.image_size
    images = torch.rand(batch, settings.channels, size, size)
    margin = (settings.padded_size - size) // 2

    def warp(pixels: Tensor, generator: torch.Generator) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        matrix, shift = tps._affine(batch, generator)
        targets = tps._move(tps.controls.expand(batch, -1, -1), matrix, shift)
        targets = targets + config.warp.grid_jitter * torch.randn(targets.shape, generator=generator)
        controls = tps.controls.expand(batch, -1, -1)
        coefficients = solver(controls) @ targets  # solved for every sample
        where = basis(tps.cells.expand(batch, -1, -1), controls) @ coefficients  # evaluated at every pixel
        where = where.reshape(batch, settings.padded_size, settings.padded_size, 2)
        warped = F.grid_sample(pixels, where * 2 - 1, padding_mode="border", align_corners=False)
        return warped, lambda points: basis(points, controls) @ coefficients

    def decode(landmarks: Tensor, descriptors: Tensor | None) -> Tensor:
        decoder = model.decoder
        maps = score_maps(landmarks, decoder.cells, decoder.variances)
        if descriptors is not None:
            shared = F.leaky_relu(torch.einsum("bkc,kcs->bks", descriptors, decoder.expand), LEAK)
            maps = torch.cat((maps, torch.einsum("bmkn,bks->bmsn", maps, shared)), dim=2)
        return torch.sigmoid(decoder.net(maps.reshape(batch, -1, decoder.map_size, decoder.map_size)))

    def step() -> None:
        generator = generator_of(0, 0)
        pixels = augmented(images, config.train, generator)
        padded = F.pad(pixels, (margin,) * 4, mode="replicate")
        first = model.detector(padded)
        warped, back = warp(pixels, generator)
        second = model.detector(warped)
        decoded = decode(first.landmarks, model.describe(padded, first))
        spread = losses.concentration(first.variances) + losses.concentration(second.variances)
        terms = {
            "recon": losses.reconstruction(decoded, pixels, config.losses.colour_sigma),
            "conc": spread / 2,
            "sep": losses.separation(first.landmarks, config.losses.sep_sigma),
            "eqv": losses.equivariance(back(second.landmarks), first.landmarks),
        }
        optimiser.zero_grad()
        losses.total(terms, discover.weights(config, 0)).backward()
        optimiser.step()

    return step


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    compact = preset(f"compact-{options.landmarks}")
    paper = preset("celeba-10")
    paper = replace(paper, model=replace(paper.model, landmarks=options.landmarks))
    peak = matrix_product_gflops()
    kinds = (
        ("compact", compact, ours),
        ("compact, plain port", compact, plain_port),
        ("paper size", paper, ours),
        ("paper size, plain port", paper, plain_port),
    )
    rows = []
    for name, config, kind in kinds:
        work = step_gflop(Autoencoder(config.model), config)
        took = seconds(kind(config, options.batch), options.repeats)
        speed = work * options.batch / took
        rows.append(
            {
                "model": name,
                "pixels": config.model.image_size,
                "s/step": round(took, 4),
                "images/s": round(options.batch / took, 2),
                "GFLOP/image": round(work, 3),
                "GFLOP/s": round(speed, 1),
                "of a matrix product": f"{speed / peak:.0%}",
            }
        )
    slowest = rows[-1]["s/step"]
    for row in rows:
        row["times faster than the last"] = round(slowest / row["s/step"], 1)
    show(rows, options.json)
    print(f"matrix product: {peak:.0f} GFLOP/s; batch {options.batch}, {torch.get_num_threads()} threads")


if __name__ == "__main__":
    main()
