"""Drawings of a clothed, articulated figure before a fixed background, with exact joints and exact motion.

    figures, figures:200             so many images of a split (2,000 and 500 unless told), from both sides
    figures-front, figures-back      the same figures, all seen from one side

Nothing is stored: an image is a function of its split and number. They stand in for Human3.6M where an
experiment is tried out. A figure has ten rigid parts, each drawn in a frame of its own, so that the motion
of every pixel of a video is known. Points are complex numbers x + iy here: a frame z -> turn * z + origin
rotates, scales and moves.
"""

from __future__ import annotations

import colorsys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from trigpoint.core.errors import TrigpointError
from trigpoint.core.sources.base import Annotations, Attributes, Source, Split

Real = NDArray[np.float64]
Complex = NDArray[np.complex128]
SIZE = 96
COUNTS = {"train": 2000, "labels": 2000, "test": 500}
PAIRS = ("shoulder", "elbow", "wrist", "hip", "knee", "ankle")
JOINTS = ("head", "neck", *(f"{side} {joint}" for joint in PAIRS for side in ("left", "right")))
SWAPS = tuple((first, first + 1) for first in range(2, len(JOINTS), 2))
ATTRIBUTES = ("view", "skirt", "long sleeves", "stripes", "long hair")  # view: 0 front, 1 back; else 1 is yes
STRIDE = 32  # frames of a video from one step of the left foot to the next

# The rigid parts. Of a pair the left one comes first.
TORSO, HEAD, THIGH, SHIN, ARM, FOREARM = 0, 1, 2, 4, 6, 8
PARTS = 10


@dataclass(frozen=True)
class Look:
    """What stays when the figure moves. Lengths are in image edges, at scale 1."""

    back: bool
    skirt: bool
    sleeves: bool
    stripes: bool
    long_hair: bool
    colours: Real  # (5, 3) skin, hair, shirt, skirt or trousers, shoes
    torso: float
    shoulder: float  # half the breadth, as of the hip
    hip: float
    arm: float  # the upper arm; the forearm is a little shorter
    leg: float  # the thigh, and the shin


@dataclass(frozen=True)
class Pose:
    """Where the figure stands, and how. Angles in radians: outwards from hanging down, (left, right)."""

    x: float
    floor: float  # where the lower ankle is
    scale: float
    lean: float
    nod: float
    arms: Real
    forearms: Real
    thighs: Real
    shins: Real


@dataclass(frozen=True)
class Drawing:
    image: NDArray[np.uint8]  # (H, W, 3)
    parts: NDArray[np.int64]  # (H, W) the part seen at each pixel's centre; -1 is the background


@dataclass(frozen=True)
class Frame:
    """One frame of a video."""

    image: NDArray[np.uint8]  # (H, W, 3)
    joints: Real  # (J, 2) pixels
    flow: NDArray[np.float32] | None  # (H, W, 2) how far each pixel moves to the next frame; None in the last


class Figures(Source):
    def __init__(self, count: str = "", split: Split = "train", variant: str = "") -> None:
        if count and not (count.isascii() and count.isdecimal() and int(count)):
            raise TrigpointError(f"figures takes a number of images, such as figures:200; got {count!r}.")
        self.count = int(count) if count else COUNTS[split]
        self.split = "test" if split == "test" else "train"
        self.variant = variant
        name = f"figures-{variant}" if variant else "figures"
        self.description = f"{name}:{count}" if count else name
        self.words: tuple[str, ...] = (self.description,)

    def __len__(self) -> int:
        return self.count

    def name(self, index: int) -> str:
        return f"{self.split}-{index:05d}"

    def figure(self, index: int) -> tuple[Look, Pose]:
        if not 0 <= index < self.count:
            raise IndexError(index)
        random = np.random.default_rng([int(self.split == "test"), index])
        look, pose = random_look(random), random_pose(random)
        return (replace(look, back=self.variant == "back") if self.variant else look), pose

    def image(self, index: int) -> NDArray[np.uint8]:
        look, pose = self.figure(index)
        return draw(look, place(look, pose, SIZE)[0], SIZE).image

    @cached_property
    def annotations(self) -> Annotations | None:
        points = np.stack([place(*self.figure(index), SIZE)[1] for index in range(self.count)])
        return Annotations(JOINTS, points, None, "image edge", SWAPS)

    @cached_property
    def attributes(self) -> Attributes | None:
        looks = [self.figure(index)[0] for index in range(self.count)]
        values = [(look.back, look.skirt, look.sleeves, look.stripes, look.long_hair) for look in looks]
        return Attributes(ATTRIBUTES, np.array(values, np.int64))


