"""Everything one behaviour cloning holds, built from its configuration or set back to where it was last saved.

`clone.py` says what is done with it. The model, the games it learns from and the held-out ones each have a seed of
their own; the order of an update's batches depends on the seed and the update's number alone. On a CPU a continued run
goes on bit for bit, unless `clone.minutes` lets the clock decide how it is annealed.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from sparring.agents.distributed.threads import keep_freed_memory, make_deterministic, set_threads
from sparring.agents.llm.cloning.bot_games import BotGames
from sparring.agents.llm.cloning.clone_dataset import CloneDataset
from sparring.agents.llm.cloning.held_out import HeldOut
from sparring.agents.llm.cloning.imitation import Imitator
from sparring.agents.llm.models.saved_model import save_model
from sparring.agents.llm.models.tiny import build_tiny
from sparring.agents.llm.models.tokenizer import diplomacy_tokenizer
from sparring.agents.run.resume_fidelity import machine
from sparring.agents.run.session import RunSession
from sparring.configs.core.device import choose_device, usable_cores
from sparring.configs.schema import RunConfig
from sparring.configs.serialization import to_plain
from sparring.envs.diplomacy.text.prompts import PromptRules

SEED_USES = ("model", "games", "held_out")


class CloneRun:
    """The parts of a run. Making one creates its folder or continues what is in it; `close` ends what it opened.

    With `halves` each batch is computed in two, on half of the threads each. `updates_done` are finished, `decisions`
    were learned from, and `seconds` have been spent on it, saving apart.
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.device = choose_device(config.device)
        self.threads = config.threads or usable_cores()
        self.halves = self.threads > 1 and self.device.type == "cpu"
        set_threads(self.threads // 2 if self.halves else self.threads)
        if config.deterministic:
            make_deterministic()
        keep_freed_memory()
        words = np.random.SeedSequence(config.seed).generate_state(len(SEED_USES))
        self.seeds = dict(zip(SEED_USES, (words >> 1).tolist(), strict=True))
        self.updates = min(config.clone.updates, config.max_updates or config.clone.updates)
        self.updates_done, self.decisions, self.seconds = 0, 0, 0.0
        self.home = RunSession(config, total=self.updates)
        self.final = self.home.folder.path / "final"
        try:
            self._build()
        except BaseException:
            self.home.close()
            raise

    def _build(self) -> None:
        config, clone = self.config, self.config.clone
        self.tokenizer, rules = diplomacy_tokenizer(), PromptRules.of(config.model)
        shape = {"hidden": clone.hidden, "layers": clone.layers, "heads": clone.heads}
        self.model = build_tiny(self.tokenizer, **shape, seed=self.seeds["model"]).to(self.device)
        self.imitator = Imitator(self.model, halves=self.halves)
        self.lessons = CloneDataset(self._games(clone.games_per_update, "games"), self.tokenizer, rules)
        self.held_out: HeldOut | None = None
        if config.evaluation.every:
            games = self._games(config.evaluation.games, "held_out")
            self.held_out = HeldOut(CloneDataset(games, self.tokenizer, rules), self.tokenizer)
            games.close()
        self._saved_at = time.monotonic()
        if self.home.found:
            self._restore(self.home.found.content)
        self.home.greet(self.updates_done, self._summary())

    def _games(self, games: int, use: str) -> BotGames:
        clone, last_year = self.config.clone, self.config.env.last_year
        return BotGames(games, bot=clone.bot, last_year=last_year, seed=self.seeds[use], threads=self.threads)

    @property
    def done(self) -> float:
        """How much of the training is done, 0 to 1: of its updates, or of its minutes where that is more."""
        return self.done_after(0.0)

    def done_after(self, share: float) -> float:
        """How much will be done after a share of the next update."""
        clone = self.config.clone
        spent = self.seconds / (60.0 * clone.minutes) if clone.minutes else 0.0
        return min(1.0, max((self.updates_done + share) / clone.updates, spent))

    @property
    def over(self) -> bool:
        """Whether nothing is left to do in this sitting."""
        return self.updates_done >= self.updates or self.done >= 1.0

    def state_is_due(self) -> bool:
        """Whether enough updates or minutes have passed for another training state."""
        minutes = self.config.checkpoint_minutes
        late = minutes > 0 and time.monotonic() - self._saved_at >= 60.0 * minutes
        return late or self.updates_done % self.config.checkpoint_every == 0

    def save(self, *, interrupted: bool) -> None:
        """Publish the model, then the training state. Raises `OSError` where that is not possible."""
        self._saved_at = time.monotonic()
        save_model(self.final, self.model, self.tokenizer, training=self._training(interrupted))
        self.home.save_state(self.updates_done, self._state(), self._summary())

    def keep(self) -> None:
        """Save if that is possible; a full or vanished disk is an alert and no end."""
        try:
            self.save(interrupted=True)
        except OSError as error:
            self.home.alert(f"nothing is saved ({error.strerror}); training goes on, earlier states are whole")

    def close(self) -> None:
        """End the simulator's threads, the logs and the bar, and let another trainer in."""
        self.lessons.games.close()
        self.imitator.close()
        self.home.close()

    def _state(self) -> dict[str, Any]:
        return {
            "updates": self.updates_done,
            "decisions": self.decisions,
            "seconds": self.seconds,
            "imitator": self.imitator.state_dict(),
            "games": self.lessons.games.state_dict(),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.updates_done, self.decisions, self.seconds = state["updates"], state["decisions"], state["seconds"]
        self.imitator.load_state_dict(state["imitator"])
        self.lessons.games.load_state_dict(state["games"])

    def _summary(self) -> dict[str, Any]:
        """What a state's manifest says of it."""
        halves = {"halves": True} if self.halves else {}  # earlier states do not say so where there were none
        return {"env_steps": self.decisions, **machine(self.device), "torch_threads": self.threads, **halves}

    def _training(self, interrupted: bool) -> dict[str, Any]:
        """What the model's manifest says of how it was made."""
        made = {"run": self.home.folder.name, "seed": self.config.seed, "updates": self.updates_done}
        return made | {"decisions": self.decisions, "interrupted": interrupted, "config": to_plain(self.config)}
