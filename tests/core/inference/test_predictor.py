"""A trained model in use: pixels of the caller's image."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from trigpoint.core.config.tree import Config
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.geometry import Placement, extract, fit_box
from trigpoint.core.inference.predictor import Predictor, find_model
from trigpoint.core.runs import Run
from trigpoint.core.sources.digits import Digits
from trigpoint.core.sources.images import to_channels
from trigpoint.learning.backends.pytorch import TorchBackend
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.model.views import look
from trigpoint.learning.tensors import to_tensor


@pytest.fixture(scope="module")
def grey(micro: Config) -> Predictor:
    return Predictor(TorchBackend(Autoencoder(micro.model, seed=2)), micro)


@pytest.fixture(scope="module")
def colour(colour_run: Run) -> Predictor:
    return Predictor.load(colour_run.folder)


def image_of(width: int, height: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    small = np.random.default_rng(seed).integers(0, 256, (6, 6, channels), dtype=np.uint8)
    return np.kron(small, np.ones((height // 6 + 1, width // 6 + 1, 1), np.uint8))[:height, :width]


def test_points_are_pixels_of_the_caller_s_image(colour: Predictor) -> None:
    """A wide image: what the model sees is its square, padded above and below."""
    image = image_of(90, 40)
    found = colour.detect(image)
    seen = extract(image, fit_box(90, 40, "pad"), 32)
    tensor = torch.from_numpy(seen.copy()).permute(2, 0, 1)[None].float() / 255
    with torch.inference_mode():
        units = colour.backend.model.detect(tensor).landmarks[0].double().numpy()
    np.testing.assert_allclose(found.points, units * 90 - (0, 25), atol=1e-3)
    assert found.points.shape == (4, 2)
    assert found.points.dtype == np.float64
    assert found.confidence.shape == (4,)
    assert (found.confidence >= 0).all()
    assert (found.confidence <= 1).all()


def test_a_larger_copy_has_its_points_at_larger_pixels(colour: Predictor) -> None:
    image = image_of(60, 60)
    twice = np.kron(image, np.ones((2, 2, 1), np.uint8))
    found, larger = colour.detect(image), colour.detect(twice)
    np.testing.assert_allclose(larger.points, 2 * found.points, atol=0.5)


def test_a_box_is_that_part_of_the_image(colour: Predictor) -> None:
    image = image_of(90, 70)
    box = Placement(20, 10, 48, 48)
    within = colour.detect(image[10:58, 20:68])
    np.testing.assert_allclose(
        colour.detect(image, box).points, within.points + np.array([20, 10]), atol=1e-3
    )


def test_a_box_may_reach_beyond_the_image(colour: Predictor) -> None:
    image = image_of(50, 50)
    wider = np.pad(image, ((10, 10), (10, 10), (0, 0)), mode="edge")
    found = colour.detect(image, Placement(-10, -10, 70, 70))
    np.testing.assert_allclose(found.points, colour.detect(wider).points - 10, atol=1e-3)


@pytest.mark.parametrize("fit", ["pad", "crop", "stretch"])
def test_images_are_made_square_as_in_training(micro: Config, fit: str) -> None:
    predictor = Predictor(TorchBackend(Autoencoder(micro.model, seed=2)), replace(micro, fit=fit))  # type: ignore[arg-type]
    image = image_of(80, 50, 1)
    found = predictor.detect(image)
    box = {
        "pad": Placement(0, -15, 80, 80),
        "crop": Placement(15, 0, 50, 50),
        "stretch": Placement(0, 0, 80, 50),
    }
    np.testing.assert_allclose(found.points, predictor.detect(image, box[fit]).points)


def test_grey_arrays_may_have_two_or_three_axes(grey: Predictor, colour: Predictor) -> None:
    image = image_of(40, 40, 1)
    for predictor in (grey, colour):
        found = predictor.detect(image)
        np.testing.assert_array_equal(predictor.detect(image[:, :, 0]).points, found.points)
        np.testing.assert_array_equal(predictor.detect(to_channels(image, 3)).points, found.points)


def test_files_are_read(colour: Predictor, tmp_path: Path) -> None:
    image = image_of(64, 48)
    Image.fromarray(image).save(tmp_path / "a.png")
    for name in (tmp_path / "a.png", str(tmp_path / "a.png")):
        np.testing.assert_array_equal(colour.detect(name).points, colour.detect(image).points)


def test_a_batch_equals_its_images_one_by_one(colour: Predictor) -> None:
    images = [image_of(40 + 5 * i, 60 - 3 * i, seed=i) for i in range(7)]
    boxes = [None, Placement(2, 3, 20, 20), None, None, Placement(0, 0, 30, 30), None, None]
    batch = list(colour.detect_many(images, boxes, batch_size=3))
    assert len(batch) == 7
    for image, box, found in zip(images, boxes, batch, strict=True):
        alone = colour.detect(image, box)
        np.testing.assert_allclose(found.points, alone.points, atol=1e-3)
        np.testing.assert_allclose(found.confidence, alone.confidence, atol=1e-4)


def test_many_images_are_taken_one_batch_at_a_time(colour: Predictor) -> None:
    taken = 0

    def stream() -> Iterator[np.ndarray]:
        nonlocal taken
        for i in range(100):
            taken += 1
            yield image_of(40, 40, seed=i)

    found = colour.detect_many(stream(), batch_size=4)
    next(found)
    assert taken == 4


def test_no_images_give_no_landmarks(colour: Predictor) -> None:
    assert list(colour.detect_many([])) == []


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((20, 20, 3), np.float32),
        np.zeros((20, 20, 3), np.uint16),
        np.zeros((20, 20, 4), np.uint8),
        np.zeros((20, 20, 2), np.uint8),
        np.zeros((2, 20, 20, 3), np.uint8),
        np.zeros(20, np.uint8),
        np.zeros((0, 20, 3), np.uint8),
    ],
)
def test_other_arrays_are_refused_with_what_was_found(grey: Predictor, image: np.ndarray) -> None:
    with pytest.raises(TrigpointError, match="must be an array of bytes") as caught:
        grey.detect(image)
    assert str(image.dtype) in str(caught.value)
    assert str(image.shape) in str(caught.value)


def test_an_unreadable_file_is_refused(grey: Predictor, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("text")
    with pytest.raises(UnreadableImage):
        grey.detect(tmp_path / "a.png")


def test_a_loaded_model_is_the_saved_one(tiny_run: Run) -> None:
    predictor = Predictor.load(tiny_run.folder)
    assert predictor.landmarks == 5
    assert predictor.config == tiny_run.config()
    assert not predictor.backend.model.training
    digit = image_of(28, 28, 1)
    np.testing.assert_array_equal(
        predictor.detect(digit).points, Predictor.load(str(tiny_run.folder)).detect(digit).points
    )


def test_a_missing_model_is_refused() -> None:
    with pytest.raises(
        TrigpointError, match=r"There is no run folder nothing, nor a shipped model .*shipped: "
    ):
        find_model("nothing")


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match=r"no run folder: it has no config\.json"):
        Predictor.load(tmp_path)


def test_an_unfinished_run_is_refused(tmp_path: Path, micro: Config) -> None:
    Run(tmp_path / "run").start(micro, ("digits",))
    with pytest.raises(TrigpointError, match=r"is not finished.*--resume"):
        Predictor.load(tmp_path / "run")


@pytest.mark.parametrize("damage", ["truncated", "another model"])
def test_a_damaged_model_is_refused(tiny_run: Run, colour_run: Run, tmp_path: Path, damage: str) -> None:
    run = Run(tmp_path / "run")
    shutil.copytree(tiny_run.folder, run.folder)
    if damage == "truncated":
        run.model_file.write_bytes(run.model_file.read_bytes()[:-50])
    else:
        shutil.copy(colour_run.model_file, run.model_file)
    with pytest.raises(TrigpointError, match=r"model\.safetensors"):
        Predictor.load(run.folder)


def test_a_model_takes_as_many_views_as_its_config_says(tiny_run: Run, tmp_path: Path) -> None:
    """Three views of a digit are those of `look`, in pixels of the image; one view is the detector's own."""
    run = Run(tmp_path / "run")
    shutil.copytree(tiny_run.folder, run.folder)
    shape = run.shape()
    assert shape is not None
    once, thrice = Predictor.load(run.folder), Predictor.load(run.folder, views=3)
    assert (once.backend.views, thrice.backend.views) == (1, 3)
    digit = Digits().image(7)
    square, _ = once.prepare(digit)
    tensor = to_tensor(square[None])
    with torch.inference_mode():
        expected, confidence = look(once.backend.model, tensor, torch.tensor(shape), 3)
        alone = once.backend.model.detect(tensor).landmarks
    found = thrice.detect(digit)
    np.testing.assert_allclose(found.points, 28 * expected[0].double().numpy(), atol=1e-4)
    np.testing.assert_allclose(found.confidence, confidence[0].double().numpy(), atol=1e-6)
    np.testing.assert_allclose(once.backend.detect_once(square[None]), alone.double().numpy(), atol=1e-6)
    np.testing.assert_allclose(thrice.backend.detect_once(square[None]), alone.double().numpy(), atol=1e-6)
    assert np.abs(found.points - once.detect(digit).points).max() > 1e-3


def test_a_model_without_a_mean_shape_takes_one_view(micro: Config, tiny_run: Run, tmp_path: Path) -> None:
    assert TorchBackend(Autoencoder(micro.model), views=3).views == 1
    run = Run(tmp_path / "run")
    shutil.copytree(tiny_run.folder, run.folder)
    meta = run.meta()
    del meta["shape"]
    run.config_file.write_text(json.dumps(meta))
    assert Predictor.load(run.folder, views=1).backend.views == 1
    with pytest.raises(TrigpointError, match="does not know its mean shape, so it cannot take several views"):
        Predictor.load(run.folder, views=3)


@pytest.mark.parametrize("views", [0, -1, 17])
def test_an_impossible_number_of_views_is_refused(tiny_run: Run, views: int) -> None:
    with pytest.raises(TrigpointError, match=rf"views must be between 1 and 16; got {views}"):
        Predictor.load(tiny_run.folder, views=views)
