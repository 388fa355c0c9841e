"""Every run file trains at one hundredth of its length, and for two updates with full-size networks."""

import json
from itertools import groupby

import pytest

from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.trainers import train
from sparring.configs.games import DOGFIGHT
from sparring.configs.load import load
from sparring.curriculum.schedule import Schedule
from sparring.envs.dogfight.rules import REGIMES
from sparring.eval import run as eval_run
from tests.configs.run_configs import PPO, run_config, run_file, slow_but

SMALL = (
    *("device=cpu", "threads=1", "max_updates=2", "logger.progress=false"),
    *("env.num_envs=14", "ppo.rollout_steps=4", "ppo.minibatch_size=56", "ppo.epochs=1"),
)
# Runs of other trainers have tests of their own, such as tests/agents/language/cloning/test_clone.py.
PACKAGES = {
    "lunar_lander": "Box2D",
    "half_cheetah": "mujoco",
    "inverted_pendulum": "mujoco",
    "zoo_pistonball": "pymunk",
}
"""Runs that need an extra which `dev` does not include."""
# A hundredth of best_response is one update; tests/eval/test_exploit.py trains it.
ONE_OF_A_KIND = (
    *("baseline_v1", "self_play", "unified_dr_gpu_v1"),
    *("diplomacy_ppo", "frozen_lake", "openspiel", "pettingzoo"),
)
"""One for every game and kind of network."""
NARROW = {"unified_dr_gpu_v1": ["network.hidden=32"]}
"""Its network of 768 by four blocks takes ten times as long as the others."""
THREE_PHASES = [run for run in PPO if len(run_file(run)["phases"]) == 3]
OTHERS = [run for run in PPO if run not in (*THREE_PHASES, "best_response")]
IN_EVERY_TEST_RUN = (
    *("curriculum_floor", "gymnasium", "gymnasium_continuous", "frozen_lake"),
    *("diplomacy_ppo", "unified_dr_cpu"),  # the self-play and the checks of the latter are those of self_play
)
"""Every kind of schedule, action and observation; `make slow` trains the others, whose sizes and shares differ."""


def need_packages(run):
    if run in PACKAGES:
        pytest.importorskip(PACKAGES[run])


@pytest.mark.parametrize("run", ONE_OF_A_KIND)
def test_every_run_trains_two_updates(run, with_trial, tmp_path, capsys):
    """This includes the length estimate, which most tests skip."""
    need_packages(run)
    final = train(load([f"+run={run}", *SMALL, *NARROW.get(run, []), f"checkpoint_dir={tmp_path}"]))
    adjective, callsign, rest = final.parent.name.split("-", 2)
    assert adjective.isalpha()
    assert callsign.isalpha()
    assert rest == run
    assert load_checkpoint(final).training["update"] == 2
    rows = [json.loads(line) for line in (final.parent / "metrics.jsonl").read_text().splitlines()]
    assert [row["env_steps"] for row in rows if "event" not in row] == [56, 112]
    assert "Ctrl-C stops it and keeps the policy" in capsys.readouterr().out


TINY = (
    *("device=cpu", "threads=1", "logger.progress=false", "network.hidden=16", "network.blocks=0", "ppo.epochs=1"),
    *("ppo.precision=fp32", "init_from=''"),  # no policy has a network as small as this
)
SECONDS = ("env.action_repeat=120",)
"""Steps of a whole second, so that a match is over after 90 of them."""
SEATS = {"zoo_simple_tag": 4, "zoo_knights": 4, "zoo_pursuit": 8}
"""Of games of the zoo with more than two: a number of matches must be a multiple."""
GYMNASIUM = ("gymnasium", "gymnasium_continuous", "frozen_lake")
FEW = ("ppo.rollout_steps=32", "ppo.minibatch_size=32")
SHORT = (*SECONDS, "ppo.rollout_steps=8", "ppo.minibatch_size=52")
START = 1000.0
"""Of every rating."""


