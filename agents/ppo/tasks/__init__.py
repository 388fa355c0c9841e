"""One adapter for each kind of game that PPO trains on."""
