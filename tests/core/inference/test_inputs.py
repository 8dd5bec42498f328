"""Images, boxes and options that Python hands in: taken as meant, or refused in a sentence."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import trigpoint
from trigpoint.core.config.tree import Config, VideoConfig
from trigpoint.core.errors import TrigpointError, TrigpointWarning, UnreadableImage
from trigpoint.core.geometry import Placement
from trigpoint.core.inference.inputs import pixels_of
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.runs import Run
from trigpoint.core.sources.images import read_image
from trigpoint.learning.backends.pytorch import TorchBackend
from trigpoint.learning.editing.editor import Editor
from trigpoint.learning.model.autoencoder import Autoencoder

BOX = Placement(0, 0, 20, 20)


@pytest.fixture(scope="module")
def colour(colour_run: Run) -> Predictor:
    return Predictor.load(colour_run.folder)


@pytest.fixture
def trained_on(micro: Config) -> Callable[..., Predictor]:
    """A model that was trained on frames prepared in some way."""

    def make(**video: Any) -> Predictor:
        return Predictor(
            TorchBackend(Autoencoder(micro.model, seed=2)), replace(micro, video=VideoConfig(**video))
        )

    return make


def image_of(width: int = 40, height: int = 30, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def picture(mode: str) -> Image.Image:
    """24 x 16 pixels of many values in a mode of Pillow, some of them transparent."""
    random = np.random.default_rng(3)
    if mode == "F":
        return Image.fromarray(random.uniform(-1, 5, (16, 24)).astype(np.float32))
    if mode in ("I", "I;16"):
        return Image.fromarray(random.integers(0, 60_000, (16, 24)).astype("i4" if mode == "I" else "u2"))
    if mode.startswith("P"):
        found = Image.fromarray(random.integers(0, 20, (16, 24), dtype=np.uint8)).convert("P")
        found.putpalette(random.integers(0, 256, 60, dtype=np.uint8).tolist())
        if mode == "P with transparency":
            found.info["transparency"] = bytes(random.integers(0, 256, 20, dtype=np.uint8))
        return found
    whole = Image.fromarray(random.integers(0, 256, (16, 24, 4), dtype=np.uint8))
    return whole.convert("L").convert("1") if mode == "1" else whole.convert(mode)


@pytest.mark.parametrize(
    ("mode", "ending"),
    [
        ("1", "png"), ("L", "png"), ("LA", "png"), ("P", "png"), ("P with transparency", "png"), ("P", "gif"),
        ("RGB", "png"), ("RGBA", "png"), ("I;16", "png"), ("I;16", "tif"), ("I", "tif"), ("F", "tif"),
        ("CMYK", "tif"), ("CMYK", "jpg"), ("YCbCr", "tif"), ("RGBA", "webp"), ("RGBA", "tif"), ("LA", "tif"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("orientation", [1, 6])
def test_an_image_of_pillow_is_what_its_file_is(
    tmp_path: Path, mode: str, ending: str, orientation: int
) -> None:
    """Opened from the file or made in memory: palettes, depths, transparency and rotation alike."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    options: dict[str, Any] = {"lossless": True} if ending == "webp" else {}
    if ending != "gif":
        options["exif"] = exif
    made = picture(mode)
    made.save(tmp_path / f"a.{ending}", **options)
    expected = read_image(tmp_path / f"a.{ending}")
    # Of a path Pillow itself misreads a TIFF that lies on its side.
    with (tmp_path / f"a.{ending}").open("rb") as stream, Image.open(stream) as opened:
        np.testing.assert_array_equal(pixels_of(opened), expected)
        np.testing.assert_array_equal(pixels_of(opened), expected, err_msg="the second time")
    if ending != "jpg":
        made.info["exif"] = options.get("exif", Image.Exif()).tobytes()
        np.testing.assert_array_equal(pixels_of(made), expected)
        assert made.size == (24, 16)


