"""Valid files of every kind, made by runs of a few updates: self-play, Diplomacy, Gymnasium, cloning and GRPO."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from unittest.mock import patch

import torch

from sparring.agents.language.grpo.trainer import GRPOTrainer
from sparring.agents.trainers import train
from sparring.configs.load import load
from sparring.configs.schema import PhaseConfig, StageConfig
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.records.history import GameHistory
from sparring.envs.diplomacy.records.saved_game import save
from sparring.envs.dogfight.interfaces.spaces import action_space, observation_space
from sparring.eval.run import main as evaluate
from tests.agents.language.grpo.small_runs import in_process
from tests.agents.language.grpo.toy_folder import toy_folder
from tests.agents.policies.sb3_data import data_of
from tests.agents.ppo.small_run import config as self_play_config

PHASES = [
    PhaseConfig("curriculum", 1, stages=[StageConfig(bots=["do_nothing", "ace"])]),
    PhaseConfig("selfplay", 5, scripted_start=0.2, scripted_end=0.2),
]
"""Six updates, of which four are done, with three snapshots."""
COMMON = ("device=cpu", "threads=1", "logger.progress=false", "checkpoint_every=1", "keep_states=1")
DIPLOMACY = (
    *("+run=diplomacy_ppo", "name=diplomacy", "env.num_envs=7", "env.last_year=1902", "network.hidden=8"),
    *("network.blocks=1", "ppo.rollout_steps=2", "ppo.minibatch_size=14", "ppo.precision=fp32", "max_updates=2"),
    "evaluation.every=0",
)
GYMNASIUM = (
    *("+run=gymnasium", "name=gymnasium", "env.num_envs=2", "env.normalize_obs=true", "env.normalize_reward=true"),
    *("network.hidden=8", "ppo.rollout_steps=32", "ppo.minibatch_size=64", "ppo.precision=fp32", "max_updates=2"),
)
CLONE = (
    *("+run=diplomacy_clone", "name=clone", "env.last_year=1903", "clone.hidden=16", "clone.layers=1"),
    *("clone.heads=2", "clone.games_per_update=2", "clone.updates=2", "clone.batch_tokens=4096", "evaluation.every=0"),
)
GRPO = (
    *("+run=diplomacy_exp1_quick", "name=grpo", "grpo.groups=2", "grpo.samples_per_group=2", "env.last_year=1903"),
    *("grpo.rollout_horizon_years=1", "grpo.rollout_long_horizon_years=1", "grpo.rollout_warmup_phases=1"),
    *("grpo.steps=3", "max_updates=2", "grpo.use_ema_reference=true", "league.checkpoint_schedule=even"),
    "league.checkpoint_every=1",
    *("league.cold_start_steps=1", "grpo.buffer_depth=1", "evaluation.every=0"),
)


def make(root: Path) -> None:
    """Write runs, saved games, an SB3 zip and the toy model of the GRPO run under `root`."""
    root.mkdir(parents=True, exist_ok=True)
    train(self_play_config(root, phases=PHASES, max_updates=4, checkpoint_every=1, keep_states=1))
    evaluate(["--ckpt", str(root / "small" / "final.pt"), "--games", "2", "--opponents", "ace", "--quiet"])
    for options in (DIPLOMACY, GYMNASIUM, CLONE):
        train(load([*options, *COMMON, f"checkpoint_dir={root}"]))
    with patch.object(GRPOTrainer, "_new_players", in_process):
        train(load([*GRPO, *COMMON, f"checkpoint_dir={root}", f"model.name={toy_folder(root / 'toy')}"]))
    _save_games(root)
    _save_sb3(root / "model.zip")


def _save_games(root: Path) -> None:
    batch = DiplomacyBatch(1, threads=1, last_year=1902)
    history = GameHistory(batch)
    for step in range(6):
        batch.draw_orders(step)
        history.process()
    save(root / "game.json", history.game(0), players=["random"] * 7)
    batch.close()
    package = Path(__file__).parents[1] / "envs" / "diplomacy" / "records" / "package_game.json"
    (root / "package_game.json").write_bytes(package.read_bytes())


def _save_sb3(path: Path) -> None:
    """Write what Stable-Baselines3 would of a policy for the dogfight: 46 floats, 3 actions, 8 wide."""
    sizes = {"mlp_extractor.policy_net.0": (8, 46), "mlp_extractor.policy_net.2": (8, 8), "action_net": (3, 8)}
    sizes |= {"mlp_extractor.value_net.0": (8, 46), "mlp_extractor.value_net.2": (8, 8), "value_net": (1, 8)}
    torch.manual_seed(0)
    layers = {f"{name}.weight": torch.randn(shape) for name, shape in sizes.items()}
    layers |= {f"{name}.bias": torch.randn(shape[0]) for name, shape in sizes.items()}
    buffer = io.BytesIO()
    torch.save({"log_std": torch.zeros(3), **layers}, buffer)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", json.dumps(data_of(observation_space("classic", False), action_space())))
        archive.writestr("policy.pth", buffer.getvalue())
