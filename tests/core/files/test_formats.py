"""Keypoints of a video in every format, each read back with the tool that owns it."""

from __future__ import annotations

import csv
import json
import logging
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from trigpoint.core.errors import TrigpointError
from trigpoint.core.files import formats
from trigpoint.core.files.formats import FORMATS, Keypoints, names_elsewhere, require
from trigpoint.core.files.table import HEADER
from trigpoint.core.files.videos import VideoWriter

NAMES = ("snout", "tail, bäse", "2")
LABELS = ("snout", "tail, bäse", "landmark2")  # of NAMES, in other tools
FRAMES = 11


@pytest.fixture(autouse=True)
def _small_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three stretches in place of one."""
    monkeypatch.setattr(formats, "CHUNK", 4)


@pytest.fixture
def found(tmp_path: Path) -> Keypoints:
    """Frame 3 could not be decoded, frame 5 lacks one point; the first point is the first pixel's centre."""
    random = np.random.default_rng(0)
    points = random.uniform(0, 60, (FRAMES, 3, 3))
    points[..., 2] = random.uniform(0, 1, (FRAMES, 3))
    points[0, 0] = 0.5, 0.5, 0.25
    points[3] = np.nan
    points[5, 1] = np.nan
    video = tmp_path / "mouse.mp4"
    with VideoWriter(video, (64, 48), 25) as writer:
        for _ in range(FRAMES):
            writer.add(np.zeros((48, 64, 3), np.uint8))
    return Keypoints(video, points.astype(np.float32), NAMES, 25.0, (64, 48))


def written(name: str, found: Keypoints, folder: Path) -> Path:
    path = folder / f"mouse{FORMATS[name].ending}"
    FORMATS[name].write(path, found)
    return path


def test_csv_has_a_row_for_every_point_that_was_found(found: Keypoints, tmp_path: Path) -> None:
    with written("csv", found, tmp_path).open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert tuple(rows[0]) == HEADER
    known = np.argwhere(np.isfinite(found.points[..., 0]))
    assert [(int(row["frame"]), row["landmark"]) for row in rows] == [(f, NAMES[k]) for f, k in known]
    values = [[float(row[column]) for column in ("x", "y", "confidence")] for row in rows]
    np.testing.assert_allclose(values, found.points[tuple(known.T)], atol=0.0051)
    assert {(row["image"], row["subject"]) for row in rows} == {("mouse.mp4", "0")}
    assert (rows[0]["x"], rows[0]["y"]) == ("0.50", "0.50")


def frame_of(path: Path):  # type: ignore[no-untyped-def]  # a pandas DataFrame
    import pandas as pd

    if path.suffix == ".h5":
        with pd.HDFStore(str(path), "r") as store:
            assert store.keys() == ["/df_with_missing"]
        return pd.read_hdf(path)
    return pd.read_csv(path, header=[0, 1, 2], index_col=0)


@pytest.mark.parametrize("name", ["dlc", "h5"])
def test_deeplabcut_files_are_what_pandas_reads_for_deeplabcut(
    found: Keypoints, tmp_path: Path, name: str
) -> None:
    table = frame_of(written(name, found, tmp_path))
    assert table.columns.names == ["scorer", "bodyparts", "coords"]
    assert list(table.columns) == [
        ("trigpoint", part, column) for part in LABELS for column in ("x", "y", "likelihood")
    ]
    assert list(table.index) == list(range(FRAMES))
    values = table.to_numpy().reshape(FRAMES, 3, 3)
    np.testing.assert_allclose(values, found.points - np.array([0.5, 0.5, 0]), atol=1e-4)  # NaN at its places
    assert tuple(values[0, 0, :2]) == (0, 0)


READ = """
import json, sys, warnings
warnings.simplefilter("error")
import numpy as np, pandas as pd
table = pd.read_hdf(sys.argv[1], "df_with_missing")
parts = table.columns.get_level_values("bodyparts").unique().tolist()
rows = table.index.tolist()
scorer = table.columns.get_level_values(0)[0]
nose = table[scorer]["snout"][["x", "y"]].dropna().to_numpy().tolist()
print(json.dumps([pd.__version__, scorer, parts, rows, np.nan_to_num(table, nan=-1).tolist(), nose]))
"""


