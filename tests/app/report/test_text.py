"""What a run found, in words."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from trigpoint.app.report import write_report
from trigpoint.app.report.text import cautions, closing_words, verdict_counts
from trigpoint.core.runs import Run


def judged(run: Run, folder: Path, verdicts: list[str], video: dict[str, Any] | None = None) -> Run:
    """A copy of a run whose landmarks have these verdicts; `video`: of videos, prepared like this."""
    shutil.copytree(run.folder, folder)
    copy = Run(folder)
    summary = copy.summary()
    for row, verdict in zip(summary["health"], verdicts, strict=True):
        row |= {"verdict": verdict, "why": f"why {verdict}", "change": 0.034}
    if video is not None:
        summary["temporal"] = None
        meta = copy.meta()
        meta["config"]["video"] |= video
        copy.config_file.write_text(json.dumps(meta))
    copy.summary_file.write_text(json.dumps(summary))
    return copy


def test_verdicts_are_counted() -> None:
    kinds = ["good", "good", "background", "duplicate of 4", "duplicate of 3", "stuck at the centre"]
    assert verdict_counts([{"verdict": kind} for kind in kinds]) == (
        "2 are good, 1 is on the background, 2 are duplicates, 1 is stuck at the centre"
    )
    assert verdict_counts([{"verdict": "background"}] * 9) == "9 are on the background"


@pytest.mark.parametrize(
    ("video", "advice", "other"),
    [
        (None, "closer to the object", "--follow"),
        ({}, "--follow --background grey", "closer to the object"),
        ({"follow": True, "background": "grey"}, "--scale", "--follow"),
    ],
)
def test_landmarks_on_the_background_are_told_everywhere_with_what_to_do(
    tiny_run: Run, tmp_path: Path, video: dict[str, Any] | None, advice: str, other: str
) -> None:
    run = judged(tiny_run, tmp_path / "run", ["good", "good", "good", "background", "background"], video)
    write_report(run)
    for text in (
        closing_words(run),
        run.report_file.read_text(),
        (run.folder / "README.md").read_text(),
    ):
        assert "3 are good, 2 are on the background" in text
        assert "2 of 5 landmarks lie where nothing changes" in text
        assert advice in text
        assert other not in text
    page = run.report_file.read_text()
    assert page.count('<tr class="background">') == 2
    assert "<td>3%</td>" in page  # the change beside the spread


def test_nothing_is_advised_where_few_landmarks_are_on_the_background(tiny_run: Run, tmp_path: Path) -> None:
    run = judged(tiny_run, tmp_path / "run", ["good", "good", "good", "good", "background"])
    assert "1 is on the background" in closing_words(run)
    assert cautions(run) == []


def test_a_run_of_before_has_its_words_and_report_too(tiny_run: Run, tmp_path: Path) -> None:
    """The summaries of older runs have neither the change nor doubts."""
    shutil.copytree(tiny_run.folder, tmp_path / "run")
    run = Run(tmp_path / "run")
    summary = run.summary()
    del summary["doubts"]
    for row in summary["health"]:
        del row["change"]
    run.summary_file.write_text(json.dumps(summary))
    assert write_report(run).is_file()
    assert "5 landmarks" in closing_words(run)
