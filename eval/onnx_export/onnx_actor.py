"""An ONNX model as the network of a `Policy`: the same actions for any number of matches at once.

A model may be written for one observation at a time. Its batch dimension is then set free and the result compared with
the model itself, one row at a time, on probe observations; where a graph does not allow that (a fixed reshape, an
operation across rows), every row is run by itself. Nothing is kept from call to call. A model exported by this project
states its contract; of any other, the version and the length of a step are taken to be today's.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.policy import Policy
from sparring.envs.dogfight.rules import ACTION_REPEAT, ENV_ID, VERSION
from sparring.eval.onnx_export.onnx_file import (
    MAX_BYTES,
    MAX_PARAMETERS,
    WANTED,
    OnnxError,
    OnnxFile,
    export_package,
)

TOLERANCE = 1e-5
"""Largest difference of turn and throttle between a row in a batch and the row alone."""
BATCH = "sparring_batch"
"""The name of the free dimension."""
_PROBES = 48
_LOW, _HIGH = np.array([-1.0, 0.0], np.float32), np.array([1.0, 1.0], np.float32)


class OnnxActor:
    """The part of `ActorCritic` that a `Policy` needs, run by onnxruntime on the CPU with `threads` threads.

    Raises `OnnxError` for a model that cannot be run, whose actions are not [1, 3] or not finite, or which answers the
    same observation differently when asked again.
    """

    def __init__(self, file: OnnxFile, *, device: str | torch.device = "cpu", threads: int = 1) -> None:
        self.path = file.path
        self.obs_dim = file.obs_dim
        self.log_std = torch.zeros(0, device=device)  # a Policy looks here for its device
        self._threads = threads
        self._single = _Session(file.model.SerializeToString(), threads, file)
        probes = probe_observations(file.obs_dim)
        expected = self._check(probes)
        self._batched = self._set_batch_free(file, probes, expected)

    @property
    def batched(self) -> bool:
        """Whether all rows are run at once."""
        return self._batched is not None

    def act(self, obs: Tensor, *, deterministic: bool = True, generator: object = None) -> tuple[Tensor, Tensor]:
        """Return actions [B, 3] for observations [B, D], and zeros [B], since the model states no probabilities.

        The model decides deterministically whatever `deterministic` and `generator` are.
        """
        actions = torch.from_numpy(self.run(obs.detach().cpu().numpy())).to(obs.device)
        return actions, torch.zeros(len(obs), device=obs.device)

    def run(self, observations: np.ndarray) -> np.ndarray:
        """Actions float32 [B, 3] for observations float32 [B, D]; raises `OnnxError` where the model fails on them."""
        if self._batched is not None:
            return self._batched.run(observations)
        return self._one_by_one(observations)

    def _one_by_one(self, observations: np.ndarray) -> np.ndarray:
        return np.concatenate([self._single.run(row[None]) for row in observations])

    def _check(self, probes: np.ndarray) -> np.ndarray:
        """The model's own actions for the probes."""
        expected = self._one_by_one(probes)
        if not np.isfinite(expected).all():
            bad = int((~np.isfinite(expected).all(axis=1)).sum())
            raise OnnxError(
                f"{self.path}: gives actions that are NaN or infinite for {bad} of {len(probes)} probe observations; "
                f"wanted are finite turn, throttle and shoot"
            )
        if not same_actions(expected, self._one_by_one(probes)):
            raise OnnxError(
                f"{self.path}: answers the same observation differently when asked again; wanted is a model without "
                f"random operators"
            )
        return expected

    def _set_batch_free(self, file: OnnxFile, probes: np.ndarray, expected: np.ndarray) -> _Session | None:
        """The model for any number of rows at once, or None where that changes what it does."""
        try:
            session = _Session(with_free_batch(file.model), self._threads, file)
            results = [session.run(probes[:count]) for count in (1, 3, len(probes))]
            reverse = session.run(np.ascontiguousarray(probes[::-1]))[::-1]
        except OnnxError:
            return None
        alike = all(same_actions(expected[: len(found)], found) for found in [*results, reverse])
        return session if alike else None


