"""Reading one image file, whatever a camera, a scanner or an attacker wrote into it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import UnreadableImage
from trigpoint.core.io import no_file

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

EXTENSIONS = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP")  # no others: some start programs, as EPS does
MAX_PIXELS = 64_000_000  # larger images are refused unread
MEMORY = 600_000_000  # bytes that reading an image may take
WHOLE_STRIPS = ("TIFF", "PPM", "WEBP")  # whose decoders may hold all of an image beside Pillow's pixels
LARGE_WEBP = 24_000_000  # pixels
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
    with _reasons(most), _stream(path) as stream:
        with Image.open(stream, formats=FORMATS) as opened:
            _check_size(opened, most)
            orientation = None
            if opened.format == "TIFF":  # Pillow would turn it with the decoder's buffers still in memory
                exif = opened.getexif()
                orientation = exif.get(ORIENTATION)
                exif[ORIENTATION] = 1
            if opened.format != "WEBP" or opened.width * opened.height <= LARGE_WEBP:
                opened.load()
                orientation = orientation or opened.getexif().get(ORIENTATION)
                return _pixels(opened, orientation if upright else None)
            orientation = opened.getexif().get(ORIENTATION)
        del opened  # which holds the file
        stream.seek(0)
        return _of_webp(stream, orientation if upright else None)


def from_pillow(image: Picture) -> NDArray[np.uint8]:
    """What `read_image` gives for the image's file, of an image that Pillow opened or made."""
    with _reasons():
        _check_size(image)
        image.load()
        return _pixels(image, image.getexif().get(ORIENTATION))


def _stream(path: Path | BinaryIO) -> AbstractContextManager[BinaryIO]:
    """Of a path Pillow would map some files into memory, and then misread a TIFF that lies on its side."""
    return path.open("rb") if isinstance(path, Path) else nullcontext(path)


def _check_size(image: Picture, most: int = MAX_PIXELS) -> None:
    width, height = image.size
    cost = 7  # bytes a pixel: four are Pillow's, three the result's
    if image.format in WHOLE_STRIPS:
        cost = 12
    elif "progressive" in image.info:  # libjpeg holds all coefficients, of two bytes
        cost = max(cost, 4 + 2 * len(image.getbands()))
    most = min(most, MEMORY // cost)
    if width * height > most:
        raise UnreadableImage(f"{width}x{height} pixels, more than the limit of {most // 10**6} megapixels")
    if min(width, height) < MIN_EDGE:
        raise UnreadableImage(f"{width}x{height} pixels, smaller than {MIN_EDGE}x{MIN_EDGE}")


@contextmanager
def _reasons(most: int = MAX_PIXELS) -> Iterator[None]:
    """Whatever a damaged or hostile file makes the decoder raise becomes an UnreadableImage."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of odd metadata; the pixels are what counts
            # A GIF takes memory for its first frame as it is opened, before its size can be looked at here.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            yield
    except UnreadableImage:
        raise
    except UnidentifiedImageError:
        known = " or ".join((", ".join(FORMATS[:-1]), FORMATS[-1]))
        raise UnreadableImage(f"not a readable image (expected {known})") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise UnreadableImage(f"more than the limit of {most // 10**6} megapixels") from None
    except Exception as error:
        reason = str(error).split("\n")[0] or type(error).__name__
        raise UnreadableImage(f"not a readable image ({reason})") from None


def _of_webp(stream: BinaryIO, orientation: object) -> NDArray[np.uint8]:
    """By OpenCV, which takes half the memory that Pillow does, for the same pixels."""
    import cv2
    from PIL import Image

    found = cv2.imdecode(np.frombuffer(stream.read(), np.uint8), cv2.IMREAD_UNCHANGED)
    if found is None or found.ndim != 3:
        raise UnreadableImage("not a readable image (OpenCV cannot decode it)")
    turned = cv2.COLOR_BGRA2RGBA if found.shape[2] == 4 else cv2.COLOR_BGR2RGB
    return _converted(
        lambda lines: Image.fromarray(cv2.cvtColor(found[lines], turned)),
        found.shape[1],
        found.shape[0],
        orientation,
    )


def _pixels(image: Picture, orientation: object) -> NDArray[np.uint8]:
    width, height = image.im.size
    return _converted(
        lambda lines: image.crop((0, lines.start, width, lines.stop)), width, height, orientation
    )


def _converted(
    strip: Callable[[slice], Picture], width: int, height: int, orientation: object
) -> NDArray[np.uint8]:
    """Converted strip by strip: in memory are the decoded pixels and those of the result."""
    rows = max(1, STRIP // width)
    strips = [slice(top, min(top + rows, height)) for top in range(0, height, rows)]
    image = strip(strips[0])
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
    return image.shape[2] == 3 and bool((image.max(axis=2) - image.min(axis=2)).max() > 8)


def to_channels(image: NDArray[np.uint8], channels: int) -> NDArray[np.uint8]:
    """(H, W, 1 or 3) -> (H, W, channels)."""
    if image.shape[2] == channels:
        return image
    if channels == 3:
        return np.repeat(image, 3, axis=2)
    grey = np.empty((*image.shape[:2], 1), np.uint8)
    rows = max(1, STRIP // image.shape[1])
    for top in range(0, len(image), rows):
        part = image[top : top + rows].astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
        grey[top : top + rows, :, 0] = np.rint(part)
    return grey
