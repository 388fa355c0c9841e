"""Opponents by name: bots, policies in files, and Python objects, resolved to players of a batch."""
