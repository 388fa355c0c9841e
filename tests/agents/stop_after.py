"""A callback that stops a run."""

from sparring.agents.callbacks import Callback


class StopAfter(Callback):
    """Stop after the first update whose metrics have `key`."""

    def __init__(self, key):
        self.key = key

    def on_update(self, run, metrics):
        return self.key in metrics
