"""Evaluation of chess: games of language models and bots, their tables, PGN and replay."""
