"""Training a generator: the right gradients, the same from a seed, safe to kill; and it learns."""

from __future__ import annotations

import copy
import errno
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from trigpoint.core.config.generator import GeneratorConfig
from trigpoint.core.errors import TrigpointError
from trigpoint.core.generator_run import GeneratorRun
from trigpoint.core.geometry import Placement
from trigpoint.core.inference.predictor import ZOO, Predictor
from trigpoint.core.sources.digits import Digits
from trigpoint.core.sources.images import read_image
from trigpoint.learning.backends.pytorch import TorchBackend
from trigpoint.learning.checkpoint import load_tensors
from trigpoint.learning.data.prepared import Prepared
from trigpoint.learning.devices import generator_of
from trigpoint.learning.generation import train as training
from trigpoint.learning.generation.networks import Adversaries, Generator
from trigpoint.learning.generation.sampler import TILE, Sampler, draw
from trigpoint.learning.generation.train import train
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.tensors import to_tensor
from trigpoint.learning.training import session

STEPS = 12
SPEEDS = ("images_per_second", "memory_mb", "peak_memory_mb")  # what a clock or a machine decides


class Killed(BaseException):
    """Ends a training where a kill would, as nothing within catches it."""


@pytest.fixture(scope="module")
def few(make_source: type, threes: Digits) -> Any:
    """A source of 24 digits."""
    return make_source([threes.image(i) for i in range(24)])


@pytest.fixture(scope="module")
def short(settings: GeneratorConfig) -> GeneratorConfig:
    """Twelve steps in which k can be seen to move."""
    return replace(settings, steps=STEPS, recalibration_images=16, gamma=1.0, gain=0.2, seed=3)


@pytest.fixture(scope="module", autouse=True)
def _small_pictures() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "ROWS", 2)
        patch.setattr(training, "COLUMNS", 3)
        yield


@pytest.fixture
def _four_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of the log every three steps."""
    monkeypatch.setattr(session, "LOG_TIMES", 4)


@pytest.fixture(scope="module")
def calm(short: GeneratorConfig, few: Any, tmp_path_factory: pytest.TempPathFactory) -> GeneratorRun:
    """A run that nothing happened to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "LOG_TIMES", 4)
        return train(short, "digits-7", few, tmp_path_factory.mktemp("calm") / "run")


@pytest.fixture(scope="module")
def told(short: GeneratorConfig, few: Any, tmp_path_factory: pytest.TempPathFactory) -> GeneratorRun:
    """The same with a line of the log for every step."""
    torch.manual_seed(99)
    np.random.seed(99)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "LOG_TIMES", STEPS)
        return train(short, "digits-7", few, tmp_path_factory.mktemp("told") / "run")


@pytest.fixture
def on_call() -> Iterator[Callable[..., None]]:
    """Do something before or after the n-th call of one of the training's functions."""
    patches = pytest.MonkeyPatch()

    def arrange(name: str, call: int, when: str, act: Callable[[], None]) -> None:
        patches.undo()
        holder = session if name == "save_checkpoint" else training
        original, calls = getattr(holder, name), 0

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == call and when == "before":
                act()
            result = original(*args, **kwargs)
            if calls == call and when == "after":
                act()
            return result

        patches.setattr(holder, name, wrapped)

    yield arrange
    patches.undo()


def detector_of(predictor: Predictor) -> Autoencoder:
    assert isinstance(predictor.backend, TorchBackend)
    return predictor.backend.model


def kill() -> None:
    raise Killed


def lines_of(run: GeneratorRun) -> list[dict[str, float]]:
    """The log without speeds."""
    return [{name: value for name, value in line.items() if name not in SPEEDS} for line in run.log()]


def summary_of(run: GeneratorRun) -> dict[str, Any]:
    return {name: value for name, value in run.summary().items() if name not in SPEEDS}


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def same_end(run: GeneratorRun, calm: GeneratorRun) -> bool:
    """Whether two runs ended alike in all they keep."""
    assert run.finished
    assert run.model_file.read_bytes() == calm.model_file.read_bytes()
    assert lines_of(run) == lines_of(calm)
    assert summary_of(run) == summary_of(calm)
    assert files(run.folder) == files(calm.folder)
    for file in calm.evolution_folder.iterdir():
        assert (run.evolution_folder / file.name).read_bytes() == file.read_bytes()
    return True


# Gradients


