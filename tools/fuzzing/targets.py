"""All targets, by the names that the command line knows them by."""

from __future__ import annotations

from fuzzing import datasets, pictures, requests, runs, tables
from fuzzing.made import prepare
from fuzzing.target import Target

__all__ = ["TARGETS", "prepare"]

TARGETS: dict[str, Target] = {
    **pictures.TARGETS,
    **tables.TARGETS,
    **datasets.TARGETS,
    **runs.TARGETS,
    **requests.TARGETS,
}
