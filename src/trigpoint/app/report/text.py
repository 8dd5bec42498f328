"""What a run found, in plain words: for the terminal, the model card and the report's first lines."""

from __future__ import annotations

import re
from dataclasses import replace
from shlex import join, quote
from typing import Any

from trigpoint.core.config.tree import with_steps
from trigpoint.core.config.values import assignments
from trigpoint.core.errors import TrigpointError
from trigpoint.core.inference.predictor import ZOO
from trigpoint.core.io import printable
from trigpoint.core.runs import Run
from trigpoint.core.words import skipped_words
from trigpoint.learning.training.stages import named

MANY = 4  # landmarks on the background are many where they are one in so many
OF_VIDEOS = (
    "Where the camera stands still, follow the subject and paint over the rest (--follow --background grey); "
    "where the subject stays in one place, --crop LEFT,TOP,WIDTH,HEIGHT."
)
OF_FOLLOWED = "Try fewer --landmarks, a smaller --scale, --flow, or more --steps."
OF_IMAGES = "Try images cropped closer to the object, more varied images, fewer --landmarks, or more --steps."


def verdict_counts(health: list[dict[str, Any]]) -> str:
    """`6 are good, 1 is jittery`."""
    counts: dict[str, int] = {}
    for row in health:
        kind = row["verdict"].split(" of ")[0]
        kind = {"duplicate": "a duplicate", "background": "on the background"}.get(kind, kind)
        counts[kind] = counts.get(kind, 0) + 1
    words = [f"{count} {'is' if count == 1 else 'are'} {kind}" for kind, count in counts.items()]
    return ", ".join(words).replace("are a duplicate", "are duplicates")


def consistency(summary: dict[str, Any]) -> str:
    text = (
        f"Under a random warp a landmark is found again within {summary['warp_error']:.1%} of the image edge"
    )
    before = summary.get("warp_error_before")
    return text + (f" ({before:.1%} before training)." if before else ".")


def headline(run: Run) -> str:
    summary = run.summary()
    health = summary["health"]
    return (
        f"{len(health)} landmarks, found on {summary['train_images']:,} images without a label: "
        f"{verdict_counts(health)}. {consistency(summary)}"
    )


def cautions(run: Run) -> list[str]:
    """What is to be minded about the verdicts, a paragraph each; usually nothing."""
    summary, video = run.summary(), run.config().video
    health = summary["health"]
    paragraphs = list(summary.get("doubts", []))
    aside = sum(row["verdict"] == "background" for row in health)
    if aside * MANY >= len(health):
        moving = OF_FOLLOWED if video.follow and video.background != "keep" else OF_VIDEOS
        paragraphs.append(
            f"{aside} of {len(health)} landmarks lie where nothing changes from image to image. "
            f"{moving if 'temporal' in summary else OF_IMAGES}"
        )
    return paragraphs


def edits(run: Run) -> str:
    """Of a decoder that was trained alone: how well it puts landmarks where it is told."""
    lines = [line["cycle"] for line in run.log() if "cycle" in line]
    if not lines:
        return ""
    return (
        f"Edits: on what the decoder makes, landmarks are found within {lines[-1]:.1%} of the image edge of "
        f"where they were put ({lines[0]:.1%} at first)."
    )


def kept_out(summary: dict[str, Any]) -> str:
    """Whether what is shown and measured was seen in training: of a small set no image can be spared."""
    if summary["held_out"]:
        return "Images kept out of training."
    return "Images of the training set, which is too small to spare any."


def closing_words(run: Run) -> str:
    summary = run.summary()
    lines = [
        headline(run),
        *cautions(run),
        edits(run),
        f"Speed: {summary['images_per_second']:.0f} images/s; peak memory {memory(summary)}.",
        skipped_words(summary["skipped"]),
        f"Report: {run.report_file}",
        f"Next:   trigpoint detect {quote(str(run.folder))} IMAGE... --out found --overlay",
        to_draw(run),
    ]
    return "\n".join(line for line in lines if line)


def memory(summary: dict[str, Any]) -> str:
    taken = summary["peak_memory_mb"]
    return "unknown" if taken is None else f"{taken:.0f} MB"


def to_draw(run: Run) -> str:
    """Of a detector that was trained alone: what its decoder needs before it can draw."""
    if run.config().train.stage != "distill":
        return ""
    source, out = join(source_words(run)), quote(f"{run.folder}-drawing")
    return (
        "Its decoder has not learnt where landmarks lie now. To draw (edit, morph, studio): "
        f"trigpoint train {source} --from {quote(str(run.folder))} --stage draw --out {out}"
    )


def source_words(run: Run) -> list[str]:
    """The source of a run as words of a command."""
    words: list[str] = run.meta()["source"]
    return words if len(words) <= 3 else ["IMAGE..."]  # part of them would be another source


def model_card(run: Run) -> str:
    """RUN/README.md: what the model is, what it was made from, what was measured, how to use it."""
    config, summary, meta = run.config(), run.summary(), run.meta()
    source = join(meta["source"][:3])
    data = f"{summary['train_images']:,} images of {code(source)}"
    versions = ", ".join(f"{name} {version}" for name, version in meta["versions"].items())
    found = "\n\n".join(map(prose, (headline(run), *cautions(run))))
    return f"""# {config.model.landmarks} landmarks of {prose(source)}

{found}

| | |
|---|---|
| data | {data}, no labels; their terms apply to the weights too |
| model | {code(config.preset)}, {summary["parameters"]:,} parameters, {config.model.image_size} pixels |
| training | {summary["steps"]:,} steps of {config.train.batch_size} images, seed {config.train.seed} |
| warp error | {summary["warp_error"]:.2%} of the image edge. {kept_out(summary)} |
| made with | {prose(versions)} |

Repeat it: {code(join(again(run)))}.
Use it: {code(f"trigpoint detect {quote(str(run.folder))} IMAGE... --out found")}.

Meant for finding the same places on images like those it was trained on. It does not recognise
persons, and it finds landmarks on any image, also where the object is absent: mind the confidence.
"""


def again(run: Run) -> list[str]:
    """The command that makes such a run, as words."""
    config = run.config()
    words = ["trigpoint", "train", *source_words(run), "--out", "RUN"]
    if "start" not in run.meta():
        return [*words, "--config", "config.json"]
    before, stage, steps = Run(run.start_file().parent), config.train.stage, config.train.steps
    shipped = before.folder.parent.resolve() == ZOO.resolve()
    words += ["--from", before.folder.name if shipped else str(before.folder)]
    words += ["--stage", stage, "--steps", str(steps)]
    try:
        known = before.config()
    except TrigpointError:  # moved or removed since
        return words
    count = config.model.landmarks
    if count != known.model.landmarks:
        words += ["--landmarks", str(count)]
        known = replace(known, model=replace(known.model, landmarks=count))
    changed = assignments(with_steps(named(stage).derive(known), steps), config)
    return [*words, "--set", *changed] if changed else words


def prose(text: str) -> str:
    """Text within Markdown: names of files are no part of it, and no HTML."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", printable(text).replace("&", "&amp;"))


def code(text: str) -> str:
    """Code within a line or a table of Markdown, which the text cannot end."""
    return f"`{printable(text).replace('`', chr(39)).replace('|', '/')}`"
