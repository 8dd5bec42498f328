"""Coordinates as tensors: maps of cells, padding, reading between pixels, affine maps."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
import torch
from scipy.ndimage import map_coordinates

from trigpoint.core.geometry import Placement, extract
from trigpoint.learning.tensors import axis, grid, moved, pad, sample, similarity, turned


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "box",
    [
        Placement(-3, -2, 12, 12),
        Placement(4, 3, 12, 12),
        Placement(-5, 2, 12, 12),
        Placement(-20, 1, 12, 12),  # wholly to the left
        Placement(2, 30, 12, 12),  # wholly below
    ],
)
def test_extract_repeats_edge_values(box: Placement, channels: int) -> None:
    """Boxes beyond the border, unscaled, against NumPy's edge padding."""
    image = np.random.default_rng(1).integers(0, 256, (7, 9, channels), np.uint8)
    wide = np.pad(image, ((50, 50), (50, 50), (0, 0)), mode="edge")
    expected = wide[box.y + 50 : box.y + 62, box.x + 50 : box.x + 62]
    np.testing.assert_array_equal(extract(image, box, 12), expected)


@pytest.mark.parametrize(
    ("cells", "image_size", "covered", "expected"),
    [
        (4, 4, 4, [0.125, 0.375, 0.625, 0.875]),
        (2, 4, 4, [0.25, 0.75]),
        (8, 4, 8, [-0.375, -0.125, 0.125, 0.375, 0.625, 0.875, 1.125, 1.375]),
        (2, 4, 8, [0.0, 1.0]),
        (3, 8, 12, [0.0, 0.5, 1.0]),
    ],
)
def test_axis_by_hand(cells: int, image_size: int, covered: int, expected: list[float]) -> None:
    torch.testing.assert_close(axis(cells, image_size, covered), torch.tensor(expected))


def test_padding_does_not_change_unit_coordinates() -> None:
    """The 80 middle pixels of 96 are where they were, and the rest lies outside [0, 1]."""
    inside, padded = axis(80, 80, 80), axis(96, 80, 96)
    torch.testing.assert_close(padded[8:88], inside)
    assert padded[7] < 0 < padded[8]
    assert padded[87] < 1 < padded[88]


def test_grid_goes_row_by_row_in_x_y() -> None:
    expected = [[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]]
    torch.testing.assert_close(grid(2, 2, 2), torch.tensor(expected))


def test_grid_pairs_the_axis_with_itself() -> None:
    along, cells = axis(5, 6, 10), grid(5, 6, 10).reshape(5, 5, 2)
    for row in range(5):
        for column in range(5):
            assert cells[row, column].tolist() == [along[column], along[row]]


def random_images(size: int, channels: int = 3) -> torch.Tensor:
    return torch.rand(2, channels, size, size, generator=torch.Generator().manual_seed(size))


@pytest.mark.parametrize(("size", "padded"), [(6, 10), (5, 5), (7, 21)])
def test_pad_repeats_edge_values(size: int, padded: int) -> None:
    images, margin = random_images(size), (padded - size) // 2
    expected = np.pad(images.numpy(), ((0, 0), (0, 0), (margin,) * 2, (margin,) * 2), mode="edge")
    np.testing.assert_array_equal(pad(images, padded).numpy(), expected)


def test_sample_at_pixel_centres_returns_the_pixels() -> None:
    images = random_images(9)
    points = grid(9, 9, 9).reshape(1, 9, 9, 2).expand(2, -1, -1, -1)
    torch.testing.assert_close(sample(images, points), images, atol=1e-5, rtol=0)


def test_sample_at_padded_centres_returns_the_padded_image() -> None:
    """Edge values outside: warping the image or its padded form is the same."""
    images = random_images(8)
    points = grid(14, 8, 14).reshape(1, 14, 14, 2).expand(2, -1, -1, -1)
    torch.testing.assert_close(sample(images, points), pad(images, 14), atol=1e-5, rtol=0)


def test_sample_interpolates_between_centres() -> None:
    """Half way to the right neighbour, a quarter of the way down."""
    images = random_images(4, channels=1)
    points = torch.tensor([2.0, 1.75]).div(4).expand(2, 1, 1, 2)
    top, bottom = images[:, 0, 1, 1:3].mean(-1), images[:, 0, 2, 1:3].mean(-1)
    torch.testing.assert_close(sample(images, points).flatten(), 0.75 * top + 0.25 * bottom)


@pytest.mark.parametrize("box", [Placement(17.8, 21.8, 142.4, 174.4), Placement(-3.5, 10.25, 60.5, 200)])
def test_extract_of_a_fractional_box_is_the_mean_over_each_area(box: Placement) -> None:
    """Against an integral image interpolated linearly, which is exact for means over rectangles."""
    image = np.random.default_rng(2).integers(0, 256, (218, 178, 1), np.uint8)
    margin = 10
    wide = np.pad(image[..., 0].astype(float), margin, mode="edge")
    sums = np.pad(wide.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    size = 50
    ys = box.y + margin + box.height * np.arange(size + 1) / size
    xs = box.x + margin + box.width * np.arange(size + 1) / size
    corners = map_coordinates(sums, np.meshgrid(ys, xs, indexing="ij"), order=1)
    totals = corners[1:, 1:] - corners[:-1, 1:] - corners[1:, :-1] + corners[:-1, :-1]
    expected = totals / (box.width * box.height / size**2)
    np.testing.assert_allclose(extract(image, box, size)[..., 0], expected, atol=0.51)


def points_of(seed: int, *shape: int) -> torch.Tensor:
    return torch.rand(*shape, 2, generator=torch.Generator().manual_seed(seed))


def test_similarity_finds_turn_scale_and_shift_that_were_applied() -> None:
    shape = points_of(0, 6)
    matrix = 1.3 * torch.tensor([[math.cos(0.7), -math.sin(0.7)], [math.sin(0.7), math.cos(0.7)]])
    found = similarity(shape, (shape @ matrix.T + torch.tensor([0.2, -0.1]))[None])
    torch.testing.assert_close(found[0], torch.cat((matrix, torch.tensor([[0.2], [-0.1]])), 1))


def test_similarity_is_the_best_of_its_kind_as_opencv_finds_it() -> None:
    """OpenCV's estimate without outliers is a least-squares similarity, too."""
    shape, points = points_of(1, 12), points_of(2, 3, 12)
    for one, found in zip(points, similarity(shape, points), strict=True):
        expected, _ = cv2.estimateAffinePartial2D(
            shape.double().numpy(), one.double().numpy(), method=cv2.RANSAC, ransacReprojThreshold=1e6
        )
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_similarity_of_one_point_is_a_shift() -> None:
    found = similarity(torch.tensor([[0.5, 0.25]]), torch.tensor([[[0.75, 0.5]]]))
    torch.testing.assert_close(found, torch.tensor([[[1.0, 0, 0.25], [0, 1, 0.25]]]))


def test_turned_keeps_the_middle_and_turns_before_the_map() -> None:
    maps = torch.tensor([[[2.0, 0, 0.1], [0, 2, 0.3]]])
    quarter = turned(maps, math.pi / 2)
    points = torch.tensor([[[0.5, 0.5], [1.0, 0.5]]])
    # The middle stays; the right edge's middle goes to the bottom's.
    expected = moved(maps, torch.tensor([[[0.5, 0.5], [0.5, 1.0]]]))
    torch.testing.assert_close(moved(quarter, points), expected)
