"""The arithmetic of a training step against a count by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from trigpoint.core.config.presets import preset
from trigpoint.core.config.tree import with_values
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.training.loop import part_of
from trigpoint.learning.training.speed import step_gflop


def gflop_of_convolutions(net: nn.Module, edge: int) -> list[float]:
    """Of each convolution, for one image: two for every weight and output pixel."""
    found = []

    def note(conv: nn.Module, _: object, output: torch.Tensor) -> None:
        assert isinstance(conv, nn.Conv2d)
        found.append(2 * conv.weight.numel() * output.shape[-1] ** 2 / 1e9)

    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(note)
    with torch.no_grad():
        net(torch.rand(1, 3, edge, edge))
    return found


def test_a_step_of_the_detector_alone_is_one_pass_forward_and_back() -> None:
    """Back is twice forward, but the images need no gradient. Little else multiplies: splines, moments."""
    config = with_values(preset("compact-10"), ["train.part=detector"])
    model = Autoencoder(config.model)
    part_of(model.requires_grad_(False), config.train).requires_grad_(True)
    work = step_gflop(model, config)
    forward = gflop_of_convolutions(model.detector.net.eval(), config.model.padded_size)
    expected = 3 * sum(forward) - forward[0]
    assert expected < work < 1.05 * expected


@pytest.mark.parametrize("landmarks", [4, 30])
def test_a_whole_step_has_two_such_passes_and_the_decoder(landmarks: int) -> None:
    config = preset(f"compact-{landmarks}")
    model = Autoencoder(config.model)
    work = step_gflop(model, config)
    forward = gflop_of_convolutions(model.detector.net.eval(), config.model.padded_size)
    alone = 3 * sum(forward) - forward[0]
    assert 2.5 * alone < work < 6 * alone
