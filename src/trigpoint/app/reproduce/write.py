"""A result as JSON, as Markdown and as a picture: OUT/result.json, result.md, figure.png."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from trigpoint.app.reproduce import figures
from trigpoint.app.reproduce.experiments import Experiment
from trigpoint.app.reproduce.runner import Measured, Settings, differences, splits
from trigpoint.core.files.overlay import write_image
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.io import write_atomically


def write(
    experiment: Experiment, settings: Settings, rows: Sequence[Measured], references: Sequence[dict[str, Any]]
) -> str:
    """Write everything; returns the Markdown."""
    settings.out.mkdir(parents=True, exist_ok=True)
    result = {
        "experiment": experiment.name,
        "where": experiment.where,
        "title": experiment.title,
        "source": settings.source,
        "compact": settings.compact,
        "rows": [
            {
                "label": one.row.label,
                "paper": one.row.paper,
                "measured": one.value,
                "run": str(one.run.folder),
                "warp_error": one.run.summary()["warp_error"],
                "details": one.details,
            }
            for one in rows
        ],
        "references": list(references),
        "quoted": [{"label": label, "paper": value} for label, value in experiment.quoted],
        "differences": differences(experiment, settings, rows),
    }
    figure(experiment, settings, rows)
    text = markdown(experiment, settings, rows, references, result["differences"])  # type: ignore[arg-type]
    write_atomically(settings.out / "result.json", (json.dumps(result, indent=2) + "\n").encode())
    write_atomically(settings.out / "result.md", text.encode())
    return text


def command(experiment: Experiment, settings: Settings) -> str:
    words = ["trigpoint", "reproduce", experiment.name, "--source", settings.source]
    words += ["--compact"] if settings.compact else []
    words += ["--row", *settings.rows] if settings.rows else []
    words += ["--steps", str(settings.steps)] if settings.steps is not None else []
    words += ["--set", *settings.values] if settings.values else []
    words += ["--seed", str(settings.seed)] if settings.seed else []
    return shlex.join(words)


def markdown(
    experiment: Experiment,
    settings: Settings,
    rows: Sequence[Measured],
    references: Sequence[dict[str, Any]],
    differ: Sequence[str],
) -> str:
    parts = [f"# {experiment.where}: {experiment.title}\n", f"    {command(experiment, settings)}\n"]
    if experiment.kind == "attributes":
        parts.append(attribute_table(rows[0].details))
        parts += quoted(experiment)
    elif experiment.kind in ("regression", "labels"):
        unit = rows[0].details["unit"]
        parts.append(f"Errors in % of the {unit}; mean distance over landmarks.\n")
        lines = ["| | paper | here | mean shape | protocol, labels, test images |", "|---|---|---|---|---|"]
        for one in rows:
            details = one.details
            printed = "-" if one.row.paper is None else f"{one.row.paper:.2f}"
            lines.append(
                f"| {one.row.label} | {printed} | **{one.value:.2f}** | "
                f"{details['baseline_mean_shape_percent']:.2f} | {details['protocol']}, "
                f"{details['labels']:,}, {details['test_images']:,} |"
            )
        random = rows[0].details.get("baseline_untrained_percent")
        if random is not None:
            lines.append(f"| untrained network | - | {random:.2f} | | as the first row |")
        for reference in references:
            found = ""
            if reference["found"]:
                where = reference["where_found_percent"]
                found = f" ({where:.2f} on the {reference['found']:,} faces its detector finds)"
            lines.append(
                f"| {reference['label']} | - | {reference['error_percent']:.2f}{found} | | "
                f"{reference['protocol']}, {reference['labels']:,}, {reference['test_images']:,} |"
            )
        parts.append("\n".join(lines) + "\n")
        if experiment.kind == "labels":
            parts.append(label_table(rows))
        parts += quoted(experiment)
    else:
        names = ", ".join(f"{one.row.label} (`{one.run.folder.name}`)" for one in rows)
        parts.append(f"Models: {names}. Images shown were kept out of training.\n")
    parts.append("![figure](figure.png)\n")
    parts.append("What differs from the paper:\n\n" + "\n".join(f"- {line}" for line in differ) + "\n")
    return "\n".join(parts)


def quoted(experiment: Experiment) -> list[str]:
    if not experiment.quoted:
        return []
    lines = ["Quoted from the paper, not measured here:\n", "| | paper |", "|---|---|"]
    lines += [f"| {label} | {value:.2f} |" for label, value in experiment.quoted]
    return ["\n".join(lines) + "\n"]


def label_table(rows: Sequence[Measured]) -> str:
    labels = [entry["labels"] for entry in rows[0].details["by_labels"]]
    lines = ["| labels | " + " | ".join(one.row.label for one in rows) + " |", "|---" * (len(rows) + 1) + "|"]
    for i, count in enumerate(labels):
        entries = [one.details["by_labels"][i] for one in rows]
        cells = " | ".join(f"{entry['error_percent']:.2f} ± {entry['std']:.2f}" for entry in entries)
        lines.append(f"| {count:,} | {cells} |")
    return "\n".join(lines) + "\n"


def attribute_table(result: dict[str, Any]) -> str:
    kinds = ["majority", *result["features"]]
    lines = ["| accuracy in % | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    for row in [*result["rows"], {"attribute": "average", **result["average"]}]:
        lines.append(f"| {row['attribute']} | " + " | ".join(f"{row[kind]:.1f}" for kind in kinds) + " |")
    note = (
        f"\n{result['classifier']}; K = {result['landmarks']}; fitted on {result['train_images']:,} images, "
        f"measured on {result['test_images']:,}."
    )
    return "\n".join(lines) + "\n" + note + "\n"


def figure(experiment: Experiment, settings: Settings, rows: Sequence[Measured]) -> None:
    path = settings.out / "figure.png"
    if experiment.kind == "attributes":
        figures.bars(rows[0].details, path)
    elif experiment.kind == "labels":
        from trigpoint.learning.evaluation.picture import few_labels_plot

        first = rows[0].details
        shape = first["baseline_mean_shape_percent"]
        few_labels_plot(
            first["by_labels"], first["error_percent"], shape, path, first["unit"], rows[0].row.label
        )
    elif experiment.kind == "evolution":
        write_image(path, figures.evolution(rows[0].run))
    elif experiment.kind == "morph":
        write_image(path, figures.morphs(rows[0].run))
    elif experiment.kind == "gallery" and experiment.name != "prediction-errors":
        write_image(path, figures.gallery([one.run for one in rows]))
    else:
        from trigpoint.learning.evaluation.picture import prediction_picture

        prediction_picture(Predictor.load(rows[0].run.folder), *splits(rows[0].row, settings), path)
