"""Load a policy of an imported game and its matches from a file, and draw one match as a replay.

The file names the game. Creating the game or its outcome function runs the code of a module. Except for the packages'
own games (`envs.imported.config.module_of_game`), the command line must name the module.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sparring.agents.opponents.players import OpponentError
from sparring.agents.play.seat_matches import SeatPlayer
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically
from sparring.configs.games import is_imported
from sparring.envs.imported.batch import MatchBatch, make_batch
from sparring.envs.imported.config import files_of_game, module_of_game
from sparring.envs.imported.match import ImportedMatch, make_match, raised
from sparring.envs.imported.rows import SeatRows
from sparring.envs.imported.training.opponents import MatchSeats, NetworkSeats, load_seat_policy


@dataclass(frozen=True)
class ImportedGame:
    """A game of a package with its options, as in a run's `env`."""

    package: str
    id: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    observation: str = "auto"
    outcome: str = ""
    roles: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The id in contracts and tables."""
        return f"{self.package}:{self.id}"

    @property
    def modules(self) -> list[str]:
        """Modules whose code runs when a match is created and scored, except for the packages' own games.

        Then options as NAME=TEXT that may name a file, which the game reads or writes.
        """
        modules = [module_of_game(self.package, self.id), self.outcome.partition(":")[0]]
        modules += [f"{name}={text}" for name, text in files_of_game(self.id, self.kwargs).items()]
        return [module for module in dict.fromkeys(modules) if module]

    def batch(self, games: int, seed: int) -> MatchBatch:
        """Create `games` matches, starting at `seed`. Raises `ConfigError` if this is not a game."""
        return make_batch(
            self.package,
            self.id,
            self.kwargs,
            games,
            seed,
            observation=self.observation,
            outcome=self.outcome,
            roles=self.roles,
        )

    def match(self, render_mode: str | None = None) -> ImportedMatch:
        """Create one match rendered in `render_mode`. Raises `ConfigError` if this is not a game."""
        return make_match(self.package, self.id, self.kwargs, render_mode, observation=self.observation)

    def rows(self, match: ImportedMatch) -> SeatRows:
        """Return the columns of a match's observations."""
        return SeatRows(self.package, self.id, match, self.kwargs, roles=self.roles)


def load_policy(
    path: Path, device: str | torch.device, modules: Sequence[str] = (), *, deterministic: bool = True
) -> tuple[NetworkSeats, ImportedGame]:
    """Load the policy in the file `path` and its game; the game may import `modules`.

    Raises `InputError` for a file that cannot be used, a policy of another kind of game, and a game that would import
    another module.
    """
    player = load_seat_policy(path, None, device, deterministic=deterministic)
    game = game_of_policy(player)
    check_modules(path, game, modules)
    return player, game


def game_of_policy(player: NetworkSeats) -> ImportedGame:
    """Return the game of a policy. Raises `InputError` if its run was in another one."""
    assert is_imported(player.contract)
    package, _, game_id = str(player.contract["id"]).partition(":")
    config = player.training.get("config")
    env = config.get("env", {}) if isinstance(config, Mapping) else {}
    if env and (env.get("package"), env.get("id")) != (package, game_id):
        trained = f"{env.get('package')}:{env.get('id')}"
        raise InputError(f"{player.path}: is a policy of {player.contract['id']}, but its run was in {trained}")
    options = {key: env[key] for key in ("observation", "outcome") if isinstance(env.get(key), str)}
    roles = env.get("roles") or ()
    named = tuple(role for role in roles if isinstance(role, str)) if isinstance(roles, list | tuple) else ()
    return ImportedGame(package, game_id, player.contract["kwargs"], **options, roles=named)


