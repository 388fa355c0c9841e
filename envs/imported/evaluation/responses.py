"""Best responses to a policy of an imported game: one policy, whose seats the learner has equally often.

In a game that pays more than wins, mean rewards say more than win rates. In one that can be traversed, the exact
exploitability is beside them, which no best response can pass.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from sparring.agents.opponents.players import find_checkpoint
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.load import load_kind
from sparring.configs.overrides import as_override
from sparring.configs.schema import RANDOM, ImportedRunConfig, NamedOpponentsRunConfig
from sparring.curriculum.opponents import label_of
from sparring.envs.imported.evaluation.command import exact_values
from sparring.envs.imported.evaluation.matches import seats_of
from sparring.envs.imported.evaluation.network_states import network_states
from sparring.envs.imported.evaluation.policy import load_policy
from sparring.envs.imported.evaluation.state_players import CheckedPlayer, open_player, table_of
from sparring.envs.imported.match import make_match
from sparring.envs.imported.openspiel import is_zero_sum
from sparring.envs.imported.states import check_copies, first_state
from sparring.envs.imported.tree import game_tree
from sparring.eval.paired.response_game import (
    COLD,
    SAMPLING,
    WARM,
    ResponseGame,
    ResponseOptions,
    StateGame,
    Target,
    steps_per_update,
)

EVALUATIONS = 20
"""Points of a curve, about."""
SHAPE = ("hidden", "blocks", "activation", "encoder", "memory")
LEARNING = (
    *("self_play.both_seats=false", "self_play.pool_share=0.2", "ppo.clip=0.2", "ppo.final_learning_rate_fraction=0.1"),
    *("ppo.value_coefficient=0.5", "ppo.max_grad_norm=0.5"),
    *("ppo.entropy_coefficient=0.03", "ppo.final_entropy_fraction=0.1"),
    *("phases.0.scripted_start=1.0", "phases.0.scripted_end=1.0"),
)
"""A best response is pure and plays one seat; OpenSpiel's run file is made for mixed strategies of all seats."""


