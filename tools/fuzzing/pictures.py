"""Images and videos: every format that is read, by the function that reads it and by the verbs."""

from __future__ import annotations

import io
import struct
from fractions import Fraction
from pathlib import Path
from random import Random

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fuzzing.made import model, photo
from fuzzing.mutate import Mutation, after, bent_png, one_of, scrambled
from fuzzing.target import Target, cli, files, only


def write_images(folder: Path) -> None:
    """One of each format and mode."""
    colour, grey = Image.fromarray(photo(0)), Image.fromarray(photo(1)).convert("L")
    clear = colour.convert("RGBA")
    clear.putalpha(grey.resize(clear.size))
    deep = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)
    real = Image.fromarray(np.asarray(grey).astype(np.float32) / 255, "F")
    exif = Image.Exif()
    exif[0x0112] = 6
    colour.save(folder / "colour.png")
    clear.save(folder / "clear.png")
    deep.save(folder / "deep.png")
    colour.quantize(16).save(folder / "palette.png", transparency=3)
    grey.convert("1").save(folder / "bits.png")
    colour.save(folder / "frames.png", save_all=True, append_images=[colour.rotate(90)])
    colour.save(folder / "turned.jpg", exif=exif)
    grey.save(folder / "grey.jpg", progressive=True)
    colour.convert("CMYK").save(folder / "inks.jpg")
    colour.save(folder / "colour.bmp")
    colour.quantize(16).save(folder / "palette.bmp")
    colour.save(folder / "frames.gif", save_all=True, append_images=[colour.rotate(90)], transparency=2)
    colour.save(folder / "plain.tif")
    colour.save(folder / "packed.tif", compression="tiff_lzw", exif=exif)
    colour.save(folder / "jpeg.tif", compression="jpeg")
    deep.save(folder / "deep.tif", compression="tiff_adobe_deflate")
    real.save(folder / "real.tif")
    clear.save(folder / "clear.tif", compression="packbits")
    colour.save(folder / "colour.webp", quality=50)
    clear.save(folder / "clear.webp", lossless=True)
    colour.save(folder / "colour.ppm")
    deep.save(folder / "deep.pgm")


def bent_tiff(random: Random, data: bytes) -> bytes:
    """A field of its directory changed: size, bits, compression, strips."""
    whole = bytearray(data)
    (at,) = struct.unpack("<I", data[4:8])
    if data[:2] != b"II" or at + 14 > len(data):
        return scrambled(random, data, 4)
    (count,) = struct.unpack("<H", data[at : at + 2])
    entry = at + 2 + 12 * random.randrange(max(1, count))
    field = random.choice(((0, 2), (2, 2), (4, 4), (8, 4), (8, 4), (8, 4)))
    numbers = (0, 1, 2, 3, 5, 7, 8, 16, 32, 64, 255, 6000, 11_000, 32_773, 65_535, 2**31 - 1, 2**32 - 1)
    value = random.choice(numbers) & (256 ** field[1] - 1)
    whole[entry + field[0] : entry + sum(field)] = value.to_bytes(field[1], "little")
    return bytes(whole)


BIG = (8, 60, 5000, 9000, 20_000, 65_500)


def large(random: Random, data: bytes) -> bytes:
    """A well-made picture of many pixels that takes few bytes, of any mode."""
    width, height = random.choice(BIG), random.choice(BIG)
    mode = random.choice(("RGB", "RGBA", "L", "LA", "P", "1", "I;16", "F", "CMYK"))
    if width * height > 60_000_000:
        width, height = (width, 8) if random.random() < 0.5 else (8, height)
    kinds = {"F": ("TIFF",), "CMYK": ("JPEG", "TIFF"), "1": ("PNG", "TIFF", "GIF"), "I;16": ("PNG", "TIFF")}
    quick = width * height < 2_000_000 and max(width, height) < 16_000
    plain = ("PNG", "PNG", "TIFF", "WEBP") if quick else ("PNG", "PNG", "TIFF")
    kind = random.choice(kinds.get(mode, plain))
    stream = io.BytesIO()
    options = {"compression": "tiff_adobe_deflate"} if kind == "TIFF" else {}
    picture = Image.new(mode, (width, height))
    picture.save(stream, kind, **options)
    return stream.getvalue()


