"""Adapters that --opponents names beside bots: they play on the model in memory that --ckpt's adapter is on.

One model with several sets of adapter weights is what self-play in GRPO has, too. So an adapter meets only adapters of
the same base model, and of the same prompts, since all who play are shown positions in one way. What cannot meet is
refused with what to do instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparring.configs.core.errors import InputError
from sparring.curriculum.league.league import BASE_MODEL
from sparring.envs.diplomacy import GAME
from sparring.eval.diplomacy.options import DiplomacyOptions
from sparring.eval.diplomacy.player_files import ADAPTER, config_of, content_of, has_config
from sparring.eval.players import Player, find_player

if TYPE_CHECKING:
    from sparring.agents.llm.models.adapter_file import AdapterFile
    from sparring.agents.llm.models.adapters import Adapters
    from sparring.configs.language import LanguageModelConfig

INSTEAD = "play each against the same bots and compare the tables"


def find_rivals(options: DiplomacyOptions, found: Player | None) -> dict[str, Path]:
    """The files of --opponents that are neither bots nor the base model; `found` is who --ckpt means.

    Raises `InputError` for what is not there, and for what is seen to be no adapter without reading it.
    """
    rivals = {name: _find(name) for name in options.rivals}
    for name, rival in rivals.items():
        if isinstance(found, str) or (found is not None and found.is_dir()):
            raise InputError(
                f"--opponents {name}: {options.ckpt} is no adapter, and only adapters of one model meet; {INSTEAD}"
            )
        if rival == found:
            raise InputError(f"--opponents {name}: is --ckpt itself; leave it out")
    return rivals


def load_rivals(
    rivals: Mapping[str, Path], adapters: Adapters, own: AdapterFile, config: LanguageModelConfig
) -> dict[str, dict[str, Any]]:
    """Put every rival into `adapters` under its path; returns what their trainings say, by opponents' names.

    `own` is --ckpt's adapter and `config` its run's model. Raises `InputError` for a rival that cannot meet it.
    """
    trainings = {}
    for name, path in rivals.items():
        rival = _read(name, path, own, config)
        adapters.add(str(path), rival.weights, rival.shape)
        trainings[name] = rival.training
    return trainings


def _find(name: str) -> Path:
    found = find_player(name, GAME, bare=(*GAME.bots, BASE_MODEL))
    if isinstance(found, str) or found.is_dir():
        raise InputError(
            f"--opponents {name}: is a model, and one evaluation has one in memory; name bots, adapters on the model of"
            f" --ckpt, or {BASE_MODEL} for that model itself"
        )
    return found


def _read(name: str, path: Path, own: AdapterFile, config: LanguageModelConfig) -> AdapterFile:
    from sparring.agents.llm.models.adapter_file import adapter_of
    from sparring.envs.diplomacy.text.prompts import PromptRules

    content = content_of(path)
    if content.get("format") != ADAPTER or not has_config(path.parent):
        raise InputError(
            f"--opponents {name}: {path} is no adapter of a run, with its config.yaml beside it; {INSTEAD}"
        )
    rival = adapter_of(path, content)
    if rival.base != own.base:
        raise InputError(f"--opponents {name}: was trained on another base model than --ckpt; {INSTEAD}")
    rules, shown = (PromptRules.of(one) for one in (config, config_of(path.parent)))
    differ = [f"model.{key}" for key in PromptRules.__dataclass_fields__ if getattr(rules, key) != getattr(shown, key)]
    if differ:
        raise InputError(
            f"--opponents {name}: was trained with other prompts than --ckpt ({', '.join(differ)}); {INSTEAD}"
        )
    return rival
