"""An edit put back into its photo: against SciPy's spline, and pixel by pixel."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.interpolate import RBFInterpolator

from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import Placement
from trigpoint.learning.editing import photo as module
from trigpoint.learning.editing.editor import Code, Editor
from trigpoint.learning.editing.photo import (
    ANCHORS,
    APART,
    LATTICE,
    MARGIN,
    apart,
    displacement,
    hats,
    put_back,
)

POINTS = np.array([(0.3, 0.35), (0.7, 0.3), (0.5, 0.55), (0.45, 0.8)])
MOVES = np.array([(0.06, -0.04), (0.0, 0.0), (-0.05, 0.05), (0.02, 0.0)])
PLACE = Placement(40.3, 25.8, 120, 100)
SIZE = (240, 180)  # width, height: the region of PLACE lies inside


def texture(size: tuple[int, int] = SIZE) -> NDArray[np.uint8]:
    """Waves of 14 to 25 pixels in three colours; `wave` is the same anywhere."""
    x, y = np.meshgrid(np.arange(size[0]) + 0.5, np.arange(size[1]) + 0.5)
    return np.rint(wave(np.stack((x, y), -1))).astype(np.uint8)


def wave(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Colours (..., 3) at pixels (..., 2)."""
    x, y = points[..., 0], points[..., 1]
    return np.stack(
        [128 + 45 * np.sin(x / a) + 45 * np.cos(y / b) for a, b in ((2.3, 3.1), (3.7, 2.6), (2.9, 4.0))], -1
    )


def codes(place: Placement = PLACE, moves: NDArray[np.float64] = MOVES) -> tuple[Code, Code]:
    before = Code(POINTS, None, place)
    return before, before.with_landmarks(POINTS + moves)


def region(place: Placement, size: tuple[int, int] = SIZE) -> NDArray[np.bool_]:
    """Which pixels (H, W) have a centre in the crop with its margin."""
    x, y = np.meshgrid(np.arange(size[0]) + 0.5, np.arange(size[1]) + 0.5)
    return (np.abs(place.to_unit(np.stack((x, y), -1)) - 0.5) < 0.5 + MARGIN).all(-1)


def spline(old: NDArray[np.float64], new: NDArray[np.float64]) -> RBFInterpolator:
    """SciPy's thin plate spline from the new places to the old ones, with the anchors."""
    along = np.linspace(-MARGIN, 1 + MARGIN, ANCHORS)
    square = np.stack(np.meshgrid(along, along), -1)
    rim = np.ones((ANCHORS, ANCHORS), bool)
    rim[1:-1, 1:-1] = False
    still = square[rim]
    return RBFInterpolator(np.r_[new, still], np.r_[old, still], kernel="thin_plate_spline", degree=1)


NO_EDITOR = cast(Editor, None)  # warping needs none


class FakeEditor:
    """Decodes to given images."""

    def __init__(self, *images: NDArray[np.uint8]) -> None:
        self.images = np.stack(images)

    def decode_many(self, _: object) -> NDArray[np.uint8]:
        return self.images


def fake(*images: NDArray[np.uint8]) -> Editor:
    return cast(Editor, FakeEditor(*images))


# The spline


@pytest.mark.parametrize("mirrored", [False, True])
def test_the_spline_agrees_with_scipy_at_the_lattice(mirrored: bool) -> None:
    """A crop whose lattice points are every fourth pixel's centre."""
    spacing = 4
    edge = spacing * (LATTICE - 1) / (1 + 2 * MARGIN)
    place = Placement(0.5 + MARGIN * edge, 0.5 + MARGIN * edge, edge, edge, mirrored=mirrored)
    size = spacing * (LATTICE - 1) + 1
    warp = displacement(place, POINTS, POINTS + MOVES, size, size)
    assert (warp.left, warp.top) == (0, 0)
    whole = range(4, LATTICE - 4)  # the shift fades at the rim
    pixels = np.array([(spacing * i, spacing * j) for j in whole for i in whole])
    found = warp.sources[pixels[:, 1], pixels[:, 0]]
    mapped = spline(POINTS, POINTS + MOVES)(place.to_unit(pixels + 0.5))
    expected = place.to_original(mapped) - 0.5
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert np.abs(found - pixels).max() > 0.03 * edge


def test_the_spline_agrees_with_scipy_everywhere() -> None:
    """Between the lattice's points within a thousandth of the edge."""
    warp = displacement(PLACE, POINTS, POINTS + MOVES, *SIZE)
    pixels = np.argwhere(region(PLACE))[::7, ::-1]
    pixels = pixels[(np.abs(PLACE.to_unit(pixels + 0.5) - 0.5) < 0.5).all(-1)]  # where nothing fades
    expected = PLACE.to_original(spline(POINTS, POINTS + MOVES)(PLACE.to_unit(pixels + 0.5))) - 0.5
    found = warp.sources[pixels[:, 1] - warp.top, pixels[:, 0] - warp.left]
    np.testing.assert_allclose(found, expected, atol=1e-3 * 120)


