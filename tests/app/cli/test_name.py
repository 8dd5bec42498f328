"""`trigpoint name`: names that stay with the run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.runs import Run

Call = Callable[..., Any]  # the fixture `trigpoint`


@pytest.fixture
def run(colour_run: Run, tmp_path: Path) -> Run:
    """Four landmarks without names."""
    shutil.copytree(colour_run.folder, tmp_path / "run")
    return Run(tmp_path / "run")


def test_names_are_given_listed_and_taken_away(trigpoint: Call, run: Run) -> None:
    assert trigpoint("name", run.folder) == (0, "   0\n   1\n   2\n   3\n", "")
    said = trigpoint("name", run.folder, "3=snout", "1= tail base ")
    assert said == (0, "   0\n   1  tail base\n   2\n   3  snout\n", "")
    assert trigpoint("name", run.folder).out == said.out
    assert Predictor.load(run.folder).names == ("0", "tail base", "2", "snout")
    assert trigpoint("name", run.folder, "1=").out == "   0\n   1\n   2\n   3  snout\n"
    assert run.names() == ["0", "1", "2", "snout"]


def test_the_rest_of_the_run_stays_as_it_was(trigpoint: Call, run: Run) -> None:
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    meta = run.meta()
    assert "names" not in meta
    assert trigpoint("name", run.folder, "0=a=b").code == 0
    assert run.meta() == meta | {"names": {"0": "a=b"}}
    after = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    assert after | {run.config_file: before[run.config_file]} == before
    assert trigpoint("name", run.folder, "0=").code == 0
    assert run.meta() == meta | {"names": {}}


def test_listing_writes_nothing(trigpoint: Call, run: Run) -> None:
    before = run.config_file.stat()
    assert trigpoint("name", run.folder).code == 0
    after = run.config_file.stat()
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


def test_two_names_may_change_places(trigpoint: Call, run: Run) -> None:
    run.rename(["left", "right", "2", "3"])
    assert trigpoint("name", run.folder, "0=right", "1=left").code == 0
    assert run.names() == ["right", "left", "2", "3"]
    assert trigpoint("name", run.folder, "2=3", "3=2").code == 0
    assert run.names() == ["right", "left", "3", "2"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["snout"], "Give NUMBER=NAME, such as 3=snout; got 'snout'"),
        (["snout=3"], "got 'snout=3'"),
        (["-1=snout"], "-1=snout"),
        (["1.5=snout"], "got '1.5=snout'"),
        (["=snout"], "got '=snout'"),
        (["4=snout"], "are 0 to 3; got 4"),
        (["1=snout", "2=snout"], "Two of the landmarks would be called 'snout'; names must differ"),
        (["1=0"], "Two of the landmarks would be called '0'"),
        (["0=snout", "5=x"], "are 0 to 3; got 5"),
        ([5000 * "9" + "=x"], "are 0 to 3; got 99"),
        (["0=\x1b[31mred"], r"have 1 to 64 printable characters; got '\x1b[31mred'"),
        (["0=" + 65 * "a"], "have 1 to 64 printable characters"),
    ],
)
def test_bad_names_are_refused_and_change_nothing(
    trigpoint: Call, run: Run, words: list[str], expected: str
) -> None:
    before = run.config_file.read_bytes()
    said = trigpoint("name", run.folder, *words)
    assert said.code == 2
    assert expected in said.err
    assert "Traceback" not in said.err
    assert run.config_file.read_bytes() == before


def test_only_a_run_has_landmarks_to_name(trigpoint: Call, tmp_path: Path) -> None:
    assert trigpoint("name", tmp_path, "1=a").refused("is no run folder")
    (tmp_path / "config.json").write_text(json.dumps({"other": "program"}))
    assert trigpoint("name", tmp_path, "1=a").refused("is not the config.json of a run")
    assert json.loads((tmp_path / "config.json").read_text()) == {"other": "program"}
