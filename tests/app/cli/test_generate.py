"""`trigpoint generate`: what it writes, says and refuses."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageSequence

from trigpoint.app.cli import generate
from trigpoint.core.config.generator import COMPACT
from trigpoint.core.generator_run import GeneratorRun
from trigpoint.core.inference.predictor import ZOO, Predictor
from trigpoint.core.runs import Run
from trigpoint.learning.editing.editor import Editor
from trigpoint.learning.editing.render import enlarge
from trigpoint.learning.generation import train as training
from trigpoint.learning.generation.sampler import TILE, Sampler

Call = Callable[..., Any]  # the fixture `trigpoint`
SMALL = (
    "latent=16", "width=4", "decoder=| 8/8 S1 P 8 | U 8 out", "critic_width=4", "critic_hidden=4",
    "batch_size=2", "recalibration_images=4",
)  # fmt: skip
FRAMES = 5  # between two stations of a walk in these tests


@pytest.fixture
def place(generator_run: GeneratorRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that commands are given in, with twelve digits in `threes` and two beside."""
    with np.load(generator_run.samples_file) as kept:
        pixels = kept["pixels"]
    folder = tmp_path / "place"
    (folder / "threes").mkdir(parents=True)
    for i in range(12):
        Image.fromarray(pixels[i, :, :, 0]).save(folder / "threes" / f"{i:02d}.png")
    for i, name in enumerate(("a.png", "b.png")):
        Image.fromarray(pixels[i, :, :, 0]).save(folder / name)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def sampler(generator_run: GeneratorRun) -> Sampler:
    return Sampler.load(generator_run.folder)


@pytest.fixture
def sample(trigpoint: Call, generator_run: GeneratorRun, place: Path) -> Call:
    """`trigpoint generate sample` of the small generator."""

    def call(*words: object) -> object:
        return trigpoint("generate", "sample", generator_run.folder, *words)

    return call


@pytest.fixture
def evaluate(trigpoint: Call, generator_run: GeneratorRun, place: Path) -> Call:
    def call(*words: object) -> object:
        return trigpoint("generate", "evaluate", generator_run.folder, *words)

    return call


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def pixels_of(path: Path) -> NDArray[np.uint8]:
    with Image.open(path) as opened:
        return np.asarray(opened)


def landmarks_of(sampler: Sampler, name: str) -> NDArray[np.float64]:
    return Editor(sampler.predictor).encode(name).landmarks


def made_of(sampler: Sampler, name: str, count: int, seed: int) -> NDArray[np.uint8]:
    """What the samples of an image should be."""
    landmarks = np.repeat(landmarks_of(sampler, name)[None], count, axis=0)
    return sampler.generate(landmarks, sampler.latents(max(count, generate.STATIONS), seed)[:count])


# The verb itself


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_alone_it_lists_its_verbs(trigpoint: Call, words: tuple[str, ...]) -> None:
    said = trigpoint("generate", *words)
    assert said.code == 0
    assert said.err == ""
    for verb in ("train MODEL SOURCE --out RUN", "sample RUN --like IMAGE", "evaluate RUN SOURCE"):
        assert any(
            line.partition("trigpoint generate ")[2].startswith(verb) for line in said.out.splitlines()
        )


@pytest.mark.parametrize("verb", ["fly", "Train", ""])
def test_what_is_no_verb_is_refused(trigpoint: Call, verb: str) -> None:
    assert trigpoint("generate", verb).refused(
        f"trigpoint generate takes train, sample, evaluate; got {verb!r}."
    )


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("train", ("--out", "--preset", "--steps", "--set", "--seed", "--resume", "--overwrite")),
        ("sample", ("--like", "--out", "--count", "--seed", "--walk", "--overwrite")),
        ("evaluate", ("--references", "--features", "--seed", "--json")),
    ],
)
def test_help_has_an_example(trigpoint: Call, verb: str, options: tuple[str, ...]) -> None:
    said = trigpoint("generate", verb, "--help")
    assert said.code == 0
    assert f"Example: trigpoint generate {verb}" in said.out
    assert f"usage: trigpoint generate {verb}" in said.out
    assert all(option in said.out for option in options)


