"""Decoding a source once into a memory-mapped file."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from trigpoint.core.config.tree import Config
from trigpoint.core.errors import TrigpointError
from trigpoint.core.geometry import Placement, extract, fit_box
from trigpoint.core.runs import Run
from trigpoint.learning.data.prepared import prepare, square, training_set
from trigpoint.learning.tensors import to_tensor


@pytest.fixture
def images() -> list[np.ndarray]:
    """Grey images of three sizes, each of its own brightness."""
    sizes = ((28, 28), (20, 36), (50, 40))
    return [np.full((*sizes[i % 3], 1), 20 * i + 5, np.uint8) for i in range(9)]


def test_every_image_becomes_a_row(make_source: type, images: list, micro: Config, tmp_path: Path) -> None:
    ticks: list[tuple[int, int]] = []
    prepared = prepare(make_source(images), micro, tmp_path / "cache", lambda *at: ticks.append(at))
    assert len(prepared) == 9
    assert prepared.pixels.shape == (9, 28, 28, 1)
    assert prepared.indices.tolist() == list(range(9))
    assert prepared.skipped == {}
    for row, image in zip(prepared.pixels, images, strict=True):
        assert (row == image[0, 0, 0]).all()
    assert ticks == [(i + 1, 9) for i in range(9)]


def test_pixels_stay_on_the_disk(make_source: type, images: list, micro: Config, tmp_path: Path) -> None:
    prepared = prepare(make_source(images), micro, tmp_path / "cache")
    assert isinstance(prepared.pixels, np.memmap)
    assert not prepared.pixels.flags.writeable
    assert (tmp_path / "cache" / "images.bin").stat().st_size == 9 * 28 * 28


def test_memory_does_not_grow_with_the_number_of_images(
    make_source: type, micro: Config, tmp_path: Path
) -> None:
    config = replace(micro, model=replace(micro.model, image_size=128, padded_size=144))
    image = np.zeros((128, 128, 1), np.uint8)
    tracemalloc.start()
    prepare(make_source([image] * 400), config, tmp_path / "cache")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000  # all rows together are 6.5 MB


def test_a_batch_is_a_tensor_between_0_and_1(
    make_source: type, images: list, micro: Config, tmp_path: Path
) -> None:
    prepared = prepare(make_source(images), micro, tmp_path / "cache")
    batch = prepared.batch(np.array([4, 1]))
    assert batch.shape == (2, 1, 28, 28)
    assert sorted(batch[:, 0, 0, 0].tolist()) == pytest.approx([25 / 255, 85 / 255])


def test_to_tensor_puts_channels_first() -> None:
    pixels = np.zeros((2, 4, 4, 3), np.uint8)
    pixels[1, 2, 3] = (255, 51, 0)
    tensor = to_tensor(pixels)
    assert tensor.shape == (2, 3, 4, 4)
    assert tensor[1, :, 2, 3].tolist() == pytest.approx([1.0, 0.2, 0.0])


def test_what_was_prepared_is_reopened(
    make_source: type, images: list, micro: Config, tmp_path: Path
) -> None:
    images[3] = None
    first = prepare(make_source(images), micro, tmp_path / "cache")
    source = make_source(images)
    again = prepare(source, micro, tmp_path / "cache")
    assert source.reads == []
    np.testing.assert_array_equal(again.pixels, first.pixels)
    np.testing.assert_array_equal(again.indices, first.indices)
    assert again.skipped == first.skipped


@pytest.mark.parametrize("change", ["fewer images", "another size", "cut short"])
def test_what_no_longer_fits_is_prepared_again(
    make_source: type, images: list, micro: Config, tmp_path: Path, change: str
) -> None:
    prepare(make_source(images), micro, tmp_path / "cache")
    if change == "fewer images":
        images = images[:-1]
    elif change == "another size":
        micro = replace(micro, model=replace(micro.model, image_size=24))
    else:
        with (tmp_path / "cache" / "images.bin").open("r+b") as stream:
            stream.truncate(1000)
    source = make_source(images)
    again = prepare(source, micro, tmp_path / "cache")
    assert len(source.reads) == len(images)
    assert again.pixels.shape == (len(images), micro.model.image_size, micro.model.image_size, 1)
    assert again.pixels[4, 0, 0, 0] == 85


@pytest.mark.parametrize("remains", ["half of the pixels", "half of the index", "the index alone"])
def test_what_a_kill_left_behind_is_prepared_again(
    make_source: type, images: list, micro: Config, tmp_path: Path, remains: str
) -> None:
    folder = tmp_path / "cache"
    whole = prepare(make_source(images), micro, folder)
    expected = np.array(whole.pixels)
    index = (folder / "images.json").read_text()
    if remains == "half of the pixels":
        (folder / "images.json").unlink()
        (folder / "images.bin").rename(folder / "images.bin.part")
    elif remains == "half of the index":
        (folder / "images.json").write_text(index[: len(index) // 2])
    else:
        (folder / "images.bin").unlink()
    np.testing.assert_array_equal(prepare(make_source(images), micro, folder).pixels, expected)


INDEX = {"count": 8, "indices": list(range(8)), "skipped": {}}


@pytest.mark.parametrize(
    "index",
    [
        [],
        {**INDEX, "indices": [0, 1, 2, 3, 4, 5, 6, 8]},
        {**INDEX, "indices": [0, 0, 2, 3, 4, 5, 6, 7]},
        {**INDEX, "indices": [float("inf"), *range(1, 8)]},
        {**INDEX, "indices": [{}, *range(1, 8)]},
        {**INDEX, "indices": 8},
        {**INDEX, "skipped": []},
        {**INDEX, "skipped": {"a.png": 7}},
    ],
)
def test_a_damaged_index_is_prepared_again(
    make_source: type, micro: Config, tmp_path: Path, index: object
) -> None:
    images = [np.full((28, 28, 1), 10 * level, np.uint8) for level in range(8)]
    prepare(make_source(images), micro, tmp_path)
    (tmp_path / "images.json").write_text(json.dumps(index))
    again = prepare(make_source(images), micro, tmp_path)
    assert again.indices.tolist() == list(range(8))
    assert again.skipped == {}
    assert json.loads((tmp_path / "images.json").read_text()) == INDEX


def test_unreadable_images_are_skipped_and_named(
    make_source: type, images: list, micro: Config, tmp_path: Path
) -> None:
    images[0] = images[5] = None
    prepared = prepare(make_source(images), micro, tmp_path / "cache")
    assert prepared.skipped == {"fake-0": "made to fail", "fake-5": "made to fail"}
    assert prepared.indices.tolist() == [1, 2, 3, 4, 6, 7, 8]
    assert prepared.pixels[4, 0, 0, 0] == 125


def test_nothing_readable_is_an_error(make_source: type, micro: Config, tmp_path: Path) -> None:
    with pytest.raises(
        TrigpointError, match="None of the 3 images could be read; the first, fake-0: made to fail"
    ):
        prepare(make_source([None] * 3), micro, tmp_path / "cache")


def test_a_full_disk_is_noticed_before_decoding(
    make_source: type, images: list, micro: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _: SimpleNamespace(total=10**9, used=10**9, free=3_000_000)
    )
    source = make_source(images)
    with pytest.raises(TrigpointError, match=r"need .* MB in .*, where 3 MB are free"):
        prepare(source, micro, tmp_path / "cache")
    assert source.reads == []


def test_square_uses_the_source_s_box_or_the_config_s_fit(make_source: type, micro: Config) -> None:
    image = np.zeros((40, 60, 3), np.uint8)
    image[10:20, 30:40] = 255
    source = make_source([image, image], boxes={1: Placement(30, 10, 10, 10)})
    pixels, place = square(source, 0, micro)
    assert place == fit_box(60, 40, "pad")
    np.testing.assert_array_equal(pixels, extract(image[:, :, :1], place, 28))
    pixels, place = square(source, 1, micro)
    assert place == Placement(30, 10, 10, 10)
    assert pixels.shape == (28, 28, 1)
    assert (pixels == 255).all()
    assert square(source, 0, micro, size=50)[0].shape == (50, 50, 1)


def test_a_very_long_image_does_not_fill_the_memory(make_source: type, micro: Config) -> None:
    """Made square by padding, 16 by 30,000 pixels would be 900 million."""
    strip = np.tile(np.array([[[10]], [[200]]], np.uint8).repeat(15_000, 0), (1, 16, 1))
    tracemalloc.start()
    pixels, place = square(make_source([strip]), 0, micro)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000_000
    assert (place.width, place.height) == (30_000, 30_000)
    assert (pixels[:13] == 10).all()
    assert (pixels[15:] == 200).all()


def test_held_out_images_are_not_trained_on(make_source: type, micro: Config, tmp_path: Path) -> None:
    images = np.repeat(np.arange(200, dtype=np.uint8), 28 * 28).reshape(200, 28, 28, 1)  # each its own grey
    run = Run(tmp_path)
    data = training_set(make_source(list(images)), micro, run, seed=4)
    assert (len(data.held_out), data.held_out_count, len(data.rows)) == (20, 20, 180)
    kept = set(data.held_out[:, 0, 0, 0].tolist())
    assert len(kept) == 20
    assert kept.isdisjoint(data.images.pixels[data.rows, 0, 0, 0].tolist())
    np.testing.assert_array_equal(np.load(run.samples_file)["pixels"], data.held_out)
    assert not np.array_equal(training_set(make_source(list(images)), micro, run, seed=5).rows, data.rows)


def test_a_tiny_set_is_trained_on_whole(make_source: type, micro: Config, tmp_path: Path) -> None:
    data = training_set(make_source([np.zeros((28, 28, 1), np.uint8)] * 20), micro, Run(tmp_path), seed=0)
    assert data.rows.tolist() == list(range(20))
    assert (len(data.held_out), data.held_out_count) == (8, 0)
