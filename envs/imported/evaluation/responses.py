"""Best responses to a policy of an imported game. The learner plays each seat equally often.

If rewards are more than win or loss, mean rewards are more informative than win rates. In games small enough to
traverse, the report adds the exact exploitability, an upper bound for every best response.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from sparring.agents.opponents.players import find_checkpoint
from sparring.agents.play.seat_matches import SeatPlayer
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.games import PACKAGES
from sparring.configs.load import load_kind
from sparring.configs.opponents import named_module, register_opponent
from sparring.configs.overrides import as_override
from sparring.configs.schema import RANDOM, NamedOpponentsRunConfig
from sparring.curriculum.opponents import label_of
from sparring.envs.imported.config import ImportedRunConfig
from sparring.envs.imported.evaluation.clone import imitate
from sparring.envs.imported.evaluation.command import exact_values
from sparring.envs.imported.evaluation.matches import seats_of
from sparring.envs.imported.evaluation.players.network_states import policy_choices, state_game
from sparring.envs.imported.evaluation.players.row_players import RowPlayer, open_row_player
from sparring.envs.imported.evaluation.players.state_players import Asked, CheckedPlayer, open_player, table_of
from sparring.envs.imported.evaluation.players.state_seats import StateSeats, mixed
from sparring.envs.imported.evaluation.policy import ImportedGame, load_policy
from sparring.envs.imported.openspiel import is_zero_sum, stated_options
from sparring.envs.imported.states import check_copies
from sparring.envs.imported.tree import game_tree
from sparring.eval.paired.response_game import (
    DETERMINISTIC,
    STOCHASTIC,
    ResponseGame,
    ResponseOptions,
    StateGame,
    StatePolicy,
    Target,
    check_weights,
    steps_per_update,
)

PETTINGZOO, OPENSPIEL = PACKAGES
BATCH = 8
"""Matches for each seat in which a player is asked twice."""
EVALUATIONS = 20
"""Points of a curve, about."""
SHAPE = ("hidden", "blocks", "activation", "encoder", "memory")
LEARNING = (
    *("self_play.both_seats=false", "self_play.pool_share=0.2", "ppo.clip=0.2", "ppo.final_learning_rate_fraction=0.1"),
    *("ppo.value_coefficient=0.5", "ppo.max_grad_norm=0.5"),
    *("ppo.entropy_coefficient=0.03", "ppo.final_entropy_fraction=0.1"),
    *("phases.0.scripted_start=1.0", "phases.0.scripted_end=1.0"),
)
"""A best response is pure and plays one seat; OpenSpiel's run file is for mixed strategies in all seats."""


