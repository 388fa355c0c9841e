"""Behaviour cloning of bots by a language model."""
