"""The hourglass network: shapes, its last layer, gradients, skip-links and first weights."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from trigpoint.core.spec import parse
from trigpoint.learning.nets.hourglass import (
    BATCH_NORM_EPS,
    LEAK,
    Hourglass,
    UpConv2d,
    conv_block,
    folded,
    initialise,
)

NETS = [
    "8/out 8 S3 P 12 S2 P 16",
    "8 P | 12/10 S1 P 12 S2 P 16 | out1",
    "D8 | 12 S1 P 16 | U 6 out",
    "| 12/10 S2 P 16 | T6 out",
    "D8 | 12 S1 P 16 | U U 6 U out1",  # enlarged before another enlargement and before a 1x1
    "8/out 6 P 8",  # no skip-link
    "6/out",  # nothing but a pair
]


def build(text: str, inputs: int = 3, outputs: int = 5, *, bias: bool = True, seed: int = 0) -> Hourglass:
    net = Hourglass(parse(text), inputs, outputs, bias=bias)
    initialise(net, torch.Generator().manual_seed(seed))
    return net


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize(
    ("text", "edge"),
    [
        (NETS[0], 16),
        (NETS[1], 8),
        (NETS[2], 16),
        (NETS[3], 32),
        (NETS[4], 64),
        (NETS[5], 16),
        (NETS[6], 16),
    ],
)
def test_output_shape(text: str, edge: int) -> None:
    assert build(text)(noise(2, 3, 16, 16)).shape == (2, 5, edge, edge)


def test_any_divisible_size_will_do() -> None:
    net = build(NETS[0])
    assert net(noise(2, 3, 28, 28)).shape == (2, 5, 28, 28)


@pytest.mark.parametrize("text", NETS)
def test_last_layer_has_batch_norm_and_no_activation(text: str) -> None:
    """In training each output channel has mean 0 and variance 1, which no LeakyReLU would leave."""
    net = build(text).double().train()
    out = net(noise(4, 3, 16, 16).double())
    torch.testing.assert_close(out.mean((0, 2, 3)), torch.zeros(5).double(), atol=1e-9, rtol=0)
    torch.testing.assert_close(out.var((0, 2, 3), correction=0), torch.ones(5).double(), atol=0.05, rtol=0)


@pytest.mark.parametrize("text", NETS)
def test_every_other_convolution_has_an_activation(text: str) -> None:
    net = build(text)
    count = {kind: sum(isinstance(m, kind) for m in net.modules()) for kind in (nn.BatchNorm2d, nn.LeakyReLU)}
    convs = sum(isinstance(m, nn.Conv2d | nn.ConvTranspose2d) for m in net.modules())
    assert count[nn.BatchNorm2d] == convs
    assert count[nn.LeakyReLU] == convs - 1


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("text", NETS)
def test_gradients_reach_every_parameter(text: str, bias: bool) -> None:
    """Not those of a bias before batch norm, which takes it away again."""
    net = build(text, bias=bias).train()
    out = net(noise(4, 3, 16, 16))
    (out * noise(*out.shape)).sum().backward()
    convs = [
        name for name, module in net.named_modules() if isinstance(module, nn.Conv2d | nn.ConvTranspose2d)
    ]
    ahead = {f"{name}.bias" for name in convs}
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.any()) or name in ahead, name


def test_bias_is_an_option() -> None:
    with_bias, without = build(NETS[0]), build(NETS[0], bias=False)
    convs = [m for m in with_bias.modules() if isinstance(m, nn.Conv2d)]
    extra = sum(p.numel() for p in with_bias.parameters()) - sum(p.numel() for p in without.parameters())
    assert extra == sum(m.out_channels for m in convs)


def test_skip_link_is_added_on_the_way_back() -> None:
    """With a link that gives nothing the net equals one without a link."""
    linked, plain = build("8/out 6 S2 P 8").eval(), build("8/out 6 P 8").eval()
    state = linked.state_dict()
    plain.load_state_dict({name: state[name] for name in plain.state_dict()})
    images = noise(2, 3, 8, 8)
    assert not torch.allclose(linked(images), plain(images))
    with torch.no_grad():
        for block in linked.skips[-1]:
            for parameter in block.parameters():
                parameter.zero_()
    torch.testing.assert_close(linked(images), plain(images))


@pytest.mark.parametrize(
    ("text", "widths"),
    [
        ("8/out S3 P 16/12", [(8, 12), (12, 12), (12, 12)]),
        ("12/out S3 P 16/8", [(12, 12), (12, 12), (12, 8)]),
        ("12/out S1 P 16/8", [(12, 8)]),
    ],
)
def test_skip_link_is_as_wide_as_its_wider_end(text: str, widths: list[tuple[int, int]]) -> None:
    """And its last layer fits the way up."""
    net = build(text)
    convs = [m for m in net.skips.modules() if isinstance(m, nn.Conv2d)]
    assert [(m.in_channels, m.out_channels) for m in convs] == widths
    assert net(noise(2, 3, 8, 8)).shape == (2, 5, 8, 8)


def test_hourglass_of_two_levels_layer_by_layer() -> None:
    """Pooling, upsampling and addition against the same written out."""
    net = build("8/out S1 P 12").eval()
    images = noise(2, 3, 8, 8)
    top = net.down[0](images)
    low = net.up[0](net.down[1](nn.functional.max_pool2d(top, 2)))
    back = low.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
    torch.testing.assert_close(net(images), net.up[1](back + net.skips[1](top)))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("inputs", "outputs", "edge"), [(1, 1, 1), (4, 3, 5), (3, 8, 8)])
def test_up_convolution_is_one_of_the_enlarged_image(
    inputs: int, outputs: int, edge: int, bias: bool
) -> None:
    """Result and gradients, to the edge; the weights are those of the plain layer."""
    ours = UpConv2d(inputs, outputs, 3, padding=1, bias=bias).double()
    plain = nn.Conv2d(inputs, outputs, 3, padding=1, bias=bias).double()
    plain.load_state_dict(ours.state_dict())
    small = noise(2, inputs, edge, edge).double().requires_grad_()
    large = small.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
    results = ours(small), plain(large)
    torch.testing.assert_close(*results)
    weights = noise(*results[0].shape).double()
    gradients = [
        torch.autograd.grad((result * weights).sum(), (small, *conv.parameters()), retain_graph=True)
        for result, conv in zip(results, (ours, plain), strict=True)
    ]
    torch.testing.assert_close(*gradients)


def test_enlarging_layers_are_named_by_their_place() -> None:
    """As they were when each enlargement was a layer of its own: older models load."""
    net = build("| 12/10 S2 P 16 | U 6 U 4 out", bias=False)
    names = {name for name, _ in net.tail.named_parameters()}
    assert names == {f"{i}.{part}" for i in (1, 3, 4) for part in ("0.weight", "1.weight", "1.bias")}
    assert [isinstance(block[0], UpConv2d) for block in net.tail] == [True, True, False]  # type: ignore[index]


def test_conv_block_is_convolution_batch_norm_leaky_relu() -> None:
    block = conv_block(3, 4, bias=True)
    assert [type(layer) for layer in block] == [nn.Conv2d, nn.BatchNorm2d, nn.LeakyReLU]
    assert isinstance(block[1], nn.BatchNorm2d)
    assert block[1].eps == BATCH_NORM_EPS == 1e-3
    assert isinstance(block[2], nn.LeakyReLU)
    assert block[2].negative_slope == LEAK


def test_seed_alone_decides_the_weights() -> None:
    """Whatever the global generator has done before."""
    torch.manual_seed(1)
    one = build(NETS[3], seed=5).state_dict()
    torch.manual_seed(2)
    same, other = build(NETS[3], seed=5).state_dict(), build(NETS[3], seed=6).state_dict()
    for name, tensor in one.items():
        assert torch.equal(tensor, same[name]), name
        if tensor.ndim == 4:
            assert not torch.equal(tensor, other[name]), name


def test_weights_are_he_normal() -> None:
    """Standard deviation sqrt(2 / (1 + leak^2) / fan-in), biases 0."""
    net = Hourglass(parse("64/out P 64"), 32, 32, bias=True)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(3.0)
    initialise(net, torch.Generator().manual_seed(0))
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            expected = math.sqrt(2 / (1 + LEAK**2) / (9 * module.in_channels))
            assert module.weight.std().item() == pytest.approx(expected, rel=0.03)
            assert abs(module.weight.mean().item()) < 0.03 * expected
            assert module.bias is not None
            assert not module.bias.any()


@pytest.mark.parametrize("text", NETS)
@pytest.mark.parametrize("bias", [True, False])
def test_a_folded_net_gives_the_same_without_batch_norms(text: str, bias: bool) -> None:
    net = build(text, bias=bias).train()
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):  # statistics of its own
        net(2 * torch.rand(4, 3, 32, 32, generator=generator) - 0.5)
    net.eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    small = folded(net)
    images = torch.rand(2, 3, 32, 32, generator=generator)
    torch.testing.assert_close(small(images), net(images), atol=1e-5, rtol=1e-4)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in small.modules())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
