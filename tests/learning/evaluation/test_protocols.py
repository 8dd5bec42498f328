"""The regression protocols, each against a hand computation and an independent one in its own coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args, get_type_hints

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from trigpoint.app.cli.evaluate import Evaluate
from trigpoint.learning.evaluation.protocols import (
    FEW,
    LEAST_SQUARES,
    PROTOCOLS,
    STRENGTHS,
    LinearMap,
    fit_few,
    mean_error,
    normalised_errors,
)


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


def test_without_reference_the_unit_is_the_edge_of_the_crop() -> None:
    annotated = np.array([[[0.2, 0.5], [0.2, 0.5]]])
    errors = normalised_errors(annotated + np.array([0.03, 0.04]), annotated, None)
    np.testing.assert_allclose(errors, [[0.05, 0.05]])


def test_an_image_counts_with_the_landmarks_it_has() -> None:
    annotated = np.array([[[0.0, 0.0], [0.5, 0.0], [np.nan, np.nan]], [[0.0, 0.0], [0.1, 0.0], [0.2, 0.0]]])
    predicted = np.nan_to_num(annotated) + np.array([[[0.1, 0], [0, 0], [0, 0]], [[0, 0], [0, 0], [0, 0.3]]])
    errors = normalised_errors(predicted, annotated, (0, 1))
    np.testing.assert_allclose(errors, [[0.2, 0, np.nan], [0, 0, 3]])
    assert mean_error(errors) == pytest.approx((0.1 + 1) / 2)  # over an image's landmarks, then over images


def test_images_without_any_landmark_are_dropped_also_without_reference() -> None:
    annotated = np.full((3, 2, 2), 0.5)
    annotated[1] = np.nan
    annotated[2, 0, 1] = np.nan  # one coordinate is no landmark
    errors = normalised_errors(np.full((3, 2, 2), 0.6), annotated, None)
    assert errors.shape == (2, 2)
    assert np.isnan(errors[1, 0])


# The registry


def test_the_command_line_offers_every_protocol() -> None:
    assert get_args(get_type_hints(Evaluate)["protocol"]) == tuple(PROTOCOLS)


@pytest.mark.parametrize("name", list(PROTOCOLS))
def test_a_protocol_says_in_one_sentence_what_it_does(name: str) -> None:
    protocol = PROTOCOLS[name]
    assert protocol.name == name
    assert protocol.text.endswith(".")
    assert ". " not in protocol.text
    assert "\n" not in protocol.text


# By hand


def two(first: tuple[float, float], second: tuple[float, float]) -> np.ndarray:
    return np.array([[first], [second]])


@pytest.mark.parametrize(
    ("name", "discovered", "annotated", "given", "expected"),
    [
        # About the middle: twice as far from it.
        ("lmdis", two((0.6, 0.5), (0.5, 0.7)), two((0.7, 0.5), (0.5, 0.9)), (0.4, 0.55), (0.3, 0.6)),
        ("bkind", two((0.6, 0.5), (0.5, 0.7)), two((0.7, 0.5), (0.5, 0.9)), (0.4, 0.55), (0.3, 0.6)),
        # About the corner: x doubled, y halved.
        ("autolink", two((0.2, 0.0), (0.0, 0.4)), two((0.4, 0.0), (0.0, 0.2)), (0.3, 0.3), (0.6, 0.15)),
        ("imm", two((0.2, 0.0), (0.0, 0.4)), two((0.4, 0.0), (0.0, 0.2)), (0.3, 0.3), (0.6, 0.15)),
    ],
)
def test_without_bias_by_hand(
    name: str,
    discovered: np.ndarray,
    annotated: np.ndarray,
    given: tuple[float, float],
    expected: tuple[float, float],
) -> None:
    fitted = PROTOCOLS[name].fit(discovered, annotated)
    np.testing.assert_allclose(fitted.predict(np.array([[given]])), [[expected]], atol=1e-12)
    assert fitted.kind == LEAST_SQUARES


def test_imm_with_bias_by_hand() -> None:
    """A shift, which no map about a fixed origin can do."""
    discovered = np.array([[[0.1, 0.2]], [[0.6, 0.3]], [[0.4, 0.9]]])
    fitted = PROTOCOLS["imm-bias"].fit(discovered, discovered + np.array([0.2, -0.1]))
    np.testing.assert_allclose(fitted.predict(np.array([[[0.5, 0.5]]])), [[[0.7, 0.4]]], atol=1e-12)


def test_saic_by_hand() -> None:
    """Two images that differ in x: X'X = 0.02 there, so the slope of 2 shrinks by 1 + 1e-5."""
    discovered, annotated = two((0.4, 0.5), (0.6, 0.5)), two((0.3, 0.8), (0.7, 0.8))
    fitted = PROTOCOLS["saic"].fit(discovered, annotated)
    predicted = fitted.predict(np.array([[[1.0, 0.1]]]))
    np.testing.assert_allclose(predicted, [[[0.5 + 0.5 * 2 / (1 + 1e-5), 0.8]]], atol=1e-9)
    assert "ridge" in fitted.kind


