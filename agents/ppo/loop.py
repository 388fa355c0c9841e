"""The training loop, as a sentence.

A schedule says which opponents, on which physics, after which one-off events; the rollout fills tensors; generalized
advantage estimation; the clipped surrogate update; metrics; every so often a check, a snapshot into the pool, a
checkpoint. `train` knows nothing of command lines or of who launched it; where that was `torchrun`, all processes run
this loop at the same time, each with its share of the matches (`parallel.py`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sparring.agents.distributed.processes import Processes, joined
from sparring.agents.ppo.calibrate import estimate_seconds
from sparring.agents.ppo.peer_loss import saving_on_peer_loss
from sparring.agents.ppo.run import PPORun
from sparring.agents.run.guard import GAVE_UP, GuardVerdict, LearningFailed
from sparring.agents.run.progress import forecast
from sparring.agents.run.signals import Stopped, StopRequest
from sparring.agents.run.timer import Timer
from sparring.configs.core.errors import InputError
from sparring.configs.schema import EventConfig, RunConfig
from sparring.curriculum.schedule import SchedulePosition, TrainingPlan


def train(config: RunConfig) -> Path:
    """Train as `config` says, which must have passed `configs.validate`; returns the path of the final checkpoint.

    A relative `checkpoint_dir` lies in the repository. A run whose folder exists is continued. On Ctrl-C or SIGTERM the
    update in progress is finished and saved, marked as interrupted; then `Stopped` is raised, a `SystemExit`. Where it
    cannot be finished, the policy of the last training state is there. Raises `InputError` where the machine or the
    folder does not allow what the configuration asks.
    """
    with joined(config) as processes:
        return _run(config, processes)


def _run(config: RunConfig, processes: Processes) -> Path:
    """`train`, as one of the processes."""
    run = PPORun(config, processes)
    try:
        with StopRequest(config.grace_seconds, run.folder.name) as stop, saving_on_peer_loss(run):
            if run.position is None or run.updates_done >= run.updates:
                run.say(f"nothing left to do: {run.updates_done} updates are done, {run.updates} were asked for")
            else:
                _train(run, stop)
    except Stopped:  # in the middle of an update
        run.progress.say(f"{run.folder.final} is the policy of the last training state; {_hint(run)}")
        raise
    finally:
        run.close()
    if stop.asked:
        raise Stopped(stop.exit_code)
    return run.folder.final


def _train(run: PPORun, stop: StopRequest) -> None:
    """Do one update after another until the schedule ends, `max_updates` are done, or someone asks to stop."""
    assert run.position is not None
    plan = run.plan = run.schedule.plan(run.position, run.task.status().win_rates)
    if run.updates_done == 0 or not run.processes.led(run.folder.final.exists):
        _checkpoint(run, plan)  # so that there is always a state to go back to, and a policy to keep
    _introduce(run)
    asked = run.processes.largest
    while run.position is not None and run.updates_done < run.updates and not stop.asked_of_any(asked):
        plan = run.plan = run.schedule.plan(run.position, run.task.status().win_rates)
        if not _update(run, plan, run.position):
            continue
        run.phase, run.updates_done = plan.phase, plan.update + 1
        run.position = run.schedule.next(run.position, run.task.status().win_rates)
        if run.state_is_due():
            _checkpoint(run, plan)
    _finish(run, plan, stop)


def _checkpoint(run: PPORun, plan: TrainingPlan) -> None:
    """Save the policy, interrupted unless `_finish` comes, then the state: with a state there is always a policy."""
    run.keep(run.folder.final, _last(run, plan), interrupted=True)
    run.save_state()


def _last(run: PPORun, plan: TrainingPlan) -> TrainingPlan:
    """`plan` as that of the last finished update: it may be the next one's, and the guard may have gone back."""
    return replace(plan, update=run.updates_done - 1, phase=run.phase)


def _finish(run: PPORun, plan: TrainingPlan, stop: StopRequest) -> None:
    """Save the policy, then the state, and say so."""
    try:
        run.save(run.folder.final, _last(run, plan), interrupted=stop.asked)
    except OSError as error:
        raise InputError(
            f"{run.folder.final}: cannot be written ({error.strerror}); free some space, resume"
        ) from error
    run.save_state()
    run.say(f"{'interrupted' if stop.asked else 'done'} after {run.updates_done} updates: {run.folder.final}")
    if stop.asked:
        run.say(_hint(run))


def _hint(run: PPORun) -> str:
    return f"continue with: python train.py resume={run.folder.name}"


def _update(run: PPORun, plan: TrainingPlan, position: SchedulePosition) -> bool:
    """One update: opponents and physics, a rollout, learning, results, and whatever is due after it.

    Returns False where the guard went back to an earlier moment instead. Raises `LearningFailed` where it gave up.
    """
    watch = Timer()
    _prepare(run, plan)
    with watch.part("rollout"):
        simulator_seconds = _collect(run, plan)
    with watch.part("update"):
        verdict, metrics = _learn(run, plan, position)
    metrics |= _results(run, plan)
    checked, improved = run.task.evaluate(plan, run.network)
    metrics |= checked
    _say_checks(run, plan, checked)
    if (plan.update + 1) % run.config.checkpoint_every == 0:
        run.keep(run.folder.step(run.env_steps(plan)), plan)
    if improved:
        run.keep(run.folder.best, plan)
    metrics |= watch.metrics(steps=run.steps_per_update, simulator_seconds=simulator_seconds)
    metrics |= run.guard.watch(metrics, int(run.processes.add_up(run.task.env.quarantined.clone())))
    run.logger.log(run.env_steps(plan), metrics)
    run.progress.update(plan, run.task.status(plan).headline, metrics["time/steps_per_second"])
    if verdict is GuardVerdict.GO_ON:
        return True
    if verdict is GuardVerdict.GIVE_UP or not run.roll_back():
        _give_up(run, plan, metrics)
    return False


