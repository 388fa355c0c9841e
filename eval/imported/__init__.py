"""Evaluation of policies of imported games, those of PettingZoo and OpenSpiel."""
