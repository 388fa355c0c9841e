"""Cards of policies: the table of a NAME.md beside a NAME.pt, what the file itself says, and both as columns.

Neither torch nor a simulator is needed. A figure that no card and no file has is "not measured" or "not recorded".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from sparring.agents.opponents.players import RELEASED
from sparring.configs.core.archive import TensorFileError, read_arrays
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import CHECKPOINTS, SHIPPED, read_regular_text
from sparring.configs.core.manifest import read_listed
from sparring.configs.games import POLICY_FORMAT

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
    """Read a policy's file, verified by the manifest beside it. Raises `InputError` for what is no policy."""
    try:
        data = read_listed(path, follow=True)
        content = read_arrays(data)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except TensorFileError as error:
        raise InputError(f"{path}: {error}") from error
    if content.get("format") != POLICY_FORMAT:
        raise InputError(f"{path}: is no policy of this project; give a run's name or a checkpoint (.pt)")
    weights = sum(array.size for array in content["weights"].values())
    return StoredFile(
        path, content["contract"], content["shape"], content["training"], weights, sha256(data).hexdigest()
    )


def facts_of(path: Path) -> dict[str, str]:
    """Return the rows of the card beside a policy's file, by name; empty without a card."""
    card = path.with_suffix(".md")
    return dict(ROW.findall(read_regular_text(card, follow=True))) if card.is_file() else {}


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
        "held out": _first(facts, HELD_OUT).partition(";")[0],
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
    shown: dict[str, Path] = {}
    for name, home in ((RELEASED, SHIPPED), (ZOO, CHECKPOINTS)):
        shown |= {f"{name}/{path.stem}": path for path in sorted((home / name).glob("*.pt"))}
    return shown


def listing() -> str:
    """Return all policies in plain text."""
    parts = []
    for name, path in policies().items():
        rows = columns(path)
        parts.append(f"{name}\n" + "\n".join(f"  {key:16} {_plain(value)}" for key, value in rows.items()))
    return "\n\n".join(parts) + (
        "\n\nAgainst one: sparring play --opponent NAME. Your own run: sparring policies add RUN"
    )


def _best_response(facts: Mapping[str, str]) -> str:
    key = next((name for name in facts if name.startswith("best response")), "")
    value = facts.get(key, NOT_MEASURED).partition(" (")[0]
    budget = key.removeprefix("best response").strip()
    return f"{budget}: {value}" if budget else value


def _first(facts: Mapping[str, str], beginnings: tuple[str, ...]) -> str:
    return next((value for name, value in facts.items() if name.startswith(beginnings)), NOT_MEASURED)


def _plain(text: str) -> str:
    return text.replace("`", "")
