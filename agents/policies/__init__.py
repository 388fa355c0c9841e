"""Policies, their networks and their checkpoints."""
