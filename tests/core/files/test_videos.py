"""Videos that are written: frames, rate and pixels as an independent reader sees them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.files import videos
from trigpoint.core.files.videos import VideoWriter


def ramp(width: int, height: int, shift: int = 0) -> NDArray[np.uint8]:
    """A smooth picture, which a lossy encoder keeps well."""
    x, y = np.meshgrid(np.linspace(30, 200, width), np.linspace(30, 200, height))
    return np.stack((x, y, np.full_like(x, 90 + 5 * shift)), axis=-1).astype(np.uint8)


def frames_of(path: Path) -> list[NDArray[np.uint8]]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


@pytest.mark.parametrize(("width", "height"), [(64, 48), (61, 48), (64, 47), (61, 47), (17, 9)])
def test_every_frame_is_there_and_odd_edges_are_repeated(tmp_path: Path, width: int, height: int) -> None:
    with VideoWriter(tmp_path / "a.mp4", (width, height), 25) as writer:
        for shift in range(12):
            writer.add(ramp(width, height, shift))
    read = frames_of(tmp_path / "a.mp4")
    assert len(read) == 12
    for shift, frame in enumerate(read):
        expected = np.pad(ramp(width, height, shift), ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        assert frame.shape == expected.shape
        assert np.abs(frame.astype(int) - expected).mean() < 8


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (25.0, Fraction(25)),
        (29.97002997, Fraction(30000, 1001)),
        (12.5, Fraction(25, 2)),
        (1 / 600, Fraction(1, 600)),
        (1e-9, Fraction(1, 1001)),
        (0.0, Fraction(30)),  # what says nothing
        (float("nan"), Fraction(30)),
        (90_000.0, Fraction(30)),
    ],
)
def test_the_rate_is_kept(tmp_path: Path, rate: float, expected: Fraction) -> None:
    with VideoWriter(tmp_path / "a.mp4", (32, 32), rate) as writer:
        for _ in range(5):
            writer.add(ramp(32, 32))
    with av.open(str(tmp_path / "a.mp4")) as container:
        stream = container.streams.video[0]
        times = [frame.time for frame in container.decode(stream)]
        assert stream.frames == 5
        assert float(stream.average_rate or 0) == pytest.approx(float(expected), rel=1e-3)
    np.testing.assert_allclose(np.diff(times), float(1 / expected), rtol=1e-3)


def test_browsers_can_play_it(tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "a.mp4", (32, 32), 25) as writer:
        writer.add(ramp(32, 32))
    with av.open(str(tmp_path / "a.mp4")) as container:
        context = container.streams.video[0].codec_context
        assert context.name in ("h264", "vp9", "libdav1d", "libvpx-vp9")
        assert context.pix_fmt == "yuv420p"
        assert "mp4" in container.format.name


def test_without_h264_it_is_vp9(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not videos._exists("libvpx-vp9"):
        pytest.skip("libvpx-vp9 is not here")
    monkeypatch.setattr(videos, "ENCODERS", (("nothing", {}), *videos.ENCODERS[1:]))
    with VideoWriter(tmp_path / "a.mp4", (61, 47), 25) as writer:
        for shift in range(4):
            writer.add(ramp(61, 47, shift))
    with av.open(str(tmp_path / "a.mp4")) as container:
        assert "vp9" in container.streams.video[0].codec_context.name
    assert len(frames_of(tmp_path / "a.mp4")) == 4


def test_without_an_encoder_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(videos, "ENCODERS", (("nothing", {}),))
    with (
        pytest.raises(TrigpointError, match=r"neither H\.264 nor VP9"),
        VideoWriter(tmp_path / "a.mp4", (32, 32), 25),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shape", [(48, 62), (50, 64), (46, 64)])
def test_a_frame_of_another_size_is_refused(tmp_path: Path, shape: tuple[int, int]) -> None:
    def write() -> None:
        with VideoWriter(tmp_path / "a.mp4", (64, 48), 25) as writer:
            writer.add(np.zeros((48, 64, 3), np.uint8))
            writer.add(np.zeros((*shape, 3), np.uint8))

    with pytest.raises(TrigpointError, match=rf"{shape[1]}x{shape[0]} pixels does not fit a video of 64x48"):
        write()
