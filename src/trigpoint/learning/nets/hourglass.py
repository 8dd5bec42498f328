"""The hourglass network of appendix G.2, built from its one-line notation (`core/spec.py`)."""

from __future__ import annotations

import copy
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from trigpoint.core.spec import OUT, HourglassSpec

BATCH_NORM_EPS = 1e-3
LEAK = 0.2
Net = TypeVar("Net", bound=nn.Module)


def conv_block(
    inputs: int,
    outputs: int,
    *,
    kernel: int = 3,
    bias: bool,
    activation: bool = True,
    stride: int = 1,
    up: Literal["", "transposed", "nearest"] = "",
) -> nn.Sequential:
    """Convolution, batch norm, LeakyReLU; `up` for one that doubles the size."""
    conv: nn.Module
    if up == "transposed":
        conv = nn.ConvTranspose2d(inputs, outputs, kernel, 2, 1, output_padding=1, bias=bias)
    elif up == "nearest":
        conv = UpConv2d(inputs, outputs, kernel, padding=kernel // 2, bias=bias)
    else:
        conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=bias)
    layers: list[nn.Module] = [conv, nn.BatchNorm2d(outputs, eps=BATCH_NORM_EPS)]
    if activation:
        layers.append(nn.LeakyReLU(LEAK, inplace=True))
    return nn.Sequential(*layers)


class Upsample(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=2.0, mode="nearest")


class UpConv2d(nn.Conv2d):
    """A 3x3 convolution of the image enlarged by repeating each pixel, without drawing the larger image.

    Of the nine pixels under the kernel at most four are different, so the convolution is also a transposed
    one of stride 2, whose 4x4 kernel sums neighbouring weights: 4/9 of the arithmetic.
    """

    def forward(self, x: Tensor) -> Tensor:
        kernel = F.avg_pool2d(self.weight.flip(2, 3), 2, stride=1, padding=1, divisor_override=1)
        return F.conv_transpose2d(x, kernel.transpose(0, 1), self.bias, stride=2, padding=1)


class Hourglass(nn.Module):
    """(B, in, n, n) -> (B, out, m, m), m = n / spec.stem_reduction * spec.enlargement."""

    def __init__(self, spec: HourglassSpec, inputs: int, outputs: int, *, bias: bool) -> None:
        super().__init__()
        width = inputs
        stem: list[nn.Module] = []
        for token in spec.stem:
            if token == "P":
                stem.append(nn.MaxPool2d(2))
            else:
                stride, after = (2, int(token[1:])) if token[0] == "D" else (1, int(token))
                stem.append(conv_block(width, after, bias=bias, stride=stride))
                width = after
        self.stem = nn.Sequential(*stem)

        self.down = nn.ModuleList()
        self.up = nn.ModuleList()
        self.skips = nn.ModuleList()
        mirrors: list[list[int]] = []  # output widths on the way up, level by level, from the top
        widths_down: list[int] = []
        for level in spec.levels:
            blocks, mirror = [], []
            for conv in level.convs:
                blocks.append(conv_block(width, conv.width, bias=bias))
                back = width if conv.mirror is None else conv.mirror
                mirror.append(outputs if back == OUT else back)
                width = conv.width
            self.down.append(nn.Sequential(*blocks))
            mirrors.append(mirror)
            widths_down.append(width)

        self.pool = nn.MaxPool2d(2)
        self.upsample = Upsample()
        for depth in reversed(range(len(spec.levels))):
            level = spec.levels[depth]
            is_bottom = depth == len(spec.levels) - 1
            chain: list[nn.Module] = []  # stays empty where there is no link
            if not is_bottom:
                # Inside a skip-link the wider of its two ends; its last layer fits the way up.
                inner = max(widths_down[depth], width)
                current = widths_down[depth]
                for i in range(level.skip):
                    after = width if i == level.skip - 1 else inner
                    chain.append(conv_block(current, after, bias=bias))
                    current = after
            self.skips.append(nn.Sequential(*chain))
            blocks = []
            for i, after in enumerate(reversed(mirrors[depth])):
                is_last = depth == 0 and i == len(mirrors[depth]) - 1 and not spec.tail
                blocks.append(conv_block(width, after, bias=bias, activation=not is_last))
                width = after
            self.up.append(nn.Sequential(*blocks))

        self.tail = nn.Sequential()  # a layer's name is its place in the notation
        for i, token in enumerate(spec.tail):
            kernel = 1 if token == "out1" else 3
            up: Literal["", "transposed", "nearest"] = "transposed" if token.startswith("T") else ""
            if token == "U":
                if not _is_conv3(spec.tail[i + 1]):
                    self.tail.add_module(str(i), self.upsample)
                continue
            if i and spec.tail[i - 1] == "U" and _is_conv3(token):
                up = "nearest"
            after = outputs if token.startswith("out") else int(token.lstrip("T"))
            activation = i < len(spec.tail) - 1
            block = conv_block(width, after, kernel=kernel, bias=bias, activation=activation, up=up)
            self.tail.add_module(str(i), block)
            width = after

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        kept: list[Tensor] = []
        last = len(self.down) - 1
        for depth, down in enumerate(self.down):
            x = down(x)
            if depth < last:
                kept.append(x)
                x = self.pool(x)
        for i, (skip, up) in enumerate(zip(self.skips, self.up, strict=True)):
            depth = last - i
            if depth < last:
                x = self.upsample(x)
                if len(skip):  # type: ignore[arg-type]
                    x = x + skip(kept[depth])
            x = up(x)
        return self.tail(x)


def _is_conv3(token: str) -> bool:
    """A plain 3x3 convolution of the tail."""
    return token == "out" or token.isdigit()


def initialise(net: nn.Module, generator: torch.Generator) -> None:
    """He initialisation from an explicit generator, so that a seed alone decides the weights."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.kaiming_normal_(module.weight, a=LEAK, generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def folded(net: Net) -> Net:
    """A copy that only serves: each batch norm is part of the convolution before it. A quarter faster."""
    copied = copy.deepcopy(net).eval()
    for block in copied.modules():
        if isinstance(block, nn.Sequential) and len(block) > 1 and isinstance(block[1], nn.BatchNorm2d):
            conv: Any = block[0]
            block[0] = fuse_conv_bn_eval(conv, block[1], transpose=isinstance(conv, nn.ConvTranspose2d))
            block[1] = nn.Identity()
    return copied.requires_grad_(False).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
