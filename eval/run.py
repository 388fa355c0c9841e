"""Evaluate a player: `python eval/run.py --ckpt final.pt`; `--help` lists every option, with examples.

Entry point for all games. The game is inferred from the player (a run's configuration, a policy's contract or a bot's
name; language models play Diplomacy) unless `--env` is given. Each game has its own options: the dogfight in
`eval/dogfight/command.py`, Diplomacy in `eval/diplomacy/command.py`, games of PettingZoo and OpenSpiel in
`eval/imported/command.py`, and any environment registered with Gymnasium in `eval/episodes.py`. Exit codes: 0 done,
1 a --require failed or --sprt did not accept H1, 2 bad input or a package missing (one line on stderr), 130 stopped
with Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from runpy import run_path

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/run.py")

from sparring.agents.opponents.players import (
    MODEL_FOLDER,
    ONNX,
    RELEASED,
    Player,
    content_of,
    find_player,
    planner_samples,
    trained_in,
)
from sparring.configs.core.errors import choose
from sparring.configs.games import PACKAGES, current_id, is_imported
from sparring.configs.language import ADAPTER
from sparring.configs.opponents import is_code
from sparring.envs.game import game_of, games, load
from sparring.eval.command import Evaluation, evaluate_command
from sparring.eval.stats.parser import Parser, split_names

GYMNASIUM = "gymnasium"
COMMANDS = {
    **{game.name: game.evaluation for game in games()},
    GYMNASIUM: "sparring.eval.episodes:evaluate",
    **dict.fromkeys(PACKAGES, "sparring.eval.imported.command:evaluate"),
}
"""Allowed values of `--env`, each with its evaluation."""
HELP = ("-h", "--help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return evaluate_command(evaluate, arguments)


def evaluate(arguments: Sequence[str]) -> Evaluation:
    """Play what a command line says, in its game. Raises `InputError` for bad input; exits after --help."""
    evaluation: Evaluation = load(COMMANDS[env_of(arguments)])(arguments)
    return evaluation


def env_of(arguments: Sequence[str]) -> str:
    """Return the game of a command line, a key of `COMMANDS`. Raises `InputError` for unknown names."""
    parser = Parser("eval/run.py", "", env=games()[0].name)
    for option in ("--ckpt", "--bot", "--league"):
        parser.add_argument(option, default="")
    parser.add_argument("--opponents", nargs="*", default=[])
    known, _ = parser.parse_known_args([word for word in arguments if word not in HELP])
    if known.env:
        return choose("game", known.env, COMMANDS)
    if planner_samples(known.ckpt):
        return games()[0].name
    if known.ckpt and not set(HELP) & set(arguments):
        player = find_player(known.ckpt)
        if not is_code(player):  # a Python object plays any game; its opponents may say which
            return env_of_player(player)
    if known.league:
        return _of_language_models()
    names = [known.bot, *split_names(known.opponents)]
    return next((game.name for game in games() for name in names if name in game.bots), games()[0].name)


def env_of_player(player: Player) -> str:
    """Return the game of a located player."""
    if isinstance(player, str):
        if is_code(player):
            return games()[0].name
        scripted = (g.name for g in games() if player in (*g.bots, *g.held_out) or g.builds(player))
        return next(scripted, _of_language_models())
    if player.is_dir():
        run = player.parent if player.name == MODEL_FOLDER else player
        return _named(trained_in(run / "config.yaml")) or _of_language_models()
    if player.parent.name == RELEASED and (released := _prefix(player)):
        return released
    return _named(trained_in(player.parent / "config.yaml")) or _said_by(player) or games()[0].name


def _of_language_models() -> str:
    return next(game.name for game in games() if game.language_models)


def _prefix(released: Path) -> str:
    return next((game.name for game in games() if released.name.startswith(f"{game.name}_")), "")


def _named(env_id: str) -> str:
    """Return the game of an environment id: a package or Gymnasium for other games, empty for an empty id."""
    if is_imported({"id": env_id}):
        return env_id.partition(":")[0]
    game = game_of(current_id(env_id))
    return game.name if game else GYMNASIUM if env_id else ""


def _said_by(file: Path) -> str:
    """Return the game stored in a policy file without a run, empty if there is none. Loads torch."""
    if file.suffix == ONNX:
        return ""
    content = content_of(file)
    contract = content.get("contract")
    if isinstance(contract, dict):
        return _named(str(contract.get("id", "")))
    return _of_language_models() if content.get("format") == ADAPTER else ""


if __name__ == "__main__":
    sys.exit(main())
