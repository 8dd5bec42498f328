"""`trigpoint attributes`: recognise visual attributes from landmarks, from an embedding, and from both."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from tyro.conf import Positional

from trigpoint.core.io import say, spare, write_atomically

Kind = Literal["landmarks", "embedding", "both"]


@dataclass(frozen=True)
class Options:
    """Train a linear SVM per attribute and print its accuracy beside that of the majority class.

    Example: trigpoint attributes runs/faces mtfl:data/mtfl --json attributes.json
    """

    model: Positional[str]
    """A run folder, or the name of a shipped model."""
    source: Positional[str]
    """A source with attributes: fitted on its labelled split, measured on its test split."""
    features: tuple[Kind, ...] = ("landmarks", "embedding", "both")
    """What the SVM sees: landmark coordinates, embedding features, or both together."""
    embedding: tuple[Path, Path] | None = None
    """Features of your own: two .npy tables, one row per image of the labelled and of the test split.
    Without it, dlib's face embedding (pip install 'trigpoint[embedding]'), computed once and kept."""
    labels: int | None = None
    """Fit on so many images, spread over the labelled ones; without it on all."""
    json: Path | None = None
    """Also write the table to this file."""


def main(argv: Sequence[str]) -> int:
    args = tyro.cli(Options, prog="trigpoint attributes", args=argv)
    from trigpoint.core.errors import TrigpointError
    from trigpoint.core.inference.predictor import Predictor
    from trigpoint.learning.evaluation.recognition import recognise

    if args.labels is not None and args.labels < 1:
        raise TrigpointError(f"--labels must be at least 1; got {args.labels}.")
    spare(args.json, (*(args.embedding or ()), Path(args.source.partition(":")[2])))
    result = recognise(
        Predictor.load(args.model), args.model, args.source, args.features, args.embedding, labels=args.labels
    )
    if args.json is not None:
        write_atomically(args.json, f"{json.dumps(result, indent=2)}\n".encode())
    kinds = ["majority", *result["features"]]
    say(f"{'accuracy in %':20}" + "".join(f"{kind:>12}" for kind in kinds))
    for row in result["rows"]:
        say(f"{row['attribute']:20}" + "".join(f"{row[kind]:12.2f}" for kind in kinds))
    say(f"{'average':20}" + "".join(f"{result['average'][kind]:12.2f}" for kind in kinds))
    say(
        f"linear SVM, K = {result['landmarks']}, fitted on {result['train_images']:,} images, measured on "
        f"{result['test_images']:,} of {result['source']} (test split)"
    )
    return 0
