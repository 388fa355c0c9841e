"""Evaluate a policy in the dogfight: `python eval/run.py --ckpt final.pt`; `--help` lists every option, with examples.

Plays seat-swapped pairs of games against each opponent and prints wins, draws and losses with 95 % intervals. It writes
eval.json and eval.md next to the checkpoint, or eval.<name>.json and .md if it is not named final.pt. ONNX agents are
accepted wherever checkpoints are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from sparring.agents.opponents.players import Player, planner_samples
from sparring.configs.core.errors import InputError
from sparring.configs.core.status import COMPILING, said_if_long
from sparring.configs.games import DOGFIGHT_V0
from sparring.envs.dogfight import GAME
from sparring.envs.dogfight.config import CLOSING
from sparring.envs.dogfight.rules import (
    ACTION_REPEAT,
    BOT_RATES,
    BOTS,
    CHALLENGE_GRAVITY,
    ENV_ID,
    HELD_OUT,
    LEVELS,
    REGIMES,
    RULES,
    TICKS_PER_SECOND,
    ranges,
)
from sparring.eval.command import GameEvaluation, GamePayoff
from sparring.eval.options import (
    CONDITIONS,
    RESULTS,
    WHO,
    WIDTH,
    CommandText,
    argument,
    check_page,
    check_suffix,
)
from sparring.eval.paired import duels
from sparring.eval.paired.duels import DuelEvaluationOptions, KernelMatches
from sparring.eval.paired.evaluation import Cell, PairedGame, PairedPlayers, Plan, Played, evaluate, saved
from sparring.eval.paired.options import ALL, PairedOptions
from sparring.eval.payoff import PayoffOptions, payoff, payoff_text
from sparring.eval.stats.tables import LENGTH_AND_HP, MatchRecord, PairConditions, length_and_hp

if TYPE_CHECKING:
    from tqdm import tqdm

    from sparring.agents.opponents.duelists import Duelist
    from sparring.agents.play.duel_matches import Contestant
    from sparring.envs.dogfight.batch import MatchSettings
    from sparring.envs.dogfight.recording import Recording

PHYSICS = {name: {"ranges": ranges(name)} for name in (*LEVELS, *REGIMES)}
"""Levels and regimes of physics."""
ENV_VERSIONS = ("0", "1")
"""Versions of the game; the last is the current one."""
BOT_SET, HELD_OUT_SET = "bots", "held_out"
OPPONENT_SETS = {BOT_SET: BOTS, HELD_OUT_SET: HELD_OUT}
"""Names that stand for several opponents."""

_EXAMPLES = f"""\
examples:
  python eval/run.py --ckpt final.pt                       the newest run against the five bots and the held-out set
  python eval/run.py --ckpt final.pt --opponents bots      the five bots alone; held_out: never trained against
  python eval/run.py --ckpt quick-hawk-quickstart --games 1000 --seed 7
  python eval/run.py --ckpt final.pt --opponents ace,brawler --regimes none full knife_fight
  python eval/run.py --ckpt final.pt --opponents released/dogfight_quickstart
  python eval/run.py --ckpt agent.onnx --opponents ace,other.onnx      ONNX agents, 59, 46 or 224 floats in, 3 out
  python eval/run.py --ckpt old-run --env-version 0        a policy trained against the bots of version 0
  python eval/run.py --ckpt final.pt --require "brawler>=0.95" --require "score:worst@full>=0.5"
  python eval/run.py --ckpt final.pt --replay match.html --gif match.gif
  python eval/run.py --ckpt bot:ace                        a bot as the player
  python eval/run.py --ladder                              the bots against each other, with ratings
  python eval/run.py --ckpt final.pt --opponents other-run --sprt elo0=0 elo1=20

other games: a policy is evaluated in its own game, and so are bots; these options are for the dogfight
  python eval/run.py --env diplomacy --help                options of Diplomacy, also for language models
  python eval/run.py --env gymnasium --help                options of other environments, such as CartPole-v1

