"""Clone a state player from its self-play; a best response can start from the checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import torch

from sparring.agents.policies.checkpoint import save_checkpoint
from sparring.agents.policies.networks import build_network, shape_for
from sparring.envs.imported.batch import make_batch
from sparring.envs.imported.config import ImportedRunConfig
from sparring.envs.imported.states import rows_of
from sparring.eval.paired.response_game import Choices, StateGame

DECISIONS, GAMES = 20_000, 256
"""Number of self-play decisions to imitate, and the number of games played at a time."""
EPOCHS, BATCH, LEARNING_RATE = 20, 256, 1e-3
SEED = 1


def imitate(game: StateGame, config: ImportedRunConfig, path: Path) -> None:
    """Clone the player of `game` into a policy with the network of `config`, and write it to `path`."""
    env = config.env
    batch = make_batch(env.package, env.id, env.kwargs, 1, SEED, observation=env.observation, roles=env.roles)
    states, actions = own_play(game, DECISIONS)
    rows = torch.from_numpy(rows_of(batch.match(0), batch.rows, states)[0])
    chosen = torch.tensor(actions, dtype=torch.float32).unsqueeze(1)
    network: Any = build_network(shape_for(batch.contract, config.network), seed=SEED)
    optimizer, generator = torch.optim.Adam(network.parameters(), LEARNING_RATE), torch.Generator().manual_seed(SEED)
    for _ in range(EPOCHS):
        for part in torch.randperm(len(rows), generator=generator).split(BATCH):
            loss = -network.evaluate(rows[part], chosen[part])[0].mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    save_checkpoint(path, network, contract=batch.contract, training={"run": "clone", "env_steps": 0})
    batch.close()


def own_play(game: StateGame, decisions: int) -> tuple[Sequence[Any], Sequence[int]]:
    """Return the states in which the player decided during self-play, and its actions."""
    random, met, actions = Random(f"own play {SEED}"), list[Any](), list[int]()

    def drawn(choices: Choices) -> int:
        outcomes, weights = zip(*choices, strict=True)
        return int(random.choices(outcomes, weights)[0])

    while len(met) < decisions:
        games = [game.new_state() for _ in range(GAMES)]
        before = len(met)
        while games:
            for number, state in enumerate(games):
                while state.is_chance_node():
                    state = state.child(drawn(state.chance_outcomes()))
                games[number] = state
            games = [state for state in games if not state.is_terminal()]
            answers = game.policy(games) if games else []
            for number, (state, choices) in enumerate(zip(games, answers, strict=True)):
                met.append(state)
                actions.append(drawn(choices))
                games[number] = state.child(actions[-1])
        if len(met) == before:
            break
    return met[:decisions], actions[:decisions]
