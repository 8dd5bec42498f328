"""Reading one image file, whatever a camera, a scanner or an attacker wrote into it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from cairns.errors import UnreadableImage
from cairns.io import no_file

EXTENSIONS = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP")  # no others: some start programs, as EPS does
MAX_PIXELS = 128_000_000  # a decoded image of this size takes 384 MB; larger ones are refused unread
MIN_EDGE = 8


def read_image(path: Path | BinaryIO, upright: bool = True, most: int = MAX_PIXELS) -> NDArray[np.uint8]:
    """The image as it is meant to be seen: (H, W, 3), or (H, W, 1) if it is grey.

    EXIF rotation is applied, 16 bits become 8, CMYK becomes RGB, transparency becomes white. Datasets whose
    annotations count pixels as they are stored leave the rotation out (`upright=False`). More than `most`
    pixels are refused.
    Raises UnreadableImage with the reason; the size is checked before anything is decoded.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    if isinstance(path, Path) and (reason := no_file(path)):
        raise UnreadableImage(f"not a readable image ({reason})")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of odd metadata; the pixels are what counts
            with Image.open(path, formats=FORMATS) as opened:
                width, height = opened.size
                if width * height > most:
                    raise UnreadableImage(
                        f"{width}x{height} pixels, more than the limit of {most // 10**6} megapixels"
                    )
                if min(width, height) < MIN_EDGE:
                    raise UnreadableImage(f"{width}x{height} pixels, smaller than {MIN_EDGE}x{MIN_EDGE}")
                image: Image.Image = ImageOps.exif_transpose(opened) if upright else opened
                if image.mode.startswith("I") or image.mode == "F":
                    return _from_deep(np.asarray(image), sixteen=image.mode.startswith("I;16"))
                if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
                    image = image.convert("RGBA")
                    image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
                if image.mode in ("1", "L", "LA"):
                    return np.asarray(image.convert("L"))[:, :, None]
                return np.asarray(image.convert("RGB"))
    except UnreadableImage:
        raise
    except UnidentifiedImageError:
        known = " or ".join((", ".join(FORMATS[:-1]), FORMATS[-1]))
        raise UnreadableImage(f"not a readable image (expected {known})") from None
    except Image.DecompressionBombError:
        raise UnreadableImage(f"more than the limit of {most // 10**6} megapixels") from None
    except Exception as error:  # whatever a damaged or hostile file makes the decoder raise
        reason = str(error).split("\n")[0] or type(error).__name__
        raise UnreadableImage(f"not a readable image ({reason})") from None


def _from_deep(values: NDArray[np.generic], sixteen: bool) -> NDArray[np.uint8]:
    """More than 8 bits a channel: 16 bits by their full range, wider or real numbers by their own."""
    deep = np.nan_to_num(values.astype(np.float64))
    top = 65535.0 if sixteen else max(float(deep.max()), 1.0)
    return np.clip(np.rint(deep / top * 255), 0, 255).astype(np.uint8)[:, :, None]


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
