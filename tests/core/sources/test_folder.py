"""A folder of images, or a list of files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.sources.folder import Folder, closed_folders, image_files


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    for i, name in enumerate(["b.png", "a.JPG", "deep/er/c.tif", "deep/a.bmp"]):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (10 + i, 9), (i, i, i)).save(path)
    (folder / "notes.txt").write_text("no image")
    (folder / ".hidden.png").write_bytes(b"")
    (folder / "deep" / "folder.png").mkdir()
    return folder


def test_nested_images_in_alphabetical_order_with_short_names(tree: Path) -> None:
    source = Folder([tree])
    assert [source.name(i) for i in range(len(source))] == ["a.JPG", "b.png", "deep/a.bmp", "deep/er/c.tif"]
    assert source.words == (str(tree),)
    assert source.description == str(tree)
    assert source.annotations is None


def test_images_are_read_by_number(tree: Path) -> None:
    source = Folder([tree])
    widths = [source.image(i).shape[1] for i in range(len(source))]
    assert widths == [11, 10, 13, 12]
    assert source.box(0) is None


def test_a_list_of_files_keeps_its_order_and_takes_any_name(tree: Path, tmp_path: Path) -> None:
    odd = tmp_path / "picture-without-extension"
    Image.new("L", (20, 20), 9).save(odd, "PNG")
    source = Folder([tree / "b.png", odd, tree / "a.JPG"])
    assert [source.image(i).shape[1] for i in range(3)] == [10, 20, 11]
    assert source.words == (str(tree / "b.png"), str(odd), str(tree / "a.JPG"))
    assert "3" in source.description


def test_files_and_folders_may_be_mixed(tree: Path) -> None:
    assert len(Folder([tree / "deep", tree / "b.png"])) == 3


def test_images_of_the_same_name_can_be_told_apart(tmp_path: Path) -> None:
    """landmarks.csv, overlays and the list of skipped images know an image by its name alone."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        Image.new("RGB", (10, 10)).save(tmp_path / folder / "1.png")
    for paths in ([tmp_path / "one", tmp_path / "two"], [tmp_path / "one/1.png", tmp_path / "two/1.png"]):
        source = Folder(paths)
        assert source.name(0) != source.name(1)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("nothing to see")
    with pytest.raises(TrigpointError, match=r"holds no images .*\.jpg.*folders below it") as caught:
        Folder([tmp_path])
    assert str(tmp_path) in str(caught.value)


def test_a_missing_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match=r"There is no file or folder .*nothing"):
        Folder([tmp_path / "nothing"])


def test_unreadable_files_are_found_out_only_when_read(tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_text("text")
    Image.fromarray(np.zeros((9, 9), np.uint8)).save(tmp_path / "good.png")
    source = Folder([tmp_path])
    assert len(source) == 2
    with pytest.raises(UnreadableImage):
        source.image(0)
    assert source.image(1).shape == (9, 9, 1)


def test_a_folder_that_cannot_be_read_is_counted_and_named(tree: Path, close: Callable[[Path], None]) -> None:
    close(tree / "deep" / "er")
    source = Folder([tree])
    assert [source.name(i) for i in range(len(source))] == ["a.JPG", "b.png", "deep/a.bmp", "deep/er"]
    with pytest.raises(UnreadableImage, match="Permission denied"):
        source.image(3)
    assert image_files([tree]) == [tree / name for name in ("a.JPG", "b.png", "deep/a.bmp")]
    assert closed_folders([tree, tree / "a.JPG"]) == [tree / "deep" / "er"]


def test_only_a_folder_that_cannot_be_read(tree: Path, close: Callable[[Path], None]) -> None:
    close(tree)
    with pytest.raises(TrigpointError, match=r"The folder .*tree cannot be read"):
        Folder([tree])


def test_links_in_circles(tree: Path) -> None:
    (tree / "deep" / "up").symlink_to(tree)
    (tree / "self.png").symlink_to(tree / "self.png")
    assert len(Folder([tree])) == 4
