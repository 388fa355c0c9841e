"""Cards of policies: the table of a NAME.md beside a NAME.pt, what the file itself says, and both as columns.

`sparring policies` lists policies; `add RUN` puts a run's policy into `checkpoints/zoo/`, with a card of what the run's
files say: options, steps, times of updates, eval.json, and an exploit.json of exactly this file. The command to repeat
is checked: it must give the run's options. Neither torch nor a simulator is needed. A figure that no card and no file
has is "not measured" or "not recorded".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from sparring.agents.opponents.players import RELEASED, find_checkpoint
from sparring.configs.core import files
from sparring.configs.core.archive import TensorFileError, read_arrays
from sparring.configs.core.errors import InputError, as_called, printable_lines, require_package
from sparring.configs.core.manifest import read_listed, write_listed
from sparring.configs.games import POLICY_FORMAT, is_imported
from sparring.configs.load import load_named
from sparring.configs.overrides import nested_texts
from sparring.configs.resume import differences
from sparring.configs.schema import FOLDER, RunConfig
from sparring.configs.serialization import from_stored
from sparring.eval.command import run_command
from sparring.eval.options import HELP, CommandOptions, CommandText, argument, parse
from sparring.eval.stats.tables import table_cell

ZOO = "zoo"
"""Folder below `checkpoints/` of one's own policies; `zoo/NAME` names one wherever `released/NAME` does."""
NOT_MEASURED, NOT_RECORDED = "not measured", "not recorded"
ROW = re.compile(r"^\| ([^|]+?) \| (.+?) \|$", re.MULTILINE)
BOTS = ("win % of 400 games", "bots", "against six DumbBots")
"""Names that cards have for the results against bots of training."""
HELD_OUT = ("held out", "other bots")


@dataclass(frozen=True)
class StoredFile:
    """What a policy's file says of itself."""

    path: Path
    contract: Mapping[str, Any]
    shape: Mapping[str, Any]
    training: Mapping[str, Any]
    weights: int
    sha256: str
    """Of the file."""

    @property
    def game(self) -> str:
        """The environment and its rules."""
        rules = self.contract.get("rules")
        return f"`{self.contract['id']}`" + (f", {rules} rules" if rules else "")

    @property
    def steps(self) -> str:
        """Environment steps of the training, in millions where there are many."""
        steps = self.training.get("env_steps")
        if not steps:
            return NOT_RECORDED
        return f"{steps / 1e6:,.1f} M" if steps >= 100_000 else f"{steps:,}"


def read_policy(path: Path) -> StoredFile:
    """Read a policy's file, verified by the manifest beside it. Raises `InputError` for other files."""
    try:
        data = read_listed(path, follow=True)
        content = read_arrays(data)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except TensorFileError as error:
        raise InputError(f"{path}: {error}") from error
    if content.get("format") != POLICY_FORMAT:
        raise InputError(f"{path}: is not a policy of this project; give a run's name or a checkpoint (.pt)")
    weights = sum(array.size for array in content["weights"].values())
    return StoredFile(
        path, content["contract"], content["shape"], content["training"], weights, sha256(data).hexdigest()
    )


def facts_of(path: Path) -> dict[str, str]:
    """Return the rows of the card beside a policy's file, by name; empty without a card."""
    card = path.with_suffix(".md")
    return dict(ROW.findall(files.read_regular_text(card, follow=True))) if card.is_file() else {}


def columns(path: Path) -> dict[str, str]:
    """Return what a table of policies says of the one in the file `path`."""
    policy, facts = read_policy(path), facts_of(path)
    command = re.search(r"`[^`]+`", facts.get("trained by", ""))
    minutes = re.search(r"([\d.]+) (?:CPU )?minutes", facts.get("machine", ""))
    licence = re.search(r"; ([\w.+-]+), like the project", facts.get("file", ""))
    return {
        "game": policy.game,
        "weights": f"{policy.weights:,}",
        "steps": policy.steps,
        "minutes": minutes[1] if minutes else NOT_RECORDED,
        "bots": next((facts[name] for name in BOTS if name in facts), NOT_MEASURED),
        "held out": next((facts[name] for name in facts if name.startswith(HELD_OUT)), NOT_MEASURED).partition(";")[0],
        "best response": _best_response(facts),
        "strongest attack": facts.get("strongest attack", NOT_MEASURED).partition(" (")[0],
        "other policies": facts.get("other policies", NOT_MEASURED),
        "command": command[0] if command else NOT_RECORDED,
        "licence": facts.get("licence") or (licence[1] if licence else "not stated"),
        "file": path.name,
        "SHA-256": policy.sha256,
    }


