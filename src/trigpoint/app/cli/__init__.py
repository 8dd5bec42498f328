"""The command line: one file per verb, imported only when its verb is called."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from trigpoint.core.errors import TrigpointError
from trigpoint.core.io import printable, say

VERBS = {
    "demo": "the whole story on embedded digits, ends in a report",
    "train": "discover landmarks on a source of images",
    "detect": "find a model's landmarks on images and videos",
    "fit": "fit named keypoints to landmarks with a few labels",
    "name": "give landmarks names by hand",
    "edit": "move landmarks, the image follows",
    "morph": "turn one image into another by its landmarks",
    "studio": "drag landmarks in the browser",
    "generate": "make new images on the structure of given ones",
    "evaluate": "predict annotated landmarks from discovered ones",
    "attributes": "recognise visual attributes from landmarks",
    "reproduce": "run one of the paper's tables or figures",
    "report": "(re)write the report of a run",
    "data": "list the sources; inspect one",
    "models": "shipped models with their measured error",
}

USAGE = """trigpoint: discover an object's landmarks from unlabelled images

  trigpoint VERB ...

{verbs}

`trigpoint VERB --help` shows a verb's options and an example.
A source is a folder of images, image files, or a name (`trigpoint data list`).
A model is a run folder, or the name of a shipped model (`trigpoint models`).
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb. Exit code 0: done, 1: failed or interrupted, 2: bad input."""
    try:
        with terminable():
            code = run(list(sys.argv[1:] if argv is None else argv))
            sys.stdout.flush()
        return code
    except TrigpointError as error:
        return complain(str(error))
    except BrokenPipeError:  # the reader of our output has gone: nothing more to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return complain("There is no space left on the disk; what was saved before is kept.")
        if error.errno == errno.EFBIG:
            return complain("A file would exceed the limit of its size (ulimit -f); what was saved is kept.")
        where = f"{error.filename}: " if error.filename else "Reading or writing failed: "
        return complain(f"{where}{error.strerror or error}.")
    except KeyboardInterrupt:
        say("", "trigpoint: interrupted.", error=True)
        return 1
    except Terminated:
        signal.raise_signal(signal.SIGTERM)  # which now does what it does by default
        return 1


def run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        verbs = "\n".join(f"  {name:12}{text}" for name, text in VERBS.items())
        say(*USAGE.format(verbs=verbs).split("\n"))
        return 0
    if words[0] in ("-V", "--version"):
        from trigpoint.core.version import __version__

        say(f"trigpoint {__version__}")
        return 0
    if words[0] not in VERBS:
        return complain(f"There is no verb {words[0]!r}; `trigpoint --help` lists them.")
    if odd := next((word for word in words if unreadable_option(word)), None):
        return complain(f"There is no option {odd}.")  # perhaps a file, by a shell's *: write ./ before it
    from trigpoint.app.cli.renamed import renamed

    verb = importlib.import_module(f"trigpoint.app.cli.{words[0]}")
    return int(verb.main(renamed(words[1:])))


class Terminated(BaseException):
    """SIGTERM came."""


@contextmanager
def terminable() -> Iterator[None]:
    """Within, SIGTERM raises an exception, so that temporary files are removed on the way out."""

    def stop(*_: object) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():  # which alone may set handlers
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def unreadable_option(word: str) -> bool:
    """Whether a word is taken for an option, and would harm the terminal in a parser's complaint."""
    name = word.partition("=")[0]
    return name.startswith("-") and printable(name) != name


def complain(sentence: str) -> int:
    say(f"trigpoint: {sentence}", error=True)
    return 2
