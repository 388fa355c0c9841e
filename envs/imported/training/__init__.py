"""Training in PettingZoo, OpenSpiel and Gymnasium: PPO tasks and opponents."""
