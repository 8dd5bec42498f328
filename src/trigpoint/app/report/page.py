"""Gathers what a run left behind and writes report.html."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigpoint.app.report import pictures, text
from trigpoint.app.report.markup import escaped, policy
from trigpoint.app.report.overview import overview
from trigpoint.core.config.tree import Config
from trigpoint.core.errors import TrigpointError
from trigpoint.core.files.overlay import write_image
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.io import write_atomically
from trigpoint.core.palette import colours, hexadecimal
from trigpoint.core.runs import Run
from trigpoint.learning.training.stages import named

Bytes = NDArray[np.uint8]
Points = NDArray[np.float64]

GRID, PAIRS, MORPHS, FRAMES, EVOLUTION_ROWS = 24, 12, 4, 21, 3
AT_FIRST = (
    "At first every map covers the whole image and all landmarks lie at its centre; "
    "then each map contracts to a place of its own."
)
GONE_ON = "Step 0 shows the maps of the model that this training went out from."


def write_report(run: Run) -> Path:
    """(Re)write RUN/report.html, overview.png and the model card from the run's own files."""
    if not run.finished:
        raise TrigpointError(
            f"The run {run.folder} is not finished; go on with: trigpoint train --out {run.folder} --resume."
        )
    config, summary = run.config(), run.summary()
    predictor = Predictor.load(run.folder)
    pixels = run.samples()
    points, descriptors = predictor.backend.encode(pixels)
    decoded = predictor.backend.decode(points, descriptors)
    pairs = choose_pairs(pixels, points, decoded)
    morphs = [morph(predictor, pair, points, descriptors) for pair in pairs]

    template = (Path(__file__).parent / "page.html").read_text("utf-8")
    source = " ".join(run.meta()["source"][:3])
    page = Template(template).substitute(
        policy=policy(template),
        title=escaped(f"{config.model.landmarks} landmarks of {source}"),
        headline=escaped(text.headline(run)),
        cautions="".join(f'<p class="caution">{escaped(words)}</p>' for words in text.cautions(run)),
        kept=escaped(text.kept_out(summary)),
        legend=legend(config.model.landmarks),
        grid="".join(
            pictures.landmark_picture(pixels[i], points[i], f"image {i} with its landmarks")
            for i in range(min(GRID, len(pixels)))
        ),
        evolution=evolution(run, pixels, config),
        reconstructions=reconstructions(pixels, decoded, points),
        morphs=morph_players(pairs, [frames for frames, _ in morphs], pixels, points),
        charts=charts(run, config),
        health=health(summary["health"]),
        temporal=over_time(summary.get("temporal")),
        facts=facts(run, config, summary),
        command=escaped(f"trigpoint detect {quote(str(run.folder))} IMAGE... --out found --overlay"),
    )
    write_atomically(run.report_file, page.encode())
    picture = overview(pixels, points, decoded, morphs[:2])
    write_image(run.folder / "overview.png", picture)
    write_atomically(run.folder / "README.md", text.model_card(run).encode())
    return run.report_file


def legend(count: int) -> str:
    return "".join(
        f'<button type="button" class="chip" data-k="{k}" style="--c:{hexadecimal(colour)}" '
        f'aria-pressed="false">{k}</button>'
        for k, colour in enumerate(colours(count))
    )


def evolution(run: Run, pixels: NDArray[np.uint8], config: Config) -> str:
    """Rows of images, columns of training steps: how the detection maps come to a point."""
    kept = run.stages(".npz")
    if trained := named(config.train.stage).trained:
        said = f"Only {trained} trained: the maps are those of the model it went out from."
        return f"<h2>The detection maps</h2>\n<p>{said}</p>"
    heading = f"<h2>How the detection maps came to a point</h2>\n<p>{AT_FIRST}</p>\n"
    if "start" in run.meta():
        heading = f"<h2>How the detection maps changed</h2>\n<p>{GONE_ON}</p>\n"
    if not kept:
        return f"{heading}<p>No detection maps were kept.</p>"
    margin = (config.model.padded_size - config.model.image_size) // 2
    columns = []
    for step, file in kept:
        maps = run.maps(file)[:EVOLUTION_ROWS]
        shots = "".join(
            pictures.plain_picture(pictures.map_picture(one), f"maps at step {step}", "map") for one in maps
        )
        columns.append(f"<div><span>step {step:,}</span>{shots}</div>")
    inputs = "".join(
        pictures.plain_picture(
            np.pad(one, ((margin, margin), (margin, margin), (0, 0)), mode="edge"), "input", "map"
        )
        for one in pixels[:EVOLUTION_ROWS]
    )
    shown = f'<div class="evolution"><div><span>input</span>{inputs}</div>{"".join(columns)}</div>'
    return heading + shown


