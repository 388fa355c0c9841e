"""Sparring: adversarial games and the trainers that go with them.

Importing it only registers the games with Gymnasium; the simulator (Warp, torch) loads with the first environment or
call. The names below are the whole Python API, documented in docs/api.md. In a checkout the packages are the folders at
the top of the repository. Links beside this file lead there, and `__path__` does if Git made plain files of them.
"""

import sys
from importlib import import_module
from pathlib import Path
from runpy import run_path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
if (_ROOT / "configs" / "installed.py").is_file():  # a checkout, not a wheel, for which pip checks Python
    if sys.version_info < (3, 11):  # noqa: UP036 - a checkout on the path of an older Python
        run_path(str(_ROOT / "configs" / "installed.py"))["check_installed"]("import sparring")
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
