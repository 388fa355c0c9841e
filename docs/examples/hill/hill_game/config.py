"""Options: the section `env`, and the kind of run that PPO trains."""

from __future__ import annotations

from dataclasses import dataclass, field

from hill_game import BOTS, ENV_ID
from sparring.configs.core.allowed import option
from sparring.configs.games import ENV_ID as ID_FORM
from sparring.configs.games import ONLY_IMPORTED, EnvConfig
from sparring.configs.schema import DOGFIGHT_CHECKS, NamedOpponentsRunConfig, PhaseConfig, StageConfig


@dataclass
class HillEnvConfig(EnvConfig):
    """Matches of king of the hill."""

    id: str = option(ENV_ID, ID_FORM)
    ticks: int = option(64, "[1, 10000]")
    """Length of a match."""


@dataclass
class HillRunConfig(NamedOpponentsRunConfig):
    """PPO in king of the hill."""

    game, title, bots, seats = ENV_ID, "king of the hill", BOTS, 2
    lacks = ("phases.randomization", *DOGFIGHT_CHECKS, *ONLY_IMPORTED)

    env: HillEnvConfig = field(default_factory=HillEnvConfig)
    phases: list[PhaseConfig] = field(default_factory=lambda: [PhaseConfig(stages=[StageConfig(bots=list(BOTS))])])


RUNS = (HillRunConfig,)
