"""What a run found, in words."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from trigpoint import api
from trigpoint.app.cli import main
from trigpoint.app.report import write_report
from trigpoint.app.report.text import cautions, closing_words, model_card, verdict_counts
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


@pytest.mark.parametrize(
    ("stage", "settings"),
    [
        (None, {"preset": "tiny-3"}),
        ("discover", {"start": "RUN", "values": ["train.seed=3", "train.optimiser=muon"]}),
        ("distill", {"start": "RUN", "landmarks": 3, "values": ["warp.rotation=5"]}),
        ("draw", {"start": "digits-7"}),
        ("edit", {"start": "RUN"}),
    ],
)
def test_the_command_of_a_model_card_makes_the_same_model(
    tiny_run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stage: str | None,
    settings: dict[str, Any],
) -> None:
    settings = {**settings, "start": str(tiny_run.folder)} if settings.get("start") == "RUN" else settings
    few = ["train.recalibration_images=16", *settings.pop("values", ())]
    run = api.train("digits:3", tmp_path / "run", steps=3, stage=stage, values=few, **settings)
    assert model_card(run) == (run.folder / "README.md").read_text()
    words = shlex.split(re.findall("Repeat it: `trigpoint (.*)`", model_card(run))[0])
    monkeypatch.chdir(run.folder)
    assert main([*words, "--threads", "1"]) == 0
    again = Run(run.folder / "RUN")
    assert again.config() == run.config()
    assert again.model_file.read_bytes() == run.model_file.read_bytes()


def test_a_model_card_does_without_the_model_that_was_gone_on_from(tiny_run: Run, tmp_path: Path) -> None:
    before, out = tmp_path / "before", tmp_path / "run"
    shutil.copytree(tiny_run.folder, before)
    run = api.train("digits:3", out, steps=1, stage="edit", start=before)
    shutil.rmtree(before)
    command = f"trigpoint train digits:3 --out RUN --from {before} --stage edit --steps 1"
    assert f"Repeat it: `{command}`." in model_card(run)
