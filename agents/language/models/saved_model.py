"""Language models as folders that transformers loads, published atomically, with a hash of every file.

    config.json   model.safetensors   tokenizer.json   tokenizer_config.json   manifest.json

The folder appears in one step and replaces an earlier one. `manifest.json` holds each file's SHA-256, since neither
transformers nor a disk notices a flipped bit in a weight, and a summary of how the model was made.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from typing_extensions import TypedDict

from sparring.configs.core.errors import InputError
from sparring.configs.core.files import publish_folder, read_json, read_regular
from sparring.configs.core.tensor_file import sha256
from sparring.configs.core.typed import ContentError, Count, Digest, Flag, Plain, Text, read

MANIFEST = "manifest.json"
WEIGHTS = "model.safetensors"


class ModelFileEntry(TypedDict):
    """Entry of a file in the manifest."""

    sha256: Digest


class ModelTraining(TypedDict, total=False):
    """Summary of a model's training."""

    run: Text
    seed: Count
    updates: Count
    decisions: Count
    interrupted: Flag


class ModelManifest(TypedDict):
    """Content of manifest.json."""

    files: dict[str, ModelFileEntry]
    training: Plain


class SavedModelError(InputError):
    """A damaged model folder; the message is one line naming the file."""


def save_model(path: Path, model: Any, tokenizer: Any, *, training: Mapping[str, Any]) -> None:
    """Publish a transformers model and its tokenizer as the folder `path`, with a summary of plain data.

    Equal arguments give equal bytes. Raises `OSError` if it cannot be written; `path` is then unchanged.
    """
    files = {"config.json": _config(model), WEIGHTS: _weights(model), **_tokenizer_files(tokenizer)}
    hashes = {name: {"sha256": sha256(data)} for name, data in sorted(files.items())}
    manifest = json.dumps({"files": hashes, "training": dict(training)}, indent=1) + "\n"
    publish_folder(path, files | {MANIFEST: manifest.encode()})


def is_ours(path: Path) -> bool:
    """Return True if the manifest is one of `save_model`, or exists but cannot be read."""
    try:
        manifest = read_json(path / MANIFEST, follow=True)
    except FileNotFoundError:
        return False
    except (OSError, ValueError, RecursionError):
        return True
    return isinstance(manifest, dict) and bool(manifest.keys() & {"files", "training"})


def verify_model(path: Path) -> dict[str, Any]:
    """Check a folder that `save_model` wrote against its manifest; return the summary of the training.

    Raises `SavedModelError` if a file is missing or altered.
    """
    try:
        manifest = read(ModelManifest, read_json(path / MANIFEST, follow=True))
        read(ModelTraining, manifest["training"], "training")
    except ContentError as error:
        raise SavedModelError(f"{path / MANIFEST}: is damaged, {error}; save the model again") from error
    except (OSError, ValueError, RecursionError) as error:
        raise SavedModelError(f"{path / MANIFEST}: is missing or damaged") from error
    for name, entry in manifest["files"].items():
        file, digest = path / name, entry["sha256"]
        if file.parent != path:
            raise SavedModelError(f"{path / MANIFEST}: files.{name}: must be a file in the same folder")
        try:
            data = read_regular(file, follow=True)
        except OSError as error:
            raise SavedModelError(f"{file}: cannot be read ({error.strerror})") from error
        if sha256(data) != digest:
            raise SavedModelError(f"{file}: is damaged or was replaced: its SHA-256 does not match {MANIFEST}")
    return manifest["training"]


def _config(model: Any) -> bytes:
    """Return the model's configuration, with its class."""
    plain = json.loads(model.config.to_json_string(use_diff=True))
    plain["architectures"] = [type(model).__name__]
    return (json.dumps(plain, indent=2, sort_keys=True) + "\n").encode()


def _weights(model: Any) -> bytes:
    """Return the weights; of weights that share memory (output and embedding) the first, since loading ties them."""
    from safetensors.torch import save

    weights: dict[str, torch.Tensor] = {}
    places: set[int] = set()
    for name, weight in model.state_dict().items():
        if weight.data_ptr() not in places:
            weights[name] = weight.detach().to("cpu", copy=True).contiguous()
        places.add(weight.data_ptr())
    return save(weights, metadata={"format": "pt"})


def _tokenizer_files(tokenizer: Any) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.is_file()}
