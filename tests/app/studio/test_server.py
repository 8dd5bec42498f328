"""The studio's server: right pictures for honest requests, one sentence for the others, and it goes on."""

from __future__ import annotations

import io
import json
import resource
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any
from urllib.parse import quote

import av
import cv2
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image, ImageFile

from trigpoint.app.studio import server
from trigpoint.app.studio.server import PAGE, Studio
from trigpoint.app.studio.serving import LOOPBACK, Refused
from trigpoint.core.config.generator import GeneratorConfig
from trigpoint.core.config.tree import Config
from trigpoint.core.errors import UnreadableImage
from trigpoint.core.geometry import extract, fit_box
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.palette import colours, hexadecimal
from trigpoint.core.sources.images import read_image
from trigpoint.learning.backends.pytorch import TorchBackend
from trigpoint.learning.editing.editor import Code, Editor
from trigpoint.learning.editing.photo import put_back
from trigpoint.learning.generation.networks import Adversaries
from trigpoint.learning.generation.sampler import Sampler
from trigpoint.learning.model.autoencoder import Autoencoder

SPREAD = np.array([(0.25, 0.3), (0.7, 0.35), (0.5, 0.55), (0.4, 0.8)])


@pytest.fixture(scope="module")
def served(serve: Callable[..., Any], editor: Editor) -> Iterator[Any]:
    with serve(Studio(editor)) as running:
        yield running


@pytest.fixture(scope="module")
def inventive(serve: Callable[..., Any], editor: Editor, sampler: Sampler) -> Iterator[Any]:
    """The studio of a model that comes with a generator."""
    with serve(Studio(editor, sampler=sampler)) as running:
        yield running


