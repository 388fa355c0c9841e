"""What is read, how a changed file is put in its place with the hashes beside it, and the readers of the project.

Whoever changes a file can write its hashes as well, so they are always right here: the types alone protect.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import torch
import yaml

from sparring.agents.llm.models.load import load_model
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.policies.policy import Policy
from sparring.agents.run.fit import restore
from sparring.agents.run.folder import RunFolder
from sparring.agents.run.session import RunSession
from sparring.agents.trainers import load_trainer
from sparring.configs.core.tensor_file import unpack
from sparring.configs.language import LanguageModelConfig
from sparring.configs.migrations import from_stored
from sparring.configs.schema import RunConfig
from sparring.configs.validate import validate
from sparring.curriculum.league.file import LeagueFile
from sparring.curriculum.pool import Pool
from sparring.envs.diplomacy.records import saved_game
from sparring.eval import episodes
from sparring.eval.diplomacy import models
from sparring.eval.dogfight.players import load_policy
from sparring.eval.dogfight.snapshots import frozen_policies
from sparring.eval.stats.results import read_results

KINDS = ("delete", "rename", "retype", "negative", "not finite")
COLUMNS = ("player", "by_seat", "length", "own_hp", "their_hp", "pairs", "draws", "losses", "win_rate", "interval")
UNREAD = (
    *("notes", "summary", "run", "checkpoint", "command", "training", "player", "device"),
    *(f"records/0/{column}" for column in COLUMNS),
)
"""Parts of an eval.json that nothing reads."""
UNUSED = object()
"""Result of a reader that does not say what it took over."""


class Reader:
    """One kind of file: its valid content, and `put` and `read` for a changed one.

    `read` returns the content that is in use afterwards, or `UNUSED`. `harmless` names changes, by the beginning of
    their text, that a reader may take; `tensors` is true for tensor files.
    """

    tensors = False
    harmless: tuple[str, ...] = ()

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = self.path()
        self.data = self.file.read_bytes()
        self.original = self.parse(self.data)

    def path(self) -> Path:
        """Return the file."""
        raise NotImplementedError

    def parse(self, data: bytes) -> Any:
        """Return the content of a valid file."""
        return unpack(data) if self.tensors else json.loads(data)

    def dump(self, content: Any) -> Any:
        """Return changed content with the digests inside it made right."""
        return content

    def put(self, data: bytes) -> None:
        """Write the file and the hashes of it elsewhere."""
        self.file.write_bytes(data)

    def read(self) -> Any:
        """Read the file as the program does."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what reading needs."""


def digest(data: bytes) -> str:
    """Return the SHA-256 as files hold it."""
    return sha256(data).hexdigest()


def canonical(plain: Any) -> bytes:
    """Return plain data in the form that summaries are hashed in."""
    return json.dumps(plain, sort_keys=True).encode()


class Resume(Reader):
    """A training state, read by the resumed run, which then does one update."""

    tensors = True
    run = ""

    def __init__(self, root: Path) -> None:
        self.state = max((root / self.run / "state").glob("update_*"))
        super().__init__(root)
        folder, place = RunFolder(root / self.run), self.state / "manifest.json"
        self.config = from_stored(folder.read_config())
        self.manifest = json.loads(place.read_bytes())
        self.manifest["summary"]["config_sha256"] = folder.fingerprint()
        self.manifest["summary_sha256"] = digest(canonical(self.manifest["summary"]))
        place.write_text(json.dumps(self.manifest))
        self.files = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
        make, _ = load_trainer(self.config.trainer)
        self.trainer = make(self.config)

    def path(self) -> Path:
        return self.state / "state.pt"

    def put(self, data: bytes) -> None:
        self._restore()
        self.file.write_bytes(data)
        manifest = self.manifest | {"sha256": digest(data), "bytes": len(data)}
        (self.state / "manifest.json").write_text(json.dumps(manifest))

    def _restore(self) -> None:
        shutil.rmtree(self.root / self.run)
        for path, data in self.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def read(self) -> Any:
        with RunSession(self.config, total=9) as session:
            restore(self.trainer, session)
            used = self.trainer.state_dict() | {"guard": session.guard.state_dict()} if session.guard else {}
            found = session.found
            used = unpack_copy(used)  # the logs are cut to their length
            if found is not None:
                self.go_on()
            return used

    def go_on(self) -> None:
        """Do one update."""
        if not self.trainer.position:
            return
        self.trainer.update()
        self.trainer.evaluate()

    def close(self) -> None:
        self.trainer.close()


def unpack_copy(content: Any) -> Any:
    """Return content as it would be read back."""
    from sparring.configs.core.tensor_file import pack

    return unpack(pack(content))


