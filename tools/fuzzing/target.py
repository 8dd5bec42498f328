"""What a target is: a parser, how its inputs are made and changed, and how it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from fuzzing.mutate import Mutation

Change = Callable[[Random, Path], None]  # of a copy of the seed


@dataclass(frozen=True)
class Target:
    """`seed` writes valid files into a folder. `call` gets a changed copy of them and an empty folder to
    write to, which is also where the process is; it returns an exit code, or nothing.

    `first` matches what the parser says when its first look refuses a file: a signature that is not there, or
    text that is no JSON at all. All other mutants got past it.
    """

    seed: Callable[[Path], None]
    change: Change
    call: Callable[[Path, Path], int | None]
    first: str
    share: int = 1  # of the inputs
    writes: tuple[str, ...] = ()  # which files of its input it may write, as patterns
    apart: bool = False  # whether it reads in a process of its own


def files(mutations: Mapping[str, Mutation]) -> Change:
    """Change the content of one file, by the first pattern of those that it matches."""

    def change(random: Random, folder: Path) -> None:
        path, mutation = random.choice(
            [
                (path, mutation)
                for pattern, mutation in mutations.items()
                for path in sorted(folder.glob(pattern))
            ]
        )
        rewrite(random, path, mutation)

    return change


def rewrite(random: Random, path: Path, mutation: Mutation) -> None:
    before = path.read_bytes()
    for _ in range(8):
        found = mutation(random, before)
        if found != before:
            break
    path.write_bytes(found)


def only(mutations: Mapping[str, Mutation]) -> Change:
    """The same, and leave no other file of the seed."""

    def change(random: Random, folder: Path) -> None:
        path = random.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
        for other in list(folder.rglob("*")):
            if other.is_file() and other != path:
                other.unlink()
        mutation = next(mutation for pattern, mutation in mutations.items() if path.match(pattern))
        rewrite(random, path, mutation)

    return change


def some(*changes: Change) -> Change:
    """One of several ways, each as often as it is named."""
    return lambda random, folder: random.choice(changes)(random, folder)


def cli(*words: object) -> int:
    """The command line, in this process."""
    from trigpoint.app.cli import main

    return main([str(word) for word in words])
