"""The report of a generator: samples over time, the two networks' balance, what was measured."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from string import Template
from typing import Any

from trigpoint.app.report import pictures, text
from trigpoint.app.report.markup import escaped, policy
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.generator_run import GeneratorRun
from trigpoint.core.io import write_atomically
from trigpoint.core.sources.images import read_image
from trigpoint.core.words import skipped_words


def headline(summary: dict[str, Any]) -> str:
    near, far = summary["cycle_distance"], summary["shuffled_distance"]
    words = (
        f"Landmarks on generated images lie within {near:.1%} of the image edge of where they were wanted "
        f"({far:.1%} from another image's)."
    )
    if summary["diversity"] is not None:
        words += f" Samples of one structure differ {summary['diversity']:.0%} as much as real images do."
    return words


def closing_words(run: GeneratorRun) -> str:
    summary = run.summary()
    lines = [
        headline(summary),
        f"Speed: {summary['images_per_second']:.0f} images/s; peak memory {text.memory(summary)}.",
        skipped_words(summary["skipped"]),
        f"Report: {run.report_file}",
        f"Next:   trigpoint generate sample {quote(str(run.folder))} --like IMAGE... --out made",
    ]
    return "\n".join(line for line in lines if line)


def write_report(run: GeneratorRun) -> Path:
    """(Re)write RUN/report.html from the run's own files."""
    if not run.finished:
        raise TrigpointError(
            f"The run {run.folder} is not finished; go on with: "
            f"trigpoint generate train --out {run.folder} --resume."
        )
    summary, settings, lines = run.summary(), run.settings(), run.log()
    stages = []
    for number, file in run.stages(".png"):
        try:
            picture = read_image(file)
        except UnreadableImage as error:
            raise TrigpointError(f"{file} is damaged: {error}.") from None
        step = f"step {number:,}"
        shown = pictures.plain_picture(picture, f"samples at {step}", "sheet")
        stages.append(f"<figure>{shown}<figcaption>{step}</figcaption></figure>")
    series = [
        ("convergence measure M", "measure", 1.0, ""),
        ("k, the critic's attention to samples", "k", 1.0, ""),
        ("energy of real images", "real", 1.0, ""),
        ("energy of samples", "made", 1.0, ""),
        ("landmarks off by (L1)", "cycle", 100.0, "% of the image edge"),
    ]
    if settings.apart:
        series.append(("samples of one structure too alike by", "apart", 100.0, "% of real images' distance"))
    charts = "".join(
        pictures.chart(
            title,
            [line["step"] for line in lines if key in line],
            [scale * line[key] for line in lines if key in line],
            unit,
            False,
        )
        for title, key, scale, unit in series
    )
    facts = {
        "source": " ".join(run.meta()["source"][:3]),
        "images": f"{summary['train_images']:,}",
        "training": f"{summary['steps']:,} steps of {settings.batch_size} images, seed {settings.seed}",
        "generator": f"{summary['parameters']:,} parameters, latent of {settings.latent}",
        "balance": f"gamma {settings.gamma}, cycle weight {settings.cycle}"
        + (f", apart weight {settings.apart} up to {settings.distance:.0%}" if settings.apart else ""),
        "speed": f"{summary['images_per_second']:.0f} images/s, {text.memory(summary)} at most",
    }
    if summary["skipped"]:
        facts["skipped"] = skipped_words(summary["skipped"])
    template = (Path(__file__).parent / "generator.html").read_text("utf-8")
    page = Template(template).substitute(
        policy=policy(template),
        title="New images on a given structure",
        headline=escaped(headline(summary)),
        kept=escaped(text.kept_out(summary)),
        last=stages[-1] if stages else "",
        stages="".join(stages[:-1]),
        charts=charts,
        facts="".join(f"<dt>{name}</dt><dd>{escaped(value)}</dd>" for name, value in facts.items()),
        command=escaped(f"trigpoint generate sample {quote(str(run.folder))} --like IMAGE... --out made"),
    )
    write_atomically(run.report_file, page.encode())
    return run.report_file