def doubled(short: GeneratorConfig, predictor: Predictor) -> tuple[Adversaries, Any]:
    """Both networks and the fixed detector, in double precision."""
    both = Adversaries(short, predictor.config.model).double().train()
    both.k.fill_(0.3)
    return both, detector_of(predictor).requires_grad_(False).double()


def step_of(threes: Digits, detector: Any, short: GeneratorConfig) -> tuple[Tensor, Tensor, Tensor]:
    """Real images, landmarks of others so that no cycle is closed by chance, latents."""
    images = to_tensor(np.stack([threes.image(i) for i in range(8)])).double()
    with torch.no_grad():
        landmarks = detector.detect(images[4:]).landmarks
    return images[:4], landmarks, draw(4, short.latent, torch.Generator().manual_seed(1)).double()


@pytest.mark.parametrize(("weight", "apart"), [(0.0, 0.0), (7.0, 0.0), (7.0, 2.0)])
def test_gradients_are_those_of_the_plain_computation(
    short: GeneratorConfig, predictor: Predictor, threes: Digits, weight: float, apart: float
) -> None:
    settings = replace(short, cycle=weight, apart=apart, distance=5.0)  # far: samples are too alike
    both, detector = doubled(settings, predictor)
    plain = copy.deepcopy(both)
    real, landmarks, latents = step_of(threes, detector, settings)
    terms = training.gradients(both, detector, real, landmarks, latents, settings)

    if apart:
        landmarks = landmarks[[0, 1, 0, 1]]  # two samples of each
    made = plain.generator(latents, landmarks)
    plain.critic.requires_grad_(False)
    energy = plain.critic.energy(made).mean()
    distance = (detector.detect(made).landmarks - landmarks).abs().sum(-1).mean()
    near = torch.stack([(made[i] - made[i + 2]).abs().mean() for i in (0, 1)])
    usual = ((real[0] - real[2]).abs().mean() + (real[1] - real[3]).abs().mean()) / 2
    missing = (settings.distance - near / usual).clamp(min=0).mean()
    (energy + weight * distance + apart * missing).backward()
    plain.critic.requires_grad_(True)
    real_energy, made_energy = (plain.critic.energy(images).mean() for images in (real, made.detach()))
    (real_energy - 0.3 * made_energy).backward()

    expected = dict(plain.named_parameters())
    for name, value in both.named_parameters():
        assert value.grad is not None, name
        assert expected[name].grad is not None, name
        torch.testing.assert_close(value.grad, expected[name].grad, rtol=1e-7, atol=1e-10)
    assert terms["real"].item() == pytest.approx(real_energy.item())
    assert terms["made"].item() == pytest.approx(made_energy.item())
    assert terms["cycle"].item() == pytest.approx(distance.item())
    assert terms["k"].item() == pytest.approx(0.3)
    assert ("apart" in terms) == bool(apart)
    if apart:
        assert terms["apart"].item() == pytest.approx(missing.item())
        assert terms["apart"] > 0
    gap = abs(settings.gamma * real_energy.item() - made_energy.item())
    assert terms["measure"].item() == pytest.approx(real_energy.item() + gap)
    assert not any(term.requires_grad for term in terms.values())


def test_the_critic_learns_nothing_from_the_generators_loss(
    short: GeneratorConfig, predictor: Predictor, threes: Digits
) -> None:
    """With k = 0 samples mean nothing to it, whatever they are."""
    found = []
    for seed in range(2):
        both, detector = doubled(short, predictor)
        both.k.zero_()
        real, landmarks, _ = step_of(threes, detector, short)
        latents = draw(4, short.latent, torch.Generator().manual_seed(seed)).double()
        training.gradients(both, detector, real, landmarks, latents, short)
        found.append([value.grad for value in both.critic.parameters()])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_the_detector_gets_no_gradient_and_stays_as_it_is(
    short: GeneratorConfig, predictor: Predictor, threes: Digits
) -> None:
    both, detector = doubled(short, predictor)
    before = {name: value.clone() for name, value in detector.state_dict().items()}
    real, landmarks, latents = step_of(threes, detector, short)
    training.gradients(both, detector, real, landmarks, latents, short)
    assert all(value.grad is None for value in detector.parameters())
    assert not detector.training
    for name, value in detector.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_a_step_down_the_gradients_lowers_the_generators_loss(
    short: GeneratorConfig, predictor: Predictor, threes: Digits
) -> None:
    both, detector = doubled(short, predictor)
    given = step_of(threes, detector, short)
    before = training.gradients(both, detector, *given, short)
    with torch.no_grad():
        for value in both.generator.parameters():
            value -= 1e-6 * value.grad
    moved = training.gradients(both, detector, *given, short)

    def loss(terms: dict[str, Tensor]) -> Tensor:
        return terms["made"] + short.cycle * terms["cycle"] + short.apart * terms["apart"]

    assert loss(moved) < loss(before)
    assert moved["real"].item() == pytest.approx(before["real"].item(), rel=1e-12)


