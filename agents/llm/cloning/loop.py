"""Behaviour cloning, as a sentence: bots play, a small language model learns to write what they ordered.

Every update plays one phase of many games side by side, turns each power's position into a prompt and its bot's orders
into an answer, and takes a step of the optimizer for every batch of them; no position is seen twice. Every so often
the model is checked on held-out games and saved. The result is a folder that transformers loads.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sparring.agents.llm.cloning.imitation import learning_rate
from sparring.agents.llm.cloning.packing import batches, halve, pack
from sparring.agents.llm.cloning.run import CloneRun
from sparring.agents.run.signals import Stopped, StopRequest
from sparring.agents.run.timer import Timer
from sparring.configs.core.errors import InputError
from sparring.configs.schema import RunConfig


def train(config: RunConfig) -> Path:
    """Clone as `config` says, which must have passed `configs.validate`; returns the folder of the model.

    A run whose folder exists is continued. On Ctrl-C or SIGTERM the update in progress is finished and saved; then
    `Stopped` is raised, a `SystemExit`. Raises `InputError` where the machine or the folder does not allow it.
    """
    run = CloneRun(config)
    try:
        with StopRequest(config.grace_seconds, run.home.folder.name) as stop:
            if run.over:
                run.home.say(f"nothing left to do: {run.updates_done} updates are done, {run.updates} were asked for")
            else:
                _train(run, stop)
    except Stopped:  # in the middle of an update
        run.home.progress.say(f"{run.final} is the model of the last training state; {_hint(run)}")
        raise
    finally:
        run.close()
    if stop.asked:
        raise Stopped(stop.exit_code)
    return run.final


def _train(run: CloneRun, stop: StopRequest) -> None:
    """Do one update after another until all are done or someone asks to stop."""
    _introduce(run)
    if run.updates_done == 0:
        run.keep()  # so that there is always a state to go back to, and a model
    while not run.over and not stop.asked:
        watch = Timer()
        metrics = _update(run, watch)
        metrics |= _check(run)
        run.seconds += watch.seconds()
        speed = metrics["train/tokens"] / watch.seconds()
        run.home.logger.log(run.decisions, metrics | watch.parts() | {"time/tokens_per_second": speed})
        run.home.progress.advance("cloning", f"loss {metrics['train/answer_loss']:.3f}, {speed:,.0f} tokens/s")
        if not run.over and run.state_is_due():
            run.keep()
    _finish(run, stop)


def _update(run: CloneRun, watch: Timer) -> dict[str, float]:
    """One phase of all games, and a step for each batch of it."""
    clone = run.config.clone
    with watch.part("games"):
        groups = run.lessons.next()
    dealt = batches(groups, clone.batch_tokens)
    order = np.random.default_rng([run.config.seed, run.updates_done]).permutation(len(dealt))
    rates = [learning_rate(clone.learning_rate, run.done_after(n / len(dealt))) for n in range(1, len(dealt) + 1)]
    losses, norms, tokens = [], [], 0
    with watch.part("update"):
        for number, rate in zip(order.tolist(), rates, strict=True):
            parts = halve(dealt[number]) if run.halves else [dealt[number]]
            packed = [pack(part, pad_id=run.tokenizer.pad_token_id).to(run.device) for part in parts]
            loss, norm = run.imitator.learn(packed, rate)
            losses.append(loss)
            norms.append(norm)
            tokens += sum(batch.input_ids.numel() for batch in packed)
    run.updates_done += 1
    run.decisions += sum(map(len, groups))
    return {
        "train/answer_loss": float(np.mean(losses)),
        "train/grad_norm": float(np.mean(norms)),
        "train/learning_rate": rates[-1],
        "train/skipped_steps": float(np.sum(~np.isfinite(norms))),
        "train/tokens": tokens,
    }


def _check(run: CloneRun) -> dict[str, float]:
    """How the model does on held-out games, when that is due, and when the training is done."""
    every = run.config.evaluation.every
    if run.held_out is None or (run.updates_done % every and run.done < 1.0):
        return {}
    found = run.held_out.check(run.model)
    right, agreement = found["eval/held_out/accuracy"], found["eval/held_out/bot_agreement"]
    run.home.say(
        f"update {run.updates_done}: {right:.1%} of {run.held_out.orders} held-out orders are the bot's "
        f"(its own, asked twice: {agreement:.1%}), {found['eval/held_out/order_loss']:.3f} nats an order"
    )
    return found


def _finish(run: CloneRun, stop: StopRequest) -> None:
    """Save the model and the state, and say so."""
    try:
        run.save(interrupted=stop.asked)
    except OSError as error:
        raise InputError(f"{run.final}: cannot be written ({error.strerror}); free some space, resume") from error
    run.home.say(f"{'interrupted' if stop.asked else 'done'} after {run.updates_done} updates: {run.final}")
    if stop.asked:
        run.home.say(_hint(run))


def _hint(run: CloneRun) -> str:
    return f"continue with: python train.py resume={run.home.folder.name}"


def _introduce(run: CloneRun) -> None:
    """Say what is about to be trained, and where."""
    clone, weights = run.config.clone, sum(p.numel() for p in run.model.parameters())
    limit = f"at most {clone.minutes:g} minutes, " if clone.minutes else ""
    run.home.say(
        f"{run.home.folder.path}: {run.updates} updates, {limit}{clone.layers} layers of {clone.hidden} "
        f"({weights:,} weights), {clone.bot} in {clone.games_per_update} games, {run.device}, {run.threads} threads"
    )