# Independent computations, each in the coordinates of the project it comes from


def by_release(fit_x: np.ndarray, fit_y: np.ndarray, test_x: np.ndarray) -> np.ndarray:
    """The paper's release: pseudo-inverse about the middle."""
    weights = np.linalg.pinv(fit_x - 0.5) @ (fit_y - 0.5)
    return (test_x - 0.5) @ weights + 0.5


def by_normal_equations(fit_x: np.ndarray, fit_y: np.ndarray, test_x: np.ndarray) -> np.ndarray:
    return test_x @ (np.linalg.inv(fit_x.T @ fit_x) @ fit_x.T @ fit_y)


def by_pixels(fit_x: np.ndarray, fit_y: np.ndarray, test_x: np.ndarray) -> np.ndarray:
    """(y, x) in pixels of an image of 128, by scikit-learn."""
    order = np.arange(fit_x.shape[1]).reshape(-1, 2)[:, ::-1].reshape(-1)
    model = Ridge(alpha=0.0, fit_intercept=False).fit(128 * fit_x[:, order], 128 * fit_y)
    return np.asarray(model.predict(128 * test_x[:, order])) / 128


def by_intercept(fit_x: np.ndarray, fit_y: np.ndarray, test_x: np.ndarray) -> np.ndarray:
    return np.asarray(LinearRegression().fit(128 * fit_x, 128 * fit_y).predict(128 * test_x)) / 128


def by_symmetric_ridge(fit_x: np.ndarray, fit_y: np.ndarray, test_x: np.ndarray) -> np.ndarray:
    """Coordinates in [-1, 1], by scikit-learn."""
    model = Ridge(alpha=0.0, fit_intercept=False).fit(2 * fit_x - 1, 2 * fit_y - 1)
    return (np.asarray(model.predict(2 * test_x - 1)) + 1) / 2


def by_centred_ridge(fit_x: np.ndarray, fit_y: np.ndarray, test_x: np.ndarray) -> np.ndarray:
    """Coordinates of 64 cells in units of 32: scikit-learn's ridge leaves the intercept alone as well."""
    x, y = 2 * fit_x - 0.5, 2 * fit_y - 0.5
    centred = x - x.mean(0)
    model = Ridge(alpha=1e-5 * (centred.T @ centred).max(), solver="svd").fit(x, y)
    return (np.asarray(model.predict(2 * test_x - 0.5)) + 0.5) / 2


OWN: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "lmdis": by_release,
    "autolink": by_normal_equations,
    "imm": by_pixels,
    "imm-bias": by_intercept,
    "bkind": by_symmetric_ridge,
    "saic": by_centred_ridge,
}