class _Session:
    """A model in onnxruntime, deterministic, with threads that sleep while they wait."""

    def __init__(self, data: bytes, threads: int, file: OnnxFile) -> None:
        runtime = export_package("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
        options.use_deterministic_compute = True
        options.log_severity_level = 4
        # Threads that spin while they wait take the cores from the simulator, whose turn it is.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._path = file.path
        try:
            self._session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # a crafted or foreign model may fail in any way
            raise OnnxError(f"{self._path}: cannot be run by onnxruntime {runtime.__version__} ({error})") from error
        self._input = self._session.get_inputs()[0].name

    def run(self, observations: np.ndarray) -> np.ndarray:
        """Actions float32 [B, 3] for observations float32 [B, D]."""
        try:
            (actions,) = self._session.run(None, {self._input: observations})
        except Exception as error:  # likewise
            raise OnnxError(f"{self._path}: fails on {list(observations.shape)} observations ({error})") from error
        if actions.dtype != np.float32 or actions.size != 3 * len(observations) or actions.shape[-1] != 3:
            found = f"{actions.dtype} {list(actions.shape)}"
            raise OnnxError(f"{self._path}: answers {len(observations)} observations with {found}; wanted is {WANTED}")
        return actions.reshape(len(observations), 3)


def with_free_batch(model: Any) -> bytes:
    """The model with the first dimension of its input and output left open."""
    copy = type(model)()
    copy.CopyFrom(model)
    weights = {tensor.name for tensor in copy.graph.initializer}
    for value in [*(found for found in copy.graph.input if found.name not in weights), *copy.graph.output]:
        if value.type.tensor_type.shape.dim:
            value.type.tensor_type.shape.dim[0].dim_param = BATCH
    del copy.graph.value_info[:]  # shapes of what lies between, inferred for the old dimension
    return bytes(copy.SerializeToString())


def probe_observations(obs_dim: int) -> np.ndarray:
    """Observations float32 [48, D], always the same: random in [-1, 1], one of zeros, one of a first frame alone."""
    probes = np.random.default_rng(0).uniform(-1.0, 1.0, (_PROBES, obs_dim)).astype(np.float32)
    probes[1] = 0.0
    probes[2, obs_dim // 4 :] = 0.0  # under challenge rules a match begins with three empty frames
    return probes


def same_actions(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether actions [B, 3] do the same: equal shots, and turn and throttle within `TOLERANCE` once clamped."""
    steering = [np.clip(actions[:, :2], _LOW, _HIGH) for actions in (one, other)]
    close = np.abs(steering[0] - steering[1]) <= TOLERANCE
    return bool(close.all() and np.array_equal(one[:, 2] > 0.0, other[:, 2] > 0.0))


def contract_of(file: OnnxFile) -> dict[str, Any]:
    """The contract under which the model was trained, as far as the file tells."""
    game = {"id": ENV_ID, "version": VERSION, "action_repeat": ACTION_REPEAT, **file.stated}
    seen = {"rules": file.rules, "obs_dim": file.obs_dim, "observe_physics": file.observe_physics}
    return game | seen | {"continuous": 3, "binary": 0, "mirror": False}


def make_policy(file: OnnxFile, contract: dict[str, Any], *, name: str, device: str | torch.device) -> Policy:
    """The player `name` on `device`, its model run on the CPU; raises `OnnxError` where the model cannot play."""
    actor = OnnxActor(file, device=device, threads=torch.get_num_threads())
    return Policy(cast(ActorCritic, actor), contract, name=name, deterministic=True)


def notes_on(file: OnnxFile, name: str, *, deterministic: bool) -> tuple[str, ...]:
    """What has to be said of the model besides its results; `deterministic` is what was asked of all players."""
    notes = []
    if over := _over_the_limit(file):
        notes.append(f"{name} has {over}, so the public challenge would refuse it")
    if not deterministic:
        notes.append(f"{name} is an ONNX agent, whose actions are not sampled")
    return tuple(notes)


def _over_the_limit(file: OnnxFile) -> str:
    """What the public challenge would refuse the model for, empty where it would take it."""
    limits = {"parameters": (file.parameters, MAX_PARAMETERS), "bytes": (file.size, MAX_BYTES)}
    over = [f"{found:,} {what} (at most {most:,})" for what, (found, most) in limits.items() if found > most]
    return " and ".join(over) if file.rules == "challenge" else ""
