"""Stable-Baselines3 beside our own trainer."""