def test_nothing_moves_at_the_rim() -> None:
    warp = displacement(PLACE, POINTS, POINTS + MOVES, *SIZE)
    height, width = warp.sources.shape[:2]
    x, y = np.meshgrid(np.arange(warp.left, warp.left + width), np.arange(warp.top, warp.top + height))
    rim = np.ones((height, width), bool)
    rim[1:-1, 1:-1] = False
    moves = warp.sources - np.stack((x, y), -1)
    assert np.abs(moves[rim]).max() < 0.05
    # From the rim to the inside the movement grows without a jump.
    for axis in (0, 1):
        assert np.abs(np.diff(moves, axis=axis)).max() < 0.6


def test_large_photos_are_warped_without_steps() -> None:
    """A crop of 4,000 pixels, of which a strip is looked at: straight between the lattice's points."""
    place = Placement(-1000, -1990, 4000, 4000)
    warp = displacement(place, POINTS, POINTS + MOVES, 600, 12)
    bends = np.abs(np.diff(warp.sources[5] - np.c_[np.arange(600), np.zeros(600)], 2, axis=0)).max(-1)
    assert np.quantile(bends, 0.95) < 0.01  # pixels; rounding to 1/32 of a lattice cell would be 0.4


def test_weights_of_linear_interpolation() -> None:
    places = np.linspace(-MARGIN, 1 + MARGIN, 500)
    weights = hats(places)
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-6)
    lattice = np.linspace(-MARGIN, 1 + MARGIN, LATTICE)
    np.testing.assert_allclose(weights @ lattice, places, atol=1e-6)
    values = np.random.default_rng(0).normal(size=LATTICE)
    np.testing.assert_allclose(weights @ values, np.interp(places, lattice, values), atol=1e-5)


# Landmarks in one place


def test_landmarks_on_top_of_others_are_left_out() -> None:
    near = APART / 3
    points = np.array([(0.5, 0.5), (0.5 + near, 0.5), (0.6, 0.5), (0.6, 0.5), (0.5 - near, 0.5), (1.15, 0.5)])
    assert apart(points, np.array([(1.15, 0.5)])) == [0, 2]
    assert apart(points, np.array([(9.0, 9.0)])) == [0, 2, 5]


@pytest.mark.parametrize("distance", [0.0, 1e-9, 1e-4, 0.9 * APART])
def test_landmarks_that_nearly_coincide_do_not_tear(distance: float) -> None:
    """Two landmarks end in one place, from opposite sides: no pixel comes from further than they do."""
    old = np.array([(0.3, 0.5), (0.5, 0.45), (0.5, 0.55), (0.8, 0.7)])
    new = np.array([(0.3, 0.5), (0.5, 0.5), (0.5, 0.5 + distance), (0.8, 0.7)])
    assert_calm(displacement(Placement(30, 30, 100, 100), old, new, 160, 160), furthest=0.05 * 100)


@pytest.mark.parametrize("distance", [0.0, 1e-7, 0.9 * APART])
def test_landmarks_on_an_anchor_do_not_tear(distance: float) -> None:
    new = POINTS.copy()
    new[1] = (1 + MARGIN - distance, 0.5)
    still = POINTS.copy()
    assert_calm(displacement(Placement(30, 30, 100, 100), still, new, 160, 160), furthest=1.0)


def assert_calm(warp: module.Warp, furthest: float) -> None:
    height, width = warp.sources.shape[:2]
    x, y = np.meshgrid(np.arange(warp.left, warp.left + width), np.arange(warp.top, warp.top + height))
    moves = warp.sources - np.stack((x, y), -1)
    assert np.hypot(*moves.reshape(-1, 2).T).max() < 1.3 * furthest
    for axis in (0, 1):
        assert np.abs(np.diff(moves, axis=axis)).max() < 0.7


# The photo


@pytest.mark.parametrize(
    "place", [PLACE, Placement(20, 20, 100, 100), Placement(-30, 100, 150.5, 150.5), Placement(0, 0, *SIZE)]
)
@pytest.mark.parametrize("blend", [False, True])
def test_without_an_edit_the_photo_is_as_it_was(place: Placement, blend: bool) -> None:
    photo = np.random.default_rng(0).integers(0, 256, (SIZE[1], SIZE[0], 3), dtype=np.uint8)
    before, _ = codes(place)
    drawn = np.random.default_rng(1).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    result = put_back(fake(drawn, drawn), photo, before, before, blend)
    assert result.dtype == np.uint8
    assert result is not photo
    outside = ~region(place)
    np.testing.assert_array_equal(result[outside], photo[outside])
    np.testing.assert_allclose(result.astype(int), photo, atol=1)


