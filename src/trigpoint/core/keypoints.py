"""From discovered landmarks to named keypoints: a linear map for each, fitted on a few labelled images.

Landmarks and keypoints are in unit coordinates of the crop the model looks at, so the map holds wherever the
crop goes. Its error is measured by cross-validation, in pixels of the original images.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import Placement
from trigpoint.core.io import printable, regular, write_atomically
from trigpoint.core.landmarks import Landmarks

Array = NDArray[np.float64]
STRENGTHS = 10.0 ** np.arange(-6, 2.1, 0.5)  # of the ridge; chosen for each keypoint by leaving one image out
FOLDS = 10
LONGEST = 64  # characters of a name
FEWEST = 3  # images on which a keypoint must be labelled


@dataclass(frozen=True)
class KeypointMap:
    """Keypoint l is `weights[l] @ (landmarks, 1)`."""

    names: tuple[str, ...]
    weights: Array  # (L, 2, 2K + 1)
    measured: dict[str, Any]  # what `fit_keypoints` found: errors in pixels, images, folds

    @property
    def landmarks(self) -> int:
        return (self.weights.shape[2] - 1) // 2

    def __call__(self, landmarks: Array) -> Array:
        """(n, K, 2) -> (n, L, 2), both in unit coordinates."""
        flat = landmarks.reshape(len(landmarks), -1)
        inputs = np.concatenate((flat, np.ones((len(flat), 1))), axis=1)
        return np.einsum("lci,ni->nlc", self.weights, inputs)

    def of(self, found: Sequence[Landmarks], places: Sequence[Placement]) -> list[Landmarks]:
        """Keypoints in pixels of the images, from landmarks in pixels and where each was looked for.

        A keypoint is as sure as the landmarks it is computed from are on the whole.
        """
        if not found:
            return []
        unit = np.stack([place.to_unit(one.points) for one, place in zip(found, places, strict=True)])
        return [
            Landmarks(place.to_original(points), np.full(len(self.names), one.confidence.mean()))
            for one, place, points in zip(found, places, self(unit), strict=True)
        ]

    def save(self, path: Path) -> None:
        content = {"names": self.names, "weights": self.weights.tolist(), "measured": self.measured}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(content, indent=1).encode())

    @classmethod
    def load(cls, path: Path) -> KeypointMap:
        try:
            content = json.loads(regular(path).read_text())
            weights = np.array(content["weights"], np.float64)
            found = cls(tuple(content["names"]), weights, dict(content["measured"]))
            whole = (
                weights.ndim == 3
                and weights.shape[:2] == (len(found.names), 2)
                and weights.shape[2] % 2
                and np.isfinite(weights).all()
            )
        except FileNotFoundError:
            raise TrigpointError(f"There is no file {path}; `trigpoint fit` makes one.") from None
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            reason = str(error)[:100]
            raise TrigpointError(f"{path} is not a keypoints file of `trigpoint fit` ({reason}).") from None
        if not whole:
            raise TrigpointError(
                f"{path} is damaged: its weights do not fit its {len(found.names)} keypoints."
            )
        check_names(found.names, f"the keypoints of {path}")
        return found


def check_names(names: Sequence[object], what: str) -> None:
    """Of landmarks or keypoints. They become columns of tables and words on the terminal."""
    for name in names:
        if not isinstance(name, str) or not name.strip() or len(name) > LONGEST or printable(name) != name:
            raise TrigpointError(
                f"Names of {what} have 1 to {LONGEST} printable characters; got {str(name)[: LONGEST + 1]!r}."
            )
    if len(set(names)) < len(names):
        double = next(name for name in names if list(names).count(name) > 1)
        raise TrigpointError(f"Two of {what} would be called {double!r}; names must differ.")


def fit_keypoints(
    landmarks: Array,
    keypoints: Array,
    names: Sequence[str],
    to_pixels: Array,
    groups: Sequence[str] | None = None,
) -> KeypointMap:
    """Fit landmarks (n, K, 2) to keypoints (n, L, 2), NaN where not labelled; both in unit coordinates.

    `to_pixels` (n, 2) are the sides of each image's crop in pixels of the original. No `group` (a video, a
    folder) is in the training and in the test part of a fold; without groups single images are left out.
    """
    check_names(names, "the keypoints")
    flat = landmarks.reshape(len(landmarks), -1)
    folds = fold_numbers(len(flat), groups)
    known = np.asarray(np.isfinite(keypoints).all(-1))  # (n, L)
    weights, errors, baselines = [], np.full(known.shape, np.nan), np.full(known.shape, np.nan)
    for part, name in enumerate(names):
        rows = known[:, part]
        if rows.sum() < FEWEST:
            raise TrigpointError(f"{name} is labelled on {rows.sum()} images; at least {FEWEST} are needed.")
        target = keypoints[:, part]
        for fold in np.unique(folds[rows]):
            test, rest = rows & (folds == fold), rows & (folds != fold)
            if rest.sum() < FEWEST:
                continue
            predicted = apply(ridge(flat[rest], target[rest]), flat[test])
            errors[test, part] = np.linalg.norm((predicted - target[test]) * to_pixels[test], axis=-1)
            still = target[rest].mean(0)
            baselines[test, part] = np.linalg.norm((still - target[test]) * to_pixels[test], axis=-1)
        weights.append(ridge(flat[rows], target[rows]))
    measured = {
        "images": len(flat),
        "labels": {name: int(count) for name, count in zip(names, known.sum(0), strict=True)},
        "folds": int(folds.max()) + 1,
        "groups": len(set(groups)) if groups else 0,
        "error_pixels": rounded(errors),
        "mean_shape_pixels": rounded(baselines),
        "per_keypoint_pixels": {name: rounded(errors[:, part]) for part, name in enumerate(names)},
    }
    return KeypointMap(tuple(names), np.array(weights), measured)


def fold_numbers(count: int, groups: Sequence[str] | None) -> NDArray[np.int64]:
    """The fold of each image: groups whole and spread over at most ten folds, the largest first."""
    labels = np.array(groups if groups and len(set(groups)) > 1 else [str(index) for index in range(count)])
    order, sizes = np.unique(labels, return_counts=True)
    loads = np.zeros(min(FOLDS, len(order)), np.int64)
    fold_of: dict[str, int] = {}
    for place in np.argsort(-sizes, kind="stable"):
        lightest = int(np.argmin(loads))
        fold_of[str(order[place])] = lightest
        loads[lightest] += sizes[place]
    return np.array([fold_of[str(label)] for label in labels], np.int64)


def ridge(inputs: Array, targets: Array) -> Array:
    """Weights and bias (2, 2K + 1) of a ridge regression, its strength chosen by leaving one image out."""
    from sklearn.linear_model import RidgeCV

    model = RidgeCV(alphas=STRENGTHS).fit(inputs, targets)
    return np.column_stack((model.coef_, model.intercept_))


def apply(weights: Array, inputs: Array) -> Array:
    return inputs @ weights[:, :-1].T + weights[:, -1]


def rounded(errors: Array) -> float | None:
    """The mean of those that were measured; None where none was."""
    measured = errors[np.isfinite(errors)]
    return round(float(measured.mean()), 2) if len(measured) else None
