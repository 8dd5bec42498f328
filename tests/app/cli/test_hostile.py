"""Files with hostile names, and what is no file: one sentence, and nothing that a terminal would obey."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from trigpoint.core.progress import Progress
from trigpoint.core.runs import Run

Call = Callable[..., Any]  # the fixture `trigpoint`
NAMES = [
    "\x1b[31m\x1b]0;title\x07.png",
    "line\nbreak\r.png",
    "\u202egpj.png",
    "\x9b2J.png",
    "=cmd|' /C calc'!A0.png",
    "[red]x[/].png",
    "[/].png",
    "<script>alert(1)<",  # a folder, by the slash that follows
    "$x^2$ %s {0}.png",
    os.fsdecode(b"caf\xe9.png"),
    249 * "a" + ".png",
]


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Images and what is none, by hostile names in a folder of a hostile name."""
    folder = tmp_path / os.fsdecode(b"\x1b[5m \xff <b>&amp; `x`")
    for index, name in enumerate(NAMES):
        path = folder / (f"{name}/script>.png" if name.startswith("<") else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), (20 * index, 90, 30)).save(path)
        if len(name) < 200:
            path.with_name(f"bad {path.name}").write_bytes(b"no image")
    return folder


def harmless(said: Any, code: int = 0) -> bool:
    assert said.code == code, said
    assert "Traceback" not in said.err
    text = (said.out + said.err).replace("\n", "")
    assert not re.search("[\\x00-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\ud800-\\udfff]", text), repr(text)
    return True


def test_a_run_on_hostile_names(trigpoint: Call, hostile: Path, tmp_path: Path) -> None:
    said = trigpoint("data", "inspect", hostile, "--json", tmp_path / "found.json")
    assert harmless(said)
    assert r"\x1b[31m\x1b]0;title\x07.png" in said.out
    assert json.loads((tmp_path / "found.json").read_text())["images"] == 2 * len(NAMES) - 1
    said = trigpoint("train", hostile, "--out", tmp_path / NAMES[9], "--preset", "tiny-5", "--steps", 4)
    assert harmless(said, 2)
    assert "is not UTF-8" in said.err
    run = hostile.with_name("run " + hostile.name.replace("\udcff", "\x07"))
    values = ["train.recalibration_images=64", "train.batch_size=4"]
    said = trigpoint("train", hostile, "--out", run, "--preset", "tiny-5", "--steps", 4, "--set", *values)
    assert harmless(said)
    assert "Skipped 10 unreadable images: " in said.out
    for words in (["report", run], ["name", run], ["train", "--out", run, "--resume"]):
        assert harmless(trigpoint(*words))
    assert harmless(trigpoint("fit", run, hostile, "--out", tmp_path / "k.json"), 2)
    for name in ("report.html", "README.md"):
        assert harmless_text((run / name).read_text("utf-8"))


def harmless_text(text: str) -> bool:
    assert not re.search("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e]", text)
    return True


@pytest.mark.parametrize("name", NAMES)
def test_one_sentence_about_a_hostile_word(trigpoint: Call, tiny_run: Run, name: str, tmp_path: Path) -> None:
    missing = tmp_path / "nothing" / name
    for words in (
        ["data", "inspect", missing],
        ["report", missing],
        ["edit", tiny_run.folder, missing, "--out", tmp_path / "a.png"],
        ["train", tmp_path, "--config", missing, "--out", tmp_path / "run"],
        ["fit", name, f"csv:{missing}", "--out", tmp_path / "k.json"],
        ["fit", tiny_run.folder, f"csv:{missing}", "--out", tmp_path / "k.json"],
        ["data", "inspect", f"--{name}"],
        [name],
    ):
        assert harmless(trigpoint(*words), 2)


def test_progress_on_a_terminal_is_no_markup(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with Progress("[red]x[/][/]\x1b[2J.mp4", 2) as bar:
        bar.update(2, "[/b]")
    shown = capsys.readouterr().err
    assert r"[red]x[/][/]\x1b[2J.mp4" in shown
    assert "[/b]" in shown


FIFOS = """
import json, os, sys
from pathlib import Path
from trigpoint.app.cli import main

run, folder = sys.argv[1], Path(sys.argv[2])
os.chdir(folder)
for name in ("a.jpg", "a.mp4", "a.csv", "a.json"):
    os.mkfifo(name)
broken = {}
for file in ("config.json", "model.safetensors"):
    broken[file] = folder / file.replace(".", "-")
    broken[file].mkdir()
    for other in Path(run).glob("*.*"):
        if other.name != file and other.is_file():
            (broken[file] / other.name).write_bytes(other.read_bytes())
    os.mkfifo(broken[file] / file)
(folder / "listed.csv").write_text("image,a_x,a_y\\na.jpg,1,2\\n")
calls = [
    ["data", "inspect", "a.jpg"],
    ["data", "inspect", "a.mp4"],
    ["data", "inspect", "csv:a.csv"],
    ["data", "inspect", "coco:a.json"],
    ["data", "inspect", "csv:listed.csv"],
    ["train", "digits", "--config", "a.json", "--out", "new"],
    ["detect", run, "a.jpg", "--out", "found"],
    ["detect", run, "a.mp4", "--out", "found"],
    ["edit", run, "a.jpg", "--out", "edited.png"],
    ["report", str(broken["config.json"])],
    ["report", str(broken["model.safetensors"])],
    ["detect", str(broken["config.json"]), "digits", "--out", "found"],
]
for words in calls:
    print(words, flush=True)
    print("ended with", main(words), flush=True)
"""


def test_a_pipe_is_not_waited_for(tiny_run: Run, tmp_path: Path) -> None:
    words = [sys.executable, "-c", FIFOS, str(tiny_run.folder), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ended with 2") == 12, done.stdout + done.stderr
