"""Generator and critic: shapes, what they depend on, and their equations computed another way."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from trigpoint.core.config.generator import GeneratorConfig
from trigpoint.core.config.tree import ModelConfig
from trigpoint.core.errors import TrigpointError
from trigpoint.learning.generation.networks import Adversaries, Critic, Generator, halvings

SMALL = GeneratorConfig(latent=6, width=4, critic_width=3, critic_hidden=5)
HALF = "| 8/8 S1 P 8 | U 8 out"  # maps of half the image's size
QUARTER = "| 8/8 S1 P 8 | U 8 U out"
WHOLE = "8/out S1 P 8"


def model_of(size: int, channels: int = 1, decoder: str = HALF) -> ModelConfig:
    return ModelConfig(
        landmarks=3, channels=channels, image_size=size, padded_size=size + 8, decoder=decoder,
        decoder_levels=2,
    )  # fmt: skip


def inputs(count: int = 2, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Latents and landmarks."""
    source = torch.Generator().manual_seed(seed)
    return torch.randn(count, 6, generator=source), torch.rand(count, 3, 2, generator=source)


@pytest.mark.parametrize(
    ("size", "smallest", "count"),
    [(28, 4, 2), (28, 8, 1), (64, 8, 3), (64, 4, 4), (32, 8, 2), (80, 8, 3), (7, 4, 0), (4, 4, 0), (8, 8, 0),
     (12, 4, 1), (1, 4, 0)],
)  # fmt: skip
def test_halvings(size: int, smallest: int, count: int) -> None:
    assert halvings(size, smallest) == count


# Shapes


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("size", "decoder", "map_size"),
    [(28, HALF, 14), (32, HALF, 16), (64, QUARTER, 16), (64, WHOLE, 64), (28, WHOLE, 28)],
)
def test_images_have_the_models_size_and_channels(
    size: int, decoder: str, map_size: int, channels: int
) -> None:
    both = Adversaries(SMALL, model_of(size, channels, decoder))
    assert both.generator.map_size == map_size
    latents, landmarks = inputs(3)
    made = both.generator(latents, landmarks)
    assert made.shape == (3, channels, size, size)
    assert made.dtype == torch.float32
    assert made.min() >= 0
    assert made.max() <= 1
    assert both.critic(made).shape == made.shape
    assert both.critic.energy(made).shape == (3,)


@pytest.mark.parametrize(
    ("size", "shape"), [(28, (3, 14, 14)), (32, (6, 8, 8)), (64, (9, 8, 8)), (8, (3, 4, 4))]
)
def test_the_critics_code_sits_at_eight_pixels_or_above(size: int, shape: tuple[int, ...]) -> None:
    critic = Critic(SMALL, model_of(size))
    assert critic.code_shape == shape
    assert (critic.code.in_features, critic.code.out_features) == (math.prod(shape), 5)
    assert critic(torch.zeros(1, 1, size, size)).shape == (1, 1, size, size)


def test_the_latents_map_grows_from_four_pixels_and_is_at_most_four_times_as_wide() -> None:
    generator = Generator(SMALL, model_of(64, decoder=WHOLE))  # 4, 8, 16, 32, 64 pixels
    assert generator.start_size == 4
    widths = [layer.out_channels for layer in generator.up.modules() if isinstance(layer, nn.ConvTranspose2d)]
    assert generator.start.out_features == 4 * 4 * 4**2
    assert widths == [16, 16, 8, 4]


# What the output depends on


def test_the_image_depends_on_every_latent_and_every_landmark() -> None:
    generator = Adversaries(SMALL, model_of(28)).generator.eval()
    latents, landmarks = (value.requires_grad_() for value in inputs())
    generator(latents, landmarks).square().sum().backward()
    assert latents.grad is not None
    assert landmarks.grad is not None
    assert (latents.grad.abs() > 1e-6).all()
    assert (landmarks.grad.abs() > 1e-6).all()


@torch.no_grad()
def test_other_latents_or_other_landmarks_give_another_image() -> None:
    generator = Adversaries(SMALL, model_of(28)).generator.eval()
    (latents, landmarks), (others, elsewhere) = inputs(), inputs(seed=1)
    first = generator(latents, landmarks)
    assert torch.equal(first, generator(latents, landmarks))
    assert (first - generator(others, landmarks)).abs().mean() > 1e-3
    assert (first - generator(latents, elsewhere)).abs().mean() > 1e-3


@torch.no_grad()
def test_in_use_images_do_not_depend_on_their_neighbours() -> None:
    both = Adversaries(SMALL, model_of(28)).eval()
    latents, landmarks = inputs(5)
    together = both.generator(latents, landmarks)
    alone = torch.cat([both.generator(latents[i : i + 1], landmarks[i : i + 1]) for i in range(5)])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    energies = torch.cat([both.critic.energy(image[None]) for image in together])
    torch.testing.assert_close(both.critic.energy(together), energies, rtol=1e-4, atol=1e-5)


