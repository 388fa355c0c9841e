"""A deterministic run in one piece, and the same run interrupted and resumed: all tensors must be equal.

The run has what a long one has: bots and self-play, snapshots, randomized physics, the precision of unified_dr_gpu_v3
with its warm-up. It is interrupted after a third of its updates, in a phase other than the one it ends in.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu_parts.part import Found, PartOptions
from sparring.configs.load import load_kind
from sparring.configs.schema import PhaseConfig, RandomizationConfig, StageConfig
from sparring.envs.dogfight.config import DogfightRunConfig

RUN = "unified_dr_gpu_v3"
UPDATES, STOP = 6, 2
PHASES = [
    PhaseConfig(
        name="curriculum",
        updates=3,
        stages=[StageConfig(bots=["dogfighter", "brawler"])],
        randomization=[RandomizationConfig(level="narrow")],
    ),
    PhaseConfig(
        name="selfplay",
        updates=3,
        scripted_start=0.5,
        scripted_end=0.5,
        randomization=[RandomizationConfig(level="full")],
    ),
]


def measure(options: PartOptions) -> Found:
    """Run A without a break and B with an interruption; compare policies and training states."""
    from sparring.agents.trainers import train

    found = Found()
    with tempfile.TemporaryDirectory() as folder:
        whole = train(config(options, folder, "whole", UPDATES)).parent
        broken = train(config(options, folder, "broken", STOP)).parent
        halfway = policy(broken)
        train(config(options, folder, "broken", UPDATES))
        tensors, other = policy(whole), policy(broken)
        states = [newest_state(path) for path in (whole, broken)]
    pairs = compare(tensors, other)
    state_pairs = compare(*states)
    found.checks[f"{len(pairs)} tensors of the policy are equal to the bit"] = bool(pairs) and all(pairs.values())
    whole_state = bool(state_pairs) and all(state_pairs.values())
    found.checks[f"{len(state_pairs)} entries of the training state are equal to the bit"] = whole_state
    found.checks["the interrupted run was another policy before it went on"] = not all(compare(halfway, other).values())
    differ = [name for name, same in (pairs | state_pairs).items() if not same]
    found.numbers = {"policy_tensors": len(pairs), "state_entries": len(state_pairs), "differ": differ}
    if differ:
        found.notes.append(f"Different: {', '.join(differ[:10])}{' ...' if len(differ) > 10 else ''}")
    found.notes.append(f"{UPDATES} updates at once; {STOP} updates, an end, and {UPDATES - STOP} more after resuming.")
    return found


def config(options: PartOptions, folder: str, name: str, updates: int) -> DogfightRunConfig:
    """Return the run's configuration; `updates` are done in this call."""
    sizes = ["env.num_envs=64", "ppo.rollout_steps=64", "ppo.minibatch_size=512"]
    tiny = ["env.num_envs=8", "ppo.rollout_steps=8", "ppo.minibatch_size=32", "network.hidden=16"]
    place = [f"device={options.device}", f"seed={options.seed}", f"checkpoint_dir={folder}", f"name={name}"]
    saving = ["deterministic=true", f"max_updates={updates}", "logger.progress=false", "ppo.warmup_updates=1"]
    league = ["self_play.snapshot_every=1", "self_play.deal_every=1", "evaluation.check_every=0"]
    loaded = load_kind(DogfightRunConfig, [f"+run={RUN}", *place, *saving, *league, *options.sized(sizes, tiny)])
    loaded.phases, loaded.evaluation.regimes_every = PHASES, 0
    return loaded


def policy(folder: Path) -> dict[str, Any]:
    """Return the tensors of a run's final policy."""
    from sparring.agents.policies.checkpoint import load_checkpoint

    return {name: value.clone() for name, value in load_checkpoint(folder / "final.pt").network.state_dict().items()}


def newest_state(folder: Path) -> dict[str, Any]:
    """Return the content of the newest training state, flat, without folder names and times."""
    from sparring.agents.run.states import read_state

    newest = max(path for path in (folder / "state").iterdir() if path.is_dir())
    return flatten({key: value for key, value in read_state(newest).content.items() if key != "logger"})


def flatten(value: Any, name: str = "") -> dict[str, Any]:
    """Return the entries of nested dicts and lists by dotted name."""
    if isinstance(value, dict):
        parts = [flatten(item, f"{name}.{key}" if name else str(key)) for key, item in value.items()]
    elif isinstance(value, list):
        parts = [flatten(item, f"{name}.{place}") for place, item in enumerate(value)]
    else:
        return {name: value}
    return {key: item for part in parts for key, item in part.items()}


def compare(one: dict[str, Any], other: dict[str, Any]) -> dict[str, bool]:
    """Return whether each entry of either is equal in both, to the bit."""
    return {name: name in one and name in other and _same(one[name], other[name]) for name in one | other}


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        alike = one.shape == other.shape and one.dtype == other.dtype
        return alike and one.cpu().numpy().tobytes() == other.cpu().numpy().tobytes()
    return bool(one == other)
