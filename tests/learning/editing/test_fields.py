"""Flow fields that carry landmarks along."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.learning.editing.fields import FIELDS, carried

STEP = 1e-4


def lattice(low: float = -0.2, high: float = 1.2, count: int = 29) -> NDArray[np.float64]:
    along = np.linspace(low, high, count)
    return np.stack(np.meshgrid(along, along), axis=-1).reshape(-1, 2)


def slopes(field: str, strength: float, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Jacobians (n, 2, 2) of the carried points by central differences."""
    columns = [
        (carried(points + step, field, strength) - carried(points - step, field, strength)) / (2 * STEP)
        for step in (np.array([STEP, 0]), np.array([0, STEP]))
    ]
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("field", FIELDS)
def test_zero_strength_leaves_every_point(field: str) -> None:
    points = lattice()
    np.testing.assert_array_equal(carried(points, field, 0.0), points)


@pytest.mark.parametrize("field", FIELDS)
def test_displacements_grow_with_the_strength(field: str) -> None:
    points = lattice()
    one = carried(points, field, 1.0) - points
    assert np.abs(one).max() > 0.05
    np.testing.assert_allclose(carried(points, field, -0.4) - points, -0.4 * one, atol=1e-12)


@pytest.mark.parametrize("field", FIELDS)
def test_points_are_not_changed_in_place(field: str) -> None:
    points = lattice()
    carried(points, field, 0.5)
    np.testing.assert_array_equal(points, lattice())


@pytest.mark.parametrize("field", FIELDS)
def test_fields_are_smooth(field: str) -> None:
    """Neighbours at a distance of h are carried to less than 5 h of each other, whatever h is."""
    points = lattice(count=57)
    for step in (1e-2, 1e-4, 1e-6):
        for direction in ((step, 0.0), (0.0, step), (step, -step)):
            apart = FIELDS[field](points + direction) - FIELDS[field](points)
            assert np.abs(apart).max() < 4 * step


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_of_plain_strength_does_not_fold_the_image(field: str) -> None:
    for strength in (0.3, -0.3):
        assert np.linalg.det(slopes(field, strength, lattice(0, 1))).min() > 0.2


@pytest.mark.parametrize("field", FIELDS)
def test_the_centre_stays(field: str) -> None:
    centre = np.array([[0.5, 0.5]])
    np.testing.assert_allclose(carried(centre, field, 1.0), centre, atol=1e-12)


def test_twist_turns_about_the_centre() -> None:
    """Near the centre: by the strength, the x axis towards the y axis."""
    around = 0.5 + 0.01 * np.array([[1.0, 0], [0, 1], [-1, 0], [0, -1]])
    moves = (carried(around, "twist", 0.2) - around) / 0.01
    np.testing.assert_allclose(moves, 0.2 * np.array([[0, 1], [-1, 0], [0, -1], [1, 0]]), atol=1e-3)


def test_swell_widen_and_lengthen_pull_outwards() -> None:
    around = np.array([[0.6, 0.5], [0.5, 0.3], [0.4, 0.7]])
    outwards = around - 0.5
    swell, widen, lengthen = (carried(around, name, 1.0) - around for name in ("swell", "widen", "lengthen"))
    assert ((swell * outwards).sum(-1) > 0).all()
    np.testing.assert_allclose(swell, widen + lengthen, atol=1e-12)
    np.testing.assert_array_equal(widen[:, 1], 0)
    np.testing.assert_array_equal(lengthen[:, 0], 0)
    # Beyond the fall-off little is left.
    far = np.array([[2.0, 0.5]])
    assert np.abs(carried(far, "swell", 1.0) - far).max() < 1e-3


def test_lean_is_a_shear() -> None:
    points = lattice()
    moves = carried(points, "lean", 0.5) - points
    np.testing.assert_allclose(moves[:, 0], 0.5 * (points[:, 1] - 0.5), atol=1e-12)
    np.testing.assert_array_equal(moves[:, 1], 0)


def test_smile_lifts_the_corners_of_the_mouth() -> None:
    left, middle, right, eye = np.array([[0.3, 0.75], [0.5, 0.75], [0.7, 0.75], [0.3, 0.35]])
    moves = carried(np.stack((left, middle, right, eye)), "smile", 0.5) - (left, middle, right, eye)
    assert moves[0, 1] < -0.01  # upwards
    assert moves[0, 1] == pytest.approx(moves[2, 1])
    np.testing.assert_array_equal(moves[[1, 3]], 0)
    np.testing.assert_array_equal(moves[:, 0], 0)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TrigpointError, match=r"no field 'frown'; the fields are twist, swell, .*smile\."):
        carried(lattice(), "frown", 0.3)