bots: {", ".join(BOTS)}
{fill(f"held_out: {', '.join(HELD_OUT)}", WIDTH)}
{fill(f"regimes: {', '.join(PHYSICS)}; none is the same as default", WIDTH)}
exit codes: 0 done, 1 a --require failed or --sprt did not accept H1, 2 bad input or a package missing,
130 stopped with Ctrl-C"""


_PAYOFF_EXAMPLES = """\
  python eval/payoff.py --ckpt final.pt                        the newest run: 10 snapshots and the five bots
  python eval/payoff.py --ckpt mean-knight-unified_dr_cpu --snapshots 20 --games 400 --out docs/cycle.png
  python eval/payoff.py --ckpt final.pt --opponents none       the snapshots among themselves
  python eval/payoff.py --ckpt final.pt --regimes full --anchor ace=1000
  python eval/payoff.py --opponents bots,released/dogfight_quickstart    players without a run"""


@dataclass(frozen=True, kw_only=True)
class DuelOptions(PairedOptions):
    """Options of every command that plays the dogfight."""

    SETS: ClassVar[Mapping[str, Sequence[str]]] = OPPONENT_SETS
    REGIMES: ClassVar[Mapping[str, Mapping[str, Any]]] = PHYSICS
    anchor: str | None = argument(None, metavar="A", group=WHO)
    """Player with a fixed rating, as in ace or ace=1000 (default: the hardest bot that plays, brawler, at 0)."""
    stochastic: bool = argument(False, group=WHO)
    """Let policies sample their actions (ONNX agents never do)."""
    env_version: str = argument(
        ENV_VERSIONS[-1],
        ENV_VERSIONS,
        metavar="|".join(ENV_VERSIONS),
        group=WHO,
        text=f"0 allows evaluating a classic policy of {DOGFIGHT_V0} in the current game; the table notes it",
    )
    regimes: tuple[str, ...] = argument(
        ("none",), (*PHYSICS, ALL), metavar="R", group=CONDITIONS, noun="regime", split=True
    )
    """Levels and regimes of physics, or all."""
    rules: str | None = argument(None, RULES, metavar="|".join(RULES), group=CONDITIONS, noun="rules")
    """Rules of the matches (default: those the policy was trained under)."""
    bot_rate: str | None = argument(None, BOT_RATES, metavar="|".join(BOT_RATES), group=CONDITIONS, noun="bot_rate")
    """Bots decide every tick (default) or as often as policies."""
    closing: float = argument(0.0, CLOSING, metavar="S", group=CONDITIONS, noun="closing")
    """Close the arena from second S on to decide matches that would be drawn (classic rules; 0: never)."""

    @property
    def any_version(self) -> bool:
        """True if a policy of an old version of the game may be evaluated."""
        return self.env_version == ENV_VERSIONS[0]

    @property
    def loading(self) -> dict[str, Any]:
        """How policies are loaded."""
        return super().loading | {"old_version": self.any_version}


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(DuelOptions, DuelEvaluationOptions):
    """Options of the command; the players are not located yet."""

    TEXT = CommandText(
        "eval/run.py",
        "Play a policy against opponents in seat-swapped pairs of games and print wins, draws and losses with "
        "intervals. Write eval.json and eval.md next to final.pt, or eval.NAME.json and .md next to NAME.pt.",
        _EXAMPLES,
        env="dogfight",
    )
    OUTPUTS: ClassVar[Sequence[str]] = ("replay", "gif")
    ckpt: str = argument("", metavar="C", group=WHO)
    """A path (.pt, .onnx or .zip), a run's name, final.pt (the newest run's) or bot:NAME."""
    opponents: tuple[str, ...] = argument((), metavar="O", group=WHO, split=True)
    """Bots, checkpoints, ONNX agents, and the sets bots and held_out (default: both sets; --ladder: bots)."""
    replay: Path | None = argument(None, metavar="HTML", group=RESULTS)
    """Write a page that plays one match against each opponent."""
    gif: Path | None = argument(None, metavar="GIF", group=RESULTS)
    """Write the match against the opponent with the worst result."""

    @property
    def named(self) -> tuple[str, ...]:
        """Opponents and sets of opponents, as given, or the defaults."""
        return self.opponents or ((BOT_SET,) if self.ladder else (BOT_SET, HELD_OUT_SET))

    @property
    def filmed(self) -> int:
        """Number of opponents whose first game is filmed: all, if any film is asked for."""
        return len(self.opponents) if self.replay or self.gif else 0

    def check(self) -> None:
        """Raise `InputError` for incompatible files and options."""
        picture = self.replay
        check_page(picture, f", or --gif {picture} for a picture" if picture and picture.suffix == ".gif" else "")
        check_suffix("--gif", self.gif, ".gif")
        super().check()


@dataclass(frozen=True, kw_only=True)
class DuelPayoffOptions(PayoffOptions, DuelOptions):
    """Options of a payoff matrix."""

    TEXT = payoff_text(_PAYOFF_EXAMPLES)
    opponents: tuple[str, ...] = argument((BOT_SET,), metavar="O", group=WHO, split=True)
    """Bots, checkpoints and ONNX agents besides them (default: the five bots), or none."""


@dataclass(frozen=True)
class DuelMatches(KernelMatches):
    """Matches of the dogfight."""

    setting: MatchSettings
    ticks_per_second: ClassVar[float] = TICKS_PER_SECOND
    regimes: ClassVar[Mapping[str, Mapping[str, Any]]] = PHYSICS

    def play(self, cell: Cell, bar: tqdm[NoReturn]) -> tuple[MatchRecord, list[Recording]]:
        """Play the games of a cell. Raises `InputError` for actions that are not finite."""
        from sparring.envs.dogfight.recording import Recorder
        from sparring.envs.dogfight.training.opponents.planner import PlannerPlayer

        player, opponent = cell.pair
        how: dict[str, Any] = {"games": cell.plan.games, "seed": cell.plan.seed}
        recorder = Recorder(1) if cell.filmed else None
        setting = replace(self.under(cell.regime), trace=recorder.games if recorder else 0)
        first, second = player.contestant, opponent.contestant
        if isinstance(first, PlannerPlayer):
            first = first.against(second, setting=setting, **how)
        elif isinstance(second, PlannerPlayer):
            second = second.against(first, setting=setting, left=False, **how)
        record = self.played(cell, (first, second), cell.regime, setting, recorder)
        names = {"left": player.name, "right": opponent.name}
        films = recorder.recordings(**names, rules=setting.rules, regime=cell.regime) if recorder else []
        return record, films


def make_setting(
    contestants: Iterable[Contestant],
    *,
    rules: str | None = None,
    bot_rate: str | None = None,
    closing: float = 0.0,
    device: str = "cpu",
    threads: int = 0,
) -> MatchSettings:
    """Return match settings valid for all contestants.

    `rules` and the length of a step come from the first policy that states them by default, `bot_rate` from the
    rules. Raises `InputError` for bots that decide every tick under challenge rules, and `PolicyError` for an
    incompatible policy.
    """
    from sparring.agents.play.duel_matches import check_policies
    from sparring.agents.policies.policy import Policy
    from sparring.envs.dogfight.batch import MatchSettings

    policies = [contestant for contestant in contestants if isinstance(contestant, Policy)]
    first = next((policy.contract for policy in policies if "rules" in policy.contract), {})
    rules = rules or str(first.get("rules", "classic"))
    if rules == "challenge" and bot_rate == "tick":
        raise InputError("bot_rate=tick: under challenge rules bots decide as often as policies; use agent")
    setting = MatchSettings(
        rules=rules,
        action_repeat=first.get("action_repeat", ACTION_REPEAT),
        bot_rate=bot_rate or ("agent" if rules == "challenge" else "tick"),
        # Policies without physics parameters use the first floats of the longer observation.
        observe_physics=any(policy.contract["observe_physics"] for policy in policies),
        closing=closing,
        device=device,
        threads=threads,
    )
    check_policies(policies, setting)
    return setting


def find(name: str, opponent: bool) -> Player:
    """Locate a player, or the planner. Raises `UnknownNameError`."""
    return name if planner_samples(name) else duels.find(GAME, name, opponent)


def open_players(
    options: DuelOptions, player: Player | None, opponents: Sequence[Player], device: str, like: Any = None
) -> PairedPlayers:
    """Load the players, skipping held-out opponents that do not fit; a note names these."""
    from sparring.agents.opponents.duelists import Duelist
    from sparring.envs.dogfight.training.opponents.load import open_player
    from sparring.envs.dogfight.training.opponents.planner import PlannerPlayer

    def opened(x: Player, device: str, **how: Any) -> Duelist:
        if isinstance(x, str) and (samples := planner_samples(x)):
            return Duelist(x, PlannerPlayer(samples, name=x, device=device))
        return open_player(x, device, **how)

    players = duels.open_players(opened, options, player, opponents, device, old_version=options.any_version)
    if HELD_OUT_SET not in options.sets:
        return players
    first, rivals = players.player, players.opponents
    player_name, leader = first.name if first else "", first or rivals[0]
    left_out = [
        rival.name
        for rival in rivals
        if rival.name in HELD_OUT and (rival.name == player_name or not _fits(rival, leader, options))
    ]
    players = duels.with_notes(first, [rival for rival in rivals if rival.name not in left_out])
    absent = [name for name in HELD_OUT if name not in {rival.name for rival in players.opponents}]
    why = "of the held-out set is left out: the player itself or no policy for these matches"
    return replace(players, notes=(*players.notes, *(f"{name} {why}" for name in absent)))


def _fits(entrant: Duelist, first: Duelist, options: DuelOptions) -> bool:
    """Return whether a held-out opponent can play the first player's matches; one without a contract plays all."""
    contract, first_contract = (getattr(member.contestant, "contract", {}) for member in (entrant, first))
    conditions = {"rules": options.rules or first_contract.get("rules", RULES[0])}
    conditions["action_repeat"] = first_contract.get("action_repeat", ACTION_REPEAT)
    return all(contract.get(key, value) == value for key, value in conditions.items())


