"""Visual attributes from landmark coordinates (section 4.3): a linear SVM per attribute.

The paper trains one on the landmarks, one on a pretrained network's features, and one on both together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.sources.base import Attributes, Source

PENALTIES = (0.001, 0.01, 0.1, 1.0)  # C of the SVM, chosen by cross-validation on the training images
FOLDS = 5

Features = NDArray[np.float64]


def attributes_of(source: Source) -> Attributes:
    if source.attributes is None:
        raise TrigpointError(f"{source.description} has no annotated attributes.")
    return source.attributes


def accuracies(
    features: Mapping[str, tuple[Features, Features]], train: Attributes, test: Attributes, seed: int = 0
) -> list[dict[str, Any]]:
    """One row per attribute: accuracy in % of the majority class and of an SVM on each kind of feature.

    `features` has (training, testing) tables by name; images of unknown class are left out.
    """
    rows = []
    for column, name in enumerate(train.names):
        fit, check = train.values[:, column] >= 0, test.values[:, column] >= 0
        classes, counts = np.unique(train.values[fit, column], return_counts=True)
        if len(classes) < 2 or counts.min() < FOLDS:
            raise TrigpointError(f"The attribute {name!r} needs two classes of at least {FOLDS} images each.")
        targets, truth = train.values[fit, column], test.values[check, column]
        row: dict[str, Any] = {
            "attribute": name,
            "train_images": int(fit.sum()),
            "test_images": int(check.sum()),
            "majority": percent(truth == classes[counts.argmax()]),
        }
        for kind, (inputs, tests) in features.items():
            predicted = svm(inputs[fit], targets, seed).predict(tests[check])
            row[kind] = percent(predicted == truth)
        rows.append(row)
    return rows


def svm(inputs: Features, targets: NDArray[np.int64], seed: int) -> Any:
    """A linear SVM on features of zero mean and unit variance, its penalty chosen by cross-validation."""
    from sklearn.model_selection import GridSearchCV, StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    steps = make_pipeline(StandardScaler(), LinearSVC(dual=False, random_state=seed))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    search = GridSearchCV(steps, {"linearsvc__C": PENALTIES}, cv=folds)
    return search.fit(inputs, targets)


def percent(right: NDArray[np.bool_]) -> float:
    return round(100 * float(right.mean()), 2)
