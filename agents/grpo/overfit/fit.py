"""Training loop of GRPO: the common one, and the verdict of the overfit check at its end."""

from __future__ import annotations

from pathlib import Path

from sparring.agents.grpo.trainer import GRPOTrainer
from sparring.agents.run import fit as common
from sparring.agents.run.session import RunSession

FAILED = 1


def fit(trainer: GRPOTrainer, session: RunSession) -> Path:
    """Train, and return the path of the final policy; raises `SystemExit` with 1 if the overfit check fails."""
    final = common.fit(trainer, session)
    if trainer.overfit and trainer.over and not trainer.overfit.conclude(session):
        raise SystemExit(FAILED)
    return final
