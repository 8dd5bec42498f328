"""What was called otherwise in runs of earlier versions: one table, for whatever reads a run's files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FIELDS = {"looks": "views", "train.part": "train.stage", "losses.still": "losses.locality"}
VALUES: dict[str, dict[Any, Any]] = {
    "train.stage": {"all": "discover", "detector": "distill", "drawing": "draw", "decoder": "edit"}
}
META = {"finder": "subject"}  # beside the config
LOG = {"still": "locality"}  # losses


def config(tree: Any) -> Any:
    """A config's tree by today's names; what has them already stays as it is."""
    if not isinstance(tree, dict):
        return tree
    tree = {name: dict(part) if isinstance(part, dict) else part for name, part in tree.items()}
    for old, new in FIELDS.items():
        *parents, name = old.split(".")
        node = tree.get(parents[0]) if parents else tree
        if not isinstance(node, dict) or name not in node:
            continue
        value, target = node.pop(name), new.rpartition(".")[2]
        known = VALUES.get(new, {})
        node[target] = known.get(value, value) if isinstance(value, str) else value
    return tree


def keys(entry: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in entry.items()}
