"""How a long job tells where it is: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from trigpoint.core.io import printable, say

if TYPE_CHECKING:
    import rich.progress

PLAIN_EVERY = 15.0  # seconds between plain lines


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Progress:
    """`with Progress("training", total) as bar: bar.update(done, "recon 12.3")`."""

    def __init__(
        self, title: str, total: int, *, unit: str = "images", per_step: int = 1, done: int = 0
    ) -> None:
        self.title, self.total, self.unit, self.per_step = printable(title), total, unit, per_step
        self.first = self.done = done
        self.started = time.monotonic()
        self.printed = 0.0
        self.bar: rich.progress.Progress | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich import progress
            from rich.console import Console

            self.bar = progress.Progress(
                progress.TextColumn("{task.description}", markup=False),  # a name may look like markup
                progress.BarColumn(bar_width=24),
                progress.TaskProgressColumn(),
                progress.TextColumn("{task.fields[note]}", markup=False),
                console=Console(stderr=True),
                transient=False,
            )
            self.bar.start()
            self.task = self.bar.add_task(self.title, total=self.total, completed=self.done, note="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
        elif kind is None and self.printed:
            self._line("")

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    @property
    def rate(self) -> float:
        """Units per second since the start."""
        elapsed = self.elapsed
        return (self.done - self.first) * self.per_step / elapsed if elapsed > 0 else 0.0

    def update(self, done: int, note: str = "") -> None:
        self.done = done
        if self.bar is not None:
            self.bar.update(self.task, completed=done, note=self._note(note))
        elif time.monotonic() - max(self.started, self.printed) > PLAIN_EVERY:
            self._line(note)

    def _note(self, note: str) -> str:
        rate = self.rate
        left = (self.total - self.done) * self.per_step / rate if rate else float("inf")
        remaining = f"{clock(left)} left" if rate else "..."
        speed = f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}"
        return "  ".join(part for part in (note, f"{speed} {self.unit}/s", remaining) if part)

    def _line(self, note: str) -> None:
        self.printed = time.monotonic()
        say(f"{self.title} {self.done}/{self.total}  {self._note(note)}", error=True)
