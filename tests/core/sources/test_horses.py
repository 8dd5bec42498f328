"""The Weizmann horses: boxes from masks, splits, and the real images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.geometry import Placement
from trigpoint.core.sources.horses import Horses

REAL = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "horses"
on_real_data = pytest.mark.skipif(
    not (REAL / "rgb").is_dir(), reason="the Weizmann horses are not at ../shared/data/horses"
)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Twenty-one images of 60x50 whose masks are a soft-edged block of 40x20 and a speck."""
    (tmp_path / "rgb").mkdir()
    (tmp_path / "figure_ground").mkdir()
    mask = np.zeros((50, 60), np.uint8)
    mask[9:31, 4:46] = 100
    mask[10:30, 5:45] = 255
    mask[45, 57] = 255
    for number in range(1, 22):
        Image.new("RGB", (60, 50), (number, 0, 0)).save(tmp_path / "rgb" / f"horse{number:03d}.jpg")
        Image.fromarray(mask).save(tmp_path / "figure_ground" / f"horse{number:03d}.png")
    return tmp_path


def test_every_tenth_is_for_testing(small: Path) -> None:
    train, test = Horses(small), Horses(small, "test")
    assert [test.name(index) for index in range(len(test))] == ["horse010.jpg", "horse020.jpg"]
    assert len(train) == len(Horses(small, "labels")) == 19
    assert train.words == (f"horses:{small}",)
    assert train.image(0).shape == (50, 60, 3)
    assert train.annotations is None
    assert train.attributes is None


def test_the_mask_is_the_largest_piece(small: Path) -> None:
    expected = np.zeros((50, 60), bool)
    expected[10:30, 5:45] = True
    np.testing.assert_array_equal(Horses(small).mask(0), expected)


def test_the_box_is_square_about_the_mask_with_a_twentieth_around(small: Path) -> None:
    assert Horses(small).box(0) == Placement(25 - 22, 20 - 22, 44, 44)


def test_a_black_mask_makes_its_image_unreadable_and_a_missing_one_is_named(small: Path) -> None:
    Image.new("L", (60, 50)).save(small / "figure_ground" / "horse001.png")
    (small / "figure_ground" / "horse002.png").unlink()
    (small / "figure_ground" / "horse003.png").write_bytes(b"no image")
    source = Horses(small)
    with pytest.raises(UnreadableImage, match=r"its mask horse001\.png is black"):
        source.box(0)
    with pytest.raises(TrigpointError, match=r"Weizmann horses needs the file .*horse002\.png"):
        source.box(1)
    with pytest.raises(UnreadableImage, match="not a readable image"):
        source.mask(2)


def test_missing_folders_and_empty_ones_are_named(small: Path, tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match=r"Weizmann horses needs the folder .*figure_ground"):
        Horses(tmp_path / "elsewhere")
    for path in (small / "rgb").iterdir():
        path.unlink()
    with pytest.raises(TrigpointError, match="holds no horse"):
        Horses(small)


@on_real_data
def test_the_real_horses_fill_their_boxes() -> None:
    train, test = Horses(REAL), Horses(REAL, "test")
    assert (len(train), len(test)) == (296, 32)
    for index in range(0, len(train), 30):
        mask, box = train.mask(index), train.box(index)
        assert box is not None
        assert mask.shape == train.image(index).shape[:2]
        rows, columns = np.nonzero(mask)
        unit = box.to_unit(np.stack([columns + 0.5, rows + 0.5], axis=1))
        assert unit.min() > 0.04
        assert unit.max() < 0.96
        assert np.ptp(unit, axis=0).max() == pytest.approx(1 / 1.1, abs=0.02)
