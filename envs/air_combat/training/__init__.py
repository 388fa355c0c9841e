"""Training in air combat: the task of PPO, and opponents from every source."""