@pytest.mark.parametrize("blend", [False, True])
def test_with_an_edit_pixels_outside_of_the_region_stay(blend: bool) -> None:
    photo = np.random.default_rng(0).integers(0, 256, (SIZE[1], SIZE[0], 3), dtype=np.uint8)
    before, after = codes()
    kept = photo.copy()
    black, white = (np.full((8, 8, 3), value, np.uint8) for value in (0, 255))
    result = put_back(fake(black, white), photo, before, after, blend)
    inside = region(PLACE)
    np.testing.assert_array_equal(result[~inside], photo[~inside])
    assert (result[inside] != photo[inside]).mean() > 0.3
    np.testing.assert_array_equal(photo, kept)  # a copy


@pytest.mark.parametrize(
    "place", [PLACE, Placement(*(40.3, 25.8, 120, 100), mirrored=True), Placement(60, 30, 90, 120)]
)
def test_a_landmark_s_new_place_shows_what_was_at_its_old_one(place: Placement) -> None:
    """Within 0.15 pixels of lattice error, up to 40 grey levels a pixel: 6 levels of 255."""
    photo = texture()
    before, after = codes(place)
    result = put_back(NO_EDITOR, photo, before, after)
    mapped = spline(before.landmarks, after.landmarks)
    for old, new in zip(before.landmarks, after.landmarks, strict=True):
        x, y = np.floor(place.to_original(new)).astype(int)
        # The pixel's centre is up to half a pixel from the landmark, so is what it shows from the old place.
        source = place.to_original(mapped(place.to_unit(np.array([(x + 0.5, y + 0.5)]))))
        assert np.abs(source - place.to_original(old)).max() < 1
        np.testing.assert_allclose(result[y, x], wave(source)[0], atol=6)
    moved = np.abs(result.astype(int) - photo).max(-1)
    assert (moved > 40).mean() > 0.03


def test_a_spot_goes_where_its_landmark_goes() -> None:
    """By the centroid of a bright disc, to half a pixel."""
    x, y = np.meshgrid(np.arange(SIZE[0]) + 0.5, np.arange(SIZE[1]) + 0.5)
    before, after = codes(moves=np.array([(0, 0), (0, 0), (0.08, -0.06), (0, 0)]))
    start, end = (PLACE.to_original(code.landmarks[2]) for code in (before, after))
    spot = np.exp(-((x - start[0]) ** 2 + (y - start[1]) ** 2) / (2 * 3**2))
    photo = np.rint(20 + 200 * spot).astype(np.uint8)
    result = put_back(NO_EDITOR, photo, before, after)[:, :, 0].astype(float) - 20
    peak = np.argwhere(result == result.max()).mean(0)[::-1] + 0.5
    np.testing.assert_allclose(peak, end, atol=1)
    core = np.where(np.hypot(x - end[0], y - end[1]) < 4, result, 0)
    centroid = np.array([(core * x).sum(), (core * y).sum()]) / core.sum()
    np.testing.assert_allclose(centroid, end, atol=0.5)
    assert result.max() > 185  # as bright as it was


@pytest.mark.parametrize("corner", [(-30, -25), (150, 110), (-60, -60)])
def test_a_crop_may_reach_over_the_edge_of_the_photo(corner: tuple[int, int]) -> None:
    """As on a photo whose edges are repeated beyond."""
    more = 80
    photo = texture((200, 150))
    wider = np.pad(photo, ((more, more), (more, more), (0, 0)), mode="edge")
    before, after = codes(Placement(*corner, 110, 110))
    far_before, far_after = codes(Placement(corner[0] + more, corner[1] + more, 110, 110))
    black, grey = (np.full((8, 8, 3), value, np.uint8) for value in (0, 30))
    for blend in (False, True):
        result = put_back(fake(black, grey), photo, before, after, blend)
        expected = put_back(fake(black, grey), wider, far_before, far_after, blend)[more:-more, more:-more]
        assert result.shape == photo.shape
        np.testing.assert_allclose(result.astype(int), expected, atol=2)
        assert (result != photo).any()


@pytest.mark.parametrize("corner", [(500, 20), (20, 500), (-300, 20), (20, -300)])
def test_a_crop_beside_the_photo_is_refused(corner: tuple[int, int]) -> None:
    before, after = codes(Placement(*corner, 100, 100))
    with pytest.raises(TrigpointError, match=r"outside of the photo of 240x180 pixels\."):
        put_back(NO_EDITOR, texture(), before, after)


