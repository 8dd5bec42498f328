"""`trigpoint report`: (re)write the report of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from tyro.conf import Positional

from trigpoint.core.io import say


@dataclass(frozen=True)
class Report:
    """(Re)write RUN/report.html, one self-contained page.

    Example: trigpoint report runs/photos
    """

    run: Positional[Path]
    """The folder of a finished run."""


def main(argv: Sequence[str]) -> int:
    args = tyro.cli(Report, prog="trigpoint report", args=argv)
    from trigpoint.app.report import write_report
    from trigpoint.core.runs import Run

    run = Run(args.run)
    run.meta()
    say(str(write_report(run)))
    return 0