def check_modules(path: Path | str, game: ImportedGame, allowed: Sequence[str]) -> None:
    """Raise `InputError` for a module or file that only a policy file names: importing a module runs its code."""
    missing = [module for module in game.modules if module not in allowed]
    if missing:
        opens = "may read or write the file in" if "=" in missing[0] else "runs the code of the module"
        raise InputError(
            f"{path}: plays {game.name}, and creating that game {opens} {missing[0]}; if you trust it, add --import "
            f"{shlex.join(game.modules)}"
        )
    if extra := [module for module in allowed if module not in game.modules]:
        raise InputError(f"--import {extra[0]}: {game.name} needs no such module; leave it out")


class LoadedSeatPolicy:
    """Policy of an imported game loaded by `sparring.load`, for scripts and for loops over PettingZoo's own agents."""

    vecnormalize = None

    def __init__(self, player: NetworkSeats, game: ImportedGame) -> None:
        assert player.path is not None
        self.name, self.path, self.training, self.policy = player.name, player.path, player.training, player
        match = game.match()
        self._rows = game.rows(match)
        self.seats = tuple(match.seats)
        """Names of the game's players."""
        self.observation_spaces, self.action_spaces = list(match.observation_spaces), list(match.action_spaces)
        match.close()

    @property
    def env_id(self) -> str:
        """Id of the game it was trained in, such as openspiel:leduc_poker."""
        return str(self.policy.contract["id"])

    def predict(
        self,
        observation: Any,
        state: np.ndarray | None = None,
        deterministic: bool = True,
        *,
        mask: Any = None,
        seat: int | str = 0,
    ) -> tuple[Any, np.ndarray]:
        """Return the action of `seat`, by number or name, and the state to pass with its next observation.

        `observation` is one of the seat's space, and `mask` its legal actions; an observation of PettingZoo with
        both, {"observation": ..., "action_mask": ...}, is accepted as is. `state` is None at the start of an episode.
        """
        number = self.seats.index(seat) if isinstance(seat, str) else seat
        if mask is None and isinstance(observation, Mapping) and "action_mask" in observation:
            mask = observation["action_mask"]
        row = self._rows.blank[number]
        self._rows.write(number, observation, row)
        self._rows.write_mask(number, mask, row)
        if wrong := self._rows.check(row[None], np.array([number]))[1]:
            raise InputError(f"predict: {wrong}")
        memory = torch.zeros(1, self.policy.memory_size) if state is None else torch.from_numpy(state)
        before, self.policy.deterministic = self.policy.deterministic, deterministic
        try:
            actions, after = self.policy.act(torch.from_numpy(row)[None], memory)
        finally:
            self.policy.deterministic = before
        joint = np.zeros((1, len(self.seats), actions.shape[1]), dtype=np.float32)
        joint[0, number] = actions.numpy()[0]
        return self._rows.to_actions(joint)[number][0], after.numpy()

    def seed(self, seed: int) -> None:
        """Restart the sequence of sampled actions."""
        self.policy.reseed(seed)


def load_imported_policy(path: Path, device: str, module: str = "") -> LoadedSeatPolicy:
    """Load the policy in the file `path` for `sparring.load`; its game may be made by importing `module`."""
    return LoadedSeatPolicy(*load_policy(path, device, [module] if module else []))


MODES = {".gif": "rgb_array", ".txt": "ansi"}
"""Render modes of PettingZoo by the suffix of a replay."""
FRAME_MS, FASTEST_MS = 500, 125
"""Time for which a picture is shown, and the minimum in a match with many moves."""
WHOLE_MS = 20_000
"""Approximate time of a match: with many moves, pictures are shown for less time, and then only every n-th is kept."""
WIDEST, COLOURS = 360, 64
"""Maximum pixels and colours of a picture, to keep pages small."""


