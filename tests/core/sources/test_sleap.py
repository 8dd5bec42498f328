"""SLEAP files written by SLEAP's own library, and what is wrong in others."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from trigpoint.core.config.tree import VideoConfig
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.files.videos import VideoWriter
from trigpoint.core.geometry import Placement
from trigpoint.core.sources import open_source
from trigpoint.core.sources.sleap import SleapLabels

sio = pytest.importorskip("sleap_io")
NAMES = ["snout", "tail"]
POINTS = {1: [[1, 2], [5, 6]], 4: [[4, 2.5], [np.nan, np.nan]], 7: [[7, 2], [30, 31]]}


def write_video(path: Path) -> None:
    with VideoWriter(path, (64, 48), 25) as writer:
        for frame in range(9):
            writer.add(np.full((48, 64, 3), 20 * frame, np.uint8))


def write_labels(
    path: Path, video: Any, kind: str = "Instance", points: dict[int, Any] = POINTS, **options: Any
) -> Path:
    """Frames 1, 4 and 7 of a video; a point is missing on frame 4."""
    skeleton = sio.Skeleton(nodes=list(NAMES), edges=[("snout", "tail")], name="mouse")
    frames = []
    for frame, given in points.items():
        animals = given if np.ndim(given) == 3 else [given]
        instances = [
            getattr(sio, kind).from_numpy(np.array(one, float), skeleton=skeleton) for one in animals
        ]
        frames.append(sio.LabeledFrame(video=video, frame_idx=frame, instances=instances))
    labels = sio.Labels(labeled_frames=frames, videos=[video], skeletons=[skeleton])
    sio.save_slp(labels, str(path), verbose=False, **options)
    return path


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    write_video(tmp_path / "m1.mp4")
    return write_labels(tmp_path / "a.slp", sio.Video.from_filename(str(tmp_path / "m1.mp4")))


def points_of(source: Any) -> NDArray[np.float64]:
    assert source.annotations is not None
    return np.asarray(source.annotations.points)


@pytest.mark.parametrize("words", ["slp:{}", "{}"])
def test_labelled_frames(labels: Path, words: str) -> None:
    source: Any = open_source(words.format(labels), "labels")
    assert isinstance(source, SleapLabels)
    assert (source.words, len(source)) == ((f"slp:{labels}",), 3)
    assert [source.name(index) for index in range(3)] == [f"m1.mp4:00000{frame}" for frame in POINTS]
    assert [int(source.image(index)[9, 9, 0]) for index in (2, 0, 1)] == pytest.approx([140, 20, 80], abs=2)
    assert source.annotations is not None
    assert source.annotations.names == tuple(NAMES)
    np.testing.assert_allclose(points_of(source), np.array(list(POINTS.values())) + 0.5)
    assert {source.group(index) for index in range(3)} == {"0"}
    assert source.box(1) is None
    cropped: Any = open_source(words.format(labels), "labels", VideoConfig(crop=(1, 2, 30, 40)))
    assert cropped.box(1) == Placement(1, 2, 30, 40)
    with pytest.raises(TrigpointError, match="`trigpoint fit` cross-validates over its videos"):
        open_source(words.format(labels), "test")


def test_what_a_file_holds_is_said_even_where_its_video_is_gone(
    labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from trigpoint.app.cli import main

    sheet = tmp_path / "sheet.png"
    assert main(["data", "inspect", str(labels), "--sheet", str(sheet)]) == 0
    said = capsys.readouterr().out
    for line in (
        "skeleton mouse: snout, tail\nvideos: m1.mp4\n3 labelled frames; instances: 3 by hand, 0 predicted\n",
        "2 annotated landmarks, complete on 2 images\n  snout 3, tail 2\n",
    ):
        assert line in said
    assert sheet.is_file()
    (tmp_path / "m1.mp4").unlink()
    assert main(["data", "inspect", str(labels)]) == 2
    said = capsys.readouterr()
    assert "videos: m1.mp4 (not found)\n3 labelled frames" in said.out
    assert said.err.endswith("m1.mp4:000001: the video m1.mp4 is not there.\n")


def test_a_project_that_moved(labels: Path, tmp_path: Path) -> None:
    """The file has the video's full path; a video of that name beside it will do."""
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("a.slp", "m1.mp4"):
        (tmp_path / name).rename(moved / name)
    assert SleapLabels(moved / "a.slp").image(0).shape == (48, 64, 3)


def test_predictions_are_used_where_nobody_labelled(labels: Path, tmp_path: Path) -> None:
    """Such as what `detect --format slp` writes."""
    video = sio.Video.from_filename(str(tmp_path / "m1.mp4"))
    source = SleapLabels(write_labels(tmp_path / "b.slp", video, "PredictedInstance"))
    assert source.summary[2] == "3 labelled frames; instances: 0 by hand, 3 predicted, which are used"
    np.testing.assert_allclose(points_of(source), points_of(SleapLabels(labels)))


