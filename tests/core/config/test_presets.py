"""The presets against the paper's tables (appendix G.1 and G.4), its layers and its sizes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import nn

from trigpoint.core.config.presets import PAPER_PRESETS, compact, preset, tiny
from trigpoint.core.config.tree import Config
from trigpoint.core.errors import TrigpointError
from trigpoint.learning.model.autoencoder import Autoencoder

K = 1000

# Appendix G.4: landmarks, learning rate decays, first reconstruction weight, its two increases,
# concentration, separation bandwidth and weight, equivariance, C. Shoes: printed as 20K, read 200K.
HYPER_PARAMETERS = {
    "celeba-10": (10, (100 * K, 200 * K), 0.01, (100 * K, 200 * K), 100, 0.06, 16, 1e4, 8),
    "celeba-30": (30, (100 * K, 200 * K), 0.1, (100 * K, 200 * K), 100, 0.04, 10, 1e4, 8),
    "aflw-10": (10, (100 * K, 200 * K), 0.1, (100 * K, 200 * K), 100, 0.06, 16, 1e4, 8),
    "aflw-30": (30, (100 * K, 200 * K), 0.0001, (100 * K, 200 * K), 100, 0.04, 10, 1e4, 8),
    "cat-10": (10, (100 * K, 200 * K), 0.0001, (100 * K, 200 * K), 100, 0.08, 20, 1e4, 8),
    "cat-20": (20, (100 * K, 200 * K), 0.0001, (100 * K, 200 * K), 100, 0.05, 10, 1e4, 8),
    "car-10": (10, (40 * K, 80 * K), 0.001, (40 * K, 50 * K), 100, 0.08, 200, 1e4, 8),
    "car-24": (24, (40 * K, 80 * K), 0.001, (40 * K, 50 * K), 100, 0.05, 200, 1e4, 8),
    "animal-10": (10, (20 * K, 50 * K), 0.001, (40 * K, 50 * K), 100, 0.08, 20, 1e4, 2),
    "shoes-8": (8, (100 * K, 200 * K), 0.01, (100 * K, 200 * K), 100, 0.05, 20, 1e4, 8),
    "human-16": (16, (100 * K, 200 * K), 0.1, (100 * K, 200 * K), 100, 0.06, 20, 1e4, 8),
}

# Appendix G.1: image edge, padded edge.
SIZES = {
    "celeba": (80, 96),
    "aflw": (80, 96),
    "cat": (80, 96),
    "shoes": (80, 96),
    "car": (64, 96),
    "animal": (64, 80),
    "human": (128, 192),
    "mnist": (28, 56),
}

PARAMETERS = {
    "celeba-10": 19_804_874,
    "celeba-30": 19_888_774,
    "human-16": 42_724_955,
    "mnist-7": 1_867_227,
    "animal-10": 19_796_426,
}

# Edges of the detection maps and of what the decoder starts from.
MAPS = {
    "celeba-10": (96, 80),
    "celeba-30": (96, 80),
    "human-16": (96, 64),
    "mnist-7": (56, 28),
    "animal-10": (80, 64),
}


def row(config: Config) -> tuple[object, ...]:
    model, losses, train = config.model, config.losses, config.train
    return (
        model.landmarks,
        train.lr_decay_at,
        losses.recon,
        train.recon_raise_at,
        losses.conc,
        losses.sep_sigma,
        losses.sep,
        losses.eqv,
        model.descriptor_size,
    )


def parameters(net: nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


@pytest.mark.parametrize("name", HYPER_PARAMETERS)
def test_hyper_parameters_are_those_of_the_table(name: str) -> None:
    assert row(preset(name)) == HYPER_PARAMETERS[name]


@pytest.mark.parametrize("name", PAPER_PRESETS)
def test_sizes_are_those_of_the_table(name: str) -> None:
    model = preset(name).model
    assert (model.image_size, model.padded_size) == SIZES[name.split("-")[0]]


def test_no_row_is_missing_or_unpinned() -> None:
    assert set(PAPER_PRESETS) == {*HYPER_PARAMETERS, "mnist-7", "celeba-10-release"}


@pytest.mark.parametrize("name", PAPER_PRESETS)
def test_training_is_that_of_the_paper(name: str) -> None:
    """Adam from 1e-3 in steps of ten, batch 16, but 8 for 30 landmarks or 128 pixels."""
    config = preset(name)
    train = config.train
    small = config.model.landmarks == 30 or config.model.image_size == 128
    assert train.batch_size == (8 if small else 16)
    assert (train.learning_rate, train.weight_decay, train.schedule) == (1e-3, 1e-6, "steps")
    assert train.landmark_points_at == (5 * K, 10 * K)
    # Digits are white on black; the paper jitters colour images.
    assert (train.brightness, train.contrast) == ((0, 0) if name == "mnist-7" else (32 / 255, 0.5))
    # Shoes have their colours in [0.1, 0.9]: in our [0, 1] the same deviation is 1 / 0.8 as large.
    assert config.losses.colour_sigma == (0.0625 if name == "shoes-8" else 0.05)
    assert config.model.colour_margin == (0.1 if name == "shoes-8" else 0)
    assert config.preset == name
    assert train.steps > max(*train.lr_decay_at, *train.recon_raise_at)


@pytest.mark.parametrize("name", PAPER_PRESETS)
def test_warps_are_those_of_the_paper(name: str) -> None:
    """Appendix G.3, with the release's scaling and half the printed jitter."""
    warp = preset(name).warp
    assert (warp.translation, warp.rotation, warp.scaling, warp.grid) == (0.15, 10.0, 1.25, 7)
    assert (warp.grid_jitter, warp.landmark_jitter, warp.landmark_share) == (0.05, 0.025, 0.3)


