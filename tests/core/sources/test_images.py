"""Reading one image file, whatever is in it."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFile, ImageOps

from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.sources import images
from trigpoint.core.sources.images import EXTENSIONS, MAX_PIXELS, has_colour, read_image, to_channels


@pytest.fixture
def colours() -> np.ndarray:
    """(16, 24, 3): the top left quarter is red, the rest blue."""
    image = np.zeros((16, 24, 3), np.uint8)
    image[..., 2] = 200
    image[:8, :12] = (220, 0, 0)
    return image


def encoded(picture: Image.Image, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def png_of_size(width: int, height: int) -> bytes:
    """A complete black PNG of one bit a pixel, made without holding its pixels."""
    packer = zlib.compressobj(1)
    row = bytes(1 + (width + 7) // 8)
    data = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.tif", "a.tiff", "a.ppm", "a.PNG"])
def test_lossless_formats_give_the_same_pixels(tmp_path: Path, colours: np.ndarray, name: str) -> None:
    Image.fromarray(colours).save(tmp_path / name)
    found = read_image(tmp_path / name)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, colours)


@pytest.mark.parametrize("name", ["a.jpg", "a.jpeg", "a.webp", "a.gif"])
def test_lossy_formats_give_nearly_the_same_pixels(tmp_path: Path, colours: np.ndarray, name: str) -> None:
    Image.fromarray(colours).save(tmp_path / name, quality=95, subsampling=0)
    found = read_image(tmp_path / name)
    assert found.shape == colours.shape
    assert np.abs(found.astype(int) - colours).mean() < 6


def test_every_extension_is_one_that_pillow_knows() -> None:
    Image.init()
    assert set(Image.registered_extensions()) >= EXTENSIONS


def test_an_open_stream_is_read_too(colours: np.ndarray) -> None:
    data = encoded(Image.fromarray(colours), "PNG")
    np.testing.assert_array_equal(read_image(io.BytesIO(data)), colours)


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_grey_has_one_channel(kind: str) -> None:
    grey = np.full((10, 12), 77, np.uint8)
    found = read_image(io.BytesIO(encoded(Image.fromarray(grey), kind)))
    assert found.shape == (10, 12, 1)
    assert np.abs(found[..., 0].astype(int) - grey).max() <= 1


def test_one_bit_images_are_black_and_white() -> None:
    bits = np.zeros((8, 9), bool)
    bits[2, 3] = True
    found = read_image(io.BytesIO(encoded(Image.fromarray(bits), "PNG")))
    np.testing.assert_array_equal(found[..., 0], bits * 255)


def test_transparent_becomes_white() -> None:
    pixels = np.zeros((8, 8, 4), np.uint8)
    pixels[..., 0] = 255  # red
    pixels[:4, :, 3] = 255  # opaque above, transparent below, half in the last row
    pixels[7, :, 3] = 128
    found = read_image(io.BytesIO(encoded(Image.fromarray(pixels), "PNG")))
    assert found.shape == (8, 8, 3)
    assert (found[:4] == (255, 0, 0)).all()
    assert (found[4:7] == 255).all()
    assert np.abs(found[7].astype(int) - (255, 127, 127)).max() <= 1


def test_transparent_grey_becomes_white() -> None:
    pixels = np.full((8, 8, 2), 40, np.uint8)
    pixels[:4, :, 1], pixels[4:, :, 1] = 255, 0
    found = read_image(io.BytesIO(encoded(Image.fromarray(pixels, "LA"), "PNG")))
    assert (found[:4] == 40).all()
    assert (found[4:] == 255).all()
    assert not has_colour(found)


@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_palette_with_transparency_becomes_white(kind: str) -> None:
    picture = Image.new("P", (10, 8), 0)
    picture.putpalette([0, 255, 0, 255, 0, 0])
    picture.paste(1, (0, 0, 5, 8))
    found = read_image(io.BytesIO(encoded(picture, kind, transparency=0)))
    assert (found[:, :5] == (255, 0, 0)).all()
    assert (found[:, 5:] == 255).all()


def test_sixteen_bits_become_eight_by_their_full_range() -> None:
    values = np.arange(256, dtype=np.uint16).reshape(16, 16)
    found = read_image(io.BytesIO(encoded(Image.fromarray(values * 257), "PNG")))
    np.testing.assert_array_equal(found[..., 0], values)


def test_a_dark_sixteen_bit_image_stays_dark() -> None:
    """The range belongs to the format: an image must not look brighter because it has no bright pixel."""
    values = np.arange(256, dtype=np.uint16).reshape(16, 16)  # at most 255 of 65,535: black
    found = read_image(io.BytesIO(encoded(Image.fromarray(values), "PNG")))
    assert found.max() <= 1


def test_floating_point_pixels_are_scaled_to_their_own_range() -> None:
    values = np.linspace(0, 4, 64, dtype=np.float32).reshape(8, 8)
    found = read_image(io.BytesIO(encoded(Image.fromarray(values), "TIFF")))[..., 0]
    assert (found.min(), found.max()) == (0, 255)
    assert (np.diff(found.astype(int).ravel()) >= 0).all()


def test_cmyk_becomes_rgb() -> None:
    picture = Image.new("CMYK", (16, 16), (0, 255, 255, 0))  # magenta and yellow ink: red
    found = read_image(io.BytesIO(encoded(picture, "JPEG", quality=95)))
    assert found.shape == (16, 16, 3)
    assert np.abs(found.astype(int) - (255, 0, 0)).max() < 12


def test_exif_rotation_is_applied(colours: np.ndarray) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: show it rotated by 90 degrees clockwise
    data = encoded(Image.fromarray(colours), "PNG", exif=exif)
    np.testing.assert_array_equal(read_image(io.BytesIO(data)), np.rot90(colours, -1))
    photo = read_image(io.BytesIO(encoded(Image.fromarray(colours), "JPEG", exif=exif)))
    assert photo.shape == (24, 16, 3)
    assert photo[2, 13, 0] > 150  # the red corner went from top left to top right
    assert photo[2, 2, 0] < 80


def test_an_animation_gives_its_first_frame() -> None:
    frames = [Image.new("RGB", (12, 9), colour) for colour in ("red", "green", "blue")]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    found = read_image(io.BytesIO(data))
    assert found.shape == (9, 12, 3)
    assert (found == (255, 0, 0)).all()


def test_a_truncated_jpeg_is_unreadable(colours: np.ndarray) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    data = encoded(Image.fromarray(noise), "JPEG")
    assert read_image(io.BytesIO(data)).shape == (64, 64, 3)
    for length in (0, 3, 20, len(data) // 2, len(data) - 100):
        with pytest.raises(UnreadableImage, match="not a readable image"):
            read_image(io.BytesIO(data[:length]))


@pytest.mark.parametrize(
    ("name", "content"),
    [("text.png", b"Dear diary, this is no image.\n"), ("empty.jpg", b""), ("zeros.tif", bytes(500))],
)
def test_what_is_no_image_is_unreadable(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableImage) as caught:
        read_image(tmp_path / name)
    assert "not a readable image" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(UnreadableImage):
        read_image(tmp_path / "nothing.png")


@pytest.mark.parametrize("size", [(1, 1), (1, 500), (500, 7)])
def test_an_image_too_small_to_show_anything_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(UnreadableImage, match=f"{size[0]}x{size[1]} pixels, smaller than 8x8"):
        read_image(io.BytesIO(encoded(Image.new("RGB", size), "PNG")))


@pytest.mark.parametrize("size", [(12_000, 12_000), (20_000, 20_000)])
def test_a_huge_image_is_refused_without_decoding(
    tmp_path: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert size[0] * size[1] > MAX_PIXELS
    path = tmp_path / "huge.png"
    path.write_bytes(png_of_size(*size))
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda *_: pytest.fail("decoded a huge image"))
    with pytest.raises(UnreadableImage, match="more than the limit of 64 megapixels"):
        read_image(path)


def test_the_handmade_png_is_a_true_one() -> None:
    assert read_image(io.BytesIO(png_of_size(200, 100))).shape == (100, 200, 1)


def test_odd_values_in_a_tiff_are_unreadable_and_no_crash() -> None:
    """An offset stored as a floating point number, which Pillow does not expect."""
    entries = [
        (256, 3, 16), (257, 3, 16), (258, 3, 8), (259, 3, 1), (262, 3, 1),
        (273, 11, struct.unpack("<I", struct.pack("<f", 200.0))[0]), (277, 3, 1), (278, 3, 16), (279, 4, 256),
    ]  # fmt: skip
    table = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in entries)
    data = b"II*\0" + struct.pack("<IH", 8, len(entries)) + table + bytes(500)
    with pytest.raises(UnreadableImage):
        read_image(io.BytesIO(data))


def test_damaged_files_are_read_or_refused_but_never_crash(colours: np.ndarray) -> None:
    """Random bytes overwritten in files of many kinds."""
    picture, exif = Image.fromarray(colours), Image.Exif()
    exif[0x0112] = 6
    files = [encoded(picture, kind, exif=exif) for kind in ("JPEG", "PNG", "WEBP")]
    files += [encoded(picture, kind) for kind in ("BMP", "GIF", "PPM")]
    files += [encoded(picture.convert(mode), "PNG") for mode in ("P", "LA", "1")]
    random = np.random.default_rng(5)
    outcomes = set()
    for turn in range(600):
        data = bytearray(files[turn % len(files)])
        for place in random.integers(0, min(len(data), 300), random.integers(1, 6)):
            data[place] = random.integers(256)
        try:
            found = read_image(io.BytesIO(bytes(data)))
        except UnreadableImage:
            outcomes.add("refused")
        else:
            assert found.dtype == np.uint8
            assert found.ndim == 3
            assert found.shape[2] in (1, 3)
            outcomes.add("read")
    assert outcomes == {"refused", "read"}


def test_unreadable_is_an_error_that_a_person_can_mend() -> None:
    assert issubclass(UnreadableImage, TrigpointError)


def test_to_channels() -> None:
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4, 1)
    assert to_channels(grey, 1) is grey
    np.testing.assert_array_equal(to_channels(grey, 3), np.concatenate([grey] * 3, axis=2))
    colour = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]]], np.uint8)
    np.testing.assert_array_equal(to_channels(colour, 1)[0, :, 0], [76, 150, 29, 255])
    assert to_channels(colour, 3) is colour


def test_has_colour() -> None:
    grey = np.full((4, 4, 3), 100, np.uint8)
    assert not has_colour(grey)
    assert not has_colour(grey[:, :, :1])
    almost = grey.copy()
    almost[0, 0, 1] = 106  # what a JPEG does to grey
    assert not has_colour(almost)
    coloured = grey.copy()
    coloured[0, 0] = (0, 255, 3)  # bytes must not wrap around in the difference
    assert has_colour(coloured)


def test_a_dataset_may_want_the_pixels_as_they_are_stored(tmp_path: Path) -> None:
    """Its annotations count them so, whatever the orientation tag says."""
    stored = Image.new("RGB", (20, 10))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    stored.save(tmp_path / "turned.jpg", exif=exif)
    assert read_image(tmp_path / "turned.jpg").shape == (20, 10, 3)
    assert read_image(tmp_path / "turned.jpg", upright=False).shape == (10, 20, 3)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "CMYK", "I;16", "L"])
@pytest.mark.parametrize("compression", [None, "tiff_lzw"])
def test_a_tiff_that_lies_on_its_side(tmp_path: Path, mode: str, compression: str | None) -> None:
    """Pillow maps some of them into memory with width and height swapped."""
    values = np.random.default_rng(0).integers(0, 256, (16, 24, 4), dtype=np.uint8)
    stored = Image.fromarray(values[..., 0].astype(np.uint16) * 257) if mode == "I;16" else None
    stored = stored or Image.fromarray(values[..., :3]).convert(mode)
    exif = Image.Exif()
    stored.save(tmp_path / "stored.tif", compression=compression)
    exif[0x0112] = 6
    stored.save(tmp_path / "turned.tif", exif=exif, compression=compression)
    expected = read_image(tmp_path / "stored.tif")
    np.testing.assert_array_equal(read_image(tmp_path / "turned.tif"), np.rot90(expected, -1))
    np.testing.assert_array_equal(read_image(tmp_path / "turned.tif", upright=False), expected)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_is_that_of_pillow(colours: np.ndarray, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(Image.fromarray(colours), "PNG", exif=exif)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    np.testing.assert_array_equal(read_image(io.BytesIO(data)), expected)


PEAK = """
import resource, sys
from pathlib import Path
from typing import Any
import numpy, cv2, PIL.Image, PIL.ImageOps
from trigpoint.core.sources.images import read_image