def read(responses: ResponseGame, text: str, options: ResponseOptions) -> Target:
    """Read a policy. Raises `InputError` for a mixture, other attackers, and a module that is not named."""
    if len(options.players) > 1:
        raise InputError(f"{options.players[1]}: a mixture is of the dogfight's policies; name one policy")
    for start in options.start:
        if start not in (COLD, WARM, SAMPLING):
            these = f"{COLD}, {WARM} and {SAMPLING}"
            raise InputError(f"--attacker {start}: in a game of another package these are {these}")
    if options.id:
        return read_foreign(responses, text, options)
    path = find_checkpoint(text)
    player, game = load_policy(path, "cpu", options.modules)
    seats = len(seats_of(game))
    games = -(-options.games // math.lcm(2, seats)) * math.lcm(2, seats)
    settings = [f"env={game.package}", f"env.id={game.id}", f"env.num_envs={-(-64 // seats) * seats}"]
    settings += [f"env.kwargs.{key}={as_override(value, quoted=True)}" for key, value in game.kwargs.items()]
    settings += [f"env.observation={game.observation}", f"env.outcome={game.outcome}"]
    settings += [f"env.roles={as_override(list(game.roles), quoted=True)}"] if game.roles else []
    settings += [*LEARNING, f"evaluation.games={games}"]
    shape = player.network.shape
    network = [f"network.{key}={shape[key]}" for key in SHAPE if key in shape]
    network += ["network.encoder=none"] if player.contract["picture"] and "picture" not in shape else []
    digest = sha256(path.read_bytes()).hexdigest()
    name = label_of(str(path))
    return Target(str(path), name, digest, responses, {}, settings, network, player.contract)


def read_foreign(responses: ResponseGame, text: str, options: ResponseOptions) -> Target:
    """Read a player of others in a game of OpenSpiel, and ask it for some decisions twice. Raises `InputError`."""
    try:
        match: Any = make_match("openspiel", options.id, {})
    except ConfigError as error:
        raise InputError(str(error).replace("env.id=", "--id ")) from error
    check_copies(f"--attacker {SAMPLING}", match.game)
    player = open_player(text, match.game)
    player.replay(match.game)
    version = metadata.version("open_spiel")
    fixed = f"{text} {options.id} {version}" if text.startswith("openspiel:") else ""  # others may change
    digest = sha256(fixed.encode()).hexdigest() if fixed else ""
    name = re.sub(r"[^A-Za-z0-9._+-]+", "-", f"{text} in {options.id}").strip("-")
    return Target(text, name, digest, responses, player=player)


def rounded_steps(kind: type[NamedOpponentsRunConfig], settings: Sequence[str], steps: int) -> NamedOpponentsRunConfig:
    """Return a run of at least `steps` with about `EVALUATIONS` evaluations, the last of them at its end."""
    each = steps_per_update(load_kind(kind, [*settings]))
    interval = max(1, round(steps / each / EVALUATIONS))
    updates = -(-steps // (each * interval)) * interval
    return load_kind(kind, [f"evaluation.every={interval}", *settings, f"phases.0.updates={updates}"])


def facts(
    options: ResponseOptions, targets: Sequence[Target], runs: Sequence[Any], label: str
) -> tuple[dict[str, Any], str]:
    """Return the game, the mean rewards of the best responses, and exact values where there are some; and text."""
    if targets[0].player is not None:
        return foreign_facts(options, targets[0].player)
    player, game = load_policy(Path(targets[0].against), "cpu", options.modules)
    rewards: dict[str, list[float | None]] = {}
    for run in runs:
        rewards.setdefault(run.start, []).append(_last_reward(run.folder, label))
    about = {"env": game.name, "kwargs": dict(game.kwargs), "mean_rewards": rewards, **exact_values(player, game)}
    if game.package == "openspiel" and is_zero_sum(game.id, game.kwargs):  # the policy alone returns 0, over all seats
        means = {attack: [value for value in values if value is not None] for attack, values in rewards.items()}
        about["gains"] = {attack: float(np.mean(values)) for attack, values in means.items() if values}
    lines = [
        f"{attack}: {', '.join(f'{value:+.3f}' for value in values if value is not None)}"
        for attack, values in rewards.items()
    ]
    text = f"\nMean reward of the best response at the end, by seed. {'; '.join(lines)}.\n"
    if exact := about.get("exploitability"):
        text += (
            f"\nExact: a best response gains {exact['deterministic']:.4f} on the deterministic policy and "
            f"{exact['sampled']:.4f} on its sampled actions, the mean over seats.\n"
        )
    return about, text


def _last_reward(folder: Path, label: str) -> float | None:
    """Return the mean reward of the best response in a run's last evaluation."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    rewards = [row[f"eval/{label}/reward"] for row in rows if f"eval/{label}/reward" in row]
    return rewards[-1] if rewards else None


def states(options: ResponseOptions, target: Target, sampled: bool) -> StateGame:
    """Return the game with copies of states, and the policy's choices in them, sampled or its likeliest.

    Raises `InputError` for a game of PettingZoo, one without texts of information states, and a policy with memory.
    """
    if target.player is not None:
        return foreign_states(options, target.player, sampled)
    player, game = load_policy(Path(target.against), "cpu", options.modules)
    if game.package != "openspiel":
        raise InputError(f"--attacker {SAMPLING}: {game.name} does not copy its states; leave it out")
    if player.memory_size:
        raise InputError(f"--attacker {SAMPLING}: {target.name} has memory, which copies of a state lack; leave it out")
    match: Any = game.match()
    name = f"--attacker {SAMPLING}"
    return network_states(name, match, game.rows(match), player.network, deterministic=not sampled)


def foreign_states(options: ResponseOptions, player: CheckedPlayer, sampled: bool) -> StateGame:
    """Return the game with a player of others, which draws its actions or takes the likeliest."""
    match: Any = make_match("openspiel", options.id, {})
    ends = match.game.min_utility(), match.game.max_utility()
    policy = player if sampled else player.likeliest
    return StateGame(lambda: first_state(match.game), match.game.num_players(), *ends, policy, str(match.game))


def foreign_facts(options: ResponseOptions, player: CheckedPlayer) -> tuple[dict[str, Any], str]:
    """Return the game of a player of others, and its exact exploitability where it can be computed; and text."""
    about: dict[str, Any] = {"env": f"openspiel:{options.id}"}
    text = f"\n{player.remark}\n" if player.remark else ""
    tree = game_tree(options.id, {})
    if tree is None:
        return about, text
    exact = {"uniform": tree.exploitability(tree.uniform())}
    for kind, policy in (("sampled", player), ("deterministic", player.likeliest)):
        exact[kind] = tree.exploitability(table_of(tree, policy))
    text += (
        f"\nExact: a best response gains {exact['sampled']:.4f} on the player as it acts, {exact['deterministic']:.4f} "
        f"on its likeliest actions and {exact['uniform']:.4f} on uniform play, the mean over seats.\n"
    )
    return {**about, "exploitability": exact}, text


RESPONSES = ResponseGame("imported", ImportedRunConfig, (), read, rounded_steps, (RANDOM,), facts=facts, states=states)
