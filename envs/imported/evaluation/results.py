"""Results of a policy in an imported game against each opponent, as a table and as the content of eval.json.

Games start from their own seeds and are independent trials. Scores and win rates have the intervals of
`curriculum/score.py`, mean rewards Student's t intervals. Two deterministic players of a game without chance repeat the
same game for each seat. The intervals are then meaningless, and the table says so.

If the sum of all seats' rewards varies between games, the game is not constant-sum and wins are less informative. The
table then compares the mean reward per seat of the policy in all seats with random play in all seats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparring.agents.play.seat_matches import SeatResults
from sparring.curriculum.ratings import Result
from sparring.curriculum.score import Scored
from sparring.eval.stats.aggregate import Estimate, mean_estimate
from sparring.eval.stats.tables import Pairs, table

COLUMNS = ("mean reward", "95 % interval", "moves")


@dataclass(frozen=True)
class SeatRecord(Scored):
    """Games of one player against one opponent, from every seat."""

    player: str
    opponent: str
    seats: Sequence[str]
    by_seat: Sequence[tuple[int, int, int]]
    """Wins, draws and losses in every seat."""
    reward: Estimate
    """Sum of the player's rewards in a game."""
    reward_by_seat: Sequence[float]
    length: float
    """Mean number of moves."""
    distinct: int
    """Number of different games."""
    constant_sum: bool
    """Whether the game is constant-sum."""
    shared: bool
    """Whether all seats were paid the same in every game."""
    pairs: Pairs | None = None
    """Pairs of games with swapped seats by the player's points in them: 0, 1/2, 1, 3/2, 2; None unless for two."""
    regime: str = ""
    """All matches are of one kind."""

    @property
    def counts(self) -> Result:
        """Wins, draws and losses in all seats."""
        wins, draws, losses = np.sum(self.by_seat, axis=0).tolist()
        return wins, draws, losses

    @property
    def repeats(self) -> bool:
        """Whether all games from a seat are identical."""
        return self.distinct <= len(self.seats) < self.games

    def other_side(self) -> tuple[SeatRecord, ...]:
        """Return no record from the opponent's side, whose rewards in each seat are not kept."""
        return ()

    def plain(self) -> dict[str, Any]:
        """Return the record as in eval.json."""
        return {
            "player": self.player,
            "opponent": self.opponent,
            **self.figures(),
            "by_seat": [
                {"seat": seat, "wins": wins, "draws": draws, "losses": losses, "mean_reward": reward}
                for seat, (wins, draws, losses), reward in zip(
                    self.seats, self.by_seat, self.reward_by_seat, strict=True
                )
            ],
            "points": self.score,
            "mean_reward": self.reward.value,
            "mean_reward_interval": self.reward.interval,
            "length": self.length,
            "distinct_games": self.distinct,
        }


def record_of(player: str, opponent: str, seats: Sequence[str], results: SeatResults) -> SeatRecord:
    """Summarize the games of a player against one opponent."""
    by_seat = [float(results.reward[results.seat == seat].mean()) for seat in range(len(seats))]
    return SeatRecord(
        player,
        opponent,
        seats,
        results.by_seat,
        _finite(results.reward),
        by_seat,
        float(results.length.mean()),
        results.distinct,
        constant_sum(results.rewards),
        bool(np.allclose(results.rewards, results.rewards[:, :1])),
        pairs_of(results) if len(seats) == 2 else None,
    )


def pairs_of(results: SeatResults) -> Pairs:
    """Return the number of pairs of consecutive games, from both seats, by the player's points in them."""
    points = results.outcome.reshape(-1, 2).sum(1) + 2
    lost, behind, level, ahead, won = np.bincount(points, minlength=5).tolist()
    return lost, behind, level, ahead, won


def constant_sum(rewards: np.ndarray) -> bool:
    """Return whether the seats' rewards [G, S] add up to the same number in every game."""
    return bool(np.ptp(rewards.sum(1)) <= 1e-6 * max(1.0, float(np.abs(rewards).max())))


