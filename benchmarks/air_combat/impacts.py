"""How many games a policy loses to the ground: `python -m benchmarks.air_combat.impacts released/air_combat_f16_low`.

Plays each pilot from both seats of the same starts, to the end of every match, with deterministic actions. A match ends
in an impact for an aircraft that is lost at height 0; the table counts those of the policy and of the pilot.
"""

from __future__ import annotations

import argparse
import sys

import torch

import sparring
from benchmarks.command import run_script
from sparring.agents.policies.policy import Policy
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch

SEED = 777
LOW_PILOTS = tuple(rules.BOTS)[8:]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("policy")
    parser.add_argument("--model", default="f16", choices=rules.MODELS)
    parser.add_argument("--gun", default="cone", choices=rules.GUNS)
    parser.add_argument("--ground-limit", type=float, default=100.0)
    parser.add_argument("--pairs", type=int, default=100, help="starts, each played from both seats")
    parser.add_argument("--pilots", nargs="*", default=LOW_PILOTS)
    args = parser.parse_args()
    policy = sparring.load(args.policy).policy
    print(f"| {args.policy} | W | D | L | impacts | impacts of the pilot |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for pilot in args.pilots:
        counts = played(policy, pilot, args.model, args.gun, args.ground_limit, args.pairs)
        print(f"| {pilot} | {' | '.join(map(str, counts))} |", flush=True)


def played(policy: Policy, pilot: str, model: str, gun: str, limit: float, pairs: int) -> list[int]:
    """Return wins, draws, losses, impacts of the policy and of the pilot."""
    contract, n = policy.contract, 2 * pairs
    options = rules.CombatOptions.of_contract(contract)
    kind = {"model": model, "gun": gun, "action_repeat": contract["action_repeat"], "ground_limit": limit}
    game = AirCombatBatch(n, **kind, threads=1, seed=SEED, options=options)
    bot = rules.bot_id(pilot)
    game.match_id.copy_(torch.arange(pairs, dtype=torch.int32).repeat(2))
    game.assign(torch.tensor([[rules.ACTIONS, bot]] * pairs + [[bot, rules.ACTIONS]] * pairs))
    game.reset(SEED)
    rows, me = torch.arange(n), torch.arange(n) // pairs
    running, counts = torch.ones(n, dtype=torch.bool), torch.zeros(5, dtype=torch.long)
    height = options.observation.index("height")
    while running.any():
        game.actions[rows, me] = policy.act(game.obs[rows, me])
        game.step(game.actions)
        ended = running & (game.outcome >= 0)
        drawn, won = game.outcome == 0, game.outcome == 1 + me
        ground = (game.final_hp <= 0.0) & (game.final_obs[..., height] <= 0.0)
        for k, found in enumerate((won, drawn, ~won & ~drawn, ground[rows, me], ground[rows, 1 - me])):
            counts[k] += (ended & found).sum()
        running &= ~ended
    return counts.tolist()


if __name__ == "__main__":
    sys.exit(run_script(main))