def _give_up(run: PPORun, plan: TrainingPlan, metrics: dict[str, float]) -> None:
    """End the run with a report; the last training state is as it was."""
    path = run.folder.path / "guard_report.json"
    try:
        if run.processes.first:
            run.guard.report(path, plan.update, metrics, reason=GAVE_UP)
    except OSError as error:
        run.alert(f"{path.name} is not written ({error.strerror})")
    run.alert(f"the run ends after update {plan.update}: {GAVE_UP}; see {path}")
    raise LearningFailed(1)


def _prepare(run: PPORun, plan: TrainingPlan) -> None:
    """Do what the plan wants done once, then set the game up."""
    if plan.bots and (plan.phase_update == 0 or plan.events):
        physics = f", physics {plan.randomization}" if run.game and run.game.randomized else ""
        run.say(f"phase {plan.phase}, update {plan.update}: {', '.join(plan.bots)}{physics}")
    for event in plan.events:
        _happen(run, event, plan)
    run.task.prepare(plan, run.network)


def _happen(run: PPORun, event: EventConfig, plan: TrainingPlan) -> None:
    """A snapshot under its own name, and then exploration begun anew."""
    if event.snapshot:
        run.keep(run.folder.named(event.snapshot), plan, done=False)
    if event.log_std is not None:
        run.learner.reset_log_std(event.log_std)


def _collect(run: PPORun, plan: TrainingPlan) -> float:
    """Play a rollout and compute its advantages; returns the seconds spent in the simulator."""
    ppo = run.config.ppo
    run.task.env.simulator_seconds = 0.0
    with run.autocast.context(plan.update):
        run.rollout.collect(run.task.env, run.network, run.noise)
        run.rollout.finish(run.network, ppo.gamma, ppo.gae_lambda)
    return run.task.env.simulator_seconds


def _learn(run: PPORun, plan: TrainingPlan, position: SchedulePosition) -> tuple[GuardVerdict, dict[str, float]]:
    """Improve the policy on the rollout, and let the guard judge; both coefficients are annealed over the schedule."""
    ppo, done = run.config.ppo, position.clock / max(run.schedule.total_updates - 1, 1)
    final = 1.0 if ppo.adaptive_kl > 0 else ppo.final_learning_rate_fraction
    learning_rate = anneal(ppo.learning_rate, final, done) * run.guard.rate_scale
    entropy_coefficient = anneal(ppo.entropy_coefficient, ppo.final_entropy_fraction, done)
    run.guard.before(plan.update)
    metrics = run.learner.update(
        run.rollout.flat(),
        number=plan.update,
        learning_rate=learning_rate,
        entropy_coefficient=entropy_coefficient,
    )
    verdict = run.guard.after(plan.update, metrics)
    rates = {"train/learning_rate": learning_rate, "train/entropy_coefficient": entropy_coefficient}
    return verdict, metrics | rates


def _results(run: PPORun, plan: TrainingPlan) -> dict[str, float]:
    """Record how the rollout's episodes ended, and say it in numbers."""
    metrics = {"rollout/reward": float(run.rollout.reward.mean())}
    if run.network.continuous:
        metrics["rollout/action_size"] = float(run.rollout.actions[..., : run.network.continuous].abs().mean())
    metrics = dict(zip(metrics, run.processes.means(list(metrics.values())), strict=True))
    return metrics | run.task.results(plan)


def _say_checks(run: PPORun, plan: TrainingPlan, checked: dict[str, float]) -> None:
    """What a check against the bots has found, if there was one."""
    rates = {bot: checked[key] for bot in plan.bots if (key := f"eval/{bot}/win_rate") in checked}
    if rates and run.game:
        found = ", ".join(f"{bot} {rate:.0%}" for bot, rate in rates.items())
        run.say(f"check after update {plan.update}, {run.game.win}: {found}")


def _introduce(run: PPORun) -> None:
    """Say what is about to be trained, where, and about how long it takes."""
    network, weights = run.config.network, sum(p.numel() for p in run.network.parameters())
    run.say(
        f"{run.folder.path}: {run.updates} updates, {run.updates * run.steps_per_update:,} env steps, "
        f"network {network.hidden}h/{network.blocks}b ({weights:,} weights), {run.device}, {run.threads} threads"
    )
    if run.autocast.note:
        run.say(run.autocast.note)
    run.say(f"{forecast(estimate_seconds(run))}Ctrl-C stops it and keeps the policy")


def anneal(start: float, final_fraction: float, done: float) -> float:
    """A coefficient on its straight way from `start` to `final_fraction` of it, at `done` in [0, 1]."""
    return start * (1.0 - done * (1.0 - final_fraction))
