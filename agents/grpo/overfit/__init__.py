"""Health check of GRPO on one batch, for any text game."""