def test_models_take_images_of_pillow(colour: Predictor, tmp_path: Path) -> None:
    Image.fromarray(image_of()).convert("P").save(tmp_path / "a.png")
    expected = colour.detect(tmp_path / "a.png").points
    editor = Editor(colour)
    with Image.open(tmp_path / "a.png") as opened:
        np.testing.assert_array_equal(colour.detect(opened).points, expected)
        np.testing.assert_array_equal(colour.detect_all(opened)[0].points, expected)
        np.testing.assert_array_equal(next(colour.detect_many([opened])).points, expected)
        expected = editor.encode(tmp_path / "a.png").landmarks
        np.testing.assert_array_equal(editor.encode(opened).landmarks, expected)


@pytest.mark.parametrize(
    ("image", "sentence"),
    [
        (None, "a file's path, an image of Pillow or an array of bytes; got None"),
        ([[1, 2], [3, 4]], "got list"),
        ([[1, 2], [3]], "got list"),
        (7, "got int 7"),
        (b"\x89PNG", "got bytes"),
        (np.zeros((20, 20, 3)), r"got float64 of shape \(20, 20, 3\)\. .*astype"),
        (np.zeros((20, 20, 4), np.uint8), r"got uint8 of shape \(20, 20, 4\)\. .*fromarray"),
        (np.zeros((0, 20), np.uint8), r"got uint8 of shape \(0, 20\)"),
        (np.array(7, np.uint8), r"got uint8 of shape \(\)"),
        ("http://example.org/a.jpg", r"http://example\.org/a\.jpg is an address; download it first"),
        (Path("s3://bucket/a.jpg"), "is an address; download it first"),
        ("nothing.jpg", r"nothing\.jpg: not a readable image \(No such file"),
        ("x" * 300, "x: not a readable image"),
        ("a\0b", r"a\\x00b: not a readable image"),
        (Image.new("RGB", (4, 4)), "The .*: 4x4 pixels, smaller than 8x8"),
    ],
)
@pytest.mark.parametrize("way", ["detect", "detect_all", "prepare", "encode"])
def test_what_is_no_image_is_refused(colour: Predictor, way: str, image: Any, sentence: str) -> None:
    with pytest.raises(TrigpointError, match=sentence):
        getattr(Editor(colour) if way == "encode" else colour, way)(image)


def test_a_box_may_be_four_numbers(colour: Predictor) -> None:
    expected = colour.detect(image_of(), Placement(3, 4.5, 20, 20)).points
    for box in ((3, 4.5, 20, 20), [3, 4.5, 20, 20], np.array([3, 4.5, 20, 20])):
        np.testing.assert_array_equal(colour.detect(image_of(), box).points, expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("box", "sentence"),
    [
        ((40, 0, 10, 10), "x=40, y=0, width=10, height=10 lies outside of the image of 40x30 pixels"),
        ((0, -10, 10, 10), "lies outside of the image of 40x30 pixels"),
        ((-1e9, 0, 10, 10), "lies outside of the image of 40x30 pixels"),
        (Placement(0, 30, 10, 10), "lies outside of the image of 40x30 pixels"),
        ((0, 0, 0, 10), "at least one pixel wide and high; got x=0, y=0, width=0, height=10"),
        ((0, 0, 10, -10), "at least one pixel wide and high"),
        (Placement(0, float("nan"), 10, 10), "finite numbers .* got x=0, y=nan"),
        ((0, 0, float("inf"), 10), "finite numbers"),
        ((1, 2, 3), r"a Placement, or left, top, width and height in pixels; got tuple \(1, 2, 3\)"),
        ("1,2,3,4", "got str '1,2,3,4'"),
        (("1", "2", "3", "4"), "got tuple"),
        (7, "got int 7"),
    ],
)
def test_a_box_that_is_none_is_refused(colour: Predictor, box: Any, sentence: str) -> None:
    with pytest.raises(TrigpointError, match=f"^box .*{sentence}"):
        colour.detect(image_of(), box)
    with pytest.raises(TrigpointError, match=rf"^boxes\[1\] .*{sentence}"):
        list(colour.detect_many([image_of()] * 2, [None, box]))
    with pytest.raises(TrigpointError, match=sentence):
        Editor(colour).encode(image_of(), box)


