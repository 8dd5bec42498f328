"""`trigpoint detect`: what it writes, says, skips and refuses, on images and on videos."""

from __future__ import annotations

import csv
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from trigpoint.app.cli.detect import formats
from trigpoint.core.config.tree import to_dict
from trigpoint.core.errors import TrigpointError
from trigpoint.core.files.videos import VideoWriter
from trigpoint.core.geometry import Placement
from trigpoint.core.inference import videos
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.keypoints import KeypointMap
from trigpoint.core.runs import Run
from trigpoint.core.sources.video import Video
from trigpoint.core.subjects import DETECTORS
from trigpoint.core.words import counted

Call = Callable[..., Any]  # the fixture `trigpoint`


def rows_of(folder: Path, name: str = "landmarks.csv") -> list[dict[str, str]]:
    with (folder / name).open(newline="") as stream:
        return list(csv.DictReader(stream))


def points_of(rows: Sequence[dict[str, str]]) -> NDArray[np.float64]:
    return np.array([[float(row["x"]), float(row["y"])] for row in rows])


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def changed(run: Run, folder: Path, **values: Any) -> Path:
    """A copy of a run with other values in its config.json."""
    shutil.copytree(run.folder, folder)
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
    return folder


@pytest.fixture
def face_run(colour_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model that looks for faces: it sees two on photos wider than high, none on others."""

    def find(image: NDArray[np.uint8]) -> list[Placement]:
        wide = image.shape[1] > image.shape[0]
        return [Placement(0, 2, 24, 24), Placement(20, 4, 24, 24)] if wide else []

    monkeypatch.setitem(DETECTORS, "face", find)
    return changed(colour_run, tmp_path / "faces-4", subject="face")


# Images


def test_a_model_can_be_told_how_many_views_to_take(
    trigpoint: Call, colour_run: Run, photos: Path, tmp_path: Path
) -> None:
    for views in (1, 3):
        out = tmp_path / str(views)
        said = trigpoint("detect", colour_run.folder, photos, "--views", views, "--out", out)
        assert said.code == 0, said.err
        model = Predictor.load(colour_run.folder, views)
        expected = np.concatenate([model.detect(path).points for path in sorted(photos.iterdir())])
        np.testing.assert_allclose(points_of(rows_of(out)), expected, atol=0.02)
    assert not np.allclose(points_of(rows_of(tmp_path / "1")), points_of(rows_of(tmp_path / "3")), atol=0.02)
    said = trigpoint("detect", colour_run.folder, photos, "--views", 0, "--out", tmp_path / "0")
    assert said.code == 2
    assert "config.views must be between 1 and 16; got 0." in said.err


def test_detect_writes_pixels_of_every_image(
    trigpoint: Call, colour_run: Run, photos: Path, tmp_path: Path
) -> None:
    said = trigpoint("detect", colour_run.folder, photos, "--out", tmp_path / "found")
    assert said.code == 0, said.err
    assert "4 landmarks on 12 images" in said.out
    rows = rows_of(tmp_path / "found")
    assert len(rows) == 12 * 4
    assert {row["image"] for row in rows} == {path.name for path in photos.iterdir()}
    assert {row["landmark"] for row in rows} == {"0", "1", "2", "3"}
    assert {(row["frame"], row["subject"]) for row in rows} == {("0", "0")}
    for row in rows:
        assert -6 < float(row["x"]) < 54  # the square of 48 pixels around the image, and its margin
        assert -12 < float(row["y"]) < 48
        assert 0 <= float(row["confidence"]) <= 1
    assert not (tmp_path / "found" / "overlays").exists()


def test_detect_agrees_with_python(trigpoint: Call, colour_run: Run, photos: Path, tmp_path: Path) -> None:
    trigpoint("detect", colour_run.folder, photos / "01.png", photos / "00.jpg", "--out", tmp_path / "found")
    rows = rows_of(tmp_path / "found")
    assert [row["image"] for row in rows] == ["01.png"] * 4 + ["00.jpg"] * 4
    expected = Predictor.load(colour_run.folder).detect(photos / "00.jpg").points
    np.testing.assert_allclose(points_of(rows[4:]), expected, atol=0.011)


def test_detect_draws_overlays(trigpoint: Call, colour_run: Run, photos: Path, tmp_path: Path) -> None:
    (photos / "deep").mkdir()
    shutil.copy(photos / "01.png", photos / "deep" / "again.png")
    assert trigpoint("detect", colour_run.folder, photos, "--out", tmp_path / "found", "--overlay").code == 0
    overlays = sorted((tmp_path / "found" / "overlays").rglob("*.png"))
    assert len(overlays) == 13
    assert tmp_path / "found" / "overlays" / "deep" / "again.png" in overlays
    for path in overlays:
        with Image.open(path) as opened:
            assert opened.size == (48, 36)


def test_every_image_has_its_own_overlay(
    trigpoint: Call, colour_run: Run, photos: Path, tmp_path: Path
) -> None:
    """Two images whose names differ in the ending alone."""
    folder = tmp_path / "pair"
    folder.mkdir()
    shutil.copy(photos / "00.jpg", folder / "a.jpg")
    shutil.copy(photos / "01.png", folder / "a.png")
    assert trigpoint("detect", colour_run.folder, folder, "--out", tmp_path / "found", "--overlay").code == 0
    assert len(list((tmp_path / "found" / "overlays").rglob("*.png"))) == 2


def test_finished_detections_are_skipped_unless_told_otherwise(
    trigpoint: Call, colour_run: Run, photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "found"
    assert trigpoint("detect", colour_run.folder, photos, "--out", out).code == 0
    before = (out / "landmarks.csv").stat()
    said = trigpoint("detect", colour_run.folder, photos, "--out", out)
    assert said.code == 0
    assert "landmarks.csv is already there; --overwrite does it again." in said.out
    assert (out / "landmarks.csv").stat() == before
    assert trigpoint("detect", colour_run.folder, photos, "--out", out, "--overwrite").code == 0
    assert (out / "landmarks.csv").stat().st_mtime_ns > before.st_mtime_ns
    assert len(rows_of(out)) == 48


def test_overlays_asked_for_later_are_still_drawn(
    trigpoint: Call, colour_run: Run, photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "found"
    trigpoint("detect", colour_run.folder, photos, "--out", out)
    assert trigpoint("detect", colour_run.folder, photos, "--out", out, "--overlay").code == 0
    assert len(list((out / "overlays").glob("*.png"))) == 12


def test_detect_skips_and_names_what_it_cannot_read(
    trigpoint: Call, colour_run: Run, photos: Path, tmp_path: Path
) -> None:
    (photos / "torn.jpg").write_bytes((photos / "00.jpg").read_bytes()[:200])
    said = trigpoint("detect", colour_run.folder, photos, "--out", tmp_path / "found")
    assert said.code == 1
    assert "skipped torn.jpg: not a readable image" in said.err
    assert said.err.endswith("1 of 13 images could not be read.\n")
    assert "on 12 images" in said.out
    assert len(rows_of(tmp_path / "found")) == 48


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nothing", "photos", "--out", "found"], "no run folder nothing"),
        (["photos", "photos", "--out", "found"], "config.json"),
        (["RUN", "nowhere", "--out", "found"], "no file or folder nowhere"),
        (["RUN", "--out", "found"], "Name a source"),
        (["RUN", "bad", "--out", "found"], "None of the 1 images could be read"),
        (["RUN", "photos", "--out", "file"], "is a file"),
        (["RUN", "photos", "--out", "file/found"], "file"),
        (["RUN", "photos", "--out", "found", "--keypoints", "k.json"], "There is no file k.json"),
        (["RUN", "photos", "--out", "found", "--format", "xml"], "There is no format 'xml'"),
        (["RUN", "photos", "--out", "found", "--smooth"], "--smooth and --trails are for videos"),
        (["RUN", "photos", "--out", "found", "--box", "1,2,0,9"], "at least one pixel wide and high"),
        (["RUN", "photos", "--out", "found", "--box", "left"], "LEFT,TOP,WIDTH,HEIGHT in pixels; got 'left'"),
    ],
)
def test_detect_refuses_bad_input_in_one_sentence(
    trigpoint: Call,
    colour_run: Run,
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("content")
    Path("bad").mkdir()
    Path("bad/a.png").write_text("text")
    said = trigpoint("detect", *(str(colour_run.folder) if word == "RUN" else word for word in words))
    assert said.refused(expected)
    assert not list(tmp_path.rglob("landmarks.csv*"))
    assert Path("file").read_text() == "content"


def test_detect_finds_every_face_of_a_photo(
    trigpoint: Call, face_run: Path, make_photos: Callable[..., Path], tmp_path: Path
) -> None:
    wide = make_photos(tmp_path / "photos", 2)
    make_photos(tmp_path / "photos" / "high", 1, size=(36, 48))
    said = trigpoint("detect", face_run, wide, "--out", tmp_path / "found", "--overlay")
    assert said.code == 0, said.err
    assert "4 landmarks on 4 faces on 3 images: " in said.out
    assert said.err == "no face found on high/00.jpg\n"
    rows = rows_of(tmp_path / "found")
    assert [(row["image"], row["subject"]) for row in rows[::4]] == [
        ("00.jpg", "0"), ("00.jpg", "1"), ("01.png", "0"), ("01.png", "1"),
    ]  # fmt: skip
    expected = Predictor.load(face_run).detect_all(wide / "01.png")
    np.testing.assert_allclose(points_of(rows[8:12]), expected[0].points, atol=0.011)
    np.testing.assert_allclose(points_of(rows[12:]), expected[1].points, atol=0.011)


def test_detect_refuses_photos_without_a_face(
    trigpoint: Call, face_run: Path, make_photos: Callable[..., Path], tmp_path: Path
) -> None:
    photos = make_photos(tmp_path / "photos", 2, size=(36, 48))
    said = trigpoint("detect", face_run, photos, "--out", tmp_path / "found", "--overlay")
    assert said.refused("No face was found on 00.jpg and 1 other image; --box says where it is")
    assert names_in(tmp_path / "found") == []


@pytest.mark.parametrize(
    "words",
    [
        ("--box", "4,5,20,30.5"),
        (
            "--subjects",
            "whole",
        ),
    ],
)
def test_detect_may_be_told_where_the_subject_is(
    trigpoint: Call, face_run: Path, photos: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    said = trigpoint("detect", face_run, photos / "01.png", "--out", tmp_path / "found", *words)
    assert said.code == 0, said.err
    assert "4 landmarks on 1 image: " in said.out
    box = Placement(4, 5, 20, 30.5) if words[0] == "--box" else None
    expected = Predictor.load(face_run).detect(photos / "01.png", box).points
    np.testing.assert_allclose(points_of(rows_of(tmp_path / "found")), expected, atol=0.011)


def test_detect_calls_landmarks_by_their_names(
    trigpoint: Call, colour_run: Run, photos: Path, tmp_path: Path
) -> None:
    named = changed(colour_run, tmp_path / "run", names={"1": "left eye", "3": "nose"})
    assert trigpoint("detect", named, photos / "01.png", "--out", tmp_path / "found").code == 0
    assert [row["landmark"] for row in rows_of(tmp_path / "found")] == ["0", "left eye", "2", "nose"]


def test_frames_of_a_project_are_prepared_as_in_training(
    trigpoint: Call, colour_run: Run, tmp_path: Path
) -> None:
    """A source of videos by its name: every frame, of the region that the model was trained on."""
    meta = json.loads(colour_run.config_file.read_text())
    meta["config"]["video"] |= {"crop": [8.0, 0.0, 48.0, 48.0], "every": 3, "frames": 2}
    run = changed(colour_run, tmp_path / "run", config=meta["config"])
    (tmp_path / "project" / "labeled-data").mkdir(parents=True)
    (tmp_path / "project" / "videos").mkdir()
    video = make_video(tmp_path / "project" / "videos" / "a.mp4", 7)
    said = trigpoint("detect", run, f"deeplabcut:{tmp_path / 'project'}", "--out", tmp_path / "found")
    assert said.code == 0, said.err
    rows = rows_of(tmp_path / "found")
    assert len(rows) == 7 * 4
    expected = Predictor.load(run).detect(Video(video).read(5), Placement(8, 0, 48, 48)).points
    np.testing.assert_allclose(points_of(rows[20:24]), expected, atol=0.011)


def of_video(run: Run, folder: Path, **values: Any) -> Path:
    """A copy of a run whose model was trained on frames of a video, prepared in this way."""
    meta = json.loads(run.config_file.read_text())
    meta["config"]["video"] |= values
    return changed(run, folder, config=meta["config"])


def test_images_of_the_frames_size_are_cropped_as_in_training(
    trigpoint: Call, colour_run: Run, photos: Path, make_photos: Callable[..., Path], tmp_path: Path
) -> None:
    """On the command line and in Python; of other images it is said that they are not."""
    run = of_video(colour_run, tmp_path / "run", crop=[8.0, 2.0, 30.0, 30.0], frame=[48, 36])
    make_photos(photos / "other", 1, size=(36, 48))
    said = trigpoint("detect", run, photos, "--out", tmp_path / "found")
    assert said.code == 0, said.err
    assert said.err == (
        "The crop that this model was trained on is for frames of 48x36 pixels: it was not applied to "
        "1 image; --box says where the subject is.\n"
    )
    rows = rows_of(tmp_path / "found")
    model, plain = Predictor.load(run), Predictor.load(colour_run.folder)
    crop = Placement(8, 2, 30, 30)
    expected = plain.detect(photos / "01.png", crop).points
    np.testing.assert_allclose(points_of(rows[4:8]), expected, atol=0.011)
    np.testing.assert_allclose(model.detect(photos / "01.png").points, expected, atol=1e-4)
    assert rows[-1]["image"] == "other/00.jpg"
    expected = plain.detect(photos / "other" / "00.jpg").points
    np.testing.assert_allclose(points_of(rows[-4:]), expected, atol=0.011)
    for words, box in (
        (
            (
                "--subjects",
                "whole",
            ),
            Placement(0, -6, 48, 48),
        ),
        (("--box", "1,2,20,20"), Placement(1, 2, 20, 20)),
    ):
        out = tmp_path / words[0]
        said = trigpoint("detect", run, photos / "01.png", "--out", out, *words)
        assert (said.code, said.err) == (0, "")
        expected = plain.detect(photos / "01.png", box).points
        np.testing.assert_allclose(points_of(rows_of(out)), expected, atol=0.011)


def test_a_crop_is_noted_with_the_size_of_its_frames(
    trigpoint: Call, micro_colour: Any, tmp_path: Path
) -> None:
    make_video(tmp_path / "videos" / "a.mp4", 12)
    (tmp_path / "config.json").write_text(json.dumps(to_dict(micro_colour)))
    said = trigpoint(
        "train", tmp_path / "videos", "--out", tmp_path / "run", "--config", tmp_path / "config.json",
        "--steps", 2, "--crop", "8,0,48,48",
    )  # fmt: skip
    assert said.code == 0, said.err
    found = Run(tmp_path / "run").config().video
    assert (found.crop, found.frame) == ((8.0, 0.0, 48.0, 48.0), (64, 48))
    said = trigpoint(
        "train", tmp_path / "videos", "--out", tmp_path / "plain", "--config", tmp_path / "config.json",
        "--steps", 2,
    )  # fmt: skip
    assert Run(tmp_path / "plain").config().video.frame == ()


@pytest.mark.parametrize("values", [{"follow": True}, {"background": "grey"}])
def test_a_model_of_videos_refuses_loose_images(
    trigpoint: Call, colour_run: Run, photos: Path, tmp_path: Path, values: dict[str, Any]
) -> None:
    run = of_video(colour_run, tmp_path / "run", **values)
    said = trigpoint("detect", run, photos, "--out", tmp_path / "found")
    assert said.refused("looks at frames of a video, told from their background, not at single images: --box")
    assert not (tmp_path / "found").exists()
    assert trigpoint("detect", run, photos, "--out", tmp_path / "a", "--subjects", "whole").code == 0
    assert trigpoint("detect", run, photos, "--out", tmp_path / "b", "--box", "0,0,30,30").code == 0


def test_keypoints_and_formats_of_images(
    trigpoint: Call, colour_run: Run, photos: Path, tmp_path: Path
) -> None:
    """Read by the tools that they are for."""
    weights = np.zeros((2, 2, 9))
    weights[0, 0, 0:8:2] = weights[0, 1, 1:8:2] = 0.25
    weights[1, 0, 0] = weights[1, 1, 1] = 1
    KeypointMap(("middle", "first"), weights, {}).save(tmp_path / "keypoints.json")
    out = tmp_path / "found"
    said = trigpoint(
        "detect", colour_run.folder, photos, "--out", out, "--keypoints", tmp_path / "keypoints.json",
        "--format", "dlc,coco,slp",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert "2 keypoints on 12 images" in said.out
    model, names = Predictor.load(colour_run.folder), sorted(file.name for file in photos.iterdir())
    found = [model.detect(photos / name).points for name in names]
    expected = np.array([[points.mean(0), points[0]] for points in found])  # (12, 2, 2)
    rows = rows_of(out)
    assert [row["landmark"] for row in rows[:2]] == ["middle", "first"]
    np.testing.assert_allclose(points_of(rows).reshape(12, 2, 2), expected, atol=0.011)

    import pandas as pd

    for table in (
        pd.read_csv(out / "landmarks.dlc.csv", header=[0, 1, 2], index_col=0),
        pd.read_hdf(out / "landmarks.dlc.h5"),
    ):
        assert list(table.index) == names
        assert list(table.columns.get_level_values("bodyparts")[::3]) == ["middle", "first"]
        np.testing.assert_allclose(table.to_numpy().reshape(12, 2, 3)[:, :, :2] + 0.5, expected, atol=0.011)

    from pycocotools.coco import COCO

    coco = COCO(out / "landmarks.coco.json")
    assert [image["file_name"] for image in coco.loadImgs(sorted(coco.imgs))] == names
    assert {(image["width"], image["height"]) for image in coco.imgs.values()} == {(48, 36)}
    values = [coco.loadAnns(coco.getAnnIds(imgIds=[number]))[0]["keypoints"] for number in sorted(coco.imgs)]
    np.testing.assert_allclose(np.reshape(values, (12, 2, 3))[:, :, :2], expected, atol=0.011)

    import sleap_io as sio

    labels = sio.load_slp(str(out / "landmarks.slp"), open_videos=False)
    assert labels.skeletons[0].node_names == ["middle", "first"]
    assert [Path(name).name for name in labels.videos[0].filename] == names
    shown = [frame.instances[0].numpy() for frame in sorted(labels, key=lambda frame: frame.frame_idx)]
    np.testing.assert_allclose(np.array(shown) + 0.5, expected, atol=0.011)


def test_deeplabcut_has_one_subject_an_image(
    trigpoint: Call, face_run: Path, make_photos: Callable[..., Path], tmp_path: Path
) -> None:
    photos = make_photos(tmp_path / "photos", 1)
    said = trigpoint("detect", face_run, photos, "--out", tmp_path / "found", "--format", "csv,dlc")
    assert said.code == 2
    assert "00.jpg has 2 subjects: choose --format csv or coco" in said.err
    assert (
        trigpoint("detect", face_run, photos, "--out", tmp_path / "found", "--format", "coco,slp").code == 0
    )
    content = json.loads((tmp_path / "found" / "landmarks.coco.json").read_bytes())
    assert [entry["image_id"] for entry in content["annotations"]] == [1, 1]


def test_a_second_call_does_not_take_its_own_overlays_for_images(
    trigpoint: Call, colour_run: Run, photos: Path
) -> None:
    for _ in range(2):
        said = trigpoint("detect", colour_run.folder, photos, "--out", photos, "--overlay")
        assert said.code == 0, said.err
    assert len(rows_of(photos)) == 48


# Videos


def make_video(path: Path, count: int = 6) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with VideoWriter(path, (64, 48), 25) as writer:
        for frame in range(count):
            image = np.full((48, 64, 3), (40, 90, 60), np.uint8)
            image[10:25, 5 + frame : 20 + frame] = (250, 210, 60)
            writer.add(image)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two videos, one of them deeper, and something else."""
    make_video(tmp_path / "videos" / "a.mp4", 5)
    make_video(tmp_path / "videos" / "deep" / "b.mp4", 7)
    (tmp_path / "videos" / "notes.txt").write_text("of the experiment")
    return tmp_path / "videos"


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the videos that were detected on, in order."""
    worked: list[str] = []
    kept = videos.detect_video

    def detect(predictor: Predictor, path: Path, *rest: Any) -> videos.Done:
        worked.append(path.name)
        return kept(predictor, path, *rest)

    monkeypatch.setattr(videos, "detect_video", detect)
    return worked


def test_detect_writes_a_table_of_each_video(
    trigpoint: Call, colour_run: Run, folder: Path, tmp_path: Path
) -> None:
    said = trigpoint("detect", colour_run.folder, folder, "--out", tmp_path / "found")
    assert said.code == 0, said.err
    assert "a.mp4: 5 frames, " in said.out
    assert "frames/s: b.csv" in said.out
    assert names_in(tmp_path / "found") == ["a.csv", "a.record.json", "b.csv", "b.record.json"]
    rows = rows_of(tmp_path / "found", "b.csv")
    assert [(row["image"], row["frame"], row["landmark"]) for row in rows[-4:]] == [
        ("b.mp4", "6", str(k)) for k in range(4)
    ]
    image = Video(folder / "deep" / "b.mp4").read(6)
    np.testing.assert_allclose(
        points_of(rows[-4:]), Predictor.load(colour_run.folder).detect(image).points, atol=0.011
    )


def test_detect_writes_what_is_asked_for(
    trigpoint: Call, colour_run: Run, folder: Path, tmp_path: Path
) -> None:
    named = changed(colour_run, tmp_path / "run", names={"0": "snout"})
    said = trigpoint(
        "detect", named, folder / "a.mp4", "--out", tmp_path / "found", "--format", "dlc,coco,slp",
        "--overlay", "--trails", 3, "--smooth", "--box", "2,3,40,40",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert names_in(tmp_path / "found") == [
        "a.coco.json", "a.dlc.csv", "a.dlc.h5", "a.overlay.mp4", "a.record.json", "a.slp",
    ]  # fmt: skip
    assert "a.dlc.csv, a.dlc.h5, a.coco.json, a.slp, a.overlay.mp4" in said.out
    coco = json.loads((tmp_path / "found" / "a.coco.json").read_text())
    assert coco["categories"][0]["keypoints"] == ["snout", "landmark1", "landmark2", "landmark3"]
    expected = Predictor.load(named).detect(Video(folder / "a.mp4").read(2), Placement(2, 3, 40, 40)).points
    found = np.array(coco["annotations"][2]["keypoints"]).reshape(4, 3)[:, :2]
    np.testing.assert_allclose(found, expected, atol=0.011)  # 5 frames are too few to smooth


def test_detect_writes_fitted_keypoints(
    trigpoint: Call, colour_run: Run, folder: Path, tmp_path: Path
) -> None:
    weights = np.zeros((1, 2, 9))
    weights[0, 0, 0:8:2] = weights[0, 1, 1:8:2] = 0.25
    KeypointMap(("middle",), weights, {}).save(tmp_path / "keypoints.json")
    said = trigpoint(
        "detect", colour_run.folder, folder / "a.mp4", "--out", tmp_path / "found",
        "--keypoints", tmp_path / "keypoints.json",
    )  # fmt: skip
    assert said.code == 0, said.err
    rows = rows_of(tmp_path / "found", "a.csv")
    assert [row["landmark"] for row in rows] == ["middle"] * 5
    predictor = Predictor.load(colour_run.folder)
    video = Video(folder / "a.mp4")
    expected = [predictor.detect(video.read(frame)).points.mean(0) for frame in range(5)]
    np.testing.assert_allclose(points_of(rows), expected, atol=0.011)


def test_finished_videos_are_skipped_unless_told_otherwise(
    trigpoint: Call, colour_run: Run, folder: Path, tmp_path: Path, counting: list[str]
) -> None:
    out = tmp_path / "found"
    assert trigpoint("detect", colour_run.folder, folder / "a.mp4", "--out", out).code == 0
    said = trigpoint("detect", colour_run.folder, folder, "--out", out)
    assert said.code == 0
    assert "a.mp4 is finished already; --overwrite does it again." in said.out
    assert counting == ["a.mp4", "b.mp4"]
    assert trigpoint("detect", colour_run.folder, folder, "--out", out, "--format", "csv,dlc").code == 0
    assert counting[2:] == ["a.mp4", "b.mp4"]  # another file is missing
    assert trigpoint("detect", colour_run.folder, folder, "--out", out, "--overwrite").code == 0
    assert counting[4:] == ["a.mp4", "b.mp4"]


def test_overlays_are_not_taken_for_videos(
    trigpoint: Call, colour_run: Run, folder: Path, tmp_path: Path, counting: list[str]
) -> None:
    """--out among the videos, and called twice."""
    for out in (folder, folder / "found"):
        for _ in range(2):
            assert trigpoint("detect", colour_run.folder, folder, "--out", out, "--overlay").code == 0
        assert counting == ["a.mp4", "b.mp4"]
        (folder / "a.overlay.mp4").unlink(missing_ok=True)
        (folder / "b.overlay.mp4").unlink(missing_ok=True)
        counting.clear()


KILLED = """
import os, signal, sys
from trigpoint.app.cli import main
from trigpoint.core.inference import videos

kept, calls = videos.write_overlay, 0


def write(part, *rest):
    global calls
    calls += 1
    if calls == 2:
        part.write_text("half of it")
        os.kill(os.getpid(), signal.SIGKILL)
    kept(part, *rest)


videos.write_overlay = write
main(sys.argv[1:])
"""


def test_a_killed_call_goes_on_with_the_video_it_was_at(
    trigpoint: Call, colour_run: Run, folder: Path, tmp_path: Path, counting: list[str]
) -> None:
    out = tmp_path / "found"
    words = ["detect", str(colour_run.folder), str(folder), "--out", str(out), "--overlay"]
    child = subprocess.run(
        [sys.executable, "-c", KILLED, *words], capture_output=True, text=True, timeout=300
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    seen = [name for name in names_in(out) if not name.startswith(".")]
    assert seen == [
        "a.csv",
        "a.overlay.mp4",
        "a.record.json",
    ]  # the second video's table was complete, but not its overlay
    before = {name: (out / name).stat().st_mtime_ns for name in seen}
    said = trigpoint(*words)
    assert said.code == 0, said.err
    assert "a.mp4 is finished already" in said.out
    assert counting == ["b.mp4"]
    assert names_in(out) == [
        "a.csv", "a.overlay.mp4", "a.record.json", "b.csv", "b.overlay.mp4", "b.record.json",
    ]  # fmt: skip
    assert {name: (out / name).stat().st_mtime_ns for name in seen} == before
    assert len(Video(out / "b.overlay.mp4")) == 7
    assert len(rows_of(out, "b.csv")) == 7 * 4


def test_videos_that_cannot_be_read_are_skipped_and_named(
    trigpoint: Call, colour_run: Run, folder: Path, tmp_path: Path
) -> None:
    (folder / "a0.avi").write_text("text")
    said = trigpoint("detect", colour_run.folder, folder, "--out", tmp_path / "found")
    assert said.code == 1
    assert said.err.startswith("skipped a0.avi: a0.avi is not a readable video")
    assert said.err.endswith("1 of 3 videos could not be read.\n")
    assert names_in(tmp_path / "found") == ["a.csv", "a.record.json", "b.csv", "b.record.json"]


def test_frames_that_cannot_be_decoded_are_counted(
    trigpoint: Call, colour_run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trigpoint.core.errors import UnreadableImage

    kept = Video.read

    def fail(self: Video, frame: int, form: str = "rgb24") -> NDArray[np.uint8]:
        if frame in (1, 3):
            raise UnreadableImage("bad")
        return kept(self, frame, form)

    monkeypatch.setattr(Video, "read", fail)
    said = trigpoint("detect", colour_run.folder, folder / "a.mp4", "--out", tmp_path / "found")
    assert said.code == 0
    assert "a.mp4: 3 frames, " in said.out
    assert "2 frames could not be decoded and are left empty" in said.err
    assert {row["frame"] for row in rows_of(tmp_path / "found", "a.csv")} == {"0", "2", "4"}


def test_landmarks_of_low_confidence_are_named(
    trigpoint: Call, colour_run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(videos, "LOW", 2.0)
    named = changed(colour_run, tmp_path / "run", names={"1": "ear"})
    said = trigpoint("detect", named, folder / "a.mp4", "--out", tmp_path / "found")
    assert "of low confidence on many frames: 0 100%, ear 100%, 2 100%, 3 100%" in said.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nothing", "videos"], "no run folder nothing"),
        (["RUN", "videos/a.mp4", "nowhere"], "There is no file or folder nowhere"),
        (["RUN", "nowhere.mp4"], "There is no file or folder nowhere.mp4"),
        (["RUN", "bad.avi"], "bad.avi is not a readable video"),
        (["RUN", "bad.avi", "worse.avi"], "None of the 2 videos could be read"),
        (["RUN", "videos", "--format", "csv,xml"], "no format 'xml'; the formats are csv, dlc, coco and slp"),
        (["RUN", "videos", "--format", ""], "no format ''"),
        (["RUN", "videos", "--overlay", "--trails", "-1"], "--trails must be 0 or more; got -1"),
        (["RUN", "videos", "--trails", "5"], "--trails are drawn on the overlay: add --overlay"),
        (["RUN", "videos", "videos2"], "Two videos are called a"),
        (["RUN", "videos", "--box", "1,2,3"], "LEFT,TOP,WIDTH,HEIGHT"),
        (
            ["RUN", "videos", "--box", "1,2,30,30", "--subjects", "whole"],
            "Give --box or --subjects whole, not both",
        ),
        (["RUN", "videos", "--keypoints", "nothing.json"], "There is no file nothing.json"),
        (["RUN", "videos", "--keypoints", "five.json"], "five.json was fitted to 5 landmarks"),
        (["FACES", "videos"], "looks for a face on images, not on videos: --box"),
        (["RUN", "videos", "--out", "file"], "is a file"),
    ],
)
def test_detect_refuses_bad_words_about_videos(
    trigpoint: Call,
    colour_run: Run,
    face_run: Path,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    make_video(Path("videos2/a.mkv.mp4")).rename("videos2/a.mov")
    for name in ("bad.avi", "worse.avi", "file"):
        Path(name).write_text("content")
    KeypointMap(("a",), np.zeros((1, 2, 11)), {}).save(Path("five.json"))
    stands_for = {"RUN": str(colour_run.folder), "FACES": str(face_run)}
    out = [] if "--out" in words else ["--out", "found"]
    said = trigpoint("detect", *(stands_for.get(word, word) for word in words), *out)
    if "worse.avi" in words:  # each was named as it was skipped
        assert said.code == 2
        assert said.err.splitlines()[-1] == f"trigpoint: {expected}."
    else:
        assert said.refused(expected)
    assert not list(tmp_path.rglob("*.csv"))


@pytest.mark.parametrize(
    "words",
    [
        (
            "--subjects",
            "whole",
        ),
        ("--box", "0,0,48,48"),
    ],
)
def test_a_model_of_faces_may_be_told_where_they_are_on_a_video(
    trigpoint: Call, face_run: Path, folder: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    said = trigpoint("detect", face_run, folder / "a.mp4", "--out", tmp_path / "found", *words)
    assert said.code == 0, said.err
    box = Placement(0, 0, 48, 48) if words[0] == "--box" else None
    expected = Predictor.load(face_run).detect(Video(folder / "a.mp4").read(0), box).points
    np.testing.assert_allclose(points_of(rows_of(tmp_path / "found", "a.csv")[:4]), expected, atol=0.011)


# Words


def test_formats() -> None:
    assert formats("csv") == ("csv",)
    assert formats("dlc,csv") == ("dlc", "h5", "csv")
    with pytest.raises(TrigpointError, match="There is no format 'sleap'"):
        formats("csv,sleap")


def test_counted() -> None:
    assert [counted(number, "face") for number in (0, 1, 2, 1200)] == [
        "0 faces", "1 face", "2 faces", "1,200 faces",
    ]  # fmt: skip
