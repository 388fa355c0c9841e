"""Several language models in one game: each has a power in every game, and a bot has the others.

A YAML file names the models, each with its player (a server's address, tiny, smollm2, a folder, or a run) and the
options of `--set`:

    large: {player: "https://api.example.com/v1", endpoint: {model: L, structured: none}, model: {compact: false}}
    small: {player: tiny}

Of every seven games each model plays every power once; the powers of the others are drawn for these seven. All games
have all models, so differences between two of them are paired by games.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from sparring.agents.language.endpoint.backend import EndpointBackend
from sparring.agents.language.opponents import POLICY
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import read_regular_text
from sparring.configs.opponents import is_code
from sparring.configs.serialization import read_yaml
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import ENV_ID, NUM_POWERS
from sparring.envs.diplomacy.evaluation.games import follow_server, rounds_of, served
from sparring.envs.diplomacy.evaluation.matches import DiplomacyMatches
from sparring.envs.diplomacy.evaluation.options import DiplomacyOptions
from sparring.envs.diplomacy.evaluation.results import INTERVALS, RESULTS, SHARES, Side, served_parts, side, side_table
from sparring.envs.diplomacy.rewards.scoring import sum_of_squares
from sparring.envs.diplomacy.rollouts.games import ModelOrders, play_to_end
from sparring.envs.diplomacy.training.opponents import LanguageOptions, LanguagePlayer, open_player
from sparring.envs.text import mix
from sparring.eval.command import Evaluation, make_folders, use_machine
from sparring.eval.paired.evaluation import Plan
from sparring.eval.stats.aggregate import Estimate, mean_estimate
from sparring.eval.stats.tables import percent, table

NAME = "diplomacy_table"
SCHEMA_VERSION = 1
SECTIONS = ("player", "model", "endpoint")
BOTS_ELSEWHERE = "name a bot with --opponents"


@dataclass(frozen=True)
class SeatedModel:
    """A model at the table: its name, its player as text, and its options."""

    name: str
    player: str
    settings: Mapping[str, Mapping[str, Any]]


def read_models(path: Path) -> list[SeatedModel]:
    """Return the models in a file. Raises `InputError`, in one line, for anything else in it."""
    try:
        content = read_yaml(read_regular_text(path, follow=True))
    except (OSError, ValueError) as error:
        raise InputError(f"--table {path}: cannot be read ({error})") from error
    if not isinstance(content, dict) or not 2 <= len(content) <= NUM_POWERS:
        raise InputError(f"--table {path}: must name 2 to {NUM_POWERS} models, each as NAME: {{player: ...}}")
    return [_read_model(path, str(name), entry) for name, entry in content.items()]


def _read_model(path: Path, name: str, entry: Any) -> SeatedModel:
    where = f"--table {path}: {name}"
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise InputError(f"{where}: give a name of letters, digits, dots and dashes, which names its file of answers")
    if not isinstance(entry, dict) or not isinstance(entry.get("player"), str):
        raise InputError(f"{where}: lacks its player, such as player: tiny, or a server's address")
    if is_code(entry["player"]) or GAME.builds(entry["player"]) or entry["player"] in GAME.bots:
        raise InputError(f"{where}: {entry['player']} is not a language model; {BOTS_ELSEWHERE}")
    if unknown := [key for key in entry if key not in SECTIONS]:
        raise InputError(f"{where}: unknown key {unknown[0]!r}; choose from {', '.join(SECTIONS)}")
    if wrong := [key for key in SECTIONS[1:] if not isinstance(entry.get(key, {}), dict)]:
        raise InputError(f"{where}: {wrong[0]} must have options, such as {wrong[0]}: {{model: NAME}}")
    return SeatedModel(name, entry["player"], {key: entry[key] for key in SECTIONS[1:] if key in entry})


def seats_of(games: Sequence[int], models: int, seed: int) -> Tensor:
    """Return the power int64 [G, M] of each model in the numbered games.

    In games 7 n to 7 n + 6 a model goes once around a circle of the powers, in which their order is drawn for n.
    """
    circles = {
        n: np.random.default_rng(mix(seed, n)).permutation(NUM_POWERS) for n in {game // NUM_POWERS for game in games}
    }
    powers = [[circles[game // NUM_POWERS][(game + model) % NUM_POWERS] for model in range(models)] for game in games]
    return torch.tensor(np.array(powers), dtype=torch.int64)


def play_table(options: DiplomacyOptions) -> Evaluation:
    """Play the games of all models of --table. Raises `InputError` for bad input."""
    assert options.table is not None
    models = read_models(options.table)
    make_folders([options.out])
    device, threads = use_machine(options.device, options.threads, quiet=options.quiet)
    options = options.from_start()
    matches = DiplomacyMatches(options, device, threads)
    plan = Plan(matches, options.games, options.seed, quiet=options.quiet)
    players: dict[str, LanguagePlayer] = {}
    ends: list[Tensor] = []
    cut: BaseException | None = None
    try:
        for model in models:
            players[model.name] = _opened(model, options, device)
            file = options.out / f"{NAME}.{model.name}.cells.jsonl" if options.out else None
            names = [each.name for each in models]
            follow_server(
                options, players[model.name], replace(plan, cells_file=file), [(POLICY, options.opponents[0])], names
            )
        _play(options, players, plan, ends)
        for server in _servers(players):
            server.discard_kept()
    except (InputError, KeyboardInterrupt) as error:
        cut = error
    finally:
        for player in players.values():
            for backend in player.models.values():
                backend.close()
    played = sum(map(len, ends))
    if cut and not played:
        return Evaluation("", "", cut=cut, quiet=options.quiet)
    owner = torch.cat(ends)
    report = report_of(options, models, players, owner)
    stem = (options.out, f"{NAME}.partial" if cut else NAME) if options.out else None
    text = json.dumps(report, indent=1, allow_nan=False) + "\n"
    note = f"stopped after {played} of {options.games} games; the table is of these" if cut else ""
    return Evaluation(to_markdown(options, report), text, stem, cut=cut, cut_note=note, quiet=options.quiet)


def _opened(model: SeatedModel, options: DiplomacyOptions, device: str) -> LanguagePlayer:
    language = LanguageOptions(
        options.temperature or 0.0, model.settings, {}, options.past_orders, options.instructions()
    )
    player = open_player(model.player, device, language=language)
    if not isinstance(player, LanguagePlayer):
        raise InputError(
            f"--table {options.table}: {model.name}: {model.player} is not a language model; bots have --opponents"
        )
    return player


def _servers(players: Mapping[str, LanguagePlayer]) -> list[EndpointBackend]:
    backends = [backend for player in players.values() for backend in player.models.values()]
    return [backend for backend in backends if isinstance(backend, EndpointBackend)]


def _play(options: DiplomacyOptions, players: Mapping[str, LanguagePlayer], plan: Plan, ends: list[Tensor]) -> None:
    """Play round after round, and add the owners [G, 34] at the ends of the games of each to `ends`."""
    at_a_time = max(player.at_a_time for player in players.values())
    with tqdm(total=options.games, unit="game", disable=options.quiet) as bar:
        for games in rounds_of(options.games, 1, at_a_time):
            batch: DiplomacyBatch
            with closing(plan.matches.batch(len(games), None)) as batch:  # type: ignore[attr-defined]
                batch.game_id.copy_(torch.tensor(games))
                _play_round(options, players, batch, seats_of(games, len(players), options.seed))
                ends.append(batch.owner.cpu().clone())
            bar.update(len(games))


def _play_round(
    options: DiplomacyOptions, players: Mapping[str, LanguagePlayer], batch: DiplomacyBatch, powers: Tensor
) -> None:
    """Play the games of a batch to their ends; `powers` [G, M] are those of the models."""
    lineup: list[Any] = []
    free = torch.ones(len(powers), NUM_POWERS, dtype=torch.bool)
    for number, (name, player) in enumerate(players.items()):
        seats = powers[:, number : number + 1] == torch.arange(NUM_POWERS)
        (backend, *_) = player.models.values()
        lineup.append((ModelOrders(name, backend, player.rules, seed=mix(options.seed, number)), seats))
        free &= ~seats
    if free.any():
        lineup.append((options.opponents[0], free))
    play_to_end(batch, lineup, seed=options.seed)


def report_of(
    options: DiplomacyOptions, models: Sequence[SeatedModel], players: Mapping[str, LanguagePlayer], owner: Tensor
) -> dict[str, Any]:
    """Return the content of the JSON file for the owners [G, 34] at the ends of all games."""
    powers = seats_of(range(len(owner)), len(models), options.seed)
    shares = sum_of_squares(owner).gather(1, powers)
    names = [model.name for model in models]
    records = []
    for number, model in enumerate(models):
        result = side(owner, powers[:, number : number + 1] == torch.arange(NUM_POWERS))
        record = {"name": model.name, "player": model.player, **players[model.name].about, "side": asdict(result)}
        records.append(record | served(players[model.name]))
    differences = [
        {"one": names[one], "other": names[other]} | asdict(mean_estimate((shares[:, one] - shares[:, other]).numpy()))
        for one, other in combinations(range(len(names)), 2)
    ]
    fields = ("last_year", "seed", "device", "command")
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": NAME,
        "env": ENV_ID,
        "games": len(owner),
        "of": options.games,
        "bot": options.opponents[0] if len(names) < NUM_POWERS else None,
        "temperature": options.temperature or 0.0,
        **{name: getattr(options, name) for name in fields},
        "start": options.begin and options.begin.plain(),
        "models": records,
        "differences": differences,
    }


def to_markdown(options: DiplomacyOptions, report: Mapping[str, Any]) -> str:
    """Return the report as text."""
    bot = f"; {report['bot']} has the other powers" if report["bot"] else ""
    partial = "" if report["games"] == report["of"] else f" Partial: {report['of']} games were to be played."
    parts = [
        "# Diplomacy: language models at one table",
        f"{report['games']} games {options.begin or ''}to the end of {report['last_year']}, seed {report['seed']}, "
        f"with all models{bot}. "
        f"Of every seven games each model plays every power once.{partial} {INTERVALS}",
    ]
    sides = [(entry["name"], "the table", _side(entry["side"])) for entry in report["models"]]
    parts += [side_table(sides, columns) for columns in (RESULTS, SHARES)]
    rows = [
        [f"{row['one']} - {row['other']}", percent(row["value"]), "{} to {}".format(*map(percent, row["interval"]))]
        for row in report["differences"]
    ]
    parts += ["Differences of squares in the same games:", table(("", "squares %", "95 %"), rows)]
    for entry in report["models"]:
        if "endpoint" in entry:
            parts += [f"## {entry['name']}: {entry['model']}", *served_parts(entry["endpoint"])]
    return "\n\n".join([*parts, f"Command: `{options.command}`"]) + "\n"


def _side(plain: Mapping[str, Any]) -> Side:
    return Side(**{name: Estimate(**value) for name, value in plain.items()})
