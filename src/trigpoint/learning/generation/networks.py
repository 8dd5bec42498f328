"""The generator and its critic (section 4.4 and appendix G.5): a landmark-conditioned BEGAN."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn

from trigpoint.core.config.generator import GeneratorConfig
from trigpoint.core.config.tree import ModelConfig
from trigpoint.core.errors import TrigpointError
from trigpoint.core.spec import parse
from trigpoint.learning import tensors
from trigpoint.learning.model.decoder import score_maps
from trigpoint.learning.nets.hourglass import LEAK, Hourglass, Upsample, conv_block, initialise

WIDEST = 4  # times `width`: no map of the latent has more channels
SMALLEST_LATENT, SMALLEST_CODE = 4, 8  # pixels: the edges at which the latent and the critic's code sit


def halvings(size: int, smallest: int) -> int:
    """How often an edge can be halved without a rest and without going below `smallest`."""
    count = 0
    while size % 2 == 0 and size // 2 >= smallest:
        size //= 2
        count += 1
    return count


class Generator(nn.Module):
    """Latents (B, L) and landmarks (B, K, 2) -> images (B, C, n, n) in [0, 1].

    The latent goes through up-convolutions to a map, the reconstructed detection maps through convolutions to
    another of the same size. Their product and both of them side by side are what the decoding network gets.
    """

    cells: Tensor  # (h*w, 2)
    variances: Tensor  # (M,)

    def __init__(self, config: GeneratorConfig, model: ModelConfig) -> None:
        super().__init__()
        spec = parse(config.decoder or model.decoder)
        if model.image_size % (spec.enlargement * spec.reduction) or spec.stem_reduction > 1:
            raise TrigpointError(
                f"generator.decoder must give an image of {model.image_size} pixels; got {config.decoder!r}."
            )
        self.latent = config.latent
        self.map_size = model.image_size // spec.enlargement
        levels = halvings(self.map_size, SMALLEST_LATENT)
        self.start_size = self.map_size // 2**levels
        widths = [config.width * min(WIDEST, 2**level) for level in reversed(range(levels + 1))]
        self.start = nn.Linear(config.latent, widths[0] * self.start_size**2)
        ups: list[nn.Module] = [nn.BatchNorm2d(widths[0]), nn.LeakyReLU(LEAK, inplace=True)]
        for before, after in itertools.pairwise(widths):
            ups.append(conv_block(before, after, bias=False, up="transposed"))
        ups.append(conv_block(config.width, config.width, bias=False))
        self.up = nn.Sequential(*ups)
        inputs = (model.landmarks + 1) * model.decoder_levels
        self.structure = nn.Sequential(
            conv_block(inputs, config.width, bias=False), conv_block(config.width, config.width, bias=False)
        )
        self.net = Hourglass(spec, 3 * config.width, model.channels, bias=False)
        sigmas = [model.decoder_sigma * math.sqrt(2) ** i for i in range(model.decoder_levels)]
        cells = tensors.grid(self.map_size, model.image_size, model.image_size)
        self.register_buffer("cells", cells, persistent=False)
        self.register_buffer("variances", torch.tensor(sigmas).square(), persistent=False)

    def forward(self, latents: Tensor, landmarks: Tensor) -> Tensor:
        count, size = len(latents), self.map_size
        start = self.start(latents).reshape(count, -1, self.start_size, self.start_size)
        appearance = self.up(start.contiguous(memory_format=torch.channels_last))  # (B, W, h, w)
        maps = score_maps(landmarks, self.cells, self.variances).reshape(count, -1, size, size)
        structure = self.structure(maps.contiguous(memory_format=torch.channels_last))  # (B, W, h, w)
        fused = torch.cat((appearance * structure, appearance, structure), dim=1)
        return torch.sigmoid(self.net(fused))


class Critic(nn.Module):
    """BEGAN's discriminator: an autoencoder whose error is the energy. Images in [-1, 1], no batch norm."""

    def __init__(self, config: GeneratorConfig, model: ModelConfig) -> None:
        super().__init__()
        levels = max(1, halvings(model.image_size, SMALLEST_CODE))
        if model.image_size % 2**levels:
            raise TrigpointError(
                f"A generator needs images of an even size; the model's have {model.image_size}."
            )
        width = config.critic_width
        down: list[nn.Module] = [nn.Conv2d(model.channels, width, 3, 2, 1), nn.ELU(inplace=True)]
        for level in range(1, levels):
            down += [conv(level * width, level * width), nn.ELU(inplace=True)]
            down += [conv(level * width, (level + 1) * width, 2), nn.ELU(inplace=True)]
        down += [conv(levels * width, levels * width), nn.ELU(inplace=True)]
        self.down = nn.Sequential(*down)
        self.code_shape = (levels * width, model.image_size // 2**levels, model.image_size // 2**levels)
        self.code = nn.Linear(math.prod(self.code_shape), config.critic_hidden)
        self.start = nn.Linear(config.critic_hidden, width * self.code_shape[1] ** 2)
        up: list[nn.Module] = []
        for _ in range(levels):
            up += [conv(width, width), nn.ELU(inplace=True), Upsample()]
        self.up = nn.Sequential(*up, conv(width, model.channels))
        self.width = width

    def forward(self, images: Tensor) -> Tensor:
        code = self.code(self.down(images.contiguous(memory_format=torch.channels_last)).flatten(1))  # (B, h)
        size = self.code_shape[1]
        start = self.start(code).reshape(len(images), self.width, size, size)
        return self.up(start.contiguous(memory_format=torch.channels_last))

    def energy(self, images: Tensor) -> Tensor:
        """Images (B, C, n, n) in [0, 1] -> the mean absolute error of each, in [-1, 1]: (B,)."""
        scaled = images * 2 - 1
        return (scaled - self(scaled)).abs().mean((1, 2, 3))


def conv(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, 1)


class Adversaries(nn.Module):
    """Generator, critic, and the balance between them: all that a training must remember."""

    k: Tensor  # k_t, in [0, 1]: how much the critic minds the energy of generated images

    def __init__(self, config: GeneratorConfig, model: ModelConfig) -> None:
        super().__init__()
        self.generator = Generator(config, model)
        self.critic = Critic(config, model)
        self.register_buffer("k", torch.zeros(()))
        generator = torch.Generator().manual_seed(config.seed)
        initialise(self, generator)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=module.in_features**-0.5, generator=generator)
                nn.init.zeros_(module.bias)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
