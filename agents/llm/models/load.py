"""Language models by name: ours, SmolLM2 from its package, or any causal language model of transformers on this disk.

Nothing is downloaded, no code that comes with a model is run, and weights are read only from safetensors, which hold
only numbers. A folder is in the form of `save_pretrained`: config.json, model.safetensors (or its parts) and
tokenizer.json.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from sparring.agents.llm.decoding.output_layer import ModelError
from sparring.agents.llm.models.declared_sizes import check_sizes
from sparring.agents.llm.models.quiet import quietly
from sparring.agents.llm.models.saved_model import is_ours, verify_model
from sparring.agents.llm.models.smollm2 import smollm2_folder
from sparring.configs.core.device import choose_device
from sparring.configs.core.errors import suggestion
from sparring.configs.core.files import naming_files
from sparring.configs.core.paths import CHECKPOINTS, SHIPPED
from sparring.configs.core.regular_file import check_file, read_regular_text
from sparring.configs.language import LanguageModelConfig

TINY = SHIPPED / "released" / "tiny"
PACKAGES = ("transformers", "tokenizers", "safetensors", "peft")
NAMED = ("tiny", "smollm2")
FINAL, MODEL_FILE = "final", "config.json"
"""Model folder of a cloning run, and a file that every model folder has."""
CODE = "auto_map"
"""Key in config.json with the names of code that comes with a model."""


def load_model(config: LanguageModelConfig, *, device: str = "cpu") -> tuple[Any, Any]:
    """Return the model `config.name`, in evaluation mode and float32, and its tokenizer.

    Raises `ModelError` if there is none or a package is missing, and for a model that needs code of its own, is pickled
    or incomplete, `SavedModelError` for one of ours with a file that differs from the one saved, and `InputError` for
    files that the disk does not give.
    """
    folder = model_folder(config.name)
    with naming_files(folder):
        _check_folder(folder)
        if is_ours(folder):
            verify_model(folder)
        check_sizes(folder)
        model, tokenizer = read_model(folder), read_tokenizer(folder)
    if len(tokenizer) > (known := model.get_input_embeddings().num_embeddings):
        raise ModelError(f"model {folder}: knows {known} tokens, its tokenizer writes {len(tokenizer)}")
    return model.to(choose_device(device)), tokenizer


def model_folder(name: str) -> Path:
    """Return the folder of a model; smollm2 is converted on first use.

    Raises `ModelError` if there is none, with the nearest name.
    """
    check_packages()
    if name == "tiny":
        return _tiny()
    if name == "smollm2":
        return smollm2_folder()
    return find_model(name) or _cached(name)


def find_model(name: str) -> Path | None:
    """Return the folder of the model `name`, None if there is none.

    It is a folder, or final/ of a run, searched in the working directory, the repository and its checkpoints folder,
    so that a run's name suffices. An existing path without a model is returned too; the caller rejects it.
    """
    path = Path(name).expanduser()
    places = (Path(), CHECKPOINTS.parent, CHECKPOINTS)
    folders = [place / inner for inner in (path, path / FINAL) for place in places]
    try:
        found = next((folder for folder in folders if (folder / MODEL_FILE).is_file()), None)
        return found or (path if path.exists() else None)
    except (OSError, ValueError):  # too long, or with a zero byte in it
        return None


def check_packages() -> None:
    """Raise `ModelError` if a package for language models is missing."""
    missing = next((name for name in PACKAGES if find_spec(name) is None), None)
    if missing:
        raise ModelError(f"language models need the package {missing}: pip install 'sparring[llm]'")


def read_model(folder: Path) -> Any:
    """Return the causal language model in a checked folder; raises `ModelError` if it cannot be read."""
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    reader: Any = AutoModelForCausalLM
    options = {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True, "dtype": torch.float32}
    try:
        with quietly():
            model, found = reader.from_pretrained(folder, output_loading_info=True, **options)
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, ImportError, SafetensorError) as error:
        raise ModelError(f"model {folder}: cannot be loaded ({error})") from error
    if found["missing_keys"]:
        missing = sorted(found["missing_keys"])
        raise ModelError(f"model {folder}: {len(missing)} weights are missing, such as {missing[0]}")
    return model.eval()


def read_tokenizer(folder: Path) -> Any:
    """Return the tokenizer in a folder; raises `ModelError` if it cannot be read."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # errors of tokenizers have no common class
        raise ModelError(f"model {folder}: its tokenizer cannot be loaded ({error})") from error


def _tiny() -> Path:
    """Return the folder of the released tiny model."""
    if not TINY.is_dir():
        raise ModelError(
            f"there is no tiny model in {TINY}: make one with `python train.py +run=diplomacy_clone name=clone`"
            " and give its name, model.name=clone"
        )
    return TINY


def _cached(name: str) -> Path:
    """Return the folder of a model in Hugging Face's cache on this disk."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"model.name={name}: is neither tiny, smollm2, a run that cloned a bot, a folder, nor in Hugging Face's"
            " cache on this disk; nothing is downloaded here, so fetch others first with `hf download`"
            f"{suggestion(name, _known())}"
        ) from error


def _known() -> list[str]:
    """Return the valid model names: ours, and runs with a model."""
    return [*NAMED, *sorted(path.parents[1].name for path in CHECKPOINTS.glob(f"*/{FINAL}/{MODEL_FILE}"))]


def _check_folder(folder: Path) -> None:
    """Raise `ModelError` for a folder without a model, with code of its own, or with pickled weights."""
    file = folder / MODEL_FILE
    try:
        content = json.loads(read_regular_text(file, follow=True))
    except OSError as error:
        raise ModelError(f"model {folder}: has no config.json that can be read ({error.strerror})") from error
    except ValueError as error:
        raise ModelError(f"model {folder}: its config.json is damaged") from error
    if not isinstance(content, dict) or CODE in content:
        raise ModelError(f"model {folder}: would run code of its own, which is not done here")
    for path in folder.iterdir():  # transformers would wait for a FIFO and read a device without end
        if not path.is_dir():
            check_file(path, follow=True)
    if not list(folder.glob("*.safetensors")):
        pickled = [path.name for path in sorted([*folder.glob("*.bin"), *folder.glob("*.pt")])]
        found = f"only {pickled[0]}, which is a pickle" if pickled else "no weights"
        raise ModelError(f"model {folder}: has {found}; save it with safetensors")
