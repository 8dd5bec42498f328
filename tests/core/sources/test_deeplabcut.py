"""DeepLabCut projects: their videos, their labelled frames in both formats, and what is wrong in them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from PIL import Image

from trigpoint.core.config.tree import VideoConfig
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.files.videos import VideoWriter
from trigpoint.core.geometry import Placement
from trigpoint.core.sources import open_source
from trigpoint.core.sources.deeplabcut import LabelledFrames, read_labels
from trigpoint.core.sources.video import Videos

DATA = Path(__file__).parents[3].parent / "shared" / "data"
PARTS = ("snout", "left ear", "tail")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tracks are kept below a home of the test's own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def labels(points: NDArray[np.float64], folder: str, style: str = "levels") -> pd.DataFrame:
    """(n, L, 2) as DeepLabCut keeps them: in pixels from the centre of the first one."""
    columns = pd.MultiIndex.from_product(
        [["ann"], PARTS[: points.shape[1]], ["x", "y"]], names=["scorer", "bodyparts", "coords"]
    )
    names = [f"img{number:03d}.png" for number in range(len(points))]
    rows: Any
    if style == "levels":  # since 2.2
        rows = pd.MultiIndex.from_tuples([("labeled-data", folder, name) for name in names])
    else:
        slash = "\\" if style == "windows" else "/"
        rows = [slash.join(("labeled-data", folder, name)) for name in names]
    return pd.DataFrame(points.reshape(len(points), -1), rows, columns)


def random_points(count: int, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).uniform(0, 60, (count, len(PARTS), 2))


def write_folder(
    project: Path, folder: str, points: NDArray[np.float64], kinds: str = "csv", style: str = "levels"
) -> Path:
    """A folder of labelled frames: each flat, of its own grey, 64 by 48."""
    place = project / "labeled-data" / folder
    place.mkdir(parents=True, exist_ok=True)
    table = labels(points, folder, style)
    if "csv" in kinds:
        table.to_csv(place / "CollectedData_ann.csv")
    if "h5" in kinds:
        table.to_hdf(place / "CollectedData_ann.h5", key="df_with_missing", mode="w")
    for number in range(len(points)):
        Image.new("L", (64, 48), 10 * number + 5).save(place / f"img{number:03d}.png")
    return place


def write_video(path: Path, frames: int = 9) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with VideoWriter(path, (64, 48), 25) as writer:
        for frame in range(frames):
            writer.add(np.full((48, 64, 3), 20 * frame, np.uint8))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two folders of four and three labelled frames; a body part is missing here and there."""
    folder = tmp_path / "project"
    first, second = random_points(4), random_points(3, 1)
    first[1, 2] = np.nan
    second[0] = np.nan
    write_folder(folder, "m1", first)
    write_folder(folder, "m2", second)
    return folder


def points_of(source: Any) -> NDArray[np.float64]:
    assert source.annotations is not None
    return np.asarray(source.annotations.points)


# What is labelled


def test_frames_with_their_labels(project: Path) -> None:
    source = LabelledFrames(project)
    assert len(source) == 7
    assert [source.name(index) for index in (0, 3, 4)] == ["m1/img000.png", "m1/img003.png", "m2/img000.png"]
    assert [source.group(index) for index in range(7)] == ["m1"] * 4 + ["m2"] * 3
    assert [int(source.image(index)[0, 0, 0]) for index in range(7)] == [5, 15, 25, 35, 5, 15, 25]
    assert source.image(0).shape == (48, 64, 3)
    assert source.box(0) is None
    found = source.annotations
    assert found is not None
    assert (found.names, found.reference, found.unit) == (PARTS, None, "image edge")
    expected = np.concatenate((random_points(4), random_points(3, 1)))
    expected[1, 2] = expected[4] = np.nan
    np.testing.assert_allclose(found.points, expected + 0.5)


@pytest.mark.parametrize("style", ["levels", "posix", "windows"])
@pytest.mark.parametrize("kind", ["csv", "h5"])
def test_both_formats_in_every_style(tmp_path: Path, kind: str, style: str) -> None:
    points = random_points(3)
    points[2, 0] = np.nan
    place = write_folder(tmp_path, "m1", points, kind, style)
    parts, rows = read_labels(place / f"CollectedData_ann.{kind}")
    assert parts == PARTS
    assert [name for name, _ in rows] == ["img000.png", "img001.png", "img002.png"]
    np.testing.assert_allclose([found for _, found in rows], points + 0.5, rtol=1e-12)
    assert len(LabelledFrames(tmp_path)) == 3


