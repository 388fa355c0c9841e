"""Evaluate a policy in the dogfight: `python eval/run.py --ckpt final.pt`; `--help` lists every option, with examples.

Plays seat-swapped pairs of games against each opponent, prints wins, draws and losses with 95 % intervals, and writes
eval.json and eval.md next to the checkpoint, or eval.<name>.json and .md if it is not named final.pt. ONNX agents are
accepted wherever checkpoints are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from sparring.agents.opponents.players import (
    Player,
    check_game,
    display_name,
    display_path,
    find_player,
    planner_samples,
    results_place,
)
from sparring.configs.core.errors import InputError
from sparring.configs.core.status import COMPILING, said_if_long
from sparring.configs.games import DOGFIGHT_V0
from sparring.curriculum.score import score_interval
from sparring.curriculum.sprt import Hypotheses
from sparring.envs.dogfight import GAME
from sparring.envs.dogfight.rules import (
    ACTION_REPEAT,
    BOT_RATES,
    BOTS,
    HELD_OUT,
    LEVELS,
    REGIMES,
    RULES,
)
from sparring.eval.command import Evaluation, GameEvaluation, kept_cells, make_folders, place_of, use_machine
from sparring.eval.options import (
    CONDITIONS,
    RESULTS,
    WHO,
    WIDTH,
    CommandText,
    Pairs,
    PlayerOptions,
    RequireOptions,
    TaskOptions,
    argument,
    check_page,
    check_suffix,
)
from sparring.eval.stats.payoff import ladder_markdown
from sparring.eval.stats.ratings import Anchor
from sparring.eval.stats.requirements import parse_hypotheses, sprt_markdown
from sparring.eval.stats.tables import MatchRecord, Report, markdown, to_json

if TYPE_CHECKING:
    from sparring.agents.opponents.dogfight.load import Entrant
    from sparring.envs.dogfight.recording import Recording
    from sparring.eval.dogfight.arena import ArenaPlan

REGIME_NAMES = (*LEVELS, *REGIMES)
ALL = "all"
GAMES = "[2, 1000000]"
ENV_VERSIONS = ("0", "1")
"""Versions of the game; the last is the current one."""
BOT_SET, HELD_OUT_SET = "bots", "held_out"
OPPONENT_SETS = {BOT_SET: BOTS, HELD_OUT_SET: HELD_OUT}
"""Names that stand for several opponents."""

_EXAMPLES = f"""\
examples:
  python eval/run.py --ckpt final.pt                       the newest run against the five bots and the held-out set
  python eval/run.py --ckpt final.pt --opponents bots      the five bots alone; held_out: what no run trains against
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

other games: --ckpt is evaluated in the game it was trained in, bots in theirs; these options are the dogfight's
  python eval/run.py --env diplomacy --help                the options of Diplomacy, whose language models play, too
  python eval/run.py --env gymnasium --help                those of other environments, such as CartPole-v1

