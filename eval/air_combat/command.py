"""Evaluate a policy in air combat: `python eval/run.py --ckpt final.pt`; `--help` lists every option, with examples.

Plays seat-swapped pairs of games against each opponent, every start to its end, prints wins, draws and losses with 95 %
intervals, and writes eval.json and eval.md next to the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from sparring.agents.distributed.tasks import KeptResults, finish_tasks
from sparring.agents.opponents import players
from sparring.configs.core.errors import InputError
from sparring.configs.core.status import COMPILING, said_if_long
from sparring.envs.air_combat import GAME
from sparring.envs.air_combat.recording import FirstGame
from sparring.envs.air_combat.rules import BOTS, GUNS, HELD_OUT, MODELS, TICKS_PER_SECOND, CombatOptions
from sparring.envs.air_combat.tacview import write_acmi
from sparring.eval.air_combat.replay import write_air_replay
from sparring.eval.command import Evaluation, GameEvaluation, cell_key, kept_cells, make_folders, place_of, use_machine
from sparring.eval.options import (
    CONDITIONS,
    RESULTS,
    WHO,
    CommandText,
    RequireOptions,
    TaskOptions,
    argument,
    check_page,
)
from sparring.eval.stats.tables import COUNTED, MatchRecord, counted, length_and_hp, record_of, summary_markdown, table

if TYPE_CHECKING:
    from tqdm import tqdm

    from sparring.agents.opponents.air_combat import CombatConditions, Pilot
    from sparring.envs.air_combat.recording import AirRecording

SCHEMA_VERSION = 1
GAMES = "[2, 1000000]"
HEADINGS = ("opponent", *COUNTED, "length (s)", "hp left, own / theirs")
_EXAMPLES = f"""\
examples:
  python eval/run.py --ckpt final.pt                             the newest run against every pilot
  python eval/run.py --ckpt final.pt --opponents ace,evader --games 1000 --seed 7
  python eval/run.py --ckpt final.pt --model f16                 a policy of the point mass in the F-16
  python eval/run.py --ckpt final.pt --opponents other-run,stochastic:third-run,my_package.bots:Mine
  python eval/run.py --ckpt final.pt --require "chaser>=0.95" --require "score:ace>=0.9"
  python eval/run.py --env air_combat --ckpt bot:dogfighter      a pilot as the player
  python eval/run.py --ckpt final.pt --opponents ace --replay match.html --acmi match.acmi

pilots: {", ".join(BOTS)}
held out of training: {", ".join(HELD_OUT)}
exit codes: 0 done, 1 a --require failed, 2 bad input, 130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class AirCombatOptions(TaskOptions, RequireOptions):
    """Options of the command; the players have not been located."""

    TEXT = CommandText(
        "eval/run.py",
        "Play a policy of air combat against opponents in seat-swapped pairs of games, each start to its end, and "
        "print wins, draws and losses with intervals. eval.json and eval.md are written beside final.pt.",
        _EXAMPLES,
        env="air_combat",
    )
    ckpt: str = argument("", metavar="C", group=WHO)
    """A path, a run's name, final.pt (the newest run's) or bot:NAME."""
    opponents: tuple[str, ...] = argument(tuple(BOTS), metavar="O", group=WHO, split=True)
    """Pilots, checkpoints, stochastic:CHECKPOINT, module:Name of a Python object (default: all pilots)."""
    stochastic: bool = argument(False, group=WHO)
    """Let policies sample their actions."""
    games: int = argument(400, GAMES, metavar="N", group=CONDITIONS)
    """Games per opponent, even."""
    model: str = argument("", ("", *MODELS), metavar="|".join(MODELS), group=CONDITIONS, noun="model")
    """Flight model of the matches (default: that of the policy's run)."""
    gun: str = argument("", ("", *GUNS), metavar="|".join(GUNS), group=CONDITIONS, noun="gun")
    """The gun (default: that of the policy's run, or of another flight model)."""
    replay: Path | None = argument(None, metavar="HTML", group=RESULTS)
    """A page with the first game against each opponent, in three dimensions."""
    acmi: Path | None = argument(None, metavar="ACMI", group=RESULTS)
    """A Tacview file of the first game against the first opponent."""

    def check(self) -> None:
        """Raise `InputError` for an odd number of games, or a missing player."""
        if self.games % 2:
            raise InputError(f"--games {self.games}: must be even, since every match is played from both seats")
        check_page(self.replay, " or --acmi match.acmi for Tacview")
        if self.acmi and self.acmi.suffix.lower() != ".acmi":
            raise InputError(f"--acmi '{self.acmi}': is a Tacview file; give a name that ends in .acmi")
        self.require_given("ckpt", "give a path, a run's name, final.pt for the newest run, or bot:NAME")


