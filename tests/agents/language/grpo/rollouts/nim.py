"""Nim as a text task with menus or free text, defined only for tests."""

import re
from dataclasses import dataclass

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sparring.envs.text import FreeText, GameEnding, GroupFacts, GroupPlan, Option, Prompt, RolloutPlan, TextFormat, mix

MOST = 3
HERO, BOT = "challenger", "perfect"
SMALLEST, HEAPS = 5, 3


@dataclass(frozen=True)
class Moves:
    """Take one to three sticks, never more than there are."""

    sticks: int
    lines: int = 1
    independent: bool = True
    longest: int = 1
    name: str = "the first player"

    def menu(self, line, last=-1):
        return tuple(Option(str(number), number, 0) for number in range(1, min(self.sticks, MOST) + 1))


NIM_TEXT = TextFormat(
    opening="<move>\n",
    closing="</move>",
    probes=lambda: ["1", "2", "3"],
    read=lambda text, menu: NotImplemented,
    trial=Moves(MOST),
    sample="1\n2\n<move>\n",
)


def nim_tokenizer():
    words = ["<pad>", "<end>", "sticks", "\n", "<move>", "</move>", *map(str, range(1, SMALLEST + HEAPS))]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[^ \n]+|\n"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>")


def nim_plan(step, *, groups, samples):
    """Return a plan with a heap per group; the learner moves first against a perfect player."""
    made = [GroupPlan((HERO, BOT), (0,), (), (0.0, 0.0), 0, 1, mix(step, number)) for number in range(groups)]
    return RolloutPlan(step, 0, samples, tuple(made))


class Nim:
    """The last stick wins: 1 for every decision of a game won, 0.3 of one lost by the rules, else 0."""

    def __init__(self, *, free_text):
        self._free_text = free_text

    def reset(self, plan, decide):
        self.plan, self.failed, self._steps = plan, {}, 0
        heaps = [SMALLEST + group.seed % HEAPS for group in plan.groups]
        self._sticks = [heap for heap in heaps for _ in range(plan.samples)]
        self._score = [None] * len(self._sticks)

    @property
    def over(self):
        return all(score is not None for score in self._score)

    def prompts(self):
        going = [game for game, score in enumerate(self._score) if score is None]
        return [self._prompt(game, self._sticks[game]) for game in going]

    def _prompt(self, game, sticks):
        menu = FreeText(1, "the first player") if self._free_text else Moves(sticks)
        facts = GroupFacts(game // self.plan.samples, 0, self._steps, (), sticks)
        seed = mix(self.plan.step, game, self._steps)
        return Prompt(f"{sticks} sticks\n<move>\n", menu, seed, sticks, game, 0, HERO, facts)

    def apply(self, answered):
        for prompt, answer in answered:
            self._move(prompt.game, answer.text)
        self._steps += 1

    def _move(self, game, text):
        taken = int(text) if re.fullmatch(r"[1-3]", text.strip()) else 0
        left = self._sticks[game] - taken
        if not taken or left < 0:
            self._score[game] = 0.0
        elif left == 0:
            self._score[game] = 1.0
        else:
            self._sticks[game] = left - (left % (MOST + 1) or 1)
            self._score[game] = 0.3 if self._sticks[game] == 0 else None

    def fail(self, games, why):
        for game in games:
            self.failed[game], self._score[game] = why, 0.0

    def rewards(self):
        return np.broadcast_to(np.array(self._score)[None, :, None], (self._steps, len(self._score), 2))

    def endings(self):
        won = [score == 1.0 for score in self._score]
        each = self.plan.samples
        return [GameEnding((HERO, BOT), (int(w), int(not w)), game // each) for game, w in enumerate(won)]

    def years(self):
        return float(len(self._score))

    def metrics(self):
        return {"nim/won": float(np.mean([score == 1.0 for score in self._score]))}

    def close(self):
        pass