@pytest.fixture(autouse=True)
def _still_answers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test sent, afterwards the server answers as before."""
    yield
    for name in {"served", "inventive"} & set(request.fixturenames):
        assert request.getfixturevalue(name).ask("/api/model").json["landmarks"] == 4


def picture(seed: int = 0, width: int = 60, height: int = 50) -> NDArray[np.uint8]:
    """Smooth colours, so that JPEG keeps them."""
    small = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC))


def encoded(pixels: NDArray[np.uint8], kind: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **options)
    return stream.getvalue()


def seen(answer: Any, kind: str = "image/png") -> NDArray[np.uint8]:
    """The pixels of an answer."""
    assert answer.status == 200, answer
    assert answer.headers["content-type"] == kind
    with Image.open(io.BytesIO(answer.data)) as opened:
        assert f"image/{opened.format.lower()}" == kind
        return np.asarray(opened.convert("RGB"))


def difference(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> float:
    """Mean over pixels and channels, in levels of 255."""
    assert one.shape == other.shape
    return float(np.abs(one.astype(int) - other).mean())


def opened(served: Any, seed: int = 0, **size: int) -> tuple[str, Code]:
    """Upload a picture; its id, and what the editor makes of the same picture."""
    pixels = picture(seed, **size)
    answer = served.ask("/api/images", encoded(pixels), {"x-name": f"{seed}.png"})
    assert answer.status == 201, answer
    return answer.json["id"], served.studio.editor.encode(pixels)


# The model and its images


def test_the_model_is_described(serve: Callable[..., Any], editor: Editor) -> None:
    studio = Studio(editor)
    ids = [studio.open(f"{seed}.png", picture(seed)) for seed in range(3)]
    with serve(studio) as served:
        told = served.ask("/api/model").json
        assert told["landmarks"] == 4
        assert told["names"] == ["0", "1", "2", "3"]
        assert told["colours"] == [hexadecimal(colour) for colour in colours(4)]
        assert told["size"] == 32
        assert told["descriptors"] is True
        assert told["generator"] is False
        assert [image["id"] for image in told["images"]] == ids
        served.ask(f"/api/images/{ids[0]}/square")
        again = served.ask("/api/model").json
        assert [image["name"] for image in again["images"]] == ["0.png", "1.png", "2.png"]  # used or not


def test_an_upload_is_encoded(served: Any, editor: Editor) -> None:
    answer = served.ask("/api/images", encoded(picture(1)), {"x-name": "one.png"})
    assert answer.status == 201
    told = answer.json
    assert (told["name"], told["width"], told["height"]) == ("one.png", 60, 50)
    assert told["box"] == [0, -5, 60, 60]
    np.testing.assert_allclose(told["landmarks"], editor.encode(picture(1)).landmarks, atol=1e-5)
    assert told in served.ask("/api/model").json["images"]


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "BMP", "TIFF", "GIF", "PPM"])
def test_an_upload_may_be_of_any_usual_kind(served: Any, kind: str) -> None:
    assert served.ask("/api/images", encoded(picture(), kind)).status == 201


def test_a_grey_upload_becomes_three_channels(served: Any) -> None:
    grey = picture()[:, :, 0]
    number = served.ask("/api/images", encoded(grey)).json["id"]
    shown = seen(served.ask(f"/api/images/{number}/photo"), "image/jpeg")
    assert difference(shown, np.repeat(grey[:, :, None], 3, axis=2)) < 3


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("holiday 100%.png", "holiday 100%.png"),
        ("<img src=x onerror=alert(1)>.png", "<img src=x onerror=alert(1)>.png"),
        ("Gr\u00f6\u00dfe \u732b \U0001f600.jpg", "Gr\u00f6\u00dfe \u732b \U0001f600.jpg"),
        ("\u00e4" * 200, "\u00e4" * 80),
    ],
)
def test_names_come_back_as_they_were(served: Any, sent: str, kept: str) -> None:
    answer = served.ask("/api/images", encoded(picture()), {"x-name": quote(sent)})
    assert answer.json["name"] == kept


def test_a_nameless_upload_has_a_name(served: Any) -> None:
    assert served.ask("/api/images", encoded(picture())).json["name"] == "image"


def test_the_square_is_a_sharp_crop_of_the_photo(served: Any) -> None:
    number, code = opened(served, 2, width=640, height=480)
    shown = seen(served.ask(f"/api/images/{number}/square"))
    assert shown.shape == (384, 384, 3)
    np.testing.assert_array_equal(shown, extract(picture(2, 640, 480), code.place, 384))


def test_the_photo_comes_back(served: Any) -> None:
    number, _ = opened(served, 3)
    answer = served.ask(f"/api/images/{number}/photo")
    assert difference(seen(answer, "image/jpeg"), picture(3)) < 3


def test_a_large_photo_is_shrunk_but_its_box_is_in_its_own_pixels(served: Any) -> None:
    answer = served.ask("/api/images", encoded(picture(4, 2400, 1800), "JPEG"))
    told = answer.json
    assert (told["width"], told["height"]) == (2400, 1800)
    place = fit_box(2400, 1800, "pad")
    assert told["box"] == pytest.approx([place.x, place.y, place.width, place.height])
    shown = seen(served.ask(f"/api/images/{told['id']}/photo"), "image/jpeg")
    assert shown.shape == (1200, 1600, 3)


def test_there_are_two_pictures_of_an_image(served: Any) -> None:
    number, _ = opened(served)
    assert served.ask(f"/api/images/{number}/maps").refused(404, "square and photo")


# Pictures drawn from landmarks


def test_decoded_is_what_the_editor_decodes(served: Any, editor: Editor) -> None:
    number, code = opened(served)
    plain = served.ask("/api/render", {"id": number})
    np.testing.assert_array_equal(seen(plain), editor.decode(code))
    assert float(plain.headers["x-milliseconds"]) > 0
    asked = {"id": number, "kind": "decoded", "landmarks": SPREAD.tolist()}
    moved = seen(served.ask("/api/render", asked))
    np.testing.assert_array_equal(moved, editor.decode(code.with_landmarks(SPREAD)))
    assert difference(moved, editor.decode(code)) > 0


@pytest.mark.parametrize("kind", ["warped", "blended"])
def test_an_edit_in_the_photo(served: Any, editor: Editor, kind: str) -> None:
    number, code = opened(served, 5, width=160, height=120)
    landmarks = np.add(code.landmarks, (0.1, -0.05)).tolist()
    shown = seen(
        served.ask("/api/render", {"id": number, "kind": kind, "landmarks": landmarks}), "image/jpeg"
    )
    photo, after = picture(5, 160, 120), code.with_landmarks(np.array(landmarks))
    expected = put_back(editor, photo, code, after, blend=kind == "blended")
    assert difference(shown, expected) < 3
    assert difference(shown, photo) > 2 * difference(shown, expected)


def test_nothing_moved_is_the_photo_itself(served: Any) -> None:
    number, _ = opened(served, 5)
    shown = seen(served.ask("/api/render", {"id": number, "kind": "warped"}), "image/jpeg")
    assert difference(shown, picture(5)) < 3


def test_maps_glow_where_the_detector_sees_landmarks(served: Any, editor: Editor) -> None:
    number, code = opened(served, 6)
    shown = seen(served.ask("/api/render", {"id": number, "kind": "maps"})).astype(float)
    assert shown.shape == (256, 256, 3)
    square = extract(picture(6), code.place, 32)
    tensor = torch.from_numpy(square.astype(np.float32) / 255).permute(2, 0, 1)[None]
    with torch.inference_mode():
        maps = editor.predictor.backend.model.detect(tensor).maps[0, :-1].numpy()
    cells = maps.shape[1]
    inside = slice(round(cells * 4 / 40), cells - round(cells * 4 / 40))  # 32 pixels in a padded 40
    glow = np.clip(np.einsum("khw,kc->hwc", maps[:, inside, inside], np.array(colours(4), float)), 0, 255)
    large = [cv2.resize(part, (256, 256), interpolation=cv2.INTER_CUBIC) for part in (glow, square * 0.35)]
    assert np.abs(shown - np.clip(np.maximum(*large), 0, 255)).mean() < 3


# Another image's appearance


@pytest.mark.parametrize("share", [0, 0.25, 1, None])
def test_the_appearance_of_another_image(served: Any, editor: Editor, share: float | None) -> None:
    (number, code), (other, look) = opened(served, 7), opened(served, 8)
    asked = {"id": number, "landmarks": SPREAD.tolist(), "appearance": other}
    shown = seen(served.ask("/api/render", asked if share is None else asked | {"share": share}))
    part = np.float32(1 if share is None else share)
    assert code.descriptors is not None
    assert look.descriptors is not None
    mixed = (1 - part) * code.descriptors + part * look.descriptors
    expected = editor.decode(replace(code, landmarks=SPREAD, descriptors=mixed))
    np.testing.assert_array_equal(shown, expected)


def test_a_model_without_descriptors_says_so(serve: Callable[..., Any], micro: Config) -> None:
    grey = Editor(Predictor(TorchBackend(Autoencoder(micro.model, seed=3)), micro))
    with serve(Studio(grey)) as served:
        assert served.ask("/api/model").json["descriptors"] is False
        (number, code), (other, _) = opened(served, 7), opened(served, 8)
        shown = seen(served.ask("/api/render", {"id": number, "appearance": other}))
        np.testing.assert_array_equal(shown, np.repeat(grey.decode(code), 3, axis=2))
        assert seen(served.ask("/api/render", {"id": number, "kind": "maps"})).shape == (256, 256, 3)


# Saved morphs


@pytest.fixture
def morph(served: Any, editor: Editor) -> tuple[dict[str, Any], Callable[[int], NDArray[np.uint8]]]:
    """A request for a morph, and the frames it should have: so many from the image to the goal."""
    number, code = opened(served, 9)
    goal = code.with_landmarks(SPREAD)

    def frames(many: int) -> NDArray[np.uint8]:
        points = [
            code.landmarks + part * (goal.landmarks - code.landmarks) for part in np.linspace(0, 1, many)
        ]
        small = editor.decode_many([code.with_landmarks(place) for place in points])
        return np.stack([cv2.resize(image, (256, 256), interpolation=cv2.INTER_CUBIC) for image in small])

    return {"id": number, "landmarks": SPREAD.tolist()}, frames


def test_a_morph_as_gif(served: Any, morph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "FRAMES", 5)
    asked, frames = morph
    answer = served.ask("/api/morph", asked | {"format": "gif"})
    assert answer.headers["content-type"] == "image/gif"
    expected = frames(5)
    with Image.open(io.BytesIO(answer.data)) as movie:
        assert movie.format == "GIF"
        assert movie.size == (256, 256)
        assert movie.info["loop"] == 0  # endless
        assert movie.n_frames == 5
        for number in range(5):
            movie.seek(number)
            assert movie.info["duration"] == 50  # milliseconds
            assert difference(np.asarray(movie.convert("RGB")), expected[number]) < 6


def test_a_morph_as_mp4(served: Any, morph: Any) -> None:
    asked, frames = morph
    answer = served.ask("/api/morph", asked | {"format": "mp4"})
    assert answer.headers["content-type"] == "video/mp4"
    with av.open(io.BytesIO(answer.data)) as movie:
        assert movie.streams.video[0].average_rate == 20
        shown = np.stack([frame.to_ndarray(format="rgb24") for frame in movie.decode(video=0)])
    assert shown.shape == (40, 256, 256, 3)
    expected = frames(40)
    for number in (0, 20, 39):
        assert difference(shown[number], expected[number]) < 8


def test_a_morph_as_a_strip(served: Any, morph: Any) -> None:
    asked, frames = morph
    shown = seen(served.ask("/api/morph", asked | {"format": "png"}))
    expected = frames(9)
    gap = (shown.shape[0] - 256) // 2
    assert shown.shape == (256 + 2 * gap, 9 * (256 + gap) + gap, 3)
    for number, image in enumerate(expected):
        left = gap + number * (256 + gap)
        np.testing.assert_array_equal(shown[gap : gap + 256, left : left + 256], image)


def test_a_morph_goes_to_another_appearance_too(served: Any, morph: Any, editor: Editor) -> None:
    asked, _ = morph
    other, look = opened(served, 10)
    shown = seen(served.ask("/api/morph", asked | {"format": "png", "appearance": other}))
    last = editor.decode(replace(look, landmarks=SPREAD))
    last = cv2.resize(last, (256, 256), interpolation=cv2.INTER_CUBIC)
    gap = (shown.shape[0] - 256) // 2
    # Decoded alone here and as one of nine there: the last bit of a sum may round a colour the other way.
    np.testing.assert_allclose(shown[gap:-gap, -256 - gap : -gap].astype(int), last.astype(int), atol=1)


# A new appearance


def invented(sampler: Sampler, landmarks: NDArray[np.floating], seed: int) -> NDArray[np.uint8]:
    """The generator's pictures of landmarks (n, 4, 2), all with the one latent of a seed."""
    return sampler.generate(landmarks, np.repeat(sampler.latents(1, seed), len(landmarks), axis=0))