def test_a_huge_box_takes_no_more_memory_than_the_image(colour: Predictor) -> None:
    """All of the image is then within less than one pixel of what the model sees."""
    assert np.isfinite(colour.detect(image_of(), (-5e11, -5e11, 1e12, 1e12)).points).all()


def test_a_folder_is_no_list_of_images(colour: Predictor, photos: Path) -> None:
    for folder in (photos, str(photos)):
        with pytest.raises(TrigpointError, match=r"got the folder .*photos\. .*glob.*trigpoint detect"):
            colour.detect_many(folder)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        (None, "got None"),
        (7, "got int 7"),
        ({"a": 1}, "got dict"),
        (b"\x89PNG", "got bytes"),
        ("photo.jpg", "got one image, str 'photo.jpg'"),
        (Image.new("RGB", (20, 20)), "got one image"),
        (np.zeros((20, 20, 3), np.uint8), "got one image"),
        (np.zeros((20, 20), np.uint8), "got one image"),
    ],
)
def test_one_image_is_no_list_of_images(colour: Predictor, images: Any, sentence: str) -> None:
    with pytest.raises(TrigpointError, match=f"detect_many takes a list of images; {sentence}"):
        colour.detect_many(images)


def test_a_stack_of_images_is_taken(colour: Predictor) -> None:
    assert len(list(colour.detect_many(np.zeros((3, 20, 30, 3), np.uint8)))) == 3
    assert len(list(colour.detect_many(np.zeros((3, 20, 30), np.uint8)))) == 3


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1; got int 0"),
        ({"batch_size": 2.0}, "batch_size must be .* got float"),
        ({"batch_size": "4"}, "batch_size must be .* got str"),
        ({"batch_size": True}, "batch_size must be .* got bool"),
        ({"on_error": "ignore"}, 'on_error must be "raise" or "skip"; got str'),
        ({"boxes": [None]}, "boxes must be as many as the images, 2; got 1"),
        ({"boxes": [None] * 3}, "boxes must be as many as the images, 2; got 3"),
        ({"boxes": BOX}, "boxes must be a list .* got Placement"),
        ({"boxes": iter([None, None])}, "boxes must be a list"),
    ],
)
def test_options_are_checked_before_the_first_image(colour: Predictor, options: Any, sentence: str) -> None:
    with pytest.raises(TrigpointError, match=sentence):
        colour.detect_many([image_of()] * 2, **options)


@pytest.mark.parametrize("boxes", [1, 3])
def test_boxes_go_with_a_stream_of_images_too(colour: Predictor, boxes: int) -> None:
    with pytest.raises(TrigpointError, match=f"boxes must be as many as the images.* got {boxes}"):
        list(colour.detect_many((image_of() for _ in range(2)), [None] * boxes))