def video(frames: int, seed: int = 0, size: int = SIZE) -> Iterator[Frame]:
    """A figure that walks on the spot and to and fro, with the exact motion of every pixel."""
    random = np.random.default_rng([2, seed])
    look, start, phase = random_look(random), random_pose(random), random.uniform(0, 2 * np.pi)
    now, joints = place(look, _walking(start, phase), size)
    for index in range(1, frames + 1):
        drawing = draw(look, now, size)
        then, moved = place(look, _walking(start, phase + index * 2 * np.pi / STRIDE), size)
        yield Frame(drawing.image, joints, motion(drawing.parts, now, then) if index < frames else None)
        now, joints = then, moved


def motion(parts: NDArray[np.int64], now: Complex, then: Complex) -> NDArray[np.float32]:
    """How far each pixel's centre moves (H, W, 2): out of its part's frame now, back in through that then."""
    here = pixels(len(parts))
    (turn, origin), (new_turn, new_origin) = now[parts].T, then[parts].T  # (W, H) each
    there = new_turn.T * (here - origin.T) / turn.T + new_origin.T
    moved = np.where(parts >= 0, there - here, 0)
    return np.stack((moved.real, moved.imag), -1).astype(np.float32)


def pixels(size: int) -> Complex:
    """The centres of a square image's pixels."""
    return np.add.outer(1j * np.arange(size), np.arange(size)) + (0.5 + 0.5j)


def random_look(random: np.random.Generator) -> Look:
    back, skirt, sleeves, stripes, long_hair = (random.random(5) < (0.5, 0.35, 0.5, 0.4, 0.4)).tolist()
    light, dark = np.array((245, 208, 178)), np.array((122, 78, 52))
    hairs = ((42, 32, 28), (92, 58, 36), (196, 152, 84), (150, 74, 40), (150, 150, 152))
    shirt = colorsys.hsv_to_rgb(random.random(), random.uniform(0.5, 0.85), random.uniform(0.55, 0.95))
    below = colorsys.hsv_to_rgb(random.random(), random.uniform(0.25, 0.6), random.uniform(0.25, 0.6))
    skin = light + random.random() * (dark - light)
    hair = np.array(hairs[random.integers(len(hairs))])
    shoes = random.uniform(25, 110) * random.uniform(0.7, 1, 3)
    colours = np.stack((skin, hair, np.multiply(shirt, 255), np.multiply(below, 255), shoes))
    lengths = random.uniform(0.93, 1.07, 5) * (0.235, 0.082, 0.045, 0.135, 0.185)
    return Look(back, skirt, sleeves, stripes, long_hair, colours, *lengths.tolist())


def random_pose(random: np.random.Generator) -> Pose:
    raised = random.random(2) < 0.3
    arms = np.where(raised, random.uniform(0.9, 2.2, 2), random.uniform(0.05, 0.9, 2))
    bend = random.uniform(-1.3, 0.6, 2) * (arms > 0.35) + random.uniform(-0.3, 0.3, 2)
    thighs = random.uniform(-0.05, 0.38, 2)
    return Pose(
        x=random.uniform(0.45, 0.55),
        floor=random.uniform(0.905, 0.935),
        scale=random.uniform(0.96, 1.08),
        lean=random.normal(0, 0.07),
        nod=random.uniform(-0.22, 0.22),
        arms=arms,
        forearms=np.minimum(arms + bend, 2.4),  # hands stay inside the image
        thighs=thighs,
        shins=thighs - random.uniform(0, 0.45, 2),
    )


