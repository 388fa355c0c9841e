"""Evaluate a player: `python eval/run.py --ckpt final.pt`; `--help` lists every option, with examples.

Entry point for all games. The game is inferred from the player (a run's configuration, a policy's contract or a bot's
name; language models play Diplomacy) unless `--env` is given. Each game has its own options, in its `evaluation/`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from runpy import run_path

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/run.py")

from sparring.agents.opponents import players
from sparring.configs.core.errors import InputError, choose
from sparring.configs.games import ADAPTER, PACKAGES, current_id, is_imported
from sparring.configs.opponents import is_code
from sparring.envs.game import aliases, game_of, games, load
from sparring.eval.command import Evaluation, GameEvaluation, publish_evaluation, run_command
from sparring.eval.options import HELP, CommandOptions, CommandText, argument, parse, parse_known

GYMNASIUM = "gymnasium"
COMMANDS = {
    **{game.name: game.evaluation for game in games()},
    **{name: game.evaluation for name, (game, _) in aliases().items()},
    GYMNASIUM: "sparring.envs.imported.evaluation.episodes:EVALUATION",
    **dict.fromkeys(PACKAGES, "sparring.envs.imported.evaluation.command:EVALUATION"),
}
"""Allowed values of `--env`, each with its evaluation."""


@dataclass(frozen=True, kw_only=True)
class GameChoice(CommandOptions):
    """Options that determine the game."""

    TEXT = CommandText("eval/run.py", "", env=games()[0].name)
    env: str = argument("")
    ckpt: str = argument("")
    bot: str = argument("")
    league: str = argument("")
    opponents: tuple[str, ...] = argument((), split=True, nargs="*")

    @property
    def game(self) -> str:
        """The game, a key of `COMMANDS`. Raises `InputError` for unknown names."""
        if self.env:
            return choose("game", self.env, COMMANDS)
        if players.planner_samples(self.ckpt):
            return games()[0].name
        if self.ckpt:
            player = players.find_player(self.ckpt)
            if not is_code(player):  # a Python object plays any game; its opponents may determine it
                return env_of_player(player)
        if self.league:
            return _of_language_models()
        names = [self.bot, *self.opponents]
        bots = [game.name for game in games() for name in names if name in game.bots]
        scripted = {bot for game in games() for bot in game.bots}  # several games may have a bot of the same name
        of_files = filter(None, (_game_of_file(name) for name in self.opponents if name not in scripted))
        return next(of_files, next(iter(bots), games()[0].name))


def main(arguments: Sequence[str] | None = None, *, env: str = "") -> int:
    """Run the command line (`sys.argv` by default), in the game `env` if there is one, and return the exit code."""
    return run_command("eval/run.py", lambda words: publish_evaluation(evaluate(words, env)), arguments)


def evaluate(words: Sequence[str], env: str = "") -> Evaluation:
    """Run the evaluation of a command line. Raises `InputError` for bad input; exits after --help."""
    game = evaluation_of(env or env_of(words))
    return game.evaluate(parse(game.options, words))


def evaluation_of(env: str) -> GameEvaluation:
    """Return how the game `env`, a key of `COMMANDS`, is evaluated."""
    evaluation: GameEvaluation = load(COMMANDS[env])
    return evaluation


def env_of(words: Sequence[str]) -> str:
    """Return the game of a command line, a key of `COMMANDS`. Raises `InputError` for unknown names."""
    choice = parse_known(GameChoice, words)
    return (replace(choice, ckpt="") if {*HELP} & {*words} else choice).game


def env_of_player(player: players.Player) -> str:
    """Return the game of a located player."""
    if isinstance(player, str):
        if is_code(player):
            return games()[0].name
        scripted = (g.name for g in games() if player in (*g.bots, *g.held_out) or g.builds(player))
        return next(scripted, _of_language_models())
    if player.is_dir():
        run = player.parent if player.name == players.MODEL_FOLDER else player
        return _named(players.trained_in(run / "config.yaml")) or _of_language_models()
    if player.parent.name == players.RELEASED:
        released = (game.name for game in games() if player.name.startswith(f"{game.name}_"))
        if name := next(released, ""):
            return name
    return _named(players.trained_in(player.parent / "config.yaml")) or _said_by(player) or games()[0].name


def _game_of_file(name: str) -> str:
    """Return the game of a policy's file or of a run, empty for another name."""
    try:
        return env_of_player(players.find_checkpoint(name.removeprefix(players.SAMPLED_PREFIX)))
    except InputError:
        return ""  # rejected by the game


def _of_language_models() -> str:
    return next(game.name for game in games() if game.language_models)


def _named(env_id: str) -> str:
    """Return the game of an environment id: a package or Gymnasium for other games, empty for an empty id."""
    if is_imported({"id": env_id}):
        return env_id.partition(":")[0]
    game = game_of(current_id(env_id))
    return game.name if game else GYMNASIUM if env_id else ""


def _said_by(file: Path) -> str:
    """Return the game stored in a policy file without a run, or an empty string. Loads torch."""
    content = players.content_of(file)
    contract = content.get("contract")
    if isinstance(contract, dict):
        return _named(str(contract.get("id", "")))
    return _of_language_models() if content.get("format") == ADAPTER else ""


if __name__ == "__main__":
    sys.exit(main())
