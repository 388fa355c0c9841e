"""Record a run in the present format of training states: `python tests/agents/golden/record_golden_state.py`.

Done once for each `FORMAT_VERSION`, and again where the dogfight's version rises, by the code of its time, into
tests/agents/golden/state_<format>; to record it again, remove that folder first. It is the smallest run with everything
in it: two of its three updates are done, so that an event has happened and the pool holds a snapshot. Logs that name
the machine are left out.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from sparring.agents.run import session
from sparring.agents.run.states import FORMAT_VERSION
from sparring.agents.trainers import train
from sparring.configs.schema import NetworkConfig, PPOConfig, SelfPlayConfig
from sparring.envs.dogfight.config import DogfightEnvConfig, DogfightRunConfig
from tests.agents.ppo import small_run

GOLDEN = Path(__file__).resolve().parent


def config() -> DogfightRunConfig:
    """Return the recorded run's configuration, with a relative folder that no machine needs to have."""
    return small_run.config(
        "checkpoints",
        max_updates=2,
        keep_states=1,
        env=DogfightEnvConfig(num_envs=4, action_repeat=120),
        network=NetworkConfig(hidden=4),
        ppo=PPOConfig(rollout_steps=8, epochs=1, minibatch_size=32, precision="fp32"),
        self_play=SelfPlayConfig(snapshot_every=1, pool_size=2, slots=1, deal_every=1),
    )


def main() -> None:
    """Train, and keep what the run resumes from."""
    with tempfile.TemporaryDirectory() as folder:
        session.ROOT = Path(folder)
        left_out = shutil.ignore_patterns("events.*", "lock")
        shutil.copytree(train(config()).parent, GOLDEN / f"state_{FORMAT_VERSION}", ignore=left_out)


if __name__ == "__main__":
    main()
