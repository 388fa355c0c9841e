"""Training in air combat: the PPO task and opponents."""
