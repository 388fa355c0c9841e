"""An ONNX model as the network of a `Policy`: the same actions for any number of matches at once.

A model with a fixed batch size of one gets a free batch dimension, and the result is compared with the original, row
by row, on probe observations. If the graph does not allow that (a fixed reshape, an operation across rows), every row
is run separately. No state is kept between calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.agents.opponents.onnx_file import OnnxError, OnnxFile, export_package

TOLERANCE = 1e-5
"""Maximum difference of a steering action between a row in a batch and the row alone."""
BATCH = "sparring_batch"
"""Name of the free dimension."""
_PROBES = 48


@dataclass(frozen=True)
class ActionForm:
    """Columns of an action: those that steer, in [low, high], then switches, on above 0, then indices of choices."""

    low: np.ndarray
    high: np.ndarray
    switches: int
    noun: str = "an action"
    """An action in words."""

    def same(self, one: np.ndarray, expected: np.ndarray) -> bool:
        """Return whether actions [B, A] agree: clamped steering within `TOLERANCE`, equal switches and choices."""
        end, last = len(self.low), len(self.low) + self.switches
        steering = [np.clip(actions[:, :end], self.low, self.high) for actions in (one, expected)]
        close = np.abs(steering[0] - steering[1]) <= TOLERANCE
        switched = np.array_equal(one[:, end:last] > 0.0, expected[:, end:last] > 0.0)
        return bool(close.all() and switched and np.array_equal(one[:, last:], expected[:, last:]))


class OnnxActor:
    """Subset of `PolicyNetwork` used by `Policy`, run by onnxruntime on the CPU with `threads` threads.

    Raises `OnnxError` for a model that cannot be run, whose actions are not [1, A] or not finite, or that is not
    deterministic.
    """

    memory_size, samples = 0, False

    def __init__(
        self, file: OnnxFile, actions: ActionForm, *, device: str | torch.device = "cpu", threads: int = 1
    ) -> None:
        self.path, self.obs_dim, self.actions = file.path, file.obs_dim, actions
        self.log_std = torch.zeros(0, device=device)  # Policy reads its device from here.
        self._threads = threads
        self._single = _Session(file.model.SerializeToString(), threads, file)
        probes = probe_observations(file.obs_dim)
        expected = self._check(probes)
        self.batched = self._set_batch_free(file, probes, expected)
        """Session that runs all rows at once, None if each is run separately."""

    def act(self, obs: Tensor, *, deterministic: bool = True, generator: object = None) -> tuple[Tensor, Tensor]:
        """Return actions [B, A] for observations [B, D], and zeros [B], since the model gives no log-probabilities.

        `deterministic` and `generator` are ignored: the model is deterministic.
        """
        actions = torch.from_numpy(self.run(obs.detach().cpu().numpy())).to(obs.device)
        return actions, torch.zeros(len(obs), device=obs.device)

    def run(self, observations: np.ndarray) -> np.ndarray:
        """Return actions float32 [B, A] for observations float32 [B, D]. Raises `OnnxError` if the model fails."""
        if self.batched is not None:
            return self.batched.run(observations)
        return self._one_by_one(observations)

    def _one_by_one(self, observations: np.ndarray) -> np.ndarray:
        return np.concatenate([self._single.run(row[None]) for row in observations])

    def _check(self, probes: np.ndarray) -> np.ndarray:
        """Return the original model's actions for the probes, after checking them."""
        expected = self._one_by_one(probes)
        if not np.isfinite(expected).all():
            bad = int((~np.isfinite(expected).all(axis=1)).sum())
            raise OnnxError(
                f"{self.path}: returns NaN or infinite actions for {bad} of {len(probes)} probe observations; "
                f"expected finite {self.actions.noun}"
            )
        if not self.actions.same(expected, self._one_by_one(probes)):
            raise OnnxError(
                f"{self.path}: answers the same observation differently when asked again; wanted is a model without "
                f"random operators"
            )
        return expected

    def _set_batch_free(self, file: OnnxFile, probes: np.ndarray, expected: np.ndarray) -> _Session | None:
        """Return the model with a free batch dimension, or None if that changes its actions."""
        try:
            session = _Session(with_free_batch(file.model), self._threads, file)
            results = [session.run(probes[:count]) for count in (1, 3, len(probes))]
            reverse = session.run(np.ascontiguousarray(probes[::-1]))[::-1]
        except OnnxError:
            return None
        alike = all(self.actions.same(expected[: len(result)], result) for result in [*results, reverse])
        return session if alike else None


class _Session:
    """Deterministic onnxruntime session whose threads sleep while waiting."""

    def __init__(self, data: bytes, threads: int, file: OnnxFile) -> None:
        runtime = export_package("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.execution_mode = runtime.ExecutionMode.ORT_SEQUENTIAL
        options.use_deterministic_compute = True
        options.log_severity_level = 4
        # Threads that spin while waiting would take the cores from the simulator.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._path, self._columns, self._made_from = file.path, file.columns, (data, threads, file)
        self._wanted, self._outputs = file.wanted, [file.output] if file.output else None
        try:
            self._session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # A foreign model may raise any exception.
            raise OnnxError(f"{self._path}: cannot be run by onnxruntime {runtime.__version__} ({error})") from error
        self._input = self._session.get_inputs()[0].name

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy the arguments: a copy is another session of the same model."""
        return _Session, self._made_from

    def run(self, observations: np.ndarray) -> np.ndarray:
        """Return actions float32 [B, A] for observations float32 [B, D]."""
        try:
            (actions,) = self._session.run(self._outputs, {self._input: observations})
        except Exception as error:  # A foreign model may raise any exception.
            raise OnnxError(f"{self._path}: fails on {list(observations.shape)} observations ({error})") from error
        count, columns = len(observations), self._columns
        if actions.dtype != np.float32 or actions.size != columns * count or actions.shape[-1] != columns:
            shape = f"{actions.dtype} {list(actions.shape)}"
            raise OnnxError(f"{self._path}: answers {count} observations with {shape}; wanted is {self._wanted}")
        return actions.reshape(count, columns)


def with_free_batch(model: Any) -> bytes:
    """Return the serialized model with a free first dimension of input and output."""
    copy = type(model)()
    copy.CopyFrom(model)
    weights = {tensor.name for tensor in copy.graph.initializer}
    for value in [*(entry for entry in copy.graph.input if entry.name not in weights), *copy.graph.output]:
        if value.type.tensor_type.shape.dim:
            value.type.tensor_type.shape.dim[0].dim_param = BATCH
    del copy.graph.value_info[:]  # Intermediate shapes were inferred for the old dimension.
    return bytes(copy.SerializeToString())


def probe_observations(obs_dim: int) -> np.ndarray:
    """Return fixed observations float32 [48, D]: random in [-1, 1], one all zeros, one with only a first frame."""
    probes = np.random.default_rng(0).uniform(-1.0, 1.0, (_PROBES, obs_dim)).astype(np.float32)
    probes[1] = 0.0
    probes[2, obs_dim // 4 :] = 0.0  # Under challenge rules a match starts with three empty frames.
    return probes
