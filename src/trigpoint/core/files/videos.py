"""Writing a video that every browser and player shows."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.io import ffmpeg_name

# H.264 where the encoder exists; else VP9, which browsers play from an MP4 file too.
ENCODERS = (
    ("libx264", {"crf": "20", "preset": "veryfast"}),
    ("libvpx-vp9", {"crf": "32", "b": "0", "cpu-used": "5"}),
)


class VideoWriter:
    """`with VideoWriter(path, (width, height), rate) as writer: writer.add(frame)`, frames (H, W, 3)."""

    def __init__(self, path: Path, size: tuple[int, int], rate: float) -> None:
        self.path, self.size = path, size
        rate = max(rate, 1 / 1001) if 0 < rate < 1000 else 30.0
        self.rate = Fraction(rate).limit_denominator(1001)

    def __enter__(self) -> Self:
        import av

        self.av: Any = av
        name, options = next(((name, options) for name, options in ENCODERS if _exists(name)), ("", {}))
        if not name:
            raise TrigpointError("This FFmpeg can write neither H.264 nor VP9; leave out the overlay.")
        self.container = cast(Any, av.open(ffmpeg_name(self.path), "w", format="mp4"))
        self.stream = self.container.add_stream(name, rate=self.rate, options=options)
        # Chroma at half the size needs even edges: the last row or column is repeated.
        self.stream.width, self.stream.height = (edge + edge % 2 for edge in self.size)
        self.stream.pix_fmt = "yuv420p"
        return self

    def add(self, frame: NDArray[np.uint8]) -> None:
        missing = (self.stream.height - frame.shape[0], self.stream.width - frame.shape[1])
        if min(missing) < 0 or max(missing) > 1:
            raise TrigpointError(
                f"A frame of {frame.shape[1]}x{frame.shape[0]} pixels does not fit a video of "
                f"{self.size[0]}x{self.size[1]}."
            )
        whole = np.pad(frame, ((0, missing[0]), (0, missing[1]), (0, 0)), mode="edge")
        picture = self.av.VideoFrame.from_ndarray(np.ascontiguousarray(whole), format="rgb24")
        for packet in self.stream.encode(picture):
            self.container.mux(packet)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                for packet in self.stream.encode():
                    self.container.mux(packet)
        finally:
            self.container.close()


def _exists(encoder: str) -> bool:
    import av

    try:
        av.codec.Codec(encoder, "w")
    except Exception:  # PyAV has had several kinds of error for it
        return False
    return True
