"""Lists, tuples, text and whole numbers out of a pickle, without unpickling it.

PyTables keeps the attributes of a DeepLabCut file that are no text as pickles, the names of the body parts
among them. An unpickler would run what a hostile file tells it to. Here the opcodes are read one after the
other; the few below are understood, and one that imports, calls or builds anything ends the reading.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any

CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
VALUES = {
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "STRING", "BINSTRING", "SHORT_BINSTRING"),
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1"),
}
NOTHING_TO_DO = {"PROTO", "FRAME"}
REMEMBER = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}
RECALL = {"GET", "BINGET", "LONG_BINGET"}
BEGIN = {"EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
MOST = 2**20  # bytes of a pickle; HDF5 itself keeps 64 KB in an attribute


class NotPlain(Exception):
    """The pickle is damaged, or holds more than lists, tuples, text and whole numbers."""


def plain(data: bytes) -> Any:
    """What the pickle holds. A list may hold itself: look at it no deeper than you expect it to be."""
    if len(data) > MOST:
        raise NotPlain(f"a pickle of {len(data):,} bytes")
    machine = _Machine()
    try:
        for opcode, value, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                (found,) = machine.stack
                if machine.marks:
                    raise NotPlain("a damaged pickle")
                return found
            machine.step(opcode.name, value)
    except NotPlain:
        raise
    except Exception:  # whatever a damaged pickle makes pickletools raise
        raise NotPlain("a damaged pickle") from None
    raise NotPlain("a damaged pickle")


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []  # how long the stack was at each mark that is open
        self.memo: dict[int, Any] = {}
        self.known: dict[str, Callable[[], None]] = {
            "MARK": lambda: self.marks.append(len(self.stack)),
            "TUPLE": lambda: self.stack.append(tuple(self._since_mark())),
            "LIST": lambda: self.stack.append(self._since_mark()),
            "APPEND": lambda: self._extend([self.stack.pop()]),
            "APPENDS": lambda: self._extend(self._since_mark()),
        }

    def step(self, name: str, value: Any) -> None:
        if name in VALUES:
            self.stack.append(value)
        elif name in CONSTANTS:
            self.stack.append(CONSTANTS[name])
        elif name in BEGIN:
            self.stack.append(BEGIN[name]())
        elif name in TUPLES:
            self.stack.append(tuple(reversed([self.stack.pop() for _ in range(TUPLES[name])])))
        elif name in REMEMBER:
            self.memo[len(self.memo) if value is None else value] = self.stack[-1]
        elif name in RECALL:
            self.stack.append(self.memo[value])
        elif name in self.known:
            self.known[name]()
        elif name not in NOTHING_TO_DO:
            raise NotPlain(f"a pickle with the instruction {name}, which could run code")

    def _since_mark(self) -> list[Any]:
        start = self.marks.pop()
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def _extend(self, values: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise NotPlain("a damaged pickle")
        self.stack[-1].extend(values)