def test_the_model_says_that_it_comes_with_a_generator(inventive: Any) -> None:
    assert inventive.ask("/api/model").json["generator"] is True


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1])
def test_a_seed_gives_the_generator_s_picture(inventive: Any, sampler: Sampler, seed: int) -> None:
    number, code = opened(inventive, 20)
    answer = inventive.ask("/api/render", {"id": number, "seed": seed})
    np.testing.assert_array_equal(seen(answer), invented(sampler, code.landmarks[None], seed)[0])
    assert float(answer.headers["x-milliseconds"]) > 0
    asked = {"id": number, "landmarks": SPREAD.tolist(), "seed": seed}
    shown = seen(inventive.ask("/api/render", asked))
    np.testing.assert_array_equal(shown, invented(sampler, SPREAD[None], seed)[0])


def test_the_seed_alone_decides_the_appearance(inventive: Any, editor: Editor) -> None:
    """The same again, also after another one, of another image and with a third's appearance asked for."""
    (number, code), (other, _) = opened(inventive, 21), opened(inventive, 22)
    asked = {"id": number, "landmarks": SPREAD.tolist(), "seed": 5}
    first = seen(inventive.ask("/api/render", asked))
    assert difference(seen(inventive.ask("/api/render", asked | {"seed": 6})), first) > 2
    for same in (asked, asked | {"id": other}, asked | {"appearance": other, "share": 0.5}):
        np.testing.assert_array_equal(seen(inventive.ask("/api/render", same)), first)
    plain = seen(inventive.ask("/api/render", asked | {"seed": None}))
    np.testing.assert_array_equal(plain, editor.decode(code.with_landmarks(SPREAD)))
    assert difference(plain, first) > 2