bots: {", ".join(BOTS)}
{fill(f"held_out: {', '.join(HELD_OUT)}", WIDTH)}
{fill(f"regimes: {', '.join(REGIME_NAMES)}; none is the same as default", WIDTH)}
exit codes: 0 done, 1 a --require failed or --sprt did not accept H1, 2 bad input or a package missing,
130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class PlayOptions(TaskOptions, PlayerOptions):
    """Options of every command that plays the dogfight."""

    opponents: tuple[str, ...] = argument((BOT_SET,), metavar="O", group=WHO, split=True)
    """Bots, checkpoints and ONNX agents, and the sets bots and held_out."""
    anchor: str | None = argument(None, metavar="A", group=WHO)
    """Whose rating is fixed, as in ace or ace=1000 (default: the hardest bot that plays, brawler, at 0)."""
    stochastic: bool = argument(False, group=WHO)
    """Let policies sample their actions (ONNX agents never do)."""
    env_version: str = argument(
        ENV_VERSIONS[-1],
        ENV_VERSIONS,
        metavar="|".join(ENV_VERSIONS),
        group=WHO,
        text=f"0 lets a classic policy of {DOGFIGHT_V0} be evaluated in today's game, which the table then says",
    )
    games: int = argument(400, GAMES, metavar="N", group=CONDITIONS)
    """Games per opponent, even."""
    regimes: tuple[str, ...] = argument(
        ("none",), (*REGIME_NAMES, ALL), metavar="R", group=CONDITIONS, noun="regime", split=True
    )
    """Levels and regimes of physics, or all."""
    rules: str | None = argument(None, RULES, metavar="|".join(RULES), group=CONDITIONS, noun="rules")
    """Rules of the matches (default: those the policy was trained under)."""
    bot_rate: str | None = argument(None, BOT_RATES, metavar="|".join(BOT_RATES), group=CONDITIONS, noun="bot_rate")
    """Bots decide every tick (default) or as often as policies."""
    sets: tuple[str, ...] = ()
    """Those of `OPPONENT_SETS` that were named."""

    fixed: Anchor | None = None
    """The anchor of ratings, if one is given."""

    @property
    def any_version(self) -> bool:
        """True if a policy of an old version of the game may be evaluated."""
        return self.env_version == ENV_VERSIONS[0]

    @property
    def named(self) -> tuple[str, ...]:
        """Opponents and sets of them, as they are given."""
        return self.opponents

    def implied(self) -> dict[str, Any]:
        """Return the members of sets of opponents in place of their names, and all regimes."""
        named = self.named
        members = [member for name in named for member in OPPONENT_SETS.get(name, (name,))]
        return {
            "fixed": Anchor.parse(self.anchor) if self.anchor else None,
            "sets": tuple(name for name in named if name in OPPONENT_SETS),
            "opponents": tuple(dict.fromkeys(members)),
            "regimes": REGIME_NAMES if ALL in self.regimes else self.regimes,
        }

    def check(self) -> None:
        """Raise `InputError` for an odd number of games."""
        if self.games % 2:
            raise InputError(f"--games {self.games}: must be even, since every match is played from both seats")


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions(PlayOptions, RequireOptions):
    """Options of the command; the players have not been located."""

    TEXT = CommandText(
        "eval/run.py",
        "Play a policy against opponents in seat-swapped pairs of games and print wins, draws and losses with "
        "intervals. eval.json and eval.md are written beside final.pt, eval.NAME.json and .md beside NAME.pt.",
        _EXAMPLES,
        env="dogfight",
    )
    ckpt: str = argument("", metavar="C", group=WHO)
    """A path (.pt, .onnx or .zip), a run's name, final.pt (the newest run's) or bot:NAME."""
    opponents: tuple[str, ...] = argument((), metavar="O", group=WHO, split=True)
    """Bots, checkpoints, ONNX agents, and the sets bots and held_out (default: both sets; --ladder: bots)."""
    ladder: bool = argument(False, group=WHO)
    """Play all opponents (and --ckpt, where given) against each other."""
    vecnormalize: Path | None = argument(None, metavar="PKL", group=WHO)
    """SB3's VecNormalize of the zip --ckpt (default: NAME_vecnormalize.pkl or vecnormalize.pkl beside it)."""
    replay: Path | None = argument(None, metavar="HTML", group=RESULTS)
    """A page that plays one match against each opponent."""
    gif: Path | None = argument(None, metavar="GIF", group=RESULTS)
    """The match against the opponent it did worst against."""
    sprt: Pairs | None = argument(None, metavar="K=V", group=RESULTS, nargs="*")
    """Test sequentially whether --ckpt is stronger than the one opponent: elo0=0 elo1=20 alpha=0.05 beta=0.05; --games
    at a time."""
    max_games: int = argument(100_000, GAMES, metavar="N", group=RESULTS)
    """Where --sprt gives up."""

    hypotheses: Hypotheses | None = None
    """Those of --sprt."""

    @property
    def named(self) -> tuple[str, ...]:
        """Opponents and sets of them, as they are given, or the default ones."""
        return self.opponents or ((BOT_SET,) if self.ladder else (BOT_SET, HELD_OUT_SET))

    def implied(self) -> dict[str, Any]:
        """Return the parsed hypotheses too."""
        return super().implied() | {"hypotheses": None if self.sprt is None else parse_hypotheses(self.sprt)}

    def check(self) -> None:
        """Raise `InputError` for files and options that do not go together."""
        super().check()
        picture = self.replay
        check_page(picture, f", or --gif {picture} for a picture" if picture and picture.suffix == ".gif" else "")
        check_suffix("--gif", self.gif, ".gif")
        if self.vecnormalize is not None and not self.ckpt.endswith(".zip"):
            raise InputError(f"--vecnormalize {self.vecnormalize}: goes with a zip of Stable-Baselines3 as --ckpt")
        if self.ladder:
            self._refuse(("require", "replay", "gif", "sprt"), "--ladder: give a player with --ckpt instead")
            return
        if self.anchor is not None:
            raise InputError("--anchor goes with --ladder only: nothing else is rated")
        self.require_given("ckpt", "give a path, a run's name, final.pt for the newest run, or bot:NAME")
        if self.sprt is not None:
            for name in ("opponents", "regimes"):
                if len(getattr(self, name)) != 1:
                    raise InputError(f"--sprt tests one thing: give --{name} one name, not {len(getattr(self, name))}")
            self._refuse(("require", "replay", "gif"), "--sprt: leave one of them out")

    def _refuse(self, names: Sequence[str], beside: str) -> None:
        for name in names:
            if self.gives(name):
                raise InputError(f"--{name} does not go with {beside}")


