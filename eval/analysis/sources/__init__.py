"""Readers of recorded runs: run folders, W&B offline files, TensorBoard event files, the W&B cloud."""
