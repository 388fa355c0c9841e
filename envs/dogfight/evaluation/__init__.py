"""Evaluation and replays of the dogfight."""
