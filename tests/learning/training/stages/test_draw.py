"""Training descriptors and decoder alone: that landmarks stay, and that they learn to draw."""

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
from trigpoint.core.config.tree import Config, LossConfig, with_values
from trigpoint.core.errors import TrigpointError
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.runs import Run
from trigpoint.learning import losses
from trigpoint.learning.checkpoint import load_tensors, save_tensors
from trigpoint.learning.data.prepared import to_tensor
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.training import loop
from trigpoint.learning.training.stages.draw import drawing_losses


def drawing(run: Run, steps: int = 8) -> Config:
    return with_values(api.further(run.config()), [*api.DRAWING, f"train.steps={steps}"])


def off(model: Autoencoder, images: torch.Tensor) -> float:
    """Root mean square error of the reconstructions, of the colour range."""
    with torch.no_grad():
        detection, descriptors = model.encode(images)
        return float((model.decode(detection.landmarks, descriptors) - images).square().mean().sqrt())


@pytest.mark.parametrize("ssim", [0.0, 3.0])
def test_all_but_the_detector_get_gradients(micro_colour: Config, ssim: float) -> None:
    model = Autoencoder(micro_colour.model, seed=1).eval()
    model.requires_grad_(False)
    part = loop.part_of(model, with_values(micro_colour, ["train.part=drawing"]).train)
    part.requires_grad_(True)
    images = torch.rand(4, 3, 32, 32)
    terms = drawing_losses(model, images, LossConfig(ssim=ssim))
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
    made = api.train(photos, tmp_path / "run", start=start.folder, drawing=True, steps=120, threads=1)
    with np.load(made.samples_file) as kept:
        images = to_tensor(kept["pixels"])
    model = Predictor.load(made.folder).model
    kind = images.mean((1, 2, 3)) > 0.5
    other = torch.tensor([int((kind != mine).nonzero()[0]) for mine in kind])
    with torch.no_grad():
        detection, descriptors = model.encode(images)
        assert descriptors is not None
        dressed = model.decode(detection.landmarks, descriptors[other])
    assert off(model, images) < 0.5 * float((dressed - images).square().mean().sqrt())
    assert off(model, images) < 0.5 * off(Predictor.load(start.folder).model, images)


def test_four_landmarks_that_seven_taught_are_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taught, out = tmp_path / "taught", tmp_path / "drawn"
    command = (
        f"train digits --from digits-7 --self-taught --landmarks 4 --steps 60 --threads 1 --out {taught}"
    )
    assert main(command.split()) == 0
    said = capsys.readouterr().out
    assert f"To draw (edit, morph, studio): trigpoint train digits --from {taught} --drawing" in said
    command = f"train digits --from {taught} --drawing --steps 150 --threads 1 --out {out}"
    assert main(command.split()) == 0
    assert "To draw" not in capsys.readouterr().out
    with np.load(out / "samples.npz") as kept:
        images = to_tensor(kept["pixels"])
    before, after = (off(Predictor.load(folder).model, images) for folder in (taught, out))
    assert after < 0.8 * before
    page = (out / "report.html").read_text()
    assert "Only descriptors and decoder were trained" in page
    assert "came to a point" not in page


def test_of_many_files_the_command_to_draw_names_none(tiny_run: Run, tmp_path: Path) -> None:
    run = Run(shutil.copytree(tiny_run.folder, tmp_path / "run"))
    assert to_draw(run) == ""
    meta = run.meta()
    meta["config"]["train"]["part"] = "detector"
    for words, said in ((["a.jpg", "b.jpg"], "a.jpg b.jpg"), (["a.jpg"] * 4, "IMAGE...")):
        run.config_file.write_text(json.dumps(meta | {"source": words}))
        assert f"trigpoint train {said} --from {run.folder} --drawing" in to_draw(run)


def test_a_drawing_needs_a_model(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(photos), "--drawing", "--out", str(tmp_path / "run")]) == 2
    assert "the drawing alone needs a trained model: name it, --from MODEL." in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("other", ["for_edits", "self_taught"])
def test_a_drawing_is_a_training_of_its_own(photos: Path, tmp_path: Path, other: str) -> None:
    with pytest.raises(TrigpointError, match="one after the other"):
        api.train(photos, tmp_path / "run", start="digits-7", drawing=True, **{other: True})
    with pytest.raises(TrigpointError, match="keeps its own config"):
        api.train(out=tmp_path / "run", resume=True, drawing=True)


def test_after_a_drawing_a_model_is_trained_further_as_a_whole(colour_run: Run) -> None:
    assert api.further(drawing(colour_run)).train.part == "all"
