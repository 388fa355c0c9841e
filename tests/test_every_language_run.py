"""Every GRPO run file trains one step with a toy model at test size on a CPU.

Those for a CPU, `_quick`, differ from these in sizes alone, which no step of a test has.
"""

import json
from math import isfinite

import pytest
import torch

from sparring.agents.language.models.adapters import Adapters, LoraShape, load_adapter, save_adapter
from sparring.agents.trainers import train
from sparring.configs.load import load, runs
from sparring.curriculum.league.file import LeagueFile
from sparring.curriculum.league.league import CHALLENGER
from sparring.envs.diplomacy.config import DIPLOMACY
from tests.agents.language.toys import llama, word_tokenizer
from tests.configs.run_configs import run_file, slow_but

SMALL = (
    *("device=cpu", "threads=1", "logger.progress=false", "env.last_year=1901"),
    *("grpo.steps=1", "grpo.groups=2", "grpo.samples_per_group=2", "grpo.buffer_depth=0", "grpo.minibatch_samples=64"),
    *("grpo.rollout_horizon_years=1", "grpo.rollout_long_horizon_years=1", "grpo.rollout_warmup_phases=0"),
)
GRPO = [run for run in runs() if run_file(run).get("trainer") == "grpo" and run_file(run)["env"]["id"] == DIPLOMACY]
"""Those of chess begin with a model that has to be trained first; tests/envs/chess trains a small one."""
FROM_AN_ADAPTER = ("diplomacy_exp2",)
IN_EVERY_TEST_RUN = ("diplomacy_quickstart", "diplomacy_exp2", "diplomacy_exp4", "diplomacy_exp7", "diplomacy_exp8")
"""`make slow` trains the others, which differ from these in numbers."""


def given_adapter(config, path):
    """Write an adapter for the toy with 0.1 in every second half, where new ones have zeros."""
    adapters = Adapters(llama(word_tokenizer(), layers=1), LoraShape.of(config.model))
    halves = {name: torch.full_like(value, 0.1) for name, value in adapters.weights().items() if "lora_B" in name}
    save_adapter(path, adapters.model, adapters.shape, adapters.weights() | halves, training={})
    return path


def test_eight_experiments_and_quickstart_are_included():
    experiments = {f"diplomacy_exp{number}{size}" for number in range(1, 9) for size in ("", "_quick")}
    assert set(GRPO) >= experiments | {"diplomacy_quickstart"}


@pytest.mark.parametrize("run", slow_but(IN_EVERY_TEST_RUN, (run for run in GRPO if not run.endswith("_quick"))))
def test_every_language_model_run_takes_step(run, toy, tmp_path):
    """Four games are played and learned from: Adam's first step moves the adapter by the learning rate."""
    options = [f"+run={run}", *SMALL, f"model.name={toy}", f"checkpoint_dir={tmp_path}", "name=once"]
    adapted = run in FROM_AN_ADAPTER
    if adapted:
        options.append(f"model.adapter={given_adapter(load(options), tmp_path / 'given.pt')}")
    config = load(options)
    final = train(config)
    (row,) = [json.loads(line) for line in (final.parent / "metrics.jsonl").read_text().splitlines()]
    assert all(isfinite(value) for value in row.values() if isinstance(value, float))
    assert (row["game/total_games"], row["rollout/failed_count"], row["train/skipped_steps"]) == (4, 0, 0)
    assert row["kl/beta"] == (0.0 if config.grpo.kl_beta_warmup_steps else config.grpo.kl_beta)
    assert LeagueFile(final.parent).read()[CHALLENGER].start_elo == config.league.initial_elo
    moved = [value - 0.1 * adapted for name, value in load_adapter(final).weights.items() if "lora_B" in name]
    furthest = max(float(value.abs().max()) for value in moved)
    assert furthest == pytest.approx(config.grpo.learning_rate, rel=0.02)
