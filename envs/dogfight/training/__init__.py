"""Training in the dogfight: the task of PPO, matches of the learner, own rewards, and opponents from every source."""