def _walking(start: Pose, phase: float) -> Pose:
    """A lifted leg bends, the arm of its side swings in, and the body sways over the other leg."""
    swing = np.sin(phase + np.array((0, np.pi)))  # left, right
    lifted = ((1 + swing) / 2) ** 2
    sway = np.sin(phase)
    return replace(
        start,
        x=start.x - 0.02 * sway + 0.05 * np.sin(phase / 4),
        lean=0.05 * sway,
        nod=start.nod / 2 - 0.06 * sway,
        arms=0.55 - 0.35 * swing,
        forearms=0.2 - 0.05 * swing,
        thighs=0.06 + 0.42 * lifted,
        shins=0.02 - 0.32 * lifted,
    )


def place(look: Look, pose: Pose, size: int) -> tuple[Complex, Real]:
    """Each part's frame (10, 2), as turn and origin in pixels, and the joints (14, 2) in pixels.

    A limb hangs from its frame's origin along y; the torso's frame lies between the hips, the head's at the
    neck. Seen from the front the figure's left is at the right of the image; seen from behind it is mirrored.
    """
    outwards = np.array((-1, 1) if look.back else (1, -1))  # left, right
    spine = np.exp(1j * outwards[0] * pose.lean)
    face = spine * np.exp(1j * outwards[0] * pose.nod)
    thigh, shin, arm, forearm = np.exp(
        -1j * outwards * (pose.thighs, pose.shins, pose.arms, pose.forearms)
    )  # (2,) each
    neck = spine * -1j * look.torso
    shoulders = spine * (outwards * look.shoulder - 1j * (look.torso - 0.022))
    hips = spine * outwards * look.hip
    elbows = shoulders + arm * 1j * look.arm
    wrists = elbows + forearm * 1j * _forearm(look)
    knees = hips + thigh * 1j * look.leg
    ankles = knees + shin * 1j * look.leg
    joints = np.concatenate(([neck + face * -0.085j, neck], shoulders, elbows, wrists, hips, knees, ankles))
    turns = np.concatenate(([spine, face], thigh, shin, arm, forearm))
    origins = np.concatenate(([0, neck], hips, knees, shoulders, elbows))
    pelvis = pose.x + 1j * (pose.floor - pose.scale * ankles.imag.max())
    frames = np.stack((pose.scale * turns, pose.scale * origins + pelvis), 1) * size
    joints = (pose.scale * joints + pelvis) * size
    return frames, np.stack((joints.real, joints.imag), 1)


def _forearm(look: Look) -> float:
    return 0.95 * look.arm


@dataclass(frozen=True)
class Shape:
    """One colour in a part's frame: the hull of two discs, or a convex polygon with soft corners."""

    colour: Real
    points: tuple[complex, ...]  # two centres; or corners, clockwise as seen
    radii: tuple[float, float] = (0, 0)
    stripes: bool = False

    def outside(self, z: Complex) -> Real:
        """About how far points lie outside; negative inside."""
        if any(self.radii):
            start, step = self.points[0], self.points[1] - self.points[0]
            along = np.clip(((z - start) * step.conjugate()).real / max(abs(step) ** 2, 1e-12), 0, 1)
            radius = self.radii[0] + along * (self.radii[1] - self.radii[0])
            return np.asarray(np.abs(z - start - along * step) - radius)
        soft, total = 0.008, np.zeros(z.shape)
        for start, end in zip(self.points, self.points[1:] + self.points[:1], strict=True):
            normal = (end - start) * -1j / abs(end - start)
            total += np.exp(((z - start) * normal.conjugate()).real / soft)
        return np.asarray(soft * np.log(total))


def draw(look: Look, frames: Complex, size: int) -> Drawing:
    canvas = background(size).copy()
    parts = np.full((size, size), -1)
    grid = pixels(size)
    for part, shape in _shapes(look):
        turn, origin = frames[part]
        points = turn * np.array(shape.points) + origin
        reach = abs(turn) * max(shape.radii) + 1
        x, y = (
            slice(max(int(along.min() - reach), 0), max(int(along.max() + reach) + 1, 0))
            for along in (points.real, points.imag)
        )
        z = (grid[y, x] - origin) / turn
        outside = shape.outside(z)
        light = 0.72 + 0.28 * np.clip(-outside / 0.022, 0, 1)  # darker towards the outline: it looks round
        if shape.stripes:
            light *= 1 - 0.3 / (1 + np.exp(-20 * np.sin(z.imag * 2 * np.pi / 0.055)))
        cover = np.clip(0.5 - outside * abs(turn), 0, 1)  # of a pixel at the outline, a share
        canvas[y, x] += cover[:, :, None] * (light[:, :, None] * shape.colour - canvas[y, x])
        parts[y, x][outside <= 0] = part
    return Drawing(np.rint(canvas).astype(np.uint8), parts)


