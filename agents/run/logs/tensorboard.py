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

METRICS = ("rollout/reward", "rollout/win_rate", "rollout/recent_return", "league/elo", "elo/challenger")
"""Metrics beside the hyperparameters in TensorBoard's HPARAMS; a run without one has an empty cell."""


class TensorBoard:
    """An event file in the run's folder, with `hyperparameters` by dotted key; the slow import is deferred to here."""

    def __init__(self, folder: Path, first_step: int, hyperparameters: Mapping[str, Any]) -> None:
        self._folder = folder
        self._open(first_step)
        if hyperparameters:
            self._write_hyperparameters(hyperparameters)

    def _open(self, first_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # Rows of an interrupted run after its last state are hidden.
        self._writer: Any = SummaryWriter(str(self._folder), purge_step=first_step)

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Write one scalar per metric."""
        for key, value in metrics.items():
            self._writer.add_scalar(key, value, env_steps)

    def event(self, env_steps: int, kind: str, text: str) -> None:
        """Write a text entry."""
        self._writer.add_text(kind, text, env_steps)

    def video(self, env_steps: int, name: str, gif: bytes) -> None:
        """Write an animated GIF as an image."""
        from PIL import Image
        from tensorboard.compat.proto.summary_pb2 import Summary

        width, height = Image.open(BytesIO(gif)).size
        image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=gif)
        self._writer.file_writer.add_summary(Summary(value=[Summary.Value(tag=name, image=image)]), env_steps)

    def rewind(self, env_steps: int) -> None:
        """Continue in another event file, which hides rows after `env_steps`."""
        self._writer.close()
        self._open(env_steps + 1)

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()

    def _write_hyperparameters(self, values: Mapping[str, Any]) -> None:
        from tensorboard.plugins.hparams import summary_v2 as api  # its `api` needs TensorFlow

        # There is no summary of the session's end: the run may be continued.
        columns = [api.HParam(name) for name in values]
        self._writer.file_writer.add_summary(api.hparams_config_pb(columns, [api.Metric(tag) for tag in METRICS]))
        self._writer.file_writer.add_summary(api.hparams_pb(dict(values)))


def hyperparameters(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, bool | float | str]]:
    """Yield the values of a nested configuration by dotted key; lists and null become JSON."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from hyperparameters(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, bool | int | float | str) else json.dumps(value)
