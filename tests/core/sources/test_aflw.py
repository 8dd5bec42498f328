"""The AFLW source: the owners' database, the paper's box, both ways to split, bad databases."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trigpoint.core import apart
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.geometry import Placement
from trigpoint.core.sources import Split, open_source
from trigpoint.core.sources.aflw import AFLW

REAL = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "mtfl" / "testing.txt"
on_real_data = pytest.mark.skipif(
    not REAL.is_file(), reason="MTFL's testing.txt is not at ../shared/data/mtfl"
)

# The owners' tables (release of 2012-11-28), with some of their columns that are not needed here.
TABLES = """
CREATE TABLE Faces (face_id INTEGER PRIMARY KEY, file_id TEXT, db_id TEXT);
CREATE TABLE FaceImages (image_id INTEGER PRIMARY KEY, db_id TEXT, file_id TEXT, filepath TEXT,
                         bw INTEGER, width INTEGER, height INTEGER);
CREATE TABLE FaceRect (face_id INTEGER, x INTEGER, y INTEGER, w INTEGER, h INTEGER, annot_type_id INTEGER);
CREATE TABLE FeatureCoords (face_id INTEGER, feature_id INTEGER, x REAL, y REAL);
CREATE TABLE FeatureCoordTypes (feature_id INTEGER PRIMARY KEY, descr TEXT, code TEXT,
                                x REAL, y REAL, z REAL);
"""
TYPES = ["LeftBrowLeftCorner", "LeftBrowCenter", "LeftBrowRightCorner", "RightBrowLeftCorner",
         "RightBrowCenter", "RightBrowRightCorner", "LeftEyeLeftCorner", "LeftEyeCenter",
         "LeftEyeRightCorner", "RightEyeLeftCorner", "RightEyeCenter", "RightEyeRightCorner", "LeftEar",
         "NoseLeft", "NoseCenter", "NoseRight", "RightEar", "MouthLeftCorner", "MouthCenter",
         "MouthRightCorner", "ChinCenter"]  # fmt: skip
USED = (8, 11, 15, 18, 20)  # numbers of eyes, nose and mouth corners


def connect(database: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA synchronous = OFF")  # a test need not survive a power failure
    return connection


def add(database: Path, face: int, file: str, box: tuple[int, ...] | None, features: tuple[int, ...]) -> None:
    """A face whose feature n lies at (face + n, n)."""
    with closing(connect(database)) as connection, connection:
        name = Path(file).name
        connection.execute("INSERT INTO Faces VALUES (?, ?, 'flickr')", (face, name))
        if not connection.execute("SELECT 1 FROM FaceImages WHERE file_id = ?", (name,)).fetchall():
            connection.execute(
                "INSERT INTO FaceImages VALUES (NULL, 'flickr', ?, ?, 0, 300, 200)", (name, file)
            )
        if box:
            connection.execute("INSERT INTO FaceRect VALUES (?, ?, ?, ?, ?, 1)", (face, *box))
        rows = [(face, number, face + number, number) for number in features]
        connection.executemany("INSERT INTO FeatureCoords VALUES (?, ?, ?, ?)", rows)


def create(folder: Path) -> Path:
    folder.mkdir(parents=True)
    with closing(connect(folder / "aflw.sqlite")) as connection, connection:
        connection.executescript(TABLES)
        rows = [(number, name, "", 0.0, 0.0, 0.0) for number, name in enumerate(TYPES, 1)]
        connection.executemany("INSERT INTO FeatureCoordTypes VALUES (?, ?, ?, ?, ?, ?)", rows)
    return folder / "aflw.sqlite"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Six faces on four photos, two of them of no use: one without its nose, one without a box."""
    folder = tmp_path / "aflw"
    database = create(folder / "data")
    add(database, 41, "2/image00020.png", (10, 20, 80, 80), (*USED, 1, 21))
    add(database, 39, "0/image00013.jpg", (100, 60, 40, 48), USED[::-1])
    add(database, 40, "0/image00013.jpg", (-5, -6, 64, 64), tuple(range(1, 22)))
    add(database, 42, "3/image00030.jpg", (10, 20, 80, 80), (8, 11, 18, 20))
    add(database, 43, "3/image00030.jpg", None, USED)
    add(database, 44, "3/image00044.jpg", (1, 2, 30, 30), USED)
    for file in ("0/image00013.jpg", "2/image00020.png", "3/image00030.jpg", "3/image00044.jpg"):
        path = folder / "data" / "flickr" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (300, 200), (90, 120, 150)).save(path)
    return folder