@pytest.mark.parametrize("name", PAPER_PRESETS)
def test_decoder_bandwidths_are_those_of_the_paper(name: str) -> None:
    """And raw scores go into the softmax as they are."""
    model = preset(name).model
    assert (model.decoder_sigma, model.decoder_levels, model.feature_channels) == (
        1 / 8,
        5,
        32 if name == "human-16" else 64,
    )
    assert model.detector_gain == 1.0


def test_release_differs_from_the_paper_in_three_weights() -> None:
    release = preset("celeba-10-release")
    assert (release.losses.recon, release.losses.sep_sigma, release.losses.sep) == (0.1, 0.08, 20)
    assert release.model == preset("celeba-10").model
    assert release.train == preset("celeba-10").train


def test_mnist_is_grey_and_has_no_descriptors() -> None:
    config = preset("mnist-7")
    assert (config.model.landmarks, config.model.channels, config.model.descriptor_size) == (7, 1, 0)


def test_only_cars_are_stretched() -> None:
    assert {name for name, config in PAPER_PRESETS.items() if config.fit == "stretch"} == {"car-10", "car-24"}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_and_map_sizes(name: str) -> None:
    model = Autoencoder(preset(name).model)
    assert parameters(model) == PARAMETERS[name]
    assert (model.detector.map_size, model.decoder.map_size) == MAPS[name]
    assert len(model.detector.cells) == MAPS[name][0] ** 2
    if model.descriptors is not None:
        assert model.descriptors.map_size == MAPS[name][0]


Levels = list[list[tuple[int, int | None]]]  # per resolution: (width down, width up or mirrored)


def conv(inputs: int, outputs: int) -> int:
    """Parameters of a 3x3 convolution with bias and its batch norm."""
    return 9 * inputs * outputs + outputs + 2 * outputs


def hourglass(inputs: int, levels: Levels, skip: int) -> tuple[int, int]:
    """Parameters and output width of an hourglass: the top level around the hourglass below it."""
    (top, *below), count, width = levels, 0, inputs
    way_up = []
    for down, up in top:
        count += conv(width, down)
        way_up.insert(0, width if up is None else up)
        width = down
    if below:
        inside, back = hourglass(width, below, skip)
        link = [width] + [max(width, back)] * (skip - 1) + [back]
        count += inside + sum(conv(a, b) for a, b in pairwise(link))
        width = back
    for up in way_up:
        count += conv(width, up)
        width = up
    return count, width


def test_parameters_of_celeba_follow_from_the_layer_widths() -> None:
    """K = 10, S = 64, C = 8, five bandwidths: counted from the table of layers alone."""
    k, s, c = 10, 64, 8
    detector = hourglass(
        3,
        [
            [(32, k + 1), (32, None)],
            [(64, None), (64, None)],
            [(64, None), (64, None)],
            [(64, None), (64, None)],
        ],
        skip=3,
    )
    features = hourglass(3, [[(32, s), (64, 64)], [(128, None)], [(256, None)], [(512, None)]], skip=2)
    decoder = hourglass(
        5 * (k + 1 + s),
        [[(64, 3), (64, 32)], [(128, 64)], [(256, None)], [(512, None)], [(512, None)]],
        skip=2,
    )
    operators = 2 * (k + 1) * s * c
    assert (detector[1], features[1], decoder[1]) == (k + 1, s, 3)
    assert detector[0] + features[0] + decoder[0] + operators == PARAMETERS["celeba-10"]

    model = Autoencoder(preset("celeba-10").model)
    assert model.descriptors is not None
    nets = (model.detector.net, model.descriptors.net, model.decoder.net)
    assert [parameters(net) for net in nets] == [detector[0], features[0], decoder[0]]


def layers(net: nn.Module, inputs: torch.Tensor) -> list[tuple[int, int, int]]:
    """(channels in, channels out, edge) of each convolution, in the order in which they run."""
    seen: list[tuple[int, int, int]] = []

    def note(module: nn.Module, _: object, output: torch.Tensor) -> None:
        assert isinstance(module, nn.Conv2d | nn.ConvTranspose2d)
        seen.append((module.in_channels, module.out_channels, output.shape[-1]))

    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            module.register_forward_hook(note)
    with torch.inference_mode():
        net.eval()(inputs)
    return seen


