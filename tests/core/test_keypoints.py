"""Named keypoints from discovered landmarks, against ridge regression written out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.keypoints import FOLDS, STRENGTHS, KeypointMap, fit_keypoints, fold_numbers, ridge

Array = NDArray[np.float64]


def problem(images: int = 24, landmarks: int = 3, noise: float = 0.01) -> tuple[Array, Array]:
    """Landmarks, and two keypoints that are nearly linear in them."""
    random = np.random.default_rng(0)
    points = random.uniform(0.2, 0.8, (images, landmarks, 2))
    weights = random.normal(0, 0.4, (2, 2, 2 * landmarks))
    keypoints = np.einsum("lci,ni->nlc", weights, points.reshape(images, -1)) + np.array([0.1, 0.3])
    return points, keypoints + random.normal(0, noise, keypoints.shape)


def written_out(inputs: Array, targets: Array, strength: float) -> Array:
    """Weights and bias (2, 2K + 1): the normal equations of centred data, the bias not shrunk."""
    middle, aim = inputs.mean(0), targets.mean(0)
    centred = inputs - middle
    weights = np.linalg.solve(
        centred.T @ centred + strength * np.eye(inputs.shape[1]), centred.T @ (targets - aim)
    ).T
    return np.column_stack((weights, aim - weights @ middle))


def chosen(inputs: Array, targets: Array) -> Array:
    """The strength that is best on images left out one by one, each time fitted anew."""
    losses = []
    for strength in STRENGTHS:
        gaps = []
        for left in range(len(inputs)):
            rest = np.arange(len(inputs)) != left
            weights = written_out(inputs[rest], targets[rest], strength)
            gaps.append(targets[left] - (weights[:, :-1] @ inputs[left] + weights[:, -1]))
        losses.append(np.square(gaps).mean())
    return written_out(inputs, targets, STRENGTHS[int(np.argmin(losses))])


@pytest.mark.parametrize("noise", [0.001, 0.05, 0.5])
def test_the_ridge_is_the_normal_equations_with_the_best_strength(noise: float) -> None:
    points, keypoints = problem(16, noise=noise)
    flat = points.reshape(16, -1)
    np.testing.assert_allclose(ridge(flat, keypoints[:, 0]), chosen(flat, keypoints[:, 0]), atol=1e-6)


def test_more_landmarks_than_images_do_no_harm() -> None:
    points, keypoints = problem(6, landmarks=10)
    flat = points.reshape(6, -1)
    np.testing.assert_allclose(ridge(flat, keypoints[:, 0]), chosen(flat, keypoints[:, 0]), atol=1e-5)


def test_a_linear_relation_is_found() -> None:
    points, keypoints = problem(noise=0)
    fitted = fit_keypoints(points, keypoints, ("a", "b"), np.full((24, 2), 100.0))
    np.testing.assert_allclose(fitted(points), keypoints, atol=1e-4)
    assert fitted.measured["error_pixels"] < 0.05
    assert fitted.measured["mean_shape_pixels"] > 5
    assert fitted.names == ("a", "b")
    assert fitted.landmarks == 3


def test_the_error_is_that_of_images_left_out_in_pixels() -> None:
    """Everything again by hand: groups, missing labels, crops of several sizes."""
    points, keypoints = problem(noise=0.03)
    random = np.random.default_rng(3)
    keypoints[random.permutation(24)[:7], 1] = np.nan
    groups = [f"video {index % 5}" for index in range(24)]
    sides = random.uniform(50, 200, (24, 2))
    fitted = fit_keypoints(points, keypoints, ("a", "b"), sides, groups)
    flat = points.reshape(24, -1)
    errors, still = [], []
    for part in range(2):
        rows = np.flatnonzero(np.isfinite(keypoints[:, part, 0]))
        own, own_still = [], []
        for group in sorted(set(groups)):
            test = np.array([row for row in rows if groups[row] == group])
            rest = np.array([row for row in rows if groups[row] != group])
            weights = chosen(flat[rest], keypoints[rest, part])
            guess = flat[test] @ weights[:, :-1].T + weights[:, -1]
            own += np.hypot(*((guess - keypoints[test, part]) * sides[test]).T).tolist()
            gap = (keypoints[rest, part].mean(0) - keypoints[test, part]) * sides[test]
            own_still += np.hypot(*gap.T).tolist()
        name = "ab"[part]
        assert fitted.measured["per_keypoint_pixels"][name] == pytest.approx(np.mean(own), abs=0.0051)
        assert fitted.measured["labels"][name] == len(own)
        errors += own
        still += own_still
    assert fitted.measured["error_pixels"] == pytest.approx(np.mean(errors), abs=0.0051)
    assert fitted.measured["mean_shape_pixels"] == pytest.approx(np.mean(still), abs=0.0051)
    assert (fitted.measured["images"], fitted.measured["folds"], fitted.measured["groups"]) == (24, 5, 5)


def test_each_keypoint_is_fitted_on_the_images_that_have_it() -> None:
    points, keypoints = problem(noise=0.02)
    lacking = keypoints.copy()
    lacking[::2, 0] = np.nan
    lacking[1, 1, 0] = np.nan  # half a label is none
    fitted = fit_keypoints(points, lacking, ("a", "b"), np.ones((24, 2)))
    flat = points.reshape(24, -1)
    np.testing.assert_allclose(fitted.weights[0], chosen(flat[1::2], keypoints[1::2, 0]), atol=1e-6)
    rest = np.arange(24) != 1
    np.testing.assert_allclose(fitted.weights[1], chosen(flat[rest], keypoints[rest, 1]), atol=1e-6)
    assert fitted.measured["labels"] == {"a": 12, "b": 23}


def test_too_few_labels_are_refused_by_name() -> None:
    points, keypoints = problem()
    keypoints[2:, 1] = np.nan
    with pytest.raises(TrigpointError, match="tail is labelled on 2 images; at least 3 are needed"):
        fit_keypoints(points, keypoints, ("snout", "tail"), np.ones((24, 2)))


def test_so_few_that_none_can_be_left_out_give_a_map_without_an_error() -> None:
    points, keypoints = problem(3)
    measured = fit_keypoints(points, keypoints, ("a", "b"), np.ones((3, 2))).measured
    assert measured["error_pixels"] is None
    assert measured["mean_shape_pixels"] is None
    assert measured["per_keypoint_pixels"] == {"a": None, "b": None}


# Folds


@settings(deadline=None)
@given(st.lists(st.sampled_from("abcdefghijklmnopqrst"), min_size=1, max_size=80))
def test_no_group_is_in_two_folds(groups: list[str]) -> None:
    folds = fold_numbers(len(groups), groups)
    assert len(folds) == len(groups)
    kinds = set(groups)
    if len(kinds) == 1:  # nothing to tell apart: single images
        assert len(set(folds)) == min(FOLDS, len(groups))
        return
    assert {len({fold for fold, own in zip(folds, groups, strict=True) if own == one}) for one in kinds} == {
        1
    }
    loads = np.bincount(folds)
    assert len(loads) == min(FOLDS, len(kinds))
    assert loads.min() > 0
    assert loads.max() - loads.min() <= max(groups.count(one) for one in kinds)


@pytest.mark.parametrize("count", [3, 10, 57])
def test_without_groups_single_images_are_spread_evenly(count: int) -> None:
    loads = np.bincount(fold_numbers(count, None))
    assert len(loads) == min(FOLDS, count)
    assert loads.sum() == count
    assert np.ptp(loads) <= 1


# The file


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    points, keypoints = problem()
    path = tmp_path / "deep" / "keypoints.json"
    fit_keypoints(points, keypoints, ("snout", "tail, base"), np.ones((24, 2))).save(path)
    return path


def test_a_map_comes_back_as_it_was(saved: Path) -> None:
    points, keypoints = problem()
    fitted = fit_keypoints(points, keypoints, ("snout", "tail, base"), np.ones((24, 2)))
    loaded = KeypointMap.load(saved)
    assert loaded.names == fitted.names
    assert loaded.measured == fitted.measured
    np.testing.assert_array_equal(loaded.weights, fitted.weights)
    assert [path.name for path in saved.parent.iterdir()] == ["keypoints.json"]


@pytest.mark.parametrize(
    "change",
    [
        {"names": ["snout"]},
        {"names": []},
        {"weights": []},
        {"weights": [[1.0, 2.0], [3.0, 4.0]]},
        {"weights": [[[1.0, 2.0, 3.0]], [[1.0, 2.0, 3.0]]]},
        {"weights": [[[1.0, 2.0]] * 2] * 2},  # no bias
        {"weights": [[[[1.0]] * 3] * 2] * 2},
        {"weights": [[[1.0, float("nan"), 3.0]] * 2] * 2},
    ],
)
def test_a_map_that_does_not_fit_its_names_is_refused(saved: Path, change: dict[str, Any]) -> None:
    saved.write_text(json.dumps(json.loads(saved.read_text()) | change))
    with pytest.raises(TrigpointError, match=r"keypoints\.json is damaged: its weights do not fit its"):
        KeypointMap.load(saved)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"3",
        b"[1, 2]",
        b'{"names": ["a"]}',
        b'{"names": 3, "weights": [], "measured": {}}',
        b'{"names": ["a"], "weights": [[[1, 2, 3], [1, 2]]], "measured": {}}',
        b'{"names": ["a"], "weights": [[["x", 2, 3], [1, 2, 3]]], "measured": {}}',
        b'{"names": ["a"], "weights": [[[1' + b"0" * 400 + b", 2, 3], [1, 2, 3]]], " + b'"measured": {}}',
        b'{"names": ["a"], "weights": [[[1, 2, 3], [1, 2, 3]]], "measured": 3}',
        b"\xff\xfe\x00\x80",
        b"[" * 100_000,
    ],
)
def test_what_is_no_map_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(TrigpointError, match=r"a\.json is not a keypoints file of `trigpoint fit` \("):
        KeypointMap.load(tmp_path / "a.json")


def test_half_a_file_is_refused(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[: saved.stat().st_size // 2])
    with pytest.raises(TrigpointError, match="is not a keypoints file"):
        KeypointMap.load(saved)


def test_no_file_says_what_makes_one(tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match=r"There is no file .*; `trigpoint fit` makes one"):
        KeypointMap.load(tmp_path / "nothing.json")
    with pytest.raises(TrigpointError, match="Is a directory"):
        KeypointMap.load(tmp_path)


@pytest.mark.parametrize("name", ["", " ", 3, None, "a\x1b[2J", "a\u202eb", "a\ud800", 65 * "a"])
def test_names_that_cannot_be_shown_are_refused(saved: Path, name: object) -> None:
    content = json.loads(saved.read_text())
    saved.write_text(json.dumps(content | {"names": [name, *content["names"][1:]]}))
    with pytest.raises(TrigpointError, match="have 1 to 64 printable characters"):
        KeypointMap.load(saved)


def test_two_keypoints_of_one_name_are_refused(saved: Path) -> None:
    content = json.loads(saved.read_text())
    saved.write_text(json.dumps(content | {"names": content["names"][:1] * len(content["names"])}))
    with pytest.raises(TrigpointError, match="names must differ"):
        KeypointMap.load(saved)