@lru_cache(maxsize=4)
def background(size: int) -> Real:
    """(size, size, 3): a wall with a soft pattern and a floor, the same in all images."""
    where = pixels(size) / size
    x, y = where.real, where.imag
    light = 1 - 0.22 * y + 0.025 * np.sin(9 * x + 2 * np.sin(5 * y)) + 0.02 * np.sin(23 * y - 7 * x)
    floor = 1 / (1 + np.exp(120 * (0.86 - y)))
    colours = np.stack((1 - floor, floor), -1) @ ((205, 214, 222), (186, 170, 150))
    return np.clip(light[:, :, None] * colours, 0, 255)


def _shapes(look: Look) -> Iterator[tuple[int, Shape]]:
    """What is drawn, from far to near: the part that carries it, and the shape in that part's frame."""
    skin, hair, shirt, below, shoes = look.colours
    sleeve = shirt if look.sleeves else skin
    leg = skin if look.skirt else below
    mane = HEAD, Shape(hair, (-0.1j, 0.03j), (0.06, 0.052))
    if look.long_hair and not look.back:
        yield mane
    for side in (0, 1):
        yield SHIN + side, Shape(leg, (0, 1j * look.leg), (0.034, 0.025))
        yield SHIN + side, Shape(shoes, (1j * look.leg, 1j * look.leg + 0.012j), (0.027, 0.032))
        yield THIGH + side, Shape(leg, (0, 1j * look.leg), (0.045, 0.035))
    yield TORSO, Shape(skin, (-1j * look.torso, -1j * look.torso - 0.03j), (0.03, 0.026))
    waist, hem = look.hip + 0.028, (0.055 + 0.15j if look.skirt else 0.006 + 0.03j)
    yield TORSO, Shape(below, _mirrored(waist - 0.05j, waist + hem))
    top, breadth = -1j * look.torso, look.shoulder
    outline = _mirrored(breadth / 2 + top - 0.006j, breadth + 0.02 + top + 0.03j, waist - 0.01j)
    yield TORSO, Shape(shirt, outline, stripes=look.stripes)
    if look.back:
        yield HEAD, Shape(hair, (-0.104j, -0.072j), (0.06, 0.049))
        if look.long_hair:
            yield mane
    else:
        yield TORSO, Shape(skin, (top - 0.01j, top + 0.012j), (0.03, 0.014))
        yield HEAD, Shape(hair, (-0.108j, -0.09j), (0.06, 0.057))
        yield HEAD, Shape(skin, (-0.098j, -0.066j), (0.054, 0.044))
        yield HEAD, Shape(hair, (-0.032 - 0.138j, 0.032 - 0.138j), (0.02, 0.02))
        for x in (-0.022, 0.022):
            yield HEAD, Shape(np.array((30.0, 25, 25)), (x - 0.094j, x - 0.09j), (0.009, 0.009))
        yield HEAD, Shape(np.array((175.0, 65, 60)), (-0.013 - 0.052j, 0.013 - 0.052j), (0.006, 0.006))
    for side in (0, 1):
        wrist = 1j * _forearm(look)
        yield FOREARM + side, Shape(skin, (wrist, wrist + 0.016j), (0.021, 0.025))
        yield FOREARM + side, Shape(sleeve, (0, wrist), (0.028, 0.021))
        yield ARM + side, Shape(sleeve, (0, 1j * look.arm), (0.033, 0.028))
        if not look.sleeves:
            yield ARM + side, Shape(shirt, (0, 0.45j * look.arm), (0.037, 0.038))


def _mirrored(*right: complex) -> tuple[complex, ...]:
    """The corners of a symmetric outline, given those of its right half from above."""
    return right + tuple(complex(-point.real, point.imag) for point in reversed(right))
