"""The public verbs from Python."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import trigpoint
from trigpoint import api
from trigpoint.core.config.presets import compact, preset, tiny
from trigpoint.core.config.tree import Config, to_dict
from trigpoint.core.errors import TrigpointError
from trigpoint.core.runs import Run
from trigpoint.core.sources import open_source
from trigpoint.learning.training.schedule import further
from trigpoint.learning.training.stages import discover


def bytes_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_five_lines_from_photos_to_landmarks(photos: Path, tmp_path: Path) -> None:
    trigpoint.train(photos, out=tmp_path / "run", preset="tiny-3", steps=2)
    model = trigpoint.load(tmp_path / "run")
    found = model.detect(photos / "01.png")
    assert found.points.shape == (3, 2)
    assert found.confidence.shape == (3,)


def test_train_returns_the_finished_run_with_its_report(colour_run: Run) -> None:
    assert colour_run.finished
    assert colour_run.report_file.is_file()
    assert colour_run.config().train.steps == 12


def test_the_package_offers_what_it_promises() -> None:
    for name in trigpoint.__all__:
        assert getattr(trigpoint, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = trigpoint.nothing


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, trigpoint; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# Which config


def choose(source: Path | str, landmarks: int | None = None, named: Path | str | None = None) -> Config:
    return api.choose(open_source(source), landmarks, None if named is None else api.named_config(named))


@pytest.mark.parametrize(
    ("size", "grey", "family", "channels"),
    [((28, 28), True, "tiny", 1), ((28, 28), False, "compact", 3), ((90, 60), True, "compact", 1)],
)
def test_a_preset_that_suits_the_images(
    make_photos: Callable[..., Path],
    tmp_path: Path,
    size: tuple[int, int],
    grey: bool,
    family: str,
    channels: int,
) -> None:
    chosen = choose(make_photos(tmp_path / "photos", 4, size, grey), landmarks=6)
    assert chosen.preset == f"{family}-6"
    assert chosen.model.channels == channels
    assert chosen.model.landmarks == 6


def test_one_coloured_photo_among_grey_ones_asks_for_colour(
    make_photos: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make_photos(tmp_path / "photos", 4, (60, 60), grey=True)
    Image.new("RGB", (60, 60), "red").save(folder / "zz.png")
    assert choose(folder) == compact(10, 3)


def test_unreadable_images_do_not_decide(make_photos: Callable[..., Path], tmp_path: Path) -> None:
    folder = make_photos(tmp_path / "photos", 3, (28, 28), grey=True)
    (folder / "00.jpg").write_text("no image")
    assert choose(folder, landmarks=7) == tiny(7)


def test_digits_are_tiny() -> None:
    assert choose("digits:3") == tiny(10)


def test_a_named_preset_with_another_number_of_landmarks(photos: Path) -> None:
    assert choose(photos, named="celeba-10") == preset("celeba-10")
    changed = choose(photos, 12, "celeba-10")
    assert changed.model.landmarks == 12
    assert changed.losses == preset("celeba-10").losses


def test_a_config_from_a_file_or_a_run(photos: Path, micro: Config, colour_run: Run, tmp_path: Path) -> None:
    file = tmp_path / "micro.json"
    file.write_text(json.dumps(to_dict(micro)))
    assert choose(photos, named=file) == micro
    assert choose(photos, named=str(file)) == micro
    assert choose(photos, named=colour_run.config_file) == colour_run.config()


def test_single_values_come_last(photos: Path, micro_colour: Config, tmp_path: Path) -> None:
    run = api.train(
        photos,
        tmp_path / "run",
        preset=micro_colour,
        landmarks=3,
        steps=2,
        values=["losses.sep=5", "train.seed=4"],
    )
    config = run.config()
    assert (config.model.landmarks, config.losses.sep, config.train.seed, config.train.steps) == (
        3,
        5.0,
        4,
        2,
    )


# Bad input


@pytest.mark.parametrize("count", [0, -3, 500])
def test_an_impossible_number_of_landmarks(photos: Path, tmp_path: Path, count: int) -> None:
    with pytest.raises(TrigpointError, match=f"model.landmarks must be between 1 and 100; got {count}"):
        api.train(photos, tmp_path / "run", landmarks=count)
    assert not (tmp_path / "run").exists()


def test_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(TrigpointError, match="holds no images"):
        api.train(tmp_path / "photos", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_one_image_and_then_enough(
    make_photos: Callable[..., Path], tmp_path: Path, micro_colour: Config
) -> None:
    """The refused attempt leaves nothing behind that is in the way of the next one."""
    folder = make_photos(tmp_path / "photos", 1)
    with pytest.raises(TrigpointError, match="at least 2 readable images; found 1"):
        api.train(folder, tmp_path / "run", preset=micro_colour, steps=2)
    make_photos(folder, 3)
    assert api.train(folder, tmp_path / "run", preset=micro_colour, steps=2).finished


def test_an_existing_run_is_kept(photos: Path, colour_run: Run) -> None:
    before = bytes_of(colour_run.folder)
    with pytest.raises(TrigpointError, match="already holds a finished run"):
        api.train(photos, colour_run.folder, preset="tiny-3", steps=2)
    assert bytes_of(colour_run.folder) == before


@pytest.mark.parametrize(
    "setting",
    [
        {"landmarks": 3},
        {"preset": "tiny-3"},
        {"steps": 5},
        {"preset": Config()},
        {"stage": "edit"},
        {"start": "digits-7"},
        {"values": ["train.seed=1"]},
    ],
)
def test_a_resumed_run_keeps_its_own_config(colour_run: Run, setting: dict) -> None:
    with pytest.raises(TrigpointError, match="A resumed run keeps its own config"):
        api.train((), colour_run.folder, existing="resume", **setting)


def test_a_resumed_run_knows_its_source(colour_run: Run) -> None:
    assert api.train(out=colour_run.folder, existing="resume").finished


def test_a_missing_model() -> None:
    with pytest.raises(TrigpointError, match="There is no run folder nowhere"):
        trigpoint.load("nowhere")


def test_numbers_below_zero_are_refused(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match=r"config\.train\.seed must be .*; got -1"):
        api.train(photos, tmp_path / "run", preset="tiny-3", steps=1, values=["train.seed=-1"])


def test_every_kind_of_image_can_be_trained_on(tmp_path: Path, micro_colour: Config) -> None:
    """Grey, alpha, 16 bits, CMYK, rotated, very long: all of them in one folder."""
    folder = tmp_path / "photos"
    folder.mkdir()
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (20, 30, 4), dtype=np.uint8)
    Image.fromarray(pixels[..., 0]).save(folder / "grey.png")
    Image.fromarray(pixels).save(folder / "alpha.png")
    Image.fromarray(pixels[..., 0].astype(np.uint16) * 257).save(folder / "deep.png")
    Image.fromarray(pixels[..., :3]).convert("CMYK").save(folder / "print.jpg")
    exif = Image.Exif()
    exif[0x0112] = 8
    Image.fromarray(pixels[..., :3]).save(folder / "turned.jpg", exif=exif)
    Image.fromarray(pixels[..., :3]).convert("P").save(folder / "palette.gif")
    Image.new("RGB", (9, 700), "green").save(folder / "long.png")
    run = api.train(folder, tmp_path / "run", preset=micro_colour, steps=2)
    assert run.summary()["train_images"] == 7
    assert run.summary()["skipped"] == {}


def test_trained_further_a_model_keeps_the_weights_its_losses_ended_with() -> None:
    config = preset("compact-10")
    after = further(config)
    assert after.losses.recon == pytest.approx(10 * config.losses.recon)
    assert after.losses.eqv == pytest.approx(config.train.eqv_rise * config.losses.eqv)
    for step in (0, after.train.steps):
        assert discover.STAGE.weights(after, step)["eqv"] == after.losses.eqv
        assert discover.STAGE.weights(after, step)["recon"] == after.losses.recon
