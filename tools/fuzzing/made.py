"""What several targets share: small photos, and a model and a generator that were hardly trained."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

_PLACE: list[Path] = []


def photo(index: int, width: int = 48, height: int = 40) -> NDArray[np.uint8]:
    """Smooth colours with a bright square, (height, width, 3)."""
    random = np.random.default_rng(index)
    small = Image.fromarray(random.integers(0, 256, (4, 5, 3), dtype=np.uint8))
    picture = np.array(small.resize((width, height), Image.Resampling.BICUBIC))
    x, y = int(random.integers(4, width - 12)), int(random.integers(4, height - 12))
    picture[y : y + 8, x : x + 8] = (250, 210, 60)
    return picture


def write_photos(folder: Path, count: int = 8) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(count):
        Image.fromarray(photo(index)).save(folder / f"{index}.png")
    return folder


def prepare(folder: Path) -> None:
    """Train both below the folder, on one thread."""
    import contextlib
    import os

    import cv2
    import torch

    from trigpoint import api
    from trigpoint.app.report.generator import write_report
    from trigpoint.core.config.generator import GeneratorConfig
    from trigpoint.core.config.tree import Config, ModelConfig, TrainConfig
    from trigpoint.learning.generation.train import train

    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    _PLACE[:] = [folder]
    model = ModelConfig(
        landmarks=4,
        channels=3,
        image_size=32,
        padded_size=40,
        detector="D8 | 8/8 S1 P 16 | out1",
        features="8 P | 8/8 S1 P 16 | out1",
        decoder="| 16/8 S1 P 16 | U 8 out",
        feature_channels=8,
        descriptor_size=4,
        decoder_levels=2,
    )
    config = Config(model=model, train=TrainConfig(batch_size=4, recalibration_images=8), preset="small")
    photos = write_photos(folder / "photos")
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        api.train(photos, folder / "run", preset=config, steps=6)
        settings = GeneratorConfig(
            latent=8,
            width=8,
            decoder="| 8/8 S1 P 8 | U 8 out",
            critic_width=4,
            critic_hidden=8,
            steps=4,
            batch_size=4,
            recalibration_images=8,
        )
        from trigpoint.core.sources import open_source

        write_report(train(settings, folder / "run", open_source(photos), folder / "generator"))
    keep = replace(config, train=replace(config.train, steps=8))
    _unfinished(folder / "run", folder / "unfinished", keep)


def _unfinished(run: Path, out: Path, config: object) -> None:
    """The same run, six of eight steps done."""
    import json

    from trigpoint.core.config.tree import to_dict

    shutil.copytree(run, out)
    for name in ("model.safetensors", "summary.json", "report.html", "README.md", "overview.png"):
        (out / name).unlink(missing_ok=True)
    file = out / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"config": to_dict(config)}, indent=2))  # type: ignore[arg-type]


def made(name: str) -> Path:
    return _PLACE[0] / name


def model() -> Path:
    return made("run")
