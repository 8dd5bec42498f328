"""`trigpoint edit`: what it writes, says and refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from trigpoint.core.geometry import Placement
from trigpoint.core.runs import Run
from trigpoint.core.sources.images import read_image
from trigpoint.learning.editing.editor import Editor
from trigpoint.learning.editing.fields import carried
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


def pixels(path: Path) -> NDArray[np.uint8]:
    with Image.open(path) as opened:
        return np.asarray(opened)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_a_landmark_is_moved(trigpoint: Call, colour_run: Run, editor: Editor, place: Path) -> None:
    """The decoder's image, four times as large."""
    said = trigpoint(
        "edit", colour_run.folder, "photos/01.png", "--move", "1:0.2,-0.1", "3:0,0.15", "--out", "new/a.png"
    )
    assert said == (0, "decoded: new/a.png\n", "")
    code = editor.encode("photos/01.png").moved({1: (0.2, -0.1), 3: (0.0, 0.15)})
    np.testing.assert_array_equal(pixels(place / "new/a.png"), enlarge(editor.decode(code), 128))
    assert files(place / "new") == {"a.png"}


def test_steps_of_one_landmark_add_up(trigpoint: Call, colour_run: Run, editor: Editor, place: Path) -> None:
    words = ("--move", "1:0.2,0", "1:0.1,-0.3")
    assert trigpoint("edit", colour_run.folder, "photos/01.png", *words, "--out", "a.png").code == 0
    code = editor.encode("photos/01.png").moved({1: (0.3, -0.3)})
    np.testing.assert_allclose(pixels(place / "a.png").astype(int), enlarge(editor.decode(code), 128), atol=2)


@pytest.mark.parametrize(
    ("word", "name", "strength"),
    [
        ("twist:0.5", "twist", 0.5),
        ("lean:-0.4", "lean", -0.4),
        ("swell", "swell", 0.3),
        ("widen:", "widen", 0.3),
    ],
)
def test_a_field_carries_all_landmarks(
    trigpoint: Call, colour_run: Run, editor: Editor, place: Path, word: str, name: str, strength: float
) -> None:
    words = ("--field", word, "--as", "warped", "--out", "a.png")
    assert trigpoint("edit", colour_run.folder, "photos/01.png", *words) == (0, "warped: a.png\n", "")
    photo = read_image(place / "photos/01.png")
    code = editor.encode(photo)
    after = code.with_landmarks(carried(code.landmarks, name, strength))
    np.testing.assert_array_equal(pixels(place / "a.png"), put_back(editor, photo, code, after))


def test_moves_come_before_the_field(trigpoint: Call, colour_run: Run, editor: Editor, place: Path) -> None:
    words = ("--move", "0:0.1,0.1", "--field", "twist:0.5", "--out", "a.png")
    assert trigpoint("edit", colour_run.folder, "photos/01.png", *words).code == 0
    code = editor.encode("photos/01.png").moved({0: (0.1, 0.1)})
    code = code.with_landmarks(carried(code.landmarks, "twist", 0.5))
    np.testing.assert_array_equal(pixels(place / "a.png"), enlarge(editor.decode(code), 128))


def test_another_appearance(trigpoint: Call, colour_run: Run, editor: Editor, place: Path) -> None:
    words = ("--dress", "photos/04.jpg", "--out", "a.png")
    assert trigpoint("edit", colour_run.folder, "photos/01.png", *words).code == 0
    code = editor.encode("photos/01.png").dressed(editor.encode("photos/04.jpg"))
    np.testing.assert_array_equal(pixels(place / "a.png"), enlarge(editor.decode(code), 128))


def test_put_back_into_the_photo(trigpoint: Call, colour_run: Run, editor: Editor, place: Path) -> None:
    photo = read_image(place / "photos/01.png")
    code = editor.encode(photo)
    after = code.moved({0: (0.15, 0.1)})
    for kind in ("warped", "blended"):
        words = ("--move", "0:0.15,0.1", "--as", kind, "--out", f"{kind}.png")
        assert trigpoint("edit", colour_run.folder, "photos/01.png", *words) == (
            0,
            f"{kind}: {kind}.png\n",
            "",
        )
        expected = put_back(editor, photo, code, after, blend=kind == "blended")
        assert expected.shape == (36, 48, 3)
        np.testing.assert_array_equal(pixels(place / f"{kind}.png"), expected)
        assert (expected != photo).any()


