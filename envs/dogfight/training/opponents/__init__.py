"""Opponents in the dogfight, from every source."""
