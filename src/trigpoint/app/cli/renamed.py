"""Options that have a new name: the old one works for one more release, and says so."""

from __future__ import annotations

from collections.abc import Sequence

from trigpoint.core.io import say

RENAMED = {
    "--self-taught": ("--stage", "distill"),
    "--drawing": ("--stage", "draw"),
    "--for-edits": ("--stage", "edit"),
    "--looks": ("--views",),
    "--whole": ("--subjects", "whole"),
}


def renamed(words: Sequence[str]) -> list[str]:
    """The words of a command line by today's names."""
    found: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        new = RENAMED.get(name.replace("_", "-"))
        if new is None:
            found.append(word)
            continue
        say(f"{name} is called {' '.join(new)} now.", error=True)
        found += [*new, value] if equals else new
    return found
