"""`trigpoint demo`: the whole story on embedded digits, ends in a report."""

from __future__ import annotations

import os
import shutil
import sys
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from trigpoint.core.io import say


@dataclass(frozen=True)
class Demo:
    """Discover 7 landmarks on 5,000 handwritten digits, then look at the report.

    Example: trigpoint demo
    """

    out: Path = Path("demo")
    """The run folder to write; an unfinished demo there is taken up again, a finished one shown."""
    steps: int | None = None
    """A shorter or longer training than the preset's."""
    open: bool = True
    """Open the report in a browser where there is a screen."""
    overwrite: bool = False
    """Start over where --out already holds a demo."""


def main(argv: Sequence[str]) -> int:
    args = tyro.cli(Demo, prog="trigpoint demo", args=argv)
    from trigpoint import api
    from trigpoint.app.cli.detect import main as detect
    from trigpoint.app.cli.train import report_failures
    from trigpoint.app.report.text import closing_words
    from trigpoint.core.runs import Run

    found = args.out / "found"
    resume = Run(args.out).config_file.exists() and not args.overwrite
    say("trigpoint: 5,000 handwritten digits, no labels. What are the 7 places that all of them share?", "")

    def work() -> int:
        run = api.train(
            "digits",
            args.out,
            preset=None if resume else "tiny-7",
            steps=None if resume else args.steps,
            existing="resume" if resume else "overwrite" if args.overwrite else "refuse",
        )
        detect([str(args.out), "digits", "--out", str(found), "--overwrite"])
        say("", *closing_words(run).split("\n"))
        report = run.report_file.resolve()
        if args.open and has_screen():
            webbrowser.open(report.as_uri())
        else:
            say("", f"Open it in a browser: {report.as_uri()}")
        return 0

    return report_failures(work, f"trigpoint demo --out {args.out}")


def has_screen() -> bool:
    if sys.platform.startswith("linux"):
        return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) and bool(
            shutil.which("xdg-open")
        )
    return True
