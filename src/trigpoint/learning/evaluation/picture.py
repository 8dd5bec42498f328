"""The evaluation to look at: predictions on test images (the paper's figure), and error against labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.palette import colours, hexadecimal
from trigpoint.core.sources.base import Source
from trigpoint.core.sources.images import to_channels
from trigpoint.learning.data.prepared import square
from trigpoint.learning.evaluation.evaluate import annotated, collect, task_of, unit_of
from trigpoint.learning.evaluation.protocols import FEW, LinearMap, Points, reference_distance

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TILE = 320  # pixels of a crop before it is drawn
COLUMNS = 6
WORST = 20  # per cent of the unit at the colour bar's end
UNKNOWN = (0.5, 0.5, 0.5, 1.0)  # a prediction without annotation
INK, FAINT, BLUE, RED = "#1d2733", "#6b7680", "#1769aa", "#ff1f2d"


@dataclass(frozen=True)
class Prediction:
    """One test image. Landmarks are in unit coordinates."""

    crop: NDArray[np.uint8]  # (TILE, TILE, C)
    discovered: Points  # (K, 2)
    annotated: Points  # (L, 2), NaN where missing; of bodies the side that the errors are measured against
    regressed: Points  # (L, 2)
    errors: Points  # (L,) per cent of the unit; NaN where that is unknown


def predictions(
    predictor: Predictor, regressor: LinearMap, test: Source, count: int = 12
) -> list[Prediction]:
    """Images spread evenly over the annotated ones of a source; none is picked by its error."""
    annotations, task = annotated(test), task_of(test, "lmdis")
    known = np.flatnonzero(np.isfinite(annotations.points).all(2).sum(1))
    chosen = []
    for part in np.array_split(known, min(count, len(known)) or 1):
        for index in part:  # the first of each part that can be read
            try:
                crop, place = square(test, int(index), predictor.config, TILE)
                small, _ = square(test, int(index), predictor.config)
            except UnreadableImage:
                continue
            discovered = place.to_unit(predictor.detect_prepared(small[None], [place])[0].points)
            target = place.to_unit(annotations.points[index])[None]
            regressed = regressor.predict(discovered[None])
            unit = reference_distance(target, annotations.reference)
            target = task.targets(regressed, target)
            errors = 100 * np.linalg.norm(regressed - target, axis=-1)[0] / unit
            chosen.append(Prediction(crop, discovered, target[0], regressed[0], errors))
            break
    if not chosen:
        raise TrigpointError(f"{test.description} has no annotated image that could be drawn.")
    return chosen


def prediction_picture(
    predictor: Predictor,
    train: Source,
    test: Source,
    path: Path,
    regressor: LinearMap | None = None,
    count: int = 12,
) -> None:
    """The paper's figure for some test images; without a regressor, `lmdis` is fitted on `train`."""
    if regressor is None:
        regressor, _ = task_of(test, "lmdis").fit(collect(predictor, train, "fitting on"))
    shown = predictions(predictor, regressor, test, count)
    draw_predictions(shown, unit_of(annotated(test)), path)


