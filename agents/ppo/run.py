"""Everything one training run holds, built from its configuration; `loop.py` says what is done with it.

Every use of chance has a generator of its own, begun by a number derived from `config.seed`, so that drawing more of
one kind (an extra check, say) leaves all the others as they were.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from agents.checkpoint import save_checkpoint
from agents.duel import Duel
from agents.logger import open_logger
from agents.machine import choose_device, keep_freed_memory, set_threads
from agents.matches import Setting
from agents.ppo.checks import Checks
from agents.ppo.network import ActorCritic
from agents.ppo.precision import Autocast
from agents.ppo.progress import Progress
from agents.ppo.rollout import Rollout
from agents.ppo.selfplay import League
from agents.ppo.update import Learner
from agents.run_folder import RunFolder
from configs.plain import to_plain
from configs.schema import RunConfig
from curriculum.pool import Pool
from curriculum.schedule import Plan, Schedule
from envs.dogfight.batch import DogfightBatch
from envs.dogfight.rules import MAX_TICKS

ROOT = Path(__file__).resolve().parents[2]
SEED_USES = ("network", "env", "actions", "opponents", "shuffle", "league", "checks")


class Run:
    """The parts of a run. Making one creates its folder; `close` ends what it opened."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.device = choose_device(config.device)
        self.threads = set_threads(config.threads)
        keep_freed_memory()
        seeds = derive_seeds(config.seed)
        self.schedule = Schedule(config.phases)
        self.updates = min(self.schedule.total_updates, config.max_updates or self.schedule.total_updates)
        self.steps_per_update = config.ppo.rollout_steps * config.env.num_envs
        self.batch = make_batch(config, self.device, self.threads, seed=seeds["env"])
        self.network = make_network(config, self.batch, seed=seeds["network"])
        self.autocast = Autocast(config.ppo.precision, self.device, warmup_updates=config.ppo.warmup_updates)
        self.learner = Learner(self.network, config.ppo, self.autocast, seed=seeds["shuffle"], threads=self.threads)
        self.duel = make_duel(config, self.batch, self.network, seed=seeds["opponents"])
        self.rollout = make_rollout(config, self.batch)
        self.actions = torch.Generator(self.device).manual_seed(seeds["actions"])
        self._open(seeds)

    def _open(self, seeds: dict[str, int]) -> None:
        """Make the folder and what writes into it, once nothing else can be refused any more."""
        config = self.config
        self.folder = RunFolder.create(ROOT / config.checkpoint_dir, config.name, config.run)
        self.folder.write_config(to_plain(config))
        pool = Pool(self.folder.pool, config.self_play.pool_size, config.self_play.eviction, shape=self.network.shape)
        self.league = League(self.duel, pool, config.self_play, seed=seeds["league"])
        self.logger = open_logger(config.logger, self.folder.path, self.folder.name, to_plain(config))
        self.progress = Progress(self.updates, shown=config.logger.progress)
        setting = check_setting(config, self.device, self.threads)
        self.checks = Checks(config.evaluation, setting, self.say, seed=seeds["checks"])

    def say(self, text: str) -> None:
        """Tell the person at the terminal, and the log."""
        self.progress.say(text)
        self.logger.event(text)

    def env_steps(self, plan: Plan) -> int:
        """Decisions of the learner up to the end of the update that `plan` is for, over all matches."""
        return (plan.update + 1) * self.steps_per_update

    def save(self, path: Path, plan: Plan, *, done: bool = True, interrupted: bool = False) -> None:
        """Write the policy to `path`, as it is after `plan`'s update, or before it where `done` is false."""
        updates = plan.update + done
        training = {
            "run": self.folder.name,
            "seed": self.config.seed,
            "update": updates,
            "env_steps": updates * self.steps_per_update,
            "phase": plan.phase,
            "randomization": str(plan.randomization),
            "win_rates": self.league.scores.win_rates(),
            "elo": self.league.ratings.learner,
            "interrupted": interrupted,
            "config": to_plain(self.config),
        }
        save_checkpoint(path, self.network, contract=self.batch.contract, training=training)

    def close(self) -> None:
        """End the logs, the bar and all threads."""
        self.progress.close()
        self.logger.close()
        self.learner.close()
        self.batch.close()


def derive_seeds(seed: int) -> dict[str, int]:
    """One number in [0, 2^31) for each of `SEED_USES`."""
    words = np.random.SeedSequence(seed).generate_state(len(SEED_USES))
    return dict(zip(SEED_USES, (words >> 1).tolist(), strict=True))


def make_batch(config: RunConfig, device: torch.device, threads: int, *, seed: int) -> DogfightBatch:
    """The matches of a run."""
    env = config.env
    return DogfightBatch(
        env.num_envs,
        device=str(device),
        rules=env.rules,
        action_repeat=env.action_repeat,
        bot_rate=env.bot_rate,
        spawn=env.spawn,
        observe_physics=env.observe_physics,
        reward=env.reward,
        gamma=config.ppo.gamma,
        threads=threads,
        seed=seed,
    )


def check_setting(config: RunConfig, device: torch.device, threads: int) -> Setting:
    """What the checks' matches are played under: as in training, in the default physics."""
    env = config.env
    return Setting(
        rules=env.rules,
        action_repeat=env.action_repeat,
        bot_rate=env.bot_rate,
        spawn=env.spawn,
        observe_physics=env.observe_physics,
        device=str(device),
        threads=threads,
    )


def make_network(config: RunConfig, batch: DogfightBatch, *, seed: int) -> ActorCritic:
    """The learner, on the batch's device."""
    contract = batch.contract
    sizes = (contract["obs_dim"], contract["continuous"], contract["binary"])
    return ActorCritic(*sizes, config.network, seed=seed).to(batch.device)


def make_duel(config: RunConfig, batch: DogfightBatch, network: ActorCritic, *, seed: int) -> Duel:
    """The batch as the learner sees it."""
    return Duel(batch, slots=config.self_play.slots, network_shape=network.shape, seed=seed)


def make_rollout(config: RunConfig, batch: DogfightBatch, steps: int = 0) -> Rollout:
    """Storage for `steps` of every match, by default for a whole update's."""
    steps = steps or config.ppo.rollout_steps
    longest_match = -(-MAX_TICKS // config.env.action_repeat)
    actions = batch.contract["continuous"] + batch.contract["binary"]
    truncations = -(-steps // longest_match)
    sizes = (steps, batch.num_envs, batch.obs_dim, actions)
    return Rollout(*sizes, device=batch.device, max_truncations=truncations)
