"""Landmark tables and COCO keypoints files: both layouts, splits, and what is wrong with bad ones."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.files.table import LandmarkTable as WrittenTable
from trigpoint.core.geometry import Placement
from trigpoint.core.inference.predictor import Landmarks
from trigpoint.core.sources import open_source
from trigpoint.core.sources.annotated import CocoKeypoints, LandmarkTable

LONG = """image,landmark,x,y,split
a.png,left eye,10.5,20,train
a.png,right eye,30,21.25,train
sub/b.png,right eye,,,train
sub/b.png,left eye,11,22,train
c.png,left eye,1,2,test
c.png,right eye,3,4,test
"""


@pytest.fixture
def table(tmp_path: Path) -> Callable[[str], Path]:
    """Write a table next to images a, b and c."""
    for number, name in enumerate(("a.png", "sub/b.png", "c.png"), 1):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (40, 30), (number, 0, 0)).save(tmp_path / name)

    def write(text: str) -> Path:
        path = tmp_path / "table.csv"
        path.write_bytes(text.encode())
        return path

    return write


def test_long_table(table: Callable[[str], Path]) -> None:
    path = table(LONG)
    source = LandmarkTable(path)
    assert source.words == (f"csv:{path}",)
    assert [source.name(i) for i in range(len(source))] == ["a.png", "sub/b.png"]
    assert [source.image(i)[0, 0, 0] for i in range(2)] == [1, 2]
    assert (source.box(0), source.attributes) == (None, None)
    found = source.annotations
    assert found is not None
    assert found.names == ("left eye", "right eye")
    assert (found.reference, found.unit, found.swaps) == ((0, 1), "inter-ocular distance", ())
    np.testing.assert_array_equal(found.points, [[[10.5, 20], [30, 21.25]], [[11, 22], [np.nan, np.nan]]])
    test = open_source(f"csv:{path}", "test")
    assert [test.name(i) for i in range(len(test))] == ["c.png"]
    labels = LandmarkTable(path, "labels")  # none of its own: those of train
    assert len(labels) == 2


def test_wide_table_gives_the_same(table: Callable[[str], Path]) -> None:
    wide = LandmarkTable(
        table(
            "Split,left eye_x,left eye_y,note,right eye_x,right eye_y,Image\r\n"
            "train,10.5,20,first,30,21.25,a.png\r\n"
            'train,11,22,"a, b",, ,sub\\b.png\r\n'
            "test,1,2,,3,4,c.png\r\n\r\n"
        )
    ).annotations
    long = LandmarkTable(table(LONG)).annotations
    assert wide is not None
    assert long is not None
    assert (wide.names, wide.reference, wide.unit) == (long.names, long.reference, long.unit)
    np.testing.assert_array_equal(wide.points, long.points)


@pytest.mark.parametrize("mark", ["\ufeff", ""])
@pytest.mark.parametrize("separator", [";", "\t", ","])
def test_tables_of_spreadsheets(table: Callable[[str], Path], mark: str, separator: str) -> None:
    source = LandmarkTable(table(mark + LONG.replace(",", separator)))
    assert source.annotations is not None
    assert source.annotations.names == ("left eye", "right eye")


def test_a_table_written_by_detect_can_be_read(table: Callable[[str], Path], tmp_path: Path) -> None:
    table(LONG)
    points = np.array([[1.25, 2.5], [3, 4]])
    with WrittenTable(tmp_path / "landmarks.csv") as writer:
        for name in ("a.png", "c.png"):
            writer.add(name, Landmarks(points, np.ones(2)))
    source = LandmarkTable(tmp_path / "landmarks.csv")
    assert source.annotations is not None
    assert source.annotations.names == ("0", "1")
    assert (source.annotations.reference, source.annotations.unit) == (None, "image edge")
    np.testing.assert_array_equal(source.annotations.points[0], points)


def test_an_image_without_landmarks_is_listed(table: Callable[[str], Path]) -> None:
    source = LandmarkTable(table("image,landmark,x,y\nsub/b.png,,,\na.png,tip,1,2\nc.png,end,5,\n"))
    assert source.annotations is not None
    assert len(source) == 3
    assert np.isnan(source.annotations.points[[0, 2]]).all()  # a point without y is no point
    np.testing.assert_array_equal(source.annotations.points[1], [[1, 2], [np.nan, np.nan]])


@pytest.mark.parametrize(
    "eyes", [("left_eye", "right_eye"), ("LeftEye", "RightEye"), ("Eye left", "Eye right")]
)
def test_eyes_are_the_unit_where_both_are_named(table: Callable[[str], Path], eyes: tuple[str, str]) -> None:
    left, right = eyes
    text = f"image,nose_x,nose_y,{right}_x,{right}_y,{left}_x,{left}_y\na.png,1,2,3,4,5,6\n"
    found = LandmarkTable(table(text)).annotations
    assert found is not None
    assert found.reference == (2, 1)
    one_eye = LandmarkTable(table(text.replace(right, "chin"))).annotations
    assert one_eye is not None
    assert one_eye.reference is None


def test_without_a_split_every_tenth_image_is_a_test_image(tmp_path: Path) -> None:
    names = [f"photo-{number}.jpg" for number in range(3000)]
    path = tmp_path / "many.csv"

    def parts(order: list[str]) -> list[set[str]]:
        path.write_text("image,tip_x,tip_y\n" + "".join(f"{name},1,2\n" for name in order))
        return [
            set(source.images)
            for source in (LandmarkTable(path), LandmarkTable(path, "labels"), LandmarkTable(path, "test"))
        ]

    train, labels, test = parts(names)
    assert train == labels
    assert train | test == set(names)
    assert not train & test
    assert len(test) == pytest.approx(300, abs=60)
    assert parts(names[:100:-1])[2] <= test  # whatever else is in the table


BAD = {
    "image,x,y\na.png,1,2\n": r"line 1: expected the columns image,landmark,x,y or .* got 'image,x,y'",
    "landmark,x,y\ntip,1,2\n": r"line 1: expected the columns",
    "": r"line 1: expected the columns",
    "image,landmark,x\na.png,tip,2\n": r"line 1: expected the columns",
    "image,tip_x,end_x,end_y\na.png,1,2,3\n": r"line 1: the column 'tip_x' has no partner 'tip_y'",
    "image,landmark,x,y\n": "lists no landmark",
    "image,landmark,x,y\na.png,tip,1,2\n\na.png,end,1\n": r"line 4: expected 4 columns; got 3",
    "image,landmark,x,y\na.png,tip,1,2\na.png,end,3,four\n": r"line 3: expected a number .* got 'four'",
    "image,landmark,x,y\na.png,tip,1,inf\n": r"line 2: expected a number .* got 'inf'",
    "image,landmark,x,y\na.png,tip,1,2\nb.png,tip,1,2\na.png,tip,3,4\n": r"line 4: this landmark .* before",
    "image,tip_x,tip_y\na.png,1,2\na.png,1,2\n": r"line 3: this landmark of this image was given before",
    "image,landmark,x,y\na.png,tip,1,1e308\n": r"line 2: expected a number of pixels .* got '1e308'",
    "image,landmark,x,y\na\0.png,tip,1,2\n": r"line 2: expected the name of an image; got 'a\\x00.png'",
    "image,landmark,x,y\na.png," + "t" * 200_000 + ",1,2\n": r"line 2: expected CSV; field larger than",
    "image,landmark,x,y\n,tip,1,2\n": r"line 2: expected the name of an image; got ''",
    "image,landmark,x,y,split\na.png,tip,1,2,val\n": r"line 2: expected the split train, .* got 'val'",
    LONG.replace("30,21.25,train", "30,21.25,test"): r"line 3: a.png was of the split 'train' before",
    LONG.replace("test", "train"): None,
}


@pytest.mark.parametrize("text", list(BAD))
def test_bad_tables_are_refused_with_the_line(table: Callable[[str], Path], text: str) -> None:
    if BAD[text] is None:
        with pytest.raises(TrigpointError, match=r"table\.csv has no image for test among 3, by their split"):
            LandmarkTable(table(text), "test")
    else:
        with pytest.raises(TrigpointError, match=BAD[text]) as caught:
            LandmarkTable(table(text))
        assert "table.csv" in str(caught.value)


def test_missing_files(tmp_path: Path, table: Callable[[str], Path]) -> None:
    with pytest.raises(TrigpointError, match=r"csv needs the file .*none\.csv"):
        LandmarkTable(tmp_path / "none.csv")
    with pytest.raises(TrigpointError, match="is a folder; csv takes a file"):
        LandmarkTable(tmp_path)
    with pytest.raises(UnreadableImage):
        LandmarkTable(table("image,landmark,x,y\nlost.png,tip,1,2\n")).image(0)


# ---- COCO

NAMES = ["nose", "left_shoulder", "right_shoulder"]


def coco(folder: Path, **changes: Any) -> Path:
    """Two images in the file's folder and in images/; three people, one of them without a keypoint."""
    (folder / "images").mkdir(exist_ok=True)
    Image.new("RGB", (100, 80), (1, 0, 0)).save(folder / "a.png")
    Image.new("RGB", (100, 80), (2, 0, 0)).save(folder / "images" / "b.png")
    content: dict[str, Any] = {
        "images": [
            {"id": 7, "file_name": "a.png", "width": 100, "height": 80},
            {"id": 9, "file_name": "b.png", "width": 100, "height": 80},
        ],
        "categories": [
            {"id": 1, "name": "person", "keypoints": NAMES, "skeleton": [[1, 2], [1, 3]]},
            {"id": 2, "name": "chair"},
        ],
        "annotations": [
            {"id": 31, "image_id": 9, "category_id": 1, "bbox": [10, 20, 40, 50], "area": 2000, "iscrowd": 0,
             "num_keypoints": 2, "keypoints": [30.5, 25, 2, 0, 0, 0, 20, 40, 1]},
            {"id": 32, "image_id": 7, "category_id": 1, "bbox": [0, 0, 30, 10], "area": 300, "iscrowd": 0,
             "num_keypoints": 3, "keypoints": [5, 5, 2, 9, 6, 2, 2, 6, 2]},
            {"id": 33, "image_id": 7, "category_id": 1, "bbox": [50, 0, 9, 9], "area": 81, "iscrowd": 0,
             "num_keypoints": 0, "keypoints": [0] * 9},
            {"id": 34, "image_id": 7, "category_id": 2, "bbox": [50, 0, 9, 9], "area": 81, "iscrowd": 0},
            {"id": 35, "image_id": 9, "category_id": 1, "area": 1, "iscrowd": 0,
             "num_keypoints": 2, "keypoints": [60, 60, 2, 70, 64, 2, 0, 0, 0]},
        ],
    }  # fmt: skip
    path = folder / "people.json"
    path.write_text(json.dumps({**content, **changes}))
    return path


