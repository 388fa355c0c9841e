"""Rewards of both tasks against records of the original scoring functions, branch by branch."""

import chess
import pytest

from sparring.envs.chess.analysis import read_analysis, score_analysis
from sparring.envs.chess.arbiter import score_transition
from sparring.envs.chess.positions import collapse

START = chess.STARTING_FEN
FIVE = "e2e4 d2d4 g1f3 c2c4 b1c3"
VALS = "0.32 0.29 0.24 0.24 0.21"
VALUES = dict(zip([*FIVE.split(), "a2a3", "f2f3"], [*map(float, VALS.split()), -0.05, -0.60], strict=True))


class Table:
    """The engine of the recorded rows: five ordered moves, and a value after each of seven."""

    def top_moves(self, board, count):
        return list(VALUES.items())[:count]

    def value(self, board):
        start = chess.Board()
        for uci, value in VALUES.items():
            start.push_uci(uci)
            if start.board_fen() == board.board_fen():
                return -value
            start.pop()
        raise AssertionError(board.fen())


# answer; moves, evaluations and best move as read; best, candidates and evaluations parts; total
ANALYSES = [
    (f"M: {FIVE} E: {VALS} B: e2e4", 5, 5, "e2e4", 1.0, 1.0, 1.0, 1.0),
    ("M: d2d4 e2e4 g1f3 c2c4 b1c3 E: 0.29 0.32 0.24 0.24 0.21 B: d2d4", 5, 5, "d2d4", 0.8, 1.0, 1.0, 0.9),
    ("M: d2d4 e2e4 E: 0.29 0.32 B: b1c3", 2, 2, "b1c3", 0.2, 0.4, 1.0, 0.42),
    ("M: e2e4 E: 0.32 B: a2a3", 1, 1, "a2a3", 0.1, 0.3, 1.0, 0.34),
    ("M: e2e4 d2d4 a2a3 E: 0.32 0.29 -0.05 B: e2e4", 3, 3, "e2e4", 1.0, 0.5, 1.0, 0.85),
    (f"M: {FIVE} E: -0.32 0.29 0.24 0.24 0.21 B: e2e4", 5, 5, "e2e4", 1.0, 1.0, 0.472, 0.8944),
    ("M: e2e4 f2f3 E: 0.32 0.40 B: e2e4", 2, 2, "e2e4", 1.0, 0.2667, 0.1, 0.6),
    ("M: e2e4 d2d4 E: 0.30 B: e2e4", 2, 1, "e2e4", 1.0, 0.5667, -0.4, 0.59),
    (f"M: {FIVE} a2a3 E: {VALS} -0.05 B: e2e4", 5, 6, "e2e4", 1.0, 1.0, -0.4, 0.72),
    ("M: e2e4 e2e5 E: 0.32 0.10 B: e2e4", 2, 2, "e2e4", 1.0, 0.0, -0.5, 0.4),
    ("M: e2e5 d2d5 E: 0.1 0.1 B: e2e5", 2, 2, "e2e5", -1.0, -0.6, -0.5, -0.78),
    ("M: e2e5 e1e3 d1d3 a1a3 h1h3 E: 0.1 0.1 0.1 0.1 0.1 B: e2e5", 5, 5, "e2e5", -1.0, -1.5, -0.5, -1.0),
    (f"M: {FIVE} E: {VALS}", 5, 5, "", -0.5, 1.0, 1.0, 0.25),
    ("B: e2e4", 0, 0, "e2e4", 1.0, -0.3, -0.2, 0.37),
    ("M: e4 d4 E: 0.32 0.29 B: e4", 0, 2, "", -0.5, -0.3, -0.2, -0.38),
    ("M: e2e4 E: 0.32 B: e2e4Q", 1, 1, "e2e4Q", -1.0, 0.3, 1.0, -0.21),
    ("M:e2e4 d2d4E:.32 .29B:e2e4", 2, 2, "e2e4", 1.0, 0.5667, 1.0, 0.87),
    ("E: 0.32 M: e2e4 B: e2e4", 2, 1, "e2e4", 1.0, 0.3, -0.4, 0.51),
    ("M: e2e4 E: 0.0 B: e2e4", 1, 1, "e2e4", 1.0, 0.3, 0.28, 0.646),
]


