"""Reading one image file, whatever a camera, a scanner or an attacker wrote into it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from cairns.errors import UnreadableImage
from cairns.io import no_file

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

EXTENSIONS = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP")  # no others: some start programs, as EPS does
MAX_PIXELS = 128_000_000  # a decoded image of this size takes 384 MB; larger ones are refused unread
MIN_EDGE = 8
STRIP = 1 << 20  # pixels that are converted at a time
ORIENTATION = 0x0112  # the EXIF tag
SIDEWAYS = (5, 6, 7, 8)  # orientations that swap width and height


def read_image(path: Path | BinaryIO, upright: bool = True, most: int = MAX_PIXELS) -> NDArray[np.uint8]:
    """The image as it is meant to be seen: (H, W, 3), or (H, W, 1) if it is grey.

    EXIF rotation is applied, 16 bits become 8, CMYK becomes RGB, transparency becomes white. Datasets whose
    annotations count pixels as they are stored leave the rotation out (`upright=False`). More than `most`
    pixels are refused.
    Raises UnreadableImage with the reason; the size is checked before anything is decoded.
    """
    from PIL import Image

    if isinstance(path, Path) and (reason := no_file(path)):
        raise UnreadableImage(f"not a readable image ({reason})")
    with _reasons(), _stream(path) as stream, Image.open(stream, formats=FORMATS) as opened:
        _check_size(opened, most)
        orientation = None
        if opened.format == "TIFF":  # Pillow would turn it with the decoder's buffers still in memory
            exif = opened.getexif()
            orientation = exif.get(ORIENTATION)
            exif[ORIENTATION] = 1
        opened.load()
        orientation = orientation or opened.getexif().get(ORIENTATION)
        return _pixels(opened, orientation if upright else None)


def from_pillow(image: Picture) -> NDArray[np.uint8]:
    """What `read_image` gives for the image's file, of an image that Pillow opened or made."""
    with _reasons():
        _check_size(image, MAX_PIXELS)
        image.load()
        return _pixels(image, image.getexif().get(ORIENTATION))


def _stream(path: Path | BinaryIO) -> AbstractContextManager[BinaryIO]:
    """Of a path Pillow would map some files into memory, and then misread a TIFF that lies on its side."""
    return path.open("rb") if isinstance(path, Path) else nullcontext(path)


def _check_size(image: Picture, most: int) -> None:
    width, height = image.size
    if width * height > most:
        raise UnreadableImage(f"{width}x{height} pixels, more than the limit of {most // 10**6} megapixels")
    if min(width, height) < MIN_EDGE:
        raise UnreadableImage(f"{width}x{height} pixels, smaller than {MIN_EDGE}x{MIN_EDGE}")


@contextmanager
def _reasons() -> Iterator[None]:
    """Whatever a damaged or hostile file makes the decoder raise becomes an UnreadableImage."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of odd metadata; the pixels are what counts
            yield
    except UnreadableImage:
        raise
    except UnidentifiedImageError:
        known = " or ".join((", ".join(FORMATS[:-1]), FORMATS[-1]))
        raise UnreadableImage(f"not a readable image (expected {known})") from None
    except Image.DecompressionBombError:
        raise UnreadableImage(f"more than the limit of {MAX_PIXELS // 10**6} megapixels") from None
    except Exception as error:
        reason = str(error).split("\n")[0] or type(error).__name__
        raise UnreadableImage(f"not a readable image ({reason})") from None


def _pixels(image: Picture, orientation: object) -> NDArray[np.uint8]:
    """Converted strip by strip: in memory are Pillow's pixels and those of the result."""
    width, height = image.im.size
    rows = max(1, STRIP // width)
    strips = [slice(top, min(top + rows, height)) for top in range(0, height, rows)]

    def strip(lines: slice) -> Picture:
        return image.crop((0, lines.start, width, lines.stop))

    deep = image.mode.startswith("I") or image.mode == "F"
    grey = deep or (image.mode in ("1", "L") and not image.has_transparency_data)
    if image.mode.startswith("I;16"):  # scaled by their full range; wider and real numbers by their own
        top = 65535.0
    elif deep:
        top = max(1.0, *(float(_real(strip(lines)).max()) for lines in strips))
    shape = (height, width, 1 if grey else 3)
    result = np.empty((width, height, shape[2]) if orientation in SIDEWAYS else shape, np.uint8)
    stored = _as_stored(result, orientation)
    for lines in strips:
        part = strip(lines)
        if deep:
            pixels = np.clip(np.rint(_real(part) / top * 255), 0, 255)
        else:
            pixels = np.asarray(part.convert("L") if grey else _on_white(part).convert("RGB"))
        stored[lines] = pixels.reshape(-1, *shape[1:])
    return result


def _real(image: Picture) -> NDArray[np.float64]:
    """Pixels of more than 8 bits."""
    return np.nan_to_num(np.asarray(image).astype(np.float64))


def _on_white(image: Picture) -> Picture:
    from PIL import Image

    if not image.has_transparency_data:
        return image
    if image.mode == "La":
        image = image.convert("LA")
    image = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)


def _as_stored(pixels: NDArray[np.uint8], orientation: object) -> NDArray[np.uint8]:
    """A view of (H, W, C) for rows in the order in which a file of that EXIF orientation has them."""
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels.swapaxes(0, 1) if orientation in SIDEWAYS else pixels


def has_colour(image: NDArray[np.uint8]) -> bool:
    return image.shape[2] == 3 and bool(np.ptp(image.astype(np.int16), axis=2).max() > 8)


def to_channels(image: NDArray[np.uint8], channels: int) -> NDArray[np.uint8]:
    """(H, W, 1 or 3) -> (H, W, channels)."""
    if image.shape[2] == channels:
        return image
    if channels == 3:
        return np.repeat(image, 3, axis=2)
    grey = image.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
    return np.rint(grey).astype(np.uint8)[:, :, None]
