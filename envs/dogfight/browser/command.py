"""Fly the dogfight on a page of the local server, or in a single file without a server (`--static fly.html`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sparring.agents.opponents.players import RELEASED, Player, check_game, display_name, find_player, other_game
from sparring.agents.policies.array_actor import ArrayActor, read_actor
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically
from sparring.configs.games import current_id
from sparring.envs.dogfight import GAME
from sparring.envs.dogfight.rules import RULES
from sparring.eval.browser.flying import known_opponents
from sparring.eval.browser.server import (
    AFTER_EXAMPLES,
    SCRIPT,
    BrowserGame,
    HostedGame,
    ServerOptions,
    serve_game,
)
from sparring.eval.command import make_folders, use_machine, write_asked
from sparring.eval.options import CommandText, argument, check_page

if TYPE_CHECKING:
    from sparring.agents.opponents.duelists import Duelist

DEFAULT_OPPONENT = f"{RELEASED}/dogfight_strong"

_EXAMPLES = """\
examples:
  python eval/play.py                                          against the released policy
  python eval/play.py --opponent ace                           a bot; the page offers all others, and your runs
  python eval/play.py --opponent my-run --rules challenge
  python eval/play.py --static fly.html                        a single file for any browser
  python eval/play.py --static fly.html  --opponent my-run     against the final policy of a run

Without the extras train and play, --opponent POLICY and --no-browser still work: they open a page of one file."""


@dataclass(frozen=True, kw_only=True)
class DogfightPlayOptions(ServerOptions):
    """Options of the command; the opponent is not located yet."""

    TEXT = CommandText(
        SCRIPT,
        "Fly the dogfight against a policy or a bot, in the browser.",
        _EXAMPLES + AFTER_EXAMPLES,
        env="dogfight",
    )
    opponent: str = argument(DEFAULT_OPPONENT, metavar="O")
    """A bot, a path (.pt, .onnx or .zip), a run's name, final.pt, or a Python object as my_bots:Mine."""
    rules: str | None = argument(None, RULES, metavar="|".join(RULES), noun="rules")
    """Rules of the matches (default: those the policy was trained under)."""
    replays: Path = argument(Path("replays"), metavar="DIR")
    """Folder of the replays saved on the page."""
    static: Path | None = argument(None, metavar="HTML")
    """Write a page that works without a server, and exit."""

    def check(self) -> None:
        """Raise `InputError` for a file that is not a page, or rules that a page does not support."""
        check_page(self.static, option="--static")
        if self.rules is not None and self.static:
            raise InputError("--rules does not go with --static: a page without a server has only classic rules")


def find_opponent(name: str, *, bots: Sequence[str] = GAME.bots) -> Player:
    """Locate an opponent without loading torch: one of `bots`, a checkpoint, a run, a released name or an ONNX file.

    Raises `UnknownNameError` with the choices and the nearest match, and `InputError` for a player of another game.
    """
    opponent = find_player(name, GAME, bare=bots)
    check_game(GAME, opponent)
    return opponent


def load_opponent(opponent: Player) -> Duelist:
    """Load a located opponent on the CPU. Raises `InputError` for an unusable policy."""
    from sparring.envs.dogfight.training.opponents.load import open_player

    return open_player(opponent, "cpu", old_version=True)


def opponent_of_page(opponent: Player) -> ArrayActor:
    """Read a located opponent without torch. Raises `InputError` for all but policies of this project."""
    if isinstance(opponent, str):
        raise InputError(f"{opponent}: a page needs a network, and a bot does not have one; give a checkpoint")
    name = display_name(opponent)
    if opponent.suffix != ".pt":
        others = "other policies play on the local server, with the extras train and play"
        raise InputError(f"{name}: a page of one file plays checkpoints of this project (.pt); {others}")
    actor = read_actor(opponent, name)
    if current_id(actor.contract["id"]) != GAME.id:
        raise InputError(other_game(name, actor.contract["id"], GAME))
    return actor


def page(name: str) -> tuple[str, str]:
    """Return the short name of a policy, by default the released one, and its page of one file. Raises `InputError`."""
    from sparring.envs.dogfight.browser.pages import static_page

    wanted = name or DEFAULT_OPPONENT  # a bot is refused by name and not offered
    policy = opponent_of_page(find_opponent(wanted, bots=[wanted] if wanted in GAME.bots else ()))
    return policy.name, static_page(policy)


def play(options: DogfightPlayOptions) -> None:
    """Serve the page until the process is interrupted, or write the page without a server."""
    opponent = find_opponent(options.opponent)
    if options.static:
        _write_static(options, opponent, options.static)
    else:
        serve_game(options, partial(_stage, options, opponent))


def _write_static(options: DogfightPlayOptions, opponent: Player, path: Path) -> None:
    from sparring.envs.dogfight.browser.pages import static_page

    make_folders([], files=[path])
    text = static_page(opponent_of_page(opponent))
    write_asked(path, lambda file: write_atomically(file, text), quiet=options.quiet)


def _stage(options: DogfightPlayOptions, opponent: Player) -> HostedGame:
    use_machine("cpu", 1, quiet=options.quiet)
    from sparring.envs.dogfight.browser.session import DogfightStage, LiveMatch

    # Play one match to compile the kernels and to fail early for an opponent that cannot play.
    LiveMatch(load_opponent(opponent), regime="default", seed=options.seed, rules=options.rules).close()
    offered = known_opponents(GAME, options.opponent)
    return DogfightStage(
        offered, options.seed, options.replays, lambda name: load_opponent(find_opponent(name)), options.rules
    )


BROWSER = BrowserGame(DogfightPlayOptions, play, page)