def evaluate(options: EvaluationOptions) -> Evaluation:
    """Play the matches, the ladder or the test of `options`. Raises `InputError` for bad input."""
    players = _find(options)
    make_folders([options.out], files=[options.replay, options.gif])
    entrants, plan = _seat(options, players)
    play = run_ladder if options.ladder else run_sprt if options.hypotheses else run_evaluation
    return play(options, entrants, plan)


EVALUATION = GameEvaluation(EvaluationOptions, evaluate, {".html": "replay", ".gif": "gif"}, {"games": 2})


def _find(options: EvaluationOptions) -> list[Player]:
    """Return the players, the evaluated one first, or last on a ladder. Raises `InputError` for an unknown player."""
    player = [_find_one(options.ckpt)] if options.ckpt else []
    opponents = [_find_one(name, bare=GAME.bots) for name in options.opponents]
    if HELD_OUT_SET in options.sets:
        members = {find_player(name, GAME) for name in HELD_OUT}
        opponents = [one for one in opponents if one not in player or one not in members]
    players = opponents + player if options.ladder else player + opponents
    check_game(GAME, *players)
    _check_names(options, [display_name(one) for one in (players if options.ladder else opponents)])
    return players


def _find_one(name: str, *, bare: Sequence[str] = ()) -> Player:
    return name if planner_samples(name) else find_player(name, GAME, bare=bare)


def _check_names(options: EvaluationOptions, names: Sequence[str]) -> None:
    """Raise `InputError` for a duplicate or single player, and for a --require or anchor name that does not play."""
    options.check_opponents(names, options.regimes)
    if options.ladder:
        if len(names) < 2:
            raise InputError(f"--opponents {names[0]}: a ladder needs at least 2")
        _anchor(options, names)


def _seat(options: EvaluationOptions, players: Sequence[Player]) -> tuple[list[Entrant], ArenaPlan]:
    """Load torch and the players, and determine settings valid for all of them."""
    device, threads = use_machine(options.device, options.runner.task_threads, quiet=options.quiet)
    entrants = _entrants(options, players, device)
    return entrants, make_plan(options, entrants, device, threads)


def _entrants(options: EvaluationOptions, players: Sequence[Player], device: str) -> list[Entrant]:
    """Load the players, the policies of the held-out set only where they fit; a note names the others."""
    from sparring.agents.opponents.dogfight.load import open_player

    # Index of the --ckpt player in the order of `_find`.
    evaluated = None if not options.ckpt else len(players) - 1 if options.ladder else 0
    entrants = [
        open_player(
            player,
            device,
            planner=True,
            deterministic=not options.stochastic,
            old_version=options.any_version or index != evaluated,
            vecnormalize=options.vecnormalize if index == evaluated else None,
        )
        for index, player in enumerate(players)
    ]
    if HELD_OUT_SET not in options.sets:
        return entrants
    kept = [entrant for entrant in entrants if entrant.name not in HELD_OUT or _fits(entrant, entrants[0], options)]
    met = [entrant.name for entrant in (kept if options.ladder else kept[1:])]
    absent = [name for name in HELD_OUT if name not in met]
    why = "the player itself or no policy for these matches"
    notes = tuple(f"{name} of the held-out set is left out: {why}" for name in absent)
    return [replace(kept[0], notes=kept[0].notes + notes), *kept[1:]]


def _fits(entrant: Entrant, first: Entrant, options: EvaluationOptions) -> bool:
    """Return whether a held-out opponent can play the matches of the first player; what has no contract plays all."""
    own, first_contract = (getattr(one.contestant, "contract", {}) for one in (entrant, first))
    conditions = {"rules": options.rules or first_contract.get("rules", RULES[0])}
    conditions["action_repeat"] = first_contract.get("action_repeat", ACTION_REPEAT)
    return all(own.get(key, value) == value for key, value in conditions.items())


def run_sprt(options: EvaluationOptions, entrants: list[Entrant], plan: ArenaPlan) -> Evaluation:
    """Test sequentially whether the player is stronger; a failure unless H1 is accepted."""
    assert options.hypotheses is not None
    from sparring.eval.dogfight.arena import sequential

    player, opponent = entrants
    place = _place(options, player, "sprt")
    plan = replace(plan, kept=kept_cells(place))
    verdict, games = sequential((player, opponent), plan, options.hypotheses, options.max_games)
    notes = gather_notes(entrants)
    text = sprt_markdown(player.name, opponent.name, verdict, games, options.hypotheses, notes)
    names = {"player": player.name, "opponent": opponent.name, "command": options.command}
    fields = {**names, "env": GAME.id, "notes": list(notes)}
    # The interval by pairs of games is the right one of the score, and pairs say nothing of wins alone.
    figures = games.figures() | {"score_interval": score_interval(verdict.pairs)}
    data = json.dumps(fields | asdict(options.hypotheses) | asdict(verdict) | figures, indent=1) + "\n"
    failures = () if verdict.accepted == "H1" else (text.splitlines()[0].removeprefix("# "),)
    return Evaluation(text, data, place, failures=failures, quiet=options.quiet)


