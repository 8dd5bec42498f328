"""Saving and restoring: whole, or not at all."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from trigpoint.core.config.tree import Config
from trigpoint.core.errors import TrigpointError
from trigpoint.core.io import write_atomically
from trigpoint.learning import losses
from trigpoint.learning.checkpoint import digest, load_tensors, load_weights, save_tensors
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.training.checkpoint import load_checkpoint, save_checkpoint
from trigpoint.learning.training.optimiser import Muon


def no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def stepped(
    config: Config, steps: int, kind: type[torch.optim.Adam | Muon] = torch.optim.Adam
) -> tuple[Autoencoder, torch.optim.Optimizer]:
    model = Autoencoder(config.model, seed=1)
    optimiser = kind(model.parameters(), lr=1e-3)
    take_steps(config, model, optimiser, range(steps))
    return model, optimiser


def take_steps(config: Config, model: Autoencoder, optimiser: torch.optim.Optimizer, steps: range) -> None:
    size, channels = config.model.image_size, config.model.channels
    for step in steps:
        images = torch.rand(4, channels, size, size, generator=torch.Generator().manual_seed(step))
        detection, descriptors = model.train().encode(images)
        optimiser.zero_grad()
        losses.reconstruction(model.decode(detection.landmarks, descriptors), images, 0.05).backward()
        optimiser.step()


def test_write_makes_folders_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_write_that_fails_midway_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, moment, no_space)
        with pytest.raises(OSError, match="No space left"):
            write_atomically(path, b"new and longer")
    assert path.read_bytes() == b"old"
    write_atomically(path, b"new")  # what the failure left behind is not in the way
    assert path.read_bytes() == b"new"


def test_tensors_survive_a_round_trip(tmp_path: Path) -> None:
    tensors = {"a": torch.rand(2, 3), "b": torch.arange(4)}
    tensors["c"] = torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last)
    save_tensors(tmp_path / "t", tensors, {"note": "hello"})
    found, metadata = load_tensors(tmp_path / "t")
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    assert metadata == {"note": "hello"}


def test_the_same_tensors_give_the_same_bytes(tmp_path: Path) -> None:
    tensors = {name: torch.full((3,), 1.0) for name in "edcba"}
    save_tensors(tmp_path / "one", tensors)
    save_tensors(tmp_path / "two", dict(sorted(tensors.items())))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_digest_is_of_what_tensors_hold(tmp_path: Path) -> None:
    tensors = {"a": torch.rand(2, 3, 4, 4), "b": torch.arange(4), "c": torch.tensor(1.5), "d": torch.rand(0)}
    same = {name: tensors[name].clone() for name in "dcba"}
    same["a"] = same["a"].to(memory_format=torch.channels_last)
    save_tensors(tmp_path / "t", same, {"note": "another file"})
    assert digest(tensors) == digest(same) == digest(load_tensors(tmp_path / "t")[0])
    others = [
        {**tensors, "b": torch.tensor([0, 1, 2, 4])},
        {**tensors, "b": torch.arange(4).view(2, 2)},
        {**tensors, "b": torch.arange(4).view(torch.float64)},
        {**tensors, "c": torch.tensor(-1.5)},
        {"e" if name == "b" else name: tensor for name, tensor in tensors.items()},
        {name: tensors[name] for name in "abc"},
    ]
    assert len({digest(tensors), *map(digest, others)}) == 7


@pytest.mark.parametrize("kind", [torch.optim.Adam, Muon])
def test_a_checkpoint_goes_on_exactly_where_it_was(
    micro_colour: Config, tmp_path: Path, kind: type[torch.optim.Adam | Muon]
) -> None:
    """The optimiser's state, the batch-norm buffers and the weights: two more steps give the same bits."""
    model, optimiser = stepped(micro_colour, 3, kind)
    average = {name: value.detach().clone() * 0.5 for name, value in model.named_parameters()}
    save_checkpoint(tmp_path / "state", 3, model, optimiser, average)

    other = Autoencoder(micro_colour.model, seed=9)
    restored = kind(other.parameters(), lr=1e-3)
    found = {name: torch.zeros_like(value) for name, value in average.items()}
    assert load_checkpoint(tmp_path / "state", 10, other, restored, found) == 3
    assert found.keys() == average.keys()
    assert all(torch.equal(found[name], average[name]) for name in average)
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert optimiser.state[one].keys() == restored.state[two].keys()
        for key, value in optimiser.state[one].items():
            assert torch.equal(value, restored.state[two][key]), key

    take_steps(micro_colour, model, optimiser, range(3, 5))
    take_steps(micro_colour, other, restored, range(3, 5))
    for (name, one), two in zip(model.state_dict().items(), other.state_dict().values(), strict=True):
        assert torch.equal(one, two), name