def test_a_drag_keeps_the_seed_s_appearance(inventive: Any, sampler: Sampler) -> None:
    """Every picture on the way is of the same latent, and follows the landmarks."""
    number, _ = opened(inventive, 23)
    way = SPREAD + np.linspace(0, 1, 5)[:, None, None] * (0.1, -0.05)
    shown = np.stack(
        [
            seen(inventive.ask("/api/render", {"id": number, "landmarks": points.tolist(), "seed": 7}))
            for points in way
        ]
    )
    np.testing.assert_array_equal(shown, [invented(sampler, points[None], 7)[0] for points in way])
    steps = [difference(one, shown[0]) for one in shown]
    assert min(steps[1:]) > 0


@pytest.mark.parametrize("kind", ["warped", "blended", "maps"])
def test_a_seed_leaves_the_photo_as_it_is(inventive: Any, kind: str) -> None:
    number, _ = opened(inventive, 24)
    asked = {"id": number, "landmarks": SPREAD.tolist(), "kind": kind}
    assert inventive.ask("/api/render", asked | {"seed": 3}).data == inventive.ask("/api/render", asked).data


SEEDS = [True, False, 1.0, 0.5, float("nan"), -1, 2**31, 10**400, "7", "", [], [7], {}]


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: str(seed)[:12])
@pytest.mark.parametrize("path", ["/api/render", "/api/morph"])
def test_a_seed_must_be_a_whole_number_below_2_to_the_31(inventive: Any, path: str, seed: Any) -> None:
    number, _ = opened(inventive)
    answer = inventive.ask(path, {"id": number, "seed": seed, "format": "png"})
    assert answer.refused(422, "seed must be a whole number between 0 and 2147483647")


@pytest.mark.parametrize("kind", ["warped", "blended", "maps"])
def test_a_bad_seed_is_refused_where_none_is_needed_too(inventive: Any, kind: str) -> None:
    number, _ = opened(inventive)
    answer = inventive.ask("/api/render", {"id": number, "seed": -1, "kind": kind})
    assert answer.refused(422, "seed must be a whole number")


@pytest.mark.parametrize("path", ["/api/render", "/api/morph"])
def test_a_model_without_a_generator_refuses_a_seed(served: Any, path: str) -> None:
    number, _ = opened(served)
    answer = served.ask(path, {"id": number, "seed": 3, "format": "png"})
    assert answer.refused(422, "This model comes without a generator")
    assert served.ask(path, {"id": number, "seed": None, "format": "png"}).status == 200


@pytest.mark.parametrize("landmarks", [[[0.5, 0.5]] * 4, [[-4, -4], [4, 4], [-4, 4], [4, -4]]])
def test_the_generator_draws_odd_landmarks(inventive: Any, sampler: Sampler, landmarks: Any) -> None:
    number, _ = opened(inventive)
    shown = seen(inventive.ask("/api/render", {"id": number, "landmarks": landmarks, "seed": 2}))
    np.testing.assert_array_equal(shown, invented(sampler, np.array([landmarks], float), 2)[0])


def test_a_grey_generator_s_picture_has_three_channels(serve: Callable[..., Any], micro: Config) -> None:
    predictor = Predictor(TorchBackend(Autoencoder(micro.model, seed=3)), micro)
    settings = GeneratorConfig(latent=8, width=8, critic_width=8)
    grey = Sampler(Adversaries(settings, micro.model).generator, predictor, settings)
    with serve(Studio(Editor(predictor), sampler=grey)) as served:
        number, code = opened(served, 7)
        shown = seen(served.ask("/api/render", {"id": number, "seed": 4}))
        expected = invented(grey, code.landmarks[None], 4)[0]
        assert expected.shape == (28, 28, 1)
        np.testing.assert_array_equal(shown, np.repeat(expected, 3, axis=2))


@pytest.fixture
def invented_morph(
    inventive: Any, sampler: Sampler
) -> tuple[dict[str, Any], Callable[..., NDArray[np.uint8]]]:
    """A request for a morph with a seed, and the frames it should have: so many, of this or another seed."""
    number, code = opened(inventive, 25)

    def frames(many: int, seed: int = 8) -> NDArray[np.uint8]:
        points = [code.landmarks + part * (SPREAD - code.landmarks) for part in np.linspace(0, 1, many)]
        small = invented(sampler, np.stack(points), seed)
        return np.stack([cv2.resize(image, (256, 256), interpolation=cv2.INTER_CUBIC) for image in small])

    return {"id": number, "landmarks": SPREAD.tolist(), "seed": 8}, frames


def test_a_morph_of_a_new_appearance_as_a_strip(inventive: Any, invented_morph: Any) -> None:
    asked, frames = invented_morph
    shown = seen(inventive.ask("/api/morph", asked | {"format": "png"}))
    gap = (shown.shape[0] - 256) // 2
    for number, image in enumerate(frames(9)):
        left = gap + number * (256 + gap)
        np.testing.assert_array_equal(shown[gap : gap + 256, left : left + 256], image)


def test_a_morph_of_a_new_appearance_as_gif(
    inventive: Any, invented_morph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "FRAMES", 3)
    asked, frames = invented_morph
    answer = inventive.ask("/api/morph", asked | {"format": "gif"})
    assert answer.headers["content-type"] == "image/gif"
    with Image.open(io.BytesIO(answer.data)) as movie:
        assert movie.n_frames == 3
        for number, (expected, other) in enumerate(zip(frames(3), frames(3, seed=9), strict=True)):
            movie.seek(number)
            shown = np.asarray(movie.convert("RGB"))
            assert difference(shown, expected) < difference(shown, other) / 2  # a palette of 256 colours


