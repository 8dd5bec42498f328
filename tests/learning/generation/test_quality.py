"""The measures of generated images, each computed another way."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trigpoint.core.config.generator import GeneratorConfig
from trigpoint.core.errors import TrigpointError
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.sources.digits import Digits
from trigpoint.learning.evaluation import faces
from trigpoint.learning.generation import quality
from trigpoint.learning.generation.quality import (
    REFERENCES,
    SAMPLES,
    cycle_distances,
    derangement,
    diversity,
    face_features,
    kernel_distance,
    pairwise,
    pixel_features,
    redetect,
    squared_mmd,
)
from trigpoint.learning.generation.sampler import Sampler
from trigpoint.learning.tensors import to_tensor


class Stub(nn.Module):
    """A generator whose images are known."""

    def __init__(self, make: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.make = make

    def forward(self, latents: Tensor, landmarks: Tensor) -> Tensor:
        return self.make(latents, landmarks)


@pytest.fixture
def stubbed(predictor: Predictor, settings: GeneratorConfig) -> Callable[..., Sampler]:
    def make(images: Callable[[Tensor, Tensor], Tensor]) -> Sampler:
        return Sampler(Stub(images), predictor, settings)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="module")
def pixels(threes: Digits) -> NDArray[np.uint8]:
    return np.stack([threes.image(i) for i in range(70)])  # more than a batch


# Structure


def test_landmarks_are_found_again_in_edges_of_the_image(
    sampler: Sampler, predictor: Predictor, pixels: NDArray[np.uint8]
) -> None:
    found = redetect(sampler, pixels)
    assert found.shape == (70, 7, 2)
    for i in (0, 63, 64, 69):
        np.testing.assert_allclose(found[i], predictor.detect(pixels[i]).points / 28, atol=1e-4)


def test_images_with_the_landmarks_wanted_have_no_distance(
    stubbed: Callable[..., Sampler], pixels: NDArray[np.uint8]
) -> None:
    """The stub gives real images back, whose landmarks are known."""
    queue = list(to_tensor(pixels).split(64))
    sampler = stubbed(lambda *_: queue.pop(0))
    landmarks = redetect(sampler, pixels)
    near, far = cycle_distances(sampler, landmarks, seed=0)
    assert near.shape == far.shape == (70,)
    np.testing.assert_allclose(near, 0, atol=1e-5)
    others = derangement(70, seed=0)
    expected = [
        np.mean([np.hypot(*(landmarks[i, k] - landmarks[others[i], k])) for k in range(7)]) for i in range(70)
    ]
    np.testing.assert_allclose(far, expected, rtol=1e-4, atol=1e-6)
    assert far.min() > 0


def test_distances_by_hand(stubbed: Callable[..., Sampler], pixels: NDArray[np.uint8]) -> None:
    sampler = stubbed(lambda *_: to_tensor(pixels[:4]))
    shifted = redetect(sampler, pixels[:4])
    shifted[0] += (0.03, 0.04)
    shifted[1, 2] += (0.0, 0.7)
    near, _ = cycle_distances(sampler, shifted, seed=0)
    np.testing.assert_allclose(near, [0.05, 0.1, 0, 0], atol=1e-5)


def test_each_reference_has_a_latent_that_the_seed_decides(
    stubbed: Callable[..., Sampler], pixels: NDArray[np.uint8]
) -> None:
    given: list[tuple[Tensor, Tensor]] = []

    def noted(latents: Tensor, landmarks: Tensor) -> Tensor:
        given.append((latents, landmarks))
        return to_tensor(pixels[:3])

    sampler = stubbed(noted)
    landmarks = np.random.default_rng(0).random((3, 7, 2))
    cycle_distances(sampler, landmarks, seed=4)
    latents, points = given[0]
    np.testing.assert_array_equal(latents.numpy(), sampler.latents(3, 4))
    np.testing.assert_allclose(points.numpy(), landmarks, rtol=1e-6)


@pytest.mark.parametrize("count", range(2, 51))
def test_a_derangement_leaves_nothing_in_its_place(count: int) -> None:
    for seed in range(5):
        places = derangement(count, seed)
        assert sorted(places) == list(range(count))
        assert (places != np.arange(count)).all()
    assert (derangement(count, 0) == derangement(count, 0)).all()


def test_derangements_differ_by_seed() -> None:
    assert len({tuple(derangement(20, seed)) for seed in range(10)}) == 10


# Diversity


def grey(*values: int) -> NDArray[np.uint8]:
    return np.stack([np.full((4, 4, 1), value, np.uint8) for value in values])


def test_the_distance_of_pairs_by_hand() -> None:
    assert pairwise(grey(0, 255)) == pytest.approx(1)
    assert pairwise(grey(0, 255, 51)) == pytest.approx((1 + 0.2 + 0.8) / 3)
    assert pairwise(grey(7, 7, 7)) == 0
    assert pairwise(grey(7)) == 0
    half = np.zeros((2, 2, 2, 3), np.uint8)
    half[1, 0] = 255  # half of its pixels: root of the mean of 1 and 0
    assert pairwise(half) == pytest.approx(np.sqrt(0.5))


def test_samples_that_are_all_the_same_have_no_diversity(
    stubbed: Callable[..., Sampler], pixels: NDArray[np.uint8]
) -> None:
    sampler = stubbed(lambda latents, _: torch.full((len(latents), 1, 28, 28), 0.3))
    spread, real = diversity(sampler, np.zeros((3, 7, 2)), pixels, seed=0)
    assert spread == 0
    assert real == pytest.approx(pairwise(pixels[:SAMPLES]))
    assert real > 0.1


@pytest.mark.parametrize("count", [2, REFERENCES + 3])
def test_diversity_is_that_of_one_reference_averaged_over_some(
    stubbed: Callable[..., Sampler], pixels: NDArray[np.uint8], count: int
) -> None:
    """Images as bright as the first of their latents."""
    seen: list[Tensor] = []

    def bright(latents: Tensor, landmarks: Tensor) -> Tensor:
        seen.append(landmarks)
        return torch.sigmoid(latents[:, 0])[:, None, None, None].expand(-1, 1, 28, 28)

    sampler = stubbed(bright)
    landmarks = np.random.default_rng(0).random((count, 7, 2)).astype(np.float32)
    spread, _ = diversity(sampler, landmarks, pixels, seed=3)
    used = min(count, REFERENCES)
    expected = []
    for i in range(used):
        levels = 1 / (1 + np.exp(-sampler.latents(SAMPLES, 3 + i)[:, 0]))
        pairs = [abs(levels[a] - levels[b]) for a in range(SAMPLES) for b in range(a)]
        expected.append(np.mean(pairs))
        np.testing.assert_array_equal(seen[i].numpy(), np.repeat(landmarks[i : i + 1], SAMPLES, axis=0))
    assert len(seen) == used
    assert spread == pytest.approx(np.mean(expected), abs=1 / 255)


# Realism


def kernel(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    return float((sum(a * b for a, b in zip(x, y, strict=True)) / len(x) + 1) ** 3)


def test_the_squared_mmd_is_that_of_explicit_loops() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(6, 3)), random.normal(0.5, 1.5, size=(4, 3))
    within_x = sum(kernel(x[i], x[j]) for i in range(6) for j in range(6) if i != j) / (6 * 5)
    within_y = sum(kernel(y[i], y[j]) for i in range(4) for j in range(4) if i != j) / (4 * 3)
    across = sum(kernel(a, b) for a in x for b in y) / (6 * 4)
    assert squared_mmd(x, y) == pytest.approx(within_x + within_y - 2 * across, rel=1e-9)
    assert squared_mmd(x, y) == pytest.approx(squared_mmd(y, x), rel=1e-9)
    single = squared_mmd(x.astype(np.float32), y.astype(np.float32))
    assert single == pytest.approx(squared_mmd(x, y), rel=1e-4)


def test_one_distribution_has_about_no_distance_and_two_have_one() -> None:
    random = np.random.default_rng(1)
    first, second, moved = (random.normal(shift, 1, size=(600, 8)) for shift in (0, 0, 0.5))
    same, spread = kernel_distance(first, second)
    apart, _ = kernel_distance(first, moved)
    assert abs(same) < 3 * spread
    assert abs(same) < 0.05
    # The mean alone, through the kernel's linear part 3 x.y / d, gives 3 * 0.5^2.
    assert apart > 0.75
    assert apart > 10 * abs(same)


def test_distributions_of_one_mean_are_told_apart_by_their_spread() -> None:
    random = np.random.default_rng(2)
    first, wide = random.normal(size=(600, 8)), random.normal(0, 2, size=(600, 8))
    assert kernel_distance(first, wide)[0] > 0.5


def test_a_seed_decides_the_subsets() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(2, 500, 4))
    assert kernel_distance(x, y, seed=1) == kernel_distance(x, y, seed=1)
    assert kernel_distance(x, y, seed=1) != kernel_distance(x, y, seed=2)


def test_the_deviation_of_a_small_set_is_not_nothing() -> None:
    """Subsets are parts also where there are fewer images than a subset usually has."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=(2, 40, 4))
    assert kernel_distance(x, y)[1] > 0.01


