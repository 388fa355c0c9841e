"""Sparring: adversarial games and the trainers that go with them.

Importing it only registers the games with Gymnasium; the simulator (Warp, torch) loads with the first environment or
call. The names below are the whole Python API, documented in docs/api.md; `train.py` and the commands of `eval/` run
the same code. The packages are `sparring.envs`, `sparring.agents`, `sparring.curriculum`, `sparring.configs` and
`sparring.eval`. In a checkout they are the folders at the top of the repository. Links beside this file lead there;
`__path__` does where Git or an archive made plain files of them.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
if (_ROOT / "configs" / "installed.py").is_file():  # a checkout, not a wheel
    __path__.append(str(_ROOT))

import sparring.envs  # noqa: E402, F401 - registers the games
from sparring.configs.core.errors import MovedModules  # noqa: E402
from sparring.configs.core.parts import part, part_names  # noqa: E402

sys.meta_path.insert(0, MovedModules())

_PLACES = {
    "Callback": "sparring.agents.callbacks:Callback",
    "InputError": "sparring.configs.core.errors:InputError",
    "RunProgress": "sparring.agents.callbacks:RunProgress",
    "evaluate": "sparring.eval.api:evaluate",
    "export": "sparring.eval.api:export",
    "load": "sparring.eval.api:load",
    "payoff": "sparring.eval.api:payoff",
    "play": "sparring.eval.api:play",
    "record": "sparring.eval.api:record",
    "register_opponent": "sparring.configs.opponents:register_opponent",
    "sb3_env": "sparring.agents.baselines.sb3_env:make_sb3_env",
}
"""Modules of the names, which are imported on first use."""
__all__ = sorted([*_PLACES, "train", *part_names("functions")])


def __getattr__(name: str) -> Any:
    if name == "train":  # the module of the command line has this name too, and can be called
        return import_module("sparring.train")
    if name in part_names("functions"):
        return part("functions", name)
    if name not in _PLACES:
        raise AttributeError(f"module 'sparring' has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
