"""MNIST's idx files: every way they are named and packed, and every way they can be wrong."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.sources import open_source
from trigpoint.core.sources.mnist import MNIST

LABELS = np.array([5, 0, 4, 1, 5, 9], np.uint8)
IMAGES = np.random.default_rng(0).integers(0, 256, (6, 28, 28), np.uint8)


def idx(values: NDArray[np.uint8]) -> bytes:
    return struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape) + values.tobytes()


def write(folder: Path, prefix: str, images: bytes, labels: bytes, dot: str = "-", end: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    for kind, content in ((f"images{dot}idx3", images), (f"labels{dot}idx1", labels)):
        packed = gzip.compress(content) if end else content
        (folder / f"{prefix}-{kind}-ubyte{end}").write_bytes(packed)
    return folder


@pytest.mark.parametrize("dot", ["-", "."])
@pytest.mark.parametrize("end", ["", ".gz"])
def test_digits_are_read_however_the_files_are_named_and_packed(tmp_path: Path, dot: str, end: str) -> None:
    source = MNIST(write(tmp_path, "train", idx(IMAGES), idx(LABELS), dot, end))
    assert len(source) == 6
    np.testing.assert_array_equal([source.image(index) for index in range(6)], IMAGES[..., None])
    assert source.attributes is not None
    assert source.attributes.names == ("digit",)
    np.testing.assert_array_equal(source.attributes.values, LABELS[:, None])
    assert source.annotations is None
    assert source.box(0) is None
    assert source.name(5) == "train-00005-9"
    assert isinstance(source.images, np.memmap) == (not end)


def test_a_variant_keeps_one_class_and_opens_again_by_its_words(tmp_path: Path) -> None:
    source = MNIST(write(tmp_path, "train", idx(IMAGES), idx(LABELS)), variant="5")
    assert source.words == (f"mnist-5:{tmp_path}",)
    again = open_source(source.words)
    assert [again.name(index) for index in range(len(again))] == ["train-00000-5", "train-00004-5"]
    np.testing.assert_array_equal(again.image(1)[:, :, 0], IMAGES[4])
    assert open_source(f"mnist:{tmp_path}").words == (f"mnist:{tmp_path}",)
    with pytest.raises(TrigpointError, match="holds no digit 7"):
        MNIST(tmp_path, variant="7")


def test_the_test_split_has_files_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, "train", idx(IMAGES), idx(LABELS))
    with pytest.raises(TrigpointError, match=r"MNIST needs the file .*t10k-images-idx3-ubyte, or the same"):
        MNIST(tmp_path, "test")
    write(tmp_path, "t10k", idx(IMAGES[:2]), idx(LABELS[:2]))
    assert len(MNIST(tmp_path, "test")) == 2
    assert len(MNIST(tmp_path, "labels")) == 6


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize(
    ("images", "labels", "sentence"),
    [
        (b"", idx(LABELS), "begins with 00000803; got nothing"),
        (idx(LABELS), idx(LABELS), "begins with 00000803; got 00000801"),
        (idx(IMAGES)[:10], idx(LABELS), "begins with 00000803"),
        (idx(IMAGES)[:-1], idx(LABELS), "head says 6x28x28, 4,704 bytes; it holds 4,703"),
        (idx(IMAGES) + b"!", idx(LABELS), "head says 6x28x28, 4,704 bytes; it holds more"),
        (b"\0\0\x08\x03" + b"\xff" * 12, idx(LABELS), "it holds 0"),
        (idx(IMAGES[:, :20]), idx(LABELS), "expected images of 28x28; got 28x20"),
        (idx(IMAGES), idx(LABELS[:5]), "expected 6 labels, as images; got 5"),
        (idx(IMAGES), idx(LABELS + 3), "expected labels from 0 to 9; got 12"),
        (idx(IMAGES[:0]), idx(LABELS[:0]), "holds no digit"),
    ],
)
def test_files_that_do_not_agree_with_themselves_are_refused(
    tmp_path: Path, images: bytes, labels: bytes, sentence: str, end: str
) -> None:
    with pytest.raises(TrigpointError, match=rf"ubyte.*{sentence}"):
        MNIST(write(tmp_path, "train", images, labels, end=end))


@pytest.mark.parametrize("content", [b"not gzip at all", gzip.compress(idx(IMAGES))[:200]])
def test_a_damaged_archive_is_named(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, "train", b"", idx(LABELS), end=".gz")
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(TrigpointError, match=r"train-images-idx3-ubyte\.gz cannot be read"):
        MNIST(tmp_path)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match="MNIST needs the folder"):
        MNIST(tmp_path / "elsewhere")
