"""How often a model's landmarks lie on the subject of a video by a static camera, over all of its frames.

python benchmarks/on_subject.py RUN VIDEO [--json FILE]

The subject is what differs from the background (docs/video.md); within 2 % of the crop's edge counts as on
it. The frames are prepared as the run's config says, which must know a background (--follow or --background).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import tyro
from tyro.conf import Positional

from tables import show
from trigpoint.core.errors import TrigpointError
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.sources.video import Videos
from trigpoint.learning.evaluation.temporal import temporal


@dataclass(frozen=True)
class Options:
    model: Positional[str]
    """A run folder."""
    video: Positional[Path]
    """The video to look at."""
    json: Path | None = None
    """Also write the rows to this file."""


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    predictor = Predictor.load(options.model)
    frames = Videos([options.video], replace(predictor.config.video, every=1, frames=0))
    found = temporal(predictor, frames, len(frames))
    if found is None or found.subject is None:
        raise TrigpointError("Nothing is known of the subject: train with --follow or --background.")
    rows = [
        {
            "landmark": name,
            "on the subject": f"{found.subject[k]:.1%}",
            "jitter, px": found.jitter[k],
            "flow, px": found.flow[k],
        }
        for k, name in enumerate(predictor.names)
    ]
    rows.append(
        {
            "landmark": "mean",
            "on the subject": f"{found.subject.mean():.1%}",
            "jitter, px": found.jitter.mean(),
            "flow, px": found.flow.mean(),
        }
    )
    show(rows, options.json)
    print(f"{len(found.points)} frames")


if __name__ == "__main__":
    main()
