"""Third-party players of PettingZoo games as in a user's module."""

import itertools

import numpy as np


class Highest:
    """Take the last legal action."""

    def act(self, obs, mask):
        return mask.shape[1] - 1 - mask[:, ::-1].argmax(1)


class Choosing:
    """Take the first legal action of the match."""

    def choose(self, match, seat):
        return int(np.flatnonzero(match.mask(seat))[0])


class Changing:
    """Take the last legal action on every seventh call, else the first."""

    def __init__(self):
        self.calls = itertools.count()

    def act(self, obs, mask):
        return Highest().act(obs, mask) if next(self.calls) % 7 == 6 else mask.argmax(1)


class Raising:
    def act(self, obs, mask):
        raise RuntimeError("no model")


class Illegal:
    def act(self, obs, mask):
        return mask.argmin(1)
