"""Errors for bad user input, one line each: the input, what is allowed, the nearest match.

Every user error raises an `InputError`. Command lines print its line and exit with code 2; any other exception is a
fault of the program and keeps its traceback.

Texts contain the names of scripts. `as_called` translates user-facing texts: errors, lines of a run, help, and printed
reports. `moved` and `MovedModules` keep the import paths of the previous release.
"""

from __future__ import annotations

import difflib
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

IN_REPOSITORY = (Path(__file__).resolve().parents[2] / "pyproject.toml").is_file()
SCRIPT = re.compile(r"(?<![\w./-])(?:python )?(?:train|eval/(\w+))\.py\b")
"""A command as it is written in texts."""
LONGEST = 2000
NOTHING = ("none", "null", "no", "false", "disabled", "never", "")
"""Other programs' words for "off"; by spelling, "none" is nearer to "online"."""
MOST_NAMES = 12
"""Most names listed in full; if there are more, the nearest comes first and the rest are counted."""


class InputError(ValueError):
    """Input that cannot be used; the message is one line naming it, what is allowed and what to do."""

    def __str__(self) -> str:
        return as_called(one_line(super().__str__()))


class UnknownNameError(InputError):
    """A name that is not among the choices."""


class ConfigError(InputError):
    """An option of a run that is unknown, of the wrong type or outside what is allowed."""


class MissingPackageError(InputError):
    """A package that an extra installs is missing."""


def as_called(text: str) -> str:
    """Return `text` with commands as the user calls them: sparring eval for `python eval/run.py` where installed.

    This applies in the console script, and if the package is used without its repository.
    """
    if Path(sys.argv[0]).stem != "sparring" and IN_REPOSITORY:
        return text
    commands = {None: "train", "run": "eval"}
    return SCRIPT.sub(lambda match: f"sparring {commands.get(match[1], match[1]).replace('_', '-')}", text)


def require_package(module: str, extra: str) -> None:
    """Raise `MissingPackageError` if a module that `extra` installs is missing; call this before a late import."""
    require_packages({module: extra})


def require_packages(needs: Mapping[str, str]) -> None:
    """Raise `MissingPackageError` for the missing ones of several modules, each with the extra that installs it."""
    if missing := [module for module in needs if find_spec(module) is None]:
        extras = " ".join(dict.fromkeys(needs[module] for module in missing))
        raise MissingPackageError(
            f"{', '.join(missing)} {'are' if missing[1:] else 'is'} not installed for {sys.executable}; run "
            f"`sparring install {extras}`" + ", or `make install`" * (extras == "train" and IN_REPOSITORY)
        )


def one_line(text: str) -> str:
    """Put `text` on one line, cutting the middle of a long one; terminal control characters are escaped."""
    half = LONGEST // 2
    short = text if len(text) <= LONGEST else f"{text[:half]} ... {text[-half:]}"
    return printable(re.sub(r"\s*[\r\n]\s*", " ", short.strip()))


def printable(text: str) -> str:
    """Escape control characters and those that change the direction of text, such as ESC and U+202E."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def printable_lines(text: str) -> str:
    """Escape as `printable` does, but keep line breaks and tabs; for multi-line terminal output."""
    return "".join(char if char in "\n\t" else printable(char) for char in text)


def nearest(name: str, choices: Iterable[str], *, likeness: float = 0.5) -> str | None:
    """Return the one of `choices` that `name` means or is most similar to, None if none reaches `likeness` (0 to 1)."""
    names = list(choices)
    meant = "off" if name.lower() in NOTHING else None
    return meant if meant in names else next(iter(difflib.get_close_matches(name, names, n=1, cutoff=likeness)), None)


def suggestion(name: object, choices: Iterable[str], *, likeness: float = 0.5) -> str:
    """Return "; did you mean 'x'?" for the nearest of `choices`, or nothing if none reaches `likeness` (0 to 1)."""
    near = nearest(str(name), choices, likeness=likeness)
    return f"; did you mean {near!r}?" if near else ""


def listed(names: Sequence[str]) -> str:
    """Return "a, b", or of more than `MOST_NAMES` names "a, b ... and 30 more"."""
    remainder = f" ... and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{remainder}"


def choices(name: object, accepted: Iterable[str], *, near: str | None = None) -> str:
    """Return "choose from a, b; did you mean 'b'?" for a wrong `name`.

    Of more than `MOST_NAMES` known names, the suggestion comes first and the list is cut: "did you mean 'b'? choose
    from a, b ... and 30 more". `near` is a known suggestion, empty for none.
    """
    names = [name for name in accepted if name != ""]  # an empty text is a default, which is not typed
    near = nearest(str(name), names) if near is None else near
    hint = f"; did you mean {near!r}?" if near else ""
    if len(names) <= MOST_NAMES:
        return f"choose from {listed(names)}{hint}"
    return f"{hint} choose from {listed(names)}".removeprefix("; ").strip()


def reset_option(options: Mapping[str, Any] | None, name: str) -> Any:
    """Return option `name` of an environment's reset, or None; reject misspellings and ignore other keys."""
    for key in map(str, options or {}):
        if (len(key) > 1 and name.startswith(key)) or nearest(key, [name], likeness=0.7):
            choose("reset option", key, [name])
    return (options or {}).get(name)


