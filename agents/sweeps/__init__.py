"""Launching sweeps and reading what their runs measured."""