def reconstructions(pixels: Bytes, decoded: Bytes, points: Points) -> str:
    pairs = []
    for i in range(min(PAIRS, len(pixels))):
        before = pictures.landmark_picture(pixels[i], points[i], f"input {i}")
        pairs.append(
            f'<div class="pair">{before}{pictures.plain_picture(decoded[i], f"reconstruction {i}")}</div>'
        )
    return "".join(pairs)


def morph(
    predictor: Predictor, pair: tuple[int, int], points: Points, descriptors: NDArray[np.float32] | None
) -> tuple[Bytes, Points]:
    """Frames from one image's landmarks to another's, the first one's appearance kept, and the path."""
    start, end = pair
    share = np.linspace(0, 1, FRAMES)[:, None, None]
    path = points[start] * (1 - share) + points[end] * share  # (FRAMES, K, 2)
    appearance = None if descriptors is None else np.repeat(descriptors[start][None], FRAMES, axis=0)
    return predictor.backend.decode(path, appearance), path


def morph_players(pairs: list[tuple[int, int]], made: list[Bytes], images: Bytes, landmarks: Points) -> str:
    """Each morph as a strip of frames to animate, between the two images it joins."""
    parts = []
    for (start, end), frames in zip(pairs, made, strict=True):
        strip = pictures.data_url(np.concatenate(list(frames), axis=1))
        ends = [images[i] for i in (start, end)]
        dots = json.dumps([landmarks[i].round(4).tolist() for i in (start, end)])
        few = "".join(pictures.plain_picture(frames[i], "a step of the morph") for i in range(0, FRAMES, 4))
        parts.append(
            f'<div class="morph">{pictures.plain_picture(ends[0], "from")}'
            f'<div class="player" data-dots="{escaped(dots)}" '
            f'style="background-image:url({strip});background-size:{FRAMES * 100}% 100%">'
            f'<svg viewBox="0 0 1 1" aria-hidden="true"></svg></div>'
            f'{pictures.plain_picture(ends[1], "to")}<div class="strip">{few}</div></div>'
        )
    return "".join(parts)


