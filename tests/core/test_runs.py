"""A run folder, and the rules about touching one that exists."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trigpoint.core.claim import claim, discard, set_aside
from trigpoint.core.config.tree import Config, with_steps
from trigpoint.core.errors import TrigpointError
from trigpoint.core.runs import Run
from trigpoint.learning.training import loop


def refused(claimed: AbstractContextManager[Run]) -> None:
    """Enter what should not be entered."""
    with claimed:
        pass


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
    assert meta["versions"].keys() >= {"trigpoint", "torch", "python"}


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
    with claim(folder, resume=False, overwrite=False) as run:
        assert run.folder == folder
    assert folder.exists() == exists  # nothing was written


def test_an_unfinished_run_is_not_touched(started: Run) -> None:
    before = contents(started.folder)
    with pytest.raises(TrigpointError, match="already holds an unfinished run: go on with --resume"):
        refused(claim(started.folder, resume=False, overwrite=False))
    assert contents(started.folder) == before


def test_a_finished_run_is_not_touched(finished: Run) -> None:
    before = contents(finished.folder)
    with pytest.raises(TrigpointError, match="already holds a finished run"):
        refused(claim(finished.folder, resume=False, overwrite=False))
    assert contents(finished.folder) == before


def test_overwrite_sets_the_old_run_aside(finished: Run) -> None:
    """It is gone from its place, and whole until the new run has its images."""
    before = contents(finished.folder)
    with claim(finished.folder, resume=False, overwrite=True) as run:
        aside = set_aside(run)
    assert aside is not None
    assert contents(aside) == before
    assert set_aside(run) is None
    assert not run.finished
    assert not run.config_file.exists()
    assert not run.log_file.exists()


def test_resume_keeps_everything(started: Run) -> None:
    before = contents(started.folder)
    with claim(started.folder, resume=True, overwrite=False) as run:
        assert run == started
    assert contents(started.folder) == before


def test_there_must_be_a_run_to_resume(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(TrigpointError, match=r"no run folder: it has no config\.json"):
            refused(claim(folder, resume=True, overwrite=False))
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_of_something_else_is_never_touched(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(TrigpointError, match="not empty and holds no run"):
        refused(claim(tmp_path, resume=False, overwrite=overwrite))
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("text", ['{"compilerOptions": {}}', "[1, 2]", "3", "no JSON"])
def test_a_config_of_something_else_does_not_make_a_run(tmp_path: Path, text: str) -> None:
    """Many programs keep a config.json: --overwrite must not remove their folder."""
    (tmp_path / "config.json").write_text(text)
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(TrigpointError):
        refused(claim(tmp_path, resume=False, overwrite=True))
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
    assert (tmp_path / "config.json").read_text() == text


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_is_no_folder(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "file").write_text("here")
    with pytest.raises(TrigpointError, match="is a file; --out names a folder"):
        refused(claim(tmp_path / "file", resume=False, overwrite=overwrite))
    assert (tmp_path / "file").read_text() == "here"


@pytest.mark.parametrize("text", ["", "{", "3", "[1, 2]", '"run"'])
def test_a_damaged_config_is_said_to_be_damaged(started: Run, text: str) -> None:
    started.config_file.write_text(text)
    with pytest.raises(TrigpointError, match=r"config\.json"):
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
    with claim(started.folder, resume=True, overwrite=False):
        with pytest.raises(TrigpointError, match="Another training is writing"):
            refused(claim(started.folder, resume=resume, overwrite=overwrite))
        assert contents(started.folder) == before
    with claim(started.folder, resume=True, overwrite=False):
        pass  # its end frees the folder


def test_a_second_resume_waits_for_no_images(
    micro: Config, tmp_path: Path, make_source: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one is preparing them: the second would write into the same files."""
    source = make_source([np.full((28, 28, 1), 9 * i, np.uint8) for i in range(12)])
    config = with_steps(micro, 2)
    with monkeypatch.context() as patch:
        patch.setattr(source, "image", killed)
        with pytest.raises(KeyboardInterrupt):
            loop.train(config, source, tmp_path / "run")
    refusals, taken = [], source.image

    def image(index: int) -> np.ndarray:
        with pytest.raises(TrigpointError, match="Another training is writing") as caught:
            loop.train(config, make_source(source.images), tmp_path / "run", resume=True)
        refusals.append(caught)
        return taken(index)

    monkeypatch.setattr(source, "image", image)
    assert loop.train(config, source, tmp_path / "run", resume=True).finished
    assert len(refusals) == 12


def killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_what_a_kill_left_half_written_is_no_other_programs(tmp_path: Path) -> None:
    """config.json is the first file of a run."""
    (tmp_path / "config.json.part").write_text("{")
    with claim(tmp_path, resume=False, overwrite=False):
        assert not list(tmp_path.iterdir())
    (tmp_path / "config.json.part").write_text("{")
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(TrigpointError, match="not empty and holds no run"):
        refused(claim(tmp_path, resume=False, overwrite=True))
    assert len(list(tmp_path.iterdir())) == 2


def test_a_replacement_killed_at_any_moment_loses_nothing(
    finished: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old run comes back, unless the new one has its images."""
    old = contents(finished.folder)

    def replace() -> None:
        with claim(finished.folder, resume=False, overwrite=True) as run:
            aside = set_aside(run)
            assert aside is not None
            run.start(Config(), ("new",))
            run.cache_folder.mkdir()
            (run.cache_folder / "images.bin").write_bytes(b"new")
            discard(run, aside)

    for moment in itertools.count(1):
        calls = itertools.count(1)

        def kill(taken: Callable[..., Any], *args: Any, **words: Any) -> Any:
            if next(calls) == moment:  # noqa: B023
                raise KeyboardInterrupt
            return taken(*args, **words)

        with monkeypatch.context() as patch:
            for name in ("rename", "unlink", "mkdir", "rmdir"):
                patch.setattr(Path, name, partialmethod(partial(kill, getattr(Path, name))))
            try:
                replace()
            except KeyboardInterrupt:
                pass
            else:
                break
        with pytest.raises(TrigpointError, match="already holds"):
            refused(claim(finished.folder, resume=False, overwrite=False))
        with claim(finished.folder, resume=False, overwrite=True):
            assert contents(finished.folder) == old
    assert moment > 10
    assert contents(finished.folder) == old


@pytest.mark.parametrize("shape", [[[0.5, 0.5]], [[0.5]] * 4, "round", [[0.1, "x"]] * 4])
def test_a_damaged_mean_shape_is_refused(tmp_path: Path, micro: Config, shape: object) -> None:
    run = Run(tmp_path / "run")
    run.start(micro, ("digits",))
    assert run.shape() is None
    run.config_file.write_text(json.dumps(run.meta() | {"shape": shape}))
    with pytest.raises(TrigpointError, match="shape"):
        run.shape()
