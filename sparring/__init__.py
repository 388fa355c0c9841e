"""Sparring: adversarial games and the trainers that go with them.

Importing it registers the games with Gymnasium and nothing more; the simulator (Warp, torch) loads with the first
environment or call. The names below are the whole Python API, documented in docs/api.md; `train.py` and the commands
of `eval/` run the same code. The rooms are the packages `sparring.envs`, `sparring.agents`,
`sparring.curriculum`, `sparring.configs` and `sparring.eval`. In a checkout they are the folders at the top of the
repository: links beside this file lead there, and where Git or an archive made plain files of them, `__path__` does.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

_ROOT = Path(__file__).resolve().parents[1]
if (_ROOT / "configs" / "installed.py").is_file():  # a checkout, not a wheel
    __path__.append(str(_ROOT))

import sparring.envs  # noqa: E402, F401 - registers the games

if TYPE_CHECKING:
    from sparring.agents.baselines.sb3_env import make_sb3_env as sb3_env
    from sparring.agents.callbacks import Callback as Callback
    from sparring.agents.callbacks import RunProgress as RunProgress
    from sparring.agents.sweeps.launch import run_sweep as sweep
    from sparring.agents.trainers import train_run as train
    from sparring.configs.core.errors import InputError as InputError
    from sparring.configs.opponents import register_opponent as register_opponent
    from sparring.eval.api import check as check
    from sparring.eval.api import curves as curves
    from sparring.eval.api import diplomacy_replay as diplomacy_replay
    from sparring.eval.api import evaluate as evaluate
    from sparring.eval.api import exploit as exploit
    from sparring.eval.api import export as export
    from sparring.eval.api import load as load
    from sparring.eval.api import payoff as payoff
    from sparring.eval.api import play as play
    from sparring.eval.api import record as record
    from sparring.eval.api import runs as runs
    from sparring.eval.api import seeds as seeds

__all__ = [
    "Callback",
    "InputError",
    "RunProgress",
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

_PLACES = {
    "Callback": "sparring.agents.callbacks:Callback",
    "InputError": "sparring.configs.core.errors:InputError",
    "RunProgress": "sparring.agents.callbacks:RunProgress",
    "check": "sparring.eval.api:check",
    "curves": "sparring.eval.api:curves",
    "diplomacy_replay": "sparring.eval.api:diplomacy_replay",
    "evaluate": "sparring.eval.api:evaluate",
    "exploit": "sparring.eval.api:exploit",
    "export": "sparring.eval.api:export",
    "load": "sparring.eval.api:load",
    "payoff": "sparring.eval.api:payoff",
    "play": "sparring.eval.api:play",
    "record": "sparring.eval.api:record",
    "register_opponent": "sparring.configs.opponents:register_opponent",
    "runs": "sparring.eval.api:runs",
    "sb3_env": "sparring.agents.baselines.sb3_env:make_sb3_env",
    "seeds": "sparring.eval.api:seeds",
    "sweep": "sparring.agents.sweeps.launch:run_sweep",
}
"""Modules of the names, which are imported on first use."""


def __getattr__(name: str) -> Any:
    if name == "train":  # the module of the command line has this name too, and can be called
        return import_module("sparring.train")
    if name not in _PLACES:
        raise AttributeError(f"module 'sparring' has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
