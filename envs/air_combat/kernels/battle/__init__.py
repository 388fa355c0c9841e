"""Kernels of matches with options (`rules.CombatOptions`): missiles, flares, teams, radar, and drawn physics."""
