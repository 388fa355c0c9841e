"""Language models as policies on OpenSpiel states: model lookup by name, and probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sparring.agents.language import opponents as language
from sparring.agents.language.opponents import Settings
from sparring.agents.opponents.players import Player, check_game, display_name, find_player, is_server
from sparring.agents.run.folder import RunFolder
from sparring.configs.core.errors import InputError
from sparring.configs.language import EndpointConfig
from sparring.configs.serialization import from_stored
from sparring.envs.openspiel_text import GAME, NAME
from sparring.envs.openspiel_text.answers import MOVES
from sparring.envs.openspiel_text.config import OpenSpielAnswerConfig, OpenSpielGRPORunConfig
from sparring.envs.openspiel_text.prompts import prompt_of

ENV = {"package": NAME}
TEMPERATURE = 1.0
"""Default for a model without training metadata."""


@dataclass(frozen=True)
class TextModel:
    """A language model that is open: `backend` is a `PolicyPlayer`, `endpoint` are the options of a server."""

    name: str
    backend: Any
    endpoint: EndpointConfig | None = None


def run_of_model(player: Player) -> OpenSpielGRPORunConfig | None:
    """Return the configuration of the run that trained an adapter in these games, None for another model."""
    if isinstance(player, str) or not language.has_config(run := language.run_of(player)):
        return None
    config = from_stored(RunFolder(run).read_config())
    return config if isinstance(config, OpenSpielGRPORunConfig) else None


def open_model(player: Player, *, device: str, temperature: float, settings: Settings | None = None) -> TextModel:
    """Open a located model; raises `InputError`, in one line, for one that cannot be used."""
    settings = settings or {}
    if isinstance(player, str) and is_server(player):
        backend, _, endpoint = language.open_served(player, ENV, settings, MOVES, temperature)
        return TextModel(backend.name, backend, endpoint)
    if isinstance(player, Path) and not player.is_dir():
        check_game(GAME, player)
        if not (language.is_adapter(player) and language.has_config(player.parent)):
            raise InputError(
                f"{player}: is not an adapter in its run's folder; give a run that trained a language model"
            )
    config = language.overridden(language.config_of_player(player), ENV, settings)
    loaded = language.load_language_model(player, config, device)  # names a package that is missing
    from sparring.agents.language.models.adapters import LEARNER

    return TextModel(display_name(player), loaded.backends(MOVES, temperature, {"": LEARNER})[""])


StateProbabilities = Callable[[Sequence[Any]], Sequence[Mapping[int, float]]]
"""From states to the probability of each legal action, for the player who decides."""


@dataclass
class ModelPolicy:
    """A language model that chooses from menus, as a policy of states: from states to the probabilities of actions.

    Each prompt is queried once, so the policy is fixed.
    """

    backend: Any
    answer: OpenSpielAnswerConfig = field(default_factory=OpenSpielAnswerConfig)
    known: dict[str, dict[int, float]] = field(default_factory=dict)

    def __call__(self, states: Sequence[Any]) -> list[Mapping[int, float]]:
        """Return the probability of each legal action in each state, for the player who decides."""
        prompts = [prompt_of(state, self.answer) for state in states]
        new = [*{prompt.text: prompt for prompt in prompts if prompt.text not in self.known}.values()]
        for prompt, values in zip(new, self.backend.policies(new) if new else (), strict=True):
            actions = [option.value for option in prompt.menu.menu(0)]  # type: ignore[union-attr]
            self.known[prompt.text] = dict(zip(actions, np.asarray(values).tolist(), strict=True))
        return [self.known[prompt.text] for prompt in prompts]


def random_policy(states: Sequence[Any]) -> list[Mapping[int, float]]:
    """Return equal probabilities of the legal actions."""
    return [dict.fromkeys(legal, 1.0 / len(legal)) for legal in (state.legal_actions() for state in states)]


def open_player(x: Any, device: str = "cpu") -> StateProbabilities:
    """Return the policy of the bot or language model `x`, a model at the temperature of its training, 1 for others.

    Raises `InputError` for an unknown one, and a run that learned to answer in free text.
    """
    player = find_player(x, GAME, bare=GAME.bots) if isinstance(x, str) else x
    if player in GAME.bots:
        return random_policy
    run = run_of_model(player)
    if run and run.env.answer != OpenSpielAnswerConfig():
        raise InputError(f"{x}: answers in free text without known probabilities; name a run with env.answer.form=menu")
    temperature = run.model.temperature if run else TEMPERATURE
    return ModelPolicy(open_model(player, device=device, temperature=temperature).backend)
