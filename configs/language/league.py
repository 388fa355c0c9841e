"""Options of a league: who plays the learner, how often, and the ratings at the start."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparring.configs.core.allowed import Form, option

MATCHMAKINGS = ("category", "win_rate", "rating")
SHARED = ("self_play", "peer", "exploitable", "baseline")
"""Categories of players in a league that have a share."""
STARTING_RATINGS = ("measured", "original")
CHECKPOINT_SCHEDULES = ("even", "thinning")
LEAGUE_BOTS = ("default", "original")
FIXED_PLAYER = Form(r"[^\s\x00-\x1f]{1,200}", "a policy or a search that plays the game, without spaces")
RUN = Form(r"[^\x00\n]*", "text of one line")
COUNT = "[0, 10000000]"
POSITIVE = "[1, 10000000]"
PROBABILITY = "[0, 1]"


@dataclass
class LeagueConfig:
    """Opponents of the learner, and ratings."""

    matchmaking: str = option("category", MATCHMAKINGS, needs=["grpo.play=league"])
    """category: by the shares below; win_rate: self_play's share, the others by the win rate against them; rating: by
    nearness in Elo. `agents/language/grpo/matchmaking.py` has the rules."""
    self_play: float = option(0.30, PROBABILITY)
    """Share of games against itself."""
    peer: float = option(0.30, PROBABILITY)
    """Share of games against checkpoints of a similar rating."""
    exploitable: float = option(0.35, PROBABILITY)
    """Share of games against weaker checkpoints."""
    baseline: float = option(0.05, PROBABILITY)
    """Share of games against bots. The four sum to 1; an empty category has a fallback (`matchmaking.py`)."""
    final_self_play: float = option(-1.0, "[-1, 1]")
    """Share of self-play at the last step, reached linearly; below 0 it stays constant."""
    final_peer: float = option(-1.0, "[-1, 1]")
    """Share of games against peers at the last step, reached linearly; below 0 it stays constant."""
    final_exploitable: float = option(-1.0, "[-1, 1]")
    """Share of games against weaker checkpoints at the last step, reached linearly; below 0 it stays constant."""
    final_baseline: float = option(-1.0, "[-1, 1]")
    """Share of games against bots at the last step, reached linearly; below 0 it stays constant."""
    final_at: int = option(0, COUNT)
    """Step from which the final shares hold, without a transition; 0 is the linear one."""
    rating_width: float = option(150.0, "(0, 10000]", needs=["league.matchmaking=rating"])
    """Standard deviation of matchmaking=rating, in Elo; 10000 draws every player equally often."""
    cold_start_steps: int = option(10, COUNT)
    """Largest number of steps against three random and three chaos; the first checkpoint ends them, too."""
    dumbbot_game_probability: float = option(0.1, PROBABILITY)
    """Probability of a game against six DumbBots."""
    checkpoint_every: int = option(10, POSITIVE, needs=["league.checkpoint_schedule=even"])
    """Steps between policies added to the league."""
    checkpoint_schedule: str = option("even", CHECKPOINT_SCHEDULES)
    """thinning: after the first step, then every 5 steps below 50, every 10 below 200, every 20 after."""
    initial_elo: float = option(1000.0, "[-10000, 10000]")
    """Elo rating of the learner at the start."""
    bots: str = option("default", LEAGUE_BOTS)
    """original: chaos, coordinated, territorial and dumbbot play as in the original system (`chaos_seed` ...)."""
    players: list[str] = field(default_factory=list, metadata={"allowed": FIXED_PLAYER, "needs": ("grpo.play=league",)})
    """Further players that never change, such as released/diplomacy_student or search:positions=500. `league.baseline`
    is then their share."""
    starting_ratings: str = option("measured", STARTING_RATINGS)
    """Ratings of the bots at the start: measured, or those of the original system."""
    inherit: str = option("", RUN)
    """Run with whose league to start."""
