"""Commands in processes of their own: most by a fork of this one, which has imported everything, some by a
new Python. This process starts no thread and computes nothing, so that a fork is sound."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import trigpoint
from trigpoint.app.cli import VERBS, main

MAIN = Path(trigpoint.app.cli.__file__)
UNRAISABLE = re.compile(r"Exception ignored in.*?KeyboardInterrupt: *\n", re.DOTALL)
LONGEST = 600.0  # seconds; what takes longer hangs
SOURCE = Path(trigpoint.__file__).parents[1]
MODULES = (
    "trigpoint.api",
    "trigpoint.core.inference.images",
    "trigpoint.core.inference.videos",
    "trigpoint.learning.evaluation.discover",
    "trigpoint.learning.evaluation.evaluate",
    "trigpoint.learning.evaluation.temporal",
    "trigpoint.core.keypoints",
    "trigpoint.app.report.generator",
    "trigpoint.learning.generation.train",
    "trigpoint.app.report",
    "trigpoint.learning.evaluation.health",
    *(f"trigpoint.app.cli.{verb}" for verb in VERBS),
    "PIL.ImageOps",
    "PIL.ImageSequence",
    "av",
    "h5py",
    "scipy.signal",
    "sklearn.linear_model",
    "sleap_io.io.main",
    "torch._dynamo",  # by an optimiser
    "typeguard",
)


@dataclass(frozen=True)
class Ended:
    code: int  # -N: by signal N
    out: str
    error: str
    seconds: float
    sent: bool  # a signal, before the end
    hung: bool = False

    @property
    def traceback(self) -> bool:
        """Whether it says one, but of a Ctrl-C before or after `main`, or in what Python calls by itself."""
        said = UNRAISABLE.sub("", self.error)
        outside = f'File "{MAIN}"' not in said and "KeyboardInterrupt" in said
        return "Traceback" in said and not outside


def import_all() -> None:
    import importlib

    from PIL import Image

    for name in MODULES:
        importlib.import_module(name)
    Image.init()
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise SystemExit(f"{threads} threads after the imports: a fork of this process is not sound.")


def run(
    words: Sequence[str],
    place: Path,
    temporary: Path,
    *,
    fresh: bool = False,
    plan: Sequence[tuple[float, signal.Signals]] = (),
    full: bool = False,
    watch: Callable[[], None] = lambda: None,
) -> Ended:
    """Call `trigpoint WORDS` in the folder `place`, and send signals after so many seconds. `fresh`: in a new
    Python, not in a fork; `full`: although the disk is nearly full, nothing tells so beforehand."""
    said = [_new_file() for _ in range(2)]
    started = time.monotonic()
    pid = _process(words, place, temporary, said) if fresh else _fork(words, place, temporary, said, full)
    waiting, hung = list(plan), False
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        now = time.monotonic() - started
        watch()
        if done:
            break
        if waiting and now >= waiting[0][0]:
            number = waiting.pop(0)[1]
            # Ctrl-C goes to every process in the foreground.
            (os.killpg if number == signal.SIGINT else os.kill)(pid, number)
        if now > LONGEST and not hung:
            hung = True
            os.killpg(pid, signal.SIGKILL)
        time.sleep(0.002)
    out, error = (file.read_text(errors="replace") for file in said)
    for file in said:
        file.unlink()
    return Ended(os.waitstatus_to_exitcode(status), out, error, now, len(waiting) < len(plan), hung)


def _new_file() -> Path:
    number, name = tempfile.mkstemp()
    os.close(number)
    return Path(name)


def _process(words: Sequence[str], place: Path, temporary: Path, said: Sequence[Path]) -> int:
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-m", "trigpoint", *words]
    with said[0].open("wb") as out, said[1].open("wb") as error:
        process = subprocess.Popen(
            command, cwd=place, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=error,
            process_group=0,
        )  # fmt: skip
    process.returncode = 0  # it is waited for here, not there
    return process.pid


def _fork(words: Sequence[str], place: Path, temporary: Path, said: Sequence[Path], full: bool) -> int:
    held = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    pid = os.fork()
    if pid:
        os.setpgid(pid, pid)
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        return pid
    try:
        os.setpgid(0, 0)
        os.chdir(place)
        for number, file in enumerate((Path(os.devnull), *said)):
            os.dup2(os.open(file, os.O_RDWR | os.O_TRUNC), number)
        os.environ["TMPDIR"] = str(temporary)
        tempfile.tempdir = None
        _in_a_hurry(full)
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        code = main(words)
        sys.stdout.flush()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException as error:
        code = 1
        inside = any(
            Path(frame.filename).is_relative_to(SOURCE) for frame in traceback.extract_tb(error.__traceback__)
        )
        if inside or not isinstance(error, KeyboardInterrupt):  # else it came while Python would be starting
            traceback.print_exc()
            sys.stderr.flush()
    os._exit(code)


def _in_a_hurry(full: bool) -> None:
    """Checkpoints every moment."""
    import shutil
    from collections import namedtuple

    from trigpoint.learning.training import session

    session.CHECKPOINT_SECONDS = 0.05
    if full:
        usage = namedtuple("usage", "total used free")
        module: Any = shutil
        module.disk_usage = lambda path: usage(10**12, 0, 10**12)


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a fork and return what it returns, which JSON can say: this process stays clean."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        _answer(function, arguments, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read()
    os.waitpid(pid, 0)
    if not said:
        raise SystemExit(f"{function.__name__} failed")
    return json.loads(said)


def _answer(function: Callable[..., Any], arguments: Sequence[Any], writing: int) -> NoReturn:
    code = 1
    try:
        os.write(writing, json.dumps(function(*arguments)).encode())
        code = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
