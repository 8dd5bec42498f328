"""Learning from videos: the flow that is kept, the pairs of frames, and what a step makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import av
import cv2
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from trigpoint.core import geometry
from trigpoint.core.config.tree import Config, VideoConfig, with_steps, with_values
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.geometry import Placement
from trigpoint.core.runs import Run
from trigpoint.core.sources import figures, open_source
from trigpoint.core.sources.base import Source
from trigpoint.core.sources.video import Videos
from trigpoint.learning import losses, tensors
from trigpoint.learning.data import flows as module
from trigpoint.learning.data.flows import FINER, INTERVAL, Flows, Pairs, prepare_flows
from trigpoint.learning.data.prepared import Prepared, prepare
from trigpoint.learning.devices import generator_of
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.tensors import to_tensor
from trigpoint.learning.training import loop, schedule
from trigpoint.learning.training.stages import Batch
from trigpoint.learning.training.stages.discover import STAGE, Targets
from trigpoint.learning.warps import flow as warps
from trigpoint.learning.warps.tps import RandomTPS

WITH_FLOW = ("warp.flow_share=0.5", "losses.flow_prefer=100")


@dataclass
class Shown(Source):
    """Frames of videos from lists; None stands for one that cannot be read."""

    frames: Sequence[NDArray[np.uint8] | None]
    places: Sequence[tuple[int, int]]  # video and frame of each
    reads: list[int] = field(default_factory=list)
    words: tuple[str, ...] = ("shown",)
    description: str = "shown"

    def __len__(self) -> int:
        return len(self.frames)

    def name(self, index: int) -> str:
        return f"shown-{index}"

    def frame_of(self, index: int) -> tuple[int, int]:
        return self.places[index]

    def image(self, index: int) -> NDArray[np.uint8]:
        self.reads.append(index)
        found = self.frames[index]
        if found is None:
            raise UnreadableImage("made to fail")
        return found

    def box(self, index: int) -> Placement | None:
        return None


def walking(frames: int, seed: int = 0, size: int = 48) -> list[NDArray[np.uint8]]:
    return [frame.image for frame in figures.video(frames, seed, size)]


def shown(frames: int = 18, every: int = 1) -> Shown:
    """One video of a figure that walks."""
    return Shown(walking(frames)[::every], [(0, frame) for frame in range(0, frames, every)])


def write(path: Path, frames: Sequence[NDArray[np.uint8]]) -> Path:
    """A video without any loss."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "bgr0"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    return path