def test_a_morph_of_a_new_appearance_as_mp4(
    inventive: Any, invented_morph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "FRAMES", 5)
    asked, frames = invented_morph
    answer = inventive.ask("/api/morph", asked | {"format": "mp4"})
    assert answer.headers["content-type"] == "video/mp4"
    with av.open(io.BytesIO(answer.data)) as movie:
        shown = [frame.to_ndarray(format="rgb24") for frame in movie.decode(video=0)]
    assert len(shown) == 5
    for image, expected in zip(shown, frames(5), strict=True):
        assert difference(image, expected) < 8


# Hostile uploads


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, data: bytes, *more: bytes) -> bytes:
    """A grey PNG with this compressed data, whatever it says of its size."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(more) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@cache
def zeros(megabytes: int) -> bytes:
    """So many of them, compressed without holding them."""
    packer = zlib.compressobj(1)
    block = bytes(1_000_000)
    return b"".join(packer.compress(block) for _ in range(megabytes)) + packer.flush()


SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="50" height="50"><script>alert(1)</script></svg>'
EPS = (
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n%%EndComments\n(/etc/passwd) (r) file\nshowpage\n"
)
JPEG = encoded(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8), "JPEG")
UPLOADS = {
    "empty": (b"", 400, "empty"),
    "svg": (SVG, 415, "expected JPEG, PNG"),
    "html": (b"<!doctype html><script>alert(1)</script>" + bytes(500), 415, "expected JPEG, PNG"),
    "eps": (EPS, 415, "expected JPEG, PNG"),
    "text": (b"Dear diary, this is no image.\n", 415, "not a readable image"),
    "truncated": (JPEG[: len(JPEG) // 2], 415, "not a readable image"),
    "beginning": (JPEG[:3], 415, "not a readable image"),
    "gif header": (b"GIF89a", 415, "not a readable image"),
    "zeros": (bytes(5000), 415, "not a readable image"),
    "tiny": (encoded(np.zeros((4, 4), np.uint8)), 415, "4x4 pixels, smaller than 8x8"),
    "no pixels": (png(0, 0, zlib.compress(b"")), 415, "This is "),
    "damaged": (png(64, 64, b"this is not compressed"), 415, "not a readable image"),
}


@pytest.mark.parametrize("name", list(UPLOADS))
def test_what_is_no_image_is_refused(served: Any, name: str) -> None:
    data, status, words = UPLOADS[name]
    before = len(served.studio.opened)
    answer = served.ask("/api/images", data, {"content-type": "image/png", "x-name": "fine.png"})
    assert answer.refused(status, words)
    assert "0x" not in answer.json["error"].replace("0x0", "")  # no addresses of memory
    assert len(served.studio.opened) == before


@pytest.mark.parametrize("size", [(10_000, 10_000), (20_000, 20_000), (2**31 - 1, 2**31 - 1)])
def test_a_huge_image_is_refused_unread(
    served: Any, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda *_: pytest.fail("decoded a huge image"))
    answer = served.ask("/api/images", png(*size, zlib.compress(bytes(100))))
    assert answer.refused(415, "more than the limit of 40 megapixels")


@pytest.mark.parametrize("where", ["pixels", "text", "profile"])
def test_what_swells_is_not_swallowed(served: Any, where: str) -> None:
    """A PNG of 64x64 pixels with 300 MB behind them, or in its comment or colour profile."""
    rows, swollen = zlib.compress(bytes(64 * 65)), zeros(300)
    data = {
        "pixels": lambda: png(64, 64, swollen),
        "text": lambda: png(64, 64, rows, chunk(b"zTXt", b"comment\0\0" + swollen)),
        "profile": lambda: png(64, 64, rows, chunk(b"iCCP", b"profile\0\0" + swollen)),
    }[where]()
    assert len(data) < 3_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = served.ask("/api/images", data)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # in kB
    assert grown < 100_000
    if answer.status == 201:
        assert (answer.json["width"], answer.json["height"]) == (64, 64)
    else:
        assert answer.refused(415, "not a readable image")


def test_the_limit_of_pixels_is_the_caller_s() -> None:
    data = encoded(picture(0, 50, 40))
    assert read_image(io.BytesIO(data), most=50 * 40).shape == (40, 50, 3)
    with pytest.raises(UnreadableImage, match="50x40 pixels, more than the limit of 0 megapixels"):
        read_image(io.BytesIO(data), most=50 * 40 - 1)


def test_only_the_formats_of_the_list_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow would hand an EPS file to another program."""
    from PIL import EpsImagePlugin

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_, **__: pytest.fail("started a program"))
    for data in (EPS, encoded(picture(), "ICO"), encoded(picture(), "PCX")):
        with pytest.raises(UnreadableImage, match=r"\(expected JPEG, PNG, .* or WEBP\)$"):
            read_image(io.BytesIO(data))


def raw(served: Any, *parts: bytes) -> bytes:
    """Send bytes as they are, one part after the other, and read what comes back."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        for part in parts:
            connection.sendall(part)
        answer = b""
        while got := connection.recv(65536):
            answer += got
        return answer


def post(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


@pytest.mark.parametrize(("path", "limit"), [("/api/images", "24 MB"), ("/api/render", "0.1 MB")])
def test_a_body_announced_too_large_is_refused_before_it_is_sent(served: Any, path: str, limit: str) -> None:
    answer = raw(served, post(path, "Content-Length: 24000001", "Connection: close"))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert f"More than {limit} are not accepted.".encode() in answer


def test_a_body_that_grows_too_large_is_refused(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In chunks, so that nothing is announced."""
    monkeypatch.setattr(server, "MAX_BYTES", 50_000)
    headers = post("/api/images", "Transfer-Encoding: chunked", "Connection: close")
    chunks = [b"%x\r\n" % 30_000 + bytes(30_000) + b"\r\n"] * 2
    answer = raw(served, headers, *chunks)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"More than 0.05 MB are not accepted." in answer


