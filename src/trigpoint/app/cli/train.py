"""`trigpoint train`: discover landmarks on a source of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import OmitArgPrefixes, Positional

from trigpoint.app.cli.video_options import VideoOptions
from trigpoint.core.io import say


@dataclass(frozen=True)
class Train:
    """Discover landmarks on unlabelled images.

    Example: trigpoint train photos/ --out runs/photos --landmarks 10

    Writes into --out:
      config.json         everything needed to rebuild the model and repeat the run
      model.safetensors   the model
      report.html         what was found, to look at and show around
      log.jsonl           every loss through training
      checkpoint/         to go on from (--resume)
    """

    source: Positional[tuple[str, ...]] = ()
    """A folder of images or videos, image files, videos, or a name such as digits (`trigpoint data list`)."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """The run folder to write."""
    landmarks: int | None = None
    """How many landmarks to find (default 10, or the preset's number)."""
    preset: str | None = None
    """celeba-10, aflw-30, ..., compact-10, hour-30, detail-10, tiny-7; without it one that suits."""
    steps: int | None = None
    """Length of training; every milestone of the preset moves along."""
    config: Path | None = None
    """A config.json to start from instead of a preset."""
    start: Annotated[str | None, tyro.conf.arg(name="from", metavar="MODEL")] = None
    """Train this run or shipped model further, on the images given, for a third of its first length."""
    video: OmitArgPrefixes[VideoOptions] = field(default_factory=VideoOptions)
    stage: Literal["discover", "distill", "draw", "edit"] | None = None
    """With --from, what is trained:
    discover: all of the model, further;
    distill: the detector, to find by one view, in any light, what the model found by several; with fewer
    --landmarks too, each then a mean of some that lie together;
    draw: descriptors and decoder, to draw images from landmarks that stay: after distill, before edit;
    edit: the decoder, so that images follow moved landmarks better."""
    flow: bool = False
    """Of videos: learn from optical flow beside random warps."""
    set: tuple[str, ...] = ()
    """Single values of the config, such as losses.sep=0 train.seed=3."""
    seed: int | None = None
    """Everything random follows from it."""
    threads: int | None = None
    """CPU threads (default: all cores)."""
    resume: bool = False
    """Go on with the unfinished run in --out."""
    overwrite: bool = False
    """Replace the run in --out."""


def main(argv: Sequence[str]) -> int:
    args = tyro.cli(Train, prog="trigpoint train", args=argv)
    from trigpoint import api
    from trigpoint.app.report.text import closing_words
    from trigpoint.core.errors import TrigpointError
    from trigpoint.core.sources import left_out, videos_and_images
    from trigpoint.learning.devices import use_threads

    out = args.out
    if out is None:
        raise TrigpointError("Name the run folder to write: --out runs/NAME.")
    if args.resume and args.overwrite:
        raise TrigpointError("--resume goes on with a run and --overwrite replaces it: give one of them.")
    if args.preset and args.config:
        raise TrigpointError("Give --preset or --config, not both.")
    use_threads(args.threads)
    if note := left_out(*videos_and_images([Path(word) for word in args.source])):
        say(note, error=True)

    def work() -> int:
        run = api.train(
            args.source,
            out,
            landmarks=args.landmarks,
            preset=args.preset or args.config,
            steps=args.steps,
            values=assignments(args),
            stage=args.stage,
            start=args.start,
            existing="resume" if args.resume else "overwrite" if args.overwrite else "refuse",
        )
        say(*closing_words(run).split("\n"))
        return 0

    return report_failures(work, f"trigpoint train --out {args.out} --resume")


def assignments(args: Train) -> tuple[str, ...]:
    """The options that stand for single values of the config, as for --set, whose own come last."""
    values = args.video.assignments()
    if args.seed is not None:
        values.append(f"train.seed={args.seed}")
    if args.flow:
        values += FLOW
    return (*values, *args.set)


FLOW = ("warp.flow_share=0.5", "losses.flow_prefer=100")  # what --flow stands for


def report_failures(work: Callable[[], int], go_on: str) -> int:
    """Run a training; when it stops early, say why and how to go on."""
    from trigpoint.learning.training.session import Interrupted, TrainingFailed

    try:
        return work()
    except Interrupted as stopped:
        say("", str(stopped), f"Go on with: {go_on}", error=True)
    except TrainingFailed as failed:
        say(f"trigpoint: {failed}", error=True)
    return 1