@pytest.mark.parametrize(("first", "second"), [(1, 5), (5, 1), (0, 5)])
def test_fewer_than_two_images_have_no_kernel_distance(first: int, second: int) -> None:
    with pytest.raises(TrigpointError, match=rf"at least 2 images on each side; got {min(first, second)}\."):
        kernel_distance(np.zeros((first, 3)), np.zeros((second, 3)))
    assert kernel_distance(np.zeros((2, 3)), np.zeros((2, 3))) == (0.0, 0.0)


# Features


@pytest.mark.parametrize("channels", [1, 3])
def test_pixel_features_are_mean_colours(channels: int) -> None:
    images = np.random.default_rng(0).integers(0, 255, (3, 16, 16, channels), np.uint8)
    features = pixel_features(images)
    assert features.shape == (3, 64 * channels)
    blocks = images.reshape(3, 8, 2, 8, 2, channels).mean((2, 4)).reshape(3, -1)
    np.testing.assert_allclose(features, blocks / 127.5 - 1, atol=0.6 / 127.5)
    assert pixel_features(np.zeros((1, 28, 28, channels), np.uint8)).min() == -1
    assert pixel_features(np.full((1, 28, 28, channels), 255, np.uint8)).max() == 1


@pytest.mark.parametrize("channels", [1, 3])
def test_face_features_are_the_embedding_of_enlarged_colour_images(
    monkeypatch: pytest.MonkeyPatch, channels: int
) -> None:
    seen: list[NDArray[np.uint8]] = []

    class Fake:
        def embed(self, crop: NDArray[np.uint8]) -> NDArray[np.float32]:
            seen.append(crop)
            return np.full(128, len(seen) / 10, np.float32)

    monkeypatch.setattr(faces, "Dlib", Fake)
    features = face_features(np.full((2, 32, 32, channels), 90, np.uint8))
    assert [crop.shape for crop in seen] == [(faces.SIZE, faces.SIZE, 3)] * 2
    assert all((crop == 90).all() for crop in seen)
    np.testing.assert_allclose(features, np.sqrt(128) * np.array([[0.1] * 128, [0.2] * 128]), rtol=1e-5)
    # The kernel divides inner products by the number of features: what is left is that of embeddings.
    assert features[0] @ features[1] / 128 == pytest.approx(128 * 0.1 * 0.2, rel=1e-5)


def test_every_kind_of_features_has_a_name() -> None:
    features = quality.FEATURES
    assert features == {"dlib": face_features, "pixels": pixel_features}
