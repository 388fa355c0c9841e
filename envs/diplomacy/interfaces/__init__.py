"""Diplomacy as a PettingZoo environment."""