@dataclass(frozen=True)
class TeamRecord:
    """Games with one player in all seats."""

    player: str
    seats: Sequence[str]
    games: int
    reward: Estimate
    """Mean over the seats of the sum of rewards in a game."""
    reward_by_seat: Sequence[float]
    length: float
    """Mean number of moves."""

    def plain(self) -> dict[str, Any]:
        """Return the record as in eval.json."""
        by_seat = dict(zip(self.seats, self.reward_by_seat, strict=True))
        mean = {"mean_reward": self.reward.value, "mean_reward_interval": self.reward.interval}
        return {"player": self.player, "games": self.games, **mean, "by_seat": by_seat, "length": self.length}


def team_record(player: str, seats: Sequence[str], results: SeatResults) -> TeamRecord:
    """Summarize games with `player` in all seats."""
    reward, length = _finite(results.rewards.mean(1)), float(results.length.mean())
    return TeamRecord(player, seats, results.games, reward, results.rewards.mean(0).tolist(), length)


def _finite(rewards: np.ndarray) -> Estimate:
    """Return the mean with its interval; for a single game, the interval is its value."""
    estimate = mean_estimate(rewards)
    return estimate if len(rewards) > 1 else Estimate(estimate.value, (estimate.value, estimate.value))


def more_tables(seats: Sequence[str], records: Sequence[SeatRecord], teams: Sequence[TeamRecord]) -> list[str]:
    """Return the tables of the player's seats, if there are few, and of whole teams, if some played."""
    few = tuple(seats) if len(seats) <= 4 else ()
    parts = []
    if few:
        by_seat = ("opponent", *(f"{seat}: W / D / L, reward" for seat in seats))
        cells = [
            [record.opponent, *(f"{w} / {d} / {n}, {reward:+.3f}" for (w, d, n), reward in _seats(record))]
            for record in records
        ]
        parts.append(table(by_seat, cells))
    if teams:
        columns = ("in all seats", "games", "mean reward of a seat", "95 % interval", *few, "moves")
        parts.append(table(columns, [_team_row(team, len(few)) for team in teams]))
    return parts


def exact_line(exact: Mapping[str, float]) -> str:
    """Describe the exploitability."""
    ways = {"sampled": "as it samples its actions", "deterministic": "deterministic", "uniform": "for uniform play"}
    values = ", ".join(f"{exact[way]:.6f} {words}" for way, words in ways.items() if way in exact)
    return f"Exploitability: {values} (exact; mean gain of a best response over players)."


def repetition_notes(records: Sequence[SeatRecord]) -> list[str]:
    """Return a note on opponents that played the same games again."""
    names = ", ".join(record.opponent for record in records if record.repeats)
    if not names:
        return []
    return [
        f"against {names} all games from a seat are identical, since neither the game nor the players are random; the "
        "intervals are meaningless; --stochastic lets policies sample their actions"
    ]


def sum_notes(records: Sequence[SeatRecord]) -> list[str]:
    """Return a note if wins are less informative, because the game is not constant-sum."""
    if all(record.shared for record in records):
        return [
            "all seats received the same reward in every game, so there is no winner: compare the mean rewards of the "
            "policy in all seats and of random play in all seats"
        ]
    if all(record.constant_sum for record in records):
        return []
    return [
        "the sum of the seats' rewards varies from game to game, so wins are less informative than "
        "mean rewards; the last table has the policy in all seats, and random play in all seats"
    ]


def _team_row(team: TeamRecord, few: int) -> list[str]:
    least, most = team.reward.interval
    rewards = [f"{reward:+.3f}" for reward in team.reward_by_seat[:few]]
    cells = [f"{team.reward.value:+.3f}", f"{least:+.3f} to {most:+.3f}", *rewards]
    return [team.player, str(team.games), *cells, f"{team.length:.1f}"]


def _seats(record: SeatRecord) -> zip[tuple[tuple[int, int, int], float]]:
    return zip(record.by_seat, record.reward_by_seat, strict=True)


def reward_and_moves(record: SeatRecord) -> list[str]:
    """Return the cells of `COLUMNS`."""
    least, most = record.reward.interval
    return [f"{record.reward.value:+.3f}", f"{least:+.3f} to {most:+.3f}", f"{record.length:.1f}"]


def options_text(kwargs: Mapping[str, Any]) -> str:
    """Return the game's own options in brackets, empty without any."""
    return f" ({', '.join(f'{key}={value}' for key, value in kwargs.items())})" if kwargs else ""
