"""Stable-Baselines3 as a baseline for our own trainer."""
