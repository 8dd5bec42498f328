"""Break off training, detection, fitting and generation at random moments and on full disks, do them again as
a user would, and compare with what an undisturbed call wrote.

python tools/faults.py                        60 moments of each verb, every page and file of a full disk
python tools/faults.py --moments 3 --disk 4   a few of each
python tools/faults.py --only train/17        one case again; its folder stays

A case is broken off at a moment, and repeated: by --resume or by the same command. Where that is refused in
one sentence, what the sentence says is done. In the end weights and tables must be those of the undisturbed
call byte for byte, other files say the same but for times, and nothing else may be left. It goes on where it
was stopped: finished cases are in WORK/cases.jsonl. Exit code 1 where a case failed. Linux only.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro
from faulting import disk, process
from faulting.process import Ended
from faulting.same import differences, unreadable
from faulting.verbs import OUT, Verb, make_inputs, verbs

SIGNALS = {
    "SIGKILL": ((0.0, signal.SIGKILL),),
    "SIGTERM": ((0.0, signal.SIGTERM),),
    "SIGINT x2": ((0.0, signal.SIGINT), (0.2, signal.SIGINT)),
}
ENDS = (0, 1, 2, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT)  # codes that a call may end with
REDRAWN = 5  # times that a moment is drawn again which came after the end
KINDS = ("pages", "files")  # what a disk has too few of
FOLDERS = 3  # of the files on it are folders that are there already


@dataclass(frozen=True)
class Faults:
    """Break commands off, repeat them, compare."""

    work: Path = Path(tempfile.gettempdir()) / "trigpoint-faults"
    """Where inputs, references, finished cases and the folders of failed ones are kept."""
    verb: tuple[str, ...] = ()
    """Only these verbs."""
    moments: int = 60
    """Moments at which each verb is broken off."""
    disk: int = 1000
    """How many sizes of a full disk at most, for each verb and kind."""
    seed: int = 0
    """Decides the moments."""
    only: str = ""
    """One case, such as train/17 or video/pages/3."""


@dataclass
class Case:
    """One fault and what came of it."""

    name: str  # VERB/NUMBER or VERB/KIND/LIMIT
    fault: str
    moment: float | None = None
    fresh: bool = False
    seed: int = 0
    ended: int = 0  # the exit code of the call that was disturbed
    refused: list[str] = field(default_factory=list)  # what repeating was refused with, before it was done
    failures: list[str] = field(default_factory=list)

    @property
    def verb(self) -> str:
        return self.name.split("/")[0]


class Tool:
    def __init__(self, args: Faults) -> None:
        self.args = args
        self.inputs, self.references = args.work / "inputs", args.work / "references"
        self.state = args.work / "cases.jsonl"
        self.verbs = verbs(self.inputs)
        self.chosen = [args.only.split("/")[0]] if args.only else args.verb or tuple(self.verbs)
        self.seconds: dict[tuple[str, bool], float] = {}  # of a verb, in a new Python or a fork
        self.room: dict[str, dict[str, int]] = {}  # that a verb needs on the disk
        done = self.state.read_text().splitlines() if self.state.exists() else []
        cases = [Case(**json.loads(line)) for line in done]
        self.cases = {case.name: case for case in cases if case.seed == args.seed}

    def run(self) -> int:
        self.mounts = bool(self.args.disk) and disk.available()
        process.import_all()
        self._prepare()
        if self.args.only:
            name, *rest = self.args.only.split("/")
            verb = self.verbs[name]
            case = self.full(verb, rest[0], int(rest[1])) if rest[1:] else self.signalled(verb, int(rest[0]))
            self._note(case)
            return int(bool(case.failures))
        for name in self.chosen:
            verb = self.verbs[name]
            for number in range(self.args.moments):
                if f"{name}/{number}" not in self.cases:
                    self._note(self.signalled(verb, number))
            for kind in KINDS if self.mounts else ():
                for limit in self._limits(verb, kind):
                    if f"{name}/{kind}/{limit}" not in self.cases:
                        self._note(self.full(verb, kind, limit))
        if self.args.disk and not self.mounts:
            print("No disk was filled: this user may not mount one.")
        cases = [case for case in self.cases.values() if case.verb in self.chosen]
        print(table(cases))
        failed = [case for case in cases if case.failures]
        for case in failed:
            print(f"\n{case.fault}, moment {case.moment}; again: --only {case.name} --seed {case.seed}")
            print(*(f"  {failure}" for failure in case.failures), sep="\n")
        return int(bool(failed))

    def _prepare(self) -> None:
        """Inputs, and the results of undisturbed calls by a new Python; a fork must come to the same."""
        if not (self.inputs / "complete").exists():
            shutil.rmtree(self.inputs, ignore_errors=True)
            process.apart(make_inputs, self.inputs)
            (self.inputs / "complete").touch()
        for name in self.chosen:
            verb, place = self.verbs[name], self.references / name
            notes = self.references / f"{name}.json"
            if not notes.exists():
                _clear(place)
                fresh = self._undisturbed(verb, place, fresh=True)
                with self._disk() as folder:
                    peak = disk.Peak(folder)
                    forked = self._undisturbed(verb, folder / "place", watch=peak)
                    if said := self._differences(verb, folder / "place"):
                        raise SystemExit(f"{name} is not the same in a fork: {said}")
                notes.write_text(json.dumps([fresh, forked, peak.pages, peak.files - FOLDERS]))
            self.seconds[name, True], self.seconds[name, False], *room = json.loads(notes.read_text())
            self.room[name] = dict(zip(KINDS, room, strict=True))

    def _undisturbed(self, verb: Verb, place: Path, **how: Any) -> float:
        ended = process.run(verb.words, *_places(place), **how)
        if ended.code:
            raise SystemExit(f"{verb.name} fails undisturbed: {ended.error}")
        return ended.seconds

    @contextmanager
    def _disk(self) -> Iterator[Path]:
        """A folder, on a disk of its own where there can be one."""
        folder = self.args.work / "disk"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if self.mounts:
            disk.mount(folder)
        try:
            yield folder
        finally:
            if self.mounts:
                disk.unmount(folder)

    def _differences(self, verb: Verb, place: Path) -> list[str]:
        return list(process.apart(differences, self.references / verb.name / OUT, place / OUT))

    def _left(self, verb: Verb, place: Path) -> list[str]:
        """Temporary files that the undisturbed call, or a library in it, does not leave."""
        there, usual = (set(os.listdir(_places(one)[1])) for one in (place, self.references / verb.name))
        return [f"{name} is left in TMPDIR" for name in sorted(there - usual)]

    # Signals

    def signalled(self, verb: Verb, number: int) -> Case:
        draw = random.Random(f"{self.args.seed}/{verb.name}/{number}")
        fault = list(SIGNALS)[number % len(SIGNALS)]
        case = Case(f"{verb.name}/{number}", fault, fresh=number % 7 == 0, seed=self.args.seed)
        place = self.args.work / "broken" / f"{verb.name}-{number}"
        for _ in range(REDRAWN):
            _clear(place)
            whole = self.seconds[verb.name, case.fresh]
            part = min(1.0, whole)
            begin = {0: 0.0, 1: whole - part}.get(number % 10)  # the first second, the last, any
            case.moment = round(
                draw.uniform(0, whole) if begin is None else draw.uniform(begin, begin + part), 3
            )
            plan = [(case.moment + delay, which) for delay, which in SIGNALS[fault]]
            ended = process.run(verb.words, *_places(place), fresh=case.fresh, plan=plan)
            if ended.sent:
                break
            self.seconds[verb.name, case.fresh] = min(whole, ended.seconds)
        else:
            case.failures.append(f"every moment came after the end, the last at {case.moment} s")
        self._judge(case, ended, place)
        self._repeat(case, verb, place, draw)
        if fault != "SIGKILL":  # after which nobody is left to tidy up
            case.failures += self._left(verb, place)
        if not case.failures and not self.args.only:
            _clear(place)
        return case

    def _judge(self, case: Case, ended: Ended, place: Path) -> None:
        """What may be said of a call that did not reach its end, and what may be left of it."""
        case.ended = ended.code
        if ended.hung:
            case.failures.append("it hangs")
        if ended.traceback or ended.code not in ENDS:
            case.failures.append(f"it ends with code {ended.code} and says: {ended.error}")
        case.failures += process.apart(unreadable, place / OUT)

    def _repeat(self, case: Case, verb: Verb, place: Path, draw: random.Random) -> None:
        """As a user would, until it is done."""
        words = verb.resume if verb.resume and draw.random() < 0.5 else verb.words
        tried = []
        while True:
            ended = process.run(words, *_places(place))
            tried.append(words)
            if ended.code == 0:
                break
            sentence = ended.error.strip().split("\n")[-1]
            case.refused.append(sentence)
            ways = {
                verb.resume: "--resume" in sentence and bool(verb.resume),
                (*verb.words, "--overwrite"): "--overwrite" in sentence,
                verb.words: "is no run folder" in sentence,
            }
            way = next((way for way, said in ways.items() if said and way not in tried), None)
            if ended.code != 2 or ended.traceback or way is None:
                case.failures.append(f"repeating ends with code {ended.code} and says: {ended.error}")
                return
            words = way
        case.failures += self._differences(verb, place)

    # Full disks

    def _limits(self, verb: Verb, kind: str) -> list[int]:
        """Sizes with which the verb cannot finish, all of them or some evenly between."""
        enough = self.room[verb.name][kind]
        count = min(self.args.disk, enough)
        return [1 + (2 * step + 1) * enough // (2 * count) for step in range(count)]

    def full(self, verb: Verb, kind: str, limit: int) -> Case:
        case = Case(f"{verb.name}/{kind}/{limit}", f"disk of few {kind}", seed=self.args.seed)
        draw = random.Random(f"{self.args.seed}/{case.name}")
        with self._disk() as folder:
            place, temporary = _places(folder / "place")
            disk.mount(folder, again=True, **{kind: limit + (FOLDERS if kind == "files" else 0)})
            ended = process.run(verb.words, place, temporary, full=True)
            self._judge(case, ended, place)
            sentence = ended.error.strip().split("\n")[-1]
            if ended.code not in (0, 1, 2) or (ended.code and not sentence.startswith("trigpoint: ")):
                case.failures.append(f"it ends with code {ended.code} and says: {ended.error}")
            disk.mount(folder, again=True)
            self._repeat(case, verb, place, draw)
            case.failures += self._left(verb, place)
            if case.failures:
                kept = self.args.work / "broken" / case.name.replace("/", "-")
                shutil.copytree(folder / "place", kept, dirs_exist_ok=True)
        return case

    def _note(self, case: Case) -> None:
        self.cases[case.name] = case
        with self.state.open("a") as stream:
            stream.write(json.dumps(vars(case)) + "\n")
        what = "; ".join(case.failures) or ("refused, then alike" if case.refused else "alike")
        at = f" at {case.moment:.2f} s" if case.moment is not None else ""
        print(
            f"{time.strftime('%H:%M:%S')} {case.name} {case.fault}{at}: code {case.ended}; {what}", flush=True
        )


def _places(place: Path) -> tuple[Path, Path]:
    """The folder that a command is called in, and one for its temporary files beside it."""
    temporary = place.with_name(f"{place.name}.tmp")
    for folder in (place, temporary):
        folder.mkdir(parents=True, exist_ok=True)
    return place, temporary


def _clear(place: Path) -> None:
    for folder in (place, place.with_name(f"{place.name}.tmp")):
        shutil.rmtree(folder, ignore_errors=True)


def table(cases: list[Case]) -> str:
    rows: dict[tuple[str, str], list[int]] = {}
    for case in cases:
        row = rows.setdefault((case.verb, case.fault), [0, 0, 0, 0])
        row[0] += 1
        row[3 if case.failures else 2 if case.refused else 1] += 1
    lines = [f"{'verb':10}{'fault':20}{'cases':>8}{'alike':>8}{'refused, then alike':>22}{'failures':>10}"]
    for (verb, fault), (count, alike, refused, failed) in rows.items():
        lines.append(f"{verb:10}{fault:20}{count:8}{alike:8}{refused:22}{failed:10}")
    return "\n".join(lines)


def main() -> int:
    args: Any = tyro.cli(Faults, description=__doc__)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's & would have ignored
    args.work.mkdir(parents=True, exist_ok=True)
    return Tool(args).run()


if __name__ == "__main__":
    sys.exit(main())
