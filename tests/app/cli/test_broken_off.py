"""What a training says when its folder or the room in it goes away."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trigpoint.core.progress import Progress
from trigpoint.learning.training import session

Call = Callable[..., Any]  # the fixture `trigpoint`
TRAIN = ("train", "digits:3", "--preset", "tiny-5", "--steps", "8", "--set", "train.batch_size=4", "--out")


def ended(said: Any, words: str) -> bool:
    """With one sentence, perhaps after some of the training's progress."""
    assert said.code == 2, said
    *progress, sentence = said.err.splitlines()
    assert sentence.startswith("trigpoint: "), said.err
    assert words in sentence, said.err
    return all(line.startswith(("preparing ", "training ", "Only ")) for line in progress)


def at_step(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Act after the third step; a checkpoint is due at each."""
    update = Progress.update

    def updated(bar: Progress, done: int, note: str = "") -> None:
        if bar.title == "training" and done == 3:
            act()
        update(bar, done, note)

    monkeypatch.setattr(Progress, "update", updated)
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", 0.0)


@pytest.mark.parametrize("how", ["removed", "moved", "replaced"])
def test_a_folder_that_goes_away_is_said(
    trigpoint: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    out, elsewhere = tmp_path / "run", tmp_path / "elsewhere"

    def act() -> None:
        out.rename(elsewhere)
        if how == "replaced":
            shutil.copytree(elsewhere, out)
        if how == "removed":
            shutil.rmtree(elsewhere)

    at_step(monkeypatch, act)
    said = trigpoint(*TRAIN, out)
    assert ended(said, "run was moved, removed or replaced during the training")
    assert out.exists() == (how == "replaced")  # nothing was made anew


def test_a_limit_of_file_sizes_is_said(trigpoint: Call, tmp_path: Path) -> None:
    """The system's own: whatever is written next is too large, at the first write and in the middle."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (100, 30_000, 300_000):  # config.json, the images, the checkpoint
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        try:
            said = trigpoint(*TRAIN, tmp_path / f"run-{limit}", "--set", "train.recalibration_images=64")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert ended(said, "A file would exceed the limit of its size")
    assert not (tmp_path / "run-100").exists()