def test_an_upload_in_chunks_is_welcome(served: Any) -> None:
    data = encoded(picture())
    pieces = [data[:100], data[100:]]
    chunks = [b"%x\r\n" % len(piece) + piece + b"\r\n" for piece in pieces] + [b"0\r\n\r\n"]
    headers = post("/api/images", "Transfer-Encoding: chunked", "Connection: close")
    assert raw(served, headers, *chunks).startswith(b"HTTP/1.1 201 ")


def test_a_client_that_leaves_in_the_middle_of_an_upload_does_no_harm(served: Any) -> None:
    before = len(served.studio.opened)
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        connection.sendall(post("/api/images", "Content-Length: 5000") + bytes(100))
    assert served.ask("/api/model").status == 200
    assert len(served.studio.opened) == before


# Hostile requests for pictures


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"\xff\xfe\xfa", b"nonsense", b"[" * 50_000, b'{"id":' * 10_000,
        b"9" * 5000, b'"\\ud800"', b"null", b"[]", b"7",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/api/render", "/api/morph"])
def test_what_is_no_json_object_is_refused(served: Any, path: str, body: bytes) -> None:
    assert served.ask(path, body).refused(400, "JSON")


def test_json_too_long_is_refused(served: Any) -> None:
    body = json.dumps({"id": "x" * 100_000}).encode()
    assert served.ask("/api/render", body).refused(413, "More than 0.1 MB")


def deep(depth: int) -> Any:
    value: Any = 0.5
    for _ in range(depth):
        value = [value]
    return value


GOOD = SPREAD.tolist()
LANDMARKS = {
    "NaN": [*GOOD[:3], [float("nan"), 0.5]],
    "infinity": [*GOOD[:3], [float("inf"), 0.5]],
    "minus infinity": [*GOOD[:3], [0.5, float("-inf")]],
    "huge": [*GOOD[:3], [1e308, 0.5]],
    "just too far": [*GOOD[:3], [4.001, 0.5]],
    "huge integer": [*GOOD[:3], [10**400, 0.5]],
    "huge integers": [[10**400, 10**30]] * 4,
    "smallest integer": [[-(2**63), 0]] * 4,
    "too few": GOOD[:3],
    "too many": [*GOOD, [0.5, 0.5]],
    "none": [],
    "three numbers each": [[0.5, 0.5, 0.5]] * 4,
    "ragged": [*GOOD[:3], [0.5]],
    "flat": [0.5] * 8,
    "one number": 0.5,
    "word": "landmarks",
    "numbers as words": [["0.5", "0.5"]] * 4,
    "one number as a word": [*GOOD[:3], ["0.5", 0.5]],
    "nothing among them": [*GOOD[:3], [None, 0.5]],
    "truths": [[True, False]] * 4,
    "object": {"x": 0.5},
    "objects": [{"x": 0.5, "y": 0.5}] * 4,
    "deep": deep(60),
    "deeper": deep(500),
}


@pytest.mark.parametrize("name", list(LANDMARKS))
@pytest.mark.parametrize("path", ["/api/render", "/api/morph"])
def test_landmarks_must_be_pairs_of_numbers_nearby(served: Any, path: str, name: str) -> None:
    number = opened(served)[0]
    asked = {"id": number, "landmarks": LANDMARKS[name], "format": "png"}
    answer = served.ask(path, asked)
    assert answer.refused(422, "landmarks must be 4 pairs of numbers between -4 and 4")


def test_numbers_that_json_cannot_hold_are_refused(served: Any) -> None:
    number = opened(served)[0]
    for word in ("1e999", "NaN", "-Infinity"):
        body = f'{{"id": "{number}", "landmarks": [[{word}, 0], [0, 0], [0, 0], [0, 0]]}}'.encode()
        assert served.ask("/api/render", body).refused(422, "landmarks")


@pytest.mark.parametrize("kind", ["decoded", "warped", "blended"])
@pytest.mark.parametrize(
    "landmarks",
    [[[0.5, 0.5]] * 4, [[-4, -4], [4, 4], [-4, 4], [4, -4]], [[0, 0], [1, 0], [0, 1], [1, 1]]],
    ids=["all in one place", "far apart", "corners in integers"],
)
def test_odd_landmarks_that_are_allowed_give_a_picture(served: Any, kind: str, landmarks: Any) -> None:
    number = opened(served)[0]
    answer = served.ask("/api/render", {"id": number, "landmarks": landmarks, "kind": kind})
    shown = seen(answer, "image/png" if kind == "decoded" else "image/jpeg")
    assert shown.shape == ((32, 32, 3) if kind == "decoded" else (50, 60, 3))


UNKNOWN = [None, "", "nobody", "../../etc/passwd", "\ud800", 5, True, [], {}, ["a"]]


@pytest.mark.parametrize("number", UNKNOWN)
@pytest.mark.parametrize("path", ["/api/render", "/api/morph"])
def test_unknown_images_are_not_found(served: Any, path: str, number: Any) -> None:
    answer = served.ask(path, {"id": number, "format": "gif"})
    assert answer.refused(404, "That image is not open any more")


@pytest.mark.parametrize("other", UNKNOWN[1:])
def test_the_appearance_of_an_unknown_image_is_not_found(served: Any, other: Any) -> None:
    number = opened(served)[0]
    answer = served.ask("/api/render", {"id": number, "appearance": other})
    assert answer.refused(404, "That image is not open any more")


