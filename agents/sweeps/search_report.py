"""What a search found and what it cost, from the outcomes of its trials; needs no Optuna."""

from __future__ import annotations

from typing import Any

from sparring.agents.sweeps.sweep_folder import DONE, NEVER, PRUNED, STOPPED, SweepFolder
from sparring.configs.sweeps.file import parse_sweep


def search_summary(folder: SweepFolder) -> list[str]:
    """Return lines on the trials, their cost, and the best one."""
    file = parse_sweep(folder.name, folder.content(), folder.path)
    trials = ranked_trials(folder)
    states = [trial["outcome"] for trial in trials]
    unfinished = sum(state == NEVER or state.startswith(STOPPED) for state in states)
    counts = {"completed": states.count(DONE), "pruned": states.count(PRUNED), "unfinished": unfinished}
    counts["failed"] = len(states) - sum(counts.values())
    parts = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    updates = sum(int(trial.get("updates", 0)) for trial in trials)
    seconds = sum(float(trial.get("seconds", 0.0)) for trial in trials)
    lines = [f"{len(trials)} trials: {parts}; {updates} updates, {seconds:.0f} s of training"]
    if not trials or trials[0]["outcome"] != DONE:
        return [*lines, "no trial is complete, so there is no best one"]
    best = trials[0]
    found = " ".join(f"{key}={shown(value)}" for key, value in best["options"].items())
    return [*lines, f"best: {best['run']}, {file.primary.measure} = {best['value']:.4g} with {found}"]


def ranked_trials(folder: SweepFolder) -> list[dict[str, Any]]:
    """Return the trials' outcomes: completed ones first, best first, then the others by name."""
    file = parse_sweep(folder.name, folder.content(), folder.path)
    sign = 1.0 if file.primary.goal == "lower" else -1.0
    trials = [{"run": name, **folder.outcome(name)} for name in folder.runs()]

    def order(trial: dict[str, Any]) -> tuple[bool, float, str]:
        complete = trial["outcome"] == DONE and "value" in trial
        return not complete, sign * trial["value"] if complete else 0.0, trial["run"]

    return sorted(trials, key=order)


def shown(value: Any) -> str:
    """Return a drawn value with four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