def test_an_image_that_no_file_can_be_called_is_unreadable(tmp_path: Path) -> None:
    images = [{"id": 7, "file_name": 300 * "a"}, {"id": 9, "file_name": "b.png"}]
    source = open_source(f"coco:{coco(tmp_path, images=images)}")
    row = next(row for row in range(len(source)) if source.name(row).startswith("aaa"))
    with pytest.raises(UnreadableImage, match="File name too long"):
        source.image(row)


def test_one_item_for_each_annotation_with_a_keypoint(tmp_path: Path) -> None:
    source = open_source(f"coco:{coco(tmp_path)}")
    assert source.words == (f"coco:{tmp_path / 'people.json'}",)
    assert [source.name(i) for i in range(len(source))] == ["b.png#31", "a.png", "b.png#35"]
    assert [source.image(i)[0, 0, 0] for i in range(3)] == [2, 1, 2]
    assert source.attributes is None
    found = source.annotations
    assert found is not None
    assert found.names == tuple(NAMES)
    assert (found.reference, found.unit, found.swaps) == (None, "image edge", ((1, 2),))
    np.testing.assert_array_equal(found.points[0], [[30.5, 25], [np.nan, np.nan], [20, 40]])


def test_boxes_are_square_with_a_tenth_on_each_side(tmp_path: Path) -> None:
    source = CocoKeypoints(coco(tmp_path))
    assert source.boxes[0] == Placement(0, 15, 60, 60)  # 10 + 40/2 - 30, 20 + 50/2 - 30; 50 * 1.2
    assert source.boxes[1] == Placement(-3, -13, 36, 36)
    without_bbox = source.box(2)
    assert without_bbox == Placement(59, 56, 12, 12)  # around its two keypoints


