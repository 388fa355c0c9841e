"""Training from a configuration: choose the trainer by `config.trainer`, open the run's session, and fit.

Torch and the trainer are imported only in `train`, so that a mistyped option is reported before they load.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

from sparring.agents.run.preflight import FolderClaim
from sparring.configs.core.errors import InputError
from sparring.configs.schema import RunConfig

FIT = "sparring.agents.run.fit:fit"
PLACES = {
    "ppo": ("sparring.agents.ppo.trainer:PPOTrainer", FIT),
    "grpo": ("sparring.agents.grpo.trainer:GRPOTrainer", "sparring.agents.grpo.overfit.fit:fit"),
    "clone": ("sparring.agents.llm.cloning.trainer:CloneTrainer", FIT),
    "sb3": ("sparring.agents.ppo.trainer:PPOTrainer", "sparring.agents.baselines.sb3:fit"),
}
"""Trainer class and training loop of every `trainer=`."""
EXTRAS = {"grpo": "llm", "clone": "llm", "sb3": "sb3"}
"""Optional dependencies of all trainers but ppo; only ppo supports several processes."""


def train(
    config: RunConfig,
    claim: FolderClaim | None = None,
    *,
    observe: Callable[[Mapping[str, float]], bool] | None = None,
) -> Path:
    """Train with `config`, which must have passed `configs.validate`; return the path of the final policy.

    A relative `checkpoint_dir` is resolved in the repository. A run whose folder exists is continued; `claim` is that
    folder if it is locked already. `observe` is called with the metrics of each update; where it returns True the run
    stops as on Ctrl-C. Raises `InputError` if the machine or the folder does not support the
    configuration, and `SystemExit` if the run is stopped or the guard ends it (`agents.run.fit`).
    """
    make, fit = load_trainer(config.trainer)
    from sparring.agents.distributed.processes import joined
    from sparring.agents.run.session import RunSession

    with joined(config) as processes, closing(make(config, processes)) as trainer:
        size = {"total": trainer.updates, "unit": trainer.unit}
        with RunSession(config, **size, processes=processes, claim=claim) as session:
            session.observe = observe
            final: Path = fit(trainer, session)
            return final


def load_trainer(name: str) -> tuple[Any, Any]:
    """Import the trainer and the loop `name`; raises `InputError` if they cannot be used here."""
    # Busy-waiting threads make training ten times slower on a machine with other load.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if name in EXTRAS and os.environ.get("WORLD_SIZE", "1") != "1":
        other = ", or use trainer=ppo" if name == "sb3" else ""
        raise InputError(f"trainer={name}: learns in one process; start it without torchrun{other}")
    if EXTRAS.get(name) == "llm":
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is ever downloaded
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        trainer, fit = (import_module(place.partition(":")[0]) for place in PLACES[name])
    except ModuleNotFoundError as error:
        if name not in EXTRAS:
            raise
        raise InputError(f'trainer={name} needs {error.name}: pip install -e ".[{EXTRAS[name]}]"') from error
    names = [place.partition(":")[2] for place in PLACES[name]]
    return getattr(trainer, names[0]), getattr(fit, names[1])
