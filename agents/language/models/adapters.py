"""Adapters on one base model: the learner's, which is trained, and any number of frozen ones; their files.

LoRA: a weight W of a chosen layer becomes W + (alpha / r) B A (Hu et al. 2021). B = 0 initially, so a new adapter plays
like the base. Adapters have no dropout: with it, the trained policy would differ from the one that played.

Frozen adapters are stored as tensors on the CPU. To play, one is copied into a slot of the model; there is one slot per
shape, so a league of hundreds needs only two adapters on the device. This never changes the learner's weights. The base
plays with all adapters disabled.

Adapters, training states and leagues are valid only for their base, so they hold its hash. It covers name, shape and
all values of all weights except the adapters'. Older hashes, without the prefix "all:", cover only the first 256 values
of each weight. A second hash covers the next-token cross-entropy of made-up text.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import cross_entropy
from typing_extensions import TypedDict

from sparring.agents.language.backend import ModelError
from sparring.agents.language.decoding.forward import all_logits, backbone, plain, without_dropout
from sparring.agents.run.fidelity import minibatch_sha256
from sparring.configs.core.archive import TensorFileError
from sparring.configs.core.errors import InputError, choose
from sparring.configs.core.manifest import ManifestError, TrainingStateError, read_listed, write_listed
from sparring.configs.core.tensor_file import Tensors, check_tensor, pack, unpack
from sparring.configs.core.typed import Count, NotNegative, Plain, Positive, Text, naming, read, require, shown
from sparring.configs.games import ADAPTER
from sparring.configs.language import LORA_TARGETS, LanguageModelConfig

ALL = "all:"
SAMPLED = 256
_KNOWN: WeakKeyDictionary[Module, tuple[object, str]] = WeakKeyDictionary()
"""For each hashed model, the addresses and version counters of its weights, and the hash."""
_DIVIDED: WeakKeyDictionary[Module, dict[int | None, str]] = WeakKeyDictionary()
"""The hashes of models whose weights are divided among processes, taken before."""
ROWS, TOKENS, SCORED = 2, 32, 4
"""Rows, tokens a row, and tokens a row with logits: the whole vocabulary for all of them would be large."""


def base_identity(model: Any) -> str:
    """Return a hash that identifies the base model; adapters do not change it."""
    base = plain(model)
    if base in _DIVIDED:
        return ALL + _DIVIDED[base][None]
    stamp = tuple((value.data_ptr(), value._version) for _, value in _weights(base))
    if base not in _KNOWN or _KNOWN[base][0] != stamp:
        _KNOWN[base] = (stamp, ALL + _hash(base))
    return _KNOWN[base][1]


def first_identity(model: Any) -> str:
    """Return the hash of the first values of each weight, the earlier form."""
    base = plain(model)
    return _DIVIDED[base][SAMPLED] if base in _DIVIDED else _hash(base, SAMPLED)


def identity_like(written: str, model: Any) -> str:
    """Return the hash of `model` in the form of the hash `written`, for comparison."""
    return base_identity(model) if written.startswith(ALL) else first_identity(model)


def _hash(base: Module, most: int | None = None) -> str:
    digest = hashlib.sha256()
    for name, value in _weights(base):
        digest.update(f"{name.replace('.base_layer', '')} {tuple(value.shape)}".encode())
        digest.update(value.flatten()[:most].float().cpu().numpy().data)
    return digest.hexdigest()[:16]


def _weights(base: Module) -> Iterator[tuple[str, Tensor]]:
    """Yield all weights except the adapters', in the order of their names."""
    for name, parameter in sorted(base.named_parameters()):
        if ".lora_" not in name:
            yield name, parameter.detach()


