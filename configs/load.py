"""Validated configuration from a command line: the run file, then the overrides, then the schema's defaults.

Hydra's grammar reads overrides, OmegaConf applies them, the dataclasses validate. An override sets any key: only
`from_plain` checks keys, typed with or without `+` or read from a file, and rejects those not in the schema. Nothing
here creates folders, changes the working directory, configures logging or creates objects.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sparring.configs.core.allowed import complaint
from sparring.configs.core.errors import ConfigError, choose, listed, require_package, suggestion
from sparring.configs.core.files import ROOT, IrregularFileError, read_regular_text, user_path
from sparring.configs.foreign_names import in_our_words
from sparring.configs.games import OWN, is_retired, run_message
from sparring.configs.kinds import alias_id, declared, first_runs, run_kinds
from sparring.configs.opponents import code_to_type
from sparring.configs.overrides import as_override, override_texts, parse_override
from sparring.configs.resume import missing_opponents, resume_call
from sparring.configs.scale import shrink
from sparring.configs.schema import LABEL, RunConfig
from sparring.configs.serialization import from_plain, from_stored, read_options, to_plain, unknown_key
from sparring.configs.validate import validate

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

CONFIG_DIR = Path(__file__).resolve().parent
ROOTS = tuple(dict.fromkeys(key.split(".")[0] for kind in run_kinds() for key in declared(kind)))
RUN_HELP = "`python train.py --help runs` describes them; env=gymnasium env.id=ID trains on a Gymnasium environment"
Run = TypeVar("Run", bound=RunConfig)
SUFFIXES = (".yaml", ".yml")
PURPOSE = re.compile(r"^# Purpose: (.+)$", re.MULTILINE)


class UnregisteredOpponentError(ConfigError):
    """A run whose opponent is a Python object that this process has not registered."""


def load(overrides: Sequence[str], *, typed: Sequence[str] | None = None) -> RunConfig:
    """Compose and validate the configuration of a command line.

    `overrides` are `+run=NAME`, once, and any number of `key=value`, such as `env.num_envs=64` or
    `phases.0.updates=20`. `typed` are the overrides that the user typed, by default all. Code that only the others name
    is not run. Raises `InputError` with one line: the error and the fix.
    """
    parsed = [_parse(text) for text in _runs_of_paths(_kind_of_env(overrides))]
    trusted = parsed if typed is None else [_parse(text) for text in typed]
    settings = [override for override in parsed if override.key_or_group != "run"]
    stored = _stored(parsed)
    if stored is None:
        path = _run_path(parsed)
        with _naming(path):
            config = _fresh(path, settings)
            _check_typed(config, trusted)
            _validate(config, started=False)
        return config
    config = from_plain(_compose(settings, to_plain(stored)))
    # A copied folder must not refer back to the original, so both come from its location.
    config.name, config.checkpoint_dir = config.resume, _checkpoint_dir(parsed)
    _check_scale_stays(stored, config)
    _check_typed(config, trusted)
    _validate(config, started=True)
    return config


def load_named(run: str | None, overrides: Sequence[str] | Mapping[str, Any] = ()) -> RunConfig:
    """Load the run file `run` as `load` does, with `overrides` as texts (`seed=3`) or as values by key.

    `run` is None if an override names the run: `resume` or `env`.
    """
    if isinstance(overrides, str):
        raise ConfigError(f"overrides={overrides!r}: is one string; pass a list, as in [{overrides!r}], or a dict")
    if isinstance(overrides, Mapping):
        overrides = override_texts(overrides)
    return load([*([f"+run={run}"] if run is not None else []), *in_our_words(overrides)])


def load_kind(kind: type[Run], overrides: Sequence[str]) -> Run:
    """Load a configuration as `load` does; raises `ConfigError` if it is of another kind of run."""
    config = load(overrides)
    if not isinstance(config, kind):
        raise ConfigError(f"trainer={config.trainer} env.id={config.env.id}: this takes only a {kind.__name__}")
    return config


def _fresh(path: Path, settings: Sequence[Override]) -> RunConfig:
    """Load a run file at its scale, then the unscaled `settings`; only for new runs."""
    file = _read_run(path)

    def composed(settings: Sequence[Override], base: dict[str, Any] = file) -> RunConfig:
        return from_plain({**_compose(settings, base), "run": path.stem})

    config = composed(settings)
    if config.scale == RunConfig.scale:
        return config
    # the final trainer and game decide the options
    kind = [override for override in settings if override.key_or_group in ("trainer", "env.id", "scale")]
    return composed(settings, to_plain(shrink(composed(kind), full=config)))


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Prefix an error with the path of the user's run file if the file alone raises the same error."""
    try:
        yield
    except ConfigError as error:
        named = path.parent == CONFIG_DIR / "run" or str(error).startswith(f"run={path}: ")
        if named or _fault(path) != str(error):
            raise
        raise ConfigError(f"run={path}: {error}") from error


