"""The pictures that the golden values were recorded on: drawn here, by code alone, and kept in `material/`.

    python tests/golden/material.py

writes them again. What is committed counts: other versions of OpenCV may draw a pixel otherwise.

    squares/    24 drawn faces in colour, 32 pixels: what trainings begin from, as large as their models
    grey/       16 white digits on black, 28 pixels
    faces/      6 of the faces at the 64 pixels of the shipped models; mouths/ their mouths, grey
    photos/     two faces of unlike size, one face, a grey upright photo, a very wide one and a very small one
    square.mkv  32 frames of 32 pixels, a face that moves: lossless
    scene.mkv   40 frames of 96x64 pixels: the same on a ground that does not move
    labels.csv  eyes and mouth of the squares, with splits; labels.json those of two.png by COCO, with boxes
    mtfl/       the layout of the MTFL dataset around the faces, with attributes
    micro.json  a config of nets so small that a step takes milliseconds
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import av
import cv2
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Points = NDArray[np.float64]
FOLDER = Path(__file__).parent / "material"
GROUND = (110, 130, 150)
HAIR = (60, 40, 30)
FINER = 4  # pictures are drawn so many times larger
NAMES = ("left_eye", "right_eye", "mouth")
MICRO = {
    "preset": "micro",
    "model": {
        "landmarks": 4,
        "channels": 3,
        "image_size": 32,
        "padded_size": 40,
        "detector": "D8 | 8/8 S1 P 16 | out1",
        "features": "8 P | 8/8 S1 P 16 | out1",
        "decoder": "| 16/8 S1 P 16 | U 8 out",
        "feature_channels": 8,
        "descriptor_size": 4,
        "decoder_levels": 2,
    },
    "train": {
        "batch_size": 4,
        "recalibration_images": 16,
        "tint": 0.25,
        "relight": True,
        "optimiser": "muon",
    },
}


@dataclass(frozen=True)
class Face:
    """Where and how a face is drawn, in edges of its picture."""

    x: float = 0.5
    y: float = 0.5
    size: float = 1.0
    angle: float = 0.0  # degrees
    smile: float = 0.3
    turn: float = 0.0
    skin: tuple[int, int, int] = (224, 172, 140)

    def points(self) -> Points:
        """Both eyes and the mouth (3, 2)."""
        own = np.array([(0.375 + self.turn * 0.05, 0.475), (0.625 + self.turn * 0.05, 0.475), (0.5, 0.74)])
        cos, sin = np.cos(np.radians(self.angle)), np.sin(np.radians(self.angle))
        return (own - 0.5) @ np.array([(cos, sin), (-sin, cos)]) * self.size + (self.x, self.y)


def draw(picture: Pixels, edge: int, face: Face) -> None:
    """A face onto a picture, in edges of `edge` pixels; points are the centres of what is drawn."""
    scale = FINER * edge
    large = np.ascontiguousarray(np.repeat(np.repeat(picture, FINER, 0), FINER, 1))
    cos, sin = np.cos(np.radians(face.angle)), np.sin(np.radians(face.angle))
    shade = [tuple(int(min(255, part * by)) for part in face.skin) for by in (0.72, 1.08)]

    def place(x: float, y: float) -> tuple[int, int]:
        dx, dy = (x - 0.5) * face.size, (y - 0.5) * face.size
        return (
            round((face.x + dx * cos - dy * sin) * scale),
            round((face.y + dx * sin + dy * cos) * scale),
        )

    def arc(at: tuple[float, float], axes: tuple[float, float], colour: object, **how: float) -> None:
        lengths = tuple(max(1, round(axis * face.size * scale)) for axis in axes)
        wide = round(how["wide"] * face.size * scale) if "wide" in how else -1
        first, last = how.get("first", 0), how.get("last", 360)
        cv2.ellipse(large, place(*at), lengths, face.angle, first, last, colour, wide, cv2.LINE_AA)

    arc((0.5, 0.46), (0.36, 0.42), HAIR)
    arc((0.5, 0.54), (0.29, 0.37), face.skin)
    for side in (-1, 1):
        x = 0.5 + face.turn * 0.05 + side * 0.125
        arc((x, 0.47), (0.075, 0.05), shade[0])
        arc((x, 0.475), (0.058, 0.028), (245, 245, 245))
        arc((x + face.turn * 0.02, 0.475), (0.026, 0.026), (40, 30, 25))
        arc((x, 0.425), (0.08, 0.03), HAIR, first=200, last=340, wide=0.02)
    middle = 0.5 + face.turn * 0.08
    arc((middle, 0.56), (0.035, 0.09), shade[1], first=200, last=340, wide=0.02)
    arc((middle, 0.625), (0.05, 0.022), shade[0])
    arc((0.5, 0.73), (0.1, 0.02 + 0.05 * face.smile), (150, 60, 60), first=0, last=180)
    arc((0.5, 0.735), (0.095, 0.014), (170, 70, 70))
    large = cv2.GaussianBlur(large, (0, 0), 0.008 * face.size * scale)
    picture[:] = cv2.resize(large, picture.shape[1::-1], interpolation=cv2.INTER_AREA)


def ground(width: int, height: int) -> Pixels:
    """A ground whose colour changes smoothly."""
    along, down = np.meshgrid(np.linspace(-20, 20, width), np.linspace(-15, 15, height))
    shift = np.stack((along, down, -along), -1)
    return np.clip(np.array(GROUND) + shift, 0, 255).astype(np.uint8)


def some_faces(count: int) -> list[Face]:
    random = np.random.default_rng(25)
    return [
        Face(
            x=0.5 + random.uniform(-0.08, 0.08),
            y=0.48 + random.uniform(-0.08, 0.08),
            size=random.uniform(0.8, 1.1),
            angle=random.uniform(-15, 15),
            smile=random.uniform(0, 1),
            turn=random.uniform(-0.6, 0.6),
            skin=tuple((np.array([224, 172, 140]) * random.uniform(0.7, 1.05)).astype(int).tolist()),
        )
        for _ in range(count)
    ]


def square(face: Face, edge: int) -> Pixels:
    picture = ground(edge, edge)
    draw(picture, edge, face)
    return picture


def digit(number: int, random: np.random.Generator) -> Pixels:
    large = np.zeros((112, 112), np.uint8)
    cv2.putText(large, str(number % 10), (26, 88), cv2.FONT_HERSHEY_SIMPLEX, 3.0, 255, 11, cv2.LINE_AA)
    moved = cv2.getRotationMatrix2D((56, 56), random.uniform(-15, 15), random.uniform(0.85, 1.05))
    moved[:, 2] += random.uniform(-6, 6, 2)
    return cv2.resize(cv2.warpAffine(large, moved, (112, 112)), (28, 28), interpolation=cv2.INTER_AREA)


def save(name: str, picture: Pixels) -> None:
    file = FOLDER / name
    file.parent.mkdir(parents=True, exist_ok=True)
    stored = picture if picture.ndim == 2 else cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
    cv2.imwrite(str(file), stored, [cv2.IMWRITE_PNG_COMPRESSION, 9])


def save_video(name: str, frames: list[Pixels]) -> None:
    with av.open(str(FOLDER / name), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "bgr0"
        for frame in frames:
            shown = av.VideoFrame.from_ndarray(frame, format="rgb24").reformat(format="bgr0")
            container.mux(stream.encode(shown))
        container.mux(stream.encode())


def photos() -> None:
    two = ground(300, 180)
    left, right = Face(x=0.28, y=0.58, size=0.42, smile=0.8), Face(x=0.98, y=0.48, size=0.8)
    draw(two, 180, left)
    draw(two, 180, right)
    save("photos/two.png", two)
    one = ground(130, 170)
    draw(one, 170, Face(x=0.4, y=0.5, size=0.65, turn=0.3))
    save("photos/one.png", one)
    upright = ground(70, 110)
    draw(upright, 70, Face(y=0.8, size=0.9))
    save("photos/upright.png", cv2.cvtColor(upright, cv2.COLOR_RGB2GRAY))
    wide = ground(240, 50)
    draw(wide, 50, Face(x=2.1))
    save("photos/wide.png", wide)
    save("photos/small.png", square(Face(), 20)[:, :18])
    people = [(face.points() * 180, face) for face in (left, right)]
    coco = {
        "images": [{"id": 1, "file_name": "photos/two.png", "width": 300, "height": 180}],
        "categories": [{"id": 1, "name": "face", "keypoints": list(NAMES), "skeleton": []}],
        "annotations": [
            {
                "id": number,
                "image_id": 1,
                "category_id": 1,
                "bbox": [round(180 * (part - 0.4 * face.size)) for part in (face.x, face.y)]
                + [round(180 * 0.8 * face.size)] * 2,
                "keypoints": [value for x, y in points.round(2).tolist() for value in (x, y, 2)],
                "num_keypoints": 3,
            }
            for number, (points, face) in enumerate(people, 1)
        ],
    }
    (FOLDER / "labels.json").write_text(json.dumps(coco, indent=1) + "\n")


def squares() -> None:
    lines = ["image,landmark,x,y,split"]
    for number, face in enumerate(some_faces(24)):
        name = f"squares/{number:02d}.png"
        save(name, square(face, 32))
        split = "test" if number % 3 == 2 else "train"
        for landmark, (x, y) in zip(NAMES, (face.points() * 32).round(2).tolist(), strict=True):
            lines.append(f"{name},{landmark},{x},{y},{split}")
    (FOLDER / "labels.csv").write_text("\n".join(lines) + "\n")
    for number, face in enumerate(some_faces(6)):
        picture = square(face, 64)
        save(f"faces/{number}.png", picture)
        mouth = cv2.resize(picture[32:58, 19:45], (64, 64), interpolation=cv2.INTER_CUBIC)
        save(f"mouths/{number}.png", cv2.cvtColor(mouth, cv2.COLOR_RGB2GRAY))
    random = np.random.default_rng(7)
    for number in range(16):
        save(f"grey/{number:02d}.png", digit(number, random))


def videos() -> None:
    still = ground(96, 64)
    scene, close = [], []
    for time in range(40):
        frame = still.copy()
        wave = np.sin(time / 6)
        draw(frame, 64, Face(x=0.3 + 0.022 * time, y=0.5 + 0.12 * wave, size=0.6, angle=10 * wave))
        scene.append(frame)
        if time < 32:
            turned = Face(x=0.38 + 0.008 * time, y=0.48 + 0.06 * wave, size=0.8, angle=-8 * wave)
            close.append(square(turned, 32))
    save_video("scene.mkv", scene)
    save_video("square.mkv", close)


def mtfl() -> None:
    """Two lists over pictures of 60 pixels; of each attribute there are two classes."""
    for listing, faces in (("training", some_faces(18)[:12]), ("testing", some_faces(18)[12:])):
        lines = []
        for number, face in enumerate(faces):
            name = f"net_7876/{listing}-{number}.png"
            save(f"mtfl/{name}", square(face, 60))
            eyes = face.points() * 60
            corners = [eyes[2] - (6, 0), eyes[2] + (6, 0)]
            five = np.array([*eyes[:2], (eyes[0] + eyes[2]) / 2, *corners]).round(1)
            half, quarter = 1 + number % 2, 1 + number // 2 % 2
            classes = [half, quarter, half, quarter]
            lines.append(" ".join(map(str, [name.replace("/", "\\"), *five.T.ravel().tolist(), *classes])))
        (FOLDER / "mtfl" / f"{listing}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    photos()
    squares()
    videos()
    mtfl()
    (FOLDER / "micro.json").write_text(json.dumps(MICRO, indent=1) + "\n")