def language_model_sha256(model: Any, parameters: Iterable[Tensor]) -> str:
    """Return the hash of the loss of `model` and of its gradients in `parameters`; dropout is off."""

    def loss(generator: torch.Generator) -> Tensor:
        vocabulary = plain(model).get_input_embeddings().num_embeddings
        tokens = torch.randint(vocabulary, (ROWS, TOKENS + 1), generator=generator).to(next(model.parameters()).device)
        hidden = backbone(model)(input_ids=tokens[:, :-1], use_cache=False).last_hidden_state[:, -SCORED:]
        return cross_entropy(all_logits(model, hidden.flatten(0, 1)), tokens[:, -SCORED:].flatten())

    with without_dropout(model):
        return minibatch_sha256(loss, parameters)


ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
LAYERS = {"attention": ATTENTION, "all": (*ATTENTION, "gate_proj", "up_proj", "down_proj")}
"""Layer names of Llama and most others."""
GPT2_LAYERS = {"attention": ("c_attn", "attn.c_proj"), "all": ("c_attn", "c_proj", "c_fc")}
LEARNER, BASE = "learner", "base"

Weights = Mapping[str, Tensor]
VERSION = 1


@dataclass(frozen=True)
class LoraShape:
    """Shape of an adapter; `targets` is attention or all."""

    rank: int
    alpha: float
    targets: str = "attention"

    @classmethod
    def of(cls, model: LanguageModelConfig) -> LoraShape:
        """Return the shape of a configuration."""
        return cls(model.lora_rank, 2.0 * model.lora_rank, model.lora_targets)


def lora_config(model: Any, shape: LoraShape) -> LoraConfig:
    """Return the peft configuration; raises `ModelError` for a model with other layer names."""
    choose("lora_targets", shape.targets, LORA_TARGETS)
    names = [name for name, _ in model.named_modules()]
    for layers in (LAYERS, GPT2_LAYERS):
        targets = layers[shape.targets]
        if all(any(f".{name}".endswith(f".{layer}") for name in names) for layer in targets):
            return LoraConfig(
                r=shape.rank,
                lora_alpha=shape.alpha,  # type: ignore[arg-type]
                target_modules=list(targets),
                fan_in_fan_out=layers is GPT2_LAYERS,
                task_type="CAUSAL_LM",
            )
    raise ModelError(
        f"{type(model).__name__} has no layers {', '.join(LAYERS[shape.targets])}: LoRA supports models built like"
        " Llama or GPT-2; try model.lora_targets=attention"
    )


def lora_parameters(model: Any, adapter: str) -> dict[str, torch.nn.Parameter]:
    """Return the parameters of one adapter of a peft model, by names without the adapter's name."""
    parameters = {}
    for name, parameter in model.named_parameters():
        before, _, after = name.partition(f".{adapter}.")
        if ".lora_" in before and after:
            parameters[f"{before.removeprefix('base_model.model.')}.{after}"] = parameter
    return parameters


class AdapterError(InputError):
    """An adapter that does not fit or cannot be read; the message is one line with its name and the problem."""


