"""The config tree: JSON round trips, refusals that name the value found, and changed copies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from trigpoint.core.config.generator import GeneratorConfig
from trigpoint.core.config.presets import PAPER_PRESETS, preset
from trigpoint.core.config.tree import (
    MAX_LANDMARKS,
    Config,
    TrainConfig,
    check,
    from_dict,
    load_config,
    to_dict,
    with_steps,
    with_values,
)
from trigpoint.core.errors import TrigpointError

NAMES = [*PAPER_PRESETS, "compact-10", "compact-20", "compact-30", "tiny-7"]


def refusal(assignment: str) -> str:
    """The message with which one changed value of compact-10 is refused."""
    with pytest.raises(TrigpointError) as caught:
        with_values(preset("compact-10"), [assignment])
    return str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_round_trip_of_every_preset(name: str) -> None:
    """JSON text gives back an equal config, tuples included."""
    config = preset(name)
    again = from_dict(json.loads(json.dumps(to_dict(config))))
    assert again == config
    assert isinstance(again.train.landmark_points_at, tuple)


def test_to_dict_is_plain_and_complete() -> None:
    """Only JSON types, and a changed leaf is seen."""
    tree = to_dict(replace(Config(), fit="crop"))
    assert set(tree) == {"model", "losses", "warp", "train", "video", "preset", "fit", "views"}
    assert tree["fit"] == "crop"
    assert tree["train"]["landmark_points_at"] == [1154, 2308]


def test_missing_names_take_their_defaults() -> None:
    assert from_dict({"losses": {"sep": 3}}) == replace(Config(), losses=replace(Config().losses, sep=3.0))


def test_whole_number_becomes_a_float_where_one_is_due() -> None:
    sep = from_dict({"losses": {"sep": 3}}).losses.sep
    assert isinstance(sep, float)


@pytest.mark.parametrize(
    ("tree", "found"),
    [
        ({"colour": 1}, "'colour'"),
        ({"model": {"landmark": 10}}, "'landmark'"),
        ({"train": {"epochs": 10}}, "'epochs'"),
    ],
)
def test_unknown_names_are_named(tree: dict[str, Any], found: str) -> None:
    with pytest.raises(TrigpointError, match=found):
        from_dict(tree)


@pytest.mark.parametrize(
    ("tree", "where", "found"),
    [
        (None, "config", "None"),
        ([1, 2], "config", "[1, 2]"),
        ({"model": "compact"}, "config.model", "'compact'"),
        ({"model": {"landmarks": 10.5}}, "config.model.landmarks", "10.5"),
        ({"model": {"landmarks": "10"}}, "config.model.landmarks", "'10'"),
        ({"model": {"landmarks": True}}, "config.model.landmarks", "True"),
        ({"model": {"conv_bias": 1}}, "config.model.conv_bias", "1"),
        ({"model": {"detector": 32}}, "config.model.detector", "32"),
        ({"model": {"pooling": "max"}}, "config.model.pooling", "'max'"),
        ({"losses": {"sep": "much"}}, "config.losses.sep", "'much'"),
        ({"losses": {"sep": True}}, "config.losses.sep", "True"),
        ({"losses": {"sep": None}}, "config.losses.sep", "None"),
        ({"losses": {"concentration": "squared"}}, "config.losses.concentration", "'squared'"),
        ({"train": {"lr_decay_at": 100}}, "config.train.lr_decay_at", "100"),
        ({"train": {"recon_raise_at": [1, 2.5]}}, "config.train.recon_raise_at", "2.5"),
        ({"train": {"landmark_points_at": [77]}}, "config.train.landmark_points_at", "[77]"),
        ({"train": {"schedule": "linear"}}, "config.train.schedule", "'linear'"),
        ({"fit": "squeeze"}, "config.fit", "'squeeze'"),
    ],
)
def test_wrong_types_name_place_and_value(tree: Any, where: str, found: str) -> None:
    with pytest.raises(TrigpointError) as caught:
        from_dict(tree)
    message = str(caught.value)
    assert message.startswith(where + " ")
    assert found in message


@pytest.mark.parametrize(
    ("assignment", "found"),
    [
        ("model.landmarks=0", "0"),
        ("model.landmarks=-3", "-3"),
        (f"model.landmarks={MAX_LANDMARKS + 1}", str(MAX_LANDMARKS + 1)),
        ("model.channels=2", "2"),
        ("model.padded_size=48", "48"),  # smaller than the image
        ("model.padded_size=81", "81"),  # not centred
        ("model.padded_size=72", "72"),  # the detector halves it four times
        ("model.detector=32 P 32", "'32 P 32'"),  # never ends in out
        ("model.features=32 Q | 32 | out", "'Q'"),
    ],
)
def test_impossible_values_are_refused_with_the_value(assignment: str, found: str) -> None:
    assert found in refusal(assignment)


def test_mirrored_images_and_optical_flow_are_not_mixed() -> None:
    config = with_values(Config(), ["train.mirror=true"])
    assert config.train.mirror
    with pytest.raises(TrigpointError, match="do not go together"):
        with_values(config, ["warp.flow_share=0.5"])


@pytest.mark.parametrize(
    "assignment",
    [
        "train.steps=0",
        "train.batch_size=1",
        "losses.sep_sigma=0",
        "losses.colour_sigma=-0.05",
        "model.decoder_sigma=0",
    ],
)
def test_values_below_their_least_are_refused(assignment: str) -> None:
    """The message names the setting that is wrong."""
    name = assignment.partition("=")[0].rpartition(".")[2]
    assert name in refusal(assignment)


@pytest.mark.parametrize(
    ("assignment", "found"),
    [
        ("train.steps=-5", "-5"),
        ("train.batch_size=-7", "-7"),
        ("losses.sep_sigma=-0.25", "-0.25"),
        ("losses.colour_sigma=-0.25", "-0.25"),
        ("model.decoder_sigma=-0.25", "-0.25"),
    ],
)
def test_values_below_their_least_are_named(assignment: str, found: str) -> None:
    assert found in refusal(assignment)


@pytest.mark.parametrize(
    "assignment",
    [
        "model.image_size=66",  # a quarter of it is no whole number: decodes 64 pixels
        "model.decoder=32 P | 64 | U out",  # the stem halves what the tail doubles: 32 pixels
    ],
)
def test_decoder_that_cannot_give_the_image_size_is_refused(assignment: str) -> None:
    refusal(assignment)


@pytest.mark.parametrize(
    "assignment",
    [
        "losses.sep=NaN",
        "losses.eqv=Infinity",
        "model.decoder_sigma=NaN",
        "model.decoder_levels=0",
        "model.descriptor_size=-1",
        "model.feature_channels=0",
        "model.detector=0/out",
        "warp.scaling=0",
        "warp.grid=1",
        "train.learning_rate=-1",
    ],
)
def test_values_that_crash_later_are_refused(assignment: str) -> None:
    refusal(assignment)


@pytest.mark.parametrize("digits", [400, 5000])
def test_numbers_beyond_a_float_are_refused(digits: int) -> None:
    refusal("losses.sep=1" + "0" * digits)


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_passes_the_check(name: str) -> None:
    """And fails it with one wrong value, so the check does look at it."""
    config = preset(name)
    check(config)
    with pytest.raises(TrigpointError, match="landmarks"):
        check(replace(config, model=replace(config.model, landmarks=0)))


def test_with_steps_scales_every_milestone() -> None:
    config = with_steps(preset("car-10"), 1200)  # of 120,000
    train = config.train
    assert train.steps == 1200
    assert train.lr_decay_at == (400, 800)
    assert train.recon_raise_at == (400, 500)
    assert train.landmark_points_at == (50, 100)


def test_with_steps_rounds_to_whole_steps() -> None:
    base = replace(Config(), train=TrainConfig(steps=10, recon_raise_at=(1, 5), landmark_points_at=(2, 4)))
    train = with_steps(base, 4).train
    assert train.recon_raise_at == (0, 2)  # 0.4, 2.0
    assert train.landmark_points_at == (1, 2)  # 0.8, 1.6


def test_with_steps_keeps_the_warm_up_short() -> None:
    config = preset("compact-10")  # 100 steps of 5,000
    assert with_steps(config, 200).train.warmup == 20
    assert with_steps(config, 50_000).train.warmup == 100


def test_with_steps_changes_nothing_else() -> None:
    config = preset("celeba-10")
    assert with_steps(config, config.train.steps) == config
    shorter = with_steps(config, 100)
    assert (shorter.model, shorter.losses, shorter.warp) == (config.model, config.losses, config.warp)
    assert shorter.train.batch_size == config.train.batch_size


@pytest.mark.parametrize("steps", [0, -20])
def test_with_steps_refuses_less_than_one(steps: int) -> None:
    with pytest.raises(TrigpointError, match=f"got {steps}"):
        with_steps(Config(), steps)


def test_with_values_changes_what_was_named_and_nothing_else() -> None:
    base = preset("compact-10")
    config = with_values(base, ["losses.sep=0", "train.seed=3", "fit=crop", "train.recon_raise_at=[5, 9]"])
    assert config.losses.sep == 0.0
    assert config.train.seed == 3
    assert config.fit == "crop"
    assert config.train.recon_raise_at == (5, 9)
    undone = replace(
        config,
        losses=replace(config.losses, sep=base.losses.sep),
        train=replace(config.train, seed=base.train.seed, recon_raise_at=base.train.recon_raise_at),
        fit=base.fit,
    )
    assert undone == base


def test_with_values_takes_text_as_it_stands() -> None:
    """A network holds spaces, bars and slashes; a value may hold an equals sign."""
    net = "16 P | 32/32 S1 P 32 | out1"
    assert with_values(Config(), [f"model.detector={net}"]).model.detector == net
    assert with_values(Config(), ["preset=a=b"]).preset == "a=b"


def test_with_values_last_one_counts() -> None:
    assert with_values(Config(), ["losses.sep=1", "losses.sep=2"]).losses.sep == 2.0


def test_with_values_of_nothing_is_the_same() -> None:
    assert with_values(preset("mnist-7"), []) == preset("mnist-7")


@pytest.mark.parametrize(
    "path", ["losses.sepp", "loss.sep", "sep", "model", "model.landmarks.x", "a.b.c.d", "", ".sep"]
)
def test_with_values_names_a_path_that_does_not_exist(path: str) -> None:
    assert repr(path) in refusal(f"{path}=1")


@pytest.mark.parametrize("text", ["losses.sep", "", "losses.sep 0"])
def test_with_values_shows_the_form_it_takes(text: str) -> None:
    message = refusal(text)
    assert "name=value" in message
    assert repr(text) in message


@pytest.mark.parametrize("text", ["", "often", "[1", "null"])
def test_with_values_refuses_a_wrong_value(text: str) -> None:
    assert "config.losses.sep must be of type float" in refusal(f"losses.sep={text}")


def test_load_config_reads_a_config_and_a_run(tmp_path: Path) -> None:
    """The config alone, or under `config` beside other things as a run stores it."""
    config = preset("tiny-7")
    alone, run = tmp_path / "alone.json", tmp_path / "run.json"
    alone.write_text(json.dumps(to_dict(config)))
    run.write_text(json.dumps({"config": to_dict(config), "versions": {"torch": "2"}}))
    assert load_config(alone) == config
    assert load_config(run) == config


@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe\x00", 5000 * b"[" + 5000 * b"]"])
def test_load_config_names_an_unreadable_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(TrigpointError, match=r"broken\.json"):
        load_config(path)


def test_a_wrong_value_is_quoted_in_part(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_text(json.dumps({"preset": "tiny", "model": {"detector": ["x" * 70_000], "channels": 1}}))
    with pytest.raises(TrigpointError) as caught:
        load_config(path)
    assert len(str(caught.value)) < 200
    with pytest.raises(TrigpointError) as caught:
        with_values(Config(), [70_000 * "x"])
    assert len(str(caught.value)) < 200


def test_load_config_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match=r"absent\.json"):
        load_config(tmp_path / "absent.json")


def numbers(kind: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number of a config, and what its field is annotated with."""
    for name, hint in get_type_hints(kind, include_extras=True).items():
        inner = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        if is_dataclass(inner):
            yield from numbers(inner, f"{path}{name}.")
        elif inner in (int, float) or (get_origin(inner) is tuple and get_args(inner)[0] is int):
            yield f"{path}{name}", hint


@pytest.mark.parametrize("kind", [Config, GeneratorConfig])
def test_every_number_has_bounds(kind: Any) -> None:
    unbounded = [path for path, hint in numbers(kind) if get_origin(hint) is not Annotated]
    assert not unbounded


def test_a_negative_weight_of_a_loss_is_refused() -> None:
    assert "config.losses.sep must be at least 0; got -16" in refusal("losses.sep=-16")
