"""Writing files and showing names, safely: nothing here knows what is in them."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import sys
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from trigpoint.core.errors import TrigpointError

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet would compute

PART = ".part"  # ends the name of a file that is being written
BLOCK = 1 << 20

HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # Unicode's control and format characters, surrogates, line ends
JOINERS = "\u200c\u200d"  # format characters that words of some languages, and emoji, are written with


def write_atomically(path: Path, data: bytes) -> None:
    """After a crash at any moment the file is the old one or the new one, whole."""
    with writing_atomically(path) as stream:
        stream.write(data)


@contextmanager
def writing_atomically(path: Path) -> Iterator[BinaryIO]:
    """The same, for what is not at hand in one piece."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + PART)
    temporary.unlink(missing_ok=True)  # left by a kill, or put there: a pipe, or a link to another file
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def reserve(path: Path, size: int) -> None:
    """Fail now where the disk has no room for what a library is to write, `size` bytes at most: HDF5's own
    crashes where it finds that out by itself."""
    path.unlink(missing_ok=True)  # never through a link that lies there
    try:
        with path.open("xb") as stream:
            for start in range(0, size, BLOCK):
                stream.write(bytes(min(BLOCK, size - start)))
    finally:
        path.unlink(missing_ok=True)


def printable(text: str) -> str:
    """A name as it may be shown on a terminal or written into a file: what would move the cursor, turn the
    direction of the text or is not UTF-8 is written as an escape, such as \\x1b."""
    return "".join(
        _escaped(one) if unicodedata.category(one) in HIDDEN and one not in JOINERS else one for one in text
    )


def say(*lines: str, error: bool = False) -> None:
    """Lines for the terminal, on stdout or stderr, at once. Names in them may come from anywhere: each line
    is made printable, and what the terminal's encoding lacks is escaped."""
    stream = sys.stderr if error else sys.stdout
    text = "".join(f"{printable(line)}\n" for line in lines)
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def _escaped(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:  # a byte of a file name that is not UTF-8
        return f"\\x{number - 0xDC00:02x}"
    return (
        f"\\x{number:02x}"
        if number < 0x100
        else f"\\u{number:04x}"
        if number < 0x10000
        else f"\\U{number:08x}"
    )


def no_file(path: Path) -> str | None:
    """Why a path is not to be opened as a file, if so. Reading a pipe or a device may never end."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return None
        if stat.S_ISDIR(mode):
            os.scandir(path).close()  # which says whether it may be read
            return os.strerror(errno.EISDIR)
    except OSError as error:
        return error.strerror or "it cannot be looked at"
    except ValueError:  # a zero byte, as no name has
        return "no file has such a name"
    return "a pipe or a device, not a file"


def regular(path: Path) -> Path:
    """The path of a file, or of nothing: what else there is, is refused."""
    reason = no_file(path)
    if reason and path.exists():
        raise TrigpointError(f"{path} cannot be read: {reason}.")
    return path


def ffmpeg_name(path: Path) -> str:
    """A file by a name that FFmpeg takes for nothing else: `http:a.mp4` and `concat:a|b.mp4` may be files."""
    return f"file:{os.path.abspath(path)}"


def spare(out: Path | None, inputs: Iterable[Path | None]) -> None:
    """Refuse to write over one of the files that are read, by whichever name."""
    if out is None or not out.exists():
        return
    for path in inputs:
        with suppress(OSError, ValueError):
            if path is not None and os.path.samefile(out, path):
                raise TrigpointError(f"{out} is read, and is not written over; choose another name.")


def cell(text: str) -> str:
    """A name as a cell of a CSV file: printable, and never a formula to the spreadsheet that opens it."""
    shown = printable(text)
    return f"'{shown}" if shown.startswith(FORMULA) else shown


def named(text: str) -> str:
    """The name that `cell` was given, unless it had to escape something."""
    return text[1:] if text[:1] == "'" and text[1:].startswith(FORMULA) else text


def below(folder: Path, name: str) -> Path:
    """The path of `name` below a folder; refused where it would leave it, be it by `..`, by a root of its own
    or through a link."""
    path = folder / name
    inside = folder.resolve()
    whole = path.resolve()
    if whole == inside or not whole.is_relative_to(inside):
        raise TrigpointError(f"{printable(name)} would be written outside of {printable(str(folder))}.")
    return path


def peak_memory_mb() -> float | None:
    """How much memory this process has taken at most; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    unit = 2**20 if sys.platform == "darwin" else 2**10  # of ru_maxrss: bytes there, KiB elsewhere
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20, 1)


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[bool]:
    """Keep a folder for this process until the end; whether it could. A kill lets go of it."""
    held = -1
    try:
        try:
            import fcntl
        except ImportError:
            held = _lock_beside(folder)
        else:
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        alone = True
    except BlockingIOError:
        alone = False
    except OSError:  # a file system without locks
        alone = True
    try:
        yield alone
    finally:
        if held >= 0:
            os.close(held)


def _lock_beside(folder: Path) -> int:
    """Where folders cannot be locked: a file in the temporary folder that stands for it."""
    try:
        import msvcrt
    except ImportError:  # nothing can be locked
        return -1
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:24]
    held = os.open(Path(tempfile.gettempdir()) / f"trigpoint-{name}.lock", os.O_RDWR | os.O_CREAT)
    try:
        msvcrt.locking(held, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    except OSError:
        os.close(held)
        raise BlockingIOError from None
    return held
