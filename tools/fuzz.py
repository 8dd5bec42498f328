"""Feed damaged and hostile files to every parser: none may end in a traceback, hang, take much memory, write
where it should not, or run what is in the file.

    python tools/fuzz.py                                 20,000 inputs, half an hour on one core
    python tools/fuzz.py --inputs 2000 --targets coco slp
    python tools/fuzz.py --repeat coco:317               one input again, with what was said
    python tools/fuzz.py --repeat fuzz-failures/coco-317 the same, from the files that were kept

The targets are in tools/fuzzing/targets.py: small valid files, what is changed in them, and the function or
verb that reads them. An input follows from its target and its number alone. It is right if it is accepted,
or refused by one printable line (TrigpointError; exit code 1 or 2) in 20 seconds of computing and 1.5 GB,
with the input as it was and no other file left. `past` in the table is the share that got past the first
look of its parser, such as the signature of a format or that the text is JSON. Readers that have a process
of their own (trigpoint/apart.py) are called in the worker, and in that process for one input of forty and
wherever the worker fails on one. Exit code 1 where an input failed; its files are kept.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fuzzing.target import Target
from fuzzing.targets import TARGETS, prepare
from fuzzing.trial import SECONDS, WHOLE, Outcome, Places, as_line, attempt, confine, judge

TOGETHER = 40  # inputs of one process
HERE = 5  # seconds of computing for what has a process of its own in use; then it is tried there
WAITING = 60  # seconds of the clock in which nothing is computed
PAST = 0.3  # of a run's inputs, at the least


@dataclass
class Count:
    """A line of the table."""

    inputs: int = 0
    past: int = 0
    refused: int = 0
    accepted: int = 0
    failed: int = 0
    seconds: float = 0.0
    peak: float = 0.0

    def add(self, outcome: Outcome) -> None:
        self.inputs += 1
        self.past += outcome.past
        setattr(self, outcome.kind, getattr(self, outcome.kind) + 1)
        self.seconds, self.peak = max(self.seconds, outcome.seconds), max(self.peak, outcome.peak)

    def shown(self, name: str) -> str:
        share = 100 * self.past / max(1, self.inputs)
        return (
            f"{name:18}{self.inputs:8,}{share:8.0f}%{self.refused:9,}{self.accepted:9,}{self.failed:8,}"
            f"{self.seconds:9.1f}{self.peak:8.0f}"
        )


HEADING = (
    f"{'target':18}{'inputs':>8}{'past':>9}{'refused':>9}{'accepted':>9}{'failed':>8}{'seconds':>9}{'MB':>8}"
)


@dataclass
class Worker:
    """Tries inputs in processes that are forked from this one and killed at its limits."""

    work: Path
    keep: Path
    seeds: dict[str, Path] = field(default_factory=dict)

    def seed(self, name: str, target: Target) -> Path:
        if name not in self.seeds:
            self.seeds[name] = self.work / "seeds" / name
            self.seeds[name].mkdir(parents=True)
            target.seed(self.seeds[name])
        return self.seeds[name]

    def run(self, name: str, numbers: Sequence[int]) -> Iterator[tuple[int, Outcome]]:
        """The outcome of each; what failed is kept."""
        left = list(numbers)
        while left:
            part, left = left[:TOGETHER], left[TOGETHER:]
            done = 0
            for number, outcome in self._process(name, part, whole=False):
                done += 1
                if outcome.kind == "failed" and TARGETS[name].apart:
                    ((_, outcome),) = self._process(name, [number], whole=True)
                if outcome.kind == "failed":
                    self._keep(name, number, outcome)
                yield number, outcome
            left = part[done:] + left

    def _process(self, name: str, numbers: Sequence[int], whole: bool) -> Iterator[tuple[int, Outcome]]:
        """Up to the first that fails."""
        target, seed = TARGETS[name], self.seed(name, TARGETS[name])
        limit = HERE if target.apart and not whole else SECONDS
        places = Places(self.work / "place")
        places.clear(None)
        reading, writing = os.pipe()
        sys.stdout.flush()
        child = os.fork()
        if not child:
            try:
                os.setpgid(0, 0)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                os.close(reading)
                confine(places)
                for number in numbers:
                    outcome = attempt(name, target, number, places, seed, whole or number % WHOLE == 0)
                    os.write(writing, as_line(number, outcome))
                    if outcome.kind == "failed":  # its files are kept
                        break
            except BaseException:  # of this tool
                os.write(
                    writing,
                    as_line(number, Outcome("failed", False, 0, 0, f"the tool: {traceback.format_exc()}")),
                )
            finally:
                os._exit(0)
        os.close(writing)
        received = b""
        try:
            for number in numbers:
                start = last = _computed(child)
                moved = time.monotonic()
                while b"\n" not in received:
                    ready, _, _ = select.select([reading], [], [], 1.0)
                    block = os.read(reading, 1 << 16) if ready else b""
                    received += block
                    if ready and block:
                        continue
                    computed = _computed(child)
                    if computed > last:
                        last, moved = computed, time.monotonic()
                    if ready or computed - start > limit or time.monotonic() - moved > WAITING:
                        yield number, Outcome("failed", True, computed - start, 0, _end(child))
                        return
                line, _, received = received.partition(b"\n")
                same, found = json.loads(line)
                outcome = Outcome(**found)
                yield same, outcome
                if outcome.kind == "failed":
                    return
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(child, 0)
            os.close(reading)

    def _keep(self, name: str, number: int, outcome: Outcome) -> None:
        folder = self.keep / f"{name}-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.work / "place" / "input", folder / "input", symlinks=True)
        (folder / "said.txt").write_text(outcome.said, "utf-8", "backslashreplace")


def _computed(process: int) -> float:
    """Seconds that a process and those it started have computed for."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = file.read_text().rpartition(")")[2].split()
            if int(fields[2]) == process:  # of its group
                ticks += sum(map(int, fields[11:15] if file.parent.name == str(process) else fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _end(process: int) -> str:
    for _ in range(20):  # it may be about to end
        done, status = os.waitpid(process, os.WNOHANG)
        if done and os.WIFSIGNALED(status):
            return f"the process died: {signal.Signals(os.WTERMSIG(status)).name}"
        if done:
            return f"the process ended with {status}"
        time.sleep(0.02)
    return "it did not end"


def shares(total: int, names: Sequence[str]) -> dict[str, int]:
    """How many inputs each target gets of so many."""
    whole = sum(TARGETS[name].share for name in names)
    counts = {name: total * TARGETS[name].share // whole for name in names}
    counts[names[0]] += total - sum(counts.values())
    return counts


def repeat(what: str, worker: Worker) -> int:
    """One input again, named or kept, with what was said."""
    path = Path(what)
    name, _, number = path.name.rpartition("-") if path.is_dir() else what.rpartition(":")
    if name not in TARGETS or not number.isdecimal():
        sys.exit(f"--repeat takes TARGET:NUMBER or a folder that was kept; got {what}.")
    if path.is_dir():
        kept, places = path.resolve() / "input", Places(worker.work / "place")
        places.clear(kept)
        child = os.fork()
        if not child:
            outcome = None
            saved = os.dup(1)
            try:
                confine(places)
                outcome = judge(TARGETS[name], places, whole=True)
            finally:
                os.write(saved, f"{outcome}\n".encode())
                os._exit(outcome is None or outcome.kind == "failed")
        return int(bool(os.waitpid(child, 0)[1]))
    ((_, outcome),) = worker.run(name, [int(number)])
    print(f"{name}:{number} {outcome.kind}, {outcome.seconds} s, {outcome.peak} MB", outcome.said, sep="\n")
    return int(outcome.kind == "failed")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=20_000, help="of all targets together")
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS), metavar="TARGET")
    parser.add_argument("--first", type=int, default=0, help="the number of each target's first input")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="where they are kept")
    parser.add_argument("--repeat", help="TARGET:NUMBER, or a folder that was kept")
    parser.add_argument("--list", action="store_true", help="the names of the targets")
    args = parser.parse_args(argv)
    if args.list:
        print(*TARGETS)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # by way of the ends below
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        worker = Worker(Path(folder), args.keep.resolve())
        prepare(Path(folder) / "model")
        gc.freeze()  # of the processes to be forked none looks through all that again
        if args.repeat:
            return repeat(args.repeat, worker)
        print(HEADING, flush=True)
        whole = Count()
        for name, inputs in shares(args.inputs, args.targets).items():
            count = Count()
            for number, outcome in worker.run(name, range(args.first, args.first + inputs)):
                count.add(outcome)
                whole.add(outcome)
                if outcome.kind == "failed":
                    lines = outcome.said.strip().splitlines() or [""]
                    print(f"  {name}:{number}: {lines[-1][:300]}", flush=True)
            print(count.shown(name), flush=True)
        print(whole.shown("all"), flush=True)
    if whole.failed:
        print(f"{whole.failed} inputs failed; they are in {args.keep}")
    if whole.past < PAST * whole.inputs:
        print(f"Fewer than {PAST:.0%} of the inputs got past the first look of their parser.")
    return int(bool(whole.failed) or whole.past < PAST * whole.inputs)


if __name__ == "__main__":
    sys.exit(main())
