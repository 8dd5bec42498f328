"""The pictures of docs/video.md: its six commands on videos of drawn figures, as photos may not be copied.

python tools/tutorial.py FOLDER [--pictures docs/images]    # about six minutes on two cores

Three videos of one person who walks to and fro in a wide room before a camera that stands still. 36 frames,
twelve of each video, are labelled by where the joints truly are.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
import tyro
from numpy.typing import NDArray
from tyro.conf import Positional

from trigpoint.app.cli import main as trigpoint
from trigpoint.core.files.overlay import contact_sheet, write_image
from trigpoint.core.files.videos import VideoWriter
from trigpoint.core.sources import figures
from trigpoint.core.sources.video import Video

FRAMES, RATE = 300, 25.0
EDGE, WIDTH = 160, 400  # of a figure's square, and of the room; pixels
VIDEOS, LATER = 3, 37  # each begins so many frames later in the walk
LOOK = 2  # seed of the figure
LABELLED = 12  # frames of each video
PARTS = "head", "left wrist", "right wrist", "left ankle", "right ankle"
SHOWN = range(20, 290, 45)  # frames in the pictures of the overlays


@dataclass(frozen=True)
class Options:
    folder: Positional[Path]
    """Where videos, labels, run and files go."""
    pictures: Path | None = None
    """Also put the pictures here."""


def main() -> None:
    options = tyro.cli(Options, description=__doc__)
    folder = options.folder
    videos, run, found, tracked = (folder / name for name in ("videos", "runs/walk", "found", "tracked"))
    draw(folder)
    shared = ["--follow", "--background", "grey"]
    keypoints = str(folder / "keypoints.json")
    call("data", "inspect", str(videos), "--frames", "2", *shared, "--sheet", str(folder / "sheet.png"))
    call("train", str(videos), "--out", str(run), "--landmarks", "10", "--steps", "1000", *shared)
    call("report", str(run))
    call("detect", str(run), str(videos), "--out", str(found), "--overlay", "--trails", "15")
    call("fit", str(run), f"deeplabcut:{folder}", "--out", keypoints)
    named = ["--keypoints", keypoints, "--format", "dlc", "--out", str(tracked)]
    call("detect", str(run), str(videos), *named, "--overlay")
    if options.pictures:
        for name, file in (("found", found), ("tracked", tracked)):
            overlay = Video(file / "walk0.overlay.mp4")
            picture = contact_sheet([overlay.read(frame) for frame in SHOWN], columns=2)
            write_image(options.pictures / f"video-{name}.png", picture)
        for name, file in (("sheet", folder / "sheet.png"), ("overview", run / "overview.png")):
            (options.pictures / f"video-{name}.png").write_bytes(file.read_bytes())


def call(*words: str) -> None:
    print("$ trigpoint", *words, flush=True)
    if code := trigpoint(list(words)):
        raise SystemExit(code)


def draw(folder: Path) -> None:
    """The videos, and a DeepLabCut project around them."""
    (folder / "videos").mkdir(parents=True)
    still = figures.background(EDGE)
    room = cv2.resize(still, (WIDTH, EDGE), interpolation=cv2.INTER_LINEAR)
    columns = [figures.JOINTS.index(part) for part in PARTS]
    for number in range(VIDEOS):
        labels = folder / "labeled-data" / f"walk{number}"
        labels.mkdir(parents=True)
        rows = [["scorer"] + ["me"] * 2 * len(PARTS)]
        rows += [["bodyparts"] + [part for part in PARTS for _ in "xy"], ["coords"] + ["x", "y"] * len(PARTS)]
        with VideoWriter(folder / "videos" / f"walk{number}.mp4", (WIDTH, EDGE), RATE) as writer:
            walk = islice(figures.video(FRAMES + number * LATER, LOOK, EDGE), number * LATER, None)
            for index, frame in enumerate(walk):
                left = round((WIDTH - EDGE) * (0.5 - 0.5 * np.cos(2 * np.pi * (index / FRAMES + number / 5))))
                image = scene(room, frame.image, still, left)
                writer.add(image)
                if index % (FRAMES // LABELLED) == 0:
                    name = f"img{index:04d}.png"
                    write_image(labels / name, image)
                    points = frame.joints[columns] + (left, 0)
                    rows.append([f"labeled-data/walk{number}/{name}", *(f"{x:.2f}" for x in points.ravel())])
        with (labels / "CollectedData_me.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows)


def scene(
    room: NDArray[np.float64], image: NDArray[np.uint8], still: NDArray[np.float64], left: int
) -> NDArray[np.uint8]:
    """The figure of a square image, cut out of its own background, in the room."""
    whole = room.copy()
    figure = np.abs(image - still).max(-1, keepdims=True) > 2
    whole[:, left : left + EDGE] = np.where(figure, image, whole[:, left : left + EDGE])
    return np.rint(whole).astype(np.uint8)


if __name__ == "__main__":
    main()
