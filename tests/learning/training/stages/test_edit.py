"""Training the decoder alone: what is moved, what is asked, and that landmarks stay."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from trigpoint import api
from trigpoint.app.cli import main
from trigpoint.core.config.presets import preset
from trigpoint.core.config.tree import Config, with_values
from trigpoint.core.errors import TrigpointError
from trigpoint.core.inference.predictor import Predictor
from trigpoint.core.runs import Run
from trigpoint.learning import tensors
from trigpoint.learning.checkpoint import load_tensors
from trigpoint.learning.devices import generator_of
from trigpoint.learning.model.autoencoder import Autoencoder
from trigpoint.learning.tensors import to_tensor
from trigpoint.learning.training import loop, schedule
from trigpoint.learning.training.stages import Batch
from trigpoint.learning.training.stages import edit as edits
from trigpoint.learning.training.stages.edit import (
    FAR,
    FURTHEST,
    NEAR,
    STAGE,
    far_from,
    neighbours,
    steps,
)


def losses_of(
    model: Autoencoder, images: torch.Tensor, config: Config, seed: int = 0
) -> dict[str, torch.Tensor]:
    return STAGE.loss(model, Batch(images, np.arange(len(images))), None, config, 0, generator_of(seed, 0))


def points(batch: int, count: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(batch, count, 2, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("count", "most"), [(1, 1), (2, 2), (10, 3), (30, 10)])
def test_a_few_neighbours_are_moved(count: int, most: int) -> None:
    landmarks = points(200, count)
    chosen = neighbours(landmarks, generator_of(0, 0))
    sizes = chosen.sum(1)
    assert set(sizes.int().tolist()) == set(range(1, most + 1))
    for one, flags in zip(landmarks.numpy(), chosen.numpy(), strict=True):
        # Some landmark has exactly the chosen ones as its nearest, itself among them.
        nearest = cdist(one, one).argsort(1)[:, : int(flags.sum())]
        wanted = set(np.flatnonzero(flags))
        assert any(set(row) == wanted for row in nearest)


def test_steps_go_everywhere_and_not_too_far() -> None:
    found = steps(2000, generator_of(0, 0))[:, 0]
    lengths = found.norm(dim=-1)
    assert 0.95 * FURTHEST < lengths.max() <= FURTHEST + 1e-7
    assert lengths.mean() == pytest.approx(FURTHEST / 2, rel=0.1)
    assert found.mean(0).abs().max() < 0.1 * FURTHEST


def test_far_is_far_from_old_and_new_places_of_what_moved() -> None:
    before, after = points(3, 5), points(3, 5, seed=1)
    chosen = torch.tensor([[1, 0, 0, 0, 0], [0, 1, 1, 0, 0], [1, 1, 1, 1, 1]]).float()
    found = far_from(before, after, chosen, 16)
    pixels = tensors.grid(16, 16, 16).numpy()
    for image in range(3):
        places = np.concatenate([part[image][chosen[image] > 0].numpy() for part in (before, after)])
        wanted = np.clip((cdist(places, pixels).min(0) - NEAR) / (FAR - NEAR), 0, 1)
        np.testing.assert_allclose(found[image, 0].flatten().numpy(), wanted, atol=1e-5)
    assert found[0].max() == 1
    assert found.min() == 0


@pytest.fixture
def model(micro_colour: Config) -> Autoencoder:
    return Autoencoder(micro_colour.model, seed=1).eval()


def test_only_the_decoder_gets_gradients(model: Autoencoder, micro_colour: Config) -> None:
    model.requires_grad_(False)
    model.decoder.requires_grad_(True)
    terms = losses_of(model, torch.rand(4, 3, 32, 32), micro_colour)
    assert set(terms) == {"recon", "cycle", "locality"}
    for term in terms.values():
        model.zero_grad()
        term.backward(retain_graph=True)
        reached = {name.split(".")[0] for name, value in model.named_parameters() if value.grad is not None}
        assert reached == {"decoder"}
        assert any(
            value.grad.abs().max() > 0 for value in model.decoder.parameters() if value.grad is not None
        )


def test_nothing_moved_is_nothing_to_keep(
    model: Autoencoder, micro_colour: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = torch.rand(4, 3, 32, 32)
    assert losses_of(model, images, micro_colour)["locality"] > 0
    monkeypatch.setattr(edits, "FURTHEST", 0.0)
    assert losses_of(model, images, micro_colour)["locality"] < 1e-4


def test_the_edit_comes_back_to_the_reconstruction_and_not_the_other_way(
    model: Autoencoder, micro_colour: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = torch.rand(8, 3, 32, 32, requires_grad=True)
    monkeypatch.setattr(model, "decode", lambda *_: decoded)
    losses_of(model, torch.rand(4, 3, 32, 32), micro_colour)["locality"].backward()
    assert decoded.grad is not None
    assert decoded.grad[:4].abs().max() == 0
    assert decoded.grad[4:].abs().max() > 0


def decoder_alone(run: Run, steps: int = 8) -> Config:
    return with_values(STAGE.derive(run.config()), [f"train.steps={steps}"])


def test_the_decay_that_suits_muon_does_not_reach_adam() -> None:
    """With Adam it is part of the gradient, where 0.05 would drown what is to be learnt."""
    train = STAGE.derive(preset("hour-10")).train
    assert (train.optimiser, train.weight_decay) == ("adam", 1e-6)


def test_landmarks_stay_bit_for_bit(colour_run: Run, photos: Path, tmp_path: Path) -> None:
    made = loop.train(
        decoder_alone(colour_run), api.open_source(photos), tmp_path / "run", start=colour_run.model_file
    )
    before, after = load_tensors(colour_run.model_file)[0], load_tensors(made.model_file)[0]
    changed = {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"decoder"}
    assert [line["step"] for line in made.log()][:2] == [0, 1]
    assert made.summary()["warp_error_before"] is None


def test_a_decoder_alone_goes_on_where_it_was_stopped(
    colour_run: Run, photos: Path, tmp_path: Path, tear: Callable[..., None]
) -> None:
    config, source = decoder_alone(colour_run), api.open_source(photos)
    calm = loop.train(config, source, tmp_path / "calm", start=colour_run.model_file)
    tear(config, source, tmp_path / "torn", colour_run.model_file)
    torn = loop.train(config, source, tmp_path / "torn", resume=True)
    assert torn.model_file.read_bytes() == calm.model_file.read_bytes()


def test_digits_follow_their_landmarks_better(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    command = f"train digits --from digits-7 --stage edit --steps 150 --threads 1 --out {out}"
    assert main(command.split()) == 0
    assert "Edits: on what the decoder makes" in capsys.readouterr().out
    with np.load(out / "samples.npz") as kept:
        images = to_tensor(kept["pixels"])
    found = {}
    for name in ("digits-7", str(out)):
        model = Predictor.load(name).backend.model
        with torch.no_grad():
            terms = losses_of(model, images, Run(out).config(), seed=7)
        found[name] = {key: float(value) for key, value in terms.items()}
    before, after = found["digits-7"], found[str(out)]
    assert after["cycle"] < 0.8 * before["cycle"]
    assert after["locality"] < 0.85 * before["locality"]
    page = (out / "report.html").read_text()
    assert "found again within" in page
    assert "Only the decoder was trained" in page
    assert "came to a point" not in page
    assert json.loads((out / "config.json").read_text())["config"]["train"]["stage"] == "edit"


def test_a_decoder_keeps_the_similarity_its_model_was_trained_with(
    model: Autoencoder, micro_colour: Config
) -> None:
    config = replace(micro_colour, losses=replace(micro_colour.losses, ssim=3.0))
    assert "ssim" in losses_of(model, torch.rand(2, 3, 32, 32), config)


def test_a_model_made_for_edits_is_trained_further_as_a_whole(colour_run: Run) -> None:
    config = decoder_alone(colour_run)
    assert config.train.stage == "edit"
    assert schedule.further(config).train.stage == "discover"


def test_a_resumed_run_knows_what_it_is_for(colour_run: Run) -> None:
    with pytest.raises(TrigpointError, match="keeps its own config"):
        api.train(out=colour_run.folder, stage="edit", existing="resume")
