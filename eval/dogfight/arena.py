"""Matches of the dogfight in which given players can meet, and how a pair of them plays.

Games that cannot be played correctly raise an error; they never become a row of zeros.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from tqdm import tqdm

from sparring.agents.opponents.dogfight.load import Entrant
from sparring.agents.opponents.dogfight.planner import PlannerPlayer
from sparring.agents.play.dogfight_matches import Contestant, MatchSettings, play
from sparring.agents.policies.policy import Policy
from sparring.configs.core.errors import InputError
from sparring.envs.dogfight.recording import Recorder, Recording
from sparring.envs.dogfight.rules import ACTION_REPEAT, HELD_OUT, TICKS_PER_SECOND, ranges
from sparring.eval.paired.cells import Cell
from sparring.eval.stats.tables import MatchRecord, record_of

FILES = (".pt", ".onnx")
"""Players whose games can be kept: their file says all about them, which code and statistics beside a zip do not."""


class EvaluationError(InputError):
    """Raised for games that cannot be played or are invalid; the message is a one-line reason."""


@dataclass(frozen=True)
class DuelMatches:
    """Matches of the dogfight; see `eval.paired.cells.Matches`."""

    setting: MatchSettings

    @property
    def record(self) -> Any:
        """Type of the records."""
        return MatchRecord

    @property
    def device(self) -> str:
        """Device of the simulator."""
        return self.setting.device

    def play(self, cell: Cell, bar: tqdm[NoReturn]) -> tuple[MatchRecord, list[Recording]]:
        """Play the games of a cell. Raises `EvaluationError` for actions that are not finite."""
        (left, right), games, seed = cell.pair, cell.plan.games, cell.plan.seed
        recorder = Recorder(1) if cell.filmed else None
        setting = replace(self.setting, ranges=ranges(cell.regime), trace=recorder.games if recorder else 0)
        first, second = left.contestant, right.contestant
        if isinstance(first, PlannerPlayer):
            first = first.against(second, games=games, seed=seed, setting=setting)
        elif isinstance(second, PlannerPlayer):
            second = second.against(first, games=games, seed=seed, setting=setting, left=False)
        results = play(first, second, games=games, seed=seed, setting=setting, recorder=recorder)
        if count := results.invalid_actions:
            raise EvaluationError(
                f"{left.name} against {right.name}: {count} actions were not finite; the games are void"
            )
        names = {"left": left.name, "right": right.name}
        films = recorder.recordings(**names, rules=setting.rules, regime=cell.regime) if recorder else []
        return record_of(left.name, right.name, cell.regime, results, TICKS_PER_SECOND), films

    def stated(self) -> dict[str, Any]:
        """Return the settings; results do not depend on threads."""
        return asdict(replace(self.setting, threads=0))

    def identity(self, player: Entrant) -> tuple[Any, Path | None] | None:
        """Return contract and file of a policy, nothing but the name of a script; None for code."""
        if not isinstance(player.contestant, Policy) or player.name in HELD_OUT:
            return None, None
        if player.path is None or player.path.suffix not in FILES:
            return None
        return (player.contestant.contract, player.contestant.deterministic), player.path


def make_setting(
    contestants: Iterable[Contestant],
    *,
    rules: str | None = None,
    bot_rate: str | None = None,
    device: str = "cpu",
    threads: int = 0,
) -> MatchSettings:
    """Return match settings valid for all contestants.

    `rules` and the length of a step default to those of the first policy that states them, `bot_rate` to that of the
    rules. Raises `EvaluationError` for bots that decide every tick under challenge rules, and `PolicyError` for an
    incompatible policy.
    """
    policies = [contestant for contestant in contestants if isinstance(contestant, Policy)]
    first = next((policy.contract for policy in policies if "rules" in policy.contract), {})
    rules = rules or str(first.get("rules", "classic"))
    if rules == "challenge" and bot_rate == "tick":
        raise EvaluationError("bot_rate=tick: under challenge rules bots decide as often as policies; use agent")
    setting = MatchSettings(
        rules=rules,
        action_repeat=first.get("action_repeat", ACTION_REPEAT),
        bot_rate=bot_rate or ("agent" if rules == "challenge" else "tick"),
        # Policies without physics parameters use the first floats of the longer observation.
        observe_physics=any(policy.contract["observe_physics"] for policy in policies),
        device=device,
        threads=threads,
    )
    _check_policies(policies, setting)
    return setting


def _check_policies(policies: Iterable[Policy], setting: MatchSettings) -> None:
    """Check before any game that every policy is compatible with `setting`."""
    batch = setting.batch(2)
    try:
        for policy in policies:
            policy.check(batch.contract)
    finally:
        batch.close()