@pytest.mark.parametrize("share", [-0.1, 1.1, 10**400, float("nan"), True, "1", [], {}, None])
def test_a_share_must_be_a_number_up_to_1(served: Any, share: Any) -> None:
    number = opened(served)[0]
    asked = {"id": number, "appearance": number, "share": share}
    assert served.ask("/api/render", asked).refused(422, "share must be a number between 0 and 1")


@pytest.mark.parametrize("wish", ["exe", "", None, 7, [], {}, ["gif"], "../gif"])
def test_kinds_and_formats_are_those_on_the_list(served: Any, wish: Any) -> None:
    number = opened(served)[0]
    answer = served.ask("/api/render", {"id": number, "kind": wish})
    assert answer.refused(422, "kind must be decoded, warped, blended or maps")
    answer = served.ask("/api/morph", {"id": number, "format": wish})
    assert answer.refused(422, "format must be gif, mp4 or png")


@pytest.mark.parametrize(
    ("path", "method"),
    [("/api/render", "GET"), ("/api/images", "GET"), ("/api/model", "POST"), ("/", "DELETE")],
)
def test_other_methods_are_not_allowed(served: Any, path: str, method: str) -> None:
    assert served.ask(path, method=method).status == 405


# Paths


TRICKS = [
    "../server.py", "..%2fserver.py", "%2e%2e/server.py", "%2e%2e%2fserver.py", "%252e%252e/server.py",
    "..%5cserver.py", "..\\server.py", "./../server.py", "....//server.py", "/etc/passwd", "//etc/passwd",
    "%2fetc%2fpasswd", "../" * 12 + "etc/passwd", "%2e%2e/" * 12 + "etc/passwd", "index.html%00.png",
    "file:///etc/passwd", "x" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("base", ["/static/", "/api/images/", "/api/images/NUMBER/", "/"])
def test_no_path_leads_out(served: Any, base: str, trick: str) -> None:
    number = opened(served)[0]
    answer = served.ask(base.replace("NUMBER", number) + trick)
    assert answer.status in (404, 405), answer
    assert b"root:" not in answer.data
    assert b"def " not in answer.data
    assert len(answer.data) < 200


@pytest.mark.parametrize(
    "path", ["/static", "/static/", "/api", "/api/images/", "/api/model/", "/favicon.ico"]
)
def test_folders_are_not_listed(served: Any, path: str) -> None:
    assert served.ask(path).status == 404


def test_what_the_page_needs_is_served(served: Any) -> None:
    page = served.ask("/")
    assert page.status == 200
    assert page.headers["content-type"].startswith("text/html")
    assert page.data == (PAGE / "index.html").read_bytes()
    for file in ("studio.js", "studio.css", "icon.svg"):
        assert f"static/{file}".encode() in page.data
        assert served.ask(f"/static/{file}").data == (PAGE / file).read_bytes()


def test_the_page_may_load_nothing_from_elsewhere(served: Any) -> None:
    headers = served.ask("/").headers
    rules = dict(rule.split(maxsplit=1) for rule in headers["content-security-policy"].split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'self'"
    assert rules["frame-ancestors"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert "http" not in headers["content-security-policy"]


# Who may ask


GUARDED = [("/", None), ("/api/model", None), ("/api/images/NUMBER/photo", None), ("/api/render", {})]
OPEN = [("/static/studio.js", None), ("/static/nothing", None), ("/nothing", None)]  # also without a token


def ask_as(served: Any, path: str, body: Any, **headers: str) -> Any:
    number = served.studio.open("a.png", picture())
    asked = None if body is None else {"id": number}
    return served.ask(path.replace("NUMBER", number), asked, headers)


@pytest.mark.parametrize(("path", "body"), GUARDED + OPEN)
@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8642", "127.0.0.1.evil.example", "localhost.evil.example:80",
        "192.0.2.7:8642", "0.0.0.0", "[2001:db8::1]:8642", "localhost:80:evil", "user@localhost", "",
    ],
)  # fmt: skip
def test_another_name_of_this_computer_is_not_answered(served: Any, path: str, body: Any, host: str) -> None:
    """A page may give its own name our address, and would read what we answer: DNS rebinding."""
    assert ask_as(served, path, body, host=host).refused(403, "does not answer to that host name")


def test_a_request_without_a_host_is_not_answered(served: Any) -> None:
    answer = raw(served, b"GET /api/model HTTP/1.0\r\n\r\n")
    assert b" 403 " in answer.splitlines()[0]


@pytest.mark.parametrize("host", ["localhost", "LocalHost:1234", "127.0.0.1", "127.0.0.1:8642", "[::1]:8642"])
def test_our_own_names_are_answered(served: Any, host: str) -> None:
    assert ask_as(served, "/api/model", None, host=host).status == 200


@pytest.mark.parametrize(("path", "body"), GUARDED + OPEN)
@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example", "null", "http://localhost:1", "http://localhost",
        "http://localhost:8642.evil.example", "",
    ],
)  # fmt: skip
def test_other_pages_are_not_answered(served: Any, path: str, body: Any, origin: str) -> None:
    answer = ask_as(served, path, body, host="localhost:8642", origin=origin)
    assert answer.refused(403, "Requests from other pages are not answered")


def test_our_own_page_is_answered(served: Any) -> None:
    headers = {"host": "localhost:8642", "origin": "http://localhost:8642"}
    assert ask_as(served, "/api/render", {}, **headers).status == 200