@pytest.fixture
def listed(small: Path) -> Path:
    """The same with a list in MTFL's format; MTFL numbers its faces and calls every photo .jpg."""
    (small / "testing.txt").write_text(
        " AFLW/0005-image00013.jpg 40.63 84.19 68.51 43.83 81.0 54.86 53.41 86.22 104.23 100.74 2 1 2 3\n"
        " AFLW\\0008-image00020.jpg 41.79 84.19 66.77 45.57 82.4 46.44 44.41 64.73 84.48 83.90 1 1 2 3\n"
        " AFLW/0013-image71262.jpg 1 2 3 4 5 6 7 8 9 10 1 1 1 1\n"
    )
    return small


def names(source: AFLW) -> list[str]:
    return [source.name(index) for index in range(len(source))]


def test_a_list_names_the_test_photos(listed: Path) -> None:
    assert names(AFLW(listed, "test")) == [
        "0/image00013-39.jpg",
        "0/image00013-40.jpg",
        "2/image00020-41.png",
    ]
    assert names(AFLW(listed, "train")) == names(AFLW(listed, "labels")) == ["3/image00044-44.jpg"]
    assert AFLW(listed).description == f"aflw:{listed} (testing.txt names the test photos)"


def test_landmarks_are_the_five_in_their_order(listed: Path) -> None:
    annotations = AFLW(listed, "test").annotations
    assert annotations is not None
    assert annotations.names == ("left eye", "right eye", "nose", "left mouth corner", "right mouth corner")
    assert annotations.reference == (0, 1)
    for face, points in zip((39, 40, 41), annotations.points, strict=True):
        np.testing.assert_array_equal(points, [[face + number, number] for number in USED])


def test_the_box_grows_above_and_to_both_sides(listed: Path) -> None:
    source = AFLW(listed, "test")
    assert source.box(0) == Placement(95, 48, 50, 60)
    assert source.box(1) == Placement(-13, -22, 80, 80)


def test_images_lie_beside_the_database(listed: Path) -> None:
    assert AFLW(listed, "test").image(2).shape == (200, 300, 3)
    inside = listed / "data"
    (listed / "testing.txt").rename(inside / "testing.txt")
    assert AFLW(inside, "test").image(0).shape == (200, 300, 3)


def test_without_a_list_faces_are_drawn_by_their_number(tmp_path: Path) -> None:
    database = create(tmp_path / "aflw")
    with closing(connect(database)) as connection, connection:
        connection.execute("INSERT INTO FaceImages VALUES (1, 'flickr', 'a.jpg', '0/a.jpg', 0, 9, 9)")
        for face in range(39_341, 39_941):
            connection.execute("INSERT INTO Faces VALUES (?, 'a.jpg', 'flickr')", (face,))
            connection.execute("INSERT INTO FaceRect VALUES (?, 1, 1, 5, 5, 1)", (face,))
            rows = [(face, number, 1.0, 1.0) for number in USED]
            connection.executemany("INSERT INTO FeatureCoords VALUES (?, ?, ?, ?)", rows)
    train, test = AFLW(tmp_path / "aflw"), AFLW(tmp_path / "aflw", "test")
    assert len(test) / 600 == pytest.approx(2_991 / 13_113, abs=0.03)
    assert set(names(train)).isdisjoint(names(test))
    assert len(train) + len(test) == 600
    assert names(test)[:3] == ["0/a-39349.jpg", "0/a-39350.jpg", "0/a-39354.jpg"]  # fixed for good
    assert test.description.endswith("(test faces by a hash of face_id)")


def test_the_first_of_two_boxes_counts_and_none_without_extent(listed: Path) -> None:
    with closing(connect(listed / "data" / "aflw.sqlite")) as connection, connection:
        connection.execute("INSERT INTO FaceRect VALUES (39, 0, 0, 8, 8, 2)")
        connection.execute("UPDATE FaceRect SET w = 0 WHERE face_id = 40")
    source = AFLW(listed, "test")
    assert names(source) == ["0/image00013-39.jpg", "2/image00020-41.png"]
    assert source.box(0) == Placement(95, 48, 50, 60)


