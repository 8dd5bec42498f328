"""What every training does around its steps, for that of a model and that of a generator: it logs, saves,
stops when told to or when it must, and goes on as if nothing had been."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from trigpoint.core.config.generator import GeneratorConfig
from trigpoint.core.config.tree import Config, with_steps
from trigpoint.core.generator_run import GeneratorRun
from trigpoint.core.runs import Run
from trigpoint.core.sources.digits import Digits
from trigpoint.learning.checkpoint import load_tensors
from trigpoint.learning.data.order import Order
from trigpoint.learning.generation.train import train as train_generator
from trigpoint.learning.training import loop, session
from trigpoint.learning.training.session import Interrupted, Session, TrainingFailed

STEPS = 11
Train = Callable[..., Run]


@pytest.fixture(scope="module", params=["model", "generator"])
def train(request: pytest.FixtureRequest, micro: Config, make_source: type) -> Train:
    """Train eleven steps on 24 threes. What a resumed run is told is not what it does: its own config is."""
    threes = Digits("3")
    few = make_source([threes.image(i) for i in range(24)])
    if request.param == "model":
        config = with_steps(replace(micro, train=replace(micro.train, recalibration_images=16)), STEPS)
        return lambda out, resume=False: loop.train(Config() if resume else config, few, out, resume=resume)
    run: GeneratorRun = request.getfixturevalue("generator_run")
    settings = replace(run.settings(), steps=STEPS, recalibration_images=16)

    def train_generator_of_digits(out: Path, resume: bool = False) -> Run:
        told = (GeneratorConfig(), "nothing") if resume else (settings, "digits-7")
        return train_generator(*told, few, out, resume=resume)

    return train_generator_of_digits


@pytest.fixture(autouse=True)
def _four_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "LOG_TIMES", 3)


@pytest.fixture(scope="module")
def calm(train: Train, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, list]:
    """A run that nothing happened to, and the terms of its steps."""
    recorded, seen = Session.record, []

    def noted(self: Session, step: int, terms: Mapping[str, Tensor]) -> None:
        seen.append({name: term.item() for name, term in terms.items()})
        recorded(self, step, terms)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "LOG_TIMES", 3)
        patch.setattr(Session, "record", noted)
        return train(tmp_path_factory.mktemp("calm") / "run"), seen


def lines_of(run: Run) -> list[dict[str, float]]:
    """The log without what a clock or a machine decides."""
    clock = ("images_per_second", "memory_mb")
    return [{name: value for name, value in line.items() if name not in clock} for line in run.log()]


def spoil(monkeypatch: pytest.MonkeyPatch, at: int, change: Callable[[Session, dict], None]) -> None:
    """Change the losses or the gradients of a step before they are looked at."""
    original = Session.refuse_not_finite

    def spoilt(self: Session, step: int, terms: Mapping[str, Tensor], hint: str) -> None:
        terms = dict(terms)
        if step == at:
            change(self, terms)
        original(self, step, terms, hint)

    monkeypatch.setattr(Session, "refuse_not_finite", spoilt)


def test_log_lines_are_means_over_their_steps(calm: tuple[Run, list]) -> None:
    run, seen = calm
    lines = [line for line in run.log() if line["step"]]
    assert [line["step"] for line in lines] == [3, 6, 9, 11]
    for line, part in zip(lines, (seen[:3], seen[3:6], seen[6:9], seen[9:]), strict=True):
        for name in part[0]:
            assert line[name] == pytest.approx(np.mean([one[name] for one in part]), rel=1e-5, abs=1e-9)
        assert line["images_per_second"] > 0
        assert line["memory_mb"] > 10


def test_a_finished_run_is_not_trained_again(
    train: Train, calm: tuple[Run, list], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = calm[0].folder
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    monkeypatch.setattr(Order, "batch", lambda *_: pytest.fail("trained a finished run"))
    assert train(folder, resume=True).finished
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_an_interrupt_saves_and_says_where(
    train: Train, calm: tuple[Run, list], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also between two lines of the log."""
    out, taken = tmp_path / "run", Order.batch
    for number, step in ((signal.SIGINT, 5), (signal.SIGTERM, 10)):

        def interrupting(order: Order, now: int, number: int = number, step: int = step) -> NDArray[np.int64]:
            if now == step - 1:
                os.kill(os.getpid(), number)
            return taken(order, now)

        with monkeypatch.context() as patch:
            patch.setattr(Order, "batch", interrupting)
            with pytest.raises(Interrupted) as caught:
                train(out, resume=step > 5)
        assert str(caught.value) == f"Stopped at step {step} of {STEPS}; everything is saved in {out}."
        assert load_tensors(Run(out).checkpoint_file)[1]["step"] == str(step)
    run = train(out, resume=True)
    assert run.model_file.read_bytes() == calm[0].model_file.read_bytes()
    assert lines_of(run) == lines_of(calm[0])


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_checkpoint(
    train: Train, calm: tuple[Run, list], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, name = tmp_path / "run", next(iter(calm[1][0]))
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", -1.0)
    with monkeypatch.context() as patch:
        spoil(patch, 7, lambda _, terms: terms.update({name: terms[name] * math.nan}))
        with pytest.raises(TrainingFailed) as caught:
            train(out)
    words = (
        rf"Training stopped at step 7: the loss {name} is not finite. The last good checkpoint is kept in "
    )
    assert str(caught.value).startswith(f"{words}{out}. A lower learning rate (--set ")
    tensors, metadata = load_tensors(Run(out).checkpoint_file)
    assert metadata["step"] == "7"
    assert all(torch.isfinite(value).all() for value in tensors.values())
    assert not Run(out).finished
    assert train(out, resume=True).model_file.read_bytes() == calm[0].model_file.read_bytes()


@pytest.mark.parametrize("place", [0, -1])
def test_a_gradient_that_is_not_finite_stops_too(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """Of any part: of both networks, where there are two."""

    def change(self: Session, _: dict) -> None:
        grad = list(self.state.model.parameters())[place].grad
        assert grad is not None
        grad.view(-1)[0] = math.inf

    spoil(monkeypatch, 2, change)
    words = r"step 2: the gradient \(norm inf\) is not finite\. No checkpoint existed yet"
    with pytest.raises(TrainingFailed, match=words):
        train(tmp_path / "run")
    assert not Run(tmp_path / "run").checkpoint_file.exists()