def evaluate(options: AirCombatOptions) -> Evaluation:
    """Play the matches of `options`. Raises `InputError` for bad input."""
    located = players.find_player(options.ckpt, GAME)
    opponents = [find_opponent(name) for name in options.opponents]
    players.check_game(GAME, located, *opponents)
    options.check_opponents([players.display_name(one) for one in opponents])
    make_folders([options.out], files=[options.replay, options.acmi])
    device, threads = use_machine(options.device, options.runner.task_threads, quiet=options.quiet)
    from sparring.agents.opponents.air_combat import open_player

    sure = not options.stochastic
    player, *others = (open_player(one, device, deterministic=sure) for one in (located, *opponents))
    model, gun = matches_of(player, options.model, options.gun)
    setting = setting_of([player, *others], model, gun, device, threads, quiet=options.quiet)
    filmed = [bool(options.replay) or (bool(options.acmi) and one is others[0]) for one in others]
    cells = [
        AirCell(player, opponent, setting, options.games, options.seed, film)
        for opponent, film in zip(others, filmed, strict=True)
    ]
    bar: dict[str, Any] = {"label": lambda cell: cell.opponent.name, "unit": "opponent", "quiet": options.quiet}
    place = place_of(options.out, players.results_place(located), "eval")
    file = kept_cells(place)
    kept = KeptResults[Any](file, tuple[MatchRecord, list[Any]]) if file else None
    keys = ["" if cell.filmed else cell.key for cell in cells]
    played = finish_tasks(play_filmed, cells, options.runner, kept=kept, keys=keys, **bar)
    records, films = [record for record, _ in played], [film for _, films in played for film in films]
    failures = options.failures(records)
    text, data = report(options, player, records, setting)
    outputs: dict[Path, Callable[[Path], None]] = {}
    if options.replay:
        outputs[options.replay] = partial(write_air_replay, recordings=films)
    if options.acmi:
        outputs[options.acmi] = partial(write_acmi, recording=films[0])
    return Evaluation(text, data, place, outputs, failures, quiet=options.quiet)


def find_opponent(name: str) -> players.Player:
    """Return a located opponent, `stochastic:` and a checkpoint as text. Raises `UnknownNameError`."""
    if name.startswith(players.SAMPLED_PREFIX):
        players.find_checkpoint(name.removeprefix(players.SAMPLED_PREFIX), GAME)
        return name
    return players.find_player(name, GAME, bare=GAME.bots)


def matches_of(pilot: Pilot, model: str, gun: str) -> tuple[str, str]:
    """Return the flight model and the gun that are given, else those of a policy's own matches.

    Its gun goes with its flight model; with another model it is that model's, an empty name.
    """
    from sparring.agents.opponents.air_combat import trained_matches

    own_model, own_gun = trained_matches(pilot.training)
    model = model or own_model
    return model, gun or (own_gun if model == own_model else "")


def setting_of(
    pilots: Sequence[Pilot], model: str, gun: str, device: str, threads: int, *, quiet: bool
) -> CombatConditions:
    """Return the conditions in which all of `pilots` can play: the options and the step of the first policy.

    Raises `PolicyError` for a policy of others. Compiles the kernels.
    """
    from sparring.agents.opponents.air_combat import CombatConditions
    from sparring.agents.policies.policy import Policy

    policies = [pilot.contestant for pilot in pilots if isinstance(pilot.contestant, Policy)]
    contract = next((policy.contract for policy in policies if "action_repeat" in policy.contract), {})
    repeat = {"action_repeat": contract["action_repeat"]} if contract else {}
    beyond = CombatOptions.of_contract(contract)
    setting = CombatConditions(model, gun, device=device, threads=threads, options=beyond, **repeat)
    with said_if_long(COMPILING, shown=not quiet):
        batch = setting.batch(2)
    try:
        for policy in policies:
            policy.check(batch.contract)
    finally:
        batch.close()
    return setting


