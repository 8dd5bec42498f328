"""From the words of the command line to a source."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from PIL import Image

from cairns.errors import CairnsError
from cairns.sources import DATASETS, Subset, open_source
from cairns.sources.base import Annotations
from cairns.sources.digits import Digits
from cairns.sources.folder import Folder
from cairns.sources.mtfl import MTFL


def test_a_folder(photos: Path) -> None:
    source = open_source(photos)
    assert isinstance(source, Folder)
    assert len(source) == 12
    assert len(open_source(str(photos))) == 12


def test_a_list_of_files(photos: Path) -> None:
    assert len(open_source(sorted(photos.iterdir())[:3])) == 3


def test_digits() -> None:
    assert isinstance(open_source("digits"), Digits)
    assert len(open_source(["digits:3"])) == 500


def test_mtfl(tmp_path: Path) -> None:
    (tmp_path / "testing.txt").write_text("AFLW/d.jpg 1 2 3 4 5 6 7 8 9 10 1 1 1 1\n")
    source = open_source(f"mtfl:{tmp_path}", "test")
    assert isinstance(source, MTFL)
    assert source.name(0) == "AFLW/d.jpg"


def test_its_own_words_open_it_again(photos: Path) -> None:
    for words in (str(photos), "digits:4", [str(path) for path in sorted(photos.iterdir())[:2]]):
        source = open_source(words)
        again = open_source(source.words)
        assert [again.name(i) for i in range(len(again))] == [source.name(i) for i in range(len(source))]


def test_a_folder_goes_before_a_dataset_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("digits").mkdir()
    Image.new("L", (10, 10)).save("digits/1.png")
    assert isinstance(open_source("digits"), Folder)


@pytest.mark.parametrize("words", [(), [], "", [""]])
def test_no_words_are_refused(words: object) -> None:
    with pytest.raises(CairnsError, match="Name a source"):
        open_source(words)  # type: ignore[arg-type]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(CairnsError, match="no source named 'imagenet'; `cairns data list`"):
        open_source("imagenet:somewhere")


def test_a_missing_folder_is_refused() -> None:
    with pytest.raises(CairnsError, match="There is no file or folder nowhere"):
        open_source("nowhere")
    with pytest.raises(CairnsError, match="There is no file or folder"):
        open_source(["digits", "nowhere"])


def test_a_drive_letter_is_no_dataset() -> None:
    with pytest.raises(CairnsError, match="There is no file or folder"):
        open_source("C:/nowhere")


def test_every_dataset_of_the_paper_is_there_and_has_its_class() -> None:
    assert set(DATASETS) >= {
        "celeba", "aflw", "cats", "cars", "shoes", "human36m", "mnist", "animals", "mtfl", "digits"
    }  # fmt: skip
    for dataset in DATASETS.values():
        module, _, kind = dataset.kind.partition(":")
        assert isinstance(getattr(importlib.import_module(f"cairns.sources.{module}"), kind), type)
        assert dataset.text


def test_an_unknown_variant_is_refused_with_the_known_ones() -> None:
    with pytest.raises(CairnsError, match="celeba-unaligned"):
        open_source("celeba-wild:nowhere")


def test_a_subset_is_a_source_in_its_own_order(make_source: type) -> None:
    import numpy as np

    images = [np.full((8, 8, 1), i, np.uint8) for i in range(4)]
    points = np.arange(16.0).reshape(4, 2, 2)
    whole = make_source(images, Annotations(("a", "b"), points, (0, 1)))
    part = Subset(whole, [3, 1])
    assert len(part) == 2
    assert [part.name(i) for i in range(2)] == ["fake-3", "fake-1"]
    assert part.image(0)[0, 0, 0] == 3
    assert part.box(1) is None
    assert part.words == whole.words
    assert part.annotations is not None
    np.testing.assert_array_equal(part.annotations.points, points[[3, 1]])
    assert Subset(make_source(images), [0]).annotations is None