def test_each_folder_may_have_its_own_format_and_a_csv_goes_first(tmp_path: Path) -> None:
    write_folder(tmp_path, "m1", random_points(2), "csv h5")
    write_folder(tmp_path, "m2", random_points(3), "h5")
    (tmp_path / "labeled-data" / "m1" / "CollectedData_ann.h5").write_bytes(b"not looked at")
    (tmp_path / "labeled-data" / "m1_labeled").mkdir()
    (tmp_path / "labeled-data" / "notes.txt").write_text("a file among the folders")
    source = LabelledFrames(tmp_path)
    assert [source.group(index) for index in range(len(source))] == ["m1"] * 2 + ["m2"] * 3


def test_half_a_point_is_no_point(tmp_path: Path) -> None:
    points = random_points(2)
    points[0, 1, 0] = np.nan
    points[1, 2, 1] = np.inf
    write_folder(tmp_path, "m1", points)
    found = np.isfinite(points_of(LabelledFrames(tmp_path)))
    assert not found[0, 1].any()
    assert not found[1, 2].any()
    assert found.sum() == 2 * 3 * 2 - 4


def test_labels_without_their_image_are_left_out(project: Path) -> None:
    (project / "labeled-data" / "m1" / "img002.png").unlink()
    source = LabelledFrames(project)
    assert [source.name(index) for index in range(3)] == ["m1/img000.png", "m1/img001.png", "m1/img003.png"]
    np.testing.assert_allclose(points_of(source)[2], random_points(4)[3] + 0.5)
    shutil.rmtree(project / "labeled-data" / "m2")
    for file in (project / "labeled-data" / "m1").glob("*.png"):
        file.unlink()
    with pytest.raises(TrigpointError, match=r"None of the frames labelled in .*labeled-data is there\."):
        LabelledFrames(project)


def test_a_label_whose_image_no_file_can_be_called_is_left_out(project: Path) -> None:
    table = project / "labeled-data" / "m1" / "CollectedData_ann.csv"
    table.write_text(table.read_text().replace("img002.png", 300 * "a").replace("img001.png", "a\0b"))
    assert [name.split("/")[1] for name in map(LabelledFrames(project).name, range(2))] == [
        "img000.png",
        "img003.png",
    ]


def test_a_damaged_image_is_unreadable(project: Path) -> None:
    (project / "labeled-data" / "m1" / "img001.png").write_text("no image")
    source = LabelledFrames(project)
    with pytest.raises(UnreadableImage, match="not a readable image"):
        source.image(1)
    assert source.image(2)[0, 0, 0] == 25


def test_a_folder_is_prepared_as_a_video_is(tmp_path: Path) -> None:
    """One camera, a square that is elsewhere on each frame."""
    place = write_folder(tmp_path, "m1", random_points(9))
    for number in range(9):
        frame = np.full((48, 64, 3), 60, np.uint8)
        frame[20:32, 6 * number : 6 * number + 12] = 220
        Image.fromarray(frame).save(place / f"img{number:03d}.png")
    source = LabelledFrames(tmp_path, VideoConfig(background="grey", follow=True))
    for number in (2, 6, 4):
        box = source.box(number)
        assert box is not None
        assert box.x + box.width / 2 == pytest.approx(6 * number + 6, abs=2)
        image = source.image(number)
        assert (image[45] == 128).all()
        assert (image[26, 6 * number + 6] == 220).all()
    cropped = LabelledFrames(tmp_path, VideoConfig(crop=(1, 2, 30, 40)))
    assert cropped.box(3) == Placement(1, 2, 30, 40)
    few = VideoConfig(background="grey")
    write_folder(tmp_path, "m0", random_points(2))
    with pytest.raises(TrigpointError, match="m0 has too few readable frames to tell its background"):
        LabelledFrames(tmp_path, few).image(0)


# What is wrong with tables