def test_an_image_that_fails_is_named_or_skipped(colour: Predictor, tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("text")
    good = image_of()
    images: list[Any] = [good, tmp_path / "text.png", good, good, str(tmp_path / "none.png")]
    boxes = [None, None, (100, 100, 5, 5), BOX, None]
    with pytest.raises(UnreadableImage, match=r"text\.png: not a readable image \(expected"):
        list(colour.detect_many(images))
    with pytest.raises(UnreadableImage, match=r"text\.png: not a readable image"):
        colour.detect(tmp_path / "text.png")
    for batch_size in (1, 2, 64):
        found = list(colour.detect_many(images, boxes, batch_size, on_error="skip"))
        assert [one is not None for one in found] == [True, False, False, True, False]
        assert found[3] is not None
        np.testing.assert_allclose(found[3].points, colour.detect(good, BOX).points, atol=1e-3)


def test_images_of_the_wrong_kind_are_not_skipped(colour: Predictor) -> None:
    """All of them would be: who passes floats would get nothing and no reason."""
    with pytest.raises(TrigpointError, match=r"images\[1\] must be an array of bytes .* got float64"):
        list(colour.detect_many([image_of(), np.zeros((20, 20, 3))], on_error="skip"))


def test_a_crop_that_does_not_apply_is_told_once_a_call(trained_on: Callable[..., Predictor]) -> None:
    predictor = trained_on(crop=(2, 2, 20, 20), frame=(40, 30))
    other = image_of(50, 30)
    sentence = "region of frames of 40x30 pixels; of an image of 50x30"
    with pytest.warns(TrigpointWarning, match=sentence):
        predictor.detect(other)
    with pytest.warns(TrigpointWarning, match=sentence) as told:
        list(predictor.detect_many([image_of(), other, other], batch_size=1))
    assert len(told) == 1
    predictor.detect(image_of())  # of its frames' size; a warning would be an error
    predictor.detect(other, BOX)
    list(predictor.detect_many([image_of(), other], [None, BOX]))


@pytest.mark.parametrize("video", [{"follow": True}, {"background": "grey"}])
def test_a_model_of_videos_says_so_of_an_image_alone(
    trained_on: Callable[..., Predictor], video: dict[str, Any]
) -> None:
    predictor = trained_on(**video)
    with pytest.warns(TrigpointWarning, match="frames of a video"):
        predictor.detect(image_of())
    predictor.detect(image_of(), BOX)


def test_other_models_are_silent(colour: Predictor) -> None:
    with warnings.catch_warnings(record=True) as told:
        colour.detect(image_of())
    assert not told


def test_the_whole_of_a_stream_is_not_read_to_check_it(colour: Predictor) -> None:
    def endless() -> Iterator[np.ndarray]:
        while True:
            yield image_of()

    assert next(colour.detect_many(endless(), batch_size=2)).points.shape == (4, 2)


@pytest.mark.parametrize("model", [None, 3, [], "x" * 300, "a\0b"])
def test_what_is_no_model_is_refused(model: Any) -> None:
    with pytest.raises(TrigpointError, match="run folder"):
        trigpoint.load(model)


@pytest.mark.parametrize("views", ["3", 1.5, True])
def test_views_are_a_whole_number(views: Any) -> None:
    with pytest.raises(TrigpointError, match="views must be a whole number; got"):
        trigpoint.load("digits-7", views=views)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("source", None), ("source", 3), ("source", [1, 2]), ("source", np.zeros((2, 3))), ("out", None),
        ("landmarks", "10"), ("landmarks", 2.5), ("preset", 3), ("preset", {}), ("steps", "5"),
        ("values", "train.steps=3"), ("values", None), ("existing", None), ("existing", "replace"),
    ],
)  # fmt: skip
def test_arguments_of_train_are_checked_before_anything_is_written(
    tmp_path: Path, name: str, value: Any
) -> None:
    arguments: dict[str, Any] = {"source": "digits", "out": tmp_path / "run", name: value}
    with pytest.raises(TrigpointError, match=f"^{name} must be .*; got"):
        trigpoint.train(**arguments)
    assert not (tmp_path / "run").exists()


def test_codes_are_checked(colour: Predictor) -> None:
    editor = Editor(colour)
    code = editor.encode(image_of())
    for call in (
        lambda: code.with_landmarks([[1, 2], [3]]),  # type: ignore[arg-type]
        lambda: code.moved([1, 2]),  # type: ignore[arg-type]
        lambda: code.moved({0: 3}),  # type: ignore[dict-item]
        lambda: code.moved({"0": (0, 0)}),  # type: ignore[dict-item]
        lambda: code.moved({0: ("a", 1)}),  # type: ignore[dict-item]
        lambda: code.dressed(None),  # type: ignore[arg-type]
        lambda: code.towards(code, float("nan")),
        lambda: code.towards(code, "half"),  # type: ignore[arg-type]
        lambda: code.towards(code, 0.5, appearance="mix"),  # type: ignore[arg-type]
        lambda: editor.decode(image_of()),  # type: ignore[arg-type]
        lambda: editor.decode_many(code.landmarks),  # type: ignore[arg-type]
    ):
        with pytest.raises(TrigpointError, match="; got"):
            call()
    assert editor.decode_many([]).shape == (0, 32, 32, 3)
