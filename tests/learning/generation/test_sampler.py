"""A trained generator in use: what decides its images, and what it refuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from trigpoint.core.config.generator import GeneratorConfig
from trigpoint.core.errors import TrigpointError
from trigpoint.core.files.overlay import draw_landmarks
from trigpoint.core.generator_run import GeneratorRun
from trigpoint.core.inference.predictor import ZOO
from trigpoint.learning.editing.render import enlarge
from trigpoint.learning.generation.sampler import BATCH, TILE, Sampler, between, sheet, to_bytes


@pytest.fixture
def copied(generator_run: GeneratorRun, tmp_path: Path) -> GeneratorRun:
    shutil.copytree(generator_run.folder, tmp_path / "run")
    return GeneratorRun(tmp_path / "run")


def structures(count: int, seed: int = 0) -> NDArray[np.float32]:
    """Landmarks (count, 7, 2)."""
    return np.random.default_rng(seed).uniform(0.2, 0.8, (count, 7, 2)).astype(np.float32)


# Images


def test_images_are_the_generators(sampler: Sampler) -> None:
    landmarks, latents = structures(3), sampler.latents(3, seed=5)
    made = sampler.generate(landmarks, latents)
    assert made.shape == (3, 28, 28, 1)
    assert made.dtype == np.uint8
    with torch.no_grad():
        expected = sampler.generator(torch.from_numpy(latents), torch.from_numpy(landmarks))
    np.testing.assert_array_equal(made[..., 0], np.rint(expected[:, 0].numpy() * 255).astype(np.uint8))


def test_more_than_a_batch_keeps_its_order(sampler: Sampler) -> None:
    count = BATCH + 3
    landmarks, latents = structures(count), sampler.latents(count, seed=5)
    made = sampler.generate(landmarks, latents)
    assert len(made) == count
    for i in (0, BATCH - 1, BATCH, count - 1):
        alone = sampler.generate(landmarks[i : i + 1], latents[i : i + 1])[0]
        np.testing.assert_allclose(made[i].astype(int), alone.astype(int), atol=1)


def test_a_seed_decides_the_latents(sampler: Sampler, settings: GeneratorConfig) -> None:
    first = sampler.latents(4, seed=7)
    assert first.shape == (4, settings.latent)
    assert first.dtype == np.float32
    torch.manual_seed(0)
    np.testing.assert_array_equal(first, sampler.latents(4, seed=7))
    assert np.abs(first - sampler.latents(4, seed=8)).min() > 0
    many = sampler.latents(4000, seed=1)
    assert abs(many.mean()) < 0.02
    assert abs(many.std() - 1) < 0.02


def test_a_loaded_generator_makes_the_same_again(sampler: Sampler, generator_run: GeneratorRun) -> None:
    again = Sampler.load(str(generator_run.folder))
    landmarks = structures(2)
    np.testing.assert_array_equal(
        sampler.generate(landmarks, sampler.latents(2, 0)), again.generate(landmarks, again.latents(2, 0))
    )
    assert not again.generator.training
    assert again.settings == sampler.settings


def test_images_follow_latents_and_landmarks(sampler: Sampler) -> None:
    landmarks, latents = structures(1), sampler.latents(2, 0)
    one = sampler.generate(landmarks, latents[:1]).astype(int)
    assert np.abs(one - sampler.generate(landmarks, latents[1:])).max() > 2
    assert np.abs(one - sampler.generate(structures(1, seed=1), latents[:1])).max() > 2


def test_landmarks_of_any_precision(sampler: Sampler) -> None:
    landmarks, latents = structures(2), sampler.latents(2, 0)
    np.testing.assert_array_equal(
        sampler.generate(landmarks.astype(np.float64), latents.astype(np.float64)),
        sampler.generate(landmarks, latents),
    )


@pytest.mark.parametrize(
    ("landmarks", "latents"),
    [((2, 6, 2), (2, 16)), ((2, 7, 3), (2, 16)), ((2, 7, 2), (2, 15)), ((2, 7, 2), (3, 16)),
     ((7, 2), (1, 16)), ((2, 7, 2), (16,))],
)  # fmt: skip
def test_wrong_shapes_are_refused(
    sampler: Sampler, landmarks: tuple[int, ...], latents: tuple[int, ...]
) -> None:
    with pytest.raises(TrigpointError) as caught:
        sampler.generate(np.zeros(landmarks), np.zeros(latents))
    count = landmarks[0]
    assert str(caught.value) == (
        f"Landmarks and latents must have shapes ({count}, 7, 2) and ({count}, 16); "
        f"got {landmarks} and {latents}."
    )


def test_bytes_are_rounded() -> None:
    values = torch.tensor([0.0, 0.4 / 255, 0.6 / 255, 127.4 / 255, 254.6 / 255, 1.0])
    images = values.reshape(1, 1, 2, 3).expand(1, 3, 2, 3)
    assert to_bytes(images).shape == (1, 2, 3, 3)
    assert to_bytes(images)[0, :, :, 1].ravel().tolist() == [0, 0, 1, 127, 255, 255]


# The sheet


def test_a_sheet_has_a_row_for_each_reference_and_a_column_for_each_latent(sampler: Sampler) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (2, 28, 28, 1), np.uint8)
    landmarks, latents = structures(2), sampler.latents(3, 0)
    picture = sheet(sampler.generator, pixels, landmarks, torch.from_numpy(latents))
    edge = TILE + 4
    assert picture.shape == (2 * edge + 4, 4 * edge + 4, 3)

    def tile(row: int, column: int) -> NDArray[np.uint8]:
        top, left = 4 + row * edge, 4 + column * edge
        return picture[top : top + TILE, left : left + TILE]

    for row in range(2):
        first = draw_landmarks(enlarge(pixels[row], TILE), landmarks[row] * TILE)
        np.testing.assert_array_equal(tile(row, 0), first)
        for column in range(3):
            made = sampler.generate(landmarks[row : row + 1], latents[column : column + 1])[0]
            np.testing.assert_allclose(
                tile(row, 1 + column).astype(int), enlarge(made, TILE).astype(int), atol=2
            )


# From one latent to another


def turned(angle: float, length: float = 2.0) -> NDArray[np.float32]:
    return np.array([length * np.cos(angle), length * np.sin(angle), 0], np.float32)


def test_the_way_between_two_latents_is_an_arc() -> None:
    way = between(turned(0.2), turned(1.4), 5)
    assert way.dtype == np.float32
    np.testing.assert_allclose(way, [turned(0.2 + 0.3 * i) for i in range(5)], atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_the_ends_are_given_and_equal_norms_are_kept(seed: int) -> None:
    random = np.random.default_rng(seed)
    start, end = random.normal(size=(2, 64)).astype(np.float32)
    end *= np.linalg.norm(start) / np.linalg.norm(end)
    way = between(start, end, 17)
    assert way.shape == (17, 64)
    np.testing.assert_allclose(way[0], start, atol=1e-5)
    np.testing.assert_allclose(way[-1], end, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(way, axis=1), np.linalg.norm(start), rtol=1e-4)
    steps = np.linalg.norm(np.diff(way, axis=0), axis=1)
    np.testing.assert_allclose(steps, steps[0], rtol=1e-3)


def test_ends_of_unequal_norm_are_kept() -> None:
    way = between(turned(0.0, 1.0), turned(1.0, 3.0), 9)
    np.testing.assert_allclose(way[[0, -1]], [turned(0.0, 1.0), turned(1.0, 3.0)], atol=1e-5)
    norms = np.linalg.norm(way, axis=1)
    assert norms.min() > 0.9
    assert norms.max() < 3.1


@pytest.mark.parametrize("other", [1.0, 2.0, -1.0])
def test_where_there_is_no_arc_the_way_is_straight(other: float) -> None:
    """The same latent, a longer one, the opposite one."""
    start = turned(0.3)
    way = between(start, np.float32(other) * start, 3)
    np.testing.assert_allclose(way, [start, (1 + other) / 2 * start, other * start], atol=1e-4)


# What cannot be loaded


def test_a_run_without_its_generator_is_not_finished(copied: GeneratorRun) -> None:
    copied.model_file.unlink()
    with pytest.raises(TrigpointError) as caught:
        Sampler.load(copied.folder)
    assert str(caught.value) == (
        f"The run {copied.folder} is not finished: it has no generator.safetensors; go on with --resume."
    )


def torn(data: bytes) -> bytes:
    return data[: len(data) // 2]


def replaced(data: bytes) -> bytes:
    return b"Dear diary"


def emptied(data: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("damage", [torn, replaced, emptied])
def test_a_damaged_generator_is_refused_in_one_sentence(
    copied: GeneratorRun, damage: Callable[[bytes], bytes]
) -> None:
    copied.model_file.write_bytes(damage(copied.model_file.read_bytes()))
    with pytest.raises(
        TrigpointError, match=r"generator\.safetensors is damaged or no safetensors file"
    ) as caught:
        Sampler.load(copied.folder)
    assert "\n" not in str(caught.value)


def test_the_weights_of_another_network_are_refused_in_one_sentence(copied: GeneratorRun) -> None:
    shutil.copyfile(copied.landmarks.model_file, copied.model_file)
    with pytest.raises(
        TrigpointError, match=r"generator\.safetensors do not fit the model of its config"
    ) as caught:
        Sampler.load(copied.folder)
    assert "\n" not in str(caught.value)
    meta = copied.meta()
    meta["config"]["width"] = 5
    copied.config_file.write_text(json.dumps(meta))
    with pytest.raises(TrigpointError, match="do not fit the model of its config"):
        Sampler.load(copied.folder)


def test_a_damaged_landmark_model_is_refused(copied: GeneratorRun) -> None:
    file = copied.landmarks.model_file
    file.write_bytes(torn(file.read_bytes()))
    with pytest.raises(TrigpointError, match=r"model\.safetensors is damaged"):
        Sampler.load(copied.folder)


@pytest.mark.parametrize("folder", [ZOO / "digits-7", Path("digits-7"), Path("nowhere")])
def test_a_landmark_model_alone_makes_no_images(folder: Path) -> None:
    with pytest.raises(TrigpointError, match=r"is no run of `trigpoint generate train`\."):
        Sampler.load(folder)
