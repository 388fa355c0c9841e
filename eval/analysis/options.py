"""Options that commands of `eval/runs.py` share, the sources that they select, and the look-up of a run in these."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from sparring.configs.core.errors import InputError
from sparring.configs.core.files import CHECKPOINTS
from sparring.eval.analysis.output import OutputFormat, warn
from sparring.eval.analysis.record import History, RunNotFoundError, RunRecord, RunSource, not_found
from sparring.eval.analysis.reports.power_law import ComputeChoice, Price
from sparring.eval.analysis.sources.reading import is_run_folder
from sparring.eval.analysis.sources.run_folders import RunFolders
from sparring.eval.analysis.sources.tensorboard_files import TensorBoardFiles, holds_events
from sparring.eval.analysis.sources.trackio_files import TrackioFiles
from sparring.eval.analysis.sources.wandb_cloud import WandBCloud, has_key
from sparring.eval.analysis.sources.wandb_offline import WandBOffline


class SourceName(StrEnum):
    """Allowed values of `--source`."""

    AUTO = "auto"
    FOLDER = "folder"
    OFFLINE = "wandb-offline"
    TENSORBOARD = "tensorboard"
    TRACKIO = "trackio"
    CLOUD = "wandb"


Metrics = Annotated[list[str], typer.Option("--metrics", "-m", help="a metric; may be repeated")]
Root = Annotated[Path, typer.Option("--dir", "--checkpoint-dir", help="folder of the runs")]
Json = Annotated[bool, typer.Option("--json", help="short for --output-format json")]


@dataclass(frozen=True)
class SourceOptions:
    """Options that say where runs are looked for."""

    project: Annotated[
        str,
        typer.Option(
            "--project", "-p", help="project of W&B (NAME, ENTITY/NAME) or trackio; run folders do not have one"
        ),
    ] = ""
    root: Root = CHECKPOINTS
    source: Annotated[SourceName, typer.Option("--source", help="where to look; auto: all of them, the cloud last")] = (
        SourceName.AUTO
    )
    offline: Annotated[bool, typer.Option("--offline", help="of the W&B cloud use the local cache only")] = False

    def find(self) -> list[RunSource]:
        """Return the sources in this order: run folders, W&B offline files, TensorBoard events, trackio, W&B cloud.

        With auto the cloud is asked if a project is named and an API key is set, or its cache may be used (`offline`).
        Raises `InputError` for a root that does not exist, or for the cloud without a project.
        """
        root, all_sources = self.root, self.source is SourceName.AUTO
        local: dict[SourceName, RunSource] = {
            SourceName.FOLDER: RunFolders(root),
            SourceName.OFFLINE: WandBOffline(root, self.project, beside_folders=all_sources),
            SourceName.TENSORBOARD: TensorBoardFiles(root, beside_folders=all_sources),
            SourceName.TRACKIO: TrackioFiles(root, self.project, beside_folders=all_sources),
        }
        if self.source is not SourceName.CLOUD and not root.is_dir() and root != CHECKPOINTS:
            raise InputError(f"--dir {root}: is not a folder; give the folder that holds the runs")
        if self.source in local:
            return [local[self.source]]
        if not all_sources and not self.project:
            raise InputError("--source wandb: needs --project NAME or ENTITY/NAME")
        uses_cloud = not all_sources or (self.project and (self.offline or has_key()))
        cloud = [WandBCloud(self.project, offline=self.offline)] if uses_cloud else []
        return [*local.values(), *cloud] if all_sources else [*cloud]


@dataclass(frozen=True)
class RunOptions(SourceOptions):
    """The one run of a command, as RUN or as --run-id RUN, and where it is looked for."""

    run: Annotated[
        str,
        typer.Argument(help="the run: its name, its W&B id, NAME:ID where several have the name, or its folder's path"),
    ] = ""
    run_id: Annotated[str, typer.Option("--run-id", "-r", help="the same")] = ""

    def find_run(self) -> FoundRun:
        """Return the run. Raises `InputError` unless it is named once, and what `find_run` raises."""
        if bool(self.run) == bool(self.run_id):
            raise InputError("name one run, as RUN or as --run-id RUN")
        sources = self.find()
        return FoundRun(*find_run(self.run or self.run_id, sources), sources)


@dataclass(frozen=True)
class FoundRun:
    """A run, the source that has it, and all that were asked."""

    origin: RunSource
    record: RunRecord
    sources: Sequence[RunSource]

    @property
    def id(self) -> str:
        """Name of the run in its source."""
        return self.record.id

    @cached_property
    def history(self) -> History:
        """Its rows, read once."""
        return self.origin.history(self.id)

    @property
    def damage(self) -> tuple[str, ...]:
        """What could not be read, in the record and the history."""
        return tuple(dict.fromkeys((*self.record.damage, *self.history.damage)))

    def artifacts(self) -> list[dict[str, Any]]:
        """Return its files."""
        return self.origin.artifacts(self.id)


@dataclass(frozen=True)
class OutputOptions:
    """Options that say how output looks."""

    output_format: Annotated[OutputFormat, typer.Option("--output-format", help="form of the output")] = (
        OutputFormat.TABLE
    )
    json: Json = False

    @property
    def form(self) -> OutputFormat:
        """The format; raises `InputError` if --json contradicts --output-format."""
        if self.json and self.output_format not in (OutputFormat.TABLE, OutputFormat.JSON):
            raise InputError(f"--json: --output-format {self.output_format} is given as well; leave one of them out")
        return OutputFormat.JSON if self.json else self.output_format


@dataclass(frozen=True)
class ReportFiles:
    """Files that a report is written to."""

    markdown: Annotated[Path | None, typer.Option(help="Write the report as Markdown to this file.")] = None
    html: Annotated[
        Path | None, typer.Option(help="Write the report as one HTML page with plots to this file; it loads nothing.")
    ] = None


@dataclass(frozen=True)
class ComputeOptions:
    """Options of power laws and costs."""

    reward: Annotated[str, typer.Option(help="metric of the power law; by default the reward, return or win rate")] = ""
    price: Annotated[float | None, typer.Option(help="price of the machine for an hour, for the cost in money")] = None
    currency: Annotated[str, typer.Option(help="currency of --price")] = "USD"
    parameters: Annotated[
        int | None, typer.Option(help="weights of the network, for the estimate of FLOPs; PPO runs record theirs")
    ] = None

    def choice(self) -> ComputeChoice:
        """Return the options. Raises `InputError` for a price that is not positive, and less than one weight."""
        if self.parameters is not None and self.parameters < 1:
            raise InputError(f"--parameters={self.parameters}: must be at least 1, the weights of the network")
        if self.price is not None and not (math.isfinite(self.price) and self.price > 0):
            raise InputError(f"--price={self.price}: must be a positive number, the price of an hour")
        price = None if self.price is None else Price(self.price, self.currency)
        return ComputeChoice(self.reward, price, self.parameters)


def cache_figures(sources: Sequence[RunSource]) -> dict[str, Any]:
    """Return hits, misses and age of the W&B cloud's cache under "cache"; empty if the cloud was not asked."""
    clouds = [source for source in sources if isinstance(source, WandBCloud)]
    return {"cache": clouds[0].cache.figures()} if clouds else {}