def test_several_animals_are_cut_out(labels: Path, tmp_path: Path) -> None:
    video = sio.Video.from_filename(str(tmp_path / "m1.mp4"))
    two = {3: np.array([[[10, 10], [30, 20]], [[40, 40], [50, 20]]], float)}
    source = SleapLabels(write_labels(tmp_path / "b.slp", video, points=two))
    assert [source.name(index) for index in range(2)] == ["m1.mp4:000003#0", "m1.mp4:000003#1"]
    assert source.box(0) == Placement(8.5, 3.5, 24, 24)
    assert source.box(1) == Placement(33.5, 18.5, 24, 24)


def test_pictures_in_place_of_a_video(tmp_path: Path) -> None:
    for number in range(8):
        Image.new("RGB", (64, 48), (10 * number, 0, 0)).save(tmp_path / f"{number}.png")
    video = sio.Video.from_filename([str(tmp_path / f"{number}.png") for number in range(8)])
    source = SleapLabels(write_labels(tmp_path / "a.slp", video))
    assert [int(source.image(index)[0, 0, 0]) for index in range(3)] == [10, 40, 70]
    assert [source.file(index) for index in range(3)] == [tmp_path / f"{number}.png" for number in (1, 4, 7)]


def test_of_a_package_the_video_is_read(labels: Path, tmp_path: Path) -> None:
    video = sio.Video.from_filename(str(tmp_path / "m1.mp4"))
    package = write_labels(tmp_path / "a.pkg.slp", video, embed="user")
    assert int(SleapLabels(package).image(2)[9, 9, 0]) == pytest.approx(140, abs=2)
    (tmp_path / "m1.mp4").unlink()
    with pytest.raises(UnreadableImage, match=r"m1\.mp4 is not there \(the copies of its frames in the file"):
        SleapLabels(package).image(2)


def rename(path: Path, video: str) -> Path:
    with h5py.File(path, "r+") as file:
        lines = [json.loads(line) for line in file["videos_json"][()]]
        lines[0]["filename"] = lines[0]["backend"]["filename"] = video
        file["videos_json"][0] = json.dumps(lines[0])
    return path


@pytest.mark.parametrize(
    "name",
    ["http://127.0.0.1/a.mp4", "concat:a.mp4|b.mp4", "/etc/passwd", "../..", "", "a\0.mp4", "\ud800.mp4"],
)
def test_a_name_is_a_file_of_a_video_and_nothing_else(labels: Path, name: str) -> None:
    source = SleapLabels(rename(labels, name))
    assert source.summary[1].endswith("(not found)")
    with pytest.raises(UnreadableImage, match="is not there"):
        source.image(0)


def change(path: Path, name: str, row: int, **values: Any) -> None:
    with h5py.File(path, "r+") as file:
        rows = file[name][()]
        for column, value in values.items():
            rows[column][row] = value
        file[name][...] = rows


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("instances", {"frame_id": 99}, "an instance is of a frame that it does not list"),
        ("instances", {"point_id_end": 2**40}, "an instance has not the points of its skeleton"),
        ("instances", {"point_id_start": 2**63 + 5}, "an instance has not the points of its skeleton"),
        ("instances", {"skeleton": 9}, "its instances have 2 skeletons, not one"),
        ("frames", {"video": 7}, "a frame is of a video that it does not list"),
        ("points", {"x": 1e300}, "expected pixels; got the coordinate 1e.300"),
    ],
)
def test_damaged_tables_are_refused(labels: Path, name: str, values: dict[str, Any], reason: str) -> None:
    change(labels, name, 1, **values)
    with pytest.raises(TrigpointError, match=rf"a\.slp: expected .*{reason}|a\.slp: {reason}"):
        SleapLabels(labels)


@pytest.mark.parametrize("frame", [100, 2**63 + 1])
def test_a_frame_beyond_the_video_is_unreadable(labels: Path, frame: int) -> None:
    change(labels, "frames", 1, frame_idx=frame)
    source = SleapLabels(labels)
    with pytest.raises(UnreadableImage, match=r"m1\.mp4 ends after 9 frames"):
        source.image(1)
    assert source.image(2).shape == (48, 64, 3)


def test_other_files_are_refused(labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "no.slp").write_bytes(b"no SLEAP file")
    with h5py.File(tmp_path / "empty.slp", "w"):
        pass
    for name in ("no", "empty"):
        with pytest.raises(TrigpointError, match=rf"{name}\.slp: expected a SLEAP file \(.+\)\.$"):
            open_source(str(tmp_path / f"{name}.slp"))
    with pytest.raises(TrigpointError, match="is a folder; slp takes a file"):
        SleapLabels(tmp_path)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(TrigpointError, match=r"a\.slp needs h5py: pip install 'trigpoint\[sleap\]'"):
        SleapLabels(labels)
