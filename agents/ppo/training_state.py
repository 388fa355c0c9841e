"""What a run is at the end of an update, as plain data and tensors, and a run set back to that moment.

Network, optimizer and scaler, the place in the schedule, every random generator, how far the logs had come, and
whatever the task holds: in the dogfight every match in the simulator, opponents and weights, records and ratings. On a
CPU with the same number of torch threads, a continued run goes on bit for bit as if it had never stopped.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sparring.agents.distributed.generator_state import restore_generator
from sparring.agents.run.resume_fidelity import inexact, machine
from sparring.curriculum.schedule import SchedulePosition

if TYPE_CHECKING:
    from sparring.agents.ppo.run import PPORun


def capture(run: PPORun, *, episodes: bool = True) -> dict[str, Any]:
    """The state of `run` between two updates, for `configs.core.tensor_file.pack`; every process brings its episodes.

    Without `episodes` nobody else is asked, and those begin anew from such a state.
    """
    return {
        "updates": run.updates_done,
        "position": asdict(run.position) if run.position else None,
        "learner": run.learner.state_dict(),
        "actions": run.actions.get_state(),
        "guard": run.guard.state_dict(),
        "logger": run.logger.state_dict(),
        **run.task.state_dict(episodes=episodes),
    }


def restore(run: PPORun, state: dict[str, Any], *, episodes: bool = True, guard: bool = True) -> None:
    """Set `run` back to `state`; without `episodes` (their number differs, or it has none) those begin anew."""
    run.updates_done = state["updates"]
    run.position = SchedulePosition(**state["position"]) if state["position"] else None
    run.learner.load_state_dict(state["learner"])
    restore_generator(run.actions, state["actions"])
    run.task.load_state_dict(state, episodes=episodes)
    if guard:
        run.guard.load_state_dict(state["guard"])


def summary(run: PPORun, *, episodes: bool = True) -> dict[str, Any]:
    """What a state's manifest says of it, for people and for whoever tidies up."""
    return {
        "run": run.folder.name,
        "update": run.updates_done,
        "env_steps": run.updates_done * run.steps_per_update,
        "phase": run.phase,
        "config_sha256": run.fingerprint,
        "num_envs": run.config.env.num_envs,
        "episodes": episodes,
        "processes": run.processes.size,
        **machine(run.device),
        "pool": run.task_files.files() if run.task_files else [],
    }


def inexact_reasons(found: dict[str, Any], run: PPORun) -> list[str]:
    """Why a run continued from a state with the summary `found` will not go on bit for bit; empty where it will."""
    reasons = inexact(found, summary(run), deterministic=run.config.deterministic)
    if not has_episodes(found):
        reasons.append("the matches were lost with a process and begin anew")
    if run.task.env.unsaved:
        reasons.append(run.task.env.unsaved)
    return reasons


def has_episodes(found: dict[str, Any]) -> bool:
    """Whether a state with the summary `found` holds the episodes that were in progress."""
    return bool(found["episodes"])
