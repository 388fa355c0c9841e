"""Third-party players as in a user's module."""

import itertools
import time


class Fold:
    """Always take the first legal action, with the interface of an OpenSpiel policy."""

    def __init__(self, game):
        self.game = game

    def action_probabilities(self, state, player_id=None):
        return {state.legal_actions(player_id)[0]: 1.0}


class Stepping:
    def step(self, state):
        return state.legal_actions()[-1]


class Raising:
    def action_probabilities(self, state, player):
        raise RuntimeError("no\nmodel")


class Short(Fold):
    """Sums to 0.7."""

    def action_probabilities(self, state, player):
        return {state.legal_actions()[0]: 0.7}


class Negative(Fold):
    def action_probabilities(self, state, player):
        return {0: 1.5, 1: -0.5}


class NotNumbers(Fold):
    def action_probabilities(self, state, player):
        return {0: float("nan"), 1: 1.0}


class Illegal(Fold):
    def action_probabilities(self, state, player):
        return {7: 1.0}


class Listing(Fold):
    def action_probabilities(self, state, player):
        return [0.5, 0.5]


class Exiting(Fold):
    def action_probabilities(self, state, player):
        raise SystemExit(0)


class ExitingWhenMade:
    def __init__(self):
        raise SystemExit(0)


class Fraction(Fold):
    def action_probabilities(self, state, player):
        return {0.9: 1.0}


class TextAction(Fold):
    def action_probabilities(self, state, player):
        return {"1": 1.0}


class TextProbability(Fold):
    def action_probabilities(self, state, player):
        return {0: "0.5", 1: "0.5"}


class SteppingByFlags:
    def step(self, state):
        return True


class Moving(Fold):
    """A player that plays on in the state it receives."""

    def action_probabilities(self, state, player):
        (action, *_) = state.legal_actions()
        state.apply_action(action)
        return {action: 1.0}


class Changing(Fold):
    def __init__(self):
        self.calls = itertools.count()

    def action_probabilities(self, state, player):
        return {next(self.calls) // 7 % 2: 1.0}


class Learning(Changing):
    """A player that changes after its decisions were requested twice before the attack."""

    def action_probabilities(self, state, player):
        return {int(next(self.calls) >= 24): 1.0}


class Peeking(Fold):
    """Bet if the other player's card is lower, which it must not see."""

    def action_probabilities(self, state, player):
        cards = state.history()
        return {int(cards[player] > cards[1 - player]): 1.0}


class Slow(Fold):
    def action_probabilities(self, state, player):
        time.sleep(0.02)
        return super().action_probabilities(state, player)


class Empty:
    pass


NUMBER = 3


def bots_in_c(game, seat):
    import pyspiel

    return pyspiel.make_uniform_random_bot(seat, 1)


def bots_in_python(game, seat):
    import numpy as np
    from open_spiel.python.bots.uniform_random import UniformRandomBot

    return UniformRandomBot(seat, np.random.RandomState(0))


def policy_in_c(game):
    import pyspiel

    return pyspiel.UniformRandomPolicy(game)


def stubborn(game, seat):
    import pyspiel

    class Stubborn(pyspiel.Bot):
        """Bet as first player and pass as second."""

        def __init__(self):
            pyspiel.Bot.__init__(self)

        def step(self, state):
            assert state.current_player() == seat
            return 1 - seat

    return Stubborn()
