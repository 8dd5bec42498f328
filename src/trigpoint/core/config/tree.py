"""Everything that defines a model and its training, as a tree of frozen dataclasses.

A config is a plain value: a preset is one, a run folder stores one (`config.json`), and the model
is rebuilt from it alone. Lengths are in units of the image edge, as in the paper (appendix G.4).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from trigpoint.core.config import renamed, values
from trigpoint.core.config.values import Range
from trigpoint.core.errors import TrigpointError
from trigpoint.core.io import regular

MAX_LANDMARKS = 100
MAX_VIEWS = 16

Weight = Annotated[float, Range(0)]  # of a loss
Amount = Annotated[float, Range(0)]
Share = Annotated[float, Range(0, 1)]
Decay = Annotated[float, Range(0, 0.999999)]


@dataclass(frozen=True)
class ModelConfig:
    """The three hourglass networks and what joins them. `core/spec.py` explains the net strings."""

    landmarks: Annotated[int, Range(1, MAX_LANDMARKS)] = 10  # K
    channels: Literal[1, 3] = 3  # of the image: 3 colour, 1 grey
    image_size: Annotated[int, Range(8, 1024)] = 64  # edge of the square image, pixels
    padded_size: Annotated[int, Range(8, 2048)] = (
        80  # edge after padding with edge values; what detector and feature net see
    )
    detector: str = "D16 32 P | 48/48 S1 P 96 S1 P 128 | out1"
    features: str = "D24 32 P | 48/32 P 64 | out1"
    decoder: str = "| 64/48 S1 P 96 | U 32 U out"
    detector_gain: Annotated[float, Range(above=0)] = (
        3.0  # on the raw scores; see `Detector`. The paper has none, that is 1
    )
    background_start: Annotated[float, Range(-100, 100)] = (
        3.0  # initial bias of the background's score, before the gain
    )
    feature_channels: Annotated[int, Range(1, 4096)] = 32  # S, the feature space shared by all landmarks
    descriptor_size: Annotated[int, Range(0, 4096)] = (
        8  # C, the descriptor of one landmark; 0 for none (MNIST)
    )
    decoder_sigma: Annotated[float, Range(above=0)] = 0.0625  # smallest bandwidth of the decoder's heat maps
    decoder_levels: Annotated[int, Range(1, 32)] = 5  # M; each bandwidth is sqrt(2) times the one before
    pooling: Literal["gaussian", "map"] = "gaussian"  # soft mask of a descriptor: paper, release
    colour_margin: Annotated[float, Range(0, 0.4)] = (
        0.0  # of the sigmoid's range beyond black and white; the paper's shoes: 0.1
    )
    conv_bias: bool = False  # the release has one before each batch norm, where it has no effect


@dataclass(frozen=True)
class LossConfig:
    """Weights of Eq. 15. The reconstruction weight is its first value; `TrainConfig` raises it."""

    recon: Weight = 0.01
    conc: Weight = 100.0
    sep: Weight = 16.0
    eqv: Weight = 1e4
    eqv_linear: Weight = 0.0  # from about this distance on equivariance is linear; 0 for never: the paper's
    sep_sigma: Annotated[float, Range(above=0)] = 0.06
    colour_sigma: Annotated[float, Range(above=0)] = (
        0.05  # standard deviation of the reconstruction's Gaussian likelihood
    )
    ssim: Weight = 0.0  # of 1 - SSIM, times the reconstruction's; the paper has none
    concentration: Literal["entropy", "printed"] = "entropy"  # what the text derives, what it prints
    cycle: Weight = 4.0  # for each colour value: landmarks found again (stage edit only)
    locality: Weight = 27.0  # what changes far from a moved landmark (likewise)
    flow_prefer: Weight = 0.0  # draws landmarks to what moves (videos with warp.flow_share only)
    flow_prefer_form: Literal["scale-free", "printed"] = "scale-free"


@dataclass(frozen=True)
class WarpConfig:
    """The random thin plate spline of the equivariance loss (appendix G.3)."""

    translation: Amount = 0.15  # uniform, plus or minus
    rotation: Amount = 10.0  # degrees, standard deviation
    scaling: Annotated[float, Range(above=0)] = 1.25  # exp(N(0, 1) ln 1.25)
    grid: Annotated[int, Range(2, 32)] = 7  # control points an edge
    grid_jitter: Amount = 0.05  # standard deviation; the paper prints 0.1, the release used half
    landmark_jitter: Amount = 0.025  # likewise: 0.05 printed
    landmark_share: Share = 0.3  # of the samples warped around the detected landmarks (7:3)
    flow_share: Share = 0.0  # of the samples whose second image is another frame instead (videos only)


@dataclass(frozen=True)
class TrainConfig:
    """The training strategy. Iteration numbers scale with `steps` through `with_steps`."""

    steps: Annotated[int, Range(1, 10**9)] = 6000
    batch_size: Annotated[int, Range(2, 10**5)] = 16
    optimiser: Literal["adam", "muon"] = "adam"  # the paper's; one that learns more from a step
    learning_rate: Annotated[float, Range(above=0)] = 6e-3
    beta2: Decay = 0.98  # of Adam: how long it remembers squared gradients
    weight_decay: Amount = 1e-6  # Adam: added to the gradient; Muon: kernels shrink by this times the rate
    schedule: Literal["steps", "cosine"] = "cosine"
    warmup: Annotated[int, Range(0)] = 100  # steps of linear rise of the learning rate
    lr_decay_at: Annotated[tuple[int, ...], Range(0)] = ()  # learning rate / 10 at each (schedule "steps")
    recon_raise_at: Annotated[tuple[int, ...], Range(0)] = (3000,)  # reconstruction weight x 10 at each
    eqv_rise: Annotated[float, Range(above=0)] = (
        6.0  # the equivariance weight grows by this factor over the run
    )
    landmark_points_at: Annotated[tuple[int, int], Range(0)] = (
        1154,
        2308,
    )  # landmark control points: from none to all
    brightness: Amount = 0.125  # plus or minus, of the colour range
    contrast: Amount = 0.5  # factor 1 plus or minus
    tint: Amount = 0.0  # colours faded at random, and each channel times 1 plus or minus this
    gamma: Amount = 0.0  # colour values to the power of exp(plus or minus this)
    shade: Share = 0.0  # darker towards one side and brighter towards the other, by this at most
    blur: Share = 0.0  # half of the images are blurred, up to this part of the way to a mean over 5 pixels
    relight: bool = False  # the warped copy of an image gets a light of its own: all of the above
    mirror: bool = False  # half of the images mirrored: for objects that look the same then, such as faces
    stage: Literal["discover", "distill", "draw", "edit"] = "discover"  # `learning/training/stages`
    ema: Decay = 0.0  # decay of the weights' moving average that is kept as the model; 0 for none
    recalibration_images: Annotated[int, Range(2, 10**9)] = (
        1024  # for the batch-norm statistics of the final model
    )
    seed: Annotated[int, Range(0, 2**31 - 1)] = 0


@dataclass(frozen=True)
class VideoConfig:
    """Which frames of videos are learnt from, and how a frame is prepared, also for detection."""

    every: Annotated[int, Range(1, 10**9)] = 1  # take every so many frames
    frames: Annotated[int, Range(0, 10**9)] = (
        0  # and of those at most so many of each video, evenly spread; 0 for all
    )
    crop: tuple[float, ...] = ()  # region of interest: left, top, width, height in pixels
    frame: Annotated[
        tuple[int, ...], Range(1)
    ] = ()  # width and height of the frames that the crop is made for; training notes it
    background: Literal["keep", "grey", "mean"] = "keep"  # what becomes of a static camera's background
    follow: bool = False  # a square crop that follows what moves before that background
    zoom: bool = False  # the size of that crop follows the subject's, too; else one size for a video
    scale: Annotated[float, Range(0.1)] = 1.3  # edge of that crop over the subject's longer side


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
    views: Annotated[int, Range(1, MAX_VIEWS)] = 1  # of each image in detection; the paper has one


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


def with_values(config: Config, assignments: Sequence[str]) -> Config:
    """Change single values by their path, as `--set losses.sep=0 train.seed=3` does."""
    return _fitting(values.with_values(config, assignments, "config"))


def to_dict(config: Config) -> dict[str, Any]:
    return values.as_tree(config)


def from_dict(tree: Any) -> Config:
    """The config that `to_dict` gave, with unknown names, wrong types and impossible values refused."""
    return _fitting(values.build(Config, renamed.config(tree), "config"))


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


def check(config: Config) -> None:
    """Refuse what no model can be built from or no training can use."""
    _fitting(values.checked(config, "config"))


def _fitting(config: Config) -> Config:
    """A config whose values go together."""
    model, video = config.model, config.video
    if config.train.mirror and config.warp.flow_share:
        raise TrigpointError(
            "train.mirror and warp.flow_share do not go together: optical flow is not mirrored."
        )
    if video.crop and (len(video.crop) != 4 or min(video.crop[2:]) < 1):
        raise TrigpointError(f"video.crop must be left, top, width and height in pixels; got {video.crop}.")
    if video.frame and len(video.frame) != 2:
        raise TrigpointError(f"video.frame must be a width and a height in pixels; got {video.frame}.")
    if model.padded_size < model.image_size or (model.padded_size - model.image_size) % 2:
        raise TrigpointError(
            f"model.padded_size must exceed model.image_size by an even number of pixels; "
            f"got {model.padded_size} and {model.image_size}."
        )
    _check_nets(model)
    return config


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
