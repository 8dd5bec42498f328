"""The cats source: its files, the seven landmarks, the square about nine, the fixed split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.geometry import Placement
from trigpoint.core.sources import open_source
from trigpoint.core.sources.cats import Cats, for_testing

REAL = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "cats"
on_real_data = pytest.mark.skipif(
    not (REAL / "cat_00").is_dir(), reason="the sample of the CAT dataset is not at ../shared/data/cats"
)

# Lines of the true files, with their blank at the end; the second reaches above its photo.
LEVEL = "9 175 160 239 162 199 199 149 121 137 78 166 93 281 101 312 96 296 133 "
TILTED = "9 96 96 153 127 103 146 48 20 78 -37 127 5 210 52 260 63 229 121 "


def add(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (375, 500), (90, 120, 150)).save(path, "JPEG")
    path.with_name(f"{path.name}.cat").write_text(text)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Two training images in two folders, one for testing, and what else is found in such folders."""
    folder = tmp_path / "cats"
    add(folder / "CAT_00" / "00000001_000.jpg", LEVEL)
    add(folder / "CAT_01" / "00000001_001.JPG", TILTED)
    add(folder / "CAT_01" / "00000001_019.jpg", LEVEL)
    (folder / "CAT_00" / "Thumbs.db").write_bytes(b"\x00")
    (folder / "CAT_00" / "00000003_019.jpg.cat").write_text(LEVEL)  # the owners' own stray file
    (folder / "README.md").write_text("cats")
    return folder


def names(source: Cats) -> list[str]:
    return [source.name(index) for index in range(len(source))]


def test_every_folder_is_read(small: Path) -> None:
    source = Cats(small)
    assert names(source) == ["CAT_00/00000001_000.jpg", "CAT_01/00000001_001.JPG"]
    assert names(Cats(small, "labels")) == names(source)
    assert names(Cats(small, "test")) == ["CAT_01/00000001_019.jpg"]
    assert source.image(1).shape == (500, 375, 3)
    assert source.attributes is None


def test_seven_landmarks_without_the_tips_of_the_ears(small: Path) -> None:
    annotations = Cats(small).annotations
    assert annotations is not None
    assert len(annotations.names) == 7
    assert annotations.reference == (0, 1)
    assert annotations.names[:3] == ("left eye", "right eye", "mouth")
    np.testing.assert_array_equal(
        annotations.points[0],
        [[175, 160], [239, 162], [199, 199], [149, 121], [166, 93], [281, 101], [296, 133]],
    )


def test_the_box_is_a_square_about_all_nine_landmarks(small: Path) -> None:
    source = Cats(small)
    # 137..312 and 78..199: 175 wide, 15 % of it more on each side.
    assert source.box(0) == Placement(224.5 - 113.75, 138.5 - 113.75, 227.5, 227.5)
    box = source.box(1)
    assert box is not None
    tips = box.to_unit(np.array([[78.0, -37.0], [260.0, 63.0]]))
    assert np.abs(tips - 0.5).max() < 0.5


def test_the_split_does_not_depend_on_case_or_company(small: Path) -> None:
    before = names(Cats(small, "test"))
    (small / "CAT_01").rename(small / "cat_01")
    (small / "CAT_00").rename(small / "CAT_05")
    assert [name.lower() for name in before] == names(Cats(small, "test"))


def test_the_test_share_is_the_paper_s() -> None:
    drawn = [for_testing(f"CAT_{i % 7:02d}/{i // 30:08d}_{i % 30:03d}.jpg") for i in range(9_997)]
    assert np.mean(drawn) == pytest.approx(1_257 / 9_004, abs=0.01)


def test_its_words_open_it_again(small: Path) -> None:
    source = open_source(f"cats:{small}")
    assert isinstance(source, Cats)
    assert source.words == (f"cats:{small}",)
    again = open_source(source.words)
    assert isinstance(again, Cats)
    assert names(again) == names(source)


@pytest.mark.parametrize(
    "text",
    ["", LEVEL[:-6], f"{LEVEL} 7", LEVEL.replace("9 175", "8 175"), LEVEL.replace("160", "x"),
     LEVEL.replace("160", "nan"), LEVEL.replace("160", "1e300")],
)  # fmt: skip
def test_a_malformed_annotation_is_named(small: Path, text: str) -> None:
    (small / "CAT_00" / "00000001_000.jpg.cat").write_text(text)
    with pytest.raises(TrigpointError, match=r"CAT_00/00000001_000\.jpg\.cat: expected 9 and the x and y"):
        Cats(small)


def test_a_binary_annotation_is_refused(small: Path) -> None:
    (small / "CAT_00" / "00000001_000.jpg.cat").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(TrigpointError, match=r"00000001_000\.jpg\.cat: expected 9"):
        Cats(small)


def test_a_missing_annotation_is_named(small: Path) -> None:
    (small / "CAT_00" / "00000001_000.jpg.cat").unlink()
    with pytest.raises(TrigpointError, match=r"Cats needs the file .*CAT_00/00000001_000\.jpg\.cat"):
        Cats(small)


def test_a_folder_without_the_cats_folders_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match="needs the folders CAT_00 to CAT_06 in"):
        Cats(tmp_path)
    with pytest.raises(TrigpointError, match=r"Cats needs the folder .*nowhere"):
        Cats(tmp_path / "nowhere")
    (tmp_path / "CAT_00").mkdir()
    with pytest.raises(TrigpointError, match="holds no cat of the test split"):
        Cats(tmp_path, "test")


def test_a_damaged_image_is_unreadable(small: Path) -> None:
    (small / "CAT_00" / "00000001_000.jpg").write_bytes(b"no image")
    with pytest.raises(UnreadableImage):
        Cats(small).image(0)


@on_real_data
def test_the_real_files_are_read_and_their_heads_lie_in_their_boxes() -> None:
    source = Cats(REAL)
    assert source.annotations is not None
    assert len(source) == 10
    for index in range(len(source)):
        box = source.box(index)
        assert box is not None
        assert box.width == box.height
        height, width, _ = source.image(index).shape
        eyes = source.annotations.points[index][:2]
        assert (eyes > 0).all()
        assert (eyes < (width, height)).all()
        inside = box.to_unit(source.points[index])
        assert inside.min() > 0.1
        assert inside.max() < 0.9


@on_real_data
def test_the_points_left_out_are_the_tips_of_the_ears() -> None:
    """Of an ear's three points the middle one is the farthest from the mouth, on every real image."""
    points = Cats(REAL).points
    for ear in (slice(3, 6), slice(6, 9)):
        reach = np.linalg.norm(points[:, ear] - points[:, 2:3], axis=2)
        assert (reach.argmax(axis=1) == 1).all()
