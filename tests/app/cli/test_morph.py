"""`trigpoint morph`: what it writes, says and refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from trigpoint.core.runs import Run
from trigpoint.core.sources.images import read_image
from trigpoint.learning.editing.editor import Editor
from trigpoint.learning.editing.photo import put_back
from trigpoint.learning.editing.render import TILE, enlarge

Call = Callable[..., Any]  # the fixture `trigpoint`


@pytest.fixture
def place(photos: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that commands are given in, with the photos in it."""
    monkeypatch.chdir(photos.parent)
    return photos.parent


@pytest.fixture
def editor(colour_run: Run) -> Editor:
    return Editor.load(colour_run.folder)


@pytest.fixture
def morph(trigpoint: Call, colour_run: Run, place: Path) -> Call:
    """`trigpoint morph` from one photo to another."""

    def call(*words: object, model: Path = colour_run.folder) -> object:
        return trigpoint("morph", model, "photos/01.png", "photos/05.png", *words)

    return call


def tiles(path: Path, width: int = TILE) -> list[NDArray[np.uint8]]:
    """The pictures of a strip."""
    with Image.open(path) as opened:
        pixels = np.asarray(opened)
    assert (pixels.shape[1] - 4) % (width + 4) == 0
    count = (pixels.shape[1] - 4) // (width + 4)
    return [pixels[4:-4, 4 + i * (width + 4) : 4 + i * (width + 4) + width] for i in range(count)]


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_a_strip_of_nine(morph: Call, editor: Editor, place: Path) -> None:
    assert morph("--out", "new/a.png") == (0, "decoded, 9 pictures: new/a.png\n", "")
    seen = tiles(place / "new/a.png")
    assert len(seen) == 9
    start, end = editor.encode("photos/01.png"), editor.encode("photos/05.png")
    for index, tile in enumerate(seen):
        code = start.towards(end, index / 8)
        np.testing.assert_allclose(tile.astype(int), enlarge(editor.decode(code)), atol=2)
    assert files(place / "new") == {"a.png"}


def test_some_landmarks_beyond_the_other_image_with_its_appearance(
    morph: Call, editor: Editor, place: Path
) -> None:
    said = morph(
        "--landmarks", "3,1", "--extrapolate", 1.5, "--appearance", "blend", "--frames", 4, "--out", "a.png"
    )
    assert said == (0, "decoded, 4 pictures: a.png\n", "")
    start, end = editor.encode("photos/01.png"), editor.encode("photos/05.png")
    for index, tile in enumerate(tiles(place / "a.png")):
        code = start.towards(end, 0.5 * index, [1, 3], "blend")
        np.testing.assert_allclose(tile.astype(int), enlarge(editor.decode(code)), atol=2)


@pytest.mark.parametrize("kind", ["warped", "blended"])
def test_the_photo_itself_is_warped(morph: Call, editor: Editor, place: Path, kind: str) -> None:
    """The first picture is the photo."""
    assert morph("--as", kind, "--frames", 3, "--out", "a.png") == (0, f"{kind}, 3 pictures: a.png\n", "")
    photo = read_image(place / "photos/01.png")
    start, end = editor.encode(photo), editor.encode("photos/05.png")
    seen = tiles(place / "a.png", 48)
    assert len(seen) == 3
    np.testing.assert_array_equal(seen[0], photo)
    for index, tile in enumerate(seen):
        code = start.towards(end, index / 2)
        np.testing.assert_array_equal(tile, put_back(editor, photo, start, code, kind == "blended"))
    assert (seen[2] != photo).any()


@pytest.mark.parametrize(("words", "edits"), [((), 4), (("--frames", 3), 2)])
def test_the_figure(morph: Call, place: Path, words: tuple[object, ...], edits: int) -> None:
    """Input, reconstruction, and two tiles for each step."""
    said = morph("--as", "figure", *words, "--out", "a.png")
    assert said == (0, f"figure, {edits + 1} pictures: a.png\n", "")
    with Image.open(place / "a.png") as opened:
        assert opened.size == ((2 + 2 * edits) * (TILE + 4) + 4, TILE + 8)


def test_a_gif(morph: Call, place: Path) -> None:
    assert morph("--frames", 5, "--as", "warped", "--out", "a.gif").code == 0
    with Image.open(place / "a.gif") as opened:
        assert opened.format == "GIF"
        assert opened.n_frames == 5  # type: ignore[attr-defined]
        assert opened.info["loop"] == 0
        assert opened.size == (48, 36)