def faces(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Four discovered and five annotated landmarks that move together, with noise."""
    random = np.random.default_rng(seed)
    shape = np.array([[0.35, 0.4], [0.65, 0.4], [0.5, 0.55], [0.4, 0.7], [0.6, 0.7]])
    annotated = shape + random.normal(0, 0.05, (count, 1, 2)) + random.normal(0, 0.02, (count, 5, 2))
    mix = np.random.default_rng(99).dirichlet(np.ones(5), 4)
    return mix @ annotated + random.normal(0, 0.01, (count, 4, 2)), annotated


@pytest.mark.parametrize("name", list(PROTOCOLS))
def test_a_protocol_equals_its_project_s_own_computation(name: str) -> None:
    (fit_x, fit_y), (test_x, test_y) = faces(200, 1), faces(60, 2)
    predicted = PROTOCOLS[name].fit(fit_x, fit_y).predict(test_x)
    own = OWN[name](fit_x.reshape(200, 8), fit_y.reshape(200, 10), test_x.reshape(60, 8)).reshape(60, 5, 2)
    np.testing.assert_allclose(predicted, own, atol=1e-9)
    total = 0.0
    for image in range(60):
        eyes = np.hypot(*(test_y[image, 0] - test_y[image, 1]))
        total += sum(np.hypot(*(own[image, k] - test_y[image, k])) for k in range(5)) / 5 / eyes
    assert mean_error(normalised_errors(predicted, test_y, (0, 1))) == pytest.approx(total / 60, abs=1e-6)


def test_the_origin_matters_where_there_is_no_bias() -> None:
    (fit_x, fit_y), (test_x, _) = faces(200, 1), faces(60, 2)
    predicted = {name: one.fit(fit_x, fit_y).predict(test_x) for name, one in PROTOCOLS.items()}
    for first, second in (("lmdis", "autolink"), ("lmdis", "imm-bias"), ("autolink", "imm-bias")):
        assert np.abs(predicted[first] - predicted[second]).max() > 1e-4
    for first, second in (("lmdis", "bkind"), ("autolink", "imm")):  # the scale does not
        np.testing.assert_allclose(predicted[first], predicted[second], atol=1e-12)


@pytest.mark.parametrize("name", list(PROTOCOLS))
def test_incomplete_images_do_not_count_in_any_fit(name: str) -> None:
    fit_x, fit_y = faces(100, 1)
    partly = fit_y.copy()
    partly[3, 2] = np.nan
    partly[50] = np.nan
    kept = np.isin(np.arange(100), (3, 50), invert=True)
    expected = PROTOCOLS[name].fit(fit_x[kept], fit_y[kept]).predict(fit_x)
    np.testing.assert_allclose(PROTOCOLS[name].fit(fit_x, partly).predict(fit_x), expected, atol=1e-12)


# Fewer labels than unknowns


@pytest.mark.parametrize(("name", "enough"), [("lmdis", 8), ("autolink", 8), ("bkind", 8), ("imm-bias", 9)])
def test_a_ridge_takes_over_below_as_many_labels_as_unknowns(name: str, enough: int) -> None:
    x, y = faces(20, 3)
    assert PROTOCOLS[name].unknowns(4) == enough
    assert PROTOCOLS[name].fit(x[:enough], y[:enough]).kind == LEAST_SQUARES
    assert PROTOCOLS[name].fit(x[: enough - 1], y[: enough - 1]).kind == FEW


@pytest.mark.parametrize("count", [1, 2])
def test_one_label_or_two_give_their_mean(count: int) -> None:
    x, y = faces(30, 4)
    predicted = PROTOCOLS["lmdis"].fit(x[:count], y[:count]).predict(x)
    np.testing.assert_allclose(predicted, np.broadcast_to(y[:count].mean(0), y.shape), atol=1e-3)


def test_labels_that_all_look_alike_give_their_mean() -> None:
    x, y = faces(6, 4)
    predicted = PROTOCOLS["lmdis"].fit(np.repeat(x[:1], 6, axis=0), y).predict(x)
    np.testing.assert_allclose(predicted, np.broadcast_to(y.mean(0), y.shape), atol=1e-12)


def test_the_regulariser_is_the_best_when_each_label_is_left_out_in_turn() -> None:
    x, y = (one.reshape(7, -1) for one in faces(7, 5))
    largest = np.linalg.svd(x - x.mean(0))[1][0] ** 2

    def left_out(alpha: float) -> float:
        errors = []
        for out in range(7):
            kept = np.arange(7) != out
            model = Ridge(alpha=alpha, solver="svd").fit(x[kept], y[kept])
            errors.append(np.square(model.predict(x[out : out + 1]) - y[out]).mean())
        return float(np.mean(errors))

    best = min(STRENGTHS * largest, key=left_out)
    expected = Ridge(alpha=best, solver="svd").fit(x, y)
    np.testing.assert_allclose(fit_few(x, y).predict(x.reshape(7, 4, 2)).reshape(7, 10), expected.predict(x))


@pytest.mark.parametrize("count", [1, 3, 5, 10, 15, 19])
@pytest.mark.parametrize("useful", [True, False])
def test_few_labels_are_never_far_worse_than_their_mean_shape(count: int, useful: bool) -> None:
    """Also where discovered landmarks say nothing of the annotated ones."""
    random = np.random.default_rng(6)
    test_x, test_y = faces(200, 7)
    if not useful:
        test_x = random.uniform(0, 1, (200, 10, 2))
    errors, baseline = [], []
    for draw in range(20):
        x, y = faces(count, 100 + draw)
        if not useful:
            x = random.uniform(0, 1, (count, 10, 2))
        else:
            x = np.concatenate((x, x, x[:, :2] ** 2), axis=1)
        given = np.concatenate((test_x, test_x, test_x[:, :2] ** 2), axis=1) if useful else test_x
        fitted = PROTOCOLS["lmdis"].fit(x, y)
        assert fitted.kind == FEW
        errors.append(mean_error(normalised_errors(fitted.predict(given), test_y, (0, 1))))
        mean = np.broadcast_to(y.mean(0), test_y.shape)
        baseline.append(mean_error(normalised_errors(mean, test_y, (0, 1))))
    assert np.mean(errors) < 1.1 * np.mean(baseline)
    if useful and count >= 5:
        assert np.mean(errors) < 0.8 * np.mean(baseline)


def test_a_draw_of_labels_can_ask_for_more_of_them() -> None:
    x, y = faces(100, 3)
    for count, kind in ((79, FEW), (80, LEAST_SQUARES)):
        assert PROTOCOLS["lmdis"].fit(x[:count], y[:count], enough=10).kind == kind
