"""Behaviour cloning: bots play, and a language model learns to write their orders.

The model is a new small one in the game's tokens, or a given one with its own tokenizer (`first_model`). Every update
plays one phase of many parallel games. Each power's position becomes a prompt and its bot's orders the answer; every
batch is one optimizer step. No position is seen twice. The result is a folder that transformers can load. The model,
the training games and the held-out games have separate seeds. The order of an update's batches depends only on the seed
and the update's number. On a CPU a resumed run is bit-exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sparring.agents.distributed.processes import ALONE, Processes, derive_seeds
from sparring.agents.language.backend import ModelError
from sparring.agents.language.cloning.dataset import CloneDataset, batches, halve, pack
from sparring.agents.language.cloning.held_out import HeldOut, HeldOutText
from sparring.agents.language.cloning.imitation import Imitator, learning_rate
from sparring.agents.language.decoding.forward import check_context, check_finite, check_head
from sparring.agents.language.models.adapters import language_model_sha256
from sparring.agents.language.models.load import load_model
from sparring.agents.language.models.saved_model import save_model
from sparring.agents.language.models.tiny import build_tiny, game_tokenizer
from sparring.agents.run.fidelity import machine
from sparring.agents.run.progress import Timer, counted, nothing_left
from sparring.agents.run.session import RunSession
from sparring.agents.run.states import TrainingState
from sparring.configs.core.device import choose_device, keep_freed_memory, make_deterministic, set_threads, usable_cores
from sparring.configs.language import NEW_MODEL
from sparring.configs.language.runs import CloneRunConfig
from sparring.configs.serialization import to_plain
from sparring.envs.game import game_with_id
from sparring.envs.text import Demonstrations, text_game

SEED_USES = ("model", "games", "held_out")


def first_model(config: CloneRunConfig, *, seed: int) -> tuple[Any, Any]:
    """Return the model, with random weights from `seed` if it is new, and its tokenizer.

    Raises `ModelError` for a model that is missing, damaged, or could not play after the training.
    """
    if config.model.name == NEW_MODEL:
        clone, tokenizer = config.clone, game_tokenizer(game_with_id(config.game_id).name)
        shape = {"hidden": clone.hidden, "layers": clone.layers, "heads": clone.heads}
        model = build_tiny(tokenizer, **shape, seed=seed, init_std=clone.init_std)
        return model.to(choose_device(config.device)), tokenizer
    model, tokenizer = load_model(config.model, device=config.device)
    check_finite(model)
    check_head(model)
    check_context(model)
    if tokenizer.eos_token_id is None:
        raise ModelError(f"model {config.model.name}: its tokenizer has no end of text; set its eos_token")
    return model, tokenizer


class CloneTrainer:
    """Model, optimizer and games of one run.

    With `halves` each batch is computed in two parts, with half of the threads each. `decisions` counts the training
    examples; `seconds` is the time spent, without saving.
    """

    unit, cannot_save = "update", ""

    def __init__(self, config: CloneRunConfig, processes: Processes = ALONE) -> None:
        self.config, clone = config, config.clone
        self.device = choose_device(config.device)
        self.threads = config.threads or usable_cores()
        self.halves = self.threads > 1 and self.device.type == "cpu"
        set_threads(self.threads // 2 if self.halves else self.threads)
        if config.deterministic:
            make_deterministic()
        keep_freed_memory()
        self.seeds = derive_seeds(config.seed, SEED_USES)
        self.updates = min(clone.updates, config.max_updates or clone.updates)
        self.updates_done, self.decisions, self.seconds = 0, 0, 0.0
        self.game = text_game(config.game_id)
        self.model, self.tokenizer = first_model(config, seed=self.seeds["model"])
        self.imitator = Imitator(self.model, halves=self.halves, optimizer=clone.optimizer)
        self.dataset = self._dataset(self._games(clone.games_per_update, "games"))
        self.held_out: HeldOut | HeldOutText | None = None

    def _games(self, games: int, use: str) -> Demonstrations:
        return self.game.demonstrations(self.config, games=games, seed=self.seeds[use], threads=self.threads)

    def _dataset(self, games: Demonstrations) -> CloneDataset:
        return CloneDataset(games, self.tokenizer, longest=getattr(self.model.config, "max_position_embeddings", None))

    @property
    def final(self) -> Path:
        """Folder of the model."""
        return self.session.folder.path / "final"

    @property
    def over(self) -> bool:
        """True once all updates are done."""
        return self.updates_done >= self.updates

    @property
    def env_steps(self) -> int:
        """Number of decisions trained on."""
        return self.decisions

    def restore_or_init(self, session: RunSession) -> None:
        """Play the held-out games, and continue from the state in `session`, if any."""
        self.session = session
        if self.config.evaluation.every:
            self.held_out = self._held_out()
        if session.found:
            self.load_state_dict(session.found)

    def _held_out(self) -> HeldOut | HeldOutText:
        if self.game.format is None:
            return HeldOutText(self.config, self.game, self.tokenizer, threads=self.threads)
        with closing(self._games(self.config.evaluation.games, "held_out")) as games:
            return HeldOut(self._dataset(games), self.tokenizer, self.game.format)

    def nothing_left(self) -> str:
        """Return the message of a run whose updates are all done."""
        return nothing_left(self.updates_done, self.updates, "clone.updates", self.config.clone.updates)

    def describe(self) -> Iterator[str]:
        """Yield a line with sizes, the bot, and the machine."""
        clone, name = self.config.clone, self.config.model.name
        origin = f"{clone.layers} layers of {clone.hidden}" if name == NEW_MODEL else f"from {name}"
        weights = sum(p.numel() for p in self.model.parameters())
        yield (
            f"{self.session.folder.path}: {counted(self.updates, 'update')}, "
            f"{origin} ({weights:,} weights), {self.dataset.games.source}, {self.device}, "
            f"{counted(self.threads, 'thread')}"
        )

    def update(self) -> dict[str, float]:
        """Play one phase of all games, and take one step per batch."""
        clone, self._timer = self.config.clone, Timer()
        with self._timer.part("games"):
            groups = self.dataset.next()
        dealt = batches(groups, clone.batch_tokens)
        order = np.random.default_rng([self.config.seed, self.updates_done]).permutation(len(dealt))
        parts = [(self.updates_done + number / len(dealt)) / clone.updates for number in range(1, len(dealt) + 1)]
        rates = [learning_rate(clone.learning_rate, done) for done in parts]
        losses, norms, self._tokens = [], [], 0
        with self._timer.part("update"):
            for number, rate in zip(order.tolist(), rates, strict=True):
                halves = halve(dealt[number]) if self.halves else [dealt[number]]
                packed = [pack(part, pad_id=self.tokenizer.eos_token_id).to(self.device) for part in halves]
                loss, norm = self.imitator.learn(packed, rate)
                losses.append(loss)
                norms.append(norm)
                self._tokens += sum(batch.input_ids.numel() for batch in packed)
        self.updates_done += 1
        self.decisions += sum(map(len, groups))
        return {
            "train/answer_loss": float(np.mean(losses)),
            "train/grad_norm": float(np.mean(norms)),
            "train/learning_rate": rates[-1],
            "train/skipped_steps": float(np.sum(~np.isfinite(norms))),
            "train/tokens": self._tokens,
        }

    def evaluate(self) -> dict[str, float]:
        """Score the held-out games, when due and at the end of the training; return this with the timings."""
        metrics, last = {}, self.updates_done >= self.config.clone.updates
        if self.held_out and (last or not self.updates_done % self.config.evaluation.every):
            metrics = self.held_out.check(self.model)
            self.session.say(f"update {self.updates_done}: {self.held_out.describe(metrics)}")
        return metrics | self._timer.parts | {"time/tokens_per_second": self._tokens / self._timer.seconds()}

    def advance(self) -> None:
        """Add the time of the update."""
        self.seconds += self._timer.seconds()

    def headline(self, metrics: Mapping[str, float]) -> tuple[str, str]:
        """Return the loss and the speed."""
        speed = metrics["time/tokens_per_second"]
        return "cloning", f"loss {metrics['train/answer_loss']:.3f}; {speed:,.0f} tokens/s"

    def save_policy(self, path: Path, *, interrupted: bool) -> None:
        """Write the model and its tokenizer."""
        training = {"run": self.session.folder.name, "seed": self.config.seed, "updates": self.updates_done}
        training |= {"decisions": self.decisions, "interrupted": interrupted, "config": to_plain(self.config)}
        save_model(path, self.model, self.tokenizer, training=training)

    def state_dict(self) -> dict[str, Any]:
        """Return the state between two updates."""
        return {
            "updates": self.updates_done,
            "decisions": self.decisions,
            "seconds": self.seconds,
            "imitator": self.imitator.state_dict(),
            "games": self.dataset.games.state_dict(),
        }

    def load_state_dict(self, state: TrainingState) -> None:
        """Continue from `state`."""
        stored = state.content
        self.imitator.load_state_dict(stored["imitator"])
        self.dataset.games.load_state_dict(stored["games"])
        self.updates_done, self.decisions, self.seconds = stored["updates"], stored["decisions"], stored["seconds"]

    def summary(self) -> dict[str, Any]:
        """Return plain data for the manifest of a state."""
        halves = {"halves": True} if self.halves else {}  # earlier states without halves lack this key
        minibatch = partial(language_model_sha256, self.model, self.model.parameters())
        described = machine(self.device, deterministic=self.config.deterministic, minibatch=minibatch)
        return {"env_steps": self.decisions, **described, "torch_threads": self.threads, **halves}

    def close(self) -> None:
        """Stop the threads of the simulator and of the optimizer."""
        self.dataset.games.close()
        self.imitator.close()
