"""Schedules of phases and stages, opponent mixes, randomization of physics, the self-play pool, league, ratings."""
