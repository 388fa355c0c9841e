"""The text matches in TRL: its `GRPOTrainer` creates one `TrlMatch` per rollout from `environment_factory`.

    python -m sparring.envs.hubs.trl_training --steps 10                 # the tiny model in Diplomacy, on a CPU
    python -m sparring.envs.hubs.trl_training --game openspiel_text --set id=leduc_poker --steps 10
    python -m sparring.envs.hubs.trl_training --model FOLDER --steps 100  # a model whose chat template has tools

A rollout is a match. TRL calls `reset` with the row's seed and puts the first prompt after the row's. Each call of the
tool `answer` plays an answer, and its result is the next prompt. The samples of a group have one row, so one seed. A
conversation has one seat where prompts hold private cards. The tiny model does not support tools. `teach_tools` makes
its tokenizer read every answer that ends with the game's closing tag, such as </orders>, as a call.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from sparring.configs.core.errors import InputError, choose
from sparring.configs.core.files import SHIPPED
from sparring.envs.game import Game, games
from sparring.envs.hubs.matches import GAMES, MATCHES, open_match
from sparring.envs.text import TextFormat, text_game

TINY = SHIPPED / "released" / "tiny"
OVER = "The match is over.\n"
"""The result of the last answer."""
SAMPLES, GROUPS = 4, 2
"""Matches per seed, and seeds per step."""
MOST_TOKENS, MOST_ANSWERS = 1536, 8
"""Limits of one match: tokens of answers and later prompts, and number of answers."""
LEARNING_RATE = 1e-4
LAST_YEAR, REWARD = 1901, "dense"
"""Of the command in Diplomacy."""

CHAT_TEMPLATE = (
    "{%- for message in messages -%}{%- if message.role == 'assistant' -%}"
    "{%- for call in message.tool_calls or [] -%}"
    "{{ call.function.name }} {{ call.function.arguments | tojson }}{%- endfor -%}"
    "{{ message.content }}{{ eos_token }}"
    "{%- else -%}{{ message.content }}{%- endif -%}{%- endfor -%}"
)
"""Prompts and results unchanged. TRL keeps the tokens of an answer, and renders calls only to check the format."""


def response_template(answers: TextFormat) -> dict[str, Any]:
    """Return the response format for transformers: up to the closing tag it is the call; without one it is text."""
    return {
        "defaults": {"role": "assistant"},
        "start_anchor": answers.opening,
        "fields": {
            "tool_calls": {
                "open_pattern": rf"\A(?!.*{OVER.strip()})(?P<text>.*?{answers.closing})",
                "repeats": True,
                "transform": {"type": "function", "function": {"name": "answer", "arguments": {"text": "{text}"}}},
            },
            "content": {},
        },
    }


class TrlMatch:
    """One match at a time, with `open_match`'s options; TRL makes as many objects as a batch has rollouts."""

    def __init__(self, **options: Any) -> None:
        self._match, self._game = open_match(**options), str(options["game"])
        self._reward, self._done = 0.0, False
        self.legal: list[str] = []
        """Legal lines of the first answer."""
        self.counts: Counter[str] = Counter()
        """Answers of this match that were read, illegal, incomplete or truncated."""

    def reset(self, seed: int, **row: Any) -> str:
        """Start the match of a row and return its first prompt. Raises `InputError` for a seed out of range."""
        self._reward, self._done = 0.0, False
        self.counts.clear()
        turn, place = self._match.start(seed), MATCHES[self._game]
        self.legal = [line for lines in turn.legal for line in lines]
        if place.private and len(self._match.seats) > 1:
            instead = f"give {place.seat_option} one seat" if place.seat_option else "ask each prompt by itself"
            raise InputError(
                f"{self._game}: a seat's prompts are for it alone, and TRL has one conversation for all; {instead}"
            )
        return turn.prompt

    def answer(self, text: str) -> str:
        """Play an answer to the last prompt.

        Args:
            text: The answer, as the prompt asks for it, such as one order a line, then </orders>.

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
        """Return the sum of the match's rewards, and abandon a match that was not played to its end."""
        if not self._done:
            self._done = True
            rewards = self._match.abandon()
            self._reward += sum(rewards.values()) / max(len(rewards), 1)
        return self._reward


def teach_tools(tokenizer: Any, game: str = GAMES[0]) -> None:
    """Set up this project's tokenizers for TRL's conversations; a tokenizer with a chat template is unchanged.

    Raises `InputError` for a game without a format for answers of such models.
    """
    if tokenizer.chat_template is None:
        answers = text_game(_owner(game).id).format
        if answers is None:
            raise InputError(f"{game}: needs a model with a chat template; give --model one")
        tokenizer.chat_template, tokenizer.response_template = CHAT_TEMPLATE, response_template(answers)


def check_tokenizer(tokenizer: Any, lines: Sequence[str]) -> None:
    """Raise `InputError` for a tokenizer that cannot write one of these lines."""
    for line in lines:
        ids = tokenizer(line, add_special_tokens=False).input_ids
        back = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        if back != line:
            raise InputError(f"tokenizer {tokenizer.name_or_path} turns {line!r} into {back!r}; give another --model")


def _owner(game: str) -> Game:
    """Return the game with matches named `game`."""
    return next(owner for owner in games() if MATCHES[game] in owner.text_matches)


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
    game = choose("game", options.get("game", GAMES[0]), GAMES)
    compact = {} if tokenizer.chat_template else dict(MATCHES[game].compact)
    options = {"game": game, **compact, **options}
    trial = TrlMatch(**options)  # rejects bad options before TRL creates its objects
    trial.reset(0)
    check_tokenizer(tokenizer, trial.legal)
    trial._match.close()
    teach_tools(tokenizer, game)
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
    parser.add_argument("--game", default=GAMES[0], help=f"{', '.join(GAMES)} (default: {GAMES[0]})")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="options of the game's matches")
    parser.add_argument("--power", help="Diplomacy: the model's power; by default seeds in sequence rotate the seats")
    parser.add_argument("--last-year", type=int, help=f"Diplomacy: the last year (default: {LAST_YEAR})")
    parser.add_argument("--reward", help=f"Diplomacy: a term of the reward (default: {REWARD})")
    parser.add_argument("--out", type=Path, default=Path("trl_matches"))
    values = vars(parser.parse_args())
    own = {name: value for name in ("power", "last_year", "reward") if (value := values.pop(name)) is not None}
    if values["game"] == GAMES[0]:
        own = {"last_year": LAST_YEAR, "reward": REWARD, **own}
    try:
        trainer = train(**own, **pairs_of(values.pop("set")), **values)
    except InputError as error:
        parser.error(str(error))
    trainer.save_model()
    for row in trainer.state.log_history:
        if "reward" in row:
            print(f"step {row['step']}: reward {row['reward']:.3f}, answers {row['tools/call_frequency']:.1f}")


def pairs_of(texts: Sequence[str]) -> dict[str, Any]:
    """Return options from texts KEY=VALUE. Raises `InputError` for other texts."""
    options: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key.isidentifier() and equals):
            raise InputError(f"--set {text}: must be KEY=VALUE, such as id=kuhn_poker")
        options[key] = int(value) if value.isdecimal() else value
    return options


if __name__ == "__main__":
    main()