@pytest.fixture(scope="module")
def walker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video of a figure, 26 frames of 48 pixels. Do not change it."""
    return write(tmp_path_factory.mktemp("walker") / "walker.mkv", walking(26))


def prepared(source: Shown | Videos, config: Config, folder: Path) -> tuple[Prepared, Flows]:
    images = prepare(source, config, folder)
    return images, prepare_flows(source, images, config, folder)


# The fields that are kept


def test_fields_are_kept_in_half_precision(micro_colour: Config, tmp_path: Path) -> None:
    """Each against OpenCV called by hand: on squares twice as large, averaged over areas."""
    source = shown()
    ticks: list[tuple[int, int]] = []
    images = prepare(source, micro_colour, tmp_path)
    flows = prepare_flows(source, images, micro_colour, tmp_path, lambda *at: ticks.append(at))
    size = micro_colour.model.image_size
    assert isinstance(flows.fields, np.memmap)
    assert not flows.fields.flags.writeable
    assert (flows.fields.dtype, flows.fields.shape) == (np.float16, (18, size, size, 2))
    assert (tmp_path / "flow.bin").stat().st_size == 18 * size * size * 2 * 2
    assert ticks == [(row + 1, 18) for row in range(18)]
    assert flows.before.tolist() == [-1] * INTERVAL + list(range(18 - INTERVAL))
    assert not flows.fields[:INTERVAL].any()
    for row in (5, 11, 17):
        grey = []
        for frame in (source.frames[row], source.frames[row - INTERVAL]):
            assert frame is not None
            whole = geometry.extract(frame, Placement(0, 0, 48, 48), FINER * size)
            weights = (0.299, 0.587, 0.114)
            grey.append(np.rint(whole.astype(np.float32) @ np.array(weights, np.float32)).astype(np.uint8))
        found = warps.farneback(*grey)
        expected = cv2.resize(found, (size, size), interpolation=cv2.INTER_AREA)
        np.testing.assert_allclose(flows.fields[row], expected, rtol=2**-10, atol=1e-7)


def test_flow_is_between_frames_of_one_video(micro_colour: Config, tmp_path: Path) -> None:
    first, second = walking(8), walking(7, 3)
    places = [(0, frame) for frame in range(8)] + [(1, frame) for frame in range(7)]
    _, flows = prepared(Shown([*first, *second], places), micro_colour, tmp_path)
    assert flows.before.tolist() == [-1] * 5 + [0, 1, 2] + [-1] * 5 + [8, 9]
    assert not flows.fields[8:13].any()
    assert flows.fields[13].any()


def test_every_fifth_frame_will_do(micro_colour: Config, tmp_path: Path) -> None:
    """The same fields as of all frames."""
    _, sparse = prepared(shown(26, every=5), micro_colour, tmp_path / "sparse")
    _, all_frames = prepared(shown(26), micro_colour, tmp_path / "all")
    assert sparse.before.tolist() == [-1, 0, 1, 2, 3, 4]
    np.testing.assert_array_equal(sparse.fields, all_frames.fields[::5])


def test_a_frame_that_cannot_be_read_breaks_two_links(micro_colour: Config, tmp_path: Path) -> None:
    source = shown(14)
    source.frames = [None if place == 6 else frame for place, frame in enumerate(source.frames)]
    images, flows = prepared(source, micro_colour, tmp_path)
    assert len(images) == 13
    rows = {int(index): row for row, index in enumerate(images.indices)}
    for index, row in rows.items():
        assert flows.before[row] == rows.get(index - 5, -1), index
        assert flows.fields[row].any() == (index >= 5 and index != 11), index


@pytest.mark.parametrize(
    ("config", "frames"), [(VideoConfig(every=2), 26), (VideoConfig(frames=3), 26), (VideoConfig(), 5)]
)
def test_frames_that_are_not_five_apart_are_refused(
    micro_colour: Config, tmp_path: Path, config: VideoConfig, frames: int
) -> None:
    source = Videos([write(tmp_path / "a.mkv", walking(frames))], config)
    images = prepare(source, micro_colour, tmp_path / "cache")
    with pytest.raises(
        TrigpointError, match=r"frames 5 apart, .* 5 must be a multiple of --every, and --frames"
    ):
        prepare_flows(source, images, micro_colour, tmp_path / "cache")


def test_a_source_without_order_is_refused(micro_colour: Config, photos: Path, tmp_path: Path) -> None:
    source = open_source(photos)
    images = prepare(source, micro_colour, tmp_path / "cache")
    with pytest.raises(TrigpointError, match=r"Optical flow needs videos: .* have no order in time"):
        prepare_flows(source, images, micro_colour, tmp_path / "cache")


# Broken off, and taken up again


@pytest.mark.parametrize("row", [0, 1, 4, 5, 6, 12, 17])
def test_a_call_that_breaks_off_ends_in_the_same_file(
    micro_colour: Config, tmp_path: Path, row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = shown()
    prepared(source, micro_colour, tmp_path / "calm")
    images = prepare(source, micro_colour, tmp_path / "killed")

    def break_off(done: int, _: int) -> None:
        if done == row + 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare_flows(source, images, micro_colour, tmp_path / "killed", break_off)
    file = tmp_path / "killed" / "flow.bin"
    each = file.stat().st_size // (row + 1)
    assert file.stat().st_size == each * (row + 1)
    calls: list[None] = []
    monkeypatch.setattr(
        module, "farneback", lambda *frames: (calls.append(None), warps.farneback(*frames))[1]
    )
    prepare_flows(source, images, micro_colour, tmp_path / "killed")
    assert file.read_bytes() == (tmp_path / "calm" / "flow.bin").read_bytes()
    assert len(calls) == 18 - max(row + 1, INTERVAL)  # what was there is not computed again


@pytest.mark.parametrize("share", [0.0, 0.001, 0.31, 0.5, 0.999, 1.0])
def test_a_file_cut_anywhere_is_completed(micro_colour: Config, tmp_path: Path, share: float) -> None:
    source = shown(12)
    images, flows = prepared(source, micro_colour, tmp_path)
    expected = np.array(flows.fields)
    file = tmp_path / "flow.bin"
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    again = prepare_flows(source, images, micro_colour, tmp_path)
    assert file.read_bytes() == content
    np.testing.assert_array_equal(again.fields, expected)


def test_a_file_of_more_images_is_not_believed(micro_colour: Config, tmp_path: Path) -> None:
    _, flows = prepared(shown(12), micro_colour, tmp_path / "calm")
    source = shown(12)
    images = prepare(source, micro_colour, tmp_path / "other")
    (tmp_path / "other" / "flow.bin").write_bytes(b"\x11" * (flows.fields.nbytes * 2))
    again = prepare_flows(source, images, micro_colour, tmp_path / "other")
    np.testing.assert_array_equal(again.fields, flows.fields)
    assert (tmp_path / "other" / "flow.bin").stat().st_size == flows.fields.nbytes


# Pairs


def test_pairs_are_ten_frames_apart_in_the_order_of_the_batch(micro_colour: Config, tmp_path: Path) -> None:
    images, flows = prepared(shown(), micro_colour, tmp_path)
    rows = [17, 3, 12, 7, 10, 12]
    pairs = flows.pairs(images, np.array(rows))
    torch.testing.assert_close(images.batch(np.array(rows)), to_tensor(np.asarray(images.pixels[rows])))
    assert pairs.known.tolist() == [True, False, True, False, True, True]
    held = [7, 3, 2, 7, 0, 2]  # of an image without an earlier one: itself
    torch.testing.assert_close(pairs.earlier, to_tensor(np.asarray(images.pixels[held])))
    size = micro_colour.model.image_size
    assert pairs.flow.shape == (6, 2, size, size)
    assert pairs.flow.dtype == torch.float32
    for number, row in enumerate(rows):
        if row >= 10:
            first, second = (
                torch.from_numpy(np.array(flows.fields[r], np.float32)).permute(2, 0, 1)[None]
                for r in (row, row - 5)
            )
            torch.testing.assert_close(pairs.flow[number], warps.compose(first, second)[0])
    assert not pairs.flow[1].any()  # nothing is known of the first five frames


def test_a_video_s_flow_leads_along_its_true_motion(
    micro_colour: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a file to a batch: on the figure less than 0.6 of the error of no flow, over ten frames."""
    config = replace(micro_colour, model=replace(micro_colour.model, image_size=48, padded_size=60))
    ours, still = [], []
    for seed in (0, 1, 3):
        parts: list[NDArray[np.int64]] = []
        places: list[figures.Complex] = []
        draw, place = figures.draw, figures.place

        def drawn(*words: object, draw: Callable = draw, parts: list = parts) -> figures.Drawing:
            found: figures.Drawing = draw(*words)
            parts.append(found.parts)
            return found

        def placed(*words: object, place: Callable = place, places: list = places) -> tuple:
            found: tuple = place(*words)
            places.append(found[0])
            return found

        with monkeypatch.context() as patch:
            patch.setattr(figures, "draw", drawn)
            patch.setattr(figures, "place", placed)
            frames = walking(21, seed, 96)
        source = Videos([write(tmp_path / f"{seed}.mkv", frames)])
        images, flows = prepared(source, config, tmp_path / f"cache-{seed}")
        rows = np.array([10, 15, 20])
        pairs = flows.pairs(images, rows)
        assert pairs.known.all()
        for number, row in enumerate(rows.tolist()):
            true = figures.motion(parts[row], places[row], places[row - 10]) / 96
            y, x = np.nonzero(parts[row] >= 0)
            points = torch.from_numpy((np.stack((x, y), -1) + 0.5) / 96).float()[None]
            found = (warps.follow(pairs.flow[number : number + 1], points) - points)[0].numpy()
            ours.append(np.linalg.norm(found - true[y, x], axis=-1).mean())
            still.append(np.linalg.norm(true[y, x], axis=-1).mean())
    assert np.mean(still) > 0.02
    assert np.mean(ours) < 0.6 * np.mean(still)


