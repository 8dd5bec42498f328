"""One input, tried in a process that has limits: what became of it, and what is wrong with that."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import re
import resource
import shutil
import sys
import time
import traceback
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from fuzzing.target import Target

SECONDS = 20  # of computing
PEAK = 1500  # MB in memory
ADDRESSES = 6 * 2**30  # bytes beyond what the process has mapped when it begins
LARGEST_FILE = 2**30
LONGEST = 2000  # characters of a sentence
WHOLE = 40  # of so many inputs one is read by a process of its own, as in use; the others in this one


@dataclass(frozen=True)
class Outcome:
    """`kind`: accepted, refused or failed; `said`: the sentence, or what is wrong."""

    kind: str
    past: bool  # the first look of its parser
    seconds: float
    peak: float  # MB
    said: str


class Places:
    """The folders of one worker."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.input, self.out, self.temporary, self.home = (
            root / name for name in ("input", "out", "tmp", "home")
        )
        self.stdout, self.stderr = root / "stdout", root / "stderr"
        self.mark = root / "code-was-run"

    def clear(self, seed: Path | None) -> None:
        for folder in (self.input, self.out, self.temporary, self.home):
            shutil.rmtree(folder, ignore_errors=True)
            if folder != self.input:
                folder.mkdir(parents=True)
        self.mark.unlink(missing_ok=True)
        if seed is not None:
            shutil.copytree(seed, self.input, symlinks=True)


