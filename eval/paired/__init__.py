"""Matches between pairs of players, in any game: evaluations, ladders, sequential tests and payoff matrices."""
