"""Adapters of the games that PPO trains on, one for each kind."""
