"""Positions as prompts for language models."""
