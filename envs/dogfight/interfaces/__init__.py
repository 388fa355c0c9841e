"""The dogfight as a Gymnasium environment, a vector environment and a PettingZoo environment."""
