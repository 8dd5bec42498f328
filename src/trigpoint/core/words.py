"""Counts and lists as sentences have them."""

from __future__ import annotations

from collections.abc import Mapping

from trigpoint.core.io import printable


def counted(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def skipped_words(skipped: Mapping[str, str]) -> str:
    """`skipped` are names and reasons."""
    if not skipped:
        return ""
    name, reason = next(iter(skipped.items()))
    more = "" if len(skipped) == 1 else f", and {len(skipped) - 1} more"
    images = counted(len(skipped), "unreadable image")
    return f"Skipped {images}: {printable(name)} ({printable(reason)}){more}."
