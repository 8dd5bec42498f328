"""`trigpoint reproduce`: one of the paper's tables or figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from tyro.conf import Positional

from trigpoint.core.io import say


@dataclass(frozen=True)
class Reproduce:
    """Run one of the paper's tables or figures, or `list` them all.

    Trains what is not trained yet, in sequence; an interrupted command goes on where it stopped. Writes
    OUT/result.md, result.json and figure.png; the models stay in OUT/models.

    Example: trigpoint reproduce table-1c --source mtfl:data/mtfl --compact --steps 2000 --out runs/table-1c
    """

    name: Positional[str]
    """A name that `trigpoint reproduce list` shows, or `list`."""
    source: str | None = None
    """Where the images are: the paper's dataset, or another that stands in for it."""
    out: Path | None = None
    """The folder of the results; without it runs/NAME."""
    compact: bool = False
    """Compact networks for a CPU in place of the paper's networks and lengths."""
    steps: int | None = None
    """Length of each training; without it the preset's."""
    row: tuple[str, ...] = ()
    """Only these rows, by their labels or a part of them."""
    set: tuple[str, ...] = ()
    """Single values of the config, for every row: losses.sep=32."""
    reuse: tuple[Path, ...] = ()
    """Finished runs to take in place of a training with the same config and source."""
    embedding: tuple[Path, Path] | None = None
    """For attributes: features of your own, see `trigpoint attributes --help`."""
    threads: int | None = None
    """CPU threads; without it all cores."""
    seed: int = 0
    """Seed of every training."""
    json: bool = False
    """Print the result as JSON in place of Markdown."""


def main(argv: Sequence[str]) -> int:
    args = tyro.cli(Reproduce, prog="trigpoint reproduce", args=argv)
    from trigpoint.app.reproduce.experiments import ELSEWHERE, EXPERIMENTS
    from trigpoint.core.errors import TrigpointError

    if args.name == "list":
        for experiment in EXPERIMENTS.values():
            say(
                f"{experiment.name:22}{experiment.where:28}{experiment.title} ({experiment.dataset}, "
                f"{len(experiment.rows)} model{'s' * (len(experiment.rows) > 1)})"
            )
        say("", "Not run by this verb:")
        for where, text in ELSEWHERE.items():
            say(f"  {where}: {text}")
        return 0
    if args.name not in EXPERIMENTS:
        raise TrigpointError(
            f"There is no experiment {args.name!r}; `trigpoint reproduce list` shows them all."
        )
    experiment = EXPERIMENTS[args.name]
    if args.source is None:
        raise TrigpointError(
            f"Name the images with --source: {experiment.dataset}:FOLDER is what the paper uses."
        )
    rows = [row for row in experiment.rows if not args.row or any(part in row.label for part in args.row)]
    if not rows:
        labels = "; ".join(row.label for row in experiment.rows)
        raise TrigpointError(f"No row of {args.name} is called {args.row[0]!r}; its rows: {labels}.")
    from trigpoint.app.reproduce.reference import dlib_rows, is_faces
    from trigpoint.app.reproduce.runner import Settings, measure, splits
    from trigpoint.app.reproduce.write import write
    from trigpoint.learning.devices import use_threads

    use_threads(args.threads)
    settings = Settings(
        source=args.source,
        out=args.out or Path("runs") / args.name,
        compact=args.compact,
        rows=args.row,
        steps=args.steps,
        values=args.set,
        reuse=args.reuse,
        embedding=args.embedding,
        seed=args.seed,
    )
    measured = []
    for row in rows:
        measured.append(measure(experiment, row, settings))
        if measured[-1].value is not None:
            say(f"{row.label}: {measured[-1].value:.2f} %")
    references = []
    if args.name.startswith("table-1b"):
        labelled, test = splits(rows[0], settings)
        if is_faces(test):
            try:
                references = dlib_rows(labelled, test)
            except TrigpointError as error:
                say(f"without dlib's rows: {error}")
    text = write(experiment, settings, measured, references)
    say(*((settings.out / "result.json").read_text() if args.json else text).split("\n"))
    say(f"written to {settings.out}")
    return 0
