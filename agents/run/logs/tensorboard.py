"""The TensorBoard sink: scalars, texts, hyperparameters and videos in an event file of the run's folder.

A video is an animated GIF in an image summary, which TensorBoard plays. Hyperparameters are written into the run
itself; `SummaryWriter.add_hparams` would make a second run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from sparring.agents.run.logs.event_file import EventFile

METRICS = ("rollout/reward", "rollout/win_rate", "rollout/recent_return", "league/elo", "elo/challenger")
"""Metrics beside the hyperparameters in TensorBoard's HPARAMS; a run without one has an empty cell."""


class TensorBoard:
    """An event file in the run's folder, with `hyperparameters` by dotted key; the slow import is deferred to here.

    The methods raise `OSError` for what cannot be written; later rows are written again.
    """

    def __init__(self, folder: Path, first_step: int, hyperparameters: Mapping[str, Any]) -> None:
        self._folder, self._first = folder, _hyperparameter_summaries(hyperparameters)
        # Rows of an interrupted run after its last state are hidden.
        self._file = EventFile(folder, first_step, self._first)

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Write one scalar per metric."""
        from torch.utils.tensorboard.summary import scalar

        self._file.write(env_steps, [scalar(key, value) for key, value in metrics.items()])

    def event(self, env_steps: int, kind: str, text: str) -> None:
        """Write a text entry."""
        from torch.utils.tensorboard.summary import text as summary

        self._file.write(env_steps, [summary(kind, text)])

    def video(self, env_steps: int, name: str, gif: bytes) -> None:
        """Write an animated GIF as an image."""
        from PIL import Image
        from tensorboard.compat.proto.summary_pb2 import Summary

        width, height = Image.open(BytesIO(gif)).size
        image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=gif)
        self._file.write(env_steps, [Summary(value=[Summary.Value(tag=name, image=image)])])

    def rewind(self, env_steps: int) -> None:
        """Continue in another event file, which hides rows after `env_steps`."""
        self._file.close()
        self._file = EventFile(self._folder, env_steps + 1, self._first)

    def close(self) -> None:
        """Close the event file."""
        self._file.close()


def _hyperparameter_summaries(values: Mapping[str, Any]) -> list[Any]:
    from tensorboard.plugins.hparams import summary_v2 as api  # its `api` needs TensorFlow

    if not values:
        return []
    # There is no summary of the session's end: the run may be continued.
    columns = [api.HParam(name) for name in values]
    return [api.hparams_config_pb(columns, [api.Metric(tag) for tag in METRICS]), api.hparams_pb(dict(values))]


def hyperparameters(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, bool | float | str]]:
    """Yield the values of a nested configuration by dotted key; lists and null become JSON."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from hyperparameters(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, bool | int | float | str) else json.dumps(value)
