"""From what a person writes (`bot:ace`, `brawler`, a path, a run's name, `final.pt`) to somebody who can play."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from agents.checkpoint import FINAL, CheckpointError, load_checkpoint, resolve_checkpoint
from agents.matches import Contestant
from agents.policy import Policy
from agents.ppo.network import ActorCritic
from agents.sb3_weights import read_zip
from configs.names import UnknownNameError, choose, suggestion
from envs.dogfight.batch import observation_size
from envs.dogfight.rules import ACTION_REPEAT, BOTS, ENV_ID, RULES, VERSION

ROOT = Path(__file__).resolve().parents[1]
CHECKPOINTS = ROOT / "checkpoints"
BOT_PREFIX = "bot:"


@dataclass(frozen=True)
class Entrant:
    """Who plays: a bot, or the policy of a checkpoint with the file it came from and how it was trained."""

    name: str
    contestant: Contestant
    path: Path | None = None
    training: dict[str, Any] = field(default_factory=dict)


def load_player(text: str, device: str | torch.device, *, deterministic: bool = True) -> Entrant:
    """The evaluated player: a checkpoint, or a bot written as bot:NAME.

    Raises `UnknownNameError` for an unknown bot and `CheckpointError` for a checkpoint that cannot be found or used.
    """
    if text.startswith(BOT_PREFIX):
        return _bot(text)
    return load_policy(find_checkpoint(text), device, deterministic=deterministic)


def load_opponent(text: str, device: str | torch.device, *, deterministic: bool = True) -> Entrant:
    """An opponent: a bot by its name, or whatever `load_player` takes. Raises as it does."""
    if text in BOTS or text.startswith(BOT_PREFIX):
        return _bot(text)
    try:
        path = resolve_checkpoint(text, CHECKPOINTS)
    except CheckpointError as error:
        if Path(text).suffix or "/" in text:
            raise
        bots = f"no bot of that name ({', '.join(BOTS)}{suggestion(text, BOTS)})"
        raise UnknownNameError(f"unknown opponent {text!r}: {bots} and {error}") from error
    return load_policy(path, device, deterministic=deterministic)


def find_checkpoint(text: str) -> Path:
    """The file meant by `text`; raises `CheckpointError`, which also says how a bot's name is to be written."""
    try:
        return resolve_checkpoint(text, CHECKPOINTS)
    except CheckpointError as error:
        if text in BOTS:
            raise CheckpointError(f"no checkpoint {text!r}: write {BOT_PREFIX}{text} for the bot") from error
        raise


def load_policy(path: Path, device: str | torch.device, *, deterministic: bool = True) -> Entrant:
    """The policy in the file `path`, ours or Stable-Baselines3's zip; raises `InputError` if it cannot be used."""
    name = display_name(path)
    if path.suffix == ".zip":
        network = read_zip(path).to(device).eval()
        contract = _usual_contract(path, network)
        return Entrant(name, Policy(network, contract, name=name, deterministic=deterministic), path)
    checkpoint = load_checkpoint(path, device)
    if checkpoint.contract["id"] != ENV_ID:
        raise CheckpointError(f"{path}: was trained in {checkpoint.contract['id']}; evaluated here is only {ENV_ID}")
    policy = Policy(checkpoint.network, checkpoint.contract, name=name, deterministic=deterministic)
    return Entrant(name, policy, path, checkpoint.training)


def _usual_contract(path: Path, network: ActorCritic) -> dict[str, Any]:
    """What a policy without a contract was probably trained under: the usual rules for observations of its size."""
    for rules in RULES:
        for observe_physics in (True, False):
            if observation_size(rules, observe_physics) == network.obs_dim:
                game = {"id": ENV_ID, "version": VERSION, "rules": rules, "action_repeat": ACTION_REPEAT}
                seen = {"obs_dim": network.obs_dim, "observe_physics": observe_physics}
                return game | seen | {"continuous": network.continuous, "binary": network.binary, "mirror": False}
    raise CheckpointError(f"{path}: observes {network.obs_dim} floats, which no rules of the dogfight show")


def display_name(path: Path) -> str:
    """What tables call a checkpoint: <run> for its final.pt, <run>/<file> for another, else the whole path."""
    if not path.is_relative_to(CHECKPOINTS):
        return str(path)
    inside = path.relative_to(CHECKPOINTS)
    name = str(inside.parent if inside.name == FINAL else inside.with_suffix(""))
    return str(path) if name in BOTS else name


def display_path(path: Path) -> str:
    """A path from the repository on where it lies inside, so that files made on two machines agree."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def _bot(text: str) -> Entrant:
    name = choose("bot", text.removeprefix(BOT_PREFIX), BOTS)
    return Entrant(name, name)
