"""Bodies from both sides: the four-step fit and flip-aware errors, on landmarks made for it."""

from __future__ import annotations

import numpy as np
import pytest

from trigpoint.core.sources.figures import Figures
from trigpoint.learning.evaluation import bodies
from trigpoint.learning.evaluation.bodies import fit_bodies, flip_aware_errors, frontal, nearer, swapped
from trigpoint.learning.evaluation.protocols import PROTOCOLS, LinearMap, mean_error, normalised_errors

SWAPS = ((1, 2), (3, 4), (5, 6))  # head, then left and right shoulder, hip and ankle
BODY = np.array([[0.5, 0.2], [0.6, 0.3], [0.4, 0.3], [0.58, 0.5], [0.42, 0.5], [0.57, 0.8], [0.43, 0.8]])


def people(count: int, back: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What a detector that is blind to the view finds, the annotation, and who turns away.

    Seen in the image, all people are alike; of those who turn away, left and right are annotated the other
    way round. Discovered landmarks are a linear function of what is seen.
    """
    random = np.random.default_rng(seed)
    seen = BODY + random.normal(0, 0.05, (count, 1, 2)) + random.normal(0, 0.01, (count, 7, 2))
    away = random.uniform(size=count) < back
    annotated = np.where(away[:, None, None], swapped(seen, SWAPS), seen)
    mix = np.random.default_rng(5).normal(0, 1, (8, 7))
    discovered = mix @ (seen - 0.5) * 0.2 + 0.5 + random.normal(0, 1e-4, (count, 8, 2))
    return discovered, annotated, away


# Orientation


def test_swapping_exchanges_left_and_right_and_nothing_else() -> None:
    points = BODY[None]
    other = swapped(points, SWAPS)
    np.testing.assert_array_equal(other[0, [0, 1, 2, 3, 4, 5, 6]], BODY[[0, 2, 1, 4, 3, 6, 5]])
    np.testing.assert_array_equal(swapped(other, SWAPS), points)
    np.testing.assert_array_equal(points[0], BODY)  # a copy


def test_frontal_is_more_than_two_thirds_of_the_left_to_the_right() -> None:
    two_of_three = BODY.copy()
    two_of_three[[5, 6]] = two_of_three[[6, 5]]
    np.testing.assert_array_equal(
        frontal(np.stack((BODY, two_of_three, swapped(BODY[None], SWAPS)[0])), SWAPS), [True, False, False]
    )


def test_frontal_counts_the_pairs_that_are_annotated() -> None:
    partly = BODY.copy()
    partly[5] = np.nan
    nobody = np.full_like(BODY, np.nan)
    np.testing.assert_array_equal(frontal(np.stack((partly, nobody)), SWAPS), [True, False])


# Errors


def test_errors_by_hand() -> None:
    """Two images of a head and a pair of hands; the second is predicted with its hands swapped."""
    annotated = np.array([[[0.5, 0.1], [0.8, 0.5], [0.2, 0.5]]] * 2)
    predicted = np.array([[[0.5, 0.1], [0.8, 0.6], [0.2, 0.5]], [[0.5, 0.2], [0.2, 0.5], [0.7, 0.5]]])
    errors = flip_aware_errors(predicted, annotated, None, ((1, 2),))
    np.testing.assert_allclose(errors, [[0, 0.1, 0], [0.1, 0, 0.1]], atol=1e-12)
    np.testing.assert_allclose(nearer(predicted, annotated, ((1, 2),))[1], annotated[1, [0, 2, 1]])


def test_the_whole_body_is_swapped_at_once() -> None:
    """Part of a prediction fits one way, part the other: the lower mean counts, not the lower landmarks."""
    predicted = BODY[None].copy()
    predicted[0, [1, 2]] = BODY[[2, 1]]  # shoulders alone
    errors = flip_aware_errors(predicted, BODY[None], None, SWAPS)
    np.testing.assert_allclose(errors, normalised_errors(predicted, BODY[None], None))
    assert errors.max() == pytest.approx(0.2)


def test_the_unit_and_missing_landmarks_are_as_elsewhere() -> None:
    annotated = np.stack((BODY, BODY, BODY))
    annotated[1, 0] = np.nan
    annotated[2, 5] = annotated[2, 0]
    predicted = swapped(np.stack((BODY, BODY, BODY)), SWAPS) + np.array([0.06, 0.0])
    errors = flip_aware_errors(predicted, annotated, (0, 5), SWAPS)
    assert errors.shape == (1, 7)  # the second has no reference point, the third no reference distance
    np.testing.assert_allclose(errors, 0.06 / np.hypot(0.07, 0.6))
    errors = flip_aware_errors(predicted[:2], annotated[:2], None, SWAPS)
    assert np.isnan(errors[1, 0])
    np.testing.assert_allclose(errors[1, 1:], 0.06)


# The four steps


@pytest.mark.parametrize("back", [0.3, 0.5])
def test_the_four_steps_find_the_map_that_a_plain_fit_misses(back: float) -> None:
    discovered, annotated, away = people(300, back, 1)
    test_x, test_y, _ = people(100, back, 2)
    fit = PROTOCOLS["lmdis"].fit
    found = fit_bodies(fit, discovered, annotated, SWAPS)
    assert found.converged
    np.testing.assert_array_equal(found.flipped, away)
    four_steps = mean_error(flip_aware_errors(found.regressor.predict(test_x), test_y, None, SWAPS))
    plain = mean_error(flip_aware_errors(fit(discovered, annotated).predict(test_x), test_y, None, SWAPS))
    assert four_steps < 0.005
    assert plain > 5 * four_steps


def test_where_all_face_the_camera_it_is_the_plain_fit() -> None:
    discovered, annotated, _ = people(60, 0.0, 3)
    found = fit_bodies(PROTOCOLS["lmdis"].fit, discovered, annotated, SWAPS)
    assert not found.flipped.any()
    assert found.converged
    expected = PROTOCOLS["lmdis"].fit(discovered, annotated)
    np.testing.assert_allclose(found.regressor.weights, expected.weights, atol=1e-12)


def test_where_all_turn_away_they_agree_among_themselves() -> None:
    discovered, annotated, _ = people(60, 1.0, 3)
    found = fit_bodies(PROTOCOLS["lmdis"].fit, discovered, annotated, SWAPS)
    assert not found.flipped.any()
    assert mean_error(normalised_errors(found.regressor.predict(discovered), annotated, None)) < 0.01


def test_frontal_annotations_are_never_swapped_and_incomplete_ones_do_no_harm() -> None:
    discovered, annotated, away = people(200, 0.4, 4)
    annotated[::10, 3] = np.nan
    annotated[5] = np.nan
    found = fit_bodies(PROTOCOLS["lmdis"].fit, discovered, annotated, SWAPS)
    assert not found.flipped[frontal(annotated, SWAPS)].any()
    complete = np.isfinite(annotated).all((1, 2))
    np.testing.assert_array_equal(found.flipped[complete], away[complete])


def test_a_fit_that_never_settles_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    discovered, annotated, _ = people(20, 0.5, 6)
    calls = 0

    def contrary(x: np.ndarray, y: np.ndarray) -> LinearMap:
        """Predicts one side and the other in turn."""
        nonlocal calls
        calls += 1
        body = BODY if calls % 2 else swapped(BODY[None], SWAPS)[0]
        return LinearMap(np.zeros((16, 14)), 0.0, body.reshape(-1))

    monkeypatch.setattr(bodies, "ROUNDS", 7)
    found = fit_bodies(contrary, discovered, annotated, SWAPS)
    assert (found.rounds, found.converged) == (7, False)
    assert calls == 8


# The embedded figures


def sorted_pairs(source: Figures) -> tuple[np.ndarray, np.ndarray]:
    """Joints as a detector gives them that cannot tell front from back, and as they are annotated."""
    known = source.annotations
    assert known is not None
    joints = known.points / 96
    seen = joints.copy()
    for left, right in known.swaps:
        order = joints[:, left, 0] < joints[:, right, 0]
        seen[:, left] = np.where(order[:, None], joints[:, right], joints[:, left])
        seen[:, right] = np.where(order[:, None], joints[:, left], joints[:, right])
    return seen, joints


def test_figures_from_both_sides() -> None:
    train, test = Figures("300"), Figures("100", "test")
    assert train.annotations is not None
    assert train.attributes is not None
    swaps = train.annotations.swaps
    (fit_x, fit_y), (test_x, test_y) = sorted_pairs(train), sorted_pairs(test)
    back = train.attributes.values[:, 0] == 1
    assert 0.3 < back.mean() < 0.7
    fit = PROTOCOLS["lmdis"].fit
    found = fit_bodies(fit, fit_x, fit_y, swaps)
    assert found.converged
    assert (found.flipped == back).mean() > 0.95
    error = mean_error(flip_aware_errors(found.regressor.predict(test_x), test_y, None, swaps))
    plain = mean_error(flip_aware_errors(fit(fit_x, fit_y).predict(test_x), test_y, None, swaps))
    blind = mean_error(normalised_errors(fit(fit_x, fit_y).predict(test_x), test_y, None))
    assert error < 0.01
    assert error < plain / 3 < blind / 3