def test_a_video_of_fifty(morph: Call, tiny_run: Run, place: Path) -> None:
    """With a model without descriptors."""
    before = files(place)
    said = morph("--appearance", "blend", "--out", "a.mp4", model=tiny_run.folder)
    assert said == (0, "decoded, 50 pictures: a.mp4\n", "")
    with av.open(str(place / "a.mp4")) as container:
        frames = list(container.decode(video=0))
    assert len(frames) == 50
    assert (frames[0].width, frames[0].height) == (TILE, TILE)
    assert files(place) - before == {"a.mp4"}


def test_upper_case_endings(morph: Call, place: Path) -> None:
    assert morph("--frames", 2, "--out", "A.JPG") == (0, "decoded, 2 pictures: A.JPG\n", "")
    with Image.open(place / "A.JPG") as opened:
        assert opened.format == "JPEG"


# Refusals


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--out", "a.webm"], "Cannot write a.webm: its name must end in .png, .jpg, .gif, .mp4."),
        (["--out", "a"], "Cannot write a: its name must end in"),
        (["--out", "folder.mp4"], "Cannot write folder.mp4: it is a folder."),
        (["--out", "a.png", "--landmarks", "0,4"], "The landmarks are 0 to 3; got 4."),
        (["--out", "a.png", "--landmarks", "-1"], "The landmarks are 0 to 3; got -1."),
        (["--out", "a.png", "--landmarks", "nose"], "--landmarks takes numbers such as 3,5,7; got 'nose'."),
        (["--out", "a.png", "--landmarks", "1,,2"], "got '1,,2'."),
        (["--out", "a.png", "--landmarks", ""], "got ''."),
        (["--out", "a.png", "--frames", "0"], "A morph has at least 2 frames; got 0."),
        (["--out", "a.mp4", "--frames", "1"], "A morph has at least 2 frames; got 1."),
        (["--out", "a.png", "--frames", "-2"], "A morph has at least 2 frames; got -2."),
        (["--out", "a.png", "--frames", "1", "--as", "figure"], "A morph has at least 2 frames; got 1."),
        (["--out", "a.gif", "--as", "figure"], "The figure is one picture: --out must end in .png or .jpg."),
        (["--out", "a.png", "--extrapolate", "nan"], "A morph goes a finite way; got nan."),
        (["--out", "a.png", "--extrapolate", "inf"], "A morph goes a finite way; got inf."),
        (["--out", "a.png", "--extrapolate", "1e12"], "within 100 edges of the crop; got"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(
    morph: Call, place: Path, words: list[str], expected: str
) -> None:
    (place / "folder.mp4").mkdir()
    before = files(place)
    said = morph(*words)
    assert said.refused(expected)
    assert said.out == ""
    assert files(place) == before


def test_an_image_that_cannot_be_read_is_named(trigpoint: Call, colour_run: Run, place: Path) -> None:
    (place / "letter.png").write_text("Dear diary")
    for name, expected in (
        ("letter.png", "letter.png: not a readable"),
        ("no.png", "There is no file no.png."),
    ):
        for start, end in ((name, "photos/01.png"), ("photos/01.png", name)):
            said = trigpoint("morph", colour_run.folder, start, end, "--out", "a.png")
            assert said.refused(expected)
    assert not (place / "a.png").exists()


def test_a_model_that_does_not_exist(trigpoint: Call, place: Path) -> None:
    said = trigpoint("morph", "nothing", "photos/01.png", "photos/05.png", "--out", "a.png")
    assert said.refused("no run folder nothing")


@pytest.mark.parametrize("words", [(), ("--out", "a.png", "--appearance", "both")])
def test_what_the_command_line_does_not_know(morph: Call, place: Path, words: tuple[str, ...]) -> None:
    said = morph(*words)
    assert said.code == 2
    assert "Traceback" not in said.err
    assert not (place / "a.png").exists()


@pytest.mark.parametrize("name", ["a.png", "a.gif", "a.mp4"])
def test_a_file_is_replaced_only_when_asked(morph: Call, place: Path, name: str) -> None:
    (place / name).write_text("mine")
    assert morph("--frames", 2, "--out", name).refused(f"{name} exists; --overwrite replaces it.")
    assert (place / name).read_text() == "mine"
    assert morph("--frames", 2, "--out", name, "--overwrite", "--landmarks", 99).refused("got 99.")
    assert (place / name).read_text() == "mine"
    assert morph("--frames", 2, "--out", name, "--overwrite").code == 0
    assert (place / name).read_bytes() != b"mine"


def test_help_has_an_example(trigpoint: Call) -> None:
    said = trigpoint("morph", "--help")
    assert said.code == 0
    assert "Example: trigpoint morph" in said.out
