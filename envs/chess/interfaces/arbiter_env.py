"""The Gymnasium interface of the A task: one question about the rules, one answer, both as text.

The docstring of `ChessArbiterEnv` is its documentation page: `docs/generate_env_pages.py` writes it to
`docs/envs/chessarbiter.md`.
"""

from __future__ import annotations

import string
from typing import Any

import gymnasium
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Text

from sparring.configs.core.errors import InputError, choose
from sparring.envs.chess import arbiter
from sparring.envs.chess.analysis import LONGEST_ANSWER
from sparring.envs.chess.positions import check_position, random_move, random_position

LONGEST_PROMPT = 256
MOST_PLIES = 1000
CHARACTERS = string.ascii_letters + string.digits + string.punctuation + " "
OPTIONS = ("fen", "move", "history")
INFO = ("position", "form", "validity")


class ChessArbiterEnv(gymnasium.Env[str, str]):
    """Answer one question about the rules of chess: what follows this move in this position.

    ## Description

    Every episode is one step. The observation is a prompt with a position of a random game, a legal move, and the last
    ten moves. The action is the answer as text. python-chess computes the reward from the rules, without an
    engine. [chess.md](../chess.md) describes the format and the reward.

    ```python
    import gymnasium as gym

    env = gym.make("sparring:sparring/ChessArbiter-v0")
    prompt, info = env.reset(seed=1)
    prompt, reward, terminated, truncated, info = env.step("rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1")
    ```

    Install the extra first: `sparring install chess`.

    ## Actions

    `Text(4096)`: `<next FEN>+<reward>+<terminated>+<truncated>`. Any other text is a wrong answer, not an
    error; a longer text counts as empty. An action that is not text raises a `ValueError`.

    ## Observations

    `Text(256)`: `A: <FEN>+<move>+<history>+`, moves in UCI, the history with the move itself at its end. The
    observation after the step is the prompt again.

    ## Rewards

    From -0.90 to 0.54: 0.5 for the right next position, less for a wrong one, and small parts for form and validity.

    ## Start of an episode

    A random game of 0 to `plies` half-moves, each number equally likely. A game that would end sooner stops before its
    last move. `reset(options={"fen": ..., "move": ..., "history": ...})` asks about your own position and move; the
    history is optional, and an illegal move is allowed.

    ## End of an episode

    `terminated` after the step; never `truncated`. The info then has the parts of the reward (`position`, `form`,
    `validity`), the true answer (`expected`), and whether the next position is right (`exact`).

    ## Arguments

    | argument | default | meaning |
    | --- | --- | --- |
    | plies | 80 | most half-moves before the question, from 0 to 1000 |
    | render_mode | None | ansi: `render()` returns the prompt |

    ## Version history

    | version | change |
    | --- | --- |
    | v0 | first release |
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012

    def __init__(self, *, plies: int = 80, render_mode: str | None = None) -> None:
        if not 0 <= plies <= MOST_PLIES:
            raise InputError(f"plies={plies}: must be in [0, {MOST_PLIES}]")
        if render_mode is not None:
            choose("render_mode", render_mode, self.metadata["render_modes"])
        self.plies, self.render_mode = plies, render_mode
        self.observation_space = Text(LONGEST_PROMPT, charset=CHARACTERS)
        self.action_space = Text(LONGEST_ANSWER, min_length=0, charset=CHARACTERS)
        self._prompt, self._open = "", False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Return a prompt; raises `InputError` for options that are not a position and a move."""
        super().reset(seed=seed)
        self._prompt, self._open = self._asked(options) if options else self._drawn(), True
        return self._prompt, {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Score an answer and end the episode; raises `ValueError` for an action that is not text."""
        if not self._open:
            raise ResetNeeded("no question is open: call reset() before step()")
        if not isinstance(action, str):
            raise InputError(f"action of type {type(action).__name__}: must be a text (str)")
        self._open = False
        score, question = arbiter.score_transition(self._prompt, action), arbiter.read_arbiter_prompt(self._prompt)
        assert question is not None
        expected = arbiter.true_transition(question.fen, question.move)
        info: dict[str, Any] = {name: getattr(score, name) for name in INFO}
        info["expected"] = arbiter.write_transition(expected)
        info["exact"] = score.position == arbiter.SAME
        return self._prompt, score.total, True, False, info

    def render(self) -> str | None:  # type: ignore[override]
        """Return the prompt; None without a render mode."""
        return self._prompt if self.render_mode else None

    def _drawn(self) -> str:
        board = random_position(self.np_random, int(self.np_random.integers(self.plies + 1)))
        move = random_move(board, self.np_random)
        assert move is not None
        return arbiter.arbiter_prompt(
            arbiter.question_of(board, move.uci(), [earlier.uci() for earlier in board.move_stack])
        )

    def _asked(self, options: dict[str, Any]) -> str:
        """Return the prompt of given options, checked by reading it."""
        for name in options:
            choose("option of reset", name, OPTIONS)
        fen, move = str(options.get("fen", "")), str(options.get("move", ""))
        history = options.get("history", ())
        moves = tuple(history.split() if isinstance(history, str) else map(str, history))
        check_position(fen, "options fen")
        prompt = arbiter.arbiter_prompt(arbiter.ArbiterQuestion(fen, move, moves or (move,)))
        if arbiter.score_transition(prompt, "").total == arbiter.BAD_PROMPT or not self.observation_space.contains(
            prompt
        ):
            raise InputError(f"options move={move!r}: give a move in UCI, as in e2e4, and a short history")
        return prompt
