"""Runs an experiment: trains what is not trained yet, measures, and sets it beside the paper's numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trigpoint import api
from trigpoint.app.reproduce.experiments import Experiment, Row
from trigpoint.core.config.presets import preset
from trigpoint.core.config.tree import Config, with_steps, with_values
from trigpoint.core.errors import TrigpointError
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.io import say
from trigpoint.core.runs import Run
from trigpoint.core.sources import Source, Split, open_source, whole_word

PAPER_IMAGES = {  # (discovery, labels, test) as the paper counts them
    "celeba": (161_962, 19_000, 1_000),
    "aflw": (10_122, 10_122, 2_991),
    "cats": (7_747, 7_747, 1_257),
    "cars": (567, 567, 63),
    "shoes": (49_525, 0, 500),
    "human36m": (796_648, 796_648, 87_975),
}


@dataclass(frozen=True)
class Settings:
    """How an experiment is run."""

    source: str  # words of the command line
    out: Path
    compact: bool = False  # compact-K in place of the paper's networks and length
    rows: tuple[str, ...] = ()  # parts of the labels of the rows to run; none: all
    steps: int | None = None  # of each training; None: the preset's
    values: tuple[str, ...] = ()  # as for --set, for every row
    reuse: tuple[Path, ...] = ()  # runs that may stand in for a training of the same config
    embedding: tuple[Path, Path] | None = None
    seed: int = 0


@dataclass(frozen=True)
class Measured:
    """One row of the result."""

    row: Row
    run: Run
    value: float | None  # error or accuracy in %
    details: dict[str, Any] = field(default_factory=dict)


def words_of(row: Row, settings: Settings) -> str:
    """The source of a row: the one given, or a variant of it (one action, one digit)."""
    name, colon, rest = settings.source.partition(":")
    if not row.variant or (colon and name.partition("-")[2] == row.variant):
        return settings.source
    if settings.source == "digits":
        return f"digits:{row.variant}"
    if not colon:
        raise TrigpointError(f"The row {row.label!r} needs a dataset with the variant {row.variant!r}.")
    return f"{name.partition('-')[0]}-{row.variant}:{rest}"


def config_of(row: Row, settings: Settings) -> Config:
    """The paper's preset of a row, or the compact model that suits the source."""
    if settings.compact:
        config = api.suitable(open_source(words_of(row, settings)), row.landmarks)
    else:
        config = preset(row.preset)
        config = replace(config, model=replace(config.model, landmarks=row.landmarks))
    if settings.steps is not None:
        config = with_steps(config, settings.steps)
    return with_values(config, (f"train.seed={settings.seed}", *row.values, *settings.values))


def model_of(row: Row, settings: Settings) -> Run:
    """A finished run for a row: reused, resumed or trained."""
    config, words = config_of(row, settings), words_of(row, settings)
    for folder in settings.reuse:
        run = Run(folder)
        if (
            run.finished
            and run.config() == config
            and list(map(whole_word, run.meta()["source"])) == [whole_word(words)]
        ):
            return run
    # Rows that differ only in what they are fitted on share a model.
    kind = "-".join((row.preset, str(row.landmarks), *row.values, row.variant)).strip("-")
    folder = settings.out / "models" / re.sub(r"[^\w.=-]+", "_", kind)
    run = Run(folder)
    if run.finished and run.config() == config:
        return run
    started = run.config_file.is_file()
    if started and run.config() != config:
        raise TrigpointError(
            f"{folder} holds a model of other settings (steps, seed or values); name another --out."
        )
    say(f"training: {row.label} ({config.train.steps:,} steps)")
    if started:
        return api.train(words, folder, existing="resume")
    return api.train(words, folder, preset=config)


def splits(row: Row, settings: Settings) -> tuple[Source, Source]:
    fit: Split = row.fit
    words = words_of(row, settings)
    return open_source(words, fit), open_source(words, "test")


def measure(experiment: Experiment, row: Row, settings: Settings) -> Measured:
    """Train where needed, then measure one row."""
    from trigpoint.learning.evaluation.evaluate import evaluate
    from trigpoint.learning.evaluation.recognition import recognise

    run = model_of(row, settings)
    if experiment.kind in ("gallery", "evolution", "morph"):
        return Measured(row, run, None)
    predictor, name = Predictor.load(run.folder), str(run.folder)
    if experiment.kind == "attributes":
        words = words_of(row, settings)
        result = recognise(predictor, name, words, ("landmarks", "embedding", "both"), settings.embedding)
        return Measured(row, run, result["average"]["both"], result)
    labels = (1, 2, 5, 10, 50, 100, 200, 500, 1000, 5000) if experiment.kind == "labels" else ()
    first = row == experiment.rows[0]  # an untrained network is measured once
    result = evaluate(predictor, *splits(row, settings), name, labels=labels, with_untrained=first)
    return Measured(row, run, result["error_percent"], result)


def differences(experiment: Experiment, settings: Settings, rows: Sequence[Measured]) -> list[str]:
    """What stands between our numbers and the paper's, in words."""
    said = []
    first = rows[0]
    config = first.run.config()
    name = settings.source.partition(":")[0].partition("-")[0]
    train = first.run.summary()["train_images"]
    if name != experiment.dataset:
        said.append(f"Data: {settings.source.split('/')[-1]} here, {experiment.dataset} in the paper.")
    if experiment.dataset in PAPER_IMAGES:
        counts = PAPER_IMAGES[experiment.dataset]
        ours = f"{train:,} images for discovery"
        if "test_images" in first.details:
            labels = first.details.get("labels", first.details.get("train_images", 0))
            ours += f", {labels:,} labelled, {first.details['test_images']:,} for testing"
        theirs = f"{counts[0]:,}, {counts[1]:,} and {counts[2]:,}"
        said.append(f"Splits: {ours} here; {theirs} in the paper.")
    paper = preset(first.row.preset)
    if settings.compact or config.train.steps != paper.train.steps:
        said.append(
            f"Scale: {config.preset} with {config.train.steps:,} steps of {config.train.batch_size} images "
            f"of {config.model.image_size} pixels here; {first.row.preset} with {paper.train.steps:,} steps "
            f"of {paper.train.batch_size} images of {paper.model.image_size} pixels in the paper."
        )
    if settings.values:
        said.append(f"Changed for every row: {', '.join(settings.values)}.")
    said.append(f"One seed ({settings.seed}) here; the paper does not say how many.")
    if experiment.note:
        said.append(experiment.note)
    return said
