"""Histories of games, and saved games."""
