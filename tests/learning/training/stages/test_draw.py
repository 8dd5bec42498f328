"""Descriptors and decoder alone: that landmarks stay, and that they learn to draw."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from trigpoint import api
from trigpoint.app.cli import main
from trigpoint.app.report.text import to_draw
from trigpoint.core.config.tree import Config, with_values
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.runs import Run
from trigpoint.learning import losses
from trigpoint.learning.checkpoint import load_tensors, save_tensors
from trigpoint.learning.devices import generator_of
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.tensors import to_tensor
from trigpoint.learning.training import loop, schedule
from trigpoint.learning.training.stages import Batch
from trigpoint.learning.training.stages.draw import STAGE


def drawing(run: Run, steps: int = 8) -> Config:
    return with_values(STAGE.derive(run.config()), [f"train.steps={steps}"])


def off(model: Autoencoder, images: torch.Tensor) -> float:
    """Root mean square error of the reconstructions, of the colour range."""
    with torch.no_grad():
        detection, descriptors = model.encode(images)
        return float((model.decode(detection.landmarks, descriptors) - images).square().mean().sqrt())


@pytest.mark.parametrize("ssim", [0.0, 3.0])
def test_all_but_the_detector_get_gradients(micro_colour: Config, ssim: float) -> None:
    model = Autoencoder(micro_colour.model, seed=1).eval()
    model.requires_grad_(False)
    STAGE.trains(model).requires_grad_(True)
    images = torch.rand(4, 3, 32, 32)
    dull = ["train.brightness=0", "train.contrast=0", f"losses.ssim={ssim}"]
    config = with_values(micro_colour, dull)
    terms = STAGE.loss(model, Batch(images, np.arange(4)), None, config, 0, generator_of(0, 0))
    assert set(terms) == ({"recon", "ssim"} if ssim else {"recon"})
    with torch.no_grad():
        detection, descriptors = model.encode(images)
        decoded = model.decode(detection.landmarks, descriptors)
    assert terms["recon"].item() == pytest.approx(
        losses.reconstruction(decoded, images, 0.05).item(), rel=1e-5
    )
    sum(terms.values(), torch.zeros(())).backward()
    reached = {name.split(".")[0] for name, value in model.named_parameters() if value.grad is not None}
    assert reached == {"descriptors", "decoder"}
    for name in ("descriptors.net", "descriptors.project", "decoder.expand", "decoder.net"):
        gradients = [value.grad for key, value in model.named_parameters() if key.startswith(name)]
        assert any(value is not None and value.abs().max() > 0 for value in gradients), name


def test_landmarks_stay_bit_for_bit(colour_run: Run, photos: Path, tmp_path: Path) -> None:
    made = loop.train(
        drawing(colour_run), api.open_source(photos), tmp_path / "run", start=colour_run.model_file
    )
    before, after = load_tensors(colour_run.model_file)[0], load_tensors(made.model_file)[0]
    changed = {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"descriptors", "decoder"}
    assert made.shape() == colour_run.shape()
    assert made.summary()["warp_error_before"] is None


def test_a_drawing_goes_on_where_it_was_stopped(
    colour_run: Run, photos: Path, tmp_path: Path, tear: Callable[..., None]
) -> None:
    config, source = drawing(colour_run), api.open_source(photos)
    calm = loop.train(config, source, tmp_path / "calm", start=colour_run.model_file)
    tear(config, source, tmp_path / "torn", colour_run.model_file)
    torn = loop.train(config, source, tmp_path / "torn", resume=True)
    assert torn.model_file.read_bytes() == calm.model_file.read_bytes()


def test_descriptors_learn_what_they_did_not_tell(
    colour_run: Run, make_photos: Callable[..., Path], tmp_path: Path
) -> None:
    """Every second photo is a negative, which landmarks do not show: a decoder alone could not know."""
    start = Run(shutil.copytree(colour_run.folder, tmp_path / "start"))
    tensors = load_tensors(start.model_file)[0]
    tensors["descriptors.project"] = torch.zeros_like(tensors["descriptors.project"])
    save_tensors(start.model_file, tensors)
    photos = make_photos(tmp_path / "photos")
    for file in sorted(photos.glob("*.png")):
        ImageOps.invert(Image.open(file)).save(file)
    made = api.train(photos, tmp_path / "run", start=start.folder, stage="draw", steps=120)
    with np.load(made.samples_file) as kept:
        images = to_tensor(kept["pixels"])
    model = Predictor.load(made.folder).backend.model
    kind = images.mean((1, 2, 3)) > 0.5
    other = torch.tensor([int((kind != mine).nonzero()[0]) for mine in kind])
    with torch.no_grad():
        detection, descriptors = model.encode(images)
        assert descriptors is not None
        dressed = model.decode(detection.landmarks, descriptors[other])
    assert off(model, images) < 0.5 * float((dressed - images).square().mean().sqrt())
    assert off(model, images) < 0.5 * off(Predictor.load(start.folder).backend.model, images)


def test_four_landmarks_that_seven_taught_are_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taught, out = tmp_path / "taught", tmp_path / "drawn"
    command = (
        f"train digits --from digits-7 --stage distill --landmarks 4 --steps 60 --threads 1 --out {taught}"
    )
    assert main(command.split()) == 0
    said = capsys.readouterr().out
    assert f"To draw (edit, morph, studio): trigpoint train digits --from {taught} --stage draw" in said
    command = f"train digits --from {taught} --stage draw --steps 150 --threads 1 --out {out}"
    assert main(command.split()) == 0
    assert "To draw" not in capsys.readouterr().out
    with np.load(out / "samples.npz") as kept:
        images = to_tensor(kept["pixels"])
    before, after = (off(Predictor.load(folder).backend.model, images) for folder in (taught, out))
    assert after < 0.8 * before
    page = (out / "report.html").read_text()
    assert "Only descriptors and decoder were trained" in page
    assert "came to a point" not in page


def test_of_many_files_the_command_to_draw_names_none(tiny_run: Run, tmp_path: Path) -> None:
    run = Run(shutil.copytree(tiny_run.folder, tmp_path / "run"))
    assert to_draw(run) == ""
    meta = run.meta()
    meta["config"]["train"]["stage"] = "distill"
    for words, said in ((["a.jpg", "b.jpg"], "a.jpg b.jpg"), (["a.jpg"] * 4, "IMAGE...")):
        run.config_file.write_text(json.dumps(meta | {"source": words}))
        assert f"trigpoint train {said} --from {run.folder} --stage draw" in to_draw(run)


def test_after_a_drawing_a_model_is_trained_further_as_a_whole(colour_run: Run) -> None:
    assert schedule.further(drawing(colour_run)).train.stage == "discover"
