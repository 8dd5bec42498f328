"""Errors that a person caused and can mend: the CLI prints them as one sentence and exits with 2."""

from __future__ import annotations


class TrigpointError(Exception):
    """Bad input. The message names what was found, where, and what was expected."""


class UnreadableImage(TrigpointError):
    """One image cannot be used; a run skips it, counts it and names it in the report."""


class TrigpointWarning(UserWarning):
    """A call did what it could, which is probably not what was meant."""
