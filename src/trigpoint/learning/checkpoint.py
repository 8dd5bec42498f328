"""Weights in safetensors files: written whole with a checksum, read with a wary eye."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from trigpoint.core.errors import TrigpointError
from trigpoint.core.io import regular, write_atomically

CHECKSUM = "checksum"  # in the metadata of a file, of all the rest
HALVES = (torch.float16, torch.bfloat16)  # of what weights may have been converted to


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    plain = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    words = dict(metadata or {})
    write_atomically(path, save(plain, words | {CHECKSUM: checksum(plain, words)}))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """All tensors and the metadata of a safetensors file, as they were saved: files of before there was a
    checksum, and those that another program wrote, must hold finite numbers at least."""
    try:
        with safe_open(regular(path), "pt") as stream:
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
            metadata = dict(stream.metadata() or {})
    except FileNotFoundError:
        raise TrigpointError(f"There is no file {path}.") from None
    except (SafetensorError, OSError) as error:
        raise TrigpointError(f"{path} is damaged or no safetensors file: {str(error)[:200]}.") from None
    wanted = metadata.pop(CHECKSUM, None)
    if wanted is not None and wanted != checksum(tensors, metadata):
        raise TrigpointError(f"{path} is damaged: its contents have changed since it was written.")
    for name, tensor in tensors.items():
        if not is_finite(tensor):
            raise TrigpointError(f"{path} is damaged: its {name} holds what is no finite number.")
    return tensors, metadata


def is_finite(tensor: Tensor) -> bool:
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return True
    wide = tensor.float() if tensor.is_floating_point() and tensor.itemsize == 1 else tensor
    return bool(torch.isfinite(wide).all())


def checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps([digest(tensors), sorted(metadata.items())]).encode()).hexdigest()


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
        for name, own in model.state_dict().items():
            kind = tensors[name].dtype if name in tensors else own.dtype
            if kind != own.dtype and not (own.is_floating_point() and kind in HALVES):
                raise RuntimeError(f"{name} is of kind {kind}, not {own.dtype}.")
            if name.endswith("running_var") and name in tensors and (tensors[name] < 0).any():
                raise RuntimeError(f"{name} is negative.")
        model.load_state_dict(dict(tensors))
    except RuntimeError as error:
        reason = str(error).split("\n")[1].strip() if "\n" in str(error) else str(error)
        raise TrigpointError(f"The weights in {where} do not fit the model of its config: {reason}") from None
