"""Recipes of self-play that continue a policy, each at the same number of updates: options of `+run=bots_only`.

All play the five bots in shares that follow the losses, and snapshots in the rest of the matches. `exploiters` divides
its updates into rounds: an exploiter trains against the policy alone, beginning with its weights, and joins the
opponents for good; then the policy trains against bots, all exploiters and snapshots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sparring.envs.dogfight.rules import BOTS

Train = Callable[[str, list[str]], str]
"""Trains the run of a name with options of `+run=bots_only`; returns its final policy."""
LARGE_POOL = ("self_play.snapshot_every=5", "self_play.pool_size=200", "self_play.slots=16")
EVERY_UPDATE = ("self_play.snapshot_every=1", "self_play.pool_size=300", "self_play.slots=16")
LARGE_BATCH = ("env.num_envs=2048", "ppo.minibatch_size=8192", "self_play.snapshot_every=6")


@dataclass(frozen=True)
class Recipe:
    """Options, the share of matches against bots, and by how many the updates are fewer but larger."""

    purpose: str
    options: tuple[str, ...]
    scripted: float = 0.2
    larger: int = 1


RECIPES = {
    "small pool": Recipe("a snapshot every 25 updates, 30 kept, 4 at a time", ("self_play.snapshot_every=25",)),
    "large pool": Recipe("a snapshot every 5 updates, 200 kept, 16 at a time", LARGE_POOL),
    "level opponents": Recipe("the large pool, drawn by p (1 - p)", (*LARGE_POOL, "self_play.sampling=variance")),
    "draw 0": Recipe("the large pool; a draw is no loss", (*LARGE_POOL, "env.reward.draw=0")),
    "no bots": Recipe("snapshots of every update, no bots", EVERY_UPDATE, scripted=0.0),
    "entropy": Recipe("the small pool; ten times the entropy bonus",
                      ("self_play.snapshot_every=25", "ppo.entropy_coefficient=0.03")),
    "slow": Recipe("the small pool; a fifth of the learning rate",
                   ("self_play.snapshot_every=25", "ppo.learning_rate=1.5e-4")),
    "large batch": Recipe("the small pool; four times the matches in a quarter of the updates", LARGE_BATCH, larger=4),
}  # fmt: skip
EXPLOITERS = "exploiters"
EXPLOITER_OPTIONS = ("self_play.snapshot_every=5", "self_play.slots=8")
ROUNDS = 5
EXPLOITERS_SCRIPTED = 0.7
"""Share of the matches against bots and exploiters."""


def follow(name: str, start: str, updates: int, train: Train) -> str:
    """Continue the policy `start` by the recipe `name`; return the final policy."""
    if name == EXPLOITERS:
        return _exploiters(start, updates, train)
    recipe = RECIPES[name]
    return train(name, [*options(start, updates // recipe.larger, BOTS, recipe.scripted), *recipe.options])


def options(start: str, updates: int, opponents: tuple[str, ...], scripted: float) -> list[str]:
    """Return the options of one phase from the policy `start` on."""
    named = ", ".join(f"'{name}'" for name in opponents)
    share = f"scripted_start: {scripted}, scripted_end: {scripted}, adaptive: 0.7"
    stage = f"stages: [{{at: 0, bots: [{named}]}}]"
    phase = f"{{name: selfplay, updates: {updates}, {share}, {stage}}}"
    return [f"init_from='{start}'", f"max_updates={updates}", f"phases=[{phase}]"]


def _exploiters(start: str, updates: int, train: Train) -> str:
    policy, found, each = start, [], updates // (2 * ROUNDS)
    for number in range(1, ROUNDS + 1):
        found.append(train(f"exploiter {number}", options(policy, each, (policy,), 1.0)))
        again = options(policy, each, (*BOTS, *found), EXPLOITERS_SCRIPTED)
        policy = train(f"round {number}", [*again, *EXPLOITER_OPTIONS])
    return policy
