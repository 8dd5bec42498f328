"""`cairns evaluate`: how well discovered landmarks predict annotated ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from tyro.conf import Positional


@dataclass(frozen=True)
class Evaluate:
    """Predict annotated landmarks from discovered ones, and print the error with its protocol.

    Example: cairns evaluate runs/faces mtfl:data/mtfl --json faces.json
    """

    model: Positional[str]
    """A run folder, or the name of a shipped model."""
    source: Positional[str]
    """An annotated source: fitted on its training split, measured on its test split."""
    protocol: Literal["lmdis"] = "lmdis"
    """lmdis: the paper's release. Linear map without bias, coordinates minus 0.5, least squares."""
    json: Path | None = None
    """Also write the result to this file."""


def main(argv: Sequence[str]) -> int:
    args = tyro.cli(Evaluate, prog="cairns evaluate", args=argv)
    from cairns.evaluation.evaluate import evaluate
    from cairns.predictor import Predictor
    from cairns.sources import open_source

    predictor = Predictor.load(args.model)
    train, test = open_source(args.source, "train"), open_source(args.source, "test")
    result = evaluate(predictor, train, test, args.model)
    if args.json is not None:
        args.json.write_text(json.dumps(result, indent=2) + "\n")
    print(
        f"error {result['error_percent']:.2f} % of the reference distance (mean shape: "
        f"{result['baseline_mean_shape_percent']:.2f} %)\n"
        f"protocol {result['protocol']}, K = {result['landmarks']}, fitted on {result['labels']:,} annotated "
        f"images, measured on {result['test_images']:,} of {result['source']}"
    )
    for name, error in result["per_landmark"].items():
        print(f"  {name:20} {error:6.2f} %")
    return 0
