"""The animals: the user's table of boxes, squares, mirroring, and bad lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.geometry import Placement, extract
from trigpoint.core.sources.animals import SPECIES, Animals

HEADER = "image,x,y,width,height,facing\n"
TABLE = (
    HEADER + "horse/horse_10001.jpg,10,20,60,40,left\n"
    "zebra/zebra_10001.jpg,10,20,30,40.5,right\n"
    "moose/moose_10001.jpg,0,0,20,20,front\n"
    "deer/deer_10001.jpg,0,0,20,20,back\n"
    "\n"
    "antelope\\antelope_10002.jpg , 5 , 5 , 20 , 20 , Left\n"
    "horse/horse_10001.jpg,50,20,40,40,right\n"
)


@pytest.fixture
def awa(tmp_path: Path) -> Path:
    """A horse, black on its left half and white on its right, and a table of six boxes."""
    (tmp_path / "JPEGImages" / "horse").mkdir(parents=True)
    picture = np.zeros((80, 100, 3), np.uint8)
    picture[:, 70:] = 255
    Image.fromarray(picture).save(tmp_path / "JPEGImages" / "horse" / "horse_10001.jpg", quality=95)
    (tmp_path / "boxes.csv").write_text(TABLE)
    return tmp_path


def test_profiles_are_listed_with_their_species(awa: Path) -> None:
    source = Animals(awa)
    assert [source.name(index) for index in range(len(source))] == [
        "horse/horse_10001.jpg",
        "zebra/zebra_10001.jpg",
        "antelope/antelope_10002.jpg",
        "horse/horse_10001.jpg#2",
    ]
    assert source.words == (f"animals:{awa}",)
    assert source.annotations is None
    assert source.attributes is not None
    assert source.attributes.names == ("species",)
    species = [SPECIES[number] for number in source.attributes.values[:, 0]]
    assert species == ["horse", "zebra", "antelope", "horse"]


def test_the_shorter_edge_grows_about_the_middle_and_right_becomes_left(awa: Path) -> None:
    source = Animals(awa)
    assert source.box(0) == Placement(10, 10, 60, 60)
    assert source.box(1) == Placement(4.75, 20, 40.5, 40.5, mirrored=True)
    box = source.box(3)
    assert box == Placement(50, 20, 40, 40, mirrored=True)
    square = extract(source.image(3), box, 8)  # white on the right of the image, on the left of the square
    assert square[:, :3].min() > 240
    assert square[:, 5:].max() < 15


def test_a_tenth_is_for_testing_and_an_image_is_never_in_both(awa: Path) -> None:
    lines = [f"deer/deer_{number}.jpg,0,0,9,9,left\n" for number in range(10001, 10201) for _ in range(2)]
    (awa / "boxes.csv").write_text(HEADER + "".join(lines))
    train, labels, test = Animals(awa), Animals(awa, "labels"), Animals(awa, "test")
    images = [{animal.image for animal in source.animals} for source in (train, labels, test)]
    assert images[0] == images[1]
    assert not images[0] & images[2]
    assert len(train) + len(test) == 400
    assert 20 <= len(test) <= 60


def test_a_missing_table_says_what_it_has_to_hold(awa: Path, tmp_path: Path) -> None:
    (awa / "boxes.csv").unlink()
    with pytest.raises(TrigpointError, match=r"your boxes in .*boxes\.csv, with the header image,x,y,width"):
        Animals(awa)
    with pytest.raises(TrigpointError, match=r"Animals with Attributes needs the folder .*JPEGImages"):
        Animals(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("horse/a.jpg,1,2,3,left", "expected 6 fields"),
        ("cow/a.jpg,1,2,3,4,left", "expected an image below one of antelope"),
        ("horse/a.jpg,1,2,3,4,sideways", "facing is one of left, right, front, back"),
        ("horse/a.jpg,1,2,three,4,left", "expected numbers x and y"),
        ("horse/a.jpg,1,2,0,4,left", "a width and height above 0"),
        ("horse/a.jpg,nan,2,3,4,left", "expected numbers x and y"),
        ("horse/a.jpg,1e308,2,3,4,left", "expected numbers x and y"),
        ("horse/a.jpg,1,2,1e9,4,left", "expected numbers x and y"),
        ("x" * 200_000, "not a line of CSV"),
    ],
)
def test_a_malformed_line_is_named_with_its_number(awa: Path, line: str, sentence: str) -> None:
    (awa / "boxes.csv").write_text(f"{HEADER}horse/horse_10001.jpg,1,2,3,4,left\n\n{line}\n")
    with pytest.raises(TrigpointError, match=rf"boxes\.csv, line 4: .*{sentence}"):
        Animals(awa)


@pytest.mark.parametrize("content", [b"", b"horse/a.jpg,1,2,3,4,left\n", b"\xff\xfe\x00i\x00m\x00a"])
def test_a_table_without_its_header_is_refused(awa: Path, content: bytes) -> None:
    (awa / "boxes.csv").write_bytes(content)
    with pytest.raises(TrigpointError, match=r"boxes\.csv, line 1: expected the header image,x,y"):
        Animals(awa)


def test_a_table_as_spreadsheets_save_it_is_read(awa: Path) -> None:
    (awa / "boxes.csv").write_bytes(b"\xef\xbb\xbf" + TABLE.replace("\n", "\r\n").encode())
    assert len(Animals(awa)) == 4


def test_a_table_of_front_views_has_nothing_to_show(awa: Path) -> None:
    (awa / "boxes.csv").write_text(HEADER + "horse/a.jpg,1,2,3,4,front\n")
    with pytest.raises(TrigpointError, match="lists no animal facing left or right of the split 'train'"):
        Animals(awa)


def test_a_missing_image_is_unreadable(awa: Path) -> None:
    with pytest.raises(UnreadableImage):
        Animals(awa).image(1)