def rehearse(run, tmp_path, *options):
    """Train the run at one hundredth to its end; return configuration, folder and metrics rows."""
    config = load([f"+run={run}", "scale=0.01", *TINY, *options, f"checkpoint_dir={tmp_path}", "name=small"])
    folder = train(config).parent
    return config, folder, [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def plans(config):
    """Return the schedule of every update of a configuration."""
    schedule = Schedule(config.phases)
    updates = min(schedule.total_updates, config.max_updates or schedule.total_updates)
    return [schedule.plan(update, {}) for update in range(updates)]


def in_order(places):
    return [place for place, _ in groupby(places)]


def rows_with(rows, key):
    return [row for row in rows if key in row]


def check_dogfight(run, config, folder, rows):
    """Check phases, stages and events as in the full run; evaluations, snapshots and ratings."""
    met = in_order((row["curriculum/phase"], row["curriculum/stage"]) for row in rows)
    assert met == in_order((plan.phase_index, plan.stage) for plan in plans(run_config(run)))
    moved = sum(row["rollout/matches"] for row in rows) > 0
    assert (rows[-1]["league/elo"] != START) == moved
    wanted = config.evaluation
    for every, key in (
        (wanted.every, "eval/do_nothing/win_rate"),
        (wanted.check_every, "guard/check_win_rate"),
        *((wanted.regimes_every, f"eval/{wanted.check_bot}/{regime}/win_rate") for regime in REGIMES),
    ):
        assert len(rows_with(rows, key)) == (len(rows) // every if every else 0), key
        assert bool(rows_with(rows, key)) == bool(every), key
    assert len(list(folder.glob("step_*.pt"))) == len(rows) // config.checkpoint_every


@pytest.mark.parametrize("run", slow_but(IN_EVERY_TEST_RUN, OTHERS))
def test_hundredth_of_run_trains_to_end(run, tmp_path):
    need_packages(run)
    dogfight = run_config(run).env.id == DOGFIGHT
    zoo = ("phases.0.updates=2", f"env.num_envs={SEATS.get(run, 2)}", "ppo.minibatch_size=8", "ppo.rollout_steps=16")
    few = FEW if run in GYMNASIUM else zoo if run.startswith("zoo_") else ()
    config, folder, rows = rehearse(run, tmp_path, *(SHORT if dogfight else few))
    assert len(rows) == len(plans(config)) > 1
    final = load_checkpoint(folder / "final.pt").training
    assert (final["update"], final["interrupted"]) == (len(rows), False)
    snapshots = {f"{event.snapshot}.pt" for phase in config.phases for event in phase.events if event.snapshot}
    assert snapshots <= {path.name for path in folder.iterdir()}
    if dogfight:
        check_dogfight(run, config, folder, rows)


@pytest.mark.parametrize("run", slow_but(IN_EVERY_TEST_RUN, THREE_PHASES))
def test_three_phases_at_one_hundredth(run, tmp_path, capsys):
    """With rollouts in which matches end; exploration begins elsewhere than at the -1 that events set it back to.

    A small entropy bonus leaves it there.
    """
    sizes = ("env.num_envs=26", "ppo.rollout_steps=12")
    options = (*SECONDS, *sizes, "network.log_std_init=-0.5", "ppo.entropy_coefficient=0.003")
    config, folder, rows = rehearse(run, tmp_path, *options)
    check_dogfight(run, config, folder, rows)
    assert in_order(row["curriculum/phase"] for row in rows) == [0, 1, 2]
    assert rows[-1]["curriculum/scripted_share"] == pytest.approx(config.phases[-1].scripted_end)
    assert rows[-1]["curriculum/randomization"] == pytest.approx(1.0)
    reset = next(plan.update for plan in plans(config) if any(event.log_std is not None for event in plan.events))
    assert [row["train/log_std_0"] < -0.75 for row in rows] == [update >= reset for update in range(len(rows))]
    check_pool(config, folder, rows)
    assert eval_run.main(["--ckpt", str(folder / "final.pt"), "--games", "4", "--opponents", "bots"]) == 0
    assert "brawler" in capsys.readouterr().out


def due_updates(config, rows):
    """Return the first self-play update, and all that may add a snapshot; a final bots-only part adds none."""
    alone = [row["curriculum/scripted_share"] == 1.0 for row in rows]
    first = alone.index(False)
    updates = range(first, len(rows), config.self_play.snapshot_every)
    return first, [update for update in updates if not alone[update]]


def check_pool(config, folder, rows):
    """Check snapshots at the first self-play update and every interval; they are met and rated."""
    first, updates = due_updates(config, rows)
    due = [f"snapshot_{update:06d}.pt" for update in updates]
    assert len(due) > 1
    assert sorted(path.name for path in (folder / "pool").glob("*.pt")) == due
    assert rows[-1]["league/pool_size"] == len(due)
    met = rows_with(rows, "rollout/selfplay/win_rate")
    assert met
    assert rows[-1]["league/elo"] != rows[first]["league/elo"] != START
    ratings = [(row["league/pool_elo_mean"], row["league/pool_elo_best"]) for row in rows[first:]]
    assert len({*ratings}) > 1


@pytest.mark.slow
def test_promotion_is_tested_at_one_hundredth(tmp_path):
    """The learner has hardly learned, so that a test of few games may refuse it; nothing else may keep it out.

    Half of the hundredth has tests enough.
    """
    sizes = (*SECONDS, "env.num_envs=26", "ppo.rollout_steps=12")
    config, folder, rows = rehearse(
        "unified_dr_cpu", tmp_path, "self_play.promotion_games=40", "max_updates=30", *sizes
    )
    _, updates = due_updates(config, rows)
    tests = len(updates) - 1
    promoted = len(list((folder / "pool").glob("*.pt"))) - 1
    assert tests > 0
    assert rows[-1]["league/refused"] + promoted == tests


@pytest.mark.parametrize("options", [["env.rules=challenge"], ["env.observe_physics=false"]])
def test_other_observations_train_and_meet_themselves(options, tmp_path):
    selfplay = ["phases.0.scripted_start=0.5", "phases.0.scripted_end=0.5", "evaluation.every=2", "evaluation.games=2"]
    final = train(load(["+run=quickstart", *SMALL, *options, *selfplay, f"checkpoint_dir={tmp_path}"]))
    checkpoint = load_checkpoint(final)
    size = 224 if "env.rules=challenge" in options else 46
    assert checkpoint.contract["obs_dim"] == checkpoint.network.obs_dim == size
    assert [path.name for path in (final.parent / "pool").glob("*.pt")] == ["snapshot_000000.pt"]


@pytest.mark.filterwarnings("error")
def test_large_run_explains_fp16_fallback_once_on_cpu(tmp_path, capfd):
    final = train(load(["+run=unified_dr_gpu_v3", *SMALL, f"checkpoint_dir={tmp_path}", "max_updates=1"]))
    words = "ppo.precision=fp16 requires CUDA; this device is cpu and trains in "
    streams = capfd.readouterr()
    assert (streams.out.count(words), streams.err.count("precision")) == (1, 0)
    assert (final.parent / "events.jsonl").read_text().count(words) == 1
