"""Our side of `llm.py`: sampling and learning on the same samples, a whole rollout, and the shares of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import sparring.agents.language.decoding.sampling
import sparring.agents.language.grpo.learner
from benchmarks.llm_parts.work import BETA, LAST_YEAR, LORA, RATE, TEMPERATURE, Size, begin, model_of, requests_of
from sparring.agents.language.backend import Decision
from sparring.agents.language.decoding.constraint import Constraint, Walks
from sparring.agents.language.decoding.forward import CacheCounts, Context
from sparring.agents.language.grpo.learner import GRPOLearner, Sample
from sparring.agents.language.grpo.matchmaking import Opponents
from sparring.agents.language.grpo.rollouts.rollout import Rollouts, draw_plan
from sparring.agents.language.models.adapters import BASE, Adapters
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.configs.games import DIPLOMACY_BOTS
from sparring.configs.load import load_kind
from sparring.curriculum.league.league import new_league
from sparring.envs.diplomacy.config import DiplomacyGRPORunConfig
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from sparring.envs.diplomacy.rollouts.task import DiplomacyTextTask
from sparring.envs.text import RolloutPlan

MODEL_CALLS = (
    (Context, "read"),
    (sparring.agents.language.decoding.sampling, "allowed_logits"),
    (sparring.agents.language.grpo.learner, "score"),
    (torch.Tensor, "backward"),
)
"""Functions that compute with the model's weights."""
CONSTRAINT_CALLS = ((Constraint, "compile"), (Walks, "allowed"), (Walks, "take"), (Walks, "steps"))
"""Functions that keep answers legal: tries, possible next tokens, choices made."""


class Ours:
    """The model, its backend and its learner."""

    def __init__(self, size: Size) -> None:
        self.size, self.config = size, _config(size)
        model, tokenizer = model_of(size)
        self.adapters = Adapters(model, LORA, seed=size.seed)
        self.backend = TransformersBackend(
            self.adapters.model,
            tokenizer,
            constraint=Constraint(tokenizer, DIPLOMACY_TEXT),
            temperature=TEMPERATURE,
            batch_size=size.groups * size.samples,
        )
        self.learner = GRPOLearner(
            self.adapters.model,
            self.adapters.parameters(),
            self.config,
            base="benchmark",
            without_adapters=lambda: self.adapters.playing(BASE),
            seed=size.seed,
        )

    def learn(self, decisions: Sequence[Decision]) -> None:
        """Do one step on decisions with synthetic advantages, in minibatches of the step's size."""
        signs = np.resize([1.0, -1.0], len(decisions))
        self.learner.learn([Sample(decision, sign) for decision, sign in zip(decisions, signs.tolist(), strict=True)])


def measure(size: Size, *, rounds: int, threads: int) -> dict[str, float]:
    """Return medians over the rounds, after one to warm up, on one batch of requests."""
    begin(threads, size.seed)
    ours, requests, sampling, learning = Ours(size), requests_of(size), [], []
    decisions = ours.backend.decide(requests)
    ours.learn(decisions)
    for _ in range(rounds):
        ours.backend.counts = CacheCounts()
        seconds, decisions = timed(lambda: ours.backend.decide(requests))
        sampling.append(seconds)
        learning.append(timed(lambda: ours.learn(decisions))[0])  # noqa: B023  it is called at once
    return {
        "sample": float(np.median(sampling)),
        "learn": float(np.median(learning)),
        "answer": float(np.mean([len(decision.token_ids) for decision in decisions])),
        "decided": float(np.mean([(decision.allowed_counts > 1).sum() for decision in decisions])),
        "prompt": float(np.mean([len(decision.prompt_ids) for decision in decisions])),
        "hit_rate": ours.backend.counts.metrics()["cache/hit_rate"],
        "perfect_hit_rate": perfect_hit_rate(decisions),
    }