def read(responses: ResponseGame, text: str, options: ResponseOptions) -> Target:
    """Read a policy. Raises `InputError` for a module that is not named, and an attack that needs a checkpoint."""
    if options.id:
        return read_foreign(responses, text, options)
    path = find_checkpoint(text)
    check_weights(text, path, options.start, options.target)
    player, game = load_policy(path, "cpu", options.modules)
    seats = len(seats_of(game))
    games = -(-options.games // math.lcm(2, seats)) * math.lcm(2, seats)
    settings = [*game_settings(game, seats), f"evaluation.games={games}"]
    shape = getattr(player.network, "shape", {})
    network = [f"network.{key}={shape[key]}" for key in SHAPE if key in shape]
    network += ["network.encoder=none"] if shape and player.contract["picture"] and "picture" not in shape else []
    digest = sha256(path.read_bytes()).hexdigest()
    name = label_of(str(path))
    about: dict[str, Any] = {"network": network, "contract": player.contract, "seats": seats}
    return Target(str(path), name, digest, responses, stated(game), settings, **about)


def stated(game: ImportedGame) -> dict[str, str]:
    """Return the game as options of matches."""
    return {key: str(value) for key, value in asdict(game).items()}


def game_settings(game: ImportedGame, seats: int) -> list[str]:
    """Return the game and how a best response learns, as options of a run."""
    settings = [f"env={game.package}", f"env.id={as_override(game.id, quoted=True)}"]
    settings += [f"env.num_envs={-(-64 // seats) * seats}"]
    settings += [f"env.kwargs.{key}={as_override(value, quoted=True)}" for key, value in game.kwargs.items()]
    settings += [f"env.observation={game.observation}", f"env.outcome={game.outcome}"]
    settings += [f"env.roles={as_override(list(game.roles), quoted=True)}"] if game.roles else []
    return [*settings, *LEARNING]


def read_foreign(responses: ResponseGame, text: str, options: ResponseOptions) -> Target:
    """Read an external player in a game, and query some decisions twice. Raises `InputError`."""
    for module in options.modules:
        named_module(module, f"--import {module}")  # registers a game in Python
    game = game_of_others(options)
    try:
        match: Any = game.match()
    except ConfigError as error:
        raise InputError(str(error).replace("env.id=", "--id ")) from error
    player: Any
    if game.package == OPENSPIEL:
        check_copies(match.game)
        player = open_player(text, match.game)
        player.replay(match.game)
    else:
        batch = game.batch(len(match.seats) * BATCH, 0)
        player = open_row_player(text, batch.contract)
        player.check_twice(batch)
        batch.close()
    fixed = f"{text} {options.id} {metadata.version('open_spiel')}" if text.startswith("openspiel:") else ""
    digest = sha256(fixed.encode()).hexdigest() if fixed else ""  # others may change
    name = re.sub(r"[^A-Za-z0-9._+-]+", "-", f"{text} in {options.id}").strip("-")

    def named(sampled: bool) -> str:
        label = f"target-{sha256(text.encode()).hexdigest()[:12]}{'' if sampled else '-likeliest'}"
        register_opponent(label)(seats_of_player(player, label, sampled=sampled))
        return label

    about: dict[str, Any] = {"modules": game.modules, "seats": len(match.seats)}
    learned = game if game.package != OPENSPIEL else ImportedGame(OPENSPIEL, *stated_options(options.id))
    settings = game_settings(learned, len(match.seats))
    return Target(text, name, digest, responses, stated(game), settings, player=player, named=named, **about)


def seats_of_player(player: CheckedPlayer | RowPlayer, label: str, *, sampled: bool) -> SeatPlayer:
    """Return an external player as an opponent for runs."""
    if isinstance(player, RowPlayer):
        return player.seats(sampled)
    return StateSeats(player if sampled else player.likeliest, label)


def game_of_others(options: ResponseOptions) -> ImportedGame:
    """Return the game of external players; a PettingZoo game has the options of the runs."""
    if options.env != PETTINGZOO:
        if options.id.startswith(f"{PETTINGZOO}."):
            raise InputError(f"--id {options.id}: is a game of PettingZoo; add --env {PETTINGZOO}")
        return ImportedGame(OPENSPIEL, options.id)
    words = [f"env={PETTINGZOO}", f"env.id={as_override(options.id, quoted=True)}", *options.options]
    config = load_kind(ImportedRunConfig, words)
    assert isinstance(config, ImportedRunConfig)
    env = config.env
    return ImportedGame(PETTINGZOO, env.id, env.kwargs, outcome=env.outcome, roles=tuple(env.roles))


def rounded_steps(kind: type[NamedOpponentsRunConfig], settings: Sequence[str], steps: int) -> NamedOpponentsRunConfig:
    """Return a run of at least `steps` with about `EVALUATIONS` evaluations, the last of them at its end."""
    each = steps_per_update(load_kind(kind, [*settings]))
    interval = max(1, round(steps / each / EVALUATIONS))
    updates = -(-steps // (each * interval)) * interval
    return load_kind(kind, [f"evaluation.every={interval}", *settings, f"phases.0.updates={updates}"])


def facts(
    options: ResponseOptions, targets: Sequence[Target], runs: Sequence[Any], labels: Sequence[str]
) -> tuple[dict[str, Any], str]:
    """Return the game, the mean rewards of the best responses, exact values if available, and text."""
    if targets[0].player is not None:
        return foreign_facts(options, targets)
    player, game = load_policy(Path(targets[0].against), "cpu", options.modules)
    rewards: dict[str, list[float | None]] = {}
    for run in runs:
        rewards.setdefault(run.start, []).append(_last_reward(run.folder, labels))
    about: dict[str, Any] = {"env": game.name, "kwargs": dict(game.kwargs), "mean_rewards": rewards}
    about |= exact_values(player, game, options.seat) if len(targets) == 1 else exact_mixture(options, targets, game)
    if game.package == "openspiel" and is_zero_sum(game.id, game.kwargs):  # the policy alone returns 0, over all seats
        means = {attack: [value for value in values if value is not None] for attack, values in rewards.items()}
        about["gains"] = {attack: float(np.mean(values)) for attack, values in means.items() if values}
    lines = [
        f"{attack}: {', '.join(f'{value:+.3f}' for value in values if value is not None)}"
        for attack, values in rewards.items()
    ]
    text = f"\nMean reward of the best response at the end, by seed. {'; '.join(lines)}.\n" if lines else ""
    return about, text + exact_text(about, "policy", options.seat)


def exact_mixture(options: ResponseOptions, targets: Sequence[Target], game: ImportedGame) -> dict[str, Any]:
    """Return the exploitability of several players as one policy, and of uniform play, as `exact_values` does.

    Empty if the game cannot be traversed, or for sampled actions of an ONNX model.
    """
    tree = game_tree(game.id, game.kwargs, game.observation, game.roles) if game.package == "openspiel" else None
    if tree is None:
        return {}
    exact = {"uniform": tree.exploitability(tree.uniform(), options.seat)}
    ways = {"sampled": True, "deterministic": False}
    for way, sampled in ways.items():
        with suppress(InputError):
            table = table_of(tree, states(options, targets, sampled).policy)
            exact[way] = tree.exploitability(table, options.seat)
    return {"exploitability": exact}


def exact_text(about: Mapping[str, Any], noun: str, seat: int | None) -> str:
    """Describe exact values; empty without any."""
    exact = about.get("exploitability", {})
    ways = {
        "sampled": f"on the {noun} as it acts",
        "deterministic": "on its likeliest actions",
        "uniform": "on uniform play",
    }
    values = ", ".join(f"{exact[way]:.4f} {words}" for way, words in ways.items() if way in exact)
    where = "the mean over seats" if seat is None else f"in seat {seat}"
    return f"\nExact: a best response gains {values}, {where}.\n" if values else ""


def _last_reward(folder: Path, labels: Sequence[str]) -> float | None:
    """Return the mean reward of the best response against all of a mixture, in a run's last evaluation."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    keys = [f"eval/{label}/reward" for label in labels]
    rewards = [float(np.mean([row[key] for key in keys])) for row in rows if all(key in row for key in keys)]
    return rewards[-1] if rewards else None


def states(options: ResponseOptions, targets: Sequence[Target], sampled: bool) -> StateGame:
    """Return the game with copyable states, and the policy on them, sampling or greedy.

    Raises `InputError` for a game of PettingZoo, and one without texts of information states.
    """
    if targets[0].player is not None:
        game = game_of_others(options)
        if game.package != OPENSPIEL:
            raise InputError(f"{game.name} does not copy its states")
        match: Any = game.match()
        players = [target.player for target in targets]
        return state_game(match.game, mixed([p if sampled else p.likeliest for p in players]))
    opened = [load_policy(Path(target.against), "cpu", options.modules) for target in targets]
    _, game = opened[0]
    if game.package != "openspiel":
        raise InputError(f"{game.name} does not copy its states")
    match = game.match()
    check_copies(match.game)
    policies = [policy_choices(player, game, sampled=sampled) for player, game in opened]
    return state_game(match.game, mixed(policies))


def seated(options: ResponseOptions, file: Path) -> StatePolicy:
    """Return the likeliest choices of the policy in a file. Raises `InputError` for one with memory."""
    modules = () if options.id else options.modules  # those of a game with --id are imported already
    return policy_choices(*load_policy(file, "cpu", modules), sampled=False)


def clone(options: ResponseOptions, targets: Sequence[Target], sampled: bool, folder: Path) -> str:
    """Clone external players unless the folder has the clone; return its file."""
    file = folder / f"clone-{STOCHASTIC if sampled else DETERMINISTIC}.pt"
    if not file.is_file():
        config = load_kind(ImportedRunConfig, [*targets[0].settings, *options.options])
        assert isinstance(config, ImportedRunConfig)
        imitate(states(options, targets, sampled), config, file)
    return str(file)


def foreign_facts(options: ResponseOptions, targets: Sequence[Target]) -> tuple[dict[str, Any], str]:
    """Return the game of external players, their exact exploitability if it can be computed, and text.

    Raises `InputError` for a player that has changed, since the figures would mix policies.
    """
    game = game_of_others(options)
    about: dict[str, Any] = {"env": game.name}
    players: list[Asked] = [
        asked for target in targets if (asked := getattr(target.player, "asked", target.player)) is not None
    ]
    for player in players:
        if isinstance(player, CheckedPlayer):
            player.confirm()
    if slow := {player.name: player.seconds / player.decisions for player in players if player.remark}:
        about["seconds_a_decision"] = slow
    about |= exact_mixture(options, targets, game)
    remarks = "".join(f"\n{player.remark}\n" for player in players if player.remark)
    return about, remarks + exact_text(about, "player", options.seat)


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