@pytest.mark.parametrize("row", ANALYSES, ids=range(1, len(ANALYSES) + 1))
def test_analysis_reward_by_hand(row):
    answer, moves, values, best, *expected = row
    found = read_analysis(collapse(answer))
    assert (len(found.moves), len(found.evaluations), found.best) == (moves, values, best)
    score = score_analysis(f"P: {START} ", answer, Table())
    assert [score.best, score.candidates, score.evaluations, score.total] == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    "reasoned",
    [
        *("```thinking\n{}\n```\n{}", "((think)){}((/think)){}", "=== THINK ===\n{}\n=== END THINK ===\n{}"),
        *("<|musing|>{}<|/musing|>{}", "((musing))\n{}\n((end_musing))\n{}", "<|musing|>{}<|end|>{}"),
    ],
)
def test_marked_reasoning_is_not_scored(reasoned):
    answer = f"M: {FIVE} E: {VALS} B: e2e4"
    assert collapse(reasoned.format("M: f2f3 E: 9.0 B: f2f3", answer)) == answer


@pytest.mark.parametrize("prompt", ["P: 8/8 w", "P:", "", "e2e4"])
def test_prompt_without_position_scores_floor(prompt):
    assert score_analysis(prompt, f"M: {FIVE} E: {VALS} B: e2e4", Table()).total == -0.5


N = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"
T = "+0.001+0+0"
# answer; position, form and validity parts; total
TRANSITIONS = [
    (N + T, 0.5, 0.03, 0.01, 0.54),
    (N + T + "+", 0.5, 0.03, 0.01, 0.54),
    (N + "+1.0+1+1", 0.5, 0.03, 0.01, 0.54),
    (N + "+0.001+false+True", 0.5, 0.025, 0.01, 0.535),
    (N + "+x+0+0", 0.5, 0.025, 0.01, 0.535),
    (N + "+0.001+0", 0.5, 0.0, 0.01, 0.51),
    (N + " x" + T, 0.5, 0.03, -0.2, 0.33),
    (N[:-1] + "2" + T, -0.3, 0.03, 0.01, -0.26),
    (N.replace(" - ", " e3 ") + T, -0.7, 0.03, 0.01, -0.66),
    (N[:-3] + "1 1" + T, -0.7, 0.03, 0.01, -0.66),
    (N.replace(" b ", " w ") + T, -0.7, 0.03, 0.0075, -0.6625),
    (N[:-4] + T, -0.7, 0.03, 0.01, -0.66),
    (N.split()[0] + T, -0.7, 0.03, 0.005, -0.665),
    (N.replace("RNBQKBNR", "RNBQQBNR") + T, -0.7, 0.03, -0.2, -0.87),
    (N.replace("4P3", "4P4") + T, -0.7, 0.03, -0.2, -0.87),
    (T, -0.7, 0.025, -0.2, -0.875),
    ("nonsense", -0.7, 0.0, -0.2, -0.9),
    ("", -0.7, 0.0, -0.2, -0.9),
]


@pytest.mark.parametrize("history", ["e2e4+", ""], ids=["history", "none"])
@pytest.mark.parametrize("row", TRANSITIONS, ids=range(1, len(TRANSITIONS) + 1))
def test_transition_reward_by_hand(row, history):
    answer, *expected = row
    score = score_transition(f"A: {START}+e2e4+{history}", answer)
    assert [score.position, score.form, score.validity, score.total] == pytest.approx(expected, abs=5e-5)


def test_illegal_move_in_prompt():
    assert score_transition(f"A: {START}+e2e5+e2e5+", N + T).total == -0.8


@pytest.mark.parametrize("prompt", [f"A: {START}+xx+xx+", "A: bad+e2e4+e2e4+", f"A: {START}+e2e4", ""])
def test_unreadable_prompt(prompt):
    assert score_transition(prompt, N + T).total == -0.5


HOSTILE = [
    "",
    "\x00",
    "+" * 5000,
    "M:" * 2000,
    "x" * 10_000_000,
    "E: " + "9" * 4000,
    "♔" * 3000,
    f"{N}{T}\n{N}{T}",
    "M: ١٢٣ E: ١ B: ١",
]


@pytest.mark.parametrize("answer", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_answers_score_at_floor(answer):
    empty = score_analysis(f"P: {START} ", "", Table()).total
    assert score_analysis(f"P: {START} ", answer, Table()).total <= empty == pytest.approx(-0.38)
    assert score_transition(f"A: {START}+e2e4+e2e4+", answer).total <= -0.66