def choose(kind: str, name: str, among: Iterable[str]) -> str:
    """Return `name` if it is one of `among`, else raise `UnknownNameError` naming it, them and the nearest."""
    names = list(among)
    if name in names:
        return name
    raise UnknownNameError(f"unknown {kind} {name!r}: {choices(name, names)}")


def moved(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module some of whose `names` are in other modules now, "module" or "module:name".

    The old paths work for one release, with a warning that names the new one.
    """

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, new = names[name].partition(":")
        warnings.warn(f"{module}.{name} has moved to {home}.{new or name}", DeprecationWarning, stacklevel=2)
        return getattr(import_module(home), new or name)

    return find


MOVED = {
    "agents.distill": "envs.diplomacy.training.distill",
    "agents.grpo": "agents.language.grpo",
    "agents.llm": "agents.language",
    "agents.opponents.air_combat": "envs.air_combat.training.opponents",
    "agents.opponents.diplomacy": "envs.diplomacy.training.opponents",
    "agents.opponents.dogfight": "envs.dogfight.training.opponents",
    "agents.opponents.language": "agents.language.opponents",
    "agents.opponents.seats": "envs.imported.training.opponents",
    "agents.opponents.python_policy": "agents.opponents.duelists",
    "agents.play.dogfight_matches": "envs.dogfight.training.matches",
    "agents.play.own_reward": "envs.dogfight.training.own_reward",
    "agents.policies.order_network": "envs.diplomacy.training.order_network",
    "agents.ppo.tasks.air_combat": "envs.air_combat.training.task",
    "agents.ppo.tasks.copies": "envs.imported.training.copies",
    "agents.ppo.tasks.diplomacy": "envs.diplomacy.training.task",
    "agents.ppo.tasks.dogfight": "envs.dogfight.training.task",
    "agents.ppo.tasks.gymnasium": "envs.imported.training.gymnasium",
    "agents.ppo.tasks.imported": "envs.imported.training.task",
    "agents.sweeps": "eval.analysis.sweeps",
    "configs.sweeps": "eval.analysis.sweeps",
    "envs.dogfight.mirror": "envs.dogfight.batch",
    "envs.dogfight.training.opponents.onnx_actor": "agents.opponents.onnx_actor",
    "envs.dogfight.training.opponents.onnx_file": "agents.opponents.onnx_file",
    "agents.opponents.onnx_package": "agents.opponents.onnx_file",
    "configs.core.league": "configs.language.league",
    "envs.masks": "envs.imported.masks",
    "eval.air_combat": "envs.air_combat.evaluation",
    "eval.browser.air_combat": "envs.air_combat.browser",
    "eval.browser.chess": "envs.chess.browser",
    "eval.browser.diplomacy": "envs.diplomacy.browser",
    "eval.browser.dogfight": "envs.dogfight.browser",
    "eval.chess": "envs.chess.evaluation",
    "eval.diplomacy": "envs.diplomacy.evaluation",
    "eval.dogfight": "envs.dogfight.evaluation",
    "eval.episodes": "envs.imported.evaluation.episodes",
    "eval.imported": "envs.imported.evaluation",
    "eval.plots.history": "eval.analysis.plots.history",
    "eval.plots.panels": "eval.analysis.plots.panels",
    "eval.stats.trends": "eval.analysis.trends",
}
"""Modules and packages inside `sparring`: the new path of each, and so of all inside it."""


class MovedModules:
    """Finder of modules at their old paths: returns the module of the new path, with a warning.

    It precedes Python's own finder, which would load the files of a moved package again under the old name.
    """

    def find_spec(self, fullname: str, path: Any = None, target: Any = None, /) -> ModuleSpec | None:
        """Return the spec of a moved module, None for any other."""
        package, _, name = fullname.partition(".")
        old = name if package == "sparring" else ""
        while old and old not in MOVED:
            old = old.rpartition(".")[0]
        if not old:
            return None
        new = f"{package}.{MOVED[old]}{name.removeprefix(old)}"
        warnings.warn(f"{fullname} has moved to {new}", DeprecationWarning, stacklevel=2)
        loader: Any = _NewPath(new)
        return ModuleSpec(fullname, loader)


class _NewPath:
    """Loader that returns the module of another path, as it is there."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the only attribute that Python replaced

    def get_code(self, name: str) -> CodeType:
        """Return the code that `python -m` runs."""
        found: Any = find_spec(self._name)
        code: CodeType = found.loader.get_code(self._name)
        return code
