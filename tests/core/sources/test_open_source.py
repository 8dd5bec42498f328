"""From the words of the command line to a source."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trigpoint.core.config.tree import VideoConfig
from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.files.videos import VideoWriter
from trigpoint.core.geometry import Placement
from trigpoint.core.sources import DATASETS, Source, Subset, left_out, open_source, whole_word
from trigpoint.core.sources.base import Annotations
from trigpoint.core.sources.digits import Digits
from trigpoint.core.sources.folder import Folder
from trigpoint.core.sources.mtfl import MTFL
from trigpoint.core.sources.video import Videos


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
    with pytest.raises(TrigpointError, match="Name a source"):
        open_source(words)  # type: ignore[arg-type]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(TrigpointError, match="no source named 'imagenet'; `trigpoint data list`"):
        open_source("imagenet:somewhere")


def test_a_missing_folder_is_refused() -> None:
    with pytest.raises(TrigpointError, match="There is no file or folder nowhere"):
        open_source("nowhere")
    with pytest.raises(TrigpointError, match="There is no file or folder"):
        open_source(["digits", "nowhere"])


def test_a_drive_letter_is_no_dataset() -> None:
    with pytest.raises(TrigpointError, match="There is no file or folder"):
        open_source("C:/nowhere")


def test_every_dataset_of_the_paper_is_there_and_has_its_opener() -> None:
    assert set(DATASETS) >= {
        "celeba", "aflw", "cats", "cars", "shoes", "human36m", "mnist", "animals", "mtfl", "digits"
    }  # fmt: skip
    for dataset in DATASETS.values():
        module, _, kind = dataset.kind.partition(":")
        assert callable(getattr(importlib.import_module(f"trigpoint.core.sources.{module}"), kind))
        assert dataset.text


# Videos


def write_video(path: Path, frames: int = 6) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with VideoWriter(path, (32, 24), 25) as writer:
        for frame in range(frames):
            writer.add(np.full((24, 32, 3), 30 * frame, np.uint8))
    return path


def names_of(source: Source) -> list[str]:
    return [source.name(index) for index in range(len(source))]


def test_a_video_a_list_of_videos_and_a_folder_of_them(tmp_path: Path) -> None:
    first, second = write_video(tmp_path / "a.mp4"), write_video(tmp_path / "deep" / "b.MP4", 4)
    one = open_source(first)
    assert isinstance(one, Videos)
    assert names_of(one) == [f"a.mp4:{frame:06d}" for frame in range(6)]
    for words in ([first, second], tmp_path, [str(first), str(tmp_path / "deep")]):
        source = open_source(words)
        assert isinstance(source, Videos)
        assert len(source) == 10
        again = open_source(source.words)
        assert names_of(again) == names_of(source)


def test_the_config_of_videos_reaches_them_and_nothing_else(tmp_path: Path, photos: Path) -> None:
    config = VideoConfig(every=2, crop=(0, 0, 20, 20))
    source = open_source(write_video(tmp_path / "a.mp4"), video=config)
    assert names_of(source) == ["a.mp4:000000", "a.mp4:000002", "a.mp4:000004"]
    assert source.box(1) == Placement(0, 0, 20, 20)
    assert len(open_source(photos, video=config)) == 12


def test_what_there_is_more_of_is_read(tmp_path: Path, photos: Path) -> None:
    write_video(photos / "deep" / "a.mp4")
    source = open_source(photos)
    assert isinstance(source, Folder)
    assert len(source) == 12
    mixed = open_source([photos / "00.jpg", photos / "deep" / "a.mp4"])
    assert isinstance(mixed, Folder)
    with pytest.raises(UnreadableImage, match="not a readable image"):
        mixed.image(1)
    hidden = tmp_path / "hidden"
    write_video(hidden / "a.mp4")
    (hidden / ".thumbnail.png").write_bytes((photos / "01.png").read_bytes())
    assert isinstance(open_source(hidden), Videos)
    write_video(hidden / "b.mp4")
    (hidden / "thumbnail.png").write_bytes((photos / "01.png").read_bytes())
    videos = open_source(hidden)
    assert isinstance(videos, Videos)
    assert {name.partition(":")[0] for name in names_of(videos)} == {"a.mp4", "b.mp4"}


@pytest.mark.parametrize(
    ("videos", "images", "expected"),
    [
        (0, 0, None),
        (3, 0, None),
        (0, 4, None),
        (3, 1, "3 videos are read, 1 image is left out."),
        (1, 1, "1 image is read, 1 video is left out."),
        (2, 1200, "1,200 images are read, 2 videos are left out."),
    ],
)
def test_what_is_left_out_is_said(videos: int, images: int, expected: str | None) -> None:
    assert left_out(videos, images) == expected


def test_a_missing_or_a_damaged_video_is_refused(tmp_path: Path) -> None:
    good = write_video(tmp_path / "a.mp4")
    with pytest.raises(TrigpointError, match=r"There is no file or folder .*nowhere\.mp4\."):
        open_source(tmp_path / "nowhere.mp4")
    with pytest.raises(TrigpointError, match="There is no file or folder"):
        open_source([good, tmp_path / "nowhere.mp4"])
    (tmp_path / "b.avi").write_text("no video")
    with pytest.raises(TrigpointError, match=r"None of the 1 videos could be read; the first: b\.avi is not"):
        open_source(tmp_path / "b.avi")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TrigpointError, match="holds no images"):
        open_source(tmp_path / "empty")


def test_a_deeplabcut_project_gets_the_config_of_videos(tmp_path: Path) -> None:
    (tmp_path / "labeled-data").mkdir()
    write_video(tmp_path / "videos" / "a.mp4")
    source = open_source(f"deeplabcut:{tmp_path}", video=VideoConfig(frames=2))
    assert isinstance(source, Videos)
    assert names_of(source) == ["a.mp4:000000", "a.mp4:000005"]
    assert names_of(open_source(source.words, video=VideoConfig(frames=2))) == names_of(source)
    with pytest.raises(TrigpointError, match="DeepLabCut needs the folder"):
        open_source(f"deeplabcut:{tmp_path / 'nowhere'}")
    with pytest.raises(
        TrigpointError, match="no source named 'deeplabcut-mouse'; variants of deeplabcut: none"
    ):
        open_source(f"deeplabcut-mouse:{tmp_path}")


@pytest.mark.parametrize("word", ["a.mp4", "deeplabcut:project"])
def test_a_word_made_whole_opens_the_same_from_anywhere(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_video(tmp_path / "a.mp4")
    write_video(tmp_path / "project" / "videos" / "a.mp4")
    (tmp_path / "project" / "labeled-data").mkdir()
    monkeypatch.chdir(tmp_path)
    expected, whole = names_of(open_source(word)), whole_word(word)
    monkeypatch.chdir("/")
    assert names_of(open_source(whole)) == expected


# Names and parts


def test_an_unknown_variant_is_refused_with_the_known_ones() -> None:
    with pytest.raises(TrigpointError, match="celeba-unaligned"):
        open_source("celeba-wild:nowhere")


def test_a_subset_is_a_source_in_its_own_order(make_source: type) -> None:
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
