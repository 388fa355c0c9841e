"""Reward functions that tests name as a module."""


def events(view):
    """Return the reward of hp and results with weights 3, 1, 5, 2 and -1."""
    return 3.0 * view.dealt - view.taken + 5.0 * view.won - 2.0 * view.lost - 1.0 * view.drawn


nothing = 3.5
