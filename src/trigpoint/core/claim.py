"""The rules about writing into a run folder: whose it is, what may be replaced, what a kill leaves behind.

A run that is to be replaced is moved into a folder within its own, which may be the one the user is in, until
the new one has its images. Its config.json is the first to go and the last to come back, so that after a kill
at any moment it is plain where the old run is.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from trigpoint.core.errors import TrigpointError
from trigpoint.core.io import PART, exclusive
from trigpoint.core.runs import GENERATOR_MODEL, Run

OWN = (  # files of a run that a kill may leave half written, under a name of their own
    "config.json",
    "log.jsonl",
    "model.safetensors",
    "generator.safetensors",
    "summary.json",
    "samples.npz",
    "report.html",
    "README.md",
    GENERATOR_MODEL,
)


@contextlib.contextmanager
def claim(folder: Path, *, resume: bool, overwrite: bool) -> Iterator[Run]:
    """The run to write into, for this training alone until the end. Refuses a folder that holds something
    else, or a run nobody said to replace, or that another training writes into."""
    run = Run(folder)
    if str(folder).encode(errors="replace").decode() != str(folder):
        raise TrigpointError(f"The name of {folder} is not UTF-8; safetensors files cannot be written to it.")
    if folder.exists() and not folder.is_dir():
        raise TrigpointError(f"{folder} is a file; --out names a folder.")
    made = not folder.is_dir()
    if made and resume:
        run.meta()  # says that there is none
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with lock(folder):
            recover(run, overwrite)
            if resume:
                run.meta()
            else:
                check_free(run, overwrite)
            clean(run)
            yield run
    finally:
        if made:
            with contextlib.suppress(OSError):  # there is something in it
                folder.rmdir()


def check_free(run: Run, overwrite: bool) -> None:
    if run.config_file.exists():
        if not overwrite:
            state = "a finished run" if run.finished else "an unfinished run"
            raise TrigpointError(
                f"{run.folder} already holds {state}: go on with --resume, replace it with --overwrite, "
                "or choose another --out."
            )
        run.meta()  # raises where the config.json is another program's
    elif {file.name for file in run.folder.iterdir()} - {f"{name}{PART}" for name in OWN}:
        raise TrigpointError(f"{run.folder} is not empty and holds no run; choose another --out.")


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Keep a run's folder for one training; refuse if another has it. A kill lets go of it."""
    with exclusive(folder) as alone:
        if not alone:
            raise TrigpointError(
                f"Another training is writing into {folder}: wait for it, or choose another --out."
            )
        yield


def clean(run: Run) -> None:
    """Remove what a kill left of files that were being written."""
    for name in OWN:
        part = run.folder / f"{name}{PART}"
        if part.is_dir() and not part.is_symlink():
            shutil.rmtree(part)
        else:
            part.unlink(missing_ok=True)


@contextlib.contextmanager
def replacing(run: Run, resume: bool) -> Iterator[bool]:
    """While a run gets its images: what was there before is set aside, and is back if it gets none.

    Yields whether the run begins. A run that could not begin leaves nothing in the way of the next attempt.
    """
    aside = None if resume else set_aside(run)
    fresh = not run.config_file.exists()
    try:
        yield fresh
    except BaseException as error:
        # Without its config.json a run could be neither resumed nor replaced.
        useless = fresh and (isinstance(error, TrigpointError) or not run.config_file.exists())
        if (aside or useless) and run.folder.is_dir():
            discard(run, aside)
        raise
    drop(run)


def set_aside(run: Run) -> Path | None:
    """Move a run that is to be replaced out of the way, until the new one has its images."""
    if not run.config_file.exists():
        return None
    children = list(run.folder.iterdir())
    run.aside.mkdir()
    for child in sorted(children, key=lambda child: child != run.config_file):
        child.rename(run.aside / child.name)
    return run.aside


def discard(run: Run, aside: Path | None) -> None:
    """Remove a run that could not begin, and put back the one it was to replace."""
    children = [child for child in run.folder.iterdir() if child != aside]
    for child in sorted(children, key=lambda child: child == run.config_file):
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child)
        else:
            child.unlink()
    if aside is None:
        with contextlib.suppress(OSError):  # the folder that the user is in stays
            run.folder.rmdir()
    else:
        put_back(run)


def put_back(run: Run) -> None:
    children = list(run.aside.iterdir())
    for child in sorted(children, key=lambda child: child.name == run.config_file.name):
        child.rename(run.folder / child.name)
    run.aside.rmdir()


def drop(run: Run) -> None:
    """Remove the run that was set aside: the new one has its images."""
    gone = run.aside.with_name(".removed")
    if run.aside.is_dir():
        run.aside.rename(gone)  # from here on it is not put back
    shutil.rmtree(gone, ignore_errors=True)


def recover(run: Run, overwrite: bool) -> None:
    """Mend what a kill left of a replacement. A new run that had not got its images gives way only to
    one that replaces it, too."""
    if not run.aside.is_dir():
        return
    if not any(run.aside.iterdir()):
        run.aside.rmdir()
    elif not run.config_file.exists():
        clean(run)
        put_back(run)
    elif overwrite:
        discard(run, run.aside)