def test_a_checkpoint_of_before_there_was_a_choice_of_optimiser(micro: Config, tmp_path: Path) -> None:
    model, optimiser = stepped(micro, 2)
    save_checkpoint(tmp_path / "state", 2, model, optimiser, {})
    tensors, metadata = load_tensors(tmp_path / "state")
    old = {name.replace("optimiser/", "adam/"): value for name, value in tensors.items()}
    save_tensors(tmp_path / "old", old, metadata)

    other = Autoencoder(micro.model, seed=9)
    restored = torch.optim.Adam(other.parameters())
    assert load_checkpoint(tmp_path / "old", 10, other, restored, {}) == 2
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(optimiser.state[one]["exp_avg"], restored.state[two]["exp_avg"])


def test_a_checkpoint_before_the_first_step(micro: Config, tmp_path: Path) -> None:
    model, optimiser = stepped(micro, 0)
    save_checkpoint(tmp_path / "state", 0, model, optimiser, {})
    other = Autoencoder(micro.model, seed=9)
    restored = torch.optim.Adam(other.parameters())
    assert load_checkpoint(tmp_path / "state", 10, other, restored, {}) == 0
    assert not restored.state


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.999])
def test_a_truncated_checkpoint_is_refused(micro: Config, tmp_path: Path, part: float) -> None:
    model, optimiser = stepped(micro, 1)
    path = tmp_path / "state"
    save_checkpoint(path, 1, model, optimiser, {})
    data = path.read_bytes()
    path.write_bytes(data[: int(part * len(data))])
    with pytest.raises(TrigpointError, match="damaged or no safetensors file"):
        load_checkpoint(path, 10, model, optimiser, {})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrigpointError, match=r"There is no file .*nothing\.safetensors"):
        load_tensors(tmp_path / "nothing.safetensors")


def test_a_file_without_a_step_is_no_checkpoint(micro: Config, tmp_path: Path) -> None:
    model, optimiser = stepped(micro, 0)
    weights = {f"model/{name}": value for name, value in model.state_dict().items()}
    for metadata in (None, {"step": "many"}):
        save_tensors(tmp_path / "state", weights, metadata)
        with pytest.raises(TrigpointError, match="no checkpoint of a run"):
            load_checkpoint(tmp_path / "state", 10, model, optimiser, {})


def test_weights_of_another_shape_are_refused(micro: Config, tmp_path: Path) -> None:
    wider = Autoencoder(replace(micro.model, landmarks=6))
    with pytest.raises(TrigpointError, match="do not fit the model of its config") as caught:
        load_weights(Autoencoder(micro.model), wider.state_dict(), tmp_path / "model.safetensors")
    assert "model.safetensors" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_and_foreign_weights_are_refused(micro: Config, tmp_path: Path) -> None:
    model = Autoencoder(micro.model)
    weights = model.state_dict()
    name = next(iter(weights))
    for changed in ({n: v for n, v in weights.items() if n != name}, {**weights, "foreign": torch.ones(1)}):
        with pytest.raises(TrigpointError, match="do not fit the model of its config"):
            load_weights(model, changed, tmp_path / "model.safetensors")


