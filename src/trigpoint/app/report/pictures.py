"""The report's pictures as pieces of HTML: everything inline, nothing fetched."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from trigpoint.app.report.markup import escaped
from trigpoint.core.palette import colours, hexadecimal
from trigpoint.core.sources.images import to_channels

Bytes = NDArray[np.uint8]


def data_url(image: Bytes) -> str:
    """(H, W, 1 or 3) as an inline PNG, or JPEG where that is much smaller."""
    picture = cv2.cvtColor(np.ascontiguousarray(to_channels(image, 3)), cv2.COLOR_RGB2BGR)
    png = cv2.imencode(".png", picture)[1]
    jpeg = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 92])[1]
    kind, data = ("jpeg", jpeg) if len(jpeg) * 2 < len(png) else ("png", png)
    return f"data:image/{kind};base64,{base64.b64encode(data.tobytes()).decode()}"


def landmark_picture(image: Bytes, points: NDArray[np.floating], label: str) -> str:
    """An image with its landmarks as coloured dots that stay crisp at any size; unit coordinates."""
    dots = "".join(
        f'<circle data-k="{k}" cx="{x:.4f}" cy="{y:.4f}" r=".024" fill="{hexadecimal(colour)}"/>'
        for k, ((x, y), colour) in enumerate(zip(points, colours(len(points)), strict=True))
    )
    return (
        f'<svg class="shot" viewBox="0 0 1 1" role="img" aria-label="{escaped(label)}">'
        f'<image href="{data_url(image)}" width="1" height="1" preserveAspectRatio="none"/>{dots}</svg>'
    )


def plain_picture(image: Bytes, label: str, kind: str = "shot") -> str:
    return f'<img class="{kind}" src="{data_url(image)}" alt="{escaped(label)}">'


def map_picture(maps: Bytes) -> Bytes:
    """Detection maps (K+1, h, w) as one picture: each landmark's map glows in its colour on black."""
    glow = np.zeros((*maps.shape[1:], 3), np.float32)
    for channel, colour in zip(maps[:-1], colours(len(maps) - 1), strict=True):
        glow += (channel.astype(np.float32) / 255)[..., None] * np.array(colour, np.float32)
    return np.clip(glow, 0, 255).astype(np.uint8)


def chart(title: str, steps: Sequence[float], values: Sequence[float], unit: str, log: bool) -> str:
    """A small line chart with its first, lowest and last value readable."""
    width, height, left, top, bottom = 320, 170, 44, 10, 24
    usable = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    if len(usable) < 2:
        return ""
    low, high = min(usable), max(usable)
    if log:
        low, high = math.log10(low), math.log10(high)
    if high - low < 1e-9:
        low, high = low - 1, high + 1

    def place(step: float, value: float) -> tuple[float, float]:
        level = math.log10(max(value, 1e-12)) if log else value
        level = min(max(level, low), high)
        across = left + (width - left - 8) * step / max(steps[-1], 1)
        return across, top + (height - top - bottom) * (high - level) / (high - low)

    line = " ".join("{:.1f},{:.1f}".format(*place(s, v)) for s, v in zip(steps, values, strict=True))
    ticks = ""
    for level in np.linspace(low, high, 3):
        value = 10**level if log else level
        y = place(0, value)[1]
        ticks += (
            f'<line class="grid" x1="{left}" x2="{width - 8}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>'
        )
    end = place(steps[-1], values[-1])
    return (
        f'<figure class="chart"><figcaption>{escaped(title)}</figcaption>'
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escaped(title)}: '
        f'from {values[0]:.3g} to {values[-1]:.3g} {escaped(unit)}">{ticks}'
        f'<polyline points="{line}"/><circle cx="{end[0]:.1f}" cy="{end[1]:.1f}" r="3.5"/>'
        f'<text x="{left}" y="{height - 6}">0</text>'
        f'<text x="{width - 8}" y="{height - 6}" text-anchor="end">step {steps[-1]:.0f}</text></svg>'
        f'<p class="value">{values[-1]:.3g} {escaped(unit)}</p></figure>'
    )


def trajectories(title: str, paths: NDArray[np.floating]) -> str:
    """A coordinate (n, K) of each landmark over time, in its colour."""
    width, height, left, top, bottom = 320, 170, 44, 10, 24
    low, high = float(np.nanmin(paths)), float(np.nanmax(paths))
    high = max(high, low + 1e-9)
    across = left + (width - left - 8) * np.arange(len(paths)) / max(len(paths) - 1, 1)
    lines = ""
    for k, colour in enumerate(colours(paths.shape[1])):
        down = top + (height - top - bottom) * (high - paths[:, k]) / (high - low)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
        lines += f'<polyline data-k="{k}" style="stroke:{hexadecimal(colour)}" points="{points}"/>'
    return (
        f'<figure class="chart"><figcaption>{escaped(title)}, pixels</figcaption>'
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escaped(title)} of each '
        f'landmark over {len(paths)} frames">{lines}'
        f'<text x="{left - 6}" y="{top + 8}" text-anchor="end">{high:.0f}</text>'
        f'<text x="{left - 6}" y="{height - bottom}" text-anchor="end">{low:.0f}</text>'
        f'<text x="{left}" y="{height - 6}">0</text>'
        f'<text x="{width - 8}" y="{height - 6}" text-anchor="end">frame {len(paths) - 1}</text></svg>'
        "</figure>"
    )