# A step


def pair_of(config: Config, count: int = 6, known: Sequence[bool] | None = None) -> tuple[Tensor, Pairs]:
    """Random images with random earlier ones and a random flow."""
    generator = torch.Generator().manual_seed(0)
    size, channels = config.model.image_size, config.model.channels
    images, earlier = torch.rand(2, count, channels, size, size, generator=generator)
    flow = 0.05 * torch.randn(count, 2, size, size, generator=generator)
    return images, Pairs(earlier, flow, torch.tensor(known or [True] * count))


def with_share(config: Config, share: float) -> Config:
    plain = replace(config.train, brightness=0.0, contrast=0.0)
    return replace(config, warp=replace(config.warp, flow_share=share), train=plain)


def losses_of(model: Autoencoder, images: Tensor, config: Config, pairs: Pairs | None, step: int = 3) -> dict:
    tps, rows = RandomTPS(config.warp, config.model), np.arange(len(images))
    none = Prepared(np.empty(0, np.uint8), np.arange(0), {})
    flows = None if pairs is None else cast(Flows, SimpleNamespace(pairs=lambda *_: pairs))
    rng = generator_of(config.train.seed, step)
    return STAGE.loss(model, Batch(images, rows), Targets(tps, none, flows), config, step, rng)


@torch.no_grad()
def by_flow(model: Autoencoder, images: Tensor, pairs: Pairs) -> Tensor:
    """(B,) how far landmarks that follow the flow end from those of the earlier frame, squared."""
    now = model.detector(model.pad(images)).landmarks
    then = model.detector(model.pad(pairs.earlier)).landmarks
    return (warps.follow(pairs.flow, now) - then).square().sum((1, 2))


