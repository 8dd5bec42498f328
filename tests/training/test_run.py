"""A run folder, and the rules about touching one that exists."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cairns.config import Config
from cairns.errors import CairnsError
from cairns.training.run import Run, claim, lock, set_aside


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def started(tmp_path: Path) -> Run:
    """An unfinished run."""
    run = Run(tmp_path / "run")
    run.start(Config(), ("digits",))
    run.log_file.write_text('{"step": 0}\n')
    return run


@pytest.fixture
def finished(started: Run) -> Run:
    started.model_file.write_bytes(b"weights")
    started.summary_file.write_text("{}")
    return started


def test_a_started_run_knows_its_config_source_and_versions(started: Run) -> None:
    assert started.config() == Config()
    meta = started.meta()
    assert meta["source"] == ["digits"]
    assert meta["versions"].keys() >= {"cairns", "torch", "python"}


def test_finished_needs_the_model_and_its_summary(started: Run) -> None:
    assert not started.finished
    started.model_file.write_bytes(b"weights")
    assert not started.finished
    started.summary_file.write_text("{}")
    assert started.finished


@pytest.mark.parametrize("exists", [False, True])
def test_a_new_or_empty_folder_may_be_claimed(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "run"
    if exists:
        folder.mkdir()
    assert claim(folder, resume=False, overwrite=False).folder == folder


def test_an_unfinished_run_is_not_touched(started: Run) -> None:
    before = contents(started.folder)
    with pytest.raises(CairnsError, match="already holds an unfinished run: go on with --resume"):
        claim(started.folder, resume=False, overwrite=False)
    assert contents(started.folder) == before


def test_a_finished_run_is_not_touched(finished: Run) -> None:
    before = contents(finished.folder)
    with pytest.raises(CairnsError, match="already holds a finished run"):
        claim(finished.folder, resume=False, overwrite=False)
    assert contents(finished.folder) == before


def test_overwrite_sets_the_old_run_aside(finished: Run) -> None:
    """It is gone from its place, and whole until the new run has its images."""
    before = contents(finished.folder)
    run = claim(finished.folder, resume=False, overwrite=True)
    aside = set_aside(run)
    assert aside is not None
    assert contents(aside) == before
    assert set_aside(run) is None
    assert not run.finished
    assert not run.config_file.exists()
    assert not run.log_file.exists()


def test_resume_keeps_everything(started: Run) -> None:
    before = contents(started.folder)
    assert claim(started.folder, resume=True, overwrite=False) == started
    assert contents(started.folder) == before


def test_there_must_be_a_run_to_resume(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(CairnsError, match=r"no run folder: it has no config\.json"):
            claim(folder, resume=True, overwrite=False)
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_of_something_else_is_never_touched(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(CairnsError, match="not empty and holds no run"):
        claim(tmp_path, resume=False, overwrite=overwrite)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("text", ['{"compilerOptions": {}}', "[1, 2]", "3", "no JSON"])
def test_a_config_of_something_else_does_not_make_a_run(tmp_path: Path, text: str) -> None:
    """Many programs keep a config.json: --overwrite must not remove their folder."""
    (tmp_path / "config.json").write_text(text)
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(CairnsError):
        claim(tmp_path, resume=False, overwrite=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
    assert (tmp_path / "config.json").read_text() == text


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_is_no_folder(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "file").write_text("here")
    with pytest.raises(CairnsError, match="is a file; --out names a folder"):
        claim(tmp_path / "file", resume=False, overwrite=overwrite)
    assert (tmp_path / "file").read_text() == "here"


@pytest.mark.parametrize("text", ["", "{", "3", "[1, 2]", '"run"'])
def test_a_damaged_config_is_said_to_be_damaged(started: Run, text: str) -> None:
    started.config_file.write_text(text)
    with pytest.raises(CairnsError, match=r"config\.json"):
        started.meta()


def test_the_log_is_cut_back_to_a_step(started: Run) -> None:
    lines = [{"step": step, "recon": 1.5 * step} for step in (0, 10, 20, 30)]
    started.log_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    started.truncate_log(20)
    assert started.log() == lines[:3]


def test_a_line_cut_short_by_a_kill_is_no_line(started: Run) -> None:
    started.log_file.write_text('{"step": 0}\n{"step": 10}\n{"step": 20, "rec')
    assert [line["step"] for line in started.log()] == [0, 10]
    started.truncate_log(20)
    assert [line["step"] for line in started.log()] == [0, 10]


def test_without_a_log_or_a_summary_there_is_none(tmp_path: Path) -> None:
    assert Run(tmp_path).log() == []
    assert Run(tmp_path).summary() == {}


@pytest.mark.parametrize(("resume", "overwrite"), [(True, False), (False, True), (False, False)])
def test_a_folder_that_another_training_writes_into_is_left_alone(
    started: Run, resume: bool, overwrite: bool
) -> None:
    before = contents(started.folder)
    with started.log_file.open("a") as log:
        lock(log, started.folder)
        with pytest.raises(CairnsError, match="Another training is writing"):
            claim(started.folder, resume=resume, overwrite=overwrite)
    assert contents(started.folder) == before
    assert claim(started.folder, resume=True, overwrite=False) == started  # its end frees the folder


@pytest.mark.parametrize("shape", [[[0.5, 0.5]], [[0.5]] * 4, "round", [[0.1, "x"]] * 4])
def test_a_damaged_mean_shape_is_refused(tmp_path: Path, micro: Config, shape: object) -> None:
    run = Run(tmp_path / "run")
    run.start(micro, ("digits",))
    assert run.shape() is None
    run.config_file.write_text(json.dumps(run.meta() | {"shape": shape}))
    with pytest.raises(CairnsError, match="shape"):
        run.shape()
