"""Training the detector alone: what it is taught, what it is asked, and that it learns it."""

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
from trigpoint.core.errors import TrigpointError
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.runs import Run
from trigpoint.learning.augment import relit
from trigpoint.learning.checkpoint import load_tensors
from trigpoint.learning.data.prepared import Prepared, to_tensor
from trigpoint.learning.evaluation.consistency import warp_errors
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.model.views import look
from trigpoint.learning.training import loop
from trigpoint.learning.training.stages.distill import LINEAR, LOOKS, mean_shape, take_notes
from trigpoint.learning.training.step import generator_of, step_losses
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
    np.testing.assert_allclose(mean_shape(model, images, rows), expected, atol=1e-5)


def test_lessons_are_what_several_looks_find(model: Autoencoder, images: Prepared, tmp_path: Path) -> None:
    file = tmp_path / "taught.npy"
    take_notes(model.train(), images, file)
    shape = torch.tensor(mean_shape(model.eval(), images, np.arange(70)))
    with torch.no_grad():
        expected, _ = look(model, to_tensor(images.pixels), shape, LOOKS)
    np.testing.assert_allclose(np.load(file), expected, atol=1e-5)
    assert [path.name for path in tmp_path.iterdir()] == ["taught.npy"]


def test_the_loss_is_how_far_landmarks_are_from_where_they_are_wanted(
    model: Autoencoder, micro_colour: Config, images: Prepared
) -> None:
    """Without any warp or light: the sum of distances, for such far ones, and only the detector learns."""
    still = ["warp.translation=0", "warp.rotation=0", "warp.scaling=1", "warp.grid_jitter=0"]
    dull = ["train.brightness=0", "train.contrast=0", "warp.landmark_share=0", "train.part=detector"]
    config = with_values(micro_colour, still + dull)
    batch = images.batch(np.arange(4))
    wanted = torch.rand(4, 4, 2, generator=torch.Generator().manual_seed(0))
    terms = step_losses(model, batch, RandomTPS(config.warp, config.model), config, 0, None, wanted)
    assert set(terms) == {"eqv", "conc"}
    distances = (model.detect(batch).landmarks - wanted).norm(dim=-1)
    expected = 2 * LINEAR**2 * ((1 + (distances / LINEAR) ** 2).sqrt() - 1)
    torch.testing.assert_close(terms["eqv"], expected.sum(1).mean(), atol=1e-5, rtol=1e-3)
    sum(terms.values(), torch.zeros(())).backward()
    reached = {name.split(".")[0] for name, value in model.named_parameters() if value.grad is not None}
    assert reached == {"detector"}


def detector_alone(run: Run, steps: int = 8) -> Config:
    return with_values(api.further(run.config()), [*api.SELF_TAUGHT, f"train.steps={steps}"])


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
    """With its notes, though the model that it went out from is gone; or with that model, without notes."""
    config, source = detector_alone(colour_run), api.open_source(photos)
    start = shutil.copytree(colour_run.folder, tmp_path / "start") / colour_run.model_file.name
    calm = loop.train(config, source, tmp_path / "calm", start=start)
    for folder in ("noted", "unnoted"):
        tear(config, source, tmp_path / folder, start)
    (Run(tmp_path / "unnoted").cache_folder / "taught.npy").unlink()
    unnoted = loop.train(config, source, tmp_path / "unnoted", resume=True)
    shutil.rmtree(start.parent)
    noted = loop.train(config, source, tmp_path / "noted", resume=True)
    assert noted.model_file.read_bytes() == calm.model_file.read_bytes()
    assert unnoted.model_file.read_bytes() == calm.model_file.read_bytes()


def test_a_detector_alone_needs_a_model(micro: Config, photos: Path, tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match=r"detector alone needs a trained model.*--from MODEL"):
        loop.train(with_values(micro, ["train.part=detector"]), api.open_source(photos), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_two_kinds_of_further_training_are_two_trainings(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match="one after the other"):
        api.train(photos, tmp_path / "run", start="digits-7", for_edits=True, self_taught=True)


def test_a_second_time_is_like_the_first(tiny_run: Run, photos: Path, tmp_path: Path) -> None:
    first = api.train(photos, tmp_path / "a", start=tiny_run.folder, self_taught=True, steps=3, threads=1)
    second = api.train(photos, tmp_path / "b", start=first.folder, self_taught=True, threads=1)
    assert second.config() == first.config()
    assert first.config().train.blur == 1
    whole = api.further(second.config()).train
    assert (whole.part, whole.gamma, whole.shade, whole.blur) == ("all", 0, 0, 0)
    assert second.model_file.read_bytes() != first.model_file.read_bytes()


def test_digits_that_teach_themselves_hold_better_in_bad_light(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blurred and dim images that were kept out: landmarks nearer to those of the sharp ones."""
    out = tmp_path / "run"
    command = f"train digits --from digits-7 --self-taught --steps 300 --threads 1 --out {out}"
    assert main(command.split()) == 0
    assert "7 landmarks, found on" in capsys.readouterr().out
    with np.load(out / "samples.npz") as kept:
        images = to_tensor(kept["pixels"])
    light = with_values(Run(out).config(), ["train.gamma=0.8", "train.shade=0.8"]).train
    bad = relit(images, light, generator_of(1, 0))
    off = {}
    for name in ("digits-7", str(out)):
        model = Predictor.load(name).model
        with torch.no_grad():
            off[name] = float(
                (model.detect(bad).landmarks - model.detect(images).landmarks).norm(dim=-1).mean()
            )
    assert off[str(out)] < 0.9 * off["digits-7"]
    steady = {name: warp_errors(Predictor.load(name).model, images).mean() for name in off}
    assert steady[str(out)] < 1.1 * steady["digits-7"]
    page = (out / "report.html").read_text()
    assert "misses a known warp" in page
    assert "reconstruction error (RMS)" not in page
    assert "the maps of the model that this training went out from" in page
    assert "came to a point" not in page
