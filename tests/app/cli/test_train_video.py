"""`trigpoint train` on videos and from another model, and `trigpoint data inspect` on videos."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from trigpoint import api
from trigpoint.app.cli.train import FLOW
from trigpoint.core.config.presets import preset
from trigpoint.core.config.tree import Config, VideoConfig, to_dict, with_steps
from trigpoint.core.errors import TrigpointError
from trigpoint.core.files.videos import VideoWriter
from trigpoint.core.runs import Run
from trigpoint.core.sources import figures
from trigpoint.learning.checkpoint import load_tensors
from trigpoint.learning.data import flows
from trigpoint.learning.training import loop, schedule
from trigpoint.learning.training.stages import discover

Call = Callable[..., Any]  # the fixture `trigpoint`


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tracks are kept below a home of the test's own. Reports take time and are tested elsewhere."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("trigpoint.app.report.write_report", lambda run: None)
    return tmp_path / "home"


def write(path: Path, frames: Sequence[NDArray[np.uint8]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with VideoWriter(path, (frames[0].shape[1], frames[0].shape[0]), 25) as writer:
        for frame in frames:
            writer.add(frame)
    return path


def crossing(count: int, start: int = 0) -> list[NDArray[np.uint8]]:
    """A bright square of 16 that crosses a scene of 80 by 48, three pixels a frame."""
    rows, columns = np.mgrid[:48, :80]
    ground = np.stack((40 + rows, 60 + columns // 2, 90 - rows // 2), -1).astype(np.uint8)
    frames = [ground.copy() for _ in range(count)]
    for number, frame in enumerate(frames, start):
        frame[16:32, 3 * number : 3 * number + 16] = (250, 220, 30)
    return frames


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two videos, of 20 and 14 frames. Do not change it."""
    folder = tmp_path_factory.mktemp("videos") / "videos"
    write(folder / "a.mp4", crossing(20))
    write(folder / "b.mp4", crossing(14, 4))
    return folder


