"""TRL's side of `llm.py`: its GRPOTrainer on the same model, adapter, prompts, batch and length of answers.

TRL has no constraint here: it draws from the whole vocabulary, and answers are made as long as ours are on average by
forbidding the end. Both trainers take one step of the optimizer for a batch, with a KL penalty to the model without its
adapter, in float32 and without gradient checkpointing.
"""

from __future__ import annotations

import tempfile
import time
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.llm_parts.work import BETA, LORA, RATE, TEMPERATURE, Size, begin, model_of, requests_of
from sparring.agents.language.models.adapters import lora_config

WARM_UP = 1


def measure(size: Size, *, rounds: int, threads: int, length: int) -> dict[str, float]:
    """Return medians over `rounds` steps after one to warm up, answers having `length` tokens; learning is the rest."""
    begin(threads, size.seed)
    with tempfile.TemporaryDirectory() as folder:
        steps = _train(size, folder, WARM_UP + rounds, length)[WARM_UP:]
    total, sample = (np.array(part) for part in zip(*steps, strict=True))
    return {"sample": float(np.median(sample)), "learn": float(np.median(total - sample)), "answer": float(length)}


def _train(size: Size, folder: str, steps: int, length: int) -> list[tuple[float, float]]:
    """Seconds of each step: all of it, and in transformers' `generate`."""
    from datasets import Dataset
    from transformers import GenerationMixin
    from trl import GRPOTrainer

    model, tokenizer = model_of(size)
    prompts = [request.text for request in requests_of(size)[:: size.samples]]
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=_reward,
        args=_arguments(size, folder, steps, length),
        train_dataset=Dataset.from_dict({"prompt": prompts}),
        processing_class=tokenizer,
        peft_config=lora_config(model, LORA),
        callbacks=[stopwatch := _stopwatch()],
    )
    generate: Any = GenerationMixin.generate

    def timed(*args: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return generate(*args, **options)
        finally:
            stopwatch.sampling += time.perf_counter() - began

    with patch.object(GenerationMixin, "generate", timed):
        trainer.train()
    assert all(sampling > 0 for _, sampling in stopwatch.steps)
    return stopwatch.steps


def _stopwatch() -> Any:
    """Return a callback that records `steps`; defined here, since its base class is from transformers."""
    from transformers import TrainerCallback

    class Stopwatch(TrainerCallback):
        """Return the callback; `sampling` is the time of this step in `generate`."""

        def __init__(self) -> None:
            self.steps: list[tuple[float, float]] = []
            self.sampling, self.began = 0.0, 0.0

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.sampling, self.began = 0.0, time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.steps.append((time.perf_counter() - self.began, self.sampling))

    return Stopwatch()


def _arguments(size: Size, folder: str, steps: int, length: int) -> Any:
    from trl import GRPOConfig

    return GRPOConfig(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=size.groups * size.samples,
        num_generations=size.samples,
        max_completion_length=length,
        generation_kwargs={"min_new_tokens": length},
        temperature=TEMPERATURE,
        beta=BETA,
        learning_rate=RATE,
        loss_type="grpo",
        use_cpu=True,
        bf16=False,
        use_vllm=False,
        gradient_checkpointing=False,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        seed=size.seed,
    )


def _reward(completions: list[Any], **_: Any) -> list[float | None]:
    """Return rewards that differ within a group, whatever they are."""
    return [float(number % 2) for number in range(len(completions))]