def write_replay(path: Path, game: ImportedGame, players: list[SeatPlayer], seed: int) -> None:
    """Write a match of `players`, one per seat. Raises `InputError` if the game does not draw itself in this way."""
    mode = MODES[path.suffix.lower()]
    if game.package == "openspiel" and mode != "ansi":
        raise InputError(f"--replay {path}: {game.name} shows positions as text; give a name that ends in .txt")
    match = game.match(mode)
    try:
        frames = [_shrunk(raw) if mode == "rgb_array" else raw for raw in _frames(match, mode, game, players, seed)]
    except ImportError as error:
        raise InputError(f"--replay {path}: {game.name} cannot be drawn: {error}") from error
    finally:
        match.close()
    if mode == "ansi":
        write_atomically(path, "\n\n".join(f"move {number}\n{frame}" for number, frame in enumerate(frames)) + "\n")
        return
    _write_gif(path, frames)


def _shrunk(frame: np.ndarray) -> np.ndarray:
    """Return a picture [H, W, 3] of at most `WIDEST` pixels a side."""
    from PIL import Image

    picture = Image.fromarray(frame)
    picture.thumbnail((WIDEST, WIDEST), Image.Resampling.BOX)
    return np.asarray(picture)


def _write_gif(path: Path, frames: list[np.ndarray]) -> None:
    """Write pictures [H, W, 3] with one palette, made from eight of them; the last one is always kept."""
    from PIL import Image

    stride = -(-len(frames) * FASTEST_MS // WHOLE_MS)
    sampled = frames[:: -max(1, stride)][::-1]
    sample = np.concatenate(sampled[:: -max(1, len(sampled) // 8)])
    palette = Image.fromarray(sample).quantize(COLOURS)
    pictures = [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in sampled]
    duration = max(FASTEST_MS, min(FRAME_MS, WHOLE_MS // len(sampled)))
    written = BytesIO()
    pictures[0].save(written, "GIF", save_all=True, append_images=pictures[1:], duration=duration, loop=0)
    write_atomically(path, written.getvalue())


def _frames(match: ImportedMatch, mode: str, game: ImportedGame, players: list[SeatPlayer], seed: int) -> Iterator[Any]:
    """Play the match, and yield the position before every move and at the end."""
    rows = game.rows(match)
    memories = [torch.zeros(1, player.memory_size) for player in players]
    match.reset(seed)
    yield _drawn(match, game, mode)
    while not match.over:
        actions = np.zeros((1, len(match.seats), rows.action_size), dtype=np.float32)
        deciding = list(match.deciding())
        for seat in deciding:
            player, row = players[seat], rows.blank[seat]
            if isinstance(player, MatchSeats):
                numbers = player.action(match, seat)
                actions[0, seat, : len(numbers)] = numbers
                continue
            if hasattr(player, "choose_rows"):
                raise OpponentError(f"--replay: {player.name} needs a batch of matches; name another opponent")
            rows.write(seat, match.observe(seat), row)
            rows.write_mask(seat, match.mask(seat), row)
            chosen, memories[seat] = player.act(torch.from_numpy(row)[None], memories[seat])
            actions[0, seat] = chosen.numpy()[0]
        by_seat = rows.to_actions(actions)
        match.step({seat: by_seat[seat][0] for seat in deciding})
        yield _drawn(match, game, mode)


def _drawn(match: ImportedMatch, game: ImportedGame, mode: str) -> Any:
    """Return a picture, or text, as the render mode says."""
    other = next(suffix for suffix, candidate in MODES.items() if candidate != mode)
    fix = f"give a name that ends in {other}, or leave it out"
    try:
        frame = match.render()
    except ImportError:
        raise
    except Exception as error:  # some games render in only one of their modes
        raise InputError(f"--replay: {game.name} cannot draw itself here: {raised(error)}; {fix}") from error
    if isinstance(frame, str) != (mode == "ansi") or frame is None:
        kind = "nothing" if frame is None else "text" if isinstance(frame, str) else "pictures"
        raise InputError(f"--replay: {game.name} draws {kind} here; {fix}")
    return frame if isinstance(frame, str) else np.array(frame, dtype=np.uint8)  # the game may reuse the array