def _fault(path: Path) -> str:
    try:
        _validate(_fresh(path, []), started=False)
    except ConfigError as error:
        return str(error)
    return ""


def _validate(config: RunConfig, *, started: bool) -> None:
    try:
        validate(config, started=started)
    except ConfigError as error:
        if started or config.scale == RunConfig.scale:
            raise
        hint = "shrinks only the run file; options on the command line are not scaled"
        raise ConfigError(f"{error}; scale={config.scale:g} {hint}") from error


def _check_scale_stays(stored: RunConfig, config: RunConfig) -> None:
    if config.scale != stored.scale:
        raise ConfigError(
            f"scale={config.scale:g}: the run was started at scale={stored.scale:g}, already applied to its numbers; "
            f"remove it to continue, or start another run with +run=NAME scale={config.scale:g}"
        )


def _check_opponents_are_known(stored: RunConfig, path: Path, folder: str) -> None:
    """Reject a resumed run whose opponents only another script registers. `path` is its configuration."""
    if missing := missing_opponents(stored):
        name = path.parent.name
        call = resume_call(
            [f"resume={name}", *([f"checkpoint_dir={folder}"] if folder != RunConfig.checkpoint_dir else [])]
        )
        if missing[0] == getattr(stored, "reward", ""):
            raise UnregisteredOpponentError(
                f"resume={name}: its reward {missing[0]} is a function of a script; continue it there, with "
                f"{call.removesuffix(')')}, reward={missing[0]})"
            )
        raise UnregisteredOpponentError(
            f"resume={name}: its opponent {missing[0]} is neither a run nor registered here; call {call} in the script "
            f"that calls register_opponent({missing[0]!r}); if none does, restore {path} (every policy of the run "
            "holds a copy)"
        )


def _check_typed(config: RunConfig, typed: Sequence[Override]) -> None:
    """Reject environments, opponents, rewards and engines that run code and are named only in a file."""
    source = f"resume={config.resume}" if config.resume else f"run={config.run}"
    keys = {override.key_or_group for override in typed}
    module = config.env.module
    if module and "env.id" not in keys:
        raise ConfigError(
            f"{source}: its environment {config.env.id} runs the code of the module {module}; if "
            f"you trust it, add env.id={config.env.id}"
        )
    if (program := config.env.program) and "env.engine.path" not in keys:
        raise ConfigError(
            f"{source}: its engine is the program {program}; if you trust it, add env.engine.path={program}"
        )
    for key, text in config.env.files.items():
        if not {key, "env.kwargs"} & keys:
            raise ConfigError(
                f"{source}: its game may read or write the file in {key}={text}; if you trust it, add "
                f"{key}={as_override(text)}"
            )
    for name, option in code_to_type(config, [override.value() for override in typed]).items():
        noun = {"reward": "reward", "env.outcome": "outcome"}.get(option.partition("=")[0], "opponent")
        raise ConfigError(
            f"{source}: its {noun} {name} runs the code of the module {name.partition(':')[0]}; if you trust it, add "
            f"{option}"
        )


def _kind_of_env(overrides: Sequence[str]) -> list[str]:
    """Replace `env=NAME` by a run of this game; for a package, the run trains on the environment in `env.id`.

    Raises `ConfigError` for another name, or if a run is named too, since its file sets the game.
    """
    envs = [text for text in overrides if re.fullmatch(r"\+*env=[^{]*", text)]
    rest = [text for text in overrides if text not in envs]
    if not envs:
        return rest
    run = next((text for text in rest if text.lstrip("+").startswith(("run=", "resume="))), "")
    if run:
        raise ConfigError(f"{envs[-1]}: {run.lstrip('+')} already sets the game; remove one of the two")
    first = first_runs()
    chosen = choose("env", envs[-1].partition("=")[2], first)
    name, env_id = first[chosen], alias_id(chosen)
    if env_id and (other := next((text for text in rest if text.lstrip("+").startswith("env.id=")), "")):
        raise ConfigError(f"env={chosen}: is the game {env_id}; remove {other}")
    if name == "gymnasium":  # one of the project's ids would select the game with its opponents
        pattern = re.compile(r"(\+*env\.id=)(sparring/.*)")
        matches = [(text, pattern.fullmatch(text)) for text in rest]
        rest = [f"{m[1]}{OWN}:{m[2]}" if m and not is_retired(m[2]) else text for text, m in matches]
    return [f"+run={name}", *([f"env.id={env_id}"] if env_id else []), *rest]


