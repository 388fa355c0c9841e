"""The text matches in TRL: its `GRPOTrainer` makes one `TrlMatch` a rollout from `environment_factory`.

    python -m sparring.envs.hubs.trl_training --steps 10                 # the tiny model, on a CPU
    python -m sparring.envs.hubs.trl_training --model FOLDER --steps 100  # a model whose chat template has tools

A rollout is a match. TRL calls `reset` with the row's seed and puts the first prompt after the row's; each call of the
tool `answer` plays an answer, and its result is the next prompt. The samples of a group have one row, so one seed. The
tiny model knows no tools: `teach_tools` has its tokenizer read every answer that ends with </orders> as a call.
"""

from __future__ import annotations

import argparse
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

from sparring.configs.core.errors import InputError
from sparring.configs.core.files import SHIPPED
from sparring.envs.hubs.matches import open_match

TINY = SHIPPED / "released" / "tiny"
OVER = "The match is over.\n"
"""The result of the last answer."""
SAMPLES, GROUPS = 4, 2
"""Matches with one seed, and seeds of a step."""
MOST_TOKENS, MOST_ANSWERS = 1536, 8
"""Of one match: tokens of answers and later prompts, and answers."""
LEARNING_RATE = 1e-4
OPENING, CLOSING = "<orders>\n", "</orders>"

CHAT_TEMPLATE = (
    "{%- for message in messages -%}{%- if message.role == 'assistant' -%}"
    "{%- for call in message.tool_calls or [] -%}"
    "{{ call.function.name }} {{ call.function.arguments | tojson }}{%- endfor -%}"
    "{{ message.content }}{{ eos_token }}"
    "{%- else -%}{{ message.content }}{%- endif -%}{%- endfor -%}"
)
"""Prompts and results as they are. TRL keeps the tokens of an answer, and writes calls out only to check the form."""
RESPONSE_TEMPLATE: dict[str, Any] = {
    "defaults": {"role": "assistant"},
    "start_anchor": OPENING,
    "fields": {
        "tool_calls": {
            "open_pattern": rf"\A(?!.*{OVER.strip()})(?P<text>.*?{CLOSING})",
            "repeats": True,
            "transform": {"type": "function", "function": {"name": "answer", "arguments": {"text": "{text}"}}},
        },
        "content": {},
    },
}
"""How transformers reads an answer: up to the closing tag it is the call; without one, or after the end, it is text."""


class TrlMatch:
    """One match at a time, with `open_match`'s options; TRL makes as many objects as a batch has rollouts."""

    def __init__(self, **options: Any) -> None:
        self._match = open_match(**options)
        self._reward, self._done = 0.0, False
        self.counts: Counter[str] = Counter()
        """Answers of this match that were read, illegal, incomplete or truncated."""

    def reset(self, seed: int, **row: Any) -> str:
        """Start the match of a row and return its first prompt. Raises `InputError` for a seed out of range."""
        self._reward, self._done = 0.0, False
        self.counts.clear()
        return self._match.start(seed).prompt

    def answer(self, text: str) -> str:
        """Play an answer to the last prompt.

        Args:
            text: One order a line, then </orders>.

        Returns:
            The next prompt, or that the match is over.

        """
        if self._done:
            return OVER
        turn = self._match.answer(text)
        self._reward += turn.reward
        self._done = turn.done
        self.counts[turn.answer] += 1
        return OVER if turn.done else turn.prompt

    def get_reward(self) -> float:
        """Return the sum of the match's rewards, so far if it was not played to its end."""
        return self._reward


def teach_tools(tokenizer: Any) -> None:
    """Have the tokenizer of our own models write and read TRL's conversations; one with a chat template stays."""
    if tokenizer.chat_template is None:
        tokenizer.chat_template, tokenizer.response_template = CHAT_TEMPLATE, RESPONSE_TEMPLATE


def train(model: Path = TINY, *, out: Path, steps: int = 10, **options: Any) -> Any:
    """Train a model on matches for some steps and return TRL's trainer, with the metrics in `state.log_history`.

    `options` are those of `open_match`. Raises `InputError` without TRL, for a folder without a model, or bad options.
    """
    if steps < 1:
        raise InputError(f"--steps {steps}: must be at least 1")
    try:
        trl: Any = import_module("trl")
        transformers: Any = import_module("transformers")
        datasets: Any = import_module("datasets")
    except ImportError as error:
        raise InputError(f"TRL 1.16 or later is needed ({error}): `sparring install trl`") from error
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(model, local_files_only=True)
        network = transformers.AutoModelForCausalLM.from_pretrained(model, local_files_only=True)
    except (OSError, ValueError) as error:
        raise InputError(f"--model {model}: is not a folder of a language model; give one with config.json") from error
    options = {"game": "diplomacy", "full_prompts": tokenizer.chat_template is not None, **options}
    teach_tools(tokenizer)
    user = {"role": "user", "content": ""}
    rows = [{"prompt": [user], "seed": seed} for seed in range(steps * GROUPS)]
    trainer = trl.GRPOTrainer(
        model=network,
        args=trl.GRPOConfig(
            output_dir=str(out),
            max_steps=steps,
            per_device_train_batch_size=SAMPLES * GROUPS,
            num_generations=SAMPLES,
            max_completion_length=MOST_TOKENS,
            max_tool_calling_iterations=MOST_ANSWERS,
            learning_rate=LEARNING_RATE,
            logging_steps=1,
            report_to=[],
            bf16=False,
            gradient_checkpointing=False,
            save_strategy="no",
        ),
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
        environment_factory=lambda: TrlMatch(**options),
    )
    trainer.train()
    return trainer


def main() -> None:
    """Train and save a model in the folder --out."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--model", type=Path, default=TINY, help="folder of a model; by default the tiny one")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--power", default="", help="the model's power; by default seeds in sequence rotate the seats")
    parser.add_argument("--last-year", type=int, default=1901)
    parser.add_argument("--reward", default="dense", help="a term of the reward of Diplomacy")
    parser.add_argument("--out", type=Path, default=Path("trl_matches"))
    given = vars(parser.parse_args())
    try:
        trainer = train(**given)
    except InputError as error:
        parser.error(str(error))
    trainer.save_model()
    for row in trainer.state.log_history:
        if "reward" in row:
            print(f"step {row['step']}: reward {row['reward']:.3f}, answers {row['tools/call_frequency']:.1f}")


if __name__ == "__main__":
    main()
