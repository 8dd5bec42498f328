"""The regression protocol, against hand computation and the normal equations."""

from __future__ import annotations

import numpy as np
import pytest

from cairns.evaluation.protocols import LinearMap, normalised_errors


@pytest.fixture
def points() -> tuple[np.ndarray, np.ndarray]:
    """Discovered (40, 3, 2) and annotated (40, 2, 2) landmarks, loosely related."""
    random = np.random.default_rng(3)
    discovered = random.uniform(0.2, 0.8, (40, 3, 2))
    annotated = discovered[:, :2] * 0.7 + 0.1 + random.normal(0, 0.02, (40, 2, 2))
    return discovered, annotated


def test_a_case_computed_by_hand() -> None:
    """One landmark; the annotated one lies twice as far from the middle, along each axis alone."""
    discovered = np.array([[[0.6, 0.5]], [[0.5, 0.7]]])  # minus 0.5: (0.1, 0), (0, 0.2)
    annotated = np.array([[[0.7, 0.5]], [[0.5, 0.9]]])  # minus 0.5: (0.2, 0), (0, 0.4)
    fitted = LinearMap.fit(discovered, annotated)
    np.testing.assert_allclose(fitted.weights, [[2, 0], [0, 2]], atol=1e-12)
    np.testing.assert_allclose(fitted.predict(np.array([[[0.4, 0.55]]])), [[[0.3, 0.6]]], atol=1e-12)


def test_there_is_no_bias() -> None:
    """A constant offset from the middle cannot be learnt from landmarks in the middle."""
    discovered = np.full((5, 2, 2), 0.5)
    fitted = LinearMap.fit(discovered, np.full((5, 1, 2), 0.8))
    np.testing.assert_allclose(fitted.predict(discovered), 0.5)


def test_equals_the_normal_equations(points: tuple[np.ndarray, np.ndarray]) -> None:
    discovered, annotated = points
    x = discovered.reshape(40, 6) - 0.5
    y = annotated.reshape(40, 4) - 0.5
    expected = np.linalg.solve(x.T @ x, x.T @ y)
    fitted = LinearMap.fit(discovered, annotated)
    assert fitted.weights.shape == (6, 4)
    np.testing.assert_allclose(fitted.weights, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(fitted.predict(discovered).reshape(40, 4), x @ expected + 0.5, atol=1e-9)


def test_images_without_annotation_do_not_count_in_the_fit(points: tuple[np.ndarray, np.ndarray]) -> None:
    discovered, annotated = points
    partly = annotated.copy()
    partly[5, 1, 0] = np.nan
    partly[9] = np.nan
    complete = np.isin(np.arange(40), (5, 9), invert=True)
    expected = LinearMap.fit(discovered[complete], annotated[complete]).weights
    np.testing.assert_allclose(LinearMap.fit(discovered, partly).weights, expected, atol=1e-12)


def test_landmarks_that_repeat_each_other_can_be_fitted(points: tuple[np.ndarray, np.ndarray]) -> None:
    discovered, annotated = points
    doubled = np.concatenate((discovered, discovered), axis=1)
    np.testing.assert_allclose(
        LinearMap.fit(doubled, annotated).predict(doubled),
        LinearMap.fit(discovered, annotated).predict(discovered),
        atol=1e-9,
    )


def test_errors_are_distances_over_the_reference_distance() -> None:
    annotated = np.array([[[0.2, 0.5], [0.6, 0.5], [0.4, 0.8]]])  # eyes 0.4 apart
    predicted = annotated + np.array([[[0.03, 0.04], [0, 0], [0, -0.2]]])
    np.testing.assert_allclose(normalised_errors(predicted, annotated, (0, 1)), [[0.125, 0, 0.5]])


def test_the_reference_need_not_be_the_first_two() -> None:
    annotated = np.array([[[0.0, 0.0], [0.5, 0.0], [0.5, 0.1]]])
    np.testing.assert_allclose(normalised_errors(annotated + 0.1, annotated, (1, 2)), [[2**0.5] * 3])


def test_images_without_reference_distance_or_annotation_are_dropped(
    points: tuple[np.ndarray, np.ndarray],
) -> None:
    _, annotated = points
    annotated = annotated.copy()
    annotated[3, 1] = annotated[3, 0]  # both reference points in one place
    annotated[7, 0, 1] = np.nan
    errors = normalised_errors(annotated + 0.01, annotated, (0, 1))
    assert errors.shape == (38, 2)
    assert np.isfinite(errors).all()
    left = np.delete(annotated, (3, 7), axis=0)
    np.testing.assert_allclose(errors, normalised_errors(left + 0.01, left, (0, 1)))