@pytest.fixture(scope="module")
def walker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A figure that walks, 16 frames. Do not change it."""
    frames = [frame.image for frame in figures.video(16, size=48)]
    return write(tmp_path_factory.mktemp("walker") / "walker.mp4", frames)


@pytest.fixture
def train(trigpoint: Call, tmp_path: Path, micro_colour: Config) -> Call:
    """`trigpoint train` of a very small model for two steps into a folder `run`."""
    file = tmp_path / "micro.json"
    file.write_text(json.dumps(to_dict(micro_colour)))

    def call(*words: object) -> Any:
        out = () if "--out" in words else ("--out", tmp_path / "run")
        return trigpoint("train", *words, *out, "--config", file, "--steps", 2, "--threads", 1)

    return call


def config_of(folder: Path) -> Config:
    return Run(folder).config()


# Frames of videos


def test_videos_are_trained_on(train: Call, videos: Path, tmp_path: Path) -> None:
    said = train(videos)
    assert said.code == 0, said.err
    run = Run(tmp_path / "run")
    assert run.summary()["train_images"] == 34
    assert run.summary()["temporal"]["first_frame"] == "a.mp4:000000"
    assert run.summary()["temporal"]["frames"] == 20
    assert run.config().video == VideoConfig()
    assert run.config().warp.flow_share == 0


def test_options_of_videos_reach_the_config_and_the_images(train: Call, videos: Path, tmp_path: Path) -> None:
    options = ("--every", 2, "--frames", 6, "--crop", "0,4,64.5,40", "--background", "grey", "--follow")
    said = train(videos, *options)
    assert said.code == 0, said.err
    run = Run(tmp_path / "run")
    assert run.config().video == VideoConfig(2, 6, (0, 4, 64.5, 40), (80, 48), "grey", True)
    assert run.summary()["train_images"] == 12
    assert run.summary()["temporal"]["frames"] == 20  # measured on frames that follow each other
    with np.load(run.samples_file) as kept:
        assert (kept["pixels"][:, 0, 0] == 128).all()
    assert list((tmp_path / "home" / ".cache" / "trigpoint" / "tracks").glob("*.npz"))


def test_a_resumed_run_samples_as_it_did(
    trigpoint: Call, train: Call, videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop, "Session", break_off)
        assert train(videos, "--frames", 5, "--crop", "0,0,48,48").code == 1
    said = trigpoint("train", "--out", tmp_path / "run", "--resume", "--threads", 1)
    assert said.code == 0, said.err
    assert Run(tmp_path / "run").summary()["train_images"] == 10
    refused = trigpoint("train", "--out", tmp_path / "run", "--resume", "--every", 2)
    assert refused.refused("A resumed run keeps its own config")


def test_a_video_that_cannot_be_read_is_named(train: Call, videos: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(videos, tmp_path / "videos")
    (folder / "aa.mp4").write_text("no video")
    said = train(folder, "--frames", 4)
    assert said.code == 0, said.err
    assert "Skipped 1 unreadable image: aa.mp4:000000 (aa.mp4 is not a readable video" in said.out
    summary = Run(tmp_path / "run").summary()
    assert summary["train_images"] == 8
    assert list(summary["skipped"]) == ["aa.mp4:000000"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--every", 0), "config.video.every must be between 1 and 1000000000; got 0"),
        (("--frames", -1), "config.video.frames must be between 0 and 1000000000; got -1"),
        (("--crop", "1,2,3"), "A box is LEFT,TOP,WIDTH,HEIGHT in pixels; got '1,2,3'"),
        (("--crop", "0,0,0,9"), "A box is at least one pixel wide and high"),
        (("--crop", "0,0,inf,9"), "A box is at least one pixel wide and high"),
    ],
)
def test_impossible_options_are_refused(
    trigpoint: Call, train: Call, videos: Path, tmp_path: Path, options: tuple, words: str
) -> None:
    assert train(videos, *options).refused(words)
    assert not (tmp_path / "run").exists()
    assert trigpoint("data", "inspect", videos, *options).refused(words)


@pytest.mark.parametrize("verb", [("train",), ("data", "inspect")])
def test_help_lists_the_options_of_videos(trigpoint: Call, verb: tuple[str, ...]) -> None:
    said = trigpoint(*verb, "--help")
    assert said.code == 0
    for option in ("--every INT", "--frames INT", "--crop ", "--background {keep,grey,mean}", "--follow"):
        assert option in said.out
    assert "--video" not in said.out


def test_zoom_and_scale_are_kept_and_need_following(train: Call, videos: Path, tmp_path: Path) -> None:
    assert train(videos, "--zoom").refused("--zoom and --scale are for a crop that follows")
    assert train(videos, "--scale", 2).refused("give --follow too")
    assert train(videos, "--follow", "--zoom", "--scale", 1.5).code == 0
    video = Run(tmp_path / "run").config().video
    assert (video.follow, video.zoom, video.scale) == (True, True, 1.5)


def test_a_video_in_which_nothing_moves_is_not_followed(train: Call, tmp_path: Path) -> None:
    still = write(tmp_path / "still.mp4", crossing(1) * 6)
    assert train(still, "--follow").refused("Nothing moves in still.mp4: there is no subject to follow.")
    assert not (tmp_path / "run").exists()


def test_one_still_video_of_many_is_skipped_and_named(train: Call, videos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "some"
    shutil.copytree(videos, folder)
    write(folder / "0-still.mp4", crossing(1) * 6)  # the first of them
    said = train(folder, "--follow")
    assert said.code == 0, said.err
    with np.load(Run(tmp_path / "run").samples_file) as kept:
        skipped = json.loads(str(kept["skipped"]))
    assert len(skipped) == 6
    assert skipped["0-still.mp4:000000"] == "Nothing moves in 0-still.mp4: there is no subject to follow"
    assert "0-still.mp4" in said.out + said.err


def test_where_nothing_moves_in_any_video(train: Call, tmp_path: Path) -> None:
    folder = tmp_path / "still"
    for name in "ab":
        write(folder / f"{name}.mp4", crossing(1) * 6)
    assert train(folder, "--follow").refused("Nothing moves in a.mp4: there is no subject to follow.")
    assert not (tmp_path / "run").exists()


def test_what_is_no_video(train: Call, tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"")
    assert train(tmp_path / "a.mp4").refused("None of the 1 videos could be read; the first: a.mp4 is not a")
    assert train(tmp_path / "b.mp4").refused(f"There is no file or folder {tmp_path / 'b.mp4'}.")


# Optical flow


def test_flow_is_learnt_from(train: Call, walker: Path, tmp_path: Path) -> None:
    said = train(walker, "--flow")
    assert said.code == 0, said.err
    run = Run(tmp_path / "run")
    assert (run.config().warp.flow_share, run.config().losses.flow_prefer) == (0.5, 100)
    assert [line["flow"] <= 0 for line in run.log()[1:]] == [True, True]


def test_single_values_go_before_what_flow_stands_for(train: Call, walker: Path, tmp_path: Path) -> None:
    words = ("--flow", "--seed", 3, "--set", "warp.flow_share=0.2", "train.seed=4")
    assert train(walker, *words).code == 0
    config = config_of(tmp_path / "run")
    assert (config.warp.flow_share, config.losses.flow_prefer, config.train.seed) == (0.2, 100, 4)
    assert "warp.flow_share=0.5" in FLOW


def test_flow_needs_videos(train: Call, photos: Path, tmp_path: Path) -> None:
    assert train(photos, "--flow").refused("Optical flow needs videos")
    assert not (tmp_path / "run").exists()


def test_flow_needs_frames_that_are_five_apart(train: Call, walker: Path, tmp_path: Path) -> None:
    assert train(walker, "--flow", "--every", 2).refused("5 must be a multiple of --every")
    assert train(walker, "--flow", "--frames", 3).refused("and --frames not too few")
    assert not (tmp_path / "run").exists()
    said = train(walker, "--flow", "--every", 5)
    assert said.code == 0, said.err
    assert Run(tmp_path / "run").summary()["train_images"] == 4


def test_an_interrupted_flow_goes_on(
    trigpoint: Call, train: Call, walker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train(walker, "--flow", "--out", tmp_path / "calm").code == 0
    calls: list[None] = []

    def interrupted(*frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        calls.append(None)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return original(*frames)

    original = flows.farneback
    monkeypatch.setattr(flows, "farneback", interrupted)
    said = train(walker, "--flow")
    assert (said.code, "interrupted" in said.err) == (1, True)
    said = trigpoint("train", "--out", tmp_path / "run", "--resume", "--threads", 1)
    assert said.code == 0, said.err
    assert Run(tmp_path / "run").model_file.read_bytes() == Run(tmp_path / "calm").model_file.read_bytes()


# From another model


@pytest.mark.parametrize("name", ["tiny-7", "compact-10", "celeba-10", "aflw-30"])
def test_a_model_is_trained_further_gently(name: str) -> None:
    """The last weights of its losses, all warps, a quarter of its rate, a third of its length."""
    first = preset(name)
    config = schedule.further(first)
    last = first.train.steps
    assert config.train.steps == last // 3
    assert config.train.learning_rate == pytest.approx(first.train.learning_rate / 4)
    for step in (0, 1, config.train.steps - 1):
        assert discover.weights(config, step) == pytest.approx(discover.weights(first, last))
    assert schedule.landmark_share(config, 1) == schedule.landmark_share(first, last)
    assert (config.model, config.warp, config.video, config.fit) == (
        first.model, first.warp, first.video, first.fit
    )  # fmt: skip
    assert replace(config.losses, recon=first.losses.recon, eqv=first.losses.eqv) == first.losses
    assert schedule.further(with_steps(first, 2)).train.steps == 1


def test_from_starts_with_the_model_s_weights(
    trigpoint: Call, colour_run: Run, videos: Path, tmp_path: Path
) -> None:
    """With a learning rate of next to nothing they stay."""
    still = ("--set", "train.learning_rate=1e-12", "train.weight_decay=0")
    words = ("train", videos, "--from", colour_run.folder, "--frames", 4, "--threads", 1)
    said = trigpoint(*words, "--out", tmp_path / "run", *still)
    assert said.code == 0, said.err
    run = Run(tmp_path / "run")
    assert run.config().train.steps == 4  # of 12
    assert run.config().video == VideoConfig(frames=4)
    assert run.config().model == colour_run.config().model
    before, after = (load_tensors(one.model_file)[0] for one in (colour_run, run))
    weights = [name for name in before if "running" not in name and "num_batches" not in name]
    assert len(weights) > 10
    for name in weights:
        torch.testing.assert_close(after[name], before[name], atol=1e-9, rtol=0)
    moved = trigpoint(*words, "--out", tmp_path / "moved", "--steps", 3)
    assert moved.code == 0, moved.err
    trained = load_tensors(Run(tmp_path / "moved").model_file)[0]
    assert any(not torch.equal(trained[name], before[name]) for name in weights)
    assert config_of(tmp_path / "moved").train.steps == 3


@pytest.mark.parametrize("options", [("--landmarks", 5), ("--preset", "tiny-5"), ("--config", "micro.json")])
def test_from_keeps_landmarks_and_config(
    trigpoint: Call, colour_run: Run, photos: Path, tmp_path: Path, options: tuple
) -> None:
    said = trigpoint("train", photos, "--from", colour_run.folder, "--out", tmp_path / "run", *options)
    assert said.refused("trained further keeps its landmarks and its config; it can teach fewer")
    assert not (tmp_path / "run").exists()


def test_from_what_is_no_model(trigpoint: Call, colour_run: Run, photos: Path, tmp_path: Path) -> None:
    words = ("train", photos, "--out", tmp_path / "run", "--from")
    assert trigpoint(*words, tmp_path / "nowhere").refused("There is no run folder")
    assert trigpoint(*words, photos).refused("is no run folder: it has no config.json")
    assert not (tmp_path / "run").exists()


def test_from_a_model_that_is_not_finished_or_does_not_fit_loses_no_run(
    trigpoint: Call, colour_run: Run, photos: Path, tmp_path: Path
) -> None:
    """Also not the one that was to be overwritten."""
    old = shutil.copytree(colour_run.folder, tmp_path / "run")
    files = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    unfinished = shutil.copytree(colour_run.folder, tmp_path / "unfinished")
    (unfinished / "model.safetensors").unlink()
    words = ("train", photos, "--out", old, "--overwrite", "--threads", 1, "--from")
    assert trigpoint(*words, unfinished).refused("model.safetensors")
    said = trigpoint(*words, colour_run.folder, "--set", "model.descriptor_size=6")
    assert said.refused("do not fit the model of its config")
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == files


def test_from_python(colour_run: Run, photos: Path, tmp_path: Path) -> None:
    run = api.train(photos, tmp_path / "run", start=colour_run.folder, steps=2)
    assert run.finished
    assert run.config() == with_steps(schedule.further(colour_run.config()), 2)
    with pytest.raises(TrigpointError, match="keeps its landmarks and its config"):
        api.train(photos, tmp_path / "other", start=colour_run.folder, landmarks=3)


# A DeepLabCut project


def test_a_deeplabcut_project_is_trained_on(train: Call, videos: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "labeled-data").mkdir(parents=True)
    shutil.copytree(videos, project / "videos")
    said = train(f"deeplabcut:{project}", "--every", 4)
    assert said.code == 0, said.err
    run = Run(tmp_path / "run")
    assert run.summary()["train_images"] == 5 + 4
    assert run.meta()["source"] == [f"deeplabcut:{project}"]


# What a source of videos holds


def test_inspect_counts_frames_and_draws_each_twice(trigpoint: Call, videos: Path, tmp_path: Path) -> None:
    sheet, found = tmp_path / "sheet.png", tmp_path / "found.json"
    options = ("--frames", 3, "--crop", "0,0,48,48", "--sheet", sheet, "--json", found)
    said = trigpoint("data", "inspect", videos, *options)
    assert said.code == 0, said.err
    assert f"6 images in {videos} (train): 6 in colour, 0 grey" in said.out
    assert "1 different size: 80x48 (6)" in said.out
    assert "each frame twice: as the camera saw it with the crop drawn, and as the model sees it" in said.out
    counted = json.loads(found.read_text())
    assert (counted["images"], counted["sizes"], counted["unreadable"]) == (6, {"80x48": 6}, {})
    with Image.open(sheet) as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    red = np.abs(pixels - (255, 60, 60)).max(-1) < 8
    assert red.sum() == pytest.approx(6 * 4 * (48 / 80 * 128 - 1), rel=0.05)  # the crop's outline, six times


def test_the_crop_is_drawn_where_it_is_cut(trigpoint: Call, tmp_path: Path) -> None:
    """One frame: a white square that the crop fits; the outline on the left, white on the right."""
    frame = np.zeros((64, 64, 3), np.uint8)
    frame[16:48, 8:40] = 255
    video = write(tmp_path / "a.mp4", [frame] * 3)
    words = ("--frames", 1, "--crop", "8,16,32,32", "--sheet", tmp_path / "sheet.png")
    assert trigpoint("data", "inspect", video, *words).code == 0
    with Image.open(tmp_path / "sheet.png") as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    red = np.argwhere(np.abs(pixels - (255, 60, 60)).max(-1) < 8)
    low, high = red.min(0), red.max(0)
    np.testing.assert_allclose(high - low + 1, 64, atol=1)  # half of a tile of 128
    tile = pixels[:, low[1] - 16 : low[1] - 16 + 128]
    inner = tile[low[0] + 3 : high[0] - 2, 16 + 3 : 16 + 61]
    assert (inner > 235).all()
    right = pixels[:, low[1] - 16 + 128 :]
    assert (right[low[0] - 30 : high[0] + 30, 8:120] > 235).mean() > 0.95


def test_inspect_names_what_cannot_be_read(trigpoint: Call, videos: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(videos, tmp_path / "videos")
    (folder / "0.avi").write_text("no video")
    sheet, found = tmp_path / "sheet.png", tmp_path / "found.json"
    said = trigpoint("data", "inspect", folder, "--every", 7, "--sheet", sheet, "--json", found)
    assert said.code == 0, said.err
    assert "unreadable: 0.avi:000000: 0.avi is not a readable video" in said.out
    assert "6 images in" in said.out
    assert list(json.loads(found.read_text())["unreadable"]) == ["0.avi:000000"]
    assert sheet.is_file()


def test_inspect_shows_what_following_and_filling_do(trigpoint: Call, videos: Path, tmp_path: Path) -> None:
    options = ("--every", 6, "--follow", "--background", "grey", "--sheet", tmp_path / "sheet.png")
    said = trigpoint("data", "inspect", videos / "a.mp4", *options)
    assert said.code == 0, said.err
    assert f"4 images in {videos / 'a.mp4'}" in said.out
    with Image.open(tmp_path / "sheet.png") as picture:
        pixels = np.asarray(picture.convert("RGB"))
    assert (pixels == 128).all(-1).sum() > 4 * 128 * 128 / 5  # the model's view is filled
