"""Landmark colours."""

from __future__ import annotations

import itertools
import re

import pytest

from trigpoint.core.config.tree import MAX_LANDMARKS
from trigpoint.core.palette import colours, hexadecimal


@pytest.mark.parametrize("count", [0, 1, 7, 10, 11, 30, MAX_LANDMARKS])
def test_as_many_distinct_colours_as_asked_for(count: int) -> None:
    found = colours(count)
    assert len(found) == len(set(found)) == count
    assert all(0 <= value <= 255 for value in itertools.chain(*found))


def test_a_landmark_keeps_its_colour_however_many_there_are() -> None:
    assert colours(40)[:5] == colours(5)
    assert colours(40)[:25] == colours(25)


def test_the_first_ten_are_easily_told_apart() -> None:
    for one, two in itertools.combinations(colours(10), 2):
        assert sum(abs(a - b) for a, b in zip(one, two, strict=True)) > 90


def test_hexadecimal() -> None:
    assert hexadecimal((0, 128, 255)) == "#0080ff"
    assert all(re.fullmatch("#[0-9a-f]{6}", hexadecimal(colour)) for colour in colours(30))
