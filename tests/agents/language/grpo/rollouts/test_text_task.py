"""GRPO learns an unknown game: Nim, from menus and from free text."""

import numpy as np
import pytest
import torch

from sparring.agents.language.backend import PromptError
from sparring.agents.language.decoding.constraint import Constraint
from sparring.agents.language.grpo.learner import GRPOLearner, Sample
from sparring.agents.language.grpo.objective.advantages import advantages, group_ids
from sparring.agents.language.grpo.rollouts.rollout import Rollouts
from sparring.agents.language.grpo.step import rollout_metrics
from sparring.agents.language.models.adapters import BASE, Adapters, LoraShape
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.envs.text import FreeText, Prompt
from tests.agents.language.grpo.rollouts.nim import HERO, NIM_TEXT, Moves, Nim, nim_plan, nim_tokenizer
from tests.agents.language.grpo.rollouts.small_games import small_config
from tests.agents.language.toys import llama

GROUPS, SAMPLES = 6, 12
OPTIONS = ("grpo.learning_rate=1e-2", "grpo.kl_beta=0", "grpo.target_kl=0", "grpo.minibatch_samples=256")


def toy(*options):
    """Return a model that plays Nim and learns for the seats called `HERO`."""
    config, tokenizer = small_config(*OPTIONS, *options), nim_tokenizer()
    adapters = Adapters(llama(tokenizer, initializer_range=0.15), LoraShape.of(config.model), seed=3)
    base = {"base": "nim", "without_adapters": lambda: adapters.playing(BASE)}
    learner = GRPOLearner(adapters.model, adapters.parameters(), config, **base, seed=5)
    constraint = Constraint(tokenizer, NIM_TEXT)
    return learner, TransformersBackend(adapters.model, tokenizer, constraint=constraint, temperature=0.8)


def step(learner, batch):
    """One step of GRPO."""
    ids = group_ids([turn.before for turn in batch.turns], stratified=False)
    found = advantages(torch.from_numpy(batch.rewards), ids, learner.grpo)
    used = found.used.nonzero().flatten().tolist()
    return learner.learn([Sample(batch.turns[number].decision, float(found.values[number])) for number in used])


@pytest.mark.parametrize(("free_text", "steps", "first", "last"), [(False, 12, 0.65, 0.9), (True, 25, 0.35, 0.55)])
def test_reward_of_unknown_text_game_rises(free_text, steps, first, last):
    """From chance to nearly always won; free text must first become valid moves."""
    learner, backend = toy()
    rollouts, rewards = Rollouts(Nim(free_text=free_text), {HERO: backend}.__getitem__), []
    for number in range(steps):
        batch = rollouts.play(nim_plan(number, groups=GROUPS, samples=SAMPLES))
        assert all(turn.decision.exact for turn in batch.turns)
        metrics = step(learner, batch)
        assert metrics.get("ppo/ratio_mean", 1.0) == pytest.approx(1.0, abs=1e-4)  # scored as it was sampled
        found = rollout_metrics(batch)
        assert found["benchmark/trajectories"] == GROUPS * SAMPLES
        assert 0.0 <= found["nim/won"] <= 1.0
        rewards.append(found["benchmark/reward_mean"])
    assert np.mean(rewards[:3]) < first
    assert np.mean(rewards[-3:]) > last


def test_free_text_is_kept_and_ends_at_limit():
    _, backend = toy()
    prompts = [Prompt("5 sticks\n<move>\n", FreeText(3), seed) for seed in range(40)]
    decisions = backend.decide([*prompts, Prompt("5 sticks\n<move>\n", Moves(5), 1)])
    lengths = {len(decision.token_ids) for decision in decisions[:-1]}
    assert lengths <= {1, 2, 3, 4}
    assert len(lengths) > 1
    for decision in decisions[:-1]:
        counts = decision.allowed_counts.tolist()
        assert counts == [len(nim_tokenizer())] * min(len(counts), 3) + [1] * (len(counts) == 4)
        assert decision.text == nim_tokenizer().decode(decision.token_ids[:-1])
        assert decision.chosen == ()
    assert decisions[-1].text in ("1", "2", "3")


def test_failing_player_fails_only_its_game():
    _, backend = toy()

    class Reluctant:
        def __init__(self):
            self.asked = 0

        def decide(self, prompts):
            self.asked += 1
            if self.asked == 1:
                raise PromptError("too long", [1])
            return backend.decide(prompts)

    player = Reluctant()
    batch = Rollouts(Nim(free_text=False), lambda name: player).play(nim_plan(0, groups=2, samples=2))
    assert batch.failed == 1
    assert {turn.game for turn in batch.turns} == {0, 2, 3}
    assert batch.alerts == ["a game failed: too long"]