GOOD = "scorer,a,a\nbodyparts,nose,nose\ncoords,x,y\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected DeepLabCut's three header rows scorer, bodyparts, coords"),
        ("image,x,y\na.png,1,2\nb.png,3,4\n", "expected DeepLabCut's three header rows"),
        (
            "scorer,a,a\nindividuals,i,i\nbodyparts,nose,nose\ncoords,x,y\n",
            "expected DeepLabCut's three header rows",
        ),
        ("scorer,a,a\nbodyparts,nose,nose\ncoords,y,x\n", "expected columns x, y for each body part"),
        ("scorer,a\nbodyparts,nose\ncoords,x\n", "expected columns x, y for each body part"),
        (
            "scorer,a,a,a\nbodyparts,n,n,n\ncoords,x,y,likelihood\n",
            "expected columns x, y for each body part",
        ),
        ("scorer\nbodyparts\ncoords\n", "expected columns x, y for each body part"),
        (GOOD + "a.png,1\n", "line 4: expected 2 numbers"),
        (GOOD + "a.png,1,2\n\nb.png,1,two\n", "line 6: expected 2 numbers"),
        (GOOD + "a.png,1,2,3\n", "line 4: expected 2 numbers"),
    ],
)
def test_a_malformed_table_is_named(tmp_path: Path, text: str, message: str) -> None:
    table = tmp_path / "CollectedData_a.csv"
    table.write_text(text)
    with pytest.raises(TrigpointError, match=message) as caught:
        read_labels(table)
    assert "CollectedData_a.csv" in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00b\xe9", GOOD.encode() + b"a" * 200_000])
def test_a_table_that_is_no_text_is_named(tmp_path: Path, content: bytes) -> None:
    table = tmp_path / "CollectedData_a.csv"
    table.write_bytes(content)
    with pytest.raises(TrigpointError, match=r"CollectedData_a\.csv is no table of text \(.+\)\."):
        read_labels(table)


def test_blank_lines_and_a_table_of_no_frames(tmp_path: Path) -> None:
    table = tmp_path / "CollectedData_a.csv"
    table.write_text(GOOD)
    assert read_labels(table) == (("nose",), [])
    table.write_text(GOOD + "\nlabeled-data/m/a.png, 1.5 ,2\n\n")
    parts, ((name, points),) = read_labels(table)
    assert (parts, name, points.tolist()) == (("nose",), "a.png", [[2.0, 2.5]])


def test_a_damaged_hdf5_table_is_named(tmp_path: Path) -> None:
    place = write_folder(tmp_path, "m1", random_points(2), "h5")
    table = place / "CollectedData_ann.h5"
    table.write_bytes(table.read_bytes()[:700])
    with pytest.raises(TrigpointError, match=r"CollectedData_ann\.h5 is no readable HDF5 table"):
        LabelledFrames(tmp_path)


@pytest.mark.parametrize("layout", ["fixed", "table"])
@pytest.mark.parametrize("kind", ["flat", "multi", "series"])
def test_another_hdf5_table_is_refused(tmp_path: Path, kind: str, layout: str) -> None:
    table: Any
    if kind == "flat":
        table = pd.DataFrame({"x": [1.0], "yy": [2.0]}, ["a.png"])
    elif kind == "series":
        table = pd.Series([1.0, 2.0], ["a.png", "b.png"])
    else:  # a project of several animals
        columns = pd.MultiIndex.from_product([["ann"], ["i1", "i2"], PARTS, ["x", "y"]])
        table = pd.DataFrame(np.zeros((1, 12)), ["a.png"], columns)
    path = tmp_path / "CollectedData_ann.h5"
    table.to_hdf(path, key="df_with_missing", mode="w", format=layout)
    with pytest.raises(TrigpointError, match="expected DeepLabCut's three header rows"):
        read_labels(path)


def test_hdf5_without_h5py_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = write_folder(tmp_path, "m1", random_points(2), "h5")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(TrigpointError, match=r"needs h5py: pip install 'trigpoint\[dlc\]'"):
        read_labels(place / "CollectedData_ann.h5")


WRITE = """
import sys, warnings
warnings.simplefilter("ignore")
import pandas as pd
rows = pd.read_csv(sys.argv[1], header=[0, 1, 2], index_col=[0, 1, 2] if sys.argv[3] == "fixed" else 0)
rows.to_hdf(sys.argv[2], key="df_with_missing", mode="w", format=sys.argv[3])
assert pd.__version__ < "3"
"""