def test_the_list_of_verbs_names_it(trigpoint: Call) -> None:
    assert "generate    make new images on the structure of given ones" in trigpoint("--help").out


# train


def test_a_generator_from_a_shipped_model(trigpoint: Call, place: Path) -> None:
    said = trigpoint(
        "generate", "train", "digits-7", "threes", "--out", "new/run", "--steps", 3, "--seed", 5,
        "--threads", 1, "--set", *SMALL,
    )  # fmt: skip
    assert said.code == 0, said
    run = GeneratorRun(Path("new/run"))
    assert run.finished
    assert run.settings().steps == 3
    assert run.settings().seed == 5
    assert run.settings().gamma == COMPACT.gamma
    assert run.meta()["source"] == ["threes"]
    assert run.summary()["train_images"] == 12
    assert {"config.json", "model/config.json", "model/model.safetensors", "generator.safetensors",
            "report.html", "checkpoint/state.safetensors"} <= files(place / "new/run")  # fmt: skip
    first, speed, report, following = said.out.splitlines()
    assert first.startswith("Landmarks on generated images lie within ")
    assert re.fullmatch(r"Speed: \d+ images/s; peak memory \d+ MB\.", speed)
    assert report == "Report: new/run/report.html"
    assert following == "Next:   trigpoint generate sample new/run --like IMAGE... --out made"
    # Every verb takes it as the landmark model.
    said = trigpoint("detect", "new/run", "a.png", "--out", "found")
    assert said.code == 0
    assert (place / "found/landmarks.csv").is_file()


def test_a_generator_of_a_colour_run_from_options_in_front(
    trigpoint: Call, colour_run: Run, photos: Path, place: Path
) -> None:
    """All the way: train, sample, evaluate."""
    said = trigpoint(
        "generate", "train", "--out", "run", "--steps", 2, "--threads", 1, colour_run.folder, photos,
        "--set", *SMALL[:2], *SMALL[3:],
    )  # fmt: skip
    assert said.code == 0, said
    said = trigpoint("generate", "sample", "run", "--like", photos / "00.jpg", "--count", 2, "--out", "made")
    assert said == (0, "2 samples of 1 image: made/grid.png\n", "")
    assert pixels_of(place / "made/00-1.png").shape == (32, 32, 3)
    said = trigpoint("generate", "evaluate", "run", photos, "--references", 3, "--json")
    assert json.loads(said.out)["references"] == 3


def test_images_that_cannot_be_read_are_told(trigpoint: Call, place: Path) -> None:
    (place / "threes/letter.png").write_text("Dear diary")
    said = trigpoint("generate", "train", "digits-7", "threes", "--out", "run", "--steps", 1, "--threads", 1,
                  "--set", *SMALL)  # fmt: skip
    assert said.code == 0
    assert "Skipped 1 unreadable image: letter.png (not a readable image" in said.out