def test_its_words_open_it_again(listed: Path) -> None:
    source = open_source(f"aflw:{listed}", "test")
    assert isinstance(source, AFLW)
    again = open_source(source.words, "test")
    assert isinstance(again, AFLW)
    assert names(again) == names(source)
    assert source.attributes is None


def test_the_database_is_not_written(listed: Path) -> None:
    database = listed / "data" / "aflw.sqlite"
    before = database.read_bytes()
    database.chmod(0o444)
    AFLW(listed)
    assert database.read_bytes() == before
    assert sorted(path.name for path in database.parent.iterdir()) == ["aflw.sqlite", "flickr"]


def test_a_folder_with_odd_characters(listed: Path) -> None:
    odd = listed.rename(listed.parent / "a b#c?d%20")
    assert len(AFLW(odd, "test")) == 3


def test_a_file_that_is_no_database_is_refused(small: Path) -> None:
    (small / "data" / "aflw.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(
        TrigpointError, match=r"aflw\.sqlite is not the database of AFLW's owners: file is not"
    ):
        AFLW(small)


def test_another_database_is_refused(small: Path) -> None:
    with closing(connect(small / "data" / "aflw.sqlite")) as connection, connection:
        connection.execute("DROP TABLE FaceRect")
    with pytest.raises(TrigpointError, match="owners: no such table: FaceRect"):
        AFLW(small)


def test_a_view_that_never_ends_is_not_waited_for(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(connect(small / "data" / "aflw.sqlite")) as connection, connection:
        connection.execute("DROP TABLE FaceRect")
        count = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT i"
        columns = ", ".join(f"i AS {name}" for name in ("face_id", "x", "y", "w", "h", "rowid"))
        connection.execute(f"CREATE VIEW FaceRect AS {count}, {columns} FROM c")
    monkeypatch.setattr(apart, "call", partial(apart.call, seconds=1))
    with pytest.raises(TrigpointError, match="owners: it was not read within 1 seconds"):
        AFLW(small)


def test_a_landmark_that_is_no_number_is_refused(small: Path) -> None:
    with closing(connect(small / "data" / "aflw.sqlite")) as connection, connection:
        connection.execute("UPDATE FeatureCoords SET x = 'left' WHERE face_id = 40 AND feature_id = 8")
    with pytest.raises(TrigpointError, match=r"owners: could not convert string to float: 'left'"):
        AFLW(small)


def test_a_landmark_without_value_is_missing(listed: Path) -> None:
    with closing(connect(listed / "data" / "aflw.sqlite")) as connection, connection:
        connection.execute("UPDATE FeatureCoords SET x = NULL WHERE face_id = 40 AND feature_id = 8")
    assert names(AFLW(listed, "test")) == ["0/image00013-39.jpg", "2/image00020-41.png"]


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_list_of_other_photos_is_refused(small: Path, split: Split) -> None:
    (small / "testing.txt").write_text("AFLW/0001-image99999.jpg\n")
    with pytest.raises(TrigpointError, match=r"None of the photos that .*testing\.txt lists"):
        AFLW(small, split)
    (small / "testing.txt").write_text("\n \n")
    with pytest.raises(TrigpointError, match=r"testing\.txt lists no photo"):
        AFLW(small, split)


def test_a_split_without_faces_is_refused(listed: Path) -> None:
    (listed / "testing.txt").write_text("image00013.jpg\nimage00020.png\nimage00044.jpg\n")
    with pytest.raises(TrigpointError, match="no face of the train split"):
        AFLW(listed, "train")


def test_a_missing_database_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match=r"AFLW needs the file .*aflw\.sqlite; see docs/sources\.md"):
        AFLW(tmp_path)


def test_a_missing_photo_is_unreadable(listed: Path) -> None:
    (listed / "data" / "flickr" / "0" / "image00013.jpg").unlink()
    with pytest.raises(UnreadableImage):
        AFLW(listed, "test").image(0)


@on_real_data
def test_mtfl_s_own_list_is_understood(small: Path) -> None:
    (small / "testing.txt").write_bytes(REAL.read_bytes())
    add(small / "data" / "aflw.sqlite", 50, "2/image15367.jpg", (1, 2, 30, 30), USED)
    assert "2/image15367-50.jpg" in names(AFLW(small, "test"))
    assert "3/image00044-44.jpg" in names(AFLW(small, "train"))
