"""An OpenSpiel game in Python, as in a user's module: Kuhn poker under another name."""

import pyspiel
from open_spiel.python.games.kuhn_poker import KuhnPokerGame

NAME = "kuhn_poker_of_a_user"
FLAGS = ("information_state_string", "information_state_tensor", "observation_string", "observation_tensor")
TYPE = pyspiel.GameType(
    short_name=NAME,
    long_name=NAME,
    dynamics=pyspiel.GameType.Dynamics.SEQUENTIAL,
    chance_mode=pyspiel.GameType.ChanceMode.EXPLICIT_STOCHASTIC,
    information=pyspiel.GameType.Information.IMPERFECT_INFORMATION,
    utility=pyspiel.GameType.Utility.ZERO_SUM,
    reward_model=pyspiel.GameType.RewardModel.TERMINAL,
    max_num_players=2,
    min_num_players=2,
    **{f"provides_{flag}": True for flag in FLAGS},
)
pyspiel.register_game(TYPE, KuhnPokerGame)
