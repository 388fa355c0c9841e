"""Zips of SB3's PPO and A2C and of sb3-contrib's MaskablePPO and RecurrentPPO as state players.

They are read without their code.

The policy observes OpenSpiel's tensor of the information state, or of the observation, whichever has its size. Logits
of illegal actions are masked, as in MaskablePPO. It may have layers of any number and width. An LSTM runs over the
player's own decisions of the game.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence

from sparring.agents.policies.inert_pickle import Record, numbers
from sparring.agents.policies.sb3_files import (
    POLICY_CLASS,
    SB3Error,
    check_policy,
    converted,
    find_statistics,
    read_statistics,
    stored_value,
)
from sparring.configs.core.errors import InputError
from sparring.configs.core.tensor_file import unpack
from sparring.envs.imported.evaluation.players.network_states import (
    TablePolicy,
    tensor_policy,
    tensor_sizes,
    tensors_of,
)
from sparring.envs.imported.evaluation.players.row_states import RowGame

MASKABLE_CLASS = "sb3_contrib.common.maskable.policies.MaskableActorCriticPolicy"
RECURRENT_CLASS = "sb3_contrib.common.recurrent.policies.RecurrentActorCriticPolicy"
SPACE = re.compile(r"gym(nasium)?\.spaces\.(?:box\.(?P<Box>Box)|discrete\.(?P<Discrete>Discrete))")
LAYERS = ("mlp_extractor.policy_net.", "mlp_extractor.value_net.", "action_net.", "value_net.")
CELL, CRITIC_CELLS = "lstm_actor.", ("lstm_critic.", "critic.")
HIDDEN = re.compile(r"mlp_extractor\.policy_net\.(\d+)\.weight")


class ChoiceNetwork:
    """Logits of one choice: plain layers with an activation between them, behind an LSTM if it `remembers`."""

    def __init__(self, weights: bytes, data: Mapping[str, Any]) -> None:
        of = "the MlpPolicy of PPO, A2C and MaskablePPO and the MlpLstmPolicy of RecurrentPPO"
        activation, _, self.normalized = check_policy(data, of, POLICY_CLASS, MASKABLE_CLASS, RECURRENT_CLASS)
        self._activation = getattr(torch, activation)
        self.inputs, self.actions = sizes_of(data)
        state = unpack(weights)
        self._cell = read_cell(state, self.inputs)
        self.remembers = self._cell is not None
        expected = (*LAYERS, CELL, *CRITIC_CELLS) if self.remembers else LAYERS
        if odd := next((name for name in state if not name.startswith(expected)), ""):
            raise SB3Error(f"policy.pth: has {odd}; train it with separate layers for actions and values")
        hidden = sorted(int(found[1]) for name in state if (found := HIDDEN.fullmatch(name)))
        names = [*(f"mlp_extractor.policy_net.{number}" for number in hidden), "action_net"]
        self._layers = [(state[f"{name}.weight"], state[f"{name}.bias"]) for name in names]
        inputs = self._cell.hidden_size if self._cell else self.inputs
        widths = [inputs, *(len(bias) for _, bias in self._layers)]
        shapes = [tuple(weight.shape) for weight, _ in self._layers]
        if shapes != [*zip(widths[1:], widths, strict=False)] or widths[-1] != self.actions:
            raise SB3Error(f"policy.pth: has layers {shapes} between {inputs} inputs and {self.actions} actions")
        if not all(torch.isfinite(part).all() for part in state.values()):
            raise SB3Error("policy.pth: has weights that are not finite; save a model that has learned")

    def __call__(self, paths: Sequence[Tensor]) -> Tensor:
        """Return the logits float32 [B, K] at the ends of B paths [T, D]; without an LSTM, T is 1."""
        if self._cell:
            observations: Tensor = self._cell(pack_sequence([*paths], enforce_sorted=False))[1][0][-1]
        else:
            observations = torch.cat([*paths])
        for weight, bias in self._layers[:-1]:
            observations = self._activation(observations @ weight.T + bias)
        weight, bias = self._layers[-1]
        return observations @ weight.T + bias


def read_cell(state: Mapping[str, Tensor], inputs: int) -> nn.LSTM | None:
    """Return the LSTM of an actor, None of one without. Raises `SB3Error` for one with other options than its sizes."""
    weights = {name.removeprefix(CELL): value for name, value in state.items() if name.startswith(CELL)}
    if not weights:
        return None
    hidden, layers = weights["weight_hh_l0"].shape[1], -(-len(weights) // 4)
    sizes: dict[str, tuple[int, ...]] = {"weight_ih_l0": (4 * hidden, inputs)}
    for layer in range(layers):
        sizes.setdefault(f"weight_ih_l{layer}", (4 * hidden, hidden))
        sizes |= {f"weight_hh_l{layer}": (4 * hidden, hidden)}
        sizes |= dict.fromkeys((f"bias_ih_l{layer}", f"bias_hh_l{layer}"), (4 * hidden,))
    if {name: tuple(value.shape) for name, value in weights.items()} != sizes:
        raise SB3Error(f"policy.pth: its {CELL[:-1]} is not a plain LSTM; train it without policy_kwargs.lstm_kwargs")
    cell = nn.LSTM(inputs, hidden, num_layers=layers, device="meta")  # draws no random weights
    cell.load_state_dict(weights, assign=True)
    return cell


def sizes_of(data: Mapping[str, Any]) -> tuple[int, int]:
    """Return the sizes of the observation and of the choice. Raises `SB3Error` for other spaces, and for pictures."""
    for key, expected in (("observation_space", "Box"), ("action_space", "Discrete")):
        space = stored_value(data, key)
        kind = space.name if isinstance(space, Record) else type(space).__name__
        found = SPACE.fullmatch(kind)
        if not found or not found[expected] or (expected == "Box" and space.state["dtype"].args[0] == "u1"):
            raise SB3Error(f"{key}={kind}: expected a {expected} of numbers; train it on the game's own")
    observation, action = (stored_value(data, key).state for key in ("observation_space", "action_space"))
    if int(numbers(action.get("start", 0))):
        raise SB3Error("action_space: starts above 0; train it with the game's numbers")
    return math.prod(observation["_shape"]), int(numbers(action["n"]))


def read_sb3(text: str, game: Any) -> TablePolicy:
    """Return the policy of a zip in a game. Raises `InputError` for one that was trained in other spaces."""
    path = Path(text)
    if not path.is_file():
        raise InputError(f"{text}: no such file; save a model with model.save({text!r})")
    network = converted(path, ChoiceNetwork)
    if network.inputs not in tensors_of(game).values():
        raise InputError(
            f"{text}: observes {network.inputs} numbers, but {game} has {tensor_sizes(game)}; train it on these"
        )
    if network.remembers and isinstance(game, RowGame):
        raise InputError(f"{text}: has an LSTM, but {game} does not keep its past observations; train it without one")
    if network.actions != game.num_distinct_actions():
        raise InputError(
            f"{text}: has {network.actions} actions, but {game} has {game.num_distinct_actions()}; train it in this "
            "game"
        )
    file = None if network.normalized is False else find_statistics(path)
    if network.normalized and not file:
        raise InputError(f"{text}: was trained under VecNormalize; save its statistics as {path.stem}_vecnormalize.pkl")
    statistics = read_statistics(file, network.inputs) if file else None

    def logits(paths: Sequence[Tensor]) -> Tensor:
        return network([statistics(rows) for rows in paths] if statistics else paths)

    return tensor_policy(game, network.inputs, logits, remembers=network.remembers)