class SelfPlayState(Resume):
    run = "small"


class DiplomacyState(Resume):
    run = "diplomacy"


class GymnasiumState(Resume):
    """Its statistics go on with the first observations."""

    run = "gymnasium"

    def read(self) -> Any:
        used = super().read()
        del used["gymnasium"]["observations"]
        return used


class CloneState(Resume):
    run = "clone"

    def go_on(self) -> None:
        self.trainer.update()


class GRPOState(Resume):
    """Without the workers, which would play the unfinished plans; older states do not name their base model."""

    run = "grpo"
    harmless = ("delete base", "rename base")

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.trainer._new_players = Idle

    def go_on(self) -> None:
        pass


class Idle:
    """Workers that play nothing."""

    def __init__(self) -> None:
        self.tasks: list[Any] = []

    def submit(self, job: Any) -> None:
        self.tasks.append(job)

    def close(self) -> None:
        pass


class StateManifest(Reader):
    """The manifest beside a state, its summary's digest made right; what only reports need may be missing."""

    harmless = tuple(
        f"{kind} summary/{key}"
        for kind in ("delete", "rename")
        for key in ("run", "config_sha256", "env_steps", "processes", "device", "torch", "pool")
    )

    def __init__(self, root: Path) -> None:
        self.resume = SelfPlayState(root)
        super().__init__(root)

    def path(self) -> Path:
        return self.resume.state / "manifest.json"

    def dump(self, content: Any) -> Any:
        if "summary" in content and "summary_sha256" in content:
            content["summary_sha256"] = digest(canonical(content["summary"]))
        return content

    def put(self, data: bytes) -> None:
        self.resume._restore()
        self.file.write_bytes(data)

    def read(self) -> Any:
        self.resume.read()
        return UNUSED

    def close(self) -> None:
        self.resume.close()


class PolicyFile(Reader):
    """A dogfight policy as evaluation loads it."""

    tensors = True
    run, name = "small", "final.pt"
    # The summary's keys are optional, and its configuration is read elsewhere; the first policies had one activation.
    harmless = (
        *("delete training/", "rename training/", "retype training/config/", "negative training/config/"),
        *("not finite training/config/", "delete shape/activation"),
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
        network = models.load(self.file, temperature=1.0, device="cpu")
        network.act(torch.zeros(2, network.obs_dim))
        found = load_checkpoint(self.file)
        return self.used(network, found.contract, found.training)


class GymnasiumPolicy(PolicyFile):
    run = "gymnasium"

    def read(self) -> Any:
        found = episodes._load(self.file, "cpu")
        envs = episodes.make_envs(found, 1, 0, "cpu")
        envs.step(found.network.act(envs.obs, deterministic=True)[0])
        envs.close()
        return self.used(found.network, found.contract, found.training)


class AdapterPolicy(PolicyFile):
    """A GRPO adapter as evaluation loads it."""

    run = "grpo"

    def read(self) -> Any:
        models.load(self.file, temperature=1.0, device="cpu")
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
    def path(self) -> Path:
        return self.root / "small" / "pool" / "index.json"

    def read(self) -> Any:
        frozen_policies(self.root / "small", "cpu")
        return UNUSED


class PoolSnapshot(Reader):
    tensors = True

    def path(self) -> Path:
        return max((self.root / "small" / "pool").glob("snapshot_*.pt"))

    def put(self, data: bytes) -> None:
        self.file.write_bytes(data)
        index = self.file.with_name("index.json")
        rows = json.loads(index.read_bytes())
        index.write_text(json.dumps([r | {"sha256": digest(data)} if r["name"] == self.file.stem else r for r in rows]))

    def read(self) -> Any:
        policy = frozen_policies(self.root / "small", "cpu")[-1].entrant.contestant
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
        from sparring.curriculum.league.serialization import write_league

        return write_league(LeagueFile(self.file.parent).read())


class Configuration(Reader):
    """Missing options have their defaults; a resume compares the file's hash besides."""

    run = "small"
    harmless = ("delete",)

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
    """Its id and rules are not read, and null is no value there."""

    name = "package_game.json"
    harmless = (
        "rename id",
        "rename rules",
        "rename map",
        "delete",
        "retype id",
        "retype rules",
        "retype map to 'None'",
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
    harmless = ("delete files/", "rename files/", "delete training/", "rename training/", "retype training/config")

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
    "self-play state": SelfPlayState,
    "diplomacy state": DiplomacyState,
    "gymnasium state": GymnasiumState,
    "clone state": CloneState,
    "grpo state": GRPOState,
    "state manifest": StateManifest,
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
