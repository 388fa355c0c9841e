"""Training in Diplomacy: the task of PPO, the order network, opponents, and students of a search."""
