"""Networks as policies on copied OpenSpiel states: this project's policies and imported layers.

A copied state lacks the memory of a recurrent network. The memory is recomputed from the player's past decisions, which
the information state determines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.agents.opponents.onnx_actor import ActionForm, OnnxActor
from sparring.agents.opponents.onnx_file import OnnxForm, read_contract, read_onnx
from sparring.agents.opponents.players import find_checkpoint
from sparring.agents.play.exploitability import probabilities
from sparring.configs.core.errors import InputError
from sparring.configs.games import is_imported
from sparring.envs.imported.evaluation.players.http_player import tensor_of
from sparring.envs.imported.evaluation.policy import ImportedGame, load_policy
from sparring.envs.imported.rows import SeatRows
from sparring.envs.imported.states import first_state, own_path, passive_actions, rows_of, whole
from sparring.envs.imported.training.opponents import NetworkSeats
from sparring.eval.paired.response_game import Choices, StateGame, StatePolicy

TENSORS = ("information_state", "observation")
TablePolicy = Callable[[Sequence[Any]], Sequence[Mapping[int, float]]]
"""Function from states to the deciding player's action probabilities; missing actions have probability 0."""


def network_states(match: Any, encoder: SeatRows, network: Any) -> StateGame:
    """Return the game of `match` with a network's sampling policy."""
    return state_game(match.game, network_choices(match, encoder, network, deterministic=False))


def state_game(game: Any, policy: StatePolicy) -> StateGame:
    """Return an OpenSpiel game with the policy to exploit."""
    ends = game.min_utility(), game.max_utility()
    return StateGame(lambda: first_state(game), game.num_players(), *ends, policy, str(game), passive_actions(game))


def network_choices(match: Any, encoder: SeatRows, network: Any, *, deterministic: bool) -> StatePolicy:
    """Return a network's policy on states of its game, greedy or sampling."""
    device = network.log_std.device

    def remembered(states: Sequence[Any]) -> Tensor:
        paths = [rows_of(match, encoder, [each for _, each, _ in own_path(state)])[0] for state in states]
        memory = torch.zeros(len(states), network.memory_size, device=device)
        for step in range(max(map(len, paths)) - 1):
            longer = [number for number, rows in enumerate(paths) if len(rows) > step + 1]
            rows = torch.from_numpy(np.stack([paths[number][step] for number in longer])).to(device)
            memory[longer] = network.step(rows, memory[longer], deterministic=True)[2]
        return memory

    @torch.no_grad()
    def choices(states: Sequence[Any]) -> list[Choices]:
        if not states:
            return []
        rows, legal = rows_of(match, encoder, states)
        seen = torch.from_numpy(rows).to(device)
        memory = remembered(states) if network.memory_size else seen[:, :0]
        table = probabilities(network, seen, memory, legal, deterministic=deterministic)
        return [[(int(k), float(row[k])) for k in np.flatnonzero(row)] for row in table]

    return choices


def policy_choices(player: NetworkSeats, game: ImportedGame, *, sampled: bool) -> StatePolicy:
    """Return the choices of a policy in states of its game.

    Raises `InputError` for sampling from an ONNX model, which returns a single action.
    """
    if sampled and not player.network.samples:
        raise InputError(f"{player.name}: an ONNX model does not sample its actions")
    match: Any = game.match()
    return network_choices(match, game.rows(match), player.network, deterministic=not sampled)


def read_policy(text: str, game: Any) -> TablePolicy:
    """Return a policy of this project in its game, sampling if a checkpoint. Raises `InputError` for other games."""
    module = type(game).__module__  # which is imported
    own_module = [] if module.split(".")[0] in ("pyspiel", "open_spiel") else [module]
    player, trained = load_policy(find_checkpoint(text), "cpu", own_module)
    own: Any = trained.match() if trained.package == "openspiel" else None
    if own is None or str(own.game) != str(game):
        raise InputError(f"{text}: plays {trained.name}, but the game is {game}; name a policy of this game")
    choices = policy_choices(player, trained, sampled=player.network.samples)
    return lambda states: [dict(each) for each in choices(states)]


def tensors_of(game: Any) -> dict[str, int]:
    """Return the size of the tensor of the information state, and of the observation, where a game has them."""
    kind = game.get_type()
    return {name: math.prod(getattr(game, f"{name}_tensor_shape")()) for name in TENSORS if tensor_of(kind, name)}


def tensor_sizes(game: Any) -> str:
    """Describe these sizes."""
    sizes = tensors_of(game).items()
    return " or ".join(f"{size} ({name.replace('_', ' ')})" for name, size in sizes) or "no tensor"


def tensor_policy(
    game: Any, inputs: int, logits: Callable[[Sequence[Tensor]], Tensor], *, remembers: bool = False
) -> TablePolicy:
    """Return the softmax over legal actions of `logits` [B, K] of OpenSpiel's tensor with `inputs` numbers.

    `logits` receives a tensor float32 [T, D] for each state: all decisions of the player so far if it `remembers`, else
    only the current one.
    """
    tensor = next(f"{name}_tensor" for name, size in tensors_of(game).items() if size == inputs)

    @torch.no_grad()
    def policy(states: Sequence[Any]) -> list[dict[int, float]]:
        if not states:
            return []
        paths = [[each for _, each, _ in own_path(state)] if remembers else [state] for state in states]
        seen = [[getattr(played, tensor)(player) for played, player in map(whole, path)] for path in paths]
        answers = logits([torch.tensor(rows, dtype=torch.float32) for rows in seen]).double()
        legal = [state.legal_actions() for state in states]
        return [
            dict(zip(actions, row[actions].softmax(0).tolist(), strict=True))
            for actions, row in zip(legal, answers, strict=True)
        ]

    return policy


def read_model(text: str, game: Any) -> TablePolicy:
    """Return the policy of an ONNX file: exported by this project, or a model of OpenSpiel's tensors.

    The output has a number for each action of the game; those of legal actions are logits.
    """
    path = find_checkpoint(text)
    if is_imported(read_contract(path)):
        return read_policy(text, game)
    count, sizes = game.num_distinct_actions(), tensors_of(game).values()
    wanted = (
        f"input float32 [1, D] or [N, D] with D of {tensor_sizes(game)} in {game}, output float32 [1, {count}] or "
        f"[N, {count}], a logit for each action"
    )
    form = {"continuous": count, "binary": 0, "categorical": 0}
    file = read_onnx(path, OnnxForm(lambda size, _: form | {"obs_dim": size} if size in sizes else None, wanted))
    ends = np.full(count, np.inf, np.float32)
    actor = OnnxActor(file, ActionForm(-ends, ends, 0, "logits"))
    return tensor_policy(game, file.obs_dim, lambda rows: actor.act(torch.cat([*rows]))[0])
