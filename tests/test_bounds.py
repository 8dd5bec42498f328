"""What pyproject.toml promises of other packages' versions; `make test-lowest` runs the tests with them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {
    name: needs for name, needs in PROJECT["optional-dependencies"].items() if name not in ("all", "dev")
}
NEEDS = [Requirement(text) for texts in (PROJECT["dependencies"], *EXTRAS.values()) for text in texts]


def lowest(need: Requirement) -> Version:
    (bound,) = [Version(rule.version) for rule in need.specifier if rule.operator == ">="]
    return bound


@pytest.mark.parametrize("need", NEEDS, ids=str)
def test_each_has_a_lower_bound(need: Requirement) -> None:
    assert lowest(need) > Version("0")


def test_no_torch_is_allowed_that_was_not_tested() -> None:
    """Older ones are not installed by any command here."""
    pinned = [
        Requirement(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    ]
    (tested,) = [rule.version for need in pinned if need.name == "torch" for rule in need.specifier]
    (bound,) = [lowest(need) for need in NEEDS if need.name == "torch"]
    assert bound == Version(tested)


def test_the_lowest_versions_of_every_extra_are_tested() -> None:
    recipe = (ROOT / "Makefile").read_text()
    assert set(EXTRAS) == {line.split()[0] for line in recipe.split("--extra ")[1:]}