def test_the_figure_of_an_edit_has_four_tiles(trigpoint: Call, colour_run: Run, place: Path) -> None:
    words = ("--move", "0:0.15,0.1", "--as", "figure", "--out", "a.jpg")
    assert trigpoint("edit", colour_run.folder, "photos/01.png", *words) == (0, "figure: a.jpg\n", "")
    with Image.open(place / "a.jpg") as opened:
        assert opened.format == "JPEG"
        assert opened.size == (4 * (TILE + 4) + 4, TILE + 8)


def test_a_box_is_where_the_subject_is(trigpoint: Call, colour_run: Run, editor: Editor, place: Path) -> None:
    words = ("--move", "0:0.1,0", "--box", "10,4,20,20.5", "--out", "a.png")
    assert trigpoint("edit", colour_run.folder, "photos/01.png", *words).code == 0
    code = editor.encode("photos/01.png", Placement(10, 4, 20, 20.5)).moved({0: (0.1, 0.0)})
    np.testing.assert_array_equal(pixels(place / "a.png"), enlarge(editor.decode(code), 128))


@pytest.mark.parametrize("kind", ["decoded", "warped", "blended", "figure"])
def test_a_model_without_descriptors_edits_grey_photos(
    trigpoint: Call, tiny_run: Run, make_photos: Callable[..., Path], tmp_path: Path, kind: str
) -> None:
    photo = make_photos(tmp_path / "grey", 2, grey=True) / "01.png"
    out = tmp_path / "a.png"
    said = trigpoint("edit", tiny_run.folder, photo, "--move", "2:0.1,0.1", "--as", kind, "--out", out)
    assert said == (0, f"{kind}: {out}\n", "")
    picture = pixels(out).astype(int)
    assert picture.ndim == 3
    if kind in ("warped", "blended"):
        assert picture.shape == (36, 48, 3)
        assert np.ptp(picture, axis=2).max() == 0