@dataclass(frozen=True)
class AirCell:
    """Games of one pair, a task of an executor; if `filmed`, the first of them is recorded."""

    player: Pilot
    opponent: Pilot
    setting: CombatConditions
    games: int
    seed: int
    filmed: bool

    @property
    def key(self) -> str:
        """Name under which the record is kept; empty if a player is code that may have changed."""
        pilots = (self.player, self.opponent)
        if any(pilot.path is None and pilot.name not in BOTS for pilot in pilots):
            return ""
        conditions: dict[str, Any] = {"games": self.games, "seed": self.seed}
        conditions["setting"] = asdict(replace(self.setting, threads=0))
        conditions["players"] = [(pilot.name, getattr(pilot.contestant, "deterministic", None)) for pilot in pilots]
        return cell_key(conditions, [pilot.path for pilot in pilots if pilot.path])


def play_filmed(cell: AirCell, bar: tqdm[NoReturn]) -> tuple[MatchRecord, list[AirRecording]]:
    """Play the games of a cell; return their record and what was recorded."""
    film = FirstGame() if cell.filmed else None
    record = play_cell(cell.player, cell.opponent, cell.setting, cell.games, cell.seed, film)
    size = cell.setting.options.team_size
    return record, film.recordings((*[cell.player.name] * size, *[cell.opponent.name] * size)) if film else []


def play_cell(
    player: Pilot,
    opponent: Pilot,
    setting: CombatConditions,
    games: int,
    seed: int,
    film: Callable[[Any, int], None] | None = None,
) -> MatchRecord:
    """Play the games of one pair. Raises `InputError` for actions that are not finite."""
    from sparring.agents.play.duel_matches import play

    results = play(player.contestant, opponent.contestant, games=games, seed=seed, setting=setting, recorder=film)
    if results.invalid_actions:
        raise InputError(f"{player.name} against {opponent.name}: {results.invalid_actions} actions were not finite")
    return record_of(player.name, opponent.name, setting.model, results, TICKS_PER_SECOND)


def report(
    options: AirCombatOptions, player: Pilot, records: Sequence[MatchRecord], setting: CombatConditions
) -> tuple[str, str]:
    """Return the table and the content of eval.json."""
    policy = "deterministic" if not options.stochastic else "sampled actions"
    head = {
        "player": player.name,
        "checkpoint": players.display_path(player.path) if player.path else None,
        "run": player.training.get("run"),
        "env": GAME.id,
        "model": setting.model,
        "gun": setting.gun or "auto",
        "action_repeat": setting.action_repeat,
        "deterministic": not options.stochastic,
        "device": setting.device,
        "games": options.games,
        "seed": options.seed,
        "command": options.command,
    }
    parts = [
        f"# {player.name}: air combat, {setting.model}, {policy}",
        f"{options.games} games each in seat-swapped pairs, the unit of the intervals, seed {options.seed}",
        table(HEADINGS, map(_row, records)),
        summary_markdown(records),
        f"Command: `{options.command}`",
    ]
    content: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "kind": "air_combat", **head}
    content |= {"records": [plain(record) for record in records], "training": player.training}
    return "\n\n".join(parts) + "\n", json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _row(record: MatchRecord) -> list[str]:
    return [record.opponent, *counted(record), *length_and_hp(record)]


def plain(record: MatchRecord) -> dict[str, Any]:
    """Return a record as data, for a JSON file."""
    names = ("by_seat", "length", "own_hp", "their_hp", "pairs")
    who = {"player": record.player, "opponent": record.opponent}
    return who | record.figures() | {name: getattr(record, name) for name in names}


EVALUATION = GameEvaluation(AirCombatOptions, evaluate, {".html": "replay", ".acmi": "acmi"}, {"games": 2})
