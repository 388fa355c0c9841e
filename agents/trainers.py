"""Training from a configuration: choose the trainer by `config.trainer`, open the run's session, and fit.

`train` is what `train.py` and `sparring.train` call. It imports torch and the trainer once the run's folder is claimed,
so a mistyped option is reported before they load.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sparring.agents.callbacks import Callback, check_callbacks
from sparring.agents.opponents.training import find_opponents
from sparring.agents.run.preflight import FolderClaim
from sparring.configs.core.errors import ConfigError, InputError, require_package
from sparring.configs.core.parts import parts
from sparring.configs.core.status import LOADING, say
from sparring.configs.load import load_named
from sparring.configs.opponents import opponent_text
from sparring.configs.schema import PPORunConfig, RunConfig
from sparring.configs.validate import idle_options, validate

if TYPE_CHECKING:
    from torch import Tensor


def train_run(
    run: str | RunConfig | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    *,
    callbacks: Sequence[Callback] = (),
    reward: Callable[[Any], Tensor] | str = "",
) -> Path:
    """Train, as `python train.py +run=RUN KEY=VALUE ...` does; return the path of the final policy.

    `run` is the name of a run file, or a `RunConfig` of your own; None with `overrides={"resume": NAME}`, which
    continues a run, or with `{"env": "gymnasium", "env.id": ID}`. `overrides` are options by key, such as
    `{"seed": 3, "env.num_envs": 64}`, or texts as on the command line, `["seed=3"]`. `callbacks` are called after each
    update, in this order (`sparring.Callback`). `reward` is a function in place of the dogfight's reward, or its
    module:name: `f(view) -> float32 [N]` (docs/tutorials/own_reward.md). A resumed run is given it again.

    Raises `InputError` for bad input, in one line. Raises `SystemExit` as `train` does, and what a callback raises.
    """
    check_callbacks(callbacks)
    if reward != "":
        if not (callable(reward) or isinstance(reward, str)):
            raise InputError(f"reward={reward!r}: is a {type(reward).__name__}, which is not callable; pass a function")
        text = opponent_text(reward)
        if isinstance(run, RunConfig):
            if not hasattr(run, "reward"):
                raise ConfigError(f"reward={text}: only the dogfight accepts a custom reward")
            run = replace(cast(Any, run), reward=text)
        elif isinstance(overrides, Mapping):
            overrides = {**overrides, "reward": text}
        elif not isinstance(overrides, str):
            overrides = [*overrides, f"reward={text}"]
    if not isinstance(run, RunConfig):
        return train(load_named(run, overrides), callbacks=callbacks)
    if overrides:
        raise ConfigError("overrides: require the name of a run; with a RunConfig, change its values")
    validate(run, started=False)
    return train(run, callbacks=callbacks)


def train(config: RunConfig, *, callbacks: Sequence[Callback] = ()) -> Path:
    """Train with `config`, which must have passed `configs.validate`; return the path of the final policy.

    A relative `checkpoint_dir` is resolved in the repository. A run whose folder exists is continued. A run that a
    callback stops is saved and can be resumed, and its policy is returned.

    Raises `InputError` if the machine or the folder does not support the configuration, and a callback's exception once
    the run is saved. Raises `SystemExit` if a signal stops the run or the guard ends it (`agents.run.fit`).
    """
    if isinstance(config, PPORunConfig):
        find_opponents(config)
    if getattr(config, "dry_run", False):
        raise ConfigError("dry_run=true: does not train; print it with `python train.py ... dry_run=true`")
    # Of several processes the first claims the folder later, when all are connected.
    claimed = FolderClaim(config) if os.environ.get("WORLD_SIZE", "1") == "1" else nullcontext()
    with claimed as claim:  # refuses bad input before torch and Warp load
        first = os.environ.get("RANK", "0") == "0"
        for line in idle_options(config):
            say(line, enabled=first)
        say(LOADING, enabled=config.logger.progress and first)
        make, fit = load_trainer(config.trainer)
        from sparring.agents.distributed.processes import joined
        from sparring.agents.run.session import RunSession

        matches = config.env.num_envs if isinstance(config, PPORunConfig) else 0
        group = joined(matches, config.device, config.patience_seconds)
        with group as processes, closing(make(config, processes)) as trainer:
            size = {"total": trainer.updates, "unit": trainer.unit}
            with RunSession(config, **size, processes=processes, claim=claim, callbacks=callbacks) as session:
                final: Path = fit(trainer, session)
                return final


def load_trainer(name: str) -> tuple[Any, Any]:
    """Import the trainer and the loop `name`; raises `InputError` if they cannot be used here."""
    # Busy-waiting threads make training ten times slower on a machine with other load.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    entry = parts("trainers")[name]
    if not entry.processes and os.environ.get("WORLD_SIZE", "1") != "1":
        other = ", or use trainer=ppo" if name == "sb3" else ""
        raise InputError(f"trainer={name}: trains in one process; start it without torchrun{other}")
    if entry.extra == "llm":
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is ever downloaded
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        trainer, fit = (
            getattr(import_module(m), n) for m, n in (text.split(":") for text in (entry.trainer, entry.fit))
        )
    except ModuleNotFoundError as error:
        if entry.extra and error.name:
            require_package(error.name.partition(".")[0], entry.extra)
        raise
    return trainer, fit
