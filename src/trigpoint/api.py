"""The public verbs from Python: `trigpoint.train(...)` and `trigpoint.load(...)`."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from trigpoint.core.config.presets import compact, preset, tiny
from trigpoint.core.config.tree import Config, VideoConfig, check, load_config, with_steps, with_values
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.inference.inputs import check_whole, shown
from trigpoint.core.inference.predictor import Predictor, find_model
from trigpoint.core.runs import Run
from trigpoint.core.sources import Source, of_videos, open_source
from trigpoint.core.sources.images import has_colour
from trigpoint.learning.training.schedule import weights

FURTHER = 3  # a model is trained further for a third of its first training
FOR_EDITS = (
    "train.part=decoder",
    "train.optimiser=adam",
    "train.learning_rate=0.001",
    "train.beta2=0.999",
    "train.weight_decay=1e-6",
    "warp.flow_share=0",
)
DRAWING = (
    "train.part=drawing",
    "train.optimiser=muon",
    "train.learning_rate=0.02",
    "train.beta2=0.98",
    "train.weight_decay=0.05",
    "warp.flow_share=0",
)
SELF_TAUGHT = (
    "train.part=detector",
    "train.gamma=0.4",
    "train.shade=0.4",
    "train.blur=1",
    "warp.flow_share=0",
)
LOOKED_AT = 32  # images that decide which preset suits


def load(model: str | Path, looks: int | None = None) -> Predictor:
    """A model ready to detect: from a run folder, or a shipped model by its name.

    `looks`: how often to look at each image, in place of the model's own number; 1 is fastest.
    """
    return Predictor.load(model, looks)


def train(
    source: str | Path | Sequence[str | Path] = (),
    out: str | Path = "run",
    *,
    landmarks: int | None = None,
    preset: str | None = None,
    steps: int | None = None,
    config: Config | str | Path | None = None,
    values: Sequence[str] = (),
    start: str | Path | None = None,
    for_edits: bool = False,
    self_taught: bool = False,
    drawing: bool = False,
    threads: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> Run:
    """Discover landmarks on a source of images into the run folder `out`, and write its report.

    `source` is a folder, image files, videos, or a name such as "digits"; a resumed run knows its own.
    `start`: a run folder or shipped model whose weights and config training goes out from.
    `for_edits`: only its decoder is trained, so that images follow moved landmarks.
    `self_taught`: only its detector is trained, to find by one look what it found by several; with fewer
    `landmarks` it is trained to find as many means of what the model found.
    `drawing`: only its descriptors and decoder are trained, to draw images from landmarks that stay.
    """
    import torch

    from trigpoint.app.report import write_report
    from trigpoint.learning.checkpoint import load_tensors, load_weights
    from trigpoint.learning.model.autoencoder import Autoencoder
    from trigpoint.learning.training.loop import train as train_config

    _check_kinds(source, out, values, config)
    for name, number in (("landmarks", landmarks), ("steps", steps), ("threads", threads)):
        if number is not None:
            check_whole(number, name)
    if preset is not None and not isinstance(preset, str):
        raise TrigpointError(f"preset must be the name of a preset; got {shown(preset)}.")
    if threads is not None and threads < 1:
        raise TrigpointError(f"--threads must be at least 1; got {threads}.")
    torch.set_num_threads(threads or os.cpu_count() or 1)
    out = Path(out)
    ways = ((for_edits, FOR_EDITS), (self_taught, SELF_TAUGHT), (drawing, DRAWING))
    further_ways = [settings for wanted, settings in ways if wanted]
    if resume:
        if any(value is not None for value in (landmarks, preset, steps, config)) or values or further_ways:
            raise TrigpointError("A resumed run keeps its own config: give --resume without other settings.")
        run = Run(out)
        chosen = run.config()
        images = open_source(source or run.meta()["source"], video=chosen.video)
    else:
        if start is not None:
            if (landmarks is not None and not self_taught) or preset is not None or config is not None:
                raise TrigpointError(
                    "A model that is trained further keeps its landmarks and its config; it can teach fewer "
                    "landmarks with --self-taught."
                )
            config = find_model(start).config()
            if landmarks is not None and landmarks > config.model.landmarks:
                raise TrigpointError(
                    f"{start} has {config.model.landmarks} landmarks: it can teach as many or fewer, "
                    f"not {landmarks}."
                )
            if not (self_taught and config.train.part == "detector"):  # once more in the same way
                config = further(config)
        elif isinstance(config, str | Path) and preset is None:
            config = load_config(Path(config))
        if len(further_ways) > 1:
            raise TrigpointError(
                "--for-edits, --self-taught and --drawing are trainings of their own: one after the other."
            )
        values = (*itertools.chain(*further_ways), *values)
        known = config if isinstance(config, Config) else Config()
        video = with_values(known, values).video
        images = open_source(source, video=video)
        chosen = choose(images, landmarks=landmarks, name=preset, config=config)
        if steps is not None:
            chosen = with_steps(chosen, steps)
        chosen = with_values(chosen, values)
        chosen = replace(chosen, video=replace(chosen.video, frame=frame_size(images, chosen.video)))
    check(chosen)
    file = None
    if start is not None:
        # Before anything is written or replaced: there are such weights, and they fit.
        file = find_model(start).model_file
        many = find_model(start).config().model.landmarks
        fewer = chosen.train.part == "detector" and chosen.model.landmarks < many
        fitting = replace(chosen.model, landmarks=many) if fewer else chosen.model
        load_weights(Autoencoder(fitting), load_tensors(file)[0], file)
    run = train_config(chosen, images, out, start=file, resume=resume, overwrite=overwrite)
    write_report(run)
    return run


def _check_kinds(source: Any, out: Any, values: Any, config: Any) -> None:
    words = [source] if isinstance(source, str | Path) else source
    if not isinstance(words, list | tuple) or not all(isinstance(word, str | Path) for word in words):
        raise TrigpointError(f"source must be a path, a name or a list of paths; got {shown(source)}.")
    if not isinstance(out, str | Path):
        raise TrigpointError(f"out must be the path of a run folder; got {shown(out)}.")
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise TrigpointError(f'values must be a list such as ["train.steps=500"]; got {shown(values)}.')
    if config is not None and not isinstance(config, Config | str | Path):
        raise TrigpointError(f"config must be a Config or the path of one; got {shown(config)}.")


def choose(
    source: Source, *, landmarks: int | None, name: str | None, config: Config | str | Path | None
) -> Config:
    """The config to train with: the one given, the preset named, or what suits images and K."""
    if name is not None and config is not None:
        raise TrigpointError("Give --preset or --config, not both.")
    if isinstance(config, Config):
        chosen = config
    elif config is not None:
        chosen = load_config(Path(config))
    elif name is not None:
        chosen = preset(name)
    else:
        chosen = suitable(source, 10 if landmarks is None else landmarks)
    if landmarks is not None and landmarks != chosen.model.landmarks:
        chosen = replace(chosen, model=replace(chosen.model, landmarks=landmarks))
    check(chosen)
    return chosen


def frame_size(source: Source, video: VideoConfig) -> tuple[int, ...]:
    """Width and height of the frames that are cropped in training: detection knows such images by it."""
    if not video.crop or not of_videos(source):
        return ()
    for index in range(min(LOOKED_AT, len(source))):
        with contextlib.suppress(UnreadableImage):
            height, width = source.image(index).shape[:2]
            return width, height
    return ()


def further(config: Config) -> Config:
    """A model's own config to train it further with: gentler, and with nothing left to settle first."""
    train = with_steps(config, max(1, config.train.steps // FURTHER)).train
    rate = config.train.learning_rate / 4
    train = replace(
        train, learning_rate=rate, recon_raise_at=(), landmark_points_at=(0, 0), eqv_rise=1.0, part="all"
    )
    if config.train.part == "detector":  # the harder light was for that alone
        train = replace(train, gamma=0.0, shade=0.0, blur=0.0)
    final = weights(config, config.train.steps)
    losses = replace(config.losses, recon=final["recon"], eqv=final["eqv"])
    return replace(config, losses=losses, train=train)


def suitable(source: Source, landmarks: int) -> Config:
    """`tiny` for small grey images such as digits, else `compact`; grey if all images looked at are."""
    edges, coloured = [], False
    for index in np.linspace(0, len(source) - 1, min(LOOKED_AT, len(source))).astype(int):
        try:
            image = source.image(int(index))
        except UnreadableImage:
            continue
        edges.append(max(image.shape[:2]))
        coloured = coloured or has_colour(image)
    channels = 3 if coloured else 1
    if edges and np.median(edges) <= 40 and channels == 1:
        return tiny(landmarks)
    return compact(landmarks, channels)
