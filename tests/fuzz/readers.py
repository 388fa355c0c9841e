"""Readers of the project, and how a mutated file is put in place with matching hashes.

A hostile file can come with matching hashes, so they are always right here: the types alone protect.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import torch
import yaml

from sparring.agents.language.models.load import load_model
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.policies.policy import Policy
from sparring.agents.run.folder import RunFolder
from sparring.configs.language import LanguageModelConfig
from sparring.configs.schema import RunConfig
from sparring.configs.serialization import from_stored
from sparring.configs.validate import validate
from sparring.curriculum.league.file import LeagueFile
from sparring.curriculum.pool import Pool
from sparring.envs.diplomacy.records import saved_game
from sparring.envs.diplomacy.training import opponents as diplomacy
from sparring.envs.dogfight.training.opponents.load import frozen_policies, load_policy
from sparring.envs.imported.evaluation import episodes
from sparring.eval.seeds import read_results
from tests.fuzz.reader import UNUSED, Reader, digest

KINDS = ("delete", "rename", "retype", "negative", "not finite")
COLUMNS = ("player", "by_seat", "length", "own_hp", "their_hp", "pairs", "draws", "losses", "win_rate", "interval")
UNREAD = (
    *("notes", "summary", "held_out", "run", "checkpoint", "command", "training", "player", "device"),
    *(f"records/0/{column}" for column in COLUMNS),
)
"""Parts of an eval.json that nothing reads."""
UNREAD_CONFIG = ("negative training/config/", "not finite training/config/")
"""Changes of the configuration in a training summary, which is for reports; the run's own is read elsewhere."""


class PolicyFile(Reader):
    """A dogfight policy as evaluation loads it."""

    tensors = True
    run, name = "small", "final.pt"
    # The summary's keys are optional, and its configuration is read elsewhere; the first policies had one activation.
    harmless = (
        *("delete training/", "rename training/", "retype training/config/", *UNREAD_CONFIG),
        "delete shape/activation",
    )

    def path(self) -> Path:
        return self.root / self.run / self.name

    def put(self, data: bytes) -> None:
        self.file.write_bytes(data)
        manifest = self.file.with_name("manifest.json")
        entries = {self.name: {"sha256": digest(data)}} if manifest.exists() else None
        if entries:
            manifest.write_text(json.dumps(entries))

    def read(self) -> Any:
        entrant = load_policy(self.file, "cpu")
        policy = entrant.contestant
        assert isinstance(policy, Policy)
        policy.act(torch.zeros(2, policy.network.obs_dim))
        json.dumps(entrant.training, allow_nan=False)
        return self.used(policy.network, policy.contract, entrant.training)

    def used(self, network: Any, contract: Any, training: Any) -> Any:
        """Return the content of an equal file."""
        header = {"format": "sparring-checkpoint", "format_version": 2, "shape": network.shape}
        return header | {"contract": contract, "training": training, "weights": network.state_dict()}


class DiplomacyPolicy(PolicyFile):
    run = "diplomacy"
    # The year is an option of an evaluation, too.
    harmless = (*PolicyFile.harmless, "delete contract/last_year", "rename contract/last_year")

    def read(self) -> Any:
        network = diplomacy.open_player(self.file).network
        network.act(torch.zeros(2, network.obs_dim))
        found = load_checkpoint(self.file)
        return self.used(network, found.contract, found.training)


class GymnasiumPolicy(PolicyFile):
    run = "gymnasium"

    def read(self) -> Any:
        found, _ = episodes._load(self.file, "cpu", "")
        envs = episodes.make_envs(found, 1, 0, "cpu")
        envs.step(found.network.act(envs.obs, deterministic=True)[0])
        envs.close()
        return self.used(found.network, found.contract, found.training)


class AdapterPolicy(PolicyFile):
    """A GRPO adapter as evaluation loads it."""

    run = "grpo"

    def read(self) -> Any:
        diplomacy.open_player(self.file, language=diplomacy.LanguageOptions(1.0))
        return UNUSED


class PolicyManifest(PolicyFile):
    """manifest.json beside policies; a file that it does not list is read without its hash."""

    tensors = False
    harmless = ("delete", "rename final.pt", "rename step", "rename before")
    name = "manifest.json"

    def put(self, data: bytes) -> None:
        self.file.write_bytes(data)

    def read(self) -> Any:
        load_checkpoint(self.root / self.run / "final.pt")
        return UNUSED


