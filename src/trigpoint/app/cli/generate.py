"""`trigpoint generate`: new images on a given structure."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import Positional

from trigpoint.core.io import say


@dataclass(frozen=True)
class GenerateTrain:
    """Train a generator: it makes new images that have the landmarks of a given one.

    Example: trigpoint generate train faces-10 photos/ --out runs/new-faces

    Writes into --out:
      config.json            the settings
      model/                 the landmark model it was trained with: every verb takes RUN as that model
      generator.safetensors  the generator
      report.html            samples over time, losses, what was measured
      checkpoint/            to go on from (--resume)
    """

    model: Positional[str | None] = None
    """The landmark model: a run folder, or the name of a shipped model."""
    source: Positional[tuple[str, ...]] = ()
    """A folder of images, image files, or a name such as digits (`trigpoint data list`)."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """The run folder to write."""
    preset: Literal["compact", "paper"] = "compact"
    """compact: for two CPU cores. paper: BEGAN's own sizes, for a graphics card."""
    steps: int | None = None
    """Length of training."""
    set: tuple[str, ...] = ()
    """Single values of the settings, such as gamma=0.7 cycle=5."""
    seed: int | None = None
    """Everything random follows from it."""
    threads: int | None = None
    """CPU threads (default: all cores)."""
    resume: bool = False
    """Go on with the unfinished run in --out."""
    overwrite: bool = False
    """Replace the run in --out."""


@dataclass(frozen=True)
class GenerateSample:
    """Make new images with the landmarks of given ones.

    Example: trigpoint generate sample runs/new-faces --like me.jpg you.jpg --count 8 --out made

    Writes into --out: grid.png (each image with its landmarks, then its samples), the samples one by one
    (NAME-0.png ...), and with --walk two animations: `latents`, one structure under changing appearance, and
    `landmarks`, one appearance under changing structure (with two images or more).
    """

    run: Positional[Path]
    """A folder of `trigpoint generate train`."""
    like: tuple[Path, ...]
    """The images whose landmarks the new ones shall have."""
    out: Path
    """The folder to write into."""
    count: int = 8
    """Samples of each image."""
    seed: int = 0
    """Decides the samples."""
    walk: Literal["no", "gif", "mp4"] = "no"
    """Write the two animations, too."""
    overwrite: bool = False
    """Replace files that exist."""


@dataclass(frozen=True)
class GenerateEvaluate:
    """Measure a generator: does it keep the structure, do its samples differ, do they look real.

    Example: trigpoint generate evaluate runs/new-faces mtfl:data/mtfl

    Uses the source's test images where it has any, which no training has seen.
    """

    run: Positional[Path]
    """A folder of `trigpoint generate train`."""
    source: Positional[tuple[str, ...]]
    """Where the images are."""
    references: int = 500
    """Images whose landmarks are given to the generator; as many others are what it is compared with."""
    features: Literal["dlib", "pixels"] = "pixels"
    """Of the kernel distance. dlib: an embedding of faces (pip install 'trigpoint[embedding]')."""
    seed: int = 0
    """Decides the samples."""
    json: bool = False
    """Print JSON."""


VERBS = {"train": GenerateTrain, "sample": GenerateSample, "evaluate": GenerateEvaluate}
FRAMES = 48  # of an animation, from one of its stations to before the next
STATIONS = 4  # latents that the walk passes


def main(argv: Sequence[str]) -> int:
    words = list(argv)
    if not words or words[0] in ("-h", "--help"):
        say(
            "usage: trigpoint generate train MODEL SOURCE --out RUN",
            "       trigpoint generate sample RUN --like IMAGE... --out FOLDER",
            "       trigpoint generate evaluate RUN SOURCE",
            "",
            "New images on the structure of given ones. Each has its own --help.",
            "",
            "Example: trigpoint generate train faces-10 photos/ --out runs/new-faces",
        )
        return 0
    from trigpoint.core.errors import TrigpointError

    if words[0] not in VERBS:
        raise TrigpointError(f"trigpoint generate takes {', '.join(VERBS)}; got {words[0]!r}.")
    args: Any = tyro.cli(VERBS[words[0]], prog=f"trigpoint generate {words[0]}", args=words[1:])
    if isinstance(args, GenerateTrain):
        return train(args)
    return sample(args) if isinstance(args, GenerateSample) else evaluate(args)


def train(args: GenerateTrain) -> int:
    from trigpoint.app.cli.train import report_failures
    from trigpoint.core.errors import TrigpointError

    out = args.out
    if out is None:
        raise TrigpointError("Name the run folder to write: --out runs/NAME.")
    if args.resume and args.overwrite:
        raise TrigpointError("--resume goes on with a run and --overwrite replaces it: give one of them.")
    from trigpoint.app.report.generator import closing_words, write_report
    from trigpoint.core.config.generator import PRESETS, with_values
    from trigpoint.core.generator_run import GeneratorRun
    from trigpoint.core.inference.predictor import find_model
    from trigpoint.core.sources import open_source
    from trigpoint.learning.devices import use_threads
    from trigpoint.learning.generation.train import train as train_generator

    if args.model is None and not args.resume:
        raise TrigpointError(
            "Name the landmark model that the generator is for: a run folder or a shipped model."
        )
    changed = args.set or args.steps is not None or args.seed is not None or args.preset != "compact"
    if args.resume and changed:
        raise TrigpointError("A resumed run keeps its own settings: give --resume without others.")
    use_threads(args.threads)
    values = [f"steps={args.steps}"] if args.steps is not None else []
    values += [f"seed={args.seed}"] if args.seed is not None else []
    settings = with_values(PRESETS[args.preset], [*values, *args.set])
    words = args.source or (GeneratorRun(out).meta()["source"] if args.resume else ())
    config = find_model(out if args.resume else args.model or "").config()
    source = open_source(words, video=config.video)

    def work() -> int:
        run = train_generator(
            settings, args.model or out, source, out, resume=args.resume, overwrite=args.overwrite
        )
        write_report(run)
        say(*closing_words(run).split("\n"))
        return 0

    return report_failures(work, f"trigpoint generate train --out {out} --resume")