@pytest.mark.parametrize("layout", ["fixed", "table"])
def test_what_the_pandas_that_deeplabcut_requires_writes(
    tmp_path: Path, old_pandas: Path, layout: str
) -> None:
    """In the layout `table` rows cannot have three levels: DeepLabCut 2's one path is in the first column."""
    points = random_points(3)
    points[2, 0] = np.nan
    style = "levels" if layout == "fixed" else "posix"
    table = write_folder(tmp_path, "m1", points, "csv", style) / "CollectedData_ann.csv"
    command = [old_pandas, "-c", WRITE, table, table.with_suffix(".h5"), layout]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    parts, rows = read_labels(table.with_suffix(".h5"))
    assert parts == PARTS
    assert [name for name, _ in rows] == ["img000.png", "img001.png", "img002.png"]
    np.testing.assert_allclose([found for _, found in rows], points + 0.5, rtol=1e-12)


def test_columns_of_several_kinds_lie_in_blocks_of_their_own(tmp_path: Path) -> None:
    """Whole numbers are one block, others another."""
    for layout in ("fixed", "table"):
        table = labels(random_points(2).round(), "m1", "posix")
        table[("ann", "left ear", "x")] = [3, 4]
        path = tmp_path / f"CollectedData_{layout}.h5"
        table.to_hdf(path, key="df_with_missing", mode="w", format=layout)
        parts, rows = read_labels(path)
        assert parts == PARTS
        found = [points - 0.5 for _, points in rows]
        np.testing.assert_allclose(found, table.to_numpy(float).reshape(2, 3, 2))


def test_hdf5_that_reads_other_files_is_refused(tmp_path: Path) -> None:
    import h5py

    path = write_folder(tmp_path, "m1", random_points(2), "h5") / "CollectedData_ann.h5"
    (tmp_path / "secret").write_bytes(bytes(96))
    with h5py.File(path, "r+") as file:
        kept = file["df_with_missing"]
        del kept["block0_values"]
        kept.create_dataset("block0_values", (2, 6), "f8", external=[(str(tmp_path / "secret"), 0, 96)])
    with pytest.raises(TrigpointError, match=r"h5 is no readable .*block0_values lies in another file"):
        read_labels(path)
    with h5py.File(path, "r+") as file:
        del file["df_with_missing"]["block0_values"]
        file["df_with_missing"]["block0_values"] = h5py.ExternalLink(str(tmp_path / "b.h5"), "/values")
    with pytest.raises(TrigpointError, match=r"h5 is no readable .*block0_values is a link"):
        read_labels(path)


def test_hdf5_with_fewer_rows_than_names_is_refused(tmp_path: Path) -> None:
    import h5py

    path = write_folder(tmp_path, "m1", random_points(3), "h5") / "CollectedData_ann.h5"
    with h5py.File(path, "r+") as file:
        kept = file["df_with_missing"]
        values = kept["block0_values"][:2]
        del kept["block0_values"]
        kept["block0_values"] = values
    with pytest.raises(TrigpointError, match=r"h5 is no readable .*does not hold 3 rows"):
        LabelledFrames(tmp_path)


def test_hdf5_that_says_it_holds_terabytes_is_refused(tmp_path: Path) -> None:
    import h5py

    path = write_folder(tmp_path, "m1", random_points(2), "h5") / "CollectedData_ann.h5"
    with h5py.File(path, "r+") as file:
        kept = file["df_with_missing"]
        del kept["block0_values"]
        kept.create_dataset("block0_values", (2**40, 6), "f8", chunks=(64, 6), compression="gzip")
    with pytest.raises(
        TrigpointError, match=r"h5 is no readable .* has 52,776,558,133,248 bytes; the limit is"
    ):
        read_labels(path)


@pytest.mark.parametrize("kind", ["csv", "h5"])
def test_a_label_far_off_any_image_is_refused(tmp_path: Path, kind: str) -> None:
    points = random_points(2)
    points[1, 1, 0] = 1e308
    place = write_folder(tmp_path, "m1", points, kind)
    with pytest.raises(TrigpointError, match=rf"{kind}: expected pixels; got the coordinate 1e\+308"):
        LabelledFrames(tmp_path)
    assert place.is_dir()


def test_folders_of_other_body_parts_are_refused(project: Path) -> None:
    write_folder(project, "m3", random_points(2)[:, :2])
    with pytest.raises(TrigpointError, match=r"m3.*has other body parts than .*m1"):
        LabelledFrames(project)


def test_a_project_without_labels(tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match=r"DeepLabCut needs the folder .*labeled-data; see docs"):
        open_source(f"deeplabcut:{tmp_path}")
    (tmp_path / "labeled-data" / "m1").mkdir(parents=True)
    with pytest.raises(TrigpointError, match="holds no CollectedData file: nothing is labelled"):
        open_source(f"deeplabcut:{tmp_path}", "labels")