@pytest.fixture(scope="module")
def with_token(serve: Callable[..., Any], editor: Editor) -> Iterator[Any]:
    with serve(Studio(editor, "a-long-token", LOOPBACK | {"box"})) as running:
        yield running


@pytest.mark.parametrize(("path", "body"), GUARDED)
@pytest.mark.parametrize(
    "token", [None, "", "wrong", "a-long-toke", "a-long-token2", "A-LONG-TOKEN", "\u00e9"]
)
def test_without_the_token_nothing_is_answered(
    with_token: Any, path: str, body: Any, token: str | None
) -> None:
    for name in ("header", "query"):
        headers = {"x-token": token} if name == "header" and token is not None else {}
        query = f"?token={quote(token)}" if name == "query" and token is not None else ""
        answer = ask_as(with_token, path + query, body, **headers)
        assert answer.refused(401, "The token is missing or wrong")
        assert "a-long-token" not in answer.data.decode()


@pytest.mark.parametrize(("path", "body"), GUARDED)
def test_with_the_token_everything_is_answered(with_token: Any, path: str, body: Any) -> None:
    assert ask_as(with_token, path, body, **{"x-token": "a-long-token"}).status == 200
    assert ask_as(with_token, f"{path}?token=a-long-token", body).status == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("box:8642", 200), ("Box", 200), ("192.0.2.7:8642", 200), ("[2001:db8::1]:8642", 200),
        ("evil.example:8642", 403), ("box.evil.example", 403), ("192.0.2.7.evil.example", 403),
    ],
)  # fmt: skip
def test_others_may_call_by_name_or_address(with_token: Any, host: str, status: int) -> None:
    answer = ask_as(with_token, "/api/model", None, host=host, **{"x-token": "a-long-token"})
    assert answer.status == status


# Many images, and many at once


def test_the_image_used_longest_ago_goes(editor: Editor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HELD", 3)
    studio = Studio(editor)
    first, second, third = (studio.open(f"{seed}", picture(seed)) for seed in range(3))
    studio.get(first)
    fourth = studio.open("3", picture(3))
    assert set(studio.opened) == {first, third, fourth}
    with pytest.raises(Refused, match="open it again"):
        studio.get(second)
    studio.open("4", picture(4))
    assert third not in studio.opened
    assert first in studio.opened


def test_only_so_many_images_are_held(
    serve: Callable[..., Any], editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HELD", 2)
    with serve(Studio(editor)) as served:
        ids = [opened(served, seed)[0] for seed in range(4)]
        assert [image["id"] for image in served.ask("/api/model").json["images"]] == ids[2:]
        assert served.ask("/api/render", {"id": ids[0]}).refused(404, "open it again")
        assert served.ask(f"/api/images/{ids[1]}/square").refused(404, "open it again")
        assert served.ask("/api/render", {"id": ids[2], "appearance": ids[0]}).status == 404
        assert served.ask("/api/render", {"id": ids[3], "appearance": ids[2]}).status == 200


def test_twenty_at_once_each_get_their_own_picture(served: Any, editor: Editor) -> None:
    """All drag, some look at the photo, and now and then one opens an image."""
    number, code = opened(served, 11)
    random = np.random.default_rng(0)
    drags = random.uniform(0, 1, (20, 6, 4, 2))
    begin = threading.Barrier(20)

    def drag(who: int) -> None:
        begin.wait()
        for step, landmarks in enumerate(drags[who]):
            asked = {"id": number, "landmarks": landmarks.tolist()}
            shown = seen(served.ask("/api/render", asked))
            np.testing.assert_array_equal(shown, editor.decode(code.with_landmarks(landmarks)))
            if step == who % 6:
                assert served.ask("/api/images", encoded(picture(who))).status == 201
                assert served.ask("/api/render", asked | {"kind": "warped"}).status == 200
                assert served.ask("/api/model").status == 200

    with ThreadPoolExecutor(20) as people:
        for done in [people.submit(drag, who) for who in range(20)]:
            done.result()


def test_images_may_be_opened_and_used_from_many_threads(
    editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is evicted meanwhile is refused as not open, and nothing else happens."""
    monkeypatch.setattr(server, "HELD", 2)
    studio = Studio(editor)
    begin = threading.Barrier(4)

    def use(who: int) -> None:
        begin.wait()
        for _ in range(15):
            number = studio.open(str(who), picture(who, 16, 16))
            with suppress(Refused):
                assert studio.get(number).name == str(who)

    with ThreadPoolExecutor(4) as people:
        for done in [people.submit(use, who) for who in range(4)]:
            done.result()
    assert len(studio.opened) == 2


@pytest.mark.parametrize("seed", [None, 3], ids=["decoded", "generated"])
def test_only_a_few_pictures_are_made_at_once(
    serve: Callable[..., Any], editor: Editor, sampler: Sampler, monkeypatch: pytest.MonkeyPatch, seed: Any
) -> None:
    lock, now, most = threading.Lock(), 0, 0

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any) -> Any:
            nonlocal now, most
            with lock:
                now += 1
                most = max(most, now)
            time.sleep(0.01)
            with lock:
                now -= 1
            return original(*words)

        return call

    monkeypatch.setattr(Editor, "decode_many", counted(Editor.decode_many))
    monkeypatch.setattr(Sampler, "generate", counted(Sampler.generate))
    with serve(Studio(editor, sampler=sampler)) as served, ThreadPoolExecutor(12) as people:
        asked = {"id": opened(served)[0], "seed": seed}
        for answer in people.map(lambda _: served.ask("/api/render", asked), range(24)):
            assert answer.status == 200
    assert 1 <= most <= server.DECODES
