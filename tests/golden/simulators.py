"""Play both simulators and write hashes of what they give, step by step: `python simulators.py FOLDER PACKAGE`.

Runs in the environment of one checkout, whose games are in PACKAGE (`envs` or `sparring.envs`), and imports as little
of it as possible: registered ids, and the two native batches for their whole state. A module that moves gets its new
name beside the old one in `MODULES`. Every game writes FOLDER/<game>.jsonl, a row of hashes per step, and
FOLDER/<game>.pt, the last step's tensors, which show how far two recordings are apart.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

MODULES = {
    "dogfight batch": ("dogfight.batch",),
    "dogfight rules": ("dogfight.rules",),
    "diplomacy batch": ("diplomacy.batch",),
}
"""Where in PACKAGE something may be: the first name that exists is taken."""
STEPS, MATCHES = 150, 50
TICKS = 90
"""A step's, so that all matches end and begin again."""
PHASES, GAMES = 24, 14
FULL = "full"

Tensors = dict[str, torch.Tensor]


def main(folder: Path, package: str) -> None:
    """Play everything, one thread, always the same actions."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    games = import_module(package)  # registers the ids
    for rules in ("classic", "challenge"):
        _write(folder / f"dogfight_{rules}", _dogfight(package, rules))
        _write(folder / f"gymnasium_{rules}", _gymnasium(rules))
    _write(folder / "dogfight_parallel", _parallel(games, "Dogfight", 60))
    _write(folder / "diplomacy", _diplomacy(package))
    _write(folder / "diplomacy_parallel", _parallel(games, "Diplomacy", 12))


def find(package: str, what: str) -> Any:
    """Import a module of the games by its first name that exists; raises `ImportError` where none does."""
    for name in (f"{package}.{name}" for name in MODULES[what]):
        if _exists(name):
            return import_module(name)
    raise ImportError(f"{what}: is in none of {', '.join(MODULES[what])} of {package}; add its new name to MODULES")


def _exists(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of a package on the way
        return False


def _dogfight(package: str, rules: str) -> Iterator[Tensors]:
    """Every pair of the five bots and of the actions, twice; physics drawn from the full ranges for every match."""
    options: dict[str, Any] = {"rules": rules, "action_repeat": TICKS, "threads": 1, "seed": 7}
    batch = find(package, "dogfight batch").DogfightBatch(2 * 36, **options)
    batch.set_ranges(find(package, "dogfight rules").ranges(FULL))
    players = torch.arange(-1, 5, dtype=torch.int32)
    bots = torch.cartesian_prod(players, players).repeat(2, 1)
    batch.assign(bots, torch.ones(len(bots), dtype=torch.bool))
    random = np.random.default_rng(1)
    for _ in range(STEPS):
        batch.step(torch.from_numpy(random.uniform(-1, 1, (len(bots), 2, 3)).astype(np.float32)))
        results = ("obs", "reward", "terminated", "truncated", "outcome", "length", "final_hp")
        ended = batch.terminated | batch.truncated
        last = {"final_obs": batch.final_obs[ended]}
        yield _tensors(batch.state_dict()) | {name: getattr(batch, name) for name in results} | last


def _gymnasium(rules: str) -> Iterator[Tensors]:
    """The vector environment, by its registered id."""
    bots = ("do_nothing", "dogfighter", "chaser", "ace", "brawler")
    options: dict[str, Any] = {
        "rules": rules,
        "randomization": FULL,
        "opponent": bots,
        "action_repeat": TICKS,
        "threads": 1,
    }
    env = gymnasium.make_vec(_registered("Dogfight"), num_envs=MATCHES, **options)
    random = np.random.default_rng(2)
    obs, _ = env.reset(seed=5)
    yield _tensors({"obs": obs})
    for _ in range(STEPS):
        actions = random.uniform(-1, 1, (MATCHES, 3)).astype(np.float32)
        obs, reward, terminated, truncated, _ = env.step(actions)
        yield _tensors({"obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated})
    env.close()


def _parallel(games: Any, game: str, steps: int) -> Iterator[Tensors]:
    """The PettingZoo environment of a game, with random legal actions."""
    module, _, kind = _parallel_entry(games, game).partition(":")
    env = getattr(import_module(module), kind)()
    obs, _ = env.reset(seed=3)
    for agent in env.possible_agents:
        env.action_space(agent).seed(11)
    for _ in range(steps):
        if not env.agents:
            return
        actions = {agent: _sample(env, agent, obs[agent]) for agent in env.agents}
        obs, *rest = env.step(actions)
        results = dict(zip(("reward", "terminated", "truncated"), rest, strict=False))
        yield _tensors({"obs": obs, "actions": actions} | results)


def _parallel_entry(games: Any, game: str) -> str:
    """Return "module:class" of a game's environment with all seats open."""
    entries: Mapping[str, str] = games.PARALLEL
    return next(entry for name, entry in entries.items() if name.startswith(f"sparring/{game}-"))


def _sample(env: Any, agent: str, obs: Any) -> np.ndarray:
    space = env.action_space(agent)
    return np.asarray(space.sample(obs["action_mask"]) if isinstance(obs, Mapping) else space.sample())


def _diplomacy(package: str) -> Iterator[Tensors]:
    """Two games of each bot against itself, and two in which six of them meet."""
    batch = find(package, "diplomacy batch").DiplomacyBatch(GAMES, last_year=1912, threads=1)
    players = torch.arange(GAMES, dtype=torch.int32).div(2, rounding_mode="floor")[:, None].repeat(1, 7)
    players[players == 6] = torch.arange(6, dtype=torch.int32).repeat(3)[:14]
    batch.players.copy_(players)
    for phase in range(PHASES):
        batch.draw_orders(1000 + phase)
        orders = batch.orders.clone()
        batch.process()
        yield _tensors(batch.snapshot()) | {"orders": orders, "results": batch.results}


def _registered(game: str) -> str:
    """The newest registered version of a game."""
    return max(name for name in gymnasium.registry if name.startswith(f"sparring/{game}-"))


def _tensors(value: Any, key: str = "") -> Tensors:
    """Every number, array and tensor in nested mappings and sequences, by its path."""
    if isinstance(value, Mapping):
        return {k: v for name, item in value.items() for k, v in _tensors(item, f"{key}/{name}".strip("/")).items()}
    if isinstance(value, list | tuple):
        return {k: v for name, item in enumerate(value) for k, v in _tensors(item, f"{key}/{name}".strip("/")).items()}
    return {key: torch.as_tensor(value)}


def _write(path: Path, steps: Iterator[Tensors]) -> None:
    """A row of hashes for each step, and the last step's tensors."""
    last: Tensors = {}
    with path.with_suffix(".jsonl").open("w", encoding="utf-8") as file:
        for tensors in steps:
            last = {name: tensor.detach().clone() for name, tensor in tensors.items()}
            file.write(json.dumps({name: _hash(tensor) for name, tensor in last.items()}) + "\n")
    torch.save(last, path.with_suffix(".pt"))


def _hash(tensor: torch.Tensor) -> str:
    """Type, shape and bytes."""
    about = f"{tensor.dtype}{tuple(tensor.shape)}".encode()
    return sha256(about + tensor.cpu().contiguous().numpy().tobytes()).hexdigest()[:16]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
