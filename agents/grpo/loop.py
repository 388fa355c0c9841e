"""The GRPO loop, as a sentence.

Games of several steps ahead are planned and played elsewhere; the oldest batch's rewards become advantages within its
groups; the learner takes a step under the guard's eyes; the league hears how the games ended; every so often what the
learner is joins the league, and everything is saved.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NoReturn

import torch

from sparring.agents.grpo.evaluation import ReferenceResult
from sparring.agents.grpo.learner import Sample
from sparring.agents.grpo.objective.advantages import advantages
from sparring.agents.grpo.objective.groups import group_ids, mixed_share
from sparring.agents.grpo.objective.importance import DisagreementError
from sparring.agents.grpo.rollouts.rollout import RolloutBatch
from sparring.agents.grpo.rollouts.rollout_metrics import rollout_metrics
from sparring.agents.grpo.rollouts.worker import RolloutJob
from sparring.agents.grpo.run import GRPORun
from sparring.agents.run.guard import GAVE_UP, GuardVerdict, LearningFailed
from sparring.agents.run.signals import Stopped, StopRequest
from sparring.configs.core.errors import InputError
from sparring.configs.core.tensor_file import unpack
from sparring.configs.resume_changes import moving_shares
from sparring.configs.schema import RunConfig
from sparring.curriculum.league.league import CHALLENGER, is_due
from sparring.curriculum.league.matchmaking import Opponents
from sparring.curriculum.league.metrics import league_metrics
from sparring.curriculum.ratings.game_results import GameResult, ranks
from sparring.envs.diplomacy.board.codes import SOLO


def train(config: RunConfig) -> Path:
    """Train as `config` says, which must have passed `configs.validate`; returns the path of the final adapter.

    A run whose folder exists is continued. On Ctrl-C or SIGTERM the step in progress is finished and saved; then
    `Stopped` is raised, a `SystemExit`. Raises `InputError` for what the machine or the folder does not allow.
    """
    run = GRPORun(config)
    try:
        with StopRequest(config.grace_seconds, run.home.folder.name) as stop:
            _train(run, stop)
    finally:
        run.close()
    if stop.asked:
        raise Stopped(stop.exit_code)
    return run.home.folder.final


def _train(run: GRPORun, stop: StopRequest) -> None:
    """Do one step after another until all are done or someone asks to stop."""
    if run.done == 0:
        _checkpoint(run)  # so that there is always a state to go back to, and a policy to keep
    _introduce(run)
    if run.done >= run.steps:
        _save_policy(run)  # it may be lost, or of an earlier step if there was no room
        run.home.say(_nothing_left(run))
        return
    while run.done < run.steps and not stop.asked:
        if _step(run) and run.state_is_due():
            _checkpoint(run)
    _checkpoint(run)
    run.home.say(f"{'interrupted' if stop.asked else 'done'} after {run.done} steps: {run.home.folder.final}")
    if stop.asked:
        longer = f" grpo.steps={run.grpo.steps}" if "grpo.steps" in run.home.changed else ""
        run.home.say(f"continue with: python train.py resume={run.home.folder.name}{longer}")


def _nothing_left(run: GRPORun) -> str:
    """Why no step is done, and which option asks for more."""
    line = f"nothing left to do: {run.done} steps are done, {run.steps} were asked for"
    if run.done < run.grpo.steps:
        return f"{line} by max_updates, and grpo.steps={run.grpo.steps} allows more"
    moving = moving_shares(run.config.league)
    if moving:
        return (
            f"{line} by grpo.steps, at which {moving[0]} is reached; to train on, begin another run with "
            f"model.adapter={run.home.folder.final}"
        )
    return f"{line} by grpo.steps, whatever max_updates says; give grpo.steps=N to train on"


def _step(run: GRPORun) -> bool:
    """One step; False where the guard went back instead. Raises `LearningFailed` where nothing more can be learned."""
    begun = time.perf_counter()
    run.plan_ahead()
    task = run.players.tasks[0]
    batch = run.players.next()
    waited = time.perf_counter() - begun
    _check(run, batch)
    run.guard.before(run.done)
    learned = time.perf_counter()
    metrics = _learn_or_end(run, task, batch)
    metrics["benchmark/training_time_s"] = time.perf_counter() - learned
    verdict = run.guard.after(run.done, metrics)
    metrics |= _results(run, batch)
    metrics["benchmark/pipeline_overlap_s"] = max(batch.seconds - waited, 0.0)
    metrics |= run.guard.watch(metrics, 0)
    run.done += 1
    if verdict is GuardVerdict.GO_ON and is_due(run.done, run.config.league.checkpoint_every):
        run.join_league()
    check = _evaluated(run) if verdict is GuardVerdict.GO_ON and run.evaluation.is_due(run.done) else None
    run.home.logger.log(run.decisions, metrics | (check.metrics if check else {}))
    if check:
        _tell(run, check)
    run.home.progress.advance("grpo", _headline(metrics))
    if verdict is GuardVerdict.GO_ON:
        return True
    if verdict is GuardVerdict.GIVE_UP or not run.roll_back():
        _give_up(run, metrics, GAVE_UP)
    return False


def _check(run: GRPORun, batch: RolloutBatch) -> None:
    """What was played is what was planned, and no older than the buffer is deep."""
    for text in batch.alerts:
        run.home.alert(text)
    lag = run.learner.version - batch.plan.policy_version
    if batch.plan.step != run.done or not 0 <= lag <= run.depth:
        raise RuntimeError(f"step {run.done} got the batch of step {batch.plan.step}, {lag} versions old")
    if not batch.endings:
        raise InputError(
            f"step {run.done}: every game failed; {batch.alerts[0] if batch.alerts else 'no reason given'}"
        )


def _learn_or_end(run: GRPORun, task: RolloutJob, batch: RolloutBatch) -> dict[str, float]:
    """Learn from the batch of `task`, or end the run where that would be learning from wrong numbers."""
    try:
        decisions = [turn.decision for turn in batch.turns]
        agreed = run.learner.agreement(decisions, unpack(task.weights))
        return _learn(run, batch) | agreed
    except DisagreementError as error:
        if run.guard.sound:  # nothing has moved in this step, so all that was learned before can be saved
            run.players.tasks.insert(0, task)
            _checkpoint(run)
        _give_up(run, {}, f"{error}; if they are meant to differ, use grpo.use_importance_correction=true")


def _learn(run: GRPORun, batch: RolloutBatch) -> dict[str, float]:
    """Advantages, then the learner's step."""
    facts = [turn.before for turn in batch.turns]
    ids = group_ids(facts, stratified=run.grpo.use_state_stratified_groups)
    rewards = torch.tensor(batch.rewards, dtype=torch.float64)
    found = advantages(rewards, ids, run.grpo)
    values = found.values.tolist()
    used = found.used.nonzero().flatten().tolist()
    samples = [Sample(batch.turns[place].decision, values[place]) for place in used]
    metrics = run.learner.learn(samples, rate_scale=run.guard.rate_scale)
    lag = run.learner.version - 1 - batch.plan.policy_version
    extra = {"processing/mixed_share": mixed_share(facts, ids), "buffer/lag": float(lag)}
    return found.metrics | metrics | extra | {"train/learning_rate": run.grpo.learning_rate * run.guard.rate_scale}


