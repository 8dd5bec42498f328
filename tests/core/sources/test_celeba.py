"""The CelebA source: MAFL's splits, both croppings, the attributes, its bad lines, its speed."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.geometry import Placement, fit_box
from trigpoint.core.sources import open_source
from trigpoint.core.sources.celeba import LANDMARKS, CelebA

# As the owners write them: a count, a heading, several blanks between numbers, a blank at line ends.
POINTS = "lefteye_x lefteye_y righteye_x righteye_y nose_x nose_y "
POINTS += "leftmouth_x leftmouth_y rightmouth_x rightmouth_y"
FILES = {
    "Anno/list_landmarks_align_celeba.txt": f"""6
{POINTS}
000001.jpg 69  109  106  113   77  142   73  152  108  154
000002.jpg 69  110  107  112   81  135   70  151  108  153
000003.jpg 76  112  104  106  108  128   74  156   98  158
000004.jpg 72  113  108  108  101  138   71  155  101  151
000005.jpg 66  114  112  112   86  119   71  147  104  150
000006.jpg 71  111  106  110   94  131   74  154  102  153
""",
    "Anno/list_landmarks_celeba.txt": f"""3
{POINTS}
000001.jpg 165  184  244  176  196  249  194  271  266  260
000002.jpg 140  204  220  204  168  254  146  289  226  289
000003.jpg 244  104  264  105  263  121  235  134  251  140
""",
    "Anno/list_bbox_celeba.txt": """3
image_id x_1 y_1 width height
000001.jpg    95  71 226 313
000002.jpg    72  94 221 306
000003.jpg     0   0   0   0
""",
    "Anno/list_attr_celeba.txt": """6
5_o_Clock_Shadow Bald Young
000001.jpg -1  1  1
000002.jpg  1 -1 -1
000003.jpg -1 -1 -1
000004.jpg -1 -1  1
000005.jpg  1  1  1
000006.jpg -1  1 -1
""",
    "Eval/list_eval_partition.txt": "000001.jpg 0\n000002.jpg 0\n000003.jpg 0\n"
    "000004.jpg 1\n000005.jpg 2\n000006.jpg 0\n",
    "MAFL/training.txt": "000005.jpg\n000001.jpg\n",
    "MAFL/testing.txt": "000006.jpg\r\n000004.jpg\r\n",
}


def write(folder: Path, flat: bool = False) -> Path:
    for place, text in FILES.items():
        path = folder / (Path(place).name if flat else place)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.replace("\n", " \n" if "Anno" in place else "\n").encode())
    images = folder / ("img_align_celeba" if flat else "Img/img_align_celeba")
    images.mkdir(parents=True)
    for number in range(1, 7):
        Image.new("RGB", (178, 218), (10 * number, 0, 0)).save(images / f"{number:06d}.jpg", quality=95)
    return folder


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Six aligned images and three whole photos in the true layout."""
    folder = write(tmp_path / "celeba")
    photos = folder / "Img" / "img_celeba"
    photos.mkdir()
    for number, size in ((1, (409, 687)), (2, (423, 640)), (3, (600, 400))):
        Image.new("RGB", size).save(photos / f"{number:06d}.jpg")
    return folder


@pytest.fixture
def unaligned(small: Path) -> Path:
    (small / "MAFL" / "testing.txt").write_text("000006.jpg\n")
    (small / "Eval" / "list_eval_partition.txt").write_text("000003.jpg 0\n000001.jpg 0\n000002.jpg 0\n")
    return small


def names(source: CelebA) -> list[str]:
    return [source.name(index) for index in range(len(source))]


def test_splits_are_mafl_s(small: Path) -> None:
    assert names(CelebA(small, "train")) == ["000001.jpg", "000002.jpg", "000003.jpg"]
    assert names(CelebA(small, "labels")) == ["000005.jpg", "000001.jpg"]
    assert names(CelebA(small, "test")) == ["000006.jpg", "000004.jpg"]


