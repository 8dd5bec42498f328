"""docs/security.md quotes limits that stand in the code."""

from __future__ import annotations

import inspect
from pathlib import Path

from trigpoint.core import apart, geometry
from trigpoint.core.sources import annotated, images

PAGE = Path(__file__).parents[1] / "docs" / "security.md"


def test_the_limits_are_those_of_the_code() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    found = {row.split("|")[1].partition(":")[0].strip(): row.split("|")[3] for row in rows}
    assert f" {images.MAX_PIXELS // 10**6} megapixels" in found["images"]
    seconds = inspect.signature(apart.call).parameters["seconds"].default
    process = f" {seconds} s of computing, {apart.MEMORY // 2**20:,} MB "
    assert found["DeepLabCut and SLEAP files, MATLAB 7.3"] == process
    assert found["CSV and COCO files"] == f" {annotated.LARGEST // 2**20} MB, {annotated.MOST:,} points "
    assert found["any coordinate"].startswith(f" {geometry.REACH:,} pixels")


def test_the_image_formats_are_those_of_the_code() -> None:
    (row,) = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| images: ")]
    listed = row.split("|")[1].partition(":")[2].removesuffix(" and no others ").split(",")
    assert {name.strip().upper() for name in listed} == set(images.FORMATS)
