"""Everything one GRPO run holds: its home, the model with its adapters, the learner, the league, and who plays.

Step t plans the games of step t + depth before it trains, with the weights and the league of that moment, so a run is a
function of its seed. A training state holds all of it, the plans under way with their weights too.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from sparring.agents.distributed.threads import keep_freed_memory, make_deterministic, set_threads
from sparring.agents.grpo.evaluation import ReferenceEvaluation
from sparring.agents.grpo.learner import GRPOLearner
from sparring.agents.grpo.rollouts.adapter_worker import AdapterRolloutWorker
from sparring.agents.grpo.rollouts.plan import RolloutPlan, draw_plan
from sparring.agents.grpo.rollouts.rollout_workers import InProcess, Workers
from sparring.agents.grpo.rollouts.worker import RolloutJob
from sparring.agents.grpo.training_state import capture, check_base, restore, summary
from sparring.agents.llm.decoding.output_layer import check_finite
from sparring.agents.llm.models.adapter_file import load_adapter, save_adapter
from sparring.agents.llm.models.adapters import BASE, AdapterError, Adapters
from sparring.agents.llm.models.identity import base_identity, first_identity
from sparring.agents.llm.models.load import load_model
from sparring.agents.llm.models.lora import LoraShape
from sparring.agents.run.guard import Guard
from sparring.agents.run.session import RunSession
from sparring.agents.run.states import TrainingState
from sparring.configs.core.device import choose_device
from sparring.configs.core.tensor_file import pack
from sparring.configs.language import DIPLOMACY_BOTS
from sparring.configs.schema import RunConfig
from sparring.curriculum.league.file import LeagueFile
from sparring.curriculum.league.inheritance import inherit
from sparring.curriculum.league.league import League, enter_checkpoint, new_league
from sparring.curriculum.league.matchmaking import draw_opponents
from sparring.curriculum.league.serialization import read_league


class GRPORun:
    """The parts of a run. Making one creates its folder or continues what is in it; `close` ends what it opened."""

    def __init__(self, config: RunConfig) -> None:
        self.config, self.grpo = config, config.grpo
        self.device = choose_device(config.device)
        self.threads = set_threads(config.threads)
        if config.deterministic:
            make_deterministic()
        keep_freed_memory()
        self.steps = min(self.grpo.steps, config.max_updates or self.grpo.steps)
        self.done, self.decisions, self.years = 0, 0, 0.0
        self.slowest = 0.0
        """Seconds of the slowest rollout of this sitting."""
        model, tokenizer = load_model(config.model, device=config.device)
        self.adapters = Adapters(model, LoraShape.of(config.model), seed=config.seed)
        if config.model.adapter:
            self._begin_with(Path(config.model.adapter))
        check_finite(self.adapters.model)
        self.base = base_identity(self.adapters.model)
        self.evaluation = ReferenceEvaluation(config, self.adapters, tokenizer, threads=self.threads)
        self.learner = GRPOLearner(
            self.adapters.model,
            self.adapters.parameters(),
            config,
            base=self.base,
            without_adapters=lambda: self.adapters.playing(BASE),
            seed=config.seed,
        )
        self.home = RunSession(config, total=self.steps, unit="step")
        try:
            self._settle()
        except BaseException:
            self.home.close()
            raise

    def _begin_with(self, path: Path) -> None:
        """Make the adapter in a file the learner's."""
        found = load_adapter(path, self.adapters.model)
        try:
            self.adapters.restore(found.weights, found.shape)
        except AdapterError as error:
            raise AdapterError(f"model.adapter={path}: {error}") from error

    def _settle(self) -> None:
        """Begin the league and the players, and go back to the state that was found."""
        self.guard = Guard(self.config.guard, self.learner, alert=self.home.alert)
        self.league_file = LeagueFile(self.home.folder.path)
        found = self.home.found
        if found:
            check_base(found, self.adapters.model, self.config.model.name)
        self.league = self._saved_league(found) if found else self._first_league()
        self.players = self._players()
        self._saved_at = time.monotonic()
        try:
            if found:
                restore(self, found.content)
            self.home.greet(self.done, summary(self))
        except BaseException:
            self.players.close()
            raise

    def close(self) -> None:
        """End the players, the logs and the bar."""
        self.players.close()
        self.home.close()

    @property
    def depth(self) -> int:
        """How many steps ahead games are played."""
        return self.grpo.buffer_depth

    def plan_ahead(self) -> None:
        """Hand out the plans of all steps up to `depth` from now that nobody plays yet."""
        planned = self.done + len(self.players.tasks)
        for step in range(planned, min(self.done + self.depth + 1, self.grpo.steps)):
            self.players.submit(RolloutJob(self._plan(step), self._weights()))

    def policy(self) -> dict[str, Any]:
        """What a policy file says of how it was trained."""
        return {"run": self.home.folder.name, "seed": self.config.seed, "step": self.done, "decisions": self.decisions}

    def save_policy(self, path: Path) -> None:
        """Write the adapter; equal adapters give equal bytes."""
        adapters = self.adapters
        save_adapter(path, adapters.model, adapters.shape, adapters.weights(), training=self.policy())

    def join_league(self) -> None:
        """Let the learner as it is now become one of those to meet."""
        path = self.home.folder.path / f"step_{self.done:06d}.pt"
        self.save_policy(path)
        name = f"checkpoint_{self.done:06d}"
        if name not in self.league.agents:
            self.league = self.league_file.change(
                lambda league: enter_checkpoint(league, step=self.done, path=path.name)
            )

    def state_is_due(self) -> bool:
        """Whether enough steps or minutes have passed for another training state."""
        minutes = self.config.checkpoint_minutes
        late = minutes > 0 and time.monotonic() - self._saved_at >= 60.0 * minutes
        return self.guard.sound and (late or self.done % self.config.checkpoint_every == 0)

    def save_state(self) -> None:
        """Publish the training state."""
        self._saved_at = time.monotonic()
        self.home.save_state(self.done, capture(self), summary(self))

    def roll_back(self) -> bool:
        """Go back to the newest good state but keep what the guard learned; False where there is none."""
        found = self.home.states.latest()
        if found is None:
            return False
        kept = self.guard.state_dict()
        self.players.close()
        self.players = self._players()
        restore(self, found.content)
        self.guard.load_state_dict(kept)
        self.home.logger.rewind(found.content["logger"])
        self.home.progress.skip(self.done)
        self.home.alert(f"rolled back to {found.path.name}")
        return True

    def _players(self) -> InProcess | Workers:
        if self.depth == 0:
            return InProcess(self.config, AdapterRolloutWorker)
        return Workers(self.config, AdapterRolloutWorker, self.home.alert)

    def _plan(self, step: int) -> RolloutPlan:
        league, options = self.league, self.config.league
        return draw_plan(
            self.grpo,
            step=step,
            policy_version=self.learner.version,
            seed=self.config.seed,
            draw=lambda rng: draw_opponents(league, options, step=step, steps=self.grpo.steps, rng=rng),
            league=league,
            folder=self.home.folder.path,
        )

    def _weights(self) -> bytes:
        return pack(self.adapters.weights())

    def _first_league(self) -> League:
        """The league that is there; where there is none, a new one, or one that begins with another run's."""
        config, folder = self.config.league, self.home.folder.path
        if self.league_file.path.exists():
            return self.league_file.read()
        league = new_league(DIPLOMACY_BOTS, self.base, initial_elo=config.initial_elo)
        if config.inherit:
            also = (first_identity(self.adapters.model),)
            league = inherit(league, folder, folder.parent / config.inherit, also=also)
        return self.league_file.begin(league)

    def _saved_league(self, found: TrainingState) -> League:
        """The league of a training state; a file that cannot be read is kept, as `restore` is about to replace it."""
        damaged = self.league_file.put_aside_damaged()
        if damaged:
            self.home.alert(f"{damaged}, and the league of {found.path.name} is used")
        return read_league(found.content["league"])
