"""Pickles read without unpickling them: what Python's own pickler writes, and what a hostile one does."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trigpoint.core.readers.plain_pickle import NotPlain, plain

PLAIN = st.recursive(
    st.text() | st.integers(-(2**80), 2**80) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=5) | st.lists(inner, max_size=5).map(tuple),
    max_leaves=30,
)


@given(PLAIN, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_what_the_pickler_writes_in_every_protocol(value: Any, protocol: int) -> None:
    found = plain(pickle.dumps(value, protocol))
    assert found == value
    assert repr(found) == repr(value)  # 1 is not True


def test_shared_parts_and_python_2_s_text() -> None:
    name = "snout"
    assert plain(pickle.dumps([(name, "x"), (name, "y")], 0)) == [(name, "x"), (name, "y")]
    assert plain(b"(lp0\nS'snout'\np1\na(g1\nI2\ntp2\na.") == ["snout", ("snout", 2)]


class Runs:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.marker}",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_runs_a_command_does_not(tmp_path: Path, protocol: int) -> None:
    with pytest.raises(NotPlain, match=r"instruction (STACK_)?GLOBAL, which could run code"):
        plain(pickle.dumps(["snout", Runs(tmp_path / "ran")], protocol))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"cos\nsystem\n.", b"(ios\nsystem\n.", b"\x8c\x02os\x8c\x06system\x93.", b"NR.", b"(oN.",
        b"Nb.", b"N\x81.", b"N\x92.", b"\x82\x01.", b"\x83\x01\x00.", b"Pname\n.", b"NQ.", b"\x97.",
        b"}.", b"F1.5\n.",
    ],
)  # fmt: skip
def test_whatever_imports_calls_or_builds_is_refused_by_its_name(data: bytes) -> None:
    with pytest.raises(NotPlain, match=r"with the instruction [A-Z_0-9]+, which could run code"):
        plain(data)


@pytest.mark.parametrize(
    "data",
    [
        b"", b".", b"I1", b"I1\nI2\n.", b"a.", b"t.", b"e.", b"g7\n.", b"I1\nI2\na.", b"(.", b"I1\n(.",
        b"\x85.", b"I1\n\x86.", b"p0\n.", b"I1\n\x87.", b"Ix\n.", b"\xff", b"X\xff\xff\xff\x7fa.",
        b"S'a\n.", b"I" + b"9" * 9000 + b"\n.",
        b"V" + b"a" * 2**20 + b"\n.",
    ],
)  # fmt: skip
def test_damaged_pickles_are_refused(data: bytes) -> None:
    with pytest.raises(NotPlain, match=r"^a (damaged pickle|pickle of [\d,]+ bytes)$"):
        plain(data)