PIL.Image.init()
read_image(Path(sys.argv[1]))
status = Path("/proc/self/status")
Path("/proc/self/clear_refs").write_text("5")  # the peak from here on

def megabytes(field):
    lines = status.read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1000

before = megabytes("VmRSS")
shape = read_image(Path(sys.argv[2])).shape
print(*shape, megabytes("VmHWM") - before)
"""


def tiff_of_size(width: int, height: int, bits: int, samples: int) -> bytes:
    """A deflated TIFF in a single strip, turned by a quarter: a real number, or RGBA of 16 bits, a pixel."""
    packer = zlib.compressobj(9)
    row = bytes(width * bits // 8 * samples)
    data = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    kind = 3 if bits == 32 else 1
    entries = [
        (256, 4, width), (257, 4, height), (259, 3, 8), (262, 3, 2 if samples == 4 else 1), (273, 4, 8),
        (274, 3, 6), (277, 3, samples), (278, 4, height), (279, 4, len(data)),
    ]  # fmt: skip
    entries += [(338, 3, 2)] if samples == 4 else []
    place = 8 + len(data) + len(data) % 2
    rest = place + 2 + 12 * (len(entries) + 2) + 4
    table = [struct.pack("<HHII", tag, field, 1, value) for tag, field, value in entries]
    for tag, value in ((258, bits), (339, kind)):
        values = struct.pack(f"<{samples}H", *[value] * samples)
        if samples == 1:
            table.append(struct.pack("<HHI", tag, 3, 1) + values.ljust(4, b"\0"))
        else:
            table.append(struct.pack("<HHII", tag, 3, samples, rest + (0 if tag == 258 else 8)))
    extra = b"".join(struct.pack(f"<{samples}H", *[value] * samples) for value in (bits, kind))
    table.sort(key=lambda entry: struct.unpack("<H", entry[:2]))
    return (
        (b"II*\0" + struct.pack("<I", place) + data).ljust(place, b"\0")
        + struct.pack("<H", len(table)) + b"".join(table) + bytes(4) + (extra if samples > 1 else b"")
    )  # fmt: skip


def large(kind: str) -> bytes:
    """An image of just under 50 megapixels, in a file of less than 3 MB."""
    width, height = 8000, 6248
    if kind == "float TIFF":
        return tiff_of_size(width, height, 32, 1)
    if kind == "16-bit RGBA TIFF":
        return tiff_of_size(width, height, 16, 4)
    mode = {"CMYK": "CMYK", "RGBA": "RGBA"}.get(kind.split()[0], "RGB")
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = Image.new(mode, (width, height))
    if "JPEG" in kind:
        return encoded(picture, "JPEG", progressive=True, subsampling=0, exif=exif)
    if "WebP" in kind:
        return encoded(picture, "WEBP", lossless=True, quality=0, method=0, exif=exif)
    return encoded(picture, "PNG", exif=exif)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is measured on Linux")
@pytest.mark.parametrize(
    "kind", ["float TIFF", "16-bit RGBA TIFF", "CMYK JPEG", "RGBA WebP", "RGBA PNG", "RGB PNG"]
)
def test_no_image_takes_more_than_600_mb(tmp_path: Path, kind: str) -> None:
    """50 megapixels of the costliest modes, turned by a quarter, in a process of its own."""
    (tmp_path / "large").write_bytes(large(kind))
    (tmp_path / "small").write_bytes(png_of_size(64, 64))
    words = [sys.executable, "-c", PEAK, str(tmp_path / "small"), str(tmp_path / "large")]
    child = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert child.returncode == 0, child.stderr
    height, width, _, peak = child.stdout.split()
    assert (int(height), int(width)) == (8000, 6248)
    assert float(peak) < 600, f"{kind}: {peak} MB"


@pytest.mark.parametrize(
    ("kind", "size", "limit"),
    [
        ("TIFF", (8000, 6300), 50),
        ("PPM", (8000, 6300), 50),
        ("progressive JPEG", (8000, 7600), 60),
        ("PNG", (8000, 8008), 64),
    ],
)
def test_the_limit_is_that_of_the_format(
    kind: str, size: tuple[int, int], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused unread; just below it, images of the format are decoded."""
    progressive = {"progressive": True} if "JPEG" in kind else {}
    data = encoded(Image.new("RGB", size), kind.split()[-1], **progressive)
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda *_: pytest.fail("decoded a huge image"))
    with pytest.raises(
        UnreadableImage, match=f"{size[0]}x{size[1]} pixels, more than the limit of {limit} mega"
    ):
        read_image(io.BytesIO(data))


