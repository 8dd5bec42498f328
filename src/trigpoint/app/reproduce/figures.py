"""The pictures of an experiment. Every function returns what it drew as (H, W, 3) bytes, or writes a PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.app.report.overview import TILE, enlarged, marked
from trigpoint.app.report.page import EVOLUTION_ROWS, choose_pairs, morph
from trigpoint.app.report.pictures import map_picture
from trigpoint.core.files.overlay import contact_sheet
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.runs import Run

COLUMNS, ROWS = 10, 4

Bytes = NDArray[np.uint8]


def held_out(run: Run) -> Bytes:
    """Images that the run kept out of its training."""
    return run.samples()


def gallery(runs: Sequence[Run]) -> Bytes:
    """Held-out images with their landmarks: several rows of one model, or one row for each of many."""
    rows = ROWS if len(runs) == 1 else 1
    tiles = []
    for run in runs:
        pixels = held_out(run)[: rows * COLUMNS]
        points = Predictor.load(run.folder).backend.detect_once(pixels)
        made = [marked(image, point) for image, point in zip(pixels, points, strict=True)]
        blank = np.full((TILE, TILE, 3), 255, np.uint8)
        tiles += made + [blank] * (-len(made) % COLUMNS)
    return contact_sheet(tiles, COLUMNS)


def evolution(run: Run) -> Bytes:
    """Detection maps of a few images (rows) at stages of training (columns), the input first."""
    model = run.config().model
    margin = (model.padded_size - model.image_size) // 2
    frame = ((margin, margin), (margin, margin), (0, 0))
    columns = [[enlarged(np.pad(one, frame, mode="edge")) for one in held_out(run)[:EVOLUTION_ROWS]]]
    for _, file in run.stages(".npz"):
        columns.append([enlarged(map_picture(one)) for one in run.maps(file)[:EVOLUTION_ROWS]])
    tiles = [column[row] for row in range(len(columns[0])) for column in columns]
    return contact_sheet(tiles, len(columns))


def morphs(run: Run) -> Bytes:
    """One image becomes another: input, decoded images on the way (landmarks drawn), the other input."""
    predictor, pixels = Predictor.load(run.folder), held_out(run)
    points, descriptors = predictor.backend.encode(pixels)
    decoded = predictor.backend.decode(points, descriptors)
    tiles = []
    for pair in choose_pairs(pixels, points, decoded):
        frames, path = morph(predictor, pair, points, descriptors)
        tiles.append(enlarged(pixels[pair[0]]))
        for i in np.linspace(0, len(frames) - 1, COLUMNS - 2).astype(int):
            tiles.append(marked(frames[i], path[i]))
        tiles.append(enlarged(pixels[pair[1]]))
    return contact_sheet(tiles, COLUMNS)


def bars(result: dict[str, Any], path: Path) -> None:
    """Accuracy by attribute: majority class, and an SVM on each kind of feature."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    kinds = ["majority", *result["features"]]
    rows = [*result["rows"], {"attribute": "average", **result["average"]}]
    figure = Figure(figsize=(1.5 + 1.3 * len(rows), 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    places, width = np.arange(len(rows)), 0.8 / len(kinds)
    for i, kind in enumerate(kinds):
        colour = ("#bbbbbb", "#e07a3f", "#4477aa", "#228833")[i]
        drawn = axes.bar(places + (i - (len(kinds) - 1) / 2) * width, [row[kind] for row in rows], width,
                         label=kind, color=colour)  # fmt: skip
        axes.bar_label(drawn, fmt="%.0f", fontsize=7, padding=1)
    axes.set_xticks(places, [row["attribute"] for row in rows])
    axes.set_ylabel("accuracy in %")
    axes.set_ylim(max(0.0, min(row[kind] for row in rows for kind in kinds) - 15), 102)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=len(kinds), loc="upper center", bbox_to_anchor=(0.5, 1.15))
    figure.savefig(path, dpi=150)
