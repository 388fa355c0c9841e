"""Evaluation and replays of Diplomacy."""
