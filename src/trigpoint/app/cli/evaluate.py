"""`trigpoint evaluate`: how well discovered landmarks predict annotated ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import tyro
from tyro.conf import Positional

from trigpoint.core.io import say, spare, write_atomically


@dataclass(frozen=True)
class Evaluate:
    """Predict annotated landmarks from discovered ones, and print the error with its protocol.

    Example: trigpoint evaluate runs/faces mtfl:data/mtfl --labels 10,100,all --picture faces.png

    Bodies that are seen from both sides are measured against the annotation and against the same with left
    and right swapped, and the lower error counts. docs/evaluation.md tells the protocols apart.
    """

    model: Positional[str]
    """A run folder, or the name of a shipped model."""
    source: Positional[str]
    """An annotated source: fitted on its split labels, measured on its split test."""
    validation: bool = False
    """Fit on nine tenths of the split labels and measure on the rest: to choose by, not to report."""
    protocol: Literal["lmdis", "autolink", "imm", "imm-bias", "bkind", "saic"] = "lmdis"
    """lmdis is the paper's release, the others later projects'. Compare numbers of one protocol only."""
    views: int | None = None
    """How many views of each image, in place of the model's own number; the paper has one."""
    labels: str = ""
    """Also the error with so many labels, such as 1,5,10,50,100,200,500,all."""
    draws: int = 10
    """How often that many labels are drawn at random."""
    seed: int = 0
    """Of the random draws."""
    untrained: bool = True
    """Also measure the same network with random weights (looks at all images once more)."""
    picture: Path | None = None
    """Draw discovered, annotated and predicted landmarks on test images into this PNG."""
    plot: Path | None = None
    """Draw the error against the number of labels (--labels) into this PNG."""
    json: Path | None = None
    """Also write the result to this file."""


def main(argv: Sequence[str]) -> int:
    args = tyro.cli(Evaluate, prog="trigpoint evaluate", args=argv)
    from trigpoint.core.errors import TrigpointError

    labels = parse_labels(args.labels)
    if args.plot is not None and not labels:
        raise TrigpointError("--plot needs --labels, such as --labels 1,5,10,50,100,200,500,all.")
    for file in (args.picture, args.plot):
        if file is not None and file.suffix.lower() != ".png":
            raise TrigpointError(f"Cannot write {file}: its name must end in .png.")
    for file in (args.picture, args.plot, args.json):
        if file is not None and not file.parent.is_dir():
            raise TrigpointError(f"There is no folder {file.parent} to write {file.name} into.")
    from trigpoint.core.inference.predictor import Predictor
    from trigpoint.core.sources import Source, files_of, open_source
    from trigpoint.learning.evaluation.evaluate import SPLIT, annotated, for_validation, measure

    predictor = Predictor.load(args.model, args.views)
    train: Source = open_source(args.source, "labels")
    test: Source
    if args.validation:
        train, test = for_validation(train)
        split = "fitted on nine tenths of labels, measured on the rest"
    else:
        test, split = open_source(args.source, "test"), SPLIT
    for file in (args.picture, args.plot, args.json):
        spare(file, chain(files_of(train), files_of(test)))
    annotated(test)  # the sentence comes before any image is read
    options = (args.protocol, labels, args.draws, args.seed, args.untrained, split)
    result, regressor = measure(predictor, train, test, args.model, *options)
    if args.json is not None:
        write_atomically(args.json, f"{json.dumps(result, indent=2)}\n".encode())
    say(*describe(result).split("\n"))
    missing = [number for number in labels if number != "all" and number > result["labels"]]
    if missing:
        say(f"left out: {', '.join(map(str, missing))} labels, more than the {result['labels']:,} there are")
    if args.picture is not None:
        from trigpoint.learning.evaluation.picture import prediction_picture

        prediction_picture(predictor, train, test, args.picture, regressor)
        say(f"picture: {args.picture}")
    if args.plot is not None:
        from trigpoint.learning.evaluation.picture import few_labels_plot

        title = f"{Path(test.description).name}, {args.protocol}, K = {predictor.landmarks}"
        errors = result["error_percent"], result["baseline_mean_shape_percent"]
        few_labels_plot(result["by_labels"], *errors, args.plot, result["unit"], title)
        say(f"plot: {args.plot}")
    return 0


def parse_labels(text: str) -> list[int | Literal["all"]]:
    """`1,5,all` as numbers in order, each once, and "all"."""
    from trigpoint.core.errors import TrigpointError

    numbers: set[int] = set()
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    for word in words:
        if word == "all":
            continue
        if not (word.isascii() and word.isdecimal() and int(word) > 0):
            raise TrigpointError(
                f"--labels takes whole numbers from 1 and `all`, such as 1,10,100,all; got {text!r}."
            )
        numbers.add(int(word))
    return [*sorted(numbers), "all"] if "all" in words else [*sorted(numbers)]


def describe(result: dict[str, Any]) -> str:
    """The result in words: no number without its protocol, K, labels and split."""
    unit = result["unit"]
    lines = [f"error {result['error_percent']:.2f} % of the {unit}"]
    if "backward_error_percent" in result:
        lines[0] += f" forward, {result['backward_error_percent']:.2f} % backward"
    baselines = f"mean shape {result['baseline_mean_shape_percent']:.2f} %"
    if "baseline_untrained_percent" in result:
        baselines += f", untrained network {result['baseline_untrained_percent']:.2f} %"
    lines += [
        f"for comparison: {baselines}",
        f"protocol {result['protocol']}: {result['protocol_text']}",
        f"K = {result['landmarks']}, {result['views']} view{'s' * (result['views'] > 1)} of each image, "
        f"{result['split']} of {result['source']}: {result['labels']:,} labels, "
        f"{result['test_images']:,} test images; regressor: {result['regressor']}",
    ]
    if result["flip_aware"]:
        lines.append("flip-aware: against the annotation or its left-right swap, whichever is closer")
    for name, error in result["per_landmark"].items():
        lines.append(f"  {name:20} " + ("never annotated" if error is None else f"{error:6.2f} %"))
    if result["by_labels"]:
        lines.append(
            f"by number of labels (protocol {result['protocol']}, K = {result['landmarks']}, the same split):"
        )
    for row in result["by_labels"]:
        line = f"  {row['labels']:>7,} labels  {row['error_percent']:6.2f} % +- {row['std']:.2f}"
        if "backward_error_percent" in row:
            line += f"  backward {row['backward_error_percent']:6.2f} % +- {row['backward_std']:.2f}"
        lines.append(f"{line}  over {row['draws']} draw{'s' * (row['draws'] > 1)}, {row['regressor']}")
    return "\n".join(lines)
