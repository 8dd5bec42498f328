"""Reading what the package wrote, without the package, and telling a value from a recorded one."""

from __future__ import annotations

import contextlib
import csv
import http.client
import io
import json
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import cv2
import names
import numpy as np
from numpy.typing import NDArray

NUMBERS = re.compile(r"\[\s+((?:-?[\w.+-]+|\"[^\"]*\"|null)(?:,\s+(?:-?[\w.+-]+|\"[^\"]*\"|null))*)\s+\]")


def run(*words: object) -> str:
    """One verb of the command line in this process; what it says on stdout."""
    told, complaints = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(complaints):
        code = names.main([str(word) for word in words])
    if code:
        raise RuntimeError(f"{' '.join(map(str, words))} ended with {code}: {complaints.getvalue()}")
    return told.getvalue()


def options(*verb: str) -> list[dict[str, str]]:
    """What `--help` lists of a verb: the options with what they take and their defaults."""
    told = io.StringIO()
    width = mock.patch.dict(os.environ, {"COLUMNS": "400", "NO_COLOR": "1"})
    with width, contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
        names.main([*verb, "--help"])
    found: list[dict[str, str]] = []
    group = ""
    for line in told.getvalue().splitlines():
        if re.match(r" [a-z]", line):
            group = line.strip()
        elif re.match(r"  --\w" if group != "positional arguments" else r"  \S", line):
            name, _, rest = line.strip().partition("  ")
            found.append({"option": name, "text": rest})
        elif found and line.startswith("    "):
            found[-1]["text"] += f" {line.strip()}"
    for one in found:
        default = re.search(r"\((default: .*|required|optional)\)\s*$", one.pop("text"))
        one["default"] = default[1].removeprefix("default: ") if default else ""
    return found


def table(file: Path) -> list[list[Any]]:
    """A CSV file, numbers as numbers."""
    return [[number(cell) for cell in row] for row in csv.reader(file.read_text().splitlines())]


def number(text: str) -> Any:
    with contextlib.suppress(ValueError):
        return int(text)
    with contextlib.suppress(ValueError):
        return float(text)
    return text


def deeplabcut(file: Path) -> dict[str, Any]:
    """A DeepLabCut HDF5 file, as pandas reads it."""
    import pandas

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = pandas.read_hdf(file)
    return {
        "levels": list(frame.columns.names),
        "columns": ["/".join(map(str, column)) for column in frame.columns],
        "index": [str(row) for row in frame.index],
        "values": frame.to_numpy(float).tolist(),
    }


def sleap(file: Path) -> dict[str, Any]:
    """A SLEAP file, as sleap-io reads it."""
    import sleap_io

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = sleap_io.load_slp(str(file), open_videos=False)
    return {
        "nodes": [[node.name for node in skeleton.nodes] for skeleton in labels.skeletons],
        "edges": [len(skeleton.edges) for skeleton in labels.skeletons],
        "videos": [Path(str(np.ravel(video.filename)[0])).name for video in labels.videos],
        "frames": [
            [labels.videos.index(frame.video), int(frame.frame_idx)]
            + [instance.numpy().tolist() for instance in frame.instances]
            for frame in labels.labeled_frames
        ],
        "kinds": sorted({type(one).__name__ for frame in labels.labeled_frames for one in frame.instances}),
    }


def coco(file: Path) -> dict[str, Any]:
    """A COCO keypoints file, without what tells the version and the day."""
    found = json.loads(file.read_text())
    found.pop("info", None)
    return found


def small(picture: NDArray[np.uint8] | Path | bytes) -> dict[str, Any]:
    """What a picture looks like from afar: its size, and the means of 8x8 fields."""
    if isinstance(picture, Path):
        picture = picture.read_bytes()
    if isinstance(picture, bytes):
        picture = cv2.imdecode(np.frombuffer(picture, np.uint8), cv2.IMREAD_COLOR)[:, :, ::-1]
    height, width = picture.shape[:2]
    fields = cv2.resize(np.asarray(picture, np.float32), (8, 8), interpolation=cv2.INTER_AREA)
    return {"width": width, "height": height, "fields": fields.reshape(8, -1).round(1).tolist()}


class Studio:
    """`studio` as a person starts it, and a plain client of its routes."""

    def __init__(self, model: str, *images: str) -> None:
        command = [
            sys.executable,
            "-m",
            names.PACKAGE,
            "studio",
            model,
            *images,
            "--no-browser",
            "--port",
            "0",
        ]
        path = {"PYTHONPATH": str(names.SOURCE), "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | path)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.port = int(line.rpartition(":")[2].strip().strip("/"))

    def __enter__(self) -> Studio:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def ask(self, path: str, body: Any = None) -> bytes:
        """With a body it is a POST; a dict is sent as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = json.dumps(body).encode() if isinstance(body, dict) else body
        try:
            connection.request("GET" if body is None else "POST", path, sent, {"x-name": "sent.png"})
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            raise RuntimeError(f"{path}: {answer.status} {data.decode()}")
        return data

    def json(self, path: str, body: Any = None) -> Any:
        return json.loads(self.ask(path, body))


def as_text(values: Any) -> str:
    """JSON with lists of numbers on one line."""
    text = json.dumps(rounded(values), indent=1, ensure_ascii=False)
    return NUMBERS.sub(lambda found: "[" + re.sub(r",\s+", ", ", found[1]) + "]", text) + "\n"


def rounded(value: Any) -> Any:
    """As JSON has it, with seven digits."""
    if isinstance(value, dict):
        return {str(key): rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [rounded(part) for part in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.7g}") if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


def differences(now: Any, before: Any, tolerance: float, where: str = "") -> Iterator[str]:
    """Where a value is another than the recorded one; real numbers may differ by the tolerance."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            if key in before and key in now:
                yield from differences(now[key], before[key], tolerance, f"{where}/{key}")
            else:
                yield f"{where}/{key} is {'gone' if key in before else 'new'}"
    elif isinstance(before, list) and isinstance(now, list):
        if len(before) != len(now):
            yield f"{where} has {len(now)} entries, not {len(before)}"
        for place, (new, old) in enumerate(zip(now, before, strict=False)):
            yield from differences(new, old, tolerance, f"{where}/{place}")
    elif is_number(before) and is_number(now) and float in (type(before), type(now)):
        if not abs(now - before) <= tolerance:
            yield f"{where} is {now}, was {before}"
    elif type(now) is not type(before) or now != before:
        yield f"{where} is {now!r}, was {before!r}"


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def first(found: Iterator[str], most: int = 8) -> Sequence[str]:
    lines = list(found)
    return lines[:most] + ([f"... and {len(lines) - most} more"] if len(lines) > most else [])
