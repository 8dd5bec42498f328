"""Coordinates: boxes of the original image, and what is cut out of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.ndimage import center_of_mass

from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import (
    Fit,
    Placement,
    around,
    extract,
    fit_box,
    parse_box,
)

EDGES = st.integers(1, 10_000)
PLACES = st.builds(Placement, st.integers(-10_000, 10_000), st.integers(-10_000, 10_000), EDGES, EDGES)
POINTS = st.lists(st.tuples(st.floats(-1e4, 1e4), st.floats(-1e4, 1e4)), min_size=1, max_size=5).map(np.array)


@settings(deadline=None)
@given(PLACES, POINTS)
def test_placement_round_trip(place: Placement, points: NDArray[np.float64]) -> None:
    """Pixels to unit coordinates and back; double precision over sums of up to 3e4."""
    np.testing.assert_allclose(place.to_original(place.to_unit(points)), points, atol=1e-7)


def test_placement_by_hand() -> None:
    """The box's corners are (0, 0) and (1, 1); x goes with width, y with height."""
    place = Placement(10, -20, 40, 80)
    np.testing.assert_allclose(
        place.to_unit(np.array([[10, -20], [50, 60], [20, 0]])), [[0, 0], [1, 1], [0.25, 0.25]]
    )
    np.testing.assert_allclose(place.to_original(np.array([0.5, 0.25])), [30, 0])


def test_placement_keeps_leading_axes_and_returns_double() -> None:
    points = np.zeros((3, 5, 2), np.float32)
    assert Placement(1, 2, 3, 4).to_original(points).shape == (3, 5, 2)
    assert Placement(1, 2, 3, 4).to_unit(points).dtype == np.float64


@pytest.mark.parametrize(
    ("width", "height", "fit", "expected"),
    [
        (100, 60, "pad", (0, -20, 100, 100)),
        (60, 100, "pad", (-20, 0, 100, 100)),
        (100, 60, "crop", (20, 0, 60, 60)),
        (60, 100, "crop", (0, 20, 60, 60)),
        (100, 60, "stretch", (0, 0, 100, 60)),
        (3, 4, "pad", (-1, 0, 4, 4)),  # the odd pixel goes to the left
        (5, 4, "crop", (0, 0, 4, 4)),
    ],
)
def test_fit_box_by_hand(width: int, height: int, fit: Fit, expected: tuple[int, ...]) -> None:
    box = fit_box(width, height, fit)
    assert (box.x, box.y, box.width, box.height) == expected


@settings(deadline=None)
@given(EDGES, EDGES)
def test_fit_box_holds_or_is_held(width: int, height: int) -> None:
    """Padding keeps the whole image, cropping stays inside it, and both are square and centred."""
    padded, cropped = fit_box(width, height, "pad"), fit_box(width, height, "crop")
    assert padded.x <= 0 <= width <= padded.x + padded.width
    assert padded.y <= 0 <= height <= padded.y + padded.height
    assert 0 <= cropped.x <= cropped.x + cropped.width <= width
    assert 0 <= cropped.y <= cropped.y + cropped.height <= height
    for box in (padded, cropped):
        assert box.width == box.height
        assert abs((box.x + box.width / 2) - width / 2) <= 0.5
        assert abs((box.y + box.height / 2) - height / 2) <= 0.5


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("fit", ["pad", "crop", "stretch"])
def test_bright_pixel_lands_where_to_unit_says(channels: int, fit: Fit) -> None:
    """40 x 20 pixels to a square of 20: the centre of brightness, read in unit coordinates."""
    image = np.zeros((20, 40, channels), np.uint8)
    image[6:10, 16:20] = 200  # a block of 4 x 4 about (18, 8)
    box = fit_box(40, 20, fit)
    square = extract(image, box, 20)
    assert square.shape == (20, 20, channels)
    assert square.dtype == np.uint8
    assert square.flags.c_contiguous
    row, column = center_of_mass(square[..., 0].astype(float))
    found = ((column + 0.5) / 20, (row + 0.5) / 20)
    np.testing.assert_allclose(found, box.to_unit(np.array([18.0, 8.0])), atol=1e-9)


def test_extract_without_scaling_moves_single_pixels() -> None:
    """Padded to 8 x 8, two rows are added above: pixel (5, 1) becomes (5, 3)."""
    image = np.zeros((4, 8, 3), np.uint8)
    image[1, 5] = (10, 20, 30)
    square = extract(image, fit_box(8, 4, "pad"), 8)
    assert square[3, 5].tolist() == [10, 20, 30]
    assert np.count_nonzero(square.any(-1)) == 1


def test_extract_shrinks_by_the_mean() -> None:
    """Half the size: each pixel is the mean of four."""
    image = np.random.default_rng(0).integers(0, 256, (8, 8, 1), np.uint8)
    small = extract(image, Placement(0, 0, 8, 8), 4)
    mean = image[..., 0].reshape(4, 2, 4, 2).mean((1, 3))
    np.testing.assert_allclose(small[..., 0], mean, atol=0.51)