def confine(places: Places) -> None:
    """Of this process, once."""
    mapped = _status("VmSize") * 1024
    for kind, most in (
        (resource.RLIMIT_AS, mapped + ADDRESSES),
        (resource.RLIMIT_FSIZE, LARGEST_FILE),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    for name in ("TMPDIR", "TEMP", "TMP"):
        os.environ[name] = str(places.temporary)
    os.environ["HOME"] = str(places.home)
    os.environ["FUZZ_MARK"] = str(places.mark)
    import tempfile

    tempfile.tempdir = str(places.temporary)
    for place, descriptor in ((places.stdout, 1), (places.stderr, 2)):
        opened = os.open(place, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        os.dup2(opened, descriptor)
        os.close(opened)


def attempt(name: str, target: Target, number: int, places: Places, seed: Path, whole: bool) -> Outcome:
    """Make the input of this number and try it. `whole`: nothing is read in this process that has one of its
    own in use."""
    places.clear(seed)
    target.change(Random(f"{name}:{number}"), places.input)
    return judge(target, places, whole)


def judge(target: Target, places: Places, whole: bool) -> Outcome:
    """Try the input that is there."""
    os.chdir(places.out)
    os.truncate(places.stdout, 0)
    os.truncate(places.stderr, 0)
    before = _listed(places.input)
    _forget_peak()
    own, below = time.process_time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    fault, sentence, code = "", "", 0
    try:
        with _reading(whole or not target.apart):
            code = int(target.call(places.input, places.out) or 0)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
    except BaseException as error:
        from trigpoint.core.errors import TrigpointError

        if isinstance(error, TrigpointError):
            code, sentence = 2, str(error)
        else:
            fault = "".join(traceback.format_exception(error))
    sys.stdout.flush()
    sys.stderr.flush()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = (
        time.process_time()
        - own
        + sum(getattr(children, name) - getattr(below, name) for name in ("ru_utime", "ru_stime"))
    )
    grown = children.ru_maxrss if children.ru_maxrss > below.ru_maxrss else 0
    peak = max(_status("VmHWM"), grown) / 1024
    complaint = places.stderr.read_text("utf-8", "backslashreplace")
    if not fault:
        fault = (
            _of_words(code, sentence, complaint)
            or (f"{seconds:.1f} seconds" if seconds > SECONDS else "")
            or (f"{peak:.0f} MB" if peak > PEAK else "")
            or _left(target, places, before)
        )
    sentence = sentence or complaint.strip()
    told = places.stdout.read_text("utf-8", "backslashreplace")
    past = not re.search(target.first, f"{sentence}\n{told}\n{complaint}")
    kind = "failed" if fault else "refused" if code else "accepted"
    return Outcome(kind, past, round(seconds, 3), round(peak, 1), (fault or sentence)[-20_000:])


def _of_words(code: int, sentence: str, complaint: str) -> str:
    """What is wrong with an exit code and with what was said."""
    if "Traceback (most recent call last)" in complaint:
        return complaint
    if code not in (0, 1, 2):
        return f"exit code {code}: {complaint}"
    last = complaint.rstrip("\n").rpartition("\n")[2]
    if (
        code == 2
        and not sentence
        and (not last.startswith("trigpoint: ") or complaint.count("trigpoint: ") > 1)
    ):
        return f"the end is no sentence: {complaint[:3000]}"
    if len(sentence or last) > LONGEST:
        return f"a sentence of {len(sentence or last):,} characters: {(sentence or last)[:300]}"
    if code == 2 and "\n" in sentence:
        return f"more than a line: {sentence[:3000]}"
    text = sentence or complaint.replace("\n", "")
    odd = [one for one in complaint.replace("\n", "") if unicodedata.category(one) in ("Cc", "Cs")]
    if odd:
        return f"said with {odd[0]!r}: {text[:3000]!r}"
    if code and not text.strip():
        return f"exit code {code}, without a word"
    return ""


def _left(target: Target, places: Places, before: Mapping[str, str]) -> str:
    """What is wrong with the files."""
    if places.mark.exists():
        return "code of the input was run"
    now = _listed(places.input)
    for name in sorted({**before, **now}):
        allowed = any(Path(name).match(pattern) for pattern in target.writes)
        if before.get(name) != now.get(name) and not allowed:
            what = "left" if name not in before else "changed" if name in now else "removed"
            return f"the input {name} was {what}"
    parts = [path for folder in (places.out, places.input) for path in folder.rglob("*.part*")]
    left = [*places.temporary.iterdir(), *(path for path in parts if path.name not in before)]
    return f"{left[0].name} was left" if left else ""


def _listed(folder: Path) -> dict[str, str]:
    """Each file and what is in it."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha1(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@contextmanager
def _reading(whole: bool) -> Iterator[None]:
    """Read here what is read apart, which takes a third of a second. What is said and what is raised is the
    same; where this process dies of it the input is tried again as a whole."""
    from trigpoint.core import apart

    if whole:
        yield
        return

    def call(function: str, *arguments: Any, seconds: int = 0) -> Any:
        import importlib

        folder = Path(os.environ["TMPDIR"]) / "reader"
        folder.mkdir()
        here = os.getcwd()
        os.chdir(folder)
        try:
            module, _, name = function.partition(":")
            found, arrays = getattr(importlib.import_module(module), name)(*json.loads(json.dumps(arguments)))
            if any(array.dtype.hasobject for array in arrays.values()):
                raise TypeError("only numbers and text of a fixed length are sent")
            return json.loads(json.dumps(found)), arrays
        except MemoryError:
            raise apart.ReaderFailed("it takes more memory than a reader is given") from None
        except RecursionError:
            raise apart.ReaderFailed("it is nested too deeply") from None
        except Exception as error:
            raise apart.ReaderFailed((str(error).split("\n")[0] or type(error).__name__)[:300]) from None
        finally:
            gc.collect()  # closes files that the end of a process would close
            os.chdir(here)
            shutil.rmtree(folder)

    usual = apart.call
    apart.call = call  # type: ignore[assignment]
    try:
        yield
    finally:
        apart.call = usual


def _forget_peak() -> None:
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")


def _status(name: str) -> int:
    """A line of this process's status, in KB."""
    found = re.search(rf"^{name}:\s+(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1])


def as_line(number: int, outcome: Outcome) -> bytes:
    return json.dumps([number, asdict(outcome)]).encode() + b"\n"