# The pieces


@pytest.mark.parametrize(
    ("decay_from", "step", "share"),
    [(0.5, 0, 1.0), (0.5, 50, 1.0), (0.5, 75, 0.5), (0.5, 99, 0.02), (0.0, 0, 1.0), (0.0, 40, 0.6),
     (1.0, 0, 1.0), (1.0, 99, 1.0)],
)  # fmt: skip
def test_the_learning_rate_stays_and_then_falls_to_nothing(
    decay_from: float, step: int, share: float
) -> None:
    settings = GeneratorConfig(steps=100, learning_rate=0.01, decay_from=decay_from)
    assert training.learning_rate(settings, step) == pytest.approx(0.01 * share)


@pytest.fixture
def prepared(threes: Digits) -> Prepared:
    return Prepared(np.stack([threes.image(i) for i in range(5)]), np.arange(5), {})


def test_references_are_the_landmarks_of_the_images(
    predictor: Predictor, prepared: Prepared, tmp_path: Path
) -> None:
    found = training.references(detector_of(predictor), prepared, tmp_path / "landmarks.npy")
    seen = predictor.detect_prepared(prepared.pixels, [Placement(0, 0, 1, 1)] * 5)
    assert found.shape == (5, 7, 2)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.stack([one.points for one in seen]), atol=1e-5)
    assert files(tmp_path) == {"landmarks.npy"}


def test_references_are_found_once(predictor: Predictor, prepared: Prepared, tmp_path: Path) -> None:
    kept = np.random.default_rng(0).random((5, 7, 2)).astype(np.float32)
    np.save(tmp_path / "landmarks.npy", kept)
    np.testing.assert_array_equal(
        training.references(detector_of(predictor), prepared, tmp_path / "landmarks.npy"), kept
    )


@pytest.mark.parametrize("damage", ["torn", "text", "shape", "kind", "claim", "head", "nan"])
def test_references_that_are_damaged_are_found_again(
    predictor: Predictor, prepared: Prepared, tmp_path: Path, damage: str
) -> None:
    file = tmp_path / "landmarks.npy"
    expected = training.references(detector_of(predictor), prepared, file)
    if damage == "torn":
        file.write_bytes(file.read_bytes()[:-50])
    elif damage == "text":
        file.write_text("Dear diary")
    elif damage == "claim":  # 35 terabytes
        file.write_bytes(file.read_bytes().replace(b"(5, 7, 2), }        ", b"(5, 7, 999999999), }"))
    elif damage == "head":
        file.write_bytes(file.read_bytes().replace(b"(5, 7, 2)", b"(5, 7, 2 "))
    elif damage == "nan":
        np.save(file, np.full((5, 7, 2), np.nan, np.float32))
    else:
        np.save(file, np.zeros((4, 7, 2), np.float32) if damage == "shape" else np.zeros((5, 7, 2)))
    np.testing.assert_array_equal(training.references(detector_of(predictor), prepared, file), expected)
    np.testing.assert_array_equal(np.load(file), expected)


