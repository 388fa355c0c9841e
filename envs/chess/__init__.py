"""Chess: two text tasks with verifiable rewards, analysis (P) and arbiter (A), and a two-player text game.

Importing this package needs neither python-chess nor an engine; its modules need the extra chess.
"""

from sparring.configs.core.errors import require_package
from sparring.envs.game import Game, TextMatchPlace

ENV_ID = "sparring/Chess-v0"
ARBITER_ID = "sparring/ChessArbiter-v0"
PACKAGE = "chess"
BOTS = ("random", "builtin", "stockfish")

GAME = Game(
    order=3,
    name="chess",
    id=ENV_ID,
    title="chess",
    seats=2,
    bots=BOTS,
    first_run="rookworld_sft",
    aec_env="sparring.envs.chess.interfaces.aec_env:ChessAECEnv",
    text_envs=((ARBITER_ID, "sparring.envs.chess.interfaces.arbiter_env:ChessArbiterEnv"),),
    runs="sparring.envs.chess.config:RUNS",
    open_player="sparring.envs.chess.evaluation.games:open_player",
    evaluation="sparring.envs.chess.evaluation.command:EVALUATION",
    exploit="sparring.envs.chess.evaluation.responses:RESPONSES",
    attackers=("search",),
    payoff="sparring.envs.chess.evaluation.command:PAYOFF",
    results=("chess", 2),
    comparable=("plies", "opening_plies", "illegal", "temperature"),
    play="sparring.envs.chess.browser.command:BROWSER",
    needs=("sparring.configs.language",),
    text_game="sparring.envs.chess.rollouts.task:CHESS",
    text_matches=(
        TextMatchPlace("chess_analysis", "sparring.envs.chess.interfaces.text_match:analysis_match"),
        TextMatchPlace("chess_arbiter", "sparring.envs.chess.interfaces.text_match:arbiter_match"),
    ),
)


def check_package() -> None:
    """Raise `InputError` if python-chess, an extra, is missing."""
    require_package(PACKAGE, "chess")
