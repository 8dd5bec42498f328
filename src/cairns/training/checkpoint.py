"""The resumable state of a run: one safetensors file, replaced as a whole or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from cairns.errors import CairnsError
from cairns.io import regular, write_atomically


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    plain = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, save(plain, dict(metadata or {})))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """All tensors and the metadata of a safetensors file."""
    try:
        with safe_open(regular(path), "pt") as stream:
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
            return tensors, stream.metadata() or {}
    except FileNotFoundError:
        raise CairnsError(f"There is no file {path}.") from None
    except (SafetensorError, OSError) as error:
        raise CairnsError(f"{path} is damaged or no safetensors file: {error}.") from None


def digest(tensors: Mapping[str, Tensor]) -> str:
    """The SHA-256 of what tensors hold: names, kinds, shapes and values. Neither their order nor how they lie
    in memory or in a file matters."""
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        plain = tensor.detach().cpu().contiguous()
        found.update(json.dumps([name, str(plain.dtype), list(plain.shape)]).encode())
        found.update(plain.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], where: Path) -> None:
    try:
        model.load_state_dict(dict(tensors))
    except RuntimeError as error:
        reason = str(error).split("\n")[1].strip() if "\n" in str(error) else str(error)
        raise CairnsError(f"The weights in {where} do not fit the model of its config: {reason}") from None


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
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    average: dict[str, Tensor],
    sums: dict[str, float] | None = None,
) -> int:
    """Restore model, optimiser, average and the log's sums in place; returns the step to go on with."""
    tensors, metadata = load_tensors(path)
    groups: dict[str, dict[str, Tensor]] = {"model": {}, "average": {}, "optimiser": {}}
    for name, value in tensors.items():
        group, _, rest = name.partition("/")
        groups.setdefault(group, {})[rest] = value
    load_weights(model, groups["model"], path)
    average.update(groups["average"])
    parameters = dict(model.named_parameters())
    # Before there was another, the optimiser's part was called by its name.
    for key_and_name, value in (groups.get("adam", {}) | groups["optimiser"]).items():
        key, _, name = key_and_name.partition("/")
        if name in parameters:
            state = optimiser.state[parameters[name]]
            state[key] = value.to(memory_format=torch.channels_last) if value.ndim == 4 else value
    try:
        if sums is not None:
            sums.update(json.loads(metadata.get("sums", "{}")))
        return int(json.loads(metadata["step"]))
    except (KeyError, ValueError):
        raise CairnsError(f"{path} is no checkpoint of a run: it names no step.") from None