def test_the_pandas_that_deeplabcut_requires_reads_the_same(
    found: Keypoints, tmp_path: Path, old_pandas: Path
) -> None:
    """DeepLabCut wants pandas<3, and reads a file so."""
    path = written("h5", found, tmp_path)
    done = subprocess.run([old_pandas, "-c", READ, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    version, scorer, parts, rows, values, snout = json.loads(done.stdout)
    assert (int(version.split(".")[0]), scorer, parts) == (2, "trigpoint", list(LABELS))
    assert rows == list(range(FRAMES))
    expected = (found.points - np.array([0.5, 0.5, 0])).reshape(FRAMES, 9)
    np.testing.assert_allclose(values, np.nan_to_num(expected, nan=-1), atol=1e-6)
    np.testing.assert_allclose(snout, expected[np.isfinite(expected[:, 0]), :2], atol=1e-6)


def test_nothing_in_the_hdf5_file_is_a_pickle(found: Keypoints, tmp_path: Path) -> None:
    """Numbers, and text of a fixed length that does not end as a pickle does: PyTables takes it as it is."""
    import h5py

    with h5py.File(written("h5", found, tmp_path)) as file:
        nodes = [file]
        file.visititems(lambda _, node: nodes.append(node))
        assert len(nodes) == 16
        for node in nodes:
            for value in node.attrs.values():
                assert isinstance(value, np.number | np.bytes_), value
                assert not (isinstance(value, bytes) and value.endswith(b".")), value


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("0", "1", "2"), ("landmark0", "landmark1", "landmark2")),
        (("nose", "1", "ear 2"), ("nose", "landmark1", "ear 2")),
        (("landmark3", "1", "2", "3"), ("landmark3", "landmark1", "landmark2", "landmark3_")),
        (("0", "landmark0", "landmark0_"), ("landmark0__", "landmark0", "landmark0_")),
        (("1.5", "nan", "", "nose"), ("landmark1.5", "landmarknan", "landmark", "nose")),
        (("a", "a"), ("a", "a_")),
    ],
)
def test_other_tools_get_names_that_are_no_numbers_and_differ(
    names: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert names_elsewhere(names) == expected


@pytest.mark.parametrize("name", ["dlc", "h5"])
def test_movement_reads_deeplabcut_files(found: Keypoints, tmp_path: Path, name: str) -> None:
    load_poses = movement_loader()
    if name == "dlc":
        pytest.importorskip("movement", minversion="0.13", reason="earlier ones split quoted names at commas")
    data = load_poses.from_dlc_file(written(name, found, tmp_path), fps=25)
    assert data.keypoints.values.tolist() == list(LABELS)
    np.testing.assert_allclose(data.time.values, np.arange(FRAMES) / 25)
    position = data.position.transpose("time", "keypoints", "space", "individuals").values[..., 0]
    np.testing.assert_allclose(position, found.points[..., :2] - 0.5, atol=1e-4)
    trust = data.confidence.transpose("time", "keypoints", "individuals").values[..., 0]
    np.testing.assert_allclose(trust, found.points[..., 2], atol=1e-4)


def movement_loader():  # type: ignore[no-untyped-def]  # movement.io.load_poses
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own imports
        from movement.io import load_poses
    logging.getLogger("movement").setLevel(logging.ERROR)
    return load_poses


def test_coco_reads_its_own(found: Keypoints, tmp_path: Path) -> None:
    from pycocotools.coco import COCO

    coco = COCO(str(written("coco", found, tmp_path)))
    (category,) = coco.loadCats(coco.getCatIds())
    assert category["keypoints"] == list(LABELS)
    images = coco.loadImgs(coco.getImgIds())
    assert [image["frame"] for image in images] == list(range(FRAMES))
    assert {(image["width"], image["height"]) for image in images} == {(64, 48)}
    assert images[7]["file_name"] == "mouse.mp4:000007"
    by_frame = {coco.imgs[one["image_id"]]["frame"]: one for one in coco.loadAnns(coco.getAnnIds())}
    assert set(by_frame) == set(range(FRAMES)) - {3}
    for frame, one in by_frame.items():
        points = found.points[frame]
        known = np.isfinite(points[:, 0])
        keypoints = np.array(one["keypoints"]).reshape(3, 3)
        np.testing.assert_allclose(keypoints[known, :2], points[known, :2], atol=0.0051)
        assert keypoints[:, 2].tolist() == (2 * known).tolist()
        assert one["num_keypoints"] == known.sum()
        low, high = points[known, :2].min(0), points[known, :2].max(0)
        np.testing.assert_allclose(one["bbox"], [*low, *(high - low)], atol=0.0051)
        assert one["area"] == pytest.approx(one["bbox"][2] * one["bbox"][3], abs=0.0051)
        np.testing.assert_allclose(one["scores"], np.nan_to_num(points[:, 2]), atol=0.00051)
        assert one["score"] == pytest.approx(np.nanmean(points[:, 2]), abs=0.00051)
    assert by_frame[5]["keypoints"][3:6] == [0, 0, 0]
    assert by_frame[0]["keypoints"][:2] == [0.5, 0.5]


def test_coco_s_own_measure_takes_it_as_truth_and_as_result(found: Keypoints, tmp_path: Path) -> None:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    path = written("coco", found, tmp_path)
    truth = COCO(str(path))
    wanted = ("image_id", "category_id", "keypoints", "score")
    results = [{key: one[key] for key in wanted} for one in json.loads(path.read_text())["annotations"]]
    measure = COCOeval(truth, truth.loadRes(results), "keypoints")
    measure.params.kpt_oks_sigmas = np.full(3, 0.05)
    measure.evaluate()
    measure.accumulate()
    precision = measure.eval["precision"][..., 0, 0]
    assert (precision == 1).all()


def test_sleap_reads_its_own(found: Keypoints, tmp_path: Path) -> None:
    import sleap_io

    labels = sleap_io.load_slp(str(written("slp", found, tmp_path)))
    assert labels.skeleton.node_names == list(LABELS)
    assert Path(labels.video.filename) == found.video
    assert [one.frame_idx for one in labels.labeled_frames] == [f for f in range(FRAMES) if f != 3]
    assert labels.video.shape[:3] == (FRAMES, 48, 64)
    for one in labels.labeled_frames:
        (instance,) = one.instances
        points = found.points[one.frame_idx]
        np.testing.assert_allclose(instance.numpy(), points[:, :2] - 0.5, atol=1e-4)
        known = np.isfinite(points[:, 2])
        np.testing.assert_allclose(instance.numpy(scores=True)[known, 2], points[known, 2], atol=1e-6)
        assert instance.score == pytest.approx(np.nanmean(points[:, 2]))


def test_the_video_is_not_opened_to_write_its_name(
    found: Keypoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenCV crashes on a name that is not UTF-8, and would take others for addresses."""
    import sleap_io

    name = os.fsdecode(b"m\xe9.mp4")
    with monkeypatch.context() as patch:
        patch.setattr(cv2, "VideoCapture", None)
        path = written("slp", replace(found, video=found.video.rename(tmp_path / name)), tmp_path)
    video = sleap_io.load_slp(str(path), open_videos=False).video
    assert (Path(video.filename), tuple(video.shape[:3]), video.fps) == (
        tmp_path / name,
        (FRAMES, 48, 64),
        25,
    )


def test_movement_reads_sleap_files(found: Keypoints, tmp_path: Path) -> None:
    data = movement_loader().from_sleap_file(written("slp", found, tmp_path), fps=25)
    position = data.position.transpose("time", "keypoints", "space", "individuals").values[..., 0]
    np.testing.assert_allclose(position, found.points[..., :2] - 0.5, atol=1e-4)


@pytest.mark.parametrize("name", list(FORMATS))
def test_a_missing_last_frame_does_no_harm(found: Keypoints, tmp_path: Path, name: str) -> None:
    found.points[-1] = np.nan
    assert written(name, found, tmp_path).stat().st_size > 0


@pytest.mark.parametrize(
    ("name", "library", "extra"),
    [("h5", "h5py", "dlc"), ("slp", "sleap_io", "sleap")],
)
def test_a_format_whose_library_is_missing_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, name: str, library: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    require(["csv", "dlc", "coco"])
    with pytest.raises(TrigpointError, match=rf"needs {library}: pip install 'trigpoint\[{extra}\]'"):
        require(["csv", name])


@pytest.mark.parametrize("name", ["h5", "slp"])
def test_a_file_that_finds_no_room_is_an_error_of_the_system(
    found: Keypoints, tmp_path: Path, name: str
) -> None:
    """HDF5's library raises what nobody can tell from a fault of the program, and may crash."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (12288, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            written(name, found, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not [path for path in tmp_path.iterdir() if path.suffix == FORMATS[name].ending]