@pytest.mark.parametrize("kind", ["micro", "micro_colour"])
def test_with_flow_alone_landmarks_are_compared_through_it(kind: str, request: pytest.FixtureRequest) -> None:
    config = with_share(request.getfixturevalue(kind), 1.0)
    model = Autoencoder(config.model, seed=0).eval()
    images, pairs = pair_of(config)
    found = losses_of(model, images, config, pairs)
    assert set(found) == {"recon", "conc", "sep", "eqv", "flow"}
    torch.testing.assert_close(found["eqv"], by_flow(model, images, pairs).mean())
    with torch.no_grad():
        now, then = (model.detector(model.pad(pixels)) for pixels in (images, pairs.earlier))
        conc = [losses.concentration(one.variances, config.losses.concentration) for one in (now, then)]
        prefer = warps.preference(pairs.flow, now.landmarks, config.model.decoder_sigma)
    torch.testing.assert_close(found["conc"], (conc[0] + conc[1]) / 2)
    torch.testing.assert_close(found["flow"], prefer)
    plain = losses_of(model, images, config, None)
    torch.testing.assert_close(found["recon"], plain["recon"])
    torch.testing.assert_close(found["sep"], plain["sep"])


def test_images_without_an_earlier_frame_are_warped_as_ever(micro: Config) -> None:
    config = with_share(micro, 1.0)
    model = Autoencoder(config.model, seed=0).eval()
    images, pairs = pair_of(config, known=[False] * 6)
    found, plain = losses_of(model, images, config, pairs), losses_of(model, images, config, None)
    for name in ("recon", "conc", "sep", "eqv"):
        assert torch.equal(found[name], plain[name]), name
    nothing = losses_of(model, images, with_share(micro, 0.0), pair_of(config)[1])
    assert torch.equal(nothing["eqv"], plain["eqv"])


def test_a_share_of_the_samples_is_compared_through_flow(micro: Config) -> None:
    """Each sample by one or the other: the sum over those drawn and those not."""
    config = with_share(micro, 0.5)
    model = Autoencoder(config.model, seed=0).eval()
    known = [True, True, False, True, True, True, False, True]
    images, pairs = pair_of(config, 8, known)
    tps = RandomTPS(config.warp, config.model)
    generator = generator_of(config.train.seed, 3)
    with torch.no_grad():
        now = model.detector(model.pad(images)).landmarks
        warp = tps.draw(now, generator, schedule.landmark_share(config, 3))
        warped = warp.map(model.detector(tensors.sample(images, warp.pixels)).landmarks)
    by_warp = (warped - now).square().sum((1, 2))
    drawn = pairs.known & (torch.rand(8, generator=generator) < 0.5)
    assert 0 < drawn.sum() < 6
    expected = torch.where(drawn, by_flow(model, images, pairs), by_warp).mean()
    torch.testing.assert_close(losses_of(model, images, config, pairs)["eqv"], expected)


