"""What stands in the JSON files of a run, as `trigpoint.core.checked` reads it."""

# Without annotations from the future: as text they would not say which names are required.

from typing import Any, NotRequired, TypedDict


class Meta(TypedDict):
    """config.json: beside the config, which is checked where it is built."""

    config: dict  # type: ignore[type-arg]
    source: list[str]
    versions: dict[str, str]
    names: NotRequired[dict[str, str]]
    subject: NotRequired[str]
    shape: NotRequired[list[list[float]]]
    start: NotRequired[str]


class Card(TypedDict):
    """Of a shipped model."""

    error: str
    data: str
    terms: str


class Shipped(TypedDict):
    card: Card


class Health(TypedDict):
    """Of one landmark; see `evaluation/health.py`."""

    landmark: int
    verdict: str
    why: str
    confidence: float
    spread: float
    change: NotRequired[float]  # older runs did not measure it
    warp_error: float
    nearest: int | None
    nearest_distance: float | None


class Temporal(TypedDict):
    """Of videos; see `evaluation/temporal.py`."""

    frames: int
    jitter_pixels: list[float]
    flow_pixels: list[float | None]
    low_confidence: list[float]
    on_subject: NotRequired[list[float] | None]
    trajectories: list[list[list[float]]]


class Measured(TypedDict):
    """Of every run."""

    steps: int
    train_images: int
    held_out: int
    parameters: int
    images_per_second: float
    peak_memory_mb: float | None
    skipped: dict[str, str]


class Summary(Measured):
    warp_error_before: NotRequired[float | None]
    warp_error: float
    health: list[Health]
    doubts: NotRequired[list[str]]
    temporal: NotRequired[Temporal | None]


class GeneratorSummary(Measured):
    measure: float | None
    k: float | None
    cycle_distance: float
    shuffled_distance: float
    diversity: float | None


def rectangular(temporal: dict[str, Any] | None, landmarks: int) -> bool:
    """Whether what was measured on a video is of all landmarks."""
    if not temporal:
        return True
    columns = [temporal[name] for name in ("jitter_pixels", "flow_pixels", "low_confidence")]
    if temporal.get("on_subject"):
        columns.append(temporal["on_subject"])
    frames = temporal["trajectories"]
    return (
        len(frames) > 0
        and all(len(column) == landmarks for column in (*columns, *frames))
        and all(len(point) == 2 for frame in frames for point in frame)
    )