def test_agrees_with_pycocotools(tmp_path: Path) -> None:
    from pycocotools.coco import COCO

    path = coco(tmp_path)
    source = CocoKeypoints(path)
    assert source.annotations is not None
    with contextlib.redirect_stdout(io.StringIO()):
        reader = COCO(str(path))
    people = [item for item in reader.loadAnns(reader.getAnnIds(catIds=[1])) if item["num_keypoints"]]
    assert len(people) == len(source)
    for index, item in enumerate(people):
        assert source.images[index] == reader.loadImgs(item["image_id"])[0]["file_name"]
        expected = np.array(item["keypoints"], float).reshape(-1, 3)
        points = source.annotations.points[index]
        assert np.isnan(points).any(1).tolist() == (expected[:, 2] == 0).tolist()
        np.testing.assert_array_equal(points[expected[:, 2] > 0], expected[expected[:, 2] > 0, :2])
    assert reader.loadCats([1])[0]["keypoints"] == list(source.annotations.names)


def test_people_of_one_image_share_its_split(tmp_path: Path) -> None:
    keypoints = [1, 1, 2] * 3
    images = [{"id": number, "file_name": f"{number}.jpg"} for number in range(200)]
    annotations = [
        {"id": number, "image_id": number // 2, "category_id": 1, "keypoints": keypoints}
        for number in range(400)
    ]
    path = coco(tmp_path, images=images, annotations=annotations)
    train, test = CocoKeypoints(path), CocoKeypoints(path, "test")
    assert len(train) + len(test) == 400
    assert not set(train.images) & set(test.images)
    assert 5 < len(set(test.images)) < 40
    told = [{**image, "split": "test" if image["id"] == 3 else "train"} for image in images]
    path = coco(tmp_path, images=told, annotations=annotations)
    assert CocoKeypoints(path, "test").names == ["3.jpg#6", "3.jpg#7"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"annotations": []}, "no annotation has a keypoint"),
        ({"annotations": None}, "expected a COCO keypoints file with images, annotations and categories"),
        ({"images": [{"id": 7}]}, "expected a COCO keypoints file .* 'file_name'"),
        ({"categories": [{"id": 1}]}, "expected one list of keypoint names .* got 0 lists"),
        ({"images": [{"id": 7, "file_name": "a.png"}]}, "annotation 31: there is no image 9"),
        (
            {"annotations": [{"id": 5, "image_id": 7, "category_id": 1, "keypoints": [1, 2, 2]}]},
            r"annotation 5: expected 9 numbers, x, y and v of each keypoint; got \[1, 2, 2\]",
        ),
        (
            {
                "annotations": [
                    {"id": 5, "image_id": 7, "category_id": 1, "keypoints": [1, 2, 2] * 3, "bbox": [1]}
                ]
            },
            r"annotation 5: expected the bbox x, y, width, height; got \[1\]",
        ),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TrigpointError, match=sentence) as caught:
        CocoKeypoints(coco(tmp_path, **changes))
    assert "people.json" in str(caught.value)