def test_both_frames_get_the_same_colours(micro_colour: Config) -> None:
    """A frame compared with itself: whatever the jitter, nothing moves."""
    config = replace(
        micro_colour,
        warp=replace(micro_colour.warp, flow_share=1.0),
        train=replace(micro_colour.train, brightness=0.3, contrast=0.8),
    )
    model = Autoencoder(config.model, seed=0).eval()
    images, pairs = pair_of(config)
    same = Pairs(images, torch.zeros_like(pairs.flow), pairs.known)
    assert losses_of(model, images, config, same)["eqv"].item() < 1e-10
    other = Pairs((images * 0.5).contiguous(), torch.zeros_like(pairs.flow), pairs.known)
    assert losses_of(model, images, config, other)["eqv"].item() > 1e-7


@pytest.mark.parametrize("kind", ["micro", "micro_colour"])
def test_every_weight_learns_from_pairs(kind: str, request: pytest.FixtureRequest) -> None:
    config = with_share(request.getfixturevalue(kind), 0.5)
    config = replace(config, losses=replace(config.losses, flow_prefer=100.0))
    model = Autoencoder(config.model, seed=0)
    images, pairs = pair_of(config, known=[True, False] * 3)
    terms = losses_of(model, images, config, pairs)
    losses.total(terms, STAGE.weights(config, 3)).backward()
    for name, value in model.named_parameters():
        assert value.grad is not None, name
        assert torch.isfinite(value.grad).all(), name


def test_the_preference_s_weight_reaches_the_total(micro: Config) -> None:
    config = with_share(micro, 1.0)
    heavy = replace(config, losses=replace(config.losses, flow_prefer=100.0))
    model = Autoencoder(config.model, seed=0).eval()
    images, pairs = pair_of(config)
    terms = losses_of(model, images, config, pairs)
    light, full = (losses.total(terms, STAGE.weights(c, 3)).item() for c in (config, heavy))
    assert full - light == pytest.approx(100 * terms["flow"].item(), rel=1e-3)


# A run


def train(source: Path, out: Path, config: Config, *values: str, resume: bool = False) -> Run:
    config = with_values(with_steps(config, 6), values)
    return loop.train(config, open_source(source), out, resume=resume)


@pytest.fixture(scope="module")
def calm(walker: Path, micro_colour: Config, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run with flow. Do not change it."""
    return train(walker, tmp_path_factory.mktemp("calm") / "run", micro_colour, *WITH_FLOW)


def test_a_training_with_flow_from_end_to_end(calm: Run, walker: Path) -> None:
    assert calm.finished
    assert not calm.cache_folder.exists()
    assert calm.summary()["train_images"] == 26
    assert calm.summary()["skipped"] == {}
    assert calm.meta()["source"] == [str(walker)]
    assert calm.config().warp.flow_share == 0.5
    lines = calm.log()[1:]
    assert len(lines) == 6
    for line in lines:
        assert -1 <= line["flow"] <= 0
        parts = STAGE.weights(calm.config(), line["step"] - 1)
        weighted = sum(parts[name] * line[name] for name in ("recon", "conc", "sep", "eqv", "flow"))
        assert line["total"] == pytest.approx(weighted, rel=1e-4)
    assert min(line["flow"] for line in lines) < 0


def test_flow_changes_what_is_learnt(calm: Run, walker: Path, micro_colour: Config, tmp_path: Path) -> None:
    plain = train(walker, tmp_path / "plain", micro_colour)
    assert plain.model_file.read_bytes() != calm.model_file.read_bytes()
    assert "flow" not in plain.log()[1]


def test_a_run_killed_while_flow_is_computed_ends_the_same(
    calm: Run, walker: Path, micro_colour: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[None] = []

    def interrupted(later: NDArray[np.uint8], earlier: NDArray[np.uint8]) -> NDArray[np.float32]:
        calls.append(None)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return warps.farneback(later, earlier)

    monkeypatch.setattr(module, "farneback", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(walker, tmp_path / "run", micro_colour, *WITH_FLOW)
    assert not Run(tmp_path / "run").finished
    run = train(walker, tmp_path / "run", micro_colour, resume=True)
    assert run.model_file.read_bytes() == calm.model_file.read_bytes()
    assert len(calls) == 1 + 26 - INTERVAL


def test_a_source_without_order_leaves_nothing_behind(
    photos: Path, micro_colour: Config, tmp_path: Path
) -> None:
    with pytest.raises(TrigpointError, match="Optical flow needs videos"):
        train(photos, tmp_path / "run", micro_colour, *WITH_FLOW)
    assert not (tmp_path / "run").exists()