# A project as a source


def test_videos_to_train_on_and_labelled_frames_to_fit_on(project: Path) -> None:
    words = f"deeplabcut:{project}"
    assert isinstance(open_source(words), LabelledFrames)  # no videos
    write_video(project / "videos" / "m1.mp4")
    train = open_source(words, video=VideoConfig(every=3, crop=(0, 0, 32, 32)))
    assert isinstance(train, Videos)
    assert [train.name(index) for index in range(len(train))] == [f"m1.mp4:{n:06d}" for n in (0, 3, 6)]
    assert train.box(0) == Placement(0, 0, 32, 32)
    assert (train.words, train.description) == ((words,), words)
    fit = open_source(words, "labels", VideoConfig(crop=(0, 0, 32, 32)))
    assert isinstance(fit, LabelledFrames)
    assert fit.box(0) == Placement(0, 0, 32, 32)
    assert (fit.words, fit.description) == ((words,), words)
    with pytest.raises(TrigpointError, match="`trigpoint fit` cross-validates over its folders"):
        open_source(words, "test")


def test_a_folder_of_videos_that_holds_none(project: Path) -> None:
    (project / "videos").mkdir()
    (project / "videos" / "notes.txt").touch()
    assert isinstance(open_source(f"deeplabcut:{project}"), LabelledFrames)


# Real projects


def real(name: str) -> Path:
    if not (DATA / name / "labeled-data").is_dir():
        pytest.skip(f"the DeepLabCut project {name} is not here")
    return DATA / name


def test_the_lips() -> None:
    project = real("lips")
    source = LabelledFrames(project)
    assert len(source) == 264
    assert len({source.group(index) for index in range(264)}) == 30
    found = source.annotations
    assert found is not None
    assert found.names[:2] == ("leftLip", "rightLip")
    assert len(found.names) == 8
    assert source.image(100).shape == (240, 320, 3)
    known = np.isfinite(found.points).all(-1)
    assert known.mean() > 0.9
    inside = (found.points > 0) & (found.points < (320, 240))
    assert inside[known].all()
    videos = open_source(f"deeplabcut:{project}", video=VideoConfig(frames=2))
    assert len(videos) == 16
    assert videos.image(5).shape == (240, 320, 3)


def test_the_lips_are_the_same_in_both_formats() -> None:
    folders = sorted((real("lips") / "labeled-data").iterdir())[:6]
    for folder in folders:
        (csv_parts, csv_rows), (h5_parts, h5_rows) = (
            read_labels(next(folder.glob(f"CollectedData*.{kind}"))) for kind in ("csv", "h5")
        )
        assert csv_parts == h5_parts
        assert [name for name, _ in csv_rows] == [name for name, _ in h5_rows]
        for (_, one), (_, two) in zip(csv_rows, h5_rows, strict=True):
            np.testing.assert_allclose(one, two)


def test_the_mouse_as_another_reader_reads_it() -> None:
    sleap_io = pytest.importorskip("sleap_io.io.dlc")
    project = real("mouse")
    source = LabelledFrames(project)
    assert len(source) == 48
    found = source.annotations
    assert found is not None
    assert found.names == ("snout", "leftear", "rightear", "tailbase")
    assert source.image(3).shape == (480, 640, 3)
    theirs = sleap_io.load_dlc(next((project / "labeled-data" / "m4s1").glob("*.csv")), config=False)
    names = [node.name for node in theirs.skeleton.nodes]
    points = np.stack([frame.instances[0].numpy() for frame in theirs.labeled_frames])
    np.testing.assert_allclose(found.points - 0.5, points[:, [names.index(name) for name in found.names]])


def test_the_mouse_is_followed(tmp_path: Path) -> None:
    """The labels judge the crop of the labelled frames; the crop never looks at them."""
    few = tmp_path / "labeled-data" / "m4s1"
    few.mkdir(parents=True)
    there = real("mouse") / "labeled-data" / "m4s1"
    for file in (*there.glob("*.csv"), *sorted(there.glob("*.png"))[::4]):
        shutil.copy(file, few)
    source = LabelledFrames(tmp_path, VideoConfig(follow=True))
    assert len(source) == 12
    for index, points in enumerate(points_of(source)):
        box = source.box(index)
        assert box is not None
        unit = box.to_unit(points)
        assert ((unit > 0) & (unit < 1)).all(), source.name(index)
        assert box.width < 320