def rewritten(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> Path:
    """As another program, or an earlier version of this one, would write it: without a checksum."""
    path.write_bytes(save({name: tensor.contiguous() for name, tensor in tensors.items()}, metadata))
    return path


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


def test_any_change_of_a_file_is_noticed(micro: Config, tmp_path: Path) -> None:
    """A weight, the average, the optimiser's memory, the step: the last bits and the header."""
    path = tmp_path / "state"
    model, optimiser = stepped(micro, 2)
    average = {name: value.detach().clone() for name, value in model.named_parameters()}
    save_checkpoint(path, 2, model, optimiser, average, {"recon": 1.5})
    data = path.read_bytes()
    for place in [*range(9, len(data), len(data) // 60), data.index(b"1.5"), data.index(b'"step":"2"') + 8]:
        path.write_bytes(flipped(data, place))
        with pytest.raises(TrigpointError, match="damaged"):
            load_checkpoint(path, 10, model, optimiser, average)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_without_a_checksum_numbers_must_be_finite(tmp_path: Path, value: float) -> None:
    old = {"a": torch.arange(3), "b": torch.ones(2, dtype=torch.float16)}
    assert load_tensors(rewritten(tmp_path / "old", old, {}))[0].keys() == old.keys()
    with pytest.raises(TrigpointError, match="old is damaged: its c holds what is no finite number"):
        load_tensors(rewritten(tmp_path / "old", {**old, "c": torch.tensor([1.0, value])}, {}))


@pytest.mark.parametrize("words", [
    {"step": "999"}, {"step": "-1"}, {"step": "null"}, {"step": "true"}, {"step": "2.0"}, {"step": "1e999"},
    {"step": "[" * 5000}, {"sums": "null"}, {"sums": "[1]"}, {"sums": '{"recon": NaN}'},
    {"sums": '{"recon": "1"}'}, {"sums": '{"recon": 1' + "0" * 400 + "}"},
])  # fmt: skip
def test_a_step_is_one_of_the_run(micro: Config, tmp_path: Path, words: dict[str, str]) -> None:
    model, optimiser = stepped(micro, 2)
    save_checkpoint(tmp_path / "state", 2, model, optimiser, {})
    tensors, metadata = load_tensors(tmp_path / "state")
    assert load_checkpoint(rewritten(tmp_path / "old", tensors, metadata), 40, model, optimiser, {}) == 2
    with pytest.raises(TrigpointError, match=r"old is (damaged|no checkpoint of a run): it"):
        load_checkpoint(rewritten(tmp_path / "old", tensors, metadata | words), 40, model, optimiser, {})


@pytest.mark.parametrize("kind", [torch.optim.Adam, Muon])
def test_tensors_are_those_of_the_model_and_its_optimiser(
    micro: Config, tmp_path: Path, kind: type[torch.optim.Adam | Muon]
) -> None:
    model, optimiser = stepped(micro, 2, kind)
    average = {name: value.detach().clone() for name, value in model.named_parameters()}
    save_checkpoint(tmp_path / "state", 2, model, optimiser, average)
    tensors, metadata = load_tensors(tmp_path / "state")
    for group in ("model", "average", "optimiser"):
        name = next(name for name in tensors if name.startswith(group) and tensors[name].ndim == 4)
        value = tensors[name]
        rest = {other: tensors[other] for other in tensors if other != name}
        more = {**tensors, f"{group}/more": value.clone()}
        others = [{**rest, name: one} for one in (value[..., :1], value.double(), value.long())]
        for changed in (rest, more, *others):
            path = rewritten(tmp_path / "old", changed, metadata)
            with pytest.raises(TrigpointError, match="old"):
                load_checkpoint(path, 40, model, optimiser, average)


def test_a_negative_variance_is_no_variance(micro: Config, tmp_path: Path) -> None:
    """Its root would make every landmark NaN."""
    model = Autoencoder(micro.model)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    next(value for name, value in weights.items() if name.endswith("running_var"))[0] = -1
    with pytest.raises(TrigpointError, match="running_var is negative"):
        load_weights(model, weights, tmp_path / "model.safetensors")