@torch.no_grad()
def test_recalibration_averages_the_statistics_of_whole_batches(
    short: GeneratorConfig, predictor: Predictor
) -> None:
    generator = Adversaries(short, predictor.config.model).generator
    points = torch.rand(150, 7, 2, generator=torch.Generator().manual_seed(0))
    training.recalibrate(generator, points, short)
    assert not generator.training

    source = generator_of(short.seed, short.steps)
    means, variances = [], []
    for _ in range(2):  # of 64; the last 22 are no whole batch
        start = generator.start(draw(64, short.latent, source)).reshape(64, -1, generator.start_size**2)
        means.append(start.mean((0, 2)))
        variances.append(start.var((0, 2)))
    norm = generator.up[0]
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    torch.testing.assert_close(norm.running_mean, torch.stack(means).mean(0), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(norm.running_var, torch.stack(variances).mean(0), rtol=1e-4, atol=1e-5)
    assert norm.num_batches_tracked == 2


@torch.no_grad()
def test_two_landmarks_are_enough_to_recalibrate(short: GeneratorConfig, predictor: Predictor) -> None:
    generator = Adversaries(short, predictor.config.model).generator
    training.recalibrate(generator, torch.rand(2, 7, 2, generator=torch.Generator().manual_seed(0)), short)
    assert generator(torch.zeros(1, short.latent), torch.zeros(1, 7, 2)).isfinite().all()


# A finished run


def test_a_run_leaves_what_it_names(calm: GeneratorRun, short: GeneratorConfig) -> None:
    assert calm.finished
    assert calm.settings() == short
    assert calm.meta()["source"] == ["fake"]
    assert not calm.cache_folder.exists()
    assert not (calm.folder / ".replaced").exists()
    assert [line["step"] for line in calm.log()] == [3, 6, 9, 12]
    for line in calm.log():
        assert 0 <= line["k"] <= 1
        assert min(line["real"], line["made"], line["cycle"]) > 0
        assert line["measure"] >= line["real"]
    shown = [int(file.stem.removeprefix("step-")) for file in sorted(calm.evolution_folder.iterdir())]
    assert shown == sorted({round(part * STEPS) for part in training.SHOWN})


def test_the_summary(calm: GeneratorRun) -> None:
    summary = calm.summary()
    assert summary["steps"] == STEPS
    assert summary["train_images"] == 24
    assert summary["skipped"] == {}
    sampler = Sampler.load(calm.folder)
    assert summary["parameters"] == sum(value.numel() for value in sampler.generator.parameters())
    assert summary["measure"] == calm.log()[-1]["measure"]
    assert summary["k"] == calm.log()[-1]["k"]
    with np.load(calm.samples_file) as kept:
        pixels = kept["pixels"]
    landmarks = training.landmarks_of(detector_of(sampler.predictor), to_tensor(pixels))
    near, far = training.cycle_distances(sampler, landmarks, seed=0)
    spread, real = training.diversity(sampler, landmarks, pixels, seed=0)
    assert summary["cycle_distance"] == pytest.approx(near.mean(), rel=1e-3)
    assert summary["shuffled_distance"] == pytest.approx(far.mean(), rel=1e-3)
    assert summary["diversity"] == pytest.approx(spread / real, rel=1e-2)


def test_of_a_small_set_no_image_is_kept_out(calm: GeneratorRun, generator_run: GeneratorRun) -> None:
    assert calm.summary()["held_out"] == 0
    assert generator_run.summary()["held_out"] == 50  # a tenth of the threes


def test_pictures_show_the_finished_generator(calm: GeneratorRun, short: GeneratorConfig) -> None:
    sampler = Sampler.load(calm.folder)
    with np.load(calm.samples_file) as kept:
        pixels = kept["pixels"][: training.ROWS]
    landmarks = training.landmarks_of(detector_of(sampler.predictor), to_tensor(pixels))
    latents = draw(training.COLUMNS, short.latent, torch.Generator().manual_seed(short.seed))
    expected = training.sheet(sampler.generator, pixels, landmarks, latents)
    picture = read_image(calm.evolution_folder / f"step-{STEPS:07d}.png")
    np.testing.assert_allclose(picture.astype(int), expected.astype(int), atol=2)
    assert picture.shape == (2 * (TILE + 4) + 4, 4 * (TILE + 4) + 4, 3)


def test_the_landmark_model_is_as_it_was(calm: GeneratorRun) -> None:
    for name in ("config.json", "model.safetensors"):
        assert (calm.landmarks.folder / name).read_bytes() == (ZOO / "digits-7" / name).read_bytes()


def test_images_come_with_their_own_landmarks(
    short: GeneratorConfig,
    few: Any,
    predictor: Predictor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original, seen = training.gradients, []

    def wrapped(*args: Any) -> Any:
        seen.append(args[2:5])
        return original(*args)

    monkeypatch.setattr(training, "gradients", wrapped)
    train(replace(short, steps=3), "digits-7", few, tmp_path / "run")
    assert len(seen) == 3
    for real, landmarks, latents in seen:
        assert real.shape == (short.batch_size, 1, 28, 28)
        assert latents.shape == (short.batch_size, short.latent)
        with torch.no_grad():
            found = detector_of(predictor).detect(real).landmarks
        torch.testing.assert_close(landmarks, found, rtol=1e-4, atol=1e-4)
    assert not torch.equal(seen[0][2], seen[1][2])


def test_k_follows_the_energies(told: GeneratorRun) -> None:
    lines = told.log()
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    k = 0.0
    for line in lines:
        assert line["k"] == pytest.approx(k, abs=1e-5)
        gap = line["real"] - line["made"]  # gamma is 1
        k = min(1.0, max(0.0, k + 0.2 * gap))
        assert line["measure"] == pytest.approx(line["real"] + abs(gap), rel=1e-4)
    assert max(line["k"] for line in lines) > 0.05
    assert load_tensors(told.checkpoint_file)[0]["model/k"].item() == pytest.approx(k, abs=1e-5)


def test_the_moving_average_is_what_is_saved(
    short: GeneratorConfig, few: Any, predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = session.save_checkpoint
    weights: list[dict[str, Tensor]] = []

    def noted(path: Path, step: int, model: Adversaries, *rest: Any) -> None:
        weights.append({name: value.detach().clone() for name, value in model.generator.named_parameters()})
        original(path, step, model, *rest)

    monkeypatch.setattr(session, "save_checkpoint", noted)
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", -1.0)
    settings = replace(short, steps=4, ema=0.3)
    average = dict(Adversaries(settings, predictor.config.model).generator.named_parameters())
    run = train(settings, "digits-7", few, tmp_path / "run")
    assert len(weights) == 4
    for step, after in enumerate(weights):
        decay = min(0.3, (1 + step) / (10 + step))  # 0.1, 2/11, 0.25, 0.3
        average = {
            name: decay * value.detach() + (1 - decay) * after[name] for name, value in average.items()
        }
    saved = load_tensors(run.model_file)[0]
    assert set(average) <= set(saved)
    for name, value in average.items():
        torch.testing.assert_close(saved[name], value, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(saved["start.weight"], weights[-1]["start.weight"], rtol=0, atol=1e-7)
    kept = load_tensors(run.checkpoint_file)[0]
    assert all(torch.equal(kept[f"average/{name}"], saved[name]) for name in average)


def test_images_that_cannot_be_read_are_skipped(
    short: GeneratorConfig, few: Any, make_source: type, tmp_path: Path
) -> None:
    images = [*few.images[:5], None, *few.images[5:9], None]
    run = train(replace(short, steps=2), "digits-7", make_source(images), tmp_path / "run")
    assert run.summary()["skipped"] == {"fake-5": "made to fail", "fake-10": "made to fail"}
    assert run.summary()["train_images"] == 9


def test_two_images_and_a_single_step_are_enough(
    short: GeneratorConfig, few: Any, make_source: type, tmp_path: Path
) -> None:
    settings = replace(short, steps=1, batch_size=2)
    run = train(settings, "digits-7", make_source(few.images[:2]), tmp_path / "run")
    assert run.finished
    assert [line["step"] for line in run.log()] == [1]


def test_colour(short: GeneratorConfig, colour_run: GeneratorRun, photos: Path, tmp_path: Path) -> None:
    from trigpoint.core.sources import open_source

    settings = replace(short, steps=2, decoder="")
    run = train(settings, colour_run.folder, open_source(photos), tmp_path / "run")
    sampler = Sampler.load(run.folder)
    made = sampler.generate(np.full((3, 4, 2), 0.5), sampler.latents(3, 0))
    assert made.shape == (3, 32, 32, 3)
    assert np.ptp(made.astype(int), axis=-1).max() > 0


# From a seed


def test_the_same_seed_gives_the_same_bytes(
    short: GeneratorConfig, few: Any, calm: GeneratorRun, told: GeneratorRun, tmp_path: Path
) -> None:
    """However often the log is written, and whatever else is random."""
    assert told.model_file.read_bytes() == calm.model_file.read_bytes()
    assert summary_of(told) | {"measure": 0, "k": 0} == summary_of(calm) | {"measure": 0, "k": 0}
    other = train(replace(short, seed=4), "digits-7", few, tmp_path / "other")
    assert other.model_file.read_bytes() != calm.model_file.read_bytes()
    assert other.summary()["cycle_distance"] != calm.summary()["cycle_distance"]


# Stopped, and taken up again


@pytest.mark.usefixtures("_four_lines")
def test_a_run_killed_at_nasty_moments_ends_like_one_that_was_not(
    short: GeneratorConfig,
    few: Any,
    calm: GeneratorRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    on_call: Callable[..., None],
) -> None:
    out = tmp_path / "run"
    moments = (
        ("training_set", 1, "before"),
        ("references", 1, "before"),  # the images are decoded
        ("gradients", 5, "after"),  # a line is logged, there was no checkpoint yet
        ("gradients", 5, "after"),  # and again
        ("gradients", 3, "before"),
        ("save_checkpoint", 1, "before"),  # a line is logged, its checkpoint is not written
        ("save_checkpoint", 2, "after"),
        ("keep_samples", 1, "before"),
        ("gradients", 5, "after"),
        ("save_checkpoint", 3, "before"),
        ("recalibrate", 1, "before"),  # all steps are done
        ("averaged", 1, "after"),
        ("save_tensors", 1, "before"),
        ("save_tensors", 1, "after"),  # the generator is written, nothing else
        ("finish", 1, "before"),
    )
    for turn, (name, call, when) in enumerate(moments):
        if turn == 4:
            assert [line["step"] for line in GeneratorRun(out).log()] == [3]
            monkeypatch.setattr(session, "CHECKPOINT_SECONDS", -1.0)  # one after every step from here on
        on_call(name, call, when, kill)
        with pytest.raises(Killed):
            train(short, "digits-7", few, out, resume=turn > 0)
        assert not GeneratorRun(out).finished, name
    on_call("finish", 99, "before", kill)
    run = train(short, "digits-7", few, out, resume=True)
    assert [line["step"] for line in run.log()] == [3, 6, 9, 12]
    assert same_end(run, calm)


# What is refused, and what is kept


def test_a_run_that_exists_is_kept(short: GeneratorConfig, few: Any, generator_run: GeneratorRun) -> None:
    before = {path: path.stat().st_mtime_ns for path in generator_run.folder.rglob("*")}
    with pytest.raises(
        TrigpointError, match=r"already holds .* replace it with --overwrite, or choose another"
    ):
        train(short, "digits-7", few, generator_run.folder)
    assert {path: path.stat().st_mtime_ns for path in generator_run.folder.rglob("*")} == before


def test_folders_of_something_else_are_kept(short: GeneratorConfig, few: Any, tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("mine")
    with pytest.raises(TrigpointError, match=r"letter is a file; --out names a folder\."):
        train(short, "digits-7", few, tmp_path / "letter")
    for overwrite in (False, True):
        with pytest.raises(TrigpointError, match="is not empty and holds no run"):
            train(short, "digits-7", few, tmp_path, overwrite=overwrite)
    assert files(tmp_path) == {"letter"}
    with pytest.raises(TrigpointError, match=r"is no run folder: it has no config\.json"):
        train(short, "digits-7", few, tmp_path, resume=True)


@pytest.mark.parametrize("inner", [False, True])
def test_the_model_that_it_is_for_is_never_replaced(
    short: GeneratorConfig, few: Any, generator_run: GeneratorRun, tmp_path: Path, inner: bool
) -> None:
    """Also where it is the one within a generator."""
    folder = tmp_path / "model"
    shutil.copytree(generator_run.folder if inner else ZOO / "digits-7", folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(
        TrigpointError, match="holds the model that the generator is for; choose another --out"
    ):
        train(short, folder, few, folder, overwrite=True)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_landmark_run_cannot_be_resumed_as_a_generator(
    short: GeneratorConfig, few: Any, tmp_path: Path
) -> None:
    shutil.copytree(ZOO / "digits-7", tmp_path / "run")
    with pytest.raises(TrigpointError, match="is no run of `trigpoint generate train`"):
        train(short, "digits-7", few, tmp_path / "run", resume=True)


def test_sizes_that_cannot_be_built_leave_nothing(short: GeneratorConfig, few: Any, tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match=r"generator\.decoder must give an image of 28 pixels"):
        train(replace(short, decoder="| 8 | U U U out"), "digits-7", few, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("images", "words"),
    [
        ((None, None), "None of the 2 images could be read"),
        ((0, None), "at least 2 readable images; found 1"),
    ],
)
def test_too_few_images_leave_nothing(
    short: GeneratorConfig,
    few: Any,
    make_source: type,
    generator_run: GeneratorRun,
    tmp_path: Path,
    images: tuple[int | None, ...],
    words: str,
) -> None:
    source = make_source([None if i is None else few.images[i] for i in images])
    with pytest.raises(TrigpointError, match=words):
        train(short, "digits-7", source, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    # And of a run that was to be replaced, nothing is lost.
    shutil.copytree(generator_run.folder, tmp_path / "old")
    with pytest.raises(TrigpointError, match=words):
        train(short, "digits-7", source, tmp_path / "old", overwrite=True)
    assert files(tmp_path / "old") == files(generator_run.folder)
    assert (tmp_path / "old" / "generator.safetensors").read_bytes() == generator_run.model_file.read_bytes()


@pytest.mark.parametrize("reason", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_model_that_cannot_be_copied_leaves_nothing(
    short: GeneratorConfig,
    few: Any,
    generator_run: GeneratorRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reason: BaseException,
) -> None:
    shutil.copytree(generator_run.folder, tmp_path / "old")

    def full(*_: object) -> None:
        raise reason

    monkeypatch.setattr("trigpoint.core.generator_run.shutil.copyfile", full)
    for name, overwrite in (("run", False), ("old", True)):
        with pytest.raises(type(reason)):
            train(short, "digits-7", few, tmp_path / name, overwrite=overwrite)
    assert files(tmp_path / "old") == files(generator_run.folder)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_made_is_named(short: GeneratorConfig, few: Any, tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("mine")
    with pytest.raises(OSError, match="letter") as caught:
        train(short, "digits-7", few, tmp_path / "letter" / "run")
    assert caught.value.filename is not None


def test_a_run_is_replaced_when_asked(
    short: GeneratorConfig, few: Any, generator_run: GeneratorRun, tmp_path: Path
) -> None:
    shutil.copytree(generator_run.folder, tmp_path / "run")
    run = train(replace(short, steps=2), "digits-7", few, tmp_path / "run", overwrite=True)
    assert run.settings().steps == 2
    assert [line["step"] for line in run.log()] == [1, 2]
    assert not (run.folder / ".replaced").exists()
    assert not run.report_file.exists()


def test_a_damaged_checkpoint_is_named(
    short: GeneratorConfig,
    few: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    on_call: Callable[..., None],
) -> None:
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", -1.0)
    on_call("gradients", 3, "before", kill)
    with pytest.raises(Killed):
        train(short, "digits-7", few, tmp_path / "run")
    file = GeneratorRun(tmp_path / "run").checkpoint_file
    file.write_bytes(file.read_bytes()[:1000])
    on_call("gradients", 99, "before", kill)
    with pytest.raises(TrigpointError, match=r"state\.safetensors is damaged"):
        train(short, "digits-7", few, tmp_path / "run", resume=True)


# It learns


def test_training_learns_to_put_landmarks_where_they_are_wanted(tmp_path: Path) -> None:
    """On digits kept out of training: landmarks found again at least 1.5 times nearer to those wanted than to
    another digit's, and samples of one structure at least a fifth as different as real digits."""
    settings = GeneratorConfig(
        latent=16,
        width=16,
        decoder="| 16/16 S1 P 24 | U 16 out",
        critic_width=8,
        critic_hidden=32,
        steps=400,
        batch_size=16,
        learning_rate=4e-3,
        ema=0.98,
        recalibration_images=512,
    )
    run = train(settings, "digits-7", Digits(), tmp_path / "run")
    summary = run.summary()
    assert summary["held_out"] == 128
    assert summary["cycle_distance"] < summary["shuffled_distance"] / 1.5
    assert summary["diversity"] > 0.2
    lines = run.log()
    first, last = lines[:10], lines[-10:]
    assert np.mean([line["cycle"] for line in last]) < np.mean([line["cycle"] for line in first]) / 1.5
    assert np.mean([line["measure"] for line in last]) < np.mean([line["measure"] for line in first])
    assert all(0 <= line["k"] <= 1 for line in lines)


def test_an_untrained_generator_does_not(
    short: GeneratorConfig, predictor: Predictor, threes: Digits
) -> None:
    """So that the test above says something: before training both distances are alike."""
    generator: Generator = Adversaries(short, predictor.config.model).generator
    images = to_tensor(np.stack([threes.image(i) for i in range(64)]))
    landmarks = training.landmarks_of(detector_of(predictor), images)
    training.recalibrate(generator, torch.from_numpy(landmarks), short)
    near, far = training.cycle_distances(Sampler(generator, predictor, short), landmarks, seed=0)
    assert far.mean() < 1.2 * near.mean()
