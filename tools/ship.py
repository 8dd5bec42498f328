"""Put a finished run into the package's zoo: its config, its weights, and a model card of measured numbers.

python tools/ship.py runs/faces-10 faces-10 --command "trigpoint train mtfl:FOLDER --out runs/faces-10" \
    --evaluation runs/faces-10-eval.json --subject face \
    --data "10,000 faces of MTFL's training list (LFW and web photos), no labels" \
    --terms "research use, cite MTFL (ECCV 2014)" \
    --use "finding the same ten places on faces of ordinary photos"
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from tyro.conf import Positional

from trigpoint.app.report.text import kept_out, verdict_counts
from trigpoint.core.errors import TrigpointError
from trigpoint.core.inference.predictor import ZOO
from trigpoint.core.runs import Run
from trigpoint.learning.checkpoint import load_tensors

LARGEST = 5_000_000  # bytes of a shipped model


@dataclass(frozen=True)
class Ship:
    run: Positional[Path]
    """The finished run."""
    name: Positional[str]
    """What the model is called in the zoo."""
    data: str
    """What it was trained on."""
    terms: str
    """The terms of that data."""
    use: str
    """What it is meant for."""
    command: tuple[str, ...]
    """The commands that trained it, in order."""
    training: str = ""
    """How it was trained, where that was more than the last of them."""
    evaluation: Path | None = None
    """The JSON of `trigpoint evaluate` or `trigpoint fit`, where there are annotations."""
    drawn: tuple[Path, ...] = ()
    """Runs of `trigpoint train --from RUN --stage draw` and `edit`, in order: the last one is shipped."""
    drawn_command: tuple[str, ...] = ()
    """The commands that trained those."""
    subject: str = ""
    """What the model looks for on a photo by itself."""
    views: int | None = None
    """How many views of each image, in place of the run's own number; as in the evaluation."""


def main() -> None:
    args = tyro.cli(Ship, description=__doc__)
    run = Run(args.run)
    if not run.finished:
        raise TrigpointError(f"{args.run} is not a finished run.")
    if run.model_file.stat().st_size > LARGEST:
        raise TrigpointError(f"{run.model_file} is larger than {LARGEST / 1e6:.0f} MB.")
    drawn = [same_landmarks(run, Run(folder)) for folder in args.drawn]
    weights = (drawn or [run])[-1].model_file
    measured = json.loads(args.evaluation.read_text()) if args.evaluation else None
    views = run.config().views if args.views is None else args.views
    if measured and measured.get("views", views) != views:
        raise TrigpointError(f"The evaluation had {measured['views']} views, the model has {views}.")
    summary = run.summary()
    card = {
        "landmarks": run.config().model.landmarks,
        "error": error_words(summary, measured),
        "error_percent": measured.get("error_percent") if measured else None,
        "warp_error_percent": round(100 * summary["warp_error"], 2),
        "data": args.data,
        "terms": args.terms,
        "command": args.command[0],
    }
    folder = ZOO / args.name
    folder.mkdir(parents=True, exist_ok=True)
    kept = {key: value for key, value in run.meta().items() if key != "start"}  # a path of this machine
    kept["config"] |= {"views": views}
    meta = kept | {"card": card} | ({"subject": args.subject} if args.subject else {})
    meta["source"] = [re.sub(r"(?<=:).+", "FOLDER", word) for word in meta["source"]]  # nobody else's paths
    (folder / "config.json").write_text(json.dumps(meta, indent=2) + "\n")
    shutil.copyfile(weights, folder / "model.safetensors")
    (folder / "README.md").write_text(text(args, run, drawn, card, measured))
    print(f"{folder}: {run.model_file.stat().st_size / 1e6:.1f} MB, {card['error']}")


def same_landmarks(run: Run, drawn: Run) -> Run:
    """The second run, if it has the first one's detector."""
    before, after = load_tensors(run.model_file)[0], load_tensors(drawn.model_file)[0]
    changed = [name for name in before if not torch.equal(before[name], after[name])]
    if any(name.startswith("detector.") for name in changed):
        raise TrigpointError(f"{drawn.folder} has other landmarks than {run.folder}.")
    return drawn


def error_words(summary: dict[str, Any], measured: dict[str, Any] | None) -> str:
    if measured is None:
        return f"warp error {summary['warp_error']:.2%} of the image edge (no annotations to measure against)"
    if "error_pixels" in measured:
        return (
            f"{measured['error_pixels']:.2f} pixels for {len(measured['labels'])} keypoints fitted to "
            f"{measured['images']:,} labelled images, cross-validated over {measured['groups']} folders "
            f"(the mean shape: {measured['mean_shape_pixels']:.2f})"
        )
    return (
        f"{measured['error_percent']:.2f} % of the {measured['unit']} on "
        f"{measured['test_images']:,} test images "
        f"({measured['protocol']}, {measured['labels']:,} labels, "
        f"{measured['views']} view{'s' * (measured['views'] > 1)} of each image)"
    )


def text(
    args: Ship, run: Run, drawn: list[Run], card: dict[str, Any], measured: dict[str, Any] | None
) -> str:
    config, summary, versions = run.config(), run.summary(), run.meta()["versions"]
    before = "" if args.training else f", {summary['warp_error_before']:.1%} before training"
    rows = {
        "data": f"{args.data}. No label was used in training",
        "terms": f"{args.terms}; they hold for the weights too",
        "model": f"`{config.preset}`, {summary['parameters']:,} parameters, "
        f"{config.model.image_size} pixels, {run.model_file.stat().st_size / 1e6:.1f} MB",
        "training": args.training
        or f"{summary['steps']:,} steps of {config.train.batch_size} images at "
        f"{summary['images_per_second']:.0f} images/s on two CPU cores, seed {config.train.seed}",
        **{row: words for each in drawn for row, words in [drawn_row(each)]},
        "error": card["error"],
        "warp error": f"{summary['warp_error']:.2%} of the image edge{before}. {kept_out(summary)}",
        "health": verdict_counts(summary["health"]),
        "made with": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    if measured and measured.get("per_landmark"):
        rows["by point"] = ", ".join(
            f"{name} {value:.1f} %" for name, value in measured["per_landmark"].items()
        )
        rows["mean shape"] = f"{measured['baseline_mean_shape_percent']:.1f} %, the same way"
    commands = "\n".join(f"    {command}" for command in (*args.command, *args.drawn_command))
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return f"""# {args.name}

{config.model.landmarks} landmarks, discovered without labels.

| | |
|---|---|
{table}

Made by:

{commands}

Meant for {args.use}.
It recognises nobody, and it puts its landmarks on any image, also where the subject is absent: mind the
confidence. Images unlike its training data (other framing, strong rotation, drawings) are outside of what was
measured.
"""


def drawn_row(run: Run) -> tuple[str, str]:
    """What a training after the landmarks' own is called, and how long it was."""
    row, part = {
        "draw": ("training of the drawing", "descriptors and decoder"),
        "edit": ("training for edits", "the decoder"),
    }[run.config().train.stage]
    summary = run.summary()
    return row, f"{summary['steps']:,} steps of {part} alone, at {summary['images_per_second']:.0f} images/s"


if __name__ == "__main__":
    main()
