"""`trigpoint fit`: from discovered landmarks to named keypoints, with a few labels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from tyro.conf import Positional

from trigpoint.core.io import say, spare, write_atomically


@dataclass(frozen=True)
class Fit:
    """Fit named keypoints to a model's landmarks on a few labelled images.

    Example: trigpoint fit runs/mouse deeplabcut:PROJECT --out keypoints.json
             trigpoint detect runs/mouse videos/ --keypoints keypoints.json --format dlc

    Writes --out: the linear map from landmarks to keypoints, and its cross-validated error in pixels.
    """

    model: Positional[str]
    """A run folder, or the name of a shipped model."""
    source: Positional[str]
    """Where the labels are: deeplabcut:PROJECT, csv:FILE, coco:FILE, mtfl:FOLDER, ..."""
    out: Path
    """The file to write, such as keypoints.json."""
    overwrite: bool = False
    """Replace the file if it exists."""
    json: Path | None = None
    """Also write what was measured to this file."""


def main(argv: Sequence[str]) -> int:
    args = tyro.cli(Fit, prog="trigpoint fit", args=argv)
    import numpy as np

    from trigpoint.core.errors import TrigpointError
    from trigpoint.core.inference.predictor import Predictor
    from trigpoint.core.keypoints import fit_keypoints
    from trigpoint.core.sources import files_of, open_source
    from trigpoint.learning.evaluation.discover import discover
    from trigpoint.learning.evaluation.evaluate import annotated

    if args.out.is_dir():
        raise TrigpointError(f"{args.out} is a folder; --out names a file.")
    if args.out.exists() and not args.overwrite:
        say(f"{args.out} is already there; --overwrite fits again.")
        return 0
    predictor = Predictor.load(args.model)
    source = open_source(args.source, "labels", predictor.config.video)
    for out in (args.json, args.out):
        spare(out, files_of(source))
    annotations = annotated(source)
    found = discover(predictor, source, "fitting on")
    places = found.places
    targets = np.array(
        [place.to_unit(annotations.points[index]) for index, place in zip(found.indices, places, strict=True)]
    )
    named = [source.group(int(index)) for index in found.indices]
    groups = [name for name in named if name is not None] if None not in named else None
    sides = np.array([(place.width, place.height) for place in places])
    fitted = fit_keypoints(found.points, targets, annotations.names, sides, groups)
    measured = fitted.measured
    if args.json is not None:  # before --out, which says that all is done
        write_atomically(args.json, f"{json.dumps(measured, indent=2)}\n".encode())
    fitted.save(args.out)
    kind = f"{measured['groups']} folders" if measured["groups"] > 1 else "single images"
    say(
        f"{len(fitted.names)} keypoints from {predictor.landmarks} landmarks, "
        f"fitted on {measured['images']} images"
    )
    if measured["error_pixels"] is None:
        say("error not measured: there are too few labels to leave some out")
    else:
        say(
            f"error {measured['error_pixels']} px, cross-validated over {kind} in {measured['folds']} folds "
            f"(the mean shape: {measured['mean_shape_pixels']} px)"
        )
    for name, error in measured["per_keypoint_pixels"].items():
        known = "not measured" if error is None else f"{error} px"
        say(f"  {name:24}{known}  ({measured['labels'][name]} labels)")
    if measured["groups"] == 1:
        say("All labels come from one folder: frames of one video are on both sides; expect more elsewhere.")
    say(f"{args.out}; next: trigpoint detect {args.model} VIDEO... --keypoints {args.out}")
    return 0
