"""Names of the package for type checkers; at run time `__init__.py` finds them."""

from sparring.agents.baselines.sb3_env import make_sb3_env as sb3_env
from sparring.agents.callbacks import Callback as Callback
from sparring.agents.callbacks import RunProgress as RunProgress
from sparring.agents.trainers import train_run as train
from sparring.configs.core.errors import InputError as InputError
from sparring.configs.opponents import register_opponent as register_opponent
from sparring.eval.analysis.sweeps.launch import run_sweep as sweep
from sparring.eval.api import evaluate as evaluate
from sparring.eval.api import export as export
from sparring.eval.api import load as load
from sparring.eval.api import payoff as payoff
from sparring.eval.api import play as play
from sparring.eval.api import record as record
from sparring.eval.api import seeds as seeds
from sparring.eval.check import check_game as check
from sparring.eval.curves import read_curves as curves
from sparring.eval.diplomacy_replay import replay_game as diplomacy_replay
from sparring.eval.exploit import exploit_policy as exploit
from sparring.eval.exploitability.assertions import assert_not_exploitable as assert_not_exploitable
from sparring.eval.runs import ask_runs as runs

__all__ = [
    "Callback",
    "InputError",
    "RunProgress",
    "assert_not_exploitable",
    "check",
    "curves",
    "diplomacy_replay",
    "evaluate",
    "exploit",
    "export",
    "load",
    "payoff",
    "play",
    "record",
    "register_opponent",
    "runs",
    "sb3_env",
    "seeds",
    "sweep",
    "train",
]
