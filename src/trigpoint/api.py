"""The public verbs from Python: `trigpoint.train(...)` and `trigpoint.load(...)`."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from trigpoint.core.config import presets
from trigpoint.core.config.presets import compact, tiny
from trigpoint.core.config.tree import Config, VideoConfig, check, load_config, with_steps, with_values
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.inference.inputs import check_whole, shown
from trigpoint.core.inference.predictor import Predictor, find_model
from trigpoint.core.runs import Run
from trigpoint.core.sources import Source, open_source
from trigpoint.core.sources.images import has_colour

LOOKED_AT = 32  # images that decide which preset suits


def load(model: str | Path, views: int | None = None) -> Predictor:
    """A model ready to detect: from a run folder, or a shipped model by its name.

    `views`: how many of each image, in place of the model's own number; 1 is fastest.
    """
    return Predictor.load(model, views)


Existing = Literal["refuse", "resume", "overwrite"]


def train(
    source: str | Path | Sequence[str | Path] = (),
    out: str | Path = "run",
    *,
    landmarks: int | None = None,
    preset: str | Path | Config | None = None,
    steps: int | None = None,
    values: Sequence[str] = (),
    stage: str | None = None,
    start: str | Path | None = None,
    existing: Existing = "refuse",
) -> Run:
    """Discover landmarks on a source of images into the run folder `out`, and write its report.

    `source` is a folder, image files, videos, or a name such as "digits"; a resumed run knows its own.
    `preset`: the name of one, a config.json, or a Config; without it one that suits the images.
    `values`: single values of the config, such as "losses.sep=0".
    `start`: a run folder or shipped model to go on from, and `stage` what is trained of it: all ("discover"),
    the detector alone, to find by one view what the model finds by several, of as many or fewer `landmarks`
    ("distill"), descriptors and decoder, to draw images from landmarks that stay ("draw"), or the decoder, so
    that images follow moved landmarks ("edit").
    `existing`: what becomes of a run that `out` holds: "resume" goes on with it and takes no other settings.
    """
    from trigpoint.app.report import write_report
    from trigpoint.learning.training.loop import train as train_config

    _check_kinds(source, out, values, preset)
    for name, number in (("landmarks", landmarks), ("steps", steps)):
        if number is not None:
            check_whole(number, name)
    if existing not in get_args(Existing):
        raise TrigpointError(
            f"existing must be one of {', '.join(get_args(Existing))}; got {shown(existing)}."
        )
    out = Path(out)
    resume = existing == "resume"
    if resume:
        if values or any(given is not None for given in (landmarks, preset, steps, stage, start)):
            raise TrigpointError("A resumed run keeps its own config: give --resume without other settings.")
        run = Run(out)
        chosen = run.config()
        images = open_source(source or run.meta()["source"], video=chosen.video)
    else:
        config: Config | None
        if start is not None:
            config = derived(start, stage or "discover", landmarks, preset)
        else:
            config = named_config(preset) if isinstance(preset, str | Path) else preset
            values = (*values, f"train.stage={stage}") if stage else values
        known = with_values(config or Config(), values)
        images = open_source(source, video=known.video)
        chosen = choose(images, landmarks, config)
        if steps is not None:
            chosen = with_steps(chosen, steps)
        chosen = with_values(chosen, values)
        chosen = replace(chosen, video=replace(chosen.video, frame=frame_size(images, chosen.video)))
    check(chosen)
    weights = None if start is None else fitting_weights(start, chosen)
    run = train_config(chosen, images, out, start=weights, resume=resume, overwrite=existing == "overwrite")
    write_report(run)
    return run


def _check_kinds(source: Any, out: Any, values: Any, preset: Any) -> None:
    words = [source] if isinstance(source, str | Path) else source
    if not isinstance(words, list | tuple) or not all(isinstance(word, str | Path) for word in words):
        raise TrigpointError(f"source must be a path, a name or a list of paths; got {shown(source)}.")
    if not isinstance(out, str | Path):
        raise TrigpointError(f"out must be the path of a run folder; got {shown(out)}.")
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
        raise TrigpointError(f'values must be a list such as ["train.steps=500"]; got {shown(values)}.')
    if preset is not None and not isinstance(preset, Config | str | Path):
        raise TrigpointError(f"preset must be a name, a Config or the path of one; got {shown(preset)}.")


def derived(
    start: str | Path, name: str, landmarks: int | None, preset: str | Path | Config | None
) -> Config:
    """The config of a stage that goes on from a model."""
    from trigpoint.learning.training import stages

    stage, before = stages.named(name), find_model(start).config()
    if preset is not None or (landmarks is not None and not stage.fewer_landmarks):
        raise TrigpointError(
            "A model that is trained further keeps its landmarks and its config; it can teach fewer "
            "landmarks with --stage distill."
        )
    if landmarks is not None and landmarks > before.model.landmarks:
        raise TrigpointError(
            f"{start} has {before.model.landmarks} landmarks: it can teach as many or fewer, not {landmarks}."
        )
    return stage.derive(before)


def fitting_weights(start: str | Path, config: Config) -> Path:
    """The weights to go on from. Before anything is written or replaced: there are such, and they fit."""
    from trigpoint.learning.checkpoint import load_tensors, load_weights
    from trigpoint.learning.model.autoencoder import Autoencoder
    from trigpoint.learning.training import stages

    model = find_model(start)
    many = model.config().model.landmarks
    fewer = stages.named(config.train.stage).fewer_landmarks and config.model.landmarks < many
    fitting = replace(config.model, landmarks=many) if fewer else config.model
    load_weights(Autoencoder(fitting), load_tensors(model.model_file)[0], model.model_file)
    return model.model_file


def named_config(preset: str | Path) -> Config:
    """A preset by its name, or a config.json by its path."""
    path = Path(preset)
    if isinstance(preset, Path) or path.suffix == ".json":
        return load_config(path)
    return presets.preset(preset)


def choose(source: Source, landmarks: int | None, config: Config | None) -> Config:
    """The config given, with so many landmarks, or what suits the images."""
    if config is None:
        config = suitable(source, 10 if landmarks is None else landmarks)
    if landmarks is not None and landmarks != config.model.landmarks:
        config = replace(config, model=replace(config.model, landmarks=landmarks))
    check(config)
    return config


def frame_size(source: Source, video: VideoConfig) -> tuple[int, ...]:
    """Width and height of the frames that are cropped in training: detection knows such images by it."""
    if not video.crop or not source.of_videos:
        return ()
    for index in range(min(LOOKED_AT, len(source))):
        with contextlib.suppress(UnreadableImage):
            height, width = source.image(index).shape[:2]
            return width, height
    return ()


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
    channels: Literal[1, 3] = 3 if coloured else 1
    if edges and np.median(edges) <= 40 and channels == 1:
        return tiny(landmarks)
    return compact(landmarks, channels)