def test_interrupted_and_resumed(trigpoint: Call, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = training.gradients, 0

    def interrupted(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return original(*args)

    words = ("generate", "train", "digits-7", "threes", "--steps", 4, "--threads", 1)
    assert trigpoint(*words, "--out", "calm", "--set", *SMALL).code == 0
    with monkeypatch.context() as patch:
        patch.setattr(training, "gradients", interrupted)
        said = trigpoint(*words, "--out", "run", "--set", *SMALL)
    assert said.code == 1
    assert said.out == ""
    assert "Stopped at step 2 of 4; everything is saved in run." in said.err
    assert "Go on with: trigpoint generate train --out run --resume\n" in said.err
    assert not GeneratorRun(Path("run")).finished
    for verb in (("sample", "run", "--like", "a.png", "--out", "made"), ("evaluate", "run", "threes")):
        said = trigpoint("generate", *verb)
        assert said.refused(
            "The run run is not finished: it has no generator.safetensors; go on with --resume."
        )

    for _ in range(2):  # the second time there is nothing left to do
        said = trigpoint("generate", "train", "--out", "run", "--resume", "--threads", 1)
        assert said.code == 0
        assert "Report: run/report.html" in said.out
        assert (place / "run/report.html").is_file()
        weights = [(place / name / "generator.safetensors").read_bytes() for name in ("run", "calm")]
        assert weights[0] == weights[1]


def test_a_training_that_fails_says_why(
    trigpoint: Call, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = training.gradients
    monkeypatch.setattr(training, "gradients", lambda *args: original(*args) | {"real": np.float64(math.nan)})
    said = trigpoint("generate", "train", "digits-7", "threes", "--out", "run", "--steps", 4, "--threads", 1,
                  "--set", *SMALL)  # fmt: skip
    assert said.code == 1
    assert said.err.startswith("trigpoint: Training stopped at step 0: ")
    assert said.err.count("\n") == 1


TRAIN = ("generate", "train", "digits-7", "threes")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (TRAIN, "Name the run folder to write: --out runs/NAME."),
        (("generate", "train", "--out", "run"), "Name the landmark model that the generator is for"),
        (("generate", "train", "digits-7", "--out", "run"), "Name a source: a folder of images"),
        (("generate", "train", "nothing", "threes", "--out", "run"), "There is no run folder nothing"),
        (("generate", "train", "digits-7", "nowhere", "--out", "run"), "There is no file or folder nowhere."),
        (("generate", "train", "threes", "threes", "--out", "run"), "it has no config.json."),
        ((*TRAIN, "--out", "run", "--resume", "--overwrite"), "give one of them."),
        ((*TRAIN, "--out", "run", "--threads", "0"), "--threads must be at least 1; got 0."),
        ((*TRAIN, "--out", "run", "--steps", "0"), "steps must be between 1 and 1000000000; got 0."),
        ((*TRAIN, "--out", "run", "--seed", "-1"), "seed must be between 0 and 2147483647; got -1."),
        ((*TRAIN, "--out", "run", "--set", "gamma"), "--set takes name=value, such as seed=3; got"),
        ((*TRAIN, "--out", "run", "--set", "nose=1"), "there is no value 'nose'; there are latent, width,"),
        ((*TRAIN, "--out", "run", "--set", "gamma=2"), "generator.gamma must be between 0 and 1; got 2.0."),
        ((*TRAIN, "--out", "run", "--preset", "paper"), "generator.decoder must give an image of 28 pixels"),
        ((*TRAIN, "--out", "run", "--set", "decoder=| 8 |"), "must end in 'out'."),
        ((*TRAIN, "--out", "a.png"), "a.png is a file; --out names a folder."),
        ((*TRAIN, "--out", "threes"), "threes is not empty and holds no run; choose another --out."),
        (("generate", "train", "--out", "run", "--resume"), "run is no run folder: it has no config.json."),
        ((*TRAIN, "--out", "a.png/run"), "a.png"),
    ],
)
def test_bad_options_of_train_are_refused_in_one_sentence(
    trigpoint: Call, place: Path, words: tuple[str, ...], expected: str
) -> None:
    before = files(place)
    said = trigpoint(*words)
    assert said.refused(expected)
    assert said.out == ""
    assert files(place) == before


@pytest.mark.parametrize(
    "words",
    [("--steps", "5"), ("--seed", "1"), ("--set", "gamma=0.7"), ("--preset", "paper")],
)
def test_a_resumed_run_keeps_its_settings(
    trigpoint: Call, generator_run: GeneratorRun, words: tuple[str, ...]
) -> None:
    said = trigpoint("generate", "train", "--out", generator_run.folder, "--resume", *words)
    assert said.refused("A resumed run keeps its own settings: give --resume without others.")


def test_a_run_that_exists_is_replaced_only_when_asked(
    trigpoint: Call, generator_run: GeneratorRun, place: Path
) -> None:
    shutil.copytree(generator_run.folder, place / "run")
    words = (*TRAIN, "--out", "run", "--threads", 1, "--steps", 1)
    assert trigpoint(*words, "--set", *SMALL).refused("run already holds")
    assert trigpoint(*words, "--overwrite", "--set", "steps=0").refused("steps must be between 1 and")
    assert GeneratorRun(Path("run")).model_file.read_bytes() == generator_run.model_file.read_bytes()
    assert trigpoint(*words, "--overwrite", "--set", *SMALL).code == 0
    assert GeneratorRun(Path("run")).settings().steps == 1


def test_the_model_itself_is_never_replaced(trigpoint: Call, place: Path) -> None:
    shutil.copytree(ZOO / "digits-7", place / "model")
    words = ("generate", "train", "model", "threes", "--out", "model")
    assert trigpoint(*words).refused("model already holds")
    assert trigpoint(*words, "--overwrite").refused("model holds the model that the generator is for;")
    assert trigpoint("generate", "train", "--out", "model", "--resume").refused(
        "is no run of `trigpoint generate"
    )
    assert Predictor.load("model").landmarks == 7


# sample


def test_samples_of_two_images(sample: Call, sampler: Sampler, place: Path) -> None:
    said = sample("--like", "a.png", "b.png", "--out", "new/made")
    assert said == (0, "8 samples of 2 images: new/made/grid.png\n", "")
    assert files(place / "new/made") == {
        "grid.png", *(f"{name}-{i}.png" for name in "ab" for i in range(8)),
    }  # fmt: skip
    for name in "ab":
        expected = made_of(sampler, f"{name}.png", 8, seed=0)
        for i in range(8):
            seen = pixels_of(place / f"new/made/{name}-{i}.png")
            np.testing.assert_array_equal(seen, np.repeat(expected[i], 3, axis=2))
    grid = pixels_of(place / "new/made/grid.png")
    edge = TILE + 4
    assert grid.shape == (2 * edge + 4, 9 * edge + 4, 3)
    tile = grid[edge + 4 : edge + 4 + TILE, 3 * edge + 4 : 3 * edge + 4 + TILE]  # second row, third sample
    expected = enlarge(pixels_of(place / "new/made/b-2.png"), TILE)
    np.testing.assert_allclose(tile.astype(int), expected.astype(int), atol=2)


@pytest.mark.parametrize(("count", "columns"), [(1, 1), (3, 3), (18, 16)])
def test_the_grid_shows_sixteen_at_most(sample: Call, place: Path, count: int, columns: int) -> None:
    assert sample("--like", "a.png", "--count", count, "--out", "made").code == 0
    assert len(files(place / "made")) == 1 + count
    with Image.open(place / "made/grid.png") as opened:
        assert opened.size == ((1 + columns) * (TILE + 4) + 4, TILE + 8)


def test_the_seed_decides(sample: Call, sampler: Sampler, place: Path) -> None:
    """Also of the first of several images, but for the rounding of another batch size."""
    for out, seed, count in (("one", 7, 2), ("two", 7, 2), ("three", 8, 2), ("four", 7, 6)):
        assert sample("--like", "a.png", "--seed", seed, "--count", count, "--out", out).code == 0
    first, again, other = (
        [(place / out / f"a-{i}.png").read_bytes() for i in range(2)] for out in ("one", "two", "three")
    )
    assert first == again
    for i in range(2):
        one, four = (pixels_of(place / out / f"a-{i}.png").astype(int) for out in ("one", "four"))
        assert np.abs(one - four).max() <= 1
    assert first[0] != first[1]
    assert set(first).isdisjoint(other)
    seen = pixels_of(place / "three/a-1.png")
    np.testing.assert_array_equal(seen, np.repeat(made_of(sampler, "a.png", 2, seed=8)[1], 3, axis=2))


def test_images_of_one_name(sample: Call, sampler: Sampler, place: Path) -> None:
    said = sample("--like", "a.png", "threes/01.png", "threes/../a.png", "--count", 2, "--out", "made")
    assert said.code == 0
    assert files(place / "made") == {
        "grid.png", *(f"{name}-{i}.png" for name in ("a-0", "01-1", "a-2") for i in range(2)),
    }  # fmt: skip
    assert (place / "made/a-0-1.png").read_bytes() == (place / "made/a-2-1.png").read_bytes()
    seen = pixels_of(place / "made/01-1-0.png")
    np.testing.assert_array_equal(seen, np.repeat(made_of(sampler, "threes/01.png", 2, seed=0)[0], 3, axis=2))


def test_a_colour_photo_for_a_grey_model(sample: Call, photos: Path, place: Path) -> None:
    assert sample("--like", photos / "00.jpg", "--count", 1, "--out", "made").code == 0
    assert pixels_of(place / "made/00-0.png").shape == (28, 28, 3)


# walks


def gif_frames(path: Path) -> tuple[int, list[NDArray[np.uint8]]]:
    """How many 25ths of a second it lasts, and what it shows; equal neighbours are stored as one."""
    with Image.open(path) as opened:
        assert opened.format == "GIF"
        assert opened.info["loop"] == 0
        shown = [(frame.info["duration"], np.asarray(frame.convert("RGB"))) for frame in
                 ImageSequence.Iterator(opened)]  # fmt: skip
    return sum(duration for duration, _ in shown) // 40, [picture for _, picture in shown]


def mp4_frames(path: Path) -> tuple[int, list[NDArray[np.uint8]]]:
    with av.open(str(path)) as container:
        shown = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    return len(shown), shown


@pytest.mark.parametrize(("kind", "read"), [("gif", gif_frames), ("mp4", mp4_frames)])
def test_walks(
    sample: Call,
    sampler: Sampler,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    read: Callable[[Path], tuple[int, list[NDArray[np.uint8]]]],
) -> None:
    monkeypatch.setattr(generate, "FRAMES", FRAMES)
    said = sample("--like", "a.png", "b.png", "--count", 2, "--walk", kind, "--out", "made")
    assert said == (0, "2 samples of 2 images: made/grid.png\n", "")
    assert len(files(place / "made")) == 7
    appearances, shown = read(place / f"made/latents.{kind}")
    assert appearances == generate.STATIONS * FRAMES
    structures, moved = read(place / f"made/landmarks.{kind}")
    assert structures == 2 * FRAMES
    assert {picture.shape for picture in (*shown, *moved)} == {(256, 256, 3)}
    # Both walks go out from the first image in the first appearance.
    first = enlarge(made_of(sampler, "a.png", 1, seed=0)[0], 256).astype(int)
    for picture in (shown[0], moved[0]):
        assert np.abs(picture.astype(int) - first).mean() < 6
    assert len({picture.tobytes() for picture in shown}) > generate.STATIONS
    assert len({picture.tobytes() for picture in moved}) > 2


def test_a_walk_passes_its_stations(
    sample: Call, sampler: Sampler, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the generator is asked for: every station once, and back to the first."""
    asked: list[tuple[NDArray[np.float32], NDArray[np.float32]]] = []
    original = Sampler.generate

    def noted(self: Sampler, landmarks: NDArray[np.float32], latents: NDArray[np.float32]) -> Any:
        asked.append((landmarks, latents))
        return original(self, landmarks, latents)

    monkeypatch.setattr(generate, "FRAMES", FRAMES)
    monkeypatch.setattr(Sampler, "generate", noted)
    assert sample("--like", "a.png", "b.png", "--count", 2, "--walk", "gif", "--out", "made").code == 0
    stations = sampler.latents(generate.STATIONS, 0)
    one, other = (landmarks_of(sampler, name) for name in ("a.png", "b.png"))
    (same, way), (course, still) = asked[-2:]
    np.testing.assert_allclose(way[::FRAMES], stations, atol=1e-5)
    np.testing.assert_allclose(same, np.repeat(one[None], len(way), axis=0), atol=1e-5)
    steps = np.linalg.norm(np.diff(way, axis=0), axis=1)
    assert steps.min() > 0.1  # no station is shown twice
    np.testing.assert_allclose(course[::FRAMES], [one, other], atol=1e-5)
    np.testing.assert_allclose(course[1], one + (other - one) / FRAMES, atol=1e-5)
    np.testing.assert_allclose(still, np.repeat(stations[:1], len(course), axis=0), atol=1e-6)


def test_one_image_has_no_way_to_another(sample: Call, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "FRAMES", FRAMES)
    assert sample("--like", "a.png", "--count", 1, "--walk", "gif", "--out", "made").code == 0
    assert files(place / "made") == {"grid.png", "a-0.png", "latents.gif"}


# What sample refuses


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--like", "a.png", "--count", "0"], "--count must be between 1 and 1000; got 0."),
        (["--like", "a.png", "--count", "-3"], "--count must be between 1 and 1000; got -3."),
        (["--like", "a.png", "--count", "1001"], "--count must be between 1 and 1000; got 1001."),
        (["--like", "a.png", "--seed", "-1"], "--seed must be between 0 and 2147483647; got -1."),
        (["--like", "a.png", "--seed", "2147483648"], "--seed must be between 0 and 2147483647; got"),
        (["--like", "nowhere.png"], "There is no file nowhere.png."),
        (["--like", "a.png", "nowhere.png"], "There is no file nowhere.png."),
        (["--like", "threes"], "There is no file threes."),
        (["--like", "letter.png"], "letter.png: not a readable image ("),
        (["--like", "a.png", "torn.png"], "torn.png: not a readable image ("),
        (["--like"], "Name the images whose landmarks the new ones shall have: --like IMAGE."),
    ],
)
def test_bad_options_of_sample_are_refused_in_one_sentence(
    sample: Call, place: Path, words: list[str], expected: str
) -> None:
    (place / "letter.png").write_text("Dear diary")
    whole = (place / "a.png").read_bytes()
    (place / "torn.png").write_bytes(whole[: len(whole) // 2])
    before = files(place)
    said = sample("--out", "made", *words)
    assert said.refused(expected)
    assert said.out == ""
    assert files(place) == before


def test_a_file_is_no_folder(sample: Call, place: Path) -> None:
    assert sample("--like", "a.png", "--out", "b.png").refused("b.png is a file; --out names a folder.")
    assert sample("--like", "a.png", "--out", "b.png/made").refused("b.png/made")


@pytest.mark.parametrize("name", ["grid.png", "a-0.png", "b-1.png", "latents.gif", "landmarks.gif"])
def test_files_are_replaced_only_when_asked(
    sample: Call, place: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(generate, "FRAMES", 2)
    (place / "made").mkdir()
    (place / "made" / name).write_text("mine")
    (place / "made/other.txt").write_text("mine")
    words = ("--like", "a.png", "b.png", "--count", 2, "--walk", "gif", "--out", "made")
    assert sample(*words).refused(f"made/{name} exists; --overwrite replaces it.")
    assert files(place / "made") == {name, "other.txt"}
    assert (place / "made" / name).read_text() == "mine"
    assert sample(*words, "--overwrite").code == 0
    assert (place / "made" / name).read_bytes() != b"mine"
    assert (place / "made/other.txt").read_text() == "mine"


def test_more_samples_beside_those_that_are_there(sample: Call, place: Path) -> None:
    """Only what would be replaced is in the way."""
    (place / "made").mkdir()
    (place / "made/a-5.png").write_text("mine")
    assert sample("--like", "a.png", "--count", 2, "--out", "made").code == 0
    assert (place / "made/a-5.png").read_text() == "mine"


@pytest.mark.parametrize("run", ["nowhere", "digits-7", "threes", str(ZOO / "digits-7")])
def test_what_is_no_generator_is_refused(trigpoint: Call, place: Path, run: str) -> None:
    said = trigpoint("generate", "sample", run, "--like", "a.png", "--out", "made")
    assert said.refused("is no run of `trigpoint generate train`.")
    assert trigpoint("generate", "evaluate", run, "threes").refused(
        "is no run of `trigpoint generate train`."
    )
    assert not (place / "made").exists()


def test_a_damaged_generator_is_named(trigpoint: Call, generator_run: GeneratorRun, place: Path) -> None:
    shutil.copytree(generator_run.folder, place / "run")
    whole = generator_run.model_file.read_bytes()
    (place / "run/generator.safetensors").write_bytes(whole[: len(whole) // 2])
    words = "run/generator.safetensors is damaged or no safetensors file"
    assert trigpoint("generate", "sample", "run", "--like", "a.png", "--out", "made").refused(words)
    assert trigpoint("generate", "evaluate", "run", "threes").refused(words)


@pytest.mark.parametrize(
    "words",
    [
        ("sample", "RUN", "--like", "a.png"),
        ("sample", "RUN", "--out", "made"),
        ("sample", "--like", "a.png", "--out", "made"),
        ("sample", "RUN", "--like", "a.png", "--out", "made", "--walk", "avi"),
        ("sample", "RUN", "--like", "a.png", "--out", "made", "--count", "many"),
        ("evaluate", "RUN", "threes", "--features", "noses"),
        ("train", "digits-7", "threes", "--out", "made", "--preset", "huge"),
        ("train", "digits-7", "threes", "--out", "made", "--nose", "1"),
    ],
)
def test_what_the_command_line_does_not_know(
    trigpoint: Call, generator_run: GeneratorRun, place: Path, words: tuple[str, ...]
) -> None:
    said = trigpoint("generate", *(generator_run.folder if word == "RUN" else word for word in words))
    assert said.code == 2
    assert said.err
    assert "Traceback" not in said.err
    assert not (place / "made").exists()


# evaluate


def test_the_measures_as_text(evaluate: Call) -> None:
    said = evaluate("threes", "--references", 5)
    assert said.code == 0
    assert said.err == ""
    first, structure, diversity, realism, *kernel = said.out.splitlines()
    assert first == "5 references, K = 7, seed 0"
    assert re.fullmatch(
        r"structure   landmarks found again within \d+\.\d\d% of the image edge; \d+\.\d\d% from another "
        r"reference's \(\d+\.\d times\)",
        structure,
    )
    assert re.fullmatch(
        r"diversity   samples of one reference are \d\.\d{3} apart, real images \d\.\d{3} \(\d+%\)", diversity
    )
    assert realism == "realism     kernel distance to as many other real images (pixels features):"
    assert [line.split()[0] for line in kernel] == ["samples", "reconstructions", "real"]


def test_the_measures_as_json(evaluate: Call) -> None:
    said = evaluate("threes", "--references", 5, "--seed", 3, "--json")
    assert said.code == 0
    result = json.loads(said.out)
    assert (result["references"], result["landmarks"], result["seed"]) == (5, 7, 3)
    assert set(result["kernel_distance"]) == {"samples", "reconstructions", "real"}
    assert evaluate("threes", "--references", 5, "--seed", 3, "--json").out == said.out
    assert json.loads(evaluate("threes", "--references", 5, "--seed", 4, "--json").out) != result


def test_it_uses_the_test_images_of_a_source_that_has_some(
    trigpoint: Call, colour_run: Run, faces: Path, place: Path
) -> None:
    """Of 12 faces to train with and 4 to test with: two references, two others."""
    said = trigpoint("generate", "train", colour_run.folder, f"mtfl:{faces}", "--out", "run", "--steps", 1,
                  "--threads", 1, "--set", *SMALL[:2], *SMALL[3:])  # fmt: skip
    assert said.code == 0, said
    said = trigpoint("generate", "evaluate", "run", f"mtfl:{faces}", "--json")
    assert json.loads(said.out)["references"] == 2


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["threes", "--references", "1"], "--references must be at least 2; got 1."),
        (["threes", "--references", "-5"], "--references must be at least 2; got -5."),
        (["threes", "--seed", "-1"], "--seed must be between 0 and 2147483647; got -1."),
        (["threes", "--seed", "99999999999999999999"], "--seed must be between 0 and 2147483647; got"),
        (["nowhere"], "There is no file or folder nowhere."),
        (["a.png", "b.png"], "Measuring needs at least 4 images; the source has 2."),
        ([], "Name a source: a folder of images"),
    ],
)
def test_bad_options_of_evaluate_are_refused_in_one_sentence(
    evaluate: Call, words: list[str], expected: str
) -> None:
    said = evaluate(*words)
    assert said.refused(expected)
    assert said.out == ""


def test_faces_need_another_package(evaluate: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trigpoint.learning.evaluation.faces.importlib.util.find_spec", lambda name: None)
    said = evaluate("threes", "--references", 3, "--features", "dlib")
    assert said.refused("The package dlib is not installed; dlib's face models come with pip install")