class Adapters:
    """LoRA on `model`, which is wrapped permanently: use `self.model`, a peft model.

    The learner's initial weights depend on `seed`. Frozen adapters have any name but "learner" and "base".
    """

    def __init__(self, model: Any, shape: LoraShape, *, seed: int = 0) -> None:
        self.shape = shape
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # a message of transformers to peft
            torch.manual_seed(seed)
            self.model: Any = get_peft_model(model, lora_config(model, shape), adapter_name=LEARNER)
        self._frozen: dict[str, tuple[LoraShape, dict[str, Tensor]]] = {}
        self._slots: dict[LoraShape, str] = {}
        self._held: dict[str, str] = {}
        """Frozen adapter in each slot."""

    def divide(self, device: torch.device) -> None:
        """Divide the frozen weights of the layers among the processes of the group (FSDP2, `fully_shard`).

        A process holds its part, and all of a layer only while it computes it. Adapters, embeddings and the head stay
        whole. From now on all processes must make every pass through the model together. Nothing changes its results.
        """
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        base = plain(self.model)
        _DIVIDED[base] = {most: _hash(base, most) for most in (None, SAMPLED)}
        adapters = {parameter for name, parameter in self.model.named_parameters() if ".lora_" in name}
        mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
        layers = next(part for part in backbone(self.model).children() if isinstance(part, torch.nn.ModuleList))
        for layer in layers:
            fully_shard(layer, mesh=mesh, reshard_after_forward=True, ignored_params=adapters)
        # The buffers of whole layers are made in the first pass; made in inference mode, they could not be
        # differentiated through later.
        with torch.no_grad(), without_dropout(self.model):
            backbone(self.model)(input_ids=torch.zeros(1, 1, dtype=torch.int64, device=device), use_cache=False)

    @property
    def names(self) -> list[str]:
        """Names of the frozen adapters."""
        return list(self._frozen)

    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """Return the learner's parameters, by name."""
        return lora_parameters(self.model, LEARNER)

    def weights(self) -> dict[str, Tensor]:
        """Return copies of the learner's weights, on the CPU."""
        return {key: value.detach().to("cpu", copy=True) for key, value in self.parameters().items()}

    def restore(self, weights: Weights, shape: LoraShape | None = None) -> None:
        """Copy `weights` into the learner, bit for bit. Raises `AdapterError` if they do not fit.

        It is also raised if their `shape`, where known, is not the learner's: equal weights with another alpha are
        another policy.
        """
        if shape not in (None, self.shape):
            raise AdapterError(
                f"the adapter was made with {_options(shape)}, the model has {_options(self.shape)}; use the adapter's"
            )
        _copy(weights, self.parameters(), LEARNER)

    def add(self, name: str, weights: Weights, shape: LoraShape | None = None) -> None:
        """Store copies of `weights` as a frozen adapter, replacing one of that name; `shape` if not the learner's.

        Raises `AdapterError` if they do not fit the model.
        """
        if name in (LEARNER, BASE):
            raise AdapterError(f"adapter {name!r}: this name is reserved for the {name} itself; choose another")
        slot = self._slot(shape or self.shape)
        _copy(weights, lora_parameters(self.model, slot), name)
        copies = {key: value.detach().to("cpu", copy=True) for key, value in weights.items()}
        self._frozen[name], self._held[slot] = (shape or self.shape, copies), name

    def remove(self, name: str) -> None:
        """Remove a frozen adapter."""
        del self._frozen[choose("adapter", name, self._frozen)]
        self._held = {slot: loaded for slot, loaded in self._held.items() if loaded != name}

    @contextmanager
    def playing(self, name: str) -> Iterator[None]:
        """Activate an adapter within the context: the learner, a frozen one, or "base" for none.

        Gradients reach the learner's weights only while the learner plays.
        """
        if name == LEARNER:
            yield
        elif name == BASE:
            with self.model.disable_adapter():
                yield
        else:
            self.model.set_adapter(self._load(name))
            try:
                yield
            finally:
                self.model.set_adapter(LEARNER)

    def _load(self, name: str) -> str:
        """Return the slot of a frozen adapter, after copying it there if necessary."""
        shape, weights = self._frozen[choose("adapter", name, [BASE, LEARNER, *self._frozen])]
        slot = self._slot(shape)
        if self._held.get(slot) != name:
            _copy(weights, lora_parameters(self.model, slot), name)
            self._held[slot] = name
        return slot

    def _slot(self, shape: LoraShape) -> str:
        if shape not in self._slots:
            slot = f"frozen_{len(self._slots)}"
            self.model.add_adapter(slot, lora_config(self.model.get_base_model(), shape))
            self.model.set_adapter(LEARNER)
            self._slots[shape] = slot
        return self._slots[shape]


def _options(shape: LoraShape) -> str:
    """Return a shape as command-line options, and its scale."""
    return f"model.lora_rank={shape.rank} model.lora_targets={shape.targets} (alpha {shape.alpha:g})"


@torch.no_grad()
def _copy(weights: Weights, parameters: Mapping[str, Tensor], name: str) -> None:
    """Copy an adapter's weights into parameters; raises `AdapterError` before any change."""
    shapes, expected = ({key: tuple(value.shape) for key, value in part.items()} for part in (weights, parameters))
    if shapes != expected:
        differing = sorted(key for key in shapes.keys() | expected.keys() if shapes.get(key) != expected.get(key))
        raise AdapterError(
            f"adapter {name!r} does not fit the model: {differing[0]} is {shapes.get(differing[0])},"
            f" the model has {expected.get(differing[0])}; use the adapter's model.lora_rank and model.lora_targets"
        )
    for key, parameter in parameters.items():
        parameter.copy_(weights[key])


