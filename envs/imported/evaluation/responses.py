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
from sparring.configs.opponents import register_opponent
from sparring.configs.overrides import as_override
from sparring.configs.schema import RANDOM, ImportedRunConfig, NamedOpponentsRunConfig
from sparring.curriculum.opponents import label_of
from sparring.envs.imported.evaluation.clone import imitate
from sparring.envs.imported.evaluation.command import exact_values
from sparring.envs.imported.evaluation.matches import seats_of
from sparring.envs.imported.evaluation.network_states import network_choices
from sparring.envs.imported.evaluation.policy import ImportedGame, load_policy
from sparring.envs.imported.evaluation.state_players import CheckedPlayer, open_player, table_of
from sparring.envs.imported.evaluation.state_seats import StateSeats, mixed
from sparring.envs.imported.match import make_match
from sparring.envs.imported.openspiel import is_zero_sum
from sparring.envs.imported.states import check_copies, first_state
from sparring.envs.imported.training.opponents import NetworkSeats
from sparring.envs.imported.tree import game_tree
from sparring.eval.paired.response_game import (
    DETERMINISTIC,
    STOCHASTIC,
    ResponseGame,
    ResponseOptions,
    StateGame,
    StatePolicy,
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
    """Read a policy. Raises `InputError` for a mixture of them, and a module that is not named."""
    if options.id:
        return read_foreign(responses, text, options)
    if len(options.players) > 1:
        raise InputError(
            f"{options.players[1]}: a mixture is of the dogfight's policies, or of players with --id; name one policy"
        )
    path = find_checkpoint(text)
    player, game = load_policy(path, "cpu", options.modules)
    seats = len(seats_of(game))
    games = -(-options.games // math.lcm(2, seats)) * math.lcm(2, seats)
    settings = [*game_settings(game, seats), f"evaluation.games={games}"]
    shape = player.network.shape
    network = [f"network.{key}={shape[key]}" for key in SHAPE if key in shape]
    network += ["network.encoder=none"] if player.contract["picture"] and "picture" not in shape else []
    digest = sha256(path.read_bytes()).hexdigest()
    name = label_of(str(path))
    return Target(str(path), name, digest, responses, {}, settings, network, player.contract)


def game_settings(game: ImportedGame, seats: int) -> list[str]:
    """Return the game and how a best response learns, as options of a run."""
    settings = [f"env={game.package}", f"env.id={as_override(game.id, quoted=True)}"]
    settings += [f"env.num_envs={-(-64 // seats) * seats}"]
    settings += [f"env.kwargs.{key}={as_override(value, quoted=True)}" for key, value in game.kwargs.items()]
    settings += [f"env.observation={game.observation}", f"env.outcome={game.outcome}"]
    settings += [f"env.roles={as_override(list(game.roles), quoted=True)}"] if game.roles else []
    return [*settings, *LEARNING]


def read_foreign(responses: ResponseGame, text: str, options: ResponseOptions) -> Target:
    """Read a player of others in a game of OpenSpiel, and ask it for some decisions twice. Raises `InputError`."""
    try:
        match: Any = make_match("openspiel", options.id, {})
    except ConfigError as error:
        raise InputError(str(error).replace("env.id=", "--id ")) from error
    check_copies(match.game)
    player = open_player(text, match.game)
    player.replay(match.game)
    version = metadata.version("open_spiel")
    fixed = f"{text} {options.id} {version}" if text.startswith("openspiel:") else ""  # others may change
    digest = sha256(fixed.encode()).hexdigest() if fixed else ""
    name = re.sub(r"[^A-Za-z0-9._+-]+", "-", f"{text} in {options.id}").strip("-")
    settings = game_settings(ImportedGame("openspiel", options.id), match.game.num_players())

    def named(sampled: bool) -> str:
        label = f"target-{sha256(text.encode()).hexdigest()[:12]}{'' if sampled else '-likeliest'}"
        register_opponent(label)(StateSeats(player if sampled else player.likeliest, label))
        return label

    return Target(text, name, digest, responses, settings=settings, player=player, named=named)


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
        return foreign_facts(options, [target.player for target in targets])
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
    text = f"\nMean reward of the best response at the end, by seed. {'; '.join(lines)}.\n" if lines else ""
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


def states(options: ResponseOptions, targets: Sequence[Target], sampled: bool) -> StateGame:
    """Return the game with copies of states, and the policy's choices in them, sampled or its likeliest.

    Raises `InputError` for a game of PettingZoo, one without texts of information states, and a policy with memory.
    """
    if targets[0].player is not None:
        return foreign_states(options, [target.player for target in targets], sampled)
    player, game = load_policy(Path(targets[0].against), "cpu", options.modules)
    if game.package != "openspiel":
        raise InputError(f"{game.name} does not copy its states")
    if player.memory_size:
        raise InputError(f"{targets[0].name} has memory, which copies of a state lack")
    match: Any = game.match()
    check_copies(match.game)
    return state_game(match.game, policy_choices(player, game, sampled=sampled))


def seated(options: ResponseOptions, file: Path) -> StatePolicy:
    """Return the likeliest choices of the policy in a file. Raises `InputError` for one with memory."""
    player, game = load_policy(file, "cpu", options.modules)
    if player.memory_size:
        raise InputError(f"{file}: has memory, which copies of a state lack; give network.memory=none")
    return policy_choices(player, game, sampled=False)


def clone(options: ResponseOptions, targets: Sequence[Target], sampled: bool, folder: Path) -> str:
    """Imitate players of others, unless the folder has the clone; return its file."""
    file = folder / f"clone-{STOCHASTIC if sampled else DETERMINISTIC}.pt"
    if not file.is_file():
        config = load_kind(ImportedRunConfig, [*targets[0].settings, *options.options])
        assert isinstance(config, ImportedRunConfig)
        imitate(states(options, targets, sampled), config, file)
    return str(file)


def policy_choices(player: NetworkSeats, game: ImportedGame, *, sampled: bool) -> StatePolicy:
    """Return the choices of a policy without memory in states of its game."""
    match: Any = game.match()
    return network_choices(match, game.rows(match), player.network, deterministic=not sampled)


def state_game(game: Any, policy: StatePolicy) -> StateGame:
    """Return a game of OpenSpiel with the policy that is exploited."""
    ends = game.min_utility(), game.max_utility()
    return StateGame(lambda: first_state(game), game.num_players(), *ends, policy, str(game))


def foreign_states(options: ResponseOptions, players: Sequence[CheckedPlayer], sampled: bool) -> StateGame:
    """Return the game with players of others, which draw their actions or take the likeliest."""
    match: Any = make_match("openspiel", options.id, {})
    return state_game(match.game, mixed(match.game, players, sampled=sampled))


def foreign_facts(options: ResponseOptions, players: Sequence[CheckedPlayer]) -> tuple[dict[str, Any], str]:
    """Return the game of players of others, and their exact exploitability where it can be computed; and text."""
    about: dict[str, Any] = {"env": f"openspiel:{options.id}"}
    if slow := {player.name: player.seconds / player.decisions for player in players if player.remark}:
        about["seconds_a_decision"] = slow
    text = "".join(f"\n{player.remark}\n" for player in players if player.remark)
    tree = game_tree(options.id, {})
    if tree is None:
        return about, text
    game: Any = make_match("openspiel", options.id, {})
    exact = {"uniform": tree.exploitability(tree.uniform())}
    for kind, sampled in (("sampled", True), ("deterministic", False)):
        exact[kind] = tree.exploitability(table_of(tree, mixed(game.game, players, sampled=sampled)))
    text += (
        f"\nExact: a best response gains {exact['sampled']:.4f} on the player as it acts, {exact['deterministic']:.4f} "
        f"on its likeliest actions and {exact['uniform']:.4f} on uniform play, the mean over seats.\n"
    )
    return {**about, "exploitability": exact}, text


RESPONSES = ResponseGame(
    "imported",
    ImportedRunConfig,
    (),
    read,
    rounded_steps,
    (RANDOM,),
    facts=facts,
    states=states,
    seated=seated,
    clone=clone,
)
