"""Training in games of PettingZoo and OpenSpiel, and in environments of Gymnasium: tasks of PPO, and opponents."""
