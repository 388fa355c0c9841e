"""Training in the dogfight: the PPO task, the learner's matches, custom rewards, and opponents."""
