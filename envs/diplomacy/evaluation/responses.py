"""Best responses in Diplomacy: one power plays the response, the six others the policy.

The return is the share of squares, so a gain of 0 is an equal share, 1/7. `search` is the project's own search with the
policy as its model of the others; `cold` trains PPO against six copies of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from sparring.agents.opponents.players import ONNX, find_player, is_server
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import CHECKPOINTS
from sparring.configs.opponents import is_code
from sparring.curriculum.opponents import label_of
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.board.codes import NUM_POWERS
from sparring.envs.diplomacy.search.settings import ATTACK_POSITIONS
from sparring.eval.command import use_machine
from sparring.eval.paired.response_game import (
    LOCAL,
    SAMPLING,
    SEARCH,
    STOCHASTIC,
    ResponseGame,
    ResponseOptions,
    Target,
    check_weights,
)

LAST_YEAR = 1910
"""Last year for players without one from training."""
SHAPE = ("hidden", "blocks", "in_turn", "all_phases")
ABOUT = (
    "\n\nThe return is the share of squares of one power against six copies of the policy: a gain of 0 is an equal "
    "share, 1/7. A win is a game with the most centres. `search` models the others by the policy itself, with "
    f"{ATTACK_POSITIONS:,} positions a decision.\n"
)


def read(responses: ResponseGame, text: str, options: Any) -> Target:
    """Read a player of Diplomacy. Raises `InputError` for language models, and for options of other games."""
    player = find_player(text, GAME, bare=GAME.bots)
    code = isinstance(player, str) and is_code(player)
    if is_server(str(player)) or not (isinstance(player, Path) or code or player in GAME.bots or GAME.builds(player)):
        raise InputError(f"{text}: is a language model, too slow for these attacks; name a bot or a policy")
    for option, path in (("--save", options.save), ("--replay", options.replay)):
        if path:
            raise InputError(f"{option} {path}: applies only to responses in OpenSpiel games; leave it out")
    learning = [word for word in options.start if word not in (SAMPLING, SEARCH, LOCAL)]
    if learning and not options.divided:
        raise InputError(f"--attacker {learning[0]}: shares a budget in Diplomacy; give --moves in place of --steps")
    if options.divided and not learning:
        budget = f"--moves {options.moves}" if options.moves else f"--minutes {options.minutes:g}"
        raise InputError(
            f"{budget}: applies to attacks that learn; search uses {ATTACK_POSITIONS} positions per decision. Leave "
            "it out, or add --attacker search cold"
        )
    if isinstance(player, Path):
        check_weights(text, player, options.start, options.target)
        return _of_file(responses, player)
    if STOCHASTIC in options.target:
        raise InputError(f"{text}: only a checkpoint samples its actions; leave out --target {STOCHASTIC}")
    return Target(player, label_of(player), "" if code else sha256(player.encode()).hexdigest(), responses)


def _of_file(responses: ResponseGame, file: Path) -> Target:
    """Read a policy with the network and last year for its response."""
    from sparring.envs.diplomacy.training.opponents import read_policy

    against = str(file.relative_to(CHECKPOINTS.parent) if file.is_relative_to(CHECKPOINTS.parent) else file)
    digest = sha256(file.read_bytes()).hexdigest()
    if file.suffix == ONNX:
        return Target(against, label_of(against), digest, responses)
    checkpoint = read_policy(file, "cpu")
    shape, year = checkpoint.network.shape, checkpoint.contract["last_year"]
    network = [f"network.{key}={str(shape[key]).lower()}" for key in SHAPE if key in shape]
    settings = [f"env.last_year={year}"]
    return Target(
        against, label_of(against), digest, responses, {"last_year": year}, settings, network, checkpoint.contract
    )


def begin_search(options: ResponseOptions, targets: Sequence[Target]) -> Any:
    """Return the search with the policy as its opponent model, or one that infers the member of a mixture."""
    from sparring.envs.diplomacy.training.opponents import attack_on

    return attack_on(_opened(options, targets, sampled=False))


def play(options: ResponseOptions, targets: Sequence[Target], sampled: bool, response: Any, seed: int) -> np.ndarray:
    """Return the shares of squares [G, 7], the response with power i % 7 of game i; None: the policy has all seven."""
    import torch

    from sparring.envs.diplomacy.rewards.scoring import sum_of_squares
    from sparring.envs.diplomacy.training.opponents import open_player

    if isinstance(response, Path):
        response = open_player(response, use_machine(options.device, options.threads, quiet=True)[0])
    year = next((target.matches["last_year"] for target in targets if target.matches), LAST_YEAR)
    owners = [
        _owners(options, player if response is None else response, player, year, seed)
        for player in _opened(options, targets, sampled=sampled)
    ]
    shares: np.ndarray = sum_of_squares(torch.cat(owners)).numpy()
    return shares


def _opened(options: ResponseOptions, targets: Sequence[Target], *, sampled: bool) -> list[Any]:
    """Return the policy, or the members of a mixture."""
    from sparring.envs.diplomacy.training.opponents import open_player

    device, _ = use_machine(options.device, options.threads, quiet=True)
    return [open_player(target.against, device, deterministic=not sampled) for target in targets]


def _owners(options: ResponseOptions, one: Any, six: Any, year: int, seed: int) -> Any:
    """Return the owners of the centres [G, 34] at the end of the games; their number is a multiple of seven."""
    from sparring.envs.diplomacy.batch import DiplomacyBatch
    from sparring.envs.diplomacy.rollouts.games import one_of_seven, play_to_end

    device, threads = use_machine(options.device, options.threads, quiet=True)
    games = -(-options.games // NUM_POWERS) * NUM_POWERS
    seats = one_of_seven(games)
    with closing(DiplomacyBatch(games, device=device, last_year=year, threads=threads)) as batch:
        play_to_end(batch, [(one, seats), (six, ~seats)], seed=seed)
        return batch.owner.cpu().clone()


def facts(*_: Any) -> tuple[dict[str, Any], str]:
    """Return the game and an explanation of the figures."""
    return {"env": GAME.name}, ABOUT


RESPONSES = {"read": read, "attacks": {SEARCH: begin_search}, "play": play, "facts": facts}
"""Fields of the `ResponseGame`."""