def test_extract_enlarges_about_the_same_place() -> None:
    """Four times the size: the spot's centre stays at (2.5, 5.5) / 8."""
    image = np.zeros((8, 8, 1), np.uint8)
    image[5, 2] = 240
    large = extract(image, Placement(0, 0, 8, 8), 32)
    row, column = center_of_mass(large[..., 0].astype(float))
    np.testing.assert_allclose(((column + 0.5) / 32, (row + 0.5) / 32), (2.5 / 8, 5.5 / 8), atol=1e-3)


def test_celeba_s_scaling_and_cropping_is_one_box() -> None:
    """218x178 scaled to 100x100, then the middle 80x80: the box's corners by hand."""
    box = Placement(17.8, 21.8, 142.4, 174.4)
    point = np.array([89.0, 54.5])  # in 100x100: (50, 25), in the crop: (40, 15)
    np.testing.assert_allclose(box.to_unit(point) * 80, [40, 15])


def test_a_mirrored_placement_swaps_left_and_right_of_pixels_and_points() -> None:
    image = np.zeros((20, 20, 1), np.uint8)
    image[4, 3] = 255
    for box in (Placement(0, 0, 20, 20, mirrored=True), Placement(0.0, -1.5, 20, 23, mirrored=True)):
        square = extract(image, box, 20)
        row, column = center_of_mass(square[..., 0].astype(float))
        unit = box.to_unit(np.array([3.5, 4.5]))
        np.testing.assert_allclose(((column + 0.5) / 20, (row + 0.5) / 20), unit, atol=0.02)
        np.testing.assert_allclose(box.to_original(unit), [3.5, 4.5])


def test_a_fill_takes_the_place_of_edge_values() -> None:
    """64 pixels in the middle of 80: a margin of 8 on each side."""
    image = np.full((102, 136, 3), 40, np.uint8)
    square = extract(image, Placement(-17, -12.75, 170, 127.5, fill=255), 80)
    assert (square[8:72, 8:72] == 40).all()
    frame = np.ones((80, 80), bool)
    frame[8:72, 8:72] = False
    assert (square[frame] == 255).all()


def test_large_photos_beyond_their_border_keep_their_places() -> None:
    """A photo that is shrunk by whole numbers first, padded to a square."""
    image = np.zeros((600, 1500, 1), np.uint8)
    image[300:330, 600:660] = 255
    box = fit_box(1500, 600, "pad")
    square = extract(image, box, 50)
    row, column = center_of_mass(square[..., 0].astype(float))
    found = np.array([(column + 0.5) / 50, (row + 0.5) / 50])
    np.testing.assert_allclose(found, box.to_unit(np.array([630.0, 315.0])), atol=0.003)


def test_around_takes_points_with_a_margin() -> None:
    box = around(np.array([[10.0, 20.0], [30.0, 60.0], [np.nan, np.nan]]), margin=0.25)
    assert (box.x, box.y, box.width, box.height) == (5, 10, 30, 60)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10,20,30,40", Placement(10, 20, 30, 40)),
        (" -5.5, 0 ,1,1e2", Placement(-5.5, 0, 1, 100)),
    ],
)
def test_a_box_in_words(text: str, expected: Placement) -> None:
    assert parse_box(text) == expected


@pytest.mark.parametrize("text", ["", "1,2,3", "1,2,3,4,5", "1,2,3,x", "1 2 3 4", "1,2,,4"])
def test_what_is_no_box_is_refused(text: str) -> None:
    with pytest.raises(TrigpointError, match=r"A box is LEFT,TOP,WIDTH,HEIGHT in pixels; got") as caught:
        parse_box(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    "text", ["0,0,0,9", "0,0,9,0.5", "0,0,-3,9", "nan,0,3,3", "0,inf,3,3", "0,0,1e999,3"]
)
def test_a_box_without_an_area_is_refused(text: str) -> None:
    with pytest.raises(TrigpointError, match="at least one pixel wide and high; got") as caught:
        parse_box(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["0,0,1e9,9", "1e15,0,9,9", "0,-1e6,9,9"])
def test_a_box_that_no_photo_has_is_refused(text: str) -> None:
    """It would take memory for each of its pixels."""
    with pytest.raises(TrigpointError, match=r"numbers up to 100,000 pixels; got"):
        parse_box(text)


@pytest.mark.parametrize("edge", [0.0, 1e-320, 1e-9])
@pytest.mark.parametrize("start", [3.0, 2.5, -4.0, 90_000.0])
def test_of_a_box_without_an_area_a_point_is_seen(edge: float, start: float) -> None:
    image = np.arange(8 * 9 * 3, dtype=np.uint8).reshape(8, 9, 3)
    seen = extract(image, Placement(start, 4.5, edge, edge), 16)
    np.testing.assert_array_equal(seen, np.broadcast_to(image[4, int(np.clip(start, 0, 8))], (16, 16, 3)))