def sample(args: GenerateSample) -> int:
    import numpy as np
    import torch

    from trigpoint.app.cli.edit import read_photo
    from trigpoint.core.errors import TrigpointError
    from trigpoint.core.files.overlay import write_image
    from trigpoint.core.sources.images import to_channels
    from trigpoint.learning.editing.editor import Editor
    from trigpoint.learning.editing.render import enlarge, write_frames
    from trigpoint.learning.generation.sampler import Sampler, between, sheet

    if not 1 <= args.count <= 1000:
        raise TrigpointError(f"--count must be between 1 and 1000; got {args.count}.")
    check_seed(args.seed)
    if not args.like:
        raise TrigpointError("Name the images whose landmarks the new ones shall have: --like IMAGE.")
    if args.out.is_file():
        raise TrigpointError(f"{args.out} is a file; --out names a folder.")
    sampler = Sampler.load(args.run)
    editor = Editor(sampler.predictor)
    squares, points = [], []
    for path in args.like:
        square, place = editor.prepare(read_photo(path))
        squares.append(square)
        points.append(editor.encode_squares(square[None], [place])[0].landmarks)
    names = [f"{path.stem}-{i}" for i, path in enumerate(args.like)] if clash(args.like) else [
        path.stem for path in args.like
    ]  # fmt: skip
    files = [args.out / "grid.png"]
    files += [args.out / f"{name}-{i}.png" for name in names for i in range(args.count)]
    if args.walk != "no":
        files += [args.out / f"latents.{args.walk}"]
        files += [args.out / f"landmarks.{args.walk}"] * (len(points) > 1)
    there = [file for file in files if file.exists()]
    if there and not args.overwrite:
        raise TrigpointError(f"{there[0]} exists; --overwrite replaces it.")
    args.out.mkdir(parents=True, exist_ok=True)

    latents = sampler.latents(max(args.count, STATIONS), args.seed)
    for name, wanted in zip(names, points, strict=True):
        made = sampler.generate(np.repeat(wanted[None], args.count, axis=0), latents[: args.count])
        for i, image in enumerate(made):
            write_image(args.out / f"{name}-{i}.png", to_channels(image, 3))
    shown = torch.from_numpy(latents[: min(args.count, 16)])
    references = np.stack(points).astype(np.float32)
    write_image(files[0], sheet(sampler.generator, np.stack(squares), references, shown))
    if args.walk != "no":
        stations = [*latents[:STATIONS], latents[0]]
        way = np.concatenate([between(a, b, FRAMES + 1)[:-1] for a, b in itertools.pairwise(stations)])
        same = np.repeat(references[:1], len(way), axis=0)
        frames = (enlarge(image, 256) for image in sampler.generate(same, way))
        write_frames(args.out / f"latents.{args.walk}", frames)
        if len(references) > 1:
            turns = [*references, references[0]]
            shares = np.linspace(0, 1, FRAMES, endpoint=False, dtype=np.float32)[:, None, None]
            course = np.concatenate([(1 - shares) * a + shares * b for a, b in itertools.pairwise(turns)])
            one = np.repeat(latents[:1], len(course), axis=0)
            frames = (enlarge(image, 256) for image in sampler.generate(course, one))
            write_frames(args.out / f"landmarks.{args.walk}", frames)
    say(f"{args.count} samples of {len(points)} image{'s' * (len(points) > 1)}: {files[0]}")
    return 0


def check_seed(seed: int) -> None:
    from trigpoint.core.errors import TrigpointError

    if not 0 <= seed < 2**31:
        raise TrigpointError(f"--seed must be between 0 and 2147483647; got {seed}.")


def clash(paths: Sequence[Path]) -> bool:
    """Whether two images have the same name, so that their samples would."""
    return len({path.stem for path in paths}) < len(paths)


def evaluate(args: GenerateEvaluate) -> int:
    from trigpoint.core.errors import TrigpointError
    from trigpoint.core.sources import open_source
    from trigpoint.learning.generation.evaluate import as_text, measure
    from trigpoint.learning.generation.sampler import Sampler

    if args.references < 2:
        raise TrigpointError(f"--references must be at least 2; got {args.references}.")
    check_seed(args.seed)
    sampler = Sampler.load(args.run)
    source = open_source(args.source, "test", sampler.predictor.config.video)
    result = measure(sampler, source, args.references, args.features, args.seed)
    say(*(json.dumps(result, indent=2) if args.json else as_text(result)).split("\n"))
    return 0