def test_a_gif_that_takes_memory_as_it_is_opened_is_refused() -> None:
    """Pillow makes the frame's background before anybody can ask for its size."""
    control = b"\x21\xf9\x04\x09\x00\x00\x00\x00"  # transparent, to be restored to the background
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, 13_000, 13_000, 0) + b"\x02\x01\x4c\x00\x3b"
    data = b"GIF89a" + struct.pack("<HHBBB", 13_000, 13_000, 0x80, 0, 0) + bytes(6) + control + frame
    with pytest.raises(UnreadableImage, match="more than the limit of 64 megapixels"):
        read_image(io.BytesIO(data))


def test_a_large_webp_is_read_as_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large ones are read by another decoder."""
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (5, 7, 4), dtype=np.uint8))
    picture = picture.resize((133, 57))
    exif = Image.Exif()
    exif[0x0112] = 6
    frames = {"save_all": True, "append_images": [Image.new("RGBA", picture.size)]}
    kinds: list[dict[str, Any]] = [{"lossless": True}, {"quality": 60}, {"lossless": True, **frames}]
    for mode in ("RGB", "RGBA"):
        for options in kinds:
            data = encoded(picture.convert(mode), "WEBP", exif=exif, **options)
            expected = read_image(io.BytesIO(data))
            with monkeypatch.context() as patch:
                patch.setattr(images, "LARGE_WEBP", 100)
                np.testing.assert_array_equal(read_image(io.BytesIO(data)), expected)


def test_grey_of_a_large_image_is_made_in_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    image = np.random.default_rng(0).integers(0, 256, (50, 40, 3), dtype=np.uint8)
    expected = to_channels(image, 1)
    monkeypatch.setattr(images, "STRIP", 300)
    np.testing.assert_array_equal(to_channels(image, 1), expected)