def matches(options: DuelOptions, entrants: Sequence[Duelist], device: str, threads: int) -> DuelMatches:
    """Return matches in which all `entrants` can meet. Raises `InputError` if there are none."""
    contestants = [entrant.contestant for entrant in entrants]
    asked: dict[str, Any] = {name: getattr(options, name) for name in ("rules", "bot_rate", "closing")}
    with said_if_long(COMPILING, enabled=not options.quiet):
        setting = make_setting(contestants, **asked, device=device, threads=threads)
    return DuelMatches(setting)


def conditions(options: DuelOptions, played: DuelMatches) -> PairConditions:
    """Return rules, physics and the decisions of bots."""
    setting, regimes = played.setting, options.regimes
    physics = f"physics {regimes[0]}" if len(regimes) == 1 else f"{len(regimes)} regimes of physics"
    bots = "every tick" if setting.bot_rate == "tick" else f"every {setting.action_repeat} ticks, as policies do"
    gravity = f"; gravity is always {CHALLENGE_GRAVITY:g} m/s^2" if setting.rules == "challenge" else ""
    closing = f"; the arena closes from {setting.closing:g} s on" if setting.closing else ""
    fields = {name: getattr(setting, name) for name in ("rules", "bot_rate", "action_repeat")}
    fields |= {"closing": setting.closing} if setting.closing else {}
    return PairConditions(
        "evaluation",
        "payoff",
        ENV_ID,
        f"{setting.rules} rules, {physics}, bot_rate={setting.bot_rate}",
        fields,
        LENGTH_AND_HP,
        length_and_hp,
        varied="physics",
        details=f"; bots decide {bots}{gravity}{closing}",
    )


