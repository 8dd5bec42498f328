"""The resumable state of a run: one safetensors file, replaced as a whole or not at all."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from trigpoint.core.errors import TrigpointError
from trigpoint.learning.checkpoint import load_tensors, load_weights, save_tensors
from trigpoint.learning.training.optimiser import Muon


def save_checkpoint(
    path: Path,
    step: int,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    average: Mapping[str, Tensor],
    sums: Mapping[str, float] | None = None,
) -> None:
    """Everything that step `step` starts from. Randomness needs no state: it follows from the step."""
    tensors = {f"model/{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"average/{name}": value for name, value in average.items()}
    for name, parameter in model.named_parameters():
        for key, value in optimiser.state.get(parameter, {}).items():
            tensors[f"optimiser/{key}/{name}"] = value
    save_tensors(path, tensors, {"step": json.dumps(step), "sums": json.dumps(dict(sums or {}))})


def load_checkpoint(
    path: Path,
    steps: int,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    average: dict[str, Tensor],
    sums: dict[str, float] | None = None,
) -> int:
    """Restore model, optimiser, average and the log's sums in place; returns the step to go on with.

    `average` comes with the tensors that it is to have. Refused is what no run of `steps` steps of this model
    and optimiser can have written.
    """
    tensors, metadata = load_tensors(path)
    groups: dict[str, dict[str, Tensor]] = {"model": {}, "average": {}, "optimiser": {}}
    for name, value in tensors.items():
        group, _, rest = name.partition("/")
        # Before there was another, the optimiser's part was called by its name.
        groups.setdefault("optimiser" if group == "adam" else group, {})[rest] = value
    step, summed = progress(path, metadata, steps)
    load_weights(model, groups.pop("model"), path)
    kept = groups.pop("average")
    if {name: shaped(value) for name, value in kept.items()} != {
        name: shaped(value) for name, value in average.items()
    }:
        raise TrigpointError(f"{path} is damaged: its average is not that of the model's weights.")
    state = optimiser_state(path, groups.pop("optimiser"), model, optimiser)
    if groups:
        raise TrigpointError(f"{path} is no checkpoint of a run: it holds {next(iter(groups))!r}.")
    average.update(kept)
    for parameter, values in state.items():
        optimiser.state[parameter].update(values)
    if sums is not None:
        sums.update(summed)
    return step


def progress(path: Path, metadata: Mapping[str, str], steps: int) -> tuple[int, dict[str, float]]:
    """The step that a checkpoint was written at, and the log's sums."""
    try:
        step, sums = json.loads(metadata["step"]), json.loads(metadata.get("sums", "{}"))
        whole = all(type(value) in (int, float) and math.isfinite(value) for value in sums.values())
    except (KeyError, ValueError, AttributeError, OverflowError, RecursionError):
        step = None
    if type(step) is not int:
        raise TrigpointError(f"{path} is no checkpoint of a run: it names no step, or no sums of losses.")
    if not 0 <= step <= steps:
        raise TrigpointError(f"{path} is damaged: it is of step {step}, and the run has {steps}.")
    if not whole:
        raise TrigpointError(f"{path} is damaged: its sums of losses are no finite numbers.")
    return step, sums


def optimiser_state(
    path: Path, tensors: Mapping[str, Tensor], model: nn.Module, optimiser: torch.optim.Optimizer
) -> dict[nn.Parameter, dict[str, Tensor]]:
    """What an optimiser remembers of each parameter: of all those that it trains, or of none yet."""
    held = {parameter for group in optimiser.param_groups for parameter in group["params"]}
    names = {name: parameter for name, parameter in model.named_parameters() if parameter in held}
    wanted = {f"{key}/{name}" for name, parameter in names.items() for key in keys(optimiser, parameter)}
    if tensors and tensors.keys() != wanted:
        odd = min(tensors.keys() ^ wanted)
        raise TrigpointError(f"{path} does not fit the optimiser of its config: {odd} is missing or unknown.")
    state: dict[nn.Parameter, dict[str, Tensor]] = {}
    for key_and_name, value in tensors.items():
        key, _, name = key_and_name.partition("/")
        like = names[name]
        shape = torch.Size() if key == "step" else like.shape
        if (value.shape, value.dtype) != (shape, torch.float32 if key == "step" else like.dtype):
            raise TrigpointError(
                f"{path} does not fit the optimiser of its config: {key_and_name} is another."
            )
        if key in ("step", "exp_avg_sq") and (value < 0).any():
            raise TrigpointError(f"{path} is damaged: {key_and_name} is negative.")
        plain = value.to(memory_format=torch.channels_last) if value.ndim == 4 else value
        state.setdefault(like, {})[key] = plain
    return state


def keys(optimiser: torch.optim.Optimizer, parameter: nn.Parameter) -> tuple[str, ...]:
    """What the optimiser remembers of a parameter."""
    by_muon = isinstance(optimiser, Muon) and parameter.ndim == 4
    return ("momentum",) if by_muon else ("step", "exp_avg", "exp_avg_sq")


def shaped(tensor: Tensor) -> tuple[torch.Size, torch.dtype]:
    return tensor.shape, tensor.dtype
