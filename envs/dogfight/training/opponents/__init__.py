"""Opponents in the dogfight."""
