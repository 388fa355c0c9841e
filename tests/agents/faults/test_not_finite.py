"""A non-finite number at any place: the policy stays finite, or the run stops with a report.

One update gets it, at the place where it would arise; what is done about it must be counted under `guard/`. What each
rung of the guard does, and the places of samples and of the simulator, are tested in `test_guard`.
"""

import itertools
import json
import math

import pytest
import torch

from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.ppo.learner import PPOLearner
from sparring.agents.ppo.rollout import Rollout
from sparring.agents.run.guard import LearningFailed
from sparring.agents.trainers import train
from tests.agents.ppo.small_run import config, metrics

COUNTED = ("quarantined_matches", "skipped_steps", "kl_stops", "restored_updates", "rollbacks")


def of_rollout(name):
    return Rollout, "finish", 1, lambda rollout, _, value: getattr(rollout, name)[2, 3].fill_(value)


def of_gradient(part):
    def spoil(learner, _, value):
        getattr(learner.network, part)[0].weight.grad[0, 0] = value

    return PPOLearner, "_value_gradient" if part == "critic" else "_policy_gradient", 1, spoil


def of_moment(name):
    def spoil(learner, _, value):
        for state in learner.optimizer.state.values():
            state[name].flatten()[0] = value

    return PPOLearner, "update", 0, spoil


def spoil_weight(learner, _, value):
    with torch.no_grad():
        learner.network.actor[0].weight[0, 0] = value


SEAMS = {
    "a last observation": (LearnerEnv, "step", 4, lambda env, _, value: env.final_obs.fill_(value)),
    "a stored observation": of_rollout("obs"),
    "an action": of_rollout("actions"),
    "a log-probability while learning": (ActorCritic, "evaluate", 3, lambda _, pair, value: pair[0][3].fill_(value)),
    "a gradient of the actor": of_gradient("actor"),
    "a gradient of the critic": of_gradient("critic"),
    "a first moment": of_moment("exp_avg"),
    "a second moment": of_moment("exp_avg_sq"),
    "a weight": (PPOLearner, "_step", 1, spoil_weight),
}


def spoil(monkeypatch, seam, value, *, always=False):
    owner, name, call, fault = SEAMS[seam]
    original, count = getattr(owner, name), itertools.count()

    def spoiled(self, *arguments, **options):
        result = original(self, *arguments, **options)
        if next(count) == call or always:
            with torch.no_grad():
                fault(self, result, value)
        return result

    monkeypatch.setattr(owner, name, spoiled)


def ends_well(root):
    """Train, and return whether the policy is finite; otherwise there must be a report."""
    try:
        train(config(root, checkpoint_every=1))
    except LearningFailed:
        report = json.loads((root / "small" / "guard_report.json").read_text())
        assert len(report["broken_updates"]) >= 3
        return False
    network = load_checkpoint(root / "small" / "final.pt").network
    assert all(tensor.isfinite().all() for tensor in network.state_dict().values())
    return True


INFINITE = ("an action", "a second moment")
"""Where infinity is tried besides NaN: in a rollout, and in the optimizer."""


@pytest.mark.parametrize(
    ("seam", "value"), [*((seam, math.nan) for seam in SEAMS), *((seam, math.inf) for seam in INFINITE)]
)
def test_one_non_finite_number_keeps_policy_finite_or_stops(tmp_path, monkeypatch, seam, value):
    harmless = seam == "a last observation"  # read only where a match ran out of time
    spoil(monkeypatch, seam, value)
    assert ends_well(tmp_path) or "moment" in seam
    rows = metrics(tmp_path)
    assert harmless or sum(rows[-1][f"guard/{name}"] for name in COUNTED) > 0


@pytest.mark.parametrize("seam", ["a gradient of the critic", "a weight"])
def test_persistent_non_finite_values_end_run_with_report(tmp_path, monkeypatch, seam):
    spoil(monkeypatch, seam, math.nan, always=True)
    assert not ends_well(tmp_path)
    assert load_checkpoint(tmp_path / "small" / "step_128.pt").network.log_std.isfinite().all()