def test_layers_of_the_80_pixel_detector() -> None:
    """Down, then for each resolution upwards its skip-link of three and its mirrored pair."""
    model = Autoencoder(preset("celeba-10").model)
    assert layers(model.detector, torch.zeros(1, 3, 96, 96)) == [
        (3, 32, 96), (32, 32, 96),
        (32, 64, 48), (64, 64, 48),
        (64, 64, 24), (64, 64, 24),
        (64, 64, 12), (64, 64, 12),
        (64, 64, 12), (64, 64, 12),
        (64, 64, 24), (64, 64, 24), (64, 64, 24), (64, 64, 24), (64, 64, 24),
        (64, 64, 48), (64, 64, 48), (64, 64, 48), (64, 64, 48), (64, 32, 48),
        (32, 32, 96), (32, 32, 96), (32, 32, 96), (32, 32, 96), (32, 11, 96),
    ]  # fmt: skip


def test_layers_of_the_128_pixel_detector() -> None:
    """A stem that halves 192 pixels, skip-links of two, and a 1x1 convolution to K + 1."""
    model = Autoencoder(preset("human-16").model)
    assert layers(model.detector, torch.zeros(1, 3, 192, 192)) == [
        (3, 32, 192),
        (32, 64, 96), (64, 128, 48), (128, 256, 24), (256, 512, 12), (512, 512, 6),
        (512, 512, 6),
        (512, 512, 12), (512, 512, 12), (512, 256, 12),
        (256, 256, 24), (256, 256, 24), (256, 128, 24),
        (128, 128, 48), (128, 128, 48), (128, 64, 48),
        (64, 64, 96), (64, 64, 96), (64, 32, 96),
        (32, 17, 96),
    ]  # fmt: skip
    last = [m for m in model.detector.modules() if isinstance(m, nn.Conv2d) and m.out_channels == 17]
    assert [m.kernel_size for m in last] == [(1, 1)]


def test_compact_is_small() -> None:
    assert 100 * K < parameters(Autoencoder(preset("compact-10").model)) < 1000 * K


@pytest.mark.parametrize(("landmarks", "expected"), [(10, (0.08, 20)), (20, (0.05, 10)), (30, (0.04, 10))])
def test_compact_separates_many_landmarks_less(landmarks: int, expected: tuple[float, float]) -> None:
    losses = preset(f"compact-{landmarks}").losses
    assert (losses.sep_sigma, losses.sep) == expected


def test_the_paper_has_adam_and_compact_has_muon() -> None:
    for name in PAPER_PRESETS:
        assert (preset(name).train.optimiser, preset(name).train.learning_rate) == ("adam", 1e-3)
    assert (preset("compact-10").train.optimiser, preset("compact-10").train.learning_rate) == ("muon", 0.02)


def test_an_hour_is_compact_for_longer() -> None:
    found, base = preset("hour-30"), preset("compact-30")
    assert (found.model, found.losses, found.warp) == (base.model, base.losses, base.warp)
    assert found.train.eqv_rise == base.train.eqv_rise
    assert found.train.steps == 14_000
    assert found.train.recon_raise_at == (7000,)  # half-way, as there
    assert (found.train.weight_decay, base.train.weight_decay) == (0.05, 1e-6)  # for steps that keep counting
    assert found.preset == "hour-30"


def test_every_preset_looks_once() -> None:
    names = [*PAPER_PRESETS, "compact-10", "hour-30", "detail-10", "tiny-7"]
    assert {preset(name).views for name in names} == {1}


def test_every_preset_but_detail_keeps_to_the_losses_of_the_paper() -> None:
    names = [*PAPER_PRESETS, "compact-10", "hour-30", "tiny-7"]
    assert {(preset(name).losses.ssim, preset(name).losses.eqv_linear) for name in names} == {(0.0, 0.0)}


def test_detail_is_an_hour_with_losses_and_descriptors_of_its_own() -> None:
    found, base = preset("detail-10"), preset("hour-10")
    assert (found.warp, found.train) == (base.warp, base.train)
    assert found.model == replace(base.model, descriptor_size=16)
    assert found.losses == replace(base.losses, recon=0.003, ssim=10.0, eqv_linear=0.03)
    assert found.preset == "detail-10"


def test_tiny_weights() -> None:
    losses = preset("tiny-7").losses
    assert (losses.recon, losses.conc, losses.sep, losses.eqv, losses.sep_sigma) == (0.01, 100, 16, 1e4, 0.08)


def test_families_take_any_number_of_landmarks() -> None:
    assert preset("compact-13") == compact(13)
    assert preset("tiny-4") == tiny(4)
    assert preset("tiny-4").model.landmarks == 4
    assert preset("tiny-4").preset == "tiny-4"


@pytest.mark.parametrize(
    "name", ["celeba", "celeba-11", "compact", "compact-", "compact--1", "tiny-x", "", " tiny-7"]
)
def test_unknown_preset_is_named(name: str) -> None:
    with pytest.raises(TrigpointError) as caught:
        preset(name)
    assert repr(name) in str(caught.value)
    assert "celeba-10" in str(caught.value)


@pytest.mark.parametrize("name", ["compact-0", "compact-101", "tiny-999999"])
def test_impossible_number_of_landmarks_is_refused(name: str) -> None:
    with pytest.raises(TrigpointError, match=f"got {name.split('-')[1]}"):
        preset(name)
