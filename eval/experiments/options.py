"""Options that commands of `eval/runs.py` share, and the sources that they select."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sparring.configs.core.errors import InputError
from sparring.configs.core.paths import CHECKPOINTS
from sparring.eval.experiments.output import OutputFormat
from sparring.eval.experiments.record import RunSource
from sparring.eval.experiments.sources.run_folders import RunFolders
from sparring.eval.experiments.sources.tensorboard_files import TensorBoardFiles
from sparring.eval.experiments.sources.wandb_cloud import WandBCloud, has_key
from sparring.eval.experiments.sources.wandb_offline import WandBOffline


class SourceName(StrEnum):
    """Allowed values of `--source`."""

    AUTO = "auto"
    FOLDER = "folder"
    OFFLINE = "wandb-offline"
    TENSORBOARD = "tensorboard"
    CLOUD = "wandb"


RunId = Annotated[str, typer.Option("--run-id", "-r", help="the run: its name, its W&B id, or the path of its folder")]
Metrics = Annotated[list[str], typer.Option("--metrics", "-m", help="a metric; may be repeated")]
Project = Annotated[
    str, typer.Option("--project", "-p", help="W&B project, NAME or ENTITY/NAME; run folders have none")
]
Root = Annotated[Path, typer.Option("--dir", help="folder of the runs")]
Source = Annotated[SourceName, typer.Option("--source", help="where to look; auto: all of them, the cloud last")]
Offline = Annotated[bool, typer.Option("--offline", help="of the W&B cloud use the local cache only")]
Format = Annotated[OutputFormat, typer.Option("--output-format", help="form of the output")]
Json = Annotated[bool, typer.Option("--json", help="short for --output-format json")]


def cache_figures(sources: Sequence[RunSource]) -> dict[str, Any]:
    """Return hits, misses and age of the W&B cloud's cache under "cache"; empty if the cloud was not asked."""
    clouds = [source for source in sources if isinstance(source, WandBCloud)]
    return {"cache": clouds[0].cache.figures()} if clouds else {}


def chosen(output_format: OutputFormat, json: bool) -> OutputFormat:
    """Return the output format. Raises `InputError` if --json contradicts --output-format."""
    if json and output_format is OutputFormat.CSV:
        raise InputError("--json: --output-format csv is given as well; leave one of them out")
    return OutputFormat.JSON if json else output_format


def find_sources(root: Path, project: str, source: SourceName, *, offline: bool) -> list[RunSource]:
    """Return the sources to ask, in this order: run folders, W&B offline files, TensorBoard events, W&B cloud.

    With auto the cloud is asked if a project is named and there is a key, or its cache may be used (`offline`).
    Raises `InputError` for a root that does not exist, or for the cloud without a project.
    """
    every = source is SourceName.AUTO
    local: dict[SourceName, RunSource] = {
        SourceName.FOLDER: RunFolders(root),
        SourceName.OFFLINE: WandBOffline(root, project, beside_folders=every),
        SourceName.TENSORBOARD: TensorBoardFiles(root, beside_folders=every),
    }
    if (every or source in local) and not root.is_dir() and root != CHECKPOINTS:
        raise InputError(f"--dir {root}: is no folder; give the folder that holds the runs")
    if source in local:
        return [local[source]]
    if source is SourceName.CLOUD and not project:
        raise InputError("--source wandb: needs --project NAME or ENTITY/NAME")
    cloud = [WandBCloud(project, offline=offline)] if project and (offline or has_key()) else []
    if source is SourceName.CLOUD:
        return list(cloud or [WandBCloud(project, offline=offline)])
    return [*local.values(), *cloud]
