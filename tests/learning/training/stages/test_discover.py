"""The losses of a step of discovery."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from trigpoint.core.config.tree import Config
from trigpoint.learning import losses
from trigpoint.learning.augment import augmented
from trigpoint.learning.data.prepared import Prepared
from trigpoint.learning.devices import generator_of
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.training.stages import Batch
from trigpoint.learning.training.stages.discover import STAGE, Targets
from trigpoint.learning.warps.tps import RandomTPS


@pytest.fixture(params=["micro", "micro_colour"])
def config(request: pytest.FixtureRequest) -> Config:
    return request.getfixturevalue(request.param)


def images_for(config: Config, count: int = 4) -> torch.Tensor:
    size = config.model.image_size
    return torch.rand(count, config.model.channels, size, size, generator=torch.Generator().manual_seed(0))


def step_losses(
    model: Autoencoder, images: torch.Tensor, config: Config, step: int
) -> dict[str, torch.Tensor]:
    none = Prepared(np.empty((0, 1, 1, 1), np.uint8), np.arange(0), {})
    targets = Targets(RandomTPS(config.warp, config.model), none)
    batch = Batch(images, np.arange(len(images)))
    return STAGE.loss(model, batch, targets, config, step, generator_of(config.train.seed, step))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """The images that the decoder is asked to draw again, a batch for each step."""
    found: list[torch.Tensor] = []

    def noted(decoded: torch.Tensor, images: torch.Tensor, _: float) -> torch.Tensor:
        found.append(images)
        return decoded.mean()

    monkeypatch.setattr(losses, "reconstruction", noted)
    return found


def test_four_finite_losses_that_reach_every_weight(config: Config) -> None:
    model = Autoencoder(config.model, seed=0)
    terms = step_losses(model, images_for(config), config, step=3)
    assert set(terms) == {"recon", "conc", "sep", "eqv"}
    assert all(term.ndim == 0 and torch.isfinite(term) for term in terms.values())
    losses.total(terms, STAGE.weights(config, 0)).backward()
    for name, value in model.named_parameters():
        assert value.grad is not None, name
        assert torch.isfinite(value.grad).all(), name


def test_the_same_step_gives_the_same_losses(config: Config) -> None:
    model, images = Autoencoder(config.model, seed=0), images_for(config)
    torch.manual_seed(1)
    first = step_losses(model, images, config, step=3)
    torch.manual_seed(2)  # nothing is drawn from the global generator
    again = step_losses(model, images, config, step=3)
    other = step_losses(model, images, config, step=4)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["eqv"], other["eqv"])


def test_another_seed_gives_other_warps(micro: Config) -> None:
    model, images = Autoencoder(micro.model, seed=0), images_for(micro)
    seeded = replace(micro, train=replace(micro.train, seed=7))
    first, other = (step_losses(model, images, c, step=3)["eqv"] for c in (micro, seeded))
    assert not torch.equal(first, other)


def test_images_are_decoded_as_augmented(micro_colour: Config, seen: list[torch.Tensor]) -> None:
    model = Autoencoder(micro_colour.model, seed=0)
    images = images_for(micro_colour)
    step_losses(model, images, micro_colour, step=5)
    expected = augmented(images, micro_colour.train, generator_of(micro_colour.train.seed, 5))
    assert not torch.equal(expected, images)
    torch.testing.assert_close(seen[0], expected)


def test_the_warped_copy_is_augmented_on_its_own(micro_colour: Config) -> None:
    """What the detector sees second is a copy with a draw of its own, and the target of the decoder stays."""
    still = replace(
        micro_colour.warp, translation=0.0, rotation=0.0, scaling=1.0, grid_jitter=0.0, landmark_jitter=0.0
    )
    terms = []
    for relight in (False, True):
        config = replace(micro_colour, warp=still, train=replace(micro_colour.train, relight=relight))
        model = Autoencoder(config.model, seed=0).eval()
        terms.append(step_losses(model, images_for(config), config, step=0))
    assert terms[0]["eqv"] < 1e-6 < terms[1]["eqv"]
    assert terms[0]["recon"].item() == terms[1]["recon"].item()


def test_about_half_of_the_images_are_mirrored(micro: Config, seen: list[torch.Tensor]) -> None:
    config = replace(micro, train=replace(micro.train, mirror=True))
    model = Autoencoder(config.model, seed=0)
    images = images_for(config, 64)
    for step in (0, 1):
        step_losses(model, images, config, step)
    for found in seen:
        kept = (found == images).all(dim=(1, 2, 3))
        mirrored = (found == images.flip(3)).all(dim=(1, 2, 3))
        assert (kept ^ mirrored).all()
        assert 16 < mirrored.sum() < 48
    assert not torch.equal(*seen)  # other images in the next step


def test_without_a_warp_the_landmarks_stay(micro: Config) -> None:
    still = replace(
        micro.warp, translation=0.0, rotation=0.0, scaling=1.0, grid_jitter=0.0, landmark_jitter=0.0
    )
    config = replace(micro, warp=still)
    model = Autoencoder(config.model, seed=0).eval()
    moved, kept = (step_losses(model, images_for(micro), c, step=0)["eqv"].item() for c in (micro, config))
    assert kept < 1e-6
    assert moved > 1e-3


def test_far_landmarks_count_less_where_that_is_asked_for(config: Config) -> None:
    model = Autoencoder(config.model, seed=0)
    images = images_for(config)
    asked = replace(config, losses=replace(config.losses, eqv_linear=0.001))
    squared, linear = (step_losses(model, images, c, step=0)["eqv"].item() for c in (config, asked))
    assert linear < squared / 2


def test_similarity_counts_only_where_it_is_asked_for(config: Config) -> None:
    model = Autoencoder(config.model, seed=0)
    images = images_for(config)
    assert "ssim" not in step_losses(model, images, config, step=0)
    asked = replace(config, losses=replace(config.losses, ssim=3.0))
    terms = step_losses(model, images, asked, step=0)
    parts = STAGE.weights(asked, 0)
    assert parts["ssim"] == pytest.approx(3 * parts["recon"])
    model.zero_grad()
    (parts["ssim"] * terms["ssim"]).backward()
    assert max(value.grad.abs().max() for value in model.decoder.parameters() if value.grad is not None) > 0
    assert max(value.grad.abs().max() for value in model.detector.parameters() if value.grad is not None) > 0
