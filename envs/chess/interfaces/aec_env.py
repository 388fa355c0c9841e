"""The PettingZoo interface of chess: two agents in turn, positions and moves as text.

The docstring of `ChessAECEnv` is the game's documentation page: `docs/generate_env_pages.py` writes it to
`docs/envs/chess.md`.
"""

from __future__ import annotations

import string
from typing import Any

import chess
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Dict, Text
from pettingzoo import AECEnv

from sparring.configs.core.errors import InputError, choose
from sparring.envs.chess import ENV_ID
from sparring.envs.chess.positions import check_position, random_move, read_legal_move

AGENTS = ("white", "black")
ILLEGAL = ("lose", "random")
RENDER_MODES = ["ansi"]
LONGEST_FEN, LONGEST_MOVES = 128, 1536
"""Characters; no position has more than 218 legal moves, of at most five characters and a space."""
LONGEST_ACTION = 64
MOST_PLIES = 10000
Observation = dict[str, str]
CHARACTERS = string.ascii_letters + string.digits + string.punctuation + " "


class ChessAECEnv(AECEnv[str, Observation, str]):
    """Chess for two agents that read positions and write moves, such as language models and engines.

    This environment is for PettingZoo; `sparring.envs.chess.interfaces.aec_env.env()` makes it.

    ## Description

    The agents `white` and `black` move in turn, under the rules of python-chess.

    ```python
    from sparring.envs.chess.interfaces.aec_env import env as chess_env

    env = chess_env()
    env.reset(seed=1)
    for agent in env.agent_iter():
        obs, reward, terminated, truncated, info = env.last()
        env.step(None if terminated or truncated else info["legal_moves"][0])
    ```

    Install the extra first: `sparring install chess`.

    ## Actions

    `Text(64)`: a move in UCI, such as `e2e4`, `e1g1` for castling and `e7e8q` for promotion; spaces around it are
    ignored. Any other text is an illegal move. With `illegal="lose"` it loses the game at once; with `illegal="random"`
    a random legal move is played in its place. An action that is not text raises a `ValueError`.

    ## Observations

    `Dict`, the same for both agents. Infos have `legal_moves`, a list that is empty unless the agent is to move, and
    `illegal_moves`, the number of the agent's illegal moves. After the end they have `result`: 1-0, 0-1, 1/2-1/2 or *.

    | key | space | meaning |
    | --- | --- | --- |
    | fen | Text(128) | the position |
    | legal_moves | Text(1536) | the legal moves in UCI, in alphabetical order and separated by spaces |

    ## Rewards

    1 for the winner and -1 for the loser at the end of the game; 0 in a draw, and for every other move.

    ## Start of a game

    The usual position, or `reset(options={"fen": ...})`, a position with a legal move.

    ## End of a game

    - `terminated`: mate, stalemate, insufficient material, 75 moves without capture or pawn move, a position for the
      fifth time, or an illegal move under `illegal="lose"`. Players do not claim draws before.
    - `truncated`: `max_plies` half-moves were played, counted from the start; rewards are 0.

    ## Arguments

    | argument | default | meaning |
    | --- | --- | --- |
    | illegal | lose | what an illegal move does: lose, or random |
    | max_plies | 1000 | half-moves after which a game is cut off, from 1 to 10000 |
    | render_mode | None | ansi: `render()` returns the board in letters |

    ## Version history

    | version | change |
    | --- | --- |
    | v0 | first release |
    """

    metadata = {"name": ENV_ID, "render_modes": list(RENDER_MODES), "is_parallelizable": False}  # noqa: RUF012

    def __init__(self, *, illegal: str = "lose", max_plies: int = 1000, render_mode: str | None = None) -> None:
        super().__init__()
        if not 1 <= max_plies <= MOST_PLIES:
            raise InputError(f"max_plies={max_plies}: must be in [1, {MOST_PLIES}]")
        if render_mode is not None:
            choose("render_mode", render_mode, RENDER_MODES)
        self._replace = choose("illegal", illegal, ILLEGAL) == "random"
        self.max_plies, self.render_mode = max_plies, render_mode
        self.possible_agents = list(AGENTS)
        self.agents: list[str] = []
        self.observation_spaces = {agent: _observation_space() for agent in AGENTS}
        self.action_spaces = {agent: Text(LONGEST_ACTION, min_length=0, charset=CHARACTERS) for agent in AGENTS}
        self.board, self._draw = chess.Board(), np.random.default_rng()

    def observation_space(self, agent: str) -> Dict:
        """Return the agent's observation space, the same object at every call."""
        return self.observation_spaces[choose("agent", agent, AGENTS)]

    def action_space(self, agent: str) -> Text:
        """Return the agent's action space, the same object at every call."""
        return self.action_spaces[choose("agent", agent, AGENTS)]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start a game, from `options["fen"]` if given; other keys are ignored. Raises `InputError` for a bad FEN."""
        fen = (options or {}).get("fen", chess.STARTING_FEN)
        board = check_position(str(fen), "options fen", playable=True)
        if seed is not None:
            self._draw = np.random.default_rng(seed)
        self.board, self.agents = board, list(AGENTS)
        self.rewards = dict.fromkeys(AGENTS, 0.0)
        self._cumulative_rewards = dict.fromkeys(AGENTS, 0.0)
        self.terminations, self.truncations = dict.fromkeys(AGENTS, False), dict.fromkeys(AGENTS, False)
        self._illegal = dict.fromkeys(AGENTS, 0)
        self.agent_selection = self._mover()
        self._inform("")

    def observe(self, agent: str) -> Observation:
        """Return the position as FEN, and the legal moves."""
        choose("agent", agent, AGENTS)
        return {"fen": self.board.fen(), "legal_moves": " ".join(self._legal())}

    def step(self, action: str | None) -> None:
        """Play the selected agent's move; None for an agent that has ended. Raises `ValueError` for other types."""
        if not self.agents:
            raise ResetNeeded("no game is running: call reset() before step()")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        if not isinstance(action, str):
            raise InputError(f"action of type {type(action).__name__}: must be a text (str), such as 'e2e4'")
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        self._play(agent, read_legal_move(self.board, action.strip()))
        self.agent_selection = AGENTS[1 - AGENTS.index(agent)]
        self._accumulate_rewards()

    def render(self) -> str | None:
        """Return the board as text, White's pieces in capitals; None without a render mode."""
        return str(self.board) if self.render_mode else None

    def close(self) -> None:
        """Do nothing."""

    def _play(self, agent: str, move: chess.Move | None) -> None:
        """Play a move; None is an illegal one."""
        if move is None:
            self._illegal[agent] += 1
            if not self._replace:
                self._end(AGENTS[1 - AGENTS.index(agent)])
                return
            move = random_move(self.board, self._draw)
            assert move is not None
        self.board.push(move)
        if outcome := self.board.outcome():
            self._end("" if outcome.winner is None else AGENTS[not outcome.winner])
        elif len(self.board.move_stack) >= self.max_plies:
            self.truncations = dict.fromkeys(AGENTS, True)
            self._inform("*")
        else:
            self._inform("")

    def _end(self, winner: str) -> None:
        """End the game; an empty winner is a draw."""
        self.terminations = dict.fromkeys(AGENTS, True)
        if winner:
            self.rewards = {agent: 1.0 if agent == winner else -1.0 for agent in AGENTS}
        self._inform({"white": "1-0", "black": "0-1", "": "1/2-1/2"}[winner])

    def _inform(self, result: str) -> None:
        """Set the infos; `result` is empty during the game."""
        last = {"result": result} if result else {}
        self.infos = {
            agent: {"legal_moves": [] if last or agent != self._mover() else self._legal()}
            | {"illegal_moves": self._illegal[agent], **last}
            for agent in AGENTS
        }

    def _mover(self) -> str:
        return AGENTS[not self.board.turn]

    def _legal(self) -> list[str]:
        return sorted(move.uci() for move in self.board.legal_moves)


env = ChessAECEnv
"""Factory function under PettingZoo's usual name."""


def _observation_space() -> Dict:
    moves = Text(LONGEST_MOVES, min_length=0, charset=CHARACTERS)
    return Dict({"fen": Text(LONGEST_FEN, charset=CHARACTERS), "legal_moves": moves})
