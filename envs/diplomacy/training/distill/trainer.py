"""Distillation: an order network imitates the orders of a teacher, such as the search, which needs 100 times the time.

First it creates the labels: games in which the teacher gives the orders of one power
(`envs/diplomacy/rollouts/labelled.py`). They are written to data/ in the run's folder and continued there after an
interruption. Each file is a task of an executor (`agents/distributed/tasks.py`) with `distill.workers` workers. With
`distill.player` a student plays them, so the next student learns in positions that students reach (Ross et al. 2011).
Then it trains; an update is one pass over all decisions in batches of B:

    loss = mean over units u of -log pi(a_u | s, a_1 ... a_(u - 1))        a: the teacher's orders
         + mean over decisions of (V(s) - share)^2 / 2                     in a part of the batches, `value_share`

`share` is the power's share of the sum of squares at the end of its game. Orders that the network cannot give (convoys)
are left out of the loss and count as wrong in the accuracy. Some games are held out, the same ones for every seed of
the training. On a CPU a continued run is bit-exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sparring.agents.distributed.processes import ALONE, Processes, derive_seeds
from sparring.agents.distributed.tasks import follow_tasks
from sparring.agents.policies.checkpoint import save_checkpoint
from sparring.agents.ppo.start import actor_critic_sha256
from sparring.agents.run.fidelity import machine
from sparring.agents.run.fit import Trainer
from sparring.agents.run.progress import Timer, counted, nothing_left
from sparring.agents.run.session import RunSession
from sparring.agents.run.states import TrainingState
from sparring.configs.core.device import Executor, choose_device, keep_freed_memory, make_deterministic, set_threads
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.core.files import ROOT
from sparring.configs.core.tensor_file import check_optimizer, check_tensors, pack, sha256
from sparring.configs.serialization import to_plain
from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch
from sparring.envs.diplomacy.config import DiplomacyDistillRunConfig
from sparring.envs.diplomacy.movement_batch import OrderWriter, movement_contract
from sparring.envs.diplomacy.observation import observe
from sparring.envs.diplomacy.orders.order_choices import read_choices, rows_of
from sparring.envs.diplomacy.rollouts.labelled import BOT, Labeller, LabelSettings, Rows, read_labels, write_labels
from sparring.envs.diplomacy.training.opponents import PolicyOrders, open_player
from sparring.envs.diplomacy.training.order_network import OrderNetwork
from sparring.envs.diplomacy.training.task import play_against

if TYPE_CHECKING:
    from tqdm import tqdm

SEED_USES = ("network", "games", "shuffle", "checks")
DATA = "data"
BETAS, WEIGHT_DECAY, MAX_GRAD_NORM, WARMUP = (0.9, 0.95), 0.02, 1.0, 0.03
HELD_OUT_SEED = 1901


def order_loss(network: OrderNetwork, obs: Tensor, choices: Tensor) -> Tensor:
    """Return the mean cross-entropy, nats an order, of `choices` int64 [B, n] after the teacher's for units before.

    -1 marks an order that the network cannot give.
    """
    log_probs, present = network.log_probs(obs, choices.clamp_min(0))
    labelled = present & (choices >= 0)
    return -(chosen(log_probs, choices) * labelled).sum() / labelled.sum().clamp_min(1)


def chosen(log_probs: Tensor, choices: Tensor) -> Tensor:
    """Return the log-probabilities [B, n] of `choices` [B, n], of any where a choice is -1."""
    return log_probs.gather(-1, choices.clamp_min(0).unsqueeze(-1)).squeeze(-1)


def held_out(game: Tensor, part: float) -> Tensor:
    """Return the rows of the held-out games, bool [n]: a `part` of the games `game` [n], drawn from a fixed seed."""
    numbers = game.unique()
    count = math.ceil(part * len(numbers))
    order = torch.randperm(len(numbers), generator=torch.Generator().manual_seed(HELD_OUT_SEED))
    return torch.isin(game, numbers[order[:count]])


def mean_share(rows: Rows) -> float:
    """Return the mean final share of the squares over the games of some decisions."""
    games, first = np.unique(rows["game"].numpy(), return_index=True)
    return float(rows["share"][torch.from_numpy(first)].sum() / len(games))


def open_writer(key: str, name: str) -> OrderWriter | None:
    """Open the teacher or the player, `key`; None for DumbBot as the teacher or without a player."""
    if not name or (name == BOT and key == "teacher"):
        return None
    player = open_player(name)
    if isinstance(player, str):
        wrong = f"is another bot than {BOT}; give {BOT}," if key == "teacher" else "is a bot; give"
        raise ConfigError(f"distill.{key}={name}: {wrong} search:positions=2000, a run or a policy")
    return player


def play_part(task: tuple[LabelSettings, int], bar: tqdm[NoReturn]) -> Rows:
    """Play the games of a part with that number, in a process of an executor or here."""
    settings, number = task
    writers = open_writer("teacher", settings.teacher), open_writer("player", settings.player)
    labeller = Labeller(settings, *writers, opponents=[open_player(name) for name in settings.opponents])
    try:
        return labeller.part(number)
    finally:
        labeller.close()


class DistillTrainer(Trainer):
    """Network, optimizer and labels of one run; `decisions` counts the training examples, with repetitions."""

    unit, cannot_save = "update", ""

    def __init__(self, config: DiplomacyDistillRunConfig, processes: Processes = ALONE) -> None:
        if not processes.alone:
            raise ConfigError("trainer=distill: learns in one process; start it without torchrun")
        self.config, distill = config, config.distill
        self.device, self.threads = choose_device(config.device), set_threads(config.threads)
        if config.deterministic:
            make_deterministic()
        keep_freed_memory()
        self.seeds = derive_seeds(config.seed, SEED_USES)
        self.updates = min(distill.epochs, config.max_updates or distill.epochs)
        self.updates_done, self.decisions = 0, 0
        self.contract = movement_contract(config.env.last_year)
        self.network = OrderNetwork(config.network, seed=self.seeds["network"]).to(self.device)
        weights = [weight for weight in self.network.parameters() if weight.numel()]
        groups = [
            {"params": [weight for weight in weights if weight.dim() > 1], "weight_decay": WEIGHT_DECAY},
            {"params": [weight for weight in weights if weight.dim() <= 1], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=0.0, betas=BETAS, fused=True)
        self._check_players()

    @property
    def env_steps(self) -> int:
        """Number of decisions trained on."""
        return self.decisions

    def restore_or_init(self, session: RunSession) -> None:
        """Create missing labels, read all of them, and continue from the state in `session`, if any."""
        self.session = session
        self._make_labels()
        folders = [session.folder.path / DATA] if self.config.distill.games else []
        rows = read_labels([*folders, *(ROOT / name for name in self.config.distill.data)])
        self._hash = sha256(pack(rows))
        test = held_out(rows["game"], self.config.distill.held_out)
        self.training, self.test = ({name: values[part] for name, values in rows.items()} for part in (~test, test))
        if not len(self.training["power"]):
            raise InputError(f"distill.held_out={self.config.distill.held_out}: leaves no game to train on; lower it")
        if session.found:
            self.load_state_dict(session.found)
        elif self.config.init_from:
            self._begin()

    def nothing_left(self) -> str:
        """Return the message of a run whose updates are all done."""
        return nothing_left(self.updates_done, self.updates, "distill.epochs", self.config.distill.epochs)

    def describe(self) -> Iterator[str]:
        """Yield a line with sizes, labels and the machine."""
        network, weights = self.config.network, sum(p.numel() for p in self.network.parameters())
        train, test = (len(rows["power"]) for rows in (self.training, self.test))
        yield (
            f"{self.session.folder.path}: {counted(self.updates, 'update')}, {train:,} decisions, {test:,} held out, "
            f"network {network.hidden}h/{network.blocks}b ({weights:,} weights), "
            f"{self.device}, {counted(self.threads, 'thread')}"
        )

    def update(self) -> dict[str, float]:
        """Pass over all decisions once, in an order that depends on the seed and the update's number."""
        self._timer = Timer()
        rng = np.random.default_rng([self.seeds["shuffle"], self.updates_done])
        order = torch.from_numpy(rng.permutation(len(self.training["power"])))
        parts = order.split(self.config.distill.batch_size)
        valued = rng.random(len(parts)) < self.config.distill.value_share
        losses, values, norms = [], [], []
        with self._timer.part("update"):
            for number, part in enumerate(parts):
                rate = self._rate((self.updates_done + (number + 1) / len(parts)) / self.config.distill.epochs)
                loss, value, norm = self._learn(self._batch(self.training, part), rate, valued=bool(valued[number]))
                losses.append(loss)
                norms.append(norm)
                values += [value] if valued[number] else []
        self.updates_done += 1
        self.decisions += len(order)
        metrics = {"train/order_loss": float(np.mean(losses)), "train/grad_norm": float(np.mean(norms))}
        metrics |= {"train/learning_rate": rate} | ({"train/value_loss": float(np.mean(values))} if values else {})
        return metrics | {"train/skipped_steps": float(np.sum(~np.isfinite(norms)))}

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """Compare with the teacher in held-out games; play against six DumbBots when due and at the end."""
        metrics = self._compare() if len(self.test["power"]) else {}
        interval = self.config.evaluation.every
        if interval and (not self.updates_done % interval or self.over):
            metrics |= self._play()
        return metrics | self._timer.parts

    def advance(self) -> None:
        """Do nothing."""

    def headline(self, metrics: Mapping[str, float]) -> tuple[str, str]:
        """Return the loss and the agreement."""
        parts = [f"loss {metrics['train/order_loss']:.3f}"]
        if (agreement := metrics.get("eval/held_out/accuracy")) is not None:
            parts.append(f"agreement with the teacher {agreement:.1%} of held-out orders")
        return "imitation", "; ".join(parts)

    def save_policy(self, path: Path, *, interrupted: bool) -> None:
        """Write the network."""
        about: dict[str, Any] = {"run": self.session.folder.name, "seed": self.config.seed, "update": self.updates_done}
        about |= {"env_steps": self.decisions, "interrupted": interrupted, "config": to_plain(self.config)}
        save_checkpoint(path, self.network, contract=self.contract, training=about)  # type: ignore[arg-type]

    def state_dict(self) -> dict[str, Any]:
        """Return the state between two updates."""
        numbers = {"updates": self.updates_done, "decisions": self.decisions, "labels": self._hash}
        return {**numbers, "network": self.network.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: TrainingState) -> None:
        """Continue from `state`; raises `InputError` if its labels were others."""
        stored = state.content
        if stored["labels"] != self._hash:
            raise InputError(
                f"{self.session.folder.path}: was started with other labels; restore them, or give another name"
            )
        weights = check_tensors(stored["network"], self.network.state_dict(), "network")
        moments = check_optimizer(stored["optimizer"], self.optimizer, "optimizer")
        self.network.load_state_dict(weights)
        self.optimizer.load_state_dict(moments)
        self.updates_done, self.decisions = stored["updates"], stored["decisions"]

    def summary(self) -> dict[str, Any]:
        """Return plain data for the manifest of a state."""
        minibatch = partial(actor_critic_sha256, self.network, nullcontext())  # type: ignore[arg-type]
        described = machine(self.device, deterministic=self.config.deterministic, minibatch=minibatch)
        return {"env_steps": self.decisions, **described, "torch_threads": self.threads}

    def close(self) -> None:
        """Do nothing: no threads are running."""

    def _begin(self) -> None:
        """Take the weights of `init_from`; raises `InputError` for a network of another shape."""
        name = self.config.init_from
        player = open_player(name, self.device)
        if not isinstance(player, PolicyOrders) or getattr(player.network, "shape", None) != self.network.shape:
            raise ConfigError(f"init_from={name}: is not a policy of this shape; use one with the same network")
        self.network.load_state_dict(player.network.state_dict())

    # ---- labels

    def _check_players(self) -> None:
        """Raise an error for an unusable teacher or player before the run's folder is created."""
        if not self.config.distill.games and not self.config.distill.data:
            raise ConfigError("distill.games=0: leaves no training data; set distill.data, or a number of games")
        if not self.config.distill.opponents:
            raise ConfigError("distill.opponents=[]: leaves the other powers empty; name a player, such as dumbbot")
        for key in ("teacher", "player") if self.config.distill.games else ():
            open_writer(key, getattr(self.config.distill, key))
        for name in self.config.distill.opponents if self.config.distill.games else ():
            open_player(name)

    def _make_labels(self) -> None:
        distill = self.config.distill
        if not distill.games:
            return
        settings = LabelSettings(
            distill.teacher,
            distill.games,
            self.seeds["games"],
            last_year=self.config.env.last_year,
            player=distill.player,
            slips=distill.slips,
            opponents=distill.opponents,
        )

        executor = Executor(distill.executor, workers=distill.workers, threads=self.config.threads)

        def play(missing: Sequence[int]) -> Iterator[tuple[int, Rows]]:
            tasks = [(settings, number) for number in missing]
            bar: dict[str, Any] = {"quiet": not self.config.logger.progress or executor.alone, "unit": "part"}
            parts = follow_tasks(play_part, tasks, executor, label=lambda task: f"part {task[1] + 1}", **bar)
            return ((missing[index], rows) for index, rows in parts)

        about = {"command": f"python train.py +run={self.config.run or ''} seed={self.config.seed}"}
        for number, rows in write_labels(self.session.folder.path / DATA, settings, play, about=about):
            decisions = counted(len(rows["power"]), "decision")
            self.session.say(
                f"labels: part {number + 1} of {settings.parts}, {decisions}, share {mean_share(rows):.1%}"
            )

    # ---- learning

    def _rate(self, done: float) -> float:
        """Return the learning rate at a fraction `done` of the training: a linear rise, then a cosine to zero."""
        peak = self.config.distill.learning_rate
        if done < WARMUP:
            return peak * done / WARMUP
        return peak * 0.5 * (1.0 + math.cos(math.pi * (done - WARMUP) / (1.0 - WARMUP)))

    def _batch(self, rows: Rows, part: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return observations [B, D], choices [B, n] for the most units n of a row, -1 where unknown, and shares."""
        state = {name: rows[name][part].to(self.device) for name in STATE}
        obs = observe(state, rows["power"][part].long().to(self.device), last_year=self.config.env.last_year)
        units = rows_of(obs)
        choices = read_choices(rows["orders"][part].to(self.device), units)
        most = int((units >= 0).sum(1).max())
        return obs.flatten(1), choices[:, :most], rows["share"][part].to(self.device)

    def _learn(self, batch: tuple[Tensor, Tensor, Tensor], rate: float, *, valued: bool) -> tuple[float, float, float]:
        """Take one step; return the losses and the gradient norm. A non-finite norm skips the step."""
        obs, choices, share = batch
        loss = order_loss(self.network, obs, choices)
        value = F.mse_loss(self.network.value(obs), share) / 2 if valued else torch.zeros(())
        self.optimizer.zero_grad(set_to_none=True)
        (loss + value).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), MAX_GRAD_NORM)
        if bool(torch.isfinite(norm)):
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
        return float(loss.detach()), float(value.detach()), float(norm)

    # ---- measurements

    def _compare(self) -> dict[str, float]:
        """Return the share of held-out orders that the network would give, nats an order, and R2 of the value."""
        right, nats, orders, residuals = 0, 0.0, 0, []
        for part in torch.arange(len(self.test["power"])).split(self.config.distill.batch_size):
            obs, choices, share = self._batch(self.test, part)
            log_probs, present = self.network.log_probs(obs, choices.clamp_min(0))
            labelled = present & (choices >= 0)
            right += int(((log_probs.argmax(-1) == choices) & labelled).sum())
            nats -= float((chosen(log_probs, choices) * labelled).sum())
            orders += int(present.sum())
            residuals.append(share - self.network.value(obs))
        spread = self.test["share"].var(unbiased=False).clamp_min(1e-9)
        return {
            "eval/held_out/accuracy": right / orders,
            "eval/held_out/order_loss": nats / orders,
            "eval/held_out/value_r2": 1.0 - float(torch.cat(residuals).square().mean() / spread),
        }

    def _play(self) -> dict[str, float]:
        """Play the deterministic policy against six DumbBots; return its centres and share of the squares."""
        games, last_year = self.config.evaluation.games, self.config.env.last_year
        batch = DiplomacyBatch(games, device=str(self.device), last_year=last_year, threads=self.threads)
        try:
            values = play_against(batch, self.network, BOT, seed=self.seeds["checks"])  # type: ignore[arg-type]
        finally:
            batch.close()
        centres, score = (float(values[name].double().mean()) for name in ("centres", "score"))
        self.session.say(f"update {self.updates_done}: {centres:.2f} centres, {score:.1%} of squares against six {BOT}")
        return {f"eval/{BOT}/centres": centres, f"eval/{BOT}/score": score}
