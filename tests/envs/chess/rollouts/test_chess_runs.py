"""Chess run files at test size: all train, and an interrupted run resumes bit for bit."""

import json

import pytest
import torch

pytest.importorskip("transformers")
pytest.importorskip("chess")

from sparring.agents.language.models.adapters import load_adapter
from sparring.agents.language.models.tiny import game_tokenizer
from sparring.agents.trainers import train
from sparring.configs.load import load, runs
from sparring.envs.chess.rollouts import demonstrations
from tests.configs.run_configs import slow_but

DATA = (
    *("env.data.train=12", "env.data.validation=2", "env.data.held_out=4", "evaluation.games=3"),
    *("device=cpu", "threads=1", "logger.progress=false", "checkpoint_every=1000"),
)
ENGINE = ("env.engine.path=builtin", "env.engine.depth=1")
MODEL = ("clone.hidden=16", "clone.layers=1", "clone.heads=2", "clone.games_per_update=8", "clone.batch_tokens=512")
SUPERVISED = ("+run=rookworld_sft_analysis", *DATA, *ENGINE, *MODEL, "clone.updates=4", "evaluation.every=2")
TWO_PHASES = (
    *("+run=rookworld_grpo", *DATA, *ENGINE, "tasks.analysis_share=0.5", "tasks.analysis.max_tokens=12"),
    *("grpo.steps=4", "grpo.groups=2", "grpo.samples_per_group=3", "grpo.minibatch_samples=6", "model.lora_rank=4"),
    *("tasks.arbiter.max_tokens=12", "evaluation.every=2"),
)
CHECKS = [name for name in runs() if name.startswith("rookworld_overfit")]


def run(folder, name, *options):
    """Train; return metrics rows without times."""
    train(load([*options, f"checkpoint_dir={folder}", f"name={name}"]))
    rows = map(json.loads, (folder / name / "metrics.jsonl").read_text().splitlines())
    return [{key: value for key, value in row.items() if not timed(key)} for row in rows]


def timed(key):
    return key.startswith("time/") or key.endswith(("_s", "_per_second", "_mb"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Return an uninterrupted supervised run."""
    folder = tmp_path_factory.mktemp("supervised")
    rows = run(folder, "model", *SUPERVISED)
    assert [number for number, row in enumerate(rows, 1) if "eval/held_out/analysis_reward" in row] == [2, 4]
    return folder / "model"


def test_grpo_resumes_bit_for_bit_at_phase_boundary(model, tmp_path):
    options = (*TWO_PHASES, f"model.name={model / 'final'}")
    whole = run(tmp_path, "whole", *options)
    run(tmp_path, "cut", *options, "max_updates=2")
    assert run(tmp_path, "cut", *options) == whole
    trained = [{key for key in row if key.startswith("chess/") and key.endswith("_reward")} for row in whole]
    assert trained == [{"chess/analysis_reward"}] * 2 + [{"chess/arbiter_reward"}] * 2
    first, second = (load_adapter(tmp_path / name / "final.pt").weights for name in ("whole", "cut"))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("name", slow_but(("rookworld_overfit_r1", "rookworld_overfit_r4"), CHECKS))
def test_every_overfit_check_takes_its_steps(name, model, tmp_path):
    """It ends with exit code 1: three steps of an untrained model show no trend."""
    short = ("grpo.steps=3", "overfit.window=2", "tasks.analysis.max_tokens=12", "tasks.arbiter.max_tokens=12")
    with pytest.raises(SystemExit) as ended:
        run(tmp_path, "check", f"+run={name}", *DATA, *ENGINE, *short, f"model.name={model / 'final'}")
    assert ended.value.code == 1
    report = json.loads((tmp_path / "check" / "overfit.json").read_text())
    assert (report["verdict"], len(report["steps"])) == ("FAIL", 3)
    assert f"overfit check {name[-2:]}:" in report["settings"]


@pytest.mark.slow
def test_game_vocabulary_matches_three_hundred_games(monkeypatch):
    words = game_tokenizer("chess").get_vocab()
    monkeypatch.setattr(demonstrations, "GAMES", range(300))
    assert game_tokenizer.__wrapped__("chess").get_vocab() == words