def run_evaluation(options: EvaluationOptions, entrants: list[Entrant], plan: ArenaPlan) -> Evaluation:
    """Evaluate the player; a failure for each requirement that is not met."""
    from sparring.eval.dogfight.arena import evaluate

    player, *opponents = entrants
    watched, place = options.replay is not None or options.gif is not None, _place(options, player, "eval")
    plan = replace(plan, kept=kept_cells(place))
    records, recordings = evaluate(player, opponents, plan, record=watched)
    report = make_report(
        options,
        plan,
        records,
        entrants,
        player=player.name,
        checkpoint=display_path(player.path) if player.path else None,
        run=player.training.get("run"),
        training=player.training,
    )
    return Evaluation(
        markdown(report),
        to_json(report),
        place,
        outputs=_recordings(options, records, recordings),
        failures=options.failures(records),
        quiet=options.quiet,
    )


def run_ladder(options: EvaluationOptions, entrants: list[Entrant], plan: ArenaPlan) -> Evaluation:
    """Play a round robin, and rate the players."""
    from sparring.eval.dogfight.arena import ladder

    anchor = _anchor(options, [entrant.name for entrant in entrants])
    place = _place(options, None, "ladder")
    plan = replace(plan, kept=kept_cells(place))
    report = make_report(options, plan, ladder(entrants, plan), entrants, anchor=anchor)
    return Evaluation(ladder_markdown(report), to_json(report), place, quiet=options.quiet)


def _anchor(options: EvaluationOptions, names: Sequence[str]) -> Anchor:
    return (options.fixed or Anchor.among(names)).check(names)


def _place(options: EvaluationOptions, player: Entrant | None, kind: str) -> tuple[Path, str] | None:
    """Return --out, else the place next to the checkpoint; a bot's results are only printed."""
    beside = results_place(player.path, kind) if player and player.path else None
    return place_of(options.out, beside, kind)


def make_plan(options: PlayOptions, entrants: Iterable[Entrant], device: str, threads: int) -> ArenaPlan:
    """Return the plan of the games, valid for all `entrants`. Raises `InputError` if there is none."""
    from sparring.eval.dogfight.arena import ArenaPlan, make_setting

    contestants = [entrant.contestant for entrant in entrants]
    rules, bot_rate = options.rules, options.bot_rate
    with said_if_long(COMPILING, shown=not options.quiet):
        setting = make_setting(contestants, rules=rules, bot_rate=bot_rate, device=device, threads=threads)
    how: dict[str, Any] = {"progress": not options.quiet, "executor": options.runner}
    return ArenaPlan(options.regimes, options.games, options.seed, setting, **how)


def make_report(
    options: PlayOptions,
    plan: ArenaPlan,
    records: Sequence[MatchRecord],
    entrants: Iterable[Entrant],
    *,
    player: str | None = None,
    **more: Any,
) -> Report:
    """Return a `Report`: records, the data to reproduce the games, notes on `entrants`, and the fields `more`."""
    return Report(
        player,
        records,
        games=plan.games,
        seed=plan.seed,
        rules=plan.setting.rules,
        bot_rate=plan.setting.bot_rate,
        action_repeat=plan.setting.action_repeat,
        deterministic=not options.stochastic,
        device=plan.setting.device,
        command=options.command,
        notes=gather_notes(entrants),
        **more,
    )


def gather_notes(entrants: Iterable[Entrant]) -> tuple[str, ...]:
    """Return the notes on the players, without duplicates."""
    return tuple(dict.fromkeys(note for entrant in entrants for note in entrant.notes))


def _recordings(
    options: EvaluationOptions, records: Sequence[MatchRecord], recordings: list[Recording]
) -> dict[Path, Callable[[Path], None]]:
    """Return the writers of --replay and --gif."""
    from sparring.envs.dogfight.animation import write_gif
    from sparring.eval.dogfight.replay import write_replay

    # Ties go to the last one: opponents are usually listed from easy to hard.
    worst = min(reversed(range(len(recordings))), key=lambda index: records[index].win_rate, default=0)
    writers: dict[Path, Callable[[Path], None]] = {}
    if options.replay:
        writers[options.replay] = lambda path: write_replay(path, recordings)
    if options.gif:
        writers[options.gif] = lambda path: write_gif(path, recordings[worst], progress=not options.quiet)
    return writers
