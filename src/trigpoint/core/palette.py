"""Landmark colours: the same landmark has the same colour in every picture."""

from __future__ import annotations

import colorsys

_FIRST = (
    (230, 57, 70), (29, 145, 239), (46, 196, 92), (255, 183, 3), (155, 93, 229),
    (0, 200, 200), (255, 112, 32), (241, 91, 181), (158, 240, 26), (120, 84, 60),
)  # fmt: skip


def colours(count: int) -> list[tuple[int, int, int]]:
    """`count` distinct RGB colours; the first ten are chosen by hand, the rest walk round the hues."""
    chosen = list(_FIRST[:count])
    for i in range(count - len(chosen)):
        hue = (i * 0.618034 + 0.07) % 1.0
        red, green, blue = colorsys.hls_to_rgb(hue, (0.42, 0.58, 0.72)[i % 3], 0.75)
        chosen.append((round(red * 255), round(green * 255), round(blue * 255)))
    return chosen


def hexadecimal(colour: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