# Refusals


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--out", "a.png"], "Say what to edit: --move, --field or --dress."),
        (["--move", "1:0.1,0", "--out", "a.gif"], "Cannot write a.gif: its name must end in .png, .jpg."),
        (["--move", "1:0.1,0", "--out", "a"], "its name must end in .png, .jpg."),
        (["--move", "1:0.1,0", "--out", "folder.png"], "Cannot write folder.png: it is a folder."),
        (["--move", "1:0.1,0", "--out", "folder.png", "--overwrite"], "it is a folder."),
        (["--move", "4:0.1,0", "--out", "a.png"], "The landmarks are 0 to 3; got 4."),
        (["--move", "1:0.1,0", "7:0,0", "--out", "a.png"], "The landmarks are 0 to 3; got 7."),
        (
            ["--move", "1:0.1", "--out", "a.png"],
            "--move takes LANDMARK:DX,DY, such as 3:0.05,0; got '1:0.1'.",
        ),
        (["--move", "1:0.1,0,0", "--out", "a.png"], "got '1:0.1,0,0'."),
        (["--move", "1", "--out", "a.png"], "got '1'."),
        (["--move", "nose:0.1,0", "--out", "a.png"], "got 'nose:0.1,0'."),
        (["--move", "1.5:0.1,0", "--out", "a.png"], "got '1.5:0.1,0'."),
        (["--move", "1:up,0", "--out", "a.png"], "got '1:up,0'."),
        (["--move", "1:nan,0", "--out", "a.png"], "within 100 edges of the crop; got nan."),
        (["--move", "1:1e300,0", "--as", "figure", "--out", "a.png"], "edges of the crop; got 1e+300."),
        (["--field", "frown:0.3", "--out", "a.png"], "There is no field 'frown'; the fields are twist,"),
        (["--field", "twist:much", "--out", "a.png"], "--field takes NAME:STRENGTH, such as twist:0.3; got"),
        (["--field", "twist:inf", "--out", "a.png"], "edges of the crop; got"),
        (["--dress", "nowhere.jpg", "--out", "a.png"], "There is no file nowhere.jpg."),
        (["--dress", "photos/04.jpg", "--as", "warped", "--out", "a.png"], "needs the decoder: --as decoded"),
        (["--move", "1:0,0", "--box", "1,2,3", "--out", "a.png"], "LEFT,TOP,WIDTH,HEIGHT in pixels"),
        (
            ["--move", "1:0,0", "--box", "900,0,9,9", "--as", "warped", "--out", "a.png"],
            "outside of the image",
        ),
    ],
)
def test_bad_options_are_refused_in_one_sentence(
    trigpoint: Call, colour_run: Run, place: Path, words: list[str], expected: str
) -> None:
    (place / "folder.png").mkdir()
    before = files(place)
    said = trigpoint("edit", colour_run.folder, "photos/01.png", *words)
    assert said.refused(expected)
    assert said.out == ""
    assert files(place) == before


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nowhere.png", "There is no file nowhere.png."),
        ("photos", "There is no file photos."),
        ("letter.png", "letter.png: not a readable image ("),
        ("torn.jpg", "torn.jpg: not a readable image ("),
        ("dot.png", "dot.png: 3x3 pixels, smaller than 8x8."),
    ],
)
def test_an_image_that_cannot_be_read_is_named(
    trigpoint: Call, colour_run: Run, place: Path, name: str, expected: str
) -> None:
    (place / "letter.png").write_text("Dear diary")
    whole = (place / "photos/00.jpg").read_bytes()
    (place / "torn.jpg").write_bytes(whole[: len(whole) // 2])
    Image.new("RGB", (3, 3)).save(place / "dot.png")
    assert trigpoint("edit", colour_run.folder, name, "--move", "0:0.1,0", "--out", "a.png").refused(expected)
    said = trigpoint("edit", colour_run.folder, "photos/01.png", "--dress", name, "--out", "a.png")
    assert said.refused(expected)
    assert not (place / "a.png").exists()


def test_a_model_that_does_not_exist(trigpoint: Call, place: Path) -> None:
    said = trigpoint("edit", "nothing", "photos/01.png", "--move", "0:0.1,0", "--out", "a.png")
    assert said.refused("no run folder nothing")


def test_without_descriptors_there_is_no_other_appearance(
    trigpoint: Call, tiny_run: Run, place: Path
) -> None:
    said = trigpoint("edit", tiny_run.folder, "photos/01.png", "--dress", "photos/04.jpg", "--out", "a.png")
    assert said.refused("This model has no descriptors")
    assert not (place / "a.png").exists()


@pytest.mark.parametrize(
    "words", [("--move", "0:0.1,0"), ("--move", "0:0.1,0", "--out", "a.png", "--as", "art")]
)
def test_what_the_command_line_does_not_know(
    trigpoint: Call, colour_run: Run, place: Path, words: tuple[str, ...]
) -> None:
    said = trigpoint("edit", colour_run.folder, "photos/01.png", *words)
    assert said.code == 2
    assert "Traceback" not in said.err
    assert not (place / "a.png").exists()


def test_a_picture_is_replaced_only_when_asked(trigpoint: Call, colour_run: Run, place: Path) -> None:
    (place / "a.png").write_text("mine")
    words = ("edit", colour_run.folder, "photos/01.png", "--move", "0:0.1,0", "--out", "a.png")
    assert trigpoint(*words).refused("a.png exists; --overwrite replaces it.")
    assert (place / "a.png").read_text() == "mine"
    assert trigpoint(*words, "--overwrite").code == 0
    assert pixels(place / "a.png").shape == (128, 128, 3)


def test_overwriting_with_bad_input_loses_nothing(trigpoint: Call, colour_run: Run, place: Path) -> None:
    (place / "a.png").write_text("mine")
    said = trigpoint(
        "edit", colour_run.folder, "photos/01.png", "--move", "9:0.1,0", "--out", "a.png", "--overwrite"
    )
    assert said.refused("0 to 3; got 9")
    assert (place / "a.png").read_text() == "mine"


def test_help_has_an_example(trigpoint: Call) -> None:
    said = trigpoint("edit", "--help")
    assert said.code == 0
    assert "Example: trigpoint edit" in said.out
    assert "--as" in said.out
