"""Options that were called otherwise: the old name works, says the new one, and is told nobody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trigpoint.app.cli import main
from trigpoint.app.cli.renamed import RENAMED

Call = Callable[..., Any]  # the fixture `trigpoint`
TRAIN = "train {photos} --from {model} {option} --steps 2 --threads 1 --set train.recalibration_images=8"
DETECT = "detect {model} {photos} {option}"
USED = {  # old: a call with it
    "--self-taught": (TRAIN, "--self-taught"),
    "--drawing": (TRAIN, "--drawing"),
    "--for-edits": (TRAIN, "--for-edits"),
    "--looks": (DETECT, "--looks=2"),
    "--whole": (DETECT, "--whole"),
}
MADE = ("config.json", "landmarks.csv", "model.safetensors")


@pytest.mark.parametrize("old", RENAMED)
def test_an_old_option_does_what_the_new_one_does_and_names_it(
    trigpoint: Call, colour_run: Any, photos: Path, tmp_path: Path, old: str
) -> None:
    call, option = USED[old]
    new = " ".join(RENAMED[old])
    results = []
    for way, name in (("old", option), ("new", option.replace(old, new).replace("=", " "))):
        words = call.format(photos=photos, model=colour_run.folder, option=name).split()
        said = trigpoint(*words, "--out", tmp_path / way)
        assert said.code == 0, said.err
        told = [line for line in said.err.splitlines() if line.startswith("--")]
        assert told == ([f"{old} is called {new} now."] if way == "old" else [])
        results.append([file.read_bytes() for name in MADE if (file := tmp_path / way / name).is_file()])
    assert results[0] == results[1]
    assert results[0]


def test_underscores_are_understood_too(trigpoint: Call, colour_run: Any, tmp_path: Path) -> None:
    said = trigpoint(
        "train", "nowhere", "--from", colour_run.folder, "--for_edits", "--out", tmp_path / "run"
    )
    assert said.err.startswith("--for_edits is called --stage edit now.")
    assert "no file or folder nowhere" in said.err


@pytest.mark.parametrize("verb", ["train", "detect", "evaluate", "edit", "morph", "studio"])
def test_no_old_option_is_in_help(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    text = capfd.readouterr().out
    assert "--out" in text or "--port" in text or "--json" in text
    assert not [old for old in RENAMED if old in text]
