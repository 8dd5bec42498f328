"""Images and boxes that Python hands in, as pixels and places; or one sentence that says what is wrong."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError, UnreadableImage
from trigpoint.core.geometry import Placement
from trigpoint.core.io import printable
from trigpoint.core.sources.images import from_pillow, read_image

if TYPE_CHECKING:
    from PIL.Image import Image

Picture: TypeAlias = Union[NDArray[np.uint8], str, Path, "Image"]
Box: TypeAlias = Placement | tuple[float, float, float, float]
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/|data:", re.IGNORECASE)  # one letter is a drive of Windows


def pixels_of(image: Picture, name: str = "The image") -> NDArray[np.uint8]:
    """(H, W, 1 or 3) of a file, a Pillow image or an array of bytes (H, W), (H, W, 1) or (H, W, 3).

    `name` is what an error calls an image that has no path.
    """
    from PIL.Image import Image

    called = name
    try:
        if isinstance(image, Image):
            return from_pillow(image)
        if isinstance(image, str | Path):
            called = printable(str(image))
            if ADDRESS.match(str(image)) and not os.path.exists(image):
                raise TrigpointError(f"{called} is an address; download it first and give the file's path.")
            return read_image(Path(image))
    except UnreadableImage as error:
        raise UnreadableImage(f"{called}: {error}") from None
    return _array(image, name)


def _array(image: Any, name: str) -> NDArray[np.uint8]:
    try:
        array = np.asarray(image) if hasattr(image, "__array__") else None
    except Exception:  # what libraries raise for tensors on a device, or that keep gradients
        array = None
    if array is None:
        raise TrigpointError(
            f"{name} must be a file's path, an image of Pillow or an array of bytes; got {shown(image)}."
        )
    shape = array.shape
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3) or array.dtype != np.uint8 or 0 in shape:
        hint = ""
        if array.dtype.kind == "f":
            hint = " Values from 0 to 1 become bytes by (255 * image).astype('uint8')."
        elif shape[-1:] == (4,):
            hint = " PIL.Image.fromarray(image) may have transparency."
        raise TrigpointError(
            f"{name} must be an array of bytes of shape (H, W), (H, W, 1) or (H, W, 3); "
            f"got {array.dtype} of shape {shape}.{hint}"
        )
    return array


def place_of(box: Box | None, width: int, height: int, name: str = "box") -> Placement | None:
    """A box, or left, top, width and height, on an image of that size, which it may overlap in part."""
    if box is None:
        return None
    given: Any = (box.x, box.y, box.width, box.height) if isinstance(box, Placement) else box
    numbers = list(given) if isinstance(given, tuple | list | np.ndarray) else []
    if len(numbers) != 4 or not all(isinstance(one, Real) and not isinstance(one, bool) for one in numbers):
        raise TrigpointError(
            f"{name} must be a Placement, or left, top, width and height in pixels; got {shown(box)}."
        )
    x, y, wide, high = map(float, numbers)
    if not all(map(math.isfinite, (x, y, wide, high))) or min(wide, high) < 1:
        raise TrigpointError(
            f"{name} must have finite numbers and be at least one pixel wide and high; "
            f"got x={x:g}, y={y:g}, width={wide:g}, height={high:g}."
        )
    if x >= width or y >= height or x + wide <= 0 or y + high <= 0:
        raise UnreadableImage(
            f"{name} x={x:g}, y={y:g}, width={wide:g}, height={high:g} lies outside of the image of "
            f"{width}x{height} pixels"
        )
    return box if isinstance(box, Placement) else Placement(x, y, wide, high)


def check_images(images: Any) -> None:
    """Several images are an iterable of them; one image would be iterated by its letters or rows."""
    from PIL.Image import Image

    call = "detect_many takes a list of images"
    if isinstance(images, str | Path) and os.path.isdir(images):
        raise TrigpointError(
            f"{call}; got the folder {printable(str(images))}. Its files are listed by "
            f"sorted(Path({printable(str(images))!r}).glob('*.jpg')); `trigpoint detect` takes folders."
        )
    dimensions = np.shape(images) if isinstance(images, np.ndarray) else (0, 0, 0, 0)
    single = len(dimensions) < 3 or (len(dimensions) == 3 and dimensions[2] in (1, 3))
    if isinstance(images, str | Path | Image) or single:
        raise TrigpointError(f"{call}; got one image, {shown(images)}. For one there is detect.")
    if isinstance(images, bytes | Mapping) or not hasattr(images, "__iter__"):
        raise TrigpointError(f"{call}; got {shown(images)}.")


def check_boxes(boxes: Any, images: Any) -> None:
    if not isinstance(boxes, list | tuple | np.ndarray):
        raise TrigpointError(f"boxes must be a list with a box or None for each image; got {shown(boxes)}.")
    if hasattr(images, "__len__") and len(images) != len(boxes):
        raise TrigpointError(f"boxes must be as many as the images, {len(images)}; got {len(boxes)}.")


def check_whole(value: Any, name: str, least: int | None = None) -> None:
    """Refuse what is no whole number, or less than `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or (least is not None and value < least):
        bound = "" if least is None else f" of at least {least}"
        raise TrigpointError(f"{name} must be a whole number{bound}; got {shown(value)}.")


def shown(value: Any) -> str:
    """A value as an error shows it: its kind, and what it is where that is short."""
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    text = printable(repr(value))
    kind = type(value).__name__
    return f"{kind} {text}" if len(text) <= 60 and not text.startswith("<") else kind
