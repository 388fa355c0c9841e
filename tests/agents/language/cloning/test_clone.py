"""Cloning a bot with a small language model: learning, saving, and bit-for-bit resuming."""

import json
import signal

import pytest
import torch

pytest.importorskip("transformers")

from transformers import AutoModelForCausalLM

from sparring.agents.language.cloning import trainer
from sparring.agents.language.cloning.imitation import Imitator
from sparring.agents.language.models.saved_model import verify_model
from sparring.agents.run.fit import fit
from sparring.agents.run.signals import Stopped
from sparring.agents.run.states import read_state
from sparring.agents.trainers import load_trainer, train
from sparring.configs.core.errors import InputError
from sparring.configs.load import load
from tests.configs.run_configs import configured

SMALL = (
    *("+run=diplomacy_clone", "device=cpu", "threads=1", "logger.progress=false", "name=clone", "env.last_year=1903"),
    *("clone.hidden=32", "clone.layers=1", "clone.heads=2", "clone.games_per_update=3", "clone.updates=5"),
    "clone.batch_tokens=4096",
    "clone.learning_rate=0.002",
    *("evaluation.every=2", "evaluation.games=2", "checkpoint_every=2"),
)


def config(root, *options):
    return configured(SMALL, f"checkpoint_dir={root}", *options)


def metrics(root):
    """Return metrics rows without times."""
    rows = map(json.loads, (root / "clone" / "metrics.jsonl").read_text().splitlines())
    return [{key: value for key, value in row.items() if not key.startswith("time/")} for row in rows]


def weights(root):
    return (root / "clone" / "final" / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return an uninterrupted run."""
    root = tmp_path_factory.mktemp("whole")
    assert train(config(root)) == root / "clone" / "final"
    return root


def test_run_leaves_expected_files(whole):
    rows = metrics(whole)
    assert len(rows) == 5
    assert rows[0]["env_steps"] < rows[1]["env_steps"]
    assert [number for number, row in enumerate(rows, 1) if "eval/held_out/accuracy" in row] == [2, 4, 5]
    assert rows[-1]["train/learning_rate"] == pytest.approx(0.0, abs=1e-12)
    training = verify_model(whole / "clone" / "final")
    assert (training["updates"], training["interrupted"], training["decisions"]) == (5, False, rows[-1]["env_steps"])
    model = AutoModelForCausalLM.from_pretrained(whole / "clone" / "final")
    assert model.config.hidden_size == 32
    assert sorted(path.name for path in (whole / "clone" / "state").iterdir()) == [
        "update_000002", "update_000004", "update_000005",
    ]  # fmt: skip


def test_two_threads_split_batches_and_resume_bit_for_bit(whole, tmp_path):
    uncut, cut = tmp_path / "uncut", tmp_path / "cut"
    train(config(uncut, "threads=2"))
    train(config(cut, "threads=2", "max_updates=2"))
    train(config(cut, "threads=2"))
    assert (metrics(cut), weights(cut)) == (metrics(uncut), weights(uncut))
    losses = [[row["train/answer_loss"] for row in metrics(root)] for root in (uncut, whole)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)


def test_signal_finishes_update_saves_and_explains_resume(tmp_path, monkeypatch, capsys):
    learn, steps = Imitator.learn, []

    def interrupted(self, batch, rate):
        steps.append(rate)
        if len(steps) == 2:
            signal.raise_signal(signal.SIGTERM)
        return learn(self, batch, rate)

    monkeypatch.setattr(Imitator, "learn", interrupted)
    with pytest.raises(Stopped) as stopped:
        train(config(tmp_path))
    assert stopped.value.code == 75
    assert "continue with: python train.py resume=clone" in capsys.readouterr().out
    assert verify_model(tmp_path / "clone" / "final")["interrupted"] is True


def test_non_finite_step_is_skipped_and_counted(tmp_path, monkeypatch):
    pack, packed = trainer.pack, []

    def spoiled(groups, *, pad_id):
        packed.append(groups)
        batch = pack(groups, pad_id=pad_id)
        if len(packed) == 1:
            batch.attention_mask.fill_(float("nan"))
        return batch

    monkeypatch.setattr(trainer, "pack", spoiled)
    train(config(tmp_path, "max_updates=2"))
    assert [row["train/skipped_steps"] for row in metrics(tmp_path)] == [1, 0]
    assert metrics(tmp_path)[0]["train/answer_loss"] is None
    assert metrics(tmp_path)[1]["train/answer_loss"] > 1.0


def test_run_file_clones_dumbbot_in_one_process(monkeypatch):
    chosen = load(["+run=diplomacy_clone"])
    assert (chosen.trainer, chosen.clone.bot) == ("clone", "dumbbot")
    assert load_trainer("clone") == (trainer.CloneTrainer, fit)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="trainer=clone: trains in one process"):
        load_trainer("clone")


def test_states_store_game_positions(whole):
    content = read_state(whole / "clone" / "state" / "update_000005").content
    assert content["games"]["phases"] > 5
    assert torch.equal(content["games"]["games"]["year"] > 1900, torch.ones(3, dtype=torch.bool))