def test_annotations_and_images_follow_the_order_of_the_split(small: Path) -> None:
    source = CelebA(small, "test")
    assert source.annotations is not None
    assert source.annotations.names == LANDMARKS
    assert source.annotations.reference == (0, 1)
    np.testing.assert_array_equal(
        source.annotations.points,
        [
            [[71, 111], [106, 110], [94, 131], [74, 154], [102, 153]],
            [[72, 113], [108, 108], [101, 138], [71, 155], [101, 151]],
        ],
    )
    assert source.image(0).shape == (218, 178, 3)
    assert [round(source.image(index)[100, 80, 0] / 10) for index in range(2)] == [6, 4]


def test_the_aligned_crop_is_the_middle_80_of_100_pixels(small: Path) -> None:
    box = CelebA(small).box(0)
    assert box is not None
    whole = fit_box(178, 218, "stretch")
    corners = whole.to_unit(box.to_original(np.array([[0.0, 0.0], [1.0, 1.0]]))) * 100
    np.testing.assert_allclose(corners, [[10, 10], [90, 90]])


def test_attributes_are_classes_zero_and_one(small: Path) -> None:
    attributes = CelebA(small, "labels").attributes
    assert attributes is not None
    assert attributes.names == ("5_o_Clock_Shadow", "Bald", "Young")
    assert attributes.values.dtype == np.int64
    np.testing.assert_array_equal(attributes.values, [[1, 1, 1], [0, 1, 1]])


def test_whole_photos_use_a_square_about_the_face_box(unaligned: Path) -> None:
    source = open_source(f"celeba-unaligned:{unaligned}")
    assert isinstance(source, CelebA)
    assert names(source) == ["000003.jpg", "000001.jpg", "000002.jpg"]
    assert source.image(1).shape == (687, 409, 3)
    assert source.annotations is not None
    np.testing.assert_array_equal(source.annotations.points[2][0], [140, 204])
    # The middle of 95..321 and 71..384, and a quarter more than 313.
    assert source.box(1) == Placement(208 - 391.25 / 2, 227.5 - 391.25 / 2, 391.25, 391.25)
    for index in (1, 2):
        box = source.box(index)
        assert box is not None
        points = box.to_unit(source.annotations.points[index])
        eyes = float(np.linalg.norm(points[0] - points[1]))
        assert points[:2, 1].mean() > 1.8 * eyes  # room for the top of the head
        assert 1 - points[:2, 1].mean() > 2.2 * eyes  # and for the chin


def test_a_photo_without_a_face_box_is_used_whole(unaligned: Path) -> None:
    assert CelebA(unaligned, "train", "unaligned").box(0) is None


def test_its_words_open_it_again(unaligned: Path) -> None:
    for words in (f"celeba:{unaligned}", f"celeba-unaligned:{unaligned}"):
        source = open_source(words)
        assert source.words == (words,)
        again = open_source(source.words)
        assert [again.box(i) for i in range(3)] == [source.box(i) for i in range(3)]


def test_the_flat_layout_is_read_too(tmp_path: Path) -> None:
    source = CelebA(write(tmp_path / "flat", flat=True), "test")
    assert names(source) == ["000006.jpg", "000004.jpg"]
    assert source.image(0).shape == (218, 178, 3)
    assert source.attributes is not None
    np.testing.assert_array_equal(source.attributes.values, [[0, 1, 0], [0, 0, 1]])


@pytest.mark.parametrize("line", ["000002.jpg 69 110 107", "000002.jpg 69 110 107 112 81 135 70 151 108 ten"])
def test_a_malformed_line_is_named_with_its_number(small: Path, line: str) -> None:
    path = small / "Anno" / "list_landmarks_align_celeba.txt"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:3], line, *lines[4:]]))
    with pytest.raises(
        TrigpointError, match=r"align_celeba\.txt, line 4: expected a name and 10 numbers; got '000002"
    ):
        CelebA(small)