def policies() -> dict[str, Path]:
    """Return the files of the released policies and of one's own, by the name that `sparring.load` takes."""
    paths: dict[str, Path] = {}
    for name, home in ((RELEASED, files.SHIPPED), (ZOO, files.CHECKPOINTS)):
        paths |= {f"{name}/{path.stem}": path for path in sorted((home / name).glob("*.pt"))}
    return paths


def listing() -> str:
    """Return all policies in plain text."""
    parts = []
    for name, path in policies().items():
        rows = columns(path)
        parts.append(f"{name}\n" + "\n".join(f"  {key:16} {value.replace('`', '')}" for key, value in rows.items()))
    return "\n\n".join(parts) + (
        "\n\nAgainst one: sparring play --opponent NAME. Your own run: sparring policies add RUN"
    )


def _best_response(facts: Mapping[str, str]) -> str:
    key = next((name for name in facts if name.startswith("best response")), "")
    value = facts.get(key, NOT_MEASURED).partition(" (")[0]
    budget = key.removeprefix("best response").strip()
    return f"{budget}: {value}" if budget else value


NOT_STATED = "not stated"
MACHINE_OPTIONS = ("logger.", "device", "threads", "run", "scale")
"""Beginnings of options that change where and how a run is done, not what it learns."""


@dataclass(frozen=True, kw_only=True)
class AddOptions(CommandOptions):
    """Options of the command; the run has not been located."""

    TEXT = CommandText(
        "eval/zoo/cards.py", "Put a policy into your own zoo.", usage="sparring policies add RUN [options]"
    )
    run: str = argument("", metavar="RUN", positional=True)
    """A run's name, final.pt for the newest run, or a checkpoint (.pt)."""
    name: str = argument("", FOLDER, metavar="NAME")
    """Name in the zoo (default: the run's)."""
    licence: str = argument(NOT_STATED, metavar="TEXT")
    """Licence under which you give the policy away."""

    @classmethod
    def from_words(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values of fields. Raises `InputError` for several runs."""
        names = values.get("run") or ()
        if len(names) > 1:
            raise InputError(f"{' '.join(names)}: one run is added at a time; give one name")
        return {**values, "run": names[0] if names else ""}

    def check(self) -> None:
        """Raise `InputError` without a run, and for a licence that does not fit a line of the card."""
        self.require_given("run", "name a run, final.pt for the newest, or a checkpoint")
        if "\n" in self.licence or "|" in self.licence:
            raise InputError(f"--licence {self.licence!r}: must be one line without '|', such as MIT")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return run_command("sparring policies", _run, arguments)


def add(options: AddOptions) -> Path:
    """Copy the policy, write its card, and return the card.

    Raises `InputError` if it is not a policy or the name is taken, and without Hydra, which composes the command.
    The same policy may be added again, which makes its card again.
    """
    require_package("hydra", "train")
    source = find_checkpoint(options.run)
    if source.suffix != ".pt":
        raise InputError(f"{options.run}: the zoo takes policies of this project (.pt)")
    policy = read_policy(source)
    name = options.name or (source.parent.name if source.stem == "final" else source.stem)
    folder = files.CHECKPOINTS / ZOO
    target = folder / f"{name}.pt"
    if name == "final":
        raise InputError(f"{options.run}: a policy of the zoo cannot be named final; give --name")
    with files.naming_files(folder):
        files.check_folder(folder)
        files.CHECKPOINTS.mkdir(parents=True, exist_ok=True)
        files.make_folder(folder)
        if target.exists() and read_policy(target).sha256 != policy.sha256:
            raise InputError(f"{name}: the zoo has another policy of this name; give --name, or remove {target}")
        if source != target:
            write_listed(target, files.read_regular(source))
        files.write_atomically(target.with_suffix(".md"), card(name, policy, options.licence))
    return target.with_suffix(".md")


def card(name: str, policy: StoredFile, licence: str) -> str:
    """Return the card of a policy in the words of the released ones."""
    folder, shape = policy.path.parent, policy.shape
    size = f"{shape['hidden']}h/{shape['blocks']}b" if {"hidden", "blocks"} <= {*shape} else "network of the file"
    commit = _read(folder / "origin.json").get("commit", "")
    evaluation = _evaluation(policy)
    rows = {
        "file": f"`{name}.pt`, {size}, {policy.weights:,} weights, SHA-256 `{policy.sha256}`",
        "licence": licence,
        "game": policy.game,
        "trained by": f"{_command(policy)}, commit {commit[:7] or NOT_RECORDED}, {policy.steps} steps",
        "machine": f"{_minutes(folder / 'metrics.jsonl')} minutes of updates by the clock",
        "evaluated by": f"`{evaluation['command']}`" if "command" in evaluation else "not: run `sparring eval`",
        "bots": _rates(evaluation, held_out=False),
        "held out": _rates(evaluation, held_out=True),
        "best response": _exploited(policy),
    }
    table = "".join(f"| {key} | {table_cell(value)} |\n" for key, value in rows.items())
    return f"# {name}\n\nMade from the files of the run by `sparring policies add`.\n\n| | |\n| --- | --- |\n{table}"


def _run(words: Sequence[str]) -> int:
    """List all policies, or add one to the zoo."""
    if not words:
        print(printable_lines(listing()))
    elif words[0] in HELP:
        print(
            "usage: sparring policies [add RUN]\n\nAll policies with their figures; `add --help` says how to add one."
        )
    elif words[0] != "add":
        raise InputError(f"{words[0]}: lists all without options; policies add RUN adds one")
    else:
        path = add(parse(AddOptions, words[1:]))
        print(printable_lines(path.read_text(encoding="utf-8")))
        print(f"Wrote {path}; sparring.load({f'{ZOO}/{path.stem}'!r}) loads it.")
    return 0


def _command(policy: StoredFile) -> str:
    """Return the shortest command that gives the run's options, or why it is unknown."""
    with suppress(InputError, ValueError, TypeError, KeyError):
        stored = from_stored(policy.training["config"])
        imported = is_imported({"id": str(policy.contract["id"])})
        run = None if imported else stored.run
        words = [f"env={str(policy.contract['id']).partition(':')[0]}"] if imported else []
        changes = {key: now for key, (_, now) in _learned(load_named(run, words), stored).items()}
        words += nested_texts(changes)
        if not _learned(load_named(run, words), stored):
            quoted = [f'"{word}"' if set(word) & set(" []{}") else word for word in words]
            return as_called(f"`python train.py {' '.join([f'+run={run}'] * (not imported) + quoted)}`")
    return "no command: the run's options are in the file"


def _learned(before: RunConfig, now: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return the options that differ and change what is learned."""
    return {key: pair for key, pair in differences(before, now).items() if not key.startswith(MACHINE_OPTIONS)}


def _minutes(metrics: Path) -> str:
    """Return the minutes of all recorded updates, from their steps and speeds."""
    seconds, before = 0.0, 0.0
    with suppress(OSError, ValueError, KeyError, TypeError):
        for line in files.read_regular_text(metrics, most=None).splitlines():
            row = json.loads(line)
            if speed := row.get("time/steps_per_second"):
                seconds += (row["env_steps"] - before) / speed
                before = row["env_steps"]
    return f"{seconds / 60:.1f}" if seconds else NOT_RECORDED


def _evaluation(policy: StoredFile) -> Mapping[str, Any]:
    """Return the content of the eval.json of exactly this state of the run, or an empty one."""
    stem = "eval" if policy.path.stem == "final" else f"eval.{policy.path.stem}"
    content = _read(policy.path.parent / f"{stem}.json")
    trained = content.get("training", policy.training)
    return content if trained.get("env_steps") == policy.training.get("env_steps") else {}


def _rates(evaluation: Mapping[str, Any], *, held_out: bool) -> str:
    """Return the win rates of the bots, or mean and worst of the held-out opponents."""
    records, games = evaluation.get("records", []), evaluation.get("games")
    if held_out:
        parts = [
            f"{regime}: " * (regime != "none") + f"mean {100 * row['mean']:.1f}, worst {100 * row['worst']:.1f} "
            f"({row['worst_opponent'].removeprefix('held_out:')})" + _score({"score": row.get("score", {}).get("mean")})
            for regime, row in evaluation.get("held_out", {}).items()
            if row
        ]
        return ", ".join(parts) + f" of {games} games, win %" if parts else NOT_MEASURED
    bots = [row for row in records if not str(row.get("opponent", "")).startswith(("held_out:", "released/"))]
    rates = [f"{row['opponent']} {100 * row['win_rate']:.1f}{_score(row)}" for row in bots if "win_rate" in row]
    return ", ".join(rates) + f" of {games} games, win %" if rates else NOT_MEASURED


def _exploited(policy: StoredFile) -> str:
    """Return the final win rate and score of every best response to exactly this file."""
    for path in sorted((files.CHECKPOINTS / "exploit").glob("*/exploit.json")):
        content = _read(path)
        if content.get("sha256") != policy.sha256:
            continue
        ends = [(curve["start"], curve["points"][-1]) for curve in content.get("curves", []) if curve.get("points")]
        if ends:
            rates = ", ".join(f"{start} {100 * end['win_rate']:.1f}{_score(end)} %" for start, end in ends)
            return f"{rates} after {ends[0][1]['steps']:,} steps (`{content['command']}`)"
    return f"{NOT_MEASURED}: run `sparring exploit`"


def _score(figures: Mapping[str, Any]) -> str:
    """Return the score in percent behind a win rate, where it is on record."""
    score = figures.get("score")
    return "" if score is None else f", score {100 * score:.1f}"


def _read(path: Path) -> dict[str, Any]:
    try:
        content = files.read_json(path)
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