def draw_predictions(shown: Sequence[Prediction], unit: str, path: Path) -> None:
    """A PNG. Coloured crosses: discovered; red dots: annotated; circles: regressed, coloured by error."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    columns = min(COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    edge, gap, side, foot = 2.0, 0.06, 0.85, 0.45  # inches
    width, height = max(columns * (edge + gap) + gap + side, 5.2), rows * (edge + gap) + gap + foot
    figure = _figure(width, height)
    scale = ScalarMappable(Normalize(0, WORST), "plasma")
    for number, one in enumerate(shown):
        row, column = divmod(number, columns)
        left, top = gap + column * (edge + gap), gap + row * (edge + gap)
        axes = figure.add_axes((left / width, 1 - (top + edge) / height, edge / width, edge / height))
        shades = np.where(np.isfinite(one.errors)[:, None], scale.to_rgba(one.errors), UNKNOWN)
        _draw(axes, one, shades)
    left = columns * (edge + gap) + gap + 0.08
    bar = figure.add_axes((left / width, (foot + gap) / height, 0.12 / width, 1 - (foot + 2 * gap) / height))
    figure.colorbar(scale, cax=bar, extend="max").set_label(f"error, % of the {unit}", color=INK, size=8)
    bar.tick_params(labelsize=8, colors=INK, length=2)
    _legend(figure, len(shown[0].discovered))
    _save(figure, path)


def few_labels_plot(
    by_labels: Sequence[Mapping[str, Any]],
    all_error: float,
    mean_shape: float,
    path: Path,
    unit: str = "reference distance",
    title: str = "",
) -> None:
    """Error against the number of labels as a PNG: mean and standard deviation over draws, log axis."""
    if not by_labels:
        raise TrigpointError("The plot of few labels needs numbers of labels, such as 1, 5, 10 and 50.")
    rows = sorted(by_labels, key=lambda row: row["labels"])
    labels = np.array([row["labels"] for row in rows])
    error, spread = (np.array([row[key] for row in rows], float) for key in ("error_percent", "std"))
    few = np.array([row["regressor"] == FEW for row in rows])
    figure = _figure(6.4, 4.0)
    axes = figure.add_axes((0.105, 0.14, 0.865, 0.75))
    axes.set_xscale("log")
    # Just above as many labels as unknowns least squares can be wild: such points are named at the top.
    top = min(1.15 * max(float((error + spread).max()), mean_shape, all_error), 2 * mean_shape)
    wild = error > top
    line = np.where(wild, np.nan, error)
    axes.fill_between(labels, line - spread, line + spread, color=BLUE, alpha=0.16, linewidth=0)
    axes.plot(labels, line, color=BLUE, linewidth=1.8, zorder=3)
    if not few.all():
        kind = next(str(row["regressor"]) for row in rows if row["regressor"] != FEW)
        axes.plot(labels[~few], line[~few], "o", color=BLUE, markersize=5.5, zorder=4, label=kind)
    if few.any():
        axes.plot(
            labels[few], line[few], "o", markersize=5.5, markerfacecolor="white", markeredgecolor=BLUE,
            markeredgewidth=1.5, zorder=4, label="ridge: few labels",
        )  # fmt: skip
    for count, level in zip(labels[wild], error[wild], strict=True):
        axes.plot([count], [0.95 * top], "^", color=BLUE, markersize=6.5)
        axes.annotate(
            f"{level:,.0f} %", (count, 0.95 * top), (0, -12), textcoords="offset points",
            ha="center", color=BLUE, size=8,
        )  # fmt: skip
    for level, text, above in ((mean_shape, "mean shape", True), (all_error, "all labels", False)):
        axes.axhline(level, color=FAINT, linewidth=1, linestyle=(0, (5, 3)), zorder=1)
        axes.annotate(
            f"{text} {level:.1f} %", (0.995, level), (0, 3 if above else -4), color=FAINT, size=8,
            xycoords=("axes fraction", "data"), textcoords="offset points",
            ha="right", va="bottom" if above else "top",
        )  # fmt: skip
    axes.set_xticks(labels, [f"{label:,}" for label in labels], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_ylim(0, top)
    axes.set_xlabel("labelled images", color=INK, size=9)
    axes.set_ylabel(f"error, % of the {unit}", color=INK, size=9)
    axes.set_title(title, color=INK, size=10, loc="left")
    axes.tick_params(labelsize=8, colors=INK)
    axes.grid(axis="y", color="#e3e7ea", linewidth=0.8)
    axes.set_axisbelow(True)
    for spine in ("top", "right"):
        axes.spines[spine].set_visible(False)
    axes.legend(frameon=False, fontsize=8, labelcolor=INK, loc="lower left")
    _save(figure, path)


def _draw(axes: Axes, one: Prediction, shades: Any) -> None:
    from matplotlib.patheffects import withStroke

    def halo(width: float, colour: str) -> list[Any]:
        return [withStroke(linewidth=width, foreground=colour)]

    axes.imshow(to_channels(one.crop, 3), extent=(0, 1, 1, 0), interpolation="bilinear")
    pairs = np.stack((one.annotated, one.regressed))  # (2, L, 2)
    axes.plot(pairs[..., 0], pairs[..., 1], color="white", linewidth=0.8, alpha=0.85)
    palette = [hexadecimal(colour) for colour in colours(len(one.discovered))]
    axes.scatter(
        one.discovered[:, 0],
        one.discovered[:, 1],
        s=26,
        c=palette,
        marker="x",
        linewidths=1.4,
        path_effects=halo(2.8, "#000000a0"),
    )
    axes.scatter(
        one.regressed[:, 0],
        one.regressed[:, 1],
        s=58,
        facecolors="none",
        edgecolors=shades,
        linewidths=1.7,
        path_effects=[*halo(4.1, "#00000080"), *halo(3.1, "white")],
    )
    axes.scatter(
        one.annotated[:, 0], one.annotated[:, 1], s=13, c=RED, edgecolors="white", linewidths=0.6, zorder=3
    )
    axes.set(xlim=(0, 1), ylim=(1, 0), xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set_visible(False)


def _legend(figure: Figure, landmarks: int) -> None:
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D

    def mark(shape: str, **look: Any) -> Line2D:
        return Line2D([], [], linestyle="none", marker=shape, **look)

    crosses = tuple(
        mark("x", color=hexadecimal(colour), markersize=5, markeredgewidth=1.4)
        for colour in colours(min(landmarks, 3))
    )
    handles: list[Any] = [
        crosses,
        mark("o", color=RED, markersize=4),
        mark("o", color="#b5318a", markerfacecolor="none", markersize=7, markeredgewidth=1.7),
    ]
    figure.legend(
        handles,
        ["discovered", "annotated", "regressed, coloured by error"],
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0.5)},
        loc="lower left", bbox_to_anchor=(0, 0), ncols=3, frameon=False, fontsize=9, labelcolor=INK,
        handlelength=1.6, columnspacing=2.2,
    )  # fmt: skip


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure  # without pyplot: no display, no global state

    return Figure(figsize=(width, height), dpi=160, facecolor="white")


def _save(figure: Figure, path: Path) -> None:
    if path.suffix.lower() != ".png":
        raise TrigpointError(f"Cannot write {path}: its name must end in .png.")
    figure.savefig(path, format="png")