class StoredLora(TypedDict):
    """A `LoraShape`."""

    rank: Positive
    alpha: NotNegative
    targets: Text


class StoredAdapter(TypedDict):
    """Content of a file, apart from format and version."""

    shape: StoredLora
    base: Text
    training: Plain
    weights: Tensors


class StoredAdapterTraining(TypedDict, total=False):
    """Summary of an adapter's training."""

    run: Text
    seed: Count
    step: Count
    decisions: Count


@dataclass(frozen=True)
class AdapterFile:
    """Content of a file: shape and weights of an adapter, the identity of its base, and data on its training."""

    shape: LoraShape
    weights: dict[str, Tensor]
    base: str
    training: dict[str, Any]


def save_adapter(
    path: Path, model: Any, shape: LoraShape, weights: Mapping[str, Tensor], *, training: Mapping[str, Any]
) -> None:
    """Write an adapter of `model` to `path`, and its entry to the folder's manifest; equal arguments give equal bytes.

    Raises `OSError` as `open` does, `AdapterError` for a damaged manifest.
    """
    header = {"format": ADAPTER, "version": VERSION, "base": base_identity(model)}
    body = {"shape": asdict(shape), "training": dict(training), "weights": dict(weights)}
    try:
        write_listed(path, pack(header | body))
    except ManifestError as error:
        raise AdapterError(str(error)) from error


def load_adapter(path: Path, model: Any = None) -> AdapterFile:
    """Read an adapter, and check that it belongs to `model` if one is given.

    Raises `AdapterError` for a file that is missing, damaged, not an adapter, of another version, or of another base.
    """
    try:
        content = unpack(read_listed(path))
    except OSError as error:
        raise AdapterError(f"{path}: cannot be read ({error.strerror})") from error
    except (ManifestError, TrainingStateError) as error:
        raise AdapterError(str(error)) from error
    except TensorFileError as error:
        raise AdapterError(f"{path}: {error}") from error
    adapter = _parse(path, content)
    if model is not None and adapter.base != identity_like(adapter.base, model):
        raise AdapterError(f"{path}: was trained on another base model: choose that one with model.name")
    return adapter


def _parse(path: Path, content: dict[str, Any]) -> AdapterFile:
    version = content.get("version")
    if content.get("format") != ADAPTER or type(version) is not int:
        raise AdapterError(f"{path}: is not an adapter of Sparring")
    if version != VERSION:
        raise AdapterError(f"{path}: has version {shown(version)}, this Sparring reads {VERSION}; update it")
    with naming(path, AdapterError, "restore it, or train another"):
        stored = read(StoredAdapter, content)
        read(StoredAdapterTraining, stored["training"], "training")
        _check_weights(stored["shape"], stored["weights"])
    return AdapterFile(LoraShape(**stored["shape"]), stored["weights"], stored["base"], stored["training"])


def _check_weights(shape: StoredLora, weights: dict[str, Tensor]) -> None:
    """Compare the shape with the stored matrices, A [rank, inputs] and B [outputs, rank], before a model has them."""
    rank, alpha, targets = shape["rank"], shape["alpha"], shape["targets"]
    require(targets in LORA_TARGETS, f"shape.targets={targets!r}: choose from {', '.join(LORA_TARGETS)}")
    require(alpha > 0, f"shape.alpha={alpha}: must be above 0")
    require(bool(weights), "weights: must not be empty")
    for name, weight in weights.items():
        axis = 0 if name.endswith(".lora_A.weight") else 1 if name.endswith(".lora_B.weight") else None
        require(axis is not None and weight.dim() == 2, f"weights.{name}: expected a lora_A or lora_B matrix")
        assert axis is not None
        require(weight.shape[axis] == rank, f"shape.rank={rank}: weights.{name} has {weight.shape[axis]}")
        check_tensor(weight, torch.empty(weight.shape, dtype=torch.float32, device="meta"), f"weights.{name}")