@pytest.mark.parametrize("number", ["nan", "inf", "1e300"])
def test_a_number_that_is_no_place_in_an_image_is_refused(small: Path, number: str) -> None:
    path = small / "Anno" / "list_landmarks_align_celeba.txt"
    path.write_text(path.read_text().replace("000001.jpg 69", f"000001.jpg {number}"))
    with pytest.raises(TrigpointError, match=r"align_celeba\.txt: expected pixels; got the number"):
        CelebA(small)


def test_a_malformed_partition_is_named_with_its_number(small: Path) -> None:
    (small / "Eval" / "list_eval_partition.txt").write_text("000001.jpg 0\n000002.jpg,0\n")
    with pytest.raises(TrigpointError, match=r"partition\.txt, line 2: expected a name and a number"):
        CelebA(small)


def test_lists_that_do_not_fit_together_are_refused(small: Path) -> None:
    (small / "MAFL" / "testing.txt").write_text("000099.jpg\n")
    with pytest.raises(TrigpointError, match=r"align_celeba\.txt has no line for the image 000099\.jpg"):
        CelebA(small, "test")


def test_attributes_other_than_one_and_minus_one_are_refused(small: Path) -> None:
    path = small / "Anno" / "list_attr_celeba.txt"
    path.write_text(path.read_text().replace("000002.jpg  1 -1 -1", "000002.jpg  1  0 -1"))
    with pytest.raises(TrigpointError, match=r"list_attr_celeba\.txt should hold only 1 and -1"):
        _ = CelebA(small).attributes
    path.write_text("6\n\n")
    with pytest.raises(TrigpointError, match="should name the attributes in its second line"):
        _ = CelebA(small).attributes


def test_empty_lists_are_refused(small: Path) -> None:
    (small / "Anno" / "list_landmarks_align_celeba.txt").write_text(f"0\n{POINTS}\n")
    with pytest.raises(TrigpointError, match=r"list_landmarks_align_celeba\.txt lists no image"):
        CelebA(small)
    (small / "Eval" / "list_eval_partition.txt").write_text("000001.jpg 2\n")
    with pytest.raises(TrigpointError, match=r"lists no training image"):
        CelebA(small)
    (small / "MAFL" / "testing.txt").write_text("\n")
    with pytest.raises(TrigpointError, match=r"testing\.txt lists no image"):
        CelebA(small)


@pytest.mark.parametrize(
    ("place", "kind"),
    [("MAFL/testing.txt", "file"), ("Anno/list_landmarks_align_celeba.txt", "file"), ("Img", "folder")],
)
def test_what_is_missing_is_named(small: Path, place: str, kind: str) -> None:
    (small / place).rename(small / "elsewhere")
    with pytest.raises(
        TrigpointError, match=rf"CelebA needs the {kind} .*{Path(place).name}.*docs/sources\.md"
    ):
        CelebA(small, "test")


def test_a_missing_image_is_unreadable(small: Path) -> None:
    (small / "Img" / "img_align_celeba" / "000001.jpg").unlink()
    with pytest.raises(UnreadableImage):
        CelebA(small).image(0)


def test_twenty_thousand_lines_are_read_in_a_blink(small: Path) -> None:
    """A tenth of the true size; the whole of it takes about two seconds on an old machine."""
    count = 20_000
    row = " ".join(f"{value:4d}" for value in range(100, 110))
    lines = "".join(f"{number:06d}.jpg {row}\n" for number in range(1, count + 1))
    (small / "Anno" / "list_landmarks_align_celeba.txt").write_text(f"{count}\n{POINTS}\n{lines}")
    parts = "".join(f"{number:06d}.jpg 0\n" for number in range(1, count + 1))
    (small / "Eval" / "list_eval_partition.txt").write_text(parts)
    start = time.process_time()
    source = CelebA(small)
    assert time.process_time() - start < 1.5
    assert len(source) == count - 2
