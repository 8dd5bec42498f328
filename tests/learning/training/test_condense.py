"""Fewer landmarks from many: which means they are, what a small model starts as, and that it learns them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from trigpoint import api
from trigpoint.app.cli import main
from trigpoint.core.config.presets import preset
from trigpoint.core.config.tree import Config, with_values
from trigpoint.core.errors import TrigpointError
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.runs import Run
from trigpoint.learning.data.prepared import Prepared
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.model.views import look
from trigpoint.learning.tensors import to_tensor
from trigpoint.learning.training import loop
from trigpoint.learning.training.condense import condense, group
from trigpoint.learning.training.stages.distill import STAGE, VIEWS, Targets, noise
from trigpoint.learning.warps.tps import RandomTPS

CORNERS = np.array([[0.25, 0.25], [0.75, 0.3], [0.5, 0.8]])


def clusters(noise: float | NDArray[np.float64], images: int = 500) -> NDArray[np.float32]:
    """Nine landmarks, three about each corner; each corner goes its own way, the three go along."""
    random = np.random.default_rng(0)
    offsets = np.array([[-0.03, 0], [0.03, 0.01], [0, -0.03]])
    ways = CORNERS + 0.04 * random.standard_normal((images, 3, 2))
    points = (ways[:, :, None] + offsets).reshape(images, 9, 2)
    return (points + random.standard_normal(points.shape) * np.reshape(noise, (-1, 1))).astype(np.float32)


def steady(landmarks: int, size: float | NDArray[np.float64] = 0.002) -> torch.Tensor:
    """The covariance of views that stray by so much on their own, at each landmark or all alike."""
    sizes = np.broadcast_to(size, (landmarks,))
    return torch.from_numpy(np.diag(np.repeat(sizes**2, 2)))


def test_what_moves_together_becomes_one_landmark() -> None:
    found = group(clusters(0.002), steady(9), 3).numpy()
    np.testing.assert_allclose(found.sum(1), 1)
    assert found.min() >= 0
    shares = found.reshape(3, 3, 3).sum(2)  # of each corner's three, for each of the few
    assert sorted(shares.argmax(1)) == [0, 1, 2]
    assert shares.max(1).min() > 0.95


def test_a_landmark_that_wavers_counts_less() -> None:
    wavers = np.where(np.arange(9) == 4, 0.02, 0.002)
    found = group(clusters(wavers), steady(9, wavers), 3).numpy()
    of_its_corner = found[found.reshape(3, 3, 3).sum(2)[:, 1].argmax(), 3:6]
    assert of_its_corner[1] < 0.5 * of_its_corner[[0, 2]].min()


def untold(landmarks: NDArray[np.float32], weights: NDArray[np.float64]) -> float:
    """The squares that a least-squares fit of all landmarks to the few leaves, by another way."""
    every = landmarks.reshape(len(landmarks), -1) - landmarks.reshape(len(landmarks), -1).mean(0)
    few = np.einsum("kj,njd->nkd", weights, landmarks)
    few = few.reshape(len(few), -1) - few.reshape(len(few), -1).mean(0)
    return float(((every - few @ np.linalg.lstsq(few, every, rcond=None)[0]) ** 2).mean())


def test_the_means_tell_all_landmarks_better_than_landmarks_picked_at_random() -> None:
    """Twenty places that move smoothly over the image."""
    random = np.random.default_rng(1)
    places = random.uniform(0.1, 0.9, (20, 2))
    waves = 2 * np.pi * random.uniform(0.3, 1.0, (6, 2))
    moves = np.einsum("nwd,wj->njd", random.standard_normal((600, 6, 2)), np.sin(waves @ places.T))
    landmarks = (places + 0.01 * moves + 0.003 * random.standard_normal((600, 20, 2))).astype(np.float32)
    ours = untold(landmarks, group(landmarks, steady(20, 0.003), 6).numpy())
    picked = [untold(landmarks, np.eye(20)[random.permutation(20)[:6]]) for _ in range(20)]
    assert ours < 0.8 * np.median(picked)
    assert ours < min(picked)


@pytest.mark.parametrize("count", [1, 2])
def test_landmarks_that_all_lie_in_one_place_make_no_trouble(count: int) -> None:
    found = group(np.full((5, 4, 2), 0.5, np.float32), steady(4, 0.0), count)
    assert found.isfinite().all()
    torch.testing.assert_close(found.sum(1), torch.ones(count, dtype=torch.float64))


def test_a_steady_difference_is_told_before_an_unsteady_one() -> None:
    """Two pairs of landmarks, each pair apart by as much variance; of one pair the views disagree on it."""
    random = np.random.default_rng(2)
    places = np.array([[0.2, 0.2], [0.3, 0.2], [0.7, 0.8], [0.8, 0.8]])
    apart = 0.01 * random.standard_normal((2000, 2, 2))
    moves = 0.03 * random.standard_normal((2000, 2, 2))
    landmarks = np.stack(
        (
            moves[:, 0] - apart[:, 0],
            moves[:, 0] + apart[:, 0],
            moves[:, 1] - apart[:, 1],
            moves[:, 1] + apart[:, 1],
        ),
        1,
    )
    landmarks = (places + landmarks).astype(np.float32)
    strays = torch.eye(8, dtype=torch.float64) * 0.002**2
    split = torch.tensor([0, 0, 0, 0, -1, 0, 1, 0]).double(), torch.tensor([0, 0, 0, 0, 0, -1, 0, 1]).double()
    strays += 0.01**2 * sum(torch.outer(way, way) for way in split)
    found = group(landmarks, strays, 3).numpy()
    first, second = found[:, :2], found[:, 2:]
    assert (first.max(1) > 0.8).sum() == 2  # the first pair has two of the three, the second shares one
    assert (second.sum(1) > 0.8).sum() == 1
    np.testing.assert_allclose(second[second.sum(1) > 0.8], 0.5, atol=0.15)


def test_targets_are_means_of_what_was_found(micro: Config) -> None:
    found, tps = clusters(0.002, 40), RandomTPS(micro.warp, micro.model)
    assert Targets(tps, found).of(np.array([5])).numpy() == pytest.approx(found[[5]])
    groups = torch.rand(3, 9, dtype=torch.float64).softmax(1)
    wanted = Targets(tps, found, groups).of(np.array([7, 3]))
    expected = np.einsum("kj,njd->nkd", groups.numpy(), found[[7, 3]])
    np.testing.assert_allclose(wanted, expected, atol=1e-6)


def test_noise_is_how_far_a_view_strays_from_the_targets(micro_colour: Config) -> None:
    """Of targets found on the image itself: nothing without warp and augmentation, more with."""
    still = ["warp.translation=0", "warp.rotation=0", "warp.scaling=1", "warp.grid_jitter=0"]
    dull = ["train.brightness=0", "train.contrast=0", "warp.landmark_share=0"]
    model = Autoencoder(micro_colour.model, seed=1).eval()
    pixels = np.random.default_rng(0).integers(0, 256, (70, 32, 32, 3), dtype=np.uint8)
    images = Prepared(pixels, np.arange(70), {})
    with torch.no_grad():
        targets = model.detect(to_tensor(pixels)).landmarks.numpy()
    calm = noise(model, images, targets, with_values(micro_colour, still + dull))
    assert calm.shape == (8, 8)
    assert calm.abs().max() < 1e-8
    moved = noise(model, images, targets, micro_colour)
    assert torch.linalg.eigvalsh(moved).min() > -1e-12
    assert moved.diagonal().min() > 1e-6
    # Without them an error of the targets is what is left, but for the tenth that is furthest off.
    off = np.random.default_rng(1).normal(0, 0.01, targets.shape).astype(np.float32)
    off[::10] *= 100
    found = noise(model, images, targets + off, with_values(micro_colour, still + dull))
    kept = off.reshape(70, 8)[np.arange(70) % 10 > 0]
    np.testing.assert_allclose(found, kept.T @ kept / 63, atol=1e-6)


def test_a_model_of_chosen_landmarks_starts_as_the_larger_one(micro_colour: Config) -> None:
    """Where each of the few is one of the many: the same scores, descriptors, and answer to their maps."""
    teacher = Autoencoder(micro_colour.model, seed=1).eval()
    small = Autoencoder(replace(micro_colour.model, landmarks=2), seed=2).eval()
    chosen = [3, 1]
    small.load_state_dict(condense(teacher.state_dict(), small, torch.eye(4, dtype=torch.float64)[chosen]))
    images = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        padded = teacher.pad(images)
        torch.testing.assert_close(small.detector.net(padded), teacher.detector.net(padded)[:, [3, 1, 4]])
        assert small.descriptors is not None
        assert teacher.descriptors is not None
        torch.testing.assert_close(small.descriptors.project, teacher.descriptors.project[[3, 1, 4]])
        torch.testing.assert_close(small.decoder.expand, teacher.decoder.expand[[3, 1, 4]])
        few = torch.rand(3, 2, 3 + 8, 16, 16)  # two bandwidths, three maps and eight features
        many = torch.zeros(3, 2, 5 + 8, 16, 16)
        many[:, :, [3, 1, 4]], many[:, :, 5:] = few[:, :, :3], few[:, :, 3:]
        torch.testing.assert_close(
            small.decoder.net(few.flatten(1, 2)), teacher.decoder.net(many.flatten(1, 2))
        )


def test_descriptors_are_those_of_the_heaviest_landmark(micro_colour: Config) -> None:
    """A mean of numbers that mean different things would tell nothing; scores and maps have one."""
    teacher = Autoencoder(micro_colour.model, seed=1)
    small = Autoencoder(replace(micro_colour.model, landmarks=1), seed=2)
    mixed = condense(teacher.state_dict(), small, torch.tensor([[0.1, 0.2, 0.6, 0.1]]).double())
    before = teacher.state_dict()
    for name in ("descriptors.project", "decoder.expand"):
        torch.testing.assert_close(mixed[name], before[name][[2, 4]])
    name = "detector.net.tail.0.0.weight"
    scores = before[name]
    mean = 0.1 * scores[0] + 0.2 * scores[1] + 0.6 * scores[2] + 0.1 * scores[3]
    torch.testing.assert_close(mixed[name], torch.stack((mean, scores[4])))


@pytest.mark.parametrize("name", ["celeba-30", "mnist-7", "tiny-12", "detail-30"])
def test_every_kind_of_net_can_be_condensed(name: str) -> None:
    config = preset(name).model
    teacher, small = Autoencoder(config), Autoencoder(replace(config, landmarks=5), seed=1)
    weights = torch.rand(5, config.landmarks, dtype=torch.float64).softmax(1)
    mixed = condense(teacher.state_dict(), small, weights)
    small.load_state_dict(mixed)
    assert not any(torch.isnan(value).any() for value in mixed.values())


def fewer(run: Run, landmarks: int = 3) -> Config:
    return with_values(STAGE.derive(run.config()), ["train.steps=8", f"model.landmarks={landmarks}"])


def test_a_smaller_model_goes_on_where_it_was_stopped(
    colour_run: Run, photos: Path, tmp_path: Path, tear: Callable[..., None]
) -> None:
    config, source = fewer(colour_run), api.open_source(photos)
    start = shutil.copytree(colour_run.folder, tmp_path / "start") / colour_run.model_file.name
    calm = loop.train(config, source, tmp_path / "calm", start=start)
    tear(config, source, tmp_path / "torn", start)
    shutil.rmtree(start.parent)
    torn = loop.train(config, source, tmp_path / "torn", resume=True)
    assert torn.model_file.read_bytes() == calm.model_file.read_bytes()


def test_a_smaller_model_has_a_shape_of_its_own_and_no_names(
    colour_run: Run, photos: Path, tmp_path: Path
) -> None:
    start = Run(shutil.copytree(colour_run.folder, tmp_path / "start"))
    start.rename(["nose", "1", "2", "3"])
    meta = start.meta() | {"subject": "face"}
    start.config_file.write_text(json.dumps(meta))
    made = api.train(photos, tmp_path / "run", start=start.folder, stage="distill", landmarks=2, steps=3)
    assert made.config().model.landmarks == 2
    assert made.names() == ["0", "1"]
    assert made.meta()["subject"] == "face"
    shape = made.shape()
    assert shape is not None
    assert len(shape) == 2
    again = api.train(photos, tmp_path / "again", start=made.folder, stage="distill")
    assert again.config() == made.config()
    edits = api.train(photos, tmp_path / "edits", start=made.folder, stage="edit", steps=2)
    assert edits.shape() == made.shape()


def test_a_model_teaches_no_more_landmarks_than_it_has(colour_run: Run, photos: Path, tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match=r"has 4 landmarks: it can teach as many or fewer, not 5\."):
        api.train(photos, tmp_path / "run", start=colour_run.folder, stage="distill", landmarks=5)
    with pytest.raises(TrigpointError, match="keeps its landmarks"):
        api.train(photos, tmp_path / "run", start=colour_run.folder, landmarks=2)
    with pytest.raises(TrigpointError, match="do not fit"):
        api.train(photos, tmp_path / "run", start=colour_run.folder, values=["model.landmarks=2"])
    assert not (tmp_path / "run").exists()


def test_four_landmarks_of_digits_are_means_of_seven(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On digits kept out of training: nearer than at the start, and by far than to another's."""
    off, others = {}, {}
    for steps in (1, 300):
        out = tmp_path / str(steps)
        command = f"train digits --from digits-7 --stage distill --landmarks 4 --threads 1 --out {out}"
        assert main([*command.split(), "--steps", str(steps)]) == 0
        assert "4 landmarks, found on" in capsys.readouterr().out
        with np.load(out / "samples.npz") as kept:
            images = to_tensor(kept["pixels"])
        teacher, student = Predictor.load("digits-7").backend, Predictor.load(out).backend
        with torch.no_grad():
            targets = look(teacher.model, images, teacher.shape, VIEWS)[0].double()
            found = student.model.detect(images).landmarks.double()
        # What means the four are is fitted on half of the images, and measured on the others.
        x, y = targets.transpose(1, 2), found.transpose(1, 2)  # (n, 2, 7), (n, 2, 4)
        half = len(images) // 2
        weights = torch.linalg.lstsq(x[:half].flatten(0, 1), y[:half].flatten(0, 1)).solution
        means = x[half:] @ weights
        off[steps] = float((means - y[half:]).norm(dim=1).mean())
        others[steps] = float((means.roll(1, 0) - y[half:]).norm(dim=1).mean())
    assert off[300] < 0.9 * off[1]
    assert off[300] < 0.2 * others[300]
