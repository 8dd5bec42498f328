"""What the tests share: one thread, small models, small images, and three small finished runs."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import venv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from filelock import FileLock
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from trigpoint import api
from trigpoint.app.report.generator import write_report
from trigpoint.core.config.generator import GeneratorConfig
from trigpoint.core.config.presets import tiny
from trigpoint.core.config.tree import Config, ModelConfig, TrainConfig
from trigpoint.core.errors import UnreadableImage
from trigpoint.core.generator_run import GeneratorRun
from trigpoint.core.geometry import Placement
from trigpoint.core.runs import Run
from trigpoint.core.sources.base import Annotations, Attributes, Source
from trigpoint.core.sources.digits import Digits
from trigpoint.learning.data.order import Order
from trigpoint.learning.generation.train import train as train_generator
from trigpoint.learning.training import loop, session

torch.set_num_threads(1)


@pytest.fixture
def close(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Take away the right to list a folder, which permissions do not take from root."""
    closed: list[Path] = []
    listed = os.scandir

    def scandir(path: Any = ".") -> Any:
        if Path(path) in closed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    return closed.append


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Verbs that are told a number of threads leave one behind."""
    yield
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def old_pandas(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the pandas that DeepLabCut requires, made once and kept in pytest's
    cache. Takes a network and about twenty seconds."""
    cache = getattr(request.config, "cache", None)
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = (cache.mkdir("environments") if cache else shared) / "pandas-2"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    with FileLock(folder.with_suffix(".lock")):
        if not (folder / "complete").exists():
            install = [python, "-m", "pip", "install", "--quiet", "pandas<3", "tables"]
            try:
                venv.create(folder, clear=True, with_pip=True)
                subprocess.run(install, capture_output=True, text=True, check=True, timeout=300)
            except (subprocess.SubprocessError, OSError) as error:
                pytest.skip(f"pandas 2 cannot be installed: {getattr(error, 'stderr', None) or error}"[:500])
            (folder / "complete").touch()
    return python


@pytest.fixture
def tear(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Begin a training that goes out from a model, and break it off at its sixth step."""

    def begin(config: Config, source: Source, out: Path, start: Path) -> None:
        taken = Order.batch

        def stopping(order: Order, step: int) -> NDArray[np.int64]:
            if step == 5:
                raise KeyboardInterrupt
            return taken(order, step)

        with monkeypatch.context() as patch:
            patch.setattr(session, "CHECKPOINT_SECONDS", 0.0)
            patch.setattr(Order, "batch", stopping)
            with pytest.raises(KeyboardInterrupt):
                loop.train(config, source, out, start=start)

    return begin


@pytest.fixture(scope="session")
def micro() -> Config:
    """The smallest useful model for grey images of 28 pixels: a step takes milliseconds."""
    config = tiny(4)
    model = replace(
        config.model,
        padded_size=32,
        detector="D8 | 8/8 S1 P 16 | out1",
        decoder="| 8/8 S1 P 16 | U 8 out",
        decoder_levels=2,
    )
    train = replace(config.train, batch_size=4, recalibration_images=64)
    return replace(config, model=model, train=train, preset="micro")


@pytest.fixture(scope="session")
def micro_colour() -> Config:
    """The same for colour, with descriptors."""
    model = ModelConfig(
        landmarks=4,
        channels=3,
        image_size=32,
        padded_size=40,
        detector="D8 | 8/8 S1 P 16 | out1",
        features="8 P | 8/8 S1 P 16 | out1",
        decoder="| 16/8 S1 P 16 | U 8 out",
        feature_channels=8,
        descriptor_size=4,
        decoder_levels=2,
    )
    return Config(
        model=model, train=TrainConfig(batch_size=4, recalibration_images=64), preset="micro-colour"
    )


def photo(index: int, size: tuple[int, int] = (48, 36), grey: bool = False) -> Image.Image:
    """A bright disc with a dark spot on a coloured ground, elsewhere on each photo."""
    random = np.random.default_rng(index)
    width, height = size
    picture = Image.new("RGB", size, (30, 60 + 5 * (index % 10), 120))
    draw = ImageDraw.Draw(picture)
    radius = min(size) / 5
    x = random.uniform(radius, width - radius)
    y = random.uniform(radius, height - radius)
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=(250, 210, 60))
    draw.ellipse((x, y, x + radius / 2, y + radius / 2), fill=(90, 20, 20))
    return picture.convert("L") if grey else picture


@pytest.fixture(scope="session")
def make_photos() -> Callable[..., Path]:
    """Write `count` photos into a folder, PNG and JPEG in turn; returns the folder."""

    def make(folder: Path, count: int = 12, size: tuple[int, int] = (48, 36), grey: bool = False) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for index in range(count):
            photo(index, size, grey).save(folder / f"{index:02d}.{'png' if index % 2 else 'jpg'}")
        return folder

    return make


@pytest.fixture
def photos(tmp_path: Path, make_photos: Callable[..., Path]) -> Path:
    """A folder of twelve small colour photos."""
    return make_photos(tmp_path / "photos")


@dataclass
class FakeSource(Source):
    """Images from a list; None stands for one that cannot be read. Counts how often each is read."""

    images: Sequence[NDArray[np.uint8] | None]
    annotations: Annotations | None = None
    attributes: Attributes | None = None
    boxes: dict[int, Placement] = field(default_factory=dict)
    words: tuple[str, ...] = ("fake",)
    description: str = "fake"
    reads: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.images)

    def name(self, index: int) -> str:
        return f"fake-{index}"

    def file(self, index: int) -> Path | None:
        return None

    def image(self, index: int) -> NDArray[np.uint8]:
        self.reads.append(index)
        found = self.images[index]
        if found is None:
            raise UnreadableImage("made to fail")
        return found

    def box(self, index: int) -> Placement | None:
        return self.boxes.get(index)


@pytest.fixture(scope="session")
def make_source() -> type[FakeSource]:
    return FakeSource


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run of preset tiny-5 on digits. Do not change it: copy it."""
    return api.train(
        "digits",
        tmp_path_factory.mktemp("runs") / "digits",
        preset="tiny-5",
        steps=20,
        values=["train.recalibration_images=64", "train.batch_size=8"],
    )


@pytest.fixture(scope="session")
def colour_run(
    tmp_path_factory: pytest.TempPathFactory, micro_colour: Config, make_photos: Callable[..., Path]
) -> Run:
    """A finished run on colour photos, with descriptors. Do not change it: copy it."""
    folder = tmp_path_factory.mktemp("colour")
    return api.train(make_photos(folder / "photos"), folder / "run", preset=micro_colour, steps=12)


@pytest.fixture(scope="session")
def generator_run(tmp_path_factory: pytest.TempPathFactory) -> GeneratorRun:
    """A finished run of a generator for digits-7, hardly trained, on threes. Do not change it: copy it."""
    settings = GeneratorConfig(
        latent=16,
        width=8,
        decoder="| 8/8 S1 P 8 | U 8 out",
        critic_width=4,
        critic_hidden=8,
        steps=20,
        batch_size=4,
        learning_rate=2e-3,
        ema=0.9,
        recalibration_images=64,
    )
    run = train_generator(settings, "digits-7", Digits("3"), tmp_path_factory.mktemp("generator") / "run")
    write_report(run)
    return run


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium, without a window."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium on the path to open a page in")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tool:
        started = tool.chromium.launch(
            executable_path=chromium,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ],
        )
        yield started
        started.close()
