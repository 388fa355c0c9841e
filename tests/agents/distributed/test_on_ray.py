"""GRPO rollouts and sweeps on a Ray cluster: same results as locally, also after losing a node."""

import os
from pathlib import Path

import pytest

import sparring
from sparring.agents.language.grpo.learner import GRPOLearner
from sparring.agents.language.grpo.trainer import GRPOTrainer
from sparring.agents.language.models.adapters import load_adapter
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.trainers import train
from tests.agents.distributed.ray_cluster import call_apart, two_nodes, wait_for_one_node
from tests.agents.language.grpo.rollouts.small_games import small_config
from tests.agents.language.grpo.small_runs import in_process, rows


def play_and_lose_a_node(toy, folder):
    """Play three steps locally and on two nodes, one of which is killed after the first step."""
    places = [f"model.name={toy}", f"checkpoint_dir={folder}", "threads=1", "grpo.steps=3", "grpo.buffer_depth=2"]
    options = [*places, "league.checkpoint_every=1", "league.cold_start_steps=1", "grpo.learning_rate=1e-2"]
    learn, new_players, learned = GRPOLearner.learn, GRPOTrainer._new_players, []
    GRPOTrainer._new_players = in_process
    here = train(small_config(*options, "name=here"))
    GRPOTrainer._new_players = new_players
    with two_nodes() as (address, lose):

        def learn_and_lose(learner, *given, **how):
            learned.append(learner)
            if len(learned) == 1:
                lose()
            return learn(learner, *given, **how)

        GRPOLearner.learn = learn_and_lose
        os.environ["RAY_ADDRESS"] = address
        there = train(small_config(*options, "name=there", "grpo.executor=ray"))
        wait_for_one_node()
    weights = load_adapter(there).weights
    assert all((value == weights[name]).all() for name, value in load_adapter(here).weights.items())
    assert any(value.abs().max() > 0 for name, value in weights.items() if "lora_B" in name)
    names = ("benchmark/reward_mean", "benchmark/loss", "kl/mean", "elo/challenger", "buffer/lag")
    one, other = ([[row[name] for name in names] for row in rows(Path(path))] for path in (here, there))
    assert one == other
    assert len(one) == len(learned) == 3


@pytest.mark.slow
def test_cluster_rollouts_match_local_and_survive_node_loss(toy, tmp_path):
    call_apart("tests.agents.distributed.test_on_ray", "play_and_lose_a_node", toy, tmp_path)


def sweep_on_two_nodes(folder):
    """Train two runs locally, one after the other, and on two nodes."""
    tiny = ["threads=1", "max_updates=1", "env.num_envs=2", "ppo.rollout_steps=8", "ppo.minibatch_size=16"]

    def finals(name, *where):
        options = [*tiny, f"name={name}", f"checkpoint_dir={folder}", *where]
        outcome = sparring.sweep(run="gymnasium", overrides=options, varied={"seed": [1, 2]})
        assert outcome.exit_code == 0
        return [load_checkpoint(Path(folder, run["run"], "final.pt")).network.state_dict() for run in outcome.runs]

    here = finals("here", "workers=1")
    with two_nodes() as (address, _):
        there = finals("there", "executor=ray", f"executor_address={address}")
    assert len(here) == len(there) == 2
    for one, other in zip(here, there, strict=True):
        assert all((value == other[name]).all() for name, value in one.items())


@pytest.mark.slow
def test_cluster_sweep_matches_local_sweep(tmp_path):
    call_apart("tests.agents.distributed.test_on_ray", "sweep_on_two_nodes", tmp_path)
