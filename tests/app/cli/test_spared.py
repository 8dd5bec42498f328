"""What a verb reads it does not write over, whatever it is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trigpoint.core.runs import Run

Call = Callable[..., Any]  # the fixture `trigpoint`


@pytest.fixture
def inputs(tmp_path: Path, make_photos: Callable[..., Path]) -> Path:
    """Photos, some for testing, and a table of their landmarks."""
    folder = make_photos(tmp_path / "photos", 12)
    lines = [f"{file.name},nose,{5 + row},9,{('train', 'test')[row % 3 == 0]}" for row, file in
             enumerate(sorted(folder.iterdir()))]  # fmt: skip
    (folder / "labels.csv").write_text("\n".join(["image,landmark,x,y,split", *lines]))
    return folder


@pytest.mark.parametrize(
    "words",
    [
        "data inspect {folder} --json {photo}",
        "data inspect {folder} --sheet {photo}",
        "data inspect csv:{table} --json {table}",
        "evaluate {model} csv:{table} --json {table}",
        "evaluate {model} csv:{table} --picture {photo}",
        "fit {model} csv:{table} --out new.json --json {table}",
        "fit {model} csv:{table} --out {table} --overwrite",
        "edit {model} {photo} --move 0:0.1,0 --as warped --out {photo} --overwrite",
        "morph {model} {photo} {photo} --out {photo} --overwrite",
    ],
)
def test_an_input_is_not_written_over(trigpoint: Call, colour_run: Run, inputs: Path, words: str) -> None:
    names = {"model": colour_run.folder, "folder": inputs}
    names |= {"photo": inputs / "03.png", "table": inputs / "labels.csv"}
    before = {file: file.read_bytes() for file in inputs.iterdir()}
    said = trigpoint(*[word.format(**names) for word in words.split()])
    assert said.refused("is read, and is not written over; choose another name.")
    assert {file: file.read_bytes() for file in inputs.iterdir()} == before
