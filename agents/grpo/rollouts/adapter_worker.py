"""The language models of a rollout in one process: one base model, and a set of adapter weights for each player.

The learner's weights come with every plan. A frozen checkpoint's are read from its file at first use, and the base
model is the network with its adapters off. A player's weights are in place while it decides.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from sparring.agents.grpo.rollouts.rollout import RolloutBatch, Rollouts
from sparring.agents.llm.decoding.constraint import constraint_of
from sparring.agents.llm.decoding.prefill import CacheCounts
from sparring.agents.llm.models.adapter_file import load_adapter
from sparring.agents.llm.models.adapters import BASE, LEARNER, Adapters
from sparring.agents.llm.models.load import load_model
from sparring.agents.llm.models.lora import LoraShape
from sparring.agents.llm.transformers_backend import TransformersBackend
from sparring.configs.core.tensor_file import unpack
from sparring.configs.schema import GRPORunConfig
from sparring.curriculum.league.file import weights_path
from sparring.curriculum.league.league import BASE_MODEL, CHALLENGER
from sparring.envs.game import text_game
from sparring.envs.text import RolloutPlan

MOST_FROZEN = 64
"""Number of frozen players whose weights are kept in memory."""
NAMES = {CHALLENGER: LEARNER, BASE_MODEL: BASE}
"""Adapter names of two of the league's players."""


class AdapterRolloutWorker:
    """Rollout player with the model that `config` names; see `agents.grpo.rollouts.worker.RolloutPlayer`.

    `folder` is the run's, to which the paths of checkpoints in plans are relative.
    """

    def __init__(self, config: GRPORunConfig, folder: Path) -> None:
        self._config, self._folder = config.model, folder
        model, self._tokenizer = load_model(config.model, device=config.device)
        self._adapters = Adapters(model, LoraShape.of(config.model))
        game = text_game(config.env.id)
        self._constraint = constraint_of(self._tokenizer, game.format)
        self._rollouts = Rollouts(game.task(config), self._backend_of)
        self._paths: dict[str, str] = {}
        self._backends: dict[str, TransformersBackend] = {}

    def play(self, plan: RolloutPlan, weights: bytes) -> RolloutBatch:
        """Play a plan with the learner's packed `weights`."""
        started = time.perf_counter()
        self._adapters.restore(unpack(weights))
        reloaded = time.perf_counter() - started
        self._paths = dict(plan.paths)
        for name in self._adapters.names[:-MOST_FROZEN]:
            self._adapters.remove(name)
        backend = self._backend_of(CHALLENGER)
        backend.policy_version, backend.counts = plan.policy_version, CacheCounts()
        batch = self._rollouts.play(plan)
        batch.cache, batch.reload_seconds = backend.counts.metrics(), reloaded
        return batch

    def close(self) -> None:
        """Stop the simulators' threads."""
        self._rollouts.close()

    def _backend_of(self, name: str) -> TransformersBackend:
        if name not in self._backends:
            self._backends[name] = TransformersBackend.of(
                self._config,
                self._adapters.model,
                self._tokenizer,
                constraint=self._constraint,
                playing=lambda: self._as(name),
                name=name,
            )
        return self._backends[name]

    def _as(self, name: str) -> AbstractContextManager[Any]:
        """Return a context in which the model plays as `name`; a checkpoint is read at first use."""
        if name not in NAMES and name not in self._adapters.names:
            found = load_adapter(weights_path(self._folder, self._paths[name]), self._adapters.model)
            self._adapters.add(name, found.weights, found.shape)
        return self._adapters.playing(NAMES.get(name, name))