def _runs_of_paths(overrides: Sequence[str]) -> list[str]:
    """Replace `resume=checkpoints/NAME/`, as a shell completes it, by `resume=NAME`.

    Raises `ConfigError` for a path outside the folder of all runs.
    """
    folders = [text.partition("=")[2] for text in overrides if text.lstrip("+").startswith("checkpoint_dir=")]
    root = os.path.abspath(CONFIG_DIR.parent / (folders[-1] if folders else RunConfig.checkpoint_dir))

    def shortened(text: str) -> str:
        key, _, path = text.partition("=")
        folder, slash, name = path.rstrip("/").rpartition("/")
        if key.lstrip("+") != "resume" or "/" not in path or not name:
            return text
        if slash and root not in (os.path.abspath(directory) for directory in (folder or "/", ROOT / folder)):
            raise ConfigError(f"{text}: is not a run in {root}; give resume={name} checkpoint_dir={folder or '/'}")
        return f"{key}={name}"

    return [shortened(text) for text in overrides]


def runs() -> dict[str, str]:
    """Return the available runs by name, each with its file's purpose."""
    return purposes(CONFIG_DIR / "run")


def purposes(folder: Path) -> dict[str, str]:
    """Return the YAML files of a folder by name, each with its purpose, from the comment at its top."""
    matches = {path.stem: PURPOSE.search(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.yaml"))}
    return {name: match[1].strip() if match else "" for name, match in matches.items()}


def _parse(text: str) -> Override:
    override = parse_override(text)
    root = override.key_or_group.split(".")[0]
    if root not in ROOTS:
        raise unknown_key(override.key_or_group, ROOTS)
    if override.is_delete() or override.package is not None:
        raise ConfigError(f"{text!r}: options can be set, not removed or moved; write key=value")
    if override.is_sweep_override():
        raise ConfigError(f"{text!r}: one value each; --multirun does one run per value; a list is [a,b]")
    return override


def _stored(parsed: Sequence[Override]) -> RunConfig | None:
    """Return the configuration of the run in `resume=`, None without that override."""
    texts = {override.key_or_group: str(override.value()) for override in parsed}
    if not texts.get("resume"):
        return None
    for key in ("run", "name"):
        if key in texts:
            raise ConfigError(f"resume={texts['resume']} and {key}={texts[key]}: a resumed run keeps its own; set one")
    root = ROOT / _checkpoint_dir(parsed)
    names = sorted(path.name for path in root.glob("*/") if os.path.lexists(path / "config.yaml"))
    if not names:
        raise ConfigError(f"resume={texts['resume']}: {root} does not contain a run yet; start one with +run=NAME")
    path = root / choose("run to resume", texts["resume"], names) / "config.yaml"
    try:
        stored = from_stored(read_options(read_regular_text(path)))
        _check_opponents_are_known(stored, path, _checkpoint_dir(parsed))
        if not is_retired(stored.env.id):
            validate(stored, started=True)
    except (IrregularFileError, UnregisteredOpponentError):
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: is not a configuration of this version: {error}") from error
    if is_retired(stored.env.id):
        raise ConfigError(run_message(path.parent, stored.env.id))
    return stored


def _checkpoint_dir(parsed: Sequence[Override]) -> str:
    values = [str(override.value()) for override in parsed if override.key_or_group == "checkpoint_dir"]
    if values:
        user_path("checkpoint_dir", values[-1])
    return values[-1] if values else RunConfig.checkpoint_dir


def _run_path(parsed: Sequence[Override]) -> Path:
    """Return the named run file: one of `runs()`, or the path of another."""
    names = [str(override.value()) for override in parsed if override.key_or_group == "run"]
    if len(names) != 1:
        problem = "no run is named" if not names else f"{len(names)} runs are named ({', '.join(names)})"
        raise ConfigError(f"{problem}: give one +run=NAME, where NAME is one of {listed(list(runs()))}; {RUN_HELP}")
    name = names[0]
    if not is_path(name):
        return CONFIG_DIR / "run" / f"{choose('run', name, runs())}.yaml"
    path = user_path("run", name)
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"run={name}: your own run file must end in .yaml")
    if wrong := complaint(path.stem, LABEL):
        raise ConfigError(f"run={name}: the file's name, {path.stem}, becomes the run's name: {wrong}; rename it")
    return path


def is_path(name: str) -> bool:
    """Return whether `+run=NAME` is the path of a file."""
    return "/" in name or name.endswith(SUFFIXES)


def _read_run(path: Path) -> dict[str, Any]:
    """Return the options in a run file. Raises `ConfigError` if it is not one."""
    try:
        content = read_options(read_regular_text(path, follow=True))
    except FileNotFoundError as error:
        candidates = [str(other) for suffix in SUFFIXES for other in sorted(path.parent.glob(f"*{suffix}"))]
        near = suggestion(str(path), candidates)
        raise ConfigError(f"run={path}: file not found{near}; names of the package's runs have no .yaml") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"run={path}: is not UTF-8 text") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"run={path}: {getattr(error, 'strerror', None) or error}") from error
    if content is not None and not isinstance(content, dict):
        raise ConfigError(f"run={path}: contains no options; write them as in env: {{num_envs: 64}}")
    options = content or {}
    for key in ("run", "resume"):
        if key in options:
            raise ConfigError(f"run={path}: {key}: is not an option of a run file; set {key}= on the command line")
    return _merged(_defaults(path, options.pop("defaults")), options) if "defaults" in options else options


