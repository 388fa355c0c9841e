"""Which game a policy plays, without torch where the configuration of its run lies beside it.

Loading torch to say that a policy is of another game would take many seconds. Who plays what is decided by the policy's
own file all the same (`entrants.py`): a file without a configuration beside it is looked into later.
"""

from __future__ import annotations

from pathlib import Path

from sparring.configs.core.errors import InputError
from sparring.configs.retired import DOGFIGHT_V0
from sparring.configs.schema import DIPLOMACY, DOGFIGHT
from sparring.eval.find import Player
from sparring.eval.suggestions import trained_in


def check_dogfight(*players: Player) -> None:
    """Raise `InputError` for a policy's file beside the configuration of a run of another game.

    A run of an old version of the dogfight passes: `entrants.py` says which of its policies may play.
    """
    for player in players:
        env_id = trained_in(player.parent / "config.yaml") if isinstance(player, Path) else ""
        if env_id not in ("", DOGFIGHT, DOGFIGHT_V0):
            raise InputError(other_game(player, env_id))


def other_game(path: Player, env_id: str) -> str:
    """The line about a policy that does not play the dogfight."""
    hint = "; its games are played by eval/run.py --env diplomacy --ckpt" if env_id == DIPLOMACY else ""
    return f"{path}: was trained in {env_id}; this command takes only {DOGFIGHT}{hint}"
