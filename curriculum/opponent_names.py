"""The opponents of a run by label: short names of checkpoints, ONNX files and Python objects beside the bots.

A label stands in metrics, the league and the schedule. It is a function of the configuration's text alone, so that a
resumed run finds its results again: `runs/hawk/final.pt` is `hawk`, `agent.onnx` is `agent`, `my_bots:Mine` is `Mine`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePath

from sparring.configs.schema import NamedOpponentsRunConfig, PhaseConfig, PPORunConfig, StageConfig
from sparring.curriculum.league.league import BASE_MODEL, CHALLENGER

TAKEN = ("selfplay", CHALLENGER, BASE_MODEL)
"""Names with another meaning in metrics or in the league."""


def label_of(text: str) -> str:
    """Return the label of an opponent other than a bot, before duplicates are numbered."""
    path = PurePath(text.rpartition(":")[2])
    named = path.parent.name if path.name in ("final.pt", "final") and path.parent.name else path.name
    stem = re.sub(r"\.(pt|onnx|zip)$", "", named)
    return re.sub(r"[^A-Za-z0-9._-]", "_", stem) or "opponent"


def opponent_labels(texts: Iterable[str], bots: Sequence[str]) -> dict[str, str]:
    """Return a label for each text, bots for themselves; equal labels are numbered in order."""
    labels: dict[str, str] = {}
    for text in dict.fromkeys(texts):
        label, number = label_of(text), 1
        while text not in bots and (label in (*bots, *TAKEN, *labels.values()) or label.startswith("snapshot_")):
            number += 1
            label = f"{label_of(text).removeprefix('snapshot_')}-{number}"
        labels[text] = text if text in bots else label
    return labels


def opponent_phases(config: PPORunConfig) -> list[PhaseConfig]:
    """Return the phases with the opponents that act in them, as written.

    `against` replaces the bots of every stage. Of `opponents`, those that no stage names join every stage.
    """
    if not isinstance(config, NamedOpponentsRunConfig):
        return config.phases
    named = {bot for phase in config.phases for stage in phase.stages for bot in stage.bots}
    joining = [] if config.against else [text for text in config.opponents if text not in named]
    return [replace(phase, stages=[_stage(stage, config.against, joining) for stage in phase.stages])
            for phase in config.phases]  # fmt: skip


def labelled_phases(config: PPORunConfig) -> list[PhaseConfig]:
    """Return the phases by which the schedule goes: `opponent_phases` with labels."""
    phases, labels = opponent_phases(config), labels_of_run(config)
    return [
        replace(phase, stages=[replace(stage, bots=[labels[bot] for bot in stage.bots]) for stage in phase.stages])
        for phase in phases
    ]


def labels_of_run(config: PPORunConfig) -> dict[str, str]:
    """Return the label of every opponent of a run by its text, bots included."""
    texts = [bot for phase in opponent_phases(config) for stage in phase.stages for bot in stage.bots]
    return opponent_labels(texts, config.bots)


def _stage(stage: StageConfig, against: str, joining: Sequence[str]) -> StageConfig:
    if against:
        return replace(stage, bots=[against], weights=[])
    mean = sum(stage.weights) / len(stage.weights) if stage.weights else 0.0
    weights = [*stage.weights, *[mean] * len(joining)] if stage.weights else []
    return replace(stage, bots=[*stage.bots, *joining], weights=weights)