def test_grey_photos_become_colour() -> None:
    photo = texture()[:, :, :1]
    before, after = codes()
    drawn = [np.full((8, 8, 1), value, np.uint8) for value in (40, 60)]
    for blend in (False, True):
        expected = put_back(fake(*drawn), np.repeat(photo, 3, 2), before, after, blend)
        for grey in (photo, photo[:, :, 0]):
            result = put_back(fake(*drawn), grey, before, after, blend)
            assert result.shape == (SIZE[1], SIZE[0], 3)
            np.testing.assert_array_equal(result, expected)
        assert (expected == expected[:, :, :1]).all()


# What the decoder adds


def test_blended_adds_the_decoder_s_change() -> None:
    """From 100 to 130 everywhere: plus 30 in the crop, fading out over a tenth of the edge at its rim."""
    photo = texture() // 2 + 40
    before, after = codes()
    old, new = (np.full((16, 16, 3), value, np.uint8) for value in (100, 130))
    warped = put_back(fake(old, new), photo, before, after).astype(int)
    blended = put_back(fake(old, new), photo, before, after, blend=True).astype(int)
    x, y = np.meshgrid(np.arange(SIZE[0]) + 0.5, np.arange(SIZE[1]) + 0.5)
    unit = PLACE.to_unit(np.stack((x, y), -1))
    to_rim = np.minimum(unit, 1 - unit).min(-1)
    expected = 30 * np.clip(to_rim / 0.1, 0, 1)
    np.testing.assert_allclose(blended - warped, np.repeat(expected[:, :, None], 3, 2), atol=0.51)


def test_blended_does_not_move_twice() -> None:
    """Where the decoder only moves what the spline moves, there is (nearly) nothing to add."""
    photo = np.full((SIZE[1], SIZE[0], 3), 128, np.uint8)
    place = Placement(50, 30, 110, 110)
    before, after = codes(place, np.array([(0, 0), (0, 0), (0.08, -0.05), (0, 0)]))
    size = 64
    x, y = np.meshgrid((np.arange(size) + 0.5) / size, (np.arange(size) + 0.5) / size)
    inverse = spline(before.landmarks, after.landmarks)(np.stack((x, y), -1).reshape(-1, 2))
    along = np.stack((x, y), -1)
    at_new = inverse.reshape(size, size, 2)

    def drawn(where: NDArray[np.float64]) -> NDArray[np.uint8]:
        spot = np.exp(-np.square(where - before.landmarks[2]).sum(-1) / (2 * 0.08**2))
        return np.rint(np.repeat(40 + 150 * spot[:, :, None], 3, 2)).astype(np.uint8)

    blended = put_back(fake(drawn(along), drawn(at_new)), photo, before, after, blend=True).astype(int)
    still = put_back(fake(drawn(along), drawn(at_new)), photo, before, before, blend=True).astype(int)
    assert np.abs(blended - 128).max() <= 4
    assert np.abs(still - 128).max() > 60  # without the movement there is much to add


def test_blended_differs_from_warped_by_a_coarse_change_only(colour_editor: Editor) -> None:
    """Nine tenths and more of the difference is coarser than two pixels of the decoder's image of 32."""
    photo = np.random.default_rng(1).integers(90, 166, (200, 220, 3), dtype=np.uint8)
    place = Placement(30, 20, 160, 160)
    before = colour_editor.encode(photo, place)
    assert before.descriptors is not None
    after = before.moved({0: (0.1, 0.05), 2: (-0.08, 0.1)})
    looks = before.descriptors + np.random.default_rng(0).normal(0, 3, before.descriptors.shape)
    after = Code(after.landmarks, looks.astype(np.float32), place)
    warped = put_back(colour_editor, photo, before, after).astype(float)
    blended = put_back(colour_editor, photo, before, after, blend=True).astype(float)
    change = (blended - warped).mean(-1)
    assert change.std() > 1
    energy = np.abs(np.fft.fft2(change)) ** 2
    rows, columns = np.meshgrid(np.fft.fftfreq(200), np.fft.fftfreq(220), indexing="ij")
    coarse = np.hypot(rows, columns) <= 0.5 * 32 / 160  # cycles a pixel
    assert energy[coarse].sum() > 0.9 * energy.sum()
    sharp = np.abs(np.fft.fft2(warped.mean(-1) - warped.mean())) ** 2
    assert sharp[coarse].sum() < 0.8 * sharp.sum()  # the photo itself is finer


def test_blended_stays_within_black_and_white() -> None:
    photo = np.full((SIZE[1], SIZE[0], 3), 250, np.uint8)
    before, after = codes()
    low, high = (np.full((8, 8, 3), value, np.uint8) for value in (0, 200))
    brighter: NDArray[Any] = put_back(fake(low, high), photo, before, after, blend=True)
    assert brighter.max() == 255
    assert brighter.min() == 250
    darker = put_back(fake(high, low), photo // 5, before, after, blend=True)
    assert darker.min() == 0
    assert darker.max() == 50