def recordings(
    options: EvaluationOptions,
    players: PairedPlayers,
    plan: Plan,
    played: Played,
) -> dict[Path, Callable[[Path], None]]:
    """Return the writers of --replay and --gif."""
    from sparring.envs.dogfight.animation import write_gif
    from sparring.envs.dogfight.evaluation.replay import write_replay

    records, films = played.records, played.films
    # Ties go to the last opponent: they are usually listed from easy to hard.
    worst = min(reversed(range(len(films))), key=lambda index: records[index].win_rate, default=0)
    writers: dict[Path, Callable[[Path], None]] = {}
    if options.replay:
        writers[options.replay] = partial(write_replay, recordings=films)
    if options.gif and films:
        writers[options.gif] = lambda path: write_gif(path, films[worst], progress=not options.quiet)
    return writers


DOGFIGHT = PairedGame(
    GAME,
    find,
    open_players,
    matches,
    partial(saved, "sparring.envs.dogfight.training.opponents.load:frozen_policies"),
    conditions,
    anchors=tuple(reversed(BOTS)),
    outputs=recordings,
)
EVALUATION = GameEvaluation(
    EvaluationOptions, partial(evaluate, DOGFIGHT), {".html": "replay", ".gif": "gif"}, {"games": 2}
)
PAYOFF = GamePayoff(DuelPayoffOptions, partial(payoff, DOGFIGHT))
