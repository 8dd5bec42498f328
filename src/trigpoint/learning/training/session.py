"""What a training does around its steps: go on from a checkpoint, log, save, stop when told to.

with Session(run, state, steps, batch_size) as session:
    for step in session.steps():
        ...
        session.record(step, terms)
"""

from __future__ import annotations

import contextlib
import json
import math
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import torch
from torch import Tensor, nn

from trigpoint.core.io import peak_memory_mb, write_atomically
from trigpoint.core.progress import Progress
from trigpoint.core.runs import Run
from trigpoint.learning.training.average import Average
from trigpoint.learning.training.checkpoint import load_checkpoint, save_checkpoint

LOG_TIMES = 200  # lines in log.jsonl over a run
CHECKPOINT_SECONDS = 60.0


class TrainingFailed(Exception):
    """Training cannot go on; the message says why and what is kept."""


class Interrupted(Exception):
    """Stopped by the user; everything is saved."""


@dataclass(frozen=True)
class State:
    """What a checkpoint holds beside the step. Randomness needs none of it: it follows from the step."""

    model: nn.Module
    optimiser: torch.optim.Optimizer
    average: Average


class Session:
    """One training of a run's folder, which is claimed already."""

    def __init__(self, run: Run, state: State, steps: int, batch_size: int) -> None:
        self.run, self.state, self.total = run, state, steps
        self.log_every = max(1, steps // LOG_TIMES)
        self.first = 0
        self.sums: dict[str, float] = {}  # of the losses since the last line of the log
        if run.checkpoint_file.exists():
            self.first = load_checkpoint(
                run.checkpoint_file, steps, state.model, state.optimiser, state.average.weights, self.sums
            )
            run.truncate_log(self.first)
        else:
            write_atomically(run.log_file, b"")
        self.bar = Progress("training", steps, per_step=batch_size, done=self.first)
        self.saved_at = time.monotonic()
        self.open = contextlib.ExitStack()

    @property
    def fresh(self) -> bool:
        """Whether no earlier call left a checkpoint."""
        return self.first == 0

    def __enter__(self) -> Self:
        self.interrupted = self.open.enter_context(interruptible())
        self.open.enter_context(self.bar)
        self.log = self.open.enter_context(self.run.log_file.open("a"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.open.__exit__(kind, error, trace)

    def steps(self) -> Iterator[int]:
        yield from range(self.first, self.total)

    def refuse_not_finite(self, step: int, terms: Mapping[str, Tensor], hint: str) -> None:
        """Before the optimiser's step: weights that are no numbers are never saved."""
        gradients = [value.grad for value in self.state.model.parameters() if value.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients).item()
        bad = [name for name, term in terms.items() if not math.isfinite(term.item())]
        if not bad and math.isfinite(norm):
            return
        what = f"the loss {', '.join(bad)}" if bad else f"the gradient (norm {norm})"
        saved = self.run.checkpoint_file.exists()
        kept = "The last good checkpoint is kept" if saved else "No checkpoint existed yet"
        raise TrainingFailed(
            f"Training stopped at step {step}: {what} is not finite. {kept} in {self.run.folder}. "
            f"A lower learning rate ({hint}) usually helps."
        )

    @property
    def rate(self) -> float:
        """Images per second."""
        return self.bar.rate

    def record(self, step: int, terms: Mapping[str, Tensor]) -> None:
        """After a step: tell, save, and stop if told to."""
        done = step + 1
        values = {name: term.item() for name, term in terms.items()}
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        if done % self.log_every == 0 or done == self.total:
            self._log(done, (step % self.log_every) + 1)
        self.bar.update(done, "  ".join(f"{name} {value:.3g}" for name, value in values.items()))
        self.run.check_there(self.log)
        stop = self.interrupted.is_set()
        if stop or done == self.total or time.monotonic() - self.saved_at > CHECKPOINT_SECONDS:
            state = self.state
            save_checkpoint(
                self.run.checkpoint_file, done, state.model, state.optimiser, state.average.weights, self.sums
            )
            self.saved_at = time.monotonic()
        if stop and done < self.total:
            raise Interrupted(
                f"Stopped at step {done} of {self.total}; everything is saved in {self.run.folder}."
            )

    def _log(self, done: int, steps: int) -> None:
        means = {name: round_off(value / steps) for name, value in self.sums.items()}
        told = {"step": done, "images_per_second": round_off(self.rate)}
        if (memory := peak_memory_mb()) is not None:
            told["memory_mb"] = memory
        self.log.write(json.dumps(means | told) + "\n")
        self.log.flush()
        self.sums.clear()


def round_off(value: float) -> float:
    return float(f"{value:.6g}")


@contextlib.contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM set the event instead of breaking off in the middle of a step."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    kept = {
        number: signal.signal(number, lambda *_: event.set()) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield event
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