def _defaults(path: Path, names: Any) -> dict[str, Any]:
    """Return the options of the base run of a run file, as in `defaults: [pettingzoo]`."""
    names_of_runs = [name for name in runs() if name != path.stem]
    if not (isinstance(names, list) and len(names) == 1 and names[0] in names_of_runs):
        near = suggestion(str(names[0]), names_of_runs) if isinstance(names, list) and names else ""
        raise ConfigError(f"run={path}: defaults={names}: must be a list of one run, such as [pettingzoo]{near}")
    return _read_run(CONFIG_DIR / "run" / f"{names[0]}.yaml")


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` merged with `changes`, section by section; lists are replaced."""
    changed = {
        key: _merged(base[key], value) if isinstance(value, dict) and isinstance(base.get(key), dict) else value
        for key, value in changes.items()
    }
    return {**base, **changed}


def _compose(settings: Sequence[Override], base: dict[str, Any]) -> dict[str, Any]:
    """Return `base` with `settings` applied, each as Hydra applies `++key=value`."""
    require_package("hydra", "train")
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    merging = ""
    try:
        config = OmegaConf.create(base)
        for override in settings:
            merging = f"Error merging override {_text(override)}: "
            OmegaConf.update(config, override.key_or_group, override.value(), merge=True, force_add=True)
        # Unresolved: ${...} could insert environment variables into a configuration.
        composed = OmegaConf.to_container(config, resolve=False)
    except (OmegaConfBaseException, TypeError, ValueError, RecursionError) as error:
        if settings:
            _check_items(settings, _compose([], base))
        where = merging if isinstance(error, OmegaConfBaseException) else ""
        raise ConfigError(f"{where}{str(error).partition(chr(10))[0]}") from error
    assert isinstance(composed, dict)
    return {str(key): value for key, value in composed.items()}


def _text(setting: Override) -> str:
    return str(setting.input_line).lstrip("+")


def _check_items(settings: Sequence[Override], plain: dict[str, Any]) -> None:
    """Reject the first of `settings` that names a missing list item."""
    for text in map(_text, settings):
        node: Any = plain
        parts = text.partition("=")[0].split(".")
        for depth, part in enumerate(parts):
            if isinstance(node, list) and not (part.isdigit() and int(part) < len(node)):
                key = ".".join(parts[:depth])
                has = f"choose from {key}.0 to {key}.{len(node) - 1}" if node else "there is none"
                raise ConfigError(f"{text}: no item {part} in {key}; {has}, or set the whole list with {key}=[...]")
            node = node[int(part)] if isinstance(node, list) else node.get(part) if isinstance(node, dict) else None
