"""A trained generator in use: landmarks and random latents to new images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trigpoint.core.config.generator import GeneratorConfig
from trigpoint.core.errors import TrigpointError
from trigpoint.core.files.overlay import contact_sheet, draw_landmarks
from trigpoint.core.generator_run import GeneratorRun
from trigpoint.core.inference.predictor import Predictor
from trigpoint.learning.checkpoint import load_tensors, load_weights
from trigpoint.learning.editing.render import enlarge
from trigpoint.learning.generation.networks import Generator
from trigpoint.learning.tensors import to_bytes

BATCH = 64
TILE = 112


def draw(count: int, length: int, generator: torch.Generator) -> Tensor:
    """Latents (count, length) from an isotropic Gaussian."""
    return torch.randn(count, length, generator=generator)


class Sampler:
    """Makes images with given landmarks. `Sampler.load` takes the folder of `trigpoint generate train`."""

    def __init__(self, generator: Generator, predictor: Predictor, settings: GeneratorConfig) -> None:
        self.generator, self.predictor, self.settings = generator.eval(), predictor, settings

    @classmethod
    def load(cls, folder: str | Path) -> Sampler:
        run = GeneratorRun(Path(folder))
        settings = run.settings()
        if not run.model_file.is_file():
            raise TrigpointError(
                f"The run {run.folder} is not finished: it has no {run.model_file.name}; go on with --resume."
            )
        predictor = Predictor.load(run.folder)
        generator = Generator(settings, predictor.config.model)
        load_weights(generator, load_tensors(run.model_file)[0], run.model_file)
        generator.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return cls(generator, predictor, settings)

    def latents(self, count: int, seed: int) -> NDArray[np.float32]:
        """(count, L), decided by the seed."""
        source = torch.Generator().manual_seed(seed)
        return np.asarray(draw(count, self.settings.latent, source).numpy())

    @torch.inference_mode()
    def generate(self, landmarks: NDArray[np.floating], latents: NDArray[np.floating]) -> NDArray[np.uint8]:
        """Landmarks (B, K, 2) in unit coordinates and latents (B, L) -> images (B, n, n, C)."""
        points = torch.from_numpy(np.asarray(landmarks, np.float32))
        codes = torch.from_numpy(np.asarray(latents, np.float32))
        wanted = (len(points), self.predictor.landmarks, 2), (len(points), self.settings.latent)
        if (tuple(points.shape), tuple(codes.shape)) != wanted:
            raise TrigpointError(
                f"Landmarks and latents must have shapes {wanted[0]} and {wanted[1]}; "
                f"got {tuple(points.shape)} and {tuple(codes.shape)}."
            )
        parts = [
            to_bytes(self.generator(codes[start : start + BATCH], points[start : start + BATCH]))
            for start in range(0, len(points), BATCH)
        ]
        return np.concatenate(parts)


@torch.no_grad()
def sheet(
    generator: Generator, pixels: NDArray[np.uint8], landmarks: NDArray[np.float32], latents: Tensor
) -> NDArray[np.uint8]:
    """Figure 11 of the paper: each reference with its landmarks, then samples; a column shares its latent."""
    tiles = []
    for picture, points in zip(pixels, landmarks, strict=True):
        tiles.append(draw_landmarks(enlarge(picture, TILE), points * TILE))
        repeated = torch.from_numpy(points).expand(len(latents), -1, -1)
        tiles += [enlarge(image, TILE) for image in to_bytes(generator(latents, repeated))]
    return contact_sheet(tiles, columns=1 + len(latents))


def between(start: NDArray[np.float32], end: NDArray[np.float32], frames: int) -> NDArray[np.float32]:
    """From one latent to another along the sphere, each step as likely as its ends: (frames, L)."""
    cosine = float(start @ end / (np.linalg.norm(start) * np.linalg.norm(end) + 1e-12))
    angle = float(np.arccos(np.clip(cosine, -1, 1)))
    shares = np.linspace(0, 1, frames)[:, None]
    if np.sin(angle) < 1e-4:
        return np.asarray(start + shares * (end - start), np.float32)
    way = np.sin((1 - shares) * angle) * start + np.sin(shares * angle) * end
    return np.asarray(way / np.sin(angle), np.float32)
