"""`trigpoint data`: the list of sources, and what one holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from trigpoint.app.cli import main
from trigpoint.core.sources import DATASETS


def test_the_list_names_every_dataset(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "list"]) == 0
    printed = capsys.readouterr().out
    for name in DATASETS:
        assert f"\n{name}" in printed
    assert "celeba:FOLDER" in printed
    assert "human36m-walking" in printed
    assert "csv:FILE" in printed


def test_annotations_and_attributes_are_counted_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet, found = tmp_path / "sheet.png", tmp_path / "found.json"
    words = ["data", "inspect", "figures:30", "--split", "test", "--sheet", str(sheet), "--json", str(found)]
    assert main(words) == 0
    counted = json.loads(found.read_text())
    assert counted["split"] == "test"
    assert counted["complete_annotations"] == 30
    assert sum(counted["attributes"]["view"].values()) == 30
    printed = capsys.readouterr().out
    assert "14 annotated landmarks, complete on 30 images" in printed
    assert "attribute view:" in printed
    with Image.open(sheet) as picture:
        assert picture.width > 1000


def test_incomplete_annotations_are_counted_by_landmark(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = sorted(path.name for path in photos.iterdir())
    lines = ["image,landmark,x,y,split"]
    lines += [f"{name},nose,5,6,train" for name in names] + [f"{names[0]},tail,1,2,train"]
    (photos / "points.csv").write_text("\n".join(lines) + "\n")
    assert main(["data", "inspect", f"csv:{photos / 'points.csv'}"]) == 0
    printed = capsys.readouterr().out
    assert "complete on 1 image" in printed
    assert "nose 12, tail 1" in printed
