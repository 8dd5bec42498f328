"""The commands that are disturbed, and their inputs, which are made in code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trigpoint.core.config.tree import Config, ModelConfig, TrainConfig, to_dict

OUT = "out"  # every command writes into this folder of the one that it is called in
SMALL = ("latent=16", "width=4", "decoder=| 8/8 S1 P 8 | U 8 out", "critic_width=4", "critic_hidden=4",
         "batch_size=4", "recalibration_images=16")  # fmt: skip
FORMATS = ("--format", "csv,dlc,coco,slp", "--overlay")


@dataclass(frozen=True)
class Verb:
    name: str
    words: tuple[str, ...]
    resume: tuple[str, ...] = ()  # how the program says to go on, where it does


def verbs(inputs: Path) -> dict[str, Verb]:
    run, photos = str(inputs / "run"), str(inputs / "photos")
    train = ("train", photos, "--out", OUT, "--config", str(inputs / "config.json"), "--threads", "1")
    generate = ("generate", "train", run, photos, "--out", OUT, "--steps", "20", "--threads", "1")
    like = (str(inputs / "photos/00.png"), str(inputs / "photos/02.png"))
    fit = ("fit", "lips-8", f"slp:{inputs / 'labels.slp'}", "--out", f"{OUT}/keypoints.json")
    sample = ("generate", "sample", str(inputs / "generator"), "--like", *like, "--count", "3")
    found = (
        Verb("train", train, ("train", "--out", OUT, "--resume", "--threads", "1")),
        Verb("images", ("detect", run, photos, "--out", OUT, *FORMATS)),
        Verb("video", ("detect", "lips-8", str(inputs / "clip.mp4"), "--out", OUT, *FORMATS)),
        Verb("fit", (*fit, "--json", f"{OUT}/measured.json")),
        Verb(
            "generate",
            (*generate, "--set", *SMALL),
            ("generate", "train", "--out", OUT, "--resume", "--threads", "1"),
        ),
        Verb("sample", (*sample, "--walk", "mp4", "--out", OUT)),
    )
    return {verb.name: verb for verb in found}


def config() -> Config:
    """A small model for colour images, with descriptors: a step takes milliseconds."""
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
    return Config(
        model=model, train=TrainConfig(steps=40, batch_size=8, recalibration_images=32), preset="small"
    )


def make_inputs(folder: Path) -> None:
    """Photos, a video, its labels, a trained model and a generator."""
    from trigpoint.app.cli import main
    from trigpoint.core.files.formats import Keypoints, write_slp
    from trigpoint.core.files.videos import VideoWriter

    (folder / "photos").mkdir(parents=True)
    for number, picture in enumerate(pictures(80, (160, 120))):
        Image.fromarray(picture).save(folder / "photos" / f"{number:02d}.{('png', 'jpg')[number % 2]}")
    places = []
    with VideoWriter(folder / "clip.mp4", (320, 240), 25) as writer:
        for number, picture in enumerate(pictures(50, (320, 240))):
            writer.add(picture)
            places.append([(number + 20, 60, 1), (number + 30, 90, 1)])
    points = np.array(places, np.float32)
    points[1::2] = np.nan
    write_slp(
        folder / "labels.slp", Keypoints(folder / "clip.mp4", points, ("left", "right"), 25, (320, 240))
    )
    (folder / "config.json").write_text(json.dumps(to_dict(config())))
    short = replace(config(), train=replace(config().train, steps=10))
    (folder / "short.json").write_text(json.dumps(to_dict(short)))
    run, photos = str(folder / "run"), str(folder / "photos")
    generator = ("--out", str(folder / "generator"), "--steps", "5", "--set", *SMALL)
    for words in (
        ("train", photos, "--out", run, "--config", str(folder / "short.json"), "--threads", "1"),
        ("generate", "train", run, photos, "--threads", "1", *generator),
    ):
        if main(words):
            raise SystemExit(f"{' '.join(words)} failed")


def pictures(count: int, size: tuple[int, int]) -> Iterator[NDArray[np.uint8]]:
    """A bright disc on a coloured, textured ground, elsewhere on each."""
    random = np.random.default_rng(0)
    width, height = size
    ground = random.integers(0, 90, (height, width, 3)).astype(np.uint8)
    rows, columns = np.mgrid[:height, :width]
    radius = min(size) / 5
    for _ in range(count):
        x, y = random.uniform(radius, (width - radius, height - radius))
        picture = ground.copy()
        picture[(columns - x) ** 2 + (rows - y) ** 2 < radius**2] = (250, 210, 60)
        picture[(columns - x - 5) ** 2 + (rows - y) ** 2 < radius**2 / 9] = (90, 20, 20)
        yield picture