PICTURES: dict[str, Mutation] = {
    "*.png": one_of(bent_png, bent_png, bent_png, after(8), scrambled),
    "*.tif": one_of(bent_tiff, bent_tiff, after(8), scrambled),
    "*.bmp": one_of(after(14), after(54), scrambled),
    "*.webp": one_of(after(12), after(20), scrambled),
    "*.*": one_of(after(3), after(16), after(100), scrambled),
}


def read(folder: Path, out: Path) -> None:
    from trigpoint.core.errors import TrigpointError
    from trigpoint.core.sources.images import has_colour, read_image

    (path,) = (path for path in folder.iterdir())
    pixels = read_image(path)
    has_colour(pixels)
    if pixels.ndim != 3 or pixels.dtype != np.uint8 or pixels.shape[2] not in (1, 3):
        raise AssertionError(f"{pixels.dtype} of {pixels.shape}")
    if max(pixels.shape) > 70_000:
        raise TrigpointError("large")


def write_few(folder: Path) -> None:
    for index, name in enumerate(("a.png", "b.jpg", "c.tif", "d.webp")):
        Image.fromarray(photo(index)).save(folder / name)


def verbs(folder: Path, out: Path) -> int:
    codes = [
        cli("data", "inspect", folder, "--sheet", out / "sheet.png", "--json", out / "found.json"),
        cli("detect", model(), folder, "--out", out / "found", "--overlay"),
    ]
    return max(codes)


def edited(folder: Path, out: Path) -> int:
    photos = sorted(folder.iterdir())
    return cli("morph", model(), photos[0], photos[-1], "--out", out / "strip.png", "--as", "blended")


# ---- videos


def write_video(path: Path, codec: str, frames: list[NDArray[np.uint8]], kind: str | None = None) -> None:
    height, width = frames[0].shape[:2]
    with av.open(str(path), "w", format=kind, options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream(codec, rate=10)
        stream.width, stream.height = width, height
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.codec_context.thread_count = 1
        stream.codec_context.time_base = Fraction(1, 10)
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


def write_videos(folder: Path) -> None:
    frames = [np.roll(photo(0), 3 * step, 1) for step in range(8)]
    for name, codec in (
        ("h264.mp4", "libx264"),
        ("mpeg4.mp4", "mpeg4"),
        ("motion.avi", "mjpeg"),
        ("mpeg4.avi", "mpeg4"),
        ("h264.mkv", "libx264"),
        ("vp8.webm", "libvpx"),
        ("mpeg2.mpg", "mpeg2video"),
        ("h264.ts", "libx264"),
        ("flash.flv", "flv"),
        ("mpeg4.mov", "mpeg4"),
        ("wm.wmv", "wmv2"),
        ("mpeg2.m2ts", "mpeg2video"),
    ):
        if name.endswith(".m2ts"):
            continue
        write_video(folder / name, codec, frames)


def watched(folder: Path, out: Path) -> int:
    (path,) = folder.iterdir()
    return cli("data", "inspect", path, "--sheet", out / "sheet.png", "--json", out / "found.json")


def followed(folder: Path, out: Path) -> int:
    (path,) = folder.iterdir()
    return cli(
        "detect", model(), path, "--out", out / "found", "--format", "csv,dlc,coco", "--overlay", "--smooth"
    )


VIDEOS: dict[str, Mutation] = {"*.*": one_of(after(12), after(64), after(64), scrambled)}
NO_VIDEO = r"it is not of the formats|no video in it|Invalid data"
TARGETS = {
    "images": Target(write_images, only(PICTURES), read, r"expected JPEG", share=24),
    "large-images": Target(write_few, only({"*.*": large}), read, r"expected JPEG", share=1),
    "image-verbs": Target(write_few, files(PICTURES), verbs, r"expected JPEG", share=3),
    "edit": Target(write_few, only(PICTURES), edited, r"expected JPEG", share=3),
    "videos": Target(write_videos, only(VIDEOS), watched, NO_VIDEO, share=8),
    "detect-videos": Target(write_videos, only(VIDEOS), followed, NO_VIDEO, share=3),
}