def test_a_sentence_quotes_long_ids_in_part(tmp_path: Path) -> None:
    path = coco(tmp_path, annotations=[person(id="y" * 70_000, image_id="x" * 70_000)])
    with pytest.raises(TrigpointError, match="there is no image 'xxx") as caught:
        CocoKeypoints(path)
    assert len(str(caught.value)) < 400 + len(str(path))


HUGE = 10**400


def person(**changes: Any) -> dict[str, Any]:
    return {"id": 5, "image_id": 7, "category_id": 1, "keypoints": [9, 6, 2] * 3} | changes


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"images": {"id": 7}}, "of another kind: a list of objects"),
        ({"images": [7]}, "of another kind: a list of objects"),
        ({"images": [{"id": [7], "file_name": "a.png"}]}, "of another kind: an id that is a number or text"),
        ({"images": [{"id": 7, "file_name": 3}]}, "of another kind: file_name of an image"),
        ({"images": [{"id": 7, "file_name": "a\0.png"}]}, "of another kind: file_name of an image"),
        ({"images": [{"id": 7, "file_name": None}]}, "of another kind: file_name of an image"),
        ({"categories": [{"id": {}, "keypoints": NAMES}]}, "of another kind: an id that is a number or text"),
        ({"categories": [{"id": 1, "keypoints": "nose"}]}, "of another kind: keypoints of a category"),
        ({"categories": [{"id": 1, "keypoints": [1, 2, 3]}]}, "of another kind: keypoints of a category"),
        ({"annotations": [person(image_id=[7])]}, "of another kind: an id that is a number or text"),
        ({"annotations": [person(category_id={})]}, "of another kind: an id that is a number or text"),
        ({"annotations": [person(keypoints={"x": 1})]}, "of another kind: keypoints of an annotation"),
        ({"annotations": [person(keypoints="1,2,2")]}, "of another kind: keypoints of an annotation"),
        ({"annotations": [person(keypoints=[None, None, 2] * 3)]}, "annotation 5: expected 9 numbers"),
        ({"annotations": [person(keypoints=[1, [2], 2] * 3)]}, "annotation 5: expected 9 numbers"),
        ({"annotations": [person(keypoints=[1, HUGE, 2] * 3)]}, "annotation 5: expected 9 numbers"),
        ({"annotations": [person(keypoints=[1, math.inf, 2] * 3)]}, "annotation 5: expected 9 numbers"),
        ({"annotations": [person(keypoints=[math.nan, 1, 2] * 3)]}, "annotation 5: expected 9 numbers"),
        ({"annotations": [person(keypoints=[1, 2, -1] * 3)]}, "expected a keypoint with v above 0"),
        ({"annotations": [person(keypoints=[1e30, 2, 2] * 3)]}, "annotation 5: expected pixels; got"),
        ({"annotations": [person(bbox=[0, 0, math.inf, 1])]}, "annotation 5: expected the bbox"),
        ({"annotations": [person(bbox=[0, 0, HUGE, 1])]}, "annotation 5: expected the bbox"),
        ({"annotations": [person(bbox={"x": 1})]}, "annotation 5: expected the bbox"),
        ({"annotations": [person(bbox=7)]}, "annotation 5: expected the bbox"),
        ({"annotations": [person(bbox=[0, 0, 1e9, 1])]}, "annotation 5: expected pixels; got .* 1e.09"),
    ],
)  # fmt: skip
def test_fields_of_the_wrong_kind_are_refused(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TrigpointError, match=sentence) as caught:
        CocoKeypoints(coco(tmp_path, **changes))
    assert "people.json" in str(caught.value)


