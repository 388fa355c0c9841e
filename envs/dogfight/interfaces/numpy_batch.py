"""Common base of the Gymnasium and PettingZoo interfaces: a `DogfightBatch` with numpy inputs and outputs.

The arrays of a step are views of the batch's memory (on a GPU, copies), valid until the next step: the interfaces copy
what they return. A match can be truncated after `max_episode_steps` decisions. Such a truncation has no outcome:
neither side has won.

N matches, two seats, D floats per observation.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch

from sparring.configs.core.errors import choose
from sparring.envs.dogfight import GAME
from sparring.envs.dogfight import rules as game
from sparring.envs.dogfight.batch import RESULTS, DogfightBatch
from sparring.envs.dogfight.config import RewardConfig
from sparring.envs.dogfight.frame import TICK
from sparring.envs.dogfight.recording import short_names
from sparring.envs.dogfight.rules import TRACE_FIELDS
from sparring.envs.launcher import Copyable

if TYPE_CHECKING:
    from sparring.envs.dogfight.animation import MatchWindow

RENDER_MODES = ["rgb_array", "human"]
HUMAN = "human"
RESET_OPTIONS = ("opponent", "regime")


@dataclass(frozen=True, kw_only=True)
class MatchOptions:
    """Keyword arguments of all interfaces, documented in the arguments table of `DogfightEnv`."""

    rules: str = "classic"
    randomization: str = "none"
    spawn: str = "random"
    action_repeat: int = game.ACTION_REPEAT
    bot_rate: str = "tick"
    observe_physics: bool = True
    closing: float = 0.0
    reward: RewardConfig | Mapping[str, float] = field(default_factory=RewardConfig)
    gamma: float = 0.999
    device: str = "cpu"
    max_episode_steps: int | None = None
    render_mode: str | None = None

    def __post_init__(self) -> None:
        """Check the options that the batch does not check itself."""
        if self.render_mode is not None:
            choose("render_mode", self.render_mode, RENDER_MODES)
        limit = self.max_episode_steps
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            raise ValueError(f"max_episode_steps={limit!r}: must be an integer of at least 1, or None")

    @classmethod
    def of(cls, arguments: Mapping[str, Any], extra: Sequence[str] = ()) -> MatchOptions:
        """Create options from keyword arguments.

        Raises `UnknownNameError` for an unknown argument; the message also lists the interface's `extra` arguments.
        """
        names = [*extra, *(option.name for option in fields(cls))]
        for name in arguments:
            choose("argument", name, names)
        return cls(**arguments)

    def reward_config(self) -> RewardConfig:
        """Return the reward weights; a mapping overrides some of the defaults."""
        if isinstance(self.reward, RewardConfig):
            return self.reward
        terms = [term.name for term in fields(RewardConfig)]
        weights: dict[str, Any] = {choose("reward weight", name, terms): weight for name, weight in self.reward.items()}
        return RewardConfig(**weights)


class Step(NamedTuple):
    """One step of the batch; the arrays are valid until the next step or reset."""

    obs: np.ndarray
    """[N, 2, D] float32; observations of the next match where one finished in this step."""
    reward: np.ndarray
    """[N, 2] float32."""
    terminated: np.ndarray
    """[N] bool, a death."""
    truncated: np.ndarray
    """[N] bool, the time limit or `max_episode_steps`."""
    outcome: np.ndarray
    """[N] int32, -1 while undecided, 0 draw, 1 or 2 the winning seat plus one."""
    decisions: np.ndarray
    """[N] int64, decisions taken in the match so far, including this one."""
    ticks: np.ndarray
    """[N] int32 or int64, length of the finished match; valid where `terminated | truncated`."""
    hp: np.ndarray
    """[N, 2] int32, hp at the end of the finished match; valid where `outcome >= 0`."""


class NumpyBatch(Copyable):
    """N matches for the numpy interfaces; the first `rendered` of them can be drawn.

    A deep copy or pickle continues like the original, with its own opponents. An opponent that is a Python object is
    copied by Python's rules or raises an error.
    """

    _references: ClassVar[tuple[str, ...]] = ("actions", "_views", "_read_final")
    actions: np.ndarray
    """Actions of both seats, float32 [N, 2, 3], which the next `step` plays."""

    def __init__(self, num_envs: int, options: MatchOptions, *, rendered: int = 0, threads: int = 1) -> None:
        self.num_envs = num_envs
        self.options = options
        self.batch = DogfightBatch(
            num_envs,
            device=options.device,
            rules=options.rules,
            action_repeat=options.action_repeat,
            bot_rate=options.bot_rate,
            spawn=options.spawn,
            observe_physics=options.observe_physics,
            closing=options.closing,
            reward=options.reward_config(),
            gamma=options.gamma,
            threads=threads,
            trace=rendered if options.render_mode else 0,
        )
        self.set_regime(None)
        self._given = self.batch.actions if self.batch.device.type == "cpu" else torch.zeros(num_envs, 2, 3)
        self._decisions = np.zeros(num_envs, dtype=np.int64)
        self._ended = np.zeros(num_envs, dtype=bool)
        self._fresh = True
        self._final_rows = torch.arange(0, 2 * num_envs, 2, device=self.batch.device)
        self._final_obs = torch.zeros(num_envs, self.batch.obs_dim, device=self.batch.device)
        self._was_cut = np.zeros(num_envs, dtype=bool)
        self._cut_obs = np.zeros((0, self.batch.obs_dim), dtype=np.float32)
        self._open: dict[Any, tuple[Any, Any]] = {}
        self._players: list[tuple[Any, np.ndarray]] = []
        self._player_seconds = self._kernel_seconds = 0.0
        self._remember_max_hp()
        self._window = _open_window(options) if options.render_mode == HUMAN else None
        self._bind()

    def _bind(self) -> None:
        on_cpu = self.batch.device.type == "cpu"
        self._views = {name: getattr(self.batch, name).numpy() for name in RESULTS} if on_cpu else {}
        self.actions = self._given.numpy()
        self._read_final = self.batch.final_reader(self._final_rows, self._final_obs)
        self._open = {_key(opponent): (player, opponent) for player, opponent in self._open.values()}

    def set_regime(self, name: str | None) -> None:
        """Set a regime or a randomization level from the next reset on; None restores the initial option."""
        self.batch.set_ranges(game.ranges(self.options.randomization if name is None else name))

    def set_bots(self, bots: np.ndarray) -> None:
        """Set the player of each seat, int [N, 2]: a bot id or `game.ACTIONS`. Takes effect at once."""
        self.batch.assign(bots)

    def seat_opponents(self, opponents: Sequence[Any], seats: np.ndarray) -> None:
        """Set the opponent of the learner, who has `seats` [N], in every match; takes effect at once.

        An opponent is anything of docs/opponents.md; each is opened once. Raises `InputError` for an unknown name, and
        for a policy that cannot play these matches.
        """
        players = [self._opened(opponent) for opponent in opponents]
        bots = np.full((len(seats), 2), game.ACTIONS, dtype=np.int32)
        rows = np.arange(len(seats))
        bots[rows, 1 - seats] = [game.bot_id(player) if isinstance(player, str) else game.ACTIONS for player in players]
        self.set_bots(bots)
        self._players = []
        for player in {id(seated): seated for seated in players if not isinstance(seated, str)}.values():
            matches = np.array([match for match, seated in enumerate(players) if seated is player])
            self._players.append((player, 2 * matches + 1 - seats[matches]))

    @property
    def opponent_share(self) -> float:
        """Share of the time of all steps spent in opponents other than bots, outside the kernels."""
        return self._player_seconds / max(self._player_seconds + self._kernel_seconds, 1e-9)

    def reset(self, seed: int) -> np.ndarray:
        """Restart every match from `seed`; return the observations [N, 2, D], valid until the next step or reset."""
        self._decisions[:] = 0
        self._ended[:] = False
        self._fresh = True
        self.batch.reset(seed=seed)
        self._remember_max_hp()
        self._show()
        return self._result("obs")

    def step(self) -> Step:
        """Play one decision of every match with `actions`, which are already checked (`spaces.check_actions`)."""
        self._fresh = False
        self._remember_max_hp()
        self._act_players()
        start = time.perf_counter()
        self.batch.step(self._given)
        self._kernel_seconds += time.perf_counter() - start
        self._decisions[self._ended] = 0
        self._decisions += 1
        terminated, truncated, ticks = (self._result(name) for name in ("terminated", "truncated", "length"))
        limit = self.options.max_episode_steps
        if limit is not None:
            truncated, ticks = self._cut(limit, terminated, truncated, ticks)
        self._ended = terminated | truncated
        self._show()
        obs, reward, outcome, hp = (self._result(name) for name in ("obs", "reward", "outcome", "final_hp"))
        return Step(obs, reward, terminated, truncated, outcome, self._decisions, ticks, hp)

    def last_obs(self, rows: np.ndarray) -> np.ndarray:
        """Return the last observations [R, D] of seats `rows` [R] among 2N, at most one of each match.

        Their matches ended in the last step.
        """
        matches = rows // 2
        device = self.batch.device
        at = torch.from_numpy(matches).to(device)
        self._final_rows.index_copy_(0, at, torch.from_numpy(rows).to(device))
        self._read_final()
        obs = self._final_obs.index_select(0, at).cpu().numpy()
        if self.options.max_episode_steps is not None:
            cut = self._was_cut[matches]
            obs[cut] = self._cut_obs[rows[cut]]
        return obs

    def frames(self) -> list[np.ndarray]:
        """Return pictures of the rendered matches at the end of the last step, uint8 [H, W, 3] each."""
        # Imported here because most environments are never drawn.
        from sparring.envs.dogfight.frame import frame_at
        from sparring.envs.dogfight.render import draw

        deadly, pictures = self.options.rules == "challenge", []
        for match, (rows, most) in enumerate(zip(self._last_rows(), self._max_hp, strict=True)):
            about: dict[str, Any] = {"max_hp": int(most), "names": self._names(match), "deadly_ground": deadly}
            pictures.append(draw(frame_at(rows, len(rows) - 1, trail_seconds=0.0, **about)))
        return pictures

    def _show(self) -> None:
        """Show the last step of the first match in the window, if `render_mode` is human."""
        if self._window is not None:
            self._window.show(self._last_rows()[0], max_hp=int(self._max_hp[0]), names=self._names(0))

    def _names(self, match: int) -> tuple[str, str]:
        """Return the short names of the players of a match."""
        names = {int(row): player.name for player, rows in self._players for row in rows}
        bots = self.batch.bots[match].tolist()
        left, right = (
            game.BOTS[bot] if bot >= 0 else names.get(2 * match + seat, f"player {seat}")
            for seat, bot in enumerate(bots)
        )
        return short_names(left, right)

    def _opened(self, opponent: Any) -> Any:
        """Return the bot's name, or the player for an opponent that is not a bot."""
        if isinstance(opponent, str) and opponent in game.BOTS:
            return opponent
        key = _key(opponent)
        if key not in self._open:
            player = GAME.opponent(opponent, self.batch.contract, self.batch.device)
            self._open[key] = (player, opponent)  # keep the object alive: its id must stay unique
        return self._open[key][0]

    def _act_players(self) -> None:
        """Write the actions of the players that are not bots into `actions`, each in one call."""
        if not self._players:
            return
        start, flat, obs = time.perf_counter(), self.actions.reshape(-1, 3), self.batch.obs.flatten(0, 1)
        for player, rows in self._players:
            observed = obs.index_select(0, torch.from_numpy(rows).to(obs.device))
            flat[rows] = player.act(observed).cpu().numpy()
        self._player_seconds += time.perf_counter() - start

    def _remember_max_hp(self) -> None:
        """Store the full hp of rendered matches, since a step that ends a match replaces its physics."""
        if self.options.render_mode is not None:
            self._max_hp = self.batch.snapshot()["physics"]["max_hp"][: len(self.batch.trace)]

    def _last_rows(self) -> list[np.ndarray]:
        """Return the ticks of the last step of each rendered match, [T, 29] in the order of `TRACE_FIELDS`."""
        if self._fresh:
            return list(self._first_rows()[:, None])
        return [rows[rows[:, TICK] >= 0] for rows in self._result("trace")]

    def _first_rows(self) -> np.ndarray:
        """Return a row of each, [rendered, 29], right after a reset, when no tick has been traced yet."""
        state = self.batch.snapshot()
        rendered, names = len(self.batch.trace), state["fighters"].dtype.names or ()
        rows = np.zeros((rendered, len(TRACE_FIELDS)), dtype=np.float32)
        for column, name in enumerate(TRACE_FIELDS):
            field_name, _, seat = name.rpartition("_")
            if field_name in names:
                rows[:, column] = state["fighters"][field_name][:rendered, int(seat)]
        return rows

    def _cut(
        self, limit: int, terminated: np.ndarray, truncated: np.ndarray, ticks: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Restart the undecided matches of `limit` decisions; return `truncated` and `ticks` with them."""
        cut = self._was_cut = (self._decisions >= limit) & ~(terminated | truncated)
        if not cut.any():
            return truncated, ticks
        truncated = truncated | cut
        self._cut_obs = self._result("obs").reshape(2 * self.num_envs, -1).copy()
        self.batch.assign(None, torch.from_numpy(cut))
        return truncated, np.where(cut, self._decisions * self.options.action_repeat, ticks)

    def _result(self, name: str) -> np.ndarray:
        """Return one of the batch's results on the host."""
        view = self._views.get(name)
        return getattr(self.batch, name).cpu().numpy() if view is None else view

    def close(self) -> None:
        """Release the simulator's threads and memory, and close the window."""
        if self._window is not None:
            self._window.close()
        self.batch.close()


def _key(opponent: Any) -> Any:
    """Return the key of an opponent in `NumpyBatch._open`: its name, or its identity, which a copy does not share."""
    return opponent if isinstance(opponent, str | Path) else id(opponent)


_LEARNER_RESULTS = np.array([[0, 1, -1], [0, -1, 1]])  # by seat, then by outcome: draw, seat 0 won, seat 1 won


def learner_result(outcome: np.ndarray, seat: np.ndarray | int) -> np.ndarray:
    """Return the result for the player on `seat`: 1 win, 0 draw, -1 loss; valid where `outcome >= 0`."""
    return _LEARNER_RESULTS[seat, outcome]


def match_info(step: Step, seat: int) -> dict[str, int]:
    """Return the info of the player on `seat` once its match is decided; empty before that."""
    if step.outcome[0] < 0:
        return {}
    return {
        "outcome": int(learner_result(step.outcome, seat)[0]),
        "ticks": int(step.ticks[0]),
        "hp": int(step.hp[0, seat]),
        "opponent_hp": int(step.hp[0, 1 - seat]),
    }


def read_options(options: Mapping[str, Any] | None) -> tuple[Any, str | None]:
    """Return `opponent` and `regime` of the options of a reset, None if absent; raises for an unknown key."""
    values = dict(options or {})
    for name in values:
        choose("reset option", name, RESET_OPTIONS)
    return values.get("opponent"), values.get("regime")


def match_seed(seed: int | None, random: np.random.Generator) -> int:
    """Return the seed of the batch for this reset: the caller's, or the next draw of the environment's generator."""
    if seed is None:
        return int(random.integers(2**31))
    # The simulator's seed has 31 bits; wider seeds are hashed to keep them distinct.
    return seed if seed < 2**31 else int(np.random.SeedSequence(seed).generate_state(1)[0] >> 1)


def render_fps(options: MatchOptions) -> int:
    """Return the frames per second that show a match in real time: one per decision, more in a window."""
    if options.render_mode == HUMAN:
        from sparring.envs.dogfight.animation import human_fps

        return human_fps(options.action_repeat)
    return max(1, game.TICKS_PER_SECOND // options.action_repeat)


def _open_window(options: MatchOptions) -> MatchWindow:
    # Imported here because most environments are never drawn.
    from sparring.envs.dogfight.animation import MatchWindow

    return MatchWindow(action_repeat=options.action_repeat, wraps=options.rules == "challenge")
