"""Distillation: what the targets are, what is asked of the detector, and that it learns it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from trigpoint import api
from trigpoint.app.cli import main
from trigpoint.core.config.tree import Config, with_values
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.runs import Run
from trigpoint.learning.augment import augmented
from trigpoint.learning.checkpoint import load_tensors
from trigpoint.learning.data.prepared import Prepared
from trigpoint.learning.devices import generator_of
from trigpoint.learning.evaluation.consistency import warp_errors
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.model.views import look, mean_shape
from trigpoint.learning.tensors import to_tensor
from trigpoint.learning.training import loop, schedule
from trigpoint.learning.training.stages import Batch
from trigpoint.learning.training.stages.distill import LINEAR, STAGE, VIEWS, Targets, find_targets
from trigpoint.learning.warps.tps import RandomTPS


@pytest.fixture
def model(micro_colour: Config) -> Autoencoder:
    return Autoencoder(micro_colour.model, seed=1).eval()


@pytest.fixture
def images() -> Prepared:
    """More than a batch."""
    pixels = np.random.default_rng(0).integers(0, 256, (70, 32, 32, 3), dtype=np.uint8)
    return Prepared(pixels, np.arange(70), {})


def test_the_mean_shape_is_that_of_the_rows_asked_for(model: Autoencoder, images: Prepared) -> None:
    rows = np.arange(3, 69)
    with torch.no_grad():
        expected = model.detect(to_tensor(images.pixels[3:69])).landmarks.mean(0)
    np.testing.assert_allclose(mean_shape(model, images.batches(rows)), expected, atol=1e-5)


def test_targets_are_what_several_views_find(model: Autoencoder, images: Prepared) -> None:
    ticks: list[int] = []
    found = find_targets(model, images, ticks.append)
    shape = torch.tensor(mean_shape(model, images.batches(np.arange(70))))
    with torch.no_grad():
        expected, _ = look(model, to_tensor(images.pixels), shape, VIEWS)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert ticks == [64, 70]


def test_the_loss_is_how_far_landmarks_are_from_where_they_are_wanted(
    model: Autoencoder, micro_colour: Config, images: Prepared
) -> None:
    """Without warp or augmentation: the sum of distances, for such far ones, and only the detector learns."""
    still = ["warp.translation=0", "warp.rotation=0", "warp.scaling=1", "warp.grid_jitter=0"]
    dull = ["train.brightness=0", "train.contrast=0", "warp.landmark_share=0"]
    config = with_values(micro_colour, still + dull)
    batch = Batch(images.batch(np.array([5, 1, 60, 7])), np.array([5, 1, 60, 7]))
    found = np.random.default_rng(0).random((70, 4, 2)).astype(np.float32)
    targets = Targets(RandomTPS(config.warp, config.model), found)
    terms = STAGE.loss(model, batch, targets, config, 0, generator_of(0, 0))
    assert set(terms) == {"eqv", "conc"}
    wanted = torch.from_numpy(found[batch.rows])
    distances = (model.detect(batch.images).landmarks - wanted).norm(dim=-1)
    expected = 2 * LINEAR**2 * ((1 + (distances / LINEAR) ** 2).sqrt() - 1)
    torch.testing.assert_close(terms["eqv"], expected.sum(1).mean(), atol=1e-5, rtol=1e-3)
    sum(terms.values(), torch.zeros(())).backward()
    reached = {name.split(".")[0] for name, value in model.named_parameters() if value.grad is not None}
    assert reached == {"detector"}


def detector_alone(run: Run, steps: int = 8) -> Config:
    return with_values(STAGE.derive(run.config()), [f"train.steps={steps}"])


def test_only_the_detector_changes(colour_run: Run, photos: Path, tmp_path: Path) -> None:
    made = loop.train(
        detector_alone(colour_run), api.open_source(photos), tmp_path / "run", start=colour_run.model_file
    )
    before, after = load_tensors(colour_run.model_file)[0], load_tensors(made.model_file)[0]
    changed = {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"detector"}
    assert made.summary()["warp_error_before"] is not None
    assert made.shape() is not None
    assert made.shape() != colour_run.shape()


def test_a_detector_alone_goes_on_where_it_was_stopped(
    colour_run: Run, photos: Path, tmp_path: Path, tear: Callable[..., None]
) -> None:
    """With its targets, though their teacher is gone; or with the teacher, without targets."""
    config, source = detector_alone(colour_run), api.open_source(photos)
    start = shutil.copytree(colour_run.folder, tmp_path / "start") / colour_run.model_file.name
    calm = loop.train(config, source, tmp_path / "calm", start=start)
    for folder in ("kept", "lost"):
        tear(config, source, tmp_path / folder, start)
    (Run(tmp_path / "lost").cache_folder / "targets.npy").unlink()
    lost = loop.train(config, source, tmp_path / "lost", resume=True)
    shutil.rmtree(start.parent)
    kept = loop.train(config, source, tmp_path / "kept", resume=True)
    assert kept.model_file.read_bytes() == calm.model_file.read_bytes()
    assert lost.model_file.read_bytes() == calm.model_file.read_bytes()


def test_a_second_time_is_like_the_first(tiny_run: Run, photos: Path, tmp_path: Path) -> None:
    first = api.train(photos, tmp_path / "a", start=tiny_run.folder, stage="distill", steps=3)
    second = api.train(photos, tmp_path / "b", start=first.folder, stage="distill")
    assert second.config() == first.config()
    assert first.config().train.blur == 1
    whole = schedule.further(second.config()).train
    assert (whole.stage, whole.gamma, whole.shade, whole.blur) == ("discover", 0, 0, 0)
    assert second.model_file.read_bytes() != first.model_file.read_bytes()


def test_distilled_digits_hold_better_in_bad_light(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blurred and dim images that were kept out: landmarks nearer to those of the sharp ones."""
    out = tmp_path / "run"
    command = f"train digits --from digits-7 --stage distill --steps 300 --threads 1 --out {out}"
    assert main(command.split()) == 0
    assert "7 landmarks, found on" in capsys.readouterr().out
    with np.load(out / "samples.npz") as kept:
        images = to_tensor(kept["pixels"])
    light = with_values(Run(out).config(), ["train.gamma=0.8", "train.shade=0.8"]).train
    bad = augmented(images, light, generator_of(1, 0))
    off = {}
    for name in ("digits-7", str(out)):
        model = Predictor.load(name).backend.model
        with torch.no_grad():
            off[name] = float(
                (model.detect(bad).landmarks - model.detect(images).landmarks).norm(dim=-1).mean()
            )
    assert off[str(out)] < 0.9 * off["digits-7"]
    steady = {name: warp_errors(Predictor.load(name).backend.model, images).mean() for name in off}
    assert steady[str(out)] < 1.1 * steady["digits-7"]
    page = (out / "report.html").read_text()
    assert "misses a known warp" in page
    assert "reconstruction error (RMS)" not in page
    assert "the maps of the model that this training went out from" in page
    assert "came to a point" not in page