def as_command(command: Callable[..., Any], *, answers: bool = False) -> Callable[..., Any]:
    """Return a command for Typer with the fields of its dataclass parameters as options of their own.

    If it `answers`, it has the options of output, and the form that they ask for is added to the answer.
    """
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    declared = [*inspect.signature(command, eval_str=True).parameters.values()]
    declared += (
        [inspect.Parameter("output", inspect.Parameter.KEYWORD_ONLY, annotation=OutputOptions)] if answers else []
    )
    for parameter in declared:
        if is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            types = get_type_hints(parameter.annotation, include_extras=True)
            parameters += [
                inspect.Parameter(part.name, parameter.KEYWORD_ONLY, default=part.default, annotation=types[part.name])
                for part in fields(parameter.annotation)
            ]
        else:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))

    def called(**values: Any) -> Any:
        for name, group in groups.items():
            values[name] = group(**{option.name: values.pop(option.name) for option in fields(group)})
        form = values.pop("output").form if answers else None
        answer = command(**values)
        return answer if form is None else replace(answer, form=form)

    called.__doc__, called.__name__ = command.__doc__, command.__name__
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return called


def find_run(name_or_path: str, sources: Sequence[RunSource]) -> tuple[RunSource, RunRecord]:
    """Return the first source that has the run, and its record with the values of the whole history.

    A path to a run folder, or to one with event files, is read whatever the sources are. Raises `RunNotFoundError` with
    the nearest names, and `AmbiguousRunError` for a name of several runs; a name that several sources have is said on
    stderr.
    """
    if not name_or_path:
        raise InputError("no run is named: give a run's name, its id in W&B, or a path")
    path = Path(name_or_path)
    if is_run_folder(path):
        folders = RunFolders(path.resolve().parent)
        return folders, folders.record(path.resolve().name)
    if holds_events(path):
        logs = TensorBoardFiles(path.resolve())
        return logs, logs.record(path.resolve().name)
    names: list[str] = []
    for number, source in enumerate(sources):
        try:
            record = source.record(name_or_path)
        except RunNotFoundError as error:
            names += error.known
            continue
        if duplicates := [other.name for other in sources[number + 1 :] if name_or_path in other.names()]:
            warn(
                f"{name_or_path!r} is in {source.name} and in {' and '.join(duplicates)}; {source.name} is read, "
                "--source chooses another"
            )
        return source, record
    raise not_found(name_or_path, names, " and ".join(source.name for source in sources) or "no source")
