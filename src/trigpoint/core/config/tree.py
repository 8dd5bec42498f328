"""Everything that defines a model and its training, as a tree of frozen dataclasses.

A config is a plain value: a preset is one, a run folder stores one (`config.json`), and the model
is rebuilt from it alone. Lengths are in units of the image edge, as in the paper (appendix F.4).
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from trigpoint.core.errors import TrigpointError
from trigpoint.core.io import regular

MAX_LANDMARKS = 100
SHOWN = 80  # characters of a wrong value in a sentence
MAX_LOOKS = 16


@dataclass(frozen=True)
class ModelConfig:
    """The three hourglass networks and what joins them. `nets/spec.py` explains the net strings."""

    landmarks: int = 10  # K
    channels: int = 3  # of the image: 3 colour, 1 grey
    image_size: int = 64  # edge of the square image, pixels
    padded_size: int = 80  # edge after padding with edge values; what detector and feature net see
    detector: str = "D16 32 P | 48/48 S1 P 96 S1 P 128 | out1"
    features: str = "D24 32 P | 48/32 P 64 | out1"
    decoder: str = "| 64/48 S1 P 96 | U 32 U out"
    detector_gain: float = 3.0  # on the raw scores; see `Detector`. The paper has none, that is 1
    background_start: float = 3.0  # initial bias of the background's score, before the gain
    feature_channels: int = 32  # S, the feature space shared by all landmarks
    descriptor_size: int = 8  # C, the descriptor of one landmark; 0 for none (MNIST)
    decoder_sigma: float = 0.0625  # smallest bandwidth of the decoder's heat maps
    decoder_levels: int = 5  # M; each bandwidth is sqrt(2) times the one before
    pooling: Literal["gaussian", "map"] = "gaussian"  # soft mask of a descriptor: paper, release
    colour_margin: float = 0.0  # of the sigmoid's range beyond black and white; the paper's shoes: 0.1
    conv_bias: bool = False  # the release has one before each batch norm, where it has no effect


@dataclass(frozen=True)
class LossConfig:
    """Weights of Eq. 13. The reconstruction weight is its first value; `TrainConfig` raises it."""

    recon: float = 0.01
    conc: float = 100.0
    sep: float = 16.0
    eqv: float = 1e4
    eqv_linear: float = 0.0  # from about this distance on equivariance is linear; 0 for never: the paper's
    sep_sigma: float = 0.06
    colour_sigma: float = 0.05  # standard deviation of the reconstruction's Gaussian likelihood
    ssim: float = 0.0  # of 1 - SSIM, times the reconstruction's; the paper has none
    concentration: Literal["entropy", "printed"] = "entropy"  # what the text derives, what it prints
    cycle: float = 4.0  # for each colour value: landmarks found again (train.part = "decoder" only)
    still: float = 27.0  # what changes far from a moved landmark (likewise)
    flow_prefer: float = 0.0  # draws landmarks to what moves (videos with warp.flow_share only)
    flow_prefer_form: Literal["scale-free", "printed"] = "scale-free"


@dataclass(frozen=True)
class WarpConfig:
    """The random thin plate spline of the equivariance loss (appendix F.3)."""

    translation: float = 0.15  # uniform, plus or minus
    rotation: float = 10.0  # degrees, standard deviation
    scaling: float = 1.25  # exp(N(0, 1) ln 1.25)
    grid: int = 7  # control points an edge
    grid_jitter: float = 0.05  # standard deviation; the paper prints 0.1, the release used half
    landmark_jitter: float = 0.025  # likewise: 0.05 printed
    landmark_share: float = 0.3  # of the samples warped around the detected landmarks (7:3)
    flow_share: float = 0.0  # of the samples whose second image is another frame instead (videos only)


@dataclass(frozen=True)
class TrainConfig:
    """The training strategy. Iteration numbers scale with `steps` through `with_steps`."""

    steps: int = 6000
    batch_size: int = 16
    optimiser: Literal["adam", "muon"] = "adam"  # the paper's; one that learns more from a step
    learning_rate: float = 6e-3
    beta2: float = 0.98  # of Adam: how long it remembers squared gradients
    weight_decay: float = 1e-6  # Adam: added to the gradient; Muon: kernels shrink by this times the rate
    schedule: Literal["steps", "cosine"] = "cosine"
    warmup: int = 100  # steps of linear rise of the learning rate
    lr_decay_at: tuple[int, ...] = ()  # learning rate / 10 at each (schedule "steps")
    recon_raise_at: tuple[int, ...] = (3000,)  # reconstruction weight x 10 at each
    eqv_rise: float = 6.0  # the equivariance weight grows by this factor over the run
    landmark_points_at: tuple[int, int] = (1154, 2308)  # landmark control points: from none to all
    brightness: float = 0.125  # plus or minus, of the colour range
    contrast: float = 0.5  # factor 1 plus or minus
    tint: float = 0.0  # colours faded at random, and each channel times 1 plus or minus this
    gamma: float = 0.0  # colour values to the power of exp(plus or minus this)
    shade: float = 0.0  # darker towards one side and brighter towards the other, by this at most
    blur: float = 0.0  # half of the images are blurred, up to this part of the way to a mean over 5 pixels
    relight: bool = False  # the warped copy of an image gets a light of its own: all of the above
    mirror: bool = False  # half of the images mirrored: for objects that look the same then, such as faces
    # What is trained: all, or alone as in training/edits.py, training/drawing.py, training/taught.py.
    part: Literal["all", "decoder", "drawing", "detector"] = "all"
    ema: float = 0.0  # decay of the weights' moving average that is kept as the model; 0 for none
    recalibration_images: int = 1024  # for the batch-norm statistics of the final model
    seed: int = 0


@dataclass(frozen=True)
class VideoConfig:
    """Which frames of videos are learnt from, and how a frame is prepared, also for detection."""

    every: int = 1  # take every so many frames
    frames: int = 0  # and of those at most so many of each video, evenly spread; 0 for all
    crop: tuple[float, ...] = ()  # region of interest: left, top, width, height in pixels
    frame: tuple[int, ...] = ()  # width and height of the frames that the crop is made for; training notes it
    background: Literal["keep", "grey", "mean"] = "keep"  # what becomes of a static camera's background
    follow: bool = False  # a square crop that follows what moves before that background
    zoom: bool = False  # the size of that crop follows the subject's, too; else one size for a video
    scale: float = 1.3  # edge of that crop over the subject's longer side


EVERY_FRAME = VideoConfig()


@dataclass(frozen=True)
class Config:
    model: ModelConfig = field(default_factory=ModelConfig)
    losses: LossConfig = field(default_factory=LossConfig)
    warp: WarpConfig = field(default_factory=WarpConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    video: VideoConfig = field(default_factory=VideoConfig)
    preset: str = "compact"
    fit: Literal["pad", "crop", "stretch"] = "pad"  # how an image becomes square
    looks: int = 1  # at each image in detection; the paper's is 1; see `model/looks.py`


def with_steps(config: Config, steps: int) -> Config:
    """The same strategy over another number of steps: every milestone keeps its place in the run."""
    if steps < 1:
        raise TrigpointError(f"--steps must be at least 1; got {steps}.")
    train = config.train

    def scaled(milestones: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(round(at * steps / train.steps) for at in milestones)

    start, end = scaled(train.landmark_points_at)
    changed = dataclasses.replace(
        train,
        steps=steps,
        lr_decay_at=scaled(train.lr_decay_at),
        recon_raise_at=scaled(train.recon_raise_at),
        landmark_points_at=(start, end),
        warmup=min(train.warmup, steps // 10),
    )
    return dataclasses.replace(config, train=changed)


def with_values(config: Config, assignments: typing.Sequence[str]) -> Config:
    """Change single values by their path, as `--set losses.sep=0 train.seed=3` does."""
    tree = to_dict(config)
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals:
            raise TrigpointError(f"--set takes name=value, such as losses.sep=0; got {_shown(assignment)}.")
        *parents, leaf = path.split(".")
        node: Any = tree
        for parent in parents:
            node = node.get(parent) if isinstance(node, dict) else None
        if not isinstance(node, dict) or leaf not in node or isinstance(node[leaf], dict):
            raise TrigpointError(
                f"--set: the config has no value {_shown(path)}; see config.json of any run."
            )
        try:
            node[leaf] = json.loads(text)
        except (ValueError, RecursionError):  # no JSON, or a number of thousands of digits
            node[leaf] = text
    return from_dict(tree)


def to_dict(config: Config) -> dict[str, Any]:
    return typing.cast(dict[str, Any], json.loads(json.dumps(dataclasses.asdict(config))))


def from_dict(tree: Any) -> Config:
    """The config that `to_dict` gave, with unknown names, wrong types and impossible values refused."""
    config = typing.cast(Config, build(Config, tree, "config"))
    check(config)
    return config


def load_config(path: Path) -> Config:
    """Read a config from JSON: a whole `config.json` of a run, or the config alone."""
    try:
        tree = json.loads(regular(path).read_text())
    except FileNotFoundError:
        raise TrigpointError(f"There is no file {path}.") from None
    except (OSError, ValueError) as error:
        raise TrigpointError(f"{path} is not a readable JSON config: {error}.") from None
    except RecursionError:
        raise TrigpointError(f"{path} is not a readable JSON config: it is nested too deeply.") from None
    return from_dict(tree["config"] if isinstance(tree, dict) and "config" in tree else tree)


LEAST: dict[str, float] = {
    "model.image_size": 8,
    "model.descriptor_size": 0,
    "model.feature_channels": 1,
    "model.decoder_levels": 1,
    "model.colour_margin": 0,
    "losses.eqv_linear": 0,
    "warp.grid": 2,
    "warp.landmark_share": 0,
    "warp.flow_share": 0,
    "train.steps": 1,
    "train.batch_size": 2,
    "train.beta2": 0,
    "train.tint": 0,
    "train.gamma": 0,
    "train.shade": 0,
    "train.blur": 0,
    "train.weight_decay": 0,
    "train.warmup": 0,
    "train.ema": 0,
    "train.recalibration_images": 2,
    "train.seed": 0,
    "video.every": 1,
    "video.frames": 0,
    "video.scale": 0.1,
}
MOST = {
    "model.image_size": 1024,
    "model.padded_size": 2048,
    "model.descriptor_size": 4096,
    "model.feature_channels": 4096,
    "model.decoder_levels": 32,
    "warp.grid": 32,
    "train.steps": 10**9,
    "train.batch_size": 10**5,
    "train.recalibration_images": 10**9,
    "video.every": 10**9,
    "video.frames": 10**9,
    "model.colour_margin": 0.4,
    "warp.landmark_share": 1,
    "warp.flow_share": 1,
    "train.beta2": 0.999999,
    "train.shade": 1,
    "train.blur": 1,
    "train.ema": 0.999999,
    "train.seed": 2**31 - 1,
}
ABOVE_ZERO = (
    "model.decoder_sigma",
    "model.detector_gain",
    "losses.sep_sigma",
    "losses.colour_sigma",
    "warp.scaling",
    "train.learning_rate",
    "train.eqv_rise",
)


def check(config: Config) -> None:
    """Refuse what no model can be built from or no training can use."""
    model = config.model
    if not 1 <= model.landmarks <= MAX_LANDMARKS:
        raise TrigpointError(
            f"The number of landmarks must be between 1 and {MAX_LANDMARKS}; got {model.landmarks}."
        )
    if not 1 <= config.looks <= MAX_LOOKS:
        raise TrigpointError(f"The number of looks must be between 1 and {MAX_LOOKS}; got {config.looks}.")
    for part in ("model", "losses", "warp", "train", "video"):
        for name, value in vars(getattr(config, part)).items():
            path = f"{part}.{name}"
            if isinstance(value, float) and not math.isfinite(value):
                raise TrigpointError(f"{path} must be a finite number; got {value}.")
            if path in LEAST and value < LEAST[path]:
                raise TrigpointError(f"{path} must be at least {LEAST[path]}; got {value}.")
            if path in MOST and value > MOST[path]:
                raise TrigpointError(f"{path} must be at most {MOST[path]}; got {value}.")
            if path in ABOVE_ZERO and value <= 0:
                raise TrigpointError(f"{path} must be above 0; got {value}.")
    if model.channels not in (1, 3):
        raise TrigpointError(f"model.channels must be 1 or 3; got {model.channels}.")
    if config.train.mirror and config.warp.flow_share:
        raise TrigpointError(
            "train.mirror and warp.flow_share do not go together: optical flow is not mirrored."
        )
    crop = config.video.crop
    if crop and (len(crop) != 4 or not all(math.isfinite(value) for value in crop) or min(crop[2:]) < 1):
        raise TrigpointError(f"video.crop must be left, top, width and height in pixels; got {crop}.")
    if config.video.frame and (len(config.video.frame) != 2 or min(config.video.frame) < 1):
        raise TrigpointError(f"video.frame must be a width and a height in pixels; got {config.video.frame}.")
    if model.padded_size < model.image_size or (model.padded_size - model.image_size) % 2:
        raise TrigpointError(
            f"model.padded_size must exceed model.image_size by an even number of pixels; "
            f"got {model.padded_size} and {model.image_size}."
        )
    _check_nets(model)


def _check_nets(model: ModelConfig) -> None:
    from trigpoint.core.spec import parse

    detector, features, decoder = (parse(text) for text in (model.detector, model.features, model.decoder))
    if decoder.stem_reduction > 1 or model.image_size % decoder.enlargement:
        raise TrigpointError(
            f"model.decoder must give an image of {model.image_size} pixels: no P or D in its stem, and "
            f"the size divisible by {decoder.enlargement}; got {model.decoder!r}."
        )
    checks = (
        ("detector", detector, model.padded_size),
        ("features", features, model.padded_size),
        ("decoder", decoder, model.image_size // decoder.enlargement),
    )
    for name, spec, size in checks:
        if name == "features" and not model.descriptor_size:
            continue
        if size % spec.reduction:
            raise TrigpointError(
                f"model.{name} halves its input {spec.reduction.bit_length() - 1} times, "
                f"so its size must be divisible by {spec.reduction}; it is {size}."
            )


def build(kind: Any, value: Any, where: str) -> Any:
    """Turn plain JSON into `kind`, one of the few kinds that configs are made of."""
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, dict):
            raise TrigpointError(f"{where} must be an object; got {_shown(value)}.")
        hints = typing.get_type_hints(kind)
        unknown = sorted(set(value) - set(hints))
        if unknown:
            raise TrigpointError(f"{where} has an unknown name {_shown(unknown[0])}.")
        parts = {name: build(hints[name], part, f"{where}.{name}") for name, part in value.items()}
        return typing.cast(Any, kind)(**parts)
    origin = typing.get_origin(kind)
    if origin is Literal:
        if value not in typing.get_args(kind):
            raise TrigpointError(f"{where} must be one of {typing.get_args(kind)}; got {_shown(value)}.")
        return value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise TrigpointError(f"{where} must be a list; got {_shown(value)}.")
        inner = typing.get_args(kind)
        if inner[-1] is not types.EllipsisType and inner[-1] is not ... and len(value) != len(inner):
            raise TrigpointError(f"{where} must have {len(inner)} values; got {_shown(value)}.")
        return tuple(build(inner[0], part, where) for part in value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise TrigpointError(f"{where} is too large a number.") from None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TrigpointError(f"{where} must be of type {kind.__name__}; got {_shown(value)}.")
    return value


def _shown(value: Any) -> str:
    """What was found, short enough for a sentence."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
