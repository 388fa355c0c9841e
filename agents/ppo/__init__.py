"""Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347). It knows spaces, not games.

`network` acts, `rollout` collects, `gae` turns rewards into advantages, `update` learns, `loop` repeats.
"""