def test_odd_fields_that_do_no_harm(tmp_path: Path) -> None:
    """Ids that a spreadsheet made real numbers, an annotation whose id is a list, text for a split."""
    path = coco(
        tmp_path, annotations=[person(id=[1], image_id=7.0, bbox=None), person(id="x", category_id=1.0)]
    )
    source = CocoKeypoints(path)
    assert source.names == ["a.png#0", "a.png#x"]
    images = [{"id": 7, "file_name": "a.png", "split": ["train"]}]
    assert len(CocoKeypoints(coco(tmp_path, images=images, annotations=[person()]))) == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"images": ' + "[" * 100_000 + "]" * 100_000 + "}", "expected JSON; it is nested too deeply"),
        ('{"images": [' + "9" * 10_000 + "]}", "expected JSON; Exceeds the limit"),
    ],
)
def test_json_that_python_does_not_read_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "people.json").write_text(text)
    with pytest.raises(TrigpointError, match=rf"people\.json: {sentence}"):
        CocoKeypoints(tmp_path / "people.json")


def test_a_table_too_large_to_keep_is_refused(tmp_path: Path) -> None:
    """Each landmark on an image of its own: 200 KB that would take 1.6 GB."""
    lines = [f"{number}.png,{number},1,2\n" for number in range(10_000)]
    (tmp_path / "table.csv").write_text("image,landmark,x,y\n" + "".join(lines))
    with pytest.raises(TrigpointError, match=r"10,000 landmarks on 10,000 images are more than the limit"):
        LandmarkTable(tmp_path / "table.csv")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in this file system")
def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "table.csv")
    with pytest.raises(TrigpointError, match=r"table\.csv cannot be read: a pipe or a device"):
        LandmarkTable(tmp_path / "table.csv")


def test_text_that_is_no_json_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "people.json"
    path.write_text('{"images": [],\n "annotations": oops}')
    with pytest.raises(TrigpointError, match=r"people\.json, line 2: expected JSON"):
        CocoKeypoints(path)
    path.write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(TrigpointError, match=r"people\.json.*: expected JSON"):
        CocoKeypoints(path)
    path.write_text("[1, 2]")
    with pytest.raises(TrigpointError, match="expected a COCO keypoints file"):
        CocoKeypoints(path)
    with pytest.raises(TrigpointError, match=r"coco needs the file .*none\.json"):
        CocoKeypoints(tmp_path / "none.json")