class PoolIndex(Reader):
    """The pool, of which an evaluation plays every snapshot, without the run's other policies."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        for other in (root / "small").glob("step_*.pt"):
            other.unlink()

    def path(self) -> Path:
        return self.root / "small" / "pool" / "index.json"

    def read(self) -> Any:
        frozen_policies(self.root / "small", "cpu")
        return UNUSED


class PoolSnapshot(PoolIndex):
    tensors = True

    def path(self) -> Path:
        return max((self.root / "small" / "pool").glob("snapshot_*.pt"))

    def put(self, data: bytes) -> None:
        self.file.write_bytes(data)
        index = self.file.with_name("index.json")
        rows = json.loads(index.read_bytes())
        index.write_text(json.dumps([r | {"sha256": digest(data)} if r["name"] == self.file.stem else r for r in rows]))

    def read(self) -> Any:
        policy = frozen_policies(self.root / "small", "cpu")[-1].player.contestant
        pool = Pool(self.file.parent, 9, shape=policy.network.shape)
        return {"shape": policy.network.shape, "weights": pool.load(self.file.stem, "cpu")}


class LeagueRegistry(Reader):
    def path(self) -> Path:
        return self.root / "grpo" / "league.json"

    def dump(self, content: Any) -> Any:
        if "sha256" in content and "agents" in content and "results" in content:
            inner = {name: content[name] for name in ("agents", "results")}
            content["sha256"] = digest(json.dumps(inner, sort_keys=True, separators=(",", ":")).encode())
        return content

    def read(self) -> Any:
        from sparring.curriculum.league.file import write_league

        return write_league(LeagueFile(self.file.parent).read())


class Configuration(Reader):
    """Missing options have their defaults, and some may be any text; a resume compares the file's hash besides."""

    run = "small"
    harmless = ("delete", *(f"retype {text} to '7'" for text in ("name", "logger/wandb_project", "init_from")))

    def path(self) -> Path:
        return self.root / self.run / "config.yaml"

    def parse(self, data: bytes) -> Any:
        return yaml.safe_load(data)

    def read(self) -> Any:
        config: RunConfig = from_stored(RunFolder(self.file.parent).read_config())
        validate(config)
        return UNUSED


class LanguageConfiguration(Configuration):
    run = "grpo"


class SavedGame(Reader):
    name = "game.json"
    harmless = ("delete players",)

    def path(self) -> Path:
        return self.root / self.name

    def read(self) -> Any:
        game = saved_game.load(self.file)
        players = saved_game.load_players(self.file)
        return saved_game.write_game(game, players=players) if self.name == "game.json" else UNUSED


class PackageGame(SavedGame):
    """Its id, rules and messages are not read, and null is no value there; the last phase may lack orders."""

    name = "package_game.json"
    harmless = (
        "rename id",
        "rename rules",
        "rename map",
        "delete",
        "retype id",
        "retype rules",
        "retype map to 'None'",
        "retype phases/0/messages",
        "rename phases/4/orders",
        *(f"retype phases/4/{part} to '[]'" for part in ("orders", "results")),
        *(f"rename phases/{number}/results" for number in range(10)),
    )


class Evaluation(Reader):
    """Only conditions and records are read."""

    harmless = (*(f"{kind} {place}" for kind, place in product(KINDS, UNREAD)), "delete env", "rename env")

    def path(self) -> Path:
        return self.root / "small" / "eval.json"

    def read(self) -> Any:
        read_results(str(self.file))
        return UNUSED


class ModelFolder(Reader):
    """A cloned model; weights and tokenizer are verified by the manifest."""

    name = "config.json"
    # transformers has defaults, and ignores what does not concern the weights.
    harmless = ("delete", "rename", "retype", "negative", "not finite")

    def path(self) -> Path:
        return self.root / "clone" / "final" / self.name

    def put(self, data: bytes) -> None:
        self.file.write_bytes(data)
        manifest = self.file.with_name("manifest.json")
        plain = json.loads(manifest.read_bytes())
        plain["files"][self.name] = {"sha256": digest(data)}
        manifest.write_text(json.dumps(plain))

    def read(self) -> Any:
        model, _ = load_model(LanguageModelConfig(name=str(self.file.parent)))
        model(torch.ones(1, 2, dtype=torch.int64))
        return UNUSED


class ModelFolderManifest(ModelFolder):
    name = "manifest.json"
    harmless = (
        "delete files/",
        "rename files/",
        "delete training/",
        "rename training/",
        "retype training/config",
        *UNREAD_CONFIG,
    )

    def put(self, data: bytes) -> None:
        self.file.write_bytes(data)


class StableBaselines(Reader):
    """The zip of a policy."""

    def path(self) -> Path:
        return self.root / "model.zip"

    def parse(self, data: bytes) -> Any:
        return {}

    def read(self) -> Any:
        policy = load_policy(self.file, "cpu").contestant
        assert isinstance(policy, Policy)
        policy.act(torch.zeros(2, policy.network.obs_dim))
        return UNUSED


READERS: dict[str, Callable[[Path], Reader]] = {
    "policy": PolicyFile,
    "diplomacy policy": DiplomacyPolicy,
    "gymnasium policy": GymnasiumPolicy,
    "adapter": AdapterPolicy,
    "policy manifest": PolicyManifest,
    "pool index": PoolIndex,
    "pool snapshot": PoolSnapshot,
    "league": LeagueRegistry,
    "config": Configuration,
    "language config": LanguageConfiguration,
    "saved game": SavedGame,
    "package game": PackageGame,
    "evaluation": Evaluation,
    "model folder": ModelFolder,
    "model manifest": ModelFolderManifest,
    "sb3": StableBaselines,
}
