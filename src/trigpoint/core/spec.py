"""The one-line notation of an hourglass network, as in the paper's Figure 40 (lost, kept as a table).

    stem | hourglass | tail

    32       3x3 convolution to 32 channels, batch norm, LeakyReLU
    P        2x2 max-pool; in the hourglass its mirror image is a nearest x2 upsampling
    D32      3x3 convolution of stride 2 (stem only): halves the size at a quarter of the cost
    S3       skip-link of three 3x3 convolutions, added on the way back (hourglass only)
    32/64    32 channels on the way down, 64 on the mirrored way up (hourglass only); without the
             second number the way up mirrors the way down: it leads back to the width before
    U        nearest x2 upsampling (tail only)
    T32      transposed 3x3 convolution of stride 2 to 32 channels (tail only)
    out      as many channels as the network has to give; `out1` by a 1x1 convolution (tail only)

A line without `|` is the hourglass alone. The last layer has batch norm but no activation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from trigpoint.core.errors import TrigpointError

WIDEST = 4096
OUT = -1  # stands for the number of output channels, known when the network is built


@dataclass(frozen=True)
class Conv:
    width: int  # on the way down
    mirror: int | None = None  # on the way up; None: the width before this layer


@dataclass(frozen=True)
class Level:
    """The layers at one resolution of the hourglass."""

    convs: tuple[Conv, ...]
    skip: int  # layers of the skip-link, 0 for none


@dataclass(frozen=True)
class HourglassSpec:
    stem: tuple[str, ...]
    levels: tuple[Level, ...]
    tail: tuple[str, ...]

    @property
    def reduction(self) -> int:
        """The input's edge must be divisible by this."""
        return self.stem_reduction * 2 ** (len(self.levels) - 1)

    @property
    def stem_reduction(self) -> int:
        return 2 ** sum(token[0] in "PD" for token in self.stem)

    @property
    def enlargement(self) -> int:
        """How much larger the tail makes the hourglass's output."""
        return 2 ** sum(token == "U" or token[0] == "T" for token in self.tail)


@lru_cache
def parse(text: str) -> HourglassSpec:
    parts = [part.split() for part in text.split("|")]
    if len(parts) == 1:
        parts = [[], parts[0], []]
    if len(parts) != 3:
        raise TrigpointError(f"A network is written 'stem | hourglass | tail'; got {text!r}.")
    stem, middle, tail = parts
    if re.search(r"(?<!\d)0", text):
        raise TrigpointError(f"A layer of the network {text!r} has no channels.")
    if len(text) > 1000 or any(int(number[:9]) > WIDEST for number in re.findall(r"\d+", text)):
        raise TrigpointError(f"A network has at most {WIDEST} channels in a layer; got {text[:80]!r}.")
    for tokens, pattern in ((stem, r"D?\d+|P"), (tail, r"\d+|U|T\d+|out1?")):
        for token in tokens:
            if not re.fullmatch(pattern, token):
                raise TrigpointError(f"Unknown layer {token!r} in the network {text!r}.")

    levels: list[Level] = []
    convs: list[Conv] = []
    skip = 0
    for token in [*middle, "end"]:
        if match := re.fullmatch(r"(\d+)(?:/(\d+|out))?", token):
            width, mirror = match.groups()
            convs.append(Conv(int(width), _mirror(mirror)))
        elif match := re.fullmatch(r"S(\d+)", token):
            skip = int(match[1])
        elif token in ("P", "end"):
            if not convs:
                raise TrigpointError(f"A level of the network {text!r} has no convolution.")
            levels.append(Level(tuple(convs), skip))
            convs, skip = [], 0
        else:
            raise TrigpointError(f"Unknown layer {token!r} in the network {text!r}.")
    spec = HourglassSpec(tuple(stem), tuple(levels), tuple(tail))
    ends = tail[-1] in ("out", "out1") if tail else levels[0].convs[0].mirror == OUT
    if not ends:
        raise TrigpointError(f"The network {text!r} must end in 'out'.")
    return spec


def _mirror(text: str | None) -> int | None:
    if text is None:
        return None
    return OUT if text == "out" else int(text)
