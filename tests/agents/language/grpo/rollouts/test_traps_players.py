"""Traps 19, 20 and 22 in the rollout: fixed players, caches after an update, age of a batch."""

from types import SimpleNamespace

import pytest
import torch

from sparring.agents.language.grpo.rollouts.rollout import AdapterRolloutWorker
from sparring.agents.language.grpo.step import check_batch
from sparring.agents.language.models.adapters import Adapters, LoraShape, save_adapter
from sparring.agents.language.models.load import load_model
from sparring.configs.core.tensor_file import pack
from sparring.curriculum.league.league import BASE_MODEL, CHALLENGER
from sparring.envs.text import Prompt
from tests.agents.language.grpo.rollouts.small_games import plan_of, small_config
from tests.agents.language.grpo.toy_folder import toy_folder
from tests.agents.language.toys import random_choices

CHECKPOINT = "checkpoint_000001"


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return small_config(f"model.name={toy_folder(tmp_path_factory.mktemp('toy'))}")


def weights(config, seed):
    """Return a learner with non-zero weights in both halves of the adapter, by seed."""
    adapters = Adapters(load_model(config.model)[0], LoraShape.of(config.model))
    generator = torch.Generator().manual_seed(seed)
    return {key: 0.3 * torch.randn(value.shape, generator=generator) for key, value in adapters.weights().items()}


def told(decisions):
    return [(decision.token_ids.tolist(), decision.logprobs.tolist()) for decision in decisions]


def play(player, plan, learned):
    return player.play(plan, pack(learned))


def test_trap_20_new_weights_clear_prefix_cache(config, tmp_path):
    """Greedy or sampled, a prefix cached under the old weights would show in log-probabilities."""
    first, second = (plan_of(config, step=step, version=step) for step in (0, 1))
    used, cold = AdapterRolloutWorker(config, tmp_path), AdapterRolloutWorker(config, tmp_path)
    before = play(used, second, weights(config, 1))
    play(used, first, weights(config, 2))
    after, fresh = play(used, second, weights(config, 3)), play(cold, second, weights(config, 3))
    assert told([turn.decision for turn in after.turns]) == told([turn.decision for turn in fresh.turns])
    assert told([turn.decision for turn in after.turns]) != told([turn.decision for turn in before.turns])
    assert after.cache == fresh.cache
    used.close()
    cold.close()


def test_trap_19_base_and_checkpoints_are_fixed_while_learning(config, tmp_path):
    """Ratings against them are comparable across steps; the challenger's decisions change."""
    model, _ = load_model(config.model)
    adapters = Adapters(model, LoraShape.of(config.model))
    save_adapter(tmp_path / "old.pt", adapters.model, adapters.shape, weights(config, 7), training={})
    asked = [Prompt(*pair, seed) for seed, pair in enumerate(random_choices()[:20])]
    player, found = AdapterRolloutWorker(config, tmp_path), {BASE_MODEL: [], CHECKPOINT: [], CHALLENGER: []}
    player._paths = {CHECKPOINT: "old.pt"}
    for seed in (1, 2):
        player._adapters.restore(weights(config, seed))
        for name, answers in found.items():
            answers.append(told(player._backend_of(name).decide(asked)))
    player.close()
    assert found[BASE_MODEL][0] == found[BASE_MODEL][1]
    assert found[CHECKPOINT][0] == found[CHECKPOINT][1]
    assert found[CHALLENGER][0] != found[CHALLENGER][1]
    assert len({str(answers[1]) for answers in found.values()}) == 3


@pytest.mark.parametrize("version", [0, 5])
def test_trap_22_every_sample_names_its_weights(config, tmp_path, version):
    player = AdapterRolloutWorker(config, tmp_path)
    batch = play(player, plan_of(config, step=1, version=version), weights(config, 1))
    player.close()
    assert batch.turns
    assert {turn.decision.policy_version for turn in batch.turns} == {version}


@pytest.mark.parametrize(
    ("step", "version", "sound"), [(6, 6, True), (6, 4, True), (6, 3, False), (6, 7, False), (5, 6, False)]
)
def test_trap_22_stale_or_wrong_step_batch_stops_run(step, version, sound):
    """The trainer is at step 6 with version 6, and the buffer is two deep."""
    batch = SimpleNamespace(plan=SimpleNamespace(step=step, policy_version=version), alerts=[], endings=[1])
    if sound:
        check_batch(batch, step=6, version=6, depth=2)
    else:
        with pytest.raises(RuntimeError, match="step 6 got the batch of step"):
            check_batch(batch, step=6, version=6, depth=2)
