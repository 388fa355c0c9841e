"""Training states of every trainer, read by the resumed run."""

from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any

from sparring.agents.run.fit import restore
from sparring.agents.run.folder import RunFolder
from sparring.agents.run.session import RunSession
from sparring.agents.trainers import load_trainer
from sparring.configs.core.tensor_file import unpack
from sparring.configs.serialization import from_stored
from tests.fuzz.reader import UNUSED, Reader, canonical, digest

KINDS = ("delete", "rename")
OPTIMIZERS = ("learner/optimizer/param_groups/0", "imitator/optimizer/param_groups/0")
OPTIONS = (
    *("betas", "eps", "weight_decay", "decoupled_weight_decay", "amsgrad", "maximize"),
    *("foreach", "capturable", "differentiable", "fused"),
)


class Resume(Reader):
    """A training state, read by the resumed run, which then does one update."""

    tensors = True
    harmless = (
        # Options of an optimizer follow from the configuration; another version of torch has others.
        *(f"{kind} {place}/{option}" for kind, place, option in product(KINDS, OPTIMIZERS, OPTIONS)),
        "not finite guard/detectors/recent/",  # left out when read
    )
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
            guard = {"guard": session.guard.state_dict()} if session.guard else {}
            used = self.trainer.state_dict() | guard
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
    harmless = (*Resume.harmless, "delete base", "rename base")

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
    """The manifest beside a state, its summary's digest made right.

    What only reports need may be missing. So may the hashes of other files, which earlier states do not have; and facts
    on the machine, which a resume then names as another machine's.
    """

    harmless = tuple(
        f"{kind} summary/{key}"
        for kind in ("delete", "rename")
        for key in (
            *("run", "config_sha256", "env_steps", "processes", "device", "torch", "pool"),
            *("policies", "logs_sha256", "fingerprint", "minibatch"),
        )
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
