"""The shoes: white margins as in the paper, and splits that stay the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image

from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.geometry import Placement, extract
from trigpoint.core.sources import shoes
from trigpoint.core.sources.shoes import Shoes

REAL = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "shoes"


@pytest.fixture
def zappos(tmp_path: Path) -> Path:
    """Forty grey photos of 136x102 in the folders of UT Zappos50k, names with dots and blanks."""
    for number in range(40):
        kind = ("Shoes/Oxfords/Dr. Martens", "Boots/Ankle/UGG", "Sandals/Flat/a", "Slippers/b/c")[number % 4]
        path = tmp_path / "zappos" / kind / f"{7000 + number}.107.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (136, 102), (100, 100, 100)).save(path)
    return tmp_path / "zappos"


def names(source: Shoes) -> list[str]:
    return [source.name(index) for index in range(len(source))]


def test_a_tenth_of_a_small_folder_is_for_testing(zappos: Path) -> None:
    train, labels, test = Shoes(zappos), Shoes(zappos, "labels"), Shoes(zappos, "test")
    assert (len(train), len(test)) == (36, 4)
    assert not set(names(train)) & set(names(test))
    assert names(train) == names(labels) == sorted(names(train))
    assert "Boots/Ankle/UGG/7001.107.jpg" in names(train) + names(test)
    assert train.words == (f"shoes:{zappos}",)
    assert train.annotations is None
    assert train.attributes is None


def test_a_large_folder_gives_the_papers_number_of_test_images(
    zappos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (shoes.ENOUGH, shoes.TESTED) == (5000, 500)
    monkeypatch.setattr(shoes, "ENOUGH", 40)
    monkeypatch.setattr(shoes, "TESTED", 7)
    assert (len(Shoes(zappos)), len(Shoes(zappos, "test"))) == (33, 7)


def test_the_split_does_not_depend_on_where_the_folder_lies(zappos: Path) -> None:
    before = names(Shoes(zappos, "test"))
    moved = zappos.rename(zappos.with_name("elsewhere"))
    assert names(Shoes(moved, "test")) == before


def test_photos_are_stretched_to_64_of_80_pixels_with_white_around(zappos: Path) -> None:
    source = Shoes(zappos)
    box = source.box(0)
    assert box == Placement(-17, -12.75, 170, 127.5, fill=255)
    square = extract(source.image(0), box, 80)
    assert square.shape == (80, 80, 3)
    inside = np.zeros((80, 80), bool)
    inside[8:72, 8:72] = True
    assert np.abs(square[inside].astype(int) - 100).max() <= 2  # JPEG
    assert (square[~inside] == 255).all()


def test_a_photo_turned_by_exif_has_the_box_of_what_is_seen(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    for name in ("a.jpg", "b.jpg"):
        Image.new("RGB", (40, 80)).save(tmp_path / name, exif=exif)
    source = Shoes(tmp_path)
    assert source.image(0).shape == (40, 80, 3)
    assert source.box(0) == Placement(-10, -5, 100, 50, fill=255)


def test_folders_without_enough_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match="UT Zappos50k needs the folder"):
        Shoes(tmp_path / "elsewhere")
    with pytest.raises(TrigpointError, match="holds no images"):
        Shoes(tmp_path)
    Image.new("RGB", (16, 16)).save(tmp_path / "a.png")
    with pytest.raises(TrigpointError, match="holds one image"):
        Shoes(tmp_path)


def test_a_damaged_photo_is_unreadable(zappos: Path) -> None:
    source = Shoes(zappos)
    (zappos / source.name(3)).write_bytes(b"\xff\xd8 no photo")
    with pytest.raises(UnreadableImage):
        source.image(3)


@pytest.mark.skipif(not REAL.is_dir(), reason="the shoe photos are not at ../shared/data/shoes")
def test_the_real_photos_split_into_nine_tenths_and_one() -> None:
    train, test = Shoes(REAL), Shoes(REAL, "test")
    assert len(test) == (len(train) + len(test)) // 10
    box = train.box(0)
    assert box == Placement(-28, -28, 280, 280, fill=255)
    square = extract(train.image(0), box, 80)
    assert square[8:72, 8:72].min() < 200  # a shoe
    assert square[[8, 71]].mean() > 240  # on white