def _results(run: GRPORun, batch: RolloutBatch) -> dict[str, float]:
    """Tell the league, and say in numbers how the games went."""
    groups = batch.plan.groups
    games = [GameResult(ending.players, ranks(ending.centres)) for ending in batch.endings]
    met = [game for game in games if len(set(game.players)) > 1]
    try:
        run.league = run.league_file.record(met)
    except OSError as error:
        run.home.alert(f"the league is not saved ({error.strerror}); training goes on")
    drawn = [
        Opponents(tuple(name for name in group.players if name != CHALLENGER), group.categories)
        for group in groups
        if group.categories
    ]
    run.decisions += len(batch.turns)
    run.years += batch.years
    win_at = SOLO if run.grpo.use_position_scoring else run.grpo.winner_threshold_sc  # what earns the bonus
    metrics = rollout_metrics(batch, [group.heroes for group in groups], win_at)
    metrics |= league_metrics(run.league, drawn, met)
    run.slowest = max(run.slowest, batch.seconds)
    metrics |= {"buffer/depth": float(run.depth), "rollout/restarts": float(run.players.restarts)}
    metrics["rollout/max_total_s"] = run.slowest
    compute = {"cumulative_simulated_years": run.years, "simulated_years_per_step": batch.years}
    compute["reward_at_compute"] = metrics.get("benchmark/reward_mean", 0.0)
    return metrics | {f"power_law/{name}": value for name, value in compute.items()}


def _evaluated(run: GRPORun) -> ReferenceResult | None:
    """A check against the players that do not change; one that cannot be played is an alert, and no end."""
    try:
        return run.evaluation.check()
    except InputError as error:
        run.home.alert(f"no check after step {run.done}: {error}")
        return None


def _tell(run: GRPORun, check: ReferenceResult) -> None:
    """Show a check whose step is logged, so that the event stands at the same number."""
    run.home.logger.event(check.table, kind="eval/summary_table")
    for line in check.table.splitlines():
        run.home.progress.say(line)


def _checkpoint(run: GRPORun) -> None:
    """Save the policy, then the state: with a state there is always a policy."""
    _save_policy(run)
    run.save_state()


def _save_policy(run: GRPORun) -> None:
    try:
        run.save_policy(run.home.folder.final)
    except OSError as error:
        run.home.alert(f"{run.home.folder.final.name} is not saved ({error.strerror}); training goes on")


def _give_up(run: GRPORun, metrics: dict[str, float], reason: str) -> NoReturn:
    """End the run with a report; the last training state is as it was."""
    path = run.home.folder.path / "guard_report.json"
    try:
        run.guard.report(path, run.done, metrics, reason=reason)
    except OSError as error:
        run.home.alert(f"{path.name} is not written ({error.strerror})")
    run.home.alert(f"the run ends after step {run.done}: {reason}; see {path}")
    raise LearningFailed(1)


def _introduce(run: GRPORun) -> None:
    """Say what is about to be trained, and where."""
    trained = sum(parameter.numel() for parameter in run.learner.parameters.values())
    grpo = run.grpo
    run.home.say(
        f"{run.home.folder.path}: {run.steps} steps of {grpo.groups} groups x {grpo.samples_per_group} games, "
        f"{run.config.model.name} with {trained:,} trained weights, {run.device}, {run.threads} threads"
    )


def _headline(metrics: dict[str, float]) -> str:
    reward, centres = metrics.get("benchmark/reward_mean", 0.0), metrics.get("game/avg_sc_count", 0.0)
    return f"reward {reward:.2f}, {centres:.1f} centres, KL {metrics.get('kl/mean', 0.0):.4f}"
