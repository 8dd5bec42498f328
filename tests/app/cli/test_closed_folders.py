"""A folder that may not be read: each verb counts and names what it cannot know."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trigpoint.core.files.videos import VideoWriter
from trigpoint.core.runs import Run

Call = Callable[..., Any]  # the fixture `trigpoint`


def test_beside_videos(
    trigpoint: Call, colour_run: Run, tmp_path: Path, close: Callable[[Path], None]
) -> None:
    for name in ("a.mp4", "shut/b.mp4"):
        (tmp_path / "videos" / name).parent.mkdir(parents=True, exist_ok=True)
        with VideoWriter(tmp_path / "videos" / name, (64, 48), 25) as writer:
            for frame in range(3):
                writer.add(np.full((48, 64, 3), 20 * frame, np.uint8))
    close(tmp_path / "videos" / "shut")
    said = trigpoint("detect", colour_run.folder, tmp_path / "videos", "--out", tmp_path / "found")
    assert said.code == 1
    assert f"skipped the folder {tmp_path / 'videos' / 'shut'}: it cannot be read\n" in said.err
    assert "1 of 2 videos could not be read." in said.err
    assert (tmp_path / "found" / "a.csv").exists()


@pytest.mark.parametrize("verb", ["fit", "evaluate"])
def test_where_labelled_images_lie(
    trigpoint: Call, colour_run: Run, tmp_path: Path, make_photos: Callable[..., Path], verb: str
) -> None:
    photos = make_photos(tmp_path / "photos", 12)
    names = sorted(file.name for file in photos.iterdir())
    rows = [f"photos/{name},nose,{row},9,{('train', 'test')[row % 3 == 0]}" for row, name in enumerate(names)]
    (tmp_path / "t.csv").write_text("\n".join(["image,landmark,x,y,split", *rows]))
    (photos / names[1]).unlink()
    shutil.copytree(photos, photos / names[1])  # a folder in place of the image: nothing that root may read
    words = ["--out", tmp_path / "k.json"] if verb == "fit" else []
    said = trigpoint(verb, colour_run.folder, f"csv:{tmp_path / 't.csv'}", *words)
    assert said.code == 0
    assert said.err.count(f"Skipped 1 unreadable image: photos/{names[1]} (") == 1
