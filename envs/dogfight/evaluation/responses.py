"""Best responses to dogfight policies: the planner attacks, and the runner is the baseline of every table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from sparring.agents.opponents.players import planner_samples
from sparring.configs.core.errors import InputError
from sparring.envs.game import HELD_OUT_PREFIX
from sparring.eval.command import use_machine
from sparring.eval.paired.response_game import STOCHASTIC, ResponseOptions, Target
from sparring.eval.stats.tables import MatchRecord

RUNNER = f"{HELD_OUT_PREFIX}runner"
"""Flees and never shoots."""
RECORDED = Path(__file__).with_name("runner.json")
"""Best responses to it."""
PLAN_SEED, PLAN_NOISE = 1, 0.05
"""Seed of the planners' starts, and standard deviation of the noise on turn (range 2) and throttle (range 1)."""


def plan_all(options: ResponseOptions, targets: Sequence[Target]) -> list[MatchRecord]:
    """Play the requested planners.

    A deterministic policy is played as is and with noise on its turn and throttle. The plan does not know the noise or
    the samples of a stochastic policy. Raises `InputError` for a policy without weights to plan with.
    """
    attacks = [pair for pair in product(options.start, options.target) if planner_samples(pair[0])]
    if not attacks:
        return []
    device, threads = use_machine(options.device, options.threads, quiet=True)
    from sparring.agents.opponents.duelists import Duelist, PythonPolicy
    from sparring.agents.policies.policy import Policy
    from sparring.envs.dogfight.evaluation.command import DuelMatches, make_setting
    from sparring.envs.dogfight.training.opponents.load import open_player
    from sparring.envs.dogfight.training.opponents.planner import DisturbedActions, PlannerPlayer
    from sparring.eval.paired.evaluation import Cell, Plan

    records = []
    for attacker, mode in attacks:
        policy = open_player(targets[0].against, device, deterministic=mode != STOCHASTIC).contestant
        if not isinstance(policy, Policy):
            raise InputError(f"--attacker {attacker}: {targets[0].name} has no weights to plan with; leave it out")
        setting = make_setting([policy], device=device, threads=threads)
        plan = Plan(DuelMatches(setting), options.games + options.games % 2, PLAN_SEED)
        planner = PlannerPlayer(planner_samples(attacker) or 0, name=attacker, device=device)
        planned = planner.against(policy, games=plan.games, seed=PLAN_SEED, setting=setting)
        met = {f"{mode} play": policy}
        if mode != STOCHASTIC:
            noisy = DisturbedActions(policy, PLAN_NOISE)
            met[f"actions with noise of {PLAN_NOISE}"] = PythonPolicy(noisy, name=policy.name, device=device)
        for how, opponent in met.items():
            pair = (Duelist(f"{attacker}, against {how}", planned), Duelist(policy.name, opponent))
            records.append(plan.play([Cell(pair, "none", plan)])[0][0])
    return records


RESPONSES = {"floor": RUNNER, "recorded": RECORDED, "planned": plan_all}
"""Fields of the `ResponseGame` that `response_run` does not set."""
