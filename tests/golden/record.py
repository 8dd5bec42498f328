"""Record what must not change: everything below `runs/` and `values/`, and the commit it is recorded from.

    OMP_NUM_THREADS=1 PYTHONPATH=src python tests/golden/record.py            all of it
    OMP_NUM_THREADS=1 PYTHONPATH=src python tests/golden/record.py FILE...    some of values/, such as box

All of it is recorded by the package whose words `recorded.py` says. Once that is not today's package any
more, only a value file is recorded alone, in a commit that says why it changes.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import cases
import cv2
import names
import recorded

RUNS = Path("runs")


def commit() -> str:
    """The last commit that changed the package, which is as committed."""
    changed = subprocess.run(["git", "status", "--porcelain", names.SOURCE], capture_output=True, check=True)
    if changed.stdout:
        raise SystemExit(f"{names.SOURCE} has changes that are not committed.")
    command = ["git", "log", "-1", "--format=%H", "--", str(names.SOURCE)]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()


def runs() -> None:
    """The run folders. Left out is what is large, and what nothing reads."""
    shutil.rmtree(RUNS, ignore_errors=True)
    take(*recorded.SQUARES, "--set", "looks=3", out=RUNS / "finished")
    followed = ["train", "material/scene.mkv", "--config", "material/micro.json", "--steps", "20", "--follow"]
    take(*followed, "--zoom", "--background", "grey", "--seed", "7", out=RUNS / "followed")
    take(*recorded.GENERATE, out=RUNS / "generator")
    kill(longer(recorded.SQUARES), RUNS / "halfway")
    kill(longer(recorded.GENERATE), RUNS / "halfway-generator")
    for unused in ("followed/checkpoint", "followed/evolution", "generator/checkpoint"):
        shutil.rmtree(RUNS / unused)
    for folder in RUNS.glob("*generator/evolution"):
        shutil.rmtree(folder)
    for large in ("*/overview.png", "*/report.html"):
        for file in RUNS.glob(large):
            file.unlink()


def take(*words: str, out: Path) -> None:
    if code := names.main([*words, "--out", str(out), "--threads", "1"]):
        raise SystemExit(f"{out}: exit code {code}")


def longer(words: Sequence[str]) -> list[str]:
    at = words.index("--steps") + 1
    return [*words[:at], "60", *words[at + 1 :]]


def kill(words: list[str], out: Path) -> None:
    """A run that was stopped, gone on with, and then killed: its log tells more than its checkpoint knows."""
    verb = words[: 2 if words[0] == "generate" else 1]
    begin(words, out, signal.SIGTERM, 12)
    begin([*verb, "--resume"], out, signal.SIGKILL, 24)
    if (out / "summary.json").exists() or not (out / "checkpoint" / "state.safetensors").exists():
        raise SystemExit(f"{out} was not killed half-way: record again.")


def begin(words: list[str], out: Path, how: int, lines: int) -> None:
    """Start a training by the command line, and end it once its log has so many lines."""
    command = [sys.executable, "-m", names.PACKAGE, *words, "--out", str(out), "--threads", "1"]
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    log = out / "log.jsonl"
    while started.poll() is None and not (log.exists() and log.read_bytes().count(b"\n") >= lines):
        time.sleep(0.002)
    started.send_signal(how)
    started.wait()


def values(chosen: list[str]) -> None:
    """What the cases give, by file."""
    Path("values").mkdir(exist_ok=True)
    for file in chosen:
        found = {}
        for case in cases.of(file):
            with tempfile.TemporaryDirectory() as scratch:
                found[case.name] = case.make(Path(scratch))
        if file == "squares":
            for name, picture in found.items():
                cv2.imwrite(f"values/squares-{name}.png", picture[:, :, ::-1])
            continue
        Path(f"values/{file}.json").write_text(cases.as_text(found))
        print(f"values/{file}.json: {len(found)} cases")


if __name__ == "__main__":
    os.chdir(Path(__file__).parent)
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"HOME": home, "XDG_CACHE_HOME": f"{home}/.cache", "PYTHONPATH": str(names.SOURCE)}
        if not sys.argv[1:]:
            Path("commit").write_text(commit() + "\n")
            runs()
        values(sys.argv[1:] or cases.files())
