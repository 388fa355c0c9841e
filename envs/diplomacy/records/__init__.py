"""Histories of games, saved games and game logs."""