def measure_step(size: Size, *, threads: int) -> dict[str, float]:
    """Do a step of GRPO: forked games of one year against bots, then learning from every decision."""
    begin(threads, size.seed)
    ours = Ours(size)
    rollouts = Rollouts(DiplomacyTextTask(ours.config, threads=threads), lambda name: ours.backend)
    rollouts.play(_plan(ours.config, step=0))  # kernels are compiled, menus and texts known
    with Clock() as playing:
        batch = rollouts.play(_plan(ours.config, step=1))
    with Clock() as learning:
        ours.learn([turn.decision for turn in batch.turns])
    with Clock(CONSTRAINT_CALLS) as masking:
        rollouts.play(_plan(ours.config, step=1))
    rollouts.close()
    found = {"decisions": float(len(batch.turns)), "rollout": playing.seconds, "learning": learning.seconds}
    found["outside_rollout"] = 1.0 - playing.within / playing.seconds
    found["outside_learning"] = 1.0 - learning.within / learning.seconds
    whole = playing.seconds + learning.seconds
    found["mask"] = masking.within / (masking.seconds + learning.seconds)
    return found | {"outside": 1.0 - (playing.within + learning.within) / whole}


def perfect_hit_rate(decisions: Sequence[Decision]) -> float:
    """Return the share of tokens that an unlimited cache would find: 1 - different prefixes / all prefixes.

    A text is a prompt and the tokens forced after it, up to where the answer's first choice is made.
    """
    beginnings: set[bytes] = set()
    wanted = 0
    for decision in decisions:
        forced = int(np.argmax(decision.allowed_counts > 1)) if (decision.allowed_counts > 1).any() else None
        if forced is None:
            continue  # answered without the model
        text = np.concatenate([decision.prompt_ids, decision.token_ids[:forced]]).astype(np.int32)
        wanted += len(text)
        beginnings |= {text[:length].tobytes() for length in range(1, len(text) + 1)}
    return 1.0 - len(beginnings) / wanted if wanted else 0.0


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds and the result of a call."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


class Clock:
    """Timer: `seconds` of the context, and of these those `within` given functions, by default the model's."""

    def __init__(self, calls: Sequence[tuple[Any, str]] | None = None) -> None:
        self.seconds = self.within = 0.0
        self._calls, self._inside = MODEL_CALLS if calls is None else calls, False

    def __enter__(self) -> Clock:
        self._patches = ExitStack()
        for owner, name in self._calls:
            self._patches.enter_context(patch.object(owner, name, self._watched(getattr(owner, name))))
        self._began = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._began
        self._patches.close()

    def _watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **options: Any) -> Any:
            with self._counted():
                return function(*args, **options)

        return watched

    @contextmanager
    def _counted(self) -> Iterator[None]:
        if self._inside:  # within another call that is counted
            yield
            return
        began, self._inside = time.perf_counter(), True
        try:
            yield
        finally:
            self.within += time.perf_counter() - began
            self._inside = False


def _config(size: Size) -> DiplomacyGRPORunConfig:
    batch = size.groups * size.samples
    years = ["grpo.rollout_horizon_years=1", "grpo.rollout_long_horizon_years=1", f"env.last_year={LAST_YEAR}"]
    model = [f"model.temperature={TEMPERATURE}", f"model.batch_size={batch}", f"grpo.minibatch_samples={batch}"]
    games = [f"grpo.groups={size.groups}", f"grpo.samples_per_group={size.samples}", "grpo.buffer_depth=0"]
    loss = [f"grpo.kl_beta={BETA}", f"grpo.learning_rate={RATE}", "grpo.target_kl=0"]
    return load_kind(DiplomacyGRPORunConfig, ["+run=diplomacy_exp1_quick", *years, *model, *games, *loss])


def _plan(config: DiplomacyGRPORunConfig, *, step: int) -> RolloutPlan:
    league = new_league(DIPLOMACY_BOTS, "benchmark")
    draw = {"step": step, "policy_version": 0, "seed": config.seed}
    return draw_plan(config.grpo, seats=7, **draw, draw=_bots, league=league)


def _bots(rng: np.random.Generator) -> Opponents:
    names = tuple(rng.choice(DIPLOMACY_BOTS, size=6).tolist())
    return Opponents(names, ("baseline",) * len(names))