def test_the_critic_has_no_batch_norm() -> None:
    critic = Critic(SMALL, model_of(32))
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in critic.modules())


# The equations, another way


def heat_maps(landmarks: np.ndarray, size: int, sigmas: list[float]) -> np.ndarray:
    """Eq. 11 and 12 pixel by pixel: (M, K + 1, size, size)."""
    maps = np.zeros((len(sigmas), len(landmarks) + 1, size, size))
    for m, sigma in enumerate(sigmas):
        for row in range(size):
            for column in range(size):
                x, y = (column + 0.5) / size, (row + 0.5) / size
                scores = [
                    math.exp(-((x - px) ** 2 + (y - py) ** 2) / (2 * sigma**2)) / (2 * math.pi * sigma**2)
                    for px, py in landmarks
                ]
                scores.append(1.0)
                maps[m, :, row, column] = np.array(scores) / sum(scores)
    return maps


@torch.no_grad()
def test_the_decoder_gets_the_product_of_both_maps_and_both_maps() -> None:
    model = model_of(28)
    generator = Adversaries(SMALL, model).generator.eval()
    latents, landmarks = inputs(1)
    seen: list[Tensor] = []
    generator.net.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    made = generator(latents, landmarks)

    start = latents @ generator.start.weight.T + generator.start.bias
    appearance = generator.up(start.reshape(1, 8, 7, 7))
    sigmas = [model.decoder_sigma, model.decoder_sigma * math.sqrt(2)]
    maps = heat_maps(landmarks[0].double().numpy(), 14, sigmas)
    structure = generator.structure(torch.from_numpy(maps.reshape(1, 8, 14, 14)).float())
    assert appearance.shape == structure.shape == (1, 4, 14, 14)
    expected = torch.cat((appearance * structure, appearance, structure), dim=1)
    torch.testing.assert_close(seen[0], expected, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(made, 1 / (1 + torch.exp(-generator.net(seen[0]))), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_energy_is_the_mean_absolute_error_between_minus_one_and_one() -> None:
    critic = Adversaries(SMALL, model_of(28, channels=3)).critic
    images = torch.rand(2, 3, 28, 28, generator=torch.Generator().manual_seed(0))
    copies = critic(images * 2 - 1).numpy()
    for image, copied, energy in zip(images.numpy(), copies, critic.energy(images), strict=True):
        errors = [abs(2 * float(a) - 1 - float(b)) for a, b in zip(image.flat, copied.flat, strict=True)]
        assert energy.item() == pytest.approx(sum(errors) / len(errors), rel=1e-4)


@torch.no_grad()
def test_energy_by_hand() -> None:
    """A critic that answers every image with grey, which is 0."""
    critic = Critic(SMALL, model_of(28))
    last = critic.up[-1]
    assert isinstance(last, nn.Conv2d)
    assert last.bias is not None
    last.weight.zero_()
    last.bias.zero_()
    values = torch.tensor([0.0, 0.5, 0.75, 1.0])
    images = values[:, None, None, None].expand(4, 1, 28, 28)
    assert critic.energy(images).tolist() == pytest.approx([1.0, 0.0, 0.5, 1.0])
    last.bias.fill_(0.25)
    assert critic.energy(images).tolist() == pytest.approx([1.25, 0.25, 0.25, 0.75])


# From a seed


def test_a_seed_decides_all_weights() -> None:
    states = []
    for number, seed in enumerate((5, 5, 6)):
        torch.manual_seed(number)
        states.append(Adversaries(replace(SMALL, seed=seed), model_of(28)).state_dict())
    first, again, other = states
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    differing = {name for name, value in first.items() if not torch.equal(value, other[name])}
    assert {name for name in first if name.endswith("weight") and first[name].ndim > 1} <= differing


def test_k_begins_at_nothing_and_is_remembered() -> None:
    both = Adversaries(SMALL, model_of(28))
    assert both.k.item() == 0
    assert "k" in both.state_dict()
    assert "k" not in dict(both.named_parameters())


# What cannot be built


@pytest.mark.parametrize(
    ("size", "own", "decoder", "words"),
    [
        (27, "8/out", "", "A generator needs images of an even size; the model's have 27."),
        (28, HALF, "| 8 P 8 P 8 P 8 | out", "generator.decoder must give an image of 28 pixels; got '| 8 P"),
        (28, HALF, "| 8 | U U U out", "generator.decoder must give an image of 28 pixels; got"),
        (28, HALF, "P | 8 | U out", "generator.decoder must give an image of 28 pixels; got"),
        (28, HALF, "| banana | out", "Unknown layer 'banana' in the network"),
        (28, HALF, "| 8 | 8", "must end in 'out'."),
    ],
)
def test_what_cannot_be_built_is_refused_in_one_sentence(
    size: int, own: str, decoder: str, words: str
) -> None:
    with pytest.raises(TrigpointError) as caught:
        Adversaries(replace(SMALL, decoder=decoder), model_of(size, decoder=own))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
