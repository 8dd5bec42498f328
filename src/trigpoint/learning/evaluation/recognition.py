"""The experiment of section 4.3 from end to end: a model, a source with attributes, a table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.sources import Attributes, Subset, open_source
from trigpoint.learning.evaluation.attributes import Features, accuracies, attributes_of
from trigpoint.learning.evaluation.discover import discover
from trigpoint.learning.evaluation.embedding import brought, embedding


def recognise(
    predictor: Predictor,
    model_name: str,
    words: str,
    kinds: Sequence[str],
    own: tuple[Path, Path] | None = None,
    cache: Path | None = None,
    labels: int | None = None,
) -> dict[str, Any]:
    """Accuracies by attribute and kind of feature (landmarks, embedding, both).

    `labels`: fitted on so many images spread over the labelled ones; None: on all.
    """
    started = time.monotonic()
    tables: dict[str, list[Features]] = {kind: [] for kind in kinds}
    classes = []
    for number, split in enumerate(("labels", "test")):
        whole = open_source(words, split)  # type: ignore[arg-type]
        count = len(whole) if split == "test" or labels is None else min(labels, len(whole))
        rows = np.linspace(0, len(whole) - 1, count).astype(np.int64)
        source = Subset(whole, rows.tolist())
        known = attributes_of(source)
        found = discover(predictor, source, "landmarks")
        classes.append(Attributes(known.names, known.values[found.indices]))
        flat = found.points.reshape(len(found.points), -1)
        features = {"landmarks": flat}
        if set(kinds) - {"landmarks"}:
            if own:
                table = brought(own[number], len(whole))[rows]
            else:
                table = embedding((words,), split, cache, rows=rows)  # type: ignore[arg-type]
            features["embedding"] = np.asarray(table[found.indices], np.float64)
            features["both"] = np.concatenate((flat, features["embedding"]), axis=1)
        for kind in kinds:
            tables[kind].append(features[kind])
    found_rows = accuracies(
        {kind: (fit, check) for kind, (fit, check) in tables.items()}, classes[0], classes[1]
    )
    return {
        "source": source.description,
        "model": model_name,
        "landmarks": predictor.landmarks,
        "classifier": "linear SVM, standardised features, C by 5-fold cross-validation",
        "features": {kind: tables[kind][0].shape[1] for kind in kinds},
        "embedding": None if not set(kinds) - {"landmarks"} else "brought" if own else "dlib, 128 numbers",
        "train_images": len(classes[0].values),
        "test_images": len(classes[1].values),
        "rows": found_rows,
        "average": {
            kind: round(float(np.mean([row[kind] for row in found_rows])), 2) for kind in ("majority", *kinds)
        },
        "seconds": round(time.monotonic() - started, 1),
    }
