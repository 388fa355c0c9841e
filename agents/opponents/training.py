"""The named opponents of a training run: each is opened once, and its file may not change while the run goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sparring.agents.opponents.players import SAMPLED_PREFIX, find_player
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.opponents import is_reference, registered
from sparring.configs.schema import PPORunConfig
from sparring.curriculum.opponents import labels_of_run
from sparring.envs.game import Game, game_of


@dataclass(frozen=True)
class RunOpponents:
    """Policies by label, and the SHA-256 of those that come from files."""

    policies: Mapping[str, Any] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    """The configuration's text by label."""

    def state_dict(self) -> dict[str, Any]:
        """Return the hashes as an entry of a training state, if there are any."""
        return {"opponents": dict(self.hashes)} if self.hashes else {}

    def check_unchanged(self, state: Mapping[str, Any]) -> None:
        """Raise `ConfigError` if a file is not the one whose hash a `state_dict` has."""
        for label, digest in state.get("opponents", {}).items():
            if self.hashes.get(label) not in (None, digest):
                raise ConfigError(
                    f"opponent {self.texts[label]}: the file has changed since the run was started, its SHA-256 is "
                    f"{self.hashes[label][:12]} and was {digest[:12]}; restore it, or start a run with another name="
                )


def find_opponents(config: PPORunConfig) -> None:
    """Refuse opponents and a reward whose file or module is missing, before torch loads and the folder is made."""
    game = game_of(config.env.id)
    config.check_opponents()
    if is_reference(reward := getattr(config, "reward", "")):
        _find_module(reward, "reward")
    for text in named_texts(config):
        if game and text in game.held_out:
            # A best response measures its opponent and is not evaluated; any other run learns to play.
            if text == getattr(config, "against", "") and config.run == game.response_run:
                continue
            raise ConfigError(f"opponent {text}: is held out for evaluation; choose another")
        if is_reference(text):
            _find_module(text, "opponent")
        elif text not in registered() and not (game and game.builds(text)):
            _find_file(text, game, config)


def open_opponents(config: PPORunConfig, open_player: Callable[[str], Any]) -> RunOpponents:
    """Open every opponent of the run but bots, as its game does; Python objects are imported here."""
    game = game_of(config.env.id)
    labels = labels_of_run(config)
    policies: dict[str, Any] = {}
    hashes: dict[str, str] = {}
    for text in named_texts(config):
        policies[labels[text]] = open_player(text)
        scripted = game and (game.builds(text) or text in game.held_out)
        if not is_reference(text) and text not in registered() and not scripted:
            hashes[labels[text]] = sha256(_find_file(text, game, config).read_bytes()).hexdigest()
    return RunOpponents(policies, hashes, {labels[text]: text for text in named_texts(config)})


def named_texts(config: PPORunConfig) -> list[str]:
    """Return the texts of the opponents that are not bots, in order of appearance."""
    return [text for text in labels_of_run(config) if text not in config.bots]


def _find_file(text: str, game: Game | None, config: PPORunConfig) -> Path:
    """Return the policy's file; language models cannot be opponents here."""
    path = find_player(text.removeprefix(SAMPLED_PREFIX), game, bare=config.bots, models=game is None)
    assert isinstance(path, Path)
    return path


def _find_module(text: str, noun: str) -> None:
    module = text.partition(":")[0]
    try:
        spec = find_spec(module.partition(".")[0])  # of a package inside, finding would import the outer one
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        where = "install it, or put its folder on PYTHONPATH"
        raise InputError(f"{noun} {text}: cannot find the module {module.partition('.')[0]}; {where}")