def choose_pairs(images: Bytes, landmarks: Points, decoded: Bytes) -> list[tuple[int, int]]:
    """Pairs of well reconstructed images whose landmarks differ much: there is something to see."""
    # Relative to the image's own contrast: a nearly empty image is not a good reconstruction.
    colours, made = (pixels.reshape(len(pixels), -1) / 255 for pixels in (images, decoded))
    error = np.square(colours - made).mean(1) / colours.var(1).clip(1e-4)
    good = error.argsort()[: max(2, len(images) // 2)].tolist()
    chosen: list[tuple[int, int]] = []
    free = list(good)
    while len(free) >= 2 and len(chosen) < MORPHS:
        start = free.pop(0)
        gaps = [np.linalg.norm(landmarks[start] - landmarks[other], axis=-1).mean() for other in free]
        chosen.append((start, free.pop(int(np.argmax(gaps)))))
    return chosen


def charts(run: Run, config: Config) -> str:
    """The losses of what was trained, in units a person can judge."""
    lines = [line for line in run.log() if "total" in line]
    if not lines:
        return ""
    count = config.model.landmarks
    values = config.model.image_size**2 * config.model.channels
    sigma = config.losses.colour_sigma
    constant = 0.5 * values * math.log(2 * math.pi * sigma**2)
    power = 0.5 if config.losses.concentration == "entropy" else 0.25
    known: dict[str, tuple[str, Callable[[float], float], str, bool]] = {
        "recon": ("reconstruction error (RMS)",
                  lambda loss: 100 * math.sqrt(max(0.0, 2 * sigma**2 * (loss - constant) / values)),
                  "% of the colour range", False),
        "cycle": ("landmarks put here are found again within", lambda loss: 100 * loss,
                  "% of the image edge", True),
        "locality": ("change far from a moved landmark", lambda loss: 100 * loss / values,
                  "% of the colour range", True),
        "eqv": ("misses a known warp by (RMS)", lambda loss: 100 * math.sqrt(max(0.0, loss) / count),
                "% of the image edge", True),
        "conc": ("width of a detection map",
                 lambda loss: 100 * (max(0.0, loss) / count / (2 * math.pi * math.e)) ** power,
                 "% of the image edge", True),
        "sep": ("overlap of landmarks (separation loss)", lambda loss: loss, "", False),
    }  # fmt: skip
    return "".join(
        pictures.chart(
            title,
            [line["step"] for line in lines if name in line],
            [judged(line[name]) for line in lines if name in line],
            unit,
            log,
        )
        for name, (title, judged, unit, log) in known.items()
    )


def health(rows: list[dict[str, Any]]) -> str:
    marks = {"good": "&#10003;", "jittery": "~"}
    cells = []
    for row, colour in zip(rows, colours(len(rows)), strict=True):
        kind = escaped((str(row["verdict"]).split() or [""])[0])
        away = row["nearest_distance"]
        near = "" if away is None else f"{away:.1%} to {escaped(row['nearest'])}"
        change = f"{row['change']:.0%}" if "change" in row else ""  # older runs did not measure it
        cells.append(
            f'<tr class="{kind}"><td><span class="dot" style="--c:{hexadecimal(colour)}"></span>'
            f"{escaped(row['landmark'])}</td>"
            f'<td class="verdict">{marks.get(kind, "&#10007;")} {escaped(row["verdict"])}</td>'
            f"<td>{escaped(row['why'])}</td>"
            f'<td><meter min="0" max="1" value="{escaped(row["confidence"])}"></meter> '
            f"{row['confidence']:.2f}</td>"
            f"<td>{row['warp_error']:.1%}</td><td>{row['spread']:.1%}</td>"
            f"<td>{change}</td><td>{near}</td></tr>"
        )
    return "".join(cells)


def over_time(measured: dict[str, Any] | None) -> str:
    """Of videos: how steady each landmark is, and its path over the first frames."""
    if not measured:
        return ""
    paths = np.array(measured["trajectories"])  # (n, K, 2)
    columns = [
        ("jitter", [f"{value:.2f} px" for value in measured["jitter_pixels"]]),
        ("flow", ["" if value is None else f"{value:.2f} px" for value in measured["flow_pixels"]]),
        ("low confidence", [f"{value:.0%}" for value in measured["low_confidence"]]),
    ]
    words = ""
    if measured.get("on_subject"):
        columns.append(("on the subject", [f"{value:.0%}" for value in measured["on_subject"]]))
        words = " On the subject: the share of frames on which it lies on what moves before the background."
    heads = "".join(f"<th>{name}</th>" for name, _ in columns)
    rows = []
    for k, colour in enumerate(colours(paths.shape[1])):
        cells = "".join(f"<td>{values[k]}</td>" for _, values in columns)
        rows.append(
            f'<tr><td><span class="dot" style="--c:{hexadecimal(colour)}"></span>{k}</td>{cells}</tr>'
        )
    plots = "".join(pictures.trajectories(title, paths[:, :, axis]) for axis, title in enumerate(("x", "y")))
    return (
        '<section id="time"><h2>Over time</h2>'
        f"<p>The first {escaped(measured['frames'])} frames of a video, in pixels of the original frame. "
        "Jitter: what moves from frame to frame. Flow: distance from where the optical flow says that the "
        "landmark was five frames before. Low confidence: the share of frames on which it is below 0.3."
        f"{words}</p>"
        f'<div class="charts">{plots}</div>'
        f'<div class="scroll"><table><thead><tr><th>landmark</th>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></section>\n"
    )


def facts(run: Run, config: Config, summary: dict[str, Any]) -> str:
    meta = run.meta()
    rows = {
        "source": " ".join(meta["source"][:3]),
        "images": f"{summary['train_images']:,}",
        "preset": f"{config.preset}, {summary['parameters']:,} parameters",
        "training": f"{summary['steps']:,} steps of {config.train.batch_size} images, "
        f"seed {config.train.seed}",
        "speed": f"{summary['images_per_second']:.0f} images/s",
        "peak memory": text.memory(summary),
        "versions": ", ".join(f"{name} {version}" for name, version in meta["versions"].items()),
    }
    table = "".join(f"<dt>{name}</dt><dd>{escaped(value)}</dd>" for name, value in rows.items())
    if summary["skipped"]:
        names = "".join(
            f"<li>{escaped(name)}: {escaped(reason)}</li>" for name, reason in summary["skipped"].items()
        )
        table += f"<dt>skipped</dt><dd>{len(summary['skipped'])} unreadable<ul>{names}</ul></dd>"
    return f"<dl>{table}</dl>"
